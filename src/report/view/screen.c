/* SPDX-License-Identifier: Apache-2.0
 * A terminal through ncurses: styles, bars and keys. Knows nothing of profiles. Where the character set has no blocks,
 * bars are made of ASCII; where there are no colours, styles are bold, underlined or reversed. */
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

#include "report/view/view.h"

struct screen {
    SCREEN *curses;
    bool has_colour, is_utf8;
};

static const struct {
    attr_t plain; /* without colours */
    attr_t attributes;
    short ink, paper; /* -1: the terminal's own */
} styles[STYLE_COUNT] = {
    [STYLE_PLAIN] = {A_NORMAL, A_NORMAL, -1, -1},
    [STYLE_TITLE] = {A_REVERSE, A_REVERSE, -1, -1},
    [STYLE_DIM] = {A_DIM, A_DIM, -1, -1},
    [STYLE_HEAD] = {A_BOLD, A_BOLD, -1, -1},
    [STYLE_CHOSEN] = {A_REVERSE, A_REVERSE, -1, -1},
    [STYLE_OWN] = {A_REVERSE, A_NORMAL, COLOR_BLACK, COLOR_YELLOW},
    [STYLE_INNER] = {A_BOLD, A_NORMAL, COLOR_YELLOW, -1},
    [STYLE_IDEAL] = {A_NORMAL, A_NORMAL, COLOR_BLUE, -1},
    [STYLE_BRANCH] = {A_NORMAL, A_NORMAL, COLOR_YELLOW, -1},
    [STYLE_MEMORY] = {A_NORMAL, A_NORMAL, COLOR_RED, -1},
};

static bool wants_colour(void)
{
    const char *no = getenv("NO_COLOR");
    return has_colors() && !(no && *no);
}

static void open_colours(struct screen *s)
{
    s->has_colour = wants_colour() && start_color() == OK;
    if (!s->has_colour)
        return;
    bool has_default = use_default_colors() == OK;
    for (int i = 1; i < STYLE_COUNT; i++)
        init_pair((short)i, styles[i].ink < 0 && !has_default ? COLOR_WHITE : styles[i].ink,
                  styles[i].paper < 0 && !has_default ? COLOR_BLACK : styles[i].paper);
}

struct screen *screen_open(void)
{
    enum { ESCAPE_MS = 25 };
    const char *term = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0)
        return NULL;
    setlocale(LC_CTYPE, "");
    SCREEN *curses = newterm(NULL, stdout, stdin);
    if (!curses)
        return NULL;
    if (!tigetstr("cup") || tigetstr("cup") == (char *)-1) { /* a printer: nothing can be put in its place */
        endwin();
        delscreen(curses);
        return NULL;
    }
    struct screen *s = xmalloc(sizeof *s);
    s->curses = curses;
    s->is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    open_colours(s);
    cbreak();
    noecho();
    nonl();
    set_escdelay(ESCAPE_MS);
    keypad(stdscr, TRUE);
    curs_set(0);
    return s;
}

void screen_close(struct screen *s)
{
    endwin();
    delscreen(s->curses);
    free(s);
}

unsigned screen_rows(const struct screen *s) { return (void)s, (unsigned)getmaxy(stdscr); }
unsigned screen_columns(const struct screen *s) { return (void)s, (unsigned)getmaxx(stdscr); }
void screen_clear(struct screen *s) { (void)s, erase(); }
void screen_show(struct screen *s) { (void)s, refresh(); }

static void use(const struct screen *s, enum view_style style)
{
    attrset(s->has_colour ? styles[style].attributes | (attr_t)COLOR_PAIR(style) : styles[style].plain);
}

/* Each letter that the terminal's character set lacks is a "?". */
static void put_ascii(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text & 0xc0) != 0x80)
            addch((chtype)((unsigned char)*text < 0x80 ? *text : '?'));
}

void screen_put(struct screen *s, unsigned row, unsigned column, unsigned width, enum view_style style,
                const char *safe)
{
    if (row >= screen_rows(s) || column >= screen_columns(s))
        return;
    struct strbuf text = {0};
    str_puts(&text, "");
    cell_put_left(&text, safe, min_u64(width, screen_columns(s) - column));
    use(s, style);
    move((int)row, (int)column);
    s->is_utf8 ? (void)addstr(text.data) : put_ascii(text.data);
    attrset(A_NORMAL);
    str_free(&text);
}

void screen_bar(struct screen *s, unsigned row, unsigned column, unsigned width, enum screen_bar what)
{
    static const struct {
        enum view_style style;
        const char *block;
        char ascii;
    } bars[] = {[BAR_IDEAL] = {STYLE_IDEAL, "\xe2\x96\x91", '.'},
                [BAR_BRANCH] = {STYLE_BRANCH, "\xe2\x96\x92", '~'},
                [BAR_MEMORY] = {STYLE_MEMORY, "\xe2\x96\x88", '#'}};
    if (row >= screen_rows(s))
        return;
    use(s, bars[what].style);
    move((int)row, (int)column);
    for (unsigned i = 0; i < width && column + i < screen_columns(s); i++)
        s->is_utf8 ? addstr(bars[what].block) : addch((chtype)bars[what].ascii);
    attrset(A_NORMAL);
}

/* ---- keys ---- */

static int key_of(wint_t c)
{
    static const struct {
        wint_t curses;
        int key;
    } keys[] = {{KEY_UP, SCREEN_UP},           {KEY_DOWN, SCREEN_DOWN},     {KEY_LEFT, SCREEN_LEFT},
                {KEY_RIGHT, SCREEN_RIGHT},     {KEY_PPAGE, SCREEN_PAGE_UP}, {KEY_NPAGE, SCREEN_PAGE_DOWN},
                {KEY_HOME, SCREEN_HOME},       {KEY_END, SCREEN_LAST},      {KEY_ENTER, SCREEN_ENTER},
                {KEY_BACKSPACE, SCREEN_ERASE}, {KEY_RESIZE, SCREEN_RESIZED}};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].curses == c)
            return keys[i].key;
    return 0;
}

static int letter_of(wint_t c)
{
    switch (c) {
    case '\r':
    case '\n':
        return SCREEN_ENTER;
    case 27:
        return SCREEN_ESCAPE;
    case 8:
    case 127:
        return SCREEN_ERASE;
    default:
        return (int)c;
    }
}

int screen_key(struct screen *s)
{
    enum { FAILURES_MAX = 20 }; /* a signal is one; of a terminal that is gone there is no end */
    (void)s;
    for (int failures = 0; failures < FAILURES_MAX; failures++) {
        wint_t c;
        int rc = get_wch(&c);
        int key = rc == KEY_CODE_YES ? key_of(c) : rc == OK ? letter_of(c) : 0;
        if (key)
            return key;
    }
    return SCREEN_END;
}
