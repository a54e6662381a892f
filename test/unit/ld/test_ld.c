/* SPDX-License-Identifier: Apache-2.0
 * Linkers' command lines, and archives: read, written, and cut off at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "ld/impl.h"

struct parsed {
    struct arena *arena;
    struct ld_line line;
    struct strbuf inputs; /* their words, with a comma behind each */
};

static struct parsed parse(const char *const *words)
{
    struct parsed p = {.arena = arena_new()};
    ld_line_parse(p.arena, words, &p.line);
    for (size_t i = 0; i < p.line.inputs.len; i++)
        str_printf(&p.inputs, "%s,", p.line.args.data[p.line.inputs.data[i].arg]);
    return p;
}

static void done(struct parsed *p)
{
    str_free(&p->inputs);
    ld_line_free(&p->line);
    arena_free(p->arena);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_values_are_no_inputs(void **state)
{
    (void)state;
    struct parsed p =
        parse(WORDS("-o", "out", "a.o", "-m", "elf_x86_64", "-dynamic-linker", "/lib/ld.so", "-z", "now", "b.o",
                    "--version-script", "map", "-Map=file", "-T", "script", "-rpath", "/x", "-soname", "s", "-e",
                    "main", "--hash-style=gnu", "c.a", "-plugin", "p.so", "-plugin-opt=-pass"));
    assert_string_equal(p.inputs.data, "a.o,b.o,c.a,");
    assert_string_equal(p.line.output, "out");
    assert_true(p.line.links && !p.line.is_partial && !p.line.is_shared);
    done(&p);
}

static void test_tools_by_name(void **state)
{
    struct strbuf said = {0};
    (void)state;
    for (size_t i = 0; i < LD_TOOL_COUNT; i++) {
        assert_int_equal(ld_tools[i].id, i);
        assert_ptr_equal(ld_tool_named(ld_tools[i].name), &ld_tools[i]);
    }
    diag_hold(&said);
    assert_null(ld_tool_named("guess"));
    diag_hold(NULL);
    for (size_t i = 0; i < LD_TOOL_COUNT; i++)
        assert_non_null(strstr(said.data, ld_tools[i].name));
    str_free(&said);
}

static void test_kinds_of_links(void **state)
{
    (void)state;
    struct parsed p = parse(WORDS("-r", "a.o")), q = parse(WORDS("-shared", "a.o", "--output=x")),
                  v = parse(WORDS("-v"));
    assert_true(p.line.is_partial && !p.line.is_shared);
    assert_string_equal(p.line.output, "a.out");
    assert_true(q.line.is_shared && !q.line.is_partial);
    assert_string_equal(q.line.output, "x");
    assert_false(v.line.links);
    done(&p), done(&q), done(&v);
}

static void put_file(const char *path, const char *text)
{
    assert_int_equal(file_write_whole(path, text, strlen(text), 0600), 0);
}

static char folder[] = "/tmp/mtool-test-ld.XXXXXX";

static void test_libraries_are_found(void **state)
{
    (void)state;
    assert_int_equal(chdir(folder), 0);
    put_file("libone.a", "x"), put_file("libone.so", "x"), put_file("libtwo.a", "x"), put_file("exact.a", "x");
    struct parsed p = parse(WORDS("-lone", "--push-state", "-Bstatic", "-lone", "--pop-state", "-l", "one", "-ltwo",
                                  "-l:exact.a", "-lnone", "-L.", "--whole-archive", "-ltwo"));
    const char *wanted[] = {"./libone.so", "./libone.a", "./libone.so", "./libtwo.a", "./exact.a", NULL, "./libtwo.a"};
    assert_int_equal(p.line.inputs.len, ARRAY_LEN(wanted));
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        if (wanted[i])
            assert_string_equal(p.line.inputs.data[i].path, wanted[i]);
        else
            assert_null(p.line.inputs.data[i].path);
        assert_true(p.line.inputs.data[i].is_library);
        assert_int_equal(p.line.inputs.data[i].is_whole, i + 1 == ARRAY_LEN(wanted));
    }
    done(&p);
}

static void test_response_files(void **state)
{
    (void)state;
    assert_int_equal(chdir(folder), 0);
    put_file("inner", "b.o 'c d.o'");
    put_file("outer", "a.o @inner \"e\\\"f.o\"\n-o  out g\\ h.o");
    struct parsed p = parse(WORDS("@outer", "@missing"));
    assert_string_equal(p.inputs.data, "a.o,b.o,c d.o,e\"f.o,g h.o,@missing,");
    assert_string_equal(p.line.output, "out");
    done(&p);
}

/* ---- archives ---- */

static void put_archive(const char *path)
{
    struct strbuf out = {0};
    struct ld_archive ar = {0};
    static const char *const names[] = {"one.o/", "two.o/", "odd.o/"}, *const data[] = {"first", "second", "3"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *header = xmalloc(80);
        snprintf(header, 80, "%-16s%-12s%-6s%-6s%-8s%-10u`\n", names[i], "0", "0", "0", "644",
                 (unsigned)strlen(data[i]) % 100);
        VEC_PUSH(&ar.members, ((struct ld_member){.name = names[i],
                                                  .header = (const uint8_t *)header,
                                                  .data = (const uint8_t *)data[i],
                                                  .len = strlen(data[i])}));
    }
    VEC_PUSH(&ar.symbols, ((struct ld_symbol){"alpha", 0}));
    VEC_PUSH(&ar.symbols, ((struct ld_symbol){"gamma", 2}));
    ld_archive_write(&ar, &out);
    assert_int_equal(file_write_whole(path, out.data, out.len, 0600), 0);
    for (size_t i = 0; i < ar.members.len; i++)
        free((void *)(uintptr_t)ar.members.data[i].header);
    VEC_FREE(&ar.members);
    VEC_FREE(&ar.symbols);
    str_free(&out);
}

static void test_an_archive_comes_back(void **state)
{
    (void)state;
    assert_int_equal(chdir(folder), 0);
    put_archive("x.a");
    struct arena *a = arena_new();
    struct ld_archive ar;
    const char *why;
    assert_int_equal(ld_archive_open(a, "x.a", &ar, &why), 0);
    assert_int_equal(ar.members.len, 3);
    assert_string_equal(ar.members.data[1].name, "two.o");
    assert_memory_equal(ar.members.data[2].data, "3", 1);
    assert_int_equal(ar.symbols.len, 2);
    assert_string_equal(ar.symbols.data[1].name, "gamma");
    assert_int_equal(ar.symbols.data[1].member, 2);
    ar.members.data[0].instead = "longer than it was";
    ar.members.data[0].instead_len = strlen("longer than it was");
    struct strbuf out = {0};
    ld_archive_write(&ar, &out);
    assert_int_equal(file_write_whole("y.a", out.data, out.len, 0600), 0);
    ld_archive_close(&ar);
    assert_int_equal(ld_archive_open(a, "y.a", &ar, &why), 0);
    assert_int_equal(ar.members.data[0].len, strlen("longer than it was"));
    assert_memory_equal(ar.members.data[1].data, "second", 6);
    ld_archive_close(&ar);
    str_free(&out);
    arena_free(a);
}

static void test_archives_that_are_cut_or_corrupt(void **state)
{
    (void)state;
    assert_int_equal(chdir(folder), 0);
    put_archive("x.a");
    struct file_bytes whole;
    assert_int_equal(file_map("x.a", &whole), 0);
    struct arena *a = arena_new();
    struct rng rng = {.state = 7};
    unsigned refused = 0;
    for (size_t n = 0; n < 2000; n++) {
        uint8_t *bytes = xmalloc(whole.len);
        size_t len = n < whole.len - 8 ? n + 8 : whole.len;
        memcpy(bytes, whole.data, whole.len);
        if (len == whole.len)
            bytes[8 + rng_below(&rng, len - 8)] = (uint8_t)rng_next(&rng);
        assert_int_equal(file_write_whole("cut.a", bytes, len, 0600), 0);
        struct ld_archive ar;
        const char *why = NULL;
        if (ld_archive_open(a, "cut.a", &ar, &why) == 0)
            ld_archive_close(&ar);
        else
            refused += *why != 0;
        free(bytes);
    }
    assert_true(refused > whole.len / 2);
    file_unmap(&whole);
    arena_free(a);
}

static void test_no_object_is_none(void **state)
{
    (void)state;
    struct ld_resolver *r = ld_resolver_new();
    uint8_t bytes[64] = {0x7f, 'E', 'L', 'F'};
    assert_false(ld_resolver_add(r, bytes, sizeof bytes));
    assert_false(ld_resolver_add(r, bytes, 3));
    assert_false(ld_resolver_wants(r, "anything"));
    ld_resolver_free(r);
}

/* ---- what is kept ---- */

static char *text_of(const char *path)
{
    struct file_bytes f;
    assert_int_equal(file_map(path, &f), 0);
    char *text = xmalloc(f.len + 1);
    memcpy(text, f.data, f.len);
    file_unmap(&f);
    return text;
}

static void test_hashes_differ(void **state)
{
    (void)state;
    uint8_t bytes[300];
    char first[LD_HASH], other[LD_HASH];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    ld_hash(bytes, sizeof bytes, first);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        ld_hash(bytes, sizeof bytes, other);
        assert_string_not_equal(first, other);
        bytes[i] ^= 1;
        ld_hash(bytes, i, other);
        assert_string_not_equal(first, other);
    }
    ld_hash(bytes, sizeof bytes, other);
    assert_string_equal(first, other);
}

static void test_what_is_kept_comes_back(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const struct rewrite_relocatable_options opt = {.tool = REWRITE_RELOCATABLE_COUNTS}, locked = {.locked = true};
    char key[LD_HASH], other[LD_HASH];
    setenv("XDG_CACHE_HOME", folder, 1);
    ld_cache_key("content", "name", &opt, key);
    ld_cache_key("content", "name", &locked, other);
    assert_string_not_equal(key, other);
    ld_cache_key("content", "another", &opt, other);
    assert_string_not_equal(key, other);
    const struct ld_part parts[3] = {
        {.is_known = true, .is_new = true, .funcs = 3, .funcs_moved = 2, .counters = 9, .left = "one\ntwo\n"},
        {.is_known = false, .funcs = 1},
        {.is_known = true, .left = ""}};
    struct ld_part got[3] = {{0}};
    struct strbuf bytes = {0};
    struct file_bytes copy = {0};
    const char *path;
    str_puts(&bytes, "rewritten");
    const char *kept = ld_cache_keep(a, key, "a.o", parts, 3, &bytes);
    ld_cache_find(a, key, "a.o", got, 3, &path, &copy);
    assert_string_equal(kept, path);
    assert_int_equal(copy.len, bytes.len);
    assert_true(got[0].is_known && got[0].is_new && got[0].funcs == 3 && got[0].funcs_moved == 2);
    assert_int_equal(got[0].counters, 9);
    assert_string_equal(got[0].left, "one\ntwo\n");
    assert_false(got[1].is_known);
    assert_true(got[2].is_known && !got[2].is_new);
    file_unmap(&copy);

    const char *text_path = arena_printf(a, "%s/mtool/objects/%s", folder, key);
    char *text = text_of(text_path);
    for (size_t len = 0; len < strlen(text); len++) { /* but for the newline at its end, nothing may be missing */
        assert_int_equal(file_write_whole(text_path, text, len, 0600), 0);
        ld_cache_find(a, key, "a.o", got, 3, &path, &copy);
        assert_true(len == strlen(text) - 1 || (!path && !got[0].is_known && !got[2].is_known));
        if (path)
            file_unmap(&copy);
    }
    assert_int_equal(file_write_whole(text_path, text, strlen(text), 0600), 0);
    ld_cache_find(a, key, "a.o", got, 2, &path, &copy); /* of fewer parts than it has */
    assert_null(path);
    assert_int_equal(file_write_whole(kept, "rewrittem", 9, 0600), 0);
    ld_cache_find(a, key, "a.o", got, 3, &path, &copy);
    assert_null(path);
    assert_false(got[0].is_known);
    assert_null(ld_cache_keep(a, key, "a.o", parts + 1, 2, NULL));
    ld_cache_find(a, key, "a.o", got, 2, &path, &copy);
    assert_true(!path && got[1].is_known && !got[1].is_new);
    unlink(kept), unlink(text_path), rmdir(arena_strndup(a, kept, strlen(kept) - strlen("/a.o")));
    rmdir(arena_printf(a, "%s/mtool/objects", folder)), rmdir(arena_printf(a, "%s/mtool", folder));
    free(text);
    str_free(&bytes);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_no_inputs),
        cmocka_unit_test(test_tools_by_name),
        cmocka_unit_test(test_kinds_of_links),
        cmocka_unit_test(test_libraries_are_found),
        cmocka_unit_test(test_response_files),
        cmocka_unit_test(test_an_archive_comes_back),
        cmocka_unit_test(test_archives_that_are_cut_or_corrupt),
        cmocka_unit_test(test_no_object_is_none),
        cmocka_unit_test(test_hashes_differ),
        cmocka_unit_test(test_what_is_kept_comes_back),
    };
    assert_non_null(mkdtemp(folder));
    int failed = cmocka_run_group_tests_name("ld", tests, NULL, NULL);
    static const char *const files[] = {"libone.a", "libone.so", "libtwo.a", "exact.a", "inner",
                                        "outer",    "x.a",       "y.a",      "cut.a"};
    for (size_t i = 0; i < ARRAY_LEN(files) && chdir(folder) == 0; i++)
        unlink(files[i]);
    rmdir(folder);
    return failed;
}
