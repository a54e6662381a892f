/* SPDX-License-Identifier: Apache-2.0
 * A path to the identity of the ELF file there: its image key and the few facts that starting it needs. Reading a file
 * of tens of megabytes to find its key takes longer than everything else in a cached start, so the answer is kept under
 * file_cache_dir()/index, valid while device, inode, size and both times are the same. */
#include "launch/impl.h"

#include <errno.h>
#include <stdlib.h>

#define READER MTOOL_VERSION "/4" /* another version may see more in the same file */

static const char *index_path(struct arena *a, const char *path)
{
    char hash[33];
    file_hash_hex(path, strlen(path), hash);
    return arena_printf(a, "%s/index/%s", file_cache_dir(a), hash);
}

static const char *stat_text(struct arena *a, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return NULL;
    return arena_printf(a, "%llx %llu %lld %lld.%09ld %lld.%09ld", (unsigned long long)st.st_dev,
                        (unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                        st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

bool identity_known(struct arena *a, const char *path, struct identity *out)
{
    const char *now = stat_text(a, path);
    const char *lines = now ? record_read(a, index_path(a, path)) : NULL;
    if (!lines)
        return false;
    const char *then = record_get(a, lines, "stat"), *name = record_get(a, lines, "path");
    const char *reader = record_get(a, lines, "reader");
    out->key = record_get(a, lines, "key");
    out->kind = (enum image_kind)record_get_u64(lines, "kind");
    out->interp = record_get(a, lines, "interp");
    out->soname = record_get(a, lines, "soname");
    out->foreign = record_get(a, lines, "foreign");
    out->makes_threads = record_get_u64(lines, "threads") != 0;
    out->owns_layout = record_get_u64(lines, "layout") != 0;
    return then && name && reader && out->key && !strcmp(then, now) && !strcmp(name, path) && !strcmp(reader, READER) &&
           strlen(out->key) == 32 && out->kind < IMAGE_KIND_COUNT;
}

/* Without a cache that can be written the next start is only slower: no error here. */
static void remember(struct arena *a, const char *path, const char *stat_before, const struct identity *id)
{
    const char *file = index_path(a, path);
    if (strchr(path, '\n') || file_make_dirs(arena_printf(a, "%s/index", file_cache_dir(a)), 0700) < 0)
        return;
    struct strbuf s = {0};
    str_printf(&s, "path %s\nstat %s\nreader %s\nkey %s\nkind %u\n", path, stat_before, READER, id->key,
               (unsigned)id->kind);
    if (id->interp)
        str_printf(&s, "interp %s\n", id->interp);
    if (id->soname)
        str_printf(&s, "soname %s\n", id->soname);
    if (id->foreign)
        str_printf(&s, "foreign %s\n", id->foreign);
    if (id->makes_threads)
        str_puts(&s, "threads 1\n");
    if (id->owns_layout)
        str_puts(&s, "layout 1\n");
    if (record_write(file, &s) < 0)
        diag_debug(1, "cannot write %s: %s", file, strerror(errno));
    str_free(&s);
}

/* A static executable holds such a function itself; without symbols it must be thought to. */
static bool makes_threads(const struct image *img)
{
    static const char *const makers[] = {"pthread_create", "thrd_create", "clone"};
    bool has_symbols = false;
    for (size_t s = 1; s < img->symbol_count; s++) {
        const struct image_symbol *sym = &img->symbols[s];
        has_symbols |= !sym->is_dynamic;
        for (size_t i = 0; i < ARRAY_LEN(makers); i++)
            if (!strcmp(sym->name, makers[i]) && (img->is_static ? i < 2 : sym->shndx == 0))
                return true;
    }
    return img->is_static && !has_symbols;
}

static bool owns_layout(const struct image *img)
{
    for (size_t s = 1; s < img->symbol_count; s++)
        if (!strcmp(img->symbols[s].name, "__tsan_init") || !strcmp(img->symbols[s].name, "__msan_init"))
            return true;
    return false;
}

int identity_read(struct arena *a, const char *path, struct identity *out)
{
    if (identity_known(a, path, out))
        return 0;
    const char *before = stat_text(a, path); /* before reading: a change meanwhile must not look valid */
    struct image *img;
    if (image_open(path, &img) < 0)
        return -1;
    *out = (struct identity){.key = arena_strdup(a, img->key), .kind = img->kind};
    if (img->soname)
        out->soname = arena_strdup(a, img->soname);
    if (img->interp)
        out->interp = arena_strdup(a, img->interp);
    out->makes_threads = makes_threads(img);
    out->owns_layout = owns_layout(img);
    if (img->foreign_runtime)
        out->foreign = arena_strdup(a, img->foreign_runtime);
    image_close(img);
    if (before)
        remember(a, path, before, out);
    return 0;
}
