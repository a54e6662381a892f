/* SPDX-License-Identifier: Apache-2.0
 *
 * When windows are enough, of the code that they met: in a run of their own they come in the order of time. They lie at
 * random moments, so windows of the same code are as many as that code takes of the time. Each tells cycles an
 * instruction by its slices; those that agree on their code make a group, and where the groups of most of the time are
 * known well enough, more windows would cost the user time and tell little. Goes by addresses only: knows no loops and
 * no functions, for which slices are fitted later; with eight windows and a tenth these were known less well (a
 * formatter of numbers 13 % too fast, 1 to 7 with all).
 */
#include "replay/impl.h"

#include <math.h>
#include <stdlib.h>

enum {
    WINDOWS_MIN = 14,
    MEASURED_MIN = 4, /* windows of a group */
    GIVEN_UP = 6      /* windows of a group none of which says anything */
};
static const double ALIKE = 0.6;         /* of the steps of two windows are in the same lines */
static const double GROUP_MIN = 0.1;     /* of all windows: smaller ones are not waited for, ... */
static const double SMALL_MAX = 0.25;    /* ... as long as they are no more together */
static const double INTERVAL_MAX = 0.06; /* of cycles an instruction, from end to end */
static const double NORMAL = 1.96;       /* standard errors, one side, of 95 in 100 */

struct line {
    uint64_t number; /* of 64 bytes of code */
    double part;     /* of the window's steps */
};
struct window {
    VEC(struct line) lines; /* by number */
    uint32_t group;
};
struct replay_progress {
    VEC(struct window) windows;
    uint32_t groups;
};

struct replay_progress *replay_progress_new(void) { return xmalloc(sizeof(struct replay_progress)); }

void replay_progress_free(struct replay_progress *p)
{
    for (size_t i = 0; p && i < p->windows.len; i++)
        VEC_FREE(&p->windows.data[i].lines);
    if (p)
        VEC_FREE(&p->windows);
    free(p);
}

/* ---- which code ---- */

static int by_number(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static void find_lines(const struct stream *s, struct window *to)
{
    struct map counts = {0};
    for (uint32_t k = 0; k < s->steps.len; k++) {
        uint64_t line = insn_of(s, k)->d.insn.addr / 64, n = 0;
        map_get(&counts, line, &n);
        map_put(&counts, line, n + 1);
    }
    for (size_t i = 0; i < counts.cap; i++)
        if (counts.used[i])
            VEC_PUSH(&to->lines, ((struct line){counts.keys[i], (double)counts.vals[i] / (double)s->steps.len}));
    if (to->lines.len)
        qsort(to->lines.data, to->lines.len, sizeof *to->lines.data, by_number);
    map_fini(&counts);
}

static double common(const struct window *a, const struct window *b)
{
    double sum = 0;
    for (size_t i = 0, k = 0; i < a->lines.len && k < b->lines.len;) {
        const struct line *x = &a->lines.data[i], *y = &b->lines.data[k];
        if (x->number == y->number)
            sum += fmin(x->part, y->part);
        i += x->number <= y->number;
        k += y->number <= x->number;
    }
    return sum;
}

/* That of the window most like it, if one is like it. */
static uint32_t group_of(struct replay_progress *p, const struct window *w)
{
    double best = ALIKE;
    uint32_t group = ID_NONE;
    for (size_t i = 0; i < p->windows.len; i++) {
        double c = common(&p->windows.data[i], w);
        if (c >= best) {
            best = c;
            group = p->windows.data[i].group;
        }
    }
    return group == ID_NONE ? p->groups++ : group;
}

/* ---- what it takes ---- */

static double width_of(const struct wire_windows *w, size_t windows)
{
    VEC(double) widths = {0};
    for (size_t i = 0; i < windows; i++)
        for (uint32_t s = 0; s < w->slice_count[i] && s < WIRE_SLICES_MAX; s++)
            for (uint32_t b = 0; b < w->slice[i][s].batch_count && b < WIRE_BATCHES; b++)
                VEC_PUSH(&widths, replay_width(&w->slice[i][s].batches[b]));
    double width = replay_width_undisturbed(widths.data, widths.len).width;
    VEC_FREE(&widths);
    return width;
}

/* Cycles an instruction, over the window's slices; 0: none says anything. */
static double cycles_of(const struct wire_windows *w, size_t window, double width)
{
    struct replay_time t;
    double cycles = 0, steps = 0;
    for (uint32_t s = 0; s < w->slice_count[window] && s < WIRE_SLICES_MAX; s++)
        if (replay_measure(&w->slice[window][s], width, &REPLAY_EDGE_USUAL, &t)) {
            cycles += t.cycles;
            steps += (double)(w->slice[window][s].last - t.first);
        }
    return steps > 0 ? cycles / steps : 0;
}

struct group {
    double sum, squares; /* of cycles an instruction */
    uint32_t windows, measured;
};

/* From end to end, as a fraction: of the mean over windows, which differ by more than their replays do. */
static double interval_of(const struct group *g)
{
    double n = g->measured, mean = g->sum / n, variance = fmax(0, g->squares - n * mean * mean) / (n - 1);
    return 2 * NORMAL * sqrt(variance / n) / mean;
}

static bool is_known(const struct group *g)
{
    if (g->measured == 0)
        return g->windows >= GIVEN_UP;
    return g->measured >= MEASURED_MIN && interval_of(g) <= INTERVAL_MAX;
}

static bool are_known(const struct group *groups, uint32_t n, size_t windows)
{
    double small = 0;
    for (uint32_t g = 0; g < n; g++) {
        if (groups[g].windows < GROUP_MIN * (double)windows)
            small += groups[g].windows;
        else if (!is_known(&groups[g]))
            return false;
    }
    return small <= SMALL_MAX * (double)windows;
}

static void see_window(struct replay_progress *p, const struct wire_windows *w)
{
    struct window now = {.group = 0};
    struct stream s = {.fs = 0};
    if (stream_read(&s, w, (uint32_t)p->windows.len))
        find_lines(&s, &now);
    stream_free(&s);
    now.group = group_of(p, &now);
    VEC_PUSH(&p->windows, now);
}

bool replay_has_converged(struct replay_progress *p, const struct wire_windows *w, uint32_t windows)
{
    while (p->windows.len < windows && windows <= WIRE_SLICED_WINDOWS)
        see_window(p, w);
    if (windows < WINDOWS_MIN || windows > WIRE_SLICED_WINDOWS)
        return false;
    struct group *groups = xmalloc((p->groups + 1) * sizeof *groups);
    double width = width_of(w, windows);
    for (size_t i = 0; i < windows; i++) {
        struct group *g = &groups[p->windows.data[i].group];
        double each = cycles_of(w, i, width);
        g->windows++, g->measured += each > 0;
        g->sum += each;
        g->squares += each * each;
    }
    bool enough = are_known(groups, p->groups, windows);
    diag_debug(2, "replays: %u windows in %u groups: %s", windows, p->groups, enough ? "enough" : "not enough");
    free(groups);
    return enough;
}
