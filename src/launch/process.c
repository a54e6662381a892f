/* SPDX-License-Identifier: Apache-2.0
 * One start of the program and its end: fork, wait until the samplers are attached, enter the launch mode, execute with
 * the signal state that mtool was given, and watch until it ends. What fails before the program runs comes back through
 * a pipe that closes by itself on exec. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

#define LOOK_MS 100     /* how often rings are emptied and /proc is read */
#define LOOK_FIRST_MS 2 /* at first more often, growing: a short program is to be seen at all */

struct news {                /* from the child, before exec and if that fails */
    double user_s, system_s; /* used before the program began */
    long faults_minor, faults_major, switches_waited, switches_preempted;
    struct mode_fail fail;
    bool failed;
};
struct running {
    const struct start *start;
    struct signals signals;
    pid_t pid;
    int go_fd, news_fd, follow_fd /* until the listener came through it; -1 none */;
    struct strbuf news;
    bool has_executed; /* or failed to: the news pipe is closed */
    struct spaces *spaces;
    struct sampler *sampler;
    struct tasks *tasks; /* NULL: threads are not looked at */
    unsigned random;
    int pause_ms;  /* between two looks at rings and mappings */
    double look_s; /* when the next is due */
    double began_s;
    long peak_rss_kb;
    struct rusage usage;
};

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* ---- the child ---- */

static _Noreturn void child_fail(int fd, struct news *n, int err)
{
    n->failed = true;
    if (err)
        n->fail = (struct mode_fail){err, -1, -1};
    if (write(fd, n, sizeof *n) < 0)
        _exit(126);
    _exit(127);
}

/* The environment with more at its end, each twice (see rt_take_env); the strings stay where they are. */
static char **env_with(const char *const *extra, size_t count)
{
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = xmalloc((n + 2 * count + 1) * sizeof *env);
    memcpy(env, environ, n * sizeof *env);
    for (size_t i = 0; i < count; i++) {
        union {
            const char *given;
            char *wanted;
        } more = {.given = extra[i]};
        if (extra[i]) {
            env[n] = env[n + 1] = more.wanted;
            n += 2;
        }
    }
    env[n] = NULL;
    return env;
}

static void mute(void)
{
    int null = open("/dev/null", O_WRONLY);
    if (null < 0)
        return;
    dup2(null, 1);
    dup2(null, 2);
    if (null > 2)
        close(null);
}

/* Takes the pipes and what start says to the program. */
static _Noreturn void child(const struct running *r, int go_fd, int news_fd, int follow_fd, char **env)
{
    const struct start *s = r->start;
    struct news n = {0};
    char go;
    ssize_t got;
    while ((got = read(go_fd, &go, 1)) < 0 && errno == EINTR)
        continue;
    if (got != 1)
        _exit(127); /* mtool gave up */
    if (s->bind_count && mode_enter(s->mode, s->binds, s->bind_count, &n.fail) < 0)
        child_fail(news_fd, &n, 0);
    if (s->follow)
        follow_install(follow_fd);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    n.user_s = seconds(u.ru_utime);
    n.system_s = seconds(u.ru_stime);
    n.faults_minor = u.ru_minflt;
    n.faults_major = u.ru_majflt;
    n.switches_waited = u.ru_nvcsw;
    n.switches_preempted = u.ru_nivcsw;
    if (write(news_fd, &n, sizeof n) < 0)
        _exit(127);
    if (s->mute)
        mute();
    union {
        const char *const *given;
        char *const *wanted;
    } argv = {.given = s->argv};
    if (s->maps_upwards) {
        int now = personality(0xffffffff);
        if (now >= 0)
            personality((unsigned long)now | ADDR_COMPAT_LAYOUT); /* without it threads take turns */
    }
    signals_restore(&r->signals);
    limits_restore(s->more_bytes);
    execve(s->path, argv.wanted, env);
    child_fail(news_fd, &n, errno);
}

/* ---- the start ---- */

static int start_child(struct running *r)
{
    int go[2], news[2], follow[2] = {-1, -1};
    if (pipe2(go, O_CLOEXEC) < 0)
        return diag_error("cannot make a pipe: %s; close other programs and try again", strerror(errno));
    if (pipe2(news, O_CLOEXEC) < 0) {
        close(go[0]);
        close(go[1]);
        return diag_error("cannot make a pipe: %s; close other programs and try again", strerror(errno));
    }
    if (r->start->follow && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, follow) < 0)
        return diag_error("cannot make a socket: %s; close other programs and try again", strerror(errno));
    char **env = env_with(r->start->env_extra, ARRAY_LEN(r->start->env_extra));
    r->pid = fork();
    if (r->pid == 0) {
        close(go[1]);
        child(r, go[0], news[1], follow[1], env);
    }
    int err = errno;
    free(env);
    close(go[0]);
    close(news[1]);
    if (follow[1] >= 0)
        close(follow[1]);
    r->follow_fd = follow[0];
    r->go_fd = go[1];
    r->news_fd = news[0];
    fcntl(news[0], F_SETFL, O_NONBLOCK);
    if (r->pid > 0)
        return 0;
    close(r->go_fd);
    close(r->news_fd);
    return diag_error("cannot start a process: %s; end others or raise the limit (ulimit -u)", strerror(err));
}

static void attach(struct running *r)
{
    const struct start *s = r->start;
    if (s->references && s->references->started)
        s->references->started(s->references->ctx, r->pid);
    if (s->references_pid)
        atomic_store(s->references_pid, r->pid);
    if (s->watcher)
        s->watcher->started(s->watcher->ctx, r->pid);
    if (s->watch == WATCH_NOTHING)
        return;
    r->spaces = spaces_new(s->p, r->pid);
    if (s->threads) {
        r->tasks = tasks_new();
        threads_watch(s->threads, s->p, r->spaces);
        tasks_look_before(r->pid, s->threads);
    }
    if (s->watch == WATCH_MAPS_BY_PROC)
        return;
    r->sampler = sampler_open(r->pid, r->spaces, s->threads, s->watch == WATCH_SAMPLES ? SAMPLER_SAMPLES : SAMPLER_MAPS,
                              s->hertz);
    if (r->sampler && s->snapshots)
        sampler_exclude(r->sampler, s->snapshots);
}

/* ---- while it runs ---- */

static void read_news(struct running *r)
{
    char buf[sizeof(struct news)];
    ssize_t n;
    while ((n = read(r->news_fd, buf, sizeof buf)) > 0)
        str_put(&r->news, buf, (size_t)n);
    if (n < 0 || r->has_executed)
        return;
    r->has_executed = true;
    diag_debug(1, "the program began after %.4f s", time_since_start_s());
    if (r->spaces && !r->sampler)
        spaces_exec(r->spaces, (uint32_t)r->pid);
    if (r->tasks && !r->sampler)
        threads_exec(r->start->threads, (uint32_t)r->pid, time_now_ns());
}

/* Rings of threads are emptied each time: much is written to them. */
static void look_at_threads(struct running *r)
{
    if (!r->has_executed || !r->tasks)
        return;
    if (r->sampler)
        sampler_drain(r->sampler, false);
    tasks_look(r->tasks, r->pid, r->start->threads, !r->sampler);
}

static void look(struct running *r)
{
    if (!r->has_executed || time_now_s() < r->look_s)
        return;
    r->pause_ms = r->pause_ms < LOOK_MS / 2 ? r->pause_ms * 2 : LOOK_MS;
    r->look_s = time_now_s() + 1e-3 * r->pause_ms;
    long peak = procfs_peak_rss_kb(r->pid);
    if (peak)
        r->peak_rss_kb = peak;
    if (r->sampler)
        sampler_drain(r->sampler, false);
    else if (r->spaces)
        procfs_look(r->pid, r->spaces);
}

/* Looks at threads come often, and not in step with what these do. */
static int pause_of(struct running *r)
{
    r->random = r->random * 1103515245u + 12345u;
    return r->tasks ? TASKS_LOOK_MS - 1 + (int)(r->random >> 16) % 3 : r->pause_ms;
}

/* True when it has ended, with *status and r->usage. */
static bool reap(struct running *r, int *status)
{
    pid_t got;
    while ((got = wait4(r->pid, status, WNOHANG | WUNTRACED, &r->usage)) == r->pid && WIFSTOPPED(*status))
        signals_stop_like(&r->signals, r->pid, WSTOPSIG(*status));
    return got == r->pid || (got < 0 && errno == ECHILD);
}

/* The first message brings the listener, all others come through it. */
static void follow(struct running *r)
{
    if (r->follow_fd >= 0) {
        if (follow_begin(r->start->follow, r->follow_fd, r->pid, r->start->mode) < 0)
            diag_debug(1, "no listener came from the program's process");
        close(r->follow_fd);
        r->follow_fd = -1;
    }
    if (r->start->follow)
        follow_take(r->start->follow);
}

static int wait_for_end(struct running *r)
{
    int status = 0;
    r->pause_ms = r->spaces && !r->sampler ? LOOK_FIRST_MS : LOOK_MS;
    while (!reap(r, &status)) {
        struct pollfd fds[3] = {
            {.fd = r->signals.fd, .events = POLLIN},
            {.fd = r->has_executed ? -1 : r->news_fd, .events = POLLIN},
            {.fd = r->follow_fd >= 0 ? r->follow_fd : follow_fd(r->start->follow), .events = POLLIN}};
        poll(fds, 3, pause_of(r));
        if (fds[1].revents)
            read_news(r);
        if (fds[2].revents)
            follow(r);
        signals_take(&r->signals, r->pid, false);
        look_at_threads(r);
        look(r);
        if (r->start->mute)
            diag_progress(r->start->mute, 0, 0);
    }
    if (r->start->mute)
        diag_progress_end();
    read_news(r);
    diag_debug(1, "it ended after %.4f s", time_since_start_s());
    if (r->sampler)
        sampler_drain(r->sampler, true);
    return status;
}

/* ---- the result ---- */

static void fill_times(const struct running *r, const struct news *n, struct launch_result *out)
{
    double user = seconds(r->usage.ru_utime) - n->user_s, sys = seconds(r->usage.ru_stime) - n->system_s;
    out->user_s = user > 0 ? user : 0;
    out->system_s = sys > 0 ? sys : 0;
    out->before_s = n->user_s + n->system_s;
    out->wall_s = time_now_s() - r->began_s;
    struct rusage own;
    getrusage(RUSAGE_SELF, &own); /* the kernel lets a child inherit its parent's peak */
    out->max_rss_kb = r->usage.ru_maxrss > own.ru_maxrss ? r->usage.ru_maxrss : r->peak_rss_kb;
}

static int by_place(const void *a, const void *b)
{
    const struct observed_sample *x = a, *y = b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

void process_fill_samples(const struct map *places, struct launch_result *out)
{
    out->samples = ARENA_ARRAY(out->arena, struct observed_sample, places->len);
    for (size_t i = 0; i < places->cap; i++) {
        if (!places->used[i])
            continue;
        uint32_t module = (uint32_t)(places->keys[i] >> 48);
        out->samples[out->sample_count++] = (struct observed_sample){
            module ? module - 1 : ID_NONE, places->keys[i] & ((1ull << 48) - 1), places->vals[i]};
    }
    if (out->sample_count)
        qsort(out->samples, out->sample_count, sizeof *out->samples, by_place);
}

/* What only lags behind its parent's end is given a moment. Who then works in a session of its own is a daemon, also if
 * it has soon done its work; but another program there may be a helper that ends with the one that it helps, once it
 * notices (the orted of a program of Open MPI that no mpirun started, after a tenth of a second). */
static void look_left_behind(const struct spaces *s, struct launch_result *out)
{
    enum { LAG_MS = 10, MOMENT_MS = 100, HELPER_MS = 3000 };
    double end_s = time_now_s();
    for (;;) {
        double after_ms = 1e3 * (time_now_s() - end_s);
        struct spaces_left left = spaces_left(s);
        out->in_background = left.pid;
        out->is_daemon = left.has_own_session && after_ms >= (left.is_other ? HELPER_MS : LAG_MS);
        if (!left.pid || out->is_daemon || (!left.has_own_session && after_ms >= MOMENT_MS))
            return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void fill_watched(const struct running *r, struct launch_result *out)
{
    if (r->spaces) {
        look_left_behind(r->spaces, out);
        out->processes = spaces_processes(r->spaces);
        out->threads_max = spaces_threads_max(r->spaces);
        out->threads_seen = spaces_threads_seen(r->spaces);
        if (spaces_executed(r->spaces))
            out->executed = arena_strdup(out->arena, spaces_executed(r->spaces));
    }
    if (r->start->watch != WATCH_SAMPLES || !r->sampler)
        return;
    struct sampler_counts c = sampler_result(r->sampler);
    out->sampler = LAUNCH_SAMPLER_PERF;
    out->samples_all = c.all;
    out->samples_user = c.user;
    out->samples_lost = c.lost;
    out->samples_user_only = c.user_only;
    out->sample_period_s = c.period_s;
    process_fill_samples(sampler_places(r->sampler), out);
}

static int report_failure(const struct start *s, const struct mode_fail *f)
{
    const char *why = strerror(f->err);
    if (f->step < 0 && f->err == ENOEXEC)
        return diag_error("%s: the kernel cannot execute it; check that the file is whole", s->path);
    if (f->step < 0)
        return diag_error("%s: cannot be executed: %s", s->path, why);
    return diag_error("%s: cannot %s: %s; set MTOOL_LAUNCH=path to do without a namespace",
                      f->bind >= 0 ? s->binds[f->bind].over : s->path, mode_step_text(f->step), why);
}

/* The last record tells: none if a signal ended the child before it came so far. */
static int take_news(const struct running *r, struct news *n)
{
    memset(n, 0, sizeof *n);
    size_t count = r->news.len / sizeof *n;
    if (count)
        memcpy(n, r->news.data + (count - 1) * sizeof *n, sizeof *n);
    return n->failed ? report_failure(r->start, &n->fail) : 0;
}

static void release(struct running *r)
{
    sampler_close(r->sampler);
    tasks_free(r->tasks);
    if (r->start->keep_spaces)
        *r->start->keep_spaces = r->spaces;
    else
        spaces_free(r->spaces);
    str_free(&r->news);
    close(r->news_fd);
}

static struct timeval less(struct timeval t, double s)
{
    double rest = seconds(t) - s;
    rest = rest > 0 ? rest : 0;
    return (struct timeval){(time_t)rest, (suseconds_t)(1e6 * (rest - floor(rest)))};
}

/* Without what its process used before it executed the program. */
static void tell_end(const struct running *r, const struct news *n)
{
    struct rusage u = r->usage;
    u.ru_utime = less(u.ru_utime, n->user_s);
    u.ru_stime = less(u.ru_stime, n->system_s);
    u.ru_minflt -= n->faults_minor;
    u.ru_majflt -= n->faults_major;
    u.ru_nvcsw -= n->switches_waited;
    u.ru_nivcsw -= n->switches_preempted;
    r->start->watcher->ended(r->start->watcher->ctx, &u);
}

int process_run(const struct start *s, struct launch_result *out)
{
    struct running r = {.start = s};
    struct news n;
    if (signals_begin(&r.signals) < 0)
        return -1;
    if (start_child(&r) < 0) {
        signals_end(&r.signals);
        return -1;
    }
    signals_watch_group(&r.signals); /* after the program, so that this is mtool's first child */
    attach(&r);
    r.began_s = time_now_s();
    if (write(r.go_fd, "g", 1) < 0)
        diag_debug(1, "the child ended before it was started");
    close(r.go_fd);
    out->status = wait_for_end(&r);
    signals_take(&r.signals, r.pid, true);
    out->got_end_signal = r.signals.got_end_signal;
    uint64_t end_ns = time_now_ns();
    int rc = take_news(&r, &n);
    if (s->watcher)
        tell_end(&r, &n);
    if (rc == 0) {
        fill_times(&r, &n, out);
        fill_watched(&r, out);
        if (s->threads)
            threads_close(s->threads, end_ns);
    }
    signals_end(&r.signals);
    release(&r);
    return rc;
}
