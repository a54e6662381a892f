/* SPDX-License-Identifier: Apache-2.0
 * The result as JSON, schema mtool-monster-1 (doc/monster.md). Unknown is null. */
#include "monster/impl.h"

#include <math.h>

static const char *const column_names[] = {
#define COLUMN(id, name) name,
#include "wire/monster.def"
#undef COLUMN
};

static void put_stalls(struct json *j, const struct monster_result *r, const uint64_t stalls[WIRE_STALL_COUNT])
{
    if (!r->machine) {
        json_null(j, "stalls");
        return;
    }
    json_object(j, "stalls");
    for (int i = 0; i < WIRE_STALL_COUNT; i++)
        json_u64(j, monster_stall_keys[i], stalls[i]);
    json_object_end(j);
}

static void put_mix(struct json *j, const uint64_t of[WIRE_COLUMN_COUNT])
{
    json_object(j, "mix");
    for (int i = WIRE_NOPS; i <= WIRE_MARKERS; i++)
        json_u64(j, column_names[i], of[i]);
    json_object_end(j);
}

static void put_misses(struct json *j, const char *key, const struct monster_result *r, int side,
                       enum wire_column references, enum wire_column first, const uint64_t of[WIRE_COLUMN_COUNT])
{
    json_object(j, key);
    json_u64(j, "references", of[references]);
    json_object(j, "misses");
    for (size_t l = 0; l < r->levels.len; l++)
        if (r->level_of[side][l] >= 0)
            json_u64(j, r->levels.data[l], of[first + (unsigned)r->level_of[side][l]]);
    json_object_end(j);
    json_object_end(j);
}

static void put_sum(struct json *j, const struct monster_result *r, const uint64_t of[WIRE_COLUMN_COUNT])
{
    json_u64(j, "instructions", of[WIRE_INSTRUCTIONS]);
    json_u64(j, "operations", of[WIRE_OPERATIONS]);
    json_u64(j, "restarts", of[WIRE_RESTARTS]);
    json_real(j, "cycles", monster_cycles(r, of));
    json_real(j, "cpi", of[WIRE_OPERATIONS] ? monster_cycles(r, of) / (double)of[WIRE_OPERATIONS] : NAN);
    put_stalls(j, r, of + WIRE_STALL_FETCH);
    if (!r->machine)
        return;
    put_misses(j, "fetches", r, 1, WIRE_FETCHES, WIRE_FETCH_MISSES, of);
    put_misses(j, "reads", r, 0, WIRE_READS, WIRE_READ_MISSES, of);
    put_misses(j, "writes", r, 0, WIRE_WRITES, WIRE_WRITE_MISSES, of);
    json_u64(j, "uncached", of[WIRE_UNCACHED]);
    json_u64(j, "tlb_misses", of[WIRE_TLB_MISSES]);
}

static void put_head(struct json *j, const struct monster_result *r, const struct monster_sums *s)
{
    static const char *const ends[] = {"exited", "signalled", "not started"};
    json_str(j, "schema", "mtool-monster-1");
    json_str(j, "command", r->command);
    json_str(j, "mtool_version", r->version);
    json_str(j, "kernel", r->kernel);
    json_object(j, "end");
    json_str(j, "how", r->end <= WIRE_NOT_STARTED ? ends[r->end] : NULL);
    json_u64(j, "value", r->status);
    json_object_end(j);
    json_str(j, "model", r->machine);
    json_str(j, "caches", r->caches);
    if (r->has_disk) {
        json_object(j, "disk");
        json_real(j, "request_ms", r->disk_ms);
        json_real(j, "mb_s", r->disk_mb_s);
        json_object_end(j);
    } else {
        json_null(j, "disk");
    }
    json_u64(j, "clock_ns", r->clock_ns);
    json_real(j, "idle_ns", s->idle_ns);
    json_object(j, "instructions");
    json_u64(j, "user", s->mode[MONSTER_USER].of[WIRE_INSTRUCTIONS]);
    json_u64(j, "kernel", s->mode[MONSTER_KERNEL].of[WIRE_INSTRUCTIONS]);
    json_object_end(j);
    json_object(j, "cycles");
    json_real(j, "user", s->mode[MONSTER_USER].cycles);
    json_real(j, "kernel", s->kernel_busy.cycles);
    json_real(j, "idle", s->idle_cycles);
    json_object_end(j);
}

static void put_regions(struct json *j, const struct monster_result *r, const struct monster_sums *s)
{
    json_array(j, "regions");
    json_object(j, NULL);
    json_str(j, "name", "user");
    json_str(j, "mode", "user");
    put_sum(j, r, s->mode[MONSTER_USER].of);
    json_object_end(j);
    for (int k = 0; k < MONSTER_REGION_COUNT; k++) {
        json_object(j, NULL);
        json_str(j, "name", monster_region_names[k]);
        json_str(j, "mode", "kernel");
        put_sum(j, r, s->region[k].of);
        json_object_end(j);
    }
    json_array_end(j);
    json_object(j, "mix");
    json_object(j, "user");
    put_mix(j, s->mode[MONSTER_USER].of);
    json_object_end(j);
    json_object(j, "kernel");
    put_mix(j, s->kernel_busy.of);
    json_object_end(j);
    json_object_end(j);
}

static void put_totals(struct json *j, const char *key, const struct monster_result *r, const struct monster_totals *t)
{
    json_object(j, key);
    json_u64(j, "instructions", t->instructions);
    if (r->machine)
        json_u64(j, "operations", t->operations);
    else
        json_null(j, "operations");
    put_stalls(j, r, t->stalls);
    json_object_end(j);
}

static void put_processes(struct json *j, const struct monster_result *r)
{
    json_array(j, "processes");
    for (size_t i = 0; i < r->processes.len; i++) {
        const struct monster_process *p = &r->processes.data[i];
        json_object(j, NULL);
        json_u64(j, "pid", p->pid);
        json_str(j, "name", p->name);
        put_totals(j, "user", r, &p->of[MONSTER_USER]);
        put_totals(j, "kernel", r, &p->of[MONSTER_KERNEL]);
        json_object_end(j);
    }
    json_array_end(j);
}

static const char *kind_of(char letter)
{
    static const char letters[] = {
#define KIND(id, letter, name) letter,
#include "wire/kinds.def"
#undef KIND
    };
    static const char *const names[] = {
#define KIND(id, letter, name) name,
#include "wire/kinds.def"
#undef KIND
    };
    const char *at = letter ? memchr(letters, letter, sizeof letters) : NULL;
    return at ? names[at - letters] : NULL;
}

static void put_reached(struct json *j, const struct monster_entry *e)
{
    const char *kind = kind_of(e->kind);
    if (!kind) {
        json_null(j, "kind");
        json_null(j, "reached");
        json_null(j, "bytes");
        return;
    }
    json_str(j, "kind", kind);
    json_hex(j, "reached", e->reached);
    json_u64(j, "bytes", e->bytes);
}

static void put_trace(struct json *j, const struct monster_program *p)
{
    json_u64(j, "trace_lost", p->trace_lost);
    json_array(j, "trace_events");
    for (size_t i = 0; i < p->trace.len; i++) {
        const struct monster_entry *e = &p->trace.data[i];
        json_object(j, NULL);
        json_u64(j, "instructions", e->instructions);
        json_hex(j, "pc", e->pc);
        json_hex(j, "address", e->address);
        json_u64(j, "pid", e->pid);
        json_str(j, "state", e->state);
        json_str(j, "pattern", e->pattern);
        put_reached(j, e);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_programs(struct json *j, const struct monster_result *r)
{
    json_array(j, "programs");
    for (size_t i = 0; i < r->programs.len; i++) {
        const struct monster_program *p = &r->programs.data[i];
        json_object(j, NULL);
        json_str(j, "name", p->name);
        json_array(j, "counters");
        for (size_t k = 0; k < p->counters.len; k++) {
            const struct monster_counter *c = &p->counters.data[k];
            json_object(j, NULL);
            json_str(j, "name", c->name);
            json_str(j, "kind", c->is_timer ? "timer" : "counter");
            json_u64(j, c->is_timer ? "instructions" : "count", c->value);
            if (c->is_timer) {
                json_real(j, "cycles", r->machine ? c->cycles : NAN);
                json_u64(j, "intervals", c->intervals);
                json_u64(j, "least", c->least);
                json_u64(j, "most", c->most);
            }
            json_object_end(j);
        }
        json_array_end(j);
        put_trace(j, p);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_maps(struct json *j, const struct monster_result *r)
{
    static const char *const kinds[] = {"fetches", "reads", "writes"};
    json_array(j, "maps");
    for (size_t i = 0; i < r->maps.len; i++) {
        const struct monster_map *m = &r->maps.data[i];
        json_object(j, NULL);
        json_str(j, "policy", m->name);
        json_u64(j, "bins", m->bins);
        json_object(j, "misses");
        for (int k = 0; k < MONSTER_MODE_COUNT; k++) {
            json_object(j, monster_mode_name((enum monster_mode)k));
            for (int n = 0; n < 3; n++)
                json_u64(j, kinds[n], m->misses[k][n]);
            json_object_end(j);
        }
        json_object_end(j);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_variables(struct json *j, const struct monster_result *r)
{
    json_array(j, "variables");
    for (size_t i = 0; i < r->variables.len; i++) {
        const struct monster_variable *v = &r->variables.data[i];
        json_object(j, NULL);
        json_str(j, "name", v->name);
        json_hex(j, "address", v->address);
        json_u64(j, "bytes", v->bytes);
        json_u64(j, "uses", v->uses);
        json_u64(j, "misses", v->misses);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_side(struct json *j, const struct monster_page *p, unsigned side)
{
    char shades[WIRE_PAGE_PARTS + 1];
    monster_page_shades(p, side, shades);
    json_object(j, monster_side_names[side]);
    json_u64(j, "uses", monster_page_uses(p, side));
    if (p->number[side])
        json_u64(j, "number", p->number[side]);
    else
        json_null(j, "number");
    json_str(j, "shades", shades);
    json_object_end(j);
}

static void put_pages(struct json *j, const struct monster_result *r)
{
    json_array(j, "pages");
    for (size_t i = 0; i < r->pages.len; i++) {
        const struct monster_page *p = &r->pages.data[i];
        json_object(j, NULL);
        json_str(j, "program", p->program);
        json_hex(j, "address", p->address);
        for (unsigned side = 0; side < MONSTER_SIDES; side++)
            put_side(j, p, side);
        json_array(j, "bins");
        for (size_t k = 0; k < r->maps.len; k++)
            json_u64(j, NULL, p->bins[k]);
        json_array_end(j);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_functions(struct json *j, const struct monster_result *r)
{
    json_array(j, "functions");
    for (size_t i = 0; i < r->functions.len; i++) {
        const struct monster_function *f = &r->functions.data[i];
        json_object(j, NULL);
        json_str(j, "function", f->name);
        json_str(j, "module", *f->module ? f->module : NULL);
        json_str(j, "mode", monster_mode_name((enum monster_mode)f->is_kernel));
        json_str(j, "region", f->is_kernel ? monster_region_names[monster_region_of(f)] : "user");
        json_hex(j, "address", f->address);
        json_u64(j, "bytes", f->of[WIRE_BYTES]);
        put_sum(j, r, f->of);
        json_object_end(j);
    }
    json_array_end(j);
}

/* By places in `functions`. */
static void put_calls(struct json *j, const struct monster_result *r)
{
    if (!r->has_calls) {
        json_null(j, "calls");
        return;
    }
    json_array(j, "calls");
    for (size_t i = 0; i < r->calls.len; i++) {
        json_object(j, NULL);
        json_u64(j, "caller", r->calls.data[i].caller);
        json_u64(j, "callee", r->calls.data[i].callee);
        json_u64(j, "count", r->calls.data[i].count);
        json_object_end(j);
    }
    json_array_end(j);
}

void monster_put_json(const struct monster_result *r, struct strbuf *out)
{
    struct json j;
    struct monster_sums s = monster_sum_up(r);
    json_init(&j, out, true);
    json_object(&j, NULL);
    put_head(&j, r, &s);
    put_regions(&j, r, &s);
    put_processes(&j, r);
    put_maps(&j, r);
    put_pages(&j, r);
    put_variables(&j, r);
    put_programs(&j, r);
    put_functions(&j, r);
    put_calls(&j, r);
    json_object_end(&j);
    str_puts(out, "\n");
}
