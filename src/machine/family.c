/* SPDX-License-Identifier: Apache-2.0
 *
 * From an instruction to its class: by its exact form where the description lists it, else by the family of its
 * mnemonic, so that forms nobody ever timed still get a sane class. */
#include "machine/impl.h"

static const struct {
    const char *name, *parent;
} families[] = {
#define F(name, parent, text) {name, parent},
#include "machine/families.def"
#undef F
};

static const struct {
    const char *pattern, *family;
} mnemonics[] = {
#define M(pattern, family) {pattern, family},
#include "machine/mnemonics.def"
#undef M
};

static bool fits(const char *pattern, const char *text)
{
    for (; *pattern && *pattern != '*'; pattern++, text++)
        if (!*text || (*pattern != '?' && *pattern != *text))
            return false;
    return *pattern == '*' || !*text;
}

static const char *family_of_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(mnemonics); i++)
        if (fits(mnemonics[i].pattern, name))
            return mnemonics[i].family;
    return NULL;
}

static bool is_double(const char *name)
{
    size_t n = strlen(name);
    return n && name[n - 1] == 'd';
}

static const char *refine(const struct x86_form *f, const char *family)
{
    const char *name = f->name;
    if (strcmp(family, "string") == 0 && f->count > 1) /* movsd x,x and cmpsd x,x,i share their names */
        return name[name[0] == 'v'] == 'm' ? "shuffle" : "fadd";
    if (strcmp(family, "fdiv") == 0)
        return is_double(name) ? "fdiv64" : "fdiv32";
    if (strcmp(family, "fsqrt") == 0)
        return is_double(name) ? "fsqrt64" : "fsqrt32";
    if (strcmp(family, "shift") == 0 && f->count > 1 && f->operand[f->count - 1].kind == X86_FORM_CL)
        return "shift-cl";
    if (strcmp(family, "imul") == 0 && f->count < 2)
        return "imul-wide";
    if (strcmp(family, "mov") == 0 && f->vec_bits) {
        bool to_gpr = f->operand[0].kind == X86_FORM_GPR;
        return f->has_gpr && !to_gpr ? "from-int" : to_gpr ? "to-int" : "vmov";
    }
    return family;
}

const char *machine_family(const struct x86_detail *d, const struct x86_form *f)
{
    const char *name = f->name;
    if (d->insn.props & X86_PROP_LOCK)
        return "atomic";
    if (d->insn.props & X86_PROP_REP)
        return "string";
    if (d->insn.op == X86_OP_LEA)
        return f->has_base && f->has_index && f->has_disp ? "lea3" : "lea";
    if (d->insn.op == X86_OP_DIV || d->insn.op == X86_OP_IDIV)
        return d->op_bits > 32 ? "div64" : "div32";
    if (d->insn.kind == X86_RET)
        return "ret";
    if (x86_is_call(&d->insn))
        return "call";
    if (x86_is_branch(&d->insn) && !x86_is_conditional(&d->insn))
        return x86_is_indirect(&d->insn) ? "jump-indirect" : "jump";
    const char *family = family_of_name(name[0] == 'v' && name[1] ? name + 1 : name);
    return family ? refine(f, family) : "other";
}

static const char *parent_of(const char *family)
{
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        if (strcmp(families[i].name, family) == 0)
            return families[i].parent;
    return "other";
}

static bool has_wide_gpr(const struct x86_form *f)
{
    bool has = false;
    for (unsigned i = 0; i < f->count; i++)
        has |= f->operand[i].kind == X86_FORM_GPR && f->operand[i].bits == 64;
    return has;
}

void machine_width_key(const char *form, const struct x86_form *f, char out[MACHINE_NAME_LEN])
{
    if (f->is_lea) { /* its addresses are different operations */
        snprintf(out, MACHINE_NAME_LEN, "~%.46s", form);
        return;
    }
    const char *operands =
        form + (f->is_locked ? strlen("lock ") : 0) + (f->is_rep ? strlen("rep ") : 0) + strlen(f->name);
    const char *width = f->vec_bits == 512   ? "z"
                        : f->vec_bits == 256 ? "y"
                        : f->vec_bits        ? "x"
                        : has_wide_gpr(f)    ? "64"
                                             : "";
    char first = *operands == '{' ? 'x' : *operands ? operands[1] : '-';
    bool has_v = f->name[0] == 'v' && *width;
    bool by_cl = f->count && f->operand[f->count - 1].kind == X86_FORM_CL;
    snprintf(out, MACHINE_NAME_LEN, "~%s%.24s %c/%s%s", f->is_locked ? "lock " : "", f->name + has_v, first, width,
             by_cl ? "cl" : "");
}

static const struct machine_class *class_of_text(const struct machine *m, const char *text)
{
    uint64_t i;
    return map_get(&m->form_index, machine_hash(text), &i) ? &m->classes[m->forms[i].class_id] : NULL;
}

const struct machine_form *machine_form_named(const struct machine *m, const char *form)
{
    uint64_t i;
    return map_get(&m->form_index, machine_hash(form), &i) ? &m->forms[i] : NULL;
}

static const struct machine_class *class_of_family(const struct machine *m, const struct x86_detail *d,
                                                   const struct x86_form *form)
{
    const char *width = d->op_bits > 256 ? ".z" : d->op_bits > 128 ? ".y" : "";
    for (const char *f = machine_family(d, form); strcmp(f, "other") != 0; f = parent_of(f)) {
        char name[MACHINE_NAME_LEN];
        snprintf(name, sizeof name, "%s%s", f, width);
        const struct machine_class *c = machine_class_named(m, name);
        c = c ? c : machine_class_named(m, f);
        if (c)
            return c;
    }
    return NULL;
}

const struct machine_class *machine_class_of(const struct machine *m, const struct x86_detail *d,
                                             enum machine_match *how)
{
    enum machine_match ignored = MACHINE_MATCH_FORM;
    how = how ? how : &ignored;
    *how = MACHINE_MATCH_FORM;
    const struct machine_class *c = class_of_text(m, d->form);
    if (c || d->is_pure_move)
        return c;
    struct x86_form form;
    char key[MACHINE_NAME_LEN];
    x86_form_parse(d->form, &form);
    machine_width_key(d->form, &form, key);
    *how = MACHINE_MATCH_FAMILY;
    c = class_of_text(m, key);
    c = c ? c : class_of_family(m, d, &form);
    if (c)
        return c;
    *how = MACHINE_MATCH_OTHER;
    return machine_class_named(m, "other");
}

const struct machine_class *machine_access(const struct machine *m, const struct x86_detail *d, bool store)
{
    static const char *const names[2][4] = {{"load", "load.x", "load.y", "load.z"},
                                            {"store", "store.x", "store.y", "store.z"}};
    unsigned width = !d->is_vec ? 0 : d->mem_bytes > 32 ? 3 : d->mem_bytes > 16 ? 2 : 1;
    const struct machine_class *c = NULL;
    if (store && d->addr_indexed) {
        char name[MACHINE_NAME_LEN];
        snprintf(name, sizeof name, "%s-indexed", names[1][width]);
        c = machine_class_named(m, name);
    }
    for (unsigned w = width + 1; !c && w-- > 0;)
        c = machine_class_named(m, names[store][w]);
    for (unsigned w = width + 1; !c && w < 4; w++)
        c = machine_class_named(m, names[store][w]);
    return c ? c : machine_class_named(m, "other");
}
