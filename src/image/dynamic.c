/* SPDX-License-Identifier: Apache-2.0
 * What the dynamic loader reads (gABI chapter 5) and the symbol tables: needed libraries, names, relocations in their
 * three forms, symbols, and the index from addresses to function names. The dynamic section is believed before the
 * section headers, for those may have been stripped. */
#include <elf.h>
#include <stdlib.h>

#include "image/impl.h"

#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#define DT_RELRENT 37
#endif

typedef VEC(struct image_reloc) reloc_vec;

struct dynamic { /* the tags that are used; 0 where absent */
    uint64_t strtab, strsz, symtab, syment, hash, gnu_hash;
    uint64_t rela, relasz, relaent, jmprel, pltrelsz, pltrel, relr, relrsz, relrent;
    uint64_t soname, rpath, runpath, flags_1;
    const uint8_t *strings;
};

static const struct tag_field {
    int64_t tag;
    size_t offset;
} tag_fields[] = {
#define FIELD(tag, name)                                                                                               \
    {                                                                                                                  \
        tag, offsetof(struct dynamic, name)                                                                            \
    }
    FIELD(DT_STRTAB, strtab),   FIELD(DT_STRSZ, strsz),       FIELD(DT_SYMTAB, symtab),   FIELD(DT_SYMENT, syment),
    FIELD(DT_HASH, hash),       FIELD(DT_GNU_HASH, gnu_hash), FIELD(DT_RELA, rela),       FIELD(DT_RELASZ, relasz),
    FIELD(DT_RELAENT, relaent), FIELD(DT_JMPREL, jmprel),     FIELD(DT_PLTREL, pltrel),   FIELD(DT_PLTRELSZ, pltrelsz),
    FIELD(DT_RELR, relr),       FIELD(DT_RELRSZ, relrsz),     FIELD(DT_SONAME, soname),   FIELD(DT_RELRENT, relrent),
    FIELD(DT_RPATH, rpath),     FIELD(DT_RUNPATH, runpath),   FIELD(DT_FLAGS_1, flags_1),
#undef FIELD
};

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- the dynamic section ---- */

static void take_tag(struct dynamic *d, const Elf64_Dyn *e)
{
    for (size_t i = 0; i < ARRAY_LEN(tag_fields); i++)
        if (tag_fields[i].tag == e->d_tag)
            memcpy((uint8_t *)d + tag_fields[i].offset, &e->d_un.d_val, sizeof(uint64_t));
}

static int take_needed(struct image *img, const struct dynamic *d, const uint8_t *entries, size_t count)
{
    img->needed = ARENA_ARRAY(img->arena, const char *, img->needed_count);
    size_t n = 0;
    for (size_t i = 0; i < count && n < img->needed_count; i++) {
        if ((int64_t)get_u64(entries + i * sizeof(Elf64_Dyn)) != DT_NEEDED)
            continue;
        const char *name = image_string(d->strings, d->strsz, get_u64(entries + i * sizeof(Elf64_Dyn) + 8));
        if (!name)
            return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                                   "the name of a needed library is outside its table; the file is corrupt");
        img->needed[n++] = name;
    }
    return 0;
}

static int take_name(struct image *img, const struct dynamic *d, uint64_t offset, const char **out)
{
    if (!offset)
        return 0;
    *out = image_string(d->strings, d->strsz, offset);
    if (!*out)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "a name in the dynamic section is outside its table; the file is corrupt");
    return 0;
}

static int read_tags(struct image *img, struct dynamic *d)
{
    const uint8_t *p = image_at(img, img->dynamic_vaddr, img->dynamic_size);
    if (!p)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "the dynamic section is not inside a loaded segment; the file is corrupt");
    size_t count = 0, max = img->dynamic_size / sizeof(Elf64_Dyn);
    for (; count < max; count++) {
        Elf64_Dyn e;
        memcpy(&e, p + count * sizeof e, sizeof e);
        if (e.d_tag == DT_NULL)
            break;
        img->needed_count += e.d_tag == DT_NEEDED;
        take_tag(d, &e);
    }
    d->strings = d->strsz ? image_at(img, d->strtab, d->strsz) : NULL;
    if (!d->strings && d->strsz)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "the dynamic strings are not inside a loaded segment; the file is corrupt");
    if (!d->strings)
        d->strsz = 0;
    if (take_needed(img, d, p, count) < 0 || take_name(img, d, d->soname, &img->soname) < 0 ||
        take_name(img, d, d->rpath, &img->rpath) < 0 || take_name(img, d, d->runpath, &img->runpath) < 0)
        return -1;
    if (img->kind == IMAGE_DSO && ((d->flags_1 & DF_1_PIE) || (img->interp && !img->soname)))
        img->kind = IMAGE_PIE;
    return 0;
}

/* ---- symbols ---- */

/* The table has no length of its own: the symbols are counted by the hash tables, DT_HASH first as it says it outright.
 */
static uint64_t count_by_hash(const struct image *img, uint64_t hash)
{
    const uint8_t *p = hash ? image_at(img, hash, 8) : NULL;
    return p ? get_u32(p + 4) : 0;
}

/* Chains cover the symbols from symoffset on; the last symbol is the end of the chain that begins last. */
static uint64_t count_by_gnu_hash(const struct image *img, uint64_t hash)
{
    const uint8_t *head = hash ? image_at(img, hash, 16) : NULL;
    if (!head)
        return 0;
    uint64_t buckets = get_u32(head), first = get_u32(head + 4), bloom = get_u32(head + 8), last = 0;
    uint64_t at = hash + 16 + bloom * 8;
    const uint8_t *p = image_at(img, at, buckets * 4);
    for (uint64_t i = 0; p && i < buckets; i++)
        last = max_u64(last, get_u32(p + i * 4));
    if (last < first)
        return first;
    at += buckets * 4 + (last - first) * 4;
    for (; (p = image_at(img, at, 4)); last++) {
        if (get_u32(p) & 1)
            return last + 1;
        at += 4;
    }
    return 0;
}

static const struct image_section *section_of_type(const struct image *img, uint32_t type)
{
    for (size_t i = 0; i < img->section_count; i++)
        if (img->sections[i].type == type)
            return &img->sections[i];
    return NULL;
}

/* The highest symbol that a relocation names, plus one: relocations may name symbols that no hash table holds. */
static uint64_t count_by_relocs(const reloc_vec *relocs)
{
    uint64_t n = 0;
    for (size_t i = 0; i < relocs->len; i++)
        if (relocs->data[i].sym)
            n = max_u64(n, (uint64_t)relocs->data[i].sym + 1);
    return n;
}

static uint64_t count_dynsyms(const struct image *img, const struct dynamic *d, const reloc_vec *relocs)
{
    const struct image_section *s = section_of_type(img, SHT_DYNSYM);
    uint64_t n = s && s->addr == d->symtab ? s->size / sizeof(Elf64_Sym) : 0;
    if (!n)
        n = count_by_hash(img, d->hash);
    if (!n)
        n = count_by_gnu_hash(img, d->gnu_hash);
    return max_u64(n, count_by_relocs(relocs));
}

static struct image_symbol symbol_of(const uint8_t *p, bool is_dynamic)
{
    Elf64_Sym s;
    memcpy(&s, p, sizeof s);
    return (struct image_symbol){"",         s.st_value, s.st_size, ELF64_ST_TYPE(s.st_info), ELF64_ST_BIND(s.st_info),
                                 s.st_shndx, is_dynamic};
}

static int read_dynsyms(struct image *img, const struct dynamic *d, uint64_t count)
{
    if (d->syment && d->syment != sizeof(Elf64_Sym))
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "has dynamic symbols of %llu bytes instead of 24; the file is corrupt",
                               (unsigned long long)d->syment);
    const uint8_t *p = count <= img->len_bytes ? image_at(img, d->symtab, count * sizeof(Elf64_Sym)) : NULL;
    if (!p)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "the dynamic symbols are not inside a loaded segment; the file is corrupt");
    for (uint64_t i = 0; i < count; i++) {
        struct image_symbol s = symbol_of(p + i * sizeof(Elf64_Sym), true);
        s.name = image_string(d->strings, d->strsz, get_u32(p + i * sizeof(Elf64_Sym)));
        if (!s.name)
            return image_refuse_at(img, (uint64_t)(p - img->bytes) + i * sizeof(Elf64_Sym),
                                   "the name of dynamic symbol %llu is outside its table; the file is corrupt",
                                   (unsigned long long)i);
        img->symbols[i] = s;
    }
    img->symbol_count = img->dynsym_count = count;
    return 0;
}

static bool is_wanted(uint8_t type)
{
    return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE || type == STT_OBJECT || type == STT_TLS;
}

static int read_symtab(struct image *img, const struct image_section *s)
{
    if (s->link >= img->section_count || img->sections[s->link].type == SHT_NOBITS ||
        img->sections[s->link].type == SHT_NULL)
        return image_refuse_at(img, s->offset, "the symbol table has no table of names; the file is corrupt");
    const struct image_section *names = &img->sections[s->link];
    const uint8_t *p = img->bytes + s->offset;
    for (uint64_t i = 1; i < s->size / sizeof(Elf64_Sym); i++) {
        struct image_symbol y = symbol_of(p + i * sizeof(Elf64_Sym), false);
        if (!is_wanted(y.type))
            continue;
        y.name = image_string(img->bytes + names->offset, names->size, get_u32(p + i * sizeof(Elf64_Sym)));
        if (!y.name)
            return image_refuse_at(img, s->offset + i * sizeof(Elf64_Sym),
                                   "the name of symbol %llu is outside its table; the file is corrupt",
                                   (unsigned long long)i);
        img->symbols[img->symbol_count++] = y;
    }
    return 0;
}

/* ---- relocations ---- */

static int take_rela(const struct image *img, const uint8_t *p, uint64_t size, reloc_vec *out)
{
    for (uint64_t i = 0; i + sizeof(Elf64_Rela) <= size; i += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        memcpy(&r, p + i, sizeof r);
        uint32_t type = (uint32_t)ELF64_R_TYPE(r.r_info);
        if (type == R_X86_64_NONE)
            continue;
        if (!image_load_of(img, r.r_offset))
            return image_refuse_at(
                img, (uint64_t)(p + i - img->bytes),
                "a relocation for address 0x%llx is outside the loaded segments; the file is corrupt",
                (unsigned long long)r.r_offset);
        VEC_PUSH(out, ((struct image_reloc){r.r_offset, type, (uint32_t)ELF64_R_SYM(r.r_info), NULL, r.r_addend,
                                            (uint64_t)(p + i - img->bytes), false}));
    }
    return 0;
}

static int read_rela(const struct image *img, uint64_t addr, uint64_t size, reloc_vec *out)
{
    if (!size)
        return 0;
    const uint8_t *p = image_at(img, addr, size);
    if (!p || size % sizeof(Elf64_Rela))
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "the relocations at 0x%llx are not inside a loaded segment; the file is corrupt",
                               (unsigned long long)addr);
    return take_rela(img, p, size, out);
}

/* `word`: which packed word names the place. */
static int take_relr(const struct image *img, uint64_t addr, const uint8_t *word, reloc_vec *out)
{
    const uint8_t *p = image_at(img, addr, 8);
    if (!p)
        return image_refuse_at(img, (uint64_t)(word - img->bytes),
                               "a packed relocation for address 0x%llx is outside the file; the file is corrupt",
                               (unsigned long long)addr);
    VEC_PUSH(out, ((struct image_reloc){addr, R_X86_64_RELATIVE, 0, NULL, (int64_t)get_u64(p),
                                        (uint64_t)(p - img->bytes), true}));
    return 0;
}

/* RELR (gABI, 2018): an even word is a place and makes the next one current; an odd word is a bitmap over the 63 words
 * from the current one on, after which the current place moves by 63 words. */
static int read_relr(const struct image *img, uint64_t addr, uint64_t size, reloc_vec *out)
{
    if (!size)
        return 0;
    const uint8_t *p = image_at(img, addr, size);
    if (!p || size % 8)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "the packed relocations are not inside a loaded segment; the file is corrupt");
    uint64_t place = 0;
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t w = get_u64(p + i);
        if (!(w & 1)) {
            if (take_relr(img, w, p + i, out) < 0)
                return -1;
            place = w + 8;
            continue;
        }
        for (unsigned bit = 1; bit < 64 && w >> bit; bit++)
            if ((w >> bit & 1) && take_relr(img, place + (bit - 1) * 8, p + i, out) < 0)
                return -1;
        place += 63 * (uint64_t)8;
    }
    return 0;
}

static int check_reloc_tags(const struct image *img, const struct dynamic *d)
{
    if (d->relaent && d->relaent != sizeof(Elf64_Rela))
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "has relocations of %llu bytes instead of 24; the file is corrupt",
                               (unsigned long long)d->relaent);
    if (d->relrent && d->relrent != 8)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "has packed relocations of %llu bytes instead of 8; the file is corrupt",
                               (unsigned long long)d->relrent);
    if (d->pltrelsz && d->pltrel != DT_RELA)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "has lazy relocations without addends, which x86-64 does not know; the file is corrupt");
    return 0;
}

/* JMPREL may be the tail of RELA. */
static int read_relocs(const struct image *img, const struct dynamic *d, reloc_vec *out)
{
    if (check_reloc_tags(img, d) < 0 || read_rela(img, d->rela, d->relasz, out) < 0 ||
        read_relr(img, d->relr, d->relrsz, out) < 0)
        return -1;
    bool is_within = d->pltrelsz && d->jmprel >= d->rela && d->jmprel - d->rela < d->relasz;
    return is_within ? 0 : read_rela(img, d->jmprel, d->pltrelsz, out);
}

/* A static executable relocates itself (IRELATIVE) from symbols that are not kept; its sections still tell. */
static int read_static_relocs(const struct image *img, reloc_vec *out)
{
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *s = &img->sections[i];
        if (s->type == SHT_RELA && (s->flags & SHF_ALLOC) && read_rela(img, s->addr, s->size, out) < 0)
            return -1;
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct image_reloc *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr > y->addr ? 1 : -1;
    return (x->file_offset > y->file_offset) - (x->file_offset < y->file_offset);
}

static bool is_sorted(const struct image_reloc *r, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (r[i].addr < r[i - 1].addr)
            return false;
    return true;
}

static void keep_relocs(struct image *img, const reloc_vec *found)
{
    img->relocs = ARENA_ARRAY(img->arena, struct image_reloc, found->len);
    img->reloc_count = found->len;
    if (!found->len)
        return;
    memcpy(img->relocs, found->data, found->len * sizeof *found->data);
    if (!is_sorted(img->relocs, img->reloc_count))
        qsort(img->relocs, img->reloc_count, sizeof *img->relocs, by_place);
    for (size_t i = 0; i < img->reloc_count; i++)
        if (img->relocs[i].sym)
            img->relocs[i].sym_name = img->symbols[img->relocs[i].sym].name;
}

/* ---- all of it ---- */

static int read_symbols(struct image *img, const struct dynamic *d, uint64_t dynsyms)
{
    const struct image_section *s = section_of_type(img, SHT_SYMTAB);
    uint64_t max = dynsyms + (s ? s->size / sizeof(Elf64_Sym) : 0);
    if (max > img->len_bytes)
        return image_refuse_at(img, s ? s->offset : image_offset(img, d->symtab),
                               "the symbols are larger than the file; the file is corrupt");
    img->symbols = ARENA_ARRAY(img->arena, struct image_symbol, max);
    if (dynsyms && read_dynsyms(img, d, dynsyms) < 0)
        return -1;
    return s ? read_symtab(img, s) : 0;
}

/* A table that begins in the headers of the file is none, and reads otherwise in every copy. */
static int check_hash_place(const struct image *img, uint64_t hash)
{
    Elf64_Ehdr h;
    memcpy(&h, img->bytes, sizeof h);
    uint64_t at = hash ? image_offset(img, hash) : UINT64_MAX;
    if (at < sizeof h || (at >= h.e_phoff && at - h.e_phoff < img->segment_count * sizeof(Elf64_Phdr)))
        return image_refuse_at(img, at, "a table of hashed symbols lies in the headers; the file is corrupt");
    return 0;
}

static int read_relocs_and_symbols(struct image *img, const struct dynamic *d, reloc_vec *relocs)
{
    if (check_hash_place(img, d->hash) < 0 || check_hash_place(img, d->gnu_hash) < 0)
        return -1;
    bool is_dynamic = img->dynamic_vaddr != 0;
    if ((is_dynamic ? read_relocs(img, d, relocs) : read_static_relocs(img, relocs)) < 0)
        return -1;
    uint64_t dynsyms = is_dynamic && d->symtab ? count_dynsyms(img, d, relocs) : 0;
    if (count_by_relocs(relocs) > dynsyms)
        return image_refuse_at(img, image_offset(img, img->dynamic_vaddr),
                               "relocations name symbols, but there is no dynamic symbol table; the file is corrupt");
    if (read_symbols(img, d, dynsyms) < 0)
        return -1;
    keep_relocs(img, relocs);
    return 0;
}

int image_read_dynamic(struct image *img)
{
    struct dynamic d = {0};
    if (img->dynamic_vaddr && read_tags(img, &d) < 0)
        return -1;
    reloc_vec relocs = {0};
    int rc = read_relocs_and_symbols(img, &d, &relocs);
    VEC_FREE(&relocs);
    return rc;
}

/* ---- function names ---- */

static bool names_code(const struct image *img, const struct image_symbol *s)
{
    if (s->shndx == SHN_UNDEF || !s->name[0] || s->size > UINT64_MAX - s->addr)
        return false;
    if (s->type != STT_FUNC && s->type != STT_GNU_IFUNC && s->type != STT_NOTYPE)
        return false;
    return image_is_code(img, s->addr);
}

/* Among names of one address: one with a size and type before a bare label, public before local, then fewer leading
 * underscores, then the shorter, then the first. Higher is better. */
static int name_rank(const struct image_symbol *s)
{
    int bind = s->bind == STB_GLOBAL ? 2 : s->bind == STB_WEAK ? 1 : 0;
    int underscores = (int)strspn(s->name, "_");
    return (s->type != STT_NOTYPE) * 64 + (s->size != 0) * 32 + bind * 8 + (underscores < 7 ? 7 - underscores : 0);
}

static int by_name(const void *a, const void *b, void *ctx)
{
    const struct image_symbol *s = ctx, *x = &s[*(const uint32_t *)a], *y = &s[*(const uint32_t *)b];
    if (x->addr != y->addr)
        return x->addr > y->addr ? 1 : -1;
    int rx = name_rank(x), ry = name_rank(y);
    if (rx != ry)
        return rx - ry;
    size_t nx = strlen(x->name), ny = strlen(y->name);
    if (nx != ny)
        return nx > ny ? -1 : 1;
    return (x < y) - (x > y);
}

void image_index_functions(struct image *img)
{
    struct image_index *ix = img->index;
    ix->funcs = ARENA_ARRAY(img->arena, uint32_t, img->symbol_count);
    for (uint32_t i = 0; i < img->symbol_count; i++)
        if (names_code(img, &img->symbols[i]))
            ix->funcs[ix->func_count++] = i;
    qsort_r(ix->funcs, ix->func_count, sizeof *ix->funcs, by_name, img->symbols);
    ix->func_hi = ARENA_ARRAY(img->arena, uint64_t, ix->func_count);
    uint64_t hi = 0;
    for (size_t i = 0; i < ix->func_count; i++) {
        const struct image_symbol *s = &img->symbols[ix->funcs[i]];
        hi = max_u64(hi, s->addr + (s->size ? s->size : 1));
        ix->func_hi[i] = hi;
    }
}

const char *image_symbol_name(const struct image *img, uint64_t vaddr, uint64_t *offset)
{
    const struct image_index *ix = img->index;
    /* how many begin at or below vaddr */
    size_t lo = PARTITION_POINT(i, 0, ix->func_count, img->symbols[ix->funcs[i]].addr <= vaddr);
    for (size_t i = lo; i-- > 0 && ix->func_hi[i] > vaddr;) {
        const struct image_symbol *s = &img->symbols[ix->funcs[i]];
        if (vaddr - s->addr >= (s->size ? s->size : 1))
            continue;
        if (offset)
            *offset = vaddr - s->addr;
        return s->name;
    }
    return NULL;
}
