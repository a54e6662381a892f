/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions are moved, which entries get a jump. "The original may run" is a closure: functions left alone, or
 * with a jump that may go anywhere, plus all they branch into. No jump is written over a byte (after its first) where
 * anything in that closure, or any code pointer in data, may land.
 *
 * needs: cfg. fills: funcs, patches; sets cfg reasons of functions refused here.
 */
#include "rewrite/impl.h"

#include <elf.h>

#define PATCH_BYTES 5
#define FUNCS_A_RANGE 64

static void refuse(struct rw *w, uint32_t f, enum cfg_reason why)
{
    w->cfg->funcs.data[f].reason = (uint16_t)why;
    w->funcs[f].is_moved = false;
    w->funcs[f].is_patched = false;
}

/* All places where control may arrive without going through a function's first byte: code pointers in data, branch
 * targets of code that may still run. Kept as a bit for each byte of [lo, hi). */
struct branch_targets {
    uint64_t lo, hi;
    uint8_t *bits;
    uint8_t *is_propagated, *is_scanned; /* [funcs]: done once, for good */
};

static void add_branch_target(struct branch_targets *l, uint64_t addr)
{
    if (addr >= l->lo && addr < l->hi)
        l->bits[(addr - l->lo) / 8] |= (uint8_t)(1u << ((addr - l->lo) % 8));
}

static bool is_branch_target(const struct branch_targets *l, uint64_t addr)
{
    return addr >= l->lo && addr < l->hi && (l->bits[(addr - l->lo) / 8] >> ((addr - l->lo) % 8) & 1);
}

static bool has_target(uint8_t kind)
{
    return kind == X86_JMP || kind == X86_JCC || kind == X86_JCXZ || kind == X86_XBEGIN || kind == X86_CALL;
}

enum {
    DOUBT_BYTES = 128
}; /* around bytes that are no instruction; further on the cuts between instructions are right again */

/* Any byte could start a short branch. */
static void add_short_target(struct branch_targets *l, const uint8_t *p, uint64_t lo, uint64_t hi)
{
    for (uint64_t a = lo; a + 2 <= hi; a++, p++)
        if (*p == 0xeb || (*p & 0xf0) == 0x70 || (*p >= 0xe0 && *p <= 0xe3))
            add_branch_target(l, a + 2 + (uint64_t)(int64_t)(int8_t)p[1]);
}

static void add_long_target(struct branch_targets *l, const uint8_t *p, uint64_t lo, uint64_t hi)
{
    for (uint64_t a = lo; a + 5 <= hi; a++, p++) {
        int32_t rel;
        if (*p == 0xe8 || *p == 0xe9) {
            memcpy(&rel, p + 1, 4);
            add_branch_target(l, a + 5 + (uint64_t)(int64_t)rel);
        }
        if (a + 6 <= hi && *p == 0x0f && (p[1] & 0xf0) == 0x80) {
            memcpy(&rel, p + 2, 4);
            add_branch_target(l, a + 6 + (uint64_t)(int64_t)rel);
        }
    }
}

/* Code that belongs to no function, or not to be decoded: each byte that looks like the start of a branch is taken for
 * one, since too many landings only cost a few entry jumps. Short ones, which would be everywhere, are looked for where
 * instructions start, and near bytes that are none. */
static void add_byte_targets(struct branch_targets *l, const struct image *img, uint64_t lo, uint64_t hi)
{
    size_t more;
    const uint8_t *p = cfg_code_bytes(img, lo, hi, &more);
    uint64_t done = lo; /* short ones from any byte before it */
    struct x86_insn i;
    if (!p)
        return;
    add_long_target(l, p, lo, hi);
    for (uint64_t a = lo; a < hi;) {
        if (x86_decode_before(p + (a - lo), hi - a, more, a, &i)) {
            if (has_target(i.kind))
                add_branch_target(l, i.target);
            a += i.len;
            continue;
        }
        uint64_t from = max_u64(done, a - lo > DOUBT_BYTES ? a - DOUBT_BYTES : lo);
        done = min_u64(hi, a + DOUBT_BYTES);
        add_short_target(l, p + (from - lo), from, done);
        a++;
    }
}

/* Lands the branches of one function's original body. */
static void add_func_targets(struct rw *w, struct branch_targets *l, uint32_t f)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    if (!fn->insn_count) {
        add_byte_targets(l, w->img, fn->addr, fn->addr + fn->size);
        return;
    }
    cfg_for_each_insn(fn, i)
        if (has_target(cfg_kind(w->cfg, i)))
            add_branch_target(l, cfg_insn_target(w->cfg, i));
}

/* Functions that a function's original body can enter other than by their first byte. */
static bool propagate(struct rw *w, uint32_t f)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    bool any = false;
    cfg_for_each_insn(fn, i) {
        if (!has_target(cfg_kind(w->cfg, i)))
            continue;
        uint64_t target = cfg_insn_target(w->cfg, i);
        uint32_t g = cfg_func_at(w->cfg, target);
        if (g == ID_NONE || g == f || w->funcs[g].may_run || w->cfg->funcs.data[g].addr == target)
            continue;
        w->funcs[g].may_run = true;
        any = true;
    }
    return any;
}

/* The pieces of executable sections between functions. */
static void add_gap_targets(struct rw *w, struct branch_targets *l)
{
    struct cfg *c = w->cfg;
    for (size_t s = 0; s < w->img->section_count; s++) {
        const struct image_section *sec = &w->img->sections[s];
        if (!(sec->flags & SHF_EXECINSTR) || sec->type == SHT_NOBITS || !sec->size)
            continue;
        uint64_t at = sec->addr, end = sec->addr + sec->size;
        size_t lo = PARTITION_POINT(i, 0, c->funcs.len, c->funcs.data[i].addr + c->funcs.data[i].size <= at);
        for (; lo < c->funcs.len && c->funcs.data[lo].addr < end; lo++) {
            if (c->funcs.data[lo].addr > at)
                add_byte_targets(l, w->img, at, c->funcs.data[lo].addr);
            at = max_u64(at, c->funcs.data[lo].addr + c->funcs.data[lo].size);
        }
        if (at < end)
            add_byte_targets(l, w->img, at, end);
    }
}

static bool is_padding(const struct rw *w, uint64_t lo, uint64_t hi)
{
    const uint8_t *p = image_at(w->img, lo, hi - lo);
    if (!p || !image_is_code(w->img, lo) || !image_is_code(w->img, hi - 1))
        return false;
    for (uint64_t a = lo; a < hi; a++) {
        uint8_t b = p[a - lo];
        if (cfg_func_at(w->cfg, a) != ID_NONE)
            return false;
        if (b != 0x90 && b != 0xcc && b != 0 && b != 0x66 && b != 0x0f && b != 0x1f && b != 0x44 && b != 0x40 &&
            b != 0x2e && b != 0x84 && b != 0x80)
            return false;
    }
    return true;
}

/* Can a 5-byte jump stand at addr in function f? */
static enum cfg_reason patch_fits(const struct rw *w, const struct branch_targets *l, const struct cfg_func *fn,
                                  uint64_t addr)
{
    uint64_t end = fn->addr + fn->size;
    if (addr + PATCH_BYTES > end && !is_padding(w, end, addr + PATCH_BYTES))
        return CFG_REASON_TOO_SMALL;
    for (uint64_t a = addr + 1; a < addr + PATCH_BYTES; a++)
        if (is_branch_target(l, a))
            return CFG_REASON_LANDING;
    return CFG_REASON_OK;
}

static bool reads_own_address(const struct rw *w, const struct cfg_func *fn)
{
    cfg_for_each_insn(fn, i) {
        if (cfg_kind(w->cfg, i) == X86_CALL &&
            cfg_insn_target(w->cfg, i) == cfg_insn_addr(w->cfg, i) + cfg_len(w->cfg, i) &&
            cfg_insn_target(w->cfg, i) < fn->addr + fn->size) /* else it is the function behind */
            return true;
    }
    return false;
}

/* Does the instruction change the return address where it stands, as code does that skips what follows its call? */
static bool edits_return(const struct rw *w, const struct cfg_func *fn, uint32_t insn)
{
    if (!cfg_needs_check(w->cfg, insn))
        return false;
    const struct x86_insn *in = cfg_shape(w->cfg, insn);
    if (!in->loads || !in->stores || in->mem_base != X86_RSP || in->mem_index != X86_REG_NONE || in->op_bytes != 8 ||
        fn->fde == ID_NONE || (in->op != X86_OP_ADD && in->op != X86_OP_SUB))
        return false;
    const uint8_t *p = in->disp_len ? image_at(w->img, cfg_insn_addr(w->cfg, insn) + in->disp_off, in->disp_len) : NULL;
    int32_t disp = 0;
    if (p && in->disp_len == 1)
        disp = (int8_t)*p;
    else if (p)
        memcpy(&disp, p, 4);
    int64_t cfa = image_unwind_cfa_rsp_offset(w->img, &w->cfg->unwind, &w->cfg->unwind.fdes[fn->fde],
                                              cfg_insn_addr(w->cfg, insn));
    return disp >= 0 && cfa == disp + 8;
}

static void find_edits(void *ctx, size_t first, size_t end)
{
    struct rw *w = ctx;
    for (uint32_t f = (uint32_t)first; f < end; f++) {
        const struct cfg_func *fn = &w->cfg->funcs.data[f];
        w->funcs[f].edits_return = fn->reason == CFG_REASON_RETURN;
        cfg_for_each_insn(fn, i)
            w->funcs[f].edits_return |= edits_return(w, fn, i);
    }
}

/* Such a function, and what calls it, stay: what is inserted behind a call would be in the way. */
static void refuse_return_edits(struct rw *w)
{
    const struct cfg *c = w->cfg;
    bool any = false;
    parallel_for(c->funcs.len, FUNCS_A_RANGE, find_edits, w);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        any |= w->funcs[f].edits_return;
    for (uint32_t f = 0; any && f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        bool stays = w->funcs[f].edits_return;
        for (uint32_t i = fn->insn_first; i < fn->insn_first + fn->insn_count && !stays; i++) {
            uint32_t to = cfg_kind(c, i) == X86_CALL ? cfg_func_at(c, cfg_insn_target(c, i)) : ID_NONE;
            stays = to != ID_NONE && w->funcs[to].edits_return;
        }
        if (stays && w->funcs[f].is_moved)
            refuse(w, f, CFG_REASON_RETURN);
        w->funcs[f].may_run |= stays;
    }
}

static bool branch_is_stuck(const struct rw *w, const struct cfg_func *fn)
{
    cfg_for_each_insn(fn, i) {
        if (cfg_kind(w->cfg, i) == X86_XBEGIN && cfg_shape(w->cfg, i)->disp_len != 4)
            return true;
    }
    return false;
}

static bool has_text_reloc(const struct rw *w, const struct cfg_func *fn)
{
    size_t lo = PARTITION_POINT(i, 0, w->img->reloc_count, w->img->relocs[i].addr + 8 <= fn->addr);
    return lo < w->img->reloc_count && w->img->relocs[lo].addr < fn->addr + fn->size;
}

/* A jump from an address inside moved function f to the copy of the block there, if there is one and the jump fits. Not
 * in what no unwind table describes: nothing proves that what stands at an address that is held there is code. */
static void patch_inside(struct rw *w, const struct branch_targets *l, uint32_t f, uint64_t addr)
{
    uint32_t b = cfg_block_start(w->cfg, addr);
    if (b == ID_NONE || cfg_is_gap_func(&w->cfg->funcs.data[f]) ||
        patch_fits(w, l, &w->cfg->funcs.data[f], addr) != CFG_REASON_OK ||
        !(w->cfg->blocks.data[b].flags & CFG_BLOCK_EXT_IN))
        return;
    struct rw_patch p = {addr, b};
    VEC_PUSH(&w->patches, p);
}

/* Addresses inside functions that code holds in registers, or that are in data: whoever goes there comes back to the
 * copy, so that counting resumes. */
static void patch_labels(struct rw *w, const struct branch_targets *l)
{
    for (size_t i = 0; i < w->cfg->mid_targets.len; i++) {
        uint64_t addr = w->cfg->mid_targets.data[i];
        uint32_t f = cfg_func_at(w->cfg, addr);
        if (f != ID_NONE && w->funcs[f].is_moved)
            patch_inside(w, l, f, addr);
    }
}

/* Addresses inside functions that outsiders know by name: they get a jump of their own. */
static void patch_exports(struct rw *w, const struct branch_targets *l)
{
    for (size_t s = 1; s < w->img->dynsym_count; s++) {
        const struct image_symbol *sym = &w->img->symbols[s];
        if (sym->shndx == 0 || !sym->addr ||
            (sym->type != STT_FUNC && sym->type != STT_GNU_IFUNC && sym->type != STT_NOTYPE))
            continue;
        uint32_t f = cfg_func_at(w->cfg, sym->addr);
        if (f == ID_NONE || !w->funcs[f].is_moved || w->cfg->funcs.data[f].addr == sym->addr)
            continue;
        w->funcs[f].may_run = true;
        patch_inside(w, l, f, sym->addr);
    }
}

/* glibc's clone and clone3 end their frame description in front of the system call, so they stay where they are: the
 * runtime must hear of the threads that they make all the same. */
static void find_clones(struct rw *w, const struct branch_targets *l, uint64_t lo, uint64_t hi)
{
    enum { MOV_EAX = 0xb8, BYTES = 7 };
    const uint8_t *first = image_at(w->img, lo, hi - lo), *end = first ? first + (hi - lo) : NULL, *p = first;
    for (; p && (size_t)(end - p) >= BYTES && (p = memchr(p, MOV_EAX, (size_t)(end - p) - BYTES + 1)); p++) {
        uint32_t number;
        uint64_t a = lo + (uint64_t)(p - first);
        memcpy(&number, p + 1, 4);
        if ((number != 56 && number != 435) || p[5] != 0x0f || p[6] != 0x05)
            continue;
        bool free = true;
        for (uint64_t k = a + 1; k < a + PATCH_BYTES; k++)
            free &= !is_branch_target(l, k);
        uint32_t f = cfg_func_at(w->cfg, a);
        struct rw_hook h = {a, number, 0};
        if (free && (f == ID_NONE || !w->funcs[f].is_moved))
            VEC_PUSH(&w->hooks, h);
    }
}

/* One round: what may run, where it lands, whose entry jump does not fit. True if a function was refused. */
static bool round_of_refusals(struct rw *w, struct branch_targets *l)
{
    struct cfg *c = w->cfg;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t f = 0; f < c->funcs.len; f++)
            if (w->funcs[f].may_run && !l->is_propagated[f]) {
                l->is_propagated[f] = 1;
                again |= propagate(w, f);
            }
    }
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (w->funcs[f].may_run && !l->is_scanned[f]) {
            l->is_scanned[f] = 1;
            add_func_targets(w, l, f);
        }
    bool any = false;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        if (!w->funcs[f].is_moved)
            continue;
        enum cfg_reason why = patch_fits(w, l, &c->funcs.data[f], c->funcs.data[f].addr);
        if (why == CFG_REASON_OK)
            continue;
        refuse(w, f, why);
        w->funcs[f].may_run = true;
        any = true;
    }
    return any;
}

/* What had no description gets none: neither the original nor its copy can be unwound through. */
static bool can_unwind(const struct rw *w, const struct cfg_func *fn)
{
    const struct image_unwind *u = &w->cfg->unwind;
    if (fn->fde == ID_NONE)
        return true;
    return u->fdes[fn->fde].addr == fn->addr && u->fdes[fn->fde].len_bytes == fn->size &&
           image_unwind_can_move(w->img, u, fn->fde);
}

/* Blocks with a system call inside: it need not come back. False if one ends in a jump through a table: what leaves by
 * the call could not be told from what leaves by the jump (no compiler makes such a block). */
static bool mark_syscalls(struct cfg *c, const struct cfg_func *fn)
{
    bool ok = true;
    cfg_for_each_block(fn, b) {
        struct cfg_block *blk = &c->blocks.data[b];
        cfg_for_each_insn(blk, i)
            if (cfg_kind(c, i) == X86_SYSCALL)
                blk->flags |= CFG_BLOCK_SYSCALL;
        ok &= !(blk->flags & CFG_BLOCK_SYSCALL && blk->term == X86_JMP_IND);
    }
    return ok;
}

/* ---- functions that run while the dynamic linker relocates ---- */

static void mark_early(const struct rw *w, uint8_t *early, uint64_t addr)
{
    uint32_t f = cfg_func_at(w->cfg, addr);
    if (f != ID_NONE)
        early[f] = 1;
}

/* All that a function calls or branches into. True if that is new. */
static bool propagate_early(const struct rw *w, uint8_t *early, uint32_t f)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    bool any = false;
    cfg_for_each_insn(fn, i) {
        uint32_t g = has_target(cfg_kind(w->cfg, i)) ? cfg_func_at(w->cfg, cfg_insn_target(w->cfg, i)) : ID_NONE;
        if (g == ID_NONE || early[g])
            continue;
        early[g] = 1;
        any = true;
    }
    return any;
}

/* Which functions count through gs: all but those that may run before the runtime knows the module, on a thread with a
 * slot: what chooses the implementation of a function (IFUNC), and what that calls. It calls nothing by the GOT, which
 * is not filled yet. */
static void find_gs(struct rw *w)
{
    struct cfg *c = w->cfg;
    uint8_t *early = ARENA_ARRAY(w->arena, uint8_t, c->funcs.len + 1);
    for (size_t s = 1; s < w->img->symbol_count; s++)
        if (w->img->symbols[s].type == STT_GNU_IFUNC && w->img->symbols[s].shndx)
            mark_early(w, early, w->img->symbols[s].addr);
    for (size_t r = 0; r < w->img->reloc_count; r++)
        if (w->img->relocs[r].type == R_X86_64_IRELATIVE)
            mark_early(w, early, (uint64_t)w->img->relocs[r].addend);
    for (bool again = true; again;) {
        again = false;
        for (uint32_t f = 0; f < c->funcs.len; f++)
            if (early[f])
                again |= propagate_early(w, early, f);
    }
    for (uint32_t f = 0; f < c->funcs.len; f++)
        w->funcs[f].gs = w->opt->threads && w->funcs[f].is_moved && !early[f];
}

/* Does the module use gs itself, as emulators of other systems do? */
struct gs_found {
    const struct rw *w;
    bool any;
};

static void gs_in_range(void *ctx, size_t first, size_t end)
{
    struct gs_found *g = ctx;
    for (size_t i = first; i < end; i++)
        if (cfg_needs_check(g->w->cfg, (uint32_t)i) && (cfg_shape(g->w->cfg, (uint32_t)i)->props & X86_PROP_GS))
            __atomic_store_n(&g->any, true, __ATOMIC_RELAXED);
}

bool rw_owns_gs(const struct rw *w)
{
    struct gs_found g = {w, false};
    parallel_for(w->cfg->insns.len, 1 << 16, gs_in_range, &g);
    return g.any;
}

/* What a function says about itself. */
static void judge_range(void *ctx, size_t first, size_t end)
{
    struct rw *w = ctx;
    struct cfg *c = w->cfg;
    for (uint32_t f = (uint32_t)first; f < end; f++) {
        struct cfg_func *fn = &c->funcs.data[f];
        w->funcs[f].is_moved = fn->reason == CFG_REASON_OK && fn->block_count > 0 && w->instrument->moves;
        if (w->funcs[f].is_moved && !fn->is_plt && !can_unwind(w, fn))
            refuse(w, f, CFG_REASON_UNWIND);
        else if (w->funcs[f].is_moved && reads_own_address(w, fn))
            refuse(w, f, CFG_REASON_GETPC);
        else if (w->funcs[f].is_moved && !mark_syscalls(c, fn))
            refuse(w, f, CFG_REASON_TABLE);
        else if (w->funcs[f].is_moved && has_text_reloc(w, fn))
            refuse(w, f, CFG_REASON_TEXT_RELOC);
        else if (w->funcs[f].is_moved && branch_is_stuck(w, fn))
            refuse(w, f, CFG_REASON_SHORT_BRANCH);
        w->funcs[f].may_run =
            !w->funcs[f].is_moved || fn->unresolved || fn->is_plt; /* a lazy GOT entry points into its stub */
    }
}

void rw_judge(struct rw *w)
{
    w->funcs = ARENA_ARRAY(w->arena, struct rw_func, w->cfg->funcs.len + 1);
    parallel_for(w->cfg->funcs.len, FUNCS_A_RANGE, judge_range, w);
    refuse_return_edits(w);
}

void rw_decide(struct rw *w)
{
    struct cfg *c = w->cfg;
    rw_judge(w);
    struct branch_targets l = {.lo = w->img->vaddr_lo, .hi = w->img->vaddr_hi};
    l.bits = ARENA_SPARSE(w->arena, uint8_t, (l.hi - l.lo) / 8 + 1); /* of zeros of the image, too */
    l.is_propagated = ARENA_ARRAY(w->arena, uint8_t, c->funcs.len + 1);
    l.is_scanned = ARENA_ARRAY(w->arena, uint8_t, c->funcs.len + 1);
    add_gap_targets(w, &l);
    for (size_t i = 0; i < c->mid_targets.len; i++) {
        add_branch_target(&l, c->mid_targets.data[i]);
        uint32_t f = cfg_func_at(c, c->mid_targets.data[i]);
        if (f != ID_NONE)
            w->funcs[f].may_run = true;
    }
    for (size_t i = 0; i < c->outside_targets.len; i++) {
        uint32_t f = cfg_func_at(c, c->outside_targets.data[i]);
        if (f != ID_NONE)
            w->funcs[f].may_run = true;
    }
    for (size_t i = 0; i < c->split_targets.len; i++)
        add_branch_target(&l, c->split_targets.data[i]);
    while (round_of_refusals(w, &l))
        ;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        if (!w->funcs[f].is_moved)
            continue;
        w->funcs[f].is_patched = true;
        struct rw_patch p = {c->funcs.data[f].addr, c->funcs.data[f].block_first};
        VEC_PUSH(&w->patches, p);
    }
    patch_labels(w, &l);
    patch_exports(w, &l);
    find_gs(w);
    for (size_t s = 0; s < w->img->section_count && rw_has_words(w); s++) {
        const struct image_section *sec = &w->img->sections[s];
        if ((sec->flags & SHF_EXECINSTR) && sec->type != SHT_NOBITS)
            find_clones(w, &l, sec->addr, sec->addr + sec->size);
    }
}
