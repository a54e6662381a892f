/* SPDX-License-Identifier: Apache-2.0
 * A session: tries the sources in their order, has a thread of its own empty what they fill, and in the end makes the
 * result. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "live/impl.h"

enum { LOOK_MS = 50, POLLS_MAX = 512 };

struct live_session {
    struct live_target target;
    pid_t *tids;
    struct live_bpf *bpf;
    struct live_trace *trace;
    struct live_samples *samples;
    struct live_counters *counters;
    struct live_cost cost;
    struct live_sums *sums;
    struct live_accounts before, last;
    bool has_accounts, has_usage;
    struct live_result *result;
    double began_s, ended_s;
    pthread_t thread;
    bool is_running;
    int wake; /* eventfd: the thread is to end */
};

const struct live_source_row live_source_rows[LIVE_SOURCES] = {
#define SOURCE(id, name, tells, cannot_see) {name, tells, cannot_see},
#include "live/sources.def"
#undef SOURCE
};

int live_source_find(const char *name, size_t len)
{
    for (int i = 0; i < LIVE_SOURCES; i++)
        if (strlen(live_source_rows[i].name) == len && strncmp(live_source_rows[i].name, name, len) == 0)
            return i;
    return -1;
}

/* ---- the sources ---- */

static const char not_wanted[] = "left out (--without)", hidden[] = "the kernel hides its addresses (kptr_restrict)",
                  not_sampled[] = "no samples of the kernel";

static void set(struct live_session *s, enum live_source source, bool is_used, const char *found)
{
    s->result->sources[source] = (struct live_source_state){is_used, found};
}

/* One that has system calls, if there is one; else who runs when, which ordinary users may ask too. */
static void open_events(struct live_session *s, unsigned without)
{
    struct arena *a = s->result->arena;
    const char *why = not_wanted;
    if (!(without & 1u << LIVE_BPF))
        s->bpf = live_bpf_open(&s->target, a, &why);
    set(s, LIVE_BPF, s->bpf, s->bpf ? "programs at the kernel's tracepoints are loaded" : why);
    if (s->bpf) {
        set(s, LIVE_TRACEPOINTS, false, "not needed beside bpf");
        return;
    }
    why = not_wanted;
    bool wanted = !(without & 1u << LIVE_TRACEPOINTS);
    if (wanted)
        s->trace = live_trace_open(&s->target, LIVE_TRACE_ALL, a, &why);
    s->result->has_events = s->trace;
    set(s, LIVE_TRACEPOINTS, s->trace, s->trace ? "perf_event rings" : why);
    if (!s->trace && wanted && (s->trace = live_trace_open(&s->target, LIVE_TRACE_TURNS, a, &why)))
        set(s, LIVE_TRACEPOINTS, false,
            arena_printf(a, "%s; only who runs when", s->result->sources[LIVE_TRACEPOINTS].found));
}

static const char *sample_cost(const struct live_sampled *f, struct arena *a)
{
    double share = 100 * f->sample_s / f->period_s;
    return isnan(f->sample_s) ? "" : arena_printf(a, " of %.1f us (%.1f %% of the time)", 1e6 * f->sample_s, share);
}

static void open_samples(struct live_session *s, const struct live_options *opt)
{
    struct arena *a = s->result->arena;
    const char *why = not_wanted;
    if (!(opt->without & 1u << LIVE_SAMPLES))
        s->samples = live_samples_open(&s->target, opt->hertz, a, &why);
    const struct live_sampled *f = s->samples ? live_samples_result(s->samples) : NULL;
    set(s, LIVE_SAMPLES, f,
        !f ? why
           : arena_printf(a, "perf_event software clock, %.0f a second%s%s", 1 / f->period_s, sample_cost(f, a),
                          f->is_user_only ? ", user mode only (perf_event_paranoid)" : ""));
    const struct live_symbols *symbols = s->samples ? live_samples_symbols(s->samples) : NULL;
    set(s, LIVE_SYMBOLS, symbols,
        symbols                 ? arena_printf(a, "%zu functions", live_symbols_count(symbols))
        : f && !f->is_user_only ? hidden
                                : not_sampled);
}

static void open_rest(struct live_session *s, unsigned without)
{
    struct arena *a = s->result->arena;
    const char *why = not_wanted;
    if (!(without & 1u << LIVE_PMU))
        s->counters = live_counters_open(&s->target, a, &why);
    set(s, LIVE_PMU, s->counters && live_counters_any(s->counters), why);
    s->before = live_accounts_none();
    bool wanted = !(without & 1u << LIVE_ACCOUNTS);
    s->has_accounts = wanted && (s->target.scope == LIVE_COMMAND || live_accounts_read(s->target.pid, &s->before));
    s->last = s->before;
    set(s, LIVE_ACCOUNTS, s->has_accounts,
        !wanted                           ? not_wanted
        : s->target.scope == LIVE_COMMAND ? "rusage"
        : s->has_accounts                 ? "/proc"
                                          : "/proc tells nothing of it");
}

static bool has_events(const struct live_session *s) { return s->bpf || s->result->has_events; }

/* ---- the thread ---- */

static size_t polls_of(const struct live_session *s, struct pollfd *p)
{
    size_t n = 0;
    p[n++] = (struct pollfd){.fd = s->wake, .events = POLLIN};
    if (s->bpf)
        p[n++] = (struct pollfd){.fd = live_bpf_fd(s->bpf), .events = POLLIN};
    if (s->trace)
        n += live_trace_poll(s->trace, p + n, POLLS_MAX - n);
    return n;
}

static void drain(struct live_session *s)
{
    if (s->bpf)
        live_bpf_drain(s->bpf);
    if (s->trace)
        live_trace_drain(s->trace);
    if (s->samples)
        live_samples_drain(s->samples);
    if (s->has_accounts && s->target.scope == LIVE_PROCESS)
        live_accounts_read(s->target.pid, &s->last);
}

static void *run(void *arg)
{
    struct live_session *s = arg;
    struct pollfd *polls = xmalloc(POLLS_MAX * sizeof *polls);
    for (;;) {
        size_t n = polls_of(s, polls);
        poll(polls, n, LOOK_MS);
        if (polls[0].revents)
            break;
        drain(s);
    }
    free(polls);
    return NULL;
}

/* Signals are for the thread that waits for the command. */
static void start_thread(struct live_session *s)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->is_running = s->wake >= 0 && pthread_create(&s->thread, NULL, run, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- begin and end ---- */

static struct live_session *session_new(const struct live_options *opt, pid_t pid)
{
    struct live_session *s = xmalloc(sizeof *s);
    s->target.scope = opt->scope;
    s->target.program = opt->program;
    s->target.pid = opt->scope == LIVE_SYSTEM ? 0 : pid;
    if (opt->scope != LIVE_SYSTEM) {
        s->target.perf.count = live_threads_of(pid, &s->tids);
        s->target.perf.tids = s->tids;
    }
    s->sums = xmalloc(sizeof *s->sums);
    struct arena *a = arena_new();
    s->result = ARENA_NEW(a, struct live_result);
    s->result->arena = a;
    return s;
}

struct live_session *live_session_begin(const struct live_options *opt, pid_t pid)
{
    struct live_session *s = session_new(opt, pid);
    live_cost_begin(&s->cost);
    open_events(s, opt->without);
    if (s->bpf)
        live_bpf_cost(s->bpf, &s->cost);
    else if (has_events(s))
        live_trace_cost(&s->cost);
    open_samples(s, opt);
    open_rest(s, opt->without);
    s->wake = eventfd(0, EFD_CLOEXEC);
    start_thread(s);
    s->began_s = time_now_s();
    if (s->bpf)
        live_bpf_begin(s->bpf);
    if (opt->scope != LIVE_COMMAND && s->trace)
        live_trace_begin(s->trace);
    if (opt->scope != LIVE_COMMAND && s->samples)
        live_samples_begin(s->samples);
    return s;
}

static void end_thread(struct live_session *s)
{
    uint64_t one = 1;
    if (s->is_running && write(s->wake, &one, sizeof one) == sizeof one)
        pthread_join(s->thread, NULL);
    if (s->wake >= 0)
        close(s->wake);
    s->is_running = false;
}

void live_session_stop(struct live_session *s, const struct rusage *usage)
{
    s->ended_s = time_now_s();
    if (s->bpf)
        live_bpf_stop(s->bpf, s->sums);
    end_thread(s);
    if (s->trace)
        live_trace_stop(s->trace, s->sums);
    if (s->samples)
        live_samples_drain(s->samples);
    if (usage && s->has_accounts) {
        s->last = live_accounts_of(usage);
        s->has_usage = true;
    } else if (s->has_accounts) {
        live_accounts_read(s->target.pid, &s->last);
    }
}

struct live_result *live_session_finish(struct live_session *s)
{
    struct live_result *r = s->result;
    double begun_s = s->sums->begun_ns ? 1e-9 * (double)s->sums->begun_ns : s->began_s,
           ended_s = s->sums->ended_ns ? 1e-9 * (double)s->sums->ended_ns : s->ended_s;
    struct live_found f = {.scope = s->target.scope,
                           .wall_s = ended_s - begun_s,
                           .has_events = has_events(s),
                           .has_turns = s->bpf || s->trace,
                           .sums = s->sums,
                           .cost = s->cost,
                           .accounts = live_accounts_none(),
                           .program = s->target.program};
    if (s->has_usage)
        f.accounts = s->last;
    else if (s->has_accounts && s->target.scope != LIVE_COMMAND)
        f.accounts = live_accounts_less(&s->last, &s->before);
    if (s->samples) {
        f.samples = live_samples_result(s->samples);
        f.symbols = live_samples_symbols(s->samples);
    }
    live_result_fill(&f, r);
    if (s->counters)
        live_counters_read(s->counters, r);
    live_counters_close(s->counters);
    live_bpf_close(s->bpf);
    live_trace_close(s->trace);
    live_samples_close(s->samples);
    live_sums_fini(s->sums);
    free(s->sums);
    free(s->tids);
    free(s);
    return r;
}

/* Each apart: in a session what is not needed beside something better is not tried. */
static void probe_tracepoints(const struct live_target *t, struct arena *a, struct live_source_state *out)
{
    const char *why = NULL;
    struct live_trace *trace = live_trace_open(t, LIVE_TRACE_ALL, a, &why);
    *out = (struct live_source_state){trace != NULL, trace ? "perf_event rings" : why};
    live_trace_close(trace);
}

static void probe_samples(const struct live_target *t, struct arena *a, struct live_source_state *out)
{
    const char *why = NULL;
    struct live_samples *s = live_samples_open(t, 0, a, &why);
    const struct live_sampled *f = s ? live_samples_result(s) : NULL;
    const struct live_symbols *symbols = s ? live_samples_symbols(s) : NULL;
    out[LIVE_SAMPLES] = (struct live_source_state){f && !f->is_user_only, why};
    if (f)
        out[LIVE_SAMPLES].found =
            f->is_user_only ? "samples of user mode only (perf_event_paranoid)" : "samples of user and kernel mode";
    out[LIVE_SYMBOLS].is_used = symbols;
    out[LIVE_SYMBOLS].found = symbols                 ? arena_printf(a, "%zu functions", live_symbols_count(symbols))
                              : f && !f->is_user_only ? hidden
                                                      : not_sampled;
    live_samples_close(s);
}

void live_probe(struct arena *a, struct live_source_state out[LIVE_SOURCES])
{
    pid_t self = gettid();
    struct live_target t = {LIVE_PROCESS, getpid(), {&self, 1}, NULL};
    const char *why = "programs at tracepoints load";
    struct live_bpf *bpf = live_bpf_open(&t, a, &why);
    out[LIVE_BPF] = (struct live_source_state){bpf != NULL, why};
    live_bpf_close(bpf);
    probe_tracepoints(&t, a, &out[LIVE_TRACEPOINTS]);
    probe_samples(&t, a, out);
    struct live_accounts accounts;
    out[LIVE_ACCOUNTS].is_used = live_accounts_read(getpid(), &accounts);
    out[LIVE_ACCOUNTS].found = "/proc/PID/stat";
    struct live_counters *c = live_counters_open(&t, a, &why);
    out[LIVE_PMU] = (struct live_source_state){live_counters_any(c), why};
    live_counters_close(c);
}
