/* SPDX-License-Identifier: Apache-2.0
 * A row of the result as members of a JSON object: those that its list of fields has, in its order. */
#include <math.h>

#include "report/impl.h"
#include "result/fields.h"

/* Rows of a function follow each other, and many have one: a million blocks. */
static const char *plain_of(struct json_rows *w, const char *name)
{
    if (name && (!w->name || strcmp(w->name, name) != 0))
        w->plain = name_plain(w->arena, w->name = name);
    return name ? w->plain : NULL;
}

static void put_truth(struct json *j, const char *key, uint32_t truth)
{
    truth == ID_NONE ? json_null(j, key) : json_bool(j, key, truth == 1);
}

static void put_field(struct json_rows *w, const struct prof_field *f, const void *row, size_t index)
{
    const void *field = (const char *)row + f->offset;
    struct json *j = w->json;
    switch (f->type) {
    case PROF_TYPE_INDEX:
        json_u64(j, f->key, index);
        break;
    case PROF_TYPE_TEXT:
    case PROF_TYPE_NAME:
    case PROF_TYPE_FUNCTION:
    case PROF_TYPE_SOURCE:
        json_str(j, f->key, *(const char *const *)field);
        break;
    case PROF_TYPE_PLAIN:
        json_str(j, f->key, plain_of(w, *(const char *const *)field));
        break;
    case PROF_TYPE_COUNT:
        member_count(j, f->key, *(const uint64_t *)field);
        break;
    case PROF_TYPE_COUNT_OR_0:
        *(const uint64_t *)field ? json_u64(j, f->key, *(const uint64_t *)field) : json_null(j, f->key);
        break;
    case PROF_TYPE_ADDRESS:
        json_hex(j, f->key, *(const uint64_t *)field);
        break;
    case PROF_TYPE_ADDRESS_OR_0:
        *(const uint64_t *)field ? json_hex(j, f->key, *(const uint64_t *)field) : json_null(j, f->key);
        break;
    case PROF_TYPE_SIZE:
        json_u64(j, f->key, *(const uint32_t *)field);
        break;
    case PROF_TYPE_ID:
        member_id(j, f->key, *(const uint32_t *)field);
        break;
    case PROF_TYPE_TRUTH:
        put_truth(j, f->key, *(const uint32_t *)field);
        break;
    case PROF_TYPE_LINE:
    case PROF_TYPE_LINE_KEY:
        member_line(j, f->key, *(const uint32_t *)field);
        break;
    case PROF_TYPE_STATUS:
        json_i64(j, f->key, *(const int *)field);
        break;
    case PROF_TYPE_BOOL:
        json_bool(j, f->key, *(const bool *)field);
        break;
    case PROF_TYPE_SECONDS:
    case PROF_TYPE_SHARE:
    case PROF_TYPE_REAL:
        json_real(j, f->key, *(const double *)field);
        break;
    case PROF_TYPE_KIND:
        json_str(j, f->key, prof_kind_name[*(const enum prof_kind *)field]);
        break;
    case PROF_TYPE_VERDICT:
        json_str(j, f->key, prof_verdict_name[*(const enum prof_verdict *)field]);
        break;
    case PROF_TYPE_ESTIMABLE:
        json_str(j, f->key, prof_estimable_name[*(const enum prof_estimable *)field]);
        break;
    case PROF_TYPE_DATA_KIND:
        json_str(j, f->key, prof_data_kind_name[*(const enum prof_data_kind *)field]);
        break;
    case PROF_TYPE_DATA_OWNER:
        json_str(j, f->key, prof_data_owner_name[*(const enum prof_data_owner *)field]);
        break;
    case PROF_TYPE_OVERHEAD:
        json_real(j, f->key, overhead_of(row));
        break;
    case PROF_TYPE_MAX:
        break;
    }
}

void rows_put_members(struct json_rows *w, enum prof_row_id id, const void *row, size_t index)
{
    for (size_t i = 0; i < prof_rows[id].field_count; i++)
        if (prof_rows[id].fields[i].media & PROF_IN_JSON)
            put_field(w, &prof_rows[id].fields[i], row, index);
}

void rows_put_object(struct json_rows *w, enum prof_row_id id, const void *row, size_t index)
{
    json_object(w->json, NULL);
    rows_put_members(w, id, row, index);
    json_object_end(w->json);
}

void rows_put_list(struct json_rows *w, const char *key, enum prof_row_id id, const struct prof_result *r)
{
    const struct prof_row *row = &prof_rows[id];
    const char *list;
    size_t count;
    memcpy(&list, (const char *)r + row->list, sizeof list);
    memcpy(&count, (const char *)r + row->count, sizeof count);
    json_array(w->json, key);
    for (size_t i = 0; i < count; i++)
        rows_put_object(w, id, list + i * row->bytes, i);
    json_array_end(w->json);
}
