/* SPDX-License-Identifier: Apache-2.0
 * Words and figures of what mtool spy found. */
#include "report/data.h"

#include <math.h>
#include <stdlib.h>

static const double SHARE_MIN = 0.005; /* of evictions: smaller ones are not worth a word */

bool data_is_all(const struct prof_result *r)
{
    bool is_timed = false;
    for (size_t i = 0; i < r->object_count && !is_timed; i++)
        is_timed = !isnan(r->objects[i].actual_s.value) || !isnan(r->objects[i].ideal_s.value);
    return r->spy_count && !is_timed;
}

/* ---- causes ---- */

const char *data_cause_text(const struct prof_result *r, enum prof_data_owner owner, uint32_t id, bool is_brief,
                            struct arena *a)
{
    const struct prof_data_miss *m = data_miss(r, owner, id, data_primary(r));
    double shares[DATA_STALL_COUNT];
    unsigned most = 0;
    data_stall_causes(r, owner, id, shares);
    if (isnan(shares[0]))
        return m && m->misses == 0 ? "-" : "?";
    for (unsigned c = 1; c < DATA_STALL_COUNT; c++)
        most = shares[c] > shares[most] ? c : most;
    return arena_printf(a, "%s %s", is_brief ? data_causes[most].brief : data_causes[most].word,
                        figure_percent(a, shares[most]));
}

/* ---- figures ---- */

/* A string instruction is one reference of the program, and at a cache as many as it reaches lines. */
double data_rate(uint64_t misses, uint64_t references)
{
    bool is_known = misses != PROF_UNKNOWN && references != PROF_UNKNOWN && references && misses <= references;
    return is_known ? (double)misses / (double)references : NAN;
}

double data_curve_ratio(const struct prof_result *r, const struct prof_data_curve *row)
{
    struct data_range program = DATA_RANGE(r->data_curves, r->data_curve_count, object, ID_NONE);
    uint64_t references = program.first < program.end ? r->data_curves[program.first].references : PROF_UNKNOWN;
    bool is_known = references && references != PROF_UNKNOWN && row->misses != PROF_UNKNOWN;
    return is_known ? (double)row->misses / (double)references : NAN;
}

/* Three digits, and a letter for each step. */
static const char *scaled(struct arena *a, double x, double step, const char *letters)
{
    size_t n = 0;
    while (x >= 999.5 && letters[n])
        x /= step, n++;
    if (!n)
        return arena_printf(a, "%.0f", x);
    return arena_printf(a, "%.*f%c", x < 9.995 ? 1 : x < 99.95 && step < 1024 ? 1 : 0, x, letters[n - 1]);
}

const char *figure_brief(struct arena *a, uint64_t n)
{
    return n == PROF_UNKNOWN ? "?" : scaled(a, (double)n, 1000, "kMGTP");
}

/* Whole kilobytes and so on without a digit behind the point: 32K is 32768 bytes. */
const char *figure_bytes(struct arena *a, uint64_t bytes)
{
    static const char letters[] = "KMGTP";
    for (size_t n = sizeof letters - 1; bytes && bytes != PROF_UNKNOWN && n; n--)
        if (bytes % (1ull << 10 * n) == 0)
            return arena_printf(a, "%llu%c", (unsigned long long)(bytes >> 10 * n), letters[n - 1]);
    return bytes == PROF_UNKNOWN ? "?" : scaled(a, (double)bytes, 1024, letters);
}

size_t data_levels(const struct prof_result *r, uint32_t *levels, size_t max)
{
    uint32_t primary = data_primary(r);
    size_t n = 0;
    for (size_t i = 0; i < r->cache_count; i++) {
        if (r->caches[i].is_tlb || r->caches[i].configuration != r->caches[primary].configuration)
            continue;
        levels[n < max ? n++ : max - 1] = (uint32_t)i;
    }
    return n;
}

uint64_t data_misses_at(const struct prof_result *r, enum prof_data_owner owner, uint32_t id, uint32_t cache)
{
    const struct prof_data_miss *m = data_miss(r, owner, id, cache);
    return m ? m->misses : PROF_UNKNOWN;
}

/* ---- names ---- */

/* " (a.c:12)" at its end; its length if there is none. */
static size_t place_at(const char *name, size_t len)
{
    size_t at = len;
    if (!len || name[len - 1] != ')')
        return len;
    while (at && name[at - 1] != '(')
        at--;
    bool is_place = at > 1 && name[at - 2] == ' ' && memchr(name + at, ':', len - at);
    return is_place ? at - 2 : len;
}

/* Of blocks the innermost place that allocated them: "make (a.c:12) <- load <- main" without what called it, which is
 * told beside. Where only the places of the calls tell blocks apart, it is the last of these: "load (a.c:40)" of
 * "make (a.c:12) <- load (a.c:40)". */
static const char *told_part(const char *name, size_t *len)
{
    const char *end = strstr(name, " <- "), *last = name;
    for (const char *next = end; next; next = strstr(last, " <- "))
        last = next + strlen(" <- ");
    *len = strlen(last);
    if (end && place_at(last, *len) == *len) {
        *len = (size_t)(end - name);
        return name;
    }
    return last;
}

static const char *brief_name(const char *name, struct arena *a)
{
    size_t len;
    const char *part = told_part(name, &len);
    size_t at = place_at(part, len);
    const char *function = name_brief(a, name_plain(a, arena_strndup(a, part, at)));
    return arena_printf(a, "%s%.*s", function, (int)(len - at), part + at);
}

/* Of names that compilers made other ones may read the same: overloads, and functions of one template. */
static bool reads_the_same(const char *of_x, const char *of_y)
{
    size_t m, n;
    const char *x = told_part(of_x, &m), *y = told_part(of_y, &n);
    size_t at = place_at(x, m), to = place_at(y, n);
    if (m == n && memcmp(x, y, n) == 0)
        return true;
    if (x[0] != '_' || y[0] != '_' || m - at != n - to || memcmp(x + at, y + to, n - to) != 0)
        return false;
    struct arena *a = arena_new();
    bool is_same = strcmp(brief_name(of_x, a), brief_name(of_y, a)) == 0;
    arena_free(a);
    return is_same;
}

/* Objects before it that are called the same. */
static unsigned namesakes(const struct prof_result *r, uint32_t object, const char *name)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < object; i++)
        n += r->data[i].name && reads_the_same(r->data[i].name, name);
    return n;
}

const char *data_name(const struct prof_result *r, uint32_t object, struct arena *a)
{
    if (object == ID_NONE)
        return "others";
    const struct prof_data *d = &r->data[object];
    if (!d->name)
        return arena_printf(a, "%s %u", prof_data_kind_name[d->kind], object);
    unsigned before = namesakes(r, object, d->name);
    const char *name = cell_safe(a, brief_name(d->name, a));
    return before ? arena_printf(a, "%s (%u)", name, before + 1) : name;
}

const char *data_function(const char *function, const char *module, struct arena *a)
{
    if (function)
        return cell_safe(a, name_brief(a, name_plain(a, function)));
    return module ? cell_safe(a, arena_printf(a, "(in %s)", file_base_name(module))) : "?";
}

const char *data_place(const char *file, uint32_t line, struct arena *a)
{
    if (!file || !line)
        return "";
    return cell_safe(a, arena_printf(a, "%s:%u", file_base_name(file), line));
}

const char *data_level(const struct prof_cache *c, struct arena *a)
{
    const char *name = c->name ? cell_safe(a, c->name) : "?";
    bool is_full = c->line_bytes && c->ways != PROF_UNKNOWN && c->ways == c->bytes / c->line_bytes;
    return arena_printf(a, "%s %s/%s/%s", name, figure_bytes(a, c->bytes), figure_bytes(a, c->line_bytes),
                        is_full && c->ways > 1 ? "full" : figure_count(a, c->ways));
}

const char *data_site(const struct prof_result *r, uint32_t object, size_t frames, struct arena *a)
{
    struct data_range range = DATA_RANGE(r->data_frames, r->data_frame_count, object, object);
    const char *text = NULL;
    for (size_t i = range.first; i < range.end && i < range.first + frames; i++) {
        const struct prof_data_frame *f = &r->data_frames[i];
        const char *name = data_function(f->function, f->module, a), *place = data_place(f->file, f->line, a);
        text = arena_printf(a, "%s%s%s%s%s%s", text ? text : "", text ? " < " : "", name, *place ? " (" : "", place,
                            *place ? ")" : "");
    }
    return text;
}

const char *data_evictors(const struct prof_result *r, uint32_t object, size_t max, struct arena *a)
{
    struct data_range range = DATA_RANGE(r->data_evictors, r->data_evictor_count, object, object);
    uint32_t level = data_evictor_level(r, object);
    const char *text = NULL;
    size_t shown = 0;
    for (size_t i = range.first; i < range.end && shown < max; i++) {
        const struct prof_data_evictor *e = &r->data_evictors[i];
        if (e->cache != level || (text && e->share < SHARE_MIN))
            continue;
        text = arena_printf(a, "%s%s%s %s", text ? text : "", text ? ", " : "",
                            e->by == object ? "itself" : data_name(r, e->by, a), figure_percent(a, e->share));
        shown++;
    }
    return text;
}

static int compare_evictors(const void *x, const void *y)
{
    const struct prof_data_evictor *a = *(const struct prof_data_evictor *const *)x,
                                   *b = *(const struct prof_data_evictor *const *)y;
    return a->misses != b->misses ? (a->misses < b->misses ? 1 : -1) : (a > b) - (a < b);
}

const char *data_evicted(const struct prof_result *r, uint32_t object, size_t max, struct arena *a)
{
    const struct prof_data_evictor **list = ARENA_ARRAY(a, const struct prof_data_evictor *, r->data_evictor_count + 1);
    size_t n = 0;
    const char *text = NULL;
    for (size_t i = 0; i < r->data_evictor_count; i++) {
        const struct prof_data_evictor *e = &r->data_evictors[i];
        if (e->by == object && e->object != object && e->cache == data_evictor_level(r, e->object) &&
            e->misses != PROF_UNKNOWN)
            list[n++] = e;
    }
    if (n)
        qsort(list, n, sizeof *list, compare_evictors);
    for (size_t i = 0; i < n && i < max; i++)
        text = arena_printf(a, "%s%s%s %s", text ? text : "", text ? ", " : "", data_name(r, list[i]->object, a),
                            figure_brief(a, list[i]->misses));
    return text;
}

const char *data_site_text(const struct prof_result *r, const struct prof_data_site *s, struct arena *a)
{
    const char *place = data_place(s->file, s->line, a), *function = data_function(s->function, NULL, a);
    bool is_other = s->object != ID_NONE && s->object != r->data_sharing[s->sharing].object;
    return arena_printf(a, "thread %u %s%s%s%s%s in %s%s%s%s", s->thread, s->writes ? "writes" : "reads",
                        s->field ? " " : "", s->field ? cell_safe(a, s->field) : "",
                        !is_other  ? ""
                        : s->field ? " of "
                                   : " ",
                        is_other ? data_name(r, s->object, a) : "", function, *place ? " (" : "", place,
                        *place ? ")" : "");
}

bool data_is_shared(const struct prof_result *r, uint32_t sharing, uint32_t object)
{
    struct data_range range = DATA_RANGE(r->data_sites, r->data_site_count, sharing, sharing);
    for (size_t i = range.first; i < range.end; i++)
        if (r->data_sites[i].object == object)
            return true;
    return r->data_sharing[sharing].object == object;
}

/* References that are in no object's number. */
static uint64_t unattributed(const struct prof_result *r)
{
    uint64_t known = 0;
    for (size_t i = 0; i < r->data_count; i++)
        known += r->data[i].references == PROF_UNKNOWN ? 0 : r->data[i].references;
    return r->spy->references == PROF_UNKNOWN || known > r->spy->references ? 0 : r->spy->references - known;
}

const char *data_how(const struct prof_result *r, struct arena *a)
{
    const struct prof_spy *s = r->spy;
    const char *of = figure_brief(a, s->references);
    bool is_whole = s->ratio >= 1;
    bool is_of_sets = s->stream && strcmp(s->stream, "sets") == 0;
    bool is_of_samples = s->stream && strcmp(s->stream, "samples") == 0;
    const char *text =
        is_of_samples
            ? arena_printf(a,
                           "Of %s references those in %s samples, %s of all, were followed through simulated caches; "
                           "what they missed stands for all",
                           of, figure_count(a, s->samples), figure_percent(a, s->ratio))
        : is_of_sets ? arena_printf(a,
                                    "Of %s references those to one set in %.0f of the simulated caches were "
                                    "followed; what they missed stands for all",
                                    of, 1 / s->ratio)
        : is_whole   ? arena_printf(a, "Every one of %s references was followed through simulated caches", of)
                     : arena_printf(a, "%s of %s references were followed through simulated caches",
                                    figure_percent(a, s->ratio), of);
    if (s->dropped && s->dropped != PROF_UNKNOWN)
        text = arena_printf(a, "%s; %s were lost on the way", text, figure_count(a, s->dropped));
    if (s->unlogged && s->unlogged != PROF_UNKNOWN)
        text = arena_printf(a, "%s; those of %s executed instructions were not", text, figure_count(a, s->unlogged));
    if (unattributed(r))
        text = arena_printf(a, "%s; %s are not attributed to any one object", text, figure_brief(a, unattributed(r)));
    return arena_printf(a, "%s.", text);
}
