/* SPDX-License-Identifier: Apache-2.0
 *
 * What to do about data objects: rules over their causes, their strides and how they are allocated. Each says its
 * evidence and what would be gone of the stall if it did all that it can; where that is not known it says so. An object
 * gets each advice once, at the place that it helps most.
 */
#include "prof/spied/spied.h"

#include <math.h>
#include <stdlib.h>

static const double OBJECT_MIN = 0.02;  /* of the stall: what is below is not worth a word */
static const double CAUSE_MIN = 0.3;    /* of the object's stall */
static const double HELD_MIN = 0.1;     /* of its false sharing: there is as much in another order too */
static const double REGULAR = 0.5;      /* of a cell's references: they have a stride */
static const double TLB_MIN = 0.2;      /* of what misses and walks cost together */
static const double HUGE_MIN = 0.1;     /* of the walks: that huge pages gain */
static const double USUAL_MIN = 0.5;    /* of visits of other threads: of one thread for each page */
static const double CELL_MIN = 0.05;    /* of the object's stall: that an instruction has */
static const double HIT_MAX = 0.1;      /* of the stall of what is awaited: what its address is loaded from may have */
static const double PREFETCH_MIN = 0.1; /* of what is awaited: that prefetching gains */
enum { TOUCH_BYTES_MIN = 256 << 10 };   /* smaller objects fit a cache */
enum { STRIDES_MIN = 64, BLOCKS_MANY = 1000, BLOCK_SMALL = 256, REUSES_MIN = 50, RECORD_MAX = 512, STEPS_MIN = 4 };

struct subject { /* an object that is looked at */
    struct spied *s;
    const struct spied_group *g;
    uint32_t row;
    uint64_t line_bytes;
    double by_cause[CACHE_CAUSE_COUNT]; /* cycles of stall */
    double walks, walks_all;            /* cycles of TLB misses: its own, and of the program */
    const struct spied_used *used;      /* spied_used_together */
};

static double cycles_of(const struct subject *u, const struct spied_level *l, enum cache_cause cause)
{
    double cycles = 0;
    for (size_t i = 0; i < u->g->count; i++)
        if (u->g->cells[i] < l->cell_count)
            cycles += l->miss_cycles * (double)l->cell[u->g->cells[i]].causes[cause];
    return cycles;
}

struct gain { /* as fractions */
    double of_program, of_object;
};

static struct gain stall_gain(const struct subject *u, double cycles)
{
    return (struct gain){cycles / u->s->stall_all, cycles / u->g->stall};
}

static void add_advice(const struct subject *u, const char *advice, uint32_t cell, struct gain gain,
                       const char *evidence)
{
    struct spied *s = u->s;
    struct prof_result *r = s->j->r;
    struct prof_interval memory = r->data[u->row].memory_s;
    double part = gain.of_object;
    struct prof_data_advice *a = &r->data_advice[r->data_advice_count++];
    *a = (struct prof_data_advice){.object = u->row,
                                   .advice = advice,
                                   .gain_share = gain.of_program,
                                   .gain_s = {part * memory.value, part * memory.low, part * memory.high},
                                   .evidence = evidence};
    const struct spied_place *at = cell == ID_NONE ? NULL : &s->place[cell];
    if (!at || at->func == ID_NONE)
        return;
    struct join_module *m = &s->j->modules[at->module];
    a->function = join_func_name(s->j, m, at->func - m->func_base);
    a->file = at->line ? join_file_name(s->j, at->file) : NULL;
    a->line = at->line;
}

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

static bool has_blocks(const struct prof_data *d)
{
    return d->kind == PROF_DATA_HEAP && d->blocks != PROF_UNKNOWN && d->blocks > 0;
}

/* ---- by cause ---- */

static void advise_pad(const struct subject *u)
{
    double conflict = u->by_cause[CACHE_CONFLICT];
    if (conflict < CAUSE_MIN * u->g->stall)
        return;
    add_advice(
        u, "pad", ID_NONE, stall_gain(u, conflict),
        arena_printf(u->s->j->r->arena,
                     "%.0f %% of its stall are conflicts: a fully associative cache of the size would hit; pad its "
                     "rows, or move it against what evicts it, so that they fall into other sets",
                     percent(conflict, u->g->stall)));
}

/* If it holds under both orders. */
static void advise_separate(const struct subject *u)
{
    uint64_t misses = u->s->false_misses[u->row], held = u->s->false_held[u->row];
    double shared = u->by_cause[CACHE_FALSE_SHARING];
    if (shared < CAUSE_MIN * u->g->stall || (double)held < HELD_MIN * (double)misses)
        return;
    add_advice(
        u, "separate", ID_NONE, stall_gain(u, shared),
        arena_printf(u->s->j->r->arena,
                     "%.0f %% of its stall are false sharing: threads write different bytes of the same line; align "
                     "what each thread writes to lines of %llu bytes of its own",
                     percent(shared, u->g->stall), (unsigned long long)u->line_bytes));
}

/* How much of their latency its references had to wait; 1: all, or it was not measured. */
static double waited(const struct subject *u)
{
    const struct prof_result *r = u->s->j->r;
    double cycles = r->data[u->row].memory_s.value * r->machine.tsc_hz * r->machine.cycles_per_tsc;
    double part = cycles / (u->g->stall + u->walks);
    return part >= 0 && part < 1 ? part : 1;
}

static double huge_part(const struct subject *u)
{
    double pages = (double)u->s->j->r->data[u->row].bytes / 4096;
    for (uint32_t k = 0; k < u->s->level_count; k++)
        if (u->s->levels[k].caches->is_tlb) {
            struct machine_huge_pages_at here = machine_huge_pages_of(&u->s->levels[k].caches->huge_pages, pages);
            return isnan(here.waiting) ? 0 : here.overlapping + waited(u) * (here.waiting - here.overlapping);
        }
    return 0;
}

static void advise_huge_pages(const struct subject *u)
{
    double part = huge_part(u), all = u->walks + u->g->stall;
    if (u->walks < TLB_MIN * all || part < HUGE_MIN)
        return;
    struct gain gain = {part * u->walks / (u->s->stall_all + u->walks_all), part * u->walks / all};
    add_advice(u, "huge-pages", ID_NONE, gain,
               arena_printf(u->s->j->r->arena,
                            "misses of the TLB cost it %.0f %% of what misses of caches do; keep it in huge pages "
                            "(madvise MADV_HUGEPAGE, or GLIBC_TUNABLES=glibc.malloc.hugetlb=1)%s",
                            percent(u->walks, u->g->stall),
                            part < 1
                                ? arena_printf(u->s->j->r->arena,
                                               ", which take away %.0f %% of that here, as was tried out", 100 * part)
                                : ""));
}

/* Blocks that come and go, of which one would fit and all that are there together do not. */
static bool is_renewed(const struct subject *u)
{
    const struct prof_data *d = &u->s->j->r->data[u->row];
    uint64_t allocated = u->s->in->data[u->g->key].allocated, room = u->s->j->r->caches[u->s->primary].bytes;
    return has_blocks(d) && d->blocks >= REUSES_MIN && allocated >= 2 * d->bytes && d->bytes > room &&
           allocated / d->blocks <= room / 2;
}

/* A level that does not hold one block misses it again, whichever it is. */
static double cycles_renewed(const struct subject *u)
{
    const struct prof_data *d = &u->s->j->r->data[u->row];
    uint64_t block = u->s->in->data[u->g->key].allocated / d->blocks;
    double cycles = 0;
    for (uint32_t k = 0; k < u->s->level_count; k++) {
        const struct spied_level *l = &u->s->levels[k];
        if (l->config == 0 && block <= l->caches->config.levels[l->level].size_bytes / 2)
            cycles += cycles_of(u, l, CACHE_COLD) + cycles_of(u, l, CACHE_CAPACITY);
    }
    return cycles;
}

static void advise_reuse(const struct subject *u)
{
    const struct prof_data *d = &u->s->j->r->data[u->row];
    double renewed = is_renewed(u) ? cycles_renewed(u) : 0;
    if (renewed == 0 || renewed < CAUSE_MIN * u->g->stall)
        return;
    add_advice(u, "reuse", ID_NONE, stall_gain(u, renewed),
               arena_printf(u->s->j->r->arena,
                            "%llu blocks come and go, each small enough for the cache; %.0f %% of its stall is that "
                            "another one is used each time: keep one, and use it again",
                            (unsigned long long)d->blocks, percent(renewed, u->g->stall)));
}

/* ---- by stride ---- */

struct walk { /* cells of one kind of stride, and the one that has most of what is added up */
    double stall, most;
    uint32_t cell;
    struct spied_used used; /* by this cell and what goes with it */
};

static void add_to(struct walk *w, uint32_t cell, double stall)
{
    if (w->cell == ID_NONE || stall > w->most) {
        w->cell = cell;
        w->most = stall;
    }
    w->stall += stall;
}

bool spied_is_regular(const struct spy_cell *c)
{
    return c->strided >= STRIDES_MIN && (double)c->strided > REGULAR * (double)c->references;
}

static double cycles_of_cell(const struct spied *s, uint32_t cell, enum cache_cause cause)
{
    double cycles = 0;
    for (uint32_t k = 0; k < s->level_count; k++)
        if (s->levels[k].config == 0 && cell < s->levels[k].cell_count)
            cycles += s->levels[k].miss_cycles * (double)s->levels[k].cell[cell].causes[cause];
    return cycles;
}

/* Of the misses of such jumps what unit stride would leave; lines that only conflict would be there again. */
static double gain_of(const struct subject *u, uint32_t cell, double used)
{
    const struct spied *s = u->s;
    double line = (double)u->line_bytes;
    return used < line ? (s->stall[cell] - cycles_of_cell(s, cell, CACHE_CONFLICT)) * (1 - used / line) : 0;
}

/* Cells that jump whole lines, by more than `above` bytes and not more than `most`. */
static struct walk jumps_of(const struct subject *u, uint64_t above, uint64_t most)
{
    struct walk w = {.cell = ID_NONE};
    for (size_t i = 0; i < u->g->count; i++) {
        const struct spy_cell *c = &u->s->cells[u->g->cells[i]];
        uint64_t jump = (uint64_t)llabs(c->stride);
        if (!spied_is_regular(c) || jump <= above || jump > most)
            continue;
        add_to(&w, u->g->cells[i], gain_of(u, u->g->cells[i], u->used[i].of_line));
        w.used = w.cell == u->g->cells[i] ? u->used[i] : w.used;
    }
    return w;
}

/* Bytes that lie together: a block of the heap, in the mean, or all. */
static uint64_t piece_of(const struct subject *u)
{
    const struct prof_data *d = &u->s->j->r->data[u->row];
    return has_blocks(d) ? u->s->in->data[u->g->key].allocated / d->blocks : d->bytes;
}

/* From block to block of many that lie one behind the other, as records do. */
static struct walk jumps_of_blocks(const struct subject *u)
{
    const struct prof_data *d = &u->s->j->r->data[u->row];
    uint64_t block = piece_of(u), above = max_u64(RECORD_MAX, block - 1);
    if (!has_blocks(d) || d->blocks < BLOCKS_MANY || !block)
        return (struct walk){.cell = ID_NONE};
    return jumps_of(u, above, 2 * block + u->line_bytes);
}

/* From record to record. */
static void advise_split(const struct subject *u)
{
    const struct spied *s = u->s;
    struct walk w = jumps_of(u, u->line_bytes, RECORD_MAX), blocks = jumps_of_blocks(u);
    bool is_blocks = blocks.stall > w.stall;
    if (is_blocks)
        w = blocks;
    if (w.stall < CAUSE_MIN * u->g->stall || w.stall == 0)
        return;
    const struct spy_cell *c = &s->cells[w.cell];
    add_advice(
        u, "split", w.cell, stall_gain(u, w.stall),
        arena_printf(s->j->r->arena,
                     "it goes from one %s of %lld bytes to the next and uses %.0f of them there; keep what is used "
                     "together in an array of its own",
                     is_blocks ? "block" : "record", is_blocks ? (long long)piece_of(u) : llabs(c->stride),
                     w.used.of_step));
}

/* Within a block: what is farther apart than a quarter of it is no walk through rows. */
static void advise_interchange(const struct subject *u)
{
    const struct spied *s = u->s;
    struct walk w = jumps_of(u, max_u64(RECORD_MAX, u->line_bytes), piece_of(u) / STEPS_MIN);
    if (w.stall < CAUSE_MIN * u->g->stall || w.stall == 0)
        return;
    const struct spy_cell *c = &s->cells[w.cell];
    add_advice(
        u, "interchange", w.cell, stall_gain(u, w.stall),
        arena_printf(s->j->r->arena,
                     "it goes through it in steps of %lld bytes and uses %.0f of each line of %llu; interchange the "
                     "loops, or store it the other way round",
                     (long long)c->stride, w.used.of_line, (unsigned long long)u->line_bytes));
}

/* From record to record it is better to split them. */
static bool is_blockable(const struct subject *u, const struct spy_cell *c)
{
    uint64_t jump = (uint64_t)llabs(c->stride);
    return spied_is_regular(c) && (jump <= u->line_bytes || jump > RECORD_MAX);
}

/* Those that go through it in equal steps, and come again when it has been evicted. */
static void advise_block(const struct subject *u)
{
    const struct spied *s = u->s;
    struct walk w = {.cell = ID_NONE};
    for (size_t i = 0; i < u->g->count; i++)
        if (is_blockable(u, &s->cells[u->g->cells[i]]))
            add_to(&w, u->g->cells[i], cycles_of_cell(s, u->g->cells[i], CACHE_CAPACITY));
    if (is_renewed(u) || w.stall == 0 || w.stall < CAUSE_MIN * u->g->stall)
        return;
    add_advice(
        u, "block", w.cell, stall_gain(u, w.stall),
        arena_printf(s->j->r->arena,
                     "it goes through it from end to end more than once, and it does not fit: %.0f %% of its stall "
                     "are lines that were there before; do all work on a part while it is in the cache",
                     percent(w.stall, u->g->stall)));
}

/* Small blocks, reached in no order. */
static void advise_pool(const struct subject *u)
{
    const struct spied *s = u->s;
    const struct prof_data *d = &s->j->r->data[u->row];
    struct walk w = {.cell = ID_NONE};
    uint64_t allocated = s->in->data[u->g->key].allocated;
    if (!has_blocks(d) || d->blocks < BLOCKS_MANY || allocated > d->blocks * BLOCK_SMALL)
        return;
    for (size_t i = 0; i < u->g->count; i++)
        if (!spied_is_regular(&s->cells[u->g->cells[i]]))
            add_to(&w, u->g->cells[i], s->stall[u->g->cells[i]]);
    if (w.stall < CAUSE_MIN * u->g->stall)
        return;
    add_advice(
        u, "pool", w.cell, (struct gain){NAN, NAN},
        arena_printf(s->j->r->arena,
                     "%llu blocks of some %llu bytes are reached in no order; allocate them one behind the other in "
                     "the order of use, put hot fields together, or prefetch the next one",
                     (unsigned long long)d->blocks, (unsigned long long)(allocated / d->blocks)));
}

/* ---- ahead ---- */

struct awaited { /* cells whose addresses are known ahead */
    struct walk walk;
    uint32_t list;   /* a cell of what they come from */
    double memory_s; /* NAN: not measured */
};

static struct awaited awaited_of(const struct subject *u)
{
    const struct spied *s = u->s;
    struct awaited a = {.walk = {.cell = ID_NONE}, .list = ID_NONE, .memory_s = s->memory_s ? 0 : NAN};
    for (size_t i = 0; i < u->g->count; i++) {
        uint32_t cell = u->g->cells[i], list;
        bool is_much = s->stall[cell] >= CELL_MIN * u->g->stall && !spied_is_regular(&s->cells[cell]);
        if (!is_much || !spied_is_ahead(s, cell, HIT_MAX * s->stall[cell], &list))
            continue;
        add_to(&a.walk, cell, s->stall[cell]);
        a.list = list;
        a.memory_s += s->memory_s ? s->memory_s[cell].value : 0;
    }
    return a;
}

/* As far as they wait for each other now, and need not. NAN: not known. */
static double part_awaited(const struct subject *u, const struct awaited *a)
{
    const struct prof_result *r = u->s->j->r;
    double all_s = a->walk.stall / (r->machine.tsc_hz * r->machine.cycles_per_tsc);
    return a->memory_s > 0 && all_s > 0 ? fmax(0, 1 - u->s->in->overlap / fmin(1, a->memory_s / all_s)) : NAN;
}

static void advise_prefetch(const struct subject *u)
{
    const struct spied *s = u->s;
    const struct prof_data *d = s->j->r->data;
    struct awaited a = awaited_of(u);
    double part = part_awaited(u, &a);
    if (a.walk.cell == ID_NONE || a.walk.stall < CAUSE_MIN * u->g->stall || part < PREFETCH_MIN)
        return;
    struct gain gain = stall_gain(u, part * a.walk.stall);
    uint32_t list = s->object[s->cells[a.list].object];
    add_advice(u, "prefetch", a.walk.cell, gain,
               arena_printf(s->j->r->arena,
                            "where it is reached next is known turns ahead: it comes of %s, which is gone through in "
                            "order; prefetch it there (__builtin_prefetch)%s",
                            list == ID_NONE ? "data" : d[list].name,
                            isnan(part)
                                ? ", as far as its misses wait for each other, which was not measured"
                                : arena_printf(s->j->r->arena,
                                               ": its misses take %.0f %% of their latency each, prefetched ones "
                                               "%.0f %% here, as was tried out",
                                               100 * s->in->overlap / (1 - part), 100 * s->in->overlap)));
}

/* ---- by thread ---- */

static const struct spy_touched *touched_of(const struct subject *u)
{
    size_t count;
    const struct spy_touched *t = spy_touched(u->s->in->spy, &count);
    for (size_t i = 0; i < count; i++)
        if (t[i].object == u->g->key)
            return &t[i];
    return NULL;
}

/* What its misses in memory cost. */
static double cycles_in_memory(const struct subject *u)
{
    double cycles = 0;
    for (uint32_t k = 0; k < u->s->level_count; k++) {
        const struct spied_level *l = &u->s->levels[k];
        bool is_last = k + 1 == u->s->level_count || u->s->levels[k + 1].config != l->config;
        for (size_t i = 0; l->config == 0 && is_last && i < u->g->count; i++)
            cycles += u->g->cells[i] < l->cell_count ? l->miss_cycles * (double)l->cell[u->g->cells[i]].misses : 0;
    }
    return cycles;
}

/* Of memory as it is now, with threads spread over all nodes; NAN: on one node, or nothing is known of distances. */
static double part_far(const struct machine_nodes *n, const struct spy_touched *t)
{
    double farther = n->distance - 1, nodes = n->count;
    double far = (double)t->elsewhere / (double)t->visits * (nodes - 1) / nodes * farther;
    return n->count > 1 && farther > 0 ? far / (1 + far) : NAN;
}

static const char *far_evidence(const struct subject *u, const struct spy_touched *t)
{
    const struct machine_nodes *n = &u->s->in->nodes;
    bool is_of_one = (double)t->usual >= USUAL_MIN * (double)t->elsewhere;
    return arena_printf(
        u->s->j->r->arena,
        "another thread than the one that touches its pages first comes to them %.0f %% of the times: on a machine "
        "with "
        "several memory nodes they lie with the first; %s%s",
        percent((double)t->elsewhere, (double)t->visits),
        is_of_one ? "let each thread initialise what it will use"
                  : "interleave its pages (numactl --interleave, mbind)",
        n->count > 1 ? "" : ". This machine has one node: here nothing is gained, and how much elsewhere is not known");
}

static void advise_first_touch(const struct subject *u)
{
    const struct spy_touched *t = touched_of(u);
    double memory = cycles_in_memory(u);
    if (!t || !t->votes || u->s->j->r->data[u->row].bytes < TOUCH_BYTES_MIN || memory < CAUSE_MIN * u->g->stall ||
        (double)t->elsewhere < CAUSE_MIN * (double)t->visits)
        return;
    add_advice(u, "first-touch", t->cell, stall_gain(u, memory * part_far(&u->s->in->nodes, t)), far_evidence(u, t));
}

/* ---- all ---- */

static void sum_causes(struct subject *u)
{
    const struct spied *s = u->s;
    for (uint32_t k = 0; k < s->level_count; k++) {
        const struct spied_level *l = &s->levels[k];
        for (size_t i = 0; i < u->g->count; i++) {
            if (u->g->cells[i] >= l->cell_count)
                continue;
            const struct cache_cell *c = &l->cell[u->g->cells[i]];
            u->walks += l->caches->is_tlb ? l->miss_cycles * (double)c->misses : 0;
            for (int cause = 0; l->config == 0 && cause < CACHE_CAUSE_COUNT; cause++)
                u->by_cause[cause] += l->miss_cycles * (double)c->causes[cause];
        }
    }
}

static void advise(const struct subject *u)
{
    advise_separate(u);
    advise_pad(u);
    advise_huge_pages(u);
    advise_reuse(u);
    if (spied_is_part(u->s))
        return; /* what comes of some sets, or some of the time, has no strides */
    advise_split(u);
    advise_interchange(u);
    advise_block(u);
    advise_pool(u);
    advise_prefetch(u);
    advise_first_touch(u);
}

static int by_gain(const void *x, const void *y)
{
    const struct prof_data_advice *a = x, *b = y;
    if (isnan(a->gain_share) != isnan(b->gain_share))
        return isnan(a->gain_share) ? 1 : -1;
    if (a->gain_share != b->gain_share && !isnan(a->gain_share))
        return a->gain_share < b->gain_share ? 1 : -1;
    return a->object != b->object ? (a->object > b->object ? 1 : -1) : strcmp(a->advice, b->advice);
}

static double walks_of_program(const struct spied *s)
{
    double cycles = 0;
    for (uint32_t k = 0; k < s->level_count; k++)
        for (size_t i = 0; s->levels[k].caches->is_tlb && i < s->levels[k].cell_count; i++)
            cycles += s->levels[k].miss_cycles * (double)s->levels[k].cell[i].misses;
    return cycles;
}

void spied_advice(struct spied *s)
{
    enum { KINDS = 10 };
    struct prof_result *r = s->j->r;
    double walks_all = walks_of_program(s);
    r->data_advice = ARENA_ARRAY(r->arena, struct prof_data_advice, KINDS * r->data_count + 1);
    for (size_t i = 0; i < s->group_count; i++) {
        struct subject u = {.s = s,
                            .g = &s->groups[i],
                            .row = (uint32_t)i,
                            .line_bytes = r->caches[s->primary].line_bytes,
                            .walks_all = walks_all};
        if (!(u.g->stall > 0) || u.g->stall < OBJECT_MIN * s->stall_all)
            break;
        sum_causes(&u);
        u.used = spied_used_together(s, u.g);
        advise(&u);
    }
    qsort(r->data_advice, r->data_advice_count, sizeof *r->data_advice, by_gain);
}
