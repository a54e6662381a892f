/* SPDX-License-Identifier: Apache-2.0
 * Facts about a running process from /proc: its executable mappings and threads for the spaces where perf_event is
 * refused, and its state, parents and peak memory. A process that is gone simply says nothing. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/impl.h"

int procfs_read(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    char buf[8192];
    ssize_t n;
    while ((n = read(fd, buf, sizeof buf)) > 0)
        str_put(out, buf, (size_t)n);
    close(fd);
    return out->len ? 0 : -1;
}

static int read_of(pid_t pid, const char *name, struct strbuf *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return procfs_read(path, out);
}

static long status_number(pid_t pid, const char *name)
{
    struct strbuf s = {0};
    const char *at = read_of(pid, "status", &s) == 0 ? strstr(s.data, name) : NULL;
    long n = at ? strtol(at + strlen(name), NULL, 10) : 0;
    str_free(&s);
    return n;
}

long procfs_peak_rss_kb(pid_t pid) { return status_number(pid, "\nVmHWM:"); }

uint64_t procfs_private_kb(pid_t pid) { return (uint64_t)status_number(pid, "\nRssAnon:"); }

void procfs_end_first(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "1000", 4) < 0)
        diag_debug(1, "%s: cannot be written", path);
    close(fd);
}

uint64_t procfs_available_kb(void)
{
    struct strbuf s = {0};
    static const char name[] = "\nMemAvailable:";
    const char *at = procfs_read("/proc/meminfo", &s) == 0 ? strstr(s.data, name) : NULL;
    uint64_t kb = at ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
    str_free(&s);
    return kb;
}

/* State letter and parent, the two fields after "pid (name) "; the name may hold anything. */
static pid_t parent_of(pid_t pid, char *state)
{
    struct strbuf s = {0};
    pid_t parent = 0;
    *state = 0;
    const char *at = read_of(pid, "stat", &s) == 0 ? strrchr(s.data, ')') : NULL;
    if (at && at[1] == ' ' && at[2]) {
        *state = at[2];
        parent = (pid_t)strtol(at + 3, NULL, 10);
    }
    str_free(&s);
    return parent;
}

uint32_t procfs_parent(pid_t pid)
{
    char state;
    return (uint32_t)parent_of(pid, &state);
}

bool procfs_is_alive(pid_t pid)
{
    char state = 0;
    return parent_of(pid, &state) > 0 && state != 'Z' && state != 'X';
}

uint64_t procfs_pending(pid_t pid)
{
    static const char name[] = "\nShdPnd:";
    struct strbuf s = {0};
    const char *at = read_of(pid, "status", &s) == 0 ? strstr(s.data, name) : NULL;
    uint64_t set = at ? strtoull(at + sizeof name - 1, NULL, 16) : 0;
    str_free(&s);
    return set;
}

uint32_t procfs_process_of(pid_t tid) { return (uint32_t)status_number(tid, "\nTgid:"); }

bool procfs_is_stopped(pid_t pid)
{
    char state;
    parent_of(pid, &state);
    return state == 'T';
}

bool procfs_is_descendant(pid_t pid, pid_t ancestor)
{
    char state;
    for (int depth = 0; pid > 1 && depth < 64; depth++) {
        if (pid == ancestor)
            return true;
        pid = parent_of(pid, &state);
    }
    return false;
}

size_t procfs_threads(pid_t pid, pid_t *tids, size_t max)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && n < max && (e = readdir(d));)
        if (e->d_name[0] != '.')
            tids[n++] = (pid_t)atoi(e->d_name);
    if (d)
        closedir(d);
    return n;
}

/* "lo-hi perms offset dev inode   path" */
static void take_line(char *line, uint32_t pid, struct spaces *spaces)
{
    char *s = line;
    uint64_t lo = strtoull(s, &s, 16), hi = *s == '-' ? strtoull(s + 1, &s, 16) : 0;
    if (hi <= lo || *s != ' ' || strlen(s) < 6 || s[3] != 'x')
        return;
    uint64_t offset = strtoull(s + 5, &s, 16);
    for (int field = 0; field < 2; field++) { /* device, inode */
        s += strspn(s, " ");
        s += strcspn(s, " ");
    }
    s += strspn(s, " ");
    spaces_map(spaces, pid, lo, hi - lo, offset, *s ? s : "//anon");
}

void procfs_take_maps(char *text, uint32_t pid, struct spaces *spaces)
{
    char *at = NULL;
    for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at))
        take_line(line, pid, spaces);
}

void procfs_look(pid_t pid, struct spaces *spaces)
{
    struct strbuf s = {0};
    if (read_of(pid, "maps", &s) == 0)
        procfs_take_maps(s.data, (uint32_t)pid, spaces);
    str_free(&s);
    uint32_t n = (uint32_t)status_number(pid, "\nThreads:"), known = spaces_threads(spaces, (uint32_t)pid);
    for (; n > known; known++)
        spaces_thread_start(spaces, (uint32_t)pid);
    for (; n && n < known; known--)
        spaces_thread_end(spaces, (uint32_t)pid);
}
