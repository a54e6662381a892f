/* SPDX-License-Identifier: Apache-2.0
 *
 * Thread-local variables: where each thread has those of the files that the program begins with. The stream tells the
 * thread's base. How far below it the memory of each file lies follows from the files in the loader's order, which its
 * list in the process says (r_debug, link_map: what debuggers read), and must be what it noted for the first thread
 * (dtv, the ABI's vector of blocks).
 *
 * Of files that are opened later (dlopen) the list says where their variables are: so far below the base, where there
 * was room, or by their number in each thread's vector. Where in an entry of the list both stand glibc tells debuggers
 * (_thread_db_*); it is believed if it is right for the files that the program began with. What the vector leads to the
 * dynamic linker allocates when a thread first asks, by the ABI's instructions for that (__tls_get_addr). The process
 * may be gone when that is read; then the block is the variables' of the one file that has just so many bytes of them.
 */
#include "cmd/spy/program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILES_MAX = 1000, DYNAMIC_MAX = 200 };
enum { USUAL_ALIGN = 16 };    /* malloc's, for which the linker asks for no more than it needs */
enum { BELOW_MAX = 1 << 24 }; /* static thread-local memory, all of it */
enum { NEXT_AT = 24, BASE_DTV = 8, ENTRY_BYTES = 16 };

struct local {       /* of a file that has such variables */
    uint32_t module; /* data's number */
    uint64_t offset; /* below the base */
};
struct later { /* of a file that was opened later, its entry in the list */
    uint32_t module;
    uint64_t entry;
};
struct locals {
    VEC(struct local) files; /* the first `begun` are those that the program begins with */
    size_t begun;
    VEC(struct later) later;       /* whose memory is not known to be at the same place below each base */
    VEC(uint64_t) base;            /* by area: the last that was seen */
    uint64_t first;                /* of the loader's list */
    uint64_t number_at, offset_at; /* in an entry, where glibc says; 0: it does not */
    uint64_t linker, linker_end;   /* where its code is */
    uint32_t modules;              /* that were there when the list was read last */
    bool is_listed;
};

struct locals *locals_new(void) { return xmalloc(sizeof(struct locals)); }

void locals_free(struct locals *l)
{
    if (!l)
        return;
    VEC_FREE(&l->files);
    VEC_FREE(&l->later);
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
    uint64_t noted = word_at(memory, vector + ENTRY_BYTES * (nth + 1));
    return noted == address || !~noted || !noted;
}

static int open_memory(const struct spied_program *s)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/mem", s->pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The executable's own lies where its linker put it, whatever the loader is. */
static void list(struct locals *l, const struct spied_program *s, uint64_t base)
{
    const struct data *d = s->data;
    struct data_thread_layout layout = {0};
    uint32_t exe = module_of(d, s->executable);
    add(l, d, exe, &layout);
    size_t own = l->begun = l->files.len;
    int memory = exe == ID_NONE ? -1 : open_memory(s);
    if (memory < 0)
        return;
    l->first = first_file(memory, d, exe);
    uint64_t file = word_at(memory, l->first + NEXT_AT), vector = word_at(memory, base + BASE_DTV);
    for (int n = 0; file && n < FILES_MAX; n++, file = word_at(memory, file + NEXT_AT))
        add(l, d, module_at(d, word_at(memory, file)), &layout);
    for (size_t i = own; i < l->files.len; i++)
        if (!is_noted(memory, vector, i, base - l->files.data[i].offset))
            l->files.len = own;
    l->begun = l->files.len;
    close(memory);
}

/* ---- files that are opened later ---- */

/* glibc's nptl_db/structs.def: three words, the bits of the field, how many such there are, and where it is. */
static uint64_t field_at(const struct data *d, const char *name)
{
    for (uint32_t m = 0; m < data_module_count(d); m++) {
        const struct image *img = data_module_image(d, m);
        for (size_t i = 0; i < img->dynsym_count; i++) {
            const struct image_symbol *s = &img->symbols[i];
            uint32_t said[3];
            const uint8_t *at =
                s->shndx != SHN_UNDEF && strcmp(s->name, name) == 0 ? image_at(img, s->addr, sizeof said) : NULL;
            if (!at)
                continue;
            memcpy(said, at, sizeof said);
            return said[0] == 64 && said[1] == 1 ? said[2] : 0;
        }
    }
    return 0;
}

static void find_linker(struct locals *l, const struct data *d, const char *executable)
{
    uint32_t exe = module_of(d, executable), linker = ID_NONE;
    char *path =
        exe != ID_NONE && data_module_image(d, exe)->interp ? realpath(data_module_image(d, exe)->interp, NULL) : NULL;
    if (path)
        linker = module_of(d, path);
    if (linker != ID_NONE) {
        l->linker = data_module_load(d, linker) + data_module_image(d, linker)->vaddr_lo;
        l->linker_end = data_module_load(d, linker) + data_module_image(d, linker)->vaddr_hi;
    }
    l->number_at = field_at(d, "_thread_db_link_map_l_tls_modid");
    l->offset_at = field_at(d, "_thread_db_link_map_l_tls_offset");
    free(path);
}

static size_t place_of(const struct locals *l, uint32_t module)
{
    for (size_t i = 0; i < l->files.len; i++)
        if (l->files.data[i].module == module)
            return i;
    return l->files.len;
}

static bool is_later(const struct locals *l, uint32_t module)
{
    for (size_t i = 0; i < l->later.len; i++)
        if (l->later.data[i].module == module)
            return true;
    return false;
}

/* Are numbers and places, as the list has them, those of the files that the program began with? */
static bool is_right(const struct locals *l, int memory, uint64_t entry, size_t nth)
{
    return word_at(memory, entry + l->number_at) == nth + 1 &&
           word_at(memory, entry + l->offset_at) == l->files.data[nth].offset;
}

static void read_list(struct locals *l, const struct data *d, int memory)
{
    uint64_t entry = l->first, align;
    for (int n = 0; entry && n < FILES_MAX && l->number_at; n++, entry = word_at(memory, entry + NEXT_AT)) {
        uint32_t module = module_at(d, word_at(memory, entry));
        size_t nth = module == ID_NONE ? 0 : place_of(l, module);
        if (module == ID_NONE || !data_thread_bytes(data_module_image(d, module), &align))
            continue;
        if (nth < l->begun && !is_right(l, memory, entry, nth))
            l->number_at = l->offset_at = 0;
        else if (nth == l->files.len && !is_later(l, module))
            VEC_PUSH(&l->later, ((struct later){module, entry}));
    }
}

static void put_below(const struct spied_program *s, const struct local *f, uint64_t base)
{
    if (base && f->offset < base)
        data_thread_block(s->data, f->module, base - f->offset);
}

/* Those that have got room below each base, as a file may that says it needs it. */
static void find_below(struct locals *l, const struct spied_program *s, int memory)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->later.len; i++) {
        const struct later *f = &l->later.data[i];
        uint64_t align, bytes = data_thread_bytes(data_module_image(s->data, f->module), &align);
        uint64_t offset = l->offset_at ? word_at(memory, f->entry + l->offset_at) : 0;
        if (offset < bytes || offset > BELOW_MAX || word_at(memory, f->entry) != data_module_load(s->data, f->module)) {
            l->later.data[kept++] = *f;
            continue;
        }
        struct local found = {f->module, offset};
        VEC_PUSH(&l->files, found);
        for (size_t k = 0; k < l->base.len; k++)
            put_below(s, &found, l->base.data[k]);
    }
    l->later.len = kept;
}

static void see_later(struct locals *l, const struct spied_program *s)
{
    bool is_new = l->modules != data_module_count(s->data);
    if (!l->first || (!is_new && !l->later.len))
        return;
    int memory = open_memory(s);
    if (memory < 0)
        return;
    if (is_new && !l->modules)
        find_linker(l, s->data, s->executable);
    l->modules = data_module_count(s->data);
    if (is_new)
        read_list(l, s->data, memory);
    spy_settle(s->spy);
    find_below(l, s, memory);
    close(memory);
}

/* ---- and their blocks ---- */

/* As the ABI writes it, for compilers and linkers (general and local dynamic, also without a PLT): lea of an entry of
 * the offset table, call of __tls_get_addr. */
static bool asks_for_local(const struct data *d, uint64_t return_address)
{
    uint32_t module;
    uint64_t at;
    const uint8_t *p = NULL;
    if (data_locate(d, return_address - 1, &module, &at))
        p = image_at(data_module_image(d, module), at + 1 - 16, 16);
    return p && ((memcmp(p, "\x66\x48\x8d\x3d", 4) == 0 &&
                  (memcmp(p + 8, "\x66\x66\x48\xe8", 4) == 0 || memcmp(p + 8, "\x66\x48\xff\x15", 4) == 0)) ||
                 (memcmp(p + 4, "\x48\x8d\x3d", 3) == 0 && p[11] == 0xe8) ||
                 (memcmp(p + 3, "\x48\x8d\x3d", 3) == 0 && p[10] == 0xff && p[11] == 0x15));
}

static bool is_linker(const struct locals *l, uint64_t address)
{
    return address - l->linker < l->linker_end - l->linker;
}

/* Where in a block of so many bytes the variables of a file lie; 0: it is not for them. */
static uint64_t place_in(const struct data *d, uint32_t module, const struct data_given *g)
{
    uint64_t align, bytes = data_thread_bytes(data_module_image(d, module), &align);
    bool is_usual = align <= USUAL_ALIGN;
    if (!bytes || g->bytes != (is_usual ? bytes : bytes + align))
        return 0;
    return is_usual ? g->address : ALIGN_UP(g->address, align);
}

/* By the thread's vector. */
static bool is_listed_in(const struct locals *l, const struct spied_program *s, uint64_t base,
                         const struct data_given *g)
{
    int memory = base && l->number_at ? open_memory(s) : -1;
    bool is_found = false;
    for (size_t i = 0; i < l->later.len && memory >= 0 && !is_found; i++) {
        const struct later *f = &l->later.data[i];
        uint64_t align, bytes = data_thread_bytes(data_module_image(s->data, f->module), &align);
        uint64_t number = word_at(memory, f->entry + l->number_at), vector = word_at(memory, base + BASE_DTV);
        uint64_t at = number && number <= FILES_MAX ? word_at(memory, vector + ENTRY_BYTES * number) : 0;
        is_found = at >= g->address && at - g->address <= g->bytes && bytes <= g->bytes - (at - g->address) &&
                   word_at(memory, f->entry) == data_module_load(s->data, f->module);
        if (is_found)
            data_thread_block(s->data, f->module, at);
    }
    if (memory >= 0)
        close(memory);
    return is_found;
}

/* By what was asked for. Several files may have as many bytes: then nothing is told. */
static void guess_whose(const struct locals *l, const struct spied_program *s, const struct data_given *g)
{
    uint64_t found = 0, at;
    uint32_t module = ID_NONE;
    size_t count = 0, caller = 0;
    while (caller < g->depth && is_linker(l, g->path[caller]))
        caller++;
    for (uint32_t m = 0; m < data_module_count(s->data); m++)
        if (place_of(l, m) == l->files.len && (at = place_in(s->data, m, g)) != 0) {
            found = at;
            module = m;
            count++;
        }
    if (count == 1 && caller < g->depth && asks_for_local(s->data, g->path[caller]))
        data_thread_block(s->data, module, found);
}

void locals_given(struct locals *l, const struct spied_program *s, const struct launch_chunk *c)
{
    const struct data_given *g = allocations_given(s->allocations);
    if (!g || !g->depth || !is_linker(l, g->path[0]))
        return;
    allocations_read_maps_now(s->allocations);
    see_later(l, s);
    if (!is_listed_in(l, s, c->area < l->base.len ? l->base.data[c->area] : 0, g))
        guess_whose(l, s, g);
}

/* ---- threads ---- */

static void see_base(struct locals *l, const struct spied_program *s, const struct launch_chunk *c)
{
    l->base.data[c->area] = c->fs;
    spy_settle(s->spy);
    allocations_read_maps_now(s->allocations);
    if (!l->is_listed)
        list(l, s, c->fs);
    l->is_listed = true;
    data_set_time(s->data, c->begin);
    for (size_t i = 0; i < l->files.len; i++)
        put_below(s, &l->files.data[i], c->fs);
}

void locals_see(struct locals *l, const struct spied_program *s, const struct launch_chunk *c)
{
    while (l->base.len <= c->area)
        VEC_PUSH(&l->base, (uint64_t)0);
    if (c->fs && c->fs != l->base.data[c->area] && !(c->fs >> 47))
        see_base(l, s, c);
    see_later(l, s);
}
