/* SPDX-License-Identifier: Apache-2.0
 * Plain levels. The order of what happens at a miss is that of hierarchy.c: the further level first, then what has to
 * go. */
#include "cache/plain/plain.h"

#include <assert.h>
#include <stdlib.h>

enum { CLOCK_LEFT = 1000, LINES_FIRST = 1 << 10, AHEAD = 16, PART = 2048, FAR_SHARE = 24, HOST_LINE = 64 };
#define CLOCK_MAX (UINT32_MAX >> PLAIN_WAY_BITS)
#define INLINED __attribute__((always_inline)) static inline

struct reference { /* of which a line is looked at */
    uint64_t line;
    uint32_t cell;
    enum cache_kind kind;
    unsigned reached, missed; /* levels, a bit each: it counts once, however many lines it has */
};

/* ---- ways ---- */

static uint64_t set_of(const struct plain_level *l, uint64_t line)
{
    return l->mask || l->sets == 1 ? line & l->mask : line % l->sets;
}

/* Times become places in the order of use of each set, so that the clock begins anew. */
static void turn_back(struct plain_level *l)
{
    for (uint64_t set = 0; set < l->sets; set++) {
        uint32_t *used = &l->used[set * l->row], order[PLAIN_WAYS_MAX] = {0}, way;
        for (way = 0; way < l->row; way++) {
            order[way] = used[way] >> PLAIN_WAY_BITS == CLOCK_MAX || used[way] >> PLAIN_WAY_BITS == 0 ? 0 : 1;
            for (uint32_t k = 0; order[way] && k < l->row; k++)
                order[way] += used[k] < used[way];
        }
        for (way = 0; way < l->row; way++)
            if (used[way] != UINT32_MAX)
                used[way] = order[way] << PLAIN_WAY_BITS | way;
    }
    l->clock = l->row + 1;
}

INLINED void touch(struct plain_level *l, uint64_t line, uint32_t way)
{
    if (++l->clock == CLOCK_MAX)
        turn_back(l);
    l->used[set_of(l, line) * l->row + way] = l->clock << PLAIN_WAY_BITS | way;
}

INLINED uint32_t oldest_way(const uint32_t *used, uint32_t row)
{
    uint32_t least[4] = {used[0], used[1], used[2], used[3]};
    for (uint32_t way = 4; way < row; way += 4)
        for (uint32_t k = 0; k < 4; k++)
            least[k] = used[way + k] < least[k] ? used[way + k] : least[k];
    uint32_t a = least[0] < least[1] ? least[0] : least[1], b = least[2] < least[3] ? least[2] : least[3];
    return (a < b ? a : b) & (PLAIN_WAYS_MAX - 1);
}

/* ---- what leaves, and what comes ---- */

/* Without a branch: what is known of the line is seldom near, and nothing waits for it then. */
INLINED void evict(struct cache *c, struct plain *p, unsigned at, uint32_t number, uint32_t cell)
{
    struct plain_line *n = &p->of[number];
    unsigned own = 1u << at, here = n->here, dirty = n->dirty;
    unsigned further = here & ~((2u << at) - 1), is_dirty = dirty >> at & 1; /* goes to the nearest one that has it */
    n->by[at] = cell + 1;
    n->here = (uint8_t)(here & ~own);
    n->dirty = (uint8_t)((dirty & ~own) | (further & -further & -is_dirty));
    c->levels[p->levels[at].at].counts.write_backs += is_dirty;
}

static void bring_in(struct cache *c, struct plain *p, unsigned at, uint32_t number, const struct reference *r)
{
    struct plain_level *l = &p->levels[at];
    uint64_t first = set_of(l, r->line) * l->row;
    uint32_t way = oldest_way(&l->used[first], l->row), gone = l->lines[first + way];
    if (++l->clock == CLOCK_MAX)
        turn_back(l);
    l->used[first + way] = l->clock << PLAIN_WAY_BITS | way;
    l->lines[first + way] = number;
    p->of[number].way[at] = (uint8_t)way;
    p->of[number].here = (uint8_t)(p->of[number].here | 1u << at);
    if (gone)
        evict(c, p, at, gone, r->cell);
}

static void count_miss(struct cache *c, const struct plain *p, unsigned at, uint32_t number, bool in_shadow,
                       struct reference *r)
{
    struct level *l = &c->levels[p->levels[at].at];
    uint32_t by = p->of[number].by[at];
    if (r->missed >> at & 1)
        return;
    r->missed |= 1u << at;
    l->counts.misses[r->kind]++;
    if (c->sets.groups)
        sets_count_miss(&l->sample, r->cell, group_of(c, r->line << l->shift) - 1, true);
    enum cache_cause cause = !by ? CACHE_COLD : in_shadow ? CACHE_CONFLICT : CACHE_CAPACITY;
    if (by)
        tally_count_evictor(&l->tally, r->cell, by - 1);
    struct cache_cell *cell = tally_cell(&l->tally, r->cell);
    cell->misses++;
    cell->causes[cause]++;
    l->counts.causes[r->kind][cause]++;
}

/* The level lacks the line. */
static void miss(struct cache *c, struct plain *p, unsigned at, uint32_t number, bool in_shadow, struct reference *r)
{
    unsigned next = at + 1;
    count_miss(c, p, at, number, in_shadow, r);
    if (next < p->level_count) {
        struct level *l = &c->levels[p->levels[next].at];
        bool counts = !(r->reached >> next & 1), shadowed = stack_use(&p->levels[next].shadow, number) == 0;
        r->reached |= 1u << next;
        l->counts.references[r->kind] += counts;
        if (counts)
            tally_count_reference(&l->tally, r->cell);
        if (p->of[number].here >> next & 1)
            touch(&p->levels[next], r->line, p->of[number].way[next]);
        else
            miss(c, p, next, number, shadowed, r);
    }
    bring_in(c, p, at, number, r);
}

/* ---- references ---- */

/* Stacks go where lines have their places. */
static void place_stacks(struct plain *p)
{
    stack_place_in(&p->stack, &p->of->at[0], PLAIN_LINE_SPREAD);
    for (unsigned i = 1; i < p->level_count; i++)
        stack_place_in(&p->levels[i].shadow, &p->of->at[i], PLAIN_LINE_SPREAD);
}

/* Whole ones of this machine's lines. */
static void make_room(struct plain *p, uint32_t cap)
{
    void *memory = xmalloc(cap * sizeof *p->of + HOST_LINE);
    struct plain_line *of = (struct plain_line *)ALIGN_UP((uintptr_t)memory, (uintptr_t)HOST_LINE);
    if (p->cap)
        memcpy(of, p->of, p->cap * sizeof *of);
    free(p->memory);
    p->memory = memory;
    p->of = of;
    p->cap = cap;
    place_stacks(p);
}

INLINED uint32_t number_of(struct plain *p, uint64_t line)
{
    uint32_t number = numbers_of(&p->numbers, line);
    if (number >= p->cap)
        make_room(p, 2 * p->cap);
    return number;
}

/* A line of a reference. Returns the place of its last use among the stack's sizes. */
INLINED unsigned use(struct cache *c, struct plain *p, uint32_t x, struct reference *r, bool stores)
{
    unsigned size = stack_use(&p->stack, x);
    if (p->of[x].here & 1)
        touch(&p->levels[0], r->line, p->of[x].way[0]);
    else
        miss(c, p, 0, x, size <= p->shadow_size, r);
    p->of[x].dirty = (uint8_t)(p->of[x].dirty | stores);
    return size;
}

static bool is_plain(const struct cache *c, const struct plain *p, const struct cache_ref *r)
{
    return r->thread == p->thread && (r->kind != CACHE_FETCH || c->nearest_code == NO_LEVEL);
}

/* CACHE_USE: of a line that is not there its place in the order of use would be one more than the levels have. */
static void use_only(struct plain *p, uint32_t number, uint64_t line)
{
    if (!(p->of[number].here & 1))
        return;
    stack_use(&p->stack, number);
    touch(&p->levels[0], line, p->of[number].way[0]);
}

INLINED void run_one(struct cache *c, struct plain *p, uint32_t number, const struct cache_ref *r)
{
    struct level *l = &c->levels[p->levels[0].at];
    if (__builtin_expect(r->kind == CACHE_USE, 0)) {
        use_only(p, number, r->address >> l->shift);
        return;
    }
    bool is_modify = r->kind == CACHE_MODIFY, stores = r->kind == CACHE_WRITE || is_modify;
    struct reference x = {r->address >> l->shift, r->cell, is_modify ? CACHE_READ : (enum cache_kind)r->kind, 0, 0};
    uint64_t last = (r->address + r->bytes - 1) >> l->shift;
    unsigned farthest = use(c, p, number, &x, stores);
    while (x.line < last) {
        x.line++;
        unsigned size = use(c, p, number_of(p, x.line), &x, stores);
        farthest = size > farthest ? size : farthest;
    }
    l->counts.references[x.kind]++;
    tally_count_reference(&l->tally, r->cell);
    if (p->curve)
        curve_count(p->curve, p->curve_size[farthest], r->cell);
}

/* The sets of further levels that it will be looked for in. */
INLINED void fetch_further(const struct plain *p, uint32_t number, uint64_t line)
{
    unsigned here = p->of[number].here;
    for (unsigned at = 1; !(here & 1) && at < p->level_count; at++, here >>= 1) {
        const struct plain_level *l = &p->levels[at];
        uint64_t first = set_of(l, line) * l->row;
        __builtin_prefetch(&l->used[first], 1);
        __builtin_prefetch(&l->lines[first], 1);
    }
}

/* Where many miss not all that is known of lines is near: it is fetched in two steps, some references before. (A
 * further step, for the lines that have to go, costs more than it saves: to find them the whole set is read twice.) */
static void run_far(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    uint32_t numbers[PART];
    unsigned shift = c->levels[p->levels[0].at].shift;
    for (size_t i = 0; i < count + 2 * AHEAD; i++) {
        size_t next = i - AHEAD, now = next - AHEAD;
        if (i < count) {
            numbers[i] = refs[i].kind == CACHE_FETCH ? 0 : number_of(p, refs[i].address >> shift);
            __builtin_prefetch(&p->of[numbers[i]], 1);
        }
        if (next < count)
            fetch_further(p, numbers[next], refs[next].address >> shift);
        if (now < count && numbers[now])
            run_one(c, p, numbers[now], &refs[now]);
    }
}

static void run_near(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    unsigned shift = c->levels[p->levels[0].at].shift;
    for (const struct cache_ref *r = refs; r < refs + count; r++)
        if (r->kind != CACHE_FETCH)
            run_one(c, p, number_of(p, r->address >> shift), r);
}

/* Of the second level, if there is one. */
static uint64_t misses_of(const struct cache *c, const struct plain *p)
{
    const struct cache_counts *n = &c->levels[p->levels[p->level_count > 1].at].counts;
    return n->misses[CACHE_READ] + n->misses[CACHE_WRITE];
}

static void init_level(struct plain_level *l, const struct cache_level *k)
{
    l->sets = k->size_bytes / k->line_bytes / k->ways;
    l->mask = l->sets & (l->sets - 1) ? 0 : l->sets - 1;
    l->row = ALIGN_UP(k->ways, 4);
    l->clock = CLOCK_MAX - CLOCK_LEFT; /* so that it turns back in each run that is not short, and in tests */
    l->used = xmalloc(l->sets * l->row * sizeof *l->used);
    l->lines = xmalloc(l->sets * l->row * sizeof *l->lines);
    for (uint64_t i = 0; i < l->sets * l->row; i++)
        l->used[i] = i % l->row < k->ways ? (uint32_t)(i % l->row) : UINT32_MAX;
}

static void begin(const struct cache *c, struct plain *p, unsigned thread)
{
    for (unsigned i = 0; i < p->level_count; i++)
        init_level(&p->levels[i], &c->levels[p->levels[i].at].config);
    p->thread = thread;
    p->has_begun = true;
}

size_t plain_run(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    size_t n;
    if (!p->has_begun && count)
        begin(c, p, refs->thread);
    for (n = 0; n < count && is_plain(c, p, &refs[n]); n++)
        continue;
    for (size_t i = 0, now; i < n; i += now) {
        uint64_t before = misses_of(c, p);
        now = min_u64(n - i, PART);
        (p->is_far ? run_far : run_near)(c, p, &refs[i], now);
        p->is_far = (misses_of(c, p) - before) * FAR_SHARE > now;
    }
    if (p->curve)
        p->curve->lines = (uint32_t)p->stack.held;
    return n;
}

/* ---- made ---- */

static bool is_plain_level(const struct cache_level *l, const struct cache_level *nearest)
{
    return l->policy == CACHE_LRU && l->inclusion == CACHE_NEITHER && !l->write_through && !l->no_allocate &&
           !l->whole && !l->has_streams && l->ways <= PLAIN_WAYS_MAX &&
           l->size_bytes / l->line_bytes <= PLAIN_LINES_MAX && l->line_bytes == nearest->line_bytes;
}

static uint64_t room_of(const struct cache *c, unsigned at)
{
    const struct cache_level *l = &c->levels[at].config;
    return max_u64(l->size_bytes / l->line_bytes / (c->sets.one_in ? c->sets.one_in : 1), 1);
}

struct plain *plain_new(const struct cache *c)
{
    unsigned count = 0;
    for (int i = c->nearest_data; i != NO_LEVEL; i = c->levels[i].next, count++)
        if (!is_plain_level(&c->levels[i].config, &c->levels[c->nearest_data].config))
            return NULL;
    if (!c->with_causes || !count || count > PLAIN_LEVELS_MAX)
        return NULL;
    struct plain *p = xmalloc(sizeof *p);
    for (int i = c->nearest_data; i != NO_LEVEL; i = c->levels[i].next) {
        struct plain_level *l = &p->levels[p->level_count];
        uint64_t room = room_of(c, (unsigned)i);
        l->at = (unsigned)i;
        stack_init(p->level_count++ ? &l->shadow : &p->stack, &room, 1);
    }
    numbers_init(&p->numbers);
    make_room(p, LINES_FIRST);
    return p;
}

void plain_free(struct plain *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < PLAIN_LEVELS_MAX; i++) {
        free(p->levels[i].used);
        free(p->levels[i].lines);
        stack_fini(&p->levels[i].shadow);
    }
    stack_fini(&p->stack);
    numbers_fini(&p->numbers);
    free(p->memory);
    free(p);
}

bool plain_carry(struct plain *p, const struct cache *c, struct cache_curve *k)
{
    uint64_t lines[STACK_SIZES_MAX], room = room_of(c, p->levels[0].at);
    unsigned sizes = 0, i = 0;
    if (k->shift != c->levels[p->levels[0].at].shift || p->has_begun || k->lines)
        return false;
    for (bool is_placed = false; i < k->sizes || !is_placed;) {
        uint64_t next = i < k->sizes ? curve_size_lines(k, i) : UINT64_MAX;
        p->curve_size[sizes] = (uint8_t)i;
        if (!is_placed && room <= next)
            p->shadow_size = sizes;
        lines[sizes++] = !is_placed && room < next ? room : next;
        i += is_placed || room >= next;
        is_placed |= room <= next;
    }
    p->curve_size[sizes] = (uint8_t)k->sizes;
    stack_fini(&p->stack);
    stack_init(&p->stack, lines, sizes);
    place_stacks(p);
    p->curve = k;
    return true;
}
