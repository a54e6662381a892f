/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged files: whatever the image reader lets through, cfg_build gives a sound cfg or refuses. */
#include "help.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t seed = 7;

static uint32_t next_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static int build_damaged(const uint8_t *bytes, size_t len)
{
    struct image *img;
    struct cfg *c;
    if (image_open_bytes("damaged", bytes, len, &img) < 0)
        return -1;
    int rc = cfg_build(img, &c);
    if (rc == 0) {
        struct strbuf out = {0};
        struct cfg *loaded;
        cfg_check(c);
        cfg_save(c, &out);
        assert_int_equal(cfg_load((const uint8_t *)out.data, out.len, &loaded), 0);
        cfg_free(loaded);
        str_free(&out);
        cfg_free(c);
    }
    image_close(img);
    return rc;
}

/* How a round damages: anywhere, the headers, or the code and unwind tables in the middle of the file. */
static void damage(uint8_t *bytes, size_t len, int round)
{
    for (int k = 0; k < 1 + round % 5; k++) {
        size_t at = round % 3 == 0 ? next_random() % 1024 : next_random() % len;
        bytes[at % len] = next_random() % 3 == 0 ? 0xff : (uint8_t)next_random();
    }
}

static void damage_file(const char *name, int rounds)
{
    char path[4096];
    struct file_bytes f;
    snprintf(path, sizeof path, "%s/%s", fixture_dir, name);
    assert_int_equal(file_map(path, &f), 0);
    uint8_t *copy = xmalloc(f.len);
    int built = 0, saved_stderr = dup(2), quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, 2); /* the reader says why it refuses */
    for (int round = 0; round < rounds; round++) {
        memcpy(copy, f.data, f.len);
        damage(copy, f.len, round);
        built += build_damaged(copy, f.len) == 0;
    }
    dup2(saved_stderr, 2);
    close(saved_stderr);
    close(quiet);
    assert_true(built > rounds / 4);
    free(copy);
    file_unmap(&f);
}

static void test_exec(void **state)
{
    (void)state;
    damage_file("tables-gcc-exec", 600);
}

static void test_shared(void **state)
{
    (void)state;
    damage_file("tables-clang-pic.so", 600);
}

static void test_exceptions(void **state)
{
    (void)state;
    damage_file("catch.so", 600);
}

static void test_shapes(void **state)
{
    (void)state;
    damage_file("shapes.so", 600);
}

int main(int argc, char **argv)
{
    fixture_dir = argc > 1 ? argv[1] : fixture_dir;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_exceptions),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests_name("cfg corrupt", tests, NULL, NULL);
}
