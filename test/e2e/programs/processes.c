/* SPDX-License-Identifier: Apache-2.0
 *
 * processes HOW: makes other processes or takes signals, 100 turns of work in each, and says how many in all. A process
 * made by fork goes on being counted; one that executes another program does not.
 */
#include "here.h"
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile sig_atomic_t alarms;

static __attribute__((noinline)) void work(void)
{
    for (int i = 0; i < 100; i++)
        HERE(work);
}

static void forks(int depth) /* 3 children at each of `depth` levels */
{
    work();
    if (depth == 0)
        return;
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            forks(depth - 1);
            _exit(i);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != i)
            printf("child %d ended badly: %x\n", i, (unsigned)status);
    }
}

static void on_alarm(int sig)
{
    (void)sig;
    HERE(alarm);
    alarms = alarms + 1;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int status = -1;
    if (!strcmp(how, "fork")) {
        forks(3);
        expect("work", 100 * (1 + 3 + 9 + 27));
    } else if (!strcmp(how, "vfork")) {
        for (int i = 0; i < 20; i++) {
            work();
            pid_t child = vfork();
            if (child == 0) {
                HERE(child);
                if (i % 2)
                    execl("/bin/true", "true", (char *)NULL);
                _exit(1);
            }
            waitpid(child, &status, 0);
        }
        expect("work", 2000);
        expect("child", 20);
    } else if (!strcmp(how, "spawn")) {
        for (int i = 0; i < 10; i++) {
            char *args[] = {"sh", "-c", "exit 9", NULL};
            pid_t child;
            work();
            if (posix_spawn(&child, "/bin/sh", NULL, NULL, args, environ))
                return 1;
            waitpid(child, &status, 0);
        }
        printf("%d %d\n", WEXITSTATUS(status), WEXITSTATUS(system("exit 11")));
        expect("work", 1000);
    } else if (!strcmp(how, "alarm")) {
        struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct itimerval every = {{0, 500}, {0, 500}};
        sigaction(SIGALRM, &act, NULL);
        setitimer(ITIMER_REAL, &every, NULL);
        unsigned long turns = 0;
        while (alarms < 300) {
            work();
            turns++;
        }
        every.it_value.tv_usec = every.it_interval.tv_usec = 0;
        setitimer(ITIMER_REAL, &every, NULL);
        expect("work", 100 * turns);
        expect("alarm", (unsigned long)alarms);
    } else if (!strcmp(how, "orphan")) { /* a grandchild that outlives its parent for a moment */
        fflush(stdout);
        if (fork() == 0) {
            usleep(50000);
            work();
            _exit(0);
        }
        work();
        expect("work", 100); /* at least: the child may not be done; see the case */
    }
    return 0;
}
