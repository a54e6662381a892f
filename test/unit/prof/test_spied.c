/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found, joined: figures of data objects, functions and lines add up to the program's, who evicts whom,
 * and measured seconds go by simulated shares. */
#include "prof/prof.h"
#include "toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h> /* needs the ones above it */

enum { BIG, SMALL, IDLE, OBJECTS };
enum { CHAIN_BIG, CHAIN_SMALL, CALLER_SMALL, SITES };
#define REGION (1u << 24)

static void find_whose(void *ctx, struct spy_access *accesses, size_t count)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++)
        accesses[i].whose = (struct spy_whose){.object = (uint32_t)(accesses[i].address / REGION)};
}

static uint64_t block_begin(void *ctx, uint32_t object, uint64_t address)
{
    (void)ctx;
    assert_int_equal(object, address / REGION);
    return address / REGION * REGION;
}

struct bench {
    struct toy t;
    struct image *img;
    struct machine *machine;
    struct spy *spy;
    struct prof_input_caches caches[2];
    struct prof_result *r;
    struct machine_nodes nodes;
    uint32_t (*object_of)(void *ctx, uint32_t site, uint64_t address, uint32_t *field);
};

static uint64_t symbol(const struct image *img, const char *name)
{
    for (size_t i = 0; i < img->symbol_count; i++)
        if (img->symbols[i].name && strcmp(img->symbols[i].name, name) == 0)
            return img->symbols[i].addr;
    fail_msg("no symbol %s", name);
    return 0;
}

/* Loops of chain and caller, with three quarters and one quarter of the samples. */
static void set_counts(struct bench *b, struct observed_sample samples[2])
{
    const uint64_t n = 1000000;
    uint32_t chain = cfg_block_start(b->t.map.cfg, symbol(b->img, "chain")),
             caller = cfg_block_start(b->t.map.cfg, symbol(b->img, "caller")),
             leaf = cfg_block_start(b->t.map.cfg, symbol(b->img, "leaf"));
    toy_set(&b->t, chain, 10), toy_set(&b->t, chain + 1, n), toy_set(&b->t, chain + 2, 10);
    toy_set_edge(&b->t, chain, chain + 1, 10), toy_set_edge(&b->t, chain + 1, chain + 1, n - 10);
    toy_set_edge(&b->t, chain + 1, chain + 2, 10);
    toy_set(&b->t, leaf, n);
    toy_set(&b->t, caller, 1), toy_set(&b->t, caller + 1, n), toy_set(&b->t, caller + 2, n);
    toy_set(&b->t, caller + 3, 1);
    toy_set_edge(&b->t, caller, caller + 1, 1), toy_set_edge(&b->t, caller + 2, caller + 1, n - 1);
    toy_set_edge(&b->t, caller + 2, caller + 3, 1);
    samples[0] = (struct observed_sample){0, toy_addr(&b->t, chain + 1), 750};
    samples[1] = (struct observed_sample){0, toy_addr(&b->t, caller + 1), 250};
}

static void set_sites(struct bench *b)
{
    uint64_t chain = symbol(b->img, "chain") + 3, caller = symbol(b->img, "caller") + 3;
    struct spy_site sites[SITES] = {[CHAIN_BIG] = {.address = chain, .bytes = 8, .kind = CACHE_READ},
                                    [CHAIN_SMALL] = {.address = chain, .bytes = 8, .kind = CACHE_READ},
                                    [CALLER_SMALL] = {.address = caller, .bytes = 8, .kind = CACHE_WRITE}};
    spy_add_sites(b->spy, sites, SITES);
}

/* chain goes through 1 MB of BIG and then a little of SMALL, again and again, and caller writes all of SMALL. */
static void make_references(struct bench *b)
{
    for (int round = 0; round < 20; round++) {
        for (uint64_t at = 0; at < 1 << 20; at += 64)
            spy_reference(b->spy, 0, CHAIN_BIG, at, 0);
        for (uint64_t at = 0; at < 2048; at += 8)
            spy_reference(b->spy, 0, CHAIN_SMALL, REGION + at, 0);
        for (uint64_t at = 0; at < 8192; at += 8)
            spy_reference(b->spy, 0, CALLER_SMALL, REGION + at, 0);
    }
    spy_end(b->spy);
}

/* measured_s: how long the program ran; 0: it was not measured. */
static void join_it(struct bench *b, double measured_s, bool is_filtered)
{
    bool is_measured = measured_s > 0;
    static const struct prof_input_datum data[OBJECTS] = {
        [BIG] = {.name = "big", .kind = PROF_DATA_HEAP, .bytes = 1 << 20, .blocks = 1},
        [SMALL] = {.name = "small", .kind = PROF_DATA_GLOBAL, .bytes = 8192, .blocks = 1},
        [IDLE] = {.name = "idle", .kind = PROF_DATA_GLOBAL}};
    struct observed_sample samples[2];
    set_counts(b, samples);
    struct prof_input_spied spied = {.spy = b->spy,
                                     .caches = b->caches,
                                     .caches_count = 2,
                                     .data = data,
                                     .data_count = OBJECTS,
                                     .is_filtered = is_filtered,
                                     .references = PROF_UNKNOWN,
                                     .dropped = PROF_UNKNOWN,
                                     .unlogged = PROF_UNKNOWN,
                                     .block_begin = block_begin,
                                     .object_of = b->object_of,
                                     .nodes = b->nodes,
                                     .curve_min = 4096,
                                     .curve_max = 1 << 21};
    struct prof_input in = {.modules = &b->t.module,
                            .module_count = 1,
                            .machine = is_measured ? b->machine : NULL,
                            .samples = samples,
                            .sample_count = is_measured ? 2 : 0,
                            .plain_user_s = &measured_s,
                            .plain_runs = is_measured,
                            .sample_period_s = measured_s / 1000,
                            .spied = &spied};
    b->r = prof_result_new();
    b->r->machine.tsc_hz = 1e9, b->r->machine.cycles_per_tsc = 1;
    assert_int_equal(prof_join(b->r, &in), 0);
}

static void set_up(struct bench *b, double measured_s, bool is_filtered)
{
    *b = (struct bench){.machine = machine_default()};
    b->machine->error_count = 0;
    machine_add_error(b->machine, &(struct machine_error){.kernels = "all", .count = 30, .median = 0.1, .p90 = 0.3});
    toy_read(&b->t, FIXTURE);
    b->img = b->t.img;
    b->caches[0] = (struct prof_input_caches){.name = "two levels", .miss_cycles = {10, 100}};
    b->caches[1] = (struct prof_input_caches){.name = "one"};
    assert_int_equal(cache_parse("4K/64/4+64K/64/8", &b->caches[0].config), 0);
    assert_int_equal(cache_parse("16K/64/1", &b->caches[1].config), 0);
    const struct cache_config configs[] = {b->caches[0].config, b->caches[1].config};
    b->spy = spy_new(&(struct spy_options){.configs = configs,
                                           .config_count = 2,
                                           .curve_line = 64,
                                           .curve_least = 4096,
                                           .curve_bytes = 1 << 21,
                                           .find_whose = find_whose});
    set_sites(b);
    make_references(b);
    join_it(b, measured_s, is_filtered);
}

static void tear_down(struct bench *b)
{
    prof_result_free(b->r);
    spy_free(b->spy);
    toy_fini(&b->t);
    machine_free(b->machine);
}

static uint64_t misses_of(const struct prof_result *r, enum prof_data_owner owner, uint32_t id, uint32_t cache)
{
    for (size_t i = 0; i < r->data_miss_count; i++) {
        const struct prof_data_miss *m = &r->data_misses[i];
        if (m->owner == owner && m->owner_id == id && m->cache == cache)
            return m->misses;
    }
    fail_msg("no row of misses");
    return 0;
}

/* What all rows of an owner miss together is what the program misses; causes add up in each. */
static void test_sums(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 0, false);
    assert_int_equal(b.r->cache_count, 3);
    for (uint32_t cache = 0; cache < 3; cache++)
        for (int owner = PROF_OWNER_OBJECT; owner <= PROF_OWNER_CELL; owner++) {
            size_t count = owner == PROF_OWNER_OBJECT ? b.r->data_count : b.r->data_cell_count;
            uint64_t sum = 0;
            for (uint32_t i = 0; i < count; i++)
                sum += misses_of(b.r, (enum prof_data_owner)owner, i, cache);
            assert_int_equal(sum, misses_of(b.r, PROF_OWNER_PROGRAM, 0, cache));
        }
    for (size_t i = 0; i < b.r->data_miss_count; i++) {
        const struct prof_data_miss *m = &b.r->data_misses[i];
        assert_int_equal(m->cold + m->capacity + m->conflict + m->inclusion + m->around, m->misses);
    }
    tear_down(&b);
}

static void test_objects(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 0, false);
    const struct prof_result *r = b.r;
    assert_int_equal(r->data_count, 2); /* IDLE was never reached */
    assert_string_equal(r->data[0].name, "big");
    assert_string_equal(r->data[1].name, "small");
    assert_int_equal(r->data[0].references, 20 * (1 << 14));
    assert_int_equal(r->data[1].references, 20 * (256 + 1024));
    assert_true(fabs(r->data[0].stall_share.value + r->data[1].stall_share.value - 1) < 1e-9);
    assert_true(isnan(r->data[0].memory_s.value)); /* nothing was measured */
    assert_int_equal(misses_of(r, PROF_OWNER_OBJECT, 0, 0), 20 * (1 << 14));
    assert_int_equal(r->data_cell_count, 3);
    assert_string_equal(r->data_cells[0].function, "chain");
    assert_int_equal(r->data_cells[0].object, 0);
    assert_true(r->caches[1].is_primary); /* a miss there costs ten times as much */
    tear_down(&b);
}

static uint64_t curve_at(const struct prof_result *r, uint32_t object, uint64_t bytes)
{
    for (size_t i = 0; i < r->data_curve_count; i++)
        if (r->data_curves[i].object == object && r->data_curves[i].bytes == bytes)
            return r->data_curves[i].misses;
    fail_msg("no row of a curve");
    return 0;
}

/* BIG's rounds need 1 MB and what SMALL is reached by between them; SMALL's first 2 KB are reached twice a round. Both
 * are all of the program's. */
static void test_curves(void **state)
{
    (void)state;
    for (int is_filtered = 0; is_filtered < 2; is_filtered++) {
        struct bench b;
        set_up(&b, 0, is_filtered);
        assert_int_equal(b.r->data_curve_count, 3 * 10);
        for (uint64_t bytes = 4096; bytes <= 1 << 21; bytes *= 2) {
            assert_int_equal(curve_at(b.r, 0, bytes), (bytes > 1 << 20 ? 1 : 20) << 14);
            assert_int_equal(curve_at(b.r, 1, bytes), bytes > 1 << 20 ? 128 : 20 * 128);
            assert_int_equal(curve_at(b.r, 0, bytes) + curve_at(b.r, 1, bytes), curve_at(b.r, ID_NONE, bytes));
        }
        for (size_t i = 0; i < b.r->data_curve_count; i++)
            assert_true(b.r->data_curves[i].object != ID_NONE ||
                        b.r->data_curves[i].references == b.r->spy->references);
        tear_down(&b);
    }
}

/* BIG goes through all; what it evicts of SMALL, SMALL misses by it alone, but for the four lines a set of its own. */
static void test_evictors(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 0, false);
    double share = 0;
    for (size_t i = 0; i < b.r->data_evictor_count; i++) {
        const struct prof_data_evictor *e = &b.r->data_evictors[i];
        if (e->object == 1 && e->cache == 1 && e->by == 0)
            share = e->share;
        if (e->object == 1 && e->cache == 1 && e->by == 1)
            fail_msg("8 KB do not evict each other from 64 KB");
    }
    assert_true(share == 1);
    tear_down(&b);
}

/* Three quarters of a second in chain, nearly all of it memory, go to BIG and SMALL by chain's stall alone. */
static void test_seconds(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 1, false);
    const struct prof_result *r = b.r;
    double chain_s = 0, all_s = 0;
    for (size_t i = 0; i < r->object_count; i++)
        if (r->objects[i].is_significant)
            all_s += r->objects[i].memory_s.value;
    assert_true(all_s > 0.9 && all_s < 1);
    for (size_t i = 0; i < r->data_cell_count; i++)
        chain_s += strcmp(r->data_cells[i].function, "chain") == 0 ? r->data_cells[i].memory_s.value : 0;
    assert_true(fabs(chain_s - 0.75) < 0.03);
    assert_true(fabs(r->data[0].memory_s.value + r->data[1].memory_s.value - all_s) < 1e-9);
    assert_true(r->data[1].memory_s.value > 0.24); /* all of caller's */
    assert_true(r->data[0].memory_s.low <= r->data[0].memory_s.value &&
                r->data[0].memory_s.value <= r->data[0].memory_s.high);
    tear_down(&b);
}

/* Where chain takes hardly more than was predicted it may lose nothing to memory: its data is not accused, but may cost
 * what chain may. */
static void test_seconds_that_may_be_none(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 1, false);
    double ideal_s = b.r->objects[0].ideal_s.value; /* chain's: most of the second is there */
    tear_down(&b);
    set_up(&b, 1.02 * ideal_s / 0.75, false);
    const struct prof_object *chain = b.r->objects;
    while (fabs(chain->ideal_s.value - ideal_s) > 1e-3 * ideal_s)
        assert_true(++chain < b.r->objects + b.r->object_count);
    assert_true(!chain->is_significant && chain->memory_s.low < 0 && chain->memory_s.high > 0);
    double high_s = 0;
    for (size_t i = 0; i < b.r->data_cell_count; i++) {
        const struct prof_data_cell *cell = &b.r->data_cells[i];
        if (strcmp(cell->function, "chain") == 0) {
            assert_true(cell->memory_s.low == 0 && cell->memory_s.value == 0);
            high_s += cell->memory_s.high;
        }
    }
    assert_true(fabs(high_s - chain->memory_s.high) < 1e-6 * high_s);
    tear_down(&b);
}

/* BIG is gone through from end to end, and does not fit. */
static void test_advice(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 1, false);
    const struct prof_data_advice *a = &b.r->data_advice[0];
    assert_true(b.r->data_advice_count >= 1);
    assert_string_equal(a->advice, "block");
    assert_int_equal(a->object, 0);
    assert_string_equal(a->function, "chain");
    assert_true(a->gain_share > 0.8 && a->gain_share <= 1);
    assert_true(a->gain_s.value > 0.8 * b.r->data[0].memory_s.value && a->gain_s.value <= b.r->data[0].memory_s.value);
    tear_down(&b);
}

/* Two threads write neighbouring words, and one reads what the other writes; the first of these again in a second order
 * that mixes them as much, less or not at all. */
static void share(struct bench *b, bool has_second, unsigned mixed)
{
    enum { TIMES = 1000 };
    *b = (struct bench){.machine = machine_default()};
    toy_read(&b->t, FIXTURE);
    b->img = b->t.img;
    b->caches[0] = (struct prof_input_caches){.name = "two levels", .miss_cycles = {10, 100}};
    b->caches[1] = b->caches[0];
    assert_int_equal(cache_parse("4K/64/4:private+64K/64/8:shared", &b->caches[0].config), 0);
    const struct cache_config configs[] = {b->caches[0].config, b->caches[0].config};
    b->caches[1].config = configs[1];
    b->spy = spy_new(&(struct spy_options){
        .configs = configs, .config_count = 2, .has_threads = has_second, .find_whose = find_whose});
    set_sites(b);
    for (int i = 0; i < TIMES; i++) {
        spy_reference(b->spy, 0, CALLER_SMALL, REGION + 0, 0);
        spy_reference(b->spy, 1, CALLER_SMALL, REGION + 8, 0);
        spy_reference(b->spy, 0, CALLER_SMALL, 128, 0);
        spy_reference(b->spy, 1, CHAIN_BIG, 128, 0);
    }
    for (unsigned i = 0; i < TIMES; i++)
        spy_reference_again(b->spy, 0, CALLER_SMALL, REGION + 0, 0);
    for (unsigned i = 0; i < TIMES; i++) {
        spy_reference_again(b->spy, 1, CALLER_SMALL, REGION + 8, 0);
        if (i < mixed)
            spy_reference_again(b->spy, 0, CALLER_SMALL, REGION + 0, 0);
        spy_reference_again(b->spy, 0, CALLER_SMALL, 128, 0);
        spy_reference_again(b->spy, 1, CHAIN_BIG, 128, 0);
    }
    spy_end(b->spy);
    join_it(b, false, false);
}

static void check_shared(const struct prof_result *r, uint64_t small_misses)
{
    for (size_t i = 0; i < r->data_sharing_count; i++) {
        bool is_big = strcmp(r->data[r->data_sharing[i].object].name, "big") == 0;
        assert_string_equal(r->data_sharing[i].kind, is_big ? "true" : "false");
        assert_int_equal(r->data_sharing[i].line_offset, is_big ? 128 : 0);
        assert_int_equal(r->data_sharing[i].misses, is_big ? 999 : small_misses);
    }
}

static bool advises(const struct prof_result *r, const char *advice, const char *object)
{
    for (size_t i = 0; i < r->data_advice_count; i++)
        if (strcmp(r->data_advice[i].advice, advice) == 0 &&
            strcmp(r->data[r->data_advice[i].object].name, object) == 0)
            return true;
    return false;
}

static void test_sharing(void **state)
{
    (void)state;
    struct bench b;
    share(&b, false, 0);
    assert_int_equal(b.r->data_sharing_count, 2);
    check_shared(b.r, 1998);
    assert_int_equal(b.r->data_site_count, 4);
    assert_string_equal(b.r->data_advice[0].advice, "separate");
    assert_string_equal(b.r->data[b.r->data_advice[0].object].name, "small");
    tear_down(&b);
}

/* What one order has alone is not told, nor advised of; of what both have the fewest misses. */
static void test_second_order(void **state)
{
    (void)state;
    static const unsigned mixed[] = {0, 200, 999};
    for (size_t i = 0; i < ARRAY_LEN(mixed); i++) {
        struct bench b;
        share(&b, true, mixed[i]);
        assert_int_equal(b.r->data_sharing_count, mixed[i] ? 2 : 1);
        check_shared(b.r, mixed[i] ? 2 * mixed[i] : 0);
        assert_int_equal(advises(b.r, "separate", "small"), mixed[i] > 0);
        tear_down(&b);
    }
}

/* Thread 0 writes all of BIG, two others go through half of it each; on one memory node, and on two, the other three
 * times as far. */
static void first_touch(struct bench *b, struct machine_nodes nodes)
{
    *b = (struct bench){.machine = machine_default(), .nodes = nodes};
    toy_read(&b->t, FIXTURE);
    b->img = b->t.img;
    b->caches[0] = (struct prof_input_caches){.name = "two levels", .miss_cycles = {10, 100}};
    b->caches[1] = b->caches[0];
    assert_int_equal(cache_parse("4K/64/4:private+64K/64/8:shared", &b->caches[0].config), 0);
    const struct cache_config configs[] = {b->caches[0].config, b->caches[0].config};
    b->caches[1].config = configs[1];
    b->spy = spy_new(
        &(struct spy_options){.configs = configs, .config_count = 2, .has_threads = true, .find_whose = find_whose});
    set_sites(b);
    for (uint64_t at = 0; at < 1 << 20; at += 64)
        spy_reference(b->spy, 0, CALLER_SMALL, at, 0);
    for (int round = 0; round < 9; round++)
        for (uint64_t at = 0; at < 1 << 20; at += 64)
            spy_reference(b->spy, at < 1 << 19 ? 1 : 2, CHAIN_BIG, at, 0);
    spy_end(b->spy);
    join_it(b, false, false);
}

static void test_first_touch(void **state)
{
    (void)state;
    static const struct machine_nodes nodes[] = {{1, NAN}, {2, 3}, {2, NAN}};
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        struct bench b;
        first_touch(&b, nodes[i]);
        const struct prof_data_advice *a = b.r->data_advice;
        while (strcmp(a->advice, "first-touch") != 0)
            assert_true(++a < b.r->data_advice + b.r->data_advice_count);
        assert_string_equal(a->function, "caller"); /* which should not have */
        assert_non_null(strstr(a->evidence, "90 %"));
        assert_non_null(strstr(a->evidence, "each thread initialise"));
        assert_int_equal(strstr(a->evidence, "one node") != NULL, nodes[i].count == 1);
        if (i != 1) {
            assert_true(isnan(a->gain_share));
        } else { /* half of nine tenths are far, which takes three times as long: 0.9 of 1.9; of 100 of 110 cycles */
            assert_true(fabs(a->gain_share - 0.9 / 1.9 * 100 / 110) < 1e-6);
        }
        tear_down(&b);
    }
}

/* BIG from its first to its last byte, all the time, by chain; in the order that rows must have. */
static void test_pictures(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 0, false);
    const struct prof_result *r = b.r;
    uint64_t sum = 0, first = UINT64_MAX, last = 0, before = 0;
    assert_true(r->data_picture_count >= 1);
    assert_int_equal(r->data_pictures[0].object, 0);
    assert_true(r->data_pictures[0].parts * r->data_pictures[0].part_bytes >= 1 << 20);
    for (size_t i = 0; i < r->data_touched_count && r->data_touched[i].object == 0; i++) {
        const struct prof_data_touched *t = &r->data_touched[i];
        uint64_t at = (uint64_t)t->time << 32 | t->part;
        assert_true(i == 0 || at > before);
        assert_true(t->time < r->data_pictures[0].times && t->part < r->data_pictures[0].parts);
        assert_string_equal(t->function, "chain");
        before = at;
        sum += t->references;
        first = t->time < first ? t->time : first;
        last = t->time > last ? t->time : last;
    }
    assert_true(sum > 20 * (1 << 14) / 10 * 9 && sum <= 20 * (1 << 14));
    assert_true(first <= 4 && last + 3 >= r->data_pictures[0].times);
    tear_down(&b);
}

/* Behind a filter exact counts tell how many references there were, where a site goes to one object. */
static void test_filtered(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 0, true);
    assert_int_equal(b.r->spy->references, 3 * 1000000);
    for (size_t i = 0; i < b.r->data_count; i++) {
        bool is_big = strcmp(b.r->data[i].name, "big") == 0;
        assert_int_equal(b.r->data[i].references, is_big ? 1000000 : 2 * 1000000);
    }
    for (size_t i = 0; i < b.r->data_cell_count; i++) { /* chain has a site for each object */
        const struct prof_data_cell *c = &b.r->data_cells[i];
        assert_int_equal(c->function_references, strcmp(c->function, "chain") == 0 ? 2 * 1000000 : 1000000);
    }
    tear_down(&b);
}

/* ---- sites of which nothing came ---- */

enum { TOLD, NEAR, FAR, CHANGED, FRAME, VARIABLE, REACHES };

static uint64_t reached; /* address of the variable */

static uint32_t object_of(void *ctx, uint32_t site, uint64_t address, uint32_t *field)
{
    (void)ctx;
    *field = 0;
    assert_int_equal(site, address == PROF_UNKNOWN ? FRAME : VARIABLE);
    assert_true(address == PROF_UNKNOWN || address == reached);
    return address == PROF_UNKNOWN ? IDLE : BIG;
}

static void reach(struct bench *b, bool is_silent)
{
    static const uint8_t at[REACHES] = {3, 7, 11, 22, 26, 30};
    *b = (struct bench){.machine = machine_default(), .object_of = object_of};
    toy_read(&b->t, FIXTURE);
    b->img = b->t.img;
    b->caches[0] = b->caches[1] = (struct prof_input_caches){.name = "one", .miss_cycles = {10}};
    assert_int_equal(cache_parse("4K/64/4", &b->caches[0].config), 0);
    b->caches[1].config = b->caches[0].config;
    const struct cache_config configs[] = {b->caches[0].config, b->caches[0].config};
    b->spy = spy_new(&(struct spy_options){.configs = configs, .config_count = 2, .find_whose = find_whose});
    struct spy_site sites[REACHES];
    for (int i = 0; i < REACHES; i++)
        sites[i] = (struct spy_site){.address = symbol(b->img, "reach") + at[i], .bytes = 8, .kind = CACHE_READ};
    spy_add_sites(b->spy, sites, REACHES);
    for (unsigned i = 0; i < 100; i++)
        spy_reference(b->spy, 0, TOLD, REGION + 64ull * i, 0);
    spy_reference(b->spy, 0, is_silent ? TOLD : NEAR, REGION, 0);
    spy_end(b->spy);
    reached = symbol(b->img, "reached");
    toy_set(&b->t, cfg_block_start(b->t.map.cfg, symbol(b->img, "reach") + 3), 1000);
    join_it(b, false, true);
}

static uint64_t references_of(const struct prof_result *r, const char *name)
{
    for (size_t i = 0; i < r->data_count; i++)
        if (strcmp(r->data[i].name, name) == 0)
            return r->data[i].references;
    return 0;
}

/* A register that keeps its value, within a line; a frame; a variable. No object has what is far, or behind a register
 * that was changed; and no miss is made of any. */
static void test_proofs(void **state)
{
    (void)state;
    for (int is_silent = 0; is_silent < 2; is_silent++) {
        struct bench b;
        reach(&b, is_silent);
        assert_int_equal(b.r->spy->references, REACHES * 1000);
        assert_int_equal(references_of(b.r, "small"), 2 * 1000);
        assert_int_equal(references_of(b.r, "big"), 1000);
        assert_int_equal(references_of(b.r, "idle"), 1000);
        assert_int_equal(misses_of(b.r, PROF_OWNER_PROGRAM, 0, 0), 101);
        assert_int_equal(misses_of(b.r, PROF_OWNER_OBJECT, 0, 0), 101);
        tear_down(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums),
                                       cmocka_unit_test(test_objects),
                                       cmocka_unit_test(test_curves),
                                       cmocka_unit_test(test_evictors),
                                       cmocka_unit_test(test_seconds),
                                       cmocka_unit_test(test_advice),
                                       cmocka_unit_test(test_first_touch),
                                       cmocka_unit_test(test_sharing),
                                       cmocka_unit_test(test_second_order),
                                       cmocka_unit_test(test_filtered),
                                       cmocka_unit_test(test_pictures),
                                       cmocka_unit_test(test_proofs),
                                       cmocka_unit_test(test_seconds_that_may_be_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
