/* SPDX-License-Identifier: Apache-2.0
 * Windows between the launcher, which spreads them over the program's time, and replays and the core model, which get
 * them afterwards: how many, how long, and what is kept of each. */
#include "cmd/run/windows.h"
#include "cmd/run/budget.h"

#include <math.h>

enum {
    BURST_REFERENCES = 250000,
    BURST_BYTES = 16 /* a reference */,
    BURST_MODELLED = 20000 /* references */,
    BURSTS_PLANNED = 60, /* where the budget leaves all the time that windows may take */
    BURSTS_MIN = 20
};
static const double INTERVAL_MIN_S = 0.002;
enum {
    WINDOW_STEPS = 6000,
    WINDOW_STEPS_MIN = 2000, /* where single steps are dear */
    STEPS_MIN = 110000,
    STEPS_MAX = 180000,
    STEPS_A_SECOND = 30000 /* of the program's time */
};

bool windows_wanted(const struct cmd_args *a, const struct machine *m)
{
    return a->windows || (!a->quick && machine_is_this(m));
}

static uint64_t take_burst(void *ctx, const struct launch_burst *w)
{
    struct taken_windows *t = ctx;
    struct trace_window whole = bursts_window(&t->bursts, w, BURST_REFERENCES),
                        *begin = ARENA_ARRAY(t->arena, struct trace_window, 1);
    *begin = bursts_window(&t->bursts, w, BURST_MODELLED);
    trace_keep_records(begin, t->arena);
    uint8_t *wrong = arena_alloc(t->arena, begin->instructions / 8 + 1);
    bursts_predict(&t->bursts, &whole, wrong, begin->instructions);
    VEC_PUSH(&t->kept, ((struct prof_input_burst){begin, wrong}));
    return whole.bytes;
}

static struct prof_input_window slices_of(const struct wire_windows *w, uint32_t window, struct arena *a)
{
    struct prof_input_window to = {.slice_count = 0};
    if (!w->slices || window >= WIRE_SLICED_WINDOWS)
        return to;
    to.slice_count = (uint32_t)min_u64(w->slice_count[window], WIRE_SLICES_MAX);
    struct wire_slice *s = ARENA_ARRAY(a, struct wire_slice, to.slice_count + 1);
    memcpy(s, w->slice[window], to.slice_count * sizeof *s);
    to.slices = s;
    return to;
}

static void take_steps(void *ctx, const struct wire_windows *steps)
{
    struct taken_windows *t = ctx;
    for (uint32_t k = 0; k < steps->window_count && k < WIRE_WINDOWS_MAX; k++) {
        struct trace_window *w = ARENA_ARRAY(t->arena, struct trace_window, 1);
        if (!trace_steps(steps, k, t->arena, w))
            continue;
        struct prof_input_window to = slices_of(steps, k, t->arena);
        to.window = w;
        VEC_PUSH(&t->windows, to);
    }
}

static void finish_taking(void *ctx, launch_place_of place, struct spaces *spaces)
{
    struct taken_windows *t = ctx;
    bursts_finish(ctx, place, spaces);
    for (size_t i = 0; i < t->windows.len; i++)
        trace_place_steps(t->windows.data[i].window, bursts_place, &(struct bursts_places){place, spaces});
}

/* Moments at which something is taken, and one in how many of them is for a window step by step. A single step takes
 * thousands of cycles: there are so many that they take no longer than the program itself. */
struct moments {
    double interval_s;
    uint32_t apart;
};

/* Each is a fork, and pages that are written anew: large programs, for which the budget leaves little, pay dearly. */
static double plan_bursts(double limit_s)
{
    return BURSTS_MIN + (BURSTS_PLANNED - BURSTS_MIN) * fmin(1, limit_s / BUDGET_WINDOWS_MAX_S);
}

static double plan_windows(double s) { return fmin(STEPS_MAX, fmax(STEPS_MIN, s * STEPS_A_SECOND)) / WINDOW_STEPS; }

static struct moments plan_moments(double s, double bursts)
{
    double windows = plan_windows(s);
    double all = fmin(bursts + windows, s / INTERVAL_MIN_S);
    return (struct moments){s / (all + 1), (uint32_t)fmax(2, all / windows)};
}

/* So long that as many as are planned fit into the limit, but for what may be spent on waiting for a quiet core: many
 * short ones tell more of a program than few long ones. */
static void fit_length(const struct taken_windows *t, struct wire_windows *w, uint32_t windows)
{
    double steps = 0, spent_ns = (double)w->waited.windows - (double)w->waited.quiet,
           room_ns = (double)w->limit_ns - (double)w->quiet_max_ns;
    for (uint32_t k = 0; k < windows; k++)
        steps += (double)w->windows[k].steps;
    if (room_ns > 0 && spent_ns > 0 && steps > 0)
        w->steps_max = (uint32_t)fmin(WINDOW_STEPS, fmax(WINDOW_STEPS_MIN, room_ns / t->planned * steps / spent_ns));
}

static void plan_window(void *ctx, struct wire_windows *w, uint32_t window)
{
    struct taken_windows *t = ctx;
    w->enough = replay_has_converged(t->progress, w, window);
    fit_length(t, w, window);
    replay_plan(w, window);
}

struct launch_burst_options windows_options(const struct profile *p, struct taken_windows *to)
{
    bursts_init(&to->bursts);
    to->progress = replay_progress_new();
    to->arena = arena_new(); /* its own: windows come in another thread */
    return (struct launch_burst_options){.window_bytes = BURST_REFERENCES * BURST_BYTES,
                                         .window_max = 4 * BURSTS_PLANNED,
                                         .may_fail = true,
                                         .threads = p->program->made_threads,
                                         .steps = WINDOW_STEPS,
                                         .stepped_max = WIRE_SLICED_WINDOWS,
                                         .plan = plan_window,
                                         .ctx = to,
                                         .begin = bursts_begin,
                                         .answer = bursts_answer,
                                         .take = take_burst,
                                         .take_steps = take_steps,
                                         .finish = finish_taking};
}

void windows_note(const struct launch_result *r, struct taken_windows *to)
{
    diag_debug(1, "windows: %u bursts of %u snapshots, %u lost, %u skipped, %u empty; %zu step by step",
               r->bursts.taken, r->bursts.begun, r->bursts.lost, r->bursts.skipped, r->bursts.empty, to->windows.len);
    diag_debug(1, "windows: snapshots used %.3f s, mtool %.3f to translate and %.3f on what they recorded",
               r->bursts.snapshots_user_s + r->bursts.snapshots_system_s, r->bursts.answer_s, r->bursts.take_s);
    if (!r->windows_note)
        return;
    to->windows.len = to->kept.len = 0;
    diag_warn("no-windows", "no window of the instruction stream was taken: %s", r->windows_note);
}

struct launch_burst_options windows_counted(const struct profile *p, const struct windows_room *room,
                                            struct taken_windows *to)
{
    double s = room->user_s + room->system_s, bursts = fmin(BURSTS_PLANNED, s / INTERVAL_MIN_S);
    struct launch_burst_options o = windows_options(p, to);
    o.interval_s = s / (bursts + 1);
    o.steps_apart = (uint32_t)fmax(1, bursts / plan_windows(s));
    o.after_s = room->limit_s;
    o.cost_share = BUDGET_SNAPSHOTS_SHARE;
    return o;
}

int windows_take(struct profile *p, const struct windows_room *room, struct taken_windows *to,
                 struct launch_result **out)
{
    /* A timer that spreads windows over the program counts its system time too, else they would end before it does. */
    double processor_s = room->user_s + room->system_s;
    struct moments moments = plan_moments(processor_s, plan_bursts(room->limit_s));
    struct launch_burst_options o = windows_options(p, to);
    o.interval_s = moments.interval_s;
    o.steps_apart = moments.apart;
    to->planned = plan_windows(processor_s);
    o.steps_limit_s = room->limit_s;
    o.expected_s = processor_s;
    o.system_share = fmin(1000, fmax(0.001, room->system_s / room->user_s));
    struct launch_options run = {.how = LAUNCH_BURSTS, .mode = p->mode, .bursts = &o};
    int rc = profile_run(p, &run, false, out);
    if (rc == 0)
        windows_note(*out, to);
    return rc;
}

void windows_fini(struct taken_windows *t)
{
    VEC_FREE(&t->kept);
    VEC_FREE(&t->windows);
    bursts_fini(&t->bursts);
    replay_progress_free(t->progress);
    arena_free(t->arena);
    *t = (struct taken_windows){.arena = NULL};
}

static void are_read(void *ctx) { windows_fini(ctx); }

void windows_put(struct taken_windows *from, struct prof_input *in)
{
    in->windows_read = are_read;
    in->windows_ctx = from;
    in->bursts = from->kept.data;
    in->burst_count = from->kept.len;
    in->windows = from->windows.data;
    in->window_count = from->windows.len;
}
