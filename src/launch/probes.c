/* SPDX-License-Identifier: Apache-2.0
 * The cells of probes (wire.h), area by area, to what each object's probes measured. Knows nothing of what is probed.
 */
#include "launch/impl.h"

static void add_cell(struct launch_probe *to, const struct wire_probe *c, uint64_t now)
{
    to->ticks += c->ticks;
    to->count += c->count;
    to->window_ticks += c->window_ticks;
    to->window_ns += c->window_ns;
    to->cut += c->cut;
    if (c->start && c->start < now) {
        to->open++;
        to->open_ticks += now - c->start;
    }
}

/* The cells of all modules in order, without the first of each, which is no probe's. */
static size_t number_cells(const struct launch_program *p, const struct launch_result *r, struct launch_probe *out)
{
    size_t n = 0;
    for (uint32_t m = 0; m < p->module_count; m++)
        for (uint32_t cell = 1; r->counters[m] && cell < p->modules[m].counter_count * 8 / WIRE_PROBE_BYTES;
             cell++, n++)
            if (out)
                out[n] = (struct launch_probe){.module = m, .cell = cell};
    return n;
}

/* counters_sum says which modules were loaded; the cells themselves are read area by area, since only some of their
 * words add up. */
void probes_sum(const struct counters *c, const struct launch_program *p, uint64_t now, struct launch_result *r)
{
    struct arena *a = arena_new();
    counters_sum(c, p, r);
    r->probes = ARENA_ARRAY(r->arena, struct launch_probe, number_cells(p, r, NULL) + 1);
    r->probe_count = number_cells(p, r, r->probes);
    uint64_t areas = c->header ? min_u64(c->header->area_next, c->plan->area_most) : 0;
    for (uint64_t area = 0; area < areas; area++) {
        uint64_t **words = ARENA_ARRAY(a, uint64_t *, p->module_count + 1);
        counters_sum_area(c, area, a, words);
        for (size_t i = 0; i < r->probe_count; i++) {
            struct launch_probe *to = &r->probes[i];
            if (words[to->module])
                add_cell(to, (const struct wire_probe *)(const void *)words[to->module] + to->cell, now);
        }
    }
    arena_free(a);
}
