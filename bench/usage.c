/* SPDX-License-Identifier: Apache-2.0
 *
 * usage REPORT COMMAND ARGS...: runs a command and writes to the file REPORT one line of what it used:
 * "STATUS WALL USER SYSTEM OWN-USER MAX-RSS-KB". USER and SYSTEM are of the command and all it waited for; OWN-USER is
 * of the command alone, so that of `mtool count -- PROGRAM` the difference is the program's (in steps of the kernel's
 * tick).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* Field 14 of /proc/PID/stat, which a process keeps until it is waited for. */
static double own_user_s(pid_t pid)
{
    char path[64], line[1024];
    unsigned long ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f)) {
        const char *rest = strrchr(line, ')'); /* the name before it may hold anything */
        if (rest)
            sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", &ticks);
    }
    if (f)
        fclose(f);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: usage REPORT COMMAND ARGS...\n");
        return 2;
    }
    struct timespec start, end;
    siginfo_t info;
    struct rusage use;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    signal(SIGINT, SIG_IGN);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double own = own_user_s(pid);
    if (wait4(pid, &status, 0, &use) < 0)
        return 2;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    FILE *out = fopen(argv[1], "w");
    if (!out) {
        perror(argv[1]);
        return 2;
    }
    fprintf(out, "%d %.4f %.4f %.4f %.2f %ld\n", code,
            (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec), seconds(use.ru_utime),
            seconds(use.ru_stime), own, use.ru_maxrss);
    return fclose(out) ? 2 : code;
}
