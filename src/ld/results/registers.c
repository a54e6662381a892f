/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a linked file could live in registers, and who calls whom: the numbers that the studies of folder regs are
 * made of, from counts of blocks and the code as it is in the file. A variable is a global, a constant or a home in a
 * frame that is only reached whole, by loads and stores of one width at one place whose address is nowhere made.
 */
#include <elf.h>
#include <stdlib.h>

#include "ld/code.h"
#include "regs/regs.h"

struct variable {
    uint64_t id; /* address; of a home its place from the CFA */
    uint32_t procedure;
    uint16_t bytes; /* of its accesses; 0: of different widths */
    bool is_taken, is_constant;
    struct regs_variable uses;
};
struct maker {
    struct image *img;
    struct image_unwind unwind;
    struct ld_blocks *blocks;
    struct ld_code code;
    struct ld_registers *out;
    struct map function_at; /* address: procedure, plus 1 */
    struct map size_at;     /* address of an object's symbol: its size */
    struct map index;       /* hash of id and procedure: variable, plus 1 */
    VEC(struct variable) all;
    VEC(struct regs_arc) arcs;
    VEC(struct regs_procedure) procedures;
    uint32_t procedure; /* at hand */
};

/* ---- variables ---- */

static struct variable *variable(struct maker *m, uint64_t id, uint32_t procedure)
{
    uint64_t *at = map_place(&m->index, (id * 0x9e3779b97f4a7c15u) ^ procedure);
    if (!*at) {
        VEC_PUSH(&m->all, ((struct variable){.id = id, .procedure = procedure, .uses.procedure = procedure}));
        *at = m->all.len;
    }
    return &m->all.data[*at - 1];
}

static void use(struct variable *v, const struct x86_access *a, const double times[REGS_BY_COUNT])
{
    v->is_taken |= a->is_store && v->is_constant;
    if (v->bytes && v->bytes != a->bytes)
        v->is_taken = true;
    v->bytes = a->bytes;
    v->is_taken |= a->bytes > 8;
    for (int by = 0; by < REGS_BY_COUNT; by++) {
        v->uses.loads[by] += a->is_load ? times[by] : 0;
        v->uses.stores[by] += a->is_store ? times[by] : 0;
    }
}

/* Global, or constant; NULL: nothing of the file's own data, or what the linker made. */
static struct variable *data_at(struct maker *m, uint64_t address)
{
    const struct image_section *s = image_section_of(m->img, address);
    if (!s || strncmp(s->name, ".got", 4) == 0 || (s->flags & (SHF_EXECINSTR | SHF_TLS)))
        return NULL;
    struct variable *v = variable(m, address, ID_NONE);
    v->is_constant = !(s->flags & SHF_WRITE) || strcmp(s->name, ".data.rel.ro") == 0;
    return v;
}

/* The place from the CFA that an address in the frame has; false: it is in none that is known. */
static bool place_in_frame(const struct maker *m, uint8_t base, int64_t disp, uint64_t at, int64_t *place)
{
    uint32_t f = base == X86_RSP || base == X86_RBP ? image_unwind_find(&m->unwind, at) : ID_NONE;
    if (f == ID_NONE)
        return false;
    struct image_cfa cfa = image_unwind_cfa(m->img, &m->unwind, &m->unwind.fdes[f], at);
    if (cfa.reg != (base == X86_RBP ? IMAGE_CFA_RBP : IMAGE_CFA_RSP))
        return false;
    *place = disp - cfa.offset;
    return true;
}

static void take_access(struct maker *m, const struct x86_detail *d, const struct x86_access *a,
                        const double times[REGS_BY_COUNT])
{
    bool is_implicit = (d->insn.props & X86_PROP_STACK) && a->base == X86_RSP && a->index == X86_REG_NONE &&
                       a->is_store == (d->insn.op == X86_OP_PUSH || x86_is_call(&d->insn));
    bool has_base = a->base != X86_REG_NONE, has_index = a->index != X86_REG_NONE;
    struct variable *v = NULL;
    int64_t place;
    m->out->loads += a->is_load ? times[REGS_MEASURED] : 0;
    m->out->stores += a->is_store ? times[REGS_MEASURED] : 0;
    if (is_implicit || a->segment)
        return;
    if (!has_base)
        v = data_at(m, (uint64_t)a->disp);
    else if (place_in_frame(m, a->base, a->disp, d->insn.addr, &place))
        v = place < 0 ? variable(m, (uint64_t)place, m->procedure) : NULL; /* arguments are of the caller too */
    if (!v)
        return;
    if (has_index)
        v->is_taken = true; /* an array */
    else
        use(v, a, times);
}

/* ---- addresses that are made ---- */

static void take_address(struct maker *m, const struct x86_detail *d)
{
    int64_t place;
    struct variable *v = NULL;
    if (d->insn.op == X86_OP_LEA && place_in_frame(m, d->addr_base, d->addr_disp, d->insn.addr, &place))
        v = variable(m, (uint64_t)place, m->procedure);
    else if ((d->insn.op == X86_OP_LEA && d->insn.props & X86_PROP_RIPREL) || d->insn.props & X86_PROP_IMM_ADDR)
        v = data_at(m, d->insn.target);
    if (v)
        v->is_taken = true;
}

/* Words of data that hold one. */
static void take_held(struct maker *m)
{
    for (uint32_t i = 0; i < m->img->reloc_count; i++) {
        const struct image_reloc *r = &m->img->relocs[i];
        uint64_t at;
        struct variable *v = r->addend ? data_at(m, (uint64_t)r->addend) : NULL;
        if (v)
            v->is_taken = true;
        if (map_get(&m->function_at, (uint64_t)r->addend, &at))
            m->procedures.data[at - 1].has_pointers = true;
    }
}

/* ---- calls ---- */

static void take_call(struct maker *m, const struct x86_detail *d, const double times[REGS_BY_COUNT])
{
    bool is_direct = d->insn.kind == X86_CALL || d->insn.kind == X86_JMP;
    uint64_t at;
    struct regs_arc arc = {m->procedure, ID_NONE, {times[0], times[1]}};
    if (is_direct && !map_get(&m->function_at, d->insn.target, &at))
        return; /* a library that was linked before, or a jump inside: its registers are kept for it, or its own */
    if (is_direct && d->insn.kind == X86_JMP && at - 1 == m->procedure)
        return;
    if (is_direct)
        arc.callee = (uint32_t)at - 1;
    else if (d->insn.kind != X86_CALL_IND || d->insn.props & X86_PROP_RIPREL) /* the linker's table: a library's */
        return;
    VEC_PUSH(&m->arcs, arc);
}

static void take_function_address(struct maker *m, const struct x86_detail *d)
{
    uint64_t at;
    if ((d->insn.op == X86_OP_LEA || d->insn.props & X86_PROP_IMM_ADDR) && d->insn.kind == X86_PLAIN &&
        map_get(&m->function_at, d->insn.target, &at))
        m->procedures.data[at - 1].has_pointers = true;
}

/* ---- all code ---- */

static void take_block(struct maker *m, const struct ld_block *b)
{
    uint64_t at[LD_CODE_INSNS_MAX];
    double times[REGS_BY_COUNT] = {[REGS_ESTIMATED] = 1, [REGS_MEASURED] = (double)b->count};
    for (unsigned d = 0; d < b->depth && d < 8; d++)
        times[REGS_ESTIMATED] *= 10;
    if (!ld_code_of(&m->code, b, at)) {
        m->out->unread += b->count * b->insns;
        return;
    }
    for (uint32_t i = 0; i < b->insns; i++) {
        struct x86_detail d;
        if (!ld_code_decode(&m->code, at[i], &d))
            continue;
        take_address(m, &d);
        take_function_address(m, &d);
        for (int k = 0; k < d.access_count; k++)
            take_access(m, &d, &d.access[k], times);
        take_call(m, &d, times);
    }
}

static void take_functions(struct maker *m)
{
    for (size_t f = 0; f < m->blocks->functions.len; f++) {
        const struct ld_function *fn = &m->blocks->functions.data[f];
        map_put(&m->function_at, fn->address, f + 1);
        VEC_PUSH(&m->procedures, ((struct regs_procedure){(double)fn->calls, false}));
    }
    for (size_t f = 0; f < m->blocks->functions.len; f++) {
        const struct ld_function *fn = &m->blocks->functions.data[f];
        m->procedure = (uint32_t)f;
        for (size_t b = 0; b < fn->count; b++)
            take_block(m, &m->blocks->blocks.data[fn->first + b]);
    }
    take_held(m);
}

/* A variable that another access overlaps at another place is none. */
static int by_place(const void *a, const void *b)
{
    const struct variable *x = a, *y = b;
    if (x->procedure != y->procedure)
        return x->procedure < y->procedure ? -1 : 1;
    int64_t p = (int64_t)x->id, q = (int64_t)y->id;
    return (p > q) - (p < q);
}

static void drop_overlaps(struct maker *m)
{
    if (m->all.len)
        qsort(m->all.data, m->all.len, sizeof *m->all.data, by_place);
    for (size_t i = 1; i < m->all.len; i++) {
        struct variable *x = &m->all.data[i - 1], *y = &m->all.data[i];
        if (x->procedure == y->procedure && x->id + x->bytes > y->id)
            x->is_taken = y->is_taken = true;
    }
}

/* A part of an array or a structure is not a variable: what may be written has a symbol of its size. */
static void find_sizes(struct maker *m)
{
    for (uint32_t i = 0; i < m->img->symbol_count; i++)
        if (m->img->symbols[i].type == STT_OBJECT && m->img->symbols[i].shndx)
            map_put(&m->size_at, m->img->symbols[i].addr, m->img->symbols[i].size);
}

static bool is_whole(const struct maker *m, const struct variable *v)
{
    uint64_t size;
    if (v->procedure != ID_NONE || v->is_constant)
        return true;
    return map_get(&m->size_at, v->id, &size) && size == v->bytes;
}

/* ---- the studies ---- */

static void study(struct maker *m, const struct ld_registers_options *opt)
{
    VEC(struct regs_variable) variables = {0};
    for (size_t i = 0; i < m->all.len; i++) {
        const struct variable *v = &m->all.data[i];
        if (v->is_taken || !v->bytes || !is_whole(m, v))
            continue;
        VEC_PUSH(&variables, v->uses);
        unsigned kind = v->procedure != ID_NONE ? 2 : v->is_constant;
        m->out->candidates[kind]++;
        m->out->candidate_uses[kind] += v->uses.loads[REGS_MEASURED] + v->uses.stores[REGS_MEASURED];
    }
    struct regs_program p = {m->procedures.data, variables.data, m->arcs.data,
                             m->procedures.len,  variables.len,  m->arcs.len};
    static const unsigned registers[] = {4, 8, 16, 32, 52};
    for (size_t i = 0; i < ARRAY_LEN(registers); i++)
        for (enum regs_by by = 0; by < REGS_BY_COUNT; by++)
            VEC_PUSH(&m->out->allocations,
                     ((struct ld_allocation){registers[i], by, regs_allocate(&p, registers[i], by, NULL)}));
    static const unsigned windows[] = {4, 8, 16, 32};
    for (size_t i = 0; i < ARRAY_LEN(windows); i++) {
        struct regs_windows w = {windows[i], opt->window_size, opt->windows_at_once};
        if (opt->windows && i)
            break;
        w.windows = opt->windows ? opt->windows : windows[i];
        VEC_PUSH(&m->out->traffic, ((struct ld_traffic){w, regs_windows(&p, &w, 1)}));
    }
    VEC_FREE(&variables);
}

int ld_registers_read(const char *path, const char *const *files, size_t count, const struct ld_registers_options *opt,
                      struct ld_registers **out)
{
    struct maker m = {.out = xmalloc(sizeof *m.out)};
    int rc = ld_blocks_read(path, files, count, &m.blocks);
    if (rc == 0 && (image_open(path, &m.img) < 0 || image_unwind_read(m.img, &m.unwind) < 0))
        rc = -1;
    if (rc == 0) {
        m.code = ld_code_begin(m.img);
        m.out->inconsistent = m.blocks->inconsistent;
        m.out->procedures = m.blocks->functions.len;
        find_sizes(&m);
        take_functions(&m);
        drop_overlaps(&m);
        study(&m, opt);
    }
    if (m.blocks)
        ld_blocks_free(m.blocks);
    image_close(m.img);
    map_fini(&m.function_at);
    map_fini(&m.size_at);
    map_fini(&m.index);
    VEC_FREE(&m.all);
    VEC_FREE(&m.arcs);
    VEC_FREE(&m.procedures);
    if (rc < 0)
        ld_registers_free(m.out);
    *out = rc < 0 ? NULL : m.out;
    return rc;
}

void ld_registers_free(struct ld_registers *r)
{
    VEC_FREE(&r->allocations);
    VEC_FREE(&r->traffic);
    free(r);
}
