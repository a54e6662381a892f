/* SPDX-License-Identifier: Apache-2.0
 * What the files share that find a program's facts: facts.c, addresses.c, instructions.c. */
#ifndef MTOOL_LD_PROMOTE_FINDER_H
#define MTOOL_LD_PROMOTE_FINDER_H

#include "ld/promote/promote.h"

#define BIT(r) ((uint16_t)(1u << (r)))
enum { CALL_KEPT = BIT(X86_RBX) | BIT(X86_RBP) | BIT(X86_R12) | BIT(X86_R13) | BIT(X86_R14) | BIT(X86_R15) };

struct reloc { /* not a dynamic one */
    uint64_t at;
    uint32_t type;
    int64_t addend;
    const char *name; /* of its symbol, "" none */
    uint64_t addr, size;
    uint8_t sym_type;
    bool is_defined;
};
struct finder {
    struct promote_facts *f;
    const struct image *img;
    const struct cfg *c;
    VEC(struct reloc) relocs; /* by place */
    VEC(uint64_t) row_starts; /* of the function at hand: where its frame's description changes */
    struct map twice_at;      /* addresses of functions that return twice */
    struct map tolerated;     /* functions, plus 1, that give no register back and may */
    uint32_t main, entry;     /* functions, ID_NONE */
    unsigned main_refs;
};

/* ---- facts.c ---- */

bool promote_returns_twice(const char *function);
struct promote_variable *promote_variable_at(struct promote_facts *f, uint64_t addr); /* NULL: none */
void promote_refuse(struct promote_variable *v, const char *why);                     /* v may be NULL */
bool promote_may_hold_variables(const struct image_section *s);
/* `who`, others than its callers, may call it. */
void promote_enter(struct finder *s, uint32_t function, const char *who);
void promote_enter_at(struct finder *s, uint64_t addr, const char *who);

/* ---- addresses.c ---- */

void promote_read_relocs(struct finder *s);
bool promote_is_thread_local(uint32_t reloc_type);
/* Somebody makes the address. `r` is what made it, NULL none; `by`: a function, ID_NONE: data. */
void promote_take(struct finder *s, uint64_t addr, const struct reloc *r, uint32_t by, uint64_t at);
void promote_take_of_data(struct finder *s);

/* ---- instructions.c ---- */

void promote_take_function(struct finder *s, uint32_t function);
void promote_take_gaps(struct finder *s); /* code that belongs to no function */

#endif
