/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation of traces, of relocatable objects: where a part of a block begins its number and what registers
 * hold, and in front of instructions what is known only there (trace_plan.c says what), into the thread's part of a
 * buffer that all processes share (wire/trace.h).
 *
 *     lea rsp,[rsp-...]; save flags and registers        what is alive of them, below the red zone; if anything is
 *     mov one,[turn]; test one,one; je end               nobody traces
 *     mov s,[state@gottpoff]; mov s,fs:[s]               the thread's state
 *     cmp one,[s]; jne slow                              another thread had its turn
 *     ...; jne written; ...                              the filter's (filter.c); or jmp written
 *     end: restore; lea rsp,[rsp+...]
 *
 * and behind the function, for few parts are written where it is in use:
 *
 *     written: mov one,[s]; mov [rsp+8],one; mov [s],0   a handler of a signal begins a segment, and knows no lines
 *     cmp [s+counts],0; je take; ...                     nothing is filtered; else the filter's, which may go back
 *     take:
 *     mov two,bytes; xadd [s+8],two; cmp two,[s+16]; jb fast      room is taken by one instruction: signals may come
 *     mov one,[rsp+8]; mov [rsp+16],one; mov [rsp],two; jmp call
 *     slow: mov qword [rsp],0; mov qword [rsp+16],0
 *     call: mov qword [rsp+8],bytes; call mtool_trace; mov two,[rsp]; test two,two; je end
 *     fast: lea one,[...]; mov [two+8],one; ...          what registers hold
 *     lea one,[block]; mov [two],one
 *     mov one,[rsp+8]; test one,one; je end              as the runtime leaves it: no lines are known
 *     mov [s],one; jmp end
 *
 * A part that reaches nothing is the same in any segment: if one register is free it is just counted,
 *
 *     mov s,[turn]; test s,s; je end; mov s,[state@gottpoff]; mov s,fs:[s]
 *     mov s,[s+counts]; test s,s; je light; inc [s+...]
 *
 * Where the filter is in use and it is not known what a part touches, it goes the slow way: a segment begins, so all
 * that was kept is told, and no lines are known behind it. What comes later has no `cmp`: its room is kept by the
 * part's begin. Indices of a gather are stored in full on the stack, and told from there.
 *
 * needs: funcs. fills: traced.
 */
#include "wire/trace.h"
#include "rewrite/instruments/registers.h"
#include "rewrite/instruments/trace/code.h"
#include "rewrite/instruments/vectors.h"

#include <stdlib.h>

enum { ARGUMENTS = RW_TRACE_ARGUMENTS, CALL_BYTES = 5, POINT_BYTES_MAX = 16384, WORD = 8 };
enum { VECTOR_BYTES = 64, REGISTERS = RW_TRACE_REGISTERS };

struct point { /* in front of an instruction, or behind it */
    uint32_t insn, block;
    uint8_t part; /* that begins there, and 1; 0: none */
    bool is_behind;
    uint16_t first, count;       /* late words of the part; of its begin the part's entry words */
    uint32_t words;              /* into words: all that are told */
    uint8_t reg[REGISTERS];      /* the thread's state, and two more */
    struct rw_trace_saves saves; /* its room: for a vector of indices */
    bool is_light;               /* it is only counted where the filter is in use, whosever turn it is */
    bool is_near;                /* the way past what is inserted is short */
    uint16_t bytes, end;         /* end: where in them the part behind the function comes back */
    uint16_t passed;             /* likewise, if the part need not be written */
    uint16_t bytes_cold, slow;   /* of the part behind the function; 0 none. slow: where it is entered too */
    uint32_t hot, cold;          /* layout: where they stand in the function */
    uint32_t reach;              /* into reaches: of what vector and mask registers hold there */
    struct rw_trace_filter filter;
};
struct rw_traced {
    VEC(struct point) points; /* in the order of their places in the code */
    VEC(struct rewrite_trace_word) words;
    VEC(struct x86_reach) reaches;
    struct rw_trace_items items;
    uint32_t *of_insn; /* [insns] its first point, ID_NONE: none */
};

/* ---- registers ---- */

static void choose_registers(const struct rw *w, struct point *x, struct cfg_live live)
{
    uint16_t used = FRAME_REGISTERS;
    for (uint32_t k = x->words; k < x->words + x->count; k++)
        used |= bit_of(w->traced->words.data[k].base) | bit_of(w->traced->words.data[k].index);
    x->saves.has_flags = live.flags != 0;
    struct taken_registers taken = take_registers(REGISTERS, live.gpr_dead & (uint16_t)~used, used);
    memcpy(x->reg, taken.reg, sizeof x->reg);
    memcpy(x->saves.saved, taken.saved, sizeof x->saves.saved);
    x->saves.count = taken.saves;
}

/* Nothing is asked, and one register is free: the others are saved only where it is written. */
static bool is_light(const struct point *x)
{
    const struct rw_trace_filter *f = &x->filter;
    return x->part && f->how == RW_TRACE_FILTERED && !f->check_count && !x->saves.has_flags &&
           x->saves.count < REGISTERS;
}

/* ---- the code ---- */

struct code {
    struct rw_trace_code at;
    const struct point *x;
    unsigned end, passed, slow; /* as in struct point, when it is made */
};

static unsigned bytes_of(const struct code *c) { return (unsigned)(c->at.p - c->at.first); }

static int32_t saved_bytes(const struct point *x) { return rw_trace_saved_bytes(&x->saves); }

/* Behind these, of what is not in line, arguments. */
static int32_t stack_bytes(const struct point *x)
{
    return (saved_bytes(x) ? saved_bytes(x) : RW_TRACE_RED_ZONE) + WORD * ARGUMENTS;
}

static struct code code_of(const struct rw *w, const struct point *x, bool is_cold, uint8_t *to, uint64_t addr)
{
    return (struct code){.at = {.w = w,
                                .first = to,
                                .p = to,
                                .addr = addr,
                                .state = x->reg[0],
                                .one = x->reg[1],
                                .two = x->reg[2],
                                .stack_bytes = is_cold && !x->is_light ? saved_bytes(x) : 0},
                         .x = x};
}

static void put_word_of(struct rw_trace_code *c, unsigned reg, enum rw_link_hook word)
{
    *c->p++ = (uint8_t)(0x48 | reg >> 3 << 2);
    *c->p++ = LOAD;
    *c->p++ = (uint8_t)(0x05 | (reg & 7) << 3);
    c->p = rw_put32(c->p, rw_link_hook(c->w, word) - (trace_here(c) + 4));
}

static void put_lea_here(struct rw_trace_code *c, unsigned reg, uint64_t to)
{
    *c->p++ = (uint8_t)(0x48 | reg >> 3 << 2);
    *c->p++ = LEA;
    *c->p++ = (uint8_t)(0x05 | (reg & 7) << 3);
    c->p = rw_put32(c->p, to - (trace_here(c) + 4));
}

/* Through `one`, to where `two` leads. */
static void put_value(struct rw_trace_code *c, const struct rewrite_trace_word *v, int64_t to)
{
    bool is_plain = v->index == X86_REG_NONE && v->base != X86_RSP;
    struct operand m = {0, v->base, v->index, v->scale, v->base == X86_RSP ? c->stack_bytes : 0};
    if (!is_plain)
        trace_insn(c, LEA, c->one, m);
    trace_insn(c, STORE, is_plain ? v->base : c->one, trace_at(c->two, to));
}

static void put_vector_value(struct code *c, const struct rewrite_trace_word *v, int64_t to)
{
    struct rw_trace_code *at = &c->at;
    if (v->tells == REWRITE_TRACE_MASK)
        at->p = put_mask(at->p, &at->w->traced->reaches.data[c->x->reach], at->one);
    else
        trace_insn(at, LOAD, at->one, on_stack(v->part));
    trace_insn(at, STORE, at->one, trace_at(at->two, to));
}

static unsigned bytes_told(const struct point *x) { return WORD * (x->part ? 1u + x->count : 2u * x->count); }

static void put_take(struct rw_trace_code *c, const struct point *x)
{
    c->p = put_short_number(c->p, c->two, bytes_told(x));
    trace_insn(c, XADD, c->two, trace_at(c->state, WIRE_TRACE_STATE_PUT));
}

/* Room for them. */
static void put_arguments(struct code *code) { rw_trace_move_stack(&code->at, stack_bytes(code->x)); }
static void drop_arguments(struct code *code) { rw_trace_move_stack(&code->at, saved_bytes(code->x)); }

/* The lines that the part touches are the last ones of their places; and if nothing else came of it, it is one that
 * passed. */
static void put_lines(struct code *code, uint64_t passed)
{
    struct rw_trace_code *c = &code->at;
    const struct rw_trace_filter *f = &code->x->filter;
    if (!f->mark_count)
        return;
    trace_compare_number(c, trace_at(c->state, WIRE_TRACE_STATE_COUNTS), 0);
    uint8_t *all = trace_jump_if(c, EQUAL);
    trace_store_number(c, on_stack(RW_TRACE_IS_TOLD), f->how != RW_TRACE_FILTERED);
    rw_trace_put_lines(c, f, c->w->traced->items.data);
    if (f->how == RW_TRACE_FILTERED) {
        trace_compare_number(c, on_stack(RW_TRACE_IS_TOLD), 0);
        uint8_t *told = trace_jump_if(c, NOT_EQUAL);
        trace_insn(c, LOAD, c->one, on_stack(RW_TRACE_TURN));
        trace_insn(c, STORE, c->one, trace_at(c->state, WIRE_TRACE_STATE_MINE));
        drop_arguments(code);
        trace_jump_to(c, passed);
        rw_trace_frame(c, stack_bytes(code->x));
        trace_arrive(c, told);
    }
    trace_arrive(c, all);
}

/* Up to `fast`. begins: a jump where it begins a segment, or NULL. Returns the way out that is taken where there is no
 * room. */
static uint8_t *put_reserve(struct code *code, uint64_t passed, uint8_t *begins)
{
    struct rw_trace_code *c = &code->at;
    uint8_t *unknown = NULL;
    put_arguments(code);
    if (code->x->filter.how == RW_TRACE_UNKNOWN) {
        trace_compare_number(c, trace_at(c->state, WIRE_TRACE_STATE_COUNTS), 0);
        unknown = trace_jump_if(c, NOT_EQUAL);
    }
    trace_insn(c, LOAD, c->one, trace_at(c->state, WIRE_TRACE_STATE_MINE));
    trace_insn(c, STORE, c->one, on_stack(RW_TRACE_TURN));
    trace_store_number(c, trace_at(c->state, WIRE_TRACE_STATE_MINE), 0);
    put_lines(code, passed);
    put_take(c, code->x);
    trace_insn(c, COMPARE, c->two, trace_at(c->state, WIRE_TRACE_STATE_LIMIT));
    uint8_t *fast = trace_jump_if(c, BELOW);
    trace_insn(c, LOAD, c->one, on_stack(RW_TRACE_TURN));
    trace_insn(c, STORE, c->one, on_stack(2));
    trace_insn(c, STORE, c->two, on_stack(0));
    trace_jump_to(c, 0);
    uint8_t *call = c->p;
    code->slow = bytes_of(code);
    rw_trace_frame(c, saved_bytes(code->x));
    if (begins)
        trace_arrive(c, begins);
    put_arguments(code);
    if (unknown)
        trace_arrive(c, unknown);
    trace_store_number(c, on_stack(0), 0);
    trace_store_number(c, on_stack(2), 0);
    trace_arrive(c, call);
    trace_store_number(c, on_stack(1), bytes_told(code->x));
    rw_put_call(c->p, trace_here(c), rw_link_hook(c->w, RW_LINK_TRACE));
    c->p += CALL_BYTES;
    trace_insn(c, LOAD, c->two, on_stack(0));
    trace_test(c, c->two);
    uint8_t *none = trace_jump_if(c, EQUAL);
    trace_arrive(c, fast);
    return none;
}

static void put_state(struct rw_trace_code *c)
{
    put_word_of(c, c->state, RW_LINK_TRACE_STATE);
    trace_insn(c, LOAD, c->state, (struct operand){FS, c->state, X86_REG_NONE, 0, 0});
}

/* Of a light part all is still to be done. Returns the jump to where it begins a segment. */
static uint8_t *put_light_begin(struct code *code)
{
    struct rw_trace_code *c = &code->at;
    rw_trace_save(c, &code->x->saves);
    put_word_of(c, c->one, RW_LINK_TRACE_TURN);
    put_state(c);
    trace_insn(c, COMPARE, c->one, trace_at(c->state, WIRE_TRACE_STATE_MINE));
    return trace_jump_if(c, NOT_EQUAL);
}

static void put_cold(struct code *code, uint64_t end, uint64_t passed, uint64_t body)
{
    struct rw_trace_code *c = &code->at;
    const struct point *x = code->x;
    uint8_t *begins = x->is_light ? put_light_begin(code) : NULL;
    uint8_t *outs[2] = {put_reserve(code, passed, begins)};
    for (unsigned k = 0; k < x->count; k++)
        put_value(c, &c->w->traced->words.data[x->words + k], WORD * (1 + (int64_t)k));
    put_lea_here(c, c->one, body + x->part - 1);
    trace_insn(c, STORE, c->one, trace_at(c->two, 0));
    trace_insn(c, LOAD, c->one, on_stack(RW_TRACE_TURN));
    trace_test(c, c->one);
    outs[1] = trace_jump_if(c, EQUAL);
    trace_insn(c, STORE, c->one, trace_at(c->state, WIRE_TRACE_STATE_MINE));
    for (unsigned k = 0; k < ARRAY_LEN(outs); k++)
        trace_arrive(c, outs[k]);
    drop_arguments(code);
    if (x->is_light)
        rw_trace_restore(c, &x->saves);
    trace_jump_to(c, end);
}

static void put_begin(struct code *code, uint64_t cold)
{
    struct rw_trace_code *c = &code->at;
    const struct point *x = code->x;
    trace_insn(c, COMPARE, c->one, trace_at(c->state, WIRE_TRACE_STATE_MINE));
    trace_jump_if_to(c, NOT_EQUAL, cold + x->slow);
    if (x->filter.how != RW_TRACE_FILTERED) {
        trace_jump_to(c, cold);
        return;
    }
    rw_trace_put_checks(c, &x->filter, c->w->traced->items.data, cold);
    code->passed = bytes_of(code);
    rw_trace_put_counts(c, &x->filter, cold);
}

static void put_late(struct code *c)
{
    const struct point *x = c->x;
    struct rw_trace_code *at = &c->at;
    put_take(at, x);
    if (x->saves.room)
        at->p = put_spill(at->p, &at->w->traced->reaches.data[x->reach], 0);
    for (unsigned k = 0; k < x->count; k++) {
        const struct rewrite_trace_word *v = &at->w->traced->words.data[x->words + k];
        int64_t to = WORD * (2 * (int64_t)k + 1);
        if (v->tells == REWRITE_TRACE_REGISTERS)
            put_value(at, v, to);
        else
            put_vector_value(c, v, to);
        trace_store_number(at, trace_at(at->two, WORD * 2 * (int64_t)k), (uint32_t)WIRE_TRACE_LATE + x->first + k);
    }
}

/* What it reaches is nothing, so it is the same whosever turn it is. */
static void put_light(struct code *code, uint64_t cold)
{
    struct rw_trace_code c = code->at;
    c.one = c.state;
    rw_trace_put_counts(&c, &code->x->filter, cold);
    code->at.p = c.p;
}

/* Returns whether the way past it is short. */
static bool put_hot(struct code *c, uint64_t cold)
{
    const struct point *x = c->x;
    struct rw_trace_code *at = &c->at;
    uint8_t first = x->is_light ? at->state : at->one;
    if (!x->is_light)
        rw_trace_save(at, &x->saves);
    put_word_of(at, first, RW_LINK_TRACE_TURN);
    trace_test(at, first);
    uint8_t *off = x->is_near ? trace_jump_near_if(at, EQUAL) : trace_jump_if(at, EQUAL);
    put_state(at);
    if (x->is_light)
        put_light(c, cold);
    else if (x->part)
        put_begin(c, cold);
    else
        put_late(c);
    bool is_near = trace_is_near(at, off);
    if (x->is_near)
        trace_arrive_near(at, off);
    else
        trace_arrive(at, off);
    c->end = bytes_of(c);
    if (!x->is_light)
        rw_trace_restore(at, &x->saves);
    return is_near;
}

static void find_sizes(const struct rw *w, struct point *x)
{
    uint8_t bytes[POINT_BYTES_MAX];
    struct code hot = code_of(w, x, false, bytes, 0), cold = code_of(w, x, true, bytes, 0);
    x->is_near = put_hot(&hot, 0);
    hot = code_of(w, x, false, bytes, 0);
    put_hot(&hot, 0);
    x->bytes = (uint16_t)bytes_of(&hot);
    x->end = (uint16_t)hot.end;
    x->passed = (uint16_t)hot.passed;
    if (!x->part)
        return;
    put_cold(&cold, 0, 0, 0);
    x->bytes_cold = (uint16_t)bytes_of(&cold);
    x->slow = (uint16_t)cold.slow;
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
        if (words[k].tells == REWRITE_TRACE_INDICES)
            x.saves.room = VECTOR_BYTES;
        if (words[k].tells == REWRITE_TRACE_MASK) {
            x.reach = (uint32_t)t->reaches.len;
            VEC_PUSH(&t->reaches, f->details[words[k].insn].reach);
        }
    }
    choose_registers(f->w, &x, live);
    x.is_light = is_light(&x);
    find_sizes(f->w, &x);
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
static void add_part(struct finder *f, uint32_t block, unsigned first, unsigned end, uint8_t part)
{
    const struct cfg_block *blk = &f->w->cfg->blocks.data[block];
    const struct rewrite_trace_plan *p = &f->plan;
    struct point begin = {
        .insn = blk->insn_first + first, .block = block, .part = part, .count = (uint16_t)p->entry_count};
    rw_trace_filter_find(f->w, block, f->details, first, end, p, &f->w->traced->items, &begin.filter);
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
            add_part(f, b, at_insn, next, part);
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
    VEC_FREE(&w->traced->items);
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

enum { IS_COLD = 1 }; /* `how` of a fragment: it is the part behind the function */

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
            rw_fragment_add(out, (struct rw_fragment){.id = k, .bytes = x->bytes, .kind = RW_INSERTED});
    }
    return any;
}

static bool has_behind(const struct rw *w, uint32_t insn) { return is_any(w, insn, true, NULL); }

static void insert_cold(const struct rw *w, uint32_t insn, struct rw_fragments *out)
{
    const struct rw_traced *t = w->traced;
    for (uint32_t k = t->of_insn[insn]; k < t->points.len && t->points.data[k].insn == insn; k++) {
        const struct point *x = &t->points.data[k];
        if (x->bytes_cold)
            rw_fragment_add(out,
                            (struct rw_fragment){.id = k, .bytes = x->bytes_cold, .kind = RW_INSERTED, .how = IS_COLD});
    }
}

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    if (point.where == RW_BEFORE_INSN || point.where == RW_BEHIND_INSN)
        is_any(w, point.insn, point.where == RW_BEHIND_INSN, out);
    else if (point.where == RW_BEHIND_CODE)
        insert_cold(w, point.insn, out);
}

static void describe(struct rw *w, uint32_t func)
{
    const struct rw_func *fn = &w->funcs[func];
    for (uint32_t i = 0; i < fn->fragment_count; i++) {
        const struct rw_fragment *f = &fn->fragments[i];
        if (f->kind != RW_INSERTED)
            continue;
        struct point *x = &w->traced->points.data[f->id];
        if (f->how & IS_COLD)
            x->cold = f->off;
        else
            x->hot = f->off;
    }
}

/* The function is at `base`. */
static void put_in(struct code *c, const struct rw_fragment *f, uint64_t base)
{
    const struct point *x = c->x;
    if (f->how & IS_COLD)
        put_cold(c, base + x->hot + x->end, base + x->hot + x->passed, base + c->at.w->label[x->block].body);
    else
        put_hot(c, base + x->cold);
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *to, uint64_t addr)
{
    struct code c = code_of(w, &w->traced->points.data[f->id], f->how & IS_COLD, to, addr);
    put_in(&c, f, addr - f->off);
}

static unsigned operands(const struct rw *w, const struct rw_fragment *f, struct rw_operand out[RW_OPERANDS_MAX])
{
    const struct point *x = &w->traced->points.data[f->id];
    uint8_t bytes[POINT_BYTES_MAX];
    if (!x->part || !rw_trace_filter_has_operands(&x->filter, w->traced->items.data))
        return 0;
    struct code c = code_of(w, x, f->how & IS_COLD, bytes, 0);
    c.at.operands = out;
    put_in(&c, f, 0);
    return c.at.operand_count;
}

/* The part behind the function begins with the stack pointer where the one in line has it, but for a light one. */
static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    const struct point *x = &w->traced->points.data[f->id];
    uint8_t bytes[POINT_BYTES_MAX];
    struct code c = code_of(w, x, f->how & IS_COLD, bytes, 0);
    uint32_t begins = (uint32_t)c.at.stack_bytes;
    if (!(f->how & IS_COLD) && !saved_bytes(x))
        return;
    put_in(&c, f, 0);
    if (begins)
        rw_frame(out, f->off, begins);
    for (unsigned k = 0; k < c.at.frame_count; k++)
        rw_frame(out, f->off + c.at.frames[k].at, c.at.frames[k].bytes);
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
                                       .describe = describe,
                                       .frames = frames,
                                       .operands = operands};
