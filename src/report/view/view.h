/* SPDX-License-Identifier: Apache-2.0
 *
 * report/view/view.h: what the pages of the full-screen view share. A page is a list of lines of which the screen shows
 * some; whatever is in a profile, a line stays one line and the terminal is not driven by it.
 */
#ifndef MTOOL_REPORT_VIEW_VIEW_H
#define MTOOL_REPORT_VIEW_VIEW_H

#include "report/tour.h"

enum view_page { VIEW_HISTOGRAM, VIEW_SOURCE, VIEW_INFO, VIEW_SHARES, VIEW_DATA, VIEW_HELP, VIEW_PAGE_COUNT };

enum view_style { /* each can be told without colours too: by attributes, or by what is written */
                  STYLE_PLAIN,
                  STYLE_TITLE,
                  STYLE_DIM,
                  STYLE_HEAD,
                  STYLE_CHOSEN,
                  STYLE_OWN, /* lines of the bottleneck */
                  STYLE_INNER,
                  STYLE_IDEAL,
                  STYLE_BRANCH,
                  STYLE_MEMORY,
                  STYLE_COUNT
};

struct view_line {
    const char *head; /* stays where it is when the text is moved sideways; safe */
    const char *text; /* safe */
    enum view_style style;
};

struct view {
    struct tour tour;
    struct screen *screen;
    enum view_page page;
    bool wants_insns; /* in place of source */
    bool all;         /* also rows that are not worth one */
    unsigned sort;
    size_t at;                /* the row that is chosen */
    size_t top;               /* the first row on the screen */
    size_t line;              /* the first line on the screen, of the other pages */
    size_t shift;             /* columns that the text is moved by */
    enum view_page back;      /* where the pages behind the source lead back to */
    struct arena *page_texts; /* of the lines below */
    struct arena *frame;      /* of one painting */
    VEC(struct view_line) lines;
    size_t first_own; /* of lines, where the page begins to be read */
    char search[64];
    const char *said; /* for the line at the bottom, until the next key; NULL */
};

/* ---- screen.c: the terminal ---- */

struct screen;                    /* opaque */
struct screen *screen_open(void); /* NULL: no terminal that could be painted */
void screen_close(struct screen *s);
unsigned screen_rows(const struct screen *s);
unsigned screen_columns(const struct screen *s);
void screen_clear(struct screen *s);
/* `safe`, cut and filled to `width` columns; what is outside of the screen is left out. */
void screen_put(struct screen *s, unsigned row, unsigned column, unsigned width, enum view_style style,
                const char *safe);
enum screen_bar { BAR_IDEAL, BAR_BRANCH, BAR_MEMORY };
void screen_bar(struct screen *s, unsigned row, unsigned column, unsigned width, enum screen_bar what);
void screen_show(struct screen *s);
enum {                  /* beside letters */
       SCREEN_END = -1, /* no more keys will come */
       SCREEN_UP = 0x200000,
       SCREEN_DOWN,
       SCREEN_LEFT,
       SCREEN_RIGHT,
       SCREEN_PAGE_UP,
       SCREEN_PAGE_DOWN,
       SCREEN_HOME,
       SCREEN_LAST,
       SCREEN_ENTER,
       SCREEN_ESCAPE,
       SCREEN_ERASE,
       SCREEN_RESIZED
};
int screen_key(struct screen *s); /* waits */

/* ---- the pages ---- */

size_t view_rows(const struct view *v);                      /* of the histogram */
const struct prof_object *view_object(const struct view *v); /* the chosen one; NULL: there is none */
void view_put(struct view *v, unsigned row, enum view_style style,
              const char *safe); /* a line of the screen, from its second column */
void view_add(struct view *v, enum view_style style, const char *head, const char *text);
void view_add_text(struct view *v, enum view_style style, const char *head,
                   const char *text); /* of several lines; those after the first have blanks for a head */
/* Likewise, broken at the width of the screen. */
void view_add_wrapped(struct view *v, enum view_style style, const char *head, const char *text);
unsigned histogram_height(const struct view *v); /* histogram.c: rows that fit */
void histogram_paint(struct view *v);
void source_build(struct view *v); /* source.c */
unsigned source_height_of_top(const struct view *v);
void source_paint_top(struct view *v);
void info_build(struct view *v);   /* info.c */
void shares_build(struct view *v); /* shares.c */
const char *shares_title(const struct view *v);
void data_build(struct view *v);             /* data.c */
void help_build(struct view *v);             /* help.c */
const char *help_line(const struct view *v); /* for the bottom, as much as fits */

#endif
