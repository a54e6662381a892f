/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place where bytes go to Zydis, and where its registers get our numbers. */
#include "x86/impl.h"

static const ZydisDecoder *decoder(void)
{
    static ZydisDecoder d;
    static bool ready;
    if (!ready) {
        ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
        ready = true; /* two threads here at once write the same bytes */
    }
    return &d;
}

bool x86_zydis_decode(const uint8_t *bytes, size_t avail, struct x86_zydis *out)
{
    ZydisDecoderContext ctx;
    memset(out->op, 0, sizeof out->op);
    return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder(), &ctx, bytes, avail, &out->in)) &&
           ZYAN_SUCCESS(ZydisDecoderDecodeOperands(decoder(), &ctx, &out->in, out->op, out->in.operand_count));
}

uint8_t x86_zydis_reg(ZydisRegister r)
{
    ZyanI8 id = ZydisRegisterGetId(r);
    switch (ZydisRegisterGetClass(r)) {
    case ZYDIS_REGCLASS_GPR8:
        if (r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH)
            return (uint8_t)(r - ZYDIS_REGISTER_AH);
        return ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r)) & 15;
    case ZYDIS_REGCLASS_GPR16:
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_GPR64:
        return (uint8_t)(X86_RAX + (id & 15));
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM:
        return (uint8_t)(X86_REG_VEC0 + (id & 31));
    case ZYDIS_REGCLASS_MASK:
        return (uint8_t)(X86_REG_MASK0 + (id & 7));
    case ZYDIS_REGCLASS_X87:
    case ZYDIS_REGCLASS_MMX:
        return X86_REG_X87;
    default:
        return r == ZYDIS_REGISTER_MXCSR ? X86_REG_MXCSR : X86_REG_NONE;
    }
}

bool x86_zydis_is_gpr(ZydisRegister r)
{
    ZydisRegisterClass c = ZydisRegisterGetClass(r);
    return c == ZYDIS_REGCLASS_GPR8 || c == ZYDIS_REGCLASS_GPR16 || c == ZYDIS_REGCLASS_GPR32 ||
           c == ZYDIS_REGCLASS_GPR64;
}
