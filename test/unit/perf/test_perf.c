/* SPDX-License-Identifier: Apache-2.0
 * Fields of tracepoints as tracefs writes them; rings and counters of this thread, where the kernel allows them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf/perf.h"

static void fields_are_found_by_name_and_size(void **state)
{
    static const char text[] = "name: sys_enter\nID: 443\nformat:\n"
                               "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
                               "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n"
                               "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n"
                               "\tfield:const char * name;\toffset:64;\tsize:8;\tsigned:0;\n\nprint fmt: \"id\"\n";
    struct perf_tracepoint t = {.id = 443};
    (void)state;
    str_puts(&t.text, text);
    assert_int_equal(perf_tracepoint_field(&t, "id", 8), 8);
    assert_int_equal(perf_tracepoint_field(&t, "id", 4), -1);
    assert_int_equal(perf_tracepoint_field(&t, "args", 48), 16);
    assert_int_equal(perf_tracepoint_field(&t, "name", 8), 64);
    assert_int_equal(perf_tracepoint_field(&t, "common", 2), -1);
    assert_int_equal(perf_tracepoint_field(&t, "i", 8), -1);
    perf_tracepoint_free(&t);
    assert_int_equal(perf_tracepoint_field(&t, "id", 8), -1);
}

struct seen {
    uint64_t maps;
    uint64_t last_ns;
    bool is_ordered;
};

static void take(void *ctx, const struct perf_event_header *h)
{
    struct seen *s = ctx;
    const struct perf_tail *t = perf_tail_of(h);
    if (h->type != PERF_RECORD_MMAP)
        return;
    s->maps += t->tid == (uint32_t)gettid();
    s->is_ordered &= t->time_ns >= s->last_ns;
    s->last_ns = t->time_ns;
}

static struct perf_event_attr mappings(void)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_DUMMY};
    a.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    a.mmap = a.sample_id_all = a.disabled = a.inherit = a.exclude_kernel = a.exclude_hv = 1;
    return a;
}

/* More than a ring of four pages holds at once, so that records go round its end. */
static void each_record_comes_once_and_in_order(void **state)
{
    enum { ROUNDS = 40, MAPS = 50 };
    pid_t self = gettid();
    struct perf_event_attr a = mappings();
    (void)state;
    struct perf_rings *r = perf_rings_open(&a, 1, (struct perf_target){&self, 1}, 4);
    if (!r)
        skip(); /* perf_event is refused here */
    struct seen s = {.is_ordered = true};
    perf_rings_enable(r, true);
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < MAPS; k++)
            munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
        s.last_ns = 0; /* this thread may go on on another processor */
        perf_rings_drain(r, take, &s);
    }
    perf_rings_enable(r, false);
    munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    perf_rings_drain(r, take, &s);
    assert_int_equal(s.maps, ROUNDS * MAPS);
    perf_rings_close(r);
}

/* What is written into a full ring is lost, and nothing says so until something fits again. */
static void a_full_ring_is_known(void **state)
{
    pid_t self = gettid();
    struct perf_event_attr a = mappings();
    (void)state;
    struct perf_rings *r = perf_rings_open(&a, 1, (struct perf_target){&self, 1}, 4);
    if (!r)
        skip();
    struct seen s = {.is_ordered = true};
    perf_rings_enable(r, true);
    assert_false(perf_rings_are_full(r));
    for (int i = 0; i < 4000; i++) /* it may run on several processors, each with a ring */
        munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    assert_true(perf_rings_are_full(r));
    perf_rings_drain(r, take, &s);
    assert_false(perf_rings_are_full(r));
    assert_true(s.maps < 4000);
    perf_rings_close(r);
}

static void page_faults_are_counted(void **state)
{
    enum { PAGES = 1000 };
    pid_t self = gettid();
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_PAGE_FAULTS};
    a.exclude_kernel = a.exclude_hv = 1;
    struct perf_counter c;
    double sum, part;
    (void)state;
    if (!perf_counter_open(&c, &a, (struct perf_target){&self, 1}))
        skip();
    char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, PAGES * 4096, MADV_NOHUGEPAGE);
    for (int i = 0; i < PAGES; i++)
        pages[4096 * i] = 1;
    assert_true(perf_counter_read(&c, &sum, &part));
    assert_true(sum >= PAGES && sum < 1.5 * PAGES);
    assert_true(part > 0.99);
    perf_counter_close(&c);
    munmap(pages, PAGES * 4096);
}

static void what_is_not_there_is_refused_with_errno(void **state)
{
    struct perf_event_attr a = {.type = 12345, .size = sizeof a};
    struct perf_counter c;
    pid_t self = gettid();
    (void)state;
    assert_null(perf_rings_open(&a, 1, (struct perf_target){&self, 1}, 4));
    assert_false(perf_counter_open(&c, &a, (struct perf_target){&self, 1}));
    assert_true(c.refused != 0);
    assert_int_equal(c.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_by_name_and_size),
        cmocka_unit_test(each_record_comes_once_and_in_order),
        cmocka_unit_test(a_full_ring_is_known),
        cmocka_unit_test(page_faults_are_counted),
        cmocka_unit_test(what_is_not_there_is_refused_with_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
