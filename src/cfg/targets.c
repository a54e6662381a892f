/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks the instructions at which control can arrive other than from the one before: targets of direct branches, code
 * addresses held in data, relocations, symbols and operands, landing pads, and targets of branches in code that belongs
 * to no function. Indirect jumps are for tables.c.
 */
#include "cfg/impl.h"

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>

/* Radix sort by bytes: the values are addresses, so that only some of the bytes differ. */
void sort_u64(uint64_t *v, size_t n)
{
    uint64_t *from = v, *to = xmalloc((n + 1) * sizeof *to), *spare = to;
    uint64_t all_or = 0, all_and = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        all_or |= v[i];
        all_and &= v[i];
    }
    for (int shift = 0; shift < 64; shift += 8) {
        size_t at[257] = {0};
        if (!((all_or ^ all_and) >> shift & 255))
            continue;
        for (size_t i = 0; i < n; i++)
            at[(from[i] >> shift & 255) + 1]++;
        for (int k = 0; k < 256; k++)
            at[k + 1] += at[k];
        for (size_t i = 0; i < n; i++)
            to[at[from[i] >> shift & 255]++] = from[i];
        uint64_t *t = from;
        from = to;
        to = t;
    }
    if (from != v)
        memcpy(v, from, n * sizeof *v);
    free(spare);
}

size_t sort_unique_u64(uint64_t *v, size_t n)
{
    sort_u64(v, n);
    size_t out = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || v[i] != v[i - 1])
            v[out++] = v[i];
    return out;
}

/* ---- what several threads write: marks, and rare things under a lock ---- */

#define FUNCS_A_RANGE 64

static pthread_mutex_t rare = PTHREAD_MUTEX_INITIALIZER;

static void set_mark(struct build *b, uint32_t insn, unsigned mark)
{
    if ((__atomic_load_n(&b->marks[insn], __ATOMIC_RELAXED) & mark) != mark)
        __atomic_fetch_or(&b->marks[insn], (uint8_t)mark, __ATOMIC_RELAXED);
}

static void set_entry_known(struct build *b, uint32_t func)
{
    __atomic_store_n(&b->entry_known[func], 1, __ATOMIC_RELAXED);
}

/* ---- direct branches ---- */

struct branch_list { /* `to` in the upper half of each, `from` in the lower */
    uint64_t *data;
    size_t len, cap;
};

struct branches {              /* of a range of functions */
    struct branch_list inside; /* to the range itself: nearly all */
    struct branch_list outside;
};

struct brancher {
    struct build *b;
    struct branches *ranges;
};

/* glibc skips a lock prefix when there is one thread: `je 1f; lock; 1: cmpxchg ...`. The branch is made to go to the
 * prefix: always locked means the same. */
static uint32_t at_lock_prefix(struct build *b, uint32_t branch, uint32_t g)
{
    uint64_t target = cfg_insn_target(b->c, branch), prefix = target - 1;
    int32_t *distance = &b->c->insns.data[branch].what.value;
    uint32_t to = func_holds(&b->c->funcs.data[g], prefix) ? insn_in_func(b->c, g, prefix) : ID_NONE;
    const uint8_t *p = image_at(b->img, prefix, 1);
    if (to == ID_NONE || !p || *p != 0xf0 || *distance == INT32_MIN)
        return ID_NONE;
    --*distance;
    pthread_mutex_lock(&rare);
    VEC_PUSH(&b->c->split_targets, target);
    pthread_mutex_unlock(&rare);
    return to;
}

static void mark_call(struct build *b, uint32_t g, uint32_t to)
{
    if (to == b->c->funcs.data[g].insn_first)
        set_entry_known(b, g);
    else
        set_mark(b, to, MARK_LEADER | MARK_CALLED);
}

static void mark_branch(struct build *b, struct branches *out, uint32_t f, uint32_t from)
{
    struct cfg *c = b->c;
    uint64_t target = cfg_insn_target(c, from);
    uint32_t g = func_holds(&c->funcs.data[f], target) ? f : cfg_func_at(c, target);
    if (g == ID_NONE)
        return;
    uint32_t to = insn_in_func(c, g, target);
    if (to == ID_NONE)
        to = at_lock_prefix(b, from, g);
    if (to == ID_NONE) {
        pthread_mutex_lock(&rare);
        refuse(&c->funcs.data[g], CFG_REASON_SPLIT_INSN);
        pthread_mutex_unlock(&rare);
    } else if (cfg_kind(c, from) == X86_CALL) {
        mark_call(b, g, to);
    } else {
        struct branch_list *list = g / FUNCS_A_RANGE == f / FUNCS_A_RANGE ? &out->inside : &out->outside;
        set_mark(b, to, MARK_LEADER);
        VEC_PUSH(list, (uint64_t)to << 32 | from);
    }
}

static void branches_of_range(void *ctx, size_t first, size_t end)
{
    const struct brancher *all = ctx;
    const struct cfg *c = all->b->c;
    struct branches *out = &all->ranges[first / FUNCS_A_RANGE];
    for (size_t f = first; f < end; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        cfg_for_each_insn(fn, i)
            if (is_direct_jump(cfg_kind(c, i)) || cfg_kind(c, i) == X86_CALL)
                mark_branch(all->b, out, (uint32_t)f, i);
    }
    sort_u64(out->inside.data, out->inside.len);
}

/* Of all ranges, sorted. */
static struct branch_list branches_outside(const struct brancher *all, size_t count)
{
    struct branch_list out = {0};
    for (size_t k = 0; k < count; k++) {
        struct branch_list *list = &all->ranges[k].outside;
        VEC_RESERVE(&out, out.len + list->len);
        if (list->len)
            memcpy(out.data + out.len, list->data, list->len * sizeof *out.data);
        out.len += list->len;
        VEC_FREE(list);
    }
    sort_u64(out.data, out.len);
    return out;
}

/* By to, then from: ranges follow each other, and what comes from outside is merged in. */
static void join_branches(struct build *b, const struct brancher *all, size_t count)
{
    struct branch_list out = branches_outside(all, count);
    size_t n = out.len, at = 0;
    for (size_t k = 0; k < count; k++)
        n += all->ranges[k].inside.len;
    struct branch *to = b->branches.data = xmalloc((n + 1) * sizeof *to);
    b->branches.len = b->branches.cap = n;
    for (size_t k = 0; k < count; k++) {
        struct branch_list *list = &all->ranges[k].inside;
        for (size_t i = 0; i < list->len; i++) {
            for (; at < out.len && out.data[at] < list->data[i]; at++)
                *to++ = (struct branch){(uint32_t)(out.data[at] >> 32), (uint32_t)out.data[at]};
            *to++ = (struct branch){(uint32_t)(list->data[i] >> 32), (uint32_t)list->data[i]};
        }
        VEC_FREE(list);
    }
    for (; at < out.len; at++)
        *to++ = (struct branch){(uint32_t)(out.data[at] >> 32), (uint32_t)out.data[at]};
    VEC_FREE(&out);
}

/* needs: functions. fills: marks, branches, split_targets, reason SPLIT_INSN. */
void build_branch_targets(struct build *b)
{
    struct cfg *c = b->c;
    size_t count = (c->funcs.len + FUNCS_A_RANGE - 1) / FUNCS_A_RANGE;
    struct brancher all = {b, xmalloc(count * sizeof *all.ranges)};
    parallel_for(c->funcs.len, FUNCS_A_RANGE, branches_of_range, &all);
    join_branches(b, &all, count);
    free(all.ranges);
    c->split_targets.len = sort_unique_u64(c->split_targets.data, c->split_targets.len);
}

/* ---- addresses of code ---- */

/* Somebody holds this address: the word at `place`, or an instruction or symbol (place 0). Anything that is no
 * instruction of ours is ignored: numbers may look like addresses. */
static void mark_address(struct build *b, uint64_t addr, uint64_t place)
{
    struct cfg *c = b->c;
    uint32_t g = cfg_func_at(c, addr), to = g == ID_NONE ? ID_NONE : insn_in_func(c, g, addr);
    if (to == ID_NONE)
        return;
    if (to == c->funcs.data[g].insn_first) {
        set_entry_known(b, g);
        return;
    }
    struct holder h = {place, to};
    set_mark(b, to, MARK_LEADER | (place ? 0 : MARK_FREE_LABEL));
    pthread_mutex_lock(&rare);
    VEC_PUSH(&c->mid_targets, addr);
    if (place)
        VEC_PUSH(&b->holders, h);
    pthread_mutex_unlock(&rare);
}

static void mark_relocs(struct build *b)
{
    const struct image *img = b->img;
    for (size_t k = 0; k < img->reloc_count; k++) {
        const struct image_reloc *r = &img->relocs[k];
        if (r->type == R_X86_64_RELATIVE || r->type == R_X86_64_IRELATIVE) {
            mark_address(b, (uint64_t)r->addend, r->addr);
        } else if (r->type == R_X86_64_64 && r->sym && r->sym < img->dynsym_count) {
            if (img->symbols[r->sym].shndx != SHN_UNDEF)
                mark_address(b, img->symbols[r->sym].addr + (uint64_t)r->addend, r->addr);
        } else if (r->type == R_X86_64_JUMP_SLOT) { /* before it is bound the slot leads back into its PLT stub */
            const uint8_t *p = image_at(img, r->addr, 8);
            uint64_t word;
            if (p) {
                memcpy(&word, p, 8);
                mark_address(b, word, r->addr);
            }
        }
    }
}

/* Exported labels inside a function: other modules may call them. */
static void mark_symbols(struct build *b)
{
    for (size_t k = 1; k < b->img->dynsym_count; k++) {
        const struct image_symbol *s = &b->img->symbols[k];
        bool code = s->type == STT_FUNC || s->type == STT_NOTYPE || s->type == STT_GNU_IFUNC;
        if (code && s->shndx != SHN_UNDEF && s->shndx < SHN_LORESERVE)
            mark_address(b, s->addr, 0);
    }
}

static bool may_hold_pointers(const struct image_section *s)
{
    static const char *const never[] = {".eh_frame", ".eh_frame_hdr", ".gcc_except_table", ".interp", ".dynstr"};
    if (!(s->flags & SHF_ALLOC) || (s->flags & SHF_EXECINSTR) || !s->addr)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        if (strcmp(s->name, never[i]) == 0)
            return false;
    return s->type == SHT_PROGBITS || s->type == SHT_INIT_ARRAY || s->type == SHT_FINI_ARRAY ||
           s->type == SHT_PREINIT_ARRAY;
}

struct word_range {
    uint64_t lo, hi;
    void (*fn)(void *ctx, uint64_t word, uint64_t place);
    void *ctx;
};

static void scan_words(const struct image *img, uint64_t addr, uint64_t len, const struct word_range *r)
{
    uint64_t first = ALIGN_UP(addr, 8ull), end = addr + len;
    const uint8_t *p = end > first ? image_at(img, first, end - first) : NULL;
    for (uint64_t at = 0; p && at + 8 <= end - first; at += 8) {
        uint64_t word;
        memcpy(&word, p + at, 8);
        if (word - r->lo < r->hi - r->lo)
            r->fn(r->ctx, word, first + at);
    }
}

void for_each_data_word(const struct build *b, uint64_t lo, uint64_t hi,
                        void (*fn)(void *ctx, uint64_t word, uint64_t place), void *ctx)
{
    const struct image *img = b->img;
    struct word_range r = {lo, hi, fn, ctx};
    if (img->kind != IMAGE_EXEC)
        return;
    for (size_t k = 0; k < img->section_count; k++)
        if (may_hold_pointers(&img->sections[k]))
            scan_words(img, img->sections[k].addr, img->sections[k].size, &r);
    for (size_t k = 0; img->section_count == 0 && k < img->segment_count; k++)
        if (img->segments[k].type == PT_LOAD && !(img->segments[k].flags & PF_X))
            scan_words(img, img->segments[k].vaddr, img->segments[k].filesz, &r);
}

static void mark_word(void *ctx, uint64_t word, uint64_t place) { mark_address(ctx, word, place); }

/* The address of code that an instruction holds as a value: lea, or an immediate where addresses are fixed. */
static void mark_operand(struct build *b, const struct x86_insn *i)
{
    bool fixed = b->img->kind == IMAGE_EXEC;
    if (i->kind != X86_PLAIN || !i->target)
        return;
    if ((i->props & X86_PROP_LEA) && ((i->props & X86_PROP_RIPREL) || (fixed && (i->props & X86_PROP_ABS32)))) {
        mark_address(b, i->target, 0);
    } else if (fixed && (i->props & X86_PROP_IMM_ADDR)) {
        mark_address(b, (i->props & (X86_PROP_RIPREL | X86_PROP_ABS32)) ? imm_of(b, i) : i->target, 0);
    }
}

#define INSNS_A_RANGE 16384

static void operands_of_range(void *ctx, size_t first, size_t end)
{
    struct build *b = ctx;
    unsigned props = X86_PROP_LEA | (b->img->kind == IMAGE_EXEC ? X86_PROP_IMM_ADDR : 0);
    for (size_t i = first; i < end; i++) {
        if (!cfg_refers(b->c, (uint32_t)i) || !(cfg_shape(b->c, (uint32_t)i)->props & props))
            continue;
        struct x86_insn in = cfg_insn(b->c, (uint32_t)i);
        mark_operand(b, &in);
    }
}

/* needs: functions. fills: marks FREE_LABEL (of code and symbols), holders, entry_known, mid_targets (sorted at the end
 * of the build). */
void build_address_targets(struct build *b)
{
    const struct cfg *c = b->c;
    mark_relocs(b);
    mark_symbols(b);
    if (c->funcs.len)
        for_each_data_word(b, c->funcs.data[0].addr,
                           c->funcs.data[c->funcs.len - 1].addr + c->funcs.data[c->funcs.len - 1].size, mark_word, b);
    parallel_for(c->insns.len, INSNS_A_RANGE, operands_of_range, b);
}

/* ---- landing pads ---- */

struct pad_ctx {
    struct build *b;
    uint32_t func;
    bool bad;
};

static void mark_pad(void *ctx, uint64_t pad)
{
    struct pad_ctx *p = ctx;
    const struct cfg_func *f = &p->b->c->funcs.data[p->func];
    uint32_t to = func_holds(f, pad) ? insn_in_func(p->b->c, p->func, pad) : cfg_insn_at(p->b->c, pad);
    if (to == ID_NONE)
        p->bad = true;
    else
        set_mark(p->b, to, MARK_LEADER | MARK_PAD);
}

/* needs: functions. fills: marks PAD, reason UNWIND where the exception table is not understood. */
void build_landing_pads(struct build *b)
{
    struct cfg *c = b->c;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        struct cfg_func *fn = &c->funcs.data[f];
        if (fn->fde == ID_NONE || fn->is_plt || !c->unwind.fdes[fn->fde].lsda || !fn->insn_count)
            continue;
        struct pad_ctx ctx = {.b = b, .func = f};
        if (image_unwind_landing_pads(b->img, &c->unwind, fn->fde, mark_pad, &ctx) < 0 || ctx.bad)
            refuse(fn, CFG_REASON_UNWIND);
    }
}

/* ---- code outside all functions ---- */

static void mark_outside_insn(struct build *b, const struct x86_insn *i)
{
    struct cfg *c = b->c;
    bool jump = is_direct_jump(i->kind);
    if (!jump && i->kind != X86_CALL) {
        mark_operand(b, i);
        return;
    }
    uint32_t g = cfg_func_at(c, i->target), to = g == ID_NONE ? ID_NONE : insn_in_func(c, g, i->target);
    if (to == ID_NONE)
        return;
    b->entry_known[g] |= to == c->funcs.data[g].insn_first;
    if (to == c->funcs.data[g].insn_first)
        return;
    b->marks[to] |= (uint8_t)(MARK_LEADER | (jump ? MARK_FREE_LABEL : MARK_CALLED));
    VEC_PUSH(&c->outside_targets, i->target);
}

/* Data may stand among such code, so that some of what is found here never runs: a few block borders too many. */
static void sweep_gap(struct build *b, uint64_t addr, uint64_t end)
{
    size_t more = 0;
    const uint8_t *p = end > addr ? cfg_code_bytes(b->img, addr, end, &more) : NULL;
    struct x86_insn i;
    for (uint64_t at = 0; p && at < end - addr;) {
        int n = x86_decode_before(p + at, end - addr - at, more, addr + at, &i);
        if (n)
            mark_outside_insn(b, &i);
        at += n ? (uint64_t)n : 1;
    }
}

static void sweep_outside(struct build *b, uint64_t addr, uint64_t end)
{
    const struct cfg *c = b->c;
    uint64_t at = addr;
    for (size_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        if (fn->addr + fn->size <= at || fn->addr >= end || fn->reason == CFG_REASON_OVERLAP)
            continue;
        sweep_gap(b, at, min_u64(fn->addr, end));
        at = fn->addr + fn->size;
        if (fn->reason == CFG_REASON_UNDECODABLE && fn->insn_count) {
            uint32_t last = fn->insn_first + fn->insn_count - 1;
            at = cfg_insn_addr(c, last) + cfg_len(c, last);
        }
    }
    sweep_gap(b, at, end);
}

/* needs: functions, reasons UNDECODABLE and OVERLAP. fills: marks, outside_targets, bytes_code. */
void build_outside_targets(struct build *b)
{
    struct cfg *c = b->c;
    for (size_t k = 0; k < b->img->section_count; k++) {
        const struct image_section *s = &b->img->sections[k];
        if (!(s->flags & SHF_ALLOC) || !(s->flags & SHF_EXECINSTR) || s->type == SHT_NOBITS)
            continue;
        c->bytes_code += s->size;
        sweep_outside(b, s->addr, s->addr + s->size);
    }
    for (size_t k = 0; b->img->section_count == 0 && k < b->img->segment_count; k++) {
        const struct image_segment *s = &b->img->segments[k];
        if (s->type != PT_LOAD || !(s->flags & PF_X))
            continue;
        c->bytes_code += s->filesz;
        sweep_outside(b, s->vaddr, s->vaddr + s->filesz);
    }
    c->outside_targets.len = sort_unique_u64(c->outside_targets.data, c->outside_targets.len);
}
