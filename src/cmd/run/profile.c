/* SPDX-License-Identifier: Apache-2.0
 * What mtool count and mtool run share. */
#include "cmd/run/profile.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *utc_now(struct arena *a)
{
    time_t t = time(NULL);
    struct tm tm;
    gmtime_r(&t, &tm);
    return arena_printf(a, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                        tm.tm_min, tm.tm_sec);
}

static void describe(struct profile *p)
{
    struct prof_result *r = p->result;
    const struct launch_program *prog = p->program;
    r->program = arena_strdup(r->arena, prog->path);
    size_t n = 0;
    while (prog->argv[n])
        n++;
    r->command = ARENA_ARRAY(r->arena, const char *, n + 1);
    for (size_t i = 0; i < n; i++)
        r->command[i] = arena_strdup(r->arena, prog->argv[i]);
    r->started = utc_now(r->arena);
    r->mtool_version = MTOOL_VERSION;
    r->options = arena_strdup(r->arena, p->args->line ? p->args->line : "");
    r->launch_mode = launch_mode_text[p->mode];
    struct utsname host;
    if (uname(&host) == 0)
        r->machine.kernel = arena_printf(r->arena, "%s %s", host.sysname, host.release);
}

int profile_begin(struct profile *p, const struct cmd_args *a)
{
    memset(p, 0, sizeof *p);
    p->args = a;
    p->status = -1;
    if (launch_program_find(a->rest, &p->program) < 0)
        return CMD_UNUSABLE;
    p->program->counts_executed = a->follow;
    const char *output;
    p->rank = cmd_rank_of_job();
    if (cmd_rank_in_path(a->arena, a->output, p->rank, &output) < 0)
        return CMD_UNUSABLE;
    if (store_create(output, p->program->path, a->force, &p->store) < 0)
        return CMD_UNUSABLE;
    p->mode = launch_mode_probe();
    p->result = prof_result_new();
    describe(p);
    p->result->rank = p->rank.rank;
    p->result->rank_count = p->rank.count;
    return 0;
}

void profile_note_phase(struct profile *p, const char *name, double since_s)
{
    double wall_s = time_now_s() - since_s;
    diag_debug(1, "%s took %.3f s", name, wall_s);
    VEC_PUSH(&p->phases, ((struct prof_phase){name, wall_s}));
}

static struct rewrite_options copy_options(const struct profile *p)
{
    return (struct rewrite_options){.plan = REWRITE_COUNT,
                                    .poison = p->args->poison,
                                    .all_blocks = p->args->all_blocks,
                                    .threads = launch_may_make_threads(p->program),
                                    .rpath = p->mode == LAUNCH_MODE_PATH ? launch_path_mode_dir(p->program) : NULL};
}

void profile_copies_ahead(struct profile *p)
{
    struct rewrite_options opt = copy_options(p);
    launch_copies_ahead(p->program, &opt);
}

static int make_copies(struct profile *p)
{
    static const struct rewrite_objects all = {.all = true};
    struct rewrite_options opt = copy_options(p);
    double since = time_now_s();
    for (size_t i = 0; p->args->all_probes && i < p->program->module_count; i++) {
        opt.plan = REWRITE_PROBE;
        p->program->modules[i].probed = &all;
    }
    if (launch_copies_make(p->program, &opt) < 0)
        return CMD_SELF_FAILED;
    profile_note_phase(p, "rewriting", since);
    return 0;
}

int profile_copies(struct profile *p)
{
    int rc = make_copies(p);
    const struct launch_module *exe = &p->program->modules[0];
    if (!rc && !exe->copy)
        diag_warn("not-counted", "%s itself cannot be rewritten (%s): only its libraries are counted", exe->path,
                  exe->refused ? exe->refused : "unknown reason");
    return rc;
}

/* Standard input that can be rewound is read by every run from where it stood at the first. */
static void rewind_input(bool is_first)
{
    static off_t start = -1;
    if (is_first)
        start = lseek(0, 0, SEEK_CUR);
    else if (start >= 0)
        lseek(0, start, SEEK_SET);
}

/* The user has had enough. A server ends with status 0 then. */
static bool was_interrupted(const struct launch_result *run)
{
    int end = run->status;
    return run->got_end_signal ||
           (WIFSIGNALED(end) && (WTERMSIG(end) == SIGINT || WTERMSIG(end) == SIGQUIT || WTERMSIG(end) == SIGTERM));
}

/* A pipe that nobody writes to any more, and that is empty. */
static bool is_drained(void)
{
    struct stat st;
    struct pollfd in = {.fd = 0, .events = POLLIN};
    return fstat(0, &st) == 0 && S_ISFIFO(st.st_mode) && poll(&in, 1, 0) == 1 && !(in.revents & POLLIN);
}

/* Did a further run get no input, and so did other work? */
static bool is_input_gone(const struct profile *p, const struct launch_result *run)
{
    enum { SHORTER = 2 };
    return !p->was_drained && is_drained() &&
           (run->status != p->status || SHORTER * (run->user_s + run->system_s) < p->first_s);
}

/* Does a run of this kind tell whether the program may run again? The counted one, where it is the second. */
static bool is_told_by(const struct profile *p, enum launch_how how)
{
    return how == LAUNCH_PLAIN || (how == LAUNCH_COUNT && !p->ran_again);
}

/* A further run that failed where the first did not, or had no input. */
static int refuse_second_run(const struct profile *p, const struct launch_result *run)
{
    const char *program = p->program->argv[0];
    if (is_input_gone(p, run))
        diag_error("%s had no input when it was run again, since standard input is a pipe that the first run has read; "
                   "use --one-run, or a file",
                   program);
    else
        diag_error("%s %s %d when it was run again, as if it refused a second run (a lock file, a port in use?); use "
                   "--one-run",
                   program, WIFSIGNALED(run->status) ? "was killed by signal" : "ended with status",
                   WIFSIGNALED(run->status) ? WTERMSIG(run->status) : WEXITSTATUS(run->status));
    return CMD_UNUSABLE;
}

/* That a counted run failed may be the copy's fault: a plain one tells. 0, or an exit status. */
static int try_plain_run(struct profile *p)
{
    struct launch_options o = {.how = LAUNCH_PLAIN};
    struct launch_result *run = NULL;
    int rc = profile_run(p, &o, false, &run);
    launch_result_free(run);
    return rc;
}

/* May the program be run again, by this further run? 0, or an exit status after one line. */
static int judge_second_run(struct profile *p, enum launch_how how, const struct launch_result *run)
{
    bool failed = p->status == 0 && run->status != 0;
    if (!is_told_by(p, how) || (!failed && !is_input_gone(p, run)))
        return 0;
    return how == LAUNCH_PLAIN || is_input_gone(p, run) ? refuse_second_run(p, run) : try_plain_run(p);
}

void profile_note_after(struct profile *p, const struct launch_result *run)
{
    p->phases.data[p->phases.len - 1].wall_s -= run->bursts.after_s;
    VEC_PUSH(&p->phases, ((struct prof_phase){"windows", run->bursts.after_s}));
}

int profile_run(struct profile *p, const struct launch_options *opt, bool is_first, struct launch_result **out)
{
    static const char *const names[] = {
        [LAUNCH_PLAIN] = "plain",    [LAUNCH_SAMPLED] = "sampled", [LAUNCH_COUNT] = "counted",
        [LAUNCH_BURSTS] = "windows", [LAUNCH_PROBED] = "probed",   [LAUNCH_REFERENCES] = "references"};
    struct launch_options o = *opt;
    double since = time_now_s();
    rewind_input(is_first);
    p->was_drained = is_first ? is_drained() : p->was_drained;
    o.mute = !is_first;
    int rc = launch_run(p->program, &o, out);
    if (rc < 0)
        return CMD_SELF_FAILED;
    if ((*out)->was_not_run)
        return 0;
    profile_note_phase(p, names[opt->how], since);
    diag_debug(1, "%s run: %.4f s of user time, %.4f in the kernel", names[opt->how], (*out)->user_s, (*out)->system_s);
    int end = (*out)->status;
    /* Then its counts are worth keeping. */
    bool is_only = is_first && opt->how == LAUNCH_COUNT && p->args->command->id != CMD_ID_spy;
    if (!is_only && was_interrupted(*out)) {
        p->status = p->status == -1 || WIFSIGNALED(end) ? end : p->status;
        diag_note("interrupted: no further run is made and no profile is written%s",
                  p->args->command->id == CMD_ID_run ? "; --one-run makes one of a program that has to be ended" : "");
        return PROFILE_INTERRUPTED;
    }
    if (p->status == -1) {
        p->status = end;
        p->first_s = (*out)->user_s + (*out)->system_s;
    } else if ((rc = judge_second_run(p, opt->how, *out)))
        return rc;
    else if (opt->how == LAUNCH_BURSTS && (*out)->status != p->status)
        (*out)->windows_note =
            "that run ended otherwise than the others: the program may forbid what snapshots need (seccomp)";
    else if (opt->how != LAUNCH_PROBED && (*out)->status != p->status)
        diag_warn("runs-differ",
                  "a further run ended with another status than the first (%d, %d): figures join unlike runs",
                  (*out)->status, p->status);
    p->ran_again |= !is_first;
    return 0;
}

/* ---- processes that are followed ---- */

const struct rewrite_map *profile_map(struct profile *p, size_t module)
{
    size_t n = p->program->module_count;
    if (p->map_count < n) {
        p->maps = xrealloc(p->maps, n * sizeof *p->maps);
        memset(p->maps + p->map_count, 0, (n - p->map_count) * sizeof *p->maps);
        p->map_count = n;
    }
    const struct launch_module *m = &p->program->modules[module];
    if (!p->maps[module] && m->map) {
        if (rewrite_map_open(m->map, &p->maps[module]) < 0)
            return NULL;
        rewrite_map_set_original(p->maps[module], m->path);
    }
    return p->maps[module];
}

static void take_process(void *ctx, size_t process, uint64_t *const *counters)
{
    struct profile *p = ctx;
    uint64_t sum = 0;
    for (size_t m = 0; m < p->program->module_count; m++) {
        const struct rewrite_map *map = counters[m] ? profile_map(p, m) : NULL;
        sum += map ? prof_instructions(map, counters[m]) : 0;
    }
    while (p->instructions.len <= process)
        VEC_PUSH(&p->instructions, PROF_UNKNOWN);
    p->instructions.data[process] = sum;
}

struct launch_options profile_counted_options(struct profile *p)
{
    return (struct launch_options){
        .how = LAUNCH_COUNT, .mode = p->mode, .follow = p->args->follow, .each = take_process, .ctx = p};
}

void profile_take_processes(struct profile *p, const struct launch_result *counted)
{
    struct prof_result *r = p->result;
    p->follows = !counted->not_followed;
    if (counted->not_followed)
        diag_warn("not-followed",
                  "programs that it executed were not counted: that needs a mount namespace, and seccomp");
    r->process = ARENA_ARRAY(r->arena, struct prof_process, counted->each_count);
    r->process_count = counted->each_count;
    for (size_t i = 0; i < counted->each_count; i++) {
        const struct launch_process *from = &counted->each[i];
        int s = from->status;
        r->process[i] = (struct prof_process){
            .pid = from->pid,
            .parent = from->parent,
            .command = from->command ? arena_strdup(r->arena, from->command) : NULL,
            .is_fork = from->is_fork,
            .exit_status = s == -1 ? ID_NONE : (uint32_t)(WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s)),
            .instructions = i < p->instructions.len ? p->instructions.data[i] : PROF_UNKNOWN,
            .refused = from->refused ? arena_strdup(r->arena, from->refused) : NULL};
    }
}

void profile_warn_left(const struct launch_result *run)
{
    if (run->in_background)
        diag_warn("background",
                  "a process (%u) goes on in the background: what it does from now on is not in the profile; keep the "
                  "program in the foreground by an option of its own",
                  run->in_background);
}

void profile_warn_executed(const struct launch_result *run)
{
    if (run->executed)
        diag_warn("executed",
                  "the program replaced itself by %s, which is not counted; give that program to mtool instead, or "
                  "--follow, if it needs what the first one sets up",
                  run->executed);
}

bool profile_counts_are_exact(const struct launch_result *counted)
{
    if (counted->flags & WIRE_NOT_SERIALIZED)
        return diag_error("the program created threads and they could not be kept on one processor: counts would not "
                          "be exact, "
                          "none were kept. Run it with one thread (for example OMP_NUM_THREADS=1)"),
               false;
    if (counted->flags & WIRE_THREADS)
        diag_warn("threads", "the program created threads: counts and times are sums over all threads%s",
                  counted->flags & WIRE_SERIALIZED ? "; while they were counted, some were serialized on one processor"
                                                   : "");
    if (counted->flags & WIRE_LOST)
        diag_warn("counts-lost",
                  "some counters could not be kept (out of memory, or more than %u processes): counts are too low",
                  4096u);
    return true;
}

/* ---- into the join ---- */

/* The kernel's are the last: they are in no module, at the highest address there. */
static size_t user_samples(const struct launch_result *r)
{
    const struct observed_sample *last = r->sample_count ? &r->samples[r->sample_count - 1] : NULL;
    bool is_kernel = last && last->module == ID_NONE && last->vaddr == OBSERVED_VADDR_KERNEL;
    return r->sample_count - is_kernel;
}

static void put_sampled(const struct launch_result *sampled, struct prof_input *in)
{
    if (sampled->sample_count) {
        in->samples = sampled->samples;
        in->sample_count = user_samples(sampled);
        in->samples_lost = sampled->samples_lost;
        in->sample_period_s = sampled->sample_period_s;
        in->sampled_system_s = sampled->system_s;
    }
    in->frames = sampled->frames;
    in->frame_count = sampled->frame_count;
    in->moments = sampled->moments;
    in->moment_count = sampled->moment_count;
    in->threads = sampled->threads;
    in->thread_count = sampled->thread_count;
    in->activity = sampled->thread_samples;
    in->activity_count = sampled->thread_sample_count;
    in->samples_user_only = sampled->samples_user_only;
}

int profile_inputs(struct profile *p, const struct launch_result *counted, const struct launch_result *sampled,
                   struct prof_input *in)
{
    const struct launch_program *prog = p->program;
    struct arena *ar = p->result->arena;
    struct prof_input_module *m = ARENA_ARRAY(ar, struct prof_input_module, prog->module_count);
    struct rewrite_flow *flows = ARENA_ARRAY(ar, struct rewrite_flow, prog->module_count);
    for (size_t i = 0; i < prog->module_count; i++) {
        const struct launch_module *lm = &prog->modules[i];
        m[i].path = arena_strdup(ar, lm->path);
        m[i].is_interp = lm->is_interp;
        m[i].refused = lm->refused ? arena_strdup(ar, lm->refused) : NULL;
        m[i].counters = counted && i < counted->counters_len ? counted->counters[i] : NULL;
        m[i].map = m[i].counters ? profile_map(p, i) : NULL;
        m[i].side_exits = m[i].counters ? counted->side_exits[i].data : NULL;
        m[i].side_exit_count = m[i].counters ? counted->side_exits[i].len : 0;
        m[i].flow = &flows[i];
        if (lm->map && m[i].counters && !m[i].map)
            return CMD_SELF_FAILED;
        if (!m[i].map)
            m[i].counters = NULL;
        if (!m[i].map && !m[i].refused && lm->found_at_run_time && !lm->other_program)
            m[i].refused = "loaded at run time; counted from the next run on";
    }
    in->modules = m;
    in->module_count = prog->module_count;
    in->thread_counters = counted ? (uint64_t *const *const *)counted->thread_counters : NULL;
    in->thread_counters_len = counted ? counted->thread_counters_len : 0;
    if (sampled)
        put_sampled(sampled, in);
    return 0;
}

void profile_keep_feedback(const struct profile *p, const struct prof_input *in)
{
    for (size_t i = 0; i < in->module_count; i++) {
        const struct prof_input_module *m = &in->modules[i];
        if (!m->counters)
            continue;
        rewrite_flow_solve(m->map, m->counters, (struct rewrite_side_exits){m->side_exits, m->side_exit_count},
                           m->flow);
        launch_keep_feedback(p->program, i, m->map, m->flow);
    }
}

void profile_forget_counters(const struct profile *p, const struct prof_input *in)
{
    for (size_t i = 0; i < p->map_count && !in->thread_counters_len; i++) {
        if (!p->maps[i])
            continue;
        rewrite_map_forget_counters(p->maps[i]);
        if (!in->modules[i].side_exit_count) /* else the join looks up what was not executed */
            rewrite_map_forget_places(p->maps[i]);
    }
}

int profile_join(struct prof_result *r, const struct prof_input *in)
{
    int rc = prof_join(r, in) < 0 ? CMD_SELF_FAILED : 0;
    for (size_t i = 0; i < in->module_count; i++)
        rewrite_flow_free(in->modules[i].flow);
    return rc;
}

static void add_warnings(struct prof_result *r)
{
    const struct diag_warning *w;
    size_t n = diag_warnings(&w);
    struct prof_warning *all = ARENA_ARRAY(r->arena, struct prof_warning, r->warning_count + n);
    if (r->warning_count)
        memcpy(all, r->warnings, r->warning_count * sizeof *all);
    r->warnings = all; /* before the loop, which compares with what it added itself */
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < r->warning_count && !known; k++)
            known = !strcmp(r->warnings[k].id, w[i].id) && !strcmp(r->warnings[k].text, w[i].text);
        if (!known)
            all[r->warning_count++] =
                (struct prof_warning){arena_strdup(r->arena, w[i].id), arena_strdup(r->arena, w[i].text)};
    }
}

int profile_finish(struct profile *p)
{
    p->result->exit_status = WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);
    add_warnings(p->result);
    p->result->phases = p->phases.data;
    p->result->phase_count = p->phases.len;
    return store_commit(p->store, p->result) < 0 ? CMD_SELF_FAILED : 0;
}

int profile_copies_again(struct profile *p)
{
    if (p->program->copied_with.plan != REWRITE_REFERENCES)
        return 0;
    profile_close_maps(p);
    return make_copies(p);
}

void profile_close_maps(struct profile *p)
{
    for (size_t i = 0; i < p->map_count; i++)
        rewrite_map_close(p->maps[i]);
    free(p->maps);
    p->maps = NULL;
    p->map_count = 0;
}

void profile_end(struct profile *p)
{
    profile_close_maps(p);
    VEC_FREE(&p->instructions);
    VEC_FREE(&p->phases);
    if (p->store)
        store_abort(p->store);
    prof_result_free(p->result);
    launch_program_free(p->program);
}
