/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found, as JSON: schema mtool-spy-1 (doc/spy.md). */
#include "cmd/spy/traced.h"

static void put_kinds(struct json *j, const char *key, const uint64_t n[CACHE_KIND_COUNT])
{
    json_object(j, key);
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        json_u64(j, cache_kind_name(k), n[k]);
    json_object_end(j);
}

static void put_causes(struct json *j, const char *key, const uint64_t n[CACHE_CAUSE_COUNT])
{
    json_object(j, key);
    for (unsigned c = 0; c < CACHE_CAUSE_COUNT; c++)
        json_u64(j, cache_cause_name(c), n[c]);
    json_object_end(j);
}

/* ---- instructions ---- */

static void put_place(struct json *j, const char *key, const struct spy_traced *s, uint32_t cell)
{
    if (cell && cell != CACHE_OTHERS)
        json_hex(j, key, cache_reader_place(s->reader, cell));
    else
        json_null(j, key);
}

static void put_instruction(struct json *j, const struct spy_traced *s, const struct spy_instruction *i)
{
    json_object(j, NULL);
    put_place(j, "address", s, i->cell);
    json_u64(j, "references", i->counts->references);
    json_u64(j, "misses", i->counts->misses);
    put_causes(j, "causes", i->counts->causes);
    json_u64(j, "streamed", i->counts->streamed);
    json_array(j, "evicted_by");
    for (size_t e = 0; e < i->evictor_count; e++) {
        json_object(j, NULL);
        put_place(j, "address", s, i->evictors[e].by);
        json_u64(j, "misses", i->evictors[e].misses);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void put_instructions(struct json *j, const struct spy_traced *s, const struct spy_caches *c, unsigned level)
{
    size_t count;
    const struct spy_instruction *i = spy_worst(s, c, level, &count);
    json_array(j, "instructions");
    for (size_t k = 0; k < count; k++)
        put_instruction(j, s, &i[k]);
    json_array_end(j);
}

/* ---- levels ---- */

static void put_shape(struct json *j, const struct spy_caches *c, unsigned level)
{
    static const char *const sides[] = {[CACHE_DATA] = "data", [CACHE_CODE] = "code", [CACHE_BOTH] = "both"};
    const struct cache_level *l = &c->config.levels[level];
    char name[8];
    json_str(j, "name", cache_level_name(&c->config, level, name));
    json_u64(j, "bytes", l->size_bytes);
    json_u64(j, "line", l->line_bytes);
    json_u64(j, "ways", l->ways);
    json_str(j, "side", sides[l->side]);
    json_str(j, "replacement", cache_policy_name(l->policy));
    json_str(j, "inclusion", cache_inclusion_name(l->inclusion));
    json_bool(j, "write_through", l->write_through);
    json_bool(j, "write_allocate", !l->no_allocate);
    json_bool(j, "whole", l->whole);
    json_bool(j, "shared", l->is_shared);
}

static void put_level(struct json *j, const struct spy_traced *s, const struct spy_caches *c, unsigned level)
{
    const struct cache_counts *n = cache_counts(c->cache, level);
    json_object(j, NULL);
    put_shape(j, c, level);
    put_kinds(j, "references", n->references);
    put_kinds(j, "misses", n->misses);
    json_object(j, "causes");
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        put_causes(j, cache_kind_name(k), n->causes[k]);
    json_object_end(j);
    if (c->config.levels[level].has_streams)
        put_kinds(j, "streamed", n->streamed);
    else
        json_null(j, "streamed");
    json_u64(j, "write_backs", n->write_backs);
    json_u64(j, "write_throughs", n->write_throughs);
    put_instructions(j, s, c, level);
    json_object_end(j);
}

static void put_caches(struct json *j, const struct spy_traced *s, const struct spy_caches *c)
{
    struct strbuf spec = {0};
    cache_format(&c->config, &spec);
    json_object(j, NULL);
    json_str(j, "name", c->name);
    json_str(j, "spec", spec.data);
    json_array(j, "levels");
    for (unsigned l = 0; l < c->config.count; l++)
        put_level(j, s, c, l);
    json_array_end(j);
    json_object_end(j);
    str_free(&spec);
}

/* ---- the whole ---- */

static void put_curve(struct json *j, const struct spy_traced *s)
{
    json_object(j, "curve");
    json_u64(j, "line", s->curve_line);
    json_u64(j, "lines", cache_curve_lines(s->curve));
    json_u64(j, "references", cache_curve_references(s->curve));
    json_array(j, "sizes");
    for (uint64_t bytes = SPY_CURVE_MIN; bytes <= SPY_CURVE_MAX; bytes *= 2) {
        json_object(j, NULL);
        json_u64(j, "bytes", bytes);
        json_u64(j, "misses", cache_curve_misses(s->curve, bytes));
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

void spy_put_json(const struct spy_traced *s, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-spy-1");
    json_str(&j, "trace", s->trace);
    json_str(&j, "form", cache_form_name(cache_reader_form(s->reader)));
    json_object(&j, "references");
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        json_u64(&j, cache_kind_name(k), s->references[k]);
    json_u64(&j, "modifies", s->references[CACHE_MODIFY]);
    json_object_end(&j);
    json_array(&j, "configurations");
    for (size_t c = 0; c < s->count; c++)
        put_caches(&j, s, &s->caches[c]);
    json_array_end(&j);
    put_curve(&j, s);
    json_object_end(&j);
}
