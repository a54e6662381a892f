/* SPDX-License-Identifier: Apache-2.0
 *
 * The code that ends a replay, for the runtime to put near the program's. Counting changes flags that are dead wherever
 * the stub is met, as the recorded steps show; instructions that give way to the jump are executed in the stub. */
#include "replay/impl.h"

enum { JUMP_BYTES = 5 };

static void put(struct wire_stub *s, const void *bytes, size_t n)
{
    memcpy(s->code + s->bytes, bytes, n);
    s->bytes += (uint32_t)n;
}

/* The distance of 4 bytes that ends `behind` bytes before what was put last. */
static void fix(struct wire_stub *s, uint32_t behind, uint64_t target)
{
    s->fix[s->fixes++] = (struct wire_fix){s->bytes - 4 - behind, behind, target};
}

static void put_jump(struct wire_stub *s, uint64_t target)
{
    put(s, "\xe9\0\0\0\0", 5);
    fix(s, 0, target);
}

/* dec qword [counter]; jz exit */
static void put_count(struct wire_stub *s)
{
    put(s, "\x48\xff\x0d\0\0\0\0", 7);
    fix(s, 0, WIRE_TARGET_COUNTER);
    put(s, "\x0f\x84\0\0\0\0", 6);
    fix(s, 0, WIRE_TARGET_EXIT);
}

void stub_end(struct wire_stub *out)
{
    *out = (struct wire_stub){.bytes = 0};
    put_jump(out, WIRE_TARGET_EXIT);
}

/* ---- what gives way ---- */

/* The instructions from step `at` on that a jump would cover: plain ones, one after the other, met together only. Their
 * number; 0: it can't be. */
static uint32_t covered(const struct stream *s, uint32_t at, uint32_t last)
{
    uint32_t n = 0, bytes = 0, visits = insn_of(s, at)->visits;
    for (; bytes < JUMP_BYTES; n++) {
        const struct insn *k = insn_of(s, at + n);
        bool follows = n == 0 || k->d.insn.addr == insn_of(s, at)->d.insn.addr + bytes;
        bool undisturbed = k->visits + (n > 0) >= visits && k->visits <= visits &&
                           k->piece == insn_of(s, at)->piece; /* the last visit ends at the first of them */
        if (at + n >= last || !follows || !undisturbed || k->d.insn.kind != X86_PLAIN ||
            (k->d.insn.props & X86_PROP_REP))
            return 0;
        bytes += k->d.insn.len;
    }
    return n;
}

/* No instruction of another reading of the same bytes. */
static bool overlaps_others(const struct stream *s, uint32_t at, uint32_t count)
{
    uint64_t lo = insn_of(s, at)->d.insn.addr,
             hi = insn_of(s, at + count - 1)->d.insn.addr + insn_of(s, at + count - 1)->d.insn.len;
    for (uint64_t a = lo - 14; a < hi; a++) {
        const struct insn *k = insn_at(s, a);
        bool is_one_of_them = false;
        for (uint32_t n = 0; n < count; n++)
            is_one_of_them |= k == insn_of(s, at + n);
        if (k && !is_one_of_them && a + k->d.insn.len > lo)
            return true;
    }
    return false;
}

/* Is everything that dec changes written anew before it is read? */
static bool flags_are_dead(const struct stream *s, uint32_t from, uint32_t end)
{
    unsigned live = X86_ALL_FLAGS & ~(unsigned)X86_CF;
    for (uint32_t k = from; k < end && live; k++) {
        const struct x86_insn *i = &insn_of(s, k)->d.insn;
        if (i->flags_read & live)
            return false;
        if (!(i->props & X86_PROP_FLAGS_MAYBE))
            live &= ~(unsigned)i->flags_written;
    }
    return live == 0;
}

static bool flags_are_dead_everywhere(const struct stream *s, uint32_t at, uint32_t last)
{
    uint32_t insn = s->steps.data[at].insn;
    for (uint32_t k = at; k < last; k++)
        if (s->steps.data[k].insn == insn && !flags_are_dead(s, k, (uint32_t)s->steps.len))
            return false;
    return true;
}

static bool put_covered(struct wire_stub *to, const struct stream *s, uint32_t at, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        const struct insn *k = insn_of(s, at + n);
        if (to->bytes + k->d.insn.len > WIRE_STUB_BYTES - 8 || to->fixes > WIRE_FIXES_MAX - 2)
            return false;
        put(to, k->bytes, k->d.insn.len);
        if (k->d.insn.props & X86_PROP_RIPREL)
            fix(to, k->d.insn.len - k->d.insn.disp_off - 4u, k->d.insn.target);
    }
    const struct x86_insn *end = &insn_of(s, at + count - 1)->d.insn;
    put_jump(to, end->addr + end->len);
    return true;
}

bool stub_count(const struct stream *s, uint32_t at, uint32_t last, struct wire_stub *out)
{
    uint32_t count = covered(s, at, last);
    if (!count || overlaps_others(s, at, count) || !flags_are_dead_everywhere(s, at, last))
        return false;
    *out = (struct wire_stub){.bytes = 0};
    put_count(out);
    return put_covered(out, s, at, count);
}
