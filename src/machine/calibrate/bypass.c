/* SPDX-License-Identifier: Apache-2.0
 *
 * Results that others get later than operations of the same kind: additions whose units hand a sum straight to the next
 * addition, domains of integers and of floating point. In chains of two forms in turn; what such a chain takes longer
 * than both alone is distinguished by a third form. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

enum { PAIRS = 60 };

static bool put_link(struct lab_code *c, const struct x86_form *f)
{
    struct x86_choice choice = {.regs = {0, 0, 0, 0, 0}, .imm = 0x4e, .base = X86_REG_NONE, .index = X86_REG_NONE};
    uint8_t bytes[15];
    if (f->count && f->operand[f->count - 1].kind != X86_FORM_NUMBER)
        choice.regs[f->count > 2 ? 2 : 1] = 14; /* else the register itself is the only source */
    int len = x86_encode(f, &choice, bytes);
    lab_put(c, bytes, (size_t)len);
    return len != 0;
}

/* Cycles by which a chain of both in turn is longer than their latencies; NAN: unknown. */
static double excess(struct calib *k, const char *f, const char *g)
{
    const struct timed_form *a = timing_of(k, f);
    double latency = a ? a->latency : -1;
    const struct timed_form *b = timing_of(k, g);
    bool ok = latency > 0 && b && b->latency > 0;
    struct lab_code *c = xmalloc(sizeof *c);
    struct x86_form first, second;
    x86_form_parse(f, &first);
    x86_form_parse(g, &second);
    for (int i = 0; i < PAIRS && ok; i++)
        ok = put_link(c, &first) && put_link(c, &second);
    if (!ok) {
        free(c);
        return NAN;
    }
    latency += b->latency;
    lab_name(k->lab, "chain %s, %s in turn", f, g);
    double cycles = calib_run(k, c, PAIRS, timing_fill(&first));
    return cycles < 0 ? NAN : cycles - latency;
}

/* To all classes of that form's family on the same units, of the same latency. */
static void apply(struct machine *m, const char *form, double late)
{
    const struct machine_form *f = machine_form_named(m, form);
    if (!f)
        return;
    const struct machine_class *of = &m->classes[f->class_id];
    size_t len = strcspn(of->name, ".");
    for (size_t i = 0; i < m->class_count; i++) {
        struct machine_class *c = &m->classes[i];
        bool is_kin = strncmp(c->name, of->name, len) == 0 && (!c->name[len] || c->name[len] == '.');
        if (is_kin && c->use_count == of->use_count && c->uses[0].ports == of->uses[0].ports &&
            c->latency == of->latency)
            c->latency_bypass = c->latency + late;
    }
}

/* Assumes that no form of three is early to one of the others and late to the third, and that what the first form's
 * results are late by does not depend on who gets them. Less than two thirds of a cycle is none. */
void calib_bypass(struct calib *k)
{
    static const struct {
        const char *form, *second, *third;
        unsigned bits;
    } triples[] = {
        {"addpd x,x", "mulpd x,x", "shufps x,x,i", 128},
        {"mulpd x,x", "addpd x,x", "shufps x,x,i", 128},
        {"paddd x,x", "pshufd x,x,i", "pmulld x,x", 128},
        {"vaddpd z,z,z", "vmulpd z,z,z", "vpshufd z,z,i", 512},
    };
    for (size_t i = 0; i < ARRAY_LEN(triples); i++) {
        if (triples[i].bits > 128 && !lab_has_vectors(k->lab, triples[i].bits))
            continue;
        double to_second = excess(k, triples[i].form, triples[i].second),
               to_third = excess(k, triples[i].form, triples[i].third),
               others = excess(k, triples[i].second, triples[i].third);
        double late = fmin(fmin(to_second, to_third), (to_second + to_third - others) / 2);
        if (late > 0.66 && !isnan(others))
            apply(k->m, triples[i].form, round(late));
    }
}
