/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of all functions of a program, as detect_calls.c keeps them for detect.c. */
#ifndef MTOOL_DATA_DETECT_H
#define MTOOL_DATA_DETECT_H

#include "data/data.h"

enum { DETECT_ARGUMENTS = 3 };
#define DETECT_NO_CALL UINT32_MAX

struct detect_call {
    uint32_t function, entered, left; /* times; left 0: never seen */
    uint64_t a[DETECT_ARGUMENTS], value, stack;
};
struct detect_pending {
    uint64_t stack;
    uint32_t call;
};
struct detect_thread {
    uint64_t number, low, high; /* of its stack, as far as seen */
    VEC(struct detect_pending) pending;
};
struct data_detector {
    uint64_t image, image_end; /* of the program's own file in memory: nothing is allocated there */
    VEC(struct detect_call) calls;
    VEC(uint32_t) events; /* by time: call * 2, + 1 where it is left */
    VEC(struct detect_thread *) threads;
    uint32_t functions; /* the highest number, and one */
};

/* Neither in the program's file nor on a stack that was seen, and aligned as malloc's blocks are. */
bool detect_may_be_heap(const struct data_detector *t, uint64_t address);

#endif
