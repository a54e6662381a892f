/* SPDX-License-Identifier: Apache-2.0
 * mtool export: a profile to the files of other tools. Every place is looked at before anything is written. */
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/report.h"
#include "store/store.h"

static bool is_stdout(const char *path) { return strcmp(path, "-") == 0; }

static int check_place(const struct cmd_args *a, const char *path)
{
    struct stat st, profile;
    if (is_stdout(path))
        return 0;
    if (!path[0] || path[strlen(path) - 1] == '/')
        return diag_error("export: cannot write to '%s': that is no file name", path);
    if (lstat(path, &st) < 0)
        return 0;
    if (stat(path, &st) < 0)
        return a->force ? 0
                        : diag_error("export: %s exists already; choose another name, or --force to replace it", path);
    if (S_ISDIR(st.st_mode))
        return diag_error("export: cannot write to '%s': that is a folder", path);
    if (!S_ISREG(st.st_mode))
        return 0; /* a device or a pipe: nothing is lost */
    if (stat(a->rest[0], &profile) == 0 && profile.st_dev == st.st_dev && profile.st_ino == st.st_ino)
        return diag_error("export: %s is the profile itself; choose another name", path);
    return a->force ? 0 : diag_error("export: %s exists already; choose another name, or --force to replace it", path);
}

static int check_places(const struct cmd_args *a)
{
    size_t wanted = 0;
    for (size_t i = 0; i < REPORT_EXPORT_COUNT; i++) {
        if (!a->export_to[i])
            continue;
        wanted++;
        for (size_t k = 0; k < i; k++)
            if (a->export_to[k] && !strcmp(a->export_to[i], a->export_to[k]))
                return diag_error("export: --%s and --%s cannot both go to %s", report_export_formats[k].name,
                                  report_export_formats[i].name, a->export_to[i]);
        if (check_place(a, a->export_to[i]) < 0)
            return -1;
    }
    return wanted
               ? 0
               : diag_error(
                     "export: say what to write, for example --callgrind OUT; 'mtool export --help' lists the formats");
}

static unsigned mode_of_new_files(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* A device or a pipe is written where it is; a file is replaced whole. -1 with errno. */
static int write_out(const char *path, const struct strbuf *text)
{
    struct stat st;
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
        return file_write_whole(path, text->data, text->len, mode_of_new_files());
    FILE *f = fopen(path, "we");
    if (!f)
        return -1;
    bool is_written = fwrite(text->data, 1, text->len, f) == text->len && fflush(f) == 0;
    int err = errno;
    fclose(f);
    errno = err;
    return is_written ? 0 : -1;
}

static int write_format(const struct cmd_args *a, const struct prof_result *r, enum report_export format,
                        const char *root)
{
    const struct export_options o = {.value = a->value, .top = a->top, .root = root};
    const char *path = a->export_to[format];
    struct strbuf out = {0};
    str_puts(&out, "");
    report_export(r, format, &o, &out);
    if (is_stdout(path))
        return cmd_print(&out);
    int status = CMD_DONE;
    if (write_out(path, &out) < 0) {
        diag_error("export: cannot write %s: %s", path, strerror(errno));
        status = CMD_FAILED;
    }
    str_free(&out);
    return status;
}

int cmd_export(const struct cmd_args *a)
{
    struct prof_result *r;
    if (check_places(a) < 0 || store_read(a->rest[0], &r) < 0)
        return CMD_UNUSABLE;
    if (!r->object_count)
        diag_note("%s holds no loop or procedure: times come from mtool run", a->rest[0]);
    const char *root = file_real_path(a->arena, ".");
    int status = CMD_DONE;
    for (size_t i = 0; i < REPORT_EXPORT_COUNT && status == CMD_DONE; i++)
        if (a->export_to[i])
            status = write_format(a, r, (enum report_export)i, root);
    prof_result_free(r);
    return status;
}
