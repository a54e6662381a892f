/* SPDX-License-Identifier: Apache-2.0
 *
 * The map beside a rewritten module: which counter means what. A header of fixed fields, then arrays, then the saved
 * cfg, all little endian; every size is checked when it is read.
 *
 *   0   "mtoolmap"    8 version, 12 counters, 16 blocks, 20 edges, 24 group edges, 28 groups
 *   32  key[16]       48 counters_vaddr  56 text_new_lo  64 text_new_hi  72 length of the path  80 length of the cfg
 *   88  1: the module uses gs itself
 *   96  block_counter[blocks] edge_counter[edges] enter_counter[blocks] block_group[blocks]
 *       step {int32 step, pending counter, register}[blocks]: step 0 plain, else the counter is step times the count
 *       group edges {group, to, counter, unused}[group edges], padding to 8, block_addr_new[blocks], path, cfg
 */
#include "rewrite/impl.h"

#include <errno.h>
#include <stdlib.h>

enum { MAP_VERSION = 3, MAP_HEADER_BYTES = 96 };

struct map_header {
    char magic[8];
    uint32_t version, counters, blocks, edges, group_edges, groups;
    uint8_t key[16];
    uint64_t counters_vaddr, text_new_lo, text_new_hi, path_len, cfg_len, owns_gs;
};
_Static_assert(sizeof(struct map_header) == MAP_HEADER_BYTES, "the map's header is drawn above");

struct map_full {
    struct rewrite_map pub; /* first: the public part */
    uint32_t *block_group;
    struct rw_step *step;
    struct rw_group_edge *group_edges;
    uint32_t group_edge_count, group_count;
};

int rw_map_write(const struct rw *w, const char *path)
{
    const struct cfg *c = w->cfg;
    struct strbuf s = {0}, saved = {0};
    if (cfg_save(c, &saved) < 0)
        return -1;
    char *real = file_real_path(w->arena, w->img->path);
    if (!real)
        real = arena_strdup(w->arena, w->img->path);
    struct map_header h = {.magic = {'m', 't', 'o', 'o', 'l', 'm', 'a', 'p'},
                           .version = MAP_VERSION,
                           .counters = w->counter_count,
                           .blocks = (uint32_t)c->blocks.len,
                           .edges = (uint32_t)c->edges.len,
                           .group_edges = (uint32_t)w->group_edges.len,
                           .groups = w->group_count,
                           .counters_vaddr = w->counters_vaddr,
                           .text_new_lo = w->text_vaddr,
                           .text_new_hi = w->text_vaddr + w->text_bytes,
                           .path_len = strlen(real) + 1,
                           .cfg_len = saved.len,
                           .owns_gs = rw_owns_gs(w)};
    memcpy(h.key, w->key, sizeof h.key);
    str_put(&s, &h, sizeof h);
    str_put(&s, w->block_counter, c->blocks.len * 4);
    str_put(&s, w->edge_counter, c->edges.len * 4);
    str_put(&s, w->enter_counter, c->blocks.len * 4);
    str_put(&s, w->block_group, c->blocks.len * 4);
    str_put(&s, w->step, c->blocks.len * sizeof *w->step);
    str_put(&s, w->group_edges.data, w->group_edges.len * sizeof *w->group_edges.data);
    while (s.len % 8)
        str_put(&s, "", 1);
    for (uint32_t b = 0; b < c->blocks.len; b++) {
        uint64_t at = rw_block_moved(w, b) ? rw_body(w, b) : 0;
        str_put(&s, &at, 8);
    }
    str_put(&s, real, h.path_len);
    str_put(&s, saved.data, saved.len);
    int rc = file_write_whole(path, s.data, s.len, 0644);
    if (rc < 0)
        diag_error("%s: cannot be written: %s", path, strerror(errno));
    str_free(&saved);
    str_free(&s);
    return rc;
}

struct reader {
    const uint8_t *p, *end;
};

static void *take(struct reader *r, uint64_t n, uint64_t item)
{
    if (n > (uint64_t)(r->end - r->p) / item) {
        r->p = NULL;
        r->end = NULL;
        return NULL;
    }
    void *out = xmalloc(n * item + 8);
    if (n)
        memcpy(out, r->p, n * item);
    r->p += n * item;
    return out;
}

static bool ids_below(const uint32_t *a, uint64_t n, uint32_t limit)
{
    for (uint64_t i = 0; i < n; i++)
        if (a[i] != ID_NONE && a[i] >= limit)
            return false;
    return true;
}

static bool parse(struct map_full *m, const uint8_t *bytes, size_t len)
{
    struct map_header h;
    if (len < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, "mtoolmap", 8) || h.version != MAP_VERSION)
        return false;
    struct rewrite_map *p = &m->pub;
    struct reader r = {bytes + sizeof h, bytes + len};
    memcpy(p->key, h.key, sizeof p->key);
    p->counter_count = h.counters;
    p->counters_vaddr = h.counters_vaddr;
    p->text_new_lo = h.text_new_lo;
    p->text_new_hi = h.text_new_hi;
    p->owns_gs = h.owns_gs != 0;
    m->group_edge_count = h.group_edges;
    m->group_count = h.groups;
    if (h.counters > 3ull * h.blocks + h.edges + h.group_edges || h.groups > h.blocks) /* each belongs to something */
        return false;
    if (!(p->block_counter = take(&r, h.blocks, 4)) || !(p->edge_counter = take(&r, h.edges, 4)) ||
        !(p->enter_counter = take(&r, h.blocks, 4)) || !(m->block_group = take(&r, h.blocks, 4)) ||
        !(m->step = take(&r, h.blocks, sizeof *m->step)) ||
        !(m->group_edges = take(&r, h.group_edges, sizeof *m->group_edges)))
        return false;
    while ((size_t)(r.p - bytes) % 8 && r.p < r.end)
        r.p++;
    if (!(p->block_addr_new = take(&r, h.blocks, 8)) || !(p->in_path = take(&r, h.path_len, 1)) || !h.path_len)
        return false;
    p->in_path[h.path_len - 1] = 0;
    if ((uint64_t)(r.end - r.p) != h.cfg_len || cfg_load(r.p, h.cfg_len, &p->cfg) < 0)
        return false;
    if (p->cfg->blocks.len != h.blocks || p->cfg->edges.len != h.edges)
        return false;
    for (uint32_t g = 0; g < h.group_edges; g++)
        if (m->group_edges[g].group >= h.groups || m->group_edges[g].to >= h.blocks ||
            !ids_below(&m->group_edges[g].counter, 1, h.counters))
            return false;
    for (uint32_t b = 0; b < h.blocks; b++)
        if (m->step[b].step && m->step[b].pending >= h.counters)
            return false;
    return ids_below(p->block_counter, h.blocks, h.counters) && ids_below(p->edge_counter, h.edges, h.counters) &&
           ids_below(p->enter_counter, h.blocks, h.counters) && ids_below(m->block_group, h.blocks, h.groups);
}

int rewrite_map_open(const char *path, struct rewrite_map **out)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        return diag_error("%s: %s", path, strerror(errno));
    struct map_full *m = xmalloc(sizeof *m);
    bool ok = parse(m, f.data, f.len);
    file_unmap(&f);
    if (!ok) {
        rewrite_map_close(&m->pub);
        return diag_error("%s: damaged, or made by another version of mtool; delete it and run again", path);
    }
    *out = &m->pub;
    return 0;
}

void rewrite_map_close(struct rewrite_map *p)
{
    if (!p)
        return;
    struct map_full *m = (struct map_full *)(void *)p;
    cfg_free(p->cfg);
    free(p->block_counter);
    free(p->edge_counter);
    free(p->enter_counter);
    free(p->block_addr_new);
    free(p->in_path);
    free(m->block_group);
    free(m->group_edges);
    free(m->step);
    free(m);
}

/* ---- solving ---- */

struct solver {
    const struct map_full *m;
    struct rw_arcs arcs;
    uint64_t *val;      /* [arcs] */
    uint8_t *known;     /* [arcs] */
    uint32_t *first;    /* [nodes + 1] into incident */
    uint32_t *incident; /* arc ids by node */
    uint32_t *unknown;  /* [nodes] arcs not known yet */
    uint64_t broken;
};

static uint32_t counter_of(const struct map_full *m, const struct rw_arc *a)
{
    switch ((enum rw_arc_kind)a->kind) {
    case RW_ARC_BLOCK:
        return m->pub.block_counter[a->id];
    case RW_ARC_EDGE:
        return m->pub.edge_counter[a->id];
    case RW_ARC_ENTER:
        return m->pub.enter_counter[a->id];
    case RW_ARC_GROUP:
        return m->group_edges[a->id].counter;
    case RW_ARC_OUT:
        return ID_NONE;
    }
    return ID_NONE;
}

/* What the counter of an arc says. Of a counted loop: what its register gained in all, by the step. */
static uint64_t counter_value(struct solver *s, const struct rw_arc *a, const uint64_t *counters)
{
    uint32_t n = counter_of(s->m, a);
    const struct rw_step *step = &s->m->step[a->id];
    if (a->kind != RW_ARC_BLOCK || !step->step)
        return counters[n];
    int64_t gained = (int64_t)(counters[n] + counters[step->pending]);
    if (gained % step->step == 0 && gained / step->step >= 0)
        return (uint64_t)(gained / step->step);
    s->broken++;
    return 0;
}

static void solver_index(struct solver *s, const uint64_t *counters)
{
    s->val = xmalloc((s->arcs.len + 1) * 8);
    s->known = xmalloc(s->arcs.len + 1);
    s->first = xmalloc((s->arcs.nodes + 2) * 4);
    s->unknown = xmalloc((s->arcs.nodes + 1) * 4);
    s->incident = xmalloc((2 * s->arcs.len + 1) * 4);
    for (size_t i = 0; i < s->arcs.len; i++) {
        const struct rw_arc *a = &s->arcs.data[i];
        uint32_t n = counter_of(s->m, a);
        if (n != ID_NONE) {
            s->val[i] = counter_value(s, a, counters);
            s->known[i] = 1;
        } else {
            s->unknown[a->a]++;
            s->unknown[a->b]++;
        }
        s->first[a->a + 1]++;
        s->first[a->b + 1]++;
    }
    for (uint32_t n = 0; n < s->arcs.nodes; n++)
        s->first[n + 1] += s->first[n];
    uint32_t *at = xmalloc((s->arcs.nodes + 1) * 4);
    memcpy(at, s->first, s->arcs.nodes * 4);
    for (size_t i = 0; i < s->arcs.len; i++) {
        s->incident[at[s->arcs.data[i].a]++] = (uint32_t)i;
        s->incident[at[s->arcs.data[i].b]++] = (uint32_t)i;
    }
    free(at);
}

/* Flow into node n minus flow out of it over the known arcs; *open: the one arc not known. */
static int64_t balance(const struct solver *s, uint32_t n, uint32_t *open)
{
    int64_t sum = 0;
    *open = ID_NONE;
    for (uint32_t k = s->first[n]; k < s->first[n + 1]; k++) {
        uint32_t i = s->incident[k];
        if (!s->known[i])
            *open = i;
        else
            sum += s->arcs.data[i].b == n ? (int64_t)s->val[i] : -(int64_t)s->val[i];
    }
    return sum;
}

static void solver_run(struct solver *s)
{
    uint32_t *todo = xmalloc((s->arcs.nodes + 1) * 4), len = 0;
    for (uint32_t n = 0; n < s->arcs.nodes; n++)
        if (n != s->arcs.outside && s->unknown[n] == 1)
            todo[len++] = n;
    while (len) {
        uint32_t n = todo[--len], open;
        if (s->unknown[n] != 1)
            continue;
        int64_t sum = balance(s, n, &open);
        const struct rw_arc *a = &s->arcs.data[open];
        int64_t v = a->a == n ? sum : -sum; /* what comes in and is not accounted for goes out here, and the reverse */
        if (v < 0)
            s->broken++;
        s->val[open] = v < 0 ? 0 : (uint64_t)v;
        s->known[open] = 1;
        s->unknown[a->a]--;
        s->unknown[a->b]--;
        uint32_t other = a->a == n ? a->b : a->a;
        if (other != s->arcs.outside && s->unknown[other] == 1)
            todo[len++] = other;
    }
    for (uint32_t n = 0; n < s->arcs.nodes; n++) {
        uint32_t open;
        if (n != s->arcs.outside && s->first[n] != s->first[n + 1] && s->unknown[n] == 0 && balance(s, n, &open) != 0)
            s->broken++;
    }
    free(todo);
}

/* Edges through a shared table: what leaves by it is spread over the targets in proportion (a table entry cannot tell
 * who used it). */
static void spread_groups(const struct solver *s, const uint64_t *blocks, uint64_t *edges)
{
    const struct map_full *m = s->m;
    const struct cfg *c = m->pub.cfg;
    if (!m->group_count)
        return;
    struct map into = {0};
    double *total = xmalloc(m->group_count * sizeof *total);
    for (size_t i = 0; i < s->arcs.len; i++) {
        if (s->arcs.data[i].kind != RW_ARC_GROUP)
            continue;
        const struct rw_group_edge *ge = &m->group_edges[s->arcs.data[i].id];
        map_put(&into, (uint64_t)ge->group << 32 | ge->to, s->val[i]);
        total[ge->group] += (double)s->val[i];
    }
    for (uint32_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        uint32_t g = m->block_group[ed->from];
        uint64_t v;
        if (g != ID_NONE && ed->kind == CFG_EDGE_TABLE && map_get(&into, (uint64_t)g << 32 | ed->to, &v) &&
            total[g] > 0)
            edges[e] = (uint64_t)((double)blocks[ed->from] * ((double)v / total[g]) + 0.5);
    }
    free(total);
    map_fini(&into);
}

/* ---- functions that ran ---- */

/* Functions between which control may pass inside moved code are solved together: the root of each in a forest. */
static uint32_t root_of(uint32_t *up, uint32_t f)
{
    while (up[f] != f)
        f = up[f] = up[up[f]];
    return f;
}

static void join_functions(uint32_t *up, const struct cfg *c, uint32_t block_a, uint32_t block_b)
{
    uint32_t a = root_of(up, c->blocks.data[block_a].func), b = root_of(up, c->blocks.data[block_b].func);
    up[a > b ? a : b] = a > b ? b : a;
}

static void join_groups(const struct map_full *m, uint32_t *up)
{
    const struct cfg *c = m->pub.cfg;
    uint32_t *first = xmalloc((m->group_count + 1) * 4); /* a target of each group */
    for (uint32_t g = 0; g < m->group_edge_count; g++)
        first[m->group_edges[g].group] = m->group_edges[g].to;
    for (uint32_t g = 0; g < m->group_edge_count; g++)
        join_functions(up, c, first[m->group_edges[g].group], m->group_edges[g].to);
    for (uint32_t b = 0; m->group_edge_count && b < c->blocks.len; b++)
        if (m->block_group[b] != ID_NONE)
            join_functions(up, c, b, first[m->block_group[b]]);
    free(first);
}

static uint32_t *functions_joined(const struct map_full *m)
{
    const struct cfg *c = m->pub.cfg;
    uint32_t *up = xmalloc((c->funcs.len + 1) * 4);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        up[f] = f;
    for (uint32_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (rw_cfg_edge_inside(c, ed) && c->blocks.data[ed->from].func != c->blocks.data[ed->to].func)
            join_functions(up, c, ed->from, ed->to);
    }
    join_groups(m, up);
    return up;
}

static bool any_count(uint32_t counter, const uint64_t *counters) { return counter != ID_NONE && counters[counter]; }

/* [funcs]: may any of its counts be other than 0? The equations have one solution, so where all counters of a function,
 * and of those joined to it, are 0 all of its counts are. Most functions of most programs never run. */
static bool *functions_that_ran(const struct map_full *m, const uint64_t *counters)
{
    const struct cfg *c = m->pub.cfg;
    const struct rewrite_map *p = &m->pub;
    uint32_t *up = functions_joined(m);
    bool *ran = xmalloc((c->funcs.len + 1) * sizeof *ran);
    for (uint32_t b = 0; b < c->blocks.len; b++)
        if (any_count(p->block_counter[b], counters) || any_count(p->enter_counter[b], counters) ||
            (m->step[b].step && counters[m->step[b].pending]))
            ran[root_of(up, c->blocks.data[b].func)] = true;
    for (uint32_t e = 0; e < c->edges.len; e++)
        if (any_count(p->edge_counter[e], counters))
            ran[root_of(up, c->blocks.data[c->edges.data[e].from].func)] = true;
    for (uint32_t g = 0; g < m->group_edge_count; g++)
        if (any_count(m->group_edges[g].counter, counters))
            ran[root_of(up, c->blocks.data[m->group_edges[g].to].func)] = true;
    for (uint32_t f = 0; f < c->funcs.len; f++)
        ran[f] = ran[root_of(up, f)];
    free(up);
    return ran;
}

uint64_t rewrite_counts_solve(const struct rewrite_map *pub, const uint64_t *counters, uint64_t *blocks,
                              uint64_t *edges, uint64_t *enter)
{
    const struct map_full *m = (const struct map_full *)(const void *)pub;
    const struct cfg *c = pub->cfg;
    struct solver s = {.m = m};
    bool *ran = functions_that_ran(m, counters);
    rw_arcs_build(c, m->block_group, m->group_edges, m->group_edge_count, m->group_count, ran, &s.arcs);
    free(ran);
    solver_index(&s, counters);
    solver_run(&s);
    memset(blocks, 0, c->blocks.len * 8);
    memset(edges, 0, c->edges.len * 8);
    if (enter)
        memset(enter, 0, c->blocks.len * 8);
    for (size_t i = 0; i < s.arcs.len; i++) {
        const struct rw_arc *a = &s.arcs.data[i];
        if (a->kind == RW_ARC_BLOCK)
            blocks[a->id] = s.val[i];
        else if (a->kind == RW_ARC_EDGE)
            edges[a->id] = s.val[i];
        else if (a->kind == RW_ARC_ENTER && enter)
            enter[a->id] = s.val[i];
    }
    spread_groups(&s, blocks, edges);
    for (uint32_t e = 0; e < c->edges.len;
         e++) { /* a return point is entered by its call, or else by nothing we follow */
        const struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind != CFG_EDGE_RETURN || !rw_cfg_block_moved(c, ed->to))
            continue;
        uint64_t in = blocks[ed->to];
        edges[e] = in < blocks[ed->from] ? in : blocks[ed->from];
    }
    for (uint32_t b = 0; b < c->blocks.len; b++) {
        const struct cfg_block *blk = &c->blocks.data[b];
        uint64_t rest = blocks[b];
        bool one_way_out = true;
        uint32_t out = ID_NONE;
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
            if (c->edges.data[e].kind == CFG_EDGE_OUT) {
                one_way_out = out == ID_NONE;
                out = e;
            } else if (c->edges.data[e].kind != CFG_EDGE_RETURN) {
                rest -= edges[e] < rest ? edges[e] : rest;
            }
        }
        if (out != ID_NONE && one_way_out)
            edges[out] = rest;
    }
    free(s.val);
    free(s.known);
    free(s.first);
    free(s.incident);
    free(s.unknown);
    VEC_FREE(&s.arcs);
    return s.broken;
}
