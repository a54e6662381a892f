/* SPDX-License-Identifier: Apache-2.0
 * What a link took over as it was, kept in the linked file, in a section of its own that is not loaded: lines of text,
 * as the link says them. */
#include <elf.h>
#include <stdlib.h>

#include "image/image.h"
#include "ld/impl.h"

void ld_object_fill(struct strbuf *object, const char *section, const struct strbuf *with)
{
    Elf64_Ehdr h;
    memcpy(&h, object->data, sizeof h);
    Elf64_Shdr *sections = xmalloc(h.e_shnum * sizeof *sections);
    memcpy(sections, object->data + h.e_shoff, h.e_shnum * sizeof *sections);
    for (unsigned i = 1; i < h.e_shnum; i++) {
        const char *name = object->data + sections[h.e_shstrndx].sh_offset + sections[i].sh_name;
        if (strcmp(name, section) != 0)
            continue;
        sections[i].sh_offset = object->len;
        sections[i].sh_size = with->len;
    }
    memcpy(object->data + h.e_shoff, sections, h.e_shnum * sizeof *sections);
    free(sections);
    str_put(object, with->data, with->len);
}

struct image *ld_open_quietly(const char *path)
{
    struct image *img = NULL;
    struct strbuf why = {0};
    diag_hold(&why);
    bool is = image_open_copy(path, &img) == 0;
    diag_hold(NULL);
    str_free(&why);
    return is ? img : NULL;
}

const struct image_section *ld_section_of(const struct image *img, const char *name)
{
    const struct image_section *s = image_section_named(img, name);
    bool is_whole = s && s->type != SHT_NOBITS && s->offset <= img->len_bytes && s->size <= img->len_bytes - s->offset;
    return is_whole ? s : NULL;
}

size_t ld_whole_read(const char *path, struct arena *a, const char ***lines)
{
    struct image *img = ld_open_quietly(path);
    *lines = NULL;
    if (!img)
        return 0;
    const struct image_section *s = ld_section_of(img, LD_WHOLE_SECTION);
    size_t count = 0;
    if (s) {
        char *text = arena_strndup(a, (const char *)img->bytes + s->offset, s->size), *save = NULL;
        for (const char *p = text; *p; p++)
            count += *p == '\n';
        *lines = ARENA_ARRAY(a, const char *, count + 2);
        count = 0;
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            (*lines)[count++] = str_printable(a, line);
    }
    image_close(img);
    return count;
}
