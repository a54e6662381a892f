/* SPDX-License-Identifier: Apache-2.0
 * x86/impl.h: what all files here ask Zydis by. */
#ifndef MTOOL_X86_IMPL_H
#define MTOOL_X86_IMPL_H

#include "x86/x86.h"

#include <Zydis/Zydis.h>

/* False: no instruction. Operands that it has not are zero. */
bool x86_zydis_decode(const uint8_t *bytes, size_t avail, ZydisDecodedInstruction *in,
                      ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT]);
/* enum x86_reg of the register that holds r, or X86_REG_NONE for those that no model follows (rip, segments, rflags).
 */
uint8_t x86_zydis_reg(ZydisRegister r);
bool x86_zydis_is_gpr(ZydisRegister r); /* or a part of one */

#endif
