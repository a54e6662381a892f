/* SPDX-License-Identifier: Apache-2.0
 * .debug_line (DWARF 5, 6.2): the program of each unit is made anew, opcode by opcode. What does not speak of addresses
 * stays as it is; the advances between rows are those of the moved code. */
#include <dwarf.h>

#include "dwarf/impl.h"

struct program {
    struct moving *m;
    struct section *s;
    struct cursor c;
    int line_base;
    unsigned line_range, opcode_base;
    uint8_t operands[256]; /* of standard opcodes */
    bool is_stmt;          /* what rows begin as */
    struct cursor begin;   /* of the sequence at hand */
    bool is_new;           /* another one comes next */
    struct place at;       /* in the old code */
    uint64_t now;          /* where the new program stands */
};

/* ---- rows ---- */

static bool advance_to(struct program *p, uint64_t now)
{
    if (!p->at.section)
        return refuse(p->m, "rows of lines without an address");
    if (now < p->now)
        return refuse(p->m, "rows of lines that go backwards");
    if (now > p->now) {
        put_uint(&p->s->out, DW_LNS_advance_pc, 1);
        str_put_uleb(&p->s->out, now - p->now);
    }
    p->now = now;
    return true;
}

/* Of the row at hand. The GNU assembler writes one more for the end of a sequence, just before it ends. */
static uint64_t row_address(struct program *p)
{
    static const uint8_t end[] = {0, 1, DW_LNE_end_sequence};
    bool is_end = cursor_left(&p->c) >= sizeof end && !memcmp(p->c.p, end, sizeof end);
    return is_end ? max_u64(move_end(p->m, p->at), p->now) : max_u64(move_row(p->m, p->at), p->now);
}

static bool pass_special(struct program *p, unsigned opcode)
{
    unsigned adjusted = opcode - p->opcode_base, of_line = adjusted % p->line_range;
    p->at.offset += adjusted / p->line_range;
    uint64_t now = row_address(p), by = now - p->now;
    bool fits =
        p->at.section && now >= p->now && by <= UINT8_MAX && p->opcode_base + of_line + p->line_range * by <= UINT8_MAX;
    if (!fits && !advance_to(p, now))
        return false;
    put_uint(&p->s->out, p->opcode_base + of_line + (fits ? p->line_range * (unsigned)by : 0), 1);
    p->now = now;
    return true;
}

/* ---- opcodes ---- */

static void copy_from(struct program *p, uint64_t at) { copy_bytes(p->m, p->s, at, section_offset(&p->c)); }

static bool pass_sequence(struct program *p);

static bool set_address(struct program *p, uint64_t len)
{
    const struct dwarf_reloc *r = reloc_at(p->s, section_offset(&p->c));
    struct place to = read_place(p->m, p->s, &p->c, 8);
    if (len != 9 || !r || !to.section || p->c.is_bad)
        return refuse(p->m, "a line table with an address that is not relocated");
    put_uint(&p->s->out, 0, 1);
    str_put_uleb(&p->s->out, len);
    put_uint(&p->s->out, DW_LNE_set_address, 1);
    put_address(p->m, p->s, r, false);
    bool is_first = !p->at.section;
    p->at = to;
    p->now = move_at(p->m, to);
    return !is_first || !p->m->moves->window || pass_sequence(p);
}

static bool end_sequence(struct program *p)
{
    if (!advance_to(p, max_u64(move_end(p->m, p->at), p->now)))
        return false;
    p->at = (struct place){0};
    p->now = 0;
    p->is_new = true;
    return true;
}

static bool pass_extended(struct program *p, uint64_t at)
{
    uint64_t len = cursor_uleb(&p->c);
    if (!len || len > cursor_left(&p->c))
        return false;
    unsigned opcode = (unsigned)cursor_uint(&p->c, 1);
    if (opcode == DW_LNE_set_address)
        return set_address(p, len);
    if (opcode == DW_LNE_end_sequence && !end_sequence(p))
        return false;
    cursor_skip(&p->c, len - 1);
    copy_from(p, at);
    return true;
}

static bool pass_fixed_advance(struct program *p)
{
    if (reloc_at(p->s, section_offset(&p->c)))
        return refuse(p->m, "a line table with an advance that is relocated");
    p->at.offset += cursor_uint(&p->c, 2);
    return true;
}

static bool pass_standard(struct program *p, unsigned opcode, uint64_t at)
{
    switch (opcode) {
    case DW_LNS_copy:
        if (!advance_to(p, row_address(p)))
            return false;
        break;
    case DW_LNS_advance_pc:
        p->at.offset += cursor_uleb(&p->c);
        return true;
    case DW_LNS_const_add_pc:
        p->at.offset += (UINT8_MAX - p->opcode_base) / p->line_range;
        return true;
    case DW_LNS_fixed_advance_pc:
        return pass_fixed_advance(p);
    default:
        for (unsigned i = 0; i < p->operands[opcode]; i++)
            (void)cursor_uleb(&p->c);
    }
    if (!p->c.is_bad)
        copy_from(p, at);
    return true;
}

static bool pass_opcode(struct program *p)
{
    uint64_t at = section_offset(&p->c);
    if (p->is_new)
        p->begin = p->c;
    p->is_new = false;
    unsigned opcode = (unsigned)cursor_uint(&p->c, 1);
    bool is_good = opcode >= p->opcode_base ? pass_special(p, opcode)
                   : opcode                 ? pass_standard(p, opcode, at)
                                            : pass_extended(p, at);
    return is_good && !p->c.is_bad;
}

/* ---- sequences of instructions that changed places ---- */

struct reading { /* of one sequence, from where its address is set */
    struct program *p;
    struct cursor c;
    struct row now;
    struct rows rows;
};

static void take_row(struct reading *r)
{
    VEC_PUSH(&r->rows.rows, r->now);
    r->now.is_block = r->now.ends_prologue = r->now.begins_epilogue = false;
    r->now.discriminator = 0;
}

/* False: one that is not known. *is_end: it was the sequence's. */
static bool read_extended(struct reading *r, bool *is_end)
{
    uint64_t len = cursor_uleb(&r->c);
    if (!len || len > cursor_left(&r->c))
        return false;
    unsigned opcode = (unsigned)cursor_uint(&r->c, 1);
    struct cursor operand = r->c;
    cursor_skip(&r->c, len - 1);
    *is_end = opcode == DW_LNE_end_sequence;
    if (opcode == DW_LNE_set_address) {
        struct place to = read_place(r->p->m, r->p->s, &operand, 8);
        r->now.offset = to.offset;
        return len == 9 && to.section == r->rows.section;
    }
    if (opcode == DW_LNE_set_discriminator)
        r->now.discriminator = cursor_uleb(&operand);
    return *is_end || opcode == DW_LNE_set_discriminator;
}

static bool read_standard(struct reading *r, unsigned opcode)
{
    switch (opcode) {
    case DW_LNS_copy:
        take_row(r);
        return true;
    case DW_LNS_advance_pc:
        r->now.offset += cursor_uleb(&r->c);
        return true;
    case DW_LNS_advance_line:
        r->now.line += (uint64_t)cursor_sleb(&r->c);
        return true;
    case DW_LNS_set_file:
        r->now.file = cursor_uleb(&r->c);
        return true;
    case DW_LNS_set_column:
        r->now.column = cursor_uleb(&r->c);
        return true;
    case DW_LNS_negate_stmt:
        r->now.is_stmt = !r->now.is_stmt;
        return true;
    case DW_LNS_set_basic_block:
        r->now.is_block = true;
        return true;
    case DW_LNS_const_add_pc:
        r->now.offset += (UINT8_MAX - r->p->opcode_base) / r->p->line_range;
        return true;
    case DW_LNS_fixed_advance_pc:
        r->now.offset += cursor_uint(&r->c, 2);
        return true;
    case DW_LNS_set_prologue_end:
        r->now.ends_prologue = true;
        return true;
    case DW_LNS_set_epilogue_begin:
        r->now.begins_epilogue = true;
        return true;
    case DW_LNS_set_isa:
        r->now.isa = cursor_uleb(&r->c);
        return true;
    default:
        return false;
    }
}

static bool read_opcode(struct reading *r, bool *is_end)
{
    unsigned opcode = (unsigned)cursor_uint(&r->c, 1);
    if (opcode < r->p->opcode_base)
        return opcode ? read_standard(r, opcode) : read_extended(r, is_end);
    unsigned adjusted = opcode - r->p->opcode_base;
    r->now.offset += adjusted / r->p->line_range;
    r->now.line += (uint64_t)(int64_t)(r->p->line_base + (int)(adjusted % r->p->line_range));
    take_row(r);
    return true;
}

static bool read_sequence(struct reading *r)
{
    bool is_end = false;
    while (!is_end && cursor_left(&r->c))
        if (!read_opcode(r, &is_end) || r->c.is_bad)
            return false;
    r->rows.end = r->now.offset;
    return is_end;
}

static bool has_windows(struct program *p, uint64_t from, uint64_t end)
{
    const struct dwarf_window *w = p->m->moves->window(p->m->moves->ctx, p->at.section, from);
    return w && w->lo < end;
}

/* What the opcodes in front of its address set. */
static bool read_begin(struct reading *r)
{
    bool is_end = false, is_good = true;
    r->now = (struct row){.file = 1, .line = 1, .is_stmt = r->p->is_stmt};
    r->rows.section = r->p->at.section;
    while (is_good && r->c.p < r->p->c.p)
        is_good = read_opcode(r, &is_end) && !r->c.is_bad;
    return is_good && !is_end && !r->rows.rows.len;
}

/* Behind the address of a sequence: all to its end made anew, if some of it changed places. */
static bool pass_sequence(struct program *p)
{
    static const uint8_t end[] = {0, 1, DW_LNE_end_sequence};
    struct reading r = {.p = p, .c = p->begin};
    bool is_begun = read_begin(&r);
    struct row first = r.now;
    bool is_read = is_begun && read_sequence(&r), is_anew = is_read && has_windows(p, p->at.offset, r.rows.end);
    bool is_good = is_read || !has_windows(p, p->at.offset, UINT64_MAX);
    if (is_anew) {
        reorder_rows(p->m, &r.rows);
        put_rows(&p->s->out, &r.rows, &first);
        str_put(&p->s->out, end, sizeof end);
        p->c = r.c;
        p->at = (struct place){0};
        p->now = 0;
        p->is_new = true;
    }
    VEC_FREE(&r.rows.rows);
    return is_good || refuse(p->m, "a line table with opcodes that are not known");
}

/* ---- units ---- */

/* The cursor goes from the unit's version to the first opcode. */
static bool read_header(struct program *p, unsigned offset_len)
{
    unsigned version = (unsigned)cursor_uint(&p->c, 2);
    if (version < 2 || version > 5)
        return refuse(p->m, "a line table of a version that is not known");
    if (version >= 5 && (cursor_uint(&p->c, 1) != 8 || cursor_uint(&p->c, 1) != 0))
        return refuse(p->m, "a line table of other addresses than of 8 bytes");
    uint64_t len = cursor_uint(&p->c, offset_len);
    struct cursor program = p->c;
    cursor_skip(&program, len);
    if (cursor_uint(&p->c, 1) != 1 || (version >= 4 && cursor_uint(&p->c, 1) != 1))
        return refuse(p->m, "a line table of longer units than bytes");
    p->is_stmt = cursor_uint(&p->c, 1) != 0;
    p->line_base = (int8_t)cursor_uint(&p->c, 1);
    p->line_range = (unsigned)cursor_uint(&p->c, 1);
    p->opcode_base = (unsigned)cursor_uint(&p->c, 1);
    for (unsigned i = 1; i < p->opcode_base; i++)
        p->operands[i] = (uint8_t)cursor_uint(&p->c, 1);
    bool is_cut = p->c.is_bad || program.is_bad || !p->line_range || !p->opcode_base;
    p->c = program;
    return !is_cut;
}

static bool move_unit(struct moving *m, struct section *s, uint64_t begin, uint64_t end, unsigned offset_len)
{
    struct program p = {.m = m, .s = s, .c = section_cursor(s, begin, end), .is_new = true};
    uint64_t out = s->out.len;
    cursor_skip(&p.c, offset_len == 8 ? 12 : 4);
    if (!read_header(&p, offset_len))
        return false;
    copy_bytes(m, s, begin, section_offset(&p.c));
    while (cursor_left(&p.c))
        if (!pass_opcode(&p))
            return false;
    set_unit_length(s, out, offset_len);
    return true;
}

bool move_lines(struct moving *m, struct section *s) { return move_units(m, s, move_unit); }
