/* SPDX-License-Identifier: Apache-2.0
 * The lines that a cache holds, by set: found, used, brought in and taken out. Knows no level and no cause. */
#include "cache/lines.h"

#include <stdlib.h>

enum {
    ORDERED_MAX = 64,  /* ways that are kept in their order of use */
    SEARCHED_MAX = 16, /* ways of a set of slots that are searched one by one */
};
#define NONE LINES_NONE

/* ---- sets in their order of use ---- */

static uint32_t use_ordered(struct lines *l, uint64_t first, lines_entry key, lines_entry dirty)
{
    uint32_t way = lines_way(l, &l->entries[first], key);
    if (way == NONE)
        return NONE;
    lines_bring_forward(l, first, way, l->entries[first + way] | dirty, l->marks ? l->marks[first + way] : 0);
    return (uint32_t)first;
}

static lines_entry remove_ordered(struct lines *l, uint64_t first, lines_entry key, uint32_t *mark)
{
    lines_entry *set = &l->entries[first];
    uint32_t way = lines_way(l, set, key), last = l->ways - 1;
    if (way == NONE)
        return 0;
    lines_entry e = set[way];
    memmove(set + way, set + way + 1, (last - way) * sizeof *set);
    set[last] = 0;
    if (l->marks) {
        uint32_t *marks = &l->marks[first];
        *mark = marks[way];
        memmove(marks + way, marks + way + 1, (last - way) * sizeof *marks);
        marks[last] = 0;
    }
    return e;
}

/* ---- slots: the hash ---- */

static uint64_t place_of(const struct lines *l, uint64_t line)
{
    return (line * 0x9e3779b97f4a7c15u) >> 24 & l->index_mask;
}

static void index_put(struct lines *l, uint64_t line, uint32_t slot)
{
    uint64_t at = place_of(l, line);
    while (l->index[at])
        at = (at + 1) & l->index_mask;
    l->index[at] = slot + 1;
}

/* What comes behind in the same run moves up, so that no search ends too early. */
static void index_remove(struct lines *l, uint64_t line, uint32_t slot)
{
    uint64_t at = place_of(l, line);
    while (l->index[at] != slot + 1)
        at = (at + 1) & l->index_mask;
    for (uint64_t next = (at + 1) & l->index_mask; l->index[next]; next = (next + 1) & l->index_mask) {
        uint64_t home = place_of(l, lines_line_of(l->entries[l->index[next] - 1]));
        if (((next - home) & l->index_mask) < ((next - at) & l->index_mask))
            continue;
        l->index[at] = l->index[next];
        at = next;
    }
    l->index[at] = 0;
}

static uint32_t slot_of(const struct lines *l, uint64_t set, uint64_t line)
{
    lines_entry key = lines_entry_of(line);
    if (!l->index) {
        uint32_t way = lines_way(l, &l->entries[set * l->ways], key);
        return way == NONE ? NONE : (uint32_t)(set * l->ways) + way;
    }
    for (uint64_t at = place_of(l, line); l->index[at]; at = (at + 1) & l->index_mask)
        if (lines_is(l->entries[l->index[at] - 1], key))
            return l->index[at] - 1;
    return NONE;
}

/* ---- slots: which goes next ---- */

static void unlink_slot(struct lines *l, uint64_t set, uint32_t slot)
{
    struct lines_links k = l->links[slot];
    if (k.newer == NONE)
        l->newest[set] = k.older;
    else
        l->links[k.newer].older = k.older;
    if (k.older == NONE)
        l->oldest[set] = k.newer;
    else
        l->links[k.older].newer = k.newer;
}

static void link_newest(struct lines *l, uint64_t set, uint32_t slot)
{
    uint32_t second = l->newest[set];
    l->links[slot] = (struct lines_links){NONE, second};
    l->newest[set] = slot;
    if (second == NONE)
        l->oldest[set] = slot;
    else
        l->links[second].newer = slot;
}

/* Each node on the way to the slot points to its other side from now on. */
static void turn_tree(struct lines *l, uint64_t set, uint32_t slot)
{
    uint8_t *tree = &l->tree[set * l->ways];
    for (uint32_t node = l->ways + (slot - (uint32_t)(set * l->ways)); node > 1; node /= 2)
        tree[node / 2] = !(node & 1);
}

static void note_use(struct lines *l, uint64_t set, uint32_t slot)
{
    if (l->tree) {
        turn_tree(l, set, slot);
    } else if (l->links && l->newest[set] != slot) {
        unlink_slot(l, set, slot);
        link_newest(l, set, slot);
    }
}

/* xorshift64*, Vigna 2016: one number for each line that goes. */
static uint32_t next_random(struct lines *l)
{
    l->random ^= l->random >> 12;
    l->random ^= l->random << 25;
    l->random ^= l->random >> 27;
    return (uint32_t)((l->random * 0x2545f4914f6cdd1du) >> 32);
}

static uint32_t victim_of(struct lines *l, uint64_t set)
{
    uint32_t first = (uint32_t)(set * l->ways), node = 1;
    if (l->policy == CACHE_LRU)
        return l->oldest[set];
    if (l->policy == CACHE_RANDOM)
        return first + next_random(l) % l->ways;
    while (node < l->ways)
        node = 2 * node + l->tree[set * l->ways + node];
    return first + node - l->ways;
}

/* The first way that holds nothing; there is one. */
static uint32_t free_slot(struct lines *l, uint64_t set)
{
    uint32_t slot = l->fill[set].free_from;
    while (l->entries[slot])
        slot++;
    l->fill[set].free_from = slot + 1;
    return slot;
}

static void swap_mark(struct lines *l, uint32_t slot, uint32_t *mark)
{
    if (!l->marks)
        return;
    uint32_t old = l->marks[slot];
    l->marks[slot] = *mark;
    *mark = old;
}

static lines_entry add_slot(struct lines *l, uint64_t set, uint64_t line, lines_entry dirty, uint32_t *mark)
{
    lines_entry gone = 0;
    uint32_t slot;
    if (l->fill[set].used < l->ways) {
        slot = free_slot(l, set);
        l->fill[set].used++;
    } else {
        slot = victim_of(l, set);
        gone = l->entries[slot];
        if (l->index)
            index_remove(l, lines_line_of(gone), slot);
        if (l->links)
            unlink_slot(l, set, slot);
    }
    l->entries[slot] = lines_entry_of(line) | dirty;
    swap_mark(l, slot, mark);
    if (l->index)
        index_put(l, line, slot);
    if (l->links)
        link_newest(l, set, slot);
    else
        note_use(l, set, slot);
    return gone;
}

static lines_entry remove_slot(struct lines *l, uint64_t set, uint64_t line, uint32_t *mark)
{
    uint32_t slot = slot_of(l, set, line);
    if (slot == NONE)
        return 0;
    lines_entry e = l->entries[slot];
    if (l->index)
        index_remove(l, line, slot);
    if (l->links)
        unlink_slot(l, set, slot);
    l->entries[slot] = 0;
    if (l->marks) {
        *mark = l->marks[slot];
        l->marks[slot] = 0;
    }
    l->fill[set].used--;
    if (slot < l->fill[set].free_from)
        l->fill[set].free_from = slot;
    return e;
}

/* ---- both ---- */

static uint32_t *nones(uint64_t count)
{
    uint32_t *p = xmalloc(count * sizeof *p);
    for (uint64_t i = 0; i < count; i++)
        p[i] = NONE;
    return p;
}

static void init_slots(struct lines *l, uint64_t count)
{
    l->fill = xmalloc(l->sets * sizeof *l->fill);
    for (uint64_t s = 0; s < l->sets; s++)
        l->fill[s].free_from = (uint32_t)(s * l->ways);
    if (l->policy == CACHE_LRU) {
        l->links = xmalloc(count * sizeof *l->links);
        l->newest = nones(l->sets);
        l->oldest = nones(l->sets);
    }
    if (l->policy == CACHE_PLRU)
        l->tree = xmalloc(count);
    if (l->ways > SEARCHED_MAX) {
        for (l->index_mask = 1; l->index_mask < 2 * count; l->index_mask *= 2)
            ;
        l->index = xmalloc(l->index_mask-- * sizeof *l->index);
    }
}

bool lines_are_ordered(enum cache_policy policy, uint32_t ways) { return policy == CACHE_LRU && ways <= ORDERED_MAX; }

void lines_init(struct lines *l, uint64_t sets, uint32_t ways, enum cache_policy policy, uint64_t seed, bool with_marks)
{
    *l = (struct lines){.sets = sets, .ways = ways, .policy = policy, .random = seed ? seed : 1};
    l->mask = sets & (sets - 1) ? 0 : sets - 1;
    l->entries = xmalloc(sets * ways * sizeof *l->entries);
    l->marks = with_marks ? xmalloc(sets * ways * sizeof *l->marks) : NULL;
    l->is_ordered = lines_are_ordered(policy, ways);
    if (!l->is_ordered)
        init_slots(l, sets * ways);
}

void lines_fini(struct lines *l)
{
    free(l->entries);
    free(l->marks);
    free(l->fill);
    free(l->links);
    free(l->newest);
    free(l->oldest);
    free(l->tree);
    free(l->index);
    memset(l, 0, sizeof *l);
}

uint32_t lines_find(const struct lines *l, uint64_t line)
{
    uint64_t set = lines_set(l, line);
    if (!l->is_ordered)
        return slot_of(l, set, line);
    uint32_t way = lines_way(l, &l->entries[set * l->ways], lines_entry_of(line));
    return way == NONE ? NONE : (uint32_t)(set * l->ways) + way;
}

uint32_t lines_use(struct lines *l, uint64_t line, lines_entry dirty)
{
    uint64_t set = lines_set(l, line);
    if (l->is_ordered)
        return use_ordered(l, set * l->ways, lines_entry_of(line), dirty);
    uint32_t slot = slot_of(l, set, line);
    if (slot == NONE)
        return NONE;
    l->entries[slot] |= dirty;
    note_use(l, set, slot);
    return slot;
}

lines_entry lines_add(struct lines *l, uint64_t line, lines_entry dirty, uint32_t *mark)
{
    uint64_t set = lines_set(l, line), last = (set + 1) * l->ways - 1;
    if (!l->is_ordered)
        return add_slot(l, set, line, dirty, mark);
    lines_entry gone = l->entries[last];
    uint32_t its_mark = l->marks ? l->marks[last] : 0;
    lines_bring_forward(l, set * l->ways, l->ways - 1, lines_entry_of(line) | dirty, *mark);
    *mark = its_mark;
    return gone;
}

lines_entry lines_remove(struct lines *l, uint64_t line, uint32_t *mark)
{
    uint64_t set = lines_set(l, line);
    return l->is_ordered ? remove_ordered(l, set * l->ways, lines_entry_of(line), mark)
                         : remove_slot(l, set, line, mark);
}

lines_entry lines_remove_any(struct lines *l, uint64_t first, uint64_t count, uint32_t *mark)
{
    uint64_t slots = l->sets * l->ways;
    lines_entry e = 0;
    for (uint64_t i = 0; count <= slots && i < count && !e; i++)
        e = lines_remove(l, first + i, mark);
    for (uint64_t i = 0; count > slots && i < slots && !e; i++)
        if (l->entries[i] && lines_line_of(l->entries[i]) - first < count)
            e = lines_remove(l, lines_line_of(l->entries[i]), mark);
    return e;
}

bool lines_soil(struct lines *l, uint64_t line)
{
    uint32_t at = lines_find(l, line);
    if (at != NONE)
        l->entries[at] |= LINES_DIRTY;
    return at != NONE;
}

bool lines_clean(struct lines *l, uint64_t line)
{
    uint32_t at = lines_find(l, line);
    if (at == NONE || !(l->entries[at] & LINES_DIRTY))
        return false;
    l->entries[at] &= ~LINES_DIRTY;
    return true;
}
