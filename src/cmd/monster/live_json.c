/* SPDX-License-Identifier: Apache-2.0
 * What mtool monster live has seen, as JSON: the schema of mtool monster report, null where a running kernel cannot be
 * seen into, and what only it has beside that. */
#include <math.h>
#include <sys/utsname.h>

#include "cmd/monster/live_form.h"

static void put_count(struct json *j, const char *key, uint64_t n)
{
    if (n == UINT64_MAX)
        json_null(j, key);
    else
        json_u64(j, key, n);
}

static const struct live_counter *counter_of(const struct live_result *r, const char *name, const char *mode)
{
    for (size_t i = 0; i < r->counter_count; i++)
        if (!strcmp(r->counters[i].name, name) && !strcmp(r->counters[i].mode, mode))
            return &r->counters[i];
    return NULL;
}

static double count_of(const struct live_result *r, const char *name, const char *mode)
{
    const struct live_counter *c = counter_of(r, name, mode);
    return c ? c->count : NAN;
}

static void put_modes(struct json *j, const struct live_result *r, const char *name)
{
    json_object(j, name);
    json_real(j, "user", count_of(r, name, "user"));
    json_real(j, "kernel", count_of(r, name, "kernel"));
    if (!strcmp(name, "cycles"))
        json_null(j, "idle");
    json_object_end(j);
}

static void put_figure(struct json *j, const char *key, const struct live_figure *f)
{
    json_object(j, key);
    json_real(j, "seconds", f->s);
    json_real(j, "plus_minus", isnan(f->s) ? NAN : f->off_s);
    json_str(j, "by", f->how == LIVE_NOT_KNOWN ? NULL : live_how_text[f->how]);
    json_object_end(j);
}

static void put_time(struct json *j, const struct live_result *r)
{
    json_object(j, "time");
    json_real(j, "wall_s", r->wall_s);
    json_real(j, "cpu_s", r->cpu_s);
    json_real(j, "kernel_s", r->kernel_s);
    json_real(j, "account_user_s", r->account_user_s);
    json_real(j, "account_kernel_s", r->account_system_s);
    json_real(j, "unseen_s", r->unseen_s);
    for (int p = 0; p < LIVE_PARTS; p++)
        put_figure(j, live_part_key[p], &r->parts[p]);
    json_object_end(j);
}

/* What only an emulator can count. */
static void put_uncounted(struct json *j)
{
    json_null(j, "instructions");
    json_null(j, "cycles");
    json_null(j, "stalls");
}

static void put_region(struct json *j, const char *name, const char *mode, uint64_t samples,
                       const struct live_figure *time)
{
    json_object(j, NULL);
    json_str(j, "name", name);
    json_str(j, "mode", mode);
    put_uncounted(j);
    json_u64(j, "samples", samples);
    put_figure(j, "time", time);
    json_object_end(j);
}

static void put_regions(struct json *j, const struct live_result *r)
{
    json_array(j, "regions");
    put_region(j, "user", "user", r->samples_user, &r->parts[LIVE_PART_USER]);
    for (size_t i = 0; i < r->region_count; i++)
        put_region(j, r->regions[i].name, "kernel", r->regions[i].samples, &r->regions[i].time);
    json_array_end(j);
}

static void put_functions(struct json *j, const struct live_result *r)
{
    json_array(j, "functions");
    for (size_t i = 0; i < r->function_count; i++) {
        json_object(j, NULL);
        json_str(j, "function", r->functions[i].name);
        json_null(j, "module");
        json_str(j, "mode", "kernel");
        json_str(j, "region", r->functions[i].region);
        put_uncounted(j);
        json_u64(j, "samples", r->functions[i].samples);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_calls(struct json *j, const struct live_result *r)
{
    if (!r->has_events) {
        json_null(j, "system_calls");
        json_null(j, "interrupts");
        return;
    }
    json_array(j, "system_calls");
    for (size_t i = 0; i < r->call_count; i++) {
        const struct live_call *c = &r->calls[i];
        json_object(j, NULL);
        json_u64(j, "number", c->number);
        json_str(j, "name", c->name);
        json_u64(j, "count", c->count);
        json_u64(j, "errors", c->errors);
        json_real(j, "own_s", c->own_s);
        json_real(j, "off_cpu_s", c->waited_s);
        json_object_end(j);
    }
    json_array_end(j);
    json_array(j, "interrupts");
    for (size_t i = 0; i < r->vector_count; i++) {
        json_object(j, NULL);
        json_str(j, "name", r->vectors[i].name);
        json_u64(j, "count", r->vectors[i].count);
        json_real(j, "seconds", r->vectors[i].s);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_processes(struct json *j, const struct live_result *r)
{
    json_array(j, "processes");
    for (size_t i = 0; i < r->process_count; i++) {
        const struct live_process *p = &r->processes[i];
        uint64_t none = r->has_events ? 0 : UINT64_MAX;
        json_object(j, NULL);
        json_u64(j, "pid", p->pid);
        json_str(j, "name", p->name);
        json_u64(j, "threads", p->threads);
        json_bool(j, "is_kernel", p->is_kernel);
        json_real(j, "cpu_s", p->cpu_s);
        json_real(j, "no_processor_s", p->ready_s);
        json_object(j, "user");
        put_uncounted(j);
        json_real(j, "seconds", p->user_s);
        json_object_end(j);
        json_object(j, "kernel");
        put_uncounted(j);
        json_real(j, "seconds", p->call_s + p->kernel_s + p->interrupt_s);
        json_real(j, "system_calls_s", p->call_s);
        json_real(j, "interrupts_s", p->interrupt_s);
        json_object_end(j);
        put_count(j, "system_calls", p->calls | none);
        put_count(j, "page_faults_user", p->faults_user | none);
        put_count(j, "page_faults_kernel", p->faults_kernel | none);
        json_u64(j, "switches", p->switches);
        json_u64(j, "preemptions", p->preemptions);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_counters(struct json *j, const struct live_result *r)
{
    json_array(j, "pmu");
    for (size_t i = 0; i < r->counter_count; i++) {
        const struct live_counter *c = &r->counters[i];
        json_object(j, NULL);
        json_str(j, "name", c->name);
        json_str(j, "mode", c->mode);
        json_real(j, "count", c->count);
        json_real(j, "part", isnan(c->count) ? NAN : c->part);
        json_str(j, "why", c->why);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_events(struct json *j, const struct live_result *r)
{
    json_object(j, "page_faults");
    put_count(j, "user", r->faults_user);
    put_count(j, "kernel", r->faults_kernel);
    put_count(j, "minor", r->faults_minor);
    put_count(j, "major", r->faults_major);
    json_object_end(j);
    json_object(j, "switches");
    put_count(j, "all", r->switches);
    put_count(j, "preemptions", r->preemptions);
    json_object_end(j);
    json_object(j, "sampling");
    json_real(j, "hz", r->has_samples ? r->samples_hz : NAN);
    json_real(j, "us_a_sample", r->has_samples ? 1e6 * r->sample_s : NAN);
    json_u64(j, "samples", r->samples);
    json_u64(j, "lost", r->samples_lost);
    json_bool(j, "kernel", r->has_kernel_samples);
    json_object_end(j);
    json_u64(j, "events_lost", r->events_lost);
    json_object(j, "watching");
    json_real(j, "seconds", r->probes_s);
    json_real(j, "ns_in_call", r->probe_bias_ns);
    json_real(j, "ns_outside", r->probe_ns);
    json_object_end(j);
}

static void put_machine(struct json *j, const struct live_result *r)
{
    if (!r->has_program) {
        json_null(j, "counters");
        json_null(j, "trace_events");
        return;
    }
    json_array(j, "counters");
    for (size_t i = 0; i < r->mark_count; i++) {
        json_object(j, NULL);
        json_str(j, "name", r->marks[i].name);
        json_u64(j, "count", r->marks[i].count);
        json_real(j, "seconds", r->marks[i].elapsed_s);
        json_real(j, "own_s", r->marks[i].own_s);
        json_object_end(j);
    }
    json_array_end(j);
    json_array(j, "trace_events");
    for (size_t i = 0; i < r->trace_count; i++) {
        json_object(j, NULL);
        json_real(j, "seconds", r->trace[i].time_s);
        json_u64(j, "pid", r->trace[i].pid);
        json_u64(j, "tid", r->trace[i].tid);
        json_str(j, "pattern", r->trace[i].pattern);
        json_str(j, "state", r->trace[i].state);
        json_object_end(j);
    }
    json_array_end(j);
    json_u64(j, "trace_lost", r->trace_lost);
}

static void put_sources(struct json *j, const struct live_result *r)
{
    json_array(j, "sources");
    for (int i = 0; i < LIVE_SOURCES; i++) {
        json_object(j, NULL);
        json_str(j, "name", live_source_rows[i].name);
        json_bool(j, "used", r->sources[i].is_used);
        json_str(j, "found", r->sources[i].found);
        json_str(j, "tells", live_source_rows[i].tells);
        json_str(j, "cannot_see", live_source_rows[i].cannot_see);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_head(struct json *j, const struct live_result *r, const char *what)
{
    static const char *const scopes[] = {
        [LIVE_COMMAND] = "command", [LIVE_PROCESS] = "process", [LIVE_SYSTEM] = "system"};
    struct utsname u;
    double idle_s = r->parts[LIVE_PART_IDLE].s;
    json_str(j, "schema", "mtool-monster-1");
    json_str(j, "backend", "live");
    json_str(j, "command", what);
    json_str(j, "scope", scopes[r->scope]);
    json_str(j, "mtool_version", MTOOL_VERSION);
    json_str(j, "kernel", uname(&u) == 0 ? u.release : NULL);
    json_null(j, "model");
    json_null(j, "caches");
    json_u64(j, "processors", r->processors);
    json_real(j, "clock_ns", 1e9 * r->wall_s);
    json_real(j, "idle_ns", 1e9 * idle_s);
}

void live_put_json(struct strbuf *out, const struct live_result *r, const char *what)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    put_head(&j, r, what);
    put_modes(&j, r, "instructions");
    put_modes(&j, r, "cycles");
    put_time(&j, r);
    put_regions(&j, r);
    json_null(&j, "mix");
    json_null(&j, "maps");
    put_processes(&j, r);
    put_functions(&j, r);
    put_calls(&j, r);
    put_events(&j, r);
    put_counters(&j, r);
    put_machine(&j, r);
    put_sources(&j, r);
    json_object_end(&j);
    str_puts(out, "\n");
}
