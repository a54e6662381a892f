/* SPDX-License-Identifier: Apache-2.0
 *
 * replay: which slices of a window of the instruction stream are replayed natively (warm replay), and what their times
 * say. The replays themselves are the runtime's (wire.h, struct wire_slice).
 */
#ifndef MTOOL_REPLAY_H
#define MTOOL_REPLAY_H

#include "base/base.h"
#include "wire/wire.h"

enum {
    REPLAY_REMEMBERED = 64,  /* conditional jumps in a row, by any processor surely */
    REPLAY_MISPREDICTED = 50 /* cycles, at a loop's end: what follows waits for what was fetched wrongly, too */
};

/* Chooses the slices of a window that was just recorded: w->slice[window], w->slice_count[window]. Slices do not
 * overlap. None if the window's words are broken, or nothing in it can be replayed. */
void replay_plan(struct wire_windows *w, uint32_t window);

/* Do the windows taken so far, whose slices have been replayed, tell what the code that takes most of the time takes,
 * in cycles an instruction, within six hundredths from end to end? They were begun at random moments of the
 * program's time, so far. */
struct replay_progress;
struct replay_progress *replay_progress_new(void);
void replay_progress_free(struct replay_progress *p);
bool replay_has_converged(struct replay_progress *p, const struct wire_windows *w, uint32_t windows);

/* How the last replayed instruction leaves a slice: by going on; by a jump that never learns to; by one of which it is
 * not known whether it learns. */
enum replay_exit { REPLAY_GOES_ON, REPLAY_LEAVES, REPLAY_MAY_TRAIN, REPLAY_EXITS };
struct replay_edge { /* by enum replay_exit: core cycles of a replay of nothing, its begin and its end */
    double cycles[REPLAY_EXITS], error[REPLAY_EXITS];
};
struct replay_time {
    enum replay_exit exit;
    uint64_t first;      /* step from which on the cycles are, to the slice's last */
    uint64_t iterations; /* that its stub counted in them */
    double cycles;       /* core cycles, branches as well predicted as many replays make them */
    double edge;         /* see above, if all steps take alike; NAN if there is one form only */
    double
        untrained; /* more than the whole takes: the second replay, whose caches are warm and whose branches are not */
    double spread; /* of batches, half the distance of the outermost, and of the replays of one; as a fraction */
};
double replay_width(const struct wire_batch *b); /* grows when a neighbour shares the core's width */
double replay_clock(const struct wire_batch *b); /* core cycles in a tick */
struct replay_quiet {
    double width;
    double shared; /* over that of the quietest: above 1 a neighbour was there nearly all the time, and times may be too
                      long by that */
    double min;    /* the quietest's */
};
/* Of a core which nobody shares, for batches whose widths these are: near to the least that several batches agree on (a
 * single one may be a slip of the clock) the place where most of them lie. If hardly any lie there, where most lie, as
 * long as that is not much more. Sorts them; 0 if there are none. */
struct replay_quiet replay_width_undisturbed(double *widths, size_t n);
/* How much longer the whole slice took in batches of about that width than in the quietest; NAN: there are not both. */
double replay_slower(const struct wire_slice *s, const struct replay_quiet *quiet);
/* Does a batch of this width count? A clock that changed between the two canaries shows as too little width. */
bool replay_is_undisturbed(double width, double undisturbed);
/* Where nothing tells. */
extern const struct replay_edge REPLAY_EDGE_USUAL;
/* From what single slices tell; sorts them. A few are not believed against what is usual. */
struct replay_edge replay_edge_of(double *goes_on, size_t n, double *leaves, size_t m);
/* What a slice's replays say; of batches whose width is about that. edge: what other slices tell of it, for
 * one that has one form only. false: they were not made, or are too short or too unlike to say anything. */
bool replay_measure(const struct wire_slice *s, double width, const struct replay_edge *edge, struct replay_time *out);

#endif
