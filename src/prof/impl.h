/* SPDX-License-Identifier: Apache-2.0
 *
 * prof/impl.h: the last passes of join.c: threads and what they wait for, code, rows, the whole.
 */
#ifndef MTOOL_PROF_IMPL_H
#define MTOOL_PROF_IMPL_H

#include "objects/objects.h"
#include "prof/prof.h"

/* ---- executed.c ---- */
struct executed_work { /* of one thread in one object, self */
    uint64_t instructions, memory_ops;
    double cycles; /* ideal, without mispredicted branches */
};
/* [thread * object_count + object], in j->scratch. NULL: the counted run does not tell the threads of the sampled one
 * apart. */
struct executed_work *executed_build(const struct join *j);

/* ---- spins.c ---- */
bool spins_is_wait_loop(const struct join_module *m, uint32_t loop);

/* ---- waits.c ---- */
struct waits;
struct waits_sense {
    uint32_t caller; /* frame of the first code that is not a library's; ID_NONE not known */
    uint32_t into; /* frame of the library's function that it called; ID_NONE: none. Without caller: the outermost that
                      waits */
    bool is_wait;
};
struct waits *waits_open(struct join *j);
const struct waits_sense *waits_sense_of(struct waits *w, uint32_t frame);
const char *waits_name(struct waits *w,
                       const struct waits_sense *s); /* of the function that was called, or its file; NULL: none */
enum waits_library { WAITS_NONE, WAITS_SYSTEM, WAITS_PARALLEL, WAITS_MESSAGES }; /* runtimes.def */
enum waits_library waits_library_of(struct waits *w, uint32_t frame);
enum waits_library waits_library_of_module(const struct waits *w, uint32_t module);
bool waits_is_waiting(struct waits *w,
                      const struct observed_thread_sample *d); /* for another thread, with or without a processor */
bool waits_is_wait_loop(struct waits *w, const struct join_module *m, uint32_t loop);

/* ---- regions.c ---- */
struct regions_weight { /* of one thread: seconds that one sample stands for */
    double cpu_s, blocked_s;
};
void regions_build(struct join *j, struct waits *waits, const struct regions_weight *weights);

/* ---- threads.c ---- */
void threads_build(struct join *j); /* needs the objects */

/* ---- code.c ---- */
void code_build(struct join *j); /* needs the objects; instructions and callees of those that matter */
/* Does the end of a block that goes to another call it? Jumps inside of a function do not. to may be ID_NONE: no. */
bool code_is_call(const struct join *j, uint32_t block, uint32_t to);

/* ---- whole.c ---- */
void whole_build(struct join *j); /* prediction and overhead of the whole, coverage, modules, refused */

/* ---- spied/spied.c ---- */
void spied_build(struct join *j); /* needs the objects: data objects, if mtool spy found some */

/* ---- rows.c ---- */
void rows_build(struct join *j); /* blocks and edges, as they are stored, if wanted */

#endif
