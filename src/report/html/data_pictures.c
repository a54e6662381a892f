/* SPDX-License-Identifier: Apache-2.0
 * Drawings: the miss-ratio curve over sizes of caches, and a data object over time, which part of it was reached when
 * and by whom. */
#include "report/html/data.h"

#include <math.h>

/* ---- the curve ---- */

enum { LEFT = 48, TOP = 10, WIDTH = 520, HEIGHT = 150, BOTTOM = 24, LINES_MAX = 5 };

struct curve {
    double first, last; /* logarithms of the sizes */
    double max;         /* ratio */
};

static double x_of(const struct curve *k, double bytes)
{
    return LEFT + WIDTH * (k->last > k->first ? (log2(bytes) - k->first) / (k->last - k->first) : 0);
}

static double y_of(const struct curve *k, double ratio) { return TOP + HEIGHT * (1 - fmin(1, ratio / k->max)); }

static void put_word(struct html_page *p, double x, double y, const char *anchor, const char *text)
{
    str_printf(p->out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">", x, y, anchor);
    html_text(p, text);
    html_puts(p, "</text>");
}

/* Where the simulated caches are. */
static void put_marks(struct html_page *p, const struct curve *k)
{
    uint32_t levels[HTML_DATA_LEVELS];
    size_t n = data_levels(p->r, levels, ARRAY_LEN(levels));
    for (size_t i = 0; i < n; i++) {
        const struct prof_cache *c = &p->r->caches[levels[i]];
        double at = c->bytes && c->bytes != PROF_UNKNOWN ? log2((double)c->bytes) : -1;
        if (at < k->first || at > k->last)
            continue;
        double x = x_of(k, (double)c->bytes);
        str_printf(p->out, "<path class=\"mark\" d=\"M%.1f %dV%d\"/>", x, TOP, TOP + HEIGHT);
        put_word(p, x + 3, TOP + 10, "start", c->name ? c->name : "?");
    }
}

static void put_axes(struct html_page *p, const struct curve *k, const struct prof_data_curve *rows, size_t count)
{
    str_printf(p->out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>", LEFT, TOP, TOP + HEIGHT, LEFT + WIDTH);
    put_word(p, LEFT - 4, TOP + 10, "end", arena_printf(p->a, "%.3g%%", 100 * k->max));
    put_word(p, LEFT - 4, TOP + HEIGHT, "end", "0");
    for (size_t i = 0; i<count; i += count> 9 ? 2 : 1)
        put_word(p, x_of(k, (double)rows[i].bytes), TOP + HEIGHT + 16, "middle", figure_bytes(p->a, rows[i].bytes));
}

static struct data_range range_of(const struct html_page *p, uint32_t object)
{
    return DATA_RANGE(p->r->data_curves, p->r->data_curve_count, object, object);
}

static void put_line(struct html_page *p, const struct curve *k, uint32_t object, size_t colour)
{
    struct data_range range = range_of(p, object);
    const char *command = "M";
    str_printf(p->out, "<path class=\"curve p%zu\" d=\"", colour);
    for (size_t i = range.first; i < range.end; i++) {
        double ratio = data_curve_ratio(p->r, &p->r->data_curves[i]);
        if (isnan(ratio))
            continue;
        str_printf(p->out, "%s%.1f %.1f", command, x_of(k, (double)p->r->data_curves[i].bytes), y_of(k, ratio));
        command = "L";
    }
    html_puts(p, "\"/>");
}

static void put_lines(struct html_page *p, const struct curve *k, const uint32_t *objects, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_line(p, k, objects[i], i);
    html_puts(p, "</svg>\n");
    if (count == 1)
        return;
    html_puts(p, "<p class=\"legend\">");
    for (size_t i = 0; i < count; i++) {
        str_printf(p->out, "<span class=\"key p%zu\"></span>", i);
        html_text(p, objects[i] == ID_NONE ? "the program" : data_name(p->r, objects[i], p->a));
        html_puts(p, i + 1 < count ? " " : "</p>\n");
    }
}

/* The program's has those of the first objects beside it. */
static size_t choose_lines(const struct html_page *p, uint32_t object, uint32_t out[LINES_MAX])
{
    size_t n = 1;
    out[0] = object;
    for (uint32_t i = 0; object == ID_NONE && i < p->r->data_count && n < LINES_MAX; i++)
        if (range_of(p, i).first < range_of(p, i).end)
            out[n++] = i;
    return n;
}

void html_data_curve(struct html_page *p, uint32_t object, const char *title)
{
    struct data_range range = range_of(p, object);
    const struct prof_data_curve *rows = &p->r->data_curves[range.first];
    size_t count = range.end - range.first;
    uint32_t objects[LINES_MAX];
    struct curve k = {.max = 0};
    for (size_t i = 0; i < count; i++)
        k.max = fmax(k.max, data_curve_ratio(p->r, &rows[i]));
    if (count < 2 || !rows[0].bytes || !(k.max > 0))
        return;
    k.first = log2((double)rows[0].bytes);
    k.last = log2((double)rows[count - 1].bytes);
    str_printf(p->out, "<h4>%s</h4>\n<svg class=\"drawing\" viewBox=\"0 0 %d %d\" role=\"img\"", title,
               LEFT + WIDTH + 24, TOP + HEIGHT + BOTTOM);
    html_attribute(p, "aria-label",
                   arena_printf(p->a,
                                "misses, of the program's references, by size of a fully associative LRU cache: "
                                "%.2f %% at %s, %.2f %% at %s",
                                100 * data_curve_ratio(p->r, &rows[0]), figure_bytes(p->a, rows[0].bytes),
                                100 * data_curve_ratio(p->r, &rows[count - 1]),
                                figure_bytes(p->a, rows[count - 1].bytes)));
    html_puts(p, ">");
    put_axes(p, &k, rows, count);
    put_marks(p, &k);
    put_lines(p, &k, objects, choose_lines(p, object, objects));
}

/* ---- the picture ---- */

enum { FUNCTIONS = 5, SHADES = 3, CELLS_MAX = 256 };

struct picture {
    const struct prof_data_touched *rows;
    size_t count;
    const struct prof_data_picture *about;
    const char *functions[FUNCTIONS]; /* those that made most references; all others have the last colour */
    size_t function_count;
    uint64_t most; /* references of a part in a time */
};

static bool is_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static unsigned colour_of(const struct picture *x, const char *function)
{
    unsigned k = 0;
    while (k < x->function_count && !is_same(x->functions[k], function))
        k++;
    return k;
}

static uint64_t references_of(const struct picture *x, const char *function)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < x->count; i++)
        if (is_same(x->rows[i].function, function))
            sum = prof_sum_counts(sum, x->rows[i].references);
    return sum;
}

/* Of many functions the first that come: a picture has few. */
static void find_functions(struct picture *x)
{
    uint64_t all = 0;
    for (size_t i = 0; i < x->count; i++) {
        all = prof_sum_counts(all, x->rows[i].references);
        x->most = x->rows[i].references == PROF_UNKNOWN ? x->most : max_u64(x->most, x->rows[i].references);
    }
    for (size_t i = 0; i < x->count && x->function_count < FUNCTIONS; i++)
        if (colour_of(x, x->rows[i].function) == x->function_count &&
            references_of(x, x->rows[i].function) >= all / 100)
            x->functions[x->function_count++] = x->rows[i].function;
}

/* Logarithmic: a part that is walked over once is seen beside one that is read all the time. */
static unsigned shade_of(const struct picture *x, uint64_t references)
{
    if (!references || references == PROF_UNKNOWN || x->most < 2)
        return SHADES - 1;
    double s = log((double)references) / log((double)x->most);
    return s > 0.85 ? SHADES - 1 : s > 0.5 ? 1 : 0;
}

static bool is_inside(const struct picture *x, const struct prof_data_touched *t)
{
    return t->time < x->about->times && t->part < x->about->parts;
}

/* All squares of a colour and shade are one path. */
static void put_squares(struct html_page *p, const struct picture *x, unsigned colour, unsigned shade)
{
    bool is_any = false;
    for (size_t i = 0; i < x->count; i++) {
        const struct prof_data_touched *t = &x->rows[i];
        if (!is_inside(x, t) || colour_of(x, t->function) != colour || shade_of(x, t->references) != shade)
            continue;
        if (!is_any)
            str_printf(p->out, "<path class=\"p%u s%u\" d=\"", colour, shade);
        is_any = true;
        str_printf(p->out, "M%u %uh1v1h-1z", t->time, x->about->parts - 1 - t->part);
    }
    html_puts(p, is_any ? "\"/>" : "");
}

static void put_legend(struct html_page *p, const struct picture *x)
{
    html_puts(p, "<p class=\"legend\">");
    for (size_t k = 0; k < x->function_count; k++) {
        str_printf(p->out, "<span class=\"key p%zu\"></span>", k);
        html_text(p, data_function(x->functions[k], NULL, p->a));
        html_puts(p, " ");
    }
    html_puts(p, "<span class=\"key r\"></span>others</p>\n");
}

void html_data_picture(struct html_page *p, uint32_t object)
{
    struct data_range at = DATA_RANGE(p->r->data_pictures, p->r->data_picture_count, object, object),
                      rows = DATA_RANGE(p->r->data_touched, p->r->data_touched_count, object, object);
    if (at.first == at.end || rows.first == rows.end)
        return;
    struct picture x = {.rows = &p->r->data_touched[rows.first],
                        .count = rows.end - rows.first,
                        .about = &p->r->data_pictures[at.first]};
    if (!x.about->times || !x.about->parts || x.about->times > CELLS_MAX || x.about->parts > CELLS_MAX)
        return;
    find_functions(&x);
    str_printf(p->out,
               "<h4>Over time: which parts of it were reached, and by whom</h4>\n<svg class=\"picture\" viewBox=\"0 0 "
               "%u %u\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"from the left to the right the run in "
               "%u parts, from the bottom to the top the object in %u\">",
               x.about->times, x.about->parts, x.about->times, x.about->parts);
    for (unsigned colour = 0; colour <= x.function_count; colour++)
        for (unsigned shade = 0; shade < SHADES; shade++)
            put_squares(p, &x, colour, shade);
    html_puts(p, "</svg>\n<p class=\"hint\">The run goes from the left to the right, ");
    str_printf(p->out, "addresses from the bottom to the top, %s bytes a step; darker: more references.</p>\n",
               figure_count(p->a, x.about->part_bytes));
    put_legend(p, &x);
}
