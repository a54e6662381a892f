/* SPDX-License-Identifier: Apache-2.0
 * Rewritten inputs of links, kept for the next one: an object that did not change is rewritten once, and so is libc.a.
 *
 *   file_cache_dir()/objects/KEY          a text, drawn below: what is known of the input's parts
 *                           /KEY-XXXXXX   the rewritten object; or the archive, with those members rewritten that a
 *                                         link has taken in so far
 *
 * KEY hashes the input's content and name (which stands in the map of its counters), the options, and this very mtool.
 * Both files appear whole by rename, the text last. A copy that has not the hash which the text says is made again: no
 * disk is waited for, so that a machine that fails may leave anything. The text:
 *
 *   mtool-ld-1 SIZE HASH FILE                       of the copy; 0 - - if no part is new
 *   p NUMBER NEW FUNCTIONS MOVED COUNTERS           a part that is known
 *   l TEXT                                          of the part above: what was taken over as it is
 *   end
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ld/impl.h"

enum { LANES = 8, LIMIT_MB = 4096, YOUNG_SECONDS = 600 };

static const char *folder_of(struct arena *a) { return arena_printf(a, "%s/objects", file_cache_dir(a)); }

/* ---- hashes ---- */

/* Eight sums side by side, of each 8th word. A step loses nothing of the sum before it, nor of the word. */
void ld_hash(const void *bytes, size_t len, char out[LD_HASH])
{
    const uint8_t *p = bytes;
    uint64_t sums[LANES + 1] = {1, 2, 3, 4, 5, 6, 7, 8, len}, words[LANES];
    size_t at = 0;
    for (; len - at >= sizeof words; at += sizeof words) {
        memcpy(words, p + at, sizeof words);
        for (int i = 0; i < LANES; i++) {
            uint64_t h = (sums[i] ^ words[i]) * 0x9fb21c651e98df25u;
            sums[i] = h ^ h >> 32;
        }
    }
    struct strbuf all = {0};
    str_put(&all, sums, sizeof sums);
    str_put(&all, p + at, len - at);
    file_hash_hex(all.data, all.len, out);
    str_free(&all);
}

void ld_cache_key(const char *content, const char *name, const struct rewrite_relocatable_options *opt,
                  char out[LD_HASH])
{
    struct stat self = {0};
    struct strbuf s = {0};
    stat("/proc/self/exe", &self);
    str_printf(&s, "%s %lld %lld.%09ld|%s|%s|", MTOOL_VERSION, (long long)self.st_size, (long long)self.st_mtim.tv_sec,
               self.st_mtim.tv_nsec, content, name);
    rewrite_relocatable_options_put(opt, &s);
    file_hash_hex(s.data, s.len, out);
    str_free(&s);
}

/* ---- an entry read ---- */

struct entry {
    struct arena *arena;
    struct ld_part *parts;
    size_t count;
    struct ld_part *last; /* of which lines are read */
    bool is_whole;
    char hash[LD_HASH], file[64]; /* the copy's */
    unsigned long long size;
};

static bool take_part(struct entry *e, const char *line)
{
    size_t number;
    unsigned is_new;
    unsigned long long v[3];
    if (sscanf(line, "p %zu %u %llu %llu %llu", &number, &is_new, &v[0], &v[1], &v[2]) != 5 || number >= e->count)
        return false;
    e->last = &e->parts[number];
    *e->last = (struct ld_part){
        .is_known = true, .is_new = is_new != 0, .funcs = v[0], .funcs_moved = v[1], .counters = v[2], .left = ""};
    return true;
}

static bool take_line(struct entry *e, const char *line)
{
    if (*line == 'p')
        return take_part(e, line);
    if (!strncmp(line, "l ", 2) && e->last) {
        e->last->left = arena_printf(e->arena, "%s%s\n", e->last->left, line + 2);
        return true;
    }
    e->is_whole = !strcmp(line, "end");
    return e->is_whole;
}

static bool read_entry(struct entry *e, const struct file_bytes *text)
{
    char *all = arena_strndup(e->arena, (const char *)text->data, text->len), *save = NULL;
    const char *line = strtok_r(all, "\n", &save);
    if (!line || sscanf(line, "mtool-ld-1 %llu %32s %63s", &e->size, e->hash, e->file) != 3)
        return false;
    while ((line = strtok_r(NULL, "\n", &save)))
        if (!take_line(e, line))
            return false;
    return e->is_whole;
}

static bool is_same(const struct entry *e, const struct file_bytes *copy)
{
    char hash[LD_HASH];
    if (copy->len != e->size)
        return false;
    ld_hash(copy->data, copy->len, hash);
    return !strcmp(hash, e->hash);
}

static bool open_copy(const struct entry *e, const char **copy, struct file_bytes *bytes)
{
    const char *path = arena_printf(e->arena, "%s/%s", folder_of(e->arena), e->file);
    if (strchr(e->file, '/') || file_map(path, bytes) < 0)
        return false;
    if (!is_same(e, bytes)) {
        file_unmap(bytes);
        return false;
    }
    utimensat(AT_FDCWD, path, NULL, 0); /* used now: the order in which they are thrown out */
    *copy = path;
    return true;
}

void ld_cache_find(struct arena *a, const char *key, struct ld_part *parts, size_t count, const char **copy,
                   struct file_bytes *bytes)
{
    struct file_bytes text;
    const char *path = arena_printf(a, "%s/%s", folder_of(a), key);
    struct entry e = {.arena = a, .parts = parts, .count = count};
    *copy = NULL;
    if (file_map(path, &text) < 0)
        return;
    bool is_good = read_entry(&e, &text) && (e.file[0] == '-' || open_copy(&e, copy, bytes));
    file_unmap(&text);
    if (is_good)
        utimensat(AT_FDCWD, path, NULL, 0);
    else
        memset(parts, 0, count * sizeof *parts);
}

/* ---- an entry made ---- */

/* A new file with these bytes in the folder; its path, to which XXXXXX was put. NULL if there is no room. */
static const char *put_file(char *path, const void *bytes, size_t len)
{
    int fd = mkostemp(path, O_CLOEXEC);
    bool is_whole = fd >= 0;
    for (size_t at = 0; is_whole && at < len;) {
        ssize_t n = write(fd, (const char *)bytes + at, len - at);
        is_whole = n > 0;
        at += is_whole ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !is_whole)
        unlink(path);
    return is_whole ? path : NULL;
}

static void put_lines(struct strbuf *text, const char *lines)
{
    for (const char *line = lines ? lines : ""; *line;) {
        size_t len = strcspn(line, "\n");
        str_printf(text, "l %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static void put_parts(struct strbuf *text, const struct ld_part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct ld_part *p = &parts[i];
        if (!p->is_known)
            continue;
        str_printf(text, "p %zu %d %llu %llu %llu\n", i, p->is_new, (unsigned long long)p->funcs,
                   (unsigned long long)p->funcs_moved, (unsigned long long)p->counters);
        put_lines(text, p->left);
    }
    str_puts(text, "end\n");
}

const char *ld_cache_keep(struct arena *a, const char *key, const struct ld_part *parts, size_t count,
                          const struct strbuf *bytes)
{
    const char *folder = folder_of(a), *copy = NULL;
    struct strbuf text = {0};
    char hash[LD_HASH];
    if (file_make_dirs(folder, 0700) < 0)
        return NULL;
    if (bytes) {
        if (!(copy = put_file(arena_printf(a, "%s/%s-XXXXXX", folder, key), bytes->data, bytes->len)))
            return NULL;
        ld_hash(bytes->data, bytes->len, hash);
        str_printf(&text, "mtool-ld-1 %zu %s %s\n", bytes->len, hash, file_base_name(copy));
    } else {
        str_puts(&text, "mtool-ld-1 0 - -\n");
    }
    put_parts(&text, parts, count);
    const char *path = put_file(arena_printf(a, "%s/.%s-XXXXXX", folder, key), text.data, text.len);
    bool is_kept = path && rename(path, arena_printf(a, "%s/%s", folder, key)) == 0;
    str_free(&text);
    return is_kept ? copy : NULL;
}

/* ---- its limit ---- */

struct old_file {
    const char *name;
    uint64_t size;
    struct timespec used;
    bool is_of_use; /* a text, or a copy that one names */
};
struct old_files {
    VEC(struct old_file) v;
    uint64_t total;
};

static int by_use(const void *a, const void *b)
{
    const struct old_file *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Whether the text of the entry names this copy. */
static bool is_named(int folder, const char *copy)
{
    char key[LD_HASH] = "", first[256] = "";
    memcpy(key, copy, LD_HASH - 1);
    int fd = openat(folder, key, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, first, sizeof first - 1) : 0;
    if (fd >= 0)
        close(fd);
    return n > 0 && strstr(first, copy);
}

static void list_files(struct arena *a, DIR *d, struct old_files *all)
{
    struct stat st;
    for (struct dirent *e; (e = readdir(d));) {
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        bool is_copy = strlen(e->d_name) > LD_HASH && e->d_name[LD_HASH - 1] == '-';
        bool is_of_use = e->d_name[0] != '.' && (!is_copy || is_named(dirfd(d), e->d_name));
        VEC_PUSH(&all->v,
                 ((struct old_file){arena_strdup(a, e->d_name), (uint64_t)st.st_blocks * 512, st.st_mtim, is_of_use}));
        all->total += (uint64_t)st.st_blocks * 512;
    }
}

static uint64_t limit_bytes(void)
{
    const char *text = getenv("MTOOL_CACHE_MB");
    char *end;
    unsigned long long mb = text && *text ? strtoull(text, &end, 10) : LIMIT_MB;
    return (text && *text && (*end || *text == '-') ? LIMIT_MB : (uint64_t)mb) << 20;
}

/* What was used within the last minutes stays: a linker may be about to read it. */
void ld_cache_evict(void)
{
    struct arena *a = arena_new();
    struct old_files all = {0};
    DIR *d = opendir(folder_of(a));
    uint64_t limit = limit_bytes();
    time_t now = time(NULL);
    if (d)
        list_files(a, d, &all);
    if (all.v.len)
        qsort(all.v.data, all.v.len, sizeof *all.v.data, by_use);
    for (size_t i = 0; i < all.v.len; i++) {
        const struct old_file *f = &all.v.data[i];
        if ((all.total <= limit && f->is_of_use) || now - f->used.tv_sec <= YOUNG_SECONDS)
            continue;
        if (unlinkat(dirfd(d), f->name, 0) == 0)
            all.total -= f->size;
    }
    if (d)
        closedir(d);
    VEC_FREE(&all.v);
    arena_free(a);
}
