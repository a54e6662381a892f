/* SPDX-License-Identifier: Apache-2.0
 * The code of counted blocks, as it is in the linked file. */
#ifndef MTOOL_LD_CODE_H
#define MTOOL_LD_CODE_H

#include "cfg/cfg.h"
#include "image/image.h"
#include "ld/ld.h"
#include "x86/x86.h"

enum { LD_CODE_INSNS_MAX = CFG_BLOCK_INSNS_MAX };

struct ld_code {
    const struct image *img;
    uint64_t counters_lo, counters_hi; /* where its counters lie */
};
/* ld_blocks_read, and the linked file itself. */
int ld_blocks_read_with(const char *path, const char *const *files, size_t count, struct ld_blocks **out,
                        struct image **img);
struct ld_code ld_code_begin(const struct image *img);
/* Addresses of the block's original instructions into at[LD_CODE_INSNS_MAX]. False: there are fewer. */
bool ld_code_of(const struct ld_code *c, const struct ld_block *b, uint64_t *at);
bool ld_code_decode(const struct ld_code *c, uint64_t at, struct x86_detail *out);

#endif
