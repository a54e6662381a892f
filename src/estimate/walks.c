/* SPDX-License-Identifier: Apache-2.0
 *
 * walks: windows of instructions, drawn by paths.c, through the core model; out come the ideal cycles of one execution
 * of every executed block. Three rounds: windows over the whole program, in equal batches whose differences give the
 * error of drawing; windows into loops and procedures that matter and got few; one short window for each block that was
 * never on the way. What is still left (more code than the budget can visit) gets the average of its surroundings. The
 * budget is counted in instructions, never in seconds, so that the same input gives the same figures.
 */
#include "estimate/walks.h"
#include "estimate/branches.h"
#include "estimate/replays.h"
#include "estimate/targets.h"
#include "estimate/windows.h"

#include <math.h>
#include <stdlib.h>

#define STEPS_A_SECOND 4e6 /* what the model manages at least; turns seconds of budget into instructions */
#define READY_STEPS 6      /* what it costs to make an instruction ready, in steps */
#define BATCHES 48
#define BATCHES_LEAST 6
#define SETTLED_SHARE 0.01 /* homes above this share of all instructions are known to ... */
#define SETTLED_ERROR 0.03 /* ... this standard error: far below the model's own */
#define WINDOW 4000        /* attributed instructions */
#define WARM 400           /* before them: about a reorder buffer */
#define SEEN_TIMES 32      /* of a block in windows: enough to go by */
#define SEEN_ENOUGH 0.9    /* of all instructions are in such blocks: no walks through the whole program */
#define WINDOWS_LONG 8     /* windows that take one in so many of the walks' instructions need none of them either */
#define HOME_SHARE 0.001   /* of all instructions: matters */
#define HOME_LEAST 4000    /* instructions that it should get */
#define HOME_WINDOWS 40
#define TABLE_MOST 1000000u /* static instructions that can be visited: 150 bytes each where touched */
#define PATH_MOST 512
#define SWEEP_ENOUGH 0.005 /* of all instructions: no sweep for so few */
#define SWEEP_AFTER 32     /* instructions that follow the block of a sweep */
#define BRANCHES_SEEN 0.3  /* of the instructions, by windows: less says nothing of the rest */
#define SHARED_SAID 1.05   /* by so much replays may be too long without a word */
#define TOOK_MOST 1.25     /* times what samples say of a home at most; they may fall behind it */
#define UNSEEN_ERROR 0.5   /* of cycles that are an average of the surroundings */

enum { INSN_RET, INSN_JUMP, INSN_FIRST }; /* stand-ins for code that is not known; then the program's own */

struct home { /* a loop's or function's own code: sums over batches */
    double cycles, insns, last_cycles, last_insns;
    double cycles2, insns2, cross;
};

struct walks {
    struct join *j;
    const struct machine *m;
    struct paths paths;
    struct sim_insn *table;
    struct sim_core *core, *branchy; /* branchy: with mispredicted branches, in windows of the real stream; or NULL */
    float *straight;                 /* by block: cycles in what `branchy` played, with every branch predicted */
    uint32_t *first;                 /* by block: its first instruction in the table; 0: not made ready */
    uint32_t used, most, batches;
    VEC(uint32_t) visited;      /* blocks made ready */
    struct home *homes;         /* loops, then functions */
    struct replays *replays;    /* NULL: no windows */
    struct targets *targets;    /* likewise */
    uint64_t steps;             /* instructions played */
    uint64_t spent, spent_most; /* the same with what else costs time, for the budget */
};

static uint32_t home_of(const struct walks *w, uint32_t block)
{
    const struct join_module *m = walk_module(w->j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    return b->loop != ID_NONE ? m->loop_base + b->loop : w->j->loop_count + m->func_base + b->func;
}

static const struct tally *home_self(const struct walks *w, uint32_t home)
{
    return home < w->j->loop_count ? &w->j->loops[home].self : &w->j->funcs[home - w->j->loop_count].self;
}

/* ---- blocks in the model's table ---- */

/* False: no room, or no bytes. */
static bool make_ready(struct walks *w, uint32_t block)
{
    if (w->first[block])
        return true;
    const struct join_module *m = walk_module(w->j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    const uint8_t *bytes = m->img ? image_at(m->img, b->addr, b->size) : NULL;
    if (!bytes || b->insn_count == 0 || b->insn_count > w->most - w->used)
        return false;
    uint32_t off = 0;
    for (uint32_t i = 0; i < b->insn_count; i++) {
        struct x86_insn insn;
        if (off >= b->size || !x86_decode(bytes + off, b->size - off, b->addr + off, &insn))
            return false;
        sim_insn_prepare(w->m, bytes + off, b->size - off, b->addr + off, &w->table[w->used + i]);
        off += insn.len;
    }
    w->first[block] = w->used;
    w->used += b->insn_count;
    w->spent += (uint64_t)b->insn_count * READY_STEPS;
    VEC_PUSH(&w->visited, block);
    return true;
}

static bool goes_elsewhere(const struct walks *w, const struct join_module *m, const struct cfg_block *b, uint32_t next,
                           bool opaque)
{
    if (b->term == X86_PLAIN)
        return false;
    if (opaque || next == ID_NONE)
        return b->term != X86_JCC;
    return walk_module(w->j, next) != m || walk_block(w->j, next)->addr != b->addr + b->size;
}

/* A call that does not land where it points went through a linkage stub. */
static bool is_through_stub(const struct walks *w, const struct cfg_block *b, uint32_t next, bool opaque)
{
    return b->term == X86_CALL && !opaque && next != ID_NONE && b->call_target != walk_block(w->j, next)->addr;
}

static bool play(struct walks *w, uint32_t block, uint32_t next, bool opaque)
{
    if (!make_ready(w, block))
        return false;
    const struct join_module *m = walk_module(w->j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    uint32_t last = w->first[block] + b->insn_count - 1;
    for (uint32_t i = w->first[block]; i < last; i++)
        sim_core_step(w->core, i, 0, 0);
    sim_core_step(w->core, last, 0, goes_elsewhere(w, m, b, next, opaque) ? SIM_TAKEN : 0);
    if (is_through_stub(w, b, next, opaque))
        sim_core_step(w->core, INSN_JUMP, 0, SIM_TAKEN);
    if (opaque)
        sim_core_step(w->core, INSN_RET, 0, SIM_TAKEN);
    w->steps += b->insn_count, w->spent += b->insn_count;
    return true;
}

/* ---- windows ---- */

/* Plays from `start` on, after `warm` instructions of the way that led there, until `insns` instructions are
 * attributed. */
static void window(struct walks *w, uint32_t start, uint32_t warm, uint32_t insns)
{
    uint32_t path[PATH_MOST], count = paths_before(&w->paths, start, warm, path, PATH_MOST);
    uint64_t begin, warmed = 0;
    bool opaque;
    for (uint32_t i = 0; i < count; i++)
        warmed += walk_block(w->j, path[i])->insn_count;
    sim_core_reset_pipeline(w->core, (uint32_t)min_u64(warmed, UINT32_MAX));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = i + 1 < count ? path[i + 1] : start;
        paths_follow(&w->paths, path[i], next, &opaque);
        if (!play(w, path[i], next, opaque))
            break;
    }
    begin = w->steps;
    for (uint32_t at = start, next; at != ID_NONE && w->steps - begin < insns; at = next) {
        next = paths_next(&w->paths, at, &opaque);
        if (next == ID_NONE)
            next = paths_draw_entry(&w->paths);
        if (!play(w, at, next, opaque))
            w->steps++, w->spent++; /* so that a program that is all unknown ends too */
    }
}

static double block_cycles(const struct walks *w, const struct sim_core *core, uint32_t block, uint64_t *executions)
{
    const struct cfg_block *b = walk_block(w->j, block);
    const struct sim_cost *c = sim_core_costs(core) + w->first[block];
    double sum = 0;
    *executions = UINT64_MAX;
    for (uint32_t i = 0; i < b->insn_count; i++) {
        *executions = min_u64(*executions, c[i].count);
        sum += c[i].count ? c[i].cycles / (double)c[i].count : 0;
    }
    return sum;
}

/* What each home got since the last batch. */
static void end_batch(struct walks *w)
{
    sim_core_flush(w->core);
    const struct sim_cost *costs = sim_core_costs(w->core);
    uint32_t homes = w->j->loop_count + w->j->func_count;
    for (uint32_t h = 0; h < homes; h++)
        w->homes[h].cycles = w->homes[h].insns = 0;
    for (size_t v = 0; v < w->visited.len; v++) {
        uint32_t block = w->visited.data[v];
        struct home *h = &w->homes[home_of(w, block)];
        for (uint32_t i = 0; i < walk_block(w->j, block)->insn_count; i++) {
            h->cycles += costs[w->first[block] + i].cycles;
            h->insns += (double)costs[w->first[block] + i].count;
        }
    }
    for (uint32_t i = 0; i < homes; i++) {
        struct home *h = &w->homes[i];
        double c = h->cycles - h->last_cycles, n = h->insns - h->last_insns;
        h->cycles2 += c * c, h->insns2 += n * n, h->cross += c * n;
        h->last_cycles = h->cycles, h->last_insns = h->insns;
    }
    w->batches++;
}

/* Standard error of a home's cycles per instruction, as a fraction: the ratio estimator over batches (Cochran
 * 1977, 6.4). */
static double home_error(const struct walks *w, const struct home *h)
{
    if (!(h->cycles > 0) || w->batches < 2)
        return 1;
    double r = h->cycles / h->insns, squares = h->cycles2 - 2 * r * h->cross + r * r * h->insns2;
    return sqrt(fmax(0, squares) * w->batches / (w->batches - 1)) / h->cycles;
}

static double home_share(const struct walks *w, uint32_t home)
{
    return (double)home_self(w, home)->instructions / (double)w->j->instructions;
}

static bool is_settled(const struct walks *w)
{
    for (uint32_t h = 0; h < w->j->loop_count + w->j->func_count; h++)
        if (home_share(w, h) > SETTLED_SHARE && home_error(w, &w->homes[h]) > SETTLED_ERROR)
            return false;
    return true;
}

/* Of the budget: for walks through the whole program. */
static uint64_t for_program(const struct walks *w) { return w->spent_most * 3 / 5; }

static void walk_program(struct walks *w)
{
    for (int i = 0; i < BATCHES && !(i >= BATCHES_LEAST && is_settled(w)); i++) {
        while (w->spent < for_program(w) * (uint64_t)(i + 1) / BATCHES)
            window(w, paths_draw_start(&w->paths), WARM, WINDOW);
        end_batch(w);
        diag_progress("simulating", w->spent, w->spent_most);
    }
}

/* ---- windows of the real stream ---- */

#define VADDR(place) ((place)&0xfffffffffu)

/* ID_NONE: in no block that was executed. */
static uint32_t block_of_place(const struct walks *w, uint64_t place)
{
    uint32_t module = (uint32_t)(place >> 36);
    if (module >= w->j->module_count || !w->j->modules[module].cfg)
        return ID_NONE;
    const struct join_module *m = &w->j->modules[module];
    uint32_t b = cfg_block_at(m->cfg, VADDR(place));
    return b == ID_NONE || w->j->counts[m->block_base + b] == 0 ? ID_NONE : m->block_base + b;
}

static uint32_t index_of_place(void *ctx, uint64_t place)
{
    struct walks *w = ctx;
    uint32_t b = block_of_place(w, place);
    if (b == ID_NONE || !make_ready(w, b))
        return ID_NONE;
    for (uint32_t i = w->first[b]; i < w->first[b] + walk_block(w->j, b)->insn_count; i++)
        if (w->table[i].addr == VADDR(place))
            return i;
    return ID_NONE;
}

static uint32_t home_of_place(void *ctx, uint64_t place) { return home_of(ctx, block_of_place(ctx, place)); }

/* Of calls and jumps whose target the code does not tell. */
static void see_target(void *ctx, uint64_t from, uint64_t to)
{
    struct walks *w = ctx;
    uint32_t site = block_of_place(w, from), target = block_of_place(w, to);
    const struct cfg_block *b = walk_block(w->j, site);
    if ((b->term != X86_CALL_IND && b->term != X86_JMP_IND) || w->j->calls->to[site] != ID_NONE)
        return;
    bool is_known = target != ID_NONE && walk_block(w->j, target)->addr == VADDR(to);
    targets_see(w->targets, site, is_known ? target : ID_NONE);
}

/* What blocks cost with every branch predicted, in the same stretches that the other core played. */
static void remember_straight(struct walks *w)
{
    uint64_t executions;
    w->straight = ARENA_ARRAY(w->j->scratch, float, w->j->block_count + 1);
    for (size_t v = 0; v < w->visited.len; v++)
        w->straight[w->visited.data[v]] = (float)block_cycles(w, w->core, w->visited.data[v], &executions);
}

static void walk_bursts(struct walks *w, struct window_player *p)
{
    for (size_t i = 0; i < w->j->in->burst_count; i++) {
        uint64_t played = window_play(p, w->j->in->bursts[i].window, w->j->in->bursts[i].wrong);
        w->steps += played, w->spent += played;
        end_batch(w);
    }
}

static void warn_of_neighbour(const struct walks *w)
{
    double shared = replays_shared(w->replays);
    if (shared > SHARED_SAID)
        prof_warn(w->j->r, PROF_WARN_REPLAYS_SHARED,
                  "another program shared the core beside nearly all replays: ideal times may be up to %.0f %% lower",
                  100 * (1 - 1 / shared));
}

static void walk_windows(struct walks *w)
{
    struct window_player p = {
        .core = w->core, .table = w->table, .index_of = index_of_place, .went = see_target, .ctx = w, .warm = WARM};
    if (!w->j->in->window_count && !w->j->in->burst_count)
        return;
    w->targets = ARENA_ARRAY(w->j->scratch, struct targets, 1);
    p.branchy = w->branchy = sim_core_new(w->m, w->table, w->most, NULL);
    p.aside = sim_core_new(w->m, w->table, w->most, NULL);
    walk_bursts(w, &p);
    p.branches_told = w->j->in->burst_count > 0;
    if (p.branches_told)
        remember_straight(w);
    p.predictor = sim_predictor_new();
    w->replays = replays_new(home_of_place, w);
    replays_see(w->replays, w->j->in->windows, w->j->in->window_count);
    warn_of_neighbour(w);
    for (size_t i = 0; i < w->j->in->window_count; i++) {
        replays_add(w->replays, &p, &w->j->in->windows[i]);
        uint64_t played = window_play(&p, w->j->in->windows[i].window, NULL);
        w->steps += played, w->spent += played;
        end_batch(w);
    }
    if (!p.branches_told)
        remember_straight(w);
    targets_share(w->j, w->paths.outside, w->targets);
    w->j->targets = w->targets;
    sim_core_free(p.aside);
    sim_predictor_free(p.predictor);
}

/* A block of the home, in proportion to what it executed. */
static uint32_t draw_in_home(struct walks *w, const struct join_module *m, uint32_t func, uint32_t loop, uint64_t all)
{
    const struct cfg_func *f = &m->cfg->funcs.data[func];
    uint64_t pick = rng_below(&w->paths.rng, all);
    for (uint32_t b = f->block_first; b < f->block_first + f->block_count; b++) {
        const struct cfg_block *block = &m->cfg->blocks.data[b];
        uint64_t n = block->loop == loop ? w->j->counts[m->block_base + b] * block->insn_count : 0;
        if (pick < n)
            return m->block_base + b;
        pick -= n;
    }
    return ID_NONE;
}

static void walk_home(struct walks *w, const struct join_module *m, uint32_t func, uint32_t loop, uint32_t home)
{
    uint64_t all = home_self(w, home)->instructions;
    double lacks = HOME_LEAST - w->homes[home].insns;
    if (all == 0 || home_share(w, home) < HOME_SHARE || lacks <= 0)
        return;
    for (int i = 0; i < HOME_WINDOWS && w->spent < w->spent_most * 4 / 5; i++)
        window(w, draw_in_home(w, m, func, loop, all), WARM / 2, HOME_LEAST / HOME_WINDOWS * 2);
}

static void walk_homes(struct walks *w)
{
    for (uint32_t i = 0; i < w->j->module_count; i++) {
        const struct join_module *m = &w->j->modules[i];
        if (!m->cfg)
            continue;
        for (uint32_t l = 0; l < m->cfg->loops.len; l++)
            walk_home(w, m, m->cfg->loops.data[l].func, l, m->loop_base + l);
        for (uint32_t f = 0; f < m->cfg->funcs.len; f++)
            walk_home(w, m, f, ID_NONE, w->j->loop_count + m->func_base + f);
    }
    sim_core_flush(w->core);
}

struct weighed {
    uint64_t weight;
    uint32_t block;
};

static int compare_weighed(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static uint64_t times_played(const struct walks *w, uint32_t block)
{
    uint64_t executions = 0;
    if (w->first[block])
        block_cycles(w, w->core, block, &executions);
    return executions;
}

/* Blocks that no window met, the heaviest first, until the budget is used up. */
static void walk_unseen(struct walks *w)
{
    VEC(struct weighed) v = {0};
    uint64_t left = 0;
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        uint64_t before = i ? w->paths.executed.upto[i - 1] : 0;
        if (!times_played(w, block))
            VEC_PUSH(&v, ((struct weighed){w->paths.executed.upto[i] - before, block}));
    }
    if (v.len)
        qsort(v.data, v.len, sizeof *v.data, compare_weighed);
    for (size_t i = 0; i < v.len; i++)
        left += v.data[i].weight;
    for (size_t i = 0; i < v.len && w->spent < w->spent_most; left -= v.data[i].weight, i++) {
        if ((double)left < SWEEP_ENOUGH * (double)w->j->instructions)
            break;
        window(w, v.data[i].block, WARM / 4, walk_block(w->j, v.data[i].block)->insn_count + SWEEP_AFTER);
    }
    sim_core_flush(w->core);
    VEC_FREE(&v);
}

/* Are windows of the real stream all that is needed? Walks go by what is likely: they know of no addresses, and of few
 * targets of indirect calls. */
static bool windows_are_enough(const struct walks *w)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        if (times_played(w, block) >= SEEN_TIMES)
            seen += w->j->counts[block] * walk_block(w->j, block)->insn_count;
    }
    return w->spent >= for_program(w) / WINDOWS_LONG || (double)seen >= SEEN_ENOUGH * (double)w->j->instructions;
}

/* ---- results ---- */

struct average {
    double cycles, insns; /* of seen blocks, all their executions */
    double unseen_insns;
};

static void add_seen(struct walks *w, struct average *homes, struct average *whole)
{
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i], home = home_of(w, block);
        uint64_t executions = 0;
        double insns = (double)w->j->counts[block] * walk_block(w->j, block)->insn_count;
        double cycles = w->first[block] ? block_cycles(w, w->core, block, &executions) : 0;
        if (executions == 0) {
            homes[home].unseen_insns += insns, whole->unseen_insns += insns;
            w->j->cycles[block] = -1;
            continue;
        }
        w->j->cycles[block] = (float)cycles;
        homes[home].insns += insns, whole->insns += insns;
        homes[home].cycles += cycles * (double)w->j->counts[block],
            whole->cycles += cycles * (double)w->j->counts[block];
    }
}

/* What mispredicted branches add to one execution of a block that windows saw; below 0: they did not. */
static double branch_cycles_seen(const struct walks *w, uint32_t block)
{
    uint64_t executions = 0;
    double cycles = w->first[block] ? block_cycles(w, w->branchy, block, &executions) : 0;
    return executions ? fmax(0, cycles - (double)w->straight[block]) : -1;
}

static double branch_rate(const struct average *home, const struct average *whole)
{
    const struct average *a = home->insns > 0 ? home : whole;
    return a->cycles / a->insns;
}

/* Blocks that no window met get the average of their surroundings. */
static void take_branches(struct walks *w)
{
    struct average whole = {0}, *homes = xmalloc((w->j->loop_count + w->j->func_count + 1) * sizeof *homes);
    float *out = ARENA_ARRAY(w->j->scratch, float, w->j->block_count + 1);
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        double insns = (double)w->j->counts[block] * walk_block(w->j, block)->insn_count,
               cycles = branch_cycles_seen(w, block);
        out[block] = (float)cycles;
        if (cycles < 0) {
            whole.unseen_insns += insns;
            continue;
        }
        struct average *home = &homes[home_of(w, block)];
        home->insns += insns, whole.insns += insns;
        home->cycles += cycles * (double)w->j->counts[block], whole.cycles += cycles * (double)w->j->counts[block];
    }
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        if (out[block] < 0)
            out[block] = (float)(branch_rate(&homes[home_of(w, block)], &whole) * walk_block(w->j, block)->insn_count);
    }
    if (whole.insns >= BRANCHES_SEEN * (whole.insns + whole.unseen_insns))
        w->j->branch_cycles = out;
    free(homes);
}

static void fill_unseen(struct walks *w, const struct average *homes, const struct average *whole)
{
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        const struct average *a = &homes[home_of(w, block)];
        if (!(w->j->cycles[block] < 0))
            continue;
        if (!(a->insns > 0))
            a = whole;
        w->j->cycles[block] = (float)(a->cycles / a->insns * walk_block(w->j, block)->insn_count);
    }
}

static void set_errors(struct walks *w, const struct average *homes)
{
    for (uint32_t h = 0; h < w->j->loop_count + w->j->func_count; h++) {
        double all = homes[h].insns + homes[h].unseen_insns;
        if (!(all > 0))
            continue;
        double drawn = fmin(UNSEEN_ERROR, home_error(w, &w->homes[h]));
        double err = hypot(drawn, UNSEEN_ERROR * homes[h].unseen_insns / all);
        if (h < w->j->loop_count)
            w->j->loops[h].cycles_err = err;
        else
            w->j->funcs[h - w->j->loop_count].cycles_err = err;
    }
}

static struct join_replay *home_replay(struct walks *w, uint32_t home)
{
    return home < w->j->loop_count ? &w->j->loops[home].replay : &w->j->funcs[home - w->j->loop_count].replay;
}

static struct branches_home *branches_of_homes(const struct walks *w, const struct join_replay *told, uint32_t count)
{
    struct branches_home *homes = ARENA_ARRAY(w->j->scratch, struct branches_home, count + 1);
    for (uint32_t h = 0; h < count; h++)
        homes[h].replay = told[h];
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        struct branches_home *home = &homes[home_of(w, block)];
        double factor = home->replay.factor > 0 ? home->replay.factor : 1;
        home->branch += (double)w->j->counts[block] * (double)w->j->branch_cycles[block];
        home->cycles += (double)w->j->counts[block] * (double)w->j->cycles[block] * factor;
        home->samples += w->j->samples[block];
    }
    return homes;
}

static void take_judged_branches(struct walks *w, const struct join_replay *told, uint32_t count)
{
    struct branches_home *homes = branches_of_homes(w, told, count);
    branches_judge(w->j, homes, count);
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        w->j->branch_cycles[block] *= (float)homes[home_of(w, block)].part;
    }
}

/* Of each home, what the model says of an instruction on average, and what the program took for it at most. */
static struct fit_known cycles_an_instruction(const struct walks *w, uint32_t count)
{
    struct arena *a = w->j->scratch;
    double *cycles = ARENA_ARRAY(a, double, count + 1), *most = ARENA_ARRAY(a, double, count + 1),
           *instructions = ARENA_ARRAY(a, double, count + 1);
    uint64_t *samples = ARENA_ARRAY(a, uint64_t, count + 1);
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i], h = home_of(w, block);
        cycles[h] += (double)w->j->counts[block] * (double)w->j->cycles[block];
        instructions[h] += (double)w->j->counts[block] * walk_block(w->j, block)->insn_count;
        samples[h] += w->j->samples[block];
    }
    for (uint32_t h = 0; h < count; h++) {
        double took = TOOK_MOST * actual_of(w->j, samples[h]).high * w->j->core_hz;
        cycles[h] = instructions[h] > 0 ? cycles[h] / instructions[h] : 0;
        most[h] = isfinite(took) && instructions[h] > 0 ? took / instructions[h] : INFINITY;
    }
    return (struct fit_known){cycles, most, w->j->model_error.p90};
}

static void take_replays(struct walks *w)
{
    uint32_t count = w->j->loop_count + w->j->func_count;
    struct join_replay *told = ARENA_ARRAY(w->j->scratch, struct join_replay, count + 1);
    struct fit_known known = cycles_an_instruction(w, count);
    replays_tell(w->replays, w->core, &known, count, told);
    if (w->j->branch_cycles)
        take_judged_branches(w, told, count);
    for (uint32_t h = 0; h < count; h++)
        *home_replay(w, h) = told[h];
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i], h = home_of(w, block);
        if (told[h].factor > 0)
            w->j->cycles[block] *= (float)told[h].factor;
    }
}

static bool take_results(struct walks *w)
{
    struct average whole = {0};
    struct average *homes = xmalloc((w->j->loop_count + w->j->func_count + 1) * sizeof *homes);
    w->j->cycles = ARENA_ARRAY(w->j->scratch, float, w->j->block_count + 1);
    add_seen(w, homes, &whole);
    bool any = whole.insns > 0;
    if (any) {
        fill_unseen(w, homes, &whole);
        set_errors(w, homes);
        if (w->branchy)
            take_branches(w);
        sim_core_free(w->branchy);
        w->branchy = NULL;
        if (w->replays)
            take_replays(w);
        double unseen = whole.unseen_insns / (whole.insns + whole.unseen_insns);
        if (unseen > 0.02)
            prof_warn(w->j->r, PROF_WARN_MODEL_COVERAGE,
                      "%.0f %% of the instructions got an average of their surroundings", 100 * unseen);
    } else {
        w->j->cycles = NULL;
    }
    free(homes);
    return any;
}

static uint32_t executed_insns(const struct walks *w)
{
    uint64_t sum = INSN_FIRST;
    for (uint32_t i = 0; i < w->paths.executed.count; i++)
        sum += walk_block(w->j, w->paths.executed.blocks[i])->insn_count;
    return (uint32_t)min_u64(sum, TABLE_MOST);
}

static void make_stand_ins(struct walks *w)
{
    static const uint8_t ret[] = {0xc3}, jump[] = {0xff, 0x25, 0, 0, 0, 0};
    sim_insn_prepare(w->m, ret, sizeof ret, 0, &w->table[INSN_RET]);
    sim_insn_prepare(w->m, jump, sizeof jump, 64, &w->table[INSN_JUMP]);
    w->used = INSN_FIRST;
}

static bool has_code(const struct join *j)
{
    for (uint32_t i = 0; i < j->module_count; i++)
        if (j->modules[i].img && j->modules[i].instructions)
            return true;
    return false;
}

void walks_run(struct join *j)
{
    if (!j->in->machine || !(j->core_hz > 0) || !has_code(j))
        return;
    struct walks *w = xmalloc(sizeof *w);
    w->j = j;
    w->m = j->in->machine;
    paths_init(&w->paths, j, j->in->seed);
    w->most = executed_insns(w);
    w->table = xmalloc_sparse(w->most * sizeof *w->table);
    w->first = xmalloc((j->block_count + 1) * sizeof *w->first);
    w->homes = xmalloc((j->loop_count + j->func_count + 1) * sizeof *w->homes);
    make_stand_ins(w);
    w->core = sim_core_new(w->m, w->table, w->most, NULL);
    w->spent_most = (uint64_t)((j->in->sim_budget_s > 0 ? j->in->sim_budget_s : 4) * STEPS_A_SECOND);
    walk_windows(w);
    if (!windows_are_enough(w))
        walk_program(w);
    walk_homes(w);
    walk_unseen(w);
    diag_debug(2, "walks: %llu steps in %u batches over %zu blocks", (unsigned long long)w->steps, w->batches,
               w->visited.len);
    diag_progress_end();
    if (take_results(w))
        j->walks = w;
    else
        walks_free(w);
}

void walks_free(struct walks *w)
{
    if (!w)
        return;
    sim_core_free(w->core);
    sim_core_free(w->branchy);
    if (w->replays)
        replays_free(w->replays);
    free(w->table);
    free(w->first);
    free(w->homes);
    VEC_FREE(&w->visited);
    free(w);
}

static double cycles_of(const struct sim_cost *c) { return c->count ? c->cycles / (double)c->count : 0; }

static void add_bound(const struct walks *w, uint32_t block, const struct sim_cost *c, struct bound_sums *to)
{
    double times = c->count ? (double)w->j->counts[block] / (double)c->count : 0;
    for (int b = 0; b < SIM_BOUND_COUNT; b++)
        to->by[b] += times * (double)c->bound[b];
    if (c->unit < MACHINE_PORT_MAX)
        to->by_port[c->unit] += times * (double)c->unit_cycles;
}

void walks_add_bound(const struct walks *w, uint32_t block, struct bound_sums *to)
{
    for (uint32_t i = 0; w->first[block] && i < walk_block(w->j, block)->insn_count; i++)
        add_bound(w, block, sim_core_costs(w->core) + w->first[block] + i, to);
}

double walks_add_bound_of(const struct walks *w, uint32_t block, uint32_t n, struct bound_sums *to)
{
    double all = 0;
    const struct sim_cost *c = sim_core_costs(w->core) + w->first[block];
    for (uint32_t i = 0; w->first[block] && i < walk_block(w->j, block)->insn_count; i++)
        all += cycles_of(&c[i]);
    if (!(all > 0) || n >= walk_block(w->j, block)->insn_count)
        return NAN;
    add_bound(w, block, &c[n], to);
    return cycles_of(&c[n]) / all;
}

/* Ports of one unit are one name. */
static const char *heaviest_unit(const struct walks *w, const struct bound_sums *s)
{
    const char *best = NULL;
    double most = 0;
    for (unsigned p = 0; p < machine_port_count(w->m); p++) {
        double sum = 0;
        for (unsigned q = 0; q < machine_port_count(w->m); q++)
            if (strcmp(machine_port_name(w->m, p), machine_port_name(w->m, q)) == 0)
                sum += s->by_port[q];
        if (sum > most)
            most = sum, best = machine_port_name(w->m, p);
    }
    return best;
}

const char *walks_bound_name(const struct walks *w, const struct bound_sums *s, struct arena *a)
{
    int best = 0;
    for (int b = 1; b < SIM_BOUND_COUNT; b++)
        if (s->by[b] > s->by[best])
            best = b;
    if (!(s->by[best] > 0))
        return NULL;
    const char *unit = best == SIM_BOUND_UNIT ? heaviest_unit(w, s) : NULL;
    if (unit)
        return arena_printf(a, "unit %s", unit);
    return best == SIM_BOUND_FETCH ? "front end" : arena_strdup(a, sim_bound_name((enum sim_bound)best));
}
