/* SPDX-License-Identifier: Apache-2.0
 * Misses of the levels that most machines have (those of plain/plain.h), where nobody wants causes: what hierarchy.c
 * does, of one thread, with nothing to be asked on the way. */
#include "cache/hierarchy.h"

enum { GROUP = 4 };

bool bare_takes(const struct cache *c)
{
    if (c->with_causes || c->has_whole || c->nearest_data == NO_LEVEL)
        return false;
    for (int at = c->nearest_data; at != NO_LEVEL; at = c->levels[at].next) {
        const struct level *l = &c->levels[at];
        if (!l->is_quick[1] || l->config.inclusion != CACHE_NEITHER || l->shift != c->levels[c->nearest_data].shift)
            return false;
    }
    return true;
}

static inline unsigned is(lines_entry e, lines_entry key) { return lines_is(e, key); }

/* As lines_way; of several at once it is not foreseen which. */
static inline uint32_t way_of(const lines_entry *set, uint32_t ways, lines_entry key)
{
    uint32_t w = 0;
    for (; w + GROUP <= ways; w += GROUP)
        if (is(set[w], key) | is(set[w + 1], key) | is(set[w + 2], key) | is(set[w + 3], key))
            break;
    while (w < ways && !lines_is(set[w], key))
        w++;
    return w;
}

static inline bool use(struct lines *l, uint64_t line)
{
    uint64_t first = lines_set(l, line) * l->ways;
    uint32_t way = way_of(&l->entries[first], l->ways, lines_entry_of(line));
    if (way == l->ways)
        return false;
    lines_bring_forward(l, first, way, l->entries[first + way], 0);
    return true;
}

/* What had to go for it, or 0. */
static inline lines_entry add(struct lines *l, uint64_t line, lines_entry dirty)
{
    uint64_t first = lines_set(l, line) * l->ways;
    lines_entry gone = l->entries[first + l->ways - 1];
    lines_bring_forward(l, first, l->ways - 1, lines_entry_of(line) | dirty, 0);
    return gone;
}

void bare_miss(struct cache *c, const struct cache_ref *r, enum cache_kind kind, bool stores)
{
    int lacking[CACHE_LEVELS_MAX], count = 0;
    uint64_t line = r->address >> c->levels[c->nearest_data].shift;
    for (int at = c->nearest_data; at != NO_LEVEL; at = c->levels[at].next) {
        struct level *l = &c->levels[at];
        l->counts.references[kind]++;
        if (count && use(&l->banks[r->thread]->lines, line))
            break;
        l->counts.misses[kind]++;
        lacking[count++] = at;
    }
    while (count-- > 0) {
        struct level *l = &c->levels[lacking[count]];
        lines_entry gone = add(&l->banks[r->thread]->lines, line, count == 0 && stores);
        if (!(gone & LINES_DIRTY))
            continue;
        l->counts.write_backs++;
        hierarchy_write_back(c, l->next, lines_line_of(gone) << l->shift, r->thread);
    }
}
