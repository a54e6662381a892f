/* SPDX-License-Identifier: Apache-2.0
 * A program's modules to their copies: those in the cache are taken, the others made in parallel, largest first. Each
 * is rewritten in a process of its own: a crash refuses one module, and its memory goes with it. For the launch without
 * a namespace a folder of links by soname leads to the copies of libraries. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/impl.h"

#define EXIT_REFUSED 1

/* ---- many, in parallel ---- */

struct job {
    size_t module;
    uint64_t size_bytes;
    pid_t pid;
    int fd; /* its stderr */
    struct strbuf text;
    struct rewrite_options
        opt; /* with the profile feedback that was there when it began: another mtool may bring one meanwhile */
};

static _Noreturn void work(const char *path, const struct rewrite_options *opt, int fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* mtool's own helper must not outlive it */
    if (getppid() != parent || dup2(fd, 2) < 0)
        _exit(1);
    struct arena *a = arena_new();
    _exit(copy_make(a, path, opt) == 0 ? 0 : EXIT_REFUSED);
}

static bool start_job(struct job *j, const char *path)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    pid_t parent = getpid();
    j->pid = fork();
    if (j->pid == 0)
        work(path, &j->opt, fds[1], parent);
    close(fds[1]);
    j->fd = fds[0];
    if (j->pid > 0)
        return true;
    close(fds[0]);
    return false;
}

/* The last line that the worker wrote, without our own prefix. */
static const char *reason_of(struct arena *a, struct job *j, int status)
{
    static const char prefix[] = "mtool: error: ";
    if (WIFSIGNALED(status))
        return arena_printf(a, "the rewriter itself was ended by signal %d (%s)", WTERMSIG(status),
                            strsignal(WTERMSIG(status)));
    while (j->text.len && j->text.data[j->text.len - 1] == '\n')
        j->text.data[--j->text.len] = 0;
    if (!j->text.len)
        return "it could not be rewritten";
    const char *nl = strrchr(j->text.data, '\n'), *line = nl ? nl + 1 : j->text.data;
    return arena_strdup(a, strncmp(line, prefix, sizeof prefix - 1) ? line : line + sizeof prefix - 1);
}

static void take_copy(struct launch_module *m, const struct copy *c)
{
    m->copy = c->file;
    m->map = c->map;
    m->refused = c->refused;
    m->counter_count = c->counter_count;
    m->owns_gs = c->owns_gs;
    m->wants_samples = c->wants_samples;
    memcpy(m->wire_key, c->wire_key, sizeof m->wire_key);
}

static void finish_job(struct launch_program *p, struct job *j)
{
    struct launch_module *m = &p->modules[j->module];
    struct copy c;
    int status = 0;
    while (waitpid(j->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(j->fd);
    j->pid = 0;
    if (status == 0 && copy_known(p->arena, m->path, &j->opt, &c))
        take_copy(m, &c);
    else
        m->refused = reason_of(p->arena, j, status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED)
        copy_remember_refusal(p->arena, m->path, &j->opt, m->refused);
    if (m->refused)
        diag_debug(1, "%s: not rewritten: %s", m->path, m->refused);
    str_free(&j->text);
}

/* Waits until one of the running jobs [0, n) has ended. */
static void wait_for_one(struct launch_program *p, struct job *jobs, size_t n)
{
    struct pollfd fds[CPU_SETSIZE];
    size_t which[CPU_SETSIZE], count = 0;
    for (size_t i = 0; i < n && count < CPU_SETSIZE; i++)
        if (jobs[i].pid) {
            which[count] = i;
            fds[count++] = (struct pollfd){.fd = jobs[i].fd, .events = POLLIN};
        }
    if (poll(fds, count, 200) <= 0)
        return;
    for (size_t k = 0; k < count; k++) {
        char buf[2048];
        ssize_t got = fds[k].revents ? read(fds[k].fd, buf, sizeof buf) : -1;
        if (got > 0)
            str_put(&jobs[which[k]].text, buf, (size_t)got);
        else if (got == 0)
            finish_job(p, &jobs[which[k]]);
    }
}

static size_t running_of(const struct job *jobs, size_t n, uint64_t *done_bytes)
{
    size_t running = 0;
    *done_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        running += jobs[i].pid != 0;
        *done_bytes += jobs[i].pid ? 0 : jobs[i].size_bytes;
    }
    return running;
}

/* The largest, since they begin in order of size. */
static const char *name_of_running(const struct launch_program *p, const struct job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (jobs[i].pid)
            return file_base_name(p->modules[jobs[i].module].path);
    return NULL;
}

static void run_jobs(struct launch_program *p, struct job *jobs, size_t n, const struct rewrite_options *opt,
                     size_t max)
{
    size_t started = 0;
    uint64_t all_bytes = 0, done_bytes;
    for (size_t i = 0; i < n; i++)
        all_bytes += jobs[i].size_bytes;
    for (;;) {
        size_t running = running_of(jobs, started, &done_bytes);
        diag_progress_of("rewriting", name_of_running(p, jobs, started), done_bytes, all_bytes);
        if (started < n && running < max) {
            jobs[started].opt = feedback_options(p, jobs[started].module, opt);
            heat_begin(p, jobs[started].module, &jobs[started].opt);
            if (!start_job(&jobs[started], p->modules[jobs[started].module].path)) {
                jobs[started].pid = 0;
                p->modules[jobs[started].module].refused = "no process could be started to rewrite it";
            }
            started++;
        } else if (running) {
            wait_for_one(p, jobs, started);
        } else {
            break;
        }
    }
    diag_progress_end();
}

static int by_size(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    return (x->size_bytes < y->size_bytes) - (x->size_bytes > y->size_bytes);
}

/* ---- the folder of libraries for launching without a namespace ---- */

const char *launch_path_mode_dir(const struct launch_program *p)
{
    struct strbuf s = {0};
    char hash[33];
    for (size_t i = 0; i < p->module_count; i++) {
        const struct launch_module *m = &p->modules[i];
        struct stat st = {0};
        if (m->found_at_run_time)
            continue;
        stat(m->path, &st);
        str_printf(&s, "%s|%s|%lld|%lld.%09ld\n", m->path, m->soname ? m->soname : "", (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    }
    file_hash_hex(s.data, s.len, hash);
    str_free(&s);
    return arena_printf(p->arena, "%s/paths/%s", file_cache_dir(p->arena), hash);
}

/* The name that a library is asked for by: of one opened at run time only its own is known. */
static const char *link_name(const struct launch_program *p, const struct launch_module *m)
{
    struct identity id;
    const char *name = m->soname;
    if (m->found_at_run_time && identity_known(p->arena, m->path, &id) && id.soname)
        name = id.soname;
    return m->is_exe || !name || strchr(name, '/') ? NULL : name;
}

static int link_libraries(const struct launch_program *p, const char *dir)
{
    if (file_make_dirs(dir, 0700) < 0)
        return diag_error("%s: cannot be made: %s; set XDG_CACHE_HOME to a folder that can be written", dir,
                          strerror(errno));
    for (size_t i = 0; i < p->module_count; i++) {
        const struct launch_module *m = &p->modules[i];
        const char *name = link_name(p, m);
        if (!name)
            continue;
        const char *link = arena_printf(p->arena, "%s/%s", dir, name);
        const char *tmp = arena_printf(p->arena, "%s/.%d-%zu", dir, (int)getpid(), i);
        if (!m->copy)
            unlink(link);
        else if (symlink(m->copy, tmp) < 0 || rename(tmp, link) < 0)
            return diag_error("%s: cannot be made: %s; free some space or set XDG_CACHE_HOME", link, strerror(errno));
    }
    utimensat(AT_FDCWD, dir, NULL, 0);
    return 0;
}

/* ---- all of a program ---- */

static int check_cache(struct arena *a)
{
    const char *dir = copies_dir(a);
    struct statvfs v;
    if (file_make_dirs(dir, 0700) < 0 || access(dir, W_OK | X_OK) < 0)
        return diag_error("%s: cannot be written: %s; set XDG_CACHE_HOME to a folder that can", dir, strerror(errno));
    if (statvfs(dir, &v) == 0 && (v.f_flag & ST_NOEXEC))
        return diag_error("%s: programs cannot be executed from there (mounted noexec); set XDG_CACHE_HOME to another "
                          "file system",
                          dir);
    return 0;
}

bool copies_take_known(struct launch_program *p, size_t i, const struct rewrite_options *opt)
{
    struct launch_module *m = &p->modules[i];
    struct rewrite_options own = feedback_options(p, i, opt);
    struct copy c = {0};
    bool known = true;
    if (m->is_interp)
        c.refused = "the loader itself stays original";
    else if (m->other_program)
        c.refused = p->counts_executed ? "opened at run time by a program that it executes, or of one that is refused"
                                       : "belongs to another program";
    else if (opt->plan == REWRITE_PROBE && !opt->threads && !m->probed)
        c.refused = NULL; /* nothing in it is probed: it runs as it is */
    else if (opt->threads && p->is_static && !m->is_exe)
        c.refused = "opened by a static program that makes threads";
    else
        known = copy_known(p->arena, m->path, &own, &c);
    if (!known)
        c = (struct copy){0};
    take_copy(m, &c);
    return known;
}

int copies_make_by(struct launch_program *p, const struct rewrite_options *opt, size_t module_count, size_t max)
{
    if (check_cache(p->arena) < 0)
        return -1;
    struct job *jobs = ARENA_ARRAY(p->arena, struct job, module_count);
    size_t n = 0;
    for (size_t i = 0; i < module_count; i++) {
        struct stat st = {0};
        if (copies_take_known(p, i, opt))
            continue;
        stat(p->modules[i].path, &st);
        jobs[n++] = (struct job){.module = i, .size_bytes = (uint64_t)st.st_size};
    }
    if (!n)
        return 0;
    qsort(jobs, n, sizeof *jobs, by_size);
    struct sigaction before = signals_keep_children();
    run_jobs(p, jobs, n, opt, max);
    signals_unkeep_children(&before);
    copies_evict();
    return 0;
}

int copies_make(struct launch_program *p, const struct rewrite_options *opt, size_t module_count)
{
    cpu_set_t cpus;
    size_t max = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;
    return copies_make_by(p, opt, module_count, max);
}

static bool some_own_gs(const struct launch_program *p)
{
    for (size_t i = 0; i < p->module_count; i++)
        if (p->modules[i].copy && p->modules[i].owns_gs)
            return true;
    return false;
}

int launch_copies_make(struct launch_program *p, const struct rewrite_options *opt)
{
    int rc = copies_make(p, opt, p->module_count);
    copies_ahead_end(p);
    if (rc < 0)
        return -1;
    p->counts_by_thread = opt->threads && !some_own_gs(p);
    if (opt->threads && !p->counts_by_thread) {
        struct rewrite_options without = *opt;
        without.threads = false;
        if (copies_make(p, &without, p->module_count) < 0)
            return -1;
    }
    p->copied_with = *opt;
    p->copied_with.threads = p->counts_by_thread;
    if (!opt->rpath)
        return 0;
    return link_libraries(p, opt->rpath);
}
