/* SPDX-License-Identifier: Apache-2.0
 * mtool estimate: counts of a profile and the description of a machine to ideal times. */
#include <unistd.h>

#include "cmd/run/profile.h"
#include "report/report.h"

static const char *why_refused(const struct prof_result *known, const char *module)
{
    for (size_t i = 0; i < known->refused_count; i++)
        if (!known->refused[i].function && known->refused[i].module && strcmp(known->refused[i].module, module) == 0)
            return known->refused[i].reason;
    return NULL;
}

static struct prof_input_module *modules_of(struct arena *ar, const struct prof_result *known)
{
    struct prof_input_module *m = ARENA_ARRAY(ar, struct prof_input_module, known->module_count + 1);
    for (size_t i = 0; i < known->module_count; i++)
        m[i] = (struct prof_input_module){.path = known->modules[i].path,
                                          .refused = why_refused(known, known->modules[i].path)};
    return m;
}

/* What stays true of the profile, whatever is asked of its counts. */
static void take_description(struct prof_result *r, const struct prof_result *known, const struct machine *m,
                             const char *where)
{
    r->program = known->program;
    r->command = known->command;
    r->started = known->started;
    r->mtool_version = known->mtool_version;
    r->exit_status = known->exit_status;
    r->options = known->options;
    r->launch_mode = known->launch_mode;
    r->processes = known->processes;
    r->threads = known->threads;
    r->machine.cpu = m->name ? arena_strdup(r->arena, m->name) : NULL;
    r->machine.description = where ? arena_strdup(r->arena, where) : NULL;
}

static int print(const struct prof_result *r, const struct cmd_args *a)
{
    struct report_options o = {.top = a->top,
                               .all = true,
                               .is_terminal = cmd_has_colour(STDOUT_FILENO),
                               .columns = cmd_columns(a, STDOUT_FILENO),
                               .sort = REPORT_SORT_IDEAL};
    struct strbuf out = {0};
    if (!o.top)
        o.top = 20;
    if (a->json) {
        report_json(r, &out);
    } else {
        report_summary(r, &o, &out);
        report_table(r, &o, &out);
    }
    return cmd_print(&out);
}

static int estimate(const struct cmd_args *a, const struct prof_result *known)
{
    struct machine *m = NULL;
    const char *where = NULL;
    if (!known->block_count)
        return diag_error("%s holds no counts of blocks; make it with mtool count, or with mtool run --blocks",
                          a->rest[0]),
               CMD_UNUSABLE;
    int status = cmd_machine_get(a, &m, &where);
    if (status != CMD_DONE)
        return status;
    struct prof_result *r = prof_result_new();
    struct prof_input in = {.known = known,
                            .modules = modules_of(a->arena, known),
                            .module_count = known->module_count,
                            .machine = m,
                            .seed = 1};
    struct cmd_form_timing form_timing;
    cmd_machine_time_forms(a, m, where, &form_timing, &in);
    take_description(r, known, m, where);
    status = prof_join(r, &in) < 0 ? CMD_UNUSABLE : print(r, a);
    prof_result_free(r);
    machine_free(m);
    return status;
}

int cmd_estimate(const struct cmd_args *a)
{
    struct prof_result *known;
    if (store_read(a->rest[0], &known) < 0)
        return CMD_UNUSABLE;
    int status = estimate(a, known);
    prof_result_free(known);
    return status;
}
