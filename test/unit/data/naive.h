/* SPDX-License-Identifier: Apache-2.0
 * naive: blocks as a list; who holds an address is found by asking each. */
#ifndef TEST_DATA_NAIVE_H
#define TEST_DATA_NAIVE_H

#include "base/base.h"

struct naive_block {
    unsigned layer;
    uint64_t lo, hi;
    uint32_t object;
};
struct naive {
    VEC(struct naive_block) blocks; /* in the order of their coming */
};

static inline const struct naive_block *naive_at(const struct naive *n, uint64_t address)
{
    const struct naive_block *top = NULL;
    for (size_t i = 0; i < n->blocks.len; i++) {
        const struct naive_block *b = &n->blocks.data[i];
        if (address >= b->lo && address < b->hi && (!top || b->layer >= top->layer))
            top = b;
    }
    return top;
}

/* Nothing is at [lo, hi) any more, from the layer on: what reaches out of it at both sides becomes two. */
static inline void naive_clear(struct naive *n, uint64_t lo, uint64_t hi, unsigned layer)
{
    size_t kept = 0, len = n->blocks.len;
    for (size_t i = 0; i < len; i++) {
        struct naive_block b = n->blocks.data[i];
        if (b.layer < layer || b.hi <= lo || b.lo >= hi) {
            n->blocks.data[kept++] = b;
            continue;
        }
        if (b.lo < lo && b.hi > hi)
            VEC_PUSH(&n->blocks, ((struct naive_block){b.layer, hi, b.hi, b.object}));
        if (b.lo < lo)
            n->blocks.data[kept++] = (struct naive_block){b.layer, b.lo, lo, b.object};
        else if (b.hi > hi)
            n->blocks.data[kept++] = (struct naive_block){b.layer, hi, b.hi, b.object};
    }
    if (n->blocks.len > len)
        memmove(n->blocks.data + kept, n->blocks.data + len, (n->blocks.len - len) * sizeof *n->blocks.data);
    n->blocks.len = kept + n->blocks.len - len;
}

static inline void naive_put(struct naive *n, unsigned layer, uint64_t lo, uint64_t bytes, uint32_t object)
{
    VEC_PUSH(&n->blocks, ((struct naive_block){layer, lo, lo + bytes, object}));
}

#endif
