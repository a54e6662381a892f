/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of a program's references: how long, and how often, by what the counted run says of the program; and each
 * sample as a window of the simulation.
 */
#include "cmd/spy/program.h"

#include <stdlib.h>

/* Lengths by what windows of traced programs told (doc/spy.md): with 64 references for each line of a cache of 1 MB
 * most of its lines are known before the window is half over. Longer ones would serve larger caches; but then there are
 * few, and between them lies more. */
enum {
    LENGTH_MIN = 10000,
    LENGTH_USUAL = 50000,
    LENGTH_MAX = 2000000,
    REFERENCES_A_LINE = 64,
    SAMPLES_WANTED = 100,
    SAMPLES_MIN = 20,
    SAMPLES_MAX = 2000
};

int spied_check_samples(const struct cmd_args *a)
{
    const char *alone = a->sample_length ? "sample-length" : a->sample_evenly ? "sample-evenly" : NULL;
    if (alone && a->sample < 2)
        return diag_error("--%s is about samples; give --sample 1/N too", alone), CMD_UNUSABLE;
    if (a->sample > 1 && a->sets > 1)
        return diag_error("--sample and --sets exclude each other"), CMD_UNUSABLE;
    if (a->sample > 1 && a->follow)
        return diag_error("--sample and --follow exclude each other: all references of each process are simulated"),
               CMD_UNUSABLE;
    return 0;
}

/* ---- how many references there are ---- */

struct executed { /* blocks of a module in the counted run */
    uint64_t *blocks, *edges;
};

static bool count_module(const struct spied_program *s, size_t module, struct executed *out)
{
    const struct prof_input_module *m = &s->counted->modules[module];
    if (module >= s->counted->module_count || !m->map || !m->counters)
        return false;
    *out = (struct executed){xmalloc((m->map->cfg->blocks.len + 1) * sizeof *out->blocks),
                             xmalloc((m->map->cfg->edges.len + 1) * sizeof *out->edges)};
    rewrite_counts_solve(m->map, m->counters, out->blocks, out->edges, NULL);
    return true;
}

static void executed_free(struct executed *e)
{
    free(e->blocks);
    free(e->edges);
}

/* Before there are copies that tell any: an estimate. */
static double memory_operations(const struct spied_program *s)
{
    double sum = 0;
    struct executed e;
    for (size_t i = 0; i < s->counted->module_count; i++) {
        if (!count_module(s, i, &e))
            continue;
        const struct cfg *c = s->counted->modules[i].map->cfg;
        for (size_t b = 0; b < c->blocks.len; b++)
            sum += (double)e.blocks[b] * c->blocks.data[b].mem_ops;
        executed_free(&e);
    }
    return sum;
}

/* ---- the plan ---- */

static uint64_t largest_lines(const struct spied_program *s)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < s->cache_count; i++)
        for (unsigned k = 0; !s->caches[i].is_tlb && k < s->caches[i].config.count; k++)
            lines = max_u64(lines, s->caches[i].config.levels[k].size_bytes / s->caches[i].config.levels[k].line_bytes);
    return lines;
}

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most) { return max_u64(least, min_u64(n, most)); }

static uint64_t length_of(const struct spied_program *s, double told)
{
    const struct cmd_args *a = s->profile->args;
    uint64_t wanted = clamp(REFERENCES_A_LINE * largest_lines(s), LENGTH_USUAL, LENGTH_MAX);
    uint64_t longest = clamp((uint64_t)(told / SAMPLES_WANTED), LENGTH_MIN, LENGTH_MAX);
    if (a->sample_length)
        return a->sample_length;
    return max_u64(min_u64(wanted, longest), (uint64_t)(told / SAMPLES_MAX));
}

void spied_plan_samples(struct spied_program *s, const struct launch_result *counted)
{
    uint64_t one_in = s->profile->args->sample;
    if (one_in < 2)
        return;
    double all = memory_operations(s), told = all / (double)one_in;
    uint64_t length = length_of(s, told);
    double time_s = counted->user_s + counted->system_s - counted->before_s;
    if (told < (double)SAMPLES_MIN * (double)length || time_s <= 0) {
        diag_warn("samples-few",
                  "the program makes %.0f references, too few for %d samples of %llu, one in %llu: all are followed",
                  all, SAMPLES_MIN, (unsigned long long)length, (unsigned long long)one_in);
        return;
    }
    s->samples = (struct launch_samples){.length = length,
                                         .period_s = time_s * (double)length / told,
                                         .part = 1 / (double)one_in,
                                         .is_even = s->profile->args->sample_evenly,
                                         .seed = 1};
}

/* ---- while it runs ---- */

static void release(struct spied_program *s)
{
    merge_end(s->merge);
    if (s->second_merge)
        merge_end(s->second_merge);
}

void spied_sample(void *ctx, bool begins, uint64_t references)
{
    struct spied_program *s = ctx;
    release(s);
    if (begins)
        spy_window_begin(s->spy);
    else
        spy_window_end(s->spy, references, 1);
}

/* ---- what they stand for ---- */

/* Samples begin by time, so they have too much of the code that waits, for misses most of all. How often each block is
 * executed in all is known, and how often in samples was counted too; so its misses count as often as it lacks there.
 * Where samples have little of a block, by all of its function. */
enum { EXECUTIONS_MIN = 1000 };

struct lack {
    double all, in_samples; /* references */
};
struct lacks { /* of a module */
    const struct cfg *counted;
    const struct rewrite_map *map;
    const uint64_t *blocks, *in_samples;
    struct lack *of_block, *of_func; /* as the copy's map numbers them */
};

static void add_site(const struct lacks *m, const struct spy_site *site, struct lack *whole)
{
    uint32_t b = site->bytes ? cfg_block_at(m->map->cfg, site->address) : ID_NONE;
    uint32_t counted = site->bytes ? cfg_block_at(m->counted, site->address) : ID_NONE;
    if (b == ID_NONE || counted == ID_NONE || m->map->block_counter[b] == ID_NONE)
        return;
    double all = (double)m->blocks[counted], in = m->in_samples ? (double)m->in_samples[m->map->block_counter[b]] : 0;
    struct lack *const to[] = {&m->of_block[b], &m->of_func[m->map->cfg->blocks.data[b].func], whole};
    for (size_t i = 0; i < ARRAY_LEN(to); i++) {
        to[i]->all += all;
        to[i]->in_samples += in;
    }
}

/* Of the whole run's references in samples so many in one; so many times as many stand in a part of it. */
static double factor_of(const struct lacks *m, const struct spy_site *site, const struct lack *whole)
{
    uint32_t b = site->bytes ? cfg_block_at(m->map->cfg, site->address) : ID_NONE;
    if (b == ID_NONE)
        return 1;
    const struct lack *l = &m->of_block[b];
    if (l->in_samples < EXECUTIONS_MIN)
        l = &m->of_func[m->map->cfg->blocks.data[b].func];
    return l->in_samples < EXECUTIONS_MIN || !(l->all > 0) ? 1
                                                           : l->all / l->in_samples * whole->in_samples / whole->all;
}

static bool lacks_of(const struct spied_program *s, size_t module, const struct launch_result *run, struct executed *e,
                     struct lacks *out)
{
    const struct rewrite_map *map = s->modules[module].map;
    if (!map || !count_module(s, module, e))
        return false;
    *out = (struct lacks){.counted = s->counted->modules[module].map->cfg,
                          .map = map,
                          .blocks = e->blocks,
                          .in_samples = module < run->counters_len ? run->counters[module] : NULL,
                          .of_block = xmalloc((map->cfg->blocks.len + 1) * sizeof *out->of_block),
                          .of_func = xmalloc((map->cfg->funcs.len + 1) * sizeof *out->of_func)};
    return true;
}

/* Sums up what all modules have first, then what is lacking of each. */
static void for_modules(const struct spied_program *s, const struct launch_result *run, struct lack *whole,
                        double *factors)
{
    struct executed e;
    struct lacks lacks;
    for (size_t i = 0; i < s->module_count; i++) {
        if (!lacks_of(s, i, run, &e, &lacks))
            continue;
        uint32_t first = s->modules[i].first_site;
        struct lack ignored = {0, 0};
        for (uint32_t k = 0; k < s->modules[i].site_count; k++)
            add_site(&lacks, spy_site(s->spy, first + k), factors ? &ignored : whole);
        for (uint32_t k = 0; factors && k < s->modules[i].site_count; k++)
            factors[first + k] = factor_of(&lacks, spy_site(s->spy, first + k), whole);
        free(lacks.of_block);
        free(lacks.of_func);
        executed_free(&e);
    }
}

static void stand_for(const struct spied_program *s, const struct launch_result *run)
{
    uint32_t sites = spy_site_count(s->spy);
    double *factors = xmalloc((sites + 1ull) * sizeof *factors);
    struct lack whole = {0, 0};
    for (uint32_t i = 0; i < sites; i++)
        factors[i] = 1;
    for_modules(s, run, &whole, NULL);
    for_modules(s, run, &whole, factors);
    spy_windows_stand_for(s->spy, whole.all, factors);
    free(factors);
}

void spied_end_samples(struct spied_program *s, const struct launch_result *run)
{
    uint64_t seen;
    release(s);
    spy_end(s->spy);
    if (!s->samples.length)
        return;
    uint64_t samples = spy_window_count(s->spy, &seen);
    stand_for(s, run);
    if (samples < SAMPLES_MIN)
        diag_warn("samples-few", "only %llu samples could be taken: figures are rough", (unsigned long long)samples);
}
