/* SPDX-License-Identifier: Apache-2.0
 * The order in which debug sections are moved: .debug_info first, since it says what is a list and from where its
 * offsets count. */
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

static void begin(struct moving *m, struct dwarf_section *sections)
{
    for (size_t i = 0; i < m->count; i++) {
        struct section *s = &m->sections[i];
        s->s = &sections[i];
        if (s->s->relocs.len)
            qsort(s->s->relocs.data, s->s->relocs.len, sizeof *s->s->relocs.data, by_offset);
        s->how = xmalloc(s->s->relocs.len + 1);
    }
}

static bool move_all(struct moving *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (strstr(m->sections[i].s->name, ".dwo"))
            return refuse(m, "split DWARF");
    for (const struct mover *with = movers; with < movers + ARRAY_LEN(movers); with++)
        for (size_t i = 0; i < m->count; i++)
            if (!strcmp(m->sections[i].s->name, with->name) && !with->move(m, &m->sections[i]))
                return false;
    move_relocs(m);
    return true;
}

const char *dwarf_move(struct dwarf_section *sections, size_t count, const struct dwarf_moves *moves)
{
    struct moving m = {.moves = moves, .count = count, .sections = xmalloc((count + 1) * sizeof *m.sections)};
    begin(&m, sections);
    if (!move_all(&m) && !m.why)
        m.why = "debug information cut off";
    for (struct section *s = m.sections; s < m.sections + count; s++) {
        free(s->how);
        str_free(&s->out);
        VEC_FREE(&s->lists);
        VEC_FREE(&s->relocs_out);
        VEC_FREE(&s->shifts);
    }
    free(m.sections);
    return m.why;
}
