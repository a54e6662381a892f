/* SPDX-License-Identifier: Apache-2.0
 *
 * From the form of an instruction, as detail.c writes it, and a choice of registers to its bytes. It knows no branches:
 * those that write code at run time place them by hand. */
#include "x86/impl.h"

static const struct {
    const char *text;
    ZydisRegister first;
} kinds[] = {
    {"r8", ZYDIS_REGISTER_AL},  {"r16", ZYDIS_REGISTER_AX}, {"r32", ZYDIS_REGISTER_EAX}, {"r64", ZYDIS_REGISTER_RAX},
    {"x", ZYDIS_REGISTER_XMM0}, {"y", ZYDIS_REGISTER_YMM0}, {"z", ZYDIS_REGISTER_ZMM0},  {"k", ZYDIS_REGISTER_K0},
    {"mm", ZYDIS_REGISTER_MM0}, {"st", ZYDIS_REGISTER_ST0},
};

static ZydisMnemonic mnemonic_of(const char *name)
{
    static char last_name[32];
    static ZydisMnemonic last;
    if (strcmp(name, last_name) == 0)
        return last;
    snprintf(last_name, sizeof last_name, "%.31s", name);
    last = ZYDIS_MNEMONIC_INVALID;
    for (int m = 1; m <= ZYDIS_MNEMONIC_MAX_VALUE; m++)
        if (strcmp(ZydisMnemonicGetString((ZydisMnemonic)m), name) == 0)
            last = (ZydisMnemonic)m;
    return last;
}

static const char *with_condition(const char *name)
{
    static const char *const names[][2] = {
        {"cmovcc", "cmovz"}, {"cmovbe", "cmovbe"}, {"setcc", "setz"}, {"setbe", "setbe"}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i][0], name) == 0)
            return names[i][1];
    return name;
}

/* Byte registers: al cl dl bl, then spl bpl sil dil and r8b on, which Zydis lists behind ah ch dh bh. */
static ZydisRegister register_of(const char *kind, uint8_t number)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].text, kind) == 0)
            return (ZydisRegister)(kinds[i].first + number + (i == 0 && number >= 4 ? 4 : 0));
    return ZYDIS_REGISTER_NONE;
}

static ZydisRegister address_register(uint8_t number)
{
    return number == X86_REG_NONE ? ZYDIS_REGISTER_NONE : (ZydisRegister)(ZYDIS_REGISTER_RAX + number);
}

static void put_memory(ZydisEncoderOperand *op, const struct x86_choice *c)
{
    op->type = ZYDIS_OPERAND_TYPE_MEMORY;
    op->mem.base = address_register(c->base);
    op->mem.index = address_register(c->index);
    op->mem.scale = c->index == X86_REG_NONE ? 0 : c->scale ? c->scale : 1;
    op->mem.displacement = c->disp;
}

static bool put_operand(ZydisEncoderRequest *r, const char *kind, const struct x86_choice *c, unsigned *reg)
{
    ZydisEncoderOperand *op = &r->operands[r->operand_count++];
    if (strcmp(kind, "i") == 0) {
        op->type = ZYDIS_OPERAND_TYPE_IMMEDIATE;
        op->imm.s = c->imm;
        return true;
    }
    if (strcmp(kind, "m") == 0 || strpbrk(kind, "+*") || strcmp(kind, "b") == 0) {
        put_memory(op, c);
        return true;
    }
    op->type = ZYDIS_OPERAND_TYPE_REGISTER;
    op->reg.value = strcmp(kind, "cl") == 0 ? ZYDIS_REGISTER_CL : register_of(kind, c->regs[(*reg)++ % 5]);
    return op->reg.value != ZYDIS_REGISTER_NONE;
}

/* "vaddpd z{k},z,z" -> operands z, k, z, z */
static bool put_operands(ZydisEncoderRequest *r, const char *text, const struct x86_choice *c)
{
    unsigned reg = 0;
    while (*text && r->operand_count < ZYDIS_ENCODER_MAX_OPERANDS) {
        char kind[16];
        size_t n = strcspn(text, ",{}");
        snprintf(kind, sizeof kind, "%.*s", (int)n, text);
        if (n && !put_operand(r, kind, c, &reg))
            return false;
        text += n + (text[n] != 0);
    }
    return true;
}

static int encode(ZydisEncoderRequest *r, ZydisEncoderOperand *memory, uint8_t out[15])
{
    static const uint16_t sizes[] = {8, 4, 16, 32, 64, 2, 1};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        ZyanUSize len = 15;
        if (memory)
            memory->mem.size = sizes[i];
        if (ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(r, out, &len)))
            return (int)len;
        if (!memory)
            break;
    }
    return 0;
}

/* Vector instructions without mask and beyond register 15 need the empty mask k0 spelled out. */
static void add_empty_mask(ZydisEncoderRequest *r)
{
    memmove(&r->operands[2], &r->operands[1], sizeof r->operands[0] * (ZYDIS_ENCODER_MAX_OPERANDS - 2));
    r->operands[1] = (ZydisEncoderOperand){.type = ZYDIS_OPERAND_TYPE_REGISTER, .reg = {.value = ZYDIS_REGISTER_K0}};
    r->operand_count++;
}

int x86_encode_form(const char *form, const struct x86_choice *c, uint8_t out[15])
{
    char name[32];
    size_t n = strcspn(form, " {");
    snprintf(name, sizeof name, "%.*s", (int)(n < 31 ? n : 31), form);
    ZydisEncoderRequest r;
    memset(&r, 0, sizeof r);
    r.machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    r.mnemonic = mnemonic_of(with_condition(name));
    if (r.mnemonic == ZYDIS_MNEMONIC_INVALID || !put_operands(&r, form + n + (form[n] == ' '), c))
        return 0;
    ZydisEncoderOperand *memory = NULL;
    for (unsigned i = 0; i < r.operand_count; i++)
        if (r.operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
            memory = &r.operands[i];
    r.allowed_encodings = ZYDIS_ENCODABLE_ENCODING_LEGACY | ZYDIS_ENCODABLE_ENCODING_VEX;
    int len = encode(&r, memory, out);
    if (len)
        return len;
    r.allowed_encodings = ZYDIS_ENCODABLE_ENCODING_EVEX;
    len = encode(&r, memory, out);
    if (len || r.operand_count < 2 || r.operand_count >= ZYDIS_ENCODER_MAX_OPERANDS || strchr(form, '{'))
        return len;
    add_empty_mask(&r);
    if (memory)
        memory++;
    return encode(&r, memory, out);
}
