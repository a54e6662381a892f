/* SPDX-License-Identifier: Apache-2.0
 * Loops inside loops inside procedures, with what each loses together with all inside of it: those of the histogram and
 * all around them. A parent that is not in the profile makes an object a root; a cycle of parents, which no writer of
 * ours makes, is not shown. */
#include <math.h>
#include <stdlib.h>

#include "report/html/html.h"

struct tree {
    struct html_page *page;
    uint32_t *first, *next; /* children of a row in order, ID_NONE: no more */
    uint32_t *roots;
    size_t root_count;
    bool *is_shown;
};

static size_t parent_row(const struct html_page *p, size_t row)
{
    uint64_t up;
    uint32_t id = p->tour.rows.objects[row]->parent;
    return id != ID_NONE && map_get(&p->tour.row_of, id, &up) && up != row ? (size_t)up : SIZE_MAX;
}

static double size_of(const struct prof_object *o)
{
    double s = isfinite(o->memory_incl_s.value) ? o->memory_incl_s.value : o->memory_s.value;
    return isfinite(s) ? s : isfinite(o->ideal_incl_s.value) ? -1e9 + o->ideal_incl_s.value : -1e12;
}

static int compare_roots(const void *x, const void *y, void *page)
{
    const struct html_page *p = page;
    const uint32_t *a = x, *b = y;
    double sa = size_of(p->tour.rows.objects[*a]), sb = size_of(p->tour.rows.objects[*b]);
    return sa != sb ? (sa > sb ? -1 : 1) : (*a > *b) - (*a < *b);
}

static void mark_shown(struct tree *t, const struct html_page *p)
{
    for (size_t row = 0; row < p->tour.shown; row++)
        for (size_t up = row; up != SIZE_MAX && !t->is_shown[up]; up = parent_row(p, up))
            t->is_shown[up] = true;
}

/* From the last row to the first, so that each list of children begins with the worst. */
static void tree_init(struct tree *t, struct html_page *p)
{
    size_t n = p->tour.rows.count;
    *t = (struct tree){.page = p,
                       .first = ARENA_ARRAY(p->a, uint32_t, n + 1),
                       .next = ARENA_ARRAY(p->a, uint32_t, n + 1),
                       .roots = ARENA_ARRAY(p->a, uint32_t, n + 1),
                       .is_shown = ARENA_ARRAY(p->a, bool, n + 1)};
    mark_shown(t, p);
    for (size_t row = 0; row < n; row++)
        t->first[row] = t->next[row] = ID_NONE;
    for (size_t row = n; row-- > 0;) {
        size_t up = parent_row(p, row);
        if (!t->is_shown[row])
            continue;
        if (up == SIZE_MAX) {
            t->roots[t->root_count++] = (uint32_t)row;
            continue;
        }
        t->next[row] = t->first[up];
        t->first[up] = (uint32_t)row;
    }
    qsort_r(t->roots, t->root_count, sizeof *t->roots, compare_roots, p);
}

static void put_node(struct tree *t, uint32_t row, unsigned depth)
{
    struct html_page *p = t->page;
    const struct prof_object *o = p->tour.rows.objects[row];
    const char *incl = tour_interval(&p->tour, &o->memory_incl_s), *self = tour_interval(&p->tour, &o->memory_s);
    html_puts(p, "<li>");
    if (row < p->tour.shown)
        str_printf(p->out, "<a href=\"#o%u\">", row);
    html_text(p, tour_name(&p->tour, o));
    html_puts(p, row < p->tour.shown ? "</a>" : "");
    str_printf(p->out, " <small>%s ", prof_kind_name[o->kind]);
    html_text(p, tour_place(&p->tour, o));
    str_printf(p->out, "</small> <span class=\"figures\"><b>%s</b>", incl ? incl : "?");
    if (t->first[row] != ID_NONE)
        str_printf(p->out, ", itself %s", self ? self : "?");
    str_printf(p->out, ", %s of memory operations</span>", figure_percent(p->a, o->memory_share));
    if (t->first[row] != ID_NONE && depth < HTML_DEPTH) {
        html_puts(p, "\n<ul>\n");
        for (uint32_t in = t->first[row]; in != ID_NONE; in = t->next[in])
            put_node(t, in, depth + 1);
        html_puts(p, "</ul>");
    }
    html_puts(p, "</li>\n");
}

void html_tree(struct html_page *p)
{
    struct tree t;
    tree_init(&t, p);
    html_section(p, "tree", "Loop tree", "Loop tree");
    if (!t.root_count)
        html_puts(p, "<p>There is no loop or procedure in this profile.</p>\n");
    else
        html_puts(p,
                  "<p class=\"hint\">Seconds of memory overhead, with inner loops, without called functions.</p>\n<ul "
                  "class=\"tree\">\n");
    for (size_t i = 0; i < t.root_count; i++)
        put_node(&t, t.roots[i], 0);
    html_puts(p, t.root_count ? "</ul>\n" : "");
    html_puts(p, "</section>\n");
}
