/* SPDX-License-Identifier: Apache-2.0
 * Profile feedback: what the counts of runs say about a program's modules, kept under file_cache_dir()/feedback, a file
 * for each program and module: a library is used in another way by another program. And, by module only, which code
 * without unwind tables any run was seen to execute. Knows nothing of what either says. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "launch/impl.h"

/* A run that executed less of a module, or not clearly more than the run that gave feedback last, gives none. */
#define INSTRUCTIONS_MIN 20000000u
#define TIMES_MORE 4u
#define INSTRUCTIONS_ENOUGH 10000000000u /* nothing is to be learnt after these */

enum { SEEN_HZ = 499, SEEN_AGAIN_HZ = 47 }; /* looks at what the program executes, for later copies */

const char *feedback_dir(struct arena *a) { return arena_printf(a, "%s/feedback", file_cache_dir(a)); }

/* NULL if the module's identity is not known. */
static const char *feedback_path(const struct launch_program *p, size_t module)
{
    struct identity id;
    if (!p->key || !identity_known(p->arena, p->modules[module].path, &id))
        return NULL;
    return arena_printf(p->arena, "%s/%s-%s", feedback_dir(p->arena), p->key, id.key);
}

/* NULL likewise. */
static const char *sampled_path(const struct launch_program *p, size_t module)
{
    struct identity id;
    if (!identity_known(p->arena, p->modules[module].path, &id))
        return NULL;
    return arena_printf(p->arena, "%s/sampled-%s", feedback_dir(p->arena), id.key);
}

const char *heat_path(const struct launch_program *p, size_t module)
{
    struct identity id;
    if (!p->key || !identity_known(p->arena, p->modules[module].path, &id))
        return NULL;
    return arena_printf(p->arena, "%s/heat-%s-%s", feedback_dir(p->arena), p->key, id.key);
}

static const char *if_there(const char *path)
{
    if (!path || !file_exists(path))
        return NULL;
    utimensat(AT_FDCWD, path, NULL, 0); /* used now */
    return path;
}

struct rewrite_options feedback_options(const struct launch_program *p, size_t module,
                                        const struct rewrite_options *opt)
{
    struct rewrite_options own = *opt;
    if (opt->plan == REWRITE_PROBE) {
        own.objects = p->modules[module].probed;
        own.sampled = if_there(sampled_path(p, module)); /* the same functions as in the counted copy */
    }
    if (opt->plan == REWRITE_REFERENCES)
        own.feedback = if_there(feedback_path(p, module)); /* code grows manyfold: what runs shall lie together */
    if (opt->plan != REWRITE_COUNT)
        return own;
    own.feedback = if_there(feedback_path(p, module));
    own.heat = own.feedback ? NULL : if_there(heat_path(p, module));
    own.sampled = if_there(sampled_path(p, module));
    return own;
}

/* Each sample takes time of the program's; what it executes for long is known from its first long run. */
double launch_seen_hz(const struct launch_program *p, bool follows)
{
    for (size_t i = 0; i < p->module_count && !follows; i++) {
        const struct launch_module *m = &p->modules[i];
        if (m->copy && m->wants_samples && !m->is_interp && !m->other_program)
            return if_there(feedback_path(p, 0)) ? SEEN_AGAIN_HZ : SEEN_HZ;
    }
    return follows ? SEEN_HZ : 0;
}

void launch_keep_sampled(const struct launch_program *p, const struct launch_result *run)
{
    struct rewrite_sample *s = ARENA_ARRAY(p->arena, struct rewrite_sample, run->sample_count + 1);
    for (size_t first = 0, end; first < run->sample_count; first = end) { /* sorted by module */
        size_t n = 0;
        uint32_t module = run->samples[first].module;
        for (end = first; end < run->sample_count && run->samples[end].module == module; end++)
            s[n++] = (struct rewrite_sample){run->samples[end].vaddr, run->samples[end].count};
        bool is_other = module == ID_NONE || module >= p->module_count || p->modules[module].other_program ||
                        p->modules[module].is_interp;
        struct identity id;
        if (!is_other && !p->ahead && !run->counters) /* of the untouched program */
            heat_keep(p, module, s, n);
        bool is_known = !is_other && identity_read(p->arena, p->modules[module].path, &id) == 0;
        const char *path = is_known ? sampled_path(p, module) : NULL;
        if (path && file_make_dirs(feedback_dir(p->arena), 0700) == 0 &&
            rewrite_sampled_write(p->modules[module].path, s, n, run->samples_user, path) < 0)
            diag_debug(1, "%s: cannot be written: %s", path, strerror(errno));
    }
}

void launch_keep_feedback(const struct launch_program *p, size_t module, const struct rewrite_map *m,
                          const struct rewrite_flow *flow)
{
    const char *path = feedback_path(p, module);
    char id[33];
    uint64_t before = 0;
    if (!path)
        return;
    if (!rewrite_feedback_fits(path, m) || !rewrite_feedback_id(path, id, &before))
        before = 0;
    if (before > INSTRUCTIONS_ENOUGH)
        return;
    uint64_t min = max_u64(INSTRUCTIONS_MIN, TIMES_MORE * before);
    if (rewrite_flow_instructions(m, flow) >= min && file_make_dirs(feedback_dir(p->arena), 0700) == 0)
        rewrite_feedback_write(m, flow, min, path);
}
