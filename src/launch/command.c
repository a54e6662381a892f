/* SPDX-License-Identifier: Apache-2.0
 * A command of any kind, started as it is: nothing of its file is looked at. */
#include <sys/stat.h>

#include "launch/impl.h"

int launch_command(const char *const *argv, const struct launch_watcher *w, struct launch_result *out)
{
    struct arena *a = arena_new();
    struct stat st;
    const char *path = program_locate(a, argv[0]);
    int rc = path ? program_check_file(path, &st) : -1;
    *out = (struct launch_result){.status = 0};
    if (rc == 0)
        rc = process_run(&(struct start){.path = path, .argv = argv, .watch = WATCH_NOTHING, .watcher = w}, out);
    arena_free(a);
    return rc;
}
