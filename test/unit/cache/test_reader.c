/* SPDX-License-Identifier: Apache-2.0
 * Traces as text into references, and what is said of those that are none. */
#include "cache/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char lackey[] = "==77== Lackey, an example Valgrind tool\n"
                             "==77== Command: ./x\n"
                             "==77== \n"
                             "I  00401570,2\n"
                             " L 1fff000630,8\n"
                             "I  00401572,4\n"
                             "--77-- warning: L3 cache found\n"
                             " S 1fff000628,16\n"
                             "I  00401570,2\n"
                             " M 0421c7cc,4\n"
                             "==77== \n"
                             "==77== Exit code:       0\n";

static void is_ref(struct cache_ref r, uint64_t address, unsigned bytes, unsigned kind, unsigned cell)
{
    assert_int_equal(r.address, address);
    assert_int_equal(r.bytes, bytes);
    assert_int_equal(r.kind, kind);
    assert_int_equal(r.cell, cell);
}

/* In pieces of `most`. */
static void read_lackey(struct cache_reader *r, size_t max)
{
    struct cache_ref refs[10];
    size_t count = 0;
    for (ptrdiff_t n; (n = cache_reader_next(r, refs + count, min_u64(max, 10 - count))) > 0;)
        count += (size_t)n;
    assert_int_equal(count, 6);
    is_ref(refs[0], 0x401570, 2, CACHE_FETCH, 1);
    is_ref(refs[1], 0x1fff000630, 8, CACHE_READ, 1);
    is_ref(refs[2], 0x401572, 4, CACHE_FETCH, 2);
    is_ref(refs[3], 0x1fff000628, 16, CACHE_WRITE, 2);
    is_ref(refs[4], 0x401570, 2, CACHE_FETCH, 1);
    is_ref(refs[5], 0x421c7cc, 4, CACHE_MODIFY, 1);
    assert_int_equal(cache_reader_place(r, 2), 0x401572);
    assert_int_equal(cache_reader_form(r), CACHE_FORM_LACKEY);
    cache_reader_close(r);
}

static void test_lackey(void **unused)
{
    (void)unused;
    for (size_t max = 1; max <= 10; max++)
        read_lackey(cache_reader_of("x", lackey, sizeof lackey - 1), max);
}

static void test_din(void **unused)
{
    (void)unused;
    static const char text[] = "0 1fc0\r\n2 400000\n1 0x10 and more\n  0\tFFFFFFFFFFFFFFFF\n";
    struct cache_ref refs[10];
    struct cache_reader *r = cache_reader_of("x", text, sizeof text - 1);
    assert_int_equal(cache_reader_next(r, refs, 10), 4);
    is_ref(refs[0], 0x1fc0, 1, CACHE_READ, 0);
    is_ref(refs[1], 0x400000, 1, CACHE_FETCH, 1);
    is_ref(refs[2], 0x10, 1, CACHE_WRITE, 1);
    is_ref(refs[3], UINT64_MAX, 1, CACHE_READ, 1);
    assert_int_equal(cache_reader_next(r, refs, 10), 0);
    assert_int_equal(cache_reader_form(r), CACHE_FORM_DIN);
    cache_reader_close(r);
}

/* A file larger than the buffer, whose lines end anywhere in it. */
static void test_large_file(void **unused)
{
    (void)unused;
    enum { LINES = 300000 };
    char path[] = "/tmp/mtool-test-reader.XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    for (unsigned i = 0; i < LINES; i++)
        fprintf(f, "%u %x\n", i % 2, i);
    fclose(f);
    struct cache_reader *r;
    static struct cache_ref refs[1000];
    assert_int_equal(cache_reader_open(path, &r), 0);
    unsigned seen = 0;
    for (ptrdiff_t n; (n = cache_reader_next(r, refs, 1000)) > 0;)
        for (ptrdiff_t i = 0; i < n; i++, seen++)
            is_ref(refs[i], seen, 1, seen % 2 ? CACHE_WRITE : CACHE_READ, 0);
    assert_int_equal(seen, LINES);
    uint64_t done, total;
    cache_reader_progress(r, &done, &total);
    assert_int_equal(done, total);
    cache_reader_close(r);
    unlink(path);
}

#define NO_LACKEY                                                                                                      \
    "neither a reference as lackey writes it (I, L, S or M, an address, a comma, a size) nor valgrind's own "          \
    "(==PID== ...); let valgrind write the trace to a file, by --log-file"

static void test_wrong(void **unused)
{
    (void)unused;
    static char longer[5000];
    memset(longer, ' ', sizeof longer - 1);
    const char *const wrong[][2] = {
        {"", "the trace x is empty"},
        {"I  401570,2\n L 1fff0006", "x:2: the trace was cut off in this line"},
        {"==7== Lackey, an example\nI  401570,2\n",
         "x:2: the trace was cut off behind this line: what lackey writes at its end is missing"},
        {"I  401570,2\nhello\n", "x:2: " NO_LACKEY},
        {"I  401570;2\n", "x:1: " NO_LACKEY},
        {"\x7f"
         "ELF\n",
         "x:1: " NO_LACKEY},
        {" L 1ffff0001fff0006301,8\n", "x:1: " NO_LACKEY},
        {" L 1fff000630,8 \n", "x:1: after the address and the comma comes a size, and no more"},
        {" L 1fff000630,\n", "x:1: after the address and the comma comes a size, and no more"},
        {" L 1fff000630,0\n", "x:1: no instruction reaches so many bytes at once"},
        {" L 1fff000630,9999\n", "x:1: no instruction reaches so many bytes at once"},
        {" L ffffffffffffffff,2\n", "x:1: reaches past the end of the address space"},
        {"==7== Lackey, an example\n==8== Exit code: 0\n",
         "x:2: references of process 7 and of process 8 in one trace; write each to a file of its own "
         "(--log-file=FILE.%p)"},
        {"0 10\n3 10\n", "x:2: the label is not 0 (read), 1 (write) or 2 (instruction)"},
        {"0 10\n L 10,8\n", "x:2: no reference as in a din trace (0, 1 or 2, and an address)"},
        {"0 zebra\n", "x:1: no address, in hexadecimal, behind the label"},
        {"0 10,8\n", "x:1: no address, in hexadecimal, behind the label"},
        {longer, "x:1: longer than any line of a trace"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct strbuf said = {0};
        struct cache_ref refs[4];
        struct cache_reader *r = cache_reader_of("x", wrong[i][0], strlen(wrong[i][0]));
        ptrdiff_t n;
        diag_hold(&said);
        while ((n = cache_reader_next(r, refs, 4)) > 0)
            ;
        diag_hold(NULL);
        assert_int_equal(n, -1);
        assert_string_equal(said.data, wrong[i][1]);
        cache_reader_close(r);
        str_free(&said);
    }
}

static void test_no_file(void **unused)
{
    (void)unused;
    struct strbuf said = {0};
    struct cache_reader *r;
    diag_hold(&said);
    assert_int_equal(cache_reader_open("/no/such/trace", &r), -1);
    diag_hold(NULL);
    assert_string_equal(said.data, "cannot read the trace /no/such/trace: No such file or directory");
    str_free(&said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lackey), cmocka_unit_test(test_din),
                                       cmocka_unit_test(test_large_file), cmocka_unit_test(test_wrong),
                                       cmocka_unit_test(test_no_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
