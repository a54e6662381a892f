/* SPDX-License-Identifier: Apache-2.0
 *
 * --follow: each process of the program, and each program that one of them executes, is simulated by itself, with
 * caches of its own. The child of a fork begins with what its parent had at that moment, of which a copy is taken when
 * the parent says that it forks. When a process is over, what it found is added to the sums, and its memory given back:
 * so a program may make thousands.
 */
#include "cmd/spy/program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { FORKS_MAX = 256 }; /* whose children have told nothing yet */

struct fork { /* behind a chunk of an area */
    uint32_t area;
    uint64_t number;
    struct data *data;
    const char *executable;
};
struct family {
    struct spied_program *all;
    VEC(struct spied_program *) members;
    VEC(struct fork) forks;
    struct arena *arena;
    struct map numbers; /* hash of an identity -> of `data` */
    VEC(const char *) identities;
    VEC(struct prof_input_datum) data;
    VEC(struct prof_input_process) processes; /* that are over */
    struct allocations_lost lost;
};

struct family *family_new(struct spied_program *all)
{
    struct family *f = xmalloc(sizeof *f);
    f->all = all;
    f->arena = arena_new();
    return f;
}

static void drop_fork(struct family *f, size_t nth)
{
    data_free(f->forks.data[nth].data);
    memmove(&f->forks.data[nth], &f->forks.data[nth + 1], (--f->forks.len - nth) * sizeof *f->forks.data);
}

void family_free(struct family *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->members.len; i++)
        spied_process_free(f->members.data[i]);
    while (f->forks.len)
        drop_fork(f, f->forks.len - 1);
    VEC_FREE(&f->members);
    VEC_FREE(&f->forks);
    VEC_FREE(&f->identities);
    VEC_FREE(&f->data);
    VEC_FREE(&f->processes);
    map_fini(&f->numbers);
    arena_free(f->arena);
    free(f);
}

/* ---- processes as they come ---- */

/* The first to tell is the child of the fork; others there are none. */
static struct data *data_of_fork(struct family *f, const struct launch_chunk *c, const char **executable)
{
    for (size_t i = 0; c->parent != ID_NONE && i < f->forks.len; i++) {
        struct fork *k = &f->forks.data[i];
        if (k->area != c->parent || k->number != c->parent_number)
            continue;
        struct data *data = k->data;
        *executable = k->executable;
        k->data = NULL;
        drop_fork(f, i);
        return data;
    }
    return NULL;
}

static const char *executable_of(const struct family *f, uint32_t pid)
{
    char path[40], name[4096];
    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    ssize_t n = readlink(path, name, sizeof name - 1);
    name[n > 0 ? n : 0] = 0;
    return arena_strdup(f->arena, allocations_original(f->all->allocations, name));
}

/* Words with blanks between; what cannot be read, the executable. */
static const char *command_of(const struct family *f, uint32_t pid, const char *executable)
{
    enum { COMMAND_MAX = 4096 };
    char path[40], words[COMMAND_MAX];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, words, sizeof words - 1);
    if (fd >= 0)
        close(fd);
    while (n > 0 && !words[n - 1])
        n--;
    if (n <= 0)
        return executable;
    words[n] = 0;
    for (ssize_t i = 0; i < n; i++)
        words[i] = words[i] ? words[i] : ' ';
    return arena_strdup(f->arena, words);
}

static struct spied_program *add_member(struct family *f, const struct launch_chunk *c)
{
    const char *executable = NULL;
    struct data *data = data_of_fork(f, c, &executable);
    if (!executable)
        executable = executable_of(f, c->pid);
    struct spied_program *s = spied_process_new(f->all, data, executable);
    s->is_fork = data;
    s->command = command_of(f, c->pid, executable);
    s->process = c->process;
    s->pid = (int)c->pid;
    allocations_started(s->allocations, s->pid);
    spied_read_maps(s);
    VEC_PUSH(&f->members, s);
    return s;
}

static struct spied_program *member_of(struct family *f, const struct launch_chunk *c)
{
    for (size_t i = f->members.len; i-- > 0;)
        if (f->members.data[i]->process == c->process)
            return f->members.data[i];
    return add_member(f, c);
}

static void note_fork(struct family *f, struct spied_program *s, const struct launch_chunk *c)
{
    merge_until(s->merge, c->end);
    if (f->forks.len == FORKS_MAX)
        drop_fork(f, 0);
    VEC_PUSH(&f->forks,
             ((struct fork){c->area, c->number, data_clone(s->data), arena_strdup(f->arena, s->executable)}));
}

void family_take(struct family *f, const struct launch_chunk *c)
{
    struct spied_program *s = member_of(f, c);
    merge_add_both(s->merge, s->second_merge, c);
    if (c->loads)
        spied_see_file(s, c);
    if (c->forks)
        note_fork(f, s, c);
}

/* ---- sums ---- */

static uint64_t hash_of(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 1099511628211u;
    return h;
}

static bool find_datum(const struct family *f, const char *identity, uint64_t *hash, uint64_t *number)
{
    for (*hash = hash_of(identity); map_get(&f->numbers, *hash, number); ++*hash)
        if (strcmp(f->identities.data[*number], identity) == 0)
            return true;
    return false;
}

/* Of a variable the size, of what is allocated all of it, and the most at a time in one process. */
static void add_to_datum(struct prof_input_datum *d, const struct prof_input_datum *more)
{
    if (d->bytes != PROF_UNKNOWN && more->bytes != PROF_UNKNOWN)
        d->bytes = max_u64(d->bytes, more->bytes);
    if (d->blocks != PROF_UNKNOWN && more->blocks != PROF_UNKNOWN)
        d->blocks += more->blocks;
    d->allocated += more->allocated;
}

/* Its place among those of all; of what no process has reached yet without a name, which takes long to find. */
static uint32_t datum_of(struct family *f, const struct spied_program *s, uint32_t object, bool is_reached)
{
    struct strbuf identity = {0};
    uint64_t hash, number;
    spied_identify(s, object, &identity);
    if (!find_datum(f, identity.data, &hash, &number)) {
        number = f->data.len;
        map_put(&f->numbers, hash, number);
        VEC_PUSH(&f->identities, arena_strdup(f->arena, identity.data));
        VEC_PUSH(&f->data, ((struct prof_input_datum){.name = NULL}));
    }
    str_free(&identity);
    struct prof_input_datum *d = &f->data.data[number], own = spied_counts(s, object);
    add_to_datum(d, &own);
    if (is_reached && !d->name) {
        own = spied_datum(s, object);
        own.bytes = own.bytes == PROF_UNKNOWN ? PROF_UNKNOWN : d->bytes;
        own.blocks = own.blocks == PROF_UNKNOWN ? PROF_UNKNOWN : d->blocks;
        own.allocated = d->allocated;
        *d = own;
    }
    return (uint32_t)number;
}

static uint32_t *objects_of(struct family *f, const struct spied_program *s)
{
    size_t cells;
    const struct spy_cell *cell = spy_cells(s->spy, &cells);
    uint32_t *objects = xmalloc((data_object_count(s->data) + 1ull) * sizeof *objects);
    memset(objects, 0xff, data_object_count(s->data) * sizeof *objects);
    for (size_t i = 0; i < cells; i++)
        if (objects[cell[i].object] == ID_NONE)
            objects[cell[i].object] = datum_of(f, s, cell[i].object, true);
    for (uint32_t i = 0; i < data_object_count(s->data); i++)
        if (objects[i] == ID_NONE && data_object(s->data, i)->kind == DATA_HEAP && data_object(s->data, i)->blocks)
            datum_of(f, s, i, false);
    return objects;
}

static uint32_t *sites_of(const struct family *f, const struct spied_program *s)
{
    uint32_t *sites = xmalloc((spy_site_count(s->spy) + 1ull) * sizeof *sites);
    for (size_t m = 0; m < s->module_count; m++) {
        const struct spied_module *own = &s->modules[m];
        for (uint32_t i = 0; own->first_site != ID_NONE && i < own->site_count; i++)
            sites[own->first_site + i] = f->all->modules[m].first_site + i;
    }
    return sites;
}

static uint64_t block_begin(void *ctx, uint32_t object, uint64_t address)
{
    const struct spied_program *s = ctx;
    const struct data_block *b = data_block_at(s->data, address);
    return b->object == object ? b->start : UINT64_MAX;
}

static const struct prof_input_spied_level *levels_of(struct family *f, const struct spied_program *s)
{
    size_t count = 0, n = 0;
    for (size_t i = 0; i < s->cache_count; i++)
        count += s->caches[i].config.count;
    struct prof_input_spied_level *levels = ARENA_ARRAY(f->arena, struct prof_input_spied_level, count + 1);
    for (size_t i = 0; i < s->cache_count; i++)
        for (unsigned k = 0; k < s->caches[i].config.count; k++, n++) {
            const struct cache *c = spy_cache(s->spy, i);
            levels[n].counts = *cache_counts(c, k);
            if (s->part.one_in > 1)
                levels[n].estimate = cache_estimate(c, k);
        }
    return levels;
}

static void add_process(struct family *f, const struct spied_program *s)
{
    VEC_PUSH(&f->processes, ((struct prof_input_process){.pid = (uint32_t)s->pid,
                                                         .threads = s->threads,
                                                         .is_fork = s->is_fork,
                                                         .command = s->command,
                                                         .executable = arena_strdup(f->arena, s->executable),
                                                         .levels = levels_of(f, s)}));
}

static void add_found(struct family *f, struct spied_program *s)
{
    struct spied_program *all = f->all;
    uint32_t *objects = objects_of(f, s), *sites = sites_of(f, s);
    spy_absorb(all->spy, s->spy, &(struct spy_absorption){sites, objects, block_begin, s});
    allocations_add_lost(s->allocations, &f->lost);
    all->references += s->references;
    all->of_others += s->of_others;
    all->untold += s->untold;
    all->threads = s->threads > all->threads ? s->threads : all->threads;
    free(objects);
    free(sites);
}

static void end_member(struct family *f, size_t nth)
{
    struct spied_program *s = f->members.data[nth];
    merge_end(s->merge);
    if (s->second_merge)
        merge_end(s->second_merge);
    spy_end(s->spy);
    add_process(f, s);
    add_found(f, s);
    spied_process_free(s);
    memmove(&f->members.data[nth], &f->members.data[nth + 1], (--f->members.len - nth) * sizeof *f->members.data);
}

void family_ended(struct family *f, uint32_t process)
{
    for (size_t i = f->members.len; i-- > 0;)
        if (f->members.data[i]->process == process)
            end_member(f, i);
}

void family_end(struct family *f)
{
    while (f->members.len)
        end_member(f, f->members.len - 1);
}

/* ---- what was found ---- */

struct allocations_lost family_lost(const struct family *f) { return f->lost; }

struct prof_input_datum *family_data(const struct family *f, uint32_t *count)
{
    *count = (uint32_t)f->data.len;
    return f->data.data;
}

const struct prof_input_process *family_processes(const struct family *f, size_t *count)
{
    *count = f->processes.len;
    return f->processes.data;
}

uint64_t family_block_begin(void *ctx, uint32_t object, uint64_t address)
{
    const struct spied_program *all = ctx;
    (void)object;
    uint64_t offset = spy_absorbed_offset(all->spy, address);
    return offset == UINT64_MAX ? PROF_UNKNOWN : address - offset;
}
