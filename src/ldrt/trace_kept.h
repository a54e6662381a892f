/* SPDX-License-Identifier: Apache-2.0
 *
 * Of each place of a thread's filter the lines that were touched last, and when (wire/trace.h). A line that is there,
 * and written to if it must be, is touched by one store. A handler of a signal that comes in between begins a segment,
 * tells what was not told, and keeps lines anew; and the part that it interrupted has lost its turn, so that the next
 * one does that again.
 */
#ifndef MTOOL_LDRT_TRACE_KEPT_H
#define MTOOL_LDRT_TRACE_KEPT_H

#include "wire/trace.h"

struct kept_arguments { /* of mtool_trace_line, on the stack */
    uint64_t is_told;   /* becomes 1: the part changes more than the order of lines */
    uint64_t turn;      /* of inserted code */
    uint64_t line;      /* its address, and 1 if it is written to */
    uint64_t bytes;     /* of mtool_trace_range, which has an address in the place of a line: written so many */
};
#define KEPT_NONE (~(uint64_t)0)
enum kept_how { KEPT_PASSES = 1, KEPT_WRITTEN = 2 };

static inline uint64_t kept_add(uint64_t *word, uint64_t n) /* one instruction, for handlers of signals */
{
    __asm__ volatile("xaddq %0,%1" : "+r"(n), "+m"(*word) : : "memory");
    return n;
}

/* ---- what is not told yet ---- */

_Static_assert(WIRE_TRACE_LINES == 8, "as many are looked at below");
#define KEPT_EACH(X) X(0), X(1), X(2), X(3), X(4), X(5), X(6), X(7)

/* Which of its lines, as bits. No jumps: which ones nobody foresees. */
static inline unsigned kept_moved(const struct wire_trace_place *p, uint64_t told)
{
    unsigned moved = 0;
#define MOVED(i) moved |= (unsigned)((p->stamps[i] > told) & (p->lines[i] != KEPT_NONE)) << (i)
    KEPT_EACH(MOVED);
#undef MOVED
    return moved;
}

/* That of these touched first. */
static inline unsigned kept_first(const struct wire_trace_place *p, unsigned lines)
{
    unsigned at = (unsigned)__builtin_ctz(lines);
    for (lines &= lines - 1; lines; lines &= lines - 1) {
        unsigned i = (unsigned)__builtin_ctz(lines);
        at = p->stamps[i] < p->stamps[at] ? i : at;
    }
    return at;
}

/* There is room. */
static inline void kept_tell(const struct wire_trace_place *p, uint64_t whose, uint64_t *put)
{
    unsigned moved = kept_moved(p, p->told), n = 0;
    if (!moved)
        return;
    for (unsigned m = moved; m; m &= m - 1)
        n++;
    volatile uint64_t *at = (volatile uint64_t *)kept_add(put, 8 * (2 + (uint64_t)n));
    at[1] = whose;
    for (unsigned i = 0; i < n; i++) {
        unsigned first = kept_first(p, moved);
        at[2 + i] = p->lines[first];
        moved &= ~(1u << first);
    }
    __atomic_store_n(&at[0], WIRE_TRACE_USED + n, __ATOMIC_RELEASE);
}

/* Likewise, of a thread that may be another one. */
static inline void kept_tell_all(const struct wire_trace_kept *k, uint64_t *put)
{
    uint64_t generation = __atomic_load_n(&k->generation, __ATOMIC_ACQUIRE);
    for (uint64_t left = __atomic_load_n(&k->moved, __ATOMIC_ACQUIRE); left; left &= left - 1) {
        const struct wire_trace_place *p = &k->places[__builtin_ctzll(left)];
        if (__atomic_load_n(&p->generation, __ATOMIC_ACQUIRE) == generation)
            kept_tell(p, k->whose, put);
    }
}

static inline void kept_forget(struct wire_trace_kept *k)
{
    kept_add(&k->generation, 1);
    *(volatile uint64_t *)&k->moved = 0;
}

/* ---- lines ---- */

/* It has none, and room for `count`. */
static inline void kept_begin(struct wire_trace_kept *k, struct wire_trace_place *p, unsigned count)
{
    for (unsigned i = 0; i < WIRE_TRACE_LINES; i++) {
        *(volatile uint64_t *)&p->lines[i] = KEPT_NONE;
        *(volatile uint64_t *)&p->stamps[i] = i < count ? 0 : ~(uint64_t)0;
    }
    *(volatile uint64_t *)&p->written = 0;
    p->told = k->clock;
    *(volatile uint64_t *)&p->generation = *(volatile uint64_t *)&k->generation;
}

/* The line touched longest ago gives way. */
static inline unsigned kept_oldest(const struct wire_trace_place *p)
{
    uint64_t least = p->stamps[0];
    unsigned at = 0;
    for (unsigned i = 1; i < WIRE_TRACE_LINES; i++) {
        at = p->stamps[i] < least ? i : at;
        least = p->stamps[i] < least ? p->stamps[i] : least;
    }
    return at;
}

static inline uint64_t kept_is_written(const struct wire_trace_place *p, unsigned at) { return p->written >> at & 1; }

/* `line` (and 1 if it is written to) is one that is told. `at`: where it is, WIRE_TRACE_LINES: not there. One that is
 * there takes no other's place, whatever their order: that may be told later, with the line itself. */
static inline enum kept_how kept_told(struct wire_trace_kept *k, unsigned place, uint64_t line, unsigned at,
                                      unsigned count, uint64_t *put)
{
    struct wire_trace_place *p = &k->places[place];
    uint64_t is_written = line & 1, moved = k->moved >> place & 1;
    if (p->generation != k->generation)
        kept_begin(k, p, count);
    else if (moved && at == WIRE_TRACE_LINES)
        kept_tell(p, k->whose, put);
    if (at == WIRE_TRACE_LINES) {
        *(volatile uint64_t *)&k->moved &= ~((uint64_t)1 << place);
        moved = 0;
        at = kept_oldest(p);
    } else {
        is_written |= kept_is_written(p, at);
    }
    *(volatile uint64_t *)&p->stamps[at] = ++k->clock;
    *(volatile uint64_t *)&p->lines[at] = line & ~(uint64_t)1;
    *(volatile uint64_t *)&p->written = (p->written & ~((uint64_t)1 << at)) | is_written << at;
    if (!moved)
        *(volatile uint64_t *)&p->told = k->clock;
    return is_written ? KEPT_WRITTEN : 0;
}

/* No jumps here either. `line`: as above. */
static inline unsigned kept_find(const struct wire_trace_place *p, uint64_t line)
{
    unsigned found = 1u << WIRE_TRACE_LINES;
    line &= ~(uint64_t)1;
#define IS(i) found |= (unsigned)(p->lines[i] == line) << (i)
    KEPT_EACH(IS);
#undef IS
    return (unsigned)__builtin_ctz(found);
}

#endif
