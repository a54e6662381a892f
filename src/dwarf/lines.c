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
    p->at = to;
    p->now = move_at(p->m, to);
    return true;
}

static bool end_sequence(struct program *p)
{
    if (!advance_to(p, max_u64(move_end(p->m, p->at), p->now)))
        return false;
    p->at = (struct place){0};
    p->now = 0;
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
    unsigned opcode = (unsigned)cursor_uint(&p->c, 1);
    bool is_good = opcode >= p->opcode_base ? pass_special(p, opcode)
                   : opcode                 ? pass_standard(p, opcode, at)
                                            : pass_extended(p, at);
    return is_good && !p->c.is_bad;
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
    cursor_skip(&p->c, 1); /* whether rows begin statements */
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
    struct program p = {.m = m, .s = s, .c = section_cursor(s, begin, end)};
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
