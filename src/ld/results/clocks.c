/* SPDX-License-Identifier: Apache-2.0
 * What programs with exact clocks wrote (ldrt/clocks.c): ticks of each pair of function and place of the call, into
 * seconds of functions and of pairs of functions. What the looks at the clock took is taken off, or left where an
 * option says: the part between the two looks was measured as the callee's, the rest as the caller's. Where short calls
 * were sampled, those that were not timed stand for so many as were counted. */
#include <math.h>
#include <stdlib.h>

#include "ld/reading.h"

#include <elf.h>

struct row {                                        /* of the table */
    uint64_t site, caller, calls, self, all, outer; /* addresses of the linked file */
    double tick_s;
};
struct sampled { /* an arc: calls of which some were timed */
    uint64_t site, caller, timed, untimed;
    double self_s, all_s, outer_s; /* of those that were */
    double untimed_self_s;         /* what the others are taken to have taken */
    double squares_s2;             /* of self of those that were */
    bool recurs;                   /* the function was seen to begin while it was under way */
};
struct maker {
    struct ld_reading r;
    struct ld_clocks *out;
    enum ld_overhead overhead;
    VEC(struct row) rows;
    VEC(struct sampled) sampled; /* parts of such arcs, until they are put together */
    struct map pair;             /* caller and callee -> arc + 1 */
    double pair_inside, pair_all;
    double inside_error; /* how much less of it there may be in a call's time */
    size_t tables;
};

/* ---- tables ---- */

static void take_sampled(struct maker *m, const struct wire_table_entry *e, double tick_s, uint64_t above)
{
    uint64_t site = e[0].what & ~(WIRE_CLOCKS_SAMPLED | WIRE_CLOCKS_UNTIMED);
    struct sampled s = {.site = site - above, .caller = e[0].where - above};
    if (e[0].what & WIRE_CLOCKS_SAMPLED) {
        s.timed = e[0].count;
        s.self_s = (double)(int64_t)e[1].what * tick_s;
        s.all_s = (double)e[1].where * tick_s;
        s.outer_s = (double)e[1].count * tick_s;
    } else {
        s.untimed = e[0].count;
        s.untimed_self_s = (double)(int64_t)e[1].what * tick_s;
        s.squares_s2 = (double)e[1].where * tick_s * tick_s;
        s.recurs = e[1].count != 0;
    }
    VEC_PUSH(&m->sampled, s);
}

static void take_table(void *ctx, const struct wire_table *t, const struct wire_table_entry *e, size_t count,
                       uint64_t above)
{
    struct maker *m = ctx;
    double tick_s = t->spare[0] ? (double)t->spare[1] / 1e9 / (double)t->spare[0] : 0;
    if (t->kind != WIRE_TABLE_CLOCKS)
        return;
    for (size_t i = 0; i + 1 < count; i += 2)
        if (e[i].what == (WIRE_CLOCKS_SAMPLED | WIRE_CLOCKS_UNTIMED))
            m->inside_error += (double)e[i].count * tick_s / WIRE_CLOCKS_PARTS;
        else if (e[i].what & (WIRE_CLOCKS_SAMPLED | WIRE_CLOCKS_UNTIMED))
            take_sampled(m, e + i, tick_s, above);
        else if (e[i].what && e[i].count)
            VEC_PUSH(&m->rows, ((struct row){e[i].what - above, e[i].where - above, e[i].count, e[i + 1].what,
                                             e[i + 1].where, e[i + 1].count, tick_s}));
    m->out->lost += t->lost;
    m->out->wall_s += (double)t->spare[1] / 1e9;
    m->pair_all += (double)(uint32_t)t->spare[2] * tick_s / WIRE_CLOCKS_PARTS;
    m->pair_inside += (double)(t->spare[2] >> 32) * tick_s / WIRE_CLOCKS_PARTS;
    m->tables++;
}

/* ---- functions ---- */

static int by_address(const void *a, const void *b)
{
    const struct ld_timed *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static void list_functions(struct maker *m)
{
    for (size_t i = 0; i < m->r.linked->unit_count; i++) {
        const struct rewrite_relocatable_unit *u = &m->r.linked->units[i];
        const char *object = arena_strdup(m->out->arena, u->name);
        for (uint32_t f = 0; f < u->map->cfg->funcs.len; f++)
            if (u->funcs[f].vaddr && u->map->cfg->funcs.data[f].block_count)
                VEC_PUSH(&m->out->functions, ((struct ld_timed){.name = ld_reading_name(&m->r, u->funcs[f].vaddr),
                                                                .object = object,
                                                                .address = u->funcs[f].vaddr,
                                                                .end = u->funcs[f].vaddr + u->funcs[f].bytes}));
    }
    if (m->out->functions.len)
        qsort(m->out->functions.data, m->out->functions.len, sizeof *m->out->functions.data, by_address);
}

static uint32_t function_at(const struct maker *m, uint64_t address)
{
    const struct ld_timed *all = m->out->functions.data;
    size_t n = PARTITION_POINT(i, 0, m->out->functions.len, all[i].address <= address);
    return n && address < all[n - 1].end ? (uint32_t)n - 1 : LD_ELSEWHERE;
}

/* ---- sums ---- */

static struct ld_timed_arc *arc_of(struct maker *m, uint32_t caller, uint32_t callee)
{
    uint64_t *i = map_place(&m->pair, (uint64_t)caller << 32 | callee);
    if (!*i) {
        VEC_PUSH(&m->out->arcs, ((struct ld_timed_arc){.caller = caller, .callee = callee}));
        *i = m->out->arcs.len;
    }
    return &m->out->arcs.data[*i - 1];
}

/* What all looks took is as far off in one call as in another. */
static void add_inside_error(struct maker *m, struct ld_timed_arc *a, double calls)
{
    double error = calls * m->inside_error;
    a->looks_error_s += error;
    m->out->functions.data[a->callee].looks_error_s += error;
    if (a->caller != LD_ELSEWHERE && a->caller != a->callee)
        m->out->functions.data[a->caller].looks_error_s += error;
}

static void add_row(struct maker *m, const struct row *r)
{
    uint32_t callee = function_at(m, r->site - 1), caller = function_at(m, r->caller - 1);
    if (callee == LD_ELSEWHERE)
        return;
    struct ld_timed *f = &m->out->functions.data[callee];
    struct ld_timed_arc *a = arc_of(m, caller, callee);
    double self = (double)(int64_t)r->self * r->tick_s, calls = (double)r->calls;
    f->calls += r->calls;
    f->self_s += self;
    f->all_s += (double)r->outer * r->tick_s;
    a->calls += r->calls;
    a->timed += r->calls;
    a->self_s += self;
    a->all_s += (double)r->all * r->tick_s;
    if (m->overhead == LD_OVERHEAD_CALLER) { /* what is between the looks goes to the caller too */
        f->self_s -= calls * m->out->pair_inside_s;
        a->self_s -= calls * m->out->pair_inside_s;
        if (caller != LD_ELSEWHERE)
            m->out->functions.data[caller].self_s += calls * m->out->pair_inside_s;
        return;
    }
    if (m->out->is_sampled) { /* the rest was never in the caller's */
        f->self_s -= calls * m->out->pair_inside_s;
        a->self_s -= calls * m->out->pair_inside_s;
        add_inside_error(m, a, calls);
        return;
    }
    double own = m->overhead == LD_OVERHEAD_OFF ? -m->out->pair_inside_s : m->out->pair_s - m->out->pair_inside_s;
    f->self_s += calls * own;
    a->self_s += calls * own;
    if (caller != LD_ELSEWHERE)
        m->out->functions.data[caller].self_s -= calls * (m->out->pair_s - m->out->pair_inside_s);
}

static int by_arc(const void *a, const void *b)
{
    const struct sampled *x = a, *y = b;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    return (x->caller > y->caller) - (x->caller < y->caller);
}

/* Half the interval that has the sum of all calls' own time with 95 in 100, less that of those that were timed. */
static double error_of(const struct sampled *s)
{
    double n = (double)s->timed, calls = n + (double)s->untimed;
    if (s->timed < 2)
        return fabs(s->untimed_self_s);
    double variance = fmax(s->squares_s2 - s->self_s * s->self_s / n, 0) / (n - 1);
    return 1.96 * calls * sqrt(variance / n * (1 - n / calls));
}

static void add_sampled(struct maker *m, const struct sampled *s)
{
    uint32_t callee = function_at(m, s->site - 1), caller = function_at(m, s->caller - 1);
    if (callee == LD_ELSEWHERE)
        return;
    struct ld_timed *f = &m->out->functions.data[callee];
    struct ld_timed_arc *a = arc_of(m, caller, callee);
    double timed = (double)s->timed, error = error_of(s);
    double self = s->self_s - timed * m->out->pair_inside_s + s->untimed_self_s;
    double each = s->timed ? fmax(s->all_s / timed - m->out->pair_inside_s, 0) : 0;
    double all = s->all_s + (s->timed ? each * (double)s->untimed : fmax(s->untimed_self_s, 0));
    f->calls += s->timed + s->untimed;
    f->self_s += self;
    f->all_s += s->all_s > 0 ? all * s->outer_s / s->all_s : all;
    f->all_is_most |= s->recurs && s->outer_s > 0;
    f->error_s = hypot(f->error_s, error);
    if (caller != LD_ELSEWHERE && caller != callee) /* in whose time it is not, or too much */
        m->out->functions.data[caller].error_s = hypot(m->out->functions.data[caller].error_s, error);
    a->calls += s->timed + s->untimed;
    a->timed += s->timed;
    a->self_s += self;
    a->all_s += all;
    a->error_s = hypot(a->error_s, error);
    add_inside_error(m, a, timed + (double)s->untimed);
}

/* Parts of an arc are of several processes, or threads, or of what was timed and what was not. */
static void add_all_sampled(struct maker *m)
{
    if (m->sampled.len)
        qsort(m->sampled.data, m->sampled.len, sizeof *m->sampled.data, by_arc);
    for (size_t i = 0, end; i < m->sampled.len; i = end) {
        struct sampled sum = m->sampled.data[i];
        for (end = i + 1; end < m->sampled.len && by_arc(&sum, &m->sampled.data[end]) == 0; end++) {
            const struct sampled *s = &m->sampled.data[end];
            sum.timed += s->timed;
            sum.untimed += s->untimed;
            sum.self_s += s->self_s;
            sum.all_s += s->all_s;
            sum.outer_s += s->outer_s;
            sum.untimed_self_s += s->untimed_self_s;
            sum.squares_s2 += s->squares_s2;
            sum.recurs |= s->recurs;
        }
        add_sampled(m, &sum);
    }
}

static int by_all(const void *a, const void *b, void *ctx)
{
    const struct ld_timed *all = ctx, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
    if (x->all_s < y->all_s || x->all_s > y->all_s)
        return x->all_s < y->all_s ? 1 : -1;
    return (x->address > y->address) - (x->address < y->address);
}

static int arc_order(const void *a, const void *b)
{
    const struct ld_timed_arc *x = a, *y = b;
    if (x->callee != y->callee)
        return x->callee < y->callee ? -1 : 1;
    if (x->all_s < y->all_s || x->all_s > y->all_s)
        return x->all_s < y->all_s ? 1 : -1;
    return (x->caller > y->caller) - (x->caller < y->caller);
}

/* Functions that took the most first; numbers in arcs follow. Measured differences may be below nothing. */
static void sort(struct maker *m)
{
    size_t n = m->out->functions.len;
    uint32_t *order = xmalloc((n + 1) * sizeof *order), *place = xmalloc((n + 1) * sizeof *place);
    struct ld_timed *sorted = xmalloc((n + 1) * sizeof *sorted);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    if (n)
        qsort_r(order, n, sizeof *order, by_all, m->out->functions.data);
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = m->out->functions.data[order[i]];
        sorted[i].self_s = sorted[i].self_s > 0 ? sorted[i].self_s : 0;
        sorted[i].error_s += sorted[i].looks_error_s;
        place[order[i]] = i;
    }
    if (n)
        memcpy(m->out->functions.data, sorted, n * sizeof *sorted);
    for (size_t i = 0; i < m->out->arcs.len; i++) {
        struct ld_timed_arc *a = &m->out->arcs.data[i];
        a->callee = place[a->callee];
        a->caller = a->caller == LD_ELSEWHERE ? a->caller : place[a->caller];
        a->self_s = a->self_s > 0 ? a->self_s : 0;
        a->error_s += a->looks_error_s;
    }
    if (m->out->arcs.len)
        qsort(m->out->arcs.data, m->out->arcs.len, sizeof *m->out->arcs.data, arc_order);
    free(order), free(place), free(sorted);
}

/* Calls of small functions, which are not timed. */
static int add_small(struct maker *m)
{
    for (size_t i = 0; i < m->r.linked->unit_count; i++) {
        const struct rewrite_relocatable_unit *u = &m->r.linked->units[i];
        const uint64_t *counters = ld_reading_counters(&m->r, u);
        if (!counters)
            return -1;
        for (uint32_t f = 0; f < u->map->cfg->funcs.len; f++) {
            uint32_t b = u->map->cfg->funcs.data[f].block_first;
            if (u->funcs[f].vaddr && u->map->cfg->funcs.data[f].block_count && u->map->enter_counter[b] != ID_NONE)
                m->out->functions.data[function_at(m, u->funcs[f].vaddr)].calls += counters[u->map->enter_counter[b]];
        }
    }
    return 0;
}

/* ---- all ---- */

int ld_clocks_read(const char *path, const char *const *files, size_t count, enum ld_overhead overhead,
                   struct ld_clocks **out)
{
    struct maker m = {.out = xmalloc(sizeof *m.out), .overhead = overhead};
    m.out->arena = m.r.arena = arena_new();
    m.out->files = count;
    int rc = ld_reading_open(&m.r, path, files, count, take_table, &m);
    m.out->is_sampled = rc == 0 && m.r.link.flags & WIRE_LINK_SAMPLE_SHORT;
    if (m.out->is_sampled && overhead != LD_OVERHEAD_OFF)
        rc = diag_error("ld-report: --overhead: %s was linked with --sample-short, which takes it off", path);
    if (rc == 0) {
        m.out->pair_s = m.tables ? m.pair_all / (double)m.tables : 0;
        m.out->pair_inside_s = m.tables ? m.pair_inside / (double)m.tables : 0;
        m.inside_error /= m.tables ? (double)m.tables : 1;
        list_functions(&m);
        rc = add_small(&m);
    }
    for (size_t i = 0; rc == 0 && i < m.rows.len; i++)
        add_row(&m, &m.rows.data[i]);
    if (rc == 0)
        add_all_sampled(&m);
    sort(&m);
    ld_reading_close(&m.r);
    map_fini(&m.pair);
    VEC_FREE(&m.rows);
    VEC_FREE(&m.sampled);
    if (rc < 0)
        ld_clocks_free(m.out);
    *out = rc < 0 ? NULL : m.out;
    return rc;
}

void ld_clocks_free(struct ld_clocks *c)
{
    VEC_FREE(&c->functions);
    VEC_FREE(&c->arcs);
    arena_free(c->arena);
    free(c);
}
