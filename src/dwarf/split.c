/* SPDX-License-Identifier: Apache-2.0
 * Split DWARF (-gsplit-dwarf): entries are in a file beside the object, which is not written anew, and says nothing
 * true of code that moved. What the object itself has of a unit is kept, as that of one without entries: the table of
 * lines, ranges, and where the unit is. Its name of that file becomes a mere description, so that no debugger reads it.
 *
 * Of DWARF 5 a skeleton unit becomes a full one, whose header is without the 8 bytes that name its other half; of the
 * extension of GNU to DWARF 4 it is a full one already, and the attribute with them another that nobody knows. */
#include <dwarf.h>

#include "dwarf/impl.h"

enum { DWO_ID_LEN = 8 };
enum { DW_AT_NOBODYS = DW_AT_hi_user - 1 }; /* in two bytes, as what it stands for */

static struct dwarf_section *find(struct dwarf_section *sections, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(sections[i].name, name))
            return &sections[i];
    return NULL;
}

static struct cursor cursor_of(const struct dwarf_section *s)
{
    const uint8_t *p = (const uint8_t *)s->bytes.data;
    return p ? (struct cursor){p, p, p + s->bytes.len, 0, false} : (struct cursor){.is_bad = true};
}

/* A number from `at` to the cursor, another one in as many bytes, which are enough. */
static void set_leb_at(struct dwarf_section *s, uint64_t at, const struct cursor *c, uint64_t now)
{
    uint64_t end = (uint64_t)(c->p - c->start);
    for (; at < end; at++, now >>= 7)
        s->bytes.data[at] = (char)((now & 0x7f) | (at + 1 < end ? 0x80 : 0));
}

/* All abbreviations of the object. Returns whether one names another file; if `turn`, it does not any more. */
static bool names_a_file(struct dwarf_section *s, bool turn)
{
    bool found = false;
    struct cursor c = cursor_of(s);
    while (cursor_left(&c) && !c.is_bad) {
        if (!cursor_uleb(&c))
            continue;
        uint64_t at = section_offset(&c), name, form;
        if (cursor_uleb(&c) == DW_TAG_skeleton_unit && turn)
            set_leb_at(s, at, &c, DW_TAG_compile_unit);
        cursor_skip(&c, 1);
        do {
            at = section_offset(&c);
            name = cursor_uleb(&c);
            bool is_file = name == DW_AT_dwo_name || name == DW_AT_GNU_dwo_name;
            found |= is_file;
            if (turn && (is_file || name == DW_AT_GNU_dwo_id))
                set_leb_at(s, at, &c, is_file ? DW_AT_description : DW_AT_NOBODYS);
            form = cursor_uleb(&c);
            if (form == DW_FORM_implicit_const)
                (void)cursor_sleb(&c);
        } while ((name || form) && !c.is_bad);
    }
    return found;
}

static void remove_bytes(struct dwarf_section *s, uint64_t at, uint64_t len)
{
    memmove(s->bytes.data + at, s->bytes.data + at + len, s->bytes.len - at - len);
    s->bytes.len -= len;
    for (size_t i = 0; i < s->relocs.len; i++)
        s->relocs.data[i].offset -= s->relocs.data[i].offset >= at ? len : 0;
}

/* Of DWARF 5: unit_length, version, unit_type, address_size, debug_abbrev_offset, dwo_id. Places behind this unit
 * change, so there may be none. */
static bool fill_skeleton(struct dwarf_section *s)
{
    unsigned offset_len;
    struct cursor c = cursor_of(s);
    uint64_t len = read_unit_length(&c, &offset_len), behind = section_offset(&c);
    unsigned version = (unsigned)cursor_uint(&c, 2);
    uint64_t type_at = section_offset(&c);
    unsigned type = (unsigned)cursor_uint(&c, 1);
    if (c.is_bad || behind + len != s->bytes.len)
        return false;
    if (version < 5 || type != DW_UT_skeleton)
        return true;
    uint64_t id_at = type_at + 2 + offset_len;
    if (id_at + DWO_ID_LEN > s->bytes.len)
        return false;
    s->bytes.data[type_at] = DW_UT_compile;
    remove_bytes(s, id_at, DWO_ID_LEN);
    len -= DWO_ID_LEN;
    memcpy(s->bytes.data + behind - offset_len, &len, offset_len);
    return true;
}

/* Of entries that are elsewhere, or were. */
static bool is_of_entries(const struct dwarf_section *s)
{
    return strstr(s->name, ".dwo") || !strncmp(s->name, ".debug_gnu_pub", strlen(".debug_gnu_pub"));
}

const char *join_split(struct dwarf_section *sections, size_t count, bool *is_split)
{
    struct dwarf_section *info = find(sections, count, ".debug_info"),
                         *abbreviations = find(sections, count, ".debug_abbrev");
    *is_split = info && abbreviations && names_a_file(abbreviations, false);
    if (!*is_split)
        return NULL;
    if (!fill_skeleton(info))
        return "split DWARF of several units";
    names_a_file(abbreviations, true);
    for (size_t i = 0; i < count; i++)
        if (is_of_entries(&sections[i]))
            sections[i].bytes.len = sections[i].relocs.len = 0;
    return NULL;
}
