/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured seconds by simulated shares. Latencies overlap on a core that goes on past a miss, so misses times latency
 * is no time; what an m-object's own code loses to memory was measured, and the cells of that code share it by their
 * part of its stall. An object whose overhead may as well be none accuses no data, but its data may cost up to what the
 * object may; what code costs of which nothing is known is not known.
 */
#include "prof/spied/spied.h"
#include "result/stats.h"

#include <math.h>

static double *stall_by_owner(const struct spied *s)
{
    double *sum = ARENA_ARRAY(s->j->scratch, double, s->j->r->object_count + 1);
    for (size_t i = 0; i < s->cell_count; i++)
        if (s->place[i].owner != ID_NONE)
            sum[s->place[i].owner] += s->stall[i];
    return sum;
}

static struct prof_interval part_of(const struct prof_object *o, double share)
{
    double high = share * fmax(0, o->memory_s.high);
    if (!o->is_significant)
        return (struct prof_interval){0, 0, high};
    return (struct prof_interval){share * fmax(0, o->memory_s.value), share * fmax(0, o->memory_s.low), high};
}

static bool is_measured(const struct prof_result *r)
{
    for (size_t i = 0; i < r->object_count; i++)
        if (!isnan(r->objects[i].memory_s.value))
            return true;
    return false;
}

void spied_seconds(struct spied *s)
{
    const struct prof_result *r = s->j->r;
    if (!is_measured(r))
        return;
    const double *all = stall_by_owner(s);
    s->memory_s = ARENA_ARRAY(s->j->scratch, struct prof_interval, s->cell_count + 1);
    for (size_t i = 0; i < s->cell_count; i++) {
        uint32_t owner = s->place[i].owner;
        if (s->stall[i] > 0 && (owner == ID_NONE || isnan(r->objects[owner].memory_s.value)))
            s->memory_s[i] = stats_unknown();
        else if (s->stall[i] > 0)
            s->memory_s[i] = part_of(&r->objects[owner], s->stall[i] / all[owner]);
    }
}
