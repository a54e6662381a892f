/* SPDX-License-Identifier: Apache-2.0
 *
 * From the form of an instruction, as detail.c writes it, and a choice of registers to its bytes. It knows no branches:
 * those that write code at run time place them by hand. */
#include "x86/impl.h"

#include <pthread.h>
#include <stdlib.h>

/* All mnemonics by their names. */
static ZydisMnemonic by_name[ZYDIS_MNEMONIC_MAX_VALUE];
static pthread_once_t by_name_is_sorted = PTHREAD_ONCE_INIT;

static const char *name_of(const void *mnemonic) { return ZydisMnemonicGetString(*(const ZydisMnemonic *)mnemonic); }
static int compare_names(const void *a, const void *b) { return strcmp(name_of(a), name_of(b)); }
static int compare_name(const void *name, const void *mnemonic) { return strcmp(name, name_of(mnemonic)); }

static void sort_by_name(void)
{
    for (int m = 1; m <= ZYDIS_MNEMONIC_MAX_VALUE; m++)
        by_name[m - 1] = (ZydisMnemonic)m;
    qsort(by_name, ARRAY_LEN(by_name), sizeof *by_name, compare_names);
}

static ZydisMnemonic mnemonic_of(const char *name)
{
    pthread_once(&by_name_is_sorted, sort_by_name);
    const ZydisMnemonic *m = bsearch(name, by_name, ARRAY_LEN(by_name), sizeof *by_name, compare_name);
    return m ? *m : ZYDIS_MNEMONIC_INVALID;
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

static ZydisRegister general_register(unsigned bits, unsigned number)
{
    switch (bits) {
    case 8: /* al cl dl bl, then spl bpl sil dil and r8b on, which Zydis lists behind ah ch dh bh */
        return (ZydisRegister)(ZYDIS_REGISTER_AL + number + (number >= 4 ? 4 : 0));
    case 16:
        return (ZydisRegister)(ZYDIS_REGISTER_AX + number);
    case 32:
        return (ZydisRegister)(ZYDIS_REGISTER_EAX + number);
    default:
        return (ZydisRegister)(ZYDIS_REGISTER_RAX + number);
    }
}

static ZydisRegister register_of(struct x86_form_operand o, unsigned number)
{
    switch ((enum x86_form_kind)o.kind) {
    case X86_FORM_GPR:
        return general_register(o.bits, number);
    case X86_FORM_VEC:
        return (ZydisRegister)((o.bits == 128   ? ZYDIS_REGISTER_XMM0
                                : o.bits == 256 ? ZYDIS_REGISTER_YMM0
                                                : ZYDIS_REGISTER_ZMM0) +
                               number);
    case X86_FORM_MASK:
        return (ZydisRegister)(ZYDIS_REGISTER_K0 + number);
    case X86_FORM_MMX:
        return (ZydisRegister)(ZYDIS_REGISTER_MM0 + number);
    case X86_FORM_X87:
        return (ZydisRegister)(ZYDIS_REGISTER_ST0 + number);
    default:
        return ZYDIS_REGISTER_NONE;
    }
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

static bool put_operand(ZydisEncoderRequest *r, struct x86_form_operand o, const struct x86_choice *c, unsigned *reg)
{
    ZydisEncoderOperand *op = &r->operands[r->operand_count++];
    switch ((enum x86_form_kind)o.kind) {
    case X86_FORM_NUMBER:
        op->type = ZYDIS_OPERAND_TYPE_IMMEDIATE;
        op->imm.s = c->imm;
        return true;
    case X86_FORM_MEMORY:
    case X86_FORM_ADDRESS:
        put_memory(op, c);
        return true;
    case X86_FORM_CL:
        op->type = ZYDIS_OPERAND_TYPE_REGISTER;
        op->reg.value = ZYDIS_REGISTER_CL;
        return true;
    default:
        op->type = ZYDIS_OPERAND_TYPE_REGISTER;
        op->reg.value = register_of(o, c->regs[(*reg)++ % 5]);
        return op->reg.value != ZYDIS_REGISTER_NONE;
    }
}

static bool put_operands(ZydisEncoderRequest *r, const struct x86_form *f, const struct x86_choice *c)
{
    unsigned reg = 0;
    for (unsigned i = 0; i < f->count; i++)
        if (!put_operand(r, f->operand[i], c, &reg))
            return false;
    return true;
}
_Static_assert(X86_FORM_OPERANDS_MAX <= ZYDIS_ENCODER_MAX_OPERANDS, "an encoder's request has room for all");

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
    struct x86_form f;
    x86_form_parse(form, &f);
    return x86_encode(&f, c, out);
}

int x86_encode(const struct x86_form *f, const struct x86_choice *c, uint8_t out[15])
{
    ZydisEncoderRequest r;
    memset(&r, 0, sizeof r);
    r.machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    r.mnemonic = mnemonic_of(with_condition(f->name));
    if (f->is_locked || f->is_rep || r.mnemonic == ZYDIS_MNEMONIC_INVALID || !put_operands(&r, f, c))
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
    if (len || r.operand_count < 2 || r.operand_count >= ZYDIS_ENCODER_MAX_OPERANDS || f->has_mask)
        return len;
    add_empty_mask(&r);
    if (memory)
        memory++;
    return encode(&r, memory, out);
}
