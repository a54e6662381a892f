/* SPDX-License-Identifier: Apache-2.0
 *
 * candidate: one object as a candidate for probes: its work, its entries, whether it is timable and estimable. */
#include "objects/selection.h"

#include <assert.h>
#include <math.h>

#define PROBE_MEMORY_OPS 12 /* of a pair of probes */
#define MEMORY_FACTOR 10    /* an object does so many times more */
#define LONG_FACTOR 1e4     /* or takes so many times longer: a string instruction is one operation */

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
    if (o->probe_s > COST_SHARE * o->time_s)
        return arena_printf(a, "not timable: entered every %.3g us, probes would cost %.1f %% of its time",
                            1e6 * o->time_s / (double)o->entries, 100 * o->probe_s / o->time_s);
    if (o->memory_ops_all < (double)o->entries * MEMORY_FACTOR * PROBE_MEMORY_OPS &&
        o->time_s < LONG_FACTOR * o->probe_s)
        return arena_printf(a, "not timable: only %.0f memory operations each time",
                            o->memory_ops_all / (double)o->entries);
    return NULL;
}

/* ---- one candidate ---- */

static uint64_t entries_in_function(const struct selection *s, const struct join_module *m, uint32_t func)
{
    const struct cfg *c = m->cfg;
    uint64_t sum = 0;
    cfg_for_each_block(&c->funcs.data[func], b) {
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

/* From outside of its strongly connected component, if it is the only way in: a probe sees no others. */
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
    if (o->kind == PROF_PIECE) {
        o->file = lines.file;
        o->line_first = lines.first;
        o->line_last = lines.last;
    }
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
    o->file = from->file;
    o->line_first = from->line_first;
    o->line_last = from->line_last;
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
struct made select_make(struct selection *s, struct join_module *m, enum prof_kind kind, const struct region *all,
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
    assert(kind != PROF_LOOP || loop);
    o.entries = kind == PROF_LOOP        ? loop->entries
                : kind == PROF_PROCEDURE ? entries_of_procedure(s, func, whole)
                                         : entries_of_blocks(s, m, all);
    take_work(s, m, all, whole, &o);
    mark(s, all, 0);
    o.is_asked = kind < PROF_PIECE && o.object != ID_NONE && s->requested[o.object];
    o.probe_s = (double)(kind == PROF_PROCEDURE ? j->funcs[func].calls : o.entries) * s->probe_s;
    place(s, m, own, &o);
    return (struct made){o, {m, *all, whole, false}};
}

/* What the user named is probed, whatever speaks against it. */
static void ask(struct selection *s, struct prof_candidate *o)
{
    if (o->verdict != PROF_TAKEN)
        o->reason = arena_printf(s->j->r->arena, "requested, though %s", o->reason);
    else
        o->reason = arena_printf(s->j->r->arena, "requested; %s", o->reason);
    o->verdict = PROF_TAKEN;
}

void select_put(struct selection *s, struct made *made, double worth)
{
    struct prof_candidate *o = &made->o;
    struct candidate_detail candidate_detail = {worth, o->reason, made->part};
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
    VEC_PUSH(&s->details, candidate_detail);
}
