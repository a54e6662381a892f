/* SPDX-License-Identifier: Apache-2.0
 *
 * objects/selection.h: what the files of the selection share.
 */
#ifndef MTOOL_OBJECTS_SELECTION_H
#define MTOOL_OBJECTS_SELECTION_H

#include "objects/overlap.h"

#define COST_SHARE 0.01 /* of an object's time, and of the program's: what probes may cost */

struct candidate_detail {
    double worth; /* memory operations that no object inside of it measures */
    const char
        *rule; /* by which it is estimable, or why it is not; NULL: it calls nothing, or what works for it alone */
    struct cover_part part;
};

struct made {
    struct prof_candidate o;
    struct cover_part part;
};

struct unprobed { /* what the user wants no probe to time */
    struct cover_part part;
    const char *name;
};

struct selection {
    struct join *j;
    struct graph graph;
    bool *requested; /* by object */
    uint8_t *inside; /* by block of a module: of the region that is looked at */
    VEC(struct prof_candidate) out;
    VEC(struct candidate_detail) details; /* of each candidate */
    VEC(struct unprobed) unprobed;
    uint8_t *procedure_search; /* by procedure */
    struct cover *cover;
    const struct chains *chains; /* NULL: not known */
    double probe_s;
    double left_s;                      /* that probes may still cost */
    double samples_worth, cycles_worth; /* what has so many, or is predicted so many, is searched whatever it holds */
};

struct procedure_search { /* a procedure while it is searched */
    struct join_module *m;
    uint32_t func;
    double memory_ops;
    uint32_t *owner;  /* by block, from the procedure's first: innermost loop that is a candidate */
    double *measured; /* by loop, from the procedure's first, then the procedure: memory operations in objects inside of
                         it */
    uint32_t *order;  /* loops, the deepest first */
    uint32_t order_count;
};

struct ranked {
    uint32_t module, func;
    uint64_t memory_ops;
};
struct ranks {
    VEC(struct ranked) v; /* most memory operations first */
};

/* ---- candidate.c ---- */
struct made select_make(struct selection *s, struct join_module *m, enum prof_kind kind, const struct region *all,
                        const struct region *own);
void select_put(struct selection *s, struct made *made, double worth);

/* ---- search.c ---- */
void select_consider_all_marked(struct selection *s);
void select_find_owners(struct selection *s, struct procedure_search *p);
struct region select_region_of(const struct selection *s, const struct procedure_search *p, uint32_t loop, bool own);
bool select_is_long(const struct prof_candidate *o);
uint32_t select_cut(struct selection *s, const struct procedure_search *p, const struct region *own);
void select_rank_all(struct selection *s, struct ranks *all);
void select_search_first(struct selection *s, const struct ranks *all);
void select_pass_over_rest(struct selection *s, const struct ranks *all);

/* ---- unprobed.c ---- */
void select_find_unprobed(struct selection *s);
void select_keep_unprobed(struct selection *s, size_t candidate);

/* ---- cost.c ---- */
void select_keep_to_budget(struct selection *s);

/* ---- callers.c ---- */
void select_compare_taken(struct selection *s);
void select_cover_the_rest(struct selection *s);

#endif
