/* SPDX-License-Identifier: Apache-2.0
 * Addresses that registers hold, as far as the code of one function shows. */
#ifndef MTOOL_LD_KNOWN_H
#define MTOOL_LD_KNOWN_H

#include "ld/code.h"

enum { LD_REGS = 16 };
struct ld_known { /* of a register */
    enum ld_known_kind { LD_NOTHING, LD_ADDRESS, LD_THREAD, LD_UNREACHED } kind;
    uint64_t value; /* in the linked file; THREAD: above the thread's base */
};
struct ld_known_state { /* where a block begins */
    struct ld_known regs[LD_REGS];
};
struct ld_known_solver {               /* zeros before the first function; uses its memory again */
    VEC(struct ld_known_state) states; /* [blocks of the function] */
    VEC(uint32_t) work;
    VEC(bool) is_waiting;
};
/* What registers hold where each block of a function begins, on the ways that were executed. Calls keep what the
 * calling convention says. */
void ld_known_solve(struct ld_known_solver *s, const struct ld_code *c, const struct ld_blocks *all,
                    const struct ld_function *f);
void ld_known_free(struct ld_known_solver *s);
/* From in front of an instruction to behind it. */
void ld_known_follow(const struct x86_detail *d, struct ld_known regs[LD_REGS]);

#endif
