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
    *count = rt_is_alive(m) ? m->bytes / WIRE_PROBE_BYTES : 0;
    return (struct wire_probe *)(m->data + PAGE + delta);
}

static void resume(struct wire_probe *p, uint64_t now, uint64_t time)
{
    p->ticks += now - p->start;
    p->count++;
    p->start = 0;
    if (now - p->reading_ticks <= WIRE_PROBE_READING)
        return;
    p->clocked_ticks += now - p->reading_ticks;
    p->clocked_ns += time - p->reading_ns;
    p->reading_ticks = now;
    p->reading_ns = time;
}

void rt_probes_landed(uint64_t stack)
{
    if (!is_counting())
        return;
    uint64_t now = stamp(), time = clock_ns(CLOCK_THREAD_CPUTIME_ID), delta = rt_own_delta(), count;
    for (uint32_t i = 0; i < PCB->module_count; i++) {
        struct wire_probe *p = cells_of(&PCB->modules[i], delta, &count);
        for (uint64_t k = 1; k < count; k++)
            if (p[k].start && p[k].stack < stack)
                resume(&p[k], now, time);
    }
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
