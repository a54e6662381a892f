/* SPDX-License-Identifier: Apache-2.0
 * The result: lines of text that mtool puts behind its own (doc/monster.md). Whole or not there. */
#include "plugin/plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void write_all(FILE *f)
{
    const struct wire_region *r = ram_region();
    fprintf(f, "end %llu %llu\n", (unsigned long long)r->end, (unsigned long long)r->value);
    fprintf(f, "clock %llu\n", (unsigned long long)(r->end_ns - r->begin_ns));
    model_write(f);
    system_write(f);
    maps_write(f);
    watch_write(f);
    places_write(f);
    calls_write(f);
    spots_write(f);
    variables_write(f);
    fprintf(f, "whole\n");
}

void result_write(void)
{
    if (!settings.output)
        return;
    FILE *f = fopen(settings.output, "we");
    if (f)
        write_all(f);
    if (!f || fflush(f) != 0 || ferror(f))
        diag_error("cannot write %s: %s", settings.output, strerror(errno));
    if (f)
        fclose(f);
}
