/* SPDX-License-Identifier: Apache-2.0
 * mtool ld-report: what programs wrote, by the tool that they were linked with. */
#include "cmd/ld/report.h"

static int (*const reports[LD_TOOL_COUNT])(const struct cmd_args *a) = {
    [LD_TOOL_BLOCKS] = report_blocks,
    [LD_TOOL_GPROF] = report_gprof,
};

int cmd_ld_report(const struct cmd_args *a)
{
    const struct ld_tool *tool = ld_tool_of_file(a->rest[1]);
    if (!tool)
        return CMD_UNUSABLE;
    if (!reports[tool->id])
        return diag_error("ld-report: programs of --tool %s write nothing that could be printed", tool->name),
               CMD_UNUSABLE;
    return reports[tool->id](a);
}
