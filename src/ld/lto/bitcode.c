/* SPDX-License-Identifier: Apache-2.0
 * Code that LLVM makes of bitcode inside the linker (clang -flto, -flto=thin): the link is done once as it was meant,
 * with the linker asked to leave the objects that it made (obj-path, which lld knows, and LLVM's plugin for the
 * others). These then stand in the place of the bitcode, and what follows is a link of objects. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ld/impl.h"

enum { OBJECTS_MOST = 100000 };

struct compiling {
    const struct ld_link *l;
    const struct ld_line *line;
    struct arena *arena;
    VEC(const char *) words; /* of the line without bitcode */
    size_t place;            /* in these: where the first of it stood; SIZE_MAX: there was none */
};

static bool is_bitcode(const uint8_t *bytes, size_t len) { return len > 4 && !memcmp(bytes, "BC\xc0\xde", 4); }

static bool is_first_of_two(const struct compiling *c, const struct ld_input *in) /* -l NAME */
{
    const char *word = c->line->args.data[in->arg];
    return in->is_library && (!strcmp(word, "-l") || !strcmp(word, "--library"));
}

/* ---- what holds bitcode ---- */

/* The archive without it, as a file; "" if nothing is left of it, NULL: it has none. */
static const char *without(struct compiling *c, const struct ld_input *in)
{
    struct ld_archive ar;
    const char *why, *to = NULL;
    size_t dropped = 0;
    if (ld_archive_open(c->arena, in->path, &ar, &why) < 0)
        return NULL;
    for (size_t i = 0; i < ar.members.len; i++) {
        struct ld_member *m = &ar.members.data[i];
        m->is_dropped = is_bitcode(m->data, m->len);
        dropped += m->is_dropped;
    }
    if (dropped) {
        struct strbuf out = {0};
        const char *folder = arena_printf(c->arena, "%s/bitcode-%zu", c->l->folder, in->arg);
        ld_archive_write(&ar, &out);
        to = arena_printf(c->arena, "%s/%s", folder, file_base_name(in->path));
        if (dropped == ar.members.len)
            to = "";
        else if (file_make_dirs(folder, 0700) < 0 || file_write_whole(to, out.data, out.len, 0600) < 0)
            to = NULL; /* the second link has it again, and fails */
        str_free(&out);
    }
    ld_archive_close(&ar);
    return to;
}

/* What stands in the place of the input; itself: it has no bitcode. */
static const char *instead_of(struct compiling *c, const struct ld_input *in)
{
    struct file_bytes f;
    if (!in->path || file_map(in->path, &f) < 0)
        return in->path;
    bool is = is_bitcode(f.data, f.len), is_archive = ld_is_archive(f.data, f.len);
    file_unmap(&f);
    const char *rest = is_archive && !ld_is_of_c(in->path) ? without(c, in) : NULL;
    return is ? "" : rest ? rest : in->path;
}

static void take_words(struct compiling *c)
{
    size_t at = 0;
    for (size_t i = 0; i < c->line->inputs.len; i++) {
        const struct ld_input *in = &c->line->inputs.data[i];
        const char *to = instead_of(c, in);
        if (to == in->path)
            continue;
        for (; at < in->arg; at++)
            VEC_PUSH(&c->words, c->line->args.data[at]);
        c->place = c->place == SIZE_MAX ? c->words.len : c->place;
        at += is_first_of_two(c, in) ? 2 : 1;
        if (*to)
            VEC_PUSH(&c->words, to);
    }
    for (; at < c->line->args.len; at++)
        VEC_PUSH(&c->words, c->line->args.data[at]);
}

/* ---- the first link ---- */

/* Somebody else wants what is made in between. */
static bool is_asked_for(const struct ld_line *line)
{
    for (size_t i = 0; i < line->args.len; i++)
        if (strstr(line->args.data[i], "obj-path") || strstr(line->args.data[i], "save-temps") ||
            strstr(line->args.data[i], "thinlto-index-only"))
            return true;
    return false;
}

static bool link_first(struct compiling *c, const char *object, bool *has_said)
{
    const char **argv = ARENA_ARRAY(c->arena, const char *, c->line->args.len + 5);
    argv[0] = c->l->linker;
    memcpy(argv + 1, c->line->args.data, c->line->args.len * sizeof *argv);
    const char **end = argv + 1 + c->line->args.len;
    *end++ = arena_printf(c->arena, "-plugin-opt=obj-path=%s", object);
    *end++ = "-o";
    *end++ = arena_printf(c->arena, "%s/first", c->l->folder);
    int fd = memfd_create("mtool-ld", MFD_CLOEXEC);
    bool is_good = fd >= 0 && ld_run(argv, fd, fd) == 0;
    *has_said = is_good && lseek(fd, 0, SEEK_END) > 0;
    if (fd >= 0)
        close(fd);
    unlink(arena_printf(c->arena, "%s/first", c->l->folder));
    return is_good;
}

const char *const *ld_bitcode_compile(const struct ld_link *l, const struct ld_line *line, struct arena *a,
                                      bool *has_said)
{
    struct compiling c = {.l = l, .line = line, .arena = a, .place = SIZE_MAX};
    const char *object = arena_printf(a, "%s/lto.o", l->folder), **all = NULL;
    *has_said = false;
    if (!is_asked_for(line))
        take_words(&c);
    if (c.place != SIZE_MAX && link_first(&c, object, has_said)) {
        VEC(const char *) made = {0};
        for (size_t i = 0; i < OBJECTS_MOST; i++) { /* the first has no number; there may be none of it */
            const char *path = i ? arena_printf(a, "%s%zu", object, i) : object;
            if (file_exists(path))
                VEC_PUSH(&made, path);
            else if (i)
                break;
        }
        all = ARENA_ARRAY(a, const char *, c.words.len + made.len + 1);
        size_t n = 0;
        for (size_t i = 0; i <= c.words.len && made.len; i++) {
            for (size_t k = 0; k < made.len && i == c.place; k++)
                all[n++] = made.data[k];
            if (i < c.words.len)
                all[n++] = c.words.data[i];
        }
        if (!made.len)
            all = NULL;
        VEC_FREE(&made);
    }
    VEC_FREE(&c.words);
    return all;
}
