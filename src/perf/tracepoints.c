/* SPDX-License-Identifier: Apache-2.0
 * Tracepoints by name: their numbers and where their fields lie, as tracefs tells them. Nothing is traced through
 * tracefs itself. */
#include "perf/perf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

static int open_mounted(void)
{
    static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    int err = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT)
            err = errno;
        if (fd >= 0 && faccessat(fd, "events", R_OK, AT_EACCESS) == 0)
            return fd;
        if (fd >= 0)
            close(fd);
    }
    errno = err;
    return -1;
}

/* A mount that is attached to no folder: it goes with its descriptor. */
static int open_detached(void)
{
    int fs = fsopen("tracefs", FSOPEN_CLOEXEC), fd = -1;
    if (fs < 0)
        return -1;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSUID);
    int err = errno;
    close(fs);
    errno = err;
    return fd;
}

int perf_tracefs_open(void)
{
    int fd = open_mounted(), err = errno;
    if (fd < 0)
        fd = open_detached();
    if (fd < 0 && err != ENOENT)
        errno = err;
    return fd;
}

static bool read_at(int folder, const char *path, struct strbuf *out)
{
    char buf[4096];
    ssize_t n;
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while ((n = read(fd, buf, sizeof buf)) > 0)
        str_put(out, buf, (size_t)n);
    close(fd);
    return out->len > 0;
}

bool perf_tracepoint_read(int tracefs, const char *name, struct perf_tracepoint *out)
{
    char path[128];
    struct strbuf id = {0};
    *out = (struct perf_tracepoint){0};
    snprintf(path, sizeof path, "events/%s/id", name);
    bool ok = read_at(tracefs, path, &id);
    if (ok)
        out->id = (uint32_t)strtoul(id.data, NULL, 10);
    str_free(&id);
    snprintf(path, sizeof path, "events/%s/format", name);
    return ok && out->id && read_at(tracefs, path, &out->text);
}

/* A line of the format: "field:TYPE NAME; offset:N; size:N; signed:N;", NAME perhaps with [N]. */
int perf_tracepoint_field(const struct perf_tracepoint *t, const char *field, unsigned bytes)
{
    size_t len = strlen(field);
    for (const char *s = t->text.data; s && (s = strstr(s, "field:")); s += strlen("field:")) {
        const char *end = s + strcspn(s, ";"), *name = end;
        unsigned at, size;
        while (name > s && name[-1] != ' ' && name[-1] != '*')
            name--;
        if (strncmp(name, field, len) == 0 && (name[len] == ';' || name[len] == '[') &&
            sscanf(end, "; offset:%u; size:%u", &at, &size) == 2)
            return size == bytes ? (int)at : -1;
    }
    return -1;
}

void perf_tracepoint_free(struct perf_tracepoint *t) { str_free(&t->text); }
