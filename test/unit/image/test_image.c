/* SPDX-License-Identifier: Apache-2.0
 *
 * image.c, dynamic.c, identity.c: this program, the fixture and the C library read and looked up; the same file with
 * its section headers cut off must say the same; one clear line for each file that is refused. */
#include "help.h"

#include <elf.h>
#include <stdlib.h>
#include <unistd.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"

static const char *fixture_path;

static const struct image_symbol *dynamic_symbol(const struct image *img, const char *name)
{
    for (size_t i = 0; i < img->dynsym_count; i++)
        if (strcmp(img->symbols[i].name, name) == 0)
            return &img->symbols[i];
    return NULL;
}

static void test_self(void **state)
{
    (void)state;
    struct image *img = open_ok("/proc/self/exe");
    assert_true(img->kind == IMAGE_PIE || img->kind == IMAGE_EXEC);
    assert_false(img->is_static);
    assert_string_equal(img->interp, "/lib64/ld-linux-x86-64.so.2");
    assert_true(image_is_code(img, img->entry));
    assert_null(img->soname);
    assert_null(img->foreign_runtime);
    assert_int_equal(strlen(img->key), 32);
    bool has_libc = false;
    for (size_t i = 0; i < img->needed_count; i++)
        has_libc |= strcmp(img->needed[i], "libc.so.6") == 0;
    assert_true(has_libc);
    const struct image_section *text = image_section_named(img, ".text");
    assert_non_null(text);
    assert_ptr_equal(image_section_of(img, text->addr), text);
    assert_ptr_equal(image_section_of(img, text->addr + text->size - 1), text);
    assert_non_null(image_at(img, text->addr, text->size));
    assert_null(image_at(img, img->vaddr_hi - 1, 2));
    assert_null(image_at(img, text->addr, SIZE_MAX));
    image_close(img);
}

static void test_names(void **state)
{
    (void)state;
    struct image *img = open_ok("/proc/self/exe");
    uint64_t offset = 99;
    for (size_t i = 0; i < img->symbol_count; i++) {
        const struct image_symbol *s = &img->symbols[i];
        if (s->is_dynamic || strcmp(s->name, "image_symbol_name") != 0)
            continue;
        assert_string_equal(image_symbol_name(img, s->addr, &offset), "image_symbol_name");
        assert_int_equal(offset, 0);
        assert_string_equal(image_symbol_name(img, s->addr + s->size - 1, &offset), "image_symbol_name");
        assert_int_equal(offset, s->size - 1);
    }
    assert_int_not_equal(offset, 99);
    assert_null(image_symbol_name(img, img->vaddr_hi + 1, NULL));
    assert_null(image_symbol_name(img, 0, NULL));
    image_close(img);
}

static void test_sections_decide_what_code_is(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    const struct image_section *rodata = image_section_named(img, ".eh_frame");
    const struct image_section *relro = image_section_named(img, ".data.rel.ro");
    const struct image_section *data = image_section_named(img, ".data");
    assert_non_null(rodata);
    assert_non_null(data);
    assert_false(image_is_code(img, rodata->addr));
    assert_true(image_is_readonly_data(img, rodata->addr));
    assert_false(image_is_readonly_data(img, data->addr));
    if (relro)
        assert_true(image_is_readonly_data(img, relro->addr));
    const struct image_symbol *f = dynamic_symbol(img, "fixture_call");
    assert_non_null(f);
    assert_true(image_is_code(img, f->addr));
    assert_false(image_is_readonly_data(img, f->addr));
    image_close(img);
}

static void test_fixture(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    assert_int_equal(img->kind, IMAGE_DSO);
    assert_string_equal(img->soname, "libfixture.so.1");
    assert_string_equal(img->runpath, "/nowhere/lib");
    assert_int_equal(strlen(img->build_id), 40);
    assert_non_null(dynamic_symbol(img, "fixture_data"));
    image_close(img);
}

/* The table's words: packed relocations, each with the address of a function as its word. */
static void test_packed_relocs(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    const struct image_symbol *table = dynamic_symbol(img, "fixture_table");
    assert_non_null(table);
    for (unsigned i = 0; i < 4; i++) {
        const struct image_reloc *r = image_reloc_at(img, table->addr + 8 * i);
        assert_non_null(r);
        assert_int_equal(r->type, R_X86_64_RELATIVE);
        assert_true(r->is_relr);
        const char *name = image_symbol_name(img, (uint64_t)r->addend, NULL);
        assert_non_null(name);
        assert_string_equal(name, i & 1 ? "local_two" : "local_one");
        assert_memory_equal(img->bytes + r->file_offset, &r->addend, 8);
    }
    assert_null(image_reloc_at(img, table->addr + 4));
    image_close(img);
}

static void test_relocs(void **state)
{
    (void)state;
    struct image *img = open_ok(LIBC);
    assert_int_equal(img->kind, IMAGE_DSO);
    assert_string_equal(img->soname, "libc.so.6");
    assert_true(img->reloc_count > 100);
    size_t named = 0;
    for (size_t i = 0; i < img->reloc_count; i++) {
        const struct image_reloc *r = &img->relocs[i];
        assert_true(i == 0 || img->relocs[i - 1].addr <= r->addr);
        assert_int_equal(r->sym != 0, r->sym_name != NULL);
        named += r->sym != 0;
        if (!r->is_relr)
            assert_memory_equal(img->bytes + r->file_offset + 16, &r->addend, 8);
    }
    assert_true(named > 0);
    image_close(img);
}

static uint8_t *without_sections(const struct image *img)
{
    uint8_t *bytes = malloc(img->len_bytes);
    memcpy(bytes, img->bytes, img->len_bytes);
    Elf64_Ehdr *h = (Elf64_Ehdr *)(void *)bytes;
    h->e_shoff = h->e_shnum = h->e_shstrndx = 0;
    return bytes;
}

static void check_same_without_sections(const char *path)
{
    struct image *img = open_ok(path), *cut = NULL;
    uint8_t *bytes = without_sections(img);
    assert_int_equal(image_open_bytes("cut", bytes, img->len_bytes, &cut), 0);
    assert_int_equal(cut->section_count, 0);
    assert_int_equal(cut->kind, img->kind);
    assert_int_equal(cut->dynsym_count, img->dynsym_count);
    assert_int_equal(cut->reloc_count, img->reloc_count);
    assert_string_equal(cut->build_id, img->build_id);
    assert_string_not_equal(cut->key, img->key);
    struct image_unwind u, u_cut;
    unwind_ok(img, &u);
    unwind_ok(cut, &u_cut);
    assert_int_equal(u_cut.fde_count, u.fde_count);
    for (size_t i = 0; i < u.fde_count; i++)
        assert_int_equal(u_cut.fdes[i].addr, u.fdes[i].addr);
    image_close(cut);
    image_close(img);
    free(bytes);
}

static void test_without_sections(void **state)
{
    (void)state;
    check_same_without_sections(fixture_path);
    check_same_without_sections(LIBC);
}

/* ---- refusals ---- */

static void expect_refusal(const uint8_t *bytes, size_t len, const char *text)
{
    struct image *img = NULL;
    catch_begin();
    int rc = image_open_bytes("some/file", bytes, len, &img);
    const char *said = catch_end();
    assert_int_equal(rc, -1);
    assert_null(img);
    if (!strstr(said, text))
        fail_msg("'%s' is not in '%s'", text, said);
    assert_non_null(strstr(said, "some/file: "));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static const struct edit { /* write `value` as `width` bytes at `at` of the ELF header */
    unsigned at, width;
    uint64_t value;
    const char *text;
} edits[] = {
    {EI_CLASS, 1, ELFCLASS32, "32-bit file (x32)"},
    {EI_CLASS, 1, 7, "class or version"},
    {EI_DATA, 1, ELFDATA2MSB, "big-endian"},
    {EI_OSABI, 1, ELFOSABI_FREEBSD, "another operating system"},
    {EI_MAG1, 1, 'x', "is not an ELF file"},
    {offsetof(Elf64_Ehdr, e_machine), 2, EM_AARCH64, "is for aarch64"},
    {offsetof(Elf64_Ehdr, e_machine), 2, 0xfff0, "is for another processor"},
    {offsetof(Elf64_Ehdr, e_type), 2, ET_REL, "relocatable object (.o); link it"},
    {offsetof(Elf64_Ehdr, e_type), 2, ET_CORE, "core dump"},
    {offsetof(Elf64_Ehdr, e_type), 2, 77, "ELF type 77"},
    {offsetof(Elf64_Ehdr, e_phoff), 8, ~0ull, "program headers lie beyond"},
    {offsetof(Elf64_Ehdr, e_phnum), 2, 0, "no loadable segment"},
    {offsetof(Elf64_Ehdr, e_phnum), 2, 2000, "more than the kernel takes"},
    {offsetof(Elf64_Ehdr, e_phentsize), 2, 12, "program headers of 12 bytes"},
    {offsetof(Elf64_Ehdr, e_shoff), 8, 1ull << 40, "section headers lie beyond"},
    {offsetof(Elf64_Ehdr, e_shentsize), 2, 12, "section headers of 12 bytes"},
    {offsetof(Elf64_Ehdr, e_shstrndx), 2, 999, "table of section names"},
};

static void test_refused_headers(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    uint8_t *bytes = malloc(img->len_bytes);
    for (size_t i = 0; i < ARRAY_LEN(edits); i++) {
        memcpy(bytes, img->bytes, img->len_bytes);
        memcpy(bytes + edits[i].at, &edits[i].value, edits[i].width);
        expect_refusal(bytes, img->len_bytes, edits[i].text);
    }
    memcpy(bytes, img->bytes, img->len_bytes);
    expect_refusal(bytes, 0, "the file is empty");
    expect_refusal(bytes, 3, "is not an ELF file");
    expect_refusal(bytes, 20, "cut off inside the ELF header");
    expect_refusal(bytes, 60, "cut off inside the ELF header");
    expect_refusal(bytes, img->len_bytes / 2, "cut off");
    expect_refusal((const uint8_t *)"#!/bin/sh\n", 10, "is a script");
    free(bytes);
    image_close(img);
}

static void expect_refused_path(const char *path, const char *text)
{
    struct image *img = NULL;
    catch_begin();
    int rc = image_open(path, &img);
    const char *said = catch_end();
    assert_int_equal(rc, -1);
    assert_non_null(strstr(said, text));
}

static void test_refused_paths(void **state)
{
    (void)state;
    expect_refused_path("/nowhere/at/all", "no such file");
    expect_refused_path("/", "is a directory");
    expect_refused_path("/dev/null", "is not a regular file");
}

/* A Go program without sections is known by the mark at the start of its data: the fixture with that mark there. */
static void test_foreign(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path), *go = NULL;
    uint8_t *bytes = without_sections(img);
    for (size_t i = 0; i < img->segment_count; i++)
        if (img->segments[i].type == PT_LOAD && (img->segments[i].flags & PF_W))
            memcpy(bytes + ALIGN_UP(img->segments[i].offset, 16u), "\xff Go buildinf:", 14);
    assert_int_equal(image_open_bytes("go", bytes, img->len_bytes, &go), 0);
    assert_string_equal(go->foreign_runtime, "Go");
    image_close(go);
    image_close(img);
    free(bytes);
}

/* Code in the section of data: the fixture with the flags of .data changed. */
static void test_memory_dump(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path), *dump = NULL;
    uint8_t *bytes = xmalloc(img->len_bytes);
    memcpy(bytes, img->bytes, img->len_bytes);
    uint64_t shoff;
    memcpy(&shoff, bytes + 0x28, 8);
    for (size_t i = 0; i < img->section_count; i++)
        if (strcmp(img->sections[i].name, ".data") == 0)
            bytes[shoff + i * 64 + 8] |= SHF_EXECINSTR;
    assert_int_equal(image_open_bytes("dump", bytes, img->len_bytes, &dump), 0);
    assert_string_equal(dump->foreign_runtime, "saved-memory Lisp");
    image_close(dump);
    image_close(img);
    free(bytes);
}

static void test_dump_is_stable(void **state)
{
    (void)state;
    char *text[2] = {NULL, NULL};
    size_t len[2];
    for (int i = 0; i < 2; i++) {
        struct image *img = open_ok(fixture_path);
        FILE *out = open_memstream(&text[i], &len[i]);
        image_dump(img, out);
        fclose(out);
        image_close(img);
    }
    assert_true(len[0] > 500);
    assert_string_equal(text[0], text[1]);
    assert_non_null(strstr(text[0], "soname libfixture.so.1"));
    free(text[0]);
    free(text[1]);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    fixture_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_sections_decide_what_code_is),
        cmocka_unit_test(test_fixture),
        cmocka_unit_test(test_packed_relocs),
        cmocka_unit_test(test_relocs),
        cmocka_unit_test(test_without_sections),
        cmocka_unit_test(test_refused_headers),
        cmocka_unit_test(test_refused_paths),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_memory_dump),
        cmocka_unit_test(test_dump_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
