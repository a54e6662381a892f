/* SPDX-License-Identifier: Apache-2.0
 * Source places of a small program: lines, what was inlined where, and debug files apart from the program. */
#include "toy.h"

#include <elf.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    LINE_INNER = 103,
    LINE_INNER_LAST = 104,
    LINE_OUTER = 111,
    LINE_OUTER_LAST = 112
}; /* of fixture.c's sum_row and sum_all */

static uint64_t symbol(const struct image *img, const char *name)
{
    for (size_t i = 0; i < img->symbol_count; i++)
        if (strcmp(img->symbols[i].name, name) == 0)
            return img->symbols[i].addr;
    return 0;
}

static struct prof_result *join_sum_all(struct toy *t, const char *path)
{
    toy_read(t, path);
    uint64_t addr = 0;
    struct image *full;
    assert_int_equal(image_open(FIXTURE, &full), 0);
    addr = symbol(full, "sum_all"); /* the stripped one has no such symbol */
    image_close(full);
    uint32_t func = cfg_func_at(t->map.cfg, addr);
    const struct cfg_func *f = &t->map.cfg->funcs.data[func];
    cfg_for_each_block(f, b)
        toy_set(t, b, 100);
    struct observed_sample sample = {0, f->addr, 7};
    struct prof_input in = {
        .modules = &t->module, .module_count = 1, .want_blocks = true, .samples = &sample, .sample_count = 1};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    return r;
}

static const struct prof_object *object_named(const struct prof_result *r, const char *function, enum prof_kind kind)
{
    for (size_t i = 0; i < r->object_count; i++)
        if (r->objects[i].kind == kind && strcmp(r->objects[i].function, function) == 0)
            return &r->objects[i];
    return NULL;
}

static void check_places(const struct prof_result *r)
{
    const struct prof_object *inner = object_named(r, "sum_row (inlined in sum_all)", PROF_LOOP);
    const struct prof_object *outer = object_named(r, "sum_all", PROF_LOOP),
                             *proc = object_named(r, "sum_all", PROF_PROCEDURE);
    assert_non_null(inner);
    assert_non_null(outer);
    assert_non_null(proc);
    assert_string_equal(file_base_name(inner->file), "fixture-lines.c");
    assert_int_equal(inner->file[0], '/'); /* the line table has it from the folder of the compilation */
    assert_in_range(inner->line_first, LINE_INNER, LINE_INNER_LAST);
    assert_int_equal(inner->line_last, LINE_INNER_LAST);
    assert_in_range(outer->line_first, LINE_OUTER, LINE_OUTER_LAST);
    assert_int_equal(outer->line_last, LINE_OUTER_LAST);
    assert_in_range(proc->line_first, 108, 110);
    assert_in_range(proc->line_last, 113, 114);
}

/* Lines hold every instruction once. */
static void check_sums(const struct prof_result *r)
{
    uint64_t instructions = 0, memory_ops = 0, samples = 0;
    for (size_t i = 0; i < r->line_count; i++) {
        instructions += r->lines[i].instructions, memory_ops += r->lines[i].memory_ops, samples += r->lines[i].samples;
        assert_string_equal(file_base_name(r->lines[i].file), "fixture-lines.c");
    }
    assert_int_equal(samples, 7);
    assert_in_range(instructions, r->coverage.instructions_counted * 3 / 4,
                    r->coverage.instructions_counted); /* compilers give some no line */
    assert_in_range(memory_ops, r->coverage.memory_ops * 3 / 4, r->coverage.memory_ops);
    for (size_t i = 0; i < r->block_count; i++) {
        assert_string_equal(r->blocks[i].function, "sum_all");
        if (r->blocks[i].line) /* clang leaves whole blocks without */
            assert_string_equal(file_base_name(r->blocks[i].file), "fixture-lines.c");
    }
}

static void test_inlined(void **state)
{
    (void)state;
    struct toy t;
    struct prof_result *r = join_sum_all(&t, FIXTURE);
    check_places(r);
    check_sums(r);
    prof_result_free(r);
    toy_fini(&t);
}

struct told {
    const struct image *whole;
    size_t same, others; /* than its own symbols */
};
static void take_symbol(void *ctx, uint64_t address, const char *name)
{
    struct told *t = ctx;
    bool is_own = false;
    for (size_t i = 0; i < t->whole->symbol_count; i++)
        is_own |= t->whole->symbols[i].addr == address && strcmp(t->whole->symbols[i].name, name) == 0;
    t->same += is_own;
    t->others += !is_own;
}

/* Functions that were stripped off have their names apart. */
static void check_symbols(const char *path, const char *root)
{
    struct told told = {.whole = NULL};
    struct image *whole;
    size_t wanted = 0;
    assert_int_equal(image_open(FIXTURE, &whole), 0);
    for (size_t i = whole->dynsym_count; i < whole->symbol_count; i++)
        wanted += whole->symbols[i].type == STT_FUNC && whole->symbols[i].shndx != SHN_UNDEF;
    told.whole = whole;
    debug_symbols_each(path, root, take_symbol, &told);
    assert_true(wanted > 0);
    assert_int_equal(told.same, wanted);
    assert_int_equal(told.others, 0);
    image_close(whole);
}

static void take_none(void *ctx, uint64_t address, const char *name)
{
    (void)ctx, (void)address;
    fail_msg("%s is named", name);
}

/* A stripped program, its debug file beside it, then under a root of build ids; another program's is not taken. */
static void test_apart(void **state)
{
    (void)state;
    char dir[] = "/tmp/mtool-lines-XXXXXX", cmd[4096];
    assert_non_null(mkdtemp(dir));
    snprintf(cmd, sizeof cmd,
             "cd %s && cp '%s' whole && objcopy --only-keep-debug whole p.debug && cp whole p && objcopy --strip-all "
             "--add-gnu-debuglink=p.debug p && mkdir root",
             dir, FIXTURE);
    assert_int_equal(system(cmd), 0);
    char path[512], root[512];
    snprintf(path, sizeof path, "%s/p", dir);
    snprintf(root, sizeof root, "%s/root", dir);
    struct toy t;
    struct prof_result *r = join_sum_all(&t, path);
    check_places(r);
    prof_result_free(r);
    char id[65];
    snprintf(id, sizeof id, "%s", t.img->build_id);
    toy_fini(&t);

    struct debug_file f;
    assert_int_not_equal(id[0], 0);
    snprintf(cmd, sizeof cmd, "cd %s && mkdir -p root/.build-id/%.2s && mv p.debug root/.build-id/%.2s/%s.debug", dir,
             id, id, id + 2);
    assert_int_equal(system(cmd), 0);
    assert_true(debug_file_open(path, root, &f));
    debug_file_close(&f);
    check_symbols(path, root);
    snprintf(cmd, sizeof cmd, "cd %s && objcopy --remove-section .note.gnu.build-id p q && cp whole p.debug", dir);
    assert_int_equal(system(cmd), 0);
    snprintf(path, sizeof path, "%s/q", dir);
    assert_false(debug_file_open(path, root, &f)); /* the link's checksum is another one */
    debug_symbols_each(path, root, take_none, NULL);
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    assert_int_equal(system(cmd), 0);
}

static void test_nothing_there(void **state)
{
    (void)state;
    struct file_names names = {0};
    assert_null(lines_open("/none", "/none", &names));
    assert_null(lines_open("/dev/null", "/none", &names));
    file_names_fini(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_inlined), cmocka_unit_test(test_apart),
                                       cmocka_unit_test(test_nothing_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
