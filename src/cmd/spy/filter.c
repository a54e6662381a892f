/* SPDX-License-Identifier: Apache-2.0
 * Which references need not be told: whether the caches that are asked for allow the exact filter, and of what kind. */
#include "cmd/spy/program.h"

static bool is_data_first(const struct cache_config *c, unsigned level)
{
    for (unsigned i = 0; i < level; i++)
        if (c->levels[i].side & CACHE_DATA)
            return false;
    return c->levels[level].side & CACHE_DATA;
}

/* Does a reference to the line used last in its slot of the filter change nothing in there? */
static bool suits(const struct cache_config *c, uint64_t line_bytes)
{
    for (unsigned i = 0; i < c->count; i++) {
        const struct cache_level *l = &c->levels[i];
        if (l->inclusion == CACHE_INCLUSIVE || l->no_allocate || l->write_through)
            return false;
        if (is_data_first(c, i) && (l->line_bytes != line_bytes || line_bytes >= CACHE_PAGE_MIN ||
                                    l->size_bytes / l->ways % (WIRE_FILTER_SLOTS * line_bytes) != 0))
            return false;
    }
    return true;
}

static uint64_t shortest_line(const struct spied_program *s)
{
    uint64_t line = CACHE_LINE_MAX;
    for (size_t i = 0; i < s->cache_count; i++)
        for (unsigned k = 0; k < s->caches[i].config.count; k++)
            line = min_u64(line, s->caches[i].config.levels[k].line_bytes);
    return line;
}

/* Of shorter ones a reference is to more than two. */
enum { FILTER_LINES_LINE_MIN = 64 };

/* How many lines of a set that were used last are there, whatever came before? As many as it has ways, or in a tree as
 * many as it has levels of bits, and one. Chance may take any. Among threads the order is mended after another one has
 * taken a line, which bits of a tree remember. */
static unsigned kept_by(const struct cache_level *l, bool has_threads)
{
    if (l->policy == CACHE_LRU)
        return l->ways;
    return l->policy == CACHE_PLRU && !has_threads ? 1u + (unsigned)__builtin_ctz(l->ways) : 1;
}

static uint8_t kept_lines(const struct spied_program *s, bool has_threads)
{
    unsigned kept = WIRE_LAST_LINES;
    for (size_t i = 0; i < s->cache_count; i++)
        for (unsigned k = 0; k < s->caches[i].config.count; k++)
            if (is_data_first(&s->caches[i].config, k))
                kept = (unsigned)min_u64(kept, kept_by(&s->caches[i].config.levels[k], has_threads));
    return (uint8_t)kept;
}

/* Among threads: each has the nearest level for itself, and takes from others no more than the filter's line. */
static bool suits_threads(const struct cache_config *c, uint64_t line_bytes)
{
    for (unsigned i = 0; i < c->count; i++) {
        const struct cache_level *l = &c->levels[i];
        if (l->is_shared ? is_data_first(c, i) : l->line_bytes < CACHE_PAGE_MIN && l->line_bytes != line_bytes)
            return false;
    }
    return true;
}

void spied_leave_out_tlbs(struct spied_program *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->cache_count; i++)
        if (!s->caches[i].is_tlb)
            s->caches[kept++] = s->caches[i];
    s->cache_count = kept;
}

void spied_choose_filter(struct spied_program *s, bool has_threads)
{
    const struct cmd_args *a = s->profile->args;
    bool wants_tlbs = a->machine && a->command->id == CMD_ID_spy && s->part.one_in == 1 && !s->samples.length;
    if (a->unfiltered || wants_tlbs)
        return;
    uint64_t line = shortest_line(s);
    if (line < REWRITE_FILTER_LINE_MIN)
        return;
    for (size_t i = 0; i < s->cache_count; i++)
        if (!s->caches[i].is_tlb &&
            !(suits(&s->caches[i].config, line) && (!has_threads || suits_threads(&s->caches[i].config, line))))
            return;
    spied_leave_out_tlbs(s);
    s->filter_shift = (uint8_t)__builtin_ctzll(line);
    s->filter_lines = line >= FILTER_LINES_LINE_MIN && s->part.one_in == 1 ? kept_lines(s, has_threads) : 1;
    s->is_filtered = true;
}
