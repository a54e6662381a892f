/* SPDX-License-Identifier: Apache-2.0
 * mtool view: a profile in a full-screen terminal; where there is none, the text of mtool report. */
#include "cmd/cmd.h"

#include "report/report.h"
#include "store/store.h"

int cmd_view(const struct cmd_args *a)
{
    struct prof_result *r;
    if (store_read(a->rest[0], &r) < 0)
        return CMD_UNUSABLE;
    const struct report_view_options o = {.source_path = a->source_path, .sort = a->sort};
    int rc = report_view(r, &o) ? CMD_DONE : cmd_report_print(a, r);
    prof_result_free(r);
    return rc;
}
