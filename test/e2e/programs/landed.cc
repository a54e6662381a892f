/* SPDX-License-Identifier: Apache-2.0
 * Procedures that call setjmp, jump back and throw all the time, as interpreters do at each expression. `landed N
 * FILE` appends to FILE the milliseconds of processor time that each took, and what the same work took that does
 * neither; all take turns, so that a processor that changes its speed changes it for all. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 20 };

static jmp_buf back;
volatile int numbers[4096];

static double own_ms()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

extern "C" {
__attribute__((noipa)) int work(int i)
{
    int sum = i;
    for (int k = 0; k < 4096; k++)
        sum += numbers[k];
    return sum;
}

__attribute__((noipa)) int calm(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += work(i);
    return sum;
}

__attribute__((noipa)) int sets(int n)
{
    volatile int sum = 0;
    for (volatile int i = 0; i < n; i = i + 1)
        if (!setjmp(back))
            sum = sum + work(i);
    return sum;
}

__attribute__((noipa)) void jump() { longjmp(back, 1); }

__attribute__((noipa)) int jumps(int n)
{
    volatile int sum = 0;
    for (volatile int i = 0; i < n; i = i + 1) {
        sum = sum + work(i);
        if (!setjmp(back))
            jump();
    }
    return sum;
}

__attribute__((noipa)) void thrower(int i) { throw i; }

__attribute__((noipa)) int throws(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        try {
            sum += work(i);
            thrower(i);
        } catch (int x) {
            sum += x;
        }
    return sum;
}
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int n = atoi(argv[1]);
    double took[4] = {0, 0, 0, 0};
    static volatile int sum;
    for (int turn = 0; turn < TURNS; turn++) {
        double begun[5];
        begun[0] = own_ms();
        sum = sum + sets(n / TURNS);
        begun[1] = own_ms();
        sum = sum + jumps(n / 4 / TURNS);
        begun[2] = own_ms();
        sum = sum + throws(n / 8 / TURNS);
        begun[3] = own_ms();
        sum = sum + calm(n / 4 / TURNS);
        begun[4] = own_ms();
        for (int i = 0; i < 4; i++)
            took[i] += begun[i + 1] - begun[i];
    }
    FILE *out = fopen(argv[2], "a");
    return !out || fprintf(out, "[%.2f, %.2f, %.2f, %.2f]\n", took[0], took[1], took[2], took[3]) < 0 || fclose(out);
}
