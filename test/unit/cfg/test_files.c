/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of the system: every invariant on large real programs, next to nothing left unresolved, and dumps that are the
 * same twice. A file that is not installed is skipped. */
#include "help.h"

#include <stdlib.h>
#include <unistd.h>

static void check_file(const char *path, uint32_t tables_refused_most, uint32_t unresolved_most)
{
    if (access(path, R_OK) < 0)
        skip();
    struct fixture fx;
    fixture_open(&fx, path);
    uint32_t refused = 0, unresolved = 0;
    for (size_t k = 0; k < fx.c->funcs.len; k++) {
        refused += fx.c->funcs.data[k].reason == CFG_REASON_TABLE ||
                   fx.c->funcs.data[k].reason == CFG_REASON_SPLIT_INSN ||
                   fx.c->funcs.data[k].reason == CFG_REASON_UNDECODABLE;
        unresolved += fx.c->funcs.data[k].unresolved;
    }
    assert_true(refused <= tables_refused_most);
    assert_true(unresolved <= unresolved_most);
    fixture_close(&fx);
}

static void test_libc(void **state)
{
    (void)state;
    check_file("/lib/x86_64-linux-gnu/libc.so.6", 2, 4);
}

static void test_sqlite(void **state)
{
    (void)state;
    check_file("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0", 0, 0);
}

static void test_perl(void **state)
{
    (void)state;
    check_file("/usr/bin/perl", 0, 4);
}

static void test_busybox(void **state)
{
    (void)state;
    check_file("/usr/bin/busybox", 2, 4);
}

static void test_compiler(void **state)
{
    (void)state;
    check_file("/usr/lib/gcc/x86_64-linux-gnu/12/cc1", 0, 10);
}

/* The evaluation loop: every dispatch goes through one table, and stands in a loop. */
static void test_python(void **state)
{
    (void)state;
    if (access("/usr/bin/python3.11", R_OK) < 0)
        skip();
    struct fixture fx;
    fixture_open(&fx, "/usr/bin/python3.11");
    const struct cfg_func *f = func(&fx, "_PyEval_EvalFrameDefault");
    uint32_t jumps = 0, in_loop = 0;
    assert_int_equal(f->reason, CFG_REASON_OK);
    assert_int_equal(f->unresolved, 0);
    cfg_for_each_block(f, k) {
        const struct cfg_block *b = &fx.c->blocks.data[k];
        if (b->term != X86_JMP_IND)
            continue;
        jumps++;
        in_loop += b->loop != ID_NONE;
        assert_int_equal(fx.c->edges.data[b->edge_first].kind, CFG_EDGE_TABLE);
    }
    assert_true(jumps > 50 && in_loop > 50);
    fixture_close(&fx);
}

static char *dump_text(const struct cfg *c, enum cfg_dump_what what, bool json)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    cfg_dump(c, what, json, NULL, out);
    fclose(out);
    return text;
}

/* Brackets and quotes balance; no control characters. */
static void check_json(const char *s)
{
    int depth = 0;
    bool quoted = false;
    for (; *s; s++) {
        assert_true(*s == '\n' || (uint8_t)*s >= 0x20);
        if (quoted) {
            if (*s == '\\')
                s++;
            else if (*s == '"')
                quoted = false;
        } else if (*s == '"') {
            quoted = true;
        } else {
            depth += *s == '{' || *s == '[' ? 1 : *s == '}' || *s == ']' ? -1 : 0;
            assert_true(depth >= 0);
        }
    }
    assert_true(depth == 0 && !quoted);
}

static void test_dumps(void **state)
{
    (void)state;
    struct fixture fx[2];
    fixture_open(&fx[0], "tables-gcc-exec");
    fixture_open(&fx[1], "tables-gcc-exec");
    for (int what = 0; what < 3; what++)
        for (int json = 0; json < 2; json++) {
            char *a = dump_text(fx[0].c, (enum cfg_dump_what)what, json),
                 *b = dump_text(fx[1].c, (enum cfg_dump_what)what, json);
            assert_string_equal(a, b);
            assert_non_null(strstr(a, "labels"));
            if (json)
                check_json(a);
            free(a);
            free(b);
        }
    fixture_close(&fx[0]);
    fixture_close(&fx[1]);
}

int main(int argc, char **argv)
{
    fixture_dir = argc > 1 ? argv[1] : fixture_dir;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libc),    cmocka_unit_test(test_sqlite),   cmocka_unit_test(test_perl),
        cmocka_unit_test(test_busybox), cmocka_unit_test(test_compiler), cmocka_unit_test(test_python),
        cmocka_unit_test(test_dumps),
    };
    return cmocka_run_group_tests_name("cfg files", tests, NULL, NULL);
}
