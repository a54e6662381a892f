/* SPDX-License-Identifier: Apache-2.0
 * What a file brings with it, by its symbols, and without them. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data/data.h"

static const char *named, *bare, *plain;

static uint64_t address_of(const struct image *img, const char *name)
{
    for (size_t i = 0; i < img->symbol_count; i++)
        if (strcmp(img->symbols[i].name, name) == 0)
            return img->symbols[i].addr;
    fail_msg("no symbol %s", name);
    return 0;
}

static struct data *with(const char *path, uint32_t *module)
{
    struct data *d = data_new();
    assert_int_equal(data_module(d, path, 0, module), 0);
    return d;
}

static void expect(struct data *d, uint64_t address, enum data_kind kind, const char *name)
{
    uint32_t o = data_object_at(d, address);
    assert_string_equal(data_object_name(d, o), name);
    assert_int_equal(data_object(d, o)->kind, kind);
}

static void symbols_are_variables(void **state)
{
    (void)state;
    uint32_t m;
    struct data *d = with(named, &m);
    const struct image *img = data_module_image(d, m);
    uint64_t ward = address_of(img, "ward");
    expect(d, ward, DATA_GLOBAL, "ward");
    expect(d, ward + 639, DATA_GLOBAL, "ward");
    assert_int_equal(data_object(d, data_object_at(d, ward))->bytes, 640);
    expect(d, address_of(img, "factors") + 8, DATA_GLOBAL, "factors");
    expect(d, address_of(img, "small_one"), DATA_GLOBAL, "small_one"); /* in the same 16 bytes */
    expect(d, address_of(img, "small_two"), DATA_GLOBAL, "small_two");
    expect(d, address_of(img, "small_three"), DATA_GLOBAL, "small_three");
    data_free(d);
}

static void sections_hold_the_rest(void **state)
{
    (void)state;
    uint32_t m;
    struct data *d = with(named, &m);
    const struct image *img = data_module_image(d, m);
    expect(d, address_of(img, "main"), DATA_CODE, "named .text");
    expect(d, image_section_named(img, ".rodata")->addr + 4, DATA_GLOBAL, "named .rodata");
    assert_string_equal(file_base_name(data_object_name(d, data_object_at(d, img->vaddr_lo))),
                        "named"); /* the header */
    assert_int_equal(data_object_at(d, ALIGN_UP(img->vaddr_hi, 4096)), 0);
    data_free(d);
}

static void stripped_files_have_sections(void **state)
{
    (void)state;
    uint32_t m, n;
    struct data *d = with(named, &m), *stripped = with(bare, &n);
    uint64_t ward = address_of(data_module_image(d, m), "ward");
    expect(stripped, ward, DATA_GLOBAL, "bare .bss");
    data_free(d);
    data_free(stripped);
}

static void threads_have_their_own(void **state)
{
    (void)state;
    uint32_t m;
    struct data *d = with(named, &m);
    uint64_t total = address_of(data_module_image(d, m), "total");
    data_thread_block(d, m, 0x7f0000000000);
    data_thread_block(d, m, 0x7f0000100000);
    expect(d, 0x7f0000000000 + total, DATA_THREAD, "total");
    assert_int_equal(data_object_at(d, 0x7f0000000000 + total), data_object_at(d, 0x7f0000100000 + total + 31));
    assert_int_equal(data_object(d, data_object_at(d, 0x7f0000000000 + total))->live_blocks, 2);
    data_free(d);
}

/* Those of a library that is opened later: the block is there as long as what it lies in. */
static void thread_locals_lie_in_blocks(void **state)
{
    (void)state;
    uint32_t m;
    struct data *d = with(named, &m);
    uint64_t total = address_of(data_module_image(d, m), "total"), align, at = 0x7f0000000000;
    uint64_t bytes = data_thread_bytes(data_module_image(d, m), &align);
    assert_true(bytes >= total + 32 && align && at % align == 0);
    data_allocate(d, DATA_LAYER_HEAP, at, bytes + 8, NULL, 0);
    data_thread_block(d, m, at);
    expect(d, at + total, DATA_THREAD, "total");
    expect(d, at + bytes, DATA_HEAP, "allocated by unknown code");
    assert_int_equal(data_lost(d)->overlaps, 0);
    data_release(d, DATA_LAYER_HEAP, at);
    assert_int_equal(data_object_at(d, at + total), 0);
    assert_int_equal(data_lost(d)->frees, 0);
    data_allocate(d, DATA_LAYER_HEAP, at, bytes, NULL, 0); /* again, for another one */
    expect(d, at + total, DATA_HEAP, "allocated by unknown code");
    data_free(d);
}

/* As elf/dl-tls.c of glibc does; the second leaves a hole that the third fits into. */
static void thread_locals_lie_below_the_base(void **state)
{
    (void)state;
    static const struct {
        uint64_t vaddr, bytes, align, offset;
    } files[] = {{0x3000, 100, 8, 104}, {0x5000, 300, 256, 512}, {0x7010, 0x60, 8, 200},     {0x9018, 40, 32, 552},
                 {0, 0, 8, 0},          {0x1000, 16, 3, 0},      {0x1000, 1ull << 50, 8, 0}, {0x2000, 8, 1, 208}};
    struct data_thread_layout l = {0};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct image_segment tls = {
            .type = PT_TLS, .vaddr = files[i].vaddr, .memsz = files[i].bytes, .align = files[i].align};
        struct image img = {.segments = &tls, .segment_count = 1};
        assert_int_equal(data_thread_offset(&l, &img), files[i].offset);
    }
    assert_int_equal(data_thread_offset(&l, &(struct image){.segment_count = 0}), 0);
}

static void files_that_cannot_be_read_are_refused(void **state)
{
    (void)state;
    uint32_t m;
    struct strbuf said = {0};
    struct data *d = data_new();
    diag_hold(&said);
    assert_int_equal(data_module(d, "/no/such/file", 0, &m), -1);
    diag_hold(NULL);
    assert_non_null(strstr(said.data, "/no/such/file"));
    str_free(&said);
    data_free(d);
}

/* The call in `build` is that of xmalloc, which is inlined there; the line is that of the call. */
static void places_have_lines(void **state)
{
    (void)state;
    uint32_t m;
    struct data *d = with(named, &m);
    uint64_t build = address_of(data_module_image(d, m), "build"), path[] = {0, build};
    const uint8_t *code = image_at(data_module_image(d, m), build, 64);
    for (int i = 0; i < 60 && !path[0]; i++)
        if (code[i] == 0xe8)
            path[0] = build + i + 5;
    data_allocate(d, DATA_LAYER_HEAP, 0x7f0000000000, 8, path, 1);
    assert_string_equal(data_object_name(d, data_object_at(d, 0x7f0000000000)), "named.c:35 build");
    data_free(d);
}

static uint32_t object_named(const struct data *d, const char *name)
{
    for (uint32_t i = 0; i < data_object_count(d); i++)
        if (data_object(d, i)->name && strcmp(data_object(d, i)->name, name) == 0)
            return i;
    fail_msg("no object %s", name);
    return 0;
}

static void expect_field(struct data *d, const char *object, uint64_t offset, const char *name)
{
    size_t part;
    const char *got = data_field(d, object_named(d, object), offset, &part);
    if (!name)
        assert_null(got);
    else
        assert_string_equal(got, name);
}

static void variables_have_fields(void **state)
{
    (void)state;
    uint32_t m;
    struct data *d = with(named, &m);
    const struct data_fields *ward = data_fields(d, object_named(d, "ward"));
    assert_string_equal(ward->type, "struct patient[40]");
    assert_int_equal(ward->element_bytes, 16);
    assert_int_equal(ward->count, 3);
    assert_int_equal(ward->fields[1].offset, 4);
    assert_int_equal(ward->fields[1].bytes, 4);
    expect_field(d, "ward", 16 * 7 + 5, "time_left");
    expect_field(d, "ward", 16 * 7 + 8, "next");
    expect_field(d, "place", 8, "at.y");
    expect_field(d, "place", 17, "high");
    expect_field(d, "place", 24, "union");
    expect_field(d, "place", 47, "nearest");
    expect_field(d, "grid", 8, NULL);
    assert_string_equal(data_fields(d, object_named(d, "grid"))->type, "long unsigned int[3][5]");
    assert_int_equal(data_fields(d, object_named(d, "grid"))->element_bytes, 8);
    assert_string_equal(data_fields(d, object_named(d, "factors"))->type, "const double[8]");
    assert_string_equal(data_fields(d, object_named(d, "small_three"))->type, "char");
    assert_string_equal(data_fields(d, object_named(d, "total"))->type, "long int[4]");
    assert_null(data_fields(d, object_named(d, "named .rodata")));
    data_free(d);
}

/* The same variable has fields in the file that has debug information: variables_have_fields. */
static void plain_files_have_no_fields(void **state)
{
    (void)state;
    uint32_t m;
    size_t part;
    struct data *d = with(plain, &m);
    uint32_t ward = object_named(d, "ward");
    assert_null(data_fields(d, ward));
    assert_null(data_field(d, ward, 4, &part));
    data_free(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_variables),
        cmocka_unit_test(sections_hold_the_rest),
        cmocka_unit_test(stripped_files_have_sections),
        cmocka_unit_test(threads_have_their_own),
        cmocka_unit_test(thread_locals_lie_in_blocks),
        cmocka_unit_test(thread_locals_lie_below_the_base),
        cmocka_unit_test(files_that_cannot_be_read_are_refused),
        cmocka_unit_test(places_have_lines),
        cmocka_unit_test(variables_have_fields),
        cmocka_unit_test(plain_files_have_no_fields),
    };
    assert_true(argc > 3);
    named = argv[1];
    bare = argv[2];
    plain = argv[3];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
