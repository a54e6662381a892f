/* SPDX-License-Identifier: Apache-2.0
 * mtool annotate: a function's source beside its figures. */
#include "cmd/cmd.h"

#include <unistd.h>

#include "report/report.h"
#include "store/store.h"

/* Why there is nothing to show: it was left alone, it has another name, or it was never executed. */
static int no_function(const struct cmd_args *a, const struct prof_result *r)
{
    enum { NAMES_MAX = 3 };
    const char *function = a->rest[0], *names[NAMES_MAX];
    for (size_t i = 0; i < r->refused_count; i++)
        if (r->refused[i].function && !strcmp(r->refused[i].function, function))
            return diag_error("annotate: %s was not counted: %s", function, r->refused[i].reason);
    size_t count = report_annotate_nearest(r, function, a->arena, names, NAMES_MAX);
    struct strbuf like = {0};
    for (size_t i = 0; i < count; i++)
        str_printf(&like, "%s%s", i ? ", " : "; there is ", names[i]);
    diag_error("annotate: %s holds no function '%s'%s; 'mtool report --by function --all' lists them", a->rest[1],
               function, like.data ? like.data : "");
    str_free(&like);
    return -1;
}

int cmd_annotate(const struct cmd_args *a)
{
    struct prof_result *r;
    if (store_read(a->rest[1], &r) < 0)
        return CMD_UNUSABLE;
    const struct annotate_options o = {.columns = cmd_columns(a, STDOUT_FILENO), .source_path = a->source_path};
    struct strbuf out = {0};
    size_t functions = report_annotate(r, a->rest[0], &o, &out);
    if (!functions)
        no_function(a, r);
    prof_result_free(r);
    if (!functions) {
        str_free(&out);
        return CMD_UNUSABLE;
    }
    return cmd_print(&out);
}
