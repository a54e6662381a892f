/* SPDX-License-Identifier: Apache-2.0
 *
 * states: the language of programmable state machines (doc/states.md) into tables, and the tables run over events. It
 * knows no emulator: who has events asks for each instruction, once, which patterns can match it at all, and calls
 * states_step with those that did.
 */
#ifndef MTOOL_STATES_STATES_H
#define MTOOL_STATES_STATES_H

#include "base/base.h"

enum {
    STATES_PATTERNS_MAX = 64, /* bits of a mask */
    STATES_NAMED_MAX = 64,    /* counters and timers, together */
    STATES_STATES_MAX = 256,
    STATES_BYTES_MAX = 15,
    STATES_TRACE = 1 << 20 /* entries, unless the program says another number */
};
/* What the logic analyser of 1992 had (section 3.2 of the paper). */
enum { ANALYSER_PATTERNS = 8, ANALYSER_COUNTERS = 2, ANALYSER_STATES = 16, ANALYSER_TRACE = 512 << 10 };

enum states_access { STATES_NO_ACCESS, STATES_READ, STATES_WRITE, STATES_READ_OR_WRITE };
enum states_miss { STATES_MISS_NONE, STATES_MISS_FETCH, STATES_MISS_READ, STATES_MISS_WRITE, STATES_MISS_TLB };

struct states_range { /* first to last, both in it */
    uint64_t first, last;
};
struct states_name { /* a function, or several: the name ends in * */
    const char *text;
    unsigned line, column;           /* in the program */
    VEC(struct states_range) ranges; /* of the kernel's, once it is resolved */
};
/* All that is said must hold. */
struct states_pattern {
    const char *name;
    bool has_pc, has_in;
    VEC(struct states_name) pc, in; /* one of them; pc: where it begins */
    VEC(struct states_range) pc_ranges, in_ranges;
    int mode;                                                /* -1 any, 0 user, 1 kernel */
    int class;                                               /* -1 any, or the index in states_classes */
    unsigned byte_count;                                     /* 0: any */
    uint8_t bytes[STATES_BYTES_MAX], care[STATES_BYTES_MAX]; /* care: bits that count */
    int mark;                                                /* -1: not asked */
    const char *process;                                     /* NULL: any */
    enum states_access access;                               /* STATES_NO_ACCESS: the instruction itself is the event */
    bool has_address, has_physical;
    struct states_name address_name; /* of a symbol of the kernel, if `text` is not NULL */
    struct states_range address, physical;
    bool has_miss;
    enum states_miss miss;
};
extern const char *const states_classes[]; /* "nops", "jumps", ...: the ten of Table 1; ends in NULL */

enum states_do { STATES_COUNT, STATES_START, STATES_STOP, STATES_KEEP, STATES_TRIGGER, STATES_HALT };
struct states_action {
    uint8_t what, on; /* enum states_do; of a counter or timer */
};
enum { STATES_ACTIONS_MAX = 8 };
struct states_transition {
    uint8_t pattern;
    bool is_negated; /* taken where the pattern does not match */
    bool also;       /* looked at also if one before it was taken */
    uint8_t action_count;
    struct states_action actions[STATES_ACTIONS_MAX];
    int16_t next; /* -1: stays */
};
struct states_state {
    const char *name;
    VEC(struct states_transition) transitions;
};
struct states_named {
    const char *name;
    bool is_timer;
};
struct states_program {
    struct arena *arena;
    const char *name;
    bool each_process; /* the state and what runs are each process's own */
    bool has_trigger;
    uint64_t trace_max;
    VEC(struct states_pattern) patterns;
    VEC(struct states_named) named;
    VEC(struct states_state) states; /* begins in the first */
};

/* ---- parse.c ---- */

/* Of memory; `name` stands for it in messages. `analyser`: with the limits of 1992. NULL after one line that says line,
 * column and what is wrong. */
struct states_program *states_parse(const char *name, const char *text, size_t len, bool analyser);
void states_free(struct states_program *p);

/* ---- resolve.c ---- */

struct states_symbols {
    void *ctx;
    /* The i-th function, by address of the kernel's, and of user code by name alone (*range is empty: first > last).
     * False: there are no more. */
    bool (*function)(void *ctx, size_t i, const char **name, struct states_range *range);
    /* Another symbol of the kernel; false: there is none of that name. */
    bool (*symbol)(void *ctx, const char *name, uint64_t *address);
};
/* Gives names their addresses. 0, or -1 after one line: a name is nobody's; the nearest ones are told. */
int states_resolve(struct states_program *p, const struct states_symbols *s);

/* ---- match.c: which patterns an instruction can match ---- */

struct states_place {      /* an instruction, as it was translated */
    uint64_t pc, function; /* function: where it begins, 0 unknown */
    const char *function_name;
    const uint8_t *bytes;
    size_t len;
    unsigned classes; /* bits of states_classes: an instruction that loads and adds is of two */
    int mark;         /* -1: none */
    bool is_kernel;
};
struct states_masks {              /* bits of patterns */
    uint64_t sure, maybe;          /* of the instruction itself: match; do if the rest does */
    uint64_t access, access_maybe; /* of its accesses, likewise */
};
struct states_masks states_match(const struct states_program *p, const struct states_place *place);

struct states_event {           /* what a `maybe` is decided by */
    uint64_t address, physical; /* of an access; physical UINT64_MAX unknown */
    bool stores;
    bool missed_fetch, missed_data, missed_tlb;
};
/* Which of `maybe` match. processes: those patterns whose process runs. */
uint64_t states_decide(const struct states_program *p, uint64_t maybe, bool is_access, const struct states_event *e,
                       uint64_t processes);
uint64_t states_processes(const struct states_program *p, const char *process);
/* Transitions that look for what does not match need every instruction: whether there are any, of accesses too. */
bool states_needs_all(const struct states_program *p, bool accesses);
bool states_traces(const struct states_program *p); /* some transition of it keeps events */

/* ---- run.c ---- */

enum states_kind { /* of an event, for the trace */
#define KIND(id, letter, name) STATES_##id,
#include "wire/kinds.def"
#undef KIND
};
struct states_now {
    uint64_t instructions; /* completed before this event */
    double cycles;
    uint64_t pc, address, pid;
    uint64_t reached; /* where the caches are reached, and how many bytes there; of machines that trace alone */
    uint16_t bytes;
    uint8_t kind; /* enum states_kind */
};
struct states_timer {
    uint64_t instructions, intervals, least, most; /* instructions; least and most: of an interval */
    double cycles;
};
struct states_entry {
    uint64_t instructions, pc, address, pid, reached;
    uint16_t state, pattern, bytes;
    uint8_t kind;
};
struct states_machine; /* opaque; of a program, which must last */
struct states_machine *states_new(const struct states_program *p);
void states_delete(struct states_machine *m);
/* An event, of the patterns in `matched`. */
void states_step(struct states_machine *m, uint64_t matched, bool is_access, const struct states_now *now);
/* Another process runs. Of programs with `each process` its own state goes on, and the timers of the other wait. */
void states_switch(struct states_machine *m, uint64_t pid, const struct states_now *now);
void states_end(struct states_machine *m, const struct states_now *now); /* timers that run are stopped */
uint64_t states_counter(const struct states_machine *m, size_t named);
const struct states_timer *states_timer(const struct states_machine *m, size_t named);
/* *lost: those for which there was no room. */
const struct states_entry *states_trace(const struct states_machine *m, size_t *count, uint64_t *lost);
uint64_t states_steps(const struct states_machine *m); /* transitions that were taken */

/* ---- shipped.c ---- */

/* Name ("syscall-time") and text of the i-th ready program; NULL behind the last. */
const char *states_shipped(size_t i, const char **name);

#endif
