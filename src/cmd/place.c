/* SPDX-License-Identifier: Apache-2.0
 * Files that a command writes for the user: nothing that exists is replaced unasked, the profile that is read never, a
 * device or a pipe is written where it is; "-" is standard output. */
#include "cmd/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdout(const char *path) { return strcmp(path, "-") == 0; }

static int refuse_existing(const char *command, const char *path, bool force)
{
    return force ? 0
                 : diag_error("%s: %s exists already; choose another name, or --force to replace it", command, path);
}

/* Noticed before the work is done whose result it shall hold. Permissions tell less than trying: root has all of them
 * everywhere, and /proc takes no file. */
static int check_writable(const char *command, const char *path)
{
    char *temporary = file_write_temporary(path, "", 0, 0600, true);
    if (!temporary)
        return diag_error("%s: cannot write %s: %s; choose another place", command, path, strerror(errno));
    unlink(temporary);
    free(temporary);
    return 0;
}

/* A device or a pipe, of which nothing is lost; opening one might wait for its reader. */
static int check_device(const char *command, const char *path, const struct stat *st)
{
    if (S_ISSOCK(st->st_mode))
        return diag_error("%s: cannot write to '%s': that is a socket", command, path);
    if (access(path, W_OK) < 0)
        return diag_error("%s: cannot write %s: %s; choose another place", command, path, strerror(errno));
    return 0;
}

int cmd_place_check(const char *command, const char *path, const char *profile, bool force)
{
    struct stat st, own;
    if (is_stdout(path))
        return 0;
    if (!path[0] || path[strlen(path) - 1] == '/')
        return diag_error("%s: cannot write to '%s': that is no file name", command, path);
    if (lstat(path, &st) < 0)
        return check_writable(command, path);
    if (stat(path, &st) < 0)
        return refuse_existing(command, path, force) < 0 ? -1 : check_writable(command, path);
    if (S_ISDIR(st.st_mode))
        return diag_error("%s: cannot write to '%s': that is a folder", command, path);
    if (!S_ISREG(st.st_mode))
        return check_device(command, path, &st);
    if (stat(profile, &own) == 0 && own.st_dev == st.st_dev && own.st_ino == st.st_ino)
        return diag_error("%s: %s is the profile itself; choose another name", command, path);
    return refuse_existing(command, path, force) < 0 ? -1 : check_writable(command, path);
}

static unsigned mode_of_new_files(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* -1 with errno. */
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

int cmd_place_write(const char *command, const char *path, struct strbuf *text)
{
    if (is_stdout(path))
        return cmd_print(text);
    int rc = CMD_DONE;
    if (write_out(path, text) < 0) {
        rc = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EROFS ? CMD_UNUSABLE : CMD_FAILED;
        diag_error("%s: cannot write %s: %s", command, path, strerror(errno));
    }
    str_free(text);
    return rc;
}
