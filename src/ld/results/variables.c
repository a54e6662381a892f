/* SPDX-License-Identifier: Apache-2.0
 *
 * The variable-reference profile (Wall, section 4.5): counts of blocks, and what the instructions of each block name:
 * how often each global, constant, thread-local variable and home on the stack is loaded and stored. An operand names
 * one by its address, by the thread's base, or by its place in the frame, which the unwind tables tell; a register that
 * is known to hold an address (known.c) counts as that address. All other references are through pointers.
 */
#include <elf.h>
#include <stdlib.h>

#include "debug/debug.h"
#include "ld/code.h"
#include "ld/known.h"

enum { FRAME_OF_RBP = 16 };

struct object { /* a symbol of data */
    uint64_t lo, hi;
    uint32_t symbol;
};
struct maker {
    struct image *img;
    struct image_unwind unwind;
    struct lines *lines;
    struct file_names names;
    struct frame_variables *homes; /* NULL: no debug information */
    struct ld_blocks *blocks;
    struct ld_code code;
    struct ld_known_solver known;
    struct ld_variables *out;
    VEC(struct object) objects, locals; /* of data; thread-local ones, by offset */
    uint64_t thread_bytes;              /* of thread-local memory in front of the thread's base; 0: not an executable */
    struct map index;                   /* hash of what tells one -> variable + 1, chained */
    VEC(uint32_t) chain;                /* [variables] the next with that hash, + 1 */
    const struct ld_function *func;     /* at hand */
};

/* ---- rows ---- */

static struct ld_variable *row(struct maker *m, enum ld_variable_kind kind, uint64_t id, int64_t offset)
{
    uint64_t hash = (id * 0x9e3779b97f4a7c15u) ^ ((uint64_t)offset << 8) ^ kind;
    uint64_t *first = map_place(&m->index, hash);
    for (uint64_t i = *first; i; i = m->chain.data[i - 1]) {
        struct ld_variable *v = &m->out->variables.data[i - 1];
        if (v->kind == kind && v->id == id && v->offset == offset)
            return v;
    }
    VEC_PUSH(&m->chain, (uint32_t)*first);
    VEC_PUSH(&m->out->variables, ((struct ld_variable){.kind = kind, .id = id, .offset = offset}));
    *first = m->out->variables.len;
    return &m->out->variables.data[m->out->variables.len - 1];
}

static const char *function_name(const struct maker *m)
{
    const struct ld_function *f = m->func;
    return *f->name ? f->name : arena_printf(m->out->arena, "%#llx", (unsigned long long)f->address);
}

/* Of one function: through pointers, saves and returns, one home. */
static struct ld_variable *row_of_function(struct maker *m, enum ld_variable_kind kind, int64_t offset)
{
    struct ld_variable *v = row(m, kind, m->func->address, offset);
    if (!v->name) {
        v->function = arena_strdup(m->out->arena, function_name(m));
        v->object = arena_strdup(m->out->arena, m->func->object);
        v->name = "";
    }
    return v;
}

/* ---- addresses ---- */

static const struct object *object_at(const struct object *all, size_t count, uint64_t address)
{
    size_t n = PARTITION_POINT(i, 0, count, all[i].lo <= address);
    return n && (address < all[n - 1].hi || address == all[n - 1].lo) ? &all[n - 1] : NULL;
}

static void name_object(const struct maker *m, struct ld_variable *v, const struct object *o)
{
    const struct image_symbol *s = &m->img->symbols[o->symbol];
    v->name = arena_strdup(m->out->arena, s->name);
    v->bytes = s->size;
    v->object = s->bind == STB_LOCAL ? arena_strdup(m->out->arena, m->func->object) : NULL;
}

static const char *linkage_name(const struct maker *m, uint64_t slot)
{
    const struct image_reloc *r = image_reloc_at(m->img, slot);
    const char *name = r && r->sym_name ? r->sym_name : NULL;
    return name ? arena_printf(m->out->arena, "address of %s", name)
                : arena_printf(m->out->arena, ".got+%#llx", (unsigned long long)slot);
}

/* NULL: nothing of the file is there. */
static struct ld_variable *row_at(struct maker *m, uint64_t address)
{
    const struct image_section *s = image_section_of(m->img, address);
    const struct object *o = object_at(m->objects.data, m->objects.len, address);
    if (!s)
        return NULL;
    bool is_linkage = strncmp(s->name, ".got", 4) == 0;
    enum ld_variable_kind kind = is_linkage ? LD_VARIABLE_LINKAGE
                                 : (s->flags & SHF_WRITE) && strcmp(s->name, ".data.rel.ro") != 0
                                     ? LD_VARIABLE_GLOBAL
                                     : LD_VARIABLE_CONSTANT;
    struct ld_variable *v = row(m, kind, o && !is_linkage ? o->lo : address, 0);
    if (v->name)
        return v;
    if (is_linkage)
        v->name = linkage_name(m, address);
    else if (o)
        name_object(m, v, o);
    else
        v->name = arena_printf(m->out->arena, "%s+%#llx", s->name, (unsigned long long)(address - s->addr));
    return v;
}

static struct ld_variable *row_of_thread(struct maker *m, uint64_t above)
{
    uint64_t offset = above + m->thread_bytes;
    const struct object *o =
        m->thread_bytes && offset < m->thread_bytes ? object_at(m->locals.data, m->locals.len, offset) : NULL;
    struct ld_variable *v = row(m, LD_VARIABLE_THREAD, o ? o->lo : above, o != NULL);
    if (!v->name && o)
        name_object(m, v, o);
    else if (!v->name)
        v->name = above == 0x28 ? "(stack guard)"
                  : above       ? arena_printf(m->out->arena, "fs:%lld", (long long)above)
                                : "(the thread's base)";
    return v;
}

/* ---- the frame ---- */

/* Relative to rsp, or to rbp where that is the frame's; false: it is not. */
static bool frame_place(const struct maker *m, const struct x86_access *a, uint64_t at, int64_t place[FRAME_BASE_COUNT],
                        unsigned *known)
{
    uint32_t f = image_unwind_find(&m->unwind, at);
    struct image_cfa cfa = {0};
    if (f != ID_NONE)
        cfa = image_unwind_cfa(m->img, &m->unwind, &m->unwind.fdes[f], at);
    *known = 0;
    if (a->base == X86_RSP) {
        place[FRAME_BASE_RSP] = a->disp;
        *known = 1u << FRAME_BASE_RSP;
    }
    bool is_frame = a->base == X86_RBP ? cfa.reg == IMAGE_CFA_RBP : cfa.reg == IMAGE_CFA_RSP;
    if (is_frame) {
        place[FRAME_BASE_CFA] = a->disp - cfa.offset;
        place[FRAME_BASE_RBP] = place[FRAME_BASE_CFA] + FRAME_OF_RBP;
        *known |= 1u << FRAME_BASE_CFA | (a->base == X86_RBP ? 1u << FRAME_BASE_RBP : 0);
    }
    return is_frame || a->base == X86_RSP;
}

static struct ld_variable *row_of_home(struct maker *m, const struct x86_access *a, uint64_t at)
{
    int64_t place[FRAME_BASE_COUNT] = {0};
    uint64_t begin = 0;
    unsigned known;
    if (!frame_place(m, a, at, place, &known))
        return NULL;
    const char *name = m->homes ? frame_variable_at(m->homes, at, place, known, &begin) : NULL;
    bool has_cfa = known >> FRAME_BASE_CFA & 1;
    int64_t offset = has_cfa ? place[FRAME_BASE_CFA] : place[FRAME_BASE_RSP];
    struct ld_variable *v = row_of_function(m, LD_VARIABLE_STACK, offset - (int64_t)begin);
    if (!*v->name)
        v->name = name      ? arena_strdup(m->out->arena, name)
                  : has_cfa ? arena_printf(m->out->arena, "frame%+lld", (long long)offset)
                            : arena_printf(m->out->arena, "rsp%+lld", (long long)offset);
    return v;
}

/* ---- one instruction ---- */

/* Of a push, a call, a return: not an operand's. */
static bool is_implicit(const struct x86_insn *i, const struct x86_access *a)
{
    bool stores = i->op == X86_OP_PUSH || x86_is_call(i);
    return (i->props & X86_PROP_STACK) && (a->base == X86_RSP || a->base == X86_RBP) && a->index == X86_REG_NONE &&
           (stores ? a->is_store : a->is_load);
}

static struct ld_variable *row_of(struct maker *m, const struct x86_detail *d, const struct x86_access *a,
                                  const struct ld_known regs[LD_REGS])
{
    struct ld_known none = {LD_NOTHING, 0}, base = a->base < LD_REGS ? regs[a->base] : none;
    struct ld_variable *v = NULL;
    if (is_implicit(&d->insn, a))
        return row_of_function(m, LD_VARIABLE_SAVES, 0);
    if (a->segment == X86_SEGMENT_FS)
        return a->base == X86_REG_NONE && a->index == X86_REG_NONE ? row_of_thread(m, (uint64_t)a->disp)
                                                                   : row_of_function(m, LD_VARIABLE_POINTER, 0);
    if (a->base == X86_RSP || a->base == X86_RBP)
        v = row_of_home(m, a, d->insn.addr);
    else if (base.kind == LD_THREAD)
        v = row_of_thread(m, base.value + (uint64_t)a->disp);
    else if (base.kind == LD_ADDRESS)
        v = row_at(m, base.value + (uint64_t)a->disp);
    else /* the number alone; with a register it is a table's address where programs are not position-independent */
        v = row_at(m, (uint64_t)a->disp);
    return v ? v : row_of_function(m, LD_VARIABLE_POINTER, 0);
}

static void take_insn(struct maker *m, uint64_t at, uint64_t count, struct ld_known regs[LD_REGS])
{
    struct x86_detail d;
    if (!ld_code_decode(&m->code, at, &d))
        return;
    bool is_prefetch = strncmp(d.form, "prefetch", 8) == 0;
    for (int k = 0; k < d.access_count && !is_prefetch; k++) {
        struct ld_variable *v = row_of(m, &d, &d.access[k], regs);
        v->loads += d.access[k].is_load ? count : 0;
        v->stores += d.access[k].is_store ? count : 0;
    }
    if (d.access_count < 0) { /* gathers and their like */
        struct ld_variable *v = row_of_function(m, LD_VARIABLE_POINTER, 0);
        v->loads += count * d.insn.loads;
        v->stores += count * d.insn.stores;
    }
    ld_known_follow(&d, regs);
}

static void take_block(struct maker *m, const struct ld_block *b, struct ld_known regs[LD_REGS])
{
    uint64_t at[LD_CODE_INSNS_MAX];
    if (!b->count)
        return;
    if (!ld_code_of(&m->code, b, at)) {
        m->out->unread += b->count * b->insns;
        return;
    }
    for (uint32_t i = 0; i < b->insns; i++)
        take_insn(m, at[i], b->count, regs);
}

/* ---- symbols ---- */

static int by_address(const void *a, const void *b)
{
    const struct object *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return (x->hi > y->hi) - (x->hi < y->hi);
}

static void list_objects(struct maker *m)
{
    for (uint32_t i = 0; i < m->img->symbol_count; i++) {
        const struct image_symbol *s = &m->img->symbols[i];
        struct object o = {s->addr, s->addr + s->size, i};
        if (s->type == STT_OBJECT && s->shndx && *s->name)
            VEC_PUSH(&m->objects, o);
        else if (s->type == STT_TLS && s->shndx && *s->name)
            VEC_PUSH(&m->locals, o);
    }
    if (m->objects.len)
        qsort(m->objects.data, m->objects.len, sizeof *m->objects.data, by_address);
    if (m->locals.len)
        qsort(m->locals.data, m->locals.len, sizeof *m->locals.data, by_address);
    for (size_t i = 0; i < m->img->segment_count && m->img->kind != IMAGE_DSO; i++) {
        const struct image_segment *s = &m->img->segments[i];
        if (s->type == PT_TLS) /* variant II of the ABI's two: the executable's own is nearest to the base */
            m->thread_bytes = ALIGN_UP(s->memsz, max_u64(s->align, 1));
    }
}

/* ---- all ---- */

static int by_references(const void *a, const void *b)
{
    const struct ld_variable *x = a, *y = b;
    uint64_t m = x->loads + x->stores, n = y->loads + y->stores;
    if (m != n)
        return m < n ? 1 : -1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->id != y->id ? (x->id < y->id ? -1 : 1) : (x->offset > y->offset) - (x->offset < y->offset);
}

static int read_all(struct maker *m, const char *path)
{
    if (image_open(path, &m->img) < 0 || image_unwind_read(m->img, &m->unwind) < 0)
        return -1;
    m->code = ld_code_begin(m->img);
    m->names.arena = m->out->arena;
    m->lines = lines_open(path, DEBUG_ROOT, &m->names);
    m->homes = m->lines ? frame_variables_new(m->lines) : NULL;
    list_objects(m);
    for (size_t f = 0; f < m->blocks->functions.len; f++) {
        m->func = &m->blocks->functions.data[f];
        ld_known_solve(&m->known, &m->code, m->blocks, m->func);
        for (size_t b = 0; b < m->func->count; b++)
            take_block(m, &m->blocks->blocks.data[m->func->first + b], m->known.states.data[b].regs);
    }
    return 0;
}

int ld_variables_read(const char *path, const char *const *files, size_t count, struct ld_variables **out)
{
    struct maker m = {.out = xmalloc(sizeof *m.out)};
    m.out->arena = arena_new();
    int rc = ld_blocks_read(path, files, count, &m.blocks);
    if (rc == 0) {
        m.out->files = count;
        m.out->inconsistent = m.blocks->inconsistent;
        rc = read_all(&m, path);
        ld_blocks_free(m.blocks);
    }
    if (m.out->variables.len)
        qsort(m.out->variables.data, m.out->variables.len, sizeof *m.out->variables.data, by_references);
    frame_variables_free(m.homes);
    lines_close(m.lines);
    file_names_fini(&m.names);
    image_close(m.img);
    map_fini(&m.index);
    VEC_FREE(&m.objects);
    VEC_FREE(&m.locals);
    VEC_FREE(&m.chain);
    ld_known_free(&m.known);
    if (rc < 0)
        ld_variables_free(m.out);
    *out = rc < 0 ? NULL : m.out;
    return rc;
}

void ld_variables_free(struct ld_variables *v)
{
    VEC_FREE(&v->variables);
    arena_free(v->arena);
    free(v);
}
