/* SPDX-License-Identifier: Apache-2.0
 *
 * What is remembered of each line that a level was ever asked for. Neighbouring lines stand together: programs go
 * through memory in order more often than not, and the table by which they are found is small.
 */
#ifndef MTOOL_CACHE_BOOK_H
#define MTOOL_CACHE_BOOK_H

#include "base/base.h"

enum { BOOK_GROUP_SHIFT = 4 }; /* lines of a group, as a power of two */

/* While the line is in the level, in a window: when it came and whose reference brought it; else 0, and as it was. */
struct note {
    uint32_t time; /* of its last use, while the line is not in the level; 0: none that matters */
    uint32_t left; /* cell << NOTE_HOW_BITS | enum note_how */
};

struct book_slot {
    uint64_t key; /* number of a group + 1; 0: none */
    struct note *notes;
};

struct book_chunk { /* of groups */
    struct note *notes;
    uint64_t count, cap;
};

struct book {
    struct book_slot *slots;
    uint64_t mask, count; /* groups */
    uint64_t last_group;  /* + 1 */
    struct note *last_notes;
    VEC(struct book_chunk) chunks;
};

void book_fini(struct book *b);
void book_forget_times(struct book *b);
struct note *book_search(struct book *b, uint64_t group, bool add);

static inline uint64_t book_place(const struct book *b, uint64_t group)
{
    return (group * 0x9e3779b97f4a7c15u) >> 20 & b->mask;
}

/* Stays where it is as long as the book is there. */
static inline struct note *book_note(struct book *b, uint64_t line)
{
    uint64_t group = line >> BOOK_GROUP_SHIFT;
    struct note *notes = b->last_group == group + 1 ? b->last_notes : book_search(b, group, true);
    return &notes[line & ((1 << BOOK_GROUP_SHIFT) - 1)];
}

__attribute__((always_inline)) static inline void book_prefetch(const struct book *b, uint64_t line)
{
    if (b->slots)
        __builtin_prefetch(&b->slots[book_place(b, line >> BOOK_GROUP_SHIFT)]);
}

/* When what that fetched is there. */
__attribute__((always_inline)) static inline void book_prefetch_note(const struct book *b, uint64_t line)
{
    if (!b->slots)
        return;
    const struct book_slot *s = &b->slots[book_place(b, line >> BOOK_GROUP_SHIFT)];
    if (s->key == (line >> BOOK_GROUP_SHIFT) + 1)
        __builtin_prefetch(&s->notes[line & ((1 << BOOK_GROUP_SHIFT) - 1)], 1);
}

/* NULL if nothing is known of any of its group. */
static inline struct note *book_peek(struct book *b, uint64_t line)
{
    struct note *notes = book_search(b, line >> BOOK_GROUP_SHIFT, false);
    return notes ? &notes[line & ((1 << BOOK_GROUP_SHIFT) - 1)] : NULL;
}

#endif
