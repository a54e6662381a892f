/* SPDX-License-Identifier: Apache-2.0
 * once WAY [N]: programs that notice how often they are run. Each writes a line to the file runs. lock: fails if the
 * file lock is there, and leaves it there. input: adds up the numbers of standard input N times over. background: a
 * child goes on for N milliseconds, its parent ends at once. dies: on SIGTERM it says so and ends itself by the same
 * signal. helper: another program, in a session of its own, goes on for half a second behind this one's N turns.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t told;

static void on_term(int sig)
{
    (void)sig;
    told++;
}

__attribute__((noinline)) static uint64_t work(uint64_t n)
{
    uint64_t x = 1;
    for (uint64_t i = 0; i < n; i++)
        x = x * 2862933555777941757u + (x >> 7);
    return x;
}

static void note_run(void)
{
    FILE *f = fopen("runs", "a");
    fprintf(f, "run\n");
    fclose(f);
}

static int add_input(uint64_t times)
{
    static uint64_t n[1000];
    uint64_t count = 0, sum = 0, x;
    while (count < 1000 && scanf("%lu", &x) == 1)
        n[count++] = x;
    for (uint64_t t = 0; t < times; t++)
        for (uint64_t i = 0; i < count; i++)
            sum = sum * 31 + n[i];
    printf("%lu of %lu\n", sum, count);
    return 0;
}

static int die(void)
{
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    while (!told)
        work(1000);
    usleep(20000); /* so that a second one would be seen */
    printf("told %d\n", told);
    fflush(stdout);
    signal(SIGTERM, SIG_DFL);
    return raise(SIGTERM);
}

static void start_helper(void)
{
    int until[2];
    if (pipe(until) < 0)
        exit(1);
    if (fork() == 0) {
        setsid();
        dup2(until[0], 0);
        close(until[1]);
        execlp("sh", "sh", "-c", "read -r nothing; sleep 0.5", NULL);
        _exit(1);
    }
    close(until[0]);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    uint64_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    note_run();
    if (!strcmp(way, "input"))
        return add_input(n);
    if (!strcmp(way, "dies"))
        return die();
    if (!strcmp(way, "lock") && open("lock", O_CREAT | O_EXCL, 0600) < 0)
        return 9;
    if (!strcmp(way, "background")) {
        if (fork() == 0) {
            setsid();
            usleep((useconds_t)n * 1000);
        }
        return 0;
    }
    if (!strcmp(way, "helper"))
        start_helper();
    printf("%lu\n", work(n));
    return 0;
}
