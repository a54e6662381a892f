/* SPDX-License-Identifier: Apache-2.0
 * mtool export: a profile to the files of other tools. Every place is looked at before anything is written. */
#include "cmd/cmd.h"

#include "report/report.h"
#include "store/store.h"

static int check_places(const struct cmd_args *a)
{
    size_t wanted = 0;
    for (size_t i = 0; i < REPORT_EXPORT_COUNT; i++) {
        if (!a->export_to[i])
            continue;
        wanted++;
        for (size_t k = 0; k < i; k++)
            if (a->export_to[k] && !strcmp(a->export_to[i], a->export_to[k]))
                return diag_error("export: --%s and --%s cannot both go to %s", report_export_formats[k].name,
                                  report_export_formats[i].name, a->export_to[i]);
        if (cmd_place_check("export", a->export_to[i], a->rest[0], a->force) < 0)
            return -1;
    }
    return wanted
               ? 0
               : diag_error(
                     "export: say what to write, for example --callgrind OUT; 'mtool export --help' lists the formats");
}

/* Which of the modules is asked for, the executable being the first; ID_NONE after one line. */
static uint32_t module_of(const struct cmd_args *a, const struct prof_result *r)
{
    if (!a->module)
        return 0;
    for (uint32_t i = 0; i < r->module_count; i++)
        if (!strcmp(r->modules[i].path, a->module) || !strcmp(file_base_name(r->modules[i].path), a->module))
            return i;
    return diag_error("export: %s is not among the files that %s is of; 'mtool report --by module %s' lists them",
                      a->module, a->rest[0], a->rest[0]),
           ID_NONE;
}

static uint32_t module_of_calls(const struct cmd_args *a, const struct prof_result *r)
{
    if (!r->arc_count && !r->pc_sample_count)
        return diag_error("export: %s holds neither calls nor samples of places, which gprof shows; make it with "
                          "'mtool run --blocks' (or --gprof)",
                          a->rest[0]),
               ID_NONE;
    return module_of(a, r);
}

static uint32_t module_of_variables(const struct cmd_args *a, const struct prof_result *r)
{
    if (!r->data_count)
        return diag_error("export: %s holds no data objects, whose misses order variables; make it with 'mtool spy' "
                          "(or 'mtool run --spy')",
                          a->rest[0]),
               ID_NONE;
    uint32_t module = module_of(a, r);
    for (size_t i = 0; module != ID_NONE && i < r->data_count; i++)
        if (report_is_orderable(r, &r->data[i], module))
            return module;
    if (module != ID_NONE)
        diag_error(
            "export: %s: no variable of %s was reached that has a symbol; 'mtool report --by data' lists what was",
            a->rest[0], module < r->module_count ? file_base_name(r->modules[module].path) : "the program");
    return ID_NONE;
}

static int write_format(const struct cmd_args *a, const struct prof_result *r, enum report_export format,
                        const char *root)
{
    struct export_options o = {.value = a->value, .top = a->top, .root = root, .linker = a->linker};
    if (format == REPORT_EXPORT_gprof && (o.module = module_of_calls(a, r)) == ID_NONE)
        return CMD_UNUSABLE;
    if (format == REPORT_EXPORT_data_order && (o.module = module_of_variables(a, r)) == ID_NONE)
        return CMD_UNUSABLE;
    struct strbuf out = {0};
    str_puts(&out, "");
    report_export(r, format, &o, &out);
    return cmd_place_write("export", a->export_to[format], &out);
}

int cmd_export(const struct cmd_args *a)
{
    struct prof_result *r;
    if (check_places(a) < 0 || store_read(a->rest[0], &r) < 0)
        return CMD_UNUSABLE;
    if (!r->object_count)
        diag_note("%s holds no loop or procedure: times come from mtool run", a->rest[0]);
    const char *root = file_real_path(a->arena, ".");
    int status = CMD_DONE;
    for (size_t i = 0; i < REPORT_EXPORT_COUNT && status == CMD_DONE; i++)
        if (a->export_to[i])
            status = write_format(a, r, (enum report_export)i, root);
    prof_result_free(r);
    return status;
}
