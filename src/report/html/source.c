/* SPDX-License-Identifier: Apache-2.0
 * The source around an object, read when the page is written: its procedure if that is short, else some lines around it;
 * lines of its own are marked, those of objects inside of it less so, each with what was counted and sampled there. Where
 * the file is not found the page says where it was looked for. */
#include "report/html/html.h"

#include <math.h>
#include <stdlib.h>

/* ---- files ---- */

static const struct source *source_of(struct html_page *p, const char *name)
{
    for (size_t i = 0; i < p->sources.len; i++)
        if (strcmp(p->sources.data[i]->name, name) == 0)
            return p->sources.data[i];
    VEC_PUSH(&p->sources, source_read(p->a, name, p->o->source_path, p->r->started));
    return p->sources.data[p->sources.len - 1];
}

void html_source_fini(struct html_page *p) { VEC_FREE(&p->sources); }

/* ---- figures of a line ---- */

static int compare_key(const void *key, const void *element)
{
    const struct prof_line *a = key, *b = *(const struct prof_line *const *)element;
    int c = strcmp(a->file ? a->file : "", b->file ? b->file : "");
    return c ? c : (a->line > b->line) - (a->line < b->line);
}

static const struct prof_line *line_figures(const struct html_page *p, const char *file, uint32_t line)
{
    struct prof_line key = {.file = file, .line = line};
    const struct prof_line **found =
        p->r->line_count ? bsearch(&key, p->lines, p->r->line_count, sizeof(void *), compare_key) : NULL;
    return found ? *found : NULL;
}

static void put_count(struct html_page *p, const char *class, uint64_t n)
{
    str_printf(p->out, "<td class=\"%s\">%s</td>", class, n == PROF_UNKNOWN || !n ? "" : figure_count(p->a, n));
}

static void put_samples(struct html_page *p, const struct prof_line *l)
{
    if (!l || l->samples == PROF_UNKNOWN || !l->samples || !p->samples) {
        html_puts(p, "<td class=\"n\"></td>");
        return;
    }
    double share = (double)l->samples / (double)p->samples;
    str_printf(p->out, "<td class=\"n heat\" style=\"--h:%.0f%%\" title=\"%s of %s samples\">%s</td>", 100 * share,
               figure_count(p->a, l->samples), figure_count(p->a, p->samples), figure_percent(p->a, share));
}

/* ---- lines ---- */

/* Not longer than fits. */
static const char *line_text(struct html_page *p, const struct source *s, uint32_t line)
{
    struct strbuf cut = {0};
    str_puts(&cut, "");
    cell_put_short(&cut, source_line(p->a, s, line), HTML_COLUMNS);
    const char *out = arena_strdup(p->a, cut.data);
    str_free(&cut);
    return out;
}

enum belongs { OUTSIDE, INNER, OWN };

static bool holds(const struct prof_object *o, uint32_t line) { return line >= o->line_first && line <= o->line_last; }

/* An object of the same file that lies inside of `o` and is shorter: one of its loops, inlined or not. */
static bool is_inner(const struct prof_object *o, const struct prof_object *in)
{
    return in != o && in->parent == o->id && in->file && strcmp(in->file, o->file) == 0 && in->line_first &&
           in->line_last - in->line_first < o->line_last - o->line_first;
}

struct view { /* of one object */
    const struct prof_object *object;
    const struct source *source;
    VEC(const struct prof_object *) inner;
};

static enum belongs belongs(const struct view *v, uint32_t line)
{
    if (!holds(v->object, line))
        return OUTSIDE;
    for (size_t i = 0; i < v->inner.len; i++)
        if (holds(v->inner.data[i], line))
            return INNER;
    return OWN;
}

static void put_line(struct html_page *p, const struct view *v, uint32_t line)
{
    static const char *const row[] = {[OUTSIDE] = "<tr>", [INNER] = "<tr class=\"in\">", [OWN] = "<tr class=\"own\">"};
    const struct prof_line *l = line_figures(p, v->object->file, line);
    enum belongs b = belongs(v, line);
    html_puts(p, row[b]);
    str_printf(p->out, "<th scope=\"row\">%u</th>", line);
    put_samples(p, l);
    put_count(p, "n wide", l ? l->instructions : 0);
    put_count(p, "n wide", l ? l->memory_ops : 0);
    html_puts(p, b == OUTSIDE ? "<td><code>" : "<td><mark><code>");
    html_text(p, line_text(p, v->source, line));
    html_puts(p, b == OUTSIDE ? "</code></td></tr>\n" : "</code></mark></td></tr>\n");
}

/* ---- which lines ---- */

struct range {
    uint32_t first, last;
};

static const struct prof_object *parent_of(const struct html_page *p, const struct prof_object *o)
{
    uint64_t row;
    return o->parent != ID_NONE && map_get(&p->row_of, o->parent, &row) ? p->rows.objects[row] : NULL;
}

static struct range range_of(const struct html_page *p, const struct prof_object *o)
{
    struct range x = {o->line_first, o->line_last > o->line_first ? o->line_last : o->line_first};
    const struct prof_object *up = o;
    for (unsigned depth = 0; depth < HTML_DEPTH && (up = parent_of(p, up)); depth++) {
        if (!up->file || strcmp(up->file, o->file) != 0 || !up->line_first || up->line_first > x.first || up->line_last < x.last ||
            up->line_last - up->line_first >= HTML_SOURCE_LINES)
            break;
        x = (struct range){up->line_first, up->line_last};
    }
    bool is_short = x.last - x.first < HTML_SOURCE_LINES;
    x.last = is_short ? x.last : x.first + HTML_SOURCE_LINES - 1;
    x.first = x.first > HTML_SOURCE_AROUND ? x.first - HTML_SOURCE_AROUND : 1;
    x.last = x.last < UINT32_MAX - HTML_SOURCE_AROUND ? x.last + HTML_SOURCE_AROUND : x.last;
    return x;
}

static void put_missing(struct html_page *p, const struct prof_object *o, const struct source *s)
{
    html_puts(p, "<div class=\"nosource\">");
    if (s && s->path)
        str_printf(p->out, "<p>The source ends at line %u, so it is not the one that was compiled.</p>", s->line_count);
    else if (s) {
        html_puts(p, "<p>Its source was not found; looked for: ");
        html_text(p, s->looked);
        html_puts(p, ". <code>--source-path FOLDER</code> tells where it lies.</p>");
    } else
        html_puts(p, "<p>No source line is known of this code: its file has no line table (compile it with <code>-g</code>, or install its debug symbols).</p>");
    if (o->module) {
        html_puts(p, "<p>Its instructions: <code>objdump -d --start-address=");
        str_printf(p->out, "0x%llx ", (unsigned long long)o->address);
        html_text(p, o->module);
        html_puts(p, "</code></p>");
    }
    html_puts(p, "</div>\n");
}

static void put_lines(struct html_page *p, size_t row, const struct source *s)
{
    const struct prof_object *o = p->rows.objects[row];
    struct range x = range_of(p, o);
    struct view v = {.object = o, .source = s};
    for (size_t k = 0; k < p->rows.count; k++)
        if (is_inner(o, p->rows.objects[k]))
            VEC_PUSH(&v.inner, p->rows.objects[k]);
    if (s->is_newer)
        html_puts(p, "<p class=\"note\">This file was changed after the run: lines may not be those that ran.</p>");
    str_printf(p->out, "<div class=\"src\" tabindex=\"0\" role=\"region\" aria-labelledby=\"c%zu\"><table><caption id=\"c%zu\">", row, row);
    html_text(p, s->path);
    html_puts(p, "</caption><thead><tr><th scope=\"col\">line</th><th scope=\"col\" class=\"n\">samples</th>"
                 "<th scope=\"col\" class=\"n wide\">instructions</th><th scope=\"col\" class=\"n wide\">memory ops</th>"
                 "<th scope=\"col\">source</th></tr></thead><tbody>\n");
    for (uint32_t line = x.first; line <= x.last && line <= s->line_count; line++)
        put_line(p, &v, line);
    html_puts(p, "</tbody></table></div>\n");
    VEC_FREE(&v.inner);
}

void html_source(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->rows.objects[row];
    size_t before = p->out->len;
    const struct source *s = o->file && o->line_first ? source_of(p, o->file) : NULL;
    if (!s || !s->path || s->line_count < o->line_first)
        put_missing(p, o, s);
    else if (p->source_bytes > HTML_SOURCE_BYTES)
        html_puts(p, "<p class=\"nosource\">The page holds the source of larger bottlenecks only.</p>\n");
    else
        put_lines(p, row, s);
    p->source_bytes += p->out->len - before;
}
