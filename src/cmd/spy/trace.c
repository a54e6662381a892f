/* SPDX-License-Identifier: Apache-2.0
 * A trace of references through simulated caches. */
#include "cmd/spy/traced.h"

#include <stdlib.h>

enum { BATCH = 1 << 15, TOP = 10 };

/* ---- the trace through them ---- */

static void run_batch(struct spy_traced *s, const struct cache_ref *refs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        s->references[refs[i].kind]++;
    for (size_t c = 0; c < s->count; c++)
        cache_run(s->caches[c].cache, refs, count);
    cache_curve_run(s->curve, refs, count);
}

static int run_trace(struct spy_traced *s)
{
    struct cache_ref *refs = ARENA_ARRAY(s->arena, struct cache_ref, BATCH);
    ptrdiff_t count;
    s->curve_line = spy_curve_line(&s->caches[0].config);
    s->curve = cache_curve_new(s->curve_line, SPY_CURVE_MIN, SPY_CURVE_MAX);
    for (size_t c = 0; c < s->count; c++)
        s->caches[c].cache = cache_new(&s->caches[c].config, true);
    while ((count = cache_reader_next(s->reader, refs, BATCH)) > 0) {
        uint64_t done, total;
        run_batch(s, refs, (size_t)count);
        cache_reader_progress(s->reader, &done, &total);
        diag_progress("simulating", done, total);
    }
    diag_progress_end();
    if (count == 0 && !s->references[CACHE_FETCH] && !cache_curve_references(s->curve))
        return diag_error("no reference is in the trace %s", s->trace);
    return (int)count;
}

/* ---- what was found ---- */

static uint64_t sum_kinds(const uint64_t of[CACHE_KIND_COUNT])
{
    return of[CACHE_FETCH] + of[CACHE_READ] + of[CACHE_WRITE];
}

uint64_t spy_level_misses(const struct spy_caches *c, unsigned level)
{
    return sum_kinds(cache_counts(c->cache, level)->misses);
}

uint64_t spy_level_references(const struct spy_caches *c, unsigned level)
{
    return sum_kinds(cache_counts(c->cache, level)->references);
}

static int by_misses(const void *a, const void *b)
{
    const struct spy_instruction *x = a, *y = b;
    if (x->counts->misses != y->counts->misses)
        return x->counts->misses > y->counts->misses ? -1 : 1;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

struct spy_instruction *spy_worst(const struct spy_traced *s, const struct spy_caches *c, unsigned level, size_t *count)
{
    size_t cells, pairs;
    const struct cache_cell *cell = cache_cells(c->cache, level, &cells);
    const struct cache_evictor *all = cache_evictors(c->cache, level, s->arena, &pairs), *end = all + pairs;
    struct spy_instruction *out = ARENA_ARRAY(s->arena, struct spy_instruction, cells + 1);
    *count = 0;
    for (uint32_t i = 0; i < cells; i++) {
        const struct cache_evictor *first = all;
        while (all < end && all->cell == i)
            all++;
        if (cell[i].misses)
            out[(*count)++] = (struct spy_instruction){i, &cell[i], first, (size_t)(all - first)};
    }
    qsort(out, *count, sizeof *out, by_misses);
    *count = min_u64(*count, s->top);
    return out;
}

static int simulate(struct spy_traced *s, const struct cmd_args *a)
{
    struct strbuf out = {0};
    if (spy_choose_caches(a, s->arena, &s->caches, &s->count) < 0 || cache_reader_open(a->trace, &s->reader) < 0 ||
        run_trace(s) < 0)
        return CMD_UNUSABLE;
    a->json ? spy_put_json(s, &out) : spy_put_text(s, &out);
    return cmd_print(&out);
}

int spy_trace(const struct cmd_args *a)
{
    bool is_input = strcmp(a->trace, "-") == 0;
    struct spy_traced s = {
        .trace = is_input ? "standard input" : a->trace, .top = a->top ? a->top : TOP, .arena = a->arena};
    int status = simulate(&s, a);
    cache_reader_close(s.reader);
    cache_curve_free(s.curve);
    for (size_t c = 0; c < s.count; c++)
        cache_free(s.caches[c].cache);
    return status;
}
