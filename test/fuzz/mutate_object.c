/* SPDX-License-Identifier: Apache-2.0
 * Changes relocatable objects so that most of them are still taken: fields of section headers, relocations, symbols,
 * groups, unwind and exception tables, debug information and code, with values that mean something. Tables are found
 * by the section headers, as a reader finds them. */
#include "mutator.h"

/* ---- the file's parts ---- */

static bool get_section(const struct mutator *m, unsigned i, Elf64_Shdr *out)
{
    Elf64_Ehdr h = header(m);
    uint64_t at = h.e_shoff + (uint64_t)i * sizeof *out;
    if (i >= h.e_shnum || at < h.e_shoff || at > m->len || m->len - at < sizeof *out)
        return false;
    memcpy(out, m->bytes + at, sizeof *out);
    return out->sh_offset <= m->len && (out->sh_type == SHT_NOBITS || out->sh_size <= m->len - out->sh_offset);
}

/* One of those of a type, that has bytes. */
static bool any_section(struct mutator *m, uint32_t type, Elf64_Shdr *out)
{
    unsigned count = header(m).e_shnum;
    for (unsigned tries = 0; tries < 64; tries++)
        if (get_section(m, (unsigned)below(m, count), out) && out->sh_type == type && out->sh_size)
            return true;
    return false;
}

static uint64_t meant(struct mutator *m, uint64_t was)
{
    const uint64_t values[] = {
        was + 1,      was - 1,          was + 4,    was - 4,    was ^ 1ull << below(m, 64), 0,     1,
        below(m, 64), below(m, m->len), UINT32_MAX, UINT64_MAX, 1ull << below(m, 64),       any(m)};
    return values[below(m, ARRAY_LEN(values))];
}

/* ---- changes ---- */

static void change_number(struct mutator *m, size_t at, unsigned width)
{
    uint64_t v = 0;
    if (at > m->len || m->len - at < width)
        return;
    memcpy(&v, m->bytes + at, width);
    v = meant(m, v);
    memcpy(m->bytes + at, &v, width);
}

static void change_rela(struct mutator *m)
{
    Elf64_Shdr s;
    if (!any_section(m, SHT_RELA, &s))
        return;
    size_t at = s.sh_offset + below(m, s.sh_size / sizeof(Elf64_Rela)) * sizeof(Elf64_Rela);
    switch (below(m, 4)) {
    case 0:
        change_number(m, at, 8);
        break;
    case 1: /* the type */
        if (at + 12 <= m->len)
            m->bytes[at + 8] = (uint8_t)below(m, 44);
        break;
    case 2: /* the symbol */
        change_number(m, at + 12, 1);
        break;
    default:
        change_number(m, at + 16, 8);
    }
}

static void change_symbol(struct mutator *m)
{
    static const unsigned at[] = {0, 4, 5, 6, 8, 16}, width[] = {4, 1, 1, 2, 8, 8};
    Elf64_Shdr s;
    unsigned k = (unsigned)below(m, ARRAY_LEN(at));
    if (any_section(m, SHT_SYMTAB, &s))
        change_number(m, s.sh_offset + below(m, s.sh_size / sizeof(Elf64_Sym)) * sizeof(Elf64_Sym) + at[k], width[k]);
}

static void change_group(struct mutator *m)
{
    Elf64_Shdr s;
    if (any_section(m, SHT_GROUP, &s))
        change_number(m, s.sh_offset + below(m, s.sh_size / 4) * 4, 4);
}

static void change_section(struct mutator *m)
{
    static const unsigned at[] = {0, 4, 8, 24, 32, 40, 44, 48, 56}, width[] = {4, 4, 8, 8, 8, 4, 4, 8, 8};
    unsigned k = (unsigned)below(m, ARRAY_LEN(at));
    Elf64_Ehdr h = header(m);
    change_number(m, h.e_shoff + below(m, h.e_shnum) * sizeof(Elf64_Shdr) + at[k], width[k]);
}

static void change_contents(struct mutator *m)
{
    Elf64_Shdr s;
    if (!any_section(m, SHT_PROGBITS, &s))
        return;
    for (uint64_t n = 1 + below(m, 3); n; n--)
        change_number(m, s.sh_offset + below(m, s.sh_size), 1u << below(m, 4));
}

static void change_any(struct mutator *m) { m->len = LLVMFuzzerMutate(m->bytes, m->len, m->max); }
static void change_how(struct mutator *m) { m->bytes[9] = (uint8_t)any(m); }

static const struct {
    void (*fn)(struct mutator *m);
    unsigned weight;
} changes[] = {{change_contents, 30}, {change_rela, 30}, {change_symbol, 16}, {change_section, 10},
               {change_group, 4},     {change_how, 4},   {change_any, 4}};

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t len, size_t max, unsigned seed)
{
    struct mutator m = {bytes, len, max, seed};
    if (len < sizeof(Elf64_Ehdr))
        return LLVMFuzzerMutate(bytes, len, max);
    for (uint64_t n = 1 + below(&m, 4); n && m.len >= sizeof(Elf64_Ehdr); n--) {
        uint64_t pick = below(&m, 98);
        for (size_t i = 0; i < ARRAY_LEN(changes); pick -= changes[i++].weight)
            if (pick < changes[i].weight) {
                changes[i].fn(&m);
                break;
            }
    }
    return m.len;
}
