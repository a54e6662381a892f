/* SPDX-License-Identifier: Apache-2.0
 * mtool spy: the references of a program, or of a trace, through simulated caches. */
#include "cmd/spy/traced.h"

int cmd_spy(const struct cmd_args *a)
{
    if (a->trace && a->rest_count)
        return diag_error("spy: --trace FILE and a program exclude each other"), CMD_UNUSABLE;
    if (!a->trace && !a->rest_count)
        return diag_error("spy: say which program to run (mtool spy -- PROGRAM), or which trace to read: --trace FILE"),
               CMD_UNUSABLE;
    return a->trace ? spy_trace(a) : spy_program(a);
}
