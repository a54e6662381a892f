/* SPDX-License-Identifier: Apache-2.0
 * Functions into modes and regions, operations and stalls into cycles, the clock into idle time. */
#include "monster/monster.h"

#include <math.h>

const char *const monster_region_names[MONSTER_REGION_COUNT] = {
#define REGION(id, name, label, patterns) name,
#include "monster/regions.def"
#undef REGION
};
const char *const monster_region_labels[MONSTER_REGION_COUNT] = {
#define REGION(id, name, label, patterns) label,
#include "monster/regions.def"
#undef REGION
};
static const char *const patterns_of[MONSTER_REGION_COUNT] = {
#define REGION(id, name, label, patterns) patterns,
#include "monster/regions.def"
#undef REGION
};

enum monster_region monster_region_of(const struct monster_function *f)
{
    int k = 0;
    while (k < MONSTER_REST && !name_fits(patterns_of[k], f->name))
        k++;
    return (enum monster_region)k;
}

uint64_t monster_stalls(const uint64_t of[WIRE_COLUMN_COUNT])
{
    uint64_t sum = 0;
    for (int i = WIRE_STALL_FETCH; i <= WIRE_STALL_TLB; i++)
        sum += of[i];
    return sum;
}

double monster_cycles(const struct monster_result *r, const uint64_t of[WIRE_COLUMN_COUNT])
{
    return r->machine ? (double)of[WIRE_OPERATIONS] / r->width + (double)monster_stalls(of) : NAN;
}

double monster_cpi(const struct monster_sum *s)
{
    return s->of[WIRE_OPERATIONS] ? s->cycles / (double)s->of[WIRE_OPERATIONS] : NAN;
}

static void add(const struct monster_result *r, struct monster_sum *to, const uint64_t of[WIRE_COLUMN_COUNT])
{
    for (unsigned i = 0; i < WIRE_COLUMN_COUNT; i++)
        to->of[i] += of[i];
    to->cycles = monster_cycles(r, to->of);
}

struct monster_sums monster_sum_up(const struct monster_result *r)
{
    struct monster_sums s = {.idle_cycles = NAN};
    static const uint64_t nothing[WIRE_COLUMN_COUNT];
    for (int k = 0; k < MONSTER_REGION_COUNT; k++)
        add(r, &s.region[k], nothing);
    add(r, &s.kernel_busy, nothing);
    for (size_t i = 0; i < r->functions.len; i++) {
        const struct monster_function *f = &r->functions.data[i];
        add(r, &s.mode[f->is_kernel], f->of);
        if (!f->is_kernel)
            continue;
        enum monster_region region = monster_region_of(f);
        add(r, &s.region[region], f->of);
        if (region != MONSTER_IDLE)
            add(r, &s.kernel_busy, f->of);
    }
    uint64_t counted = s.mode[0].of[WIRE_INSTRUCTIONS] + s.mode[1].of[WIRE_INSTRUCTIONS] + WIRE_UNCOUNTED;
    s.idle_ns = (double)r->clock_ns - (double)counted * (double)(1u << r->shift);
    if (r->machine)
        s.idle_cycles = s.region[MONSTER_IDLE].cycles + s.idle_ns * (r->ghz > 0 ? r->ghz : 1);
    return s;
}
