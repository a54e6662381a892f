/* SPDX-License-Identifier: Apache-2.0
 * Keeps the cache of copies under its limit: the entries that were not used for longest go first, never one that was
 * used within the last minutes (its user may be about to run it). Also sweeps away what a killed mtool left half made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

#define YOUNG_SECONDS 600
#define PATH_DIR_DAYS 7
#define FEEDBACK_DAYS 30 /* after the last use */

struct old_entry {
    const char *path;
    uint64_t size_bytes;
    struct timespec used;
};
struct old_entries {
    VEC(struct old_entry) v;
    uint64_t total_bytes;
};

static int by_use(const void *a, const void *b)
{
    const struct old_entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static uint64_t size_of_tree(const char *dir)
{
    uint64_t n = 0;
    DIR *d = opendir(dir);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            n += (uint64_t)st.st_blocks * 512;
    if (d)
        closedir(d);
    return n;
}

static uint64_t limit_bytes(void)
{
    uint64_t bytes;
    if (!file_cache_limit(&bytes))
        diag_warn("cache-limit", "MTOOL_CACHE_MB=%s is no number of megabytes; using %d", getenv("MTOOL_CACHE_MB"),
                  (int)(bytes >> 20));
    return bytes;
}

/* Unfinished entries of processes that are gone. */
static bool is_left_over(const char *name, const struct stat *st, time_t now)
{
    if (strncmp(name, ".tmp-", 5) != 0)
        return false;
    pid_t pid = atoi(name + 5);
    return now - st->st_mtim.tv_sec > YOUNG_SECONDS || (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH);
}

/* All finished entries of DIR; sweeps left-overs away. */
static void list_entries(struct arena *a, const char *dir, struct old_entries *all)
{
    DIR *d = opendir(dir);
    time_t now = time(NULL);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *path = arena_printf(a, "%s/%s", dir, e->d_name);
        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        if (is_left_over(e->d_name, &st, now))
            copy_remove_dir(path);
        if (e->d_name[0] == '.')
            continue;
        VEC_PUSH(&all->v, ((struct old_entry){path, size_of_tree(path), st.st_mtim}));
        all->total_bytes += all->v.data[all->v.len - 1].size_bytes;
    }
    if (d)
        closedir(d);
}

static void throw_out(struct arena *a)
{
    struct old_entries all = {0};
    const char *dir = copies_dir(a);
    uint64_t limit = limit_bytes();
    list_entries(a, dir, &all);
    if (all.v.len)
        qsort(all.v.data, all.v.len, sizeof *all.v.data, by_use);
    for (size_t i = 0; i < all.v.len && all.total_bytes > limit; i++) {
        const struct old_entry *o = &all.v.data[i];
        const char *aside = arena_printf(a, "%s/.tmp-%d-%zu", dir, (int)getpid(), i); /* gone at once for readers */
        if (time(NULL) - o->used.tv_sec <= YOUNG_SECONDS || rename(o->path, aside) < 0)
            continue;
        copy_remove_dir(aside);
        all.total_bytes -= o->size_bytes;
    }
    VEC_FREE(&all.v);
}

static void forget_old_links(struct arena *a)
{
    const char *paths = arena_printf(a, "%s/paths", file_cache_dir(a));
    DIR *d = opendir(paths);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - st.st_mtim.tv_sec > PATH_DIR_DAYS * 86400)
            copy_remove_dir(arena_printf(a, "%s/%s", paths, e->d_name));
    if (d)
        closedir(d);
}

static void forget_old_feedback(struct arena *a)
{
    DIR *d = opendir(feedback_dir(a));
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            time(NULL) - st.st_mtim.tv_sec > FEEDBACK_DAYS * 86400)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

void copies_evict(void)
{
    struct arena *a = arena_new();
    forget_old_feedback(a);
    throw_out(a);
    forget_old_links(a);
    arena_free(a);
}
