/* SPDX-License-Identifier: Apache-2.0
 *
 * result: the empty result model and its warnings. Everything a result points to lives in its arena.
 */
#include "result/result.h"

#include "result/fields.h"

const char *const prof_kind_name[PROF_KIND_COUNT] = {"loop", "procedure", "piece", "region"};

const char *const prof_data_kind_name[PROF_DATA_KIND_COUNT] = {"heap",    "global", "thread", "stack",
                                                               "mapping", "code",   "other"};
const char *const prof_data_owner_name[PROF_DATA_OWNER_COUNT] = {"program", "object", "cell",
                                                                 "line",    "field",  "process"};
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
    r->arena = a;
    for (unsigned id = 0; id < PROF_ROW_COUNT; id++)
        if (!prof_rows[id].table)
            prof_row_unknown((enum prof_row_id)id, r);
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
