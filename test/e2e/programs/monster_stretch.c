/* SPDX-License-Identifier: Apache-2.0
 *
 * monster_stretch 1|2 SIZE TURNS: a stretch of all that a guest has: computing, system calls, first touches of pages, a
 * file, a pipe, repeated stores, signals, faults. It ends what mtool monster counts by its marker in front of the
 * stretch (1) or behind it (2), so that two runs differ by it alone. All of it has been done before once, and TURNS of
 * a loop. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The marker at which counting ends (src/wire/monster.h). */
#define MARK_END ".byte 0x0f, 0x1f, 0x84, 0x00; .long 0x4d4e0002\n\t"
enum { PAGES = 2, CALLS = 1, SIGNALS = 1, KEYS = 20, BYTES = 250, LARGEST = 4 }; /* of size 1 */
static volatile sig_atomic_t signals;
static int key[LARGEST * KEYS];
static char block[LARGEST * BYTES];

static void on_signal(int signal)
{
    (void)signal;
    signals++;
}

static void on_illegal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

static int by_size(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

__attribute__((noinline)) static void work(int size)
{
    int ends[2], file = open("/proc/self/exe", O_RDONLY);
    volatile char *p =
        mmap(NULL, (size_t)size * PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < size * PAGES; i++)
        p[i * 4096] = 1;
    for (int i = 0; i < size * CALLS; i++)
        syscall(SYS_getppid);
    for (int i = 0; i < size * KEYS; i++)
        key[i] = i * 7919 % 1009;
    qsort(key, (size_t)size * KEYS, sizeof *key, by_size);
    if (read(file, block, 200) <= 0 || pipe(ends) < 0 || write(ends[1], block, 100) != 100 ||
        read(ends[0], block, 100) != 100)
        _exit(3);
    long count = size * BYTES;
    char *to = block;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
    for (signals = 0; signals < size * SIGNALS;)
        raise(SIGUSR1);
    for (int i = 0; i < size * SIGNALS; i++)
        __asm__ volatile("ud2"); /* a fault whose handler goes on behind it */
    for (int i = 0; i < 2; i++)
        close(ends[i]);
    close(file);
    munmap((void *)p, (size_t)size * PAGES * 4096);
}

/* As many instructions whether it ends or not; the marker begins a translation, and ends it. */
#define END_IF(number, before, behind)                                                                                 \
    __asm__ volatile("cmp $" #number ", %0\n\tjne 1f\n\tjmp " #before "\n" #before ":\n\t" MARK_END "1:\tjmp " #behind \
                     "\n\t.globl " #before ", " #behind "\n" #behind ":\n\t"                                           \
                     :                                                                                                 \
                     : "r"(which)                                                                                      \
                     : "memory")

int main(int argc, char **argv)
{
    int which = argc > 1 ? atoi(argv[1]) : 0, size = argc > 2 ? atoi(argv[2]) : 1;
    if (size < 1 || size > LARGEST)
        return 2;
    struct sigaction illegal = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    signal(SIGUSR1, on_signal);
    sigaction(SIGILL, &illegal, NULL);
    work(size);
    for (long n = argc > 3 ? atol(argv[3]) : 0; n > 0; n--)
        __asm__ volatile("");
    END_IF(1, not_counted, stretch_begins);
    work(size);
    END_IF(2, stretch_ends, not_reached);
    return 0;
}
