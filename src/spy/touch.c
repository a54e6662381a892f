/* SPDX-License-Identifier: Apache-2.0
 * Visits of threads to pages, by object. */
#include "spy/touch.h"

#include <stdlib.h>

void touches_free(struct touches *t)
{
    if (!t)
        return;
    map_fini(&t->numbers);
    VEC_FREE(&t->rows);
    VEC_FREE(&t->pages);
    VEC_FREE(&t->all);
    free(t);
}

static size_t find_page(struct touches *t, unsigned thread, uint32_t cell, uint64_t page)
{
    uint64_t *n = map_place(&t->numbers, page);
    if (!*n) {
        VEC_PUSH(&t->pages, ((struct touch_page){.cell = cell, .first = (uint8_t)thread, .usual = (uint8_t)thread}));
        *n = t->pages.len;
    }
    return *n - 1;
}

static struct touch_page *page_of(struct touches *t, unsigned thread, uint32_t cell, uint64_t page)
{
    struct touch_known *k = &t->known[page % TOUCH_KNOWN];
    if (k->page != page + 1)
        *k = (struct touch_known){page + 1, find_page(t, thread, cell, page)};
    return &t->pages.data[k->number];
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
    size_t known = t->pages.len;
    struct touch_page *p = page_of(t, thread, cell, page);
    struct spy_touched *row = row_of(t, object);
    bool is_elsewhere = p->first != thread, is_first = t->pages.len > known;
    if (!is_first) /* who initialises it need not use it */
        vote_thread(p, thread);
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
