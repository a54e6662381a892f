/* SPDX-License-Identifier: Apache-2.0
 * What has addresses and lengths of a fixed size, and so is changed in its place: .debug_aranges, and the lists of
 * DWARF 2 to 4, .debug_ranges and .debug_loc. */
#include "dwarf/impl.h"

/* ---- .debug_aranges ---- */

static bool move_arange(struct moving *m, struct section *s, struct cursor *c)
{
    struct place from = read_place(m, s, c, 8);
    uint64_t at = section_offset(c), len = cursor_uint(c, 8);
    if (!c->is_bad && from.section)
        set_uint(s, at, move_length(m, from, len), 8);
    return !c->is_bad;
}

bool move_aranges(struct moving *m, struct section *s)
{
    enum { TUPLE = 16 };
    struct cursor all = section_cursor(s, 0, s->s->bytes.len);
    while (cursor_left(&all)) {
        unsigned offset_len;
        uint64_t begin = section_offset(&all), len = read_unit_length(&all, &offset_len), at = section_offset(&all);
        struct cursor c = section_cursor(s, at, at + len);
        cursor_skip(&c, 2 + offset_len);
        if (!len || cursor_uint(&c, 1) != 8 || cursor_uint(&c, 1) != 0)
            return refuse(m, "a .debug_aranges of another kind of address");
        cursor_skip(&c, -(section_offset(&c) - begin) & (TUPLE - 1));
        while (cursor_left(&c) >= TUPLE)
            if (!move_arange(m, s, &c))
                return false;
        cursor_skip(&all, len);
    }
    return !all.is_bad;
}

/* ---- .debug_ranges, .debug_loc ---- */

static bool set_pair(struct moving *m, struct section *s, struct place base, uint64_t at, const uint64_t value[2],
                     bool is_location)
{
    if (!base.section)
        return refuse(m, "a list of offsets from nowhere");
    struct place from = {base.section, base.offset + value[0]};
    uint64_t origin = move_at(m, base), low = move_at(m, from), end = low + move_length(m, from, value[1] - value[0]);
    if (is_location)
        move_held(m, from, value[1] - value[0], &low, &end);
    if (low == origin && end == origin && value[1]) /* it would end the list */
        low = end = origin + 1;
    set_uint(s, at, low - origin, 8);
    set_uint(s, at + 8, end - origin, 8);
    return true;
}

/* A location from one address to another: neither end inside of a window. */
static void hold(struct moving *m, struct section *s, uint64_t at, const struct place pair[2])
{
    const struct dwarf_window *a = window_around(m, pair[0]), *b = window_around(m, pair[1]);
    if (a)
        s->how[reloc_index(s, at)] = a == b ? HELD_TO : HELD_FROM;
    if (b)
        s->how[reloc_index(s, at + 8)] = HELD_TO;
}

enum pair { PAIR_END, PAIR_BASE, PAIR_RANGE, PAIR_BAD };

static enum pair move_range(struct moving *m, struct section *s, struct place base, uint64_t at,
                            const struct place pair[2])
{
    bool is_location = !strcmp(s->s->name, ".debug_loc");
    uint64_t value[] = {pair[0].offset, pair[1].offset};
    if (!pair[0].section != !pair[1].section)
        return refuse(m, "a pair of one address and one offset"), PAIR_BAD;
    if (pair[0].section) {
        s->how[reloc_index(s, at + 8)] = value[0] != value[1] ? RANGE_END : RANGE_BEGIN;
        if (is_location)
            hold(m, s, at, pair);
    } else if ((base.section || value[0] != value[1]) &&
               !set_pair(m, s, base, at, value, is_location)) { /* an empty one may have none */
        return PAIR_BAD;
    }
    return PAIR_RANGE;
}

/* The end of the list, a base, two offsets from it, or two addresses. */
static enum pair move_pair(struct moving *m, struct section *s, struct cursor *c, struct place *base)
{
    uint64_t at = section_offset(c);
    struct place pair[] = {read_place(m, s, c, 8), read_place(m, s, c, 8)};
    if (c->is_bad)
        return PAIR_BAD;
    if (!pair[0].section && !pair[1].section && !pair[0].offset && !pair[1].offset)
        return PAIR_END;
    if (pair[0].section || pair[0].offset != UINT64_MAX)
        return move_range(m, s, *base, at, pair);
    *base = pair[1];
    return PAIR_BASE;
}

static bool move_list(struct moving *m, struct section *s, const struct list *l, bool has_expressions)
{
    struct cursor c = section_cursor(s, l->offset, s->s->bytes.len);
    struct place base = l->base;
    for (;;) {
        enum pair p = move_pair(m, s, &c, &base);
        if (p == PAIR_END || p == PAIR_BAD)
            return p == PAIR_END;
        if (has_expressions && p == PAIR_RANGE)
            cursor_skip(&c, cursor_uint(&c, 2));
    }
}

bool move_pairs(struct moving *m, struct section *s)
{
    struct map done = {0};
    bool is_good = true;
    for (size_t i = 0; i < s->lists.len && is_good; i++) {
        if (map_has(&done, s->lists.data[i].offset)) /* several entries may name one */
            continue;
        map_put(&done, s->lists.data[i].offset, 1);
        is_good = move_list(m, s, &s->lists.data[i], !strcmp(s->s->name, ".debug_loc"));
    }
    map_fini(&done);
    return is_good;
}
