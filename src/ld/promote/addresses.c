/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of variables and functions that somebody makes: whoever holds one may go there. All are in relocations,
 * which the link kept, or in instructions.
 */
#include "ld/promote/finder.h"

#include <elf.h>
#include <stdlib.h>

/* ---- relocations ---- */

static void read_section(struct finder *s, const struct image_section *rela)
{
    const struct image_section *table = &s->img->sections[rela->link], *strings = &s->img->sections[table->link];
    const char *names = (const char *)s->img->bytes + strings->offset;
    size_t count = table->size / sizeof(Elf64_Sym);
    for (uint64_t i = 0; i < rela->size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        Elf64_Sym sym;
        memcpy(&r, s->img->bytes + rela->offset + i * sizeof r, sizeof r);
        size_t k = ELF64_R_SYM(r.r_info);
        if (ELF64_R_TYPE(r.r_info) == R_X86_64_NONE || k >= count)
            continue;
        memcpy(&sym, s->img->bytes + table->offset + k * sizeof sym, sizeof sym);
        VEC_PUSH(&s->relocs, ((struct reloc){.at = r.r_offset,
                                             .type = (uint32_t)ELF64_R_TYPE(r.r_info),
                                             .addend = r.r_addend,
                                             .name = sym.st_name < strings->size ? names + sym.st_name : "",
                                             .addr = sym.st_value,
                                             .size = sym.st_size,
                                             .sym_type = ELF64_ST_TYPE(sym.st_info),
                                             .is_defined = k != 0 && sym.st_shndx != SHN_UNDEF}));
    }
}

static int by_place(const void *a, const void *b)
{
    const struct reloc *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static bool is_readable(const struct image *img, const struct image_section *s)
{
    return s->type != SHT_NOBITS && s->offset <= img->len_bytes && s->size <= img->len_bytes - s->offset;
}

void promote_read_relocs(struct finder *s)
{
    const struct image *img = s->img;
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *r = &img->sections[i];
        if (r->type != SHT_RELA || r->flags & SHF_ALLOC || r->info >= img->section_count ||
            !(img->sections[r->info].flags & SHF_ALLOC) || r->link >= img->section_count ||
            img->sections[r->link].link >= img->section_count || !is_readable(img, r) ||
            !is_readable(img, &img->sections[r->link]) || strcmp(img->sections[r->info].name, ".eh_frame") == 0)
            continue;
        const struct image_section *strings = &img->sections[img->sections[r->link].link];
        if (is_readable(img, strings) && strings->size && !img->bytes[strings->offset + strings->size - 1])
            read_section(s, r);
    }
    if (s->relocs.len)
        qsort(s->relocs.data, s->relocs.len, sizeof *s->relocs.data, by_place);
}

bool promote_is_thread_local(uint32_t type)
{
    switch (type) {
    case R_X86_64_DTPMOD64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_TPOFF64:
    case R_X86_64_TLSGD:
    case R_X86_64_TLSLD:
    case R_X86_64_DTPOFF32:
    case R_X86_64_GOTTPOFF:
    case R_X86_64_TPOFF32:
    case R_X86_64_GOTPC32_TLSDESC:
    case R_X86_64_TLSDESC_CALL:
    case R_X86_64_TLSDESC:
        return true;
    default:
        return false;
    }
}

/* ---- addresses that are made ---- */

void promote_take(struct finder *s, uint64_t addr, const struct reloc *r, uint32_t by, uint64_t at)
{
    struct promote_facts *f = s->f;
    uint32_t function = cfg_func_at(s->c, addr);
    if (function != ID_NONE) {
        if (s->c->funcs.data[function].addr != addr)
            return; /* a label: of a switch */
        if (function == s->main && by == s->entry && by != ID_NONE) {
            s->main_refs += f->main_at != at;
            f->main_at = at;
            return;
        }
        if (map_has(&s->twice_at, addr) && !f->why)
            f->why =
                arena_printf(f->arena, "the address of %s is taken: it may be called by anybody, and returns twice",
                             promote_function_name(f, function));
        if (by == ID_NONE && image_is_code(s->img, at))
            promote_enter(s, function, "code in no function may call it");
        else
            VEC_PUSH(&f->taken, ((struct promote_taken){function, by, at}));
        return;
    }
    bool is_end = r && r->sym_type == STT_OBJECT && r->size && addr == r->addr + r->size;
    struct promote_variable *v = is_end ? NULL : promote_variable_at(f, addr);
    if (v && !v->why)
        v->why = by == ID_NONE ? "its address is in data"
                               : arena_printf(f->arena, "its address is taken in %s", promote_function_name(f, by));
}

static bool is_in_table(const struct cfg *c, uint64_t at)
{
    for (size_t i = 0; i < c->tables.len; i++)
        if (at - c->tables.data[i].addr < (uint64_t)c->tables.data[i].entries * c->tables.data[i].entry_bytes)
            return true;
    return false;
}

/* A distance within data is from a place that is not told: where a section alone is named, it may be anything of it. */
static void take_distance(struct finder *s, const struct reloc *r)
{
    promote_take(s, r->addr, r, ID_NONE, r->at);
    promote_take(s, r->addr + (uint64_t)r->addend, r, ID_NONE, r->at);
    if (r->sym_type != STT_SECTION)
        return;
    const struct image_section *in = image_section_of(s->img, r->addr);
    for (size_t i = 0; in && promote_may_hold_variables(in) && i < s->f->variables.len; i++)
        if (s->f->variables.data[i].addr - in->addr < in->size)
            promote_refuse(&s->f->variables.data[i], "data hold distances into its section");
}

void promote_take_of_data(struct finder *s)
{
    for (size_t i = 0; i < s->relocs.len; i++) {
        const struct reloc *r = &s->relocs.data[i];
        if (!r->is_defined || promote_is_thread_local(r->type) || image_is_code(s->img, r->at))
            continue;
        if (r->type == R_X86_64_PC32 || r->type == R_X86_64_PC64 || r->type == R_X86_64_PLT32) {
            if (!is_in_table(s->c, r->at))
                take_distance(s, r);
        } else {
            promote_take(s, r->addr + (uint64_t)r->addend, r, ID_NONE, r->at);
        }
    }
}
