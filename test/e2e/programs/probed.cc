/* SPDX-License-Identifier: Apache-2.0
 * Procedures and loops of known processor time, left in every way: returns, tail calls, exceptions, longjmp, recursion,
 * in two threads, asleep, and by exit at the end. `probed MILLISECONDS TIMES`. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static jmp_buf back;
static int milliseconds, times;
volatile long numbers[512];

static double own_ms()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

extern "C" {
__attribute__((noipa)) void spin(double ms)
{
    for (double end = own_ms() + ms; own_ms() < end;)
        for (int i = 0; i < 512; i++)
            numbers[i] = numbers[i] + 1;
}

__attribute__((noipa)) int recursive(int depth)
{
    spin(0.25 * milliseconds);
    int below = depth ? recursive(depth - 1) : 0;
    return below + depth; /* what follows the call keeps it from becoming a loop */
}

__attribute__((noipa)) void thrower(int i)
{
    spin(milliseconds);
    if (i % 2 == 0)
        throw i;
}

__attribute__((noipa)) int catcher(int i)
{
    try {
        thrower(i);
    } catch (int x) {
        return x;
    }
    return 1;
}

__attribute__((noipa)) void jumper()
{
    spin(milliseconds);
    longjmp(back, 1);
}

__attribute__((noipa)) void sleeper()
{
    timespec t = {0, 10000000};
    spin(milliseconds);
    nanosleep(&t, nullptr);
}

__attribute__((noipa)) void tail_called(int) { spin(milliseconds); }

__attribute__((noipa)) void tail_caller(int i)
{
    spin(milliseconds);
    tail_called(i);
}

__attribute__((noipa)) void *threaded(void *)
{
    spin(milliseconds * times / 2);
    return nullptr;
}

__attribute__((noipa)) void ends_inside()
{
    spin(milliseconds * times);
    fflush(stdout);
    exit(3);
}
}

int main(int argc, char **argv)
{
    long sum = 0;
    milliseconds = argc > 1 ? atoi(argv[1]) : 5;
    times = argc > 2 ? atoi(argv[2]) : 20;
    for (volatile int i = 0; i < times; i = i + 1) {
        sum += recursive(3) + catcher(i);
        if (!setjmp(back))
            jumper();
        sleeper();
        tail_caller(i);
    }
    pthread_t one, two;
    pthread_create(&one, nullptr, threaded, nullptr);
    pthread_create(&two, nullptr, threaded, nullptr);
    pthread_join(one, nullptr);
    pthread_join(two, nullptr);
    printf("%ld\n", sum);
    ends_inside();
}
