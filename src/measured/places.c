/* SPDX-License-Identifier: Apache-2.0
 *
 * places: where in the source objects and lines are. A loop belongs to the innermost function, inlined or not, that
 * holds all of its own code (inner loops aside); code of functions inlined deeper counts at the line where they were
 * inlined. So the lines of a loop are lines of one function's text.
 */
#include "measured/measured.h"

#include <math.h>
#include <stdlib.h>

void places_open(struct join *j)
{
    for (uint32_t i = 0; i < j->module_count; i++) {
        struct join_module *m = &j->modules[i];
        if (m->img && m->instructions)
            m->lines = lines_open(m->path, DEBUG_ROOT, &j->files);
        if (m->lines)
            m->scopes = scope_cache_new(m->lines);
    }
}

void places_close(struct join *j)
{
    for (uint32_t i = 0; i < j->module_count; i++) {
        scope_cache_free(j->modules[i].scopes);
        lines_close(j->modules[i].lines);
    }
    file_names_fini(&j->files);
}

/* Innermost scope that holds both; the function itself at worst. */
static uint32_t common(const struct scopes *s, uint32_t a, uint32_t b)
{
    while (a != b) /* a parent's id is below its children's */
        if (a > b)
            a = s->scopes[a].parent;
        else
            b = s->scopes[b].parent;
    return a;
}

/* The place of a row as seen from scope `frame`: its own line, or where the function that it came from was inlined.
 * False if it is not in that scope. */
static bool place_in(const struct scopes *s, uint32_t frame, struct line_row *row)
{
    uint32_t at = scope_at(s, row->lo);
    for (; at != ID_NONE && at != frame; at = s->scopes[at].parent) {
        row->file = s->scopes[at].call_file;
        row->line = s->scopes[at].call_line;
    }
    return at == frame;
}

struct region {
    const struct scopes *scopes; /* NULL: lines only */
    uint32_t frame, file, first, last;
};

static void widen(struct lines *lines, struct region *r, uint64_t lo, uint64_t hi)
{
    struct line_row row;
    for (uint64_t at = lo; at < hi; at = max_u64(at + 1, row.hi)) {
        row.hi = 0;
        if (!lines_at(lines, at, &row) || row.line == 0)
            continue;
        if (r->scopes && !place_in(r->scopes, r->frame, &row))
            continue;
        if (r->file == ID_NONE)
            r->file = row.file;
        if (row.file != r->file || row.line == 0)
            continue;
        r->first = r->first ? (uint32_t)min_u64(r->first, row.line) : row.line;
        r->last = (uint32_t)max_u64(r->last, row.line);
    }
}

/* Innermost scope that holds the block and `frame`. */
static uint32_t frame_with_block(struct join_module *m, const struct scopes *s, const struct cfg_block *b,
                                 uint32_t frame)
{
    struct line_row row;
    for (uint64_t at = b->addr; at < b->addr + b->size; at = max_u64(at + 1, row.hi)) {
        row.hi = 0;
        uint32_t scope = lines_at(m->lines, at, &row) && row.line ? scope_at(s, at) : ID_NONE;
        if (scope != ID_NONE)
            frame = frame == ID_NONE ? scope : common(s, frame, scope);
    }
    return frame;
}

static uint32_t frame_of_loop(struct join_module *m, const struct scopes *s, uint32_t loop)
{
    const struct cfg *c = m->cfg;
    const struct cfg_loop *l = &c->loops.data[loop];
    uint32_t frame = ID_NONE;
    for (uint32_t i = 0; i < l->member_count && frame != 0; i++) {
        const struct cfg_block *b = &c->blocks.data[c->loop_members.data[l->member_first + i]];
        if (b->loop == loop)
            frame = frame_with_block(m, s, b, frame);
    }
    return frame == ID_NONE ? 0 : frame;
}

static void widen_over_loop(struct join_module *m, struct region *r, uint32_t loop)
{
    const struct cfg *c = m->cfg;
    const struct cfg_loop *l = &c->loops.data[loop];
    for (uint32_t i = 0; i < l->member_count; i++) {
        const struct cfg_block *b = &c->blocks.data[c->loop_members.data[l->member_first + i]];
        widen(m->lines, r, b->addr, b->addr + b->size);
    }
}

void places_of_object(struct join *j, struct join_module *m, uint32_t func, uint32_t loop, struct prof_object *o)
{
    const struct cfg_func *f = &m->cfg->funcs.data[func];
    if (!m->lines)
        return;
    struct region r = {.scopes = scopes_of(m->scopes, o->address), .file = ID_NONE};
    if (r.scopes && r.scopes->span_count == 0)
        r.scopes = NULL;
    if (loop == ID_NONE) {
        widen(m->lines, &r, f->addr, f->addr + f->size);
        if (r.scopes && r.scopes->scopes[0].call_line && r.scopes->scopes[0].call_file == r.file)
            r.first = (uint32_t)min_u64(r.first, r.scopes->scopes[0].call_line);
    } else {
        if (r.scopes)
            r.frame = frame_of_loop(m, r.scopes, loop);
        widen(m->lines, &r, o->address, o->address + 1); /* the header decides the file */
        widen_over_loop(m, &r, loop);
    }
    o->file = join_file_name(j, r.file);
    o->line_first = r.first;
    o->line_last = r.last;
    if (r.frame && r.scopes->scopes[r.frame].name)
        o->function = arena_printf(j->r->arena, "%s (inlined in %s)", r.scopes->scopes[r.frame].name, o->function);
}

struct line_set { /* of one file: what the first line is in */
    struct region region;
    struct map seen;
};

static void note_lines(struct join_module *m, struct line_set *set, const struct cfg_block *b)
{
    struct region *r = &set->region;
    struct line_row row;
    for (uint64_t at = b->addr; at < b->addr + b->size; at = max_u64(at + 1, row.hi)) {
        row.hi = 0;
        if (!lines_at(m->lines, at, &row) || row.line == 0 || (r->scopes && !place_in(r->scopes, r->frame, &row)))
            continue;
        if (r->file == ID_NONE)
            r->file = row.file;
        map_put(&set->seen, (uint64_t)row.file << 32 | row.line, 1);
        if (row.file != r->file || row.line == 0)
            continue;
        r->first = r->first ? (uint32_t)min_u64(r->first, row.line) : row.line;
        r->last = (uint32_t)max_u64(r->last, row.line);
    }
}

struct place_lines places_of_blocks(struct join *j, struct join_module *m, const uint32_t *blocks, size_t count)
{
    struct place_lines out = {0};
    struct line_set set = {.region.file = ID_NONE};
    if (!m->lines || !count)
        return out;
    const struct cfg_block *all = m->cfg->blocks.data;
    set.region.scopes = scopes_of(m->scopes, all[blocks[0]].addr);
    if (set.region.scopes && set.region.scopes->span_count == 0)
        set.region.scopes = NULL;
    uint32_t frame = ID_NONE;
    for (size_t i = 0; set.region.scopes && i < count && frame != 0; i++)
        frame = frame_with_block(m, set.region.scopes, &all[blocks[i]], frame);
    set.region.frame = frame == ID_NONE ? 0 : frame;
    for (size_t i = 0; i < count; i++)
        note_lines(m, &set, &all[blocks[i]]);
    out = (struct place_lines){join_file_name(j, set.region.file), (uint32_t)set.seen.len, set.region.first,
                               set.region.last};
    map_fini(&set.seen);
    return out;
}

struct line_sums {
    VEC(struct prof_line) v;
    struct map by_place;
};

static struct prof_line *line_of(struct join *j, struct line_sums *s, const struct line_row *row)
{
    uint64_t key = (uint64_t)row->file << 32 | row->line, at;
    if (row->file == ID_NONE || row->line == 0)
        return NULL;
    if (!map_get(&s->by_place, key, &at)) {
        at = s->v.len;
        map_put(&s->by_place, key, at);
        VEC_PUSH(&s->v,
                 ((struct prof_line){
                     .file = join_file_name(j, row->file), .line = row->line, .actual_s = NAN, .memory_s = NAN}));
    }
    return &s->v.data[at];
}

static void sum_block(struct join *j, const struct join_module *m, struct line_sums *s, uint32_t b)
{
    const struct cfg_block *block = &m->cfg->blocks.data[b];
    const uint8_t *bytes = image_at(m->img, block->addr, block->size);
    uint64_t count = j->counts[m->block_base + b];
    struct line_row row = {0};
    struct prof_line *line = NULL;
    struct x86_insn insn;
    for (uint64_t off = 0; bytes && off < block->size; off += insn.len) {
        uint64_t addr = block->addr + off;
        if (!x86_decode(bytes + off, block->size - off, addr, &insn))
            return;
        if (addr >= row.hi) {
            bool known = lines_at(m->lines, addr, &row);
            line = known ? line_of(j, s, &row) : NULL;
            row.hi = known ? row.hi : addr + 1;
        }
        if (!line)
            continue;
        line->instructions += count;
        line->memory_ops += count * ((uint64_t)insn.loads + insn.stores);
    }
}

static void sum_samples(struct join *j, struct line_sums *s)
{
    for (size_t i = 0; i < j->in->sample_count; i++) {
        const struct observed_sample *p = &j->in->samples[i];
        struct line_row row;
        if (p->module >= j->module_count || !j->modules[p->module].lines ||
            !lines_at(j->modules[p->module].lines, p->vaddr, &row))
            continue;
        struct prof_line *line = line_of(j, s, &row);
        if (line)
            line->samples += p->count;
    }
}

static int compare_lines(const void *a, const void *b)
{
    const struct prof_line *x = a, *y = b;
    int by_file = strcmp(x->file, y->file);
    return by_file ? by_file : x->line < y->line ? -1 : x->line > y->line;
}

void places_sum_lines(struct join *j)
{
    struct line_sums s = {0};
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (uint32_t b = 0; m->lines && b < m->cfg->blocks.len; b++)
            if (j->counts[m->block_base + b])
                sum_block(j, m, &s, b);
    }
    sum_samples(j, &s);
    j->r->lines = ARENA_ARRAY(j->r->arena, struct prof_line, s.v.len + 1);
    j->r->line_count = s.v.len;
    if (s.v.len) {
        memcpy(j->r->lines, s.v.data, s.v.len * sizeof *s.v.data);
        qsort(j->r->lines, s.v.len, sizeof *s.v.data, compare_lines);
    }
    VEC_FREE(&s.v);
    map_fini(&s.by_place);
}
