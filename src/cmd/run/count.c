/* SPDX-License-Identifier: Apache-2.0
 * mtool count: one counted run; exact block and edge counts go to the profile. */
#include "cmd/run/profile.h"

enum { PROCESSES_SHOWN = 20, LIBRARIES_SHOWN = 8, COMMAND_SHOWN_BYTES = 100 };

static int count(struct profile *p, const struct cmd_args *a)
{
    int rc = profile_begin(p, a);
    if (rc || (rc = profile_copies(p)))
        return rc;
    struct launch_options opt = profile_counted_options(p);
    opt.sample_hz = launch_seen_hz(p->program, a->follow);
    diag_debug(1, "count: %.0f looks a second at what the program executes", opt.sample_hz);
    struct launch_result *run = NULL;
    if (a->all_probes)
        opt = (struct launch_options){.how = LAUNCH_PROBED, .mode = p->mode};
    if ((rc = profile_run(p, &opt, true, &run)))
        return rc;
    if (a->all_probes) {
        launch_result_free(run);
        return profile_finish(p);
    }
    launch_remember_modules(p->program);
    launch_keep_sampled(p->program, run);
    profile_warn_left(run);
    if (a->follow)
        profile_take_processes(p, run);
    else
        profile_warn_executed(run);
    struct prof_input in = {.want_blocks = true};
    if (!profile_counts_are_exact(run))
        rc = CMD_SELF_FAILED;
    else if (!(rc = profile_inputs(p, run, NULL, &in))) {
        profile_keep_feedback(p, &in);
        rc = profile_join(p->result, &in);
    }
    p->result->processes = run->processes;
    p->result->threads = run->threads_max;
    if (!rc)
        rc = profile_finish(p);
    launch_result_free(run);
    return rc;
}

static void show_process(struct arena *a, const struct prof_process *p)
{
    char exit[24] = "", counted[48] = "not counted";
    if (p->exit_status != ID_NONE)
        snprintf(exit, sizeof exit, " exit %u", p->exit_status);
    if (p->instructions != PROF_UNKNOWN)
        snprintf(counted, sizeof counted, "%llu instructions", (unsigned long long)p->instructions);
    const char *command = p->command ? str_printable(a, p->command) : "?";
    bool is_long = strlen(command) > COMMAND_SHOWN_BYTES; /* whole in the profile */
    diag_note("process %u%s: %s: %s%.*s%s%s%s", p->pid, exit, counted, p->is_fork ? "(fork) " : "", COMMAND_SHOWN_BYTES,
              command, is_long ? "..." : "", p->refused ? ": " : "", p->refused ? p->refused : "");
}

/* Libraries that the program itself loaded; of the loader nobody expects it. */
static bool is_missed(const struct launch_program *p, const struct prof_refused *f)
{
    if (f->function || !f->module || !f->reason)
        return false;
    for (size_t i = 0; i < p->module_count; i++)
        if (strcmp(p->modules[i].path, f->module) == 0)
            return !p->modules[i].is_exe && !p->modules[i].is_interp && !p->modules[i].other_program;
    return false;
}

/* A line for each reason, where it comes first. */
static void show_missed(const struct profile *p)
{
    const struct prof_result *r = p->result;
    for (size_t i = 0; i < r->refused_count; i++) {
        struct strbuf names = {0};
        size_t count = 0;
        bool is_first = is_missed(p->program, &r->refused[i]);
        for (size_t k = 0; k < r->refused_count && is_first; k++) {
            const struct prof_refused *f = &r->refused[k];
            if (!is_missed(p->program, f) || strcmp(f->reason, r->refused[i].reason) != 0)
                continue;
            is_first = k >= i;
            if (count++ < LIBRARIES_SHOWN)
                str_printf(&names, "%s%s", names.len ? ", " : "", str_printable(r->arena, file_base_name(f->module)));
        }
        if (count > LIBRARIES_SHOWN)
            str_printf(&names, " and %zu more", count - LIBRARIES_SHOWN);
        if (is_first)
            diag_note("not counted: %s: %s", names.data, r->refused[i].reason);
        str_free(&names);
    }
}

int cmd_count(const struct cmd_args *a)
{
    struct profile p;
    int rc = count(&p, a);
    int status = p.status;
    if (rc == 0 && !a->all_probes) {
        const struct prof_result *r = p.result;
        diag_note("%llu instructions, %llu memory operations counted in %llu of %llu functions; profile in %s",
                  (unsigned long long)r->coverage.instructions_counted, (unsigned long long)r->coverage.memory_ops,
                  (unsigned long long)r->coverage.functions_rewritten, (unsigned long long)r->coverage.functions,
                  store_path(p.store));
        for (size_t i = 0; i < r->process_count && i < PROCESSES_SHOWN; i++)
            show_process(r->arena, &r->process[i]);
        if (r->process_count > PROCESSES_SHOWN)
            diag_note("and %zu more processes", r->process_count - PROCESSES_SHOWN);
        show_missed(&p);
        diag_note("to see it: mtool dump counts %s", store_path(p.store));
    }
    profile_end(&p);
    if (rc == 0 || rc == PROFILE_INTERRUPTED)
        launch_exit_like(status);
    return rc;
}
