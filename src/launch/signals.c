/* SPDX-License-Identifier: Apache-2.0
 * What mtool does with signals while a program runs. The terminal sends its signals to the whole process group, so the
 * program has them already; what somebody sends to mtool alone is passed on. A program that is stopped stops mtool too,
 * so that the shell's job control sees one job. The program's own signal state is not touched. */
#include <errno.h>
#include <fcntl.h>
#include <sys/signalfd.h>
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
    while (read(s->fd, &info, sizeof info) > 0)
        continue; /* meant for the program, which has ended */
    close(s->fd);
    signals_restore(s);
}

/* Sent by kill() to mtool: not from the terminal, and not by the program to its whole group. */
static bool is_for_mtool_alone(const struct signalfd_siginfo *info, pid_t program)
{
    if (info->ssi_code > 0 || info->ssi_signo == SIGCHLD)
        return false;
    return !procfs_is_descendant((pid_t)info->ssi_pid, program);
}

void signals_take(const struct signals *s, pid_t program)
{
    struct signalfd_siginfo info;
    while (read(s->fd, &info, sizeof info) == sizeof info)
        if (is_for_mtool_alone(&info, program))
            kill(program, (int)info.ssi_signo);
}

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Without a terminal there is no shell to wake mtool up again, so it goes on waiting. */
void signals_stop_like(const struct signals *s, pid_t program, int signal)
{
    if (!has_terminal())
        return;
    signals_take(s, program);
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
