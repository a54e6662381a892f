/* SPDX-License-Identifier: Apache-2.0
 *
 * The notes that include/mtool.h puts beside the code, to markers in the order of addresses. They are not loaded, so
 * they are found by their section. What is no such note is passed over; whether a marker stands at an instruction is
 * not asked here. */
#include <elf.h>
#include <stdlib.h>

#include "image/impl.h"

enum { NOTE_BEGIN = 1, NOTE_END, NOTE_NAMING, NAME_BYTES = 256 };

struct markers {
    VEC(struct image_marker) v;
    VEC(struct image_naming) namings;
};

/* Nothing that ends a line; with the least character '!' it is as an identifier of C or C++: no blanks. */
static bool is_name(const char *s, char least)
{
    size_t len = 0;
    while ((unsigned char)s[len] >= (unsigned char)least && s[len] != 0x7f)
        len++;
    return len && !s[len] && len < NAME_BYTES;
}

static void take_marker(struct image *img, const struct image_note *n, void *ctx)
{
    struct markers *to = ctx;
    uint64_t addr;
    bool is_one = n->type >= NOTE_BEGIN && n->type <= NOTE_NAMING && n->name_len == sizeof "mtool" &&
                  !memcmp(n->name, "mtool", n->name_len);
    if (!is_one || n->desc_len < sizeof addr + 2 || n->desc[n->desc_len - 1])
        return;
    memcpy(&addr, n->desc, sizeof addr);
    const char *name = arena_strdup(img->arena, (const char *)n->desc + sizeof addr);
    if (!is_name(name, n->type == NOTE_NAMING ? ' ' : '!') || !image_is_code(img, addr))
        return; /* of code that the linker dropped */
    if (n->type == NOTE_NAMING)
        VEC_PUSH(&to->namings, ((struct image_naming){addr, name}));
    else
        VEC_PUSH(&to->v, ((struct image_marker){addr, name, n->type == NOTE_END}));
}

static int by_addr(const void *a, const void *b)
{
    const struct image_marker *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return x->is_end != y->is_end ? x->is_end - y->is_end : strcmp(x->name, y->name);
}

static int by_naming(const void *a, const void *b)
{
    const struct image_naming *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void keep_markers(struct image *img, const struct markers *all)
{
    img->marker_count = all->v.len;
    img->markers = ARENA_ARRAY(img->arena, struct image_marker, all->v.len);
    memcpy(img->markers, all->v.data, all->v.len * sizeof *all->v.data);
    qsort(img->markers, img->marker_count, sizeof *img->markers, by_addr);
}

static void keep_namings(struct image *img, const struct markers *all)
{
    img->naming_count = all->namings.len;
    img->namings = ARENA_ARRAY(img->arena, struct image_naming, all->namings.len);
    memcpy(img->namings, all->namings.data, all->namings.len * sizeof *all->namings.data);
    qsort(img->namings, img->naming_count, sizeof *img->namings, by_naming);
}

void image_read_markers(struct image *img)
{
    struct markers all = {0};
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *s = &img->sections[i];
        if (s->type == SHT_NOTE && strcmp(s->name, ".note.mtool") == 0)
            image_walk_notes(img, img->bytes + s->offset, s->size, 4, take_marker, &all);
    }
    if (all.v.len)
        keep_markers(img, &all);
    if (all.namings.len)
        keep_namings(img, &all);
    VEC_FREE(&all.v);
    VEC_FREE(&all.namings);
}
