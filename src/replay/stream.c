/* SPDX-License-Identifier: Apache-2.0
 *
 * A window's steps and instructions, decoded for planning, in arrays. */
#include "replay/impl.h"

#include "trace/trace.h"

struct insn *insn_at(const struct stream *s, uint64_t address)
{
    uint64_t place = 0;
    return map_get(&s->by_address, address, &place) && place ? &s->insns.data[place - 1] : NULL;
}

/* Calls of the kernel, traps, transactions: replays make none. */
static bool is_barrier(const struct x86_insn *i)
{
    return i->kind == X86_SYSCALL || i->kind == X86_INT || i->kind == X86_TRAP || i->kind == X86_XBEGIN;
}

static void take_insn(struct stream *s, const struct trace_insn *from)
{
    struct insn n = {.visits = 0};
    memcpy(n.bytes, from->bytes, sizeof n.bytes);
    x86_decode_detail(n.bytes, sizeof n.bytes, from->x.addr, &n.d);
    bool gathers = (n.d.insn.props & X86_PROP_VSIB) && !n.d.insn.stores;
    n.is_barrier = is_barrier(&n.d.insn) || (n.d.access_count < 0 && !gathers);
    VEC_PUSH(&s->insns, n);
    map_put(&s->by_address, from->x.addr, s->insns.len);
}

static void take_steps(struct stream *s, const struct trace_window *w)
{
    struct trace_stream from;
    struct trace_step t;
    s->fs = w->fs;
    s->gs = w->gs;
    VEC_RESERVE(&s->steps, w->instructions);
    trace_begin(&from, w);
    from.each_iteration = true;
    while (trace_next(&from, &t) && t.insn->x.len) { /* what comes before unknown code is good */
        if (t.insn->id == s->insns.len)
            take_insn(s, t.insn);
        struct step step = {.insn = t.insn->id};
        memcpy(step.regs, t.regs, sizeof step.regs);
        VEC_PUSH(&s->steps, step);
    }
}

bool stream_read(struct stream *s, const struct wire_windows *w, uint32_t window)
{
    struct arena *a = arena_new();
    struct trace_window from;
    bool is_whole = trace_steps(w, window, a, &from) && from.instructions == w->windows[window].steps;
    if (is_whole)
        take_steps(s, &from);
    arena_free(a);
    return is_whole && s->steps.len > 0;
}

void stream_free(struct stream *s)
{
    VEC_FREE(&s->insns);
    VEC_FREE(&s->steps);
    map_fini(&s->by_address);
}
