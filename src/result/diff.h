/* SPDX-License-Identifier: Apache-2.0
 *
 * result/diff.h: two results of one program, before and after a change, into pairs of objects and the change of each
 * figure with its interval. The two may be different builds: objects are paired by names, source lines and what they
 * do.
 */
#ifndef MTOOL_RESULT_DIFF_H
#define MTOOL_RESULT_DIFF_H

#include "result/result.h"

struct diff_figure { /* unknown: NAN; an object that one side does not have took 0 there */
    struct prof_interval old, now, change;
};
struct diff_object {
    const struct prof_object *old, *now; /* one of them may be NULL: it is only in the other */
    const char *how;                     /* what paired them, a word (see diff_match.c); NULL if they are no pair */
    bool is_refused;                     /* the side that lacks it did not count its function: nothing is known */
#define COMPARED(id, member, whole, is_modelled, is_again, term, word) struct diff_figure member;
#include "result/diff.def"
#undef COMPARED
};
struct diff_data {
    const struct prof_data *old, *now; /* one of them may be NULL */
    struct diff_figure memory_s, misses;
    bool is_worth; /* a row: its seconds changed by more than noise, or its misses by a hundredth of the program's */
};
enum diff_field {
#define COMPARED(id, member, whole, is_modelled, is_again, term, word) DIFF_##id,
#include "result/diff.def"
#undef COMPARED
    DIFF_OVERHEAD,
    DIFF_MISSES, /* known where mtool spy followed the references of both, through caches alike */
    DIFF_FIELD_COUNT,
    DIFF_TIMED_COUNT = DIFF_MISSES /* those before are times */
};
struct diff_field_about {
    const char *name;        /* "memory_s", ..., "overhead" */
    const char *term, *word; /* term: an id of report/terms.def */
    size_t offset;           /* of the figure in struct diff_object; 0: of the whole program only */
};
extern const struct diff_field_about diff_field_about[DIFF_FIELD_COUNT];

struct prof_diff {
    const struct prof_result *old, *now;
    struct diff_figure whole[DIFF_FIELD_COUNT]; /* user time of the program; overhead is a fraction */
    struct diff_object *objects; /* what changed beyond noise first; each in order of the change's size */
    size_t object_count;
    bool is_of_data;        /* mtool spy followed the references of both */
    uint32_t levels[2];     /* of misses: cache.id of either side; ID_NONE: the caches are not alike */
    struct diff_data *data; /* what changed worth a row first */
    size_t data_count;
    struct arena *arena;
};

/* diff.c. The results must live as long as the difference. */
struct prof_diff *prof_diff_new(const struct prof_result *old, const struct prof_result *now);
void prof_diff_free(struct prof_diff *d);
/* Zero is outside of the interval of the change. The errors of both sides count as independent; what is wrong in the
 * model is mostly wrong in both alike, so this errs on the side of noise. */
bool diff_is_change(const struct diff_figure *f);

struct diff_condition { /* "memory_s>+5%": that much more, of the whole program */
    enum diff_field field;
    bool is_percent; /* of the old figure; of the overhead: points */
    double limit;
    const char *text;
};
double diff_rise(const struct prof_diff *d, const struct diff_condition *c); /* in the unit of its limit; NAN unknown */
/* It rose by more than the limit, and by more than noise. */
bool diff_holds(const struct prof_diff *d, const struct diff_condition *c);

/* diff_match.c. */
struct diff_pair {
    uint32_t old, now; /* indexes of objects, ID_NONE: none */
    const char *how;
};
/* Every object of both sides is in exactly one pair. *count of them, in `a`. */
struct diff_pair *diff_match(const struct prof_result *old, const struct prof_result *now, struct arena *a,
                             size_t *count);

/* data/diff.c: what of a difference is of data. */
void diff_data_fill(struct prof_diff *d);

#endif
