/* SPDX-License-Identifier: Apache-2.0
 * The state of the core model, which its stages share, and what they ask of each other. What nearly every step does is
 * inline: a call for each costs a tenth of the time. */
#ifndef MTOOL_SIM_CORE_H
#define MTOOL_SIM_CORE_H

#include "sim/impl.h"

enum {
    RING = 8192, /* cycles of the reservation tables; operations further away than that get their unit unseen */
    RING_MASK = RING - 1,
    STORES = 4096, /* remembered 8-byte pieces of stores */
    QUEUES = MACHINE_QUEUE_MAX,
    LEGACY_LINES = 4096,
    REP_UNKNOWN = 16
};

/* A resource with `size` slots, each given back at a known time: the reorder buffer, registers, queues. */
struct resource {
    int64_t *free_at;
    uint8_t *label; /* what the holder was bound by */
    uint32_t size, head;
};

struct stored {
    uint64_t piece; /* address / 8, plus 1 so that 0 is none */
    uint64_t addr;
    int64_t value_ready, in_cache;
    uint32_t insn; /* that stored */
    uint8_t bytes;
};

struct sim_core {
    const struct machine *m;
    const struct sim_insn *insns;
    size_t count;
    struct sim_cost *costs;
    double total;
    uint32_t warm_left, seed;

    /* registers */
    int64_t ready[X86_REG_COUNT];
    bool from_load[X86_REG_COUNT];
    uint16_t kind[X86_REG_COUNT];       /* of the operation that wrote it ... */
    int32_t bypass_late[X86_REG_COUNT]; /* ... and by how much later others have it */
    struct sim_values values;
    bool regs_true; /* all general registers are the program's */

    /* fetch */
    int64_t fetch_at, cycle_at, last_taken; /* cycle_at: when the cycle began in which this block is fetched */
    uint64_t fetch_block;
    double fetch_block_ops, fetch_block_max; /* instructions of it so far, and how many come at once */
    bool shared;                             /* its cycle is no more open for another piece */
    bool at_target;                          /* a taken branch led to it */
    bool redirected, legacy;
    uint64_t legacy_lines[LEGACY_LINES]; /* numbers of lines that are always fetched slowly, plus 1 */
    uint32_t jumped;                     /* the indirect jump that was just executed, or ID_NONE */
    uint64_t *targets;                   /* of each instruction: where it jumped to, a bit for each place (hashed) */
    uint32_t taken_last;                 /* the branch taken last, or ID_NONE */
    struct successor {
        uint32_t branch; /* that was taken after this one, plus 1 */
        bool again;      /* as the time before */
    } * successors;      /* of each instruction */

    /* dispatch */
    int64_t dispatch_at, start_delay; /* ticks */
    enum sim_bound dispatch_bound;
    uint32_t *jump_of;                         /* of each instruction: the jump that it was last fused with, plus 1 */
    uint32_t fused_first;                      /* the instruction that the next jump may fuse with, or ID_NONE */
    enum { EXCLUSIVE, OPEN, OPEN_NOP } before; /* may the instruction before share its slot, with a nop or as a nop? */
    int64_t renamed_at[2];                     /* zero idioms, moves: the cycle ... */
    double renamed[2];                         /* ... and how many of them so far */

    /* reservation tables, from cycle `now` on */
    int64_t now;
    uint64_t busy[MACHINE_PORT_MAX][RING / 64]; /* a bit for each cycle ... */
    uint32_t taken[RING];                       /* ... and the same by cycle, a bit for each port */
    uint32_t owed[MACHINE_PORT_MAX];            /* ticks that operations took less than what they occupy a unit for */
    uint32_t ending[RING];                      /* ports on which an operation has its last cycle then */
    uint16_t leaving[QUEUES][RING];
    uint8_t queue_of[MACHINE_PORT_MAX];
    uint32_t waiting[QUEUES], pending[MACHINE_PORT_MAX], latched_pending[MACHINE_PORT_MAX];
    int64_t latched_at;
    float demand[MACHINE_PORT_MAX];     /* how many sets of ports ask for it, each in parts */
    unsigned last_of[MACHINE_PORT_MAX]; /* given last of a group that begins with this port */

    struct resource reorder, int_regs, vec_regs, loads, stores, fetched;
    struct stored stored[STORES];
    int64_t drained_at;    /* when the last store so far leaves for the cache ... */
    uint64_t drained_line; /* ... and for which line */
    uint32_t *stored_by;   /* of each instruction: the store that it took its value from last, plus 1 */

    /* retirement */
    int64_t retired_at, retire_step, charged_to;
    enum sim_bound blocker;
    uint8_t blocker_unit;
};

/* What one step finds out about its instruction. */
struct timing {
    uint64_t load_addr, store_addr;
    int64_t earliest;          /* start, by dispatch */
    int64_t done, value_ready; /* value_ready: for a store */
    enum sim_bound bound;
    uint8_t unit;
    enum {
        SLOT_OWN,
        SLOT_SHARED,
        SLOT_FUSED
    } slot; /* shared: with an instruction beside it; fused: with the comparison before it */
};

static inline int64_t whole_cycle(int64_t t) { return (t + TICK - 1) & ~(int64_t)(TICK - 1); }

static inline int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* When the next slot is free. */
static inline int64_t resource_free_at(const struct resource *p) { return p->size ? p->free_at[p->head] : 0; }

static inline void resource_take(struct resource *p, int64_t free_at, enum sim_bound why)
{
    if (!p->size)
        return;
    p->free_at[p->head] = free_at;
    p->label[p->head] = (uint8_t)why;
    p->head = p->head + 1 == p->size ? 0 : p->head + 1;
}

static inline void note_wait(struct timing *t, int64_t start, int64_t ready, bool from_load, uint8_t unit)
{
    if (unit != 255 && start > ready) {
        t->bound = SIM_BOUND_UNIT;
        t->unit = unit;
    } else if (ready > t->earliest) {
        t->bound = from_load ? SIM_BOUND_LOAD : SIM_BOUND_CHAIN;
    }
}

static inline struct sim_use longer(struct sim_use u, double cycles)
{
    int64_t all = u.busy * TICK + u.part + ticks(cycles);
    u.busy = (uint16_t)(all >> TICK_SHIFT);
    u.part = (uint16_t)(all & (TICK - 1));
    return u;
}

static inline void stall(struct sim_core *c, int64_t until, enum sim_bound why)
{
    if (until <= c->dispatch_at)
        return;
    c->dispatch_at = whole_cycle(until);
    c->dispatch_bound = why;
}

/* ---- fetch.c ---- */

/* When the front end has this instruction. */
int64_t core_fetch(struct sim_core *c, const struct sim_insn *i, bool fused);
/* A branch, taken or mispredicted, that was executed at `done`. */
void core_after_branch(struct sim_core *c, const struct sim_insn *i, uint32_t flags, int64_t done);
/* The instruction is the first behind a jump: if that was indirect, its target is known now. */
void core_find_target(struct sim_core *c, uint32_t index);
static inline void find_target(struct sim_core *c, uint32_t index)
{
    if (c->jumped != ID_NONE)
        core_find_target(c, index);
}

/* ---- dispatch.c ---- */

/* Sets t->slot, earliest and bound. */
void core_dispatch(struct sim_core *c, const struct sim_insn *i, struct timing *t);

/* ---- issue.c ---- */

/* What starts and ends before this tick makes room in the schedulers. */
void core_pass_until(struct sim_core *c, int64_t tick);
static inline void pass_until(struct sim_core *c, int64_t tick)
{
    if (c->now < tick >> TICK_SHIFT)
        core_pass_until(c, tick);
}

static inline bool has_room(const struct sim_core *c, uint8_t queue)
{
    return queue >= QUEUES || c->waiting[queue] < c->m->queues[queue].size;
}

/* Of units behind several schedulers: those whose scheduler takes one more. */
static inline uint32_t ports_with_room(const struct sim_core *c, uint32_t ports)
{
    uint32_t found = 0;
    for (; ports; ports &= ports - 1)
        if (has_room(c, c->queue_of[__builtin_ctz(ports)]))
            found |= ports & -ports;
    return found;
}

/* Gives an operation its unit and its start, not before tick `ready`. Returns the start in ticks; *unit: the port that
 * it had to wait for, 255 none. */
int64_t core_start_on(struct sim_core *c, const struct sim_use *u, int64_t ready, uint8_t *unit);

/* ---- execute.c ---- */

static inline int64_t operands_ready(const struct sim_core *c, const struct sim_insn *i, bool *from_load)
{
    int64_t t = 0;
    for (unsigned k = 0; k < i->shape->read_count; k++) {
        uint8_t r = i->shape->reads[k];
        bool is_late = c->kind[r] != i->shape->kind && !(i->shape->flags & INSN_MOVED),
             is_flags = r == X86_REG_FLAGS_C || r == X86_REG_FLAGS_ZAPS;
        int64_t at = c->ready[r] + (is_late ? c->bypass_late[r] : 0) + (is_flags ? i->shape->flags_late : 0);
        if (at <= t)
            continue;
        t = at;
        *from_load = c->from_load[r];
    }
    return t;
}

static inline void write_results(struct sim_core *c, const struct sim_insn *i, int64_t result)
{
    const uint8_t *from =
        i->shape->flags & INSN_MOVED && i->shape->read_count ? i->shape->reads : NULL; /* renamed: the result itself */
    for (unsigned k = 0; k < i->shape->write_count; k++) {
        c->ready[i->shape->writes[k]] = result + (k == i->shape->second ? i->shape->second_late : 0);
        c->from_load[i->shape->writes[k]] = i->shape->flags & INSN_LOAD_RESULT;
        c->kind[i->shape->writes[k]] = from ? c->kind[from[0]] : i->shape->kind;
        c->bypass_late[i->shape->writes[k]] = from ? c->bypass_late[from[0]] : i->shape->bypass_late;
    }
}

/* Runs the parts; returns when the value for a store is ready. */
int64_t core_execute(struct sim_core *c, const struct sim_insn *i, uint32_t flags, struct timing *t);
/* A rep string instruction holds up dispatch while it runs. */
int64_t core_run_rep(struct sim_core *c, const struct sim_insn *i, uint32_t flags, struct timing *t);

/* ---- memory.c ---- */

static inline int64_t address_ready(const struct sim_core *c, const struct sim_insn *i, bool *from_load)
{
    int64_t t = 0;
    for (unsigned k = 0; k < i->shape->addr_count; k++) {
        uint8_t r = i->shape->addr_regs[k];
        int64_t late =
            ticks(c->from_load[r] ? c->m->address_latency_load : c->m->address_latency) - i->shape->address_late;
        int64_t at = c->ready[r] + later(late, 0); /* load_latency has the rest already */
        if (c->ready[r] && at > t) {
            t = at;
            *from_load = c->from_load[r];
        }
    }
    return t;
}

/* When the loaded value is there. */
int64_t core_run_load(struct sim_core *c, const struct sim_insn *i, struct timing *t);
/* Value and address go to the store queue apart. Returns when both are there. */
int64_t core_run_store(struct sim_core *c, const struct sim_insn *i, int64_t value, struct timing *t,
                       int64_t *value_ready);
/* A retired store leaves for the cache, and can be forwarded from until it is there. */
void core_commit_store(struct sim_core *c, const struct sim_insn *i, const struct timing *t);

/* ---- retire.c ---- */

/* `span` ticks more are this instruction's. */
void core_charge(struct sim_core *c, uint32_t index, int64_t span, const struct timing *t);
void core_retire(struct sim_core *c, uint32_t index, const struct sim_insn *i, struct timing *t);

/* ---- inorder.c ---- */

void core_step_in_order(struct sim_core *c, uint32_t index, const struct sim_insn *i, uint32_t flags, struct timing *t);

#endif
