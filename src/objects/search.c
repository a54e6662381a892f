/* SPDX-License-Identifier: Apache-2.0
 *
 * search: candidates in order of their memory operations: procedures, in each inner loops before outer ones, these
 * before the procedure, and long code in pieces; regions that the source marks. */
#include "objects/selection.h"

#include <math.h>
#include <stdlib.h>

#define FIRST_SHARE 0.95 /* of all memory operations: what procedures must hold together */
#define MIN_SHARE 0.001  /* of all memory operations: less is no candidate */
#define REST_SHARE 0.01  /* of its procedure's: less beside what inner objects measure is not worth an object */
#define LINES_MAX 50     /* of an object's own code, else it is cut into pieces */
#define INSNS_MAX 400
#define PIECE_LINES 15
#define PIECE_INSNS 120

/* ---- regions that the source marks ---- */

static void consider_marked(struct selection *s, const struct marked *r)
{
    struct join_module *m = &s->j->modules[r->module];
    const struct cfg_block *first = &m->cfg->blocks.data[r->blocks[0]];
    struct region all = {first->func, ID_NONE, r->blocks, r->count};
    struct made made = select_make(s, m, PROF_REGION, &all, &all);
    struct prof_candidate *o = &made.o;
    o->region = r->name;
    o->file = r->file;
    o->line_first = r->line_first;
    o->line_last = r->line_last;
    o->is_asked = r->is_asked;
    o->depth = 1 + (first->loop == ID_NONE ? 0 : m->cfg->loops.data[first->loop].depth);
    select_put(s, &made, INFINITY);
}

void select_consider_all_marked(struct selection *s)
{
    for (size_t i = 0; i < s->j->marked_count; i++)
        if (s->j->marked[i].count)
            consider_marked(s, &s->j->marked[i]);
}

/* ---- one procedure ---- */

static bool takes_time(const struct selection *s, const struct tally *t)
{
    return (t->samples && (double)t->samples >= s->samples_worth) || (t->cycles > 0 && t->cycles >= s->cycles_worth);
}

static bool is_candidate(const struct selection *s, const struct join_module *m, uint32_t loop)
{
    const struct join_loop *l = &s->j->loops[m->loop_base + loop];
    bool is_asked = l->object != ID_NONE && s->requested[l->object];
    return l->iterations &&
           (is_asked || takes_time(s, &l->incl) || (double)l->incl.memory_ops >= MIN_SHARE * (double)s->j->memory_ops);
}

static void order_loops(const struct selection *s, struct procedure_search *p)
{
    const struct cfg *c = p->m->cfg;
    const struct cfg_func *f = &c->funcs.data[p->func];
    uint32_t deepest = 0;
    p->order = ARENA_ARRAY(s->j->scratch, uint32_t, f->loop_count + 1);
    cfg_for_each_loop(f, l)
        deepest = (uint32_t)max_u64(deepest, c->loops.data[l].depth);
    for (uint32_t d = deepest; d > 0; d--)
        cfg_for_each_loop(f, l)
            if (c->loops.data[l].depth == d && is_candidate(s, p->m, l))
                p->order[p->order_count++] = l;
}

static uint32_t candidate_around(const struct selection *s, const struct procedure_search *p, uint32_t loop)
{
    while (loop != ID_NONE && !is_candidate(s, p->m, loop))
        loop = p->m->cfg->loops.data[loop].parent;
    return loop;
}

void select_find_owners(struct selection *s, struct procedure_search *p)
{
    const struct cfg_func *f = &p->m->cfg->funcs.data[p->func];
    p->owner = ARENA_ARRAY(s->j->scratch, uint32_t, f->block_count + 1);
    p->measured = ARENA_ARRAY(s->j->scratch, double, f->loop_count + 1);
    cfg_for_each_block(f, b)
        p->owner[b - f->block_first] = candidate_around(s, p, p->m->cfg->blocks.data[b].loop);
}

/* Executed blocks of the loop, or of the procedure; `own`: those that it owns. */
struct region select_region_of(const struct selection *s, const struct procedure_search *p, uint32_t loop, bool own)
{
    const struct cfg *c = p->m->cfg;
    const struct cfg_func *f = &c->funcs.data[p->func];
    const struct cfg_loop *l = loop == ID_NONE ? NULL : &c->loops.data[loop];
    uint32_t count = l ? l->member_count : f->block_count;
    uint32_t *blocks = ARENA_ARRAY(s->j->scratch, uint32_t, count + 1);
    struct region r = {.func = p->func, .loop = loop, .blocks = blocks};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t b = l ? c->loop_members.data[l->member_first + i] : f->block_first + i;
        if (s->j->counts[p->m->block_base + b] && (!own || p->owner[b - f->block_first] == loop))
            blocks[r.count++] = b;
    }
    return r;
}

bool select_is_long(const struct prof_candidate *o)
{
    return o->own_lines > LINES_MAX || o->own_instructions > INSNS_MAX;
}

/* Own code that is too long is cut where a block ends. Returns how many pieces there are. */
uint32_t select_cut(struct selection *s, const struct procedure_search *p, const struct region *own)
{
    const struct cfg_block *all = p->m->cfg->blocks.data;
    uint32_t pieces = 0;
    for (size_t first = 0, end; first < own->count; first = end) {
        uint32_t insns = all[own->blocks[first]].insn_count;
        for (end = first + 1; end < own->count && insns + all[own->blocks[end]].insn_count <= PIECE_INSNS; end++) {
            struct place_lines lines = places_of_blocks(s->j, p->m, own->blocks + first, end + 1 - first);
            if (lines.count > PIECE_LINES)
                break;
            insns += all[own->blocks[end]].insn_count;
        }
        struct region piece = {own->func, own->loop, own->blocks + first, end - first};
        struct made made = select_make(s, p->m, PROF_PIECE, &piece, &piece);
        const struct cfg_block *last = &all[own->blocks[end - 1]];
        made.o.address_end = last->addr + last->size;
        pieces++;
        select_put(s, &made, (double)made.o.memory_ops);
        if ((double)made.o.memory_ops < MIN_SHARE * (double)s->j->memory_ops) {
            s->out.data[s->out.len - 1].verdict = PROF_DROPPED;
            s->out.data[s->out.len - 1].reason = "holds less than a thousandth of all memory operations";
        }
    }
    return pieces;
}

static void note_measured(struct procedure_search *p, uint32_t loop, double memory_ops)
{
    const struct cfg_func *f = &p->m->cfg->funcs.data[p->func];
    uint32_t up = loop == ID_NONE ? ID_NONE : p->m->cfg->loops.data[loop].parent;
    for (; up != ID_NONE; up = p->m->cfg->loops.data[up].parent)
        p->measured[up - f->loop_first] += memory_ops;
    p->measured[f->loop_count] += memory_ops;
}

/* A loop, or with ID_NONE the procedure itself. */
static void consider(struct selection *s, struct procedure_search *p, uint32_t loop)
{
    const struct cfg_func *f = &p->m->cfg->funcs.data[p->func];
    struct region all = select_region_of(s, p, loop, false), own = select_region_of(s, p, loop, true);
    if (!all.count)
        return;
    struct made made = select_make(s, p->m, loop == ID_NONE ? PROF_PROCEDURE : PROF_LOOP, &all, &own);
    double inside = p->measured[loop == ID_NONE ? f->loop_count : loop - f->loop_first];
    double rest = (double)made.o.memory_ops - inside;
    made.o.pieces = select_is_long(&made.o) ? select_cut(s, p, &own) : 0;
    select_put(s, &made, rest);
    struct prof_candidate *kept = &s->out.data[s->out.len - 1];
    if (!kept->is_asked && inside > 0 && rest < REST_SHARE * p->memory_ops) {
        kept->verdict = PROF_COVERED;
        kept->reason = "objects inside of it hold its memory operations";
    } else if (kept->verdict == PROF_TAKEN) {
        note_measured(p, loop, rest);
    }
}

static void search(struct selection *s, struct join_module *m, uint32_t func)
{
    struct procedure_search p = {
        .m = m, .func = func, .memory_ops = (double)s->j->funcs[m->func_base + func].incl.memory_ops};
    order_loops(s, &p);
    select_find_owners(s, &p);
    s->procedure_search[m->func_base + func] = 1;
    for (uint32_t i = 0; i < p.order_count; i++)
        consider(s, &p, p.order[i]);
    consider(s, &p, ID_NONE);
}

/* Beyond the first 95 %: named, not searched. */
static void pass_over(struct selection *s, struct join_module *m, uint32_t func)
{
    struct procedure_search p = {.m = m, .func = func};
    select_find_owners(s, &p);
    struct region all = select_region_of(s, &p, ID_NONE, false);
    if (!all.count)
        return;
    struct made made = select_make(s, m, PROF_PROCEDURE, &all, &all);
    made.o.verdict = PROF_DROPPED;
    made.o.reason =
        "not among the procedures that hold the first 95 % of memory operations, or a hundredth of the predicted time";
    VEC_PUSH(&s->out, made.o);
    VEC_PUSH(&s->details, ((struct candidate_detail){0, NULL, made.part}));
}

/* ---- all procedures ---- */

static int by_memory_ops(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->memory_ops != y->memory_ops)
        return x->memory_ops < y->memory_ops ? 1 : -1;
    return x->module != y->module ? (x->module < y->module ? -1 : 1) : (x->func > y->func) - (x->func < y->func);
}

static bool holds_requested(const struct selection *s, const struct join_module *m, uint32_t func)
{
    const struct cfg_func *f = &m->cfg->funcs.data[func];
    uint32_t object = s->j->funcs[m->func_base + func].object;
    bool is = object != ID_NONE && s->requested[object];
    for (uint32_t l = f->loop_first; l < f->loop_first + f->loop_count && !is; l++) {
        object = s->j->loops[m->loop_base + l].object;
        is = object != ID_NONE && s->requested[object];
    }
    return is;
}

void select_rank_all(struct selection *s, struct ranks *all)
{
    struct join *j = s->j;
    for (uint32_t i = 0; i < j->module_count; i++)
        for (uint32_t f = 0; j->modules[i].cfg && f < j->modules[i].cfg->funcs.len; f++) {
            uint64_t ops = j->funcs[j->modules[i].func_base + f].incl.memory_ops;
            if (ops && s->graph.node_of[j->modules[i].func_base + f] != ID_NONE)
                VEC_PUSH(&all->v, ((struct ranked){i, f, ops}));
        }
    if (all->v.len)
        qsort(all->v.data, all->v.len, sizeof *all->v.data, by_memory_ops);
}

void select_search_first(struct selection *s, const struct ranks *all)
{
    double up_to = 0;
    for (size_t i = 0; i < all->v.len; i++) {
        const struct ranked *r = &all->v.data[i];
        struct join_module *m = &s->j->modules[r->module];
        if (up_to < FIRST_SHARE * (double)s->j->memory_ops ||
            takes_time(s, &s->j->funcs[m->func_base + r->func].incl) || holds_requested(s, m, r->func))
            search(s, m, r->func);
        up_to += (double)r->memory_ops;
    }
}

void select_pass_over_rest(struct selection *s, const struct ranks *all)
{
    for (size_t i = 0; i < all->v.len; i++) {
        const struct ranked *r = &all->v.data[i];
        struct join_module *m = &s->j->modules[r->module];
        bool is_small = (double)r->memory_ops < MIN_SHARE * (double)s->j->memory_ops;
        if (!is_small && !s->procedure_search[m->func_base + r->func])
            pass_over(s, m, r->func);
    }
}
