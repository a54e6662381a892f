/* SPDX-License-Identifier: Apache-2.0
 * Groups of lines by their number: open addressing; their notes in chunks that never move. */
#include "cache/book.h"

#include <stdlib.h>

enum { GROUP_LINES = 1 << BOOK_GROUP_SHIFT, CHUNK_FIRST = 64, CHUNK_MAX = 1 << 15, SLOTS_FIRST = 1024 };

static void grow(struct book *b)
{
    struct book_slot *old = b->slots;
    uint64_t cap = old ? b->mask + 1 : 0, more = cap ? 2 * cap : SLOTS_FIRST;
    b->slots = xmalloc(more * sizeof *b->slots);
    b->mask = more - 1;
    for (uint64_t i = 0; i < cap; i++) {
        if (!old[i].key)
            continue;
        uint64_t at = book_place(b, old[i].key - 1);
        while (b->slots[at].key)
            at = (at + 1) & b->mask;
        b->slots[at] = old[i];
    }
    free(old);
}

static struct note *new_notes(struct book *b)
{
    struct book_chunk *last = b->chunks.len ? &b->chunks.data[b->chunks.len - 1] : NULL;
    if (!last || last->count == last->cap) {
        uint64_t cap = last ? min_u64(2 * last->cap, CHUNK_MAX) : CHUNK_FIRST;
        struct book_chunk more = {xmalloc(cap * GROUP_LINES * sizeof *more.notes), 0, cap};
        VEC_PUSH(&b->chunks, more);
        last = &b->chunks.data[b->chunks.len - 1];
    }
    b->count++;
    return last->notes + last->count++ * GROUP_LINES;
}

struct note *book_search(struct book *b, uint64_t group, bool add)
{
    if (2 * b->count >= b->mask)
        grow(b);
    uint64_t at = book_place(b, group);
    while (b->slots[at].key && b->slots[at].key != group + 1)
        at = (at + 1) & b->mask;
    if (!b->slots[at].key) {
        if (!add)
            return NULL;
        b->slots[at] = (struct book_slot){group + 1, new_notes(b)};
    }
    b->last_group = group + 1;
    b->last_notes = b->slots[at].notes;
    return b->last_notes;
}

void book_forget_times(struct book *b)
{
    for (size_t c = 0; c < b->chunks.len; c++)
        for (uint64_t i = 0; i < b->chunks.data[c].count * GROUP_LINES; i++)
            b->chunks.data[c].notes[i].time = 0;
}

void book_fini(struct book *b)
{
    for (size_t i = 0; i < b->chunks.len; i++)
        free(b->chunks.data[i].notes);
    VEC_FREE(&b->chunks);
    free(b->slots);
    memset(b, 0, sizeof *b);
}
