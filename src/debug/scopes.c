/* SPDX-License-Identifier: Apache-2.0
 *
 * scopes: which functions were inlined where, for one function of a module: a tree of scopes and the stretches of code
 * that are innermost in each. A unit's functions are listed when first asked for, a function's scopes likewise.
 */
#include "debug/debug.h"

#include <dwarf.h>
#include <stdlib.h>

struct function {
    uint64_t lo, hi;
    Dwarf_Die die;
    struct scopes *scopes; /* NULL: not built */
};
struct unit_functions {
    VEC(struct function) v; /* sorted by lo */
    Dwarf_Files *files;
    size_t file_count;
    uint32_t unit;
};
struct scope_cache {
    struct lines *lines;
    struct map units; /* unit -> struct unit_functions * */
    struct arena *arena;
    VEC(struct unit_functions *) all;
};

struct scope_cache *scope_cache_new(struct lines *l)
{
    struct scope_cache *c = xmalloc(sizeof *c);
    c->lines = l;
    c->arena = arena_new();
    return c;
}

void scope_cache_free(struct scope_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->all.len; i++)
        VEC_FREE(&c->all.data[i]->v);
    VEC_FREE(&c->all);
    map_fini(&c->units);
    arena_free(c->arena);
    free(c);
}

static int compare_functions(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static bool holds_functions(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
           tag == DW_TAG_class_type || tag == DW_TAG_subprogram; /* Fortran and nested functions stand inside */
}

static void list_functions(struct unit_functions *out, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die die;
    if (depth > 16 || dwarf_child(parent, &die) != 0)
        return;
    do {
        int tag = dwarf_tag(&die);
        Dwarf_Addr base, lo, hi;
        if (tag == DW_TAG_subprogram)
            for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &lo, &hi)) > 0;)
                if (hi > lo && lo != 0)
                    VEC_PUSH(&out->v, ((struct function){.lo = lo, .hi = hi, .die = die}));
        if (holds_functions(tag))
            list_functions(out, &die, depth + 1);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static struct unit_functions *functions_of(struct scope_cache *c, uint64_t addr)
{
    uint32_t unit;
    uint64_t found;
    Dwarf_Die line_die, code_die;
    if (!lines_unit_at(c->lines, addr, &unit, &line_die, &code_die))
        return NULL;
    if (map_get(&c->units, unit, &found))
        return (struct unit_functions *)(uintptr_t)found;
    struct unit_functions *u = ARENA_NEW(c->arena, struct unit_functions);
    u->unit = unit;
    list_functions(u, &code_die, 0);
    if (u->v.len)
        qsort(u->v.data, u->v.len, sizeof *u->v.data, compare_functions);
    if (dwarf_getsrcfiles(&line_die, &u->files, &u->file_count) != 0)
        u->file_count = 0;
    map_put(&c->units, unit, (uintptr_t)u);
    VEC_PUSH(&c->all, u);
    return u;
}

struct piece { /* code of one scope, in the order of the tree: later ones are inside earlier ones */
    uint64_t lo, hi;
    uint32_t scope;
};
struct making {
    struct scope_cache *cache;
    struct unit_functions *unit;
    VEC(struct scope) scopes;
    VEC(struct piece) pieces;
};

static const char *name_of(Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
    if (!name)
        name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr));
    return name ? name : dwarf_diename(die);
}

static uint64_t number_of(Dwarf_Die *die, unsigned at)
{
    Dwarf_Attribute attr;
    Dwarf_Word value = 0;
    return dwarf_formudata(dwarf_attr_integrate(die, at, &attr), &value) == 0 ? value : 0;
}

static uint32_t add_scope(struct making *m, Dwarf_Die *die, uint32_t parent)
{
    uint32_t id = (uint32_t)m->scopes.len;
    bool inlined = parent != ID_NONE;
    uint64_t file = number_of(die, inlined ? DW_AT_call_file : DW_AT_decl_file);
    uint64_t line = number_of(die, inlined ? DW_AT_call_line : DW_AT_decl_line);
    const char *path = file && file < m->unit->file_count ? dwarf_filesrc(m->unit->files, file, NULL, NULL) : NULL;
    VEC_PUSH(&m->scopes, ((struct scope){parent, name_of(die), lines_file_id(m->cache->lines, m->unit->unit, path),
                                         (uint32_t)line}));
    Dwarf_Addr base, lo, hi;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0;)
        if (hi > lo)
            VEC_PUSH(&m->pieces, ((struct piece){lo, hi, id}));
    return id;
}

static void add_inlined(struct making *m, Dwarf_Die *parent, uint32_t scope, unsigned depth)
{
    Dwarf_Die die;
    if (depth > 200 || dwarf_child(parent, &die) != 0)
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_inlined_subroutine)
            add_inlined(m, &die, add_scope(m, &die, scope), depth + 1);
        else if (tag == DW_TAG_lexical_block)
            add_inlined(m, &die, scope, depth + 1);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static int compare_spans(const void *a, const void *b)
{
    const struct scope_span *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static size_t span_index(const struct scopes *s, uint64_t addr) /* spans at or below addr */
{
    return PARTITION_POINT(i, 0, s->span_count, s->spans[i].lo <= addr);
}

/* Every piece's ends cut the code into spans; pieces are painted in tree order, so the innermost stays on top. */
static void paint(struct making *m, struct scopes *s)
{
    s->spans = ARENA_ARRAY(m->cache->arena, struct scope_span, 2 * m->pieces.len + 1);
    for (size_t i = 0; i < m->pieces.len; i++) {
        s->spans[s->span_count++] = (struct scope_span){m->pieces.data[i].lo, ID_NONE};
        s->spans[s->span_count++] = (struct scope_span){m->pieces.data[i].hi, ID_NONE};
    }
    if (s->span_count == 0)
        return;
    qsort(s->spans, s->span_count, sizeof *s->spans, compare_spans);
    size_t kept = 1;
    for (size_t i = 1; i < s->span_count; i++)
        if (s->spans[i].lo != s->spans[kept - 1].lo)
            s->spans[kept++] = s->spans[i];
    s->span_count = kept;
    for (size_t i = 0; i < m->pieces.len; i++)
        for (size_t at = span_index(s, m->pieces.data[i].lo) - 1; s->spans[at].lo < m->pieces.data[i].hi; at++)
            s->spans[at].scope = m->pieces.data[i].scope;
}

static struct scopes *build(struct scope_cache *c, struct unit_functions *u, Dwarf_Die *die)
{
    struct making m = {.cache = c, .unit = u};
    struct scopes *s = ARENA_NEW(c->arena, struct scopes);
    add_inlined(&m, die, add_scope(&m, die, ID_NONE), 0);
    paint(&m, s);
    s->count = m.scopes.len;
    s->scopes = ARENA_ARRAY(c->arena, struct scope, s->count);
    memcpy(s->scopes, m.scopes.data, s->count * sizeof *s->scopes);
    VEC_FREE(&m.scopes);
    VEC_FREE(&m.pieces);
    return s;
}

const struct scopes *scopes_of(struct scope_cache *c, uint64_t addr)
{
    struct unit_functions *u = functions_of(c, addr);
    if (!u)
        return NULL;
    size_t lo = PARTITION_POINT(i, 0, u->v.len, u->v.data[i].lo <= addr);
    if (lo == 0 || addr >= u->v.data[lo - 1].hi)
        return NULL;
    struct function *f = &u->v.data[lo - 1];
    if (!f->scopes)
        f->scopes = build(c, u, &f->die);
    return f->scopes;
}

uint32_t scope_at(const struct scopes *s, uint64_t addr)
{
    size_t i = span_index(s, addr);
    return i ? s->spans[i - 1].scope : ID_NONE;
}
