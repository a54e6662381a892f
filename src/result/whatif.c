/* SPDX-License-Identifier: Apache-2.0
 *
 * whatif: the user time of the whole program if the memory part of one object were gone. That is a sum over threads and
 * ranks: with several of them the time on the wall falls by as much at best, if it is this object that all others wait
 * for, and not at all at worst; so the interval then reaches up to what it is now. What would become of other objects
 * is not asked: their caches might serve them better, or the memory bus be just as busy.
 */
#include "result/stats.h"

#include <math.h>

static struct prof_interval without(struct prof_interval whole, struct prof_interval memory, bool overlaps)
{
    struct prof_interval gain = {fmax(0, memory.value), fmax(0, memory.low), fmax(0, memory.high)};
    struct prof_interval rest = stats_difference(whole, gain);
    rest.low = fmax(0, rest.low);
    if (overlaps)
        rest.high = fmax(rest.high, whole.high);
    return rest;
}

void whatif_fill(struct prof_result *r)
{
    bool overlaps = r->threads > 1 || (r->rank_count != ID_NONE && r->rank_count > 1);
    for (size_t i = 0; i < r->object_count; i++) {
        struct prof_object *o = &r->objects[i];
        bool known = isfinite(o->memory_s.value) && isfinite(r->actual_user_s.value);
        o->without_s = known ? without(r->actual_user_s, o->memory_s, overlaps) : stats_unknown();
    }
}
