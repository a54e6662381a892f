/* SPDX-License-Identifier: Apache-2.0
 * mtool diff: two profiles to what changed, and to an exit status for continuous integration. */
#include "cmd/cmd.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "report/report.h"
#include "store/store.h"

enum { CONDITIONS_MAX = 16 };

struct conditions {
    struct diff_condition list[CONDITIONS_MAX];
    size_t count;
};

/* ---- --fail-if ---- */

static const char *skip_blanks(const char *s) { return s + strspn(s, " \t"); }

static int find_field(const char *text, size_t len, enum diff_field *out)
{
    for (unsigned i = 0; i < DIFF_FIELD_COUNT; i++) {
        if (strlen(diff_field_about[i].name) == len && memcmp(diff_field_about[i].name, text, len) == 0) {
            *out = (enum diff_field)i;
            return 0;
        }
    }
    struct strbuf names = {0};
    for (unsigned i = 0; i < DIFF_FIELD_COUNT; i++)
        str_printf(&names, "%s%s", i == 0 ? "" : i + 1 < DIFF_FIELD_COUNT ? ", " : " and ", diff_field_about[i].name);
    diag_error("diff: --fail-if: there is no field '%.*s'; the fields are %s", (int)len, text, names.data);
    str_free(&names);
    return -1;
}

/* FIELD > +N% or FIELD > +Ns, with blanks anywhere. */
static int parse_condition(const char *text, struct diff_condition *c)
{
    const char *s = skip_blanks(text);
    size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    c->text = s;
    if (find_field(s, len, &c->field) < 0)
        return -1;
    s = skip_blanks(s + len);
    bool is_good = *s == '>';
    s = skip_blanks(s + is_good);
    s += *s == '+';
    char *end;
    is_good = is_good && *s >= '0' && *s <= '9';
    c->limit = strtod(s, &end);
    s = skip_blanks(end);
    c->is_percent = *s == '%';
    if (!is_good || !isfinite(c->limit) || (*s != '%' && *s != 's') || *skip_blanks(s + 1))
        return diag_error("diff: --fail-if '%s' is not FIELD>+N%% or FIELD>+Ns, for example memory_s>+5%%", text);
    if (c->field == DIFF_MISSES && !c->is_percent)
        return diag_error("diff: --fail-if '%s': misses are not seconds; say per cent, for example misses>+5%%", text);
    if (c->field == DIFF_OVERHEAD && !c->is_percent)
        return diag_error(
            "diff: --fail-if '%s': overhead has no seconds; say percentage points, for example overhead>+5%%", text);
    return 0;
}

static int parse_conditions(const struct cmd_args *a, struct conditions *out)
{
    out->count = 0;
    for (const char *s = a->fail_if; s;) {
        size_t len = strcspn(s, ",");
        if (out->count == CONDITIONS_MAX)
            return diag_error("diff: --fail-if takes at most %d conditions", (int)CONDITIONS_MAX);
        if (parse_condition(arena_strndup(a->arena, s, len), &out->list[out->count++]) < 0)
            return -1;
        s = s[len] ? s + len + 1 : NULL;
    }
    return 0;
}

/* ---- what is compared ---- */

static void warn_unlike(const struct prof_result *old, const struct prof_result *now)
{
    if (old->machine.cpu && now->machine.cpu && strcmp(old->machine.cpu, now->machine.cpu) != 0)
        diag_warn("other-machine", "the profiles are of different processors: %s, %s", old->machine.cpu,
                  now->machine.cpu);
    const char **x = old->command, **y = now->command;
    if (!x || !y || !*x || !*y)
        return;
    size_t i = 1;
    while (x[i] && y[i] && !strcmp(x[i], y[i]))
        i++;
    if (x[i] || y[i])
        diag_warn("other-command", "the programs were given different arguments");
}

/* Of two without times the misses of data objects can be compared, as text. */
static int check_times(const struct cmd_args *a, const struct prof_result *const sides[2])
{
    bool is_of_data = sides[0]->spy_count && sides[1]->spy_count && !a->html;
    for (int i = 0; i < 2; i++)
        if (!isfinite(sides[i]->actual_user_s.value) && !is_of_data)
            return diag_error("diff: %s holds no times, which mtool run takes", a->rest[i]);
    return 0;
}

static int check_known(const struct prof_diff *d, const struct conditions *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (isnan(diff_rise(d, &c->list[i])))
            return diag_error("diff: --fail-if '%s': %s is not known in both profiles", c->list[i].text,
                              diff_field_about[c->list[i].field].name);
    return 0;
}

static void put_conditions(const struct prof_diff *d, const struct conditions *c, struct strbuf *out)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct diff_condition *x = &c->list[i];
        double rise = diff_rise(d, x);
        bool holds = diff_holds(d, x);
        str_printf(out, "%s%s: %+.*f%s%s\n", i ? "" : "\n", x->text, x->is_percent ? 1 : 3, rise,
                   x->is_percent ? "%" : " s",
                   holds             ? ": FAILED"
                   : rise > x->limit ? ", within noise: passed"
                                     : ": passed");
    }
}

static int print(const struct cmd_args *a, const struct conditions *c, const struct prof_diff *d)
{
    const struct report_options o = {.top = a->top,
                                     .all = a->all,
                                     .is_terminal = cmd_has_colour(STDOUT_FILENO),
                                     .columns = cmd_columns(a, STDOUT_FILENO)};
    const char *const paths[2] = {a->rest[0], a->rest[1]};
    struct strbuf out = {0};
    if (a->json)
        report_diff_json(d, paths, c->list, c->count, &out);
    else
        report_diff(d, paths, &o, &out), put_conditions(d, c, &out);
    return cmd_print(&out);
}

static int write_html(const struct cmd_args *a, const struct conditions *c, const struct prof_diff *d)
{
    const struct report_diff_html_options o = {.paths = {a->rest[0], a->rest[1]},
                                               .source_path = a->source_path,
                                               .conditions = c->list,
                                               .condition_count = c->count};
    struct strbuf out = {0};
    report_diff_html(d, &o, &out);
    return cmd_place_write("diff", a->html, &out);
}

static int compare(const struct cmd_args *a, const struct conditions *c, const struct prof_result *old,
                   const struct prof_result *now)
{
    int status = CMD_UNUSABLE;
    warn_unlike(old, now);
    struct prof_diff *d = prof_diff_new(old, now);
    if (check_known(d, c) == 0) {
        status = a->html ? write_html(a, c, d) : print(a, c, d);
        for (size_t i = 0; i < c->count; i++)
            status = status == CMD_DONE && diff_holds(d, &c->list[i]) ? CMD_FAILED : status;
    }
    prof_diff_free(d);
    return status;
}

/* Neither profile may be replaced. */
static int check_html(const struct cmd_args *a)
{
    if (cmd_html_check("diff", a, a->rest[0]) < 0)
        return -1;
    return a->html ? cmd_place_check("diff", a->html, a->rest[1], a->force) : 0;
}

int cmd_diff(const struct cmd_args *a)
{
    struct conditions c;
    struct prof_result *old, *now;
    if (parse_conditions(a, &c) < 0 || check_html(a) < 0 || store_read(a->rest[0], &old) < 0)
        return CMD_UNUSABLE;
    if (store_read(a->rest[1], &now) < 0) {
        prof_result_free(old);
        return CMD_UNUSABLE;
    }
    int status = CMD_UNUSABLE;
    if (check_times(a, (const struct prof_result *const[]){old, now}) == 0)
        status = compare(a, &c, old, now);
    prof_result_free(old);
    prof_result_free(now);
    return status;
}
