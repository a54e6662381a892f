/* SPDX-License-Identifier: Apache-2.0
 * Pictures of objects over time. */
#include "spy/picture.h"

#include <stdlib.h>

enum { PICTURES_MAX = 64, ENOUGH = 256, PART_SHIFT_MIN = 6 };

static struct spy_picture_cell *cell_at(const struct spy_picture *x, unsigned time, unsigned part)
{
    return &x->cells[time * SPY_PICTURE_PARTS + part];
}

/* The majority keeps its votes (Boyer and Moore 1981). */
static void merge(struct spy_picture_cell *to, const struct spy_picture_cell *from)
{
    to->count += from->count;
    if (to->cell == from->cell) {
        to->votes += from->votes;
    } else if (from->votes > to->votes) {
        to->cell = from->cell;
        to->votes = from->votes - to->votes;
    } else {
        to->votes -= from->votes;
    }
}

static struct spy_picture_cell *cells_new(void)
{
    struct spy_picture_cell *c = xmalloc(SPY_PICTURE_TIMES * SPY_PICTURE_PARTS * sizeof *c);
    memset(c, 0, SPY_PICTURE_TIMES * SPY_PICTURE_PARTS * sizeof *c);
    return c;
}

static void replace(struct spy_picture *x, struct spy_picture_cell *cells)
{
    free(x->cells);
    x->cells = cells;
}

static void halve_times(struct spy_picture *x)
{
    struct spy_picture_cell *cells = cells_new();
    for (unsigned t = 0; t < SPY_PICTURE_TIMES; t++)
        for (unsigned p = 0; p < SPY_PICTURE_PARTS; p++)
            merge(&cells[t / 2 * SPY_PICTURE_PARTS + p], cell_at(x, t, p));
    replace(x, cells);
}

static bool holds(const struct spy_picture *x, uint64_t address)
{
    return address >= x->begin && address - x->begin < (uint64_t)SPY_PICTURE_PARTS << x->part_shift;
}

/* Parts twice as long. The room that this makes is where the address lies: below, or above. */
static void halve_parts(struct spy_picture *x, uint64_t address)
{
    struct spy_picture_cell *cells = cells_new();
    uint64_t part = 2ull << x->part_shift, all = SPY_PICTURE_PARTS * part;
    uint64_t end = ALIGN_UP(x->begin + all / 2, part), begin = ALIGN_DOWN(x->begin, part);
    if (address < x->begin)
        begin = end > all ? end - all : 0;
    for (unsigned t = 0; t < SPY_PICTURE_TIMES; t++)
        for (unsigned p = 0; p < SPY_PICTURE_PARTS; p++) {
            uint64_t at = x->begin + ((uint64_t)p << x->part_shift);
            merge(&cells[t * SPY_PICTURE_PARTS + (unsigned)((at - begin) / part)], cell_at(x, t, p));
        }
    replace(x, cells);
    x->begin = begin;
    x->part_shift++;
}

static struct spy_picture *make(struct pictures *p, uint32_t object, uint64_t address)
{
    map_put(&p->numbers, object, p->all.len);
    VEC_PUSH(&p->all, ((struct spy_picture){.object = object,
                                            .begin = address >> PART_SHIFT_MIN << PART_SHIFT_MIN,
                                            .part_shift = PART_SHIFT_MIN,
                                            .cells = cells_new()}));
    return &p->all.data[p->all.len - 1];
}

/* NULL: it has none, or not yet. */
static struct spy_picture *picture_of(struct pictures *p, uint32_t object, uint64_t address)
{
    uint64_t n = 0;
    if (map_get(&p->numbers, object, &n))
        return &p->all.data[n];
    if (p->all.len == PICTURES_MAX)
        return NULL;
    map_get(&p->counts, object, &n);
    map_put(&p->counts, object, n + 1);
    return n + 1 < ENOUGH ? NULL : make(p, object, address);
}

void pictures_look(struct pictures *p, uint32_t object, uint32_t cell, uint64_t address)
{
    struct spy_picture *x = picture_of(p, object, address);
    p->skip = PICTURE_SAMPLE - 1;
    if (p->seen++ >> p->shift == SPY_PICTURE_TIMES) {
        p->shift++;
        for (size_t i = 0; i < p->all.len; i++)
            halve_times(&p->all.data[i]);
    }
    if (!x)
        return;
    while (!holds(x, address))
        halve_parts(x, address);
    merge(cell_at(x, (unsigned)((p->seen - 1) >> p->shift), (unsigned)((address - x->begin) >> x->part_shift)),
          &(struct spy_picture_cell){.count = 1, .cell = cell, .votes = 1});
}

static uint64_t seen_of(const struct spy_picture *x)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < SPY_PICTURE_TIMES * SPY_PICTURE_PARTS; i++)
        sum += x->cells[i].count;
    return sum;
}

/* NULL: there are as many as can be. */
static struct spy_picture *empty_of(struct pictures *p, uint32_t object)
{
    uint64_t n;
    if (map_get(&p->numbers, object, &n))
        return &p->all.data[n];
    return p->all.len == PICTURES_MAX ? NULL : make(p, object, 0);
}

void pictures_absorb(struct pictures *p, const struct pictures *from, const uint32_t *cells, const uint32_t *objects)
{
    for (size_t i = 0; i < from->all.len; i++) {
        const struct spy_picture *f = &from->all.data[i];
        struct spy_picture *to = empty_of(p, objects[f->object]);
        if (!to || seen_of(to) >= seen_of(f))
            continue;
        to->begin = f->begin;
        to->part_shift = f->part_shift;
        memcpy(to->cells, f->cells, SPY_PICTURE_TIMES * SPY_PICTURE_PARTS * sizeof *f->cells);
        for (unsigned k = 0; k < SPY_PICTURE_TIMES * SPY_PICTURE_PARTS; k++)
            if (to->cells[k].votes)
                to->cells[k].cell = cells[to->cells[k].cell];
    }
}

void pictures_fini(struct pictures *p)
{
    for (size_t i = 0; i < p->all.len; i++)
        free(p->all.data[i].cells);
    VEC_FREE(&p->all);
    map_fini(&p->counts);
    map_fini(&p->numbers);
}
