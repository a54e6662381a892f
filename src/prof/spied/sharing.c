/* SPDX-License-Identifier: Apache-2.0
 * Lines that threads take from each other, and who does. */
#include "prof/spied/spied.h"

enum { LINES_MAX = 200, SIDES_MAX = 8 };

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

static void put_line(struct spied *s, const struct cache_shared_line *l)
{
    struct prof_result *r = s->j->r;
    uint32_t row = (uint32_t)r->data_sharing_count, object = s->cells[l->sides[0].cell].object;
    if (s->object[object] == ID_NONE)
        return;
    r->data_sharing[r->data_sharing_count++] =
        (struct prof_data_sharing){.object = s->object[object],
                                   .kind = l->true_misses >= l->false_misses ? "true" : "false",
                                   .line_offset = offset_of(s, object, l->address),
                                   .misses = l->true_misses + l->false_misses};
    for (size_t i = 0; i < l->side_count && i < SIDES_MAX; i++)
        r->data_sites[r->data_site_count++] = site_of(s, row, &l->sides[i]);
}

void spied_sharing(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count;
    const struct cache_shared_line *lines =
        cache_shared_lines(spy_cache(s->in->spy, 0), s->j->scratch, LINES_MAX, &count);
    r->data_sharing = ARENA_ARRAY(r->arena, struct prof_data_sharing, count + 1);
    r->data_sites = ARENA_ARRAY(r->arena, struct prof_data_site, count * SIDES_MAX + 1);
    for (size_t i = 0; i < count; i++)
        if (lines[i].side_count && lines[i].true_misses + lines[i].false_misses)
            put_line(s, &lines[i]);
}
