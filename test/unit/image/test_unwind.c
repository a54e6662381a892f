/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind.c, cfi.c, lsda.c, unwind_emit.c on libraries that every Debian has. Oracles: the linker's own search table for
 * the set of functions, libdw for every rule of every row, and a plain reader of exception tables written here. */
#include "help.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <unistd.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define LIBSTDCXX "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
#define REGS 17

static const char *fixture_path;

/* ---- reading ---- */

struct search_table { /* datarel sdata4 rows of .eh_frame_hdr */
    uint64_t vaddr;
    uint32_t count;
    const int32_t *rows; /* pairs: function, record */
};

static struct search_table table_of(const struct image *img)
{
    struct search_table t = {0};
    for (size_t i = 0; i < img->segment_count; i++) {
        if (img->segments[i].type != PT_GNU_EH_FRAME)
            continue;
        const uint8_t *p = img->bytes + img->segments[i].offset;
        assert_memory_equal(p, "\x01\x1b\x03\x3b", 4);
        t.vaddr = img->segments[i].vaddr;
        memcpy(&t.count, p + 8, 4);
        t.rows = (const int32_t *)(const void *)(p + 12);
    }
    return t;
}

static void check_against_table(const char *path)
{
    struct image *img = open_ok(path);
    struct image_unwind u;
    unwind_ok(img, &u);
    struct search_table t = table_of(img);
    assert_int_equal(u.fde_count, t.count);
    for (uint32_t i = 0; i < t.count; i++) {
        assert_int_equal(u.fdes[i].addr, t.vaddr + (uint64_t)t.rows[2 * i]);
        assert_int_equal(u.fdes[i].record, t.vaddr + (uint64_t)t.rows[2 * i + 1]);
        assert_int_equal(image_unwind_find(&u, u.fdes[i].addr), i);
    }
    assert_int_equal(image_unwind_find(&u, img->vaddr_hi), ID_NONE);
    image_close(img);
}

static void test_same_as_the_linkers_table(void **state)
{
    (void)state;
    check_against_table(fixture_path);
    check_against_table(LIBC);
    check_against_table(LIBSTDCXX);
}

/* ---- libdw as oracle ---- */

struct oracle {
    Elf *elf;
    Dwarf_CFI *cfi;
    uint8_t *bytes;
};

static struct oracle oracle_open(const struct image *img)
{
    struct oracle o = {.bytes = malloc(img->len_bytes)};
    memcpy(o.bytes, img->bytes, img->len_bytes);
    elf_version(EV_CURRENT);
    o.elf = elf_memory((char *)o.bytes, img->len_bytes);
    assert_non_null(o.elf);
    o.cfi = dwarf_getcfi_elf(o.elf);
    assert_non_null(o.cfi);
    return o;
}

static void oracle_close(struct oracle *o)
{
    dwarf_cfi_end(o->cfi);
    elf_end(o->elf);
    free(o->bytes);
}

/* A row as text: the CFA and each register's rule, as libdw's location operations. */
static void put_rule(struct strbuf *s, const Dwarf_Op *ops, size_t count)
{
    str_printf(s, "[%zu", count);
    for (size_t i = 0; i < count; i++)
        str_printf(s, " %x:%llx:%llx", ops[i].atom, (unsigned long long)ops[i].number,
                   (unsigned long long)ops[i].number2);
    str_puts(s, "]");
}

static void row_text(const struct oracle *o, uint64_t pc, struct strbuf *s)
{
    Dwarf_Frame *frame = NULL;
    s->len = 0;
    assert_int_equal(dwarf_cfi_addrframe(o->cfi, pc, &frame), 0);
    Dwarf_Addr start, end;
    bool is_signal = false;
    int ra = dwarf_frame_info(frame, &start, &end, &is_signal);
    str_printf(s, "ra %d signal %d ", ra, is_signal);
    Dwarf_Op *ops = NULL;
    size_t count = 0;
    assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
    put_rule(s, ops, count);
    for (int reg = 0; reg < REGS; reg++) {
        Dwarf_Op mem[3];
        if (dwarf_frame_register(frame, reg, mem, &ops, &count) == 0)
            put_rule(s, ops, count);
    }
    free(frame);
}

/* The next address after pc at which the row can change. */
static uint64_t row_end(const struct oracle *o, uint64_t pc)
{
    Dwarf_Frame *frame = NULL;
    Dwarf_Addr start = 0, end = 0;
    if (dwarf_cfi_addrframe(o->cfi, pc, &frame) < 0)
        return 0;
    dwarf_frame_info(frame, &start, &end, NULL);
    free(frame);
    return end;
}

static int64_t rsp_offset(const struct oracle *o, uint64_t pc)
{
    Dwarf_Frame *frame = NULL;
    Dwarf_Op *ops = NULL;
    size_t count = 0;
    assert_int_equal(dwarf_cfi_addrframe(o->cfi, pc, &frame), 0);
    assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
    bool is_rsp = count == 1 && ops[0].atom == DW_OP_bregx && ops[0].number == 7;
    int64_t offset = is_rsp ? (int64_t)ops[0].number2 : -1;
    free(frame);
    return offset;
}

static void check_cfa(const char *path, size_t step)
{
    struct image *img = open_ok(path);
    struct image_unwind u;
    unwind_ok(img, &u);
    struct oracle o = oracle_open(img);
    size_t known = 0;
    for (size_t i = 0; i < u.fde_count; i += step) {
        const struct image_fde *f = &u.fdes[i];
        for (uint64_t pc = f->addr; pc && pc < f->addr + f->len_bytes; pc = row_end(&o, pc)) {
            int64_t offset = image_unwind_cfa_rsp_offset(img, &u, f, pc);
            assert_int_equal(offset, rsp_offset(&o, pc));
            known += offset >= 8;
        }
    }
    assert_true(known > 0);
    assert_int_equal(image_unwind_cfa_rsp_offset(img, &u, &u.fdes[0], u.fdes[0].addr + u.fdes[0].len_bytes), -1);
    oracle_close(&o);
    image_close(img);
}

static void test_cfa(void **state)
{
    (void)state;
    check_cfa(fixture_path, 1);
    check_cfa(LIBC, 7);
    check_cfa(LIBSTDCXX, 17);
}

/* ---- exception tables, read as the personality routines read them ---- */

struct plain_lsda {
    struct strbuf text; /* sites with action chains and types, addresses less the shift */
};

static uint64_t plain_uleb(const uint8_t **p)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        v |= (uint64_t)(**p & 0x7f) << shift;
        if (!(*(*p)++ & 0x80))
            return v;
    }
}

static int64_t plain_sleb(const uint8_t **p)
{
    int64_t v = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = *(*p)++;
        v |= (int64_t)((uint64_t)(byte & 0x7f) << shift);
        shift += 7;
    } while (byte & 0x80);
    return byte & 0x40 ? v | (int64_t)(~0ull << shift) : v;
}

static uint64_t plain_ref(const uint8_t *p, uint64_t vaddr)
{
    int32_t d;
    memcpy(&d, p, 4);
    return d ? vaddr + (uint64_t)(int64_t)d : 0;
}

struct plain_reader {
    const uint8_t *start; /* of the table, at vaddr */
    uint64_t vaddr, func;
    const uint8_t *types;
    uint8_t type_enc;
    struct strbuf *out;
};

static void plain_type(const struct plain_reader *r, uint64_t index)
{
    const uint8_t *p = r->types - 4 * index;
    uint64_t vaddr = r->vaddr + (uint64_t)(p - r->start);
    str_printf(r->out, " %d:%llx", r->type_enc >> 7, (unsigned long long)plain_ref(p, vaddr));
}

static void plain_filter(const struct plain_reader *r, int64_t filter)
{
    str_printf(r->out, " f%lld", (long long)filter);
    if (filter > 0)
        plain_type(r, (uint64_t)filter);
    if (filter < 0) {
        const uint8_t *p = r->types - filter - 1;
        for (uint64_t index = plain_uleb(&p); index; index = plain_uleb(&p))
            plain_type(r, index);
    }
}

static void plain_actions(const struct plain_reader *r, const uint8_t *actions, uint64_t action)
{
    while (action) {
        const uint8_t *p = actions + action - 1;
        plain_filter(r, plain_sleb(&p));
        const uint8_t *from = p;
        int64_t next = plain_sleb(&p);
        action = next ? (uint64_t)(from - actions + next) + 1 : 0;
    }
}

static void plain_read(struct plain_reader *r, uint64_t stretch)
{
    const uint8_t *p = r->start;
    uint64_t base = r->func;
    if (*p++ != 0xff) {
        base = plain_ref(p, r->vaddr + 1);
        p += 4;
    }
    r->type_enc = *p++;
    if (r->type_enc != 0xff) {
        uint64_t d = plain_uleb(&p);
        r->types = p + d;
        assert_int_equal(r->type_enc & 0x7f, 0x1b);
    }
    assert_int_equal(*p++, 1);
    uint64_t len = plain_uleb(&p);
    const uint8_t *end = p + len;
    while (p < end) {
        uint64_t start = plain_uleb(&p), n = plain_uleb(&p), pad = plain_uleb(&p), action = plain_uleb(&p);
        assert_true(pad <= INT32_MAX); /* not every personality routine takes a wrapped distance */
        uint64_t addr = pad ? base + pad : 0;
        str_printf(r->out, "%llx+%llx", (unsigned long long)(start * stretch), (unsigned long long)(n * stretch));
        str_printf(r->out, " pad %llx", (unsigned long long)addr);
        plain_actions(r, end, action);
        str_puts(r->out, "\n");
    }
}

/* The old table with addresses as they must be in the new one, where pads are translated by the map. */
static void plain_text(const struct image *img, const struct image_fde *f, uint64_t stretch, struct strbuf *out)
{
    out->len = 0;
    struct plain_reader r = {.start = image_at(img, f->lsda, 8), .vaddr = f->lsda, .func = f->addr, .out = out};
    assert_non_null(r.start);
    plain_read(&r, stretch);
}

/* Replaces the old pads in the text by new ones. */
static void translate_pads(const struct grown *g, const struct strbuf *text, struct strbuf *out)
{
    out->len = 0;
    const char *p = text->data, *pad;
    while ((pad = strstr(p, " pad "))) {
        char *end;
        uint64_t addr = strtoull(pad + 5, &end, 16);
        str_put(out, p, (size_t)(pad - p));
        str_printf(out, " pad %llx", (unsigned long long)(addr ? grown_pad(g, addr) : 0));
        p = end;
    }
    str_puts(out, p);
}

static size_t check_lsdas(const struct grown *g)
{
    struct strbuf old = {0}, want = {0}, got = {0};
    size_t n = 0;
    for (size_t i = 0; i < g->moved_count; i++) {
        const struct image_fde *f = &g->u->fdes[g->moved[i].fde];
        uint32_t k = image_unwind_find(&g->u_new, g->moved[i].addr_new);
        assert_int_not_equal(k, ID_NONE);
        assert_int_equal(f->lsda != 0, g->u_new.fdes[k].lsda != 0);
        if (!f->lsda)
            continue;
        plain_text(g->img, f, g->stretch, &old);
        if (!old.len)
            continue;
        translate_pads(g, &old, &want);
        plain_text(g->img_new, &g->u_new.fdes[k], 1, &got);
        assert_string_equal(got.data, want.data);
        n++;
    }
    str_free(&old);
    str_free(&want);
    str_free(&got);
    return n;
}

/* ---- writing ---- */

static void check_functions(const struct grown *g)
{
    assert_int_equal(g->u_new.fde_count, g->moved_count);
    for (size_t i = 0; i < g->moved_count; i++) {
        const struct image_fde *f = &g->u_new.fdes[i], *f_old = &g->u->fdes[g->moved[i].fde];
        assert_int_equal(f->addr, g->moved[i].addr_new);
        assert_int_equal(f->len_bytes, g->moved[i].len_new);
        const struct image_cie *c = &g->u_new.cies[f->cie], *c_old = &g->u->cies[f_old->cie];
        assert_int_equal(c->personality, c_old->personality);
        assert_int_equal(c->personality_enc == 0xff, c_old->personality_enc == 0xff);
        assert_true(c->personality_enc == 0xff || !((c->personality_enc ^ c_old->personality_enc) & 0x80));
        assert_int_equal(c->return_reg, c_old->return_reg);
    }
}

static void check_new_table(const struct grown *g)
{
    struct search_table t = table_of(g->img_new);
    assert_int_equal(t.vaddr, g->hdr_at);
    assert_int_equal(t.count, g->u->fde_count + g->moved_count);
    for (uint32_t i = 1; i < t.count; i++)
        assert_true(t.rows[2 * i] > t.rows[2 * i - 2]);
    size_t old = 0;
    for (uint32_t i = 0; i < t.count; i++) {
        uint64_t addr = t.vaddr + (uint64_t)t.rows[2 * i], record = t.vaddr + (uint64_t)t.rows[2 * i + 1];
        uint32_t f = image_unwind_find(g->u, addr);
        if (f == ID_NONE)
            continue;
        assert_int_equal(record, g->u->fdes[f].record);
        old++;
    }
    assert_int_equal(old, g->u->fde_count);
}

/* Every `step`-th function: each row of the old code is the row of the new code at the mapped address. */
static void check_rows(const struct grown *g, size_t step)
{
    struct oracle old = oracle_open(g->img), new = oracle_open(g->img_new);
    struct strbuf want = {0}, got = {0};
    for (size_t i = 0; i < g->moved_count; i += step) {
        const struct image_fde *f = &g->u->fdes[g->moved[i].fde];
        for (uint64_t pc = f->addr; pc && pc < f->addr + f->len_bytes; pc = row_end(&old, pc)) {
            row_text(&old, pc, &want);
            row_text(&new, grown_addr(g, pc), &got);
            assert_string_equal(got.data, want.data);
            if (pc > f->addr) {
                row_text(&old, pc - 1, &want);
                row_text(&new, grown_addr(g, pc) - 1, &got);
                assert_string_equal(got.data, want.data);
            }
        }
    }
    str_free(&want);
    str_free(&got);
    oracle_close(&old);
    oracle_close(&new);
}

static size_t check_moved(const char *path, uint64_t stretch, bool some_pads_stay, size_t step)
{
    struct image *img = open_ok(path);
    struct image_unwind u;
    unwind_ok(img, &u);
    struct grown g;
    grown_open(&g, img, &u, stretch, some_pads_stay, false);
    assert_true(g.moved_count + 3 >= u.fde_count); /* PLT and signal return stay */
    check_functions(&g);
    check_new_table(&g);
    size_t lsdas = check_lsdas(&g);
    check_rows(&g, step);
    grown_close(&g);
    image_close(img);
    return lsdas;
}

/* What stands behind a function has the frame of the place that it names, whatever is pushed there. */
static size_t check_behind(const char *path, size_t step)
{
    struct image *img = open_ok(path);
    struct image_unwind u;
    unwind_ok(img, &u);
    struct grown g;
    grown_open(&g, img, &u, 2, false, true);
    struct oracle old = oracle_open(img), new = oracle_open(g.img_new);
    struct strbuf want = {0}, got = {0};
    size_t n = 0;
    for (size_t i = 0; i < g.moved_count; i += step) {
        const struct image_fde *f = &u.fdes[g.moved[i].fde];
        uint32_t k = image_unwind_find(&g.u_new, g.moved[i].addr_new);
        assert_int_not_equal(k, ID_NONE);
        for (uint64_t at = 0; at < f->len_bytes; at += 3, n++) {
            uint64_t addr = f->addr + at, addr_new = g.moved[i].addr_new + f->len_bytes + at;
            int64_t cfa = image_unwind_cfa_rsp_offset(img, &u, f, addr);
            int64_t cfa_new = image_unwind_cfa_rsp_offset(g.img_new, &g.u_new, &g.u_new.fdes[k], addr_new);
            assert_int_equal(cfa_new, cfa < 0 ? cfa : cfa + grown_pushed(at));
            if (cfa >= 0 && grown_pushed(at))
                continue;
            row_text(&old, addr, &want);
            row_text(&new, addr_new, &got);
            assert_string_equal(got.data, want.data);
        }
    }
    str_free(&want);
    str_free(&got);
    oracle_close(&old);
    oracle_close(&new);
    grown_close(&g);
    image_close(img);
    return n;
}

static void test_behind(void **state)
{
    (void)state;
    assert_true(check_behind(fixture_path, 1) > 10);
    assert_true(check_behind(LIBC, 31) > 500);
}

static void test_moved_fixture(void **state)
{
    (void)state;
    assert_int_equal(check_moved(fixture_path, 1, false, 1), 2);
    assert_int_equal(check_moved(fixture_path, 300, true, 1), 2);
}

static void test_moved_libc(void **state)
{
    (void)state;
    assert_true(check_moved(LIBC, 1, false, 9) > 50);
    assert_true(check_moved(LIBC, 3, true, 10) > 50);
}

static void test_moved_libstdcxx(void **state)
{
    (void)state;
    assert_true(check_moved(LIBSTDCXX, 2, false, 17) > 1000);
}

/* Pads before the start of the copy need a base of their own in the table. */
static void test_pads_left_behind(void **state)
{
    (void)state;
    assert_true(check_moved(LIBSTDCXX, 1, true, 50) > 1000);
}

/* ---- what cannot be expressed ---- */

static uint64_t map_to(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad)
{
    (void)fde;
    (void)is_landing_pad;
    return addr_old + *(const uint64_t *)ctx;
}

/* Moved by 16 MiB, with a map that says `shift`: the first function that is described wrongly is named. */
static void expect_bad(const struct image *img, const struct image_unwind *u, uint64_t shift, uint64_t vaddr_first,
                       bool is_of_function)
{
    struct image_moved_func moved[64];
    size_t n = 0, bad = 99;
    for (uint32_t i = 0; i < u->fde_count && n < ARRAY_LEN(moved); i++)
        if (image_unwind_can_move(img, u, i))
            moved[n++] = (struct image_moved_func){
                .fde = i, .addr_new = u->fdes[i].addr + (1u << 24), .len_new = u->fdes[i].len_bytes};
    struct image_unwind_out out;
    uint64_t at[3];
    assert_int_equal(
        image_unwind_emit(img, u, moved, n, map_to, &shift, vaddr_first, &out, &at[0], &at[1], &at[2], &bad, NULL), -1);
    assert_true(bad < n);
    assert_true(!is_of_function || u->fdes[moved[bad].fde].lsda); /* exception tables are written first */
    assert_null(out.lsda.data);
    assert_null(out.frame.data);
    assert_null(out.hdr.data);
}

static void test_bad_map_is_reported(void **state)
{
    (void)state;
    struct image *img = open_ok(fixture_path);
    struct image_unwind u;
    unwind_ok(img, &u);
    expect_bad(img, &u, 0, 1u << 26, true);
    expect_bad(img, &u, (1u << 24) - 4096, 1u << 26, true);
    expect_bad(img, &u, (1u << 24) + 4096, 1u << 26, true);
    expect_bad(img, &u, 1u << 24, 1ull << 32, false);
    image_close(img);
}

/* The row of a PLT stub depends on where in it rip is, so it cannot move; the return from a signal handler must not. */
static void test_what_stays(void **state)
{
    (void)state;
    struct image *img = open_ok(LIBC);
    struct image_unwind u;
    unwind_ok(img, &u);
    size_t signals = 0, others = 0;
    for (uint32_t i = 0; i < u.fde_count; i++) {
        if (image_unwind_can_move(img, &u, i))
            continue;
        signals += u.fdes[i].is_signal_frame;
        const struct image_section *s = image_section_of(img, u.fdes[i].addr);
        others += !u.fdes[i].is_signal_frame && !(s && strncmp(s->name, ".plt", 4) == 0);
    }
    assert_int_equal(signals, 1);
    assert_int_equal(others, 0);
    image_close(img);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    fixture_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_linkers_table),
        cmocka_unit_test(test_cfa),
        cmocka_unit_test(test_moved_fixture),
        cmocka_unit_test(test_moved_libc),
        cmocka_unit_test(test_behind),
        cmocka_unit_test(test_moved_libstdcxx),
        cmocka_unit_test(test_pads_left_behind),
        cmocka_unit_test(test_bad_map_is_reported),
        cmocka_unit_test(test_what_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
