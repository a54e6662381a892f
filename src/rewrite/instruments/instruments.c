/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of instrumentations, and those that insert nothing. */
#include "rewrite/impl.h"

static uint32_t sampler(const struct rw *w)
{
    (void)w;
    return RW_RUNTIME_SAMPLER;
}

static const struct rw_instrument rw_moved_only = {.moves = true};
static const struct rw_instrument rw_sampled = {.has_runtime = true, .runtime = sampler};

const struct rw_instrument *const rw_instruments[REWRITE_PLAN_COUNT] = {
#define INSTRUMENT(plan, instrument, what) [REWRITE_##plan] = &(instrument),
#include "rewrite/instruments/instruments.def"
#undef INSTRUMENT
};
