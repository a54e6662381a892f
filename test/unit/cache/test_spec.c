/* SPDX-License-Identifier: Apache-2.0
 * Caches as text: what is made of it, that it is written back the same, and what is said of what cannot be. */
#include "cache/cache.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_levels(void **unused)
{
    (void)unused;
    struct cache_config k;
    assert_int_equal(
        cache_parse("32K/64/8:code+48K/64/12:data+1M/64/16:plru+2M/64/16:random=9+30M/128/full:inclusive", &k), 0);
    assert_int_equal(k.count, 5);
    assert_int_equal(k.levels[0].side, CACHE_CODE);
    assert_int_equal(k.levels[1].side, CACHE_DATA);
    assert_int_equal(k.levels[1].size_bytes, 48 << 10);
    assert_int_equal(k.levels[1].ways, 12);
    assert_int_equal(k.levels[2].side, CACHE_BOTH);
    assert_int_equal(k.levels[3].policy, CACHE_RANDOM);
    assert_int_equal(k.levels[3].seed, 9);
    assert_int_equal(k.levels[4].ways, (30 << 20) / 128);
    assert_int_equal(k.levels[4].inclusion, CACHE_INCLUSIVE);
    static const char *const names[] = {"I1", "D1", "L2", "L3", "L4"};
    for (unsigned i = 0; i < 5; i++) {
        char name[8];
        assert_string_equal(cache_level_name(&k, i, name), names[i]);
    }
}

/* The last of three levels of data, and what is behind a shared one. */
static void test_shared(void **unused)
{
    (void)unused;
    static const struct {
        const char *spec;
        unsigned shared; /* levels, a bit each */
    } cases[] = {
        {"1M/64/16", 0},
        {"32K/64/8+1M/64/16", 0},
        {"32K/64/8:code+32K/64/8:data+1M/64/16", 0},
        {"32K/64/8+1M/64/16+32M/64/16", 4},
        {"32K/64/8:code+32K/64/8:data+1M/64/16+32M/64/16", 8},
        {"32K/64/8+1M/64/16+8M/64/16+32M/64/16", 8},
        {"32K/64/8+1M/64/16:shared+8M/64/16+32M/64/16", 14},
        {"32K/64/8+1M/64/16+32M/64/16:private", 0},
        {"64K/4K/full+1M/4K/4+8M/4K/8", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cache_config k;
        unsigned shared = 0;
        assert_int_equal(cache_parse(cases[i].spec, &k), 0);
        for (unsigned l = 0; l < k.count; l++)
            shared |= (unsigned)k.levels[l].is_shared << l;
        assert_int_equal(shared, cases[i].shared);
    }
}

static void test_names_of_data_alone(void **unused)
{
    (void)unused;
    struct cache_config k;
    char name[8];
    assert_int_equal(cache_parse("16K/16/1+128K/32/1", &k), 0);
    assert_int_equal(k.levels[1].side, CACHE_DATA);
    assert_string_equal(cache_level_name(&k, 0, name), "L1");
    assert_string_equal(cache_level_name(&k, 1, name), "L2");
}

static void test_written_back(void **unused)
{
    (void)unused;
    static const char *const specs[] = {
        "16K/16/1",
        "512/4/full",
        "32K/64/8:plru:write-through:no-write-allocate+1M/64/16:inclusive",
        "32K/64/8:code+32K/64/8:data+1M/64/16:exclusive+32M/64/16:random",
        "32K/64/8:code+32K/64/8:data+1M/64/16:whole+32M/64/16:random=12:whole",
        "1M/64/16:both",
        "288K/4K/full+12M/4K/24",
        "1000/4/125:random",
        "32K/64/8:shared+1M/64/16",
        "32K/64/8:streams+1M/64/16:whole:streams",
        "32K/64/8+1M/64/16:shared",
        "32K/64/8+1M/64/16+32M/64/16:private",
        "32K/64/8+1M/64/16:shared+32M/64/16",
    };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct cache_config k;
        struct strbuf s = {0};
        assert_int_equal(cache_parse(specs[i], &k), 0);
        cache_format(&k, &s);
        assert_string_equal(s.data, specs[i]);
        str_free(&s);
    }
}

static void test_wrong(void **unused)
{
    (void)unused;
    static const char *const wrong[][2] = {
        {"", "the cache '': a level is BYTES/LINE/WAYS, as in 32K/64/8, and levels are joined by +"},
        {"32K", "the cache '32K': a level is BYTES/LINE/WAYS, as in 32K/64/8, and levels are joined by +"},
        {"32K/64/8+", "the cache '32K/64/8+': a level is BYTES/LINE/WAYS, as in 32K/64/8, and levels are joined by +"},
        {"32K/64/8/9",
         "the cache '32K/64/8/9': a level is BYTES/LINE/WAYS, as in 32K/64/8, and levels are joined by +"},
        {"32Q/64/8", "the cache '32Q/64/8': '32Q' is no number of bytes, as 32K or 1M"},
        {"-1/64/8", "the cache '-1/64/8': '-1' is no number of bytes, as 32K or 1M"},
        {"99999999999999999999/64/8",
         "the cache '99999999999999999999/64/8': '99999999999999999999' is no number of bytes, as 32K or 1M"},
        {"99999999999G/64/8", "the cache '99999999999G/64/8': '99999999999G' is no number of bytes, as 32K or 1M"},
        {"32K/64/all",
         "the cache '32K/64/all': 'all' is no number of ways: 1 is direct-mapped, 'full' fully associative"},
        {"17179869185G/64/8", "the cache '17179869185G/64/8': '17179869185G' is no number of bytes, as 32K or 1M"},
        {"32K/60/8", "the cache '32K/60/8': L1: a line of 60 bytes; it is a power of two from 4 to 1G"},
        {"32K/2/8", "the cache '32K/2/8': L1: a line of 2 bytes; it is a power of two from 4 to 1G"},
        {"100/64/1", "the cache '100/64/1': L1: 100 bytes are no whole number of lines of 64 bytes"},
        {"32/64/1", "the cache '32/64/1': L1: 32 bytes are no whole number of lines of 64 bytes"},
        {"32K/64/7", "the cache '32K/64/7': L1: 7 ways do not divide 512 lines"},
        {"32K/64/1024", "the cache '32K/64/1024': L1: 1024 ways do not divide 512 lines"},
        {"100G/64/16", "the cache '100G/64/16': L1: 1677721600 lines; at most 134217728 can be simulated"},
        {"48K/64/12:plru", "the cache '48K/64/12:plru': L1: tree-PLRU of 12 ways; they must be a power of two"},
        {"32K/64/8:mru",
         "the cache '32K/64/8:mru': 'mru' is no word for a level: lru, plru, random, random=SEED, data, "
         "code, both, inclusive, exclusive, write-through, no-write-allocate, whole, streams, shared, private"},
        {"32K/64/8:random=x", "the cache '32K/64/8:random=x': 'random=x' is no seed: a number above 0"},
        {"32K/64/8+1M/32/16",
         "the cache '32K/64/8+1M/32/16': L2: lines of 32 bytes behind a level of 64; they cannot be smaller"},
        {"32K/64/8:exclusive", "the cache '32K/64/8:exclusive': L1 is exclusive, and no level is nearer than it"},
        {"32K/64/8+1M/128/16:exclusive",
         "the cache '32K/64/8+1M/128/16:exclusive': L2 is exclusive, so its lines must be "
         "as long as those of the level above"},
        {"32K/64/8:write-through+1M/64/16:exclusive", "the cache '32K/64/8:write-through+1M/64/16:exclusive': L2 is "
                                                      "exclusive, so the level above must write back and "
                                                      "allocate on writes"},
        {"32K/64/8+1M/64/16:exclusive:whole",
         "the cache '32K/64/8+1M/64/16:exclusive:whole': L2 is exclusive: it cannot "
         "be write-through, no-write-allocate or whole"},
        {"32K/64/8+1M/64/16+4M/64/16:whole",
         "the cache '32K/64/8+1M/64/16+4M/64/16:whole': L3 is 'whole', so the level "
         "above must be the nearest, or whole too"},
        {"1M/64/16:both+32M/64/16:data",
         "the cache '1M/64/16:both+32M/64/16:data': D2 serves one side alone, behind a level for both"},
        {"32K/64/8:shared+1M/64/16:private",
         "the cache '32K/64/8:shared+1M/64/16:private': L2 is private, behind a level that all threads share"},
        {"1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1",
         "the cache '1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1+1K/4/1': more than 8 levels"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct strbuf said = {0};
        struct cache_config k;
        diag_hold(&said);
        assert_int_equal(cache_parse(wrong[i][0], &k), -1);
        diag_hold(NULL);
        assert_string_equal(said.data, wrong[i][1]);
        str_free(&said);
    }
}

/* Every description that is shipped can be simulated. */
static void test_machines(void **unused)
{
    (void)unused;
    const char *name, *text;
    for (size_t i = 0; (text = machine_shipped_text(i, &name)); i++) {
        struct machine *m;
        struct cache_config k;
        struct strbuf s = {0};
        assert_int_equal(machine_parse(name, text, strlen(text), &m), 0);
        assert_int_equal(cache_of_machine(m, false, &k), 0);
        cache_format(&k, &s);
        if (strcmp(name, "zen4.machine") == 0)
            assert_string_equal(s.data, "32K/64/8+32K/64/8:code+1M/64/8+32M/64/16");
        assert_int_equal(cache_of_machine(m, true, &k), 0);
        str_free(&s);
        cache_format(&k, &s);
        if (strcmp(name, "zen4.machine") == 0)
            assert_string_equal(s.data, "288K/4K/full+12M/4K/24");
        str_free(&s);
        machine_free(m);
    }
}

/* What a calibration could not find out. */
static void test_measured_machine(void **unused)
{
    (void)unused;
    struct machine *m = machine_default();
    struct cache_config k;
    struct strbuf s = {0};
    m->cache_count = 3;
    m->caches[0] = (struct machine_cache){"L1", MACHINE_CACHE_DATA, 32 << 10, 64, 0, 4};
    m->caches[1] = (struct machine_cache){"L3", MACHINE_CACHE_BOTH, (5 << 20) + 1000, 64, 12, 50};
    m->caches[2] = (struct machine_cache){"memory", MACHINE_CACHE_BOTH, 1ull << 36, 64, 0, 400};
    assert_int_equal(cache_of_machine(m, false, &k), 0);
    assert_int_equal(k.levels[1].side, CACHE_DATA); /* no cache of code is known */
    cache_format(&k, &s);
    assert_string_equal(s.data, "32K/64/8+5243136/64/12");
    assert_int_equal(cache_of_machine(m, true, &k), 0);
    assert_int_equal(k.count, 0);
    m->caches[1].line_bytes = 32;
    struct strbuf said = {0};
    diag_hold(&said);
    assert_int_equal(cache_of_machine(m, false, &k), -1);
    diag_hold(NULL);
    assert_string_equal(said.data,
                        "the cache 'caches of the machine description': L2: lines of 32 bytes behind a level "
                        "of 64; they cannot be smaller");
    str_free(&said);
    str_free(&s);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_names_of_data_alone),
        cmocka_unit_test(test_written_back),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_measured_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
