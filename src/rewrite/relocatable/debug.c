/* SPDX-License-Identifier: Apache-2.0
 * Debug sections, by folder dwarf: from old places of the code to new ones.
 *
 * needs: layout. fills: bytes_new and relas_new of debug sections. */
#include "rewrite/relocatable/relocatable.h"

#include <stdlib.h>
#include <zlib.h>

static const struct rel_section *moved_code(const struct rel_object *o, uint32_t section)
{
    const struct rel_section *s = section < o->section_count ? &o->sections[section] : NULL;
    return s && s->is_code && s->is_moved ? s : NULL;
}

static uint64_t at(void *ctx, uint32_t section, uint64_t offset)
{
    const struct rel_section *s = moved_code(ctx, section);
    return s ? rel_front(ctx, s, offset) : offset;
}

static uint64_t row(void *ctx, uint32_t section, uint64_t offset)
{
    const struct rel_section *s = moved_code(ctx, section);
    return s ? rel_row(ctx, s, offset) : offset;
}

static uint64_t end(void *ctx, uint32_t section, uint64_t offset)
{
    const struct rel_section *s = moved_code(ctx, section);
    return s ? rel_end(ctx, s, offset) : offset;
}

/* ---- instructions in another order: sections did not move ---- */

static const struct rel_section *ordered_code(const struct rel_object *o, uint32_t section)
{
    return section < o->section_count && o->sections[section].windows.len ? &o->sections[section] : NULL;
}

static uint64_t slot(void *ctx, uint32_t section, uint64_t offset)
{
    const struct rel_section *s = ordered_code(ctx, section);
    return s ? rel_slot(s, offset) : offset;
}

static const struct dwarf_window *window(void *ctx, uint32_t section, uint64_t offset)
{
    const struct rel_section *s = ordered_code(ctx, section);
    return s ? rel_window_behind(s, offset) : NULL;
}

static struct dwarf_symbol symbol(void *ctx, uint32_t sym)
{
    const struct rel_object *o = ctx;
    if (sym >= o->sym_count || o->syms[sym].st_shndx >= o->section_count)
        return (struct dwarf_symbol){0};
    return (struct dwarf_symbol){o->syms[sym].st_shndx, o->syms[sym].st_value, rel_symbol_new(o, sym),
                                 ELF64_ST_TYPE(o->syms[sym].st_info) == STT_SECTION};
}

bool rel_is_debug(const struct rel_section *s)
{
    return !(s->h.sh_flags & SHF_ALLOC) && (!strncmp(s->name, ".debug_", 7) || !strncmp(s->name, ".zdebug_", 8));
}

bool rel_unpack(const uint8_t *bytes, uint64_t len, struct strbuf *out)
{
    enum { RATIO_MAX = 1100 }; /* zlib makes nothing smaller than that */
    Elf64_Chdr h;
    if (!bytes || len < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (h.ch_type != ELFCOMPRESS_ZLIB || h.ch_size / RATIO_MAX > len)
        return false;
    uLongf plain = h.ch_size;
    str_reserve(out, plain);
    out->len = plain;
    return uncompress((Bytef *)out->data, &plain, bytes + sizeof h, len - sizeof h) == Z_OK && plain == out->len;
}

static bool take_over(struct dwarf_section *d, uint32_t index, const struct rel_section *s)
{
    bool is_good = strncmp(s->name, ".zdebug_", 8) != 0;
    *d = (struct dwarf_section){.index = index, .name = s->name};
    if (s->h.sh_flags & SHF_COMPRESSED)
        is_good = rel_unpack(s->bytes, s->h.sh_size, &d->bytes);
    else if (s->bytes)
        str_put(&d->bytes, s->bytes, s->h.sh_size);
    VEC_RESERVE(&d->relocs, s->rela_count);
    for (size_t i = 0; i < s->rela_count; i++)
        VEC_PUSH(&d->relocs, ((struct dwarf_reloc){s->relas[i].r_offset, s->relas[i].r_addend, rel_sym(&s->relas[i]),
                                                   rel_type(&s->relas[i])}));
    return is_good;
}

static void give_back(struct dwarf_section *d, struct rel_section *s)
{
    s->bytes_new = d->bytes;
    d->bytes = (struct strbuf){0};
    str_puts(&s->bytes_new, "");
    VEC_RESERVE(&s->relas_new, d->relocs.len);
    for (size_t i = 0; i < d->relocs.len; i++) {
        const struct dwarf_reloc *r = &d->relocs.data[i];
        VEC_PUSH(&s->relas_new, ((Elf64_Rela){r->offset, ELF64_R_INFO(r->symbol, (uint64_t)r->type), r->addend}));
    }
    s->has_new = true;
}

void rel_debug(struct rel_object *o)
{
    struct dwarf_section *all = xmalloc((o->section_count + 1) * sizeof *all);
    size_t count = 0;
    bool is_good = true;
    for (uint32_t i = 1; i < o->section_count; i++) {
        const struct rel_section *s = &o->sections[i];
        if (rel_is_debug(s) && strcmp(s->name, ".debug_frame") != 0)
            is_good &= take_over(&all[count++], i, s);
    }
    struct dwarf_moves moves = {o, symbol, at, row, end, NULL};
    if (o->opt->tool == REWRITE_RELOCATABLE_ORDER)
        moves = (struct dwarf_moves){o, symbol, slot, slot, slot, window};
    const char *why = !is_good ? "compressed in a way that is not known"
                      : count  ? dwarf_move(all, count, &moves, &o->stats->debug_is_split)
                               : NULL;
    for (size_t i = 0; i < count; i++) {
        if (!why)
            give_back(&all[i], &o->sections[all[i].index]);
        str_free(&all[i].bytes);
        VEC_FREE(&all[i].relocs);
    }
    o->stats->debug_lost = why;
    free(all);
}
