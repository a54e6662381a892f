/* SPDX-License-Identifier: Apache-2.0
 *
 * frame_variables: what has a home on the stack, by its place in the frame: variables and parameters of functions,
 * those of functions that were inlined too, each in the stretches of code where its debug information says that it is
 * there. All units are gone through once. Only places that are a distance from the frame's base (DW_OP_fbreg) are
 * known.
 */
#include "debug/debug.h"

#include <dwarf.h>
#include <stdlib.h>

struct home {
    const char *name;
    int64_t offset;
    uint64_t bytes;
    uint64_t lo, hi; /* where it is there */
    enum frame_base base;
};
struct frame_function {
    uint64_t lo, hi;
    size_t first, count; /* homes */
};
struct frame_variables {
    VEC(struct frame_function) functions; /* by lo */
    VEC(struct home) homes;
};

enum { DEPTH_MAX = 100, RBP = 6, RSP = 7 };

/* ---- one variable ---- */

/* DWARF 5 section 3.3.5: what the frame's base is. False: a place that is none of ours. */
static bool base_of(Dwarf_Die *function, enum frame_base *out)
{
    Dwarf_Attribute attr;
    Dwarf_Op *ops;
    size_t n;
    if (!dwarf_attr(function, DW_AT_frame_base, &attr) || dwarf_getlocation(&attr, &ops, &n) != 0 || n != 1)
        return false;
    *out = ops[0].atom == DW_OP_reg0 + RBP   ? FRAME_BASE_RBP
           : ops[0].atom == DW_OP_reg0 + RSP ? FRAME_BASE_RSP
                                             : FRAME_BASE_CFA;
    return *out != FRAME_BASE_CFA || ops[0].atom == DW_OP_call_frame_cfa;
}

static uint64_t bytes_of(Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    Dwarf_Die type;
    Dwarf_Word bytes;
    return dwarf_attr_integrate(die, DW_AT_type, &attr) && dwarf_formref_die(&attr, &type) &&
                   dwarf_aggregate_size(&type, &bytes) == 0
               ? bytes
               : 0;
}

static void add_homes(struct frame_variables *v, Dwarf_Die *die, const struct home *scope)
{
    Dwarf_Attribute attr;
    Dwarf_Op *ops;
    Dwarf_Addr base, lo, hi;
    size_t n;
    ptrdiff_t at = 0;
    if (!dwarf_attr(die, DW_AT_location, &attr))
        return;
    const char *name = dwarf_diename(die);
    while ((at = dwarf_getlocations(&attr, at, &base, &lo, &hi, &ops, &n)) > 0) {
        if (n != 1 || ops[0].atom != DW_OP_fbreg || !name)
            continue;
        struct home h = *scope;
        h.name = name;
        h.offset = (int64_t)ops[0].number;
        h.bytes = bytes_of(die);
        h.lo = max_u64(h.lo, lo);
        h.hi = min_u64(h.hi, hi);
        if (h.lo < h.hi)
            VEC_PUSH(&v->homes, h);
    }
}

/* ---- one function ---- */

/* Variables of a scope, in the one stretch from the first of its code to the last. */
static void list_scope(struct frame_variables *v, Dwarf_Die *parent, struct home scope, unsigned depth)
{
    Dwarf_Die die;
    if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter) {
            add_homes(v, &die, &scope);
        } else if (tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) {
            struct home inner = scope;
            Dwarf_Addr base, lo, hi;
            ptrdiff_t at = 0;
            inner.lo = UINT64_MAX, inner.hi = 0;
            while ((at = dwarf_ranges(&die, at, &base, &lo, &hi)) > 0) {
                inner.lo = min_u64(inner.lo, lo);
                inner.hi = max_u64(inner.hi, hi);
            }
            if (inner.lo < inner.hi)
                list_scope(v, &die, inner, depth + 1);
        }
    } while (dwarf_siblingof(&die, &die) == 0);
}

static void add_function(struct frame_variables *v, Dwarf_Die *die)
{
    struct home scope = {0};
    Dwarf_Addr base, lo, hi;
    ptrdiff_t at = 0;
    if (!base_of(die, &scope.base))
        return;
    while ((at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0) { /* its cold part is a range of its own */
        size_t first = v->homes.len;
        scope.lo = lo, scope.hi = hi;
        list_scope(v, die, scope, 0);
        if (lo < hi && v->homes.len > first)
            VEC_PUSH(&v->functions, ((struct frame_function){lo, hi, first, v->homes.len - first}));
    }
}

static void list(struct frame_variables *v, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die die;
    if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram)
            add_function(v, &die);
        if (tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
            tag == DW_TAG_class_type || tag == DW_TAG_subprogram)
            list(v, &die, depth + 1);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static int compare(const void *a, const void *b)
{
    const struct frame_function *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* ---- all ---- */

struct frame_variables *frame_variables_new(struct lines *l)
{
    struct frame_variables *v = xmalloc(sizeof *v);
    Dwarf_Die unit;
    for (uint32_t i = 0; lines_unit(l, i, &unit); i++)
        list(v, &unit, 0);
    if (v->functions.len)
        qsort(v->functions.data, v->functions.len, sizeof *v->functions.data, compare);
    return v;
}

void frame_variables_free(struct frame_variables *v)
{
    if (!v)
        return;
    VEC_FREE(&v->functions);
    VEC_FREE(&v->homes);
    free(v);
}

const char *frame_variable_at(const struct frame_variables *v, uint64_t addr, const int64_t offset[FRAME_BASE_COUNT],
                              unsigned known, uint64_t *begin)
{
    size_t n = PARTITION_POINT(i, 0, v->functions.len, v->functions.data[i].lo <= addr);
    const struct frame_function *f = n ? &v->functions.data[n - 1] : NULL;
    const struct home *best = NULL;
    for (size_t i = 0; f && addr < f->hi && i < f->count; i++) {
        const struct home *h = &v->homes.data[f->first + i];
        bool holds = known >> h->base & 1 && addr >= h->lo && addr < h->hi && offset[h->base] >= h->offset &&
                     (uint64_t)(offset[h->base] - h->offset) < max_u64(h->bytes, 1);
        if (holds && (!best || h->hi - h->lo < best->hi - best->lo)) /* the innermost scope */
            best = h;
    }
    *begin = best ? (uint64_t)(offset[best->base] - best->offset) : 0;
    return best ? best->name : NULL;
}
