/* SPDX-License-Identifier: Apache-2.0
 * Which lines of source to show for an object, and which of them are its own or those of objects inside of it; or why
 * there are none. */
#include "report/tour.h"

const struct source *tour_source(struct tour *t, const char *name)
{
    for (size_t i = 0; i < t->sources.len; i++)
        if (strcmp(t->sources.data[i]->name, name) == 0)
            return t->sources.data[i];
    VEC_PUSH(&t->sources, source_read(t->a, name, t->source_path, t->r->started));
    return t->sources.data[t->sources.len - 1];
}

/* An object of the same file that lies inside of `o` and is shorter: one of its loops, inlined or not. */
static bool is_inner(const struct prof_object *o, const struct prof_object *in)
{
    return in != o && in->parent == o->id && in->file && strcmp(in->file, o->file) == 0 && in->line_first &&
           in->line_last - in->line_first < o->line_last - o->line_first;
}

static bool is_around(const struct prof_object *up, const struct prof_object *o, const struct excerpt *x, uint32_t max)
{
    return up->file && strcmp(up->file, o->file) == 0 && up->line_first && up->line_first <= x->first &&
           up->line_last >= x->last && up->line_last - up->line_first < max;
}

static void set_range(const struct tour *t, uint32_t max, struct excerpt *x)
{
    enum { DEPTH_MAX = 12 };
    const struct prof_object *o = x->object, *up = o;
    x->first = o->line_first;
    x->last = o->line_last > o->line_first ? o->line_last : o->line_first;
    for (unsigned depth = 0; depth < DEPTH_MAX && (up = tour_parent(t, up)) && is_around(up, o, x, max); depth++) {
        x->first = up->line_first;
        x->last = up->line_last;
    }
    x->last = x->last - x->first < max ? x->last : x->first + max - 1;
    x->first = x->first > EXCERPT_AROUND ? x->first - EXCERPT_AROUND : 1;
    x->last = (uint32_t)min_u64((uint64_t)x->last + EXCERPT_AROUND, x->source->line_count);
}

void excerpt_open(struct tour *t, const struct prof_object *o, uint32_t max, struct excerpt *out)
{
    const struct source *s = o->file && o->line_first ? tour_source(t, o->file) : NULL;
    *out = (struct excerpt){.object = o, .source = s};
    out->state = !s                              ? EXCERPT_NO_LINES
                 : !s->path                      ? EXCERPT_NO_FILE
                 : s->line_count < o->line_first ? EXCERPT_TOO_SHORT
                                                 : EXCERPT_FOUND;
    if (out->state != EXCERPT_FOUND)
        return;
    set_range(t, max, out);
    for (size_t k = 0; k < t->rows.count; k++)
        if (is_inner(o, t->rows.objects[k]))
            VEC_PUSH(&out->inner, t->rows.objects[k]);
}

void excerpt_close(struct excerpt *x) { VEC_FREE(&x->inner); }

static bool holds(const struct prof_object *o, uint32_t line)
{
    return line == o->line_first || (line > o->line_first && line <= o->line_last);
}

enum excerpt_line excerpt_belongs(const struct excerpt *x, uint32_t line)
{
    if (!holds(x->object, line))
        return EXCERPT_OUTSIDE;
    for (size_t i = 0; i < x->inner.len; i++)
        if (holds(x->inner.data[i], line))
            return EXCERPT_INNER;
    return EXCERPT_OWN;
}

const char *excerpt_problem(struct tour *t, const struct excerpt *x)
{
    switch (x->state) {
    case EXCERPT_NO_LINES:
        return "No source line is known of this code: its file has no line table (compile it with -g, or install its "
               "debug symbols).";
    case EXCERPT_NO_FILE:
        return arena_printf(t->texts,
                            "Its source was not found; looked for: %s. --source-path FOLDER says where it is.",
                            x->source->looked);
    case EXCERPT_TOO_SHORT:
        return arena_printf(t->texts, "The source ends at line %u, so it is not the one that was compiled.",
                            x->source->line_count);
    case EXCERPT_FOUND:
        break;
    }
    return x->source->is_newer ? "This file was changed after the run: lines may not be those that ran." : NULL;
}
