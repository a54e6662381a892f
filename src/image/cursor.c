/* SPDX-License-Identifier: Apache-2.0
 * Cursors over the image's bytes, and the encoded pointers of the unwind tables. */
#include <dwarf.h>
#include <elf.h>

#include "image/impl.h"

struct cursor cursor_over(const struct image *img, uint64_t vaddr, uint64_t len)
{
    const uint8_t *p = image_at(img, vaddr, len);
    return p ? (struct cursor){p, p, p + len, vaddr, false} : (struct cursor){.is_bad = true};
}

static uint64_t read_raw(struct cursor *c, uint8_t format)
{
    switch (format) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        return cursor_uint(c, 8);
    case DW_EH_PE_uleb128:
        return cursor_uleb(c);
    case DW_EH_PE_sleb128:
        return (uint64_t)cursor_sleb(c);
    case DW_EH_PE_udata2:
        return cursor_uint(c, 2);
    case DW_EH_PE_sdata2:
        return (uint64_t)(int16_t)cursor_uint(c, 2);
    case DW_EH_PE_udata4:
        return cursor_uint(c, 4);
    case DW_EH_PE_sdata4:
        return (uint64_t)(int32_t)cursor_uint(c, 4);
    default:
        c->is_bad = true;
        return 0;
    }
}

/* What the loader will put over an absolute word. */
static uint64_t relocated_word(const struct image *img, uint64_t place, uint64_t word, bool *is_unknown)
{
    const struct image_reloc *r = image_reloc_at(img, place);
    if (!r)
        return word;
    if (r->type == R_X86_64_RELATIVE)
        return (uint64_t)r->addend;
    const struct image_symbol *s = &img->symbols[r->sym];
    if (r->type == R_X86_64_64 && r->sym && s->shndx != SHN_UNDEF)
        return s->addr + (uint64_t)r->addend;
    *is_unknown = true;
    return 0;
}

uint64_t cursor_pointer(struct cursor *c, const struct image *img, uint8_t enc, uint64_t func, bool *is_unknown)
{
    if (enc == DW_EH_PE_omit)
        return 0;
    if ((enc & 0x70) == DW_EH_PE_aligned)
        cursor_skip(c, -cursor_vaddr(c) & 7);
    uint64_t place = cursor_vaddr(c), raw = read_raw(c, enc & 15);
    if (c->is_bad)
        return 0;
    switch (enc & 0x70) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_aligned:
        return c->p - c->start - (ptrdiff_t)(place - c->vaddr) == 8 ? relocated_word(img, place, raw, is_unknown) : raw;
    case DW_EH_PE_pcrel:
        return raw ? raw + place : 0;
    case DW_EH_PE_funcrel:
        return raw ? raw + func : 0;
    default: /* text- and data-relative bases do not exist on x86-64 */
        c->is_bad = true;
        return 0;
    }
}
