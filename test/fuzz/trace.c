/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the reader of traces, and the simulation by what it reads: one line with the place, or references that a cache
 * can be asked for, whose counts agree. */
#include "fuzz.h"

#include "cache/cache.h"

enum { BATCH = 7 };

static void check_refs(const struct cache_reader *r, const struct cache_ref *refs, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i++) {
        FUZZ_CHECK(refs[i].bytes >= 1 && refs[i].kind <= CACHE_MODIFY);
        FUZZ_CHECK(refs[i].address + (refs[i].bytes - 1u) >= refs[i].address);
        if (refs[i].kind == CACHE_FETCH)
            FUZZ_CHECK(cache_reader_place(r, refs[i].cell) == refs[i].address);
    }
}

static void check_counts(const struct cache *c, const struct cache_curve *k, unsigned level, bool is_nearest)
{
    const struct cache_counts *n = cache_counts(c, level);
    for (unsigned kind = 0; kind < CACHE_KIND_COUNT; kind++) {
        uint64_t sum = 0;
        for (unsigned cause = 0; cause < CACHE_CAUSE_COUNT; cause++)
            sum += n->causes[kind][cause];
        FUZZ_CHECK(n->misses[kind] <= n->references[kind] && sum == n->misses[kind]);
    }
    if (is_nearest)
        FUZZ_CHECK(cache_curve_references(k) == n->references[CACHE_READ] + n->references[CACHE_WRITE]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct cache_config config;
    struct cache_ref refs[BATCH];
    ptrdiff_t count;
    fuzz_begin();
    FUZZ_CHECK(cache_parse("64/16/1:code+128/16/2:data+256/32/full:inclusive", &config) == 0);
    struct cache *c = cache_new(&config, true);
    struct cache_curve *k = cache_curve_new(16, 16, 1024);
    struct cache_reader *r = cache_reader_of("input", (const char *)bytes, len);
    while ((count = cache_reader_next(r, refs, BATCH)) > 0) {
        check_refs(r, refs, count);
        cache_run(c, refs, (size_t)count);
        cache_curve_run(k, refs, (size_t)count);
    }
    fuzz_check_said((int)count, "input");
    for (unsigned level = 0; level < config.count; level++)
        check_counts(c, k, level, level == 1);
    cache_reader_close(r);
    cache_curve_free(k);
    cache_free(c);
    return 0;
}
