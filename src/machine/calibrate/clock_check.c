/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's clock, found a second way. All cycles are told by a chain of one-cycle operations beside each sample
 * (lab.c); if that chain took another time than a cycle each, every figure would be off by the same factor, and nothing
 * but the clock itself would look odd. But latencies are whole numbers of cycles, on general and vector units, of one
 * cycle and of several: the longest time of which all are multiples is the cycle. No new experiment is needed for it.
 */
#include "machine/calibrate/calib.h"

#include <math.h>

/* No plain addition among them, which the chain beside the samples is made of. */
static const char *const chains[] = {"shl r64,i",     "andn r64,r64,r64",  "popcnt r64,r64", "imul r64,r64",
                                     "crc32 r64,r64", "pand x,x",          "paddd x,x",      "pshufd x,x,i",
                                     "pslld x,i",     "pmullw x,x",        "pmulld x,x",     "addsd x,x",
                                     "mulsd x,x",     "vfmadd231sd x,x,x", "aesenc x,x",     "roundsd x,x,i"};
enum { CHAINS = ARRAY_LEN(chains), MIN = 6 };

/* Multiples of this unit among them. A latency is never less than a cycle. */
static double share_of_whole(const double *latencies, size_t n, double unit)
{
    size_t whole = 0;
    for (size_t i = 0; i < n; i++) {
        double times = latencies[i] / unit;
        whole += times > 0.9 && fabs(times - round(times)) < 0.05 + 0.01 * times;
    }
    return (double)whole / (double)n;
}

double calib_clock_unit(const double *latencies, size_t n)
{
    static const double MANY = 0.75, ALL = 0.9, SHORTEST = 0.1;
    enum { LONGEST = 8 };
    if (n < MIN)
        return 1;
    double best = 0;
    for (size_t i = 0; i < n; i++)
        for (int times = 1; times <= LONGEST; times++) {
            double unit = latencies[i] / times;
            best = unit > fmax(best, SHORTEST) && share_of_whole(latencies, n, unit) >= ALL ? unit : best;
        }
    bool fits = share_of_whole(latencies, n, 1) >= MANY;
    return fits && best < 1.5 ? 1 : best;
}

static double unit_of_forms(struct calib *k)
{
    double latencies[CHAINS];
    size_t n = 0;
    for (size_t i = 0; i < k->forms.len; i++)
        for (size_t c = 0; c < CHAINS; c++)
            if (strcmp(k->forms.data[i].form, chains[c]) == 0 && k->forms.data[i].latency > 0)
                latencies[n++] = k->forms.data[i].latency;
    return calib_clock_unit(latencies, n);
}

static void time_again(struct calib *k)
{
    for (size_t i = 0; i < k->forms.len; i++)
        for (size_t c = 0; c < CHAINS; c++)
            if (strcmp(k->forms.data[i].form, chains[c]) == 0)
                timing_again(k, &k->forms.data[i]);
}

void calib_clock(struct calib *k)
{
    double unit = unit_of_forms(k);
    if (unit == 1)
        return;
    time_again(k);
    unit = unit_of_forms(k);
    if (unit > 0 && unit != 1)
        diag_warn("clock-doubtful",
                  "latencies are multiples of %.2f cycles: the chain that measures the core's clock does not take a "
                  "cycle each",
                  unit);
    else if (unit != 1)
        diag_warn("clock-doubtful",
                  "latencies are no whole numbers of cycles: the chain that measures the core's clock "
                  "may not take a cycle each");
}
