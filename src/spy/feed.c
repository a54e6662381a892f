/* SPDX-License-Identifier: Apache-2.0
 * Batches go round a ring; one is filled again when every simulator has done with it. */
#include "spy/feed.h"

#include <pthread.h>
#include <stdlib.h>

enum { BATCHES = 4, REFS = 1 << 14 };

struct player {
    struct feed *of;
    feed_to to;
    void *simulator;
    pthread_t thread;
    bool is_apart;
    uint64_t played; /* batches */
};

struct batch {
    size_t count;
    struct cache_ref refs[REFS];
};

struct feed {
    VEC(struct player) players;
    bool has_begun, ends;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t filled;
    struct batch batches[BATCHES];
};

static void play(struct player *p)
{
    const struct batch *b = &p->of->batches[p->played % BATCHES];
    p->to(p->simulator, b->refs, b->count);
}

static void *work(void *arg)
{
    struct player *p = arg;
    struct feed *f = p->of;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (p->played == f->filled && !f->ends)
            pthread_cond_wait(&f->moved, &f->lock);
        if (p->played == f->filled)
            break;
        pthread_mutex_unlock(&f->lock);
        play(p);
        pthread_mutex_lock(&f->lock);
        p->played++;
        pthread_cond_broadcast(&f->moved);
    }
    pthread_mutex_unlock(&f->lock);
    diag_debug(1, "simulating took %.4f s of processor time", time_of_thread_s());
    return NULL;
}

struct feed *feed_new(void)
{
    struct feed *f = xmalloc(sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->moved, NULL);
    return f;
}

void feed_add(struct feed *f, feed_to to, void *simulator)
{
    VEC_PUSH(&f->players, ((struct player){.of = f, .to = to, .simulator = simulator}));
}

static void begin(struct feed *f)
{
    f->has_begun = true;
    for (size_t i = 0; i < f->players.len; i++) {
        struct player *p = &f->players.data[i];
        p->is_apart = parallel_processors() > 1 && pthread_create(&p->thread, NULL, work, p) == 0;
    }
}

static uint64_t slowest(const struct feed *f)
{
    uint64_t least = f->filled;
    for (size_t i = 0; i < f->players.len; i++)
        least = min_u64(least, f->players.data[i].played);
    return least;
}

static void play_here(struct feed *f)
{
    for (size_t i = 0; i < f->players.len; i++)
        for (struct player *p = &f->players.data[i]; !p->is_apart && p->played < f->filled; p->played++)
            play(p);
}

/* Waits until no more than `max` batches are to be played. */
static void wait_for(struct feed *f, unsigned max)
{
    pthread_mutex_lock(&f->lock);
    while (f->filled - slowest(f) > max)
        pthread_cond_wait(&f->moved, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void hand_over(struct feed *f)
{
    if (!f->has_begun)
        begin(f);
    pthread_mutex_lock(&f->lock);
    f->filled++;
    pthread_cond_broadcast(&f->moved);
    pthread_mutex_unlock(&f->lock);
    play_here(f);
    wait_for(f, BATCHES - 1);
    f->batches[f->filled % BATCHES].count = 0;
}

struct cache_ref *feed_room(struct feed *f, size_t *room)
{
    if (f->batches[f->filled % BATCHES].count == REFS)
        hand_over(f);
    struct batch *b = &f->batches[f->filled % BATCHES];
    *room = REFS - b->count;
    return &b->refs[b->count];
}

void feed_put(struct feed *f, size_t count) { f->batches[f->filled % BATCHES].count += count; }

uint64_t feed_mark(const struct feed *f) { return f->filled + (f->batches[f->filled % BATCHES].count != 0); }

bool feed_has_passed(struct feed *f, uint64_t mark)
{
    if (mark > f->filled)
        return false;
    pthread_mutex_lock(&f->lock);
    bool has_passed = slowest(f) >= mark;
    pthread_mutex_unlock(&f->lock);
    return has_passed;
}

void feed_wait(struct feed *f)
{
    hand_over(f);
    wait_for(f, 0);
}

void feed_end(struct feed *f)
{
    if (f->ends)
        return;
    feed_wait(f);
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    pthread_cond_broadcast(&f->moved);
    pthread_mutex_unlock(&f->lock);
    for (size_t i = 0; i < f->players.len; i++)
        if (f->players.data[i].is_apart)
            pthread_join(f->players.data[i].thread, NULL);
}

void feed_free(struct feed *f)
{
    feed_end(f);
    VEC_FREE(&f->players);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->moved);
    free(f);
}
