/* SPDX-License-Identifier: Apache-2.0
 *
 * data: rows of what mtool spy found, by what they belong to. */
#include "result/data/data.h"

#include <math.h>
#include <stdlib.h>

static uint32_t number_at(const char *row, size_t member)
{
    uint32_t n;
    memcpy(&n, row + member, sizeof n);
    return n;
}

/* The first row that is not before `id`; ID_NONE (the whole program) stands before all. */
static size_t lower_bound(const char *rows, size_t count, size_t row_bytes, size_t member, uint32_t id)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uint32_t)(number_at(rows + middle * row_bytes, member) + 1) < (uint32_t)(id + 1))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct data_range data_range(const void *rows, size_t count, size_t row_bytes, size_t member, uint32_t id)
{
    size_t first = lower_bound(rows, count, row_bytes, member, id), end = first;
    while (end < count && number_at((const char *)rows + end * row_bytes, member) == id)
        end++;
    return (struct data_range){first, end};
}

static bool is_before(const struct prof_data_miss *m, enum prof_data_owner owner, uint32_t id, uint32_t cache)
{
    if (m->owner != owner)
        return m->owner < owner;
    return m->owner_id != id ? m->owner_id < id : m->cache < cache;
}

const struct prof_data_miss *data_miss(const struct prof_result *r, enum prof_data_owner owner, uint32_t id,
                                       uint32_t cache)
{
    size_t low = 0, high = r->data_miss_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(&r->data_misses[middle], owner, id, cache))
            low = middle + 1;
        else
            high = middle;
    }
    const struct prof_data_miss *m = low < r->data_miss_count ? &r->data_misses[low] : NULL;
    return m && m->owner == owner && m->owner_id == id && m->cache == cache ? m : NULL;
}

uint32_t data_primary(const struct prof_result *r)
{
    for (size_t i = 0; i < r->cache_count; i++)
        if (r->caches[i].is_primary)
            return (uint32_t)i;
    return r->cache_count ? 0 : ID_NONE;
}

uint32_t data_nearest(const struct prof_result *r)
{
    uint32_t primary = data_primary(r), i = 0;
    if (primary == ID_NONE)
        return ID_NONE;
    while (i < primary && (r->caches[i].is_tlb || r->caches[i].configuration != r->caches[primary].configuration))
        i++;
    return i;
}

uint64_t data_walks(const struct prof_result *r, enum prof_data_owner owner, uint32_t id)
{
    uint32_t primary = data_primary(r), last = ID_NONE;
    for (size_t i = 0; i < r->cache_count; i++)
        if (r->caches[i].is_tlb && r->caches[i].configuration == r->caches[primary].configuration)
            last = (uint32_t)i;
    const struct prof_data_miss *m = last == ID_NONE ? NULL : data_miss(r, owner, id, last);
    return m ? m->misses : PROF_UNKNOWN;
}

/* ---- causes ---- */

const struct data_cause_about data_causes[DATA_STALL_COUNT] = {
#define CAUSE(id, member, word, brief) {#member, word, brief, offsetof(struct prof_data_miss, member)},
#include "result/data/causes.def"
#undef CAUSE
    [DATA_WALKS] = {"tlb", "page walks", "TLB", 0}};

uint64_t data_cause_count(const struct prof_data_miss *m, enum data_cause c)
{
    uint64_t n = PROF_UNKNOWN;
    if (m)
        memcpy(&n, (const char *)m + data_causes[c].offset, sizeof n);
    return n;
}

static double known_or_0(uint64_t n) { return n == PROF_UNKNOWN ? 0 : (double)n; }

static void add_stall(const struct prof_data_miss *m, bool is_tlb, double cycles, double sum[DATA_STALL_COUNT])
{
    if (is_tlb)
        sum[DATA_WALKS] += m ? cycles * known_or_0(m->misses) : 0;
    for (unsigned c = 0; c < DATA_CAUSE_COUNT && !is_tlb; c++)
        sum[c] += cycles * known_or_0(data_cause_count(m, (enum data_cause)c));
}

/* NAN and below: it does not count. */
static double cycles_of(const struct prof_cache *c) { return c->miss_cycles > 0 ? c->miss_cycles : 0; }

void data_stall_causes(const struct prof_result *r, enum prof_data_owner owner, uint32_t id,
                       double out[DATA_STALL_COUNT])
{
    uint32_t primary = data_primary(r);
    double all = 0;
    memset(out, 0, DATA_STALL_COUNT * sizeof *out);
    for (uint32_t i = 0; i < r->cache_count; i++)
        if (r->caches[i].configuration == r->caches[primary].configuration && cycles_of(&r->caches[i]) > 0)
            add_stall(data_miss(r, owner, id, i), r->caches[i].is_tlb, cycles_of(&r->caches[i]), out);
    for (unsigned c = 0; c < DATA_STALL_COUNT; c++)
        all += out[c];
    if (!(all > 0) && primary != ID_NONE)
        add_stall(data_miss(r, owner, id, primary), false, 1, out);
    for (unsigned c = 0; c < DATA_STALL_COUNT && !(all > 0); c++)
        all += out[c];
    for (unsigned c = 0; c < DATA_STALL_COUNT; c++)
        out[c] = all > 0 ? out[c] / all : NAN;
}

double data_stall_cycles(const struct prof_result *r, enum prof_data_owner owner, uint32_t id)
{
    uint32_t primary = data_primary(r);
    const struct prof_data_miss *nearest = primary == ID_NONE ? NULL : data_miss(r, owner, id, primary);
    double cycles = 0, all = 0;
    for (uint32_t i = 0; i < r->cache_count; i++) {
        const struct prof_data_miss *m = data_miss(r, owner, id, i);
        if (r->caches[i].configuration != r->caches[primary].configuration)
            continue;
        cycles += cycles_of(&r->caches[i]);
        all += m ? cycles_of(&r->caches[i]) * known_or_0(m->misses) : 0;
    }
    if (!nearest || nearest->misses == PROF_UNKNOWN)
        return NAN;
    return cycles > 0 ? all : (double)nearest->misses;
}

uint32_t data_evictor_level(const struct prof_result *r, uint32_t object)
{
    struct data_range range = DATA_RANGE(r->data_evictors, r->data_evictor_count, object, object);
    uint32_t best = data_primary(r);
    double most = 0, sum = 0;
    for (size_t i = range.first; i < range.end; i++) {
        const struct prof_data_evictor *e = &r->data_evictors[i];
        sum = i > range.first && e[-1].cache == e->cache ? sum : 0; /* they stand level by level */
        sum += cycles_of(&r->caches[e->cache]) * known_or_0(e->misses);
        if (sum > most) {
            most = sum;
            best = e->cache;
        }
    }
    return best;
}

/* ---- procedures: sums over cells ---- */

static int compare_texts(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : ""); }

static int compare_cells(const void *x, const void *y)
{
    const struct prof_data_cell *a = *(const struct prof_data_cell *const *)x,
                                *b = *(const struct prof_data_cell *const *)y;
    int c = compare_texts(a->module, b->module);
    c = c ? c : compare_texts(a->function, b->function);
    return c ? c : (a > b) - (a < b);
}

static int compare_procedures(const void *x, const void *y)
{
    const struct data_procedure *a = x, *b = y;
    double sa = isnan(a->stall_share) ? -1 : a->stall_share, sb = isnan(b->stall_share) ? -1 : b->stall_share;
    if (sa != sb)
        return sa < sb ? 1 : -1;
    uint64_t ra = a->references + 1, rb = b->references + 1; /* unknown becomes 0: last */
    return ra != rb ? (ra < rb ? 1 : -1) : (a->first > b->first) - (a->first < b->first);
}

static void add_cell(const struct prof_result *r, struct data_procedure *p, const struct prof_data_cell *c)
{
    const struct prof_data_miss *m = data_miss(r, PROF_OWNER_CELL, (uint32_t)(c - r->data_cells), data_nearest(r));
    p->misses = prof_sum_counts(p->misses, m ? m->misses : PROF_UNKNOWN);
    p->stall_share = prof_sum(p->stall_share, c->stall_share.value);
    p->memory_s = prof_sum(p->memory_s, c->memory_s.value);
}

struct data_procedure *data_procedures(const struct prof_result *r, struct arena *a, size_t *count)
{
    const struct prof_data_cell **list = ARENA_ARRAY(a, const struct prof_data_cell *, r->data_cell_count + 1);
    struct data_procedure *out = ARENA_ARRAY(a, struct data_procedure, r->data_cell_count + 1);
    size_t n = 0;
    for (size_t i = 0; i < r->data_cell_count; i++)
        list[i] = &r->data_cells[i];
    qsort(list, r->data_cell_count, sizeof *list, compare_cells);
    for (size_t i = 0; i < r->data_cell_count; i++) {
        const struct prof_data_cell *c = list[i];
        if (!n || compare_texts(out[n - 1].module, c->module) || compare_texts(out[n - 1].function, c->function))
            out[n++] = (struct data_procedure){.function = c->function,
                                               .module = c->module,
                                               .references = c->function_references,
                                               .misses = PROF_UNKNOWN,
                                               .stall_share = NAN,
                                               .memory_s = NAN,
                                               .first = (uint32_t)(c - r->data_cells)};
        add_cell(r, &out[n - 1], c);
    }
    qsort(out, n, sizeof *out, compare_procedures);
    *count = n;
    return out;
}
