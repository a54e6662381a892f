/* SPDX-License-Identifier: Apache-2.0
 * Who a file is: build id, the key of caches, branch-tracking property, and the run times whose programs must stay as
 * they are because they read their own code (stack maps by return address, data next to code); or of which a part must.
 */
#include <elf.h>

#include "image/impl.h"

/* ---- notes (gABI chapter 5; the property note is aligned to 8) ---- */

void image_walk_notes(struct image *img, const uint8_t *p, uint64_t len, uint64_t align, image_note_fn fn, void *ctx)
{
    while (len >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr h;
        memcpy(&h, p, sizeof h);
        uint64_t desc_at = sizeof h + ALIGN_UP((uint64_t)h.n_namesz, 4u);
        desc_at = ALIGN_UP(desc_at, align);
        uint64_t size = ALIGN_UP(desc_at + h.n_descsz, align);
        if (desc_at + h.n_descsz > len)
            return;
        fn(img, &(struct image_note){h.n_type, (const char *)p + sizeof h, h.n_namesz, p + desc_at, h.n_descsz}, ctx);
        if (size >= len)
            return;
        p += size;
        len -= size;
    }
}

static void take_build_id(struct image *img, const struct image_note *n)
{
    static const char hex[] = "0123456789abcdef";
    size_t len = n->desc_len < 32 ? n->desc_len : 32;
    for (size_t i = 0; i < len; i++) {
        img->build_id[2 * i] = hex[n->desc[i] >> 4];
        img->build_id[2 * i + 1] = hex[n->desc[i] & 15];
    }
    img->build_id[2 * len] = 0;
}

#define PROPERTY_X86_FEATURE_1_AND 0xc0000002u
#define PROPERTY_X86_IBT 1u

static void take_properties(struct image *img, const struct image_note *n)
{
    for (uint32_t at = 0; n->desc_len - at >= 8;) {
        uint32_t type, size;
        memcpy(&type, n->desc + at, 4);
        memcpy(&size, n->desc + at + 4, 4);
        at += 8;
        if (size > n->desc_len - at)
            return;
        uint32_t bits = 0;
        memcpy(&bits, n->desc + at, size < 4 ? size : 4);
        if (type == PROPERTY_X86_FEATURE_1_AND)
            img->has_ibt_property = bits & PROPERTY_X86_IBT;
        uint64_t next = ALIGN_UP((uint64_t)at + size, 8u);
        if (next >= n->desc_len)
            return;
        at = (uint32_t)next;
    }
}

static bool is_note(const struct image_note *n, const char *name, uint32_t type)
{
    return n->type == type && n->name_len == strlen(name) + 1 && memcmp(n->name, name, n->name_len) == 0;
}

static void take_note(struct image *img, const struct image_note *n, void *ctx)
{
    (void)ctx;
    if (is_note(n, "GNU", NT_GNU_BUILD_ID))
        take_build_id(img, n);
    else if (is_note(n, "GNU", NT_GNU_PROPERTY_TYPE_0))
        take_properties(img, n);
    else if (is_note(n, "Go", 4))
        img->foreign_runtime = "Go";
}

void image_read_notes(struct image *img)
{
    for (size_t i = 0; i < img->segment_count; i++) {
        const struct image_segment *s = &img->segments[i];
        if (s->type == PT_NOTE)
            image_walk_notes(img, img->bytes + s->offset, s->filesz, s->align == 8 ? 8 : 4, take_note, NULL);
    }
}

/* ---- foreign run times ---- */

enum mark {
    MARK_SECTION, /* a section of this name */
    MARK_SYMBOL,  /* a symbol defined here whose name begins so */
    MARK_NEEDED,  /* a needed library whose name begins so */
};

static const struct foreign {
    enum mark mark;
    const char *text, *runtime;
} foreigns[] = {
    {MARK_SECTION, ".gopclntab", "Go"},
    {MARK_SECTION, ".data.rel.ro.gopclntab", "Go"},
    {MARK_SECTION, ".go.buildinfo", "Go"},
    {MARK_SECTION, ".note.go.buildid", "Go"},
    {MARK_SYMBOL, "runtime.gopanic", "Go"},
    {MARK_SECTION, ".debug-ghc-link-info", "GHC"},
    {MARK_SYMBOL, "stg_upd_frame_info", "GHC"},
    {MARK_SYMBOL, "ghczmprim_", "GHC"},
    {MARK_SYMBOL, "base_GHC", "GHC"},
    {MARK_NEEDED, "libHS", "GHC"},
    {MARK_SYMBOL, "caml_frametable", "OCaml"},
    {MARK_SYMBOL, "caml_system__frametable", "OCaml"},
    {MARK_SECTION, ".svm_heap", "GraalVM native image"},
    {MARK_SECTION, "__managedcode", ".NET native code"},
    {MARK_SYMBOL, "_kDartIsolateSnapshotInstructions", "Dart"},
    {MARK_SYMBOL, "_kDartVmSnapshotInstructions", "Dart"},
};

static bool begins_with(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

static const char *runtime_of(const char *name, enum mark mark)
{
    for (size_t i = 0; i < ARRAY_LEN(foreigns); i++)
        if (foreigns[i].mark == mark && foreigns[i].text[0] == name[0] &&
            (mark == MARK_SECTION ? strcmp(name, foreigns[i].text) == 0 : begins_with(name, foreigns[i].text)))
            return foreigns[i].runtime;
    return NULL;
}

static const char *runtime_by_name(const struct image *img)
{
    const char *r = NULL;
    for (size_t i = 0; i < img->section_count && !r; i++)
        r = runtime_of(img->sections[i].name, MARK_SECTION);
    for (size_t i = 0; i < img->needed_count && !r; i++)
        r = runtime_of(img->needed[i], MARK_NEEDED);
    for (size_t i = 0; i < img->symbol_count && !r; i++)
        if (img->symbols[i].shndx != SHN_UNDEF)
            r = runtime_of(img->symbols[i].name, MARK_SYMBOL);
    return r;
}

/* Whether TEXT stands in the data as a whole string, a NUL before it and after it. */
static bool has_string(const uint8_t *p, uint64_t len, const char *text, size_t text_len)
{
    const uint8_t *end = p + len, *start = p;
    while ((p = memmem(p, (size_t)(end - p), text, text_len))) {
        if (p > start && p[-1] == 0 && p + text_len < end && p[text_len] == 0)
            return true;
        p++;
    }
    return false;
}

/* A stripped, statically linked GHC program is known by the strings of its run time's option parser. They stand in one
 * word here so that this program is not taken for one. */
static bool has_ghc_strings(const struct image *img)
{
    static const char marks[] = "GHCRTS/+RTS";
    const struct image_section *s = image_section_named(img, ".rodata");
    if (img->kind == IMAGE_DSO || !s || s->type == SHT_NOBITS)
        return false;
    const uint8_t *p = img->bytes + s->offset;
    return has_string(p, s->size, marks, 6) && has_string(p, s->size, marks + 7, 4);
}

/* The Go linker puts its build information near the start of the data, aligned to 16 (debug/buildinfo). */
static bool has_go_build_info(const struct image *img)
{
    static const char magic[] = "\xff Go buildinf:";
    for (size_t i = 0; i < img->index->load_count; i++) {
        const struct load *l = &img->index->loads[i];
        uint64_t len = min_u64(l->hi_file - l->lo, 64u << 10);
        for (uint64_t at = -l->lo & 15; (l->flags & PF_W) && at + sizeof magic <= len; at += 16)
            if (memcmp(img->bytes + l->offset + at, magic, sizeof magic - 1) == 0)
                return true;
    }
    return false;
}

/* A Lisp that wrote its memory out as an executable (GCL): code in writable sections, which it moves, and a heap that
 * must be the last thing in the address space. */
static bool is_memory_dump(const struct image *img)
{
    for (size_t i = 0; i < img->section_count; i++) {
        const struct image_section *s = &img->sections[i];
        if ((s->flags & SHF_WRITE) && (s->flags & SHF_EXECINSTR) && s->type == SHT_PROGBITS &&
            strcmp(s->name, ".data") == 0)
            return true;
    }
    return false;
}

void image_find_foreign_runtime(struct image *img)
{
    if (!img->foreign_runtime && is_memory_dump(img))
        img->foreign_runtime = "saved-memory Lisp";
    if (!img->foreign_runtime)
        img->foreign_runtime = runtime_by_name(img);
    if (!img->foreign_runtime && has_go_build_info(img))
        img->foreign_runtime = "Go";
    if (!img->foreign_runtime && has_ghc_strings(img))
        img->foreign_runtime = "GHC";
}

/* ---- code that must stay in files that are rewritten ---- */

/* V8 has its built-in functions assembled into the file as one piece. It copies the piece beside the code that it
 * generates, or maps it there, and its collector looks up return addresses in it. Its name holds the variant's,
 * "Default" as a rule: v8_Default_embedded_blob_code_, and 4 bytes that say how long it is (src/snapshot/embedded of
 * V8). */
static bool is_v8_symbol(const struct image_symbol *s, const char *end)
{
    size_t len = strlen(s->name), end_len = strlen(end);
    return s->shndx != SHN_UNDEF && begins_with(s->name, "v8_") && len > end_len &&
           strcmp(s->name + len - end_len, end) == 0;
}

static bool find_v8_piece(const struct image *img, uint64_t *lo, uint64_t *hi)
{
    const uint8_t *size = NULL;
    for (size_t i = 0; i < img->symbol_count; i++) {
        const struct image_symbol *s = &img->symbols[i];
        if (is_v8_symbol(s, "_embedded_blob_code_"))
            *lo = s->addr;
        else if (is_v8_symbol(s, "_embedded_blob_code_size_"))
            size = image_at(img, s->addr, 4);
    }
    uint32_t len = 0;
    if (size)
        memcpy(&len, size, 4);
    *hi = *lo + len;
    return *lo && len;
}

/* A stripped file that holds V8 is known by the name of the function that all its interpreted code is entered by. It
 * stands in two pieces here so that this program is not taken for one. */
static bool has_v8_names(const struct image *img)
{
    static const char entry[] = "InterpreterEntry/Trampoline";
    char name[sizeof entry];
    const struct image_section *s = image_section_named(img, ".rodata");
    if (!s || s->type == SHT_NOBITS)
        return false;
    snprintf(name, sizeof name, "%.16s%s", entry, entry + 17);
    return has_string(img->bytes + s->offset, s->size, name, strlen(name));
}

void image_find_staying_code(struct image *img)
{
    uint64_t lo = 0, hi = 0;
    if (find_v8_piece(img, &lo, &hi)) {
        img->stay_lo = lo;
        img->stay_hi = hi;
    } else {
        img->stays_undescribed = has_v8_names(img);
    }
}

/* ---- the key ---- */

void image_make_key(struct image *img, const char *hash)
{
    struct strbuf s = {0};
    str_printf(&s, "%s %s", img->build_id, hash);
    file_hash_hex(s.data, s.len, img->key);
    str_free(&s);
}
