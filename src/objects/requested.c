/* SPDX-License-Identifier: Apache-2.0
 *
 * asked: what the user named, a function, a region or a line of a file, to objects. A function is its procedure; a line
 * is the smallest loop around it, or else the procedure; a region is what its markers enclose. What names nothing is
 * told with the nearest names.
 */
#include "objects/objects.h"

#include <stdlib.h>

enum { NEAR_MAX = 3 };

static bool is_in_file(const struct prof_object *o, const char *file)
{
    size_t have = o->file ? strlen(o->file) : 0, want = strlen(file);
    return o->file && have >= want && strcmp(o->file + have - want, file) == 0 &&
           (have == want || o->file[have - want - 1] == '/');
}

static uint32_t lines_of(const struct prof_object *o) { return o->line_last - o->line_first; }

static bool is_better(const struct prof_object *o, const struct prof_object *best)
{
    if (!best || (o->kind == PROF_LOOP) != (best->kind == PROF_LOOP))
        return !best || o->kind == PROF_LOOP;
    return lines_of(o) != lines_of(best) ? lines_of(o) < lines_of(best) : o->depth > best->depth;
}

static size_t mark_line(const struct prof_result *r, const struct prof_request *a, bool *requested)
{
    const struct prof_object *best = NULL;
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i];
        if (o->line_first && o->line_first <= a->line && a->line <= o->line_last && is_in_file(o, a->file) &&
            is_better(o, best))
            best = o;
    }
    if (best)
        requested[best->id] = true;
    return best != NULL;
}

static size_t mark_function(const struct join *j, const struct prof_request *a, bool *requested)
{
    size_t n = 0;
    for (size_t i = 0; i < j->r->object_count; i++) {
        const struct prof_object *o = &j->r->objects[i];
        if (o->kind != PROF_PROCEDURE || !j->in->names(o->function, a->function))
            continue;
        requested[o->id] = true;
        n++;
    }
    return n;
}

static size_t mark_region(struct join *j, const struct requested_set *want, const struct prof_request *a)
{
    size_t n = 0;
    for (size_t i = 0; want->regions && i < j->marked_count; i++) {
        struct marked *m = &j->marked[i];
        if (strcmp(m->name, a->function) != 0)
            continue;
        m->is_asked = true;
        n++;
        if (!m->count && !m->is_unclear) /* else it was told */
            prof_warn(j->r, PROF_WARN_NOTHING_NAMED, "%s %s: this region was never entered", want->option, a->text);
    }
    return n;
}

/* There, but not entered. */
static bool is_idle_function(struct join *j, const struct prof_request *a)
{
    for (uint32_t i = 0; a->function && i < j->module_count; i++) {
        struct join_module *m = &j->modules[i];
        for (uint32_t f = 0; m->cfg && f < m->cfg->funcs.len; f++)
            if (!m->cfg->funcs.data[f].is_plt && j->in->names(join_func_name(j, m, f), a->function))
                return true;
    }
    return false;
}

/* ---- what was meant, perhaps ---- */

struct near {
    const char *text;
    unsigned distance;
    size_t order;
};

static unsigned name_distance(const struct prof_request *a, const char *name)
{
    return strstr(name, a->function) ? 1 : str_distance(a->function, name);
}

static unsigned line_distance(const struct prof_request *a, const struct prof_object *o)
{
    if (!o->line_first || !is_in_file(o, a->file))
        return UINT32_MAX;
    return a->line < o->line_first ? o->line_first - a->line : a->line - o->line_last;
}

static int by_distance(const void *x, const void *y)
{
    const struct near *a = x, *b = y;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* Functions and regions, or stretches of lines; not all of them can be meant. */
static size_t list_near(struct join *j, const struct prof_request *a, struct near *all)
{
    unsigned max = a->function ? (unsigned)strlen(a->function) / 2 + 1 : UINT32_MAX - 1;
    size_t n = 0;
    for (size_t i = 0; i < j->r->object_count; i++) {
        const struct prof_object *o = &j->r->objects[i];
        unsigned far = !a->function                ? line_distance(a, o)
                       : o->kind == PROF_PROCEDURE ? name_distance(a, o->function)
                                                   : UINT32_MAX;
        if (far > max)
            continue;
        const char *text =
            a->function ? o->function
                        : arena_printf(j->scratch, "%s:%u-%u", file_base_name(o->file), o->line_first, o->line_last);
        all[n] = (struct near){text, far, n};
        n++;
    }
    for (size_t i = 0; a->function && i < j->marked_count; i++) {
        unsigned far = name_distance(a, j->marked[i].name);
        if (!j->marked[i].count || far > max)
            continue;
        all[n] = (struct near){j->marked[i].name, far, n};
        n++;
    }
    return n;
}

static void put_nearest(struct join *j, const struct prof_request *a, struct strbuf *out)
{
    struct near *all = xmalloc((j->r->object_count + j->marked_count + 1) * sizeof *all);
    size_t n = list_near(j, a, all);
    qsort(all, n, sizeof *all, by_distance);
    for (size_t i = 0; i < n && i < NEAR_MAX; i++) {
        str_puts(out, i ? ", " : "; the nearest: ");
        str_puts(out, all[i].text);
    }
    free(all);
}

bool *requested_objects(struct join *j, const struct requested_set *want)
{
    bool *requested = ARENA_ARRAY(j->scratch, bool, j->r->object_count + 1);
    for (size_t i = 0; i < want->count; i++) {
        const struct prof_request *a = &want->list[i];
        size_t found =
            a->function ? mark_function(j, a, requested) + mark_region(j, want, a) : mark_line(j->r, a, requested);
        if (found)
            continue;
        if (is_idle_function(j, a)) {
            prof_warn(j->r, PROF_WARN_NOTHING_NAMED, "%s %s: this function was never entered", want->option, a->text);
            continue;
        }
        struct strbuf near = {0};
        put_nearest(j, a, &near);
        prof_warn(j->r, PROF_WARN_NOTHING_NAMED, "%s %s names nothing that ran%s", want->option, a->text,
                  near.data ? near.data : "");
        str_free(&near);
    }
    return requested;
}
