/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated core of a description in the place of a processor: what calibration makes it execute goes through the
 * core model, what it chases through simulated caches, and the ticks that come out carry the troubles of a shared
 * machine. Time is the core's own: nothing here takes as long as it says. */
#include "machine/lab/lab.h"
#include "sim/impl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum {
    PIECES_MAX = 64, /* kept; bare ones and what was made last */
    ITERATION_INSNS = 60000,
    WARM = 700,      /* instructions that fill the pipeline */
    MEASURED = 1800, /* at least, from then on */
    CODE_AT = 0x100000,
    DATA_AT = 0x7000000
};

struct iteration { /* what executing the code once goes through */
    struct sim_insn *table;
    uint32_t *index, *flags;
    uint64_t *offset; /* of each, for the marks */
    size_t count, table_count;
    bool is_random; /* a branch that goes by chance is in it */
};

struct piece {
    struct lab_code *code; /* NULL: a ring, or nothing */
    struct iteration iteration;
    bool bare;
    double cycles[2]; /* an iteration, at full and at half width; negative: not known yet */
};

/* Experiments repeat a few instructions over and over: each is looked up in the description once. */
enum { PREPARED = 4096, BYTES_MAX = 15 };
struct prepared {
    uint8_t bytes[BYTES_MAX], len; /* of none 0 */
    bool is_long, is_half;
    struct sim_insn insn;
};

struct simulated {
    struct lab_core core;
    const struct machine *m;
    struct machine half; /* the same with half the width, as a neighbour leaves it */
    struct piece pieces[PIECES_MAX];
    unsigned next, bare;
    struct sim_shapes *shapes;
    struct prepared *prepared; /* by a hash; the last one of those that share it */
    uint8_t *data;
    /* time and noise */
    struct sim_noise noise;
    double now_s, neighbour_until_s, next_interrupt_s, next_theft_s, phase;
    bool neighbour;
    uint64_t state;
};

static double uniform(struct simulated *s)
{
    s->state = s->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(s->state >> 11) / (double)(1ull << 53);
}

static double gap(struct simulated *s, double per_s) { return per_s > 0 ? -log(1 - uniform(s)) / per_s : INFINITY; }

/* ---- code to an iteration ---- */

static const struct lab_note *note_at(const struct lab_code *c, size_t at, enum lab_note_kind kind)
{
    for (size_t i = 0; i < c->note_count; i++)
        if (c->notes[i].at == at && c->notes[i].kind == kind)
            return &c->notes[i];
    return NULL;
}

struct tracer {
    struct simulated *s;
    struct piece *p;
    struct map seen; /* offset -> place in the table, plus 1 */
    size_t stack[64];
    unsigned depth;
    size_t cap;
    size_t visits; /* of indirect jumps that have several targets */
};

static void prepare_anew(const struct machine *m, struct sim_shapes *shapes, struct prepared *p)
{
    struct x86_detail d;
    sim_insn_prepare(m, shapes, p->bytes, p->len, 0, &p->insn);
    if (!x86_decode_detail(p->bytes, p->len, 0, &d))
        return;
    const struct machine_class *k = machine_class_of(m, &d, NULL);
    if (!k || k->latency_high <= k->latency)
        return; /* else the core takes the middle of both; experiments know which they ask for */
    assert(p->insn.shape);
    struct sim_shape shape = *p->insn.shape;
    shape.latency = (int32_t)ticks(p->is_long ? k->latency_high : k->latency);
    if (p->is_long && k->occupies_high > 0 && shape.use_count)
        shape.uses[shape.use_count - 1].busy = (uint16_t)(k->occupies_high + 0.5);
    p->insn.shape = sim_shapes_keep(shapes, &shape);
}

static struct prepared *prepared_slot(struct simulated *s, const struct prepared *key)
{
    uint64_t hash = 0xcbf29ce484222325u ^ key->len ^ (uint64_t)key->is_long << 8 ^ (uint64_t)key->is_half << 9;
    for (unsigned i = 0; i < key->len; i++)
        hash = (hash ^ key->bytes[i]) * 0x100000001b3u;
    return &s->prepared[(hash ^ hash >> 32) % PREPARED];
}

static void prepare_insn(struct simulated *s, const struct machine *m, const struct lab_code *c, size_t at, size_t len,
                         struct sim_insn *out)
{
    struct prepared key = {.len = (uint8_t)len, .is_long = note_at(c, at, LAB_LONG) != NULL, .is_half = m == &s->half};
    memcpy(key.bytes, c->bytes + at, len < BYTES_MAX ? len : BYTES_MAX);
    struct prepared *p = prepared_slot(s, &key);
    if (p->len != key.len || p->is_long != key.is_long || p->is_half != key.is_half ||
        memcmp(p->bytes, key.bytes, sizeof key.bytes) != 0) {
        *p = key;
        prepare_anew(m, s->shapes, p);
    }
    *out = p->insn;
    out->addr = CODE_AT + at;
}

static uint32_t index_of(struct tracer *t, size_t at, size_t len)
{
    uint64_t k;
    struct iteration *u = &t->p->iteration;
    if (!map_get(&t->seen, at, &k)) {
        k = ++u->table_count;
        if (!(k & (k - 1))) /* full at each power of two */
            u->table = xrealloc(u->table, 2 * k * sizeof *u->table);
        prepare_insn(t->s, t->s->m, t->p->code, at, len, &u->table[k - 1]);
        map_put(&t->seen, at, k);
    }
    return (uint32_t)k - 1;
}

static void add_step(struct tracer *t, size_t at, size_t len, uint32_t flags)
{
    struct iteration *u = &t->p->iteration;
    if (u->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 512;
        u->index = xrealloc(u->index, t->cap * sizeof *u->index);
        u->flags = xrealloc(u->flags, t->cap * sizeof *u->flags);
        u->offset = xrealloc(u->offset, t->cap * sizeof *u->offset);
    }
    u->index[u->count] = index_of(t, at, len);
    u->flags[u->count] = flags;
    u->offset[u->count++] = at;
}

/* Of several notes at one place each is for one visit. -1: it says nothing. */
static long next_target(struct tracer *t, size_t at)
{
    const struct lab_code *c = t->p->code;
    size_t seen = 0, count = 0;
    long first = -1, to = -1;
    for (size_t i = 0; i < c->note_count; i++)
        count += c->notes[i].at == at && c->notes[i].kind == LAB_GOES_TO;
    size_t visit = count > 1 ? t->visits++ : 0;
    for (size_t i = 0; i < c->note_count; i++)
        if (c->notes[i].at == at && c->notes[i].kind == LAB_GOES_TO) {
            first = first < 0 ? (long)c->notes[i].value : first;
            to = seen++ == visit ? (long)c->notes[i].value : to;
        }
    return to >= 0 ? to : first;
}

/* Where control goes from the instruction at `at`; the code's length ends the iteration, -1 that it cannot be followed.
 */
static long follow(struct tracer *t, size_t at, const struct x86_insn *i, uint32_t *flags)
{
    const struct lab_code *c = t->p->code;
    size_t next = at + i->len, to = (size_t)(i->target - CODE_AT);
    const struct lab_note *n;
    switch ((enum x86_kind)i->kind) {
    case X86_JMP:
        *flags |= to != next ? SIM_TAKEN : 0;
        return (long)to;
    case X86_JCC:
        if (next == c->len) { /* the end of the turn */
            *flags |= SIM_TAKEN;
            return (long)next;
        }
        if (note_at(c, at, LAB_RANDOM))
            t->p->iteration.is_random = true;
        return (long)next;
    case X86_CALL:
        *flags |= SIM_TAKEN;
        t->stack[t->depth++ % ARRAY_LEN(t->stack)] = next;
        return (long)to;
    case X86_RET:
        *flags |= SIM_TAKEN;
        return t->depth ? (long)t->stack[--t->depth % ARRAY_LEN(t->stack)] : -1;
    case X86_JMP_IND:
        *flags |= SIM_TAKEN;
        return next_target(t, at);
    case X86_PLAIN:
        n = note_at(c, at, LAB_REPEATS);
        *flags |= n ? n->value << SIM_REPEAT_SHIFT : 0;
        return (long)next;
    default:
        return -1;
    }
}

static bool trace(struct simulated *s, struct piece *p)
{
    struct tracer t = {.s = s, .p = p};
    const struct lab_code *c = p->code;
    long at = 0;
    while (at >= 0 && (size_t)at < c->len && p->iteration.count < ITERATION_INSNS) {
        struct x86_insn i;
        uint32_t flags = 0;
        if (!x86_decode(c->bytes + at, c->len - (size_t)at, CODE_AT + (uint64_t)at, &i))
            at = -1;
        else {
            long next = follow(&t, (size_t)at, &i, &flags);
            add_step(&t, (size_t)at, i.len, flags);
            at = next;
        }
    }
    map_fini(&t.seen);
    return at == (long)c->len;
}

/* ---- an iteration to cycles ---- */

static void play(struct simulated *s, struct sim_core *c, const struct piece *p)
{
    const struct iteration *u = &p->iteration;
    for (size_t k = 0; k < u->count; k++) {
        uint32_t flags = u->flags[k];
        if (u->is_random && note_at(p->code, u->offset[k], LAB_RANDOM)) {
            flags |= uniform(s) < 0.5 ? SIM_TAKEN : 0;
            flags |= uniform(s) < 0.5 ? SIM_MISPREDICTED : 0;
        }
        sim_core_step(c, u->index[k], 0, flags);
    }
}

static double simulate(struct simulated *s, const struct piece *p, const struct machine *m)
{
    const struct iteration *u = &p->iteration;
    assert(u->count > 0);
    struct sim_insn *table = xmalloc(u->table_count * sizeof *table);
    for (size_t k = 0; k < u->count; k++)
        prepare_insn(s, m, p->code, u->offset[k], u->table[u->index[k]].shape->len, &table[u->index[k]]);
    struct sim_core *c = sim_core_new(m, table, u->table_count, NULL);
    size_t warm = WARM / u->count + 1, iterations = MEASURED * (u->is_random ? 20 : 1) / u->count + 2;
    sim_core_reset_pipeline(c, (uint32_t)(warm * u->count));
    sim_core_set_reg(c, LAB_BASE, DATA_AT);
    for (size_t k = 0; k < warm + iterations; k++)
        play(s, c, p);
    double cycles = sim_core_cycles(c) / (double)iterations;
    sim_core_free(c);
    free(table);
    return cycles;
}

/* ---- chases ---- */

/* A ring through all its cells at random, walked again and again: each line is met once in a round, so a cache that is
 * replaced by age holds what it has room for only if the whole ring fits; replacement is never as bad as that, so the
 * share that fits hits. */
static double ring_cycles(const struct machine *m, const struct lab_ring *r)
{
    double bytes = (double)(r->cells * (r->stride < 64 ? r->stride : 64)),
           reach = (double)r->cells * fmax(4096, (double)r->stride);
    double left = 1, cycles = 0, last = 0;
    if (r->stride < 4096)
        reach = (double)(r->cells * r->stride);
    for (size_t i = 0; i < m->cache_count; i++) {
        const struct machine_cache *c = &m->caches[i];
        if (c->kind == MACHINE_CACHE_CODE)
            continue;
        if (c->kind == MACHINE_CACHE_TLB) {
            if (r->small_pages && c->size_bytes)
                cycles += c->latency * fmax(0, 1 - (double)c->size_bytes / reach);
            continue;
        }
        double fits = c->size_bytes ? fmin(1, (double)c->size_bytes / bytes) : 1;
        double share = fits >= 1 ? 1 : fits * fits;
        cycles += left * share * c->latency;
        left *= 1 - share;
        last = c->latency;
    }
    return cycles + left * last;
}

/* ---- pieces ---- */

static void forget(struct piece *p)
{
    free(p->code);
    free(p->iteration.table);
    free(p->iteration.index);
    free(p->iteration.flags);
    free(p->iteration.offset);
    *p = (struct piece){0};
}

static struct piece *new_piece(struct simulated *s, bool bare, int *number)
{
    enum { BARE = 8 };
    *number = bare ? (int)(s->bare++ % BARE) : (int)(BARE + s->next++ % (PIECES_MAX - BARE));
    struct piece *p = &s->pieces[*number];
    forget(p);
    p->cycles[0] = p->cycles[1] = -1;
    return p;
}

static int prepare(void *ctx, const struct lab_code *iteration, unsigned fill, bool bare)
{
    struct simulated *s = ctx;
    int number;
    (void)fill;
    if (iteration->full)
        return -1;
    struct piece *p = new_piece(s, bare, &number);
    p->code = xmalloc(sizeof *p->code);
    *p->code = *iteration;
    p->bare = bare;
    if (trace(s, p))
        return number;
    forget(p);
    return -1;
}

static int prepare_ring(void *ctx, const struct lab_ring *r)
{
    struct simulated *s = ctx;
    int number;
    struct piece *p = new_piece(s, false, &number);
    p->cycles[0] = p->cycles[1] = ring_cycles(s->m, r);
    return number;
}

static int prepare_call(void *ctx, void (*f)(uint64_t, void *), void *data)
{
    (void)ctx;
    (void)f;
    (void)data;
    return -1;
}

static double cycles_of(struct simulated *s, struct piece *p)
{
    double *known = &p->cycles[s->neighbour];
    if (*known < 0)
        *known = simulate(s, p, s->neighbour ? &s->half : s->m);
    return *known;
}

/* ---- noise ---- */

/* What the clock of the core is at this moment, beside its usual one. */
static double drift(const struct simulated *s)
{
    static const double PERIOD_S = 2.3;
    return 1 + s->noise.drift * sin(s->phase + s->now_s * 2 * 3.14159265 / PERIOD_S);
}

static void change_neighbour(struct simulated *s)
{
    static const double SHORT_S = 0.001, LONG_S = 0.05;
    while (s->now_s >= s->neighbour_until_s) {
        double share = s->noise.neighbour, stretch = SHORT_S + uniform(s) * (LONG_S - SHORT_S);
        s->neighbour = !s->neighbour;
        s->neighbour_until_s += s->neighbour ? stretch : stretch * (1 - share) / share;
    }
}

/* Seconds that others take while this runs. */
static double others(struct simulated *s, double span_s)
{
    double lost = 0, end = s->now_s + span_s;
    for (; s->next_interrupt_s < end; s->next_interrupt_s += gap(s, s->noise.interrupts_per_s))
        lost += (2 + 10 * uniform(s)) * 1e-6;
    for (; s->next_theft_s < end; s->next_theft_s += gap(s, s->noise.stolen_per_s))
        lost += (0.1 + 3 * uniform(s)) * 1e-3;
    return lost;
}

static double tsc_ticks(void *ctx, int piece, uint64_t iterations)
{
    static const double CALL_CYCLES = 30, BARE_CYCLES = 8;
    struct simulated *s = ctx;
    struct piece *p = &s->pieces[piece];
    if (s->noise.neighbour > 0)
        change_neighbour(s);
    double cycles = cycles_of(s, p) * (double)iterations + (p->bare ? BARE_CYCLES : CALL_CYCLES);
    double per_s = s->core.tsc_ghz * 1e9, span_s = cycles / (s->m->core_per_tsc * drift(s) * per_s);
    span_s += others(s, span_s);
    double before = floor(s->now_s * per_s / s->core.step);
    s->now_s += span_s;
    double after = floor(s->now_s * per_s / s->core.step);
    s->now_s += 30e-9; /* reading the clock */
    return (after - before) * s->core.step;
}

static double now_s(void *ctx) { return ((struct simulated *)ctx)->now_s; }
static void *data(void *ctx) { return ((struct simulated *)ctx)->data; }

/* A description that says nothing of wide registers is of a core that has none. */
static bool has_vectors(void *ctx, unsigned bits)
{
    const struct machine *m = ((struct simulated *)ctx)->m;
    return bits <= 128 || machine_class_named(m, bits <= 256 ? "load.y" : "load.z");
}

static void free_simulated(void *ctx)
{
    struct simulated *s = ctx;
    for (size_t i = 0; i < PIECES_MAX; i++)
        forget(&s->pieces[i]);
    sim_shapes_free(s->shapes);
    free(s->prepared);
    free(s->data);
    free(s);
}

static bool can_simulate(const struct machine *m)
{
    if (m->in_order)
        diag_error("%s: is described as in-order; calibration measures cores that execute out of order only, name a "
                   "description "
                   "with \"pipeline out-of-order\"",
                   m->name);
    else if (!(m->core_per_tsc > 0))
        diag_error("%s: is described without the core's clock; write core-per-tsc 1 if it is not known", m->name);
    return !m->in_order && m->core_per_tsc > 0;
}

struct lab_core *sim_bench_new(const struct machine *m, const struct sim_noise *noise)
{
    if (!can_simulate(m))
        return NULL;
    struct simulated *s = xmalloc(sizeof *s);
    s->m = m;
    s->half = *m;
    s->half.max_issue = m->max_issue / 2;
    s->shapes = sim_shapes_new();
    s->prepared = xmalloc(PREPARED * sizeof *s->prepared);
    s->data = aligned_alloc(4096, LAB_DATA);
    memset(s->data, 0, LAB_DATA);
    if (noise)
        s->noise = *noise;
    s->state = s->noise.seed * 0x9e3779b97f4a7c15u + 1;
    s->phase = uniform(s) * 6.28;
    s->next_interrupt_s = gap(s, s->noise.interrupts_per_s);
    s->next_theft_s = gap(s, s->noise.stolen_per_s);
    s->core = (struct lab_core){.ctx = s,
                                .prepare = prepare,
                                .prepare_ring = prepare_ring,
                                .prepare_call = prepare_call,
                                .ticks = tsc_ticks,
                                .now_s = now_s,
                                .data = data,
                                .has_vectors = has_vectors,
                                .free = free_simulated,
                                .tsc_ghz = m->tsc_ghz > 0 ? m->tsc_ghz : 2.5,
                                .step = s->noise.step > 0 ? s->noise.step : 1,
                                .name = m->name,
                                .vendor = "simulated",
                                .cpus = 1};
    return &s->core;
}

void sim_bench_free(struct lab_core *c) { lab_core_free(c); }
