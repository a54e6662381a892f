/* SPDX-License-Identifier: Apache-2.0
 * Rows of a line table whose instructions changed places: within a window each instruction gets the rows that it had,
 * or, where it had none of its own, one that goes on with the line that held for it. */
#include <dwarf.h>
#include <stdlib.h>

#include "dwarf/impl.h"

/* ---- which row holds ---- */

static bool is_alike(const struct row *a, const struct row *b)
{
    return a->file == b->file && a->line == b->line && a->column == b->column && a->discriminator == b->discriminator;
}

/* Goes on with the line of another row: nobody shall stop there. */
static struct row continued(const struct row *of, uint64_t offset)
{
    struct row r = *of;
    r.offset = offset;
    r.is_stmt = r.is_block = r.ends_prologue = r.begins_epilogue = false;
    return r;
}

struct turn {
    const struct rows *from;
    VEC(struct row) out;
};

/* Rows [first, end) of what stood at `old`; it stands at `now`. */
static void put_insn(struct turn *t, uint64_t old, uint64_t now)
{
    const struct row *rows = t->from->rows.data;
    size_t first = PARTITION_POINT(i, 0, t->from->rows.len, rows[i].offset < old);
    size_t end = PARTITION_POINT(i, first, t->from->rows.len, rows[i].offset <= old);
    for (size_t i = first; i < end; i++) {
        struct row r = rows[i];
        r.offset = now;
        VEC_PUSH(&t->out, r);
    }
    if (first < end || !first)
        return;
    const struct row *held = &rows[first - 1];
    if (!t->out.len || !is_alike(&t->out.data[t->out.len - 1], held))
        VEC_PUSH(&t->out, continued(held, now));
}

struct pair {
    uint32_t now, old;
};

static int by_now(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return x->now < y->now ? -1 : x->now > y->now;
}

static void turn_window(struct turn *t, const struct dwarf_window *w)
{
    struct pair *at = xmalloc((w->count + 1) * sizeof *at);
    for (uint32_t i = 0; i < w->count; i++)
        at[i] = (struct pair){w->now[i], w->old[i]};
    qsort(at, w->count, sizeof *at, by_now);
    for (uint32_t i = 0; i < w->count; i++)
        put_insn(t, at[i].old, at[i].now);
    free(at);
    const struct row *rows = t->from->rows.data;
    size_t behind = PARTITION_POINT(i, 0, t->from->rows.len, rows[i].offset < w->hi);
    bool has_own = behind < t->from->rows.len && rows[behind].offset == w->hi;
    if (behind && !has_own && w->hi < t->from->end && t->out.len &&
        !is_alike(&t->out.data[t->out.len - 1], &rows[behind - 1]))
        VEC_PUSH(&t->out, continued(&rows[behind - 1], w->hi));
}

void reorder_rows(struct moving *m, struct rows *r)
{
    struct turn t = {.from = r};
    size_t i = 0;
    for (uint64_t at = r->rows.len ? r->rows.data[0].offset : r->end;;) {
        const struct dwarf_window *w = m->moves->window(m->moves->ctx, r->section, at);
        uint64_t lo = w && w->lo < r->end ? w->lo : UINT64_MAX;
        for (; i < r->rows.len && r->rows.data[i].offset < lo; i++)
            VEC_PUSH(&t.out, r->rows.data[i]);
        if (lo == UINT64_MAX)
            break;
        turn_window(&t, w);
        while (i < r->rows.len && r->rows.data[i].offset < w->hi)
            i++;
        at = w->hi;
    }
    VEC_FREE(&r->rows);
    for (size_t k = 0; k < t.out.len; k++)
        VEC_PUSH(&r->rows, t.out.data[k]);
    VEC_FREE(&t.out);
}

/* ---- opcodes ---- */

static void put_sleb(struct strbuf *out, int64_t v)
{
    for (;;) {
        uint8_t byte = v & 0x7f;
        v >>= 7;
        bool is_last = (v == 0 && !(byte & 0x40)) || (v == -1 && (byte & 0x40));
        put_uint(out, is_last ? byte : byte | 0x80, 1);
        if (is_last)
            return;
    }
}

static void put_number(struct strbuf *out, uint8_t opcode, uint64_t v)
{
    put_uint(out, opcode, 1);
    str_put_uleb(out, v);
}

static void put_discriminator(struct strbuf *out, uint64_t v)
{
    struct strbuf number = {0};
    str_put_uleb(&number, v);
    put_uint(out, 0, 1);
    str_put_uleb(out, number.len + 1);
    put_uint(out, DW_LNE_set_discriminator, 1);
    str_put(out, number.data, number.len);
    str_free(&number);
}

static void put_row(struct strbuf *out, const struct row *r, const struct row *before)
{
    if (r->file != before->file)
        put_number(out, DW_LNS_set_file, r->file);
    if (r->column != before->column)
        put_number(out, DW_LNS_set_column, r->column);
    if (r->isa != before->isa)
        put_number(out, DW_LNS_set_isa, r->isa);
    if (r->is_stmt != before->is_stmt)
        put_uint(out, DW_LNS_negate_stmt, 1);
    if (r->is_block)
        put_uint(out, DW_LNS_set_basic_block, 1);
    if (r->ends_prologue)
        put_uint(out, DW_LNS_set_prologue_end, 1);
    if (r->begins_epilogue)
        put_uint(out, DW_LNS_set_epilogue_begin, 1);
    if (r->discriminator)
        put_discriminator(out, r->discriminator);
    if (r->line != before->line) {
        put_uint(out, DW_LNS_advance_line, 1);
        put_sleb(out, (int64_t)(r->line - before->line));
    }
    if (r->offset != before->offset)
        put_number(out, DW_LNS_advance_pc, r->offset - before->offset);
    put_uint(out, DW_LNS_copy, 1);
}

void put_rows(struct strbuf *out, const struct rows *r, const struct row *first)
{
    struct row before = *first;
    for (size_t i = 0; i < r->rows.len; i++) {
        put_row(out, &r->rows.data[i], &before);
        before = r->rows.data[i];
    }
    if (r->end > before.offset)
        put_number(out, DW_LNS_advance_pc, r->end - before.offset);
}
