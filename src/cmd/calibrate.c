/* SPDX-License-Identifier: Apache-2.0
 * The description of the machine to use. */
#include "cmd/profile.h"

int cmd_machine_get(const struct cmd_args *a, struct machine **out)
{
    if (a->machine)
        return machine_read(a->machine, out) < 0 ? CMD_UNUSABLE : 0;
    *out = machine_default();
    return 0;
}
