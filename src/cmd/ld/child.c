/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/ld/child.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static volatile sig_atomic_t child;

static void pass_on(int signal)
{
    if (child > 0)
        kill((pid_t)child, signal);
}

/* *plain: those that were not ignored before, for the command. */
static void watch_signals(sigset_t *plain)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, pass = {.sa_handler = pass_on}, before;
    static const int ignored[] = {SIGINT, SIGQUIT, SIGPIPE};
    sigemptyset(plain);
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        if (sigaction(ignored[i], &ignore, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(plain, ignored[i]);
    sigaction(SIGTERM, &pass, NULL);
    sigaction(SIGHUP, &pass, NULL);
}

pid_t child_start(const char *whose, const char *const *argv)
{
    posix_spawnattr_t attributes;
    sigset_t plain;
    pid_t pid;
    watch_signals(&plain);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &plain);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(&pid, argv[0], NULL, &attributes, (char **)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    if (error)
        return diag_error("%s: %s cannot be run: %s", whose, argv[0], strerror(error));
    child = pid;
    return pid;
}

void child_ended(void) { child = 0; }
