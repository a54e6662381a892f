/* SPDX-License-Identifier: Apache-2.0
 *
 * join: the list of passes that turn counters, samples, times and a machine description into the result model.
 */
#include "prof/walks.h"

static int open_modules(struct join *j)
{
    j->modules = ARENA_ARRAY(j->scratch, struct join_module, j->in->module_count + 1);
    for (size_t i = 0; i < j->in->module_count; i++) {
        struct join_module *m = &j->modules[j->module_count++];
        m->in = &j->in->modules[i];
        m->path = arena_strdup(j->r->arena, m->in->path);
        m->cfg = m->in->map ? m->in->map->cfg : NULL;
        /* Without the original there are no names and no ideal times, but counts stand. */
        if (m->cfg && file_exists(m->in->path) && image_open(m->in->path, &m->img) != 0)
            return -1;
    }
    return 0;
}

static void close_modules(struct join *j)
{
    for (uint32_t i = 0; i < j->module_count; i++)
        image_close(j->modules[i].img);
}

static void run_passes(struct join *j)
{
    counts_solve(j); /* first: all others weigh by counts */
    actual_locate(j);
    actual_whole(j);
    counts_sum(j); /* what is heavy decides where the model looks */
    places_open(j);
    ideal_prepare(j);
    j->walks = walks_run(j);
    counts_sum(j); /* again, now with cycles */
    objects_build(j);
    places_sum_lines(j);
    whole_build(j); /* needs the objects: what they leave unexplained */
    if (j->in->want_blocks)
        rows_build(j);
}

int prof_join(struct prof_result *r, const struct prof_input *in)
{
    struct join j = {.r = r, .in = in, .scratch = arena_new(), .files.arena = r->arena};
    int status = open_modules(&j);
    if (status == 0)
        run_passes(&j);
    walks_free(j.walks);
    places_close(&j);
    close_modules(&j);
    VEC_FREE(&j.lost);
    arena_free(j.scratch);
    return status;
}
