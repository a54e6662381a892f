/* SPDX-License-Identifier: Apache-2.0
 * The part of mtool run that probes (Goldberg and Hennessy 1990, Figures 1 and 2): the estimate of the whole program
 * and the question whether to go on, on a terminal only; then the run of copies that time the objects that were taken.
 */
#include "cmd/run/probe.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "objects/probed.h"
#include "report/report.h"

/* ---- what a pair costs ---- */

struct clock { /* the time stamp counter beside the clock: the description may be of another machine */
    uint64_t ticks;
    double s;
};

static struct clock clock_now(void) { return (struct clock){__builtin_ia32_rdtsc(), time_now_s()}; }

static double ticks_a_second(struct clock since)
{
    struct clock now = clock_now();
    return now.s > since.s ? (double)(now.ticks - since.ticks) / (now.s - since.s) : 0;
}

static void take_cost(struct probe_plan *plan)
{
    struct clock since = clock_now();
    struct rewrite_probe_cost c = plan->cost = rewrite_probe_cost();
    double hz = ticks_a_second(since);
    plan->pair_s = hz > 0 ? c.all / hz : 0;
    diag_debug(1, "probes: a pair takes %.1f ns, %.1f ns of them inside, a look at the processor time %.0f ns",
               1e9 * plan->pair_s, hz > 0 ? 1e9 * c.inside / hz : 0, hz > 0 ? 1e9 * c.look / hz : 0);
}

/* ---- names ---- */

/* FILE:LINE, else a function. C++ names have :: in them, but no digits alone behind the last. */
static struct prof_request parse_name(struct arena *ar, const char *text)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    unsigned long line = colon && colon > text && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 0;
    if (line && line < UINT32_MAX && !*end)
        return (struct prof_request){
            .text = text, .file = arena_strndup(ar, text, (size_t)(colon - text)), .line = (uint32_t)line};
    return (struct prof_request){.text = text, .function = text};
}

static const struct prof_request *split_names(const char *text, struct arena *ar, size_t *count)
{
    size_t max = 1;
    for (const char *s = text; *s; s++)
        max += *s == ',';
    struct prof_request *names = ARENA_ARRAY(ar, struct prof_request, max);
    char *rest = arena_strdup(ar, text), *word;
    *count = 0;
    while ((word = strsep(&rest, ",")))
        if (*word)
            names[(*count)++] = parse_name(ar, word);
    return names;
}

int probe_begin(const struct cmd_args *a, struct arena *ar, struct probe_plan *plan)
{
    *plan = (struct probe_plan){.requested = NULL};
    if (a->no_probes && (a->probe || a->unprobed))
        return diag_error("run: --no-probes excludes --probe and --unprobed"), CMD_UNUSABLE;
    take_cost(plan);
    if (a->probe)
        plan->requested = split_names(a->probe, ar, &plan->requested_count);
    if (a->unprobed)
        plan->unprobed = split_names(a->unprobed, ar, &plan->unprobed_count);
    if ((a->probe && !plan->requested_count) || (a->unprobed && !plan->unprobed_count))
        return diag_error("run: --%s needs the name of a function, or FILE:LINE",
                          a->probe && !plan->requested_count ? "probe" : "unprobed"),
               CMD_UNUSABLE;
    return 0;
}

void probe_ask(const struct probe_plan *plan, struct prof_input *in)
{
    in->requested = plan->requested;
    in->requested_count = plan->requested_count;
    in->unprobed = plan->unprobed;
    in->unprobed_count = plan->unprobed_count;
    in->names = report_names_function;
    in->probe_s = plan->pair_s;
}

/* ---- the question ---- */

static size_t count_taken(const struct prof_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->candidate_count; i++)
        n += r->candidates[i].verdict == PROF_TAKEN;
    return n;
}

static void put(struct strbuf *s)
{
    if (s->len && write(2, s->data, s->len) < 0)
        diag_debug(1, "standard error takes nothing");
    str_free(s);
}

static bool is_yes(const char *answer) { return answer[0] == '\n' || answer[0] == 'y' || answer[0] == 'Y'; }

/* Figure 2 of the paper. From the terminal itself: standard input is the program's. */
static bool ask(const struct profile *p, size_t objects)
{
    struct report_options o = {.is_terminal = cmd_has_colour(STDERR_FILENO), .columns = cmd_columns(p->args, 2)};
    struct strbuf text = {0};
    char answer[64] = "";
    FILE *tty = p->args->yes || !isatty(STDERR_FILENO) ? NULL : fopen("/dev/tty", "re");
    if (!tty)
        return true;
    report_summary(p->result, &o, &text);
    str_printf(&text, "\nGo on, with one more run that times %zu object%s by probes? [Y/n] ", objects,
               objects > 1 ? "s" : "");
    put(&text);
    bool goes_on = !fgets(answer, sizeof answer, tty) || is_yes(answer);
    fclose(tty);
    return goes_on;
}

/* ---- the run ---- */

static int make_copies(struct profile *p)
{
    const struct launch_program *prog = p->program;
    struct rewrite_options opt = {
        .plan = REWRITE_PROBE, .poison = p->args->poison, .threads = launch_may_make_threads(prog)};
    for (size_t i = 0; i < prog->module_count; i++)
        prog->modules[i].probed = prof_probes_list(p->result, prog->modules[i].path);
    if (p->mode == LAUNCH_MODE_PATH)
        opt.rpath = launch_path_mode_dir(prog);
    double since = time_now_s();
    if (launch_copies_make(p->program, &opt) < 0)
        return CMD_SELF_FAILED;
    profile_note_phase(p, "rewriting", since);
    return 0;
}

static void take(struct profile *p, const struct launch_result *run, const struct probe_plan *plan, double hz)
{
    const char **paths = ARENA_ARRAY(p->result->arena, const char *, p->program->module_count + 1);
    for (size_t i = 0; i < p->program->module_count; i++)
        paths[i] = p->program->modules[i].path;
    diag_debug(1, "probes: the program took %.4f s of user time with them; landings %.4f s", run->user_s,
               run->landed_s);
    double share = run->wall_s > 0 ? (run->user_s + run->system_s) / run->wall_s : 1;
    const struct prof_probe_terms terms = {.ticks_a_second = hz,
                                           .inside_ticks = plan->cost.inside,
                                           .pair_ticks = plan->cost.all,
                                           .look_ticks = plan->cost.look,
                                           .run_share = share < 1 ? share : 1,
                                           .user_s = run->user_s,
                                           .system_s = run->system_s,
                                           .start_s = run->start_s,
                                           .after_exit_s = run->after_exit_s,
                                           .landed_s = run->landed_s,
                                           .seen = p->seen,
                                           .begin_ticks = plan->cost.begin,
                                           .end_ticks = plan->cost.end,
                                           .look_seen_ticks = plan->cost.look_seen};
    prof_probes_take(p->result, paths, run->probes, run->probe_count, &terms);
}

/* Of processes that were counted by themselves (--follow). */
static bool has_executed_others(const struct prof_result *r)
{
    for (size_t i = 1; i < r->process_count; i++)
        if (!r->process[i].is_fork)
            return true;
    return false;
}

int probe_objects(struct profile *p, const struct probe_plan *plan)
{
    size_t objects = count_taken(p->result);
    struct launch_result *run = NULL;
    if (p->args->no_probes)
        return 0;
    if (has_executed_others(p->result)) {
        diag_note("no probes: they would time the first program alone, and it executed others, which were counted");
        return 0;
    }
    if (!objects) {
        diag_note("nothing is worth a probe: no object takes long enough at a time (mtool dump objects says more)");
        return 0;
    }
    if (!ask(p, objects))
        return 0;
    struct launch_options o = {.how = LAUNCH_PROBED, .mode = p->mode};
    int rc = make_copies(p);
    struct clock since = clock_now();
    if (!rc)
        rc = profile_run(p, &o, false, &run);
    if (!rc && run->status != p->status)
        diag_warn(
            "probe-silent",
            "the run with probes ended otherwise than the others, so there are no probed times: the program may forbid "
            "the clock that probes need (seccomp)");
    else if (!rc)
        take(p, run, plan, ticks_a_second(since));
    launch_result_free(run);
    return rc;
}
