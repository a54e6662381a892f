/* SPDX-License-Identifier: Apache-2.0
 * What is tried out of memory: what huge pages take away, and how far misses overlap. A part, or not known; and no
 * memory stays. */
#include "machine/machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static long pages_mapped(void)
{
    long pages = -1;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pages), 1);
    fclose(f);
    return pages;
}

static void is_part(double part) { assert_true(isnan(part) || (part >= 0 && part <= 1)); }

static void a_part_or_not_known(void **state)
{
    (void)state;
    machine_try_huge_pages(1 << 20);
    long before = pages_mapped();
    struct machine_huge_pages found = machine_try_huge_pages(12 << 20);
    assert_in_range(found.count, 2, MACHINE_PAGE_TRIES);
    for (size_t i = 0; i < found.count; i++) {
        is_part(found.at[i].waiting);
        is_part(found.at[i].overlapping);
        assert_true(i == 0 || found.at[i].pages > found.at[i - 1].pages);
    }
    assert_true(pages_mapped() - before < 1024);
}

static void without_memory_it_is_not_known(void **state)
{
    (void)state;
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    none = (struct rlimit){(rlim_t)pages_mapped() * 4096 + (4 << 20), old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    struct machine_huge_pages found = machine_try_huge_pages(12 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(found.count, 0);
    assert_true(isnan(machine_huge_pages_of(&found, 5000).waiting));
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    double overlap = machine_try_overlap();
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_true(isnan(overlap));
}

static void by_the_nearest_tries(void **state)
{
    (void)state;
    struct machine_huge_pages h = {4, {{4000, 0.2, 0.1}, {6000, NAN, 0.1}, {8000, 0.4, 0.2}, {16000, 0.8, 0.4}}};
    assert_true(fabs(machine_huge_pages_of(&h, 100).waiting - 0.2) < 1e-9);
    assert_true(fabs(machine_huge_pages_of(&h, 6000).waiting - 0.3) < 1e-9); /* that try told nothing */
    assert_true(fabs(machine_huge_pages_of(&h, 12000).overlapping - 0.3) < 1e-9);
    assert_true(fabs(machine_huge_pages_of(&h, 1e9).overlapping - 0.4) < 1e-9);
}

static void misses_overlap(void **state)
{
    (void)state;
    double part = machine_try_overlap();
    assert_true(part > 0 && part < 0.9); /* of any processor that has prefetches */
}

/* ---- memory nodes ---- */

static void put(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void nodes_as_the_system_tells_them(void **state)
{
    (void)state;
    static const struct {
        const char *online, *distance;
        unsigned count;
        double to_others;
    } systems[] = {{"0\n", "10\n", 1, NAN}, {"0-1\n", "10 21\n", 2, 2.1}, {"0-2,4\n", "10 16 32 32\n", 4, 80.0 / 30},
                   {"0-1\n", "", 2, NAN},   {"\n", "", 1, NAN},           {"0-1\n", "x\n", 2, NAN}};
    char folder[] = "/tmp/mtool-nodes.XXXXXX", node[64], path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(node, sizeof node, "%s/node0", folder);
    assert_int_equal(machine_nodes(folder).count, 1);
    assert_int_equal(mkdir(node, 0700), 0);
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        put(folder, "online", systems[i].online);
        put(node, "distance", systems[i].distance);
        struct machine_nodes found = machine_nodes(folder);
        assert_int_equal(found.count, systems[i].count);
        assert_int_equal(isnan(found.distance), isnan(systems[i].to_others));
        if (!isnan(found.distance))
            assert_true(fabs(found.distance - systems[i].to_others) < 1e-9);
    }
    put(folder, "has_memory", "1\n"); /* the other node has none */
    assert_int_equal(machine_nodes(folder).count, 1);
    snprintf(path, sizeof path, "%s/distance", node), unlink(path), rmdir(node);
    snprintf(path, sizeof path, "%s/online", folder), unlink(path);
    snprintf(path, sizeof path, "%s/has_memory", folder), unlink(path), rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_or_not_known),
        cmocka_unit_test(without_memory_it_is_not_known),
        cmocka_unit_test(by_the_nearest_tries),
        cmocka_unit_test(misses_overlap),
        cmocka_unit_test(nodes_as_the_system_tells_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
