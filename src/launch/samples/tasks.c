/* SPDX-License-Identifier: Apache-2.0
 * Threads as /proc shows them, looked at some hundred times a second: which there are, how much processor time they had
 * and wanted, and for those that wait in a system call which one it is and from where it was made. Needs no right that
 * a parent has not over its child; what the kernel refuses is simply not seen. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "launch/impl.h"

#define STACK_BYTES 8192
#define PAGE_BYTES 4096

static bool read_short(pid_t pid, const char *tid, const char *name, char *text, size_t room)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task/%s/%s", (int)pid, tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static void take_usage(struct threads *t, pid_t pid, const char *tid, uint64_t now_ns)
{
    char text[96], *s = text;
    if (!read_short(pid, tid, "schedstat", text, sizeof text))
        return;
    uint64_t cpu_ns = strtoull(s, &s, 10), delay_ns = strtoull(s, &s, 10);
    threads_usage(t, (uint32_t)strtoul(tid, NULL, 10), cpu_ns, delay_ns, now_ns);
}

/* Its stack holds still while it waits. */
static uint32_t stack_of(struct threads *t, pid_t pid, uint64_t sp, uint64_t pc)
{
    enum { SP = 7 };
    uint8_t bytes[STACK_BYTES];
    struct iovec here = {bytes, sizeof bytes}, there = {.iov_len = sizeof bytes};
    memcpy(&there.iov_base, &sp, sizeof sp);
    ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (n < 0) { /* across the stack's end nothing is read at all */
        there.iov_len = here.iov_len = PAGE_BYTES - sp % PAGE_BYTES;
        n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    }
    struct image_frame f = {.pc = pc, .known = 1u << SP};
    f.regs[SP] = sp;
    return stacks_walk(threads_stacks(t), (uint32_t)pid, &f, &(struct stack_bytes){sp, bytes, n > 0 ? (size_t)n : 0});
}

/* "running", "-1 SP PC" (stopped in the middle of its own code), or "NUMBER six arguments SP PC". */
static void take_place(struct threads *t, pid_t pid, const char *tid)
{
    char text[256], *s = text;
    struct observed_thread_sample seen = {.activity = OBSERVED_BLOCKED};
    if (!read_short(pid, tid, "syscall", text, sizeof text) || text[0] < '0' || text[0] > '9')
        return;
    seen.syscall = (int32_t)strtol(s, &s, 10);
    for (int i = 0; i < 6; i++)
        strtoull(s, &s, 16);
    uint64_t sp = strtoull(s, &s, 16), pc = strtoull(s, &s, 16);
    seen.stack = stack_of(t, pid, sp, pc);
    threads_sample(t, (uint32_t)strtoul(tid, NULL, 10), time_now_ns(), &seen);
}

struct tasks {
    DIR *dir;
    unsigned looks;
    struct map alive; /* tid -> look at which it was there last */
};

struct tasks *tasks_new(void) { return xmalloc(sizeof(struct tasks)); }

void tasks_free(struct tasks *k)
{
    if (!k)
        return;
    if (k->dir)
        closedir(k->dir);
    map_fini(&k->alive);
    free(k);
}

/* Where nobody else tells of beginnings and ends, a thread begins when it is seen and ends when it is not. */
static void end_the_gone(struct tasks *k, struct threads *t, uint64_t now_ns)
{
    for (size_t i = 0; i < k->alive.cap; i++)
        if (k->alive.used[i] && k->alive.vals[i] == k->looks - 1)
            threads_end(t, (uint32_t)k->alive.keys[i], now_ns);
}

void tasks_look(struct tasks *k, pid_t pid, struct threads *t, bool tells_lives)
{
    enum { USAGE_EVERY = 16 };
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (!k->dir && !(k->dir = opendir(path)))
        return;
    uint64_t now_ns = time_now_ns();
    k->looks++;
    rewinddir(k->dir);
    for (struct dirent *d; (d = readdir(k->dir));) {
        if (d->d_name[0] < '0' || d->d_name[0] > '9')
            continue;
        uint32_t tid = (uint32_t)strtoul(d->d_name, NULL, 10);
        if (tells_lives)
            threads_begin(t, tid, now_ns);
        map_put(&k->alive, tid, k->looks);
        take_place(t, pid, d->d_name);
        if (tells_lives || k->looks % USAGE_EVERY == 1)
            take_usage(t, pid, d->d_name, now_ns);
    }
    if (tells_lives)
        end_the_gone(k, t, now_ns);
}

void tasks_look_before(pid_t pid, struct threads *t)
{
    char tid[16];
    snprintf(tid, sizeof tid, "%d", (int)pid);
    take_usage(t, pid, tid, 0);
}
