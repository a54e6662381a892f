/* SPDX-License-Identifier: Apache-2.0
 * Visits of threads to pages, by object. */
#include "spy/touch.h"

#include <stdlib.h>

struct touches *touches_new(void)
{
    struct touches *t = xmalloc(sizeof *t);
    numbers_init(&t->numbers);
    return t;
}

void touches_free(struct touches *t)
{
    if (!t)
        return;
    numbers_fini(&t->numbers);
    VEC_FREE(&t->rows);
    VEC_FREE(&t->pages);
    VEC_FREE(&t->all);
    free(t);
}

static struct touch_page *page_of(struct touches *t, uint64_t page)
{
    size_t number = numbers_of(&t->numbers, page);
    if (number >= t->pages.len) {
        VEC_RESERVE(&t->pages, number + 1);
        memset(t->pages.data + t->pages.len, 0, (number + 1 - t->pages.len) * sizeof *t->pages.data);
        t->pages.len = number + 1;
    }
    return &t->pages.data[number];
}

static struct spy_touched *row_of(struct touches *t, uint32_t object)
{
    while (t->rows.len <= object)
        VEC_PUSH(&t->rows, 0);
    if (!t->rows.data[object]) {
        VEC_PUSH(&t->all, ((struct spy_touched){.object = object}));
        t->rows.data[object] = (uint32_t)t->all.len;
    }
    return &t->all.data[t->rows.data[object] - 1];
}

/* The majority keeps its votes (Boyer and Moore 1981). */
static void vote_cell(struct spy_touched *row, uint32_t cell, uint64_t votes)
{
    if (row->cell == cell || !row->votes) {
        row->cell = cell;
        row->votes += votes;
    } else if (row->votes >= votes) {
        row->votes -= votes;
    } else {
        row->cell = cell;
        row->votes = votes - row->votes;
    }
}

static void vote_thread(struct touch_page *p, unsigned thread)
{
    if (p->usual == thread || !p->votes) {
        p->usual = (uint8_t)thread;
        p->votes++;
    } else {
        p->votes--;
    }
}

void touches_visit(struct touches *t, unsigned thread, uint32_t object, uint32_t cell, uint64_t page)
{
    struct touch_page *p = page_of(t, page);
    struct spy_touched *row = row_of(t, object);
    if (p->is_touched) /* who initialises it need not use it */
        vote_thread(p, thread);
    else
        *p = (struct touch_page){cell, 0, (uint8_t)thread, (uint8_t)thread, true};
    bool is_elsewhere = p->first != thread;
    row->visits++;
    row->elsewhere += is_elsewhere;
    row->usual += is_elsewhere && p->usual == thread;
    if (is_elsewhere)
        vote_cell(row, p->cell, 1);
    t->recent[thread][page % TOUCH_SLOTS] = page + 1;
}

void touches_absorb(struct touches *t, const struct touches *from, const uint32_t *cells, const uint32_t *objects)
{
    for (size_t i = 0; i < from->all.len; i++) {
        const struct spy_touched *f = &from->all.data[i];
        struct spy_touched *to = row_of(t, objects[f->object]);
        to->visits += f->visits;
        to->elsewhere += f->elsewhere;
        to->usual += f->usual;
        if (f->votes)
            vote_cell(to, cells[f->cell], f->votes);
    }
}
