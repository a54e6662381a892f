/* SPDX-License-Identifier: Apache-2.0
 * The commands and options as data. Holds no function of a command, so that the maker of the man pages can link it. */
#include "cmd/cmd.h"

const struct cmd_command cmd_commands[CMD_ID_COUNT] = {
#define COMMAND(id, name, arguments, min, max, flags, summary, text)                                                   \
    {CMD_ID_##id, name, arguments, min, max, flags, summary, text},
#include "cmd/commands.def"
#undef COMMAND
};

const struct cmd_group cmd_groups[] = {
#define GROUP(word, summary) {word, summary},
#include "cmd/groups.def"
#undef GROUP
};
const size_t cmd_group_count = ARRAY_LEN(cmd_groups);

const struct cmd_option cmd_options[] = {
#define OPTION(commands, name, letter, kind, field, value, text)                                                       \
    {commands, name, letter, kind, offsetof(struct cmd_args, field), value, text},
#include "cmd/options.def"
#undef OPTION
};
const size_t cmd_option_count = ARRAY_LEN(cmd_options);
