/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/ld/child.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static volatile sig_atomic_t child;

static sigset_t held, before_held; /* held: what child_hold_signals holds; nothing */

void child_hold_signals(void)
{
    static const int ends[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    struct sigaction now;
    sigemptyset(&held);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&held, ends[i]);
    sigprocmask(SIG_BLOCK, &held, &before_held);
}

void child_release_signals(void)
{
    sigprocmask(SIG_UNBLOCK, &held, NULL);
    sigemptyset(&held);
}

static bool is_asked_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigandset(&pending, &pending, &held) == 0 && !sigisemptyset(&pending);
}

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
    if (is_asked_to_end())
        return -1;
    watch_signals(&plain);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &plain);
    if (!sigisemptyset(&held))
        posix_spawnattr_setsigmask(&attributes, &before_held);
    posix_spawnattr_setflags(&attributes,
                             (short)(POSIX_SPAWN_SETSIGDEF | (sigisemptyset(&held) ? 0 : POSIX_SPAWN_SETSIGMASK)));
    int error = posix_spawnp(&pid, argv[0], NULL, &attributes, (char **)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    if (error)
        return diag_error("%s: %s cannot be run: %s", whose, argv[0], strerror(error));
    child = pid;
    child_release_signals();
    return pid;
}

void child_ended(void) { child = 0; }
