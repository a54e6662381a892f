/* SPDX-License-Identifier: Apache-2.0
 * Sections while they are moved: relocations, copies of bytes with theirs, and where what stood went. */
#include <elf.h>
#include <stdlib.h>

#include "dwarf/impl.h"

struct section *find_section(struct moving *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (!strcmp(m->sections[i].s->name, name))
            return &m->sections[i];
    return NULL;
}

struct section *section_at(struct moving *m, uint32_t index)
{
    return index < m->index_count ? m->by_index[index] : NULL;
}

struct cursor section_cursor(const struct section *s, uint64_t from, uint64_t end)
{
    const uint8_t *p = (const uint8_t *)s->s->bytes.data;
    if (!p || end > s->s->bytes.len || from > end)
        return (struct cursor){.is_bad = true};
    return (struct cursor){p, p + from, p + end, 0, false};
}

uint64_t section_offset(const struct cursor *c) { return (uint64_t)(c->p - c->start); }

/* ---- relocations ---- */

size_t reloc_index(const struct section *s, uint64_t offset)
{
    if (offset >= s->s->bytes.len)
        return PARTITION_POINT(i, 0, s->s->relocs.len, s->s->relocs.data[i].offset < offset);
    size_t i = s->relocs_before[offset / RELOC_STEP];
    while (i < s->s->relocs.len && s->s->relocs.data[i].offset < offset)
        i++;
    return i;
}

const struct dwarf_reloc *reloc_at(const struct section *s, uint64_t offset)
{
    size_t i = reloc_index(s, offset);
    return i < s->s->relocs.len && s->s->relocs.data[i].offset == offset ? &s->s->relocs.data[i] : NULL;
}

struct place reloc_place(struct moving *m, const struct dwarf_reloc *r)
{
    struct dwarf_symbol to = m->moves->symbol(m->moves->ctx, r->symbol);
    return (struct place){to.section, (to.is_section ? 0 : to.value) + (uint64_t)r->addend};
}

struct place read_place(struct moving *m, const struct section *s, struct cursor *c, unsigned len)
{
    const struct dwarf_reloc *r = c->is_bad ? NULL : reloc_at(s, section_offset(c));
    uint64_t number = cursor_uint(c, len);
    return r ? reloc_place(m, r) : (struct place){0, number};
}

struct place read_indexed(struct moving *m, const struct section *addresses, uint64_t at, uint64_t index)
{
    if (!addresses || index >= addresses->s->bytes.len / 8)
        return (struct place){0};
    struct cursor c = section_cursor(addresses, at + 8 * index, addresses->s->bytes.len);
    return read_place(m, addresses, &c, 8);
}

/* ---- places ---- */

uint64_t move_at(struct moving *m, struct place p)
{
    return p.section ? m->moves->at(m->moves->ctx, p.section, p.offset) : p.offset;
}

uint64_t move_row(struct moving *m, struct place p)
{
    return p.section ? m->moves->row(m->moves->ctx, p.section, p.offset) : p.offset;
}

uint64_t move_end(struct moving *m, struct place p)
{
    return p.section ? m->moves->end(m->moves->ctx, p.section, p.offset) : p.offset;
}

const struct dwarf_window *window_around(struct moving *m, struct place p)
{
    const struct dwarf_window *w =
        p.section && m->moves->window ? m->moves->window(m->moves->ctx, p.section, p.offset) : NULL;
    return w && w->lo < p.offset ? w : NULL;
}

void move_held(struct moving *m, struct place from, uint64_t length, uint64_t *start, uint64_t *end)
{
    struct place to = {from.section, from.offset + length};
    const struct dwarf_window *a = window_around(m, from), *b = window_around(m, to);
    *start = a ? a->hi : move_at(m, from);
    *end = b ? b->lo : *start;
    if (!b && length)
        *end = move_end(m, to);
    if (*end < *start)
        *start = *end;
}

uint64_t move_length(struct moving *m, struct place base, uint64_t length)
{
    return length ? move_end(m, (struct place){base.section, base.offset + length}) - move_at(m, base) : 0;
}

uint64_t shifted(const struct section *s, uint64_t old)
{
    size_t i = PARTITION_POINT(k, 0, s->shifts.len, s->shifts.data[k].old <= old);
    return i ? old - s->shifts.data[i - 1].old + s->shifts.data[i - 1].now : old;
}

/* ---- bytes ---- */

void put_uint(struct strbuf *out, uint64_t v, unsigned len) { str_put(out, &v, len); }

void set_uint(struct section *s, uint64_t offset, uint64_t v, unsigned len)
{
    memcpy(s->s->bytes.data + offset, &v, len);
}

static void begin_anew(struct section *s)
{
    s->is_anew = true;
    VEC_RESERVE(&s->relocs_out, s->s->relocs.len);
    str_reserve(&s->out, s->s->bytes.len + s->s->bytes.len / 4);
}

void note_shift(struct section *s, uint64_t old)
{
    size_t n = s->shifts.len;
    if (n && old - s->shifts.data[n - 1].old == s->out.len - s->shifts.data[n - 1].now)
        return; /* the last says so */
    VEC_PUSH(&s->shifts, ((struct shift){old, s->out.len}));
}

/* With the addend that names where its place went. Places in debug sections wait until all of these are made. */
static struct dwarf_reloc moved_reloc(struct moving *m, const struct dwarf_reloc *r, enum reloc_end how)
{
    struct dwarf_symbol to = m->moves->symbol(m->moves->ctx, r->symbol);
    struct dwarf_reloc out = *r;
    if (!to.section || section_at(m, to.section))
        return out;
    struct place old = reloc_place(m, r);
    const struct dwarf_window *w = how >= HELD_FROM ? window_around(m, old) : NULL;
    uint64_t now = how == HELD_TO || how == RANGE_END ? move_end(m, old) : move_at(m, old);
    if (w)
        now = how == HELD_TO ? w->lo : w->hi;
    out.addend = (int64_t)(now - (to.is_section ? 0 : to.value_new));
    return out;
}

void copy_bytes(struct moving *m, struct section *s, uint64_t from, uint64_t end)
{
    note_shift(s, from);
    for (size_t i = reloc_index(s, from); i < s->s->relocs.len && s->s->relocs.data[i].offset < end; i++) {
        struct dwarf_reloc r = moved_reloc(m, &s->s->relocs.data[i], RANGE_BEGIN);
        r.offset += s->out.len - from;
        VEC_PUSH(&s->relocs_out, r);
    }
    str_put(&s->out, s->s->bytes.data + from, end - from);
}

void put_address(struct moving *m, struct section *s, const struct dwarf_reloc *r, enum reloc_end how)
{
    struct dwarf_reloc to = moved_reloc(m, r, how);
    to.offset = s->out.len;
    VEC_PUSH(&s->relocs_out, to);
    put_uint(&s->out, 0, 8);
}

/* ---- units ---- */

uint64_t read_unit_length(struct cursor *c, unsigned *offset_len)
{
    uint64_t len = cursor_uint(c, 4);
    *offset_len = len == UINT32_MAX ? 8 : 4;
    if (len == UINT32_MAX)
        len = cursor_uint(c, 8);
    return c->is_bad || len > cursor_left(c) ? 0 : len;
}

void set_unit_length(struct section *s, uint64_t unit_out, unsigned offset_len)
{
    uint64_t behind = unit_out + (offset_len == 8 ? 12 : 4), len = s->out.len - behind;
    memcpy(s->out.data + behind - offset_len, &len, offset_len);
}

bool move_units(struct moving *m, struct section *s, unit_mover move)
{
    struct cursor all = section_cursor(s, 0, s->s->bytes.len);
    begin_anew(s);
    while (cursor_left(&all)) {
        unsigned offset_len;
        uint64_t begin = section_offset(&all), len = read_unit_length(&all, &offset_len);
        if (!len || !move(m, s, begin, section_offset(&all) + len, offset_len))
            return false;
        cursor_skip(&all, len);
    }
    note_shift(s, s->s->bytes.len);
    return !all.is_bad;
}

/* ---- at the end ---- */

static void move_into_shifted(struct moving *m, struct dwarf_reloc *r)
{
    struct dwarf_symbol to = m->moves->symbol(m->moves->ctx, r->symbol);
    const struct section *there = to.section ? section_at(m, to.section) : NULL;
    if (!there || !there->is_anew)
        return;
    uint64_t now = shifted(there, reloc_place(m, r).offset);
    r->addend = (int64_t)(now - (to.is_section ? 0 : shifted(there, to.value)));
}

void move_relocs_of(struct moving *m, struct section *s)
{
    if (s->is_anew) {
        str_free(&s->s->bytes);
        s->s->bytes = s->out;
        s->out = (struct strbuf){0};
        VEC_FREE(&s->s->relocs);
        s->s->relocs.data = s->relocs_out.data;
        s->s->relocs.len = s->relocs_out.len;
        s->s->relocs.cap = s->relocs_out.cap;
        memset(&s->relocs_out, 0, sizeof s->relocs_out);
    } else {
        for (size_t i = 0; i < s->s->relocs.len; i++)
            s->s->relocs.data[i] = moved_reloc(m, &s->s->relocs.data[i], s->how[i]);
    }
    for (size_t i = 0; i < s->s->relocs.len; i++)
        move_into_shifted(m, &s->s->relocs.data[i]);
}
