/* SPDX-License-Identifier: Apache-2.0
 * Blocks that threads take from each other, and whether what they miss then had been written by another. */
#include "cache/coherence.h"
#include "cache/hierarchy.h"
#include "cache/plain/plain.h"

#include <assert.h>
#include <stdlib.h>

enum { SIDES_MAX = 8 };
#define NONE UINT32_MAX

struct pending { /* a miss that is false sharing so far; it is decided until the line leaves the level */
    uint64_t line;
    uint32_t next, cell;
    uint8_t level, kind;
};
struct loss {          /* a thread that lost a block to another's write */
    uint64_t fresh;    /* what others have written since it last used any such; as cache_party.written */
    uint64_t taken;    /* what that write wrote */
    uint32_t next, by; /* by: its cell */
    uint32_t pending;  /* the first; NONE */
    uint8_t thread, by_thread;
    bool is_missed, is_true; /* since it was taken, for the line's counts */
};
struct block { /* that some thread lost */
    uint64_t number, true_misses, false_misses, unlisted;
    uint32_t loss; /* the first; NONE */
    uint32_t side_count;
    uint8_t marks[SIDES_MAX];  /* of its sides, by which most others are told from them where they stand */
    uint32_t sides[SIDES_MAX]; /* among all */
};

enum { STRETCH_SHIFT = 6, STRETCH = 1 << STRETCH_SHIFT, RECENT = 1 << 12 };
struct stretch {              /* of blocks one behind the other */
    uint64_t owners[STRETCH]; /* threads that may have it in a coherent level, a bit each */
    uint32_t lost[STRETCH];   /* number in `blocks` and 1; 0: none has lost it */
    bool is_used;             /* it is among coherence.used */
};
struct recent {
    uint64_t number; /* of the stretch, and 1 */
    struct stretch *stretch;
};

struct coherence {
    struct coherence_filter filter;
    unsigned shift, piece_shift; /* of an address, to its block; of a byte in it, to its bit */
    int outer;                   /* the nearest level of data that is not coherent */
    struct arena *arena;
    struct map stretches;         /* -> struct stretch *, as a number */
    VEC(struct stretch *) used;   /* that were looked for since all caches were empty */
    struct recent recent[RECENT]; /* by the low bits of their numbers */
    VEC(struct block) blocks;
    VEC(struct loss) losses;
    VEC(struct cache_party) sides;
    VEC(struct pending) pending;
    uint32_t free_pending;
};

/* ---- blocks, and what was lost of them ---- */

static struct stretch *find_stretch(struct coherence *k, uint64_t number)
{
    uint64_t *at = map_place(&k->stretches, number);
    if (!*at) {
        struct stretch *fresh = ARENA_NEW(k->arena, struct stretch);
        *at = (uint64_t)(uintptr_t)fresh;
    }
    struct stretch *found = (struct stretch *)(uintptr_t)*at;
    if (!found->is_used)
        VEC_PUSH(&k->used, found);
    found->is_used = true;
    k->recent[number % RECENT] = (struct recent){number + 1, found};
    return found;
}

static struct stretch *stretch_of(struct coherence *k, uint64_t block)
{
    uint64_t number = block >> STRETCH_SHIFT;
    const struct recent *r = &k->recent[number % RECENT];
    return r->number == number + 1 ? r->stretch : find_stretch(k, number);
}

static uint64_t *owners_of(struct coherence *k, uint64_t block)
{
    return &stretch_of(k, block)->owners[block % STRETCH];
}

void coherence_look(const struct coherence *k, uint64_t address)
{
    uint64_t block = address >> k->shift, number = block >> STRETCH_SHIFT;
    const struct recent *r = &k->recent[number % RECENT];
    if (r->number == number + 1)
        __builtin_prefetch(&r->stretch->owners[block % STRETCH], 1);
}

/* Its number in `blocks` and 1; 0: none has lost it. */
static uint32_t lost_number(struct coherence *k, uint64_t block)
{
    return coherence_watches(k, block << k->shift) ? stretch_of(k, block)->lost[block % STRETCH] : 0;
}

static struct block *block_of(struct coherence *k, uint64_t number)
{
    uint32_t at = lost_number(k, number);
    return at ? &k->blocks.data[at - 1] : NULL;
}

static void tell(struct cache_lost *lost, uint64_t *bits, uint64_t number)
{
    uint64_t n = number % (1u << CACHE_LOST_BITS), bit = 1ull << n % 64;
    if (!(__atomic_fetch_or(&bits[n / 64], bit, __ATOMIC_RELAXED) & bit))
        __atomic_fetch_add(&lost->changes, 1, __ATOMIC_RELEASE);
}

void cache_tell_lost(struct cache *c, struct cache_lost *lost) { c->lost = lost; }

static struct block *add_block(const struct cache *c, uint64_t number)
{
    struct coherence *k = c->coherence;
    struct block fresh = {.number = number, .loss = NONE};
    uint32_t at = lost_number(k, number);
    if (at)
        return &k->blocks.data[at - 1];
    uint64_t h = coherence_hash(number);
    k->filter.bits[h / 64] |= 1ull << h % 64;
    VEC_PUSH(&k->blocks, fresh);
    stretch_of(k, number)->lost[number % STRETCH] = (uint32_t)k->blocks.len;
    if (c->lost)
        tell(c->lost, c->lost->lost, number);
    return &k->blocks.data[k->blocks.len - 1];
}

static struct loss *loss_of(const struct coherence *k, const struct block *b, unsigned thread)
{
    for (uint32_t i = b->loss; i != NONE; i = k->losses.data[i].next)
        if (k->losses.data[i].thread == thread)
            return &k->losses.data[i];
    return NULL;
}

static struct loss *add_loss(struct coherence *k, struct block *b, unsigned thread)
{
    struct loss *found = loss_of(k, b, thread), fresh = {.next = b->loss, .thread = (uint8_t)thread, .pending = NONE};
    if (found)
        return found;
    b->loss = (uint32_t)k->losses.len;
    VEC_PUSH(&k->losses, fresh);
    return &k->losses.data[b->loss];
}

/* The part of a block that a reference reaches. */
static uint64_t part_of(const struct coherence *k, const struct cache_ref *r, uint64_t block)
{
    uint64_t begin = block << k->shift, end = begin + ((1ull << k->shift) - 1);
    uint64_t first = (max_u64(r->address, begin) - begin) >> k->piece_shift;
    uint64_t last = (min_u64(r->address + r->bytes - 1, end) - begin) >> k->piece_shift;
    return UINT64_MAX >> (63 - (last - first)) << first;
}

/* ---- sides ---- */

static uint8_t mark_of(unsigned thread, uint32_t cell)
{
    return (uint8_t)(((uint64_t)cell << 8 | thread) * 0x9e3779b97f4a7c15u >> 56);
}

/* NULL: more than are kept. */
static struct cache_party *side_of(struct coherence *k, struct block *b, unsigned thread, uint32_t cell)
{
    struct cache_party fresh = {.cell = cell, .thread = thread};
    uint8_t mark = mark_of(thread, cell);
    for (uint32_t i = 0; i < b->side_count; i++) {
        struct cache_party *s = &k->sides.data[b->sides[i]];
        if (b->marks[i] == mark && s->thread == thread && s->cell == cell)
            return s;
    }
    if (b->side_count == SIDES_MAX) {
        b->unlisted++;
        return NULL;
    }
    uint32_t number = (uint32_t)k->sides.len;
    b->marks[b->side_count] = mark;
    b->sides[b->side_count++] = number;
    VEC_PUSH(&k->sides, fresh);
    return &k->sides.data[number];
}

static void count_sides(struct coherence *k, struct block *b, const struct loss *lost, const struct visit *v)
{
    struct cache_party *s = side_of(k, b, v->thread, v->cell);
    if (s)
        s->misses++;
    s = side_of(k, b, lost->by_thread, lost->by);
    if (!s)
        return;
    s->taken_away++;
    s->written |= lost->taken;
}

static void note_touch(struct coherence *k, struct block *b, const struct visit *v, uint64_t part)
{
    struct cache_party *s = b->side_count ? side_of(k, b, v->thread, v->cell) : NULL;
    if (!s)
        return;
    s->read |= v->stores && !v->is_modify ? 0 : part;
    s->written |= v->stores ? part : 0;
}

/* ---- misses that are pending ---- */

static void add_pending(struct coherence *k, struct loss *lost, const struct pending *p)
{
    uint32_t at = k->free_pending;
    if (at == NONE) {
        at = (uint32_t)k->pending.len;
        VEC_PUSH(&k->pending, *p);
    } else {
        k->free_pending = k->pending.data[at].next;
        k->pending.data[at] = *p;
    }
    k->pending.data[at].next = lost->pending;
    lost->pending = at;
}

/* Takes the one at `link` out of its list. */
static void drop_pending(struct coherence *k, uint32_t *link)
{
    uint32_t at = *link;
    *link = k->pending.data[at].next;
    k->pending.data[at].next = k->free_pending;
    k->free_pending = at;
}

static void prove_true(struct cache *c, const struct pending *p)
{
    struct level *l = &c->levels[p->level];
    struct cache_cell *cell = tally_cell(&l->tally, p->cell);
    l->counts.causes[p->kind][CACHE_FALSE_SHARING]--;
    l->counts.causes[p->kind][CACHE_TRUE_SHARING]++;
    cell->causes[CACHE_FALSE_SHARING]--;
    cell->causes[CACHE_TRUE_SHARING]++;
}

static void prove_all(struct cache *c, struct block *b, struct loss *lost)
{
    struct coherence *k = c->coherence;
    if (lost->pending != NONE && !lost->is_true) {
        lost->is_true = true;
        b->false_misses--;
        b->true_misses++;
    }
    while (lost->pending != NONE) {
        prove_true(c, &k->pending.data[lost->pending]);
        drop_pending(k, &lost->pending);
    }
}

enum cache_cause coherence_judge(struct cache *c, int at, uint64_t line, const struct visit *v)
{
    struct coherence *k = c->coherence;
    struct level *l = &c->levels[at];
    uint64_t number = line >> (k->shift - l->shift);
    struct block *b = block_of(k, number);
    struct loss *lost = b ? loss_of(k, b, v->thread) : NULL;
    assert(lost && "its line was noted as taken when the loss was");
    bool is_true = lost->fresh & part_of(k, v->ref, number);
    if (!lost->is_missed) {
        lost->is_missed = true;
        lost->is_true = is_true;
        b->true_misses += is_true;
        b->false_misses += !is_true;
        count_sides(k, b, lost, v);
        if (c->lost)
            tell(c->lost, c->lost->missed, number);
    }
    if (!is_true)
        add_pending(k, lost, &(struct pending){line, NONE, v->cell, (uint8_t)at, (uint8_t)v->kind});
    return is_true ? CACHE_TRUE_SHARING : CACHE_FALSE_SHARING;
}

void coherence_forget(struct cache *c, int at, unsigned thread, uint64_t line)
{
    struct coherence *k = c->coherence;
    struct block *b = block_of(k, line >> (k->shift - c->levels[at].shift));
    struct loss *lost = b ? loss_of(k, b, thread) : NULL;
    for (uint32_t *link = lost ? &lost->pending : NULL; link && *link != NONE;) {
        struct pending *p = &k->pending.data[*link];
        if (p->level == at && p->line == line)
            drop_pending(k, link);
        else
            link = &p->next;
    }
}

/* ---- writes ---- */

/* Whether it is a loss to the level or to its shadow. `is_lost_above`: to the one above; an exclusive level had handed
 * the line up to it. */
static bool take_line(struct cache *c, int at, unsigned thread, uint64_t line, bool is_lost_above, uint32_t by,
                      lines_entry *dirty)
{
    if (c->plain)
        return plain_take(c, at, thread, line, by, dirty);
    struct level *l = &c->levels[at];
    struct bank *b = l->banks[thread];
    uint32_t number = 0;
    lines_entry e = lines_remove(&b->lines, line, &number);
    l->counts.write_backs += e & LINES_DIRTY;
    *dirty |= e & LINES_DIRTY;
    if (!b->causes)
        return false;
    if (!e)
        number = causes_number(b->causes, line);
    bool in_shadow = shadow_drop(&b->causes->shadow, number);
    if (!e && !in_shadow && !is_lost_above)
        return false;
    causes_note_left(b->causes, number, by, NOTE_TAKEN);
    if (l->next != NO_LEVEL && c->levels[l->next].is_coherent && c->levels[l->next].config.inclusion == CACHE_EXCLUSIVE)
        take_line(c, l->next, thread, line, true, by, dirty);
    return true;
}

static void note_loss(struct coherence *k, struct block *b, unsigned thread, const struct visit *v)
{
    struct loss *lost = add_loss(k, b, thread);
    while (lost->pending != NONE)
        drop_pending(k, &lost->pending);
    lost->by = v->cell;
    lost->by_thread = (uint8_t)v->thread;
    lost->taken = part_of(k, v->ref, b->number);
    lost->is_missed = lost->is_true = false;
}

/* A block from a thread, out of all its coherent levels. */
static void take(struct cache *c, unsigned thread, uint64_t block, const struct visit *v)
{
    struct coherence *k = c->coherence;
    lines_entry dirty = 0;
    bool lost = false;
    for (int at = 0; at < c->count; at++) {
        if (!c->levels[at].is_coherent)
            continue;
        uint64_t more = k->shift - c->levels[at].shift, first = block << more;
        for (uint64_t i = 0; i < 1ull << more; i++)
            lost |= take_line(c, at, thread, first + i, false, v->cell, &dirty);
    }
    if (dirty)
        hierarchy_write_back(c, k->outer, block << k->shift, thread);
    if (lost)
        note_loss(k, add_block(c, block), thread, v);
}

/* Whether the thread is its only owner then. */
static bool write_block(struct cache *c, uint64_t block, const struct visit *v)
{
    struct coherence *k = c->coherence;
    uint64_t *owners = owners_of(k, block), own = 1ull << v->thread;
    for (uint64_t others = *owners & ~own; others; others &= others - 1)
        take(c, (unsigned)__builtin_ctzll(others), block, v);
    *owners &= own;
    struct block *b = block_of(k, block);
    for (uint32_t i = b ? b->loss : NONE; i != NONE; i = k->losses.data[i].next)
        if (k->losses.data[i].thread != v->thread)
            k->losses.data[i].fresh |= part_of(k, v->ref, block);
    return *owners;
}

bool coherence_write(struct cache *c, const struct visit *v)
{
    const struct coherence *k = c->coherence;
    uint64_t last = (v->ref->address + v->ref->bytes - 1) >> k->shift;
    bool is_alone = true;
    for (uint64_t block = v->ref->address >> k->shift; block <= last; block++)
        is_alone &= write_block(c, block, v);
    return is_alone;
}

/* ---- reads ---- */

static void clean(struct cache *c, unsigned thread, uint64_t block)
{
    struct coherence *k = c->coherence;
    bool is_dirty = false;
    for (int at = 0; at < c->count; at++) {
        struct level *l = &c->levels[at];
        if (!l->is_coherent)
            continue;
        uint64_t more = k->shift - l->shift, first = block << more;
        for (uint64_t i = 0; i < 1ull << more; i++) {
            bool was_dirty =
                c->plain ? plain_clean(c, at, thread, first + i) : lines_clean(&l->banks[thread]->lines, first + i);
            l->counts.write_backs += was_dirty;
            is_dirty |= was_dirty;
        }
    }
    if (is_dirty)
        hierarchy_write_back(c, k->outer, block << k->shift, thread);
}

bool coherence_fetch(struct cache *c, uint64_t address, const struct visit *v)
{
    struct coherence *k = c->coherence;
    uint64_t block = address >> k->shift, *owners = owners_of(k, block), own = 1ull << v->thread;
    uint64_t others = *owners & ~own;
    if (others && *owners == others && !(others & (others - 1))) /* what several have, none has written since */
        clean(c, (unsigned)__builtin_ctzll(others), block);
    *owners |= own;
    struct block *b = block_of(k, block);
    struct loss *lost = b ? loss_of(k, b, v->thread) : NULL;
    if (lost && lost->pending == NONE)
        lost->fresh = 0;
    return !others;
}

void coherence_use(struct cache *c, const struct visit *v)
{
    struct coherence *k = c->coherence;
    uint64_t last = (v->ref->address + v->ref->bytes - 1) >> k->shift;
    for (uint64_t block = v->ref->address >> k->shift; block <= last; block++) {
        struct block *b = block_of(k, block);
        if (!b)
            continue;
        uint64_t part = part_of(k, v->ref, block);
        struct loss *lost = loss_of(k, b, v->thread);
        note_touch(k, b, v, part);
        if (!lost || !(lost->fresh & part))
            continue;
        prove_all(c, b, lost);
        lost->fresh = 0;
    }
}

/* ---- made ---- */

static void own(struct coherence *k, uint64_t block, uint64_t thread) { *owners_of(k, block) |= thread; }

static void own_shadow(struct coherence *k, const struct causes *of, unsigned more, uint64_t thread)
{
    const struct numbers *n = &of->numbers;
    for (uint32_t x = NUMBERS_PAGE; x < min_u64(n->count, of->cap); x++)
        if (shadow_holds(&of->shadow, x))
            own(k, numbers_line(n, x) >> more, thread);
}

struct owning {
    struct coherence *k;
    uint64_t threads;
};

static void own_line(void *ctx, uint64_t line)
{
    const struct owning *o = ctx;
    own(o->k, line, o->threads);
}

/* What the first thread has is found where it lies: before there is a second, nothing is kept of it. */
static void own_first(struct coherence *k, const struct cache *c)
{
    if (c->plain) {
        plain_each_own(c->plain, own_line, &(struct owning){k, 1ull << c->plain->thread});
        return;
    }
    for (int at = 0; at < c->count; at++) {
        const struct level *l = &c->levels[at];
        if (!l->is_coherent)
            continue;
        const struct bank *b = l->banks[__builtin_ctzll(c->threads)];
        for (uint64_t i = 0; i < b->lines.sets * b->lines.ways; i++)
            if (b->lines.entries[i])
                own(k, lines_line_of(b->lines.entries[i]) >> (k->shift - l->shift), c->threads);
        if (b->causes)
            own_shadow(k, b->causes, k->shift - l->shift, c->threads);
    }
}

struct coherence *coherence_new(const struct cache *c)
{
    struct coherence *k = xmalloc(sizeof *k);
    for (int at = 0; at < c->count; at++)
        if (c->levels[at].is_coherent && c->levels[at].shift > k->shift)
            k->shift = c->levels[at].shift;
    if (!k->shift) {
        free(k);
        return NULL;
    }
    k->arena = arena_new();
    k->filter.shift = k->shift;
    k->piece_shift = k->shift > 6 ? k->shift - 6 : 0;
    k->free_pending = NONE;
    k->outer = c->nearest_data;
    while (k->outer != NO_LEVEL && c->levels[k->outer].is_coherent)
        k->outer = c->levels[k->outer].next;
    own_first(k, c);
    return k;
}

void coherence_empty(struct coherence *k)
{
    for (size_t i = 0; i < k->used.len; i++) {
        memset(k->used.data[i]->owners, 0, sizeof k->used.data[i]->owners);
        k->used.data[i]->is_used = false;
    }
    k->used.len = 0;
    memset(k->recent, 0, sizeof k->recent); /* so that each is found anew */
    k->losses.len = k->pending.len = 0;
    k->free_pending = NONE;
    for (size_t i = 0; i < k->blocks.len; i++)
        k->blocks.data[i].loss = NONE;
}

void coherence_free(struct coherence *k)
{
    if (!k)
        return;
    map_fini(&k->stretches);
    VEC_FREE(&k->used);
    arena_free(k->arena);
    VEC_FREE(&k->blocks);
    VEC_FREE(&k->losses);
    VEC_FREE(&k->sides);
    VEC_FREE(&k->pending);
    free(k);
}

/* ---- what was found ---- */

static int by_weight(const void *a, const void *b)
{
    const struct cache_party *x = a, *y = b;
    uint64_t m = x->misses + x->taken_away, n = y->misses + y->taken_away;
    if (m != n)
        return m > n ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

static void give_line(const struct coherence *k, const struct block *b, struct arena *a, struct cache_shared_line *out)
{
    struct cache_party *sides = ARENA_ARRAY(a, struct cache_party, b->side_count + 1);
    *out = (struct cache_shared_line){b->number << k->shift, b->true_misses, b->false_misses, sides, 0, b->unlisted};
    for (uint32_t i = 0; i < b->side_count; i++)
        sides[out->side_count++] = k->sides.data[b->sides[i]];
    qsort(sides, out->side_count, sizeof *sides, by_weight);
}

static int by_misses(const void *a, const void *b)
{
    const struct block *x = *(const struct block *const *)a, *y = *(const struct block *const *)b;
    uint64_t m = x->true_misses + x->false_misses, n = y->true_misses + y->false_misses;
    if (m != n)
        return m > n ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

const struct cache_shared_line *cache_shared_lines(const struct cache *c, struct arena *a, size_t max, size_t *count)
{
    const struct coherence *k = c->coherence;
    size_t missed = 0;
    *count = 0;
    if (!k)
        return NULL;
    const struct block **all = ARENA_ARRAY(a, const struct block *, k->blocks.len + 1);
    for (size_t i = 0; i < k->blocks.len; i++)
        if (k->blocks.data[i].true_misses + k->blocks.data[i].false_misses)
            all[missed++] = &k->blocks.data[i];
    qsort(all, missed, sizeof *all, by_misses);
    *count = min_u64(missed, max);
    struct cache_shared_line *out = ARENA_ARRAY(a, struct cache_shared_line, *count + 1);
    for (size_t i = 0; i < *count; i++)
        give_line(k, all[i], a, &out[i]);
    return out;
}
