/* SPDX-License-Identifier: Apache-2.0
 * .debug_info and .debug_types (DWARF 5, 7.5): walks over all entries. Their size stays; lengths that stand in place of
 * an address are set anew, and lists of ranges and locations are noted with what their offsets count from. */
#include <dwarf.h>

#include "dwarf/impl.h"

struct attribute {
    unsigned name, form;
};
struct abbreviation {
    unsigned tag;
    size_t first, count; /* attributes */
};
struct abbreviations { /* of one unit */
    struct map by_code;
    VEC(struct abbreviation) all;
    VEC(struct attribute) attributes;
};
struct number { /* of an attribute, and where it stands */
    uint64_t at, value;
    unsigned len; /* 0: it is none of a fixed size */
    unsigned leb_len;
};
struct indexed_list { /* DW_FORM_loclistx, DW_FORM_rnglistx: known when the unit's first entry was read */
    const char *section;
    uint64_t index;
    unsigned base_name;
};
struct unit {
    struct section *s, *addresses; /* of .debug_addr; NULL none */
    unsigned version, address_len, offset_len;
    struct abbreviations abbreviations;
    bool is_first_entry;
    struct place base; /* of the unit */
    bool has_bases[2];
    uint64_t addresses_at, lists_at[2]; /* its parts of .debug_addr; of .debug_rnglists and .debug_loclists */
    VEC(struct indexed_list) indexed;
    VEC(struct list) found; /* base to be filled in when it is known */
    VEC(struct section *) found_in;
};
struct entry {
    unsigned tag;
    struct place low;
    struct number high, entry_pc;
};
enum { RANGES, LOCATIONS };

/* ---- abbreviations ---- */

static bool read_attributes(struct cursor *c, struct abbreviations *out, struct abbreviation *a)
{
    a->first = out->attributes.len;
    for (;;) {
        struct attribute attr = {(unsigned)cursor_uleb(c), (unsigned)cursor_uleb(c)};
        if (attr.form == DW_FORM_implicit_const)
            (void)cursor_sleb(c);
        if (c->is_bad)
            return false;
        if (!attr.name && !attr.form)
            break;
        VEC_PUSH(&out->attributes, attr);
    }
    a->count = out->attributes.len - a->first;
    return true;
}

static bool read_abbreviations(struct moving *m, uint64_t at, struct abbreviations *out)
{
    const struct section *s = find_section(m, ".debug_abbrev");
    struct cursor c = s ? section_cursor(s, at, s->s->bytes.len) : (struct cursor){.is_bad = true};
    for (uint64_t code; (code = cursor_uleb(&c)) != 0;) {
        struct abbreviation a = {.tag = (unsigned)cursor_uleb(&c)};
        cursor_skip(&c, 1); /* whether it has children */
        if (!read_attributes(&c, out, &a))
            return false;
        map_put(&out->by_code, code, out->all.len);
        VEC_PUSH(&out->all, a);
    }
    return !c.is_bad;
}

/* ---- forms ---- */

/* Bytes of a form that has a fixed number of them; -1 if it has not. */
static int fixed_len(const struct unit *u, unsigned form)
{
    switch (form) {
    case DW_FORM_flag_present:
    case DW_FORM_implicit_const:
        return 0;
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_flag:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
        return 1;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
        return 2;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
        return 3;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_ref_sup4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
        return 4;
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
        return 8;
    case DW_FORM_data16:
        return 16;
    case DW_FORM_addr:
        return (int)u->address_len;
    case DW_FORM_ref_addr:
        return (int)(u->version < 3 ? u->address_len : u->offset_len);
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_sec_offset:
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
        return (int)u->offset_len;
    default:
        return -1;
    }
}

static bool skip_block(struct cursor *c, unsigned form)
{
    unsigned len = form == DW_FORM_block1 ? 1 : form == DW_FORM_block2 ? 2 : form == DW_FORM_block4 ? 4 : 0;
    cursor_skip(c, len ? cursor_uint(c, len) : cursor_uleb(c));
    return !c->is_bad;
}

static bool skip_text(struct cursor *c)
{
    const void *end = c->is_bad ? NULL : memchr(c->p, 0, cursor_left(c));
    cursor_skip(c, end ? (uint64_t)((const uint8_t *)end - c->p) + 1 : UINT64_MAX);
    return !c->is_bad;
}

/* Reads a value; its number, if it is one, into *out. */
static bool read_form(struct moving *m, const struct unit *u, struct cursor *c, unsigned form, struct number *out)
{
    int len = fixed_len(u, form);
    *out = (struct number){.at = section_offset(c), .len = len > 0 && len <= 8 ? (unsigned)len : 0};
    if (out->len == 3) {
        out->value = cursor_uint(c, 1);
        out->value |= cursor_uint(c, 2) << 8;
    } else if (out->len) {
        out->value = cursor_uint(c, out->len);
    } else if (len >= 0) {
        cursor_skip(c, (uint64_t)len);
    } else {
        switch (form) {
        case DW_FORM_block1:
        case DW_FORM_block2:
        case DW_FORM_block4:
        case DW_FORM_block:
        case DW_FORM_exprloc:
            return skip_block(c, form);
        case DW_FORM_string:
            return skip_text(c);
        case DW_FORM_indirect:
            form = (unsigned)cursor_uleb(c);
            return form != DW_FORM_indirect && form != DW_FORM_implicit_const && read_form(m, u, c, form, out);
        case DW_FORM_sdata:
            out->value = (uint64_t)cursor_sleb(c);
            break;
        case DW_FORM_udata:
        case DW_FORM_ref_udata:
        case DW_FORM_strx:
        case DW_FORM_addrx:
        case DW_FORM_loclistx:
        case DW_FORM_rnglistx:
        case DW_FORM_GNU_addr_index:
        case DW_FORM_GNU_str_index:
            out->value = cursor_uleb(c);
            out->leb_len = (unsigned)(section_offset(c) - out->at);
            break;
        default:
            return refuse(m, "debug information in a form that is not known");
        }
    }
    return !c->is_bad;
}

static bool is_index_of_address(unsigned form)
{
    return form == DW_FORM_addrx || form == DW_FORM_GNU_addr_index ||
           (form >= DW_FORM_addrx1 && form <= DW_FORM_addrx4);
}

/* ---- attributes ---- */

static bool is_of_a_list(unsigned name)
{
    return name != DW_AT_GNU_locviews && name != DW_AT_loclists_base && name != DW_AT_rnglists_base;
}

static void note_list(struct unit *u, struct section *in, uint64_t offset)
{
    VEC_PUSH(&u->found, ((struct list){.offset = offset}));
    VEC_PUSH(&u->found_in, in);
}

static void note_base(struct moving *m, struct unit *u, unsigned name, struct place p)
{
    if (!section_at(m, p.section))
        return;
    if (name == DW_AT_addr_base || name == DW_AT_GNU_addr_base)
        u->addresses_at = p.offset;
    if (name == DW_AT_rnglists_base || name == DW_AT_loclists_base) {
        u->lists_at[name == DW_AT_loclists_base] = p.offset;
        u->has_bases[name == DW_AT_loclists_base] = true;
    }
}

/* A place in another debug section. */
static void take_offset(struct moving *m, struct unit *u, unsigned name, const struct number *n)
{
    const struct dwarf_reloc *r = reloc_at(u->s, n->at);
    struct place p = r ? reloc_place(m, r) : (struct place){0};
    struct section *in = p.section ? section_at(m, p.section) : NULL;
    if (!in)
        return;
    note_base(m, u, name, p);
    const char *of = in->s->name;
    bool has_lists = !strcmp(of, ".debug_ranges") || !strcmp(of, ".debug_loc") || !strcmp(of, ".debug_rnglists") ||
                     !strcmp(of, ".debug_loclists");
    if (has_lists && is_of_a_list(name))
        note_list(u, in, p.offset);
}

/* Not in .debug_addr, where the address that a call returns to may be that of the block behind it too. */
static void mark_end(struct unit *u, uint64_t at)
{
    size_t i = reloc_index(u->s, at);
    if (i < u->s->s->relocs.len && u->s->s->relocs.data[i].offset == at)
        u->s->how[i] = RANGE_END;
}

static void take_address(struct moving *m, struct unit *u, struct entry *e, struct attribute a, const struct number *n)
{
    const struct dwarf_reloc *r = reloc_at(u->s, n->at);
    bool is_return = a.name == DW_AT_call_return_pc || (a.name == DW_AT_low_pc && e->tag == DW_TAG_GNU_call_site);
    if (a.name == DW_AT_low_pc && !is_return && r)
        e->low = reloc_place(m, r);
    if (a.name == DW_AT_high_pc || is_return)
        mark_end(u, n->at);
}

static bool take(struct moving *m, struct unit *u, struct entry *e, struct attribute a, const struct number *n)
{
    if (a.name == DW_AT_dwo_name || a.name == DW_AT_GNU_dwo_name)
        return refuse(m, "split DWARF");
    if (a.form == DW_FORM_addr)
        take_address(m, u, e, a, n);
    else if (a.name == DW_AT_low_pc && is_index_of_address(a.form))
        e->low = read_indexed(m, u->addresses, u->addresses_at, n->value);
    else if (a.name == DW_AT_high_pc && is_index_of_address(a.form))
        return refuse(m, "an end of a range in .debug_addr");
    else if (a.name == DW_AT_high_pc)
        e->high = *n;
    else if (a.name == DW_AT_entry_pc && !is_index_of_address(a.form))
        e->entry_pc = *n;
    else if (a.form == DW_FORM_rnglistx)
        VEC_PUSH(&u->indexed, ((struct indexed_list){".debug_rnglists", n->value, RANGES}));
    else if (a.form == DW_FORM_loclistx)
        VEC_PUSH(&u->indexed, ((struct indexed_list){".debug_loclists", n->value, LOCATIONS}));
    else if (a.form == DW_FORM_sec_offset || a.form == DW_FORM_data4 || a.form == DW_FORM_data8)
        take_offset(m, u, a.name, n);
    return true;
}

/* ---- entries ---- */

/* In as many bytes as there are: those that are not needed only pad. */
static bool set_leb(struct unit *u, const struct number *n, uint64_t now)
{
    if (!n->leb_len || (n->leb_len < 10 && now >> (7 * n->leb_len)))
        return false;
    for (unsigned i = 0; i < n->leb_len; i++, now >>= 7)
        set_uint(u->s, n->at + i, (now & 0x7f) | (i + 1 < n->leb_len ? 0x80 : 0), 1);
    return true;
}

static bool set_number(struct moving *m, struct unit *u, const struct number *n, uint64_t now)
{
    if (now == n->value || set_leb(u, n, now))
        return true;
    if (!n->len || (n->len < 8 && now >> (8 * n->len)))
        return refuse(m, "a length in .debug_info that grows beyond its form");
    set_uint(u->s, n->at, now, n->len);
    return true;
}

static bool finish_entry(struct moving *m, struct unit *u, const struct entry *e)
{
    if (u->is_first_entry)
        u->base = e->low;
    u->is_first_entry = false;
    if (!e->low.section)
        return true;
    struct place to = {e->low.section, e->low.offset + e->entry_pc.value};
    return (!e->high.at || set_number(m, u, &e->high, move_length(m, e->low, e->high.value))) &&
           (!e->entry_pc.at || set_number(m, u, &e->entry_pc, move_at(m, to) - move_at(m, e->low)));
}

/* The base of .debug_addr may stand behind what is read with it. */
static bool read_bases(struct moving *m, struct unit *u, struct cursor c, const struct abbreviation *a)
{
    for (size_t i = a->first; i < a->first + a->count; i++) {
        struct attribute attr = u->abbreviations.attributes.data[i];
        struct number n;
        if (!read_form(m, u, &c, attr.form, &n))
            return false;
        const struct dwarf_reloc *r = reloc_at(u->s, n.at);
        if (r && n.len)
            note_base(m, u, attr.name, reloc_place(m, r));
    }
    return true;
}

static bool read_entry(struct moving *m, struct unit *u, struct cursor *c)
{
    uint64_t code = cursor_uleb(c), place;
    if (!code || c->is_bad)
        return !c->is_bad;
    if (!map_get(&u->abbreviations.by_code, code, &place))
        return refuse(m, "an entry of .debug_info without its abbreviation");
    const struct abbreviation *a = &u->abbreviations.all.data[place];
    struct entry e = {.tag = a->tag};
    if (u->is_first_entry && !read_bases(m, u, *c, a))
        return false;
    for (size_t i = a->first; i < a->first + a->count; i++) {
        struct attribute attr = u->abbreviations.attributes.data[i];
        struct number n;
        if (!read_form(m, u, c, attr.form, &n) || !take(m, u, &e, attr, &n))
            return false;
    }
    return finish_entry(m, u, &e);
}

/* ---- units ---- */

static bool resolve_indexed(struct moving *m, struct unit *u)
{
    for (size_t i = 0; i < u->indexed.len; i++) {
        const struct indexed_list *l = &u->indexed.data[i];
        struct section *in = find_section(m, l->section);
        uint64_t table = u->lists_at[l->base_name], at = table + l->index * u->offset_len;
        if (!in || !u->has_bases[l->base_name] || l->index > in->s->bytes.len)
            return refuse(m, "a list by an index without a table");
        struct cursor c = section_cursor(in, at, in->s->bytes.len);
        note_list(u, in, table + cursor_uint(&c, u->offset_len));
        if (c.is_bad)
            return false;
    }
    return true;
}

static void hand_over_lists(struct unit *u)
{
    for (size_t i = 0; i < u->found.len; i++) {
        struct list l = u->found.data[i];
        l.base = u->base;
        l.of_addresses = u->addresses;
        l.addresses_at = u->addresses_at;
        VEC_PUSH(&u->found_in.data[i]->lists, l);
    }
}

static bool read_header(struct moving *m, struct unit *u, struct cursor *c, uint64_t *abbreviations)
{
    u->version = (unsigned)cursor_uint(c, 2);
    if (c->is_bad || u->version < 2 || u->version > 5)
        return refuse(m, "a version of DWARF that is not known");
    unsigned type = u->version >= 5 ? (unsigned)cursor_uint(c, 1) : DW_UT_compile;
    if (u->version >= 5)
        u->address_len = (unsigned)cursor_uint(c, 1);
    *abbreviations = read_place(m, u->s, c, u->offset_len).offset;
    if (u->version < 5)
        u->address_len = (unsigned)cursor_uint(c, 1);
    if (type == DW_UT_skeleton || type == DW_UT_split_compile || type == DW_UT_split_type)
        return refuse(m, "split DWARF");
    if (type == DW_UT_type || !strcmp(u->s->s->name, ".debug_types"))
        cursor_skip(c, 8 + u->offset_len);
    return u->address_len == 8 || refuse(m, "addresses of other than 8 bytes in .debug_info");
}

static bool read_unit(struct moving *m, struct unit *u, struct cursor *c)
{
    uint64_t abbreviations;
    if (!read_header(m, u, c, &abbreviations) || !read_abbreviations(m, abbreviations, &u->abbreviations))
        return false;
    while (cursor_left(c) && !c->is_bad)
        if (!read_entry(m, u, c))
            return false;
    if (c->is_bad || !resolve_indexed(m, u))
        return false;
    hand_over_lists(u);
    return true;
}

bool move_info(struct moving *m, struct section *s)
{
    bool is_good = true;
    struct section *addresses = find_section(m, ".debug_addr");
    struct cursor all = section_cursor(s, 0, s->s->bytes.len);
    while (is_good && !all.is_bad && cursor_left(&all)) {
        struct unit u = {.s = s, .addresses = addresses, .is_first_entry = true};
        uint64_t len = read_unit_length(&all, &u.offset_len), at = section_offset(&all);
        struct cursor c = section_cursor(s, at, at + len);
        is_good = len && read_unit(m, &u, &c);
        map_fini(&u.abbreviations.by_code);
        VEC_FREE(&u.abbreviations.all);
        VEC_FREE(&u.abbreviations.attributes);
        VEC_FREE(&u.indexed);
        VEC_FREE(&u.found);
        VEC_FREE(&u.found_in);
        cursor_skip(&all, len);
    }
    return is_good;
}
