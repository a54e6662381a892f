/* SPDX-License-Identifier: Apache-2.0
 * What registers would save of loads and stores: allocated over all procedures, and in windows; one table of both. */
#include "cmd/ld/report.h"

static const char *const chosen[] = {[REGS_ESTIMATED] = "estimated", [REGS_MEASURED] = "measured"};

static void put_row(struct strbuf *out, const char *what, double loads, double stores, double loads_in,
                    double stores_in, double all)
{
    double net = loads + stores - loads_in - stores_in;
    str_printf(out, "%-34s %14.0f %14.0f %14.0f %14.0f %7.2f%%\n", what, loads, stores, loads_in, stores_in,
               all > 0 ? 100 * net / all : 0);
}

static void put_text(const struct cmd_args *a, const struct ld_registers *r, struct strbuf *out)
{
    double all = r->loads + r->stores;
    str_printf(out, "%.0f loads and %.0f stores executed in %llu procedures\n", r->loads, r->stores,
               (unsigned long long)r->procedures);
    str_printf(out,
               "In registers could be: %llu globals (%.0f references), %llu constants (%.0f), %llu locals (%.0f)\n",
               (unsigned long long)r->candidates[0], r->candidate_uses[0], (unsigned long long)r->candidates[1],
               r->candidate_uses[1], (unsigned long long)r->candidates[2], r->candidate_uses[2]);
    str_printf(out, "%-34s %14s %14s %14s %14s %8s\n", "", "loads removed", "stores removed", "loads inserted",
               "stores insert.", "saved");
    for (size_t i = 0; i < r->allocations.len; i++) {
        const struct ld_allocation *x = &r->allocations.data[i];
        double inserted = x->result.recursive + x->result.indirect;
        put_row(out, arena_printf(a->arena, "%u registers, %s use", x->registers, chosen[x->by]), x->result.loads,
                x->result.stores, inserted, inserted, all);
    }
    for (size_t i = 0; i < r->traffic.len; i++) {
        const struct ld_traffic *t = &r->traffic.data[i];
        put_row(out,
                arena_printf(a->arena, "%u windows of %u, %u at once (est.)", t->windows.windows, t->windows.size,
                             t->windows.at_once),
                t->result.loads, t->result.stores, t->result.loads_inserted, t->result.stores_inserted, all);
    }
    str_puts(out, "Saved: removed less inserted, of all loads and stores. Windows: over a call sequence drawn from the "
                  "counts of calls\n");
}

static void put_allocation(struct json *j, const struct ld_allocation *x)
{
    json_object(j, NULL);
    json_u64(j, "registers", x->registers);
    json_str(j, "chosen_by", chosen[x->by]);
    json_u64(j, "given", x->result.registers);
    json_u64(j, "variables", x->result.variables);
    json_u64(j, "pseudo_registers", x->result.pseudo);
    json_real(j, "loads_removed", x->result.loads);
    json_real(j, "stores_removed", x->result.stores);
    json_real(j, "saves_recursive", x->result.recursive);
    json_real(j, "saves_indirect", x->result.indirect);
    json_object_end(j);
}

static void put_traffic(struct json *j, const struct ld_traffic *t)
{
    json_object(j, NULL);
    json_u64(j, "windows", t->windows.windows);
    json_u64(j, "size", t->windows.size);
    json_u64(j, "at_once", t->windows.at_once);
    json_str(j, "sequence", "drawn");
    json_real(j, "calls", t->result.calls);
    json_real(j, "calls_simulated", t->result.simulated);
    json_real(j, "overflows", t->result.overflows);
    json_real(j, "underflows", t->result.underflows);
    json_real(j, "loads_removed", t->result.loads);
    json_real(j, "stores_removed", t->result.stores);
    json_real(j, "loads_inserted", t->result.loads_inserted);
    json_real(j, "stores_inserted", t->result.stores_inserted);
    json_u64(j, "depth", t->result.depth);
    json_object_end(j);
}

static void put_json(const struct cmd_args *a, const struct ld_registers *r, struct strbuf *out)
{
    static const char *const kinds[] = {"globals", "constants", "locals"};
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_real(&j, "loads", r->loads);
    json_real(&j, "stores", r->stores);
    json_u64(&j, "procedures", r->procedures);
    json_u64(&j, "unread_instructions", r->unread);
    json_object(&j, "candidates");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_object(&j, kinds[i]);
        json_u64(&j, "count", r->candidates[i]);
        json_real(&j, "references", r->candidate_uses[i]);
        json_object_end(&j);
    }
    json_object_end(&j);
    json_array(&j, "allocation");
    for (size_t i = 0; i < r->allocations.len; i++)
        put_allocation(&j, &r->allocations.data[i]);
    json_array_end(&j);
    json_array(&j, "windows");
    for (size_t i = 0; i < r->traffic.len; i++)
        put_traffic(&j, &r->traffic.data[i]);
    report_end_json(a, &j, out);
}

int report_registers(const struct cmd_args *a)
{
    enum { SIZE = 8 };
    struct ld_registers_options opt = {(unsigned)a->windows_count, a->window_size ? (unsigned)a->window_size : SIZE,
                                       a->windows_at_once ? (unsigned)a->windows_at_once : 1};
    struct ld_registers *r;
    struct strbuf out = {0};
    if (opt.windows == 1 || opt.windows > 4096 || opt.window_size > 4096 || opt.windows_at_once > 4096)
        return diag_error("ld-report: --windows takes 2 to 4096, --window-size and --at-once 1 to 4096"), CMD_UNUSABLE;
    if (ld_registers_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, &opt, &r) < 0)
        return CMD_UNUSABLE;
    report_warn_flow(r->inconsistent);
    if (a->json)
        put_json(a, r, &out);
    else
        put_text(a, r, &out);
    ld_registers_free(r);
    return report_print(a, &out);
}
