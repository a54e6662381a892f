/* SPDX-License-Identifier: Apache-2.0
 * Standard output of the commands: all of it at once, a broken pipe ends quietly, a full disk is reported. */
#include "cmd/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int cmd_print(struct strbuf *out)
{
    size_t done = 0;
    while (done < out->len) {
        ssize_t n = write(STDOUT_FILENO, out->data + done, out->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPIPE) /* SIGPIPE is ignored by whoever started us: the reader has seen enough */
            _exit(CMD_DONE);
        if (n <= 0) {
            str_free(out);
            diag_error("cannot write to standard output: %s", strerror(errno));
            return CMD_FAILED;
        }
        done += (size_t)n;
    }
    str_free(out);
    return CMD_DONE;
}

static unsigned sane_columns(unsigned long n) { return n < 40 ? 40 : n > 1000 ? 1000 : (unsigned)n; }

unsigned cmd_columns(const struct cmd_args *a, int fd)
{
    struct winsize w = {0};
    if (a->columns)
        return sane_columns(a->columns);
    if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return sane_columns(w.ws_col);
    const char *env = getenv("COLUMNS");
    unsigned long n = env ? strtoul(env, NULL, 10) : 0;
    return n ? sane_columns(n) : 80;
}

bool cmd_has_colour(int fd)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return isatty(fd) && term && strcmp(term, "dumb") != 0 && !(no && *no);
}
