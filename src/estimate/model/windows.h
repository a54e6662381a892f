/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/model/windows.h: the real instruction stream through the core model.
 */
#ifndef MTOOL_ESTIMATE_MODEL_WINDOWS_H
#define MTOOL_ESTIMATE_MODEL_WINDOWS_H

#include "measured/input.h"
#include "sim/sim.h"
#include "trace/trace.h"

struct window_known {
    const void *of;         /* window, or translated code that windows share, ... */
    VEC(uint32_t) index_of; /* ... by an instruction's id there: what was answered, plus 1; 0 not asked, or not known */
};
struct window_player {
    struct sim_feed *core, *mispredicting; /* every branch predicted; only those that `predictor` gets right */
    struct sim_core *core_of_slice;        /* for slices of their own, which count nowhere */
    struct sim_predictor *predictor;
    const struct sim_insn *table;
    /* Index in the table of the instruction at a place (see trace_insn); ID_NONE: no
     * code that is known. */
    uint32_t (*index_of)(void *ctx, uint64_t place);
    void (*went)(void *ctx, uint64_t from,
                 uint64_t to);  /* places of a branch and of what came after it; NULL: not asked for */
    void *ctx;                  /* of both */
    uint32_t warm;              /* instructions that fill an empty pipeline and are not attributed */
    bool branches_known;        /* bursts have told of branches: only `core` plays, and the predictor learns */
    uint32_t training;          /* of this window: those left that only train the predictor */
    struct window_known *known; /* the caller's, to begin with zeros, who frees its array */
};
/* Returns how many instructions were played. wrong: a bit for each branch (trace_is_branch), in order: mispredicted, as
 * a predictor said that looked on; NULL: p->predictor is asked, and the first half of the window only trains it. */
uint64_t window_play(struct window_player *p, const struct trace_window *w, const uint8_t *wrong);
/* Calls `each` for every instruction of steps first ... last - 1, iterations of a repeated one together, with the
 * registers before it, its place and that of what came after it. false: some of the code is not known. */
bool window_steps(const struct window_player *p, const struct trace_window *w, uint64_t first, uint64_t last,
                  void (*each)(void *ctx, uint32_t index, const uint64_t regs[16], uint64_t from, uint64_t to),
                  void *ctx);

#endif
