/* SPDX-License-Identifier: Apache-2.0
 *
 * report/tour.h: the paper's way through a profile, for whoever paints it (the HTML page, the terminal): objects in
 * order, what is said of each, and which lines of source to show. Paints nothing.
 */
#ifndef MTOOL_REPORT_TOUR_H
#define MTOOL_REPORT_TOUR_H

#include "report/impl.h"
#include "report/source.h"

struct tour {
    const struct prof_result *r;
    const char *source_path;                  /* a folder to look for source in besides where the profile says, NULL */
    struct arena *a;                          /* as long as the tour */
    struct arena *texts;                      /* what the functions below return; the painter's, who may change it */
    struct arena *order;                      /* of the rows, until they are sorted anew */
    struct row_set rows;                      /* all objects in order, those not worth a row behind the others */
    size_t shown;                             /* of them those worth a row */
    struct map row_of;                        /* id -> index in rows */
    int decimals;                             /* of seconds */
    double whole_memory_s;                    /* of the program, NAN unknown */
    uint64_t samples;                         /* of all lines */
    double lines_s, lines_memory_s;           /* of all lines, of a described machine; NAN unknown */
    const struct prof_line **lines;           /* by file and line */
    const struct prof_data_line **data_lines; /* by file and line: what mtool spy found there */
    const struct prof_object **procedures;    /* by instruction: the outermost object that it is in, NULL unknown */
    VEC(const struct source *) sources;       /* each file that was looked for, once */
};

/* ---- tour.c ---- */

/* With decimals as the whole program needs them. */
void tour_init(struct tour *t, const struct prof_result *r, const char *source_path, struct arena *a);
void tour_fini(struct tour *t);
/* Order as in struct report_options, anew; `max` objects at most are shown, 0: any number. */
void tour_sort(struct tour *t, unsigned sort, size_t max);
void tour_turn_to_objects(struct tour *t); /* decimals as objects need them */
const struct prof_object *tour_parent(const struct tour *t, const struct prof_object *o); /* NULL: none */
const struct prof_object *tour_outermost(const struct tour *t, const struct prof_object *o);
const struct prof_object *tour_object(const struct tour *t, uint32_t id); /* NULL: none of the profile */
double tour_part(double s);                                               /* of a bar: unknown and below zero is 0 */
double tour_longest(const struct tour *t);                                /* seconds of the longest bar that is shown */

const char *tour_seconds(struct tour *t, double s);
/* "0.340 s (0.310..0.370)"; the value alone where no interval is known, NULL where nothing is. */
const char *tour_interval(struct tour *t, const struct prof_interval *s);
const char *tour_percent_interval(struct tour *t, const struct prof_interval *fraction); /* NULL likewise */
const char *tour_name(struct tour *t, const struct prof_object *o);                      /* brief */
const char *tour_place(struct tour *t, const struct prof_object *o);                     /* "gather.c:12-15" */
const char *tour_command(struct tour *t); /* the command line; not yet safe */

/* ---- facts.c ---- */

struct fact {
    const char *term; /* an entry of the glossary, NULL */
    const char *word;
    const char *text; /* not yet safe */
};
struct facts {
    struct fact list[24];
    size_t count;
};
/* Above the source: what the object loses, of the whole, for each memory operation, of its ideal time. Only what is
 * known. */
void facts_top(struct tour *t, const struct prof_object *o, struct facts *out);
void facts_info(struct tour *t, const struct prof_object *o, struct facts *out); /* INFO */

/* What the object calls itself, most memory operations first; how many. */
size_t facts_of_calls(struct tour *t, const struct prof_object *o, const struct prof_call **first);

/* The paper's Figure 6: how the memory operations are shared out between an object and the loops inside of it. */
struct facts_part {
    const struct prof_object *object; /* NULL: the object itself, alone */
    size_t row;                       /* of the object */
    uint64_t memory_ops;
    double share; /* of those of the object and all inside of it, NAN unknown */
    struct prof_interval memory_s;
};
/* How many; 0: nothing is inside. *out: in t->texts. */
size_t facts_of_parts(struct tour *t, const struct prof_object *o, const struct facts_part **out);

/* ---- excerpt.c: source around an object ---- */

const struct source *tour_source(struct tour *t, const char *name); /* read once; never NULL */
enum excerpt_state { EXCERPT_FOUND, EXCERPT_NO_LINES, EXCERPT_NO_FILE, EXCERPT_TOO_SHORT };
enum excerpt_line { EXCERPT_OUTSIDE, EXCERPT_INNER, EXCERPT_OWN };
struct excerpt {
    enum excerpt_state state;
    const struct prof_object *object;
    const struct source *source; /* NULL with EXCERPT_NO_LINES */
    uint32_t first, last; /* lines of its procedure if that has at most `max`, else of the object, and some around */
    VEC(const struct prof_object *) inner;
};
enum { EXCERPT_AROUND = 12 };
void excerpt_open(struct tour *t, const struct prof_object *o, uint32_t max, struct excerpt *out);
void excerpt_close(struct excerpt *x);
enum excerpt_line excerpt_belongs(const struct excerpt *x, uint32_t line);
const char *excerpt_problem(struct tour *t, const struct excerpt *x); /* a sentence, not yet safe; NULL: none */
const struct prof_line *tour_line(const struct tour *t, const char *file, uint32_t line); /* NULL: no figure is known */

/* The line's part of all samples, or of the time on a described machine; NAN: it has none. */
double tour_line_share(const struct tour *t, const struct prof_line *l);
const char *tour_share_word(const struct tour *t); /* "samples", "time" */

bool tour_has_stalls(const struct tour *t); /* some line has */
/* The line's part of the stall, of all data objects or on a described machine; NAN: nothing was found there. *objects:
 * "grid 62%, queue 13%", safe, in t->texts; may be NULL. */
double tour_stall(const struct tour *t, const char *file, uint32_t line, const char **objects);

/* ---- listing.c: instructions around an object ---- */

struct listing { /* of its procedure and all inside, as far as the profile has them, by address */
    const struct prof_object *object;
    const struct prof_insn **insns; /* in t->texts */
    size_t count;                   /* 0: none is known */
};
void listing_open(struct tour *t, const struct prof_object *o, struct listing *out);
enum excerpt_line listing_belongs(const struct tour *t, const struct listing *l, const struct prof_insn *insn);
bool listing_has_gap(const struct listing *l,
                     size_t i); /* before the i-th: code that was not executed, or is not known */

#define TOUR_NAME 90 /* columns of a name; INFO has the whole one */

#endif
