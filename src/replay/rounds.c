/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices that go round. Code that touches a page at every step has no slice that is long and yet reaches no more pages
 * than the first-level TLB holds. A short one tells enough if it is repeated without a break: its stub adds to every
 * register what brings it back to what it was, so that what waits for a register goes on waiting as in the program, and
 * jumps to its begin. Memory and vector registers are not brought back. What they leave to the next round, and all that
 * is computed from it, must be no address and decide no jump. */
#include "replay/impl.h"

enum {
    STEPS_OF_REPLAY = 40000,
    ROUNDS_MIN = 64 /* predictors need so many to learn the end of a long loop */,
    ROUNDS_MAX = 256
};

/* ---- what a round leaves to the next ---- */

struct carried {
    struct map bytes;            /* impl.h */
    struct map changed;          /* those written since the round began: 1 if they hold not what was recorded */
    bool differs[X86_REG_COUNT]; /* now; other flags than the carry with it */
    uint16_t live;               /* general registers that are read before they are written */
    bool has_stores, has_gathers;
};

/* x86.h: lists of data operands do not name rsp; flags are checked apart. */
static bool is_vector(unsigned reg) { return reg >= X86_REG_VEC0 && reg < X86_REG_FLAGS_C; }
static bool is_flag(unsigned reg) { return reg == X86_REG_FLAGS_C || reg == X86_REG_FLAGS_ZAPS; }

static void note_memory(struct carried *c, const struct stream *s, uint32_t step)
{
    c->has_gathers |= insn_of(s, step)->d.access_count < 0;
    c->has_stores |= insn_of(s, step)->d.insn.stores > 0;
    bytes_note(s, step, &c->bytes);
}

/* false: not with it. A vector register that is read before it is written, and written, is carried. x87 has a stack,
 * which a round may leave higher. */
static bool note_vectors(struct carried *c, const struct x86_detail *d, uint64_t *read, uint64_t *written)
{
    for (int i = 0; i < d->read_count; i++) {
        uint64_t bit = is_vector(d->reads[i]) ? 1ull << (d->reads[i] - X86_REG_VEC0) : 0;
        *read |= bit & ~*written;
        if (d->reads[i] == X86_REG_X87)
            return false;
    }
    for (int i = 0; i < d->write_count; i++) {
        uint64_t bit = is_vector(d->writes[i]) ? 1ull << (d->writes[i] - X86_REG_VEC0) : 0;
        *written |= bit;
        if (bit & *read)
            c->differs[d->writes[i]] = true;
        if (d->writes[i] == X86_REG_X87)
            return false;
    }
    return true;
}

static void note_registers(struct carried *c, const struct x86_insn *i, uint16_t *killed)
{
    c->live |= i->gpr_read & (uint16_t) ~*killed;
    for (unsigned r = 0; r < 16; r++)
        if ((i->gpr_written >> r & 1) && x86_kills_gpr(i, r))
            *killed |= (uint16_t)(1u << r);
}

static bool find_carried(struct carried *c, const struct stream *s, uint32_t first, uint32_t last)
{
    uint64_t read = 0, written = 0;
    uint16_t killed = 0;
    for (uint32_t k = first; k < last; k++) {
        note_memory(c, s, k);
        note_registers(c, &insn_of(s, k)->d.insn, &killed);
        if (!note_vectors(c, &insn_of(s, k)->d, &read, &written))
            return false;
    }
    bytes_find_restored(s, first, last, &c->bytes);
    return !(c->has_stores && c->has_gathers);
}

/* ---- where it gets to ---- */

static bool byte_differs(const struct carried *c, uint64_t at)
{
    uint64_t how = 0, changed = 0;
    if (map_get(&c->changed, at, &changed))
        return changed;
    map_get(&c->bytes, at, &how);
    return how == BYTES_CARRIED;
}

/* Do its operands differ from what was recorded? */
static bool operands_differ(const struct carried *c, const struct stream *s, uint32_t step)
{
    const struct x86_detail *d = &insn_of(s, step)->d;
    bool differs = false;
    for (int i = 0; i < d->read_count; i++)
        differs |= c->differs[d->reads[i]];
    for (int i = 0; i < d->addr_reg_count; i++) /* lea */
        differs |= c->differs[d->addr_regs[i]];
    for (int a = 0; a < d->access_count; a++)
        for (uint32_t b = 0; d->access[a].is_load && b < d->access[a].bytes; b++)
            differs |= byte_differs(c, stream_address(s, step, a) + b);
    return differs || (d->insn.flags_read && (c->differs[X86_REG_FLAGS_C] || c->differs[X86_REG_FLAGS_ZAPS]));
}

static bool register_differs(const struct carried *c, uint8_t reg)
{
    return reg < ARRAY_LEN(c->differs) && c->differs[reg];
}

/* An address, a way to go, how long it takes or whether it faults. */
static bool is_decided(const struct carried *c, const struct x86_detail *d, bool differs)
{
    const struct x86_insn *i = &d->insn;
    for (int a = 0; a < d->access_count; a++)
        if (register_differs(c, d->access[a].base) || register_differs(c, d->access[a].index))
            return true;
    return differs && (i->kind != X86_PLAIN || (i->props & X86_PROP_REP) || d->access_count < 0 ||
                       i->op == X86_OP_DIV || i->op == X86_OP_IDIV);
}

/* Part of what was there stays. */
static bool stays(const struct x86_insn *i, unsigned reg)
{
    return reg < 16 ? !x86_kills_gpr(i, reg) : is_flag(reg) && (i->props & X86_PROP_FLAGS_MAYBE);
}

static void pass_on(struct carried *c, const struct stream *s, uint32_t step, bool differs)
{
    const struct x86_detail *d = &insn_of(s, step)->d;
    for (int i = 0; i < d->write_count; i++)
        c->differs[d->writes[i]] = differs || (c->differs[d->writes[i]] && stays(&d->insn, d->writes[i]));
    for (int a = 0; a < d->access_count; a++)
        for (uint32_t b = 0; d->access[a].is_store && b < d->access[a].bytes; b++)
            map_put(&c->changed, stream_address(s, step, a) + b, differs);
}

/* Returns false if it gets to where it must not; else `differs` is as at the round's end. */
static bool follow(struct carried *c, const struct stream *s, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k < last; k++) {
        bool differs = operands_differ(c, s, k);
        if (is_decided(c, &insn_of(s, k)->d, differs))
            return false;
        pass_on(c, s, k, differs);
    }
    return true;
}

/* *renewed: general registers that differ at the end, and that no round reads before it writes them. */
static bool leads_the_same_way(const struct stream *s, uint32_t first, uint32_t last, uint16_t *renewed)
{
    struct carried c = {.has_stores = false};
    bool ok =
        find_carried(&c, s, first, last) && follow(&c, s, first, last) && bytes_waited_for(s, first, last, &c.bytes);
    *renewed = 0;
    for (unsigned r = 0; r < 16; r++)
        *renewed |= (uint16_t)(c.differs[r] << r);
    map_fini(&c.bytes);
    map_fini(&c.changed);
    return ok && !(*renewed & c.live);
}

static bool are_flags_dead(const struct stream *s, uint32_t first, uint32_t last)
{
    unsigned live = X86_ALL_FLAGS;
    for (uint32_t k = first; k < last && live; k++) {
        const struct x86_insn *i = &insn_of(s, k)->d.insn;
        if (i->flags_read & live)
            return false;
        if (!(i->props & X86_PROP_FLAGS_MAYBE))
            live &= ~(unsigned)i->flags_written;
    }
    return live == 0;
}

/* ---- its stub ---- */

static void put(struct wire_stub *s, const void *bytes, size_t n, uint64_t target)
{
    memcpy(s->code + s->bytes, bytes, n);
    s->bytes += (uint32_t)n;
    s->fix[s->fixes++] = (struct wire_fix){s->bytes - 4, 0, target};
}

enum { ADD = 0x03, MOV = 0x8b };

static void put_change(struct wire_stub *s, unsigned op, unsigned reg) /* op reg,[rip+distance] */
{
    uint8_t insn[7] = {(uint8_t)(0x48 | (reg & 8) >> 1), (uint8_t)op, (uint8_t)((reg & 7) << 3 | 5)};
    put(s, insn, sizeof insn, WIRE_TARGET_CHANGE + reg);
}

static void make_stub(const struct stream *s, uint32_t first, uint16_t renewed, struct wire_form *out)
{
    struct wire_stub *to = &out->stub;
    *to = (struct wire_stub){.bytes = 0};
    for (unsigned r = 0; r < 16; r++) {
        bool is_renewed = renewed >> r & 1;
        out->change[r] = is_renewed ? out->enter[r] : out->enter[r] - out->end[r];
        if (is_renewed || out->change[r])
            put_change(to, is_renewed ? MOV : ADD, r);
    }
    put(to, "\x48\xff\x0d\0\0\0\0", 7, WIRE_TARGET_COUNTER); /* dec qword [counter] */
    put(to, "\x0f\x84\0\0\0\0", 6, WIRE_TARGET_EXIT);
    put(to, "\xe9\0\0\0\0", 5, insn_of(s, first)->d.insn.addr);
}

bool make_round(const struct stream *s, uint32_t first, struct wire_form *out)
{
    uint32_t last = (uint32_t)out->last;
    uint64_t rounds = STEPS_OF_REPLAY / (last - first);
    uint16_t renewed;
    if (out->counts || out->enter[X86_RSP] != out->end[X86_RSP] || !are_flags_dead(s, first, last) ||
        !leads_the_same_way(s, first, last, &renewed) || !chains_go_on(s, first, last, renewed))
        return false;
    out->rounds = rounds < ROUNDS_MIN ? ROUNDS_MIN : min_u64(rounds, ROUNDS_MAX);
    make_stub(s, first, renewed, out);
    return true;
}
