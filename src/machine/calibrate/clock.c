/* SPDX-License-Identifier: Apache-2.0
 *
 * clock: does the time stamp counter tick evenly beside the system's clock, and do the processors have one clock? In a
 * virtual machine neither is a matter of course: it is stopped, moved to another host, given processors of different
 * cores. What was read is judged by itself, without a processor. Where the system takes its own clock from the same
 * counter (clocksource tsc), jumps that both make cannot be seen.
 */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>

const char *const machine_clock_fault_text[MACHINE_CLOCK_FAULT_COUNT] = {"ticks evenly", "stands still at times",
                                                                         "runs backwards at times", "jumps"};

static const double UNLIKE = 0.002,
                    UNLIKE_S =
                        1e-4; /* slewing by the system stays below the first, waiting for a processor is in error_s */
static const double STILL_S = 2e-5; /* coarse counters step every few nanoseconds */
static const double CORES_UNLIKE = 0.05,
                    COUNTERS_UNLIKE = 0.002; /* cores of one kind differ by some per cent as they please */

/* ---- readings ---- */

static uint64_t ticks_now(void)
{
    uint32_t lo, hi;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi)::"memory");
    return (uint64_t)hi << 32 | lo;
}

/* The closest of some attempts: between the two clocks another may have had the processor. */
struct machine_reading machine_clock_read(void)
{
    enum { ATTEMPTS = 5 };
    struct machine_reading best = {.error_s = INFINITY};
    for (int i = 0; i < ATTEMPTS; i++) {
        double before = time_now_s();
        uint64_t ticks = ticks_now();
        double after = time_now_s();
        if (after - before < best.error_s)
            best = (struct machine_reading){ticks, (before + after) / 2, after - before};
    }
    return best;
}

void machine_clock_read_rate(struct machine_reading readings[MACHINE_CLOCK_READINGS])
{
    for (size_t i = 0; i < MACHINE_CLOCK_READINGS; i++) {
        double until = time_now_s() + 1e-3;
        readings[i] = machine_clock_read();
        while (i + 1 < MACHINE_CLOCK_READINGS && time_now_s() < until)
            ;
    }
}

/* ---- one counter ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_rate(const struct machine_reading *r, size_t n)
{
    double *rates = xmalloc((n + 1) * sizeof *rates);
    size_t count = 0;
    for (size_t i = 1; i < n; i++)
        if (r[i].seconds > r[i - 1].seconds && r[i].ticks > r[i - 1].ticks)
            rates[count++] = (double)(r[i].ticks - r[i - 1].ticks) / (r[i].seconds - r[i - 1].seconds);
    qsort(rates, count, sizeof *rates, compare_doubles);
    double median = count ? rates[count / 2] : NAN;
    free(rates);
    return median;
}

/* Seconds that the counter went ahead of the system's clock by; below 0: behind. */
static double ahead(const struct machine_reading *a, const struct machine_reading *b, double hz)
{
    return (double)(int64_t)(b->ticks - a->ticks) / hz - (b->seconds - a->seconds);
}

static enum machine_clock_fault fault_between(const struct machine_reading *a, const struct machine_reading *b,
                                              double hz)
{
    double span = b->seconds - a->seconds;
    if ((int64_t)(b->ticks - a->ticks) < 0)
        return MACHINE_CLOCK_BACKWARDS;
    if (b->ticks == a->ticks && span > STILL_S)
        return MACHINE_CLOCK_STOPS;
    double off = isnan(hz) ? 0 : ahead(a, b, hz), allowed = UNLIKE * span + UNLIKE_S + a->error_s + b->error_s;
    return fabs(off) <= allowed ? MACHINE_CLOCK_GOOD : off < 0 ? MACHINE_CLOCK_STOPS : MACHINE_CLOCK_JUMPS;
}

struct machine_clock machine_clock_judge(const struct machine_reading *r, size_t n)
{
    struct machine_clock c = {.hz = median_rate(r, n)};
    for (size_t i = 1; i < n; i++) {
        enum machine_clock_fault f = fault_between(&r[i - 1], &r[i], c.hz);
        double off = isnan(c.hz) ? 0 : fabs(ahead(&r[i - 1], &r[i], c.hz));
        if (f == MACHINE_CLOCK_GOOD || (c.fault != MACHINE_CLOCK_GOOD && off <= c.off_s))
            continue;
        c.fault = f;
        c.off_s = off;
    }
    return c;
}

/* ---- several processors ---- */

bool machine_cpus_differ(const struct machine_cpu_clock *c, size_t n, size_t *slowest, size_t *fastest)
{
    bool counters_differ = false;
    *slowest = *fastest = 0;
    for (size_t i = 1; i < n; i++) {
        *slowest = c[i].core_hz < c[*slowest].core_hz ? i : *slowest;
        *fastest = c[i].core_hz > c[*fastest].core_hz ? i : *fastest;
        counters_differ |= fabs(c[i].tsc_hz / c[0].tsc_hz - 1) > COUNTERS_UNLIKE;
    }
    return n && (counters_differ || c[*fastest].core_hz > (1 + CORES_UNLIKE) * c[*slowest].core_hz);
}

/* The least of many chains: they are only ever lengthened. Long enough for the core to reach its speed. */
static double core_per_tick(const struct lab_bracket *b)
{
    double until = time_now_s() + 4e-3, min = INFINITY;
    do
        min = fmin(min, lab_chain_ticks(b));
    while (time_now_s() < until);
    return lab_chain_cycles(b) / min;
}

static bool look_at(int cpu, const struct lab_bracket *b, struct machine_cpu_clock *out)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) < 0)
        return false;
    struct machine_reading r[MACHINE_CLOCK_READINGS];
    machine_clock_read_rate(r);
    double hz = machine_clock_judge(r, MACHINE_CLOCK_READINGS).hz;
    *out = (struct machine_cpu_clock){cpu, hz, hz * core_per_tick(b)};
    return isfinite(out->core_hz);
}

int machine_cpus_look(struct machine_cpu_clock *out, size_t max, size_t *count)
{
    cpu_set_t allowed;
    struct lab_core *core = lab_native();
    struct lab_bracket b;
    *count = 0;
    if (!core)
        return -1;
    lab_bracket_open(&b, core);
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        max = 0; /* more processors than there is room for: none is looked at */
    for (int cpu = 0; cpu < CPU_SETSIZE && *count < max; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            *count += look_at(cpu, &b, &out[*count]);
    if (max)
        sched_setaffinity(0, sizeof allowed, &allowed);
    lab_core_free(core);
    return 0;
}
