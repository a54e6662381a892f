/* SPDX-License-Identifier: Apache-2.0
 * .eh_frame (LSB 5 section 10.6) to a sorted array of FDEs and their CIEs. Found by its section, or through the header
 * that PT_GNU_EH_FRAME points to where sections are stripped. What the instructions mean is in cfi.c. */
#include <dwarf.h>
#include <elf.h>
#include <stdlib.h>

#include "image/impl.h"

struct reader {
    const struct image *img;
    struct cursor all; /* the whole table */
    uint64_t fdes_max; /* stop after as many */
    bool stops_at_end_mark;
    VEC(struct image_fde) fdes;
    VEC(struct image_cie) cies;
    struct map cie_at; /* address of a CIE to its index */
    uint64_t cie_last_at;
    uint32_t cie_last;
    const char *problem;
    uint64_t problem_at;
};

static int broken(struct reader *r, uint64_t at, const char *problem)
{
    r->problem = problem;
    r->problem_at = at;
    return -1;
}

/* ---- CIE ---- */

/* The augmentation letters after 'z', each with its datum (LSB 10.6.1.1.1). */
static int read_augmentation(struct reader *r, struct cursor *c, const char *letters, struct image_cie *out)
{
    bool is_unknown = false;
    for (; *letters; letters++) {
        switch (*letters) {
        case 'P':
            out->personality_enc = (uint8_t)cursor_uint(c, 1);
            out->personality = cursor_pointer(c, r->img, out->personality_enc, 0, &is_unknown);
            break;
        case 'L':
            out->lsda_enc = (uint8_t)cursor_uint(c, 1);
            break;
        case 'R':
            out->fde_enc = (uint8_t)cursor_uint(c, 1);
            break;
        case 'S':
            out->is_signal_frame = true;
            break;
        case 'B': /* no datum; a key of pointer signing, without meaning here */
            break;
        default:
            out->can_emit = false; /* its datum is skipped by the length of all */
            return 0;
        }
    }
    out->can_emit &= !is_unknown;
    return c->is_bad ? -1 : 0;
}

static int read_cie_body(struct reader *r, struct cursor *c, struct image_cie *out)
{
    uint8_t version = (uint8_t)cursor_uint(c, 1);
    const char *letters = image_string(c->p, cursor_left(c), 0);
    if (c->is_bad || (version != 1 && version != 3) || !letters)
        return -1;
    cursor_skip(c, strlen(letters) + 1);
    out->code_align = cursor_uleb(c);
    out->data_align = cursor_sleb(c);
    out->return_reg = version == 1 ? cursor_uint(c, 1) : cursor_uleb(c);
    if (letters[0] == 'z') {
        out->has_augmentation = true;
        struct cursor a = *c;
        uint64_t len = cursor_uleb(&a);
        *c = a;
        cursor_skip(c, len);
        if (c->is_bad)
            return -1;
        a.end = c->p;
        if (read_augmentation(r, &a, letters + 1, out) < 0)
            return -1;
    } else if (letters[0]) {
        return -1; /* without a length nothing after it can be found */
    }
    out->cfi = c->p;
    out->cfi_len = (uint32_t)cursor_left(c);
    return c->is_bad ? -1 : 0;
}

static int read_cie(struct reader *r, uint64_t at, struct cursor *c)
{
    struct image_cie e = {
        .personality_enc = DW_EH_PE_omit, .lsda_enc = DW_EH_PE_omit, .fde_enc = DW_EH_PE_absptr, .can_emit = true};
    if (read_cie_body(r, c, &e) < 0)
        return broken(r, at, "a CIE is of an unknown kind or cut off");
    e.can_emit = e.can_emit && (e.lsda_enc == DW_EH_PE_omit || !(e.lsda_enc & DW_EH_PE_indirect)) &&
                 !(e.fde_enc & DW_EH_PE_indirect) && e.return_reg < 128 && cfi_can_move(r->img, &e, NULL);
    map_put(&r->cie_at, at, r->cies.len);
    VEC_PUSH(&r->cies, e);
    return 0;
}

/* ---- FDE ---- */

static int find_cie(struct reader *r, uint64_t cie_at, uint32_t *out)
{
    uint64_t i = r->cie_last;
    if (!r->cies.len || r->cie_last_at != cie_at) {
        if (!map_get(&r->cie_at, cie_at, &i))
            return -1;
        r->cie_last_at = cie_at;
        r->cie_last = (uint32_t)i;
    }
    *out = (uint32_t)i;
    return 0;
}

static bool read_fde_body(struct reader *r, struct cursor *c, struct image_fde *f)
{
    const struct image_cie *e = &r->cies.data[f->cie];
    bool is_unknown = false;
    f->addr = cursor_pointer(c, r->img, e->fde_enc & 0x7f, 0, &is_unknown);
    uint64_t len = cursor_pointer(c, r->img, e->fde_enc & 15, 0, &is_unknown);
    f->len_bytes = (e->fde_enc & 7) == DW_EH_PE_udata4 ? (uint32_t)len : len;
    f->is_signal_frame = e->is_signal_frame;
    if (e->has_augmentation) {
        struct cursor a = *c;
        uint64_t n = cursor_uleb(&a);
        *c = a;
        cursor_skip(c, n);
        a.end = c->is_bad ? a.p : c->p;
        if (e->lsda_enc != DW_EH_PE_omit)
            f->lsda = cursor_pointer(&a, r->img, e->lsda_enc & 0x7f, f->addr, &is_unknown);
        c->is_bad |= a.is_bad;
    }
    f->cfi = c->p;
    f->cfi_len = (uint32_t)cursor_left(c);
    return !c->is_bad && !is_unknown;
}

static int read_fde(struct reader *r, uint64_t at, uint64_t cie_at, struct cursor *c)
{
    struct image_fde f = {.record = at};
    if (find_cie(r, cie_at, &f.cie) < 0)
        return broken(r, at, "an FDE refers to no CIE before it");
    if (!read_fde_body(r, c, &f))
        return broken(r, at, "an FDE is encoded in an unknown way or cut off");
    const struct load *l = image_load_of(r->img, f.addr);
    if (!f.len_bytes || !l)
        return 0;
    if (f.len_bytes > l->hi_mem - f.addr)
        return broken(r, at, "an FDE covers addresses outside the loaded segments");
    VEC_PUSH(&r->fdes, f);
    return 0;
}

/* ---- the table ---- */

/* One record: its length (64-bit if the first word is all ones), then 0 for a CIE or the distance back to one. */
static int read_record(struct reader *r, bool *is_end)
{
    uint64_t at = cursor_vaddr(&r->all), len = cursor_uint(&r->all, 4);
    *is_end = !len && r->stops_at_end_mark;
    if (!len)
        return 0;
    if (len == 0xffffffff)
        len = cursor_uint(&r->all, 8);
    struct cursor c = r->all;
    cursor_skip(&r->all, len);
    if (r->all.is_bad || len < 4 || len > UINT32_MAX)
        return broken(r, at, "a record has a length beyond the table");
    c.end = r->all.p;
    uint64_t id_at = cursor_vaddr(&c), id = cursor_uint(&c, 4);
    return id ? read_fde(r, at, id_at - id, &c) : read_cie(r, at, &c);
}

static int read_table(struct reader *r)
{
    bool is_end = false;
    while (!is_end && cursor_left(&r->all) >= 4 && r->fdes.len < r->fdes_max)
        if (read_record(r, &is_end) < 0)
            return -1;
    return 0;
}

/* Without sections: the header names the start, the end mark or the number of FDEs ends it. */
static int find_by_header(struct reader *r, const struct image_segment *s)
{
    struct cursor h = cursor_over(r->img, s->vaddr, s->filesz);
    bool is_unknown = false;
    uint64_t version = cursor_uint(&h, 1);
    uint8_t frame_enc = (uint8_t)cursor_uint(&h, 1), count_enc = (uint8_t)cursor_uint(&h, 1);
    cursor_skip(&h, 1);
    uint64_t frame = cursor_pointer(&h, r->img, frame_enc, 0, &is_unknown);
    const struct load *l = image_load_of(r->img, frame);
    if (h.is_bad || is_unknown || version != 1 || !frame || !l || frame >= l->hi_file)
        return broken(r, s->vaddr, "the header of the table is not understood");
    if (count_enc != DW_EH_PE_omit)
        r->fdes_max = cursor_pointer(&h, r->img, count_enc, 0, &is_unknown);
    if (h.is_bad || is_unknown)
        return broken(r, s->vaddr, "the header of the table is not understood");
    r->stops_at_end_mark = true;
    r->all = cursor_over(r->img, frame, l->hi_file - frame);
    return 0;
}

static int find_table(struct reader *r)
{
    const struct image_section *s = image_section_named(r->img, ".eh_frame");
    r->fdes_max = UINT64_MAX;
    if (s && (s->flags & SHF_ALLOC)) {
        r->all = cursor_over(r->img, s->addr, s->size);
        return r->all.is_bad && s->size ? broken(r, s->addr, "the section is not inside a loaded segment") : 0;
    }
    for (size_t i = 0; i < r->img->segment_count; i++)
        if (r->img->segments[i].type == PT_GNU_EH_FRAME)
            return find_by_header(r, &r->img->segments[i]);
    return 0;
}

static int by_addr(const void *a, const void *b)
{
    const struct image_fde *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr > y->addr ? 1 : -1;
    return (x->record > y->record) - (x->record < y->record);
}

static void keep(struct reader *r, struct image_unwind *out)
{
    struct arena *a = r->img->arena;
    out->cies = ARENA_ARRAY(a, struct image_cie, r->cies.len);
    out->cie_count = r->cies.len;
    if (r->cies.len)
        memcpy(out->cies, r->cies.data, r->cies.len * sizeof *out->cies);
    out->fdes = ARENA_ARRAY(a, struct image_fde, r->fdes.len);
    if (r->fdes.len)
        qsort(r->fdes.data, r->fdes.len, sizeof *r->fdes.data, by_addr);
    for (size_t i = 0; i < r->fdes.len; i++)
        if (!out->fde_count || out->fdes[out->fde_count - 1].addr != r->fdes.data[i].addr)
            out->fdes[out->fde_count++] = r->fdes.data[i];
}

int image_unwind_read(const struct image *img, struct image_unwind *out)
{
    struct reader r = {.img = img};
    memset(out, 0, sizeof *out);
    int rc = find_table(&r);
    if (rc == 0)
        rc = read_table(&r);
    if (rc == 0)
        keep(&r, out);
    VEC_FREE(&r.fdes);
    VEC_FREE(&r.cies);
    map_fini(&r.cie_at);
    if (rc < 0)
        image_refuse_at(img, image_offset(img, r.problem_at),
                        "the unwind table is broken at address 0x%llx: %s; no function can be found in it",
                        (unsigned long long)r.problem_at, r.problem);
    return rc;
}

uint32_t image_unwind_find(const struct image_unwind *u, uint64_t vaddr)
{
    /* how many begin at or below vaddr */
    size_t lo = PARTITION_POINT(i, 0, u->fde_count, u->fdes[i].addr <= vaddr);
    return lo && vaddr - u->fdes[lo - 1].addr < u->fdes[lo - 1].len_bytes ? (uint32_t)(lo - 1) : ID_NONE;
}
