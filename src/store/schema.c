/* SPDX-License-Identifier: Apache-2.0
 * The tables of a profile: which field of the result model is which column, and what it means. Reading, writing, the
 * SQL and its comments are all made from the lists of fields (result/rows.def, result/run.def). A change of meaning
 * there needs a new STORE_SCHEMA_VERSION. */
#include "store/impl.h"

/* Texts in the order of their numbers; the row is the text. */
#define TEXTS(name, text, about)                                                                                       \
    static const struct prof_field name##_fields[] = {                                                                 \
        {.type = PROF_TYPE_INDEX, .column = "id", .media = PROF_IN_DB, .doc = about},                                  \
        {.type = PROF_TYPE_TEXT, .column = text, .media = PROF_IN_DB}};
TEXTS(argument, "text", "0: the program")
TEXTS(function, "name", "what block.function means")
TEXTS(source, "path", "what block.source and line.source mean")

static const enum prof_row_id run_parts[] = {PROF_ROW_RUN, PROF_ROW_BASELINE, PROF_ROW_TIME, PROF_ROW_COVERAGE},
                              machine_parts[] = {PROF_ROW_MACHINE};

static struct store_table tables[STORE_TABLE_COUNT] = {
    [STORE_RUN] = {.name = "run",
                   .doc = "one row: the program as a whole; CPU seconds of the untouched program",
                   .row_bytes = sizeof(struct prof_result)},
    [STORE_MACHINE] = {.name = "machine",
                       .doc = "one row: where it ran, and the model of it",
                       .row_bytes = sizeof(struct prof_result)},
    [STORE_ARGUMENT] = {.name = "argument", .doc = "the command that was profiled", .row_bytes = sizeof(const char *)},
    [STORE_FUNCTIONS] = {.name = "function", .doc = "names of functions of blocks", .row_bytes = sizeof(const char *)},
    [STORE_SOURCES] = {.name = "source",
                       .doc = "names of source files of blocks and lines",
                       .row_bytes = sizeof(const char *)},
};

static size_t count_before(const struct store_table *t, unsigned place)
{
    size_t n = 0;
    while (n < t->column_count && t->columns[n]->place <= place)
        n++;
    return n;
}

/* Each column behind those of its place and of smaller ones. */
static void add_columns(struct store_table *t, const struct prof_field *fields, size_t count)
{
    t->columns = xrealloc(t->columns, (t->column_count + count) * sizeof *t->columns);
    for (size_t i = 0; i < count; i++) {
        if (!(fields[i].media & PROF_IN_DB))
            continue;
        size_t at = count_before(t, fields[i].place);
        memmove(&t->columns[at + 1], &t->columns[at], (t->column_count++ - at) * sizeof *t->columns);
        t->columns[at] = &fields[i];
    }
}

static void add_parts(struct store_table *t, const enum prof_row_id *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_columns(t, prof_rows[parts[i]].fields, prof_rows[parts[i]].field_count);
}

static void make_lists(struct store_table *t)
{
    for (unsigned id = PROF_ROW_LISTS; id < PROF_ROW_COUNT; id++, t++) {
        const struct prof_row *row = &prof_rows[id];
        *t = (struct store_table){
            .name = row->table, .doc = row->doc, .row_bytes = row->bytes, .list = row->list, .count = row->count};
        add_columns(t, row->fields, row->field_count);
    }
}

const struct store_table *store_table(unsigned id)
{
    if (!tables[STORE_RUN].columns) {
        add_parts(&tables[STORE_RUN], run_parts, ARRAY_LEN(run_parts));
        add_parts(&tables[STORE_MACHINE], machine_parts, ARRAY_LEN(machine_parts));
        add_columns(&tables[STORE_ARGUMENT], argument_fields, ARRAY_LEN(argument_fields));
        make_lists(&tables[STORE_LISTS]);
        add_columns(&tables[STORE_FUNCTIONS], function_fields, ARRAY_LEN(function_fields));
        add_columns(&tables[STORE_SOURCES], source_fields, ARRAY_LEN(source_fields));
    }
    return &tables[id];
}

/* Schema 21 brought those of mtool spy, from the first of them to the last list, 22 arcs and samples, 23 stalls, 24 the
 * processes that were followed. */
bool store_has_table(int version, unsigned id)
{
    if (id == STORE_LISTS + PROF_ROW_STALL - PROF_ROW_LISTS)
        return version > 22;
    if (id == STORE_LISTS + PROF_ROW_DATA_PROCESS - PROF_ROW_LISTS)
        return version > 23;
    if (id == STORE_LISTS + PROF_ROW_PAGE - PROF_ROW_LISTS || id == STORE_LISTS + PROF_ROW_PAGE_BIN - PROF_ROW_LISTS)
        return version > 25;
    bool is_of_spy = id >= STORE_LISTS + PROF_ROW_SPY - PROF_ROW_LISTS && id < STORE_FUNCTIONS;
    bool is_of_arcs =
        id == STORE_LISTS + PROF_ROW_ARC - PROF_ROW_LISTS || id == STORE_LISTS + PROF_ROW_PC_SAMPLE - PROF_ROW_LISTS;
    return version > 21 || (!is_of_arcs && (version > 20 || !is_of_spy));
}

/* Schema 25 brought the seconds of lines. */
bool store_has_column(int version, const struct store_table *t, const struct prof_field *column)
{
    return version > 24 || t != &tables[STORE_LISTS + PROF_ROW_LINE - PROF_ROW_LISTS] ||
           column->type != PROF_TYPE_SECONDS;
}

static const char *const views[] = {
    "CREATE VIEW loop AS SELECT * FROM object WHERE kind = 'loop'",
    "CREATE VIEW procedure AS SELECT * FROM object WHERE kind = 'procedure'",
    "CREATE VIEW bottleneck AS SELECT rank, kind, function, file, line_first, module, address, memory_s, memory_low_s, "
    "memory_high_s, actual_s, ideal_s, memory_s / ideal_s AS overhead, memory_share FROM object "
    "WHERE is_significant ORDER BY rank",
    "CREATE VIEW estimate AS SELECT id AS object, 'self' AS scope, ideal_s, ideal_low_s, ideal_high_s, "
    "ideal_method AS method, bound_by FROM object UNION ALL SELECT id, 'inclusive', ideal_incl_s, ideal_incl_low_s, "
    "ideal_incl_high_s, ideal_method, NULL FROM object",
    "CREATE VIEW measurement AS SELECT id AS object, 'self' AS scope, actual_s, actual_low_s, actual_high_s, "
    "actual_method AS method, samples FROM object UNION ALL SELECT id, 'inclusive', actual_incl_s, actual_incl_low_s, "
    "actual_incl_high_s, actual_method, NULL FROM object",
    "CREATE VIEW overhead AS SELECT id AS object, 'self' AS scope, memory_s, memory_low_s, memory_high_s, branch_s, "
    "memory_s / ideal_s AS overhead FROM object UNION ALL SELECT id, 'inclusive', memory_incl_s, memory_incl_low_s, "
    "memory_incl_high_s, NULL, memory_incl_s / ideal_incl_s FROM object",
    "CREATE VIEW named_block AS SELECT module.path AS module, block.address, size_bytes, block.instructions, "
    "block.memory_ops, function.name AS function, source.path AS file, line, count FROM block "
    "JOIN module ON module.id = block.module LEFT JOIN function ON function.id = block.function "
    "LEFT JOIN source ON source.id = block.source",
    "CREATE VIEW data_level AS SELECT data_object.id AS object, data_object.name, kind, cache.name AS level, "
    "configuration, data_miss.reference_count, misses, misses_low, misses_high, cold, capacity, conflict, "
    "data_miss.inclusion, around, true_sharing, false_sharing FROM data_miss "
    "JOIN data_object ON data_object.id = owner_id JOIN cache ON cache.id = data_miss.cache WHERE owner = 'object'",
};

static void put_table(struct strbuf *out, const struct store_table *t)
{
    str_printf(out, "CREATE TABLE %s ( -- %s\n", t->name, t->doc);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct prof_field *c = t->columns[i];
        str_printf(out, "  %s %s%s", c->column, prof_type_about[c->type].sql, i + 1 < t->column_count ? "," : "");
        str_printf(out, c->doc ? " -- %s\n" : "\n", c->doc);
    }
    str_puts(out, ");\n");
}

void store_schema_sql(struct strbuf *out)
{
    for (unsigned i = 0; i < STORE_TABLE_COUNT; i++)
        put_table(out, store_table(i));
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        str_printf(out, "%s;\n", views[i]);
}
