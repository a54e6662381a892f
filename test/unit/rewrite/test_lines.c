/* SPDX-License-Identifier: Apache-2.0
 * The filter of one thread (rt/rt_last.S) and among threads (rt/rt_lines.S) in the code that programs execute: one
 * order of references of several threads through caches, whole, and without what their filters hold, to the miss, its
 * causes, and the lines that they take from each other. One thread plays all, each with the base of gs that it would
 * have. */
#include "cache/cache.h"
#include "rewrite/impl.h"
#include "wire/stream.h"

#include <asm/prctl.h>
#include <pthread.h>
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
enum { THREADS = 6, CELLS = 3, REFERENCES = 6000, PIECES_MAX = 64, PAGE_BYTES = 4096, HANDED_EACH = 700 };
#ifdef __SANITIZE_ADDRESS__
enum { ROUNDS = 40 }; /* what sanitizers find needs no more of the same */
#else
enum { ROUNDS = 150 };
#endif
#define FLAG_DOWN 0x400ull

static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* ---- the runtime ---- */

static struct rw runtime;
static uint64_t *config_flags; /* of the runtime's configuration */
enum { CONFIG_FLAGS = 16 };

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

static struct wire_paths *paths_of(unsigned thread)
{
    return (struct wire_paths *)(uintptr_t)(WIRE_STREAM_VADDR + distance(thread) + WIRE_STREAM_PATHS);
}

static uint64_t *streams(void) { return (uint64_t *)(uintptr_t)(WIRE_LINES_VADDR - WIRE_LINES_STREAMS_BYTES); }
static uint64_t *lives(void) { return &streams()[WIRE_LINES_THREADS]; }

static int set_up(void **ctx)
{
    size_t len;
    unsigned config;
    (void)ctx;
    const uint8_t *blob = rw_blob_bytes_of(&len, &config);
    uint8_t *code = map_at(0, ALIGN_UP(len, (size_t)PAGE_BYTES), PROT_READ);
    memcpy(code, blob, len);
    assert_int_equal(mprotect(code, ALIGN_UP(len, (size_t)PAGE_BYTES), PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    config_flags = (uint64_t *)(code + config + CONFIG_FLAGS);
    runtime.text_vaddr = (uint64_t)(uintptr_t)code;
    map_at(WIRE_LINES_VADDR - WIRE_LINES_STREAMS_BYTES, WIRE_LINES_STREAMS_BYTES + WIRE_LINES_BYTES, PROT_READ);
    for (unsigned t = 0; t < THREADS; t++)
        map_at(WIRE_STREAM_VADDR + distance(t), WIRE_STREAM_BYTES, PROT_READ);
    return 0;
}

#define EVENTS (WIRE_STREAM_VADDR + ALIGN_UP(sizeof(struct wire_stream), (uint64_t)64)) /* where they are told */

static uint8_t number_of[THREADS]; /* of the thread that has the stream */
static unsigned numbers;

/* The stream is a new thread's; the one that had it is gone. As stream.c does it. */
static void begin_thread(unsigned t)
{
    uint64_t gone = stream_of(t)->own, own = 1ull << numbers, filled = stream_of(t)->filled;
    memset(stream_of(t), 0, sizeof *stream_of(t));
    streams()[numbers] = (uint64_t)(uintptr_t)stream_of(t);
    *lives() = (*lives() & ~gone) | own;
    stream_of(t)->own = own;
    stream_of(t)->is_confined = 1; /* no pauses are told */
    stream_of(t)->put = stream_of(t)->start = EVENTS;
    stream_of(t)->thread = numbers;
    stream_of(t)->filled = filled;
    number_of[t] = (uint8_t)numbers++;
}

/* Of one thread the filter is what programs without threads have. */
static void begin(unsigned threads, unsigned kept, unsigned shift)
{
    *config_flags =
        (threads > 1 ? RW_RUNTIME_LINES : 0) | kept << RW_RUNTIME_LAST_SHIFT | shift << RW_RUNTIME_SHIFT_SHIFT;
    madvise((void *)(uintptr_t)(WIRE_LINES_VADDR - WIRE_LINES_STREAMS_BYTES),
            WIRE_LINES_STREAMS_BYTES + WIRE_LINES_BYTES, MADV_DONTNEED);
    numbers = 0;
    *lives() = WIRE_LINES_OTHERS;
    for (unsigned t = 0; t < threads; t++) {
        madvise(paths_of(t), WIRE_STREAM_BYTES - WIRE_STREAM_PATHS, MADV_DONTNEED);
        memset(stream_of(t), 0, sizeof *stream_of(t));
        begin_thread(t);
    }
}

/* As a site does: what it says below the stack pointer, flags at it. Returns ZF. */
static bool call_own(uint64_t entrance, uint64_t line, uint64_t says, uint64_t count, uint64_t flags)
{
    bool zero;
    __asm__ volatile("lea -264(%%rsp), %%rsp\n\t"
                     "mov %2, -64(%%rsp)\n\t"
                     "mov %3, -72(%%rsp)\n\t"
                     "mov %4, (%%rsp)\n\t"
                     "call *%1\n\t"
                     "lea 264(%%rsp), %%rsp"
                     : "=@ccz"(zero)
                     : "r"(entrance), "r"(line), "r"(says), "r"(flags), "c"(count)
                     : "memory");
    return zero;
}

static bool call(unsigned thread, uint64_t entrance, uint64_t line, uint64_t says, uint64_t count, uint64_t flags)
{
    static unsigned last; /* nobody else uses gs, which is 0 at first */
    if (thread != last)
        assert_int_equal(syscall(SYS_arch_prctl, ARCH_SET_GS, distance(thread)), 0);
    last = thread;
    return call_own(entrance, line, says, count, flags);
}

/* ---- references ---- */

struct reference {
    struct cache_ref ref;
    uint64_t bytes; /* of all; as pieces of lines where they are more than the reference's */
    bool is_range, goes_down;
};
struct stream {
    unsigned shift, threads;
    unsigned kept; /* sites leave out what changes the order of so many last lines of a place alone */
    VEC(struct cache_ref) whole, told;
    uint64_t told_count;
    size_t simulated; /* of those that were told */
    struct cache *of_told;
    uint64_t last[WIRE_LINES_THREADS][WIRE_FILTER_SLOTS][WIRE_LAST_LINES]; /* that were told, by the thread's number */
};

static uint64_t last_byte(const struct reference *r) { return r->ref.address + r->bytes - 1; }

/* A reference to one line (reference_code.c). */
static bool passes(const struct reference *r, uint64_t line, const struct stream *to)
{
    const struct wire_slot *place = &stream_of(r->ref.thread)->places[line % WIRE_FILTER_SLOTS];
    bool stores = r->ref.kind != CACHE_READ, has_several = to->kept > 1;
    if (r->ref.address - (stores ? place->written : place->touched) <= (1u << to->shift) - r->bytes)
        return true;
    enum rw_line how = has_several ? RW_LINE_MAY_PASS : RW_LINE_TOLD;
    return call(r->ref.thread, rw_blob_line(&runtime, how, stores), line << to->shift, 0, 0, 0) && has_several;
}

/* What the host does now and then (cmd/spy/simulated.c). */
static struct cache_lost lost;

static void simulate(struct stream *s)
{
    cache_run(s->of_told, s->told.data + s->simulated, s->told.len - s->simulated);
    s->simulated = s->told.len;
    memcpy((void *)(uintptr_t)(WIRE_STREAM_VADDR + WIRE_STREAM_LOST), lost.lost, sizeof lost.lost);
    memcpy((void *)(uintptr_t)(WIRE_STREAM_VADDR + WIRE_STREAM_MISSED), lost.missed, sizeof lost.missed);
    for (unsigned t = 0; t < s->threads; t++)
        paths_of(t)->simulated = wire_position(stream_of(t)->filled, 0);
}

/* What the code of a site does. */
static bool is_told(const struct reference *r, const struct stream *to)
{
    unsigned shift = to->shift;
    bool stores = r->ref.kind != CACHE_READ;
    uint64_t first = r->ref.address >> shift, last = last_byte(r) >> shift;
    uint64_t says = (uint64_t)stores << WIRE_LINES_STORES | (uint64_t)shift << WIRE_LINES_SHIFT;
    if (r->is_range) {
        uint64_t at = r->goes_down ? last_byte(r) - 3 : r->ref.address;
        says |= (uint64_t)(to->kept > 1 && !chance(2)) << WIRE_LINES_MAY_PASS;
        return !call(r->ref.thread, rw_blob_lines_range(&runtime), at, says | 4, r->bytes / 4,
                     r->goes_down ? FLAG_DOWN : 0) ||
               !(says >> WIRE_LINES_MAY_PASS & 1);
    } else if (r->bytes > 1u << shift && to->threads == 1) {
        call(r->ref.thread, rw_blob_forget_lines(&runtime), 0, 0, 0, 0);
    } else if (r->bytes > 1u << shift) {
        call(r->ref.thread, rw_blob_lines_reach(&runtime), r->ref.address, says | r->bytes, 0, 0);
    } else if (first == last) {
        return !passes(r, first, to);
    } else if (to->kept > 1) {
        return !call(r->ref.thread, rw_blob_line(&runtime, RW_LINE_BOTH, stores), first << shift, 0, 0, 0);
    } else {
        call(r->ref.thread, rw_blob_line(&runtime, RW_LINE_TOLD, stores), first << shift, 0, 0, 0);
        call(r->ref.thread, rw_blob_line(&runtime, RW_LINE_TOLD, stores), last << shift, 0, 0, 0);
    }
    return true;
}

/* What reads the stream does (spy/spy.c). */
static void reorder(struct stream *s, uint8_t thread, uint64_t place, uint32_t order)
{
    uint64_t *last = s->last[thread][place], before[WIRE_LAST_LINES];
    memcpy(before, last, sizeof before);
    for (unsigned i = 0; i < WIRE_LAST_LINES; i++) {
        unsigned from = order >> 4 * i & 15;
        assert_true(from < (from == i ? WIRE_LAST_LINES : s->kept));
        assert_true(from == i || before[from]);
        last[i] = before[from];
    }
    for (unsigned i = WIRE_LAST_LINES; i--;)
        if (last[i])
            VEC_PUSH(&s->told, ((struct cache_ref){
                                   .address = last[i] << s->shift, .bytes = 1, .kind = CACHE_USE, .thread = thread}));
}

static void tell(struct stream *s, const struct cache_ref *r)
{
    uint64_t line = r->address >> s->shift, end = (r->address + r->bytes - 1) >> s->shift;
    for (; line <= end; line++) {
        uint64_t *last = s->last[r->thread][line % WIRE_FILTER_SLOTS];
        unsigned at = 0;
        while (at < WIRE_LAST_LINES - 1 && last[at] != line)
            at++;
        memmove(last + 1, last, at * sizeof *last);
        last[0] = line;
    }
    VEC_PUSH(&s->told, *r);
    s->told_count++;
}

/* How places stand is told before the reference. */
static void take_events(struct stream *s, unsigned t)
{
    struct wire_stream *w = stream_of(t);
    const struct wire_entry *e = (const struct wire_entry *)(uintptr_t)(EVENTS + distance(t));
    uint64_t count = (w->put - EVENTS) / sizeof *e;
    assert_true(s->kept > 1 || !count);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(wire_event_kind(&e[i]), WIRE_EVENT_ORDER);
        reorder(s, number_of[t], e[i].module, e[i].site);
    }
    w->put = EVENTS;
}

static void add(struct stream *s, const struct reference *r)
{
    unsigned shift = s->shift;
    bool told = is_told(r, s);
    take_events(s, r->ref.thread);
    stream_of(r->ref.thread)->filled += told; /* as if a chunk had room for one */
    uint64_t end = r->ref.address + r->bytes, next;
    for (uint64_t at = r->ref.address; at < end; at = next) {
        struct cache_ref piece = r->ref;
        bool is_piece = r->is_range || r->bytes > 1u << shift;
        next = is_piece ? min_u64(end, (at | ((1u << shift) - 1)) + 1) : end;
        piece.thread = number_of[r->ref.thread];
        piece.address = at;
        piece.bytes = (uint16_t)(next - at);
        VEC_PUSH(&s->whole, piece);
        if (told)
            tell(s, &piece);
    }
}

/* Lines of one thread's own, of some, of all; most where the thread was last; now and then they change hands, and some
 * all of them do at once. */
static void random_reference(struct reference *r, unsigned threads, unsigned shift, unsigned nth, bool shares)
{
    static uint64_t lately[THREADS] = {WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS,
                                       WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS, WIRE_FILTER_SLOTS};
    unsigned thread = (unsigned)chance(threads);
    uint64_t line = lately[thread], lines = WIRE_FILTER_SLOTS; /* line 0 is nobody's */
    if (!chance(3))
        line = chance(3) ? (1 + thread + (chance(40) == 0)) * 5 * lines + chance(3 * lines) : lines + chance(2 * lines);
    if (!chance(60))
        line = (shares ? WIRE_LINES : 0) + lines + chance(8); /* shares words with the first */
    if (!chance(4)) {
        thread = nth / HANDED_EACH % threads;
        line = 100 * lines + chance(2 * lines);
    }
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

static void random_config(struct cache_config *k, const struct stream *s)
{
    uint32_t line = 1u << s->shift, ways = s->kept > 1 ? s->kept << chance(s->kept > 2 ? 2 : 4) : 1u << chance(5);
    *k = (struct cache_config){.count = 1 + (unsigned)chance(3)};
    for (unsigned i = 0; i < k->count; i++) {
        k->levels[i] = (struct cache_level){.line_bytes = line,
                                            .ways = ways << (i ? chance(2) : 0),
                                            .seed = 1 + chance(9),
                                            .side = CACHE_DATA,
                                            .policy = (enum cache_policy)chance(CACHE_POLICY_COUNT),
                                            .is_shared = i == 2 || (i == 1 && k->count == 2 && chance(2))};
        k->levels[i].size_bytes = (uint64_t)k->levels[i].ways * line * (i && chance(2) ? 32u : 64u);
        if (!i && s->kept > 1)
            k->levels[i].policy = CACHE_LRU;
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

/* says: the host says how far it is, behind so many references each; 0: never. most: threads. */
static uint64_t told_of_most(unsigned most, unsigned kept, unsigned says)
{
    uint64_t shared = 0, whole_count = 0, told_count = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        state = round + 1;
        unsigned shift = 5 + (unsigned)chance(3), threads = most > 1 ? 2 + (unsigned)chance(most - 1) : 1;
        struct cache_config config;
        struct stream s = {.shift = shift, .threads = threads, .kept = kept};
        struct reference r;
        random_config(&config, &s);
        bool has_all = config.levels[0].ways >= LINES_A_PLACE;
        begin(threads, kept, shift);
        memset(&lost, 0, sizeof lost);
        struct cache *whole = cache_new(&config, true), *told = s.of_told = cache_new(&config, true);
        cache_tell_lost(told, &lost);
        for (unsigned i = 0; i < REFERENCES; i++) {
            if (says && i % says == says - 1)
                simulate(&s);
            if (!chance(REFERENCES / 20) && threads > 1 && numbers < WIRE_LINES_THREADS)
                begin_thread((unsigned)chance(threads));
            random_reference(&r, threads, shift, i, !says);
            add(&s, &r);
        }
        cache_run(whole, s.whole.data, s.whole.len);
        simulate(&s);
        for (unsigned level = 0; level < config.count; level++)
            same_level(whole, told, level, has_all, &shared);
        if (has_all)
            same_lines(whole, told);
        whole_count += s.whole.len;
        told_count += s.told_count;
        cache_free(whole);
        cache_free(told);
        VEC_FREE(&s.whole);
        VEC_FREE(&s.told);
    }
    assert_true(most == 1 || shared > 20 * ROUNDS);
    assert_true(told_count < whole_count * 2 / 3);
    return told_count;
}

static uint64_t told_of_all(unsigned kept, unsigned says) { return told_of_most(THREADS, kept, says); }

static void one_thread_agrees_to_the_miss(void **ctx)
{
    (void)ctx;
    uint64_t two = told_of_most(1, 2, 0), eight = told_of_most(1, 8, 0);
    assert_true(eight < two);
    told_of_most(1, 5, 0);
}

static void agrees_to_the_miss(void **ctx)
{
    (void)ctx;
    uint64_t one = told_of_all(1, 0), two = told_of_all(2, 0), eight = told_of_all(8, 0);
    uint64_t one_said = told_of_all(1, 100), two_said = told_of_all(2, 100), eight_said = told_of_all(8, 100);
    assert_true(two < one && one_said < one && two_said < two && two_said < one_said);
    assert_true(eight < two && eight_said < eight && eight_said < two_said);
    assert_true(told_of_all(2, 1000) < two);
    told_of_all(5, 200);
}

/* ---- at the same time ---- */

enum { RACERS = 2, RACES = 20000, RACE_SHIFT = 6 };
static pthread_barrier_t together;

static const uint64_t *words(void) { return (const uint64_t *)(uintptr_t)WIRE_LINES_VADDR; }

/* Lines that nobody had before, two for each place of the filter, the first one twice, all threads at once. */
static void race(unsigned round, uint64_t *random)
{
    for (uint64_t i = 0; i < WIRE_FILTER_SLOTS; i++) {
        uint64_t line = (2 * round + 1) * (uint64_t)WIRE_FILTER_SLOTS + i;
        for (unsigned k = 0; k < 3; k++) {
            *random = *random * 6364136223846793005u + 1442695040888963407u;
            call_own(rw_blob_line(&runtime, RW_LINE_MAY_PASS, *random >> 61 == 0),
                     (line + k % 2 * WIRE_FILTER_SLOTS) << RACE_SHIFT, 0, 0, 0);
        }
    }
}

static uint64_t word_of(uint64_t begin) { return words()[(begin >> RACE_SHIFT) % WIRE_LINES]; }

static bool is_wrong(const struct wire_stream *s, uint64_t held, uint64_t written)
{
    return (held && word_of(held) >> 63) || (written && (written != held || word_of(written) != s->own));
}

/* What may pass in line, and what may pass among the last ones, if they need not be looked up again. */
static uint64_t is_wrong_place(const struct wire_stream *s, unsigned k)
{
    const struct wire_slot *place = &s->places[k];
    uint64_t wrong = is_wrong(s, place->touched, place->written);
    for (unsigned i = 0; !place->taken && i < WIRE_LAST_LINES; i++) {
        uint64_t word = s->last[k][i], line = word & ~(WIRE_NOT_HELD | WIRE_IS_WRITTEN);
        wrong += !(word & WIRE_NOT_HELD) && is_wrong(s, line, word & WIRE_IS_WRITTEN ? line : 0);
    }
    return wrong;
}

/* What filters hold then their words allow. */
static uint64_t wrongly_held(void)
{
    uint64_t wrong = 0;
    for (unsigned t = 0; t < RACERS; t++) {
        const struct wire_stream *s = stream_of(t);
        for (unsigned k = 0; k < WIRE_FILTER_SLOTS; k++)
            wrong += is_wrong_place(s, k);
    }
    return wrong;
}

struct racer {
    pthread_t thread;
    unsigned number;
    uint64_t wrong;
};

static void *run_races(void *arg)
{
    struct racer *r = arg;
    uint64_t random = r->number;
    syscall(SYS_arch_prctl, ARCH_SET_GS, distance(r->number));
    for (unsigned round = 0; round < RACES; round++) {
        pthread_barrier_wait(&together);
        stream_of(r->number)->put = EVENTS; /* nobody reads */
        race(round, &random);
        pthread_barrier_wait(&together);
        if (r->number == 0)
            r->wrong += wrongly_held();
    }
    return NULL;
}

/* simulated: up to where the host has come with each. */
static void race_all(uint64_t simulated)
{
    struct racer racers[RACERS] = {{.number = 0}};
    begin(RACERS, 2, RACE_SHIFT);
    for (unsigned t = 0; t < RACERS; t++)
        paths_of(t)->simulated = simulated;
    pthread_barrier_init(&together, NULL, RACERS);
    for (unsigned t = 0; t < RACERS; t++) {
        racers[t].number = t;
        assert_int_equal(pthread_create(&racers[t].thread, NULL, run_races, &racers[t]), 0);
    }
    for (unsigned t = 0; t < RACERS; t++)
        pthread_join(racers[t].thread, NULL);
    pthread_barrier_destroy(&together);
    assert_int_equal(racers[0].wrong, 0);
}

static void holds_nothing_after_a_race(void **ctx)
{
    (void)ctx;
    race_all(0);
    race_all(1ull << 55);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread_agrees_to_the_miss),
                                       cmocka_unit_test(agrees_to_the_miss),
                                       cmocka_unit_test(holds_nothing_after_a_race)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
