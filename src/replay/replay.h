/* SPDX-License-Identifier: Apache-2.0
 *
 * replay: which slices of a window of the instruction stream are replayed natively (warm replay), and what their times say.
 * The replays themselves are the runtime's (wire.h, struct wire_slice).
 */
#ifndef MTOOL_REPLAY_H
#define MTOOL_REPLAY_H

#include "base/base.h"
#include "wire/wire.h"

/* Chooses the slices of a window that was just recorded: w->slice[window], w->slice_count[window]. Slices do not overlap. None
 * if the window's words are broken, or nothing in it can be replayed. */
void replay_plan(struct wire_windows *w, uint32_t window);

struct replay_time {
    double cycles;    /* core cycles of one warm replay, branches as well predicted as many replays make them */
    double untrained; /* more than that: the second replay, whose caches are warm and whose branches are not */
    double spread;    /* of batches, half the distance of the outermost, and of the replays of one; as a fraction */
};
double replay_width(const struct wire_batch *b); /* grows when a neighbour shares the core's width */
/* That of a core which nobody shares, for batches whose widths these are. known: what it is known to be, or 0. Near to that, the
 * place where most batches lie, or it itself if hardly any does: all had a neighbour. Where it is not known, the least that several
 * batches agree on, since a single one may be a slip of the clock. Sorts them; 0 if there is nothing to tell it by. */
double replay_width_alone(double *widths, size_t n, double known);
/* Does a batch of this width count? A clock that changed between the two canaries shows as too little width. */
bool replay_is_alone(double width, double alone);
/* What a slice's replays say; of batches whose width is about that. false: they were not made, or are too short or too unlike to
 * say anything. */
bool replay_measure(const struct wire_slice *s, double width, struct replay_time *out);

#endif
