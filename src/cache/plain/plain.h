/* SPDX-License-Identifier: Apache-2.0
 *
 * plain: the levels as most machines have them and most programs use them, faster: LRU, lines of one size, nothing
 * inclusive or exclusive, writes that allocate and stay. All counts are those of hierarchy.c, to which it hands over
 * what the levels hold when something comes that is not plain (a fetch).
 *
 * Each line has one number for all levels, and what is known of it stands together, in half a line of this machine's
 * caches: in which way of its set it is, if it is there, whether it is dirty, and its places in the orders of use; so
 * neither hits nor what is evicted, or written back, is searched for. Lines of a page have numbers in a row: of a page
 * that was reached lately nothing else has to be looked up. A way has the time of its last use, the least of a set
 * goes. As long as there is one thread, the shadow of the nearest level is one of the sizes of the stack that the
 * miss-ratio curve needs too.
 *
 * From the second thread on (threads.c) each has a bank: its private levels, and what is known of lines there. Shared
 * levels are in the bank of the thread that makes most references, so that one look-up serves all levels of it. What
 * threads take from each other is coherence.c's, as of other levels.
 *
 * Each window (cache_window_begin) begins with the memory of the one before. What it tells of a line that hits, or
 * goes, stands beside its way (window.h): ages are differences of times of use, so of a window the clock never turns
 * back.
 */
#ifndef MTOOL_CACHE_PLAIN_H
#define MTOOL_CACHE_PLAIN_H

#include "cache/curve.h"
#include "cache/hierarchy.h"

enum { PLAIN_LEVELS_MAX = 3, PLAIN_WAYS_MAX = 32, PLAIN_WAY_BITS = 5, PLAIN_SPARSE_BYTES = 4096 };
enum { PLAIN_LINES_MAX = 1 << 23 }; /* of a level: all its ways are there from the first reference on */
/* Times of uses; where a level begins with a window; of a window the levels are handed over some time before the end
 * (more lines than the references have that plain_run takes at a time), for its times tell ages. */
enum { PLAIN_CLOCK_MAX = UINT32_MAX >> PLAIN_WAY_BITS, PLAIN_CLOCK_LATE = 1 << 22 };
enum { PLAIN_CLOCK_BEGIN = PLAIN_CLOCK_MAX - PLAIN_CLOCK_LATE - (1 << 24) };

struct plain_line {
    uint32_t at[PLAIN_LEVELS_MAX];   /* its place in the order of use of the level's shadow; 0: it never came there */
    uint32_t left[PLAIN_LEVELS_MAX]; /* as that of struct causes_line: NOTE_EVICTED or NOTE_TAKEN; 0: it never left */
    uint8_t way[PLAIN_LEVELS_MAX];
    uint8_t here, dirty; /* levels, a bit each */
    uint8_t flags;       /* enum plain_flag; of several threads alone */
};
/* What coherence.c would say of a line, so that it is asked of few: of most no other thread knows. */
enum plain_flag {
    PLAIN_ALONE = 1,   /* the bank's thread is its only owner */
    PLAIN_LOST = 2,    /* the bank's thread has lost it to another's write */
    PLAIN_WATCHED = 4, /* in plain.home: some thread has; not kept from one window to the next */
};
enum { PLAIN_LINE_SPREAD = 3 }; /* log2 of how many times a place it is */
_Static_assert(sizeof(struct plain_line) == sizeof(uint32_t) << PLAIN_LINE_SPREAD, "they lie in a row");

struct plain_stay { /* in a window, of a way */
    uint32_t came;  /* time when its line came to a full set; 0: to one that had room */
    uint32_t cell;  /* whose reference that was */
};

struct plain_level {
    uint32_t *used;  /* [sets * row] time of the last use << PLAIN_WAY_BITS | way; of no way: the greatest number */
    uint32_t *lines; /* [sets * row] numbers; 0: none */
    uint64_t mask, sets;
    uint32_t clock, row;      /* row: ways, up to a multiple of 4 */
    uint32_t ways, begin;     /* begin: the clock when nothing was there */
    struct plain_stay *stays; /* [sets * row]; NULL but for windows */
    uint8_t *held;            /* [sets] ways that have a line; as stays */
    struct shadow shadow;     /* of the nearest level, as long as there is one thread, plain.stack */
};

struct plain_bank {                              /* of a thread */
    struct plain_level levels[PLAIN_LEVELS_MAX]; /* the first `own` of the plain levels; of plain.home all */
    struct plain_line *of;                       /* [cap] by number, in `memory` */
    void *memory;
    size_t memory_bytes;
    uint32_t cap;
    bool is_sparse; /* the memory takes only the pages used: most lines are other threads' */
};

struct plain {
    unsigned at[PLAIN_LEVELS_MAX];                /* levels that data reach, among the cache's */
    unsigned level_count, own;                    /* own: those that each thread has for itself, the first ones */
    struct plain_bank *banks[CACHE_THREADS_MAX];  /* by thread; NULL: it was not seen */
    struct plain_bank *home;                      /* where shared levels are */
    struct plain_bank *spares[CACHE_THREADS_MAX]; /* of the window before, empty; NULL: none */
    unsigned last_home;                           /* whose, that of `home` among them */
    unsigned most, votes, enough; /* the thread that most parts of the stream begin with; votes for it; to move there */
    struct numbers numbers;
    struct stack stack;                      /* as long as there is one thread */
    unsigned shadow_size;                    /* of the stack's: the nearest level's shadow */
    uint8_t curve_size[STACK_SIZES_MAX + 1]; /* of the stack's, which of the curve's */
    struct cache_curve *curve;               /* NULL: there is none to carry */
    unsigned shift, thread;                  /* of an address, to its line; the first one */
    bool has_begun, is_several, is_far;
    bool in_window; /* since plain_begin_window */
};

static inline uint64_t plain_set(const struct plain_level *l, uint64_t line)
{
    return l->mask || l->sets == 1 ? line & l->mask : line % l->sets;
}

/* NULL: the levels are not plain. */
struct plain *plain_new(const struct cache *c);
void plain_free(struct plain *p);
/* Before the first reference: the curve is counted too. False: its lines are others. */
bool plain_carry(struct plain *p, const struct cache *c, struct cache_curve *k);
/* Returns how many of them are plain. */
size_t plain_run(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count);
/* For lines up to that. Where a bank has become home its memory is that of one. */
void plain_make_room(struct plain *p, struct plain_bank *b, uint32_t number);
void plain_free_lines(struct plain_bank *b);
/* A bank for the thread, of the first one with all levels. Of windows of several threads the first one is for who made
 * most of the references in the window before, whoever comes. */
void plain_add_bank(const struct cache *c, struct plain *p, unsigned thread);
/* As if nothing had come. There must be no curve. */
void plain_begin_window(const struct cache *c, struct plain *p);
/* In a window: the clock of a level has nearly come to its end. */
bool plain_is_late(const struct plain *p);
/* over.c: what the levels hold goes to the banks of its threads, and the curve's order to the curve. */
void plain_hand_over(struct cache *c, struct plain *p);

/* ---- threads.c ---- */

bool plain_takes_threads(const struct cache *c, const struct plain *p); /* several */
void plain_begin_several(struct cache *c, struct plain *p);             /* before the second one's first reference */
/* A part of the stream begins with it: if most do, home is its bank. */
void plain_vote(struct plain *p, unsigned thread);
/* For coherence.c, which knows levels by their numbers among the cache's: as what it does to banks. Of a level that is
 * not one of data nothing is there. */
bool plain_take(struct cache *c, int at, unsigned thread, uint64_t line, uint32_t by, lines_entry *dirty);
bool plain_clean(const struct cache *c, int at, unsigned thread, uint64_t line);
/* What was dirty is, in the nearest of the shared levels that has it. */
void plain_write_back(const struct cache *c, uint64_t line);
static inline void plain_soil_shared(const struct plain *p, uint32_t number)
{
    struct plain_line *n = &p->home->of[number];
    unsigned shared = n->here >> p->own << p->own;
    n->dirty = (uint8_t)(n->dirty | (shared & -shared));
}
/* Each line that the first thread has in a level of its own, or in that one's shadow. */
void plain_each_own(const struct plain *p, void (*take)(void *ctx, uint64_t line), void *ctx);

#endif
