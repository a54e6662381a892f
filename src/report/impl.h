/* SPDX-License-Identifier: Apache-2.0
 *
 * report/impl.h: what the painters share: names fit to be read, and text that fits a terminal whatever is in it.
 */
#ifndef MTOOL_REPORT_IMPL_H
#define MTOOL_REPORT_IMPL_H

#include "report/report.h"
#include "result/fields.h"

/* ---- name.c ---- */

/* Without arguments and with template arguments as <..>; what is left may still be long. In `a`. */
const char *name_brief(struct arena *a, const char *plain);

/* ---- rust.c ---- */

/* Appends what stands for a mangled name "_R..." of Rust; false, and nothing, if it is none. */
bool rust_plain(struct strbuf *out, const char *mangled, size_t len);

/* ---- cell.c ---- */

/* Valid UTF-8 without anything that drives a terminal: control characters, direction marks and stray bytes as \xNN.
 * `text` itself if there is nothing to change, else in `a`. */
const char *cell_safe(struct arena *a, const char *text);
size_t cell_width(const char *safe); /* columns on a terminal */
/* `safe` in at most `width` columns; what does not fit goes from its middle, for "...". */
void cell_put_short(struct strbuf *out, const char *safe, size_t width);
void cell_put_head(struct strbuf *out, const char *safe, size_t width);  /* its end goes instead */
void cell_put_tail(struct strbuf *out, const char *safe, size_t width);  /* its beginning, without a sign of it */
void cell_put_left(struct strbuf *out, const char *safe, size_t width);  /* shortened, then filled with blanks */
void cell_put_right(struct strbuf *out, const char *safe, size_t width); /* never shortened */

/* Text broken at blanks into lines of at most `width` columns; all but the first begin with `indent` blanks. */
void cell_put_wrapped(struct strbuf *out, const char *safe, size_t width, size_t indent);

/* ---- figure.c: numbers as short text in `a`; "?" if unknown ---- */

const char *figure_real(struct arena *a, double x, int decimals);
int figure_decimals(double largest); /* so that `largest` shows three or four digits */
const char *figure_interval(struct arena *a, const struct prof_interval *i, int decimals); /* "0.350..0.432" */
const char *figure_percent(struct arena *a, double fraction);                              /* "42%", "0.3%", "1200x" */
const char *figure_count(struct arena *a, uint64_t n);                                     /* "1,234,567" */

/* ---- grid.c: a table ---- */

typedef void shorten_fn(struct strbuf *out, const char *text, size_t width, struct arena *a);
struct grid_column {
    const char *head[2];
    bool is_left;
    shorten_fn *shorten; /* columns of text share the width that figures (NULL) leave */
};
struct grid_row {
    const char *const *cells; /* safe text, one a column */
    bool is_dim;
    const char *note; /* safe text below the row, broken into lines; NULL: none */
};
struct grid {
    const struct grid_column *columns;
    size_t column_count;
    VEC(struct grid_row) rows;
    unsigned width;
    bool is_terminal;
    struct arena *arena;
};
void grid_init(struct grid *g, const struct grid_column *columns, size_t count, const struct report_options *o,
               struct arena *a);
void grid_row(struct grid *g, const char *const *cells, bool is_dim);
void grid_note(struct grid *g, const char *text);  /* to the last row */
void grid_put(struct grid *g, struct strbuf *out); /* and frees the rows */
shorten_fn shorten_middle, shorten_place;

/* ---- banner.c ---- */

const char *banner_sentence(const struct prof_result *r,
                            struct arena *a); /* that the model failed, and what to do; NULL: it did not */
void banner_put(const struct prof_result *r, unsigned width, struct arena *a, struct strbuf *out);

/* ---- text.c ---- */

unsigned report_width(const struct report_options *o); /* columns */
const char *candidate_name(struct arena *a,
                           const struct prof_candidate *o); /* of a region its own, else the function's; safe */
const char *place_of(const struct prof_object *o,
                     struct arena *a); /* "gather.c:12-15", "gather+0x1180"; not yet safe */

size_t row_limit(const struct report_options *o, size_t count); /* how many of them are shown */
void put_rest(size_t shown, size_t count, struct strbuf *out);  /* a line about those that are not */

/* ---- lines.c ---- */

void lines_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);

/* ---- ranks.c ---- */

/* Objects that one rank takes more than min_s longer for than the mean rank does, most first. */
const struct prof_spread **ranks_uneven(const struct prof_result *r, double min_s, struct arena *a, size_t *count);
void ranks_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);

/* ---- json.c: members of objects, null where nothing is known ---- */

void member_count(struct json *j, const char *key, uint64_t n);
void member_id(struct json *j, const char *key, uint32_t id);
/* Of the summary, in words; by_probes is "" where nothing was probed, unexplained where it is known. */
const char *coverage_by_probes(const struct prof_result *r, struct arena *a);
const char *coverage_unexplained(const struct prof_result *r, struct arena *a);
const char *coverage_crosschecks(const struct prof_result *r, struct arena *a); /* NULL: there are none */
void member_line(struct json *j, const char *key, uint32_t line);
void member_passed(struct json *j, const struct prof_result *r); /* did the model's self-test? */

/* ---- facts.c ---- */

struct term { /* of terms.def and, behind those, of data_terms.def */
    const char *id, *word, *meaning;
};
extern const struct term terms[];
size_t term_count(bool has_data);             /* the first of them: without, or with those of data */
const struct term *term_find(const char *id); /* NULL: there is none */

/* ---- json_rows.c: rows of the result, whose lists of fields say which members they have ---- */

struct json_rows {
    struct json *json;
    struct arena *arena;
    const char *name, *plain; /* the last of them */
};
void rows_put_members(struct json_rows *w, enum prof_row_id id, const void *row, size_t index);
void rows_put_object(struct json_rows *w, enum prof_row_id id, const void *row, size_t index);
void rows_put_list(struct json_rows *w, const char *key, enum prof_row_id id,
                   const struct prof_result *r); /* an array */

/* ---- data_json.c ---- */

/* The member "data", if mtool spy found any. */
void data_put_json(struct json *j, struct arena *a, const struct prof_result *r);

/* ---- threads.c ---- */

const char *place_of_region(const struct prof_region *x,
                            struct arena *a); /* "gather.c:12-15", "" unknown; not yet safe */
void threads_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);

/* ---- data.c: what mtool spy found, by o->by; all of it in short ---- */

void data_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);
/* data_diff.c: nothing unless both sides have some. */
void data_put_diff(const struct prof_diff *d, const struct report_options *o, struct arena *a, struct strbuf *out);

/* ---- rows.c: which objects the table shows, in its order ---- */

struct row_set {
    const struct prof_object **objects; /* sums over a function are objects too, with the place of its procedure */
    size_t count;
    size_t insignificant; /* left out for that */
    size_t known;         /* of all, shown or not: those whose memory_s is known */
};
void report_rows_build(const struct prof_result *r, const struct report_options *o, struct arena *a,
                       struct row_set *out);
double overhead_of(const struct prof_object *o); /* memory_s / ideal_s, NAN unknown */

/* ---- diff.c ---- */

const struct prof_result *diff_doubtful(const struct prof_diff *d); /* a side whose model failed, if there is one */
const char *diff_verdict(const struct diff_figure *f);              /* "better", "worse", "within noise", "not known" */

#define REPORT_TOP 20
#define REPORT_COLUMNS 80
#define REPORT_WIDE 100 /* from here on tables have more room */

/* ---- stalls.c: of a described machine ---- */

enum { STALL_CAUSES = 7 };
const char *stall_word(unsigned cause); /* "data read" */
/* Of an object (ID_NONE: of all code), in that mode ("user", "kernel"; NULL: both). NAN: there is no such row. */
double stall_seconds(const struct prof_result *r, uint32_t object, const char *mode, unsigned cause);

#endif
