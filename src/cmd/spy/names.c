/* SPDX-License-Identifier: Apache-2.0
 * Names of what is allocated: the functions that lead there, as many as tell it from others. */
#include "cmd/spy/program.h"

#include <stdlib.h>

enum { DEPTH_MAX = 8 };

static bool is_allocated(const struct prof_input_datum *d) { return d->name && d->frame_count; }

/* Of `depth` functions, those without a name left out, with the lines of one or of all; of none its name is what it
 * was. */
static const char *name_of(struct arena *a, const struct prof_input_datum *d, unsigned depth, bool has_lines)
{
    struct strbuf text = {0};
    for (size_t i = 0; i < d->frame_count && depth; i++) {
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
        all[i].name = all[i].datum->name = name_of(a, all[i].datum, depth, has_lines);
    return left;
}

void spied_name(struct arena *a, struct prof_input_datum *data, size_t count)
{
    struct named *all = xmalloc((count + 1) * sizeof *all);
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (is_allocated(&data[i])) {
            data[i].name = name_of(a, &data[i], 1, false);
            all[left++] = (struct named){data[i].name, &data[i]};
        }
    for (unsigned depth = 2; depth <= DEPTH_MAX && left; depth++)
        left = lengthen(a, all, left, depth, false);
    for (unsigned depth = 2; depth <= DEPTH_MAX && left; depth++) /* the same functions, called at other places */
        left = lengthen(a, all, left, depth, true);
    free(all);
}
