/* SPDX-License-Identifier: Apache-2.0
 *
 * fields: the lists of fields, and what can be done with a row that needs no more than its list.
 */
#include "result/fields.h"

#include <math.h>

const struct prof_type_about prof_type_about[PROF_TYPE_MAX] = {
#define TYPE(name, c, sql, unknown) {sql, sizeof(c)},
#include "result/types.def"
#undef TYPE
};

#define AT(member) offsetof(ROW, IN member)
#define MERGE_KEEP PROF_MERGE_KEEP, 0
#define MERGE_LAST PROF_MERGE_LAST, 0
#define MERGE_SUM PROF_MERGE_SUM, 0
#define MERGE_MAX PROF_MERGE_MAX, 0
#define MERGE_ANY PROF_MERGE_ANY, 0
#define MERGE_OF(member) PROF_MERGE_OF, offsetof(ROW, member)
#define MERGE_OF_COUNT(member) PROF_MERGE_OF_COUNT, offsetof(ROW, member)
#define MERGE_OF_USER PROF_MERGE_OF_USER, 0
#define UNIT_TYPE_ PROF_TYPE_SHARE /* of an interval without a unit in its name */
#define UNIT_TYPE__s PROF_TYPE_SECONDS
#define UNIT_ ""
#define UNIT__s "_s"

#define FIELD(type, member, media, merge, place, term, doc)                                                            \
    {PROF_TYPE_##type, AT(member), #member, #member, PROF_IN_##media, MERGE_##merge, place, term, doc, false},
#define NAMED(type, member, column, key, media, merge, place, term, doc)                                               \
    {PROF_TYPE_##type, AT(member), column, key, PROF_IN_##media, MERGE_##merge, place, term, doc, false},
#define SPAN(stem, unit, media, merge, place, term, doc)                                                               \
    SPAN_END(stem, unit, value, "", media, merge, place, term, doc)                                                    \
    SPAN_END(stem, unit, low, "_low", media, merge, place, NULL, NULL)                                                 \
    SPAN_END(stem, unit, high, "_high", media, merge, place, NULL, NULL)
#define SPAN_END(stem, unit, end, infix, media, merge, place, term, doc)                                               \
    {UNIT_TYPE_##unit,                                                                                                 \
     AT(stem##unit.end),                                                                                               \
     #stem infix UNIT_##unit,                                                                                          \
     #stem infix UNIT_##unit,                                                                                          \
     PROF_IN_##media,                                                                                                  \
     MERGE_##merge,                                                                                                    \
     place,                                                                                                            \
     term,                                                                                                             \
     doc,                                                                                                              \
     true},
#define SHOWN(type, member, key)                                                                                       \
    {PROF_TYPE_##type, AT(member), NULL, key, PROF_IN_JSON | PROF_IN_CSV, MERGE_KEEP, 0, NULL, NULL, false},
#define INDEX(column, key, doc)                                                                                        \
    {PROF_TYPE_INDEX, 0, column, key, PROF_IN_DB | ((key) != NULL ? PROF_IN_JSON : 0), MERGE_KEEP, 0, NULL, doc, false},

#define PART(name) static const struct prof_field fields_##name[] = {
#define PART_END(member)                                                                                               \
    }                                                                                                                  \
    ;
#define BEGIN(name, type, table, list, count, doc) static const struct prof_field fields_##name[] = {
#define END                                                                                                            \
    }                                                                                                                  \
    ;
#include "result/run.def"
#define IN
#include "result/rows.def"
#undef IN
#undef PART
#undef PART_END
#undef BEGIN
#undef END
#undef FIELD
#undef NAMED
#undef SPAN
#undef SHOWN
#undef INDEX

const struct prof_row prof_rows[PROF_ROW_COUNT] = {
#define PART(name)                                                                                                     \
    [PROF_ROW_##name] = {fields_##name, ARRAY_LEN(fields_##name), sizeof(struct prof_result), NULL, NULL, 0, 0},
#define PART_END(member)
#define BEGIN(name, type, table, list, count, doc)                                                                     \
    [PROF_ROW_##name] = {fields_##name,                                                                                \
                         ARRAY_LEN(fields_##name),                                                                     \
                         sizeof(struct type),                                                                          \
                         table,                                                                                        \
                         doc,                                                                                          \
                         offsetof(struct prof_result, list),                                                           \
                         offsetof(struct prof_result, count)},
#define END
#define FIELD(...)
#define NAMED(...)
#define SPAN(...)
#define SHOWN(...)
#define INDEX(...)
#include "result/run.def"

#include "result/rows.def"
};

/* A field that has a member of its own. */
static bool is_kept(const struct prof_field *f) { return f->media & PROF_IN_DB && f->type != PROF_TYPE_INDEX; }

static void make_unknown(enum prof_type type, void *field)
{
    switch (type) {
    case PROF_TYPE_COUNT:
        *(uint64_t *)field = PROF_UNKNOWN;
        break;
    case PROF_TYPE_ID:
    case PROF_TYPE_TRUTH:
        *(uint32_t *)field = ID_NONE;
        break;
    case PROF_TYPE_SECONDS:
    case PROF_TYPE_SHARE:
    case PROF_TYPE_REAL:
        *(double *)field = NAN;
        break;
    default: /* nothing, or 0, or always known */
        break;
    }
}

void prof_row_unknown(enum prof_row_id id, void *row)
{
    for (size_t i = 0; i < prof_rows[id].field_count; i++) {
        const struct prof_field *f = &prof_rows[id].fields[i];
        if (is_kept(f))
            make_unknown(f->type, (char *)row + f->offset);
    }
}

static bool is_text(enum prof_type type)
{
    return type == PROF_TYPE_TEXT || type == PROF_TYPE_NAME || type == PROF_TYPE_FUNCTION || type == PROF_TYPE_SOURCE;
}

void prof_row_keep(enum prof_row_id id, void *row, struct arena *a)
{
    for (size_t i = 0; i < prof_rows[id].field_count; i++) {
        const struct prof_field *f = &prof_rows[id].fields[i];
        const char **text = (const char **)(void *)((char *)row + f->offset);
        if (is_kept(f) && is_text(f->type) && *text)
            *text = arena_strdup(a, *text);
    }
}

/* ---- two rows of one thing ---- */

static bool is_real(enum prof_type type)
{
    return type == PROF_TYPE_SECONDS || type == PROF_TYPE_SHARE || type == PROF_TYPE_REAL;
}

/* A share of what the old sum and the new part weigh. */
static double blend(double a, double weight_a, double b, double weight_b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return weight_a + weight_b > 0 ? (a * weight_a + b * weight_b) / (weight_a + weight_b) : a;
}

static void add_reals(enum prof_merge merge, double *to, double x)
{
    *to = merge == PROF_MERGE_SUM ? prof_sum(*to, x) : merge == PROF_MERGE_MAX ? fmax(*to, x) : *to;
}

static void add_counts(enum prof_merge merge, uint64_t *to, uint64_t x)
{
    *to = merge == PROF_MERGE_SUM ? prof_sum_counts(*to, x) : merge == PROF_MERGE_LAST ? x : *to;
}

static void add_sizes(enum prof_merge merge, uint32_t *to, uint32_t x)
{
    *to = merge == PROF_MERGE_SUM    ? *to + x
          : merge == PROF_MERGE_MAX  ? (uint32_t)max_u64(*to, x)
          : merge == PROF_MERGE_LAST ? x
                                     : *to;
}

/* Figures as they are; what is not of one of these types stays as it is. */
static void add_figure(const struct prof_field *f, void *to, const void *x)
{
    if (is_real(f->type))
        add_reals(f->merge, to, *(const double *)x);
    else if (f->type == PROF_TYPE_COUNT)
        add_counts(f->merge, to, *(const uint64_t *)x);
    else if (f->type == PROF_TYPE_SIZE)
        add_sizes(f->merge, to, *(const uint32_t *)x);
    else if (f->type == PROF_TYPE_BOOL && f->merge == PROF_MERGE_ANY)
        *(bool *)to |= *(const bool *)x;
    else if (f->type == PROF_TYPE_STATUS && f->merge == PROF_MERGE_ANY)
        *(int *)to = *(int *)to ? *(int *)to : *(const int *)x;
}

static bool is_fraction(const struct prof_field *f)
{
    return f->merge == PROF_MERGE_OF || f->merge == PROF_MERGE_OF_COUNT || f->merge == PROF_MERGE_OF_USER;
}

static double weight_of(const struct prof_field *f, const void *row, double users)
{
    const void *weight = (const char *)row + f->weight;
    return f->merge == PROF_MERGE_OF_USER ? users
           : f->merge == PROF_MERGE_OF    ? *(const double *)weight
                                          : (double)*(const uint64_t *)weight;
}

/* Fractions first, before what they are of has changed. */
static void add_all(const struct prof_row *row, void *to, const void *x, const double users[2], bool has_fractions)
{
    for (size_t i = 0; i < row->field_count; i++) {
        const struct prof_field *f = &row->fields[i];
        double *mine = (double *)(void *)((char *)to + f->offset);
        const char *other = (const char *)x + f->offset;
        if (!is_kept(f) || is_fraction(f) != has_fractions)
            continue;
        if (has_fractions)
            *mine = blend(*mine, weight_of(f, to, users[0]), *(const double *)(const void *)other,
                          weight_of(f, x, users[1]));
        else
            add_figure(f, mine, other);
    }
}

void prof_row_add(enum prof_row_id id, void *to, const void *x, const double users[2])
{
    add_all(&prof_rows[id], to, x, users, true);
    add_all(&prof_rows[id], to, x, users, false);
}
