/* SPDX-License-Identifier: Apache-2.0
 * What it costs a program to be watched: the same cheap system call many times, without events and with them, in
 * mtool's own thread. What a tracepoint costs lies partly within the time that it takes for a call's, partly outside;
 * both are taken off later, and the way into the kernel and out of it, which no tracepoint sees, is added. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live/impl.h"

enum { BATCHES = 24, BATCH = 200 };

void live_sums_fini(struct live_sums *s) { VEC_FREE(&s->tasks); }

uint32_t live_cost_call(void) { return SYS_getppid; }

static double batch_ns(void)
{
    uint64_t begin = time_now_ns();
    for (int i = 0; i < BATCH; i++)
        syscall(SYS_getppid);
    return (double)(time_now_ns() - begin) / BATCH;
}

/* Nothing makes it faster than it is. */
static double least_ns(void)
{
    double least = batch_ns();
    for (int i = 1; i < BATCHES; i++) {
        double ns = batch_ns();
        least = ns < least ? ns : least;
    }
    return least;
}

void live_cost_begin(struct live_cost *c)
{
    *c = (struct live_cost){.is_known = false};
    least_ns();
    c->plain = least_ns();
}

void live_cost_loop(struct live_cost *c) { c->watched = least_ns(); }

void live_cost_end(struct live_cost *c, const struct live_call_sum *sum)
{
    c->is_known = sum->count >= BATCHES * BATCH * 9 / 10;
    c->timed = sum->count ? (double)sum->own_ns / (double)sum->count : 0;
}
