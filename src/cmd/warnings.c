/* SPDX-License-Identifier: Apache-2.0
 * All warnings by their ids: those of this folder's list and those that prof has of its figures. */
#include "cmd/cmd.h"

const struct cmd_warning cmd_warnings[] = {
#define X(name, id, meaning, cause, remedy) {id, meaning, cause, remedy},
#include "cmd/warnings.def"
#include "result/warnings.def"
#undef X
};
const size_t cmd_warning_count = ARRAY_LEN(cmd_warnings);

const struct cmd_warning *cmd_warning_find(const char *id)
{
    for (size_t i = 0; i < cmd_warning_count; i++)
        if (strcmp(cmd_warnings[i].id, id) == 0)
            return &cmd_warnings[i];
    return NULL;
}
