/* SPDX-License-Identifier: Apache-2.0
 * Debug information that is compressed is unpacked once, and says what it says where it never was. The program is this
 * test itself. */
#include "toy.h"

#include "debug/debug.h"
#include "debug/unpacked.h"

#include <dirent.h>
#include <dwarf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], cache[128];

static void shell(const char *words)
{
    char all[1024];
    snprintf(all, sizeof all, "cd %s && %s", dir, words);
    assert_int_equal(system(all), 0);
}

static unsigned kept(char path[512])
{
    char folder[256];
    unsigned n = 0;
    snprintf(folder, sizeof folder, "%s/mtool/debug", cache);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            n++, snprintf(path, 512, "%s/%s", folder, e->d_name);
    if (d)
        closedir(d);
    return n;
}

/* Where some functions of this program begin, one text. */
static char *places(struct arena *a, const char *file)
{
    struct strbuf all = {0};
    char path[256];
    struct file_names names = {.arena = a};
    struct image *img;
    struct line_row row;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    struct lines *l = lines_open(path, "/none", &names);
    assert_non_null(l);
    assert_int_equal(image_open(path, &img), 0);
    for (size_t i = 0; i < img->symbol_count; i++)
        if (lines_at(l, img->symbols[i].addr, &row) && row.file != ID_NONE)
            str_printf(&all, "%s %s:%u\n", img->symbols[i].name, names.texts.data[row.file], row.line);
    image_close(img);
    lines_close(l);
    file_names_fini(&names);
    assert_non_null(strstr(all.data, "test_unpacked.c:"));
    char *text = arena_strndup(a, all.data, all.len);
    str_free(&all);
    return text;
}

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/mtool-unpacked-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(cache, sizeof cache, "%s/cache", dir);
    setenv("XDG_CACHE_HOME", cache, 1);
    unsetenv("MTOOL_CACHE_MB");
    char copy[256];
    snprintf(copy, sizeof copy, "cp /proc/%d/exe plain && chmod 700 plain", (int)getpid());
    shell(copy);
    shell("objcopy --decompress-debug-sections plain && objcopy --compress-debug-sections=zlib plain packed");
}

static void end(void)
{
    shell("rm -r cache plain packed");
    assert_int_equal(rmdir(dir), 0);
}

static void test_same_places(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    char path[512], again[512];
    struct stat first, second;
    begin();
    const char *wanted = places(a, "plain");
    assert_int_equal(kept(path), 0); /* nothing of it is compressed */
    assert_string_equal(places(a, "packed"), wanted);
    assert_int_equal(kept(path), 1);
    assert_int_equal(stat(path, &first), 0);
    assert_string_equal(places(a, "packed"), wanted);
    assert_int_equal(kept(again), 1);
    assert_int_equal(stat(again, &second), 0);
    assert_true(!strcmp(path, again) && first.st_ino == second.st_ino);
    /* what is kept is what is read: of another program, its unit */
    char kept_file[256], packed[128];
    struct debug_file f;
    Dwarf_CU *unit = NULL;
    Dwarf_Die die = {0};
    shell("echo 'int main(void) { return 0; }' >another.c && gcc -g -o kept another.c && rm another.c");
    snprintf(packed, sizeof packed, "%s/packed", dir);
    snprintf(kept_file, sizeof kept_file, "%s/kept", dir);
    assert_int_equal(rename(kept_file, path), 0);
    assert_true(debug_file_open(packed, "/none", &f));
    assert_int_equal(dwarf_get_units(f.dwarf, NULL, &unit, NULL, NULL, &die, NULL), 0);
    assert_string_equal(dwarf_diename(&die), "another.c");
    debug_file_close(&f);
    /* a file that cannot be used is not */
    shell("cp plain kept && strip --strip-debug kept");
    assert_int_equal(rename(kept_file, path), 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(debug_unpacked(fd), -1); /* and no such file is unpacked itself */
    close(fd);
    assert_string_equal(places(a, "packed"), wanted);
    assert_int_equal(truncate(path, 100), 0);
    assert_string_equal(places(a, "packed"), wanted);
    end();
    arena_free(a);
}

static void test_other_content(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    char path[512];
    begin();
    const char *wanted = places(a, "packed");
    shell("objcopy --compress-debug-sections=zlib plain other && mv other packed");
    assert_string_equal(places(a, "packed"), wanted);
    assert_int_equal(kept(path), 2); /* another file by its name has another copy */
    end();
    arena_free(a);
}

static void test_nowhere_to_keep(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    char path[512];
    begin();
    const char *wanted = places(a, "plain");
    setenv("MTOOL_CACHE_MB", "0", 1);
    assert_string_equal(places(a, "packed"), wanted);
    assert_int_equal(kept(path), 0);
    unsetenv("MTOOL_CACHE_MB");
    shell("rm -rf cache && touch cache");
    assert_string_equal(places(a, "packed"), wanted);
    end();
    arena_free(a);
}

static void test_limit(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    char path[512];
    begin();
    places(a, "packed");
    assert_int_equal(kept(path), 1);
    static const struct timespec long_ago[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    struct stat st;
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    places(a, "packed");
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_mtim.tv_sec > long_ago[0].tv_sec); /* its use is noted */
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    char mb[32];
    snprintf(mb, sizeof mb, "%lld", (long long)(st.st_size >> 20) + 1);
    setenv("MTOOL_CACHE_MB", mb, 1);
    shell("objcopy --compress-debug-sections=zlib plain packed");
    places(a, "packed");
    assert_int_equal(kept(path), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_mtim.tv_sec > long_ago[0].tv_sec); /* the old one has gone */
    end();
    arena_free(a);
}

/* What is beside the program is found from there, and not from the cache. */
static void test_split(void **state)
{
    (void)state;
    struct debug_file f;
    char path[512], split[128];
    struct stat st;
    begin();
    shell("echo 'int main(void) { return 0; }' >split.c &&"
          " gcc -O1 -g -gsplit-dwarf -fdebug-prefix-map=$PWD=. -o split split.c && head -c 400000 /dev/urandom | "
          "base64 >split.z &&"
          " objcopy --add-section .debug_more=split.z split && objcopy --compress-debug-sections=zlib split");
    snprintf(split, sizeof split, "%s/split", dir);
    assert_true(debug_file_open(split, "/none", &f));
    Dwarf_CU *unit = NULL;
    Dwarf_Die whole = {0};
    uint8_t type = 0;
    assert_int_equal(dwarf_get_units(f.dwarf, NULL, &unit, NULL, &type, NULL, &whole), 0);
    assert_true(type == DW_UT_skeleton && dwarf_tag(&whole) == DW_TAG_compile_unit);
    debug_file_close(&f);
    assert_int_equal(kept(path), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    shell("rm split*");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_places), cmocka_unit_test(test_other_content),
                                       cmocka_unit_test(test_nowhere_to_keep), cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
