/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c: rows.def and run.def as data: which fields a row of the result has, and what each is called where. Who
 * reads, writes, shows or merges rows goes through these lists and names no field.
 */
#ifndef MTOOL_RESULT_FIELDS_H
#define MTOOL_RESULT_FIELDS_H

#include "result/result.h"

enum prof_type {
#define TYPE(name, c, sql, unknown) PROF_TYPE_##name,
#include "result/types.def"
#undef TYPE
    PROF_TYPE_MAX
};
struct prof_type_about {
    const char *sql; /* its type there; NULL: never there */
    size_t bytes;
};
extern const struct prof_type_about prof_type_about[PROF_TYPE_MAX];

enum prof_merge {                  /* what becomes of two rows of one thing, of two ranks */
                  PROF_MERGE_KEEP, /* the first one's */
                  PROF_MERGE_LAST, /* the other's */
                  PROF_MERGE_SUM,  /* what is unknown adds nothing */
                  PROF_MERGE_MAX,  /* likewise */
                  PROF_MERGE_ANY,  /* the first that is not 0 */
                  PROF_MERGE_OF,   /* a fraction of the member `weight`, a double; of the sum then */
                  PROF_MERGE_OF_COUNT /* likewise, a uint64_t */,
                  PROF_MERGE_OF_USER /* likewise, of the user time of the runs */
};
enum prof_media { PROF_IN_DB = 1, PROF_IN_JSON = 2, PROF_IN_CSV = 4, PROF_IN_NO_CSV = 3, PROF_IN_ALL = 7 };

struct prof_field { /* of an interval there are three: the value, then its low and its high end */
    enum prof_type type;
    size_t offset; /* in the row's struct */
    const char *column, *key;
    unsigned media; /* enum prof_media */
    enum prof_merge merge;
    size_t weight;
    unsigned place;   /* columns with a smaller one come first in SQL; those with the same in order of the list */
    const char *term; /* an id of report/terms.def, or NULL */
    const char *doc;  /* the comment in SQL, or NULL */
    bool is_span;     /* of an interval, its value or an end */
};

enum prof_row_id {
#define PART(name) PROF_ROW_##name,
#define PART_END(member)
#define BEGIN(name, type, table, list, count, doc) PROF_ROW_##name,
#define END
#define FIELD(...)
#define NAMED(...)
#define SPAN(...)
#define SHOWN(...)
#define INDEX(...)
#include "result/run.def"

#include "result/rows.def"
#undef PART
#undef PART_END
#undef BEGIN
#undef END
#undef FIELD
#undef NAMED
#undef SPAN
#undef SHOWN
#undef INDEX
    PROF_ROW_COUNT,
    PROF_ROW_LISTS = PROF_ROW_MODULE /* those before are parts of struct prof_result */
};
struct prof_row {
    const struct prof_field *fields;
    size_t field_count;
    size_t bytes;       /* of the struct */
    const char *table;  /* in SQL; NULL: a part of struct prof_result */
    const char *doc;    /* of the table */
    size_t list, count; /* where in struct prof_result the rows and their number are */
};
extern const struct prof_row prof_rows[PROF_ROW_COUNT];

void prof_row_unknown(enum prof_row_id id, void *row);               /* makes unknown what can be; the rest stays */
void prof_row_keep(enum prof_row_id id, void *row, struct arena *a); /* texts into `a` */
/* Adds a row of another rank; users: the user time of the runs that `to` is the sum of, and that of x's. */
void prof_row_add(enum prof_row_id id, void *to, const void *x, const double users[2]);

#endif
