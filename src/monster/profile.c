/* SPDX-License-Identifier: Apache-2.0
 * The result of a guest with a described machine as a profile: functions of the kernel and of programs as procedures in
 * one list. Both times are the model's own, so their intervals are points: the ideal one is what the function takes if
 * it waits for floating point only, the actual one has all stalls. The idle loop is no procedure: with halts it is a
 * stall of its own. Idle seconds are the guest's clock. */
#include <math.h>
#include <stdlib.h>

#include "monster/impl.h"
#include "result/fields.h"

const char *const monster_stall_keys[WIRE_STALL_COUNT] = {
    "read_instruction", "read_data", "uncached", "write", "float", "tlb"};
static const char idle_key[] = "idle";

struct maker {
    const struct monster_result *from;
    struct prof_result *to;
    double second; /* cycles; NAN: the description has no clock */
    VEC(struct prof_module) modules;
    VEC(struct prof_stall) stalls;
};

static struct prof_interval point(double x) { return (struct prof_interval){x, x, x}; }
static const char *keep(struct maker *m, const char *text) { return arena_strdup(m->to->arena, text); }
static uint64_t memory_ops(const uint64_t of[WIRE_COLUMN_COUNT]) { return of[WIRE_LOADS] + of[WIRE_STORES]; }

static double ideal_cycles(const struct maker *m, const uint64_t of[WIRE_COLUMN_COUNT])
{
    return monster_cycles(m->from, of) - (double)(monster_stalls(of) - of[WIRE_STALL_FLOAT]);
}

static bool is_idle(const struct monster_function *f) { return f->is_kernel && monster_region_of(f) == MONSTER_IDLE; }

/* ---- objects ---- */

static struct prof_object object_of(struct maker *m, const struct monster_function *f, double user_s)
{
    struct prof_object o;
    memset(&o, 0, sizeof o);
    prof_row_unknown(PROF_ROW_OBJECT, &o);
    double actual = monster_cycles(m->from, f->of), ideal = ideal_cycles(m, f->of);
    o.kind = PROF_PROCEDURE;
    o.module = *f->module ? keep(m, f->module) : NULL;
    o.function = keep(m, f->name);
    o.address = f->address;
    o.instructions = o.instructions_incl = f->of[WIRE_INSTRUCTIONS];
    o.memory_ops = o.memory_ops_incl = memory_ops(f->of);
    o.ideal_s = o.ideal_incl_s = point(ideal / m->second);
    o.actual_s = o.actual_incl_s = point(actual / m->second);
    o.memory_s = o.memory_incl_s = point((actual - ideal) / m->second);
    o.ideal_method = o.actual_method = "simulated";
    if (!f->is_kernel)
        o.without_s = point(user_s - o.memory_s.value);
    if (o.memory_ops)
        o.extra_cycles_per_memory_op = (actual - ideal) / (double)o.memory_ops;
    o.is_significant = o.memory_s.value > 0;
    return o;
}

static void add_stalls(struct maker *m, uint32_t object, bool is_kernel, const uint64_t of[WIRE_COLUMN_COUNT])
{
    for (unsigned i = 0; i < WIRE_STALL_COUNT; i++)
        if (of[WIRE_STALL_FETCH + i] || object == ID_NONE)
            VEC_PUSH(&m->stalls, ((struct prof_stall){object, monster_mode_name((enum monster_mode)is_kernel),
                                                      monster_stall_keys[i], of[WIRE_STALL_FETCH + i],
                                                      (double)of[WIRE_STALL_FETCH + i] / m->second}));
}

struct made { /* an object, and the function that it is of */
    const struct monster_function *function;
    struct prof_object object;
};

static int by_memory(const void *a, const void *b)
{
    const struct made *x = a, *y = b;
    double p = x->object.memory_s.value, q = y->object.memory_s.value;
    if (p < q || p > q)
        return p < q ? 1 : -1;
    return (x->function > y->function) - (x->function < y->function);
}

static void fill_objects(struct maker *m, double user_s)
{
    size_t n = 0;
    struct made *list = xmalloc((m->from->functions.len + 1) * sizeof *list);
    for (size_t i = 0; i < m->from->functions.len; i++) {
        const struct monster_function *f = &m->from->functions.data[i];
        if (!is_idle(f))
            list[n++] = (struct made){f, object_of(m, f, user_s)};
    }
    qsort(list, n, sizeof *list, by_memory);
    m->to->objects = ARENA_ARRAY(m->to->arena, struct prof_object, n + 1);
    m->to->object_count = n;
    for (uint32_t i = 0; i < n; i++) {
        list[i].object.id = i;
        list[i].object.memory_share = (double)list[i].object.memory_ops / (double)m->to->coverage.memory_ops;
        m->to->objects[i] = list[i].object;
        add_stalls(m, i, list[i].function->is_kernel, list[i].function->of);
    }
    free(list);
}

/* ---- modules and processes ---- */

static struct prof_module *module_of(struct maker *m, const char *path)
{
    for (size_t i = 0; i < m->modules.len; i++)
        if (!strcmp(m->modules.data[i].path, path))
            return &m->modules.data[i];
    struct prof_module fresh;
    memset(&fresh, 0, sizeof fresh);
    prof_row_unknown(PROF_ROW_MODULE, &fresh);
    fresh.path = keep(m, path);
    fresh.is_counted = true;
    fresh.instructions = fresh.memory_ops = 0;
    VEC_PUSH(&m->modules, fresh);
    return &m->modules.data[m->modules.len - 1];
}

static int by_instructions(const void *a, const void *b)
{
    const struct prof_module *x = a, *y = b;
    if (x->instructions != y->instructions)
        return x->instructions < y->instructions ? 1 : -1;
    return strcmp(x->path, y->path);
}

static void fill_modules(struct maker *m, double user_cycles)
{
    for (size_t i = 0; i < m->from->functions.len; i++) {
        const struct monster_function *f = &m->from->functions.data[i];
        struct prof_module *q = module_of(m, *f->module ? f->module : "[unknown]");
        q->instructions += f->of[WIRE_INSTRUCTIONS];
        q->memory_ops += memory_ops(f->of);
        if (!f->is_kernel && user_cycles > 0)
            q->time_share = prof_sum(q->time_share, monster_cycles(m->from, f->of) / user_cycles);
    }
    if (m->modules.len)
        qsort(m->modules.data, m->modules.len, sizeof *m->modules.data, by_instructions);
    m->to->modules = ARENA_ARRAY(m->to->arena, struct prof_module, m->modules.len + 1);
    m->to->module_count = m->modules.len;
    if (m->modules.len)
        memcpy(m->to->modules, m->modules.data, m->modules.len * sizeof *m->modules.data);
}

static void fill_processes(struct maker *m)
{
    size_t n = m->from->processes.len;
    m->to->process = ARENA_ARRAY(m->to->arena, struct prof_process, n + 1);
    m->to->process_count = n;
    m->to->processes = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const struct monster_process *p = &m->from->processes.data[i];
        prof_row_unknown(PROF_ROW_PROCESS, &m->to->process[i]);
        m->to->process[i].pid = (uint32_t)p->pid;
        m->to->process[i].command = keep(m, p->name);
        m->to->process[i].instructions = p->of[MONSTER_USER].instructions + p->of[MONSTER_KERNEL].instructions;
    }
}

/* ---- the whole ---- */

static void fill_command(struct maker *m)
{
    VEC(const char *) words = {0};
    char *text = arena_strdup(m->to->arena, m->from->command ? m->from->command : ""), *state = NULL;
    for (char *w = strtok_r(text, " ", &state); w; w = strtok_r(NULL, " ", &state))
        VEC_PUSH(&words, w);
    m->to->command = ARENA_ARRAY(m->to->arena, const char *, words.len + 1);
    if (words.len)
        memcpy(m->to->command, words.data, words.len * sizeof *words.data);
    m->to->program = m->to->command[0];
    VEC_FREE(&words);
}

static void fill_run(struct maker *m)
{
    const struct monster_result *from = m->from;
    struct prof_result *to = m->to;
    fill_command(m);
    to->mtool_version = from->version ? keep(m, from->version) : NULL;
    to->options = "mtool monster run";
    to->sampler = "none: every instruction of a guest";
    to->exit_status = (int)(from->end == WIRE_SIGNALLED ? 128 + from->status : from->status);
    to->machine.cpu = to->machine.description = keep(m, from->machine);
    to->machine.kernel = arena_printf(to->arena, "Linux %s, in a guest", from->kernel ? from->kernel : "?");
    to->machine.tsc_hz = m->second;
    to->machine.cycles_per_tsc = 1;
}

static void fill_times(struct maker *m, const struct monster_sums *s)
{
    struct prof_result *to = m->to;
    double ideal = ideal_cycles(m, s->mode[MONSTER_USER].of), actual = s->mode[MONSTER_USER].cycles;
    to->predicted_user_s = point(ideal / m->second);
    to->simulated_user_s = to->predicted_user_s.value;
    to->actual_user_s = point(actual / m->second);
    to->actual_system_s = point(s->kernel_busy.cycles / m->second);
    if (ideal > 0)
        to->overhead = point((actual - ideal) / ideal);
    to->coverage.instructions_counted =
        s->mode[MONSTER_USER].of[WIRE_INSTRUCTIONS] + s->mode[MONSTER_KERNEL].of[WIRE_INSTRUCTIONS];
    to->coverage.instructions_counted_share = 1;
    to->coverage.memory_ops = memory_ops(s->mode[MONSTER_USER].of) + memory_ops(s->mode[MONSTER_KERNEL].of);
    uint64_t idle = memory_ops(s->region[MONSTER_IDLE].of);
    if (to->coverage.memory_ops)
        to->coverage.memory_ops_measured = 1 - (double)idle / (double)to->coverage.memory_ops;
}

static void fill_stalls(struct maker *m, const struct monster_sums *s)
{
    add_stalls(m, ID_NONE, false, s->mode[MONSTER_USER].of);
    add_stalls(m, ID_NONE, true, s->kernel_busy.of);
    VEC_PUSH(&m->stalls, ((struct prof_stall){ID_NONE, monster_mode_name(MONSTER_KERNEL), idle_key,
                                              (uint64_t)llround(s->idle_cycles), s->idle_cycles / m->second}));
}

static void end_stalls(struct maker *m)
{
    m->to->stalls = ARENA_ARRAY(m->to->arena, struct prof_stall, m->stalls.len + 1);
    m->to->stall_count = m->stalls.len;
    memcpy(m->to->stalls, m->stalls.data, m->stalls.len * sizeof *m->stalls.data);
}

struct prof_result *monster_profile(const struct monster_result *r)
{
    struct maker m = {.from = r, .second = r->ghz > 0 ? 1e9 * r->ghz : NAN};
    if (!r->machine) {
        diag_error("%s: it has no cycles, so no seconds: a profile needs mtool monster run --model", r->path);
        return NULL;
    }
    struct monster_sums s = monster_sum_up(r);
    m.to = prof_result_new();
    fill_run(&m);
    fill_times(&m, &s);
    fill_stalls(&m, &s);
    fill_objects(&m, m.to->actual_user_s.value);
    end_stalls(&m);
    fill_modules(&m, s.mode[MONSTER_USER].cycles);
    fill_processes(&m);
    prof_warn(m.to, PROF_WARN_DESCRIBED_MACHINE, "seconds are those of the described %s, user and kernel in a guest",
              r->machine);
    if (isnan(m.second))
        prof_warn(m.to, PROF_WARN_CLOCK_UNKNOWN, "the description has no clock (tsc-ghz), so cycles are no seconds");
    VEC_FREE(&m.modules);
    VEC_FREE(&m.stalls);
    return m.to;
}
