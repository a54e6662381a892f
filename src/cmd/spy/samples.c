/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of a program's references: how long, and how often, by what the counted run says of the program; and each
 * sample as a window of the simulation. What they stand for then is sample_weights.c's.
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

/* Before there are copies that tell any: an estimate. */
static double memory_operations(const struct spied_program *s)
{
    double sum = 0;
    struct spied_counts e;
    for (size_t i = 0; i < s->counted->module_count; i++) {
        if (!spied_count_module(s, i, &e))
            continue;
        const struct cfg *c = s->counted->modules[i].map->cfg;
        for (size_t b = 0; b < c->blocks.len; b++)
            sum += (double)e.blocks[b] * c->blocks.data[b].mem_ops;
        spied_counts_free(&e);
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

static void keep_executed(struct spied_program *s, const struct launch_sample_end *end)
{
    uint64_t seen;
    uint32_t sample = (uint32_t)spy_window_count(s->spy, &seen);
    for (size_t i = 0; i < end->count; i++) {
        const struct launch_executed *e = &end->executed[i];
        VEC_PUSH(&s->executed,
                 ((struct spied_executed){sample, e->module, e->counter, (uint32_t)min_u64(e->times, UINT32_MAX)}));
    }
}

void spied_sample(void *ctx, const struct launch_sample_end *end)
{
    struct spied_program *s = ctx;
    release(s);
    if (!end) {
        spy_window_begin(s->spy);
        return;
    }
    keep_executed(s, end);
    spy_window_end(s->spy, end->references, 1);
}

/* ---- at the end ---- */

void spied_end_samples(struct spied_program *s)
{
    uint64_t seen;
    release(s);
    spy_end(s->spy);
    if (!s->samples.length)
        return;
    uint64_t samples = spy_window_count(s->spy, &seen);
    spied_weigh_samples(s, samples);
    if (samples < SAMPLES_MIN)
        diag_warn("samples-few", "only %llu samples could be taken: figures are rough", (unsigned long long)samples);
}
