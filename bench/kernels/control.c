/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of control: interpreters' dispatch loops, calls, calls through pointers, recursion. */
#include "kernels.h"

/* A program of 8 instructions that repeats: what an interpreter sees in a loop. */
static unsigned operation(unsigned k) { return "\0\1\2\3\0\4\5\1"[k & 7]; }

KEEP static void interpret_switch(struct data *d)
{
    uint64_t a = 1, b = 2;
    for (unsigned k = 0; k < 256; k++)
        switch (operation(k)) {
        case 0:
            a += b;
            break;
        case 1:
            b ^= a;
            break;
        case 2:
            a = a << 1 | a >> 63;
            break;
        case 3:
            b -= 7;
            break;
        case 4:
            a += d->q[b & 63];
            break;
        case 5:
            d->q[64 + (a & 63)] = b;
            break;
        default:
            a = 0;
        }
    d->result = a ^ b;
}

KEEP static void interpret_labels(struct data *d)
{
    static const void *const labels[] = {&&add, &&mix, &&turn, &&less, &&get, &&put};
    uint64_t a = 1, b = 2;
    unsigned k = 0;
#define NEXT                                                                                                           \
    if (k == 256)                                                                                                      \
        goto end;                                                                                                      \
    goto *labels[operation(k++)]
    NEXT;
add:
    a += b;
    NEXT;
mix:
    b ^= a;
    NEXT;
turn:
    a = a << 1 | a >> 63;
    NEXT;
less:
    b -= 7;
    NEXT;
get:
    a += d->q[b & 63];
    NEXT;
put:
    d->q[64 + (a & 63)] = b;
    NEXT;
end:
    d->result = a ^ b;
}

struct machine_state {
    uint64_t a, b;
};
KEEP static void op_add(struct machine_state *m) { m->a += m->b; }
KEEP static void op_mix(struct machine_state *m) { m->b ^= m->a; }
KEEP static void op_turn(struct machine_state *m) { m->a = m->a << 1 | m->a >> 63; }
KEEP static void op_less(struct machine_state *m) { m->b -= 7; }
static void (*const operations[])(struct machine_state *) = {op_add, op_mix, op_turn, op_less, op_add, op_mix};

KEEP static void interpret_calls(struct data *d)
{
    struct machine_state m = {1, 2};
    for (unsigned k = 0; k < 256; k++)
        operations[operation(k)](&m);
    d->result = m.a ^ m.b;
}

KEEP static void call_one_pointer(struct data *d)
{
    struct machine_state m = {1, 2};
    void (*volatile keep)(struct machine_state *) = op_mix;
    void (*f)(struct machine_state *) = keep;
    for (unsigned k = 0; k < 256; k++)
        f(&m);
    d->result = m.b;
}

KEEP static uint64_t leaf(uint64_t v) { return v * 3 + 1; }

KEEP static void call_leaf(struct data *d)
{
    uint64_t s = 0;
    for (unsigned k = 0; k < 256; k++)
        s += leaf(k);
    d->result = s;
}

KEEP static uint64_t with_frame(uint64_t *p, uint64_t k)
{
    uint64_t local[4] = {p[0], p[1] + k, p[2], k};
    __asm__ volatile("" : : "r"(local) : "memory");
    return local[k & 3] + leaf(local[1]);
}

KEEP static void call_frames(struct data *d)
{
    uint64_t s = 0;
    for (unsigned k = 0; k < 128; k++)
        s += with_frame(d->q + (k & 31), k);
    d->result = s;
}

KEEP static unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KEEP static void recursion_fibonacci(struct data *d) { d->result = fibonacci(12); }

KEEP static void hanoi(uint64_t *moves, int n, int from, int to)
{
    if (n == 0)
        return;
    hanoi(moves, n - 1, from, 6 - from - to);
    moves[(n + from) & 15] += (uint64_t)to;
    hanoi(moves, n - 1, 6 - from - to, to);
}
KEEP static void recursion_hanoi(struct data *d) { hanoi(d->q + 128, 8, 1, 3); }

KEEP static uint64_t walk(const struct data *d, size_t at, int depth)
{
    if (depth == 0)
        return d->q[at & 127] & 7;
    return walk(d, 2 * at + 1, depth - 1) + walk(d, 2 * at + 2, depth - 1) + (d->q[at & 127] & 3);
}
KEEP static void recursion_tree(struct data *d) { d->result = walk(d, 0, 7); }

KEEP static unsigned place_queens(unsigned rows, unsigned left, unsigned right)
{
    unsigned n = 0;
    if (rows == 31)
        return 1;
    for (unsigned free = 31 & ~(rows | left | right); free; free &= free - 1) {
        unsigned bit = free & -free;
        n += place_queens(rows | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return n;
}
KEEP static void recursion_queens(struct data *d) { d->result = place_queens(0, 0, 0); }

KEEP static void parse_nested(struct data *d) /* a small grammar by recursive descent, without recursion's depth */
{
    int depth = 0, most = 0, value = 0;
    for (size_t e = 0; e < 256; e++) {
        unsigned c = d->s[e] & 7;
        if (c < 2)
            depth++;
        else if (c == 2 && depth > 0)
            depth--;
        else if (c < 5)
            value = value * 3 + (int)c;
        else
            value ^= depth;
        most = depth > most ? depth : most;
    }
    d->result = (uint64_t)(most + value);
}

const struct kernel control_kernels[] = {
    {"interpret-switch", "dispatch", interpret_switch, 0},
    {"interpret-labels", "dispatch", interpret_labels, 0},
    {"interpret-calls", "calls", interpret_calls, 0},
    {"call-one-pointer", "calls", call_one_pointer, 0},
    {"call-leaf", "calls", call_leaf, 0},
    {"call-frames", "calls", call_frames, 0},
    {"recursion-fibonacci", "recursion", recursion_fibonacci, 0},
    {"recursion-hanoi", "recursion", recursion_hanoi, 0},
    {"recursion-tree", "recursion", recursion_tree, 0},
    {"recursion-queens", "recursion", recursion_queens, 0},
    {"parse-nested", "branches", parse_nested, 0},
    {0},
};
