/* SPDX-License-Identifier: Apache-2.0
 * The stream of instructions that one run of a function executes, recorded in this process by single steps. */
#ifndef MTOOL_SIM_RECORD_H
#define MTOOL_SIM_RECORD_H

#include "base/base.h"

struct record_step {
    uint64_t rip;
    uint64_t regs[16]; /* before the instruction; 0 rax, 1 rcx ... 15 r15 */
};
struct record {
    struct record_step *steps; /* caller's, `cap` of them */
    size_t count, cap;
    bool overflow; /* more was executed than fits */
    /* When it comes to this address for the so manieth time, that step is the last; 0: all is recorded. A step takes
     * some 30 us in virtual machines that emulate it. */
    uint64_t last_at;
    unsigned last_count;
};
/* Runs f(iterations, data) and records it. 0, or -1 if single steps do not work here. */
int record_run(void (*f)(uint64_t iterations, void *data), uint64_t iterations, void *data, struct record *out);

#endif
