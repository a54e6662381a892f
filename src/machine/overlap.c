/* SPDX-License-Identifier: Apache-2.0
 *
 * How far misses overlap here, if all that they need is known ahead. No description of a processor says so: it is tried
 * out, with lines of memory in random order, each of which is only asked for when the one before has come; once as they
 * are, and once prefetched some turns ahead.
 */
#include "machine/machine.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <x86intrin.h>

enum { LINE = 64, LINES = 1 << 19, LAPS = 4, TURNS = 1 << 13, AHEAD = 16 };

/* Different lines, each anywhere in a stretch of its own; the stretches in random order. */
static void choose(uint32_t *line, struct rng *rng)
{
    for (uint32_t i = 0; i < TURNS; i++)
        line[i] = i * (LINES / TURNS) + (uint32_t)rng_below(rng, LINES / TURNS);
    for (size_t i = TURNS - 1; i > 0; i--) {
        size_t j = rng_below(rng, i);
        uint32_t keep = line[i];
        line[i] = line[j];
        line[j] = keep;
    }
    for (size_t i = 0; i < AHEAD; i++)
        line[TURNS + i] = line[TURNS - 1];
}

static double turn_ticks(const char *all, const uint32_t *line, bool is_prefetched)
{
    uintptr_t last = 0; /* always: all lines hold zeros */
    for (size_t i = 0; i < TURNS; i++)
        _mm_clflush(all + (size_t)line[i] * LINE);
    _mm_mfence();
    uint64_t begin = __rdtsc();
    for (size_t i = 0; i < TURNS; i++) {
        if (is_prefetched)
            _mm_prefetch(all + (size_t)line[i + AHEAD] * LINE, _MM_HINT_T0);
        last = *(const uintptr_t *)(const void *)(all + (size_t)line[i] * LINE + last);
        __asm__ volatile("" : "+r"(last));
    }
    return (double)(__rdtsc() - begin) / TURNS;
}

double machine_try_overlap(void)
{
    double waiting = INFINITY, prefetched = INFINITY;
    struct rng rng = {1};
    size_t bytes = (size_t)LINES * LINE;
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NAN;
    for (size_t at = 0; at < bytes; at += 4096)
        *(volatile char *)(all + at) = 0;
    uint32_t *line = xmalloc((TURNS + AHEAD) * sizeof *line);
    for (int lap = 0; lap < LAPS; lap++) {
        choose(line, &rng);
        waiting = fmin(waiting, turn_ticks(all, line, false));
        choose(line, &rng);
        prefetched = fmin(prefetched, turn_ticks(all, line, true));
    }
    free(line);
    munmap(all, bytes);
    return waiting > 0 ? fmin(1, prefetched / waiting) : NAN;
}
