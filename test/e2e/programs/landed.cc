/* SPDX-License-Identifier: Apache-2.0
 * Procedures that call setjmp, jump back and throw all the time, as interpreters do at each expression. `landed N`
 * prints the milliseconds of processor time that each took. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    double a = own_ms();
    int sum = sets(n);
    double b = own_ms();
    sum += jumps(n / 4);
    double c = own_ms();
    sum += throws(n / 8);
    printf("%.2f %.2f %.2f\n", b - a, c - b, own_ms() - c);
    return sum == 1;
}
