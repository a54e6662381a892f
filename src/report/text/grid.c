/* SPDX-License-Identifier: Apache-2.0
 * A table in a given width. Figures take what they need; the columns of text share the rest, and what does not fit is
 * shortened by a function that knows what in it matters. A row is always one
 * line; a note below it takes as many as it needs. */
#include <assert.h>

#include "report/impl.h"

#define BOLD "\033[1m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

enum { COLUMNS_MAX = 12, TEXT_MIN = 12, INDENT = 6 };

void grid_init(struct grid *g, const struct grid_column *columns, size_t count, const struct report_options *o,
               struct arena *a)
{
    assert(count <= COLUMNS_MAX);
    *g = (struct grid){.columns = columns, .column_count = count, .arena = a, .is_terminal = o->is_terminal};
    g->width = report_width(o);
}

void grid_row(struct grid *g, const char *const *cells, bool is_dim)
{
    const char **copy = ARENA_ARRAY(g->arena, const char *, g->column_count);
    memcpy(copy, cells, g->column_count * sizeof *copy);
    struct grid_row row = {copy, is_dim, NULL};
    VEC_PUSH(&g->rows, row);
}

void grid_note(struct grid *g, const char *text)
{
    assert(g->rows.len); /* notes follow their row */
    g->rows.data[g->rows.len - 1].note = text;
}

static size_t width_wanted(const struct grid *g, size_t column)
{
    const struct grid_column *c = &g->columns[column];
    size_t max = max_u64(strlen(c->head[0]), strlen(c->head[1]));
    for (size_t i = 0; i < g->rows.len; i++)
        max = max_u64(max, cell_width(g->rows.data[i].cells[column]));
    return max;
}

/* Every column of text gets what it wants or an equal share, whichever is less; what is left over goes to the first
 * ones. */
static void share(const struct grid *g, size_t rest, size_t *widths)
{
    size_t wanted[COLUMNS_MAX], texts = 0;
    for (size_t c = 0; c < g->column_count; c++)
        texts += g->columns[c].shorten != NULL;
    size_t part = texts ? max_u64(rest / texts, TEXT_MIN) : 0;
    for (size_t c = 0; c < g->column_count; c++) {
        if (!g->columns[c].shorten)
            continue;
        wanted[c] = widths[c];
        widths[c] = min_u64(wanted[c], part);
        rest -= min_u64(rest, widths[c]);
    }
    for (size_t c = 0; c < g->column_count; c++) {
        if (!g->columns[c].shorten)
            continue;
        size_t more = min_u64(rest, wanted[c] - widths[c]);
        widths[c] += more;
        rest -= more;
    }
}

static void put_cell(const struct grid *g, size_t column, const char *text, size_t width, struct strbuf *out)
{
    const struct grid_column *c = &g->columns[column];
    struct strbuf cell = {0};
    str_puts(&cell, "");
    if (c->shorten && cell_width(text) > width)
        c->shorten(&cell, text, width, g->arena);
    else
        str_puts(&cell, text);
    if (!c->is_left)
        cell_put_right(out, cell.data, width);
    else if (column + 1 == g->column_count)
        str_puts(out, cell.data);
    else
        cell_put_left(out, cell.data, width);
    str_free(&cell);
}

static void put_row(const struct grid *g, const char *const *cells, const size_t *widths, const char *colour,
                    struct strbuf *out)
{
    str_puts(out, g->is_terminal ? colour : "");
    for (size_t c = 0; c < g->column_count; c++) {
        str_puts(out, c == 0 ? "" : g->width < REPORT_WIDE ? " " : "  ");
        put_cell(g, c, cells[c], widths[c], out);
    }
    while (out->len && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
    str_puts(out, g->is_terminal && colour[0] ? PLAIN "\n" : "\n");
}

static void put_note(const struct grid *g, const char *note, struct strbuf *out)
{
    struct strbuf lines = {0};
    cell_put_wrapped(&lines, note, g->width > 2 * INDENT ? g->width - INDENT : INDENT, 0);
    for (const char *s = lines.data; s && *s; s += strcspn(s, "\n") + 1)
        str_printf(out, "%*s%.*s\n", INDENT, "", (int)strcspn(s, "\n"), s);
    str_free(&lines);
}

void grid_put(struct grid *g, struct strbuf *out)
{
    size_t widths[COLUMNS_MAX], used = (g->width < REPORT_WIDE ? 1 : 2) * (g->column_count - 1);
    const char *head[COLUMNS_MAX];
    for (size_t c = 0; c < g->column_count; c++) {
        widths[c] = width_wanted(g, c);
        used += g->columns[c].shorten ? 0 : widths[c];
    }
    share(g, g->width > used ? g->width - used : 0, widths);
    for (size_t h = 0; h < 2; h++) {
        size_t any = 0;
        for (size_t c = 0; c < g->column_count; c++)
            any += strlen(head[c] = g->columns[c].head[h]);
        if (any)
            put_row(g, head, widths, BOLD, out);
    }
    for (size_t i = 0; i < g->rows.len; i++) {
        put_row(g, g->rows.data[i].cells, widths, g->rows.data[i].is_dim ? DIM : "", out);
        if (g->rows.data[i].note)
            put_note(g, g->rows.data[i].note, out);
    }
    VEC_FREE(&g->rows);
}

/* ---- ways to shorten ---- */

void shorten_middle(struct strbuf *out, const char *text, size_t width, struct arena *a)
{
    (void)a;
    cell_put_short(out, text, width);
}

/* "file.c:12-15" keeps its first line, "module+0x12" its address; folders go first, then the middle of the file's name.
 */
void shorten_place(struct strbuf *out, const char *text, size_t width, struct arena *a)
{
    const char *base = file_base_name(text), *end = strrchr(base, ':');
    if (!end)
        end = strrchr(base, '+');
    if (!end)
        end = base + strlen(base);
    size_t number = end[0] == ':' && cell_width(base) > width ? strcspn(end, "-") : strlen(end);
    if (number + 4 > width) {
        cell_put_short(out, base, width);
        return;
    }
    cell_put_short(out, arena_strndup(a, base, (size_t)(end - base)), width - number);
    str_put(out, end, number);
}
