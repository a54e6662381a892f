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
#include "ld/promote/promote.h"

#include <elf.h>
#include <stdlib.h>

#define BIT(r) ((uint16_t)(1u << (r)))
enum {
    CALL_KEPT = BIT(X86_RBX) | BIT(X86_RBP) | BIT(X86_R12) | BIT(X86_R13) | BIT(X86_R14) | BIT(X86_R15),
    DEPTH_MAX = 8,
    LOOK_BACK = 16,
    SYS_CLONE = 56,
    SYS_VFORK = 58,
    SYS_RT_SIGRETURN = 15,
    SYS_CLONE3 = 435
};

struct reloc { /* not a dynamic one */
    uint64_t at;
    uint32_t type;
    int64_t addend;
    const char *name; /* of its symbol, "" none */
    uint64_t addr, size;
    uint8_t sym_type;
    bool is_defined;
};
struct finder {
    struct promote_facts *f;
    const struct image *img;
    const struct cfg *c;
    VEC(struct reloc) relocs; /* by place */
    VEC(uint64_t) row_starts; /* of the function at hand: where its frame's description changes */
    struct map twice_at;      /* addresses of functions that return twice */
    struct map tolerated;     /* functions, plus 1, that give no register back and may */
    uint32_t main, entry;     /* functions, ID_NONE */
    unsigned main_refs;
};

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

const char *promote_function_name(const struct promote_facts *f, uint32_t function)
{
    uint64_t addr = f->cfg->funcs.data[function].addr;
    const char *name = image_symbol_name(f->img, addr, NULL);
    return name && *name ? name : arena_printf(f->arena, "the code at %#llx", (unsigned long long)addr);
}

/* ---- relocations ---- */

static void read_section(struct finder *s, const struct image_section *rela)
{
    const struct image_section *table = &s->img->sections[rela->link], *strings = &s->img->sections[table->link];
    const char *names = (const char *)s->img->bytes + strings->offset;
    size_t count = table->size / sizeof(Elf64_Sym);
    for (uint64_t i = 0; i < rela->size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        Elf64_Sym sym;
        memcpy(&r, s->img->bytes + rela->offset + i * sizeof r, sizeof r);
        size_t k = ELF64_R_SYM(r.r_info);
        if (ELF64_R_TYPE(r.r_info) == R_X86_64_NONE || k >= count)
            continue;
        memcpy(&sym, s->img->bytes + table->offset + k * sizeof sym, sizeof sym);
        VEC_PUSH(&s->relocs, ((struct reloc){.at = r.r_offset,
                                             .type = (uint32_t)ELF64_R_TYPE(r.r_info),
                                             .addend = r.r_addend,
                                             .name = sym.st_name < strings->size ? names + sym.st_name : "",
                                             .addr = sym.st_value,
                                             .size = sym.st_size,
                                             .sym_type = ELF64_ST_TYPE(sym.st_info),
                                             .is_defined = k != 0 && sym.st_shndx != SHN_UNDEF}));
    }
}

static int by_place(const void *a, const void *b)
{
    const struct reloc *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static bool is_readable(const struct image *img, const struct image_section *s)
{
    return s->type != SHT_NOBITS && s->offset <= img->len_bytes && s->size <= img->len_bytes - s->offset;
}

static void read_relocs(struct finder *s)
{
    const struct image *img = s->img;
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *r = &img->sections[i];
        if (r->type != SHT_RELA || r->flags & SHF_ALLOC || r->info >= img->section_count ||
            !(img->sections[r->info].flags & SHF_ALLOC) || r->link >= img->section_count ||
            img->sections[r->link].link >= img->section_count || !is_readable(img, r) ||
            !is_readable(img, &img->sections[r->link]) || strcmp(img->sections[r->info].name, ".eh_frame") == 0)
            continue;
        const struct image_section *strings = &img->sections[img->sections[r->link].link];
        if (is_readable(img, strings) && strings->size && !img->bytes[strings->offset + strings->size - 1])
            read_section(s, r);
    }
    if (s->relocs.len)
        qsort(s->relocs.data, s->relocs.len, sizeof *s->relocs.data, by_place);
}

static bool is_thread_local(uint32_t type)
{
    switch (type) {
    case R_X86_64_DTPMOD64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_TPOFF64:
    case R_X86_64_TLSGD:
    case R_X86_64_TLSLD:
    case R_X86_64_DTPOFF32:
    case R_X86_64_GOTTPOFF:
    case R_X86_64_TPOFF32:
    case R_X86_64_GOTPC32_TLSDESC:
    case R_X86_64_TLSDESC_CALL:
    case R_X86_64_TLSDESC:
        return true;
    default:
        return false;
    }
}

static bool is_by_got(uint32_t type)
{
    return type == R_X86_64_GOT32 || type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX ||
           type == R_X86_64_REX_GOTPCRELX || type == R_X86_64_GOT64 || type == R_X86_64_GOTPCREL64;
}

/* ---- variables ---- */

static struct promote_variable *variable_at(struct promote_facts *f, uint64_t addr)
{
    size_t i = PARTITION_POINT(k, 0, f->variables.len, f->variables.data[k].addr <= addr);
    struct promote_variable *v = i ? &f->variables.data[i - 1] : NULL;
    return v && addr < v->addr + v->bytes ? v : NULL;
}

static void refuse(struct promote_variable *v, const char *why)
{
    if (v && !v->why)
        v->why = why;
}

static int by_address(const void *a, const void *b)
{
    const struct promote_variable *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

static bool may_hold_variables(const struct image_section *s)
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
            !may_hold_variables(&s->img->sections[y->shndx]) || !y->size)
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
            refuse(&f->variables.data[n - 1], "another symbol lies in it");
        }
        end = max_u64(end, v.addr + v.bytes);
        f->variables.data[n++] = v;
    }
    f->variables.len = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t b = f->variables.data[i].bytes;
        if (b != 1 && b != 2 && b != 4 && b != 8)
            refuse(&f->variables.data[i], "has another size than registers");
    }
    for (size_t i = 0; i < s->img->dynsym_count; i++) {
        const struct image_symbol *y = &s->img->symbols[i];
        if (y->shndx != SHN_UNDEF && y->type != STT_TLS)
            refuse(variable_at(f, y->addr), "shared objects see it");
    }
}

/* ---- addresses that are made ---- */

static void enter(struct finder *s, uint32_t function, const char *who)
{
    s->f->functions[function].is_entered = true;
    if (!s->f->why_entered[function])
        s->f->why_entered[function] = who;
}

/* `r` is what made it, NULL none; `by`: a function, ID_NONE: data. */
static void take(struct finder *s, uint64_t addr, const struct reloc *r, uint32_t by, uint64_t at)
{
    struct promote_facts *f = s->f;
    uint32_t function = cfg_func_at(s->c, addr);
    if (function != ID_NONE) {
        if (s->c->funcs.data[function].addr != addr)
            return; /* a label: of a switch */
        if (function == s->main && by == s->entry && by != ID_NONE) {
            s->main_refs += f->main_at != at;
            f->main_at = at;
            return;
        }
        enter(s, function,
              by == ID_NONE ? "its address is in data"
                            : arena_printf(f->arena, "its address is taken in %s", promote_function_name(f, by)));
        return;
    }
    bool is_end = r && r->sym_type == STT_OBJECT && r->size && addr == r->addr + r->size;
    struct promote_variable *v = is_end ? NULL : variable_at(f, addr);
    if (v && !v->why)
        v->why = by == ID_NONE ? "its address is in data"
                               : arena_printf(f->arena, "its address is taken in %s", promote_function_name(f, by));
}

static bool is_in_table(const struct cfg *c, uint64_t at)
{
    for (size_t i = 0; i < c->tables.len; i++)
        if (at - c->tables.data[i].addr < (uint64_t)c->tables.data[i].entries * c->tables.data[i].entry_bytes)
            return true;
    return false;
}

/* A distance within data is from a place that is not told: where a section alone is named, it may be anything of it. */
static void take_distance(struct finder *s, const struct reloc *r)
{
    take(s, r->addr, r, ID_NONE, r->at);
    take(s, r->addr + (uint64_t)r->addend, r, ID_NONE, r->at);
    if (r->sym_type != STT_SECTION)
        return;
    const struct image_section *in = image_section_of(s->img, r->addr);
    for (size_t i = 0; in && may_hold_variables(in) && i < s->f->variables.len; i++)
        if (s->f->variables.data[i].addr - in->addr < in->size)
            refuse(&s->f->variables.data[i], "data hold distances into its section");
}

static void take_of_data(struct finder *s)
{
    for (size_t i = 0; i < s->relocs.len; i++) {
        const struct reloc *r = &s->relocs.data[i];
        if (!r->is_defined || is_thread_local(r->type) || image_is_code(s->img, r->at))
            continue;
        if (r->type == R_X86_64_PC32 || r->type == R_X86_64_PC64 || r->type == R_X86_64_PLT32) {
            if (!is_in_table(s->c, r->at))
                take_distance(s, r);
        } else {
            take(s, r->addr + (uint64_t)r->addend, r, ID_NONE, r->at);
        }
    }
}

/* ---- who may call functions ---- */

static void enter_at(struct finder *s, uint64_t addr, const char *who)
{
    uint32_t f = addr ? cfg_func_at(s->c, addr) : ID_NONE;
    if (f != ID_NONE && s->c->funcs.data[f].addr == addr)
        enter(s, f, who);
}

static void find_entered(struct finder *s)
{
    const struct image *img = s->img;
    for (size_t i = 0; i < img->symbol_count; i++) {
        const struct image_symbol *y = &img->symbols[i];
        if (y->shndx == SHN_UNDEF || (y->type != STT_FUNC && y->type != STT_GNU_IFUNC && y->type != STT_NOTYPE))
            continue;
        if (y->is_dynamic)
            enter_at(s, y->addr, "shared objects may call it");
        if (y->type == STT_GNU_IFUNC)
            enter_at(s, y->addr, "it resolves an indirect function");
        if (!strcmp(y->name, "_init") || !strcmp(y->name, "_fini"))
            enter_at(s, y->addr, "it is called at the program's beginning or end");
        if (is_one_of(y->name, twice, ARRAY_LEN(twice)))
            map_put(&s->twice_at, y->addr, 1);
        uint32_t f = is_one_of(y->name, tolerated, ARRAY_LEN(tolerated)) ? cfg_func_at(s->c, y->addr) : ID_NONE;
        if (f != ID_NONE)
            map_put(&s->tolerated, f + 1, 1);
        if (!strcmp(y->name, "main") && y->type == STT_FUNC)
            s->main = cfg_func_at(s->c, y->addr);
    }
    for (size_t i = 0; i < s->c->unwind.cie_count; i++)
        enter_at(s, s->c->unwind.cies[i].personality, "the unwinder calls it");
    s->entry = cfg_func_at(s->c, img->entry);
}

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
        refuse(&f->variables.data[next], "referred to together with what is before it");
}

static void access_variable(struct finder *s, uint32_t function, uint32_t insn, const struct x86_insn *i,
                            const uint8_t *bytes)
{
    enum { WIDEST = 64 };
    struct promote_facts *f = s->f;
    struct promote_variable *v = variable_at(f, i->target);
    size_t next = PARTITION_POINT(k, 0, f->variables.len, f->variables.data[k].addr <= i->target);
    struct x86_detail d;
    uint8_t out[15];
    if (!v && next < f->variables.len && f->variables.data[next].addr < i->target + WIDEST)
        refuse_reached(f, next, i, bytes);
    if (!v)
        return;
    struct promote_access a = {.addr = i->addr, .variable = (uint32_t)(v - f->variables.data), .function = function};
    if (i->target != v->addr) {
        refuse(v, "a part of it is referred to");
        return;
    }
    if (!x86_decode_detail(bytes, i->len, i->addr, &d) || d.access_count < 0) {
        refuse(v, "an instruction refers to it in an unknown way");
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
        refuse(v, arena_printf(s->f->arena, "used atomically in %s", promote_function_name(s->f, function)));
    else if (width > v->bytes)
        refuse(v, "referred to together with what is behind it"), refuse_reached(f, next, i, bytes);
    else if (a.stores && width == 4 && v->bytes == 8)
        refuse(v, "its lower half is written alone");
    else if (!width || !x86_in_register(bytes, i, X86_R15, out))
        refuse(v, arena_printf(s->f->arena, "operand of %s in %s, for which there is no form with a register",
                               x86_mnemonic_name(i->mnemonic), promote_function_name(s->f, function)));
    a.times = times_of(s->c, function, insn);
    VEC_PUSH(&s->f->accesses, a);
}

/* A relocation in an instruction. */
static void take_in(struct finder *s, uint32_t function, const struct x86_insn *i, const struct reloc *r)
{
    unsigned at = (unsigned)(r->at - i->addr);
    bool is_fixed = i->mem_base == X86_REG_RIP || (i->mem_base == X86_REG_NONE && i->mem_index == X86_REG_NONE);
    if (is_one_of(r->name, twice, ARRAY_LEN(twice)))
        s->f->functions[function].returns_twice = true;
    if (!r->is_defined || is_thread_local(r->type) || x86_is_conditional(i) || i->kind == X86_CALL ||
        i->kind == X86_JMP)
        return;
    if (is_by_got(r->type)) {
        take(s, r->addr, r, function, i->addr);
    } else if (i->disp_len && at == i->disp_off) {
        if (!is_fixed) /* an array, or a table */
            take(s, r->addr + (uint64_t)r->addend, r, function, i->addr);
    } else if (i->imm_len && at == i->imm_off) {
        take(s, r->addr + (uint64_t)r->addend, r, function, i->addr);
    } else {
        take(s, r->addr, r, function, i->addr);
        take(s, r->addr + (uint64_t)r->addend, r, function, i->addr);
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
    bool is_fixed = i->props & X86_PROP_RIPREL ||
                    (i->props & X86_PROP_ABS32 && i->mem_base == X86_REG_NONE && i->mem_index == X86_REG_NONE);
    if (i->props & X86_PROP_LEA && is_fixed)
        take(s, i->target, r, function, i->addr);
    else if (is_fixed && !(i->props & (X86_PROP_NOP | X86_PROP_SEG)) && bytes)
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

static void take_function(struct finder *s, uint32_t function)
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
            enter_at(s, i.target, "code in no function may call it");
            refuse(variable_at(f, i.target), "code in no function refers to it");
        }
    }
}

static void take_gaps(struct finder *s)
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
        if (r->sym_type != STT_SECTION && !is_thread_local(r->type))
            take(s, r->addr, r, ID_NONE, r->at);
        if (!is_distance && !is_thread_local(r->type))
            take(s, r->addr + (uint64_t)r->addend, r, ID_NONE, r->at);
    }
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
        enter(s, s->main, "its address is taken more than once");
    if (s->main_refs == 1)
        enter(s, s->entry, "the program begins there");
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
            refuse(&s->f->variables.data[i], "no code that is reached refers to it");
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
    read_relocs(&s);
    if (!s.relocs.len)
        out->why = "the linker keeps no relocations";
    find_entered(&s);
    find_variables(&s);
    take_of_data(&s);
    for (uint32_t f = 0; f < cfg->funcs.len; f++)
        take_function(&s, f);
    take_gaps(&s);
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
    free(f->functions);
    free((void *)f->why_entered);
    arena_free(f->arena);
}
