/* SPDX-License-Identifier: Apache-2.0
 * The files of modules, each open once for all processes that are looked at together: what takes long to find out about
 * a file (debug information, unwind tables) does so once. */
#include "data/impl.h"

#include <stdlib.h>
#include <sys/stat.h>

struct data_files *data_files_new(void)
{
    struct data_files *f = xmalloc(sizeof *f);
    f->arena = arena_new();
    f->names.arena = f->arena;
    f->users = 1;
    return f;
}

static void close_file(struct data_file *m)
{
    variables_free(m->variables);
    scope_cache_free(m->scopes);
    lines_close(m->lines);
    image_close(m->img);
}

void data_files_free(struct data_files *f)
{
    if (--f->users)
        return;
    for (size_t i = 0; i < f->all.len; i++)
        close_file(f->all.data[i]);
    VEC_FREE(&f->all);
    file_names_fini(&f->names);
    arena_free(f->arena);
    free(f);
}

/* It may have been written anew since it was opened. */
static bool is_same(const struct data_file *m, const char *path, const struct stat *st)
{
    return m->inode == st->st_ino && m->changed_s == st->st_mtim.tv_sec && m->changed_ns == st->st_mtim.tv_nsec &&
           strcmp(m->path, path) == 0;
}

struct data_file *data_file_open(struct data *d, const char *path)
{
    struct data_files *f = d->own->files;
    struct stat st = {0};
    bool is_known = stat(path, &st) == 0;
    for (size_t i = 0; is_known && i < f->all.len; i++)
        if (is_same(f->all.data[i], path, &st))
            return f->all.data[i];
    struct image *img;
    if (image_open(path, &img) < 0)
        return NULL;
    struct data_file *m = ARENA_NEW(f->arena, struct data_file);
    *m = (struct data_file){.path = arena_strdup(f->arena, path),
                            .img = img,
                            .inode = st.st_ino,
                            .changed_s = st.st_mtim.tv_sec,
                            .changed_ns = st.st_mtim.tv_nsec};
    VEC_PUSH(&f->all, m);
    return m;
}

static bool open_debug(const struct data *d, struct data_file *m)
{
    if (!m->is_debug_tried) {
        m->is_debug_tried = true;
        m->lines = lines_open(m->path, DEBUG_ROOT, &d->own->files->names);
        m->scopes = m->lines ? scope_cache_new(m->lines) : NULL;
    }
    return m->lines != NULL;
}

bool data_open_debug(struct data *d, uint32_t module) { return open_debug(d, d->own->modules.data[module].file); }

struct variables *data_variables(struct data *d, struct data_file *m)
{
    if (!m->variables && open_debug(d, m))
        m->variables = variables_new(m->lines);
    return m->variables;
}

/* A file whose table cannot be read only ends the walk. */
static const struct image_unwind *read_unwind(struct data_file *m)
{
    struct strbuf said = {0};
    if (!m->is_unwind_tried) {
        m->is_unwind_tried = true;
        diag_hold(&said);
        m->has_unwind = image_unwind_read(m->img, &m->unwind) == 0;
        diag_hold(NULL);
        str_free(&said);
    }
    return m->has_unwind ? &m->unwind : NULL;
}

const struct image_unwind *data_unwind(struct data *d, uint32_t module)
{
    return read_unwind(d->own->modules.data[module].file);
}

void data_prepare(struct data *d, const char *path)
{
    struct strbuf said = {0};
    diag_hold(&said);
    struct data_file *m = data_file_open(d, path);
    diag_hold(NULL);
    str_free(&said);
    if (!m)
        return;
    data_variables(d, m);
    read_unwind(m);
}
