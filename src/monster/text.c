/* SPDX-License-Identifier: Apache-2.0
 * The result as text: modes, stalls, processes, functions. */
#include "monster/impl.h"

#include <math.h>
#include <stdlib.h>

const char *const monster_stall_labels[WIRE_STALL_COUNT] = {"fetch", "read", "uncached", "write", "float", "tlb"};

const char *monster_grouped(struct arena *a, double x)
{
    char digits[64], out[96];
    size_t n = 0, len;
    if (!isfinite(x))
        return "-";
    snprintf(digits, sizeof digits, "%.0f", x);
    len = strlen(digits);
    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0 && digits[i - 1] != '-')
            out[n++] = ',';
        out[n++] = digits[i];
    }
    out[n] = 0;
    return arena_strdup(a, out);
}

const char *monster_fixed(struct arena *a, double x, int digits)
{
    return isfinite(x) ? arena_printf(a, "%.*f", digits, x) : "-";
}

static void put_mode(struct arena *a, struct strbuf *out, const char *name, const struct monster_sum *s, double whole)
{
    str_printf(out, "  %-14s %16s %16s %16s %7s %7s\n", name, monster_grouped(a, (double)s->of[WIRE_INSTRUCTIONS]),
               monster_grouped(a, (double)s->of[WIRE_OPERATIONS]), monster_grouped(a, s->cycles),
               monster_fixed(a, monster_cpi(s), 2), monster_fixed(a, 100 * s->cycles / whole, 1));
}

static void put_modes(struct arena *a, const struct monster_result *r, const struct monster_sums *s, struct strbuf *out)
{
    double whole = s->mode[MONSTER_USER].cycles + s->kernel_busy.cycles + s->idle_cycles;
    str_printf(out, "\n  %-14s %16s %16s %16s %7s %7s\n", "", "instructions", "operations", "cycles", "CPI", "% time");
    put_mode(a, out, "user", &s->mode[MONSTER_USER], whole);
    put_mode(a, out, "kernel", &s->kernel_busy, whole);
    put_mode(a, out, "idle loop", &s->region[MONSTER_IDLE], whole);
    double halted = s->idle_cycles - s->region[MONSTER_IDLE].cycles;
    str_printf(out, "  %-14s %16s %16s %16s %7s %7s   %.6f s\n", "halted", "-", "-", monster_grouped(a, halted), "-",
               monster_fixed(a, 100 * halted / whole, 1), s->idle_ns / 1e9);
    if (!r->machine)
        str_puts(out, "  Cycles need a machine: monster run --model\n");
}

static void put_stalls(struct arena *a, const struct monster_sums *s, struct strbuf *out)
{
    str_printf(out, "\n  %-14s", "stall cycles");
    for (int i = 0; i < WIRE_STALL_COUNT; i++)
        str_printf(out, " %13s", monster_stall_labels[i]);
    for (int k = 0; k < MONSTER_MODE_COUNT; k++) {
        const struct monster_sum *m = k ? &s->kernel_busy : &s->mode[0];
        str_printf(out, "\n  %-14s", monster_mode_name((enum monster_mode)k));
        for (int i = 0; i < WIRE_STALL_COUNT; i++)
            str_printf(out, " %13s", monster_grouped(a, (double)m->of[WIRE_STALL_FETCH + i]));
    }
    str_puts(out, "\n");
}

static void put_misses(struct arena *a, const struct monster_result *r, const struct monster_sums *s,
                       struct strbuf *out)
{
    static const struct {
        const char *label;
        enum wire_column references, misses;
        int side;
    } kinds[] = {{"fetches", WIRE_FETCHES, WIRE_FETCH_MISSES, 1},
                 {"reads", WIRE_READS, WIRE_READ_MISSES, 0},
                 {"writes", WIRE_WRITES, WIRE_WRITE_MISSES, 0}};
    str_printf(out, "\n  %-14s %-8s %16s   misses", "references", "", "");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        for (int k = 0; k < MONSTER_MODE_COUNT; k++) {
            const uint64_t *of = s->mode[k].of;
            str_printf(out, "\n  %-14s %-8s %16s", k ? "" : kinds[i].label, monster_mode_name((enum monster_mode)k),
                       monster_grouped(a, (double)of[kinds[i].references]));
            for (size_t l = 0; l < r->levels.len; l++) {
                int at = r->level_of[kinds[i].side][l];
                if (at >= 0)
                    str_printf(out, "   %s %s", r->levels.data[l],
                               monster_grouped(a, (double)of[kinds[i].misses + (unsigned)at]));
            }
        }
    str_puts(out, "\n");
}

struct ranked {
    const struct monster_function *f;
    double by; /* cycles; without a machine instructions */
};
static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->by < y->by || x->by > y->by)
        return x->by < y->by ? 1 : -1;
    return strcmp(x->f->name, y->f->name);
}

static void put_processes(struct arena *a, const struct monster_result *r, struct strbuf *out)
{
    str_printf(out, "\n  %-20s %6s %18s %18s\n", "process", "", "user instructions", "kernel");
    for (size_t i = 0; i < r->processes.len; i++) {
        const struct monster_process *p = &r->processes.data[i];
        str_printf(out, "  %-20s %6llu %18s %18s\n", p->name, (unsigned long long)p->pid,
                   monster_grouped(a, (double)p->of[MONSTER_USER].instructions),
                   monster_grouped(a, (double)p->of[MONSTER_KERNEL].instructions));
    }
}

static void put_functions(struct arena *a, const struct monster_result *r, size_t top, monster_name_fn shown,
                          struct strbuf *out)
{
    struct ranked *all = ARENA_ARRAY(a, struct ranked, r->functions.len + 1);
    for (size_t i = 0; i < r->functions.len; i++) {
        const struct monster_function *f = &r->functions.data[i];
        all[i] = (struct ranked){f, r->machine ? monster_cycles(r, f->of) : (double)f->of[WIRE_INSTRUCTIONS]};
    }
    qsort(all, r->functions.len, sizeof *all, by_rank);
    str_printf(out, "\n  %16s %16s %7s  %-6s  function\n", "instructions", "cycles", "CPI", "mode");
    for (size_t i = 0; i < r->functions.len && i < top; i++) {
        const struct monster_function *f = all[i].f;
        double cycles = monster_cycles(r, f->of);
        str_printf(out, "  %16s %16s %7s  %-6s  %s%s%s\n", monster_grouped(a, (double)f->of[WIRE_INSTRUCTIONS]),
                   monster_grouped(a, cycles), monster_fixed(a, cycles / (double)f->of[WIRE_OPERATIONS], 2),
                   monster_mode_name((enum monster_mode)f->is_kernel), str_printable(a, shown(a, f->name)),
                   f->is_kernel || !*f->module ? "" : "  ", f->is_kernel ? "" : file_base_name(f->module));
    }
    if (r->functions.len > top)
        str_printf(out, "  %zu more functions; --all prints them\n", r->functions.len - top);
}

static int by_count(const void *a, const void *b)
{
    const struct monster_call *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->caller != y->caller ? (x->caller > y->caller ? 1 : -1)
                                  : (x->callee > y->callee) - (x->callee < y->callee);
}

static void put_calls(struct arena *a, const struct monster_result *r, size_t top, monster_name_fn shown,
                      struct strbuf *out)
{
    struct monster_call *all = ARENA_ARRAY(a, struct monster_call, r->calls.len + 1);
    if (!r->calls.len)
        return;
    memcpy(all, r->calls.data, r->calls.len * sizeof *all);
    qsort(all, r->calls.len, sizeof *all, by_count);
    str_printf(out, "\n  %16s  %-6s  caller, callee\n", "calls", "mode");
    for (size_t i = 0; i < r->calls.len && i < top; i++) {
        const struct monster_function *from = &r->functions.data[all[i].caller];
        const struct monster_function *to = &r->functions.data[all[i].callee];
        str_printf(out, "  %16s  %-6s  %s, %s\n", monster_grouped(a, (double)all[i].count),
                   monster_mode_name((enum monster_mode)from->is_kernel), str_printable(a, shown(a, from->name)),
                   str_printable(a, shown(a, to->name)));
    }
    if (r->calls.len > top)
        str_printf(out, "  %zu more pairs; --all prints them\n", r->calls.len - top);
}

enum { TRACE_SHOWN = 10 };

static void put_counter(struct arena *a, const struct monster_result *r, const struct monster_counter *c,
                        struct strbuf *out)
{
    str_printf(out, "    %-20s %18s", c->name, monster_grouped(a, (double)c->value));
    if (c->is_timer)
        str_printf(out, " instructions in %s intervals of %s to %s", monster_grouped(a, (double)c->intervals),
                   monster_grouped(a, (double)c->least), monster_grouped(a, (double)c->most));
    if (c->is_timer && r->machine)
        str_printf(out, ", %s cycles", monster_grouped(a, c->cycles));
    str_puts(out, "\n");
}

static void put_programs(struct arena *a, const struct monster_result *r, struct strbuf *out)
{
    for (size_t i = 0; i < r->programs.len; i++) {
        const struct monster_program *p = &r->programs.data[i];
        str_printf(out, "\n  state machine %s\n", str_printable(a, p->name));
        for (size_t k = 0; k < p->counters.len; k++)
            put_counter(a, r, &p->counters.data[k], out);
        for (size_t k = 0; k < p->trace.len && k < TRACE_SHOWN; k++) {
            const struct monster_entry *e = &p->trace.data[k];
            str_printf(out, "    at %s: %s in state %s, process %llu, pc %#llx\n",
                       monster_grouped(a, (double)e->instructions), e->pattern, e->state, (unsigned long long)e->pid,
                       (unsigned long long)e->pc);
        }
        if (p->trace.len > TRACE_SHOWN)
            str_printf(out, "    %zu more entries; --json prints them\n", p->trace.len - TRACE_SHOWN);
        if (p->trace_lost)
            str_printf(out, "    %s entries had no room\n", monster_grouped(a, (double)p->trace_lost));
    }
}

static void put_maps(struct arena *a, const struct monster_result *r, struct strbuf *out)
{
    if (r->maps.len)
        str_printf(out, "\n  %-14s %13s %13s %13s %13s %13s %13s   misses, %llu bins\n", "page mapping", "user fetch",
                   "read", "write", "kernel fetch", "read", "write", (unsigned long long)r->maps.data[0].bins);
    for (size_t i = 0; i < r->maps.len; i++) {
        const struct monster_map *m = &r->maps.data[i];
        str_printf(out, "  %-14s", m->name);
        for (int k = 0; k < MONSTER_MODE_COUNT; k++)
            for (int kind = 0; kind < 3; kind++)
                str_printf(out, " %13s", monster_grouped(a, (double)m->misses[k][kind]));
        str_puts(out, "\n");
    }
}

static int by_misses(const void *a, const void *b)
{
    const struct monster_variable *x = *(const struct monster_variable *const *)a,
                                  *y = *(const struct monster_variable *const *)b;
    if (x->misses != y->misses)
        return x->misses < y->misses ? 1 : -1;
    return (x > y) - (x < y);
}

static void put_variables(struct arena *a, const struct monster_result *r, size_t top, struct strbuf *out)
{
    const struct monster_variable **list = ARENA_ARRAY(a, const struct monster_variable *, r->variables.len + 1);
    for (size_t i = 0; i < r->variables.len; i++)
        list[i] = &r->variables.data[i];
    qsort(list, r->variables.len, sizeof *list, by_misses);
    if (r->variables.len)
        str_printf(out, "\n  %13s %13s %9s   variables of the kernel\n", "misses", "references", "bytes");
    for (size_t i = 0; i < r->variables.len && i < top; i++)
        str_printf(out, "  %13s %13s %9s   %s\n", monster_grouped(a, (double)list[i]->misses),
                   monster_grouped(a, (double)list[i]->uses), monster_grouped(a, (double)list[i]->bytes),
                   list[i]->name);
}

void monster_put_text(const struct monster_result *r, size_t top, monster_name_fn shown, struct strbuf *out)
{
    struct arena *a = arena_new();
    struct monster_sums s = monster_sum_up(r);
    str_printf(out, "%s: in a guest of Linux %s", str_printable(a, r->command), r->kernel);
    if (r->machine)
        str_printf(out, "; caches and pipeline of: %s", r->machine);
    if (r->has_disk)
        str_printf(out, "; disk: %g ms a request, %g MB/s", r->disk_ms, r->disk_mb_s);
    str_puts(out, "\n");
    put_modes(a, r, &s, out);
    if (r->machine) {
        put_stalls(a, &s, out);
        put_misses(a, r, &s, out);
    }
    put_maps(a, r, out);
    put_variables(a, r, top, out);
    put_programs(a, r, out);
    put_processes(a, r, out);
    put_functions(a, r, top, shown, out);
    put_calls(a, r, top, shown, out);
    arena_free(a);
}
