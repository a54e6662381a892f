/* SPDX-License-Identifier: Apache-2.0
 * Paths to allocators that were put into the tree of an area (cmd/allocations/known_paths.c), and the code that
 * programs execute (rt_watched, rt/rt_entry.S), which looks for them there: on random stacks whose paths random rules
 * say. */
#include "cmd/allocations/known_paths.h"
#include "rewrite/impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { PAGE_BYTES = 4096, STACK_WORDS = 1024, BELOW = 512, ROUNDS = 30, CALLS = 4000, WORDS_MAX = 24, VALUES = 3 };
static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* ---- the runtime ---- */

static struct rw runtime;
static uint64_t stack[BELOW + STACK_WORDS + BELOW];
static uint64_t *top = stack + BELOW; /* where the stack pointer is when a function is entered */

static struct wire_stream *stream(void) { return (struct wire_stream *)(uintptr_t)WIRE_STREAM_VADDR; }
static struct wire_paths *paths(void)
{
    return (struct wire_paths *)(uintptr_t)(WIRE_STREAM_VADDR + WIRE_STREAM_PATHS);
}

static void *map_at(uint64_t at, uint64_t bytes)
{
    void *m = mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    assert_true(m != MAP_FAILED && (!at || m == (void *)(uintptr_t)at));
    return m;
}

static int set_up(void **ctx)
{
    size_t len;
    unsigned config;
    (void)ctx;
    const uint8_t *blob = rw_blob_bytes_of(&len, &config);
    uint8_t *code = map_at(0, ALIGN_UP(len, (size_t)PAGE_BYTES));
    memcpy(code, blob, len);
    assert_int_equal(mprotect(code, ALIGN_UP(len, (size_t)PAGE_BYTES), PROT_READ | PROT_EXEC), 0);
    runtime.text_vaddr = (uint64_t)(uintptr_t)code;
    map_at(WIRE_STREAM_VADDR, WIRE_STREAM_BYTES);
    return 0;
}

static void begin(void)
{
    struct wire_stream *s = stream();
    memset(s, 0, sizeof *s);
    memset(paths(), 0, sizeof *paths());
    s->is_alone = 1;
    s->is_confined = 1;
    s->copies = WIRE_CALL_STACK;
    s->stack_top = (uint64_t)(uintptr_t)(stack + ARRAY_LEN(stack));
}

/* As a site does, with the stack pointer where the function's return address is. */
static void run_site(const uint64_t *at, uint64_t rbp, uint32_t what, uint64_t rdi, uint64_t rax)
{
    uint64_t entrance = rw_blob_watched(&runtime);
    register uint64_t number __asm__("r8") = what;
    __asm__ volatile("lea -264(%%rsp), %%rsp\n\t"
                     "push %%rbp\n\t"
                     "mov %%rsp, %%rbx\n\t"
                     "mov %2, %%rsp\n\t"
                     "mov %3, %%rbp\n\t"
                     "lea -128(%%rsp), %%rsp\n\t"
                     "push %%rax\n\t"
                     "mov %%r8d, %%eax\n\t"
                     "call *%1\n\t"
                     "pop %%rax\n\t"
                     "mov %%rbx, %%rsp\n\t"
                     "pop %%rbp\n\t"
                     "lea 264(%%rsp), %%rsp"
                     : "+a"(rax)
                     : "c"(entrance), "S"(at), "d"(rbp), "D"(rdi), "r"(number)
                     : "rbx", "memory", "cc");
}

static const struct wire_entry *first_entry(void)
{
    return (const struct wire_entry *)(uintptr_t)(WIRE_STREAM_VADDR + WIRE_STREAM_RING);
}

static void begin_chunk(void)
{
    struct wire_stream *s = stream();
    s->start = s->put = WIRE_STREAM_VADDR + WIRE_STREAM_RING;
    s->limit = s->start + WIRE_CHUNK_BYTES - WIRE_CHUNK_SPARE;
}

/* What the call told; the path's number, 0 with a copy. */
static uint32_t told(const uint64_t *at, uint64_t rbp)
{
    struct wire_stream *s = stream();
    struct wire_call c;
    begin_chunk();
    s->open_count = 0;
    run_site(at, rbp, WIRE_CALL_OPENS | WIRE_CALL_ARGUMENTS, 0, 0);
    const struct wire_entry *e = first_entry();
    assert_true(wire_is_event(e) && wire_event_kind(e) == WIRE_EVENT_ENTER);
    assert_int_equal(s->put, s->start + (1 + wire_event_entries(e)) * sizeof *e);
    memcpy(&c, e + 1, sizeof c);
    assert_int_equal(c.stack, (uint64_t)(uintptr_t)at);
    assert_int_equal(c.frame, rbp);
    size_t copied = (wire_event_entries(e) - WIRE_CALL_ENTRIES) * sizeof *e;
    assert_true(c.path ? !copied : copied >= WIRE_CALL_NEAR);
    assert_memory_equal(e + 1 + WIRE_CALL_ENTRIES, at, copied);
    return (uint32_t)c.path;
}

/* ---- paths ---- */

struct rules { /* of a round: where one looks next, by all that was found so far */
    uint64_t seed;
    uint32_t far; /* words are up to there, in bytes */
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xff51afd7ed558ccdu;
    return h ^ h >> 29;
}

static uint64_t found_at(const struct data_path_word *w, const uint64_t *at, uint64_t rbp)
{
    uint64_t word = at[w->offset / 8], here = (uint64_t)(uintptr_t)at;
    return w->kind == DATA_WORD_IS ? word : (w->kind == DATA_WORD_LEADS ? word : rbp) - here;
}

static void find_path(const struct rules *r, const uint64_t *at, uint64_t rbp, struct data_path *out)
{
    uint64_t h = r->seed;
    struct data_path_word w = {DATA_WORD_IS, 0, 0};
    for (out->count = 0; out->count < WORDS_MAX;) {
        w.value = found_at(&w, at, rbp);
        out->words[out->count++] = w;
        h = mix(h, w.value);
        if ((h >> 40) % 7 == 0)
            break;
        w.kind = (h >> 48) % 5 == 0 ? DATA_WORD_LEADS : (h >> 48) % 5 == 1 ? DATA_WORD_RBP_LEADS : DATA_WORD_IS;
        w.offset = w.kind == DATA_WORD_RBP_LEADS ? 0 : 8 + (uint32_t)((h >> 8) % (r->far / 8 - 1) * 8);
    }
}

static bool are_same(const struct data_path *a, const struct data_path *b)
{
    return a->count == b->count && memcmp(a->words, b->words, a->count * sizeof *a->words) == 0;
}

/* From 1; 0: it is not among them. */
static uint32_t find_among(const struct data_path *all, uint32_t count, const struct data_path *p)
{
    for (uint32_t i = 0; i < count; i++)
        if (are_same(&all[i], p))
            return i + 1;
    return 0;
}

/* Words are one of few, or lead to one of few places. */
static void fill(const struct rules *r, uint64_t *at)
{
    for (uint32_t i = 0; i < r->far / 8; i++) {
        uint64_t value = mix(i, chance(VALUES) ? 0 : chance(VALUES));
        at[i] = value % 4 ? 0x7f0000000000 + value % (1 << 30) : (uint64_t)(uintptr_t)(at + value % 512);
    }
}

/* Each path is copied once, wherever the stack is, and known from then on. */
static void paths_are_known_again(void **ctx)
{
    static struct data_path all[CALLS];
    uint64_t again = 0, known = 0;
    (void)ctx;
    for (unsigned round = 0; round < ROUNDS; round++) {
        state = round + 1;
        struct rules r = {.seed = chance(1u << 30), .far = round % 3 ? 256 : WIRE_CALL_STACK / 2};
        uint32_t count = 0;
        begin();
        for (unsigned i = 0; i < CALLS; i++) {
            uint64_t *at = top + 2 * chance(64), rbp = (uint64_t)(uintptr_t)(at + chance(3));
            struct data_path path = {.count = 0};
            fill(&r, at);
            find_path(&r, at, rbp, &path);
            uint32_t number = find_among(all, count, &path);
            assert_int_equal(told(at, rbp), number);
            again += number != 0;
            if (number)
                continue;
            path.number = count + 1;
            all[count++] = path;
            known_paths_add(paths(), &path);
        }
        known += count;
    }
    assert_true(known > 100 * ROUNDS && again > (uint64_t)ROUNDS * CALLS / 10);
}

static struct data_path path_of(uint32_t number, uint32_t count, const uint64_t *values)
{
    struct data_path p = {.number = number, .count = count};
    for (uint32_t i = 0; i < count; i++)
        p.words[i] = (struct data_path_word){DATA_WORD_IS, 8 * i, values[i]};
    return p;
}

/* One that ends where another one goes on stands for what is not known only if it may. */
static void shorter_paths_stand_for_others_if_they_may(void **ctx)
{
    const uint64_t one[] = {5, 6, 7, 8};
    (void)ctx;
    begin();
    memset(stack, 0, sizeof stack);
    memcpy(top, one, sizeof one);
    struct data_path longer = path_of(1, 4, one), shorter = path_of(2, 2, one);
    known_paths_add(paths(), &longer);
    known_paths_add(paths(), &shorter);
    assert_int_equal(told(top, 0), 1);
    top[3] = 9;
    assert_int_equal(told(top, 0), 0);
    shorter.is_settled = true;
    known_paths_add(paths(), &shorter);
    assert_int_equal(told(top, 0), 2);
    top[2] = 9;
    assert_int_equal(told(top, 0), 2);
    top[1] = 9;
    assert_int_equal(told(top, 0), 0);
    memcpy(top, one, sizeof one);
    assert_int_equal(told(top, 0), 1);
}

/* A table that is full knows what it knew. */
static void there_is_room_for_so_many(void **ctx)
{
    (void)ctx;
    begin();
    memset(stack, 0, sizeof stack);
    uint64_t known = 0;
    for (uint64_t i = 1; i <= WIRE_PATH_NODES_MAX + 1000; i++) {
        struct data_path p = path_of((uint32_t)i, 1, &i);
        known_paths_add(paths(), &p);
    }
    for (uint64_t i = 1; i <= WIRE_PATH_NODES_MAX + 1000; i++) {
        top[0] = i;
        uint32_t number = told(top, 0);
        assert_true(number == 0 || number == i);
        known += number != 0;
    }
    assert_int_equal(paths()->places[WIRE_PATH_PLACES - 1].from, 0);
    assert_int_equal(known, paths()->count);
    assert_true(known <= WIRE_PATH_NODES_MAX && known > WIRE_PATH_NODES_MAX * 9 / 10);
}

/* ---- what is told of calls by known paths ---- */

enum { FUNCTION = 11, RETURNS = 1u << 31, ONE_ARGUMENT = WIRE_CALL_OPENS | FUNCTION };

static uint64_t place_of(const uint64_t *at) { return (uint64_t)(uintptr_t)at; }

/* The nth event of the chunk: of that kind, with so many entries, which come to `out`. */
static const struct wire_entry *event(unsigned nth, enum wire_event_kind kind, size_t entries, void *out)
{
    const struct wire_entry *e = first_entry(), *end = (const struct wire_entry *)(uintptr_t)stream()->put;
    for (; nth; nth--)
        e += 1 + wire_event_entries(e);
    assert_true(e < end && wire_is_event(e));
    assert_int_equal(wire_event_kind(e), kind);
    assert_int_equal(wire_event_entries(e), entries);
    memcpy(out, e + 1, entries * sizeof *e);
    return e;
}

static void begin_with_paths(bool is_alone)
{
    const uint64_t one = 5, two = 6;
    begin();
    stream()->is_alone = is_alone;
    stream()->begin = 77;
    memset(stack, 0, sizeof stack);
    struct data_path p = path_of(1, 1, &one), q = path_of(2, 1, &two);
    known_paths_add(paths(), &p);
    known_paths_add(paths(), &q);
    begin_chunk();
}

/* Entrance and return are one event, if nothing comes between. */
static void what_is_given_is_told_once(void **ctx)
{
    struct wire_given_alone alone;
    struct wire_given given;
    (void)ctx;
    begin_with_paths(true);
    for (unsigned i = 0; i < 3; i++) {
        top[0] = 5 + i % 2;
        run_site(top, 0, ONE_ARGUMENT, 100 + i, 0);
        assert_int_equal(stream()->put, stream()->start + i * 2 * sizeof(struct wire_entry));
        run_site(top, 0, ONE_ARGUMENT | RETURNS, 0, 4096 + i);
        const struct wire_entry *e = event(i, WIRE_EVENT_GIVEN, WIRE_GIVEN_ALONE_ENTRIES, &alone);
        assert_int_equal(e->site, (1 + i % 2) << 16 | FUNCTION);
        assert_int_equal(alone.address, 4096 + i);
        assert_int_equal(alone.argument, 100 + i);
        assert_int_equal(stream()->open_count, 0);
    }
    begin_with_paths(false);
    stream()->is_confined = 0;
    top[0] = 6;
    run_site(top, 0, ONE_ARGUMENT, 100, 0);
    run_site(top, 0, ONE_ARGUMENT | RETURNS, 0, 4096);
    const struct wire_entry *e = event(0, WIRE_EVENT_GIVEN, WIRE_GIVEN_ENTRIES, &given);
    assert_int_equal(e->site, 2 << 16 | FUNCTION);
    assert_int_equal(given.address, 4096);
    assert_int_equal(given.argument, 100);
    assert_int_equal(given.stack, place_of(top));
    assert_int_equal(given.open, 0);
    assert_true(given.time > 77);
}

/* What was kept is told in front of what comes between. */
static void calls_within_calls_are_told_apart(void **ctx)
{
    struct wire_short less;
    struct wire_given given;
    struct wire_least least;
    uint64_t *inner = top - 32;
    (void)ctx;
    begin_with_paths(true);
    top[0] = 5;
    inner[0] = 6;
    run_site(top, 0, ONE_ARGUMENT, 100, 0);
    run_site(inner, 0, ONE_ARGUMENT, 200, 0);
    const struct wire_entry *e = event(0, WIRE_EVENT_ENTER, WIRE_SHORT_ENTRIES, &less);
    assert_int_equal(e->site, FUNCTION);
    assert_int_equal(less.argument, 100);
    assert_int_equal(less.stack, place_of(top));
    assert_int_equal(less.time, 77);
    assert_int_equal(less.open, 1ull << WIRE_CALL_PATH_SHIFT);
    run_site(inner, 0, ONE_ARGUMENT | RETURNS, 0, 4096);
    e = event(1, WIRE_EVENT_GIVEN, WIRE_GIVEN_ENTRIES, &given);
    assert_int_equal(e->site, 2 << 16 | FUNCTION);
    assert_int_equal(given.address, 4096);
    assert_int_equal(given.argument, 200);
    assert_int_equal(given.open, place_of(top));
    assert_int_equal(given.time, 77);
    run_site(inner, 0, 0, 4096, 0);
    event(2, WIRE_EVENT_ENTER, WIRE_LEAST_ENTRIES, &least);
    assert_int_equal(least.argument, 4096);
    assert_int_equal(least.open, place_of(top));
    run_site(top, 0, ONE_ARGUMENT | RETURNS, 0, 8192);
    event(3, WIRE_EVENT_LEAVE, WIRE_SHORT_ENTRIES, &less);
    assert_int_equal(less.argument, 8192);
    assert_int_equal(less.open, place_of(top));
    assert_int_equal(stream()->open_count, 0);
}

/* A function that goes on as another one, at the same place of the stack; and one that left by an exception. */
static void what_does_not_return_is_told(void **ctx)
{
    struct wire_short less;
    (void)ctx;
    begin_with_paths(true);
    top[0] = 5;
    run_site(top, 0, ONE_ARGUMENT, 100, 0);
    run_site(top, 0, ONE_ARGUMENT | WIRE_CALL_JUMPS, 100, 0);
    run_site(top, 0, ONE_ARGUMENT + 1, 101, 0);
    run_site(top, 0, (ONE_ARGUMENT + 1) | RETURNS, 0, 4096);
    const struct wire_entry *e = event(0, WIRE_EVENT_ENTER, WIRE_SHORT_ENTRIES, &less);
    assert_int_equal(e->site, FUNCTION);
    e = event(1, WIRE_EVENT_ENTER, WIRE_SHORT_ENTRIES, &less);
    assert_int_equal(e->site, FUNCTION | WIRE_CALL_JUMPS);
    e = event(2, WIRE_EVENT_ENTER, WIRE_SHORT_ENTRIES, &less);
    assert_int_equal(e->site, FUNCTION + 1);
    assert_int_equal(less.open, 1ull << WIRE_CALL_PATH_SHIFT | place_of(top));
    event(3, WIRE_EVENT_LEAVE, WIRE_SHORT_ENTRIES, &less);
    begin_chunk();
    run_site(top, 0, ONE_ARGUMENT, 100, 0);
    top[32] = 6;
    run_site(top + 32, 0, ONE_ARGUMENT, 200, 0);
    event(0, WIRE_EVENT_ENTER, WIRE_SHORT_ENTRIES, &less);
    assert_int_equal(less.stack, place_of(top));
    assert_int_equal(stream()->open_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_known_again),
        cmocka_unit_test(shorter_paths_stand_for_others_if_they_may),
        cmocka_unit_test(there_is_room_for_so_many),
        cmocka_unit_test(what_is_given_is_told_once),
        cmocka_unit_test(calls_within_calls_are_told_apart),
        cmocka_unit_test(what_does_not_return_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
