/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a window to steps and decoded instructions. Trusts no word: a program may have written over them. */
#include "replay/impl.h"

enum { STEPS_MOST = 1 << 20 };

static bool is_whole(const uint64_t *at, const uint64_t *end)
{
    if (at >= end)
        return false;
    return at + 1 + __builtin_popcountll(*at >> 48) + (*at & WIRE_STEP_BYTES ? 2 : 0) <= end;
}

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

static bool take_insn(struct stream *s, uint64_t address, const uint8_t *bytes)
{
    struct insn n = {.piece = 0};
    if (!bytes || !x86_decode(bytes, 16, address, &n.i))
        return false;
    memcpy(n.bytes, bytes, 16);
    n.accesses = x86_accesses(bytes, 16, address, n.access);
    bool gathers = (n.i.props & X86_PROP_VSIB) && !n.i.stores;
    n.is_barrier = is_barrier(&n.i) || (n.accesses < 0 && !gathers);
    VEC_PUSH(&s->insns, n);
    map_put(&s->by_address, address, s->insns.len);
    return true;
}

bool stream_read(struct stream *s, const struct wire_windows *w, uint32_t window)
{
    const struct wire_window *from = &w->windows[window];
    if (from->first > w->used || w->used > w->capacity || from->steps > STEPS_MOST)
        return false;
    const uint64_t *at = w->data + from->first, *end = w->data + w->used;
    uint64_t regs[16] = {0}, place;
    s->fs = from->fs, s->gs = from->gs;
    for (uint64_t k = 0; k < from->steps; k++) {
        const uint8_t *bytes = NULL;
        if (!is_whole(at, end))
            return false;
        uint64_t address = wire_step_next(&at, regs, &bytes);
        if (!map_get(&s->by_address, address, &place)) {
            if (!take_insn(s, address, bytes))
                return k > 0; /* what comes before it is good */
            place = s->insns.len;
        }
        struct step step = {.insn = (uint32_t)place - 1};
        memcpy(step.regs, regs, sizeof regs);
        VEC_PUSH(&s->steps, step);
    }
    return true;
}

void stream_free(struct stream *s)
{
    VEC_FREE(&s->insns);
    VEC_FREE(&s->steps);
    map_fini(&s->by_address);
}
