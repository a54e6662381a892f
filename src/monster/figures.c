/* SPDX-License-Identifier: Apache-2.0
 * The figures and the table of the paper, of one result or several beside each other. */
#include "monster/impl.h"

#include <math.h>

enum { NAME_WIDTH = 28 };

struct painter {
    struct arena *a;
    struct monster_result *const *r;
    struct monster_sums *sums;
    size_t count;
    struct strbuf *out;
};

static void put_name(const struct painter *p, const char *name)
{
    str_printf(p->out, "  %-*.*s", NAME_WIDTH, NAME_WIDTH, str_printable(p->a, name));
}

/* The command, without the folder of its program. */
static const char *short_command(const struct monster_result *r)
{
    const char *slash = memrchr(r->command, '/', strcspn(r->command, " "));
    return slash ? slash + 1 : r->command;
}

/* The i-th result's: its command, or its file where another one's looks the same. */
static void put_label(const struct painter *p, size_t i)
{
    const char *own = short_command(p->r[i]);
    bool is_alone = true;
    for (size_t k = 0; k < p->count; k++)
        is_alone &= k == i || strncmp(short_command(p->r[k]), own, NAME_WIDTH) != 0;
    put_name(p, is_alone ? own : file_base_name(p->r[i]->path));
}

static void put_title(const struct painter *p, const char *title, const char *const *columns, size_t count)
{
    str_printf(p->out, "%s\n\n", title);
    put_name(p, "");
    for (size_t i = 0; i < count; i++)
        str_printf(p->out, " %11s", columns[i]);
    str_puts(p->out, "\n");
}

static void put_share(const struct painter *p, double part, double whole)
{
    str_printf(p->out, " %11s", monster_fixed(p->a, whole > 0 ? 100 * part / whole : NAN, 2));
}

static double whole_of(const struct monster_sums *s)
{
    return s->mode[MONSTER_USER].cycles + s->kernel_busy.cycles + s->idle_cycles;
}

/* ---- time ---- */

static void put_time(const struct painter *p)
{
    static const char *const columns[] = {"user", "kernel", "idle"};
    put_title(p, "Figure 4: time spent in user and kernel mode (percent; the paper's kernel holds idle)", columns, 3);
    for (size_t i = 0; i < p->count; i++) {
        const struct monster_sums *s = &p->sums[i];
        put_label(p, i);
        put_share(p, s->mode[MONSTER_USER].cycles, whole_of(s));
        put_share(p, s->kernel_busy.cycles, whole_of(s));
        put_share(p, s->idle_cycles, whole_of(s));
        str_puts(p->out, "\n");
    }
}

static double cycles_of(const struct monster_result *r, const struct monster_totals *t)
{
    double sum = (double)t->operations / r->width;
    for (int i = 0; i < WIRE_STALL_COUNT; i++)
        sum += (double)t->stalls[i];
    return sum;
}

/* A row for each name of a process, and one for all; idle is what process 0 does, and the halted time. */
static void put_phases_of(const struct painter *p, const struct monster_result *r, const struct monster_sums *s)
{
    double whole = whole_of(s);
    for (size_t i = 0; i < r->processes.len; i++) {
        const char *name = r->processes.data[i].name;
        double user = 0, kernel = 0;
        bool is_first = true;
        for (size_t k = 0; k < r->processes.len; k++)
            if (strcmp(r->processes.data[k].name, name) == 0) {
                is_first &= k >= i;
                user += cycles_of(r, &r->processes.data[k].of[MONSTER_USER]);
                kernel += cycles_of(r, &r->processes.data[k].of[MONSTER_KERNEL]);
            }
        if (!is_first)
            continue;
        put_name(p, arena_printf(p->a, "  %s", name));
        put_share(p, user, whole);
        put_share(p, kernel, whole);
        str_puts(p->out, "\n");
    }
}

static void put_phases(const struct painter *p)
{
    static const char *const columns[] = {"user", "kernel", "idle"};
    put_title(p, "Figure 5: time spent in the kernel by phases (percent of the whole)", columns, 3);
    for (size_t i = 0; i < p->count; i++) {
        const struct monster_sums *s = &p->sums[i];
        put_label(p, i);
        put_share(p, s->mode[MONSTER_USER].cycles, whole_of(s));
        put_share(p, s->kernel_busy.cycles, whole_of(s));
        put_share(p, s->idle_cycles, whole_of(s));
        str_puts(p->out, "\n");
        put_phases_of(p, p->r[i], s);
    }
}

static void put_regions(const struct painter *p)
{
    put_title(p, "Figure 6: time spent in regions of the kernel (percent of the whole)", monster_region_labels,
              MONSTER_REGION_COUNT);
    for (size_t i = 0; i < p->count; i++) {
        put_label(p, i);
        for (int k = 0; k < MONSTER_REGION_COUNT; k++)
            put_share(p, k == MONSTER_IDLE ? p->sums[i].idle_cycles : p->sums[i].region[k].cycles,
                      whole_of(&p->sums[i]));
        str_puts(p->out, "\n");
    }
}

/* ---- cycles for an operation ---- */

static void put_cpi(const struct painter *p)
{
    static const char *const columns[] = {"user", "kernel"};
    put_title(p, "Figure 7: CPI in user and kernel mode (without the idle loop)", columns, 2);
    for (size_t i = 0; i < p->count; i++) {
        put_label(p, i);
        str_printf(p->out, " %11s %11s\n", monster_fixed(p->a, monster_cpi(&p->sums[i].mode[MONSTER_USER]), 2),
                   monster_fixed(p->a, monster_cpi(&p->sums[i].kernel_busy), 2));
    }
}

static void put_region_cpi(const struct painter *p)
{
    put_title(p, "Figure 8: CPI in regions of the kernel", monster_region_labels + 1, MONSTER_REGION_COUNT - 1);
    for (size_t i = 0; i < p->count; i++) {
        put_label(p, i);
        for (int k = 1; k < MONSTER_REGION_COUNT; k++)
            str_printf(p->out, " %11s", monster_fixed(p->a, monster_cpi(&p->sums[i].region[k]), 2));
        str_puts(p->out, "\n");
    }
}

/* ---- stalls ---- */

/* User, kernel without idle, and its regions. */
static void for_each_part(const struct painter *p, void (*put)(const struct painter *p, const uint64_t *of))
{
    for (size_t i = 0; i < p->count; i++) {
        const struct monster_sums *s = &p->sums[i];
        put_label(p, i);
        str_puts(p->out, "\n");
        put_name(p, "  user");
        put(p, s->mode[MONSTER_USER].of);
        put_name(p, "  kernel");
        put(p, s->kernel_busy.of);
        for (int k = 1; k < MONSTER_REGION_COUNT; k++) {
            put_name(p, arena_printf(p->a, "    %s", monster_region_labels[k]));
            put(p, s->region[k].of);
        }
    }
}

static void put_stall_shares(const struct painter *p, const uint64_t *of)
{
    double whole = (double)monster_stalls(of);
    put_share(p, (double)(of[WIRE_STALL_FETCH] + of[WIRE_STALL_READ] + of[WIRE_STALL_UNCACHED]), whole);
    put_share(p, (double)of[WIRE_STALL_WRITE], whole);
    put_share(p, (double)of[WIRE_STALL_FLOAT], whole);
    put_share(p, (double)of[WIRE_STALL_TLB], whole);
    str_puts(p->out, "\n");
}

static void put_stalls(const struct painter *p)
{
    static const char *const columns[] = {"read", "write", "float", "tlb"};
    put_title(p, "Figure 9: stalls by cause (percent of each row's stall cycles)", columns, 4);
    for_each_part(p, put_stall_shares);
}

static void put_read_shares(const struct painter *p, const uint64_t *of)
{
    double whole = (double)(of[WIRE_STALL_FETCH] + of[WIRE_STALL_READ] + of[WIRE_STALL_UNCACHED]);
    put_share(p, (double)of[WIRE_STALL_FETCH], whole);
    put_share(p, (double)of[WIRE_STALL_READ], whole);
    put_share(p, (double)of[WIRE_STALL_UNCACHED], whole);
    str_puts(p->out, "\n");
}

static void put_reads(const struct painter *p)
{
    static const char *const columns[] = {"instruction", "data", "uncached"};
    put_title(p, "Figure 10: read stalls by cause (percent of each row's read stalls)", columns, 3);
    for_each_part(p, put_read_shares);
    str_puts(p->out, "\n  uncached: registers of devices. I/O buffers in memory that is not cached: none, since x86's\n"
                     "  devices are coherent with its caches; the paper's copies read from such buffers.\n");
}

/* ---- misses ---- */

static void put_kind(const struct painter *p, const uint64_t *of, enum wire_column misses)
{
    str_printf(p->out, " %11s", monster_grouped(p->a, (double)of[misses]));
    str_printf(p->out, " %11s",
               monster_fixed(p->a, 1000 * (double)of[misses] / fmax((double)of[WIRE_INSTRUCTIONS], 1), 2));
}

static void put_miss_counts(const struct painter *p, const uint64_t *of)
{
    put_kind(p, of, WIRE_FETCH_MISSES);
    put_kind(p, of, WIRE_READ_MISSES);
    put_kind(p, of, WIRE_WRITE_MISSES);
    str_puts(p->out, "\n");
}

static void put_misses(const struct painter *p)
{
    static const char *const columns[] = {"fetches", "per 1000", "reads", "per 1000", "writes", "per 1000"};
    put_title(p, "Misses of the nearest caches, and for 1000 instructions (the kernel without its idle loop)", columns,
              ARRAY_LEN(columns));
    for_each_part(p, put_miss_counts);
}

/* ---- the mix ---- */

static void put_mix(const struct painter *p)
{
    static const char *const labels[] = {
        "nops",           "jumps",  "branches", "loads", "stores", "alu", "integer multiply and divide",
        "floating point", "system", "marker"};
    str_puts(p->out, "Table 1: instruction mix (percent of operations; the kernel without its idle loop)\n");
    for (size_t i = 0; i < p->count; i++) {
        const uint64_t *user = p->sums[i].mode[MONSTER_USER].of, *kernel = p->sums[i].kernel_busy.of;
        str_puts(p->out, "\n");
        put_label(p, i);
        str_printf(p->out, " %11s %11s\n", "user", "kernel");
        for (int k = 0; k < WIRE_MIX_COUNT; k++) {
            put_name(p, labels[k]);
            put_share(p, (double)user[WIRE_NOPS + k], (double)user[WIRE_OPERATIONS]);
            put_share(p, (double)kernel[WIRE_NOPS + k], (double)kernel[WIRE_OPERATIONS]);
            str_puts(p->out, "\n");
        }
    }
    str_puts(p->out, "\n  nops: padding and endbr64. Those of delay slots: none, since x86 has no delay slots.\n");
}

static void put_pages(const struct painter *p)
{
    for (size_t i = 0; i < p->count; i++) {
        str_puts(p->out, i ? "\n" : "");
        monster_put_pages(p->r[i], p->out);
    }
}

static const struct {
    const char *name;
    bool needs_machine;
    void (*put)(const struct painter *p);
} figures[] = {
    {"4", true, put_time},       {"5", true, put_phases}, {"6", true, put_regions}, {"7", true, put_cpi},
    {"8", true, put_region_cpi}, {"9", true, put_stalls}, {"10", true, put_reads},  {"misses", true, put_misses},
    {"table1", false, put_mix},  {"13", true, put_pages},
};

static int check(const char *which, size_t figure, struct monster_result *const *r, size_t count)
{
    if (figure == ARRAY_LEN(figures))
        return diag_error("there is no figure '%s'; there are 4 to 10, 13, table1 and misses", which);
    for (size_t i = 0; i < count && figures[figure].needs_machine; i++)
        if (!r[i]->machine)
            return diag_error("%s: figure %s needs cycles: make it with monster run --model MACHINE", r[i]->path,
                              which);
    for (size_t i = 0; i < count && figures[figure].put == put_pages; i++)
        if (!r[i]->pages.len)
            return diag_error("%s: figure 13 needs policies of mapping pages: make it with monster run --maps LIST",
                              r[i]->path);
    return 0;
}

int monster_put_figure(const char *which, struct monster_result *const *r, size_t count, struct strbuf *out)
{
    size_t figure = 0;
    while (figure < ARRAY_LEN(figures) && strcmp(figures[figure].name, which) != 0)
        figure++;
    if (check(which, figure, r, count) < 0)
        return -1;
    struct painter p = {.a = arena_new(), .r = r, .count = count, .out = out};
    p.sums = ARENA_ARRAY(p.a, struct monster_sums, count);
    for (size_t i = 0; i < count; i++)
        p.sums[i] = monster_sum_up(r[i]);
    figures[figure].put(&p);
    arena_free(p.a);
    return 0;
}
