/* SPDX-License-Identifier: Apache-2.0
 * An executable to the shared objects that it will load: those that its own loader lists (so that every rule of the
 * loader holds, also LD_LIBRARY_PATH and LD_PRELOAD), and those that earlier runs were seen to open by dlopen. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/impl.h"

#define LIST_SECONDS_MAX 20
#define REMEMBERED_MAX 500

struct launch_module *module_find(const struct launch_program *p, const char *path)
{
    for (size_t i = 0; i < p->module_count; i++) {
        struct launch_module *m = &p->modules[i];
        if (!strcmp(m->path, path) || (m->copy && !strcmp(m->copy, path)))
            return m;
    }
    return NULL;
}

struct launch_module *module_add(struct launch_program *p, const char *path, const char *soname)
{
    struct launch_module *m = module_find(p, path);
    if (m)
        return m;
    vec_reserve((void **)&p->modules, &p->module_cap, p->module_count + 1, sizeof *p->modules);
    m = &p->modules[p->module_count++];
    *m = (struct launch_module){.path = arena_strdup(p->arena, path)};
    if (soname)
        m->soname = arena_strdup(p->arena, soname);
    return m;
}

/* ---- the loader's list ---- */

/* Reads until the end of both pipes, or the limit of time. */
static int read_both(int out_fd, int err_fd, struct strbuf *out, struct strbuf *err)
{
    struct pollfd fds[2] = {{.fd = out_fd, .events = POLLIN}, {.fd = err_fd, .events = POLLIN}};
    struct strbuf *bufs[2] = {out, err};
    double end = time_now_s() + LIST_SECONDS_MAX;
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int n = poll(fds, 2, (int)((end - time_now_s()) * 1000) + 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        for (int i = 0; i < 2; i++) {
            char buf[4096];
            if (!fds[i].revents)
                continue;
            ssize_t got = read(fds[i].fd, buf, sizeof buf);
            if (got > 0)
                str_put(bufs[i], buf, (size_t)got);
            else
                fds[i].fd = -1;
        }
    }
    return 0;
}

static void run_loader(const char *interp, const char *path, int out_fd, int err_fd)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    limits_restore(0);
    if (dup2(null_fd, 0) >= 0 && dup2(out_fd, 1) >= 0 && dup2(err_fd, 2) >= 0)
        execl(interp, interp, "--list", path, (char *)NULL);
    _exit(127);
}

/* Exit status of `INTERP --list PATH`, or -1 if it could not be run or hung. */
static int ask_loader(const char *interp, const char *path, struct strbuf *out, struct strbuf *err)
{
    int o[2], e[2], status = -1;
    if (pipe2(o, O_CLOEXEC) < 0)
        return -1;
    if (pipe2(e, O_CLOEXEC) < 0) {
        close(o[0]);
        close(o[1]);
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        run_loader(interp, path, o[1], e[1]);
    close(o[1]);
    close(e[1]);
    if (pid > 0) {
        bool hung = read_both(o[0], e[0], out, err) < 0;
        if (hung)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        status = hung ? -1 : status;
    }
    close(o[0]);
    close(e[0]);
    return status;
}

/* "\tNAME => PATH (0x...)", "\tPATH (0x...)", "\tNAME => not found", "\tlinux-vdso.so.1 (0x...)" */
static int take_line(struct launch_program *p, char *line, const char *interp_real)
{
    line += strspn(line, " \t");
    char *arrow = strstr(line, " => "), *file = arrow ? arrow + 4 : line, *end = file, *next;
    if (arrow)
        *arrow = 0;
    if (arrow && !strcmp(file, "not found"))
        return diag_error("%s: needs %s, which its loader does not find; install it or set LD_LIBRARY_PATH", p->path,
                          line);
    while ((next = strstr(end + 1, " (0x")))
        end = next;
    if (*file != '/' || end == file)
        return 0;
    *end = 0;
    const char *real = file_real_path(p->arena, file);
    if (!real)
        return 0;
    struct launch_module *m = module_add(p, real, line);
    m->is_interp = interp_real && !strcmp(real, interp_real);
    return 0;
}

/* What the loader complains of: its last line, without the program's name. */
static const char *complaint(struct strbuf *s)
{
    static const char lead[] = "error while loading shared libraries: ";
    while (s->len && s->data[s->len - 1] == '\n')
        s->data[--s->len] = 0;
    if (!s->len)
        return "no reason given";
    const char *nl = strrchr(s->data, '\n'), *line = nl ? nl + 1 : s->data, *after = strstr(line, lead);
    return after ? after + sizeof lead - 1 : line;
}

static int list_needed(struct launch_program *p, const char *interp)
{
    struct strbuf out = {0}, err = {0};
    struct sigaction before = signals_keep_children();
    int status = ask_loader(interp, p->path, &out, &err), rc = 0;
    signals_unkeep_children(&before);
    const char *interp_real = file_real_path(p->arena, interp);
    char *at = NULL;
    for (char *s = out.len ? strtok_r(out.data, "\n", &at) : NULL; s && rc == 0; s = strtok_r(NULL, "\n", &at))
        rc = take_line(p, s, interp_real);
    if (rc == 0 && status != 0)
        rc = diag_error("%s: its loader %s cannot load it: %s", p->path, interp,
                        status == -1 ? "it could not be started or hung" : complaint(&err));
    str_free(&out);
    str_free(&err);
    return rc;
}

/* ---- modules remembered from runs ---- */

static const char *remembered_path(const struct launch_program *p)
{
    return arena_printf(p->arena, "%s/modules/%s", file_cache_dir(p->arena), p->key);
}

static void recall(struct launch_program *p)
{
    char *lines = record_read(p->arena, remembered_path(p)), *at = NULL;
    p->made_threads = lines && record_get_u64(lines, "threads");
    for (char *s = lines ? strtok_r(lines, "\n", &at) : NULL; s; s = strtok_r(NULL, "\n", &at)) {
        const char *path = strncmp(s, "module ", 7) ? NULL : s + 7;
        if (!path || module_find(p, path) || access(path, R_OK) < 0)
            continue;
        module_add(p, path, file_base_name(path))->found_at_run_time = true;
    }
}

int launch_remember_modules(const struct launch_program *p)
{
    struct strbuf s = {0};
    size_t n = 0;
    if (p->made_threads) {
        str_puts(&s, "threads 1\n");
        n++;
    }
    for (size_t i = 0; i < p->module_count && n < REMEMBERED_MAX; i++) {
        const struct launch_module *m = &p->modules[i];
        if (!m->found_at_run_time || m->other_program || strchr(m->path, '\n'))
            continue;
        str_printf(&s, "module %s\n", m->path);
        n++;
    }
    const char *path = remembered_path(p);
    int rc = 0;
    if (n && (file_make_dirs(arena_printf(p->arena, "%s/modules", file_cache_dir(p->arena)), 0700) < 0 ||
              record_write(path, &s) < 0))
        rc = diag_error("%s: cannot be written: %s; set XDG_CACHE_HOME to a folder that can", path, strerror(errno));
    str_free(&s);
    return rc;
}

/* Libraries that ask for such a function only to hand it on. */
static bool hands_on(const char *soname)
{
    static const char *const names[] = {"libc.so.6", "libpthread.so.0", "libstdc++.so.6"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (soname && !strcmp(soname, names[i]))
            return true;
    return false;
}

bool launch_may_make_threads(const struct launch_program *p)
{
    struct identity id;
    bool makes = p->made_threads, is_glibc = p->is_static, owns_layout = false;
    for (size_t i = 0; i < p->module_count; i++) {
        const struct launch_module *m = &p->modules[i];
        is_glibc |= m->is_interp && !strncmp(file_base_name(m->path), "ld-linux", 8); /* others know no IRELATIVE */
        if (m->is_interp || m->other_program || hands_on(m->soname) || identity_read(p->arena, m->path, &id) < 0)
            continue;
        makes |= id.makes_threads;
        owns_layout |= id.owns_layout;
    }
    return makes && is_glibc && !owns_layout; /* else threads take turns */
}

int libraries_list(struct launch_program *p, const char *interp)
{
    if (interp && list_needed(p, interp) < 0)
        return -1;
    recall(p);
    return 0;
}
