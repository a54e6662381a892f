/* SPDX-License-Identifier: Apache-2.0
 * Symbols of the kernel from text, regions and entries by name, names of calls and sources. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "live/impl.h"

static const char *file_of(const char *text)
{
    static char path[] = "/tmp/mtool-live-test-XXXXXX";
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void symbols_are_found_by_address(void **state)
{
    struct arena *a = arena_new();
    const char *why = NULL, *path = file_of("ffffffff81000000 T _text\n"
                                            "ffffffff81000000 T startup_64\n"
                                            "ffffffff81000100 t clear_page_erms\n"
                                            "ffffffff81000200 D some_data\n"
                                            "ffffffffc0000000 t read_file\t[ext4]\n");
    (void)state;
    struct live_symbols *s = live_symbols_read(path, a, &why);
    unlink(path);
    assert_non_null(s);
    assert_int_equal(live_symbols_count(s), 3);
    assert_string_equal(live_symbols_name(s, live_symbols_find(s, 0xffffffff81000000)), "startup_64");
    assert_string_equal(live_symbols_name(s, live_symbols_find(s, 0xffffffff810000ff)), "startup_64");
    assert_string_equal(live_symbols_name(s, live_symbols_find(s, 0xffffffff81000100)), "clear_page_erms");
    assert_string_equal(live_symbols_name(s, live_symbols_find(s, 0xffffffffc0000010)), "read_file");
    assert_int_equal(live_symbols_find(s, 0x1000), ID_NONE);
    live_symbols_free(s);
    arena_free(a);
}

static void hidden_symbols_are_none(void **state)
{
    struct arena *a = arena_new();
    const char *why = NULL, *path = file_of("0000000000000000 T _text\n0000000000000000 t x\n");
    (void)state;
    assert_null(live_symbols_read(path, a, &why));
    assert_non_null(strstr(why, "hides"));
    unlink(path);
    assert_null(live_symbols_read("/nonexistent/kallsyms", a, &why));
    assert_non_null(strstr(why, "No such file"));
    arena_free(a);
}

static void functions_fall_into_regions(void **state)
{
    static const struct {
        const char *function;
        enum live_region_id region;
    } cases[] = {
        {"clear_page_rep", LIVE_REGION_CLEAR},
        {"memset_orig", LIVE_REGION_CLEAR},
        {"rep_movs_alternative", LIVE_REGION_COPY},
        {"_copy_to_iter", LIVE_REGION_COPY},
        {"memcpy_orig", LIVE_REGION_COPY},
        {"memcmp", LIVE_REGION_COMPARE},
        {"strncmp.part.0", LIVE_REGION_COMPARE},
        {"pv_native_safe_halt", LIVE_REGION_IDLE},
        {"finish_task_switch.isra.0", LIVE_REGION_INTERRUPTS_ON},
        {"_raw_spin_unlock_irqrestore", LIVE_REGION_INTERRUPTS_ON},
        {"_raw_spin_lock", LIVE_REGION_REST},
        {"copy_page", LIVE_REGION_COPY},
        {"copy_pagetables", LIVE_REGION_REST},
        {"bpf_prog_68819502547920f0_enter", LIVE_REGION_WATCHING},
        {"iowrite16", LIVE_REGION_DEVICE},
        {"", LIVE_REGION_REST},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (live_region_of(cases[i].function) != cases[i].region)
            fail_msg("%s is in region %s", cases[i].function, live_region_name[live_region_of(cases[i].function)]);
}

static void entries_are_known(void **state)
{
    (void)state;
    assert_int_equal(live_entry_of("asm_exc_page_fault"), LIVE_PART_FAULT);
    assert_int_equal(live_entry_of("entry_SYSCALL_64_after_hwframe"), LIVE_PART_CALL);
    assert_int_equal(live_entry_of("asm_sysvec_apic_timer_interrupt"), LIVE_PART_INTERRUPT);
    assert_int_equal(live_entry_of("vfs_read"), -1);
}

static void calls_have_the_headers_names(void **state)
{
    (void)state;
    assert_string_equal(live_call_name(SYS_getppid), "getppid");
    assert_string_equal(live_call_name(SYS_openat), "openat");
    assert_null(live_call_name(LIVE_CALLS + 1000));
}

static void sources_have_names(void **state)
{
    (void)state;
    assert_int_equal(live_source_find("bpf", 3), LIVE_BPF);
    assert_int_equal(live_source_find("bp", 2), -1);
    assert_int_equal(live_source_find("samples,pmu", 7), LIVE_SAMPLES);
    assert_int_equal(live_source_find("", 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_found_by_address), cmocka_unit_test(hidden_symbols_are_none),
        cmocka_unit_test(functions_fall_into_regions),  cmocka_unit_test(entries_are_known),
        cmocka_unit_test(calls_have_the_headers_names), cmocka_unit_test(sources_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
