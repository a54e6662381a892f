/* SPDX-License-Identifier: Apache-2.0
 * What mtool does with signals while a program runs. The terminal sends its signals to the whole process group, so the
 * program has them already; what somebody sends to mtool alone is passed on. A program that is stopped stops mtool too,
 * so that the shell's job control sees one job. The program's own signal state is not touched. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

static const int watched[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP};

struct sigaction signals_keep_children(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL}, before;
    sigaction(SIGCHLD, &plain, &before);
    return before;
}

void signals_unkeep_children(const struct sigaction *before) { sigaction(SIGCHLD, before, NULL); }

/* ---- the sentinel: a process of mtool's group in which signals only pend. Who sends one to the whole group, as kill
 * and timeout may, has sent it to the program too: it must not get it twice ---- */

enum { SENTINEL_NS = 2000000 /* to hear of a signal; the kernel sends to one process of a group after the other */ };

static pid_t start_sentinel(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_range(0, ~0u, 0);
    while (getppid() == parent)
        pause();
    _exit(0);
}

static void end_sentinel(struct signals *s)
{
    if (s->sentinel > 0 && kill(s->sentinel, SIGKILL) == 0)
        while (waitpid(s->sentinel, NULL, 0) < 0 && errno == EINTR)
            continue;
    s->sentinel = -1;
}

/* Of a signal that mtool has got. A new sentinel then has heard of nothing. */
static bool sentinel_has(struct signals *s, uint32_t signal)
{
    nanosleep(&(struct timespec){0, SENTINEL_NS}, NULL);
    if (s->sentinel <= 0 || !(procfs_pending(s->sentinel) >> (signal - 1) & 1))
        return false;
    end_sentinel(s);
    s->sentinel = start_sentinel();
    return true;
}

void signals_watch_group(struct signals *s) { s->sentinel = start_sentinel(); }

bool signals_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

/* ---- the program's time ---- */

int signals_begin(struct signals *s)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        sigaddset(&set, watched[i]);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        return diag_error("cannot watch for signals: %s; close other programs and try again", strerror(errno));
    s->child_before = signals_keep_children();
    sigprocmask(SIG_BLOCK, &set, &s->mask_before);
    s->got_end_signal = false;
    s->sentinel = -1;
    return 0;
}

void signals_restore(const struct signals *s)
{
    signals_unkeep_children(&s->child_before);
    sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
}

void signals_end(struct signals *s)
{
    struct signalfd_siginfo info;
    end_sentinel(s);
    while (read(s->fd, &info, sizeof info) > 0)
        continue; /* meant for the program, which has ended */
    close(s->fd);
    signals_restore(s);
}

static bool ends_programs(uint32_t signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGQUIT; }

/* Not by the program to its whole group. */
static bool is_from_outside(const struct signalfd_siginfo *info, pid_t program)
{
    return info->ssi_code > 0 || !procfs_is_descendant((pid_t)info->ssi_pid, program);
}

void signals_take(struct signals *s, pid_t program, bool has_ended)
{
    struct signalfd_siginfo info;
    while (read(s->fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        bool outside = is_from_outside(&info, program), group = !has_ended && sentinel_has(s, info.ssi_signo),
             terminal = info.ssi_code > 0;
        s->got_end_signal |= outside && ends_programs(info.ssi_signo);
        if (!has_ended && outside && !terminal && (!group || getpgid(program) != getpgrp()))
            kill(program, (int)info.ssi_signo);
    }
}

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Without a terminal there is no shell to wake mtool up again, so it goes on waiting. */
void signals_stop_like(struct signals *s, pid_t program, int signal)
{
    if (!has_terminal())
        return;
    signals_take(s, program, false);
    diag_progress_end();
    struct sigaction plain = {.sa_handler = SIG_DFL}, before;
    sigset_t one, mask;
    sigemptyset(&one);
    sigaddset(&one, signal);
    if (signal != SIGSTOP)
        sigaction(signal, &plain, &before);
    sigprocmask(SIG_UNBLOCK, &one, &mask);
    raise(signal); /* returns when mtool is continued */
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (signal != SIGSTOP)
        sigaction(signal, &before, NULL);
    if (procfs_is_stopped(program))
        kill(program, SIGCONT);
}
