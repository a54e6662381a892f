/* SPDX-License-Identifier: Apache-2.0
 * A hash map from 64-bit keys to 64-bit values: open addressing, linear probing, at most 5/8 full, no deletion. */
#include "base/base.h"

#include <stdlib.h>

static size_t slot_of(const struct map *m, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 20) & (m->cap - 1);
    while (m->used[i] && m->keys[i] != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

static void grow(struct map *m)
{
    struct map old = *m;
    m->cap = old.cap ? old.cap * 2 : 64;
    m->keys = xmalloc(m->cap * sizeof *m->keys);
    m->vals = xmalloc(m->cap * sizeof *m->vals);
    m->used = xmalloc(m->cap);
    for (size_t i = 0; i < old.cap; i++) {
        if (!old.used[i])
            continue;
        size_t s = slot_of(m, old.keys[i]);
        m->used[s] = 1;
        m->keys[s] = old.keys[i];
        m->vals[s] = old.vals[i];
    }
    free(old.keys);
    free(old.vals);
    free(old.used);
}

uint64_t *map_place(struct map *m, uint64_t key)
{
    if (m->len * 8 >= m->cap * 5)
        grow(m);
    size_t s = slot_of(m, key);
    m->len += !m->used[s];
    m->used[s] = 1;
    m->keys[s] = key;
    return &m->vals[s];
}

void map_put(struct map *m, uint64_t key, uint64_t val) { *map_place(m, key) = val; }

bool map_get(const struct map *m, uint64_t key, uint64_t *val)
{
    if (!m->cap)
        return false;
    size_t s = slot_of(m, key);
    if (!m->used[s])
        return false;
    *val = m->vals[s];
    return true;
}

bool map_has(const struct map *m, uint64_t key)
{
    uint64_t ignored;
    return map_get(m, key, &ignored);
}

static void *copy_of(const void *bytes, size_t len)
{
    void *to = xmalloc(len);
    if (len)
        memcpy(to, bytes, len);
    return to;
}

struct map map_copy(const struct map *m)
{
    if (!m->cap)
        return (struct map){0};
    return (struct map){.keys = copy_of(m->keys, m->cap * sizeof *m->keys),
                        .vals = copy_of(m->vals, m->cap * sizeof *m->vals),
                        .used = copy_of(m->used, m->cap * sizeof *m->used),
                        .len = m->len,
                        .cap = m->cap};
}

void map_fini(struct map *m)
{
    free(m->keys);
    free(m->vals);
    free(m->used);
    memset(m, 0, sizeof *m);
}
