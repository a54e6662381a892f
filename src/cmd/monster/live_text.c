/* SPDX-License-Identifier: Apache-2.0
 * What mtool monster live has seen, for people: tables of at most 80 columns unless names are long. Beside the figures
 * stands where they come from, and what that source cannot see. */
#include <math.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/monster/live_form.h"

enum { FIGURE = 32 };

static const char *seconds(double s, char out[FIGURE])
{
    if (isnan(s))
        return "-";
    snprintf(out, FIGURE, "%.4f", s);
    return out;
}

static const char *percent(double part, double whole, char out[FIGURE])
{
    if (isnan(part) || isnan(whole) || whole <= 0)
        return "";
    snprintf(out, FIGURE, "%.1f%%", 100 * part / whole);
    return out;
}

static const char *count(uint64_t n, char out[FIGURE])
{
    if (n == UINT64_MAX)
        return "-";
    snprintf(out, FIGURE, "%llu", (unsigned long long)n);
    return out;
}

static void put_figure(struct strbuf *out, const char *name, const struct live_figure *f, double whole)
{
    char s[FIGURE], share[FIGURE], off[FIGURE];
    str_printf(out, "  %-28s %10s %7s %10s  %s\n", name, seconds(f->s, s), percent(f->s, whole, share),
               f->off_s > 0 ? seconds(f->off_s, off) : "", live_how_text[f->how]);
}

/* Figures 4 and 5: user and kernel; then what the kernel's time is made of, and idle. */
static void put_parts(struct strbuf *out, const struct live_result *r)
{
    char s[FIGURE], share[FIGURE];
    double idle_s = r->parts[LIVE_PART_IDLE].s, whole = r->cpu_s;
    if (r->scope == LIVE_SYSTEM && !isnan(idle_s))
        whole += idle_s;
    str_printf(out, "  %-28s %10s %7s %10s  %s\n", "", "seconds", "share", "+/-", "by");
    put_figure(out, live_part_text[LIVE_PART_USER], &r->parts[LIVE_PART_USER], whole);
    str_printf(out, "  %-28s %10s %7s\n", "kernel", seconds(r->kernel_s, s), percent(r->kernel_s, whole, share));
    for (int p = 0; p < LIVE_PARTS; p++) {
        char name[64];
        snprintf(name, sizeof name, "  %s", live_part_text[p]);
        bool is_none = p == LIVE_PART_KERNEL && r->scope != LIVE_SYSTEM && r->parts[p].s <= 0;
        if (p != LIVE_PART_USER && p != LIVE_PART_IDLE && r->parts[p].how != LIVE_NOT_KNOWN && !is_none)
            put_figure(out, name, &r->parts[p], whole);
    }
    put_figure(out, r->scope == LIVE_SYSTEM ? "idle, of all processors" : "idle: none of it wanted one",
               &r->parts[LIVE_PART_IDLE], r->scope == LIVE_SYSTEM ? whole : r->wall_s);
    if (!isnan(r->unseen_s))
        str_printf(out, "  %-28s %10s %7s\n", "not told of by any event", seconds(r->unseen_s, s),
                   percent(r->unseen_s, r->wall_s * r->processors, share));
}

static void put_more(struct strbuf *out, size_t shown, size_t all, const char *what)
{
    if (shown < all)
        str_printf(out, "  %zu more %s; --top N prints more\n", all - shown, what);
}

static void put_calls(struct strbuf *out, const struct live_result *r, size_t top)
{
    char own[FIGURE], waited[FIGURE];
    size_t n = min_u64(top, r->call_count);
    str_printf(out, "\n  %-22s %9s %8s %10s %9s %11s\n", "system call", "calls", "errors", "own time", "us each",
               "off cpu");
    for (size_t i = 0; i < n; i++) {
        const struct live_call *c = &r->calls[i];
        char number[FIGURE];
        snprintf(number, sizeof number, "call %u", c->number);
        str_printf(out, "  %-22s %9llu %8llu %10s %9.2f %11s\n", c->name ? c->name : number,
                   (unsigned long long)c->count, (unsigned long long)c->errors, seconds(c->own_s, own),
                   1e6 * c->own_s / (double)c->count, seconds(c->waited_s, waited));
    }
    put_more(out, n, r->call_count, "system calls");
}

static void put_vectors(struct strbuf *out, const struct live_result *r, size_t top)
{
    char s[FIGURE];
    size_t n = min_u64(top, r->vector_count);
    str_printf(out, "\n  %-32s %9s %10s %9s\n", "interrupt", "count", "time", "us each");
    for (size_t i = 0; i < n; i++)
        str_printf(out, "  %-32s %9llu %10s %9.2f\n", r->vectors[i].name, (unsigned long long)r->vectors[i].count,
                   seconds(r->vectors[i].s, s), 1e6 * r->vectors[i].s / (double)r->vectors[i].count);
    put_more(out, n, r->vector_count, "interrupts");
}

/* Figure 6. */
static void put_regions(struct strbuf *out, const struct live_result *r, size_t top)
{
    char s[FIGURE], off[FIGURE];
    str_printf(out, "\n  %-28s %10s %10s %8s\n", "region of the kernel", "seconds", "+/-", "samples");
    for (size_t i = 0; i < r->region_count; i++) {
        const struct live_region *g = &r->regions[i];
        str_printf(out, "  %-28s %10s %10s %8llu\n", g->label, seconds(g->time.s, s),
                   g->time.off_s > 0 ? seconds(g->time.off_s, off) : "", (unsigned long long)g->samples);
    }
    size_t n = min_u64(top, r->function_count);
    str_printf(out, "\n  %-40s %8s\n", "function of the kernel", "samples");
    for (size_t i = 0; i < n; i++)
        str_printf(out, "  %-40s %8llu\n", r->functions[i].name, (unsigned long long)r->functions[i].samples);
    put_more(out, n, r->function_count, "functions");
}

static void put_processes(struct strbuf *out, const struct live_result *r, size_t top)
{
    char cpu[FIGURE], user[FIGURE], kernel[FIGURE], ready[FIGURE], calls[FIGURE], faults[FIGURE];
    size_t n = min_u64(top, r->process_count);
    str_printf(out, "\n  %-7s %-15s %8s %8s %8s %8s %8s %7s %8s\n", "process", "", "cpu", "user", "kernel", "no cpu",
               "calls", "faults", "switches");
    for (size_t i = 0; i < n; i++) {
        const struct live_process *p = &r->processes[i];
        uint64_t none = r->has_events ? 0 : UINT64_MAX;
        str_printf(out, "  %-7u %-15s %8s %8s %8s %8s %8s %7s %8llu\n", p->pid, str_printable(r->arena, p->name),
                   seconds(p->cpu_s, cpu), seconds(p->user_s, user),
                   seconds(p->call_s + p->kernel_s + p->interrupt_s, kernel), seconds(p->ready_s, ready),
                   count(p->calls | none, calls), count((p->faults_user + p->faults_kernel) | none, faults),
                   (unsigned long long)p->switches);
    }
    put_more(out, n, r->process_count, "processes");
}

static const struct live_counter *counter_of(const struct live_result *r, const char *name, const char *mode)
{
    for (size_t i = 0; i < r->counter_count; i++)
        if (!strcmp(r->counters[i].name, name) && !strcmp(r->counters[i].mode, mode))
            return &r->counters[i];
    return NULL;
}

/* Figure 7, and what stalls can be told. */
static void put_counters(struct strbuf *out, const struct live_result *r)
{
    static const char *const modes[] = {"user", "kernel"};
    for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
        const struct live_counter *c = counter_of(r, "cycles", modes[m]), *i = counter_of(r, "instructions", modes[m]);
        if (c && i && !isnan(c->count) && i->count > 0)
            str_printf(out, "\n  CPI, %-6s %6.2f", modes[m], c->count / i->count);
    }
    str_puts(out, "\n");
    for (size_t i = 0; i < r->counter_count; i++)
        if (!isnan(r->counters[i].count))
            str_printf(out, "  %-24s %-7s %16.0f%s\n", r->counters[i].name, r->counters[i].mode, r->counters[i].count,
                       r->counters[i].part < 0.999 ? "  (scaled: counted a part of the time)" : "");
}

static void put_events(struct strbuf *out, const struct live_result *r)
{
    char a[FIGURE], b[FIGURE], c[FIGURE], d[FIGURE];
    str_printf(out, "\n  page faults: %s in user mode, %s in the kernel", count(r->faults_user, a),
               count(r->faults_kernel, b));
    if (r->faults_minor != UINT64_MAX)
        str_printf(out, "; by the kernel's account %s minor, %s major", count(r->faults_minor, c),
                   count(r->faults_major, d));
    str_printf(out, "\n  context switches: %s, of them %s pre-empted\n", count(r->switches, a),
               count(r->preemptions, b));
    if (r->events_lost)
        str_printf(out, "  at least %s events were lost: figures by events are too low\n", count(r->events_lost, a));
    if (r->samples_lost)
        str_printf(out, "  %s samples were lost\n", count(r->samples_lost, a));
    if (!isnan(r->probe_ns))
        str_printf(
            out,
            "  watching took the program about %s s more; each call's time is corrected by %+.0f ns, calibrated here\n",
            seconds(r->probes_s, a), -r->probe_bias_ns);
}

static void put_machine(struct strbuf *out, const struct live_result *r, size_t top)
{
    char elapsed[FIGURE], own[FIGURE];
    str_printf(out, "\n  %-28s %12s %10s %10s\n", "state machine", "count", "seconds", "on cpu");
    for (size_t i = 0; i < r->mark_count; i++) {
        const struct live_mark_row *m = &r->marks[i];
        bool is_timer = !isnan(m->elapsed_s);
        str_printf(out, "  %-28s %12llu %10s %10s\n", str_printable(r->arena, m->name), (unsigned long long)m->count,
                   is_timer ? seconds(m->elapsed_s, elapsed) : "", is_timer ? seconds(m->own_s, own) : "");
    }
    size_t n = min_u64(top, r->trace_count);
    for (size_t i = 0; i < n; i++)
        str_printf(out, "  %12.6f s  thread %-8u %s in %s\n", r->trace[i].time_s, r->trace[i].tid,
                   str_printable(r->arena, r->trace[i].pattern), str_printable(r->arena, r->trace[i].state));
    put_more(out, n, r->trace_count, "entries of the trace");
    if (r->trace_lost)
        str_printf(out, "  %llu entries of the trace were lost\n", (unsigned long long)r->trace_lost);
}

static void put_sources(struct strbuf *out, const struct live_result *r)
{
    str_puts(out, "\n  sources\n");
    for (int i = 0; i < LIVE_SOURCES; i++) {
        const struct live_source_row *row = &live_source_rows[i];
        const struct live_source_state *s = &r->sources[i];
        enum { AT = 19, INDENT = 19 };
        str_printf(out, "  %-3s %-12s ", s->is_used ? "yes" : "no", row->name);
        cmd_put_wrapped(out, s->found, strlen(s->found), AT, INDENT);
        if (!s->is_used)
            continue;
        str_printf(out, "%*scannot see: ", INDENT, "");
        cmd_put_wrapped(out, row->cannot_see, strlen(row->cannot_see), INDENT + 12, INDENT);
    }
}

void live_put_text(struct strbuf *out, const struct live_result *r, const char *what, size_t top)
{
    char wall[FIGURE];
    str_printf(out, "mtool monster live: %s\n  %s s, %u processors\n\n", str_printable(r->arena, what),
               seconds(r->wall_s, wall), r->processors);
    put_parts(out, r);
    if (r->has_events) {
        put_calls(out, r, top);
        put_vectors(out, r, top);
    }
    put_events(out, r);
    if (r->region_count)
        put_regions(out, r, top);
    if (r->process_count)
        put_processes(out, r, top);
    if (r->has_program)
        put_machine(out, r, top);
    if (r->sources[LIVE_PMU].is_used)
        put_counters(out, r);
    else
        str_printf(out, "\n  CPI and stalls: %s\n", r->sources[LIVE_PMU].found);
    put_sources(out, r);
}
