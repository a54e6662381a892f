/* SPDX-License-Identifier: Apache-2.0
 *
 * References through simulated caches as they are expanded. What is known to change nothing is left out: a reference to
 * the line that was the last one of its set in the nearest level, and that was written to if this one writes. */
#ifndef MTOOL_LD_TRACE_SIM_H
#define MTOOL_LD_TRACE_SIM_H

#include "ld/trace/program.h"
#include "ld/trace/trace.h"

enum { LD_TRACE_SLOTS_MAX = 4096 };

struct ld_trace_filter {
    uint64_t slots[LD_TRACE_SLOTS_MAX]; /* line number << 2 | 2 | is dirty; 0 none */
    uint64_t mask;
    uint64_t sent[CACHE_KIND_COUNT];        /* to the cache; modifications are reads */
    bool is_on, marks_writes, keeps_writes; /* marks: a second write to a line changes nothing. keeps: a write brings
                                               the line in */
    uint8_t shift;
};
struct ld_trace_config {
    struct cache_config levels;
    struct cache *cache;
    struct ld_trace_filter own[2];
    struct ld_trace_filter *data, *code; /* NULL: no level of that side */
    unsigned near_data, near_code;
    struct feed *feed;       /* what the cache is simulated by, beside this thread where there are processors */
    struct cache_ref *batch; /* of the feed: `count` of `room` */
    size_t count, room;
};
struct ld_trace_sim {
    struct ld_trace_config **all;
    size_t count;
    uint8_t thread;
    uint32_t number;
    bool has_thread;
    uint64_t made[CACHE_KIND_COUNT];
};

/* What the program's parts may leave out of their operations. */
enum ld_trace_fetches ld_trace_sim_fetches(const struct ld_trace_sim *s, unsigned *shift);
/* By how many places of lines with the same low bits programs may leave out what changes nothing; 0: nothing. */
unsigned ld_trace_sim_slots(const struct ld_trace_sim *s);
/* Of a reference that is not known to change nothing. */
void ld_trace_sim_reach(struct ld_trace_config *c, struct ld_trace_filter *f, uint64_t address, unsigned bytes,
                        unsigned kind, uint8_t thread);

static inline void ld_trace_sim_one(struct ld_trace_config *c, struct ld_trace_filter *f, uint64_t address,
                                    unsigned bytes, unsigned kind, uint8_t thread)
{
    uint64_t line = address >> f->shift;
    uint64_t known = f->slots[line & f->mask] | (kind < CACHE_WRITE); /* of one that reads dirty or not is the same */
    if (__builtin_expect(known != (line << 2 | 3) || (address ^ (address + bytes - 1)) >> f->shift, 0))
        ld_trace_sim_reach(c, f, address, bytes, kind, thread);
}

/* Operations of a part, of one thread; none of them repeats. */
static inline void ld_trace_sim_ops(struct ld_trace_sim *s, const struct ld_trace_op *op, const struct ld_trace_op *end,
                                    const uint64_t *values)
{
    for (size_t i = 0; i < s->count; i++) {
        struct ld_trace_config *c = s->all[i];
        for (const struct ld_trace_op *o = op; o < end && c->data && !c->code; o++)
            ld_trace_sim_one(c, c->data, values[o->value] + o->plus, o->bytes, o->kind, s->thread);
        for (const struct ld_trace_op *o = op; o < end && c->code; o++) {
            struct ld_trace_filter *f = o->kind == CACHE_FETCH ? c->code : c->data;
            if (f)
                ld_trace_sim_one(c, f, values[o->value] + o->plus, o->bytes, o->kind, s->thread);
        }
    }
}

/* How many lines of each such place are in their set whatever comes, as long as so many others are not used. */
unsigned ld_trace_sim_lines(const struct ld_trace_sim *s);
/* A line that a thread knows to be there is used, which it had not told. */
void ld_trace_sim_use(struct ld_trace_sim *s, uint32_t number, uint64_t address);
void ld_trace_sim_thread(struct ld_trace_sim *s, uint32_t number); /* whose the next ones are */
/* So many were made in all, those left out too. */
void ld_trace_sim_count(struct ld_trace_sim *s, const uint64_t made[CACHE_KIND_COUNT]);

#endif
