/* SPDX-License-Identifier: Apache-2.0
 *
 * The map beside a rewritten module: which counter means what. A header of fixed fields, little endian, then the path
 * of the original, the saved cfg, and packed columns; every size is checked when it is read.
 *
 *   0   "mtoolmap"    8 version, 12 counters, 16 blocks, 20 edges, 24 group edges, 28 groups
 *   32  key[16]       48 counters_vaddr  56 text_new_lo  64 text_new_hi  72 length of the path  80 length of the cfg
 *   88  1: the module uses gs itself     96 path, cfg
 *
 * Columns: block_counter[blocks] edge_counter[edges] enter_counter[blocks] block_group[blocks] block_addr_new[blocks];
 * step[blocks] pending[blocks] register[blocks] gs[blocks] done[blocks] of counted loops; mark[blocks] (rw_mark);
 * group[group edges] to[group edges] counter[group edges]. An entry is a LEB128 number: 0 and another number: so many
 * entries are nothing (ID_NONE, or the value 0 of what is no id); else 1 more than the zigzag difference from the last
 * entry that was something. Of a block with a step, the counter is step times the count.
 */
#include "rewrite/impl.h"

#include <errno.h>
#include <stdlib.h>

enum { MAP_VERSION = 5, MAP_HEADER_BYTES = 96 };

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
    uint16_t *mark;
    struct rw_group_edge *group_edges;
    uint32_t group_edge_count, group_count;
};

/* ---- columns ---- */

struct packer {
    struct strbuf *out;
    uint64_t last, nothings;
};

static void pack_end(struct packer *p)
{
    if (p->nothings) {
        str_put_uleb(p->out, 0);
        str_put_uleb(p->out, p->nothings);
    }
    *p = (struct packer){.out = p->out};
}

static void pack(struct packer *p, uint64_t v, bool is_something)
{
    if (!is_something) {
        p->nothings++;
        return;
    }
    uint64_t last = p->last, d = v - last;
    if (p->nothings)
        pack_end(p);
    str_put_uleb(p->out, (d << 1 ^ (d >> 63 ? UINT64_MAX : 0)) + 1);
    p->last = v;
}

static void pack_ids(struct packer *p, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pack(p, ids[i], ids[i] != ID_NONE);
    pack_end(p);
}

/* ---- writing ---- */

static void pack_nothing(struct packer *p, size_t n)
{
    p->nothings = n;
    pack_end(p);
}

static void pack_steps(struct packer *p, const struct rw_step *s, size_t n)
{
    for (int column = 0; column < 5 && !s; column++)
        pack_nothing(p, n);
    if (!s)
        return;
    for (size_t i = 0; i < n; i++)
        pack(p, (uint64_t)(int64_t)s[i].step, s[i].step != 0);
    pack_end(p);
    for (size_t i = 0; i < n; i++)
        pack(p, s[i].pending, s[i].step != 0);
    pack_end(p);
    for (size_t i = 0; i < n; i++)
        pack(p, s[i].reg, s[i].step != 0);
    pack_end(p);
    for (size_t i = 0; i < n; i++)
        pack(p, s[i].gs, s[i].gs != 0);
    pack_end(p);
    for (size_t i = 0; i < n; i++)
        pack(p, s[i].done, s[i].step != 0);
    pack_end(p);
}

static void pack_marks(struct packer *p, const uint16_t *mark, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pack(p, mark ? mark[i] : 0, mark && mark[i] != 0);
    pack_end(p);
}

static void pack_all(const struct rw *w, struct strbuf *out)
{
    const struct cfg *c = w->cfg;
    struct packer p = {.out = out};
    pack_ids(&p, w->block_counter, c->blocks.len);
    pack_ids(&p, w->edge_counter, c->edges.len);
    pack_ids(&p, w->enter_counter, c->blocks.len);
    pack_ids(&p, w->block_group, c->blocks.len);
    for (uint32_t b = 0; b < c->blocks.len; b++) {
        bool moved = rw_block_moved(w, b);
        pack(&p, moved ? rw_body(w, b) : 0, moved);
    }
    pack_end(&p);
    pack_steps(&p, w->step, c->blocks.len);
    pack_marks(&p, w->mark, c->blocks.len);
    for (size_t g = 0; g < w->group_edges.len; g++)
        pack(&p, w->group_edges.data[g].group, true);
    pack_end(&p);
    for (size_t g = 0; g < w->group_edges.len; g++)
        pack(&p, w->group_edges.data[g].to, true);
    pack_end(&p);
    for (size_t g = 0; g < w->group_edges.len; g++)
        pack(&p, w->group_edges.data[g].counter, w->group_edges.data[g].counter != ID_NONE);
    pack_end(&p);
}

void rw_map_pack(const struct rw *w, const char *real, struct strbuf *out)
{
    const struct cfg *c = w->cfg;
    struct strbuf s = {0};
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
                           .owns_gs = w->stats->owns_gs};
    memcpy(h.key, w->key, sizeof h.key);
    str_put(&s, &h, sizeof h);
    str_put(&s, real, h.path_len);
    size_t before = s.len;
    cfg_save(c, &s);
    h.cfg_len = s.len - before;
    memcpy(s.data, &h, sizeof h);
    pack_all(w, &s);
    *out = s;
}

/* ---- reading ---- */

struct reader {
    const uint8_t *p, *end;
    uint64_t last, nothings;
    bool bad; /* once set, every entry is nothing */
};

static uint64_t get_number(struct reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        uint8_t b = *r->p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    r->bad = true;
    return 0;
}

/* The next entry of a column; false: nothing. */
static bool unpack(struct reader *r, uint64_t *v)
{
    if (!r->nothings) {
        uint64_t n = get_number(r);
        if (n-- && !r->bad) {
            *v = r->last += n >> 1 ^ (n & 1 ? UINT64_MAX : 0);
            return true;
        }
        r->nothings = get_number(r);
        r->bad |= r->nothings == 0;
    }
    r->nothings -= !r->bad;
    return false;
}

/* The end of a column: what is left of a run of nothings belongs to no entry. */
static void unpack_end(struct reader *r)
{
    r->bad |= r->nothings != 0;
    r->last = r->nothings = 0;
}

/* A number below `limit`, or 0 for nothing. */
static uint64_t unpack_below(struct reader *r, uint64_t limit)
{
    uint64_t v;
    if (!unpack(r, &v))
        return 0;
    r->bad |= v >= limit;
    return v;
}

static uint32_t unpack_id(struct reader *r, uint64_t limit)
{
    uint64_t v;
    if (!unpack(r, &v))
        return ID_NONE;
    r->bad |= v >= limit;
    return (uint32_t)v;
}

static uint32_t *unpack_ids(struct reader *r, size_t n, uint64_t limit)
{
    uint32_t *out = xmalloc((n + 1) * sizeof *out);
    for (size_t i = 0; i < n && !r->bad; i++)
        out[i] = unpack_id(r, limit);
    unpack_end(r);
    return out;
}

static void unpack_steps(struct reader *r, struct rw_step *s, size_t n, uint64_t counters)
{
    for (size_t i = 0; i < n && !r->bad; i++) {
        uint64_t v;
        s[i].step = unpack(r, &v) ? (int32_t)v : 0;
    }
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        s[i].pending = (uint32_t)unpack_below(r, counters);
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        s[i].reg = (uint8_t)unpack_below(r, 16);
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        s[i].gs = (uint8_t)unpack_below(r, 2);
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        s[i].done = (uint16_t)unpack_below(r, UINT16_MAX);
    unpack_end(r);
    for (size_t i = 0; i < n; i++)
        r->bad |= s[i].step && s[i].pending >= counters;
}

static void unpack_group_edges(struct reader *r, struct map_full *m, const struct map_header *h)
{
    struct rw_group_edge *g = m->group_edges = xmalloc((h->group_edges + 1ull) * sizeof *g);
    for (uint32_t i = 0; i < h->group_edges && !r->bad; i++)
        r->bad |= (g[i].group = unpack_id(r, h->groups)) == ID_NONE;
    unpack_end(r);
    for (uint32_t i = 0; i < h->group_edges && !r->bad; i++)
        r->bad |= (g[i].to = unpack_id(r, h->blocks)) == ID_NONE;
    unpack_end(r);
    for (uint32_t i = 0; i < h->group_edges && !r->bad; i++)
        g[i].counter = unpack_id(r, h->counters);
    unpack_end(r);
}

static void unpack_all(struct reader *r, struct map_full *m, const struct map_header *h)
{
    struct rewrite_map *p = &m->pub;
    p->block_counter = unpack_ids(r, h->blocks, h->counters);
    p->edge_counter = unpack_ids(r, h->edges, h->counters);
    p->enter_counter = unpack_ids(r, h->blocks, h->counters);
    m->block_group = unpack_ids(r, h->blocks, h->groups);
    p->block_addr_new = xmalloc((h->blocks + 1ull) * sizeof *p->block_addr_new);
    for (uint32_t b = 0; b < h->blocks && !r->bad; b++)
        p->block_addr_new[b] = unpack_below(r, UINT64_MAX);
    unpack_end(r);
    m->step = xmalloc((h->blocks + 1ull) * sizeof *m->step);
    unpack_steps(r, m->step, h->blocks, h->counters);
    m->mark = xmalloc((h->blocks + 1ull) * sizeof *m->mark);
    for (uint32_t b = 0; b < h->blocks && !r->bad; b++)
        m->mark[b] = (uint16_t)unpack_below(r, UINT16_MAX + 1u);
    unpack_end(r);
    unpack_group_edges(r, m, h);
}

struct loading { /* the two large parts, at the same time */
    struct map_full *m;
    const struct map_header *h;
    struct reader columns;
    const uint8_t *cfg;
    bool cfg_is_bad;
};

static void load_cfg(void *ctx)
{
    struct loading *l = ctx;
    struct rewrite_map *p = &l->m->pub;
    l->cfg_is_bad = cfg_load(l->cfg, l->h->cfg_len, &p->cfg) < 0 || p->cfg->blocks.len != l->h->blocks ||
                    p->cfg->edges.len != l->h->edges;
}

static void load_columns(void *ctx)
{
    struct loading *l = ctx;
    unpack_all(&l->columns, l->m, l->h);
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
    struct reader r = {.p = bytes + sizeof h, .end = bytes + len};
    memcpy(p->key, h.key, sizeof p->key);
    p->counter_count = h.counters;
    p->counters_vaddr = h.counters_vaddr;
    p->text_new_lo = h.text_new_lo;
    p->text_new_hi = h.text_new_hi;
    p->owns_gs = h.owns_gs != 0;
    m->group_edge_count = h.group_edges;
    m->group_count = h.groups;
    uint64_t left = len - sizeof h;
    if (h.counters > 3ull * h.blocks + h.edges + h.group_edges || h.groups > h.blocks) /* each belongs to something */
        return false;
    if (!h.path_len || h.path_len > left || h.cfg_len > left - h.path_len || h.group_edges > left)
        return false;
    if (h.blocks > h.cfg_len || h.edges > h.cfg_len) /* a cfg has a byte at least for each */
        return false;
    p->in_path = xmalloc(h.path_len);
    memcpy(p->in_path, r.p, h.path_len);
    p->in_path[h.path_len - 1] = 0;
    struct loading l = {.m = m, .h = &h, .columns = r, .cfg = r.p + h.path_len};
    l.columns.p += h.path_len + h.cfg_len;
    parallel_both(load_cfg, load_columns, &l);
    return !l.cfg_is_bad && !l.columns.bad && l.columns.p == l.columns.end;
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
    free(m->mark);
    free(m);
}

const uint16_t *rw_map_marks(const struct rewrite_map *m) { return ((const struct map_full *)(const void *)m)->mark; }

/* ---- solving ---- */

struct solver {
    const struct map_full *m;
    struct rw_arcs arcs;
    uint64_t *val;      /* [arcs] */
    uint8_t *known;     /* [arcs] */
    uint32_t *first;    /* [nodes + 1] into incident */
    uint32_t *incident; /* arc ids by node */
    uint32_t *unknown;  /* [nodes] arcs not known yet */
    const struct rw_left *left;
    size_t left_len;
    int64_t *away; /* [blocks] of what comes in, what does not come to the end; NULL: nowhere */
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

/* How often a block was entered that its counter does not tell of, since it was left in front of that. */
static uint64_t left_uncounted(const struct solver *s, uint32_t block)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->left_len; i++)
        if (s->left[i].block == block && !s->left[i].is_counted)
            sum += (uint64_t)s->left[i].at->count;
    return sum;
}

static bool are_turns(const struct rw_step *step, uint64_t gained)
{
    return (int64_t)gained != INT64_MIN && (int64_t)gained % step->step == 0 && (int64_t)gained / step->step >= 0;
}

/* Turns of a counted loop: what its register gained in all, by the step. Of each entry that ended in the middle of the
 * loop, what the register held there is what it was left with; the entry value of the last one is still there then, or
 * that of one that was under way at the program's end: which, tells what is more likely, no address of a program being
 * a number of turns. */
static uint64_t turns_of(struct solver *s, uint32_t block, uint64_t gained, uint64_t pending)
{
    const struct rw_step *step = &s->m->step[block];
    uint64_t begun = 0;
    bool is_left = false;
    for (size_t i = 0; i < s->left_len; i++) {
        const struct rw_left *l = &s->left[i];
        if (l->block != block)
            continue;
        gained += l->at->regs[step->reg];
        begun += l->off < step->done ? (uint64_t)l->at->count : 0;
        is_left |= l->at->count != 0;
    }
    bool is_over = is_left && are_turns(step, gained) && (int64_t)gained / step->step < INT64_C(1) << 40;
    gained += is_over ? 0 : pending;
    if (are_turns(step, gained))
        return (uint64_t)((int64_t)gained / step->step) + begun;
    s->broken++;
    return 0;
}

/* What the counter of an arc says. */
static uint64_t counter_value(struct solver *s, const struct rw_arc *a, const uint64_t *counters)
{
    uint32_t n = counter_of(s->m, a);
    if (a->kind != RW_ARC_BLOCK)
        return counters[n];
    const struct rw_step *step = &s->m->step[a->id];
    return step->step ? turns_of(s, a->id, counters[n], counters[step->pending])
                      : counters[n] + left_uncounted(s, a->id);
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
    int64_t sum = s->away && n < s->arcs.outside && n % 2 ? -s->away[n / 2] : 0; /* a block's way out */
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
    uint32_t *ready = xmalloc((s->arcs.nodes + 1) * 4), len = 0;
    for (uint32_t n = 0; n < s->arcs.nodes; n++)
        if (n != s->arcs.outside && s->unknown[n] == 1)
            ready[len++] = n;
    while (len) {
        uint32_t n = ready[--len], open;
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
            ready[len++] = other;
    }
    for (uint32_t n = 0; n < s->arcs.nodes; n++) {
        uint32_t open;
        if (n != s->arcs.outside && s->first[n] != s->first[n + 1] && s->unknown[n] == 0 && balance(s, n, &open) != 0)
            s->broken++;
    }
    free(ready);
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
        const struct cfg_func *fn = &c->funcs.data[c->blocks.data[ed->from].func];
        if (ed->to != ID_NONE && ed->to - fn->block_first >= fn->block_count && rw_cfg_edge_inside(c, ed))
            join_functions(up, c, ed->from, ed->to);
    }
    join_groups(m, up);
    return up;
}

static bool any_count(uint32_t counter, const uint64_t *counters) { return counter != ID_NONE && counters[counter]; }

/* [funcs]: may any of its counts be other than 0? The equations have one solution, so where all counters of a function,
 * and of those joined to it, are 0 all of its counts are. Most functions of most programs never run. */
static bool *functions_that_ran(const struct map_full *m, const uint64_t *counters, const struct solver *s)
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
    for (size_t i = 0; i < s->left_len; i++)
        ran[root_of(up, c->blocks.data[s->left[i].block].func)] = true;
    for (uint32_t f = 0; f < c->funcs.len; f++)
        ran[f] = ran[root_of(up, f)];
    free(up);
    return ran;
}

/* Edges that are no arcs. A return point is entered by its call, or else by nothing we follow; what leaves by no other
 * edge leaves by the one that leads out. left: so often control did not come to the block's end. */
static void edges_of_block(const struct cfg *c, uint32_t b, int64_t left, const uint64_t *blocks, uint64_t *edges)
{
    const struct cfg_block *blk = &c->blocks.data[b];
    uint64_t ends = left > 0 && (uint64_t)left > blocks[b] ? 0 : blocks[b] - (uint64_t)left, rest = ends;
    bool one_way_out = true;
    uint32_t out = ID_NONE;
    for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind == CFG_EDGE_OUT) {
            one_way_out = out == ID_NONE;
            out = e;
        } else if (ed->kind == CFG_EDGE_RETURN) {
            if (rw_cfg_block_moved(c, ed->to))
                edges[e] = min_u64(blocks[ed->to], ends);
        } else {
            rest -= edges[e] < rest ? edges[e] : rest;
        }
    }
    if (out != ID_NONE && one_way_out)
        edges[out] = rest;
}

/* The caller frees s->left and s->away. */
static void solver_take_left(struct solver *s, struct rewrite_lefts left)
{
    if (!left.len)
        return;
    struct rw_left *found = xmalloc(left.len * sizeof *found);
    s->left_len = rw_left_find(&s->m->pub, s->m->mark, left, found);
    s->left = found;
    s->away = xmalloc((s->m->pub.cfg->blocks.len + 1) * sizeof *s->away);
    for (size_t i = 0; i < s->left_len; i++)
        s->away[found[i].block] += found[i].at->count;
}

uint64_t rewrite_counts_solve(const struct rewrite_map *m, const uint64_t *counters, uint64_t *blocks, uint64_t *edges,
                              uint64_t *enter)
{
    return rewrite_counts_solve_left(m, counters, (struct rewrite_lefts){NULL, 0}, blocks, edges, enter);
}

uint64_t rewrite_counts_solve_left(const struct rewrite_map *pub, const uint64_t *counters, struct rewrite_lefts left,
                                   uint64_t *blocks, uint64_t *edges, uint64_t *enter)
{
    const struct map_full *m = (const struct map_full *)(const void *)pub;
    const struct cfg *c = pub->cfg;
    struct solver s = {.m = m};
    solver_take_left(&s, left);
    bool *ran = functions_that_ran(m, counters, &s);
    rw_arcs_build(c, m->block_group, m->group_edges, m->group_edge_count, m->group_count, ran, &s.arcs);
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
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (ran[f])
            cfg_for_each_block(c, &c->funcs.data[f], b) edges_of_block(c, b, s.away ? s.away[b] : 0, blocks, edges);
    free(ran);
    free((void *)(uintptr_t)s.left);
    free(s.away);
    free(s.val);
    free(s.known);
    free(s.first);
    free(s.incident);
    free(s.unknown);
    VEC_FREE(&s.arcs);
    return s.broken;
}
