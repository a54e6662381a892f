/* SPDX-License-Identifier: Apache-2.0
 * The order in which debug sections are moved: .debug_info first, since it says what is a list and from where its
 * offsets count; then all others side by side, then what refers from one to another. */
#include <stdlib.h>

#include "dwarf/impl.h"

static const struct mover {
    const char *name;
    bool (*move)(struct moving *m, struct section *s);
} movers[] = {
    {".debug_info", move_info},      {".debug_types", move_info}, {".debug_aranges", move_aranges},
    {".debug_ranges", move_pairs},   {".debug_loc", move_pairs},  {".debug_rnglists", move_lists},
    {".debug_loclists", move_lists}, {".debug_line", move_lines},
};

bool dwarf_is_debug(const char *section_name)
{
    return !strncmp(section_name, ".debug_", strlen(".debug_")) && strcmp(section_name, ".debug_frame") != 0;
}

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const struct dwarf_reloc *)a)->offset, y = ((const struct dwarf_reloc *)b)->offset;
    return x < y ? -1 : x > y;
}

static void index_relocs(struct section *s)
{
    size_t steps = s->s->bytes.len / RELOC_STEP + 2, n = 0;
    s->relocs_before = xmalloc(steps * sizeof *s->relocs_before);
    for (size_t k = 0; k < steps; k++) {
        while (n < s->s->relocs.len && s->s->relocs.data[n].offset < k * RELOC_STEP)
            n++;
        s->relocs_before[k] = (uint32_t)n;
    }
}

static void sort_relocs(struct dwarf_section *s)
{
    for (size_t i = 1; i < s->relocs.len; i++)
        if (s->relocs.data[i - 1].offset > s->relocs.data[i].offset) {
            qsort(s->relocs.data, s->relocs.len, sizeof *s->relocs.data, by_offset);
            return;
        }
}

static void begin(struct moving *m, struct dwarf_section *sections)
{
    for (size_t i = 0; i < m->count; i++) {
        struct section *s = &m->sections[i];
        s->s = &sections[i];
        m->index_count = s->s->index < m->index_count ? m->index_count : s->s->index + 1;
        sort_relocs(s->s);
        index_relocs(s);
        s->how = xmalloc(s->s->relocs.len + 1);
    }
    m->by_index = xmalloc((m->index_count + 1) * sizeof(struct section *));
    for (size_t i = m->count; i-- > 0;)
        m->by_index[m->sections[i].s->index] = &m->sections[i];
}

/* ---- all ---- */

static const struct mover *mover_of(const struct section *s)
{
    for (const struct mover *with = movers; with < movers + ARRAY_LEN(movers); with++)
        if (!strcmp(s->s->name, with->name))
            return with;
    return NULL;
}

static void move_section(struct moving *m, struct section *s, bool is_info)
{
    const struct mover *with = mover_of(s);
    if (with && (with->move == move_info) == is_info && !with->move(m, s) && !m->why)
        m->why = "debug information cut off";
}

struct side_by_side { /* sections that know nothing of each other */
    struct moving *m;
    const char **why; /* [count] */
};

static void move_range(void *ctx, size_t first, size_t end)
{
    struct side_by_side *all = ctx;
    for (; first < end; first++) {
        struct moving own = *all->m;
        move_section(&own, &own.sections[first], false);
        all->why[first] = own.why;
    }
}

static void move_relocs_range(void *ctx, size_t first, size_t end)
{
    struct side_by_side *all = ctx;
    for (; first < end; first++)
        move_relocs_of(all->m, &all->m->sections[first]);
}

static void move_all(struct moving *m)
{
    struct side_by_side all = {m, xmalloc((m->count + 1) * sizeof(char *))};
    for (size_t i = 0; i < m->count; i++)
        if (strstr(m->sections[i].s->name, ".dwo") && m->sections[i].s->bytes.len)
            refuse(m, "split DWARF without what it is split from");
    for (size_t i = 0; i < m->count && !m->why; i++)
        move_section(m, &m->sections[i], true);
    if (!m->why)
        parallel_each(m->count, move_range, &all);
    for (size_t i = 0; i < m->count && !m->why; i++)
        m->why = all.why[i];
    if (!m->why)
        parallel_each(m->count, move_relocs_range, &all);
    free(all.why);
}

const char *dwarf_move(struct dwarf_section *sections, size_t count, const struct dwarf_moves *moves, bool *is_split)
{
    const char *why = join_split(sections, count, is_split);
    if (why)
        return why;
    struct moving m = {.moves = moves, .count = count, .sections = xmalloc((count + 1) * sizeof *m.sections)};
    begin(&m, sections);
    move_all(&m);
    for (struct section *s = m.sections; s < m.sections + count; s++) {
        free(s->how);
        free(s->relocs_before);
        str_free(&s->out);
        VEC_FREE(&s->lists);
        VEC_FREE(&s->relocs_out);
        VEC_FREE(&s->shifts);
    }
    free(m.sections);
    free(m.by_index);
    return m.why;
}
