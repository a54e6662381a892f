/* SPDX-License-Identifier: Apache-2.0
 * mtool ld-report: what programs wrote, by the tool that they were linked with. */
#include "cmd/ld/report.h"
#include "report/report.h"
#include "rewrite/rewrite.h"

enum { WHOLE_SHOWN = 8 };

/* What is not in any figure. */
static void put_whole(const struct cmd_args *a, struct strbuf *out)
{
    const char **lines;
    size_t count = ld_whole_read(a->rest[0], a->arena, &lines);
    size_t shown = a->all ? count : (size_t)min_u64(count, WHOLE_SHOWN);
    if (count)
        str_printf(out, "\nlinked as they were, so that nothing of them is counted here:\n");
    for (size_t i = 0; i < shown; i++)
        str_printf(out, "  %s\n", lines[i]);
    if (shown < count)
        str_printf(out, "  and %zu more; --all names them\n", count - shown);
}

void report_put_whole(const struct cmd_args *a, struct json *out)
{
    const char **lines;
    size_t count = ld_whole_read(a->rest[0], a->arena, &lines);
    json_array(out, "linked_as_they_were");
    for (size_t i = 0; i < count; i++)
        json_str(out, NULL, lines[i]);
    json_array_end(out);
}

void report_end_json(const struct cmd_args *a, struct json *j, struct strbuf *out)
{
    json_array_end(j);
    report_put_whole(a, j);
    json_object_end(j);
    str_puts(out, "\n");
}

int report_print(const struct cmd_args *a, struct strbuf *out)
{
    if (!a->json && out->len)
        put_whole(a, out);
    const char *text = a->json || !out->len ? NULL : arena_strndup(a->arena, out->data, out->len);
    const char *plain = text ? name_plain(a->arena, text) : NULL;
    if (plain && plain != text) {
        str_free(out);
        str_puts(out, plain);
    }
    return cmd_print(out);
}

void report_warn_flow(uint64_t inconsistent)
{
    if (inconsistent)
        diag_warn("ld-flow",
                  "%llu of the counts contradict each other: a process was cut off, or had threads that the link "
                  "did not show",
                  (unsigned long long)inconsistent);
}

static int (*const reports[LD_TOOL_COUNT])(const struct cmd_args *a) = {
    [LD_TOOL_BLOCKS] = report_blocks,       [LD_TOOL_CLOCKS] = report_clocks,
    [LD_TOOL_EVENTS] = report_events,       [LD_TOOL_GPROF] = report_gprof,
    [LD_TOOL_VARIABLES] = report_variables, [LD_TOOL_SCHEDULE] = report_schedule,
    [LD_TOOL_REGISTERS] = report_registers, [LD_TOOL_PROMOTE] = report_promote,
};

/* Programs that write nothing tell by themselves. */
static bool is_scheduled(const char *path)
{
    struct rewrite_ordered *o;
    struct strbuf why = {0};
    diag_hold(&why);
    bool is = rewrite_ordered_open(path, &o) == 0 && o->funcs.len;
    diag_hold(NULL);
    rewrite_ordered_close(o);
    str_free(&why);
    return is;
}

int cmd_ld_report(const struct cmd_args *a)
{
    if (ld_promotion_is_in(a->rest[0]))
        return report_promote(a);
    const struct ld_tool *linked = a->rest_count == 1 ? ld_tool_of_linked(a->rest[0]) : NULL;
    if (linked && linked->id == LD_TOOL_TRACE)
        return diag_error("ld-report: %s was linked with --tool trace and writes no file; run 'mtool ld-trace -- %s'",
                          a->rest[0], a->rest[0]),
               CMD_UNUSABLE;
    if (linked && linked->extension)
        return diag_error("ld-report: %s was linked with --tool %s: name the files that it wrote, %s.*.%s", a->rest[0],
                          linked->name, file_base_name(a->rest[0]), linked->extension),
               CMD_UNUSABLE;
    if (a->rest_count == 1 || is_scheduled(a->rest[0]))
        return report_schedule(a);
    const struct ld_tool *made = ld_tool_of_file(a->rest[1]), *tool = made;
    if (made && a->tool)
        tool = ld_tool_named(a->tool);
    if (!made || !tool)
        return CMD_UNUSABLE;
    if (tool->plan != made->plan)
        return diag_error("ld-report: %s was written by a program of --tool %s, which inserts other things than %s",
                          a->rest[1], made->name, tool->name),
               CMD_UNUSABLE;
    if ((a->lines || a->source || a->source_path) && tool->id != LD_TOOL_BLOCKS)
        return diag_error("ld-report: --lines, --source and --source-path are of --tool blocks, not of %s", tool->name),
               CMD_UNUSABLE;
    if (!reports[tool->id])
        return diag_error("ld-report: programs of --tool %s write nothing that could be printed", tool->name),
               CMD_UNUSABLE;
    return reports[tool->id](a);
}
