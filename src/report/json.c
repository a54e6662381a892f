/* SPDX-License-Identifier: Apache-2.0
 * The result as JSON: schemas mtool-report-1 and mtool-count-1 (doc/profile.md). Members are added, never renamed; what
 * is unknown is null. */
#include <math.h>

#include "report/impl.h"

void member_count(struct json *j, const char *key, uint64_t n)
{
    n == PROF_UNKNOWN ? json_null(j, key) : json_u64(j, key, n);
}

void member_id(struct json *j, const char *key, uint32_t id)
{
    id == ID_NONE ? json_null(j, key) : json_u64(j, key, id);
}

void member_line(struct json *j, const char *key, uint32_t line) { line ? json_u64(j, key, line) : json_null(j, key); }

void member_interval(struct json *j, const char *name, const char *unit, const struct prof_interval *i)
{
    static const char *const ends[] = {"", "_low", "_high"};
    const double values[] = {i->value, i->low, i->high};
    char key[40];
    for (size_t k = 0; k < ARRAY_LEN(ends); k++) {
        snprintf(key, sizeof key, "%s%s%s", name, ends[k], unit);
        json_real(j, key, values[k]);
    }
}

void member_function(struct json *j, const char *function, struct arena *a)
{
    json_str(j, "function", function);
    json_str(j, "function_plain", function ? name_plain(a, function) : NULL);
}

static void put_command(struct json *j, const struct prof_result *r)
{
    json_array(j, "command");
    for (const char **w = r->command; w && *w; w++)
        json_str(j, NULL, *w);
    json_array_end(j);
}

void member_passed(struct json *j, const struct prof_result *r)
{
    if (isnan(r->machine.ideal_error_median))
        json_null(j, "self_test_passed");
    else
        json_bool(j, "self_test_passed", !prof_model_failed(r));
}

static void put_machine(struct json *j, const struct prof_result *r)
{
    json_object(j, "machine");
    json_str(j, "cpu", r->machine.cpu);
    json_str(j, "description", r->machine.description);
    json_str(j, "kernel", r->machine.kernel);
    json_real(j, "tsc_hz", r->machine.tsc_hz);
    json_real(j, "cycles_per_tsc", r->machine.cycles_per_tsc);
    json_real(j, "ideal_error_median", r->machine.ideal_error_median);
    json_real(j, "ideal_error_p90", r->machine.ideal_error_p90);
    json_real(j, "ideal_bias", r->machine.ideal_bias);
    member_passed(j, r);
    json_object_end(j);
}

static void put_run(struct json *j, const struct prof_result *r)
{
    json_str(j, "started", r->started);
    json_str(j, "mtool_version", r->mtool_version);
    json_str(j, "options", r->options);
    member_id(j, "rank", r->rank);
    member_id(j, "rank_count", r->rank_count);
    json_i64(j, "exit", r->exit_status);
    json_u64(j, "plain_runs", r->plain_runs);
    member_count(j, "samples", r->samples);
    member_count(j, "samples_lost", r->samples_lost);
    json_str(j, "sampler", r->sampler);
    json_str(j, "launch_mode", r->launch_mode);
    json_u64(j, "processes", r->processes);
    json_u64(j, "threads", r->threads);
}

static void put_time(struct json *j, const struct prof_result *r)
{
    json_object(j, "time");
    member_interval(j, "predicted_user", "_s", &r->predicted_user_s);
    member_interval(j, "branch_user", "_s", &r->branch_user_s);
    json_real(j, "simulated_user_s", r->simulated_user_s);
    json_real(j, "replayed_share", r->replayed_share);
    member_interval(j, "actual_user", "_s", &r->actual_user_s);
    member_interval(j, "actual_system", "_s", &r->actual_system_s);
    json_real(j, "counting_user_s", r->counting_user_s);
    json_real(j, "windows_system_s", r->windows_system_s);
    json_real(j, "probed_user_s", r->probed_user_s);
    json_real(j, "probed_system_s", r->probed_system_s);
    member_interval(j, "overhead", "", &r->overhead);
    json_object_end(j);
}

static void put_coverage(struct json *j, const struct prof_result *r)
{
    struct prof_witnesses witnesses = prof_witnesses_of(r);
    json_object(j, "coverage");
    member_count(j, "functions", r->coverage.functions);
    member_count(j, "functions_rewritten", r->coverage.functions_rewritten);
    member_count(j, "instructions_counted", r->coverage.instructions_counted);
    json_real(j, "instructions_counted_share", r->coverage.instructions_counted_share);
    member_count(j, "memory_ops", r->coverage.memory_ops);
    json_real(j, "memory_ops_measured", r->coverage.memory_ops_measured);
    json_real(j, "memory_ops_probed", r->coverage.memory_ops_probed);
    member_interval(j, "unexplained_overhead", "", &r->coverage.unexplained_overhead);
    json_u64(j, "witnesses_known", witnesses.known);
    json_u64(j, "witnesses_agree", witnesses.agree);
    json_object_end(j);
}

static void put_object_place(struct json *j, const struct prof_object *o, struct arena *a)
{
    json_u64(j, "id", o->id);
    json_str(j, "kind", prof_kind_name[o->kind]);
    json_str(j, "module", o->module);
    member_function(j, o->function, a);
    json_hex(j, "address", o->address);
    json_str(j, "file", o->file);
    member_line(j, "line_first", o->line_first);
    member_line(j, "line_last", o->line_last);
    member_id(j, "parent", o->parent);
    json_u64(j, "depth", o->depth);
}

static void put_object_counts(struct json *j, const struct prof_object *o)
{
    member_count(j, "entries", o->entries);
    member_count(j, "iterations", o->iterations);
    member_count(j, "instructions", o->instructions);
    member_count(j, "memory_ops", o->memory_ops);
    member_count(j, "instructions_incl", o->instructions_incl);
    member_count(j, "memory_ops_incl", o->memory_ops_incl);
    json_real(j, "memory_ops_share", o->memory_share);
    member_count(j, "samples", o->samples);
}

static void put_object_times(struct json *j, const struct prof_object *o)
{
    member_interval(j, "ideal", "_s", &o->ideal_s);
    json_str(j, "ideal_method", o->ideal_method);
    json_real(j, "simulated_s", o->simulated_s);
    json_real(j, "replayed_share", o->replayed_share);
    member_interval(j, "actual", "_s", &o->actual_s);
    json_str(j, "actual_method", o->actual_method);
    json_real(j, "branch_s", o->branch_s);
    json_real(j, "tlb_s", o->tlb_s);
    member_interval(j, "without", "_s", &o->without_s);
    member_interval(j, "memory", "_s", &o->memory_s);
    json_real(j, "overhead", overhead_of(o));
    member_interval(j, "ideal_incl", "_s", &o->ideal_incl_s);
    member_interval(j, "actual_incl", "_s", &o->actual_incl_s);
    member_interval(j, "memory_incl", "_s", &o->memory_incl_s);
    json_real(j, "extra_cycles_per_memory_op", o->extra_cycles_per_memory_op);
    json_str(j, "bound_by", o->bound_by);
    json_bool(j, "significant", o->is_significant);
    json_bool(j, "waits", o->is_wait);
}

static void put_objects(struct json *j, const struct prof_result *r, struct arena *a)
{
    json_array(j, "objects");
    for (size_t i = 0; i < r->object_count; i++) {
        json_object(j, NULL);
        put_object_place(j, &r->objects[i], a);
        put_object_counts(j, &r->objects[i]);
        put_object_times(j, &r->objects[i]);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_modules(struct json *j, const struct prof_result *r)
{
    json_array(j, "modules");
    for (size_t i = 0; i < r->module_count; i++) {
        const struct prof_module *m = &r->modules[i];
        json_object(j, NULL);
        json_str(j, "path", m->path);
        json_str(j, "build_id", m->build_id);
        json_bool(j, "counted", m->is_counted);
        member_count(j, "functions", m->functions);
        member_count(j, "functions_rewritten", m->functions_rewritten);
        member_count(j, "instructions", m->instructions);
        member_count(j, "memory_ops", m->memory_ops);
        json_real(j, "time_share", m->time_share);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_processes(struct json *j, const struct prof_result *r)
{
    json_array(j, "process");
    for (size_t i = 0; i < r->process_count; i++) {
        const struct prof_process *p = &r->process[i];
        json_object(j, NULL);
        json_u64(j, "pid", p->pid);
        json_u64(j, "parent", p->parent);
        json_str(j, "command", p->command);
        json_bool(j, "fork", p->is_fork);
        member_id(j, "exit", p->exit_status);
        member_count(j, "instructions", p->instructions);
        json_str(j, "refused", p->refused);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_lines(struct json *j, const struct prof_result *r)
{
    json_array(j, "lines");
    for (size_t i = 0; i < r->line_count; i++) {
        const struct prof_line *l = &r->lines[i];
        json_object(j, NULL);
        json_str(j, "file", l->file);
        member_line(j, "line", l->line);
        member_count(j, "instructions", l->instructions);
        member_count(j, "memory_ops", l->memory_ops);
        member_count(j, "samples", l->samples);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_refused(struct json *j, const struct prof_result *r, struct arena *a)
{
    json_array(j, "refused");
    for (size_t i = 0; i < r->refused_count; i++) {
        const struct prof_refused *f = &r->refused[i];
        json_object(j, NULL);
        json_str(j, "module", f->module);
        member_function(j, f->function, a);
        json_hex(j, "address", f->address);
        json_str(j, "reason", f->reason);
        json_real(j, "time_share", f->time_share);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_phases(struct json *j, const struct prof_result *r)
{
    json_array(j, "phases");
    for (size_t i = 0; i < r->phase_count; i++) {
        json_object(j, NULL);
        json_str(j, "name", r->phases[i].name);
        json_real(j, "wall_s", r->phases[i].wall_s);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_warnings(struct json *j, const struct prof_result *r)
{
    json_array(j, "warnings");
    for (size_t i = 0; i < r->warning_count; i++) {
        json_object(j, NULL);
        json_str(j, "id", r->warnings[i].id);
        json_str(j, "text", r->warnings[i].text);
        json_object_end(j);
    }
    json_array_end(j);
}

/* Those of dump objects --json that were probed. */
static void put_probed(struct json *j, const struct prof_result *r, struct arena *a)
{
    json_array(j, "probes");
    for (size_t i = 0; i < r->candidate_count; i++)
        if (isfinite(r->candidates[i].probed_s.value))
            member_candidate(j, &r->candidates[i], a);
    json_array_end(j);
}

void report_json(const struct prof_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", PROF_SCHEMA);
    json_str(&j, "program", r->program);
    put_command(&j, r);
    put_run(&j, r);
    put_machine(&j, r);
    put_time(&j, r);
    put_coverage(&j, r);
    put_objects(&j, r, a);
    put_probed(&j, r, a);
    put_modules(&j, r);
    put_processes(&j, r);
    shares_put_json(&j, r, a);
    put_lines(&j, r);
    put_refused(&j, r, a);
    put_phases(&j, r);
    put_warnings(&j, r);
    json_object_end(&j);
    arena_free(a);
}

/* ---- counts ---- */

static void put_blocks(struct json *j, const struct prof_result *r, struct arena *a)
{
    const char *function = NULL, *plain = NULL; /* of the block before: a function's blocks follow each other */
    json_array(j, "blocks");
    for (size_t i = 0; i < r->block_count; i++) {
        const struct prof_block_row *b = &r->blocks[i];
        if (b->function && (!function || strcmp(function, b->function) != 0))
            plain = name_plain(a, function = b->function);
        json_object(j, NULL);
        json_str(j, "module", r->modules[b->module].path);
        json_hex(j, "address", b->address);
        json_u64(j, "size_bytes", b->size_bytes);
        json_u64(j, "instructions", b->instructions);
        json_u64(j, "memory_ops", b->memory_ops);
        json_str(j, "function", b->function);
        json_str(j, "function_plain", b->function ? plain : NULL);
        json_str(j, "file", b->file);
        member_line(j, "line", b->line);
        member_count(j, "count", b->count);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_edges(struct json *j, const struct prof_result *r)
{
    json_array(j, "edges");
    for (size_t i = 0; i < r->edge_count; i++) {
        const struct prof_edge_row *e = &r->edges[i];
        json_object(j, NULL);
        json_str(j, "module", r->modules[e->module].path);
        json_hex(j, "from", e->from);
        json_hex(j, "to", e->to);
        member_count(j, "count", e->count);
        json_object_end(j);
    }
    json_array_end(j);
}

void report_counts_json(const struct prof_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    struct json j;
    json_init(&j, out, false); /* a million blocks: no blanks */
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-count-1");
    put_command(&j, r);
    json_i64(&j, "exit", r->exit_status);
    json_u64(&j, "threads", r->threads);
    member_count(&j, "instructions", r->coverage.instructions_counted);
    put_processes(&j, r);
    put_blocks(&j, r, a);
    put_edges(&j, r);
    put_refused(&j, r, a);
    json_object_end(&j);
    arena_free(a);
}
