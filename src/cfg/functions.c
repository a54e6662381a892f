/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind table and PLT to functions, functions to instructions: every FDE range swept linearly, every PLT stub a
 * function of its own, and the index from address to instruction. Decides nothing about control flow.
 */
#include "cfg/impl.h"

#include <assert.h>
#include <stdlib.h>

const char *const cfg_reason_text[CFG_REASON_COUNT] = {
#define X(id, text) text,
    CFG_REASONS(X)
#undef X
};

/* ---- ranges ---- */

bool is_plt_section(const struct image_section *s)
{
    static const char *const names[] = {".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(s->name, names[i]) == 0)
            return s->addr && s->size;
    return false;
}

static bool in_code(const struct image *img, uint64_t addr, uint64_t len)
{
    return len && len < UINT32_MAX && image_is_code(img, addr) && image_is_code(img, addr + len - 1) &&
           image_at(img, addr, len);
}

static void add_fde_functions(struct cfg *c)
{
    for (size_t i = 0; i < c->unwind.fde_count; i++) {
        const struct image_fde *d = &c->unwind.fdes[i];
        const struct image_section *s = image_section_of(c->img, d->addr);
        if (!in_code(c->img, d->addr, d->len_bytes) || (s && is_plt_section(s)))
            continue;
        struct cfg_func f = {.addr = d->addr, .size = (uint32_t)d->len_bytes, .fde = (uint32_t)i};
        if (d->is_signal_frame || c->unwind.cies[d->cie].is_signal_frame)
            f.reason = CFG_REASON_SIGNAL_FRAME;
        VEC_PUSH(&c->funcs, f);
    }
}

/* The FDE that covers the whole section, or ID_NONE. */
static uint32_t fde_of_section(const struct cfg *c, const struct image_section *s)
{
    for (size_t i = 0; i < c->unwind.fde_count; i++)
        if (c->unwind.fdes[i].addr == s->addr && c->unwind.fdes[i].len_bytes >= s->size)
            return (uint32_t)i;
    return ID_NONE;
}

/* A stub may start with endbr64; the first of a lazy PLT pushes a GOT word and is the way into the dynamic linker. */
static bool is_plt0(const struct image *img, uint64_t addr, uint32_t len)
{
    struct x86_insn i;
    const uint8_t *p = image_at(img, addr, len);
    int n = p ? x86_decode(p, len, addr, &i) : 0;
    if (n && (i.props & X86_PROP_ENDBR))
        n = x86_decode(p + n, len - (uint32_t)n, addr + (uint64_t)n, &i);
    return n && i.op == X86_OP_PUSH && (i.props & X86_PROP_RIPREL);
}

static void add_plt_stubs(struct cfg *c, const struct image_section *s)
{
    uint64_t step = s->entsize;
    if (step != 8 && step != 16 && step != 32)
        step = s->size % 16 == 0 ? 16 : 8;
    uint32_t fde = fde_of_section(c, s);
    for (uint64_t a = s->addr; a + step <= s->addr + s->size; a += step) {
        if (!in_code(c->img, a, step))
            continue;
        struct cfg_func f = {.addr = a, .size = (uint32_t)step, .fde = fde, .is_plt = 1};
        if (a == s->addr && is_plt0(c->img, a, (uint32_t)step))
            f.reason = CFG_REASON_STARTUP;
        VEC_PUSH(&c->funcs, f);
    }
}

static int by_addr(const void *a, const void *b)
{
    const struct cfg_func *x = a, *y = b;
    return x->addr != y->addr ? (x->addr > y->addr) - (x->addr < y->addr) : (x->size > y->size) - (x->size < y->size);
}

static void refuse_overlaps(struct cfg *c)
{
    size_t widest = 0; /* the one that reaches furthest so far */
    for (size_t i = 1; i < c->funcs.len; i++) {
        struct cfg_func *f = &c->funcs.data[i], *w = &c->funcs.data[widest];
        if (f->addr < w->addr + w->size)
            f->reason = w->reason = CFG_REASON_OVERLAP;
        if (f->addr + f->size > w->addr + w->size)
            widest = i;
    }
}

/* Where the file does not tell which code it copies, it is among that which nothing describes. */
static void refuse_staying_code(struct cfg *c)
{
    const struct image *img = c->img;
    for (size_t i = 0; i < c->funcs.len; i++) {
        struct cfg_func *f = &c->funcs.data[i];
        bool is_inside = f->addr < img->stay_hi && f->addr + f->size > img->stay_lo;
        if (is_inside || (img->stays_undescribed && cfg_is_gap_func(f)))
            refuse(f, CFG_REASON_OWN_CODE);
    }
}

/* ---- instructions ---- */

const uint8_t *cfg_code_bytes(const struct image *img, uint64_t lo, uint64_t hi, size_t *more)
{
    const uint8_t *p = image_at(img, lo, hi - lo + X86_MORE_BYTES);
    *more = p ? X86_MORE_BYTES : 0;
    return p ? p : image_at(img, lo, hi - lo);
}

struct insn_list {
    struct cfg_insn *data;
    size_t len, cap;
};

/* Decodes up to the end of the function or the first bytes that are no instruction, behind what the list has. */
static void sweep(const struct cfg *c, struct cfg_func *f, uint64_t *bits, struct insn_list *out)
{
    if (f->reason == CFG_REASON_OVERLAP)
        return;
    size_t more;
    const uint8_t *p = cfg_code_bytes(c->img, f->addr, f->addr + f->size, &more);
    uint32_t at = 0;
    assert(p); /* in_code saw to it */
    VEC_RESERVE(out, out->len + f->size);
    while (at < f->size) {
        struct cfg_insn *i = &out->data[out->len + f->insn_count];
        int n = x86_decode_short(p + at, f->size - at + more, &i->what);
        if (n == 0 || at + (uint32_t)n > f->size) {
            refuse(f, CFG_REASON_UNDECODABLE);
            break;
        }
        i->off = (uint32_t)(f->addr + at - c->insn_base);
        if (x86_short_needs_check(&i->what) && (x86_shape(x86_short_shape(&i->what))->insn.props & X86_PROP_GS))
            refuse(f, CFG_REASON_GS);
        bits[at / 64] |= 1ull << at % 64;
        at += (uint32_t)n;
        f->insn_count++;
    }
    out->len += f->insn_count;
}

#define FUNCS_A_RANGE 64

static void sweep_range(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    struct cfg *c = ctx;
    struct insn_list insns = {list->data, 0, list->cap};
    for (size_t f = first; f < end; f++)
        sweep(c, &c->funcs.data[f], &c->index->bits[c->index->bit_first[f] / 64], &insns);
    *list = (struct parallel_list){insns.data, insns.len, insns.cap};
}

static void take_insns(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    struct cfg *c = ctx;
    uint32_t at = (uint32_t)c->insns.len;
    for (size_t f = first; f < end; f++) {
        c->funcs.data[f].insn_first = at;
        at += c->funcs.data[f].insn_count;
    }
    if (list->len)
        memcpy(c->insns.data + c->insns.len, list->data, list->len * sizeof *c->insns.data);
    c->insns.len += list->len;
}

/* Every function's bits start with a word of their own. False: more than can be numbered. */
static bool index_bits(struct cfg *c)
{
    struct cfg_index *x = c->index = xmalloc(sizeof *x);
    x->bit_first = xmalloc(c->funcs.len * sizeof *x->bit_first);
    uint64_t bits = 0;
    for (size_t f = 0; f < c->funcs.len; f++) {
        x->bit_first[f] = (uint32_t)bits;
        bits += ALIGN_UP((uint64_t)c->funcs.data[f].size, 64ull);
        if (bits >= UINT32_MAX)
            return false;
    }
    x->word_count = (size_t)(bits / 64);
    x->bits = xmalloc(x->word_count * 8);
    x->rank = xmalloc(x->word_count * 4);
    return true;
}

/* How many bits of v are set, without the instruction that not all processors have. */
static inline uint32_t bits_set(uint64_t v)
{
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    return (uint32_t)(((v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}

static void rank_bits(const uint64_t *bits, size_t words, uint32_t *rank)
{
    uint32_t n = 0;
    for (size_t w = 0; w < words; w++) {
        rank[w] = n;
        n += bits_set(bits[w]);
    }
}

/* The function that an address is in, by steps of some bytes: at most eight steps a function. */
static void index_functions(struct cfg *c)
{
    struct cfg_index *x = c->index;
    uint64_t base = c->funcs.data[0].addr, span = c->funcs.data[c->funcs.len - 1].addr - base;
    while (span >> x->step_bits > 8 * c->funcs.len)
        x->step_bits++;
    x->step_count = (size_t)(span >> x->step_bits) + 1;
    x->step_func = xmalloc(x->step_count * sizeof *x->step_func);
    uint32_t f = 0;
    for (size_t k = 0; k < x->step_count; k++) {
        while (f + 1 < c->funcs.len && c->funcs.data[f + 1].addr - base <= (uint64_t)k << x->step_bits)
            f++;
        x->step_func[k] = f;
    }
}

void index_leaders(struct cfg *c)
{
    struct cfg_index *x = c->index;
    x->lead_rank = xmalloc((c->insns.len / 64 + 1) * sizeof *x->lead_rank);
    rank_bits(x->leads, c->insns.len / 64 + 1, x->lead_rank);
}

/* Functions to instructions and the index. */
static int decode_functions(struct cfg *c)
{
    bool is_sorted = true; /* as linkers write the table */
    for (size_t f = 1; f < c->funcs.len && is_sorted; f++)
        is_sorted = by_addr(&c->funcs.data[f - 1], &c->funcs.data[f]) < 0;
    if (!is_sorted)
        qsort(c->funcs.data, c->funcs.len, sizeof *c->funcs.data, by_addr);
    refuse_overlaps(c);
    refuse_staying_code(c);
    for (size_t f = 0; f < c->funcs.len; f++)
        if (c->img->entry && c->funcs.data[f].addr == c->img->entry)
            refuse(&c->funcs.data[f], CFG_REASON_STARTUP);
    const struct cfg_func *last = c->funcs.len ? &c->funcs.data[c->funcs.len - 1] : NULL;
    c->insn_base = c->funcs.len ? c->funcs.data[0].addr : 0;
    if (!index_bits(c) || (last && last->addr + last->size - c->insn_base >= UINT32_MAX))
        return diag_error("%s: its functions reach over more than the 4 GiB that are handled", c->img->path);
    c->insns.cap = c->index->word_count * 64 + 1; /* as if each byte were one: what is not used is no memory */
    c->insns.data = xmalloc(c->insns.cap * sizeof *c->insns.data);
    parallel_lists(c->funcs.len, FUNCS_A_RANGE, sweep_range, take_insns, c);
    VEC_SHRINK(&c->insns);
    rank_bits(c->index->bits, c->index->word_count, c->index->rank);
    if (c->funcs.len)
        index_functions(c);
    return 0;
}

/* Back to functions without instructions. */
static void forget_instructions(struct cfg *c)
{
    VEC_FREE(&c->insns);
    index_free(c->index);
    c->index = NULL;
    for (size_t f = 0; f < c->funcs.len; f++)
        c->funcs.data[f].insn_first = c->funcs.data[f].insn_count = 0;
}

/* needs: image, unwind. fills: funcs, insns, index. */
int build_functions(struct build *b)
{
    struct cfg *c = b->c;
    add_fde_functions(c);
    for (size_t i = 0; i < c->img->section_count; i++)
        if (is_plt_section(&c->img->sections[i]))
            add_plt_stubs(c, &c->img->sections[i]);
    if (decode_functions(c) < 0)
        return -1;
    if (!c->funcs.len || !find_gap_functions(b))
        return 0;
    forget_instructions(c);
    return decode_functions(c);
}

/* ---- look-ups ---- */

static uint32_t func_by_index(const struct cfg *c, uint64_t addr)
{
    const struct cfg_index *x = c->index;
    uint64_t step = (addr - c->insn_base) >> x->step_bits;
    uint32_t f = x->step_func[step < x->step_count ? step : x->step_count - 1];
    if (addr < c->insn_base)
        return ID_NONE;
    while (f + 1 < c->funcs.len && c->funcs.data[f + 1].addr <= addr)
        f++;
    return func_holds(&c->funcs.data[f], addr) ? f : ID_NONE;
}

uint32_t cfg_func_at(const struct cfg *c, uint64_t addr)
{
    if (c->index && c->index->step_func)
        return func_by_index(c, addr);
    /* the first that starts after addr */
    size_t lo = PARTITION_POINT(i, 0, c->funcs.len, c->funcs.data[i].addr <= addr);
    return lo && func_holds(&c->funcs.data[lo - 1], addr) ? (uint32_t)(lo - 1) : ID_NONE;
}

uint32_t insn_in_func(const struct cfg *c, uint32_t func, uint64_t addr)
{
    const struct cfg_index *x = c->index;
    uint32_t bit = x->bit_first[func] + (uint32_t)(addr - c->funcs.data[func].addr);
    uint64_t word = x->bits[bit / 64];
    if (!(word >> bit % 64 & 1))
        return ID_NONE;
    return x->rank[bit / 64] + bits_set(word & ((1ull << bit % 64) - 1));
}

uint32_t cfg_insn_at(const struct cfg *c, uint64_t addr)
{
    uint32_t f = c->index ? cfg_func_at(c, addr) : ID_NONE;
    return f == ID_NONE ? ID_NONE : insn_in_func(c, f, addr);
}

struct x86_insn cfg_insn(const struct cfg *c, uint32_t i)
{
    const struct x86_shape *s = x86_shape(x86_short_shape(&c->insns.data[i].what));
    struct x86_insn out = s->insn;
    out.addr = cfg_insn_addr(c, i);
    out.target = cfg_insn_target(c, i);
    const uint8_t *p = s->rule == X86_TARGET_WIDE ? image_at(c->img, out.addr + out.imm_off, 8) : NULL;
    if (p)
        memcpy(&out.target, p, 8);
    return out;
}

uint32_t func_of_insn(const struct cfg *c, uint32_t insn) { return cfg_func_at(c, cfg_insn_addr(c, insn)); }

uint32_t block_of_leader(const struct cfg *c, uint32_t insn)
{
    const struct cfg_index *x = c->index;
    uint64_t word = x->leads[insn / 64];
    if (!(word >> insn % 64 & 1))
        return ID_NONE;
    return x->lead_rank[insn / 64] + bits_set(word & ((1ull << insn % 64) - 1));
}

uint32_t cfg_block_of(const struct cfg *c, uint32_t insn)
{
    const struct cfg_index *x = c->index;
    return x->lead_rank[insn / 64] + bits_set(x->leads[insn / 64] & ((2ull << insn % 64) - 1)) - 1;
}

/* Of a loaded cfg: blocks tile the function. */
static uint32_t search_block(const struct cfg *c, const struct cfg_func *f, uint64_t addr)
{
    const struct cfg_block *b = c->blocks.data;
    return (uint32_t)PARTITION_POINT(i, f->block_first + 1, f->block_first + f->block_count, b[i].addr <= addr) - 1;
}

uint32_t cfg_block_at(const struct cfg *c, uint64_t addr)
{
    uint32_t f = cfg_func_at(c, addr);
    return f == ID_NONE || c->funcs.data[f].block_count == 0 ? ID_NONE : search_block(c, &c->funcs.data[f], addr);
}

uint32_t cfg_block_start(const struct cfg *c, uint64_t addr)
{
    uint32_t f = cfg_func_at(c, addr);
    if (f == ID_NONE || c->funcs.data[f].block_count == 0)
        return ID_NONE;
    if (c->index && c->index->lead_rank) {
        uint32_t i = insn_in_func(c, f, addr);
        return i == ID_NONE ? ID_NONE : block_of_leader(c, i);
    }
    uint32_t b = search_block(c, &c->funcs.data[f], addr);
    return c->blocks.data[b].addr == addr ? b : ID_NONE;
}
