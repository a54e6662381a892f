/* SPDX-License-Identifier: Apache-2.0
 * Of programs that count calls: functions with their samples and calls, and who calls whom how often; gmon.out for
 * binutils' gprof. */
#include <stdlib.h>

#include "cmd/ld/report.h"

/* ---- pairs of functions ---- */

static int by_pair(const void *a, const void *b)
{
    const struct ld_arc *x = a, *y = b;
    if (x->callee != y->callee)
        return x->callee < y->callee ? -1 : 1;
    return (x->caller > y->caller) - (x->caller < y->caller);
}

static int by_calls(const void *a, const void *b)
{
    const struct ld_arc *x = a, *y = b;
    return x->calls != y->calls ? (x->calls < y->calls ? 1 : -1) : by_pair(a, b);
}

/* One arc a caller and callee, the most frequent first. */
static size_t join_arcs(struct ld_calls *c)
{
    size_t n = 0;
    struct ld_arc *all = c->arcs.data;
    if (c->arcs.len)
        qsort(all, c->arcs.len, sizeof *all, by_pair);
    for (size_t i = 0; i < c->arcs.len; i++) {
        if (n && by_pair(&all[n - 1], &all[i]) == 0)
            all[n - 1].calls += all[i].calls;
        else
            all[n++] = all[i];
    }
    if (n)
        qsort(all, n, sizeof *all, by_calls);
    return n;
}

/* ---- text ---- */

static const char *name_of(const struct ld_calls *c, uint32_t place)
{
    const struct ld_place *p = place == LD_ELSEWHERE ? NULL : &c->places.data[place];
    if (!p)
        return "(code that is not rewritten)";
    return *p->name ? p->name : arena_printf(c->arena, "%#llx", (unsigned long long)p->address);
}

static uint64_t all_samples(const struct ld_calls *c)
{
    uint64_t n = c->elsewhere;
    for (size_t i = 0; i < c->samples.len; i++)
        n += c->samples.data[i].count;
    return n;
}

static double seconds(const struct ld_calls *c, uint64_t samples)
{
    uint64_t all = all_samples(c);
    return all ? c->processor_s * (double)samples / (double)all : 0;
}

static int by_samples(const void *a, const void *b, void *ctx)
{
    const struct ld_place *all = ctx, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
    if (x->samples != y->samples)
        return x->samples < y->samples ? 1 : -1;
    return x->calls != y->calls ? (x->calls < y->calls ? 1 : -1)
                                : (x->address > y->address) - (x->address < y->address);
}

/* Of functions that were called or sampled. */
static size_t sort_places(const struct ld_calls *c, uint32_t *order)
{
    size_t n = 0;
    for (uint32_t i = 0; i < c->places.len; i++)
        if (c->places.data[i].calls || c->places.data[i].samples)
            order[n++] = i;
    if (n)
        qsort_r(order, n, sizeof *order, by_samples, c->places.data);
    return n;
}

static void put_more(struct strbuf *out, size_t shown, size_t all, const char *what)
{
    if (shown < all)
        str_printf(out, "%zu more %s; --all prints them\n", all - shown, what);
}

static void put_text(const struct cmd_args *a, const struct ld_calls *c, const uint32_t *order, size_t places,
                     size_t arcs, struct strbuf *out)
{
    size_t most = a->all ? SIZE_MAX : a->top ? a->top : 20;
    str_puts(out, "     seconds         calls  function\n");
    for (size_t i = 0; i < places && i < most; i++) {
        const struct ld_place *p = &c->places.data[order[i]];
        str_printf(out, "%12.3f %13llu  %s%s%s%s\n", seconds(c, p->samples), (unsigned long long)p->calls,
                   name_of(c, order[i]), p->object ? "  (" : "", p->object ? file_base_name(p->object) : "",
                   p->object ? ")" : "");
    }
    put_more(out, min_u64(most, places), places, "functions");
    if (c->elsewhere)
        str_printf(out, "%12.3f                in other files and the system\n", seconds(c, c->elsewhere));
    str_puts(out, "\n       calls  caller -> function\n");
    for (size_t i = 0; i < arcs && i < most; i++)
        str_printf(out, "%12llu  %s -> %s\n", (unsigned long long)c->arcs.data[i].calls,
                   name_of(c, c->arcs.data[i].caller), name_of(c, c->arcs.data[i].callee));
    put_more(out, min_u64(most, arcs), arcs, "pairs");
}

/* ---- JSON ---- */

static void put_name(struct json *j, const char *key, const struct ld_calls *c, uint32_t place)
{
    json_str(j, key, place == LD_ELSEWHERE || !*c->places.data[place].name ? NULL : c->places.data[place].name);
}

static void put_json(const struct cmd_args *a, const struct ld_calls *c, const uint32_t *order, size_t places,
                     size_t arcs, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_u64(&j, "files", c->files);
    json_real(&j, "processor_s", c->processor_s);
    json_u64(&j, "samples", all_samples(c));
    json_u64(&j, "samples_elsewhere", c->elsewhere);
    json_u64(&j, "lost_calls", c->lost_calls);
    json_u64(&j, "inconsistent", c->inconsistent);
    json_array(&j, "functions");
    for (size_t i = 0; i < places; i++) {
        const struct ld_place *p = &c->places.data[order[i]];
        json_object(&j, NULL);
        put_name(&j, "function", c, order[i]);
        json_str(&j, "object", p->object);
        if (p->address)
            json_hex(&j, "address", p->address);
        else
            json_null(&j, "address");
        json_u64(&j, "calls", p->calls);
        json_real(&j, "self_s", seconds(c, p->samples));
        json_object_end(&j);
    }
    json_array_end(&j);
    json_array(&j, "arcs");
    for (size_t i = 0; i < arcs; i++) {
        json_object(&j, NULL);
        put_name(&j, "caller", c, c->arcs.data[i].caller);
        put_name(&j, "callee", c, c->arcs.data[i].callee);
        json_u64(&j, "calls", c->arcs.data[i].calls);
        json_object_end(&j);
    }
    report_end_json(a, &j, out);
}

/* ---- gmon.out ---- */

static int write_gmon(const struct ld_calls *c, const char *path)
{
    struct prof_result r = {0};
    struct prof_arc *arcs = xmalloc((c->arcs.len + 1) * sizeof *arcs);
    struct prof_pc_sample *samples = xmalloc((c->samples.len + 1) * sizeof *samples);
    uint64_t all = all_samples(c);
    for (size_t i = 0; i < c->arcs.len; i++) {
        const struct ld_arc *a = &c->arcs.data[i];
        if (c->places.data[a->callee].address)
            arcs[r.arc_count++] =
                (struct prof_arc){.from = a->site, .to = c->places.data[a->callee].address, .calls = a->calls};
    }
    for (size_t i = 0; i < c->samples.len; i++)
        samples[i] =
            (struct prof_pc_sample){.address = c->samples.data[i].address, .samples = c->samples.data[i].count};
    r.arcs = arcs;
    r.pc_samples = samples;
    r.pc_sample_count = c->samples.len;
    r.actual_user_s.value = all ? c->processor_s * (double)(all - c->elsewhere) / (double)all : 0;
    struct strbuf out = {0};
    report_export(&r, REPORT_EXPORT_gprof, &(struct export_options){0}, &out);
    free(arcs), free(samples);
    return cmd_place_write("ld-report", path, &out);
}

/* ---- all ---- */

static void warn(const struct ld_calls *c)
{
    if (c->inconsistent)
        diag_warn("ld-flow",
                  "%llu functions were called more often than entered: a process was cut off, or had threads that the "
                  "link did not show",
                  (unsigned long long)c->inconsistent);
    if (c->lost_calls)
        diag_warn("ld-lost",
                  "%llu calls through pointers are of more sites and targets than there is room for: who made them is "
                  "not known",
                  (unsigned long long)c->lost_calls);
}

int report_gprof(const struct cmd_args *a)
{
    struct ld_calls *c;
    struct strbuf out = {0};
    const char *gmon = a->export_to[REPORT_EXPORT_gprof];
    if (gmon && cmd_place_check("ld-report", gmon, a->rest[0], a->force) < 0)
        return CMD_UNUSABLE;
    if (ld_calls_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, &c) < 0)
        return CMD_UNUSABLE;
    warn(c);
    int rc = gmon ? write_gmon(c, gmon) : CMD_DONE;
    if (!gmon) {
        uint32_t *order = xmalloc((c->places.len + 1) * sizeof *order);
        size_t arcs = join_arcs(c), places = sort_places(c, order);
        if (a->json)
            put_json(a, c, order, places, arcs, &out);
        else
            put_text(a, c, order, places, arcs, &out);
        free(order);
        rc = report_print(a, &out);
    }
    ld_calls_free(c);
    return rc;
}
