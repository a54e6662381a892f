/* SPDX-License-Identifier: Apache-2.0
 *
 * branches: the model's predictor learns from windows only. A processor that meets the same data again and again learns
 * more; replays and the measured time tell. What replays refute of the branch part is taken off all owners: which of
 * two neighbours waits for a misprediction the model does not tell well. The second replay, whose branches were hardly
 * trained, bounds each. So does the time that the program took in the owner: if more is predicted than was measured,
 * with all its error, mispredictions were too many by that at least. What is left may be theirs or the memory's; it is
 * told as theirs, since memory is accused of nothing that a wrong model leaves over, and the interval says the rest.
 * (Half of it was tried: of nine kernels whose data stay in the cache six were told 8 to 15 % too fast.)
 */
#include "estimate/branches.h"

#include <math.h>

static const double SAID = 0.05; /* of the program's time */

static double not_refuted(const struct branches_owner *owners, size_t count)
{
    double all = 0, refuted = 0;
    for (size_t h = 0; h < count; h++) {
        all += owners[h].branch;
        refuted += owners[h].replay.refuted * owners[h].cycles;
    }
    return all > 0 ? fmax(0, 1 - refuted / all) : 1;
}

static double by_replays(const struct branches_owner *h, double left)
{
    bool is_bounded = h->branch > 0 && h->replay.untrained_max >= 0;
    return is_bounded ? fmin(left, h->replay.untrained_max * h->cycles / h->branch) : left;
}

/* Cycles: as many as the measured time has room for, if there are more. */
static double by_time(const struct join *j, const struct branches_owner *h, double branch)
{
    struct prof_interval actual = actual_of(j, h->samples);
    bool is_too_much = branch > 0 && actual.high * j->core_hz < h->cycles + branch;
    return is_too_much ? fmin(branch, fmax(0, actual.value * j->core_hz - h->cycles)) : branch;
}

void branches_judge(struct join *j, struct branches_owner *owners, size_t count)
{
    double left = not_refuted(owners, count), too_much = 0;
    for (size_t h = 0; h < count; h++) {
        double branch = owners[h].branch * by_replays(&owners[h], left), measured = by_time(j, &owners[h], branch);
        owners[h].part = owners[h].branch > 0 ? measured / owners[h].branch : 1;
        too_much += branch - measured;
    }
    if (too_much > SAID * j->r->actual_user_s.value * j->core_hz)
        prof_warn(j->r, PROF_WARN_BRANCHES_BOUNDED,
                  "the model has %.3g s more of mispredicted branches than the measured time has room for",
                  too_much / j->core_hz);
}
