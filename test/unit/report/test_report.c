/* SPDX-License-Identifier: Apache-2.0
 * The painters: golden files (a command and what it prints; REBASE=1 writes them anew), JSON that is JSON, lines that
 * fit, names made fit to be read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fixture.h"
#include "report/data.h"

/* ---- golden files ---- */

static unsigned index_of(const char *words, const char *word)
{
    unsigned index = 0;
    size_t len = strlen(word);
    for (const char *w = words; *w; index++) {
        size_t n = strcspn(w, "|");
        if (n == len && memcmp(w, word, len) == 0)
            return index;
        w += n + (w[n] == '|');
    }
    fail_msg("'%s' is none of %s", word, words);
    return 0;
}

static void set_option(struct report_options *o, const char *word)
{
    const char *value = strchr(word, '=');
    value = value ? value + 1 : "";
    if (strncmp(word, "columns=", 8) == 0)
        o->columns = (unsigned)atoi(value);
    else if (strncmp(word, "top=", 4) == 0)
        o->top = (size_t)atoi(value);
    else if (strncmp(word, "by=", 3) == 0)
        o->by = index_of("object|function|loop|line|module|thread|rank|data|cell|field|sharing|curve|advice|process",
                         value);
    else if (strncmp(word, "sort=", 5) == 0)
        o->sort = index_of("memory|actual|ideal|overhead|instructions", value);
    else if (strcmp(word, "all") == 0)
        o->all = true;
    else if (strcmp(word, "terminal") == 0)
        o->is_terminal = true;
    else
        fail_msg("unknown option '%s'", word);
}

/* "PAINTER RESULT OPTIONS..." */
static void paint(const char *command, struct strbuf *out)
{
    char *line = xstrdup(command), *rest, *painter = strtok_r(line, " ", &rest), *name = strtok_r(NULL, " ", &rest);
    struct report_options o = {0};
    struct prof_result *r = fixture_result(name);
    assert_non_null(r);
    for (char *w; (w = strtok_r(NULL, " ", &rest));)
        set_option(&o, w);
    switch (index_of("summary|table|json|counts|counts-json", painter)) {
    case 0:
        report_summary(r, &o, out);
        break;
    case 1:
        report_table(r, &o, out);
        break;
    case 2:
        report_json(r, out);
        break;
    case 3:
        report_counts_text(r, out);
        break;
    case 4:
        report_counts_json(r, out);
        break;
    }
    prof_result_free(r);
    free(line);
}

/* The same file with what is printed now: lines that begin with "$ " are commands, what follows is their output up to
 * the next one; lines before the first are remarks. */
static void paint_file(const char *text, struct strbuf *out)
{
    bool is_remark = true;
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        bool is_command = strncmp(text, "$ ", 2) == 0;
        if (!is_command && !is_remark)
            continue;
        is_remark = !is_command;
        str_printf(out, "%.*s\n", (int)len, text);
        if (!is_command)
            continue;
        char *command = xmalloc(len + 1);
        memcpy(command, text + 2, len - 2);
        paint(command, out);
        free(command);
    }
}

static void check_golden(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("GOLDEN_DIR"), name);
    struct file_bytes file;
    struct strbuf now = {0};
    if (file_map(path, &file) < 0)
        fail_msg("%s cannot be read", path);
    char *text = xmalloc(file.len + 1);
    memcpy(text, file.data, file.len);
    paint_file(text, &now);
    if (getenv("REBASE"))
        assert_int_equal(file_write_whole(path, now.data, now.len, 0644), 0);
    else
        assert_string_equal(text, now.data);
    file_unmap(&file);
    str_free(&now);
    free(text);
}

static void test_golden_80(void **state)
{
    (void)state;
    check_golden("report-80.txt");
}

static void test_golden_120(void **state)
{
    (void)state;
    check_golden("report-120.txt");
}

static void test_golden_spied(void **state)
{
    (void)state;
    check_golden("report-spied.txt");
}

static void test_golden_json(void **state)
{
    (void)state;
    check_golden("report-json.txt");
}

/* ---- JSON ---- */

/* Each takes a value of RFC 8259 and returns what follows, NULL if there is none. */
static const char *skip_value(const char *s);

static const char *skip_blanks(const char *s) { return s ? s + strspn(s, " \t\r\n") : NULL; }

static const char *skip_string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if ((uint8_t)*s < 0x20)
            return NULL;
        if (*s != '\\')
            continue;
        s++;
        if (*s == 'u' && strspn(s + 1, "0123456789abcdefABCDEF") < 4)
            return NULL;
        if (!*s || !strchr("\"\\/bfnrtu", *s))
            return NULL;
    }
    return s + 1;
}

static const char *skip_group(const char *s, char end, bool has_keys)
{
    s = skip_blanks(s + 1);
    if (*s == end)
        return s + 1;
    for (;; s = skip_blanks(s + 1)) {
        if (has_keys) {
            s = skip_blanks(skip_string(s));
            if (!s || *s++ != ':')
                return NULL;
        }
        s = skip_blanks(skip_value(skip_blanks(s)));
        if (!s || (*s != ',' && *s != end))
            return NULL;
        if (*s == end)
            return s + 1;
    }
}

static const char *skip_number(const char *s)
{
    char *end;
    bool is_good = strspn(s, "-0123456789.e+") > 0 && !(s[0] == '0' && s[1] >= '0' && s[1] <= '9');
    strtod(s, &end);
    return is_good && end > s ? end : NULL;
}

static const char *skip_value(const char *s)
{
    static const char *const words[] = {"true", "false", "null"};
    if (!s)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strncmp(s, words[i], strlen(words[i])) == 0)
            return s + strlen(words[i]);
    return *s == '{'   ? skip_group(s, '}', true)
           : *s == '[' ? skip_group(s, ']', false)
           : *s == '"' ? skip_string(s)
                       : skip_number(s);
}

static void check_json(const char *text)
{
    const char *end = skip_blanks(skip_value(text));
    assert_non_null(end);
    assert_int_equal(*end, 0);
}

static void test_json_is_json(void **state)
{
    (void)state;
    static const char *const commands[] = {"json typical",      "json nasty",         "json nothing",
                                           "json counts",       "json empty",         "counts-json typical",
                                           "counts-json nasty", "counts-json counts", "counts-json empty",
                                           "json spied",        "json only-spied",    "json nasty-spied"};
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        struct strbuf out = {0};
        paint(commands[i], &out);
        check_json(out.data);
        assert_null(strstr(out.data, "nan"));
        assert_null(strstr(out.data, "18446744073709551615"));
        str_free(&out);
    }
}

/* The members that design and doc/profile.md promise. */
static void test_json_keys(void **state)
{
    (void)state;
    static const char *const keys[] = {"schema",
                                       "program",
                                       "command",
                                       "machine",
                                       "time",
                                       "predicted_user_s",
                                       "actual_user_s",
                                       "actual_system_s",
                                       "overhead",
                                       "overhead_low",
                                       "overhead_high",
                                       "coverage",
                                       "functions",
                                       "functions_rewritten",
                                       "instructions_counted",
                                       "memory_ops_measured",
                                       "memory_ops_probed",
                                       "unexplained_overhead",
                                       "objects",
                                       "id",
                                       "kind",
                                       "module",
                                       "function",
                                       "address",
                                       "file",
                                       "line_first",
                                       "line_last",
                                       "entries",
                                       "iterations",
                                       "instructions",
                                       "memory_ops",
                                       "ideal_s",
                                       "ideal_low_s",
                                       "ideal_high_s",
                                       "ideal_method",
                                       "actual_s",
                                       "actual_low_s",
                                       "actual_high_s",
                                       "actual_method",
                                       "branch_s",
                                       "tlb_s",
                                       "memory_s",
                                       "memory_low_s",
                                       "memory_high_s",
                                       "extra_cycles_per_memory_op",
                                       "bound_by",
                                       "refused",
                                       "reason",
                                       "time_share",
                                       "warnings",
                                       "text"};
    static const char *const count_keys[] = {
        "schema",     "command",  "exit", "threads", "instructions", "blocks", "module", "address", "size_bytes",
        "memory_ops", "function", "file", "line",    "count",        "edges",  "from",   "to",      "refused"};
    struct strbuf out = {0}, counts = {0};
    char quoted[64];
    paint("json nasty", &out);
    paint("counts-json nasty", &counts);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        snprintf(quoted, sizeof quoted, "\"%s\":", keys[i]);
        if (!strstr(out.data, quoted))
            fail_msg("no %s in the report", keys[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(count_keys); i++) {
        snprintf(quoted, sizeof quoted, "\"%s\":", count_keys[i]);
        if (!strstr(counts.data, quoted))
            fail_msg("no %s in the counts", count_keys[i]);
    }
    str_free(&out);
    str_free(&counts);
}

/* Every member is explained in doc/profile.md. */
static void check_explained(const char *json, const char *page)
{
    char quoted[80];
    for (const char *s = json; (s = strstr(s, "\":")); s++) {
        const char *begin = s;
        while (begin > json && begin[-1] != '"')
            begin--;
        if (strspn(begin, "abcdefghijklmnopqrstuvwxyz0123456789_") != (size_t)(s - begin))
            continue; /* inside a string */
        snprintf(quoted, sizeof quoted, "`%.*s`", (int)(s - begin), begin);
        if (!strstr(page, quoted) && strcmp(quoted, "`schema`") != 0)
            fail_msg("doc/profile.md does not explain %s", quoted);
    }
}

static void check_fields_explained(const char *page)
{
    for (unsigned id = 0; id < PROF_ROW_COUNT; id++) {
        for (size_t i = 0; i < prof_rows[id].field_count; i++) {
            const struct prof_field *f = &prof_rows[id].fields[i];
            char quoted[80];
            snprintf(quoted, sizeof quoted, "`%s`", f->media & PROF_IN_JSON ? f->key : "");
            if (f->media & PROF_IN_JSON && !strstr(page, quoted))
                fail_msg("doc/profile.md does not explain %s", quoted);
        }
    }
}

static void test_json_is_explained(void **state)
{
    (void)state;
    struct file_bytes file;
    struct strbuf out = {0};
    assert_int_equal(file_map(getenv("PAGE"), &file), 0);
    char *page = xmalloc(file.len + 1);
    memcpy(page, file.data, file.len);
    paint("json typical", &out);
    paint("json spied", &out);
    paint("counts-json typical", &out);
    check_explained(out.data, page);
    check_fields_explained(page);
    file_unmap(&file);
    free(page);
    str_free(&out);
}

/* A field's word is one that the glossary of the page explains. */
static void test_terms(void **state)
{
    (void)state;
    for (unsigned id = 0; id < PROF_ROW_COUNT; id++)
        for (size_t i = 0; i < prof_rows[id].field_count; i++)
            if (prof_rows[id].fields[i].term && !term_find(prof_rows[id].fields[i].term))
                fail_msg("terms.def does not explain %s", prof_rows[id].fields[i].term);
}

/* ---- lines that fit, whatever is in the names ---- */

static void check_lines(const char *text, size_t width)
{
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        char *line = xmalloc(len + 1);
        memcpy(line, text, len);
        struct arena *a = arena_new();
        assert_ptr_equal(cell_safe(a, line), line); /* nothing in it drives a terminal */
        if (cell_width(line) > width)
            fail_msg("%zu columns: %s", cell_width(line), line);
        arena_free(a);
        free(line);
    }
}

static void test_lines_fit(void **state)
{
    (void)state;
    static const char *const results[] = {"typical", "nasty", "nothing",    "counts",
                                          "empty",   "spied", "only-spied", "nasty-spied"};
    static const char *const by[] = {"object", "function", "loop",  "line",    "module", "thread", "rank",
                                     "data",   "cell",     "field", "sharing", "curve",  "advice", "process"};
    for (size_t i = 0; i < ARRAY_LEN(results); i++) {
        for (size_t width = 80; width <= 200; width += 13) {
            for (size_t k = 0; k < ARRAY_LEN(by); k++) {
                struct strbuf out = {0};
                char command[100];
                snprintf(command, sizeof command, "summary %s columns=%zu", results[i], width);
                paint(command, &out);
                snprintf(command, sizeof command, "table %s columns=%zu all by=%s", results[i], width, by[k]);
                paint(command, &out);
                check_lines(out.data, width);
                str_free(&out);
            }
        }
    }
}

static void test_colour_only_on_terminals(void **state)
{
    (void)state;
    struct strbuf plain = {0}, colour = {0};
    paint("table typical all", &plain);
    paint("table typical all terminal", &colour);
    assert_null(strchr(plain.data, '\033'));
    assert_non_null(strstr(colour.data, "\033[1m"));
    assert_non_null(strstr(colour.data, "\033[2m"));
    str_free(&plain);
    str_free(&colour);
}

/* ---- pieces ---- */

static void test_safe(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"plain", "plain"},
                                           {"a\tb\033[0m", "a\\x09b\\x1b[0m"},
                                           {"\xc3\xa9", "\xc3\xa9"},
                                           {"\xc3", "\\xc3"},
                                           {"\xc0\x80", "\\xc0\\x80"},
                                           {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                                           {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
                                           {"\xc2\x9b", "\\xc2\\x9b"},
                                           {"\xe2\x80\xae", "\\xe2\\x80\\xae"}};
    struct arena *a = arena_new();
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        assert_string_equal(cell_safe(a, pairs[i][0]), pairs[i][1]);
    arena_free(a);
}

static void check_short(const char *text, size_t width, const char *expected)
{
    struct strbuf s = {0};
    cell_put_short(&s, text, width);
    assert_string_equal(s.data, expected);
    str_free(&s);
}

static void test_short(void **state)
{
    (void)state;
    check_short("abcdefghij", 10, "abcdefghij");
    check_short("abcdefghij", 9, "abc...hij");
    check_short("abcdefghij", 8, "abc...ij");
    check_short("abcdefghij", 3, "abc");
    check_short("\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 7, "\xe6\xbc\xa2...\xe5\xad\x97");
    check_short("\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 6, "\xe6\xbc\xa2...");
    assert_int_equal(cell_width("e\xcc\x81\xe6\xbc\xa2"), 3);
}

/* A name with a tuple of two, and then of two of the tuple before, `turns` times. References count from behind _R. */
static const char *doubling_name(struct arena *a, int turns)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct strbuf name = {0};
    str_puts(&name, "_RINvC1a1b");
    size_t before = name.len - 2;
    str_puts(&name, "ThcE");
    for (int i = 0; i < turns; i++) {
        char high = digits[(before - 1) / 62], low = digits[(before - 1) % 62];
        before = name.len - 2;
        str_printf(&name, "TB%c%c_B%c%c_E", high, low, high, low);
    }
    str_puts(&name, "E");
    const char *kept = arena_strndup(a, name.data, name.len);
    str_free(&name);
    return kept;
}

static void test_name_that_grows(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    assert_string_equal(name_plain(a, doubling_name(a, 1)), "a::b::<(u8, char), ((u8, char), (u8, char))>");
    const char *endless = doubling_name(a, 40);
    assert_string_equal(name_plain(a, endless), endless); /* given up, not written out */
    arena_free(a);
}

/* Names in warnings are as their authors wrote them; a program that reads them gets the file's. */
static void test_names_in_warnings(void **state)
{
    (void)state;
    static struct prof_warning warnings[] = {{"probe-counts-differ", "_ZN1A3getEv was entered 3 times"}, {NULL, NULL}};
    struct prof_result *r = fixture_result("typical");
    struct strbuf out = {0}, json = {0};
    r->warnings = warnings;
    r->warning_count = ARRAY_LEN(warnings);
    report_table(r, &(struct report_options){.columns = 100}, &out);
    report_json(r, &json);
    assert_non_null(
        strstr(out.data, "\nwarning: A::get() was entered 3 times [probe-counts-differ]\nwarning: ? [?]\n"));
    assert_non_null(strstr(json.data, "\"_ZN1A3getEv was entered 3 times\""));
    str_free(&out);
    str_free(&json);
    prof_result_free(r);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[][3] = {
        {"main", "main", "main"},
        {"_ZN4list4walkERKSt6vectorIiSaIiEE", "list::walk(std::vector<int, std::allocator<int> > const&)",
         "list::walk"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)",
         "std::vector<..>::push_back"},
        {"_ZlsRSoi", "operator<<(std::ostream&, int)", "operator<<"},
        {"_ZN1AclEi", "A::operator()(int)", "A::operator()"},
        {"_ZNK1A3getEv", "A::get() const", "A::get"},
        {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", "core::fmt::write"},
        {"_ZN49_$LT$alloc..Vec$u20$as$u20$core..iter..Extend$GT$6extend17h0123456789abcdefE",
         "<alloc::Vec as core::iter::Extend>::extend", "<alloc::Vec as core::iter::Extend>::extend"},
        {"_Znonsense", "_Znonsense", "_Znonsense"},
        /* as the compiler of Rust wrote them, and c++filt reads them but for the types of constants and the hashes of
           crates */
        {"_RINvCsfq2Zq5gqAK1_2v03appNCNCNvB2_4main00EB2_", "v0::app::<v0::main::{closure#0}::{closure#0}>",
         "v0::app::<..>"},
        {"_RINvCsfq2Zq5gqAK1_2v04flagKb1_Kc3bb_Kxn5_EB2_", "v0::flag::<true, '\\u{3bb}', -5>", "v0::flag::<..>"},
        {"_RNvXCsfq2Zq5gqAK1_2v0INtB2_2SqKj7_EINtB2_5ShapemE4dyndB2_", "<v0::Sq<7> as v0::Shape<u32>>::dynd",
         "<v0::Sq<7> as v0::Shape<u32>>::dynd"},
        {"_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeINtNtCslNYArtu3iFV_5alloc5boxed3BoxDG_INtNtNtB4_"
         "3ops8function5FnMutTRL0_eEEp6OutputbEL_EECslKGqiwnqz1t_17rustc_codegen_ssa.cold",
         "core::ptr::drop_in_place::<alloc::boxed::Box<dyn for<'a> core::ops::function::FnMut<(&'a str,), Output = "
         "bool>>>.cold",
         "core::ptr::drop_in_place::<..>.cold"},
        {"_RNvXs0_NtNtCs7OxSQD10jZQ_18tracing_subscriber3fmt4timeFG0_QL1_INtNtB7_6format6WriterL0_EEINtNtCsgEmfK2I1SDS_"
         "4core6result6ResultuNtNtB1u_3fmt5ErrorENtB5_10FormatTime11format_time",
         "<for<'a, 'b> fn(&'a mut tracing_subscriber::fmt::format::Writer<'b>) -> core::result::Result<(), "
         "core::fmt::Error> as tracing_subscriber::fmt::time::FormatTime>::format_time",
         "<for<'a, 'b> fn(&'a mut tracing_subscriber::fmt::format::Writer<'b>) -> core::result::Result<(), "
         "core::fmt::Error> as tracing_subscriber::fmt::time::FormatTime>::format_time"},
        {"_RNvC1a1b.llvm.123 (inlined in _RNvC1a1c)", "a::b (inlined in a::c)", "a::b (inlined in a::c)"},
        /* none: cut off, in a cycle, of no length, of C */
        {"_RNvC2v03ma", "_RNvC2v03ma", "_RNvC2v03ma"},
        {"_RNvB_3foo", "_RNvB_3foo", "_RNvB_3foo"},
        {"_RC0", "_RC0", "_RC0"},
        {"_Ready", "_Ready", "_Ready"},
        {"_ZlsRSoi (inlined in _ZN1A1bEv)", "operator<<(std::ostream&, int) (inlined in A::b())",
         "operator<< (inlined in A::b)"},
        {"0x1234", "0x1234", "0x1234"},
    };
    struct arena *a = arena_new();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_string_equal(name_plain(a, names[i][0]), names[i][1]);
        assert_string_equal(name_brief(a, names[i][1]), names[i][2]);
    }
    arena_free(a);
}

/* Without the callers, which stand elsewhere; those that are called the same then have a number. */
static void test_data_names(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"make (a.c:6) <- load <- main", "make (a.c:6)"},
        {"make (a.c:6) <- main", "make (a.c:6) (2)"},
        {"make (a.c:6)", "make (a.c:6) (3)"},
        {"make (a.c:16) <- main", "make (a.c:16)"},
        {"make <- main", "make"},
        {"make (a.c:26) <- load (b.c:7)", "load (b.c:7)"}, /* called at several places of one function */
        {"make (a.c:26) <- load (b.c:8)", "load (b.c:8)"},
        {"make (a.c:27) <- load (b.c:8)", "load (b.c:8) (2)"},
        {NULL, "stack 8"},
        {"_ZN4list4walkERKSt6vectorIiSaIiEE (a.h:1) <- x", "list::walk (a.h:1)"},
        {"_ZN4poolIiE3getEv (a.h:2) <- main", "pool<..>::get (a.h:2)"},
        {"_ZN4poolIdE3getEv (a.h:2) <- main", "pool<..>::get (a.h:2) (2)"}, /* of another type */
        {"_ZN4poolIdE3getEv (a.h:3)", "pool<..>::get (a.h:3)"},
        {"_Z4growi", "grow"},
        {"_Z4growd", "grow (2)"},
        {"xs", "xs"},
        {"", ""}};
    struct prof_data data[ARRAY_LEN(names)] = {{0}};
    struct prof_result r = {.data = data, .data_count = ARRAY_LEN(data)};
    struct arena *a = arena_new();
    data[8].kind = PROF_DATA_STACK;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        data[i].name = names[i][0];
    for (uint32_t i = 0; i < ARRAY_LEN(names); i++)
        assert_string_equal(data_name(&r, i, a), names[i][1]);
    assert_string_equal(data_name(&r, ID_NONE, a), "others");
    arena_free(a);
}

static void test_data_figures(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *count, *bytes;
    } rows[] = {{0, "0", "0"},
                {999, "999", "999"},
                {1000, "1.0k", "1.0K"},
                {1024, "1.0k", "1K"},
                {32768, "32.8k", "32K"},
                {999499, "999k", "976K"},
                {999500, "1.0M", "976K"},
                {8000000, "8.0M", "7.6M"},
                {PROF_UNKNOWN, "?", "?"},
                {PROF_UNKNOWN - 1, "18447P", "16384P"}};
    struct arena *a = arena_new();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(figure_brief(a, rows[i].n), rows[i].count);
        assert_string_equal(figure_bytes(a, rows[i].n), rows[i].bytes);
    }
    arena_free(a);
}

static void test_figures(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    assert_string_equal(figure_real(a, -0.0001, 3), "0.000");
    assert_string_equal(figure_real(a, NAN, 3), "?");
    assert_string_equal(figure_percent(a, 0.4234), "42%");
    assert_string_equal(figure_percent(a, 0.0312), "3.1%");
    assert_string_equal(figure_percent(a, 0), "0%");
    assert_string_equal(figure_percent(a, 123.4), "123x");
    assert_string_equal(figure_percent(a, 1e12), "1e+12x");
    assert_string_equal(figure_percent(a, NAN), "?");
    assert_string_equal(figure_count(a, 999), "999");
    assert_string_equal(figure_count(a, 1234567), "1,234,567");
    assert_string_equal(figure_count(a, PROF_UNKNOWN), "?");
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_80),
        cmocka_unit_test(test_golden_120),
        cmocka_unit_test(test_golden_spied),
        cmocka_unit_test(test_golden_json),
        cmocka_unit_test(test_json_is_json),
        cmocka_unit_test(test_json_keys),
        cmocka_unit_test(test_json_is_explained),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_lines_fit),
        cmocka_unit_test(test_colour_only_on_terminals),
        cmocka_unit_test(test_safe),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_in_warnings),
        cmocka_unit_test(test_name_that_grows),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_data_names),
        cmocka_unit_test(test_data_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
