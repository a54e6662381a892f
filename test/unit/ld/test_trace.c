/* SPDX-License-Identifier: Apache-2.0
 * What traced programs write, read again: words of one thread into references, and segments of several in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ld/trace/buffer.h"
#include "ld/trace/expand.h"

/* ---- words of one thread ---- */

enum { ABOVE = 0x10000, LO = 0x400, BLOCKS = 3, SOME = 4096 };
enum { SIMPLE = LO + ABOVE, LATER, COPY }; /* as the words say it */

struct seen {
    struct cache_ref refs[SOME];
    size_t count;
};

static void take(void *ctx, const struct ld_trace_thread *who, const struct cache_ref *refs, size_t count)
{
    struct seen *seen = ctx;
    (void)who;
    for (size_t i = 0; i < count && seen->count < SOME; i++)
        seen->refs[seen->count++] = refs[i];
}

/* SIMPLE reads 4 bytes 8 behind its word. LATER writes 8 bytes at its word, and what it is told late reads 1 byte
 * there. COPY moves so many bytes, as its third word says, from the first to the second. */
static struct ld_trace_op simple_ops[] = {{.plus = 8, .value = LD_TRACE_VALUE_WORDS, .kind = CACHE_READ, .bytes = 4}};
static struct ld_trace_op later_ops[] = {
    {.value = LD_TRACE_VALUE_WORDS, .kind = CACHE_WRITE, .bytes = 8},
    {.value = LD_TRACE_VALUE_WORDS + 1, .kind = CACHE_READ, .late = 1, .bytes = 1}};
static struct ld_trace_op copy_ops[] = {
    {.value = LD_TRACE_VALUE_WORDS, .kind = CACHE_READ, .bytes = 1, .repeat = 1},
    {.value = LD_TRACE_VALUE_WORDS + 1, .kind = CACHE_WRITE, .bytes = 1, .repeat = 1}};
static const struct ld_trace_repeat copy_repeat = {.fetch = LO, .count = LD_TRACE_VALUE_WORDS + 2, .ops = 2};
static struct ld_trace_part parts[BLOCKS] = {
    {.at = LO, .ops = simple_ops, .op_count = 1, .entry_count = 1, .is_plain = true},
    {.at = LO + 1, .ops = later_ops, .op_count = 2, .entry_count = 1, .late_count = 1, .is_plain = true},
    {.at = LO + 2, .ops = copy_ops, .repeats = &copy_repeat, .op_count = 2, .entry_count = 3}};
static struct ld_trace_part *const table[BLOCKS] = {&parts[0], &parts[1], &parts[2]};
static struct ld_trace_known known[LD_TRACE_KNOWN];
static const struct ld_trace_module module = {
    .above = ABOVE, .parts = table, .lo = LO + ABOVE, .span = BLOCKS, .known = known};

struct thread {
    struct ld_trace_expand *x;
    struct ld_trace_stream *s;
    struct seen *seen;
    uint32_t at;
    uint64_t words[LD_TRACE_CHUNK_WORDS];
};

static int thread_new(void **state)
{
    struct thread *t = xmalloc(sizeof *t);
    t->x = xmalloc(sizeof *t->x);
    t->s = xmalloc(sizeof *t->s);
    t->seen = xmalloc(sizeof *t->seen);
    t->x->take = take;
    t->x->ctx = t->seen;
    t->s->module = &module;
    *state = t;
    return 0;
}

static int thread_free(void **state)
{
    struct thread *t = *state;
    free(t->seen);
    free(t->s);
    free(t->x);
    free(t);
    return 0;
}

static enum ld_trace_stop give(struct thread *t, uint64_t *segment)
{
    return ld_trace_give(t->x, t->s, t->words, &t->at, LD_TRACE_CHUNK_WORDS, segment);
}

#define WRITE(t, ...) memcpy((t)->words, (const uint64_t[]){__VA_ARGS__}, sizeof(const uint64_t[]){__VA_ARGS__})

static void assert_ref(const struct thread *t, size_t i, uint64_t address, unsigned bytes, unsigned kind)
{
    assert_true(i < t->seen->count);
    assert_int_equal(t->seen->refs[i].address, address);
    assert_int_equal(t->seen->refs[i].bytes, bytes);
    assert_int_equal(t->seen->refs[i].kind, kind);
}

static void test_a_segment_ends_where_it_says(void **state)
{
    struct thread *t = *state;
    uint64_t segment = 0;
    WRITE(t, SIMPLE, 0x1000, SIMPLE, 0x2000, WIRE_TRACE_SEGMENT, 7, SIMPLE, 0x3000, WIRE_TRACE_END);
    assert_int_equal(ld_trace_extent(t->s, t->words, 0), 6);
    assert_int_equal(give(t, &segment), LD_TRACE_SEGMENT);
    assert_int_equal(segment, 7);
    assert_int_equal(t->seen->count, 2);
    assert_ref(t, 0, 0x1008, 4, CACHE_READ);
    assert_ref(t, 1, 0x2008, 4, CACHE_READ);
    assert_int_equal(give(t, &segment), LD_TRACE_END);
    assert_ref(t, 2, 0x3008, 4, CACHE_READ);
}

/* The first word is written last: without it nothing of a block is there. */
static void test_what_is_not_there_yet_is_waited_for(void **state)
{
    struct thread *t = *state;
    uint64_t segment = 0;
    WRITE(t, SIMPLE, 0x1000, 0, 0x2000);
    assert_int_equal(give(t, &segment), LD_TRACE_OPEN);
    assert_int_equal(t->seen->count, 1);
    assert_int_equal(t->at, 2);
    t->words[2] = SIMPLE;
    assert_int_equal(give(t, &segment), LD_TRACE_OPEN);
    assert_ref(t, 1, 0x2008, 4, CACHE_READ);
}

static void test_late_words_stand_behind_or_after_a_handler(void **state)
{
    struct thread *t = *state;
    uint64_t segment = 0;
    WRITE(t, LATER, 0x1000, WIRE_TRACE_LATE, 0x5000, LATER, 0x2000, SIMPLE, 0x3000, WIRE_TRACE_LATE, 0x6000,
          WIRE_TRACE_END);
    assert_int_equal(give(t, &segment), LD_TRACE_END);
    assert_int_equal(t->seen->count, 5);
    assert_ref(t, 0, 0x1000, 8, CACHE_WRITE);
    assert_ref(t, 1, 0x5000, 1, CACHE_READ);
    assert_ref(t, 2, 0x2000, 8, CACHE_WRITE);
    assert_ref(t, 3, 0x3008, 4, CACHE_READ); /* the handler's */
    assert_ref(t, 4, 0x6000, 1, CACHE_READ);
    assert_int_equal(t->x->stats.torn, 0);
}

static void test_what_never_came_is_torn(void **state)
{
    struct thread *t = *state;
    uint64_t segment = 0;
    WRITE(t, LATER, 0x1000, WIRE_TRACE_END);
    assert_int_equal(give(t, &segment), LD_TRACE_END);
    ld_trace_leave(t->x, t->s);
    assert_int_equal(t->x->stats.torn, 1);
    assert_int_equal(t->x->undone[CACHE_READ], 1);
    assert_int_equal(t->x->undone[CACHE_WRITE], 0);
    t->at = 0;
    WRITE(t, WIRE_TRACE_LATE, 0x5000, WIRE_TRACE_END); /* of nothing that is under way */
    give(t, &segment);
    assert_int_equal(t->x->stats.torn, 2);
}

static void test_handlers_in_handlers_are_bounded(void **state)
{
    struct thread *t = *state;
    uint64_t segment = 0;
    enum { MORE = LD_TRACE_NESTED_MAX + 3 };
    for (unsigned i = 0; i < MORE; i++) {
        t->words[2 * i] = LATER;
        t->words[2 * i + 1] = 0x1000 * i;
    }
    assert_int_equal(give(t, &segment), LD_TRACE_OPEN);
    assert_int_equal(t->s->depth, LD_TRACE_NESTED_MAX);
    assert_int_equal(t->x->stats.torn, 3);
    ld_trace_leave(t->x, t->s);
    assert_int_equal(t->x->stats.torn, MORE);
}

static void test_a_string_instruction_repeats(void **state)
{
    struct thread *t = *state;
    uint64_t segment = 0;
    WRITE(t, COPY, 0x1000, 0x2000, 3, COPY, 0x1000, 0x2000, 0, WIRE_TRACE_END);
    assert_int_equal(give(t, &segment), LD_TRACE_END);
    assert_int_equal(t->seen->count, 6);
    assert_ref(t, 4, 0x1002, 1, CACHE_READ);
    assert_ref(t, 5, 0x2002, 1, CACHE_WRITE);
    assert_int_equal(t->x->stats.made[CACHE_READ], 3);
    assert_int_equal(t->x->stats.made[CACHE_FETCH], 3); /* each but the first, and the one that finds none left */
}

/* ---- segments of several ---- */

static int ignored_take_count;
static void ignore(void *ctx, const struct ld_trace_thread *who, const struct cache_ref *refs, size_t count)
{
    (void)ctx, (void)who, (void)refs, (void)count;
    ignored_take_count++;
}

/* A thread's segments 2 and 4 in one chunk; of a file that cannot be read, so that blocks are only counted. */
static void write_two_segments(const struct ld_trace_buffer *b)
{
    struct wire_trace_module *m = ld_trace_buffer_module(b, 1);
    struct wire_trace_chunk *c = ld_trace_buffer_chunk(b, 0);
    volatile uint64_t *w = ld_trace_buffer_words(b, 0);
    pid_t gone = fork();
    if (!gone)
        _exit(0);
    waitpid(gone, NULL, 0);
    m->process = (uint32_t)gone;
    snprintf(m->path, sizeof m->path, "/nowhere/program");
    c->module = 1;
    c->thread = (uint32_t)gone;
    w[0] = w[1] = SIMPLE;
    w[2] = WIRE_TRACE_SEGMENT;
    w[3] = 4;
    w[4] = SIMPLE;
    w[6] = SIMPLE; /* behind a hole: it ended between two words */
    c->segment = 2;
    b->head->turn = 4;
}

/* As a program finds it: by its path. */
static struct ld_trace_buffer mapped(const struct ld_trace *t)
{
    struct ld_trace_buffer b = {.path = ld_trace_path(t)};
    FILE *f = fopen(b.path, "r+e");
    assert_non_null(f);
    b.base =
        mmap(NULL, (size_t)WIRE_TRACE_BYTES(WIRE_TRACE_CHUNKS_MAX), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
    fclose(f);
    assert_true(b.base != MAP_FAILED);
    b.head = (volatile struct wire_trace *)(void *)b.base;
    assert_memory_equal((const char *)(uintptr_t)b.head->magic, WIRE_TRACE_MAGIC, sizeof b.head->magic);
    b.fd = -1;
    return b;
}

static void test_a_segment_that_nobody_wrote_is_skipped(void **state)
{
    struct ld_trace *t;
    struct strbuf said = {0};
    (void)state;
    assert_int_equal(ld_trace_new(ignore, NULL, NULL, &t), 0);
    struct ld_trace_buffer b = mapped(t);
    uint64_t given = b.head->given;
    write_two_segments(&b);
    diag_hold(&said); /* of the file that is not there */
    ld_trace_end(t);
    diag_hold(NULL);
    const struct ld_trace_stats *s = ld_trace_stats(t);
    assert_non_null(strstr(said.data, "/nowhere/program"));
    assert_int_equal(s->unknown, 4);
    assert_int_equal(s->skipped, 1); /* 3 */
    assert_int_equal(s->torn, 1);
    assert_int_equal(s->modules, 1);
    assert_int_equal(s->processes, 1);
    assert_int_equal(s->threads, 1);
    assert_int_equal(ignored_take_count, 0);
    assert_int_equal(b.head->given, given + 1); /* the chunk is free again, and empty */
    assert_int_equal(ld_trace_buffer_chunk(&b, 0)->segment, 0);
    assert_int_equal(ld_trace_buffer_words(&b, 0)[6], 0);
    assert_int_equal(b.head->ends, 1);
    assert_int_equal(b.head->turn, 0); /* who still writes stops */
    str_free(&said);
    ld_trace_buffer_close(&b);
    ld_trace_free(t);
}

/* Whoever waits for room gets a further chunk, as long as there are any. */
static void test_chunks_grow_when_someone_waits(void **state)
{
    struct arena *arena = arena_new();
    struct ld_trace_buffer b;
    (void)state;
    assert_int_equal(ld_trace_buffer_open(&b, arena), 0);
    uint64_t given = b.head->given;
    ld_trace_buffer_grow(&b);
    assert_int_equal(b.head->given, given);
    b.head->waits = 1;
    for (unsigned i = 0; i < WIRE_TRACE_CHUNKS_MAX + 5u; i++)
        ld_trace_buffer_grow(&b);
    assert_int_equal(b.head->given, WIRE_TRACE_CHUNKS_MAX);
    assert_int_equal(b.handed_out, WIRE_TRACE_CHUNKS_MAX);
    ld_trace_buffer_close(&b);
    arena_free(arena);
}

int main(void)
{
#define OF_A_THREAD(name) cmocka_unit_test_setup_teardown(name, thread_new, thread_free)
    const struct CMUnitTest tests[] = {
        OF_A_THREAD(test_a_segment_ends_where_it_says),
        OF_A_THREAD(test_what_is_not_there_yet_is_waited_for),
        OF_A_THREAD(test_late_words_stand_behind_or_after_a_handler),
        OF_A_THREAD(test_what_never_came_is_torn),
        OF_A_THREAD(test_handlers_in_handlers_are_bounded),
        OF_A_THREAD(test_a_string_instruction_repeats),
        cmocka_unit_test(test_a_segment_that_nobody_wrote_is_skipped),
        cmocka_unit_test(test_chunks_grow_when_someone_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
