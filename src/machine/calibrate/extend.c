/* SPDX-License-Identifier: Apache-2.0
 *
 * extend: forms of instructions that a calibration had no time for or did not know, met in a program: timed as the
 * calibration times its own, beside the units that it found then. Only what leaves nothing behind in this process is
 * timed. */
#include "machine/calibrate/calib.h"

#include <math.h>

static const double SHARED = 1.05; /* more than that of a core that is not shared: nothing is timed then */

static const char *const timed_families[] = {
    "int",       "mov",    "lea",     "lea3",    "adc",      "shift",  "shift-cl", "shift-double", "imul",
    "imul-wide", "cmov",   "setcc",   "bit",     "bit-test", "crc",    "vmov",     "vlogic",       "vint",
    "vmul",      "vshift", "shuffle", "permute", "blend",    "blendv", "to-int",   "from-int",     "kmask",
    "fadd",      "fmul",   "fma",     "frecip",  "fcmp",     "fround", "fhadd",    "cvt",          "crypt",
};

static bool is_timed_family(const char *family)
{
    for (size_t i = 0; i < ARRAY_LEN(timed_families); i++)
        if (strcmp(timed_families[i], family) == 0)
            return true;
    return false;
}

/* General, vector and mask registers, constants and addresses; no other state of the processor. */
static bool has_plain_operands(const struct x86_form *f)
{
    unsigned registers = 0;
    for (unsigned i = 0; i < f->count; i++)
        switch ((enum x86_form_kind)f->operand[i].kind) {
        case X86_FORM_GPR:
        case X86_FORM_VEC:
        case X86_FORM_MASK:
            registers++;
            break;
        case X86_FORM_NUMBER:
        case X86_FORM_CL:
            break;
        case X86_FORM_ADDRESS:
            if (!f->has_base && !f->has_index)
                return false;
            break;
        default:
            return false;
        }
    return registers > 0;
}

bool machine_can_time(const struct x86_detail *d)
{
    bool leaves = x86_is_branch(&d->insn) || d->is_serializing ||
                  (d->insn.props & (X86_PROP_REP | X86_PROP_LOCK | X86_PROP_VSIB));
    if (leaves)
        return false;
    struct x86_form f;
    x86_form_parse(d->form, &f);
    return is_timed_family(machine_family(d, &f)) && has_plain_operands(&f) && timing_can(&f);
}

static void take_known(struct calib *k)
{
    for (size_t i = 0; i < k->m->form_count; i++) {
        const struct machine_form *f = &k->m->forms[i];
        struct timed_form t = {
            .form = f->form, .latency = f->measured_latency, .interval = f->measured_interval, .slots = 1};
        x86_form_parse(f->form, &t.parsed);
        if (f->measured_interval >= 0)
            VEC_PUSH(&k->forms, t);
    }
    k->classified = k->forms.len;
}

size_t machine_extend(struct machine *m, const char *const *forms, size_t count, double budget_s)
{
    size_t before = m->form_count;
    if (!machine_is_this(m) || strcmp(m->source, "calibrated") != 0 || !count)
        return 0;
    struct calib k = {
        .m = m, .width = m->max_issue, .length = 5, .arena = arena_new(), .lab = lab_open(NULL, budget_s)};
    bool is_quiet = k.lab && lab_canary(k.lab) < SHARED * (m->nop_cycles > 0 ? m->nop_cycles : INFINITY);
    if (is_quiet) {
        take_known(&k);
        calib_more(&k, forms, count, budget_s);
    }
    if (k.lab)
        lab_close(k.lab);
    VEC_FREE(&k.forms);
    arena_free(k.arena);
    return m->form_count - before;
}
