/* SPDX-License-Identifier: Apache-2.0
 * mtool dump counts, objects, db: what a profile holds, without judgement. */
#include "cmd/cmd.h"

#include "report/report.h"
#include "store/store.h"

int cmd_dump_counts(const struct cmd_args *a)
{
    struct prof_result *r;
    if (store_read(a->rest[0], &r) < 0)
        return CMD_UNUSABLE;
    struct strbuf out = {0};
    a->json ? report_counts_json(r, &out) : report_counts_text(r, &out);
    prof_result_free(r);
    return cmd_print(&out);
}

int cmd_dump_objects(const struct cmd_args *a)
{
    struct prof_result *r;
    if (store_read(a->rest[0], &r) < 0)
        return CMD_UNUSABLE;
    struct strbuf out = {0};
    a->json ? report_candidates_json(r, &out) : report_candidates_text(r, &out);
    prof_result_free(r);
    return cmd_print(&out);
}

int cmd_dump_db(const struct cmd_args *a)
{
    struct strbuf out = {0};
    if (store_dump(a->rest[0], a->json, &out) < 0)
        return CMD_UNUSABLE;
    return cmd_print(&out);
}
