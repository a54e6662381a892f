/* SPDX-License-Identifier: Apache-2.0
 * Calls of all functions of a program as they come, by thread, for detect.c. */
#include "data/detect.h"

#include <stdlib.h>

enum { CALLS_MAX = 1 << 21 }; /* that are looked at: the first ones */

struct data_detector *data_detector_new(uint64_t image, uint64_t image_end)
{
    struct data_detector *t = xmalloc(sizeof *t);
    t->image = image;
    t->image_end = image_end;
    VEC_PUSH(&t->events, DETECT_NO_CALL); /* times begin at 1 */
    return t;
}

void data_detector_free(struct data_detector *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->threads.len; i++) {
        VEC_FREE(&t->threads.data[i]->pending);
        free(t->threads.data[i]);
    }
    VEC_FREE(&t->threads);
    VEC_FREE(&t->calls);
    VEC_FREE(&t->events);
    free(t);
}

/* ---- calls as they come ---- */

static struct detect_thread *thread_of(struct data_detector *t, uint64_t number, uint64_t stack)
{
    struct detect_thread *found = NULL;
    for (size_t i = 0; i < t->threads.len && !found; i++)
        found = t->threads.data[i]->number == number ? t->threads.data[i] : NULL;
    if (!found) {
        found = xmalloc(sizeof *found);
        found->number = number;
        found->low = found->high = stack;
        VEC_PUSH(&t->threads, found);
    }
    found->low = min_u64(found->low, stack);
    found->high = max_u64(found->high, stack);
    return found;
}

static void drop_below(struct detect_thread *h, uint64_t stack)
{
    while (h->pending.len && h->pending.data[h->pending.len - 1].stack < stack)
        h->pending.len--;
}

void data_detector_entered(struct data_detector *t, uint64_t thread, uint32_t function, const uint64_t *arguments,
                           uint64_t stack)
{
    struct detect_thread *h = thread_of(t, thread, stack);
    drop_below(h, stack);
    if (t->calls.len == CALLS_MAX)
        return;
    struct detect_call c = {.function = function, .entered = (uint32_t)t->events.len, .stack = stack};
    memcpy(c.a, arguments, sizeof c.a);
    VEC_PUSH(&t->events, (uint32_t)t->calls.len * 2);
    VEC_PUSH(&h->pending, ((struct detect_pending){stack, (uint32_t)t->calls.len}));
    VEC_PUSH(&t->calls, c);
    t->functions = (uint32_t)max_u64(t->functions, function + 1ull);
}

/* Functions that end in a jump to another one return with it. */
void data_detector_left(struct data_detector *t, uint64_t thread, uint64_t value, uint64_t stack)
{
    struct detect_thread *h = thread_of(t, thread, stack);
    drop_below(h, stack);
    while (h->pending.len && h->pending.data[h->pending.len - 1].stack == stack) {
        uint32_t nth = h->pending.data[--h->pending.len].call;
        t->calls.data[nth].value = value;
        t->calls.data[nth].left = (uint32_t)t->events.len;
        VEC_PUSH(&t->events, nth * 2 + 1);
    }
}

/* ---- addresses ---- */

bool detect_may_be_heap(const struct data_detector *t, uint64_t address)
{
    enum { LEAST = 1 << 16, NEAR = 1 << 16 };
    if (address < LEAST || address >> 47 || address % 16 || address - t->image < t->image_end - t->image)
        return false;
    for (size_t i = 0; i < t->threads.len; i++)
        if (address + NEAR >= t->threads.data[i]->low && address <= t->threads.data[i]->high + NEAR)
            return false;
    return true;
}
