/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation of traces, of relocatable objects: where a part of a block begins its number and what registers
 * hold, and in front of instructions what is known only there (trace_plan.c says what), into the thread's part of a
 * buffer that all processes share (wire/trace.h).
 *
 *     lea rsp,[rsp-...]; save flags and registers        what is alive of them, below the red zone
 *     mov q,[turn]; test q,q; je end                     nobody traces
 *     mov p,[state@gottpoff]; mov p,fs:[p]               the thread's state
 *     cmp q,[p]; jne slow                                another thread had its turn
 *     mov q,bytes; xadd [p+8],q; cmp q,[p+16]; jb fast   room is taken by one instruction: signals may come
 *     mov [rsp],q; jmp call
 *     slow: mov qword [rsp],0
 *     call: mov qword [rsp+8],bytes; call mtool_trace; mov q,[rsp]; test q,q; je end
 *     fast: lea p,[...]; mov [q+8],p; ...                what registers hold
 *     lea p,[block]; mov [q],p
 *     end: restore; lea rsp,[rsp+...]
 *
 * What comes later has no `cmp`: its room is kept by the part's begin. Indices of a gather are stored in full on the
 * stack, and told from there.
 *
 * needs: funcs. fills: traced.
 */
#include "wire/trace.h"
#include "rewrite/instruments/operand.h"
#include "rewrite/instruments/registers.h"
#include "rewrite/instruments/vectors.h"

#include <stdlib.h>

enum { RED_ZONE = 128, ARGUMENTS = 2, CALL_BYTES = 5, LEA_RSP_BYTES = 8, POINT_BYTES_MAX = 4096, WORD = 8 };
enum { VECTOR_SLOTS = 8 };

struct point { /* in front of an instruction, or behind it */
    uint32_t insn, block;
    uint8_t part; /* that begins there, and 1; 0: none */
    bool is_behind;
    uint16_t first, count; /* late words of the part; of its begin the part's entry words */
    uint32_t words;        /* into words: all that are told */
    uint8_t p, q;
    uint8_t saved[2], saves;
    bool saves_flags, has_indices;
    uint16_t bytes;
    uint32_t reach; /* into reaches: of what vector and mask registers hold there */
};
struct rw_traced {
    VEC(struct point) points; /* in the order of their places in the code */
    VEC(struct rewrite_trace_word) words;
    VEC(struct x86_reach) reaches;
    uint32_t *of_insn; /* [insns] its first point, ID_NONE: none */
};

/* ---- registers ---- */

static void choose_registers(const struct rw *w, struct point *x, struct cfg_live live)
{
    uint16_t used = FRAME_REGISTERS;
    for (uint32_t k = x->words; k < x->words + x->count; k++)
        used |= bit_of(w->traced->words.data[k].base) | bit_of(w->traced->words.data[k].index);
    x->saves_flags = live.flags != 0;
    struct two_registers two = take_registers(live.gpr_dead & (uint16_t)~used, used);
    x->p = two.reg[0];
    x->q = two.reg[1];
    memcpy(x->saved, two.saved, sizeof x->saved);
    x->saves = two.saves;
}

/* ---- the code ---- */

struct code {
    const struct rw *w;
    const struct point *x;
    uint8_t *first, *p;
    uint64_t addr; /* of first */
};

static uint64_t here(const struct code *c) { return c->addr + (uint64_t)(c->p - c->first); }
static void insn(struct code *c, uint32_t code, unsigned reg, struct operand m) { c->p = put_insn(c->p, code, reg, m); }

/* Behind the arguments: what is saved, then a vector. */
static unsigned saved_slots(const struct point *x) { return 2u * x->saves_flags + x->saves; }
static unsigned slots(const struct point *x) { return saved_slots(x) + VECTOR_SLOTS * x->has_indices; }

static int32_t stack_bytes(const struct point *x) { return RED_ZONE + WORD * (int32_t)(ARGUMENTS + slots(x)); }

static void put_save(struct code *c)
{
    const struct point *x = c->x;
    unsigned slot = ARGUMENTS;
    c->p = put_move_stack(c->p, -stack_bytes(x));
    if (x->saves_flags) { /* lahf; seto al */
        insn(c, STORE, X86_RAX, on_stack(slot));
        c->p = rw_put_bytes(c->p, "\x9f\x0f\x90\xc0", 4);
        insn(c, STORE, X86_RAX, on_stack(slot + 1));
        insn(c, LOAD, X86_RAX, on_stack(slot));
        slot += 2;
    }
    for (unsigned k = 0; k < x->saves; k++)
        insn(c, STORE, x->saved[k], on_stack(slot++));
}

static void put_restore(struct code *c)
{
    const struct point *x = c->x;
    unsigned slot = ARGUMENTS + 2u * x->saves_flags;
    for (unsigned k = 0; k < x->saves; k++)
        insn(c, LOAD, x->saved[k], on_stack(slot++));
    if (x->saves_flags) { /* add al,0x7f; sahf: rax is one of those above, or it is kept around this */
        bool is_rax_dead = x->p == X86_RAX || x->q == X86_RAX;
        bool is_kept = !is_rax_dead;
        for (unsigned k = 0; k < x->saves; k++)
            is_kept |= x->saved[k] == X86_RAX;
        if (is_kept)
            insn(c, STORE, X86_RAX, on_stack(ARGUMENTS));
        insn(c, LOAD, X86_RAX, on_stack(ARGUMENTS + 1));
        c->p = rw_put_bytes(c->p, "\x04\x7f\x9e", 3);
        if (is_kept)
            insn(c, LOAD, X86_RAX, on_stack(ARGUMENTS));
    }
    c->p = put_move_stack(c->p, stack_bytes(x));
}

static uint8_t *jump_if(struct code *c, uint8_t condition)
{
    *c->p++ = 0x0f;
    *c->p++ = (uint8_t)(0x80 | condition);
    c->p += 4;
    return c->p;
}

/* A jump whose distance stands in front of `end` leads here. */
static void arrive(const struct code *c, uint8_t *end) { rw_put32(end - 4, (uint64_t)(c->p - end)); }

static void put_word_of(struct code *c, unsigned reg, enum rw_link_hook word)
{
    *c->p++ = (uint8_t)(0x48 | reg >> 3 << 2);
    *c->p++ = LOAD;
    *c->p++ = (uint8_t)(0x05 | (reg & 7) << 3);
    c->p = rw_put32(c->p, rw_link_hook(c->w, word) - (here(c) + 4));
}

static void put_test(struct code *c, unsigned reg)
{
    *c->p++ = (uint8_t)(0x48 | reg >> 3 << 2 | reg >> 3);
    *c->p++ = 0x85;
    *c->p++ = (uint8_t)(0xc0 | (reg & 7) << 3 | (reg & 7));
}

static void put_lea_here(struct code *c, unsigned reg, uint64_t to)
{
    *c->p++ = (uint8_t)(0x48 | reg >> 3 << 2);
    *c->p++ = LEA;
    *c->p++ = (uint8_t)(0x05 | (reg & 7) << 3);
    c->p = rw_put32(c->p, to - (here(c) + 4));
}

static struct operand at(unsigned reg, int64_t disp)
{
    return (struct operand){0, (uint8_t)reg, X86_REG_NONE, 0, disp};
}

static void store_number(struct code *c, struct operand m, uint32_t v)
{
    insn(c, STORE_NUMBER, 0, m);
    c->p = rw_put32(c->p, v);
}

static void put_value(struct code *c, unsigned word, int64_t to)
{
    const struct rewrite_trace_word *v = &c->w->traced->words.data[c->x->words + word];
    bool is_plain = v->index == X86_REG_NONE && v->base != X86_RSP;
    struct operand m = {0, v->base, v->index, v->scale, v->base == X86_RSP ? stack_bytes(c->x) : 0};
    if (!is_plain)
        insn(c, LEA, c->x->p, m);
    insn(c, STORE, is_plain ? v->base : c->x->p, at(c->x->q, to));
}

static const struct x86_reach *reach_of(const struct code *c) { return &c->w->traced->reaches.data[c->x->reach]; }

static void put_vector_value(struct code *c, const struct rewrite_trace_word *v, int64_t to)
{
    if (v->tells == REWRITE_TRACE_MASK)
        c->p = put_mask(c->p, reach_of(c), c->x->p);
    else
        insn(c, LOAD, c->x->p, on_stack(ARGUMENTS + saved_slots(c->x) + v->part));
    insn(c, STORE, c->x->p, at(c->x->q, to));
}

static unsigned bytes_told(const struct point *x) { return WORD * (x->part ? 1u + x->count : 2u * x->count); }

/* Up to `fast`. Returns the way to the end that is taken where there is no room. */
static uint8_t *put_reserve(struct code *c)
{
    const struct point *x = c->x;
    insn(c, COMPARE, x->q, at(x->p, 0));
    uint8_t *slow = jump_if(c, NOT_EQUAL);
    c->p = put_short_number(c->p, x->q, bytes_told(x));
    insn(c, XADD, x->q, at(x->p, WORD));
    insn(c, COMPARE, x->q, at(x->p, 2 * WORD));
    uint8_t *fast = jump_if(c, BELOW);
    insn(c, STORE, x->q, on_stack(0));
    c->p += CALL_BYTES; /* jmp call */
    uint8_t *call = c->p;
    call[-CALL_BYTES] = 0xe9;
    arrive(c, slow);
    store_number(c, on_stack(0), 0);
    arrive(c, call);
    store_number(c, on_stack(1), bytes_told(x));
    rw_put_call(c->p, here(c), rw_link_hook(c->w, RW_LINK_TRACE));
    c->p += CALL_BYTES;
    insn(c, LOAD, x->q, on_stack(0));
    put_test(c, x->q);
    uint8_t *none = jump_if(c, EQUAL);
    arrive(c, fast);
    return none;
}

static void put_begin(struct code *c, uint64_t body)
{
    for (unsigned k = 0; k < c->x->count; k++)
        put_value(c, k, WORD * (1 + (int64_t)k));
    put_lea_here(c, c->x->p, body + c->x->part - 1);
    insn(c, STORE, c->x->p, at(c->x->q, 0));
}

static void put_late(struct code *c)
{
    const struct point *x = c->x;
    c->p = put_short_number(c->p, x->q, bytes_told(x));
    insn(c, XADD, x->q, at(x->p, WORD));
    if (x->has_indices)
        c->p = put_spill(c->p, reach_of(c), WORD * (ARGUMENTS + saved_slots(x)));
    for (unsigned k = 0; k < x->count; k++) {
        const struct rewrite_trace_word *v = &c->w->traced->words.data[x->words + k];
        int64_t to = WORD * (2 * (int64_t)k + 1);
        if (v->tells == REWRITE_TRACE_REGISTERS)
            put_value(c, k, to);
        else
            put_vector_value(c, v, to);
        store_number(c, at(x->q, WORD * 2 * (int64_t)k), (uint32_t)WIRE_TRACE_LATE + x->first + k);
    }
}

static void put_point(struct code *c, uint64_t body)
{
    const struct point *x = c->x;
    put_save(c);
    put_word_of(c, x->q, RW_LINK_TRACE_TURN);
    put_test(c, x->q);
    uint8_t *off = jump_if(c, EQUAL), *none = NULL;
    put_word_of(c, x->p, RW_LINK_TRACE_STATE);
    insn(c, LOAD, x->p, (struct operand){FS, x->p, X86_REG_NONE, 0, 0});
    if (x->part) {
        none = put_reserve(c);
        put_begin(c, body);
    } else {
        put_late(c);
    }
    arrive(c, off);
    if (none)
        arrive(c, none);
    put_restore(c);
}

static uint16_t size_of(const struct rw *w, const struct point *x)
{
    uint8_t bytes[POINT_BYTES_MAX];
    struct code c = {w, x, bytes, bytes, 0};
    put_point(&c, 0);
    return (uint16_t)(c.p - c.first);
}

/* ---- which ---- */

struct finder {
    struct rw *w;
    struct x86_detail details[CFG_BLOCK_INSNS_MAX];
    struct cfg_live live[CFG_BLOCK_INSNS_MAX];
    struct rewrite_trace_plan plan;
};

static void add_point(struct finder *f, struct point x, const struct rewrite_trace_word *words, struct cfg_live live)
{
    struct rw_traced *t = f->w->traced;
    x.words = (uint32_t)t->words.len;
    for (unsigned k = 0; k < x.count; k++) {
        VEC_PUSH(&t->words, words[k]);
        x.has_indices |= words[k].tells == REWRITE_TRACE_INDICES;
        if (words[k].tells == REWRITE_TRACE_MASK) {
            x.reach = (uint32_t)t->reaches.len;
            VEC_PUSH(&t->reaches, f->details[words[k].insn].reach);
        }
    }
    choose_registers(f->w, &x, live);
    x.bytes = size_of(f->w, &x);
    if (t->of_insn[x.insn] == ID_NONE)
        t->of_insn[x.insn] = (uint32_t)t->points.len;
    VEC_PUSH(&t->points, x);
}

static struct cfg_live live_at(const struct finder *f, const struct cfg_block *blk, unsigned insn, bool is_behind)
{
    static const struct cfg_live unknown = {X86_ALL_FLAGS, 0};
    insn += is_behind;
    return insn < blk->insn_count ? f->live[insn] : unknown;
}

/* Late words come in the order of their instructions. */
static void add_part(struct finder *f, uint32_t block, unsigned first, uint8_t part)
{
    const struct cfg_block *blk = &f->w->cfg->blocks.data[block];
    const struct rewrite_trace_plan *p = &f->plan;
    struct point begin = {
        .insn = blk->insn_first + first, .block = block, .part = part, .count = (uint16_t)p->entry_count};
    add_point(f, begin, p->entry, f->live[first]);
    for (unsigned k = 0; k < p->late_count;) {
        const struct rewrite_trace_word *v = &p->late[k];
        unsigned n = 1;
        while (k + n < p->late_count && p->late[k + n].insn == v->insn && p->late[k + n].is_behind == v->is_behind)
            n++;
        struct point late = {.insn = blk->insn_first + v->insn,
                             .block = block,
                             .is_behind = v->is_behind,
                             .first = (uint16_t)k,
                             .count = (uint16_t)n};
        add_point(f, late, v, live_at(f, blk, v->insn, v->is_behind));
        k += n;
    }
}

static bool decode_block(struct finder *f, const struct cfg_block *blk)
{
    const struct rw *w = f->w;
    for (unsigned i = 0; i < blk->insn_count; i++) {
        uint64_t addr = cfg_insn_addr(w->cfg, blk->insn_first + i);
        unsigned len = cfg_len(w->cfg, blk->insn_first + i);
        const uint8_t *bytes = image_at(w->img, addr, len);
        if (!bytes || !x86_decode_detail(bytes, len, addr, &f->details[i]))
            return false;
    }
    return true;
}

static void find_in_func(struct finder *f, uint32_t func, struct cfg_liveness *l)
{
    const struct cfg *c = f->w->cfg;
    cfg_liveness_build(c, func, l);
    cfg_for_each_block(&c->funcs.data[func], b) {
        const struct cfg_block *blk = &c->blocks.data[b];
        if (blk->insn_count > CFG_BLOCK_INSNS_MAX || !decode_block(f, blk))
            continue;
        cfg_live_inside(l, b, f->live, CFG_BLOCK_INSNS_MAX);
        uint8_t part = 1;
        for (unsigned at_insn = 0; at_insn < blk->insn_count; part++) {
            unsigned next = rewrite_trace_plan(f->details, at_insn, blk->insn_count, &f->plan);
            add_part(f, b, at_insn, part);
            at_insn = next;
        }
    }
}

static void plan(struct rw *w) { (void)w; }

static void place(struct rw *w)
{
    struct finder *f = xmalloc(sizeof *f);
    struct cfg_liveness l = {0};
    f->w = w;
    w->traced = ARENA_NEW(w->arena, struct rw_traced);
    w->traced->of_insn = ARENA_ARRAY(w->arena, uint32_t, w->cfg->insns.len + 1);
    memset(w->traced->of_insn, 0xff, (w->cfg->insns.len + 1) * sizeof *w->traced->of_insn);
    for (uint32_t func = 0; func < w->cfg->funcs.len; func++)
        if (w->funcs[func].is_moved)
            find_in_func(f, func, &l);
    cfg_liveness_fini(&l);
    free(f);
}

static void forget(struct rw *w)
{
    if (!w->traced)
        return;
    VEC_FREE(&w->traced->points);
    VEC_FREE(&w->traced->words);
    VEC_FREE(&w->traced->reaches);
}

/* ---- where they stand ---- */

static uint32_t next(const struct rw *w, uint32_t block, uint32_t insn)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[block];
    for (uint32_t i = insn; i < blk->insn_first + blk->insn_count; i++)
        if (w->traced->of_insn[i] != ID_NONE)
            return i;
    return ID_NONE;
}

static bool is_any(const struct rw *w, uint32_t insn, bool is_behind, struct rw_fragments *out)
{
    const struct rw_traced *t = w->traced;
    bool any = false;
    for (uint32_t k = t->of_insn[insn]; k < t->points.len && t->points.data[k].insn == insn; k++) {
        const struct point *x = &t->points.data[k];
        if (x->is_behind != is_behind)
            continue;
        any = true;
        if (out)
            rw_fragment_add(
                out, (struct rw_fragment){.id = k, .bytes = x->bytes, .kind = RW_INSERTED, .how = (uint8_t)slots(x)});
    }
    return any;
}

static bool has_behind(const struct rw *w, uint32_t insn) { return is_any(w, insn, true, NULL); }

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    if (point.where == RW_BEFORE_INSN || point.where == RW_BEHIND_INSN)
        is_any(w, point.insn, point.where == RW_BEHIND_INSN, out);
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *to, uint64_t addr)
{
    const struct point *x = &w->traced->points.data[f->id];
    struct code c = {w, x, to, to, addr};
    put_point(&c, addr - f->off + w->label[x->block].body);
}

static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    (void)w;
    rw_frame(out, f->off + LEA_RSP_BYTES, (uint32_t)(RED_ZONE + WORD * (ARGUMENTS + f->how)));
    rw_frame(out, f->off + f->bytes, 0);
}

const struct rw_instrument rw_trace = {.moves = true,
                                       .plan = plan,
                                       .place = place,
                                       .forget = forget,
                                       .next = next,
                                       .has_behind = has_behind,
                                       .insert = insert,
                                       .put = put,
                                       .frames = frames};
