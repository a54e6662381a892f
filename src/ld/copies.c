/* SPDX-License-Identifier: Apache-2.0
 * The inputs of a link to rewritten ones: those parts that the link takes in, each once, side by side; what an earlier
 * link made of them comes from the cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ld/impl.h"

void ld_tally_leave(struct ld_tally *t, const char *name, const char *why)
{
    str_printf(&t->left, "%s: %s\n", name, why);
}

/* ---- one part ---- */

static bool is_wanted(const struct ld_file *f, size_t part)
{
    return !f->is_archive || f->archive.members.data[part].is_taken;
}

/* Made for this link, in its folder. */
static bool is_made(const struct ld_copies *c, const char *path)
{
    size_t len = strlen(c->folder);
    return !strncmp(path, c->folder, len) && path[len] == '/';
}

static const char *name_of(const struct ld_copies *c, const struct ld_file *f, size_t part)
{
    const char *path = is_made(c, f->in->path) ? file_base_name(f->in->path) : f->in->path;
    return f->is_archive ? arena_printf(c->arena, "%s(%s)", path, f->archive.members.data[part].name) : path;
}

static void name_whole(const struct rewrite_relocatable_stats *s, struct strbuf *out)
{
    if (s->debug_lost)
        str_printf(out, "its debug information is left out: %s\n", s->debug_lost);
    else if (s->debug_is_split)
        str_puts(out, "its debug information keeps lines alone: the rest is in another file (split DWARF)\n");
    for (size_t i = 0; i < s->whole_count; i++) {
        const struct rewrite_relocatable_whole *w = &s->whole[i];
        bool is_of_function = w->why == REWRITE_RELOCATABLE_FUNCTION;
        str_printf(out, "%s %s%s%s\n", w->section, rewrite_relocatable_reason_text[w->why], is_of_function ? ": " : "",
                   is_of_function ? cfg_reason_text[w->func_why] : "");
    }
}

struct task { /* a part to be rewritten */
    struct ld_file *file;
    size_t part;
    const uint8_t *bytes;
    size_t len;
    const char *name;
    struct strbuf left;
};
struct tasks {
    VEC(struct task) v;
    const struct rewrite_relocatable_options *opt;
};

void ld_part_rewrite(const char *name, const uint8_t *bytes, size_t len, const struct rewrite_relocatable_options *opt,
                     struct ld_part *p, struct strbuf *left)
{
    struct rewrite_relocatable_stats stats;
    struct strbuf error = {0};
    diag_hold(&error);
    int rc = rewrite_relocatable(name, bytes, len, opt, &p->bytes, &stats);
    diag_hold(NULL);
    p->is_known = true;
    p->is_new = rc == 0 && (stats.counters || stats.runtime_calls || (opt->order && stats.sections_moved));
    if (rc < 0) {
        str_printf(left, "%s\n", error.data ? error.data : "not understood");
    } else {
        p->funcs = stats.funcs;
        p->funcs_moved = stats.funcs_moved;
        p->counters = stats.counters + stats.runtime_calls;
        p->blocks_ordered = stats.blocks_ordered;
        name_whole(&stats, left);
        rewrite_relocatable_stats_free(&stats);
    }
    if (!p->is_new)
        str_free(&p->bytes);
    str_free(&error);
}

static void rewrite_task(struct task *t, const struct rewrite_relocatable_options *opt)
{
    ld_part_rewrite(t->name, t->bytes, t->len, opt, &t->file->parts[t->part], &t->left);
}

static void rewrite_range(void *ctx, size_t first, size_t end)
{
    struct tasks *all = ctx;
    for (; first < end; first++)
        rewrite_task(&all->v.data[first], all->opt);
}

/* ---- all parts ---- */

static void add_tasks(struct ld_copies *c, struct ld_file *f, struct tasks *all)
{
    for (size_t i = 0; i < f->part_count; i++) {
        const struct ld_member *m = f->is_archive ? &f->archive.members.data[i] : NULL;
        if (f->parts[i].is_known || !is_wanted(f, i))
            continue;
        struct task t = {f, i, m ? m->data : f->file.data, m ? m->len : f->file.len, name_of(c, f, i), {0}};
        VEC_PUSH(&all->v, t);
    }
}

static int largest_first(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    return (x->len < y->len) - (x->len > y->len);
}

static void rewrite_all(struct ld_copies *c)
{
    struct tasks all = {.opt = c->opt};
    for (size_t i = 0; i < c->count; i++)
        add_tasks(c, &c->files[i], &all);
    if (all.v.len)
        qsort(all.v.data, all.v.len, sizeof *all.v.data, largest_first);
    if (c->opt->order) /* the scheduler works for one at a time */
        rewrite_range(&all, 0, all.v.len);
    else
        parallel_each(all.v.len, rewrite_range, &all);
    for (size_t i = 0; i < all.v.len; i++) {
        struct task *t = &all.v.data[i];
        t->file->parts[t->part].left = arena_strndup(c->arena, t->left.data ? t->left.data : "", t->left.len);
        str_free(&t->left);
    }
    VEC_FREE(&all.v);
}

/* ---- what is known from earlier links ---- */

/* Of the compiler and the C library: they run before anything can be counted, and linkers know them by their names. */
static bool is_startup(const char *path)
{
    const char *name = file_base_name(path), *dot = strrchr(name, '.');
    return dot && !strcmp(dot, ".o") &&
           (!strncmp(name, "crt", 3) || !strcmp(name + 1, "crt1.o") || !strcmp(name, "rcrt1.o"));
}

/* An object that a compiler made for this link alone is never seen again; and what a scheduler answers is in no key. */
static bool is_kept(const struct ld_copies *c, const struct ld_file *f)
{
    if (c->opt->order)
        return false;
    const char *tmp = getenv("TMPDIR"), *path = f->in->path;
    if (is_made(c, path))
        return false;
    size_t len = strlen(tmp = tmp && *tmp ? tmp : "/tmp");
    return strncmp(path, tmp, len) != 0 || path[len] != '/' || strchr(path + len + 1, '/');
}

static void hash_file(struct ld_file *f)
{
    ld_hash(f->file.data, f->file.len, f->hash);
    if (!f->is_archive || !f->archive.others.len)
        return;
    struct strbuf all = {0}; /* a thin archive holds names alone */
    str_put(&all, f->hash, LD_HASH);
    for (size_t i = 0; i < f->archive.others.len; i++) {
        ld_hash(f->archive.others.data[i].data, f->archive.others.data[i].len, f->hash);
        str_put(&all, f->hash, LD_HASH);
    }
    ld_hash(all.data, all.len, f->hash);
    str_free(&all);
}

static bool lacks_any(const struct ld_file *f)
{
    for (size_t i = 0; i < f->part_count; i++)
        if (is_wanted(f, i) && !f->parts[i].is_known)
            return true;
    return false;
}

static void look_up(struct ld_copies *c, struct ld_file *f)
{
    char key[LD_HASH];
    f->part_count = is_startup(f->in->path) ? 0 : f->is_archive ? f->archive.members.len : 1;
    f->parts = ARENA_ARRAY(c->arena, struct ld_part, f->part_count + 1);
    if (!lacks_any(f))
        return;
    hash_file(f);
    if (!is_kept(c, f))
        return;
    ld_cache_key(f->hash, f->in->path, c->opt, key);
    ld_cache_find(c->arena, key, file_base_name(f->in->path), f->parts, f->part_count, &f->kept, &f->kept_bytes);
}

/* ---- one file ---- */

const char *ld_copies_put(const struct ld_copies *c, size_t number, const char *path, const struct strbuf *bytes)
{
    const char *folder = number < c->count ? arena_printf(c->arena, "%s/%zu", c->folder, number) : c->folder;
    const char *to = arena_printf(c->arena, "%s/%s", folder, file_base_name(path));
    int fd =
        number == c->count || mkdir(folder, 0700) == 0 ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    bool is_whole = fd >= 0;
    for (size_t at = 0; is_whole && at < bytes->len;) {
        ssize_t n = write(fd, bytes->data + at, bytes->len - at);
        is_whole = n > 0;
        at += is_whole ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    return is_whole ? to : NULL;
}

/* Members that earlier links rewrote, out of the copy of the whole archive, which has as many in the same order. */
static bool take_kept_members(struct ld_copies *c, struct ld_file *f)
{
    struct ld_archive kept;
    const char *why;
    if (!f->kept)
        return true;
    if (ld_archive_open(c->arena, f->kept, &kept, &why) < 0)
        return false;
    bool is_same = kept.members.len == f->part_count;
    for (size_t i = 0; i < f->part_count && is_same; i++) {
        struct ld_member *m = &f->archive.members.data[i];
        const struct ld_member *from = &kept.members.data[i];
        if (!f->parts[i].is_new || f->parts[i].bytes.len)
            continue;
        m->instead = f->kept_bytes.data + (from->data - kept.file.data);
        m->instead_len = from->len;
    }
    ld_archive_close(&kept);
    return is_same;
}

static bool compose(struct ld_copies *c, struct ld_file *f, struct strbuf *out)
{
    for (size_t i = 0; i < f->part_count; i++) {
        struct ld_part *p = &f->parts[i];
        if (!p->bytes.len)
            continue;
        if (!f->is_archive) {
            *out = p->bytes;
            p->bytes = (struct strbuf){0};
            return true;
        }
        f->archive.members.data[i].instead = p->bytes.data;
        f->archive.members.data[i].instead_len = p->bytes.len;
    }
    if (!take_kept_members(c, f))
        return false;
    ld_archive_write(&f->archive, out);
    return true;
}

static bool has_new(const struct ld_file *f)
{
    for (size_t i = 0; i < f->part_count; i++)
        if (f->parts[i].is_new)
            return true;
    return false;
}

/* In the cache, or among the temporary files. */
static bool keep(struct ld_copies *c, struct ld_file *f, size_t number, const struct strbuf *bytes)
{
    char key[LD_HASH];
    const char *kept = NULL;
    ld_cache_key(f->hash, f->in->path, c->opt, key);
    if (is_kept(c, f))
        kept = ld_cache_keep(c->arena, key, file_base_name(f->in->path), f->parts, f->part_count, bytes);
    if (bytes)
        f->instead = kept ? kept : ld_copies_put(c, number, f->in->path, bytes);
    return !bytes || f->instead;
}

static bool give(struct ld_copies *c, struct ld_file *f, size_t number, bool was_rewritten)
{
    struct strbuf out = {0};
    if (!was_rewritten) {
        f->instead = f->kept;
        return true;
    }
    if (!has_new(f))
        return keep(c, f, number, NULL);
    bool is_good = compose(c, f, &out) && keep(c, f, number, &out);
    str_free(&out);
    return is_good;
}

/* ---- all files ---- */

static void count_in(struct ld_copies *c, const struct ld_file *f)
{
    for (size_t i = 0; i < f->part_count; i++) {
        const struct ld_part *p = &f->parts[i];
        if (!is_wanted(f, i))
            continue;
        c->tally->funcs += p->funcs;
        c->tally->funcs_moved += p->funcs_moved;
        c->tally->counters += p->counters;
        c->tally->blocks_ordered += p->blocks_ordered;
        for (const char *line = p->left ? p->left : ""; *line;) {
            size_t len = strcspn(line, "\n");
            ld_tally_leave(c->tally, name_of(c, f, i), arena_strndup(c->arena, line, len));
            line += len + (line[len] == '\n');
        }
    }
}

static void find_same(struct ld_copies *c) /* an archive may come again */
{
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < i && !c->files[i].same; k++)
            if (!strcmp(c->files[k].in->path, c->files[i].in->path))
                c->files[i].same = &c->files[k];
}

int ld_copies_make(struct ld_copies *c)
{
    bool *lacks = ARENA_ARRAY(c->arena, bool, c->count + 1), is_good = true;
    find_same(c);
    for (size_t i = 0; i < c->count; i++) {
        struct ld_file *f = &c->files[i];
        if (!f->same)
            look_up(c, f);
        lacks[i] = lacks_any(f);
    }
    rewrite_all(c);
    for (size_t i = 0; i < c->count && is_good; i++) {
        struct ld_file *f = &c->files[i];
        if (f->same)
            f->instead = f->same->instead;
        else
            is_good = give(c, f, i, lacks[i]);
        count_in(c, f);
    }
    return is_good ? 0 : -1;
}

void ld_copies_close(struct ld_copies *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct ld_file *f = &c->files[i];
        for (size_t k = 0; k < f->part_count; k++)
            str_free(&f->parts[k].bytes);
        if (f->is_archive)
            ld_archive_close(&f->archive);
        file_unmap(&f->file);
        file_unmap(&f->kept_bytes);
    }
}
