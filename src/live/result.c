/* SPDX-License-Identifier: Apache-2.0
 * What a session has seen into its result: parts of processor time by the most exact source of each, calls and
 * interrupts, processes, regions. No figure is made up: what no source told is NAN. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "live/impl.h"

const char *const live_part_key[LIVE_PARTS] = {
#define PART(id, key, text) key,
#include "live/parts.def"
#undef PART
};
const char *const live_part_text[LIVE_PARTS] = {
#define PART(id, key, text) text,
#include "live/parts.def"
#undef PART
};
const char *const live_how_text[] = {
    [LIVE_NOT_KNOWN] = "not known",
    [LIVE_EVENTS] = "events",
    [LIVE_EVENTS_AND_SAMPLES] = "events, parted by samples",
    [LIVE_SAMPLED] = "samples",
    [LIVE_TICKS] = "the kernel's ticks",
};

static double s_of(uint64_t ns) { return 1e-9 * (double)ns; }
static double or_zero(double s) { return s > 0 ? s : 0; }

/* Half of the 95 % interval of a share of n samples, as a share. */
static double share_error(double share, double n)
{
    return n > 0 ? NORMAL_T * sqrt(share * (1 - share) / n + 0.25 / (n * n)) : 1;
}

/* ---- parts ---- */

struct totals {
    double user_s, call_s, kernel_s, idle_s, interrupt_s, run_s; /* user_s: outside of calls, with page faults */
    uint64_t calls;
};

static struct totals totals_of(const struct live_found *f)
{
    struct totals t = {0};
    for (size_t i = 0; i < f->sums->tasks.len; i++) {
        const struct live_task *k = &f->sums->tasks.data[i];
        t.user_s += s_of(k->user_ns + k->pending_ns);
        t.call_s += s_of(k->call_ns);
        t.kernel_s += s_of(k->kernel_ns);
        t.idle_s += s_of(k->idle_ns);
        t.interrupt_s += s_of(k->interrupt_ns);
        t.calls += k->calls;
    }
    t.run_s = t.user_s + t.call_s + t.kernel_s + t.interrupt_s;
    return t;
}

static struct live_figure exact(double s) { return (struct live_figure){s, 0, LIVE_EVENTS}; }

/* What tracepoints cost is in what they time, partly within the call, partly outside. */
static void correct(const struct live_found *f, struct totals *t, struct live_result *r)
{
    const struct live_cost *c = &f->cost;
    r->probe_ns = r->probe_bias_ns = r->probes_s = NAN;
    if (!c->is_known)
        return;
    r->probe_bias_ns = c->timed - c->plain;
    r->probe_ns = c->watched - c->timed;
    r->probes_s = 1e-9 * (double)t->calls * (c->watched - c->plain);
    t->call_s = or_zero(t->call_s - 1e-9 * (double)t->calls * r->probe_bias_ns);
    t->user_s = or_zero(t->user_s - 1e-9 * (double)t->calls * r->probe_ns);
}

static void part_by_events(const struct live_found *f, const struct totals *t, struct live_result *r)
{
    const struct live_sampled *s = f->samples;
    r->parts[LIVE_PART_USER] = exact(t->user_s);
    r->parts[LIVE_PART_CALL] = exact(t->call_s);
    r->parts[LIVE_PART_INTERRUPT] = exact(t->interrupt_s);
    r->parts[LIVE_PART_KERNEL] = exact(t->kernel_s);
    double users = s ? (double)s->parts[LIVE_PART_USER] : 0, faults = s ? (double)s->parts[LIVE_PART_FAULT] : 0;
    if (!s || s->is_user_only || !f->symbols || users + faults == 0)
        return;
    double share = faults / (users + faults), off = t->user_s * share_error(share, users + faults);
    r->parts[LIVE_PART_FAULT] = (struct live_figure){t->user_s * share, off, LIVE_EVENTS_AND_SAMPLES};
    r->parts[LIVE_PART_USER] = (struct live_figure){t->user_s * (1 - share), off, LIVE_EVENTS_AND_SAMPLES};
}

/* Samples share out what somebody else measured; who else does not, that they are. */
static void part_by_samples(const struct live_found *f, double cpu_s, struct live_result *r)
{
    const struct live_sampled *s = f->samples;
    double n = (double)(s->all - s->parts[LIVE_PART_IDLE]);
    if (s->is_user_only) {
        double user_s = (double)s->all * s->period_s;
        r->parts[LIVE_PART_USER] =
            (struct live_figure){user_s, NORMAL_T * sqrt((double)s->all) * s->period_s, LIVE_SAMPLED};
        r->kernel_s = or_zero(cpu_s - user_s);
        return;
    }
    for (int p = 0; p < LIVE_PARTS && n > 0; p++) {
        double share = (double)s->parts[p] / n;
        bool is_told = f->symbols || p == LIVE_PART_USER;
        if (is_told && p != LIVE_PART_IDLE)
            r->parts[p] = (struct live_figure){cpu_s * share, cpu_s * share_error(share, n), LIVE_SAMPLED};
    }
    if (n > 0)
        r->kernel_s = cpu_s * (1 - (double)s->parts[LIVE_PART_USER] / n);
}

static void part_by_ticks(const struct live_found *f, struct live_result *r)
{
    r->parts[LIVE_PART_USER] = (struct live_figure){f->accounts.user_s, 0, LIVE_TICKS};
    r->kernel_s = f->accounts.system_s;
}

static double sampled_cpu(const struct live_sampled *s)
{
    return s->is_user_only ? NAN : (double)(s->all - s->parts[LIVE_PART_IDLE]) * s->period_s;
}

static struct live_figure idle_of(const struct live_found *f, const struct totals *t)
{
    const struct live_sampled *s = f->samples;
    if (f->scope == LIVE_SYSTEM) {
        if (f->has_turns)
            return exact(t->idle_s);
        if (s && !s->is_user_only && f->symbols && s->all)
            return (struct live_figure){(double)s->parts[LIVE_PART_IDLE] * s->period_s,
                                        NORMAL_T * sqrt((double)s->parts[LIVE_PART_IDLE]) * s->period_s, LIVE_SAMPLED};
        return (struct live_figure){f->accounts.idle_s, 0, isnan(f->accounts.idle_s) ? LIVE_NOT_KNOWN : LIVE_TICKS};
    }
    return f->has_turns ? exact(s_of(f->sums->idle_ns)) : (struct live_figure){NAN, 0, LIVE_NOT_KNOWN};
}

static void fill_parts(const struct live_found *f, struct live_result *r)
{
    struct totals t = totals_of(f);
    for (int p = 0; p < LIVE_PARTS; p++)
        r->parts[p] = (struct live_figure){NAN, 0, LIVE_NOT_KNOWN};
    r->kernel_s = r->cpu_s = r->probe_ns = r->probe_bias_ns = r->probes_s = NAN;
    double seen_s = t.run_s + t.idle_s;
    if (f->has_events)
        correct(f, &t, r);
    double ticks_s = f->accounts.user_s + f->accounts.system_s;
    r->cpu_s = f->has_events                                 ? t.user_s + t.call_s + t.kernel_s + t.interrupt_s
               : f->has_turns                                ? t.run_s
               : !isnan(ticks_s) && f->scope == LIVE_COMMAND ? ticks_s
               : f->samples && !f->samples->is_user_only     ? sampled_cpu(f->samples)
                                                             : ticks_s;
    if (f->has_events)
        part_by_events(f, &t, r);
    else if (f->samples && f->samples->all)
        part_by_samples(f, r->cpu_s, r);
    else
        part_by_ticks(f, r);
    r->parts[LIVE_PART_IDLE] = idle_of(f, &t);
    r->unseen_s = f->has_turns && f->scope == LIVE_SYSTEM ? or_zero(f->wall_s * r->processors - seen_s) : NAN;
    if (f->has_events)
        r->kernel_s = r->cpu_s - r->parts[LIVE_PART_USER].s;
}

/* ---- rows ---- */

static int by_time(double a, double b, uint64_t x, uint64_t y)
{
    if (a > b || a < b)
        return a > b ? -1 : 1;
    return (x < y) - (x > y);
}

static int calls_by_time(const void *a, const void *b)
{
    const struct live_call *x = a, *y = b;
    return by_time(x->own_s, y->own_s, x->count, y->count);
}

static void fill_calls(const struct live_found *f, struct live_result *r)
{
    double bias_ns = isnan(r->probe_bias_ns) ? 0 : r->probe_bias_ns;
    r->calls = ARENA_ARRAY(r->arena, struct live_call, LIVE_CALLS);
    for (uint32_t i = 0; i < LIVE_CALLS; i++) {
        const struct live_call_sum *c = &f->sums->table.calls[i];
        if (c->count)
            r->calls[r->call_count++] =
                (struct live_call){i,
                                   live_call_name(i),
                                   c->count,
                                   c->errors,
                                   or_zero(1e-9 * ((double)c->own_ns - (double)c->count * bias_ns)),
                                   s_of(c->waited_ns)};
    }
    qsort(r->calls, r->call_count, sizeof *r->calls, calls_by_time);
}

static int vectors_by_time(const void *a, const void *b)
{
    const struct live_vector *x = a, *y = b;
    return by_time(x->s, y->s, x->count, y->count);
}

static void fill_vectors(const struct live_found *f, struct live_result *r)
{
    r->vectors = ARENA_ARRAY(r->arena, struct live_vector, LIVE_VECTORS);
    for (uint32_t i = 0; i < LIVE_VECTORS; i++)
        if (f->sums->table.vectors[i].count)
            r->vectors[r->vector_count++] = (struct live_vector){
                live_vector_name(r->arena, i), f->sums->table.vectors[i].count, s_of(f->sums->table.vectors[i].ns)};
    qsort(r->vectors, r->vector_count, sizeof *r->vectors, vectors_by_time);
}

static int processes_by_time(const void *a, const void *b)
{
    const struct live_process *x = a, *y = b;
    return by_time(x->cpu_s, y->cpu_s, y->pid, x->pid);
}

static void add_task(const struct live_task *k, struct live_process *p, struct live_result *r)
{
    double probe_s = isnan(r->probe_ns) ? 0 : 1e-9 * r->probe_ns * k->calls,
           bias_s = isnan(r->probe_bias_ns) ? 0 : 1e-9 * r->probe_bias_ns * k->calls;
    if (!p->name || k->tid == k->tgid)
        p->name = arena_strndup(r->arena, k->comm, strnlen(k->comm, sizeof k->comm));
    p->threads++;
    p->is_kernel |= k->context == LIVE_KERNEL;
    p->user_s += or_zero(s_of(k->user_ns + k->pending_ns) - probe_s);
    p->call_s += or_zero(s_of(k->call_ns) - bias_s);
    p->kernel_s += s_of(k->kernel_ns);
    p->interrupt_s += s_of(k->interrupt_ns);
    p->ready_s += s_of(k->ready_ns);
    p->calls += k->calls;
    p->faults_user += k->faults_user;
    p->faults_kernel += k->faults_kernel;
    p->switches += k->switches;
    p->preemptions += k->preemptions;
}

static void fill_processes(const struct live_found *f, struct live_result *r)
{
    struct map by_pid = {0};
    r->processes = ARENA_ARRAY(r->arena, struct live_process, f->sums->tasks.len + 1);
    r->switches = r->preemptions = 0;
    for (size_t i = 0; i < f->sums->tasks.len; i++) {
        const struct live_task *k = &f->sums->tasks.data[i];
        r->switches += k->context == LIVE_IDLE ? 0 : k->switches;
        r->preemptions += k->context == LIVE_IDLE ? 0 : k->preemptions;
        if (k->context == LIVE_IDLE)
            continue;
        uint64_t *at = map_place(&by_pid, k->tgid ? k->tgid : k->tid);
        if (!*at) {
            r->processes[r->process_count].pid = k->tgid ? k->tgid : k->tid;
            *at = ++r->process_count;
        }
        add_task(k, &r->processes[*at - 1], r);
    }
    for (size_t i = 0; i < r->process_count; i++) {
        struct live_process *p = &r->processes[i];
        p->cpu_s = p->user_s + p->call_s + p->kernel_s + p->interrupt_s;
        if (!f->has_events)
            p->user_s = p->call_s = p->kernel_s = p->interrupt_s = NAN;
    }
    map_fini(&by_pid);
    qsort(r->processes, r->process_count, sizeof *r->processes, processes_by_time);
}

static int functions_by_samples(const void *a, const void *b)
{
    const struct live_function *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples < y->samples ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Idle time is a region of its own, as in the paper: shares of all others are those of the kernel's time without it.
 * So is what tracepoints cost, which the kernel's time is without too. */
static void fill_regions(const struct live_found *f, struct live_result *r)
{
    const struct live_sampled *s = f->samples;
    uint64_t counts[LIVE_REGIONS] = {0}, busy = s->unnamed;
    r->functions = ARENA_ARRAY(r->arena, struct live_function, s->functions.len + 1);
    for (size_t i = 0; i < s->functions.cap; i++) {
        if (!s->functions.used[i])
            continue;
        const char *name = live_symbols_name(f->symbols, (uint32_t)s->functions.keys[i]);
        enum live_region_id region = live_region_of(name);
        counts[region] += s->functions.vals[i];
        busy += region == LIVE_REGION_IDLE || region == LIVE_REGION_WATCHING ? 0 : s->functions.vals[i];
        r->functions[r->function_count++] =
            (struct live_function){arena_strdup(r->arena, name), live_region_name[region], s->functions.vals[i]};
    }
    counts[LIVE_REGION_REST] += s->unnamed;
    qsort(r->functions, r->function_count, sizeof *r->functions, functions_by_samples);
    r->regions = ARENA_ARRAY(r->arena, struct live_region, LIVE_REGIONS);
    for (int i = 0; i < LIVE_REGIONS; i++) {
        double share = busy ? (double)counts[i] / (double)busy : 0;
        struct live_figure t = {r->kernel_s * share, r->kernel_s * share_error(share, (double)busy), LIVE_SAMPLED};
        if (i == LIVE_REGION_IDLE)
            t = r->parts[LIVE_PART_IDLE];
        if (i == LIVE_REGION_WATCHING)
            t = (struct live_figure){NAN, 0, LIVE_NOT_KNOWN};
        if ((i == LIVE_REGION_IDLE && f->scope != LIVE_SYSTEM) || (i == LIVE_REGION_WATCHING && !counts[i]))
            continue;
        r->regions[r->region_count++] = (struct live_region){live_region_name[i], live_region_label[i], counts[i], t};
    }
}

static void fill_faults(const struct live_found *f, struct live_result *r)
{
    r->faults_minor = f->accounts.faults_minor;
    r->faults_major = f->accounts.faults_major;
    r->faults_user = r->faults_kernel = UINT64_MAX;
    if (!f->has_events)
        return;
    r->faults_user = r->faults_kernel = 0;
    for (size_t i = 0; i < f->sums->tasks.len; i++) {
        r->faults_user += f->sums->tasks.data[i].faults_user;
        r->faults_kernel += f->sums->tasks.data[i].faults_kernel;
    }
}

static int entries_by_time(const void *a, const void *b)
{
    const struct live_entry *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static void fill_machine(const struct live_found *f, struct live_result *r)
{
    const struct live_program *p = f->program;
    struct live_sums *s = f->sums;
    r->has_program = true;
    r->marks = ARENA_ARRAY(r->arena, struct live_mark_row, LIVE_MARKS);
    for (size_t i = 0; i < p->counters.count; i++)
        r->marks[r->mark_count++] =
            (struct live_mark_row){arena_strdup(r->arena, p->counters.name[i]), s->table.marks[i].count, NAN, NAN};
    for (size_t i = 0; i < p->timers.count; i++) {
        const struct live_mark *m = &s->table.marks[LIVE_COUNTERS + i];
        r->marks[r->mark_count++] = (struct live_mark_row){arena_strdup(r->arena, p->timers.name[i]), m->count,
                                                           s_of(m->elapsed_ns), s_of(m->own_ns)};
    }
    if (s->entries.len)
        qsort(s->entries.data, s->entries.len, sizeof *s->entries.data, entries_by_time);
    const char *patterns[LIVE_PATTERNS] = {NULL}, *states[LIVE_STATES] = {NULL};
    for (size_t i = 0; i < p->patterns.count; i++)
        patterns[i] = arena_strdup(r->arena, p->patterns.name[i]);
    for (size_t i = 0; i < p->states.count; i++)
        states[i] = arena_strdup(r->arena, p->states.name[i]);
    r->trace = ARENA_ARRAY(r->arena, struct live_trace_row, s->entries.len);
    for (size_t i = 0; i < s->entries.len; i++) {
        const struct live_entry *e = &s->entries.data[i];
        r->trace[r->trace_count++] =
            (struct live_trace_row){s_of(e->time_ns - min_u64(s->begun_ns, e->time_ns)), e->tgid, e->tid,
                                    patterns[e->pattern % LIVE_PATTERNS], states[e->state % LIVE_STATES]};
    }
    r->trace_lost = s->entries_lost;
}

void live_result_fill(const struct live_found *f, struct live_result *r)
{
    r->scope = f->scope;
    r->wall_s = f->wall_s;
    r->processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    r->has_events = f->has_events;
    r->has_samples = f->samples != NULL;
    r->has_kernel_samples = f->samples && !f->samples->is_user_only;
    r->account_user_s = f->accounts.user_s;
    r->account_system_s = f->accounts.system_s;
    r->switches = f->accounts.switches;
    r->preemptions = f->accounts.preemptions;
    fill_parts(f, r);
    fill_faults(f, r);
    if (f->has_turns)
        fill_processes(f, r);
    if (f->has_events) {
        fill_calls(f, r);
        fill_vectors(f, r);
        if (f->program)
            fill_machine(f, r);
    }
    r->events_lost = f->sums->lost;
    if (!f->samples)
        return;
    r->samples = f->samples->all;
    r->samples_user = f->samples->parts[LIVE_PART_USER];
    r->samples_lost = f->samples->lost;
    r->samples_hz = 1 / f->samples->period_s;
    r->sample_s = f->samples->sample_s;
    if (f->symbols && r->has_kernel_samples)
        fill_regions(f, r);
}

void live_result_free(struct live_result *r)
{
    if (r)
        arena_free(r->arena);
}
