/* SPDX-License-Identifier: Apache-2.0
 * The filter among threads (rt/rt_lines.S) in the code that programs execute: one order of references of several
 * threads through caches, whole, and without what their filters hold, to the miss, its causes, and the lines that they
 * take from each other. One thread plays all, each with the base of gs that it would have. */
#include "cache/cache.h"
#include "rewrite/impl.h"
#include "wire/stream.h"

#include <asm/prctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* Of a thread. With as many ways the fully associative cache that tells capacity from conflict, and which the filter
 * keeps in another order, holds whatever the nearest level does. */
enum { LINES_A_PLACE = 8 };
enum { THREADS = 6, CELLS = 3, REFERENCES = 6000, ROUNDS = 150, PIECES_MAX = 64, PAGE_BYTES = 4096 };
#define FLAG_DOWN 0x400ull

static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* ---- the runtime ---- */

static struct rw runtime;

static void *map_at(uint64_t at, uint64_t bytes, int prot)
{
    void *m = mmap((void *)(uintptr_t)at, bytes, prot | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    assert_true(m != MAP_FAILED && (!at || m == (void *)(uintptr_t)at));
    return m;
}

/* Base of gs: how far the thread's stream is from the first one's; where the address sanitizer has no memory of its
 * own. */
static uint64_t distance(unsigned thread) { return thread ? (24ull << 40) + ((uint64_t)thread << 30) : 0; }

static struct wire_stream *stream_of(unsigned thread)
{
    return (struct wire_stream *)(uintptr_t)(WIRE_STREAM_VADDR + distance(thread));
}

static int set_up(void **ctx)
{
    size_t len;
    unsigned config;
    (void)ctx;
    const uint8_t *blob = rw_blob_bytes_of(&len, &config);
    uint8_t *code = map_at(0, ALIGN_UP(len, (size_t)PAGE_BYTES), PROT_READ);
    memcpy(code, blob, len);
    assert_int_equal(mprotect(code, ALIGN_UP(len, (size_t)PAGE_BYTES), PROT_READ | PROT_EXEC), 0);
    runtime.text_vaddr = (uint64_t)(uintptr_t)code;
    map_at(WIRE_LINES_VADDR - WIRE_LINES_STREAMS_BYTES, WIRE_LINES_STREAMS_BYTES + WIRE_LINES_BYTES, PROT_READ);
    for (unsigned t = 0; t < THREADS; t++)
        map_at(WIRE_STREAM_VADDR + distance(t), WIRE_STREAM_HEAD, PROT_READ);
    return 0;
}

static void begin(unsigned threads)
{
    uint64_t *streams = (uint64_t *)(uintptr_t)(WIRE_LINES_VADDR - WIRE_LINES_STREAMS_BYTES);
    madvise(streams, WIRE_LINES_STREAMS_BYTES + WIRE_LINES_BYTES, MADV_DONTNEED);
    for (unsigned t = 0; t < threads; t++) {
        memset(stream_of(t), 0, sizeof *stream_of(t));
        stream_of(t)->own = 1ull << t;
        streams[t] = (uint64_t)(uintptr_t)stream_of(t);
    }
}

/* As a site does: what it says below the stack pointer, flags at it. */
static void call(unsigned thread, uint64_t entrance, uint64_t line, uint64_t says, uint64_t count, uint64_t flags)
{
    assert_int_equal(syscall(SYS_arch_prctl, ARCH_SET_GS, distance(thread)), 0);
    __asm__ volatile("lea -264(%%rsp), %%rsp\n\t"
                     "mov %1, -64(%%rsp)\n\t"
                     "mov %2, -72(%%rsp)\n\t"
                     "mov %3, (%%rsp)\n\t"
                     "call *%0\n\t"
                     "lea 264(%%rsp), %%rsp"
                     :
                     : "r"(entrance), "r"(line), "r"(says), "r"(flags), "c"(count)
                     : "memory", "cc");
    syscall(SYS_arch_prctl, ARCH_SET_GS, 0ul);
}

/* ---- references ---- */

struct reference {
    struct cache_ref ref;
    uint64_t bytes; /* of all; as pieces of lines where they are more than the reference's */
    bool is_range, goes_down;
};
struct stream {
    VEC(struct cache_ref) whole, told;
};

static uint64_t last_byte(const struct reference *r) { return r->ref.address + r->bytes - 1; }

/* What the code of a site does (reference_code.c). */
static bool is_told(const struct reference *r, unsigned shift)
{
    struct wire_stream *s = stream_of(r->ref.thread);
    bool stores = r->ref.kind != CACHE_READ;
    uint64_t first = r->ref.address >> shift, last = last_byte(r) >> shift;
    uint64_t says = (uint64_t)stores << WIRE_LINES_STORES | (uint64_t)shift << WIRE_LINES_SHIFT;
    if (r->is_range) {
        uint64_t at = r->goes_down ? last_byte(r) - 3 : r->ref.address;
        call(r->ref.thread, rw_blob_lines_range(&runtime), at, says | 4, r->bytes / 4, r->goes_down ? FLAG_DOWN : 0);
    } else if (r->bytes > 1u << shift) {
        call(r->ref.thread, rw_blob_lines_reach(&runtime), r->ref.address, says | r->bytes, 0, 0);
    } else if (first == last && (stores ? s->written : s->touched)[first % WIRE_FILTER_SLOTS] == first) {
        return false;
    } else {
        for (uint64_t line = first; line <= last; line++)
            call(r->ref.thread, rw_blob_line(&runtime, stores), line, 0, 0, 0);
    }
    return true;
}

static void add(struct stream *s, const struct reference *r, unsigned shift)
{
    bool told = is_told(r, shift);
    uint64_t end = r->ref.address + r->bytes, next;
    for (uint64_t at = r->ref.address; at < end; at = next) {
        struct cache_ref piece = r->ref;
        bool is_piece = r->is_range || r->bytes > 1u << shift;
        next = is_piece ? min_u64(end, (at | ((1u << shift) - 1)) + 1) : end;
        piece.address = at;
        piece.bytes = (uint16_t)(next - at);
        VEC_PUSH(&s->whole, piece);
        if (told)
            VEC_PUSH(&s->told, piece);
    }
}

/* Lines of one thread's own, of some, of all; most where the thread was last; now and then they change hands. */
static void random_reference(struct reference *r, unsigned threads, unsigned shift)
{
    static uint64_t lately[THREADS] = {WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS,
                                       WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS};
    unsigned thread = (unsigned)chance(threads);
    uint64_t line = lately[thread], lines = WIRE_FILTER_SLOTS; /* line 0 is nobody's */
    if (!chance(3))
        line = chance(3) ? (1 + thread + (chance(40) == 0)) * 5 * lines + chance(3 * lines) : lines + chance(2 * lines);
    if (!chance(60))
        line = WIRE_LINES + lines + chance(8); /* shares words with the first */
    lately[thread] = line;
    *r = (struct reference){.ref = {.thread = (uint8_t)thread, .cell = (uint32_t)chance(CELLS)}};
    r->ref.kind = chance(line < 3 * lines ? 12 : 3) ? CACHE_READ : CACHE_WRITE;
    r->bytes = 1ull << chance(4);
    r->ref.address = (line << shift) + chance(1u << shift) / r->bytes * r->bytes + (chance(9) == 0);
    r->is_range = !chance(200);
    if (r->is_range)
        r->bytes = 4 * (1 + chance(PIECES_MAX));
    else if (!chance(200))
        r->bytes = (1u << shift) + 1 + chance(1u << shift);
    r->goes_down = r->is_range && chance(2);
}

/* ---- the simulation of both ---- */

static void random_config(struct cache_config *k, unsigned shift)
{
    uint32_t line = 1u << shift, ways = 1u << chance(5);
    *k = (struct cache_config){.count = 1 + (unsigned)chance(3)};
    for (unsigned i = 0; i < k->count; i++) {
        k->levels[i] = (struct cache_level){.line_bytes = line,
                                            .ways = ways << (i ? chance(2) : 0),
                                            .seed = 1 + chance(9),
                                            .side = CACHE_DATA,
                                            .policy = (enum cache_policy)chance(CACHE_POLICY_COUNT),
                                            .is_shared = i == 2 || (i == 1 && k->count == 2 && chance(2))};
        k->levels[i].size_bytes = (uint64_t)k->levels[i].ways * line * (i && chance(2) ? 32u : 64u);
        k->levels[i].inclusion = i && !chance(3) ? CACHE_EXCLUSIVE : CACHE_NEITHER;
    }
}

static uint64_t sharing(const struct cache_counts *c, enum cache_kind kind)
{
    return c->causes[kind][CACHE_TRUE_SHARING] + c->causes[kind][CACHE_FALSE_SHARING];
}

static void same_level(const struct cache *whole, const struct cache *told, unsigned level, bool with_causes,
                       uint64_t *shared)
{
    const struct cache_counts *w = cache_counts(whole, level), *t = cache_counts(told, level);
    assert_int_equal(w->write_backs, t->write_backs);
    for (unsigned kind = CACHE_READ; kind <= CACHE_WRITE; kind++) {
        assert_int_equal(w->misses[kind], t->misses[kind]);
        for (unsigned cause = 0; with_causes && cause < CACHE_CAUSE_COUNT; cause++)
            assert_int_equal(w->causes[kind][cause], t->causes[kind][cause]);
        *shared += sharing(w, (enum cache_kind)kind);
    }
}

static void same_lines(const struct cache *whole, const struct cache *told)
{
    struct arena *a = arena_new();
    size_t count, other;
    const struct cache_shared_line *w = cache_shared_lines(whole, a, SIZE_MAX, &count),
                                   *t = cache_shared_lines(told, a, SIZE_MAX, &other);
    assert_int_equal(count, other);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(w[i].address, t[i].address);
        assert_int_equal(w[i].true_misses, t[i].true_misses);
        assert_int_equal(w[i].false_misses, t[i].false_misses);
        assert_int_equal(w[i].unlisted, t[i].unlisted);
        assert_int_equal(w[i].side_count, t[i].side_count);
        assert_memory_equal(w[i].sides, t[i].sides, w[i].side_count * sizeof *w[i].sides);
    }
    arena_free(a);
}

static void agrees_to_the_miss(void **ctx)
{
    uint64_t shared = 0, whole_count = 0, told_count = 0;
    (void)ctx;
    for (unsigned round = 0; round < ROUNDS; round++) {
        state = round + 1;
        unsigned shift = 5 + (unsigned)chance(3), threads = 2 + (unsigned)chance(THREADS - 1);
        struct cache_config config;
        struct stream s = {0};
        struct reference r;
        random_config(&config, shift);
        bool has_all = config.levels[0].ways >= LINES_A_PLACE;
        begin(threads);
        for (unsigned i = 0; i < REFERENCES; i++) {
            random_reference(&r, threads, shift);
            add(&s, &r, shift);
        }
        struct cache *whole = cache_new(&config, true), *told = cache_new(&config, true);
        cache_run(whole, s.whole.data, s.whole.len);
        cache_run(told, s.told.data, s.told.len);
        for (unsigned level = 0; level < config.count; level++)
            same_level(whole, told, level, has_all, &shared);
        if (has_all)
            same_lines(whole, told);
        whole_count += s.whole.len;
        told_count += s.told.len;
        cache_free(whole);
        cache_free(told);
        VEC_FREE(&s.whole);
        VEC_FREE(&s.told);
    }
    assert_true(shared > 20 * ROUNDS);
    assert_true(told_count < whole_count * 2 / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_to_the_miss)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
