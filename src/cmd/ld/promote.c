/* SPDX-License-Identifier: Apache-2.0
 * Of programs with variables in registers: which, what that removes, and why others are not. */
#include "cmd/ld/report.h"

static const char *removed(const struct cmd_args *a, bool has_counts, const struct ld_promoted *v)
{
    return has_counts ? arena_printf(a->arena, "%14.0f %14.0f", v->loads_measured, v->stores_measured)
                      : arena_printf(a->arena, "%14s %14s", "-", "-");
}

static void put_table(const struct cmd_args *a, const struct ld_promotion *p, struct strbuf *out)
{
    size_t rows = a->top ? a->top : 20, shown = 0, refused = 0;
    struct ld_promoted all = {.name = "all"};
    str_puts(out, "register  loads stores   loads executed stores executed   variable\n");
    for (size_t i = 0; i < p->variables.len; i++) {
        const struct ld_promoted *v = &p->variables.data[i];
        if (!v->reg) {
            refused++;
            continue;
        }
        str_printf(out, "%-8s %6llu %6llu  %s    %s\n", v->reg, (unsigned long long)v->loads,
                   (unsigned long long)v->stores, removed(a, p->has_counts, v), v->name);
        all.loads += v->loads, all.stores += v->stores;
        all.loads_measured += v->loads_measured, all.stores_measured += v->stores_measured;
    }
    str_printf(out, "%-8s %6llu %6llu  %s    removed\n", "all", (unsigned long long)all.loads,
               (unsigned long long)all.stores, removed(a, p->has_counts, &all));
    if (*p->why)
        str_printf(out, "No variable is in a register: %s\n", p->why);
    else
        str_printf(out, "The registers are loaded in front of %s\n", p->root);
    if (refused)
        str_printf(out, "%zu variables stay in memory%s:\n", refused,
                   a->all || refused <= rows ? "" : ", of those used most");
    for (size_t i = 0; i < p->variables.len && (a->all || shown < rows); i++) {
        const struct ld_promoted *v = &p->variables.data[i];
        if (v->reg)
            continue;
        str_printf(out, "         %6llu %6llu  %s    %s: %s\n", (unsigned long long)v->loads,
                   (unsigned long long)v->stores, removed(a, p->has_counts, v), v->name, v->why);
        shown++;
    }
}

static void put_json(const struct ld_promotion *p, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "root", p->root);
    json_str(&j, "why_none", *p->why ? p->why : NULL);
    json_bool(&j, "counted", p->has_counts);
    json_array(&j, "variables");
    for (size_t i = 0; i < p->variables.len; i++) {
        const struct ld_promoted *v = &p->variables.data[i];
        json_object(&j, NULL);
        json_str(&j, "variable", v->name);
        json_hex(&j, "address", v->address);
        json_u64(&j, "bytes", v->bytes);
        json_str(&j, "register", v->reg);
        json_str(&j, "why", v->reg ? NULL : v->why);
        json_u64(&j, "loads", v->loads);
        json_u64(&j, "stores", v->stores);
        json_real(&j, "loads_estimated", v->loads_estimated);
        json_real(&j, "stores_estimated", v->stores_estimated);
        if (p->has_counts) {
            json_real(&j, "loads_measured", v->loads_measured);
            json_real(&j, "stores_measured", v->stores_measured);
        }
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    str_puts(out, "\n");
}

int report_promote(const struct cmd_args *a)
{
    struct ld_promotion p;
    struct ld_variables *counts = NULL;
    struct strbuf out = {0};
    if (a->rest_count == 2)
        return diag_error("ld-report: give the counted program and then the files that it wrote, behind %s",
                          a->rest[0]),
               CMD_UNUSABLE;
    if (ld_promotion_read(a->rest[0], &p) < 0)
        return CMD_UNUSABLE;
    if (a->rest_count > 2) {
        if (ld_variables_read(a->rest[1], a->rest + 2, (size_t)a->rest_count - 2, &counts) < 0)
            return ld_promotion_free(&p), CMD_UNUSABLE;
        report_warn_flow(counts->inconsistent);
        ld_promotion_measure(&p, counts);
        ld_variables_free(counts);
    }
    if (a->json)
        put_json(&p, &out);
    else
        put_table(a, &p, &out);
    ld_promotion_free(&p);
    return report_print(a, &out);
}
