/* SPDX-License-Identifier: Apache-2.0
 * The passes over what mtool spy found. */
#include "prof/spied/spied.h"

#include <math.h>
#include <stdlib.h>

/* What was lost on the way, and what could not be a reference. */
static uint64_t seen_of(const struct spied *s)
{
    if (s->windows)
        return s->in_windows;
    uint64_t lost = (s->in->dropped == PROF_UNKNOWN ? 0 : s->in->dropped) + spy_strays(s->in->spy);
    return s->one_in > 1 || s->references == PROF_UNKNOWN ? PROF_UNKNOWN : s->references - min_u64(lost, s->references);
}

static double ratio_of(const struct spied *s, uint64_t seen)
{
    if (s->one_in > 1 && !s->windows)
        return 1.0 / s->one_in;
    return s->references && seen != PROF_UNKNOWN ? (double)seen / (double)s->references : NAN;
}

static void put_run(const struct spied *s)
{
    struct prof_result *r = s->j->r;
    const struct prof_input_spied *in = s->in;
    uint64_t seen = seen_of(s);
    r->spy = ARENA_NEW(r->arena, struct prof_spy);
    r->spy_count = 1;
    *r->spy = (struct prof_spy){.stream = s->windows      ? "samples"
                                          : s->one_in > 1 ? "sets"
                                                          : "all",
                                .ratio = ratio_of(s, seen),
                                .references = s->references,
                                .seen = seen,
                                .samples = s->windows ? s->windows : PROF_UNKNOWN,
                                .dropped = in->dropped,
                                .unlogged = in->unlogged,
                                .allocations = in->allocations,
                                .threads = in->threads,
                                .spied_s = in->spied_s};
}

/* Each owner's rows were made together; the program's first. */
static void keep_misses(struct spied *s)
{
    struct prof_result *r = s->j->r;
    r->data_misses = ARENA_ARRAY(r->arena, struct prof_data_miss, s->miss_count + 1);
    memcpy(r->data_misses, s->misses, s->miss_count * sizeof *s->misses);
    r->data_miss_count = s->miss_count;
    free(s->misses);
}

void spied_build(struct join *j)
{
    struct spied s = {.j = j, .in = j->in->spied};
    if (!s.in)
        return;
    s.cells = spy_cells(s.in->spy, &s.cell_count);
    s.one_in = spy_one_in(s.in->spy);
    s.windows = spy_window_count(s.in->spy, &s.in_windows);
    spied_proofs(&s);
    spied_places(&s);
    spied_references(&s);
    put_run(&s);
    spied_levels(&s);
    spied_stall(&s);
    spied_seconds(&s);
    spied_objects(&s);
    spied_curves(&s);
    spied_cells(&s);
    spied_lines(&s);
    spied_fields(&s);
    spied_processes(&s);
    keep_misses(&s);
    spied_evictors(&s);
    spied_sharing(&s);
    spied_pictures(&s);
    spied_advice(&s);
}
