/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes image_open_bytes: whatever the bytes are, one line that tells the place, or an image whose every look-up keeps
 * within them. */
#include "fuzz.h"

#include "image/image.h"

static void look_up(const struct image *img, uint64_t addr)
{
    uint64_t offset = 0;
    const char *name = image_symbol_name(img, addr, &offset);
    const struct image_section *s = image_section_of(img, addr);
    FUZZ_CHECK(!name || name[0]);
    FUZZ_CHECK(!s || addr - s->addr < s->size);
    FUZZ_CHECK(!(image_is_code(img, addr) && image_is_readonly_data(img, addr)));
    FUZZ_CHECK(!image_is_code(img, addr) || image_at(img, addr, 1));
    const uint8_t *p = image_at(img, addr, 16);
    FUZZ_CHECK(!p || (p >= img->bytes && p + 16 <= img->bytes + img->len_bytes));
}

static void check_names(const struct image *img)
{
    const char *const names[] = {img->interp, img->soname, img->rpath, img->runpath};
    size_t sum = strlen(img->build_id);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        sum += names[i] ? strlen(names[i]) : 0;
    for (size_t i = 0; i < img->needed_count; i++)
        sum += strlen(img->needed[i]);
    FUZZ_CHECK(strlen(img->key) == 32 && sum < SIZE_MAX);
}

static void check_image(const struct image *img)
{
    FUZZ_CHECK(img->kind < IMAGE_KIND_COUNT && img->vaddr_lo < img->vaddr_hi && img->dynsym_count <= img->symbol_count);
    check_names(img);
    look_up(img, img->entry);
    look_up(img, img->vaddr_hi);
    for (size_t i = 0; i < img->segment_count; i++) {
        look_up(img, img->segments[i].vaddr);
        look_up(img, img->segments[i].vaddr + img->segments[i].filesz - 1);
    }
    for (size_t i = 0; i < img->section_count; i++) {
        FUZZ_CHECK(!img->sections[i].type || image_section_named(img, img->sections[i].name));
        look_up(img, img->sections[i].addr);
        look_up(img, img->sections[i].addr + img->sections[i].size);
    }
    for (size_t i = 0; i < img->symbol_count; i++)
        look_up(img, img->symbols[i].addr);
    for (size_t i = 0; i < img->reloc_count; i++) {
        const struct image_reloc *r = &img->relocs[i];
        FUZZ_CHECK(i == 0 || r[-1].addr <= r->addr);
        FUZZ_CHECK(image_reloc_at(img, r->addr) && r->sym < (img->dynsym_count ? img->dynsym_count : 1));
        FUZZ_CHECK(r->file_offset <= img->len_bytes && img->len_bytes - r->file_offset >= (r->is_relr ? 8 : 24));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct image *img;
    fuzz_begin();
    int rc = image_open_bytes("input", bytes, len, &img);
    fuzz_check_said(rc, "input");
    if (rc < 0) {
        fuzz_check_tells_place();
        return 0;
    }
    check_image(img);
    image_dump(img, fuzz_nowhere());
    image_close(img);
    return 0;
}
