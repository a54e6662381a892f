/* SPDX-License-Identifier: Apache-2.0
 *
 * asked: what the user named, a function or a line of a file, to objects. A function is its procedure; a line is the smallest
 * loop around it, or else the procedure. What names nothing is told with the nearest names.
 */
#include "prof/impl.h"

#include <stdlib.h>

enum { NEAR_MOST = 3 };

static bool is_in_file(const struct prof_object *o, const char *file)
{
    size_t have = o->file ? strlen(o->file) : 0, want = strlen(file);
    return have >= want && strcmp(o->file + have - want, file) == 0 && (have == want || o->file[have - want - 1] == '/');
}

static uint32_t lines_of(const struct prof_object *o) { return o->line_last - o->line_first; }

static bool is_better(const struct prof_object *o, const struct prof_object *best)
{
    if (!best || (o->kind == PROF_LOOP) != (best->kind == PROF_LOOP))
        return !best || o->kind == PROF_LOOP;
    return lines_of(o) != lines_of(best) ? lines_of(o) < lines_of(best) : o->depth > best->depth;
}

static size_t mark_line(const struct prof_result *r, const struct prof_asked *a, bool *asked)
{
    const struct prof_object *best = NULL;
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i];
        if (o->line_first && o->line_first <= a->line && a->line <= o->line_last && is_in_file(o, a->file) && is_better(o, best))
            best = o;
    }
    if (best)
        asked[best->id] = true;
    return best != NULL;
}

static size_t mark_function(const struct join *j, const struct prof_asked *a, bool *asked)
{
    size_t n = 0;
    for (size_t i = 0; i < j->r->object_count; i++) {
        const struct prof_object *o = &j->r->objects[i];
        if (o->kind != PROF_PROCEDURE || !j->in->names(o->function, a->function))
            continue;
        asked[o->id] = true;
        n++;
    }
    return n;
}

/* ---- what was meant, perhaps ---- */

struct near {
    const struct prof_object *object;
    unsigned distance;
};

static unsigned distance(const struct prof_asked *a, const struct prof_object *o)
{
    if (a->function)
        return strstr(o->function, a->function) ? 1 : str_distance(a->function, o->function);
    if (!o->line_first || !is_in_file(o, a->file))
        return UINT32_MAX;
    return a->line < o->line_first ? o->line_first - a->line : a->line - o->line_last;
}

static int by_distance(const void *x, const void *y)
{
    const struct near *a = x, *b = y;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return (a->object->id > b->object->id) - (a->object->id < b->object->id);
}

static void put_nearest(const struct prof_result *r, const struct prof_asked *a, struct strbuf *out)
{
    struct near *all = xmalloc((r->object_count + 1) * sizeof *all);
    size_t n = 0;
    unsigned most = a->function ? (unsigned)strlen(a->function) / 2 + 1 : UINT32_MAX - 1;
    for (size_t i = 0; i < r->object_count; i++) {
        struct near x = {&r->objects[i], distance(a, &r->objects[i])};
        if (x.distance <= most && (!a->function || r->objects[i].kind == PROF_PROCEDURE))
            all[n++] = x;
    }
    qsort(all, n, sizeof *all, by_distance);
    for (size_t i = 0; i < n && i < NEAR_MOST; i++) {
        const struct prof_object *o = all[i].object;
        str_puts(out, i ? ", " : "; the nearest: ");
        if (a->function)
            str_puts(out, o->function);
        else
            str_printf(out, "%s:%u-%u", file_base_name(o->file), o->line_first, o->line_last);
    }
    free(all);
}

bool *asked_objects(struct join *j)
{
    bool *asked = ARENA_ARRAY(j->scratch, bool, j->r->object_count + 1);
    for (size_t i = 0; i < j->in->asked_count; i++) {
        const struct prof_asked *a = &j->in->asked[i];
        if (a->function ? mark_function(j, a, asked) : mark_line(j->r, a, asked))
            continue;
        struct strbuf near = {0};
        put_nearest(j->r, a, &near);
        prof_warn(j->r, PROF_WARN_NOTHING_NAMED, "--probe %s names nothing that ran%s", a->text, near.data ? near.data : "");
        str_free(&near);
    }
    return asked;
}
