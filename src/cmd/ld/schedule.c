/* SPDX-License-Identifier: Apache-2.0
 * Of programs whose blocks were put into another order: what that gains on the machine that it was done for. */
#include <stdlib.h>

#include "cmd/ld/report.h"

static double gain(const struct ld_cost *c) { return c->cycles[0] - c->cycles[1]; }

static int by_gain(const void *a, const void *b)
{
    const struct ld_scheduled *x = a, *y = b;
    double by = gain(&y->cost) - gain(&x->cost);
    return by > 0 ? 1 : by < 0 ? -1 : (x->address > y->address) - (x->address < y->address);
}

static void put_line(struct strbuf *out, const struct ld_cost *c, uint64_t blocks_new, uint64_t blocks,
                     const char *name)
{
    double share = c->cycles[0] > 0 ? 100 * gain(c) / c->cycles[0] : 0;
    str_printf(out, "%14.6g %14.6g %6.2f%% %14.6g %14.6g %6llu / %-6llu %s\n", c->cycles[0], c->cycles[1], share,
               c->stalls[0], c->stalls[1], (unsigned long long)blocks_new, (unsigned long long)blocks, name);
}

static void put_table(const struct cmd_args *a, const struct ld_schedules *s, struct strbuf *out)
{
    size_t rows = a->top ? a->top : 20, shown = 0;
    str_printf(out, "Cycles and stalls on the machine that it was scheduled for, blocks one by one, %s\n",
               s->has_counts ? "as often as counted" : "as often as estimated: ten times in each loop");
    str_puts(out, "        cycles      scheduled   gained         stalls      scheduled    new blocks   function\n");
    for (size_t i = 0; i < s->functions.len && (a->all || shown < rows); i++, shown++) {
        const struct ld_scheduled *f = &s->functions.data[i];
        if (!(gain(&f->cost) > 0) && !a->all)
            break;
        const char *name = *f->name ? f->name : arena_printf(a->arena, "%#llx", (unsigned long long)f->address);
        put_line(out, &f->cost, f->blocks_new, f->blocks,
                 arena_printf(a->arena, "%s  (%s)", name, file_base_name(f->object)));
    }
    put_line(out, &s->all, s->blocks_new, s->blocks, "all");
    if (s->uncounted)
        str_printf(out, "%zu functions are not in the counted program\n", s->uncounted);
}

static void put_cost(struct json *j, const struct ld_cost *c)
{
    json_real(j, "cycles", c->cycles[0]);
    json_real(j, "cycles_scheduled", c->cycles[1]);
    json_real(j, "stalls", c->stalls[0]);
    json_real(j, "stalls_scheduled", c->stalls[1]);
}

static void put_json(const struct ld_schedules *s, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_bool(&j, "counted", s->has_counts);
    put_cost(&j, &s->all);
    json_u64(&j, "blocks", s->blocks);
    json_u64(&j, "blocks_scheduled", s->blocks_new);
    json_u64(&j, "uncounted", s->uncounted);
    json_array(&j, "functions");
    for (size_t i = 0; i < s->functions.len; i++) {
        const struct ld_scheduled *f = &s->functions.data[i];
        json_object(&j, NULL);
        json_str(&j, "function", *f->name ? f->name : NULL);
        json_str(&j, "object", f->object);
        json_hex(&j, "address", f->address);
        put_cost(&j, &f->cost);
        json_real(&j, "instructions", f->executed);
        json_u64(&j, "blocks", f->blocks);
        json_u64(&j, "blocks_scheduled", f->blocks_new);
        json_bool(&j, "counted", f->is_counted);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    str_puts(out, "\n");
}

int report_schedule(const struct cmd_args *a)
{
    struct ld_blocks *counts = NULL;
    struct ld_schedules *s;
    struct strbuf out = {0};
    if (a->rest_count == 2)
        return diag_error("ld-report: give the counted program and then the files that it wrote, behind %s",
                          a->rest[0]),
               CMD_UNUSABLE;
    if (a->rest_count > 2 && ld_blocks_read(a->rest[1], a->rest + 2, (size_t)a->rest_count - 2, &counts) < 0)
        return CMD_UNUSABLE;
    int rc = ld_schedules_read(a->rest[0], counts, &s);
    if (counts)
        ld_blocks_free(counts);
    if (rc < 0)
        return CMD_UNUSABLE;
    qsort(s->functions.data, s->functions.len, sizeof *s->functions.data, by_gain);
    if (a->json)
        put_json(s, &out);
    else
        put_table(a, s, &out);
    ld_schedules_free(s);
    return report_print(a, &out);
}
