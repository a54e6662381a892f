/* SPDX-License-Identifier: Apache-2.0
 *
 * calls: entrances and returns of allocators, as the threads' streams tell them, to allocations. An entrance and its
 * return have the same stack pointer; where one only hands on what another one gave (operator new calls malloc), it is
 * the same block, told once. Memory is given at the return, and taken back at the entrance: in between another thread
 * may already have it.
 *
 * An entrance without a return (it left by a way that is not watched, by an exception) is forgotten when the thread
 * says so (wire/stream.h).
 */
#include "data/calls.h"

#include <stdlib.h>

enum effect {
    GIVES_0,
    GIVES_1,
    GIVES_0_TIMES_1,
    MOVES_0_TO_1,
    MOVES_0_TO_1_TIMES_2,
    STORES_2,
    TAKES_0,
    MAPS,
    UNMAPS,
    REMAPS,
    BREAKS,
    GIVES_OWN
};
static const struct {
    const char *name;
    enum effect effect;
} known[] = {
#define A(name, effect) {name, effect},
#include "data/allocators.def"
#undef A
};

size_t data_watched_count(void) { return ARRAY_LEN(known); }
const char *data_watched_name(size_t nth) { return known[nth].name; }
bool data_watched_returns(size_t nth) { return known[nth].effect != TAKES_0 && known[nth].effect != UNMAPS; }
bool data_watched_gives(size_t nth) { return known[nth].effect < TAKES_0; }
bool data_watched_stores(size_t nth) { return known[nth].effect == STORES_2; }
bool data_watched_takes_several(size_t nth) { return known[nth].effect != TAKES_0 && known[nth].effect != GIVES_0; }

enum { PENDING_MAX = 32, PATHS_MAX = UINT16_MAX, FAR_MAX = 1024, NEAR_MANY = 1024 };
struct known_path {
    uint32_t depth;
    uint64_t path[DATA_PATH_MAX];
    uint32_t count;
    const struct data_path_word *words;
    struct data_object *object; /* of the blocks that came by it last; NULL: none did */
    uint8_t layer;              /* of that */
};
struct pending { /* a call that has not returned */
    struct data_call call;
    enum effect effect;
    uint8_t layer;
    bool is_inner;  /* of an allocator's call */
    uint64_t given; /* what a call of the same layer that it made returned */
    bool jumps;     /* to code that goes on in its stead */
    uint32_t depth;
    const uint64_t *path;     /* of `known`, or `own` */
    struct known_path *known; /* NULL: the path is not known by a number */
    uint64_t own[DATA_PATH_MAX];
};
struct thread {
    struct pending pending[PENDING_MAX]; /* innermost last */
    uint32_t count;
    uint64_t taken; /* address that was taken back last */
    bool has_stack;
    VEC(struct known_path *) paths; /* number 1 first */
    struct map by_words;            /* hash -> number */
    uint32_t far_count;             /* of them, that were looked at beyond the near calls */
    uint32_t near_count;            /* calls whose paths were not known, since the last of them that was */
};
struct data_calls {
    struct data *d;
    struct walk *walk;
    const struct data_watched *own;
    size_t own_count;
    struct map by_thread;
    struct thread *last; /* that one was asked for */
    uint64_t last_number;
    VEC(struct thread *) threads;
    struct arena *arena; /* of paths */
    struct data_path seen;
    struct data_given given; /* address 0: nothing */
    struct data_calls_lost lost;
};

struct data_calls *data_calls_new(struct data *d, const struct data_code *code, const struct data_watched *own,
                                  size_t own_count)
{
    struct data_calls *c = xmalloc(sizeof *c);
    c->d = d;
    c->walk = walk_new(d, code);
    c->own = own;
    c->own_count = own_count;
    c->arena = arena_new();
    return c;
}

void data_calls_free(struct data_calls *c)
{
    if (!c)
        return;
    walk_free(c->walk);
    for (size_t i = 0; i < c->threads.len; i++) {
        VEC_FREE(&c->threads.data[i]->paths);
        map_fini(&c->threads.data[i]->by_words);
        free(c->threads.data[i]);
    }
    VEC_FREE(&c->threads);
    arena_free(c->arena);
    map_fini(&c->by_thread);
    free(c);
}

const struct data_calls_lost *data_calls_lost(const struct data_calls *c) { return &c->lost; }

static struct thread *thread_of(struct data_calls *c, uint64_t number)
{
    uint64_t nth;
    if (c->last && c->last_number == number)
        return c->last;
    if (!map_get(&c->by_thread, number, &nth)) {
        nth = c->threads.len;
        c->lost.threads = c->threads.len;
        VEC_PUSH(&c->threads, xmalloc(sizeof(struct thread)));
        map_put(&c->by_thread, number, nth);
    }
    c->last_number = number;
    return c->last = c->threads.data[nth];
}

/* ---- what a function does ---- */

static uint8_t own_layer(size_t nth) { return (uint8_t)min_u64(DATA_LAYER_CUSTOM + nth, DATA_LAYER_LOCALS - 1); }

static bool effect_of(const struct data_calls *c, uint32_t function, enum effect *effect, uint8_t *layer)
{
    if (function < ARRAY_LEN(known)) {
        *effect = known[function].effect;
        *layer = *effect >= MAPS ? DATA_LAYER_MAPPING : DATA_LAYER_HEAP;
        return true;
    }
    size_t own = function - ARRAY_LEN(known);
    if (own >= c->own_count)
        return false;
    *effect = c->own[own].size_argument < DATA_NO_SIZE ? GIVES_OWN : TAKES_0;
    *layer = own_layer(own);
    return true;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t all;
    return __builtin_mul_overflow(a, b, &all) ? UINT64_MAX : all;
}

static uint64_t bytes_of(const struct data_calls *c, const struct pending *p)
{
    const uint64_t *a = p->call.arguments;
    switch (p->effect) {
    case GIVES_1:
    case MOVES_0_TO_1:
        return a[1];
    case GIVES_0_TIMES_1:
        return product(a[0], a[1]);
    case MOVES_0_TO_1_TIMES_2:
        return product(a[1], a[2]);
    case STORES_2:
        return a[2];
    case GIVES_OWN:
        return a[c->own[p->call.function - ARRAY_LEN(known)].size_argument];
    default:
        return a[0];
    }
}

/* ---- mappings ---- */

static void map(struct data_calls *c, const struct pending *p, uint64_t address)
{
    const uint64_t *a = p->call.arguments;
    struct data_map m = {ALIGN_DOWN(address, 4096), ALIGN_UP(a[1], 4096), DATA_HEAP, NULL, p->path, p->depth};
    if (address >= (uint64_t)-4096 || !address)
        return;
    if (p->is_inner) { /* its pieces are what is told */
        m.kind = DATA_MAPPING;
        m.name = "allocator";
    }
    data_map(c->d, &m);
}

/* The end of the break is known from the first time on that it is seen. */
static void move_break(struct data_calls *c, uint64_t to)
{
    uint64_t hi = ALIGN_UP(to, 4096), *end = &c->d->own->break_end;
    if (*end && hi < *end)
        data_unmap(c->d, hi, *end - hi);
    else if (*end && hi > *end)
        data_map(c->d, &(struct data_map){*end, hi - *end, DATA_MAPPING, "break", NULL, 0});
    *end = hi;
}

/* ---- what is done ---- */

static struct data_object *object_of(struct data_calls *c, const struct pending *p, uint64_t bytes)
{
    struct known_path *k = p->known;
    if (!k || !k->object || k->layer != p->layer) {
        struct data_object *o = data_object_of_path(c->d, p->layer, p->path, p->depth, bytes);
        if (!k || o->size_class)
            return o;
        k->object = o;
        k->layer = p->layer;
    }
    return k->object;
}

static void allocate(struct data_calls *c, const struct pending *p, uint64_t address)
{
    if (!address)
        return;
    c->given = (struct data_given){address, bytes_of(c, p), p->path, p->depth};
    data_allocate_of(c->d, object_of(c, p, c->given.bytes), address, c->given.bytes);
}

/* Where posix_memalign put it, which is mostly a variable of its caller's. */
static void allocate_stored(struct data_calls *c, const struct pending *p, const struct data_call *left)
{
    struct walk_stack s = {left->stack, left->copy, left->copy_bytes};
    uint64_t address = 0;
    if (left->arguments[0] & UINT32_MAX)
        return; /* it failed */
    if (walk_word(&s, p->call.arguments[0], &address))
        allocate(c, p, address);
    else
        c->lost.unread++;
}

static void do_at_return(struct data_calls *c, const struct pending *p, const struct data_call *left)
{
    uint64_t value = left->arguments[0];
    switch (p->effect) {
    case MOVES_0_TO_1:
    case MOVES_0_TO_1_TIMES_2:
        data_reallocate(c->d, p->layer, p->call.time, p->call.arguments[0], value, bytes_of(c, p), p->path, p->depth);
        break;
    case STORES_2:
        allocate_stored(c, p, left);
        break;
    case MAPS:
        map(c, p, value);
        break;
    case REMAPS:
        if (value < (uint64_t)-4096)
            data_remap(c->d, p->call.arguments[0], ALIGN_UP(p->call.arguments[1], 4096), value,
                       ALIGN_UP(p->call.arguments[2], 4096));
        break;
    case BREAKS:
        if (!(value & UINT32_MAX) && p->call.arguments[0])
            move_break(c, p->call.arguments[0]);
        break;
    default:
        allocate(c, p, value);
    }
}

/* Whose block begins there: of the program's own allocators the one that is farthest from the system. */
static unsigned layer_taken(const struct data_calls *c, unsigned layer, uint64_t address)
{
    for (size_t i = layer >= DATA_LAYER_CUSTOM ? c->own_count : 0; i-- > 0;)
        if (data_begins_at(c->d, own_layer(i), address))
            return own_layer(i);
    return layer;
}

static void do_at_entrance(struct data_calls *c, struct thread *t, const struct data_call *call, enum effect effect,
                           unsigned of)
{
    uint64_t address = call->arguments[0];
    unsigned layer = layer_taken(c, of, address);
    if (effect == UNMAPS) {
        data_unmap(c->d, ALIGN_DOWN(address, 4096), ALIGN_UP(call->arguments[1], 4096));
    } else if (address != t->taken || data_begins_at(c->d, layer, address)) { /* operator delete calls free */
        data_release(c->d, layer, address);
        t->taken = address;
    }
}

/* ---- entrances and returns ---- */

static void set_time(struct data_calls *c, const struct data_call *call)
{
    if (call->time)
        data_set_time(c->d, call->time);
}

static void forget_left(struct data_calls *c, struct thread *t, const struct data_call *now)
{
    while (t->count && (!now->open || t->pending[t->count - 1].call.stack < now->open)) {
        c->lost.unmatched++;
        t->count--;
    }
}

static bool is_inner(const struct thread *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->pending[i].layer != DATA_LAYER_MAPPING)
            return true;
    return false;
}

static void see_stack(struct data_calls *c, struct thread *t, uint64_t stack)
{
    if (!t->has_stack)
        t->has_stack = data_see_stack(c->d, stack);
}

static struct pending *innermost_at(struct thread *t, uint64_t stack)
{
    return t->count && t->pending[t->count - 1].call.stack == stack ? &t->pending[t->count - 1] : NULL;
}

/* ---- paths ---- */

static uint64_t hash_words(const struct data_path_word *words, uint32_t count)
{
    uint64_t h = count;
    for (uint32_t i = 0; i < count; i++) {
        h = (h ^ ((uint64_t)words[i].kind << 32 | words[i].offset)) * 0xff51afd7ed558ccdu;
        h = (h ^ h >> 32 ^ words[i].value) * 0xc4ceb9fe1a85ec53u;
        h ^= h >> 29;
    }
    return h;
}

static bool are_same(const struct known_path *a, const struct data_path *b)
{
    return a->count == b->count && memcmp(a->words, b->words, a->count * sizeof *a->words) == 0;
}

static const struct data_path_word *keep(struct data_calls *c, const struct data_path_word *words, uint32_t count)
{
    struct data_path_word *kept = ARENA_ARRAY(c->arena, struct data_path_word, count + 1);
    memcpy(kept, words, count * sizeof *words);
    return kept;
}

/* Numbers what c->seen has; NULL: there is no room for more. */
static const struct data_path *number_path(struct data_calls *c, struct thread *t, const struct pending *p)
{
    struct data_path *by = &c->seen;
    uint64_t number, h = hash_words(by->words, by->count);
    for (; map_get(&t->by_words, h, &number); h++)
        if (are_same(t->paths.data[number - 1], by)) {
            by->number = (uint32_t)number;
            by->is_new = false;
            return by;
        }
    if (t->paths.len == PATHS_MAX)
        return NULL;
    struct known_path *known_path = ARENA_NEW(c->arena, struct known_path);
    *known_path = (struct known_path){.depth = p->depth, .count = by->count, .words = keep(c, by->words, by->count)};
    memcpy(known_path->path, p->path, p->depth * sizeof *p->path);
    VEC_PUSH(&t->paths, known_path);
    t->far_count += by->is_far;
    by->number = (uint32_t)t->paths.len;
    by->is_new = true;
    map_put(&t->by_words, h, by->number);
    return by;
}

/* By its number; without one it has none. */
static bool take_path(const struct thread *t, struct pending *p, uint32_t number)
{
    bool is_known = number && number <= t->paths.len;
    p->known = is_known ? t->paths.data[number - 1] : NULL;
    p->path = is_known ? p->known->path : p->own;
    p->depth = is_known ? p->known->depth : 0;
    return is_known;
}

/* Where a copy is shorter than usual, the same words may lead farther another time. */
static const struct data_path *find_path(struct data_calls *c, struct thread *t, struct pending *p,
                                         const struct data_call *call)
{
    struct walk_stack s = {call->stack, call->copy, call->copy_bytes};
    if (take_path(t, p, call->path))
        return NULL;
    c->seen.is_settled = t->far_count >= FAR_MAX;
    p->depth = (uint32_t)walk_path(c->walk, &s, call->frame, !c->seen.is_settled, p->own, &c->seen);
    t->near_count = c->seen.is_far ? 0 : t->near_count + 1;
    uint32_t enough = c->seen.is_far && c->seen.is_cut ? DATA_COPY_BYTES : DATA_NEAR_BYTES;
    return p->depth && call->copy_bytes >= enough ? number_path(c, t, p) : NULL;
}

bool data_paths_are_near(const struct data_calls *c) { return c->last && c->last->near_count > NEAR_MANY; }

const struct data_path *data_entered(struct data_calls *c, const struct data_call *call)
{
    struct thread *t = thread_of(c, call->thread);
    struct pending *same, *p;
    enum effect effect;
    uint8_t layer;
    set_time(c, call);
    see_stack(c, t, call->stack);
    forget_left(c, t, call);
    if (!effect_of(c, call->function, &effect, &layer))
        return NULL;
    if ((same = innermost_at(t, call->stack)) && !same->jumps) { /* which has returned unseen: the next call there */
        c->lost.unmatched++;
        t->count--;
        same = NULL;
    }
    if (effect == TAKES_0 || effect == UNMAPS) {
        do_at_entrance(c, t, call, effect, layer);
        return NULL;
    }
    if (same || t->count == PENDING_MAX)
        return NULL;
    bool is_within = is_inner(t);
    p = &t->pending[t->count++];
    p->call = *call;
    p->effect = effect;
    p->layer = layer;
    p->is_inner = is_within;
    p->given = 0;
    p->jumps = false;
    return find_path(c, t, p, call);
}

/* The innermost call is over. */
static void end_call(struct data_calls *c, struct thread *t, const struct data_call *left)
{
    struct pending *p = &t->pending[--t->count];
    struct pending *outer = t->count ? p - 1 : NULL;
    uint64_t value = left->arguments[0];
    set_time(c, left);
    if (!value || value != p->given)
        do_at_return(c, p, left);
    if (outer && outer->layer == p->layer)
        outer->given = value;
}

/* calloc ends in a jump to memset, which gets the block as its first argument and returns it. */
void data_jumps(struct data_calls *c, const struct data_call *call)
{
    struct thread *t = thread_of(c, call->thread);
    forget_left(c, t, call);
    struct pending *p = innermost_at(t, call->stack);
    if (!p)
        return;
    p->jumps = true;
    if (p->effect == GIVES_0_TIMES_1)
        end_call(c, t, call);
}

void data_left(struct data_calls *c, const struct data_call *call)
{
    struct thread *t = thread_of(c, call->thread);
    c->given.address = 0;
    forget_left(c, t, call);
    if (innermost_at(t, call->stack))
        end_call(c, t, call);
}

void data_gave(struct data_calls *c, const struct data_call *call, uint64_t address)
{
    struct thread *t = thread_of(c, call->thread);
    struct pending p;
    set_time(c, call);
    see_stack(c, t, call->stack);
    forget_left(c, t, call);
    c->given.address = 0;
    if (!effect_of(c, call->function, &p.effect, &p.layer) || (p.effect != GIVES_0 && p.effect != GIVES_OWN))
        return;
    p.call = *call;
    take_path(t, &p, call->path);
    allocate(c, &p, address);
    struct pending *outer = t->count ? &t->pending[t->count - 1] : NULL;
    if (outer && outer->layer == p.layer)
        outer->given = address;
}

const struct data_given *data_given(const struct data_calls *c) { return c->given.address ? &c->given : NULL; }
