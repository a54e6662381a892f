/* SPDX-License-Identifier: Apache-2.0
 *
 * variables: the address of a variable to its type, as its parts lie in memory. All units are gone through once, when
 * the first is asked for. Variables in registers or on the stack have no address and are not known here.
 */
#include "debug/debug.h"

#include <dwarf.h>
#include <stdlib.h>

struct variable {
    uint64_t addr;
    bool is_thread_local;
    Dwarf_Die type;
};
struct variables {
    struct arena *arena;
    VEC(struct variable) all; /* by address, thread-local ones behind */
};

enum { DEPTH_MAX = 100 };

/* ---- finding them ---- */

/* DWARF 5 section 2.6: an address alone, or an offset and the operation that adds it to the thread's. */
static bool place_of(Dwarf_Die *die, struct variable *out)
{
    Dwarf_Attribute attr, number;
    Dwarf_Op *ops;
    size_t n;
    if (!dwarf_attr(die, DW_AT_location, &attr) || dwarf_getlocation(&attr, &ops, &n) != 0 || !n)
        return false;
    out->addr = ops[0].number;
    out->is_thread_local =
        n == 2 && (ops[1].atom == DW_OP_form_tls_address || ops[1].atom == DW_OP_GNU_push_tls_address);
    switch (ops[0].atom) {
    case DW_OP_addr:
        return n == 1;
    case DW_OP_addrx:
        return n == 1 && dwarf_getlocation_attr(&attr, ops, &number) == 0 && dwarf_formaddr(&number, &out->addr) == 0;
    case DW_OP_const8u:
    case DW_OP_const4u:
        return out->is_thread_local;
    default:
        return false;
    }
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *type)
{
    Dwarf_Attribute attr;
    return dwarf_attr_integrate(die, DW_AT_type, &attr) && dwarf_formref_die(&attr, type);
}

static void list(struct variables *v, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die die;
    if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return;
    do {
        struct variable x;
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_variable && place_of(&die, &x) && type_of(&die, &x.type))
            VEC_PUSH(&v->all, x);
        else if (tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_subprogram ||
                 tag == DW_TAG_lexical_block)
            list(v, &die, depth + 1);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static int compare(const void *a, const void *b)
{
    const struct variable *x = a, *y = b;
    if (x->is_thread_local != y->is_thread_local)
        return x->is_thread_local - y->is_thread_local;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

struct variables *variables_new(struct lines *l)
{
    struct variables *v = xmalloc(sizeof *v);
    Dwarf_Die unit;
    v->arena = arena_new();
    for (uint32_t i = 0; lines_unit(l, i, &unit); i++)
        list(v, &unit, 0);
    if (v->all.len)
        qsort(v->all.data, v->all.len, sizeof *v->all.data, compare);
    return v;
}

void variables_free(struct variables *v)
{
    if (!v)
        return;
    VEC_FREE(&v->all);
    arena_free(v->arena);
    free(v);
}

/* ---- types ---- */

static uint64_t bytes_of(Dwarf_Die *type)
{
    Dwarf_Word bytes;
    return dwarf_aggregate_size(type, &bytes) == 0 ? bytes : 0;
}

/* What a type is called where there is only the name of what it is made of; without arrays. */
static void put_name(struct strbuf *s, Dwarf_Die *type, unsigned depth)
{
    static const struct {
        int tag;
        const char *before, *behind;
    } words[] = {{DW_TAG_structure_type, "struct ", ""},  {DW_TAG_union_type, "union ", ""},
                 {DW_TAG_enumeration_type, "enum ", ""},  {DW_TAG_const_type, "const ", ""},
                 {DW_TAG_volatile_type, "volatile ", ""}, {DW_TAG_pointer_type, "", " *"},
                 {DW_TAG_reference_type, "", " &"},       {DW_TAG_atomic_type, "_Atomic ", ""}};
    Dwarf_Die of;
    const char *before = "", *behind = "", *name = dwarf_diename(type);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words[i].tag == dwarf_tag(type)) {
            before = words[i].before;
            behind = words[i].behind;
        }
    str_puts(s, before);
    if (name)
        str_puts(s, name);
    else if (dwarf_tag(type) == DW_TAG_subroutine_type)
        str_puts(s, "function");
    else if (depth < DEPTH_MAX && type_of(type, &of))
        put_name(s, &of, depth + 1);
    else
        str_puts(s, dwarf_hasattr(type, DW_AT_type) || !*before || *behind ? "void" : "{}");
    str_puts(s, behind);
}

static void put_bounds(struct strbuf *s, Dwarf_Die *array)
{
    Dwarf_Die die;
    if (dwarf_child(array, &die) != 0)
        return;
    do {
        Dwarf_Attribute attr;
        Dwarf_Word n = 0;
        if (dwarf_tag(&die) != DW_TAG_subrange_type)
            continue;
        if (dwarf_attr_integrate(&die, DW_AT_count, &attr) && dwarf_formudata(&attr, &n) == 0)
            ;
        else if (dwarf_attr_integrate(&die, DW_AT_upper_bound, &attr) && dwarf_formudata(&attr, &n) == 0)
            n++;
        str_printf(s, "[%llu]", (unsigned long long)n);
    } while (dwarf_siblingof(&die, &die) == 0);
}

/* Through names and qualifiers. */
static bool peel(Dwarf_Die *type)
{
    Dwarf_Die peeled;
    if (dwarf_peel_type(type, &peeled) != 0)
        return false;
    *type = peeled;
    return true;
}

/* ---- parts ---- */

enum { PARTS_MAX = 1000 };

struct making {
    struct arena *arena;
    VEC(struct layout_part) parts;
};

static bool offset_of(Dwarf_Die *member, uint64_t *out)
{
    Dwarf_Attribute attr;
    Dwarf_Word n;
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_attr(member, DW_AT_data_bit_offset, &attr))
        return dwarf_formudata(&attr, &n) == 0 && (*out = n / 8, true);
    *out = 0;
    if (!dwarf_attr(member, DW_AT_data_member_location, &attr))
        return !dwarf_hasattr(member, DW_AT_external) && !dwarf_hasattr(member, DW_AT_declaration);
    if (dwarf_formudata(&attr, &n) == 0)
        return *out = n, true;
    if (dwarf_getlocation(&attr, &ops, &count) != 0 || count != 1 || ops[0].atom != DW_OP_plus_uconst)
        return false; /* of a virtual base */
    return *out = ops[0].number, true;
}

/* Of a bit field the bytes that it has bits in. */
static uint64_t bytes_of_member(Dwarf_Die *member, Dwarf_Die *type)
{
    Dwarf_Attribute attr;
    Dwarf_Word first = 0, bits;
    if (!dwarf_attr(member, DW_AT_bit_size, &attr) || dwarf_formudata(&attr, &bits) != 0)
        return bytes_of(type);
    if (dwarf_attr(member, DW_AT_data_bit_offset, &attr) && dwarf_formudata(&attr, &first) != 0)
        first = 0;
    return (first % 8 + bits + 7) / 8;
}

static void add_part(struct making *m, const char *name, uint64_t offset, uint64_t bytes)
{
    if (bytes && m->parts.len < PARTS_MAX)
        VEC_PUSH(&m->parts, ((struct layout_part){name, offset, bytes}));
}

static void add_members(struct making *m, Dwarf_Die *type, const char *prefix, uint64_t offset, unsigned depth);

static void add_member(struct making *m, Dwarf_Die *member, const char *prefix, uint64_t offset, unsigned depth)
{
    const char *own = dwarf_diename(member), *name = prefix;
    Dwarf_Die type;
    uint64_t at;
    if (!type_of(member, &type) || !offset_of(member, &at) || !peel(&type))
        return;
    if (own && dwarf_tag(member) == DW_TAG_member)
        name = *prefix ? arena_printf(m->arena, "%s.%s", prefix, own) : arena_strdup(m->arena, own);
    int tag = dwarf_tag(&type);
    if (tag == DW_TAG_structure_type || tag == DW_TAG_class_type)
        add_members(m, &type, name, offset + at, depth + 1);
    else
        add_part(m, *name ? name : "union", offset + at, bytes_of_member(member, &type));
}

/* Whole structures lie in the outermost with a dot in front of their members' names; arrays and unions stay whole. */
static void add_members(struct making *m, Dwarf_Die *type, const char *prefix, uint64_t offset, unsigned depth)
{
    Dwarf_Die die;
    if (depth > DEPTH_MAX || dwarf_child(type, &die) != 0)
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
            add_member(m, &die, prefix, offset, depth);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static int compare_parts(const void *a, const void *b)
{
    const struct layout_part *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void fill_parts(struct variables *v, Dwarf_Die *element, struct layout *out)
{
    struct making m = {.arena = v->arena};
    int tag = dwarf_tag(element);
    if (tag == DW_TAG_structure_type || tag == DW_TAG_class_type)
        add_members(&m, element, "", 0, 0);
    if (m.parts.len)
        qsort(m.parts.data, m.parts.len, sizeof *m.parts.data, compare_parts);
    struct layout_part *parts = ARENA_ARRAY(v->arena, struct layout_part, m.parts.len);
    if (m.parts.len)
        memcpy(parts, m.parts.data, m.parts.len * sizeof *parts);
    out->parts = parts;
    out->part_count = m.parts.len;
    VEC_FREE(&m.parts);
}

bool variables_layout(struct variables *v, uint64_t addr, bool is_thread_local, struct layout *out)
{
    struct variable key = {.addr = addr, .is_thread_local = is_thread_local};
    size_t i = PARTITION_POINT(k, 0, v->all.len, compare(&v->all.data[k], &key) < 0);
    if (i == v->all.len || compare(&v->all.data[i], &key) != 0)
        return false;
    Dwarf_Die type = v->all.data[i].type, element, array = type;
    struct strbuf name = {0};
    *out = (struct layout){.bytes = bytes_of(&type)};
    element = type;
    if (peel(&array) && dwarf_tag(&array) == DW_TAG_array_type && type_of(&array, &element)) {
        put_name(&name, &element, 0);
        put_bounds(&name, &array);
    } else {
        put_name(&name, &type, 0);
    }
    out->name = arena_strdup(v->arena, name.data);
    str_free(&name);
    out->element_bytes = bytes_of(&element);
    if (peel(&element))
        fill_parts(v, &element, out);
    return true;
}
