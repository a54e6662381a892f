/* SPDX-License-Identifier: Apache-2.0
 * Counts and stalls by address of a file, of code that is translated from many begins, at two addresses, and left at
 * faults, against counting each instruction by itself. */
#include "fake_qemu.h"
#include "machine/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { INSNS = 400, TRANSLATIONS = 300, LONGEST = 20, STEPS = 20000, PART = 0x1000, CODE = 0x2000 };

static const struct {
    const char *bytes;
    uint8_t len;
    bool loads;
} kinds[] = {{"\x48\x01\xd8", 3, false},     {"\x90", 1, false},
             {"\x48\x8b\x03", 3, true},      {"\x48\x0f\xaf\xc3", 4, false},
             {"\xf2\x0f\x5e\xc1", 4, false}, /* divsd xmm0,xmm1 */
             {"\x48\x83\xc0\x10", 4, false}};

static struct {
    uint64_t address[INSNS + 1];
    unsigned kind[INSNS];
    uint64_t executed[INSNS];
    struct qemu_plugin_tb *tb[TRANSLATIONS];
    unsigned first[TRANSLATIONS];
} the;

static void use_machine(void)
{
    const char *text, *own;
    char path[] = "/tmp/mtool-test-machine.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; (text = machine_shipped_text(i, &own)); i++)
        if (strcmp(own, "decstation-3100.machine") == 0)
            assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    settings.machine = path;
    assert_int_equal(model_make(), 0);
    unlink(path);
}

static void make_code(struct rng *g)
{
    for (unsigned i = 0, at = 0; i < INSNS; i++) {
        the.kind[i] = (unsigned)rng_below(g, ARRAY_LEN(kinds));
        the.address[i] = CODE + at;
        at += kinds[the.kind[i]].len;
        the.address[i + 1] = CODE + at;
    }
    for (unsigned t = 0; t < TRANSLATIONS; t++) {
        unsigned count = 1 + (unsigned)rng_below(g, LONGEST);
        the.first[t] = (unsigned)rng_below(g, INSNS - count);
        the.tb[t] = xmalloc(sizeof *the.tb[t]);
        for (unsigned k = 0; k < count; k++) {
            unsigned kind = the.kind[the.first[t] + k];
            uint64_t base = (rng_below(g, 2) + 1) << 16; /* where the file is mapped */
            fake_append(the.tb[t], base + the.address[the.first[t]], kinds[kind].bytes, kinds[kind].len);
        }
        segments_translate(the.tb[t]);
    }
}

/* Whole translations, and some that a load leaves. */
static void execute(struct rng *g)
{
    for (unsigned n = 0; n < STEPS; n++) {
        unsigned t = (unsigned)rng_below(g, TRANSLATIONS), count = (unsigned)the.tb[t]->count;
        unsigned stop = (unsigned)rng_below(g, count);
        bool faults = rng_below(g, 4) == 0 && kinds[the.kind[the.first[t] + stop]].loads;
        count = faults ? stop + 1 : count;
        fake_execute(the.tb[t], count);
        for (unsigned k = 0; k < count; k++) {
            the.executed[the.first[t] + k]++;
            if (kinds[the.kind[the.first[t] + k]].loads && !(faults && k == stop))
                fake_access(&the.tb[t]->insns[k], rng_below(g, FAKE_RAM_BYTES - 8) & ~7ull, 3, false);
        }
        if (faults) {
            segments_restart(the.tb[t]->insns[stop].vaddr);
            the.executed[the.first[t] + stop]--;
        }
    }
}

struct told {
    uint64_t counts[1 << 16], stalls[1 << 16][WIRE_STALL_COUNT];
};

static void take_line(void *ctx, char *line)
{
    struct told *t = ctx;
    char *rest = strchr(line, ' ');
    assert_non_null(rest);
    if (strncmp(line, "code ", 5) == 0) {
        assert_string_equal(line, "code key\t/bin/fake\n");
        return;
    }
    uint64_t at = strtoull(rest, &rest, 16);
    assert_true(at < 1 << 16);
    if (strncmp(line, "executed ", 9) == 0) {
        uint64_t bytes = strtoull(rest, &rest, 16), count = strtoull(rest, &rest, 10);
        for (uint64_t k = at; k < at + bytes; k++) {
            assert_int_equal(t->counts[k], 0);
            t->counts[k] = count;
        }
        return;
    }
    assert_memory_equal(line, "stalled ", 8);
    for (unsigned k = 0; k < WIRE_STALL_COUNT; k++)
        t->stalls[at][k] += strtoull(rest, &rest, 10);
}

static void by_address(void **state)
{
    (void)state;
    struct rng g = {5};
    char path[] = "/tmp/mtool-test-spots.XXXXXX";
    struct told *told = xmalloc(sizeof *told);
    uint64_t function, executed[INSNS], stalls[WIRE_STALL_COUNT], sums[WIRE_STALL_COUNT] = {0};
    struct row *r = places_row(PART, fake_ram, &function);
    use_machine();
    make_code(&g);
    execute(&g);
    segments_sum();
    spots_end();
    memcpy(executed, the.executed, sizeof executed);
    memcpy(stalls, &r->of[WIRE_STALL_FETCH], sizeof stalls);
    execute(&g); /* counts no more */
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    spots_write(f);
    fclose(f);
    assert_true(file_each_line(path, take_line, told) >= 0);
    unlink(path);
    for (unsigned i = 0; i < INSNS; i++)
        assert_int_equal(told->counts[the.address[i]], executed[i]);
    for (unsigned at = 0; at < 1 << 16; at++)
        for (unsigned k = 0; k < WIRE_STALL_COUNT; k++)
            sums[k] += told->stalls[at][k];
    assert_memory_equal(sums, stalls, sizeof sums);
    for (unsigned i = 0; i < INSNS; i++)
        if (!kinds[the.kind[i]].loads)
            assert_int_equal(told->stalls[the.address[i]][WIRE_STALL_READ - WIRE_STALL_FETCH], 0);
    assert_true(sums[WIRE_STALL_READ - WIRE_STALL_FETCH] > 1000);
    assert_true(sums[WIRE_STALL_FLOAT - WIRE_STALL_FETCH] > 1000);
    for (unsigned t = 0; t < TRANSLATIONS; t++)
        free(the.tb[t]);
    free(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_address)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
