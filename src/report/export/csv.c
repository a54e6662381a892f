/* SPDX-License-Identifier: Apache-2.0
 * Every object as a row of comma-separated values (RFC 4180): a header, CRLF, quotes where they are needed. What is
 * unknown is empty. Text is UTF-8 without control characters (\xNN stands for them), and no text begins like a formula,
 * which spreadsheets would compute: such a first letter becomes \xNN too. */
#include <math.h>

#include "report/export/export.h"

enum csv_kind { CSV_KIND, CSV_TEXT, CSV_NAME, CSV_HEX, CSV_LINE, CSV_ID, CSV_COUNT, CSV_REAL, CSV_OVERHEAD, CSV_BOOL };

struct csv_column {
    const char *name;
    enum csv_kind kind;
    size_t offset;
};
#define COLUMN(name, kind, field)                                                                                      \
    {                                                                                                                  \
        name, kind, offsetof(struct prof_object, field)                                                                \
    }
#define INTERVAL(name, field)                                                                                          \
    COLUMN(name "_s", CSV_REAL, field.value), COLUMN(name "_low_s", CSV_REAL, field.low),                              \
        COLUMN(name "_high_s", CSV_REAL, field.high)

static const struct csv_column columns[] = {
    COLUMN("id", CSV_ID, id),
    COLUMN("kind", CSV_KIND, kind),
    COLUMN("module", CSV_TEXT, module),
    COLUMN("function", CSV_TEXT, function),
    COLUMN("function_plain", CSV_NAME, function),
    COLUMN("address", CSV_HEX, address),
    COLUMN("file", CSV_TEXT, file),
    COLUMN("line_first", CSV_LINE, line_first),
    COLUMN("line_last", CSV_LINE, line_last),
    COLUMN("parent", CSV_ID, parent),
    COLUMN("depth", CSV_ID, depth),
    COLUMN("entries", CSV_COUNT, entries),
    COLUMN("iterations", CSV_COUNT, iterations),
    COLUMN("instructions", CSV_COUNT, instructions),
    COLUMN("memory_ops", CSV_COUNT, memory_ops),
    COLUMN("instructions_incl", CSV_COUNT, instructions_incl),
    COLUMN("memory_ops_incl", CSV_COUNT, memory_ops_incl),
    COLUMN("memory_ops_share", CSV_REAL, memory_share),
    COLUMN("samples", CSV_COUNT, samples),
    INTERVAL("ideal", ideal_s),
    COLUMN("ideal_method", CSV_TEXT, ideal_method),
    COLUMN("simulated_s", CSV_REAL, simulated_s),
    COLUMN("replayed_share", CSV_REAL, replayed_share),
    INTERVAL("actual", actual_s),
    COLUMN("actual_method", CSV_TEXT, actual_method),
    COLUMN("branch_s", CSV_REAL, branch_s),
    COLUMN("tlb_s", CSV_REAL, tlb_s),
    INTERVAL("memory", memory_s),
    COLUMN("overhead", CSV_OVERHEAD, id),
    INTERVAL("ideal_incl", ideal_incl_s),
    INTERVAL("actual_incl", actual_incl_s),
    INTERVAL("memory_incl", memory_incl_s),
    COLUMN("extra_cycles_per_memory_op", CSV_REAL, extra_cycles_per_memory_op),
    COLUMN("bound_by", CSV_TEXT, bound_by),
    COLUMN("significant", CSV_BOOL, is_significant),
};

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

static void put_cell(struct strbuf *out, struct arena *a, const struct csv_column *c, const struct prof_object *o)
{
    const void *field = (const char *)o + c->offset;
    switch (c->kind) {
    case CSV_KIND:
        str_puts(out, prof_kind_name[o->kind]);
        break;
    case CSV_TEXT:
    case CSV_NAME:
        put_text_cell(out, a, *(const char *const *)field, c->kind == CSV_NAME);
        break;
    case CSV_HEX:
        str_printf(out, "0x%llx", (unsigned long long)*(const uint64_t *)field);
        break;
    case CSV_LINE:
    case CSV_ID:
        put_number(out, *(const uint32_t *)field, c->kind == CSV_LINE ? 0 : ID_NONE);
        break;
    case CSV_COUNT:
        put_number(out, *(const uint64_t *)field, PROF_UNKNOWN);
        break;
    case CSV_REAL:
        put_real(out, *(const double *)field);
        break;
    case CSV_OVERHEAD:
        put_real(out, overhead_of(o));
        break;
    case CSV_BOOL:
        str_puts(out, *(const bool *)field ? "1" : "0");
        break;
    }
}

void export_csv(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    (void)o;
    for (size_t c = 0; c < ARRAY_LEN(columns); c++)
        str_printf(out, "%s%s", c ? "," : "", columns[c].name);
    str_puts(out, "\r\n");
    for (size_t i = 0; i < r->object_count; i++) {
        for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
            str_puts(out, c ? "," : "");
            put_cell(out, a, &columns[c], &r->objects[i]);
        }
        str_puts(out, "\r\n");
    }
}
