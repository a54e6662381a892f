/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: address -> file and line of one module, from the line tables of DWARF. Units are found by their address ranges
 * (built once); a unit's table is read when an address in it is first asked for, so a large program costs what it runs.
 */
#include "debug/debug.h"

#include <dwarf.h>
#include <stdlib.h>

struct unit {
    Dwarf_Die line_die, code_die;
    Dwarf_Lines *rows;
    size_t row_count;
    bool is_read;
};
struct span {
    uint64_t lo, hi;
    uint32_t unit;
};
struct lines {
    struct debug_file file;
    VEC(struct unit) units;
    VEC(struct span) spans; /* sorted by lo */
    struct file_names *names;
};

static uint64_t hash_text(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return h;
}

uint32_t file_names_id(struct file_names *n, const char *text)
{
    uint64_t id = ID_NONE;
    if (!text || map_get(&n->by_pointer, (uintptr_t)text, &id))
        return (uint32_t)id;
    uint64_t h = hash_text(text);
    while (map_get(&n->by_text, h, &id) && strcmp(n->texts.data[id], text) != 0)
        h++;
    if (!map_get(&n->by_text, h, &id)) {
        id = n->texts.len;
        map_put(&n->by_text, h, id);
        VEC_PUSH(&n->texts, arena_strdup(n->arena, text));
    }
    map_put(&n->by_pointer, (uintptr_t)text, id);
    return (uint32_t)id;
}

void file_names_fini(struct file_names *n)
{
    VEC_FREE(&n->texts);
    map_fini(&n->by_pointer);
    map_fini(&n->by_text);
}

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static void add_unit(struct lines *l, Dwarf_Die *line_die, Dwarf_Die *code_die)
{
    Dwarf_Addr base = 0, lo, hi;
    uint32_t id = (uint32_t)l->units.len;
    bool split = code_die->addr != NULL;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(line_die, at, &base, &lo, &hi)) > 0;)
        if (hi > lo && lo != 0) /* 0: code that the linker dropped */
            VEC_PUSH(&l->spans, ((struct span){lo, hi, id}));
    VEC_PUSH(&l->units, ((struct unit){.line_die = *line_die, .code_die = split ? *code_die : *line_die}));
}

struct lines *lines_open(const char *path, const char *root, struct file_names *names)
{
    struct debug_file file;
    if (!debug_file_open(path, root, &file))
        return NULL;
    struct lines *l = xmalloc(sizeof *l);
    l->file = file;
    l->names = names;
    Dwarf_CU *unit = NULL;
    Dwarf_Die die, sub;
    for (;;) {
        sub = (Dwarf_Die){0};
        if (dwarf_get_units(l->file.dwarf, unit, &unit, NULL, NULL, &die, &sub) != 0)
            break;
        if (dwarf_tag(&die) == DW_TAG_compile_unit || dwarf_tag(&die) == DW_TAG_skeleton_unit)
            add_unit(l, &die, &sub);
    }
    if (l->spans.len)
        qsort(l->spans.data, l->spans.len, sizeof *l->spans.data, compare_spans);
    return l;
}

void lines_close(struct lines *l)
{
    if (!l)
        return;
    debug_file_close(&l->file);
    VEC_FREE(&l->units);
    VEC_FREE(&l->spans);
    free(l);
}

static struct unit *unit_at(struct lines *l, uint64_t addr)
{
    size_t lo = PARTITION_POINT(i, 0, l->spans.len, l->spans.data[i].lo <= addr);
    return lo && addr < l->spans.data[lo - 1].hi ? &l->units.data[l->spans.data[lo - 1].unit] : NULL;
}

bool lines_unit_at(struct lines *l, uint64_t addr, uint32_t *unit, Dwarf_Die *line_die, Dwarf_Die *code_die)
{
    struct unit *u = unit_at(l, addr);
    if (!u)
        return false;
    *unit = (uint32_t)(u - l->units.data);
    *line_die = u->line_die;
    *code_die = u->code_die;
    return true;
}

bool lines_unit(struct lines *l, uint32_t unit, Dwarf_Die *code_die)
{
    if (unit >= l->units.len)
        return false;
    *code_die = l->units.data[unit].code_die;
    return true;
}

static uint64_t row_addr(const struct unit *u, size_t i)
{
    Dwarf_Addr addr = 0;
    dwarf_lineaddr(dwarf_onesrcline(u->rows, i), &addr);
    return addr;
}

/* Rows at or below addr; of several at one address the last counts. */
static size_t rows_upto(const struct unit *u, uint64_t addr)
{
    return PARTITION_POINT(i, 0, u->row_count, row_addr(u, i) <= addr);
}

/* A relative path is distinguished by its unit: one text of the file may serve several, each compiled in another
 * folder.
 */
uint32_t lines_file_id(struct lines *l, uint32_t unit, const char *path)
{
    struct file_names *n = l->names;
    Dwarf_Attribute attr;
    uint64_t id;
    if (!path || path[0] == '/')
        return file_names_id(n, path);
    uint64_t key = (uintptr_t)path | ((uint64_t)(unit & 0x7fff) + 1) << 48; /* user addresses have 47 bits */
    if (map_get(&n->by_pointer, key, &id))
        return (uint32_t)id;
    const char *folder = dwarf_formstring(dwarf_attr(&l->units.data[unit].line_die, DW_AT_comp_dir, &attr));
    id = file_names_id(n, folder && folder[0] == '/' ? arena_printf(n->arena, "%s/%s", folder, path) : path);
    map_put(&n->by_pointer, key, id);
    return (uint32_t)id;
}

bool lines_at(struct lines *l, uint64_t addr, struct line_row *out)
{
    struct unit *u = unit_at(l, addr);
    if (!u)
        return false;
    if (!u->is_read) {
        u->is_read = true;
        if (dwarf_getsrclines(&u->line_die, &u->rows, &u->row_count) != 0)
            u->row_count = 0;
    }
    size_t next = rows_upto(u, addr);
    *out = (struct line_row){.lo = addr, .hi = addr + 1, .file = ID_NONE};
    if (next == 0)
        return false;
    Dwarf_Line *row = dwarf_onesrcline(u->rows, next - 1);
    bool is_end = false;
    int line = 0;
    dwarf_lineendsequence(row, &is_end);
    if (next < u->row_count)
        out->hi = row_addr(u, next);
    if (is_end)
        return false;
    dwarf_lineno(row, &line);
    out->line = line > 0 ? (uint32_t)line : 0;
    out->file = out->line ? lines_file_id(l, (uint32_t)(u - l->units.data), dwarf_linesrc(row, NULL, NULL)) : ID_NONE;
    return true;
}
