/* SPDX-License-Identifier: Apache-2.0
 * Scratch folder, commands and results for the launch tests. */
#include "help.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>

char help_dir[64];

static const char *from_env(const char *name)
{
    const char *v = getenv(name);
    if (!v)
        fail_msg("%s is not set; run the tests by meson", name);
    return v;
}

const char *help_victim(void) { return from_env("LAUNCH_VICTIM"); }
const char *help_driver(void) { return from_env("LAUNCH_DRIVER"); }
const char *help_library(void) { return from_env("LAUNCH_LIBRARY"); }

/* Shared files whose mtool is gone; other tests run at the same time, theirs are alive. */
static int count_left_over(void)
{
    int n = 0;
    DIR *d = opendir("/dev/shm");
    for (struct dirent *e; d && (e = readdir(d));) {
        int pid = strncmp(e->d_name, "mtool-", 6) ? 0 : atoi(e->d_name + 6);
        n += pid > 0 && pid < (1 << 22) && kill(pid, 0) < 0;
    }
    if (d)
        closedir(d);
    return n;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int help_setup(void **state)
{
    (void)state;
    strcpy(help_dir, "/tmp/mtool-launch-test-XXXXXX");
    assert_non_null(mkdtemp(help_dir));
    char *cache = help_path("cache");
    setenv("XDG_CACHE_HOME", cache, 1);
    free(cache);
    return 0;
}

int help_teardown(void **state)
{
    (void)state;
    nftw(help_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return count_left_over() > 0;
}

char *help_path(const char *name)
{
    size_t len = strlen(help_dir) + strlen(name) + 2;
    char *p = xmalloc(len);
    snprintf(p, len, "%s/%s", help_dir, name);
    return p;
}

void help_write(const char *path, const char *text, unsigned mode)
{
    assert_int_equal(file_write_whole(path, text, strlen(text), mode), 0);
}

char *help_read(const char *path)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        fail_msg("%s: cannot be read", path);
    char *s = xmalloc(f.len + 1);
    if (f.len)
        memcpy(s, f.data, f.len);
    file_unmap(&f);
    return s;
}

static void redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, to);
    close(fd);
}

struct help_run help_run(const char *const *argv, void (*before)(void))
{
    char *out = help_path("stdout"), *err = help_path("stderr");
    struct help_run r = {0};
    pid_t pid = fork();
    if (pid == 0) {
        union {
            const char *const *given;
            char *const *wanted;
        } a = {.given = argv};
        redirect(out, 1);
        redirect(err, 2);
        if (before)
            before();
        execvp(argv[0], a.wanted);
        _exit(120);
    }
    while (waitpid(pid, &r.status, 0) < 0)
        continue;
    r.out = help_read(out);
    r.err = help_read(err);
    free(out);
    free(err);
    return r;
}

void help_run_free(struct help_run *r)
{
    free(r->out);
    free(r->err);
}

double help_value(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *s = text; s; s = strchr(s, '\n')) {
        s += *s == '\n';
        if (!strncmp(s, name, len) && s[len] == ' ')
            return atof(s + len);
    }
    fail_msg("no line %s in: %s", name, text);
    return 0;
}
