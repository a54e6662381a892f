/* SPDX-License-Identifier: Apache-2.0
 * What a file brings into memory: its mapping, in it sections, in them what symbols name. Of symbols that overlap the
 * one that begins first is told, of those that begin together the longest; of several names of one thing the plainest.
 */
#include "data/impl.h"

#include <elf.h>
#include <stdlib.h>

#define PAGE_BYTES (1ull << DATA_PAGE)

static const struct image_segment *segment_of_type(const struct image *img, uint32_t type)
{
    for (size_t i = 0; i < img->segment_count; i++)
        if (img->segments[i].type == type)
            return &img->segments[i];
    return NULL;
}

/* ---- sections ---- */

static void place(struct data *d, struct data_object *o, uint64_t address, uint64_t bytes)
{
    if (bytes && data_lay_block(d, o, address, bytes))
        data_count_block(o, bytes);
}

static void place_part(struct data *d, uint32_t module, bool is_code, const char *name, uint64_t vaddr, uint64_t bytes)
{
    const struct data_loaded *m = &d->own->modules.data[module];
    const char *full = arena_printf(d->own->arena, "%s %s", file_base_name(m->path), name);
    struct data_object *o = data_object_named(d, is_code ? DATA_CODE : DATA_GLOBAL, DATA_LAYER_SECTION, module, full);
    o->offset = vaddr;
    place(d, o, m->load + vaddr, bytes);
}

static void place_sections(struct data *d, uint32_t module)
{
    const struct image *img = d->own->modules.data[module].img;
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *s = &img->sections[i];
        bool is_nowhere = s->flags & SHF_TLS && s->type == SHT_NOBITS;
        if (s->flags & SHF_ALLOC && !is_nowhere && s->addr >= img->vaddr_lo && s->addr < img->vaddr_hi)
            place_part(d, module, s->flags & SHF_EXECINSTR, s->name, s->addr,
                       min_u64(s->size, img->vaddr_hi - s->addr));
    }
}

static void place_segments(struct data *d, uint32_t module)
{
    const struct image *img = d->own->modules.data[module].img;
    for (size_t i = 0; i < img->segment_count; i++) {
        const struct image_segment *s = &img->segments[i];
        if (s->type != PT_LOAD)
            continue;
        bool is_code = s->flags & PF_X;
        place_part(d, module, is_code, is_code ? "code" : s->flags & PF_W ? "data" : "constants", s->vaddr, s->memsz);
    }
}

/* ---- symbols ---- */

static bool is_data(const struct image *img, const struct image_symbol *s)
{
    return s->type == STT_OBJECT && s->shndx != SHN_UNDEF && s->shndx != SHN_ABS && s->size && s->name[0] &&
           s->addr >= img->vaddr_lo && s->addr < img->vaddr_hi && s->size <= img->vaddr_hi - s->addr;
}

static bool is_thread_local(const struct image_symbol *s, const struct image_segment *tls)
{
    return s->type == STT_TLS && s->shndx != SHN_UNDEF && s->size && s->name[0] && tls && s->addr < tls->memsz &&
           s->size <= tls->memsz - s->addr;
}

static int plainness(const struct image_symbol *s) /* of a name; the least is told */
{
    return (int)strspn(s->name, "_") * 4 + (s->bind == STB_LOCAL ? 2 : s->bind == STB_WEAK ? 1 : 0);
}

static int compare_symbols(const void *a, const void *b)
{
    const struct image_symbol *x = *(const struct image_symbol *const *)a, *y = *(const struct image_symbol *const *)b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    if (plainness(x) != plainness(y))
        return plainness(x) - plainness(y);
    if (strlen(x->name) != strlen(y->name))
        return strlen(x->name) < strlen(y->name) ? -1 : 1;
    return strcmp(x->name, y->name);
}

typedef VEC(const struct image_symbol *) symbols;

static struct data_object *object_of_symbol(struct data *d, uint32_t module, enum data_kind kind,
                                            const struct image_symbol *s)
{
    struct data_object *o = data_object_new(d, kind, kind == DATA_THREAD ? DATA_LAYER_LOCAL : DATA_LAYER_SYMBOL);
    o->module = module;
    o->name = s->name;
    o->offset = s->addr;
    return o;
}

/* Sorted, and without those that lie in others. */
static void order(symbols *v)
{
    size_t kept = 0;
    uint64_t end = 0;
    if (v->len)
        qsort(v->data, v->len, sizeof *v->data, compare_symbols);
    for (size_t i = 0; i < v->len; i++) {
        if (v->data[i]->addr < end)
            continue;
        end = v->data[i]->addr + v->data[i]->size;
        v->data[kept++] = v->data[i];
    }
    v->len = kept;
}

static void place_symbols(struct data *d, uint32_t module)
{
    const struct data_loaded *m = &d->own->modules.data[module];
    symbols v = {0};
    for (size_t i = 0; i < m->img->symbol_count; i++)
        if (is_data(m->img, &m->img->symbols[i]))
            VEC_PUSH(&v, &m->img->symbols[i]);
    order(&v);
    for (size_t i = 0; i < v.len; i++)
        place(d, object_of_symbol(d, module, DATA_GLOBAL, v.data[i]), m->load + v.data[i]->addr, v.data[i]->size);
    VEC_FREE(&v);
}

static void list_thread_locals(struct data *d, uint32_t module)
{
    struct data_loaded *m = &d->own->modules.data[module];
    const struct image_segment *tls = segment_of_type(m->img, PT_TLS);
    symbols v = {0};
    for (size_t i = 0; i < m->img->symbol_count; i++)
        if (is_thread_local(&m->img->symbols[i], tls))
            VEC_PUSH(&v, &m->img->symbols[i]);
    order(&v);
    for (size_t i = 0; i < v.len; i++) {
        struct data_object *o = object_of_symbol(d, module, DATA_THREAD, v.data[i]);
        o->largest = v.data[i]->size;
        VEC_PUSH(&m->threads, o->id);
    }
    VEC_FREE(&v);
}

void data_thread_block(struct data *d, uint32_t module, uint64_t address)
{
    const struct data_loaded *m = &d->own->modules.data[module];
    const struct image_segment *tls = segment_of_type(m->img, PT_TLS);
    if (!tls || data_begins_at(d, DATA_LAYER_LOCALS, address))
        return;
    const char *rest = arena_printf(d->own->arena, "%s thread-local", file_base_name(m->path));
    place(d, data_object_named(d, DATA_THREAD, DATA_LAYER_LOCALS, module, rest), address, tls->memsz);
    for (size_t i = 0; i < m->threads.len; i++) {
        struct data_object *o = d->own->objects.data[m->threads.data[i]];
        place(d, o, address + o->offset, o->largest);
    }
}

uint64_t data_thread_bytes(const struct image *img, uint64_t *align)
{
    const struct image_segment *tls = segment_of_type(img, PT_TLS);
    *align = tls ? max_u64(tls->align, 1) : 1;
    return tls && !(*align & (*align - 1)) ? tls->memsz : 0;
}

/* Holes that an alignment left are used for what fits there; the first is the executable's, and the linker's too. */
uint64_t data_thread_offset(struct data_thread_layout *l, const struct image *img)
{
    const struct image_segment *tls = segment_of_type(img, PT_TLS);
    uint64_t bytes = tls ? tls->memsz : 0, align = tls ? max_u64(tls->align, 1) : 1;
    if (!bytes || bytes >> 40 || align >> 40 || align & (align - 1))
        return 0;
    uint64_t first = -tls->vaddr & (align - 1);
    uint64_t in_hole = ALIGN_UP(l->hole_begin + bytes - first, align) + first;
    if (l->hole_end - l->hole_begin >= bytes && in_hole <= l->hole_end)
        return l->hole_begin = in_hole;
    uint64_t offset = ALIGN_UP(l->used + bytes - first, align) + first;
    if (offset > l->used + bytes + (l->hole_end - l->hole_begin)) {
        l->hole_begin = l->used;
        l->hole_end = offset - bytes;
    }
    return l->used = offset;
}

/* ---- modules ---- */

static void place_module(struct data *d, uint32_t module)
{
    const struct data_loaded *m = &d->own->modules.data[module];
    uint64_t lo = ALIGN_DOWN(m->img->vaddr_lo, PAGE_BYTES), hi = ALIGN_UP(m->img->vaddr_hi, PAGE_BYTES);
    data_unmap(d, m->load + lo, hi - lo);
    place(d, data_object_named(d, DATA_MAPPING, DATA_LAYER_MAPPING, module, m->path), m->load + lo, hi - lo);
    if (m->img->section_count)
        place_sections(d, module);
    else
        place_segments(d, module);
    place_symbols(d, module);
    list_thread_locals(d, module);
}

static void add_module(struct data *d, struct data_file *file, uint64_t load, uint32_t *module)
{
    *module = (uint32_t)d->own->modules.len;
    VEC_PUSH(&d->own->modules,
             ((struct data_loaded){.path = file->path, .img = file->img, .file = file, .load = load}));
    place_module(d, *module);
}

int data_module(struct data *d, const char *path, uint64_t load, uint32_t *module)
{
    struct data_file *file = data_file_open(d, path);
    if (!file)
        return -1;
    add_module(d, file, load, module);
    return 0;
}

int data_module_at(struct data *d, const char *path, uint64_t address, uint32_t *module)
{
    struct data_file *file = data_file_open(d, path);
    if (!file)
        return -1;
    add_module(d, file, address - ALIGN_DOWN(file->img->vaddr_lo, PAGE_BYTES), module);
    return 0;
}

uint32_t data_module_count(const struct data *d) { return (uint32_t)d->own->modules.len; }
uint64_t data_module_load(const struct data *d, uint32_t module) { return d->own->modules.data[module].load; }

const struct image *data_module_image(const struct data *d, uint32_t module)
{
    return d->own->modules.data[module].img;
}

/* Of several that were loaded at the same place one after the other the last. */
bool data_locate(const struct data *d, uint64_t address, uint32_t *module, uint64_t *vaddr)
{
    for (size_t i = d->own->modules.len; i-- > 0;) {
        const struct data_loaded *m = &d->own->modules.data[i];
        if (address - m->load >= m->img->vaddr_lo && address - m->load < m->img->vaddr_hi) {
            *module = (uint32_t)i;
            *vaddr = address - m->load;
            return true;
        }
    }
    return false;
}
