/* SPDX-License-Identifier: Apache-2.0
 *
 * The core model: a stream of prepared instructions to cycles. It walks the stream once, in program order, and gives
 * every instruction its times of fetch, dispatch, start, end and retirement; what is shared (units, schedulers, the
 * reorder buffer, registers, queues of loads and stores) is kept as calendars of cycles, so that an instruction may
 * start before older ones. An older instruction always has its place on a unit before a younger one asks. Every access
 * hits the first-level cache; branches are predicted unless the caller says otherwise.
 * The time between an instruction's retirement and that of the one before is charged to it: the charges add up. */
#include "sim/impl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum {
    RING = 8192, /* cycles of the calendars; operations further away than that get their unit unseen */
    RING_MASK = RING - 1,
    STORES = 4096, /* remembered 8-byte pieces of stores */
    QUEUES = MACHINE_QUEUE_MAX,
    SLOW_LINES = 4096,
    REP_UNKNOWN = 16
};

/* A resource with `size` places, each given back at a known time: the reorder buffer, registers, queues. */
struct places {
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
    uint32_t warm_left;

    /* registers */
    int64_t ready[X86_REG_COUNT];
    bool from_load[X86_REG_COUNT];
    uint16_t kind[X86_REG_COUNT];          /* of the operation that wrote it ... */
    int32_t elsewhere_late[X86_REG_COUNT]; /* ... and by how much later others have it */
    struct sim_values values;
    bool regs_true; /* all general registers are the program's */

    /* fetch */
    int64_t fetch_at, cycle_at, last_taken; /* cycle_at: when the cycle began in which this window is fetched */
    uint64_t window;
    double window_ops, window_most; /* instructions of it so far, and how many come at once */
    bool shared;                    /* its cycle is no more open for another piece */
    bool at_target;                 /* a taken branch led to it */
    bool redirected, slow;
    uint64_t slow_lines[SLOW_LINES]; /* numbers of lines that are always fetched slowly, plus 1 */
    uint32_t jumped;                 /* the indirect jump that was just executed, or ID_NONE */
    uint64_t *targets;               /* of each instruction: where it jumped to, a bit for each place (hashed) */
    uint32_t taken_last;             /* the branch taken last, or ID_NONE */
    struct successor {
        uint32_t branch; /* that was taken after this one, plus 1 */
        bool again;      /* as the time before */
    } * successors;      /* of each instruction */

    /* dispatch */
    int64_t dispatch_at, start_delay; /* ticks */
    enum sim_bound dispatch_bound;
    uint32_t *jump_of;                     /* of each instruction: the jump that it was last fused with, plus 1 */
    uint32_t fused_first;                  /* the instruction that the next jump may fuse with, or ID_NONE */
    enum { ALONE, OPEN, OPEN_NOP } before; /* may the instruction before share its slot, with a nop or as a nop? */
    int64_t renamed_at[2];                 /* zero idioms, moves: the cycle ... */
    double renamed[2];                     /* ... and how many of them so far */

    /* calendars, from cycle `now` on */
    int64_t now;
    uint64_t busy[MACHINE_PORT_MAX][RING / 64]; /* a bit for each cycle ... */
    uint32_t taken[RING];                       /* ... and the same by cycle, a bit for each port */
    uint32_t owed[MACHINE_PORT_MAX];            /* ticks that operations took less than what they occupy a unit for */
    uint32_t ending[RING];                      /* ports on which an operation has its last cycle then */
    uint16_t leaving[QUEUES][RING];
    uint8_t queue_of[MACHINE_PORT_MAX];
    uint32_t waiting[QUEUES], pending[MACHINE_PORT_MAX], seen_pending[MACHINE_PORT_MAX];
    int64_t seen_at;
    float demand[MACHINE_PORT_MAX];     /* how many sets of ports ask for it, each in parts */
    unsigned last_of[MACHINE_PORT_MAX]; /* given last of a group that begins with this port */

    struct places reorder, int_regs, vec_regs, loads, stores, fetched;
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
    int64_t dispatched, earliest; /* earliest start, by dispatch */
    int64_t done;
    enum sim_bound bound;
    uint8_t unit;
};

const char *sim_bound_name(enum sim_bound b)
{
    static const char *const names[] = {"width", "fetch", "chain", "load", "unit"};
    return b < SIM_BOUND_COUNT ? names[b] : "?";
}

static int64_t whole_cycle(int64_t t) { return (t + TICK - 1) & ~(int64_t)(TICK - 1); }
static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- places ---- */

static void places_init(struct places *p, double size)
{
    p->size = size > 0 ? (uint32_t)size : 0;
    p->free_at = p->size ? xmalloc(p->size * sizeof *p->free_at) : NULL;
    p->label = p->size ? xmalloc(p->size) : NULL;
}

static void places_reset(struct places *p)
{
    if (p->size)
        memset(p->free_at, 0, p->size * sizeof *p->free_at);
    p->head = 0;
}

static void places_fini(struct places *p)
{
    free(p->free_at);
    free(p->label);
}

/* When the next place is free. */
static int64_t places_free(const struct places *p) { return p->size ? p->free_at[p->head] : 0; }

static void places_take(struct places *p, int64_t free_at, enum sim_bound why)
{
    if (!p->size)
        return;
    p->free_at[p->head] = free_at;
    p->label[p->head] = (uint8_t)why;
    p->head = p->head + 1 == p->size ? 0 : p->head + 1;
}

/* ---- calendars ---- */

static void pass_cycle(struct sim_core *c)
{
    uint32_t slot = (uint32_t)c->now & RING_MASK;
    for (uint32_t ports = c->ending[slot]; ports; ports &= ports - 1)
        c->pending[__builtin_ctz(ports)]--;
    c->ending[slot] = 0;
    for (size_t q = 0; q < c->m->queue_count && q < QUEUES; q++) {
        c->waiting[q] -= c->leaving[q][slot];
        c->leaving[q][slot] = 0;
    }
    if ((slot & 63) == 63) {
        for (unsigned p = 0, n = machine_port_count(c->m); p < n; p++)
            c->busy[p][slot / 64] = 0;
        memset(&c->taken[slot - 63], 0, 64 * sizeof c->taken[0]);
    }
    c->now++;
}

static void pass_until(struct sim_core *c, int64_t tick)
{
    while (c->now < tick >> TICK_SHIFT)
        pass_cycle(c);
}

/* First cycle >= t in which the port is free. */
static int64_t find_free(const struct sim_core *c, unsigned port, int64_t t)
{
    const uint64_t *bits = c->busy[port];
    for (int64_t end = c->now + RING - 64; t < end;) {
        uint32_t slot = (uint32_t)t & RING_MASK;
        uint64_t open = ~(bits[slot / 64] >> (slot & 63));
        unsigned skip = open ? (unsigned)__builtin_ctzll(open) : 64, left = 64 - (slot & 63);
        if (skip < left)
            return t + skip;
        t += left;
    }
    return t;
}

/* Takes the next `busy` free cycles from t on. They need not be in one piece: an older operation may have its cycles,
 * which it got before it was ready, in between; the real unit would have made it wait. */
static void occupy(struct sim_core *c, unsigned port, int64_t t, unsigned busy)
{
    for (int64_t end = c->now + RING - 64; busy > 0 && t < end; busy--) {
        uint32_t slot = (uint32_t)t & RING_MASK;
        c->busy[port][slot / 64] |= 1ull << (slot & 63);
        c->taken[slot] |= 1u << port;
        if (busy > 1)
            t = find_free(c, port, t + 1);
    }
}

/* The port with the fewest operations before it when this cycle began; of equals another one each time.
 */
static unsigned least_pending(struct sim_core *c, uint32_t ports)
{
    if (c->seen_at != c->now) {
        c->seen_at = c->now;
        memcpy(c->seen_pending, c->pending, sizeof c->seen_pending);
    }
    unsigned *last = &c->last_of[__builtin_ctz(ports)];
    uint32_t least = UINT32_MAX;
    for (; ports; ports &= ports - 1) { /* of equals the one behind the last, and round */
        unsigned p = (unsigned)__builtin_ctz(ports);
        uint32_t rank = c->seen_pending[p] << 5 | ((p - *last - 1) & 31);
        least = rank < least ? rank : least;
    }
    return *last = (least + *last + 1) & 31;
}

/* The one that the fewest operations are bound to: those need the others. */
static unsigned least_demanded(const struct sim_core *c, uint32_t ports)
{
    unsigned best = (unsigned)__builtin_ctz(ports);
    for (ports &= ports - 1; ports; ports &= ports - 1) {
        unsigned p = (unsigned)__builtin_ctz(ports);
        best = c->demand[p] < c->demand[best] ? p : best;
    }
    return best;
}

/* Of those free first the least demanded one. */
static int64_t first_free_port(const struct sim_core *c, uint32_t ports, int64_t t, unsigned *port)
{
    int64_t best = INT64_MAX;
    uint32_t free_now = t < c->now + RING - 64 ? ports & ~c->taken[t & RING_MASK] : ports;
    if (free_now) {
        *port = least_demanded(c, free_now);
        return t;
    }
    for (; ports; ports &= ports - 1) {
        unsigned p = (unsigned)__builtin_ctz(ports);
        int64_t s = find_free(c, p, t);
        if (s < best || (s == best && c->demand[p] < c->demand[*port])) {
            best = s;
            *port = p;
        }
    }
    return best;
}

/* Each set of ports that some operation chooses from asks for each of them the more, the smaller it is. Tells nothing
 * of the order in which a description names its units. */
static void find_demand(struct sim_core *c)
{
    uint32_t seen[128];
    size_t n = 0;
    for (size_t i = 0; i < c->m->class_count; i++)
        for (unsigned u = 0; u < c->m->classes[i].use_count; u++) {
            uint32_t ports = c->m->classes[i].uses[u].ports;
            size_t k = 0;
            while (k < n && seen[k] != ports)
                k++;
            if (k < n || n == ARRAY_LEN(seen))
                continue;
            seen[n++] = ports;
            for (uint32_t rest = ports; rest; rest &= rest - 1)
                c->demand[__builtin_ctz(rest)] += 1.0F / (float)__builtin_popcount(ports);
        }
}

static bool has_room(const struct sim_core *c, uint8_t queue)
{
    return queue >= QUEUES || c->waiting[queue] < c->m->queues[queue].size;
}

/* Of units behind several schedulers: those whose scheduler takes one more. */
static uint32_t ports_with_room(const struct sim_core *c, uint32_t ports)
{
    uint32_t found = 0;
    for (; ports; ports &= ports - 1)
        if (has_room(c, c->queue_of[__builtin_ctz(ports)]))
            found |= ports & -ports;
    return found;
}

static uint32_t ring_slot(const struct sim_core *c, int64_t t)
{
    return (uint32_t)(t < c->now + RING - 64 ? t : c->now + RING - 65) & RING_MASK;
}

/* Gives an operation its unit and its start, not before tick `ready`. Returns the start in ticks. */
static int64_t start_on(struct sim_core *c, const struct sim_use *u, int64_t ready, uint8_t *unit)
{
    int64_t t = whole_cycle(ready) >> TICK_SHIFT;
    unsigned port = 0;
    int64_t s;
    uint32_t ports = u->queue == QUEUE_SEVERAL ? ports_with_room(c, u->ports) : u->ports;
    ports = ports ? ports : u->ports; /* another part of this instruction took the last place */
    if (c->m->bind_at_dispatch > 0) {
        port = least_pending(c, ports);
        s = find_free(c, port, t);
    } else {
        s = first_free_port(c, ports, t, &port);
    }
    c->owed[port] += u->part;
    unsigned busy = u->busy + (c->owed[port] >= TICK);
    c->owed[port] &= TICK - 1;
    occupy(c, port, s, busy);
    uint32_t slot = ring_slot(c, s), last = ring_slot(c, s + busy - 1);
    if (!(c->ending[last] >> port & 1)) {
        c->ending[last] |= 1u << port;
        c->pending[port]++;
    }
    uint8_t queue = u->queue == QUEUE_SEVERAL ? c->queue_of[port] : u->queue;
    if (queue < QUEUES) {
        c->leaving[queue][slot]++;
        c->waiting[queue]++;
    }
    *unit = s > t ? (uint8_t)port : 255;
    return s << TICK_SHIFT;
}

/* ---- fetch ---- */

/* Windows and lines are powers of two nearly always. */
static uint64_t block_of(uint64_t addr, uint64_t bytes)
{
    return bytes & (bytes - 1) ? addr / bytes : addr >> __builtin_ctzll(bytes);
}

static bool starts_window(const struct sim_core *c, uint64_t window) { return c->redirected || window != c->window; }

/* Does a branch, with the comparison that it is fused with, touch the boundary that the fetch is slow at? */
static bool crosses(const struct sim_core *c, const struct sim_insn *i, bool fused)
{
    uint64_t boundary = (uint64_t)c->m->cross_boundary;
    uint64_t first = fused ? c->insns[c->fused_first].addr : i->addr;
    return boundary && block_of(first, boundary) != block_of(i->addr + i->len, boundary);
}

static uint64_t *slow_line(struct sim_core *c, uint64_t line) { return &c->slow_lines[line & (SLOW_LINES - 1)]; }

/* Lines with such a branch are kept out of the operation cache: what enters one is decoded anew, piece by piece, until
 * a branch leads elsewhere. */
static void watch_slow(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    uint64_t line = block_of(i->addr, (uint64_t)c->m->cross_boundary) + 1;
    if (i->flags & INSN_BRANCH && crosses(c, i, fused)) {
        uint64_t from = fused ? c->insns[c->fused_first].addr : i->addr;
        uint64_t first = block_of(from, (uint64_t)c->m->cross_boundary) + 1;
        *slow_line(c, first) = first;
        line = first;
    }
    if (c->slow || *slow_line(c, line) != line)
        return;
    c->slow = true;
    c->window = UINT64_MAX;
    if (!c->redirected)
        c->cycle_at = c->fetch_at += ticks(c->m->slow_switch);
}

/* May what begins now be fetched in the cycle of what came before? Two pieces of few instructions are: of windows that
 * follow each other, or of a branch and its target. The branch that ends the second is then predicted together with the
 * one that ended the first: it must be the same as the last time. */
static bool shares_cycle(const struct sim_core *c)
{
    if (c->slow || c->shared || c->window_ops > c->m->fetch_share)
        return false;
    return !c->redirected || (c->taken_last != ID_NONE && c->successors[c->taken_last].again);
}

/* `each`: ticks that a window takes. */
static void begin_window(struct sim_core *c, uint64_t window, int64_t each)
{
    const struct machine *m = c->m;
    bool shares = shares_cycle(c);
    c->cycle_at = later(c->cycle_at, c->fetch_at - TICK) + (shares ? ticks(m->fetch_pair) - TICK : each);
    c->fetch_at = later(later(c->fetch_at, c->cycle_at), c->last_taken);
    c->cycle_at = later(c->cycle_at, c->fetch_at - TICK);
    c->window_most = c->slow         ? m->slow_ops
                     : !shares       ? m->fetch_ops
                     : c->redirected ? m->fetch_share
                                     : m->fetch_ops - c->window_ops;
    c->shared = shares;
    c->at_target = c->redirected;
    c->redirected = false;
    c->window = window;
    c->window_ops = 0;
}

/* More instructions of one window than come at once: in a further cycle. */
static void go_on(struct sim_core *c)
{
    const struct machine *m = c->m;
    bool was_second = !c->slow && c->window_most < m->fetch_ops; /* it does not fit beside the first piece */
    double cycles = c->slow || was_second ? 1 : m->fetch_extra + (c->at_target ? m->fetch_first : 0);
    c->cycle_at += ticks(cycles);
    c->fetch_at = later(c->fetch_at, c->cycle_at);
    c->window_ops = was_second ? c->window_ops : 1;
    c->window_most = c->slow ? m->slow_ops : m->fetch_ops;
    c->shared = true;
    c->at_target = false;
}

/* When the front end has this instruction. A taken branch ends its window. */
static int64_t fetch(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    const struct machine *m = c->m;
    if (c->redirected)
        c->slow = false;
    if (m->cross_boundary > 0)
        watch_slow(c, i, fused);
    double bytes = c->slow ? m->slow_bytes : m->fetch_window;
    uint64_t window = bytes > 0 ? block_of(c->slow ? i->addr + i->len - 1 : i->addr, (uint64_t)bytes) : 0;
    c->fetch_at = later(c->fetch_at, places_free(&c->fetched));
    if (starts_window(c, window)) {
        uint64_t pieces = c->slow && !c->redirected && window - c->window < 3 ? window - c->window : 1;
        begin_window(c, window, bytes <= 0 ? 0 : (int64_t)pieces * (c->slow ? TICK : ticks(1 / m->fetch_windows)));
    }
    if ((c->slow || !fused) && ++c->window_ops > c->window_most && c->window_most > 0)
        go_on(c);
    return c->fetch_at;
}

static double interval_after(const struct machine *m, const struct sim_insn *i)
{
    double t = m->taken_interval;
    if (i->flags & INSN_CALL)
        t = m->call_interval;
    else if (i->flags & INSN_RET)
        t = m->ret_interval;
    if (i->flags & INSN_INDIRECT && !(i->flags & INSN_RET) && m->indirect_interval > t)
        t = m->indirect_interval;
    return t;
}

static void remember_taken(struct sim_core *c, uint32_t branch)
{
    if (c->taken_last != ID_NONE) {
        struct successor *s = &c->successors[c->taken_last];
        s->again = s->branch == branch + 1;
        s->branch = branch + 1;
    }
    c->taken_last = branch;
}

static void after_branch(struct sim_core *c, const struct sim_insn *i, uint32_t flags, int64_t done)
{
    bool waits = c->m->indirect_waits > 0 && i->flags & INSN_INDIRECT && !(i->flags & INSN_RET);
    if (flags & SIM_MISPREDICTED || waits)
        c->fetch_at = later(c->fetch_at, done + ticks(waits ? c->m->indirect_interval : c->m->mispredict));
    if (!(flags & (SIM_TAKEN | SIM_MISPREDICTED)))
        return;
    remember_taken(c, (uint32_t)(i - c->insns));
    c->redirected = true;
    c->last_taken = later(c->last_taken, c->fetch_at) + ticks(waits ? 0 : interval_after(c->m, i));
    if (c->m->fetch_window <= 0)
        c->fetch_at = c->last_taken;
    if (i->flags & INSN_INDIRECT && !(i->flags & INSN_RET) && c->m->indirect_more > 0)
        c->jumped = (uint32_t)(i - c->insns);
}

/* Where an indirect jump went is known when the instruction there is fetched. */
static void find_target(struct sim_core *c, uint32_t index)
{
    if (c->jumped == ID_NONE)
        return;
    uint64_t *seen = &c->targets[c->jumped];
    *seen |= 1ull << ((index * 0x9e3779b9u) >> 26);
    c->last_taken += ticks(c->m->indirect_more * log2(__builtin_popcountll(*seen)));
    c->fetch_at = c->m->fetch_window <= 0 ? c->last_taken : c->fetch_at;
    c->jumped = ID_NONE;
}

/* ---- fusion ---- */

/* By condition code: does the jump read only what the first instruction may be fused for? cmp, add and sub: carry,
 * zero, below, signed comparisons; inc and dec leave the carry; test and and go with all. */
static bool conditions_fit(uint8_t fuse, uint8_t cond)
{
    unsigned kind = cond >> 1; /* 0 O, 1 C, 2 Z, 3 BE, 4 S, 5 P, 6 L, 7 LE */
    switch (fuse) {
    case X86_FUSE_TEST:
        return true;
    case X86_FUSE_CMP:
    case X86_FUSE_ALU:
        return kind == 1 || kind == 2 || kind == 3 || kind == 6 || kind == 7;
    case X86_FUSE_INC:
        return kind == 2 || kind == 6 || kind == 7;
    default:
        return false;
    }
}

static bool is_fused(const struct sim_core *c, const struct sim_insn *jump)
{
    const double allowed[] = {0, c->m->fuse_test, c->m->fuse_cmp, c->m->fuse_alu, c->m->fuse_inc};
    if (jump->cond == 255 || c->fused_first == ID_NONE)
        return false;
    const struct sim_insn *first = &c->insns[c->fused_first];
    if (jump->addr % 64 == 0 && c->m->fuse_across <= 0)
        return false;
    return allowed[first->fuse] > 0 && first->addr + first->len == jump->addr &&
           conditions_fit(first->fuse, jump->cond);
}

/* ---- dispatch ---- */

static void stall(struct sim_core *c, int64_t until, enum sim_bound why)
{
    if (until <= c->dispatch_at)
        return;
    c->dispatch_at = whole_cycle(until);
    c->dispatch_bound = why;
}

static void wait_place(struct sim_core *c, const struct places *p)
{
    if (p->size)
        stall(c, p->free_at[p->head], (enum sim_bound)p->label[p->head]);
}

static void wait_queue(struct sim_core *c, const struct sim_use *u)
{
    if (!u->ports || u->queue == QUEUE_NONE)
        return;
    while (u->queue == QUEUE_SEVERAL ? !ports_with_room(c, u->ports) : !has_room(c, u->queue)) {
        stall(c, (c->now + 1) << TICK_SHIFT, c->blocker);
        pass_until(c, c->dispatch_at);
    }
}

/* A nop shares the slot of the instruction before it or, if that one has a partner, of the one behind it. */
static bool shares_slot(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    if (c->m->fuse_nop <= 0)
        return false;
    bool is_nop = i->flags & INSN_NOP, is_one = !fused && i->whole_slots == 1;
    bool shares = is_one && !c->redirected && (is_nop ? c->before != ALONE : c->before == OPEN_NOP);
    c->before = shares || !is_one ? ALONE : is_nop ? OPEN_NOP : OPEN;
    return shares;
}

/* What renaming does itself, it does only so often in a cycle. */
static void wait_renaming(struct sim_core *c, const struct sim_insn *i)
{
    unsigned kind = i->flags & INSN_ZERO ? 0 : 1;
    double limit = kind == 0 ? c->m->zero_limit : c->m->move_limit;
    if (!(i->flags & (INSN_ZERO | INSN_MOVED)) || limit <= 0)
        return;
    if (c->renamed_at[kind] == c->dispatch_at >> TICK_SHIFT && c->renamed[kind] >= limit)
        stall(c, (c->renamed_at[kind] + 1) << TICK_SHIFT, SIM_BOUND_WIDTH);
    if (c->renamed_at[kind] != c->dispatch_at >> TICK_SHIFT)
        c->renamed[kind] = 0;
    c->renamed_at[kind] = c->dispatch_at >> TICK_SHIFT;
    c->renamed[kind]++;
}

/* fused: part of the comparison before it. shares: in the slot of an instruction beside it. */
static int64_t dispatch(struct sim_core *c, const struct sim_insn *i, bool fused, bool shares)
{
    c->dispatch_bound = SIM_BOUND_WIDTH;
    stall(c, fetch(c, i, fused || shares), SIM_BOUND_FETCH);
    if (fused)
        return c->dispatch_at;
    if (!shares)
        wait_place(c, &c->reorder);
    if (i->flags & INSN_INT_RESULT)
        wait_place(c, &c->int_regs);
    if (i->flags & INSN_VEC_RESULT)
        wait_place(c, &c->vec_regs);
    if (i->flags & INSN_LOAD)
        wait_place(c, &c->loads);
    if (i->flags & INSN_STORE)
        wait_place(c, &c->stores);
    if (i->flags & INSN_SERIAL)
        stall(c, c->retired_at, SIM_BOUND_CHAIN);
    pass_until(c, c->dispatch_at);
    for (unsigned k = 0; k < i->use_count; k++)
        wait_queue(c, &i->uses[k]);
    wait_queue(c, &i->load);
    wait_renaming(c, i);
    int64_t at = c->dispatch_at;
    if (shares)
        return at;
    c->dispatch_at += i->slots;
    for (uint32_t n = i->whole_slots; n > 0; n--)
        places_take(&c->fetched, at, SIM_BOUND_WIDTH);
    return at;
}

/* ---- memory ---- */

static size_t piece_slot(uint64_t piece) { return piece * 0x9e3779b97f4a7c15u >> 52 & (STORES - 1); }

static void remember_store(struct sim_core *c, const struct sim_insn *i, uint64_t addr, int64_t value_ready,
                           int64_t in_cache)
{
    unsigned bytes = i->bytes ? i->bytes : 8;
    for (uint64_t piece = addr / 8; piece <= (addr + bytes - 1) / 8; piece++)
        c->stored[piece_slot(piece)] =
            (struct stored){piece + 1, addr, value_ready, in_cache, (uint32_t)(i - c->insns), (uint8_t)bytes};
}

/* When a load that would start at `start` has its value, if it takes it from a store still on its way; else 0. */
static int64_t forwarded(struct sim_core *c, const struct sim_insn *i, uint64_t addr, int64_t start)
{
    const struct machine *m = c->m;
    unsigned bytes = i->bytes ? i->bytes : 8;
    int64_t ready = 0;
    for (uint64_t piece = addr / 8; piece <= (addr + bytes - 1) / 8; piece++) {
        const struct stored *s = &c->stored[piece_slot(piece)];
        bool overlaps = s->piece == piece + 1 && s->addr < addr + bytes && addr < s->addr + s->bytes;
        if (!overlaps || s->in_cache <= start)
            continue;
        bool covers = s->addr <= addr && addr + bytes <= s->addr + s->bytes;
        const struct sim_insn *from = &c->insns[s->insn];
        bool alike = m->rename >= 0 && s->addr == addr && from->base == i->base && from->index == i->index &&
                     from->disp == i->disp;
        uint32_t *by = &c->stored_by[i - c->insns];
        bool learned = m->forward_learned >= 0 && *by == s->insn + 1 && !(i->flags & INSN_VEC_ACCESS);
        *by = s->insn + 1;
        double wait = !covers                      ? m->forward_fail
                      : alike                      ? m->rename
                      : learned                    ? m->forward_learned
                      : i->flags & INSN_VEC_ACCESS ? m->forward_vec
                                                   : m->forward;
        if (wait >= 0)
            ready = later(ready, s->value_ready + ticks(wait));
        if (!covers) /* it waits until the store has left for the cache */
            ready = later(ready, s->in_cache + i->load_latency);
    }
    return ready;
}

/* ---- the parts of an instruction ---- */

static int64_t operands_ready(const struct sim_core *c, const struct sim_insn *i, bool *from_load)
{
    int64_t t = 0;
    for (unsigned k = 0; k < i->read_count; k++) {
        uint8_t r = i->reads[k];
        bool is_late = c->kind[r] != i->kind && !(i->flags & INSN_MOVED),
             is_flags = r == X86_REG_FLAGS_C || r == X86_REG_FLAGS_ZAPS;
        int64_t at = c->ready[r] + (is_late ? c->elsewhere_late[r] : 0) + (is_flags ? i->flags_late : 0);
        if (at <= t)
            continue;
        t = at;
        *from_load = c->from_load[r];
    }
    return t;
}

static int64_t address_ready(const struct sim_core *c, const struct sim_insn *i, bool *from_load)
{
    int64_t t = 0;
    for (unsigned k = 0; k < i->addr_count; k++) {
        uint8_t r = i->addr_regs[k];
        int64_t late = ticks(c->from_load[r] ? c->m->address_latency_load : c->m->address_latency) - i->address_late;
        int64_t at = c->ready[r] + later(late, 0); /* load_latency has the rest already */
        if (c->ready[r] && at > t) {
            t = at;
            *from_load = c->from_load[r];
        }
    }
    return t;
}

static void note_wait(struct timing *t, int64_t start, int64_t ready, bool from_load, uint8_t unit)
{
    if (unit != 255 && start > ready) {
        t->bound = SIM_BOUND_UNIT;
        t->unit = unit;
    } else if (ready > t->earliest) {
        t->bound = from_load ? SIM_BOUND_LOAD : SIM_BOUND_CHAIN;
    }
}

static bool crosses_line(const struct sim_insn *i, uint64_t addr) { return addr % 64 + i->bytes > 64 && addr % 64 > 0; }

static struct sim_use longer(struct sim_use u, double cycles)
{
    int64_t all = u.busy * TICK + u.part + ticks(cycles);
    u.busy = (uint16_t)(all >> TICK_SHIFT);
    u.part = (uint16_t)(all & (TICK - 1));
    return u;
}

static int64_t run_load(struct sim_core *c, const struct sim_insn *i, struct timing *t)
{
    bool from_load = false;
    uint8_t unit = 255;
    int64_t ready = later(address_ready(c, i, &from_load), t->earliest);
    bool crossing = crosses_line(i, t->load_addr);
    struct sim_use use = longer(i->load, crossing ? c->m->cross_load : 0);
    int64_t start = use.ports ? start_on(c, &use, ready, &unit) : whole_cycle(ready);
    note_wait(t, start, ready, from_load, unit);
    int64_t value = start + i->load_latency + (crossing ? ticks(c->m->cross_latency) : 0);
    int64_t by_store = forwarded(c, i, t->load_addr, start);
    bool renamed = by_store && ((c->m->rename >= 0 && c->m->rename < 1) ||
                                (c->m->forward_learned >= 0 && c->m->forward_learned < 1));
    if (by_store > value || renamed) {
        value = by_store > t->earliest ? by_store : t->earliest;
        t->bound = SIM_BOUND_LOAD;
    }
    return value;
}

/* Bits of the operand's amount. */
static int length_of(const struct sim_insn *i, uint64_t v)
{
    v = i->is_wide ? v : i->is_signed ? (uint64_t)(int32_t)v : (uint32_t)v;
    v = i->is_signed && (int64_t)v < 0 ? -v : v;
    return v ? 64 - __builtin_clzll(v) : 1;
}

/* How unfavourable the operands of a division are, from 0 to 1: by the length of the quotient, whose digits are found
 * one after the other, between the two that calibration times, of some 10 bits and of nearly all. Negative: the
 * registers are not known to be those of the program, or the divisor is in memory. */
static double division_length(const struct sim_core *c, const struct sim_insn *i)
{
    enum { RAX, RDX = 2, SHORT = 10, LEFT = 7 };
    unsigned divisor = X86_REG_NONE;
    for (unsigned k = 0; k < i->read_count; k++)
        if (i->reads[k] < 16 && i->reads[k] != RAX && i->reads[k] != RDX)
            divisor = i->reads[k];
    if (!c->regs_true || divisor == X86_REG_NONE)
        return -1;
    int bits = length_of(i, c->values.reg[RAX]) - length_of(i, c->values.reg[divisor]) + 1;
    double share = (double)(bits - SHORT) / ((i->is_wide ? 64 : 32) - LEFT - SHORT);
    return fmin(fmax(share, 0), 1);
}

/* Operation on its operands; returns when its result is there. */
static int64_t run_op(struct sim_core *c, const struct sim_insn *i, int64_t loaded, struct timing *t)
{
    bool from_load = false;
    int64_t ready = operands_ready(c, i, &from_load);
    if (loaded >= ready) {
        ready = loaded;
        from_load = loaded > 0;
    }
    ready = later(ready, t->earliest);
    const struct sim_insn *units = i;
    uint32_t jump = c->jump_of[i - c->insns];
    if (jump && i->use_count == 1)
        units = &c->insns[jump - 1];
    int64_t last = i->use_count ? 0 : ready; /* without a unit: eliminated, nothing waits for a whole cycle */
    double length = i->latency_spread ? division_length(c, i) : -1;
    int64_t latency = i->latency + (length >= 0 ? (int64_t)((length - 0.5) * i->latency_spread) : 0);
    for (unsigned k = 0; k < units->use_count; k++) {
        uint8_t unit = 255;
        struct sim_use use = units->uses[k];
        if (length > 0 && k + 1 == units->use_count)
            use = longer(use, length * i->keeps_more / TICK);
        int64_t start = start_on(c, &use, ready, &unit);
        note_wait(t, start, ready, from_load, unit);
        last = later(last, start);
    }
    if (!i->use_count)
        note_wait(t, ready, ready, from_load, 255);
    return last + latency;
}

/* Value and address go to the store queue apart; the first unit of the class takes the value, the others addresses. */
static int64_t run_store(struct sim_core *c, const struct sim_insn *i, int64_t value, struct timing *t,
                         int64_t *value_ready)
{
    bool from_load = false;
    uint8_t unit = 255;
    int64_t addr = later(address_ready(c, i, &from_load), t->earliest);
    value = later(value, t->earliest);
    int64_t done = whole_cycle(value);
    for (unsigned k = 0; k < i->store_use_count; k++) {
        int64_t ready = k ? addr : value;
        struct sim_use use = longer(i->store[k], k == 0 && crosses_line(i, t->store_addr) ? c->m->cross_store : 0);
        int64_t start = start_on(c, &use, ready, &unit);
        note_wait(t, start, ready, from_load, unit);
        done = later(done, start + TICK);
    }
    *value_ready = value;
    return later(done, whole_cycle(addr));
}

static void write_results(struct sim_core *c, const struct sim_insn *i, int64_t result)
{
    const uint8_t *from = i->flags & INSN_MOVED && i->read_count ? i->reads : NULL; /* renamed: the result itself */
    for (unsigned k = 0; k < i->write_count; k++) {
        c->ready[i->writes[k]] = result + (k == i->second ? i->second_late : 0);
        c->from_load[i->writes[k]] = i->flags & INSN_LOAD_RESULT;
        c->kind[i->writes[k]] = from ? c->kind[from[0]] : i->kind;
        c->elsewhere_late[i->writes[k]] = from ? c->elsewhere_late[from[0]] : i->elsewhere_late;
    }
}

/* A rep string instruction holds up dispatch while it runs. */
static int64_t run_rep(struct sim_core *c, const struct sim_insn *i, uint32_t flags, struct timing *t)
{
    uint32_t n = flags >> SIM_REPEAT_SHIFT;
    double bytes = (double)(n ? n : REP_UNKNOWN) * i->bytes;
    bool from_load = false;
    int64_t ready = later(operands_ready(c, i, &from_load), t->earliest);
    int64_t done = ready + ticks(c->m->rep_start + (c->m->rep_bytes > 0 ? bytes / c->m->rep_bytes : 0));
    c->dispatch_at = later(c->dispatch_at, done);
    t->bound = SIM_BOUND_UNIT;
    return done;
}

/* Runs the parts; returns when the value for a store is ready. */
static int64_t execute(struct sim_core *c, const struct sim_insn *i, uint32_t flags, struct timing *t)
{
    int64_t loaded = 0, value_ready = 0;
    if (i->flags & INSN_REP) {
        t->done = run_rep(c, i, flags, t);
        write_results(c, i, t->done);
        return t->done;
    }
    if (i->flags & INSN_LOAD)
        loaded = run_load(c, i, t);
    int64_t result = loaded;
    if (i->flags & INSN_HAS_OP) {
        result = run_op(c, i, loaded, t);
    } else if (!(i->flags & INSN_LOAD)) {
        bool from_load = false;
        result = later(operands_ready(c, i, &from_load), t->earliest);
        if (!(i->flags & INSN_STORE))
            note_wait(t, result, result, from_load, 255);
    }
    t->done = later(whole_cycle(result), t->earliest);
    if (i->flags & INSN_STORE)
        t->done = later(t->done, run_store(c, i, i->flags & INSN_CALL ? t->earliest : result, t, &value_ready));
    write_results(c, i, result);
    return value_ready;
}

/* ---- retirement ---- */

static void charge(struct sim_core *c, uint32_t index, int64_t span, const struct timing *t)
{
    if (c->warm_left) {
        c->warm_left--;
        return;
    }
    struct sim_cost *k = &c->costs[index];
    double cycles = (double)span / TICK;
    k->count++;
    k->cycles += cycles;
    c->total += cycles;
    k->bound[t->bound] += (float)cycles;
    if (t->bound != SIM_BOUND_UNIT || t->unit == 255)
        return;
    if (k->unit == t->unit || k->unit_cycles <= 0) {
        k->unit = t->unit;
        k->unit_cycles += (float)cycles;
    } else {
        k->unit_cycles -= (float)cycles;
    }
}

static void retire(struct sim_core *c, uint32_t index, struct timing *t, bool fused)
{
    int64_t behind = c->retired_at + (fused ? 0 : c->retire_step);
    if (t->done < behind) { /* held up by what retires before it */
        t->bound = c->blocker;
        t->unit = c->blocker_unit;
    }
    c->blocker = t->bound;
    c->blocker_unit = t->unit;
    c->retired_at = later(behind, t->done);
    charge(c, index, c->retired_at - c->charged_to, t);
    c->charged_to = c->retired_at;
}

static void take_places(struct sim_core *c, const struct sim_insn *i, bool shares, enum sim_bound why)
{
    if (c->reorder.size && !shares)
        for (uint32_t n = i->whole_slots; n > 0; n--)
            places_take(&c->reorder, c->retired_at, why);
    if (i->flags & INSN_INT_RESULT)
        places_take(&c->int_regs, c->retired_at, why);
    if (i->flags & INSN_VEC_RESULT)
        places_take(&c->vec_regs, c->retired_at, why);
    if (i->flags & INSN_LOAD)
        places_take(&c->loads, c->retired_at, why);
    if (i->flags & INSN_STORE)
        places_take(&c->stores, c->drained_at, why);
}

/* Stores leave for the cache in their order. */
static void drain(struct sim_core *c, uint64_t addr)
{
    double interval = addr / 64 == c->drained_line ? c->m->drain_line : c->m->drain;
    c->drained_line = addr / 64;
    c->drained_at = later(c->retired_at, c->drained_at + ticks(interval));
}

/* ---- steps ---- */

static void find_addresses(struct sim_core *c, const struct sim_insn *i, uint64_t addr, struct timing *t)
{
    if (!addr && (i->flags & (INSN_LOAD | INSN_STORE)))
        addr = sim_values_address(&c->values, i);
    t->load_addr = t->store_addr = addr;
    if (i->effect == X86_EFFECT_PUSH && (i->flags & INSN_LOAD))
        t->store_addr = c->values.reg[4] - 8;
}

static void step_out_of_order(struct sim_core *c, uint32_t index, const struct sim_insn *i, uint32_t flags,
                              struct timing *t)
{
    bool fused = is_fused(c, i);
    bool shares = shares_slot(c, i, fused);
    t->dispatched = dispatch(c, i, fused, shares);
    t->earliest = t->dispatched + c->start_delay;
    t->bound = c->dispatch_bound;
    int64_t value_ready = 0;
    if (fused) { /* runs together with the comparison, on the jump's unit: known from the second time on */
        c->jump_of[c->fused_first] = index + 1;
        t->done = later(t->earliest, operands_ready(c, i, &(bool){false}));
    } else {
        value_ready = execute(c, i, flags, t);
    }
    enum sim_bound why = t->bound;
    retire(c, index, t, fused || shares);
    if (i->flags & INSN_STORE) {
        drain(c, t->store_addr);
        remember_store(c, i, t->store_addr, value_ready, c->drained_at);
    }
    if (!fused)
        take_places(c, i, shares, why);
    if (flags & (SIM_TAKEN | SIM_MISPREDICTED))
        after_branch(c, i, flags, t->done);
}

/* In order each part issues on its own, when its operands and its unit are there. */
static int64_t issue_in_order(struct sim_core *c, const struct sim_use *u, int64_t ready, bool from_load,
                              struct timing *t)
{
    uint8_t unit = 255;
    int64_t at = later(ready, c->dispatch_at), start = at;
    if (u && u->ports)
        start = start_on(c, u, at, &unit);
    t->earliest = c->dispatch_at;
    note_wait(t, start, ready, from_load, unit);
    c->dispatch_at = start + ticks(1 / c->m->max_issue);
    pass_until(c, start);
    return start;
}

static void step_in_order(struct sim_core *c, uint32_t index, const struct sim_insn *i, uint32_t flags,
                          struct timing *t)
{
    static const struct sim_use nothing;
    bool from_load = false;
    int64_t loaded = 0, result = 0;
    stall(c, fetch(c, i, false), SIM_BOUND_FETCH);
    if (i->flags & INSN_LOAD) {
        int64_t ready = address_ready(c, i, &from_load);
        loaded = result = issue_in_order(c, &i->load, ready, from_load, t) + i->load_latency;
    }
    bool only_access = !(i->flags & INSN_HAS_OP) && (i->flags & (INSN_LOAD | INSN_STORE));
    int64_t ready = later(loaded, operands_ready(c, i, &from_load));
    if (!only_access)
        result = issue_in_order(c, i->use_count ? &i->uses[0] : &nothing, ready, from_load || loaded == ready, t) +
                 i->latency;
    for (unsigned k = 1; k < i->use_count; k++)
        result = later(result, start_on(c, &i->uses[k], ready, &(uint8_t){0}) + i->latency);
    if (i->flags & INSN_STORE)
        issue_in_order(c, i->store_use_count ? &i->store[0] : &nothing,
                       later(only_access ? ready : result, address_ready(c, i, &from_load)), from_load, t);
    if (i->flags & INSN_REP)
        run_rep(c, i, flags, t);
    write_results(c, i, result);
    charge(c, index, c->dispatch_at - c->charged_to, t);
    c->charged_to = c->dispatch_at;
    c->fetch_at = later(c->fetch_at, c->dispatch_at);
    if (flags & (SIM_TAKEN | SIM_MISPREDICTED))
        after_branch(c, i, flags, c->dispatch_at);
}

void sim_core_step(struct sim_core *c, uint32_t index, uint64_t addr, uint32_t flags)
{
    const struct sim_insn *i = &c->insns[index];
    struct timing t = {.bound = SIM_BOUND_WIDTH, .unit = 255};
    assert(index < c->count); /* the table is the caller's */
    find_addresses(c, i, addr, &t);
    find_target(c, index);
    if (c->m->in_order)
        step_in_order(c, index, i, flags, &t);
    else
        step_out_of_order(c, index, i, flags, &t);
    sim_values_step(&c->values, i, t.load_addr);
    c->fused_first = i->fuse ? index : ID_NONE;
}

void sim_core_set_reg(struct sim_core *c, unsigned reg, uint64_t value) { c->values.reg[reg & 15] = value; }

void sim_core_set_regs(struct sim_core *c, const uint64_t regs[16])
{
    c->regs_true = true;
    memcpy(c->values.reg, regs, sizeof c->values.reg);
}

/* ---- life ---- */

static void rewind_clock(struct sim_core *c)
{
    memset(c->ready, 0, sizeof c->ready);
    memset(c->elsewhere_late, 0, sizeof c->elsewhere_late);
    memset(c->busy, 0, sizeof c->busy);
    memset(c->taken, 0, sizeof c->taken);
    memset(c->owed, 0, sizeof c->owed);
    memset(c->ending, 0, sizeof c->ending);
    memset(c->leaving, 0, c->m->queue_count * sizeof c->leaving[0]);
    memset(c->waiting, 0, sizeof c->waiting);
    memset(c->pending, 0, sizeof c->pending);
    memset(c->stored, 0, sizeof c->stored);
    struct places *all[] = {&c->reorder, &c->int_regs, &c->vec_regs, &c->loads, &c->stores, &c->fetched};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        places_reset(all[i]);
    c->window_ops = c->window_most = 0;
    c->shared = c->at_target = false;
    c->now = c->fetch_at = c->cycle_at = c->last_taken = c->dispatch_at = c->drained_at = c->retired_at =
        c->charged_to = 0;
    c->seen_at = -1;
    c->redirected = true;
    c->fused_first = c->jumped = c->taken_last = ID_NONE;
    c->before = ALONE;
    c->renamed_at[0] = c->renamed_at[1] = -1;
    c->drained_line = UINT64_MAX;
    c->blocker = SIM_BOUND_WIDTH;
    c->blocker_unit = 255;
}

void sim_core_reset_pipeline(struct sim_core *c, uint32_t warm)
{
    rewind_clock(c);
    c->regs_true = false;
    sim_values_init(&c->values, (uint32_t)c->values.state | 1);
    c->warm_left = warm;
}

struct sim_core *sim_core_new(const struct machine *m, const struct sim_insn *insns, size_t count,
                              const struct sim_options *options)
{
    struct sim_core *c = xmalloc(sizeof *c);
    c->m = m;
    c->insns = insns;
    c->count = count;
    c->costs = xmalloc_sparse(count * sizeof *c->costs);
    c->jump_of = xmalloc_sparse(count * sizeof *c->jump_of);
    c->stored_by = xmalloc_sparse(count * sizeof *c->stored_by);
    c->targets = xmalloc_sparse(count * sizeof *c->targets);
    c->successors = xmalloc_sparse(count * sizeof *c->successors);
    for (unsigned p = 0; p < machine_port_count(m); p++)
        c->queue_of[p] = sim_queue_of(m, 1u << p);
    find_demand(c);
    places_init(&c->reorder, m->rob);
    places_init(&c->int_regs, m->int_regs);
    places_init(&c->vec_regs, m->vec_regs);
    places_init(&c->loads, m->load_queue);
    places_init(&c->stores, m->store_queue);
    places_init(&c->fetched, m->fetch_queue);
    c->start_delay = ticks(m->start_delay);
    c->retire_step = ticks(1 / (m->retire_width > 0 ? m->retire_width : m->max_issue));
    sim_values_init(&c->values, options && options->seed ? options->seed : 1);
    rewind_clock(c);
    return c;
}

void sim_core_free(struct sim_core *c)
{
    if (!c)
        return;
    struct places *all[] = {&c->reorder, &c->int_regs, &c->vec_regs, &c->loads, &c->stores, &c->fetched};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        places_fini(all[i]);
    free(c->costs);
    free(c->jump_of);
    free(c->stored_by);
    free(c->targets);
    free(c->successors);
    free(c);
}

/* Nothing waits in the model: each step charged its instruction up to its retirement. The window only ends. */
void sim_core_flush(struct sim_core *c) { sim_core_reset_pipeline(c, 0); }

double sim_core_cycles(const struct sim_core *c) { return c->total; }
const struct sim_cost *sim_core_costs(const struct sim_core *c) { return c->costs; }
