/* SPDX-License-Identifier: Apache-2.0
 * A profile as a full-screen journey, the paper's views in a terminal: histogram, source of one bottleneck after the
 * other, INFO. Keys to pages; what the pages hold is in their own files. */
#include "report/view/view.h"
#include "report/data.h"

#include <math.h>

enum { CONTROL_L = 12, MIN_ROWS = 4, MIN_COLUMNS = 20, TEXT_MIN = 20 };

size_t view_rows(const struct view *v) { return v->all ? v->tour.rows.count : v->tour.shown; }

const struct prof_object *view_object(const struct view *v)
{
    return v->at < view_rows(v) ? v->tour.rows.objects[v->at] : NULL;
}

void view_add(struct view *v, enum view_style style, const char *head, const char *text)
{
    struct view_line line = {head, text, style};
    VEC_PUSH(&v->lines, line);
}

void view_add_text(struct view *v, enum view_style style, const char *head, const char *text)
{
    int taken = (int)strlen(head);
    while (*text) {
        size_t len = strcspn(text, "\n");
        view_add(v, style, head, arena_strndup(v->page_texts, text, len));
        text += len + (text[len] == '\n');
        head = arena_printf(v->page_texts, "%*s", taken, "");
    }
}

void view_add_wrapped(struct view *v, enum view_style style, const char *head, const char *text)
{
    struct strbuf s = {0};
    size_t taken = strlen(head), width = screen_columns(v->screen);
    cell_put_wrapped(&s, cell_safe(v->page_texts, text), width > taken + TEXT_MIN ? width - taken : TEXT_MIN, 0);
    view_add_text(v, style, head, s.data);
    str_free(&s);
}

/* What does not fit goes from its end. */
static void put_cut(struct view *v, unsigned row, unsigned column, enum view_style style, const char *safe)
{
    struct strbuf text = {0};
    unsigned width = screen_columns(v->screen);
    str_puts(&text, "");
    cell_put_head(&text, safe, width > column ? width - column : 0);
    screen_put(v->screen, row, column, width, style, text.data);
    str_free(&text);
}

void view_put(struct view *v, unsigned row, enum view_style style, const char *safe)
{
    screen_put(v->screen, row, 0, 1, style, "");
    put_cut(v, row, 1, style, safe);
}

/* ---- where the page is ---- */

static unsigned top_height(const struct view *v) { return v->page == VIEW_SOURCE ? source_height_of_top(v) : 1; }

static size_t page_height(const struct view *v)
{
    unsigned rows = screen_rows(v->screen), taken = top_height(v) + 1;
    return rows > taken ? rows - taken : 1;
}

static void keep_in_sight(struct view *v)
{
    size_t height = v->page == VIEW_HISTOGRAM ? histogram_height(v) : page_height(v), rows = view_rows(v);
    v->at = rows ? min_u64(v->at, rows - 1) : 0;
    if (v->at < v->top)
        v->top = v->at;
    if (v->at >= v->top + height && v->page == VIEW_HISTOGRAM)
        v->top = v->at - height + 1;
    if (v->page == VIEW_HISTOGRAM)
        v->top = min_u64(v->top, rows > height ? rows - height : 0);
    v->line = min_u64(v->line, v->lines.len > height ? v->lines.len - height : 0);
}

static void build(struct view *v)
{
    static void (*const builders[VIEW_PAGE_COUNT])(struct view *) = {[VIEW_SOURCE] = source_build,
                                                                     [VIEW_INFO] = info_build,
                                                                     [VIEW_SHARES] = shares_build,
                                                                     [VIEW_DATA] = data_build,
                                                                     [VIEW_HELP] = help_build};
    arena_free(v->page_texts);
    v->page_texts = arena_new();
    v->lines.len = 0;
    v->first_own = SIZE_MAX;
    if (builders[v->page])
        builders[v->page](v);
    if (v->first_own == SIZE_MAX)
        v->first_own = 0;
}

/* The lines that matter are in the upper part of the screen. */
static void open_page(struct view *v, enum view_page page)
{
    if (page == VIEW_SOURCE && !view_object(v))
        return;
    if (page > VIEW_SOURCE && v->page <= VIEW_SOURCE)
        v->back = v->page;
    v->page = page;
    v->shift = 0;
    build(v);
    size_t above = page_height(v) / 3;
    v->line = v->first_own > above ? v->first_own - above : 0;
}

static void resize(struct view *v)
{
    if (v->page == VIEW_HISTOGRAM)
        return;
    size_t line = v->line;
    build(v);
    v->line = line;
}

/* ---- painting ---- */

static const char *shifted(struct view *v, const char *text)
{
    if (!v->shift)
        return text;
    struct strbuf s = {0};
    size_t width = cell_width(text);
    str_puts(&s, "");
    if (width > v->shift)
        cell_put_tail(&s, text, width - v->shift);
    const char *out = arena_strdup(v->frame, s.data);
    str_free(&s);
    return out;
}

static void paint_line(struct view *v, unsigned row, const struct view_line *l)
{
    unsigned head = (unsigned)cell_width(l->head);
    screen_put(v->screen, row, 0, head, l->style == STYLE_HEAD ? STYLE_HEAD : STYLE_PLAIN, l->head);
    put_cut(v, row, head, l->style, shifted(v, l->text));
}

static void paint_title(struct view *v)
{
    const struct prof_object *o = view_object(v);
    const char *title = v->page == VIEW_HELP     ? "Keys"
                        : v->page == VIEW_DATA   ? "Data objects"
                        : v->page == VIEW_SHARES ? shares_title(v)
                                                 : "INFO";
    if (v->page == VIEW_INFO && o)
        title = arena_printf(v->frame, "INFO %zu of %zu  %s  %s %s", v->at + 1, view_rows(v), tour_name(&v->tour, o),
                             prof_kind_name[o->kind], tour_place(&v->tour, o));
    view_put(v, 0, STYLE_TITLE, title);
}

static void paint_lines(struct view *v)
{
    v->page == VIEW_SOURCE ? source_paint_top(v) : paint_title(v);
    for (size_t i = 0; i < page_height(v) && v->line + i < v->lines.len; i++)
        paint_line(v, top_height(v) + (unsigned)i, &v->lines.data[v->line + i]);
}

static void paint(struct view *v, const char *bottom)
{
    struct screen *s = v->screen;
    arena_free(v->frame);
    v->frame = arena_new();
    v->tour.texts = v->frame;
    screen_clear(s);
    if (screen_rows(s) < MIN_ROWS || screen_columns(s) < MIN_COLUMNS) {
        screen_put(s, 0, 0, screen_columns(s), STYLE_PLAIN, "too small");
    } else {
        v->page == VIEW_HISTOGRAM ? histogram_paint(v) : paint_lines(v);
        screen_put(s, screen_rows(s) - 1, 0, screen_columns(s), STYLE_TITLE, bottom);
    }
    screen_show(s);
}

/* ---- search ---- */

static const char *row_text(struct view *v, size_t i)
{
    const struct prof_object *o = v->tour.rows.objects[i];
    const char *name = o->function ? name_plain(v->frame, o->function) : "?";
    return arena_printf(v->frame, "%s %s %s", name, tour_place(&v->tour, o), o->module ? o->module : "");
}

/* From behind where the page is, once round. */
static void find(struct view *v)
{
    bool is_list = v->page == VIEW_HISTOGRAM;
    size_t count = is_list ? view_rows(v) : v->lines.len, from = is_list ? v->at : v->line;
    for (size_t i = 1; i <= count; i++) {
        size_t at = (from + i) % count;
        const char *text = is_list ? row_text(v, at) : v->lines.data[at].text;
        if (!strcasestr(text, v->search))
            continue;
        *(is_list ? &v->at : &v->line) = at;
        return;
    }
    v->said = "not found";
}

static void put_letter(char *text, size_t room, int key)
{
    size_t len = strlen(text);
    if (key >= 0x20 && key < 0x7f && len + 1 < room) {
        text[len] = (char)key;
        text[len + 1] = 0;
    }
}

static void ask_search(struct view *v)
{
    char prompt[sizeof v->search + 1] = "/", *const typed = prompt + 1;
    for (;;) {
        paint(v, prompt);
        int key = screen_key(v->screen);
        if (key == SCREEN_ESCAPE || key == SCREEN_END || (key == SCREEN_ERASE && !typed[0]))
            return;
        if (key == SCREEN_ENTER)
            break;
        if (key == SCREEN_RESIZED)
            resize(v);
        if (key == SCREEN_ERASE)
            typed[strlen(typed) - 1] = 0;
        put_letter(typed, sizeof v->search, key);
    }
    if (typed[0])
        strcpy(v->search, typed);
    if (v->search[0])
        find(v);
}

/* ---- keys ---- */

static void move_by(struct view *v, int64_t by)
{
    size_t *at = v->page == VIEW_HISTOGRAM ? &v->at : &v->line;
    *at = by < 0 && (uint64_t)-by > *at ? 0 : (size_t)((int64_t)*at + by);
}

static void step(struct view *v, int by)
{
    if (v->page > VIEW_INFO)
        return;
    if (by < 0 ? v->at == 0 : v->at + 1 >= view_rows(v)) {
        v->said = by < 0 ? "this is the first" : "this is the last";
        return;
    }
    v->at += (size_t)by;
    if (v->page != VIEW_HISTOGRAM)
        open_page(v, v->page);
}

static void sort_anew(struct view *v, unsigned sort)
{
    const struct prof_object *o = view_object(v);
    uint64_t row;
    v->sort = sort;
    tour_sort(&v->tour, sort, 0);
    if (o && map_get(&v->tour.row_of, o->id, &row))
        v->at = row;
}

static bool moves(struct view *v, int key)
{
    size_t height = v->page == VIEW_HISTOGRAM ? histogram_height(v) : page_height(v);
    const int64_t screen = (int64_t)height, far = INT32_MAX;
    const struct {
        int keys[3];
        int64_t by;
    } table[] = {{{SCREEN_UP, 'k'}, -1},           {{SCREEN_DOWN, 'j'}, 1},
                 {{SCREEN_PAGE_UP, 'b'}, -screen}, {{SCREEN_PAGE_DOWN, ' '}, screen},
                 {{SCREEN_HOME, 'g'}, -far},       {{SCREEN_LAST, 'G'}, far}};
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        for (size_t k = 0; k < ARRAY_LEN(table[i].keys); k++)
            if (table[i].keys[k] == key)
                return move_by(v, table[i].by), true;
    return false;
}

/* True: leave. */
static bool go_back(struct view *v, bool may_leave)
{
    if (v->page == VIEW_HISTOGRAM)
        return may_leave;
    open_page(v, v->page == VIEW_SOURCE ? VIEW_HISTOGRAM : v->back);
    return false;
}

/* The page, and back from it. */
static void turn(struct view *v, enum view_page page)
{
    if (v->page == page)
        go_back(v, false);
    else
        open_page(v, page);
}

static void change(struct view *v, int key)
{
    enum { SHIFT = 8, SORTS = REPORT_SORT_INSTRUCTIONS + 1 };
    switch (key) {
    case SCREEN_LEFT:
    case 'h':
        v->shift -= min_u64(v->shift, SHIFT);
        break;
    case SCREEN_RIGHT:
    case 'l':
        v->shift += v->shift < 4096 ? SHIFT : 0;
        break;
    case 's':
        sort_anew(v, (v->sort + 1) % SORTS);
        break;
    case 'a':
        v->all = !v->all;
        break;
    case 'd':
        v->wants_insns = !v->wants_insns;
        open_page(v, VIEW_SOURCE);
        break;
    default:
        break;
    }
}

/* True: leave. */
static bool obey(struct view *v, int key)
{
    v->said = NULL;
    if (moves(v, key))
        return false;
    switch (key) {
    case SCREEN_END:
        return true;
    case 'q':
    case SCREEN_ESCAPE:
    case SCREEN_ERASE:
        return go_back(v, key == 'q');
    case SCREEN_ENTER:
        open_page(v, VIEW_SOURCE);
        break;
    case 'i':
        turn(v, VIEW_INFO);
        break;
    case 't':
        turn(v, VIEW_SHARES);
        break;
    case 'o':
        turn(v, VIEW_DATA);
        break;
    case '?':
        turn(v, VIEW_HELP);
        break;
    case 'n':
    case 'p':
        step(v, key == 'n' ? 1 : -1);
        break;
    case '/':
        ask_search(v);
        break;
    case SCREEN_RESIZED:
    case CONTROL_L:
        resize(v);
        break;
    default:
        change(v, key);
    }
    return false;
}

static void view_loop(struct view *v)
{
    do {
        keep_in_sight(v);
        paint(v, v->said ? v->said : help_line(v));
    } while (!obey(v, screen_key(v->screen)));
}

bool report_view(const struct prof_result *r, const struct report_view_options *o)
{
    struct view v = {.screen = screen_open(), .page_texts = arena_new(), .frame = arena_new()};
    struct arena *a = arena_new();
    if (v.screen) {
        bool timed = isfinite(r->actual_user_s.value);
        tour_init(&v.tour, r, o->source_path, a);
        v.sort = o->sort == REPORT_SORT_MEMORY && !timed ? REPORT_SORT_IDEAL : o->sort;
        tour_sort(&v.tour, v.sort, 0);
        tour_turn_to_objects(&v.tour);
        if (data_is_all(r))
            open_page(&v, VIEW_DATA);
        view_loop(&v);
        tour_fini(&v.tour);
        screen_close(v.screen);
    }
    VEC_FREE(&v.lines);
    arena_free(v.page_texts);
    arena_free(v.frame);
    arena_free(a);
    return v.screen != NULL;
}
