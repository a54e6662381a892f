/* SPDX-License-Identifier: Apache-2.0
 * mtool report: a profile to text, JSON or an HTML page. */
#include "cmd/cmd.h"

#include <unistd.h>

#include "report/report.h"
#include "store/store.h"

static const struct prof_warn_about *explain(const char *id)
{
    static struct prof_warn_about about;
    const struct cmd_warning *w = cmd_warning_find(id);
    if (w)
        about = (struct prof_warn_about){w->id, w->meaning, w->cause, w->remedy};
    return w ? &about : NULL;
}

int cmd_html_check(const char *command, const struct cmd_args *a, const char *profile)
{
    if (!a->html)
        return a->source_path || a->force
                   ? diag_error("%s: --%s goes with --html", command, a->force ? "force" : "source-path")
                   : 0;
    if (a->json)
        return diag_error("%s: --html and --json exclude each other", command);
    return cmd_place_check(command, a->html, profile, a->force);
}

static int write_html(const struct cmd_args *a, const struct prof_result *r)
{
    const struct report_html_options o = {.source_path = a->source_path, .explain = explain};
    struct strbuf out = {0};
    report_html(r, &o, &out);
    return cmd_place_write("report", a->html, &out);
}

int cmd_report_print(const struct cmd_args *a, const struct prof_result *r)
{
    const struct report_options o = {
        .top = a->top,
        .all = a->all,
        .what_if = a->what_if,
        .is_terminal = cmd_has_colour(STDOUT_FILENO),
        .columns = cmd_columns(a, STDOUT_FILENO),
        .by = a->by,
        .sort = a->sort,
    };
    struct strbuf out = {0};
    if (a->json) {
        report_json(r, &out);
    } else {
        report_summary(r, &o, &out);
        report_table(r, &o, &out);
    }
    return cmd_print(&out);
}

/* Objects have such a figure, sums over them have none. */
static int check_what_if(const struct cmd_args *a)
{
    if (!a->what_if || a->by == REPORT_BY_OBJECT || a->by == REPORT_BY_LOOP)
        return 0;
    return diag_error("report: --what-if is about loops and procedures one by one: leave out --by, or say --by loop");
}

int cmd_report(const struct cmd_args *a)
{
    struct prof_result *r;
    if (cmd_html_check("report", a, a->rest[0]) < 0 || check_what_if(a) < 0 || store_read(a->rest[0], &r) < 0)
        return CMD_UNUSABLE;
    int rc = a->html ? write_html(a, r) : cmd_report_print(a, r);
    prof_result_free(r);
    return rc;
}
