/* SPDX-License-Identifier: Apache-2.0
 * The HTML page: well-formed as XML by a small strict reader, whatever the profile holds; nothing of the profile
 * becomes markup; every link leads somewhere; no network; small; the same each time; source with the right lines
 * marked. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "report/report.h"

static const struct prof_warn_about *explain(const char *id)
{
    static const struct prof_warn_about about = {"some-id", "It <means> this.", "A & B.", "Do \"it\"."};
    return strcmp(id, about.id) == 0 ? &about : NULL;
}

static char *page_of(struct prof_result *r, const char *source_path)
{
    struct strbuf out = {0};
    const struct report_html_options o = {.source_path = source_path, .explain = explain};
    report_html(r, &o, &out);
    return out.data;
}

static char *page_named(const char *name)
{
    struct prof_result *r = fixture_result(name);
    char *page = page_of(r, NULL);
    prof_result_free(r);
    return page;
}

/* ---- a strict reader ---- */

struct reader {
    const char *at;
    const char *open[100]; /* names of open elements */
    size_t open_len[100], depth;
    char *ids, *links; /* "|a|b|" */
    size_t elements;
};

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static size_t name_len(const char *s)
{
    size_t len = 0;
    while (is_name(s[len]))
        len++;
    return len;
}

/* "&#NN;" only: that is all the page writes. */
static const char *skip_entity(const char *s)
{
    size_t digits = s[1] == '#' ? strspn(s + 2, "0123456789") : 0;
    if (!digits || s[2 + digits] != ';')
        fail_msg("a bare & at: %.60s", s);
    return s + 3 + digits;
}

static void append(char **list, const char *text, size_t len)
{
    size_t old = *list ? strlen(*list) : 0;
    *list = xrealloc(*list, old + len + 3);
    if (!old)
        (*list)[old++] = '|';
    memcpy(*list + old, text, len);
    memcpy(*list + old + len, "|", 2);
}

static void read_attribute(struct reader *x)
{
    const char *name = x->at, *value;
    size_t len = name_len(name);
    assert_true(len > 0);
    if (strncmp(name, "on", 2) == 0 || strncmp(name, "src", len) == 0)
        fail_msg("an attribute that acts: %.40s", name);
    if (strncmp(name + len, "=\"", 2) != 0)
        fail_msg("not an attribute: %.60s", name);
    for (x->at = value = name + len + 2; *x->at != '"';) {
        if (!*x->at || *x->at == '<')
            fail_msg("an attribute does not end: %.60s", name);
        x->at = *x->at == '&' ? skip_entity(x->at) : x->at + 1;
    }
    size_t value_len = (size_t)(x->at++ - value);
    if (len == 2 && strncmp(name, "id", 2) == 0)
        append(&x->ids, value, value_len);
    if (len == 4 && strncmp(name, "href", 4) == 0) {
        if (*value != '#')
            fail_msg("a link that leaves the page: %.60s", value);
        append(&x->links, value + 1, value_len - 1);
    }
}

static void read_text(struct reader *x)
{
    while (*x->at && *x->at != '<') {
        if ((uint8_t)*x->at < 0x20 && *x->at != '\n')
            fail_msg("a control character at: %.60s", x->at);
        x->at = *x->at == '&' ? skip_entity(x->at) : x->at + 1;
    }
}

/* What is between <style> or <script> and its end is not markup. */
static void skip_raw(struct reader *x, const char *end)
{
    const char *found = strstr(x->at, end);
    assert_non_null(found);
    x->at = found;
}

static void read_open(struct reader *x)
{
    const char *name = x->at + 1;
    size_t len = name_len(name);
    assert_true(len > 0 && x->depth < ARRAY_LEN(x->open));
    for (x->at = name + len; *x->at == ' ';) {
        x->at++;
        read_attribute(x);
    }
    x->elements++;
    bool is_empty = *x->at == '/';
    x->at += is_empty;
    if (*x->at++ != '>')
        fail_msg("a tag does not end: %.60s", name);
    if (is_empty)
        return;
    x->open[x->depth] = name, x->open_len[x->depth++] = len;
    if (len == 5 && strncmp(name, "style", len) == 0)
        skip_raw(x, "</style>");
    if (len == 6 && strncmp(name, "script", len) == 0)
        skip_raw(x, "</script>");
}

static void read_close(struct reader *x)
{
    const char *name = x->at + 2;
    size_t len = name_len(name);
    assert_true(x->depth > 0);
    x->depth--;
    if (x->open_len[x->depth] != len || strncmp(x->open[x->depth], name, len) != 0)
        fail_msg("</%.*s> closes <%.*s>", (int)len, name, (int)x->open_len[x->depth], x->open[x->depth]);
    assert_int_equal(name[len], '>');
    x->at = name + len + 1;
}

static bool has(const char *list, const char *item, size_t len)
{
    for (const char *s = list; s && (s = strchr(s, '|')) && s[1]; s++)
        if (strncmp(s + 1, item, len) == 0 && s[1 + len] == '|')
            return true;
    return false;
}

/* Each item of the list is in `ids`; and, if they are ids, there once. */
static void check_list(const char *list, const char *ids, bool once)
{
    for (const char *s = list; s && s[0] == '|' && s[1];) {
        size_t len = strcspn(s + 1, "|");
        if (once ? has(s + 1 + len, s + 1, len) : !has(ids, s + 1, len))
            fail_msg("%s #%.*s", once ? "twice" : "a link to nowhere:", (int)len, s + 1);
        s += 1 + len;
    }
}

/* Returns the number of elements. */
static size_t check_page(const char *page)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    struct reader x = {.at = page};
    assert_int_equal(strncmp(page, doctype, sizeof doctype - 1), 0);
    x.at += sizeof doctype - 1;
    while (*x.at) {
        if (*x.at != '<')
            read_text(&x);
        else if (x.at[1] == '/')
            read_close(&x);
        else
            read_open(&x);
    }
    assert_int_equal(x.depth, 0);
    check_list(x.links, x.ids, false);
    check_list(x.ids, NULL, true);
    free(x.ids);
    free(x.links);
    return x.elements;
}

/* ---- cases ---- */

static void test_reader_is_strict(void **state)
{
    (void)state;
    struct reader good = {.at = "<a id=\"x\">b&#60;</a>"};
    read_open(&good), read_text(&good), read_close(&good);
    assert_int_equal(good.depth, 0);
    assert_string_equal(good.ids, "|x|");
    assert_true(has("|ab|c|", "c", 1));
    assert_false(has("|ab|c|", "a", 1));
    free(good.ids);
}

static void test_well_formed(void **state)
{
    (void)state;
    static const char *const names[] = {"typical", "nasty", "nothing",    "doubtful",   "counts",
                                        "empty",   "spied", "only-spied", "nasty-spied"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *page = page_named(names[i]), *again = page_named(names[i]);
        assert_true(check_page(page) > 50);
        assert_string_equal(page, again);
        assert_null(strstr(page, "nan"));
        assert_null(strstr(page, "18446744073709551615"));
        assert_null(strstr(page, "http:"));
        assert_null(strstr(page, "https:"));
        assert_true(strlen(page) < 200000);
        free(page);
        free(again);
    }
}

static void check_has(const char *page, const char *text)
{
    if (!strstr(page, text))
        fail_msg("the page has no %s", text);
}

static void test_escaped(void **state)
{
    (void)state;
    char *page = page_named("nasty");
    assert_null(strstr(page, "<b>&amp;'"));
    assert_null(strstr(page, "<tags>"));
    assert_null(strchr(page, '\033'));
    assert_null(strstr(page, "\xe2\x80\xae"));
    check_has(page, "&#60;b&#62;&#38;amp;&#39;&#34;&#60;/b&#62;");
    check_has(page, "\\xe2\\x80\\xae&#60;script&#62;");
    check_has(page, "evil\\x1b[31m\\x0a\\x09text");
    check_has(page, "text with &#34;quotes&#34;, &#60;tags&#62; and \\x01 in it");
    check_has(page, "It &#60;means&#62; this.");
    check_has(page, "[other-id]");
    check_has(page, "jmp &#60;\\x1b[31m&#38;\\xff&#62;");
    free(page);
}

static void test_figures(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Measured 97% of memory operations",
        "0.340 s (0.310..0.370)",
        "of the whole overhead</dt><dd>87% (79%..95%)",
        "12.5 (11.4..13.6)",
        "162% (148%..176%)",
        "list::walk",
        "list::walk(std::vector&#60;int, std::allocator&#60;int&#62; &#62; const&#38;)",
        "median of 5 runs",
        "75% of it replayed",
        "__memmove_avx_unaligned_erms</td><td class=\"\">libc.so.6</td><td class=\"\">jump into the middle",
        "rel=\"next\" href=\"#o1\"",
        "looked for: /home/u/gather.c",
        ("<tr class=\"own\"><th scope=\"row\">1183</th><td class=\"n heat\" style=\"--h:38%\" title=\"500 of 1,302 "
         "samples\">38%</td>"
         "<td class=\"n wide\">10,000,000</td><td class=\"n wide\">10,000,000</td><td class=\"n wide\">50% "
         "chain</td><td><code>addsd xmm0, [rdi+rax*8]</code>"),
        "<tr class=\"in\"><th scope=\"row\">1183</th>", /* of the procedure, whose loop it is */
        "&#60;i&#62;sin\\x1b <small>libm.so.6</small></th><td class=\"n\">10</td><td class=\"n\">400</td>",
        "<td class=\"n wide\" title=\"0.550 s (0.535..0.565)\">0.550</td>",
        "aria-label=\"computed 0.500 s, memory 0.300 s, uncounted and kernel 0.070 s, waited for threads 0.430 s, "
        "asleep, or without",
        "<td class=\"n strong\">0.430</td><td class=\"n\">0</td><td class=\"\">pthread_mutex_lock</td><td "
        "class=\"\">gather gather.c:8-20</td>",
        "<td class=\"n\">1.33</td><td class=\"n\">0</td><td class=\"\">gather._omp_fn.0 gather.c:12-15</td>",
        "<h2 id=\"h-ranks\">Ranks</h2>",
        "<tr><th scope=\"row\" class=\"n\">3</th><td class=\"n\">?</td><td class=\"n\">2.200</td>",
        "<td class=\"n\">1.700</td><td class=\"n strong\">1.48</td><td class=\"n\">3</td>",
        "probed</dt><dd>0.610 s (0.600..0.620) with what it calls, 70 entries; sampled 0.610 s (0.510..0.710)",
        "aria-label=\"ideal 0.210 s, branches ? s, memory 0.340 s (0.310..0.370)\""};
    char *page = page_named("typical");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check_has(page, texts[i]);
    free(page);
}

/* What mtool spy found: a bar and an article an object, its lines beside the source of loops too. */
static void test_data(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "<a class=\"pick d\" href=\"#d0\">grid in make_grid</a><small>heap double</small>",
        "aria-label=\"62% of the stall, mostly capacity 78%\"><rect class=\"c0\"",
        "<article class=\"obj d\" id=\"d1\" aria-labelledby=\"dt1\">",
        "of the stall</a></dt><dd>62% (58.0..66.0 %)</dd>",
        "memory</a></dt><dd>0.211 s (0.180..0.240)</dd>",
        "<h4>Allocated by</h4>\n<ol>\n<li>make_grid <small>gather.c:22</small></li>\n<li>main ",
        "<td><a href=\"#d1\">queue in list::push</a></td><td class=\"n\">13,000,000</td><td class=\"n strong\">65%",
        "It evicts what others then miss: queue in list::push 9.9M.",
        "<td class=\"strong\">time_left</td><td class=\"n\">34,567,890</td>",
        "<li>thread 0 writes hits in gather (gather.c:14)</li>",
        "at 4K, 0.02 % at 256M\">",
        "<path class=\"curve p0\" d=\"M48.0 ",
        "<svg class=\"picture\" viewBox=\"0 0 24 16\"",
        "<path class=\"p0 s2\" d=\"M0 15h1v1h-1z",
        "<dt id=\"g-false-sharing\">false sharing</dt>",
    };
    char *page = page_named("spied"), *alone = page_named("only-spied"), *without = page_named("typical");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check_has(page, texts[i]);
    assert_null(strstr(alone, "id=\"histogram\""));
    assert_null(strstr(alone, "memory&#160;s"));
    check_has(alone, "Procedures, and their part of the memory stall");
    assert_null(strstr(without, "id=\"data\""));
    assert_null(strstr(without, "g-false-sharing"));
    free(page), free(alone), free(without);
}

/* ---- source ---- */

struct folder {
    char path[64], file[128];
};

static void make_source(struct folder *f, const char *text)
{
    strcpy(f->path, "/tmp/mtool-html.XXXXXX");
    assert_non_null(mkdtemp(f->path));
    snprintf(f->file, sizeof f->file, "%s/gather.c", f->path);
    assert_int_equal(file_write_whole(f->file, text, strlen(text), 0600), 0);
}

static void drop_source(struct folder *f)
{
    unlink(f->file);
    rmdir(f->path);
}

/* The stall of all data objects that a line reaches. */
static void test_source_stall(void **state)
{
    (void)state;
    struct strbuf text = {0};
    for (int i = 1; i <= 30; i++)
        str_printf(&text, "line %d\n", i);
    struct folder f;
    make_source(&f, text.data);
    struct prof_result *r = fixture_result("spied");
    char *page = page_of(r, f.path);
    check_page(page);
    check_has(page, "<a class=\"term\" href=\"#g-stall\">stall</a></th><th scope=\"col\">source</th>");
    check_has(page, "title=\"grid in make_grid 62%, counters 13%\">75%</td><td><mark><code>line 14<");
    check_has(page, "<td class=\"n\"></td><td><mark><code>line 13<");
    check_has(page, "gather.c:14 <code>line 14</code></td>"); /* of the data object */
    free(page);
    prof_result_free(r);
    str_free(&text);
    drop_source(&f);
}

/* Lines 12 to 15 are the loop's, 8 to 20 its procedure's, 14 has samples. */
static void test_source(void **state)
{
    (void)state;
    struct strbuf text = {0};
    for (int i = 1; i <= 60; i++)
        str_printf(&text, "line %d\t<i>&\033%s\n", i, i == 13 ? "\xff" : "");
    struct folder f;
    make_source(&f, text.data);
    struct prof_result *r = fixture_result("typical");
    char *page = page_of(r, f.path);
    check_page(page);
    check_has(page, "<tr class=\"own\"><th scope=\"row\">12</th>");
    check_has(page, "<mark><code>line 13 &#60;i&#62;&#38;\\x1b\\xff</code></mark>");
    check_has(page, "<tr class=\"own\"><th scope=\"row\">14</th><td class=\"n heat\" style=\"--h:87%\" title=\"812 of "
                    "932 samples\">87%</td><td "
                    "class=\"n wide\">60,000,000</td>");
    check_has(page, "<tr class=\"in\"><th scope=\"row\">14</th>"); /* of the procedure, whose loop it is */
    check_has(page, "<tr><th scope=\"row\">16</th>");
    check_has(page, "<tr class=\"own\"><th scope=\"row\">16</th>");
    assert_null(strstr(page, ">line 33 "));
    check_has(page, "This file was changed after the run");
    prof_result_free(r);
    str_free(&text);
    free(page);
    drop_source(&f);
}

/* A build in a folder of its own names its files so. */
static void test_source_upwards(void **state)
{
    (void)state;
    struct folder f;
    make_source(&f, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\nthe loop\n13\n14\n15\n");
    struct prof_result *r = fixture_result("typical");
    r->objects[0].file = ".././../src/../gather.c";
    char *page = page_of(r, f.path);
    check_page(page);
    check_has(page, "<mark><code>the loop</code></mark>");
    prof_result_free(r);
    free(page);
    drop_source(&f);
}

static void test_source_too_short(void **state)
{
    (void)state;
    struct folder f;
    make_source(&f, "one line, without an end");
    struct prof_result *r = fixture_result("typical");
    char *page = page_of(r, f.path);
    check_page(page);
    check_has(page, "ends at line 1,");
    prof_result_free(r);
    free(page);
    drop_source(&f);
}

/* Thousands of objects over a large file, each name as long as C++ makes them. */
static void test_large(void **state)
{
    (void)state;
    enum { OBJECTS = 5000, LINES = 20000 };
    struct strbuf text = {0};
    for (int i = 1; i <= LINES; i++)
        str_printf(&text, "        a[i] = b[index[i]] + c[index[i]] * factor; /* line %d */\n", i);
    struct folder f;
    make_source(&f, text.data);
    struct prof_result *r = fixture_result("typical");
    struct prof_object *list = ARENA_ARRAY(r->arena, struct prof_object, OBJECTS);
    char *name = xmalloc(1001);
    memset(name, 'n', 1000);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        list[i] = r->objects[0];
        list[i].id = i;
        list[i].parent = i % 3 ? i - 1 : ID_NONE;
        list[i].function = name;
        list[i].line_first = 1 + i * 3 % (LINES - 300);
        list[i].line_last = list[i].line_first + 250;
    }
    r->objects = list;
    r->object_count = OBJECTS;
    char *page = page_of(r, f.path);
    check_page(page);
    assert_true(strlen(page) < 3000000);
    check_has(page, "source of larger bottlenecks only");
    prof_result_free(r);
    str_free(&text);
    free(page);
    free(name);
    drop_source(&f);
}

/* Parents that are not there, that are the object itself, or that go round. */
static void test_parents(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("typical");
    r->objects[0].parent = 77;
    r->objects[1].parent = 1;
    r->objects[2].parent = 3;
    r->objects[3].parent = 2;
    char *page = page_of(r, NULL);
    check_page(page);
    prof_result_free(r);
    free(page);
}

/* ---- two sides ---- */

static char *diff_page_of(const char *old_name, const char *new_name)
{
    struct prof_result *old = fixture_result(old_name), *now = fixture_result(new_name);
    const struct diff_condition condition = {
        .field = DIFF_MEMORY, .is_percent = true, .limit = 5, .text = "memory_s>+5%"};
    const struct report_diff_html_options o = {
        .paths = {"<old>.mtool", "new.mtool"}, .conditions = &condition, .condition_count = 1};
    struct prof_diff *d = prof_diff_new(old, now);
    struct strbuf out = {0};
    report_diff_html(d, &o, &out);
    prof_diff_free(d);
    prof_result_free(old);
    prof_result_free(now);
    return out.data;
}

static void test_diff(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "&#60;old&#62;.mtool: ./gather",
        "memory_s&#62;+5%</code>: <b>failed</b>",
        "<td class=\"n strong\">+0.580</td><td class=\"n\">0.54",
        "<a class=\"pick\" href=\"#o0\">gather</a><small>loop gather.c:15-18",
        "<td class=\"n wide\">0.340</td><td class=\"n wide\">0.740</td><td class=\"n strong\">+0.400</td>",
        "<small>not there</small>",
        "memory, new</a></dt><dd>0.740 s (0.710..0.770)",
        "<h4>Old</h4>",
        "looked for: /home/u/gather.c",
        ">better</td>",
        ">within noise</td>"};
    char *page = diff_page_of("typical", "slower");
    check_page(page);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check_has(page, texts[i]);
    free(page);
}

/* Before all else, and nowhere where it passed. */
static void test_names_in_warnings(void **state)
{
    (void)state;
    static struct prof_warning warning = {"probe-counts-differ", "_ZN1A3getEv was entered 3 times"};
    struct prof_result *r = fixture_result("typical");
    r->warnings = &warning;
    r->warning_count = 1;
    char *page = page_of(r, NULL);
    check_has(page, "<li>A::get() was entered 3 times");
    free(page);
    prof_result_free(r);
}

static void test_failed_model(void **state)
{
    (void)state;
    char *page = page_named("doubtful"), *good = page_named("typical"), *diff = diff_page_of("doubtful", "slower");
    static const char first[] =
        "to the bottlenecks</a>\n<p class=\"note strong\">The model of the processor fails: off by 50% in the median";
    check_has(page, first);
    check_has(diff, first);
    assert_null(strstr(good, "note strong"));
    free(page);
    free(good);
    free(diff);
}

static void test_diff_well_formed(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"typical", "typical"}, {"nasty", "typical"}, {"typical", "nasty"}, {"nasty", "nasty"}, {"empty", "typical"}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *page = diff_page_of(names[i][0], names[i][1]);
        check_page(page);
        assert_null(strstr(page, "nan"));
        assert_null(strchr(page, '\033'));
        free(page);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_is_strict),
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_escaped),
        cmocka_unit_test(test_failed_model),
        cmocka_unit_test(test_names_in_warnings),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_source_stall),
        cmocka_unit_test(test_source),
        cmocka_unit_test(test_source_too_short),
        cmocka_unit_test(test_source_upwards),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_diff_well_formed),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
