/* SPDX-License-Identifier: Apache-2.0
 * Chunks of several threads in one order: by time, each thread's entries in their own, nothing cut that belongs
 * together, nothing lost. */
#include "cmd/spy/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the ones above it */

enum { THREADS = 3, CHUNKS = 300, ENTRIES = 20, TICKS = 1000 };

struct seen {
    uint64_t next[THREADS]; /* number of its next entry */
    uint64_t last;          /* when the last entry was made */
    uint64_t entries, late, payload;
};

/* Entry k of a thread is made at k * TICKS / ENTRIES; its address is k, its site the thread. */
static void take(void *ctx, const struct launch_chunk *piece)
{
    struct seen *s = ctx;
    for (size_t i = 0; i < piece->count; i++) {
        const struct wire_entry *e = &piece->entries[i];
        assert_int_equal(e->site, piece->thread);
        if (wire_is_event(e)) {
            assert_true(wire_event_entries(e) < piece->count - i);
            s->payload += wire_event_entries(e);
            for (uint32_t k = 0; k < wire_event_entries(e); k++)
                assert_int_equal(piece->entries[i + 1 + k].address, 77);
            s->next[e->site] += 1 + wire_event_entries(e);
            s->entries += 1 + wire_event_entries(e);
            i += wire_event_entries(e);
            continue;
        }
        assert_int_equal(e->address, s->next[e->site]++);
        uint64_t at = e->address * TICKS / ENTRIES;
        s->late += at + 4 * TICKS / ENTRIES < s->last;
        s->last = max_u64(s->last, at);
        s->entries++;
    }
}

static void add(struct merge *m, uint32_t thread, uint64_t chunk)
{
    struct wire_entry entries[ENTRIES];
    for (uint64_t i = 0; i < ENTRIES; i++)
        entries[i] = (struct wire_entry){.address = chunk * ENTRIES + i, .site = thread};
    if (chunk % 7 == 3) { /* an event of three entries */
        entries[5].address = (uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_ENTER, 2);
        entries[6].address = entries[7].address = 77;
    }
    merge_add(m, &(struct launch_chunk){.area = thread,
                                        .thread = thread,
                                        .begin = chunk * TICKS,
                                        .end = (chunk + 1) * TICKS,
                                        .entries = entries,
                                        .count = ENTRIES});
}

/* Threads hand over chunks at different moments, none later than the others by more than a few. */
static void test_order(void **state)
{
    (void)state;
    struct seen s = {.last = 0};
    struct merge *m = merge_new(MERGE_SPREAD, take, &s);
    for (uint32_t t = 0; t < THREADS; t++)
        add(m, t, 0);
    for (uint64_t c = 1; c < CHUNKS; c++)
        for (uint32_t t = 0; t < THREADS; t++) {
            uint64_t lag = t * 3; /* chunks */
            if (c > lag)
                add(m, t, c - lag);
        }
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint64_t c = CHUNKS - t * 3; c < CHUNKS; c++)
            add(m, t, c);
    merge_end(m);
    assert_int_equal(s.entries, THREADS * CHUNKS * ENTRIES);
    assert_int_equal(s.payload, 2 * THREADS * ((CHUNKS + 3) / 7));
    assert_true(s.late <= THREADS * ENTRIES); /* the chunk that came before there was a second thread */
    for (uint32_t t = 0; t < THREADS; t++)
        assert_int_equal(s.next[t], CHUNKS * ENTRIES);
    merge_free(m);
}

/* Of one thread nothing is held back. */
static void test_alone(void **state)
{
    (void)state;
    struct seen s = {.last = 0};
    struct merge *m = merge_new(MERGE_SPREAD, take, &s);
    add(m, 1, 0);
    assert_int_equal(s.entries, ENTRIES);
    merge_free(m);
}

/* A thread that says nothing any more holds up nobody; what is held is freed. */
static void test_silent(void **state)
{
    (void)state;
    struct seen s = {.last = 0};
    struct merge *m = merge_new(MERGE_SPREAD, take, &s);
    add(m, 0, 0);
    for (uint64_t c = 0; c < 10 * CHUNKS; c++)
        add(m, 1, c);
    assert_true(s.entries > (10 * CHUNKS - 1100) * ENTRIES);
    merge_free(m);
}

/* Chunks that copies of a stack have filled hold no more than others do: who is late is waited for as long. */
static void note_threads(void *ctx, const struct launch_chunk *piece)
{
    uint32_t *first_of_1 = ctx;
    first_of_1[0] += piece->thread == 0;
    if (piece->thread && !first_of_1[1])
        first_of_1[1] = first_of_1[0];
}

static void test_copies(void **state)
{
    (void)state;
    enum { COPY = 600, MANY = 500 };
    uint32_t seen[2] = {0, 0};
    struct wire_entry *copies = calloc(1 + COPY, sizeof *copies), plain = {.address = 64};
    struct wire_call call = {.time = 1};
    struct merge *m = merge_new(MERGE_SPREAD, note_threads, seen);
    copies[0].address = (uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_ENTER, COPY);
    for (uint64_t c = 0; c < MANY; c++) {
        call.time = 10 + c * TICKS;
        memcpy(copies + 1, &call, sizeof call);
        merge_add(
            m,
            &(struct launch_chunk){
                .begin = c * TICKS, .end = (c + 1) * TICKS, .entries = copies, .count = 1 + COPY, .has_others = true});
    }
    assert_int_equal(seen[0], 0);
    merge_add(m, &(struct launch_chunk){
                     .area = 1, .thread = 1, .begin = TICKS + 1, .end = TICKS + 2, .entries = &plain, .count = 1});
    merge_end(m);
    assert_int_equal(seen[0], MANY);
    assert_int_equal(seen[1], 2); /* behind the two that began earlier */
    merge_free(m);
    free(copies);
}

/* Thread 0 calls a watched function early and then waits; what it told before comes before what others do later. */
static void take_call(void *ctx, const struct launch_chunk *piece)
{
    uint64_t *of_others = ctx;
    for (size_t i = 0; i < piece->count; i++)
        if (piece->thread) {
            of_others[0]++;
        } else if (wire_is_event(&piece->entries[i])) {
            of_others[1] = of_others[0];
            i += wire_event_entries(&piece->entries[i]);
        }
}

static void known_time(uint32_t entries)
{
    uint64_t of_others[2] = {0, UINT64_MAX};
    struct wire_entry calls[ENTRIES] = {0}, plain[ENTRIES] = {0};
    struct wire_call call = {.time = 2 * TICKS / ENTRIES};
    struct wire_short less = {.time = 2 * TICKS / ENTRIES};
    size_t at = ENTRIES - 1 - entries;
    calls[at].address = (uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_LEAVE, entries);
    if (entries == WIRE_SHORT_ENTRIES)
        memcpy(&calls[at + 1], &less, sizeof less);
    else
        memcpy(&calls[at + 1], &call, sizeof call);
    struct launch_chunk c = {.end = TICKS, .entries = plain, .count = 1};
    struct merge *m = merge_new(MERGE_SPREAD, take_call, of_others);
    merge_add(m, &c); /* what comes before there is a second thread is not held */
    c = (struct launch_chunk){.area = 1, .thread = 1, .end = TICKS, .entries = plain, .count = ENTRIES};
    merge_add(m, &c);
    c = (struct launch_chunk){.end = TICKS, .entries = calls, .count = ENTRIES};
    merge_add(m, &c);
    merge_end(m);
    assert_int_equal(of_others[0], ENTRIES);
    assert_in_range(of_others[1], 1, 4);
    merge_free(m);
}

static void test_known_time(void **state)
{
    (void)state;
    known_time(WIRE_CALL_ENTRIES);
    known_time(WIRE_SHORT_ENTRIES);
}

/* ---- the second order ---- */

enum { FULL = 2000 };

struct order {
    uint64_t now, last[2]; /* entries seen; of each thread its last of a phase: site 1 */
    uint64_t first[2];
};

static void note(void *ctx, const struct launch_chunk *piece)
{
    struct order *o = ctx;
    for (size_t i = 0; i < piece->count; i++) {
        o->now++;
        if (piece->entries[i].site != 1)
            continue;
        o->last[piece->thread] = o->now;
        if (!o->first[piece->thread])
            o->first[piece->thread] = o->now;
    }
}

static void add_full(struct merge *m, uint32_t thread, uint64_t begin, uint64_t end, size_t marked)
{
    static struct wire_entry entries[FULL];
    for (size_t i = 0; i < FULL; i++)
        entries[i] = (struct wire_entry){.address = 64, .site = i < marked};
    merge_add(m, &(struct launch_chunk){
                     .area = thread, .thread = thread, .begin = begin, .end = end, .entries = entries, .count = FULL});
}

/* Thread 0 usually takes a tick for an entry; of one chunk it does half, and then waits as long as thread 1 works. By
 * stamps alone the halves mix; early, thread 0's marked entries are all before thread 1's. What both do at the same
 * time is mixed in either order. */
static struct order orders_of(enum merge_order order, bool waits)
{
    struct order o = {.now = 0};
    struct merge *m = merge_new(order, note, &o);
    uint64_t length = waits ? 100 * FULL : FULL;
    for (uint64_t k = 0; k < 10; k++)
        for (uint32_t t = 0; t < 2; t++)
            add_full(m, t, k * FULL, (k + 1) * FULL, 0);
    add_full(m, 0, 10 * FULL, 10 * FULL + length, FULL / 2);
    add_full(m, 1, waits ? 50 * FULL : 10 * FULL, waits ? 51 * FULL : 11 * FULL, FULL / 2);
    merge_end(m);
    merge_free(m);
    assert_int_equal(o.now, 22 * FULL);
    return o;
}

static void test_second_order(void **state)
{
    (void)state;
    struct order spread = orders_of(MERGE_SPREAD, true), early = orders_of(MERGE_EARLY, true);
    assert_true(spread.first[1] < spread.last[0]);
    assert_true(early.first[1] > early.last[0]);
    for (int order = MERGE_SPREAD; order <= MERGE_EARLY; order++) {
        struct order o = orders_of((enum merge_order)order, false);
        assert_true(o.first[1] < o.first[0] + 10 && o.first[1] < o.last[0] && o.first[0] < o.last[1]);
    }
}

/* ---- pauses ---- */

struct between {
    unsigned before; /* entries of thread 1 in front of the pause's event, which stands where it ends */
    bool has_paused;
};

static void take_pause(void *ctx, const struct launch_chunk *piece)
{
    struct between *s = ctx;
    for (size_t i = 0; i < piece->count; i++) {
        const struct wire_entry *e = &piece->entries[i];
        if (wire_is_event(e)) {
            s->has_paused = true;
            i += wire_event_entries(e);
        } else if (piece->thread == 1) {
            s->before += !s->has_paused;
        }
    }
}

/* Thread 0 tells nothing from 100 to 900, thread 1 one entry in 50. */
static void test_pause(void **state)
{
    (void)state;
    struct between s = {.before = 0};
    struct merge *m = merge_new(MERGE_SPREAD, take_pause, &s);
    struct wire_pause pause = {100, 900};
    struct wire_entry paused[ENTRIES] = {{.address = 1}}, even[ENTRIES] = {{.address = 1}};
    for (unsigned i = 0; i < ENTRIES; i++)
        paused[i].address = even[i].address = i + 1;
    paused[10].address = (uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_PAUSE, 1);
    memcpy(&paused[11], &pause, sizeof pause);
    struct launch_chunk c = {.end = TICKS, .count = ENTRIES, .entries = paused, .has_others = true};
    merge_add(m, &c);
    c.area = c.thread = 1;
    c.entries = even;
    merge_add(m, &c);
    merge_end(m);
    merge_free(m);
    assert_true(s.has_paused);
    assert_in_range(s.before, ENTRIES * 9 / 10, ENTRIES * 9 / 10 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order),       cmocka_unit_test(test_pause),
                                       cmocka_unit_test(test_alone),       cmocka_unit_test(test_silent),
                                       cmocka_unit_test(test_copies),      cmocka_unit_test(test_known_time),
                                       cmocka_unit_test(test_second_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
