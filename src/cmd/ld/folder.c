/* SPDX-License-Identifier: Apache-2.0
 * Who makes a folder has it locked as long as it lives, so one that can be locked is left of a process that was killed.
 * Its build may go on without it: such processes have the folder in their environment. */
#include "cmd/ld/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "mtool-ld.";
enum { SUFFIX = 6 }; /* what mkdtemp puts behind it */

const char *folder_temporary(void)
{
    const char *t = getenv("TMPDIR");
    return t && *t ? t : "/tmp";
}

/* ---- made and removed ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void folder_remove(const char *path) { (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* Locked, until this process ends. False: somebody takes it for one that was left. */
static bool hold(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return errno != ENOENT;
    if ((flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) || fstat(fd, &st) < 0 || !st.st_nlink)
        return close(fd), false;
    return true;
}

const char *folder_make(struct arena *arena, const char *in)
{
    for (;;) {
        char *path = arena_printf(arena, "%s/%sXXXXXX", in, prefix);
        if (!mkdtemp(path))
            return diag_error("ld: cannot make a folder in %s: %s", in, strerror(errno)), NULL;
        if (hold(path))
            return path;
    }
}

/* ---- what was left ---- */

static bool is_process(const char *name) { return isdigit((unsigned char)*name); }

/* Is the name in a process's environment? One whose environment is not to be read is another user's. */
static bool is_known_to(const char *process, const char *name)
{
    struct strbuf path = {0}, text = {0};
    char bytes[4096];
    str_printf(&path, "/proc/%s/environ", process);
    int fd = open(path.data, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0;)
        str_put(&text, bytes, (size_t)n);
    bool is_known = text.len && memmem(text.data, text.len, name, strlen(name));
    if (fd >= 0)
        close(fd);
    str_free(&path);
    str_free(&text);
    return is_known;
}

static bool is_in_use(const char *name)
{
    DIR *all = opendir("/proc");
    bool is_used = !all;
    struct dirent *e;
    while (!is_used && (e = readdir(all)))
        is_used = is_process(e->d_name) && is_known_to(e->d_name, name);
    if (all)
        closedir(all);
    return is_used;
}

static void remove_if_left(const char *path, const char *name)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 && !is_in_use(name)) {
        diag_debug(1, "ld: %s was left by a run that was killed", path);
        folder_remove(path);
    }
    close(fd);
}

void folder_remove_left(struct arena *arena, const char *in)
{
    DIR *all = opendir(in);
    struct dirent *e;
    while (all && (e = readdir(all)))
        if (!strncmp(e->d_name, prefix, strlen(prefix)) && strlen(e->d_name) == strlen(prefix) + SUFFIX)
            remove_if_left(arena_printf(arena, "%s/%s", in, e->d_name), e->d_name);
    if (all)
        closedir(all);
}
