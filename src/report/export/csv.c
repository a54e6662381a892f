/* SPDX-License-Identifier: Apache-2.0
 * Every object, or every data object at every level of cache, as a row of comma-separated values (RFC 4180): a header,
 * CRLF, quotes where they are needed. What is unknown is empty. Text is UTF-8 without control characters (\xNN stands
 * for them), and no text begins like a formula, which spreadsheets would compute: such a first letter becomes \xNN too.
 */
#include <assert.h>
#include <math.h>

#include "report/export/export.h"
#include "result/data/data.h"

static void put_csv_text(struct strbuf *out, struct arena *a, const char *text)
{
    text = cell_safe(a, text);
    bool is_quoted = strpbrk(text, ",\"") != NULL;
    str_puts(out, is_quoted ? "\"" : "");
    if (*text && strchr("=+-@", *text))
        str_printf(out, "\\x%02x", (uint8_t)*text++);
    for (; *text; text++)
        str_put(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    str_puts(out, is_quoted ? "\"" : "");
}

static void put_real(struct strbuf *out, double x)
{
    if (isfinite(x))
        str_printf(out, "%.9g", x);
}

static void put_text_cell(struct strbuf *out, struct arena *a, const char *text, bool is_name)
{
    if (text)
        put_csv_text(out, a, is_name ? name_plain(a, text) : text);
}

static void put_number(struct strbuf *out, uint64_t n, uint64_t unknown)
{
    if (n != unknown)
        str_printf(out, "%llu", (unsigned long long)n);
}

static void put_cell(struct strbuf *out, struct arena *a, const struct prof_field *f, const void *row)
{
    const void *field = (const char *)row + f->offset;
    switch (f->type) {
    case PROF_TYPE_KIND:
        str_puts(out, prof_kind_name[*(const enum prof_kind *)field]);
        break;
    case PROF_TYPE_DATA_KIND:
        str_puts(out, prof_data_kind_name[*(const enum prof_data_kind *)field]);
        break;
    case PROF_TYPE_TEXT:
    case PROF_TYPE_NAME:
    case PROF_TYPE_PLAIN:
        put_text_cell(out, a, *(const char *const *)field, f->type == PROF_TYPE_PLAIN);
        break;
    case PROF_TYPE_ADDRESS:
        str_printf(out, "0x%llx", (unsigned long long)*(const uint64_t *)field);
        break;
    case PROF_TYPE_LINE:
    case PROF_TYPE_SIZE:
    case PROF_TYPE_ID:
        put_number(out, *(const uint32_t *)field, f->type == PROF_TYPE_LINE ? 0 : ID_NONE);
        break;
    case PROF_TYPE_COUNT:
        put_number(out, *(const uint64_t *)field, PROF_UNKNOWN);
        break;
    case PROF_TYPE_SECONDS:
    case PROF_TYPE_SHARE:
    case PROF_TYPE_REAL:
        put_real(out, *(const double *)field);
        break;
    case PROF_TYPE_OVERHEAD:
        put_real(out, overhead_of(row));
        break;
    case PROF_TYPE_BOOL:
        str_puts(out, *(const bool *)field ? "1" : "0");
        break;
    default:
        assert(false); /* loops, procedures and data objects have fields of these types only */
    }
}

/* Of a row; its names if there is none. */
static void put_cells(struct strbuf *out, struct arena *a, enum prof_row_id id, const void *row, const char *comma)
{
    for (size_t i = 0; i < prof_rows[id].field_count; i++) {
        const struct prof_field *f = &prof_rows[id].fields[i];
        if (!(f->media & PROF_IN_CSV))
            continue;
        str_puts(out, comma);
        if (row)
            put_cell(out, a, f, row);
        else
            str_puts(out, f->key);
        comma = ",";
    }
}

void export_csv(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    (void)o;
    put_cells(out, a, PROF_ROW_OBJECT, NULL, "");
    str_puts(out, "\r\n");
    for (size_t i = 0; i < r->object_count; i++) {
        put_cells(out, a, PROF_ROW_OBJECT, &r->objects[i], "");
        str_puts(out, "\r\n");
    }
}

/* ---- data objects, a row for each level ---- */

/* Both have references: those of the level say so. */
static void put_data_head(struct strbuf *out, struct arena *a)
{
    static const char references[] = ",references,misses,";
    str_puts(out, "id,");
    put_cells(out, a, PROF_ROW_DATA, NULL, "");
    str_puts(out, ",configuration,level");
    size_t begin = out->len;
    put_cells(out, a, PROF_ROW_DATA_MISS, NULL, ",");
    const char *names = arena_strdup(a, out->data + begin);
    assert(strncmp(names, references, sizeof references - 1) == 0); /* they stand first in rows.def */
    out->len = begin;
    str_printf(out, ",level_%s\r\n", names + 1);
}

static void put_data_row(const struct prof_result *r, uint32_t id, uint32_t cache, struct arena *a, struct strbuf *out)
{
    struct prof_data_miss unknown = {0};
    const struct prof_data_miss *m = data_miss(r, PROF_OWNER_OBJECT, id, cache);
    prof_row_unknown(PROF_ROW_DATA_MISS, &unknown);
    str_printf(out, "%u,", id);
    put_cells(out, a, PROF_ROW_DATA, &r->data[id], "");
    str_printf(out, ",%u,", r->caches[cache].configuration);
    put_text_cell(out, a, r->caches[cache].name, false);
    put_cells(out, a, PROF_ROW_DATA_MISS, m ? m : &unknown, ",");
    str_puts(out, "\r\n");
}

void export_data_csv(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    (void)o;
    put_data_head(out, a);
    for (uint32_t i = 0; i < r->data_count; i++)
        for (uint32_t c = 0; c < r->cache_count; c++)
            put_data_row(r, i, c, a, out);
}
