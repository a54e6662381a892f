/* SPDX-License-Identifier: Apache-2.0
 * What huge pages take away: a part, or not known; and no memory stays. */
#include "machine/machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

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
    is_part(found.waiting);
    is_part(found.overlapping);
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
    assert_true(isnan(found.waiting) && isnan(found.overlapping));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_or_not_known),
        cmocka_unit_test(without_memory_it_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
