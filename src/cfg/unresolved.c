/* SPDX-License-Identifier: Apache-2.0
 *
 * What an indirect jump that is no table means for its function: whether it can come back into it, and where. */
#include "cfg/impl.h"

#include <elf.h>
#include <stdlib.h>

struct word_table {
    uint64_t lo, hi;
    bool shared; /* its address is held by others than its jumps */
};
struct word_tables {
    struct word_table *data;
    size_t len, cap;
};

static bool has_labels(const struct build *b, const struct cfg_func *f)
{
    cfg_for_each_insn(f, i)
        if (b->marks[i] & MARK_FREE_LABEL)
            return true;
    return false;
}

static int by_range(const void *x, const void *y)
{
    const struct word_table *a = x, *b = y;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

/* The absolute tables of all understood jumps, disjoint and sorted. */
static void list_word_tables(struct build *b, struct word_tables *w)
{
    for (size_t k = 0; k < b->jumps.len; k++) {
        const struct jump *j = &b->jumps.data[k];
        for (uint32_t t = j->table_first; j->class == JUMP_TABLE && t < j->table_first + j->table_count; t++) {
            const struct found_table *tab = &b->tables.data[t];
            for (uint32_t r = tab->ref_first; r < tab->ref_first + tab->ref_count; r++)
                b->marks[b->refs.data[r]] |= MARK_TABLE_REF;
            struct word_table x = {tab->addr, tab->addr + 8ull * tab->entries, false};
            if (tab->kind == CFG_TABLE_ABS64)
                VEC_PUSH(w, x);
        }
    }
    if (w->len)
        qsort(w->data, w->len, sizeof *w->data, by_range);
    size_t n = 0;
    for (size_t k = 0; k < w->len; k++) {
        if (n && w->data[k].lo < w->data[n - 1].hi)
            w->data[n - 1].hi = max_u64(w->data[n - 1].hi, w->data[k].hi);
        else
            w->data[n++] = w->data[k];
    }
    w->len = n;
}

static struct word_table *table_around(const struct word_tables *w, uint64_t addr)
{
    if (!w->len || addr < w->data[0].lo || addr >= w->data[w->len - 1].hi)
        return NULL;
    size_t lo = PARTITION_POINT(i, 0, w->len, w->data[i].lo <= addr);
    return lo && addr < w->data[lo - 1].hi ? &w->data[lo - 1] : NULL;
}

static void note_other_use(const struct word_tables *w, uint64_t addr)
{
    struct word_table *t = table_around(w, addr);
    if (t)
        __atomic_store_n(&t->shared, true, __ATOMIC_RELAXED);
}

static void note_word(void *ctx, uint64_t word, uint64_t place)
{
    (void)place;
    note_other_use(ctx, word);
}

struct sharing {
    const struct build *b;
    const struct word_tables *w;
};

#define INSNS_A_RANGE 65536

static void uses_of_range(void *ctx, size_t first, size_t end)
{
    const struct sharing *s = ctx;
    const struct build *b = s->b;
    const struct cfg *c = b->c;
    bool fixed = b->img->kind == IMAGE_EXEC;
    for (uint32_t i = (uint32_t)first; i < end; i++) {
        if (!cfg_refers(c, i))
            continue;
        uint16_t props = cfg_shape(c, i)->props;
        bool memory = props & (X86_PROP_RIPREL | X86_PROP_ABS32);
        if (memory && !(b->marks[i] & MARK_TABLE_REF))
            note_other_use(s->w, cfg_insn_target(c, i));
        if (fixed && (props & X86_PROP_IMM_ADDR) && !(b->marks[i] & MARK_TABLE_REF))
            note_other_use(s->w, memory ? insn_imm(b, i) : cfg_insn(c, i).target);
    }
}

/* Whoever else holds the address of a table may read labels out of it. */
static void find_shared_tables(struct build *b, struct word_tables *w)
{
    struct sharing s = {b, w};
    parallel_for(b->c->insns.len, INSNS_A_RANGE, uses_of_range, &s);
    for (size_t k = 0; k < b->img->reloc_count; k++)
        if (b->img->relocs[k].type == R_X86_64_RELATIVE)
            note_other_use(w, (uint64_t)b->img->relocs[k].addend);
    for_each_data_word(b, w->data[0].lo, w->data[w->len - 1].hi, note_word, w);
}

/* Words inside the tables of understood jumps are read by these jumps only, unless others use the table too. Whoever
 * else holds the address of a label may jump to it. */
static void find_free_labels(struct build *b)
{
    struct word_tables w = {0};
    list_word_tables(b, &w);
    if (w.len)
        find_shared_tables(b, &w);
    for (size_t k = 0; k < b->holders.len; k++) {
        const struct word_table *t = table_around(&w, b->holders.data[k].place);
        if (!t || t->shared)
            b->marks[b->holders.data[k].insn] |= MARK_FREE_LABEL;
    }
    VEC_FREE(&w);
}

/* Does a known way lead to instruction i, other than from the one before it? */
static bool is_target(const struct build *b, uint32_t i)
{
    size_t branch = first_branch_to(b, i);
    return b->marks[i] & (MARK_PAD | MARK_FREE_LABEL) || groups_to(b, i) ||
           (branch < b->branches.len && b->branches.data[branch].to == i);
}

/* Is there code in f that no known way leads to? A table that is not understood leads there. */
static bool has_unreached(const struct build *b, const struct cfg_func *f)
{
    bool reached = true;
    cfg_for_each_insn(f, i) {
        const struct x86_insn *in = cfg_shape(b->c, i);
        reached = reached || is_target(b, i);
        if (!reached && in->kind != X86_TRAP && !(in->props & X86_PROP_NOP)) /* no padding */
            return true;
        reached = reached && goes_on(b, i);
    }
    return false;
}

/* A jump to an absolute address that somebody holds can come back into the function only at a label whose address is
 * taken: those are known. With the frame closed (CFA is rsp+8) it leaves the function for good, as far as we can tell;
 * with the frame open it goes to one of the labels. A computed address that is not understood may go anywhere: with the
 * frame open, or with code that nothing else leads to, that is a table we do not know; and where labels are known, it
 * may be computed from one of them, which then must not move. */
static void decide(struct build *b, struct jump *j)
{
    struct cfg_func *f = &b->c->funcs.data[j->func];
    if (j->class == JUMP_TABLE)
        f->unresolved |= j->doubt;
    if (j->class == JUMP_TABLE || f->is_plt)
        return;
    bool labels = has_labels(b, f);
    if (j->class == JUMP_POINTER && !labels)
        return;
    bool closed = f->fde != ID_NONE && image_unwind_cfa_rsp_offset(b->img, &b->c->unwind, &b->c->unwind.fdes[f->fde],
                                                                   cfg_insn_addr(b->c, j->insn)) == 8;
    f->unresolved = 1;
    diag_debug(1, "cfg: %llx: %s target, frame %s", (unsigned long long)cfg_insn_addr(b->c, j->insn),
               j->class == JUMP_POINTER ? "pointer" : "unknown", closed ? "closed" : "open");
    if (j->class == JUMP_POINTER)
        j->to_labels = !closed;
    else if (!closed || labels || has_unreached(b, f))
        refuse(f, CFG_REASON_TABLE);
}

void decide_unresolved(struct build *b)
{
    find_free_labels(b);
    for (size_t k = 0; k < b->jumps.len; k++)
        decide(b, &b->jumps.data[k]);
}
