/* SPDX-License-Identifier: Apache-2.0
 * References into cells and through caches: the same as without threads, and every one with its site and object. */
#include "spy/spy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those that it needs */
#include <cmocka.h>

enum { SITES = 50, OBJECTS = 8, REFERENCES = 300000, REGION = 1 << 16 };

static uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 24;
}

static void find_whose(void *ctx, struct spy_access *accesses, size_t count)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++)
        accesses[i].whose = (struct spy_whose){.object = (uint32_t)(accesses[i].address / REGION)};
}

static void by_megabyte(void *ctx, struct spy_access *accesses, size_t count)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++)
        accesses[i].whose = (struct spy_whose){.object = (uint32_t)(accesses[i].address >> 20)};
}

static struct spy *make_part(const struct cache_config *configs, size_t count, struct cache_part part)
{
    struct spy *s = spy_new(&(struct spy_options){.configs = configs,
                                                  .config_count = count,
                                                  .curve_line = 64,
                                                  .curve_least = 4096,
                                                  .curve_bytes = 1 << 20,
                                                  .part = part,
                                                  .find_whose = find_whose});
    struct spy_site sites[SITES];
    for (uint32_t i = 0; i < SITES; i++)
        sites[i] = (struct spy_site){
            .address = 0x1000 + i, .bytes = (uint16_t)(1u << i % 6), .kind = i % 3 ? CACHE_READ : CACHE_WRITE};
    spy_add_sites(s, sites, SITES / 2);
    spy_add_sites(s, sites + SITES / 2, SITES - SITES / 2);
    return s;
}

static struct spy *make(const struct cache_config *configs, size_t count)
{
    return make_part(configs, count, (struct cache_part){.one_in = 1});
}

/* The misses are those of a cache that is run here, reference by reference; no cell is lost on the way. */
static void test_same_as_alone(void **state)
{
    (void)state;
    struct cache_config configs[2];
    assert_int_equal(cache_parse("4K/64/2+64K/64/8", &configs[0]), 0);
    assert_int_equal(cache_parse("1K/32/1", &configs[1]), 0);
    struct spy *s = make(configs, 2);
    struct cache *alone[2] = {cache_new(&configs[0], true), cache_new(&configs[1], true)};
    uint64_t seed = 1, by_site[SITES] = {0}, by_object[OBJECTS] = {0};
    for (int i = 0; i < REFERENCES; i++) {
        uint32_t site = (uint32_t)(random_next(&seed) % SITES);
        uint64_t address = random_next(&seed) % (OBJECTS * (uint64_t)REGION) & ~63ull;
        spy_reference(s, 0, site, address, 0);
        const struct spy_site *of = spy_site(s, site);
        struct cache_ref r = {.address = address, .cell = 0, .bytes = of->bytes, .kind = of->kind};
        cache_run(alone[0], &r, 1);
        cache_run(alone[1], &r, 1);
        by_site[site]++;
        by_object[address / REGION]++;
    }
    spy_end(s);
    for (size_t k = 0; k < 2; k++)
        for (unsigned level = 0; level < configs[k].count; level++)
            assert_memory_equal(cache_counts(spy_cache(s, k), level), cache_counts(alone[k], level),
                                sizeof(struct cache_counts));
    size_t cells;
    const struct spy_cell *cell = spy_cells(s, &cells);
    for (size_t i = 0; i < cells; i++) {
        by_site[cell[i].site] -= cell[i].references;
        by_object[cell[i].object] -= cell[i].references;
    }
    for (int i = 0; i < SITES; i++)
        assert_int_equal(by_site[i], 0);
    for (int i = 0; i < OBJECTS; i++)
        assert_int_equal(by_object[i], 0);
    assert_int_equal(cache_curve_references(spy_curve(s)), REFERENCES);
    cache_free(alone[0]);
    cache_free(alone[1]);
    spy_free(s);
}

/* A range reaches each of its lines once, and each object that it passes. */
static void test_ranges(void **state)
{
    (void)state;
    struct cache_config config;
    assert_int_equal(cache_parse("1M/64/16", &config), 0);
    struct spy *s = make(&config, 1);
    spy_reference(s, 0, 1, REGION - 100, 1000); /* lines from 65436 / 64 = 1022 to 66435 / 64 = 1038 */
    spy_end(s);
    assert_int_equal(cache_counts(spy_cache(s, 0), 0)->misses[CACHE_READ], 17);
    size_t cells;
    const struct spy_cell *cell = spy_cells(s, &cells);
    assert_int_equal(cells, 2);
    assert_int_equal(cell[0].object, 0);
    assert_int_equal(cell[0].references, 2);
    assert_int_equal(cell[1].object, 1);
    assert_int_equal(cell[1].references, 15);
    spy_free(s);
}

/* A column of a matrix, now and then something else; and what has no stride. */
static void test_strides(void **state)
{
    (void)state;
    struct cache_config config;
    assert_int_equal(cache_parse("1M/64/16", &config), 0);
    struct spy *s = make(&config, 1);
    uint64_t seed = 3;
    for (uint64_t i = 0; i < 1000; i++) {
        spy_reference(s, 0, 1, i % 10 == 9 ? 4096 : i * 40, 0);
        spy_reference(s, 0, 2, random_next(&seed) % REGION, 0);
    }
    spy_end(s);
    size_t cells;
    const struct spy_cell *cell = spy_cells(s, &cells);
    assert_int_equal(cells, 2);
    assert_int_equal(cell[0].site, 1);
    assert_int_equal(cell[0].stride, 40);
    assert_true(cell[0].strided > 700 && cell[0].strided <= 800);
    assert_true(cell[1].strided < 10);
    spy_free(s);
}

/* Of `object`, looked up by the order in which objects came to have one. */
static const struct spy_picture *picture_of(const struct spy *s, uint32_t object)
{
    size_t count;
    const struct spy_picture *list = spy_pictures(s, &count);
    for (size_t i = 0; i < count; i++)
        if (list[i].object == object)
            return &list[i];
    fail_msg("no picture of %u", object);
    return NULL;
}

static uint64_t count_all(const struct spy_picture *x)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < SPY_PICTURE_TIMES * SPY_PICTURE_PARTS; i++)
        sum += x->cells[i].count;
    return sum;
}

/* From time `from` to `to` it was walked through evenly, by one site, from one address to the other. */
static void expect_walk(const struct spy *s, const struct spy_picture *x, uint32_t site, const int times[2],
                        const int64_t addresses[2])
{
    size_t cells;
    const struct spy_cell *cell = spy_cells(s, &cells);
    int64_t part = 1ll << x->part_shift;
    int reached = 0;
    for (int t = 0; t < SPY_PICTURE_TIMES; t++) {
        int64_t step = (addresses[1] - addresses[0]) / (times[1] - times[0]);
        int64_t at = addresses[0] + step * (t - times[0]), lo = step < 0 ? at + step : at,
                hi = step < 0 ? at : at + step;
        for (int p = 0; p < SPY_PICTURE_PARTS; p++) {
            const struct spy_picture_cell *c = &x->cells[t * SPY_PICTURE_PARTS + p];
            int64_t begin = (int64_t)x->begin + p * part;
            if (!c->count)
                continue;
            assert_true(begin + 3 * part > lo && begin - 2 * part < hi);
            assert_int_equal(cell[c->cell].site, site);
            reached++;
        }
    }
    assert_true(reached > SPY_PICTURE_PARTS / 2 && part <= 2 * REGION / SPY_PICTURE_PARTS);
}

/* One object is walked through upwards, then another downwards, as often: each is seen in its half of the run, later
 * parts later, by the site that did it. Then a far address of the first: the parts become longer, nothing is lost. */
static void test_pictures(void **state)
{
    (void)state;
    struct cache_config config;
    assert_int_equal(cache_parse("1M/64/16", &config), 0);
    struct spy *s = make(&config, 1);
    for (uint32_t i = 0; i < REFERENCES; i++)
        spy_reference(s, 0, 3, (uint64_t)i * (REGION / 2) / REFERENCES, 0);
    for (uint32_t i = 0; i < REFERENCES; i++)
        spy_reference(s, 0, 4, 2 * REGION - 1 - (uint64_t)i * (REGION / 2) / REFERENCES, 0);
    spy_settle(s);
    const struct spy_picture *up = picture_of(s, 0), *down = picture_of(s, 1);
    uint64_t seen = count_all(up);
    assert_in_range(seen * spy_picture_sample(), REFERENCES / 10 * 9, REFERENCES);
    assert_in_range(count_all(down) * spy_picture_sample(), REFERENCES / 10 * 9, REFERENCES);
    int end = 0;
    for (int i = 0; i < SPY_PICTURE_TIMES * SPY_PICTURE_PARTS; i++)
        end = down->cells[i].count ? i / SPY_PICTURE_PARTS + 1 : end;
    assert_true(end > SPY_PICTURE_TIMES / 2);
    expect_walk(s, up, 3, (int[]){0, end / 2}, (int64_t[]){0, REGION / 2});
    expect_walk(s, down, 4, (int[]){end / 2, end}, (int64_t[]){2 * REGION, 2 * REGION - REGION / 2});
    for (unsigned i = 0; i < spy_picture_sample(); i++)
        spy_reference(s, 0, 3, REGION - 64, 0);
    spy_settle(s);
    assert_int_equal(count_all(picture_of(s, 0)), seen + 1);
    assert_true((uint64_t)SPY_PICTURE_PARTS << picture_of(s, 0)->part_shift >= REGION);
    spy_end(s);
    spy_free(s);
}

/* What a stream that was written over may hold. */
static void test_strays(void **state)
{
    (void)state;
    struct cache_config config;
    assert_int_equal(cache_parse("1M/64/16", &config), 0);
    struct spy *s = make(&config, 1);
    spy_reference(s, 0, SITES, 4096, 0);
    spy_reference(s, 0, UINT32_MAX, 4096, 0);
    spy_reference(s, 0, 0, 1ull << 47, 0);
    spy_reference(s, 0, 0, 4096, UINT64_MAX);
    spy_reference(s, 0, 0, 4096, 0);
    spy_end(s);
    assert_int_equal(spy_strays(s), 4);
    assert_int_equal(cache_counts(spy_cache(s, 0), 0)->references[CACHE_WRITE], 1);
    spy_free(s);
}

static uint64_t misses_of(const struct cache_config *config, struct cache_part part, uint64_t *references)
{
    struct spy *s = make_part(config, 1, part);
    uint64_t seed = 3;
    for (int i = 0; i < REFERENCES / 3; i++) {
        uint32_t site = (uint32_t)(random_next(&seed) % SITES);
        uint64_t address = random_next(&seed) % (OBJECTS * (uint64_t)REGION);
        uint64_t length = i % 100 ? 0 : random_next(&seed) % 3000;
        spy_reference(s, 0, site, address, length);
    }
    spy_end(s);
    const struct cache_counts *n = cache_counts(spy_cache(s, 0), 0);
    uint64_t misses = n->misses[CACHE_READ] + n->misses[CACHE_WRITE];
    *references += n->references[CACHE_READ] + n->references[CACHE_WRITE];
    spy_free(s);
    return misses;
}

/* References of all sizes, that straddle lines, and ranges: parts have each line's part of them, in a level without
 * ways where every line of them misses alone. */
static void test_parts(void **state)
{
    (void)state;
    struct cache_config config;
    struct cache_part part;
    uint64_t sum = 0, whole = 0, in_parts = 0;
    assert_int_equal(cache_parse("64K/64/2", &config), 0);
    uint64_t all = misses_of(&config, (struct cache_part){.one_in = 1}, &whole);
    for (unsigned which = 0; which < 4; which++) {
        assert_int_equal(cache_choose_part(&config, 1, 4, which, &part), 0);
        sum += misses_of(&config, part, &in_parts);
    }
    /* One that straddles counts once in all, but twice if its lines are of two parts. */
    assert_true(sum >= all && sum - all <= in_parts - whole);
    assert_true(in_parts > whole && in_parts - whole < whole / 2);
}

static uint64_t begin_of(void *ctx, uint32_t object, uint64_t address)
{
    (void)ctx;
    (void)address;
    return (uint64_t)object * REGION;
}

/* Two threads, so that lines are shared. */
static struct spy *play(const struct cache_config *configs, uint64_t seed)
{
    struct spy *s = make(configs, 2);
    for (int i = 0; i < REFERENCES / 3; i++) {
        uint32_t site = (uint32_t)(random_next(&seed) % SITES);
        spy_reference(s, (uint32_t)i % 2, site, random_next(&seed) % (OBJECTS * (uint64_t)REGION) & ~63ull, 0);
    }
    spy_end(s);
    return s;
}

/* Sums of a level by site and object, whatever the numbers of cells are, and of the evictors. */
static void add_up(const struct spy *s, size_t config, unsigned level, bool turned, uint64_t *sums)
{
    size_t count, cells, pairs;
    struct arena *a = arena_new();
    const struct cache_cell *c = cache_cells(spy_cache(s, config), level, &count);
    const struct spy_cell *of = spy_cells(s, &cells);
    const struct cache_evictor *e = cache_evictors(spy_cache(s, config), level, a, &pairs);
    for (size_t i = 0; i < count; i++) {
        uint32_t site = turned ? SITES - 1 - of[i].site : of[i].site, object = turned ? of[i].object + 3 : of[i].object;
        uint64_t *to = &sums[3 * (site * (OBJECTS + 3) + object)];
        to[0] += of[i].references + c[i].references;
        to[1] += c[i].misses + 7 * c[i].causes[CACHE_COLD] + 31 * c[i].causes[CACHE_FALSE_SHARING];
        to[2] += spy_curve(s) ? cache_curve_cell_misses(spy_curve(s), (uint32_t)i, 1 << 18) : 0;
    }
    for (size_t i = 0; i < pairs; i++)
        sums[3 * SITES * (OBJECTS + 3)] += e[i].misses;
    arena_free(a);
}

/* What two found is, together, what each found, under other numbers of sites and objects. */
static void test_absorb(void **state)
{
    (void)state;
    enum { SUMS = 3 * SITES * (OBJECTS + 3) + 1 };
    struct cache_config configs[2];
    uint32_t sites[SITES], objects[OBJECTS];
    assert_int_equal(cache_parse("4K/64/2+64K/64/8", &configs[0]), 0);
    assert_int_equal(cache_parse("1K/32/1", &configs[1]), 0);
    struct spy *sum = make(configs, 2), *one[2] = {play(configs, 1), play(configs, 2)};
    for (uint32_t i = 0; i < SITES; i++)
        sites[i] = SITES - 1 - i;
    for (uint32_t i = 0; i < OBJECTS; i++)
        objects[i] = i + 3;
    for (int i = 0; i < 2; i++)
        spy_absorb(sum, one[i], &(struct spy_absorption){sites, objects, begin_of, NULL});
    spy_end(sum);
    for (size_t k = 0; k < 2; k++)
        for (unsigned level = 0; level < configs[k].count; level++) {
            uint64_t found[SUMS] = {0}, expected[SUMS] = {0}, misses = 0;
            add_up(sum, k, level, false, found);
            for (int i = 0; i < 2; i++) {
                add_up(one[i], k, level, true, expected);
                misses += cache_counts(spy_cache(one[i], k), level)->misses[CACHE_READ];
            }
            assert_memory_equal(found, expected, sizeof found);
            assert_int_equal(cache_counts(spy_cache(sum, k), level)->misses[CACHE_READ], misses);
        }
    for (uint64_t bytes = 4096; bytes <= 1 << 20; bytes *= 2)
        assert_int_equal(cache_curve_misses(spy_curve(sum), bytes),
                         cache_curve_misses(spy_curve(one[0]), bytes) + cache_curve_misses(spy_curve(one[1]), bytes));
    struct arena *a = arena_new();
    size_t shared, of_one;
    const struct cache_shared_line *line = spy_shared_lines(sum, a, 10, &shared),
                                   *first = spy_shared_lines(one[0], a, 10, &of_one);
    size_t cells;
    const struct spy_cell *cell = spy_cells(sum, &cells);
    assert_int_equal(shared, 10);
    assert_true(line[0].true_misses + line[0].false_misses >= first[0].true_misses + first[0].false_misses);
    for (size_t i = 0; i < shared; i++) {
        assert_true(line[i].side_count && cell[line[i].sides[0].cell].object >= 3);
        assert_true(spy_absorbed_offset(sum, line[i].address) < REGION);
    }
    arena_free(a);
    spy_free(sum);
    spy_free(one[0]);
    spy_free(one[1]);
}

/* Thread 0 touches all pages of an object first, threads 1 and 2 then go through a half each, twice; another object is
 * touched first by who uses it. */
static void test_touched(void **state)
{
    (void)state;
    enum { PAGES = 256, HALF = PAGES / 2 }; /* more than one for each slot */
    struct cache_config config;
    assert_int_equal(cache_parse("4K/64/2", &config), 0);
    struct spy *s = spy_new(
        &(struct spy_options){.configs = &config, .config_count = 1, .has_threads = true, .find_whose = by_megabyte});
    struct spy_site sites[] = {{.address = 1, .bytes = 8, .kind = CACHE_WRITE}, {.address = 2, .bytes = 8}};
    spy_add_sites(s, sites, 2);
    for (uint64_t p = 0; p < PAGES; p++)
        for (uint64_t word = 0; word < 4096; word += 512)
            spy_reference(s, 0, 0, (1 << 20) + p * 4096 + word, 0);
    for (int round = 0; round < 2; round++)
        for (uint64_t p = 0; p < PAGES; p++) {
            spy_reference(s, p < HALF ? 1 : 2, 1, (1 << 20) + p * 4096, 0);
            spy_reference(s, 1, 1, (2 << 20) + p * 4096, 0);
        }
    spy_end(s);
    size_t count, cells;
    const struct spy_touched *t = spy_touched(s, &count);
    assert_int_equal(count, 2);
    assert_int_equal(t[0].object, 1);
    assert_int_equal(t[0].visits, 3 * PAGES);
    assert_int_equal(t[0].elsewhere, 2 * PAGES);
    assert_int_equal(t[0].usual, 2 * PAGES);
    assert_int_equal(spy_cells(s, &cells)[t[0].cell].site, 0);
    assert_true(t[0].votes > 0);
    assert_int_equal(t[1].visits, 2 * PAGES);
    assert_int_equal(t[1].elsewhere, 0);
    spy_free(s);
}

/* What a site that keeps the last lines of each place leaves out, and tells instead (wire/stream.h). */
struct kept {
    unsigned lines;
    uint64_t line[SPY_FILTER_SLOTS][SPY_LAST_LINES]; /* the last one first, and 1 */
    bool written[SPY_FILTER_SLOTS][SPY_LAST_LINES];
    uint32_t order[SPY_FILTER_SLOTS];
    uint64_t told;
};
#define AS_TOLD 0x76543210u

/* Brings it to the front. Returns which one it was; f->lines: none of them. */
static unsigned bring(struct kept *f, uint64_t line, bool *written)
{
    uint64_t *l = f->line[line % SPY_FILTER_SLOTS];
    bool *w = f->written[line % SPY_FILTER_SLOTS];
    unsigned at = 0;
    while (at < f->lines && l[at] != line + 1)
        at++;
    *written = at < f->lines && w[at];
    for (unsigned i = at < f->lines ? at : f->lines - 1; i; i--) {
        l[i] = l[i - 1];
        w[i] = w[i - 1];
    }
    l[0] = line + 1;
    w[0] = *written;
    return at;
}

static void tell_order(struct kept *f, struct spy *s, uint32_t place)
{
    if (f->order[place] != AS_TOLD)
        spy_ordered(s, 0, place, f->order[place]);
    f->order[place] = AS_TOLD;
}

/* Need it be told? */
static bool come(struct kept *f, struct spy *s, uint64_t line, bool stores, bool may_pass)
{
    uint32_t place = (uint32_t)(line % SPY_FILTER_SLOTS);
    bool written;
    unsigned at = bring(f, line, &written);
    f->written[place][0] |= stores;
    if (!may_pass || at == f->lines || (stores && !written)) {
        tell_order(f, s, place);
        return true;
    }
    uint32_t o = f->order[place], below = (1u << 4 * at) - 1;
    uint32_t above = at == SPY_LAST_LINES - 1 ? 0 : ~0u << 4 * (at + 1);
    f->order[place] = (o & above) | (o & below) << 4 | (o >> 4 * at & 15);
    return false;
}

static void forget(struct kept *f, struct spy *s)
{
    for (uint32_t i = 0; i < SPY_FILTER_SLOTS; i++)
        tell_order(f, s, i);
    memset(f->line, 0, sizeof f->line);
}

static void refer(struct kept *f, struct spy *s, uint32_t site, uint64_t address)
{
    const struct spy_site *of = spy_site(s, site);
    uint64_t line = address / 64, last = (address + of->bytes - 1) / 64;
    bool stores = of->kind == CACHE_WRITE;
    if (!come(f, s, line, stores, line == last))
        return;
    if (line != last)
        come(f, s, last, stores, false);
    f->told++;
    spy_reference(s, 0, site, address, 0);
}

/* As many misses and lines written back behind a filter that keeps so many lines of each place, of caches that have
 * these whatever comes. Returns how many were told. */
enum { KEPT_CONFIGS = 4 };
static uint64_t same_behind(unsigned lines, const char *const specs[KEPT_CONFIGS])
{
    enum { LINES = 1024, NEAR = 640, CONFIGS = KEPT_CONFIGS };
    struct cache_config configs[CONFIGS];
    for (size_t i = 0; i < CONFIGS; i++)
        assert_int_equal(cache_parse(specs[i], &configs[i]), 0);
    struct spy *all = make(configs, CONFIGS), *some = spy_new(&(struct spy_options){.configs = configs,
                                                                                    .config_count = CONFIGS,
                                                                                    .curve_line = 64,
                                                                                    .curve_least = 4096,
                                                                                    .curve_bytes = 1 << 20,
                                                                                    .filter_shift = 6,
                                                                                    .find_whose = find_whose});
    for (uint32_t i = 0; i < SITES; i++)
        spy_add_sites(some, spy_site(all, i), 1);
    struct kept f = {.lines = lines};
    for (unsigned i = 0; i < SPY_FILTER_SLOTS; i++)
        f.order[i] = AS_TOLD;
    uint64_t seed = 5, near = 0;
    for (int i = 0; i < REFERENCES; i++) {
        uint32_t site = (uint32_t)(random_next(&seed) % SITES);
        if (random_next(&seed) % 50 == 0)
            near = random_next(&seed) % LINES;
        uint64_t line = random_next(&seed) % 6 ? near + random_next(&seed) % 4 * 64 : near + random_next(&seed) % NEAR;
        uint64_t at = line * 64 + random_next(&seed) % 64;
        at = random_next(&seed) % 8 ? at & -(uint64_t)spy_site(all, site)->bytes : at;
        if (i % 1000 == 999) { /* as sites of string instructions do */
            forget(&f, some);
            spy_reference(some, 0, site, at, 1000);
            spy_reference(all, 0, site, at, 1000);
            continue;
        }
        refer(&f, some, site, at);
        spy_reference(all, 0, site, at, 0);
    }
    spy_end(all);
    spy_end(some);
    for (size_t i = 0; i < CONFIGS; i++)
        for (unsigned level = 0; level < configs[i].count; level++) {
            const struct cache_counts *a = cache_counts(spy_cache(all, i), level);
            const struct cache_counts *b = cache_counts(spy_cache(some, i), level);
            assert_int_equal(a->misses[CACHE_READ], b->misses[CACHE_READ]);
            assert_int_equal(a->misses[CACHE_WRITE], b->misses[CACHE_WRITE]);
            assert_int_equal(a->write_backs, b->write_backs);
        }
    spy_free(all);
    spy_free(some);
    return f.told;
}

static void test_last_lines(void **state)
{
    (void)state;
    static const char *const two[KEPT_CONFIGS] = {"8K/64/2+64K/64/8", "16K/64/4:plru+32K/64/8:plru",
                                                  "8K/64/2:plru+16K/64/4:exclusive", "32K/64/8+64K/64/8:streams"};
    static const char *const three[KEPT_CONFIGS] = {"12K/64/3+64K/64/8", "16K/64/4:plru+32K/64/8:plru",
                                                    "32K/64/4:plru+64K/64/4:exclusive", "32K/64/8+64K/64/8:streams"};
    static const char *const four[KEPT_CONFIGS] = {"16K/64/4+64K/64/8", "32K/64/8:plru+32K/64/8:plru",
                                                   "64K/64/8:plru+128K/64/4:exclusive", "32K/64/8+64K/64/8:streams"};
    static const char *const eight[KEPT_CONFIGS] = {"32K/64/8+64K/64/8", "48K/64/12+128K/64/8:plru",
                                                    "64K/64/8+32K/64/8:exclusive", "64K/64/16+64K/64/8:streams"};
    uint64_t of_two = same_behind(2, two), of_eight = same_behind(8, eight);
    same_behind(3, three);
    same_behind(4, four);
    assert_true(of_eight < of_two && of_two < REFERENCES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_alone), cmocka_unit_test(test_ranges),  cmocka_unit_test(test_strides),
        cmocka_unit_test(test_pictures),      cmocka_unit_test(test_strays),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_absorb),        cmocka_unit_test(test_touched), cmocka_unit_test(test_last_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
