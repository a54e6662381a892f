/* SPDX-License-Identifier: Apache-2.0
 * What calls.c and walk.c share. */
#ifndef MTOOL_DATA_CALLS_H
#define MTOOL_DATA_CALLS_H

#include "data/impl.h"

struct walk_stack { /* the copy of a piece of stack */
    uint64_t at;
    const uint8_t *copy;
    size_t bytes;
};
struct walk; /* opaque */
struct walk *walk_new(struct data *d, const struct data_code *code);
void walk_free(struct walk *w);
/* The return addresses of a thread that has just entered a function, in the originals, the innermost first: `s` begins
 * where its stack pointer is. How many. If no near one has a name, the last is one farther up that has, if there is
 * such and `far` allows it. `by`: what they hang on: its words, is_far and is_cut. */
size_t walk_path(struct walk *w, const struct walk_stack *s, uint64_t rbp, bool far, uint64_t path[DATA_PATH_MAX],
                 struct data_path *by);
bool walk_word(const struct walk_stack *s, uint64_t address, uint64_t *word);

#endif
