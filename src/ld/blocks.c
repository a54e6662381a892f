/* SPDX-License-Identifier: Apache-2.0
 * Files of counts (wire/link.h) summed, and solved for all blocks of the linked file. */
#include <stdlib.h>

#include "image/image.h"
#include "ld/ld.h"
#include "rewrite/rewrite.h"
#include "wire/link.h"

struct reading {
    const char *path;
    struct image *img;
    struct rewrite_relocatable_linked *linked;
    uint64_t *counters; /* [count] summed */
    uint64_t count;
    struct wire_link link;
    struct map name_at; /* address -> index of a symbol */
    struct ld_blocks *out;
};

/* ---- files ---- */

static int find_link(struct reading *r)
{
    const struct image_section *s = image_section_named(r->img, WIRE_LINK_SECTION);
    const uint8_t *p = s && s->size == sizeof r->link ? image_at(r->img, s->addr, s->size) : NULL;
    if (!p || memcmp(p, WIRE_LINK_MAGIC, sizeof r->link.magic) != 0)
        return diag_error("blocks: %s was not linked by 'mtool ld'", r->path);
    memcpy(&r->link, p, sizeof r->link);
    if (!r->linked->unit_count)
        return diag_error("blocks: %s has no map of its counters; link it without -s and --strip-debug", r->path);
    return 0;
}

static int add_file(struct reading *r, const char *path)
{
    struct file_bytes f;
    struct wire_link_counts head;
    if (file_map(path, &f) < 0)
        return diag_error("blocks: cannot read %s", path);
    int rc = 0;
    if (f.len >= sizeof head)
        memcpy(&head, f.data, sizeof head);
    if (f.len < sizeof head || memcmp(head.link.magic, WIRE_LINK_MAGIC, sizeof head.link.magic) != 0)
        rc = diag_error("blocks: %s is no file of counts", path);
    else if (head.link.version != WIRE_LINK_VERSION)
        rc = diag_error("blocks: %s is of another version of mtool; run the program again", path);
    else if (memcmp(head.link.id, r->link.id, WIRE_LINK_ID) != 0 || head.count != r->count)
        rc = diag_error("blocks: %s was written by another build of %.*s; run %s again", path, WIRE_LINK_NAME - 1,
                        head.link.name, r->path);
    else if (f.len != sizeof head + 8 * head.count)
        rc = diag_error("blocks: %s is cut off", path);
    for (uint64_t i = 0; rc == 0 && i < r->count; i++) {
        uint64_t c;
        memcpy(&c, f.data + sizeof head + 8 * i, 8);
        r->counters[i] += c;
    }
    file_unmap(&f);
    return rc;
}

/* ---- functions ---- */

static void find_names(struct reading *r)
{
    for (size_t i = 0; i < r->img->symbol_count; i++) {
        const struct image_symbol *s = &r->img->symbols[i];
        uint64_t *at = *s->name && s->shndx ? map_place(&r->name_at, s->addr) : NULL;
        if (at && (!*at || s->bind)) /* a global name before a local one */
            *at = i + 1;
    }
}

static const char *name_at(const struct reading *r, uint64_t address)
{
    uint64_t i;
    bool is_known = map_get(&r->name_at, address, &i) && i;
    return arena_strdup(r->out->arena, is_known ? r->img->symbols[i - 1].name : "");
}

static void add_function(struct reading *r, const struct rewrite_relocatable_unit *u, uint32_t f,
                         const uint64_t *counts, const uint64_t *enter)
{
    const struct cfg_func *fn = &u->map->cfg->funcs.data[f];
    uint64_t at = u->funcs[f].vaddr, from = u->map->block_addr_new[fn->block_first] - u->funcs[f].first_block;
    struct ld_function out = {.name = name_at(r, at),
                              .object = arena_strdup(r->out->arena, u->name),
                              .address = at,
                              .calls = enter[fn->block_first], /* the entry is the first */
                              .first = r->out->blocks.len,
                              .count = fn->block_count};
    for (uint32_t b = fn->block_first; b < fn->block_first + fn->block_count; b++) {
        uint64_t here = u->map->block_addr_new[b], next = from + u->funcs[f].first_block + u->funcs[f].bytes;
        if (b + 1 < fn->block_first + fn->block_count && u->map->block_addr_new[b + 1] > here)
            next = u->map->block_addr_new[b + 1];
        VEC_PUSH(&r->out->blocks, ((struct ld_block){at + here - from, at + next - from, counts[b],
                                                     u->map->cfg->blocks.data[b].insn_count}));
        out.insns += counts[b] * u->map->cfg->blocks.data[b].insn_count;
    }
    VEC_PUSH(&r->out->functions, out);
}

static int add_unit(struct reading *r, const struct rewrite_relocatable_unit *u)
{
    const struct cfg *cfg = u->map->cfg;
    uint64_t first = (u->counters_vaddr - r->linked->counters_lo) / 8;
    if (u->counters_vaddr < r->linked->counters_lo || first > r->count || u->map->counter_count > r->count - first)
        return diag_error("blocks: %s: the map of %s is corrupt; link it again", r->path, u->name);
    uint64_t *blocks = xmalloc((cfg->blocks.len + 1) * 8), *edges = xmalloc((cfg->edges.len + 1) * 8);
    uint64_t *enter = xmalloc((cfg->blocks.len + 1) * 8);
    r->out->inconsistent += rewrite_counts_solve(u->map, r->counters + first, blocks, edges, enter);
    for (uint32_t f = 0; f < cfg->funcs.len; f++)
        if (u->funcs[f].vaddr && cfg->funcs.data[f].block_count)
            add_function(r, u, f, blocks, enter);
    free(blocks), free(edges), free(enter);
    return 0;
}

/* ---- all ---- */

static int read_all(struct reading *r, const char *const *files, size_t count)
{
    if (image_open(r->path, &r->img) < 0 || rewrite_relocatable_linked_open(r->path, &r->linked) < 0 ||
        find_link(r) < 0)
        return -1;
    r->count = (r->linked->counters_hi - r->linked->counters_lo) / 8;
    r->counters = xmalloc((r->count + 1) * 8);
    for (size_t i = 0; i < count; i++)
        if (add_file(r, files[i]) < 0)
            return -1;
    find_names(r);
    for (size_t i = 0; i < r->linked->unit_count; i++)
        if (add_unit(r, &r->linked->units[i]) < 0)
            return -1;
    return 0;
}

int ld_blocks_read(const char *path, const char *const *files, size_t count, struct ld_blocks **out)
{
    struct reading r = {.path = path, .out = xmalloc(sizeof *r.out)};
    r.out->arena = arena_new();
    r.out->files = count;
    int rc = read_all(&r, files, count);
    rewrite_relocatable_linked_close(r.linked);
    image_close(r.img);
    map_fini(&r.name_at);
    free(r.counters);
    if (rc < 0)
        ld_blocks_free(r.out);
    *out = rc < 0 ? NULL : r.out;
    return rc;
}

void ld_blocks_free(struct ld_blocks *b)
{
    VEC_FREE(&b->functions);
    VEC_FREE(&b->blocks);
    arena_free(b->arena);
    free(b);
}
