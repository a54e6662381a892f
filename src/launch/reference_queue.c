/* SPDX-License-Identifier: Apache-2.0
 * What samples tell, copied: simulating a sample takes longer than making it, and goes on while the program runs at its
 * own speed between samples. A program that is too far ahead waits. */
#include <pthread.h>
#include <stdlib.h>

#include "launch/impl.h"

/* While much is held, who reads waits, and a program that then makes nothing runs on unseen: a part of it that
 * allocates much held up 128 MB once, and the whole part behind it had no sample. */
enum { HELD_BYTES_MAX = 4 << 20 };
enum { ROOM = WIRE_CHUNK_BYTES / sizeof(struct wire_entry), SPARE_MAX = 64 };

struct item {
    struct item *next;
    size_t room;               /* for entries */
    struct launch_chunk chunk; /* entries NULL: a sample begins or ends */
    bool begins;
    uint64_t references;
    launch_executed_vec executed;
    struct wire_entry entries[];
};

struct reference_queue {
    const struct launch_reference_options *opt;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct item *first, **last;
    struct item *spare; /* for whole chunks, to be used again: their memory is there, and need not be made */
    unsigned spare_count;
    size_t held_bytes; /* the item that is being taken too */
    bool is_apart, ends;
};

static size_t bytes_of(const struct item *i) { return sizeof *i + i->chunk.count * sizeof *i->entries; }

static void play_sample(const struct reference_queue *q, struct item *i)
{
    struct launch_sample_end end = {i->references, i->executed.data, i->executed.len};
    q->opt->sample(q->opt->ctx, i->begins ? NULL : &end);
    VEC_FREE(&i->executed);
}

static void play(const struct reference_queue *q, struct item *i)
{
    if (i->chunk.entries)
        q->opt->take(q->opt->ctx, &i->chunk);
    else
        play_sample(q, i);
}

/* Not filled, but for `room`. */
static struct item *item_new(struct reference_queue *q, size_t count)
{
    struct item *i = NULL;
    size_t room = count > ROOM / 2 ? max_u64(count, ROOM) : count;
    pthread_mutex_lock(&q->lock);
    if (q->spare && room == ROOM) {
        i = q->spare;
        q->spare = i->next;
        q->spare_count--;
    }
    pthread_mutex_unlock(&q->lock);
    if (!i)
        i = xrealloc(NULL, sizeof *i + room * sizeof *i->entries); /* xmalloc would fill it */
    i->room = room;
    return i;
}

/* The caller holds the lock. */
static void item_free(struct reference_queue *q, struct item *i)
{
    if (i->room != ROOM || q->spare_count == SPARE_MAX) {
        free(i);
        return;
    }
    i->next = q->spare;
    q->spare = i;
    q->spare_count++;
}

static void *work(void *arg)
{
    struct reference_queue *q = arg;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!q->first && !q->ends)
            pthread_cond_wait(&q->moved, &q->lock);
        struct item *i = q->first;
        if (!i)
            break;
        q->first = i->next;
        if (!q->first)
            q->last = &q->first;
        pthread_mutex_unlock(&q->lock);
        play(q, i);
        pthread_mutex_lock(&q->lock);
        q->held_bytes -= bytes_of(i);
        item_free(q, i);
        pthread_cond_broadcast(&q->moved);
    }
    pthread_mutex_unlock(&q->lock);
    diag_debug(1, "taking samples took %.4f s of processor time", time_of_thread_s());
    return NULL;
}

struct reference_queue *reference_queue_new(const struct launch_reference_options *opt)
{
    struct reference_queue *q = xmalloc(sizeof *q);
    q->opt = opt;
    q->last = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->moved, NULL);
    q->is_apart = signals_thread(&q->thread, work, q);
    return q;
}

static void wait_for(struct reference_queue *q, size_t bytes)
{
    while (q->held_bytes > bytes)
        pthread_cond_wait(&q->moved, &q->lock);
}

static void put(struct reference_queue *q, struct item *i)
{
    if (!q->is_apart) { /* no thread can be made */
        play(q, i);
        free(i);
        return;
    }
    pthread_mutex_lock(&q->lock);
    wait_for(q, HELD_BYTES_MAX);
    *q->last = i;
    q->last = &i->next;
    q->held_bytes += bytes_of(i);
    pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->lock);
}

void reference_queue_take(struct reference_queue *q, const struct launch_chunk *c)
{
    struct item *i = item_new(q, c->count);
    i->next = NULL;
    i->chunk = *c;
    i->chunk.entries = i->entries;
    memcpy(i->entries, c->entries, c->count * sizeof *i->entries);
    put(q, i);
}

static void put_sample(struct reference_queue *q, bool begins, uint64_t references, launch_executed_vec executed)
{
    struct item *i = item_new(q, 0);
    i->next = NULL;
    i->chunk = (struct launch_chunk){.entries = NULL};
    i->begins = begins;
    i->references = references;
    i->executed = executed;
    put(q, i);
}

void reference_queue_begin_sample(struct reference_queue *q) { put_sample(q, true, 0, (launch_executed_vec){0}); }

void reference_queue_end_sample(struct reference_queue *q, uint64_t references, launch_executed_vec executed)
{
    put_sample(q, false, references, executed);
}

void reference_queue_wait(struct reference_queue *q)
{
    pthread_mutex_lock(&q->lock);
    wait_for(q, 0);
    pthread_mutex_unlock(&q->lock);
}

void reference_queue_free(struct reference_queue *q)
{
    if (!q)
        return;
    pthread_mutex_lock(&q->lock);
    q->ends = true;
    pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->lock);
    if (q->is_apart)
        pthread_join(q->thread, NULL);
    for (struct item *i = q->spare, *next; i; i = next) {
        next = i->next;
        free(i);
    }
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->moved);
    free(q);
}
