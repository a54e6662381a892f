/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * A step of a state machine: an event of a thread against the patterns, then the first move of the thread's state whose
 * pattern it is. Every thread is in a state of its own, so that a system call which sleeps is not ended by another's
 * return. Used as clock.h is, and after it; what is in the kernel defines step_mark and step_trace before.
 */
#ifndef MTOOL_LIVE_STEP_H
#define MTOOL_LIVE_STEP_H

#include "live/bpf/shared.h"
#include "live/clock.h"

#ifndef __bpf__
static inline void step_mark(void *sums, __u32 mark, __u64 elapsed_ns, __u64 own_ns)
{
    struct live_mark *m = &((struct live_table *)sums)->marks[mark];
    m->count++;
    m->elapsed_ns += elapsed_ns;
    m->own_ns += own_ns;
}

static inline void step_trace(void *sums, const struct live_entry *e)
{
    struct live_table *t = sums;
    if (t->trace)
        t->trace(t->ctx, e);
}
#endif

struct step_event {
    __u64 address;
    __u32 number;
    __u8 event, flag; /* flag: 1 not, 2 so */
};

static inline int step_is(const struct live_pattern *p, const struct step_event *e, const __u64 comm[2])
{
    return p->event == e->event && (!p->has_number || p->number == e->number) && (!p->flag || p->flag == e->flag) &&
           p->low <= e->address && e->address <= p->high &&
           (!p->has_comm || (p->comm[0] == comm[0] && p->comm[1] == comm[1]));
}

/* On a processor, outside of interrupts. */
static inline __u64 step_own(const struct live_task *t)
{
    return t->user_ns + t->call_ns + t->kernel_ns + t->pending_ns;
}

static inline void step_start(struct live_task *t, __u32 timer, __u64 now)
{
    struct live_timer *k = &t->timers[timer & (LIVE_TIMERS - 1)];
    k->begin_ns = now;
    k->own_ns = step_own(t);
}

static inline void step_stop(struct live_task *t, __u32 timer, __u64 now, void *sums)
{
    struct live_timer *k = &t->timers[timer & (LIVE_TIMERS - 1)];
    if (!k->begin_ns)
        return;
    step_mark(sums, LIVE_COUNTERS + (timer & (LIVE_TIMERS - 1)), clock_passed(k->begin_ns, now),
              step_own(t) - k->own_ns);
    k->begin_ns = 0;
}

static inline void step_move(const struct live_move *v, struct live_task *t, __u64 now, void *sums)
{
    if (v->count)
        step_mark(sums, (v->count - 1u) & (LIVE_COUNTERS - 1), 0, 0);
    if (v->stop)
        step_stop(t, v->stop - 1u, now, sums);
    if (v->start)
        step_start(t, v->start - 1u, now);
    if (v->is_traced) {
        struct live_entry e = {now, t->tid, t->tgid, v->pattern, t->state, {0}};
        step_trace(sums, &e);
    }
    if (v->target)
        t->state = (__u8)(v->target - 1);
}

/* After the clock was moved by the same event. */
static inline void step(const struct live_machine *m, struct live_task *t, const struct step_event *e, __u64 now,
                        void *sums)
{
    __u32 mask = 0;
    __u64 comm[2];
    if (!(m->events & 1u << e->event))
        return;
    __builtin_memcpy(comm, t->comm, sizeof comm);
    for (__u32 i = 0; i < LIVE_PATTERNS && i < m->pattern_count; i++)
        if (step_is(&m->patterns[i], e, comm))
            mask |= 1u << i;
    __u32 state = t->state & (LIVE_STATES - 1), first = m->first[state], end = m->first[state + 1];
    for (__u32 i = 0; i < LIVE_MOVES && mask; i++) {
        __u32 at = (first + i) & (LIVE_MOVES - 1);
        if (first + i >= end)
            break;
        if (mask >> (m->moves[at].pattern & 31) & 1) {
            step_move(&m->moves[at], t, now, sums);
            break;
        }
    }
}

#endif
