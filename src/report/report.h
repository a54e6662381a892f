/* SPDX-License-Identifier: Apache-2.0
 *
 * report: painters over the result model. Each turns a struct prof_result into text; none computes a figure.
 *
 *   text/  plain text, for people and pipes     html/  a page     view/  a full-screen terminal
 *   export/  files of other tools               here: JSON, and what painters share
 */
#ifndef MTOOL_REPORT_H
#define MTOOL_REPORT_H

#include "base/base.h"
#include "result/diff.h"
#include "result/result.h"

struct report_options {
    size_t top;       /* rows; 0: 20 */
    bool all;         /* also objects without a significant overhead */
    bool what_if;     /* the whole program's time without each object's memory part, in place of its own */
    bool is_terminal; /* colour */
    unsigned columns; /* width, 0: 80 */
    enum {
        REPORT_BY_OBJECT,
        REPORT_BY_FUNCTION,
        REPORT_BY_LOOP,
        REPORT_BY_LINE,
        REPORT_BY_MODULE,
        REPORT_BY_THREAD,
        REPORT_BY_RANK,
        REPORT_BY_DATA, /* from here on of what mtool spy found */
        REPORT_BY_CELL,
        REPORT_BY_FIELD,
        REPORT_BY_SHARING,
        REPORT_BY_CURVE,
        REPORT_BY_ADVICE,
        REPORT_BY_PROCESS
    } by;
    enum {
        REPORT_SORT_MEMORY,
        REPORT_SORT_ACTUAL,
        REPORT_SORT_IDEAL,
        REPORT_SORT_OVERHEAD,
        REPORT_SORT_INSTRUCTIONS
    } sort;
};
/* text.c: the paper's Figure 2 in today's words: predicted, measured, overhead, system time; then coverage. */
void report_summary(const struct prof_result *r, const struct report_options *o, struct strbuf *out);
/* text.c: the table of bottlenecks. */
void report_table(const struct prof_result *r, const struct report_options *o, struct strbuf *out);
/* json.c: schema mtool-report-1 (doc/profile.md). */
void report_json(const struct prof_result *r, struct strbuf *out);
/* json.c: schema mtool-count-1, of `mtool dump counts --json`. */
void report_counts_json(const struct prof_result *r, struct strbuf *out);
void report_counts_text(const struct prof_result *r, struct strbuf *out);
/* candidates.c: the selection, and schema mtool-objects-1 of `mtool dump objects --json`. */
void report_candidates_text(const struct prof_result *r, struct strbuf *out);
void report_candidates_json(const struct prof_result *r, struct strbuf *out);
/* diff.c; paths: of the two profiles, for people. */
void report_diff(const struct prof_diff *d, const char *const paths[2], const struct report_options *o,
                 struct strbuf *out);
void report_diff_json(const struct prof_diff *d, const char *const paths[2], const struct diff_condition *conditions,
                      size_t count, struct strbuf *out);

struct report_diff_html_options {
    const char *paths[2];    /* of the two profiles, for people */
    const char *source_path; /* a folder to look for source in besides where the profiles say, NULL */
    const struct diff_condition *conditions;
    size_t condition_count;
};
/* html/diff.c: the same as a page */
void report_diff_html(const struct prof_diff *d, const struct report_diff_html_options *o, struct strbuf *out);

/* ---- name.c ---- */

/* Every mangled C++ or Rust name inside `function` as its author wrote it; `function` itself if there is none or
 * no demangler of C++ on this machine. In `a`. */
const char *name_plain(struct arena *a, const char *function);
/* What a warning says, with such names; "?" for nothing. In `a`, or the warning's own. */
const char *name_warning_text(struct arena *a, const struct prof_warning *w);

/* ---- annotate.c ---- */

/* Is the function called so: as in the file, as its author wrote it, or without arguments? */
bool report_names_function(const char *function, const char *name);

struct annotate_options {
    unsigned columns;        /* 0: 80 */
    const char *source_path; /* where source is looked for too, NULL: nowhere else */
};
/* Source of the functions of that name (as in the file, demangled, or without arguments) beside figures. How many there
 * are. */
size_t report_annotate(const struct prof_result *r, const char *function, const struct annotate_options *o,
                       struct strbuf *out);
/* Names that hold `function`, at most `max` into `names`; in `a`. */
size_t report_annotate_nearest(const struct prof_result *r, const char *function, struct arena *a, const char **names,
                               size_t max);

/* ---- export.c: what other tools read (doc/exports.md) ---- */

enum report_export { /* a row of exports.def each */
#define EXPORT(id, name, text) REPORT_EXPORT_##id,
#include "report/export/exports.def"
#undef EXPORT
                     REPORT_EXPORT_COUNT
};
struct report_export_format {
    const char *name, *text;
};
extern const struct report_export_format report_export_formats[REPORT_EXPORT_COUNT];
struct export_options {
    enum { EXPORT_VALUE_MEMORY, EXPORT_VALUE_ACTUAL } value; /* of stacks */
    size_t top;                                              /* remarks; 0: 10 */
    uint32_t module; /* of the result's modules, 0 the executable: that gmon.out is of; other formats have all */
    enum { EXPORT_LINKER_LLD, EXPORT_LINKER_GOLD } linker; /* that reads the order of variables */
    const char *root; /* remarks name the files below this folder relative to it; NULL: none */
};
/* A variable of that module, which an order for a linker can name. */
struct prof_data;
bool report_is_orderable(const struct prof_result *r, const struct prof_data *d, uint32_t module);
void report_export(const struct prof_result *r, enum report_export format, const struct export_options *o,
                   struct strbuf *out);

struct report_html_options {
    const char *source_path; /* a folder to look for source in besides where the profile says, NULL */
    const struct prof_warn_about *(*explain)(const char *id); /* of any warning, NULL unknown; may be NULL */
};
struct report_view_options {
    const char *source_path; /* as above */
    unsigned sort;           /* as in struct report_options */
};
/* view/view.c: the same in a full-screen terminal, until the user leaves. False: there is none, nothing was done. */
bool report_view(const struct prof_result *r, const struct report_view_options *o);

/* html/page.c: one page that needs nothing else. Reads the source files that the profile names. */
void report_html(const struct prof_result *r, const struct report_html_options *o, struct strbuf *out);

#endif
