/* SPDX-License-Identifier: Apache-2.0
 * The first process of the guest, a static program of its own: it runs the command between two markers, then hands
 * over what the command wrote, and how it ended. It asks nothing and waits for nobody else. */
#include "wire/monster.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 1 << 16, HEAD = 6 };
#define STDOUT_FILE "/mtool/stdout"
#define STDERR_FILE "/mtool/stderr"
#define DISK "/mtool/disk"
#define DEVICE "/dev/nullb0"
#define GROUPS "/mtool/groups"

struct command {
    char *what, *folder, *input, *disk;
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

/* ---- what is asked for ---- */

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
    char *at = read_whole(WIRE_COMMAND, &len), *end = at + len, **head = list_of(&at, end, HEAD);
    for (int i = 0; i < HEAD; i++)
        if (!head[i])
            give_up(WIRE_COMMAND);
    struct command c = {.what = head[0], .folder = head[2], .input = head[3], .disk = head[4]};
    c.region = strtoul(head[1], NULL, 0);
    c.argc = strtoul(head[5], NULL, 0);
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

/* ---- the disk ---- */

/* False: it is not here. */
static int load_driver(const char *in_package, const char *parameters)
{
    char path[256];
    snprintf(path, sizeof path, WIRE_DRIVER_FOLDER "/%s", strrchr(in_package, '/') + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (syscall(SYS_finit_module, fd, parameters, 0) < 0)
        give_up(path);
    close(fd);
    return 1;
}

static int load_drivers(const char *parameters)
{
    static const char *const drivers[] = WIRE_DRIVERS;
    size_t n = sizeof drivers / sizeof *drivers;
    int are_there = 1;
    for (size_t i = 0; i < n && are_there; i++)
        are_there = load_driver(drivers[i], i + 1 == n ? parameters : "");
    return are_there;
}

static void make_file_system(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        open_as(1, "/dev/null", O_WRONLY);
        execl("/mtool/busybox", "mke2fs", "-F", "-b", "4096", "-m", "0", DEVICE, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        give_up("mke2fs");
}

static int is_left_out(const char *path)
{
    static const char *const paths[] = {"/proc",      "/sys",       "/dev", DISK, GROUPS, WIRE_DRIVER_FOLDER,
                                        WIRE_COMMAND, "/mtool/init"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(path, paths[i]) == 0)
            return 1;
    return 0;
}

static void copy_bytes(const char *from, const char *to, const struct stat *st)
{
    static char buffer[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 07777);
    ssize_t n = -1;
    while (in >= 0 && out >= 0 && (n = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, (size_t)n) != n)
            give_up(to);
    if (n < 0 || fchmod(out, st->st_mode & 07777) < 0)
        give_up(to);
    close(in);
    close(out);
}

/* A file, link or folder, with all that is in it, to the same path on the disk; its time too, which make looks at. What
 * was copied is removed, since it takes memory. */
static void move_all_of(const char *folder);
static void move_to_disk(const char *path)
{
    struct stat st;
    char to[PATH_MAX + 64], says[PATH_MAX + 1];
    struct timespec times[2];
    ssize_t n;
    if (is_left_out(path) || lstat(path, &st) < 0)
        return;
    snprintf(to, sizeof to, DISK "%s", path);
    if (S_ISLNK(st.st_mode) && (n = readlink(path, says, PATH_MAX)) > 0) {
        says[n] = 0;
        if (symlink(says, to) < 0)
            give_up(to);
    } else if (S_ISREG(st.st_mode)) {
        copy_bytes(path, to, &st);
        unlink(path);
    } else if (S_ISDIR(st.st_mode)) {
        if (strcmp(path, "/") != 0 && mkdir(to, st.st_mode & 07777) < 0)
            give_up(to);
        move_all_of(path);
    }
    times[0] = times[1] = st.st_mtim;
    utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW);
}

/* In order of their names, so that the disk is always the same. */
static void move_all_of(const char *folder)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort);
    char path[PATH_MAX + 16];
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
            snprintf(path, sizeof path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, names[i]->d_name);
            move_to_disk(path);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        give_up(path);
    close(fd);
}

/* This process and what it makes read and write so many bytes a second at most. */
static void limit_speed(const char *bytes_a_second)
{
    struct stat st;
    char text[128];
    mkdir(GROUPS, 0755);
    if (mount("groups", GROUPS, "cgroup2", 0, NULL) < 0 || stat(DEVICE, &st) < 0)
        give_up("a group with limits");
    write_text(GROUPS "/cgroup.subtree_control", "+io");
    mkdir(GROUPS "/disk", 0755);
    snprintf(text, sizeof text, "%u:%u rbps=%s wbps=%s", major(st.st_rdev), minor(st.st_rdev), bytes_a_second,
             bytes_a_second);
    write_text(GROUPS "/disk/io.max", text);
    write_text(GROUPS "/disk/cgroup.procs", "0");
}

static void mount_disk(void)
{
    if (mount(DEVICE, DISK, "ext4", 0, NULL) < 0)
        give_up("the disk");
}

/* All files go to a disk that takes so many nanoseconds for each request, one after the other, and is cold when the
 * command begins. */
static void make_disk(const char *disk)
{
    char parameters[256];
    const char *speed = strchr(disk, ' ');
    snprintf(parameters, sizeof parameters,
             "nr_devices=1 gb=2 bs=4096 memory_backed=1 queue_mode=2 irqmode=2 submit_queues=1 hw_queue_depth=1 "
             "completion_nsec=%.*s",
             (int)strcspn(disk, " "), disk);
    if (!load_drivers(parameters))
        give_up("the disk's drivers");
    make_file_system();
    mkdir(DISK, 0755);
    mount_disk();
    move_all_of("/");
    if (umount(DISK) < 0)
        give_up("the disk");
    write_text("/proc/sys/vm/drop_caches", "3");
    mount_disk();
    const char *const systems[][3] = {
        {"proc", DISK "/proc", "proc"}, {"sysfs", DISK "/sys", "sysfs"}, {"devtmpfs", DISK "/dev", "devtmpfs"}};
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        mkdir(systems[i][1], 0755);
        mount(systems[i][0], systems[i][1], systems[i][2], 0, NULL);
    }
    if (speed && strcmp(speed, " 0") != 0)
        limit_speed(speed + 1);
}

/* ---- the command ---- */

/* As on a system that has run for a while, the generator of random numbers has its seed: the first program that asks
 * for some would have the kernel gather one by itself, from a processor without an instruction for it 15 million
 * instructions long. The same bytes each time. */
static void seed_random(void)
{
    struct { /* struct rand_pool_info */
        int entropy_bits, size_bytes;
        unsigned char bytes[64];
    } seed = {.entropy_bits = 8 * sizeof seed.bytes, .size_bytes = sizeof seed.bytes};
    int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof seed.bytes; i++)
        seed.bytes[i] = (unsigned char)(i * 151 + 7);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, &seed) < 0)
        give_up("/dev/urandom");
    close(fd);
}

static _Noreturn void become(const struct command *c, volatile int *error)
{
    open_as(1, STDOUT_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    open_as(2, STDERR_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    if (*c->disk && chroot(DISK) < 0) {
        *error = errno;
        _exit(127);
    }
    open_as(0, *c->input ? c->input : "/dev/null", O_RDONLY);
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
        load_drivers("nr_devices=0");
        send_file(WIRE_SYMBOLS, "/proc/kallsyms");
        send_file(WIRE_TYPES, "/sys/kernel/btf/vmlinux");
    } else {
        if (*c.disk)
            make_disk(c.disk);
        seed_random();
        run(&c);
    }
    power_off();
}
