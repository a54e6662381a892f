/* SPDX-License-Identifier: Apache-2.0
 *
 * select: which m-objects are worth a probe (Goldberg and Hennessy 1990, Figure 1 and section 4), on exact counts. The
 * procedures that hold the first 95 % of memory operations are searched: inner loops first, then outer ones, then the
 * procedure, then pieces of what is long. Each candidate says whether it is timable (a probe costs little beside it),
 * whether what it calls can be estimated (callees.c), and what follows. It measures nothing itself, and what is not
 * taken is measured by samples all the same. Regions that the source marks come before all others, and need not be
 * estimable. What of the program's memory operations no object does then is looked for further up the calls: "move up
 * the call graph as we know that eventually we will encounter an estimable node".
 */
#include "objects/overlap.h"

#include <math.h>
#include <stdlib.h>

#define FIRST_SHARE 0.95    /* of all memory operations: what procedures must hold together */
#define LEAST_SHARE 0.001   /* of all memory operations: less is no candidate */
#define REST_SHARE 0.01     /* of its procedure's: less beside what inner objects measure is not worth an object */
#define COST_SHARE 0.01     /* of an object's time, and of the program's: what probes may cost */
#define GRAIN_S 0.001       /* less in all is not told from noise */
#define PROBE_MEMORY_OPS 12 /* of a pair of probes */
#define MEMORY_FACTOR 10    /* an object does so many times more */
#define LINES_MOST 50       /* of an object's own code, else it is cut into pieces */
#define INSNS_MOST 400
#define PIECE_LINES 15
#define PIECE_INSNS 120
#define PROBE_S 40e-9     /* where it was not measured */
#define LACK_SHARE 0.02   /* of all memory operations: so much on behalf of a procedure in no object is worth one */
#define COVER_SHARE 0.97  /* of all memory operations: less in disjoint objects, and the root of the calls is one */
#define HIDDEN_SHARE 0.01 /* of a hidden object's work: more within an object, and that is not probed either */

struct aside {
    double worth; /* memory operations that no object inside of it measures */
    const char
        *rule; /* by which it is estimable, or why it is not; NULL: it calls nothing, or what works for it alone */
    struct cover_part part;
};

struct made {
    struct prof_candidate o;
    struct cover_part part;
};

struct hidden { /* what the user wants no probe to time */
    struct cover_part part;
    const char *name;
};

struct selection {
    struct join *j;
    struct graph graph;
    bool *asked;     /* by object */
    uint8_t *inside; /* by block of a module: of the region that is looked at */
    VEC(struct prof_candidate) out;
    VEC(struct aside) asides; /* of each candidate */
    VEC(struct hidden) hidden;
    uint8_t *searched; /* by procedure */
    struct cover *cover;
    const struct chains *chains; /* NULL: not known */
    double probe_s;
    double left_s; /* that probes may still cost */
};

/* ---- what a region does itself ---- */

static struct work own_work(const struct join *j, const struct join_module *m, const struct region *r)
{
    struct tally sum = {0};
    for (size_t i = 0; i < r->count; i++) {
        struct tally t = tally_of_block(j, &m->cfg->blocks.data[r->blocks[i]], m->block_base + r->blocks[i]);
        tally_add(&sum, &t);
    }
    return work_of_tally(&sum);
}

static void mark(struct selection *s, const struct region *r, uint8_t what)
{
    for (size_t i = 0; i < r->count; i++)
        s->inside[r->blocks[i]] = what;
}

/* ---- timable ---- */

static const char *why_not_timable(struct selection *s, const struct prof_candidate *o)
{
    struct arena *a = s->j->r->arena;
    if (isnan(o->time_s))
        return "its time is not known";
    if (!o->entries)
        return "it is entered in no way that a probe could see";
    if (o->time_s < GRAIN_S)
        return "it takes less than a millisecond";
    if (o->probe_s > COST_SHARE * o->time_s)
        return arena_printf(a, "not timable: entered every %.3g us, probes would cost %.1f %% of its time",
                            1e6 * o->time_s / (double)o->entries, 100 * o->probe_s / o->time_s);
    if (o->memory_ops_all < (double)o->entries * MEMORY_FACTOR * PROBE_MEMORY_OPS)
        return arena_printf(a, "not timable: only %.0f memory operations each time",
                            o->memory_ops_all / (double)o->entries);
    return NULL;
}

/* ---- one candidate ---- */

static uint64_t entries_in_function(const struct selection *s, const struct join_module *m, uint32_t func)
{
    const struct cfg *c = m->cfg;
    uint64_t sum = 0;
    cfg_for_each_block(c, &c->funcs.data[func], b)
    {
        const struct cfg_block *block = &c->blocks.data[b];
        for (uint32_t e = block->edge_first; !s->inside[b] && e < block->edge_first + block->edge_count; e++) {
            uint32_t to = c->edges.data[e].to;
            if (to != ID_NONE && c->blocks.data[to].func == func && s->inside[to])
                sum += m->edges[e];
        }
    }
    return sum;
}

/* Times the blocks are entered from others. */
static uint64_t entries_of_blocks(const struct selection *s, const struct join_module *m, const struct region *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct cfg_block *b = &m->cfg->blocks.data[r->blocks[i]];
        if (!(b->flags & CFG_BLOCK_LANDING_PAD)) /* who comes there by an exception was inside before */
            sum += m->enter[r->blocks[i]];
        if (region_begins_function(m, r, i))
            sum += entries_in_function(s, m, b->func);
    }
    return sum;
}

/* From outside of its circle, if it is the only way in: a probe sees no others. */
static uint64_t entries_of_procedure(const struct selection *s, uint32_t func, bool whole)
{
    return whole ? (uint64_t)(s->graph.func_entries[func] + 0.5) : s->j->funcs[func].calls;
}

static void place(struct selection *s, struct join_module *m, const struct region *own, struct prof_candidate *o)
{
    struct place_lines lines = places_of_blocks(s->j, m, own->blocks, own->count);
    o->own_lines = lines.count;
    for (size_t i = 0; i < own->count; i++)
        o->own_instructions += m->cfg->blocks.data[own->blocks[i]].insn_count;
    if (o->kind == PROF_PIECE)
        o->file = lines.file, o->line_first = lines.first, o->line_last = lines.last;
    if (o->kind == PROF_REGION && m->cfg->blocks.data[own->blocks[own->count - 1]].func != own->func)
        o->own_lines = 0; /* of one function only */
}

static void take_object(const struct join *j, uint32_t id, struct prof_candidate *o)
{
    o->object = id;
    if (id == ID_NONE)
        return;
    const struct prof_object *from = &j->r->objects[id];
    o->function = from->function;
    o->file = from->file, o->line_first = from->line_first, o->line_last = from->line_last;
}

static uint64_t address_of(const struct join_module *m, enum prof_kind kind, const struct region *r)
{
    if (kind == PROF_PROCEDURE)
        return m->cfg->funcs.data[r->func].addr;
    return m->cfg->blocks.data[kind == PROF_LOOP ? m->cfg->loops.data[r->loop].header : r->blocks[0]].addr;
}

/* What is done in the region and on its behalf. whole: in all procedures that call each other with it. */
static void take_work(struct selection *s, const struct join_module *m, const struct region *r, bool whole,
                      struct prof_candidate *o)
{
    struct join *j = s->j;
    const struct graph_node *node = &s->graph.nodes[s->graph.node_of[m->func_base + r->func]];
    struct callees callees = {0};
    struct work work = own_work(j, m, r);
    o->memory_ops = (uint64_t)work.memory_ops;
    if (whole)
        work = node->own;
    callees_gather(&s->graph, m, r, s->inside, whole, &callees);
    o->tot = whole ? node->size : 1;
    o->tdes = o->tot + callees_descendants(&s->graph, &callees);
    callees_add(&s->graph, &callees, &work, &o->tot);
    o->memory_ops_all = work.memory_ops;
    o->time_s = work_seconds(j, &work);
    o->ideal_s = ideal_of(j, &(struct tally){.cycles = work.cycles});
    o->sampled_s = actual_of(j, (uint64_t)(work.samples + 0.5));
    callees_judge(j, &s->graph, &callees, whole, o);
    VEC_FREE(&callees.v);
}

/* All but the verdict. `all`: blocks with inner loops; `own`: without those that are candidates. */
static struct made make(struct selection *s, struct join_module *m, enum prof_kind kind, const struct region *all,
                        const struct region *own)
{
    struct join *j = s->j;
    uint32_t func = m->func_base + all->func;
    const struct join_loop *loop = all->loop == ID_NONE ? NULL : &j->loops[m->loop_base + all->loop];
    bool whole =
        kind == PROF_PROCEDURE && s->graph.func_entries[func] >= s->graph.nodes[s->graph.node_of[func]].entries;
    struct prof_candidate o = {.kind = kind,
                               .module = m->path,
                               .function = join_func_name(j, m, all->func),
                               .address = address_of(m, kind, all),
                               .depth = loop ? m->cfg->loops.data[all->loop].depth : 0,
                               .probed_s = stats_unknown(),
                               .memory_s = stats_unknown(),
                               .waiting_s = NAN,
                               .system_s = stats_unknown(),
                               .sampled_all_s = stats_unknown(),
                               .uncounted_s = NAN,
                               .agrees = ID_NONE,
                               .samples = PROF_UNKNOWN,
                               .probed_entries = PROF_UNKNOWN};
    take_object(j, loop ? loop->object : j->funcs[func].object, &o);
    mark(s, all, 1);
    o.entries = kind == PROF_LOOP        ? loop->entries
                : kind == PROF_PROCEDURE ? entries_of_procedure(s, func, whole)
                                         : entries_of_blocks(s, m, all);
    take_work(s, m, all, whole, &o);
    mark(s, all, 0);
    o.is_asked = kind < PROF_PIECE && o.object != ID_NONE && s->asked[o.object];
    o.probe_s = (double)(kind == PROF_PROCEDURE ? j->funcs[func].calls : o.entries) * s->probe_s;
    place(s, m, own, &o);
    return (struct made){o, {m, *all, whole, false}};
}

/* What the user named is probed, whatever speaks against it. */
static void ask(struct selection *s, struct prof_candidate *o)
{
    if (o->verdict != PROF_TAKEN)
        o->reason = arena_printf(s->j->r->arena, "asked for, though %s", o->reason);
    else
        o->reason = arena_printf(s->j->r->arena, "asked for; %s", o->reason);
    o->verdict = PROF_TAKEN;
}

static void put(struct selection *s, struct made *made, double worth)
{
    struct prof_candidate *o = &made->o;
    struct aside aside = {worth, o->reason, made->part};
    const char *why = why_not_timable(s, o);
    const char *how = o->estimable == PROF_ESTIMABLE_NOT ? "not estimable" : "timable and estimable";
    bool is_wanted = o->kind == PROF_REGION || o->estimable != PROF_ESTIMABLE_NOT;
    o->verdict = why || !is_wanted ? PROF_SAMPLED : PROF_TAKEN;
    if (why)
        o->reason = why;
    else
        o->reason = o->reason ? arena_printf(s->j->r->arena, "%s: %s", how, o->reason) : how;
    if (o->is_asked)
        ask(s, o);
    VEC_PUSH(&s->out, *o);
    VEC_PUSH(&s->asides, aside);
}

/* ---- regions that the source marks ---- */

static void consider_marked(struct selection *s, const struct marked *r)
{
    struct join_module *m = &s->j->modules[r->module];
    const struct cfg_block *first = &m->cfg->blocks.data[r->blocks[0]];
    struct region all = {first->func, ID_NONE, r->blocks, r->count};
    struct made made = make(s, m, PROF_REGION, &all, &all);
    struct prof_candidate *o = &made.o;
    o->region = r->name;
    o->file = r->file, o->line_first = r->line_first, o->line_last = r->line_last;
    o->is_asked = r->is_asked;
    o->depth = 1 + (first->loop == ID_NONE ? 0 : m->cfg->loops.data[first->loop].depth);
    put(s, &made, INFINITY);
}

static void consider_all_marked(struct selection *s)
{
    for (size_t i = 0; i < s->j->marked_count; i++)
        if (s->j->marked[i].count)
            consider_marked(s, &s->j->marked[i]);
}

/* ---- one procedure ---- */

struct searched { /* a procedure while it is searched */
    struct join_module *m;
    uint32_t func;
    double memory_ops;
    uint32_t *home;   /* by block, from the procedure's first: innermost loop that is a candidate */
    double *measured; /* by loop, from the procedure's first, then the procedure: memory operations in objects inside of
                         it */
    uint32_t *order;  /* loops, the deepest first */
    uint32_t order_count;
};

static bool is_candidate(const struct selection *s, const struct join_module *m, uint32_t loop)
{
    const struct join_loop *l = &s->j->loops[m->loop_base + loop];
    bool is_asked = l->object != ID_NONE && s->asked[l->object];
    return l->iterations && (is_asked || (double)l->incl.memory_ops >= LEAST_SHARE * (double)s->j->memory_ops);
}

static void order_loops(const struct selection *s, struct searched *p)
{
    const struct cfg *c = p->m->cfg;
    const struct cfg_func *f = &c->funcs.data[p->func];
    uint32_t deepest = 0;
    p->order = ARENA_ARRAY(s->j->scratch, uint32_t, f->loop_count + 1);
    for (uint32_t l = f->loop_first; l < f->loop_first + f->loop_count; l++)
        deepest = (uint32_t)max_u64(deepest, c->loops.data[l].depth);
    for (uint32_t d = deepest; d > 0; d--)
        for (uint32_t l = f->loop_first; l < f->loop_first + f->loop_count; l++)
            if (c->loops.data[l].depth == d && is_candidate(s, p->m, l))
                p->order[p->order_count++] = l;
}

static uint32_t candidate_around(const struct selection *s, const struct searched *p, uint32_t loop)
{
    while (loop != ID_NONE && !is_candidate(s, p->m, loop))
        loop = p->m->cfg->loops.data[loop].parent;
    return loop;
}

static void find_homes(struct selection *s, struct searched *p)
{
    const struct cfg_func *f = &p->m->cfg->funcs.data[p->func];
    p->home = ARENA_ARRAY(s->j->scratch, uint32_t, f->block_count + 1);
    p->measured = ARENA_ARRAY(s->j->scratch, double, f->loop_count + 1);
    cfg_for_each_block(p->m->cfg, f, b) p->home[b - f->block_first] =
        candidate_around(s, p, p->m->cfg->blocks.data[b].loop);
}

/* Executed blocks of the loop, or of the procedure; `own`: those at home there. */
static struct region region_of(const struct selection *s, const struct searched *p, uint32_t loop, bool own)
{
    const struct cfg *c = p->m->cfg;
    const struct cfg_func *f = &c->funcs.data[p->func];
    const struct cfg_loop *l = loop == ID_NONE ? NULL : &c->loops.data[loop];
    uint32_t count = l ? l->member_count : f->block_count;
    uint32_t *blocks = ARENA_ARRAY(s->j->scratch, uint32_t, count + 1);
    struct region r = {.func = p->func, .loop = loop, .blocks = blocks};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t b = l ? c->loop_members.data[l->member_first + i] : f->block_first + i;
        if (s->j->counts[p->m->block_base + b] && (!own || p->home[b - f->block_first] == loop))
            blocks[r.count++] = b;
    }
    return r;
}

static bool is_long(const struct prof_candidate *o)
{
    return o->own_lines > LINES_MOST || o->own_instructions > INSNS_MOST;
}

/* Own code that is too long is cut where a block ends. Returns how many pieces there are. */
static uint32_t cut(struct selection *s, const struct searched *p, const struct region *own)
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
        struct made made = make(s, p->m, PROF_PIECE, &piece, &piece);
        const struct cfg_block *last = &all[own->blocks[end - 1]];
        made.o.address_end = last->addr + last->size;
        pieces++;
        put(s, &made, (double)made.o.memory_ops);
        if ((double)made.o.memory_ops < LEAST_SHARE * (double)s->j->memory_ops) {
            s->out.data[s->out.len - 1].verdict = PROF_DROPPED;
            s->out.data[s->out.len - 1].reason = "holds less than a thousandth of all memory operations";
        }
    }
    return pieces;
}

static void note_measured(struct searched *p, uint32_t loop, double memory_ops)
{
    const struct cfg_func *f = &p->m->cfg->funcs.data[p->func];
    uint32_t up = loop == ID_NONE ? ID_NONE : p->m->cfg->loops.data[loop].parent;
    for (; up != ID_NONE; up = p->m->cfg->loops.data[up].parent)
        p->measured[up - f->loop_first] += memory_ops;
    p->measured[f->loop_count] += memory_ops;
}

/* A loop, or with ID_NONE the procedure itself. */
static void consider(struct selection *s, struct searched *p, uint32_t loop)
{
    const struct cfg_func *f = &p->m->cfg->funcs.data[p->func];
    struct region all = region_of(s, p, loop, false), own = region_of(s, p, loop, true);
    if (!all.count)
        return;
    struct made made = make(s, p->m, loop == ID_NONE ? PROF_PROCEDURE : PROF_LOOP, &all, &own);
    double inside = p->measured[loop == ID_NONE ? f->loop_count : loop - f->loop_first];
    double rest = (double)made.o.memory_ops - inside;
    made.o.pieces = is_long(&made.o) ? cut(s, p, &own) : 0;
    put(s, &made, rest);
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
    struct searched p = {.m = m, .func = func, .memory_ops = (double)s->j->funcs[m->func_base + func].incl.memory_ops};
    order_loops(s, &p);
    find_homes(s, &p);
    s->searched[m->func_base + func] = 1;
    for (uint32_t i = 0; i < p.order_count; i++)
        consider(s, &p, p.order[i]);
    consider(s, &p, ID_NONE);
}

/* Beyond the first 95 %: named, not searched. */
static void pass_over(struct selection *s, struct join_module *m, uint32_t func)
{
    struct searched p = {.m = m, .func = func};
    find_homes(s, &p);
    struct region all = region_of(s, &p, ID_NONE, false);
    if (!all.count)
        return;
    struct made made = make(s, m, PROF_PROCEDURE, &all, &all);
    made.o.verdict = PROF_DROPPED;
    made.o.reason = "not among the procedures that hold the first 95 % of memory operations";
    VEC_PUSH(&s->out, made.o);
    VEC_PUSH(&s->asides, ((struct aside){0, NULL, made.part}));
}

/* ---- all procedures ---- */

struct ranked {
    uint32_t module, func;
    uint64_t memory_ops;
};

static int by_memory_ops(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->memory_ops != y->memory_ops)
        return x->memory_ops < y->memory_ops ? 1 : -1;
    return x->module != y->module ? (x->module < y->module ? -1 : 1) : (x->func > y->func) - (x->func < y->func);
}

static bool holds_asked(const struct selection *s, const struct join_module *m, uint32_t func)
{
    const struct cfg_func *f = &m->cfg->funcs.data[func];
    uint32_t object = s->j->funcs[m->func_base + func].object;
    bool is = object != ID_NONE && s->asked[object];
    for (uint32_t l = f->loop_first; l < f->loop_first + f->loop_count && !is; l++) {
        object = s->j->loops[m->loop_base + l].object;
        is = object != ID_NONE && s->asked[object];
    }
    return is;
}

struct ranks {
    VEC(struct ranked) v; /* most memory operations first */
};

static void rank_all(struct selection *s, struct ranks *all)
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

static void search_first(struct selection *s, const struct ranks *all)
{
    double upto = 0;
    for (size_t i = 0; i < all->v.len; i++) {
        const struct ranked *r = &all->v.data[i];
        if (upto < FIRST_SHARE * (double)s->j->memory_ops || holds_asked(s, &s->j->modules[r->module], r->func))
            search(s, &s->j->modules[r->module], r->func);
        upto += (double)r->memory_ops;
    }
}

static void pass_over_rest(struct selection *s, const struct ranks *all)
{
    for (size_t i = 0; i < all->v.len; i++) {
        const struct ranked *r = &all->v.data[i];
        struct join_module *m = &s->j->modules[r->module];
        bool is_small = (double)r->memory_ops < LEAST_SHARE * (double)s->j->memory_ops;
        if (!is_small && !s->searched[m->func_base + r->func])
            pass_over(s, m, r->func);
    }
}

/* ---- what is hidden from probes ---- */

static void hide(struct selection *s, struct join_module *m, uint32_t func, uint32_t loop, const char *name)
{
    struct searched p = {.m = m, .func = func};
    find_homes(s, &p);
    struct region all = region_of(s, &p, loop, false);
    if (all.count)
        VEC_PUSH(&s->hidden, ((struct hidden){{m, all, false, false}, name}));
}

static void find_hidden(struct selection *s)
{
    struct join *j = s->j;
    const bool *is = asked_objects(j, &(struct asked_for){j->in->hidden, j->in->hidden_count, "--unprobed", false});
    for (uint32_t i = 0; j->in->hidden_count && i < j->module_count; i++) {
        struct join_module *m = &j->modules[i];
        for (uint32_t f = 0; m->cfg && f < m->cfg->funcs.len; f++) {
            uint32_t object = j->funcs[m->func_base + f].object;
            if (object != ID_NONE && is[object])
                hide(s, m, f, ID_NONE, j->r->objects[object].function);
        }
        for (uint32_t l = 0; m->cfg && l < m->cfg->loops.len; l++) {
            uint32_t object = j->loops[m->loop_base + l].object;
            if (object != ID_NONE && is[object])
                hide(s, m, m->cfg->loops.data[l].func, l, j->r->objects[object].function);
        }
    }
}

/* How much of x is done in y, or on its behalf. */
static double done_within(struct selection *s, const struct cover_part *x, const struct cover_part *y)
{
    cover_add(s->cover, y);
    cover_flow(s->cover);
    double share = cover_of_part(s->cover, x);
    cover_clear(s->cover);
    return share;
}

/* Neither what is hidden, nor what it is a part of the time of, nor what works for it alone. */
static void keep_hidden(struct selection *s, size_t candidate)
{
    struct prof_candidate *o = &s->out.data[candidate];
    const struct cover_part *part = &s->asides.data[candidate].part;
    for (size_t i = 0; i < s->hidden.len && o->verdict == PROF_TAKEN; i++) {
        const struct hidden *h = &s->hidden.data[i];
        if (done_within(s, &h->part, part) <= HIDDEN_SHARE && done_within(s, part, &h->part) < 1 - HIDDEN_SHARE)
            continue;
        o->verdict = PROF_SAMPLED;
        o->reason = arena_printf(s->j->r->arena, "%s is hidden from probes", h->name);
    }
}

/* ---- what all probes may cost together ---- */

static int by_worth(const void *a, const void *b, void *ctx)
{
    const struct selection *s = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double p = s->asides.data[x].worth, q = s->asides.data[y].worth;
    return p != q ? (p < q ? 1 : -1) : (x > y) - (x < y);
}

static void keep_to_budget(struct selection *s)
{
    s->left_s = COST_SHARE * s->j->r->actual_user_s.value;
    uint32_t *order = xmalloc((s->out.len + 1) * sizeof *order);
    for (uint32_t i = 0; i < s->out.len; i++)
        order[i] = i;
    qsort_r(order, s->out.len, sizeof *order, by_worth, s);
    for (size_t i = 0; i < s->out.len; i++) {
        struct prof_candidate *o = &s->out.data[order[i]];
        if (o->verdict != PROF_TAKEN)
            continue;
        if (o->probe_s > s->left_s && !o->is_asked) {
            o->verdict = PROF_SAMPLED;
            o->reason = "not timable: with the probes of heavier objects its own would cost more than 1 % of the "
                        "program's time";
            continue;
        }
        s->left_s -= o->probe_s;
    }
    free(order);
}

/* ---- further up ---- */

/* The procedure by which a node is entered, by number; ID_NONE: there are several. */
static uint32_t *find_entrances(const struct selection *s)
{
    const struct graph *g = &s->graph;
    uint32_t *func = ARENA_ARRAY(s->j->scratch, uint32_t, g->node_count + 1);
    memset(func, 0xff, g->node_count * sizeof *func);
    for (uint32_t f = 0; f < s->j->func_count; f++)
        if (g->node_of[f] != ID_NONE && g->func_entries[f] > 0 && g->func_entries[f] >= g->nodes[g->node_of[f]].entries)
            func[g->node_of[f]] = f;
    return func;
}

static struct join_module *module_of(const struct selection *s, uint32_t func)
{
    struct join_module *m = s->j->modules;
    while (!m->cfg || func < m->func_base || func - m->func_base >= m->cfg->funcs.len)
        m++;
    return m;
}

/* The procedure as a candidate that is not put yet. Returns whether it ran. */
static bool make_procedure(struct selection *s, uint32_t number, struct made *made)
{
    struct join_module *m = module_of(s, number);
    struct searched p = {.m = m, .func = number - m->func_base};
    find_homes(s, &p);
    struct region all = region_of(s, &p, ID_NONE, false), own = region_of(s, &p, ID_NONE, true);
    if (!all.count)
        return false;
    *made = make(s, m, PROF_PROCEDURE, &all, &own);
    if (!s->searched[number] && is_long(&made->o))
        made->o.pieces = cut(s, &p, &own);
    s->searched[number] = 1;
    return true;
}

/* True if it is taken: the last candidate then, and counted as one of those that are added up. */
static bool put_further_up(struct selection *s, struct made *made, double lack)
{
    put(s, made, lack);
    keep_hidden(s, s->out.len - 1);
    struct prof_candidate *o = &s->out.data[s->out.len - 1];
    if (o->verdict == PROF_TAKEN && o->probe_s > s->left_s)
        o->verdict = PROF_SAMPLED, o->reason = "not timable: probes of others cost 1 % of the program's time already";
    o->is_summed = o->verdict == PROF_TAKEN;
    s->left_s -= o->is_summed ? o->probe_s : 0;
    return o->is_summed;
}

static void cover_summed(struct selection *s)
{
    cover_clear(s->cover);
    for (size_t i = 0; i < s->out.len; i++)
        if (s->out.data[i].is_summed)
            cover_add(s->cover, &s->asides.data[i].part);
}

/* From the procedures that call nothing upwards: the nearest caller that can be timed and estimated. */
static void move_up(struct selection *s)
{
    const uint32_t *entrance = find_entrances(s);
    const double least = LACK_SHARE * (double)s->j->memory_ops;
    cover_summed(s);
    const double *lacks = cover_lacks(s->cover);
    for (uint32_t n = 0; n < s->graph.node_count; n++) {
        if (lacks[n] < least || entrance[n] == ID_NONE || s->searched[entrance[n]])
            continue;
        struct made made;
        if (!make_procedure(s, entrance[n], &made) || !put_further_up(s, &made, lacks[n]))
            continue;
        cover_summed(s);
        lacks = cover_lacks(s->cover);
    }
    cover_clear(s->cover);
}

static bool is_covered(struct selection *s)
{
    cover_summed(s);
    cover_flow(s->cover);
    double memory_ops = cover_work(s->cover).memory_ops;
    cover_clear(s->cover);
    return memory_ops >= COVER_SHARE * (double)s->j->memory_ops;
}

/* What was considered as a procedure like others, and left to samples, makes way for it. Returns its pieces. */
static uint32_t forget(struct selection *s, const struct prof_candidate *o)
{
    for (size_t i = 0; i < s->out.len; i++) {
        struct prof_candidate *old = &s->out.data[i];
        if (old->kind != PROF_PROCEDURE || old->address != o->address || strcmp(old->module, o->module) != 0)
            continue;
        uint32_t pieces = old->pieces;
        memmove(old, old + 1, (s->out.len - i - 1) * sizeof *old);
        memmove(&s->asides.data[i], &s->asides.data[i + 1], (s->out.len - i - 1) * sizeof *s->asides.data);
        s->out.len--, s->asides.len--;
        return pieces;
    }
    return o->pieces;
}

/* "Both the root of the call graph, which corresponds to the execution of the whole program, and the leaves are
 * estimable." Counts of calls say little of who works for whom where interpreters call themselves through pointers. */
static void take_root(struct selection *s)
{
    struct made made;
    uint32_t root = s->chains ? chains_root(s->j, s->chains) : ID_NONE;
    if (root == ID_NONE || !make_procedure(s, root, &made))
        return;
    struct prof_candidate *o = &made.o;
    made.part.root = true;
    o->estimable = PROF_ESTIMABLE_ALONE;
    o->reason = "the root of the calls, on whose behalf all is done";
    o->time_s = s->j->r->actual_user_s.value;
    o->memory_ops_all = (double)s->j->memory_ops;
    o->pieces = forget(s, o);
    put_further_up(s, &made, (double)s->j->memory_ops);
}

static void compare_taken(struct selection *s)
{
    struct overlap_object *taken = ARENA_ARRAY(s->j->scratch, struct overlap_object, s->out.len + 1);
    size_t count = 0;
    for (size_t i = 0; i < s->out.len; i++)
        if (s->out.data[i].verdict == PROF_TAKEN)
            taken[count++] = (struct overlap_object){&s->out.data[i], &s->asides.data[i].part};
    overlap_build(s->j, &s->graph, s->cover, s->chains, taken, count);
}

static void cover_the_rest(struct selection *s)
{
    if (!s->j->samples_all || is_covered(s))
        return;
    move_up(s);
    if (!is_covered(s))
        take_root(s);
    compare_taken(s);
}

/* The two rules that can be wrong are said whenever an object rests on one. */
static void warn_of_rule(struct selection *s, enum prof_estimable rule, enum prof_warn id)
{
    size_t first = 0;
    unsigned count = 0;
    for (size_t i = 0; i < s->out.len; i++)
        if (s->out.data[i].verdict == PROF_TAKEN && s->out.data[i].estimable == rule && count++ == 0)
            first = i;
    if (count)
        prof_warn(s->j->r, id, "what calls take is a guess for %u object%s, such as %s (%s)", count,
                  count > 1 ? "s" : "", s->out.data[first].function, s->asides.data[first].rule);
}

void select_build(struct join *j)
{
    struct ranks all = {0};
    struct selection s = {.j = j, .probe_s = j->in->probe_s > 0 ? j->in->probe_s : PROBE_S};
    size_t most = 0;
    for (uint32_t i = 0; i < j->module_count; i++)
        most = j->modules[i].cfg ? max_u64(most, j->modules[i].cfg->blocks.len) : most;
    s.inside = ARENA_ARRAY(j->scratch, uint8_t, most + 1);
    s.searched = ARENA_ARRAY(j->scratch, uint8_t, j->func_count + 1);
    s.asked = asked_objects(j, &(struct asked_for){j->in->asked, j->in->asked_count, "--probe", true});
    graph_build(j, &s.graph);
    s.cover = cover_open(j, &s.graph);
    find_hidden(&s);
    rank_all(&s, &all);
    consider_all_marked(&s);
    search_first(&s, &all);
    for (size_t i = 0; i < s.out.len; i++)
        keep_hidden(&s, i);
    keep_to_budget(&s);
    s.chains = chains_open(j);
    compare_taken(&s);
    cover_the_rest(&s);
    pass_over_rest(&s, &all);
    warn_of_rule(&s, PROF_ESTIMABLE_MOST, PROF_WARN_RULE_MOST);
    warn_of_rule(&s, PROF_ESTIMABLE_NEGLIGIBLE, PROF_WARN_RULE_NEGLIGIBLE);
    j->r->candidate_count = s.out.len;
    j->r->candidates = ARENA_ARRAY(j->r->arena, struct prof_candidate, s.out.len + 1);
    if (s.out.len)
        memcpy(j->r->candidates, s.out.data, s.out.len * sizeof *s.out.data);
    VEC_FREE(&s.out);
    VEC_FREE(&s.asides);
    VEC_FREE(&s.hidden);
    VEC_FREE(&all.v);
}
