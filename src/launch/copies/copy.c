/* SPDX-License-Identifier: Apache-2.0
 * One module to its rewritten copy, made once and kept:
 *
 *   file_cache_dir()/copies/KEY-HASH/NAME   the rewritten file; NAME is the original's, for ps and debuggers
 *                                   /map    what its counters mean
 *                                   /meta   record: identity, number of counters, stamps of both files, or why refused
 *
 * KEY is the image key, HASH folds the plan, the options, NAME and this very mtool, so that another one never uses what
 * it did not make. An entry appears whole by rename. A stamp (size, inode, change time, a hash of some blocks) that
 * does not match means damage, as a machine may leave that loses its power, since no disk is waited for: the entry is
 * made again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "launch/impl.h"

#define LOCKS 64
#define STAMP_BLOCKS 32u
#define STAMP_BLOCK_BYTES 4096u
#define SPACE_MIN (64ull << 20) /* with less free, a failure is the disk's, and is not remembered */

const char *copies_dir(struct arena *a) { return arena_printf(a, "%s/copies", file_cache_dir(a)); }

/* ---- names and stamps ---- */

static const char *entry_path(struct arena *a, const char *key, const char *path, const struct rewrite_options *o)
{
    struct stat self = {0};
    char hash[33];
    struct strbuf s = {0};
    stat("/proc/self/exe", &self);
    str_printf(&s, "%s %lld %lld.%09ld|%s|%s|%s|", MTOOL_VERSION, (long long)self.st_size,
               (long long)self.st_mtim.tv_sec, self.st_mtim.tv_nsec, o->rpath ? o->rpath : "",
               o->interp ? o->interp : "", file_base_name(path));
    rewrite_options_put(o, &s);
    file_hash_hex(s.data, s.len, hash);
    str_free(&s);
    return arena_printf(a, "%s/%s-%.16s", copies_dir(a), key, hash);
}

/* Blocks spread over the file: catches what was never written to the disk, without reading it all. */
static void hash_blocks(int fd, uint64_t size, char out[33])
{
    uint8_t buf[STAMP_BLOCK_BYTES];
    char text[STAMP_BLOCKS * 33] = "";
    size_t len = 0;
    uint64_t blocks = (size + STAMP_BLOCK_BYTES - 1) / STAMP_BLOCK_BYTES, n = min_u64(blocks, STAMP_BLOCKS);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t block = n > 1 ? i * (blocks - 1) / (n - 1) : 0;
        ssize_t got = pread(fd, buf, sizeof buf, (off_t)(block * STAMP_BLOCK_BYTES));
        file_hash_hex(buf, got > 0 ? (size_t)got : 0, text + len);
        len += 32;
    }
    file_hash_hex(text, len, out);
}

/* NULL if the file is not there. */
static const char *stamp_of(struct arena *a, const char *path)
{
    struct stat st;
    char hash[33];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    hash_blocks(fd, (uint64_t)st.st_size, hash);
    close(fd);
    return arena_printf(a, "%lld %llu %lld.%09ld %s", (long long)st.st_size, (unsigned long long)st.st_ino,
                        (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec, hash);
}

/* ---- one entry read ---- */

static bool stamp_holds(struct arena *a, const char *meta, const char *name, const char *path)
{
    const char *then = record_get(a, meta, name), *now = stamp_of(a, path);
    return then && now && !strcmp(then, now);
}

static bool read_key(const char *hex, uint8_t out[WIRE_KEY_BYTES])
{
    if (!hex || strlen(hex) != 2 * WIRE_KEY_BYTES)
        return false;
    for (size_t i = 0; i < WIRE_KEY_BYTES; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return false;
        out[i] = (uint8_t)byte;
    }
    return true;
}

static bool read_entry(struct arena *a, const char *dir, const char *path, struct copy *out)
{
    const char *meta = record_read(a, arena_printf(a, "%s/meta", dir));
    if (!meta)
        return false;
    *out = (struct copy){.refused = record_get(a, meta, "refused")};
    if (!out->refused) {
        out->file = arena_printf(a, "%s/%s", dir, file_base_name(path));
        out->map = arena_printf(a, "%s/map", dir);
        out->counter_count = (uint32_t)record_get_u64(meta, "counters");
        out->owns_gs = record_get_u64(meta, "gs") != 0;
        out->wants_samples = record_get_u64(meta, "samples") != 0;
        if (!read_key(record_get(a, meta, "key"), out->wire_key) || !stamp_holds(a, meta, "file", out->file) ||
            !stamp_holds(a, meta, "map", out->map))
            return false;
    }
    utimensat(AT_FDCWD, dir, NULL, 0); /* used now: the order in which entries are thrown out */
    return true;
}

bool copy_known(struct arena *a, const char *path, const struct rewrite_options *opt, struct copy *out)
{
    struct identity id;
    *out = (struct copy){0};
    if (!identity_known(a, path, &id))
        return false;
    if (id.foreign) {
        out->refused = arena_printf(a, "carries the %s run time, which walks its own code", id.foreign);
        return true;
    }
    return read_entry(a, entry_path(a, id.key, path, opt), path, out);
}

/* ---- one entry made ---- */

void copy_remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(dir);
}

static bool disk_has_room(const char *dir)
{
    struct statvfs v;
    return statvfs(dir, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize > SPACE_MIN;
}

static int lock_entry(struct arena *a, const char *key)
{
    const char *path = arena_printf(a, "%s/.lock-%02lu", copies_dir(a), strtoul(key + 24, NULL, 16) % LOCKS);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return diag_error("%s: cannot be locked: %s", path, strerror(errno));
    return fd;
}

static void describe(struct arena *a, const char *file, const char *map, const struct rewrite_stats *s,
                     struct strbuf *meta)
{
    str_puts(meta, "key ");
    for (size_t i = 0; i < WIRE_KEY_BYTES; i++)
        str_printf(meta, "%02x", s->key[i]);
    str_printf(meta, "\ncounters %llu\ngs %u\nsamples %u\nfile %s\nmap %s\n", (unsigned long long)s->counters,
               s->owns_gs, s->wants_samples, stamp_of(a, file), stamp_of(a, map));
}

/* Fills the folder TMP. 0, or -1 after one line. */
static int fill_entry(struct arena *a, const char *path, const struct rewrite_options *opt, const char *tmp)
{
    const char *file = arena_printf(a, "%s/%s", tmp, file_base_name(path)), *map = arena_printf(a, "%s/map", tmp);
    struct rewrite_stats stats = {0};
    struct strbuf meta = {0};
    struct stat st;
    if (rewrite_file(path, opt, file, map, &stats) < 0)
        return -1;
    if (stat(path, &st) < 0 || chmod(file, (st.st_mode & 0777) | 0500) < 0)
        return diag_error("%s: cannot be given the rights of %s: %s", file, path, strerror(errno));
    describe(a, file, map, &stats, &meta);
    int rc = record_write(arena_printf(a, "%s/meta", tmp), &meta);
    str_free(&meta);
    return rc == 0 ? 0 : diag_error("%s: cannot be written: %s", tmp, strerror(errno));
}

static char *make_tmp(struct arena *a)
{
    char *tmp = arena_printf(a, "%s/.tmp-%d-XXXXXX", copies_dir(a), (int)getpid());
    if (mkdtemp(tmp))
        return tmp;
    diag_error("%s: cannot be made: %s", tmp, strerror(errno));
    return NULL;
}

static int put_in_place(const char *tmp, const char *dir)
{
    copy_remove_dir(dir); /* a damaged one */
    if (rename(tmp, dir) == 0)
        return 0;
    int rc = diag_error("%s: cannot be put in place: %s", dir, strerror(errno));
    copy_remove_dir(tmp);
    return rc;
}

int copy_make(struct arena *a, const char *path, const struct rewrite_options *opt)
{
    struct identity id;
    struct copy known;
    if (identity_read(a, path, &id) < 0)
        return -1;
    if (copy_known(a, path, opt, &known)) /* also a foreign run time */
        return 0;
    int lock = lock_entry(a, id.key);
    if (lock < 0)
        return -1;
    int rc = 0;
    if (!copy_known(a, path, opt, &known)) { /* else another mtool made it meanwhile */
        const char *tmp = make_tmp(a);
        rc = tmp ? fill_entry(a, path, opt, tmp) : -1;
        if (rc == 0)
            rc = put_in_place(tmp, entry_path(a, id.key, path, opt));
        else if (tmp)
            copy_remove_dir(tmp);
    }
    close(lock);
    return rc;
}

void copy_remember_refusal(struct arena *a, const char *path, const struct rewrite_options *opt, const char *reason)
{
    struct identity id;
    char *tmp;
    if (!identity_known(a, path, &id) || !disk_has_room(copies_dir(a)) || !(tmp = make_tmp(a)))
        return;
    struct strbuf meta = {0};
    str_printf(&meta, "refused %s\n", reason);
    if (record_write(arena_printf(a, "%s/meta", tmp), &meta) < 0)
        copy_remove_dir(tmp);
    else
        put_in_place(tmp, entry_path(a, id.key, path, opt));
    str_free(&meta);
}
