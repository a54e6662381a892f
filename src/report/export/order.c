/* SPDX-License-Identifier: Apache-2.0
 * In which order a linker should put the variables of a file that mtool spy saw misses of: those that evict each other
 * beside each other, in pieces that the nearest cache holds whole, so that they do not meet in it; what misses most for
 * each byte first. (Calder, Krintz, John and Austin, Cache-Conscious Data Placement, ASPLOS 1998, place by a graph of
 * what is used near in time; here its weights are the misses that followed an eviction.) */
#include "order/order.h"
#include "report/export/export.h"
#include "result/data/data.h"

struct orderable {
    const struct prof_result *result;
    uint32_t cache, *node_of; /* [data] and 1; 0: none of these */
    VEC(uint32_t) data;       /* of nodes */
    VEC(struct order_node) nodes;
    VEC(struct order_arc) arcs;
};

/* What a linker can know: what a section holds beside variables has a name with a blank. */
static bool is_symbol(const char *name)
{
    if (!name || !*name)
        return false;
    for (; *name; name++)
        if ((uint8_t)*name <= ' ' || (uint8_t)*name >= 0x7f)
            return false;
    return true;
}

bool report_is_orderable(const struct prof_result *r, const struct prof_data *d, uint32_t module)
{
    return (d->kind == PROF_DATA_GLOBAL || d->kind == PROF_DATA_THREAD) && module < r->module_count && d->module &&
           r->modules[module].path && strcmp(d->module, r->modules[module].path) == 0 && is_symbol(d->name);
}

static void add_nodes(struct orderable *o, uint32_t module)
{
    for (uint32_t i = 0; i < o->result->data_count; i++) {
        const struct prof_data *d = &o->result->data[i];
        if (!report_is_orderable(o->result, d, module))
            continue;
        const struct prof_data_miss *m = data_miss(o->result, PROF_OWNER_OBJECT, i, o->cache);
        struct order_node node = {m ? export_count(m->misses) : 0, export_count(d->bytes)};
        VEC_PUSH(&o->nodes, node);
        VEC_PUSH(&o->data, i);
        o->node_of[i] = (uint32_t)o->nodes.len;
    }
}

static void add_arcs(struct orderable *o)
{
    for (size_t i = 0; i < o->result->data_evictor_count; i++) {
        const struct prof_data_evictor *e = &o->result->data_evictors[i];
        bool is_ours = e->cache == o->cache && e->object < o->result->data_count && e->by < o->result->data_count &&
                       o->node_of[e->object] && o->node_of[e->by];
        if (is_ours && e->misses != PROF_UNKNOWN)
            VEC_PUSH(&o->arcs, ((struct order_arc){o->node_of[e->object] - 1, o->node_of[e->by] - 1, e->misses}));
    }
}

/* The sections in which gcc and clang put a variable with -fdata-sections. */
static void put(struct strbuf *out, const char *name, unsigned linker)
{
    static const char *const sections[] = {
        ".data",           ".bss",      ".rodata", ".data.rel.ro", ".data.rel.ro.local",
        ".data.rel.local", ".data.rel", ".tdata",  ".tbss"};
    if (linker == EXPORT_LINKER_LLD)
        str_printf(out, "%s\n", name);
    for (size_t i = 0; linker == EXPORT_LINKER_GOLD && i < ARRAY_LEN(sections); i++)
        str_printf(out, "%s.%s\n", sections[i], name);
}

void export_data_order(const struct prof_result *r, const struct export_options *options, struct arena *a,
                       struct strbuf *out)
{
    struct orderable o = {.result = r, .cache = data_nearest(r)};
    o.node_of = ARENA_ARRAY(a, uint32_t, r->data_count + 1);
    str_puts(out, options->linker == EXPORT_LINKER_LLD
                      ? "# ld.lld --symbol-ordering-file=THIS, of objects by -fdata-sections\n"
                      : "# ld.gold --section-ordering-file=THIS, of objects by -fdata-sections\n");
    if (o.cache != ID_NONE) {
        add_nodes(&o, options->module);
        add_arcs(&o);
        uint32_t *order = ARENA_ARRAY(a, uint32_t, o.nodes.len + 1);
        order_nodes(o.nodes.data, o.nodes.len, o.arcs.data, o.arcs.len, export_count(r->caches[o.cache].bytes), order);
        for (size_t i = 0; i < o.nodes.len; i++)
            put(out, r->data[o.data.data[order[i]]].name, options->linker);
    }
    VEC_FREE(&o.data);
    VEC_FREE(&o.nodes);
    VEC_FREE(&o.arcs);
}
