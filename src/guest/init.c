/* SPDX-License-Identifier: Apache-2.0
 * The first process of the guest, a static program of its own: it runs the command between two markers, then hands
 * over what the command wrote, and how it ended. It asks nothing and waits for nobody else. */
#include "wire/monster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 1 << 16 };
#define STDOUT_FILE "/mtool/stdout"
#define STDERR_FILE "/mtool/stderr"

struct command {
    char *what, *folder, *input;
    unsigned long region, argc;
    char **argv, **envp;
};

static volatile struct wire_region *region;

/* ---- markers ---- */

static inline uint64_t mark_begin(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc\n\t" WIRE_MARK_TEXT(1) "jmp 1f\n1:" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static inline uint64_t mark_end(void)
{
    uint32_t low, high;
    __asm__ volatile("jmp 1f\n1:\n\t" WIRE_MARK_TEXT(2) "rdtsc\n\t" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static void mark_chunk(void) { __asm__ volatile("jmp 1f\n1:\n\t" WIRE_MARK_TEXT(3) "jmp 2f\n2:" : : : "memory"); }
static void mark_done(void) { __asm__ volatile("jmp 1f\n1:\n\t" WIRE_MARK_TEXT(4) "jmp 2f\n2:" : : : "memory"); }

/* ---- what goes out ---- */

static _Noreturn void power_off(void)
{
    mark_done();
    sync();
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

static _Noreturn void give_up(const char *what)
{
    printf("mtool-init: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    reboot(RB_POWER_OFF);
    _exit(1);
}

static void send_file(enum wire_stream stream, const char *path)
{
    int fd = open(path, O_RDONLY);
    char *to = (char *)(uintptr_t)region + WIRE_REGION_HEAD;
    ssize_t n;
    static char buffer[1 << 16];
    if (fd < 0)
        return;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        memcpy(to, buffer, (size_t)n);
        region->stream = stream;
        region->bytes = (uint64_t)n;
        mark_chunk();
    }
    close(fd);
}

/* ---- the command ---- */

static char *read_whole(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        give_up(path);
    char *text = malloc((size_t)st.st_size + 1);
    ssize_t got = text ? read(fd, text, (size_t)st.st_size) : -1;
    if (got < 0)
        give_up(path);
    close(fd);
    text[got] = 0;
    *len = (size_t)got;
    return text;
}

static char **list_of(char **at, const char *end, unsigned long count)
{
    char **list = calloc(count + 1, sizeof *list);
    for (unsigned long i = 0; list && i < count && *at < end; i++) {
        list[i] = *at;
        *at += strlen(*at) + 1;
    }
    if (!list)
        give_up("memory");
    return list;
}

static struct command read_command(void)
{
    size_t len;
    char *at = read_whole(WIRE_COMMAND, &len), *end = at + len, **head = list_of(&at, end, 5);
    if (!head[1] || !head[4])
        give_up(WIRE_COMMAND);
    struct command c = {.what = head[0], .folder = head[2], .input = head[3]};
    c.region = strtoul(head[1], NULL, 0);
    c.argc = strtoul(head[4], NULL, 0);
    c.argv = list_of(&at, end, c.argc);
    c.envp = list_of(&at, end, ARGUMENTS_MAX);
    return c;
}

static void open_as(int fd, const char *path, int flags)
{
    int own = open(path, flags, 0600);
    if (own >= 0 && own != fd) {
        dup2(own, fd);
        close(own);
    }
}

static _Noreturn void become(const struct command *c, volatile int *error)
{
    open_as(0, *c->input ? c->input : "/dev/null", O_RDONLY);
    open_as(1, STDOUT_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    open_as(2, STDERR_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    if (chdir(c->folder) == 0)
        execve(c->argv[0], c->argv + 1, c->envp);
    *error = errno;
    _exit(127);
}

static void run(const struct command *c)
{
    int status = 0;
    volatile int *error = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (error == MAP_FAILED)
        give_up("memory");
    *error = 0;
    uint64_t begin = mark_begin();
    pid_t child = fork();
    if (child == 0)
        become(c, error);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    region->end_ns = mark_end();
    region->begin_ns = begin;
    send_file(WIRE_STDOUT, STDOUT_FILE);
    send_file(WIRE_STDERR, STDERR_FILE);
    region->end = *error ? WIRE_NOT_STARTED : WIFSIGNALED(status) ? WIRE_SIGNALLED : WIRE_EXITED;
    region->value = (uint64_t)(*error ? *error : WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

int main(void)
{
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    open_as(0, "/dev/console", O_RDWR);
    open_as(1, "/dev/console", O_RDWR);
    open_as(2, "/dev/console", O_RDWR);
    struct command c = read_command();
    int mem = open("/dev/mem", O_RDWR);
    if (mem < 0)
        give_up("/dev/mem");
    region = mmap(NULL, WIRE_REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem, (off_t)c.region);
    if (region == MAP_FAILED)
        give_up("the region");
    close(mem);
    region->magic = WIRE_REGION_MAGIC;
    if (strcmp(c.what, "symbols") == 0) {
        send_file(WIRE_SYMBOLS, "/proc/kallsyms");
        send_file(WIRE_TYPES, "/sys/kernel/btf/vmlinux");
    } else {
        run(&c);
    }
    power_off();
}
