/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pieces of a window are replayed. A piece may reach only as much memory as stays in the first-level cache and in the
 * first-level TLB, and must be long enough to be timed. It ends, if possible, at an instruction that it does not
 * contain, so that nothing is added to its code; else at an instruction that it passes as seldom as may be, counted by a stub. */
#include "replay/impl.h"

enum {
    STEPS_LEAST = 600,
    STEPS_MOST = 8000,
    LINES_MOST = 224, /* of 64 bytes: 14 KB */
    PAGES_MOST = 40,
    PAGES_WIDE = 96, /* of a piece that shows what misses of the first-level TLB cost: half as many again as it holds */
    JUMP_BYTES = 5,
    INSN_BYTES_MOST = 15,
    VISITS_MOST = 4000, /* of a stub */
    STUB_STEPS = 4      /* what a visit costs, at most, in instructions of the program */
};

struct footprint {
    struct map lines, pages; /* lines: 1 if it is written */
    uint32_t unknown;        /* lines that gathers may reach */
};

struct planner {
    struct stream s;
    struct footprint foot;
    struct wire_windows *w;
    uint32_t pages_most;
    uint32_t window, piece; /* piece: number of the one that is looked at */
};

static void footprint_clear(struct footprint *f)
{
    map_fini(&f->lines);
    map_fini(&f->pages);
    *f = (struct footprint){0};
}

static void reach(struct footprint *f, uint64_t at, uint32_t bytes, bool writes)
{
    for (uint64_t line = at & ~63ull; line < at + bytes; line += 64) {
        uint64_t before = 0;
        if (!map_get(&f->lines, line, &before) || before < writes)
            map_put(&f->lines, line, writes || before);
        map_put(&f->pages, line / 4096, 1);
    }
}

/* false: the piece must end before this step. */
static bool add_step(struct planner *p, uint32_t step)
{
    const struct insn *k = insn_of(&p->s, step);
    if (k->is_barrier)
        return false;
    for (int a = 0; a < k->accesses; a++)
        reach(&p->foot, x86_access_address(&k->access[a], p->s.steps.data[step].regs, p->s.fs, p->s.gs), k->access[a].bytes,
              k->access[a].is_store);
    if (k->accesses < 0)
        p->foot.unknown += k->i.loads;
    return p->foot.lines.len + p->foot.unknown <= LINES_MOST && p->foot.pages.len + p->foot.unknown <= p->pages_most;
}

/* Was nothing of the jump's bytes executed in the piece so far? */
static bool is_free_for_jump(const struct planner *p, uint64_t at)
{
    for (uint64_t a = at - INSN_BYTES_MOST + 1; a < at + JUMP_BYTES; a++) {
        const struct insn *k = insn_at(&p->s, a);
        if (k && k->piece == p->piece && a + k->i.len > at)
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
    for (uint32_t k = from; k < p->s.steps.len && k - from < STEPS_MOST; k++) {
        struct insn *i = insn_of(&p->s, k);
        if (k - from >= STEPS_LEAST && i->piece != p->piece && is_free_for_jump(p, i->i.addr))
            g.end = k;
        if (!add_step(p, k))
            break;
        if (i->piece != p->piece)
            i->piece = p->piece, i->visits = 0, i->first = k;
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
        if (p->foot.lines.used[i] && p->foot.lines.vals[i] && out->line_count < WIRE_LINES_MOST)
            out->lines[out->line_count++] = p->foot.lines.keys[i];
}

static void take_slice(struct planner *p, uint32_t from, uint32_t end, uint64_t turns, struct wire_slice *out)
{
    out->first = from, out->last = end;
    out->patch_at = insn_of(&p->s, end)->i.addr;
    out->turns = turns;
    memcpy(out->begin, p->s.steps.data[from].regs, sizeof out->begin);
    memcpy(out->enter, out->begin, sizeof out->enter);
    memcpy(out->end, p->s.steps.data[end].regs, sizeof out->end);
    take_lines(p, from, end, out);
}

/* A loop that is left where its last jump is not taken. */
static bool take_bounded(struct planner *p, uint32_t from, uint32_t end, uint32_t turns, struct wire_slice *out)
{
    struct wire_slice own = *out;
    const struct x86_insn *jump = &insn_of(&p->s, end - 1)->i;
    if (!bound_loop(&p->s, from, end, &own) || !is_free_for_jump(p, jump->addr + jump->len))
        return false;
    take_slice(p, from, end, turns, out);
    memcpy(out->enter, own.enter, sizeof out->enter);
    memcpy(out->end, own.end, sizeof out->end);
    out->poke_at = own.poke_at, out->poke_bytes = own.poke_bytes;
    memcpy(out->poke, own.poke, sizeof out->poke);
    out->patch_at = jump->addr + jump->len;
    stub_end(out);
    return true;
}

/* Of those that are passed in most of the piece the instruction that is passed least often, with a stub that counts; if
 * that is often, rather a loop that ends by itself. */
static bool take_loop(struct planner *p, const struct piece *g, struct wire_slice *out)
{
    uint32_t best_visits = VISITS_MOST;
    bool found = false;
    for (uint32_t k = g->from; k < g->limit; k++) {
        const struct insn *i = insn_of(&p->s, k);
        uint32_t span = i->last - k, visits = i->visits;
        if (i->piece != p->piece || i->first != k || visits < 2 || visits > best_visits || span < STEPS_LEAST ||
            span < (g->limit - g->from) / 2)
            continue;
        if (visits * STUB_STEPS > span / 32 && take_bounded(p, k, i->last, visits - 1, out))
            return true;
        if (visits == best_visits || !stub_count(&p->s, k, i->last, out))
            continue;
        best_visits = visits;
        found = true;
        take_slice(p, k, i->last, visits, out);
    }
    return found;
}

/* Where to look next. */
static uint32_t take_piece(struct planner *p, const struct piece *g)
{
    uint32_t *count = &p->w->slice_count[p->window];
    struct wire_slice *out = &p->w->slice[p->window][*count];
    uint32_t length = g->limit - g->from;
    memset(out, 0, sizeof *out);
    if (g->end != ID_NONE && g->end - g->from >= length / 3) {
        stub_end(out);
        take_slice(p, g->from, g->end, 1, out);
    } else if (length < STEPS_LEAST || !take_loop(p, g, out)) {
        return g->limit > g->from + 64 ? g->from + (g->limit - g->from) / 2 : g->from + 32;
    }
    ++*count;
    return (uint32_t)out->last;
}

/* Reaches more pages than a first-level TLB holds, but no more lines than the cache. 0: there is none here; else where to look
 * next. */
static uint32_t take_wide(struct planner *p, uint32_t from)
{
    uint32_t *count = &p->w->slice_count[p->window], before = *count;
    p->pages_most = UINT32_MAX;
    struct piece g = grow(p, from);
    uint32_t next = p->foot.pages.len >= PAGES_WIDE ? take_piece(p, &g) : 0;
    bool is_wide = *count > before && p->foot.pages.len >= PAGES_WIDE; /* of what was taken of the piece */
    p->pages_most = PAGES_MOST;
    if (is_wide)
        p->w->slice[p->window][before].is_wide = 1;
    *count = before + is_wide;
    return is_wide ? next : 0;
}

static uint32_t take_narrow(struct planner *p, uint32_t from)
{
    struct piece g = grow(p, from);
    return take_piece(p, &g);
}

void replay_plan(struct wire_windows *w, uint32_t window)
{
    struct planner p = {.w = w, .window = window, .pages_most = PAGES_MOST};
    w->slice_count[window] = 0;
    if (stream_read(&p.s, w, window)) {
        uint32_t from = 1; /* the keeper stands before step 0 */
        for (uint32_t turn = window; from < p.s.steps.len && w->slice_count[window] < WIRE_SLICES_MOST; turn++) {
            uint32_t next = turn & 1 ? take_wide(&p, from) : 0;
            from = next ? next : take_narrow(&p, from);
        }
    }
    footprint_clear(&p.foot);
    stream_free(&p.s);
}
