/* SPDX-License-Identifier: Apache-2.0
 *
 * merge: profiles of the ranks of one parallel job to one: sums of all that can be added, each rank's own figures, and
 * how unevenly the ranks share each object's work. Objects are the same where module, kind and address are. Ends of
 * intervals are added too: the errors of one estimator go the same way. What a sum says nothing of is left out (counts
 * of blocks and edges, candidates, regions, instructions and calls of objects).
 */
#include "result/merge.h"

#include <math.h>
#include <stdlib.h>

#include "result/fields.h"
#include "result/stats.h"

#define SAMPLES_MIN 10 /* as of an object that is not merged */

struct merge {
    struct prof_result *out;
    const struct merge_input *in;
    size_t count;
    double users[2];     /* user time of what is merged so far, and of the rank that is added */
    struct map by_place; /* hash of module, kind and address -> index into objects */
    VEC(struct prof_object) objects;
    VEC(struct prof_rank_object) shares;
    VEC(struct prof_thread) threads;
    VEC(struct prof_thread_object) thread_objects;
    VEC(struct prof_wait) waits;
    VEC(struct prof_module) modules;
    VEC(struct prof_refused) refused;
    VEC(struct prof_line) lines; /* of all ranks, each as often as ranks have it */
};

/* ---- may they be merged? ---- */

static const char *build_of(const struct prof_result *r)
{
    for (size_t i = 0; i < r->module_count; i++)
        if (r->program && r->modules[i].path && strcmp(r->modules[i].path, r->program) == 0)
            return r->modules[i].build_id;
    return NULL;
}

static int check_program(const struct merge_input *first, const struct merge_input *x)
{
    const char *a = first->result->program ? first->result->program : "?",
               *b = x->result->program ? x->result->program : "?";
    const char *build_a = build_of(first->result), *build_b = build_of(x->result);
    if (strcmp(file_base_name(a), file_base_name(b)) != 0)
        return diag_error("merge: %s is of %s, but %s is of %s; ranks that run different programs cannot be merged",
                          first->path, a, x->path, b);
    if (build_a && build_b && strcmp(build_a, build_b) != 0)
        return diag_error("merge: %s and %s are of different builds of %s", first->path, x->path, a);
    return 0;
}

static int check_rank(const struct merge_input *in, size_t i)
{
    const struct prof_result *r = in[i].result;
    if (r->rank == ID_NONE)
        return diag_error("merge: %s has no rank: it was not made under mpirun or srun (or is merged already)",
                          in[i].path);
    for (size_t k = 0; k < i; k++) {
        if (in[k].result->rank == r->rank)
            return diag_error("merge: %s and %s are both of rank %u; name each rank once", in[k].path, in[i].path,
                              r->rank);
    }
    if (in[0].result->rank_count != r->rank_count)
        return diag_error("merge: %s and %s are of jobs of different sizes", in[0].path, in[i].path);
    return 0;
}

static int check(const struct merge_input *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (check_program(&in[0], &in[i]) < 0 || check_rank(in, i) < 0)
            return -1;
    return 0;
}

/* ---- sums ---- */

/* NULL is a name too: a profile that somebody else wrote may hold it. */
static bool is_same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static const char *keep(struct merge *m, const char *text) { return text ? arena_strdup(m->out->arena, text) : NULL; }

static uint64_t hash_of(const struct prof_object *o)
{
    uint64_t h = 0xcbf29ce484222325u ^ o->address * 4 ^ (uint64_t)o->kind;
    for (const char *s = o->module ? o->module : ""; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return h;
}

static uint32_t object_like(struct merge *m, const struct prof_object *o, bool *is_new)
{
    uint64_t h = hash_of(o), at = 0;
    for (; map_get(&m->by_place, h, &at); h++) {
        const struct prof_object *k = &m->objects.data[at];
        if (k->kind == o->kind && k->address == o->address && is_same(k->module, o->module))
            return (uint32_t)at;
    }
    map_put(&m->by_place, h, m->objects.len);
    struct prof_object mine = *o;
    prof_row_keep(PROF_ROW_OBJECT, &mine, m->out->arena);
    mine.id = (uint32_t)m->objects.len;
    mine.parent = ID_NONE;
    VEC_PUSH(&m->objects, mine);
    *is_new = true;
    return mine.id;
}

/* moved[i]: what the rank's object i is now. */
static void take_objects(struct merge *m, const struct prof_result *r, uint32_t *moved)
{
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i];
        bool is_new = false;
        moved[i] = object_like(m, o, &is_new);
        if (!is_new)
            prof_row_add(PROF_ROW_OBJECT, &m->objects.data[moved[i]], o, m->users);
        VEC_PUSH(&m->shares, ((struct prof_rank_object){.rank = r->rank,
                                                        .object = moved[i],
                                                        .instructions = o->instructions,
                                                        .memory_ops = o->memory_ops,
                                                        .ideal_s = o->ideal_s.value,
                                                        .actual_s = o->actual_s.value,
                                                        .memory_s = o->memory_s.value,
                                                        .samples = o->samples}));
    }
    for (size_t i = 0; i < r->object_count; i++) {
        uint32_t parent = r->objects[i].parent;
        if (parent != ID_NONE && parent < r->object_count)
            m->objects.data[moved[i]].parent = moved[parent];
    }
}

static void take_threads(struct merge *m, const struct prof_result *r, const uint32_t *moved)
{
    uint32_t base = (uint32_t)m->threads.len;
    for (size_t i = 0; i < r->thread_count; i++) {
        struct prof_thread t = r->thread[i];
        t.rank = r->rank;
        VEC_PUSH(&m->threads, t);
    }
    for (size_t i = 0; i < r->thread_object_count; i++) {
        struct prof_thread_object o = r->thread_objects[i];
        o.thread += base;
        o.object = moved[o.object];
        VEC_PUSH(&m->thread_objects, o);
    }
    for (size_t i = 0; i < r->wait_count; i++) {
        struct prof_wait w = r->waits[i];
        w.thread += base;
        w.object = w.object == ID_NONE ? ID_NONE : moved[w.object];
        w.into = keep(m, w.into);
        VEC_PUSH(&m->waits, w);
    }
}

static void take_modules(struct merge *m, const struct prof_result *r)
{
    for (size_t i = 0; i < r->module_count; i++) {
        struct prof_module x = r->modules[i], *known = NULL;
        for (size_t k = 0; k < m->modules.len && !known; k++)
            known = is_same(m->modules.data[k].path, x.path) ? &m->modules.data[k] : NULL;
        if (!known) {
            prof_row_keep(PROF_ROW_MODULE, &x, m->out->arena);
            VEC_PUSH(&m->modules, x);
        } else {
            prof_row_add(PROF_ROW_MODULE, known, &x, m->users);
        }
    }
}

static bool is_same_refused(const struct prof_refused *a, const struct prof_refused *b)
{
    return a->address == b->address && is_same(a->module, b->module) && is_same(a->function, b->function);
}

/* Those that took time, or whole modules: the long tail is alike in all ranks and would be told from the first. */
static void take_refused(struct merge *m, const struct prof_result *r, bool is_first)
{
    for (size_t i = 0; i < r->refused_count; i++) {
        struct prof_refused x = r->refused[i];
        size_t k = 0;
        while (k < m->refused.len && !is_same_refused(&m->refused.data[k], &x))
            k = x.time_share > 0 || !x.function ? k + 1 : m->refused.len;
        if (k < m->refused.len) {
            prof_row_add(PROF_ROW_REFUSED, &m->refused.data[k], &x, m->users);
        } else if (is_first || x.time_share > 0) {
            prof_row_keep(PROF_ROW_REFUSED, &x, m->out->arena);
            VEC_PUSH(&m->refused, x);
        }
    }
}

static void take_lines(struct merge *m, const struct prof_result *r)
{
    for (size_t i = 0; i < r->line_count; i++)
        VEC_PUSH(&m->lines, r->lines[i]);
}

/* Coverage before the time that it is a share of. */
static void add_whole(struct merge *m, const struct prof_result *r)
{
    static const enum prof_row_id parts[] = {PROF_ROW_RUN, PROF_ROW_COVERAGE, PROF_ROW_TIME, PROF_ROW_MACHINE};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        prof_row_add(parts[i], m->out, r, m->users);
}

static struct prof_rank rank_of(struct merge *m, const struct merge_input *in)
{
    const struct prof_result *r = in->result;
    struct prof_rank k = {.rank = r->rank,
                          .profile = keep(m, in->path),
                          .exit_status = r->exit_status,
                          .user_s = r->actual_user_s.value,
                          .system_s = r->actual_system_s.value,
                          .predicted_user_s = r->predicted_user_s.value,
                          .instructions = r->coverage.instructions_counted,
                          .memory_ops = r->coverage.memory_ops};
    k.wall_s = k.compute_s = k.memory_s = k.sync_s = r->thread_count ? 0 : NAN;
    for (size_t i = 0; i < r->thread_count; i++) {
        const struct prof_thread *t = &r->thread[i];
        k.wall_s = fmax(k.wall_s, t->begin_s + t->wall_s);
        k.compute_s = prof_sum(k.compute_s, t->compute_s);
        k.memory_s = prof_sum(k.memory_s, t->memory_s);
        k.sync_s = i == 0 ? t->spin_s + t->blocked_s : k.sync_s; /* the first thread's: helpers wait all the time */
    }
    return k;
}

/* ---- the result ---- */

static int compare_objects(const void *a, const void *b)
{
    const struct prof_object *x = a, *y = b;
    if (isnan(x->memory_s.value) != isnan(y->memory_s.value))
        return isnan(x->memory_s.value) ? 1 : -1;
    if (x->memory_s.value != y->memory_s.value && !isnan(x->memory_s.value))
        return x->memory_s.value < y->memory_s.value ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Ids become positions in the order of memory seconds, everywhere. */
static void order(struct merge *m)
{
    uint32_t *moved = xmalloc((m->objects.len + 1) * sizeof *moved);
    double hz = m->out->machine.tsc_hz * m->out->machine.cycles_per_tsc,
           memory_ops = (double)m->out->coverage.memory_ops;
    if (m->objects.len)
        qsort(m->objects.data, m->objects.len, sizeof *m->objects.data, compare_objects);
    for (uint32_t i = 0; i < m->objects.len; i++)
        moved[m->objects.data[i].id] = i;
    for (uint32_t i = 0; i < m->objects.len; i++) {
        struct prof_object *o = &m->objects.data[i];
        o->id = i;
        o->parent = o->parent == ID_NONE ? ID_NONE : moved[o->parent];
        o->is_significant = o->memory_s.low > 0 && !o->is_wait && o->samples >= SAMPLES_MIN;
        o->memory_share = memory_ops > 0 && o->memory_ops != PROF_UNKNOWN ? (double)o->memory_ops / memory_ops : NAN;
        o->extra_cycles_per_memory_op =
            o->memory_ops && o->memory_ops != PROF_UNKNOWN ? o->memory_s.value * hz / (double)o->memory_ops : NAN;
    }
    for (size_t i = 0; i < m->shares.len; i++)
        m->shares.data[i].object = moved[m->shares.data[i].object];
    for (size_t i = 0; i < m->thread_objects.len; i++)
        m->thread_objects.data[i].object = moved[m->thread_objects.data[i].object];
    for (size_t i = 0; i < m->waits.len; i++)
        if (m->waits.data[i].object != ID_NONE)
            m->waits.data[i].object = moved[m->waits.data[i].object];
    free(moved);
}

static int compare_lines(const void *a, const void *b)
{
    const struct prof_line *x = a, *y = b;
    int c = strcmp(x->file ? x->file : "", y->file ? y->file : "");
    return c ? c : (x->line > y->line) - (x->line < y->line);
}

static void sum_lines(struct merge *m)
{
    struct prof_line *lines = m->lines.data;
    size_t n = 0;
    if (m->lines.len)
        qsort(lines, m->lines.len, sizeof *lines, compare_lines);
    for (size_t i = 0; i < m->lines.len; i++) {
        if (!n || compare_lines(&lines[n - 1], &lines[i]) != 0) {
            lines[n++] = lines[i];
            lines[n - 1].file = keep(m, lines[i].file);
            continue;
        }
        prof_row_add(PROF_ROW_LINE, &lines[n - 1], &lines[i], m->users);
    }
    m->lines.len = n;
}

static int compare_shares(const void *a, const void *b)
{
    const struct prof_rank_object *x = a, *y = b;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* A rank that did not execute the object did no work there. */
static void spread(struct merge *m)
{
    struct prof_result *r = m->out;
    r->spreads = ARENA_ARRAY(r->arena, struct prof_spread, m->objects.len + 1);
    for (size_t i = 0; i < m->shares.len;) {
        struct prof_spread s = {.object = m->shares.data[i].object, .min_s = INFINITY, .max_s = -1};
        double sum = 0;
        for (; i < m->shares.len && m->shares.data[i].object == s.object; i++) {
            double x = m->shares.data[i].actual_s;
            sum += x;
            s.rank_most = x > s.max_s ? m->shares.data[i].rank : s.rank_most;
            s.min_s = fmin(s.min_s, x);
            s.max_s = fmax(s.max_s, x);
            s.ranks++;
        }
        s.min_s = s.ranks < m->count ? 0 : s.min_s;
        s.mean_s = sum / (double)m->count;
        s.imbalance = s.mean_s > 0 ? s.max_s / s.mean_s : NAN;
        if (!isnan(sum))
            r->spreads[r->spread_count++] = s;
    }
}

static int compare_waits(const void *a, const void *b)
{
    const struct prof_wait *x = a, *y = b;
    double sx = x->spin_s + x->blocked_s, sy = y->spin_s + y->blocked_s;
    return sx != sy ? (sx < sy ? 1 : -1) : (x->thread > y->thread) - (x->thread < y->thread);
}

static void name_missing(struct merge *m)
{
    struct strbuf names = {0};
    uint32_t missing = 0, all = m->out->rank_count;
    for (uint32_t rank = 0; all != ID_NONE && rank < all; rank++) {
        bool is_there = false;
        for (size_t i = 0; i < m->count; i++)
            is_there |= m->in[i].result->rank == rank;
        if (!is_there && missing++ < 20)
            str_printf(&names, "%s%u", names.len ? ", " : "", rank);
    }
    if (missing)
        diag_warn("ranks-missing", "%u of %u ranks are missing: %s%s", missing, all, names.data,
                  missing > 20 ? ", ..." : "");
    str_free(&names);
}

static void warn_of_data(const struct merge_input *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (in[i].result->spy_count)
            return diag_warn("data-not-merged", "what mtool spy found is not merged: see %s", in[i].path);
}

#define KEEP(list, n, from, type)                                                                                      \
    do {                                                                                                               \
        (list) = ARENA_ARRAY(m->out->arena, type, (from).len + 1);                                                     \
        (n) = (from).len;                                                                                              \
        if ((from).len)                                                                                                \
            memcpy((list), (from).data, (from).len * sizeof(type));                                                    \
        VEC_FREE(&(from));                                                                                             \
    } while (0)

/* Errors of ranks go together, so they add up. */
static void fill_overhead(struct prof_result *r)
{
    struct prof_interval actual = r->actual_user_s, predicted = stats_predicted_again(r);
    if (!(predicted.value > 0))
        return;
    r->overhead = gate_loss(r, r->replayed_share,
                            (struct prof_interval){actual.value / predicted.value - 1, actual.low / predicted.high - 1,
                                                   predicted.low > 0 ? actual.high / predicted.low - 1 : NAN});
}

static void finish(struct merge *m)
{
    struct prof_result *r = m->out;
    order(m);
    if (m->shares.len)
        qsort(m->shares.data, m->shares.len, sizeof *m->shares.data, compare_shares);
    if (m->waits.len)
        qsort(m->waits.data, m->waits.len, sizeof *m->waits.data, compare_waits);
    spread(m);
    sum_lines(m);
    fill_overhead(r);
    KEEP(r->objects, r->object_count, m->objects, struct prof_object);
    whatif_fill(r);
    KEEP(r->rank_objects, r->rank_object_count, m->shares, struct prof_rank_object);
    KEEP(r->thread, r->thread_count, m->threads, struct prof_thread);
    KEEP(r->thread_objects, r->thread_object_count, m->thread_objects, struct prof_thread_object);
    KEEP(r->waits, r->wait_count, m->waits, struct prof_wait);
    KEEP(r->modules, r->module_count, m->modules, struct prof_module);
    KEEP(r->refused, r->refused_count, m->refused, struct prof_refused);
    KEEP(r->lines, r->line_count, m->lines, struct prof_line);
    map_fini(&m->by_place);
}

static void begin(struct merge *m, const struct prof_result *first)
{
    struct prof_result *r = m->out;
    size_t words = 0;
    while (first->command && first->command[words])
        words++;
    r->command = ARENA_ARRAY(r->arena, const char *, words + 1);
    for (size_t i = 0; i < words; i++)
        r->command[i] = keep(m, first->command[i]);
    r->program = first->program;
    r->started = first->started;
    r->mtool_version = first->mtool_version;
    r->sampler = first->sampler;
    r->launch_mode = first->launch_mode;
    r->machine = first->machine;
    prof_row_keep(PROF_ROW_RUN, r, r->arena);
    prof_row_keep(PROF_ROW_MACHINE, r, r->arena);
    r->rank_count = first->rank_count;
    r->ranks = ARENA_ARRAY(r->arena, struct prof_rank, m->count + 1);
}

int prof_merge(struct prof_result *out, const struct merge_input *in, size_t count)
{
    struct merge m = {.out = out, .in = in, .count = count};
    if (check(in, count) < 0)
        return -1;
    begin(&m, in[0].result);
    for (size_t i = 0; i < count; i++) {
        const struct prof_result *r = in[i].result;
        uint32_t *moved = xmalloc((r->object_count + 1) * sizeof *moved);
        m.users[0] = out->actual_user_s.value, m.users[1] = r->actual_user_s.value;
        take_modules(&m, r);
        take_refused(&m, r, i == 0);
        add_whole(&m, r);
        take_objects(&m, r, moved);
        take_threads(&m, r, moved);
        take_lines(&m, r);
        out->ranks[out->rank_row_count++] = rank_of(&m, &in[i]);
        for (size_t k = 0; k < r->warning_count; k++)
            if (r->warnings[k].id && r->warnings[k].text)
                prof_warn_add(out, r->warnings[k].id, r->warnings[k].text);
        free(moved);
    }
    name_missing(&m);
    warn_of_data(in, count);
    finish(&m);
    return 0;
}
