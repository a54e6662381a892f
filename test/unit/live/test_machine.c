/* SPDX-License-Identifier: Apache-2.0
 * State machines from text, and their steps: what they count, time and trace; and every kind of text that is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "live/impl.h"
#include "live/step.h"

static struct live_program *read_text(const char *text, bool as_analyser)
{
    char path[] = "/tmp/mtool-live-machine-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    struct live_program *p = live_program_read(path, as_analyser);
    unlink(path);
    return p;
}

struct traced {
    struct live_entry entries[16];
    size_t count;
};
static void take(void *ctx, const struct live_entry *e)
{
    struct traced *t = ctx;
    assert_true(t->count < ARRAY_LEN(t->entries));
    t->entries[t->count++] = *e;
}

static void a_call_is_timed_and_what_happens_within_counted(void **state)
{
    struct live_program *p =
        read_text("# reads\n"
                  "pat begin event=enter call=read\n"
                  "pat end event=leave call=read failed=no # comment\n"
                  "pat fault event=fault kernel=yes addr=1000-1fff\n"
                  "state outside on begin start reading goto inside\n"
                  "\n"
                  "state inside on end stop reading count reads trace goto outside; on fault count faults\n",
                  false);
    struct traced traced = {.count = 0};
    struct live_table table = {.trace = take, .ctx = &traced};
    struct live_task t = {.tid = 7, .tgid = 6};
    (void)state;
    assert_non_null(p);
    const struct live_machine *m = &p->machine;
    step(m, &t, &(struct step_event){.number = SYS_read, .event = LIVE_EVENT_LEAVE, .flag = 1}, 50, &table);
    step(m, &t, &(struct step_event){.number = SYS_write, .event = LIVE_EVENT_ENTER, .flag = 1}, 60, &table);
    assert_int_equal(t.state, 0);
    step(m, &t, &(struct step_event){.number = SYS_read, .event = LIVE_EVENT_ENTER, .flag = 1}, 100, &table);
    assert_int_equal(t.state, 1);
    step(m, &t, &(struct step_event){.address = 0x1fff, .event = LIVE_EVENT_FAULT, .flag = 2}, 110, &table);
    step(m, &t, &(struct step_event){.address = 0x2000, .event = LIVE_EVENT_FAULT, .flag = 2}, 120, &table);
    step(m, &t, &(struct step_event){.address = 0x1000, .event = LIVE_EVENT_FAULT, .flag = 1}, 130, &table);
    t.call_ns = 25;
    step(m, &t, &(struct step_event){.number = SYS_read, .event = LIVE_EVENT_LEAVE, .flag = 2}, 140, &table);
    assert_int_equal(t.state, 1); /* it failed, which the pattern excludes */
    step(m, &t, &(struct step_event){.number = SYS_read, .event = LIVE_EVENT_LEAVE, .flag = 1}, 150, &table);
    assert_int_equal(t.state, 0);
    assert_string_equal(p->counters.name[0], "reads");
    assert_int_equal(table.marks[0].count, 1);
    assert_int_equal(table.marks[1].count, 1);
    assert_int_equal(table.marks[LIVE_COUNTERS].count, 1);
    assert_int_equal(table.marks[LIVE_COUNTERS].elapsed_ns, 50);
    assert_int_equal(table.marks[LIVE_COUNTERS].own_ns, 25);
    assert_int_equal(traced.count, 1);
    assert_int_equal(traced.entries[0].time_ns, 150);
    assert_int_equal(traced.entries[0].state, 1);
    assert_int_equal(traced.entries[0].tid, 7);
    live_program_free(p);
}

/* The first move of a state whose pattern it is holds, whatever the order of patterns; other threads have their own. */
static void the_first_move_holds(void **state)
{
    struct live_program *p = read_text("pat any event=interrupt\n"
                                       "pat timer event=interrupt vector=local_timer\n"
                                       "pat mine event=run proc=worker\n"
                                       "state a on timer count timers; on any count others; on mine goto b\n"
                                       "state b on any count never\n",
                                       false);
    struct live_table table = {.ctx = NULL};
    struct live_task t = {.comm = "worker"}, u = {.comm = "works"};
    (void)state;
    assert_non_null(p);
    const struct live_machine *m = &p->machine;
    step(m, &t, &(struct step_event){.number = 0, .event = LIVE_EVENT_INTERRUPT, .flag = 1}, 1, &table);
    step(m, &t, &(struct step_event){.number = 3, .event = LIVE_EVENT_INTERRUPT, .flag = 1}, 2, &table);
    step(m, &u, &(struct step_event){.event = LIVE_EVENT_RUN, .flag = 1}, 3, &table);
    step(m, &t, &(struct step_event){.event = LIVE_EVENT_RUN, .flag = 1}, 4, &table);
    assert_int_equal(table.marks[0].count, 1);
    assert_int_equal(table.marks[1].count, 1);
    assert_int_equal(t.state, 1);
    assert_int_equal(u.state, 0);
    live_program_free(p);
}

static void what_is_wrong_is_told(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"pat a event=enter call=opnat\nstate s on a\n", ":1: there is no system call 'opnat'; nearest is open"},
        {"pat a event=entr\n", ":1: there is no event 'entr'; nearest is enter"},
        {"pat a event=run\npat a event=stop\n", ":2: pattern 'a' is there already"},
        {"pat a event=run failed=yes\n", ":1: event run has no 'failed'"},
        {"pat a event=stop preempted=maybe\n", ":1: 'maybe' is neither yes nor no"},
        {"pat a event=fault addr=xyz\n", ":1: 'xyz' is no address"},
        {"pat a event=fault addr=20-10\n", ":1: '20-10' is no address"},
        {"pat a event=interrupt vector=softirq-77\n", ":1: there is no interrupt 'softirq-77'"},
        {"pat a event=run proc=a-name-that-is-too-long\n", "at most 15 bytes"},
        {"pat a run\n", ":1: a pattern is: pat NAME"},
        {"pat begin event=run\nstate s on begni goto s\n", ":2: there is no pattern 'begni'; nearest is begin"},
        {"pat a event=run\nstate s on a goto t\n", ":2: state 't' is not defined"},
        {"pat a event=run\nstate s on a\nstate s on a\n", ":3: state 's' is there already"},
        {"pat a event=run\nstate s on a jump t\n", ":2: 'jump' is none of count, start, stop, trace, goto"},
        {"pat a event=run\nstate s on a count\n", ":2: counter needs a name"},
        {"pat a event=run\nstate s on a goto\n", ":2: goto needs a state"},
        {"pat a event=run\nstate s\n", ":2: a state is: state NAME on"},
        {"pattern a\n", ":1: 'pattern' is neither pat nor state"},
        {"pat a event=run\n", "there is no state in it"},
        {"pat a event=run\nstate s on a start t1; on a start t2; on a start t3; on a start t4; on a start t5\n",
         "more than 4 timers"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct strbuf said = {0};
        diag_hold(&said);
        struct live_program *p = read_text(cases[i].text, false);
        diag_hold(NULL);
        if (p || !said.data || !strstr(said.data, cases[i].says))
            fail_msg("'%s': said '%s' instead of '%s'", cases[i].text, said.data ? said.data : "", cases[i].says);
        str_free(&said);
    }
}

static void the_analyser_has_limits(void **state)
{
    struct strbuf said = {0};
    (void)state;
    struct live_program *p = read_text("pat a event=run\nstate s on a count c start t\n", true);
    assert_non_null(p);
    assert_int_equal(p->limits.entries, 524288);
    live_program_free(p);
    diag_hold(&said);
    assert_null(read_text("pat a event=run\nstate s on a count c start t; on a count d\n", true));
    diag_hold(NULL);
    assert_non_null(strstr(said.data, "more than 2 counters"));
    str_free(&said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_timed_and_what_happens_within_counted),
        cmocka_unit_test(the_first_move_holds),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(the_analyser_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
