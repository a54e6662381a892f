/* SPDX-License-Identifier: Apache-2.0
 * What counted runs of a program taught about its modules, kept under file_cache_dir()/lessons, a file for each program
 * and module: a library is used in another way by another program. Knows nothing of what a lesson says. */
#include <fcntl.h>
#include <sys/stat.h>

#include "launch/impl.h"

/* A run that executed less of a module, or not clearly more than the run that taught last, teaches nothing. */
#define INSTRUCTIONS_LEAST 20000000u
#define TIMES_MORE 4u
#define INSTRUCTIONS_ENOUGH 10000000000u /* nothing is to be learnt after these */

const char *lessons_dir(struct arena *a) { return arena_printf(a, "%s/lessons", file_cache_dir(a)); }

/* NULL if the module's identity is not known. */
static const char *lesson_path(const struct launch_program *p, size_t module)
{
    struct identity id;
    if (!p->key || !identity_known(p->arena, p->modules[module].path, &id))
        return NULL;
    return arena_printf(p->arena, "%s/%s-%s", lessons_dir(p->arena), p->key, id.key);
}

struct rewrite_options lesson_taken(const struct launch_program *p, size_t module, const struct rewrite_options *opt)
{
    struct rewrite_options own = *opt;
    const char *path = opt->plan == REWRITE_COUNT ? lesson_path(p, module) : NULL;
    if (!path || !file_exists(path))
        return own;
    own.lesson = path;
    utimensat(AT_FDCWD, path, NULL, 0); /* used now */
    return own;
}

void launch_learn(const struct launch_program *p, size_t module, const struct rewrite_map *m, const uint64_t *counters,
                  uint64_t instructions)
{
    const char *path = lesson_path(p, module);
    char id[33];
    uint64_t before = 0;
    if (!path || (rewrite_lesson_id(path, id, &before) && before > INSTRUCTIONS_ENOUGH))
        return;
    uint64_t least = max_u64(INSTRUCTIONS_LEAST, TIMES_MORE * before);
    if (instructions >= least && file_make_dirs(lessons_dir(p->arena), 0700) == 0)
        rewrite_lesson_write(m, counters, least, path);
}
