/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pieces of a window are replayed. A piece may reach only as much memory as stays in the first-level cache and in
 * the first-level TLB, and must be long enough to be timed. It ends, if possible, at an instruction that it does not
 * contain, or by a jump whose comparison is given another bound, so that nothing is added to its code; else at an
 * instruction that it passes seldom, counted by a stub. The same piece is taken with a sooner end as well, if there is
 * one. But pieces that may (rounds.c) go round, and where none is long enough because it would reach too many pages,
 * short ones. */
#include "replay/impl.h"

#include <stdlib.h>

enum {
    STEPS_MIN = 600,
    STEPS_MAX = 8000,
    LINES_MAX = 224, /* of 64 bytes: 14 KB */
    PAGES_MAX = 40,
    ROUND_MIN = 48,   /* steps */
    LATER_MAX = 8,    /* steps */
    BEGINS_MAX = 256, /* steps in which a round may begin */
    TRIES_MAX = 1000, /* of rounds, in a window: the program waits */
    LINE_SETS = 64,   /* of 8 ways, in most first-level caches */
    PAGE_SETS = 16,   /* of 4 ways, in the first-level TLBs that have sets */
    JUMP_BYTES = 5,
    INSN_BYTES_MAX = 15,
    SHORT_MIN = 64,    /* steps of a short form */
    VISITS_MAX = 4000, /* of a stub */
    ITERATION_MIN = 40 /* steps between two visits of a stub: for fewer its own time is too much */
};

struct footprint {
    struct map lines, pages; /* lines: 1 if it is written */
    uint32_t unknown;        /* lines that gathers may reach */
    uint32_t branches;       /* conditional jumps executed */
    uint8_t lines_in[LINE_SETS], pages_in[PAGE_SETS];
    uint8_t lines_in_one, pages_in_one; /* the most */
};

struct reach_max {
    uint32_t steps_min, pages, lines_a_set, pages_a_set, branches;
};
/* Sets matter where nearly all that a cache or TLB holds is used, or where strides are powers of two. What goes round
 * has its stub's data beside its own. */
static const struct reach_max NARROW = {STEPS_MIN, PAGES_MAX, 8, UINT32_MAX, UINT32_MAX},
                              WIDE = {STEPS_MIN, UINT32_MAX, 8, UINT32_MAX, UINT32_MAX},
                              ROUND = {ROUND_MIN, PAGES_MAX, 6, 4, REPLAY_REMEMBERED};

struct planner {
    struct stream s;
    struct footprint foot;
    struct wire_windows *w;
    VEC(uint32_t) ends; /* of the piece: steps that could end it without a count */
    struct reach_max max;
    uint32_t tries;         /* of rounds */
    uint32_t window, piece; /* piece: number of the one that is looked at */
};

static void footprint_clear(struct footprint *f)
{
    map_fini(&f->lines);
    map_fini(&f->pages);
    *f = (struct footprint){0};
}

static void add_to_set(uint8_t *in, uint8_t *max)
{
    if (*in < UINT8_MAX)
        ++*in;
    *max = *in > *max ? *in : *max;
}

static void reach(struct footprint *f, uint64_t at, uint32_t bytes, bool writes)
{
    for (uint64_t line = at & ~63ull; line < at + bytes; line += 64) {
        uint64_t before = 0, page = line / 4096;
        bool is_known = map_get(&f->lines, line, &before);
        if (!is_known)
            add_to_set(&f->lines_in[line / 64 % LINE_SETS], &f->lines_in_one);
        if (!is_known || before < writes)
            map_put(&f->lines, line, writes || before);
        if (map_get(&f->pages, page, &before))
            continue;
        map_put(&f->pages, page, 1);
        add_to_set(&f->pages_in[page % PAGE_SETS], &f->pages_in_one);
    }
}

/* false: the piece must end before this step. */
static bool add_step(struct planner *p, uint32_t step)
{
    const struct insn *k = insn_of(&p->s, step);
    if (k->is_barrier)
        return false;
    for (int a = 0; a < k->d.access_count; a++)
        reach(&p->foot, stream_address(&p->s, step, a), k->d.access[a].bytes, k->d.access[a].is_store);
    if (k->d.access_count < 0)
        p->foot.unknown += k->d.insn.loads;
    p->foot.branches += k->d.insn.kind == X86_JCC;
    return p->foot.branches <= p->max.branches && p->foot.lines.len + p->foot.unknown <= LINES_MAX &&
           p->foot.pages.len + p->foot.unknown <= p->max.pages && p->foot.lines_in_one <= p->max.lines_a_set &&
           p->foot.pages_in_one <= p->max.pages_a_set;
}

/* Was nothing of the jump's bytes executed in the piece so far? */
static bool is_free_for_jump(const struct planner *p, uint64_t at)
{
    for (uint64_t a = at - INSN_BYTES_MAX + 1; a < at + JUMP_BYTES; a++) {
        const struct insn *k = insn_at(&p->s, a);
        if (k && k->piece == p->piece && a + k->d.insn.len > at)
            return false;
    }
    return true;
}

struct piece {
    uint32_t from, limit; /* steps: limit is the first that must not be in it */
    uint32_t end;         /* the last step that ends it without a count; ID_NONE */
};

/* Also counts visits. */
static struct piece grow(struct planner *p, uint32_t from)
{
    struct piece g = {from, from, ID_NONE};
    footprint_clear(&p->foot);
    p->piece++;
    p->ends.len = 0;
    for (uint32_t k = from; k + 1 < p->s.steps.len && k - from < STEPS_MAX;
         k++) { /* what comes after the last one is known */
        struct insn *i = insn_of(&p->s, k);
        if (k - from >= ROUND_MIN && i->piece != p->piece && is_free_for_jump(p, i->d.insn.addr)) {
            VEC_PUSH(&p->ends, k);
            g.end = k - from >= p->max.steps_min ? k : g.end;
        }
        if (!add_step(p, k))
            break;
        if (i->piece != p->piece) {
            i->piece = p->piece;
            i->visits = 0;
            i->first = k;
        }
        i->visits++;
        i->last = k;
        g.limit = k + 1;
    }
    return g;
}

static void take_lines(struct planner *p, uint32_t from, uint32_t end, struct wire_slice *out)
{
    footprint_clear(&p->foot);
    out->line_count = 0;
    for (uint32_t k = from; k < end; k++)
        add_step(p, k);
    for (size_t i = 0; i < p->foot.lines.cap; i++)
        if (p->foot.lines.used[i] && p->foot.lines.vals[i] && out->line_count < WIRE_LINES_MAX)
            out->lines[out->line_count++] = p->foot.lines.keys[i];
}

/* The whole, to step `end`. */
static void take_slice(struct planner *p, uint32_t from, uint32_t end, struct wire_slice *out)
{
    out->first = from;
    out->last = end;
    memcpy(out->begin, p->s.steps.data[from].regs, sizeof out->begin);
    take_lines(p, from, end, out);
}

static struct wire_form form_to(const struct planner *p, uint32_t from, uint32_t end, uint32_t iterations)
{
    struct wire_form f = {
        .last = end, .patch_at = insn_of(&p->s, end)->d.insn.addr, .iterations = iterations, .rounds = 1};
    memcpy(f.enter, p->s.steps.data[from].regs, sizeof f.enter);
    memcpy(f.end, p->s.steps.data[end].regs, sizeof f.end);
    stub_end(&f.stub);
    return f;
}

/* ---- ends ---- */

/* The whole should end here if a longer form goes on, and a short one here. */
static uint32_t whole_end(uint32_t from, uint32_t end) { return from + (end - from) / 4 * 3; }
static uint32_t short_end(uint32_t from, uint32_t end) { return from + (end - from) / 4; }
static bool is_short(uint32_t from, uint32_t at, uint32_t end)
{
    return at - from >= SHORT_MIN && at - from <= (end - from) / 2;
}

static uint32_t nearer(uint32_t a, uint32_t b, uint32_t to)
{
    uint32_t da = a > to ? a - to : to - a, db = b > to ? b - to : to - b;
    return da <= db ? a : b;
}

/* One piece of memory for stubs must be in reach of both. */
static bool are_near(const struct planner *p, uint32_t a, uint32_t b)
{
    uint64_t x = insn_of(&p->s, a)->d.insn.addr, y = insn_of(&p->s, b)->d.insn.addr;
    return (x > y ? x - y : y - x) < 1u << 30;
}

static void take_straight(struct planner *p, const struct piece *g, struct wire_slice *out)
{
    uint32_t wanted = short_end(g->from, g->end), best = ID_NONE;
    for (size_t i = 0; i < p->ends.len; i++)
        if (is_short(g->from, p->ends.data[i], g->end) && are_near(p, p->ends.data[i], g->end))
            best = best == ID_NONE ? p->ends.data[i] : nearer(best, p->ends.data[i], wanted);
    out->forms = 1;
    out->form[0] = form_to(p, g->from, g->end, 1);
    if (best != ID_NONE)
        out->form[out->forms++] = form_to(p, g->from, best, 1);
    take_slice(p, g->from, g->end, out);
}

/* A visit of step `at`'s instruction, and how many come before it. */
struct visit {
    uint32_t step, before; /* step: ID_NONE if there is none */
};

/* The one nearest to step `wanted`, from step `min` to `max`. */
static struct visit visit_near(const struct planner *p, uint32_t from, uint32_t at, uint32_t wanted, uint32_t min,
                               uint32_t max)
{
    struct visit best = {ID_NONE, 0};
    uint32_t visits = 0;
    for (uint32_t k = from; k <= max && k < at; k++) {
        if (p->s.steps.data[k].insn != p->s.steps.data[at].insn)
            continue;
        if (k >= min && (best.step == ID_NONE || nearer(best.step, k, wanted) == k))
            best = (struct visit){k, visits};
        visits++;
    }
    return best;
}

/* Ends of the forms of a slice that an instruction's visits end; step ID_NONE where there is none. */
struct ends {
    struct visit whole, sooner, longer;
};

/* at: the last visit, before which there are so many. Three forms if there are visits for them: then the jumps that end
 * the timed ones are never learnt. One and a longer one if there are but two, far enough apart. */
static struct ends choose_ends(const struct planner *p, uint32_t from, uint32_t at, uint32_t before)
{
    struct visit last = {at, before}, none = {ID_NONE, 0};
    uint32_t half = from + (at - from) / 2;
    struct visit sooner = visit_near(p, from, at, short_end(from, at), from + SHORT_MIN, half),
                 whole = visit_near(p, from, at, whole_end(from, at), half + 1, at - 1);
    if (whole.step != ID_NONE && whole.step - from >= STEPS_MIN)
        return (struct ends){whole, sooner, last};
    if (sooner.step != ID_NONE && sooner.step - from >= STEPS_MIN)
        return (struct ends){sooner, none, last};
    return (struct ends){last, sooner, none};
}

static bool leave_by(const struct planner *p, uint32_t from, uint32_t jump, uint32_t iterations, struct wire_form *out)
{
    *out = form_to(p, from, jump + 1, iterations);
    out->patch_at = bound_way_out(&p->s, jump);
    return bound_jump(&p->s, from, jump + 1, out) || bound_link(&p->s, from, jump + 1, out);
}

/* From step `from` on; `lines` is the last step that any form executes, plus 1. */
static void take_forms(struct planner *p, uint32_t from, uint32_t lines, struct wire_slice *out)
{
    take_slice(p, from, lines, out);
    out->last = out->form[0].last;
}

/* What is left by a conditional jump, at a loop's end or out of its middle: the one that is passed last. */
static bool take_bounded(struct planner *p, const struct piece *g, struct wire_slice *out)
{
    uint32_t min = (g->limit - g->from) / 2;
    for (uint32_t k = g->limit; k-- > g->from + (min > p->max.steps_min ? min : p->max.steps_min);) {
        const struct insn *i = insn_of(&p->s, k);
        struct wire_form *form = out->form;
        if (i->d.insn.kind != X86_JCC || i->piece != p->piece || i->last != k || i->visits < 2 ||
            !is_free_for_jump(p, bound_way_out(&p->s, k)) || !leave_by(p, g->from, k, i->visits, &form[0]))
            continue;
        struct ends e = choose_ends(p, g->from, k, i->visits - 1);
        if (e.longer.step != ID_NONE && leave_by(p, g->from, e.whole.step, e.whole.before + 1, &form[1])) {
            out->has_longer = 1;
            form[WIRE_LONGER] = form[0];
            form[0] = form[1];
        }
        out->forms = 1;
        if (e.sooner.step != ID_NONE && leave_by(p, g->from, e.sooner.step, e.sooner.before + 1, &form[1]))
            out->forms = 2;
        take_forms(p, g->from, k + 1, out);
        return true;
    }
    return false;
}

/* Of those that are passed in most of the piece the instruction that is passed least often, with a stub that counts. */
static bool take_counted(struct planner *p, const struct piece *g, struct wire_slice *out)
{
    uint32_t fewest = VISITS_MAX, from = ID_NONE;
    struct wire_stub stub;
    for (uint32_t k = g->from; k < g->limit; k++) {
        const struct insn *i = insn_of(&p->s, k);
        uint32_t span = i->last - k;
        if (i->piece == p->piece && i->first == k && i->visits >= 2 && i->visits < fewest && span >= STEPS_MIN &&
            span >= (g->limit - g->from) / 2 && span / i->visits >= ITERATION_MIN &&
            stub_count(&p->s, k, i->last, &stub)) {
            fewest = i->visits;
            from = k;
        }
    }
    if (from == ID_NONE)
        return false;
    uint32_t end = insn_of(&p->s, from)->last;
    struct ends e = choose_ends(p, from, end, fewest - 1);
    out->form[out->forms++] = form_to(p, from, e.whole.step, e.whole.before + 1);
    if (e.sooner.step != ID_NONE)
        out->form[out->forms++] = form_to(p, from, e.sooner.step, e.sooner.before + 1);
    if (e.longer.step != ID_NONE) {
        out->form[WIRE_LONGER] = form_to(p, from, end, fewest);
        out->has_longer = 1;
    }
    for (uint32_t f = 0; f < ARRAY_LEN(out->form); f++) {
        stub_count(&p->s, from, end, &out->form[f].stub);
        out->form[f].counts = 1;
    }
    take_forms(p, from, end, out);
    return true;
}

static uint32_t branches_of(const struct planner *p, const struct wire_slice *s)
{
    uint32_t n = 0;
    for (uint64_t k = s->first; k < s->last; k++)
        n += insn_of(&p->s, (uint32_t)k)->d.insn.kind == X86_JCC;
    return n;
}

/* In two forms, the second of which has fewer rounds. Where each round ends by a jump that is made to go the other way,
 * that one must be learnt, or the round would have a misprediction that the program has not. false: as it was. */
static bool go_round(const struct planner *p, struct wire_slice *out)
{
    bool is_left = out->form[0].iterations > 1;
    if ((is_left && branches_of(p, out) > REPLAY_REMEMBERED) || !make_round(&p->s, (uint32_t)out->first, &out->form[0]))
        return false;
    out->form[1] = out->form[0];
    out->form[1].rounds = out->form[0].rounds / 4 > 2 ? out->form[0].rounds / 4 : 2;
    out->forms = 2;
    out->has_longer = 0;
    return true;
}

/* From one of a few steps on, a way that ends behind step `min`. */
static bool go_round_from(struct planner *p, uint32_t from, uint32_t min, struct wire_slice *out)
{
    for (uint32_t d = 0; d < LATER_MAX && from + d < p->s.steps.len && p->tries < TRIES_MAX; d++) {
        struct piece later = grow(p, from + d);
        struct wire_slice *way = xmalloc(sizeof *way);
        memset(way, 0, sizeof *way);
        bool found = later.end != ID_NONE && later.end >= min;
        if (found) {
            take_straight(p, &later, way);
            found = go_round(p, way);
        }
        if (found)
            *out = *way;
        free(way);
        if (found)
            return true;
        p->tries++;
    }
    return false;
}

/* The first step that is passed once in the piece. */
static uint32_t seldom_passed(const struct planner *p, const struct piece *g)
{
    for (uint32_t k = g->from; k < g->limit; k++)
        if (insn_of(&p->s, k)->piece == p->piece && insn_of(&p->s, k)->visits == 1)
            return k;
    return g->from;
}

/* A way that could not go round may do so from a few steps later on, where its end leaves out another instruction; or
 * from behind the loop in which it begins. */
static bool go_round_later(struct planner *p, const struct piece *g, struct wire_slice *out)
{
    uint32_t behind = seldom_passed(p, g);
    return go_round_from(p, g->from + 1, g->from + (g->end - g->from) / 4 * 3, out) ||
           (behind > g->from + LATER_MAX && go_round_from(p, behind, behind + STEPS_MIN, out));
}

/* Where to look next. */
static uint32_t take_piece(struct planner *p, const struct piece *g)
{
    uint32_t *count = &p->w->slice_count[p->window];
    struct wire_slice *out = &p->w->slice[p->window][*count];
    uint32_t length = g->limit - g->from;
    bool ends = g->end != ID_NONE;
    memset(out, 0, sizeof *out);
    if (ends && g->end - g->from >= length / 3)
        take_straight(p, g, out);
    else if (length < STEPS_MIN || (!take_bounded(p, g, out) && !ends && !take_counted(p, g, out)))
        return g->limit > g->from + 64 ? g->from + (g->limit - g->from) / 2 : g->from + 32;
    else if (!out->forms)
        take_straight(p, g, out);
    if (!go_round(p, out) && out->form[0].iterations <= 1 && out->forms == 1 && p->max.pages == NARROW.pages)
        go_round_later(p, g, out);
    ++*count;
    return (uint32_t)out->last;
}

/* Reaches more pages than any first-level TLB may be relied upon to hold, but no more lines than the cache: takes as
 * long as the code at least. 0: there is none here; else where to look next. */
static uint32_t take_wide(struct planner *p, uint32_t from)
{
    uint32_t *count = &p->w->slice_count[p->window], before = *count;
    p->max = WIDE;
    struct piece g = grow(p, from);
    uint32_t next = p->foot.pages.len > PAGES_MAX ? take_piece(p, &g) : 0;
    bool is_wide = *count > before && p->foot.pages.len > PAGES_MAX; /* of what was taken of the piece */
    p->max = NARROW;
    if (is_wide)
        p->w->slice[p->window][before].is_wide = 1;
    *count = before + is_wide;
    return is_wide ? next : 0;
}

/* Whole iterations: the program went on behind the end where it began. */
static bool take_turns(struct planner *p, const struct piece *g, struct wire_slice *out)
{
    memset(out, 0, sizeof *out);
    return take_bounded(p, g, out) && p->s.steps.data[out->first].insn == p->s.steps.data[out->last].insn &&
           go_round(p, out);
}

static bool take_way(struct planner *p, const struct piece *g, struct wire_slice *out)
{
    memset(out, 0, sizeof *out);
    if (g->end == ID_NONE || g->end < g->from + ROUND_MIN)
        return false;
    take_straight(p, g, out);
    return go_round(p, out);
}

static bool take_first(struct planner *p, const struct piece *g, struct wire_slice *out,
                       bool (*take)(struct planner *p, const struct piece *g, struct wire_slice *out))
{
    struct piece rest = *g;
    uint32_t end = (uint32_t)min_u64(g->limit, (uint64_t)g->from + BEGINS_MAX);
    for (; rest.from < end && p->tries < TRIES_MAX; rest.from++) {
        if (take(p, &rest, out))
            return true;
        p->tries++;
    }
    return false;
}

/* Of a piece that is too short to be replayed once. 0: there is none here; else where to look next. */
static uint32_t take_round(struct planner *p, uint32_t from)
{
    uint32_t *count = &p->w->slice_count[p->window];
    struct wire_slice *out = &p->w->slice[p->window][*count];
    p->max = ROUND;
    struct piece g = grow(p, from);
    bool found = take_first(p, &g, out, take_turns) || take_first(p, &g, out, take_way);
    p->max = NARROW;
    *count += found;
    return found ? (uint32_t)out->last : 0;
}

static uint32_t take_narrow(struct planner *p, uint32_t from)
{
    struct piece g = grow(p, from);
    uint32_t next = g.limit - g.from < STEPS_MIN ? take_round(p, from) : 0;
    return next ? next : take_piece(p, &g);
}

/* Each visit takes two traps. An instruction that repeats is a step each time, but has one trap in its place. */
static uint32_t visits_between(const struct stream *s, uint32_t from, uint32_t first)
{
    const struct insn *to = insn_of(s, first);
    uint32_t visits = 0;
    for (uint32_t k = from + 1; k <= first; k++)
        visits += insn_of(s, k) == to;
    bool is_rep = (to->d.insn.props & X86_PROP_REP) != 0;
    return is_rep || 2 * visits >= first - from ? 0 : visits;
}

/* How the checkpoint comes from one slice to the next. */
static void plan_ways(const struct planner *p)
{
    uint32_t from = 0;
    for (uint32_t i = 0; i < p->w->slice_count[p->window]; i++) {
        struct wire_slice *s = &p->w->slice[p->window][i];
        uint32_t first = (uint32_t)s->first;
        s->begin_at = insn_of(&p->s, first)->d.insn.addr;
        s->visits = visits_between(&p->s, from, first);
        from = first;
    }
}

void replay_plan(struct wire_windows *w, uint32_t window)
{
    struct planner p = {.w = w, .window = window, .max = NARROW};
    w->slice_count[window] = 0;
    if (stream_read(&p.s, w, window)) {
        uint32_t from = 1; /* the checkpoint stands before step 0 */
        for (uint32_t iteration = window; from < p.s.steps.len && w->slice_count[window] < WIRE_SLICES_MAX;
             iteration++) {
            uint32_t next = iteration & 1 ? take_wide(&p, from) : 0;
            from = next ? next : take_narrow(&p, from);
        }
        plan_ways(&p);
    }
    footprint_clear(&p.foot);
    VEC_FREE(&p.ends);
    stream_free(&p.s);
}
