/* SPDX-License-Identifier: Apache-2.0
 *
 * The map beside a rewritten module: which counter means what. A header of fixed fields, little endian, then the path
 * of the original, the saved cfg, and packed columns; every size is checked when it is read.
 *
 *   0   "mtoolmap"    8 version, 12 counters, 16 blocks, 20 edges, 24 group edges, 28 groups
 *   32  key[16]       48 counters_vaddr  56 text_new_lo  64 text_new_hi  72 length of the path  80 length of the cfg
 *   88  1: the module uses gs itself     96 sites        104 promoted loops, mask of registers   112 path, cfg
 *
 * Columns: block_counter[blocks] edge_counter[edges] enter_counter[blocks] block_group[blocks] block_addr_new[blocks];
 * step[blocks] pending[blocks] register[blocks] gs[blocks] done[blocks] of counted loops; mark[blocks] (rw_mark);
 * group[group edges] to[group edges] counter[group edges]; header[promoted loops] counter[..] count[..];
 * address[sites] bytes[sites] flags[sites]. An entry is a LEB128 number: 0 and another number: so many entries are
 * nothing (ID_NONE, or the value 0 of what is no id); else 1 more than the zigzag difference from the last entry that
 * was something. Of a block with a step, the counter is step times the count.
 */
#include "rewrite/map/map.h"
#include "rewrite/instruments/references.h"

#include <errno.h>
#include <stdlib.h>

#include "wire/wire.h"

enum { MAP_VERSION = 8, MAP_HEADER_BYTES = 112 };

struct map_header {
    char magic[8];
    uint32_t version, counters, blocks, edges, group_edges, groups;
    uint8_t key[16];
    uint64_t counters_vaddr, text_new_lo, text_new_hi, path_len, cfg_len, owns_gs, sites;
    uint32_t promoted, vectors;
};
_Static_assert(sizeof(struct map_header) == MAP_HEADER_BYTES, "the map's header is drawn above");

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

/* One column, 0 for blocks that are no loops. `always`: also where the value is 0. */
#define PACK_STEPS(p, steps, n, value, always)                                                                         \
    do {                                                                                                               \
        size_t at_ = 0;                                                                                                \
        for (size_t k_ = 0; k_ < (steps)->len; k_++) {                                                                 \
            const struct rw_step *s = &(steps)->data[k_];                                                              \
            (p)->nothings += s->block - at_;                                                                           \
            pack(p, (uint64_t)(value), (always) || (value) != 0);                                                      \
            at_ = s->block + 1;                                                                                        \
        }                                                                                                              \
        (p)->nothings += (n)-at_;                                                                                      \
        pack_end(p);                                                                                                   \
    } while (0)

static void pack_steps(struct packer *p, const struct rw *w)
{
    size_t n = w->cfg->blocks.len;
    PACK_STEPS(p, &w->steps, n, (int64_t)s->step, true);
    PACK_STEPS(p, &w->steps, n, s->pending, true);
    PACK_STEPS(p, &w->steps, n, s->reg, true);
    PACK_STEPS(p, &w->steps, n, s->gs, false);
    PACK_STEPS(p, &w->steps, n, s->done, true);
    PACK_STEPS(p, &w->steps, n, s->turns, false);
    PACK_STEPS(p, &w->steps, n, (int64_t)s->first, false);
}

static void pack_marks(struct packer *p, const uint16_t *mark, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pack(p, mark ? mark[i] : 0, mark && mark[i] != 0);
    pack_end(p);
}

static void pack_sites(struct packer *p, const struct rw_references *r)
{
    for (uint32_t i = 0; i < r->site_count; i++)
        pack(p, r->sites[i].addr, true);
    pack_end(p);
    for (uint32_t i = 0; i < r->site_count; i++)
        pack(p, r->sites[i].access.bytes, r->sites[i].access.bytes != 0);
    pack_end(p);
    for (uint32_t i = 0; i < r->site_count; i++)
        pack(p, r->sites[i].flags, true);
    pack_end(p);
}

static void pack_promoted(struct packer *p, const struct rw *w)
{
    for (size_t k = 0; k < w->promoted.len; k++)
        pack(p, w->promoted.data[k].header, true);
    pack_end(p);
    for (size_t k = 0; k < w->promoted.len; k++)
        pack(p, w->promoted.data[k].counter, true);
    pack_end(p);
    for (size_t k = 0; k < w->promoted.len; k++)
        pack(p, w->promoted.data[k].count, true);
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
    pack_steps(&p, w);
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
    pack_promoted(&p, w);
    if (w->references)
        pack_sites(&p, w->references);
}

#define COLUMNS_OF_BLOCK 8 /* bytes, hardly ever more */

struct packing {
    const struct rw *w;
    struct strbuf map, columns; /* the columns go behind the map's begin */
};

static void save_cfg(void *ctx)
{
    struct packing *p = ctx;
    cfg_save(p->w->cfg, &p->map);
}

static void pack_columns(void *ctx)
{
    struct packing *p = ctx;
    str_reserve(&p->columns, COLUMNS_OF_BLOCK * p->w->cfg->blocks.len);
    pack_all(p->w, &p->columns);
}

void rw_map_pack(const struct rw *w, const char *real, struct strbuf *out)
{
    const struct cfg *c = w->cfg;
    struct packing p = {.w = w};
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
                           .owns_gs = w->stats->owns_gs,
                           .sites = w->references ? w->references->site_count : 0,
                           .promoted = (uint32_t)w->promoted.len,
                           .vectors = w->vectors};
    memcpy(h.key, w->key, sizeof h.key);
    str_put(&p.map, &h, sizeof h);
    str_put(&p.map, real, h.path_len);
    size_t before = p.map.len;
    parallel_both(save_cfg, pack_columns, &p);
    h.cfg_len = p.map.len - before;
    memcpy(p.map.data, &h, sizeof h);
    str_put(&p.map, p.columns.data, p.columns.len);
    str_free(&p.columns);
    *out = p.map;
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

/* Few blocks have one: what is nothing is not written, so that most of the array takes no memory. */
static void unpack_steps(struct reader *r, struct rw_step *s, size_t n, uint64_t counters)
{
    uint64_t v;
    bool any = false;
    for (size_t i = 0; i < n && !r->bad; i++)
        if (unpack(r, &v)) {
            s[i].step = (int32_t)v;
            any |= s[i].step != 0;
        }
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        if ((v = unpack_below(r, counters)))
            s[i].pending = (uint32_t)v;
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        if ((v = unpack_below(r, 16)))
            s[i].reg = (uint8_t)v;
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        if ((v = unpack_below(r, 2)))
            s[i].gs = (uint8_t)v;
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        if ((v = unpack_below(r, UINT16_MAX)))
            s[i].done = (uint16_t)v;
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        if ((v = unpack_below(r, INT32_MAX)))
            s[i].turns = (uint32_t)v;
    unpack_end(r);
    for (size_t i = 0; i < n && !r->bad; i++)
        if (unpack(r, &v))
            s[i].first = (int32_t)v;
    unpack_end(r);
    r->bad |= any && !counters; /* else who has none has number 0 */
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

static void unpack_promoted(struct reader *r, struct map_full *m, const struct map_header *h)
{
    struct rw_promoted *p = m->promoted = xmalloc((h->promoted + 1ull) * sizeof *p);
    for (uint32_t i = 0; i < h->promoted && !r->bad; i++)
        r->bad |= (p[i].header = unpack_id(r, h->blocks)) == ID_NONE;
    unpack_end(r);
    for (uint32_t i = 0; i < h->promoted && !r->bad; i++)
        r->bad |= (p[i].counter = unpack_id(r, h->counters)) == ID_NONE;
    unpack_end(r);
    for (uint32_t i = 0; i < h->promoted && !r->bad; i++)
        p[i].count = (uint32_t)unpack_below(r, 2 * RW_VECTORS + 1);
    unpack_end(r);
}

enum { REFERENCE_MAX = 64 }; /* bytes */

static void unpack_sites(struct reader *r, struct rewrite_map *m)
{
    struct rewrite_site *s = m->sites = xmalloc((m->site_count + 1ull) * sizeof *s);
    for (uint32_t i = 0; i < m->site_count && !r->bad; i++)
        s[i].addr = unpack_below(r, UINT64_MAX);
    unpack_end(r);
    for (uint32_t i = 0; i < m->site_count && !r->bad; i++)
        s[i].bytes = (uint16_t)unpack_below(r, UINT16_MAX);
    unpack_end(r);
    for (uint32_t i = 0; i < m->site_count && !r->bad; i++) {
        s[i].flags = (uint16_t)unpack_below(r, UINT16_MAX);
        r->bad |= s[i].bytes > REFERENCE_MAX && !(s[i].flags & REWRITE_SITE_WATCHED);
    }
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
    m->step = xmalloc_sparse((h->blocks + 1ull) * sizeof *m->step);
    unpack_steps(r, m->step, h->blocks, h->counters);
    m->mark = xmalloc((h->blocks + 1ull) * sizeof *m->mark);
    for (uint32_t b = 0; b < h->blocks && !r->bad; b++)
        m->mark[b] = (uint16_t)unpack_below(r, UINT16_MAX + 1u);
    unpack_end(r);
    unpack_group_edges(r, m, h);
    unpack_promoted(r, m, h);
    if (p->site_count)
        unpack_sites(r, p);
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

/* Each belongs to something; of a copy with probes to a cell, of which there is one without any object. */
static uint64_t most_counters(const struct map_header *h)
{
    return (3ull * h->blocks + h->edges + h->group_edges + 1) * (WIRE_PROBE_BYTES / 8);
}

static bool parse(struct map_full *m, const uint8_t *bytes, size_t len)
{
    struct map_header h;
    if (len < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, "mtoolmap", 8) != 0 || h.version != MAP_VERSION)
        return false;
    struct rewrite_map *p = &m->pub;
    struct reader r = {.p = bytes + sizeof h, .end = bytes + len};
    memcpy(p->key, h.key, sizeof p->key);
    p->counter_count = h.counters;
    p->counters_vaddr = h.counters_vaddr;
    p->text_new_lo = h.text_new_lo;
    p->text_new_hi = h.text_new_hi;
    p->owns_gs = h.owns_gs != 0;
    p->site_count = (uint32_t)h.sites;
    m->group_edge_count = h.group_edges;
    m->group_count = h.groups;
    m->promoted_count = h.promoted;
    m->vectors = (uint8_t)h.vectors;
    uint64_t left = len - sizeof h;
    if (h.counters > most_counters(&h) || h.groups > h.blocks)
        return false;
    if (h.sites > len || h.promoted > len) /* each has a byte at least */
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

void rewrite_map_set_original(struct rewrite_map *m, const char *path)
{
    free(m->in_path);
    m->in_path = xstrdup(path);
}

int rewrite_map_open(const char *path, struct rewrite_map **out)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        return diag_error("%s: %s", path, strerror(errno));
    int rc = rw_map_open_bytes(path, f.data, f.len, out);
    file_unmap(&f);
    return rc;
}

int rw_map_open_bytes(const char *path, const uint8_t *bytes, size_t len, struct rewrite_map **out)
{
    struct map_full *m = xmalloc(sizeof *m);
    bool ok = parse(m, bytes, len);
    if (!ok) {
        rewrite_map_close(&m->pub);
        return diag_error("%s: damaged, or made by another version of mtool; delete it and run again", path);
    }
    *out = &m->pub;
    return 0;
}

void rewrite_map_forget_counters(struct rewrite_map *p)
{
    struct map_full *m = (struct map_full *)(void *)p;
    free(p->block_counter);
    free(p->edge_counter);
    free(p->enter_counter);
    free(m->block_group);
    free(m->group_edges);
    free(m->promoted);
    xfree_sparse(m->step);
    p->block_counter = p->edge_counter = p->enter_counter = m->block_group = NULL;
    m->group_edges = NULL;
    m->promoted = NULL;
    m->step = NULL;
}

void rewrite_map_forget_places(struct rewrite_map *p)
{
    struct map_full *m = (struct map_full *)(void *)p;
    free(p->block_addr_new);
    free(m->mark);
    p->block_addr_new = NULL;
    m->mark = NULL;
}

void rewrite_map_close(struct rewrite_map *p)
{
    if (!p)
        return;
    struct map_full *m = (struct map_full *)(void *)p;
    rewrite_map_forget_counters(p);
    rewrite_map_forget_places(p);
    cfg_free(p->cfg);
    free(p->in_path);
    free(p->sites);
    free(m);
}

const uint16_t *rw_map_marks(const struct rewrite_map *m) { return ((const struct map_full *)(const void *)m)->mark; }
