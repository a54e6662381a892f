/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's references through simulated caches while it runs. The counted run comes first: of it are the exact
 * counts, and the functions and loops that misses are told of.
 */
#include "cmd/spy/program.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

void spied_read_maps(struct spied_program *s) { allocations_read_maps(s->allocations); }

/* ---- which object ---- */

static uint32_t frames_of_function(struct spied_program *s, uint32_t number)
{
    const struct spy_site *site = spy_site(s->spy, number);
    const struct spied_module *m = &s->modules[site->module];
    uint32_t func = cfg_func_at(m->map->cfg, site->address);
    const char *name = func == ID_NONE ? NULL : image_symbol_name(m->img, m->map->cfg->funcs.data[func].addr, NULL);
    return name ? data_stack_of(s->data, ID_NONE, arena_printf(s->arena, "stack of %s", name)) : s->stack_object;
}

/* Frames are told by the procedure that reaches them. */
uint32_t spied_frames(struct spied_program *s, uint32_t site)
{
    uint32_t *known = &s->stack_of[site];
    if (!*known)
        *known = frames_of_function(s, site);
    return *known;
}

static void find_layout(struct spied_program *s, uint32_t object)
{
    const struct data_object *o = data_object(s->data, object);
    while (s->layouts.len <= object)
        VEC_PUSH(&s->layouts, SPIED_UNKNOWN);
    bool is_variable = o->kind == DATA_GLOBAL || o->kind == DATA_THREAD;
    s->layouts.data[object] = is_variable && data_fields(s->data, object) ? SPIED_FIELDS : SPIED_PLAIN;
}

static bool has_fields(struct spied_program *s, uint32_t object)
{
    if (object >= s->layouts.len || s->layouts.data[object] == SPIED_UNKNOWN)
        find_layout(s, object);
    return s->layouts.data[object] == SPIED_FIELDS;
}

/* Of variables that debug information describes; by its place among the fields, from 1. */
static uint32_t field_of(struct spied_program *s, const struct data_block *b, uint64_t address)
{
    size_t part;
    if (!has_fields(s, b->object))
        return 0;
    bool is_known = data_field(s->data, b->object, address - b->start, &part) && part + 1 < SPY_FIELDS_MAX;
    return is_known ? (uint32_t)part + 1 : 0;
}

static void look_up(struct spied_program *s, struct spy_access *a)
{
    const struct data_block *b = data_block_at(s->data, a->address);
    if (!b->object) {
        spied_read_maps(s);
        b = data_block_at(s->data, a->address);
    }
    a->hint = (struct spy_hint){(uint32_t)(b - s->data->blocks), b->serial};
    if (b->object && b->object == s->stack_object) {
        a->whose = (struct spy_whose){.object = spied_frames(s, a->site)};
        return;
    }
    a->whose = (struct spy_whose){b->object, 0};
    if (has_fields(s, b->object)) {
        a->whose.field = field_of(s, b, a->address);
        a->hint = (struct spy_hint){0, 0}; /* another address may be another field's */
    }
}

struct spy_whose spied_variable(struct spied_program *s, uint64_t address)
{
    const struct data_block *b = data_block_at(s->data, address);
    bool is_variable = data_object(s->data, b->object)->kind == DATA_GLOBAL;
    return is_variable ? (struct spy_whose){b->object, field_of(s, b, address)} : (struct spy_whose){0, 0};
}

/* What many look-ups go through is far off: it is fetched for all of them first, step by step. */
static void find_whose(void *ctx, struct spy_access *accesses, size_t count)
{
    struct spied_program *s = ctx;
    struct spy_access *others[SPY_PENDING];
    size_t n = 0;
    assert(count <= SPY_PENDING);
    for (struct spy_access *a = accesses; a < accesses + count; a++)
        if (!data_block_still_holds(s->data, a->hint.block, a->hint.serial, a->address)) {
            data_fetch_granule(s->data, a->address);
            others[n++] = a;
        }
    for (size_t i = 0; i < n; i++)
        data_fetch_block(s->data, others[i]->address);
    for (size_t i = 0; i < n; i++)
        look_up(s, others[i]);
}

/* ---- sites ---- */

static struct spy_site site_of(uint32_t module, const struct rewrite_site *from)
{
    unsigned both = REWRITE_SITE_LOAD | REWRITE_SITE_STORE;
    enum cache_kind kind = (from->flags & both) == both       ? CACHE_MODIFY
                           : from->flags & REWRITE_SITE_STORE ? CACHE_WRITE
                                                              : CACHE_READ;
    uint16_t bytes = from->bytes ? from->bytes : 1;
    return (struct spy_site){
        .address = from->addr, .module = module, .bytes = from->flags & both ? bytes : 0, .kind = (uint8_t)kind};
}

static void grow_stacks(struct spied_program *s)
{
    size_t count = spy_site_count(s->spy);
    s->stack_of = xrealloc(s->stack_of, (count + 1) * sizeof *s->stack_of);
    memset(s->stack_of + s->stack_count, 0, (count + 1 - s->stack_count) * sizeof *s->stack_of);
    s->stack_count = count + 1;
}

void spied_add_sites(struct spied_program *s, uint32_t module)
{
    struct spied_module *m = &s->modules[module];
    if (m->first_site != ID_NONE)
        return;
    struct spy_site *sites = xmalloc((m->site_count + 1ull) * sizeof *sites);
    for (uint32_t i = 0; i < m->site_count; i++)
        sites[i] = site_of(module, &m->map->sites[i]);
    m->first_site = spy_site_count(s->spy);
    spy_add_sites(s->spy, sites, m->site_count);
    free(sites);
    grow_stacks(s);
}

static int add_module(struct spied_program *s, uint32_t number, const struct launch_module *from)
{
    struct spied_module *m = &s->modules[number];
    m->first_site = ID_NONE;
    if (from->copy && (rewrite_map_open(from->map, &m->map) < 0 || image_open(from->path, &m->img) < 0))
        return -1;
    m->site_count = m->map ? m->map->site_count : 0;
    return 0;
}

static int add_modules(struct spied_program *s)
{
    const struct launch_program *p = s->profile->program;
    s->module_count = p->module_count;
    s->modules = ARENA_ARRAY(s->arena, struct spied_module, s->module_count + 1);
    for (uint32_t i = 0; i < s->module_count; i++)
        if (add_module(s, i, &p->modules[i]) < 0)
            return -1;
    for (uint32_t i = 0; i < s->module_count; i++)
        spied_add_sites(s, i);
    return 0;
}

static void begin(void *ctx, const struct launch_tags *tags)
{
    struct spied_program *s = ctx;
    struct launch_tags *kept = ARENA_NEW(s->arena, struct launch_tags);
    *kept = *tags; /* what the merge holds comes when the run is over */
    s->tags = kept;
}

static void started(void *ctx, int pid)
{
    struct spied_program *s = ctx;
    s->pid = pid;
    allocations_started(s->allocations, pid);
}

static const struct rewrite_map *map_of(void *ctx, size_t module)
{
    const struct spied_program *s = ctx;
    return module < s->module_count ? s->modules[module].map : NULL;
}

/* ---- some sets ---- */

static struct cache_config *configs_of(const struct spied_program *s)
{
    struct cache_config *configs = ARENA_ARRAY(s->arena, struct cache_config, s->cache_count + 1);
    for (size_t i = 0; i < s->cache_count; i++)
        configs[i] = s->caches[i].config;
    return configs;
}

/* The same each time, and not that of the first lines of pages. */
static unsigned which_part(unsigned one_in) { return one_in / 2 + one_in / 8; }

/* Sets of TLBs are of pages: they have none in common with caches. */
static int choose_part(struct spied_program *s)
{
    uint64_t n = max_u64(s->profile->args->sets, 1);
    if (n & (n - 1))
        return diag_error("--sets 1/%llu: N must be a power of two, as the sets of caches are", (unsigned long long)n);
    if (n > 1)
        spied_leave_out_tlbs(s);
    return cache_choose_part(configs_of(s), s->cache_count, (unsigned)n, which_part((unsigned)n), &s->part);
}

/* ---- the run ---- */

static void make_spy(struct spied_program *s)
{
    const struct cache_config *configs = configs_of(s);
    if (s->has_threads && s->is_filtered)
        s->simulated = simulated_new();
    s->spy = spy_new(&(struct spy_options){.configs = configs,
                                           .config_count = s->cache_count,
                                           .curve_line = s->samples.length ? 0 : spy_curve_line(&s->caches[0].config),
                                           .curve_least = SPY_CURVE_MIN,
                                           .curve_bytes = SPY_CURVE_MAX,
                                           .has_threads = s->has_threads,
                                           .lost = s->simulated ? simulated_lost(s->simulated) : NULL,
                                           .filter_shift = s->filter_lines > 1 ? s->filter_shift : 0,
                                           .part = s->part,
                                           .find_whose = find_whose,
                                           .ctx = s});
}

int spied_check_rank(const char *what)
{
    struct cmd_rank r = cmd_rank_of_job();
    if (r.rank == ID_NONE)
        return 0;
    return diag_error("%s: the program would be run more than once, but a process can join its parallel job only once "
                      "(this is rank %u)",
                      what, r.rank),
           CMD_UNUSABLE;
}

/* Caches that only a description of this machine has are not known yet. */
int spied_check(const struct cmd_args *a)
{
    struct arena *arena = arena_new();
    struct spy_caches *caches;
    struct data_watched *own;
    size_t count;
    bool bad = (a->caches.count && spy_choose_caches(a, arena, &caches, &count) < 0) ||
               allocators_choose(arena, &a->allocators, &own) < 0;
    arena_free(arena);
    return bad ? CMD_UNUSABLE : spied_check_samples(a);
}

struct spied_program *spied_new(struct profile *p)
{
    struct spied_program *s = xmalloc(sizeof *s);
    s->profile = p;
    s->arena = arena_new();
    s->process = ID_NONE;
    s->last_tag = s->last_module = ID_NONE;
    if (spy_choose_caches(p->args, s->arena, &s->caches, &s->cache_count) == 0 && choose_part(s) == 0 &&
        allocators_choose(s->arena, &p->args->allocators, &s->own) == 0) {
        spy_try_huge_pages(s->caches, s->cache_count);
        return s;
    }
    spied_free(s);
    return NULL;
}

void spied_free(struct spied_program *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->module_count; i++) {
        rewrite_map_close(s->modules[i].map);
        image_close(s->modules[i].img);
    }
    family_free(s->family);
    spied_process_free(s);
}

void spied_process_free(struct spied_program *s)
{
    merge_free(s->merge);
    merge_free(s->second_merge);
    spy_free(s->spy);
    simulated_free(s->simulated);
    locals_free(s->locals);
    allocations_free(s->allocations);
    VEC_FREE(&s->layouts);
    VEC_FREE(&s->executed);
    data_free(s->data);
    arena_free(s->arena);
    free(s->stack_of);
    free(s);
}

static int make_copies(struct spied_program *s)
{
    struct profile *p = s->profile;
    struct rewrite_options opt = {.plan = REWRITE_REFERENCES,
                                  .threads = true,
                                  .filter_shift = s->filter_shift,
                                  .filter_lines = s->filter_lines,
                                  .filter_threads = s->filter_shift && s->has_threads,
                                  .samples = s->samples.length != 0,
                                  .sets = {(uint8_t)s->part.shift, CACHE_PART_FACTOR, s->part.mask, s->part.value},
                                  .rpath = p->mode == LAUNCH_MODE_PATH ? launch_path_mode_dir(p->program) : NULL};
    double since = time_now_s();
    allocations_watch(s->arena, s->own, p->args->allocators.count, &opt);
    if (launch_copies_make(p->program, &opt) < 0)
        return CMD_SELF_FAILED;
    profile_note_phase(p, "rewriting for references", since);
    return 0;
}

/* What keeps its references from being told; NULL: nothing. */
static const char *cannot_follow(const struct launch_program *p)
{
    if (!p->counts_by_thread)
        return "it, or a library of its, uses the processor's register gs for itself, which references are told by";
    for (size_t i = 0; i < p->module_count; i++)
        if (p->modules[i].copy)
            return NULL;
    return "neither it nor a library of its can be rewritten";
}

/* Of `data`. */
static void make_simulation(struct spied_program *s, struct data *data)
{
    make_spy(s);
    s->data = data;
    s->merge = merge_new(MERGE_SPREAD, spied_take_piece, s);
    if (s->has_threads)
        s->second_merge = merge_new(MERGE_EARLY, spied_take_again, s);
    s->stack_object = data_stack_of(s->data, ID_NONE, "stack");
    s->locals = locals_new();
}

struct spied_program *spied_process_new(struct spied_program *all, struct data *data, const char *executable)
{
    struct spied_program *s = xmalloc(sizeof *s);
    *s = (struct spied_program){.profile = all->profile,
                                .has_threads = all->has_threads,
                                .arena = arena_new(),
                                .caches = all->caches,
                                .cache_count = all->cache_count,
                                .is_filtered = all->is_filtered,
                                .filter_shift = all->filter_shift,
                                .filter_lines = all->filter_lines,
                                .part = all->part,
                                .tags = all->tags,
                                .module_count = all->module_count,
                                .last_tag = ID_NONE,
                                .last_module = ID_NONE};
    s->executable = executable ? arena_strdup(s->arena, executable) : NULL;
    s->modules = ARENA_ARRAY(s->arena, struct spied_module, s->module_count + 1);
    memcpy(s->modules, all->modules, s->module_count * sizeof *s->modules);
    for (size_t i = 0; i < s->module_count; i++)
        s->modules[i].first_site = ID_NONE;
    make_simulation(s, data ? data : data_new_beside(all->data));
    s->allocations = allocations_new_beside(all->allocations, s->data);
    return s;
}

static int begin_simulation(struct spied_program *s)
{
    make_simulation(s, data_new());
    if (add_modules(s) < 0)
        return CMD_SELF_FAILED;
    struct allocations_options opt = {.program = s->profile->program,
                                      .map_of = map_of,
                                      .ctx = s,
                                      .own = s->own,
                                      .own_count = s->profile->args->allocators.count};
    s->allocations = allocations_new(s->data, &opt);
    s->executable = s->profile->program->path;
    if (s->profile->follows)
        s->family = family_new(s);
    return allocations_have_own(s->allocations) < 0 ? CMD_UNUSABLE : 0;
}

static void warn_of_others(const struct spied_program *s)
{
    unsigned long long n = s->of_others;
    if (n && s->family)
        diag_warn("processes-not-simulated",
                  "%llu references were of programs that the counted run did not execute, and are not simulated", n);
    else if (n)
        diag_warn("processes-not-simulated",
                  "the program made processes, whose references (%llu were told) are not simulated; give --follow, or "
                  "what they execute to mtool spy itself",
                  n);
}

static void warn_of_allocations(const struct spied_program *s)
{
    struct allocations_lost lost = s->family ? family_lost(s->family) : (struct allocations_lost){0};
    allocations_warn_of_none(s->allocations);
    allocations_add_lost(s->allocations, &lost);
    allocations_warn_of_lost(s->profile->program->path, &lost);
}

/* Looks at what came of it. */
static int end_simulation(struct spied_program *s, const struct launch_result *run)
{
    if (run->references_broken) {
        s->failed = "it wrote over mtool's memory";
        return CMD_SELF_FAILED;
    }
    if (s->family)
        family_end(s->family);
    spied_end_samples(s);
    if (run->references_lost || run->flags & WIRE_LOST)
        diag_warn("references-lost", "%llu references or more were lost for want of memory: figures are too low",
                  (unsigned long long)run->references_lost);
    warn_of_others(s);
    warn_of_allocations(s);
    return 0;
}

static void ended(void *ctx, uint32_t process)
{
    const struct spied_program *s = ctx;
    if (s->family)
        family_ended(s->family, process);
}

static double own_processor_time(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int run_followed(struct spied_program *s, const struct launch_options *opt, struct launch_result **run)
{
    double before = own_processor_time();
    int rc = profile_run(s->profile, opt, false, run);
    if (rc == 0)
        diag_debug(1, "processor time while %llu references were told: %.4f s of the program, of mtool %.4f s",
                   (unsigned long long)s->references, (*run)->user_s + (*run)->system_s, own_processor_time() - before);
    return rc;
}

static int follow(struct spied_program *s, bool has_threads, struct launch_result **run)
{
    struct launch_reference_options references = {.begin = begin,
                                                  .started = started,
                                                  .take = spied_take,
                                                  .ended = ended,
                                                  .samples = s->samples.length ? &s->samples : NULL,
                                                  .sample = spied_sample,
                                                  .ctx = s};
    struct launch_options opt = {.how = LAUNCH_REFERENCES,
                                 .mode = s->profile->mode,
                                 .follow = s->profile->follows,
                                 .references = &references,
                                 .progress = "simulating caches"};
    s->has_threads = has_threads;
    spied_choose_filter(s, has_threads);
    int rc = make_copies(s);
    s->failed = rc ? NULL : cannot_follow(s->profile->program);
    if (s->failed)
        return CMD_SELF_FAILED;
    if (rc || (rc = begin_simulation(s)) || (rc = run_followed(s, &opt, run)))
        return rc;
    return end_simulation(s, *run);
}

/* Of mtool run it loses the data only, not all that was measured before. */
static int go_without(const struct spied_program *s, int rc)
{
    const char *program = s->profile->program->path;
    bool is_all = s->profile->args->command->id == CMD_ID_spy;
    if (is_all && s->failed)
        diag_error("%s: its references cannot be followed: %s", program, s->failed);
    if (is_all)
        return rc;
    diag_warn("references-not-followed", "%s: its references were not followed, so its data are not in the profile: %s",
              program, s->failed ? s->failed : "the error was said");
    return 0;
}

int spied_run(struct spied_program *s, const struct launch_result *counted, struct prof_input *in)
{
    struct launch_result *run = NULL;
    s->counted = in;
    spied_plan_samples(s, counted);
    int rc = follow(s, counted->flags & WIRE_THREADS, &run);
    if (rc == 0) {
        struct prof_input_spied *found = spied_found(s, run);
        found->overlap = in->machine && machine_is_this(in->machine) ? machine_try_overlap() : NAN;
        found->nodes = machine_nodes("/sys/devices/system/node");
        in->spied = found;
    }
    launch_result_free(run);
    return rc == CMD_SELF_FAILED || rc == CMD_UNUSABLE ? go_without(s, rc) : rc;
}

/* ---- mtool spy -- PROGRAM ---- */

static int join(struct profile *p, struct spied_program *s, const struct launch_result *counted)
{
    struct prof_input in = {.want_blocks = false};
    int rc = profile_inputs(p, counted, NULL, &in);
    if (rc)
        return rc;
    profile_keep_feedback(p, &in);
    rc = spied_run(s, counted, &in);
    return rc ? rc : profile_join(p->result, &in);
}

static int take_counted(struct profile *p, struct spied_program *s, const struct launch_result *counted)
{
    launch_remember_modules(p->program);
    profile_warn_left(counted);
    if (p->args->follow)
        profile_take_processes(p, counted);
    else
        profile_warn_executed(counted);
    return profile_counts_are_exact(counted) ? join(p, s, counted) : CMD_SELF_FAILED;
}

static int spy(struct profile *p, const struct cmd_args *a, struct spied_program **s)
{
    int rc = profile_begin(p, a);
    if (rc)
        return rc;
    *s = spied_new(p);
    if (!*s)
        return CMD_UNUSABLE;
    if ((rc = profile_copies(p)))
        return rc;
    struct launch_options opt = profile_counted_options(p);
    struct launch_result *counted = NULL;
    rc = profile_run(p, &opt, true, &counted);
    if (!rc)
        rc = take_counted(p, *s, counted);
    launch_result_free(counted);
    return rc ? rc : profile_finish(p);
}

int spy_program(const struct cmd_args *a)
{
    struct profile p = {.status = -1};
    struct spied_program *s = NULL;
    int rc = spied_check_rank("spy");
    if (rc || (rc = spied_check(a)))
        return rc;
    rc = spy(&p, a, &s);
    int status = p.status;
    spied_free(s);
    if (rc == 0 && !a->quiet)
        profile_show(&p, a);
    profile_end(&p);
    if (rc == 0 || rc == PROFILE_INTERRUPTED)
        launch_exit_like(status);
    return rc;
}
