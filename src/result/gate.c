/* SPDX-License-Identifier: Apache-2.0
 *
 * gate: a model of the processor that failed its self-test accuses nobody. Where replays measured at least half of an
 * ideal time, the loss is told as always; elsewhere the figure stays as it was found, but its interval reaches down to
 * no loss at all, so that it is significant to no table, condition or export. */
#include "machine/machine.h"
#include "result/stats.h"

#include <math.h>

static const double SHARE_MIN = 0.5;

bool prof_model_failed(const struct prof_result *r)
{
    return !machine_error_passes(r->machine.ideal_error_median, r->machine.ideal_error_p90);
}

bool prof_is_validated(const struct prof_result *r, double replayed_share)
{
    return replayed_share >= SHARE_MIN || !prof_model_failed(r);
}

/* An end that is not known stays so. */
struct prof_interval gate_opened(struct prof_interval loss)
{
    if (loss.low > 0)
        loss.low = 0;
    if (loss.high < 0)
        loss.high = 0;
    return loss;
}

struct prof_interval gate_loss(const struct prof_result *r, double replayed_share, struct prof_interval loss)
{
    return prof_is_validated(r, replayed_share) ? loss : gate_opened(loss);
}
