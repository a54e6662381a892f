/* SPDX-License-Identifier: Apache-2.0
 *
 * An executable in memory that says what the object says, so that control flow is found in it as in any other: sections
 * at addresses, relocations applied. What only the linker knows has an address that is nobody's; so have functions that
 * others can see, for the linker may take another module's in their place. Words that hold addresses of code are listed
 * as relocations to the file's own addresses, as in a position-independent program.
 *
 * needs: read. fills: image, sections' vaddr, elsewhere*.
 */
#include "rewrite/relocatable/relocatable.h"

enum {
    BASE = 0x400000,
    PAGE = 4096,
    GAP = 64,      /* between sections: the end of one is not the next one's start */
    ELSEWHERE = 64 /* bytes for each symbol, and as many for its word in the linker's table */
};

static const char names[] = "\0.text\0.eh_frame\0.gcc_except_table\0.rodata\0.rela.held\0.shstrtab\0.data";

/* ---- addresses ---- */

static bool is_readonly(const struct rel_section *s)
{
    return !(s->h.sh_flags & SHF_WRITE) || strncmp(s->name, ".data.rel.ro", 12) == 0;
}

enum place { CODE, READONLY, WRITABLE, NO_BYTES, PLACE_COUNT };

static enum place place_of(const struct rel_section *s)
{
    if (!(s->h.sh_flags & SHF_ALLOC) || (s->h.sh_flags & SHF_COMPRESSED) || !s->h.sh_size || s->h.sh_type == SHT_NULL)
        return PLACE_COUNT;
    if (s->h.sh_type == SHT_NOBITS)
        return NO_BYTES;
    return s->is_code ? CODE : is_readonly(s) ? READONLY : WRITABLE;
}

struct spans {
    uint64_t lo[PLACE_COUNT], hi[PLACE_COUNT];
};

struct made { /* what the object has not */
    struct strbuf held, frames;
    uint64_t held_at, held_bytes, frames_at;
};

static void place_sections(struct rel_object *o, struct spans *sp, struct made *made)
{
    uint64_t at = BASE + PAGE;
    for (int p = 0; p < PLACE_COUNT; p++) {
        at = sp->lo[p] = ALIGN_UP(at, (uint64_t)PAGE);
        for (uint32_t i = 1; i < o->section_count; i++) {
            struct rel_section *s = &o->sections[i];
            if ((int)place_of(s) != p)
                continue;
            at = ALIGN_UP(at + GAP, min_u64(PAGE, max_u64(GAP, s->h.sh_addralign)));
            s->vaddr = at;
            at += s->h.sh_size;
        }
        if (p == READONLY) {
            made->held_at = ALIGN_UP(at + GAP, (uint64_t)GAP);
            made->frames_at = ALIGN_UP(made->held_at + made->held_bytes + GAP, (uint64_t)GAP);
            at = made->frames_at + made->frames.len;
        }
        sp->hi[p] = at + GAP;
        at += GAP;
    }
    o->elsewhere_lo = ALIGN_UP(at, (uint64_t)PAGE) + PAGE;
    o->elsewhere_bytes = 2ull * ELSEWHERE;
    o->elsewhere_hi = o->elsewhere_lo + o->elsewhere_bytes * (o->sym_count + 1ull);
}

static void name_elsewhere(struct rel_object *o)
{
    o->elsewhere = ARENA_ARRAY(o->arena, const char *, o->sym_count + 1ull);
    for (uint32_t i = 1; i < o->sym_count; i++)
        if (!o->syms[i].st_shndx && o->syms[i].st_name)
            o->elsewhere[i] = o->strings + o->syms[i].st_name;
}

static bool is_function(const struct rel_object *o, uint32_t sym)
{
    unsigned type = ELF64_ST_TYPE(o->syms[sym].st_info);
    return type == STT_FUNC || type == STT_GNU_IFUNC || !o->syms[sym].st_shndx;
}

/* Of those that may not keep to the calling convention, in a range of their own. */
static uint64_t address_elsewhere(const struct rel_object *o, uint32_t sym)
{
    uint64_t lo = is_function(o, sym) ? o->elsewhere_lo : o->elsewhere_hi;
    return lo + o->elsewhere_bytes * sym;
}

static uint64_t address_of(const struct rel_object *o, uint32_t sym)
{
    const Elf64_Sym *s = &o->syms[sym];
    bool is_visible = ELF64_ST_BIND(s->st_info) != STB_LOCAL;
    if (!sym)
        return 0;
    if (s->st_shndx == SHN_ABS)
        return s->st_value;
    if (!s->st_shndx || s->st_shndx >= SHN_LORESERVE || !o->sections[s->st_shndx].vaddr ||
        (is_visible && o->sections[s->st_shndx].is_code))
        return address_elsewhere(o, sym);
    return o->sections[s->st_shndx].vaddr + s->st_value;
}

/* ---- contents ---- */

static uint64_t value_of(const struct rel_object *o, const struct rel_section *s, const Elf64_Rela *r)
{
    uint64_t place = s->vaddr + r->r_offset, a = (uint64_t)r->r_addend;
    switch (rel_class_of(rel_type(r))) {
    case REL_ABSOLUTE:
        return address_of(o, rel_sym(r)) + a;
    case REL_RELATIVE:
        return address_of(o, rel_sym(r)) + a - place;
    case REL_NAMED:
        return address_elsewhere(o, rel_sym(r)) + ELSEWHERE + a - place; /* of use if it is the word of a table */
    case REL_NONE:
    case REL_UNKNOWN:
        break;
    }
    return 0;
}

static bool holds_code(const struct rel_object *o, const struct rel_section *s, const Elf64_Rela *r)
{
    const struct rel_section *to = rel_code_of_symbol(o, rel_sym(r));
    return rel_type(r) == R_X86_64_64 && to && place_of(s) != PLACE_COUNT && !s->is_code;
}

static void fill(struct rel_object *o, struct strbuf *held)
{
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        if (!s->vaddr || !s->bytes)
            continue;
        char *to = o->image.data + (s->vaddr - BASE);
        memcpy(to, s->bytes, s->h.sh_size);
        for (size_t k = 0; k < s->rela_count; k++) {
            const Elf64_Rela *r = &s->relas[k];
            uint64_t v = value_of(o, s, r);
            memcpy(to + r->r_offset, &v, rel_width(rel_type(r)));
            if (!holds_code(o, s, r))
                continue;
            const struct rel_section *code = rel_code_of_symbol(o, rel_sym(r));
            Elf64_Rela h = {s->vaddr + r->r_offset, R_X86_64_RELATIVE,
                            (int64_t)(code->vaddr + o->syms[rel_sym(r)].st_value + (uint64_t)r->r_addend)};
            str_put(held, &h, sizeof h);
        }
    }
}

static uint64_t count_held(const struct rel_object *o)
{
    uint64_t n = 0;
    for (uint32_t i = 1; i < o->section_count; i++)
        for (size_t k = 0; k < o->sections[i].rela_count; k++)
            n += holds_code(o, &o->sections[i], &o->sections[i].relas[k]);
    return n;
}

/* ---- headers ---- */

static uint32_t name_at(const char *name)
{
    for (uint32_t at = 1; at < sizeof names; at += (uint32_t)strlen(names + at) + 1)
        if (strcmp(names + at, name) == 0)
            return at;
    return 0;
}

static uint32_t name_of(const struct rel_section *s)
{
    const char *name = s->is_code                                       ? ".text"
                       : strcmp(s->name, ".eh_frame") == 0              ? ".eh_frame"
                       : strncmp(s->name, ".gcc_except_table", 17) == 0 ? ".gcc_except_table"
                       : is_readonly(s)                                 ? ".rodata"
                                                                        : ".data";
    return name_at(name);
}

static void put_section(struct strbuf *out, uint32_t name, uint32_t type, uint64_t flags, uint64_t vaddr, uint64_t size,
                        uint64_t entry)
{
    Elf64_Shdr h = {.sh_name = name,
                    .sh_type = type,
                    .sh_flags = flags,
                    .sh_addr = vaddr,
                    .sh_offset = vaddr - BASE,
                    .sh_size = size,
                    .sh_entsize = entry};
    str_put(out, &h, sizeof h);
}

static uint32_t put_sections(const struct rel_object *o, struct strbuf *out, const struct made *made, uint64_t names_at)
{
    uint32_t count = 1;
    put_section(out, 0, SHT_NULL, 0, BASE, 0, 0);
    for (uint32_t i = 1; i < o->section_count; i++) {
        const struct rel_section *s = &o->sections[i];
        if (!s->vaddr)
            continue;
        uint32_t type = s->h.sh_type == SHT_NOBITS ? SHT_NOBITS : SHT_PROGBITS;
        put_section(out, name_of(s), type, s->h.sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR), s->vaddr,
                    s->h.sh_size, 0);
        count++;
    }
    if (made->held_bytes) {
        put_section(out, 0, SHT_RELA, SHF_ALLOC, made->held_at, made->held_bytes, sizeof(Elf64_Rela));
        count++;
    }
    if (made->frames.len) {
        put_section(out, name_at(".eh_frame"), SHT_PROGBITS, SHF_ALLOC, made->frames_at, made->frames.len, 0);
        count++;
    }
    put_section(out, 0, SHT_STRTAB, 0, BASE + names_at, sizeof names, 0);
    return count + 1;
}

static void put_segments(char *to, const struct spans *sp)
{
    static const uint32_t flags[] = {[CODE] = PF_R | PF_X, [READONLY] = PF_R, [WRITABLE] = PF_R | PF_W};
    for (int p = CODE; p <= WRITABLE; p++) {
        uint64_t end = p == WRITABLE ? sp->hi[NO_BYTES] : sp->hi[p];
        Elf64_Phdr h = {.p_type = PT_LOAD,
                        .p_flags = flags[p],
                        .p_offset = sp->lo[p] - BASE,
                        .p_vaddr = sp->lo[p],
                        .p_filesz = sp->hi[p] - sp->lo[p],
                        .p_memsz = end - sp->lo[p],
                        .p_align = PAGE};
        memcpy(to + (size_t)p * sizeof h, &h, sizeof h);
    }
}

static void zeros(struct strbuf *s, size_t n)
{
    str_reserve(s, n + 1);
    memset(s->data + s->len, 0, n + 1);
    s->len += n;
}

void rel_synthesize(struct rel_object *o)
{
    struct spans sp;
    struct made made = {.held_bytes = count_held(o) * sizeof(Elf64_Rela)};
    rel_frames_told(o, &made.frames); /* for its size */
    place_sections(o, &sp, &made);
    name_elsewhere(o);
    zeros(&o->image, sp.hi[WRITABLE] - BASE);
    fill(o, &made.held);
    if (made.held.len)
        memcpy(o->image.data + (made.held_at - BASE), made.held.data, made.held.len);
    rel_frames_told(o, &made.frames); /* its addresses are known now */
    if (made.frames.len)
        memcpy(o->image.data + (made.frames_at - BASE), made.frames.data, made.frames.len);
    uint64_t names_at = o->image.len;
    str_put(&o->image, names, sizeof names);
    zeros(&o->image, -o->image.len & 7);
    uint64_t headers_at = o->image.len;
    uint32_t count = put_sections(o, &o->image, &made, names_at);
    str_free(&made.held);
    str_free(&made.frames);
    Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                    .e_type = ET_EXEC,
                    .e_machine = EM_X86_64,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof h,
                    .e_shoff = headers_at,
                    .e_ehsize = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = WRITABLE + 1,
                    .e_shentsize = sizeof(Elf64_Shdr)};
    if (count < SHN_LORESERVE) {
        h.e_shnum = (uint16_t)count;
        h.e_shstrndx = (uint16_t)(count - 1);
    } else { /* gABI, "extended numbering" */
        Elf64_Shdr zero = {.sh_size = count, .sh_link = count - 1};
        memcpy(o->image.data + headers_at, &zero, sizeof zero);
        h.e_shstrndx = SHN_XINDEX;
    }
    memcpy(o->image.data, &h, sizeof h);
    put_segments(o->image.data + sizeof h, &sp);
}
