/* SPDX-License-Identifier: Apache-2.0
 *
 * store/impl.h: the tables of a profile as data, shared by the writer and the reader. A row is a struct of prof.h, a
 * column one field of it.
 */
#ifndef MTOOL_STORE_IMPL_H
#define MTOOL_STORE_IMPL_H

#include <sqlite3.h>

#include "base/base.h"
#include "result/result.h"

#define STORE_APPLICATION_ID 0x4d544f4c /* "MTOL" */

enum store_kind {
    STORE_ROW,       /* no field: the position in the list from 0, the primary key */
    STORE_TEXT,      /* const char *; NULL is NULL */
    STORE_U64,       /* uint64_t; PROF_UNKNOWN is NULL */
    STORE_ADDRESS,   /* uint64_t, kept as the signed number of the same bits */
    STORE_U32,       /* uint32_t */
    STORE_ID,        /* uint32_t; ID_NONE is NULL */
    STORE_LINE,      /* uint32_t; 0 is NULL */
    STORE_INT,       /* int */
    STORE_REAL,      /* double; NAN is NULL */
    STORE_BOOL,      /* bool, 0 or 1 */
    STORE_OBJECT,    /* enum prof_kind, kept by name */
    STORE_VERDICT,   /* enum prof_verdict, likewise */
    STORE_ESTIMABLE, /* enum prof_estimable, likewise */
    STORE_FUNCTION,  /* const char *, kept as the id of a row of table function */
    STORE_SOURCE,    /* const char *, kept as the id of a row of table source */
    STORE_KIND_COUNT
};
extern const char *const store_sql_type[STORE_KIND_COUNT];

struct store_column {
    const char *name;
    enum store_kind kind;
    size_t offset; /* of the field in the row's struct */
    const char *doc;
};

enum store_table_id {
    STORE_RUN,           /* struct prof_result, one row */
    STORE_MACHINE,       /* struct prof_result, one row */
    STORE_ARGUMENT,      /* const char * */
    STORE_MODULE,        /* struct prof_module */
    STORE_OBJECTS,       /* struct prof_object */
    STORE_CANDIDATE,     /* struct prof_candidate */
    STORE_REFUSED,       /* struct prof_refused */
    STORE_PROCESS,       /* struct prof_process */
    STORE_LINES,         /* struct prof_line */
    STORE_INSNS,         /* struct prof_insn */
    STORE_CALLS,         /* struct prof_call */
    STORE_BLOCK,         /* struct prof_block_row */
    STORE_EDGE,          /* struct prof_edge_row */
    STORE_WARNING,       /* struct prof_warning */
    STORE_THREAD,        /* struct prof_thread */
    STORE_THREAD_OBJECT, /* struct prof_thread_object */
    STORE_PHASE,         /* struct prof_phase */
    STORE_WAIT,          /* struct prof_wait */
    STORE_EXTRA,         /* struct prof_extra */
    STORE_REGION,        /* struct prof_region */
    STORE_REGION_THREAD, /* struct prof_region_thread */
    STORE_RANK,          /* struct prof_rank */
    STORE_RANK_OBJECT,   /* struct prof_rank_object */
    STORE_RANK_SPREAD,   /* struct prof_spread */
    STORE_FUNCTIONS,     /* const char * */
    STORE_SOURCES,       /* const char * */
    STORE_TABLE_COUNT
};

struct store_table {
    const char *name;
    size_t row_bytes;
    const struct store_column *columns;
    size_t column_count;
    const char *doc;
    size_t list, count; /* where in struct prof_result the rows and their number are; 0: it is no list there */
};
extern const struct store_table store_tables[STORE_TABLE_COUNT];

/* CREATE statements of all tables and views, each column with its meaning as a comment. */
void store_schema_sql(struct strbuf *out);

/* Opens a profile for reading after checking what it is. 0, or -1 after one line. */
int store_open(const char *path, sqlite3 **out);
int store_damaged(const char *path, const char *why); /* the line about it; -1 */

#endif
