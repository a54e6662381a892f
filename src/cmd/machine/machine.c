/* SPDX-License-Identifier: Apache-2.0
 * mtool machine show, mtool machine check: descriptions of machines, read and judged; making one is calibrate's job. */
#include "machine/machine.h"

#include <errno.h>
#include <unistd.h>

#include "cmd/cmd.h"

static int read_description(const char *path, struct machine **out)
{
    if (access(path, R_OK) < 0)
        return diag_error("cannot read the machine description %s: %s", path, strerror(errno)), CMD_UNUSABLE;
    return machine_read(path, out) < 0 ? CMD_UNUSABLE : CMD_DONE;
}

/* ---- show ---- */

static void put_units(struct json *j, const struct machine *m)
{
    json_array(j, "units");
    for (size_t i = 0; i < m->unit_count; i++) {
        json_object(j, NULL);
        json_str(j, "name", m->units[i].name);
        json_u64(j, "multiplicity", m->units[i].multiplicity);
        json_real(j, "issue_latency", m->units[i].issue);
        json_str(j, "queue", m->units[i].queue < 0 ? NULL : m->queues[m->units[i].queue].name);
        json_object_end(j);
    }
    json_array_end(j);
}

/* The instances that one use may choose among, by the names of their units; the same name again for each instance. */
static void put_uses(struct json *j, const struct machine *m, const struct machine_class *c)
{
    json_array(j, "uses");
    for (unsigned u = 0; u < c->use_count; u++) {
        json_object(j, NULL);
        json_real(j, "issue_latency", c->uses[u].issue);
        json_array(j, "units");
        for (unsigned port = 0; port < machine_port_count(m); port++)
            if (c->uses[u].ports >> port & 1)
                json_str(j, NULL, machine_port_name(m, port));
        json_array_end(j);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_classes(struct json *j, const struct machine *m)
{
    json_array(j, "classes");
    for (size_t i = 0; i < m->class_count; i++) {
        const struct machine_class *c = &m->classes[i];
        json_object(j, NULL);
        json_str(j, "name", c->name);
        json_real(j, "result_latency", c->latency);
        json_real(j, "result_latency_high", c->latency_high);
        json_real(j, "result_latency_elsewhere", c->latency_bypass > 0 ? c->latency_bypass : c->latency);
        json_real(j, "result_latency_flags", c->latency_flags > 0 ? c->latency_flags : c->latency);
        json_real(j, "slots", c->slots);
        put_uses(j, m, c);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_forms(struct json *j, const struct machine *m)
{
    json_object(j, "forms");
    for (size_t i = 0; i < m->form_count; i++)
        json_str(j, m->forms[i].form, m->classes[m->forms[i].class_id].name);
    json_object_end(j);
}

static void put_caches(struct json *j, const struct machine *m)
{
    static const char *const kinds[MACHINE_CACHE_KIND_COUNT] = {"data", "code", "both", "tlb"};
    json_array(j, "caches");
    for (size_t i = 0; i < m->cache_count; i++) {
        const struct machine_cache *c = &m->caches[i];
        json_object(j, NULL);
        json_str(j, "name", c->name);
        json_str(j, "kind", kinds[c->kind]);
        json_u64(j, "size_bytes", c->size_bytes);
        json_u64(j, "line_bytes", c->line_bytes);
        if (c->ways)
            json_u64(j, "ways", c->ways);
        else
            json_null(j, "ways");
        json_real(j, "latency_cycles", c->latency);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_errors(struct json *j, const struct machine *m)
{
    json_array(j, "errors");
    for (size_t i = 0; i < m->error_count; i++) {
        const struct machine_error *e = &m->errors[i];
        json_object(j, NULL);
        json_str(j, "kernels", e->kernels);
        json_u64(j, "count", e->count);
        json_real(j, "median", e->median);
        json_real(j, "p90", e->p90);
        json_real(j, "bias", e->bias);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_machine(const struct machine *m, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-machine-1");
    json_str(&j, "name", m->name);
    json_str(&j, "date", m->date && *m->date ? m->date : NULL);
    json_str(&j, "source", m->source);
    json_bool(&j, "in_order", m->in_order);
    json_object(&j, "parameters");
#define X(group, field, name, value, text) json_real(&j, name, m->field);
#include "machine/params.def"
#undef X
    json_object_end(&j);
    put_units(&j, m);
    put_classes(&j, m);
    put_forms(&j, m);
    put_caches(&j, m);
    put_errors(&j, m);
    json_object_end(&j);
}

int cmd_machine_show(const struct cmd_args *a)
{
    struct machine *m;
    int status = read_description(a->rest[0], &m);
    if (status != CMD_DONE)
        return status;
    struct strbuf out = {0};
    a->json ? put_machine(m, &out) : machine_format(m, &out);
    machine_free(m);
    return cmd_print(&out);
}

/* ---- check ---- */

/* What reports will make of it. */
static void put_gate(const struct machine *m, struct strbuf *out)
{
    if (!machine_passes(m))
        str_printf(out,
                   "self-test: failed (more than %.0f%% or %.0f%%); by it alone no loop is reported as significant. "
                   "mtool calibrate measures this machine anew\n",
                   100 * MACHINE_MEDIAN_MAX, 100 * MACHINE_P90_MAX);
    else if (machine_error_of(m, "all"))
        str_puts(out, "self-test: passed\n");
}

int cmd_machine_check(const struct cmd_args *a)
{
    struct machine *m;
    int status = read_description(a->rest[0], &m);
    if (status != CMD_DONE)
        return status;
    struct strbuf out = {0};
    const struct machine_error *e = machine_error_of(m, "all");
    str_printf(&out, "%s: %s\n", str_printable(a->arena, a->rest[0]), str_printable(a->arena, m->name));
    str_printf(&out, "source: %s%s%s; %zu classes, %zu forms, %zu caches\n", m->source, m->date && *m->date ? ", " : "",
               m->date ? m->date : "", m->class_count, m->form_count, m->cache_count);
    if (e && e->count)
        str_printf(&out, "its predictions were off by %.0f%% (median) and %.0f%% (90 of 100) on %u kernels\n",
                   100 * e->median, 100 * e->p90, e->count);
    else if (e)
        str_printf(&out, "its predictions are taken to be off by %.0f%% (median) and %.0f%% (90 of 100); not tested\n",
                   100 * e->median, 100 * e->p90);
    else
        str_puts(&out, "how far its predictions are off is not known: no self-test is in the file\n");
    put_gate(m, &out);
    machine_free(m);
    return cmd_print(&out);
}
