/* SPDX-License-Identifier: Apache-2.0
 * Expressions of call frame instructions (DWARF 5 section 2.5) to a word: of linkage stubs, whose stack depth goes by
 * the address, and of functions that realign their stack. What only debug information uses (pieces, types, calls) is
 * not known here. */
#include <dwarf.h>

#include "image/impl.h"

enum { REG_RIP = 16, DEPTH_MAX = 16, STEPS_MAX = 256 };

struct evaluation {
    const struct image_frame *frame;
    image_read_word read;
    void *ctx;
    struct cursor code;
    const uint8_t *begin;
    uint64_t stack[DEPTH_MAX];
    unsigned depth;
    bool is_bad;
};

static void push(struct evaluation *e, uint64_t word)
{
    e->is_bad |= e->depth == DEPTH_MAX;
    if (!e->is_bad)
        e->stack[e->depth++] = word;
}

static uint64_t pop(struct evaluation *e)
{
    e->is_bad |= !e->depth;
    return e->is_bad ? 0 : e->stack[--e->depth];
}

static void push_nth(struct evaluation *e, unsigned from_top)
{
    e->is_bad |= from_top >= e->depth;
    push(e, e->is_bad ? 0 : e->stack[e->depth - 1 - from_top]);
}

static void push_register(struct evaluation *e, unsigned reg)
{
    const struct image_frame *f = e->frame;
    uint64_t offset = (uint64_t)cursor_sleb(&e->code);
    e->is_bad |= reg != REG_RIP && (reg >= IMAGE_FRAME_REGS || !(f->known >> reg & 1));
    push(e, e->is_bad ? 0 : (reg == REG_RIP ? f->pc : f->regs[reg]) + offset);
}

static void load(struct evaluation *e, unsigned bytes)
{
    uint64_t word = 0;
    e->is_bad |= bytes < 1 || bytes > sizeof word || !e->read(e->ctx, pop(e), &word);
    push(e, bytes < sizeof word ? word & ((1ull << 8 * bytes) - 1) : word);
}

static bool unary(struct evaluation *e, uint8_t op)
{
    if (op != DW_OP_abs && op != DW_OP_neg && op != DW_OP_not)
        return false;
    uint64_t a = pop(e);
    push(e, op == DW_OP_not ? ~a : op == DW_OP_neg || (int64_t)a < 0 ? 0 - a : a);
    return true;
}

/* Comparisons are of signed words; a is below b on the stack. */
static bool binary_of(uint8_t op, uint64_t a, uint64_t b, uint64_t *out)
{
    int64_t x = (int64_t)a, y = (int64_t)b;
    switch (op) {
#define OP(name, value)                                                                                                \
    case DW_OP_##name:                                                                                                 \
        return *out = (uint64_t)(value), true
        OP(and, a & b);
        OP(minus, a - b);
        OP(mul, a * b);
        OP(or, a | b);
        OP(plus, a + b);
        OP(xor, a ^ b);
        OP(shl, b < 64 ? a << b : 0);
        OP(shr, b < 64 ? a >> b : 0);
        OP(shra, x >> (b < 63 ? b : 63));
        OP(eq, x == y);
        OP(ge, x >= y);
        OP(gt, x > y);
        OP(le, x <= y);
        OP(lt, x < y);
        OP(ne, x != y);
#undef OP
    default:
        return false;
    }
}

static bool binary(struct evaluation *e, uint8_t op)
{
    uint64_t out;
    if (!binary_of(op, 0, 0, &out))
        return false;
    uint64_t b = pop(e), a = pop(e);
    binary_of(op, a, b, &out);
    push(e, out);
    return true;
}

static bool constant(struct evaluation *e, uint8_t op)
{
    static const struct {
        uint8_t op, bytes;
        bool is_signed;
    } sized[] = {{DW_OP_const1u, 1, false}, {DW_OP_const2u, 2, false}, {DW_OP_const4u, 4, false},
                 {DW_OP_const8u, 8, false}, {DW_OP_const1s, 1, true},  {DW_OP_const2s, 2, true},
                 {DW_OP_const4s, 4, true},  {DW_OP_const8s, 8, true}};
    for (size_t i = 0; i < ARRAY_LEN(sized); i++) {
        if (sized[i].op != op)
            continue;
        unsigned unused = 64 - 8u * sized[i].bytes;
        uint64_t word = cursor_uint(&e->code, sized[i].bytes) << unused;
        push(e, sized[i].is_signed ? (uint64_t)((int64_t)word >> unused) : word >> unused);
        return true;
    }
    if (op == DW_OP_constu)
        return push(e, cursor_uleb(&e->code)), true;
    if (op == DW_OP_consts)
        return push(e, (uint64_t)cursor_sleb(&e->code)), true;
    return false;
}

static bool shuffle(struct evaluation *e, uint8_t op)
{
    uint64_t a, b;
    switch (op) {
    case DW_OP_dup:
        return push_nth(e, 0), true;
    case DW_OP_over:
        return push_nth(e, 1), true;
    case DW_OP_pick:
        return push_nth(e, (unsigned)cursor_uint(&e->code, 1)), true;
    case DW_OP_drop:
        return pop(e), true;
    case DW_OP_swap:
        b = pop(e), a = pop(e);
        return push(e, b), push(e, a), true;
    default:
        return false;
    }
}

/* The distance counts from behind it. */
static void jump(struct evaluation *e, bool is_taken)
{
    int16_t by = (int16_t)cursor_uint(&e->code, 2);
    if (!is_taken || e->code.is_bad)
        return;
    e->is_bad |= by < e->begin - e->code.p || by > e->code.end - e->code.p;
    if (!e->is_bad)
        e->code.p += by;
}

static void step(struct evaluation *e)
{
    uint8_t op = *e->code.p++;
    if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
        push(e, op - DW_OP_lit0);
    else if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
        push_register(e, op - DW_OP_breg0);
    else if (op == DW_OP_deref)
        load(e, sizeof(uint64_t));
    else if (op == DW_OP_deref_size)
        load(e, (unsigned)cursor_uint(&e->code, 1));
    else if (op == DW_OP_plus_uconst)
        push(e, pop(e) + cursor_uleb(&e->code));
    else if (op == DW_OP_skip)
        jump(e, true);
    else if (op == DW_OP_bra)
        jump(e, pop(e) != 0);
    else if (op != DW_OP_nop && !constant(e, op) && !shuffle(e, op) && !unary(e, op) && !binary(e, op))
        e->is_bad = true;
}

bool cfi_evaluate(const struct cfi_op *expr, const struct image_frame *f, const uint64_t *cfa, image_read_word read,
                  void *ctx, uint64_t *out)
{
    struct evaluation e = {.frame = f, .read = read, .ctx = ctx, .begin = expr->expr};
    e.code = (struct cursor){expr->expr, expr->expr, expr->expr + expr->expr_len, 0, false};
    if (cfa)
        push(&e, *cfa);
    for (unsigned n = 0; !e.is_bad && !e.code.is_bad && e.code.p < e.code.end; n++) {
        if (n == STEPS_MAX)
            return false;
        step(&e);
    }
    *out = pop(&e);
    return !e.is_bad && !e.code.is_bad;
}
