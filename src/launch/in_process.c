/* SPDX-License-Identifier: Apache-2.0
 * A run of the program with nothing but the runtime added to it: its code is untouched and in its place, so what the
 * runtime notes in a shared file (samples, windows) is told of the program as it is. The mappings come from /proc.
 * Knows nothing of what is noted. */
#include <stdio.h>
#include <string.h>

#include "launch/impl.h"

const char *in_process_copy(struct launch_program *p, const char **why)
{
    struct rewrite_options opt = {.plan = REWRITE_SAMPLE};
    struct launch_program only = *p; /* its first module alone, so that the counting copies stay */
    struct launch_module exe = {.path = p->path, .is_exe = true};
    only.modules = &exe;
    only.module_count = 1;
    bool made = copies_make(&only, &opt, 1) == 0 && exe.copy;
    if (why)
        *why = exe.refused;
    return made ? exe.copy : NULL;
}

int in_process_run(struct launch_program *p, const struct in_process_run *run, struct launch_result *r)
{
    enum launch_mode mode = launch_mode_probe();
    struct bind bind = {run->copy, p->path};
    struct strbuf env = {0};
    bool by_path = mode == LAUNCH_MODE_PATH;
    str_printf(&env, "%s=%s", run->name, run->file);
    struct start start = {.p = p,
                          .path = by_path ? run->copy : p->exec_path,
                          .argv = by_path ? p->elf_argv : p->argv,
                          .env_extra = {env.data},
                          .binds = &bind,
                          .bind_count = 1,
                          .mode = mode,
                          .watch = WATCH_MAPS_BY_PROC,
                          .mute = run->mute,
                          .keep_spaces = run->spaces,
                          .threads = run->threads};
    const char *counting_copy = p->modules[0].copy;
    p->modules[0].copy = run->copy; /* so that its mappings are known as the executable's */
    int rc = process_run(&start, r);
    p->modules[0].copy = counting_copy;
    str_free(&env);
    return rc;
}
