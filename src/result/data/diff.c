/* SPDX-License-Identifier: Apache-2.0
 * The change of what each data object misses. Objects of two profiles are one by who allocated them, whatever line that
 * stands in by now (their names hold it), several of one place in order of lines; what nobody allocated, and what is
 * left, by kind and name, at last by order. Misses are compared at the level that figures of the new side are said of,
 * if the old side has one alike. */
#include "result/diff.h"
#include "result/data/data.h"
#include "result/stats.h"

#include <math.h>
#include <stdlib.h>

struct object {
    const struct prof_result *r;
    uint32_t id;
    bool has_as_many; /* of an old one: as many of the new side come from where it does */
};

struct pairing {
    const struct prof_result *old, *now;
    uint32_t *to;              /* by old object: the new one */
    bool *is_used;             /* by new object */
    struct object *by_line[2]; /* of either side, all of its objects */
};

static bool is_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* ---- who allocated it ---- */

static struct data_range site_of(struct object o)
{
    return DATA_RANGE(o.r->data_frames, o.r->data_frame_count, object, o.id);
}

static bool has_site(struct object o)
{
    struct data_range s = site_of(o);
    while (s.first < s.end && !o.r->data_frames[s.first].function)
        s.first++;
    return s.first < s.end;
}

static bool is_same_frame(const struct prof_data_frame *a, const struct prof_data_frame *b)
{
    return is_same(a->function, b->function) && is_same(a->file, b->file);
}

/* Lines may have moved, so they do not count. */
static bool is_same_site(struct object x, struct object y)
{
    struct data_range a = site_of(x), b = site_of(y);
    if (x.r->data[x.id].kind != y.r->data[y.id].kind || a.end - a.first != b.end - b.first)
        return false;
    for (size_t i = 0; i < a.end - a.first; i++)
        if (!is_same_frame(&x.r->data_frames[a.first + i], &y.r->data_frames[b.first + i]))
            return false;
    return true;
}

static size_t count_at_site(struct object o, const struct prof_result *r)
{
    size_t n = 0;
    for (uint32_t i = 0; i < r->data_count; i++)
        n += is_same_site(o, (struct object){.r = r, .id = i});
    return n;
}

static int compare_lines(const void *x, const void *y)
{
    struct object p = *(const struct object *)x, q = *(const struct object *)y;
    struct data_range a = site_of(p), b = site_of(q);
    for (; a.first < a.end && b.first < b.end; a.first++, b.first++) {
        uint32_t m = p.r->data_frames[a.first].line, n = q.r->data_frames[b.first].line;
        if (m != n)
            return m < n ? -1 : 1;
    }
    return (p.id > q.id) - (p.id < q.id);
}

static struct object *order_by_line(const struct prof_result *r, struct arena *a)
{
    struct object *all = ARENA_ARRAY(a, struct object, r->data_count + 1);
    for (uint32_t i = 0; i < r->data_count; i++)
        all[i] = (struct object){.r = r, .id = i};
    if (r->data_count)
        qsort(all, r->data_count, sizeof *all, compare_lines);
    return all;
}

/* ---- pairs ---- */

typedef bool same_fn(struct object old, struct object now);

static bool is_one_by_name(struct object old, struct object now)
{
    const struct prof_data *a = &old.r->data[old.id], *b = &now.r->data[now.id];
    return a->kind == b->kind && is_same(a->name, b->name);
}

static bool is_one_by_both(struct object old, struct object now)
{
    return is_one_by_name(old, now) && is_same_site(old, now);
}

static bool is_one_by_site(struct object old, struct object now) { return has_site(old) && is_same_site(old, now); }

/* As many as before came from there: their order of lines tells which is which. */
static bool is_one_of_as_many(struct object old, struct object now)
{
    return old.has_as_many && is_one_by_site(old, now);
}

static void pair_up(struct pairing *p, same_fn *is_one)
{
    for (uint32_t i = 0; i < p->old->data_count; i++) {
        struct object old = p->by_line[0][i];
        for (uint32_t k = 0; k < p->now->data_count && p->to[old.id] == ID_NONE; k++) {
            struct object now = p->by_line[1][k];
            if (p->is_used[now.id] || !is_one(old, now))
                continue;
            p->to[old.id] = now.id;
            p->is_used[now.id] = true;
        }
    }
}

static struct pairing pair_all(const struct prof_diff *d)
{
    struct pairing p = {.old = d->old,
                        .now = d->now,
                        .to = ARENA_ARRAY(d->arena, uint32_t, d->old->data_count + 1),
                        .is_used = ARENA_ARRAY(d->arena, bool, d->now->data_count + 1),
                        .by_line = {order_by_line(d->old, d->arena), order_by_line(d->now, d->arena)}};
    memset(p.to, 0xff, (d->old->data_count + 1) * sizeof *p.to);
    for (size_t i = 0; i < d->old->data_count; i++)
        p.by_line[0][i].has_as_many = count_at_site(p.by_line[0][i], d->old) == count_at_site(p.by_line[0][i], d->now);
    pair_up(&p, is_one_of_as_many);
    pair_up(&p, is_one_by_both);
    pair_up(&p, is_one_by_site);
    pair_up(&p, is_one_by_name);
    return p;
}

/* ---- figures ---- */

static bool is_same_level(const struct prof_cache *a, const struct prof_cache *b)
{
    return !a->is_tlb && is_same(a->name, b->name) && a->bytes == b->bytes && a->line_bytes == b->line_bytes &&
           a->ways == b->ways && is_same(a->replacement, b->replacement);
}

/* Of both sides; ID_NONE where there is none alike. */
static void choose_levels(struct prof_diff *d)
{
    uint32_t primary = data_primary(d->now);
    d->levels[0] = d->levels[1] = ID_NONE;
    for (uint32_t i = 0; primary != ID_NONE && i < d->old->cache_count; i++) {
        if (!is_same_level(&d->old->caches[i], &d->now->caches[primary]))
            continue;
        d->levels[0] = i;
        d->levels[1] = primary;
        return;
    }
}

static double known(uint64_t n) { return n == PROF_UNKNOWN ? NAN : (double)n; }

static struct prof_interval misses_of(const struct prof_result *r, enum prof_data_owner owner, uint32_t id,
                                      uint32_t level)
{
    const struct prof_data_miss *m = level == ID_NONE ? NULL : data_miss(r, owner, id, level);
    return m ? (struct prof_interval){known(m->misses), known(m->misses_low), known(m->misses_high)}
             : (struct prof_interval){NAN, NAN, NAN};
}

static struct diff_figure figure(struct prof_interval old, struct prof_interval now)
{
    return (struct diff_figure){old, now, stats_difference(now, old)};
}

/* What is not there misses nothing, and costs nothing. */
static struct diff_data compare(const struct prof_diff *d, uint32_t old, uint32_t now)
{
    static const struct prof_interval nothing = {0, 0, 0};
    struct diff_data x = {.old = old == ID_NONE ? NULL : &d->old->data[old],
                          .now = now == ID_NONE ? NULL : &d->now->data[now]};
    x.misses = figure(x.old ? misses_of(d->old, PROF_OWNER_OBJECT, old, d->levels[0]) : nothing,
                      x.now ? misses_of(d->now, PROF_OWNER_OBJECT, now, d->levels[1]) : nothing);
    x.memory_s = figure(x.old ? x.old->memory_s : nothing, x.now ? x.now->memory_s : nothing);
    x.memory_s.change = stats_change(x.memory_s.now, x.memory_s.old);
    return x;
}

static int compare_changes(double a, double b)
{
    a = isnan(a) ? -1 : fabs(a);
    b = isnan(b) ? -1 : fabs(b);
    return a != b ? (a < b ? 1 : -1) : 0;
}

static int compare_rows(const void *x, const void *y)
{
    const struct diff_data *a = x, *b = y;
    int c = a->is_worth - b->is_worth;
    c = c ? -c : compare_changes(a->memory_s.change.value, b->memory_s.change.value);
    c = c ? c : compare_changes(a->misses.change.value, b->misses.change.value);
    const struct prof_data *p = a->now ? a->now : a->old, *q = b->now ? b->now : b->old;
    return c ? c : a->now && b->now ? (p > q) - (p < q) : !a->now - !b->now;
}

/* Exact counts are never quite the same: those of a hundredth of the program's are worth a word. */
static bool is_worth(const struct prof_diff *d, const struct diff_data *x)
{
    const double share = 0.01;
    double whole = fmax(d->whole[DIFF_MISSES].old.value, d->whole[DIFF_MISSES].now.value);
    return (x->old && x->now && diff_is_change(&x->memory_s)) ||
           (diff_is_change(&x->misses) && fabs(x->misses.change.value) >= share * whole);
}

void diff_data_fill(struct prof_diff *d)
{
    size_t old_count = d->old->data_count, now_count = d->now->data_count;
    d->is_of_data = d->old->spy_count && d->now->spy_count;
    choose_levels(d);
    d->whole[DIFF_MISSES] = figure(misses_of(d->old, PROF_OWNER_PROGRAM, 0, d->levels[0]),
                                   misses_of(d->now, PROF_OWNER_PROGRAM, 0, d->levels[1]));
    if (!d->is_of_data)
        return;
    struct pairing p = pair_all(d);
    d->data = ARENA_ARRAY(d->arena, struct diff_data, old_count + now_count + 1);
    for (uint32_t i = 0; i < old_count; i++)
        d->data[d->data_count++] = compare(d, i, p.to[i]);
    for (uint32_t i = 0; i < now_count; i++)
        if (!p.is_used[i])
            d->data[d->data_count++] = compare(d, ID_NONE, i);
    for (size_t i = 0; i < d->data_count; i++)
        d->data[i].is_worth = is_worth(d, &d->data[i]);
    qsort(d->data, d->data_count, sizeof *d->data, compare_rows);
}
