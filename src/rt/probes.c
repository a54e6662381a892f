/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes (wire.h, struct wire_probe) beyond their start and stop, which are in rt_entry.S: intervals that were left
 * without a stop. An exception takes control to a landing pad further up the stack: all probes under way below end
 * there. Those of a thread that is gone are forgotten when another gets its cells.
 */
#include "rt/rt.h"

static uint64_t stamp(void)
{
    uint32_t lo, hi;
    __asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi));
    return (uint64_t)hi << 32 | lo;
}

/* count: with the first, which is no probe's. */
static struct wire_probe *cells_of(const struct rt_module *m, uint64_t delta, uint64_t *count)
{
    *count = m->has_probes && rt_is_alive(m) ? m->bytes / WIRE_PROBE_BYTES : 0;
    return (struct wire_probe *)(m->data + PAGE + delta);
}

struct moment {
    uint64_t ticks, ns; /* ns: of the thread's processor time */
};

static struct moment moment(void)
{
    uint64_t ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return (struct moment){stamp(), ns};
}

/* The interval ended at `end`; now: a reading behind it. */
static void resume(struct wire_probe *p, uint64_t end, const struct moment *now)
{
    p->ticks += end - p->start;
    p->count++;
    p->start = 0;
    if (now->ticks - p->reading_ticks <= WIRE_PROBE_READING)
        return;
    p->clocked_ticks += now->ticks - p->reading_ticks;
    p->clocked_ns += now->ns - p->reading_ns;
    p->reading_ticks = now->ticks;
    p->reading_ns = now->ns;
}

enum { OPEN_MAX = 64 }; /* probes that stay under way; more are told what this takes */
struct landing {
    uint64_t stack, at; /* at: a time stamp, before anything was done here */
    struct moment now;
    struct wire_probe *open[OPEN_MAX]; /* under way still */
    uint32_t open_count;
};

static void end_left(struct landing *l, const struct rt_module *m)
{
    uint64_t count;
    struct wire_probe *p = cells_of(m, rt_own_delta(), &count);
    for (uint64_t k = 1; k < count; k++)
        if (p[k].start && p[k].stack < l->stack)
            resume(&p[k], l->at, &l->now);
        else if (p[k].start && l->open_count < OPEN_MAX)
            l->open[l->open_count++] = &p[k];
}

/* As if no time had passed. */
static void put_off(struct wire_probe *p, uint64_t ticks, uint64_t ns)
{
    p->start += ticks;
    if (p->reading_ticks) {
        p->reading_ticks += ticks;
        p->reading_ns += ns;
    }
}

/* What this takes itself is in no interval, and is told of the whole. */
void rt_probes_landed(uint64_t stack)
{
    struct landing l = {.stack = stack};
    if (!is_counting())
        return;
    l.at = stamp();
    l.now = moment();
    for (uint32_t i = 0; i < PCB->module_count; i++)
        end_left(&l, &PCB->modules[i]);
    struct moment then = moment(); /* both clocks are read alike, so the first reading is in neither difference: */
    uint64_t took = then.ticks - l.at, ticks = then.ticks - l.now.ticks, ns = then.ns - l.now.ns;
    ns += took < 2 * ticks ? ns * (took - ticks) / ticks : ns; /* as long; but for who came in between */
    while (l.open_count--)
        put_off(l.open[l.open_count], took, ns);
    if (*WIPED && PCB->header)
        __atomic_add_fetch(&PCB->header->landed_ns, ns, __ATOMIC_RELAXED);
}

void rt_probes_forget(uint64_t delta)
{
    uint64_t count;
    for (uint32_t i = 0; (rt_config.flags & CONFIG_PROBES) && i < PCB->module_count; i++) {
        struct wire_probe *p = cells_of(&PCB->modules[i], delta, &count);
        for (uint64_t k = 1; k < count; k++) {
            p[k].cut += p[k].start != 0;
            p[k].start = p[k].reading_ticks = 0; /* the processor time was that thread's own */
        }
    }
}

/* Nearly all that comes behind is the kernel's, which takes the address space down. */
uint64_t rt_probes_exit(void)
{
    if (is_counting() && *WIPED && PCB->header)
        PCB->header->exit_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    return own_data()->at_exit;
}
