/* SPDX-License-Identifier: Apache-2.0
 * Which caches are simulated: those of --cache, of --machine, else this machine's. */
#include "cmd/run/profile.h"
#include "cmd/spy/traced.h"

struct choice {
    struct arena *arena;
    struct spy_caches *all;
    size_t count;
};

static struct spy_caches *add(struct choice *c, const char *name, const struct cache_config *config)
{
    c->all[c->count] = (struct spy_caches){.name = name, .config = *config, .huge_pages = {1, {{0, 1, 1}}}};
    return &c->all[c->count++];
}

/* The kept description of this machine, else the one shipped for it: nothing is measured for it. */
static int find_machine(const struct cmd_args *a, struct machine **out)
{
    const char *path = a->machine ? a->machine : cmd_machine_path(a->arena);
    if (path && (a->machine || file_exists(path)))
        return machine_read(path, out);
    *out = machine_shipped_here();
    if (!*out)
        *out = machine_default();
    return 0;
}

/* ---- what a miss counts for ---- */

static bool is_of_data(const struct machine_cache *c)
{
    return c->kind == MACHINE_CACHE_DATA || c->kind == MACHINE_CACHE_BOTH;
}

/* Cycles to the n-th level of data from the core, the memory behind the last; of a nearer one if it is not described.
 */
static double latency_of(const struct machine *m, unsigned n)
{
    double latency = 0;
    for (size_t i = 0; i < m->cache_count; i++)
        if (is_of_data(&m->caches[i]) && m->caches[i].latency > 0) {
            latency = m->caches[i].latency;
            if (n-- == 0)
                break;
        }
    return latency;
}

/* The last level's misses go to memory: the last cache that a description names. */
static double latency_of_memory(const struct machine *m) { return latency_of(m, MACHINE_CACHE_MAX); }

static void put_costs(const struct machine *m, struct spy_caches *c)
{
    unsigned nth = 0, count = 0;
    for (unsigned i = 0; i < c->config.count; i++)
        count += (c->config.levels[i].side & CACHE_DATA) != 0;
    for (unsigned i = 0; i < c->config.count; i++) {
        if (!(c->config.levels[i].side & CACHE_DATA))
            continue;
        double here = latency_of(m, nth++);
        double below = nth == count ? latency_of_memory(m) : latency_of(m, nth);
        c->miss_cycles[i] = below > here ? below - here : 0;
    }
}

/* The description says of each TLB what a miss in it costs more. */
static void put_walks(const struct machine *m, struct spy_caches *c)
{
    unsigned nth = 0;
    for (size_t i = 0; i < m->cache_count && nth < c->config.count; i++)
        if (m->caches[i].kind == MACHINE_CACHE_TLB)
            c->miss_cycles[nth++] = m->caches[i].latency;
}

/* ---- all ---- */

static int add_machines(struct choice *s, const struct machine *m)
{
    int rc = 0;
    for (int tlbs = 0; tlbs < 2 && rc == 0; tlbs++) {
        struct cache_config config;
        rc = cache_of_machine(m, tlbs, &config);
        if (rc < 0 || !config.count)
            continue;
        struct spy_caches *c = add(s, arena_printf(s->arena, "%s of %s", tlbs ? "TLBs" : "caches", m->name), &config);
        c->is_tlb = tlbs;
        if (!tlbs)
            continue;
        put_walks(m, c);
        if (machine_is_this(m))
            c->reach_bytes = config.levels[config.count - 1].size_bytes;
    }
    if (rc == 0 && !s->count)
        rc = diag_error("spy: the description of %s names no cache; give some by --cache", m->name);
    return rc;
}

static int add_all(struct choice *s, const struct cmd_args *a, const struct machine *m)
{
    if ((a->machine || !a->caches.count) && add_machines(s, m) < 0)
        return -1;
    for (size_t i = 0; i < a->caches.count; i++) {
        struct cache_config config;
        if (cache_parse(a->caches.all[i], &config) < 0)
            return -1;
        add(s, a->caches.all[i], &config);
    }
    put_costs(m, &s->all[0]);
    return 0;
}

int spy_choose_caches(const struct cmd_args *a, struct arena *arena, struct spy_caches **out, size_t *count)
{
    struct machine *m;
    struct choice s = {.arena = arena, .all = ARENA_ARRAY(arena, struct spy_caches, a->caches.count + 2)};
    if (find_machine(a, &m) < 0)
        return -1;
    int rc = add_all(&s, a, m);
    machine_free(m);
    *out = s.all;
    *count = s.count;
    return rc;
}

void spy_try_huge_pages(struct spy_caches *caches, size_t count)
{
    for (struct spy_caches *c = caches; c < caches + count; c++)
        if (c->reach_bytes)
            c->huge_pages = machine_try_huge_pages(c->reach_bytes);
}

uint32_t spy_curve_line(const struct cache_config *c)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->levels[i].side & CACHE_DATA)
            return c->levels[i].line_bytes;
    return 64;
}
