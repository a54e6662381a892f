/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions that the table of forms cannot time: divisions, whose time depends on their operands; rep strings,
 * gathers, locked operations, fences, x87. Each is a few bytes of code of its own. */
#include "machine/calib.h"

#include <math.h>
#include <stdlib.h>

static double run(struct calib *k, struct lab_code *c, unsigned rounds, unsigned fill)
{
    double cycles = lab_loop_cycles(k->lab, c, fill);
    free(c);
    return cycles < 0 ? -1 : cycles / rounds;
}

static double repeated(struct calib *k, const uint8_t *bytes, size_t len, unsigned rounds, unsigned fill)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned r = 0; r < rounds; r++)
        lab_put(c, bytes, len);
    return run(k, c, rounds, fill);
}
#define REPEATED(k, rounds, fill, ...)                                                                                 \
    repeated((k), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), (rounds), (fill))

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

/* ---- integer division ---- */

struct division {
    const char *form;
    uint8_t modrm; /* div rcx or idiv rcx */
    bool wide;
};

/* rax and rdx anew from r8, the divisor in rcx; chained: rax only after the division before. Two cycles of the chain
 * are not the division's. */
static void put_division(struct lab_code *c, const struct division *d, bool chained)
{
    if (chained)
        LAB_PUT(c, 0x48, 0x83, 0xe0, 0x00, 0x4c, 0x09, 0xc0); /* and rax,0; or rax,r8 */
    else
        LAB_PUT(c, 0x4c, 0x89, 0xc0); /* mov rax,r8 */
    LAB_PUT(c, 0x31, 0xd2);           /* xor edx,edx */
    if (d->wide)
        LAB_PUT(c, 0x48);
    LAB_PUT(c, 0xf7, d->modrm);
}

static double division(struct calib *k, const struct division *d, uint64_t dividend, uint64_t divisor, bool chained)
{
    enum { ROUNDS = 16 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x49, 0xb8); /* mov r8,dividend; mov rcx,divisor */
    lab_put_le64(c, dividend);
    LAB_PUT(c, 0x48, 0xb9);
    lab_put_le64(c, divisor);
    for (int i = 0; i < ROUNDS; i++)
        put_division(c, d, chained);
    return run(k, c, ROUNDS, LAB_FILL_NONE);
}

/* Slots by nops that fill up the width, less the three instructions that feed the division. */
static double division_slots(struct calib *k, const struct division *d, double interval)
{
    enum { ROUNDS = 4 };
    unsigned nops = (unsigned)(interval * 1.6 * k->width);
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x49, 0xb8);
    lab_put_le64(c, 0x1234567);
    LAB_PUT(c, 0xb9, 77, 0, 0, 0);
    for (int i = 0; i < ROUNDS; i++) {
        put_division(c, d, false);
        for (unsigned n = 0; n < nops; n++)
            lab_put_nops(c, 4);
    }
    double cycles = run(k, c, ROUNDS, LAB_FILL_NONE);
    return cycles < 0 ? 4 : fmax(1, round(cycles * k->width - nops - 3));
}

/* Do integer and floating point divisions wait for each other? Together they then take as long as one after the other.
 */
static bool shares_divider(struct calib *k, double alone)
{
    const struct timed_form *t = timing_of(k, "divsd x,x");
    struct lab_code *c = xmalloc(sizeof *c);
    enum { ROUNDS = 12 };
    const struct division d = {"div r32", 0xf1, false};
    unsigned each = t && t->interval > 0 ? (unsigned)fmax(1, round(alone / t->interval)) : 1;
    LAB_PUT(c, 0x49, 0xb8);
    lab_put_le64(c, 0x12345678);
    LAB_PUT(c, 0xb9, 77, 0, 0, 0); /* mov ecx,77 */
    for (unsigned r = 0; r < ROUNDS; r++) {
        put_division(c, &d, false);
        for (unsigned i = 0; i < each; i++) /* divsd xmm_i, xmm14 */
            LAB_PUT(c, 0xf2, 0x41, 0x0f, 0x5e, (uint8_t)(0xc6 | (r * each + i) % 8 << 3));
    }
    double both = run(k, c, ROUNDS, LAB_FILL_DOUBLE);
    return t && both > alone + 0.6 * each * t->interval;
}

static void add_divisions(struct calib *k)
{
    static const struct division kinds[] = {
        {"div r32", 0xf1, false}, {"idiv r32", 0xf9, false}, {"div r64", 0xf1, true}, {"idiv r64", 0xf9, true}};
    struct machine *m = k->m;
    uint32_t divider = machine_ports_named(m, "divider"), anywhere = machine_class_named(m, "other")->uses[0].ports;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct division *d = &kinds[i];
        double shorter = division(k, d, 1000003, 997, true) - 2;
        double longer = division(k, d, d->wide ? 0x123456789abcdefu : 0x12345678u, 3, true) - 2;
        double interval = division(k, d, d->wide ? 0x123456789abu : 0x1234567u, 77, false);
        if (shorter < 0 || interval < 0)
            continue;
        if (i == 0 && !shares_divider(k, interval)) {
            machine_add_unit(m, "int-divider", 1, 1);
            divider = machine_ports_named(m, "int-divider");
        }
        bool old = machine_class_named(m, d->wide ? "div64" : "div32");
        char name[MACHINE_NAME_LEN];
        snprintf(name, sizeof name, "%s%s", old ? "i" : "", d->wide ? "div64" : "div32");
        struct machine_class *c = add_class(m, name, tidy(fmin(shorter, longer)), division_slots(k, d, interval));
        c->latency_high = fmax(c->latency, tidy(longer));
        add_use(c, divider, fmax(1, round(interval)));
        add_use(c, anywhere, 1);
        struct machine_form f = {
            .class_id = (uint32_t)(c - m->classes), .measured_latency = shorter, .measured_interval = interval};
        snprintf(f.form, sizeof f.form, "%s", d->form);
        machine_add_form(m, &f);
    }
}

/* ---- rep strings ---- */

static double rep_copy(struct calib *k, uint32_t bytes)
{
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x49, 0x8d, 0x76, 0x00);          /* lea rsi,[r14] */
    LAB_PUT(c, 0x49, 0x8d, 0xbe, 0, 0x40, 0, 0); /* lea rdi,[r14+0x4000] */
    LAB_PUT(c, 0xb9);
    lab_put_le32(c, bytes);
    LAB_PUT(c, 0xf3, 0xa4);
    return run(k, c, 1, LAB_FILL_NONE);
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

/* Gathers take a mask that they clear: it is set anew each time. */
static void add_gathers(struct calib *k)
{
    if (!__builtin_cpu_supports("avx2"))
        return;
    double x =
        REPEATED(k, 16, LAB_FILL_NONE, 0xc5, 0xf1, 0xef, 0xc9, 0xc5, 0xe9, 0x76, 0xd2, /* vpxor x1; vpcmpeqd x2 */
                 0xc4, 0xc2, 0x69, 0x90, 0x04, 0x8e);                                  /* vpgatherdd x0,[r14+x1*4],x2 */
    double y = REPEATED(k, 16, LAB_FILL_NONE, 0xc5, 0xf5, 0xef, 0xc9, 0xc5, 0xed, 0x76, 0xd2, /* the same on ymm */
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

/* st0 = st0 op st1 again and again, on two ones loaded first and popped in the end. */
static double x87_chain(struct calib *k, uint8_t op)
{
    enum { ROUNDS = 64 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0xd9, 0xe8, 0xd9, 0xe8);
    for (int i = 0; i < ROUNDS; i++)
        LAB_PUT(c, 0xd8, op);
    LAB_PUT(c, 0xdd, 0xd8, 0xdd, 0xd8);
    return run(k, c, ROUNDS, LAB_FILL_NONE);
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
    diag_progress("timing divisions and other slow instructions", 0, 0);
    add_divisions(k);
    find_rep(k);
    add_slow(k, "atomic", REPEATED(k, 32, LAB_FILL_NONE, 0xf0, 0x49, 0x01, 0x06)); /* lock add [r14],rax */
    add_slow(k, "fence", REPEATED(k, 32, LAB_FILL_NONE, 0x0f, 0xae, 0xf0));        /* mfence */
    add_gathers(k);
    add_x87(k);
    add_class(m, "prefetch", 0, 1);
    struct machine_class *s = add_class(m, "string", 3, 4);
    add_use(s, machine_class_named(m, "other")->uses[0].ports, 1);
}
