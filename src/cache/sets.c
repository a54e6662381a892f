/* SPDX-License-Identifier: Apache-2.0
 * Some sets for all: which lines are taken, and what these sets miss for those of all. */
#include "cache/plain/plain.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { MANY_GROUPS = 10, PART_BITS_MAX = 20 };

/* ---- which ---- */

/* How many bits of a line's number all levels that data reach have among those that choose a set. */
static unsigned part_bits(const struct cache_config *configs, size_t count, unsigned *shift)
{
    unsigned end = 64;
    *shift = 0;
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < configs[i].count; k++) {
            const struct cache_level *l = &configs[i].levels[k];
            uint64_t sets = l->size_bytes / l->line_bytes / l->ways;
            unsigned line = (unsigned)__builtin_ctz(l->line_bytes);
            if (!(l->side & CACHE_DATA))
                continue;
            *shift = line > *shift ? line : *shift;
            end = (unsigned)min_u64(end, line + (unsigned)__builtin_ctzll(sets));
        }
    return end > *shift ? (unsigned)min_u64(end - *shift, PART_BITS_MAX) : 0;
}

static bool has_streams(const struct cache_config *configs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < configs[i].count; k++)
            if (configs[i].levels[k].has_streams)
                return true;
    return false;
}

int cache_choose_part(const struct cache_config *configs, size_t count, unsigned one_in, unsigned which,
                      struct cache_part *out)
{
    unsigned shift = 0, bits = part_bits(configs, count, &shift), skip = (unsigned)__builtin_ctz(one_in);
    assert(one_in && !(one_in & (one_in - 1)));
    *out = (struct cache_part){.one_in = one_in, .shift = shift, .key_bits = bits};
    if (one_in == 1)
        return 0;
    if (has_streams(configs, count))
        return diag_error("one set in %u: what a prefetcher would foresee shows in the misses of neighbouring lines, "
                          "which are of other sets",
                          one_in);
    if (bits < skip + 1)
        return diag_error("one set in %u: the levels have %llu kinds of sets in common, of which %d must be taken at "
                          "least",
                          one_in, 1ull << bits, CACHE_PART_KEYS_MIN);
    out->mask = (one_in - 1) << (bits - skip);
    out->value = (which % one_in) << (bits - skip);
    return 0;
}

void cache_take_part(struct cache *c, const struct cache_part *part)
{
    struct cache_sets *s = &c->sets;
    uint64_t keys = 1ull << part->key_bits, taken = 0;
    if (part->one_in == 1)
        return;
    *s = (struct cache_sets){.shift = part->shift, .mask = keys - 1, .one_in = part->one_in};
    s->taken = keys / part->one_in;
    s->group_count = (unsigned)min_u64(s->taken, SAMPLE_GROUPS);
    s->groups = xmalloc(keys);
    for (uint64_t key = 0; key < keys; key++)
        s->groups[key] = cache_is_taken(part, key << part->shift) ? (uint8_t)(1 + taken++ % s->group_count) : 0;
    plain_free(c->plain);
    c->plain = plain_new(c); /* whose shadows are smaller */
}

/* ---- while they are simulated ---- */

struct sample_groups *sets_group_of(struct sample *s, uint32_t cell)
{
    size_t len = (size_t)cell + 1;
    if (len > s->groups.len) {
        VEC_RESERVE(&s->groups, len);
        memset(s->groups.data + s->groups.len, 0, (len - s->groups.len) * sizeof *s->groups.data);
        s->groups.len = len;
    }
    return &s->groups.data[cell];
}

void sets_count_miss(struct sample *s, uint32_t cell, unsigned group, bool by_cell)
{
    assert(group < SAMPLE_GROUPS && "a reference to none of them");
    s->all_groups.misses[group]++;
    if (by_cell)
        sets_group_of(s, cell)->misses[group]++;
}

/* ---- estimates ---- */

double cache_groups_error(const struct cache *c, const double *of_groups, unsigned count)
{
    double part = (double)c->sets.taken / (double)(c->sets.mask + 1), sum = 0, squares = 0;
    for (unsigned i = 0; i < count; i++) {
        sum += of_groups[i];
        squares += of_groups[i] * of_groups[i];
    }
    double spread = fmax(squares - sum * sum / count, 0);
    return student_t(count - 1) * sqrt(spread * (1 - part) * count / (count - 1.0)) / part;
}

static struct cache_estimate estimate(const struct cache *c, const struct level *l, const struct sample_groups *g,
                                      uint64_t references)
{
    double part = (double)c->sets.taken / (double)(c->sets.mask + 1), sum = 0, level = 0;
    double of_groups[SAMPLE_GROUPS] = {0};
    unsigned groups = c->sets.group_count;
    struct cache_estimate e = {.references = (double)references / part, .cold = NAN, .mu = NAN, .mu_own = NAN};
    for (unsigned i = 0; i < groups; i++) {
        double n = (double)g->misses[i];
        e.windows += n > 0;
        of_groups[i] = n;
        sum += n;
        level += (double)l->sample.all_groups.misses[i];
    }
    double wide = cache_groups_error(c, of_groups, groups);
    bool is_rare = e.windows < min_u64(MANY_GROUPS, groups);
    double few = is_rare ? fmin(3 / (double)c->sets.taken, 1) * level / part * (1 - part) : 0;
    e.known = e.misses = sum / part;
    e.error = wide / student_t(groups - 1);
    e.low = fmax(e.misses - wide, sum);
    e.high = e.misses + fmax(wide, few);
    return e;
}

static uint64_t references_of(const struct level *l)
{
    uint64_t sum = 0;
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        sum += l->counts.references[k];
    return sum;
}

struct cache_estimate sets_estimate(const struct cache *c, unsigned level)
{
    const struct level *l = &c->levels[level];
    return estimate(c, l, &l->sample.all_groups, references_of(l));
}

struct cache_estimate cache_estimate_cells(const struct cache *c, unsigned level, const uint32_t *cells, size_t count)
{
    const struct level *l = &c->levels[level];
    struct sample_groups sum = {{0}};
    uint64_t references = 0;
    if (!c->sets.groups)
        return sample_estimate_cells(c, level, cells, count);
    for (size_t i = 0; i < count; i++) {
        references += cells[i] < l->tally.references.len ? l->tally.references.data[cells[i]] : 0;
        for (unsigned g = 0; cells[i] < l->sample.groups.len && g < SAMPLE_GROUPS; g++)
            sum.misses[g] += l->sample.groups.data[cells[i]].misses[g];
    }
    return estimate(c, l, &sum, references);
}

const uint64_t *cache_cell_groups(const struct cache *c, unsigned level, uint32_t cell, unsigned *count)
{
    const struct level *l = &c->levels[level];
    *count = c->sets.group_count;
    return c->sets.groups && cell < l->sample.groups.len ? l->sample.groups.data[cell].misses : NULL;
}
