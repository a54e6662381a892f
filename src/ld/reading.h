/* SPDX-License-Identifier: Apache-2.0
 * What the readers of linked files share: the file, what its counters mean, and what it wrote, summed. */
#ifndef MTOOL_LD_READING_H
#define MTOOL_LD_READING_H

#include "image/image.h"
#include "ld/ld.h"
#include "rewrite/rewrite.h"
#include "wire/link.h"

struct ld_reading {
    const char *path;
    struct image *img;
    struct rewrite_relocatable_linked *linked;
    uint64_t *counters; /* [count] summed */
    uint64_t count;
    struct wire_link link;
    struct map name_at;  /* address -> index of a symbol + 1 */
    struct arena *arena; /* the caller's: of names */
};

/* A table of one file: its entries, and by how much addresses in it are above those of the linked file. Entries may be
 * damaged as the file is: only what is in the linked file's range is to be believed. */
typedef void ld_table_fn(void *ctx, const struct wire_table *t, const struct wire_table_entry *entries, size_t count,
                         uint64_t above);
/* 0, or -1 after one line: not linked by mtool ld, files of another link, cut off. Close it in any case. `table` may be
 * NULL. */
int ld_reading_open(struct ld_reading *r, const char *path, const char *const *files, size_t count, ld_table_fn *table,
                    void *ctx);
void ld_reading_close(struct ld_reading *r);
/* Of the function or object that begins there; "" if the file has none for it. In the arena. */
const char *ld_reading_name(const struct ld_reading *r, uint64_t address);
/* The counters of a unit, or NULL after one line: its map is corrupt. */
const uint64_t *ld_reading_counters(const struct ld_reading *r, const struct rewrite_relocatable_unit *u);
/* Where the copy of a block begins, and ends at the latest, in the linked file. */
uint64_t ld_reading_block(const struct rewrite_relocatable_unit *u, uint32_t block);
uint64_t ld_reading_block_end(const struct rewrite_relocatable_unit *u, uint32_t block);

#endif
