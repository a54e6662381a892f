/* SPDX-License-Identifier: Apache-2.0
 *
 * logic [ROWS COLUMNS TICKS]: simulates a ring of COLUMNS ranks of ROWS gates, event by event (as PTHOR of the SPLASH
 * suite does): a gate is evaluated only when one of its inputs has changed, and takes one tick. In the bad form the
 * gates lie in the order in which a netlist reader met them, each with its name and statistics beside the few bytes
 * that matter; fixed, they are small and lie in the order of the circuit.
 */
#include "example.h"

enum kind { XOR, NAND, NOR };

struct gate {
    uint32_t input[2], fanout[2];
    uint32_t due; /* last tick for which it was put on the list */
    uint8_t kind, value;
#ifndef FIXED
    char name[24];
    uint32_t line, column, drive, load;
#endif
};

struct circuit {
    struct gate *gates;
    uint32_t *list, *next_list, *changed;
    long count, next_count;
    double evaluated;
};

static inline uint8_t output_of(const struct gate *gates, const struct gate *g)
{
    uint8_t a = gates[g->input[0]].value, b = gates[g->input[1]].value;
    return g->kind == XOR ? a ^ b : g->kind == NAND ? !(a & b) : !(a | b);
}

static inline void wake(struct circuit *c, uint32_t g, uint32_t tick)
{
    if (c->gates[g].due == tick)
        return;
    c->gates[g].due = tick;
    c->next_list[c->next_count++] = g;
}

KERNEL static void step(struct circuit *c, uint32_t tick)
{
    long changes = 0;
    for (long i = 0; i < c->count; i++) { /* HOT */
        struct gate *g = &c->gates[c->list[i]];
        c->changed[changes] = c->list[i];
        changes += output_of(c->gates, g) != g->value;
    }
    c->evaluated += (double)c->count;
    c->next_count = 0;
    for (long i = 0; i < changes; i++) { /* HOT */
        struct gate *g = &c->gates[c->changed[i]];
        g->value ^= 1;
        wake(c, g->fanout[0], tick + 1);
        wake(c, g->fanout[1], tick + 1);
    }
    uint32_t *keep = c->list;
    c->list = c->next_list;
    c->next_list = keep;
    c->count = c->next_count;
}

int main(int argc, char **argv)
{
    long rows = example_arg(argc, argv, 1, 1000), columns = example_arg(argc, argv, 2, 1000);
    long ticks = example_arg(argc, argv, 3, 15), n = rows * columns;
    uint32_t *place = example_shuffled(n); /* where the gate of a row and column lies */
#ifdef FIXED
    for (long i = 0; i < n; i++)
        place[i] = (uint32_t)i;
#endif
    struct circuit c = {example_alloc((size_t)n, sizeof *c.gates),
                        example_alloc((size_t)n, 4),
                        example_alloc((size_t)n, 4),
                        example_alloc((size_t)n + 1, 4),
                        0,
                        0,
                        0};
    for (long i = 0; i < n; i++) {
        long row = i % rows, rank = i / rows, before = (rank + columns - 1) % columns, after = (rank + 1) % columns;
        struct gate *g = &c.gates[place[i]];
        uint64_t r = (uint64_t)i * 0x9e3779b97f4a7c15u >> 56;
        g->kind = r < 160 ? XOR : r < 208 ? NAND : NOR;
        g->input[0] = place[before * rows + row];
        g->input[1] = place[before * rows + (row + 1) % rows];
        g->fanout[0] = place[after * rows + row];
        g->fanout[1] = place[after * rows + (row + rows - 1) % rows];
        c.list[c.count++] = place[i];
    }

    double start = example_seconds();
    for (long t = 1; t <= ticks; t++)
        step(&c, (uint32_t)t);
    double seconds = example_seconds() - start, sum = 0;
    for (long i = 0; i < n; i++)
        sum += (double)c.gates[place[i]].value * (double)(i % 1021);
    return example_end(sum + c.evaluated, c.evaluated, seconds);
}
