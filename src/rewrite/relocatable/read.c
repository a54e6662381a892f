/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a relocatable object to sections, symbols and relocations. Every offset, size and number is checked
 * before it is used. */
#include "rewrite/relocatable/relocatable.h"

#include <stdlib.h>

static int refuse(const struct rel_object *o, const char *what)
{
    return diag_error("%s: %s; the object is corrupt, or cut off: make it again", o->name, what);
}

static bool has_bytes(const struct rel_object *o, uint64_t offset, uint64_t len)
{
    return offset <= o->size && len <= o->size - offset;
}

static int check_header(struct rel_object *o)
{
    if (o->size < SELFMAG || memcmp(o->bytes, ELFMAG, SELFMAG) != 0)
        return diag_error("%s: is no ELF file; give a relocatable object (.o) for x86-64", o->name);
    if (o->size < sizeof o->eh)
        return refuse(o, "ends inside its ELF header");
    memcpy(&o->eh, o->bytes, sizeof o->eh);
    if (o->eh.e_ident[EI_CLASS] != ELFCLASS64 || o->eh.e_ident[EI_DATA] != ELFDATA2LSB || o->eh.e_machine != EM_X86_64)
        return diag_error("%s: is for another machine; give a relocatable object (.o) for x86-64", o->name);
    if (o->eh.e_type != ET_REL)
        return diag_error("%s: is no relocatable object; give one (.o) for x86-64", o->name);
    if (!o->eh.e_shoff || o->eh.e_shentsize != sizeof(Elf64_Shdr))
        return refuse(o, "has no section headers, or ones of another size");
    return 0;
}

/* Section 0 holds the counts that do not fit the header (gABI, "extended numbering"). */
static int read_headers(struct rel_object *o, uint32_t *names)
{
    Elf64_Shdr zero;
    if (!has_bytes(o, o->eh.e_shoff, sizeof zero))
        return refuse(o, "has no section headers");
    memcpy(&zero, o->bytes + o->eh.e_shoff, sizeof zero);
    if (zero.sh_type != SHT_NULL)
        return refuse(o, "has a section of number 0");
    uint64_t count = o->eh.e_shnum ? o->eh.e_shnum : zero.sh_size;
    *names = o->eh.e_shstrndx == SHN_XINDEX ? zero.sh_link : o->eh.e_shstrndx;
    if (count > o->size || !has_bytes(o, o->eh.e_shoff, count * sizeof zero) || *names >= count)
        return refuse(o, "has section headers beyond its end");
    if (*names < SHN_LORESERVE)
        o->eh.e_shstrndx = (uint16_t)*names; /* as it is written */
    o->section_count = (uint32_t)count;
    o->sections = ARENA_ARRAY(o->arena, struct rel_section, count);
    for (uint32_t i = 0; i < count; i++) {
        struct rel_section *s = &o->sections[i];
        memcpy(&s->h, o->bytes + o->eh.e_shoff + i * sizeof zero, sizeof zero);
        s->name = "";
        if (i == 0 || s->h.sh_type == SHT_NULL || s->h.sh_type == SHT_NOBITS)
            continue;
        if (!has_bytes(o, s->h.sh_offset, s->h.sh_size))
            return refuse(o, "has a section beyond its end");
        s->bytes = s->h.sh_size ? o->bytes + s->h.sh_offset : NULL;
    }
    return 0;
}

static const char *string_at(const uint8_t *table, uint64_t len, uint64_t at)
{
    return table && at < len && memchr(table + at, 0, len - at) ? (const char *)table + at : NULL;
}

static int read_names(struct rel_object *o, uint32_t names)
{
    const struct rel_section *t = &o->sections[names];
    for (uint32_t i = 1; i < o->section_count && names; i++) {
        o->sections[i].name = string_at(t->bytes, t->h.sh_size, o->sections[i].h.sh_name);
        if (!o->sections[i].name)
            return refuse(o, "has a section whose name does not end");
    }
    return 0;
}

static int read_symbols(struct rel_object *o)
{
    for (uint32_t i = 1; i < o->section_count && !o->symtab; i++)
        if (o->sections[i].h.sh_type == SHT_SYMTAB)
            o->symtab = i;
    if (!o->symtab)
        return 0;
    const struct rel_section *t = &o->sections[o->symtab];
    uint64_t count = t->h.sh_size / sizeof(Elf64_Sym);
    if (t->h.sh_entsize != sizeof(Elf64_Sym) || count * sizeof(Elf64_Sym) != t->h.sh_size || count > UINT32_MAX / 2 ||
        !count || t->h.sh_info > count || t->h.sh_link >= o->section_count)
        return refuse(o, "has a symbol table of another form");
    const struct rel_section *strings = &o->sections[t->h.sh_link];
    o->strings = (const char *)strings->bytes;
    o->strings_len = strings->bytes ? strings->h.sh_size : 0;
    o->sym_count = (uint32_t)count;
    o->first_global = t->h.sh_info;
    o->syms = ARENA_ARRAY(o->arena, Elf64_Sym, count);
    memcpy(o->syms, t->bytes, t->h.sh_size);
    for (uint32_t i = 1; i < count; i++) {
        const Elf64_Sym *s = &o->syms[i];
        if (s->st_name && !string_at(strings->bytes, o->strings_len, s->st_name))
            return refuse(o, "has a symbol whose name does not end");
        if (s->st_shndx < SHN_LORESERVE && s->st_shndx >= o->section_count)
            return refuse(o, "has a symbol in a section that does not exist");
    }
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const Elf64_Rela *x = a, *y = b;
    return (x->r_offset > y->r_offset) - (x->r_offset < y->r_offset);
}

/* What linkers read, and no relocation is of. */
static bool is_table(const struct rel_section *s)
{
    switch (s->h.sh_type) {
    case SHT_RELA:
    case SHT_GROUP:
    case SHT_SYMTAB:
    case SHT_STRTAB:
        return true;
    default:
        return false;
    }
}

static int read_relas(struct rel_object *o, uint32_t i)
{
    const struct rel_section *r = &o->sections[i];
    uint64_t count = r->h.sh_size / sizeof(Elf64_Rela);
    if (r->h.sh_entsize != sizeof(Elf64_Rela) || count * sizeof(Elf64_Rela) != r->h.sh_size ||
        r->h.sh_info >= o->section_count || !r->h.sh_info || r->h.sh_link != o->symtab)
        return refuse(o, "has relocations of another form");
    struct rel_section *s = &o->sections[r->h.sh_info];
    if (is_table(s))
        return refuse(o, "has relocations of a table that only linkers read");
    if (s->rela_section)
        return refuse(o, "has a section with two tables of relocations");
    s->rela_section = i;
    s->relas = ARENA_ARRAY(o->arena, Elf64_Rela, count + 1);
    s->rela_count = count;
    if (count)
        memcpy(s->relas, r->bytes, r->h.sh_size);
    bool is_sorted = true;
    for (uint64_t k = 0; k < count; k++) {
        const Elf64_Rela *a = &s->relas[k];
        if (rel_sym(a) >= (o->sym_count ? o->sym_count : 1) ||
            (!(s->h.sh_flags & SHF_COMPRESSED) && /* offsets are those of the plain bytes: debug.c looks */
             (a->r_offset > s->h.sh_size || rel_width(rel_type(a)) > s->h.sh_size - a->r_offset)))
            return refuse(o, "has a relocation of what does not exist");
        is_sorted &= k == 0 || a[-1].r_offset <= a->r_offset;
    }
    if (!is_sorted)
        qsort(s->relas, count, sizeof *s->relas, by_offset);
    return 0;
}

static int read_group(struct rel_object *o, uint32_t i)
{
    const struct rel_section *g = &o->sections[i];
    if (g->h.sh_size % 4 || !g->bytes || g->h.sh_info >= o->sym_count)
        return refuse(o, "has a group of another form");
    for (uint64_t k = 4; k + 4 <= g->h.sh_size; k += 4) {
        uint32_t member;
        memcpy(&member, g->bytes + k, 4);
        if (member >= o->section_count)
            return refuse(o, "has a group of sections that do not exist");
        o->sections[member].group = i;
    }
    return 0;
}

int rel_read(struct rel_object *o)
{
    uint32_t names = 0;
    if (check_header(o) < 0 || read_headers(o, &names) < 0 || read_names(o, names) < 0 || read_symbols(o) < 0)
        return -1;
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        if ((s->h.sh_type == SHT_RELA && read_relas(o, i) < 0) || (s->h.sh_type == SHT_GROUP && read_group(o, i) < 0))
            return -1;
        s->is_code =
            s->bytes && s->h.sh_type == SHT_PROGBITS && (s->h.sh_flags & SHF_EXECINSTR) && (s->h.sh_flags & SHF_ALLOC);
    }
    return 0;
}

/* ---- relocations ---- */

static const struct {
    uint8_t class, width;
} types[] = {
    [R_X86_64_NONE] = {REL_NONE, 0},
    [R_X86_64_64] = {REL_ABSOLUTE, 8},
    [R_X86_64_PC32] = {REL_RELATIVE, 4},
    [R_X86_64_GOT32] = {REL_NAMED, 4},
    [R_X86_64_PLT32] = {REL_RELATIVE, 4},
    [R_X86_64_COPY] = {REL_UNKNOWN, 0},
    [R_X86_64_GLOB_DAT] = {REL_UNKNOWN, 0},
    [R_X86_64_JUMP_SLOT] = {REL_UNKNOWN, 0},
    [R_X86_64_RELATIVE] = {REL_UNKNOWN, 0},
    [R_X86_64_GOTPCREL] = {REL_NAMED, 4},
    [R_X86_64_32] = {REL_ABSOLUTE, 4},
    [R_X86_64_32S] = {REL_ABSOLUTE, 4},
    [R_X86_64_16] = {REL_ABSOLUTE, 2},
    [R_X86_64_PC16] = {REL_RELATIVE, 2},
    [R_X86_64_8] = {REL_ABSOLUTE, 1},
    [R_X86_64_PC8] = {REL_RELATIVE, 1},
    [R_X86_64_DTPMOD64] = {REL_NAMED, 8},
    [R_X86_64_DTPOFF64] = {REL_NAMED, 8},
    [R_X86_64_TPOFF64] = {REL_NAMED, 8},
    [R_X86_64_TLSGD] = {REL_NAMED, 4},
    [R_X86_64_TLSLD] = {REL_NAMED, 4},
    [R_X86_64_DTPOFF32] = {REL_NAMED, 4},
    [R_X86_64_GOTTPOFF] = {REL_NAMED, 4},
    [R_X86_64_TPOFF32] = {REL_NAMED, 4},
    [R_X86_64_PC64] = {REL_RELATIVE, 8},
    [R_X86_64_GOTOFF64] = {REL_ABSOLUTE, 8},
    [R_X86_64_GOTPC32] = {REL_NAMED, 4},
    [R_X86_64_GOT64] = {REL_NAMED, 8},
    [R_X86_64_GOTPCREL64] = {REL_NAMED, 8},
    [R_X86_64_GOTPC64] = {REL_NAMED, 8},
    [R_X86_64_GOTPLT64] = {REL_NAMED, 8},
    [R_X86_64_PLTOFF64] = {REL_ABSOLUTE, 8},
    [R_X86_64_SIZE32] = {REL_NAMED, 4},
    [R_X86_64_SIZE64] = {REL_NAMED, 8},
    [R_X86_64_GOTPC32_TLSDESC] = {REL_NAMED, 4},
    [R_X86_64_TLSDESC_CALL] = {REL_NAMED, 0},
    [R_X86_64_TLSDESC] = {REL_UNKNOWN, 0},
    [R_X86_64_IRELATIVE] = {REL_UNKNOWN, 0},
    [R_X86_64_RELATIVE64] = {REL_UNKNOWN, 0},
    [39] = {REL_UNKNOWN, 0},
    [40] = {REL_UNKNOWN, 0},
    [R_X86_64_GOTPCRELX] = {REL_NAMED, 4},
    [R_X86_64_REX_GOTPCRELX] = {REL_NAMED, 4},
};

enum rel_class rel_class_of(uint32_t type)
{
    return type < ARRAY_LEN(types) ? (enum rel_class)types[type].class : REL_UNKNOWN;
}

unsigned rel_width(uint32_t type) { return type < ARRAY_LEN(types) ? types[type].width : 0; }

struct rel_section *rel_code_of_symbol(const struct rel_object *o, uint32_t sym)
{
    if (!sym)
        return NULL;
    uint16_t i = o->syms[sym].st_shndx;
    return i && i < SHN_LORESERVE && o->sections[i].is_code ? &o->sections[i] : NULL;
}
