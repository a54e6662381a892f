/* SPDX-License-Identifier: Apache-2.0
 * Changes ELF files so that most of them are still taken: not only bytes anywhere, which the first check would refuse,
 * but fields of program and section headers, dynamic tags, relocations, unwind and exception tables, jump tables and
 * code, with values that mean something (another address of the file, a limit, one more or less). Afterwards most of
 * the broken ends of headers are fixed. Tables are found as a reader finds them, by headers, so that what an earlier
 * change moved is followed. */
#include "mutator.h"

/* ---- the file's parts ---- */

static uint8_t *phdr_at(const struct mutator *m, unsigned i)
{
    Elf64_Ehdr h = header(m);
    uint64_t at = h.e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
    bool fits = i < h.e_phnum && at >= h.e_phoff && at <= m->len && m->len - at >= sizeof(Elf64_Phdr);
    return fits ? m->bytes + at : NULL;
}

static uint8_t *shdr_at(const struct mutator *m, unsigned i)
{
    Elf64_Ehdr h = header(m);
    uint64_t at = h.e_shoff + (uint64_t)i * sizeof(Elf64_Shdr);
    bool fits = h.e_shoff && i < h.e_shnum && at >= h.e_shoff && at <= m->len && m->len - at >= sizeof(Elf64_Shdr);
    return fits ? m->bytes + at : NULL;
}

static bool get_phdr(const struct mutator *m, unsigned i, Elf64_Phdr *out)
{
    const uint8_t *p = phdr_at(m, i);
    if (p)
        memcpy(out, p, sizeof *out);
    return p;
}

struct span {
    size_t at, len;
};

static struct span clip(const struct mutator *m, uint64_t at, uint64_t len)
{
    if (at >= m->len)
        return (struct span){0, 0};
    return (struct span){at, min_u64(len, m->len - at)};
}

static struct span segment_of_type(const struct mutator *m, uint32_t type)
{
    Elf64_Phdr p;
    for (unsigned i = 0; get_phdr(m, i, &p); i++)
        if (p.p_type == type)
            return clip(m, p.p_offset, p.p_filesz);
    return (struct span){0, 0};
}

/* Where an address stands in the file; length up to the end of its segment. */
static struct span at_address(const struct mutator *m, uint64_t vaddr)
{
    Elf64_Phdr p;
    for (unsigned i = 0; get_phdr(m, i, &p); i++)
        if (p.p_type == PT_LOAD && vaddr - p.p_vaddr < p.p_filesz)
            return clip(m, p.p_offset + (vaddr - p.p_vaddr), p.p_filesz - (vaddr - p.p_vaddr));
    return (struct span){0, 0};
}

/* The unwind table, by the header that names it; it lies behind it in all files that linkers make. */
static struct span frames(const struct mutator *m)
{
    struct span h = segment_of_type(m, PT_GNU_EH_FRAME);
    int32_t distance;
    if (h.len < 8)
        return h;
    memcpy(&distance, m->bytes + h.at + 4, 4);
    struct span f = clip(m, h.at + 4 + (uint64_t)(int64_t)distance, 1u << 16);
    return f.len ? f : h;
}

static struct span dynamic_value(struct mutator *m, int64_t tag, int64_t size_tag)
{
    struct span d = segment_of_type(m, PT_DYNAMIC), s = {0, 0};
    uint64_t size = 4096;
    for (size_t i = 0; i + 16 <= d.len; i += 16) {
        Elf64_Dyn e;
        memcpy(&e, m->bytes + d.at + i, sizeof e);
        if (e.d_tag == tag)
            s = at_address(m, e.d_un.d_ptr);
        else if (e.d_tag == size_tag)
            size = e.d_un.d_val;
    }
    s.len = min_u64(s.len, size);
    return s;
}

/* What is in executable sections, or where there are none the executable segment behind its headers. */
static struct span code(struct mutator *m)
{
    unsigned n = header(m).e_shnum, from = (unsigned)below(m, n + 1u);
    for (unsigned k = 0; k < n; k++) {
        const uint8_t *p = shdr_at(m, (from + k) % n);
        Elf64_Shdr s;
        if (!p)
            break;
        memcpy(&s, p, sizeof s);
        if ((s.sh_flags & SHF_EXECINSTR) && s.sh_type != SHT_NOBITS)
            return clip(m, s.sh_offset, s.sh_size);
    }
    struct span entry = at_address(m, header(m).e_entry);
    return entry.len ? (struct span){entry.at, min_u64(entry.len, 4096)} : clip(m, 0, m->len);
}

static struct span named_section(const struct mutator *m, unsigned want)
{
    const uint8_t *p = shdr_at(m, want);
    Elf64_Shdr s;
    if (!p)
        return (struct span){0, 0};
    memcpy(&s, p, sizeof s);
    return s.sh_type == SHT_NOBITS ? (struct span){0, 0} : clip(m, s.sh_offset, s.sh_size);
}

/* ---- values that mean something ---- */

static uint64_t some_address(struct mutator *m)
{
    Elf64_Phdr p;
    unsigned n = header(m).e_phnum;
    if (one_in(m, 3))
        return header(m).e_entry + below(m, 512) - 64;
    if (!n || !get_phdr(m, (unsigned)below(m, n), &p))
        return below(m, m->len);
    switch (below(m, 4)) {
    case 0:
        return p.p_vaddr + p.p_filesz - below(m, 17);
    case 1:
        return p.p_vaddr + p.p_memsz - below(m, 3);
    default:
        return p.p_vaddr + below(m, p.p_filesz + 1);
    }
}

static uint64_t some_value(struct mutator *m, uint64_t was)
{
    static const uint64_t limits[] = {0,          1,
                                      7,          8,
                                      0x7f,       0xff,
                                      0x7fff,     0xffff,
                                      0x7fffffff, 0x80000000,
                                      0xfffffffe, 0xffffffff,
                                      1ull << 32, (1ull << 47) - 1,
                                      1ull << 47, INT64_MAX,
                                      1ull << 63, UINT64_MAX - 7,
                                      UINT64_MAX};
    switch (below(m, 6)) {
    case 0:
        return was + below(m, 17) - 8;
    case 1:
        return was + (below(m, 17) - 8) * 8;
    case 2:
        return some_address(m);
    case 3:
        return below(m, m->len + 1);
    case 4:
        return was ^ 1ull << below(m, 64);
    default:
        return limits[below(m, ARRAY_LEN(limits))];
    }
}

static void change_u64(struct mutator *m, uint8_t *at)
{
    uint64_t v;
    memcpy(&v, at, 8);
    v = some_value(m, v);
    memcpy(at, &v, 8);
}

static void change_u32(struct mutator *m, uint8_t *at)
{
    uint32_t v;
    memcpy(&v, at, 4);
    v = (uint32_t)some_value(m, v);
    memcpy(at, &v, 4);
}

static void change_bytes(struct mutator *m, struct span s)
{
    if (!s.len)
        return;
    size_t at = s.at + below(m, s.len), n = min_u64(1 + below(m, 8), s.at + s.len - at);
    LLVMFuzzerMutate(m->bytes + at, n, n);
}

/* ---- the changes ---- */

static void change_segment(struct mutator *m)
{
    static const uint32_t types[] = {PT_NULL, PT_LOAD,         PT_DYNAMIC,   PT_INTERP, PT_NOTE,
                                     PT_TLS,  PT_GNU_EH_FRAME, PT_GNU_RELRO, PT_PHDR};
    uint8_t *p = phdr_at(m, (unsigned)below(m, header(m).e_phnum));
    if (!p)
        return;
    uint64_t field = below(m, 8);
    if (field == 0) {
        memcpy(p, &types[below(m, ARRAY_LEN(types))], 4);
    } else if (field == 1) {
        p[4] = (uint8_t)below(m, 8);
    } else {
        change_u64(m, p + field * 8 - 8 * (field == 7)); /* offset, vaddr, paddr, filesz, memsz, twice */
    }
}

static void change_section(struct mutator *m)
{
    uint8_t *p = shdr_at(m, (unsigned)below(m, header(m).e_shnum));
    if (!p)
        return;
    switch (below(m, 7)) {
    case 0:
        p[4] = (uint8_t)below(m, 20);
        break;
    case 1:
        p[8] = (uint8_t)below(m, 8);
        break;
    case 2:
        change_u32(m, p + 40 + 4 * below(m, 2)); /* link, info */
        break;
    default:
        change_u64(m, p + 16 + 8 * below(m, 3)); /* address, offset, size */
    }
}

static void change_header(struct mutator *m)
{
    static const uint8_t at[] = {9, 10, 16, 24, 32, 40, 56, 60, 62};
    size_t k = below(m, ARRAY_LEN(at));
    if (at[k] == 24 || at[k] == 32 || at[k] == 40)
        change_u64(m, m->bytes + at[k]);
    else
        m->bytes[at[k]] = (uint8_t)any(m);
}

static void change_dynamic(struct mutator *m)
{
    static const uint64_t tags[] = {DT_NULL,     DT_NEEDED,     DT_HASH, DT_STRTAB, DT_SYMTAB,  DT_RELA,
                                    DT_RELASZ,   DT_STRSZ,      DT_INIT, DT_SONAME, DT_RPATH,   DT_JMPREL,
                                    DT_PLTRELSZ, DT_INIT_ARRAY, 35,      36,        DT_GNU_HASH};
    struct span d = segment_of_type(m, PT_DYNAMIC);
    if (d.len < 16)
        return;
    uint8_t *e = m->bytes + d.at + 16 * below(m, d.len / 16);
    if (one_in(m, 4))
        memcpy(e, &tags[below(m, ARRAY_LEN(tags))], 8);
    else
        change_u64(m, e + 8);
}

static void change_table(struct mutator *m)
{
    static const struct {
        int64_t tag, size;
    } tables[] = {{DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ}, {36, 35}, {DT_HASH, 0}, {DT_GNU_HASH, 0},
                  {DT_SYMTAB, 0},       {DT_STRTAB, DT_STRSZ}};
    size_t k = below(m, ARRAY_LEN(tables));
    struct span s = dynamic_value(m, tables[k].tag, tables[k].size);
    if (s.len < 8)
        return;
    uint8_t *at = m->bytes + s.at + ALIGN_DOWN(below(m, s.len - 7), (uint64_t)8);
    if (one_in(m, 3))
        change_u32(m, at);
    else
        change_u64(m, at);
}

/* Records are walked from the start, so that one of them, and not the middle of nowhere, is changed. */
static void change_frames(struct mutator *m)
{
    static const uint8_t ops[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
                                  0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15,
                                  0x16, 0x1d, 0x2d, 0x2e, 0x2f, 0x40, 0x41, 0x7f, 0x80, 0xc3};
    static const uint8_t encodings[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x09, 0x0a, 0x0b, 0x0c,
                                        0x10, 0x1b, 0x1c, 0x3b, 0x40, 0x50, 0x9b, 0x80, 0xff};
    struct span f = frames(m);
    size_t at = f.at, end = f.at + f.len, records = below(m, 16);
    uint32_t len = 0;
    for (; at + 8 <= end; at += 4 + (size_t)len) {
        memcpy(&len, m->bytes + at, 4);
        if (records-- == 0 || !len || len > end - at)
            break;
    }
    if (at + 8 > end)
        return;
    struct span record = clip(m, at, min_u64(4 + (uint64_t)len, end - at));
    size_t in = at + 4 + below(m, record.len > 4 ? record.len - 4 : 1);
    switch (below(m, 7)) {
    case 0:
        change_u32(m, m->bytes + at);
        break;
    case 1:
        change_u32(m, m->bytes + at + 4);
        break;
    case 2:
        if (at + 16 <= end)
            change_u32(m, m->bytes + at + 8 + 4 * below(m, 2));
        break;
    case 3:
        m->bytes[in] = ops[below(m, ARRAY_LEN(ops))];
        break;
    case 4:
        m->bytes[in] = encodings[below(m, ARRAY_LEN(encodings))];
        break;
    default:
        change_bytes(m, record);
    }
}

static const struct {
    uint8_t len, bytes[11];
} insns[] = {
    {1, {0xc3}},                                        /* ret */
    {1, {0xf4}},                                        /* hlt */
    {2, {0x0f, 0x0b}},                                  /* ud2 */
    {2, {0x0f, 0x05}},                                  /* syscall */
    {1, {0xcc}},                                        /* int3 */
    {2, {0xcd, 0x80}},                                  /* int 0x80 */
    {1, {0xf0}},                                        /* lock */
    {2, {0xf3, 0xa4}},                                  /* rep movsb */
    {2, {0xff, 0xe0}},                                  /* jmp *rax */
    {3, {0x3e, 0xff, 0xe2}},                            /* notrack jmp *rdx */
    {2, {0xff, 0xd0}},                                  /* call *rax */
    {4, {0xf3, 0x0f, 0x1e, 0xfa}},                      /* endbr64 */
    {3, {0x48, 0x01, 0xd0}},                            /* add rax, rdx */
    {4, {0x48, 0x63, 0x04, 0xba}},                      /* movslq (rdx,rdi,4), rax */
    {4, {0xff, 0x24, 0xc7}},                            /* jmp *(rdi,rax,8) */
    {3, {0x83, 0xff, 0x04}},                            /* cmp $4, edi */
    {4, {0x48, 0x83, 0xc0, 0x01}},                      /* add $1, rax */
    {9, {0x65, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}}, /* mov gs:0x28, rax */
    {5, {0xb8, 0x38, 0, 0, 0}},                         /* mov $56, eax */
    {5, {0xe8, 0, 0, 0, 0}},                            /* call the next */
    {2, {0xe3, 0x02}},                                  /* jrcxz */
    {4, {0x62, 0xf1, 0x7c, 0x48}},                      /* the start of an EVEX instruction */
    {1, {0x9d}},                                        /* popf */
    {2, {0xc9, 0xc3}},                                  /* leave, ret */
};
/* Those that end in a distance or an address, of as many bytes. */
static const struct {
    uint8_t len, bytes[4], distance;
} reaching[] = {
    {1, {0xeb}, 1},
    {1, {0x74}, 1},
    {1, {0xe2}, 1},
    {1, {0xe9}, 4},
    {1, {0xe8}, 4},
    {2, {0x0f, 0x84}, 4},
    {2, {0xc7, 0xf8}, 4},
    {3, {0x48, 0x8d, 0x15}, 4},
    {3, {0x48, 0x8d, 0x05}, 4},
    {3, {0xff, 0x24, 0xfd}, 4},
    {2, {0xff, 0x25}, 4},
    {3, {0x48, 0xc7, 0xc0}, 4},
    {1, {0xbf}, 4},
};

static void put_reaching(struct mutator *m, struct span c, size_t at)
{
    size_t k = below(m, ARRAY_LEN(reaching)), n = reaching[k].len, end = at + n + reaching[k].distance;
    if (end > c.at + c.len)
        return;
    uint64_t to = one_in(m, 3) ? some_address(m) : below(m, 256) - 128;
    memcpy(m->bytes + at, reaching[k].bytes, n);
    memcpy(m->bytes + at + n, &to, reaching[k].distance);
}

static void change_code(struct mutator *m)
{
    struct span c = code(m);
    if (!c.len)
        return;
    size_t at = c.at + below(m, c.len), k = below(m, ARRAY_LEN(insns));
    if (one_in(m, 3))
        put_reaching(m, c, at);
    else if (one_in(m, 2) && at + insns[k].len <= c.at + c.len)
        memcpy(m->bytes + at, insns[k].bytes, insns[k].len);
    else if (one_in(m, 3)) /* code from elsewhere in it */
        memmove(m->bytes + at, m->bytes + c.at + below(m, c.len - (at - c.at)),
                min_u64(1 + below(m, 32), (c.at + c.len - at) / 2));
    else
        change_bytes(m, c);
}

/* Jump tables, labels, constants: a word anywhere behind the headers. */
static void change_word(struct mutator *m)
{
    if (m->len < 256)
        return;
    uint64_t at = 64 + ALIGN_DOWN(below(m, m->len - 80), (uint64_t)4);
    if (one_in(m, 2)) {
        change_u32(m, m->bytes + at);
        return;
    }
    uint64_t v = some_address(m);
    memcpy(m->bytes + at, &v, 8);
}

static void change_any_section(struct mutator *m)
{
    change_bytes(m, named_section(m, (unsigned)below(m, header(m).e_shnum)));
}

static void change_anything(struct mutator *m) { m->len = LLVMFuzzerMutate(m->bytes, m->len, m->max); }

typedef void (*change_fn)(struct mutator *m);
static const struct {
    change_fn fn;
    unsigned weight;
} changes[] = {{change_frames, 24},  {change_code, 24},   {change_table, 12},      {change_word, 12},
               {change_dynamic, 8},  {change_segment, 6}, {change_any_section, 6}, {change_section, 5},
               {change_anything, 4}, {change_header, 2}};

static void change(struct mutator *m)
{
    uint64_t sum = 0, pick;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++)
        sum += changes[i].weight;
    pick = below(m, sum);
    for (size_t i = 0; i < ARRAY_LEN(changes); pick -= changes[i++].weight)
        if (pick < changes[i].weight) {
            changes[i].fn(m);
            return;
        }
}

/* ---- mending ---- */

static void mend_segments(struct mutator *m)
{
    Elf64_Phdr p;
    for (unsigned i = 0; get_phdr(m, i, &p); i++) {
        if (p.p_offset > m->len)
            p.p_offset %= m->len;
        p.p_filesz = min_u64(p.p_filesz, m->len - p.p_offset);
        p.p_vaddr &= (1ull << 46) - 1;
        p.p_memsz = min_u64(max_u64(p.p_memsz, p.p_filesz), 1ull << 32);
        if (p.p_type == PT_LOAD)
            p.p_vaddr = ALIGN_DOWN(p.p_vaddr, 4096u) | (p.p_offset & 4095);
        memcpy(phdr_at(m, i), &p, sizeof p);
    }
}

static void mend_sections(struct mutator *m)
{
    Elf64_Shdr s;
    for (unsigned i = 0; shdr_at(m, i); i++) {
        memcpy(&s, shdr_at(m, i), sizeof s);
        if (s.sh_offset > m->len)
            s.sh_offset %= m->len;
        if (s.sh_type != SHT_NOBITS)
            s.sh_size = min_u64(s.sh_size, m->len - s.sh_offset);
        s.sh_addr &= (1ull << 46) - 1;
        memcpy(shdr_at(m, i), &s, sizeof s);
    }
}

static void mend(struct mutator *m)
{
    static const uint8_t ident[] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0};
    memcpy(m->bytes, ident, sizeof ident);
    Elf64_Ehdr h = header(m);
    h.e_type = h.e_type == ET_EXEC ? ET_EXEC : ET_DYN;
    h.e_machine = EM_X86_64;
    h.e_phentsize = sizeof(Elf64_Phdr);
    h.e_shentsize = sizeof(Elf64_Shdr);
    if (h.e_phoff > m->len || !h.e_phoff)
        h.e_phoff = sizeof h;
    h.e_phnum = (uint16_t)min_u64(h.e_phnum, (m->len - min_u64(h.e_phoff, m->len)) / sizeof(Elf64_Phdr));
    if (h.e_shoff >= m->len || !h.e_shnum || (m->len - h.e_shoff) / sizeof(Elf64_Shdr) < h.e_shnum)
        h.e_shoff = h.e_shnum = h.e_shstrndx = 0;
    memcpy(m->bytes, &h, sizeof h);
    mend_segments(m);
    mend_sections(m);
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t len, size_t max, unsigned seed)
{
    struct mutator m = {bytes, len, max, seed};
    if (len < 256)
        return LLVMFuzzerMutate(bytes, len, max);
    for (uint64_t n = 1 + below(&m, 4); n && m.len >= 256; n--)
        change(&m);
    if (m.len >= 256 && !one_in(&m, 8))
        mend(&m);
    return m.len;
}
