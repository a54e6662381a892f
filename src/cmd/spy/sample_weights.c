/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples stand for.
 *
 * Samples begin by time, so they have too much of the code that waits, for misses most of all, and of what telling
 * slows down (calls of allocators) between them too. How often each block is executed in all is known, and how often in
 * each sample was counted too. So samples weigh as much as makes them together execute what the program does, function
 * by function; and what is still lacking of a block then, its misses count as often. Where samples have little of a
 * block, by all of its function. */
#include "cmd/spy/program.h"

#include <stdlib.h>

bool spied_count_module(const struct spied_program *s, size_t module, struct spied_counts *out)
{
    const struct prof_input_module *m = &s->counted->modules[module];
    if (module >= s->counted->module_count || !m->map || !m->counters)
        return false;
    *out = (struct spied_counts){xmalloc((m->map->cfg->blocks.len + 1) * sizeof *out->blocks),
                                 xmalloc((m->map->cfg->edges.len + 1) * sizeof *out->edges)};
    rewrite_counts_solve(m->map, m->counters, out->blocks, out->edges, NULL);
    return true;
}

void spied_counts_free(struct spied_counts *e)
{
    free(e->blocks);
    free(e->edges);
}

enum { EXECUTIONS_MIN = 1000 };

struct lack {
    double all, in_samples; /* references */
};
struct lacks { /* of a module; struct lack's are of its blocks and functions as the copy's map numbers them */
    const struct cfg *counted;
    const struct rewrite_map *map;
    struct spied_counts executed;
    double *in_samples;       /* [counters] as the samples weigh */
    uint32_t *sites;          /* [counters] of the blocks that it counts; */
    uint32_t *func;           /* [counters] and their function */
    uint32_t *of_block_sites; /* [blocks] */
    size_t counters;
    uint32_t first_func; /* numbered through */
    struct lack *of_block, *of_func;
};
struct all_lacks {
    const struct spied_program *s;
    struct lacks *of; /* [s->module_count] map NULL: nothing is known of it */
    uint32_t funcs;
    struct lack whole;
};

/* The block of the copy's map that has the site; ID_NONE: it is not counted. */
static uint32_t block_of(const struct lacks *m, const struct spy_site *site)
{
    uint32_t b = site->bytes ? cfg_block_at(m->map->cfg, site->address) : ID_NONE;
    return b == ID_NONE || m->map->block_counter[b] == ID_NONE ? ID_NONE : b;
}

static void add_sites(struct all_lacks *a, size_t module)
{
    struct lacks *m = &a->of[module];
    for (uint32_t k = 0; k < a->s->modules[module].site_count; k++) {
        const struct spy_site *site = spy_site(a->s->spy, a->s->modules[module].first_site + k);
        uint32_t b = block_of(m, site), counted = b == ID_NONE ? ID_NONE : cfg_block_at(m->counted, site->address);
        if (counted == ID_NONE || m->map->block_counter[b] >= m->counters)
            continue;
        m->of_block_sites[b]++;
        m->sites[m->map->block_counter[b]]++;
        m->func[m->map->block_counter[b]] = m->map->cfg->blocks.data[b].func;
        m->of_block[b].all += (double)m->executed.blocks[counted];
        m->of_func[m->map->cfg->blocks.data[b].func].all += (double)m->executed.blocks[counted];
        a->whole.all += (double)m->executed.blocks[counted];
    }
}

static size_t counters_of(const struct rewrite_map *map)
{
    size_t n = 0;
    for (size_t b = 0; b < map->cfg->blocks.len; b++)
        if (map->block_counter[b] != ID_NONE)
            n = max_u64(n, map->block_counter[b] + 1ull);
    return n;
}

static void find_lacks(struct all_lacks *a, size_t module)
{
    struct lacks *m = &a->of[module];
    const struct rewrite_map *map = a->s->modules[module].map;
    if (!map || !spied_count_module(a->s, module, &m->executed))
        return;
    m->map = map;
    m->counted = a->s->counted->modules[module].map->cfg;
    m->counters = counters_of(map);
    m->in_samples = xmalloc((m->counters + 1) * sizeof *m->in_samples);
    m->sites = xmalloc((m->counters + 1) * sizeof *m->sites);
    m->func = xmalloc((m->counters + 1) * sizeof *m->func);
    m->of_block_sites = xmalloc((map->cfg->blocks.len + 1) * sizeof *m->of_block_sites);
    m->of_block = xmalloc((map->cfg->blocks.len + 1) * sizeof *m->of_block);
    m->of_func = xmalloc((map->cfg->funcs.len + 1) * sizeof *m->of_func);
    m->first_func = a->funcs;
    a->funcs += (uint32_t)map->cfg->funcs.len;
    add_sites(a, module);
}

static void lacks_free(struct all_lacks *a)
{
    for (size_t i = 0; i < a->s->module_count; i++) {
        struct lacks *m = &a->of[i];
        spied_counts_free(&m->executed);
        free(m->in_samples);
        free(m->sites);
        free(m->func);
        free(m->of_block_sites);
        free(m->of_block);
        free(m->of_func);
    }
    free(a->of);
}

/* Of a module that tells, and a block with sites; else NULL. */
static struct lacks *lacks_of(const struct all_lacks *a, const struct spied_executed *e)
{
    struct lacks *m = e->module < a->s->module_count ? &a->of[e->module] : NULL;
    return m && m->map && e->counter < m->counters && m->sites[e->counter] ? m : NULL;
}

/* How much each sample stands for. */
static void weigh(const struct all_lacks *a, double *weights, size_t samples)
{
    VEC(struct cache_work) work = {0};
    double *whole = xmalloc((a->funcs + 1ull) * sizeof *whole);
    for (size_t i = 0; i < a->s->executed.len; i++) {
        const struct spied_executed *e = &a->s->executed.data[i];
        const struct lacks *m = lacks_of(a, e);
        if (m && e->sample < samples)
            VEC_PUSH(&work, ((struct cache_work){e->sample, m->first_func + m->func[e->counter],
                                                 (double)e->times * m->sites[e->counter]}));
    }
    for (size_t i = 0; i < a->s->module_count; i++)
        for (size_t f = 0; a->of[i].map && f < a->of[i].map->cfg->funcs.len; f++)
            whole[a->of[i].first_func + f] = a->of[i].of_func[f].all;
    cache_work_weights(work.data, work.len, whole, a->funcs, weights, samples);
    free(whole);
    VEC_FREE(&work);
}

static void add_in_samples(struct all_lacks *a, const double *weights, size_t samples)
{
    for (size_t i = 0; i < a->s->executed.len; i++) {
        const struct spied_executed *e = &a->s->executed.data[i];
        struct lacks *m = lacks_of(a, e);
        if (m && e->sample < samples)
            m->in_samples[e->counter] += weights[e->sample] * (double)e->times;
    }
    for (size_t i = 0; i < a->s->module_count; i++) {
        struct lacks *m = &a->of[i];
        for (size_t b = 0; m->map && b < m->map->cfg->blocks.len; b++) {
            if (!m->of_block_sites[b])
                continue;
            double references = m->in_samples[m->map->block_counter[b]] * m->of_block_sites[b];
            m->of_block[b].in_samples = references;
            m->of_func[m->map->cfg->blocks.data[b].func].in_samples += references;
            a->whole.in_samples += references;
        }
    }
}

/* Of the whole run's references in samples so many in one; so many times as many stand in a part of it. */
static double factor_of(const struct lacks *m, const struct spy_site *site, const struct lack *whole)
{
    uint32_t b = m->map ? block_of(m, site) : ID_NONE;
    if (b == ID_NONE)
        return 1;
    const struct lack *l = &m->of_block[b];
    if (l->in_samples < EXECUTIONS_MIN)
        l = &m->of_func[m->map->cfg->blocks.data[b].func];
    return l->in_samples < EXECUTIONS_MIN || !(l->all > 0) ? 1
                                                           : l->all / l->in_samples * whole->in_samples / whole->all;
}

void spied_weigh_samples(const struct spied_program *s, size_t samples)
{
    double *weights = xmalloc((samples + 1) * sizeof *weights);
    double *factors = xmalloc((spy_site_count(s->spy) + 1ull) * sizeof *factors);
    struct all_lacks all = {s, xmalloc((s->module_count + 1) * sizeof *all.of), 0, {0, 0}};
    for (size_t i = 0; i < s->module_count; i++)
        find_lacks(&all, i);
    weigh(&all, weights, samples);
    add_in_samples(&all, weights, samples);
    for (uint32_t i = 0; i < spy_site_count(s->spy); i++)
        factors[i] = 1;
    for (size_t i = 0; i < s->module_count; i++)
        for (uint32_t k = 0; k < s->modules[i].site_count; k++)
            factors[s->modules[i].first_site + k] =
                factor_of(&all.of[i], spy_site(s->spy, s->modules[i].first_site + k), &all.whole);
    spy_windows_stand_for(s->spy, weights, all.whole.all, factors);
    lacks_free(&all);
    free(factors);
    free(weights);
}
