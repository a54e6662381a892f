/* SPDX-License-Identifier: Apache-2.0
 * Regions of known processor time, marked by mtool.h, left in every way, and some whose markers do not fit together.
 * `regions` leaves the processor milliseconds that it spent between the markers of each, by its own clock, in a file
 * "times". With -DLIBRARY all but main. */
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <thread>

#include "mtool.h"

enum { TIMES = 8 };

static double own_ms()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

volatile long numbers[512];

__attribute__((noipa)) static double spin(double ms)
{
    double begin = own_ms(), now = begin;
    for (; now < begin + ms; now = own_ms())
        for (int i = 0; i < 512; i++)
            numbers[i] = numbers[i] + 1;
    return now - begin;
}

__attribute__((noipa)) static double in_a_loop(int times)
{
    double ms = 0;
    for (int i = 0; i < times; i++) {
        MTOOL_REGION_BEGIN(turn);
        ms += spin(3);
        MTOOL_REGION_END(turn);
        spin(1);
    }
    return ms;
}

static inline double anywhere(double ms)
{
    MTOOL_REGION_BEGIN(inlined);
    double took = spin(ms);
    MTOOL_REGION_END(inlined);
    return took;
}

__attribute__((noipa)) static double grows(int n) /* the stack pointer moves between the markers */
{
    MTOOL_REGION_BEGIN(array);
    char *text = (char *)__builtin_alloca(n);
    memset(text, n, n);
    numbers[0] = numbers[0] + text[n / 2];
    double ms = spin(4);
    MTOOL_REGION_END(array);
    spin(1);
    return ms;
}

__attribute__((noipa)) static double returns(int i)
{
    MTOOL_REGION_BEGIN(left_early);
    double ms = spin(2);
    if (i % 2)
        return ms;
    ms += spin(2);
    MTOOL_REGION_END(left_early);
    spin(1);
    return ms;
}

__attribute__((noipa)) static double deeper(int depth)
{
    MTOOL_REGION_BEGIN(recursive);
    double ms = spin(2);
    if (depth)
        ms += deeper(depth - 1);
    MTOOL_REGION_END(recursive);
    numbers[1] = numbers[1] + 1;
    return ms;
}

__attribute__((noipa)) static double throws(int i)
{
    MTOOL_REGION(scope);
    double ms = spin(2);
    if (i % 2)
        throw ms;
    return ms + spin(2);
}

__attribute__((noipa)) static double catches(int i)
{
    double ms = 0;
    try {
        ms = throws(i);
    } catch (double before) {
        ms = before;
        spin(1);
    }
    return ms;
}

__attribute__((noipa)) static double chooses(int i) /* a table inside; what throws lands right behind the end */
{
    double ms = 0;
    MTOOL_REGION_BEGIN(chosen);
    switch (i) {
    case 0: ms = spin(2); break;
    case 1: numbers[3] = numbers[3] * 7; break;
    case 2: numbers[5] = numbers[7] ^ 3; break;
    case 3: ms = spin(3); break;
    case 4: ms = spin(1); break;
    case 5: numbers[2] = numbers[3] - 5; break;
    default:
        if (numbers[0] < 0)
            throw std::runtime_error("less than nothing");
        ms = spin(1);
    }
    MTOOL_REGION_END(chosen);
    return ms;
}

static jmp_buf back;
static double jumped_ms;

__attribute__((noipa)) static void jumps(int i)
{
    MTOOL_REGION_BEGIN(jumped);
    jumped_ms += spin(2);
    if (i % 2)
        longjmp(back, 1);
    MTOOL_REGION_END(jumped);
}

__attribute__((noipa)) static void jumps_back(int i)
{
    if (!setjmp(back))
        jumps(i);
}

__attribute__((noipa)) static void sometimes(int i)
{
    if (i % 2)
        MTOOL_REGION_BEGIN(unclear);
    spin(0.1);
    MTOOL_REGION_END(unclear);
}

__attribute__((noipa)) static void opens() { MTOOL_REGION_BEGIN(apart); }
__attribute__((noipa)) static void closes() { MTOOL_REGION_END(apart); }

__attribute__((noipa)) static void never(int i)
{
    MTOOL_REGION_BEGIN(not_entered);
    numbers[i] = i;
    MTOOL_REGION_END(not_entered);
}

static FILE *times;

static void say(const char *name, double ms, int entries) { fprintf(times, "%s %.3f %d\n", name, ms, entries); }

extern "C" int regions_all(int argc)
{
    times = fopen("times", "w");
    double array = 0, left = 0, chosen = 0, scope = 0, in_thread = 0, inlined = anywhere(6) + anywhere(10);
    say("turn", in_a_loop(TIMES), TIMES);
    say("inlined", inlined, 2);
    for (volatile int i = 0; i < TIMES; i = i + 1) {
        array += grows(100 + 1000 * i);
        left += returns(i);
        scope += catches(i);
        jumps_back(i);
        chosen += chooses(i);
        sometimes(i);
    }
    say("array", array, TIMES);
    say("left_early", left, TIMES);
    say("scope", scope, TIMES);
    say("chosen", chosen, TIMES);
    say("jumped", jumped_ms, TIMES);
    say("recursive", deeper(5), 1);
    std::thread other([&] {
        MTOOL_REGION_BEGIN(two_threads);
        in_thread = spin(10);
        MTOOL_REGION_END(two_threads);
    });
    MTOOL_REGION_BEGIN(two_threads);
    double here = spin(10);
    MTOOL_REGION_END(two_threads);
    other.join();
    say("two_threads", here + in_thread, 2);
    opens();
    closes();
    if (argc > 5)
        never(argc);
    fclose(times);
    return 0;
}

#ifndef LIBRARY
int main(int argc, char **) { return regions_all(argc); }
#endif
