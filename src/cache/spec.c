/* SPDX-License-Identifier: Apache-2.0
 * Caches as text, what cannot be one, and the caches of a machine description. */
#include "cache/cache.h"

#include <stdlib.h>

enum { TEXT_MAX = 200, WAYS_ASSUMED = 8 };

static const char *const policy_names[CACHE_POLICY_COUNT] = {"LRU", "tree-PLRU", "random"};
static const char *const inclusion_names[CACHE_INCLUSION_COUNT] = {"neither", "inclusive", "exclusive"};
static const char *const kind_names[CACHE_KIND_COUNT] = {"fetches", "reads", "writes"};

const char *cache_policy_name(enum cache_policy p) { return policy_names[p]; }
const char *cache_inclusion_name(enum cache_inclusion i) { return inclusion_names[i]; }
const char *cache_kind_name(enum cache_kind k) { return kind_names[k]; }

/* ---- the words behind a level ---- */

struct word {
    const char *text;
    void (*set)(struct cache_level *l);
    bool (*is_set)(const struct cache_level *l);
};
#define WORD(id, assignment, condition)                                                                                \
    static void set_##id(struct cache_level *l) { assignment; }                                                        \
    static bool is_##id(const struct cache_level *l) { return condition; }
WORD(lru, l->policy = CACHE_LRU, l->policy == CACHE_LRU)
WORD(plru, l->policy = CACHE_PLRU, l->policy == CACHE_PLRU)
WORD(data, l->side = CACHE_DATA, l->side == CACHE_DATA)
WORD(code, l->side = CACHE_CODE, l->side == CACHE_CODE)
WORD(both, l->side = CACHE_BOTH, l->side == CACHE_BOTH)
WORD(inclusive, l->inclusion = CACHE_INCLUSIVE, l->inclusion == CACHE_INCLUSIVE)
WORD(exclusive, l->inclusion = CACHE_EXCLUSIVE, l->inclusion == CACHE_EXCLUSIVE)
WORD(through, l->write_through = true, l->write_through)
WORD(around, l->no_allocate = true, l->no_allocate)
WORD(whole, l->whole = true, l->whole)
WORD(streams, l->has_streams = true, l->has_streams)
WORD(shared, l->is_shared = true, l->is_shared)
WORD(private, l->is_shared = false, !l->is_shared)
#undef WORD
static const struct word words[] = {
    {"lru", set_lru, is_lru},
    {"plru", set_plru, is_plru},
    {"data", set_data, is_data},
    {"code", set_code, is_code},
    {"both", set_both, is_both},
    {"inclusive", set_inclusive, is_inclusive},
    {"exclusive", set_exclusive, is_exclusive},
    {"write-through", set_through, is_through},
    {"no-write-allocate", set_around, is_around},
    {"whole", set_whole, is_whole},
    {"streams", set_streams, is_streams},
    {"shared", set_shared, is_shared},
    {"private", set_private, is_private},
};

/* ---- parsing ---- */

struct parser {
    const char *spec, *at;
};

static int wrong(const struct parser *p, const char *what)
{
    return diag_error("the cache '%.*s': %s", TEXT_MAX, p->spec, what);
}

static int wrong_piece(const struct parser *p, size_t len, const char *what)
{
    return diag_error("the cache '%.*s': '%.*s' is %s", TEXT_MAX, p->spec, (int)min_u64(len, 40), p->at, what);
}

/* Up to one of "/:+" or the end. */
static size_t piece_len(const struct parser *p) { return strcspn(p->at, "/:+"); }

/* A number with K, M or G; 0 if it is none, or 2^60 or more. */
static uint64_t number_of(const char *text, size_t len)
{
    static const char units[] = "KMG";
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const char *unit = strchr(units, text[i] & ~0x20);
        long shift = unit && *unit ? 10 * (unit - units + 1) : 0;
        if (shift && i > 0 && i + 1 == len && !(n >> (60 - shift)))
            n <<= shift;
        else if (text[i] >= '0' && text[i] <= '9' && !(n >> 56))
            n = 10 * n + (uint64_t)(text[i] - '0');
        else
            return 0;
    }
    return n;
}

static int take_number(struct parser *p, uint64_t *out, const char *what)
{
    size_t len = piece_len(p);
    *out = number_of(p->at, len);
    if (!len)
        return wrong(p, "a level is BYTES/LINE/WAYS, as in 32K/64/8, and levels are joined by +");
    if (!*out)
        return wrong_piece(p, len, what);
    p->at += len;
    return 0;
}

static int take_slash(struct parser *p)
{
    if (*p->at != '/')
        return wrong(p, "a level is BYTES/LINE/WAYS, as in 32K/64/8, and levels are joined by +");
    p->at++;
    return 0;
}

static int take_ways(struct parser *p, struct cache_level *l)
{
    static const char full[] = "full";
    uint64_t ways;
    size_t len = piece_len(p);
    if (len == sizeof full - 1 && memcmp(p->at, full, len) == 0) {
        l->ways = l->line_bytes ? (uint32_t)min_u64(l->size_bytes / l->line_bytes, UINT32_MAX) : 0;
        p->at += len;
        return 0;
    }
    if (take_number(p, &ways, "no number of ways: 1 is direct-mapped, 'full' fully associative") < 0)
        return -1;
    l->ways = (uint32_t)min_u64(ways, UINT32_MAX);
    return 0;
}

static int take_random(struct parser *p, size_t len, struct cache_level *l)
{
    size_t head = strlen("random=");
    l->policy = CACHE_RANDOM;
    l->seed = len < head ? 1 : number_of(p->at + head, len - head);
    return l->seed ? 0 : wrong_piece(p, len, "no seed: a number above 0");
}

struct said { /* by words of a level; what is not has to be made up */
    bool side, sharing;
};

static int take_word(struct parser *p, struct cache_level *l, struct said *said)
{
    size_t len = piece_len(p), chance = strlen("random");
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strlen(words[i].text) != len || memcmp(words[i].text, p->at, len) != 0)
            continue;
        said->side |= words[i].set == set_data || words[i].set == set_code || words[i].set == set_both;
        said->sharing |= words[i].set == set_shared || words[i].set == set_private;
        words[i].set(l);
        p->at += len;
        return 0;
    }
    if (len < chance || memcmp(p->at, "random", chance) != 0 || (len > chance && p->at[chance] != '='))
        return wrong_piece(p, len,
                           "no word for a level: lru, plru, random, random=SEED, data, code, both, inclusive, "
                           "exclusive, write-through, no-write-allocate, whole, streams, shared, private");
    int rc = take_random(p, len, l);
    p->at += len;
    return rc;
}

static int take_level(struct parser *p, struct cache_level *l, struct said *said)
{
    uint64_t line;
    *l = (struct cache_level){.side = CACHE_DATA, .seed = 1};
    if (take_number(p, &l->size_bytes, "no number of bytes, as 32K or 1M") < 0 || take_slash(p) < 0 ||
        take_number(p, &line, "no number of bytes of a line") < 0 || take_slash(p) < 0)
        return -1;
    l->line_bytes = (uint32_t)min_u64(line, UINT32_MAX);
    if (take_ways(p, l) < 0)
        return -1;
    while (*p->at == ':') {
        p->at++;
        if (take_word(p, l, said) < 0)
            return -1;
    }
    return 0;
}

/* Levels whose side was not said are reached by data, and behind one of code by both. */
static void say_sides(struct cache_config *k, const struct said *said)
{
    unsigned seen = 0;
    for (unsigned i = 0; i < k->count; i++) {
        if (!said[i].side && seen & CACHE_CODE)
            k->levels[i].side = CACHE_BOTH;
        seen |= k->levels[i].side;
    }
}

/* The last of three levels of data, and what is behind a shared one. Pages are translated for each processor alone. */
static bool is_shared_unsaid(const struct cache_config *k, unsigned at)
{
    unsigned depth = 0;
    for (unsigned i = 0; i < k->count; i++)
        depth += (k->levels[i].side & CACHE_DATA) != 0;
    return (at > 0 && k->levels[at - 1].is_shared) ||
           (depth >= 3 && at + 1 == k->count && k->levels[at].line_bytes < CACHE_PAGE_MIN);
}

static void say_sharing(struct cache_config *k, const struct said *said)
{
    for (unsigned i = 0; i < k->count; i++)
        if (!said[i].sharing)
            k->levels[i].is_shared = is_shared_unsaid(k, i);
}

int cache_parse(const char *spec, struct cache_config *out)
{
    struct parser p = {spec, spec};
    struct said said[CACHE_LEVELS_MAX] = {{false}};
    *out = (struct cache_config){.count = 0};
    do {
        if (out->count == CACHE_LEVELS_MAX)
            return wrong(&p, "more than 8 levels");
        p.at += out->count > 0;
        if (take_level(&p, &out->levels[out->count], &said[out->count]) < 0)
            return -1;
        out->count++;
    } while (*p.at == '+');
    if (*p.at)
        return wrong(&p, "a level is BYTES/LINE/WAYS, as in 32K/64/8, and levels are joined by +");
    say_sides(out, said);
    say_sharing(out, said);
    return cache_check(spec, out);
}

/* ---- what cannot be ---- */

static bool is_power(uint64_t n) { return n && (n & (n - 1)) == 0; }

static int check_shape(const char *name, const char *who, const struct cache_level *l)
{
    uint64_t lines = l->line_bytes ? l->size_bytes / l->line_bytes : 0;
    if (!is_power(l->line_bytes) || l->line_bytes < CACHE_LINE_MIN || l->line_bytes > CACHE_LINE_MAX)
        return diag_error("the cache '%.*s': %s: a line of %u bytes; it is a power of two from 4 to 1G", TEXT_MAX, name,
                          who, l->line_bytes);
    if (!lines || l->size_bytes % l->line_bytes)
        return diag_error("the cache '%.*s': %s: %llu bytes are no whole number of lines of %u bytes", TEXT_MAX, name,
                          who, (unsigned long long)l->size_bytes, l->line_bytes);
    if (lines > CACHE_LINES_MAX)
        return diag_error("the cache '%.*s': %s: %llu lines; at most %d can be simulated", TEXT_MAX, name, who,
                          (unsigned long long)lines, CACHE_LINES_MAX);
    if (!l->ways || lines % l->ways)
        return diag_error("the cache '%.*s': %s: %u ways do not divide %llu lines", TEXT_MAX, name, who, l->ways,
                          (unsigned long long)lines);
    if (l->policy == CACHE_PLRU && !is_power(l->ways))
        return diag_error("the cache '%.*s': %s: tree-PLRU of %u ways; they must be a power of two", TEXT_MAX, name,
                          who, l->ways);
    return 0;
}

static int misplaced(const char *name, const char *who, const char *what)
{
    return diag_error("the cache '%.*s': %s %s", TEXT_MAX, name, who, what);
}

/* A level whose next one is this. */
static int check_pair(const char *name, const char *who, const struct cache_level *above, const struct cache_level *l,
                      bool above_is_whole)
{
    if (l->line_bytes < above->line_bytes)
        return diag_error("the cache '%.*s': %s: lines of %u bytes behind a level of %u; they cannot be smaller",
                          TEXT_MAX, name, who, l->line_bytes, above->line_bytes);
    if ((above->side & l->side) != above->side)
        return misplaced(name, who, "serves one side alone, behind a level for both");
    if (l->inclusion == CACHE_EXCLUSIVE && l->line_bytes != above->line_bytes)
        return misplaced(name, who, "is exclusive, so its lines must be as long as those of the level above");
    if (l->inclusion == CACHE_EXCLUSIVE && (above->write_through || above->no_allocate))
        return misplaced(name, who, "is exclusive, so the level above must write back and allocate on writes");
    if (above->is_shared && !l->is_shared)
        return misplaced(name, who, "is private, behind a level that all threads share");
    if (l->whole && !above_is_whole)
        return misplaced(name, who, "is 'whole', so the level above must be the nearest, or whole too");
    return 0;
}

static int check_first(const char *name, const char *who, const struct cache_level *l)
{
    if (l->inclusion == CACHE_EXCLUSIVE)
        return misplaced(name, who, "is exclusive, and no level is nearer than it");
    if (l->inclusion == CACHE_INCLUSIVE)
        return misplaced(name, who, "is inclusive, and no level is nearer than it");
    return l->whole ? misplaced(name, who, "is 'whole', and no level is nearer than it") : 0;
}

static int check_writing(const char *name, const char *who, const struct cache_level *l)
{
    if (l->inclusion == CACHE_EXCLUSIVE && (l->write_through || l->no_allocate || l->whole))
        return misplaced(name, who, "is exclusive: it cannot be write-through, no-write-allocate or whole");
    return 0;
}

static int check_level(const char *name, const struct cache_config *k, unsigned at)
{
    char who[8];
    const struct cache_level *l = &k->levels[at];
    cache_level_name(k, at, who);
    if (check_shape(name, who, l) < 0 || check_writing(name, who, l) < 0)
        return -1;
    unsigned seen = 0;
    for (int i = (int)at - 1; i >= 0; i--) {
        const struct cache_level *above = &k->levels[i];
        if (!(above->side & l->side) || (above->side & seen) == above->side)
            continue;
        bool is_nearest = true;
        for (int j = 0; j < i; j++)
            is_nearest &= !(k->levels[j].side & above->side);
        if (check_pair(name, who, above, l, above->whole || is_nearest) < 0)
            return -1;
        seen |= above->side;
    }
    return seen ? 0 : check_first(name, who, l);
}

int cache_check(const char *name, const struct cache_config *config)
{
    for (unsigned i = 0; i < config->count; i++)
        if (check_level(name, config, i) < 0)
            return -1;
    return 0;
}

/* ---- names ---- */

const char *cache_level_name(const struct cache_config *config, unsigned level, char out[8])
{
    unsigned side = config->levels[level].side, depth = 1, sides = 0;
    for (unsigned i = 0; i < level; i++)
        depth += config->levels[i].side & side && !(side == CACHE_BOTH && config->levels[i].side == CACHE_CODE);
    for (unsigned i = 0; i < config->count; i++)
        sides |= config->levels[i].side;
    char letter = sides != CACHE_BOTH || side == CACHE_BOTH ? 'L' : side == CACHE_CODE ? 'I' : 'D';
    snprintf(out, 8, "%c%u", letter, depth);
    return out;
}

static void put_bytes(struct strbuf *out, uint64_t bytes)
{
    static const char units[][2] = {"", "K", "M", "G"};
    unsigned unit = 0;
    for (; unit < 3 && bytes && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    str_printf(out, "%llu%s", (unsigned long long)bytes, units[unit]);
}

void cache_format_level(const struct cache_level *l, struct strbuf *out)
{
    put_bytes(out, l->size_bytes);
    str_puts(out, "/");
    put_bytes(out, l->line_bytes);
    if (l->ways > 1 && l->ways == l->size_bytes / l->line_bytes)
        str_puts(out, "/full");
    else
        str_printf(out, "/%u", l->ways);
}

void cache_format(const struct cache_config *config, struct strbuf *out)
{
    unsigned seen = 0;
    for (unsigned i = 0; i < config->count; i++) {
        const struct cache_level *l = &config->levels[i];
        const struct cache_level assumed = {.side = seen & CACHE_CODE ? CACHE_BOTH : CACHE_DATA,
                                            .is_shared = is_shared_unsaid(config, i)};
        str_puts(out, i ? "+" : "");
        cache_format_level(l, out);
        if (l->policy == CACHE_RANDOM)
            str_puts(out, ":random");
        if (l->policy == CACHE_RANDOM && l->seed != 1)
            str_printf(out, "=%llu", (unsigned long long)l->seed);
        for (size_t w = 0; w < ARRAY_LEN(words); w++)
            if (words[w].is_set(l) && !words[w].is_set(&assumed))
                str_printf(out, ":%s", words[w].text);
        seen |= l->side;
    }
}

/* ---- of a machine ---- */

static bool is_wanted(const struct machine_cache *c, bool tlbs)
{
    return (c->kind == MACHINE_CACHE_TLB) == tlbs && strcmp(c->name, "memory") != 0;
}

/* Where the nearest cache of code is not known, fetches are left out: they would all reach the next one. */
static enum cache_side side_of(const struct machine *m, enum machine_cache_kind kind)
{
    bool has_code = false;
    for (size_t i = 0; i < m->cache_count; i++)
        has_code |= m->caches[i].kind == MACHINE_CACHE_CODE;
    return kind == MACHINE_CACHE_CODE ? CACHE_CODE : kind == MACHINE_CACHE_BOTH && has_code ? CACHE_BOTH : CACHE_DATA;
}

int cache_of_machine(const struct machine *m, bool tlbs, struct cache_config *out)
{
    *out = (struct cache_config){.count = 0};
    for (size_t i = 0; i < m->cache_count && out->count < CACHE_LEVELS_MAX; i++) {
        const struct machine_cache *c = &m->caches[i];
        struct cache_level *l = &out->levels[out->count];
        if (!is_wanted(c, tlbs))
            continue;
        *l =
            (struct cache_level){.size_bytes = c->size_bytes, .line_bytes = c->line_bytes, .side = side_of(m, c->kind)};
        l->ways = c->ways ? c->ways : WAYS_ASSUMED;
        l->size_bytes -= l->size_bytes % ((uint64_t)l->line_bytes * l->ways);
        l->seed = 1;
        out->count++;
    }
    say_sharing(out, (struct said[CACHE_LEVELS_MAX]){{false}});
    return cache_check(tlbs ? "TLBs of the machine description" : "caches of the machine description", out);
}
