/* SPDX-License-Identifier: Apache-2.0
 * See help.h. The grown file is the old bytes, then new program headers, the room for code, and the tables. */
#include "help.h"

#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int catch_fd = -1, saved_fd = -1;
static char caught[4097];

void catch_begin(void)
{
    catch_fd = memfd_create("stderr", MFD_CLOEXEC);
    saved_fd = dup(2);
    assert_true(catch_fd >= 0 && saved_fd >= 0 && dup2(catch_fd, 2) == 2);
}

const char *catch_end(void)
{
    assert_int_equal(dup2(saved_fd, 2), 2);
    ssize_t n = pread(catch_fd, caught, sizeof caught - 1, 0);
    caught[n > 0 ? n : 0] = 0;
    close(catch_fd);
    close(saved_fd);
    return caught;
}

struct image *open_ok(const char *path)
{
    struct image *img = NULL;
    assert_int_equal(image_open(path, &img), 0);
    assert_non_null(img);
    return img;
}

void unwind_ok(const struct image *img, struct image_unwind *out)
{
    assert_int_equal(image_unwind_read(img, out), 0);
    assert_true(out->fde_count > 0);
}

enum { PIECE_BYTES = 3 };
uint32_t grown_pushed(uint64_t offset) { return offset / PIECE_BYTES % 4 * 64; }

static uint64_t stretched(const struct grown *g, uint64_t addr_old)
{
    return g->code_base + (addr_old - g->img->vaddr_lo) * g->stretch;
}

uint64_t grown_addr(const struct grown *g, uint64_t addr_old)
{
    uint32_t f = g->states ? image_unwind_find(g->u, addr_old) : ID_NONE;
    return f == ID_NONE ? stretched(g, addr_old) : stretched(g, g->u->fdes[f].addr) + addr_old - g->u->fdes[f].addr;
}

uint64_t grown_pad(const struct grown *g, uint64_t pad_old)
{
    return g->some_pads_stay && pad_old % 3 == 0 ? pad_old : grown_addr(g, pad_old);
}

static uint64_t map_addr(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad)
{
    const struct grown *g = ctx;
    const struct image_fde *f = &g->u->fdes[fde];
    assert_true(addr_old >= f->addr && addr_old - f->addr <= f->len_bytes);
    if (g->states && !is_landing_pad) /* it may be the end */
        return stretched(g, f->addr) + addr_old - f->addr;
    return is_landing_pad ? grown_pad(g, addr_old) : grown_addr(g, addr_old);
}

static size_t put_states(struct image_state *out, const struct image_fde *f)
{
    size_t n = 0;
    for (uint32_t k = 0; k < f->len_bytes; k += PIECE_BYTES) {
        out[n++] = (struct image_state){(uint32_t)f->len_bytes + k, k, k % 2 ? 0 : grown_pushed(k)};
        if (k % 2)
            out[n++] = (struct image_state){(uint32_t)f->len_bytes + k, IMAGE_STATE_HERE, grown_pushed(k)};
    }
    return n;
}

static void choose(struct grown *g)
{
    g->moved = calloc(g->u->fde_count, sizeof *g->moved);
    struct image_state *next = g->states;
    for (uint32_t i = 0; i < g->u->fde_count; i++) {
        const struct image_fde *f = &g->u->fdes[i];
        if (!image_unwind_can_move(g->img, g->u, i))
            continue;
        struct image_moved_func *m = &g->moved[g->moved_count++];
        *m = (struct image_moved_func){
            .fde = i, .addr_new = stretched(g, f->addr), .len_new = f->len_bytes * g->stretch, .states = next};
        if (g->states)
            next += m->state_count = put_states(next, f);
    }
}

static Elf64_Phdr load_header(uint32_t flags, uint64_t offset, uint64_t vaddr, uint64_t len)
{
    return (Elf64_Phdr){PT_LOAD, flags, offset, vaddr, vaddr, len, len, 4096};
}

/* The old headers with PT_GNU_EH_FRAME taken to the new table, and the two new segments. */
static size_t fill_headers(const struct grown *g, Elf64_Phdr *out, uint64_t code_at, uint64_t code_len, uint64_t tables,
                           const struct image_unwind_out *t)
{
    size_t n = 0;
    for (size_t i = 0; i < g->img->segment_count; i++) {
        const struct image_segment *s = &g->img->segments[i];
        if (s->type != PT_GNU_EH_FRAME)
            out[n++] = (Elf64_Phdr){s->type, s->flags, s->offset, s->vaddr, s->vaddr, s->filesz, s->memsz, s->align};
    }
    out[n++] = load_header(PF_R | PF_X, code_at, g->code_base, code_len);
    out[n++] = load_header(PF_R, tables, g->lsda_at, g->hdr_at + t->hdr.len - g->lsda_at);
    uint64_t hdr = tables + (g->hdr_at - g->lsda_at);
    out[n++] = (Elf64_Phdr){PT_GNU_EH_FRAME, PF_R, hdr, g->hdr_at, g->hdr_at, t->hdr.len, t->hdr.len, 4};
    return n;
}

static void assemble(struct grown *g, uint64_t code_len, const struct image_unwind_out *t)
{
    uint64_t headers = ALIGN_UP(g->img->len_bytes, (size_t)4096), code_at = headers + (64u << 10);
    uint64_t tables = code_at + code_len;
    g->len = tables + (g->hdr_at - g->lsda_at) + t->hdr.len;
    g->bytes = calloc(1, g->len);
    memcpy(g->bytes, g->img->bytes, g->img->len_bytes);
    Elf64_Ehdr *h = (Elf64_Ehdr *)(void *)g->bytes;
    h->e_phoff = headers;
    h->e_phnum = (uint16_t)fill_headers(g, (Elf64_Phdr *)(void *)(g->bytes + headers), code_at, code_len, tables, t);
    h->e_shoff = h->e_shnum = h->e_shstrndx = 0;
    if (t->lsda.len)
        memcpy(g->bytes + tables, t->lsda.data, t->lsda.len);
    memcpy(g->bytes + tables + (g->frame_at - g->lsda_at), t->frame.data, t->frame.len);
    memcpy(g->bytes + tables + (g->hdr_at - g->lsda_at), t->hdr.data, t->hdr.len);
}

void grown_open(struct grown *g, const struct image *img, const struct image_unwind *u, uint64_t stretch,
                bool some_pads_stay, bool has_states)
{
    *g = (struct grown){.img = img, .u = u, .stretch = stretch, .some_pads_stay = some_pads_stay};
    g->code_base = ALIGN_UP(img->vaddr_hi, (uint64_t)1 << 20) + (1 << 20);
    if (has_states)
        g->states = calloc(img->len_bytes, sizeof *g->states); /* two for three bytes of code are the most */
    choose(g);
    uint64_t code_len = ALIGN_UP((img->vaddr_hi - img->vaddr_lo) * stretch, (uint64_t)4096);
    struct image_unwind_out t = {{0}, {0}, {0}};
    size_t bad = 0;
    assert_int_equal(image_unwind_emit(img, u, g->moved, g->moved_count, map_addr, g, g->code_base + code_len, &t,
                                       &g->lsda_at, &g->frame_at, &g->hdr_at, &bad, NULL),
                     0);
    assemble(g, code_len, &t);
    str_free(&t.lsda);
    str_free(&t.frame);
    str_free(&t.hdr);
    assert_int_equal(image_open_bytes("grown", g->bytes, g->len, &g->img_new), 0);
    unwind_ok(g->img_new, &g->u_new);
}

void grown_close(struct grown *g)
{
    image_close(g->img_new);
    free(g->bytes);
    free(g->moved);
    free(g->states);
}
