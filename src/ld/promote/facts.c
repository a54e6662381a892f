/* SPDX-License-Identifier: Apache-2.0
 *
 * From a file that was linked with all its relocations to what promotion is decided by: every reference to a variable
 * or function, the direct calls, the registers that instructions use, and whether they are given back.
 *
 * A variable is reached by instructions that name its address, all of which are found by decoding. Any other way to it
 * begins with its address, which a relocation, or an instruction, makes. The same holds of functions. What an address
 * is made of is compared by its value: an array's end that is the next variable's beginning counts as that variable's
 * too, unless the relocation names the array.
 */
#include "ld/promote/finder.h"

#include <elf.h>
#include <stdlib.h>

/* ---- names ---- */

/* They return to their caller a second time, with registers as they were the first time, or in memory that two
 * processes share. */
static const char *const twice[] = {"setjmp",           "_setjmp",      "__sigsetjmp", "sigsetjmp",     "__setjmp",
                                    "savectx",          "_savectx",     "getcontext",  "swapcontext",   "vfork",
                                    "__vfork",          "clone",        "__clone",     "__getcontext",  "__swapcontext",
                                    "__builtin_setjmp", "__libc_vfork", "makecontext", "__makecontext", "syscall"};
/* Control goes elsewhere with other registers: to whom called setjmp (which no function of T does), to a context, to
 * the frame that catches an exception, whose registers the unwinder finds by the tables; or there was nothing before.
 */
static const char *const tolerated[] = {
    "__longjmp",
    "____longjmp_chk",
    "__longjmp_chk",
    "longjmp",
    "setcontext",
    "__setcontext",
    "swapcontext",
    "__swapcontext",
    "__start_context",
    "__clone",
    "clone",
    "__clone3",
    "__clone_internal",
    "__restore_rt",
    "_Unwind_RaiseException",
    "_Unwind_Resume",
    "_Unwind_ForcedUnwind",
    "_Unwind_Resume_or_Rethrow",
};

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    size_t len = strcspn(name, "@");
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == len && !strncmp(names[i], name, len))
            return true;
    return false;
}

bool promote_returns_twice(const char *function) { return is_one_of(function, twice, ARRAY_LEN(twice)); }

const char *promote_function_name(const struct promote_facts *f, uint32_t function)
{
    uint64_t addr = f->cfg->funcs.data[function].addr;
    const char *name = image_symbol_name(f->img, addr, NULL);
    return name && *name ? name : arena_printf(f->arena, "the code at %#llx", (unsigned long long)addr);
}

/* ---- variables ---- */

struct promote_variable *promote_variable_at(struct promote_facts *f, uint64_t addr)
{
    size_t i = PARTITION_POINT(k, 0, f->variables.len, f->variables.data[k].addr <= addr);
    struct promote_variable *v = i ? &f->variables.data[i - 1] : NULL;
    return v && addr < v->addr + v->bytes ? v : NULL;
}

void promote_refuse(struct promote_variable *v, const char *why)
{
    if (v && !v->why)
        v->why = why;
}

static int by_address(const void *a, const void *b)
{
    const struct promote_variable *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

bool promote_may_hold_variables(const struct image_section *s)
{
    static const char *const none[] = {
        ".got",   ".init_array", ".fini_array", ".preinit_array", ".data.rel.ro", ".tm_clone_table", ".dynamic",
        ".ctors", ".dtors",      ".jcr"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        if (!strncmp(s->name, none[i], strlen(none[i])))
            return false;
    return (s->flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_TLS)) == (SHF_ALLOC | SHF_WRITE);
}

/* Symbols that lie in one another are of no use: which of them an instruction means is not known. */
static void find_variables(struct finder *s)
{
    struct promote_facts *f = s->f;
    uint64_t end = 0;
    for (size_t i = 0; i < s->img->symbol_count; i++) {
        const struct image_symbol *y = &s->img->symbols[i];
        if (y->type != STT_OBJECT || y->is_dynamic || y->shndx >= s->img->section_count || !y->shndx ||
            !promote_may_hold_variables(&s->img->sections[y->shndx]) || !y->size)
            continue;
        VEC_PUSH(&f->variables, ((struct promote_variable){.name = y->name, .addr = y->addr, .bytes = y->size}));
    }
    if (f->variables.len)
        qsort(f->variables.data, f->variables.len, sizeof *f->variables.data, by_address);
    size_t n = 0;
    for (size_t i = 0; i < f->variables.len; i++) {
        struct promote_variable v = f->variables.data[i];
        if (n && v.addr == f->variables.data[n - 1].addr && v.bytes == f->variables.data[n - 1].bytes)
            continue; /* another name of it */
        if (v.addr < end) {
            v.why = "lies in another symbol";
            promote_refuse(&f->variables.data[n - 1], "another symbol lies in it");
        }
        end = max_u64(end, v.addr + v.bytes);
        f->variables.data[n++] = v;
    }
    f->variables.len = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t b = f->variables.data[i].bytes;
        if (b != 1 && b != 2 && b != 4 && b != 8)
            promote_refuse(&f->variables.data[i], "has another size than registers");
    }
    for (size_t i = 0; i < s->img->dynsym_count; i++) {
        const struct image_symbol *y = &s->img->symbols[i];
        if (y->shndx != SHN_UNDEF && y->type != STT_TLS)
            promote_refuse(promote_variable_at(f, y->addr), "shared objects see it");
    }
}

/* ---- who may call functions ---- */

void promote_enter(struct finder *s, uint32_t function, const char *who)
{
    s->f->functions[function].is_entered = true;
    if (!s->f->why_entered[function])
        s->f->why_entered[function] = who;
}

void promote_enter_at(struct finder *s, uint64_t addr, const char *who)
{
    uint32_t f = addr ? cfg_func_at(s->c, addr) : ID_NONE;
    if (f != ID_NONE && s->c->funcs.data[f].addr == addr)
        promote_enter(s, f, who);
}

static void find_entered(struct finder *s)
{
    const struct image *img = s->img;
    for (size_t i = 0; i < img->symbol_count; i++) {
        const struct image_symbol *y = &img->symbols[i];
        if (y->shndx == SHN_UNDEF || (y->type != STT_FUNC && y->type != STT_GNU_IFUNC && y->type != STT_NOTYPE))
            continue;
        if (y->is_dynamic)
            promote_enter_at(s, y->addr, "shared objects may call it");
        if (y->type == STT_GNU_IFUNC)
            promote_enter_at(s, y->addr, "it resolves an indirect function");
        if (!strcmp(y->name, "_init") || !strcmp(y->name, "_fini"))
            promote_enter_at(s, y->addr, "it is called at the program's beginning or end");
        if (promote_returns_twice(y->name))
            map_put(&s->twice_at, y->addr, 1);
        uint32_t f = is_one_of(y->name, tolerated, ARRAY_LEN(tolerated)) ? cfg_func_at(s->c, y->addr) : ID_NONE;
        if (f != ID_NONE)
            map_put(&s->tolerated, f + 1, 1);
        if (!strcmp(y->name, "main") && y->type == STT_FUNC)
            s->main = cfg_func_at(s->c, y->addr);
    }
    for (size_t i = 0; i < s->c->unwind.cie_count; i++)
        promote_enter_at(s, s->c->unwind.cies[i].personality, "the unwinder calls it");
    s->entry = cfg_func_at(s->c, img->entry);
}

/* ---- all ---- */

static void find_root(struct finder *s)
{
    struct promote_facts *f = s->f;
    if (s->entry == ID_NONE) {
        f->why = "its entry point is in no function that is known";
        return;
    }
    if (s->main_refs > 1)
        promote_enter(s, s->main, "its address is taken more than once");
    if (s->main_refs == 1)
        promote_enter(s, s->entry, "the program begins there");
    else
        f->main_at = 0;
}

static int by_caller(const void *a, const void *b)
{
    const struct regs_arc *x = a, *y = b;
    return (x->caller > y->caller) - (x->caller < y->caller);
}

/* Functions that the program may reach: from the root, and whoever has an address that somebody holds. */
static bool *find_reached(struct finder *s)
{
    struct promote_facts *f = s->f;
    bool *is_reached = ARENA_ARRAY(f->arena, bool, s->c->funcs.len + 1);
    VEC(uint32_t) work = {0};
    if (f->arcs.len)
        qsort(f->arcs.data, f->arcs.len, sizeof *f->arcs.data, by_caller);
    for (uint32_t k = 0; k < s->c->funcs.len; k++)
        if (f->functions[k].is_entered || k == s->entry || k == s->main) {
            is_reached[k] = true;
            VEC_PUSH(&work, k);
        }
    while (work.len) {
        uint32_t from = work.data[--work.len];
        size_t i = PARTITION_POINT(k, 0, f->arcs.len, f->arcs.data[k].caller < from);
        for (; i < f->arcs.len && f->arcs.data[i].caller == from; i++) {
            uint32_t to = f->arcs.data[i].callee;
            if (!is_reached[to])
                VEC_PUSH(&work, to);
            is_reached[to] = true;
        }
    }
    VEC_FREE(&work);
    return is_reached;
}

/* What is never reached is changed like the rest, but is no reason for it. */
static void weigh(struct finder *s)
{
    const bool *is_reached = find_reached(s);
    for (size_t i = 0; i < s->f->accesses.len; i++) {
        const struct promote_access *a = &s->f->accesses.data[i];
        struct promote_variable *v = &s->f->variables.data[a->variable];
        double times = is_reached[a->function] ? a->times : 0;
        v->loads += a->loads, v->stores += a->stores;
        v->loads_estimated += a->loads ? times : 0;
        v->stores_estimated += a->stores ? times : 0;
    }
    for (size_t i = 0; i < s->f->variables.len; i++)
        if (s->f->variables.data[i].loads_estimated + s->f->variables.data[i].stores_estimated <= 0)
            promote_refuse(&s->f->variables.data[i], "no code that is reached refers to it");
}

static void find_free(struct finder *s)
{
    struct promote_facts *f = s->f;
    uint16_t used = BIT(X86_RSP);
    bool is_alone = s->img->is_static;
    for (uint32_t k = 0; k < s->c->funcs.len; k++)
        used |= f->functions[k].uses;
    f->free &= is_alone ? (uint16_t)~used : 0;
}

void promote_facts_find(struct image *img, struct cfg *cfg, struct promote_facts *out)
{
    *out = (struct promote_facts){.arena = arena_new(), .img = img, .cfg = cfg, .kept = CALL_KEPT, .free = 0xffff};
    struct finder s = {.f = out, .img = img, .c = cfg, .main = ID_NONE, .entry = ID_NONE};
    out->functions = xmalloc((cfg->funcs.len + 1) * sizeof *out->functions);
    out->why_entered = xmalloc((cfg->funcs.len + 1) * sizeof *out->why_entered);
    promote_read_relocs(&s);
    if (!s.relocs.len)
        out->why = "the linker keeps no relocations";
    find_entered(&s);
    find_variables(&s);
    promote_take_of_data(&s);
    for (uint32_t f = 0; f < cfg->funcs.len; f++)
        promote_take_function(&s, f);
    promote_take_gaps(&s);
    promote_pointers(out); /* when all that may speak against a variable is known */
    find_root(&s);
    find_free(&s);
    weigh(&s);
    VEC_FREE(&s.relocs);
    VEC_FREE(&s.row_starts);
    map_fini(&s.twice_at);
    map_fini(&s.tolerated);
}

void promote_facts_fini(struct promote_facts *f)
{
    VEC_FREE(&f->variables);
    VEC_FREE(&f->accesses);
    VEC_FREE(&f->arcs);
    VEC_FREE(&f->taken);
    free(f->functions);
    free((void *)f->why_entered);
    arena_free(f->arena);
}
