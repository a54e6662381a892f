/* SPDX-License-Identifier: Apache-2.0
 * Plain levels are made, emptied and freed. */
#include "cache/plain/plain.h"
#include "cache/tables/table.h"

#include <stdlib.h>

enum { CLOCK_LEFT = 1000 };

/* ---- banks ---- */

static uint64_t room_of(const struct cache *c, unsigned at)
{
    const struct cache_level *l = &c->levels[at].config;
    return max_u64(l->size_bytes / l->line_bytes / (c->sets.one_in ? c->sets.one_in : 1), 1);
}

/* Nothing is there. */
static void free_ways(struct plain_level *l)
{
    uint32_t *first = l->used;
    for (uint32_t way = 0; way < l->row; way++)
        first[way] = way < l->ways ? way : UINT32_MAX;
    for (uint64_t set = 1; set < l->sets; set++)
        memcpy(first + set * l->row, first, l->row * sizeof *first);
}

/* Its arrays are there; nothing else is yet. */
static void begin_level(struct plain_level *l, bool in_window)
{
    uint64_t ways = l->sets * l->row;
    /* so that it turns back in each run that is not short, and in tests */
    l->clock = l->begin = in_window ? PLAIN_CLOCK_BEGIN : PLAIN_CLOCK_MAX - CLOCK_LEFT;
    free_ways(l);
    if (in_window && !l->stays) {
        l->stays = xmalloc(ways * sizeof *l->stays);
        l->held = xmalloc(l->sets * sizeof *l->held);
    }
}

static void init_level(struct plain_level *l, const struct cache_level *k, uint64_t room, bool in_window)
{
    l->sets = k->size_bytes / k->line_bytes / k->ways;
    l->mask = l->sets & (l->sets - 1) ? 0 : l->sets - 1;
    l->ways = k->ways;
    l->row = ALIGN_UP(k->ways, 4);
    l->used = table_new(l->sets * l->row * sizeof *l->used);
    l->lines = table_new(l->sets * l->row * sizeof *l->lines);
    shadow_init(&l->shadow, room);
    begin_level(l, in_window);
}

static struct plain_bank *bank_new(const struct cache *c, const struct plain *p, unsigned levels)
{
    struct plain_bank *b = xmalloc(sizeof *b);
    for (unsigned i = 0; i < levels; i++)
        init_level(&b->levels[i], &c->levels[p->at[i]].config, room_of(c, p->at[i]), c->in_window);
    return b;
}

/* Of the window before, else a new one. */
static struct plain_bank *take_bank(const struct cache *c, struct plain *p, unsigned spare, unsigned levels)
{
    struct plain_bank *b = p->spares[spare];
    p->spares[spare] = NULL;
    return b ? b : bank_new(c, p, levels);
}

static void add_home(const struct cache *c, struct plain *p, unsigned thread)
{
    p->home = p->banks[thread] = take_bank(c, p, p->last_home, p->level_count);
    p->thread = thread;
    p->has_begun = true;
    plain_make_room(p, p->home, 0);
}

void plain_add_bank(const struct cache *c, struct plain *p, unsigned thread)
{
    if (!p->has_begun)
        add_home(c, p, c->coherence && p->spares[p->last_home] ? p->last_home : thread);
    if (p->banks[thread])
        return;
    p->banks[thread] = take_bank(c, p, thread, p->own);
    plain_make_room(p, p->banks[thread], 0);
}

/* ---- made ---- */

static void bank_free(struct plain_bank *b)
{
    for (unsigned i = 0; b && i < PLAIN_LEVELS_MAX; i++) {
        uint64_t ways = b->levels[i].sets * b->levels[i].row;
        table_free(b->levels[i].used, ways * sizeof *b->levels[i].used);
        table_free(b->levels[i].lines, ways * sizeof *b->levels[i].lines);
        free(b->levels[i].stays);
        free(b->levels[i].held);
        shadow_fini(&b->levels[i].shadow);
    }
    if (b)
        plain_free_lines(b);
    free(b);
}

static bool is_plain_level(const struct cache_level *l, const struct cache_level *nearest)
{
    return l->policy == CACHE_LRU && l->inclusion == CACHE_NEITHER && !l->write_through && !l->no_allocate &&
           !l->whole && !l->has_streams && l->ways <= PLAIN_WAYS_MAX &&
           l->size_bytes / l->line_bytes <= PLAIN_LINES_MAX && l->line_bytes == nearest->line_bytes;
}

struct plain *plain_new(const struct cache *c)
{
    unsigned count = 0;
    for (int i = c->nearest_data; i != NO_LEVEL; i = c->levels[i].next, count++)
        if (!is_plain_level(&c->levels[i].config, &c->levels[c->nearest_data].config))
            return NULL;
    if (!c->with_causes || !count || count > PLAIN_LEVELS_MAX)
        return NULL;
    struct plain *p = xmalloc(sizeof *p);
    for (int i = c->nearest_data; i != NO_LEVEL; i = c->levels[i].next) {
        p->own += !c->levels[i].config.is_shared;
        p->at[p->level_count++] = (unsigned)i;
    }
    uint64_t room = room_of(c, p->at[0]);
    p->shift = c->levels[p->at[0]].shift;
    stack_init(&p->stack, &room, 1);
    numbers_init(&p->numbers);
    return p;
}

void plain_free(struct plain *p)
{
    if (!p)
        return;
    for (unsigned thread = 0; thread < CACHE_THREADS_MAX; thread++)
        bank_free(p->banks[thread]), bank_free(p->spares[thread]);
    stack_fini(&p->stack);
    numbers_fini(&p->numbers);
    free(p);
}

/* ---- emptied ---- */

static void empty_level(struct plain_level *l)
{
    memset(l->lines, 0, l->sets * l->row * sizeof *l->lines);
    if (l->held)
        memset(l->held, 0, l->sets * sizeof *l->held);
    shadow_empty(&l->shadow);
    begin_level(l, true);
}

/* Of memory that takes only the pages used. */
static void clear_sparse(char *p, size_t bytes)
{
    static const char zeros[PLAIN_SPARSE_BYTES];
    for (size_t at = 0, part; at < bytes; at += part) {
        part = min_u64(bytes - at, sizeof zeros);
        if (memcmp(p + at, zeros, part) != 0)
            memset(p + at, 0, part);
    }
}

/* Banks are kept, for their memory. */
static void empty_bank(struct plain *p, unsigned thread)
{
    struct plain_bank *b = p->banks[thread];
    clear_sparse((char *)b->of, min_u64(b->cap, p->numbers.count) * sizeof *b->of);
    for (unsigned i = 0; i < p->level_count; i++)
        if (b->levels[i].used)
            empty_level(&b->levels[i]);
    if (b == p->home)
        p->last_home = thread;
    bank_free(p->spares[thread]);
    p->spares[thread] = b;
    p->banks[thread] = NULL;
}

void plain_begin_window(const struct cache *c, struct plain *p)
{
    uint64_t room = room_of(c, p->at[0]);
    p->in_window = true;
    if (!p->has_begun)
        return;
    for (unsigned thread = 0; thread < CACHE_THREADS_MAX; thread++)
        if (p->banks[thread])
            empty_bank(p, thread);
    p->home = NULL;
    numbers_empty(&p->numbers);
    stack_fini(&p->stack);
    stack_init(&p->stack, &room, 1);
    p->most = p->votes = p->enough = 0;
    p->has_begun = p->is_several = p->is_far = false;
}

bool plain_is_late(const struct plain *p)
{
    for (unsigned thread = 0; thread < CACHE_THREADS_MAX; thread++)
        for (unsigned at = 0; p->banks[thread] && at < p->level_count; at++)
            if (p->banks[thread]->levels[at].clock > PLAIN_CLOCK_MAX - PLAIN_CLOCK_LATE)
                return true;
    return false;
}

bool plain_carry(struct plain *p, const struct cache *c, struct cache_curve *k)
{
    uint64_t lines[STACK_SIZES_MAX], room = room_of(c, p->at[0]);
    unsigned sizes = 0, i = 0;
    if (k->shift != p->shift || p->has_begun || k->lines)
        return false;
    for (bool is_placed = false; i < k->sizes || !is_placed;) {
        uint64_t next = i < k->sizes ? curve_size_lines(k, i) : UINT64_MAX;
        p->curve_size[sizes] = (uint8_t)i;
        if (!is_placed && room <= next)
            p->shadow_size = sizes;
        lines[sizes++] = !is_placed && room < next ? room : next;
        i += is_placed || room >= next;
        is_placed |= room <= next;
    }
    p->curve_size[sizes] = (uint8_t)k->sizes;
    stack_fini(&p->stack);
    stack_init(&p->stack, lines, sizes);
    p->curve = k;
    return true;
}
