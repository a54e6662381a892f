/* SPDX-License-Identifier: Apache-2.0
 * launch behind a command line, so that tests can put it into any surroundings: driver HOW RESULT PROGRAM ARGS...
 * writes "name value" lines to the file RESULT ("-": none) and ends as the program did; 125 if it could not be run, 2
 * if it was not found. HOW: plain; watch (counted without copies), count (with copies), sampled, timer (the fallback).
 */
#include <stdlib.h>
#include <sys/wait.h>

#include "launch/launch.h"

static void print_samples(FILE *f, const struct launch_program *p, const struct launch_result *r)
{
    fprintf(f, "sampler %d\nsamples_all %llu\nsamples_user %llu\nsamples_lost %llu\nperiod_s %g\n", (int)r->sampler,
            (unsigned long long)r->samples_all, (unsigned long long)r->samples_user,
            (unsigned long long)r->samples_lost, r->sample_period_s);
    for (size_t i = 0; i < r->sample_count; i++) {
        const struct observed_sample *s = &r->samples[i];
        fprintf(f, "sample %s %llx %llu\n", s->module == ID_NONE ? "none" : p->modules[s->module].path,
                (unsigned long long)s->vaddr, (unsigned long long)s->count);
    }
}

static void print_modules(FILE *f, const struct launch_program *p, const struct launch_result *r)
{
    for (size_t i = 0; i < p->module_count; i++) {
        const struct launch_module *m = &p->modules[i];
        const uint64_t *c = r->counters && i < r->counters_len ? r->counters[i] : NULL;
        fprintf(f, "module %s soname %s exe %d interp %d run_time %d other %d first %lld last %lld\n", m->path,
                m->soname ? m->soname : "-", m->is_exe, m->is_interp, m->found_at_run_time, m->other_program,
                c ? (long long)c[0] : -1, c ? (long long)c[1023] : -1);
        fprintf(f, "copy %s %s refused %s\n", file_base_name(m->path), m->copy ? m->copy : "-",
                m->refused ? m->refused : "-");
    }
}

static void print_result(const char *path, const struct launch_program *p, const struct launch_result *r, int mode)
{
    FILE *f = fopen(path, "we");
    if (!f)
        exit(126);
    fprintf(f,
            "status %d\nuser_s %f\nsystem_s %f\nwall_s %f\nrss_kb %ld\nprocesses %u\nthreads_most %u\nforks %u\n"
            "flags %u\nnote %s\nmode %d\nexecuted %s\n",
            r->status, r->user_s, r->system_s, r->wall_s, r->max_rss_kb, r->processes, r->threads_max, r->forks,
            r->flags, r->sampler_note ? r->sampler_note : "-", mode, r->executed ? r->executed : "-");
    print_modules(f, p, r);
    print_samples(f, p, r);
    fclose(f);
}

static const struct how {
    const char *name;
    enum launch_how how;
    bool copies, force_timer;
} hows[] = {
    {"plain", LAUNCH_PLAIN, false, false},  {"watch", LAUNCH_COUNT, false, false},
    {"count", LAUNCH_COUNT, true, false},   {"sampled", LAUNCH_SAMPLED, false, false},
    {"timer", LAUNCH_SAMPLED, false, true},
};

static int run(const struct how *how, struct launch_program *p, const char *result)
{
    struct launch_options opt = {.how = how->how, .force_timer = how->force_timer};
    struct launch_result *r;
    int status = 125 << 8;
    if (how->how == LAUNCH_COUNT)
        opt.mode = launch_mode_probe();
    struct rewrite_options plan = {.plan = REWRITE_COUNT};
    if (opt.mode == LAUNCH_MODE_PATH)
        plan.rpath = launch_path_mode_dir(p);
    if (how->copies && launch_copies_make(p, &plan) < 0)
        return status;
    if (launch_run(p, &opt, &r) < 0)
        return status;
    status = r->status;
    if (strcmp(result, "-"))
        print_result(result, p, r, (int)opt.mode);
    launch_remember_modules(p);
    launch_result_free(r);
    return status;
}

int main(int argc, char **argv)
{
    struct launch_program *p;
    size_t how = 0;
    if (argc < 4)
        return 126;
    while (how < ARRAY_LEN(hows) && strcmp(argv[1], hows[how].name))
        how++;
    if (how == ARRAY_LEN(hows))
        return 126;
    if (launch_program_find((const char *const *)argv + 3, &p) < 0)
        return 2;
    int status = run(&hows[how], p, argv[2]);
    launch_program_free(p);
    launch_exit_like(status);
}
