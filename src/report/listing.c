/* SPDX-License-Identifier: Apache-2.0
 * Which instructions to show for an object, and which of them are its own or those of objects inside of it. They come
 * from the profile: no file is read. */
#include "report/tour.h"

void listing_open(struct tour *t, const struct prof_object *o, struct listing *out)
{
    const struct prof_object *whole = tour_outermost(t, o);
    *out = (struct listing){.object = o};
    for (size_t i = 0; i < t->r->insn_count; i++)
        out->count += t->procedures[i] == whole;
    out->insns = ARENA_ARRAY(t->texts, const struct prof_insn *, out->count + 1);
    size_t at = 0;
    for (size_t i = 0; i < t->r->insn_count; i++)
        if (t->procedures[i] == whole)
            out->insns[at++] = &t->r->insns[i];
}

enum excerpt_line listing_belongs(const struct tour *t, const struct listing *l, const struct prof_insn *insn)
{
    enum { DEPTH_MAX = 100 };
    if (insn->object == l->object->id)
        return EXCERPT_OWN;
    const struct prof_object *o = tour_object(t, insn->object);
    for (unsigned depth = 0; depth < DEPTH_MAX && o; depth++, o = tour_parent(t, o))
        if (o == l->object)
            return EXCERPT_INNER;
    return EXCERPT_OUTSIDE;
}

bool listing_has_gap(const struct listing *l, size_t i)
{
    enum { INSN_MAX = 15 }; /* bytes */
    return i > 0 && l->insns[i]->address - l->insns[i - 1]->address > INSN_MAX;
}
