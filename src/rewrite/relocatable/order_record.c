/* SPDX-License-Identifier: Apache-2.0
 *
 * What ordering did, kept in the object and so in what is linked of it, in a section like those of debug information. A
 * record, little endian, aligned to 8:
 *
 *   0   "mtoolord"    8 version u32   12 functions u32   16 blocks u32   20 bytes of the name u32
 *   24  bytes of the record u64
 *   32  for each function its address (by a relocation), u32 its first block, u32 how many; then
 *   for each block u32 offset in its function, u16 instructions, u8 depth of loops, u8 whether its order is new, and
 * four floats: cycles and stalls before, cycles and stalls now; then the object's name, and zeros up to a multiple of 8
 */
#include "rewrite/relocatable/relocatable.h"

#include <stdlib.h>

struct record {
    char magic[8];
    uint32_t version, funcs, blocks, name_len;
    uint64_t bytes;
};
struct record_func {
    uint64_t addr;
    uint32_t first, count;
};
struct record_block {
    uint32_t offset;
    uint16_t insns;
    uint8_t depth, is_new;
    float before[2], now[2];
};
_Static_assert(sizeof(struct record) == 32 && sizeof(struct record_func) == 16 && sizeof(struct record_block) == 24,
               "as drawn above");
enum { VERSION = 1 };
static const char magic[8] = {'m', 't', 'o', 'o', 'l', 'o', 'r', 'd'};

/* ---- writing ---- */

/* A symbol by which an address in the section can be said; 0 none. */
static uint32_t symbol_in(const struct rel_object *o, uint32_t section)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < o->sym_count; i++) {
        if (o->syms[i].st_shndx != section)
            continue;
        if (ELF64_ST_TYPE(o->syms[i].st_info) == STT_SECTION)
            return i;
        found = found ? found : i;
    }
    return found;
}

void rel_order_pack(const struct rel_object *o, struct strbuf *out, struct rel_relas *relas)
{
    static const char zero[8];
    uint32_t section = 0, sym = 0;
    struct record head = {.version = VERSION,
                          .funcs = (uint32_t)o->ordered.len,
                          .blocks = (uint32_t)o->ordered_blocks.len,
                          .name_len = (uint32_t)strlen(o->name)};
    uint64_t len = sizeof head + sizeof(struct record_func) * o->ordered.len +
                   sizeof(struct record_block) * o->ordered_blocks.len + head.name_len;
    memcpy(head.magic, magic, sizeof magic);
    head.bytes = ALIGN_UP(len, (uint64_t)8);
    str_put(out, &head, sizeof head);
    for (size_t i = 0; i < o->ordered.len; i++) {
        const struct rel_ordered *f = &o->ordered.data[i];
        if (o->section_of_func[f->func] != section)
            sym = symbol_in(o, section = o->section_of_func[f->func]);
        uint64_t at = o->w.cfg->funcs.data[f->func].addr - o->sections[section].vaddr;
        Elf64_Rela r = {out->len, ELF64_R_INFO((uint64_t)sym, (uint64_t)R_X86_64_64),
                        (int64_t)(at - o->syms[sym].st_value)};
        if (sym)
            VEC_PUSH(relas, r);
        str_put(out, &(struct record_func){0, f->first, f->count}, sizeof(struct record_func));
    }
    for (size_t i = 0; i < o->ordered_blocks.len; i++) {
        const struct rel_ordered_block *b = &o->ordered_blocks.data[i];
        struct record_block x = {
            b->offset, b->insns, b->depth, b->is_new, {b->cycles[0], b->stalls[0]}, {b->cycles[1], b->stalls[1]}};
        str_put(out, &x, sizeof x);
    }
    str_put(out, o->name, head.name_len);
    str_put(out, zero, head.bytes - len);
}

/* ---- reading ---- */

struct reading {
    struct rewrite_ordered *out;
    const char *path;
    struct map seen; /* addresses: an inline function's record may come from several objects */
};

static int refuse(const char *path)
{
    return diag_error("%s: what was done to its code is damaged, or of another version of mtool; link it again", path);
}

static void take_func(struct reading *r, const uint8_t *blocks, const struct record_func *f, const char *object)
{
    if (f->addr + 2 <= 3 || map_has(&r->seen, f->addr)) /* what a linker writes for what it left out */
        return;
    map_put(&r->seen, f->addr, 1);
    struct rewrite_ordered_func out = {f->addr, object, r->out->blocks.len, f->count};
    for (uint32_t i = 0; i < f->count; i++) {
        struct record_block b;
        memcpy(&b, blocks + sizeof b * (f->first + i), sizeof b);
        VEC_PUSH(&r->out->blocks,
                 ((struct rewrite_ordered_block){
                     b.offset, b.insns, b.depth, b.is_new != 0, {b.before[0], b.now[0]}, {b.before[1], b.now[1]}}));
    }
    VEC_PUSH(&r->out->funcs, out);
}

static int take_record(struct reading *r, const uint8_t *p, const struct record *h)
{
    uint64_t funcs = sizeof(struct record_func) * (uint64_t)h->funcs,
             blocks = sizeof(struct record_block) * (uint64_t)h->blocks;
    if (sizeof *h + funcs + blocks + h->name_len > h->bytes)
        return refuse(r->path);
    const uint8_t *at = p + sizeof *h + funcs;
    const char *name = arena_strndup(r->out->arena, (const char *)at + blocks, h->name_len);
    for (uint32_t i = 0; i < h->funcs; i++) {
        struct record_func f;
        memcpy(&f, p + sizeof *h + sizeof f * i, sizeof f);
        if (f.first > h->blocks || f.count > h->blocks - f.first)
            return refuse(r->path);
        take_func(r, at, &f, name);
    }
    return 0;
}

static int take_records(struct reading *r, const uint8_t *p, uint64_t len)
{
    for (uint64_t at = 0; at + sizeof(struct record) <= len;) {
        struct record h;
        memcpy(&h, p + at, sizeof h);
        if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != VERSION || h.bytes > len - at || h.bytes % 8 ||
            h.bytes < sizeof h)
            return refuse(r->path);
        if (take_record(r, p + at, &h) < 0)
            return -1;
        at += h.bytes;
    }
    return 0;
}

int rewrite_ordered_open(const char *path, struct rewrite_ordered **out)
{
    struct image *img;
    *out = NULL;
    if (image_open_copy(path, &img) < 0)
        return -1;
    struct reading r = {.out = xmalloc(sizeof *r.out), .path = path};
    r.out->arena = arena_new();
    const struct image_section *s = image_section_named(img, REWRITE_RELOCATABLE_ORDER_RECORD);
    struct strbuf plain = {0};
    int rc = 0;
    if (s && s->flags & SHF_COMPRESSED)
        rc = rel_unpack(img->bytes + s->offset, s->size, &plain)
                 ? take_records(&r, (const uint8_t *)plain.data, plain.len)
                 : refuse(path);
    else if (s)
        rc = take_records(&r, img->bytes + s->offset, s->size);
    str_free(&plain);
    image_close(img);
    map_fini(&r.seen);
    if (rc < 0)
        rewrite_ordered_close(r.out);
    else
        *out = r.out;
    return rc;
}

void rewrite_ordered_close(struct rewrite_ordered *o)
{
    if (!o)
        return;
    VEC_FREE(&o->funcs);
    VEC_FREE(&o->blocks);
    arena_free(o->arena);
    free(o);
}
