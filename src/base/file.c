/* SPDX-License-Identifier: Apache-2.0
 * Files: mapped whole for reading, written whole or not at all, folders made on the way, and a hash for cache keys. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int file_map(const char *path, struct file_bytes *out)
{
    memset(out, 0, sizeof *out);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    struct stat st;
    int err = 0;
    if (fstat(fd, &st) < 0) {
        err = errno;
    } else if (S_ISDIR(st.st_mode)) {
        err = EISDIR;
    } else if (!S_ISREG(st.st_mode)) {
        err = EINVAL;
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            err = errno;
        } else {
            out->data = p;
            out->len = (size_t)st.st_size;
        }
    }
    close(fd);
    errno = err;
    return err ? -1 : 0;
}

union mapped {
    const uint8_t *ro;
    void *rw;
};

void file_unmap(struct file_bytes *f)
{
    union mapped p = {.ro = f->data};
    if (f->len)
        munmap(p.rw, f->len);
    memset(f, 0, sizeof *f);
}

void file_rest(const struct file_bytes *f)
{
    union mapped p = {.ro = f->data};
    if (f->len && madvise(p.rw, f->len, MADV_DONTNEED) < 0)
        diag_debug(2, "a file stays in memory: %s", strerror(errno));
}

int file_each_line(const char *path, void (*take)(void *ctx, char *line), void *ctx)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    if (!f)
        return -1;
    while (getline(&line, &room, f) > 0)
        take(ctx, line);
    free(line);
    fclose(f);
    return 0;
}

static int write_all(int fd, const uint8_t *p, size_t len)
{
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

char *file_write_temporary(const char *path, const void *bytes, size_t len, unsigned mode, bool is_synced)
{
    struct strbuf tmp = {0};
    str_printf(&tmp, "%s.XXXXXX", path);
    int fd = mkostemp(tmp.data, O_CLOEXEC);
    int err = 0;
    if (fd < 0) {
        err = errno;
    } else {
        if (write_all(fd, bytes, len) < 0 || fchmod(fd, mode) < 0 || (is_synced && fsync(fd) < 0))
            err = errno;
        if (close(fd) < 0 && !err)
            err = errno;
        if (err)
            unlink(tmp.data);
    }
    if (!err)
        return tmp.data;
    str_free(&tmp);
    errno = err;
    return NULL;
}

int file_rename_into_place(char *temporary, const char *path)
{
    int err = 0;
    if (rename(temporary, path) < 0) {
        err = errno;
        unlink(temporary);
    }
    free(temporary);
    errno = err;
    return err ? -1 : 0;
}

int file_write_whole(const char *path, const void *bytes, size_t len, unsigned mode)
{
    char *temporary = file_write_temporary(path, bytes, len, mode, true);
    return temporary ? file_rename_into_place(temporary, path) : -1;
}

int file_write_kept(const char *path, const void *bytes, size_t len, unsigned mode)
{
    char *temporary = file_write_temporary(path, bytes, len, mode, false);
    return temporary ? file_rename_into_place(temporary, path) : -1;
}

int file_write_scratch(const char *path, const void *bytes, size_t len, unsigned mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return -1;
    int rc = write_all(fd, bytes, len);
    if (close(fd) < 0)
        rc = -1;
    return rc;
}

int file_make_dirs(const char *path, unsigned mode)
{
    char *p = xstrdup(path);
    int rc = 0;
    for (char *s = p + 1; rc == 0; s++) {
        if (*s && *s != '/')
            continue;
        char c = *s;
        *s = 0;
        if (mkdir(p, mode) < 0 && errno != EEXIST)
            rc = -1;
        *s = c;
        if (!c)
            break;
    }
    struct stat st;
    if (rc == 0 && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))) {
        errno = ENOTDIR;
        rc = -1;
    }
    int err = errno;
    free(p);
    errno = err;
    return rc;
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

int64_t file_changed_s(const char *path)
{
    struct stat st;
    return stat(path, &st) < 0 ? -1 : (int64_t)st.st_mtime;
}

char *file_real_path(struct arena *a, const char *path)
{
    char *p = realpath(path, NULL);
    if (!p)
        return NULL;
    char *out = arena_strdup(a, p);
    free(p);
    return out;
}

const char *file_base_name(const char *path)
{
    const char *s = strrchr(path, '/');
    return s ? s + 1 : path;
}

char *file_cache_dir(struct arena *a)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/')
        return arena_printf(a, "%s/mtool", xdg);
    if (home && home[0] == '/' && home[1])
        return arena_printf(a, "%s/.cache/mtool", home);
    return arena_printf(a, "/tmp/mtool-%u", (unsigned)getuid());
}

bool file_cache_limit(uint64_t *bytes)
{
    enum { LIMIT_MB = 4096 };
    const char *text = getenv("MTOOL_CACHE_MB");
    char *end;
    unsigned long long mb = text && *text ? strtoull(text, &end, 10) : LIMIT_MB;
    bool is_number = !text || !*text || (!*end && *text != '-');
    *bytes = (is_number ? (uint64_t)mb : LIMIT_MB) << 20;
    return is_number;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

void file_hash_hex(const void *bytes, size_t len, char out[33])
{
    const uint8_t *p = bytes;
    uint64_t a = 0x243f6a8885a308d3u ^ len, b = 0x13198a2e03707344u + len;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        a = mix(a ^ w) + 0x9e3779b97f4a7c15u;
        b = (b + w) * 0x9fb21c651e98df25u;
        b ^= b >> 29;
    }
    uint64_t w = 0;
    if (i < len)
        memcpy(&w, p + i, len - i);
    a = mix(a ^ w);
    b = mix(b + w + a);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

int file_put_at(int fd, const void *bytes, size_t len, uint64_t off)
{
    const char *p = bytes;
    while (len) {
        ssize_t n = pwrite(fd, p, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}
