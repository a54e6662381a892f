/* SPDX-License-Identifier: Apache-2.0
 *
 * learnt: whether a predictor learns the end of a loop of hundreds of turns is by chance, and what it missed in the
 * first rounds of a replay it misses in the last. (Zen 5, a comparison of 360 bytes: 295 cycles a round in every other
 * slice, 370 in the rest, of the same instructions; 16 thousand rounds change nothing.) A program that runs for seconds
 * has the chance again and again, since all that comes between disturbs what was learnt. So of slices that go round by
 * so many branches and do the same, those count that are as fast as the fastest.
 */
#include "estimate/replays/training.h"

#include <math.h>
#include <stdlib.h>

static const double SAME_WORK = 0.02; /* of the instructions may be another's */
static const double AS_FAST = 1.03;
static const double SPREAD_MAX = 0.03; /* of the fastest: a single slip is no measure */

static double instructions_of(const struct fit *f, const struct fit_slice *s)
{
    double sum = 0;
    for (size_t i = s->first; i < s->first + s->count; i++)
        sum += f->shares.data[i].instructions;
    return sum;
}

/* What slice s executes of the owner, as a fraction of all its instructions. */
static double part_of(const struct fit *f, const struct fit_slice *s, uint32_t owner)
{
    for (size_t i = s->first; i < s->first + s->count; i++)
        if (f->shares.data[i].owner == owner)
            return f->shares.data[i].instructions / instructions_of(f, s);
    return 0;
}

/* Of what `a` executes, the fraction that `b` executes less of. */
static double lacks(const struct fit *f, const struct fit_slice *a, const struct fit_slice *b)
{
    double sum = 0;
    for (size_t i = a->first; i < a->first + a->count; i++) {
        uint32_t owner = f->shares.data[i].owner;
        sum += fmax(0, part_of(f, a, owner) - part_of(f, b, owner));
    }
    return sum;
}

static bool do_the_same(const struct fit *f, const struct fit_slice *a, const struct fit_slice *b)
{
    double x = instructions_of(f, a), y = instructions_of(f, b);
    return fabs(x - y) <= SAME_WORK * fmin(x, y) && lacks(f, a, b) <= SAME_WORK && lacks(f, b, a) <= SAME_WORK;
}

static bool is_undertrained(const struct fit *f, const struct fit_slice *s)
{
    for (size_t k = 0; k < f->slices.len && s->may_train; k++) {
        const struct fit_slice *other = &f->slices.data[k];
        if (other->may_train && other->spread <= SPREAD_MAX &&
            other->cycles / instructions_of(f, other) * AS_FAST < s->cycles / instructions_of(f, s) &&
            do_the_same(f, other, s))
            return true;
    }
    return false;
}

void training_drop_unfinished(struct fit *f)
{
    bool *undertrained = xmalloc((f->slices.len + 1) * sizeof *undertrained);
    size_t slices = 0, shares = 0;
    for (size_t k = 0; k < f->slices.len; k++)
        undertrained[k] = is_undertrained(f, &f->slices.data[k]);
    for (size_t k = 0; k < f->slices.len; k++) {
        struct fit_slice s = f->slices.data[k];
        if (undertrained[k])
            continue;
        memmove(f->shares.data + shares, f->shares.data + s.first, s.count * sizeof *f->shares.data);
        s.first = shares;
        shares += s.count;
        f->slices.data[slices++] = s;
    }
    diag_debug(1, "replays: of %zu slices %zu did not learn what others did", f->slices.len, f->slices.len - slices);
    f->slices.len = slices;
    f->shares.len = shares;
    free(undertrained);
}
