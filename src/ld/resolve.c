/* SPDX-License-Identifier: Apache-2.0
 * Which members of archives a link takes in: those that define what is wanted and not yet defined, until there are no
 * more. A linker goes through archives in their order; here they are one, so a member too many may be marked, never one
 * too few. */
#include <elf.h>
#include <stdlib.h>

#include "ld/ld.h"

struct name { /* of a symbol */
    const char *text;
    bool is_defined, is_wanted;
};
struct ld_resolver {
    struct arena *arena;
    struct map by_hash; /* hash -> index, of the first with it */
    VEC(struct name) names;
    VEC(uint32_t) next; /* with the same hash, ID_NONE */
    bool has_intermediate, has_both;
};

struct ld_resolver *ld_resolver_new(void)
{
    struct ld_resolver *r = xmalloc(sizeof *r);
    r->arena = arena_new();
    return r;
}

void ld_resolver_free(struct ld_resolver *r)
{
    map_fini(&r->by_hash);
    VEC_FREE(&r->names);
    VEC_FREE(&r->next);
    arena_free(r->arena);
    free(r);
}

/* ---- names ---- */

static uint64_t hash_of(const char *text) /* FNV-1a */
{
    uint64_t h = 0xcbf29ce484222325;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3;
    return h;
}

static uint32_t find(const struct ld_resolver *r, const char *text)
{
    uint64_t i;
    if (!map_get(&r->by_hash, hash_of(text), &i))
        return ID_NONE;
    while (i != ID_NONE && strcmp(r->names.data[i].text, text) != 0)
        i = r->next.data[i];
    return (uint32_t)i;
}

static struct name *find_or_add(struct ld_resolver *r, const char *text)
{
    uint32_t i = find(r, text);
    if (i == ID_NONE) {
        uint64_t first = ID_NONE;
        i = (uint32_t)r->names.len;
        map_get(&r->by_hash, hash_of(text), &first);
        map_put(&r->by_hash, hash_of(text), i);
        VEC_PUSH(&r->names, ((struct name){.text = arena_strdup(r->arena, text)}));
        VEC_PUSH(&r->next, (uint32_t)first);
    }
    return &r->names.data[i];
}

bool ld_resolver_wants(const struct ld_resolver *r, const char *name)
{
    uint32_t i = find(r, name);
    return i != ID_NONE && r->names.data[i].is_wanted;
}

bool ld_resolver_has_intermediate(const struct ld_resolver *r, bool has_plugin)
{
    return r->has_intermediate || (has_plugin && r->has_both) || ld_resolver_wants(r, "__gnu_lto_slim");
}

/* ---- objects ---- */

static bool is_object(const Elf64_Ehdr *h, size_t len)
{
    return len >= sizeof *h && !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_type == ET_REL && h->e_machine == EM_X86_64 &&
           h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shoff <= len;
}

static bool lies_in(const Elf64_Shdr *s, size_t len) { return s->sh_offset <= len && s->sh_size <= len - s->sh_offset; }

static void add_symbols(struct ld_resolver *r, const uint8_t *bytes, const Elf64_Shdr *table, const Elf64_Shdr *strings)
{
    const char *names = (const char *)bytes + strings->sh_offset;
    if (!strings->sh_size || names[strings->sh_size - 1])
        return;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        memcpy(&s, bytes + table->sh_offset + at, sizeof s);
        if (ELF64_ST_BIND(s.st_info) == STB_LOCAL || !s.st_name || s.st_name >= strings->sh_size)
            continue;
        struct name *n = find_or_add(r, names + s.st_name);
        bool is_undefined = s.st_shndx == SHN_UNDEF;
        n->is_defined |= !is_undefined && s.st_shndx != SHN_COMMON;
        n->is_wanted |= is_undefined || s.st_shndx == SHN_COMMON; /* an archive may have more than a common block */
    }
}

/* Names of sections begin so in which gcc keeps what link-time optimisation reads. */
static bool names_intermediate(const uint8_t *bytes, size_t len, const Elf64_Shdr *names)
{
    return lies_in(names, len) && memmem(bytes + names->sh_offset, names->sh_size, ".gnu.lto_", strlen(".gnu.lto_"));
}

bool ld_resolver_add(struct ld_resolver *r, const uint8_t *bytes, size_t len)
{
    Elf64_Ehdr h;
    r->has_intermediate |= len > 4 && !memcmp(bytes, "BC\xc0\xde", 4); /* LLVM's */
    if (len < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (!is_object(&h, len))
        return false;
    Elf64_Shdr first;
    if (len - h.e_shoff < sizeof first)
        return false;
    memcpy(&first, bytes + h.e_shoff, sizeof first);
    uint64_t count = h.e_shnum ? h.e_shnum : first.sh_size;
    if (count > (len - h.e_shoff) / sizeof first)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Shdr s, strings;
        memcpy(&s, bytes + h.e_shoff + i * sizeof s, sizeof s);
        r->has_both |= i == h.e_shstrndx && names_intermediate(bytes, len, &s);
        if (s.sh_type != SHT_SYMTAB || s.sh_link >= count)
            continue;
        memcpy(&strings, bytes + h.e_shoff + s.sh_link * sizeof s, sizeof s);
        if (lies_in(&s, len) && lies_in(&strings, len))
            add_symbols(r, bytes, &s, &strings);
    }
    return true;
}

/* ---- members ---- */

static bool take_from(struct ld_resolver *r, struct ld_archive *ar)
{
    bool is_new = false;
    for (size_t i = 0; i < ar->symbols.len; i++) {
        struct ld_member *m = &ar->members.data[ar->symbols.data[i].member];
        uint32_t n = m->is_taken ? ID_NONE : find(r, ar->symbols.data[i].name);
        if (n == ID_NONE || !r->names.data[n].is_wanted || r->names.data[n].is_defined)
            continue;
        m->is_taken = is_new = true;
        ld_resolver_add(r, m->data, m->len);
    }
    return is_new;
}

void ld_resolver_take(struct ld_resolver *r, struct ld_archive *archives, size_t count)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < count; i++)
            again |= take_from(r, &archives[i]);
    }
}
