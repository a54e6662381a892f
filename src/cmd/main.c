/* SPDX-License-Identifier: Apache-2.0
 * The program: reads the command line, runs one command, and turns its outcome into the exit status. */
#include "cmd/cmd.h"
#include "launch/launch.h"

static int (*const functions[CMD_ID_COUNT])(const struct cmd_args *) = {
#define COMMAND(id, name, arguments, min, max, flags, summary, text) [CMD_ID_##id] = cmd_##id,
#include "cmd/commands.def"
#undef COMMAND
};

int cmd_help(const struct cmd_args *a)
{
    struct strbuf out = {0};
    int used;
    const struct cmd_command *c = cmd_find(a->rest, a->rest_count, &used);
    if (a->rest_count == 0)
        cmd_help_all(&out);
    else if (c && used == a->rest_count)
        cmd_help_one(c, &out);
    else if (a->rest_count == 1 && cmd_is_group(a->rest[0]))
        cmd_help_group(a->rest[0], &out);
    else if (a->rest_count == 1 && cmd_warning_find(a->rest[0]))
        cmd_help_warning(cmd_warning_find(a->rest[0]), &out);
    else
        return diag_error("help: there is no command and no warning '%s%s%s'; 'mtool help' lists the commands",
                          a->rest[0], a->rest_count > 1 ? " " : "", a->rest_count > 1 ? a->rest[1] : ""),
               CMD_UNUSABLE;
    return cmd_print(&out);
}

int cmd_version(const struct cmd_args *a)
{
    (void)a;
    struct strbuf out = {0};
    str_puts(&out, "mtool " MTOOL_VERSION "\n");
    return cmd_print(&out);
}

static int print_help(const struct cmd_args *a, const char *topic)
{
    struct strbuf out = {0};
    if (a->command)
        cmd_help_one(a->command, &out);
    else if (topic)
        cmd_help_group(topic, &out);
    else
        cmd_help_all(&out);
    return cmd_print(&out);
}

int main(int argc, char **argv)
{
    time_start();
    struct cmd_args a = {.arena = arena_new()};
    const char *topic = NULL;
    int rc = cmd_parse(argc, argv, &a, &topic), status;
    if (rc < 0) {
        status = CMD_UNUSABLE;
    } else if (rc > 0) {
        status = print_help(&a, topic);
    } else if (launch_own_limits() < 0) {
        status = a.command->flags & CMD_TAIL ? CMD_SELF_FAILED : CMD_FAILED;
    } else {
        heap_begin();
        diag_quiet = a.quiet;
        diag_verbose = (int)a.verbose;
        status = functions[a.command->id](&a);
    }
    arena_free(a.arena);
    return status;
}
