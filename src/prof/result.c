/* SPDX-License-Identifier: Apache-2.0
 * An empty result: every figure unknown, every list empty. Fills nothing; the passes of join.c do. */
#include "prof/prof.h"

#include <math.h>

const char *const prof_kind_name[PROF_KIND_COUNT] = {"loop", "procedure", "piece"};

struct prof_result *prof_result_new(void)
{
    struct arena *a = arena_new();
    struct prof_result *r = ARENA_NEW(a, struct prof_result);
    const struct prof_interval unknown = {NAN, NAN, NAN};
    r->arena = a;
    r->machine.tsc_hz = r->machine.cycles_per_tsc = NAN;
    r->machine.ideal_error_median = r->machine.ideal_error_p90 = r->machine.ideal_bias = NAN;
    r->predicted_user_s = r->actual_user_s = r->actual_system_s = r->overhead = unknown;
    r->samples = r->samples_lost = PROF_UNKNOWN;
    r->coverage.functions = r->coverage.functions_rewritten = PROF_UNKNOWN;
    r->coverage.instructions_counted = r->coverage.memory_ops = PROF_UNKNOWN;
    r->coverage.instructions_counted_share = r->coverage.memory_ops_measured = NAN;
    r->coverage.unexplained_overhead = NAN;
    return r;
}

void prof_result_free(struct prof_result *r)
{
    if (r)
        arena_free(r->arena);
}
