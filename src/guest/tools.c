/* SPDX-License-Identifier: Apache-2.0
 * Programs of the machine that are run for what they print, and folders that are thrown away. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

const char *guest_find_program(struct arena *a, const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? name : NULL;
    for (path = path ? path : "/usr/bin:/bin"; *path; path += strspn(path, ":")) {
        size_t len = strcspn(path, ":");
        char *at = arena_printf(a, "%.*s/%s", (int)len, path, name);
        if (access(at, X_OK) == 0)
            return at;
        path += len;
    }
    return NULL;
}

static _Noreturn void become(const char *const *argv, const char *folder, int out, int err)
{
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(out, 1);
    dup2(err, 2);
    setenv("LC_ALL", "C", 1);
    if (!folder || chdir(folder) == 0)
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Both until their ends. */
static void gather(int out, struct strbuf *to, int err, struct strbuf *said)
{
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    struct strbuf *bufs[2] = {to, said};
    char buffer[4096];
    while ((fds[0].fd >= 0 || fds[1].fd >= 0) && (poll(fds, 2, -1) >= 0 || errno == EINTR))
        for (int i = 0; i < 2; i++) {
            ssize_t n = fds[i].fd >= 0 && fds[i].revents ? read(fds[i].fd, buffer, sizeof buffer) : -2;
            if (n > 0 && bufs[i])
                str_put(bufs[i], buffer, (size_t)n);
            if (n == 0 || n == -1)
                fds[i].fd = -1;
        }
}

static void keep_last_line(struct strbuf *text)
{
    char *state = NULL, *last = NULL;
    for (char *line = text->data ? strtok_r(text->data, "\n", &state) : NULL; line; line = strtok_r(NULL, "\n", &state))
        last = line;
    struct strbuf kept = {0};
    str_puts(&kept, last ? last : "");
    str_free(text);
    *text = kept;
}

int guest_run_tool(const char *const *argv, const char *folder, struct strbuf *out, struct strbuf *said)
{
    int outs[2], errs[2], status = -1;
    if (pipe2(outs, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
        return -1;
    pid_t child = fork();
    if (child == 0)
        become(argv, folder, outs[1], errs[1]);
    close(outs[1]);
    close(errs[1]);
    gather(outs[0], out, errs[0], said);
    close(outs[0]);
    close(errs[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (said)
        keep_last_line(said);
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void guest_remove_folder(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
