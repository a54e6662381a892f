/* SPDX-License-Identifier: Apache-2.0
 *
 * tlb: replayed slices that may reach more pages than the first-level TLB holds, but no more lines than the first-level
 * cache, take longer than the same code takes where its pages are at hand: that is what misses of the TLB cost, as far
 * as the second level holds the pages. An owner gets it for the part of its slices that were so wide. They take longer,
 * never less: where they take less than what short slices or the model say (a short one does not see how far turns
 * overlap, say), these are wrong.
 */
#include "estimate/replays/tlb.h"

#include <math.h>
#include <stdlib.h>

static const double ENOUGH = 0.25, FACTOR_MIN = 0.05; /* sum of squared shares of an owner, as in fit.c; of a factor */

struct owner {
    double rest, squares; /* of wide slices: what its code does not explain, by squared share; the squared shares */
    double wide, narrow;  /* simulated cycles */
    double bound,
        weights; /* as rest and squares, but less of replays that differ, and all of that taken against them */
};
static const double SPREAD_USUAL = 0.05;

/* What the slice would take if all its pages were at hand. */
static double explained(const struct fit *f, const struct fit_slice *s, const struct join_replay *measured)
{
    double sum = 0;
    for (size_t i = s->first; i < s->first + s->count; i++) {
        double factor = measured[f->shares.data[i].owner].factor;
        sum += f->shares.data[i].part * (factor > 0 ? factor : 1);
    }
    return sum;
}

static void add_wide(const struct fit *f, const struct join_replay *measured, struct owner *owners)
{
    for (size_t k = 0; k < f->slices.len; k++) {
        const struct fit_slice *s = &f->slices.data[k];
        double apart = s->spread / SPREAD_USUAL, weight = 1 / (1 + apart * apart);
        double rest = s->ratio - explained(f, s, measured);
        for (size_t i = s->first; i < s->first + s->count; i++) {
            struct owner *h = &owners[f->shares.data[i].owner];
            double part = f->shares.data[i].part;
            h->rest += part * part * rest;
            h->squares += part * part;
            h->bound += weight * part * part * (rest + s->ratio * s->spread);
            h->weights += weight * part * part;
            h->wide += part * s->simulated;
        }
    }
}

static void add_narrow(const struct fit *f, struct owner *owners)
{
    for (size_t k = 0; k < f->slices.len; k++)
        for (size_t i = f->slices.data[k].first; i < f->slices.data[k].first + f->slices.data[k].count; i++)
            owners[f->shares.data[i].owner].narrow += f->shares.data[i].part * f->slices.data[k].simulated;
}

/* Half of all pieces were looked at for wide ones. */
static double wide_part(const struct owner *h) { return fmin(1, 2 * h->wide / (h->wide + h->narrow)); }

/* No more than wide slices take. */
static void bound_factor(const struct owner *h, struct join_replay *measured)
{
    double over = h->squares >= ENOUGH ? h->bound / h->weights : 0;
    if (over >= 0)
        return;
    measured->factor = fmax(FACTOR_MIN, (measured->factor > 0 ? measured->factor : 1) + over);
}

void tlb_of_owners(const struct fit *narrow, const struct fit *wide, struct join_replay *out)
{
    struct owner *owners = xmalloc((narrow->owner_count + 1) * sizeof *owners);
    add_narrow(narrow, owners);
    add_wide(wide, out, owners);
    for (size_t k = 0; k < narrow->owner_count; k++) {
        const struct owner *h = &owners[k];
        bool has_none = !(h->wide > 0) && out[k].factor > 0;
        out[k].knows_tlb = has_none || h->squares >= ENOUGH;
        bound_factor(h, &out[k]);
        out[k].tlb = has_none || !out[k].knows_tlb ? 0 : fmax(0, h->rest / h->squares) * wide_part(h);
    }
    free(owners);
}
