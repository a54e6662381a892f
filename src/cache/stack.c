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
    k->arena = arena_new();
}

void stack_fini(struct stack *k)
{
    free(k->nodes);
    map_fini(&k->pages);
    arena_free(k->arena);
}

uint32_t *stack_page(struct stack *k, uint64_t number)
{
    uint64_t *at = map_place(&k->pages, number);
    if (!*at)
        *at = (uint64_t)(uintptr_t)ARENA_ARRAY(k->arena, uint32_t, 1u << STACK_PAGE_SHIFT);
    uint32_t *nodes = (uint32_t *)(uintptr_t)*at;
    k->recent[number % STACK_RECENT] = (struct stack_page){number + 1, nodes};
    return nodes;
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
