/* SPDX-License-Identifier: Apache-2.0
 * Where the functions of files are, by their symbols, those that a package of debug symbols has, and unwind tables:
 * lines "module PATH", "key KEY" (which file of that path it is), "code ADDRESS OFFSET BYTES" and "function ADDRESS
 * NAME", with addresses as in the file. */
#include "guest/guest.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "debug/debug.h"
#include "image/image.h"

/* How well an address is known to be a function's begin, and by what name. */
enum rank { OWN_SYMBOL, SYMBOL_APART, UNWOUND };
struct function {
    uint64_t address;
    enum rank rank;
    const char *name; /* NULL: UNWOUND */
};
struct functions { /* of a file */
    struct arena *a;
    const struct image *img;
    VEC(struct function) all;
};

static int by_address(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    if (x->address != y->address)
        return x->address > y->address ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank > y->rank ? 1 : -1;
    return x->name ? strcmp(x->name, y->name) : 0;
}

static bool is_function(const struct image *img, const struct image_symbol *s)
{
    return s->shndx != SHN_UNDEF && (s->type == STT_FUNC || s->type == STT_GNU_IFUNC) && *s->name &&
           image_is_code(img, s->addr);
}

static void add_own(struct functions *f)
{
    for (size_t i = 0; i < f->img->symbol_count; i++)
        if (is_function(f->img, &f->img->symbols[i])) {
            struct function fn = {f->img->symbols[i].addr, OWN_SYMBOL, f->img->symbols[i].name};
            VEC_PUSH(&f->all, fn);
        }
}

static void take_apart(void *ctx, uint64_t address, const char *name)
{
    struct functions *f = ctx;
    struct function fn = {address, SYMBOL_APART, arena_strdup(f->a, name)};
    if (image_is_code(f->img, address))
        VEC_PUSH(&f->all, fn);
}

static void add_unwound(struct functions *f)
{
    struct image_unwind unwind = {0};
    struct strbuf held = {0};
    diag_hold(&held); /* a table that is broken only names less */
    if (image_unwind_read(f->img, &unwind) < 0)
        unwind.fde_count = 0;
    diag_hold(NULL);
    str_free(&held);
    for (size_t i = 0; i < unwind.fde_count; i++) {
        struct function fn = {unwind.fdes[i].addr, UNWOUND, NULL};
        VEC_PUSH(&f->all, fn);
    }
}

static void put_functions(FILE *out, const struct image *img)
{
    struct functions f = {.a = arena_new(), .img = img};
    add_own(&f);
    debug_symbols_each(img->path, DEBUG_ROOT, take_apart, &f);
    add_unwound(&f);
    if (f.all.len)
        qsort(f.all.data, f.all.len, sizeof *f.all.data, by_address);
    for (size_t i = 0; i < f.all.len; i++) {
        const struct function *fn = &f.all.data[i];
        if (i && fn->address == fn[-1].address)
            continue;
        if (fn->name)
            fprintf(out, "function %llx %s\n", (unsigned long long)fn->address, fn->name);
        else
            fprintf(out, "function %llx fn_%llx\n", (unsigned long long)fn->address, (unsigned long long)fn->address);
    }
    VEC_FREE(&f.all);
    arena_free(f.a);
}

static int put_module(FILE *f, const char *path)
{
    struct image *img;
    if (image_open(path, &img) < 0)
        return -1;
    fprintf(f, "module %s\nkey %s\n", path, img->key);
    for (size_t i = 0; i < img->segment_count; i++) {
        const struct image_segment *s = &img->segments[i];
        if (s->type == PT_LOAD && s->flags & PF_X)
            fprintf(f, "code %llx %llx %llx\n", (unsigned long long)s->vaddr, (unsigned long long)s->offset,
                    (unsigned long long)s->filesz);
    }
    put_functions(f, img);
    image_close(img);
    return 0;
}

int guest_modules_write(const struct guest_tree *t, const char *path)
{
    FILE *f = fopen(path, "we");
    int rc = 0;
    for (size_t i = 0; f && rc == 0 && i < t->programs.len; i++)
        rc = put_module(f, t->programs.data[i]);
    bool is_bad = !f || fflush(f) != 0 || ferror(f);
    int err = errno;
    if (f)
        fclose(f);
    return rc == 0 && is_bad ? diag_error("cannot write %s: %s", path, strerror(err)) : rc;
}
