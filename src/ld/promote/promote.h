/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool promote: global variables into registers for the whole run. A first link keeps all relocations; its result
 * shows every reference to every variable and function (facts.c). What is decided of it (regs_promote) is written into
 * the second one, which is the build's own: instructions that had the variable as an operand in memory get the register
 * in its place, which takes less bytes, so that nothing moves (patch.c). A record in the file says what was done
 * (record.c).
 */
#ifndef MTOOL_LD_PROMOTE_PROMOTE_H
#define MTOOL_LD_PROMOTE_PROMOTE_H

#include "cfg/cfg.h"
#include "image/image.h"
#include "ld/ld.h"

#define PROMOTE_MAIN "mtool_promote_main"   /* symbols of the runtime, src/ldrt/promote.c: stands in for main */
#define PROMOTE_RECORD "mtool_promoted"     /* its section */
#define PROMOTE_ENTRY "mtool_promote_entry" /* stands in for the entry point */

/* ---- facts.c ---- */

struct promote_access { /* an instruction with a variable as its operand */
    uint64_t addr;
    uint32_t variable, function;
    bool loads, stores;
    double times; /* for one call of its function: ten for each loop around */
};
struct promote_variable {
    const char *name;
    uint64_t addr;
    uint64_t bytes;         /* 1, 2, 4, 8, unless `why` */
    const char *why;        /* it cannot be in a register, whatever the program does; NULL: it can */
    uint64_t loads, stores; /* instructions */
    double loads_estimated, stores_estimated;
};
struct promote_facts {
    struct arena *arena;
    struct image *img; /* not owned, as the next */
    struct cfg *cfg;
    VEC(struct promote_variable) variables;    /* by address; those that are referred to by instructions alone */
    VEC(struct promote_access) accesses;       /* by address */
    struct regs_promotion_function *functions; /* [cfg's] */
    const char **why_entered;                  /* [cfg's]: who may call it; NULL nobody but its callers */
    VEC(struct regs_arc) arcs;
    uint16_t kept, free;             /* as in regs_promotion */
    const char *lost[X86_GPR_COUNT]; /* why a register that calls should keep is not kept; NULL it is */
    uint64_t main_at; /* the instruction of the entry function that holds main's address; 0: the root is the entry */
    const char *why;  /* nothing can be promoted; NULL: something may */
};
/* Of a file that was linked with --emit-relocs. */
void promote_facts_find(struct image *img, struct cfg *cfg, struct promote_facts *out);
void promote_facts_fini(struct promote_facts *f);
const char *promote_function_name(const struct promote_facts *f, uint32_t function);

/* ---- record.c ---- */

struct strbuf;
void promote_record_put(const struct ld_promotion *p, struct strbuf *out);

/* ---- patch.c ---- */

/* Decides, in the arena of the facts; a table's lines. */
void promote_decide(const struct promote_facts *f, const struct ld_variables *counts, struct ld_promotion *out);
/* Writes what was decided into the file at PATH, whose code must be that of the facts. 0, or -1 with *why. */
int promote_patch(const struct promote_facts *f, const struct ld_promotion *p, const char *path, const char **why);

#endif
