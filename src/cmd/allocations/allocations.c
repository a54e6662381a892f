/* SPDX-License-Identifier: Apache-2.0
 * Events of the stream to calls of allocators, whose return addresses are those of the originals. */
#include "cmd/allocations/allocations.h"
#include "cmd/allocations/known_paths.h"

#include <stdlib.h>

enum { LOST_PART = 1000 };         /* of which it is said if more than one is not known */
static const double APART = 0.002; /* seconds from one look to the next: a program may map all the time */

struct file { /* a module of the program as it began */
    const char *path, *copy;
    const struct rewrite_map *map;   /* NULL: it has no copy */
    struct rewrite_returns *returns; /* NULL likewise */
};
struct copy { /* a module that was loaded */
    uint64_t load;
    const struct rewrite_returns *returns; /* NULL: it has no copy */
};
struct allocations {
    struct data *data;
    struct data_calls *calls;
    const char *program; /* its path */
    const struct data_watched *own;
    size_t own_count;
    struct file *files;
    size_t file_count;
    bool has_files_of_another;
    VEC(struct copy) copies; /* by data's number of the module */
    int pid;                 /* 0: nothing runs yet */
    double looked_at;        /* what it has mapped */
};

void allocations_watch(struct arena *a, const struct data_watched *own, size_t own_count, struct rewrite_options *out)
{
    size_t n = data_watched_count();
    struct rewrite_watched *all = ARENA_ARRAY(a, struct rewrite_watched, n + own_count);
    for (size_t i = 0; i < n; i++)
        all[i] = (struct rewrite_watched){.name = data_watched_name(i),
                                          .returns = data_watched_returns(i),
                                          .stores = data_watched_stores(i),
                                          .takes_several = data_watched_takes_several(i)};
    for (size_t i = 0; i < own_count; i++)
        if (own[i].address)
            all[own[i].known].addr = own[i].address;
    for (size_t i = 0; i < own_count; i++)
        all[n + i] =
            (struct rewrite_watched){.name = own[i].name,
                                     .returns = own[i].size_argument != DATA_NO_SIZE,
                                     .takes_several = own[i].size_argument != DATA_NO_SIZE && own[i].size_argument > 0,
                                     .is_own = true};
    out->watched = all;
    out->watched_count = n + own_count;
}

/* ---- places in copies ---- */

static const struct rewrite_returns *returns_of(const struct allocations *a, const char *path)
{
    for (size_t i = 0; i < a->file_count; i++) {
        struct file *f = &a->files[i];
        if (strcmp(f->path, path) != 0)
            continue;
        return f->returns;
    }
    return NULL;
}

static void add_copies(struct allocations *a)
{
    for (uint32_t i = (uint32_t)a->copies.len; i < data_module_count(a->data); i++) {
        const char *path = data_module_image(a->data, i)->path;
        VEC_PUSH(&a->copies, ((struct copy){data_module_load(a->data, i), returns_of(a, path)}));
    }
}

static bool find(struct allocations *a, uint64_t address, uint64_t *original)
{
    add_copies(a);
    for (size_t i = a->copies.len; i-- > 0;) {
        const struct copy *c = &a->copies.data[i];
        uint64_t vaddr = 0;
        if (!c->returns || !rewrite_returns_find(c->returns, address - c->load, &vaddr))
            continue;
        *original = c->load + vaddr;
        return true;
    }
    return false;
}

static uint64_t original_of(void *ctx, uint64_t address)
{
    struct allocations *a = ctx;
    uint64_t original = 0;
    if (find(a, address, &original) || data_object_at(a->data, address))
        return original;
    allocations_read_maps(a);
    return find(a, address, &original) ? original : 0;
}

static void copy_files(struct allocations *a, const struct allocations_options *opt)
{
    const struct launch_program *p = opt->program;
    a->files = xmalloc((p->module_count + 1) * sizeof *a->files);
    a->file_count = p->module_count;
    for (size_t i = 0; i < a->file_count; i++)
        a->files[i] = (struct file){p->modules[i].path, p->modules[i].copy, opt->map_of(opt->ctx, i), NULL};
}

static void prepare_returns(void *ctx, size_t first, size_t end)
{
    const struct allocations *a = ctx;
    for (size_t i = first; i < end; i++)
        if (a->files[i].map)
            a->files[i].returns = rewrite_returns_new(a->files[i].map);
}

struct allocations *allocations_new(struct data *d, const struct allocations_options *opt)
{
    struct allocations *a = xmalloc(sizeof *a);
    a->data = d;
    a->program = opt->program->path;
    a->own = opt->own;
    a->own_count = opt->own_count;
    copy_files(a, opt);
    parallel_each(a->file_count, prepare_returns, a);
    for (size_t i = 0; i < a->file_count; i++)
        if (a->files[i].map)
            data_prepare(d, a->files[i].path);
    a->calls = data_calls_new(d, &(struct data_code){original_of, a}, opt->own, opt->own_count);
    return a;
}

struct allocations *allocations_new_beside(const struct allocations *other, struct data *d)
{
    struct allocations *a = xmalloc(sizeof *a);
    *a = (struct allocations){.data = d,
                              .program = other->program,
                              .own = other->own,
                              .own_count = other->own_count,
                              .files = other->files,
                              .file_count = other->file_count,
                              .has_files_of_another = true};
    a->calls = data_calls_new(d, &(struct data_code){original_of, a}, a->own, a->own_count);
    return a;
}

static void free_files(struct allocations *a)
{
    for (size_t i = 0; i < a->file_count; i++)
        rewrite_returns_free(a->files[i].returns);
    free(a->files);
}

void allocations_free(struct allocations *a)
{
    if (!a)
        return;
    data_calls_free(a->calls);
    VEC_FREE(&a->copies);
    if (!a->has_files_of_another)
        free_files(a);
    free(a);
}

static bool gives_memory(const struct rewrite_site *s)
{
    return s->flags & REWRITE_SITE_WATCHED && (s->bytes >= data_watched_count() || data_watched_gives(s->bytes));
}

static bool are_told(const struct allocations *a)
{
    for (size_t i = 0; i < a->file_count; i++) {
        const struct rewrite_map *map = a->files[i].map;
        for (uint32_t k = map ? map->site_count : 0; k-- > 0 && map->sites[k].flags & REWRITE_SITE_WATCHED;)
            if (gives_memory(&map->sites[k]))
                return true;
    }
    return false;
}

static bool is_in(const struct rewrite_map *m, size_t number)
{
    for (uint32_t i = 0; i < m->site_count; i++)
        if (m->sites[i].flags == REWRITE_SITE_WATCHED && m->sites[i].bytes == number)
            return true;
    return false;
}

int allocations_is_static(const char *path)
{
    struct image *img;
    if (image_open(path, &img) < 0)
        return -1;
    bool is_static = img->is_static;
    image_close(img);
    return is_static;
}

int allocations_have_own(const struct allocations *a)
{
    for (size_t k = 0; k < a->own_count; k++) {
        bool is_found = false;
        int is_static = a->own[k].address ? allocations_is_static(a->program) : 1;
        if (!is_static)
            return diag_error("--allocator %s: addresses are for programs that are linked statically, and %s is not: "
                              "give the function's name",
                              a->own[k].name, a->program);
        if (is_static < 0)
            return -1;
        for (size_t i = 0; i < a->file_count && !is_found; i++)
            is_found = a->files[i].map &&
                       is_in(a->files[i].map, a->own[k].address ? a->own[k].known : data_watched_count() + k);
        if (!is_found)
            return diag_error("--allocator %s: no such function is in %s or its libraries, or it cannot be watched",
                              a->own[k].name, a->program);
    }
    return 0;
}

void allocations_warn_of_none(const struct allocations *a)
{
    if (!are_told(a))
        diag_warn("no-allocators", "%s: no function that allocates is known by its name in it or its libraries",
                  a->program);
}

static uint64_t blocks_of_heap(const struct data *d)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < data_object_count(d); i++)
        n += data_object(d, i)->kind == DATA_HEAP ? data_object(d, i)->blocks : 0;
    return n;
}

void allocations_add_lost(const struct allocations *a, struct allocations_lost *to)
{
    const struct data_calls_lost *calls = data_calls_lost(a->calls);
    const struct data_lost *blocks = data_lost(a->data);
    to->blocks += blocks_of_heap(a->data);
    to->unseen += calls->unmatched + calls->unread;
    to->odd += blocks->frees + blocks->overlaps + blocks->impossible;
    to->odd -= min_u64(blocks->frees, calls->threads); /* what glibc made for itself for a thread, when that ends */
    to->beyond += blocks->beyond;
}

void allocations_warn_of_lost(const char *program, const struct allocations_lost *l)
{
    if ((l->unseen + l->odd) * LOST_PART > l->blocks || l->beyond)
        diag_warn(
            "allocations-lost",
            "%s: the ends of %llu allocations were not seen, %llu allocations and frees contradict others, and the "
            "paths of %llu were cut: some heap blocks may be told under the name of others",
            program, (unsigned long long)l->unseen, (unsigned long long)l->odd, (unsigned long long)l->beyond);
}

/* ---- what is mapped ---- */

/* A copy is bound over its original, or stands in its place. */
const char *allocations_original(const struct allocations *a, const char *path)
{
    for (size_t i = 0; i < a->file_count; i++)
        if (a->files[i].copy && strcmp(a->files[i].copy, path) == 0)
            return a->files[i].path;
    return path;
}

static const char *original_file(void *ctx, const char *path) { return allocations_original(ctx, path); }

static void read_maps(struct allocations *a)
{
    char path[40], piece[4096];
    struct strbuf text = {0};
    snprintf(path, sizeof path, "/proc/%d/maps", a->pid);
    FILE *f = fopen(path, "re");
    for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;)
        str_put(&text, piece, n);
    if (f)
        fclose(f);
    data_see_maps(a->data, text.data, text.len, original_file, a);
    str_free(&text);
}

void allocations_started(struct allocations *a, int pid) { a->pid = pid; }

void allocations_read_maps_now(struct allocations *a)
{
    if (!a->pid)
        return;
    read_maps(a);
    a->looked_at = time_now_s();
}

void allocations_read_maps(struct allocations *a)
{
    if (time_now_s() - a->looked_at >= APART)
        allocations_read_maps_now(a);
}

/* ---- events ---- */

static bool read_call(const struct wire_entry *e, size_t entries, struct data_call *out)
{
    struct wire_call call = {.path = 0};
    struct wire_short less;
    struct wire_least least;
    if (entries == WIRE_LEAST_ENTRIES) {
        memcpy(&least, e + 1, sizeof least);
        *out = (struct data_call){.arguments = {least.argument}, .open = least.open};
        return true;
    }
    if (entries == WIRE_SHORT_ENTRIES) {
        memcpy(&less, e + 1, sizeof less);
        *out = (struct data_call){.arguments = {less.argument},
                                  .stack = less.stack,
                                  .time = less.time,
                                  .open = less.open & ((1ull << WIRE_CALL_PATH_SHIFT) - 1),
                                  .path = (uint32_t)(less.open >> WIRE_CALL_PATH_SHIFT)};
        return true;
    }
    if (entries < WIRE_CALL_ENTRIES)
        return false;
    memcpy(&call, e + 1, sizeof call);
    *out = (struct data_call){.frame = call.frame,
                              .stack = call.stack,
                              .time = call.time,
                              .open = call.open,
                              .path = (uint32_t)call.path,
                              .copy = (const uint8_t *)(e + 1 + WIRE_CALL_ENTRIES),
                              .copy_bytes = (uint32_t)((entries - WIRE_CALL_ENTRIES) * sizeof *e)};
    memcpy(out->arguments, call.arguments, sizeof call.arguments);
    return true;
}

static void take_given(struct allocations *a, const struct launch_chunk *chunk, const struct wire_entry *e,
                       size_t entries)
{
    struct wire_given_alone alone = {0};
    struct wire_given given = {0};
    if (entries == WIRE_GIVEN_ALONE_ENTRIES) {
        memcpy(&alone, e + 1, sizeof alone);
        given.address = alone.address;
        given.argument = alone.argument;
    } else if (entries == WIRE_GIVEN_ENTRIES) {
        memcpy(&given, e + 1, sizeof given);
    } else {
        return;
    }
    struct data_call c = {.thread = chunk->area,
                          .function = e->site & UINT16_MAX,
                          .path = e->site >> 16,
                          .arguments = {given.argument},
                          .stack = given.stack,
                          .time = given.time,
                          .open = given.open};
    data_gave(a->calls, &c, given.address);
}

static void take_entrance(struct allocations *a, const struct launch_chunk *chunk, const struct data_call *c)
{
    const struct data_path *path = data_entered(a->calls, c);
    if (path && chunk->paths)
        known_paths_add(chunk->paths, path);
    if (c->copy_bytes && chunk->paths)
        chunk->paths->is_near = data_paths_are_near(a->calls);
}

size_t allocations_take(struct allocations *a, const struct launch_chunk *chunk, const struct wire_entry *e,
                        size_t left)
{
    struct data_call c;
    size_t entries = wire_event_entries(e);
    if (entries < left && wire_event_kind(e) == WIRE_EVENT_GIVEN)
        take_given(a, chunk, e, entries);
    else if (entries < left && read_call(e, entries, &c)) {
        c.thread = chunk->area;
        c.function = e->site & ~WIRE_CALL_JUMPS;
        if (wire_event_kind(e) == WIRE_EVENT_ENTER && e->site & WIRE_CALL_JUMPS)
            data_jumps(a->calls, &c);
        else if (wire_event_kind(e) == WIRE_EVENT_ENTER)
            take_entrance(a, chunk, &c);
        else if (wire_event_kind(e) == WIRE_EVENT_LEAVE)
            data_left(a->calls, &c);
    }
    return 1 + min_u64(entries, left - 1);
}

const struct data_given *allocations_given(const struct allocations *a) { return data_given(a->calls); }
