/* SPDX-License-Identifier: Apache-2.0
 * A linked file and the files that it wrote (wire/link.h): checked, and summed. */
#include "ld/reading.h"

#include <stdlib.h>

/* ---- the linked file ---- */

static int find_link(struct ld_reading *r)
{
    const struct image_section *s = image_section_named(r->img, WIRE_LINK_SECTION);
    const uint8_t *p = s && s->size == sizeof r->link ? image_at(r->img, s->addr, s->size) : NULL;
    if (!p || memcmp(p, WIRE_LINK_MAGIC, sizeof r->link.magic) != 0)
        return diag_error("%s was not linked by 'mtool ld'", r->path);
    memcpy(&r->link, p, sizeof r->link);
    if (!r->linked->unit_count)
        return diag_error("%s has no map of its counters; link it without -s and --strip-debug", r->path);
    return 0;
}

static void find_names(struct ld_reading *r)
{
    for (size_t i = 0; i < r->img->symbol_count; i++) {
        const struct image_symbol *s = &r->img->symbols[i];
        uint64_t *at = *s->name && s->shndx ? map_place(&r->name_at, s->addr) : NULL;
        if (at && (!*at || s->bind)) /* a global name before a local one */
            *at = i + 1;
    }
}

/* ---- what it wrote ---- */

struct file { /* one */
    const struct ld_reading *r;
    const uint8_t *words;
    ld_table_fn *table;
    void *ctx;
};

static uint64_t word_at(const struct file *f, uint64_t i)
{
    uint64_t w;
    memcpy(&w, f->words + 8 * i, 8);
    return w;
}

/* The table at word i: how many words it has, 0 if there is none. */
static uint64_t take_table(const struct file *f, uint64_t i)
{
    struct wire_table t;
    enum { HEAD = sizeof t / 8, ENTRY = sizeof(struct wire_table_entry) / 8 };
    uint64_t left = f->r->count - i;
    if (left < HEAD || memcmp(f->words + 8 * i, WIRE_TABLE_MAGIC, sizeof t.magic) != 0)
        return 0;
    memcpy(&t, f->words + 8 * i, sizeof t);
    uint64_t room = min_u64(t.room, (left - HEAD) / ENTRY);
    struct wire_table_entry *entries = xmalloc((room + 1) * sizeof *entries);
    memcpy(entries, f->words + 8 * (i + HEAD), room * sizeof *entries);
    if (f->table)
        f->table(f->ctx, &t, entries, room, t.address - (f->r->linked->counters_lo + 8 * i));
    free(entries);
    return HEAD + ENTRY * room;
}

/* Words that are no unit's counters are the runtime's. */
static void take_words(struct ld_reading *r, const struct file *f, const bool *is_counter)
{
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t words = is_counter[i] ? 0 : take_table(f, i);
        r->counters[i] += is_counter[i] ? word_at(f, i) : 0;
        i += words ? words - 1 : 0;
    }
}

static int add_file(struct ld_reading *r, const char *path, const bool *is_counter, ld_table_fn *table, void *ctx)
{
    struct file_bytes f;
    struct wire_link_counts head;
    if (file_map(path, &f) < 0)
        return diag_error("cannot read %s", path);
    int rc = 0;
    if (f.len >= sizeof head)
        memcpy(&head, f.data, sizeof head);
    if (f.len < sizeof head || memcmp(head.link.magic, WIRE_LINK_MAGIC, sizeof head.link.magic) != 0)
        rc = diag_error("%s is no file of counts", path);
    else if (head.link.version != WIRE_LINK_VERSION)
        rc = diag_error("%s is of another version of mtool; run the program again", path);
    else if (memcmp(head.link.id, r->link.id, WIRE_LINK_ID) != 0 || head.count != r->count ||
             head.link.tool != r->link.tool)
        rc = diag_error("%s was written by another build of %.*s; run %s again", path, WIRE_LINK_NAME - 1,
                        head.link.name, r->path);
    else if (f.len != WIRE_LINK_COUNTS_AT + 8 * head.count)
        rc = diag_error("%s is cut off", path);
    if (rc == 0)
        take_words(r, &(struct file){r, f.data + WIRE_LINK_COUNTS_AT, table, ctx}, is_counter);
    file_unmap(&f);
    return rc;
}

static int add_files(struct ld_reading *r, const char *const *files, size_t count, ld_table_fn *table, void *ctx)
{
    bool *is_counter = xmalloc(r->count + 1);
    int rc = 0;
    for (size_t u = 0; u < r->linked->unit_count && rc == 0; u++) {
        const struct rewrite_relocatable_unit *unit = &r->linked->units[u];
        if (ld_reading_counters(r, unit))
            memset(is_counter + (unit->counters_vaddr - r->linked->counters_lo) / 8, 1, unit->map->counter_count);
        else
            rc = -1;
    }
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_file(r, files[i], is_counter, table, ctx);
    free(is_counter);
    return rc;
}

int ld_reading_open(struct ld_reading *r, const char *path, const char *const *files, size_t count, ld_table_fn *table,
                    void *ctx)
{
    *r = (struct ld_reading){.path = path, .arena = r->arena};
    if (image_open(path, &r->img) < 0 || rewrite_relocatable_linked_open(path, &r->linked) < 0 || find_link(r) < 0)
        return -1;
    r->count = (r->linked->counters_hi - r->linked->counters_lo) / 8;
    r->counters = xmalloc((r->count + 1) * 8);
    find_names(r);
    return add_files(r, files, count, table, ctx);
}

void ld_reading_close(struct ld_reading *r)
{
    rewrite_relocatable_linked_close(r->linked);
    image_close(r->img);
    map_fini(&r->name_at);
    free(r->counters);
}

/* ---- questions ---- */

const char *ld_reading_name(const struct ld_reading *r, uint64_t address)
{
    uint64_t i;
    bool is_known = map_get(&r->name_at, address, &i) && i;
    return arena_strdup(r->arena, is_known ? r->img->symbols[i - 1].name : "");
}

const uint64_t *ld_reading_counters(const struct ld_reading *r, const struct rewrite_relocatable_unit *u)
{
    uint64_t first = (u->counters_vaddr - r->linked->counters_lo) / 8;
    if (u->counters_vaddr < r->linked->counters_lo || first > r->count || u->map->counter_count > r->count - first) {
        diag_error("%s: the map of %s is corrupt; link it again", r->path, u->name);
        return NULL;
    }
    return r->counters + first;
}

static uint64_t in_linked(const struct rewrite_relocatable_unit *u, uint32_t func, uint64_t address_new)
{
    const struct rewrite_relocatable_func *f = &u->funcs[func];
    return f->vaddr + f->first_block + address_new - u->map->block_addr_new[u->map->cfg->funcs.data[func].block_first];
}

uint64_t ld_reading_block(const struct rewrite_relocatable_unit *u, uint32_t block)
{
    return in_linked(u, u->map->cfg->blocks.data[block].func, u->map->block_addr_new[block]);
}

uint64_t ld_reading_block_end(const struct rewrite_relocatable_unit *u, uint32_t block)
{
    uint32_t f = u->map->cfg->blocks.data[block].func;
    const struct cfg_func *fn = &u->map->cfg->funcs.data[f];
    const uint64_t *at = u->map->block_addr_new;
    if (block + 1 < fn->block_first + fn->block_count && at[block + 1] > at[block])
        return in_linked(u, f, at[block + 1]);
    return u->funcs[f].vaddr + u->funcs[f].bytes;
}
