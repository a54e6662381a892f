/* SPDX-License-Identifier: Apache-2.0
 * The change of what each data object misses. Objects of two profiles are one by kind and name, and where several have
 * these by who allocated them, at last by their order. Misses are compared at the level that figures of the new side
 * are said of, if the old side has one alike. */
#include "result/diff.h"
#include "result/data/data.h"
#include "result/stats.h"

#include <math.h>
#include <stdlib.h>

struct pairing {
    const struct prof_result *old, *now;
    uint32_t *to;  /* by old object: the new one */
    bool *is_used; /* by new object */
};

static bool is_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool is_same_frame(const struct prof_data_frame *a, const struct prof_data_frame *b)
{
    return is_same(a->function, b->function) && is_same(a->file, b->file);
}

/* Lines may have moved, so they do not count. */
static bool is_same_site(const struct pairing *p, uint32_t old, uint32_t now)
{
    struct data_range a = DATA_RANGE(p->old->data_frames, p->old->data_frame_count, object, old),
                      b = DATA_RANGE(p->now->data_frames, p->now->data_frame_count, object, now);
    if (a.end - a.first != b.end - b.first)
        return false;
    for (size_t i = 0; i < a.end - a.first; i++)
        if (!is_same_frame(&p->old->data_frames[a.first + i], &p->now->data_frames[b.first + i]))
            return false;
    return true;
}

static void pair_up(struct pairing *p, bool needs_site)
{
    for (uint32_t i = 0; i < p->old->data_count; i++) {
        const struct prof_data *a = &p->old->data[i];
        for (uint32_t k = 0; k < p->now->data_count && p->to[i] == ID_NONE; k++) {
            const struct prof_data *b = &p->now->data[k];
            if (p->is_used[k] || a->kind != b->kind || !is_same(a->name, b->name) ||
                (needs_site && !is_same_site(p, i, k)))
                continue;
            p->to[i] = k;
            p->is_used[k] = true;
        }
    }
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
    struct pairing p = {.old = d->old,
                        .now = d->now,
                        .to = ARENA_ARRAY(d->arena, uint32_t, old_count + 1),
                        .is_used = ARENA_ARRAY(d->arena, bool, now_count + 1)};
    memset(p.to, 0xff, (old_count + 1) * sizeof *p.to);
    pair_up(&p, true);
    pair_up(&p, false);
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
