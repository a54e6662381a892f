/* SPDX-License-Identifier: Apache-2.0
 * mtool run --baseline-threads: the program once more plain and once more counted, told by its environment to use so
 * many threads, and what it executes more than then. Programs that take the number of threads from elsewhere are not
 * changed. */
#include "cmd/run/profile.h"

#include <math.h>
#include <stdlib.h>

static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOTO_NUM_THREADS",
                                    "RAYON_NUM_THREADS"};

struct environment {
    char *before[ARRAY_LEN(names)]; /* heap; NULL: was not set */
};

static struct environment set_threads(uint64_t threads)
{
    struct environment e;
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)threads);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *now = getenv(names[i]);
        e.before[i] = now ? xstrdup(now) : NULL;
        setenv(names[i], text, 1);
    }
    return e;
}

static void restore(struct environment *e)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (e->before[i])
            setenv(names[i], e->before[i], 1);
        else
            unsetenv(names[i]);
        free(e->before[i]);
    }
}

/* The ideal times of both sides are of the same machine at the same speed. */
static int join_baseline(struct profile *p, const struct prof_input *like, const struct launch_result *plain,
                         const struct launch_result *counted, struct prof_result *out)
{
    struct prof_input in = {.plain_user_s = &plain->user_s,
                            .plain_system_s = &plain->system_s,
                            .plain_runs = 1,
                            .machine = like->machine,
                            .core_per_tsc = like->core_per_tsc,
                            .core_share = like->core_share,
                            .seed = like->seed};
    int rc = profile_inputs(p, counted, NULL, &in);
    return rc ? rc : profile_join(out, &in);
}

int baseline_run(struct profile *p, const struct prof_input *like)
{
    struct launch_options plain_options = {.how = LAUNCH_PLAIN},
                          counted_options = {.how = LAUNCH_COUNT, .mode = p->mode};
    struct launch_result *plain = NULL, *counted = NULL;
    struct prof_result *base = prof_result_new();
    uint64_t threads = p->args->baseline_threads;
    int rc = profile_copies_again(p);
    struct environment e = set_threads(threads);
    if (!rc)
        rc = profile_run(p, &plain_options, false, &plain);
    if (!rc)
        rc = profile_run(p, &counted_options, false, &counted);
    restore(&e);
    if (!rc && !profile_counts_are_exact(counted))
        rc = CMD_SELF_FAILED;
    if (!rc)
        rc = join_baseline(p, like, plain, counted, base);
    if (!rc) {
        prof_extra_build(p->result, base, (uint32_t)threads);
        if (counted->threads_max > threads)
            diag_warn(
                "baseline-threads",
                "the program made %u threads in the run that was to have %llu: extra work cannot be derived from it",
                counted->threads_max, (unsigned long long)threads);
    }
    launch_result_free(plain);
    launch_result_free(counted);
    prof_result_free(base);
    return rc;
}
