/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts of blocks by source lines: which lines the instructions of each block came from, as debug information says. Of
 * the blocks of one line in a function that which was executed most often tells how often the line was, as each time it
 * is executed that is; where functions have it each for itself, inlined or in copies, these are added up.
 */
#include <stdlib.h>

#include "debug/debug.h"
#include "ld/code.h"

struct place { /* a line in a block */
    uint32_t source, line;
    uint64_t func; /* where its code begins: that of a part elsewhere is the same function's */
    uint32_t scope;
    uint64_t count, insns; /* of the block; executed */
};
struct maker {
    struct lines *lines;
    struct scope_cache *scopes;
    struct file_names names;
    struct ld_code code;
    struct ld_sources *out;
    VEC(struct place) places;
};

/* ---- places ---- */

static void find_scope(struct maker *m, const struct ld_function *fn, uint64_t addr, struct place *p)
{
    const struct scopes *s = scopes_of(m->scopes, addr);
    p->func = s && s->span_count ? s->spans[0].lo : fn->address;
    p->scope = s ? scope_at(s, addr) : ID_NONE;
}

static bool is_same_place(const struct place *a, const struct place *b)
{
    return a->source == b->source && a->line == b->line && a->func == b->func && a->scope == b->scope;
}

static void add_block(struct maker *m, const struct ld_function *fn, const struct ld_block *b)
{
    uint64_t at[LD_CODE_INSNS_MAX];
    struct line_row row = {.hi = 0};
    size_t first = m->places.len;
    bool is_known = false;
    m->out->insns += b->count * b->insns;
    if (!ld_code_of(&m->code, b, at)) {
        m->out->unread += b->count * b->insns;
        return;
    }
    for (uint32_t i = 0; i < b->insns; i++) {
        if (at[i] < row.lo || at[i] >= row.hi)
            is_known = lines_at(m->lines, at[i], &row) && row.file != ID_NONE;
        if (!is_known) {
            m->out->unknown += b->count;
            continue;
        }
        struct place p = {.source = row.file, .line = row.line, .count = b->count, .insns = b->count};
        find_scope(m, fn, at[i], &p);
        struct place *last = m->places.len > first ? &m->places.data[m->places.len - 1] : NULL;
        if (last && is_same_place(last, &p))
            last->insns += b->count;
        else
            VEC_PUSH(&m->places, p);
    }
}

/* ---- lines ---- */

static int by_line(const void *a, const void *b, void *ctx)
{
    const struct place *x = a, *y = b;
    const struct maker *m = ctx;
    if (x->source != y->source)
        return strcmp(m->names.texts.data[x->source], m->names.texts.data[y->source]);
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->func != y->func)
        return x->func < y->func ? -1 : 1;
    return (x->scope > y->scope) - (x->scope < y->scope);
}

static struct ld_source *source_at(struct maker *m, uint32_t source, size_t place)
{
    struct ld_sources *out = m->out;
    bool is_new = !place || m->places.data[place - 1].source != source;
    if (is_new)
        VEC_PUSH(&out->sources, ((struct ld_source){.name = arena_strdup(out->arena, m->names.texts.data[source]),
                                                    .first = out->lines.len}));
    return &out->sources.data[out->sources.len - 1];
}

/* They are in order. */
static void join(struct maker *m)
{
    struct ld_sources *out = m->out;
    for (size_t i = 0, k; i < m->places.len; i = k) {
        const struct place *p = &m->places.data[i];
        struct ld_source *s = source_at(m, p->source, i);
        uint64_t most = 0;
        if (!s->count || out->lines.data[out->lines.len - 1].line != p->line) {
            VEC_PUSH(&out->lines, ((struct ld_source_line){.line = p->line}));
            s->count++;
        }
        struct ld_source_line *line = &out->lines.data[out->lines.len - 1];
        for (k = i; k < m->places.len && is_same_place(p, &m->places.data[k]); k++) {
            most = max_u64(most, m->places.data[k].count);
            line->insns += m->places.data[k].insns;
        }
        line->count += most;
    }
    for (size_t i = 0; i < out->sources.len; i++)
        for (size_t k = out->sources.data[i].first; k < out->sources.data[i].first + out->sources.data[i].count; k++)
            out->sources.data[i].executed += out->lines.data[k].count != 0;
}

/* ---- all ---- */

static int make(struct maker *m, const char *path, const struct ld_blocks *blocks)
{
    m->lines = lines_open(path, DEBUG_ROOT, &m->names);
    if (!m->lines)
        return diag_error("%s has no debug information: compile with -g to see its lines", path);
    m->scopes = scope_cache_new(m->lines);
    for (size_t f = 0; f < blocks->functions.len; f++) {
        const struct ld_function *fn = &blocks->functions.data[f];
        for (size_t b = fn->first; b < fn->first + fn->count; b++)
            add_block(m, fn, &blocks->blocks.data[b]);
    }
    if (m->places.len)
        qsort_r(m->places.data, m->places.len, sizeof *m->places.data, by_line, m);
    join(m);
    return 0;
}

int ld_sources_read(const char *path, const char *const *files, size_t count, struct ld_sources **out)
{
    struct ld_blocks *blocks;
    struct image *img;
    if (ld_blocks_read_with(path, files, count, &blocks, &img) < 0)
        return -1;
    struct ld_sources *all = xmalloc(sizeof *all);
    *all = (struct ld_sources){.arena = arena_new(), .files = count, .inconsistent = blocks->inconsistent};
    struct maker m = {.code = ld_code_begin(img), .out = all};
    m.names.arena = all->arena;
    int rc = make(&m, path, blocks);
    VEC_FREE(&m.places);
    scope_cache_free(m.scopes);
    lines_close(m.lines);
    file_names_fini(&m.names);
    image_close(img);
    ld_blocks_free(blocks);
    if (rc < 0)
        ld_sources_free(all);
    *out = rc < 0 ? NULL : all;
    return rc;
}

void ld_sources_free(struct ld_sources *l)
{
    VEC_FREE(&l->sources);
    VEC_FREE(&l->lines);
    arena_free(l->arena);
    free(l);
}
