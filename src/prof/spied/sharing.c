/* SPDX-License-Identifier: Apache-2.0
 * Lines that threads take from each other, and who does. Of the order of what threads do only some is known; so of each
 * line is told what is missed under both orders that were simulated, and what one of them alone has is left out. */
#include "prof/spied/spied.h"

#include <stdlib.h>

enum { LINES_MAX = 200, SIDES_MAX = 8, CANDIDATES_MAX = 2000 };

struct shared {
    const struct cache_shared_line *line;
    uint64_t misses; /* fewest */
};

static struct prof_data_site site_of(const struct spied *s, uint32_t sharing, const struct cache_party *p)
{
    const struct spied_place *at = &s->place[p->cell];
    const struct prof_data_field *field = spied_field_of(s, p->cell);
    struct join_module *m = at->module == ID_NONE ? NULL : &s->j->modules[at->module];
    struct prof_data_site site = {.sharing = sharing,
                                  .thread = p->thread,
                                  .file = at->line ? join_file_name(s->j, at->file) : NULL,
                                  .line = at->line,
                                  .object = s->object[s->cells[p->cell].object],
                                  .field = field ? field->name : NULL,
                                  .writes = p->written != 0};
    if (m && at->func != ID_NONE)
        site.function = join_func_name(s->j, m, at->func - m->func_base);
    return site;
}

static uint64_t offset_of(const struct spied *s, uint32_t object, uint64_t address)
{
    uint64_t begin = s->in->block_begin(s->in->ctx, object, address);
    if (begin == PROF_UNKNOWN)
        return PROF_UNKNOWN;
    return address > begin ? address - begin : 0;
}

static void put_line(struct spied *s, const struct shared *x)
{
    struct prof_result *r = s->j->r;
    const struct cache_shared_line *l = x->line;
    uint32_t row = (uint32_t)r->data_sharing_count, object = s->cells[l->sides[0].cell].object;
    r->data_sharing[r->data_sharing_count++] =
        (struct prof_data_sharing){.object = s->object[object],
                                   .kind = l->true_misses >= l->false_misses ? "true" : "false",
                                   .line_offset = offset_of(s, object, l->address),
                                   .misses = x->misses};
    for (size_t i = 0; i < l->side_count && i < SIDES_MAX; i++)
        r->data_sites[r->data_site_count++] = site_of(s, row, &l->sides[i]);
}

static int by_misses(const void *a, const void *b)
{
    const struct shared *x = a, *y = b;
    if (x->misses != y->misses)
        return x->misses < y->misses ? 1 : -1;
    return (x->line->address > y->line->address) - (x->line->address < y->line->address);
}

/* Lines of objects that have rows, with what both orders have of them. */
static struct shared *lines_of(struct spied *s, size_t *count)
{
    size_t all;
    const struct cache_shared_line *lines = spy_shared_lines(s->in->spy, s->j->scratch, CANDIDATES_MAX, &all);
    struct shared *out = ARENA_ARRAY(s->j->scratch, struct shared, all + 1);
    *count = 0;
    for (size_t i = 0; i < all; i++) {
        uint32_t object = lines[i].side_count ? s->object[s->cells[lines[i].sides[0].cell].object] : ID_NONE;
        if (object == ID_NONE)
            continue;
        uint64_t second = spy_second_misses(s->in->spy, lines[i].address);
        struct shared x = {&lines[i], min_u64(second, lines[i].true_misses + lines[i].false_misses)};
        s->false_misses[object] += lines[i].false_misses;
        s->false_held[object] += min_u64(second, lines[i].false_misses);
        if (x.misses)
            out[(*count)++] = x;
    }
    qsort(out, *count, sizeof *out, by_misses);
    return out;
}

void spied_sharing(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count;
    s->false_misses = ARENA_ARRAY(s->j->scratch, uint64_t, r->data_count + 1);
    s->false_held = ARENA_ARRAY(s->j->scratch, uint64_t, r->data_count + 1);
    const struct shared *lines = lines_of(s, &count);
    count = min_u64(count, LINES_MAX);
    r->data_sharing = ARENA_ARRAY(r->arena, struct prof_data_sharing, count + 1);
    r->data_sites = ARENA_ARRAY(r->arena, struct prof_data_site, count * SIDES_MAX + 1);
    for (size_t i = 0; i < count; i++)
        put_line(s, &lines[i]);
}
