/* SPDX-License-Identifier: Apache-2.0
 *
 * probed: candidates to what the rewriter is to probe.
 */
#include "objects/probed.h"

static struct rewrite_object to_probe(const struct prof_candidate *o)
{
    static const enum rewrite_object_kind kinds[PROF_KIND_COUNT] = {[PROF_LOOP] = REWRITE_LOOP,
                                                                    [PROF_PROCEDURE] = REWRITE_PROCEDURE,
                                                                    [PROF_PIECE] = REWRITE_PIECE,
                                                                    [PROF_REGION] = REWRITE_REGION};
    return (struct rewrite_object){kinds[o->kind], o->address, o->address_end, o->region};
}

const struct rewrite_objects *prof_probes_list(const struct prof_result *r, const char *module)
{
    struct rewrite_object *list = ARENA_ARRAY(r->arena, struct rewrite_object, r->candidate_count + 1);
    struct rewrite_objects *all = ARENA_NEW(r->arena, struct rewrite_objects);
    for (size_t i = 0; i < r->candidate_count; i++)
        if (prof_is_probed_in(&r->candidates[i], module))
            list[all->len++] = to_probe(&r->candidates[i]);
    all->data = list;
    return all->len ? all : NULL;
}
