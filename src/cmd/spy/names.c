/* SPDX-License-Identifier: Apache-2.0
 * Names of what is allocated: the functions that lead there, as many as tell it from others; without innermost ones
 * that many others call, which are an allocator of the program's own. */
#include "cmd/spy/program.h"

#include <stdlib.h>

enum { DEPTH_MAX = 8, CALLERS_MANY = 6 };

static bool is_allocated(const struct prof_input_datum *d) { return d->name && d->frame_count; }

/* ---- who only hands on ---- */

struct call {
    const char *callee, *caller;
};
struct calls { /* that allocate, sorted, each pair once; those without a name are left out */
    VEC(struct call) v;
};

static int by_callee(const void *x, const void *y)
{
    const struct call *a = x, *b = y;
    int order = strcmp(a->callee, b->callee);
    return order ? order : strcmp(a->caller, b->caller);
}

/* The next frame with a name, from `at` on; their number if there is none. */
static size_t named_frame(const struct prof_input_datum *d, size_t at)
{
    while (at < d->frame_count && !d->frames[at].function)
        at++;
    return at;
}

static void add_calls(struct calls *c, const struct prof_input_datum *d)
{
    for (size_t i = named_frame(d, 0), next; (next = named_frame(d, i + 1)) < d->frame_count; i = next)
        VEC_PUSH(&c->v, ((struct call){d->frames[i].function, d->frames[next].function}));
}

static void sort_calls(struct calls *c)
{
    size_t n = 0;
    if (c->v.len)
        qsort(c->v.data, c->v.len, sizeof *c->v.data, by_callee);
    for (size_t i = 0; i < c->v.len; i++)
        if (!n || by_callee(&c->v.data[n - 1], &c->v.data[i]) != 0)
            c->v.data[n++] = c->v.data[i];
    c->v.len = n;
}

static bool hands_on(const struct calls *c, const char *function)
{
    size_t last = PARTITION_POINT(i, 0, c->v.len, strcmp(c->v.data[i].callee, function) < 0) + CALLERS_MANY - 1;
    return last < c->v.len && strcmp(c->v.data[last].callee, function) == 0;
}

/* The innermost frame to be named; the outermost one that has a name always is. */
static size_t first_frame(const struct calls *c, const struct prof_input_datum *d)
{
    size_t at = named_frame(d, 0), next;
    while ((next = named_frame(d, at + 1)) < d->frame_count && hands_on(c, d->frames[at].function))
        at = next;
    return at;
}

/* ---- names ---- */

/* Of `depth` functions, those without a name left out, with the lines of one or of all; of none its name is what it
 * was. */
static const char *name_of(struct arena *a, const struct prof_input_datum *d, size_t from, unsigned depth,
                           bool has_lines)
{
    struct strbuf text = {0};
    for (size_t i = from; i < d->frame_count && depth; i++) {
        const struct prof_data_frame *f = &d->frames[i];
        if (!f->function)
            continue;
        str_printf(&text, "%s%s", text.len ? " <- " : "", f->function);
        if (f->file && f->line && (has_lines || !strstr(text.data, " <- ")))
            str_printf(&text, " (%s:%u)", file_base_name(f->file), f->line);
        depth--;
    }
    const char *name = text.len ? arena_strdup(a, text.data) : d->name;
    str_free(&text);
    return name;
}

struct named {
    const char *name;
    struct prof_input_datum *datum;
    size_t from; /* frame */
};

static int by_name(const void *x, const void *y)
{
    const struct named *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->datum > b->datum) - (a->datum < b->datum);
}

/* Gives those that share a name one with more functions; how many are left. */
static size_t lengthen(struct arena *a, struct named *all, size_t count, unsigned depth, bool has_lines)
{
    size_t left = 0;
    qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && strcmp(all[end].name, all[i].name) == 0;)
            end++;
        for (size_t k = i; k < end && end - i > 1; k++)
            all[left++] = all[k];
    }
    for (size_t i = 0; i < left; i++)
        all[i].name = all[i].datum->name = name_of(a, all[i].datum, all[i].from, depth, has_lines);
    return left;
}

void spied_name(struct arena *a, struct prof_input_datum *data, size_t count)
{
    struct named *all = xmalloc((count + 1) * sizeof *all);
    struct calls calls = {{0}};
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (is_allocated(&data[i]))
            add_calls(&calls, &data[i]);
    sort_calls(&calls);
    for (size_t i = 0; i < count; i++)
        if (is_allocated(&data[i])) {
            size_t from = first_frame(&calls, &data[i]);
            data[i].name = name_of(a, &data[i], from, 1, false);
            all[left++] = (struct named){data[i].name, &data[i], from};
        }
    for (unsigned depth = 2; depth <= DEPTH_MAX && left; depth++)
        left = lengthen(a, all, left, depth, false);
    for (unsigned depth = 2; depth <= DEPTH_MAX && left; depth++) /* the same functions, called at other places */
        left = lengthen(a, all, left, depth, true);
    VEC_FREE(&calls.v);
    free(all);
}
