/* SPDX-License-Identifier: Apache-2.0
 * Rewritten inputs of links, kept for the next one: an object that did not change is rewritten once, and so is libc.a.
 *
 *   file_cache_dir()/objects/KEY               a text, drawn below: what is known of the input's parts
 *                           /KEY-XXXXXX/NAME   the rewritten object; or the archive, with those members rewritten that
 *                                              a link has taken in so far. NAME is that of the input, by which linkers
 *                                              and their scripts know it
 *
 * KEY hashes the input's content and name (which stands in the map of its counters), the options, and this very mtool.
 * The text appears whole by rename, when the copy is there. A copy that has not the hash which the text says is made
 * again: no disk is waited for, so that a machine that fails may leave anything. The text:
 *
 *   mtool-ld-1 SIZE HASH FOLDER                     of the copy; 0 - - if no part is new
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

enum { LANES = 8, YOUNG_SECONDS = 600 };

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
    char hash[LD_HASH], in[64]; /* the copy's, and its folder */
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
    if (!line || sscanf(line, "mtool-ld-1 %llu %32s %63s", &e->size, e->hash, e->in) != 3)
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

static bool open_copy(const struct entry *e, const char *name, const char **copy, struct file_bytes *bytes)
{
    const char *folder = arena_printf(e->arena, "%s/%s", folder_of(e->arena), e->in);
    const char *path = arena_printf(e->arena, "%s/%s", folder, name);
    if (strchr(e->in, '/') || file_map(path, bytes) < 0)
        return false;
    if (!is_same(e, bytes)) {
        file_unmap(bytes);
        return false;
    }
    utimensat(AT_FDCWD, folder, NULL, 0); /* used now: the order in which they are thrown out */
    *copy = path;
    return true;
}

void ld_cache_find(struct arena *a, const char *key, const char *name, struct ld_part *parts, size_t count,
                   const char **copy, struct file_bytes *bytes)
{
    struct file_bytes text;
    const char *path = arena_printf(a, "%s/%s", folder_of(a), key);
    struct entry e = {.arena = a, .parts = parts, .count = count};
    *copy = NULL;
    if (file_map(path, &text) < 0)
        return;
    bool is_good = read_entry(&e, &text) && (e.in[0] == '-' || open_copy(&e, name, copy, bytes));
    file_unmap(&text);
    if (is_good)
        utimensat(AT_FDCWD, path, NULL, 0);
    else
        memset(parts, 0, count * sizeof *parts);
}

/* ---- an entry made ---- */

static bool put_bytes(int fd, const void *bytes, size_t len)
{
    bool is_whole = fd >= 0;
    for (size_t at = 0; is_whole && at < len;) {
        ssize_t n = write(fd, (const char *)bytes + at, len - at);
        is_whole = n > 0;
        at += is_whole ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    return is_whole;
}

static bool put_text(struct arena *a, const char *key, const struct strbuf *text)
{
    char *path = arena_printf(a, "%s/.%s-XXXXXX", folder_of(a), key);
    int fd = mkostemp(path, O_CLOEXEC);
    if (put_bytes(fd, text->data, text->len) && rename(path, arena_printf(a, "%s/%s", folder_of(a), key)) == 0)
        return true;
    if (fd >= 0)
        unlink(path);
    return false;
}

/* Its path; NULL if there is no room. */
static const char *put_copy(struct arena *a, const char *key, const char *name, const struct strbuf *bytes)
{
    char *folder = arena_printf(a, "%s/%s-XXXXXX", folder_of(a), key);
    if (!mkdtemp(folder))
        return NULL;
    const char *path = arena_printf(a, "%s/%s", folder, name);
    if (put_bytes(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), bytes->data, bytes->len))
        return path;
    unlink(path);
    rmdir(folder);
    return NULL;
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

const char *ld_cache_keep(struct arena *a, const char *key, const char *name, const struct ld_part *parts, size_t count,
                          const struct strbuf *bytes)
{
    const char *copy = NULL;
    struct strbuf text = {0};
    char hash[LD_HASH];
    if (file_make_dirs(folder_of(a), 0700) < 0)
        return NULL;
    if (bytes) {
        if (!(copy = put_copy(a, key, name, bytes)))
            return NULL;
        ld_hash(bytes->data, bytes->len, hash);
        size_t in = strlen(folder_of(a)) + 1;
        str_printf(&text, "mtool-ld-1 %zu %s %.*s\n", bytes->len, hash, (int)(strlen(copy) - in - strlen(name) - 1),
                   copy + in);
    } else {
        str_puts(&text, "mtool-ld-1 0 - -\n");
    }
    put_parts(&text, parts, count);
    if (!put_text(a, key, &text))
        copy = NULL; /* it is of no use, and goes in time */
    str_free(&text);
    return copy;
}

/* ---- its limit ---- */

struct old_entry { /* a text, or the folder of a copy */
    const char *name;
    uint64_t size;
    struct timespec used;
    bool is_copy;
    bool is_of_use; /* a text, or a copy that one names */
};
struct old_entries {
    VEC(struct old_entry) v;
    uint64_t total;
};

static int by_use(const void *a, const void *b)
{
    const struct old_entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Whether the text of its key names this copy. */
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

/* Bytes of the files in a copy's folder; `unlinks` them too. */
static uint64_t look_into(int folder, const char *name, bool unlinks)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    uint64_t size = 0;
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            size += (uint64_t)st.st_blocks * 512;
        if (unlinks)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
    return size;
}

static void list_entries(struct arena *a, DIR *d, struct old_entries *all)
{
    struct stat st;
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        struct old_entry o = {.name = arena_strdup(a, e->d_name),
                              .size = (uint64_t)st.st_blocks * 512,
                              .used = st.st_mtim,
                              .is_copy = S_ISDIR(st.st_mode)};
        if (o.is_copy)
            o.size += look_into(dirfd(d), o.name, false);
        o.is_of_use = o.name[0] != '.' && (!o.is_copy || (strlen(o.name) > LD_HASH && is_named(dirfd(d), o.name)));
        VEC_PUSH(&all->v, o);
        all->total += o.size;
    }
}

/* What was used within the last minutes stays: a linker may be about to read it. */
void ld_cache_evict(void)
{
    struct arena *a = arena_new();
    struct old_entries all = {0};
    DIR *d = opendir(folder_of(a));
    uint64_t limit;
    time_t now = time(NULL);
    (void)file_cache_limit(&limit); /* who runs programs says what is wrong with it */
    if (d)
        list_entries(a, d, &all);
    if (all.v.len)
        qsort(all.v.data, all.v.len, sizeof *all.v.data, by_use);
    for (size_t i = 0; i < all.v.len; i++) {
        const struct old_entry *o = &all.v.data[i];
        if ((all.total <= limit && o->is_of_use) || now - o->used.tv_sec <= YOUNG_SECONDS)
            continue;
        if (o->is_copy)
            look_into(dirfd(d), o->name, true);
        if (unlinkat(dirfd(d), o->name, o->is_copy ? AT_REMOVEDIR : 0) == 0)
            all.total -= o->size;
    }
    if (d)
        closedir(d);
    VEC_FREE(&all.v);
    arena_free(a);
}
