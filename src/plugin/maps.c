/* SPDX-License-Identifier: Apache-2.0
 * Policies of mapping pages to frames, side by side: each has caches of its own, which all references reach by
 * addresses whose frames that policy chose (Kessler and Hill 1990; Part II of the paper, 3.1). A frame is chosen when a
 * process first reaches a page of user addresses; pages of the kernel stay in the frames that they have.
 *
 * A bin is what of a cache one frame can be in: the bytes of a way over those of a page. A chosen frame has the bin of
 * the policy and the number of the real one above it, so that two pages never share a line. */
#include "plugin/plugin.h"

#include <stdlib.h>

enum { PAGE_SHIFT = 12 };

enum policy {
#define MAP(id, name, text) MAP_##id,
#include "wire/maps.def"
#undef MAP
    MAP_COUNT
};
static const char *const names[] = {
#define MAP(id, name, text) name,
#include "wire/maps.def"
#undef MAP
};

struct space {                 /* of addresses: what its policy knows of it */
    uint32_t next_bin, *pages; /* pages: in each bin */
};
struct mapping {
    enum policy policy;
    struct cache *cache;
    uint32_t *bin;       /* [frames] */
    struct map space_of; /* index in spaces, and 1 */
    VEC(struct space) spaces;
    struct rng chance;
    uint64_t misses[2][CACHE_KIND_COUNT];
};

static struct {
    VEC(struct mapping) all;
    uint64_t *owner; /* [frames] who reached it last: space and page, 0 nobody */
    uint64_t frames;
    uint32_t bins;
} the;

bool maps_are_wanted;

static uint32_t bins_of(const struct cache_config *k)
{
    uint64_t most = 1;
    for (unsigned i = 0; i < k->count; i++)
        most = max_u64(most, k->levels[i].size_bytes / k->levels[i].ways >> PAGE_SHIFT);
    return (uint32_t)min_u64(most, 1 << 16);
}

static int policy_named(const char *name)
{
    for (int i = 0; i < MAP_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

int maps_make(const struct cache_config *config)
{
    char *list = xstrdup(settings.maps), *state = NULL;
    the.frames = settings.ram_bytes >> PAGE_SHIFT;
    the.owner = xmalloc(the.frames * sizeof *the.owner);
    the.bins = bins_of(config);
    for (char *name = strtok_r(list, ",", &state); name; name = strtok_r(NULL, ",", &state)) {
        struct mapping m = {.chance = {1}};
        int policy = policy_named(name);
        if (policy < 0)
            return diag_error("there is no mapping policy '%s'", name);
        m.policy = (enum policy)policy;
        m.cache = cache_new(config, false);
        m.bin = xmalloc(the.frames * sizeof *m.bin);
        VEC_PUSH(&the.all, m);
    }
    free(list);
    maps_are_wanted = true;
    return 0;
}

/* ---- frames ---- */

static struct space *space_of(struct mapping *m, uint64_t id)
{
    uint64_t *place = map_place(&m->space_of, id);
    if (!*place) {
        struct space s = {.pages = xmalloc(the.bins * sizeof(uint32_t))};
        VEC_PUSH(&m->spaces, s);
        *place = m->spaces.len;
    }
    return &m->spaces.data[*place - 1];
}

static uint32_t least_used(const struct space *s, uint32_t from)
{
    uint32_t best = from;
    for (uint32_t k = 1; k < the.bins; k++) {
        uint32_t bin = (from + k) % the.bins;
        if (s->pages[bin] < s->pages[best])
            best = bin;
    }
    return best;
}

static uint32_t choose(struct mapping *m, struct space *s, uint64_t page, uint64_t frame)
{
    switch (m->policy) {
    case MAP_COLOUR:
        return (uint32_t)(page % the.bins);
    case MAP_HOP:
        return s->next_bin++ % the.bins;
    case MAP_BEST:
        return least_used(s, (uint32_t)(page % the.bins));
    case MAP_RANDOM:
        return (uint32_t)rng_below(&m->chance, the.bins);
    default:
        return (uint32_t)(frame % the.bins);
    }
}

/* A page of user addresses is in that frame. */
void maps_note(uint64_t vaddr, uint64_t physical)
{
    uint64_t frame = physical >> PAGE_SHIFT, page = vaddr >> PAGE_SHIFT, owner = page << 20 | (system_space() + 1);
    if ((int64_t)vaddr < 0 || frame >= the.frames || the.owner[frame] == owner)
        return;
    the.owner[frame] = owner;
    for (size_t i = 0; i < the.all.len; i++) {
        struct mapping *m = &the.all.data[i];
        struct space *s = space_of(m, system_space());
        uint32_t bin = choose(m, s, page, frame);
        s->pages[bin]++;
        m->bin[frame] = bin + 1; /* 0: the frame's own */
    }
}

static uint64_t mapped(const struct mapping *m, uint64_t physical)
{
    uint64_t frame = physical >> PAGE_SHIFT, own = frame % the.bins;
    uint64_t bin = frame < the.frames && m->bin[frame] ? m->bin[frame] - 1 : own;
    return ((frame * the.bins + bin) << PAGE_SHIFT) | (physical & ((1 << PAGE_SHIFT) - 1));
}

/* ---- references ---- */

/* Of code a line each, so that all lines that a fetch lacks count. */
void maps_reach(uint64_t physical, unsigned bytes, enum cache_kind kind, bool is_kernel)
{
    for (size_t i = 0; i < the.all.len; i++) {
        struct mapping *m = &the.all.data[i];
        struct cache_ref ref = {.address = mapped(m, physical), .bytes = (uint16_t)bytes, .kind = (uint8_t)kind};
        enum cache_kind counted = kind == CACHE_MODIFY ? CACHE_READ : kind;
        m->misses[is_kernel][counted] += cache_reach(m->cache, &ref) != 0;
    }
}

void maps_write(FILE *f)
{
    for (size_t i = 0; i < the.all.len; i++) {
        const struct mapping *m = &the.all.data[i];
        fprintf(f, "map %s", names[m->policy]);
        for (int k = 0; k < 2; k++)
            for (int kind = 0; kind < CACHE_KIND_COUNT; kind++)
                fprintf(f, " %llu", (unsigned long long)m->misses[k][kind]);
        fprintf(f, " %u\n", the.bins);
    }
}
