/* SPDX-License-Identifier: Apache-2.0
 * mtool spy: the references of a program, or of a trace, through simulated caches. */
#include "cmd/spy/traced.h"

/* What one of the two ways does nothing with. */
static int check_options(const struct cmd_args *a)
{
    const struct {
        bool given;
        const char *name;
    } of_program[] = {{a->output, "output"},
                      {a->force, "force"},
                      {a->unfiltered, "unfiltered"},
                      {a->allocators.count, "allocator"},
                      {a->sets, "sets"},
                      {a->follow, "follow"},
                      {a->sample, "sample"},
                      {a->sample_length, "sample-length"},
                      {a->sample_evenly, "sample-evenly"}};
    if (!a->trace && a->json)
        return diag_error("spy: --json is about --trace; of a program 'mtool report --json' prints the profile"),
               CMD_UNUSABLE;
    for (size_t i = 0; a->trace && i < ARRAY_LEN(of_program); i++)
        if (of_program[i].given)
            return diag_error("spy: --trace excludes --%s, which is about a program", of_program[i].name), CMD_UNUSABLE;
    return 0;
}

int cmd_spy(const struct cmd_args *a)
{
    if (a->trace && a->rest_count)
        return diag_error("spy: --trace FILE and a program exclude each other"), CMD_UNUSABLE;
    if (!a->trace && !a->rest_count)
        return diag_error("spy: say which program to run (mtool spy -- PROGRAM), or which trace to read: --trace FILE"),
               CMD_UNUSABLE;
    int rc = check_options(a);
    if (rc)
        return rc;
    return a->trace ? spy_trace(a) : spy_program(a);
}
