/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: the private index behind the look-ups, and a reader that cannot leave its bytes.
 */
#ifndef MTOOL_IMAGE_IMPL_H
#define MTOOL_IMAGE_IMPL_H

#include "image/image.h"

struct range {
    uint64_t lo, hi; /* [lo, hi) */
};

struct load { /* a PT_LOAD that is not empty */
    uint64_t lo, hi_file, hi_mem, offset;
    uint32_t flags;
};

struct image_index {
    struct file_bytes file; /* ours to unmap; empty if the caller keeps the bytes */
    struct load *loads;     /* sorted, disjoint */
    size_t load_count;
    struct range *code; /* sorted, disjoint, file-backed */
    size_t code_count;
    struct range relro;
    uint32_t *placed; /* allocated, not empty sections (no TLS template without bytes), sorted by address */
    size_t placed_count;
    uint32_t *funcs;   /* symbols that can name code, sorted by address, the best name of one address last */
    uint64_t *func_hi; /* func_hi[i]: the highest end of funcs[0..i] */
    size_t func_count;
};

/* ---- image.c ---- */
int image_refuse(const struct image *img, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The string at `offset` of a table, or NULL if it does not end inside the table. */
const char *image_string(const uint8_t *table, uint64_t table_len, uint64_t offset);
/* Whether [offset, offset+len) lies in the file. */
static inline bool image_has_bytes(const struct image *img, uint64_t offset, uint64_t len)
{
    return offset <= img->len_bytes && len <= img->len_bytes - offset;
}
const struct load *image_load_of(const struct image *img,
                                 uint64_t vaddr); /* in memory, not only in the file; or NULL */

/* ---- dynamic.c ---- */
int image_read_dynamic(struct image *img); /* needs segments and sections; fills symbols, relocs, needed and names */
void image_index_functions(struct image *img);

/* ---- identity.c ---- */
void image_read_notes(struct image *img); /* build_id, has_ibt_property */
void image_find_foreign_runtime(struct image *img);
void image_make_key(struct image *img);

#endif
