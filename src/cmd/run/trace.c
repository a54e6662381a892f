/* SPDX-License-Identifier: Apache-2.0
 * mtool trace: the references that a program makes, written while it runs in a form that other tools read, or only
 * counted. */
#include "cache/cache.h"
#include "cmd/allocations/allocations.h"
#include "cmd/allocations/detector.h"
#include "cmd/cmd.h"
#include "cmd/spy/merge.h"
#include "launch/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum form { FORM_LACKEY, FORM_DIN, FORM_SITES, FORM_COUNT, FORM_ALLOCATIONS, FORM_ALLOCATORS };
enum { BUFFER_BYTES = 1 << 20, LINE_BYTES_MAX = 48, FILTER_MIN = 16, FILTER_MAX = 4096, LINE = 64, SETS_MAX = 32 };
enum { ELEMENTS_BITS = 40 }; /* no program executes a string instruction for more elements */

struct module {
    struct rewrite_map *map; /* NULL: it has no copy */
    uint64_t *count;         /* [map->site_count] entries; of ranges, elements */
};
struct trace {
    const struct cmd_args *args;
    enum form form;
    struct launch_program *program;
    struct module *modules; /* [module_count of the program as it began] */
    size_t module_count;
    const struct launch_tags *tags;
    uint32_t tag, module; /* of the last entry */
    uint64_t references[REWRITE_SITE_LOAD + REWRITE_SITE_STORE + 1], unknown, untold;
    struct data *data;        /* FORM_ALLOCATIONS */
    struct data_watched *own; /* allocators that the options name */
    struct allocations *allocations;
    struct detector *detector; /* FORM_ALLOCATORS */
    size_t allocators;         /* that it found */
    struct merge *merge;       /* of threads: who gives back what another one allocated does so later */
    uint32_t process;          /* that is told of, as chunks name it; ID_NONE: none has come */
    FILE *out;                 /* NULL: nothing is written while it runs */
    int error;
    char *buffer;
    size_t used;
};

/* ---- writing ---- */

static void flush(struct trace *t)
{
    if (t->out && !t->error && fwrite(t->buffer, 1, t->used, t->out) != t->used)
        t->error = errno ? errno : EIO;
    t->used = 0;
}

static void put(struct trace *t, const char *lead, uint64_t address)
{
    static const char digits[] = "0123456789abcdef";
    while (*lead)
        t->buffer[t->used++] = *lead++;
    int shift = 28;
    while (shift < 60 && address >> (shift + 4))
        shift += 4;
    for (; shift >= 0; shift -= 4)
        t->buffer[t->used++] = digits[address >> shift & 15];
}

static void put_lackey(struct trace *t, uint64_t address, uint64_t bytes, const struct rewrite_site *s)
{
    static const char *const leads[] = {
        [REWRITE_SITE_LOAD] = " L ", [REWRITE_SITE_STORE] = " S ", [REWRITE_SITE_LOAD | REWRITE_SITE_STORE] = " M "};
    put(t, leads[s->flags & (REWRITE_SITE_LOAD | REWRITE_SITE_STORE)], address);
    t->buffer[t->used++] = ',';
    if (bytes >= 10)
        t->buffer[t->used++] = (char)('0' + bytes / 10);
    t->buffer[t->used++] = (char)('0' + bytes % 10);
    t->buffer[t->used++] = '\n';
}

static void put_din(struct trace *t, uint64_t address, const struct rewrite_site *s)
{
    for (unsigned writes = 0; writes < 2; writes++) {
        if (!(s->flags & (writes ? REWRITE_SITE_STORE : REWRITE_SITE_LOAD)))
            continue;
        put(t, writes ? "1 " : "0 ", address);
        t->buffer[t->used++] = '\n';
    }
}

static void write_piece(struct trace *t, uint64_t address, uint64_t bytes, const struct rewrite_site *s)
{
    if (t->used > BUFFER_BYTES - 2 * LINE_BYTES_MAX)
        flush(t);
    if (t->form == FORM_LACKEY)
        put_lackey(t, address, bytes, s);
    else if (t->form == FORM_DIN)
        put_din(t, address, s);
}

static void write_reference(struct trace *t, uint64_t address, const struct rewrite_site *s)
{
    write_piece(t, address, s->bytes, s);
}

/* ---- the stream ---- */

/* NULL: no entry that can be believed. */
static const struct rewrite_site *any_site_of(struct trace *t, const struct wire_entry *e)
{
    if (e->module != t->tag || t->module == ID_NONE) {
        t->tag = e->module;
        t->module = launch_tag_module(t->tags, e->module);
    }
    const struct rewrite_map *m = t->module < t->module_count ? t->modules[t->module].map : NULL;
    return m && e->site < m->site_count ? &m->sites[e->site] : NULL;
}

static const struct rewrite_site *site_of(struct trace *t, const struct wire_entry *e)
{
    const struct rewrite_site *s = any_site_of(t, e);
    return s && s->bytes && s->flags & (REWRITE_SITE_LOAD | REWRITE_SITE_STORE) ? s : NULL;
}

static void note(struct trace *t, uint32_t site, uint64_t times)
{
    const struct rewrite_site *s = &t->modules[t->module].map->sites[site];
    t->references[s->flags & (REWRITE_SITE_LOAD | REWRITE_SITE_STORE)] += times;
    t->modules[t->module].count[site] += times;
}

static void take_reference(struct trace *t, const struct wire_entry *e)
{
    const struct rewrite_site *s = site_of(t, e);
    if (!s) {
        t->unknown++;
        return;
    }
    note(t, e->site, 1);
    if (t->out && !(s->flags & REWRITE_SITE_PREFETCH))
        write_reference(t, e->address, s);
}

struct string { /* what one instruction did, by one or two ranges */
    const struct rewrite_site *site[2];
    struct wire_range range[2];
    unsigned count;
};

/* Element by element, as it was executed. */
static void write_string(struct trace *t, const struct string *s)
{
    for (uint64_t i = 0; i < s->range[0].elements; i++)
        for (unsigned k = 0; k < s->count; k++) {
            uint64_t off = i * s->site[k]->bytes;
            write_reference(t, s->range[k].address + (s->range[k].flags & WIRE_FLAG_DOWN ? -off : off), s->site[k]);
        }
}

static void take_untold(struct trace *t, const struct wire_entry *e)
{
    if (!any_site_of(t, e))
        return;
    t->untold++;
    t->modules[t->module].count[e->site]++;
}

static void take_reach(struct trace *t, const struct wire_entry *e)
{
    struct wire_reach reach;
    const struct rewrite_site *s = site_of(t, e);
    memcpy(&reach, e + 1, sizeof reach);
    if (!s || reach.bytes >> ELEMENTS_BITS) {
        t->unknown++;
        return;
    }
    note(t, e->site, (reach.bytes + s->bytes - 1) / s->bytes);
    for (uint64_t n = 0; t->out && n < reach.bytes; n += s->bytes)
        write_piece(t, reach.address + n, min_u64(s->bytes, reach.bytes - n), s);
}

/* The next range of the same instruction; false: it is not, or cannot be believed. */
static bool add_range(struct trace *t, struct string *s, const struct wire_entry *e)
{
    struct wire_range range;
    const struct rewrite_site *site = site_of(t, e);
    memcpy(&range, e + 1, sizeof range);
    if (!site || range.elements >> ELEMENTS_BITS)
        return false;
    if (s->count && (site->addr != s->site[0]->addr || site <= s->site[0])) /* the latter: executed once more */
        return false;
    s->site[s->count] = site;
    s->range[s->count++] = range;
    note(t, e->site, s->range[0].elements);
    return true;
}

/* Returns how many entries it took. */
static size_t take_event(struct trace *t, const struct wire_entry *e, size_t left)
{
    enum { ENTRIES = 1 + sizeof(struct wire_range) / sizeof *e };
    struct string s = {.count = 0};
    size_t at = 0;
    if (wire_event_kind(e) == WIRE_EVENT_UNTOLD)
        take_untold(t, e);
    if (wire_event_kind(e) == WIRE_EVENT_REACH && left > 1)
        take_reach(t, e);
    if (wire_event_kind(e) != WIRE_EVENT_RANGE)
        return 1 + wire_event_entries(e);
    while (s.count < 2 && left - at >= ENTRIES && wire_is_event(&e[at]) &&
           wire_event_kind(&e[at]) == WIRE_EVENT_RANGE && add_range(t, &s, &e[at]))
        at += ENTRIES;
    t->unknown += !at;
    if (t->out)
        write_string(t, &s);
    return at ? at : ENTRIES;
}

static void take(void *ctx, const struct launch_chunk *c)
{
    struct trace *t = ctx;
    for (size_t i = 0; i < c->count;) {
        if (wire_is_event(&c->entries[i])) {
            i += take_event(t, &c->entries[i], c->count - i);
        } else {
            take_reference(t, &c->entries[i]);
            i++;
        }
    }
}

static void begin(void *ctx, const struct launch_tags *tags)
{
    struct trace *t = ctx;
    t->tags = tags;
    t->module = ID_NONE;
}

/* ---- allocations ---- */

static const struct rewrite_map *map_of(void *ctx, size_t module)
{
    const struct trace *t = ctx;
    return module < t->module_count ? t->modules[module].map : NULL;
}

static void started(void *ctx, int pid)
{
    const struct trace *t = ctx;
    if (t->allocations)
        allocations_started(t->allocations, pid);
}

static void take_piece(void *ctx, const struct launch_chunk *c)
{
    struct trace *t = ctx;
    for (size_t i = 0; i < c->count;)
        i += wire_is_event(&c->entries[i]) ? allocations_take(t->allocations, c, &c->entries[i], c->count - i) : 1;
}

static void take_detector(void *ctx, const struct launch_chunk *c)
{
    detector_take(((struct trace *)ctx)->detector, c);
}

static void take_allocations(void *ctx, const struct launch_chunk *c)
{
    struct trace *t = ctx;
    if (t->process == ID_NONE) {
        t->process = c->process;
        if (t->allocations)
            allocations_read_maps(t->allocations);
    }
    if (c->process == t->process)
        merge_add(t->merge, c);
}

static void begin_allocations(struct trace *t)
{
    t->data = data_new();
    t->allocations = allocations_new(
        t->data,
        &(struct allocations_options){
            .program = t->program, .map_of = map_of, .ctx = t, .own = t->own, .own_count = t->args->allocators.count});
    t->merge = merge_new(MERGE_SPREAD, take_piece, t);
    t->process = ID_NONE;
}

static int begin_detector(struct trace *t)
{
    if (t->module_count != 1 || !t->modules[0].map)
        return diag_error("trace: %s cannot be rewritten, so nothing is known of its functions", t->program->path);
    t->detector = detector_new(t->program, t->modules[0].map);
    t->merge = merge_new(MERGE_SPREAD, take_detector, t);
    t->process = ID_NONE;
    return 0;
}

static bool is_told(const struct data_object *o)
{
    return o->kind == DATA_HEAP && o->layer != DATA_LAYER_MAPPING && o->blocks;
}

/* How many blocks and bytes each place allocated, and how many bytes of them were there at a time. */
static void write_allocations(struct trace *t)
{
    for (uint32_t i = 0; i < data_object_count(t->data); i++) {
        const struct data_object *o = data_object(t->data, i);
        if (is_told(o))
            fprintf(t->out, "%llu %llu %llu %s\n", (unsigned long long)o->blocks, (unsigned long long)o->bytes,
                    (unsigned long long)o->peak_bytes, data_object_name(t->data, i));
    }
}

static void say_allocations(const struct trace *t)
{
    uint64_t blocks = 0, bytes = 0;
    for (uint32_t i = 0; i < data_object_count(t->data); i++) {
        const struct data_object *o = data_object(t->data, i);
        blocks += is_told(o) ? o->blocks : 0;
        bytes += is_told(o) ? o->bytes : 0;
    }
    allocations_warn_of_none(t->allocations);
    struct allocations_lost lost = {0};
    allocations_add_lost(t->allocations, &lost);
    allocations_warn_of_lost(t->program->path, &lost);
    diag_note("%llu allocations of %llu bytes", (unsigned long long)blocks, (unsigned long long)bytes);
}

/* ---- the job ---- */

static int open_maps(struct trace *t)
{
    const struct launch_program *p = t->program;
    t->modules = ARENA_ARRAY(t->args->arena, struct module, p->module_count);
    t->module_count = p->module_count;
    for (size_t i = 0; i < p->module_count; i++) {
        if (!p->modules[i].copy)
            continue;
        if (rewrite_map_open(p->modules[i].map, &t->modules[i].map) < 0)
            return -1;
        t->modules[i].count = xmalloc_sparse((t->modules[i].map->site_count + 1ull) * sizeof(uint64_t));
    }
    return 0;
}

static uint8_t filter_shift(uint64_t line_bytes) { return line_bytes ? (uint8_t)__builtin_ctzll(line_bytes) : 0; }

/* Of caches of 64 sets, as the filter has. */
static struct rewrite_sets sets_of(const struct cmd_args *a)
{
    uint32_t line = a->filter ? (uint32_t)a->filter : LINE;
    struct cache_config one = {{{.size_bytes = 64ull * line, .line_bytes = line, .ways = 1, .side = CACHE_DATA}}, 1};
    struct cache_part part;
    if (cache_choose_part(&one, 1, a->sets ? (unsigned)a->sets : 1, 0, &part) < 0)
        part = (struct cache_part){.one_in = 0};
    return (struct rewrite_sets){(uint8_t)part.shift, CACHE_PART_FACTOR, part.mask, part.value};
}

static int make_copies(struct trace *t, enum launch_mode mode)
{
    struct launch_program *p = t->program;
    struct rewrite_options opt = {.plan = REWRITE_REFERENCES,
                                  .threads = true,
                                  .poison = t->args->poison,
                                  .filter_shift = filter_shift(t->args->filter),
                                  .sets = sets_of(t->args),
                                  .samples = t->args->sample_length || t->form == FORM_ALLOCATORS,
                                  .watch_all = t->form == FORM_ALLOCATORS,
                                  .rpath = mode == LAUNCH_MODE_PATH ? launch_path_mode_dir(p) : NULL};
    if (t->form == FORM_ALLOCATIONS)
        allocations_watch(t->args->arena, t->own, t->args->allocators.count, &opt);
    if (launch_copies_make(p, &opt) < 0)
        return -1;
    if (!p->modules[0].copy)
        diag_warn("not-counted", "%s itself cannot be rewritten (%s): only what its libraries refer to is told",
                  p->modules[0].path, p->modules[0].refused ? p->modules[0].refused : "unknown reason");
    return 0;
}

/* Of references whose number is not that of executions. */
static const char *how_of(const struct rewrite_site *s)
{
    return s->flags & REWRITE_SITE_KERNEL     ? "kernel-"
           : s->flags & REWRITE_SITE_RANGE    ? "range-"
           : s->flags & REWRITE_SITE_ELEMENTS ? "elements-"
           : s->flags & REWRITE_SITE_REACH    ? "reach-"
                                              : "";
}

static int write_sites(struct trace *t)
{
    for (size_t i = 0; i < t->module_count; i++)
        for (uint32_t k = 0; t->modules[i].map && k < t->modules[i].map->site_count; k++) {
            const struct rewrite_site *s = &t->modules[i].map->sites[k];
            static const char *const kinds[] = {"untold", "load", "store", "modify"};
            if (t->modules[i].count[k])
                fprintf(t->out, "%s 0x%llx %s%s%s %u %llu\n", t->program->modules[i].path, (unsigned long long)s->addr,
                        how_of(s), kinds[s->flags & 3], s->flags & REWRITE_SITE_PREFETCH ? "-prefetch" : "", s->bytes,
                        (unsigned long long)t->modules[i].count[k]);
        }
    return ferror(t->out) ? -1 : 0;
}

static int end_output(struct trace *t, const char *path)
{
    flush(t);
    if (t->form == FORM_ALLOCATIONS && t->out && t->data)
        write_allocations(t);
    if (t->detector && t->out)
        t->allocators = detector_write(t->detector, t->out);
    if (t->form == FORM_SITES && !t->error && write_sites(t) < 0)
        t->error = EIO;
    if (t->out && fclose(t->out) != 0 && !t->error)
        t->error = errno;
    t->out = NULL;
    return t->error ? diag_error("trace: %s: cannot be written: %s", path, strerror(t->error)) : 0;
}

static void pass_sample(void *ctx, const struct launch_sample_end *end) { (void)ctx, (void)end; }

static int run(struct trace *t, int *status)
{
    struct launch_samples samples = {.length = t->args->sample_length, .period_s = 0.001, .part = 0.1, .seed = 1};
    bool is_of_allocations = t->form == FORM_ALLOCATIONS, is_detector = t->form == FORM_ALLOCATORS;
    if (is_detector) /* none is ever taken */
        samples = (struct launch_samples){.length = 1, .period_s = 1e9, .part = 1e-9, .is_even = true};
    struct launch_reference_options references = {.begin = begin,
                                                  .started = started,
                                                  .take = is_of_allocations || is_detector ? take_allocations : take,
                                                  .ctx = t};
    if (samples.length) {
        references.samples = &samples;
        references.sample = pass_sample;
    }
    struct launch_options opt = {.how = LAUNCH_REFERENCES, .mode = launch_mode_probe(), .references = &references};
    struct launch_result *r = NULL;
    if (make_copies(t, opt.mode) < 0 || open_maps(t) < 0)
        return -1;
    if (is_detector && begin_detector(t) < 0)
        return -1;
    if (is_of_allocations)
        begin_allocations(t);
    if (is_of_allocations && allocations_have_own(t->allocations) < 0)
        return -1;
    if (launch_run(t->program, &opt, &r) < 0)
        return -1;
    if (t->merge)
        merge_end(t->merge);
    *status = r->status;
    diag_debug(1, "the program took %.3f s, of the kernel %.3f s, until its end %.3f s", r->user_s, r->system_s,
               r->wall_s);
    int rc = 0;
    if (r->references_lost || r->references_broken || (r->flags & WIRE_LOST))
        rc = diag_error("trace: %llu references or more were lost, the trace is not whole: %s",
                        (unsigned long long)r->references_lost,
                        r->references_broken ? "the program wrote over mtool's memory" : "there was not enough memory");
    launch_remember_modules(t->program);
    launch_result_free(r);
    return rc;
}

static void say(const struct trace *t)
{
    const uint64_t *n = t->references;
    uint64_t all = n[REWRITE_SITE_LOAD] + n[REWRITE_SITE_STORE] + n[REWRITE_SITE_LOAD | REWRITE_SITE_STORE];
    diag_note("%llu references: %llu loads, %llu stores, %llu both", (unsigned long long)all,
              (unsigned long long)n[REWRITE_SITE_LOAD], (unsigned long long)n[REWRITE_SITE_STORE],
              (unsigned long long)n[REWRITE_SITE_LOAD | REWRITE_SITE_STORE]);
    if (t->untold)
        diag_note("%llu times an instruction was executed whose references are not told",
                  (unsigned long long)t->untold);
    if (t->unknown)
        diag_note("%llu entries told of no reference that is known: they are left out", (unsigned long long)t->unknown);
}

/* Of a run that failed nothing stays. */
static void drop_output(const struct trace *t, const char *path)
{
    struct stat st;
    if (t->form != FORM_COUNT && stat(path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(path);
}

static int open_output(struct trace *t, const char *path)
{
    t->buffer = xmalloc(BUFFER_BYTES);
    if (t->form == FORM_COUNT)
        return 0;
    if (cmd_place_check("trace", path, t->program->path, t->args->force) < 0)
        return -1;
    t->out = fopen(path, "we");
    return t->out ? 0 : diag_error("trace: %s: cannot be written: %s", path, strerror(errno));
}

static void fini(struct trace *t)
{
    for (size_t i = 0; i < t->module_count; i++) {
        rewrite_map_close(t->modules[i].map);
        xfree_sparse(t->modules[i].count);
    }
    merge_free(t->merge);
    detector_free(t->detector);
    allocations_free(t->allocations);
    data_free(t->data);
    free(t->buffer);
    launch_program_free(t->program);
}

int cmd_trace(const struct cmd_args *a)
{
    struct trace t = {.args = a, .form = (enum form)a->form};
    int status = 0, rc = CMD_UNUSABLE;
    if (a->filter && (a->filter & (a->filter - 1) || a->filter < FILTER_MIN || a->filter > FILTER_MAX))
        return diag_error("trace: --filter %llu: give the bytes of a line, a power of two from %d to %d",
                          (unsigned long long)a->filter, FILTER_MIN, FILTER_MAX),
               CMD_UNUSABLE;
    if (a->sets & (a->sets - 1) || a->sets > SETS_MAX)
        return diag_error("trace: --sets 1/%llu: N must be a power of two, %d at most", (unsigned long long)a->sets,
                          SETS_MAX),
               CMD_UNUSABLE;
    if (t.form == FORM_COUNT && a->output)
        return diag_error("trace: --form count writes no file, so it excludes --output"), CMD_UNUSABLE;
    if (a->allocators.count && t.form != FORM_ALLOCATIONS)
        return diag_error("trace: --allocator goes with --form allocations"), CMD_UNUSABLE;
    if (allocators_choose(a->arena, &a->allocators, &t.own) < 0 || launch_program_find(a->rest, &t.program) < 0)
        return CMD_UNUSABLE;
    if (t.form == FORM_ALLOCATORS && detector_check(t.program) < 0) {
        launch_program_free(t.program);
        return CMD_UNUSABLE;
    }
    const char *path = a->output ? a->output : arena_printf(a->arena, "%s.trace", file_base_name(t.program->path));
    if (open_output(&t, path) == 0) {
        rc = run(&t, &status) < 0 ? CMD_SELF_FAILED : 0;
        if (end_output(&t, path) < 0)
            rc = CMD_SELF_FAILED;
        if (rc || (t.detector && !t.allocators))
            drop_output(&t, path);
    }
    if (rc == 0 && t.detector)
        diag_note(t.allocators ? "%zu functions allocate or free for sure"
                               : "%zu functions allocate or free for sure: nothing is written",
                  t.allocators);
    else if (rc == 0 && t.data)
        say_allocations(&t);
    else if (rc == 0)
        say(&t);
    fini(&t);
    if (rc == 0)
        launch_exit_like(status);
    return rc;
}
