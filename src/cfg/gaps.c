/* SPDX-License-Identifier: Apache-2.0
 *
 * Code without unwind description (hand-written assembly, C compiled without tables) to functions. What is certain to
 * be code: targets of calls and jumps in code that is, function symbols, the entry point, the lists of initialisers.
 * What is merely held as an address (by a lea, in data) may be data: it is code only if a run was seen to execute an
 * instruction that the code from there on leads to in one piece, and nothing speaks against it. All else stays as it
 * is.
 *
 * needs: funcs and insns of the unwind table. Bytes that nothing was seen to reach belong to no function, but for
 * padding, and for instructions behind an indirect jump, which may be the cases of a switch.
 */
#include "cfg/gaps.h"

#include <elf.h>
#include <stdlib.h>

enum { FILE_BYTES_MIN = 512, GAP_BYTES_MIN = 8, HOLE_BYTES_MAX = 1 << 16, LOOK_AHEAD = 40, JUMP_BYTES = 5 };

struct gap *gap_at(const struct gaps *g, uint64_t addr)
{
    size_t lo = PARTITION_POINT(i, 0, g->all.len, g->all.data[i].hi <= addr);
    return lo < g->all.len && addr >= g->all.data[lo].lo ? &g->all.data[lo] : NULL;
}

/* ---- the gaps ---- */

/* The length of the padding instruction at p, of `most` bytes at most; 0: it is none. */
static unsigned padding_bytes(const uint8_t *p, uint64_t max, uint64_t avail)
{
    struct x86_short i;
    bool is_trap = *p == 0xcc;
    int n = is_trap ? 1 : x86_decode_short(p, avail, &i);
    if (n == 0 || (uint64_t)n > max)
        return 0;
    unsigned props = is_trap ? X86_PROP_NOP : x86_shape(x86_short_shape(&i))->insn.props;
    return (props & X86_PROP_NOP) && !(props & X86_PROP_ENDBR) ? (unsigned)n : 0;
}

/* Padding at its start is left out; often that is all of it. */
static void add_gap(struct gaps *g, uint64_t lo, uint64_t hi)
{
    size_t more;
    const uint8_t *p = cfg_code_bytes(g->c->img, lo, hi, &more);
    for (unsigned n; p && lo < hi && (n = padding_bytes(p, hi - lo, hi - lo + more)); lo += n)
        p += n;
    struct gap gap = {lo, hi, p, NULL};
    if (p && hi - lo >= GAP_BYTES_MIN)
        VEC_PUSH(&g->all, gap);
}

static bool may_hold_functions(const struct image_section *s)
{
    return (s->flags & SHF_ALLOC) && (s->flags & SHF_EXECINSTR) && !(s->flags & SHF_WRITE) && s->type == SHT_PROGBITS &&
           !is_plt_section(s) && strcmp(s->name, ".init") != 0 &&
           strcmp(s->name, ".fini") != 0; /* pieces that run one into the other */
}

static int by_lo(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Sections that overlap are not looked at. */
static bool overlap(const struct gaps *g)
{
    for (size_t k = 1; k < g->all.len; k++)
        if (g->all.data[k].lo < g->all.data[k - 1].hi)
            return true;
    return false;
}

static void list_gaps(struct gaps *g)
{
    const struct cfg *c = g->c;
    uint64_t total = 0;
    for (size_t k = 0; k < c->img->section_count; k++) {
        const struct image_section *s = &c->img->sections[k];
        uint64_t at = s->addr, end = s->addr + s->size;
        if (!may_hold_functions(s) || end < at)
            continue;
        for (size_t f = 0; f < c->funcs.len; f++) {
            const struct cfg_func *fn = &c->funcs.data[f];
            if (fn->addr + fn->size <= at || fn->addr >= end)
                continue;
            if (fn->addr > at)
                add_gap(g, at, fn->addr);
            at = max_u64(at, fn->addr + fn->size);
        }
        if (at < end)
            add_gap(g, at, end);
    }
    if (g->all.len)
        qsort(g->all.data, g->all.len, sizeof *g->all.data, by_lo);
    for (size_t k = 0; k < g->all.len; k++)
        total += g->all.data[k].hi - g->all.data[k].lo;
    if (total < FILE_BYTES_MIN || overlap(g)) /* start-up code only */
        g->all.len = 0;
    for (size_t k = 0; k < g->all.len; k++)
        g->all.data[k].state = xmalloc((g->all.data[k].hi - g->all.data[k].lo) * sizeof *g->all.data[k].state);
}

/* Instructions that no ordinary program has, by their first byte: what data look like if they are taken for code. */
static bool is_odd(const uint8_t *p, unsigned len)
{
    unsigned k = 0;
    while (k + 1 < len && (p[k] == 0x66 || p[k] == 0xf2 || p[k] == 0xf3 || (p[k] & 0xf0) == 0x40))
        k++;
    uint8_t op = p[k];
    return (op >= 0x6c && op <= 0x6f) || (op >= 0xa0 && op <= 0xa3) || op == 0x8c || op == 0x8e || op == 0xc8 ||
           (op >= 0xca && op <= 0xcf && op != 0xcc) || op == 0xd7 || (op >= 0xe0 && op <= 0xe2) ||
           (op >= 0xe4 && op <= 0xe7) || (op >= 0xec && op <= 0xef) || op == 0xf1 || op == 0xfa || op == 0xfb ||
           (op == 0 && len - k == 2 && p[k + 1] == 0);
}

int gap_decode(const struct gap *gap, uint64_t addr, struct x86_insn *i)
{
    const uint8_t *p = gap->bytes + (addr - gap->lo);
    int n = x86_decode(p, gap->hi - addr, addr, i);
    bool half_sp = n && (i->gpr_written >> 4 & 1) && i->op_bytes < 8 && !(i->props & X86_PROP_STACK);
    return n && !half_sp && !is_odd(p, (unsigned)n) && !(i->props & X86_PROP_GS) ? n : 0;
}

/* ---- what points into them ---- */

static void must_be_code(struct gaps *g, uint64_t addr, bool is_entry)
{
    struct gap *gap = gap_at(g, addr);
    if (!gap || (gap->state[addr - gap->lo] & (is_entry ? GAP_ENTRY : GAP_START)))
        return;
    if (is_entry)
        gap->state[addr - gap->lo] |= GAP_ENTRY;
    VEC_PUSH(&g->certain, addr);
}

static void mark(struct gaps *g, uint64_t addr, unsigned bits)
{
    struct gap *gap = gap_at(g, addr);
    if (!gap)
        return;
    if ((bits & (GAP_HELD | GAP_CALLED)) && !(gap->state[addr - gap->lo] & (GAP_HELD | GAP_CALLED)))
        VEC_PUSH(&g->held, addr);
    gap->state[addr - gap->lo] |= (uint16_t)bits;
}

/* Does the code behind a lea use its register as the address of memory? */
static bool is_read_through(const struct cfg *c, uint32_t lea)
{
    uint16_t reg = cfg_shape(c, lea)->gpr_written;
    for (uint32_t i = lea + 1; i < c->insns.len && i - lea < LOOK_AHEAD; i++) {
        const struct x86_insn *s = cfg_shape(c, i);
        bool memory = (s->loads || s->stores) && !(s->props & X86_PROP_LEA);
        if (memory && ((s->mem_base < 16 && reg >> s->mem_base & 1) || (s->mem_index < 16 && reg >> s->mem_index & 1)))
            return true;
        if (ends_block(s->kind) || (s->gpr_written & reg))
            return false;
    }
    return false;
}

/* An operand of an instruction that is certain, or only might be one. */
static void look_at_operand(struct gaps *g, const struct x86_insn *i)
{
    bool fixed = g->c->img->kind == IMAGE_EXEC;
    if (i->kind != X86_PLAIN && i->kind != X86_CALL_IND && i->kind != X86_JMP_IND)
        return;
    if (i->props & X86_PROP_LEA)
        mark(g, i->target, GAP_HELD | GAP_CUT);
    else if ((i->props & X86_PROP_RIPREL) || (fixed && (i->props & X86_PROP_ABS32)))
        mark(g, i->target, GAP_DATA);
    else if (fixed && (i->props & X86_PROP_IMM_ADDR))
        mark(g, i->target, GAP_HELD | GAP_CUT);
}

void gap_look_at(struct gaps *g, const struct x86_insn *i)
{
    if (i->kind == X86_CALL || is_direct_jump(i->kind))
        must_be_code(g, i->target, i->kind == X86_CALL);
    else
        look_at_operand(g, i);
}

static void look_at_function(struct gaps *g, const struct cfg_func *fn)
{
    const struct cfg *c = g->c;
    cfg_for_each_insn(fn, i) {
        const struct x86_insn *s = cfg_shape(c, i);
        if (s->kind == X86_PLAIN && !(s->props & (X86_PROP_LEA | X86_PROP_RIPREL | X86_PROP_ABS32 | X86_PROP_IMM_ADDR)))
            continue;
        struct x86_insn in = cfg_insn(c, i);
        if (fn->reason == CFG_REASON_UNDECODABLE) /* has data inside, so any of it may be */
            look_at_operand(g, &in);
        else
            gap_look_at(g, &in);
        if ((in.props & X86_PROP_LEA) && gap_at(g, in.target) && is_read_through(c, i))
            mark(g, in.target, GAP_DATA);
    }
}

static bool is_list_of_code(const struct image_section *s)
{
    return s && (s->type == SHT_INIT_ARRAY || s->type == SHT_FINI_ARRAY || s->type == SHT_PREINIT_ARRAY);
}

static void look_at_relocs(struct gaps *g)
{
    const struct image *img = g->c->img;
    for (size_t k = 0; k < img->reloc_count; k++) {
        const struct image_reloc *r = &img->relocs[k];
        bool is_plain = r->type == R_X86_64_RELATIVE, chooses = r->type == R_X86_64_IRELATIVE;
        if (!is_plain && !chooses)
            continue;
        mark(g, (uint64_t)r->addend, GAP_HELD);
        if (chooses || is_list_of_code(image_section_of(img, r->addr)))
            must_be_code(g, (uint64_t)r->addend, true);
    }
}

static void look_at_symbols(struct gaps *g)
{
    const struct image *img = g->c->img;
    for (size_t k = 1; k < img->symbol_count; k++) {
        const struct image_symbol *s = &img->symbols[k];
        if (s->shndx == SHN_UNDEF || s->shndx >= SHN_LORESERVE)
            continue;
        if ((s->type == STT_FUNC && s->size) || s->type == STT_GNU_IFUNC)
            must_be_code(g, s->addr, true);
        else if (s->type == STT_OBJECT)
            mark(g, s->addr, GAP_DATA);
        else if (s->is_dynamic ||
                 s->type == STT_FUNC) /* a label that outsiders may know; all others are the assembler's */
            mark(g, s->addr, GAP_HELD);
    }
}

static void hold_word(void *ctx, uint64_t word, uint64_t place)
{
    struct gaps *g = ctx;
    mark(g, word, GAP_HELD);
    if (is_list_of_code(image_section_of(g->c->img, place)))
        must_be_code(g, word, true);
}

/* All instructions of the gaps in turn, in step or not: what they read might be data, what they call or hold might be
 * code. */
static void look_at_gap(struct gaps *g, struct gap *gap)
{
    struct x86_insn i;
    for (uint64_t addr = gap->lo; addr < gap->hi;) {
        int n = gap_decode(gap, addr, &i);
        if (n) {
            gap->state[addr - gap->lo] |= GAP_LINEAR;
            look_at_operand(g, &i);
            if (i.kind == X86_CALL)
                mark(g, i.target, GAP_CALLED);
        }
        addr += n ? (uint64_t)n : 1;
    }
}

/* ---- functions ---- */

static bool is_pad(const struct gap *gap, const struct x86_insn *i)
{
    return ((i->props & X86_PROP_NOP) && !(i->props & X86_PROP_ENDBR)) || gap->bytes[i->addr - gap->lo] == 0xcc;
}

static uint64_t skip_padding(const struct gap *gap, uint64_t addr)
{
    struct x86_insn i;
    while (addr < gap->hi && !(gap->state[addr - gap->lo] & (GAP_START | GAP_DATA)) && gap_decode(gap, addr, &i) &&
           is_pad(gap, &i))
        addr += i.len;
    return addr;
}

/* Is it an instruction with nothing known inside? */
static bool is_free(const struct gap *gap, uint64_t addr, struct x86_insn *i)
{
    const uint16_t *s = gap->state + (addr - gap->lo);
    if (!gap_decode(gap, addr, i))
        return false;
    for (unsigned k = 1; k < i->len; k++)
        if (s[k] & (GAP_START | GAP_INNER | GAP_ENTRY | GAP_DATA | GAP_HELD | GAP_CALLED | GAP_SAMPLED))
            return false;
    return true;
}

/* The end of a hole: instructions that nothing was seen to reach, up to one that is reached, is held by code, or the
 * end of the gap. 0: they are not in step with it. */
static uint64_t skip_hole(const struct gap *gap, uint64_t addr)
{
    struct x86_insn i;
    for (uint64_t from = addr; addr < gap->hi && addr - from < HOLE_BYTES_MAX; addr += i.len) {
        if (gap->state[addr - gap->lo] & (GAP_START | GAP_DATA | GAP_CUT | GAP_ENTRY))
            break;
        if (!is_free(gap, addr, &i))
            return 0;
    }
    return addr;
}

/* Does another function start there, behind an end? Addresses in data may be cases of a switch. */
static bool is_entry(const struct gap *gap, uint64_t addr, bool indirect)
{
    return gap->state[addr - gap->lo] & (GAP_ENTRY | GAP_CUT | (indirect ? 0 : GAP_HELD));
}

/* What follows addr, the end of an instruction that ends something: the next byte of the same function, 0 none. */
static uint64_t function_goes_on(const struct gap *gap, uint64_t addr, bool indirect)
{
    uint64_t next = skip_padding(gap, addr);
    if (indirect && next < gap->hi && !(gap->state[next - gap->lo] & GAP_START)) {
        uint64_t end = skip_hole(gap, next);
        next = end ? end : gap->hi;
    }
    return next < gap->hi && (gap->state[next - gap->lo] & GAP_START) && !is_entry(gap, next, indirect) ? next : 0;
}

/* Where the function that starts at addr ends, without what nothing reaches. Another entry ends it only where control
 * may not come by: behind an end, or a call, which may be one that does not return. */
static uint64_t function_end(const struct gap *gap, uint64_t addr, bool *indirect)
{
    bool after_call = false;
    for (*indirect = false;;) {
        uint16_t s = gap->state[addr - gap->lo];
        *indirect |= (s & GAP_INDIRECT) != 0;
        after_call = (s & GAP_CALL) || (after_call && (s & GAP_NOP));
        for (addr++; addr < gap->hi && (gap->state[addr - gap->lo] & GAP_INNER); addr++)
            ;
        bool here = addr < gap->hi && (gap->state[addr - gap->lo] & GAP_START);
        if (here && (s & GAP_FALLS) && !(after_call && (gap->state[addr - gap->lo] & GAP_ENTRY)))
            continue;
        uint64_t next = s & GAP_FALLS ? 0 : function_goes_on(gap, addr, *indirect);
        if (!next)
            return addr;
        addr = next;
    }
}

/* A jump takes the first bytes: all of these must be instructions that are reached, since data may follow. */
static bool may_be_patched(const struct gap *gap, uint64_t addr, uint64_t end)
{
    for (uint64_t a = addr; a < addr + JUMP_BYTES; a++)
        if (a >= end || !(gap->state[a - gap->lo] & (GAP_START | GAP_INNER)))
            return false;
    return true;
}

static void make_function(struct gaps *g, const struct gap *gap, uint64_t addr, uint64_t end, bool indirect)
{
    struct cfg_func f = {.addr = addr, .fde = ID_NONE};
    if (indirect) { /* the last cases of a switch stand behind everything that is reached */
        uint64_t more = skip_hole(gap, skip_padding(gap, end));
        end = more > end && more - addr < HOLE_BYTES_MAX ? more : end;
    }
    f.size = (uint32_t)(end - addr);
    if (!may_be_patched(gap, addr, end))
        f.reason = CFG_REASON_TOO_SMALL;
    for (uint64_t a = addr; a < end; a++)
        if (gap->state[a - gap->lo] & GAP_RETURN)
            f.reason = CFG_REASON_RETURN;
    VEC_PUSH(&g->c->funcs, f);
}

static void make_functions(struct gaps *g, const struct gap *gap)
{
    for (uint64_t at = gap->lo; at < gap->hi;) {
        bool indirect;
        if (!(gap->state[at - gap->lo] & GAP_START)) {
            at++;
            continue;
        }
        uint64_t from = at;
        at = function_end(gap, at, &indirect);
        make_function(g, gap, from, at, indirect);
        at = max_u64(at, g->c->funcs.data[g->c->funcs.len - 1].addr + g->c->funcs.data[g->c->funcs.len - 1].size);
    }
}

static void mark_sampled(struct gaps *g, const uint64_t *sampled, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        struct gap *gap = gap_at(g, sampled[k]);
        if (!gap)
            continue;
        gap->state[sampled[k] - gap->lo] |= GAP_SAMPLED;
        g->any_sampled = true;
    }
}

static void find_all(struct build *b, struct gaps *g)
{
    mark_sampled(g, b->sampled, b->sampled_count);
    for (size_t f = 0; f < b->c->funcs.len; f++)
        look_at_function(g, &b->c->funcs.data[f]);
    look_at_symbols(g);
    look_at_relocs(g);
    for_each_data_word(b, g->all.data[0].lo, g->all.data[g->all.len - 1].hi, hold_word, g);
    must_be_code(g, b->img->entry, true);
    for (size_t k = 0; k < g->all.len; k++)
        look_at_gap(g, &g->all.data[k]);
    gap_follow(g);
    for (size_t k = 0; k < g->all.len; k++)
        make_functions(g, &g->all.data[k]);
}

/* Addresses that something holds and nothing shows to be code, nor data. */
static uint32_t unproven(const struct gaps *g)
{
    uint32_t n = 0;
    for (size_t k = 0; k < g->held.len; k++) {
        const struct gap *gap = gap_at(g, g->held.data[k]);
        n += gap && !(gap->state[g->held.data[k] - gap->lo] & (GAP_START | GAP_INNER | GAP_DATA));
    }
    return n;
}

/* Appends functions to funcs, not sorted; true if there are any. */
bool find_gap_functions(struct build *b)
{
    struct gaps g = {.c = b->c};
    size_t before = b->c->funcs.len;
    list_gaps(&g);
    if (g.all.len)
        find_all(b, &g);
    b->c->unproven = unproven(&g);
    for (size_t k = 0; k < g.all.len; k++)
        free(g.all.data[k].state);
    VEC_FREE(&g.all);
    VEC_FREE(&g.certain);
    VEC_FREE(&g.held);
    return b->c->funcs.len > before;
}
