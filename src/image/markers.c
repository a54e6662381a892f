/* SPDX-License-Identifier: Apache-2.0
 *
 * The notes that include/mtool.h puts beside the code, to markers in the order of addresses. They are not loaded, so
 * they are found by their section. What is no such note is passed over; whether a marker stands at an instruction is
 * not asked here. */
#include <elf.h>
#include <stdlib.h>

#include "image/impl.h"

enum { NOTE_BEGIN = 1, NOTE_END = 2, NAME_BYTES = 256 };

struct markers {
    VEC(struct image_marker) v;
};

/* As an identifier of C or C++: no blanks, nothing that ends a line. */
static bool is_name(const char *s)
{
    size_t len = 0;
    while ((unsigned char)s[len] > ' ' && s[len] != 0x7f)
        len++;
    return len && !s[len] && len < NAME_BYTES;
}

static void take_marker(struct image *img, const struct image_note *n, void *ctx)
{
    struct markers *to = ctx;
    struct image_marker m = {.is_end = n->type == NOTE_END};
    bool is_one = (n->type == NOTE_BEGIN || n->type == NOTE_END) && n->name_len == sizeof "mtool" &&
                  !memcmp(n->name, "mtool", n->name_len);
    if (!is_one || n->desc_len < sizeof m.addr + 2 || n->desc[n->desc_len - 1])
        return;
    memcpy(&m.addr, n->desc, sizeof m.addr);
    m.name = arena_strdup(img->arena, (const char *)n->desc + sizeof m.addr);
    if (is_name(m.name) && image_is_code(img, m.addr)) /* else of code that the linker dropped */
        VEC_PUSH(&to->v, m);
}

static int by_addr(const void *a, const void *b)
{
    const struct image_marker *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return x->is_end != y->is_end ? x->is_end - y->is_end : strcmp(x->name, y->name);
}

void image_read_markers(struct image *img)
{
    struct markers all = {0};
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *s = &img->sections[i];
        if (s->type == SHT_NOTE && strcmp(s->name, ".note.mtool") == 0)
            image_walk_notes(img, img->bytes + s->offset, s->size, 4, take_marker, &all);
    }
    if (!all.v.len)
        return;
    qsort(all.v.data, all.v.len, sizeof *all.v.data, by_addr);
    img->markers = ARENA_ARRAY(img->arena, struct image_marker, all.v.len);
    memcpy(img->markers, all.v.data, all.v.len * sizeof *all.v.data);
    img->marker_count = all.v.len;
    VEC_FREE(&all.v);
}
