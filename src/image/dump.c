/* SPDX-License-Identifier: Apache-2.0
 * An image as stable text, for `mtool dump image` and the golden tests: no pointers of ours, no host state. */
#include <elf.h>

#include "image/impl.h"

#define HEX(x) ((unsigned long long)(x))

static const char *const kind_names[IMAGE_KIND_COUNT] = {
    [IMAGE_EXEC] = "exec",
    [IMAGE_PIE] = "pie",
    [IMAGE_DSO] = "dso",
};

static void dump_name(const struct image *img, FILE *out, const char *what, const char *name)
{
    if (name)
        fprintf(out, "%s %s\n", what, str_printable(img->arena, name));
}

static void dump_head(const struct image *img, FILE *out)
{
    fprintf(out, "image %s %s%s entry 0x%llx memory 0x%llx-0x%llx bytes %zu%s\n",
            str_printable(img->arena, file_base_name(img->path)), kind_names[img->kind],
            img->is_static ? " static" : "", HEX(img->entry), HEX(img->vaddr_lo), HEX(img->vaddr_hi), img->len_bytes,
            img->has_ibt_property ? " ibt" : "");
    dump_name(img, out, "build-id", img->build_id[0] ? img->build_id : NULL);
    dump_name(img, out, "key", img->key);
    dump_name(img, out, "interp", img->interp);
    dump_name(img, out, "soname", img->soname);
    dump_name(img, out, "rpath", img->rpath);
    dump_name(img, out, "runpath", img->runpath);
    dump_name(img, out, "foreign", img->foreign_runtime);
    for (size_t i = 0; i < img->needed_count; i++)
        dump_name(img, out, "needed", img->needed[i]);
}

static void dump_tables(const struct image *img, FILE *out)
{
    for (size_t i = 0; i < img->segment_count; i++) {
        const struct image_segment *s = &img->segments[i];
        fprintf(out, "segment %zu type 0x%x %c%c%c offset 0x%llx addr 0x%llx file 0x%llx mem 0x%llx align 0x%llx\n", i,
                s->type, s->flags & PF_R ? 'r' : '-', s->flags & PF_W ? 'w' : '-', s->flags & PF_X ? 'x' : '-',
                HEX(s->offset), HEX(s->vaddr), HEX(s->filesz), HEX(s->memsz), HEX(s->align));
    }
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *s = &img->sections[i];
        fprintf(out, "section %zu %s type 0x%x flags 0x%llx addr 0x%llx offset 0x%llx size 0x%llx\n", i,
                str_printable(img->arena, s->name), s->type, HEX(s->flags), HEX(s->addr), HEX(s->offset), HEX(s->size));
    }
}

void image_dump(const struct image *img, FILE *out)
{
    dump_head(img, out);
    dump_tables(img, out);
    for (size_t i = 0; i < img->reloc_count; i++) {
        const struct image_reloc *r = &img->relocs[i];
        fprintf(out, "reloc 0x%llx type %u addend 0x%llx%s%s%s\n", HEX(r->addr), r->type, HEX(r->addend),
                r->is_relr ? " relr" : "", r->sym_name ? " sym " : "",
                r->sym_name ? str_printable(img->arena, r->sym_name) : "");
    }
    for (size_t i = 0; i < img->symbol_count; i++) {
        const struct image_symbol *s = &img->symbols[i];
        fprintf(out, "symbol 0x%llx size 0x%llx type %u bind %u shndx %u %s %s\n", HEX(s->addr), HEX(s->size), s->type,
                s->bind, s->shndx, s->is_dynamic ? "dynsym" : "symtab", str_printable(img->arena, s->name));
    }
}
