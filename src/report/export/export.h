/* SPDX-License-Identifier: Apache-2.0
 *
 * report/export/export.h: what the exporters share: objects by their ids, names and places as other tools show them,
 * and seconds as whole numbers.
 */
#ifndef MTOOL_REPORT_EXPORT_EXPORT_H
#define MTOOL_REPORT_EXPORT_EXPORT_H

#include "report/impl.h"

struct tree { /* objects by id */
    struct map by_id;
    const struct prof_result *result;
};
void tree_init(struct tree *t, const struct prof_result *r);
void tree_fini(struct tree *t);
const struct prof_object *tree_parent(const struct tree *t, const struct prof_object *o); /* NULL: none */
/* The procedure that `o` is in, itself if it is one, else the outermost that is known. */
const struct prof_object *tree_outermost(const struct tree *t, const struct prof_object *o);

/* "INNER (inlined in OUTER)" is taken apart; other names are OUTER, and *inner NULL. Demangled and safe, in `a`. */
const char *export_function(struct arena *a, const char *function, const char **inner);
/* "loop at gather.c:12", "piece at 0x1180"; for procedures NULL. Safe, in `a`. */
const char *export_label(struct arena *a, const struct prof_object *o);
const char *export_module(struct arena *a, const char *module); /* last part of the path, safe */

/* Seconds in units of 1 / per_second, rounded; 0 if unknown. */
int64_t export_signed(double seconds, double per_second);
uint64_t export_unsigned(double seconds, double per_second); /* a gain is 0 too */
uint64_t export_count(uint64_t n);                           /* unknown is 0 */

/* Of a text, or of several if each begins with the hash of the one before. */
#define EXPORT_HASH 0xcbf29ce484222325u
uint64_t export_hash(uint64_t hash, const char *text);

struct stack_frame {
    const char *name, *file; /* safe; file NULL unknown */
    uint32_t line;           /* 0 unknown */
};
struct stacks { /* a stack an object: module, function, loops, outermost first; in the objects' order */
    VEC(struct stack_frame) frames;
    VEC(uint32_t) ids;     /* frames of all stacks, one stack behind the other */
    VEC(uint32_t) lengths; /* of each */
    struct map by_text;
    struct arena *arena;
};
void stacks_build(struct stacks *s, const struct prof_result *r, struct arena *a);
void stacks_fini(struct stacks *s);

#define EXPORT(id, name, text)                                                                                         \
    void export_##id(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out);
#include "report/export/exports.def"
#undef EXPORT

#endif
