/* SPDX-License-Identifier: Apache-2.0
 * The exception table of one function (Itanium C++ ABI; gcc's and LLVM's for C++, C, Ada, D, Rust): call sites, landing
 * pads, and how far its action, type and specification tables reach, which only following every action tells. */
#include <dwarf.h>

#include "image/impl.h"

#define LINKS_MAX 4096 /* so that a chain that bites its tail ends */

static unsigned type_len(uint8_t enc)
{
    switch (enc & 15) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        return 8;
    case DW_EH_PE_udata4:
    case DW_EH_PE_sdata4:
        return 4;
    default:
        return 0;
    }
}

/* From the table's start to the end of its section, or of the segment's bytes: it does not say how long it is. */
static struct cursor table_cursor(const struct image *img, uint64_t vaddr)
{
    const struct image_section *s = image_section_of(img, vaddr);
    const struct load *l = image_load_of(img, vaddr);
    if (!l || vaddr >= l->hi_file)
        return (struct cursor){.is_bad = true};
    uint64_t end = s ? min_u64(s->addr + s->size, l->hi_file) : l->hi_file;
    return cursor_over(img, vaddr, end - vaddr);
}

static int read_header(const struct image *img, struct lsda *l)
{
    struct cursor c = table_cursor(img, l->fde->lsda);
    bool is_unknown = false;
    uint8_t start_enc = (uint8_t)cursor_uint(&c, 1);
    l->pad_base = l->fde->addr;
    if (start_enc != DW_EH_PE_omit)
        l->pad_base = cursor_pointer(&c, img, start_enc & 0x7f, l->fde->addr, &is_unknown);
    l->type_enc = (uint8_t)cursor_uint(&c, 1);
    if (l->type_enc != DW_EH_PE_omit) {
        uint64_t distance = cursor_uleb(&c);
        if (c.is_bad || distance > cursor_left(&c))
            return -1;
        l->types = cursor_vaddr(&c) + distance;
    }
    l->site_enc = (uint8_t)cursor_uint(&c, 1);
    uint64_t sites_len = cursor_uleb(&c);
    l->sites = c;
    cursor_skip(&c, sites_len);
    if (c.is_bad || is_unknown || (start_enc != DW_EH_PE_omit && (start_enc & DW_EH_PE_indirect)) ||
        (l->site_enc & 0xf0))
        return -1;
    l->sites.end = c.p;
    l->actions = c.p;
    l->actions_max = cursor_left(&c);
    return 0;
}

bool lsda_next(struct lsda *l, const struct image *img, struct lsda_site *out)
{
    struct cursor *c = &l->sites;
    if (c->is_bad || c->p == c->end)
        return false;
    bool is_unknown = false;
    uint64_t start = cursor_pointer(c, img, l->site_enc, 0, &is_unknown);
    uint64_t len = cursor_pointer(c, img, l->site_enc, 0, &is_unknown);
    uint64_t pad = cursor_pointer(c, img, l->site_enc, 0, &is_unknown);
    out->action = cursor_uleb(c);
    uint64_t func_len = l->fde->len_bytes;
    if (is_unknown || start < l->start_last || start > func_len || len > func_len - start)
        c->is_bad = true;
    l->start_last = start;
    out->start = l->fde->addr + start;
    out->end = out->start + len;
    out->pad = pad ? l->pad_base + pad : 0;
    return !c->is_bad;
}

/* ---- how far the tables reach ---- */

static void reach_type(struct lsda *l, uint64_t index) { l->type_count = max_u64(l->type_count, index); }

/* A negative filter is a list of type indices, from `types` up, ended by 0. */
static int reach_spec(const struct image *img, struct lsda *l, uint64_t offset)
{
    struct cursor c = table_cursor(img, l->types);
    cursor_skip(&c, offset);
    for (uint64_t index = 1; index && !c.is_bad;) {
        index = cursor_uleb(&c);
        reach_type(l, index);
    }
    if (c.is_bad)
        return -1;
    l->specs_len = max_u64(l->specs_len, (uint64_t)(c.p - c.start));
    return 0;
}

static int reach_filter(const struct image *img, struct lsda *l, int64_t filter)
{
    if (filter > 0 && l->types)
        reach_type(l, (uint64_t)filter);
    if (filter >= 0)
        return 0;
    return l->types ? reach_spec(img, l, -(uint64_t)filter - 1) : -1;
}

/* Actions are chains of (filter, distance from there to the next), a link a handler around the site. */
static int reach_actions(const struct image *img, struct lsda *l, uint64_t action)
{
    uint64_t at = action - 1;
    for (uint64_t links = 0; links < LINKS_MAX; links++) {
        if (at >= l->actions_max)
            return -1;
        struct cursor c = {l->actions, l->actions + at, l->actions + l->actions_max, 0, false};
        int64_t filter = cursor_sleb(&c);
        uint64_t next_from = (uint64_t)(c.p - c.start);
        int64_t next = cursor_sleb(&c);
        if (c.is_bad || reach_filter(img, l, filter) < 0)
            return -1;
        l->actions_len = max_u64(l->actions_len, (uint64_t)(c.p - c.start));
        if (!next)
            return 0;
        at = next_from + (uint64_t)next;
    }
    return -1;
}

/* Types count down from `types`, and must not run into the actions. */
static int check_types(const struct image *img, const struct lsda *l)
{
    if (!l->types)
        return 0;
    uint64_t actions_end = l->sites.vaddr + (uint64_t)(l->actions - l->sites.start) + l->actions_len;
    uint64_t size = type_len(l->type_enc), room = l->types - actions_end;
    if (!size || l->types < actions_end || l->type_count > room / size)
        return -1;
    for (uint64_t i = 1; i <= l->type_count; i++) {
        uint64_t ignored;
        if (!lsda_type(l, img, i, &ignored))
            return -1;
    }
    return 0;
}

bool lsda_type(const struct lsda *l, const struct image *img, uint64_t i, uint64_t *out)
{
    unsigned size = type_len(l->type_enc);
    struct cursor c = cursor_over(img, l->types - i * size, size);
    bool is_unknown = false;
    *out = cursor_pointer(&c, img, l->type_enc & 0x7f, l->fde->addr, &is_unknown);
    return !c.is_bad && !is_unknown;
}

int lsda_open(const struct image *img, const struct image_fde *fde, struct lsda *out)
{
    *out = (struct lsda){.fde = fde};
    if (read_header(img, out) < 0)
        return -1;
    struct cursor sites = out->sites;
    struct lsda_site s;
    while (lsda_next(out, img, &s)) {
        if (s.pad && !image_is_code(img, s.pad))
            return -1;
        if (s.action && reach_actions(img, out, s.action) < 0)
            return -1;
    }
    if (out->sites.is_bad || check_types(img, out) < 0)
        return -1;
    out->sites = sites;
    out->start_last = 0;
    return 0;
}

int image_unwind_landing_pads(const struct image *img, const struct image_unwind *u, uint32_t fde,
                              void (*fn)(void *ctx, uint64_t pad), void *ctx)
{
    struct lsda l;
    struct lsda_site s;
    if (!u->fdes[fde].lsda)
        return 0;
    if (lsda_open(img, &u->fdes[fde], &l) < 0)
        return -1;
    while (lsda_next(&l, img, &s))
        if (s.pad)
            fn(ctx, s.pad);
    return 0;
}

int image_unwind_call_sites(const struct image *img, const struct image_unwind *u, uint32_t fde,
                            void (*fn)(void *ctx, uint64_t lo, uint64_t hi, uint64_t pad), void *ctx)
{
    struct lsda l;
    struct lsda_site s;
    if (!u->fdes[fde].lsda)
        return 0;
    if (lsda_open(img, &u->fdes[fde], &l) < 0)
        return -1;
    while (lsda_next(&l, img, &s))
        fn(ctx, s.start, s.end, s.pad);
    return 0;
}
