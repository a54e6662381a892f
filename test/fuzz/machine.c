/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the reader of machine descriptions: one line with the place, or a description that is the same after it was
 * written and read again, and that has an answer for every instruction. */
#include "fuzz.h"

#include <stdlib.h>

#include "machine/machine.h"

static void ask(const struct machine *m)
{
    static const uint8_t insns[][8] = {{0x48, 0x01, 0xd0},
                                       {0x48, 0x8b, 0x04, 0xd0},
                                       {0xc5, 0xf5, 0x58, 0x17},
                                       {0xf0, 0x0f, 0xb1, 0x0f},
                                       {0x48, 0xf7, 0xf1},
                                       {0xf3, 0xa4},
                                       {0x66, 0x0f, 0x38, 0xdc, 0xc1}};
    for (size_t i = 0; i < ARRAY_LEN(insns); i++) {
        struct x86_detail d;
        enum machine_match how;
        FUZZ_CHECK(x86_decode_detail(insns[i], sizeof insns[i], 0, &d) > 0);
        machine_class_of(m, &d, &how);
        if (d.is_load)
            machine_access(m, &d, false);
        if (d.is_store)
            machine_access(m, &d, true);
    }
    for (unsigned p = 0; p < machine_port_count(m); p++)
        FUZZ_CHECK(machine_port_name(m, p));
    machine_error_of(m, "all");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct machine *m, *again;
    struct strbuf first = {0}, second = {0};
    fuzz_begin();
    int rc = machine_parse("input", (const char *)bytes, len, &m);
    fuzz_check_said(rc, "input");
    if (rc < 0)
        return 0;
    ask(m);
    machine_format(m, &first);
    FUZZ_CHECK(machine_parse("written", first.data, first.len, &again) == 0);
    machine_format(again, &second);
    FUZZ_CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    str_free(&first);
    str_free(&second);
    machine_free(m);
    machine_free(again);
    return 0;
}
