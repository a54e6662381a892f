/* SPDX-License-Identifier: Apache-2.0
 *
 * A core that is stepped by a thread of its own, while the caller finds out what comes next. Orders go through a ring
 * of chunks, each handed over when it is full, and are done in their order: what comes out is what a core stepped by
 * the caller would say. */
#include "sim/sim.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    CHUNKS = 4,
    WORDS = 8192,
    ORDER_MAX = 17, /* words of the longest order */
};
enum order { ORDER_RESET, ORDER_REG, ORDER_REGS };

/* An order is a word; below 2^63: its kind, and what it is of above bit 8, then the values of registers. Else a step:
 * the index, and below it the flags. */
static const uint64_t STEP = 1ull << 63;
enum { INDEX_SHIFT = 32, OPERAND_SHIFT = 8 };

struct sim_feed {
    struct sim_core *core;
    bool is_apart;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned filled, played; /* chunks so far */
    bool ends;
    size_t len[CHUNKS];
    uint64_t words[CHUNKS][WORDS];
};

static size_t obey(struct sim_core *c, const uint64_t *at)
{
    if (*at & STEP) {
        sim_core_step(c, (uint32_t)((*at & ~STEP) >> INDEX_SHIFT), 0, (uint32_t)*at);
        return 1;
    }
    switch ((enum order)(*at & ((1 << OPERAND_SHIFT) - 1))) {
    case ORDER_RESET:
        sim_core_reset_pipeline(c, (uint32_t)(*at >> OPERAND_SHIFT));
        return 1;
    case ORDER_REG:
        sim_core_set_reg(c, (unsigned)(*at >> OPERAND_SHIFT), at[1]);
        return 2;
    case ORDER_REGS:
        sim_core_set_regs(c, at + 1);
        return ORDER_MAX;
    }
    return 1;
}

static void play(struct sim_core *c, const uint64_t *words, size_t len)
{
    for (size_t i = 0; i < len;)
        i += obey(c, words + i);
}

static void *work(void *arg)
{
    struct sim_feed *f = arg;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (f->played == f->filled && !f->ends)
            pthread_cond_wait(&f->moved, &f->lock);
        if (f->played == f->filled)
            break;
        unsigned at = f->played % CHUNKS;
        pthread_mutex_unlock(&f->lock);
        play(f->core, f->words[at], f->len[at]);
        f->len[at] = 0;
        pthread_mutex_lock(&f->lock);
        f->played++;
        pthread_cond_broadcast(&f->moved);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

struct sim_feed *sim_feed_new(struct sim_core *core)
{
    struct sim_feed *f = xmalloc(sizeof *f);
    f->core = core;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->moved, NULL);
    f->is_apart = parallel_processors() > 1 && pthread_create(&f->thread, NULL, work, f) == 0;
    return f;
}

/* Waits until no more than `max` chunks are to be played. */
static void wait_for(struct sim_feed *f, unsigned max)
{
    while (f->filled - f->played > max)
        pthread_cond_wait(&f->moved, &f->lock);
}

static void hand_over(struct sim_feed *f)
{
    pthread_mutex_lock(&f->lock);
    f->filled++;
    pthread_cond_broadcast(&f->moved);
    wait_for(f, CHUNKS - 1);
    pthread_mutex_unlock(&f->lock);
}

/* Room for an order of `words`. */
static uint64_t *room(struct sim_feed *f, size_t words)
{
    if (f->len[f->filled % CHUNKS] + words > WORDS)
        hand_over(f);
    unsigned at = f->filled % CHUNKS;
    f->len[at] += words;
    return f->words[at] + f->len[at] - words;
}

struct sim_core *sim_feed_core(struct sim_feed *f)
{
    if (!f->is_apart)
        return f->core;
    if (f->len[f->filled % CHUNKS])
        hand_over(f);
    pthread_mutex_lock(&f->lock);
    wait_for(f, 0);
    pthread_mutex_unlock(&f->lock);
    return f->core;
}

void sim_feed_free(struct sim_feed *f)
{
    if (!f)
        return;
    if (f->is_apart) {
        pthread_mutex_lock(&f->lock);
        f->ends = true;
        pthread_cond_broadcast(&f->moved);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    pthread_cond_destroy(&f->moved);
    pthread_mutex_destroy(&f->lock);
    sim_core_free(f->core);
    free(f);
}

void sim_feed_step(struct sim_feed *f, uint32_t index, uint32_t flags)
{
    if (f->is_apart)
        *room(f, 1) = STEP | (uint64_t)index << INDEX_SHIFT | flags;
    else
        sim_core_step(f->core, index, 0, flags);
}

void sim_feed_reset_pipeline(struct sim_feed *f, uint32_t warm)
{
    if (f->is_apart)
        *room(f, 1) = ORDER_RESET | (uint64_t)warm << OPERAND_SHIFT;
    else
        sim_core_reset_pipeline(f->core, warm);
}

void sim_feed_set_reg(struct sim_feed *f, unsigned reg, uint64_t value)
{
    if (!f->is_apart) {
        sim_core_set_reg(f->core, reg, value);
        return;
    }
    uint64_t *order = room(f, 2);
    order[0] = ORDER_REG | (uint64_t)reg << OPERAND_SHIFT;
    order[1] = value;
}

void sim_feed_set_regs(struct sim_feed *f, const uint64_t regs[16])
{
    if (!f->is_apart) {
        sim_core_set_regs(f->core, regs);
        return;
    }
    uint64_t *order = room(f, ORDER_MAX);
    order[0] = ORDER_REGS;
    memcpy(order + 1, regs, 16 * sizeof *regs);
}
