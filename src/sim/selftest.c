/* SPDX-License-Identifier: Apache-2.0
 *
 * How far off the core model is: kernels timed on this machine against the model on the recorded stream of the same
 * code at the same addresses. A seeded draw splits them; one half fits the parameters that cannot be measured, the
 * other half scores. */
#include "machine/lab/lab.h"
#include "sim/kernels.h"
#include "sim/record.h"
#include "sim/sim.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { STEPS = 120000, PLAYED = 24000 };

struct stream { /* one round of a kernel, from its entry to its next entry */
    struct sim_insn *table;
    size_t table_count;
    uint64_t *addrs; /* of the table's instructions */
    uint32_t *index, *flags;
    const struct record_step *steps; /* for the registers; those of repeated steps are left out by `step` */
    uint32_t *step;
    size_t count;
};

struct subject {
    const struct kernel *kernel;
    bool wide, fitted;
    double truth, predicted;
    struct stream stream;
};

struct sim_streams {
    struct arena *arena;
    struct stream *of[2]; /* base, wide: by kernel; a count of 0: not recorded, of 1: it cannot be */
};

struct selftest {
    struct machine *m;
    const struct machine *given; /* not NULL: the truth is what this description says */
    struct lab *lab;
    struct arena *arena;
    struct sim_streams *streams;
    struct kernel_data *data;
    struct subject *subjects;
    size_t count;
};

/* ---- truth ---- */

static double true_cycles(struct selftest *t, const struct kernel *k, bool wide)
{
    k->run(20, t->data);
    lab_name(t->lab, "kernel %s%s", k->name, wide ? " wide" : "");
    return lab_call_cycles(t->lab, k->run, t->data, 0);
}

/* ---- stream ---- */

/* The second round of those recorded: entry to entry. */
enum { ROUND_ENDS = 3 };
static bool find_round(const struct record *r, uint64_t entry, size_t *first, size_t *end)
{
    unsigned seen = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->steps[i].rip != entry)
            continue;
        seen++;
        if (seen == ROUND_ENDS - 1)
            *first = i;
        if (seen == ROUND_ENDS) {
            *end = i;
            return true;
        }
    }
    return false;
}

static const uint8_t *code_at(uint64_t addr)
{
    union {
        uint64_t n;
        const uint8_t *p;
    } u = {.n = addr};
    return u.p;
}

static void build_stream(struct selftest *t, const struct record *r, size_t first, size_t end, struct stream *s)
{
    struct map seen = {0};
    size_t n = end - first;
    struct record_step *steps = ARENA_ARRAY(t->streams->arena, struct record_step, n);
    memcpy(steps, r->steps + first, n * sizeof *steps);
    s->steps = steps;
    s->index = ARENA_ARRAY(t->streams->arena, uint32_t, n);
    s->flags = ARENA_ARRAY(t->streams->arena, uint32_t, n);
    s->step = ARENA_ARRAY(t->streams->arena, uint32_t, n);
    s->addrs = ARENA_ARRAY(t->streams->arena, uint64_t, n);
    for (size_t i = 0; i < n;) {
        uint64_t rip = steps[i].rip, id;
        if (!map_get(&seen, rip, &id)) {
            id = s->table_count++;
            s->addrs[id] = rip;
            map_put(&seen, rip, id);
        }
        size_t k = i + 1; /* each iteration of a rep string instruction is a step */
        while (k < n && steps[k].rip == rip)
            k++;
        uint64_t next = steps[k % n].rip;
        bool taken = next - rip > 15 || next <= rip;
        s->index[s->count] = (uint32_t)id;
        s->flags[s->count] = (taken ? SIM_TAKEN : 0) | (uint32_t)(k - i > 1 ? (k - i) << SIM_REPEAT_SHIFT : 0);
        s->step[s->count++] = (uint32_t)i;
        i = k;
    }
    map_fini(&seen);
    s->table = ARENA_ARRAY(t->streams->arena, struct sim_insn, s->table_count);
}

static int record_stream(struct selftest *t, struct record *r, const struct kernel *k, struct stream *s)
{
    union {
        void (*f)(struct kernel_data *);
        uint64_t addr;
    } entry = {.f = k->entry};
    size_t first = 0, end = 0;
    r->last_at = entry.addr;
    r->last_count = ROUND_ENDS;
    if (record_run(k->run, 4, t->data, r) < 0)
        return diag_error(
            "single steps (the trap flag) do not work here, so the self-test of the core model cannot run; "
            "the machine description stays without its own error bar");
    if (r->overflow || !find_round(r, entry.addr, &first, &end))
        return 0; /* this kernel is left out */
    build_stream(t, r, first, end, s);
    return 0;
}

/* A jump forward by less than an instruction's length is told from none by the decoded length. */
static void mend_taken(struct stream *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct sim_insn *insn = &s->table[s->index[i]];
        uint64_t next = s->table[s->index[(i + 1) % s->count]].addr;
        bool taken = insn->addr + insn->shape->len != next;
        s->flags[i] = (s->flags[i] & ~(uint32_t)SIM_TAKEN) | (taken ? SIM_TAKEN : 0);
    }
}

struct sim_streams *sim_streams_new(void)
{
    struct sim_streams *s = xmalloc(sizeof *s);
    s->arena = arena_new();
    for (int wide = 0; wide < 2; wide++)
        s->of[wide] = ARENA_ARRAY(s->arena, struct stream, kernel_count);
    return s;
}

void sim_streams_free(struct sim_streams *s)
{
    if (!s)
        return;
    arena_free(s->arena);
    free(s);
}

/* Each is recorded once. */
static int stream_of(struct selftest *t, struct record *r, const struct kernel *k, bool wide, struct stream *out)
{
    struct stream *s = &t->streams->of[wide][k - (wide ? kernels_wide : kernels_base)];
    if (!s->count && record_stream(t, r, k, s) < 0)
        return -1;
    s->count += !s->count;
    *out = *s;
    return 0;
}

/* ---- prediction ---- */

static double predict(const struct machine *m, struct stream *s)
{
    struct sim_shapes *shapes = sim_shapes_new();
    for (size_t i = 0; i < s->table_count; i++)
        sim_insn_prepare(m, shapes, code_at(s->addrs[i]), 15, s->addrs[i], &s->table[i]);
    mend_taken(s);
    struct sim_core *c = sim_core_new(m, s->table, s->table_count, NULL);
    size_t rounds = PLAYED / s->count + 2, warm = s->count < 600 ? 600 / s->count + 1 : 1;
    sim_core_reset_pipeline(c, (uint32_t)(warm * s->count));
    for (size_t r = 0; r < rounds + warm; r++)
        for (size_t i = 0; i < s->count; i++) {
            sim_core_set_regs(c, s->steps[s->step[i]].regs);
            sim_core_step(c, s->index[i], 0, s->flags[i]);
        }
    double cycles = sim_core_cycles(c) / (double)rounds;
    sim_core_free(c);
    sim_shapes_free(shapes);
    return cycles;
}

static double relative_error(const struct subject *s) { return (s->predicted - s->truth) / s->truth; }

static void predict_all(struct selftest *t, bool fitted_only)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->subjects[i].fitted || !fitted_only)
            t->subjects[i].predicted = predict(t->m, &t->subjects[i].stream);
}

/* ---- fitting ---- */

/* Mean error of the fitting half; what is too low counts a little more, as it would be taken for memory overhead. */
static double fit_cost(struct selftest *t)
{
    double sum = 0;
    size_t n = 0;
    predict_all(t, true);
    for (size_t i = 0; i < t->count; i++) {
        if (!t->subjects[i].fitted)
            continue;
        double e = log(t->subjects[i].predicted / t->subjects[i].truth);
        sum += fmin(fabs(e), 0.7) * (e < 0 ? 1.2 : 1);
        n++;
    }
    return n ? sum / (double)n : 0;
}

static void fit(struct selftest *t)
{
    static const double shares[] = {1, 0.96, 0.92};
    static const double WORTH = 1.1,
                        WORTH_BIND = 1.05; /* so much better it must be than what calibration itself says */
    double best = INFINITY, best_share = 1, best_bind = t->m->bind_at_dispatch, told = t->m->bind_at_dispatch;
    for (int bind = 0; bind < 2; bind++)
        for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
            diag_progress("fitting the core model", (uint64_t)bind * ARRAY_LEN(shares) + i, 2 * ARRAY_LEN(shares));
            t->m->issue_share = shares[i];
            t->m->bind_at_dispatch = bind;
            double cost = fit_cost(t) * (i ? WORTH : 1) * (bind == told ? 1 : WORTH_BIND);
            diag_debug(1, "selftest: issue-share %.2f bind-at-dispatch %d: %.4f", shares[i], bind, cost);
            if (cost < best) {
                best = cost;
                best_share = shares[i];
                best_bind = bind;
            }
        }
    t->m->issue_share = best_share;
    t->m->bind_at_dispatch = best_bind;
}

/* ---- the scores ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void score(struct selftest *t, const char *kind)
{
    double *size = ARENA_ARRAY(t->arena, double, t->count), sum = 0;
    unsigned n = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct subject *s = &t->subjects[i];
        if (s->fitted || (strcmp(kind, "all") != 0 && strcmp(kind, s->kernel->kind) != 0))
            continue;
        size[n++] = fabs(relative_error(s));
        sum += relative_error(s);
    }
    if (!n)
        return;
    qsort(size, n, sizeof *size, compare_doubles);
    struct machine_error e = {.count = n};
    snprintf(e.kernels, sizeof e.kernels, "%s", kind);
    e.median = round(size[n / 2] * 1000) / 1000;
    e.p90 = round(size[(n * 9) / 10 < n ? n * 9 / 10 : n - 1] * 1000) / 1000;
    e.bias = round(sum / n * 1000) / 1000;
    machine_add_error(t->m, &e);
}

/* ---- the whole ---- */

struct form { /* of a kernel */
    const struct kernel *kernel;
    bool wide;
    double truth; /* 0: not known */
};

static void time_form(struct selftest *t, struct form *f)
{
    kernel_data_init(t->data);
    f->truth = t->given ? 1 : true_cycles(t, f->kernel, f->wide);
    if (!t->given && lab_was_unsure(t->lab))
        f->truth = 0;
}

static int add_form(struct selftest *t, struct record *r, const struct form *f)
{
    struct subject *s = &t->subjects[t->count];
    *s = (struct subject){.kernel = f->kernel, .wide = f->wide, .truth = f->truth};
    kernel_data_init(t->data);
    if (stream_of(t, r, f->kernel, f->wide, &s->stream) < 0)
        return -1;
    if (s->stream.count <= 20)
        return 0;
    if (t->given) {
        s->truth = predict(t->given, &s->stream);
        lab_name(t->lab, "kernel %s%s", f->kernel->name, f->wide ? " wide" : "");
        lab_tell(t->lab, s->truth);
    }
    t->count++;
    return 0;
}

/* All are timed before any is recorded, which takes far longer: what the time left is enough for is then of all kinds,
 * because those that follow each other are of one kind. */
static int add_forms(struct selftest *t, struct form *forms, size_t all)
{
    enum { APART = 41 }; /* a prime that the number of kernels is no multiple of */
    struct record r = {.cap = STEPS, .steps = xmalloc(STEPS * sizeof *r.steps)};
    int rc = 0;
    for (size_t i = 0; i < all; i++)
        time_form(t, &forms[i]);
    size_t i = 0, max = (size_t)fmax(0, fmin((double)all, lab_recall(t->lab, "kernels tested", (double)all)));
    for (; rc == 0 && i < max && lab_seconds_left(t->lab) > 0; i++) {
        assert(all > 0); /* most is no more */
        const struct form *f = &forms[i * APART % all];
        diag_progress("testing the core model", i, all);
        rc = f->truth > 0 ? add_form(t, &r, f) : 0;
    }
    lab_name(t->lab, "kernels tested");
    lab_tell(t->lab, (double)i);
    free(r.steps);
    return rc;
}

static int add_kernels(struct selftest *t)
{
    bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    size_t all = kernel_count * (wide ? 2 : 1);
    struct form *forms = ARENA_ARRAY(t->arena, struct form, all);
    for (size_t i = 0; i < all; i++)
        forms[i] =
            (struct form){i < kernel_count ? &kernels_base[i] : &kernels_wide[i - kernel_count], i >= kernel_count, 0};
    lab_plan(t->lab, (unsigned)all, 0.3 * lab_seconds_left(t->lab));
    t->subjects = ARENA_ARRAY(t->arena, struct subject, all);
    return add_forms(t, forms, all);
}

/* Both forms of a kernel go to the same half: they are too alike to test one with the other. */
static void draw(struct selftest *t, uint32_t seed)
{
    uint8_t *half = ARENA_ARRAY(t->arena, uint8_t, kernel_count);
    size_t *order = ARENA_ARRAY(t->arena, size_t, kernel_count);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < kernel_count; i++)
        order[i] = i;
    for (size_t i = kernel_count; i > 1; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t k = (state >> 33) % i, swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
    for (size_t i = 0; i < kernel_count; i++)
        half[order[i]] = i & 1;
    for (size_t i = 0; i < t->count; i++) {
        const struct subject *s = &t->subjects[i];
        t->subjects[i].fitted = half[s->kernel - (s->wide ? kernels_wide : kernels_base)];
    }
}

static void tell(const struct selftest *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct subject *s = &t->subjects[i];
        diag_debug(2, "selftest: %s %s %s %s true %.1f predicted %.1f (%+.1f %%)", s->kernel->name, s->kernel->kind,
                   s->wide ? "wide" : "base", s->fitted ? "fit" : "score", s->truth, s->predicted,
                   100 * relative_error(s));
    }
}

static void report(const struct selftest *t, struct arena *a, struct sim_selftest_result *out)
{
    out->cases = ARENA_ARRAY(a, struct sim_selftest_case, t->count);
    out->count = t->count;
    for (size_t i = 0; i < t->count; i++) {
        const struct subject *s = &t->subjects[i];
        out->cases[i] = (struct sim_selftest_case){s->kernel->name,         s->kernel->kind, s->wide,     s->fitted,
                                                   (double)s->stream.count, s->truth,        s->predicted};
    }
}

int sim_selftest(struct machine *m, const struct sim_selftest_options *given, struct arena *a,
                 struct sim_selftest_result *result)
{
    static const char *const kinds[] = {"all", "integer", "float", "memory", "branch"};
    const struct sim_selftest_options usual = {0}, *options = given ? given : &usual;
    struct selftest t = {.m = m, .given = options->given};
    t.lab = lab_open(options->bench, options->budget_s > 0 ? options->budget_s : 10);
    if (!t.lab)
        return -1;
    t.arena = arena_new();
    struct sim_streams *own = options->streams ? NULL : sim_streams_new();
    t.streams = own ? own : options->streams;
    t.data = aligned_alloc(4096, ALIGN_UP(sizeof *t.data, 4096));
    int rc = add_kernels(&t);
    if (rc == 0 && t.count < 12)
        rc = diag_error("this machine was never quiet enough for the self-test of the core model; calibrate again when "
                        "less runs on it");
    if (rc == 0) {
        bool keep = options->keep;
        draw(&t, options->seed ? options->seed : 1);
        if (!keep)
            fit(&t);
        predict_all(&t, false);
        tell(&t);
        for (size_t i = 0; !keep && i < ARRAY_LEN(kinds); i++)
            score(&t, kinds[i]);
        if (result)
            report(&t, a, result);
    }
    diag_progress_end();
    lab_close(t.lab);
    free(t.data);
    sim_streams_free(own);
    arena_free(t.arena);
    return rc;
}
