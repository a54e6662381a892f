/* SPDX-License-Identifier: Apache-2.0
 *
 * surroundings: prints what a program can see of how it was started. Must be the same under mtool.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv, char **env)
{
    for (int i = 0; i < argc; i++)
        printf("argv %s\n", argv[i]);
    for (; *env; env++)
        if (strncmp(*env, "_=", 2)) /* the shell's note of what it started */
            printf("env %s\n", *env);
    for (const unsigned long *aux = (const unsigned long *)(env + 1); *aux; aux += 2) /* where start-up code looks */
        if (*aux != AT_IGNORE)
            printf("auxv %lu\n", *aux);
    char exe[4096] = "", cwd[4096];
    if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0)
        perror("/proc/self/exe");
    printf("exe %s\nexecfn %s\ncwd %s\n", exe, (const char *)getauxval(AT_EXECFN), getcwd(cwd, sizeof cwd));
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    printf("name %s\numask %o\nids %u %u %u %u secure %lu\n", name, umask(0), getuid(), geteuid(), getgid(), getegid(),
           getauxval(AT_SECURE));
    for (int fd = 0; fd < 256; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("fd %d flags %x\n", fd, fcntl(fd, F_GETFL));
    for (int r = 0; r < RLIMIT_NLIMITS; r++) {
        struct rlimit limit;
        getrlimit(r, &limit);
        printf("limit %d %llu %llu\n", r, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    }
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int s = 1; s < 32; s++) {
        struct sigaction act;
        if (!sigaction(s, NULL, &act))
            printf("signal %d %s%s\n", s,
                   act.sa_handler == SIG_IGN   ? "ignored"
                   : act.sa_handler == SIG_DFL ? "default"
                                               : "caught",
                   sigismember(&blocked, s) ? " blocked" : "");
    }
    printf("group %s session %s terminal %d\n", getpgrp() == getpid() ? "own" : "shared",
           getsid(0) == getpid() ? "own" : "shared", isatty(0));
    for (int c; (c = getchar()) != EOF;)
        putchar(c);
    return 0;
}
