/* SPDX-License-Identifier: Apache-2.0
 *
 * report/text/data.h: what the tables of data share. Which columns one has depends on what is known.
 */
#ifndef MTOOL_REPORT_TEXT_DATA_H
#define MTOOL_REPORT_TEXT_DATA_H

#include "report/data.h"

enum { DATA_COLUMNS = 12 }; /* as a grid has at most */
struct data_table {         /* columns first, then begin, then cells row by row */
    struct grid grid;
    struct grid_column columns[DATA_COLUMNS];
    const char *cells[DATA_COLUMNS];
    size_t count, at;
    uint32_t levels[DATA_COLUMNS];
    size_t level_count;
    size_t level_max;     /* 0: as many as the width has room for */
    unsigned cause_count; /* the first of causes; those of sharing only where there is any */
    bool is_timed, is_inexact;
};
void data_table_column(struct data_table *t, const char *above, const char *below, shorten_fn *shorten, bool is_left);
void data_table_begin(struct data_table *t, const struct report_options *o, struct arena *a);
void data_table_cell(struct data_table *t, const char *text);
void data_table_row(struct data_table *t, const char *note); /* of the cells since the last; NULL: no note below it */
/* Misses of each level, in a narrow table of the nearest and the last. */
void data_levels_columns(struct data_table *t, const struct prof_result *r, const struct report_options *o,
                         struct arena *a);
void data_levels_cells(struct data_table *t, const struct prof_result *r, enum prof_data_owner owner, uint32_t id,
                       struct arena *a);
const char *data_stall(const struct prof_interval *share, struct arena *a);

/* How many of `count` rows are shown; `few` unless it was said. And the line about the others. */
size_t data_limit(const struct report_options *o, size_t count, size_t few);
void data_put_rest(size_t shown, size_t count, const char *how, struct strbuf *out);

/* data.c */
void data_put_caches(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);

/* data_more.c */
void data_put_fields(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);
void data_put_lines(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);
void data_put_sharing(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);
/* At most `few` unless it was said; nothing if there is none. */
void data_put_advice(const struct prof_result *r, const struct report_options *o, size_t few, struct arena *a,
                     struct strbuf *out);
void data_put_processes(const struct prof_result *r, const struct report_options *o, struct arena *a,
                        struct strbuf *out);
void data_put_curves(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);

#endif
