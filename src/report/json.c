/* SPDX-License-Identifier: Apache-2.0
 * The result as JSON: schemas mtool-report-1 and mtool-count-1 (doc/profile.md). Members are added, never renamed; what
 * is unknown is null. */
#include <math.h>

#include "report/impl.h"

void member_count(struct json *j, const char *key, uint64_t n)
{
    n == PROF_UNKNOWN ? json_null(j, key) : json_u64(j, key, n);
}

void member_id(struct json *j, const char *key, uint32_t id)
{
    id == ID_NONE ? json_null(j, key) : json_u64(j, key, id);
}

void member_line(struct json *j, const char *key, uint32_t line) { line ? json_u64(j, key, line) : json_null(j, key); }

static void put_command(struct json *j, const struct prof_result *r)
{
    json_array(j, "command");
    for (const char **w = r->command; w && *w; w++)
        json_str(j, NULL, *w);
    json_array_end(j);
}

void member_passed(struct json *j, const struct prof_result *r)
{
    if (isnan(r->machine.ideal_error_median))
        json_null(j, "self_test_passed");
    else
        json_bool(j, "self_test_passed", !prof_model_failed(r));
}

static void put_part(struct json_rows *w, const char *key, enum prof_row_id id, const struct prof_result *r)
{
    json_object(w->json, key);
    rows_put_members(w, id, r, 0);
    json_object_end(w->json);
}

static void put_machine(struct json_rows *w, const struct prof_result *r)
{
    json_object(w->json, "machine");
    rows_put_members(w, PROF_ROW_MACHINE, r, 0);
    member_passed(w->json, r);
    json_object_end(w->json);
}

static void put_coverage(struct json_rows *w, const struct prof_result *r)
{
    struct prof_crosschecks crosschecks = prof_crosschecks_of(r);
    json_object(w->json, "coverage");
    rows_put_members(w, PROF_ROW_COVERAGE, r, 0);
    json_u64(w->json, "witnesses_known", crosschecks.known);
    json_u64(w->json, "witnesses_agree", crosschecks.agree);
    json_object_end(w->json);
}

/* Those of dump objects --json that were probed. */
static void put_probed(struct json_rows *w, const struct prof_result *r)
{
    json_array(w->json, "probes");
    for (size_t i = 0; i < r->candidate_count; i++)
        if (isfinite(r->candidates[i].probed_s.value))
            rows_put_object(w, PROF_ROW_CANDIDATE, &r->candidates[i], i);
    json_array_end(w->json);
}

/* ---- threads, parallel regions, ranks: rows that belong to another stand in an array of it ---- */

static void put_thread(struct json_rows *w, const struct prof_result *r, uint32_t i, size_t *at)
{
    json_object(w->json, NULL);
    rows_put_members(w, PROF_ROW_THREAD, &r->thread[i], i);
    json_array(w->json, "objects");
    for (; *at < r->thread_object_count && r->thread_objects[*at].thread == i; ++*at)
        rows_put_object(w, PROF_ROW_THREAD_OBJECT, &r->thread_objects[*at], *at);
    json_array_end(w->json);
    json_object_end(w->json);
}

static void put_region(struct json_rows *w, const struct prof_result *r, const struct prof_region *x, size_t *at)
{
    json_object(w->json, NULL);
    rows_put_members(w, PROF_ROW_REGION, x, 0);
    json_array(w->json, "each");
    for (; *at < r->region_thread_count && r->region_threads[*at].region == x->id; ++*at)
        rows_put_object(w, PROF_ROW_REGION_THREAD, &r->region_threads[*at], *at);
    json_array_end(w->json);
    json_object_end(w->json);
}

static void put_baseline(struct json_rows *w, const struct prof_result *r)
{
    json_object(w->json, "baseline");
    rows_put_members(w, PROF_ROW_BASELINE, r, 0);
    rows_put_list(w, "extra", PROF_ROW_EXTRA, r);
    json_object_end(w->json);
}

static void put_shares(struct json_rows *w, const struct prof_result *r)
{
    size_t object = 0, each = 0;
    json_array(w->json, "thread");
    for (uint32_t i = 0; i < r->thread_count; i++)
        put_thread(w, r, i, &object);
    json_array_end(w->json);
    put_baseline(w, r);
    json_array(w->json, "region");
    for (size_t i = 0; i < r->region_count; i++)
        put_region(w, r, &r->regions[i], &each);
    json_array_end(w->json);
    rows_put_list(w, "wait", PROF_ROW_WAIT, r);
    rows_put_list(w, "ranks", PROF_ROW_RANK, r);
    rows_put_list(w, "rank_objects", PROF_ROW_RANK_OBJECT, r);
    rows_put_list(w, "rank_spread", PROF_ROW_SPREAD, r);
}

void report_json(const struct prof_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    struct json j;
    struct json_rows w = {.json = &j, .arena = a};
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", PROF_SCHEMA);
    json_str(&j, "program", r->program);
    put_command(&j, r);
    rows_put_members(&w, PROF_ROW_RUN, r, 0);
    put_machine(&w, r);
    put_part(&w, "time", PROF_ROW_TIME, r);
    put_coverage(&w, r);
    rows_put_list(&w, "objects", PROF_ROW_OBJECT, r);
    put_probed(&w, r);
    rows_put_list(&w, "modules", PROF_ROW_MODULE, r);
    rows_put_list(&w, "process", PROF_ROW_PROCESS, r);
    put_shares(&w, r);
    rows_put_list(&w, "lines", PROF_ROW_LINE, r);
    rows_put_list(&w, "stalls", PROF_ROW_STALL, r);
    rows_put_list(&w, "pages", PROF_ROW_PAGE, r);
    rows_put_list(&w, "page_bins", PROF_ROW_PAGE_BIN, r);
    data_put_json(&j, a, r);
    rows_put_list(&w, "refused", PROF_ROW_REFUSED, r);
    rows_put_list(&w, "phases", PROF_ROW_PHASE, r);
    rows_put_list(&w, "warnings", PROF_ROW_WARNING, r);
    json_object_end(&j);
    arena_free(a);
}

/* ---- counts ---- */

static void put_blocks(struct json_rows *w, const struct prof_result *r)
{
    json_array(w->json, "blocks");
    for (size_t i = 0; i < r->block_count; i++) {
        json_object(w->json, NULL);
        json_str(w->json, "module", r->modules[r->blocks[i].module].path);
        rows_put_members(w, PROF_ROW_BLOCK, &r->blocks[i], i);
        json_object_end(w->json);
    }
    json_array_end(w->json);
}

static void put_edges(struct json_rows *w, const struct prof_result *r)
{
    json_array(w->json, "edges");
    for (size_t i = 0; i < r->edge_count; i++) {
        json_object(w->json, NULL);
        json_str(w->json, "module", r->modules[r->edges[i].module].path);
        rows_put_members(w, PROF_ROW_EDGE, &r->edges[i], i);
        json_object_end(w->json);
    }
    json_array_end(w->json);
}

void report_counts_json(const struct prof_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    struct json j;
    struct json_rows w = {.json = &j, .arena = a};
    json_init(&j, out, false); /* a million blocks: no blanks */
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-count-1");
    put_command(&j, r);
    json_i64(&j, "exit", r->exit_status);
    json_u64(&j, "threads", r->threads);
    member_count(&j, "instructions", r->coverage.instructions_counted);
    rows_put_list(&w, "process", PROF_ROW_PROCESS, r);
    put_blocks(&w, r);
    put_edges(&w, r);
    rows_put_list(&w, "refused", PROF_ROW_REFUSED, r);
    json_object_end(&j);
    arena_free(a);
}
