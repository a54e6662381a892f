/* SPDX-License-Identifier: Apache-2.0
 * A program and a wish (plain, counted, sampled) to one run with its result. How a process is started and watched is in
 * process.c; this file chooses what to start it with and reads what it left behind. */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/impl.h"

const char *const launch_sampler_text[] = {
    [LAUNCH_SAMPLER_NONE] = "none",
    [LAUNCH_SAMPLER_PERF] = "perf_event software clock",
    [LAUNCH_SAMPLER_TIMER] = "processor-time timer inside the program",
};

static const char *const how_text[] = {
    [LAUNCH_PLAIN] = "running the program as it is",     [LAUNCH_COUNT] = "running the program counted",
    [LAUNCH_SAMPLED] = "running the program sampled",    [LAUNCH_BURSTS] = "taking windows of the program",
    [LAUNCH_PROBED] = "running the program with probes", [LAUNCH_REFERENCES] = "following the program's references",
};

/* What a terminal is told meanwhile; NULL: nothing, it is the program's. */
static const char *progress_of(const struct launch_options *opt)
{
    return !opt->mute ? NULL : opt->progress ? opt->progress : how_text[opt->how];
}

static struct start start_original(struct launch_program *p, const struct launch_options *opt)
{
    return (struct start){
        .p = p, .path = p->exec_path, .argv = p->argv, .watch = WATCH_NOTHING, .mute = progress_of(opt)};
}

static int run_plain(struct launch_program *p, const struct launch_options *opt, struct launch_result *r)
{
    struct start s = start_original(p, opt);
    return process_run(&s, r);
}

/* Without any sampler the run still gives its times. */
static int run_sampled(struct launch_program *p, const struct launch_options *opt, struct launch_result *r)
{
    struct start s = start_original(p, opt);
    bool ran = false;
    s.threads = threads_new(true);
    int rc = 0;
    if (!opt->force_timer && sampler_is_allowed(SAMPLER_SAMPLES)) {
        s.watch = WATCH_SAMPLES;
        s.hertz = opt->sample_hz;
    } else {
        rc = timer_run(p, opt->sample_hz, &s, r, &ran);
        s.watch = WATCH_MAPS_BY_PROC;
    }
    if (!ran && rc == 0)
        rc = process_run(&s, r);
    if (rc == 0)
        threads_fill(s.threads, r);
    threads_free(s.threads);
    return rc;
}

/* Binds for every module with a copy, and for the counter file where executed programs look; in p's arena. */
static void bind_copies(struct launch_program *p, struct start *s, const char *counter_file)
{
    struct bind *binds = ARENA_ARRAY(p->arena, struct bind, p->module_count + 1);
    if (counter_file)
        binds[s->bind_count++] = (struct bind){arena_strdup(p->arena, counter_file), WIRE_FOLLOW_PATH};
    for (size_t i = 0; i < p->module_count; i++)
        if (p->modules[i].copy)
            binds[s->bind_count++] = (struct bind){p->modules[i].copy, p->modules[i].path};
    s->binds = binds;
}

/* Samples by the program's own copy, where perf_event is refused. */
struct own_timer {
    struct scratch file;
    struct wire_samples *samples; /* NULL: none are wanted */
    size_t bytes;
    struct spaces *spaces;
    char env[sizeof((struct scratch *)0)->path + sizeof WIRE_SAMPLES_ENV + 1];
};

static void begin_timer(struct own_timer *t, struct start *s)
{
    t->samples = timer_open(&t->file, s->hertz, &t->bytes);
    if (!t->samples)
        return;
    snprintf(t->env, sizeof t->env, "%s=%s", WIRE_SAMPLES_ENV, t->file.path);
    s->env_extra[1] = t->env;
    s->watch = WATCH_MAPS_BY_PROC;
    s->keep_spaces = &t->spaces;
}

/* Needs the threads to be closed and not yet filled in; r NULL: it did not run. */
static void end_timer(struct own_timer *t, const struct start *s, struct launch_result *r)
{
    if (!t->samples)
        return;
    if (r)
        timer_take(t->samples, t->spaces, s->threads, r);
    spaces_free(t->spaces);
    munmap(t->samples, t->bytes);
    scratch_close(&t->file);
}

/* Without them the run goes on, and the result says why. */
static int begin_bursts(struct bursts **b, struct launch_program *p, const struct launch_options *opt,
                        const struct counters *c, struct start *s, struct launch_result *r)
{
    bool failed = false;
    bool may_tick = !opt->force_timer && sampler_is_allowed(SAMPLER_SAMPLES);
    if (may_tick && c->header && p->modules[0].copy)
        *b = bursts_start(p, opt, c, s, r, &failed);
    else
        r->windows_note = may_tick ? "the program itself cannot be rewritten"
                                   : "in a counted run that needs perf_event, which is refused here";
    return failed ? -1 : 0;
}

/* What cannot be rewritten runs as it is: an executable without a copy leaves its libraries to be counted, except where
 * only the copy's run path would lead to theirs. */
static int run_counted(struct launch_program *p, const struct launch_options *opt, struct launch_result *r)
{
    struct start s = start_original(p, opt);
    struct counters c;
    char env[sizeof c.file.path + sizeof WIRE_ENV + 1];
    bool follows = opt->follow && opt->mode != LAUNCH_MODE_PATH && access(WIRE_FOLLOW_PATH, F_OK) == 0;
    s.mode = opt->mode;
    s.watch =
        opt->sample_hz > 0 && !opt->force_timer && sampler_is_allowed(SAMPLER_SAMPLES) ? WATCH_SAMPLES : WATCH_MAPS;
    s.hertz = opt->sample_hz;
    s.references = opt->references;
    s.threads = opt->threads ? threads_new(launch_may_make_threads(p)) : NULL;
    if (counters_open(&c, p, follows, opt->how == LAUNCH_REFERENCES) < 0)
        return -1;
    if (c.header) {
        snprintf(env, sizeof env, "%s=%s", WIRE_ENV, c.file.path);
        s.env_extra[0] = env;
    }
    bind_copies(p, &s, follows ? c.file.path : NULL);
    s.more_bytes = limits_more_bytes(p);
    s.maps_upwards = p->counts_by_thread && !(p->is_fixed && p->is_static);
    if (follows)
        s.follow = follow_new(p, &c, &p->copied_with);
    if (s.mode == LAUNCH_MODE_PATH && p->modules[0].copy) {
        s.path = p->modules[0].copy;
        s.argv = p->elf_argv;
    }
    struct own_timer timer = {.samples = NULL};
    if (opt->may_sample_itself && s.watch != WATCH_SAMPLES && p->modules[0].copy)
        begin_timer(&timer, &s);
    struct bursts *bursts = NULL;
    struct references references = {.is_running = false};
    int rc = opt->bursts ? begin_bursts(&bursts, p, opt, &c, &s, r) : 0;
    if (opt->how == LAUNCH_REFERENCES)
        rc = references_begin(&references, p, &c, opt->references);
    s.references_pid = opt->how == LAUNCH_REFERENCES ? &references.pid : NULL;
    rc = rc == 0 ? process_run(&s, r) : rc;
    if (opt->how == LAUNCH_REFERENCES)
        references_end(&references, r);
    r->tried_windows = bursts != NULL;
    if (bursts)
        bursts_stop(bursts, rc == 0, r);
    end_timer(&timer, &s, rc == 0 ? r : NULL);
    if (rc == 0 && s.threads)
        threads_fill(s.threads, r);
    threads_free(s.threads);
    if (rc == 0 && opt->how == LAUNCH_PROBED)
        probes_sum(&c, p, __builtin_ia32_rdtsc(), r);
    else if (rc == 0)
        counters_sum(&c, p, r);
    if (rc == 0 && opt->how == LAUNCH_COUNT)
        counters_of_threads(&c, r);
    r->not_followed = opt->follow && follow_fd(s.follow) < 0;
    if (rc == 0 && s.follow)
        processes_fill(opt, s.follow, &c, r);
    follow_free(s.follow);
    counters_close(&c);
    return rc;
}

int launch_run(struct launch_program *p, const struct launch_options *opt, struct launch_result **out)
{
    struct arena *a = arena_new();
    struct launch_result *r = ARENA_NEW(a, struct launch_result);
    r->arena = a;
    int rc = -1;
    switch (opt->how) {
    case LAUNCH_PLAIN:
        rc = run_plain(p, opt, r);
        break;
    case LAUNCH_COUNT:
    case LAUNCH_PROBED:
    case LAUNCH_REFERENCES:
        rc = run_counted(p, opt, r);
        break;
    case LAUNCH_SAMPLED:
        rc = run_sampled(p, opt, r);
        break;
    case LAUNCH_BURSTS:
        rc = bursts_run(p, opt, progress_of(opt), r);
        break;
    }
    p->made_threads |= rc == 0 && r->threads_seen;
    *out = rc == 0 ? r : NULL;
    if (rc < 0)
        arena_free(a);
    return rc;
}

void launch_result_free(struct launch_result *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->paths_len; i++)
        if (r->paths[i])
            munmap(r->paths[i], WIRE_STREAM_BYTES - WIRE_STREAM_PATHS);
    arena_free(r->arena);
}

_Noreturn void launch_exit_like(int status)
{
    if (WIFSIGNALED(status)) {
        int sig = WTERMSIG(status);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_DUMPABLE, 0); /* also where cores go to a pipe */
        fflush(NULL);
        signal(sig, SIG_DFL);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, sig);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(sig);
        exit(128 + sig);
    }
    exit(WEXITSTATUS(status));
}
