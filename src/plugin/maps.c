/* SPDX-License-Identifier: Apache-2.0
 * Policies of mapping pages to frames, side by side: each has caches of its own, which all references reach by
 * addresses whose frames that policy chose (Kessler and Hill 1990; Part II of the paper, 3.1). A frame is chosen when a
 * process first reaches a page of user addresses; who reaches it at the same address later shares it. Pages of the
 * kernel stay in the frames that they have.
 *
 * With POLICY+place fetches of the kernel are from where placed.c has its functions, with POLICY+data its variables are
 * where variables.c has them. With POLICY+kernel=N the first N
 * bins are the kernel's alone: its pages are in them, those of programs in the others.
 *
 * Most references are to what all mappings have, as the line that was used last of its set, where they change nothing.
 * One table in front of all, by physical lines of data, holds lines of which that is sure: each that a mapping's filter
 * gives up is taken out of it. Of code it is counted by block of physical addresses how often something was given up,
 * and a segment whose lines all mappings had keeps the sum.
 *
 * With marks of an earlier run (pages.c) two more go by how pages are used, as a compiler might tell (the paper's page
 * marking schemes, 3.3): shade puts a page where its dark parts meet fewest dark parts of others; number puts pages one
 * after another in the order of use, beginning where the kernel's are used least.
 *
 * A bin is what of a cache one frame can be in: the bytes of a way over those of a page. A chosen frame has the bin of
 * the policy and the number of the real one above it, so that two pages never share a line. */
#include "plugin/maps.h"

#include <stdlib.h>

#include "plugin/filter.h"

enum { FRONT_BLOCKS = 1 << 16 };

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
    char *name;
    enum policy policy;
    bool is_placed;    /* the kernel's functions are where placed.c has them */
    bool has_data;     /* its variables are where variables.c has them */
    uint32_t reserved; /* bins for the kernel, the first ones; 0: its pages are where they are */
    struct cache *cache;
    struct filter code, data;
    uint32_t *bin; /* [frames] */
    uint64_t
        *dark[2]; /* [sides][bins][parts] shades of pages of programs and of the kernel, by weight; NULL: not asked */
    uint32_t quietest[PAGE_SIDES]; /* of number: where the kernel's are used least */
    struct map space_of;           /* index in spaces, and 1 */
    VEC(struct space) spaces;
    struct rng chance;
    uint64_t misses[2][CACHE_KIND_COUNT];
};

static struct {
    VEC(struct mapping) all;
    uint64_t *owner; /* [frames] who reached it last: space and page, 0 nobody */
    uint64_t frames;
    uint32_t bins;
    bool is_inclusive;
    bool has_placed;                /* some mapping has the kernel's functions elsewhere */
    uint64_t changes[FRONT_BLOCKS]; /* by block of code */
    unsigned block_shift;           /* of an address, to its block */
    bool has_front;                 /* no line is longer than a page */
} the;

bool maps_are_wanted;
uint64_t maps_front[FRONT_LINES];

static uint32_t bins_of(const struct cache_config *k)
{
    uint64_t most = 1;
    for (unsigned i = 0; i < k->count; i++)
        most = max_u64(most, k->levels[i].size_bytes / k->levels[i].ways >> PAGE_SHIFT);
    return (uint32_t)min_u64(most, 1 << 16);
}

/* "hop", "hop+kernel=4", "hop+place". -1: no such policy. */
static int policy_named(const char *name, struct mapping *m)
{
    size_t len = strcspn(name, "+");
    const char *bins = strstr(name, "+kernel=");
    m->name = xstrdup(name);
    m->reserved = bins ? (uint32_t)strtoul(bins + strlen("+kernel="), NULL, 10) : 0;
    m->is_placed = strstr(name, "+place") != NULL;
    m->has_data = strstr(name, "+data") != NULL;
    for (int i = 0; i < MAP_COUNT; i++)
        if (strlen(names[i]) == len && strncmp(names[i], name, len) == 0)
            return i;
    return -1;
}

static void unmake(void)
{
    for (size_t i = 0; i < the.all.len; i++) {
        struct mapping *m = &the.all.data[i];
        free(m->name);
        cache_free(m->cache);
        filter_free(&m->code);
        filter_free(&m->data);
        free(m->bin);
        free(m->dark[0]);
        free(m->dark[1]);
        map_fini(&m->space_of);
        for (size_t k = 0; k < m->spaces.len; k++)
            free(m->spaces.data[k].pages);
        VEC_FREE(&m->spaces);
    }
    VEC_FREE(&the.all);
    free(the.owner);
    memset(&the, 0, sizeof the);
    memset(maps_front, 0, sizeof maps_front);
}

/* ---- marks ---- */

/* What a part of that shade counts: a black one as much as many grey ones. */
static uint64_t weight_of(uint8_t shade)
{
    static const uint64_t weights[WIRE_PAGE_SHADES] = {0, 1, 16};
    return weights[shade];
}

static size_t dark_at(unsigned side, uint32_t bin, unsigned part)
{
    return ((size_t)side * the.bins + bin) * WIRE_PAGE_PARTS + part;
}

static void darken(uint64_t *dark, const struct page_mark *k, uint32_t bin, int times)
{
    for (unsigned side = 0; side < PAGE_SIDES; side++)
        for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
            dark[dark_at(side, bin, i)] += (uint64_t)times * weight_of(k->shade[side][i]);
}

static uint32_t own_bin(const struct mapping *m, uint64_t frame)
{
    return (uint32_t)(frame % (m->reserved ? m->reserved : the.bins));
}

/* A page of number n comes into the (n - 1)-th bin behind the first. */
static uint32_t find_quietest(const struct mapping *m, unsigned side)
{
    uint32_t first = m->reserved, count = the.bins - first, best = 0;
    double least = -1;
    for (uint32_t from = 0; from < count; from++) {
        double met = 0;
        for (uint32_t n = 0; n < count; n++)
            for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
                met += (double)m->dark[true][dark_at(side, first + (from + n) % count, i)] / (n + 1);
        if (least < 0 || met < least) {
            least = met;
            best = from;
        }
    }
    return best;
}

static void take_marks(struct mapping *m)
{
    const struct page_mark *k;
    if (m->policy != MAP_SHADE && m->policy != MAP_NUMBER)
        return;
    for (unsigned whose = 0; whose < 2; whose++)
        m->dark[whose] = xmalloc(dark_at(PAGE_SIDES, 0, 0) * sizeof *m->dark[whose]);
    for (size_t i = 0; (k = pages_mark_at(i)); i++)
        if (k->is_kernel)
            darken(m->dark[true], k, own_bin(m, k->address >> PAGE_SHIFT), 1);
    for (unsigned side = 0; side < PAGE_SIDES; side++)
        m->quietest[side] = find_quietest(m, side);
}

int maps_make(const struct cache_config *config)
{
    char *list = xstrdup(settings.maps), *state = NULL;
    unmake();
    the.frames = settings.ram_bytes >> PAGE_SHIFT;
    the.owner = xmalloc(the.frames * sizeof *the.owner);
    the.bins = bins_of(config);
    if (pages_make() < 0)
        return -1;
    for (unsigned i = 0; i < config->count; i++)
        the.is_inclusive |= config->levels[i].inclusion == CACHE_INCLUSIVE;
    for (char *name = strtok_r(list, ",", &state); name; name = strtok_r(NULL, ",", &state)) {
        struct mapping m = {.chance = {1}};
        int policy = policy_named(name, &m);
        if (policy < 0)
            return diag_error("there is no mapping policy '%s'", name);
        if (m.reserved >= the.bins && m.reserved)
            return diag_error("%s: these caches have %u bins, of which at least one is for programs", name, the.bins);
        if (the.all.len == PAGE_POLICIES_MAX)
            return diag_error("more than %d mapping policies", PAGE_POLICIES_MAX);
        m.policy = (enum policy)policy;
        take_marks(&m);
        m.cache = cache_new(config, false);
        m.code = filter_of(config, CACHE_CODE);
        m.data = filter_of(config, CACHE_DATA);
        the.has_placed |= m.is_placed;
        m.bin = xmalloc(the.frames * sizeof *m.bin);
        VEC_PUSH(&the.all, m);
    }
    free(list);
    the.block_shift = (unsigned)max_u64(FILTER_BLOCK_SHIFT, the.all.data[0].code.shift);
    the.has_front = max_u64(the.block_shift, the.all.data[0].data.shift) <= PAGE_SHIFT;
    maps_are_wanted = true;
    return 0;
}

/* ---- in front of all mappings ---- */

static uint64_t *changes_of(uint64_t physical) { return &the.changes[(physical >> the.block_shift) % FRONT_BLOCKS]; }

/* Its data and code are elsewhere now, for some mapping. */
static void forget_frame(uint64_t frame)
{
    uint64_t begin = frame << PAGE_SHIFT, end = begin + (1 << PAGE_SHIFT);
    unsigned shift = the.all.data[0].data.shift;
    for (uint64_t line = begin >> shift; the.has_front && line < end >> shift; line++)
        if (*maps_front_of(line) >> 1 == line + 1)
            *maps_front_of(line) = 0;
    for (uint64_t at = begin; the.has_front && at < end; at += 1ull << the.block_shift)
        (*changes_of(at))++;
}

static void forget_all(void)
{
    memset(maps_front, 0, sizeof maps_front);
    for (size_t i = 0; i < FRONT_BLOCKS; i++)
        the.changes[i]++;
}

/* The line comes into a mapping's filter: what it has in that place is not sure any more. */
static void give_up(const struct filter *f, uint64_t line, bool is_code)
{
    uint64_t old = f->last[line & f->mask] >> 1;
    if (!old || old == line + 1)
        return;
    uint64_t address = (old - 1) << f->shift, frame = (address >> PAGE_SHIFT) / the.bins;
    uint64_t physical = frame << PAGE_SHIFT | (address & ((1 << PAGE_SHIFT) - 1));
    if (is_code)
        (*changes_of(physical))++;
    else if (*maps_front_of(physical >> f->shift) >> 1 == (physical >> f->shift) + 1)
        *maps_front_of(physical >> f->shift) = 0;
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

/* Bins from m->reserved on are for programs; `from` and what is returned count from there. */
static uint32_t least_used(const struct space *s, uint32_t from, uint32_t first, uint32_t count)
{
    uint32_t best = from;
    for (uint32_t k = 1; k < count; k++) {
        uint32_t bin = (from + k) % count;
        if (s->pages[first + bin] < s->pages[first + best])
            best = bin;
    }
    return best;
}

/* How much of the page's dark parts meets dark ones in the bin. */
static uint64_t clash(const uint64_t *dark, const struct page_mark *k, uint32_t bin)
{
    uint64_t sum = 0;
    for (unsigned side = 0; side < PAGE_SIDES; side++)
        for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
            sum += weight_of(k->shade[side][i]) * dark[dark_at(side, bin, i)];
    return sum;
}

/* Where as little as can be meets pages of programs; of such bins where as little meets the kernel's, which take turns
 * with them less often; of these the next one from that of the page's address on. */
static uint32_t shaded(const struct mapping *m, const struct page_mark *k, uint64_t page)
{
    uint32_t first = m->reserved, count = the.bins - first, best = first + (uint32_t)(page % count);
    uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
    for (uint32_t n = 0; k && n < count; n++) {
        uint32_t bin = first + (uint32_t)((page + n) % count);
        uint64_t programs = clash(m->dark[false], k, bin), kernel = clash(m->dark[true], k, bin);
        if (programs > least[0] || (programs == least[0] && kernel >= least[1]))
            continue;
        least[0] = programs;
        least[1] = kernel;
        best = bin;
    }
    return best;
}

/* By the side that uses it more; what has no number comes behind. */
static uint32_t numbered(const struct mapping *m, struct space *s, const struct page_mark *k)
{
    uint32_t first = m->reserved, count = the.bins - first;
    if (!k || (!k->number[PAGE_DATA] && !k->number[PAGE_CODE]))
        return first + s->next_bin++ % count;
    bool is_code = k->number[PAGE_CODE] && (!k->number[PAGE_DATA] || k->number[PAGE_CODE] <= k->number[PAGE_DATA]);
    return first + (m->quietest[is_code] + k->number[is_code] - 1) % count;
}

static uint32_t choose(struct mapping *m, struct space *s, uint64_t page, uint64_t frame)
{
    uint32_t first = m->reserved, count = the.bins - first;
    switch (m->policy) {
    case MAP_COLOUR:
        return first + (uint32_t)(page % count);
    case MAP_HOP:
        return first + s->next_bin++ % count;
    case MAP_BEST:
        return first + least_used(s, (uint32_t)(page % count), first, count);
    case MAP_SHADE:
        return shaded(m, pages_mark(page), page);
    case MAP_NUMBER:
        return numbered(m, s, pages_mark(page));
    case MAP_RANDOM:
        return first + (uint32_t)rng_below(&m->chance, count);
    default:
        return first + (uint32_t)(frame % count);
    }
}

/* The frame has the page from here on, in that bin, in place of another one. */
static void change_dark(struct mapping *m, uint64_t frame, uint64_t old, uint64_t page, uint32_t bin)
{
    const struct page_mark *gone = m->bin[frame] ? pages_mark(old) : NULL, *k = pages_mark(page);
    if (m->policy != MAP_SHADE)
        return;
    if (gone)
        darken(m->dark[false], gone, m->bin[frame] - 1, -1);
    if (k)
        darken(m->dark[false], k, bin, 1);
}

/* A page of user addresses is in that frame. Who has it at the same address shares it, and it stays where it is. */
void maps_note(uint64_t vaddr, uint64_t physical)
{
    uint64_t frame = physical >> PAGE_SHIFT, page = vaddr >> PAGE_SHIFT, owner = maps_owner(vaddr);
    if ((int64_t)vaddr < 0 || frame >= the.frames || the.owner[frame] == owner)
        return;
    uint64_t old = the.owner[frame] >> 20;
    bool is_shared = the.owner[frame] && old == page;
    the.owner[frame] = owner;
    pages_own(frame, page);
    for (size_t i = 0; i < the.all.len; i++) {
        struct mapping *m = &the.all.data[i];
        struct space *s = space_of(m, system_space);
        uint32_t bin = is_shared ? m->bin[frame] - 1 : choose(m, s, page, frame);
        s->pages[bin] += !is_shared;
        if (!is_shared)
            change_dark(m, frame, old, page, bin);
        m->bin[frame] = bin + 1; /* 0: the frame's own */
        pages_bin(frame, (unsigned)i, bin);
    }
    if (!is_shared)
        forget_frame(frame);
}

static uint64_t mapped(const struct mapping *m, uint64_t physical)
{
    uint64_t frame = physical >> PAGE_SHIFT;
    uint64_t bin = frame < the.frames && m->bin[frame] ? m->bin[frame] - 1 : own_bin(m, frame);
    return ((frame * the.bins + bin) << PAGE_SHIFT) | (physical & ((1 << PAGE_SHIFT) - 1));
}

/* ---- references ---- */

static bool reach(struct mapping *m, uint64_t address, unsigned bytes, enum cache_kind kind)
{
    bool is_code = kind == CACHE_FETCH, stores = kind == CACHE_WRITE || kind == CACHE_MODIFY;
    struct filter *f = is_code ? &m->code : &m->data;
    if (filter_hits(f, address, bytes, stores))
        return false;
    for (uint64_t line = address >> f->shift; line <= (address + bytes - 1) >> f->shift; line++)
        give_up(f, line, is_code);
    if (f->is_whole)
        return filter_reach(f, address, bytes);
    struct cache_ref ref = {.address = address, .bytes = (uint16_t)bytes, .kind = (uint8_t)kind};
    bool missed = cache_reach(m->cache, &ref) != 0;
    if (missed && the.is_inclusive) {
        filter_forget(&m->code);
        filter_forget(&m->data);
        forget_all();
    }
    filter_used(f, address, bytes, stores);
    return missed;
}

static void reach_all(uint64_t physical, unsigned bytes, enum cache_kind kind, bool is_kernel)
{
    enum cache_kind counted = kind == CACHE_MODIFY ? CACHE_READ : kind;
    for (size_t i = 0; i < the.all.len; i++) {
        struct mapping *m = &the.all.data[i];
        uint64_t at = m->has_data ? variables_address(physical) : physical;
        m->misses[is_kernel][counted] += reach(m, mapped(m, at), bytes, kind);
    }
}

/* A line of data that all mappings have after a reference to it. */
static void note_in_front(uint64_t line)
{
    unsigned shift = the.all.data[0].data.shift;
    bool hides_stores = true;
    for (size_t i = 0; i < the.all.len; i++) {
        const struct mapping *m = &the.all.data[i];
        uint64_t address = mapped(m, line << shift);
        if (!filter_hits(&m->data, address, 1, false))
            return;
        hides_stores &= filter_hits(&m->data, address, 1, true) || m->data.is_whole;
    }
    *maps_front_of(line) = (line + 1) << 1 | hides_stores;
}

void maps_reach(uint64_t physical, unsigned bytes, enum cache_kind kind, bool is_kernel)
{
    unsigned shift = the.all.data[0].data.shift;
    /* what is in one line may be in several where it is placed */
    bool has_front = the.has_front && !(variables_are_placed && variables_hold(physical));
    pages_use(physical, PAGE_DATA, 1);
    if (has_front && maps_front_has(physical, bytes, kind == CACHE_WRITE || kind == CACHE_MODIFY, shift))
        return;
    reach_all(physical, bytes, kind, is_kernel);
    for (uint64_t line = physical >> shift; has_front && line <= (physical + bytes - 1) >> shift; line++)
        note_in_front(line);
}

bool maps_are_quick(bool is_kernel) { return the.has_front && !(variables_are_placed && is_kernel); }

bool maps_finish(struct segment *s)
{
    uint64_t frame = s->physical >> PAGE_SHIFT;
    s->maps_blocks[0] = changes_of(s->physical);
    s->maps_blocks[1] = changes_of(s->physical + s->bytes - 1);
    s->maps_owner = frame < the.frames ? &the.owner[frame] : NULL;
    return the.has_front && !the.has_placed && s->maps_owner;
}

static uint64_t stamp_of(const struct segment *s)
{
    uint64_t stamp = 1 + *s->maps_blocks[0] + *s->maps_blocks[1];
    return the.has_placed ? stamp + *changes_of(s->placed) + *changes_of(s->placed + s->bytes - 1) : stamp;
}

/* Of code a line each, so that all lines that a fetch lacks count. Whether the mapping had them all. */
static bool fetch(struct mapping *m, const struct segment *s)
{
    unsigned shift = m->code.shift;
    uint64_t begin = m->is_placed ? s->placed : s->physical;
    bool had_all = (begin + s->bytes - 1) >> the.block_shift <= (begin >> the.block_shift) + 1;
    for (uint64_t line = begin >> shift; line <= (begin + s->bytes - 1) >> shift; line++) {
        uint64_t address = mapped(m, line << shift);
        had_all &= filter_has(&m->code, address >> shift);
        m->misses[s->is_kernel][CACHE_FETCH] += reach(m, address, 1, CACHE_FETCH);
    }
    return had_all;
}

void maps_fetch(struct segment *s)
{
    maps_note(s->vaddr, s->physical);
    pages_use(s->physical, PAGE_CODE, s->instructions);
    uint64_t stamp = stamp_of(s);
    bool had_all = the.has_front;
    if (s->maps_stamp == stamp)
        return;
    for (size_t i = 0; i < the.all.len; i++)
        had_all &= fetch(&the.all.data[i], s);
    s->maps_stamp = had_all ? stamp : 0;
}

static uint32_t bin_of_kernel(uint64_t frame, unsigned policy) { return own_bin(&the.all.data[policy], frame); }

void maps_write(FILE *f)
{
    for (size_t i = 0; i < the.all.len; i++) {
        const struct mapping *m = &the.all.data[i];
        fprintf(f, "map %s", m->name);
        for (int k = 0; k < 2; k++)
            for (int kind = 0; kind < CACHE_KIND_COUNT; kind++)
                fprintf(f, " %llu", (unsigned long long)m->misses[k][kind]);
        fprintf(f, " %u\n", the.bins);
    }
    if (maps_are_wanted)
        pages_write(f, (unsigned)the.all.len, bin_of_kernel);
}
