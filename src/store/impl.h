/* SPDX-License-Identifier: Apache-2.0
 *
 * store/impl.h: the tables of a profile as data, shared by the writer and the reader. A row is a struct of result.h, a
 * column one field of it.
 */
#ifndef MTOOL_STORE_IMPL_H
#define MTOOL_STORE_IMPL_H

#include <sqlite3.h>

#include "base/base.h"
#include "result/fields.h"

#define STORE_APPLICATION_ID 0x4d544f4c /* "MTOL" */

enum store_table_id {
    STORE_RUN,      /* struct prof_result, one row */
    STORE_MACHINE,  /* struct prof_result, one row */
    STORE_ARGUMENT, /* const char * */
    STORE_LISTS,    /* the lists of struct prof_result, in the order of enum prof_row_id */
    STORE_FUNCTIONS = STORE_LISTS + PROF_ROW_COUNT - PROF_ROW_LISTS, /* const char * */
    STORE_SOURCES,                                                   /* const char * */
    STORE_TABLE_COUNT
};

struct store_table {
    const char *name, *doc;
    size_t row_bytes;
    const struct prof_field **columns;
    size_t column_count;
    size_t list, count; /* where in struct prof_result the rows and their number are; 0: it is no list there */
};
const struct store_table *store_table(unsigned id);
/* Do profiles of that schema, at least STORE_SCHEMA_OLDEST, have the table? */
bool store_has_table(int version, unsigned id);
/* Of a table that they have, the column? */
bool store_has_column(int version, const struct store_table *t, const struct prof_field *column);

/* CREATE statements of all tables and views, each column with its meaning as a comment. */
void store_schema_sql(struct strbuf *out);

/* Opens a profile for reading after checking what it is. 0, or -1 after one line. */
int store_open(const char *path, sqlite3 **out);
int store_damaged(const char *path, const char *why); /* the line about it; -1 */

#endif
