/* SPDX-License-Identifier: Apache-2.0
 * Code that allocates, as a user knows it: function, file and line of a return address, and the name of an object. What
 * debug information says is asked only for what is named; whether a function is a wrapper, its symbol alone says. */
#include "data/impl.h"

#include <elf.h>
#include <inttypes.h>

struct frame {
    struct data_frame f;
    const char *symbol; /* of the function that holds it, NULL unknown */
    bool is_wrapper, is_named;
};

static bool names_wrapper(const char *name)
{
#define W(text)                                                                                                        \
    if (strcmp(name, text) == 0)                                                                                       \
        return true;
#define P(text)                                                                                                        \
    if (strncmp(name, text, sizeof text - 1) == 0)                                                                     \
        return true;
#include "data/wrappers.def"
#undef P
#undef W
    return false;
}

static struct frame *frame_of(struct data *d, uint64_t return_address)
{
    struct data_tables *t = d->own;
    uint64_t known;
    if (map_get(&t->frames, return_address, &known))
        return (struct frame *)(uintptr_t)known;
    struct frame *f = ARENA_NEW(t->arena, struct frame);
    f->f.module = ID_NONE;
    f->f.vaddr = return_address;
    if (data_locate(d, return_address - 1, &f->f.module, &f->f.vaddr))
        f->symbol = image_symbol_name(t->modules.data[f->f.module].img, f->f.vaddr, NULL);
    f->is_wrapper = f->symbol && names_wrapper(f->symbol);
    map_put(&t->frames, return_address, (uintptr_t)f);
    return f;
}

bool data_is_wrapper(struct data *d, uint64_t return_address) { return frame_of(d, return_address)->is_wrapper; }

/* ---- by debug information ---- */

static bool is_of_library(const char *name) /* of the language's, inlined where it is used */
{
    return strncmp(name, "_ZNSt", 5) == 0 || strncmp(name, "_ZNKSt", 6) == 0 || strncmp(name, "_ZSt", 4) == 0 ||
           strncmp(name, "_ZN9__gnu_cxx", 13) == 0 || strncmp(name, "_ZNK9__gnu_cxx", 14) == 0 || names_wrapper(name);
}

static void name_by_debug(struct data *d, struct data_frame *f)
{
    const struct data_file *m = d->own->modules.data[f->module].file;
    struct line_row row;
    uint32_t file = ID_NONE;
    if (lines_at(m->lines, f->vaddr, &row)) {
        file = row.file;
        f->line = row.line;
    }
    const struct scopes *s = scopes_of(m->scopes, f->vaddr);
    for (uint32_t at = s ? scope_at(s, f->vaddr) : ID_NONE; at != ID_NONE; at = s->scopes[at].parent) {
        const struct scope *c = &s->scopes[at];
        f->function = c->name ? c->name : f->function;
        if (c->parent == ID_NONE || !c->name || !is_of_library(c->name))
            break;
        file = c->call_file;
        f->line = c->call_line;
    }
    f->file = file == ID_NONE ? NULL : d->own->files->names.texts.data[file];
}

const struct data_frame *data_frame(struct data *d, uint64_t return_address)
{
    struct frame *f = frame_of(d, return_address);
    if (f->is_named)
        return &f->f;
    f->is_named = true;
    if (f->f.module != ID_NONE && data_open_debug(d, f->f.module))
        name_by_debug(d, &f->f);
    if (!f->f.function)
        f->f.function = f->symbol;
    return &f->f;
}

static bool is_start(const char *function) /* what calls everything tells nothing */
{
    return strcmp(function, "__libc_start_main") == 0 || strcmp(function, "_start") == 0;
}

bool data_tells(struct data *d, uint64_t return_address)
{
    const char *function = data_is_wrapper(d, return_address) ? NULL : data_frame(d, return_address)->function;
    return function && !is_start(function);
}

static bool names_functions(const struct image *img)
{
    for (size_t i = 0; i < img->symbol_count; i++) {
        const struct image_symbol *s = &img->symbols[i];
        if (s->type == STT_FUNC && s->shndx != SHN_UNDEF && s->size && !is_start(s->name))
            return true;
    }
    return false;
}

bool data_has_names(struct data *d, uint64_t address)
{
    uint32_t module;
    uint64_t vaddr;
    if (!data_locate(d, address - 1, &module, &vaddr))
        return false;
    struct data_file *f = d->own->modules.data[module].file;
    if (!f->is_naming_known)
        f->names_functions = names_functions(f->img) || data_open_debug(d, module);
    f->is_naming_known = true;
    return f->names_functions;
}

/* ---- names ---- */

static void put_frame(struct data *d, struct strbuf *s, const struct data_frame *f)
{
    if (f->file && f->line)
        str_printf(s, "%s:%u ", file_base_name(f->file), f->line);
    if (f->function)
        str_puts(s, f->function);
    else if (f->module != ID_NONE)
        str_printf(s, "%s+0x%" PRIx64, file_base_name(d->own->modules.data[f->module].path), f->vaddr);
    else
        str_printf(s, "0x%" PRIx64, f->vaddr);
}

/* The innermost three calls; if they have no names, the first that has. */
static const char *name_of_path(struct data *d, const struct data_object *o)
{
    struct strbuf s = {0};
    bool is_named = false;
    if (o->size_class)
        str_printf(&s, "%llu-%llu bytes at ",
                   o->size_class > DATA_SIZE_CLASS_MIN ? (1ull << (o->size_class - 1)) + 1 : 0, 1ull << o->size_class);
    for (uint32_t i = 0; i < o->path_len && (i < 3 || !is_named); i++) {
        const struct data_frame *f = data_frame(d, o->path[i]);
        is_named |= f->function != NULL;
        if (i >= 3 && !f->function)
            continue;
        str_puts(&s, i ? " <- " : "");
        put_frame(d, &s, f);
    }
    const char *name = o->path_len ? arena_strdup(d->own->arena, s.data) : "allocated by unknown code";
    str_free(&s);
    return name;
}

const char *data_object_name(struct data *d, uint32_t object)
{
    struct data_object *o = d->own->objects.data[object];
    if (!o->name)
        o->name = name_of_path(d, o);
    return o->name;
}
