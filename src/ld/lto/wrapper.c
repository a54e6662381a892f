/* SPDX-License-Identifier: Apache-2.0
 * Code that gcc makes of intermediate code while a program is linked (-flto). The linker's plugin calls lto-wrapper,
 * which compiles and prints the names of the objects that it made; the plugin hands these to the linker and removes
 * them in the end. A script in lto-wrapper's place calls mtool, which calls the real one and rewrites its objects
 * before anybody reads them. (gcc's lto-plugin.c: all_symbols_read_handler, exec_lto_wrapper.) */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ld/impl.h"

#define WRAPPER "lto-wrapper"
#define RECORD_ENV "MTOOL_LD_GENERATED" /* where the step that compiles says what was made of its objects */

/* ---- the step that links ---- */

static const char *record_of(const struct ld_link *l, struct arena *a)
{
    return arena_printf(a, "%s/generated", l->folder);
}

const char *ld_generated_wrap(const struct ld_link *l, struct arena *a, const char *word)
{
    static const char option[] = "plugin-opt=";
    const char *path = word + strspn(word, "-");
    if (path == word || strncmp(path, option, strlen(option)) != 0)
        return NULL;
    path += strlen(option);
    if (*path != '/' || strcmp(file_base_name(path), WRAPPER) != 0)
        return NULL;
    struct strbuf out = {0};
    const char *script = arena_printf(a, "%s/" WRAPPER, l->folder);
    str_puts(&out, "#!/bin/sh\n" RECORD_ENV "=");
    str_put_quoted(&out, record_of(l, a));
    str_printf(&out, " exec %s --link ", l->self);
    str_put_quoted(&out, path);
    str_puts(&out, " -- " WRAPPER " \"$@\"\n");
    int rc = file_write_whole(script, out.data, out.len, 0700);
    str_free(&out);
    return rc < 0 ? NULL : arena_printf(a, "-plugin-opt=%s", script);
}

void ld_generated_take(const struct ld_link *l, struct arena *a, struct ld_tally *tally)
{
    struct file_bytes f;
    unsigned long long v[4];
    if (file_map(record_of(l, a), &f) < 0)
        return;
    char *text = arena_strndup(a, (const char *)f.data, f.len), *save = NULL;
    file_unmap(&f);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (sscanf(line, "T %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3]) == 4) {
            tally->funcs += v[0], tally->funcs_moved += v[1], tally->counters += v[2], tally->blocks_ordered += v[3];
            free(tally->lto);
            tally->lto = NULL;
        } else {
            str_printf(&tally->left, "%s\n", line);
        }
    }
}

/* ---- the step that compiles ---- */

bool ld_generates(void) { return getenv(RECORD_ENV); }

struct making {
    struct arena *arena;
    const struct rewrite_relocatable_options *opt;
    const char *record_path;
    struct strbuf record;
};

/* Names of temporary files differ each time. */
static const char *name_of(const char *path)
{
    const char *name = strstr(file_base_name(path), ".ltrans");
    return name ? name + 1 : file_base_name(path);
}

/* Where the user keeps what compilers make in between, objects stay as they are, and copies are linked. */
static const char *place_of(const struct making *m, const char *path, size_t number)
{
    const char *options = getenv("COLLECT_GCC_OPTIONS");
    if (!options || !strstr(options, "'-save-temps"))
        return path;
    return arena_printf(m->arena, "%s-%zu.o", m->record_path, number);
}

/* The object at PATH. Returns the path of what is linked in its place. */
static const char *rewrite_made(struct making *m, const char *path, size_t number)
{
    struct file_bytes f;
    struct ld_part part = {0};
    struct strbuf left = {0};
    if (file_map(path, &f) < 0)
        return path; /* the plugin will say so */
    ld_part_rewrite(name_of(path), f.data, f.len, m->opt, &part, &left);
    str_puts(&left, "");
    file_unmap(&f);
    const char *to = place_of(m, path, number);
    bool is_done = part.is_new && file_write_whole(to, part.bytes.data, part.bytes.len, 0600) == 0;
    if (is_done)
        str_printf(&m->record, "T %llu %llu %llu %llu\n", (unsigned long long)part.funcs,
                   (unsigned long long)part.funcs_moved, (unsigned long long)part.counters,
                   (unsigned long long)part.blocks_ordered);
    for (char *save = NULL, *line = strtok_r(left.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        str_printf(&m->record, "%s: %s\n", name_of(path), line);
    str_free(&part.bytes);
    str_free(&left);
    return is_done ? to : path;
}

/* What it printed in FD, with other names where other objects are linked in. */
static void pass_on(struct making *m, int fd)
{
    struct strbuf text = {0}, out = {0};
    char bytes[4096];
    ssize_t n;
    size_t number = 0;
    for (off_t at = 0; (n = pread(fd, bytes, sizeof bytes, at)) > 0; at += n)
        str_put(&text, bytes, (size_t)n);
    str_puts(&text, "");
    for (char *save = NULL, *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        str_printf(&out, "%s\n", rewrite_made(m, line, number++));
    if (m->record.len && file_write_whole(m->record_path, m->record.data, m->record.len, 0600) < 0)
        diag_debug(1, "cannot write %s", m->record_path);
    for (size_t at = 0; at < out.len && (n = write(STDOUT_FILENO, out.data + at, out.len - at)) > 0;)
        at += (size_t)n;
    str_free(&text);
    str_free(&out);
    str_free(&m->record);
}

int ld_generate(const struct ld_link *l, struct arena *a, const struct rewrite_relocatable_options *opt)
{
    size_t n = 0;
    while (l->args[n])
        n++;
    const char **argv = ARENA_ARRAY(a, const char *, n + 2);
    argv[0] = l->linker;
    memcpy(argv + 1, l->args, n * sizeof *argv);
    struct making m = {a, opt, arena_strdup(a, getenv(RECORD_ENV)), {0}};
    unsetenv(RECORD_ENV);
    int fd = memfd_create(WRAPPER, MFD_CLOEXEC);
    if (fd < 0)
        return ld_run(argv, -1, -1);
    int status = ld_run(argv, fd, -1);
    pass_on(&m, fd);
    close(fd);
    return status;
}
