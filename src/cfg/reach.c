/* SPDX-License-Identifier: Apache-2.0
 *
 * From an address in a gap to all instructions that control can reach from there without leaving by a call: a tentative
 * walk, which is taken or thrown away as a whole. Any contradiction (bytes that are no instruction or an unusual one,
 * two ways of cutting them, memory that is read there, an executed address inside an instruction) throws it away. What
 * was only held as an address must also look like a function from outside, and have been seen to run.
 */
#include "cfg/gaps.h"

#include <stdlib.h>

enum { WALK_INSNS_MAX = 1 << 16, DEPTH_UNKNOWN = INT32_MAX, LOOK_BACK = 64, FUNCTION_ALIGN = 16 };
#define ARGUMENTS                                                                                                      \
    (1u << X86_RCX | 1u << X86_RDX | 1u << X86_RSI | 1u << X86_RDI | 1u << X86_R8 | 1u << X86_R9 | 1u << X86_RSP)

struct step {
    struct x86_insn insn;
    bool touches_return;
};
struct pending {
    uint64_t addr;
    int32_t depth; /* bytes pushed since the start, or DEPTH_UNKNOWN */
};
struct walk {
    struct gaps *g;
    uint64_t start;
    struct map places; /* address -> 1 + index of steps; 0: inside of an instruction */
    VEC(struct step) steps;
    VEC(struct pending) pending;
    bool is_clean;
};

/* ---- one instruction ---- */

static bool is_padding(const struct x86_insn *i) { return (i->props & X86_PROP_NOP) && !(i->props & X86_PROP_ENDBR); }

static int64_t field(const struct gap *gap, const struct x86_insn *i, unsigned off, unsigned len)
{
    const uint8_t *p = gap->bytes + (i->addr - gap->lo) + off;
    int32_t wide = 0;
    if (len == 1)
        return (int8_t)*p;
    if (len == 4)
        memcpy(&wide, p, 4);
    return wide;
}

/* The depth behind the instruction. */
static int32_t depth_after(const struct gap *gap, const struct x86_insn *i, int32_t depth)
{
    if (depth == DEPTH_UNKNOWN || !(i->gpr_written >> X86_RSP & 1) || i->kind == X86_CALL || i->kind == X86_CALL_IND)
        return depth;
    int64_t change = INT64_MAX;
    bool to_rsp = !i->loads && !i->stores;
    if (i->op == X86_OP_PUSH && i->op_bytes == 8)
        change = 8;
    else if (i->op == X86_OP_POP && i->op_bytes == 8 &&
             (i->mem_base != X86_REG_NONE || i->gpr_written != 1u << X86_RSP))
        change = -8;
    else if (to_rsp && i->imm_len && (i->op == X86_OP_SUB || i->op == X86_OP_ADD))
        change = (i->op == X86_OP_SUB ? 1 : -1) * field(gap, i, i->imm_off, i->imm_len);
    else if ((i->props & X86_PROP_LEA) && i->mem_base == X86_RSP && i->mem_index == X86_REG_NONE)
        change = -field(gap, i, i->disp_off, i->disp_len);
    if (change > 1 << 24 || change < -(1 << 24) || depth + change < -(1 << 24) || depth + change > 1 << 24)
        return DEPTH_UNKNOWN;
    return depth + (int32_t)change;
}

/* Does it read or write the word that its caller's call left, other than by returning? Whoever does may find data
 * behind the call, or skip some. */
static bool touches_return(const struct gap *gap, const struct x86_insn *i, int32_t depth)
{
    if (depth == DEPTH_UNKNOWN || i->kind == X86_RET)
        return false;
    if (i->op == X86_OP_POP && depth <= 0)
        return true;
    bool on_stack =
        i->mem_base == X86_RSP && i->mem_index == X86_REG_NONE && (i->loads || i->stores) && !(i->props & X86_PROP_LEA);
    return on_stack && field(gap, i, i->disp_off, i->disp_len) == depth;
}

/* A system call that a copy may make: its number is known, and it neither makes a thread nor returns from a signal. */
static bool is_good_syscall(const struct walk *w, const struct gap *gap)
{
    static const int64_t bad[] = {15, 56, 57, 58, 435};
    for (size_t k = w->steps.len; k-- > 0;) {
        const struct x86_insn *i = &w->steps.data[k].insn;
        if (k + 1 < w->steps.len && i->addr + i->len != w->steps.data[k + 1].insn.addr)
            return false;
        if (!(i->gpr_written >> X86_RAX & 1))
            continue;
        if (i->op != X86_OP_MOV || i->imm_len != 4 || i->loads)
            return false;
        for (size_t n = 0; n < ARRAY_LEN(bad); n++)
            if (field(gap, i, i->imm_off, 4) == bad[n])
                return false;
        return true;
    }
    return false;
}

/* ---- a walk ---- */

/* Is there code at an address outside of the gaps? */
static bool is_known_code(const struct cfg *c, uint64_t addr)
{
    uint32_t f = cfg_func_at(c, addr);
    return f != ID_NONE && (c->funcs.data[f].insn_count == 0 || insn_in_func(c, f, addr) != ID_NONE);
}

/* glibc jumps over a lock prefix. */
static void go_to(struct walk *w, uint64_t addr, int32_t depth)
{
    struct pending p = {addr, depth};
    if (gap_at(w->g, addr))
        VEC_PUSH(&w->pending, p);
    else
        w->is_clean &= is_known_code(w->g->c, addr);
}

/* True if the bytes of the instruction are free of contradictions; they are the walk's then. */
static bool claim(struct walk *w, const struct gap *gap, const struct x86_insn *i)
{
    const uint16_t *s = gap->state + (i->addr - gap->lo);
    uint64_t seen;
    if (s[0] & (GAP_INNER | GAP_DATA))
        return false;
    for (unsigned k = 1; k < i->len; k++)
        if ((s[k] & (GAP_START | GAP_INNER | GAP_ENTRY | GAP_DATA | GAP_SAMPLED | GAP_HELD | GAP_CALLED)) ||
            map_get(&w->places, i->addr + k, &seen))
            return false;
    map_put(&w->places, i->addr, w->steps.len + 1);
    for (unsigned k = 1; k < i->len; k++)
        map_put(&w->places, i->addr + k, 0);
    return true;
}

/* One instruction; *depth becomes that behind it. False: control does not go on, or it is known from here. */
static bool take_step(struct walk *w, const struct gap *gap, uint64_t addr, int32_t *depth)
{
    struct step s;
    uint64_t known;
    if (gap->state[addr - gap->lo] & GAP_START)
        return false;
    if (map_get(&w->places, addr, &known)) {
        w->is_clean &= known != 0;
        return false;
    }
    if (w->steps.len >= WALK_INSNS_MAX || !gap_decode(gap, addr, &s.insn) || !claim(w, gap, &s.insn) ||
        (s.insn.kind == X86_SYSCALL && !is_good_syscall(w, gap))) {
        w->is_clean = false;
        return false;
    }
    s.touches_return = touches_return(gap, &s.insn, *depth);
    *depth = depth_after(gap, &s.insn, *depth);
    VEC_PUSH(&w->steps, s);
    if (is_direct_jump(s.insn.kind))
        go_to(w, s.insn.target, *depth);
    else if (s.insn.kind == X86_CALL && !gap_at(w->g, s.insn.target))
        w->is_clean &= is_known_code(w->g->c, s.insn.target);
    return falls_through(s.insn.kind);
}

static void walk_from(struct walk *w, struct pending p)
{
    for (const struct gap *gap = gap_at(w->g, p.addr); w->is_clean;) {
        if (!take_step(w, gap, p.addr, &p.depth))
            return;
        p.addr += w->steps.data[w->steps.len - 1].insn.len;
        if (p.addr >= gap->hi) { /* into the function behind it */
            go_to(w, p.addr, p.depth);
            return;
        }
    }
}

static bool walk_all(struct walk *w)
{
    w->is_clean = true;
    go_to(w, w->start, 0);
    while (w->is_clean && w->pending.len)
        walk_from(w, w->pending.data[--w->pending.len]);
    return w->is_clean && w->steps.len;
}

static unsigned traits(const struct x86_insn *i)
{
    bool call = i->kind == X86_CALL || i->kind == X86_CALL_IND;
    return (falls_through(i->kind) ? GAP_FALLS : 0u) | (i->kind == X86_JMP_IND ? GAP_INDIRECT : 0u) |
           (call ? GAP_CALL : 0u) | (is_padding(i) ? GAP_NOP : 0u);
}

static void take_walk(struct walk *w)
{
    struct gaps *g = w->g;
    for (size_t k = 0; k < w->steps.len; k++) {
        const struct step *t = &w->steps.data[k];
        struct gap *gap = gap_at(g, t->insn.addr);
        uint16_t *s = gap->state + (t->insn.addr - gap->lo);
        *s |= (uint16_t)(GAP_START | traits(&t->insn) | (t->touches_return ? GAP_RETURN : 0));
        for (unsigned n = 1; n < t->insn.len; n++)
            s[n] |= GAP_INNER;
    }
    for (size_t k = 0; k < w->steps.len; k++)
        gap_look_at(g, &w->steps.data[k].insn);
}

static void walk_fini(struct walk *w)
{
    VEC_FREE(&w->steps);
    VEC_FREE(&w->pending);
    map_fini(&w->places);
}

/* ---- what is only held ---- */

/* A call may be one that does not return. */
static bool may_end(const struct x86_insn *i) { return !falls_through(i->kind) || i->kind == X86_CALL; }

/* Is there nothing in front of it that could run into it? */
static bool follows_an_end(const struct gaps *g, const struct gap *gap, uint64_t addr)
{
    struct x86_insn i;
    uint64_t from = gap->lo;
    uint32_t f = cfg_func_at(g->c, gap->lo - 1);
    const struct cfg_func *fn = f == ID_NONE ? NULL : &g->c->funcs.data[f];
    bool ended = !fn || !fn->insn_count || may_end(cfg_shape(g->c, fn->insn_first + fn->insn_count - 1));
    for (uint64_t a = addr; a-- > gap->lo && addr - a < LOOK_BACK;) /* somewhere before it, in step */
        if (gap->state[a - gap->lo] & GAP_LINEAR)
            from = a;
    for (uint64_t a = from; a < addr; a += i.len) {
        if (!gap_decode(gap, a, &i))
            return false;
        if (a + i.len > addr)
            return false;
        if (!is_padding(&i))
            ended = may_end(&i);
    }
    return ended;
}

/* Saves a register for its caller. */
static bool is_save(const struct gap *gap, const struct x86_insn *i)
{
    const uint8_t *p = gap->bytes + (i->addr - gap->lo);
    bool tests_al = i->len == 2 && p[0] == 0x84 && p[1] == 0xc0; /* are there vector arguments? */
    bool stores = i->op == X86_OP_MOV && i->stores && !i->imm_len && i->mem_base == X86_RSP;
    bool copies = i->op == X86_OP_MOV && !i->stores && !i->loads && !i->imm_len;
    return i->op == X86_OP_PUSH || tests_al || stores || copies || (i->props & X86_PROP_NOP);
}

/* Does it use, in the straight line of code that it begins with, only what the ABI hands to a function? Data rarely do.
 */
static bool begins_as_function(const struct gap *gap, uint64_t addr)
{
    uint16_t known = ARGUMENTS;
    uint8_t flags = 0;
    struct x86_insn i;
    for (; addr < gap->hi; addr += i.len) {
        if (!gap_decode(gap, addr, &i))
            return false;
        uint16_t reads = i.gpr_read;
        bool clears = i.op == X86_OP_XOR && reads == i.gpr_written && !(reads & (reads - 1));
        if (!i.loads && !i.stores && (clears || (i.op == X86_OP_MOV && i.imm_len)))
            reads = 0; /* part of a register may be set, too */
        if ((reads & (uint16_t)~known && !is_save(gap, &i)) || (i.flags_read & ~flags))
            return false;
        if (ends_block(i.kind))
            return true;
        known |= i.gpr_written;
        flags |= i.flags_written;
    }
    return false;
}

static bool leads_to_known(const struct gaps *g, const struct x86_insn *i)
{
    if ((i->kind != X86_CALL && i->kind != X86_JMP) || i->disp_len != 4)
        return false;
    const struct gap *gap = gap_at(g, i->target);
    uint32_t f = gap ? ID_NONE : cfg_func_at(g->c, i->target);
    if (gap)
        return (gap->state[i->target - gap->lo] & (GAP_START | GAP_ENTRY)) == (GAP_START | GAP_ENTRY);
    return f != ID_NONE && g->c->funcs.data[f].addr == i->target;
}

/* May something else begin at an address behind the walk's start? Assembly has entries of its own use that skip the
 * first instructions of a function; such stand anywhere, functions are aligned. */
static bool may_begin(const struct walk *w, uint64_t addr, uint16_t state)
{
    bool skips = w->start % FUNCTION_ALIGN == 0 && addr % FUNCTION_ALIGN != 0;
    return addr != w->start && (state & (GAP_ENTRY | GAP_HELD | (skips ? 0 : GAP_CALLED)));
}

/* Evidence in the one piece of code that starts at the walk's start: up to the next address that something else may
 * enter, since what stands before such an address could be data. */
static bool was_executed(const struct walk *w)
{
    const struct gap *gap = gap_at(w->g, w->start);
    bool in_hole = false;
    struct x86_insn i;
    for (uint64_t a = w->start; a < gap->hi && gap_decode(gap, a, &i); a += i.len) {
        uint16_t s = gap->state[a - gap->lo];
        uint64_t step = 0;
        bool is_mine = map_get(&w->places, a, &step) && step;
        if (may_begin(w, a, s) || (s & (GAP_START | GAP_DATA)))
            return false;
        if (!is_mine && !is_padding(&i) && !in_hole)
            return false;
        if (s & GAP_SAMPLED)
            return true;
        if (is_mine && leads_to_known(w->g, &i))
            return true;
        in_hole = i.kind == X86_JMP_IND || (in_hole && !is_mine);
    }
    return false;
}

static bool is_candidate(const struct gaps *g, const struct gap *gap, uint64_t addr)
{
    return !(gap->state[addr - gap->lo] & (GAP_START | GAP_INNER | GAP_DATA)) && follows_an_end(g, gap, addr) &&
           begins_as_function(gap, addr);
}

/* ---- all ---- */

static void follow_certain(struct gaps *g)
{
    while (g->certain.len) {
        struct walk w = {.g = g, .start = g->certain.data[--g->certain.len]};
        if (walk_all(&w))
            take_walk(&w);
        walk_fini(&w);
    }
}

static bool take_held(struct gaps *g, uint64_t addr)
{
    struct gap *gap = gap_at(g, addr);
    struct walk w = {.g = g, .start = addr};
    bool ok = is_candidate(g, gap, addr) && walk_all(&w) && was_executed(&w);
    if (ok) {
        gap->state[addr - gap->lo] |= GAP_ENTRY;
        take_walk(&w);
    }
    walk_fini(&w);
    return ok;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void gap_follow(struct gaps *g)
{
    follow_certain(g);
    if (g->held.len)
        qsort(g->held.data, g->held.len, sizeof *g->held.data, by_value);
    for (bool any = g->any_sampled; any;) {
        any = false;
        for (size_t k = 0; k < g->held.len; k++) {
            any |= take_held(g, g->held.data[k]);
            follow_certain(g);
        }
    }
}
