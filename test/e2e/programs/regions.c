/* SPDX-License-Identifier: Apache-2.0
 * mtool.h in C: one region of known processor time, left in a file "times", and how many markers there are. With
 * -DMAIN only a main for a library. */
#ifdef MAIN
int regions_all(int argc);
int main(int argc, char **argv)
{
    (void)argv;
    return regions_all(argc);
}
#else
#include <stdio.h>
#include <time.h>

#include "mtool.h"

volatile long numbers[512];

static double own_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(void)
{
    double begin = own_ms(), now = begin;
    MTOOL_REGION_BEGIN(all_of_it);
    for (; now < begin + 20; now = own_ms())
        for (int i = 0; i < 512; i++)
            numbers[i] = numbers[i] + 1;
    MTOOL_REGION_END(all_of_it);
    FILE *times = fopen("times", "w");
    fprintf(times, "all_of_it %.3f 1\n", now - begin);
    fclose(times);
    return 0;
}
#endif
