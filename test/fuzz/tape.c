/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the reader of tapes: one line with the place, or a tape that is the same after it was written and read again,
 * and that answers for some experiments and tells which it lacks. */
#include "fuzz.h"

#include "machine/lab/lab.h"
#include "machine/machine.h"

static void ask(struct tape *t)
{
    static const char *const labels[] = {"rate nop of 5 bytes", "rate nop of 5 bytes", "interval add r64,r64",
                                         "no such experiment"};
    struct machine_tape_gaps g;
    size_t missing = 0;
    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        const struct tape_entry *e = tape_next(t, labels[i], 1);
        FUZZ_CHECK(!e || (strcmp(e->label, labels[i]) == 0 && e->cycles <= 1e12));
        missing += !e;
    }
    machine_tape_gaps(t, &g);
    FUZZ_CHECK(g.missing == missing && g.label_count == missing && g.used <= ARRAY_LEN(labels) && g.program);
    FUZZ_CHECK(tape_cpu(t));
    tape_number(t, "tsc-ghz");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct tape *t, *again;
    struct strbuf first = {0}, second = {0};
    fuzz_begin();
    int rc = machine_tape_parse("input", (const char *)bytes, len, &t);
    fuzz_check_said(rc, "input:");
    if (rc < 0)
        return 0;
    machine_tape_format(t, &first);
    FUZZ_CHECK(machine_tape_parse("written", first.data, first.len, &again) == 0);
    machine_tape_format(again, &second);
    FUZZ_CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    ask(again);
    str_free(&first);
    str_free(&second);
    machine_tape_free(t);
    machine_tape_free(again);
    return 0;
}
