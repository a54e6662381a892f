/* SPDX-License-Identifier: Apache-2.0
 * What the files of this folder share among themselves. */
#ifndef MTOOL_MACHINE_IMPL_H
#define MTOOL_MACHINE_IMPL_H

#include "machine/machine.h"

uint64_t machine_hash(const char *text);
struct x86_detail detail_of_form(
    const struct x86_form *f); /* units.c: of a plain instruction of that form; its form is "" if there is none */
/* "vaddpd z{k},z,z" -> "~addpd z/z": the same operation whatever its encoding and mask; cannot be a form itself. */
void machine_width_key(const char *form, const struct x86_form *f, char out[MACHINE_NAME_LEN]);

#endif
