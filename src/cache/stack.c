/* SPDX-License-Identifier: Apache-2.0
 * The grouped stack: what is not done at each use. */
#include "cache/stack.h"

#include <assert.h>
#include <stdlib.h>

enum { NODES_FIRST = 1 << 12 };

void stack_init(struct stack *k, const uint64_t *lines, unsigned sizes)
{
    assert(sizes <= STACK_SIZES_MAX);
    memset(k, 0, sizeof *k);
    k->sizes = sizes;
    for (unsigned i = 0; i < sizes; i++) {
        k->lines[i] = lines[i];
        k->first += !lines[i];
    }
    k->cap = NODES_FIRST;
    k->nodes = xmalloc(k->cap * sizeof *k->nodes);
    k->count = 1;
    numbers_init(&k->numbers);
}

void stack_fini(struct stack *k)
{
    free(k->nodes);
    numbers_fini(&k->numbers);
}

uint32_t stack_new_node(struct stack *k)
{
    uint32_t x = (uint32_t)k->count++;
    assert(k->count <= UINT32_MAX);
    if (k->count > k->cap) {
        k->cap *= 2;
        k->nodes = xrealloc(k->nodes, k->cap * sizeof *k->nodes);
    }
    k->nodes[x] = (struct stack_node){x, x, k->sizes};
    return x;
}

void stack_push_out(struct stack *k, unsigned group, bool is_new)
{
    struct stack_node *n = k->nodes;
    k->held += is_new;
    for (unsigned i = k->first; i < group; i++) {
        uint32_t out = k->last[i];
        if (out) {
            n[out].group = i + 1;
            k->last[i] = n[out].newer;
        } else if (k->held == k->lines[i]) {
            k->last[i] = n[0].newer;
        }
    }
}
