/* SPDX-License-Identifier: Apache-2.0
 * The result of a guest with a described machine as a profile: functions of the kernel and of programs as procedures in
 * one list, with the loops of programs and their source lines where their files tell (code.c). Both times are the
 * model's own, so their intervals are points: the ideal one is what the function takes if it waits for floating point
 * only, the actual one has all stalls. The idle loop is no procedure: with halts it is a stall of its own. Idle seconds
 * are the guest's clock. */
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
    struct monster_code_read code;
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

static void fill_times(struct maker *m, struct prof_object *o, const uint64_t *self, const uint64_t *incl)
{
    double actual = monster_cycles(m->from, self), ideal = ideal_cycles(m, self);
    double actual_incl = monster_cycles(m->from, incl), ideal_incl = ideal_cycles(m, incl);
    o->instructions = self[WIRE_INSTRUCTIONS];
    o->instructions_incl = incl[WIRE_INSTRUCTIONS];
    o->memory_ops = memory_ops(self);
    o->memory_ops_incl = memory_ops(incl);
    o->ideal_s = point(ideal / m->second);
    o->ideal_incl_s = point(ideal_incl / m->second);
    o->actual_s = point(actual / m->second);
    o->actual_incl_s = point(actual_incl / m->second);
    o->memory_s = point((actual - ideal) / m->second);
    o->memory_incl_s = point((actual_incl - ideal_incl) / m->second);
    o->ideal_method = o->actual_method = "simulated";
    if (o->memory_ops)
        o->extra_cycles_per_memory_op = (actual - ideal) / (double)o->memory_ops;
    o->is_significant = o->memory_s.value > 0;
}

static struct prof_object procedure_of(struct maker *m, const struct monster_function *f)
{
    struct prof_object o;
    memset(&o, 0, sizeof o);
    prof_row_unknown(PROF_ROW_OBJECT, &o);
    o.kind = PROF_PROCEDURE;
    o.module = *f->module ? keep(m, f->module) : NULL;
    o.function = keep(m, f->name);
    o.address = f->address;
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

struct made {                /* an object */
    uint32_t number, parent; /* among all that were made; ID_NONE: no parent */
    bool is_kernel;
    const uint64_t *self, *incl;
    struct prof_object object;
};

static int by_memory(const void *a, const void *b)
{
    const struct made *x = a, *y = b;
    double p = x->object.memory_s.value, q = y->object.memory_s.value;
    if (p < q || p > q)
        return p < q ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

struct made_list {
    VEC(struct made) all;
    uint32_t *of_function; /* by function: its number; ID_NONE */
};

static void make_procedures(struct maker *m, struct made_list *l)
{
    for (size_t i = 0; i < m->from->functions.len; i++) {
        const struct monster_function *f = &m->from->functions.data[i];
        l->of_function[i] = is_idle(f) ? ID_NONE : (uint32_t)l->all.len;
        if (is_idle(f))
            continue;
        struct made made = {(uint32_t)l->all.len, ID_NONE, f->is_kernel, f->of, f->of, procedure_of(m, f)};
        VEC_PUSH(&l->all, made);
    }
}

static void place_procedures(const struct maker *m, struct made_list *l)
{
    for (size_t i = 0; i < m->code.procedures.len; i++) {
        const struct monster_procedure *p = &m->code.procedures.data[i];
        uint32_t number = l->of_function[p->function - m->from->functions.data];
        if (number >= l->all.len) /* the idle loop, which is none */
            continue;
        struct prof_object *o = &l->all.data[number].object;
        o->file = p->object.file;
        o->line_first = p->object.line_first;
        o->line_last = p->object.line_last;
    }
}

/* What loops of their own have, their procedures have not. */
static void make_loops(struct maker *m, struct made_list *l)
{
    size_t procedures = l->all.len;
    for (size_t i = 0; i < m->code.loops.len; i++) {
        const struct monster_loop *loop = &m->code.loops.data[i];
        uint32_t own = l->of_function[loop->function - m->from->functions.data];
        struct made made = {(uint32_t)l->all.len,
                            loop->around ? (uint32_t)(procedures + loop->around - 1) : own,
                            false,
                            loop->self,
                            loop->incl,
                            loop->object};
        VEC_PUSH(&l->all, made);
        if (loop->around)
            continue;
        struct made *procedure = &l->all.data[own];
        uint64_t *self = ARENA_ARRAY(m->to->arena, uint64_t, WIRE_COLUMN_COUNT);
        memcpy(self, procedure->self, WIRE_COLUMN_COUNT * sizeof *self);
        monster_columns_less(self, loop->incl);
        procedure->self = self;
    }
}

static void fill_objects(struct maker *m, double user_s)
{
    struct made_list l = {.of_function = xmalloc((m->from->functions.len + 1) * sizeof *l.of_function)};
    make_procedures(m, &l);
    place_procedures(m, &l);
    make_loops(m, &l);
    size_t n = l.all.len;
    uint32_t *id = xmalloc((n + 1) * sizeof *id); /* by number */
    for (size_t i = 0; i < n; i++)
        fill_times(m, &l.all.data[i].object, l.all.data[i].self, l.all.data[i].incl);
    if (n)
        qsort(l.all.data, n, sizeof *l.all.data, by_memory);
    m->to->objects = ARENA_ARRAY(m->to->arena, struct prof_object, n + 1);
    m->to->object_count = n;
    for (uint32_t i = 0; i < n; i++)
        id[l.all.data[i].number] = i;
    for (uint32_t i = 0; i < n; i++) {
        struct made *made = &l.all.data[i];
        made->object.id = i;
        made->object.parent = made->parent == ID_NONE ? ID_NONE : id[made->parent];
        made->object.memory_share = (double)made->object.memory_ops / (double)m->to->coverage.memory_ops;
        if (!made->is_kernel)
            made->object.without_s = point(user_s - made->object.memory_s.value);
        m->to->objects[i] = made->object;
        add_stalls(m, i, made->is_kernel, made->self);
    }
    free(l.of_function);
    free(id);
    VEC_FREE(&l.all);
}

/* ---- lines ---- */

static int by_line(const void *a, const void *b)
{
    const struct prof_line *x = a, *y = b;
    int by_file = strcmp(x->file, y->file);
    return by_file ? by_file : (x->line > y->line) - (x->line < y->line);
}

static void fill_lines(struct maker *m)
{
    size_t n = m->code.lines.len;
    m->to->lines = ARENA_ARRAY(m->to->arena, struct prof_line, n + 1);
    m->to->line_count = n;
    for (size_t i = 0; i < n; i++) {
        const struct monster_line *l = &m->code.lines.data[i];
        double actual = monster_cycles(m->from, l->of), ideal = ideal_cycles(m, l->of);
        m->to->lines[i] = (struct prof_line){.file = l->file,
                                             .line = l->line,
                                             .instructions = l->of[WIRE_INSTRUCTIONS],
                                             .memory_ops = memory_ops(l->of),
                                             .samples = PROF_UNKNOWN,
                                             .actual_s = actual / m->second,
                                             .memory_s = (actual - ideal) / m->second};
    }
    if (n)
        qsort(m->to->lines, n, sizeof *m->to->lines, by_line);
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

/* ---- pages ---- */

static bool is_white(const struct monster_page *p, unsigned side)
{
    for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
        if (p->shade[side][i])
            return false;
    return true;
}

static struct prof_page page_of(struct maker *m, const struct monster_page *p, unsigned side)
{
    char *shades = arena_alloc(m->to->arena, WIRE_PAGE_PARTS + 1);
    monster_page_shades(p, side, shades);
    return (struct prof_page){.program = keep(m, p->program),
                              .address = p->address,
                              .side = monster_side_names[side],
                              .uses = monster_page_uses(p, side),
                              .number = p->number[side],
                              .shades = shades};
}

static void fill_pages(struct maker *m)
{
    size_t most = MONSTER_SIDES * m->from->pages.len, policies = m->from->maps.len;
    struct prof_result *to = m->to;
    to->pages = ARENA_ARRAY(to->arena, struct prof_page, most + 1);
    to->page_bins = ARENA_ARRAY(to->arena, struct prof_page_bin, most * policies + 1);
    for (size_t i = 0; i < most; i++) {
        const struct monster_page *p = &m->from->pages.data[i / MONSTER_SIDES];
        unsigned side = i % MONSTER_SIDES;
        if (is_white(p, side))
            continue;
        for (size_t k = 0; k < policies; k++)
            to->page_bins[to->page_bin_count++] =
                (struct prof_page_bin){(uint32_t)to->page_count, keep(m, m->from->maps.data[k].name), p->bins[k]};
        to->pages[to->page_count++] = page_of(m, p, side);
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

static void fill_whole(struct maker *m, const struct monster_sums *s)
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
    fill_whole(&m, &s);
    fill_stalls(&m, &s);
    monster_code_read(r, m.to, &m.code);
    fill_objects(&m, m.to->actual_user_s.value);
    fill_lines(&m);
    fill_pages(&m);
    end_stalls(&m);
    fill_modules(&m, s.mode[MONSTER_USER].cycles);
    fill_processes(&m);
    prof_warn(m.to, PROF_WARN_DESCRIBED_MACHINE, "seconds are those of the described %s, user and kernel in a guest",
              r->machine);
    if (isnan(m.second))
        prof_warn(m.to, PROF_WARN_CLOCK_UNKNOWN, "the description has no clock (tsc-ghz), so cycles are no seconds");
    VEC_FREE(&m.modules);
    VEC_FREE(&m.stalls);
    monster_code_free(&m.code);
    return m.to;
}
