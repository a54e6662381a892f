/* SPDX-License-Identifier: Apache-2.0
 *
 * cover: the code of some objects, and the share of each procedure's work that is done on their behalf: control flows
 * down the graph of calls, at each node in proportion to where its entries come from. What pointers lead to that nobody
 * saw gets the share of all such calls that is made on their behalf.
 */
#include "objects/cover.h"

#include <math.h>

#define SAMPLES_MIN 20 /* of a procedure: to share out its work by them */

struct pointer_site {
    uint32_t block, node;
    double calls;
};
struct cover {
    struct join *j;
    struct graph *g;
    uint8_t *direct;         /* by block */
    double *under;           /* by node: of what it does outside of direct blocks, the share on their behalf */
    struct work *direct_own; /* by node: done in direct blocks */
    double *lacks;           /* by node */
    VEC(struct cover_part) added;
    struct pointer_site *sites; /* calls to what is not known */
    size_t site_count;
};

static uint32_t node_of_block(const struct cover *c, const struct join_module *m, uint32_t block)
{
    return c->g->node_of[m->func_base + m->cfg->blocks.data[block].func];
}

static void find_sites(struct cover *c)
{
    struct join *j = c->j;
    c->sites = ARENA_ARRAY(j->scratch, struct pointer_site, j->block_count + 1);
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (uint32_t b = 0; m->cfg && b < m->cfg->blocks.len; b++) {
            uint64_t calls = c->g->pointer_calls[m->block_base + b];
            uint32_t node = node_of_block(c, m, b);
            if (calls && node != ID_NONE)
                c->sites[c->site_count++] = (struct pointer_site){m->block_base + b, node, (double)calls};
        }
    }
}

struct cover *cover_open(struct join *j, struct graph *g)
{
    struct cover *c = ARENA_NEW(j->scratch, struct cover);
    c->j = j;
    c->g = g;
    c->direct = ARENA_ARRAY(j->scratch, uint8_t, j->block_count + 1);
    c->under = ARENA_ARRAY(j->scratch, double, g->node_count + 1);
    c->lacks = ARENA_ARRAY(j->scratch, double, g->node_count + 1);
    c->direct_own = ARENA_ARRAY(j->scratch, struct work, g->node_count + 1);
    find_sites(c);
    return c;
}

const uint8_t *cover_direct(const struct cover *c) { return c->direct; }

/* ---- the code itself ---- */

static void set_block(struct cover *c, const struct join_module *m, uint32_t block, uint8_t to)
{
    uint32_t number = m->block_base + block, node = node_of_block(c, m, block);
    if (c->direct[number] == to || node == ID_NONE)
        return;
    struct tally t = tally_of_block(c->j, &m->cfg->blocks.data[block], number);
    struct work own = work_of_tally(&t);
    work_add(&c->direct_own[node], &own, to ? 1 : -1);
    c->direct[number] = to;
}

static void set_node(struct cover *c, uint32_t node, uint8_t to)
{
    for (uint32_t i = 0; i < c->j->module_count; i++) {
        const struct join_module *m = &c->j->modules[i];
        for (uint32_t f = 0; m->cfg && f < m->cfg->funcs.len; f++)
            if (c->g->node_of[m->func_base + f] == node)
                cfg_for_each_block(&m->cfg->funcs.data[f], b)
                    set_block(c, m, b, to);
    }
}

static void set_all(struct cover *c, uint8_t to)
{
    for (uint32_t i = 0; i < c->j->module_count; i++) {
        const struct join_module *m = &c->j->modules[i];
        for (uint32_t b = 0; m->cfg && b < m->cfg->blocks.len; b++)
            set_block(c, m, b, to);
    }
}

static void set_part(struct cover *c, const struct cover_part *p, uint8_t to)
{
    uint32_t node = c->g->node_of[p->m->func_base + p->all.func];
    if (p->root)
        set_all(c, to);
    else if (p->whole && c->g->nodes[node].size > 1)
        set_node(c, node, to);
    for (size_t i = 0; i < p->all.count; i++)
        set_block(c, p->m, p->all.blocks[i], to);
}

void cover_add(struct cover *c, const struct cover_part *p)
{
    VEC_PUSH(&c->added, *p);
    set_part(c, p, 1);
}

void cover_clear(struct cover *c)
{
    for (size_t i = 0; i < c->added.len; i++)
        set_part(c, &c->added.data[i], 0);
    VEC_FREE(&c->added);
}

/* ---- on its behalf ---- */

/* Of what the end of a block leads to; a jump out of an object ends it, as it ends a probe. */
static double share_of_arc(const struct cover *c, const struct graph_arc *a)
{
    return c->direct[a->block] ? !a->is_jump : c->under[c->g->node_of[a->from]];
}

static void flow_down(struct cover *c, double pointers)
{
    const struct graph *g = c->g;
    for (uint32_t n = 0; n < g->node_count; n++)
        c->under[n] = g->nodes[n].entries > 0 ? pointers * g->nodes[n].unknown / g->nodes[n].entries : 0;
    for (uint32_t a = g->arc_count; a-- > 0;) { /* in the order of nodes: callers stand behind whom they call */
        uint32_t to = g->node_of[g->arcs[a].to];
        c->under[to] += share_of_arc(c, &g->arcs[a]) * g->arcs[a].count / g->nodes[to].entries;
    }
}

static double pointers_all(const struct graph *g) { return fmax(g->pointer_calls_all, g->unknown_entries); }

static double pointer_share(const struct cover *c)
{
    double calls = 0;
    for (size_t i = 0; i < c->site_count; i++)
        calls += c->sites[i].calls * (c->direct[c->sites[i].block] ? 1 : c->under[c->sites[i].node]);
    return calls > 0 ? fmin(1, calls / pointers_all(c->g)) : 0;
}

/* What pointers lead to calls through pointers too: once more is enough, since shares do not become smaller. */
void cover_flow(struct cover *c)
{
    flow_down(c, 0);
    for (int i = 0; i < 2; i++) {
        double pointers = pointer_share(c);
        if (pointers > 0)
            flow_down(c, pointers);
    }
}

/* What hardly works itself and is called through a pointer (a command of an interpreter), its callees tell about. */
void cover_correct(struct cover *c, const struct chained_share *by_node)
{
    for (uint32_t n = 0; n < c->g->node_count; n++) {
        const struct chained_share *s = &by_node[n];
        if (s->all >= SAMPLES_MIN)
            c->under[n] = (double)s->inside / (double)s->all;
        else if (s->below_all >= SAMPLES_MIN)
            c->under[n] = (double)s->below_inside / (double)s->below_all;
    }
}

/* ---- what came of it ---- */

double cover_of_part(const struct cover *c, const struct cover_part *p)
{
    double all = 0, within = 0;
    for (size_t i = 0; i < p->all.count; i++) {
        uint32_t b = p->all.blocks[i], number = p->m->block_base + b;
        double work = (double)c->j->counts[number] * p->m->cfg->blocks.data[b].insn_count;
        all += work;
        within += work * (c->direct[number] ? 1 : fmin(1, c->under[node_of_block(c, p->m, b)]));
    }
    return all > 0 ? within / all : 0;
}

struct work cover_work(const struct cover *c)
{
    struct work sum = {0};
    for (uint32_t n = 0; n < c->g->node_count; n++) {
        double under = fmin(1, c->under[n]);
        work_add(&sum, &c->g->nodes[n].own, under);
        work_add(&sum, &c->direct_own[n], 1 - under);
    }
    return sum;
}

static void lack_upwards(struct cover *c, double by_pointer)
{
    const struct graph *g = c->g;
    for (uint32_t n = 0; n < g->node_count; n++)
        c->lacks[n] = g->nodes[n].own.memory_ops - c->direct_own[n].memory_ops;
    for (size_t i = 0; i < c->site_count; i++)
        if (!c->direct[c->sites[i].block])
            c->lacks[c->sites[i].node] += c->sites[i].calls * by_pointer;
    for (uint32_t a = 0; a < g->arc_count; a++)
        if (!c->direct[g->arcs[a].block]) {
            uint32_t to = g->node_of[g->arcs[a].to];
            c->lacks[g->node_of[g->arcs[a].from]] += c->lacks[to] * g->arcs[a].count / g->nodes[to].entries;
        }
}

const double *cover_lacks(struct cover *c)
{
    double unknown = 0;
    lack_upwards(c, 0);
    for (uint32_t n = 0; n < c->g->node_count; n++)
        if (c->g->nodes[n].unknown > 0)
            unknown += c->lacks[n] * c->g->nodes[n].unknown / c->g->nodes[n].entries;
    if (c->site_count)
        lack_upwards(c, unknown / pointers_all(c->g));
    return c->lacks;
}
