/* SPDX-License-Identifier: Apache-2.0
 * A small result, read and summed up by hand: cycles, regions, idle time, figures; and files that lie. */
#include "cfg/cfg.h"
#include "monster/impl.h"
#include "result/result.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define COLUMNS "columns instructions operations loads stores stall_read stall_write fetch_misses\n"
static const char whole[] = "mtool-monster 1\nversion 0\nkernel 6.1\nshift 1\ncommand /bin/x y\nend 0 3\nclock 2508\n"
                            "machine small\ncaches 1K/64/1\nlevels L1:0:0\nwidth 1\nghz 0.5\nfuture thing\n"
                            "total user 600 700 0 50 0 0 0 0\ntotal kernel 500 550 0 40 0 300 0 0\n"
                            "process 7 600 700 0 50 0 0 0 0 500 550 0 40 0 300 0 0\tx y\n" COLUMNS
                            "function user 10 600 700 60 30 50 0 6\t/bin/x\tmain\n"
                            "function kernel ff 200 250 10 100 0 300 25\tkernel\tclear_page_rep\n"
                            "function kernel fe 100 100 50 50 40 0 0\tkernel\tmemcpy\n"
                            "function kernel fd 150 150 0 0 0 0 0\tkernel\tschedule\n"
                            "function kernel fc 50 50 0 0 0 0 3\tkernel\tdefault_idle.isra.0\n"
                            "whole\n";

static void sums(void **state)
{
    (void)state;
    struct monster_result *r = monster_parse("small", whole, sizeof whole - 1);
    assert_non_null(r);
    struct monster_sums s = monster_sum_up(r);
    assert_int_equal(s.mode[MONSTER_USER].cycles, 750);
    assert_int_equal(s.kernel_busy.cycles, 840);
    assert_int_equal(s.region[MONSTER_CLEAR].cycles, 550);
    assert_int_equal(s.region[MONSTER_COPY].cycles, 140);
    assert_int_equal(s.region[MONSTER_REST].cycles, 150);
    assert_int_equal(s.region[MONSTER_IDLE].cycles, 50);
    assert_true(fabs(monster_cpi(&s.region[MONSTER_CLEAR]) - 2.2) < 1e-9);
    assert_int_equal(s.idle_ns, 2508 - 2 * (1100 + WIRE_UNCOUNTED));
    assert_int_equal(s.idle_cycles, 50 + 300 / 2);
    assert_string_equal(r->processes.data[0].name, "x y");
    assert_int_equal(r->status, 3);
    monster_free(r);
}

/* Its functions as procedures, most memory time first; the idle loop is a stall of its own. */
static void as_a_profile(void **state)
{
    (void)state;
    struct monster_result *r = monster_parse("small", whole, sizeof whole - 1);
    struct prof_result *p = monster_profile(r);
    assert_non_null(p);
    assert_int_equal(p->object_count, 4);
    assert_string_equal(p->objects[0].function, "clear_page_rep");
    assert_true(fabs(p->objects[0].memory_s.value - 300 / 0.5e9) < 1e-15);
    assert_true(fabs(p->objects[0].ideal_s.high - 250 / 0.5e9) < 1e-15);
    assert_string_equal(p->objects[1].function, "main");
    assert_int_equal(p->objects[1].id, 1);
    assert_int_equal(p->objects[1].memory_ops, 90);
    assert_string_equal(p->objects[3].function, "schedule");
    assert_false(p->objects[3].is_significant);
    assert_true(fabs(p->actual_user_s.value - 750 / 0.5e9) < 1e-15);
    assert_true(fabs(p->actual_system_s.value - 840 / 0.5e9) < 1e-15);
    assert_true(fabs(p->overhead.value - 50.0 / 700) < 1e-12);
    uint64_t cycles = 0, idle = 0, of_objects = 0;
    for (size_t i = 0; i < p->stall_count; i++) {
        const struct prof_stall *s = &p->stalls[i];
        if (s->object != ID_NONE)
            of_objects += s->cycles;
        else if (strcmp(s->cause, "idle") == 0)
            idle += s->cycles;
        else
            cycles += s->cycles;
    }
    assert_int_equal(cycles, 50 + 340);
    assert_int_equal(of_objects, cycles);
    assert_int_equal(idle, 200);
    assert_int_equal(p->module_count, 2);
    assert_int_equal(p->coverage.memory_ops, 300);
    assert_string_equal(p->command[1], "y");
    assert_int_equal(p->exit_status, 3);
    assert_int_equal(p->warning_count, 1);
    assert_string_equal(p->warnings[0].id, "described-machine");
    prof_result_free(p);
    r->machine = NULL;
    assert_null(monster_profile(r));
    monster_free(r);
}

static void figure(const char *which, const char *wanted)
{
    struct strbuf out = {0};
    struct monster_result *r = monster_parse("small", whole, sizeof whole - 1);
    assert_int_equal(monster_put_figure(which, &r, 1, &out), 0);
    if (!strstr(out.data, wanted))
        fail_msg("figure %s: '%s' is not in\n%s", which, wanted, out.data);
    str_free(&out);
    monster_free(r);
}

static void figures(void **state)
{
    (void)state;
    figure("4", "       41.90       46.93       11.17\n");
    figure("6", "       11.17        7.82       30.73        0.00        8.38\n");
    figure("7", "        1.07        1.68\n");
    figure("8", "        1.40        2.20           -        1.00\n");
    figure("9", "block clear                     0.00      100.00        0.00        0.00\n");
    figure("10", "block copy                      0.00      100.00        0.00\n");
    figure("misses",
           "block clear                       25      125.00           0        0.00           0        0.00\n");
    figure("table1", "loads                               8.57       12.00\n");
    struct strbuf out = {0};
    struct monster_result *r = monster_parse("small", whole, sizeof whole - 1);
    assert_int_equal(monster_put_figure("11", &r, 1, &out), -1);
    monster_free(r);
}

/* Traces of two machines, the second one's as an older mtool wrote them. */
static const char traced[] = "mtool-monster 1\nversion 0\nkernel 6.1\nshift 0\ncommand /bin/x\nend 0 0\nclock 100\n"
                             "program all\ntraced 6 0\ntrace 0 401000 9 0 all instruction I 1000 3\n"
                             "trace 0 401000 9 7ffc8 all access L 2fc8 8\n"
                             "trace 1 401003 9 7ffd0 all access M 2fd0 4\ntrace 1 401003 9 7ffd0 all access W 2fd0 4\n"
                             "trace 2 401006 9 fee00 all access D fee00 4\ntrace 3 401009 9 7ffff all access S 2fff 1\n"
                             "program old\ntraced 1 2\ntrace 0 401000 9 0 all instruction\n"
                             "total user 4 4\ntotal kernel 0 0\ncolumns instructions\nwhole\n";

static void no_references(struct monster_result *r, const char *program, const char *wanted)
{
    struct strbuf out = {0}, said = {0};
    diag_hold(&said);
    assert_int_equal(monster_put_references(r, program, &out), -1);
    diag_hold(NULL);
    if (!strstr(said.data, wanted))
        fail_msg("'%s' is not in %s", wanted, said.data);
    str_free(&out);
    str_free(&said);
}

static void references(void **state)
{
    (void)state;
    struct strbuf out = {0}, json = {0};
    struct monster_result *r = monster_parse("traced", traced, sizeof traced - 1);
    assert_non_null(r);
    assert_int_equal(monster_put_references(r, "all", &out), 0);
    assert_string_equal(out.data, "I  1000,3\n L 2fc8,8\n M 2fd0,4\n S 2fff,1\n");
    no_references(r, "none", "no state machine 'none' ran; all, old");
    no_references(r, "old", "the trace of 'old' has no references");
    monster_put_json(r, &json);
    assert_non_null(strstr(json.data, "\"kind\": \"modified\""));
    assert_non_null(strstr(json.data, "\"kind\": null"));
    str_free(&out);
    str_free(&json);
    monster_free(r);
}

/* Functions of two programs and the kernel; calls within the one, and between them. */
static const char called[] = "mtool-monster 1\nversion 0\nkernel 6.1\nshift 0\ncommand /bin/x\nend 0 0\nclock 100\n"
                             "total user 600 0 0 0 0 0 0 0\ntotal kernel 500 0 0 0 0 0 0 0\n"
                             "columns instructions bytes\n"
                             "function user 0 5 0\t\t\n"
                             "function kernel ff 10 16\tkernel\tschedule\n"
                             "function user 10 100 16\t/bin/x\tmain\n"
                             "function user 20 100 16\t/bin/x\tfn_20\n"
                             "function user 30 100 16\t/bin/x\thelp.cold\n"
                             "function user 40 100 16\t/bin/x\tfn_41\n"
                             "function user 50 1 160\t/bin/x\tmain\n"
                             "function user 40 9 16\t/lib/y\tother\n"
                             "function user 44 9 16\t/usr/lib/y\tother\n"
                             "function user 48 9 16\t/lib/z\tfn_48\n"
                             "calls 4\ncall 2 5 50\ncall 2 4 5\ncall 7 2 1000\ncall 5 3 9\nwhole\n";

static void order(const char *program, enum monster_linker linker, const char *wanted)
{
    struct strbuf out = {0};
    struct monster_result *r = monster_parse("called", called, sizeof called - 1);
    assert_int_equal(monster_put_order(r, program, linker, &out), 0);
    assert_string_equal(strchr(out.data, '\n') + 1, wanted);
    str_free(&out);
    monster_free(r);
}

static void no_order(const char *text, size_t len, const char *program, const char *wanted)
{
    struct strbuf out = {0}, held = {0};
    struct monster_result *r = monster_parse("called", text, len);
    diag_hold(&held);
    assert_int_equal(monster_put_order(r, program, MONSTER_LLD, &out), -1);
    diag_hold(NULL);
    if (!strstr(held.data, wanted))
        fail_msg("'%s' is not in %s", wanted, held.data);
    str_free(&out);
    str_free(&held);
    monster_free(r);
}

/* What the calls say: main and fn_41 meet, then the unnamed fn_20 beside that, and help.cold at main's other end. A
 * name made of an address is none that a linker knows; one that there is twice stands once. */
static void orders(void **state)
{
    (void)state;
    order("x", MONSTER_LLD, "fn_41\nmain\nhelp.cold\n");
    order("/bin/x", MONSTER_GOLD,
          ".text.fn_41\n.text.hot.fn_41\n.text.startup.fn_41\n"
          ".text.main\n.text.hot.main\n.text.startup.main\n.text.unlikely.help\n");
    order("kernel", MONSTER_BFD,
          "SECTIONS\n{\n  .text.ordered :\n  {\n"
          "    *(.text.schedule .text.hot.schedule .text.startup.schedule)\n  }\n}\nINSERT BEFORE .text;\n");
    order("/lib/y", MONSTER_LLD, "other\n");
    no_order(called, sizeof called - 1, "y", "several programs 'y'");
    no_order(called, sizeof called - 1, "q", "program 'q' was executed; most was of: x, kernel");
    no_order(called, sizeof called - 1, "z", "stripped");
    no_order(whole, sizeof whole - 1, "x", "no calls");
    static const char bad[] = "mtool-monster 1\ncalls 1\ncall 0 1 5\nwhole\n";
    struct strbuf held = {0};
    diag_hold(&held);
    assert_null(monster_parse("bad", bad, sizeof bad - 1));
    diag_hold(NULL);
    str_free(&held);
}

static const char *shown(struct arena *a, const char *function) { return arena_printf(a, "<%s>", function); }

/* What is most of what can be told comes first: cycles, without a machine instructions. */
static void ranks(void **state)
{
    (void)state;
    static const char counted[] = "mtool-monster 1\nkernel 6\ncommand x\ncolumns instructions operations\n"
                                  "function user 10 90 90\t/bin/x\tcalls\n"
                                  "function user 20 80 100\t/bin/x\tturns\nwhole\n";
    static const char wide[] =
        "mtool-monster 1\nkernel 6\ncommand x\nmachine m\nwidth 4\nghz 1\ncolumns instructions operations stall_read\n"
        "function user 10 900 900 0\t/bin/x\tcalls\n"
        "function user 20 80 100 300\t/bin/x\tturns\nwhole\n";
    static const struct {
        const char *text, *first, *second;
    } cases[] = {{counted, "<calls>", "<turns>"}, {wide, "<turns>", "<calls>"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct strbuf out = {0};
        struct monster_result *r = monster_parse("ranks", cases[i].text, strlen(cases[i].text));
        assert_non_null(r);
        monster_put_text(r, 10, shown, &out);
        assert_null(strstr(out.data, " \n"));
        assert_true(strstr(out.data, cases[i].first) < strstr(out.data, cases[i].second));
        str_free(&out);
        monster_free(r);
    }
}

static void written(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct monster_result *r = monster_parse("called", called, sizeof called - 1);
    monster_put_json(r, &out);
    assert_non_null(strstr(out.data, "\"caller\": 7,"));
    str_free(&out);
    monster_put_text(r, 1, shown, &out);
    assert_non_null(strstr(out.data, "1,000  user    <other>, <main>\n  3 more pairs"));
    str_free(&out);
    monster_free(r);
}

/* Cut off at any byte it is refused, and any byte changed does no harm. */
static void bad_files(void **state)
{
    (void)state;
    struct strbuf held = {0};
    diag_hold(&held);
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        str_free(&held);
        assert_null(monster_parse("cut", whole, len));
        assert_non_null(strstr(held.data, len < sizeof "mtool-monster 1\n" - 1 ? "is no result" : "is not whole"));
    }
    for (size_t i = 0; i < sizeof whole - 1; i++) {
        char copy[sizeof whole];
        memcpy(copy, whole, sizeof whole);
        copy[i] = copy[i] == ' ' ? '\n' : ' ';
        struct monster_result *r = monster_parse("changed", copy, sizeof whole - 1);
        struct strbuf out = {0};
        if (r) {
            monster_put_text(r, 10, shown, &out);
            monster_put_json(r, &out);
        }
        str_free(&out);
        monster_free(r);
    }
    diag_hold(NULL);
    str_free(&held);
}

/* What was executed where: in files, by address. */
static void code_lines(void **state)
{
    (void)state;
    static const char head[] = "mtool-monster 1\ncommand /bin/x\n", end[] = "whole\n";
    static const struct {
        const char *lines;
        bool is_good;
    } cases[] = {{"code k\t/bin/x y\nexecuted 1000 10 7\nexecuted 1010 4 8\nstalled 1003 1 2 3 4 5 6\n", true},
                 {"executed 1000 10 7\n", false},
                 {"stalled 1000 1\n", false},
                 {"code k\t/bin/x\nexecuted 1000 10 7\nexecuted 100f 1 7\n", false},
                 {"code k\t/bin/x\nexecuted ffffffffffffffff 10 7\n", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct strbuf text = {0}, held = {0};
        str_printf(&text, "%s%s%s", head, cases[i].lines, end);
        diag_hold(&held);
        struct monster_result *r = monster_parse("code", text.data, text.len);
        diag_hold(NULL);
        assert_int_equal(r != NULL, cases[i].is_good);
        if (r) {
            const struct monster_code *c = &r->codes.data[0];
            assert_string_equal(c->path, "/bin/x y");
            assert_int_equal(c->executed.len, 2);
            assert_int_equal(c->executed.data[1].count, 8);
            assert_int_equal(c->stalled.data[0].stalls[WIRE_STALL_COUNT - 1], 6);
        }
        monster_free(r);
        str_free(&text);
        str_free(&held);
    }
}

/* Blocks 0 to 4, of which 1 and 2 are a loop, 3 one of its own; 0 also jumps over both. */
struct graph {
    struct cfg c;
    uint64_t counts[5], entries[2];
};
static void put_edge(struct graph *g, uint32_t from, uint32_t to, uint8_t kind)
{
    struct cfg_block *b = &g->c.blocks.data[from];
    if (!b->edge_count++)
        b->edge_first = (uint32_t)g->c.edges.len;
    VEC_PUSH(&g->c.edges, ((struct cfg_edge){.from = from, .to = to, .kind = kind}));
}

static void entries_of(bool skips, const uint64_t counts[5], uint64_t first, uint64_t second)
{
    struct graph g = {.entries = {77, 77}};
    static const uint32_t loops[] = {ID_NONE, 0, 0, 1, ID_NONE};
    memcpy(g.counts, counts, sizeof g.counts);
    for (uint32_t i = 0; i < 5; i++)
        VEC_PUSH(&g.c.blocks, ((struct cfg_block){.addr = 16 * i, .size = 16, .loop = loops[i]}));
    g.c.blocks.data[0].flags = CFG_BLOCK_ENTRY;
    VEC_PUSH(&g.c.funcs, ((struct cfg_func){.block_count = 5, .loop_count = 2}));
    VEC_PUSH(&g.c.loops, ((struct cfg_loop){.header = 1, .parent = ID_NONE, .depth = 1}));
    VEC_PUSH(&g.c.loops, ((struct cfg_loop){.header = 3, .parent = ID_NONE, .depth = 1}));
    put_edge(&g, 0, 1, CFG_EDGE_FALL);
    if (skips)
        put_edge(&g, 0, 4, CFG_EDGE_TAKEN);
    put_edge(&g, 1, 2, CFG_EDGE_FALL);
    put_edge(&g, 2, 1, CFG_EDGE_TAKEN);
    put_edge(&g, 2, 3, CFG_EDGE_FALL);
    put_edge(&g, 3, 3, CFG_EDGE_TAKEN);
    put_edge(&g, 3, 4, CFG_EDGE_FALL);
    put_edge(&g, 4, ID_NONE, CFG_EDGE_OUT);
    monster_entries(&g.c, g.counts, 0, g.entries);
    assert_int_equal(g.entries[0], first);
    assert_int_equal(g.entries[1], second);
    VEC_FREE(&g.c.blocks);
    VEC_FREE(&g.c.funcs);
    VEC_FREE(&g.c.loops);
    VEC_FREE(&g.c.edges);
}

static void entries(void **state)
{
    (void)state;
    entries_of(false, (const uint64_t[]){3, 30, 30, 90, 3}, 3, 3);
    entries_of(false, (const uint64_t[]){5, 5, 5, 5, 5}, 5, 5);
    /* how often both are skipped, no count of a block tells */
    entries_of(true, (const uint64_t[]){3, 30, 30, 90, 3}, PROF_UNKNOWN, PROF_UNKNOWN);
    /* counts that no run has */
    entries_of(false, (const uint64_t[]){31, 30, 30, 90, 31}, PROF_UNKNOWN, 31);
}

/* Pages by use: two of a program, one of which has all but the last part of use; one of the kernel's. */
static void pages(void **state)
{
    (void)state;
    struct strbuf text = {0}, out = {0};
    str_puts(&text, "mtool-monster 1\nmachine m\ncommand x\nmap real 1 1 1 1 1 1 4\nmap hop 1 1 1 1 1 1 4\n");
    static const struct {
        unsigned address, data[2], bins[2];
        const char *program;
    } table[] = {{0x4000, {900, 95}, {1, 2}, "x"}, {0x5000, {4, 1}, {1, 3}, "x"}, {0x1000, {70, 0}, {1, 2}, "kernel"}};
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        str_printf(&text, "page %x %u %u", table[i].address, table[i].data[0], table[i].data[1]);
        for (unsigned k = 2; k < 2 * WIRE_PAGE_PARTS; k++)
            str_puts(&text, " 0");
        str_printf(&text, " %u %u\t%s\n", table[i].bins[0], table[i].bins[1], table[i].program);
    }
    str_puts(&text, "whole\n");
    struct monster_result *r = monster_parse("pages", text.data, text.len);
    assert_non_null(r);
    assert_int_equal(r->pages.data[0].number[MONSTER_DATA], 1);
    assert_int_equal(r->pages.data[0].number[MONSTER_CODE], 0);
    assert_int_equal(r->pages.data[1].number[MONSTER_DATA], 2);
    assert_int_equal(r->pages.data[2].number[MONSTER_DATA], 1);
    monster_put_marks(r, &out);
    assert_string_equal(out.data, "4000 1 0 2100000000000000 0000000000000000 x\n"
                                  "5000 2 0 0000000000000000 0000000000000000 x\n"
                                  "1000 1 0 2000000000000000 0000000000000000 kernel\n");
    str_free(&out);
    out = (struct strbuf){0};
    assert_int_equal(monster_put_figure("13", &r, 1, &out), 0);
    static const char *const wanted[] = {
        "real, data\n", "    1      3  100.0    7.0  x.1 #.......  kernel.1 #.......  x.2 ........\n", "hop, data\n",
        "    2      2   99.5    6.5  x.1 #.......  kernel.1 #.......\n", "    3      1    0.5    0.0  x.2 ........\n"};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (!strstr(out.data, wanted[i]))
            fail_msg("'%s' is not in\n%s", wanted[i], out.data);
    str_free(&out);
    str_free(&text);
    monster_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),       cmocka_unit_test(as_a_profile), cmocka_unit_test(figures),
        cmocka_unit_test(orders),     cmocka_unit_test(ranks),        cmocka_unit_test(written),
        cmocka_unit_test(bad_files),  cmocka_unit_test(pages),        cmocka_unit_test(references),
        cmocka_unit_test(code_lines), cmocka_unit_test(entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
