/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions that the table of forms cannot time: rep strings, gathers, locked operations, fences, x87. Each is a few
 * bytes of code of its own. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

/* Assumes that each waits for the one before, as locked operations and fences do, or that only its rate matters
 * (gathers). A CPU without it ends by a signal: below 0, no class is made. */
static double repeated(struct calib *k, const char *name, const uint8_t *bytes, size_t len, unsigned rounds)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned r = 0; r < rounds; r++)
        lab_put(c, bytes, len);
    lab_name(k->lab, "repeated %s", name);
    return calib_run(k, c, rounds, LAB_FILL_NONE);
}
#define REPEATED(k, name, rounds, ...)                                                                                 \
    repeated((k), (name), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), (rounds))

static double tidy(double v) { return v < 0 ? 0 : round(v); }

static struct machine_class *add_class(struct machine *m, const char *name, double latency, double slots)
{
    struct machine_class c = {.latency = latency, .latency_high = latency, .slots = fmax(1, slots)};
    snprintf(c.name, sizeof c.name, "%s", name);
    return &m->classes[machine_add_class(m, &c)];
}

static void add_use(struct machine_class *c, uint32_t ports, double issue)
{
    if (ports && c->use_count < MACHINE_USE_MAX)
        c->uses[c->use_count++] = (struct machine_use){ports, issue};
}

/* ---- rep strings ---- */

/* Assumes two places of the first-level cache that do not overlap; few and many bytes give start and rate, if many take
 * clearly longer. */
static double rep_copy(struct calib *k, uint32_t bytes)
{
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x49, 0x8d, 0x76, 0x00);          /* lea rsi,[r14] */
    LAB_PUT(c, 0x49, 0x8d, 0xbe, 0, 0x40, 0, 0); /* lea rdi,[r14+0x4000] */
    LAB_PUT(c, 0xb9);
    lab_put_le32(c, bytes);
    lab_note(c, LAB_REPEATS, bytes);
    LAB_PUT(c, 0xf3, 0xa4);
    lab_name(k->lab, "rep movsb of %u", bytes);
    return calib_run(k, c, 1, LAB_FILL_NONE);
}

static void find_rep(struct calib *k)
{
    double few = rep_copy(k, 64), many = rep_copy(k, 4096);
    if (few < 0 || many < few + 10)
        return;
    k->m->rep_bytes = round((4096 - 64) / (many - few) * 10) / 10;
    k->m->rep_start = round(fmax(1, few - 64 / k->m->rep_bytes));
}

/* ---- the rest ---- */

static void add_slow(struct calib *k, const char *name, double cycles)
{
    if (cycles < 0)
        return;
    struct machine_class *c = add_class(k->m, name, tidy(cycles), fmin(8, cycles));
    add_use(c, machine_ports_named(k->m, "slow"), fmax(1, round(cycles)));
}

/* Gathers take a mask that they clear: it is set anew each time. Assumes that setting it has room beside them, and that
 * all their time is the loads' units'. Their latency is not measured: 12 and 14 cycles are what published tables have
 * at the least, and nothing guards them but the self-test's kernels, of which none gathers. */
static void add_gathers(struct calib *k)
{
    if (!lab_has_vectors(k->lab, 256))
        return;
    double x =
        REPEATED(k, "vpgatherdd x", 16, 0xc5, 0xf1, 0xef, 0xc9, 0xc5, 0xe9, 0x76, 0xd2, /* vpxor x1; vpcmpeqd x2 */
                 0xc4, 0xc2, 0x69, 0x90, 0x04, 0x8e); /* vpgatherdd x0,[r14+x1*4],x2 */
    double y = REPEATED(k, "vpgatherdd y", 16, 0xc5, 0xf5, 0xef, 0xc9, 0xc5, 0xed, 0x76, 0xd2, /* the same on ymm */
                        0xc4, 0xc2, 0x6d, 0x90, 0x04, 0x8e);
    const double cycles[] = {x, y};
    const char *const names[] = {"gather", "gather.y"};
    for (size_t i = 0; i < ARRAY_LEN(cycles); i++) {
        if (cycles[i] < 0)
            continue;
        struct machine_class *c = add_class(k->m, names[i], 12 + 2 * (double)i, 4);
        add_use(c, machine_ports_named(k->m, "loads"), fmax(1, round(cycles[i])));
        add_use(c, machine_ports_named(k->m, "slow"), fmax(1, round(cycles[i])));
    }
}

/* st0 = st0 op st1 again and again, on two ones loaded first and popped in the end. Assumes that sums of so few ones
 * and products of ones are as fast as any, and that the units are those of scalar additions; nothing guards the second,
 * and x87 code is rare. */
static double x87_chain(struct calib *k, uint8_t op)
{
    enum { ROUNDS = 64 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0xd9, 0xe8, 0xd9, 0xe8);
    for (int i = 0; i < ROUNDS; i++)
        LAB_PUT(c, 0xd8, op);
    LAB_PUT(c, 0xdd, 0xd8, 0xdd, 0xd8);
    lab_name(k->lab, "chain x87 %02x", op);
    return calib_run(k, c, ROUNDS, LAB_FILL_NONE);
}

static void add_x87(struct calib *k)
{
    double add = x87_chain(k, 0xc1), mul = x87_chain(k, 0xc9);
    const struct machine_class *fadd = machine_class_named(k->m, "fadd");
    uint32_t ports = fadd && fadd->use_count ? fadd->uses[0].ports : 1;
    if (add > 0)
        add_use(add_class(k->m, "x87", tidy(add), 1), ports, 1);
    if (mul > 0)
        add_use(add_class(k->m, "x87-mul", tidy(mul), 1), ports, 1);
}

void calib_special(struct calib *k)
{
    struct machine *m = k->m;
    diag_progress("timing slow instructions", 0, 0);
    find_rep(k);
    add_slow(k, "atomic", REPEATED(k, "lock add", 32, 0xf0, 0x49, 0x01, 0x06)); /* lock add [r14],rax */
    add_slow(k, "fence", REPEATED(k, "mfence", 32, 0x0f, 0xae, 0xf0));          /* mfence */
    add_gathers(k);
    add_x87(k);
    add_class(m, "prefetch", 0, 1);
    struct machine_class *s = add_class(m, "string", 3, 4);
    add_use(s, machine_class_named(m, "other")->uses[0].ports, 1);
}
