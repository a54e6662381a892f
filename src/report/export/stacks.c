/* SPDX-License-Identifier: Apache-2.0
 * Stacks of module, function and loops: as folded lines (flamegraph.pl, inferno, speedscope) and in speedscope's own
 * file format, where memory, actual and ideal time are three profiles of one file. Who calls whom is not in a profile,
 * so no stack goes beyond its function. */
#include "report/export/export.h"

#define US 1e6 /* a second */

/* ';' parts frames and a line is a stack; all else may stand in a name. */
static void put_folded_name(struct strbuf *out, const char *name)
{
    for (; *name; name++)
        str_put(out, *name == ';' ? ":" : name, 1);
}

void export_folded(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    struct stacks s;
    stacks_build(&s, r, a);
    const uint32_t *id = s.ids.data;
    for (size_t i = 0; i < r->object_count; id += s.lengths.data[i++]) {
        const struct prof_object *x = &r->objects[i];
        uint64_t us = export_unsigned(o->value == EXPORT_VALUE_ACTUAL ? x->actual_s.value : x->memory_s.value, US);
        if (!us)
            continue;
        for (uint32_t k = 0; k < s.lengths.data[i]; k++) {
            str_puts(out, k ? ";" : "");
            put_folded_name(out, s.frames.data[id[k]].name);
        }
        str_printf(out, " %llu\n", (unsigned long long)us);
    }
    stacks_fini(&s);
}

/* ---- speedscope ---- */

static const struct {
    const char *name;
    size_t offset;
} times[] = {{"memory", offsetof(struct prof_object, memory_s)},
             {"actual", offsetof(struct prof_object, actual_s)},
             {"ideal", offsetof(struct prof_object, ideal_s)}};

static uint64_t time_of(const struct prof_object *o, size_t which)
{
    const struct prof_interval *i = (const struct prof_interval *)(const void *)((const char *)o + times[which].offset);
    return export_unsigned(i->value, US);
}

static void put_frames(struct json *j, const struct stacks *s)
{
    json_object(j, "shared");
    json_array(j, "frames");
    for (size_t i = 0; i < s->frames.len; i++) {
        const struct stack_frame *f = &s->frames.data[i];
        json_object(j, NULL);
        json_str(j, "name", f->name);
        if (f->file)
            json_str(j, "file", f->file);
        if (f->file && f->line)
            json_u64(j, "line", f->line);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void put_samples(struct json *j, const struct prof_result *r, const struct stacks *s, size_t which)
{
    const uint32_t *id = s->ids.data;
    json_array(j, "samples");
    for (size_t i = 0; i < r->object_count; id += s->lengths.data[i++]) {
        if (!time_of(&r->objects[i], which))
            continue;
        json_array(j, NULL);
        for (uint32_t k = 0; k < s->lengths.data[i]; k++)
            json_u64(j, NULL, id[k]);
        json_array_end(j);
    }
    json_array_end(j);
}

static void put_speedscope_profile(struct json *j, const struct prof_result *r, const struct stacks *s, size_t which)
{
    uint64_t sum = 0, us;
    json_object(j, NULL);
    json_str(j, "type", "sampled");
    json_str(j, "name", times[which].name);
    json_str(j, "unit", "microseconds");
    put_samples(j, r, s, which);
    json_array(j, "weights");
    for (size_t i = 0; i < r->object_count; i++) {
        if (!(us = time_of(&r->objects[i], which)))
            continue;
        json_u64(j, NULL, us);
        sum += us;
    }
    json_array_end(j);
    json_u64(j, "startValue", 0);
    json_u64(j, "endValue", sum);
    json_object_end(j);
}

void export_speedscope(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    struct stacks s;
    struct json j;
    stacks_build(&s, r, a);
    json_init(&j, out, false);
    json_object(&j, NULL);
    json_str(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_str(&j, "exporter", "mtool " MTOOL_VERSION);
    json_str(&j, "name", r->program ? cell_safe(a, r->program) : "?");
    json_u64(&j, "activeProfileIndex", o->value == EXPORT_VALUE_ACTUAL);
    put_frames(&j, &s);
    json_array(&j, "profiles");
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        put_speedscope_profile(&j, r, &s, i);
    json_array_end(&j);
    json_object_end(&j);
    stacks_fini(&s);
}
