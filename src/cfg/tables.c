/* SPDX-License-Identifier: Apache-2.0
 *
 * Indirect jumps to jump tables: slices every indirect jump, measures each table it finds, adds the edges, and repeats
 * until nothing new is found, because handlers of an interpreter are reached through the table itself.
 *
 * The number of entries is the longest run that can be entries, never less: a rewritten table with too many entries is
 * harmless, one with too few is not, and the compare before the jump is sometimes another one's. So the bound of a
 * compare only ever adds entries.
 */
#include "cfg/impl.h"

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>

#define ENTRIES_MAX 65536
#define SOFT_RUN_MAX 8 /* doubtful entries in a row before the table is taken to have ended */
#define ROUNDS_MAX 12
#define FUNCS_A_RANGE 64
#define JUMPS_A_RANGE 64

/* ---- entries ---- */

static uint64_t absolute_entry(const struct build *b, uint64_t place)
{
    const struct image_reloc *r = image_reloc_at(b->img, place);
    if (r)
        return r->type == R_X86_64_RELATIVE ? (uint64_t)r->addend : 0;
    const uint8_t *p = b->img->kind == IMAGE_EXEC ? image_at(b->img, place, 8) : NULL;
    uint64_t word = 0;
    if (p)
        memcpy(&word, p, 8);
    return word;
}

uint64_t table_entry(const struct build *b, const struct found_table *t, uint32_t k)
{
    if (t->kind == CFG_TABLE_ABS64)
        return absolute_entry(b, t->addr + 8ull * k);
    const uint8_t *p = image_at(b->img, t->addr + 4ull * k, 4);
    int32_t v;
    if (!p)
        return 0;
    memcpy(&v, p, 4);
    return t->base + (uint64_t)(int64_t)v;
}

static bool jumps_into(const struct build *b, const struct cfg_func *from, const struct cfg_func *to, bool to_start)
{
    cfg_for_each_insn(from, i) {
        uint64_t target = is_direct_jump(cfg_kind(b->c, i)) ? cfg_insn_target(b->c, i) : 0;
        if (target && func_holds(to, target) && (to_start || target != to->addr))
            return true;
    }
    return false;
}

/* Is g the part of f that the compiler moved away? */
static bool is_partner(const struct build *b, uint32_t f, uint32_t g, bool trust_unknown_entry)
{
    const struct cfg_func *from = &b->c->funcs.data[f], *to = &b->c->funcs.data[g];
    if (to->is_plt || to->fde == ID_NONE)
        return false;
    if (trust_unknown_entry && !b->entry_known[g])
        return true;
    return image_unwind_cfa_rsp_offset(b->img, &b->c->unwind, &b->c->unwind.fdes[to->fde], to->addr) != 8 ||
           jumps_into(b, from, to, true) || jumps_into(b, to, from, false);
}

enum fit { FIT_NONE, FIT_SOFT, FIT_GOOD };

/* Could this be an entry of a table of function f? Soft: it is some instruction, so it may stand between good ones.
 * LLVM fills the places of impossible cases with the end of the function. */
static enum fit fit_entry(const struct build *b, uint32_t f, const struct found_table *t, uint64_t addr)
{
    const struct cfg *c = b->c;
    if (addr == c->funcs.data[f].addr + c->funcs.data[f].size)
        return FIT_GOOD;
    uint32_t g = !addr ? ID_NONE : func_holds(&c->funcs.data[f], addr) ? f : cfg_func_at(c, addr);
    if (g == ID_NONE || insn_in_func(c, g, addr) == ID_NONE)
        return FIT_NONE;
    bool at_start = addr == c->funcs.data[g].addr;
    if (g == f)
        return at_start && t->kind == CFG_TABLE_ABS64 ? FIT_SOFT : FIT_GOOD;
    return is_partner(b, f, g, t->kind == CFG_TABLE_PIC32) ? FIT_GOOD : FIT_SOFT;
}

static uint64_t next_start(const struct build *b, uint64_t addr)
{
    size_t lo = PARTITION_POINT(i, 0, b->table_starts.len, b->table_starts.data[i] <= addr);
    return lo < b->table_starts.len ? b->table_starts.data[lo] : UINT64_MAX;
}

/* Entries of t, a table of function f: up to the last good one before the run of possible ones ends or another table
 * starts; but if the whole range that the compare allows consists of instructions, all of it. */
static uint32_t scan(const struct build *b, uint32_t f, const struct found_table *t)
{
    uint32_t bytes = t->kind == CFG_TABLE_ABS64 ? 8 : 4, good = 0, k = 0, soft = 0;
    uint64_t limit = next_start(b, t->addr);
    bool in_run = true;
    for (; k < ENTRIES_MAX; k++) {
        uint64_t place = t->addr + (uint64_t)bytes * k;
        if (k >= t->bound && (place >= limit || !in_run))
            break;
        if (image_is_code(b->img, place))
            break;
        enum fit fit = fit_entry(b, f, t, table_entry(b, t, k));
        if (fit == FIT_NONE)
            break;
        soft = fit == FIT_SOFT ? soft + 1 : 0;
        in_run = in_run && soft <= SOFT_RUN_MAX && place < limit;
        if (in_run && fit == FIT_GOOD)
            good = k + 1;
    }
    return k >= t->bound && t->bound > good ? t->bound : good;
}

/* ---- the compare before the jump ---- */

static uint32_t bound_of_compare(const struct build *b, uint32_t cmp, uint32_t load)
{
    const struct cfg *c = b->c;
    uint64_t imm = insn_imm(b, cmp);
    for (uint32_t i = cmp + 1; i < load; i++) {
        const struct x86_insn *j = cfg_shape(c, i);
        if (j->kind == X86_JCC && imm < ENTRIES_MAX)
            return j->cond == 7 ? (uint32_t)imm + 1 : j->cond == 3 ? (uint32_t)imm : 0; /* ja, jae */
        if (j->flags_written)
            break;
    }
    return 0;
}

/* Upper bound of the index register of the table read at `load`, as the nearest compare before it says; 0: none. A mask
 * does not count: compilers leave out entries that they know to be impossible. */
static uint32_t find_bound(const struct build *b, const struct cfg_func *f, uint32_t load)
{
    const struct cfg *c = b->c;
    const struct x86_insn *l = cfg_shape(c, load);
    uint8_t reg = l->mem_index < 16 ? l->mem_index : l->mem_base;
    if (reg >= 16)
        return 0;
    for (uint32_t i = load; i-- > f->insn_first && load - i < 32;) {
        const struct x86_insn *in = cfg_shape(c, i);
        bool reads = in->gpr_read >> reg & 1, writes = in->gpr_written >> reg & 1;
        if (!goes_on(b, i))
            return 0;
        if (in->op == X86_OP_CMP && reads && in->imm_len && !in->loads)
            return bound_of_compare(b, i, load);
        if (!writes)
            continue;
        bool copy = !in->loads && in->gpr_read && !(in->gpr_read & (in->gpr_read - 1)) && !in->imm_len &&
                    (in->op == X86_OP_MOV || in->op == X86_OP_MOVSXD || (in->op == X86_OP_OTHER && !in->flags_written));
        if (!copy)
            return 0;
        reg = (uint8_t)__builtin_ctz(in->gpr_read); /* mov, movzx, movsx */
    }
    return 0;
}

/* ---- rounds ---- */

static void add_start(struct build *b, uint64_t addr)
{
    size_t k = b->table_starts.len;
    VEC_PUSH(&b->table_starts, addr);
    for (; k && b->table_starts.data[k - 1] > addr; k--)
        b->table_starts.data[k] = b->table_starts.data[k - 1];
    b->table_starts.data[k] = addr;
}

static bool has_start(const struct build *b, uint64_t addr) { return addr && next_start(b, addr - 1) == addr; }

/* The tables of a slice as found_table, appended; entries still 0. */
static uint32_t add_found(struct build *b, const struct cfg_func *f, const struct backward_slice_result *r)
{
    uint32_t n = 0, base_first = (uint32_t)b->refs.len;
    for (size_t k = 0; k < r->base_refs.len; k++)
        VEC_PUSH(&b->refs, r->base_refs.data[k]);
    for (size_t k = 0; k < r->refs.len; k++) {
        uint64_t addr = r->refs.data[k].addr;
        if (k == 0 || addr != r->refs.data[k - 1].addr) {
            struct found_table t = {.addr = addr,
                                    .base = r->label ? r->label : addr,
                                    .ref_first = (uint32_t)b->refs.len,

                                    .base_ref_first = base_first,
                                    .base_ref_count = (uint32_t)r->base_refs.len,
                                    .at_least = r->at_least,
                                    .kind = r->kind,
                                    .is_single = r->is_single};
            t.by_reloc = t.kind == CFG_TABLE_ABS64 && image_reloc_at(b->img, addr);
            t.bound = r->is_single ? 0 : find_bound(b, f, r->load);
            VEC_PUSH(&b->tables, t);
            n++;
        }
        VEC_PUSH(&b->refs, r->refs.data[k].insn);
        b->tables.data[b->tables.len - 1].ref_count++;
    }
    return n;
}

static uint32_t count_entries(const struct build *b, uint32_t f, const struct found_table *t)
{
    if (!image_is_readonly_data(b->img, t->addr))
        return 0;
    if (t->is_single)
        return fit_entry(b, f, t, table_entry(b, t, 0)) == FIT_GOOD;
    uint32_t n = scan(b, f, t);
    return n >= t->at_least ? n : 0;
}

/* What was measured of this table of this jump, or NULL. */
static struct measure *measure_of(const struct build *b, const struct jump *j, const struct found_table *t)
{
    for (uint32_t k = j->measure_first; k < j->measure_first + j->measure_count; k++) {
        struct measure *m = &b->measures.data[k];
        if (m->addr == t->addr && m->base == t->base && m->at_least == t->at_least && m->bound == t->bound &&
            m->kind == t->kind && m->is_single == t->is_single && m->limit == next_start(b, t->addr))
            return m;
    }
    return NULL;
}

static uint32_t measure(const struct build *b, const struct jump *j, const struct found_table *t)
{
    const struct measure *m = measure_of(b, j, t);
    return m ? m->entries : count_entries(b, j->func, t);
}

/* ---- groups ---- */

static uint32_t add_link(struct build *b, uint32_t what, uint32_t next)
{
    struct link l = {what, next};
    VEC_PUSH(&b->links, l);
    return (uint32_t)b->links.len;
}

static bool has_link(const struct build *b, uint32_t list, uint32_t what)
{
    for (; list; list = b->links.data[list - 1].next)
        if (b->links.data[list - 1].what == what)
            return true;
    return false;
}

uint32_t groups_to(const struct build *b, uint32_t insn)
{
    uint64_t list = 0;
    map_get(&b->groups_to, insn, &list);
    return (uint32_t)list;
}

/* The group of the table or label at addr, with jump j in it. */
static uint32_t join_group(struct build *b, uint64_t addr, const struct jump *j, bool *changed)
{
    uint64_t found = 0;
    if (!map_get(&b->group_of, addr, &found)) {
        struct jump_group g = {.addr = addr};
        VEC_PUSH(&b->groups, g);
        found = b->groups.len;
        map_put(&b->group_of, addr, found);
    }
    struct jump_group *g = &b->groups.data[found - 1];
    if (!has_link(b, g->jumps, j->insn)) {
        uint32_t list = add_link(b, j->insn, g->jumps);
        g->jumps = list;
        *changed = true;
    }
    return (uint32_t)found - 1;
}

static void reach(struct build *b, uint32_t group, uint32_t to, bool *changed)
{
    uint32_t list = groups_to(b, to);
    if (to == ID_NONE || has_link(b, list, group))
        return;
    map_put(&b->groups_to, to, add_link(b, group, list));
    b->marks[to] |= MARK_LEADER;
    *changed = true;
}

/* Measures what the slice found. False: some of it cannot be a table or a label of this function. */
static bool take_targets(struct build *b, struct jump *j, const struct backward_slice_result *r)
{
    const struct cfg_func *f = &b->c->funcs.data[j->func];
    j->table_first = (uint32_t)b->tables.len;
    j->label_first = (uint32_t)b->labels.len;
    j->table_count = add_found(b, f, r);
    for (uint32_t k = 0; k < j->table_count; k++) {
        struct found_table *t = &b->tables.data[j->table_first + k];
        if (!t->is_single && !has_start(b, t->addr) && image_is_readonly_data(b->img, t->addr))
            add_start(b, t->addr);
        t->entries = measure(b, j, t);
        diag_debug(3, "cfg: table %llx entries %u compare %u", (unsigned long long)t->addr, t->entries, t->bound);
        if (t->entries == 0)
            return false;
    }
    for (size_t k = 0; k < r->labels.len; k++) {
        uint64_t label = r->labels.data[k];
        if (!func_holds(f, label) || insn_in_func(b->c, j->func, label) == ID_NONE)
            return false;
        VEC_PUSH(&b->labels, label);
        j->label_count++;
    }
    return true;
}

/* Slices j again; true if that added edges. */
static bool resolve(struct build *b, struct jump *j, struct backward_slice_result *r)
{
    bool changed = false;
    size_t refs_before = b->refs.len;
    j->table_count = j->label_count = 0;
    backward_slice_jump(b, j->insn, j->func, r);
    j->class = (uint8_t)r->class;
    j->doubt = r->doubt;
    if (r->class != JUMP_TABLE)
        return false;
    if (!take_targets(b, j, r)) {
        j->class = r->kind == CFG_TABLE_PIC32 && r->refs.len ? JUMP_UNKNOWN : JUMP_POINTER;
        b->tables.len = j->table_first;
        b->labels.len = j->label_first;
        b->refs.len = refs_before;
        j->table_count = j->label_count = 0;
    }
    for (uint32_t k = 0; k < j->table_count; k++) {
        const struct found_table *t = &b->tables.data[j->table_first + k];
        uint32_t group = join_group(b, t->addr, j, &changed);
        struct measure *m = measure_of(b, j, t);
        for (uint32_t e = 0; e < t->entries && !(m && m->is_reached); e++)
            reach(b, group, cfg_insn_at(b->c, table_entry(b, t, e)), &changed);
        if (m)
            m->is_reached = true;
    }
    for (uint32_t k = 0; k < j->label_count; k++) {
        uint64_t label = b->labels.data[j->label_first + k];
        reach(b, join_group(b, label, j, &changed), insn_in_func(b->c, j->func, label), &changed);
    }
    return changed;
}

/* Until a whole round finds nothing new; then every verdict holds in the final graph. */
static void resolve_function(struct build *b, size_t first, size_t end, struct backward_slice_result *r)
{
    size_t tables_before = b->tables.len, refs_before = b->refs.len, labels_before = b->labels.len;
    bool changed = true;
    for (int round = 0; changed && round < ROUNDS_MAX; round++) {
        changed = false;
        b->tables.len = tables_before;
        b->refs.len = refs_before;
        b->labels.len = labels_before;
        for (size_t k = first; k < end; k++)
            changed |= resolve(b, &b->jumps.data[k], r);
    }
    for (size_t k = first; changed && k < end; k++) /* never seen; better nothing than half of it */
        b->jumps.data[k].class = JUMP_UNKNOWN;
}

/* ---- what jumps say that need no knowledge of others, by all processors ---- */

static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static struct measure first_measure(const struct build *b, const struct jump *j, const struct backward_slice_result *r,
                                    uint64_t addr)
{
    return (struct measure){.addr = addr,
                            .base = r->label ? r->label : addr,
                            .at_least = r->at_least,
                            .bound = r->is_single ? 0 : find_bound(b, &b->c->funcs.data[j->func], r->load),
                            .kind = r->kind,
                            .is_single = r->is_single};
}

/* Its tables, with no entries yet; and where they start, so that no table is measured into the next. */
static void add_measures(struct build *b, struct jump *j, const struct backward_slice_result *r)
{
    pthread_mutex_lock(&adding);
    j->measure_first = (uint32_t)b->measures.len;
    for (size_t t = 0; t < r->refs.len; t++) {
        uint64_t addr = r->refs.data[t].addr;
        if (t && addr == r->refs.data[t - 1].addr)
            continue;
        struct measure m = first_measure(b, j, r, addr);
        VEC_PUSH(&b->measures, m);
        if (!r->is_single && image_is_readonly_data(b->img, addr))
            VEC_PUSH(&b->table_starts, addr);
    }
    j->measure_count = (uint32_t)b->measures.len - j->measure_first;
    pthread_mutex_unlock(&adding);
}

static void starts_of_range(void *ctx, size_t first, size_t end)
{
    struct build *b = ctx;
    struct backward_slice_result r = {0};
    for (size_t k = first; k < end; k++) {
        struct jump *j = &b->jumps.data[k];
        if (b->c->funcs.data[j->func].is_plt)
            continue;
        backward_slice_jump(b, j->insn, j->func, &r);
        if (r.class == JUMP_TABLE)
            add_measures(b, j, &r);
    }
    backward_slice_result_fini(&r);
}

static void measure_range(void *ctx, size_t first, size_t end)
{
    struct build *b = ctx;
    for (size_t k = first; k < end; k++) {
        const struct jump *j = &b->jumps.data[k];
        for (uint32_t i = j->measure_first; i < j->measure_first + j->measure_count; i++) {
            struct measure *m = &b->measures.data[i];
            struct found_table t = {.addr = m->addr,
                                    .base = m->base,
                                    .bound = m->bound,
                                    .at_least = m->at_least,
                                    .kind = m->kind,
                                    .is_single = m->is_single};
            m->limit = next_start(b, m->addr);
            m->entries = count_entries(b, j->func, &t);
        }
    }
}

static void learn_starts(struct build *b)
{
    parallel_for(b->jumps.len, JUMPS_A_RANGE, starts_of_range, b);
    b->table_starts.len = sort_unique_u64(b->table_starts.data, b->table_starts.len);
    parallel_for(b->jumps.len, JUMPS_A_RANGE, measure_range, b);
}

struct jump_list {
    struct jump *data;
    size_t len, cap;
};

struct lister {
    const struct cfg *c;
    struct jump_list *lists; /* of ranges of functions */
};

static void list_range(void *ctx, size_t first, size_t end)
{
    const struct lister *l = ctx;
    const struct cfg *c = l->c;
    struct jump_list *out = &l->lists[first / FUNCS_A_RANGE];
    for (uint32_t f = (uint32_t)first; f < end; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        cfg_for_each_insn(fn, i)
            if (cfg_kind(c, i) == X86_JMP_IND) {
                struct jump j = {.insn = i, .func = f, .class = JUMP_POINTER};
                VEC_PUSH(out, j);
            }
    }
}

static void list_jumps(struct build *b)
{
    size_t count = b->c->funcs.len / FUNCS_A_RANGE + 1;
    struct lister l = {b->c, xmalloc(count * sizeof *l.lists)};
    parallel_for(b->c->funcs.len, FUNCS_A_RANGE, list_range, &l);
    for (size_t k = 0; k < count; k++) {
        for (size_t i = 0; i < l.lists[k].len; i++)
            VEC_PUSH(&b->jumps, l.lists[k].data[i]);
        VEC_FREE(&l.lists[k]);
    }
    free(l.lists);
}

/* needs: all marks, branches. fills: jumps, tables, refs, marks of table targets, unresolved, reason TABLE. */
void build_tables(struct build *b)
{
    struct backward_slice_result r = {0};
    list_jumps(b);
    learn_starts(b);
    for (size_t k = 0, end; k < b->jumps.len; k = end) {
        for (end = k + 1; end < b->jumps.len && b->jumps.data[end].func == b->jumps.data[k].func; end++)
            ;
        if (!b->c->funcs.data[b->jumps.data[k].func].is_plt)
            resolve_function(b, k, end, &r);
    }
    decide_unresolved(b);
    backward_slice_result_fini(&r);
}
