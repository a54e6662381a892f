/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the reader and the writer of unwind tables: what is read keeps its promises; all functions that can move are
 * moved, and tables written for them, read again, must say the same as the old ones did. */
#include "fuzz.h"

#include <elf.h>
#include <stdlib.h>

#include "image/image.h"

#define SPAN_MAX (1u << 20) /* images larger in memory are read, but their code is not moved */

struct move {
    const struct image *img;
    const struct image_unwind *u;
    uint64_t shift; /* new address of code minus old */
    struct image_moved_func *funcs;
    size_t count;
    uint64_t lsda, frame, hdr; /* where the new tables are */
    struct image_unwind_out out;
};

struct pads {
    uint64_t count, sum;
};

static void add_pad(void *ctx, uint64_t pad)
{
    struct pads *p = ctx;
    p->count++;
    p->sum += pad;
}

static uint64_t shift_addr(void *ctx, uint32_t fde, uint64_t addr, bool is_landing_pad)
{
    const struct move *m = ctx;
    FUZZ_CHECK(is_landing_pad || addr - m->u->fdes[fde].addr <= m->u->fdes[fde].len_bytes);
    return addr + m->shift;
}

static void check_read(const struct image *img, const struct image_unwind *u)
{
    for (uint32_t i = 0; i < u->fde_count; i++) {
        const struct image_fde *f = &u->fdes[i];
        FUZZ_CHECK(f->cie < u->cie_count && f->len_bytes > 0);
        FUZZ_CHECK(i == 0 || u->fdes[i - 1].addr < f->addr);
        FUZZ_CHECK(f->addr >= img->vaddr_lo && f->addr + f->len_bytes <= img->vaddr_hi);
        FUZZ_CHECK(image_unwind_find(u, f->addr) == i);
        FUZZ_CHECK(image_unwind_cfa_rsp_offset(img, u, f, f->addr) >= -1);
        image_unwind_cfa_rsp_offset(img, u, f, f->addr + f->len_bytes - 1);
        struct pads p = {0, 0};
        image_unwind_landing_pads(img, u, i, add_pad, &p);
    }
}

static void choose(struct move *m)
{
    m->funcs = xmalloc((m->u->fde_count + 1) * sizeof *m->funcs);
    for (uint32_t i = 0; i < m->u->fde_count; i++) {
        const struct image_fde *f = &m->u->fdes[i];
        if (image_unwind_can_move(m->img, m->u, i))
            m->funcs[m->count++] =
                (struct image_moved_func){.fde = i, .addr_new = f->addr + m->shift, .len_new = f->len_bytes};
    }
}

/* Functions that turn out not to be expressible are left out, as the rewriter does. */
static bool emit(struct move *m, uint64_t first)
{
    size_t bad = 0;
    while (image_unwind_emit(m->img, m->u, m->funcs, m->count, shift_addr, m, first, &m->out, &m->lsda, &m->frame,
                             &m->hdr, &bad, NULL) < 0) {
        if (bad == SIZE_MAX)
            return false;
        FUZZ_CHECK(bad < m->count);
        m->count--;
        memmove(&m->funcs[bad], &m->funcs[bad + 1], (m->count - bad) * sizeof *m->funcs);
    }
    return true;
}

/* The old bytes, room for the moved code, the new tables, and program headers for all of it; sections are gone. */
static uint8_t *grow(const struct move *m, uint64_t code, uint64_t code_len, size_t *len)
{
    const struct image *img = m->img;
    uint64_t code_at = ALIGN_UP((uint64_t)img->len_bytes, 4096u), tables_at = code_at + code_len;
    uint64_t tables_len = m->hdr + m->out.hdr.len - m->lsda, phdrs = ALIGN_UP(tables_at + tables_len, 8u);
    Elf64_Phdr *p = xmalloc((img->segment_count + 3) * sizeof *p);
    size_t n = 0;
    for (size_t i = 0; i < img->segment_count; i++) {
        const struct image_segment *s = &img->segments[i];
        if (s->type != PT_GNU_EH_FRAME)
            p[n++] = (Elf64_Phdr){s->type, s->flags, s->offset, s->vaddr, s->vaddr, s->filesz, s->memsz, s->align};
    }
    p[n++] = (Elf64_Phdr){PT_LOAD, PF_R | PF_X, code_at, code, code, code_len, code_len, 4096};
    p[n++] = (Elf64_Phdr){PT_LOAD, PF_R, tables_at, m->lsda, m->lsda, tables_len, tables_len, 4096};
    p[n++] = (Elf64_Phdr){PT_GNU_EH_FRAME, PF_R, tables_at + (m->hdr - m->lsda), m->hdr, m->hdr, m->out.hdr.len,
                          m->out.hdr.len,  4};
    *len = phdrs + n * sizeof *p;
    uint8_t *bytes = xmalloc(*len);
    memcpy(bytes, img->bytes, img->len_bytes);
    if (m->out.lsda.len)
        memcpy(bytes + tables_at, m->out.lsda.data, m->out.lsda.len);
    memcpy(bytes + tables_at + (m->frame - m->lsda), m->out.frame.data, m->out.frame.len);
    memcpy(bytes + tables_at + (m->hdr - m->lsda), m->out.hdr.data, m->out.hdr.len);
    memcpy(bytes + phdrs, p, n * sizeof *p);
    Elf64_Ehdr *h = (Elf64_Ehdr *)(void *)bytes;
    h->e_phoff = phdrs;
    h->e_phnum = (uint16_t)n;
    h->e_phentsize = sizeof *p;
    h->e_shoff = h->e_shnum = h->e_shstrndx = 0;
    free(p);
    return bytes;
}

static void check_moved(const struct move *m, const struct image *img, const struct image_unwind *u)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct image_fde *old = &m->u->fdes[m->funcs[i].fde];
        uint32_t k = image_unwind_find(u, m->funcs[i].addr_new);
        FUZZ_CHECK(k != ID_NONE);
        const struct image_fde *new = &u->fdes[k];
        FUZZ_CHECK(new->addr == m->funcs[i].addr_new &&new->len_bytes == old->len_bytes);
        FUZZ_CHECK(!new->lsda == !old->lsda);
        FUZZ_CHECK(u->cies[new->cie].personality == m->u->cies[old->cie].personality);
        for (uint64_t at = 0; at < old->len_bytes; at += 1 + old->len_bytes / 64)
            FUZZ_CHECK(image_unwind_cfa_rsp_offset(img, u, new, new->addr + at) ==
                       image_unwind_cfa_rsp_offset(m->img, m->u, old, old->addr + at));
        struct pads was = {0, 0}, is = {0, 0};
        FUZZ_CHECK(image_unwind_landing_pads(m->img, m->u, m->funcs[i].fde, add_pad, &was) == 0);
        FUZZ_CHECK(image_unwind_landing_pads(img, u, k, add_pad, &is) == 0);
        FUZZ_CHECK(was.count == is.count);
    }
}

static void read_again(const struct move *m, uint64_t code, uint64_t code_len)
{
    struct image *img;
    struct image_unwind u;
    size_t len;
    uint8_t *bytes = grow(m, code, code_len, &len);
    int rc = image_open_bytes("grown", bytes, len, &img);
    if (rc == 0) { /* a static file's relocations are known by sections only, and so may a name be */
        FUZZ_CHECK(image_unwind_read(img, &u) == 0);
        check_moved(m, img, &u);
        image_close(img);
    }
    free(bytes);
}

static void move_all(const struct image *img, const struct image_unwind *u)
{
    uint64_t lo = ALIGN_DOWN(img->vaddr_lo, 4096u), span = ALIGN_UP(img->vaddr_hi - lo, 4096u);
    uint64_t code = ALIGN_UP(img->vaddr_hi, 4096u) + (64u << 20);
    struct move m = {.img = img, .u = u, .shift = code - lo};
    choose(&m);
    bool is_emitted = emit(&m, code + span);
    if (is_emitted && m.count && span <= SPAN_MAX)
        read_again(&m, code, span);
    str_free(&m.out.lsda);
    str_free(&m.out.frame);
    str_free(&m.out.hdr);
    free(m.funcs);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct image *img;
    struct image_unwind u;
    fuzz_begin();
    if (image_open_bytes("input", bytes, len, &img) < 0)
        return 0;
    int rc = image_unwind_read(img, &u);
    fuzz_check_said(rc, "input");
    if (rc < 0) {
        fuzz_check_tells_place();
    } else {
        check_read(img, &u);
        move_all(img, &u);
    }
    image_close(img);
    return 0;
}
