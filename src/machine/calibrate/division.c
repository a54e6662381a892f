/* SPDX-License-Identifier: Apache-2.0
 *
 * Integer divisions, timed: they take their operands in rax and rdx, and as long as the quotient wants. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

static const struct division {
    const char *form;
    uint8_t modrm; /* div rcx or idiv rcx */
    bool wide;
} kinds[] = {{"div r32", 0xf1, false}, {"idiv r32", 0xf9, false}, {"div r64", 0xf1, true}, {"idiv r64", 0xf9, true}};

static const struct division *division_named(const char *form)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].form, form) == 0)
            return &kinds[i];
    return NULL;
}

bool division_is(const char *form) { return division_named(form) != NULL; }

static void put_division(struct lab_code *c, const struct division *d, bool long_quotient)
{
    LAB_PUT(c, 0x31, 0xd2); /* xor edx,edx */
    if (long_quotient)
        lab_note(c, LAB_LONG, 0); /* of the division itself */
    if (d->wide)
        LAB_PUT(c, 0x48);
    LAB_PUT(c, 0xf7, d->modrm);
}

void division_put(struct lab_code *c, const char *form)
{
    LAB_PUT(c, 0x4c, 0x89, 0xe0); /* mov rax,r12, which with rcx the bench has set */
    put_division(c, division_named(form), false);
}

static void put_operands(struct lab_code *c, const struct division *d, bool long_quotient)
{
    uint64_t dividend = !long_quotient ? 1000003 : d->wide ? 0x123456789abcdefu : 0x12345678u;
    LAB_PUT(c, 0x49, 0xb8); /* mov r8,dividend; mov ecx,divisor */
    lab_put_le64(c, dividend);
    LAB_PUT(c, 0xb9);
    lab_put_le32(c, long_quotient ? 3 : 997);
}

/* Each division waits for the one before: rax is cleared and set anew, which adds two cycles to the chain. Assumes that
 * and with 0 is no zeroing idiom, which none is known to be. */
double division_latency(struct calib *k, const char *form, bool long_quotient)
{
    enum { ROUNDS = 16 };
    const struct division *d = division_named(form);
    struct lab_code *c = xmalloc(sizeof *c);
    put_operands(c, d, long_quotient);
    for (int i = 0; i < ROUNDS; i++) {
        LAB_PUT(c, 0x48, 0x83, 0xe0, 0x00, 0x4c, 0x09, 0xc0); /* and rax,0; or rax,r8 */
        put_division(c, d, long_quotient);
    }
    lab_name(k->lab, "chain %s %s", form, long_quotient ? "long" : "short");
    double cycles = calib_run(k, c, ROUNDS, LAB_FILL_NONE);
    return cycles < 0 ? -1 : cycles - 2;
}

/* Independent divisions with long quotients, as those of division_put are of short ones. */
double division_interval(struct calib *k, const char *form)
{
    enum { ROUNDS = 16 };
    const struct division *d = division_named(form);
    struct lab_code *c = xmalloc(sizeof *c);
    put_operands(c, d, true);
    for (int i = 0; i < ROUNDS; i++) {
        LAB_PUT(c, 0x4c, 0x89, 0xc0); /* mov rax,r8 */
        put_division(c, d, true);
    }
    lab_name(k->lab, "interval %s long", form);
    return calib_run(k, c, ROUNDS, LAB_FILL_NONE);
}

/* Together they then take as long as one after the other. Assumes that both kinds alone fill their dividers: the
 * intervals are those that copies alone have; where either cannot be timed, shared is the careful answer. */
bool division_is_shared(struct calib *k)
{
    enum { ROUNDS = 12 };
    const struct timed_form *real = timing_of(k, "divsd x,x"), *whole = timing_of(k, "div r32");
    if (!real || !whole)
        return true;
    double real_interval = real->interval, whole_interval = timing_of(k, "div r32")->interval;
    unsigned each = (unsigned)fmax(1, round(whole_interval / real_interval));
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned r = 0; r < ROUNDS; r++) {
        division_put(c, "div r32");
        for (unsigned i = 0; i < each; i++) /* divsd xmm_i, xmm14 */
            LAB_PUT(c, 0xf2, 0x41, 0x0f, 0x5e, (uint8_t)(0xc6 | (r * each + i) % 8 << 3));
    }
    lab_name(k->lab, "div r32 beside divsd x,x");
    double both = calib_run(k, c, ROUNDS, LAB_FILL_DOUBLE);
    return both > whole_interval + 0.6 * each * real_interval;
}
