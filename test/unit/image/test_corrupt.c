/* SPDX-License-Identifier: Apache-2.0
 *
 * The fixture cut off at every length and with every byte changed: whatever comes of it, no look-up, table or new table
 * may touch a byte outside (the copies end where the heap's do, so that the sanitizer sees it), and it must end. */
#include "help.h"

#include <stdlib.h>

static const char *fixture_path;
static size_t refused, taken;

static void count_pad(void *ctx, uint64_t pad)
{
    (void)pad;
    ++*(size_t *)ctx;
}

static uint64_t map_far(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad)
{
    (void)fde;
    (void)is_landing_pad;
    return addr_old + *(const uint64_t *)ctx;
}

static void emit_what_can_move(const struct image *img, const struct image_unwind *u)
{
    struct image_moved_func *moved = calloc(u->fde_count + 1, sizeof *moved);
    size_t n = 0, bad = 0, pads = 0;
    uint64_t shift = 64u << 20, at[3];
    for (uint32_t i = 0; i < u->fde_count; i++) {
        const struct image_fde *f = &u->fdes[i];
        image_unwind_landing_pads(img, u, i, count_pad, &pads);
        image_unwind_cfa_rsp_offset(img, u, f, f->addr + f->len_bytes - 1);
        if (image_unwind_can_move(img, u, i))
            moved[n++] = (struct image_moved_func){.fde = i, .addr_new = f->addr + shift, .len_new = f->len_bytes};
    }
    struct image_unwind_out out;
    if (image_unwind_emit(img, u, moved, n, map_far, &shift, img->vaddr_hi + 2 * shift, &out, &at[0], &at[1], &at[2],
                          &bad, NULL) < 0)
        assert_true(bad < n || bad == SIZE_MAX);
    str_free(&out.lsda);
    str_free(&out.frame);
    str_free(&out.hdr);
    free(moved);
}

static void use(const struct image *img)
{
    struct image_unwind u;
    for (size_t i = 0; i < img->symbol_count; i++) {
        image_symbol_name(img, img->symbols[i].addr, NULL);
        image_is_readonly_data(img, img->symbols[i].addr);
        image_section_of(img, img->symbols[i].addr);
    }
    for (size_t i = 0; i < img->reloc_count; i++)
        assert_non_null(image_reloc_at(img, img->relocs[i].addr));
    if (image_unwind_read(img, &u) == 0)
        emit_what_can_move(img, &u);
}

static void try_bytes(const uint8_t *bytes, size_t len)
{
    struct image *img = NULL;
    if (image_open_bytes("broken", bytes, len, &img) < 0) {
        refused++;
        return;
    }
    taken++;
    use(img);
    image_close(img);
}

static void test_cut_off(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    catch_begin();
    for (size_t len = 0; len < img->len_bytes; len += len < 1024 ? 1 : 29) {
        uint8_t *bytes = malloc(len ? len : 1);
        memcpy(bytes, img->bytes, len);
        try_bytes(bytes, len);
        free(bytes);
    }
    catch_end();
    assert_int_equal(taken, 0); /* the section headers are last */
    assert_true(refused > 0);
    image_close(img);
}

static void change_each_byte(const uint8_t *good, size_t len, unsigned step)
{
    uint8_t *bytes = malloc(len);
    uint32_t random = 12345;
    memcpy(bytes, good, len);
    for (size_t i = 0; i < len; i += step) {
        random = random * 1664525 + 1013904223;
        const uint8_t values[] = {(uint8_t)~good[i], (uint8_t)(random >> 24)};
        for (size_t k = 0; k < ARRAY_LEN(values); k++) {
            bytes[i] = values[k];
            try_bytes(bytes, len);
        }
        bytes[i] = good[i];
    }
    free(bytes);
}

static void test_each_byte_changed(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    refused = taken = 0;
    catch_begin();
    change_each_byte(img->bytes, img->len_bytes, 1);
    catch_end();
    assert_true(refused > 0);
    assert_true(taken > 0);
    image_close(img);
}

/* Without sections the loader's tables are all there is. */
static void test_each_byte_changed_without_sections(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    uint8_t *bytes = malloc(img->len_bytes);
    memcpy(bytes, img->bytes, img->len_bytes);
    memset(bytes + 40, 0, 8); /* e_shoff */
    memset(bytes + 60, 0, 4); /* e_shnum, e_shstrndx */
    catch_begin();
    change_each_byte(bytes, img->len_bytes, 3);
    catch_end();
    free(bytes);
    image_close(img);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    fixture_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_each_byte_changed),
        cmocka_unit_test(test_each_byte_changed_without_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
