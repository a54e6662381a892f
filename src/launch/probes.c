/* SPDX-License-Identifier: Apache-2.0
 * The cells of probes (wire.h), area by area, to what each object's probes measured. Knows nothing of what is probed.
 */
#include "launch/impl.h"

struct end {                /* of the program */
    uint64_t ticks, cpu_ns; /* cpu_ns: of its only thread; 0: not known */
};

/* An interval begins with a look, or soon after one. */
static uint64_t cpu_since_start(const struct wire_probe *c, const struct end *end)
{
    uint64_t apart = c->start > c->reading_ticks ? c->start - c->reading_ticks : c->reading_ticks - c->start;
    return apart <= WIRE_PROBE_READING && end->cpu_ns > c->reading_ns ? end->cpu_ns - c->reading_ns : 0;
}

static void add_stamps(struct observed_stamps *to, uint32_t seen, uint64_t ticks, uint64_t squares)
{
    to->seen += seen;
    to->ticks += ticks;
    to->squares += squares;
}

static void add_cell(struct observed_probe *to, const struct wire_probe *c, const struct end *end)
{
    to->ticks += c->ticks;
    to->count += c->count;
    to->clocked_ticks += c->clocked_ticks;
    to->clocked_ns += c->clocked_ns;
    to->cut += c->cut;
    to->looks += c->looks;
    to->restarts += c->restarts;
    to->look_seen += c->look_seen;
    to->look_ticks += c->look_ticks;
    add_stamps(&to->begin, c->begin_seen, c->begin_ticks, c->begin_squares);
    add_stamps(&to->end, c->end_seen, c->end_ticks, c->end_squares);
    if (c->start && c->start < end->ticks) {
        to->open++;
        to->open_ticks += end->ticks - c->start;
        to->open_ns += cpu_since_start(c, end);
    }
}

/* The cells of all modules in order, without the first of each, which is no probe's. */
static size_t number_cells(const struct launch_program *p, const struct launch_result *r, struct observed_probe *out)
{
    size_t n = 0;
    for (uint32_t m = 0; m < p->module_count; m++) {
        uint64_t cells = r->counters[m] ? p->modules[m].counter_count * 8 / WIRE_PROBE_BYTES : 0;
        for (uint32_t cell = 1; cell < cells; cell++) {
            if (out)
                out[n] = (struct observed_probe){.module = m, .cell = cell};
            n++;
        }
    }
    return n;
}

/* The clock of the process is exact. Its two parts are not: where the kernel's ticks share them out, what takes less
 * than one may be all the program's, so nothing here is bounded by system_s. */
static double between(double from_s, double to_s) { return to_s > from_s ? to_s - from_s : 0; }

/* counters_sum says which modules were loaded; the cells themselves are read area by area, since only some of their
 * words add up. */
void probes_sum(const struct counters *c, const struct launch_program *p, uint64_t now, struct launch_result *r)
{
    struct end end = {.ticks = now};
    struct arena *a = arena_new();
    counters_sum(c, p, r);
    r->probes = ARENA_ARRAY(r->arena, struct observed_probe, number_cells(p, r, NULL) + 1);
    r->probe_count = number_cells(p, r, r->probes);
    uint64_t areas = c->header ? min_u64(c->header->area_next, c->plan->area_max) : 0;
    double all_s = r->before_s + r->user_s + r->system_s;
    uint64_t exit_ns = areas == 1 && !r->forks ? c->header->exit_ns : 0; /* else it may be a child's */
    if (areas && c->header->begin_ns)
        r->start_s = between(r->before_s, 1e-9 * (double)c->header->begin_ns);
    r->landed_s = areas ? 1e-9 * (double)c->header->landed_ns : 0;
    if (exit_ns)
        r->after_exit_s = between(1e-9 * (double)exit_ns, all_s);
    if (areas == 1 && !r->forks && !c->header->threads) /* one thread, whose time is the process's */
        end.cpu_ns = (uint64_t)(1e9 * (all_s - r->after_exit_s));
    for (uint64_t area = 0; area < areas; area++) {
        uint64_t **words = ARENA_ARRAY(a, uint64_t *, p->module_count + 1);
        counters_sum_area(c, area, a, words);
        for (size_t i = 0; i < r->probe_count; i++) {
            struct observed_probe *to = &r->probes[i];
            if (words[to->module])
                add_cell(to, (const struct wire_probe *)(const void *)words[to->module] + to->cell, &end);
        }
    }
    arena_free(a);
}
