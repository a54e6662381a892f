/* SPDX-License-Identifier: Apache-2.0
 * Tapes: what is refused, in one line that names the place; what comes back from one that was written; what is told of
 * one that lacks experiments. */
#include "machine/lab/lab.h"
#include "machine/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h> /* needs the three above it */

#define HEAD                                                                                                           \
    "mtool-tape 1\nprogram \"0.1.0\"\nprocessor \"A CPU\" AuthenticAMD 25 17\n"                                        \
    "number tsc-ghz 2.5\n"

static struct tape *parsed(const char *text)
{
    struct tape *t = NULL;
    assert_int_equal(machine_tape_parse("x.tape", text, strlen(text), &t), 0);
    return t;
}

/* One line, which begins with the place. */
static void check_said(const struct strbuf *said, const char *place, const char *what)
{
    assert_non_null(said->data);
    if (strncmp(said->data, place, strlen(place)) != 0 || !strstr(said->data, what) || strchr(said->data, '\n'))
        fail_msg("\"%s\" is not \"%s ... %s\" on one line", said->data, place, what);
}

static void what_is_no_tape_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *what;
    } cases[] = {
        {"", "x.tape:1: ", "empty"},
        {"\x7f"
         "ELF\x02\x01\x01\n",
         "x.tape:1: ", "no tape"},
        {"mtool-machine 1\nend\n", "x.tape:1: ", "no tape"},
        {"mtool-tape 2\nend 0\n", "x.tape:1: ", "another format"},
        {"mtool-tape\nend 0\n", "x.tape:1: ", "another format"},
        {HEAD "time \"rate nop\" - 5 5 7\n", "x.tape:5: ", "cut off"},
        {HEAD "time \"rate nop\" - 5 5 7\ntime \"rate", "x.tape:6: ", "a time needs"},
        {HEAD "time \"rate nop\" - 5 5 7\ntime \"rate add\" - 5", "x.tape:6: ", "a time needs"},
        {HEAD "time \"rate nop\" - 5 5 7\ne", "x.tape:6: ", "unknown word"},
        {HEAD "time \"rate nop\" - 5 5 7\nend 2\n", "x.tape:6: ", "number of times"},
        {HEAD "time \"rate nop\" - 5 5 7\nend\n", "x.tape:6: ", "number of times"},
        {HEAD "time \"rate nop\" - 5 5 -1\nend 1\n", "x.tape:5: ", "a time needs"},
        {HEAD "time \"rate nop\" - 5 5 1e300\nend 1\n", "x.tape:5: ", "a time needs"},
        {HEAD "time \"rate nop\" - nan 5 7\nend 1\n", "x.tape:5: ", "a time needs"},
        {HEAD "time \"rate nop\" - inf 5 7\nend 1\n", "x.tape:5: ", "a time needs"},
        {HEAD "time \"rate nop\" - 5 nan 7\nend 1\n", "x.tape:5: ", "a time needs"},
        {HEAD "time \"rate nop\" 12xy 5 5 7\nend 1\n", "x.tape:5: ", "a time needs"},
        {HEAD "time rate\"nop - 5 5 7\nend 1\n", "x.tape:5: ", "a time needs"},
        {HEAD "tyme \"rate nop\" - 5 5 7\nend 1\n", "x.tape:5: ", "unknown word"},
        {HEAD "number noise nan\nend 0\n", "x.tape:5: ", "a number needs"},
        {HEAD "number\nend 0\n", "x.tape:5: ", "a number needs"},
        {"mtool-tape 1\nprogram\nend 0\n", "x.tape:2: ", "version"},
        {"mtool-tape 1\nprocessor \"A CPU\" amd -1 2\nend 0\n", "x.tape:2: ", "a processor needs"},
        {"mtool-tape 1\nprocessor \"A CPU\"\nend 0\n", "x.tape:2: ", "a processor needs"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tape *t = NULL;
        struct strbuf said = {0};
        diag_hold(&said);
        int rc = machine_tape_parse("x.tape", cases[i].text, strlen(cases[i].text), &t);
        diag_hold(NULL);
        assert_int_equal(rc, -1);
        assert_null(t);
        check_said(&said, cases[i].place, cases[i].what);
        str_free(&said);
    }
}

static void a_file_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct tape *t = NULL;
    struct strbuf said = {0};
    diag_hold(&said);
    assert_int_equal(machine_tape_read("/nowhere/x.tape", &t), -1);
    assert_int_equal(machine_tape_write(t = machine_tape_new(), "/nowhere/x.tape"), -1);
    diag_hold(NULL);
    assert_non_null(strstr(said.data, "cannot read the tape /nowhere/x.tape"));
    assert_non_null(strstr(said.data, "cannot write the tape /nowhere/x.tape"));
    machine_tape_free(t);
    str_free(&said);
}

static const char whole[] =
    HEAD "# a remark\n\ntime \"rate nop\" 00000000000000ab 12.5 8.25 7\ntime \"rate nop\" 00000000000000ab 12.25 8 2\n"
         "time \"slots\" - -1 0 0\nend 3\nwhat follows is not read\n";

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    struct strbuf first = {0}, second = {0};
    struct tape *t = parsed(whole);
    machine_tape_format(t, &first);
    char path[] = "/tmp/mtool-tape.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(machine_tape_write(t, path), 0);
    machine_tape_free(t);
    assert_int_equal(machine_tape_read(path, &t), 0);
    unlink(path);
    machine_tape_format(t, &second);
    assert_string_equal(first.data, second.data);
    assert_string_equal(tape_cpu(t), "A CPU");
    assert_true(tape_number(t, "tsc-ghz") == 2.5);
    const struct tape_entry *e = tape_next(t, "rate nop", 0xab);
    assert_true(e && e->cycles == 12.5 && e->ticks == 8.25 && e->quiet == 7 && e->hash == 0xab);
    machine_tape_free(t);
    str_free(&first);
    str_free(&second);
}

/* An experiment made twice has its answers in that order, and the last one from then on. */
static void what_is_missing_is_counted_and_named(void **state)
{
    (void)state;
    struct machine_tape_gaps g;
    struct tape *t = parsed(whole);
    assert_true(tape_next(t, "rate nop", 0xab)->cycles == 12.5);
    assert_true(tape_next(t, "rate nop", 0xab)->cycles == 12.25);
    assert_true(tape_next(t, "rate nop", 0xcd)->cycles == 12.25); /* of other code */
    assert_null(tape_next(t, "rate zero", 1));
    assert_null(tape_next(t, "rate add", 1));
    machine_tape_gaps(t, &g);
    assert_int_equal(g.missing, 2);
    assert_int_equal(g.label_count, 2);
    assert_string_equal(g.labels[0], "rate zero");
    assert_string_equal(g.labels[1], "rate add");
    assert_int_equal(g.changed, 1);
    assert_int_equal(g.used, 2);
    assert_int_equal(g.unused, 1);
    assert_string_equal(g.program, "0.1.0");
    machine_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_tape_is_refused),
        cmocka_unit_test(a_file_that_is_not_there_is_refused),
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(what_is_missing_is_counted_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
