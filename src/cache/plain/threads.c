/* SPDX-License-Identifier: Apache-2.0
 * Plain levels of several threads: what the first one has when the second comes, and what writes and reads of one do to
 * what others have. */
#include "cache/plain/plain.h"

#include <assert.h>
#include <stdlib.h>

bool plain_takes_threads(const struct cache *c, const struct plain *p)
{
    for (int i = 0; i < c->count; i++)
        if (c->levels[i].is_coherent && c->levels[i].shift != p->shift)
            return false;
    return p->own;
}

/* The order of use that stood for the curve too becomes two. */
static void part_stack(struct plain *p)
{
    uint32_t *of = xmalloc((p->stack.held + 1) * sizeof *of);
    size_t held = stack_lines(&p->stack, 0, of);
    for (size_t i = 0; p->curve && i < held; i++)
        stack_use(&p->curve->stack, of[i]);
    held = stack_lines(&p->stack, p->stack.oldest[p->shadow_size], of);
    for (uint32_t x = 0; x < min_u64(p->home->cap, p->numbers.count); x++)
        p->home->of[x].at[0] = 0;
    for (size_t i = 0; i < held; i++)
        shadow_use(&p->home->levels[0].shadow, of[i]);
    free(of);
    stack_fini(&p->stack);
    memset(&p->stack, 0, sizeof p->stack);
}

void plain_begin_several(struct cache *c, struct plain *p)
{
    assert(!p->is_several);
    if (!c->coherence)
        c->coherence = coherence_new(c);
    part_stack(p);
    p->is_several = true;
}

static void move_line(struct plain_line *to, struct plain_line *from, unsigned own, unsigned count)
{
    unsigned shared = (1u << count) - (1u << own);
    for (unsigned at = own; at < count; at++) {
        to->at[at] = from->at[at];
        to->left[at] = from->left[at];
        to->way[at] = from->way[at];
        from->at[at] = from->left[at] = 0;
    }
    to->flags |= from->flags & PLAIN_WATCHED;
    from->flags &= (uint8_t)~PLAIN_WATCHED;
    to->here = (uint8_t)(to->here | (from->here & shared));
    to->dirty = (uint8_t)(to->dirty | (from->dirty & shared));
    from->here = (uint8_t)(from->here & ~shared);
    from->dirty = (uint8_t)(from->dirty & ~shared);
}

static void move_home(struct plain *p, struct plain_bank *to)
{
    struct plain_bank *from = p->home;
    p->home = to;
    uint32_t count = (uint32_t)min_u64(from->cap, p->numbers.count);
    plain_make_room(p, to, count - 1);
    for (uint32_t x = 0; x < count; x++)
        move_line(&to->of[x], &from->of[x], p->own, p->level_count);
    for (unsigned at = p->own; at < p->level_count; at++) {
        to->levels[at] = from->levels[at];
        from->levels[at] = (struct plain_level){.used = NULL};
        shadow_place_in(&to->levels[at].shadow, &to->of->at[at], PLAIN_LINE_SPREAD, to->cap);
    }
}

/* The majority keeps its votes (Boyer and Moore 1981). It takes twice as many each time. */
void plain_vote(struct plain *p, unsigned thread)
{
    if (p->most == thread) {
        p->votes++;
    } else if (p->votes) {
        p->votes--;
    } else {
        p->most = thread;
        p->votes = 1;
    }
    if (p->banks[p->most] == p->home || p->votes <= p->enough)
        return;
    p->enough = 2 * p->votes;
    move_home(p, p->banks[p->most]);
}

void plain_each_own(const struct plain *p, void (*take)(void *ctx, uint64_t line), void *ctx)
{
    for (uint32_t x = NUMBERS_PAGE; x < min_u64(p->numbers.count, p->home->cap); x++) {
        const struct plain_line *n = &p->home->of[x];
        bool has = n->here & ((1u << p->own) - 1);
        has |= n->at[0] && n->at[0] >= p->stack.oldest[p->shadow_size];
        for (unsigned at = 1; at < p->own; at++)
            has |= shadow_holds(&p->home->levels[at].shadow, x);
        if (has)
            take(ctx, numbers_line(&p->numbers, x));
    }
}

/* Among the plain levels; those behind p->own are none of a thread's. */
static unsigned level_of(const struct plain *p, int at)
{
    unsigned i = 0;
    while (i < p->own && p->at[i] != (unsigned)at)
        i++;
    return i;
}

/* NULL: nothing is there. */
static struct plain_line *line_of(struct plain *p, unsigned thread, uint64_t line, uint32_t *number)
{
    *number = numbers_of(&p->numbers, line);
    struct plain_bank *b = p->banks[thread];
    return *number < b->cap ? &b->of[*number] : NULL;
}

static void free_way(const struct plain_level *l, uint64_t line, uint32_t way)
{
    uint64_t set = plain_set(l, line), at = set * l->row + way;
    l->used[at] = way;
    l->lines[at] = 0;
    if (l->held)
        l->held[set]--;
}

bool plain_take(struct cache *c, int at, unsigned thread, uint64_t line, uint32_t by, lines_entry *dirty)
{
    struct plain *p = c->plain;
    unsigned i = level_of(p, at);
    uint32_t number;
    struct plain_line *n = i < p->own ? line_of(p, thread, line, &number) : NULL;
    if (!n)
        return false;
    struct plain_level *l = &p->banks[thread]->levels[i];
    unsigned was_here = n->here >> i & 1, was_dirty = was_here & n->dirty >> i;
    bool was_in_shadow = shadow_drop(&l->shadow, number);
    if (was_here)
        free_way(l, line, n->way[i]);
    n->here = (uint8_t)(n->here & ~(1u << i));
    n->dirty = (uint8_t)(n->dirty & ~(1u << i));
    c->levels[at].counts.write_backs += was_dirty;
    n->flags &= (uint8_t)~PLAIN_ALONE;
    *dirty |= was_dirty;
    if (!was_here && !was_in_shadow)
        return false;
    n->left[i] = by << NOTE_HOW_BITS | NOTE_TAKEN;
    n->flags |= PLAIN_LOST;
    p->home->of[number].flags |= PLAIN_WATCHED;
    return true;
}

bool plain_clean(const struct cache *c, int at, unsigned thread, uint64_t line)
{
    struct plain *p = c->plain;
    unsigned i = level_of(p, at);
    uint32_t number;
    struct plain_line *n = i < p->own ? line_of(p, thread, line, &number) : NULL;
    bool was_dirty = n && n->dirty >> i & 1;
    if (!n)
        return false;
    n->dirty = (uint8_t)(n->dirty & ~(1u << i));
    n->flags &= (uint8_t)~PLAIN_ALONE;
    return was_dirty;
}

void plain_write_back(const struct cache *c, uint64_t line)
{
    struct plain *p = c->plain;
    uint32_t number = numbers_of(&p->numbers, line);
    if (number < p->home->cap)
        plain_soil_shared(p, number);
}
