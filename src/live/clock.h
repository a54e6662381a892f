/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * A clock for each thread that knows what the thread does: events of the kernel move it from one context to another,
 * and each nanosecond on a processor is charged to the context that it was spent in. Interrupts nest and are charged to
 * themselves, so they are in no system call's time (the regions of Monster's Figure 2, and what re-enters them), nor is
 * time off the processor. Used by the host (trace.c) and, compiled for the kernel, by the BPF program (bpf/live.bpf.c):
 * so no pointers, no libc, loops and indices that the verifier can bound.
 * What is in the kernel defines clock_add_vector and clock_add_call before it includes this; `sums` is the host's
 * table.
 */
#ifndef MTOOL_LIVE_CLOCK_H
#define MTOOL_LIVE_CLOCK_H

#include "live/bpf/shared.h"

#ifndef __bpf__
static inline void clock_add_vector(void *sums, __u32 vector, __u64 count, __u64 ns)
{
    struct live_vector_sum *v = &((struct live_table *)sums)->vectors[vector];
    v->count += count;
    v->ns += ns;
}

static inline void clock_add_call(void *sums, __u32 number, const struct live_call_sum *more)
{
    struct live_call_sum *c = &((struct live_table *)sums)->calls[number];
    c->count += more->count;
    c->errors += more->errors;
    c->own_ns += more->own_ns;
    c->waited_ns += more->waited_ns;
}
#endif

static inline __u64 clock_passed(__u64 from, __u64 to) { return to > from ? to - from : 0; }

/* The time of an event of the thread. Events are not always told in their order (clocks of processors differ a little,
 * an interrupt comes while an event is being told), and no nanosecond may be charged twice: none is before the last. */
static inline __u64 clock_at(const struct live_task *t, __u64 now)
{
    __u64 last = t->since_ns > t->off_ns ? t->since_ns : t->off_ns;
    return now > last ? now : last;
}

/* What passed since the last event, to whoever it belongs. */
static inline void clock_charge(struct live_task *t, __u64 now, void *sums)
{
    now = clock_at(t, now);
    __u64 ns = t->since_ns ? clock_passed(t->since_ns, now) : 0;
    t->since_ns = now;
    t->off_ns = 0; /* it has a processor, whether or not that was told */
    if (t->depth) {
        t->interrupt_ns += ns;
        clock_add_vector(sums, t->nest[(t->depth - 1) & (LIVE_NEST - 1)], 0, ns);
    } else if (t->context == LIVE_CALL) {
        t->call_ns += ns;
        t->this_call_ns += ns;
    } else if (t->context == LIVE_USER) {
        t->user_ns += ns;
    } else if (t->context == LIVE_KERNEL) {
        t->kernel_ns += ns;
    } else if (t->context == LIVE_IDLE) {
        t->idle_ns += ns;
    } else {
        t->pending_ns += ns;
    }
}

/* Another thread is seen on its processor, though nobody told that it had lost that: when it did is not known, so what
 * passed since its last event is nobody's. */
static inline void clock_lose(struct live_task *t)
{
    t->since_ns = 0;
    t->depth = 0;
}

/* It gets a processor. */
static inline void clock_run(struct live_task *t, __u64 now)
{
    now = clock_at(t, now);
    __u64 off = t->off_ns ? clock_passed(t->off_ns, now) : 0;
    if (t->was_preempted)
        t->ready_ns += off;
    else
        t->waited_ns += off;
    if (t->context == LIVE_CALL)
        t->this_off_ns += off;
    t->off_ns = 0;
    t->since_ns = now;
    t->depth = 0; /* no processor changes hands within an interrupt: what was lost before is forgotten here */
}

static inline void clock_stop(struct live_task *t, __u64 now, int is_preempted, void *sums)
{
    now = clock_at(t, now);
    clock_charge(t, now, sums);
    t->depth = 0;
    t->since_ns = 0;
    t->off_ns = now;
    t->switches++;
    t->preemptions += is_preempted ? 1 : 0;
    t->was_preempted = is_preempted ? 1 : 0;
}

static inline void clock_enter(struct live_task *t, __u32 number, __u64 now, void *sums)
{
    clock_charge(t, now, sums);
    if (t->context == LIVE_UNKNOWN) {
        t->user_ns += t->pending_ns;
        t->pending_ns = 0;
    }
    t->context = LIVE_CALL;
    t->call = (__u16)((number < LIVE_CALLS ? number : LIVE_CALLS - 1) + 1);
    t->this_call_ns = t->this_off_ns = 0;
}

static inline void clock_leave(struct live_task *t, int has_failed, __u64 now, void *sums)
{
    clock_charge(t, now, sums);
    if (t->context == LIVE_UNKNOWN) {
        t->call_ns += t->pending_ns;
        t->pending_ns = 0;
    }
    if (t->context == LIVE_CALL && t->call) {
        struct live_call_sum one = {1, has_failed ? 1 : 0, t->this_call_ns, t->this_off_ns};
        clock_add_call(sums, t->call - 1u, &one);
        t->calls++;
    }
    t->context = LIVE_USER;
    t->call = 0;
}

static inline void clock_interrupt(struct live_task *t, __u32 vector, __u64 now, void *sums)
{
    clock_charge(t, now, sums);
    clock_add_vector(sums, vector, 1, 0);
    if (t->depth < LIVE_NEST) {
        t->nest[t->depth & (LIVE_NEST - 1)] = (__u16)vector;
        t->depth++;
    }
}

static inline void clock_resume(struct live_task *t, __u64 now, void *sums)
{
    clock_charge(t, now, sums);
    if (t->depth)
        t->depth--;
}

#endif
