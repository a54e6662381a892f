/* SPDX-License-Identifier: Apache-2.0
 *
 * What a linked file says of the counters that rewritten objects brought into it: the records of counters.c, one behind
 * the other as the linker put them. */
#include "rewrite/relocatable/relocatable.h"

#include <stdlib.h>

struct linked {
    struct rewrite_relocatable_linked pub; /* first */
    VEC(struct rewrite_relocatable_unit) units;
};

static int refuse(const char *path, const char *what) { return diag_error("%s: %s; link it again", path, what); }

/* What a linker writes in place of the address of what it left out: 0, 1 in lists of ranges, or the highest. */
static bool is_left_out(uint64_t addr) { return addr + 2 <= 3; }

static int take_record(struct linked *l, const char *path, const uint8_t *p, const struct rel_record *r)
{
    struct rewrite_relocatable_unit u = {.counters_vaddr = r->counters};
    const uint8_t *map = p + REL_RECORD_HEAD + sizeof(struct rel_record_func) * r->funcs;
    if (rw_map_open_bytes(path, map, r->map_bytes, &u.map) < 0)
        return -1;
    if (u.map->cfg->funcs.len != r->funcs) {
        rewrite_map_close(u.map);
        return refuse(path, "has a map of counters of another form");
    }
    u.name = u.map->in_path;
    u.funcs = xmalloc((r->funcs + 1ull) * sizeof *u.funcs);
    for (uint32_t f = 0; f < r->funcs; f++) {
        struct rel_record_func fn;
        memcpy(&fn, p + REL_RECORD_HEAD + sizeof fn * f, sizeof fn);
        if (!is_left_out(fn.addr))
            u.funcs[f] = (struct rewrite_relocatable_func){fn.addr, fn.first_block, fn.end};
    }
    VEC_PUSH(&l->units, u);
    return 0;
}

static int take_records(struct linked *l, const char *path, const uint8_t *p, uint64_t len)
{
    static const char magic[8] = REL_RECORD_MAGIC;
    for (uint64_t at = 0; at + REL_RECORD_HEAD <= len;) {
        struct rel_record r;
        memcpy(&r, p + at, sizeof r);
        if (memcmp(r.magic, magic, sizeof magic) != 0 || r.version != REL_RECORD_VERSION || r.bytes > len - at ||
            r.bytes % 8 || r.bytes < REL_RECORD_HEAD ||
            (r.bytes - REL_RECORD_HEAD) / sizeof(struct rel_record_func) < r.funcs ||
            r.map_bytes > r.bytes - REL_RECORD_HEAD - sizeof(struct rel_record_func) * r.funcs)
            return refuse(path, "has a damaged map of counters, or one of another version of mtool");
        if (!is_left_out(r.counters) && take_record(l, path, p + at, &r) < 0)
            return -1;
        at += r.bytes;
    }
    return 0;
}

/* As a linker leaves it that was told to compress debug sections. */
static int take_compressed(struct linked *l, const char *path, const uint8_t *p, uint64_t len)
{
    struct strbuf plain = {0};
    int rc = rel_unpack(p, len, &plain)
                 ? take_records(l, path, (const uint8_t *)plain.data, plain.len)
                 : refuse(path, "has a map of counters that is damaged, or compressed in another way than by zlib");
    str_free(&plain);
    return rc;
}

int rewrite_relocatable_linked_open(const char *path, struct rewrite_relocatable_linked **out)
{
    struct image *img;
    *out = NULL;
    if (image_open_copy(path, &img) < 0)
        return -1;
    struct linked *l = xmalloc(sizeof *l);
    const struct image_section *counters = image_section_named(img, REWRITE_RELOCATABLE_COUNTERS);
    const struct image_section *map = image_section_named(img, REWRITE_RELOCATABLE_MAP);
    int rc = 0;
    if (counters) {
        l->pub.counters_lo = counters->addr;
        l->pub.counters_hi = counters->addr + counters->size;
    }
    if (map && map->flags & SHF_COMPRESSED)
        rc = take_compressed(l, path, img->bytes + map->offset, map->size);
    else if (map)
        rc = take_records(l, path, img->bytes + map->offset, map->size);
    image_close(img);
    for (size_t u = 0; u < l->units.len && rc == 0; u++) {
        const struct rewrite_relocatable_unit *unit = &l->units.data[u];
        if (unit->counters_vaddr < l->pub.counters_lo || unit->counters_vaddr > l->pub.counters_hi ||
            unit->map->counter_count > (l->pub.counters_hi - unit->counters_vaddr) / 8)
            rc = refuse(path, "has a map of counters that are not in it");
    }
    l->pub.units = l->units.data;
    l->pub.unit_count = l->units.len;
    if (rc < 0)
        rewrite_relocatable_linked_close(&l->pub);
    else
        *out = &l->pub;
    return rc;
}

void rewrite_relocatable_linked_close(struct rewrite_relocatable_linked *pub)
{
    struct linked *l = (struct linked *)(void *)pub;
    for (size_t u = 0; l && u < l->units.len; u++) {
        rewrite_map_close(l->units.data[u].map);
        free(l->units.data[u].funcs);
    }
    if (l)
        VEC_FREE(&l->units);
    free(l);
}
