/* SPDX-License-Identifier: Apache-2.0
 *
 * data: rows of what mtool spy found, by what they belong to. */
#include "result/data.h"

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

uint64_t data_walks(const struct prof_result *r, enum prof_data_owner owner, uint32_t id)
{
    uint32_t primary = data_primary(r), last = ID_NONE;
    for (size_t i = 0; i < r->cache_count; i++)
        if (r->caches[i].is_tlb && r->caches[i].configuration == r->caches[primary].configuration)
            last = (uint32_t)i;
    const struct prof_data_miss *m = last == ID_NONE ? NULL : data_miss(r, owner, id, last);
    return m ? m->misses : PROF_UNKNOWN;
}
