/* SPDX-License-Identifier: Apache-2.0
 *
 * Of traces that only simulated caches read: a part of a block is not written if nothing of what it loads and stores
 * changes anything in them. The thread's state has two tables of lines by their low bits (wire/trace.h), as `mtool spy`
 * has (reference_code.c): the last line that was touched, and that line again if it was written to since. All lines of
 * a set have the same low bits, so a line that stands there is the last one of its set, and a reference to it hits and
 * leaves the order of use as it is. If that is so of each access of a part when it begins, none of them changes
 * anything, and so it stays until the last one. Of each item (accesses that lie close together):
 *
 *     lea one,[...]; mov two,one; and one,-64+bytes-1   what is not aligned is no line's address; of vectors, and of
 *     shr two,2; and two,[mask]                         several accesses, the first and the last line are asked for
 *     cmp one,[slots+two]; jne written
 *
 * and where all are passed, the part is counted with those of the same numbers of fetches, loads, stores:
 *
 *     mov one,[counts]; inc [one+...]
 *
 * Else the runtime is asked of each line that is not the last one of its place, access by access, in their order
 * (ldrt/trace_kept.h): the part may still change nothing but the order of lines.
 */
#include "rewrite/instruments/trace/code.h"
#include "rewrite/rewrite.h"
#include "wire/trace.h"

enum {
    ITEMS_MAX = 24,
    LINE_BYTES = 1 << WIRE_TRACE_LINE_SHIFT,
    NEAR_MAX = 1 << 30,
    WORD = 8,
    INCREMENT = 0xff,
    CALL_BYTES = 5
};
_Static_assert(4 * ITEMS_MAX <= RW_OPERANDS_MAX, "there is room for all");

/* ---- which ---- */

/* Is this access made by the instruction's operand that has its displacement? Then not by push, call and the like. */
static bool is_explicit(const struct x86_insn *i, const struct x86_access *a)
{
    uint8_t base = i->mem_base == X86_REG_RIP ? X86_REG_NONE : i->mem_base;
    return a->base == base && a->index == i->mem_index;
}

/* A string instruction that does nothing but store. */
static bool repeat_of(const struct rewrite_trace_plan *plan, const struct rewrite_trace_access *x,
                      struct rw_trace_item *out)
{
    const struct rewrite_trace_access *other = x + 1;
    bool is_one = other == plan->accesses + plan->access_count || other->insn != x->insn;
    is_one &= x == plan->accesses || x[-1].insn != x->insn;
    if (!is_one || x->has_rest || x->access.is_load || x->count_word >= (int)plan->entry_count ||
        x->count_plus != (int32_t)x->count_plus)
        return false;
    const struct rewrite_trace_word *v = &plan->entry[x->count_word];
    out->repeats = true;
    out->count_base = v->base;
    out->count_index = v->index;
    out->count_scale = v->scale;
    out->count_plus = x->count_plus;
    return true;
}

static bool item_of(const struct rw *w, uint32_t block, const struct x86_detail *insns,
                    const struct rewrite_trace_plan *plan, const struct rewrite_trace_access *x,
                    struct rw_trace_item *out)
{
    const struct x86_insn *i = &insns[x->insn].insn;
    const struct x86_access *a = &x->access;
    uint32_t insn = w->cfg->blocks.data[block].insn_first + x->insn;
    bool is_relocated = w->displacements[insn] == RW_DISPLACEMENT_RELOCATED && is_explicit(i, a);
    bool is_rip = i->props & X86_PROP_RIPREL && a->base == X86_REG_NONE && a->index == X86_REG_NONE;
    *out = (struct rw_trace_item){.disp = x->plus,
                                  .insn = is_relocated ? insn : ID_NONE,
                                  .base = is_rip ? X86_REG_RIP : X86_REG_NONE,
                                  .index = X86_REG_NONE,
                                  .bytes = (uint8_t)a->bytes,
                                  .is_store = a->is_store,
                                  .is_thread = a->segment == X86_SEGMENT_FS};
    if (x->is_reach || x->word >= (int)plan->entry_count || a->bytes > LINE_BYTES || (is_rip && !is_relocated))
        return false;
    if (x->count_word >= 0 && !repeat_of(plan, x, out))
        return false;
    if (x->word >= 0) {
        const struct rewrite_trace_word *v = &plan->entry[x->word];
        out->base = v->base;
        out->index = v->index;
        out->scale = v->scale;
    }
    if (!is_relocated)
        out->disp += a->disp;
    return out->disp > -NEAR_MAX && out->disp < NEAR_MAX && !(out->is_thread && (out->base == X86_RSP || is_rip));
}

static bool is_near(const struct rw_trace_item *a, const struct rw_trace_item *b)
{
    return a->insn == ID_NONE && b->insn == ID_NONE && a->base == b->base && a->index == b->index &&
           a->scale == b->scale && a->is_thread == b->is_thread;
}

/* Both as one, if they are of the same kind and so near that they reach two lines at most; or if b is in a. What a
 * frame holds is mostly written to: there loads are asked for as if they were stores. */
static bool join(struct rw_trace_item *a, const struct rw_trace_item *b)
{
    int64_t lo = a->disp < b->disp ? a->disp : b->disp, a_end = a->disp + a->bytes, b_end = b->disp + b->bytes;
    int64_t end = a_end > b_end ? a_end : b_end;
    if (a->repeats || b->repeats)
        return false;
    bool is_inside = lo == a->disp && end == a_end && a->is_store, is_frame = a->base == X86_RSP;
    if (!is_near(a, b) || end - lo > LINE_BYTES || (a->is_store != b->is_store && !is_inside && !is_frame))
        return false;
    a->is_store |= b->is_store;
    a->is_joined |= end - lo > a->bytes;
    a->disp = lo;
    a->bytes = (uint8_t)(end - lo);
    return true;
}

static void add_check(struct rw_trace_items *items, struct rw_trace_filter *f, const struct rw_trace_item *x)
{
    for (uint32_t k = f->checks; k < f->checks + f->check_count; k++)
        if (join(&items->data[k], x))
            return;
    VEC_PUSH(items, *x);
    f->check_count++;
}

/* A linker may make another instruction of it, or of the one in front, which then is no part of a pair any more. */
static bool is_sure(const struct rw *w, uint32_t block, unsigned first, unsigned end)
{
    uint32_t from = w->cfg->blocks.data[block].insn_first;
    for (unsigned i = first ? first - 1 : 0; i < end; i++)
        if (w->displacements[from + i] == RW_DISPLACEMENT_UNSURE)
            return false;
    return true;
}

static void find_items(const struct rw *w, uint32_t block, const struct x86_detail *insns,
                       const struct rewrite_trace_plan *plan, struct rw_trace_items *items, struct rw_trace_filter *f)
{
    for (int marks = 0; marks < 2; marks++)
        for (unsigned k = 0; k < plan->access_count; k++) {
            struct rw_trace_item x;
            if (!item_of(w, block, insns, plan, &plan->accesses[k], &x)) {
                f->how = RW_TRACE_UNKNOWN;
                return;
            }
            if (!marks) {
                add_check(items, f, &x);
                f->marks = (uint32_t)items->len;
            } else {
                VEC_PUSH(items, x);
                f->mark_count++;
            }
        }
}

void rw_trace_filter_find(const struct rw *w, uint32_t block, const struct x86_detail *insns, unsigned first,
                          unsigned end, const struct rewrite_trace_plan *plan, struct rw_trace_items *items,
                          struct rw_trace_filter *out)
{
    uint32_t at = (uint32_t)items->len;
    *out =
        (struct rw_trace_filter){.how = plan->untold ? RW_TRACE_ALWAYS : RW_TRACE_FILTERED, .checks = at, .marks = at};
    out->made[0] = (uint8_t)(end - first);
    for (unsigned k = 0; k < plan->access_count; k++) {
        const struct x86_access *a = &plan->accesses[k].access;
        if (plan->accesses[k].count_word >= 0)
            out->how = RW_TRACE_ALWAYS;
        out->made[a->is_load && a->is_store ? 3 : a->is_store ? 2 : 1]++;
    }
    if (plan->late_count || plan->access_count > ITEMS_MAX || !is_sure(w, block, first, end))
        out->how = RW_TRACE_UNKNOWN;
    else
        find_items(w, block, insns, plan, items, out);
    if (out->how == RW_TRACE_UNKNOWN) {
        items->len = at;
        out->check_count = out->mark_count = 0;
    }
}

bool rw_trace_filter_has_operands(const struct rw_trace_filter *f, const struct rw_trace_item *items)
{
    for (uint32_t k = f->marks; k < f->marks + f->mark_count; k++)
        if (items[k].insn != ID_NONE)
            return true;
    return false;
}

/* ---- the code ---- */

/* Of byte number `plus` of an item, into `one`. Its last four bytes are the displacement, where one is relocated: as
 * the original's has it so many. */
static void put_address(struct rw_trace_code *c, const struct rw_trace_item *x, unsigned plus)
{
    struct operand m = {0, x->base, x->index, x->scale, x->disp + plus};
    if (x->base == X86_RSP)
        m.disp += c->stack_bytes;
    int64_t more = m.disp;
    if (x->insn != ID_NONE) /* in full */
        m.disp = NEAR_MAX;
    if (x->is_thread) {
        trace_insn(c, LOAD, c->one, (struct operand){FS, X86_REG_NONE, X86_REG_NONE, 0, 0});
        if (m.base != X86_REG_NONE)
            trace_insn(c, LEA, c->one, (struct operand){0, c->one, m.base, 1, 0});
        m.base = c->one;
    }
    if (x->base == X86_REG_RIP) {
        *c->p++ = (uint8_t)(0x48 | c->one >> 3 << 2);
        *c->p++ = LEA;
        *c->p++ = (uint8_t)(0x05 | (c->one & 7) << 3);
        c->p = rw_put32(c->p, 0);
    } else {
        trace_insn(c, LEA, c->one, m);
    }
    if (x->insn != ID_NONE && c->operands)
        c->operands[c->operand_count++] =
            (struct rw_operand){.insn = x->insn, .end = (unsigned)(c->p - c->first), .more = more};
}

static struct operand in_slot(const struct rw_trace_code *c, size_t what)
{
    return (struct operand){0, c->state, c->two, 1, (int64_t)(WIRE_TRACE_STATE_SLOTS + what)};
}

static void put_register_number(struct rw_trace_code *c, uint8_t code, unsigned what, unsigned reg, uint8_t number)
{
    *c->p++ = (uint8_t)(0x48 | reg >> 3);
    *c->p++ = code;
    *c->p++ = (uint8_t)(0xc0 | what << 3 | (reg & 7));
    *c->p++ = number;
}

/* From the address in `one` to that of its line there, with its lowest bits below `keep`, and the line's slot in `two`.
 */
static void put_line(struct rw_trace_code *c, unsigned keep)
{
    enum { AND = 4, SHIFT = 0xc1, RIGHT = 5 };
    *c->p++ = (uint8_t)(0x48 | c->one >> 3 << 2 | c->two >> 3); /* mov two,one */
    *c->p++ = STORE;
    *c->p++ = (uint8_t)(0xc0 | (c->one & 7) << 3 | (c->two & 7));
    put_register_number(c, WITH_BYTE, AND, c->one, (uint8_t)(-LINE_BYTES | (int)(keep - 1)));
    put_register_number(c, SHIFT, RIGHT, c->two, WIRE_TRACE_LINE_SHIFT - WIRE_TRACE_SLOT_SHIFT);
    trace_insn(c, AND_FROM, c->two, trace_at(c->state, WIRE_TRACE_STATE_MASK));
}

static const size_t touched = offsetof(struct wire_trace_slot, touched),
                    written_to = offsetof(struct wire_trace_slot, written);

static void put_check(struct rw_trace_code *c, unsigned keep, bool is_store, uint64_t written)
{
    put_line(c, keep);
    trace_insn(c, COMPARE, c->one, in_slot(c, is_store ? written_to : touched));
    trace_jump_if_to(c, NOT_EQUAL, written);
}

static void put_item_check(struct rw_trace_code *c, const struct rw_trace_item *x, uint64_t written)
{
    bool may_cross = x->is_joined || x->bytes > WORD || x->bytes & (x->bytes - 1);
    put_address(c, x, 0);
    put_check(c, may_cross ? 1 : x->bytes, x->is_store, written);
    if (may_cross) {
        put_address(c, x, x->bytes - 1u);
        put_check(c, 1, x->is_store, written);
    }
}

/* As many at once as the number of a place in the thread's counts can say. */
static void count(struct rw_trace_code *c, const struct rw_trace_filter *f)
{
    unsigned left[RW_TRACE_KINDS], fetches = f->made[0];
    for (int k = 0; k < RW_TRACE_KINDS; k++)
        left[k] = f->made[k];
    do {
        unsigned loads = (unsigned)min_u64(left[1], WIRE_TRACE_LOADS_MAX),
                 stores = (unsigned)min_u64(left[2], WIRE_TRACE_STORES_MAX),
                 both = (unsigned)min_u64(left[3], WIRE_TRACE_MODIFIES_MAX);
        trace_insn(c, INCREMENT, 0, trace_at(c->one, 8 * (int64_t)WIRE_TRACE_LEFT_OUT(fetches, loads, stores, both)));
        left[1] -= loads;
        left[2] -= stores;
        left[3] -= both;
        fetches = 0;
    } while (left[1] + left[2] + left[3]);
}

void rw_trace_put_checks(struct rw_trace_code *c, const struct rw_trace_filter *f, const struct rw_trace_item *items,
                         uint64_t written)
{
    for (uint32_t k = f->checks; k < f->checks + f->check_count; k++)
        put_item_check(c, &items[k], written);
}

void rw_trace_put_counts(struct rw_trace_code *c, const struct rw_trace_filter *f, uint64_t written)
{
    trace_insn(c, LOAD, c->one, trace_at(c->state, WIRE_TRACE_STATE_COUNTS));
    if (!f->check_count) { /* tables say nothing */
        trace_test(c, c->one);
        trace_jump_if_to(c, EQUAL, written);
    }
    count(c, f);
}

static void put_reached(struct rw_trace_code *c, bool is_store)
{
    enum { OR = 1 };
    put_line(c, 1);
    trace_insn(c, COMPARE, c->one, in_slot(c, is_store ? written_to : touched));
    uint8_t *same = trace_jump_if(c, EQUAL);
    if (is_store)
        put_register_number(c, WITH_BYTE, OR, c->one, 1);
    trace_insn(c, STORE, c->one, on_stack(RW_TRACE_LINE));
    rw_put_call(c->p, trace_here(c), rw_link_hook(c->w, RW_LINK_TRACE_LINE));
    c->p += CALL_BYTES;
    trace_arrive(c, same);
}

static void put_range(struct rw_trace_code *c, const struct rw_trace_item *x)
{
    enum { SHIFT = 0xc1, LEFT = 4 };
    struct operand count = {0, x->count_base, x->count_index, x->count_scale, x->count_plus};
    if (x->count_base == X86_RSP)
        count.disp += c->stack_bytes;
    put_address(c, x, 0);
    trace_insn(c, STORE, c->one, on_stack(RW_TRACE_LINE));
    trace_insn(c, LEA, c->one, count);
    put_register_number(c, SHIFT, LEFT, c->one, (uint8_t)__builtin_ctz(x->bytes));
    trace_insn(c, STORE, c->one, on_stack(RW_TRACE_BYTES));
    rw_put_call(c->p, trace_here(c), rw_link_hook(c->w, RW_LINK_TRACE_RANGE));
    c->p += CALL_BYTES;
}

void rw_trace_put_lines(struct rw_trace_code *c, const struct rw_trace_filter *f, const struct rw_trace_item *items)
{
    for (uint32_t k = f->marks; k < f->marks + f->mark_count; k++) {
        if (items[k].repeats) {
            put_range(c, &items[k]);
            continue;
        }
        put_address(c, &items[k], 0);
        put_reached(c, items[k].is_store);
        if (items[k].bytes == 1)
            continue;
        put_address(c, &items[k], items[k].bytes - 1u);
        put_reached(c, items[k].is_store);
    }
}
