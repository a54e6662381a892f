/* SPDX-License-Identifier: Apache-2.0
 *
 * Cycles and stalls on a described machine that issues in order, from counts of blocks and edges. How long a block
 * takes depends on the state of the pipeline where it begins (the paper's ends-with-store bit is such a state): so
 * states are carried from block to block, over all edges that were taken, into callees and back to where they were
 * called, until no new one comes. What comes in over an edge is then known: where it is one state, or all of them take
 * the same time, the edge's count times that is exact; else the result is between two bounds. Code that is not
 * rewritten leaves the pipeline empty, and its own time is nobody's.
 */
#include <stdlib.h>

#include "ld/code.h"
#include "sim/sim.h"

enum { PAIRS_MAX = 4000000 };

struct step { /* a block from a state */
    uint32_t state, out;
    int64_t ticks, stalls;
};
struct steps {
    struct step *data;
    size_t len, cap;
};
struct maker {
    const struct machine *machine;
    struct ld_code code;
    const struct ld_blocks *all;
    struct sim_shapes *shapes;
    struct sim_insn **insns;           /* [blocks] made ready; NULL: not yet */
    VEC(struct sim_pipeline *) states; /* [0] is the empty one */
    struct map state_of;               /* hash -> state + 1, of those with one hash the first */
    VEC(uint32_t) same_hash;           /* [states] the next with that hash + 1 */
    struct sim_pipeline *scratch;
    struct steps *steps; /* [blocks] */
    VEC(uint64_t) work;  /* block << 32 | state */
    uint64_t pairs;
    uint32_t *func_of;  /* [blocks] */
    struct map func_at; /* address of an entrance -> function */
    struct callees {
        uint32_t direct; /* function, ID_NONE: unknown, or not rewritten */
        uint32_t block;  /* of a jump into the middle of another function, else ID_NONE */
        bool is_call, is_pointer, leaves;
        bool is_external; /* of another file, which leaves the pipeline empty */
    } * ends;             /* [blocks] */
    struct sets {
        VEC(uint32_t) states;
    } * returned, *entered;            /* [functions]: with which states control returned from, came into */
    struct sets pointed, any_returned; /* at calls through pointers; of all returns */
    VEC(uint32_t) return_points_any;   /* blocks behind calls of what is not known */
    struct lists {
        VEC(uint32_t) v;
    } * return_points, *tails; /* [functions]: blocks behind its calls; functions that jump to it */
    VEC(uint32_t) tails_any;   /* functions that jump to what is not known */
    uint64_t *known_entries;   /* [functions] times entered by direct calls and jumps */
    bool *is_open;             /* [functions] it was entered in other ways too */
    bool is_changed;
};

/* ---- states ---- */

static uint32_t intern(struct maker *m, const struct sim_pipeline *p)
{
    uint64_t *first = map_place(&m->state_of, sim_pipeline_hash(p));
    for (uint64_t i = *first; i; i = m->same_hash.data[i - 1])
        if (sim_pipeline_is_same(m->states.data[i - 1], p))
            return (uint32_t)i - 1;
    struct sim_pipeline *kept = sim_pipeline_new(m->machine);
    sim_pipeline_copy(kept, p);
    VEC_PUSH(&m->same_hash, (uint32_t)*first);
    VEC_PUSH(&m->states, kept);
    *first = m->states.len;
    return (uint32_t)m->states.len - 1;
}

static void add_to(struct maker *m, struct sets *s, uint32_t state)
{
    for (size_t i = 0; i < s->states.len; i++)
        if (s->states.data[i] == state)
            return;
    VEC_PUSH(&s->states, state);
    m->is_changed = true;
}

/* ---- one block ---- */

static void prepare(struct maker *m, uint32_t b)
{
    const struct ld_block *blk = &m->all->blocks.data[b];
    uint64_t at[LD_CODE_INSNS_MAX];
    m->insns[b] = xmalloc((blk->insns + 1) * sizeof *m->insns[b]);
    bool is_read = ld_code_of(&m->code, blk, at);
    for (uint32_t i = 0; i < blk->insns; i++) {
        size_t avail = 15;
        const uint8_t *p = NULL;
        while (is_read && avail && !(p = image_at(m->code.img, at[i], avail)))
            avail--;
        static const uint8_t nothing = 0x90;
        sim_insn_prepare(m->machine, m->shapes, p ? p : &nothing, p ? avail : 1, at[i], &m->insns[b][i]);
    }
}

/* The step of a block from a state, made if it is new; *is_new. */
static const struct step *step_of(struct maker *m, uint32_t b, uint32_t state, bool *is_new)
{
    struct steps *all = &m->steps[b];
    for (size_t i = 0; i < all->len; i++)
        if (all->data[i].state == state)
            return *is_new = false, &all->data[i];
    if (!m->insns[b])
        prepare(m, b);
    struct step s = {.state = state};
    sim_pipeline_copy(m->scratch, m->states.data[state]);
    int64_t from = sim_pipeline_ticks(m->scratch), stalls = sim_pipeline_stalls(m->scratch);
    for (uint32_t i = 0; i < m->all->blocks.data[b].insns; i++)
        sim_pipeline_issue(m->scratch, &m->insns[b][i]);
    s.ticks = sim_pipeline_ticks(m->scratch) - from;
    s.stalls = sim_pipeline_stalls(m->scratch) - stalls;
    sim_pipeline_rebase(m->scratch);
    s.out = intern(m, m->scratch);
    VEC_PUSH(all, s);
    m->pairs++;
    *is_new = true;
    return &all->data[all->len - 1];
}

/* ---- who comes behind whom ---- */

static bool is_executed(const struct maker *m, uint32_t b) { return m->all->blocks.data[b].count != 0; }

static void come(struct maker *m, uint32_t b, uint32_t state)
{
    bool is_new;
    if (b == ID_NONE || !is_executed(m, b) || m->pairs > PAIRS_MAX)
        return;
    step_of(m, b, state, &is_new);
    if (is_new)
        VEC_PUSH(&m->work, (uint64_t)b << 32 | state);
}

static void come_into(struct maker *m, uint32_t f, uint32_t state)
{
    add_to(m, &m->entered[f], state);
    come(m, (uint32_t)m->all->functions.data[f].first, state);
}

/* What a function's end leaves, where it was called, and where functions that ended in a jump to it were. */
static void give_back(struct maker *m, uint32_t f, uint32_t state)
{
    size_t before = m->returned[f].states.len;
    add_to(m, &m->returned[f], state);
    if (m->returned[f].states.len == before)
        return;
    for (size_t i = 0; i < m->return_points[f].v.len; i++)
        come(m, m->return_points[f].v.data[i], state);
    for (size_t i = 0; i < m->tails[f].v.len; i++)
        give_back(m, m->tails[f].v.data[i], state);
    before = m->any_returned.states.len;
    add_to(m, &m->any_returned, state);
    if (m->any_returned.states.len == before)
        return;
    for (size_t i = 0; i < m->return_points_any.len; i++)
        come(m, m->return_points_any.data[i], state);
    for (size_t i = 0; i < m->tails_any.len; i++)
        give_back(m, m->tails_any.data[i], state);
}

static void leave(struct maker *m, uint32_t b, uint32_t state)
{
    const struct callees *end = &m->ends[b];
    if (end->direct != ID_NONE)
        come_into(m, end->direct, state);
    if (end->is_pointer)
        add_to(m, &m->pointed, state);
    if (end->block != ID_NONE)
        come(m, end->block, state);
    if (m->all->blocks.data[b].term == X86_RET)
        give_back(m, m->func_of[b], state);
    else if (end->leaves && end->direct == ID_NONE && end->block == ID_NONE)
        give_back(m, m->func_of[b], 0);
}

/* Of jumps that share a table nobody knows which of them took which entry: all may have. */
static bool was_taken(const struct ld_edge *e) { return e->to != ID_NONE && (e->count || e->kind == CFG_EDGE_TABLE); }

static void follow(struct maker *m)
{
    while (m->work.len && m->pairs <= PAIRS_MAX) {
        uint64_t w = m->work.data[--m->work.len];
        uint32_t b = (uint32_t)(w >> 32);
        bool is_new;
        uint32_t out = step_of(m, b, (uint32_t)w, &is_new)->out;
        const struct ld_block *blk = &m->all->blocks.data[b];
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++)
            if (was_taken(&m->all->edges.data[e]))
                come(m, m->all->edges.data[e].to, out);
        leave(m, b, out);
    }
}

/* ---- the ends of blocks ---- */

static uint32_t return_point(const struct maker *m, const struct ld_block *blk)
{
    for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++)
        if (m->all->edges.data[e].kind == CFG_EDGE_RETURN)
            return m->all->edges.data[e].to;
    return ID_NONE;
}

static bool goes_elsewhere(const struct maker *m, const struct ld_block *blk)
{
    for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++)
        if (m->all->edges.data[e].kind == CFG_EDGE_TAIL || m->all->edges.data[e].kind == CFG_EDGE_OUT)
            return true;
    return false;
}

/* Times that a block left its function by its last jump or call: what did not go on inside. */
static uint64_t times_left(const struct maker *m, uint32_t b)
{
    const struct ld_block *blk = &m->all->blocks.data[b];
    uint64_t inside = 0;
    for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
        const struct ld_edge *ed = &m->all->edges.data[e];
        inside += ed->to != ID_NONE && ed->kind != CFG_EDGE_RETURN ? ed->count : 0;
    }
    return blk->count - min_u64(inside, blk->count);
}

/* The block whose code, or what counts its entrances in front of it, begins at an address. */
static uint32_t block_at(const struct maker *m, uint64_t address)
{
    enum { INSERTED_MAX = 48 };
    for (size_t f = 0; f < m->all->functions.len; f++) {
        const struct ld_function *fn = &m->all->functions.data[f];
        if (!fn->count || address < fn->address || address >= m->all->blocks.data[fn->first + fn->count - 1].end)
            continue;
        for (size_t b = fn->first; b < fn->first + fn->count; b++)
            if (m->all->blocks.data[b].address - address <= INSERTED_MAX)
                return (uint32_t)b;
    }
    return ID_NONE;
}

/* Behind a stub of the linker's for a function of another file. */
static bool is_of_other_file(const struct maker *m, uint64_t target)
{
    const struct image_section *s = image_section_of(m->code.img, target);
    return s && strstr(s->name, "plt") && !m->code.img->is_static && m->code.img->kind != IMAGE_DSO;
}

static void look_at_end(struct maker *m, uint32_t b)
{
    const struct ld_block *blk = &m->all->blocks.data[b];
    struct callees *end = &m->ends[b];
    uint64_t at[LD_CODE_INSNS_MAX], f;
    struct x86_detail d;
    end->direct = end->block = ID_NONE;
    if (!is_executed(m, b) || !blk->insns || !ld_code_of(&m->code, blk, at) ||
        !ld_code_decode(&m->code, at[blk->insns - 1], &d))
        return;
    end->is_call = x86_is_call(&d.insn);
    end->leaves = !end->is_call && d.insn.kind != X86_RET && goes_elsewhere(m, blk);
    if ((end->is_call || end->leaves) &&
        (d.insn.kind == X86_CALL || d.insn.kind == X86_JMP || d.insn.kind == X86_JCC) &&
        map_get(&m->func_at, d.insn.target, &f))
        end->direct = (uint32_t)f;
    bool is_direct = d.insn.kind == X86_CALL || d.insn.kind == X86_JMP || d.insn.kind == X86_JCC;
    if (end->leaves && is_direct && end->direct == ID_NONE)
        end->block = block_at(m, d.insn.target);
    end->is_external = is_direct && is_of_other_file(m, d.insn.target);
    end->is_pointer = d.insn.kind == X86_CALL_IND || (end->leaves && d.insn.kind == X86_JMP_IND);
    if (end->direct != ID_NONE && end->is_call)
        VEC_PUSH(&m->return_points[end->direct].v, return_point(m, blk));
    else if (end->direct != ID_NONE)
        VEC_PUSH(&m->tails[end->direct].v, m->func_of[b]);
    else if (end->is_call && return_point(m, blk) != ID_NONE && !end->is_external)
        VEC_PUSH(&m->return_points_any, return_point(m, blk));
    else if (end->leaves && end->block == ID_NONE && !end->is_external)
        VEC_PUSH(&m->tails_any, m->func_of[b]);
    bool is_inside = false; /* a jump that passes by what counts entrances, but is an edge */
    for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++)
        is_inside |= m->all->edges.data[e].kind == CFG_EDGE_TAIL && m->all->edges.data[e].to != ID_NONE;
    if (end->direct != ID_NONE && is_inside)
        end->direct = ID_NONE, end->leaves = false; /* carried along the edge; returns: see tails */
    else if (end->direct != ID_NONE)
        m->known_entries[end->direct] += end->is_call ? blk->count : times_left(m, b);
}

/* Whatever may come from elsewhere: through pointers, and from code that leaves the pipeline empty. */
static void seed(struct maker *m)
{
    enum { ELSEWHERE = CFG_BLOCK_LANDING_PAD | CFG_BLOCK_ADDR_TAKEN };
    for (uint32_t f = 0; f < m->all->functions.len; f++) {
        const struct ld_function *fn = &m->all->functions.data[f];
        m->is_open[f] = fn->calls > m->known_entries[f];
        if (m->is_open[f])
            come_into(m, f, 0);
        for (uint32_t b = (uint32_t)fn->first; b < fn->first + fn->count; b++)
            if (m->all->blocks.data[b].flags & ELSEWHERE)
                come(m, b, 0);
    }
    for (uint32_t b = 0; b < m->all->blocks.len; b++)
        if (m->ends[b].is_call && m->ends[b].direct == ID_NONE && is_executed(m, b))
            come(m, return_point(m, &m->all->blocks.data[b]), 0);
}

/* Pools that every pointer may lead to: until nothing new comes. */
static void solve(struct maker *m)
{
    seed(m);
    follow(m);
    do {
        m->is_changed = false;
        for (size_t i = 0; i < m->pointed.states.len; i++)
            for (uint32_t f = 0; f < m->all->functions.len && m->pairs <= PAIRS_MAX; f++)
                if (m->is_open[f])
                    come_into(m, f, m->pointed.states.data[i]);
        follow(m);
    } while (m->is_changed && m->pairs <= PAIRS_MAX);
}

/* ---- sums ---- */

struct bounds {
    int64_t ticks[2], stalls[2]; /* least and most */
};

static void widen(struct bounds *to, const struct step *s, bool is_first)
{
    to->ticks[0] = is_first || s->ticks < to->ticks[0] ? s->ticks : to->ticks[0];
    to->ticks[1] = is_first || s->ticks > to->ticks[1] ? s->ticks : to->ticks[1];
    to->stalls[0] = is_first || s->stalls < to->stalls[0] ? s->stalls : to->stalls[0];
    to->stalls[1] = is_first || s->stalls > to->stalls[1] ? s->stalls : to->stalls[1];
}

static void add_times(struct bounds *to, const struct bounds *b, uint64_t count)
{
    for (int k = 0; k < 2; k++) {
        to->ticks[k] += b->ticks[k] * (int64_t)count;
        to->stalls[k] += b->stalls[k] * (int64_t)count;
    }
}

/* Of block b, if what comes in is what leaves block `from`. */
static bool over_edge(struct maker *m, uint32_t from, uint32_t b, struct bounds *out)
{
    bool is_new;
    for (size_t i = 0; i < m->steps[from].len; i++)
        widen(out, step_of(m, b, m->steps[from].data[i].out, &is_new), i == 0);
    return m->steps[from].len != 0;
}

static void sum_up(struct maker *m, struct bounds *all)
{
    uint64_t *inside = xmalloc((m->all->blocks.len + 1) * sizeof *inside);
    for (uint32_t b = 0; b < m->all->blocks.len; b++) {
        const struct ld_block *blk = &m->all->blocks.data[b];
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
            const struct ld_edge *ed = &m->all->edges.data[e];
            struct bounds over = {{0}, {0}};
            if (ed->to == ID_NONE || !ed->count || !over_edge(m, b, ed->to, &over))
                continue;
            inside[ed->to] += ed->count;
            add_times(all, &over, ed->count);
        }
    }
    for (uint32_t b = 0; b < m->all->blocks.len; b++) { /* over calls, and jumps to other functions */
        struct bounds over = {{0}, {0}};
        uint32_t f = m->ends[b].direct;
        uint64_t count = f == ID_NONE ? 0 : m->ends[b].is_call ? m->all->blocks.data[b].count : times_left(m, b);
        if (!count || !over_edge(m, b, (uint32_t)m->all->functions.data[f].first, &over))
            continue;
        inside[m->all->functions.data[f].first] += count;
        add_times(all, &over, count);
    }
    for (uint32_t b = 0; b < m->all->blocks.len; b++) { /* what came in otherwise */
        struct bounds any = {{0}, {0}};
        uint64_t count = m->all->blocks.data[b].count;
        for (size_t i = 0; i < m->steps[b].len; i++)
            widen(&any, &m->steps[b].data[i], i == 0);
        add_times(all, &any, count > inside[b] ? count - inside[b] : 0);
    }
    free(inside);
}

/* ---- all ---- */

static void begin(struct maker *m)
{
    size_t blocks = m->all->blocks.len + 1, functions = m->all->functions.len + 1;
    m->insns = xmalloc(blocks * sizeof *m->insns);
    m->steps = xmalloc(blocks * sizeof *m->steps);
    m->func_of = xmalloc(blocks * sizeof *m->func_of);
    m->ends = xmalloc(blocks * sizeof *m->ends);
    m->returned = xmalloc(functions * sizeof *m->returned);
    m->entered = xmalloc(functions * sizeof *m->entered);
    m->return_points = xmalloc(functions * sizeof *m->return_points);
    m->tails = xmalloc(functions * sizeof *m->tails);
    m->known_entries = xmalloc(functions * sizeof *m->known_entries);
    m->is_open = xmalloc(functions * sizeof *m->is_open);
    m->shapes = sim_shapes_new();
    m->scratch = sim_pipeline_new(m->machine);
    sim_pipeline_rebase(m->scratch);
    intern(m, m->scratch);
    for (uint32_t f = 0; f < m->all->functions.len; f++) {
        const struct ld_function *fn = &m->all->functions.data[f];
        map_put(&m->func_at, fn->address, f);
        if (fn->count)
            map_put(&m->func_at, m->all->blocks.data[fn->first].address, f);
        for (size_t b = fn->first; b < fn->first + fn->count; b++)
            m->func_of[b] = f;
    }
    for (uint32_t b = 0; b < m->all->blocks.len; b++)
        look_at_end(m, b);
}

static void end(struct maker *m)
{
    for (size_t b = 0; b < m->all->blocks.len; b++) {
        free(m->insns[b]);
        VEC_FREE(&m->steps[b]);
    }
    for (size_t f = 0; f < m->all->functions.len; f++) {
        VEC_FREE(&m->returned[f].states);
        VEC_FREE(&m->entered[f].states);
        VEC_FREE(&m->return_points[f].v);
        VEC_FREE(&m->tails[f].v);
    }
    for (size_t i = 0; i < m->states.len; i++)
        sim_pipeline_free(m->states.data[i]);
    free(m->insns), free(m->steps), free(m->func_of), free(m->ends);
    free(m->returned), free(m->entered), free(m->return_points), free(m->tails);
    free(m->known_entries), free(m->is_open);
    VEC_FREE(&m->states);
    VEC_FREE(&m->same_hash);
    VEC_FREE(&m->work);
    VEC_FREE(&m->pointed.states);
    VEC_FREE(&m->any_returned.states);
    VEC_FREE(&m->return_points_any);
    VEC_FREE(&m->tails_any);
    map_fini(&m->state_of), map_fini(&m->func_at);
    sim_pipeline_free(m->scratch);
    sim_shapes_free(m->shapes);
}

int ld_stalls_of(const struct image *img, const struct ld_blocks *blocks, const struct machine *machine,
                 struct ld_stalls *out)
{
    struct maker m = {.machine = machine, .code = ld_code_begin(img), .all = blocks};
    struct bounds all = {{0}, {0}};
    begin(&m);
    solve(&m);
    bool is_solved = m.pairs <= PAIRS_MAX;
    if (is_solved)
        sum_up(&m, &all);
    for (int k = 0; k < 2; k++) {
        out->cycles[k] = (double)all.ticks[k] / SIM_CYCLE;
        out->stalls[k] = (double)all.stalls[k] / SIM_CYCLE;
    }
    out->states = m.states.len;
    end(&m);
    return is_solved ? 0 : diag_error("ld-report: the pipeline has too many states in this program to be followed");
}
