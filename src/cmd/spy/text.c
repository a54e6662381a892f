/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found, for people: tables of at most 80 columns unless figures are huge. */
#include "cmd/spy/traced.h"

#include <math.h>

enum { FIGURE = 32, CURVE_COLUMNS = 6 };

/* ---- figures ---- */

static const char *with_commas(uint64_t n, char out[FIGURE])
{
    char digits[FIGURE];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : NAN; }

/* "12.3%", "" where nothing is to be shared. Rates keep two digits: most are small. */
static const char *percent(uint64_t part, uint64_t whole, int digits, char out[FIGURE])
{
    if (!whole)
        return "";
    snprintf(out, FIGURE, "%.*f%%", digits, 100 * share(part, whole));
    return out;
}

static void put_bytes(struct strbuf *out, uint64_t bytes)
{
    str_printf(out, bytes < 1 << 20 ? "%lluK" : "%lluM",
               (unsigned long long)(bytes < 1 << 20 ? bytes >> 10 : bytes >> 20));
}

/* ---- levels ---- */

static void put_level_head(struct strbuf *out)
{
    str_printf(out, "  %-17s %12s %12s %7s %9s %9s %9s\n", "level", "references", "misses", "rate", "cold", "capacity",
               "conflict");
}

static void put_row(struct strbuf *out, const char *name, uint64_t references, uint64_t misses,
                    const uint64_t causes[CACHE_CAUSE_COUNT])
{
    char a[FIGURE], b[FIGURE], c[FIGURE], d[FIGURE], e[FIGURE], f[FIGURE];
    str_printf(out, "  %-17s %12s %12s %7s %9s %9s %9s\n", name, with_commas(references, a), with_commas(misses, b),
               percent(misses, references, 2, c), with_commas(causes[CACHE_COLD], d),
               with_commas(causes[CACHE_CAPACITY], e), with_commas(causes[CACHE_CONFLICT], f));
}

static void put_more(struct strbuf *out, const char *what, uint64_t n)
{
    char figure[FIGURE];
    if (n)
        str_printf(out, "    %s: %s\n", what, with_commas(n, figure));
}

static void put_level(struct strbuf *out, const struct spy_caches *c, unsigned level)
{
    const struct cache_counts *n = cache_counts(c->cache, level);
    uint64_t causes[CACHE_CAUSE_COUNT] = {0};
    unsigned kinds = 0;
    char name[8];
    struct strbuf title = {0};
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        for (unsigned x = 0; x < CACHE_CAUSE_COUNT; x++)
            causes[x] += n->causes[k][x];
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        kinds += n->references[k] > 0;
    str_printf(&title, "%s ", cache_level_name(&c->config, level, name));
    cache_format_level(&c->config.levels[level], &title);
    put_row(out, title.data, spy_level_references(c, level), spy_level_misses(c, level), causes);
    for (unsigned k = 0; k < CACHE_KIND_COUNT && kinds > 1; k++) {
        char label[16];
        snprintf(label, sizeof label, "   %s", cache_kind_name(k));
        if (n->references[k])
            put_row(out, label, n->references[k], n->misses[k], n->causes[k]);
    }
    put_more(out, "misses of lines that an inclusive level took back", causes[CACHE_INCLUSION]);
    put_more(out, "misses of lines that writes went around", causes[CACHE_AROUND]);
    put_more(out, "misses of what another thread wrote", causes[CACHE_TRUE_SHARING]);
    put_more(out, "misses of lines that another thread took without need", causes[CACHE_FALSE_SHARING]);
    put_more(out, "misses that a prefetcher would have foreseen",
             n->streamed[CACHE_FETCH] + n->streamed[CACHE_READ] + n->streamed[CACHE_WRITE]);
    put_more(out, "dirty lines written back", n->write_backs);
    put_more(out, "writes handed on", n->write_throughs);
    str_free(&title);
}

/* ---- instructions ---- */

static const char *place_of(const struct spy_traced *s, uint32_t cell, char out[FIGURE])
{
    if (!cell || cell == CACHE_OTHERS)
        return cell ? "others" : "unknown";
    snprintf(out, FIGURE, "0x%llx", (unsigned long long)cache_reader_place(s->reader, cell));
    return out;
}

static void put_evictor(struct strbuf *out, const struct spy_traced *s, const struct spy_instruction *i)
{
    char place[FIGURE], part[FIGURE];
    uint64_t all = 0;
    for (size_t e = 0; e < i->evictor_count; e++)
        all += i->evictors[e].misses;
    if (all)
        str_printf(out, "  %s %s", i->evictors[0].by == i->cell ? "itself" : place_of(s, i->evictors[0].by, place),
                   percent(i->evictors[0].misses, all, 0, part));
}

static void put_instruction(struct strbuf *out, const struct spy_traced *s, const struct spy_instruction *i,
                            uint64_t all)
{
    const struct cache_cell *n = i->counts;
    char a[FIGURE], b[FIGURE], c[FIGURE], d[FIGURE], e[FIGURE], f[FIGURE], g[FIGURE];
    str_printf(out, "  %-16s %11s %6s %6s %5s %5s %5s", place_of(s, i->cell, a), with_commas(n->misses, b),
               percent(n->misses, all, 1, c), percent(n->misses, n->references, 1, d),
               percent(n->causes[CACHE_COLD], n->misses, 0, e), percent(n->causes[CACHE_CAPACITY], n->misses, 0, f),
               percent(n->causes[CACHE_CONFLICT], n->misses, 0, g));
    put_evictor(out, s, i);
    str_puts(out, "\n");
}

static void put_instructions(struct strbuf *out, const struct spy_traced *s, const struct spy_caches *c, unsigned level)
{
    char name[8];
    size_t count;
    const struct spy_instruction *i = spy_worst(s, c, level, &count);
    if (!count || (count == 1 && !i->cell))
        return;
    str_printf(out, "\n  %-16s %11s %6s %6s %5s %5s %5s  %s\n", "instruction",
               arena_printf(s->arena, "%s misses", cache_level_name(&c->config, level, name)), "share", "rate", "cold",
               "cap.", "conf.", "evicted most by");
    for (size_t k = 0; k < count; k++)
        put_instruction(out, s, &i[k], spy_level_misses(c, level));
}

/* The nearest level of a side, or the farthest; -1: none. */
static int level_of(const struct cache_config *k, unsigned side, bool farthest)
{
    int found = -1;
    for (unsigned i = 0; i < k->count; i++)
        if (k->levels[i].side & side && (farthest || found < 0))
            found = (int)i;
    return found;
}

static void put_caches(struct strbuf *out, const struct spy_traced *s, const struct spy_caches *c)
{
    int data = level_of(&c->config, CACHE_DATA, false), code = level_of(&c->config, CACHE_CODE, false),
        last = level_of(&c->config, CACHE_DATA, true);
    str_printf(out, "\n%s\n", str_printable(s->arena, c->name));
    put_level_head(out);
    for (unsigned l = 0; l < c->config.count; l++)
        if (spy_level_references(c, l))
            put_level(out, c, l);
    if (data >= 0)
        put_instructions(out, s, c, (unsigned)data);
    if (last != data)
        put_instructions(out, s, c, (unsigned)last);
    if (code >= 0 && code != data && code != last)
        put_instructions(out, s, c, (unsigned)code);
}

/* ---- the whole ---- */

static void put_trace(struct strbuf *out, const struct spy_traced *s)
{
    char a[FIGURE], b[FIGURE], c[FIGURE], d[FIGURE];
    const uint64_t *n = s->references;
    str_printf(out, "%s: ", str_printable(s->arena, s->trace));
    if (n[CACHE_FETCH])
        str_printf(out, "%s instructions, ", with_commas(n[CACHE_FETCH], a));
    str_printf(out, "%s reads, %s writes", with_commas(n[CACHE_READ], b), with_commas(n[CACHE_WRITE], c));
    if (n[CACHE_MODIFY])
        str_printf(out, ", %s reads that write too", with_commas(n[CACHE_MODIFY], d));
    str_puts(out, "\n");
}

static void put_curve(struct strbuf *out, const struct spy_traced *s)
{
    uint64_t all = cache_curve_references(s->curve);
    char lines[FIGURE];
    int column = 0;
    if (!all)
        return;
    str_printf(out,
               "\nData references reach %s lines of %u bytes. A fully associative LRU cache of\nthese would miss of "
               "them:",
               with_commas(cache_curve_lines(s->curve), lines), s->curve_line);
    for (uint64_t bytes = SPY_CURVE_MIN; bytes <= SPY_CURVE_MAX; bytes *= 2) {
        struct strbuf size = {0};
        char rate[FIGURE];
        put_bytes(&size, bytes);
        str_printf(out, "%s%5s %6s", column++ % CURVE_COLUMNS ? "" : "\n ", size.data,
                   percent(cache_curve_misses(s->curve, bytes), all, 2, rate));
        str_free(&size);
    }
    str_puts(out, "\n");
}

void spy_put_text(const struct spy_traced *s, struct strbuf *out)
{
    put_trace(out, s);
    for (size_t c = 0; c < s->count; c++)
        put_caches(out, s, &s->caches[c]);
    put_curve(out, s);
}
