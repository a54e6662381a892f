/* SPDX-License-Identifier: Apache-2.0
 * Copies made ahead, while the program runs untouched: by a helper process, one copy after the other, that leaves the
 * program a processor and comes after it where there is none to spare. A convenience only: what it has not made when
 * the copies are wanted, or made for other options than turn out to be right, launch_copies_make makes. The lock of
 * each entry of the cache keeps the two from doing the same work. Samples of the run that is under way tell it what is
 * hot (heat.c). */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/impl.h"

enum { NICER = 10 };

static size_t processors(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;
}

static _Noreturn void make_all(struct launch_program *p, const struct rewrite_options *opt, pid_t parent, size_t spare)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++) /* the program's; and whatever is wrong is said when the copies are wanted */
        if (dup2(nowhere, fd) < 0)
            _exit(1);
    if (getppid() != parent || nice(NICER) == -1)
        _exit(1);
    diag_quiet = true;
    diag_verbose = 0;
    parallel_max = (unsigned)spare;
    p->is_ahead = true;
    if (copies_make_by(p, opt, p->module_count, 1) == 0 && p->heat)
        heat_go_on(p, opt);
    _exit(0);
}

void launch_copies_ahead(struct launch_program *p, const struct rewrite_options *opt)
{
    size_t all = processors();
    if (all < 2 ||
        opt->threads) /* nothing to spare; or the program may want them all, and is asked how long it waits */
        return;
    pid_t parent = getpid();
    p->heat = heat_new();
    p->ahead = fork();
    if (p->ahead == 0)
        make_all(p, opt, parent, all - 1);
}

void copies_ahead_end(struct launch_program *p)
{
    heat_free(p->heat);
    p->heat = NULL;
    if (p->ahead <= 0)
        return;
    kill(p->ahead, SIGKILL); /* its workers end with it */
    while (waitpid(p->ahead, NULL, 0) < 0 && errno == EINTR)
        continue;
    p->ahead = 0;
}
