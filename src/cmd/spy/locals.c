/* SPDX-License-Identifier: Apache-2.0
 *
 * Thread-local variables: where each thread has those of the files that the program begins with. The stream tells the
 * thread's base. How far below it the memory of each file lies follows from the files in the loader's order, which its
 * list in the process says (r_debug, link_map: what debuggers read), and must be what it noted for the first thread
 * (dtv, the ABI's vector of blocks). What is opened later (dlopen) has its memory elsewhere, and is not told.
 */
#include "cmd/spy/program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILES_MAX = 1000, DYNAMIC_MAX = 200 };

struct local {       /* of a file that has such variables */
    uint32_t module; /* data's number */
    uint64_t offset; /* below the base */
};
struct locals {
    VEC(struct local) files;
    VEC(uint64_t) base; /* by area: the last that was seen */
    bool is_listed;
};

struct locals *locals_new(void) { return xmalloc(sizeof(struct locals)); }

void locals_free(struct locals *l)
{
    if (!l)
        return;
    VEC_FREE(&l->files);
    VEC_FREE(&l->base);
    free(l);
}

/* ---- the process's memory ---- */

/* 0: it is 0, or cannot be read. */
static uint64_t word_at(int memory, uint64_t address)
{
    uint64_t word = 0;
    return address >> 47 == 0 && pread(memory, &word, sizeof word, (off_t)address) == sizeof word ? word : 0;
}

/* The first of the loader's list. */
static uint64_t first_file(int memory, const struct data *d, uint32_t exe)
{
    const struct image *img = data_module_image(d, exe);
    for (size_t i = 0; i < img->segment_count; i++) {
        uint64_t at = data_module_load(d, exe) + img->segments[i].vaddr;
        for (int k = 0; img->segments[i].type == PT_DYNAMIC && k < DYNAMIC_MAX; k++, at += 16)
            if (word_at(memory, at) == DT_DEBUG)
                return word_at(memory, word_at(memory, at + 8) + 8);
    }
    return 0;
}

static uint32_t module_at(const struct data *d, uint64_t load)
{
    for (uint32_t i = data_module_count(d); i-- > 0;)
        if (data_module_load(d, i) == load)
            return i;
    return ID_NONE;
}

static uint32_t module_of(const struct data *d, const char *path)
{
    for (uint32_t i = 0; i < data_module_count(d); i++)
        if (strcmp(data_module_image(d, i)->path, path) == 0)
            return i;
    return ID_NONE;
}

/* ---- which files ---- */

static void add(struct locals *l, const struct data *d, uint32_t module, struct data_thread_layout *layout)
{
    uint64_t offset = module == ID_NONE ? 0 : data_thread_offset(layout, data_module_image(d, module));
    if (offset)
        VEC_PUSH(&l->files, ((struct local){module, offset}));
}

/* Files are numbered as they are listed, from 1; entries of the vector have 16 bytes. Not yet made: all bits set. */
static bool is_noted(int memory, uint64_t vector, size_t nth, uint64_t address)
{
    uint64_t noted = word_at(memory, vector + 16 * (nth + 1));
    return noted == address || !~noted || !noted;
}

/* The executable's own lies where its linker put it, whatever the loader is. */
static void list(struct locals *l, const struct spied_program *s, uint64_t base)
{
    const struct data *d = s->data;
    struct data_thread_layout layout = {0};
    char path[40];
    uint32_t exe = module_of(d, s->executable);
    snprintf(path, sizeof path, "/proc/%d/mem", s->pid);
    add(l, d, exe, &layout);
    size_t own = l->files.len;
    int memory = exe == ID_NONE ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (memory < 0)
        return;
    uint64_t file = word_at(memory, first_file(memory, d, exe) + 24), vector = word_at(memory, base + 8);
    for (int n = 0; file && n < FILES_MAX; n++, file = word_at(memory, file + 24))
        add(l, d, module_at(d, word_at(memory, file)), &layout);
    for (size_t i = own; i < l->files.len; i++)
        if (!is_noted(memory, vector, i, base - l->files.data[i].offset))
            l->files.len = own;
    close(memory);
}

/* ---- threads ---- */

void locals_see(struct locals *l, const struct spied_program *s, const struct launch_chunk *c)
{
    while (l->base.len <= c->area)
        VEC_PUSH(&l->base, (uint64_t)0);
    if (!c->fs || c->fs == l->base.data[c->area] || c->fs >> 47)
        return;
    l->base.data[c->area] = c->fs;
    spy_settle(s->spy);
    allocations_read_maps_now(s->allocations);
    if (!l->is_listed)
        list(l, s, c->fs);
    l->is_listed = true;
    data_set_time(s->data, c->begin);
    for (size_t i = 0; i < l->files.len; i++)
        if (l->files.data[i].offset < c->fs)
            data_thread_block(s->data, l->files.data[i].module, c->fs - l->files.data[i].offset);
}
