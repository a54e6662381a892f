/* SPDX-License-Identifier: Apache-2.0
 *
 * Experiments: samples between clock chains and canaries, repeated until enough of them are undisturbed or the time is
 * over; or looked up on a tape. It knows nothing of machine descriptions, and not what executes the code. */
#include "machine/lab/lab.h"

#include "machine/machine.h"

#include <math.h>
#include <stdlib.h>

enum {
    SAMPLES = 7, /* of one measurement */
    TRIES = 256, /* disturbed ones kept */
    RATIO_KEPT = 4096,
    LABEL = 128,
    STEPS_A_CHAIN =
        330, /* of a clock that moves in steps: what a chain takes at least, so that it tells a third of a per cent */
};
static const double CHAIN_ADDS = 4000; /* at least; and a sample is twice as long */
static const double CANARY_NOPS = 4000;

struct lab {
    struct lab_core *core; /* NULL: a tape is played */
    bool owns_core;
    struct lab_bracket bracket;
    struct tape *play, *record;
    char label[LABEL];
    uint64_t hash; /* of the code under way */
    double deadline_s, start_s, budget_s;
    double best_canary;   /* cycles per nop, undisturbed */
    double overhead;      /* cycles of an empty call with its clock reads */
    double chain, canary; /* ticks of the latest chain, cycles of the latest canary: brackets are shared */
    unsigned faster;      /* canaries in a row that beat the best */
    double ratios[RATIO_KEPT], spreads[RATIO_KEPT];
    size_t ratio_count, spread_count;
    uint64_t samples, disturbed;
    unsigned planned; /* measurements still to come in this part, for sharing out its time */
    double part_end_s;
    unsigned part, asked; /* how often whether the part is over, while it was not */
    bool part_was_over;
    double last_ask; /* of a tape: so often it was not over; INFINITY: it never was */
    unsigned quiet;  /* samples of the last measurement */
    double last_ticks;
};

static double now(const struct lab *l) { return l->core ? l->core->now_s(l->core->ctx) : 0; }

/* ---- brackets ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double lab_quantile(double *v, size_t n, double q)
{
    if (!n)
        return 0;
    qsort(v, n, sizeof *v, compare_doubles);
    return v[(size_t)(q * (double)(n - 1) + 0.5)];
}

static double ticks_of(const struct lab_core *core, int piece, uint64_t iterations)
{
    return core->ticks(core->ctx, piece, iterations);
}

static int put_repeated(const struct lab_core *core, const uint8_t *bytes, size_t len, unsigned times)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned i = 0; i < times; i++)
        lab_put(c, bytes, len);
    lab_put_iteration_end(c, true);
    int piece = core->prepare(core->ctx, c, LAB_FILL_NONE, true);
    free(c);
    return piece;
}

/* Chains of one operation after the other, each a cycle on nearly every core: but some give constants' sums for nothing
 * (Golden Cove adds small constants while it renames), and others may have two cycles for one of them. */
static const struct {
    uint8_t bytes[4];
    size_t len;
} chain_kinds[] = {{{0x48, 0x01, 0xc8}, 3},        /* add rax,rcx */
                   {{0x48, 0xf7, 0xd0}, 3},        /* not rax */
                   {{0x48, 0x31, 0xc8}, 3},        /* xor rax,rcx */
                   {{0x48, 0x83, 0xc0, 0x01}, 4}}; /* add rax,1 */

/* Of the kinds that another agrees with the slowest: what is executed takes a cycle at least, what is not is faster.
 * The first of the list where none does. */
static int slowest_agreed(const double *ticks, size_t n)
{
    static const double ALIKE = 0.03;
    int best = -1;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (k != i && fabs(ticks[i] / ticks[k] - 1) < ALIKE && (best < 0 || ticks[i] > ticks[best] * (1 + ALIKE)))
                best = (int)i;
    return best;
}

/* Looked at in turn, since the clock may change meanwhile, and again while no two agree. */
static int choose_chain(const struct lab_core *core, uint64_t iterations)
{
    enum { LOOKS = 15, KINDS = ARRAY_LEN(chain_kinds), TIMES = 3 };
    int pieces[KINDS];
    double looks[KINDS][LOOKS], ticks[KINDS];
    for (size_t i = 0; i < KINDS; i++)
        pieces[i] = put_repeated(core, chain_kinds[i].bytes, chain_kinds[i].len, LAB_CHAIN_ADDS);
    for (int again = 0; again < TIMES; again++) {
        for (size_t n = 0; n < LOOKS * KINDS; n++)
            looks[n % KINDS][n / KINDS] = ticks_of(core, pieces[n % KINDS], iterations);
        for (size_t i = 0; i < KINDS; i++)
            ticks[i] = lab_quantile(looks[i], LOOKS, 0.3);
        int best = slowest_agreed(ticks, KINDS);
        if (best >= 0)
            return pieces[best];
    }
    return pieces[0];
}

/* Assumes that two of four kinds of chain take a cycle each (choose_chain; calib_clock asks latencies of other units
 * whether that can be), and that nops, which need no unit, go at the full width in this loop whatever a nop counts for:
 * the canary is only ever compared with itself. */
void lab_bracket_open(struct lab_bracket *b, const struct lab_core *core)
{
    static const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    enum { LOOKS = 15 };
    double once[LOOKS], twice[LOOKS];
    *b = (struct lab_bracket){.core = core};
    b->chain_iterations = (uint64_t)(fmax(CHAIN_ADDS, STEPS_A_CHAIN * core->step) / LAB_CHAIN_ADDS);
    b->chain = choose_chain(core, b->chain_iterations);
    b->canary = put_repeated(core, nop, sizeof nop, LAB_CANARY_NOPS);
    b->canary_iterations = (uint64_t)(fmax(CANARY_NOPS, 4 * STEPS_A_CHAIN * core->step) / LAB_CANARY_NOPS);
    for (int i = 0; i < LOOKS; i++) {
        once[i] = ticks_of(core, b->chain, b->chain_iterations);
        twice[i] = ticks_of(core, b->chain, 2 * b->chain_iterations);
    }
    b->chain_cost = fmax(0, 2 * lab_quantile(once, LOOKS, 0.3) - lab_quantile(twice, LOOKS, 0.3));
    if (b->chain_cost > 0.03 * once[0]) /* the clock changed between them */
        b->chain_cost = 0;
}

double lab_chain_cycles(const struct lab_bracket *b) { return (double)(b->chain_iterations * LAB_CHAIN_ADDS); }
double lab_canary_nops(const struct lab_bracket *b) { return (double)(b->canary_iterations * LAB_CANARY_NOPS); }
double lab_chain_ticks(const struct lab_bracket *b)
{
    return ticks_of(b->core, b->chain, b->chain_iterations) - b->chain_cost;
}
double lab_canary_ticks(const struct lab_bracket *b)
{
    return ticks_of(b->core, b->canary, b->canary_iterations) - b->chain_cost;
}

/* Equal chains may differ by a step of the clock at either end. */
static double drift_limit(const struct lab *l) { return fmax(0.004, 1.5 * l->core->step / l->chain); }

/* An interrupt inside a chain makes the canary beside it look fast, so a faster canary than any before is believed only
 * between equal chains, and when it comes again. */
static void read_bracket(struct lab *l)
{
    double before = l->chain, last = l->canary;
    l->chain = lab_chain_ticks(&l->bracket);
    double chain = before > 0 && before < l->chain ? before : l->chain;
    l->canary = lab_canary_ticks(&l->bracket) * lab_chain_cycles(&l->bracket) / chain / lab_canary_nops(&l->bracket);
    bool steady = fabs(l->chain - before) < drift_limit(l) * before && fabs(l->canary - last) < 0.02 * last;
    bool possible = l->canary > l->best_canary * 0.45 || l->best_canary >= 1; /* a neighbour takes half, not more */
    l->faster = steady && possible && l->canary < l->best_canary * 0.985 ? l->faster + 1 : 0;
    if (l->faster > 2)
        l->best_canary = l->canary;
}

/* ---- samples ---- */

static bool is_quiet(const struct lab *l, double chain_before, double canary_before)
{
    double drift = fabs(l->chain - chain_before) / chain_before,
           steps = l->core->step / (l->canary * lab_canary_nops(&l->bracket));
    double limit = l->best_canary * fmax(1.012, 1 + 3 * steps);
    return drift < drift_limit(l) && l->canary < limit && canary_before < limit;
}

static double timed(struct lab *l, int piece, uint64_t iterations, bool *quiet)
{
    double chain = l->chain, canary = l->canary, span = ticks_of(l->core, piece, iterations);
    if (span < 0)
        return NAN;
    read_bracket(l);
    *quiet = is_quiet(l, chain, canary);
    double cycles = lab_chain_cycles(&l->bracket),
           ratio = *quiet ? 2 * cycles / (chain + l->chain) : cycles / fmin(chain, l->chain);
    l->samples++;
    l->disturbed += !*quiet;
    if (*quiet && l->ratio_count < RATIO_KEPT)
        l->ratios[l->ratio_count++] = ratio;
    l->last_ticks = span / (double)iterations;
    return span * ratio - l->overhead;
}

double lab_seconds_left(const struct lab *l) { return l->core ? l->deadline_s - now(l) : INFINITY; }

static void keep_spread(struct lab *l, double low, double high)
{
    if (l->spread_count < RATIO_KEPT && low > 0)
        l->spreads[l->spread_count++] = (high - low) / low;
}

/* Patience: disturbed samples are taken again, as long as the measurements still to come leave time for it. However
 * late it is, a neighbour that comes and goes within milliseconds is waited for. */
static double patience_s(const struct lab *l)
{
    static const double MIN_S = 0.002;
    double left = fmin(l->part_end_s - now(l), lab_seconds_left(l));
    return fmin(fmax(1.5 * left / (l->planned > 8 ? l->planned : 8), MIN_S), 1.0);
}

static void name_part(struct lab *l) { lab_name(l, "times that part %u was not over", l->part); }

void lab_plan(struct lab *l, unsigned measurements, double seconds)
{
    l->planned = measurements;
    l->part_end_s = now(l) + seconds;
    l->part++;
    l->asked = 0;
    l->part_was_over = false;
    name_part(l);
    l->last_ask = lab_recall(l, l->label, INFINITY);
}

/* A tape says when: what was left away when it was recorded is left away again. */
bool lab_part_is_over(struct lab *l)
{
    bool is_over = l->play ? l->asked >= l->last_ask : now(l) > l->part_end_s;
    if (is_over && !l->part_was_over && l->record) {
        name_part(l);
        lab_tell(l, l->asked);
    }
    l->part_was_over = is_over;
    l->asked += !is_over;
    return is_over;
}

bool lab_was_unsure(const struct lab *l) { return l->quiet < 3; }

/* Cycles of so many iterations; NAN: it cannot be executed. */
static double repeat(struct lab *l, int piece, uint64_t iterations)
{
    double good[SAMPLES], bad[TRIES];
    double until = now(l) + patience_s(l);
    size_t n = 0, bad_count = 0;
    read_bracket(l);
    while (n < SAMPLES) {
        bool quiet = false;
        double cycles = timed(l, piece, iterations, &quiet);
        if (isnan(cycles))
            return NAN;
        if (quiet)
            good[n++] = cycles;
        else
            bad[bad_count++ % TRIES] = cycles;
        if (bad_count > 4 && now(l) > until)
            break;
    }
    l->planned -= l->planned > 0;
    l->quiet = (unsigned)n;
    if (!n) /* disturbances only add, and the shorter of the chains was taken: the least is nearest */
        return lab_quantile(bad, bad_count < TRIES ? bad_count : TRIES, 0);
    qsort(good, n, sizeof *good, compare_doubles);
    if (n >= 4)
        keep_spread(l, good[n / 4], good[n * 3 / 4]);
    return good[n >= 4];
}

/* Wide vector units sleep until used, and wake up at a quarter of their speed. */
static bool wake(struct lab *l, int piece, uint64_t iterations)
{
    double until = now(l) + 1e-4;
    do
        if (ticks_of(l->core, piece, iterations) < 0)
            return false;
    while (now(l) < until);
    return true;
}

/* Cycles an iteration; -1: it cannot be executed. */
static double piece_cycles(struct lab *l, int piece, uint64_t iterations)
{
    double first = 1e18, sample = 2 * lab_chain_cycles(&l->bracket);
    bool quiet;
    if (ticks_of(l->core, piece, 1) < 0 || !wake(l, piece, iterations ? iterations : 8))
        return -1;
    read_bracket(l);
    for (int i = 0; i < 3; i++)
        first = fmin(first, timed(l, piece, 8, &quiet) / 8);
    if (!iterations)
        iterations = (uint64_t)fmax(8, ceil(sample / fmax(first, 1)));
    double cycles = repeat(l, piece, iterations) / (double)iterations;
    return isnan(cycles) ? -1 : fmax(cycles, 0);
}

/* ---- tapes ---- */

static uint64_t hash_of(const struct lab_code *c, unsigned fill)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < c->len; i++)
        h = (h ^ c->bytes[i]) * 0x100000001b3u;
    return (h ^ fill) * 0x100000001b3u | 1;
}

struct range {
    double min, max; /* cycles that a processor can take */
};

/* What no processor could have told is as if it were missing, on the tape and off it. */
static double believed(struct lab *l, double cycles, struct range possible)
{
    if (cycles < 0 || (cycles >= possible.min && cycles <= possible.max))
        return cycles;
    l->quiet = 0;
    return -3;
}

static double played(struct lab *l, struct range possible)
{
    const struct tape_entry *e = tape_next(l->play, l->label, l->hash);
    l->quiet = e ? e->quiet : 0;
    double cycles = e ? believed(l, e->cycles, possible) : -3;
    if (e && cycles == -3)
        tape_doubt(l->play, l->label);
    return cycles;
}

/* With no more digits than a timing has, and a tape keeps: it makes no difference whether one is recorded or played. */
static double kept(struct lab *l, double cycles, struct range possible)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", cycles);
    cycles = strtod(text, NULL);
    if (l->record)
        tape_add(l->record, l->label, l->hash, cycles, l->last_ticks, l->quiet);
    return believed(l, cycles, possible);
}

static double too_late(struct lab *l)
{
    l->quiet = 0;
    l->last_ticks = 0;
    return kept(l, -2, (struct range){0, 0});
}

/* ---- experiments ---- */

void lab_name(struct lab *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(l->label, sizeof l->label, fmt, args);
    va_end(args);
}

double lab_loop_cycles(struct lab *l, const struct lab_code *body, unsigned fill)
{
    static const double BYTES_A_CYCLE = 256; /* of code: more than any front end fetches */
    static const double CYCLES_A_BYTE = 60,
                        CYCLES_MORE = 2e4; /* fences take 30 a byte; strings that repeat need the second */
    const struct range possible = {(double)body->len / BYTES_A_CYCLE, (double)body->len * CYCLES_A_BYTE + CYCLES_MORE};
    l->hash = hash_of(body, fill);
    if (l->play)
        return played(l, possible);
    if (lab_seconds_left(l) < 0)
        return too_late(l);
    struct lab_code *iteration = xmalloc(sizeof *iteration);
    *iteration = *body;
    lab_put_iteration_end(iteration, false);
    int piece = l->core->prepare(l->core->ctx, iteration, fill, false);
    free(iteration);
    return kept(l, piece < 0 ? -1 : piece_cycles(l, piece, 0), possible);
}

double lab_call_cycles(struct lab *l, void (*f)(uint64_t iterations, void *data), void *data, uint64_t iterations)
{
    const struct range possible = {1, 1e7};
    l->hash = 0;
    if (l->play)
        return played(l, possible);
    if (lab_seconds_left(l) < 0)
        return too_late(l);
    int piece = l->core->prepare_call(l->core->ctx, f, data);
    return piece < 0 ? -3 : kept(l, piece_cycles(l, piece, iterations), possible);
}

static double walk_cycles(struct lab *l, int piece, uint64_t iterations)
{
    enum { WALKS = 30, WALKS_MIN = 6 };
    double min = INFINITY;
    for (int i = 0; i < WALKS && (i < WALKS_MIN || isinf(min)); i++) {
        bool quiet = false;
        double cycles = timed(l, piece, iterations, &quiet);
        if (quiet && cycles > 0)
            min = fmin(min, cycles);
    }
    l->quiet = isinf(min) ? 0 : SAMPLES;
    return isinf(min) ? piece_cycles(l, piece, iterations) : min / (double)iterations;
}

double lab_ring_cycles(struct lab *l, const struct lab_ring *r)
{
    const struct range possible = {0.5, 1e5};
    l->hash = 0;
    if (l->play)
        return played(l, possible);
    if (lab_seconds_left(l) < 0)
        return too_late(l);
    int piece = l->core->prepare_ring(l->core->ctx, r);
    if (piece < 0)
        return -1;
    ticks_of(l->core, piece, r->cells < 30000 ? r->cells * 2 : r->cells);
    read_bracket(l);
    return kept(l, walk_cycles(l, piece, r->cells < 3000 ? 3000 : 12000), possible);
}

void lab_tell(struct lab *l, double cycles)
{
    if (l->record)
        tape_add(l->record, l->label, 0, cycles, cycles, SAMPLES);
}

double lab_recall(struct lab *l, const char *what, double otherwise)
{
    return l->play && tape_has(l->play, what) ? tape_next(l->play, what, 0)->cycles : otherwise;
}

double lab_fact(struct lab *l, const char *what, double value)
{
    if (l->play)
        return lab_recall(l, what, value);
    lab_name(l, "%s", what);
    lab_tell(l, value);
    return value;
}

/* ---- opening ---- */

static double quiet_share(struct lab *l)
{
    enum { LOOKS = 200 };
    unsigned quiet = 0;
    for (int i = 0; i < LOOKS; i++) {
        double chain = l->chain, canary = l->canary;
        read_bracket(l);
        quiet += is_quiet(l, chain, canary);
    }
    return quiet / (double)LOOKS;
}

/* Long enough that the neighbours are seen to come and go. */
static void find_best_canary(struct lab *l)
{
    double until = now(l) + fmin(0.06, 0.02 * l->budget_s);
    while (now(l) < until)
        read_bracket(l);
}

/* The quietest of the first allowed CPUs. */
static void choose_cpu(struct lab *l)
{
    enum { CPUS_MAX = 8 };
    int best = -1;
    double best_share = -1;
    for (int cpu = 0; cpu < CPUS_MAX && (cpu < (int)l->core->cpus || !cpu); cpu++) {
        if (l->core->move)
            l->core->move(l->core->ctx, cpu);
        find_best_canary(l);
        double share = quiet_share(l);
        if (share > best_share) {
            best_share = share;
            best = cpu;
        }
    }
    if (best >= 0 && l->core->move)
        l->core->move(l->core->ctx, best);
}

static void find_overhead(struct lab *l)
{
    struct lab_code *c = xmalloc(sizeof *c);
    enum { LOOKS = 101 };
    double empty[LOOKS];
    lab_put_iteration_end(c, false);
    int piece = l->core->prepare(l->core->ctx, c, LAB_FILL_NONE, false);
    free(c);
    for (int i = 0; i < LOOKS; i++) { /* of one iteration, what two iterations take more than one is its cycle */
        bool quiet;
        empty[i] = timed(l, piece, 1, &quiet);
    }
    l->overhead = fmax(0, lab_quantile(empty, LOOKS, 0.2) - 1);
}

static void open_core(struct lab *l)
{
    l->start_s = now(l);
    l->deadline_s = l->start_s + l->budget_s;
    lab_bracket_open(&l->bracket, l->core);
    read_bracket(l);
    choose_cpu(l);
    find_overhead(l);
}

struct lab *lab_open(const struct machine_bench *bench, double budget_s)
{
    struct lab *l = xmalloc(sizeof *l);
    l->budget_s = budget_s;
    l->best_canary = 1;
    l->play = bench ? bench->play : NULL;
    l->record = bench ? bench->record : NULL;
    l->core = l->play ? NULL : bench && bench->core ? bench->core : lab_native();
    l->owns_core = l->core && !(bench && bench->core);
    if (l->core) {
        open_core(l);
    } else if (!l->play) {
        free(l);
        return NULL;
    }
    return l;
}

/* Those of the calibration, not of the self-test that follows it. */
static void record_facts(const struct lab *l)
{
    struct tape *t = l->record;
    if (!isnan(tape_number(t, "core-per-tsc")))
        return;
    tape_set_cpu(t, l->core->name, l->core->vendor, l->core->family, l->core->model);
    tape_set_number(t, "tsc-ghz", l->core->tsc_ghz);
    tape_set_number(t, "clock-step", l->core->step);
    tape_set_number(t, "core-per-tsc", lab_core_per_tsc(l));
    tape_set_number(t, "nop-cycles", l->best_canary);
    tape_set_number(t, "noise", lab_noise(l));
    for (unsigned bits = 256; bits <= 512; bits += 256)
        tape_set_number(t, bits == 256 ? "vectors-256" : "vectors-512", lab_has_vectors(l, bits));
}

void lab_close(struct lab *l)
{
    if (l->record && l->core)
        record_facts(l);
    if (l->owns_core)
        lab_core_free(l->core);
    free(l);
}

/* ---- what is known of it ---- */

void *lab_data(struct lab *l)
{
    static _Alignas(64) uint8_t nowhere[LAB_DATA];
    return l->core ? l->core->data(l->core->ctx) : nowhere;
}

const struct lab_core *lab_core_of(const struct lab *l) { return l->core; }
const char *lab_cpu_name(const struct lab *l) { return l->core ? l->core->name : tape_cpu(l->play); }

static double taped(const struct lab *l, const char *name, double otherwise)
{
    double v = tape_number(l->play, name);
    return isnan(v) ? otherwise : v;
}

static double median(const double *v, size_t n)
{
    double copy[RATIO_KEPT];
    memcpy(copy, v, n * sizeof *v);
    return lab_quantile(copy, n, 0.5);
}

double lab_core_per_tsc(const struct lab *l)
{
    return l->core ? median(l->ratios, l->ratio_count) : taped(l, "core-per-tsc", 1);
}
double lab_noise(const struct lab *l) { return l->core ? median(l->spreads, l->spread_count) : taped(l, "noise", 0); }
double lab_canary(const struct lab *l) { return l->core ? l->best_canary : taped(l, "nop-cycles", 0); }
double lab_tsc_ghz(const struct lab *l) { return l->core ? l->core->tsc_ghz : taped(l, "tsc-ghz", 0); }
double lab_disturbed_share(const struct lab *l) { return l->samples ? (double)l->disturbed / (double)l->samples : 0; }

bool lab_has_vectors(const struct lab *l, unsigned bits)
{
    if (l->core)
        return l->core->has_vectors(l->core->ctx, bits);
    return bits <= 128 || taped(l, bits <= 256 ? "vectors-256" : "vectors-512", 1) > 0;
}
