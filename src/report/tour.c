/* SPDX-License-Identifier: Apache-2.0
 * Objects in the order in which they are looked at, and texts of their figures. Those that lose or take no time worth
 * a look stand behind the others; nothing is left out. */
#include "report/tour.h"

#include "report/data.h"
#include "result/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare_lines(const void *x, const void *y)
{
    const struct prof_line *a = *(const struct prof_line *const *)x, *b = *(const struct prof_line *const *)y;
    int c = strcmp(a->file ? a->file : "", b->file ? b->file : "");
    return c ? c : (a->line > b->line) - (a->line < b->line);
}

static void sort_lines(struct tour *t)
{
    const struct prof_result *r = t->r;
    t->lines = ARENA_ARRAY(t->a, const struct prof_line *, r->line_count + 1);
    for (size_t i = 0; i < r->line_count; i++) {
        t->lines[i] = &r->lines[i];
        t->samples += r->lines[i].samples == PROF_UNKNOWN ? 0 : r->lines[i].samples;
        t->lines_s = prof_sum(t->lines_s, r->lines[i].actual_s);
        t->lines_memory_s = prof_sum(t->lines_memory_s, r->lines[i].memory_s);
    }
    qsort(t->lines, r->line_count, sizeof *t->lines, compare_lines);
}

const struct prof_line *tour_line(const struct tour *t, const char *file, uint32_t line)
{
    const struct prof_line key = {.file = file, .line = line}, *wanted = &key;
    const struct prof_line **found =
        t->r->line_count ? bsearch(&wanted, t->lines, t->r->line_count, sizeof *t->lines, compare_lines) : NULL;
    return found ? *found : NULL;
}

double tour_line_share(const struct tour *t, const struct prof_line *l)
{
    if (!l)
        return NAN;
    if (t->lines_s > 0)
        return l->actual_s > 0 ? l->actual_s / t->lines_s : NAN;
    bool has = l->samples != PROF_UNKNOWN && l->samples && t->samples;
    return has ? (double)l->samples / (double)t->samples : NAN;
}

const char *tour_share_word(const struct tour *t) { return t->lines_s > 0 ? "time" : "samples"; }
bool tour_has_stalls(const struct tour *t) { return t->r->data_line_count || t->lines_memory_s > 0; }

static int compare_data_lines(const void *x, const void *y)
{
    const struct prof_data_line *a = *(const struct prof_data_line *const *)x,
                                *b = *(const struct prof_data_line *const *)y;
    int c = strcmp(a->file ? a->file : "", b->file ? b->file : "");
    c = c ? c : (a->line > b->line) - (a->line < b->line);
    return c ? c : (a > b) - (a < b); /* most of the stall first */
}

static void sort_data_lines(struct tour *t)
{
    const struct prof_result *r = t->r;
    t->data_lines = ARENA_ARRAY(t->a, const struct prof_data_line *, r->data_line_count + 1);
    for (size_t i = 0; i < r->data_line_count; i++)
        t->data_lines[i] = &r->data_lines[i];
    qsort(t->data_lines, r->data_line_count, sizeof *t->data_lines, compare_data_lines);
}

static size_t first_data_line(const struct tour *t, const char *file, uint32_t line)
{
    size_t low = 0, high = t->r->data_line_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct prof_data_line *l = t->data_lines[middle];
        int c = strcmp(l->file ? l->file : "", file);
        if (c < 0 || (c == 0 && l->line < line))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

double tour_stall(const struct tour *t, const char *file, uint32_t line, const char **objects)
{
    const char *text = NULL;
    double sum = NAN;
    const struct prof_line *l = t->lines_memory_s > 0 && file ? tour_line(t, file, line) : NULL;
    if (l)
        sum = l->memory_s / t->lines_memory_s;
    for (size_t i = file ? first_data_line(t, file, line) : SIZE_MAX; i < t->r->data_line_count; i++) {
        const struct prof_data_line *d = t->data_lines[i];
        if (d->line != line || !d->file || strcmp(d->file, file) != 0)
            break;
        sum = prof_sum(sum, d->stall_share.value);
        if (objects)
            text = arena_printf(t->texts, "%s%s%s %s", text ? text : "", text ? ", " : "",
                                data_name(t->r, d->object, t->texts), figure_percent(t->texts, d->stall_share.value));
    }
    if (objects)
        *objects = text;
    return sum;
}

/* Those that lose time, or that at least took some; rows that only exist would hide them. */
static bool is_worth_a_row(const struct prof_result *r, const struct prof_object *o)
{
    const double share = 0.001;
    bool timed = isfinite(r->actual_user_s.value);
    return o->is_significant || (timed ? o->actual_s.value > share * r->actual_user_s.value && o->samples
                                       : o->ideal_s.value > share * r->predicted_user_s.value);
}

/* Both parts keep their order. */
static void part_rows(struct tour *t, size_t max)
{
    const struct prof_object **list = ARENA_ARRAY(t->order, const struct prof_object *, t->rows.count + 1);
    size_t count = 0;
    for (int worth = 1; worth >= 0; worth--) {
        for (size_t i = 0; i < t->rows.count; i++)
            if (is_worth_a_row(t->r, t->rows.objects[i]) == worth)
                list[count++] = t->rows.objects[i];
        t->shown = worth ? min_u64(count, max ? max : SIZE_MAX) : t->shown;
    }
    t->rows.objects = list;
}

void tour_init(struct tour *t, const struct prof_result *r, const char *source_path, struct arena *a)
{
    *t = (struct tour){.r = r,
                       .source_path = source_path,
                       .a = a,
                       .texts = a,
                       .order = arena_new(),
                       .lines_s = NAN,
                       .lines_memory_s = NAN};
    t->decimals = figure_decimals(fmax(r->actual_user_s.value, r->predicted_user_s.value));
    t->whole_memory_s = stats_whole_memory(r).value;
    sort_lines(t);
    sort_data_lines(t);
}

void tour_fini(struct tour *t)
{
    map_fini(&t->row_of);
    VEC_FREE(&t->sources);
    arena_free(t->order);
}

/* Of a program whose time is spread thin, the largest object still shows two digits. */
void tour_turn_to_objects(struct tour *t)
{
    double max = 0;
    for (size_t row = 0; row < t->shown; row++)
        max = fmax(max, fmax(t->rows.objects[row]->actual_s.value, t->rows.objects[row]->ideal_s.value));
    t->decimals = max > 0 && max < 0.01 ? 5 : max > 0 && max < 0.1 ? 4 : figure_decimals(max);
}

const struct prof_object *tour_object(const struct tour *t, uint32_t id)
{
    uint64_t row;
    return id != ID_NONE && map_get(&t->row_of, id, &row) ? t->rows.objects[row] : NULL;
}

const struct prof_object *tour_parent(const struct tour *t, const struct prof_object *o)
{
    const struct prof_object *up = tour_object(t, o->parent);
    return up != o ? up : NULL;
}

/* Circles, which no writer of ours makes, end somewhere. */
const struct prof_object *tour_outermost(const struct tour *t, const struct prof_object *o)
{
    enum { DEPTH_MAX = 100 };
    const struct prof_object *up;
    for (unsigned depth = 0; depth < DEPTH_MAX && (up = tour_parent(t, o)); depth++)
        o = up;
    return o;
}

static void find_procedures(struct tour *t)
{
    t->procedures = ARENA_ARRAY(t->a, const struct prof_object *, t->r->insn_count + 1);
    for (size_t i = 0; i < t->r->insn_count; i++) {
        const struct prof_object *o = tour_object(t, t->r->insns[i].object);
        t->procedures[i] = o ? tour_outermost(t, o) : NULL;
    }
}

void tour_sort(struct tour *t, unsigned sort, size_t max)
{
    const struct report_options all = {.all = true, .sort = sort};
    arena_free(t->order);
    t->order = arena_new();
    report_rows_build(t->r, &all, t->order, &t->rows);
    part_rows(t, max);
    for (size_t row = 0; row < t->rows.count; row++)
        map_put(&t->row_of, t->rows.objects[row]->id, row);
    if (!t->procedures)
        find_procedures(t);
}

double tour_part(double s) { return isfinite(s) && s > 0 ? s : 0; }

double tour_longest(const struct tour *t)
{
    double max = 0;
    for (size_t k = 0; k < t->shown; k++) {
        const struct prof_object *o = t->rows.objects[k];
        double parts = tour_part(o->ideal_s.value) + tour_part(o->branch_s), all = parts + tour_part(o->memory_s.value);
        max = fmax(max, fmax(all, fmin(parts + tour_part(o->memory_s.high), 1.3 * all)));
    }
    return max;
}

/* ---- texts ---- */

const char *tour_seconds(struct tour *t, double s) { return figure_real(t->texts, s, t->decimals); }

static bool has_ends(const struct prof_interval *i) { return isfinite(i->low) && isfinite(i->high); }

const char *tour_interval(struct tour *t, const struct prof_interval *s)
{
    const char *value = tour_seconds(t, s->value);
    if (!isfinite(s->value))
        return NULL;
    return has_ends(s) ? arena_printf(t->texts, "%s s (%s)", value, figure_interval(t->texts, s, t->decimals))
                       : arena_printf(t->texts, "%s s", value);
}

const char *tour_percent_interval(struct tour *t, const struct prof_interval *fraction)
{
    if (!isfinite(fraction->value))
        return NULL;
    const char *value = figure_percent(t->texts, fraction->value);
    return has_ends(fraction) ? arena_printf(t->texts, "%s (%s..%s)", value, figure_percent(t->texts, fraction->low),
                                             figure_percent(t->texts, fraction->high))
                              : value;
}

static const char *cut(struct tour *t, const char *text)
{
    struct strbuf s = {0};
    str_puts(&s, "");
    cell_put_short(&s, cell_safe(t->texts, text), TOUR_NAME);
    const char *out = arena_strdup(t->texts, s.data);
    str_free(&s);
    return out;
}

const char *tour_name(struct tour *t, const struct prof_object *o)
{
    return o->function ? cut(t, name_brief(t->texts, name_plain(t->texts, o->function))) : "?";
}

const char *tour_place(struct tour *t, const struct prof_object *o)
{
    const char *file = cut(t, o->file ? file_base_name(o->file) : o->module ? file_base_name(o->module) : "?");
    if (!o->file || !o->line_first)
        return arena_printf(t->texts, "%s+0x%llx", file, (unsigned long long)o->address);
    if (o->line_last > o->line_first)
        return arena_printf(t->texts, "%s:%u-%u", file, o->line_first, o->line_last);
    return arena_printf(t->texts, "%s:%u", file, o->line_first);
}

const char *tour_command(struct tour *t)
{
    struct strbuf s = {0};
    for (const char **w = t->r->command; w && *w; w++)
        str_printf(&s, "%s%s", s.len ? " " : "", **w ? *w : "''");
    const char *line = s.len ? arena_strdup(t->texts, s.data) : t->r->program;
    str_free(&s);
    return line;
}
