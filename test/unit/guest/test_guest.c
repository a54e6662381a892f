/* SPDX-License-Identifier: Apache-2.0
 * Trees of files and their archive, read back; members of structs in a description of types made here. */
#include "guest/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/mtool-test-guest.XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    guest_remove_folder(folder);
    return 0;
}

static const struct guest_node *node(const struct guest_tree *t, const char *path)
{
    for (size_t i = 0; i < t->nodes.len; i++)
        if (strcmp(t->nodes.data[i].path, path) == 0)
            return &t->nodes.data[i];
    return NULL;
}

static void write_text(const char *path, const char *text)
{
    assert_int_equal(file_write_whole(path, text, strlen(text), 0640), 0);
}

/* A link in the middle of a path is in the tree, and what it leads to. */
static void links(void **state)
{
    (void)state;
    struct guest_tree *t = guest_tree_new();
    assert_int_equal(mkdir("real", 0700), 0);
    assert_int_equal(mkdir("real/deep", 0700), 0);
    write_text("real/deep/file", "text");
    assert_int_equal(symlink("real", "link"), 0);
    assert_int_equal(symlink("../link/deep/file", "real/again"), 0);
    assert_int_equal(guest_tree_add(t, "link/again"), 0);
    const char *root = folder + 1;
    char path[256];
    snprintf(path, sizeof path, "%s/link", root);
    assert_string_equal(node(t, path)->text, "real");
    snprintf(path, sizeof path, "%s/real/again", root);
    assert_int_equal(node(t, path)->kind, GUEST_LINK);
    snprintf(path, sizeof path, "%s/real/deep/file", root);
    assert_int_equal(node(t, path)->kind, GUEST_FILE);
    assert_int_equal(node(t, path)->mode, 0640);
    assert_true(guest_tree_has(t, arena_printf(t->arena, "/%s/real/deep", root)));
    assert_int_equal(guest_tree_add(t, "missing"), -1);
    guest_tree_free(t);
}

static void loops(void **state)
{
    (void)state;
    struct guest_tree *t = guest_tree_new();
    assert_int_equal(symlink("b", "a"), 0);
    assert_int_equal(symlink("a", "b"), 0);
    assert_int_equal(guest_tree_add(t, "a"), -1);
    guest_tree_free(t);
}

/* A program brings its interpreter and libraries. */
static void programs(void **state)
{
    (void)state;
    struct guest_tree *t = guest_tree_new();
    assert_int_equal(guest_tree_add(t, "/bin/sh"), 0);
    assert_int_equal(guest_tree_add_as(t, "/bin/sh", "/guest/own", 0755), 0);
    assert_int_equal(node(t, "guest/own")->changed, 0); /* when it was installed is no matter of the guest */
    bool has_libc = false, has_loader = false;
    for (size_t i = 0; i < t->programs.len; i++) {
        has_libc |= strstr(t->programs.data[i], "libc.so.6") != NULL;
        has_loader |= strstr(t->programs.data[i], "ld-linux") != NULL;
    }
    assert_true(has_libc && has_loader);
    assert_true(guest_tree_has(t, "/lib64/ld-linux-x86-64.so.2") || guest_tree_has(t, "/lib64"));
    guest_tree_free(t);
}

static unsigned hex(const char *at)
{
    char digits[9] = "";
    memcpy(digits, at, 8);
    return (unsigned)strtoul(digits, NULL, 16);
}

/* Every entry is where the one before says, parents come before what is in them, and the end is marked. */
/* A script brings what its first line names, and what env is to look for; what is not there is nobody's error. */
static void scripts(void **state)
{
    (void)state;
    static const char *const heads[] = {"#!/usr/bin/env own-interpreter\n",
                                        "#! /usr/bin/env -S A=1 own-interpreter -x\n",
                                        "#!/usr/bin/env nobody-has-this\n", "#!/usr/bin/env\n", "#!/not/there\n"};
    char path[256], own[300];
    snprintf(path, sizeof path, "%s/tools", folder);
    snprintf(own, sizeof own, "%s/own-interpreter", path);
    assert_int_equal(mkdir(path, 0755), 0);
    write_text(own, "an interpreter");
    assert_int_equal(chmod(own, 0755), 0);
    char *before = xstrdup(getenv("PATH"));
    setenv("PATH", path, 1);
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        struct guest_tree *t = guest_tree_new();
        write_text("script", heads[i]);
        assert_int_equal(guest_tree_add(t, "script"), 0);
        assert_int_equal(guest_tree_has(t, own), i < 2);
        guest_tree_free(t);
    }
    setenv("PATH", before, 1);
    free(before);
}

static void archive(void **state)
{
    (void)state;
    struct guest_tree *t = guest_tree_new();
    struct file_bytes f;
    guest_tree_add_text(t, "/z/y/text", "abcde", 5);
    guest_tree_add_link(t, "/a/link", "/z");
    assert_int_equal(guest_archive_write(t, "archive"), 0);
    assert_int_equal(file_map("archive", &f), 0);
    static const char *const names[] = {"a", "a/link", "z", "z/y", "z/y/text", "TRAILER!!!"};
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *head = (const char *)f.data + at;
        assert_memory_equal(head, "070701", 6);
        assert_int_equal(hex(head + 94), strlen(names[i]) + 1);
        assert_string_equal(head + 110, names[i]);
        size_t data = ALIGN_UP(at + 110 + strlen(names[i]) + 1, (size_t)4), len = hex(head + 54);
        if (i == 4)
            assert_memory_equal(f.data + data, "abcde", 5);
        if (i == 1)
            assert_memory_equal(f.data + data, "/z", 2);
        at = ALIGN_UP(data + len, (size_t)4);
    }
    assert_int_equal(at, f.len);
    file_unmap(&f);
    guest_tree_free(t);
}

static void types(void **state)
{
    (void)state;
    static const char strings[] = "\0int\0task_struct\0pid\0comm\0other";
    enum { INT = 1, TASK = 5, PID = 17, NAME = 21, OTHER = 26 };
    const uint32_t words[] = {
        0x0001eb9f, 24,
        0,          19 * 4,
        19 * 4,     sizeof strings, /* head */
        INT,        1u << 24,
        4,          32, /* int */
        OTHER,      4u << 24 | 1,
        8,          PID,
        1,          24, /* struct other { pid at 3 } */
        TASK,       4u << 24 | 2,
        32,         PID,
        1,          64,
        NAME,       1,
        128, /* struct task_struct { pid at 8, comm at 16 } */
    };
    uint8_t bytes[sizeof words + sizeof strings];
    memcpy(bytes, words, sizeof words);
    memcpy(bytes + sizeof words, strings, sizeof strings);
    assert_int_equal(guest_types_offset(bytes, sizeof bytes, "task_struct", "pid"), 8);
    assert_int_equal(guest_types_offset(bytes, sizeof bytes, "task_struct", "comm"), 16);
    assert_int_equal(guest_types_offset(bytes, sizeof bytes, "other", "pid"), 3);
    assert_true(guest_types_offset(bytes, sizeof bytes, "other", "comm") == UINT64_MAX);
    for (size_t len = 0; len < sizeof bytes; len++) /* cut off anywhere: nothing is found, or what is there */
        guest_types_offset(bytes, len, "task_struct", "comm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links),   cmocka_unit_test(loops), cmocka_unit_test(programs),
        cmocka_unit_test(archive), cmocka_unit_test(types), cmocka_unit_test(scripts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
