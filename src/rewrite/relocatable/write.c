/* SPDX-License-Identifier: Apache-2.0
 *
 * The object again: its sections in their places and with their numbers, those that changed with their new contents,
 * new ones behind them. Only the numbers of global symbols change: new local ones come in front of them.
 *
 * needs: all. fills: the result.
 */
#include "rewrite/relocatable/relocatable.h"

enum { SHT_ADDRSIG = 0x6fff4c03, SECTIONS_A_UNIT = 3, ALIGN_MOST = 64 };

struct added { /* a section */
    Elf64_Shdr h;
    const char *name;
    struct strbuf bytes;
    uint32_t group;
};
struct output {
    struct rel_object *o;
    struct strbuf *out;
    VEC(struct added) added;
    VEC(Elf64_Shdr) headers;
    uint32_t new_symbols;
    struct strbuf strings; /* of symbols, where new ones came to them; else empty */
    uint32_t hook_name[RW_LINK_COUNT];
};

static uint32_t symbol_number(const struct output *w, uint32_t sym)
{
    const struct rel_object *o = w->o;
    uint32_t hooks = rel_hook_symbol(o, 0), used = 0;
    if (sym < o->first_global)
        return sym;
    if (sym < o->sym_count)
        return sym + w->new_symbols;
    if (sym < hooks)
        return sym - o->sym_count + o->first_global;
    for (uint32_t h = 0; h < sym - hooks; h++)
        used += o->has_hook[h];
    return o->sym_count + w->new_symbols + used;
}

static void put_relas(const struct output *w, struct strbuf *out, const Elf64_Rela *r, size_t n)
{
    str_reserve(out, n * sizeof *r);
    for (size_t k = 0; k < n; k++) {
        Elf64_Rela x = r[k];
        x.r_info = ELF64_R_INFO((uint64_t)symbol_number(w, rel_sym(&x)), (uint64_t)rel_type(&x));
        str_put(out, &x, sizeof x);
    }
}

static uint32_t next_section(const struct output *w) { return w->o->section_count + (uint32_t)w->added.len; }

static void add_relas(struct output *w, const char *name, uint32_t of, const struct rel_relas *relas, uint32_t group)
{
    struct added a = {.h = {.sh_type = SHT_RELA,
                            .sh_flags = SHF_INFO_LINK | (group ? SHF_GROUP : 0),
                            .sh_link = w->o->symtab,
                            .sh_info = of,
                            .sh_addralign = 8,
                            .sh_entsize = sizeof(Elf64_Rela)},
                      .name = name,
                      .group = group};
    put_relas(w, &a.bytes, relas->data, relas->len);
    VEC_PUSH(&w->added, a);
}

/* Counters, what they mean, and the relocations of that. */
static void add_unit(struct output *w, const struct rel_unit *u)
{
    uint64_t in_group = u->group ? SHF_GROUP : 0;
    struct added counters = {.h = {.sh_type = SHT_NOBITS,
                                   .sh_flags = SHF_ALLOC | SHF_WRITE | in_group,
                                   .sh_size = 8ull * u->counter_count,
                                   .sh_addralign = 8},
                             .name = REWRITE_RELOCATABLE_COUNTERS,
                             .group = u->group};
    struct added map = {.h = {.sh_type = SHT_PROGBITS, .sh_flags = in_group, .sh_addralign = 8},
                        .name = REWRITE_RELOCATABLE_MAP,
                        .group = u->group};
    struct rel_relas relas = {0};
    rel_map_pack(w->o, u, &map.bytes, &relas);
    VEC_PUSH(&w->added, counters);
    VEC_PUSH(&w->added, map);
    add_relas(w, ".rela" REWRITE_RELOCATABLE_MAP, next_section(w) - 1, &relas, u->group);
    VEC_FREE(&relas);
}

static void add_order(struct output *w)
{
    struct added record = {.h = {.sh_type = SHT_PROGBITS, .sh_addralign = 8}, .name = REWRITE_RELOCATABLE_ORDER_RECORD};
    struct rel_relas relas = {0};
    rel_order_pack(w->o, &record.bytes, &relas);
    VEC_PUSH(&w->added, record);
    add_relas(w, ".rela" REWRITE_RELOCATABLE_ORDER_RECORD, next_section(w) - 1, &relas, 0);
    VEC_FREE(&relas);
}

/* Sections that had no relocations and have some now. */
static void add_missing_relas(struct output *w)
{
    struct rel_object *o = w->o;
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        if (s->has_new && s->relas_new.len && !s->rela_section)
            add_relas(w, arena_printf(o->arena, ".rela%s", s->name), i, &s->relas_new, s->group);
    }
}

/* ---- tables of the object itself ---- */

static void put_symbols(const struct output *w, struct strbuf *out)
{
    const struct rel_object *o = w->o;
    for (uint32_t i = 0; i < o->sym_count; i++) {
        for (size_t u = 0; i == o->first_global && u < w->new_symbols; u++) {
            Elf64_Sym counters = {.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION),
                                  .st_shndx = (uint16_t)(o->section_count + SECTIONS_A_UNIT * u)};
            str_put(out, &counters, sizeof counters);
        }
        Elf64_Sym s = o->syms[i];
        const struct rel_section *code = rel_code_of_symbol(o, i);
        if (code && code->is_moved && ELF64_ST_TYPE(s.st_info) != STT_SECTION) {
            s.st_value = rel_symbol_new(o, i);
            if (s.st_size)
                s.st_size = rel_end(o, code, o->syms[i].st_value + s.st_size) - s.st_value;
        }
        str_put(out, &s, sizeof s);
    }
    for (size_t u = 0; o->first_global == o->sym_count && u < w->new_symbols; u++) {
        Elf64_Sym counters = {.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION),
                              .st_shndx = (uint16_t)(o->section_count + SECTIONS_A_UNIT * u)};
        str_put(out, &counters, sizeof counters);
    }
    for (unsigned h = 0; h < RW_LINK_COUNT; h++) {
        Elf64_Sym hook = {.st_name = w->hook_name[h],
                          .st_info = ELF64_ST_INFO(STB_GLOBAL, h == RW_LINK_TRACE_STATE ? STT_TLS : STT_NOTYPE),
                          .st_other = STV_HIDDEN};
        if (o->has_hook[h])
            str_put(out, &hook, sizeof hook);
    }
}

static void put_group(const struct output *w, uint32_t i, struct strbuf *out)
{
    const struct rel_section *g = &w->o->sections[i];
    str_put(out, g->bytes, g->h.sh_size);
    for (size_t k = 0; k < w->added.len; k++) {
        uint32_t member = w->o->section_count + (uint32_t)k;
        if (w->added.data[k].group == i)
            str_put(out, &member, 4);
    }
}

/* ---- all ---- */

static void align_to(struct strbuf *out, uint64_t align)
{
    static const char zero[ALIGN_MOST];
    align = align > sizeof zero ? sizeof zero : align ? align : 1;
    str_put(out, zero, (align - out->len % align) % align);
}

static bool has_bytes(const Elf64_Shdr *h) { return h->sh_type != SHT_NOBITS && h->sh_type != SHT_NULL; }

/* What is appended between these two is the section's. */
static void begin_section(const struct output *w, Elf64_Shdr *h)
{
    if (has_bytes(h))
        align_to(w->out, h->sh_addralign);
    h->sh_offset = w->out->len;
}

static void end_section(struct output *w, Elf64_Shdr *h)
{
    if (has_bytes(h))
        h->sh_size = w->out->len - h->sh_offset;
    VEC_PUSH(&w->headers, *h);
}

static void put_section(struct output *w, Elf64_Shdr h, const void *bytes, uint64_t len)
{
    begin_section(w, &h);
    if (has_bytes(&h) && len)
        str_put(w->out, bytes, len);
    end_section(w, &h);
}

static void put_relas_section(struct output *w, Elf64_Shdr h)
{
    const struct rel_section *s = &w->o->sections[h.sh_info];
    begin_section(w, &h);
    put_relas(w, w->out, s->has_new ? s->relas_new.data : s->relas, s->has_new ? s->relas_new.len : s->rela_count);
    end_section(w, &h);
}

static void put_old_section(struct output *w, uint32_t i, const struct strbuf *names)
{
    struct rel_object *o = w->o;
    struct rel_section *s = &o->sections[i];
    Elf64_Shdr h = s->h;
    struct strbuf made = {0};
    const void *bytes = s->bytes;
    uint64_t len = s->bytes ? s->h.sh_size : 0;
    if (h.sh_type == SHT_ADDRSIG)
        h.sh_link = 0; /* as objcopy leaves it: the numbers of symbols in it are not to be believed */
    if (h.sh_type == SHT_RELA) {
        put_relas_section(w, h);
        return;
    }
    if (i == o->symtab) {
        put_symbols(w, &made);
        h.sh_info = o->first_global + w->new_symbols;
    } else if (h.sh_type == SHT_GROUP) {
        put_group(w, i, &made);
        h.sh_info = symbol_number(w, h.sh_info);
    } else if (w->strings.len && i == o->sections[o->symtab].h.sh_link) {
        bytes = w->strings.data, len = w->strings.len;
    } else if (i == o->eh.e_shstrndx) {
        bytes = names->data, len = names->len;
    } else if (s->has_new) {
        if (h.sh_flags & SHF_COMPRESSED && (rel_is_debug(s) || !s->bytes_new.len)) {
            h.sh_flags &= ~(uint64_t)SHF_COMPRESSED;
            h.sh_addralign = 1; /* it was that of the header */
        }
        bytes = s->bytes_new.data, len = s->bytes_new.len;
    }
    put_section(w, h, made.data ? made.data : bytes, made.data ? made.len : len);
    str_free(&made);
}

/* Room for all of it: what is not used is never touched. */
static void reserve(const struct output *w)
{
    const struct rel_object *o = w->o;
    size_t most = sizeof o->eh;
    for (uint32_t i = 0; i < o->section_count; i++) {
        const struct rel_section *s = &o->sections[i];
        most += sizeof s->h + ALIGN_MOST + (s->bytes ? s->h.sh_size : 0) + s->bytes_new.len +
                (s->has_new ? s->relas_new.len : s->rela_count) * sizeof *s->relas;
    }
    for (size_t k = 0; k < w->added.len; k++)
        most += sizeof(Elf64_Shdr) + w->added.data[k].bytes.len;
    str_reserve(w->out, most + w->strings.len);
}

/* In the table of symbols' names, which may be that of sections too. */
static void name_hooks(struct output *w)
{
    static const char *const names[] = {
#define X(id, name) [RW_LINK_##id] = name,
        WIRE_LINK_HOOKS(X)
#undef X
    };
    const struct rel_section *t = &w->o->sections[w->o->sections[w->o->symtab].h.sh_link];
    for (unsigned h = 0; h < RW_LINK_COUNT; h++) {
        if (!w->o->has_hook[h])
            continue;
        if (!w->strings.len && t->bytes)
            str_put(&w->strings, t->bytes, t->h.sh_size);
        w->hook_name[h] = (uint32_t)w->strings.len;
        str_put(&w->strings, names[h], strlen(names[h]) + 1);
    }
}

static void name_added(struct output *w, struct strbuf *names)
{
    const struct rel_section *t = &w->o->sections[w->o->eh.e_shstrndx];
    bool is_shared = w->strings.len && w->o->sections[w->o->symtab].h.sh_link == w->o->eh.e_shstrndx;
    if (is_shared)
        str_put(names, w->strings.data, w->strings.len);
    else if (t->bytes)
        str_put(names, t->bytes, t->h.sh_size);
    for (size_t k = 0; k < w->added.len; k++) {
        w->added.data[k].h.sh_name = (uint32_t)names->len;
        str_put(names, w->added.data[k].name, strlen(w->added.data[k].name) + 1);
    }
}

void rel_write(struct rel_object *o, struct strbuf *out)
{
    struct output w = {.o = o, .out = out, .new_symbols = (uint32_t)o->units.len};
    struct strbuf names = {0};
    Elf64_Ehdr eh = o->eh;
    for (size_t u = 0; u < o->units.len; u++)
        add_unit(&w, &o->units.data[u]);
    if (o->ordered.len)
        add_order(&w);
    add_missing_relas(&w);
    name_hooks(&w);
    name_added(&w, &names);
    reserve(&w);
    str_put(out, &eh, sizeof eh);
    if (o->sections[o->symtab].h.sh_link == o->eh.e_shstrndx)
        w.strings.len = 0; /* they are among the others */
    VEC_PUSH(&w.headers, o->sections[0].h);
    for (uint32_t i = 1; i < o->section_count; i++)
        put_old_section(&w, i, &names);
    for (size_t k = 0; k < w.added.len; k++)
        put_section(&w, w.added.data[k].h, w.added.data[k].bytes.data, w.added.data[k].bytes.len);
    align_to(out, 8);
    eh.e_shoff = out->len;
    eh.e_shnum = (uint16_t)w.headers.len;
    memcpy(out->data, &eh, sizeof eh);
    str_put(out, w.headers.data, w.headers.len * sizeof *w.headers.data);
    for (size_t k = 0; k < w.added.len; k++)
        str_free(&w.added.data[k].bytes);
    VEC_FREE(&w.added);
    VEC_FREE(&w.headers);
    str_free(&names);
    str_free(&w.strings);
}
