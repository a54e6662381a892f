/* SPDX-License-Identifier: Apache-2.0
 *
 * What instructions do with variables and registers: which of them have a variable as their operand, whom they call,
 * which registers a function uses, and whether its unwind table says that it gives them back.
 */
#include "ld/promote/finder.h"

#include <elf.h>

enum { LOOK_BACK = 16, SYS_CLONE = 56, SYS_VFORK = 58, SYS_RT_SIGRETURN = 15, SYS_CLONE3 = 435 };

/* ---- instructions ---- */

/* Of DWARF's numbers, those of x86 for registers that calls keep. */
static uint16_t from_dwarf(uint16_t saved) { return (uint16_t)((saved & ~(BIT(5) | BIT(6))) | (saved & BIT(6)) >> 1); }

static void add_row(void *ctx, uint64_t addr)
{
    struct finder *s = ctx;
    VEC_PUSH(&s->row_starts, addr);
}

struct frame { /* what is saved, for a stretch of a function */
    uint64_t lo, hi;
    uint16_t saved;
};

static uint16_t saved_at(struct finder *s, const struct cfg_func *fn, uint64_t addr, struct frame *frame)
{
    const struct image_unwind *u = &s->c->unwind;
    if (addr >= frame->lo && addr < frame->hi)
        return frame->saved;
    uint32_t fde = fn->fde == ID_NONE ? image_unwind_find(u, addr) : fn->fde;
    frame->lo = fn->addr, frame->hi = fn->addr + fn->size, frame->saved = 0;
    if (fde == ID_NONE)
        return 0;
    for (size_t i = 0; i < s->row_starts.len; i++) {
        uint64_t at = s->row_starts.data[i];
        if (at <= addr)
            frame->lo = max_u64(frame->lo, at);
        else
            frame->hi = min_u64(frame->hi, at);
    }
    return frame->saved = from_dwarf(image_unwind_saved(s->img, u, &u->fdes[fde], addr));
}

/* Registers that it writes though its frame holds no value of them to be given back. */
static void note_lost(struct finder *s, uint32_t function, const struct x86_insn *i, struct frame *frame)
{
    struct promote_facts *f = s->f;
    uint16_t written = i->gpr_written & CALL_KEPT & f->kept;
    if (!written || function == s->entry || map_has(&s->tolerated, (uint64_t)function + 1))
        return;
    written &= (uint16_t)~saved_at(s, &s->c->funcs.data[function], i->addr, frame);
    for (unsigned r = 0; written && r < X86_GPR_COUNT; r++)
        if (written >> r & 1)
            f->lost[r] = arena_printf(f->arena, "%s changes it without saving it as its unwind table says",
                                      promote_function_name(f, function));
    f->kept &= (uint16_t)~written;
}

static double times_of(const struct cfg *c, uint32_t function, uint32_t insn)
{
    double times = 1;
    if (c->funcs.data[function].reason != CFG_REASON_OK)
        return times;
    uint32_t loop = c->blocks.data[cfg_block_of(c, insn)].loop;
    for (uint32_t d = loop == ID_NONE ? 0 : c->loops.data[loop].depth; d > 0 && times < 1e8; d--)
        times *= 10;
    return times;
}

/* An access in front of variable `next` may reach into it, and those behind. */
static void refuse_reached(struct promote_facts *f, size_t next, const struct x86_insn *i, const uint8_t *bytes)
{
    struct x86_detail d;
    uint64_t end = UINT64_MAX;
    if (x86_decode_detail(bytes, i->len, i->addr, &d) && d.access_count >= 0) {
        end = 0;
        for (int k = 0; k < d.access_count; k++)
            if (d.access[k].base == X86_REG_NONE && d.access[k].index == X86_REG_NONE)
                end = max_u64(end, i->target + d.access[k].bytes);
    }
    for (; next < f->variables.len && f->variables.data[next].addr < min_u64(end, i->target + 64); next++)
        promote_refuse(&f->variables.data[next], "referred to together with what is before it");
}

static void access_variable(struct finder *s, uint32_t function, uint32_t insn, const struct x86_insn *i,
                            const uint8_t *bytes)
{
    enum { WIDEST = 64 };
    struct promote_facts *f = s->f;
    struct promote_variable *v = promote_variable_at(f, i->target);
    size_t next = PARTITION_POINT(k, 0, f->variables.len, f->variables.data[k].addr <= i->target);
    struct x86_detail d;
    uint8_t out[15];
    if (!v && next < f->variables.len && f->variables.data[next].addr < i->target + WIDEST)
        refuse_reached(f, next, i, bytes);
    if (!v)
        return;
    struct promote_access a = {.addr = i->addr, .variable = (uint32_t)(v - f->variables.data), .function = function};
    if (i->target != v->addr) {
        promote_refuse(v, "a part of it is referred to");
        return;
    }
    if (!x86_decode_detail(bytes, i->len, i->addr, &d) || d.access_count < 0) {
        promote_refuse(v, "an instruction refers to it in an unknown way");
        return;
    }
    unsigned width = 0;
    for (int k = 0; k < d.access_count; k++) {
        const struct x86_access *m = &d.access[k];
        if (m->base != X86_REG_NONE || m->index != X86_REG_NONE)
            continue;
        width = m->bytes;
        a.loads |= m->is_load;
        a.stores |= m->is_store;
    }
    if (i->props & X86_PROP_LOCK)
        promote_refuse(v, arena_printf(s->f->arena, "used atomically in %s", promote_function_name(s->f, function)));
    else if (width > v->bytes)
        promote_refuse(v, "referred to together with what is behind it"), refuse_reached(f, next, i, bytes);
    else if (a.stores && width == 4 && v->bytes == 8)
        promote_refuse(v, "its lower half is written alone");
    else if (!width || !x86_in_register(bytes, i, X86_R15, out))
        promote_refuse(v, arena_printf(s->f->arena, "operand of %s in %s, for which there is no form with a register",
                                       x86_mnemonic_name(i->mnemonic), promote_function_name(s->f, function)));
    a.times = times_of(s->c, function, insn);
    VEC_PUSH(&s->f->accesses, a);
}

static bool is_fixed(const struct x86_insn *i)
{
    return i->props & X86_PROP_RIPREL ||
           (i->props & X86_PROP_ABS32 && i->mem_base == X86_REG_NONE && i->mem_index == X86_REG_NONE);
}

static bool is_by_got(uint32_t type)
{
    return type == R_X86_64_GOT32 || type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX ||
           type == R_X86_64_REX_GOTPCRELX || type == R_X86_64_GOT64 || type == R_X86_64_GOTPCREL64;
}

/* A relocation in an instruction. */
static void take_in(struct finder *s, uint32_t function, const struct x86_insn *i, const struct reloc *r)
{
    unsigned at = (unsigned)(r->at - i->addr);
    bool is_decoded = is_fixed(i); /* then its target tells the variable */
    if (promote_returns_twice(r->name))
        s->f->functions[function].returns_twice = true;
    if (!r->is_defined || promote_is_thread_local(r->type) || x86_is_conditional(i) || i->kind == X86_CALL ||
        i->kind == X86_JMP)
        return;
    if (is_by_got(r->type)) {
        promote_take(s, r->addr, r, function, i->addr);
    } else if (i->disp_len && at == i->disp_off) {
        if (!is_decoded) /* an array, a table, an address of 64 bits */
            promote_take(s, r->addr + (uint64_t)r->addend, r, function, i->addr);
    } else if (i->imm_len && at == i->imm_off) {
        promote_take(s, r->addr + (uint64_t)r->addend, r, function, i->addr);
    } else {
        promote_take(s, r->addr, r, function, i->addr);
        promote_take(s, r->addr + (uint64_t)r->addend, r, function, i->addr);
    }
}

/* Might the system call come back twice? */
static bool is_call_unknown(const struct cfg *c, const struct cfg_func *fn, uint32_t insn)
{
    for (uint32_t k = insn, n = 0; k-- > fn->insn_first && n < LOOK_BACK; n++) {
        struct x86_insn i = cfg_insn(c, k);
        struct x86_detail d;
        if (x86_is_branch(&i))
            return true;
        if (!(i.gpr_written >> X86_RAX & 1))
            continue;
        const uint8_t *bytes = image_at(c->img, i.addr, i.len);
        if (!bytes || !x86_decode_detail(bytes, i.len, i.addr, &d))
            return true;
        if (i.op == X86_OP_XOR && d.is_zero_idiom)
            return false; /* read */
        return d.effect != X86_EFFECT_CONST || d.effect_dst != X86_RAX || d.imm == SYS_CLONE || d.imm == SYS_VFORK ||
               d.imm == SYS_RT_SIGRETURN || d.imm == SYS_CLONE3;
    }
    return true;
}

/* The kernel reads and writes what its interface says, and keeps the rest. */
static uint16_t used_by(const struct x86_insn *i)
{
    enum {
        ARGUMENTS = BIT(X86_RDI) | BIT(X86_RSI) | BIT(X86_RDX) | BIT(X86_R10) | BIT(X86_R8) | BIT(X86_R9),
        ANSWERS = BIT(X86_RAX) | BIT(X86_RCX) | BIT(X86_R11)
    };
    return i->kind == X86_SYSCALL ? ARGUMENTS | ANSWERS : i->gpr_read | i->gpr_written;
}

static void take_insn(struct finder *s, uint32_t function, uint32_t insn, const struct x86_insn *i, size_t reloc_first,
                      size_t reloc_end)
{
    struct promote_facts *f = s->f;
    struct regs_promotion_function *fn = &f->functions[function];
    const struct cfg_func *of = &s->c->funcs.data[function];
    const struct reloc *r = reloc_first < reloc_end ? &s->relocs.data[reloc_first] : NULL;
    const uint8_t *bytes = image_at(s->img, i->addr, i->len);
    fn->uses |= used_by(i);
    if (i->kind == X86_CALL_IND || i->kind == X86_JMP_IND) /* perhaps into code of the kernel's, or made at run time */
        f->free &= CALL_KEPT;
    for (size_t k = reloc_first; k < reloc_end; k++)
        take_in(s, function, i, &s->relocs.data[k]);
    if (i->kind == X86_SYSCALL)
        fn->returns_twice |= is_call_unknown(s->c, of, insn);
    if (i->kind == X86_CALL || i->kind == X86_JMP || x86_is_conditional(i)) {
        uint32_t to = cfg_func_at(s->c, i->target);
        fn->returns_twice |= map_has(&s->twice_at, i->target);
        if (to != ID_NONE && to != function)
            VEC_PUSH(&f->arcs, ((struct regs_arc){.caller = function, .callee = to}));
        return;
    }
    if (i->props & X86_PROP_LEA && is_fixed(i))
        promote_take(s, i->target, r, function, i->addr);
    else if (is_fixed(i) && !(i->props & (X86_PROP_NOP | X86_PROP_SEG)) && bytes)
        access_variable(s, function, insn, i, bytes);
}

/* Control may go on into the function behind. */
static void join_next(struct finder *s, uint32_t function)
{
    const struct cfg *c = s->c;
    const struct cfg_func *f = &c->funcs.data[function];
    if (!f->insn_count || function + 1 >= c->funcs.len || f->addr + f->size != c->funcs.data[function + 1].addr)
        return;
    switch (cfg_kind(c, f->insn_first + f->insn_count - 1)) {
    case X86_JMP:
    case X86_JMP_IND:
    case X86_RET:
    case X86_TRAP:
    case X86_CALL: /* of what does not return */
    case X86_CALL_IND:
        return;
    default:
        if (!(cfg_shape(c, f->insn_first + f->insn_count - 1)->props & X86_PROP_NOP))
            VEC_PUSH(&s->f->arcs, ((struct regs_arc){.caller = function, .callee = function + 1}));
    }
}

static bool is_unclear(const struct cfg_func *f)
{
    return f->reason == CFG_REASON_UNDECODABLE || f->reason == CFG_REASON_SPLIT_INSN || f->reason == CFG_REASON_OVERLAP;
}

/* A procedure linkage table: calls of other files, with registers that calls do not keep. */
static bool is_made_by_linker(const struct image *img, uint64_t addr)
{
    const struct image_section *s = image_section_of(img, addr);
    return s && !strncmp(s->name, ".plt", strlen(".plt"));
}

void promote_take_function(struct finder *s, uint32_t function)
{
    const struct cfg *c = s->c;
    const struct cfg_func *fn = &c->funcs.data[function];
    struct frame frame = {0};
    s->row_starts.len = 0;
    if (fn->fde != ID_NONE)
        (void)image_unwind_row_starts(s->img, &c->unwind, fn->fde, add_row, s);
    size_t r = PARTITION_POINT(k, 0, s->relocs.len, s->relocs.data[k].at < fn->addr), end;
    cfg_for_each_insn(fn, k) {
        struct x86_insn i = cfg_insn(c, k);
        while (r < s->relocs.len && s->relocs.data[r].at < i.addr)
            r++;
        for (end = r; end < s->relocs.len && s->relocs.data[end].at < i.addr + i.len;)
            end++;
        note_lost(s, function, &i, &frame);
        take_insn(s, function, k, &i, r, end);
        r = end;
    }
    join_next(s, function);
    if (is_unclear(fn) && is_made_by_linker(s->img, fn->addr)) {
        s->f->free &= (uint16_t) ~(BIT(X86_RAX) | BIT(X86_R10) | BIT(X86_R11)); /* of such code */
    } else if (is_unclear(fn)) {
        s->f->functions[function].is_unclear = true;
        s->f->kept = s->f->free = 0;
        if (!s->f->why)
            s->f->why = arena_printf(s->f->arena, "%s is not understood: %s", promote_function_name(s->f, function),
                                     cfg_reason_text[fn->reason]);
    }
}

/* ---- code that belongs to no function ---- */

/* Padding, and what nothing was seen to reach; that may still be reached in a way that is not seen. */
static void take_rest(struct finder *s, uint64_t lo, uint64_t hi)
{
    struct promote_facts *f = s->f;
    while (lo < hi) {
        struct x86_insn i;
        uint64_t more = hi - lo;
        const uint8_t *bytes = image_at(s->img, lo, more);
        int n = bytes ? x86_decode(bytes, more, lo, &i) : 0;
        if (bytes && !n &&
            image_at(s->img, lo, more + 1)) { /* the table has the function of signals begin a byte early */
            n = x86_decode(bytes, more + 1, lo, &i);
            n = n && i.props & X86_PROP_NOP ? n : 0;
        }
        if (bytes && *bytes == 0) { /* zeros between sections */
            lo++;
            continue;
        }
        if (!n) {
            f->kept = f->free = 0;
            f->why = f->why ? f->why
                            : arena_printf(f->arena, "the bytes at %#llx are no instruction", (unsigned long long)lo);
            return;
        }
        lo += (uint64_t)n;
        uint16_t written = i.gpr_written & CALL_KEPT & f->kept;
        if (i.props & X86_PROP_NOP || i.kind == X86_TRAP)
            continue;
        for (unsigned r = 0; r < X86_GPR_COUNT; r++)
            if (written >> r & 1)
                f->lost[r] =
                    arena_printf(f->arena, "code at %#llx, in no function, changes it", (unsigned long long)i.addr);
        f->kept &= (uint16_t)~written;
        f->free &= (uint16_t)~used_by(&i);
        if (i.target) {
            promote_enter_at(s, i.target, "code in no function may call it");
            promote_refuse(promote_variable_at(f, i.target), "code in no function refers to it");
        }
    }
}

void promote_take_gaps(struct finder *s)
{
    for (size_t k = 0; k < s->img->section_count; k++) {
        const struct image_section *in = &s->img->sections[k];
        if ((in->flags & (SHF_ALLOC | SHF_EXECINSTR)) != (SHF_ALLOC | SHF_EXECINSTR) || in->type == SHT_NOBITS)
            continue;
        uint64_t at = in->addr;
        size_t f = PARTITION_POINT(i, 0, s->c->funcs.len, s->c->funcs.data[i].addr < at);
        for (; f < s->c->funcs.len && s->c->funcs.data[f].addr < in->addr + in->size; f++) {
            if (s->c->funcs.data[f].addr > at)
                take_rest(s, at, s->c->funcs.data[f].addr);
            at = max_u64(at, s->c->funcs.data[f].addr + s->c->funcs.data[f].size);
        }
        if (at < in->addr + in->size)
            take_rest(s, at, in->addr + in->size);
    }
    for (size_t i = 0; i < s->relocs.len; i++) { /* of such code */
        const struct reloc *r = &s->relocs.data[i];
        if (!image_is_code(s->img, r->at) || cfg_func_at(s->c, r->at) != ID_NONE || !r->is_defined)
            continue;
        bool is_distance = r->type == R_X86_64_PC32 || r->type == R_X86_64_PLT32; /* its instruction told the target */
        if (r->sym_type != STT_SECTION && !promote_is_thread_local(r->type))
            promote_take(s, r->addr, r, ID_NONE, r->at);
        if (!is_distance && !promote_is_thread_local(r->type))
            promote_take(s, r->addr + (uint64_t)r->addend, r, ID_NONE, r->at);
    }
}
