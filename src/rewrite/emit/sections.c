/* SPDX-License-Identifier: Apache-2.0
 *
 * What debuggers read of a copy and the kernel does not: section headers, function symbols at the addresses of the
 * copies, unwind tables of moved and unmoved code in one section; and what the program may read of its own file:
 * sections that are not mapped, what was appended. Stands behind the last segment of the file, so nothing of it is
 * mapped. Source-level debug information is left out, its addresses being those of the original; so are the build id
 * and the debug links, which would lead a debugger to it.
 *
 * needs: layout, unwind, data. Fills nothing.
 */
#include "rewrite/impl.h"

#include <elf.h>
#include <stdlib.h>

enum { DW_PCREL_SDATA4 = 0x1b };

struct tables {
    const struct rw *w;
    VEC(Elf64_Shdr) headers;
    uint32_t *index_new; /* of an original's section; 0: left out */
    uint16_t text;       /* index of the new code */
    struct strbuf names, *tail;
    uint64_t tail_offset; /* in the file */
};

static size_t add(struct tables *t, const char *name, Elf64_Shdr h)
{
    h.sh_name = (uint32_t)t->names.len;
    str_put(&t->names, name, strlen(name) + 1);
    VEC_PUSH(&t->headers, h);
    return t->headers.len - 1;
}

/* Appends a section's content to the tail; frees it. */
static size_t add_bytes(struct tables *t, const char *name, Elf64_Shdr h, struct strbuf *bytes)
{
    while ((t->tail_offset + t->tail->len) % 8)
        str_put(t->tail, "", 1);
    h.sh_offset = t->tail_offset + t->tail->len;
    h.sh_size = bytes->len;
    h.sh_addralign = 8;
    if (bytes->len)
        str_put(t->tail, bytes->data, bytes->len);
    str_free(bytes);
    return add(t, name, h);
}

/* ---- the sections that stay ---- */

/* Not mapped and not for debuggers: something that the program reads from its own file (Racket keeps its heap so). */
static bool is_own_data(const struct image_section *s)
{
    static const char *const debug[] = {".debug", ".zdebug", ".gdb", ".gnu", ".note", ".stab", ".line"};
    for (size_t i = 0; i < ARRAY_LEN(debug); i++)
        if (strncmp(s->name, debug[i], strlen(debug[i])) == 0)
            return false;
    return s->type == SHT_PROGBITS;
}

static bool stays(const struct image_section *s)
{
    bool is_unwind = !strcmp(s->name, ".eh_frame") || !strcmp(s->name, ".eh_frame_hdr");
    bool is_symtab = s->type == SHT_SYMTAB; /* a new one stands in its place */
    return s->flags & SHF_ALLOC ? !is_unwind && !is_symtab : is_own_data(s);
}

static void add_originals(struct tables *t, const Elf64_Shdr *raw)
{
    const struct image *img = t->w->img;
    for (size_t i = 1; i < img->section_count; i++) {
        if (!stays(&img->sections[i]))
            continue;
        Elf64_Shdr h = raw[i];
        bool is_build_id = h.sh_type == SHT_NOTE && strstr(img->sections[i].name, "build-id");
        if (is_build_id)
            h.sh_type = SHT_PROGBITS;
        t->index_new[i] = (uint32_t)add(t, img->sections[i].name, h);
    }
    for (size_t i = 1; i < t->headers.len; i++) {
        Elf64_Shdr *h = &t->headers.data[i];
        h->sh_link = h->sh_link < img->section_count ? t->index_new[h->sh_link] : 0;
        if (h->sh_flags & SHF_INFO_LINK)
            h->sh_info = h->sh_info < img->section_count ? t->index_new[h->sh_info] : 0;
    }
}

static void add_code(struct tables *t)
{
    const struct rw *w = t->w;
    t->text = (uint16_t)add(t, ".text.mtool",
                            (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                         .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                         .sh_addr = w->text_vaddr,
                                         .sh_offset = w->text_vaddr - rw_file_bias(w->img),
                                         .sh_size = w->text_bytes,
                                         .sh_addralign = 64});
}

/* ---- unwind tables ---- */

#define MORE_FRAMES_BYTES (256u << 10) /* of code that stays: for what is taken at once, no more */

struct frames {
    struct strbuf *out;
    uint64_t addr;     /* that the section says it has */
    struct map cie_at; /* address of an original CIE -> its offset in out */
};

static uint32_t word_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* A record of the original .eh_frame with its length, or NULL. */
static const uint8_t *record_at(const struct image *img, uint64_t addr, size_t *bytes)
{
    const uint8_t *p = image_at(img, addr, 8);
    if (!p || word_at(p) >= 0xfffffff0u || !image_at(img, addr, *bytes = word_at(p) + 4ull))
        return NULL;
    return p;
}

/* References in it to personality and exception tables keep their distances and so become wrong: nobody asks for them
 * here. */
static void put_original(struct frames *f, const struct image *img, const struct image_fde *d)
{
    size_t bytes, cie_bytes;
    uint64_t cie_off;
    const uint8_t *p = record_at(img, d->record, &bytes);
    if (!p || bytes < 16)
        return;
    uint64_t cie_addr = d->record + 4 - word_at(p + 4);
    const uint8_t *cie = record_at(img, cie_addr, &cie_bytes);
    if (!cie)
        return;
    if (!map_get(&f->cie_at, cie_addr, &cie_off)) {
        cie_off = f->out->len;
        map_put(&f->cie_at, cie_addr, cie_off);
        str_put(f->out, (const char *)cie, cie_bytes);
    }
    uint64_t at = f->out->len;
    str_put(f->out, (const char *)p, bytes);
    uint32_t to_cie = (uint32_t)(at + 4 - cie_off), to_code = (uint32_t)(d->addr - (f->addr + at + 8));
    memcpy(f->out->data + at + 4, &to_cie, 4);
    memcpy(f->out->data + at + 8, &to_code, 4);
}

/* The new tables, then those of code that stays. */
static void add_unwind(struct tables *t)
{
    const struct rw *w = t->w;
    const struct cfg *c = w->cfg;
    struct strbuf out = {0};
    struct frames f = {.out = &out, .addr = w->eh_frame_vaddr};
    str_reserve(&out, w->eh_frame_bytes + MORE_FRAMES_BYTES);
    if (w->eh_frame_bytes > 4) /* without the word that ends it */
        str_put(&out, w->ro.data + (w->eh_frame_vaddr - w->ro_vaddr), w->eh_frame_bytes - 4);
    for (size_t i = 0; i < c->unwind.fde_count; i++) {
        const struct image_fde *d = &c->unwind.fdes[i];
        uint32_t fn = cfg_func_at(c, d->addr);
        if (fn != ID_NONE && w->funcs[fn].is_moved && !c->funcs.data[fn].is_plt)
            continue;
        if (c->unwind.cies[d->cie].fde_enc == DW_PCREL_SDATA4)
            put_original(&f, w->img, d);
    }
    str_put(&out, "\0\0\0\0", 4);
    add_bytes(t, ".eh_frame", (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addr = f.addr}, &out);
    map_fini(&f.cie_at);
}

/* ---- symbols ---- */

/* Moves a code symbol to the copy of its function, or of the block that it names. False if that stays. */
static bool move_symbol(const struct tables *t, Elf64_Sym *s)
{
    const struct rw *w = t->w;
    uint32_t b = s->st_shndx < SHN_LORESERVE ? cfg_block_start(w->cfg, s->st_value) : ID_NONE;
    if (!rw_block_moved(w, b))
        return false;
    uint32_t f = w->cfg->blocks.data[b].func;
    const struct rw_func *fn = &w->funcs[f];
    s->st_value = s->st_value == w->cfg->funcs.data[f].addr ? fn->addr_new : rw_enter(w, b);
    s->st_shndx = t->text;
    bool is_cold = s->st_value - fn->addr_new >= fn->size_hot;
    if (s->st_size)
        s->st_size =
            (is_cold ? fn->addr_cold + (fn->size_new - fn->size_hot) : fn->addr_new + fn->size_hot) - s->st_value;
    return true;
}

/* Of the part that was taken out of the function at that address; false: none was. */
static bool cold_symbol(const struct tables *t, uint64_t addr, Elf64_Sym *s)
{
    uint32_t f = cfg_func_at(t->w->cfg, addr);
    const struct rw_func *fn = f == ID_NONE ? NULL : &t->w->funcs[f];
    if (!fn || t->w->cfg->funcs.data[f].addr != addr || fn->size_new == fn->size_hot)
        return false;
    *s = (Elf64_Sym){.st_info = (uint8_t)ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                     .st_shndx = t->text,
                     .st_value = fn->addr_cold,
                     .st_size = fn->size_new - fn->size_hot};
    return true;
}

static bool is_wanted(const struct tables *t, const struct image_symbol *s)
{
    return s->shndx && s->name[0] && s->type != STT_TLS &&
           (s->shndx >= SHN_LORESERVE || (s->shndx < t->w->img->section_count && t->index_new[s->shndx]));
}

struct symbols {
    struct strbuf table, strings;
    size_t count;
};

static void put_symbol(struct symbols *s, const char *name, const char *suffix, Elf64_Sym e)
{
    e.st_name = (uint32_t)s->strings.len;
    str_puts(&s->strings, name);
    str_put(&s->strings, suffix, strlen(suffix) + 1);
    str_put(&s->table, (const char *)&e, sizeof e);
    s->count++;
}

/* Those of one binding class. A function that moved is known by its name in the copy, and as NAME.original where
 * pointers to it lead. */
static void put_symbols(const struct tables *t, struct symbols *out, bool is_local)
{
    const struct image *img = t->w->img;
    for (size_t i = img->symbol_count > img->dynsym_count ? img->dynsym_count : 1; i < img->symbol_count; i++) {
        const struct image_symbol *s = &img->symbols[i];
        if (!is_wanted(t, s))
            continue;
        Elf64_Sym e = {.st_info = (uint8_t)ELF64_ST_INFO(s->bind, s->type), .st_value = s->addr, .st_size = s->size};
        e.st_shndx = s->shndx < SHN_LORESERVE ? (uint16_t)t->index_new[s->shndx] : s->shndx;
        Elf64_Sym old = e;
        bool has_moved = move_symbol(t, &e);
        if ((s->bind == STB_LOCAL) == is_local)
            put_symbol(out, s->name, "", e);
        if (has_moved && is_local) {
            old.st_info = (uint8_t)ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
            put_symbol(out, s->name, ".original", old);
            if (cold_symbol(t, s->addr, &old))
                put_symbol(out, s->name, ".cold", old);
        }
    }
}

static void add_symbols(struct tables *t)
{
    struct symbols s = {0};
    str_reserve(&s.table, 2 * t->w->img->symbol_count * sizeof(Elf64_Sym));
    put_symbol(&s, "", "", (Elf64_Sym){0});
    put_symbols(t, &s, true); /* local symbols must come first */
    uint32_t locals = (uint32_t)s.count, link = (uint32_t)t->headers.len + 1;
    put_symbols(t, &s, false);
    add_bytes(t, ".symtab",
              (Elf64_Shdr){.sh_type = SHT_SYMTAB, .sh_link = link, .sh_info = locals, .sh_entsize = sizeof(Elf64_Sym)},
              &s.table);
    add_bytes(t, ".strtab", (Elf64_Shdr){.sh_type = SHT_STRTAB}, &s.strings);
}

/* ---- what stands behind the original ---- */

static uint64_t end_of_elf(const struct image *img, const Elf64_Ehdr *eh)
{
    uint64_t end = eh->e_shoff + (uint64_t)eh->e_shnum * sizeof(Elf64_Shdr);
    for (size_t i = 0; i < img->section_count; i++)
        if (img->sections[i].type != SHT_NOBITS)
            end = max_u64(end, img->sections[i].offset + img->sections[i].size);
    for (size_t i = 0; i < img->segment_count; i++)
        end = max_u64(end, img->segments[i].offset + img->segments[i].filesz);
    return end;
}

/* Archives and the like that were appended to the file are looked for at its end, or behind the section headers. */
static void add_appended(const struct image *img, uint64_t from, struct strbuf *tail)
{
    if (from < img->len_bytes)
        str_put(tail, (const char *)img->bytes + from, img->len_bytes - from);
}

/* ---- all ---- */

static void add_names(struct tables *t)
{
    static const char own[] = ".shstrtab";
    struct strbuf all = {0};
    str_put(&all, t->names.data, t->names.len);
    str_put(&all, own, sizeof own); /* add() appends it to names too, at the same place */
    add_bytes(t, own, (Elf64_Shdr){.sh_type = SHT_STRTAB}, &all);
}

void rw_sections(const struct rw *w, uint64_t tail_offset, struct strbuf *tail, Elf64_Ehdr *eh)
{
    struct tables t = {.w = w, .tail = tail, .tail_offset = tail_offset};
    size_t n = w->img->section_count;
    uint64_t end = end_of_elf(w->img, eh);
    if (!w->instrument->moves || n < 2 || n > SHN_LORESERVE - 8) {
        add_appended(w->img, end, tail);
        return; /* the code is where it was, or nothing is said about it */
    }
    Elf64_Shdr *raw = ARENA_ARRAY(w->arena, Elf64_Shdr, n);
    memcpy(raw, w->img->bytes + eh->e_shoff, n * sizeof *raw);
    t.index_new = ARENA_ARRAY(w->arena, uint32_t, n);
    str_reserve(tail, w->eh_frame_bytes + MORE_FRAMES_BYTES + 2 * w->img->symbol_count * sizeof(Elf64_Sym));
    add(&t, "", (Elf64_Shdr){0});
    add_originals(&t, raw);
    add_code(&t);
    add_unwind(&t);
    add_symbols(&t);
    add_names(&t);
    while ((tail_offset + tail->len) % 8)
        str_put(tail, "", 1);
    eh->e_shoff = tail_offset + tail->len;
    eh->e_shnum = (uint16_t)t.headers.len;
    eh->e_shstrndx = (uint16_t)(t.headers.len - 1);
    str_put(tail, (const char *)t.headers.data, t.headers.len * sizeof *t.headers.data);
    add_appended(w->img, end, tail);
    VEC_FREE(&t.headers);
    str_free(&t.names);
}
