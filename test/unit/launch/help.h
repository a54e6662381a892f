/* SPDX-License-Identifier: Apache-2.0
 * What the launch tests share: a scratch folder, running a command and taking its output, results by name. */
#ifndef LAUNCH_TEST_HELP_H
#define LAUNCH_TEST_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

/* Paths from the environment that meson sets. */
const char *help_victim(void);
const char *help_driver(void);
const char *help_library(void);

extern char help_dir[64]; /* a new folder under /tmp, XDG_CACHE_HOME inside it */
int help_setup(void **state);
int help_teardown(void **state); /* also: no file of a driver that has ended may be left in /dev/shm */

char *help_path(const char *name); /* in help_dir; heap */
void help_write(const char *path, const char *text, unsigned mode);

struct help_run {
    int status;
    char *out, *err; /* heap, terminated */
};
/* Runs argv with stdout and stderr to files; `before` (may be NULL) runs in the child. */
struct help_run help_run(const char *const *argv, void (*before)(void));
void help_run_free(struct help_run *r);
#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

char *help_read(const char *path); /* heap */
double help_value(const char *text,
                  const char *name); /* the number after "NAME " at the start of a line; fails if missing */

#endif
