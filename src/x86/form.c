/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of an instruction's form, as detail.c writes it, taken apart. */
#include "x86/x86.h"

static const struct {
    const char *text;
    struct x86_form_operand operand;
} kinds[] = {
    {"r8", {X86_FORM_GPR, 8}},   {"r16", {X86_FORM_GPR, 16}},  {"r32", {X86_FORM_GPR, 32}}, {"r64", {X86_FORM_GPR, 64}},
    {"x", {X86_FORM_VEC, 128}},  {"y", {X86_FORM_VEC, 256}},   {"z", {X86_FORM_VEC, 512}},  {"k", {X86_FORM_MASK, 64}},
    {"mm", {X86_FORM_MMX, 64}},  {"st", {X86_FORM_X87, 80}},   {"cl", {X86_FORM_CL, 8}},    {"i", {X86_FORM_NUMBER, 0}},
    {"m", {X86_FORM_MEMORY, 0}}, {"b", {X86_FORM_ADDRESS, 0}},
};

static struct x86_form_operand operand_of(const char *text, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strlen(kinds[i].text) == len && memcmp(kinds[i].text, text, len) == 0)
            return kinds[i].operand;
    bool is_sum = memchr(text, '+', len) || memchr(text, '*', len);
    return (struct x86_form_operand){is_sum ? X86_FORM_ADDRESS : X86_FORM_OTHER, 0};
}

static void take_address(struct x86_form *out, const char *text, size_t len)
{
    out->has_base = text[0] == 'b';
    out->has_index = memchr(text, 'i', len) != NULL;
    out->has_scale = memchr(text, '*', len) != NULL;
    out->has_disp = memchr(text, 'd', len) != NULL;
}

static const char *skip(const char *text, const char *prefix, bool *found)
{
    size_t n = strlen(prefix);
    *found = strncmp(text, prefix, n) == 0;
    return *found ? text + n : text;
}

/* "mulps", "vsqrtsd", "paddd", "vpmulld" */
static uint8_t element_of(const char *name)
{
    size_t n = strlen(name);
    if (n < 2 || name[0] == 'p' || strncmp(name, "vp", 2) == 0)
        return X86_ELEMENT_INT;
    char last = name[n - 1], before = name[n - 2];
    if (before != 's' && before != 'p' && !strstr(name, "ps") && !strstr(name, "ss"))
        return X86_ELEMENT_INT;
    return last == 'd' ? X86_ELEMENT_DOUBLE : X86_ELEMENT_FLOAT;
}

static void take_name(struct x86_form *out, const char *text, size_t len)
{
    snprintf(out->name, sizeof out->name, "%.*s", (int)(len < 31 ? len : 31), text);
    out->is_lea = strcmp(out->name, "lea") == 0;
    out->is_jcc = strcmp(out->name, "jcc") == 0;
    out->divides = strstr(out->name, "div") || strstr(out->name, "sqrt");
    out->is_vex = out->name[0] == 'v' || out->name[0] == 'k';
    out->element = element_of(out->name);
}

void x86_form_parse(const char *text, struct x86_form *out)
{
    memset(out, 0, sizeof *out);
    text = skip(text, "lock ", &out->is_locked);
    text = skip(text, "rep ", &out->is_rep);
    size_t n = strcspn(text, " {");
    take_name(out, text, n);
    for (text += n; *text && out->count < X86_FORM_OPERANDS_MAX; text += n) {
        out->has_mask |= *text == '{';
        text += strspn(text, " ,{}");
        n = strcspn(text, " ,{}");
        if (!n)
            continue;
        struct x86_form_operand o = operand_of(text, n);
        if (o.kind == X86_FORM_ADDRESS)
            take_address(out, text, n);
        if (o.kind == X86_FORM_VEC && o.bits > out->vec_bits)
            out->vec_bits = o.bits;
        out->has_gpr |= o.kind == X86_FORM_GPR;
        out->operand[out->count++] = o;
    }
}
