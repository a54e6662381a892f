/* SPDX-License-Identifier: Apache-2.0
 * .debug_rnglists and .debug_loclists (DWARF 5, 7.28, 7.29): made anew, since lengths in LEB128 grow. What is no list
 * that an entry names (GCC's views of locations) is copied as it is. */
#include <dwarf.h>
#include <stdlib.h>

#include "dwarf/impl.h"

enum { GNU_VIEW_PAIR = 9 }; /* of GCC, in lists of locations */

struct list_walk {
    struct moving *m;
    struct section *s;
    const struct list *list;
    struct cursor c;
    struct place base;
    bool has_expressions; /* locations */
};

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const struct list *)a)->offset, y = ((const struct list *)b)->offset;
    return x < y ? -1 : x > y;
}

/* ---- one entry ---- */

static void copy_from(struct list_walk *w, uint64_t at)
{
    if (!w->c.is_bad)
        copy_bytes(w->m, w->s, at, section_offset(&w->c));
}

/* The address at the cursor, with its relocation. */
static struct place pass_address(struct list_walk *w, enum reloc_end how)
{
    const struct dwarf_reloc *r = w->c.is_bad ? NULL : reloc_at(w->s, section_offset(&w->c));
    struct place p = read_place(w->m, w->s, &w->c, 8);
    if (r)
        put_address(w->m, w->s, r, how);
    else
        put_uint(&w->s->out, p.offset, 8);
    return p;
}

static struct place pass_indexed(struct list_walk *w)
{
    uint64_t index = cursor_uleb(&w->c);
    str_put_uleb(&w->s->out, index);
    return read_indexed(w->m, w->list->of_addresses, w->list->addresses_at, index);
}

static bool pass_length(struct list_walk *w, struct place from)
{
    uint64_t length = cursor_uleb(&w->c), now = move_length(w->m, from, length), start, end;
    if (w->has_expressions && w->m->moves->window) { /* its begin may be that of others too */
        move_held(w->m, from, length, &start, &end);
        now = window_around(w->m, from) ? 0 : end - start;
    }
    str_put_uleb(&w->s->out, now);
    return !w->c.is_bad;
}

static bool pass_offsets(struct list_walk *w)
{
    uint64_t low = cursor_uleb(&w->c), high = cursor_uleb(&w->c);
    struct place from = {w->base.section, w->base.offset + low};
    if (!w->base.section)
        return refuse(w->m, "a list of offsets from nowhere");
    uint64_t origin = move_at(w->m, w->base), at = move_at(w->m, from), end = at + move_length(w->m, from, high - low);
    if (w->has_expressions)
        move_held(w->m, from, high - low, &at, &end);
    str_put_uleb(&w->s->out, at - origin);
    str_put_uleb(&w->s->out, end - origin);
    return !w->c.is_bad;
}

/* Of a location neither end may be inside of a window; where both are in one, it holds nowhere. */
static bool pass_two_addresses(struct list_walk *w)
{
    struct cursor c = w->c;
    struct place pair[] = {read_place(w->m, w->s, &c, 8), read_place(w->m, w->s, &c, 8)};
    const struct dwarf_window *a = window_around(w->m, pair[0]), *b = window_around(w->m, pair[1]);
    bool is_held = w->has_expressions;
    (void)pass_address(w, is_held && a ? (a == b ? HELD_TO : HELD_FROM) : RANGE_BEGIN);
    (void)pass_address(w, is_held && b ? HELD_TO : RANGE_END);
    return !w->c.is_bad;
}

static bool pass_expression(struct list_walk *w)
{
    uint64_t at = section_offset(&w->c);
    if (!w->has_expressions)
        return true;
    cursor_skip(&w->c, cursor_uleb(&w->c));
    copy_from(w, at);
    return !w->c.is_bad;
}

static bool pass_two_numbers(struct list_walk *w)
{
    uint64_t at = section_offset(&w->c);
    (void)cursor_uleb(&w->c);
    (void)cursor_uleb(&w->c);
    copy_from(w, at);
    return !w->c.is_bad;
}

/* The kinds of ranges, in those of locations. */
static unsigned kind_of(const struct list_walk *w, unsigned code)
{
    return w->has_expressions || code < DW_RLE_base_address ? code : code + DW_LLE_base_address - DW_RLE_base_address;
}

static bool pass_entry(struct list_walk *w, unsigned kind)
{
    switch (kind) {
    case DW_LLE_base_addressx:
        w->base = pass_indexed(w);
        return !w->c.is_bad;
    case DW_LLE_startx_endx:
        return pass_two_numbers(w) && pass_expression(w);
    case DW_LLE_startx_length:
        return pass_length(w, pass_indexed(w)) && pass_expression(w);
    case DW_LLE_offset_pair:
        return pass_offsets(w) && pass_expression(w);
    case DW_LLE_default_location:
        return pass_expression(w);
    case DW_LLE_base_address:
        w->base = pass_address(w, RANGE_BEGIN);
        return !w->c.is_bad;
    case DW_LLE_start_end:
        return pass_two_addresses(w) && pass_expression(w);
    case DW_LLE_start_length:
        return pass_length(w, pass_address(w, RANGE_BEGIN)) && pass_expression(w);
    case GNU_VIEW_PAIR:
        return pass_two_numbers(w);
    default:
        return refuse(w->m, "an entry of a list that is not known");
    }
}

/* Whether an offset comes before the list ends, or says from where offsets count. */
static bool needs_base(const struct list_walk *w)
{
    struct cursor c = w->c;
    while (!c.is_bad && cursor_left(&c)) {
        unsigned kind = kind_of(w, (unsigned)cursor_uint(&c, 1));
        if (kind == DW_LLE_offset_pair)
            return true;
        if (kind == DW_LLE_end_of_list || kind == DW_LLE_base_address || kind == DW_LLE_base_addressx)
            return false;
        if (kind == DW_LLE_start_end || kind == DW_LLE_start_length)
            cursor_skip(&c, kind == DW_LLE_start_end ? 16 : 8);
        else if (kind != DW_LLE_default_location)
            (void)cursor_uleb(&c);
        if (kind != DW_LLE_start_end && kind != DW_LLE_default_location)
            (void)cursor_uleb(&c);
        if (w->has_expressions && kind != GNU_VIEW_PAIR)
            cursor_skip(&c, cursor_uleb(&c));
    }
    return false;
}

/* Lists that begin with the entry at the cursor: of two that end alike compilers may write one. */
static bool note_begins(struct list_walk *w)
{
    uint64_t at = section_offset(&w->c);
    size_t i = PARTITION_POINT(k, 0, w->s->lists.len, w->s->lists.data[k].offset < at);
    note_shift(w->s, at);
    for (; i < w->s->lists.len && w->s->lists.data[i].offset == at; i++) {
        struct list *l = &w->s->lists.data[i];
        bool is_same = l->base.section == w->base.section && l->base.offset == w->base.offset;
        if (!is_same && needs_base(w))
            return refuse(w->m, "two lists in one that count from different places");
        l->is_moved = true;
    }
    return true;
}

static bool move_list(struct list_walk *w)
{
    for (;;) {
        if (!note_begins(w))
            return false;
        unsigned code = (unsigned)cursor_uint(&w->c, 1);
        if (w->c.is_bad)
            return false;
        put_uint(&w->s->out, code, 1);
        if (code == DW_LLE_end_of_list) /* as of ranges */
            return true;
        if (!pass_entry(w, kind_of(w, code)))
            return false;
    }
}

/* ---- all lists of a unit ---- */

static bool move_between(struct moving *m, struct section *s, uint64_t at, uint64_t end)
{
    size_t i = PARTITION_POINT(k, 0, s->lists.len, s->lists.data[k].offset < at);
    for (; i < s->lists.len && s->lists.data[i].offset < end; i++) {
        const struct list *l = &s->lists.data[i];
        if (l->is_moved)
            continue;
        if (l->offset < at)
            return refuse(m, "a list that begins within another");
        copy_bytes(m, s, at, l->offset);
        struct list_walk w = {
            m, s, l, section_cursor(s, l->offset, end), l->base, !strcmp(s->s->name, ".debug_loclists")};
        if (!move_list(&w))
            return false;
        at = section_offset(&w.c);
    }
    copy_bytes(m, s, at, end);
    return true;
}

static void move_table(struct section *s, uint64_t table, uint64_t count, unsigned offset_len)
{
    struct cursor c = section_cursor(s, table, table + count * offset_len);
    uint64_t now = shifted(s, table);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t to = shifted(s, table + cursor_uint(&c, offset_len)) - now;
        memcpy(s->out.data + now + i * offset_len, &to, offset_len);
    }
}

static bool move_unit(struct moving *m, struct section *s, uint64_t begin, uint64_t end, unsigned offset_len)
{
    struct cursor c = section_cursor(s, begin, end);
    uint64_t out = s->out.len;
    cursor_skip(&c, offset_len == 8 ? 12 : 4);
    if (cursor_uint(&c, 2) != 5 || cursor_uint(&c, 1) != 8 || cursor_uint(&c, 1) != 0)
        return refuse(m, "lists of another version");
    uint64_t count = cursor_uint(&c, 4), table = section_offset(&c);
    if (count > cursor_left(&c) / offset_len)
        return false;
    uint64_t lists = table + count * offset_len;
    copy_bytes(m, s, begin, lists);
    if (!move_between(m, s, lists, end))
        return false;
    move_table(s, table, count, offset_len);
    set_unit_length(s, out, offset_len);
    return true;
}

bool move_lists(struct moving *m, struct section *s)
{
    if (s->lists.len)
        qsort(s->lists.data, s->lists.len, sizeof *s->lists.data, by_offset);
    return move_units(m, s, move_unit);
}
