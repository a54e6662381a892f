/* SPDX-License-Identifier: Apache-2.0
 * Of programs with exact clocks: each function with those that call it above and those that it calls below, as
 * gprof prints a call graph. */
#include "cmd/ld/report.h"

static const char *name_of(const struct ld_clocks *c, uint32_t f)
{
    if (f == LD_ELSEWHERE)
        return "(code that is not timed)";
    const struct ld_timed *t = &c->functions.data[f];
    return *t->name ? t->name : arena_printf(c->arena, "%#llx", (unsigned long long)t->address);
}

static void put_error(const struct ld_clocks *c, double error_s, struct strbuf *out)
{
    if (c->is_sampled)
        str_printf(out, "%12.6f", error_s);
}

static void put_arc(const struct ld_clocks *c, const struct ld_timed_arc *a, uint32_t other, struct strbuf *out)
{
    str_printf(out, "      %12.6f", a->self_s);
    put_error(c, a->error_s, out);
    str_printf(out, "%12.6f%14llu      %s\n", a->all_s, (unsigned long long)a->calls, name_of(c, other));
}

static void put_function(const struct ld_clocks *c, uint32_t f, struct strbuf *out)
{
    const struct ld_timed *t = &c->functions.data[f];
    for (size_t i = 0; i < c->arcs.len; i++)
        if (c->arcs.data[i].callee == f)
            put_arc(c, &c->arcs.data[i], c->arcs.data[i].caller, out);
    str_printf(out, "%5.1f %12.6f", c->wall_s > 0 ? 100 * t->all_s / c->wall_s : 0, t->self_s);
    put_error(c, t->error_s, out);
    str_printf(out, "%c%11.6f%14llu  %s  (%s)\n", t->all_is_most ? '<' : ' ', t->all_s, (unsigned long long)t->calls,
               name_of(c, f), file_base_name(t->object));
    for (size_t i = 0; i < c->arcs.len; i++)
        if (c->arcs.data[i].caller == f && c->arcs.data[i].callee != f)
            put_arc(c, &c->arcs.data[i], c->arcs.data[i].callee, out);
    str_puts(out, "\n");
}

/* Sampled calls are timed as if they were alone; where they overlap with what comes next, that is too much. */
static void put_sampled(const struct ld_clocks *c, struct strbuf *out)
{
    enum { MUCH = 105 };
    double sum = 0;
    for (uint32_t f = 0; f < c->functions.len; f++)
        sum += c->functions.data[f].self_s;
    double part = c->wall_s > 0 ? 100 * sum / c->wall_s : 0;
    str_puts(out, "of short calls some were timed; what self may be off by, 95 in 100, is beside self\n");
    if (part > MUCH)
        str_printf(out,
                   "all self together is %.0f %% of the time that passed: threads ran at once, or short calls overlap, "
                   "and self tells shares only\n",
                   part);
}

static void put_text(const struct cmd_args *a, const struct ld_clocks *c, struct strbuf *out)
{
    size_t most = a->all ? SIZE_MAX : a->top ? a->top : 20, shown = 0, executed = 0;
    str_printf(out, "%.3f s; looking at the clock takes %.1f ns of a call, %.1f of them in its time, %s\n", c->wall_s,
               c->pair_s * 1e9, c->pair_inside_s * 1e9,
               a->overhead == LD_OVERHEAD_OFF      ? "taken off self"
               : a->overhead == LD_OVERHEAD_CALLER ? "charged to who calls"
                                                   : "charged to who is called");
    if (c->is_sampled)
        put_sampled(c, out);
    str_puts(out, "\n");
    str_printf(out, "in 100     self s %s      all s         calls\n", c->is_sampled ? "        +- s" : "");
    for (uint32_t f = 0; f < c->functions.len; f++) {
        executed += c->functions.data[f].calls != 0;
        if (c->functions.data[f].calls && shown < most) {
            put_function(c, f, out);
            shown++;
        }
    }
    if (shown < executed)
        str_printf(out, "%zu more functions; --all prints them\n", executed - shown);
}

static void put_name(struct json *j, const char *key, const struct ld_clocks *c, uint32_t f)
{
    json_str(j, key, f == LD_ELSEWHERE || !*c->functions.data[f].name ? NULL : c->functions.data[f].name);
}

static void put_json(const struct cmd_args *a, const struct ld_clocks *c, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_u64(&j, "files", c->files);
    json_real(&j, "wall_s", c->wall_s);
    json_real(&j, "clock_s", c->pair_s);
    json_real(&j, "clock_inside_s", c->pair_inside_s);
    json_u64(&j, "lost_calls", c->lost);
    json_array(&j, "functions");
    for (uint32_t f = 0; f < c->functions.len; f++) {
        const struct ld_timed *t = &c->functions.data[f];
        if (!t->calls)
            continue;
        json_object(&j, NULL);
        put_name(&j, "function", c, f);
        json_str(&j, "object", t->object);
        json_hex(&j, "address", t->address);
        json_u64(&j, "calls", t->calls);
        json_real(&j, "self_s", t->self_s);
        json_real(&j, "self_error_s", t->error_s);
        json_real(&j, "all_s", t->all_s);
        json_bool(&j, "all_at_most", t->all_is_most);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_array(&j, "arcs");
    for (size_t i = 0; i < c->arcs.len; i++) {
        const struct ld_timed_arc *x = &c->arcs.data[i];
        json_object(&j, NULL);
        put_name(&j, "caller", c, x->caller);
        put_name(&j, "callee", c, x->callee);
        json_u64(&j, "calls", x->calls);
        json_u64(&j, "timed", x->timed);
        json_real(&j, "self_s", x->self_s);
        json_real(&j, "self_error_s", x->error_s);
        json_real(&j, "all_s", x->all_s);
        json_object_end(&j);
    }
    report_end_json(a, &j, out);
}

int report_clocks(const struct cmd_args *a)
{
    struct ld_clocks *c;
    struct strbuf out = {0};
    if (ld_clocks_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, (enum ld_overhead)a->overhead, &c) < 0)
        return CMD_UNUSABLE;
    if (c->lost)
        diag_warn("ld-lost", "%llu calls are of more functions and callers than there is room for: they are not told",
                  (unsigned long long)c->lost);
    if (a->json)
        put_json(a, c, &out);
    else
        put_text(a, c, &out);
    ld_clocks_free(c);
    return report_print(a, &out);
}
