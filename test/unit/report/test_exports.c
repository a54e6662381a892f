/* SPDX-License-Identifier: Apache-2.0
 * The exporters: golden text (REBASE=1 writes it anew), and for every result what each format must never do: let a name
 * break a line or a cell, or say other sums than the result has. What other tools make of them: ./exports. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fixture.h"
#include "report/report.h"

static const char *const results[] = {"typical", "nasty", "nothing", "counts", "empty", "spied", "nasty-spied"};

static struct strbuf export(const char *name, enum report_export format)
{
    const struct export_options o = {.root = "/home/u"};
    struct prof_result *r = fixture_result(name);
    struct strbuf out = {0};
    assert_non_null(r);
    str_puts(&out, "");
    report_export(r, format, &o, &out);
    prof_result_free(r);
    return out;
}

static void test_golden(void **state)
{
    (void)state;
    static const enum report_export formats[] = {
        REPORT_EXPORT_callgrind, REPORT_EXPORT_folded,     REPORT_EXPORT_csv,      REPORT_EXPORT_github,
        REPORT_EXPORT_sarif,     REPORT_EXPORT_speedscope, REPORT_EXPORT_data_csv, REPORT_EXPORT_data_order};
    const char *path = getenv("GOLDEN");
    struct strbuf now = {0};
    str_puts(&now,
             "What mtool export writes of results made by test/unit/store/fixture.c. REBASE=1 writes this anew.\n");
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        const char *name =
            formats[i] >= REPORT_EXPORT_data_csv && formats[i] <= REPORT_EXPORT_data_order ? "only-spied" : "typical";
        struct strbuf out = export(name, formats[i]);
        str_printf(&now, "$ %s %s\n", report_export_formats[formats[i]].name, name);
        for (const char *s = out.data; *s; s++)
            if (*s != '\r')
                str_put(&now, s, 1);
        str_free(&out);
    }
    if (getenv("REBASE")) {
        assert_int_equal(file_write_whole(path, now.data, now.len, 0644), 0);
    } else {
        struct file_bytes file;
        assert_int_equal(file_map(path, &file), 0);
        char *text = xmalloc(file.len + 1);
        memcpy(text, file.data, file.len);
        assert_string_equal(text, now.data);
        file_unmap(&file);
        free(text);
    }
    str_free(&now);
}

/* In no text format a control character but the ends of lines. */
static void test_no_control_characters(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(results); i++) {
        for (unsigned f = 0; f < REPORT_EXPORT_COUNT; f++) {
            struct strbuf out = export(results[i], (enum report_export)f);
            for (size_t k = 0; f != REPORT_EXPORT_pprof && f != REPORT_EXPORT_gprof && k < out.len; k++) {
                uint8_t c = (uint8_t)out.data[k];
                if ((c < 0x20 && c != '\n' &&
                     !(c == '\r' && (f == REPORT_EXPORT_csv || f == REPORT_EXPORT_data_csv))) ||
                    c == 0x7f)
                    fail_msg("%s of %s: byte %02x at %zu", report_export_formats[f].name, results[i], c, k);
            }
            str_free(&out);
        }
    }
}

struct gmon {
    size_t histograms, arcs;
    uint64_t samples, calls;
};

/* As the GNU C library's gmon_out.h has it, version 1. */
static struct gmon read_gmon(const struct strbuf *out)
{
    enum { HEAD = 20, HISTOGRAM = 8 + 8 + 4 + 4 + 15 + 1, ARC = 8 + 8 + 4 };
    const uint8_t *p = (const uint8_t *)out->data, *end = p + out->len;
    struct gmon g = {0};
    assert_memory_equal(p, "gmon\1\0\0\0", 8);
    for (p += HEAD; p < end;) {
        uint32_t n;
        if (*p++ == 1) {
            memcpy(&n, p + 16, 4);
            g.arcs++;
            g.calls += n;
            p += ARC;
            continue;
        }
        memcpy(&n, p + 16, 4);
        g.histograms++;
        p += HISTOGRAM;
        for (uint32_t i = 0; i < n; i++, p += 2)
            g.samples += (uint64_t)p[0] | (uint64_t)p[1] << 8;
    }
    assert_ptr_equal(p, end);
    return g;
}

/* What a record has no room for stands in several; a module has its own; what is unknown is none. */
static void test_gprof(void **state)
{
    (void)state;
    static const struct gmon wanted[] = {{3, 3, 500 + 70000 + 3, 20 + 5000000000}, {1, 0, 7, 0}, {1, 0, 0, 0}};
    struct prof_result *r = fixture_result("typical");
    for (uint32_t module = 0; module < ARRAY_LEN(wanted); module++) {
        struct strbuf out = {0};
        report_export(r, REPORT_EXPORT_gprof, &(struct export_options){.module = module}, &out);
        struct gmon g = read_gmon(&out);
        assert_memory_equal(&g, &wanted[module], sizeof g);
        str_free(&out);
    }
    prof_result_free(r);
}

/* RFC 4180: the rows and the cells of each; -1 if it is none. */
static int cells_of_row(const char **at)
{
    int cells = 1;
    const char *s = *at;
    for (;; s++) {
        if (*s == '"') {
            for (s++; *s != '"' || s[1] == '"'; s++)
                if (!*s)
                    return -1;
                else
                    s += *s == '"';
            if (!strchr(",\r", s[1]))
                return -1;
        } else if (*s == ',') {
            cells++;
        } else if (*s == '\r') {
            *at = s + 2;
            return s[1] == '\n' ? cells : -1;
        } else if (!*s || *s == '\n') {
            return -1;
        }
    }
}

static void check_rows(const char *csv, size_t wanted)
{
    int columns = cells_of_row(&csv);
    size_t rows = 0;
    assert_true(columns > 20);
    for (; *csv; rows++)
        assert_int_equal(cells_of_row(&csv), columns);
    assert_int_equal(rows, wanted);
}

static void test_csv_is_csv(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(results); i++) {
        struct prof_result *r = fixture_result(results[i]);
        struct strbuf out = export(results[i], REPORT_EXPORT_csv), data = export(results[i], REPORT_EXPORT_data_csv);
        check_rows(out.data, r->object_count);
        check_rows(data.data, r->data_count * r->cache_count);
        str_free(&data);
        str_free(&out);
        prof_result_free(r);
    }
}

/* A spreadsheet would compute what begins like a formula. */
static void test_csv_has_no_formula(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("typical");
    struct strbuf out = {0};
    r->objects[0].function = "=HYPERLINK(\"http://x\",\"y\")";
    report_export(r, REPORT_EXPORT_csv, &(struct export_options){0}, &out);
    assert_non_null(strstr(out.data, ",\"\\x3dHYPERLINK(\"\"http://x\"\",\"\"y\"\")\","));
    assert_null(strstr(out.data, ",="));
    assert_null(strstr(out.data, ",\"="));
    str_free(&out);
    prof_result_free(r);
}

/* Costs add up to the totals, and these to those of the result. */
static void test_callgrind_sums(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("typical");
    r->block_count = 0;
    struct strbuf out = {0};
    report_export(r, REPORT_EXPORT_callgrind, &(struct export_options){0}, &out);
    double sums[5] = {0}, totals[5] = {0};
    for (const char *s = out.data; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL) {
        double c[5] = {0};
        if (sscanf(s, "0x%*x %*u %lf %lf %lf %lf %lf", &c[0], &c[1], &c[2], &c[3], &c[4]) > 0)
            for (size_t i = 0; i < 5; i++)
                sums[i] += c[i];
        sscanf(s, "totals: %lf %lf %lf %lf %lf", &totals[0], &totals[1], &totals[2], &totals[3], &totals[4]);
    }
    double actual = 0, instructions = 0;
    for (size_t i = 0; i < r->object_count; i++) {
        actual += r->objects[i].actual_s.value * 1e9;
        instructions += (double)r->objects[i].instructions;
    }
    for (size_t i = 0; i < 5; i++)
        assert_true(sums[i] == totals[i] && sums[i] > 0);
    assert_true(fabs(sums[0] - instructions) < 1 && fabs(sums[3] - actual) < 10);
    str_free(&out);
    prof_result_free(r);
}

/* With blocks, instructions stand where they are executed. */
static void test_callgrind_blocks(void **state)
{
    (void)state;
    struct strbuf out = export("counts", REPORT_EXPORT_callgrind);
    assert_non_null(strstr(out.data, "\nfn=(1) gather\n0x1180 14 40000000 10000000\n0x118e 15 20\n"));
    assert_non_null(strstr(out.data, "\ntotals: 40000021 10000000 0 0 0\n"));
    str_free(&out);
}

/* Parents that go round in circles, or are not there: damage must not hang or crash a painter. */
static void test_sccs(void **state)
{
    (void)state;
    for (unsigned f = 0; f < REPORT_EXPORT_COUNT; f++) {
        struct prof_result *r = fixture_result("typical");
        struct strbuf out = {0};
        r->objects[0].parent = 1, r->objects[1].parent = 0;
        r->objects[4].parent = 77;
        r->objects[3].function = NULL;
        report_export(r, (enum report_export)f, &(struct export_options){0}, &out);
        assert_true(out.len > 0);
        str_free(&out);
        prof_result_free(r);
    }
}

/* What a workflow's log must not take for another command. */
static void test_github_escapes(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("typical");
    struct strbuf out = {0};
    r->objects[0].file = "/home/u/a,b:c%d.c";
    r->objects[0].function = "f%\n::error::";
    report_export(r, REPORT_EXPORT_github, &(struct export_options){.root = "/home/u", .top = 1}, &out);
    assert_int_equal(strncmp(out.data, "::warning file=a%2Cb%3Ac%25d.c,line=12,endLine=15,", 50), 0);
    assert_non_null(strstr(out.data, "f%25\\x0a::error::"));
    assert_ptr_equal(strchr(out.data, '\n'), out.data + out.len - 1);
    str_free(&out);
    prof_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_no_control_characters),
        cmocka_unit_test(test_gprof),
        cmocka_unit_test(test_csv_is_csv),
        cmocka_unit_test(test_csv_has_no_formula),
        cmocka_unit_test(test_callgrind_sums),
        cmocka_unit_test(test_callgrind_blocks),
        cmocka_unit_test(test_sccs),
        cmocka_unit_test(test_github_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
