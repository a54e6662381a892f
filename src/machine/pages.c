/* SPDX-License-Identifier: Apache-2.0
 *
 * What huge pages are worth here. A system may refuse them; a virtual machine's own lie on whatever pages its host
 * takes, and where these are small the TLB misses as before and only the walk is shorter. No description of a processor
 * says so: it is tried out, with a line of each of many pages in random order, of small and of huge pages, beside as
 * many lines that lie together.
 */
#include "machine/machine.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <x86intrin.h>

enum {
    PAGE = 4096,
    LINE = 64,
    HUGE_PAGE = 2 << 20,
    PAGES_MIN = 1024,
    PAGES_MAX = 16384,
    LAPS = 6,      /* the least of them */
    APART_MIN = 20 /* of a hundred: what pages must add to lines for a difference to be told */
};

struct spread {
    char *all, *begin; /* [pages] times PAGE + LINE, aligned for huge pages */
    size_t all_bytes;
    uint32_t *order; /* [count] */
    size_t count, step;
};

static bool map_pages(struct spread *s, size_t count, int advice)
{
    s->all_bytes = count * (PAGE + LINE) + 2 * HUGE_PAGE;
    s->all = mmap(NULL, s->all_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->all == MAP_FAILED)
        return false;
    s->begin = s->all + (HUGE_PAGE - (uintptr_t)s->all % HUGE_PAGE) % HUGE_PAGE;
    madvise(s->begin, count * (PAGE + LINE), advice);
    return true;
}

static uint32_t *random_order(size_t count)
{
    uint32_t *order = xmalloc(count * sizeof *order);
    struct rng rng = {1};
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = rng_below(&rng, i);
        uint32_t keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    return order;
}

static void **word_at(const struct spread *s, size_t i) { return (void **)(void *)(s->begin + s->order[i] * s->step); }

static void link_words(const struct spread *s)
{
    for (size_t i = 0; i < s->count; i++)
        *word_at(s, i) = word_at(s, (i + 1) % s->count);
}

static double chase(const struct spread *s)
{
    void **p = word_at(s, 0);
    uint64_t begin = __rdtsc();
    for (size_t i = 0; i < s->count; i++)
        p = *p;
    __asm__ volatile("" : : "r"(p) : "memory");
    return (double)(__rdtsc() - begin);
}

static double gather(const struct spread *s)
{
    uintptr_t sum = 0;
    uint64_t begin = __rdtsc();
    for (size_t i = 0; i < s->count; i++)
        sum += (uintptr_t)*word_at(s, i);
    __asm__ volatile("" : : "r"(sum) : "memory");
    return (double)(__rdtsc() - begin);
}

static double least(const struct spread *s, double (*walk)(const struct spread *))
{
    double out = INFINITY;
    for (int lap = 0; lap < LAPS; lap++)
        out = fmin(out, walk(s));
    return out;
}

struct walked {
    double chase, gather;
};

static struct walked walk(struct spread *s, size_t step)
{
    s->step = step;
    link_words(s);
    double chased = least(s, chase);
    return (struct walked){chased, least(s, gather)};
}

static double part_gained(double small, double huge, double lines)
{
    if (small - lines < APART_MIN * lines / 100)
        return NAN;
    return fmin(1, fmax(0, (small - huge) / (small - lines)));
}

static struct machine_huge_pages_at try_pages(struct spread *small, struct spread *huge, size_t count)
{
    small->count = huge->count = count;
    small->order = huge->order = random_order(count);
    struct walked apart = walk(small, PAGE + LINE), large = walk(huge, PAGE + LINE), lines = walk(small, LINE);
    free(small->order);
    return (struct machine_huge_pages_at){(double)count, part_gained(apart.chase, large.chase, lines.chase),
                                          part_gained(apart.gather, large.gather, lines.gather)};
}

/* From a third beyond the reach on, each number of pages half as much again. */
struct machine_huge_pages machine_try_huge_pages(uint64_t reach_bytes)
{
    struct machine_huge_pages out = {.count = 0};
    struct spread small = {0}, huge = {0};
    if (!map_pages(&small, PAGES_MAX, MADV_NOHUGEPAGE))
        return out;
    if (map_pages(&huge, PAGES_MAX, MADV_HUGEPAGE)) {
        uint64_t count = min_u64(max_u64(reach_bytes / PAGE * 4 / 3, PAGES_MIN), PAGES_MAX);
        for (; out.count < MACHINE_PAGE_TRIES && count <= PAGES_MAX; count += count / 2)
            out.at[out.count++] = try_pages(&small, &huge, count);
        munmap(huge.all, huge.all_bytes);
    }
    munmap(small.all, small.all_bytes);
    return out;
}

/* By the nearest below and above of those that could be told. */
struct machine_huge_pages_at machine_huge_pages_of(const struct machine_huge_pages *h, double pages)
{
    struct machine_huge_pages_at below = {pages, NAN, NAN}, above = below;
    for (size_t i = 0; i < h->count && isnan(above.waiting); i++)
        if (!isnan(h->at[i].waiting) && !isnan(h->at[i].overlapping))
            *(h->at[i].pages < pages ? &below : &above) = h->at[i];
    if (isnan(below.waiting) || isnan(above.waiting))
        return isnan(below.waiting) ? above : below;
    double part = (pages - below.pages) / (above.pages - below.pages);
    return (struct machine_huge_pages_at){pages, below.waiting + part * (above.waiting - below.waiting),
                                          below.overlapping + part * (above.overlapping - below.overlapping)};
}
