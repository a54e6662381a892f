/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes (wire.h, struct wire_probe) beyond their start and stop, which are in rt_entry.S: intervals that were left without
 * a stop. An exception takes control to a landing pad further up the stack: all probes under way below end there. Those of
 * a thread that is gone are forgotten when another gets its cells.
 */
#include "rt/rt.h"

uint64_t rt_thread_time(void)
{
    enum { THREAD_CPUTIME = 3 };
    uint64_t now[2] = {0, 0};
    sys(SYS_clock_gettime, THREAD_CPUTIME, (uint64_t)now, 0, 0, 0, 0);
    return now[0] * 1000000000u + now[1];
}

static uint64_t stamp(void)
{
    uint32_t lo, hi;
    __asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi));
    return (uint64_t)hi << 32 | lo;
}

static struct wire_probe *cells_of(const struct rt_module *m, uint64_t delta, uint64_t *count)
{
    *count = m->bytes / WIRE_PROBE_BYTES;
    return (struct wire_probe *)(m->data + PAGE + delta);
}

static void look(struct wire_probe *p, uint64_t now, uint64_t time)
{
    p->window_ticks += now - p->look_ticks;
    p->window_ns += time - p->look_ns;
    p->look_ticks = now;
    p->look_ns = time;
}

void rt_probes_landed(uint64_t stack)
{
    if (!is_counting())
        return;
    uint64_t now = stamp(), time = rt_thread_time(), delta = rt_own_delta();
    for (uint32_t i = 0; i < PCB->module_count; i++) {
        uint64_t count;
        struct wire_probe *p = cells_of(&PCB->modules[i], delta, &count);
        if (!rt_is_alive(&PCB->modules[i]))
            continue;
        for (uint64_t k = 1; k < count; k++) {
            if (!p[k].start || p[k].stack >= stack)
                continue;
            p[k].ticks += now - p[k].start;
            p[k].count++;
            p[k].start = 0;
            if (now - p[k].look_ticks > WIRE_PROBE_LOOK)
                look(&p[k], now, time);
        }
    }
}

void rt_probes_forget(uint64_t delta)
{
    if (!(rt_config.flags & CONFIG_PROBES))
        return;
    for (uint32_t i = 0; i < PCB->module_count; i++) {
        uint64_t count;
        struct wire_probe *p = cells_of(&PCB->modules[i], delta, &count);
        if (!rt_is_alive(&PCB->modules[i]))
            continue;
        for (uint64_t k = 1; k < count; k++) {
            p[k].cut += p[k].start != 0;
            p[k].start = p[k].look_ticks = 0; /* the processor time was that thread's own */
        }
    }
}
