/* SPDX-License-Identifier: Apache-2.0
 * Where the functions of files are: lines "module PATH", "key KEY" (which file of that path it is), "code ADDRESS
 * OFFSET BYTES" and "function ADDRESS NAME", with addresses as in the file. */
#include "guest/guest.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "image/image.h"

struct function {
    uint64_t address;
    const char *name; /* NULL: of an entry of the unwind table */
};

static int by_address(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    if (x->address != y->address)
        return x->address > y->address ? 1 : -1;
    if (!x->name || !y->name)
        return (x->name == NULL) - (y->name == NULL);
    return strcmp(x->name, y->name);
}

static bool is_function(const struct image *img, const struct image_symbol *s)
{
    return s->shndx != SHN_UNDEF && (s->type == STT_FUNC || s->type == STT_GNU_IFUNC) && *s->name &&
           image_is_code(img, s->addr);
}

static void put_functions(FILE *f, const struct image *img)
{
    struct image_unwind unwind = {0};
    VEC(struct function) all = {0};
    struct strbuf held = {0};
    diag_hold(&held); /* a table that is broken only names less */
    if (image_unwind_read(img, &unwind) < 0)
        unwind.fde_count = 0;
    diag_hold(NULL);
    str_free(&held);
    for (size_t i = 0; i < img->symbol_count; i++)
        if (is_function(img, &img->symbols[i])) {
            struct function fn = {img->symbols[i].addr, img->symbols[i].name};
            VEC_PUSH(&all, fn);
        }
    for (size_t i = 0; i < unwind.fde_count; i++) {
        struct function fn = {unwind.fdes[i].addr, NULL};
        VEC_PUSH(&all, fn);
    }
    if (all.len)
        qsort(all.data, all.len, sizeof *all.data, by_address);
    for (size_t i = 0; i < all.len; i++) {
        if (i && all.data[i].address == all.data[i - 1].address)
            continue;
        if (all.data[i].name)
            fprintf(f, "function %llx %s\n", (unsigned long long)all.data[i].address, all.data[i].name);
        else
            fprintf(f, "function %llx fn_%llx\n", (unsigned long long)all.data[i].address,
                    (unsigned long long)all.data[i].address);
    }
    VEC_FREE(&all);
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
