/* SPDX-License-Identifier: Apache-2.0
 * configure writes down (for libtool) where it found a linker, and a later build calls it there: so what a build finds
 * must last longer than it does, and be the linker itself when no build of ours is about.
 *
 *   FOLDER/bin/NAME                        of one build, and gone with it: what it does in place of the linker NAME
 *   file_cache_dir()/linkers/KEY/NAME      lasts: within a build its FOLDER/bin/NAME, else the linker. KEY hashes what
 *                                          these scripts say, so that builds with other linkers have others
 *
 * Where no such folder can be written, a build finds its own. */
#include "cmd/ld/linkers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/cmd.h"

/* Names of linkers: of a target or not, then one of these, then a version (-14) or none. */
static const char target[] = "x86_64-linux-gnu-";
static const char *const kinds[] = {"ld.bfd", "ld.gold", "ld.lld", "ld.mold", "ld"};

static const char lasting_head[] = "#!/bin/sh\n# mtool ld: ";
enum { KEY = 33 };

struct linker {
    const char *name, *real;
};
struct linkers {
    struct arena *arena;
    VEC(struct linker) all;
};

/* ---- those on PATH ---- */

static bool is_linker(const char *name)
{
    if (!strncmp(name, target, strlen(target)))
        name += strlen(target);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t len = strlen(kinds[i]);
        if (strncmp(name, kinds[i], len) != 0)
            continue;
        const char *rest = name + len;
        return !*rest || (*rest == '-' && rest[1] && rest[1 + strspn(rest + 1, "0123456789.")] == 0);
    }
    return false;
}

/* In a build within a build the outer one's would call the inner one's, and these them. */
static bool is_lasting(const char *path)
{
    char head[sizeof lasting_head - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_ours =
        fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head && !memcmp(head, lasting_head, sizeof head);
    if (fd >= 0)
        close(fd);
    return is_ours;
}

/* The first of each name counts. */
static bool is_known(const struct linkers *l, const char *name)
{
    for (size_t i = 0; i < l->all.len; i++)
        if (!strcmp(l->all.data[i].name, name))
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct linker *)a)->name, ((const struct linker *)b)->name);
}

static void find_in(struct linkers *l, const char *bin)
{
    if (*bin != '/' && !(bin = file_real_path(l->arena, bin)))
        return;
    DIR *dir = opendir(bin);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        if (!is_linker(e->d_name) || is_known(l, e->d_name))
            continue;
        struct linker found = {arena_printf(l->arena, "%s", e->d_name),
                               arena_printf(l->arena, "%s/%s", bin, e->d_name)};
        if (access(found.real, X_OK) == 0 && !is_lasting(found.real))
            VEC_PUSH(&l->all, found);
    }
    if (dir)
        closedir(dir);
}

static void find_all(struct linkers *l)
{
    for (const char *p = getenv("PATH"); p && *p;) {
        size_t len = strcspn(p, ":");
        if (len)
            find_in(l, arena_printf(l->arena, "%.*s", (int)len, p));
        p += len + (p[len] == ':');
    }
    if (l->all.len)
        qsort(l->all.data, l->all.len, sizeof *l->all.data, by_name);
}

/* ---- scripts ---- */

static int put_step(const struct linkers *l, const struct linker *k, const char *bin, const char *step)
{
    struct strbuf out = {0};
    str_printf(&out, "#!/bin/sh\nexec %s --link ", step);
    str_put_quoted(&out, k->real);
    str_printf(&out, " -- %s \"$@\"\n", k->name);
    int rc = file_write_scratch(arena_printf(l->arena, "%s/%s", bin, k->name), out.data, out.len, 0700);
    str_free(&out);
    return rc;
}

static void say_lasting(const struct linker *k, struct strbuf *out)
{
    str_printf(out,
               "%sin a build what that does in place of the linker, else the linker\n"
               "[ -z \"${%s-}\" ] || [ ! -r \"$%s/bin/%s\" ] || . \"$%s/bin/%s\"\n"
               "exec ",
               lasting_head, LINKERS_BUILD, LINKERS_BUILD, k->name, LINKERS_BUILD, k->name);
    str_put_quoted(out, k->real);
    str_puts(out, " \"$@\"\n");
}

/* The folder, or NULL if it cannot be had. */
static const char *put_lasting(const struct linkers *l)
{
    struct strbuf all = {0}, one = {0};
    char key[KEY];
    for (size_t i = 0; i < l->all.len; i++)
        say_lasting(&l->all.data[i], &all);
    file_hash_hex(all.data, all.len, key);
    const char *bin = arena_printf(l->arena, "%s/linkers/%s", file_cache_dir(l->arena), key);
    int rc = file_make_dirs(bin, 0700);
    for (size_t i = 0; rc == 0 && i < l->all.len; i++) {
        const char *path = arena_printf(l->arena, "%s/%s", bin, l->all.data[i].name);
        one.len = 0;
        say_lasting(&l->all.data[i], &one);
        if (access(path, X_OK) == 0)
            continue;
        rc = file_write_whole(path, one.data, one.len, 0700);
        if (rc == 0)
            rc = access(path, X_OK); /* some file systems execute nothing */
    }
    if (rc < 0)
        diag_debug(1, "ld: %s cannot be used: %s; what the build writes down of linkers ends with it", bin,
                   strerror(errno));
    str_free(&all);
    str_free(&one);
    return rc == 0 ? bin : NULL;
}

int linkers_put(struct arena *arena, const char *folder, const char *step, const char **bin)
{
    struct linkers l = {.arena = arena};
    const char *own = arena_printf(arena, "%s/bin", folder);
    find_all(&l);
    int rc = file_make_dirs(own, 0700);
    for (size_t i = 0; rc == 0 && i < l.all.len; i++)
        rc = put_step(&l, &l.all.data[i], own, step);
    if (rc < 0)
        rc = (diag_error("ld: cannot write to %s: %s", folder, strerror(errno)), CMD_SELF_FAILED);
    else if (!l.all.len)
        rc = (diag_error("ld: there is no linker on PATH; install binutils or lld"), CMD_UNUSABLE);
    const char *lasting = rc == 0 ? put_lasting(&l) : NULL;
    *bin = lasting ? lasting : own;
    VEC_FREE(&l.all);
    return rc;
}
