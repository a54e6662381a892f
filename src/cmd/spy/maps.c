/* SPDX-License-Identifier: Apache-2.0
 * What a process has mapped: files that it loaded, its stack, shared memory, and what nobody knows more of. */
#include "cmd/spy/program.h"

#include <stdlib.h>
#include <unistd.h>

static const double APART = 0.002; /* seconds from one look to the next: a program may map all the time */

/* A copy is bound over its original, or stands in its place. */
static const char *original_of(void *ctx, const char *path)
{
    const struct spied_program *s = ctx;
    const struct launch_program *p = s->profile->program;
    for (size_t i = 0; i < p->module_count; i++)
        if (p->modules[i].copy && strcmp(p->modules[i].copy, path) == 0)
            return p->modules[i].path;
    return path;
}

static void read_all(const char *path, struct strbuf *out)
{
    char piece[4096];
    FILE *f = fopen(path, "re");
    for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;)
        str_put(out, piece, n);
    if (f)
        fclose(f);
}

void spied_read_maps(struct spied_program *s)
{
    char path[40];
    struct strbuf text = {0};
    double now = time_now_s();
    if (!s->pid || now - s->read_at < APART)
        return;
    s->read_at = now;
    snprintf(path, sizeof path, "/proc/%d/maps", s->pid);
    read_all(path, &text);
    data_see_maps(s->data, text.data, text.len, original_of, s);
    str_free(&text);
}
