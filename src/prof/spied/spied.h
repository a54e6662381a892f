/* SPDX-License-Identifier: Apache-2.0
 *
 * spied: what mtool spy found (cells of a site and a data object, with their misses in each cache) into rows by data
 * object, by function and object, by line and object; who evicts whom; and, of a program whose time was measured, the
 * memory seconds of its data. One function a pass, in the order of spied.c.
 */
#ifndef MTOOL_PROF_SPIED_H
#define MTOOL_PROF_SPIED_H

#include "prof/impl.h"
#include "spy/spy.h"

struct spied_level { /* of all configurations, in the order of their rows */
    const struct prof_input_caches *caches;
    size_t config;
    unsigned level;
    double miss_cycles;            /* what a miss counts for; only those of the first configuration are the stall */
    const struct cache_cell *cell; /* [cell_count], of all sets, as estimated */
    size_t cell_count;
};

struct spied_place { /* of a cell's site */
    uint32_t module; /* of j->modules; ID_NONE: not known */
    uint32_t func;   /* numbered through; ID_NONE: not known */
    uint32_t owner;  /* the m-object whose own code it is; ID_NONE: none */
    uint32_t block;  /* numbered through; ID_NONE: not known */
    uint32_t file;   /* id of its name */
    uint32_t line;   /* 0 not known */
};

struct spied {
    struct join *j;
    const struct prof_input_spied *in;
    struct spied_level *levels;
    uint32_t level_count, primary;
    const struct spy_cell *cells;
    size_t cell_count;
    uint64_t references;           /* of the program; PROF_UNKNOWN */
    uint64_t *cell_references;     /* [cell_count]; PROF_UNKNOWN */
    uint64_t *function_references; /* by number; whatever they reach */
    struct spied_place *place;     /* [cell_count] */
    double *stall;                 /* [cell_count] cycles */
    double stall_all;
    unsigned one_in;              /* of the sets one in so many was simulated */
    uint64_t windows, in_windows; /* samples of the run, and the references in them; 0: all of it was simulated */
    size_t part_count;            /* groups of sets, or samples; 0: neither */
    double *stall_parts[CACHE_READINGS]; /* [part_count] cycles of these; of groups of sets the first alone */
    struct prof_interval *memory_s;      /* [cell_count]; NULL: nothing was measured */
    const struct spied_group *groups;    /* [group_count] of the rows of objects */
    size_t group_count;
    uint32_t *object;                    /* by number of the caller's: its row; ID_NONE: it has none */
    uint64_t *false_misses, *false_held; /* by row of objects, of its lines: of false sharing; what both orders have */
    struct prof_data_miss *misses;       /* grows as rows are made */
    size_t miss_count, miss_cap;
};

/* Cells that are told together. */
struct spied_group {
    uint64_t key;
    const uint32_t *cells; /* [count] */
    size_t count;
    uint64_t references; /* PROF_UNKNOWN */
    double stall;
    struct prof_interval memory_s;
};

void spied_levels(struct spied *s);     /* levels.c: rows of caches, and the program's misses */
void spied_proofs(struct spied *s);     /* proofs.c: cells of what no reference came of; those below need them */
void spied_places(struct spied *s);     /* places.c */
void spied_stall(struct spied *s);      /* places.c; needs the levels */
void spied_references(struct spied *s); /* references.c */
const uint64_t *spied_told_by_site(const struct spied *s);
void spied_seconds(struct spied *s); /* seconds.c */
void spied_objects(struct spied *s); /* rows.c; those below need it */
void spied_curves(struct spied *s);  /* curves.c */
void spied_cells(struct spied *s);
void spied_lines(struct spied *s);
void spied_fields(struct spied *s);    /* fields.c */
void spied_processes(struct spied *s); /* processes.c */
void spied_evictors(struct spied *s);  /* evictors.c */
void spied_sharing(struct spied *s);   /* sharing.c */
void spied_pictures(struct spied *s);  /* pictures.c */
void spied_advice(struct spied *s);    /* advice.c */
struct spied_used { /* bytes, by a cell's references and by all that go through the object in the same steps */
    double of_line, of_step;
};
/* together.c: by position in the group, in scratch memory. */
const struct spied_used *spied_used_together(const struct spied *s, const struct spied_group *g);
bool spied_is_regular(const struct spy_cell *c); /* most of its references are equally far apart */
/* ahead.c: is the address of a cell's references known turns before? `list`: a cell that it is made of, which goes in
 * order. What is loaded beside that must not lose more than these cycles. */
bool spied_is_ahead(const struct spied *s, uint32_t cell, double hits_below, uint32_t *list);

/* groups.c: cells by key, those with most of the stall first; UINT64_MAX: in no group. */
typedef uint64_t (*spied_key)(const struct spied *s, uint32_t cell);
struct spied_group *spied_groups(struct spied *s, spied_key key, size_t *count);
/* Does it serve the data that come from the core? Of the filter only these know that something was left out. */
bool spied_is_nearest(const struct spied_level *l);                                 /* levels.c */
const struct prof_data_field *spied_field_of(const struct spied *s, uint32_t cell); /* fields.c; NULL: of none */
/* The rows of a group's misses. */
void spied_put_misses(struct spied *s, enum prof_data_owner owner, uint32_t id, const struct spied_group *g);
void spied_add_miss(struct spied *s, const struct prof_data_miss *row);
void spied_add_causes(struct prof_data_miss *row, const uint64_t causes[CACHE_CAUSE_COUNT]); /* groups.c */
struct prof_interval spied_share(const struct spied *s, const struct spied_group *g);        /* sampled.c */
/* sampled.c: what was found of some sets, or of some samples, for all */
static inline bool spied_is_part(const struct spied *s) { return s->one_in > 1 || s->windows; }
double spied_scale(const struct spied *s); /* all for what was simulated */
const struct cache_cell *spied_scaled(struct spied *s, const struct spied_level *l);
void spied_scale_row(const struct spied *s, struct prof_data_miss *row);         /* the program's */
void spied_scale_by(const struct cache_estimate *e, struct prof_data_miss *row); /* what e is of */
struct prof_data_miss spied_misses_of(const struct cache_counts *c);             /* levels.c: of the program */
void spied_estimate(const struct spied *s, uint32_t level, const uint32_t *cells, size_t count,
                    struct prof_data_miss *row); /* its interval; of no cells: of the program */
void spied_sum_parts(struct spied *s);           /* of the stall; needs the levels */
struct prof_interval spied_memory(const struct spied *s, const struct spied_group *g);

#endif
