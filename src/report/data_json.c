/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found as the member "data" of the report's JSON (doc/profile.md). Arrays of misses are in the order of
 * "caches"; TLBs stand apart. */
#include "report/data.h"

struct data_json {
    struct json_rows rows;
    const struct prof_result *r;
};

static void put_counts(struct data_json *d, const char *key, enum prof_data_owner owner, uint32_t id, size_t member)
{
    struct json *j = d->rows.json;
    json_array(j, key);
    for (uint32_t c = 0; c < d->r->cache_count; c++) {
        const struct prof_data_miss *m = data_miss(d->r, owner, id, c);
        uint64_t n = PROF_UNKNOWN;
        if (d->r->caches[c].is_tlb)
            continue;
        if (m)
            memcpy(&n, (const char *)m + member, sizeof n);
        member_count(j, NULL, n);
    }
    json_array_end(j);
}

static void put_causes(struct data_json *d, const char *key, const struct prof_data_miss *m)
{
    struct json *j = d->rows.json;
    json_object(j, key);
    for (unsigned c = 0; c < DATA_CAUSE_COUNT; c++)
        member_count(j, data_causes[c].member, data_cause_count(m, (enum data_cause)c));
    json_object_end(j);
}

static void put_causes_by_level(struct data_json *d, enum prof_data_owner owner, uint32_t id)
{
    json_array(d->rows.json, "causes_by_level");
    for (uint32_t c = 0; c < d->r->cache_count; c++)
        if (!d->r->caches[c].is_tlb)
            put_causes(d, NULL, data_miss(d->r, owner, id, c));
    json_array_end(d->rows.json);
}

static void put_stall_causes(struct data_json *d, enum prof_data_owner owner, uint32_t id)
{
    double shares[DATA_STALL_COUNT];
    data_stall_causes(d->r, owner, id, shares);
    json_object(d->rows.json, "stall_causes");
    for (unsigned c = 0; c < DATA_STALL_COUNT; c++)
        json_real(d->rows.json, data_causes[c].member, shares[c]);
    json_object_end(d->rows.json);
}

static void put_misses(struct data_json *d, enum prof_data_owner owner, uint32_t id)
{
#define BY_LEVEL(member) put_counts(d, #member, owner, id, offsetof(struct prof_data_miss, member))
    BY_LEVEL(misses);
    BY_LEVEL(misses_low);
    BY_LEVEL(misses_high);
#undef BY_LEVEL
    put_causes(d, "causes", data_miss(d->r, owner, id, data_primary(d->r)));
    if (owner <= PROF_OWNER_OBJECT || owner == PROF_OWNER_PROCESS)
        put_causes_by_level(d, owner, id);
    if (owner <= PROF_OWNER_CELL || owner == PROF_OWNER_PROCESS)
        put_stall_causes(d, owner, id);
    member_count(d->rows.json, "tlb_misses", data_walks(d->r, owner, id));
}

/* Rows first..end of a list that belong to what is being written. */
static void put_range(struct data_json *d, const char *key, enum prof_row_id id, const void *rows,
                      struct data_range range)
{
    json_array(d->rows.json, key);
    for (size_t i = range.first; i < range.end; i++)
        rows_put_object(&d->rows, id, (const char *)rows + i * prof_rows[id].bytes, i);
    json_array_end(d->rows.json);
}

static void put_caches(struct data_json *d, const char *key, bool tlbs)
{
    json_array(d->rows.json, key);
    for (size_t i = 0; i < d->r->cache_count; i++)
        if (d->r->caches[i].is_tlb == tlbs)
            rows_put_object(&d->rows, PROF_ROW_CACHE, &d->r->caches[i], i);
    json_array_end(d->rows.json);
}

static void put_fields(struct data_json *d, uint32_t object)
{
    const struct prof_result *r = d->r;
    struct data_range range = DATA_RANGE(r->data_fields, r->data_field_count, object, object);
    json_array(d->rows.json, "fields");
    for (size_t i = range.first; i < range.end; i++) {
        json_object(d->rows.json, NULL);
        rows_put_members(&d->rows, PROF_ROW_DATA_FIELD, &r->data_fields[i], i);
        put_misses(d, PROF_OWNER_FIELD, (uint32_t)i);
        json_object_end(d->rows.json);
    }
    json_array_end(d->rows.json);
}

/* Of the level where evictions cost it most. */
static void put_evictors(struct data_json *d, uint32_t object)
{
    const struct prof_result *r = d->r;
    struct data_range range = DATA_RANGE(r->data_evictors, r->data_evictor_count, object, object);
    uint32_t level = data_evictor_level(r, object);
    json_array(d->rows.json, "evicted_by");
    for (size_t i = range.first; i < range.end; i++) {
        if (r->data_evictors[i].cache != level)
            continue;
        json_object(d->rows.json, NULL);
        rows_put_members(&d->rows, PROF_ROW_DATA_EVICTOR, &r->data_evictors[i], i);
        json_str(d->rows.json, "level", r->caches[level].name);
        json_object_end(d->rows.json);
    }
    json_array_end(d->rows.json);
}

static void put_curve(struct data_json *d, uint32_t object)
{
    const struct prof_result *r = d->r;
    put_range(d, "curve", PROF_ROW_DATA_CURVE, r->data_curves,
              DATA_RANGE(r->data_curves, r->data_curve_count, object, object));
}

static void put_object(struct data_json *d, uint32_t id)
{
    const struct prof_result *r = d->r;
    json_object(d->rows.json, NULL);
    rows_put_members(&d->rows, PROF_ROW_DATA, &r->data[id], id);
    put_range(d, "site", PROF_ROW_DATA_FRAME, r->data_frames,
              DATA_RANGE(r->data_frames, r->data_frame_count, object, id));
    put_misses(d, PROF_OWNER_OBJECT, id);
    put_evictors(d, id);
    put_fields(d, id);
    put_curve(d, id);
    json_object_end(d->rows.json);
}

static void put_cells(struct data_json *d)
{
    json_array(d->rows.json, "cells");
    for (size_t i = 0; i < d->r->data_cell_count; i++) {
        json_object(d->rows.json, NULL);
        rows_put_members(&d->rows, PROF_ROW_DATA_CELL, &d->r->data_cells[i], i);
        put_misses(d, PROF_OWNER_CELL, (uint32_t)i);
        json_object_end(d->rows.json);
    }
    json_array_end(d->rows.json);
}

static void put_lines(struct data_json *d)
{
    json_array(d->rows.json, "lines");
    for (size_t i = 0; i < d->r->data_line_count; i++) {
        json_object(d->rows.json, NULL);
        rows_put_members(&d->rows, PROF_ROW_DATA_LINE, &d->r->data_lines[i], i);
        put_misses(d, PROF_OWNER_LINE, (uint32_t)i);
        json_object_end(d->rows.json);
    }
    json_array_end(d->rows.json);
}

static void put_processes(struct data_json *d)
{
    json_array(d->rows.json, "processes");
    for (size_t i = 0; i < d->r->data_process_count; i++) {
        json_object(d->rows.json, NULL);
        rows_put_members(&d->rows, PROF_ROW_DATA_PROCESS, &d->r->data_processes[i], i);
        put_misses(d, PROF_OWNER_PROCESS, (uint32_t)i);
        json_object_end(d->rows.json);
    }
    json_array_end(d->rows.json);
}

static void put_sharing(struct data_json *d)
{
    const struct prof_result *r = d->r;
    json_array(d->rows.json, "sharing");
    for (size_t i = 0; i < r->data_sharing_count; i++) {
        json_object(d->rows.json, NULL);
        rows_put_members(&d->rows, PROF_ROW_DATA_SHARING, &r->data_sharing[i], i);
        put_range(d, "sites", PROF_ROW_DATA_SITE, r->data_sites,
                  DATA_RANGE(r->data_sites, r->data_site_count, sharing, (uint32_t)i));
        json_object_end(d->rows.json);
    }
    json_array_end(d->rows.json);
}

static void put_advice(struct data_json *d)
{
    json_array(d->rows.json, "advice");
    for (size_t i = 0; i < d->r->data_advice_count; i++)
        rows_put_object(&d->rows, PROF_ROW_DATA_ADVICE, &d->r->data_advice[i], i);
    json_array_end(d->rows.json);
}

static void put_program(struct data_json *d)
{
    json_object(d->rows.json, "program");
    member_count(d->rows.json, "references", d->r->spy->references);
    put_misses(d, PROF_OWNER_PROGRAM, 0);
    put_curve(d, ID_NONE);
    json_object_end(d->rows.json);
}

void data_put_json(struct json *j, struct arena *a, const struct prof_result *r)
{
    struct data_json d = {.rows = {.json = j, .arena = a}, .r = r};
    if (!r->spy_count)
        return;
    json_object(j, "data");
    json_object(j, "sampling");
    rows_put_members(&d.rows, PROF_ROW_SPY, r->spy, 0);
    json_object_end(j);
    put_caches(&d, "caches", false);
    put_caches(&d, "tlbs", true);
    put_program(&d);
    json_array(j, "objects");
    for (uint32_t i = 0; i < r->data_count; i++)
        put_object(&d, i);
    json_array_end(j);
    put_cells(&d);
    put_lines(&d);
    put_processes(&d);
    put_sharing(&d);
    put_advice(&d);
    json_object_end(j);
}
