/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of cfg share: opening a fixture, and finding functions, labels and marks in it. */
#ifndef TEST_CFG_HELP_H
#define TEST_CFG_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those above it */

#include "cfg/impl.h"

struct fixture {
    struct image *img;
    struct cfg *c;
};

extern const char *fixture_dir; /* where the compiled fixtures are: the test program's argument */
void fixture_open(struct fixture *f, const char *name); /* built and checked; NAME with a slash: a file of the system */
void fixture_close(struct fixture *f);
uint64_t label(const struct fixture *f, const char *name); /* of a symbol; fails the test if there is none */
const struct cfg_func *func(const struct fixture *f, const char *name); /* that starts there */
uint32_t block_at_label(const struct fixture *f, const char *name); /* block that starts at the symbol, or ID_NONE */
bool has_edge(const struct fixture *f, uint32_t from, uint32_t to, enum cfg_edge_kind kind);
uint32_t insn_at_label(const struct fixture *f, const char *name);
/* The n-th (from 0) instruction of the image that carries MARK(mark), or ID_NONE. */
uint32_t find_mark(const struct fixture *f, unsigned mark, unsigned n);
uint32_t block_of_insn(const struct fixture *f, uint32_t insn);

#endif
