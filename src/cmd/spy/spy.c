/* SPDX-License-Identifier: Apache-2.0
 * mtool spy: the references of a program, or of a trace, through simulated caches. */
#include "cmd/spy/spy.h"

int cmd_spy(const struct cmd_args *a)
{
    if (!a->trace)
        return diag_error("spy: say which trace to read: --trace FILE"), CMD_UNUSABLE;
    return spy_trace(a);
}
