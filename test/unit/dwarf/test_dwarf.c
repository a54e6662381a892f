/* SPDX-License-Identifier: Apache-2.0
 * Debug sections moved by a rule that any place follows: what libdw then reads of an object is what it read before,
 * each address by the rule. Arguments: objects of compilers. */
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "dwarf/dwarf.h"

enum { STRETCH = 5, GAP = 2, ROW = 1 }; /* what begins at x goes to 5 x, its row 1 behind, what ends there 2 before */

static char **object_paths;
static int object_count;

/* ---- an object, moved ---- */

struct object {
    Elf *elf;
    Elf_Data *symbols;
    size_t symbol_strings;
    bool *is_code; /* by section */
    size_t section_count;
    struct dwarf_section sections[64];
    Elf_Scn *scn[64], *rela[64];
    size_t count;
    VEC(void *) owned; /* bytes that libelf borrows */
};

static uint64_t rule_at(void *ctx, uint32_t section, uint64_t offset)
{
    const struct object *o = ctx;
    return section < o->section_count && o->is_code[section] ? offset * STRETCH : offset;
}

static uint64_t rule_row(void *ctx, uint32_t section, uint64_t offset)
{
    const struct object *o = ctx;
    return rule_at(ctx, section, offset) + (section < o->section_count && o->is_code[section] ? ROW : 0);
}

static uint64_t rule_end(void *ctx, uint32_t section, uint64_t offset)
{
    const struct object *o = ctx;
    bool is_moved = section < o->section_count && o->is_code[section] && offset;
    return is_moved ? offset * STRETCH - GAP : offset;
}

static struct dwarf_symbol symbol_of(void *ctx, uint32_t symbol)
{
    const struct object *o = ctx;
    GElf_Sym s;
    assert_non_null(gelf_getsym(o->symbols, (int)symbol, &s));
    bool is_here = s.st_shndx != SHN_UNDEF && s.st_shndx < SHN_LORESERVE;
    return (struct dwarf_symbol){is_here ? s.st_shndx : 0, s.st_value, rule_at(ctx, s.st_shndx, s.st_value),
                                 GELF_ST_TYPE(s.st_info) == STT_SECTION};
}

static void add_section(struct object *o, Elf_Scn *scn, const char *name)
{
    struct dwarf_section *s = &o->sections[o->count];
    const Elf_Data *d = elf_getdata(scn, NULL);
    *s = (struct dwarf_section){.index = (uint32_t)elf_ndxscn(scn), .name = name};
    str_put(&s->bytes, d->d_buf, d->d_size);
    o->scn[o->count] = scn;
    o->rela[o->count++] = NULL;
}

static void add_relocs(struct object *o, Elf_Scn *scn, uint32_t of)
{
    Elf_Data *d = elf_getdata(scn, NULL);
    for (size_t i = 0; i < o->count; i++) {
        if (o->sections[i].index != of)
            continue;
        o->rela[i] = scn;
        GElf_Rela r;
        for (int k = 0; gelf_getrela(d, k, &r); k++)
            VEC_PUSH(&o->sections[i].relocs,
                     ((struct dwarf_reloc){r.r_offset, r.r_addend, (uint32_t)GELF_R_SYM(r.r_info),
                                           (uint32_t)GELF_R_TYPE(r.r_info)}));
    }
}

static void read_object(struct object *o, int fd)
{
    size_t names;
    *o = (struct object){.elf = elf_begin(fd, ELF_C_RDWR, NULL)};
    assert_non_null(o->elf);
    assert_int_equal(elf_getshdrnum(o->elf, &o->section_count), 0);
    assert_int_equal(elf_getshdrstrndx(o->elf, &names), 0);
    o->is_code = xmalloc(o->section_count * sizeof *o->is_code);
    GElf_Shdr h;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(o->elf, s));) {
        const char *name = elf_strptr(o->elf, names, gelf_getshdr(s, &h)->sh_name);
        o->is_code[elf_ndxscn(s)] = h.sh_flags & SHF_EXECINSTR;
        if (h.sh_type == SHT_SYMTAB)
            o->symbols = elf_getdata(s, NULL);
        if (h.sh_type == SHT_PROGBITS && dwarf_is_debug(name))
            add_section(o, s, name);
    }
    for (Elf_Scn *s = NULL; (s = elf_nextscn(o->elf, s));)
        if (gelf_getshdr(s, &h)->sh_type == SHT_RELA)
            add_relocs(o, s, h.sh_info);
}

/* bytes NULL: zeros */
static void set_data(struct object *o, Elf_Scn *scn, const void *bytes, size_t len)
{
    Elf_Data *d = elf_getdata(scn, NULL);
    void *copy = xmalloc(len + 1);
    if (bytes)
        memcpy(copy, bytes, len);
    VEC_PUSH(&o->owned, copy);
    d->d_buf = copy;
    d->d_size = len;
    elf_flagdata(d, ELF_C_SET, ELF_F_DIRTY);
}

static void put_sections(struct object *o)
{
    for (Elf_Scn *s = NULL; (s = elf_nextscn(o->elf, s));) {
        Elf_Data *d = elf_getdata(s, NULL);
        if (o->is_code[elf_ndxscn(s)] && d->d_size)
            set_data(o, s, NULL, d->d_size * STRETCH);
    }
    GElf_Sym s;
    for (int i = 1; gelf_getsym(o->symbols, i, &s); i++) {
        s.st_value = rule_at(o, s.st_shndx, s.st_value);
        gelf_update_sym(o->symbols, i, &s);
    }
    for (size_t i = 0; i < o->count; i++) {
        const struct dwarf_section *d = &o->sections[i];
        set_data(o, o->scn[i], d->bytes.data, d->bytes.len);
        Elf64_Rela *all = xmalloc((d->relocs.len + 1) * sizeof *all);
        for (size_t k = 0; k < d->relocs.len; k++) {
            const struct dwarf_reloc *r = &d->relocs.data[k];
            all[k] = (Elf64_Rela){r->offset, ELF64_R_INFO(r->symbol, (uint64_t)r->type), r->addend};
        }
        if (o->rela[i])
            set_data(o, o->rela[i], all, d->relocs.len * sizeof *all);
        free(all);
    }
}

/* Far from each other: else the end of one section would be the begin of the next. */
static void spread(struct object *o)
{
    GElf_Shdr h;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(o->elf, s));)
        if (gelf_getshdr(s, &h)->sh_flags & SHF_ALLOC) {
            h.sh_addralign = elf_getdata(s, NULL)->d_align = 4096;
            gelf_update_shdr(s, &h);
        }
}

/* As the fixtures are named: its entries are in another file. */
static bool is_split_object(const char *path) { return strstr(path, "-split") != NULL; }

static void copy_object(const char *from, const char *to, bool is_moved)
{
    struct file_bytes bytes;
    assert_int_equal(file_map(from, &bytes), 0);
    assert_int_equal(file_write_whole(to, bytes.data, bytes.len, 0600), 0);
    file_unmap(&bytes);
    int fd = open(to, O_RDWR);
    struct object o;
    read_object(&o, fd);
    struct dwarf_moves moves = {&o, symbol_of, rule_at, rule_row, rule_end, NULL};
    bool is_split = false;
    const char *why = is_moved ? dwarf_move(o.sections, o.count, &moves, &is_split) : NULL;
    assert_string_equal(why ? why : "moved", "moved");
    assert_int_equal(is_split, is_moved && is_split_object(from));
    if (is_moved)
        put_sections(&o);
    spread(&o);
    assert_true(elf_update(o.elf, ELF_C_WRITE) > 0);
    for (size_t i = 0; i < o.count; i++) {
        str_free(&o.sections[i].bytes);
        VEC_FREE(&o.sections[i].relocs);
    }
    free(o.is_code);
    elf_end(o.elf);
    for (size_t i = 0; i < o.owned.len; i++)
        free(o.owned.data[i]);
    VEC_FREE(&o.owned);
    close(fd);
}

/* ---- what libdw reads, as text ---- */

struct dump {
    Dwfl_Module *module;
    struct strbuf out;
    bool by_rule; /* addresses are put down as the rule has them */
    unsigned lines, ranges, locations;
};

/* Section and offset. Where a section begins, another may end: `high` has to be in that of the one before. */
static void put_place(struct dump *d, Dwarf_Addr addr, bool is_end, const char *what)
{
    bool is_row = !strcmp(what, "at");
    Dwarf_Addr in = is_end && addr ? addr - 1 : addr; /* the last byte */
    int section = dwfl_module_relocate_address(d->module, &in);
    uint64_t at = is_end && addr ? in + 1 : in;
    if (d->by_rule)
        at = is_end && addr ? at * STRETCH - GAP : at * STRETCH + (is_row ? ROW : 0);
    str_printf(&d->out, " %s %s+%#lx", what, dwfl_module_relocation_info(d->module, section, NULL), (unsigned long)at);
}

static void put_range(struct dump *d, Dwarf_Addr low, Dwarf_Addr high)
{
    put_place(d, low, false, "from");
    put_place(d, high, low != high, "to");
}

static void put_ranges(struct dump *d, Dwarf_Die *die)
{
    Dwarf_Addr base, low, high;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &low, &high)) > 0;) {
        str_puts(&d->out, "  range");
        put_range(d, low, high);
        str_puts(&d->out, "\n");
        d->ranges++;
    }
}

static void put_locations(struct dump *d, Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attr;
    Dwarf_Addr base, low, high;
    Dwarf_Op *ops;
    size_t count;
    if (!dwarf_attr(die, name, &attr))
        return;
    for (ptrdiff_t at = 0; (at = dwarf_getlocations(&attr, at, &base, &low, &high, &ops, &count)) > 0;) {
        if (low == 0 && high == (Dwarf_Addr)-1)
            continue;
        str_printf(&d->out, "  location of %zu", count);
        for (size_t i = 0; i < count; i++)
            str_printf(&d->out, " %x", ops[i].atom);
        put_range(d, low, high);
        str_puts(&d->out, "\n");
        d->locations++;
    }
}

static void put_address_of(struct dump *d, Dwarf_Die *die, unsigned name, bool is_end, const char *what)
{
    Dwarf_Attribute attr;
    Dwarf_Addr addr;
    if (dwarf_attr(die, name, &attr) && dwarf_formaddr(&attr, &addr) == 0)
        put_place(d, addr, is_end && dwarf_whatform(&attr) == DW_FORM_addr, what);
}

static void put_entry(struct dump *d, Dwarf_Die *die)
{
    const char *name = dwarf_diename(die);
    unsigned tag = (unsigned)dwarf_tag(die);
    bool is_call_site = tag == DW_TAG_GNU_call_site;
    str_printf(&d->out, " entry %#x %s", tag == DW_TAG_skeleton_unit ? DW_TAG_compile_unit : tag, name ? name : "");
    put_address_of(d, die, DW_AT_low_pc, is_call_site, "low");
    put_address_of(d, die, DW_AT_entry_pc, false, "entry");
    put_address_of(d, die, DW_AT_call_return_pc, true, "return");
    str_puts(&d->out, "\n");
    put_ranges(d, die);
    put_locations(d, die, DW_AT_location);
    put_locations(d, die, DW_AT_frame_base);
    Dwarf_Die child;
    if (dwarf_child(die, &child) == 0)
        do
            put_entry(d, &child);
        while (dwarf_siblingof(&child, &child) == 0);
}

/* A row, or one more for it just before, as the GNU assembler has them. */
static bool ends_sequence(Dwarf_Lines *lines, size_t count, size_t i)
{
    Dwarf_Addr here, there;
    bool is_end = false;
    dwarf_lineaddr(dwarf_onesrcline(lines, i), &here);
    for (size_t k = 0; k < count && !is_end; k++) {
        dwarf_lineaddr(dwarf_onesrcline(lines, k), &there);
        if (there == here)
            dwarf_lineendsequence(dwarf_onesrcline(lines, k), &is_end);
    }
    return is_end;
}

static void put_lines(struct dump *d, Dwarf_Die *unit)
{
    Dwarf_Lines *lines;
    size_t count;
    assert_int_equal(dwarf_getsrclines(unit, &lines, &count), 0);
    for (size_t i = 0; i < count; i++) {
        Dwarf_Line *l = dwarf_onesrcline(lines, i);
        Dwarf_Addr addr;
        bool is_end = ends_sequence(lines, count, i), is_statement;
        int line, column;
        unsigned view;
        dwarf_lineaddr(l, &addr), dwarf_lineno(l, &line), dwarf_linecol(l, &column);
        dwarf_linebeginstatement(l, &is_statement), dwarf_linediscriminator(l, &view);
        str_printf(&d->out, " line %d:%d of %s %d %u", line, column, file_base_name(dwarf_linesrc(l, NULL, NULL)),
                   is_statement, view);
        put_place(d, addr, is_end, is_end ? "ends" : "at");
        str_puts(&d->out, "\n");
        d->lines++;
    }
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* libdw has sequences in the order of addresses, which with several sections is none. */
static char *sorted(const char *text)
{
    char *copy = xstrdup(text), *save = NULL;
    VEC(char *) lines = {0};
    for (char *l = strtok_r(copy, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        VEC_PUSH(&lines, l);
    qsort(lines.data, lines.len, sizeof *lines.data, by_text);
    struct strbuf out = {0};
    for (size_t i = 0; i < lines.len; i++)
        str_printf(&out, "%s\n", lines.data[i]);
    VEC_FREE(&lines);
    free(copy);
    return out.data;
}

static char *dump(const char *path, bool by_rule, struct dump *d)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .section_address = dwfl_offline_section_address};
    Dwfl *dwfl = dwfl_begin(&callbacks);
    *d = (struct dump){.module = dwfl_report_offline(dwfl, "object", path, -1), .by_rule = by_rule};
    assert_non_null(d->module);
    dwfl_report_end(dwfl, NULL, NULL);
    Dwarf_Addr bias;
    Dwarf_Die *unit = NULL;
    while ((unit = dwfl_module_nextcu(d->module, unit, &bias))) {
        put_lines(d, unit);
        put_entry(d, unit);
    }
    dwfl_end(dwfl);
    char *text = sorted(d->out.data);
    str_free(&d->out);
    return text;
}

/* ---- tests ---- */

static void assert_same(const char *path, const char *got, const char *wanted)
{
    size_t line = 0, i = 0;
    for (; got[i] && got[i] == wanted[i]; i++)
        if (got[i] == '\n')
            line = i + 1;
    if (got[i] != wanted[i])
        fail_msg("%s: got '%.*s', wanted '%.*s'", path, (int)strcspn(got + line, "\n"), got + line,
                 (int)strcspn(wanted + line, "\n"), wanted + line);
}

static void test_what_is_read_follows_the_rule(void **state)
{
    (void)state;
    unsigned ranges = 0, locations = 0;
    assert_true(object_count > 0);
    for (int i = 0; i < object_count; i++) {
        char *plain, *moved;
        assert_true(asprintf(&plain, "%s.plain", object_paths[i]) > 0);
        assert_true(asprintf(&moved, "%s.moved", object_paths[i]) > 0);
        copy_object(object_paths[i], plain, false);
        copy_object(object_paths[i], moved, true);
        struct dump before, after;
        char *wanted = dump(plain, true, &before), *got = dump(moved, false, &after);
        assert_same(object_paths[i], got, wanted);
        assert_true(before.lines > 20 && after.lines == before.lines);
        ranges += before.ranges;
        locations += before.locations;
        unlink(plain), unlink(moved);
        free(plain), free(moved);
        free(wanted);
        free(got);
    }
    assert_true(ranges > 20 && locations > 100);
}

int main(int argc, char **argv)
{
    object_paths = argv + 1;
    object_count = argc - 1;
    elf_version(EV_CURRENT);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read_follows_the_rule),
    };
    return cmocka_run_group_tests_name("dwarf", tests, NULL, NULL);
}
