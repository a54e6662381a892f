/* SPDX-License-Identifier: Apache-2.0
 * References into cells, and through the caches. */
#include "spy/cells.h"
#include "spy/feed.h"
#include "spy/picture.h"
#include "spy/touch.h"
#include "spy/witness.h"

#include <stdlib.h>

/* A long range goes in pieces of so many bytes, which end where lines do. */
enum { PIECE = 64 };
#define ADDRESSES (1ull << 47)

enum { ABSORBED_MAX = 2000, SIDES_MAX = 8 };
#define ABSORBED (1ull << 63) /* in the stead of an address, with a number */

struct absorbed { /* a line that threads of another process share */
    struct cache_shared_line line;
    struct cache_party sides[SIDES_MAX];
    uint64_t second, offset; /* UINT64_MAX: not known */
};
struct spy {
    struct spy_options opt;
    VEC(struct cache *) caches;
    struct cache_curve *curve;
    VEC(struct spy_site) sites;
    struct cells cells;
    struct pictures pictures;
    struct feed *feed;
    struct spy_pending pending; /* whose cells are not known yet */
    uint64_t strays;
    uint64_t window_count, in_windows;
    struct witness *second;  /* NULL: none */
    struct touches *touches; /* NULL: there are no threads */
    /* Lines that came, the last one first, and 1; 0: none. */
    uint64_t last[CACHE_THREADS_MAX][SPY_FILTER_SLOTS][SPY_LAST_LINES];
    bool has_absorbed;
    VEC(struct absorbed) absorbed; /* most misses first, but for those that came last */
};

static void to_cache(void *simulator, const struct cache_ref *refs, size_t count) { cache_run(simulator, refs, count); }

static void to_curve(void *simulator, const struct cache_ref *refs, size_t count)
{
    cache_curve_run(simulator, refs, count);
}

/* The longest line of a private level of data: what threads take from each other; 0: there is none. */
static uint32_t shared_line(const struct cache_config *c)
{
    uint32_t longest = 0;
    for (unsigned i = 0; i < c->count; i++) {
        const struct cache_level *l = &c->levels[i];
        if (l->side & CACHE_DATA && !l->is_shared && l->line_bytes < CACHE_PAGE_MIN && l->line_bytes > longest)
            longest = l->line_bytes;
    }
    return longest;
}

struct spy *spy_new(const struct spy_options *options)
{
    struct spy *s = xmalloc(sizeof *s);
    s->opt = *options;
    s->opt.part.one_in = s->opt.part.one_in ? s->opt.part.one_in : 1;
    s->pending.is_whole = !s->opt.part.mask;
    s->feed = feed_new();
    for (size_t i = 0; i < options->config_count; i++) {
        struct cache *c = cache_new(&options->configs[i], true);
        cache_take_part(c, &s->opt.part);
        cache_tell_lost(c, options->lost);
        VEC_PUSH(&s->caches, c);
        feed_add(s->feed, to_cache, c);
    }
    if (options->curve_line) {
        unsigned one_in = s->opt.part.one_in;
        uint64_t least = max_u64(options->curve_least / one_in, PIECE);
        s->curve = cache_curve_new(options->curve_line, least, options->curve_bytes / one_in);
        cache_curve_by_cell(s->curve);
        if (!s->caches.len || !cache_carry_curve(s->caches.data[0], s->curve))
            feed_add(s->feed, to_curve, s->curve);
    }
    if (options->has_threads && options->config_count && shared_line(&options->configs[0]))
        s->second = witness_new(shared_line(&options->configs[0]));
    if (options->has_threads)
        s->touches = touches_new();
    return s;
}

void spy_free(struct spy *s)
{
    if (!s)
        return;
    feed_free(s->feed);
    witness_free(s->second);
    touches_free(s->touches);
    for (size_t i = 0; i < s->caches.len; i++)
        cache_free(s->caches.data[i]);
    cache_curve_free(s->curve);
    VEC_FREE(&s->caches);
    VEC_FREE(&s->sites);
    cells_fini(&s->cells);
    pictures_fini(&s->pictures);
    VEC_FREE(&s->absorbed);
    free(s);
}

void spy_add_sites(struct spy *s, const struct spy_site *sites, size_t count)
{
    if (!count)
        return;
    VEC_RESERVE(&s->sites, s->sites.len + count);
    memcpy(s->sites.data + s->sites.len, sites, count * sizeof *sites);
    s->sites.len += count;
    s->pending.sites = s->sites.data;
    s->pending.site_count = s->sites.len;
    cells_add_sites(&s->cells, count);
}

struct spy_pending *spy_pending(struct spy *s) { return &s->pending; }

static void find_whose(struct spy *s)
{
    struct spy_pending *p = &s->pending;
    for (size_t i = 0; i < p->count; i++) {
        const struct cells_last *last = &s->cells.last.data[p->all[i].site];
        p->all[i].whose = last->whose;
        p->all[i].hint = last->hint;
    }
    s->opt.find_whose(s->opt.ctx, p->all, p->count);
}

/* The cells of all, so that they are on their way when they are looked at. */
static void find_cells(struct spy *s, size_t count, uint32_t *cells)
{
    for (size_t i = 0; i < count; i++) {
        struct spy_access *a = &s->pending.all[i];
        if (a->whose.object >= SPY_OBJECTS_MAX || a->whose.field >= SPY_FIELDS_MAX)
            a->whose = (struct spy_whose){0, 0};
        cells[i] = cells_of(&s->cells, a);
        __builtin_prefetch(&s->cells.all.data[cells[i]], 1);
    }
}

static struct cache_ref ref_of(struct spy *s, const struct spy_access *a, uint32_t cell)
{
    const struct spy_site *site = &s->sites.data[a->site];
    cells_follow(&s->cells.all.data[cell], a->address);
    if (a->is_piece)
        s->cells.all.data[cell].range_bytes += (uint64_t)a->bytes - site->bytes;
    pictures_see(&s->pictures, a->whose.object, cell, a->address);
    if (s->touches)
        touches_see(s->touches, a->thread, a->whose.object, cell, a->address);
    return (struct cache_ref){
        .address = a->address, .cell = cell, .bytes = a->bytes, .kind = site->kind, .thread = a->thread};
}

struct writer { /* into the feed */
    struct cache_ref *to;
    size_t count, room;
};

static void end_writing(const struct spy *s, struct writer *w)
{
    feed_put(s->feed, w->count);
    w->count = w->room = 0;
}

static void write_ref(const struct spy *s, struct writer *w, const struct cache_ref *r)
{
    if (w->count == w->room) {
        end_writing(s, w);
        w->to = feed_room(s->feed, &w->room);
    }
    w->to[w->count++] = *r;
}

static unsigned order_at(uint32_t order, unsigned place) { return order >> 4 * place & 15; }

static bool is_order(uint32_t order)
{
    unsigned seen = 0;
    for (unsigned i = 0; i < SPY_LAST_LINES; i++)
        seen |= 1u << order_at(order, i);
    return seen == (1u << SPY_LAST_LINES) - 1;
}

/* The lines there stand so now. Those at the end that follow each other as before were not used, or in that order: only
 * those in front of them are used, in turn. */
static void reorder(struct spy *s, const struct spy_order *o, struct writer *w)
{
    uint64_t *last = s->last[o->thread][o->place], before[SPY_LAST_LINES];
    unsigned used = SPY_LAST_LINES - 1;
    memcpy(before, last, sizeof before);
    for (unsigned i = 0; i < SPY_LAST_LINES; i++)
        last[i] = before[order_at(o->order, i)];
    while (used && order_at(o->order, used - 1) < order_at(o->order, used))
        used--;
    while (used--)
        if (last[used])
            write_ref(s, w,
                      &(struct cache_ref){.address = (last[used] - 1) << s->opt.filter_shift,
                                          .bytes = 1,
                                          .kind = CACHE_USE,
                                          .thread = o->thread});
}

/* It is the last one of its place; those in front of it, or all but the last of them, go one back. */
static void bring_forward(uint64_t last[SPY_LAST_LINES], uint64_t line)
{
    uint64_t before = last[0];
    last[0] = line;
    for (unsigned at = 1; before != line && at < SPY_LAST_LINES; at++) {
        uint64_t here = last[at];
        last[at] = before;
        before = here;
    }
}

/* Which lines are the last ones then. */
static void come_last(struct spy *s, const struct spy_access *a)
{
    uint64_t line = a->address >> s->opt.filter_shift, end = (a->address + a->bytes - 1) >> s->opt.filter_shift;
    for (; line <= end; line++)
        bring_forward(s->last[a->thread][line % SPY_FILTER_SLOTS], line + 1);
}

/* Those from the first on, so many. */
static const struct spy_order *reorder_all(struct spy *s, const struct spy_order *first, unsigned count,
                                           struct writer *w)
{
    for (; count; count--)
        reorder(s, first++, w);
    return first;
}

void spy_settle(struct spy *s)
{
    struct spy_pending *p = &s->pending;
    size_t count = p->count;
    uint32_t cells[SPY_PENDING];
    struct writer w = {NULL, 0, 0};
    const struct spy_order *orders = p->orders;
    if (!count && !p->waiting)
        return;
    find_whose(s);
    find_cells(s, count, cells);
    p->count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct spy_access *a = &p->all[i];
        if (s->opt.filter_shift) {
            orders = reorder_all(s, orders, a->orders, &w);
            come_last(s, a);
        }
        struct cache_ref r = ref_of(s, a, cells[i]);
        write_ref(s, &w, &r);
    }
    reorder_all(s, orders, p->waiting, &w);
    p->order_count = p->waiting = 0;
    end_writing(s, &w);
}

void spy_ordered(struct spy *s, uint32_t thread, uint32_t place, uint32_t order)
{
    struct spy_pending *p = &s->pending;
    if (!s->opt.filter_shift || place >= SPY_FILTER_SLOTS || !is_order(order))
        return;
    if (p->order_count == SPY_ORDERS || p->waiting == UINT8_MAX)
        spy_settle(s);
    p->orders[p->order_count++] = (struct spy_order){order, (uint8_t)(thread % CACHE_THREADS_MAX), (uint8_t)place};
    p->waiting++;
}

static void put(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t bytes, bool is_piece)
{
    if (s->pending.count == SPY_PENDING)
        spy_settle(s);
    uint8_t orders = s->pending.waiting;
    s->pending.waiting = 0;
    s->pending.all[s->pending.count++] = (struct spy_access){.address = address,
                                                             .orders = orders,
                                                             .site = site,
                                                             .bytes = (uint16_t)bytes,
                                                             .thread = (uint8_t)(thread % CACHE_THREADS_MAX),
                                                             .is_piece = is_piece};
}

static uint64_t piece_end(uint64_t address, uint64_t end) { return min_u64(end, (address | (PIECE - 1)) + 1); }

static void put_range(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length)
{
    for (uint64_t end = address + length, next; address < end; address = next) {
        next = piece_end(address, end);
        put(s, thread, site, address, next - address, true);
    }
}

/* NULL: it cannot be. */
static const struct spy_site *site_of(const struct spy *s, uint32_t site, uint64_t address, uint64_t length)
{
    if (site >= s->sites.len || address >= ADDRESSES || length >= ADDRESSES || !s->sites.data[site].bytes)
        return NULL;
    return &s->sites.data[site];
}

static void put_all(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length)
{
    if (length > s->sites.data[site].bytes)
        put_range(s, thread, site, address, length);
    else
        put(s, thread, site, address, length, false);
}

static void put_part(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length)
{
    uint64_t line = 1ull << s->opt.part.shift;
    for (uint64_t end = address + length, next; address < end; address = next) {
        next = min_u64(end, (address | (line - 1)) + 1);
        if (cache_is_taken(&s->opt.part, address))
            put_all(s, thread, site, address, next - address);
    }
}

void spy_reference(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length)
{
    const struct spy_site *of = site_of(s, site, address, length);
    if (!of) {
        s->strays++;
        return;
    }
    (s->opt.part.mask ? put_part : put_all)(s, thread, site, address, length ? length : of->bytes);
}

void spy_reference_again(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length)
{
    const struct spy_site *of = s->second ? site_of(s, site, address, length) : NULL;
    if (!of)
        return;
    uint64_t line = 1ull << s->second->shift, end = address + (length ? length : of->bytes);
    for (uint64_t at = address; at < end; at = (at & -line) + line)
        if (cache_is_taken(&s->opt.part, at))
            witness_see(s->second, thread % CACHE_THREADS_MAX, at, of->kind != CACHE_READ);
}

uint64_t spy_mark(struct spy *s)
{
    spy_settle(s);
    return feed_mark(s->feed);
}

bool spy_has_passed(struct spy *s, uint64_t mark) { return feed_has_passed(s->feed, mark); }

void spy_window_begin(struct spy *s)
{
    spy_settle(s);
    feed_wait(s->feed);
    for (size_t i = 0; i < s->caches.len; i++)
        cache_window_begin(s->caches.data[i]);
}

void spy_window_end(struct spy *s, uint64_t references, double weight)
{
    spy_settle(s);
    feed_wait(s->feed);
    s->window_count++;
    s->in_windows += references;
    for (size_t i = 0; i < s->caches.len; i++)
        cache_window_end_of(s->caches.data[i], references, weight);
}

void spy_windows_stand_for(struct spy *s, const double *weights, double references, const double *factor_of_site)
{
    double *factor = xmalloc((s->cells.all.len + 1) * sizeof *factor);
    for (size_t i = 0; i < s->cells.all.len; i++)
        factor[i] = factor_of_site[s->cells.all.data[i].site];
    for (size_t i = 0; i < s->caches.len; i++) {
        cache_windows_weigh(s->caches.data[i], weights);
        cache_windows_stand_for(s->caches.data[i], references, factor, s->cells.all.len);
    }
    free(factor);
}

uint64_t spy_window_count(const struct spy *s, uint64_t *references)
{
    *references = s->in_windows;
    return s->window_count;
}

void spy_end(struct spy *s)
{
    spy_settle(s);
    if (s->second)
        witness_settle(s->second);
    feed_end(s->feed);
}

const struct spy_cell *spy_cells(const struct spy *s, size_t *count)
{
    *count = s->cells.all.len;
    return s->cells.all.data;
}

const struct spy_site *spy_site(const struct spy *s, uint32_t site) { return &s->sites.data[site]; }

uint32_t spy_site_count(const struct spy *s) { return (uint32_t)s->sites.len; }

const struct cache *spy_cache(const struct spy *s, size_t config) { return s->caches.data[config]; }

uint64_t spy_second_misses(const struct spy *s, uint64_t address)
{
    if (s->has_absorbed)
        return s->absorbed.data[address & ~ABSORBED].second;
    return s->second ? witness_misses(s->second, address) : UINT64_MAX;
}

const struct cache_curve *spy_curve(const struct spy *s) { return s->curve; }

uint64_t spy_strays(const struct spy *s) { return s->strays; }

const struct spy_picture *spy_pictures(const struct spy *s, size_t *count)
{
    *count = s->pictures.all.len;
    return s->pictures.all.data;
}

const struct spy_touched *spy_touched(const struct spy *s, size_t *count)
{
    *count = s->touches ? s->touches->all.len : 0;
    return s->touches ? s->touches->all.data : NULL;
}

unsigned spy_one_in(const struct spy *s) { return s->opt.part.one_in; }

unsigned spy_picture_sample(void) { return PICTURE_SAMPLE; }

/* ---- several processes ---- */

static void add_cell(struct spy_cell *to, const struct spy_cell *from)
{
    to->references += from->references;
    to->range_bytes += from->range_bytes;
    if (to->stride == from->stride) {
        to->strided += from->strided;
    } else if (from->strided > to->strided) {
        to->stride = from->stride;
        to->strided = from->strided;
    }
}

static uint32_t *absorb_cells(struct spy *s, const struct spy *from, const struct spy_absorption *how)
{
    uint32_t *cells = xmalloc((from->cells.all.len + 1) * sizeof *cells);
    for (size_t i = 0; i < from->cells.all.len; i++) {
        const struct spy_cell *f = &from->cells.all.data[i];
        cells[i] = cells_make(&s->cells, how->sites[f->site], (struct spy_whose){how->objects[f->object], f->field});
        add_cell(&s->cells.all.data[cells[i]], f);
    }
    return cells;
}

static int by_misses(const void *a, const void *b)
{
    const struct cache_shared_line *x = &((const struct absorbed *)a)->line, *y = &((const struct absorbed *)b)->line;
    uint64_t of_x = x->true_misses + x->false_misses, of_y = y->true_misses + y->false_misses;
    return of_x != of_y ? (of_x < of_y ? 1 : -1) : (x->address > y->address) - (x->address < y->address);
}

static void absorb_line(struct spy *s, const struct spy *from, const struct cache_shared_line *l, const uint32_t *cells,
                        const struct spy_absorption *how)
{
    struct absorbed a = {.line = *l, .second = spy_second_misses(from, l->address), .offset = UINT64_MAX};
    if (!l->side_count)
        return;
    uint64_t begin = how->block_begin(how->ctx, from->cells.all.data[l->sides[0].cell].object, l->address);
    if (begin != UINT64_MAX)
        a.offset = l->address > begin ? l->address - begin : 0;
    a.line.side_count = min_u64(l->side_count, SIDES_MAX);
    for (size_t i = 0; i < a.line.side_count; i++) {
        a.sides[i] = l->sides[i];
        a.sides[i].cell = cells[l->sides[i].cell];
    }
    VEC_PUSH(&s->absorbed, a);
}

static void absorb_lines(struct spy *s, const struct spy *from, const uint32_t *cells, const struct spy_absorption *how)
{
    struct arena *a = arena_new();
    size_t count;
    const struct cache_shared_line *l = spy_shared_lines(from, a, ABSORBED_MAX, &count);
    for (size_t i = 0; i < count; i++)
        absorb_line(s, from, &l[i], cells, how);
    if (s->absorbed.len)
        qsort(s->absorbed.data, s->absorbed.len, sizeof *s->absorbed.data, by_misses);
    s->absorbed.len = min_u64(s->absorbed.len, ABSORBED_MAX);
    arena_free(a);
}

void spy_absorb(struct spy *s, const struct spy *from, const struct spy_absorption *how)
{
    uint32_t *cells = absorb_cells(s, from, how);
    s->has_absorbed = true;
    for (size_t i = 0; i < s->caches.len; i++)
        cache_absorb(s->caches.data[i], from->caches.data[i], cells);
    if (s->curve)
        cache_curve_absorb(s->curve, from->curve, cells);
    absorb_lines(s, from, cells, how);
    pictures_absorb(&s->pictures, &from->pictures, cells, how->objects);
    if (s->touches && from->touches)
        touches_absorb(s->touches, from->touches, cells, how->objects);
    s->strays += from->strays;
    free(cells);
}

const struct cache_shared_line *spy_shared_lines(const struct spy *s, struct arena *a, size_t max, size_t *count)
{
    if (!s->has_absorbed)
        return cache_shared_lines(s->caches.data[0], a, max, count);
    *count = min_u64(max, s->absorbed.len);
    struct cache_shared_line *out = ARENA_ARRAY(a, struct cache_shared_line, *count + 1);
    for (size_t i = 0; i < *count; i++) {
        out[i] = s->absorbed.data[i].line;
        out[i].address = ABSORBED | i;
        out[i].sides = s->absorbed.data[i].sides;
    }
    return out;
}

uint64_t spy_absorbed_offset(const struct spy *s, uint64_t address)
{
    return s->absorbed.data[address & ~ABSORBED].offset;
}
