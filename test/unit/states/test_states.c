/* SPDX-License-Identifier: Apache-2.0
 * Programs of state machines: what is wrong in them and where; masks of instructions; random programs over random
 * events, against an interpreter that reads the transitions one by one; all that are built in. */
#include "states/states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct states_program *parsed(const char *text) { return states_parse("x.states", text, strlen(text), false); }

static void refused(const char *text, bool analyser, const char *wanted)
{
    struct strbuf said = {0};
    diag_hold(&said);
    struct states_program *p = states_parse("x.states", text, strlen(text), analyser);
    diag_hold(NULL);
    if (p || !said.data || !strstr(said.data, wanted))
        fail_msg("'%s': said '%s', wanted '%s'", text, said.data ? said.data : "nothing", wanted);
    str_free(&said);
}

static void errors(void **state)
{
    (void)state;
    refused("", false, "x.states:1:1: a program needs a state");
    refused("\nfoo bar\n", false, "x.states:2:1: 'foo' begins no line");
    refused("pattern a pc\n", false, "x.states:1:11: 'pc' is no condition");
    refused("pattern a colour=red\n", false, "1:11: there is no condition 'colour'");
    refused("pattern a mode=both\n", false, "1:11: 'both' is none of user, kernel");
    refused("pattern a bytes=4g\n", false, "'g' is no hexadecimal digit");
    refused("pattern a pc=12x\n", false, "1:14: '12x' is no address");
    refused("pattern a\npattern a\n", false, "2:9: there is a pattern a already");
    refused("pattern a miss=fetch access=read\n", false, "two events");
    refused("pattern a\non a\n", false, "2:1: a transition before the first state");
    refused("pattern a\nstate s\n  on b\n", false, "3:6: there is no pattern 'b'");
    refused("pattern a\nstate s\n  on a goto t\n", false, "3:13: there is no state 't'");
    refused("pattern a\ncounter c\nstate s\n on a start c\n", false, "4:13: there is no timer 'c'");
    refused("pattern a\nstate s\n on a goto s goto s\n", false, "a second goto");
    refused("pattern a\nstate s\n on a sing\n", false, "3:7: 'sing' is none of count");
    refused("counter a b c\n", true, "more than 2 counters and timers, which is what the analyser of 1992 had");
    refused("trace 1000000\n", true, "more than 524288 entries");
}

/* ---- names ---- */

static bool function_at(void *ctx, size_t i, const char **name, struct states_range *range)
{
    static const struct {
        const char *name;
        struct states_range range;
    } all[] = {{"schedule", {0x1000, 0x10ff}},
               {"memcpy", {0x2000, 0x20ff}},
               {"memset.isra.0", {0x3000, 0x30ff}},
               {"main", {1, 0}}};
    (void)ctx;
    if (i >= ARRAY_LEN(all))
        return false;
    *name = all[i].name;
    *range = all[i].range;
    return true;
}

static bool symbol_named(void *ctx, const char *name, uint64_t *address)
{
    (void)ctx;
    *address = 0x5000;
    return strcmp(name, "jiffies") == 0;
}
static const struct states_symbols symbols = {.function = function_at, .symbol = symbol_named};

static void names(void **state)
{
    (void)state;
    struct strbuf said = {0};
    struct states_program *p = parsed("pattern a mode=kernel pc=memcpy,schedulex\nstate s\n");
    diag_hold(&said);
    assert_int_equal(states_resolve(p, &symbols), -1);
    diag_hold(NULL);
    assert_non_null(strstr(said.data, "x:1:33: there is no function 'schedulex'; the nearest: schedule"));
    str_free(&said);
    states_free(p);
}

static struct states_masks match(const struct states_program *p, uint64_t pc, bool is_kernel, const char *name)
{
    const struct states_place place = {.pc = pc,
                                       .function = pc & ~0xffull,
                                       .function_name = name,
                                       .bytes = (const uint8_t *)"\x48\x01\xd8",
                                       .len = 3,
                                       .classes = 1 << 5,
                                       .mark = -1,
                                       .is_kernel = is_kernel};
    return states_match(p, &place);
}

static void masks(void **state)
{
    (void)state;
    struct states_program *p = parsed("pattern a pc=memcpy\npattern b in=memset,main\npattern c bytes=4.01\n"
                                      "pattern d class=loads\npattern e mode=user process=x\n"
                                      "pattern f access=write address=jiffies\npattern g access=any in=memcpy\n"
                                      "pattern h in=0x2010..0x201f\nstate s\n");
    assert_non_null(p);
    assert_int_equal(states_resolve(p, &symbols), 0);
    struct states_masks m = match(p, 0x2000, true, "memcpy");
    assert_int_equal(m.sure, 1 << 0 | 1 << 2);
    assert_int_equal(m.maybe, 0);
    assert_int_equal(m.access, 1 << 6);
    assert_int_equal(m.access_maybe, 1 << 5);
    assert_int_equal(match(p, 0x2010, true, "memcpy").sure, 1 << 2 | 1 << 7);
    assert_int_equal(match(p, 0x3080, true, "memset.isra.0").sure, 1 << 1 | 1 << 2);
    m = match(p, 0x400010, false, "main");
    assert_int_equal(m.sure, 1 << 1 | 1 << 2);
    assert_int_equal(m.maybe, 1 << 4);
    struct states_event e = {.address = 0x5004, .stores = true};
    assert_int_equal(states_decide(p, 1 << 5, true, &e, UINT64_MAX), 1 << 5);
    e.stores = false;
    assert_int_equal(states_decide(p, 1 << 5, true, &e, UINT64_MAX), 0);
    assert_int_equal(states_decide(p, 1 << 4, false, &e, states_processes(p, "x")), 1 << 4);
    assert_int_equal(states_decide(p, 1 << 4, false, &e, states_processes(p, "y")), 0);
    states_free(p);
}

/* ---- an interpreter, of the text of the rules alone ---- */

enum { PATTERNS = 4, STATES = 5, COUNTERS = 3, TIMERS = 2, EVENTS = 3000 };

struct naive {
    int state;
    uint64_t count[COUNTERS], time[TIMERS], begin[TIMERS], traced;
    bool on[TIMERS];
};

static void naive_step(struct naive *n, const struct states_program *p, uint64_t matched, uint64_t now)
{
    const struct states_state *s = &p->states.data[n->state];
    int next = -1;
    bool taken = false;
    for (size_t i = 0; i < s->transitions.len; i++) {
        const struct states_transition *t = &s->transitions.data[i];
        bool fits = (matched >> t->pattern & 1) != 0;
        if (fits == t->is_negated)
            continue;
        if (taken && !t->also)
            continue;
        taken = true;
        for (int k = 0; k < t->action_count; k++) {
            int on = t->actions[k].on - COUNTERS;
            if (t->actions[k].what == STATES_COUNT)
                n->count[t->actions[k].on]++;
            if (t->actions[k].what == STATES_KEEP)
                n->traced++;
            if (t->actions[k].what == STATES_START && !n->on[on]) {
                n->on[on] = true;
                n->begin[on] = now;
            }
            if (t->actions[k].what == STATES_STOP && n->on[on]) {
                n->on[on] = false;
                n->time[on] += now - n->begin[on];
            }
        }
        if (next < 0)
            next = t->next;
    }
    n->state = next >= 0 ? next : n->state;
}

static void put_random(struct strbuf *out, struct rng *g)
{
    str_puts(out, "pattern p0\npattern p1\npattern p2\npattern p3\ncounter c0 c1 c2\ntimer t0 t1\n");
    for (int s = 0; s < STATES; s++) {
        str_printf(out, "state s%d\n", s);
        for (uint64_t n = rng_below(g, 5); n; n--) {
            str_printf(out, "%son %sp%d", rng_below(g, 3) ? "" : "also ", rng_below(g, 4) ? "" : "not ",
                       (int)rng_below(g, PATTERNS));
            for (uint64_t k = rng_below(g, 3); k; k--)
                switch (rng_below(g, 4)) {
                case 0:
                    str_printf(out, " count c%d", (int)rng_below(g, COUNTERS));
                    break;
                case 1:
                    str_printf(out, " start t%d", (int)rng_below(g, TIMERS));
                    break;
                case 2:
                    str_printf(out, " stop t%d", (int)rng_below(g, TIMERS));
                    break;
                default:
                    str_puts(out, " trace");
                }
            if (rng_below(g, 2))
                str_printf(out, " goto s%d", (int)rng_below(g, STATES));
            str_puts(out, "\n");
        }
    }
}

static void random_programs(void **state)
{
    (void)state;
    struct rng g = {11};
    for (int round = 0; round < 200; round++) {
        struct strbuf text = {0};
        struct naive n = {.state = 0};
        put_random(&text, &g);
        struct states_program *p = parsed(text.data);
        assert_non_null(p);
        struct states_machine *m = states_new(p);
        for (uint64_t now = 1; now < EVENTS; now++) {
            const struct states_now at = {.instructions = now};
            uint64_t matched = rng_below(&g, 1 << PATTERNS);
            naive_step(&n, p, matched, now);
            states_step(m, matched, false, &at);
        }
        size_t traced;
        uint64_t lost;
        states_trace(m, &traced, &lost);
        for (size_t i = 0; i < COUNTERS; i++)
            assert_int_equal(states_counter(m, i), n.count[i]);
        for (size_t i = 0; i < TIMERS; i++)
            assert_int_equal(states_timer(m, COUNTERS + i)->instructions, n.time[i]);
        assert_int_equal(traced, n.traced);
        states_delete(m);
        states_free(p);
        str_free(&text);
    }
}

/* The state and the timer of a process wait while another runs. */
static void processes(void **state)
{
    (void)state;
    struct states_program *p = parsed("each process\npattern a\npattern b\ntimer t\nstate s\n on a start t goto r\n"
                                      "state r\n on b stop t goto s\n");
    struct states_machine *m = states_new(p);
    struct states_now now = {.instructions = 10};
    states_switch(m, 1, &now);
    states_step(m, 1, false, &now);
    now.instructions = 15;
    states_switch(m, 2, &now);
    states_step(m, 2, false, &now); /* of another process: nothing runs */
    now.instructions = 20;
    states_step(m, 1, false, &now);
    now.instructions = 100;
    states_switch(m, 1, &now);
    now.instructions = 102;
    states_step(m, 2, false, &now);
    assert_int_equal(states_timer(m, 0)->instructions, 5 + 2);
    assert_int_equal(states_timer(m, 0)->intervals, 1);
    states_delete(m);
    states_free(p);
}

/* A trigger begins the trace, a full one says what had no room, and halt ends all. */
static void traces(void **state)
{
    (void)state;
    struct states_program *p =
        parsed("trace 3\npattern a\npattern b\npattern c\ncounter n\nstate s\n on a count n trace\n"
               " on b trigger\n on c halt\n");
    struct states_machine *m = states_new(p);
    static const uint64_t events[] = {1, 1, 2, 1, 1, 1, 1, 4, 1};
    size_t count;
    uint64_t lost;
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        states_step(m, events[i], false,
                    &(struct states_now){.instructions = i, .reached = 16 * i, .bytes = 4, .kind = STATES_LOAD});
    const struct states_entry *e = states_trace(m, &count, &lost);
    assert_int_equal(count, 3);
    assert_int_equal(lost, 1);
    assert_int_equal(e[0].instructions, 3);
    assert_int_equal(e[0].reached, 48);
    assert_int_equal(e[0].bytes, 4);
    assert_int_equal(e[0].kind, STATES_LOAD);
    assert_true(states_traces(p));
    assert_int_equal(states_counter(m, 0), 6);
    states_delete(m);
    states_free(p);
}

static void traces_nothing(void **state)
{
    (void)state;
    struct states_program *p = parsed("pattern a\ncounter n\ntimer t\nstate s\n on a count n start t stop t goto s\n");
    assert_false(states_traces(p));
    states_free(p);
}

static void built_in(void **state)
{
    (void)state;
    const char *name, *text;
    size_t n = 0;
    for (; (text = states_shipped(n, &name)); n++) {
        struct states_program *p = states_parse(name, text, strlen(text), false);
        if (!p)
            fail_msg("%s is wrong", name);
        states_free(p);
    }
    assert_true(n >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),          cmocka_unit_test(names),     cmocka_unit_test(masks),
        cmocka_unit_test(random_programs), cmocka_unit_test(processes), cmocka_unit_test(traces),
        cmocka_unit_test(traces_nothing),  cmocka_unit_test(built_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
