/* SPDX-License-Identifier: Apache-2.0
 * What it costs a program to be watched: the same cheap system call many times, without events and with them, in
 * mtool's own thread. What a tracepoint costs lies partly within the time that it takes for a call's, partly outside;
 * both are taken off later, and the way into the kernel and out of it, which no tracepoint sees, is added. */
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live/clock.h"
#include "live/impl.h"

enum { BATCH = 100 };
static const double SPENT_S = 0.015; /* each: long enough to meet a moment in which nobody else is in the way */

void live_sums_fini(struct live_sums *s)
{
    VEC_FREE(&s->tasks);
    VEC_FREE(&s->entries);
}

void live_sums_trace(struct live_sums *s, const struct live_program *p, const struct live_entry *e)
{
    if (s->entries.len < p->limits.entries)
        VEC_PUSH(&s->entries, *e);
    else
        s->entries_lost++;
}

/* Nothing waits in exit, so there what has no processor is gone. */
static uint64_t still_waits_ns(const struct live_task *t, uint32_t call, uint64_t now)
{
    return t->off_ns && call != SYS_exit && call != SYS_exit_group ? clock_passed(t->off_ns, now) : 0;
}

void live_sums_unfinished(struct live_sums *s)
{
    for (size_t i = 0; i < s->tasks.len; i++) {
        struct live_task *t = &s->tasks.data[i];
        if (t->context != LIVE_CALL || !t->call)
            continue;
        uint32_t call = t->call - 1u;
        struct live_call_sum one = {1, 0, t->this_call_ns, t->this_off_ns + still_waits_ns(t, call, s->ended_ns)};
        clock_add_call(&s->table, call, &one);
        t->calls++;
    }
}

uint32_t live_cost_call(void) { return SYS_getppid; }

static double batch_ns(void)
{
    uint64_t begin = time_now_ns();
    for (int i = 0; i < BATCH; i++)
        syscall(SYS_getppid);
    return (double)(time_now_ns() - begin) / BATCH;
}

void live_cost_begin(struct live_cost *c)
{
    double end_s = time_now_s() + SPENT_S;
    *c = (struct live_cost){.plain = batch_ns()};
    while (time_now_s() < end_s)
        c->plain = fmin(c->plain, batch_ns());
}

/* Nothing makes a batch faster than it is: the fastest counts, with the time that it has by its own events. */
void live_cost_loop(struct live_cost *c, live_cost_read read, void *ctx)
{
    double end_s = time_now_s() + SPENT_S;
    do {
        struct live_call_sum before = read(ctx);
        double ns = batch_ns();
        struct live_call_sum after = read(ctx);
        if (after.count - before.count != BATCH || (c->is_known && ns >= c->watched))
            continue;
        c->is_known = true;
        c->watched = ns;
        c->timed = (double)(after.own_ns - before.own_ns) / BATCH;
    } while (time_now_s() < end_s);
}
