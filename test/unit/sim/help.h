/* SPDX-License-Identifier: Apache-2.0
 * What tests of the core model share: machines from text, code from hexadecimal digits, cycles of an iteration. */
#ifndef TEST_SIM_HELP_H
#define TEST_SIM_HELP_H

#include "sim/sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h> /* needs the three above it */

struct machine *machine_of(const char *text);
/* The instructions, one behind the other from 0x1000 on, into table. */
struct sim_core *core_of(const struct machine *m, struct sim_insn *table, const char *const *hex, size_t n);
/* Cycles for one iteration through the instructions, as a loop of many iterations. */
double loop_cost(const char *machine, const char *const *hex, size_t n, bool jumps);

#define NEAR(a, b)                                                                                                     \
    do {                                                                                                               \
        double got = (a);                                                                                              \
        if (!(fabs(got - (b)) < 0.02 * (b)))                                                                           \
            fail_msg("%s is %g, not %g", #a, got, (double)(b));                                                        \
    } while (0)

#endif
