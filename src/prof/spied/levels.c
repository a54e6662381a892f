/* SPDX-License-Identifier: Apache-2.0
 * The simulated caches, and what the program as a whole misses in them. */
#include "prof/spied/spied.h"

static uint64_t sum(const uint64_t of[CACHE_KIND_COUNT]) { return of[CACHE_READ] + of[CACHE_WRITE] + of[CACHE_FETCH]; }

/* TLBs are those of the caches in front of them. */
static uint32_t configuration_of(const struct spied *s, size_t config)
{
    uint32_t n = 0;
    for (size_t i = 1; i <= config; i++)
        n += !s->in->caches[i].is_tlb;
    return n;
}

static const char *name_of(const struct spied *s, const struct spied_level *l)
{
    char name[8];
    if (l->caches->is_tlb)
        return arena_printf(s->j->r->arena, "TLB%u", l->level + 1);
    return arena_strdup(s->j->r->arena, cache_level_name(&l->caches->config, l->level, name));
}

static struct prof_cache row_of(const struct spied *s, const struct spied_level *l)
{
    const struct cache_level *c = &l->caches->config.levels[l->level];
    return (struct prof_cache){.configuration = configuration_of(s, l->config),
                               .name = name_of(s, l),
                               .is_tlb = l->caches->is_tlb,
                               .bytes = c->size_bytes,
                               .line_bytes = c->line_bytes,
                               .ways = c->ways,
                               .replacement = cache_policy_name(c->policy),
                               .inclusion = cache_inclusion_name(c->inclusion),
                               .miss_cycles = l->miss_cycles};
}

struct prof_data_miss spied_misses_of(const struct cache_counts *c)
{
    struct prof_data_miss row = {
        .owner = PROF_OWNER_PROGRAM, .references = sum(c->references), .misses = sum(c->misses)};
    for (int k = 0; k < CACHE_KIND_COUNT; k++)
        spied_add_causes(&row, c->causes[k]);
    return row;
}

bool spied_is_nearest(const struct spied_level *l)
{
    const struct cache_level *all = l->caches->config.levels;
    for (unsigned i = 0; i < l->level; i++)
        if (all[i].side & CACHE_DATA)
            return false;
    return all[l->level].side & CACHE_DATA;
}

/* Fetches are not told, so levels of code alone have nothing to say. */
static void add_levels(struct spied *s, size_t config)
{
    const struct prof_input_caches *of = &s->in->caches[config];
    for (unsigned k = 0; k < of->config.count; k++) {
        if (!(of->config.levels[k].side & CACHE_DATA))
            continue;
        struct spied_level *l = &s->levels[s->level_count++];
        *l = (struct spied_level){.caches = of, .config = config, .level = k, .miss_cycles = of->miss_cycles[k]};
        l->cell = cache_cells(spy_cache(s->in->spy, config), k, &l->cell_count);
        l->cell = spied_scaled(s, l);
    }
}

/* The level whose misses cost most. */
static void choose_primary(struct spied *s)
{
    double most = -1;
    for (uint32_t i = 0; i < s->level_count; i++) {
        const struct spied_level *l = &s->levels[i];
        double cycles = l->miss_cycles * (double)sum(cache_counts(spy_cache(s->in->spy, l->config), l->level)->misses);
        if (l->config == 0 && cycles > most) {
            most = cycles;
            s->primary = i;
        }
    }
}

void spied_levels(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t max = 0;
    for (size_t i = 0; i < s->in->caches_count; i++)
        max += s->in->caches[i].config.count;
    s->levels = ARENA_ARRAY(s->j->scratch, struct spied_level, max + 1);
    for (size_t i = 0; i < s->in->caches_count; i++)
        add_levels(s, i);
    choose_primary(s);
    r->caches = ARENA_ARRAY(r->arena, struct prof_cache, s->level_count + 1);
    for (uint32_t i = 0; i < s->level_count; i++) {
        const struct spied_level *l = &s->levels[i];
        struct prof_data_miss row = spied_misses_of(cache_counts(spy_cache(s->in->spy, l->config), l->level));
        r->caches[r->cache_count] = row_of(s, l);
        r->caches[r->cache_count++].is_primary = i == s->primary;
        row.cache = i;
        spied_scale_row(s, &row);
        spied_estimate(s, i, NULL, 0, &row);
        if (s->in->is_filtered && spied_is_nearest(l))
            row.references = s->references;
        spied_add_miss(s, &row);
    }
}
