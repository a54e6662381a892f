/* SPDX-License-Identifier: Apache-2.0
 * Every object as a row of comma-separated values (RFC 4180): a header, CRLF, quotes where they are needed. What is
 * unknown is empty. Text is UTF-8 without control characters (\xNN stands for them), and no text begins like a formula,
 * which spreadsheets would compute: such a first letter becomes \xNN too. */
#include <assert.h>
#include <math.h>

#include "report/export/export.h"

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

static void put_cell(struct strbuf *out, struct arena *a, const struct prof_field *f, const struct prof_object *o)
{
    const void *field = (const char *)o + f->offset;
    switch (f->type) {
    case PROF_TYPE_KIND:
        str_puts(out, prof_kind_name[o->kind]);
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
        put_real(out, overhead_of(o));
        break;
    case PROF_TYPE_BOOL:
        str_puts(out, *(const bool *)field ? "1" : "0");
        break;
    default:
        assert(false); /* objects have fields of these types only */
    }
}

static void put_line(struct strbuf *out, struct arena *a, const struct prof_object *o)
{
    const struct prof_row *row = &prof_rows[PROF_ROW_OBJECT];
    const char *comma = "";
    for (size_t i = 0; i < row->field_count; i++) {
        const struct prof_field *f = &row->fields[i];
        if (!(f->media & PROF_IN_CSV))
            continue;
        str_puts(out, comma);
        if (o)
            put_cell(out, a, f, o);
        else
            str_puts(out, f->key);
        comma = ",";
    }
    str_puts(out, "\r\n");
}

void export_csv(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    (void)o;
    put_line(out, a, NULL);
    for (size_t i = 0; i < r->object_count; i++)
        put_line(out, a, &r->objects[i]);
}
