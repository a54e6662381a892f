/* SPDX-License-Identifier: Apache-2.0
 * What a process has mapped: files that it loaded, its stack, shared memory, and what nobody knows more of. */
#include "cmd/spy/program.h"

static const double APART = 0.002; /* seconds from one look to the next: a program may map all the time */

void spied_read_maps(struct spied_program *s)
{
    double now = time_now_s();
    if (!s->pid || now - s->read_at < APART)
        return;
    s->read_at = now;
    allocations_read_maps(s->profile->program, s->pid, s->data);
}
