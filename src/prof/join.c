/* SPDX-License-Identifier: Apache-2.0
 *
 * join: the list of passes that turn counters, samples, times and a machine description into the result model.
 */
#include "estimate/model/walks.h"
#include "prof/impl.h"

#include <sys/resource.h>

static int open_modules(struct join *j)
{
    j->modules = ARENA_ARRAY(j->scratch, struct join_module, j->in->module_count + 1);
    for (size_t i = 0; i < j->in->module_count; i++) {
        struct join_module *m = &j->modules[j->module_count++];
        m->in = &j->in->modules[i];
        m->path = arena_strdup(j->r->arena, m->in->path);
        m->cfg = m->in->map ? m->in->map->cfg : NULL;
        if (j->in->known && stored_open(j, m) < 0)
            return -1;
        /* Without the original there are no names and no ideal times, but counts stand. */
        if (m->cfg && !m->img && file_exists(m->in->path) && image_open(m->in->path, &m->img) != 0)
            return -1;
    }
    return 0;
}

static void close_modules(struct join *j)
{
    for (uint32_t i = 0; i < j->module_count; i++) {
        stored_close(&j->modules[i]);
        image_close(j->modules[i].img);
    }
}

static long peak_mb(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_maxrss / 1024 : 0;
}

static long now_mb(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long all, resident = 0, shared = 0;
    if (!f || fscanf(f, "%ld %ld %ld", &all, &resident, &shared) != 3)
        resident = shared = 0;
    if (f)
        fclose(f);
    return (resident - shared) / 256; /* pages of 4 KB */
}

static void run_passes(struct join *j)
{
    double since = time_now_s();
#define RUN(pass)                                                                                                      \
    do {                                                                                                               \
        pass(j);                                                                                                       \
        diag_debug(2, "join: %s took %.3f s; %ld MB of its own, at most %ld MB so far", #pass, time_now_s() - since,   \
                   now_mb(), peak_mb());                                                                               \
        since = time_now_s();                                                                                          \
    } while (0)

    RUN(counts_solve); /* first: all others weigh by counts */
    RUN(actual_locate);
    RUN(actual_whole);
    RUN(counts_sum); /* what is heavy decides where the model looks */
    RUN(places_open);
    RUN(forms_request); /* before anything asks the machine */
    RUN(ideal_prepare);
    RUN(calls_resolve);
    RUN(walks_run);
    RUN(counts_sum); /* again, now with cycles */
    RUN(objects_build);
    RUN(marked_find);
    RUN(select_build); /* after the objects: it names them */
    RUN(threads_build);
    RUN(places_sum_lines);
    RUN(code_build);
    RUN(spied_build);
    whatif_fill(j->r);
    RUN(whole_build); /* needs the objects: what they measure together */
    RUN(rows_build);
#undef RUN
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
    VEC_FREE(&j.unattributed);
    arena_free(j.scratch);
    return status;
}
