/* SPDX-License-Identifier: Apache-2.0
 * References into cells, and through the caches. */
#include "spy/cells.h"
#include "spy/feed.h"
#include "spy/picture.h"

#include <stdlib.h>

/* A long range goes in pieces of so many bytes, which end where lines do. */
enum { PIECE = 64 };
#define ADDRESSES (1ull << 47)

struct spy {
    struct spy_options opt;
    uint8_t thread; /* whose references these are */
    VEC(struct cache *) caches;
    struct cache_curve *curve;
    VEC(struct spy_site) sites;
    struct cells cells;
    struct pictures pictures;
    struct feed *feed;
    uint64_t strays;
};

static void to_cache(void *simulator, const struct cache_ref *refs, size_t count) { cache_run(simulator, refs, count); }

static void to_curve(void *simulator, const struct cache_ref *refs, size_t count)
{
    cache_curve_run(simulator, refs, count);
}

struct spy *spy_new(const struct spy_options *options)
{
    struct spy *s = xmalloc(sizeof *s);
    s->opt = *options;
    s->feed = feed_new();
    for (size_t i = 0; i < options->config_count; i++) {
        struct cache *c = cache_new(&options->configs[i], true);
        VEC_PUSH(&s->caches, c);
        feed_add(s->feed, to_cache, c);
    }
    if (options->curve_line) {
        s->curve = cache_curve_new(options->curve_line, options->curve_bytes);
        if (options->curve_least)
            cache_curve_by_cell(s->curve, options->curve_least);
        feed_add(s->feed, to_curve, s->curve);
    }
    return s;
}

void spy_free(struct spy *s)
{
    if (!s)
        return;
    feed_free(s->feed);
    for (size_t i = 0; i < s->caches.len; i++)
        cache_free(s->caches.data[i]);
    cache_curve_free(s->curve);
    VEC_FREE(&s->caches);
    VEC_FREE(&s->sites);
    cells_fini(&s->cells);
    pictures_fini(&s->pictures);
    free(s);
}

void spy_add_sites(struct spy *s, const struct spy_site *sites, size_t count)
{
    if (!count)
        return;
    VEC_RESERVE(&s->sites, s->sites.len + count);
    memcpy(s->sites.data + s->sites.len, sites, count * sizeof *sites);
    s->sites.len += count;
    cells_add_sites(&s->cells, count);
}

static void put(struct spy *s, const struct spy_site *site, uint32_t cell, uint64_t address, uint64_t bytes)
{
    *feed_next(s->feed) = (struct cache_ref){
        .address = address, .cell = cell, .bytes = (uint16_t)bytes, .kind = site->kind, .thread = s->thread};
}

static uint32_t cell_of(struct spy *s, const struct spy_site *site, uint32_t number, uint64_t address)
{
    struct spy_whose whose = s->opt.object_of(s->opt.ctx, site, address);
    if (whose.object >= SPY_OBJECTS_MAX || whose.field >= SPY_FIELDS_MAX)
        whose = (struct spy_whose){0, 0};
    uint32_t cell = cells_of(&s->cells, number, whose, address);
    pictures_see(&s->pictures, whose.object, cell, address);
    return cell;
}

static void put_range(struct spy *s, const struct spy_site *site, uint32_t number, uint64_t address, uint64_t length)
{
    for (uint64_t end = address + length, next; address < end; address = next) {
        next = min_u64(end, (address | (PIECE - 1)) + 1);
        uint32_t cell = cell_of(s, site, number, address);
        s->cells.all.data[cell].range_bytes += next - address - site->bytes;
        put(s, site, cell, address, next - address);
    }
}

void spy_reference(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length)
{
    if (site >= s->sites.len || address >= ADDRESSES || length >= ADDRESSES) {
        s->strays++;
        return;
    }
    const struct spy_site *of = &s->sites.data[site];
    if (!of->bytes) {
        s->strays++;
        return;
    }
    s->thread = (uint8_t)(thread % CACHE_THREADS_MAX);
    if (length > of->bytes)
        put_range(s, of, site, address, length);
    else
        put(s, of, cell_of(s, of, site, address), address, length ? length : of->bytes);
}

void spy_end(struct spy *s) { feed_end(s->feed); }

const struct spy_cell *spy_cells(const struct spy *s, size_t *count)
{
    *count = s->cells.all.len;
    return s->cells.all.data;
}

const struct spy_site *spy_site(const struct spy *s, uint32_t site) { return &s->sites.data[site]; }

uint32_t spy_site_count(const struct spy *s) { return (uint32_t)s->sites.len; }

const struct cache *spy_cache(const struct spy *s, size_t config) { return s->caches.data[config]; }

const struct cache_curve *spy_curve(const struct spy *s) { return s->curve; }

uint64_t spy_strays(const struct spy *s) { return s->strays; }

const struct spy_picture *spy_pictures(const struct spy *s, size_t *count)
{
    *count = s->pictures.all.len;
    return s->pictures.all.data;
}

unsigned spy_picture_sample(void) { return PICTURE_SAMPLE; }
