/* SPDX-License-Identifier: Apache-2.0
 * Unwind tables for functions that were copied elsewhere: call frame instructions with their locations recomputed, new
 * exception tables, and one search table over old and new. Every reference is pc-relative in four bytes. Formats as in
 * unwind.c and lsda.c; what those do not understand does not get here (image_unwind_can_move). */
#include <dwarf.h>
#include <stdlib.h>

#include "image/impl.h"

#define ENC_REF (DW_EH_PE_pcrel | DW_EH_PE_sdata4)
#define ENC_TABLE (DW_EH_PE_datarel | DW_EH_PE_sdata4)
#define LEB_MAX 10

struct past_row { /* a row of the function at hand, and where in the original it begins */
    uint64_t addr;
    struct cfi_row row;
};
struct cfi_piece {     /* the instructions of one function */
    size_t first, len; /* in the list of its range */
    bool is_bad;
};
struct emitter {
    const struct image *img;
    const struct image_unwind *u;
    const struct image_moved_func *moved;
    size_t moved_count;
    uint32_t *moved_of; /* FDE to index into moved, or ID_NONE */
    image_addr_map map;
    void *ctx;
    struct strbuf *out; /* the table being written */
    uint64_t vaddr;     /* where it will be */
    VEC(struct past_row) past;
    struct strbuf
        *cfi_lists; /* by ranges of moved: their call frame instructions, which are the same wherever they stand */
    struct cfi_piece *cfi; /* [moved_count] */
    bool is_bad;           /* something did not fit: the function at hand cannot be expressed */
};

/* ---- writing ---- */

static void put(struct emitter *e, const void *bytes, size_t len) { str_put(e->out, bytes, len); }
static void put_u8(struct emitter *e, uint8_t v) { put(e, &v, 1); }
static void put_u32(struct emitter *e, uint32_t v) { put(e, &v, 4); }
static uint64_t here(const struct emitter *e) { return e->vaddr + e->out->len; }

/* At least `width` bytes, which only pads: a reader takes the same value from it. */
static void put_uleb(struct emitter *e, uint64_t v, unsigned width)
{
    for (unsigned n = 1;; n++) {
        uint8_t byte = v & 0x7f;
        v >>= 7;
        bool is_last = !v && n >= width;
        put_u8(e, is_last ? byte : byte | 0x80);
        if (is_last)
            return;
    }
}

static unsigned uleb_len(uint64_t v)
{
    unsigned n = 1;
    while (v >>= 7)
        n++;
    return n;
}

static void put_sleb(struct emitter *e, int64_t v)
{
    for (;;) {
        uint8_t byte = v & 0x7f;
        v >>= 7;
        bool is_last = v == ((byte & 0x40) ? -1 : 0);
        put_u8(e, is_last ? byte : byte | 0x80);
        if (is_last)
            return;
    }
}

static uint32_t near_offset(struct emitter *e, uint64_t target, uint64_t from)
{
    int64_t d = (int64_t)(target - from);
    e->is_bad |= d != (int32_t)d;
    return (uint32_t)d;
}

/* A pc-relative reference; the null reference is the word 0. */
static void put_ref(struct emitter *e, uint64_t target) { put_u32(e, target ? near_offset(e, target, here(e)) : 0); }

static void pad_to(struct emitter *e, size_t align)
{
    while (e->out->len & (align - 1))
        put_u8(e, 0);
}

static void patch_u32(struct emitter *e, size_t at, uint32_t v) { memcpy(e->out->data + at, &v, 4); }

/* ---- old addresses to new ---- */

static uint64_t map_inside(struct emitter *e, const struct image_moved_func *m, uint64_t addr_old)
{
    uint64_t addr = e->map(e->ctx, m->fde, addr_old, false);
    e->is_bad |= addr - m->addr_new > m->len_new;
    return addr;
}

/* A pad may be in another function (a .cold part); one in a function that did not move stays. */
static uint64_t map_pad(struct emitter *e, uint64_t pad)
{
    uint32_t f = image_unwind_find(e->u, pad);
    if (f == ID_NONE || e->moved_of[f] == ID_NONE)
        return pad;
    return e->map(e->ctx, f, pad, true);
}

/* ---- stubs of the procedure linkage table ---- */

static const uint8_t stub_cfi[] = {DW_CFA_def_cfa, CFI_REG_RSP, 8, DW_CFA_offset | 16, 1};
static const struct image_cie stub_cie = {.cfi = stub_cfi,
                                          .cfi_len = sizeof stub_cfi,
                                          .code_align = 1,
                                          .data_align = -8,
                                          .return_reg = 16,
                                          .personality_enc = DW_EH_PE_omit,
                                          .lsda_enc = DW_EH_PE_omit,
                                          .has_augmentation = true,
                                          .can_emit = true};
static const struct image_fde stub_fde = {.cfi = stub_cfi, .cfi_len = 0};

/* ---- where handlers of signals return to ---- */

/* The stack pointer is at a struct ucontext: the interrupted registers are its words from 40 on. As glibc's own. */
#define CFA_AT(reg, at) DW_CFA_expression, reg, 2, DW_OP_breg7, at
#define CFA_AT_FAR(reg, at) DW_CFA_expression, reg, 3, DW_OP_breg7, ((at)&0x7f) | 0x80, (at) >> 7
static const uint8_t signal_cfi[] = {
    DW_CFA_def_cfa_expression,
    4,
    DW_OP_breg7,
    (160 & 0x7f) | 0x80,
    160 >> 7,
    DW_OP_deref,
    CFA_AT(8, 40),
    CFA_AT(9, 48),
    CFA_AT(10, 56),
    CFA_AT_FAR(11, 64),
    CFA_AT_FAR(12, 72),
    CFA_AT_FAR(13, 80),
    CFA_AT_FAR(14, 88),
    CFA_AT_FAR(15, 96),
    CFA_AT_FAR(5, 104),
    CFA_AT_FAR(4, 112),
    CFA_AT_FAR(6, 120),
    CFA_AT_FAR(3, 128),
    CFA_AT_FAR(1, 136),
    CFA_AT_FAR(0, 144),
    CFA_AT_FAR(2, 152),
    CFA_AT_FAR(7, 160),
    CFA_AT_FAR(16, 168),
};
static const struct image_cie signal_cie = {.cfi = stub_cfi, /* begins like any other; all is in the description */
                                            .cfi_len = sizeof stub_cfi,
                                            .code_align = 1,
                                            .data_align = -8,
                                            .return_reg = 16,
                                            .personality_enc = DW_EH_PE_omit,
                                            .lsda_enc = DW_EH_PE_omit,
                                            .has_augmentation = true,
                                            .is_signal_frame = true,
                                            .can_emit = true};
static const struct image_fde signal_fde = {.cfi = signal_cfi, .cfi_len = sizeof signal_cfi};

static const struct image_fde *fde_of(const struct emitter *e, const struct image_moved_func *m)
{
    return m->fde == ID_NONE ? &stub_fde : m->fde == IMAGE_FDE_SIGNAL ? &signal_fde : &e->u->fdes[m->fde];
}
static uint32_t cie_number(const struct emitter *e, const struct image_moved_func *m)
{
    return m->fde == ID_NONE            ? (uint32_t)e->u->cie_count
           : m->fde == IMAGE_FDE_SIGNAL ? (uint32_t)e->u->cie_count + 1
                                        : e->u->fdes[m->fde].cie;
}
static const struct image_cie *cie_of(const struct emitter *e, const struct image_moved_func *m)
{
    return m->fde == ID_NONE            ? &stub_cie
           : m->fde == IMAGE_FDE_SIGNAL ? &signal_cie
                                        : &e->u->cies[e->u->fdes[m->fde].cie];
}

/* ---- exception tables ---- */

/* The new table is cut as: head, offset to the types, sites, actions, padding, types, specifications. */
struct lsda_plan {
    struct lsda old;
    const struct image_moved_func *m;
    uint64_t pad_base;   /* what pads are relative to */
    bool has_pad_base;   /* and it is written, as it is not the function's start */
    struct strbuf sites; /* encoded */
    uint64_t padding;
    unsigned types_at_width;
};

/* Pads are unsigned distances from the base, and 0 means none; so a pad at or before the start needs a base of its own.
 */
static void plan_pad_base(struct emitter *e, struct lsda_plan *p)
{
    struct lsda l = p->old;
    struct lsda_site s;
    uint64_t lowest = UINT64_MAX, highest = 0;
    while (lsda_next(&l, e->img, &s)) {
        if (!s.pad)
            continue;
        uint64_t pad = map_pad(e, s.pad);
        lowest = min_u64(lowest, pad);
        highest = max_u64(highest, pad);
    }
    p->has_pad_base = lowest != UINT64_MAX && lowest <= p->m->addr_new;
    p->pad_base = p->has_pad_base ? lowest - 1 : p->m->addr_new;
    e->is_bad |= highest > p->pad_base && highest - p->pad_base > INT32_MAX;
}

/* Of one function by itself pads are in it, and behind its start. */
static uint64_t pad_of(struct emitter *e, const struct lsda_plan *p, uint64_t pad)
{
    if (e->moved)
        return map_pad(e, pad);
    uint64_t at = e->map(e->ctx, p->m->fde, pad, true);
    e->is_bad |= at <= p->m->addr_new || at - p->m->addr_new >= p->m->len_new;
    return at;
}

static void plan_sites(struct emitter *e, struct lsda_plan *p)
{
    struct strbuf *out = e->out;
    e->out = &p->sites;
    struct lsda l = p->old;
    struct lsda_site s;
    uint64_t last = p->m->addr_new;
    while (lsda_next(&l, e->img, &s) && !e->is_bad) {
        uint64_t start = map_inside(e, p->m, s.start), end = map_inside(e, p->m, s.end);
        e->is_bad |= start < last || end < start;
        last = start;
        put_uleb(e, start - p->m->addr_new, 1);
        put_uleb(e, end - start, 1);
        put_uleb(e, s.pad ? pad_of(e, p, s.pad) - p->pad_base : 0, 1);
        put_uleb(e, s.action, 1);
    }
    e->out = out;
}

static uint64_t sites_with_head_len(const struct lsda_plan *p) { return 1 + uleb_len(p->sites.len) + p->sites.len; }

/* The types are aligned to 4. The offset to them is written in as many bytes as its greatest padding could need, so
 * that its own length does not depend on the padding. */
static void plan_types(struct emitter *e, struct lsda_plan *p)
{
    uint64_t body = sites_with_head_len(p) + p->old.actions_len + p->old.type_count * 4;
    p->types_at_width = uleb_len(body + 3);
    uint64_t offset = 1 + (p->has_pad_base ? 4 : 0) + 1 + p->types_at_width + body;
    p->padding = -(e->out->len + offset) & 3;
}

static void put_lsda_head(struct emitter *e, const struct lsda_plan *p)
{
    put_u8(e, p->has_pad_base ? ENC_REF : DW_EH_PE_omit);
    if (p->has_pad_base)
        put_ref(e, p->pad_base);
    if (!p->old.types) {
        put_u8(e, DW_EH_PE_omit);
    } else {
        put_u8(e, ENC_REF | (p->old.type_enc & DW_EH_PE_indirect));
        uint64_t body = sites_with_head_len(p) + p->old.actions_len + p->padding + p->old.type_count * 4;
        put_uleb(e, body, p->types_at_width);
    }
    put_u8(e, DW_EH_PE_uleb128);
    put_uleb(e, p->sites.len, 1);
}

static void put_types(struct emitter *e, const struct lsda_plan *p)
{
    for (uint64_t i = p->old.type_count; i > 0; i--) {
        uint64_t type = 0;
        e->is_bad |= !lsda_type(&p->old, e->img, i, &type);
        put_ref(e, type);
    }
    const uint8_t *specs = p->old.specs_len ? image_at(e->img, p->old.types, p->old.specs_len) : NULL;
    if (specs)
        put(e, specs, p->old.specs_len);
}

/* Writes the table of one function and returns its address, 0 if it has none. */
static uint64_t put_lsda(struct emitter *e, const struct image_moved_func *m)
{
    struct lsda_plan p = {.m = m};
    const struct image_fde *f = fde_of(e, m);
    if (!f->lsda)
        return 0;
    if (lsda_open(e->img, f, &p.old) < 0) {
        e->is_bad = true;
        return 0;
    }
    pad_to(e, 4);
    uint64_t at = here(e);
    plan_pad_base(e, &p);
    plan_sites(e, &p);
    if (p.old.types)
        plan_types(e, &p);
    put_lsda_head(e, &p);
    put(e, p.sites.data, p.sites.len);
    put(e, p.old.actions, p.old.actions_len);
    for (uint64_t i = 0; i < p.padding; i++)
        put_u8(e, 0);
    put_types(e, &p);
    str_free(&p.sites);
    return at;
}

/* ---- call frame instructions ---- */

static void put_advance(struct emitter *e, uint64_t delta)
{
    if (delta < 0x40) {
        put_u8(e, (uint8_t)(DW_CFA_advance_loc | delta));
    } else if (delta <= UINT8_MAX) {
        put_u8(e, DW_CFA_advance_loc1);
        put_u8(e, (uint8_t)delta);
    } else if (delta <= UINT16_MAX) {
        put_u8(e, DW_CFA_advance_loc2);
        put(e, &(uint16_t){(uint16_t)delta}, 2);
    } else {
        e->is_bad |= delta > UINT32_MAX;
        put_u8(e, DW_CFA_advance_loc4);
        put_u32(e, (uint32_t)delta);
    }
}

static void put_def_cfa(struct emitter *e, uint64_t reg, int64_t offset)
{
    e->is_bad |= offset < 0;
    put_u8(e, DW_CFA_def_cfa);
    put_uleb(e, reg, 1);
    put_uleb(e, (uint64_t)offset, 1);
}

static bool same_rule(const struct cfi_rule *x, const struct cfi_rule *y)
{
    return x->start == y->start ||
           (x->start && y->start && x->len == y->len && memcmp(x->start, y->start, x->len) == 0);
}

/* From one row to another, by what differs. */
static void put_row(struct emitter *e, const struct cfi_row *from, const struct cfi_row *to)
{
    if (to->cfa_expr.start) {
        if (!same_rule(&from->cfa_expr, &to->cfa_expr))
            put(e, to->cfa_expr.start, to->cfa_expr.len);
    } else if (from->cfa_expr.start || from->cfa_reg != to->cfa_reg || from->cfa_offset != to->cfa_offset) {
        put_def_cfa(e, to->cfa_reg, to->cfa_offset);
    }
    for (unsigned r = 0; r < CFI_REGS; r++) {
        if (same_rule(&from->regs[r], &to->regs[r]))
            continue;
        if (to->regs[r].start)
            put(e, to->regs[r].start, to->regs[r].len);
        else
            put_u8(e, (uint8_t)(DW_CFA_restore | r));
    }
}

struct cfi_run { /* one function on its way through put_cfi */
    struct cfi_machine machine;
    const struct image_moved_func *m;
    uint64_t addr_done;
    size_t state; /* next of m->states */
    bool has_behind;
};

static void advance_to(struct emitter *e, struct cfi_run *r, uint64_t addr)
{
    e->is_bad |= addr < r->addr_done;
    if (addr != r->addr_done)
        put_advance(e, addr - r->addr_done);
    r->addr_done = addr;
}

static struct cfi_row pushed(const struct cfi_row *row, uint32_t bytes)
{
    struct cfi_row out = *row;
    if (!out.cfa_expr.start && out.cfa_reg == CFI_REG_RSP)
        out.cfa_offset += bytes;
    return out;
}

/* What was inserted in line before `limit`. */
static void put_states_here(struct emitter *e, struct cfi_run *r, uint64_t limit)
{
    uint32_t depth = 0;
    for (; r->state < r->m->state_count; r->state++) {
        const struct image_state *s = &r->m->states[r->state];
        if (s->off_old != IMAGE_STATE_HERE || r->m->addr_new + s->off_new >= limit)
            break;
        struct cfi_row from = pushed(&r->machine.now, depth), to = pushed(&r->machine.now, s->pushed);
        depth = s->pushed;
        if (from.cfa_offset == to.cfa_offset)
            continue;
        advance_to(e, r, r->m->addr_new + s->off_new);
        put_row(e, &from, &to);
    }
}

static const struct cfi_row *row_at(const struct emitter *e, uint64_t addr_old)
{
    return &e->past.data[PARTITION_POINT(i, 1, e->past.len, e->past.data[i].addr <= addr_old) - 1].row;
}

/* What was put behind the function: each piece has the frame of some place inside. */
static void put_states_behind(struct emitter *e, struct cfi_run *r, uint64_t addr_old)
{
    const struct cfi_row *row = &r->machine.now;
    uint32_t depth = 0;
    for (; r->state < r->m->state_count && !e->is_bad; r->state++) {
        const struct image_state *s = &r->m->states[r->state];
        const struct cfi_row *next = s->off_old == IMAGE_STATE_HERE ? row : row_at(e, addr_old + s->off_old);
        if (next == row && s->pushed == depth)
            continue;
        struct cfi_row from = pushed(row, depth), to = pushed(next, s->pushed);
        row = next;
        depth = s->pushed;
        advance_to(e, r, r->m->addr_new + s->off_new);
        put_row(e, &from, &to);
    }
}

static void note_row(struct emitter *e, const struct cfi_run *r, uint64_t addr)
{
    if (r->has_behind)
        VEC_PUSH(&e->past, ((struct past_row){addr, r->machine.now}));
}

static void advance_inside(struct emitter *e, struct cfi_run *r, uint64_t addr_old)
{
    uint64_t addr = map_inside(e, r->m, addr_old);
    put_states_here(e, r, addr);
    advance_to(e, r, addr);
}

/* Locations are mapped when an instruction that is not a move is met, so that moves in a row become one. */
static void put_cfi(struct emitter *e, const struct image_moved_func *m)
{
    const struct image_fde *f = fde_of(e, m);
    const struct image_cie *cie = cie_of(e, m);
    struct cursor c = cfi_cursor(e->img, f);
    struct cfi_op op;
    struct cfi_run r;
    uint64_t loc = f->addr, loc_done = loc;
    r.m = m;
    r.addr_done = m->addr_new;
    r.state = 0;
    r.has_behind = false;
    for (size_t k = m->state_count; k-- > 0 && !r.has_behind;)
        r.has_behind = m->states[k].off_old != IMAGE_STATE_HERE;
    e->past.len = 0;
    if (m->state_count)
        cfi_machine_init(&r.machine, e->img, cie);
    struct cfi_row at_start = m->state_count ? r.machine.now : (struct cfi_row){0};
    while (!e->is_bad && cfi_next(&c, e->img, cie, &op)) {
        if (cfi_moves(&op, cie, &loc))
            continue;
        if (loc != loc_done) {
            note_row(e, &r, loc_done);
            if (!m->is_part)
                advance_inside(e, &r, loc);
            loc_done = loc;
        }
        if (!m->is_part)
            put(e, op.start, (size_t)(op.end - op.start));
        if (m->state_count)
            cfi_machine_step(&r.machine, cie, &op);
    }
    note_row(e, &r, loc_done);
    if (m->is_part)
        r.machine.now = at_start;
    put_states_here(e, &r, m->addr_new + m->len_new);
    put_states_behind(e, &r, f->addr);
    e->is_bad |= c.is_bad || (m->state_count && (r.machine.is_bad || r.machine.has_other_regs));
}

#define FUNCS_A_RANGE 64

static void put_cfi_range(void *ctx, size_t first, size_t end)
{
    const struct emitter *all = ctx;
    struct emitter e = *all;
    e.out = &all->cfi_lists[first / FUNCS_A_RANGE];
    for (size_t i = first; i < end; i++) {
        size_t at = e.out->len;
        e.is_bad = false;
        put_cfi(&e, &e.moved[i]);
        e.cfi[i] = (struct cfi_piece){at, e.out->len - at, e.is_bad};
    }
    VEC_FREE(&e.past);
}

static void put_all_cfi(struct emitter *e)
{
    e->cfi = xmalloc(e->moved_count * sizeof *e->cfi);
    e->cfi_lists = xmalloc((e->moved_count / FUNCS_A_RANGE + 1) * sizeof *e->cfi_lists);
    parallel_for(e->moved_count, FUNCS_A_RANGE, put_cfi_range, e);
}

static void free_all_cfi(struct emitter *e)
{
    for (size_t k = 0; k <= e->moved_count / FUNCS_A_RANGE; k++)
        str_free(&e->cfi_lists[k]);
    free(e->cfi_lists);
    free(e->cfi);
}

/* ---- records ---- */

static size_t begin_record(struct emitter *e)
{
    size_t at = e->out->len;
    put_u32(e, 0);
    return at;
}

/* Zero bytes after the instructions are DW_CFA_nop. */
static void end_record(struct emitter *e, size_t at)
{
    pad_to(e, 8);
    patch_u32(e, at, (uint32_t)(e->out->len - at - 4));
}

static void put_augmentation(struct emitter *e, const struct image_cie *cie)
{
    bool has_personality = cie->personality_enc != DW_EH_PE_omit, has_lsda = cie->lsda_enc != DW_EH_PE_omit;
    put_uleb(e, (has_personality ? 5u : 0u) + (has_lsda ? 1u : 0u) + 1u, 1);
    if (has_personality) {
        put_u8(e, ENC_REF | (cie->personality_enc & DW_EH_PE_indirect));
        put_ref(e, cie->personality);
    }
    if (has_lsda)
        put_u8(e, ENC_REF);
    put_u8(e, ENC_REF);
}

static void put_cie(struct emitter *e, const struct image_cie *cie)
{
    size_t at = begin_record(e);
    put_u32(e, 0);
    put_u8(e, 1);
    char letters[8];
    int n = snprintf(letters, sizeof letters, "z%s%sR%s", cie->personality_enc != DW_EH_PE_omit ? "P" : "",
                     cie->lsda_enc != DW_EH_PE_omit ? "L" : "", cie->is_signal_frame ? "S" : "");
    put(e, letters, (size_t)n + 1);
    put_uleb(e, 1, 1);
    put_sleb(e, cie->data_align);
    put_u8(e, (uint8_t)cie->return_reg);
    put_augmentation(e, cie);
    put(e, cie->cfi, cie->cfi_len);
    end_record(e, at);
}

/* `cie_at` is the offset of the CIE in the new frame. Returns the address of the record. */
static uint64_t put_fde(struct emitter *e, size_t i, size_t cie_at, uint64_t lsda)
{
    const struct image_moved_func *m = &e->moved[i];
    const struct cfi_piece *cfi = &e->cfi[i];
    bool has_lsda = cie_of(e, m)->lsda_enc != DW_EH_PE_omit;
    size_t at = begin_record(e);
    put_u32(e, (uint32_t)(e->out->len - cie_at));
    put_ref(e, m->addr_new);
    e->is_bad |= m->len_new > INT32_MAX;
    put_u32(e, (uint32_t)m->len_new);
    put_uleb(e, has_lsda ? 4 : 0, 1);
    if (has_lsda)
        put_ref(e, lsda);
    e->is_bad |= cfi->is_bad;
    if (cfi->len)
        put(e, e->cfi_lists[i / FUNCS_A_RANGE].data + cfi->first, cfi->len);
    end_record(e, at);
    return e->vaddr + at;
}

/* ---- the three tables ---- */

struct table_row {
    uint64_t addr, record;
};

static int by_row(const void *a, const void *b)
{
    const struct table_row *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

struct blame {
    size_t first; /* that cannot be expressed; SIZE_MAX none */
    bool *each;   /* [moved_count] or NULL */
};

/* Was there anything that did not fit? Then it was function i, and the next begins anew. */
static void blame(struct emitter *e, size_t i, struct blame *b)
{
    if (!e->is_bad)
        return;
    e->is_bad = false;
    if (b->first > i)
        b->first = i;
    if (b->each)
        b->each[i] = true;
}

static void put_all_lsdas(struct emitter *e, uint64_t *lsda_at, struct blame *b)
{
    for (size_t i = 0; i < e->moved_count; i++) {
        lsda_at[i] = put_lsda(e, &e->moved[i]);
        blame(e, i, b);
    }
}

static void put_all_frames(struct emitter *e, const uint64_t *lsda_at, struct table_row *rows, struct blame *b)
{
    size_t *cie_at = xmalloc((e->u->cie_count + 2) * sizeof *cie_at); /* offset + 1; 0: not written yet */
    for (size_t i = 0; i < e->moved_count; i++) {
        uint32_t cie = cie_number(e, &e->moved[i]);
        e->is_bad |= !cie_of(e, &e->moved[i])->can_emit;
        if (!cie_at[cie]) {
            cie_at[cie] = e->out->len + 1;
            put_cie(e, cie_of(e, &e->moved[i]));
        }
        rows[i] = (struct table_row){e->moved[i].addr_new, put_fde(e, i, cie_at[cie] - 1, lsda_at[i])};
        blame(e, i, b);
    }
    free(cie_at);
    put_u32(e, 0);
}

/* LSB 10.6.2. The copies' rows stand behind the place of the old ones. -1: out of reach. */
static int put_header(struct emitter *e, uint64_t frame, struct table_row *rows)
{
    size_t old = e->u->fde_count, count = old + e->moved_count;
    bool is_sorted = true; /* as a rule: copies stand behind all that there was */
    for (size_t i = 0; i < old; i++)
        rows[i] = (struct table_row){e->u->fdes[i].addr, e->u->fdes[i].record};
    for (size_t i = 1; i < count && is_sorted; i++)
        is_sorted = rows[i - 1].addr < rows[i].addr;
    if (!is_sorted)
        qsort(rows, count, sizeof *rows, by_row);
    put_u8(e, 1);
    put_u8(e, ENC_REF);
    put_u8(e, DW_EH_PE_udata4);
    put_u8(e, ENC_TABLE);
    put_ref(e, frame);
    e->is_bad |= count > UINT32_MAX;
    put_u32(e, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        put_u32(e, near_offset(e, rows[i].addr, e->vaddr));
        put_u32(e, near_offset(e, rows[i].record, e->vaddr));
    }
    return e->is_bad ? -1 : 0;
}

static void next_table(struct emitter *e, struct strbuf *out, uint64_t *vaddr)
{
    if (e->out)
        e->vaddr = ALIGN_UP(here(e), 16u);
    e->out = out;
    *vaddr = e->vaddr;
}

static int emit_all(struct emitter *e, struct image_unwind_out *out, uint64_t *vaddr_lsda, uint64_t *vaddr_frame,
                    uint64_t *vaddr_hdr, struct blame *b)
{
    uint64_t *lsda_at = xmalloc(e->moved_count * sizeof *lsda_at);
    struct table_row *rows = xmalloc((e->moved_count + e->u->fde_count) * sizeof *rows);
    next_table(e, &out->lsda, vaddr_lsda);
    put_all_lsdas(e, lsda_at, b);
    next_table(e, &out->frame, vaddr_frame);
    put_all_frames(e, lsda_at, rows + e->u->fde_count, b);
    next_table(e, &out->hdr, vaddr_hdr);
    int rc = b->first == SIZE_MAX ? put_header(e, *vaddr_frame, rows) : -1;
    free(lsda_at);
    free(rows);
    return rc;
}

int image_unwind_emit(const struct image *img, const struct image_unwind *u, const struct image_moved_func *moved,
                      size_t moved_count, image_addr_map map, void *ctx, uint64_t vaddr_first,
                      struct image_unwind_out *out, uint64_t *vaddr_lsda, uint64_t *vaddr_frame, uint64_t *vaddr_hdr,
                      size_t *bad, bool *bad_each)
{
    struct blame b = {SIZE_MAX, bad_each};
    struct emitter e = {.img = img,
                        .u = u,
                        .moved = moved,
                        .moved_count = moved_count,
                        .map = map,
                        .ctx = ctx,
                        .vaddr = ALIGN_UP(vaddr_first, 16u)};
    memset(out, 0, sizeof *out);
    e.moved_of = xmalloc(u->fde_count * sizeof *e.moved_of);
    memset(e.moved_of, 0xff, u->fde_count * sizeof *e.moved_of);
    for (size_t i = 0; i < moved_count; i++)
        if (moved[i].fde < u->fde_count && !moved[i].is_part)
            e.moved_of[moved[i].fde] = (uint32_t)i;
    put_all_cfi(&e);
    int rc = emit_all(&e, out, vaddr_lsda, vaddr_frame, vaddr_hdr, &b);
    *bad = b.first;
    free(e.moved_of);
    free_all_cfi(&e);
    if (rc < 0) {
        str_free(&out->lsda);
        str_free(&out->frame);
        str_free(&out->hdr);
    }
    return rc;
}

/* ---- one function's, for who keeps the tables' own form ---- */

static struct emitter emitter_of_one(const struct image *img, const struct image_unwind *u, image_addr_map map,
                                     void *ctx, struct strbuf *out)
{
    return (struct emitter){.img = img, .u = u, .map = map, .ctx = ctx, .out = out};
}

int image_unwind_cfi_moved(const struct image *img, const struct image_unwind *u, const struct image_moved_func *m,
                           image_addr_map map, void *ctx, struct strbuf *out)
{
    struct emitter e = emitter_of_one(img, u, map, ctx, out);
    e.is_bad = u->cies[u->fdes[m->fde].cie].code_align != 1;
    put_cfi(&e, m);
    VEC_FREE(&e.past);
    return e.is_bad ? -1 : 0;
}

/* Behind the sites all is as it was: actions, types, specifications, and what is between them. The length of the sites
 * is written in as many bytes as keep the types aligned. */
int image_unwind_lsda_moved(const struct image *img, const struct image_unwind *u, const struct image_moved_func *m,
                            image_addr_map map, void *ctx, struct strbuf *out, struct image_lsda_moved *where)
{
    struct emitter e = emitter_of_one(img, u, map, ctx, out);
    struct lsda_plan p = {.m = m, .pad_base = m->addr_new};
    const struct image_fde *f = &u->fdes[m->fde];
    if (lsda_open(img, f, &p.old) < 0 || p.old.pad_base != f->addr)
        return -1;
    plan_sites(&e, &p);
    uint64_t raw = p.old.sites.vaddr + (uint64_t)(p.old.actions - p.old.sites.start);
    where->at = out->len;
    where->kept = raw;
    where->kept_len = p.old.types ? p.old.types + p.old.specs_len - raw : p.old.actions_len;
    unsigned width = uleb_len(p.sites.len);
    uint64_t to_types = p.old.types ? p.old.types - raw : 0, behind = 1 + p.sites.len + to_types;
    unsigned offset_width = p.old.types ? uleb_len(behind + width + 3) : 0;
    while (p.old.types && (out->len + 2 + offset_width + 1 + width + p.sites.len - raw) & 3)
        width++;
    put_u8(&e, DW_EH_PE_omit);
    put_u8(&e, p.old.type_enc);
    if (p.old.types)
        put_uleb(&e, behind + width, offset_width);
    put_u8(&e, DW_EH_PE_uleb128);
    put_uleb(&e, p.sites.len, width);
    put(&e, p.sites.data, p.sites.len);
    where->kept_at = out->len;
    const uint8_t *bytes = where->kept_len ? image_at(img, raw, where->kept_len) : NULL;
    e.is_bad |= where->kept_len && !bytes;
    if (bytes)
        put(&e, bytes, where->kept_len);
    str_free(&p.sites);
    return e.is_bad ? -1 : 0;
}

bool image_unwind_can_move(const struct image *img, const struct image_unwind *u, uint32_t fde)
{
    const struct image_fde *f = &u->fdes[fde];
    const struct image_cie *cie = &u->cies[f->cie];
    struct lsda l;
    return !f->is_signal_frame && cie->can_emit && cfi_can_move(img, cie, f) &&
           (!f->lsda || lsda_open(img, f, &l) == 0);
}
