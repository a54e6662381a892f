/* SPDX-License-Identifier: Apache-2.0
 *
 * result: the empty result model and its warnings. Everything a result points to lives in its arena.
 */
#include "result/result.h"

#include <math.h>

const char *const prof_kind_name[PROF_KIND_COUNT] = {"loop", "procedure", "piece", "region"};

const char *const prof_verdict_name[PROF_VERDICT_COUNT] = {"taken", "sampled", "covered", "dropped"};
const char *const prof_estimable_name[PROF_ESTIMABLE_COUNT] = {"no",       "calls nothing", "callees work for it alone",
                                                               "constant", "98 % of calls", "negligible calls"};

const struct prof_warn_about prof_warn_about[PROF_WARN_COUNT] = {
#define X(name, id, meaning, cause, remedy) {id, meaning, cause, remedy},
#include "result/warnings.def"
#undef X
};

struct prof_result *prof_result_new(void)
{
    struct arena *a = arena_new();
    struct prof_result *r = ARENA_NEW(a, struct prof_result);
    const struct prof_interval unknown = {NAN, NAN, NAN};
    r->arena = a;
    r->machine.tsc_hz = r->machine.cycles_per_tsc = NAN;
    r->machine.ideal_error_median = r->machine.ideal_error_p90 = r->machine.ideal_bias = NAN;
    r->simulated_user_s = r->replayed_share = NAN;
    r->predicted_user_s = r->branch_user_s = r->actual_user_s = r->actual_system_s = r->overhead = unknown;
    r->samples = r->samples_lost = PROF_UNKNOWN;
    r->rank = r->rank_count = r->baseline_threads = ID_NONE;
    r->baseline_user_s = NAN;
    r->baseline_instructions = PROF_UNKNOWN;
    r->coverage.functions = r->coverage.functions_rewritten = PROF_UNKNOWN;
    r->coverage.instructions_counted = r->coverage.memory_ops = PROF_UNKNOWN;
    r->coverage.instructions_counted_share = r->coverage.memory_ops_measured = NAN;
    r->coverage.memory_ops_probed = r->probed_user_s = r->probed_system_s = NAN;
    r->counting_user_s = r->windows_system_s = NAN;
    r->coverage.unexplained_overhead = unknown;
    return r;
}

void prof_result_free(struct prof_result *r)
{
    if (r)
        arena_free(r->arena);
}

void prof_warn_add(struct prof_result *r, const char *id, const char *text)
{
    for (size_t i = 0; i < r->warning_count; i++)
        if (strcmp(r->warnings[i].id, id) == 0 && strcmp(r->warnings[i].text, text) == 0)
            return;
    struct prof_warning *more = ARENA_ARRAY(r->arena, struct prof_warning, r->warning_count + 1);
    if (r->warning_count)
        memcpy(more, r->warnings, r->warning_count * sizeof *more);
    more[r->warning_count++] = (struct prof_warning){arena_strdup(r->arena, id), arena_strdup(r->arena, text)};
    r->warnings = more;
}

void prof_warn(struct prof_result *r, enum prof_warn id, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    prof_warn_add(r, prof_warn_about[id].id, text);
}
