/* SPDX-License-Identifier: Apache-2.0
 * The bytes of an ELF file to segments, sections and the look-ups by address. Every offset and size is checked before
 * it is used, since the file may be cut off or broken; what the dynamic loader reads is in dynamic.c. */
#include "image/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "image/impl.h"

#define ADDR_END (1ull << 47)      /* user addresses end here */
#define SEGMENTS_MAX (65536 / 56u) /* the kernel runs no file with more bytes of program headers */

int image_refuse(const struct image *img, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[512];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return diag_error("%s: %s", img->path, text);
}

int image_refuse_at(const struct image *img, uint64_t offset, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[512];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return diag_error("%s: %s (offset 0x%llx)", img->path, text, (unsigned long long)offset);
}

uint64_t image_offset(const struct image *img, uint64_t vaddr)
{
    const struct load *l = image_load_of(img, vaddr);
    return l ? l->offset + (vaddr - l->lo) : 0;
}

static uint64_t phdr_offset(const struct image *img, size_t i)
{
    Elf64_Ehdr h;
    memcpy(&h, img->bytes, sizeof h);
    return h.e_phoff + i * sizeof(Elf64_Phdr);
}

static uint64_t shdr_offset(const struct image *img, size_t i)
{
    Elf64_Ehdr h;
    memcpy(&h, img->bytes, sizeof h);
    return h.e_shoff + i * sizeof(Elf64_Shdr);
}

const char *image_string(const uint8_t *table, uint64_t table_len, uint64_t offset)
{
    if (offset >= table_len || !memchr(table + offset, 0, table_len - offset))
        return NULL;
    return (const char *)table + offset;
}

/* ---- the ELF header ---- */

static const struct machine_name {
    uint16_t machine;
    const char *name;
} machine_names[] = {
    {EM_386, "32-bit x86"},   {EM_ARM, "32-bit Arm"},   {EM_AARCH64, "aarch64"},     {EM_RISCV, "RISC-V"},
    {EM_PPC, "32-bit POWER"}, {EM_PPC64, "POWER"},      {EM_S390, "s390x"},          {EM_MIPS, "MIPS"},
    {EM_SPARC, "SPARC"},      {EM_SPARCV9, "SPARC V9"}, {EM_BPF, "the BPF machine"}, {EM_IA_64, "Itanium"},
};

static const char *machine_name(uint16_t machine)
{
    for (size_t i = 0; i < ARRAY_LEN(machine_names); i++)
        if (machine_names[i].machine == machine)
            return machine_names[i].name;
    return "another processor";
}

static int refuse_no_elf(const struct image *img)
{
    const uint8_t *p = img->bytes;
    if (!img->len_bytes)
        return image_refuse(img, "the file is empty; give an x86-64 executable or shared object");
    if (img->len_bytes >= 2 && p[0] == '#' && p[1] == '!')
        return image_refuse(img, "is a script, not an ELF file; give the interpreter of its first line");
    return image_refuse(img, "is not an ELF file; give an x86-64 executable or shared object");
}

static int check_header(const struct image *img, Elf64_Ehdr *h)
{
    if (img->len_bytes < SELFMAG || memcmp(img->bytes, ELFMAG, SELFMAG) != 0)
        return refuse_no_elf(img);
    if (img->len_bytes < sizeof(Elf32_Ehdr))
        return image_refuse_at(img, img->len_bytes, "is cut off inside the ELF header; get a whole copy");
    size_t have = img->len_bytes < sizeof *h ? img->len_bytes : sizeof *h;
    memcpy(h, img->bytes, have);
    if (h->e_ident[EI_DATA] != ELFDATA2LSB)
        return image_refuse(img, "is big-endian; mtool reads x86-64 files only");
    if (h->e_ident[EI_CLASS] == ELFCLASS32)
        return image_refuse(img, "is a 32-bit file (%s); mtool reads 64-bit x86-64 files only",
                            h->e_machine == EM_X86_64 ? "x32" : machine_name(h->e_machine));
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_VERSION] != EV_CURRENT)
        return image_refuse_at(img, EI_CLASS, "has an ELF class or version that does not exist; the file is corrupt");
    if (have < sizeof *h)
        return image_refuse_at(img, img->len_bytes, "is cut off inside the ELF header; get a whole copy");
    if (h->e_machine != EM_X86_64)
        return image_refuse(img, "is for %s (ELF machine %u); mtool reads x86-64 files only",
                            machine_name(h->e_machine), h->e_machine);
    if (h->e_ident[EI_OSABI] != ELFOSABI_NONE && h->e_ident[EI_OSABI] != ELFOSABI_GNU)
        return image_refuse(img, "is for another operating system (ELF ABI %u); mtool reads Linux files only",
                            h->e_ident[EI_OSABI]);
    return 0;
}

static int check_type(const struct image *img, uint16_t type)
{
    switch (type) {
    case ET_EXEC:
    case ET_DYN:
        return 0;
    case ET_REL:
        return image_refuse(img, "is a relocatable object (.o); link it and give the program");
    case ET_CORE:
        return image_refuse(img, "is a core dump; give the program that dumped it");
    default:
        return image_refuse(img, "has ELF type %u, which is neither a program nor a shared object", type);
    }
}

/* ---- segments ---- */

static int check_load(const struct image *img, const Elf64_Phdr *p, unsigned i)
{
    if (p->p_filesz > p->p_memsz)
        return image_refuse_at(img, phdr_offset(img, i),
                               "segment %u is larger in the file than in memory; the file is corrupt", i);
    if (p->p_vaddr >= ADDR_END || p->p_memsz > ADDR_END - p->p_vaddr)
        return image_refuse_at(img, phdr_offset(img, i),
                               "segment %u lies outside the address space; the file is corrupt", i);
    if (p->p_filesz && ((p->p_vaddr - p->p_offset) & 4095))
        return image_refuse_at(img, phdr_offset(img, i),
                               "segment %u has an offset that cannot be mapped to its address; the file is corrupt", i);
    return 0;
}

static int by_load(const void *a, const void *b)
{
    const struct load *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static int index_loads(struct image *img)
{
    struct image_index *ix = img->index;
    ix->loads = ARENA_ARRAY(img->arena, struct load, img->segment_count);
    for (size_t i = 0; i < img->segment_count; i++) {
        const struct image_segment *s = &img->segments[i];
        if (s->type == PT_LOAD && s->memsz)
            ix->loads[ix->load_count++] =
                (struct load){s->vaddr, s->vaddr + s->filesz, s->vaddr + s->memsz, s->offset, s->flags};
    }
    if (!ix->load_count)
        return image_refuse_at(img, phdr_offset(img, 0), "has no loadable segment; there is nothing to run in it");
    qsort(ix->loads, ix->load_count, sizeof *ix->loads, by_load);
    for (size_t i = 1; i < ix->load_count; i++)
        if (ix->loads[i].lo < ix->loads[i - 1].hi_mem)
            return image_refuse_at(img, ix->loads[i].offset, "segments overlap at address 0x%llx; the file is corrupt",
                                   (unsigned long long)ix->loads[i].lo);
    img->vaddr_lo = ix->loads[0].lo;
    img->vaddr_hi = ix->loads[ix->load_count - 1].hi_mem;
    return 0;
}

static int note_segment(struct image *img, const struct image_segment *s, unsigned i)
{
    if (s->type == PT_DYNAMIC) {
        img->dynamic_vaddr = s->vaddr;
        img->dynamic_size = s->filesz;
    } else if (s->type == PT_GNU_RELRO) {
        if (s->memsz > UINT64_MAX - s->vaddr)
            return image_refuse_at(img, phdr_offset(img, i),
                                   "segment %u lies outside the address space; the file is corrupt", i);
        img->index->relro = (struct range){s->vaddr, s->vaddr + s->memsz};
    } else if (s->type == PT_INTERP) {
        img->interp = image_string(img->bytes + s->offset, s->filesz, 0);
        if (!img->interp)
            return image_refuse_at(img, s->offset,
                                   "the name of the program interpreter does not end; the file is corrupt");
    }
    return 0;
}

static int read_segments(struct image *img, const Elf64_Ehdr *h, uint64_t count)
{
    if (count && h->e_phentsize != sizeof(Elf64_Phdr))
        return image_refuse_at(img, offsetof(Elf64_Ehdr, e_phentsize),
                               "has program headers of %u bytes instead of 56; the file is corrupt", h->e_phentsize);
    if (count > SEGMENTS_MAX)
        return image_refuse_at(img, offsetof(Elf64_Ehdr, e_phnum),
                               "has %llu program headers, more than the kernel takes; the file is corrupt",
                               (unsigned long long)count);
    if (!image_has_bytes(img, h->e_phoff, count * sizeof(Elf64_Phdr)))
        return image_refuse_at(img, h->e_phoff,
                               "program headers lie beyond the end of the file; it is cut off, get a whole copy");
    img->segments = ARENA_ARRAY(img->arena, struct image_segment, count);
    img->segment_count = count;
    for (unsigned i = 0; i < count; i++) {
        Elf64_Phdr p;
        memcpy(&p, img->bytes + h->e_phoff + i * sizeof p, sizeof p);
        struct image_segment *s = &img->segments[i];
        *s = (struct image_segment){p.p_type, p.p_flags, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_align};
        if (p.p_type == PT_NULL || p.p_type == PT_GNU_STACK)
            continue;
        if (!image_has_bytes(img, p.p_offset, p.p_filesz))
            return image_refuse_at(img, phdr_offset(img, i),
                                   "segment %u ends beyond the end of the file; it is cut off, get a whole copy", i);
        if ((p.p_type == PT_LOAD && check_load(img, &p, i) < 0) || note_segment(img, s, i) < 0)
            return -1;
    }
    return index_loads(img);
}

/* ---- sections ---- */

/* Of the others the offset and size are not looked at, and may say anything. */
static bool has_bytes(uint32_t section_type) { return section_type != SHT_NOBITS && section_type != SHT_NULL; }

static int read_section_names(struct image *img, const Elf64_Shdr *raw, uint64_t names_index)
{
    if (names_index == SHN_UNDEF)
        return 0;
    if (names_index >= img->section_count || !has_bytes(raw[names_index].sh_type))
        return image_refuse_at(img, offsetof(Elf64_Ehdr, e_shstrndx),
                               "the table of section names does not exist; the file is corrupt");
    const Elf64_Shdr *t = &raw[names_index];
    for (size_t i = 0; i < img->section_count; i++) {
        img->sections[i].name = image_string(img->bytes + t->sh_offset, t->sh_size, raw[i].sh_name);
        if (!img->sections[i].name)
            return image_refuse_at(img, shdr_offset(img, i),
                                   "the name of section %zu is outside the table of names; the file is corrupt", i);
    }
    return 0;
}

static int check_section(const struct image *img, const Elf64_Shdr *s, size_t i)
{
    if (has_bytes(s->sh_type) && !image_has_bytes(img, s->sh_offset, s->sh_size))
        return image_refuse_at(img, shdr_offset(img, i),
                               "section %zu ends beyond the end of the file; it is cut off, get a whole copy", i);
    if ((s->sh_flags & SHF_ALLOC) && (s->sh_addr >= ADDR_END || s->sh_size > ADDR_END - s->sh_addr))
        return image_refuse_at(img, shdr_offset(img, i),
                               "section %zu lies outside the address space; the file is corrupt", i);
    return 0;
}

static int read_sections(struct image *img, const Elf64_Ehdr *h, uint64_t count, uint64_t names_index)
{
    if (!count)
        return 0;
    if (h->e_shentsize != sizeof(Elf64_Shdr))
        return image_refuse_at(img, offsetof(Elf64_Ehdr, e_shentsize),
                               "has section headers of %u bytes instead of 64; the file is corrupt", h->e_shentsize);
    if (count > img->len_bytes || !image_has_bytes(img, h->e_shoff, count * sizeof(Elf64_Shdr)))
        return image_refuse_at(img, h->e_shoff,
                               "section headers lie beyond the end of the file; it is cut off, get a whole copy");
    Elf64_Shdr *raw = ARENA_ARRAY(img->arena, Elf64_Shdr, count);
    memcpy(raw, img->bytes + h->e_shoff, count * sizeof *raw);
    img->sections = ARENA_ARRAY(img->arena, struct image_section, count);
    img->section_count = count;
    for (size_t i = 0; i < count; i++) {
        if (check_section(img, &raw[i], i) < 0)
            return -1;
        img->sections[i] = (struct image_section){"",
                                                  raw[i].sh_type,
                                                  raw[i].sh_link,
                                                  raw[i].sh_info,
                                                  raw[i].sh_flags,
                                                  raw[i].sh_addr,
                                                  raw[i].sh_offset,
                                                  raw[i].sh_size,
                                                  raw[i].sh_entsize};
    }
    return read_section_names(img, raw, names_index);
}

/* Separate debug files keep the headers of the program and none of its code. */
static int check_has_code_bytes(const struct image *img)
{
    size_t with_bytes = 0, without = 0;
    for (size_t i = 0; i < img->section_count; i++) {
        if (img->sections[i].flags & SHF_EXECINSTR) {
            with_bytes += img->sections[i].type != SHT_NOBITS;
            without += img->sections[i].type == SHT_NOBITS;
        }
    }
    if (without && !with_bytes)
        return image_refuse(img, "holds only debug information; give the program it belongs to");
    return 0;
}

/* Section 0 holds the counts that do not fit the header (gABI, "extended numbering"). */
static int header_counts(const struct image *img, const Elf64_Ehdr *h, uint64_t *phs, uint64_t *shs, uint64_t *names)
{
    *phs = h->e_phnum;
    *shs = h->e_shnum;
    *names = h->e_shstrndx;
    if (!h->e_shoff) {
        *shs = 0;
        return 0;
    }
    Elf64_Shdr zero;
    if (!image_has_bytes(img, h->e_shoff, sizeof zero))
        return image_refuse_at(img, h->e_shoff,
                               "section headers lie beyond the end of the file; it is cut off, get a whole copy");
    memcpy(&zero, img->bytes + h->e_shoff, sizeof zero);
    if (h->e_phnum == PN_XNUM)
        *phs = zero.sh_info;
    if (h->e_shnum == 0)
        *shs = zero.sh_size;
    if (h->e_shstrndx == SHN_XINDEX)
        *names = zero.sh_link;
    return 0;
}

static int by_range(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static int by_section_addr(const void *a, const void *b, void *ctx)
{
    const struct image_section *s = ctx, *x = &s[*(const uint32_t *)a], *y = &s[*(const uint32_t *)b];
    return x->addr != y->addr ? (x->addr > y->addr ? 1 : -1) : (x > y) - (x < y);
}

static void index_sections(struct image *img)
{
    struct image_index *ix = img->index;
    ix->placed = ARENA_ARRAY(img->arena, uint32_t, img->section_count);
    for (uint32_t i = 0; i < img->section_count; i++) {
        const struct image_section *s = &img->sections[i];
        bool is_tbss = (s->flags & SHF_TLS) && s->type == SHT_NOBITS;
        if ((s->flags & SHF_ALLOC) && s->size && s->type != SHT_NULL && !is_tbss)
            ix->placed[ix->placed_count++] = i;
    }
    qsort_r(ix->placed, ix->placed_count, sizeof *ix->placed, by_section_addr, img->sections);
}

typedef VEC(struct range) range_vec;

/* Adds the file-backed part of [lo, hi) that is in executable segments. */
static void add_code(const struct image_index *ix, range_vec *out, uint64_t lo, uint64_t hi)
{
    for (size_t i = 0; i < ix->load_count; i++) {
        const struct load *l = &ix->loads[i];
        uint64_t from = max_u64(lo, l->lo), to = min_u64(hi, l->hi_file);
        if ((l->flags & PF_X) && from < to)
            VEC_PUSH(out, ((struct range){from, to}));
    }
}

static size_t merge_ranges(struct range *r, size_t count)
{
    if (!count)
        return 0;
    qsort(r, count, sizeof *r, by_range);
    size_t n = 0;
    for (size_t i = 1; i < count; i++) {
        if (r[i].lo > r[n].hi)
            r[++n] = r[i];
        else
            r[n].hi = max_u64(r[n].hi, r[i].hi);
    }
    return n + 1;
}

/* Code is what executable sections hold; segments only speak where no section is left, for without -z separate-code
 * the read-only data is in the executable segment too. */
static void index_code(struct image *img)
{
    struct image_index *ix = img->index;
    range_vec found = {0};
    if (!ix->placed_count)
        add_code(ix, &found, 0, UINT64_MAX);
    for (size_t i = 0; i < ix->placed_count; i++) {
        const struct image_section *s = &img->sections[ix->placed[i]];
        if ((s->flags & SHF_EXECINSTR) && s->type != SHT_NOBITS)
            add_code(ix, &found, s->addr, s->addr + s->size);
    }
    ix->code_count = merge_ranges(found.data, found.len);
    ix->code = ARENA_ARRAY(img->arena, struct range, ix->code_count);
    if (found.data)
        memcpy(ix->code, found.data, ix->code_count * sizeof *ix->code);
    VEC_FREE(&found);
}

/* ---- opening ---- */

#define LARGE_FILE_BYTES (1 << 20) /* worth a second thread */

struct reading {
    struct image *img;
    int rc;
    char hash[33]; /* of all bytes */
};

static void read_contents(void *ctx)
{
    struct reading *r = ctx;
    struct image *img = r->img;
    index_sections(img);
    index_code(img);
    r->rc = image_read_dynamic(img);
    if (r->rc < 0)
        return;
    img->is_static = !img->interp && img->kind != IMAGE_DSO;
    image_index_functions(img);
    image_read_notes(img);
    image_read_markers(img);
    image_find_foreign_runtime(img);
    image_find_staying_code(img);
}

static void hash_contents(void *ctx)
{
    struct reading *r = ctx;
    file_hash_hex(r->img->bytes, r->img->len_bytes, r->hash);
}

static int read_all(struct image *img, bool is_copy)
{
    Elf64_Ehdr h = {0};
    uint64_t phs, shs, names;
    if (check_header(img, &h) < 0 || check_type(img, h.e_type) < 0 || header_counts(img, &h, &phs, &shs, &names) < 0 ||
        read_sections(img, &h, shs, names) < 0 || check_has_code_bytes(img) < 0 || read_segments(img, &h, phs) < 0)
        return -1;
    img->kind = h.e_type == ET_EXEC ? IMAGE_EXEC : IMAGE_DSO;
    img->entry = h.e_entry;
    struct reading r = {.img = img};
    if (is_copy) {
        read_contents(&r);
        return r.rc;
    }
    if (img->len_bytes < LARGE_FILE_BYTES) {
        read_contents(&r);
        hash_contents(&r);
    } else {
        parallel_both(read_contents, hash_contents, &r);
    }
    if (r.rc == 0)
        image_make_key(img, r.hash);
    return r.rc;
}

static int open_bytes(const char *path, const uint8_t *bytes, size_t len, bool is_copy, struct image **out)
{
    struct arena *a = arena_new();
    struct image *img = ARENA_NEW(a, struct image);
    img->arena = a;
    img->index = ARENA_NEW(a, struct image_index);
    img->path = arena_strdup(a, path);
    img->bytes = bytes;
    img->len_bytes = len;
    *out = NULL;
    if (read_all(img, is_copy) < 0) {
        arena_free(a);
        return -1;
    }
    *out = img;
    return 0;
}

int image_open_bytes(const char *path, const uint8_t *bytes, size_t len, struct image **out)
{
    return open_bytes(path, bytes, len, false, out);
}

static int refuse_file(const char *path, int err)
{
    switch (err) {
    case ENOENT:
        return diag_error("%s: no such file", path);
    case EISDIR:
        return diag_error("%s: is a directory; give an x86-64 executable or shared object", path);
    case EINVAL:
        return diag_error("%s: is not a regular file; give an x86-64 executable or shared object", path);
    default:
        return diag_error("%s: cannot be read: %s", path, strerror(err));
    }
}

static int open_file(const char *path, bool is_copy, struct image **out)
{
    struct file_bytes f;
    *out = NULL;
    if (file_map(path, &f) < 0)
        return refuse_file(path, errno);
    if (open_bytes(path, f.data, f.len, is_copy, out) < 0) {
        file_unmap(&f);
        return -1;
    }
    (*out)->index->file = f;
    return 0;
}

int image_open(const char *path, struct image **out) { return open_file(path, false, out); }

int image_open_copy(const char *path, struct image **out) { return open_file(path, true, out); }

void image_close(struct image *img)
{
    if (!img)
        return;
    struct file_bytes f = img->index->file;
    arena_free(img->arena);
    file_unmap(&f);
}

void image_rest(const struct image *img) { file_rest(&img->index->file); }

/* ---- look-ups ---- */

const struct load *image_load_of(const struct image *img, uint64_t vaddr)
{
    const struct image_index *ix = img->index;
    for (size_t i = 0; i < ix->load_count; i++)
        if (vaddr >= ix->loads[i].lo && vaddr < ix->loads[i].hi_mem)
            return &ix->loads[i];
    return NULL;
}

const uint8_t *image_at(const struct image *img, uint64_t vaddr, size_t len)
{
    const struct load *l = image_load_of(img, vaddr);
    if (!l || vaddr > l->hi_file || len > l->hi_file - vaddr)
        return NULL;
    return img->bytes + l->offset + (vaddr - l->lo);
}

bool image_is_code(const struct image *img, uint64_t vaddr)
{
    const struct image_index *ix = img->index;
    size_t lo = PARTITION_POINT(i, 0, ix->code_count, vaddr >= ix->code[i].hi);
    return lo < ix->code_count && vaddr >= ix->code[lo].lo;
}

bool image_is_readonly_data(const struct image *img, uint64_t vaddr)
{
    const struct load *l = image_load_of(img, vaddr);
    if (!l || image_is_code(img, vaddr))
        return false;
    return !(l->flags & PF_W) || (vaddr >= img->index->relro.lo && vaddr < img->index->relro.hi);
}

const struct image_section *image_section_named(const struct image *img, const char *name)
{
    for (size_t i = 0; i < img->section_count; i++)
        if (img->sections[i].type != SHT_NULL && strcmp(img->sections[i].name, name) == 0)
            return &img->sections[i];
    return NULL;
}

const struct image_section *image_section_of(const struct image *img, uint64_t vaddr)
{
    const struct image_index *ix = img->index;
    /* how many begin at or below vaddr */
    size_t lo = PARTITION_POINT(i, 0, ix->placed_count, img->sections[ix->placed[i]].addr <= vaddr);
    if (!lo)
        return NULL;
    const struct image_section *s = &img->sections[ix->placed[lo - 1]];
    return vaddr - s->addr < s->size ? s : NULL;
}

const struct image_reloc *image_reloc_at(const struct image *img, uint64_t vaddr)
{
    size_t lo = PARTITION_POINT(i, 0, img->reloc_count, img->relocs[i].addr < vaddr);
    return lo < img->reloc_count && img->relocs[lo].addr == vaddr ? &img->relocs[lo] : NULL;
}
