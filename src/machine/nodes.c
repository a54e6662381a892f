/* SPDX-License-Identifier: Apache-2.0
 * Memory nodes of this machine, as the kernel tells them under /sys/devices/system/node. */
#include "machine/machine.h"

#include <math.h>
#include <stdlib.h>

enum { NODES_MAX = 1024 };

/* "0-3,8": how many, and the first of them. */
static unsigned count_of(const char *list, unsigned *first)
{
    unsigned count = 0, from, to;
    for (int n = 0, more; sscanf(list + n, "%u%n", &from, &more) == 1 && count < NODES_MAX;) {
        n += more;
        to = from;
        if (list[n] == '-' && sscanf(list + n + 1, "%u%n", &to, &more) == 1)
            n += more + 1;
        *first = count ? *first : from;
        count += to >= from ? to - from + 1 : 1;
        if (list[n++] != ',')
            break;
    }
    return count;
}

/* The mean of a node's distances to the others, by that to itself: "10 21 21". */
static double distance_of(const char *distances, unsigned nth)
{
    double own = 0, others = 0;
    unsigned count = 0;
    char *end;
    for (unsigned d; (d = (unsigned)strtoul(distances, &end, 10)), end != distances; distances = end, count++)
        *(count == nth ? &own : &others) += d;
    return own > 0 && count > 1 && others > 0 ? others / (count - 1) / own : NAN;
}

static bool read_line(const char *root, const char *name, char *line, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(line, (int)size, f);
    if (f)
        fclose(f);
    return ok;
}

struct machine_nodes machine_nodes(const char *root)
{
    char line[4096], name[64];
    unsigned first = 0;
    struct machine_nodes out = {.count = 1, .distance = NAN};
    if (!read_line(root, "has_memory", line, sizeof line) && !read_line(root, "online", line, sizeof line))
        return out;
    out.count = count_of(line, &first);
    if (!out.count)
        out.count = 1;
    snprintf(name, sizeof name, "node%u/distance", first);
    if (out.count > 1 && read_line(root, name, line, sizeof line))
        out.distance = distance_of(line, 0);
    return out;
}
