/* SPDX-License-Identifier: Apache-2.0
 *
 * Fillers: instructions that take a slot and no unit, to fill up the width around what is timed; and the width itself.
 * No one filler does so on every core (Zen 4 fuses a nop with its neighbour, Ice Lake executes moves), so several are
 * timed, alone and among operations, and the width is what most of the fastest agree upon. How long
 * an instruction is matters as much: so many stand in a line of code, and some front ends fall behind (Zen 5: 6.3 of
 * two bytes a cycle, 6.8 of four, 7.9 of five and more, whatever they are), so all that is timed has the best length.
 */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

enum { COPIES = 320 };
static const double ALIKE = 0.03; /* rates */

/* xor edx,edx; xor r11d,r11d; mov edx,ecx; mov r11,r12 */
static const uint8_t zeros[2][3] = {{0x31, 0xd2}, {0x45, 0x31, 0xdb}}, moves[2][3] = {{0x89, 0xca}, {0x4d, 0x89, 0xe3}};

void filler_put(struct calib *k, struct lab_code *c, size_t bytes)
{
    size_t len = bytes < 3 ? 2 : 3;
    if (bytes < 2 || k->filler == FILLER_NOP)
        lab_put_nops(c, bytes);
    else
        lab_put_long(c, (k->filler == FILLER_ZERO ? zeros : moves)[len - 2], len, bytes);
    k->fillers++;
}

void filler_align(struct calib *k, struct lab_code *c, size_t to)
{
    size_t left = (to - c->len % to) % to;
    left += left && left < k->length ? to : 0;
    for (size_t n; left; left -= n)
        filler_put(k, c, n = left < 2 * k->length ? left > k->length + 3 ? left / 2 : left : k->length);
}

/* ---- the width ---- */

enum { FORMS = 4 };
static const struct kind {
    const char *name;
    const char *forms[FORMS]; /* in turn; "zero", "move", "nop", "zero-vec" are not forms; NULL: that is all */
} kinds[] = {
    {"zero", {"zero"}},
    {"move", {"move"}},
    {"nop", {"nop"}},
    {"zero-vec", {"zero-vec"}},
    {"add, zero", {"add r64,r64", "zero"}},
    {"add, load", {"add r64,r64", "load"}},
    {"add, paddd", {"add r64,r64", "paddd x,x"}},
    {"add, load, paddd, zero", {"add r64,r64", "load", "paddd x,x", "zero"}},
    {"mov, lea", {"mov r64,i", "lea r64,b+d"}},
    {"add", {"add r64,r64"}},
    {"paddd", {"paddd x,x"}},
};
enum { ZERO, MOVE, NOP, ZERO_VEC, ADD_ISOLATED = 9, PADDD_ISOLATED };

static void put_one(const struct calib *k, struct lab_code *c, const char *what, unsigned i)
{
    static const uint8_t regs[] = {0, 3, 2, 6, 7, 5, 8, 9, 10};
    uint8_t dest = regs[i % ARRAY_LEN(regs)];
    static const uint8_t zero_vec[] = {0x66, 0x45, 0x0f, 0xef, 0xed}; /* pxor xmm13,xmm13 */
    const uint8_t load[] = {0x4d, 0x8b, 0x5e,
                            (uint8_t)(i % 8 * 8)}; /* mov r11,[r14+d]: side by side, as most loads are */
    if (strcmp(what, "zero") == 0)
        lab_put_long(c, zeros[1], 3, k->length);
    else if (strcmp(what, "move") == 0)
        lab_put_long(c, moves[1], 3, k->length);
    else if (strcmp(what, "nop") == 0)
        lab_put_nops(c, k->length);
    else if (strcmp(what, "zero-vec") == 0)
        lab_put_long(c, zero_vec, sizeof zero_vec, k->length);
    else if (strcmp(what, "load") == 0)
        lab_put_long(c, load, sizeof load, k->length);
    else {
        struct x86_choice choice = {.regs = {dest, 12, 12}, .imm = 3, .base = 12, .index = X86_REG_NONE, .disp = 8};
        uint8_t bytes[15];
        if (strncmp(what, "paddd", 5) == 0) {
            choice.regs[0] = (uint8_t)(i % 12);
            choice.regs[1] = 15;
        }
        int len = x86_encode_form(what, &choice, bytes);
        lab_put_long(c, bytes, (size_t)len, k->length);
    }
}

/* Assumes that the loop's code is fetched as fast as it is issued; the length of the instructions (find_length) sees to
 * that. The jump at its end counts as one more. */
static double rate_of(struct calib *k, const char *name, const char *const *forms, unsigned count)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned i = 0; i < COPIES; i++)
        put_one(k, c, forms[i % count], i / count);
    lab_name(k->lab, "rate %s of %zu bytes", name, k->length);
    double cycles = calib_run(k, c, 1, LAB_FILL_INT);
    return cycles > 0 ? (COPIES + 1) / cycles : 0; /* and the jump at the end of the loop */
}

/* Assumes that no three kinds fall behind the width by the same; a core on which all do is taken for narrower. The
 * guard is the agreement: a kind that fuses (nops) or is held up (moves, idioms) is alone with its rate. The largest
 * rate that two others come near to; else that one other does; else the largest but nops'. */
static double agreed(const double *rates, size_t n, bool *two_agree)
{
    *two_agree = true;
    for (unsigned others = 2; others > 0; others--) {
        double best = 0;
        for (size_t i = 0; i < n; i++) {
            unsigned near = 0;
            for (size_t j = 0; j < n; j++)
                near += j != i && fabs(rates[j] / rates[i] - 1) < ALIKE;
            if (near >= others)
                best = fmax(best, rates[i]);
        }
        if (best > 0)
            return best;
    }
    *two_agree = false;
    double best = 0;
    for (size_t i = 0; i < n; i++)
        best = i == NOP ? best : fmax(best, rates[i]);
    return best > 0 ? best : 4;
}

static enum filler choose_filler(const double *rates, double width)
{
    static const struct {
        enum filler filler;
        size_t kind;
    } order[] = {{FILLER_ZERO, ZERO}, {FILLER_NOP, NOP}, {FILLER_MOVE, MOVE}};
    enum filler best = FILLER_ZERO;
    double nearest = INFINITY;
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        double off = fabs(rates[order[i].kind] / width - 1);
        if (off < nearest - ALIKE) {
            nearest = off;
            best = order[i].filler;
        }
    }
    return best;
}

/* Beside as many operations as go in a cycle one more that takes no unit costs nothing, where the width has room.
 * Assumes that it has: find_idioms asks only where the width exceeds the operations' rate by 0.7. */
static bool takes_no_unit(struct calib *k, const char *form, const char *idiom, double rate)
{
    const char *forms[16];
    unsigned n = (unsigned)fmin(14, round(rate));
    for (unsigned i = 0; i < n; i++)
        forms[i] = form;
    forms[n] = idiom;
    char name[64];
    snprintf(name, sizeof name, "%u %s + %s", n, form, idiom);
    return rate_of(k, name, forms, n + 1) > rate * (1 + 0.6 / n);
}

static void find_idioms(struct calib *k, const double *rates, double max_nops)
{
    struct machine *m = k->m;
    if (k->width > rates[ADD_ISOLATED] + 0.7)
        m->zero_idiom =
            rates[ZERO] > rates[ADD_ISOLATED] * 1.1 || takes_no_unit(k, "add r64,r64", "zero", rates[ADD_ISOLATED]);
    if (k->width > rates[PADDD_ISOLATED] + 0.7)
        m->zero_idiom_vec = rates[ZERO_VEC] > rates[PADDD_ISOLATED] * 1.1 ||
                            takes_no_unit(k, "paddd x,x", "zero-vec", rates[PADDD_ISOLATED]);
    if (m->zero_idiom > 0 && rates[ZERO] < k->width * (1 - 2 * ALIKE))
        m->zero_limit = fmax(1, round(rates[ZERO]));
    m->fuse_nop = max_nops > 1.4 * k->width;
}

/* By nops and zeroing idioms: assumes that one of them takes a slot and no unit, which is so on any core known; where
 * none does, the width is what mixes of operations agree upon, and the length the default. Returns how many nops go in
 * a cycle at the most, whatever their length. */
static double find_length(struct calib *k)
{
    static const size_t lengths[] = {5, 4, 6, 8, 3};
    double best = 0, max_nops = 0;
    size_t best_length = lengths[0];
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        k->length = lengths[i];
        double nop = rate_of(k, "nop", &kinds[NOP].forms[0], 1), zero = rate_of(k, "zero", &kinds[ZERO].forms[0], 1);
        max_nops = fmax(max_nops, nop);
        double rate =
            nop > 1.4 * zero ? zero : fmax(nop, zero); /* nops that fuse would come twice as fast at any length */
        if (rate > best * 1.015) {
            best = rate;
            best_length = k->length;
        }
    }
    k->length = best_length;
    return max_nops;
}

/* Of two looks the faster one: nothing makes instructions faster than they are. */
static void look_at_rates(struct calib *k, double *rates)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        unsigned n = 0;
        while (n < FORMS && kinds[i].forms[n])
            n++;
        rates[i] = fmax(rates[i], rate_of(k, kinds[i].name, kinds[i].forms, n));
        diag_debug(2, "rate of %s: %.2f a cycle", kinds[i].name, rates[i]);
    }
}

void calib_width(struct calib *k)
{
    double max_nops = find_length(k), rates[ARRAY_LEN(kinds)] = {0}, width = 0;
    bool two_agree = false;
    for (int again = 0; again < 2 && !two_agree; again++) {
        look_at_rates(k, rates);
        width = agreed(rates, ARRAY_LEN(kinds), &two_agree);
    }
    k->width = fabs(width - round(width)) < 0.06 * width ? round(width) : width;
    k->filler = choose_filler(rates, k->width);
    k->m->max_issue = k->width;
    k->m->retire_width = ceil(k->width);
    find_idioms(k, rates, max_nops);
    diag_debug(1, "calibrate: %.2f slots a cycle, fillers of kind %d", k->width, (int)k->filler);
}
