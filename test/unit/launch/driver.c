/* SPDX-License-Identifier: Apache-2.0
 * launch behind a command line, so that tests can put it into any surroundings: driver HOW RESULT PROGRAM ARGS...
 * writes "name value" lines to the file RESULT ("-": none) and ends as the program did; 125 if it could not be run, 2 if
 * it was not found. */
#include <stdlib.h>
#include <sys/wait.h>

#include "launch/launch.h"

static void print_samples(FILE *f, const struct launch_program *p, const struct launch_result *r)
{
    fprintf(f, "sampler %d\nsamples_all %llu\nsamples_user %llu\nsamples_lost %llu\nperiod_s %g\n", (int)r->sampler,
            (unsigned long long)r->samples_all, (unsigned long long)r->samples_user,
            (unsigned long long)r->samples_lost, r->sample_period_s);
    for (size_t i = 0; i < r->sample_count; i++) {
        const struct launch_sample *s = &r->samples[i];
        fprintf(f, "sample %s %llx %llu\n", s->module == ID_NONE ? "none" : p->modules[s->module].path,
                (unsigned long long)s->vaddr, (unsigned long long)s->count);
    }
}

static void print_modules(FILE *f, const struct launch_program *p, const struct launch_result *r)
{
    for (size_t i = 0; i < p->module_count; i++) {
        const struct launch_module *m = &p->modules[i];
        fprintf(f, "module %s soname %s exe %d interp %d run_time %d other %d counter0 %lld\n", m->path,
                m->soname ? m->soname : "-", m->is_exe, m->is_interp, m->seen_at_run_time, m->other_program,
                r->counters && r->counters[i] ? (long long)r->counters[i][0] : -1);
    }
}

static void print_result(const char *path, const struct launch_program *p, const struct launch_result *r)
{
    FILE *f = fopen(path, "we");
    if (!f)
        exit(126);
    fprintf(f, "status %d\nuser_s %f\nsystem_s %f\nwall_s %f\nrss_kb %ld\nprocesses %u\nthreads_most %u\nforks %u\n"
            "flags %u\nnote %s\n",
            r->status, r->user_s, r->system_s, r->wall_s, r->max_rss_kb, r->processes, r->threads_most, r->forks,
            r->flags, r->sampler_note ? r->sampler_note : "-");
    print_modules(f, p, r);
    print_samples(f, p, r);
    fclose(f);
}

int main(int argc, char **argv)
{
    static const char *const hows[] = {"plain", "count", "sampled", "timer"};
    struct launch_options opt = {0};
    struct launch_program *p;
    struct launch_result *r;
    unsigned how = 0;
    if (argc < 4)
        return 126;
    while (how < ARRAY_LEN(hows) && strcmp(argv[1], hows[how]))
        how++;
    opt.how = how == 3 ? LAUNCH_SAMPLED : (enum launch_how)how;
    opt.force_timer = how == 3;
    if (launch_program_find((const char *const *)argv + 3, &p) < 0)
        return 2;
    opt.mode = launch_mode_probe();
    int status = 125 << 8;
    if (launch_run(p, &opt, &r) == 0) {
        status = r->status;
        if (strcmp(argv[2], "-"))
            print_result(argv[2], p, r);
        launch_remember_modules(p);
        launch_result_free(r);
    }
    launch_program_free(p);
    launch_exit_like(status);
}
