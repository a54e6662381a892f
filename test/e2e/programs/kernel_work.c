/* SPDX-License-Identifier: Apache-2.0
 * kernel_work CALLS PAGES WAIT_MS THREADS: makes that many calls of getppid and of a call that fails in each thread,
 * touches that many fresh pages, and waits that long in a read for another process. Says nothing but "done". */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long calls;

static void *work(void *arg)
{
    for (long i = 0; i < calls; i++) {
        syscall(SYS_getppid);
        syscall(SYS_dup3, -1, -1, 0);
    }
    return arg;
}

static void touch(long pages)
{
    char *p = mmap(NULL, (size_t)pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages <= 0 || p == MAP_FAILED)
        return;
    madvise(p, (size_t)pages * 4096, MADV_NOHUGEPAGE);
    for (long i = 0; i < pages; i++)
        p[4096 * i] = 1;
}

static void wait_for_another(long ms)
{
    int ends[2];
    char c;
    if (ms <= 0 || pipe(ends) < 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
        _exit(write(ends[1], "x", 1) != 1);
    }
    if (read(ends[0], &c, 1) == 1)
        waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    calls = atol(argv[1]);
    long threads = atol(argv[4]);
    pthread_t others[16];
    for (long i = 1; i < threads && i < 16; i++)
        pthread_create(&others[i], NULL, work, NULL);
    work(NULL);
    for (long i = 1; i < threads && i < 16; i++)
        pthread_join(others[i], NULL);
    touch(atol(argv[2]));
    wait_for_another(atol(argv[3]));
    puts("done");
    return 5;
}
