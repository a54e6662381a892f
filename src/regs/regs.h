/* SPDX-License-Identifier: Apache-2.0
 *
 * regs: the register management studies of Wall (Link-time code modification, 1989, sections 4.1 and 4.6): references
 * to variables and a call graph into the loads and stores that registers would save, and what they would cost; and
 * which variables may have a register for the whole run. Knows numbers only.
 */
#ifndef MTOOL_REGS_H
#define MTOOL_REGS_H

#include "base/base.h"

/* Frequencies come twice: estimated, as a compiler would, and measured. */
enum regs_by { REGS_ESTIMATED, REGS_MEASURED, REGS_BY_COUNT };

struct regs_variable {
    uint32_t procedure; /* that it is local to; ID_NONE: a global variable or constant */
    double loads[REGS_BY_COUNT], stores[REGS_BY_COUNT];
};
struct regs_arc {            /* calls of one procedure by another */
    uint32_t caller, callee; /* callee ID_NONE: through a pointer */
    double calls[REGS_BY_COUNT];
};
struct regs_procedure {
    double calls;      /* measured */
    bool has_pointers; /* somebody may call it through a pointer */
};
struct regs_program { /* the caller's */
    const struct regs_procedure *procedures;
    const struct regs_variable *variables;
    const struct regs_arc *arcs; /* several may have the same ends */
    size_t procedure_count, variable_count, arc_count;
};

/* ---- allocate.c ---- */

/* All measured, whatever chose the variables. */
struct regs_allocation {
    unsigned registers;         /* given away, at most as many as asked for */
    size_t variables;           /* in them */
    size_t pseudo;              /* pseudo-registers that there were to choose from */
    double loads, stores;       /* removed */
    double recursive, indirect; /* loads inserted, and as many stores: around calls of a procedure that may be active
                                   already, and through pointers */
};
/* Interprocedural allocation. Globals and constants have a pseudo-register each. Locals share one if their procedures
 * are never active at the same time; of procedures that may call each other in a circle, all count as active. The
 * pseudo-registers most often used, by `by`, become registers. A call within such a circle saves and restores the
 * caller's locals; one through a pointer, those registers that locals of some procedure have which it may reach.
 * in_register: [variable_count] the register of each, ID_NONE none; may be NULL. */
struct regs_allocation regs_allocate(const struct regs_program *p, unsigned registers, enum regs_by by,
                                     uint32_t *in_register);

/* ---- promote.c: variables that are in a register for the whole run ---- */

enum { REGS_PROMOTION_REGISTERS = 16 };
struct regs_promotion_function {
    uint16_t uses;      /* registers that its instructions read or write */
    bool is_entered;    /* others than the callers that are known may call it; the root is not */
    bool returns_twice; /* calls setjmp, vfork or their like */
    bool is_unclear;    /* not all of its code is known */
};
struct regs_promotable {
    double weight;             /* references that the register saves, as often as they are executed; above 0 */
    const uint32_t *functions; /* that refer to it */
    size_t function_count;
};
struct regs_promotion { /* the caller's */
    const struct regs_promotion_function *functions;
    const struct regs_arc *arcs; /* direct calls and jumps; callee never ID_NONE; calls are not read */
    const struct regs_promotable *variables;
    size_t function_count, arc_count, variable_count;
    uint16_t kept; /* registers that every function gives back as they were */
    uint16_t free; /* registers that no instruction reads or writes */
};
enum regs_refusal {
    REGS_PROMOTED,
    REGS_REFUSED_UNCLEAR, /* the culprit, a function: as its fields above say */
    REGS_REFUSED_TWICE,
    REGS_REFUSED_ENTERED,
    REGS_REFUSED_BUSY, /* all registers are used by functions that refer to it or call such; the culprit uses the one
                          that fewest do; ID_NONE: there is no register that is kept */
    REGS_REFUSED_FEW,  /* heavier variables have the registers */
    REGS_REFUSAL_COUNT
};
struct regs_promoted {
    enum regs_refusal refusal;
    uint32_t culprit; /* function, ID_NONE */
    uint8_t reg;      /* that holds it; BUSY: that the culprit uses */
};
/* One register each to the variables of most weight that can have one together. out: [variable_count]. */
void regs_promote(const struct regs_promotion *p, struct regs_promoted *out);

/* ---- windows.c ---- */

struct regs_windows {
    unsigned windows; /* at least 2 */
    unsigned size;    /* locals that a window holds: those most often used, measured */
    unsigned at_once; /* windows that an overflow stores, and an underflow loads */
};
struct regs_traffic {
    double calls;     /* measured */
    double simulated; /* calls of the sequence that was simulated; what follows is scaled to all */
    double overflows, underflows;
    double loads, stores; /* removed: of locals in windows */
    double loads_inserted, stores_inserted;
    unsigned depth; /* the most that were active */
};
/* Register windows over a call sequence that is drawn from the measured arcs: each activation makes as many calls as
 * its procedure makes on average, in the order of the arcs, calls through pointers to procedures that have no other
 * caller enough. An estimate. A window is stored whole. */
struct regs_traffic regs_windows(const struct regs_program *p, const struct regs_windows *w, uint64_t seed);

#endif
