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

static const double SAID = 0.05;        /* of the program's time */
static const double WINDOWS_OF_ALL = 4; /* weigh all owners beside one's own windows */

static double not_refuted(const struct branches_owner *owners, size_t count)
{
    double all = 0, refuted = 0;
    for (size_t h = 0; h < count; h++) {
        all += owners[h].branch;
        refuted += owners[h].replay.refuted * owners[h].cycles;
    }
    return all > 0 ? fmax(0, 1 - refuted / all) : 1;
}

static bool is_bounded(const struct branches_owner *h) { return h->branch > 0 && h->replay.untrained_max >= 0; }

/* By replays of the owner itself: so much of its branch part. */
static double by_itself(const struct branches_owner *h, double left)
{
    return is_bounded(h) ? fmin(left, h->replay.untrained_max * h->cycles / h->branch) : left;
}

/* The same of all owners that replays bound. */
static double by_all(const struct branches_owner *owners, size_t count, double left)
{
    double branch = 0, bounded = 0;
    for (size_t h = 0; h < count; h++)
        if (is_bounded(&owners[h])) {
            branch += owners[h].branch;
            bounded += owners[h].branch * by_itself(&owners[h], left);
        }
    return branch > 0 ? bounded / branch : left;
}

/* What few windows met may have fewer mispredictions than the program has there on average: as far as windows are few,
 * the owner is as all are. */
static double by_replays(const struct branches_owner *h, double left, double all)
{
    return is_bounded(h)
               ? (h->replay.windows * by_itself(h, left) + WINDOWS_OF_ALL * all) / (h->replay.windows + WINDOWS_OF_ALL)
               : left;
}

static double error_of_bound(const struct branches_owner *h, double taken_off)
{
    return fabs(taken_off) / sqrt(fmax(1, h->replay.windows));
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
    double left = not_refuted(owners, count), all = by_all(owners, count, left), too_much = 0;
    for (size_t h = 0; h < count; h++) {
        double branch = owners[h].branch * by_replays(&owners[h], left, all), measured = by_time(j, &owners[h], branch);
        owners[h].error = is_bounded(&owners[h]) ? error_of_bound(&owners[h], left * owners[h].branch - branch) : 0;
        owners[h].part = owners[h].branch > 0 ? measured / owners[h].branch : 1;
        too_much += branch - measured;
    }
    if (too_much > SAID * j->r->actual_user_s.value * j->core_hz)
        prof_warn(j->r, PROF_WARN_BRANCHES_BOUNDED,
                  "the model has %.3g s more of mispredicted branches than the measured time has room for",
                  too_much / j->core_hz);
}
