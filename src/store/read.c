/* SPDX-License-Identifier: Apache-2.0
 * Rows to the result model, and the tables of a profile as text. Believes nothing: a row that no writer of ours could
 * have made is damage, said in one line. */
#include <math.h>

#include "store/impl.h"
#include "store/store.h"

struct reader {
    sqlite3 *db;
    const char *path;
    int version; /* of its schema */
    struct arena *arena;
    const char **functions, **sources;
    size_t function_count, source_count;
};

struct cell { /* one column of the row that the statement stands on */
    struct reader *reader;
    sqlite3_stmt *st;
    int index;
};

/* ---- one cell to a field; false: no value of ours ---- */

static bool is_null(const struct cell *c) { return sqlite3_column_type(c->st, c->index) == SQLITE_NULL; }

static bool read_text(const struct cell *c, const char **field)
{
    const unsigned char *text = sqlite3_column_text(c->st, c->index);
    *field = text ? arena_strdup(c->reader->arena, (const char *)text) : NULL;
    return true;
}

/* SQLite gives 0 for NULL, so only a 0 needs the second look. */
static bool read_u64(const struct cell *c, uint64_t *field)
{
    int64_t value = sqlite3_column_int64(c->st, c->index);
    *field = value == 0 && is_null(c) ? PROF_UNKNOWN : (uint64_t)value;
    return true;
}

static bool read_u32(const struct cell *c, uint32_t *field, uint32_t null)
{
    int64_t value = sqlite3_column_int64(c->st, c->index);
    *field = value == 0 && null && is_null(c) ? null : (uint32_t)value;
    return value >= 0 && value <= UINT32_MAX;
}

static bool read_int(const struct cell *c, int *field)
{
    *field = sqlite3_column_int(c->st, c->index);
    return true;
}

static bool read_real(const struct cell *c, double *field)
{
    double value = sqlite3_column_double(c->st, c->index);
    *field = value == 0 && is_null(c) ? NAN : value;
    return true;
}

static bool read_bool(const struct cell *c, bool *field)
{
    *field = sqlite3_column_int(c->st, c->index) != 0;
    return true;
}

/* A word that stands for a number; the enums are all of that size. */
static bool read_word(const struct cell *c, const char *const *words, unsigned count, unsigned *field)
{
    const char *text = (const char *)sqlite3_column_text(c->st, c->index);
    for (unsigned i = 0; text && i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *field = i;
            return true;
        }
    }
    return false;
}

static bool read_interned(const struct cell *c, const char **texts, size_t count, const char **field)
{
    int64_t id = sqlite3_column_int64(c->st, c->index);
    bool is_none = id == 0 && is_null(c), is_good = is_none || (id >= 0 && (uint64_t)id < count);
    *field = is_none || !is_good ? NULL : texts[id];
    return is_good;
}

static bool read_column(const struct cell *c, const struct prof_field *column, void *row, size_t n)
{
    void *field = (char *)row + column->offset;
    const struct reader *r = c->reader;
    switch (column->type) {
    case PROF_TYPE_INDEX:
        return sqlite3_column_int64(c->st, c->index) == (int64_t)n;
    case PROF_TYPE_TEXT:
    case PROF_TYPE_NAME:
        return read_text(c, field);
    case PROF_TYPE_COUNT:
    case PROF_TYPE_COUNT_OR_0:
        return read_u64(c, field);
    case PROF_TYPE_ADDRESS:
    case PROF_TYPE_ADDRESS_OR_0:
        *(uint64_t *)field = (uint64_t)sqlite3_column_int64(c->st, c->index);
        return true;
    case PROF_TYPE_SIZE:
    case PROF_TYPE_LINE_KEY:
    case PROF_TYPE_LINE:
        return read_u32(c, field, 0);
    case PROF_TYPE_ID:
    case PROF_TYPE_TRUTH:
        return read_u32(c, field, ID_NONE);
    case PROF_TYPE_STATUS:
        return read_int(c, field);
    case PROF_TYPE_SECONDS:
    case PROF_TYPE_SHARE:
    case PROF_TYPE_REAL:
        return read_real(c, field);
    case PROF_TYPE_BOOL:
        return read_bool(c, field);
    case PROF_TYPE_KIND:
        return read_word(c, prof_kind_name, PROF_KIND_COUNT, field);
    case PROF_TYPE_VERDICT:
        return read_word(c, prof_verdict_name, PROF_VERDICT_COUNT, field);
    case PROF_TYPE_ESTIMABLE:
        return read_word(c, prof_estimable_name, PROF_ESTIMABLE_COUNT, field);
    case PROF_TYPE_DATA_KIND:
        return read_word(c, prof_data_kind_name, PROF_DATA_KIND_COUNT, field);
    case PROF_TYPE_DATA_OWNER:
        return read_word(c, prof_data_owner_name, PROF_DATA_OWNER_COUNT, field);
    case PROF_TYPE_FUNCTION:
        return read_interned(c, r->functions, r->function_count, field);
    case PROF_TYPE_SOURCE:
        return read_interned(c, r->sources, r->source_count, field);
    case PROF_TYPE_PLAIN:
    case PROF_TYPE_OVERHEAD:
    case PROF_TYPE_MAX:
        break;
    }
    return false;
}

/* ---- tables ---- */

/* A statement of one row and one column; -1: it cannot be executed. */
static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static int version_of(sqlite3 *db) { return (int)ask(db, "PRAGMA user_version"); }

static int64_t count_rows(sqlite3 *db, int version, unsigned id)
{
    if (!store_has_table(version, id))
        return 0;
    struct strbuf sql = {0};
    str_printf(&sql, "SELECT count(*) FROM \"%s\"", store_table(id)->name);
    int64_t n = ask(db, sql.data);
    str_free(&sql);
    return n;
}

/* What the profile's schema lacks is unknown. */
static sqlite3_stmt *prepare_select(sqlite3 *db, int version, const struct store_table *t)
{
    struct strbuf sql = {0};
    for (size_t i = 0; i < t->column_count; i++)
        str_printf(&sql, "%s%s", i ? "," : "SELECT ",
                   store_has_column(version, t, t->columns[i]) ? t->columns[i]->column : "NULL");
    str_printf(&sql, " FROM %s ORDER BY rowid", t->name);
    sqlite3_stmt *st = NULL;
    sqlite3_prepare_v2(db, sql.data, -1, &st, NULL);
    str_free(&sql);
    return st;
}

static int damaged_row(struct reader *r, const struct store_table *t, size_t n, const struct prof_field *c)
{
    return store_damaged(r->path, arena_printf(r->arena, "table %s, row %zu, column %s", t->name, n, c->column));
}

/* Fills at most `count` rows. 0, or -1 after one line. */
static int fill_rows(struct reader *r, const struct store_table *t, sqlite3_stmt *st, char *rows, size_t count)
{
    size_t n = 0;
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW && n < count) {
        for (size_t i = 0; i < t->column_count; i++)
            if (!read_column(&(struct cell){r, st, (int)i}, t->columns[i], rows + n * t->row_bytes, n))
                return damaged_row(r, t, n, t->columns[i]);
        n++;
    }
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        return store_damaged(r->path, sqlite3_errmsg(r->db));
    return n == count && rc == SQLITE_DONE
               ? 0
               : store_damaged(r->path, arena_printf(r->arena, "rows of table %s", t->name));
}

/* Reads a whole table into the arena. */
static int read_rows(struct reader *r, enum store_table_id id, void *rows, size_t *count)
{
    const struct store_table *t = store_table(id);
    sqlite3_stmt *st = prepare_select(r->db, r->version, t);
    int64_t n = st ? count_rows(r->db, r->version, id) : -1;
    int rc = n < 0 ? store_damaged(r->path, sqlite3_errmsg(r->db)) : 0;
    if (rc == 0) {
        char *list = arena_alloc(r->arena, t->row_bytes * ((size_t)n + 1)); /* one more: the end of `command` */
        rc = fill_rows(r, t, st, list, (size_t)n);
        *(void **)rows = list;
        *count = (size_t)n;
    }
    sqlite3_finalize(st);
    return rc;
}

/* The one row of run or machine, straight into the result. */
static int read_single(struct reader *r, enum store_table_id id, struct prof_result *result)
{
    const struct store_table *t = store_table(id);
    sqlite3_stmt *st = prepare_select(r->db, r->version, t);
    int rc = st ? fill_rows(r, t, st, (char *)result, 1) : store_damaged(r->path, sqlite3_errmsg(r->db));
    sqlite3_finalize(st);
    return rc;
}

static int check_modules(const struct reader *r, const struct prof_result *result)
{
    for (size_t i = 0; i < result->block_count; i++)
        if (result->blocks[i].module >= result->module_count)
            return store_damaged(r->path, "a block of no module");
    for (size_t i = 0; i < result->edge_count; i++)
        if (result->edges[i].module >= result->module_count)
            return store_damaged(r->path, "an edge of no module");
    return 0;
}

static int check_threads(const struct reader *r, const struct prof_result *result)
{
    for (size_t i = 0; i < result->thread_object_count; i++) {
        const struct prof_thread_object *o = &result->thread_objects[i];
        if (o->thread >= result->thread_count || o->object >= result->object_count)
            return store_damaged(r->path, "a row of thread_object that belongs to nothing");
    }
    for (size_t i = 0; i < result->wait_count; i++) {
        const struct prof_wait *w = &result->waits[i];
        if (w->thread >= result->thread_count || (w->object != ID_NONE && w->object >= result->object_count))
            return store_damaged(r->path, "a row of wait that belongs to nothing");
    }
    return 0;
}

static int check_regions(const struct reader *r, const struct prof_result *result)
{
    for (size_t i = 0; i < result->extra_count; i++)
        if (result->extras[i].object >= result->object_count)
            return store_damaged(r->path, "a row of extra that belongs to nothing");
    for (size_t i = 0; i < result->region_thread_count; i++) {
        const struct prof_region_thread *p = &result->region_threads[i];
        if (p->region >= result->region_count || p->thread >= result->thread_count)
            return store_damaged(r->path, "a row of region_thread that belongs to nothing");
    }
    return 0;
}

static int check_stalls(const struct reader *r, const struct prof_result *result)
{
    for (size_t i = 0; i < result->stall_count; i++)
        if (result->stalls[i].object != ID_NONE && result->stalls[i].object >= result->object_count)
            return store_damaged(r->path, "a row of stall that belongs to nothing");
    return 0;
}

static int check_pages(const struct reader *r, const struct prof_result *result)
{
    for (size_t i = 0; i < result->page_bin_count; i++)
        if (result->page_bins[i].page >= result->page_count)
            return store_damaged(r->path, "a row of page_bin that belongs to nothing");
    return 0;
}

static int check_ranks(const struct reader *r, const struct prof_result *result)
{
    for (size_t i = 0; i < result->rank_object_count; i++)
        if (result->rank_objects[i].object >= result->object_count)
            return store_damaged(r->path, "a row of rank_object that belongs to nothing");
    for (size_t i = 0; i < result->spread_count; i++)
        if (result->spreads[i].object >= result->object_count)
            return store_damaged(r->path, "a row of rank_spread that belongs to nothing");
    return 0;
}

/* An object of the rows, and its kin; ID_NONE where that may be. */
static bool is_data(const struct prof_result *x, uint32_t id) { return id < x->data_count; }

static int check_data_rows(const struct reader *r, const struct prof_result *x)
{
    bool is_good = true;
#define EACH(list, count, condition)                                                                                   \
    for (size_t i = 0; i < x->count; i++)                                                                              \
        is_good &= (condition);
#define OBJECT(list, count) EACH(list, count, is_data(x, x->list[i].object))
    OBJECT(data_frames, data_frame_count)
    OBJECT(data_cells, data_cell_count)
    OBJECT(data_lines, data_line_count)
    OBJECT(data_fields, data_field_count)
    OBJECT(data_evictors, data_evictor_count)
    OBJECT(data_sharing, data_sharing_count)
    OBJECT(data_pictures, data_picture_count)
    OBJECT(data_touched, data_touched_count)
    OBJECT(data_advice, data_advice_count)
    EACH(data_evictors, data_evictor_count,
         x->data_evictors[i].cache < x->cache_count &&
             (x->data_evictors[i].by == ID_NONE || is_data(x, x->data_evictors[i].by)))
    EACH(data_sites, data_site_count,
         x->data_sites[i].sharing < x->data_sharing_count &&
             (x->data_sites[i].object == ID_NONE || is_data(x, x->data_sites[i].object)))
    EACH(data_curves, data_curve_count, x->data_curves[i].object == ID_NONE || is_data(x, x->data_curves[i].object))
#undef OBJECT
#undef EACH
    return is_good ? 0 : store_damaged(r->path, "a row of what mtool spy found that belongs to nothing");
}

static int check_data_misses(const struct reader *r, const struct prof_result *x)
{
    const size_t owners[PROF_DATA_OWNER_COUNT] = {
        [PROF_OWNER_PROGRAM] = 1,
        [PROF_OWNER_OBJECT] = x->data_count,
        [PROF_OWNER_CELL] = x->data_cell_count,
        [PROF_OWNER_LINE] = x->data_line_count,
        [PROF_OWNER_FIELD] = x->data_field_count,
        [PROF_OWNER_PROCESS] = x->data_process_count,
    };
    for (size_t i = 0; i < x->data_miss_count; i++) {
        const struct prof_data_miss *m = &x->data_misses[i];
        if (m->cache >= x->cache_count || m->owner_id >= owners[m->owner])
            return store_damaged(r->path, "a row of data_miss that belongs to nothing");
    }
    return 0;
}

static int read_lists(struct reader *r, struct prof_result *x)
{
    int rc = 0;
    for (unsigned id = 0; id < STORE_TABLE_COUNT && rc == 0; id++) {
        const struct store_table *t = store_table(id);
        if (t->list && store_has_table(r->version, id))
            rc = read_rows(r, (enum store_table_id)id, (char *)x + t->list, (size_t *)(void *)((char *)x + t->count));
    }
    return rc;
}

static int read_tables(struct reader *r, struct prof_result *x)
{
    size_t arguments;
    int rc = read_rows(r, STORE_FUNCTIONS, &r->functions, &r->function_count);
    rc = rc ? rc : read_rows(r, STORE_SOURCES, &r->sources, &r->source_count);
    rc = rc ? rc : read_single(r, STORE_RUN, x);
    rc = rc ? rc : read_single(r, STORE_MACHINE, x);
    rc = rc ? rc : read_rows(r, STORE_ARGUMENT, &x->command, &arguments);
    rc = rc ? rc : read_lists(r, x);
    rc = rc ? rc : check_threads(r, x);
    rc = rc ? rc : check_regions(r, x);
    rc = rc ? rc : check_ranks(r, x);
    rc = rc ? rc : check_stalls(r, x);
    rc = rc ? rc : check_pages(r, x);
    rc = rc ? rc : check_data_rows(r, x);
    rc = rc ? rc : check_data_misses(r, x);
    return rc ? rc : check_modules(r, x);
}

int store_read(const char *path, struct prof_result **out)
{
    struct reader r = {.path = path};
    if (store_open(path, &r.db) < 0)
        return -1;
    r.version = version_of(r.db);
    struct prof_result *result = prof_result_new();
    r.arena = result->arena;
    int rc = read_tables(&r, result);
    sqlite3_close(r.db);
    if (rc < 0)
        prof_result_free(result);
    else
        *out = result;
    return rc;
}

/* ---- dump ---- */

static void dump_text(sqlite3 *db, struct strbuf *out)
{
    int version = version_of(db);
    str_printf(out, "schema %d\n", version);
    for (unsigned i = 0; i < STORE_TABLE_COUNT; i++)
        str_printf(out, "%-10s %lld rows\n", store_table(i)->name, (long long)count_rows(db, version, i));
    str_puts(out, "\n");
    store_schema_sql(out);
}

static void dump_json(sqlite3 *db, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-db-1");
    json_i64(&j, "version", version_of(db));
    json_array(&j, "tables");
    for (unsigned i = 0; i < STORE_TABLE_COUNT; i++) {
        const struct store_table *t = store_table(i);
        json_object(&j, NULL);
        json_str(&j, "name", t->name);
        json_str(&j, "text", t->doc);
        json_i64(&j, "rows", count_rows(db, version_of(db), i));
        json_array(&j, "columns");
        for (size_t k = 0; k < t->column_count; k++)
            json_str(&j, NULL, t->columns[k]->column);
        json_array_end(&j);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

int store_dump(const char *path, bool json, struct strbuf *out)
{
    sqlite3 *db;
    if (store_open(path, &db) < 0)
        return -1;
    int rc = 0, version = version_of(db);
    for (unsigned i = 0; i < STORE_TABLE_COUNT && rc == 0; i++)
        if (count_rows(db, version, i) < 0)
            rc = store_damaged(path, sqlite3_errmsg(db));
    if (rc == 0)
        json ? dump_json(db, out) : dump_text(db, out);
    sqlite3_close(db);
    return rc;
}
