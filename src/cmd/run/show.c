/* SPDX-License-Identifier: Apache-2.0
 * What a job prints when it has ended. */
#include "cmd/run/profile.h"

#include <unistd.h>

void profile_show(const struct profile *p, const struct cmd_args *a)
{
    struct report_options o = {
        .top = a->top ? a->top : 10, .is_terminal = cmd_has_colour(STDERR_FILENO), .columns = cmd_columns(a, 2)};
    struct strbuf out = {0};
    report_summary(p->result, &o, &out);
    report_table(p->result, &o, &out);
    str_printf(&out, "\nProfile: %s    To see more: mtool report %s\n", store_path(p->store), store_path(p->store));
    const char *s = out.data;
    for (size_t left = out.len; left;) {
        ssize_t n = write(2, s, left);
        if (n <= 0)
            break;
        s += n;
        left -= (size_t)n;
    }
    str_free(&out);
}
