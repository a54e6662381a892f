/* SPDX-License-Identifier: Apache-2.0
 * Files that mtool and the program share while it runs, named mtool-PID-RANDOM in memory if possible (/dev/shm), sized
 * before the program's limits and disk can matter. Held under a lock, so that the next mtool can tell and remove those
 * of one that was killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "launch/impl.h"

#define NAME_LEAD "mtool-"

static bool is_left_over(int dir_fd, const char *name)
{
    if (strncmp(name, NAME_LEAD, sizeof NAME_LEAD - 1) != 0)
        return false;
    pid_t pid = atoi(name + sizeof NAME_LEAD - 1);
    if (pid <= 0 || (kill(pid, 0) == 0 || errno != ESRCH))
        return false;
    int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool free_now = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0; /* its process may live in another pid namespace */
    if (fd >= 0)
        close(fd);
    return free_now;
}

static void sweep(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_left_over(dirfd(d), e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static uint64_t used_bytes(const struct scratch_size *z)
{
    return z->part_used_bytes ? z->part_used_bytes : z->part_bytes;
}

/* As many parts as fit in half of what is free: a hole that cannot be filled later kills who writes to it. */
static uint64_t parts_that_fit(int fd, const struct scratch_size *z)
{
    struct statvfs v;
    struct rlimit l; /* mtool's own: see limits.c */
    uint64_t max = z->part_max, fixed = z->fixed_bytes + z->part_bytes;
    if (fstatvfs(fd, &v) == 0)
        max = min_u64(max, (uint64_t)v.f_bavail * v.f_frsize / 2 / used_bytes(z));
    getrlimit(RLIMIT_FSIZE, &l);
    if (l.rlim_cur != RLIM_INFINITY)
        max = min_u64(max, l.rlim_cur < fixed ? 0 : (l.rlim_cur - z->fixed_bytes) / z->part_bytes);
    return max_u64(max, 1);
}

/* Sized, with room for the first part for sure. 0 or -1 with errno. */
static int fill(struct scratch *s, const struct scratch_size *z)
{
    s->parts = parts_that_fit(s->fd, z);
    if (flock(s->fd, LOCK_EX | LOCK_NB) < 0 || ftruncate(s->fd, (off_t)(z->fixed_bytes + s->parts * z->part_bytes)) < 0)
        return -1;
    return fallocate(s->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)(z->fixed_bytes + used_bytes(z))) < 0 && errno != EOPNOTSUPP
               ? -1
               : 0;
}

static int open_in(struct scratch *s, const char *dir, const struct scratch_size *z)
{
    /* Of one length, whoever runs: the name stands in the program's environment, whose length moves its stack. */
    snprintf(s->path, sizeof s->path, "%s/" NAME_LEAD "%07d-XXXXXX", dir, (int)getpid());
    s->fd = mkostemp(s->path, O_CLOEXEC);
    if (s->fd < 0)
        return -1;
    if (fill(s, z) == 0)
        return 0;
    int err = errno;
    scratch_close(s);
    errno = err;
    return -1;
}

int scratch_open(struct scratch *s, const struct scratch_size *z)
{
    const char *tmp = getenv("TMPDIR");
    const char *const dirs[] = {"/dev/shm", tmp && tmp[0] == '/' && strlen(tmp) < sizeof s->path - 40 ? tmp : "/tmp",
                                "/tmp"};
    int err = 0;
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        sweep(dirs[i]);
        if (open_in(s, dirs[i], z) == 0)
            return 0;
        err = errno;
        unsigned long long bytes = z->fixed_bytes + z->part_bytes;
        diag_debug(1, "%s: no file of %llu bytes there: %s", dirs[i], bytes, strerror(err));
    }
    if (err == EFBIG)
        return diag_error(
            "the limit on the size of files is too low for the counters; raise it (ulimit -f %llu at least)",
            (unsigned long long)((z->fixed_bytes + z->part_bytes) >> 9) + 1);
    return diag_error("cannot make a shared file in /dev/shm, $TMPDIR or /tmp: %s; free %llu MB in one of them",
                      strerror(err), (unsigned long long)((z->fixed_bytes + z->part_bytes) >> 20) + 1);
}

void *scratch_map(struct scratch *s, const struct scratch_size *z, size_t *bytes)
{
    if (scratch_open(s, z) < 0)
        return NULL;
    *bytes = z->fixed_bytes + s->parts * z->part_bytes;
    void *at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (at != MAP_FAILED)
        return at;
    diag_error("%s: cannot be mapped: %s", s->path, strerror(errno));
    scratch_close(s);
    return NULL;
}

void scratch_close(struct scratch *s)
{
    unlink(s->path);
    close(s->fd);
    s->fd = -1;
}
