/* SPDX-License-Identifier: Apache-2.0
 * The processor's own counters, apart for user and kernel mode. Each event is tried by itself; what the kernel refuses
 * has its reason beside it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "live/impl.h"

#define PMU_READ_MISS(cache)                                                                                           \
    ((uint64_t)(cache) | PERF_COUNT_HW_CACHE_OP_READ << 8 | (uint64_t)PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} events[] = {
#define PMU(name, type, config) {name, type, config},
#include "live/pmu.def"
#undef PMU
};
enum { MODES = 2 };
static const char *const modes[MODES] = {"user", "kernel"};

struct live_counters {
    struct perf_counter all[ARRAY_LEN(events)][MODES];
    size_t open;
};

static struct perf_event_attr attr_of(const struct live_target *t, size_t event, int mode)
{
    struct perf_event_attr a = {.type = events[event].type, .size = sizeof a, .config = events[event].config};
    a.exclude_hv = 1;
    a.exclude_user = mode == 1;
    a.exclude_kernel = mode == 0;
    a.exclude_idle = 1; /* the idle loop's cycles are no computation (Monster, 4.2) */
    a.inherit = t->scope != LIVE_SYSTEM;
    a.disabled = a.enable_on_exec = t->scope == LIVE_COMMAND;
    return a;
}

static const char *text_of(int err)
{
    return err == ENOENT || err == EOPNOTSUPP || err == ENODEV || err == EINVAL
               ? "not available here: the processor, or the virtual machine, has no such counter"
               : strerror(err);
}

struct live_counters *live_counters_open(const struct live_target *t, struct arena *a, const char **why)
{
    struct live_counters *c = xmalloc(sizeof *c);
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        for (int m = 0; m < MODES; m++) {
            struct perf_event_attr attr = attr_of(t, i, m);
            c->open += perf_counter_open(&c->all[i][m], &attr, t->perf);
        }
    *why = c->open ? arena_printf(a, "%zu of %zu events; untested without a PMU", c->open, ARRAY_LEN(events) * MODES)
                   : text_of(c->all[0][0].refused);
    return c;
}

bool live_counters_any(const struct live_counters *c) { return c->open > 0; }

void live_counters_read(const struct live_counters *c, struct live_result *r)
{
    r->counters = ARENA_ARRAY(r->arena, struct live_counter, ARRAY_LEN(events) * MODES);
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        for (int m = 0; m < MODES; m++) {
            struct live_counter *out = &r->counters[r->counter_count++];
            const struct perf_counter *from = &c->all[i][m];
            *out = (struct live_counter){.name = events[i].name, .mode = modes[m], .count = NAN};
            if (!from->count)
                out->why = text_of(from->refused);
            else if (!perf_counter_read(from, &out->count, &out->part)) {
                out->count = NAN;
                out->why = "the kernel never had a counter free for it";
            }
        }
}

void live_counters_close(struct live_counters *c)
{
    for (size_t i = 0; c && i < ARRAY_LEN(events); i++)
        for (int m = 0; m < MODES; m++)
            perf_counter_close(&c->all[i][m]);
    free(c);
}
