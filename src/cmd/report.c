/* SPDX-License-Identifier: Apache-2.0
 * mtool report: a profile to text or JSON. */
#include "cmd/cmd.h"

#include <unistd.h>

#include "report/report.h"
#include "store/store.h"

int cmd_report(const struct cmd_args *a)
{
    struct prof_result *r;
    if (store_read(a->rest[0], &r) < 0)
        return CMD_UNUSABLE;
    const struct report_options o = {
        .top = a->top,
        .all = a->all,
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
    prof_result_free(r);
    return cmd_print(&out);
}
