/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of sections that are moved, and its relocations: each old one goes with its instruction, and what was
 * inserted gets one for each counter that it refers to. A jump that stays in its section needs none.
 *
 * needs: layout, count. fills: sections' bytes_new, relas_new.
 */
#include "rewrite/relocatable/relocatable.h"

#include <stddef.h>
#include <stdlib.h>

enum { TRAP = 0xcc };

static const struct rel_object *object_of(const struct rw *w)
{
    return (const struct rel_object *)(const void *)((const char *)w - offsetof(struct rel_object, w));
}

/* Where code at an old address is now, for those who hold it as a value. */
static uint64_t moved_address(const struct rw *w, uint64_t addr)
{
    const struct rel_object *o = object_of(w);
    uint32_t f = cfg_func_at(w->cfg, addr);
    if (f == ID_NONE) /* the end of one, perhaps */
        f = cfg_func_at(w->cfg, addr - 1);
    if (f == ID_NONE || !w->funcs[f].is_moved)
        return addr;
    const struct rel_section *s = &o->sections[o->section_of_func[f]];
    return s->vaddr_new + rel_entrance(o, s, addr - s->vaddr);
}

/* ---- relocations ---- */

static void add_rela(struct rel_section *s, uint64_t at, uint32_t sym, uint32_t type, int64_t addend)
{
    Elf64_Rela r = {at, ELF64_R_INFO((uint64_t)sym, (uint64_t)type), addend};
    VEC_PUSH(&s->relas_new, r);
}

/* Does the jump end in its own section, by the emitter's knowledge? */
static bool is_settled(const struct rel_object *o, const struct rel_section *s, const struct rel_point *p)
{
    const struct cfg *c = o->w.cfg;
    uint32_t i = cfg_insn_at(c, s->vaddr + p->old), b = cfg_block_of(c, i);
    uint8_t kind = cfg_kind(c, i);
    struct rw_arrival to;
    return (kind == X86_JMP || kind == X86_JCC) && rw_branch_arrives(&o->w, b, false, &to);
}

static void move_rela(struct rel_object *o, struct rel_section *s, const Elf64_Rela *r)
{
    const struct rel_point *p = rel_point_at(s, r->r_offset);
    if (!p || is_settled(o, s, p))
        return;
    unsigned width = rel_width(rel_type(r)), behind = p->old + p->len_old - (uint32_t)r->r_offset;
    uint64_t at = p->len == p->len_old ? p->at + (r->r_offset - p->old) : p->at + p->len - behind;
    uint8_t *field = (uint8_t *)s->bytes_new.data + at;
    int64_t addend = r->r_addend;
    const struct rel_section *to = rel_code_of_symbol(o, rel_sym(r));
    enum rel_class class = rel_class_of(rel_type(r));
    memcpy(field, s->bytes + r->r_offset, width);
    if (to && to->is_moved && (class == REL_ABSOLUTE || class == REL_RELATIVE)) {
        int bias = class == REL_RELATIVE ? (int)behind : 0;
        uint64_t target = o->syms[rel_sym(r)].st_value + (uint64_t)r->r_addend + (uint64_t)bias;
        addend = rel_addend(o, rel_sym(r), rel_entrance(o, to, target), bias);
    }
    add_rela(s, at, rel_sym(r), rel_type(r), addend);
}

/* ---- what was inserted ---- */

/* The relocation of an instruction's operand, for a copy of it in what was inserted at `base`. */
static void copy_operand(struct rel_object *o, struct rel_section *s, const struct rw_operand *of, uint64_t base)
{
    uint64_t lo = cfg_insn_addr(o->w.cfg, of->insn) - s->vaddr, hi = lo + cfg_len(o->w.cfg, of->insn);
    uint64_t end = base + of->end;
    size_t k = PARTITION_POINT(i, 0, s->rela_count, s->relas[i].r_offset < lo);
    if (k == s->rela_count || s->relas[k].r_offset >= hi)
        return;
    const Elf64_Rela *r = &s->relas[k];
    int64_t addend = r->r_addend + of->more;
    if (rel_class_of(rel_type(r)) == REL_RELATIVE)
        addend += (int64_t)(hi - r->r_offset) - 4;
    memset(s->bytes_new.data + end - 4, 0, 4);
    add_rela(s, end - 4, rel_sym(r), rel_type(r), addend);
}

static void relocate_access(struct rel_object *o, struct rel_section *s, const struct rel_unit *u, uint64_t at,
                            const struct x86_insn *i)
{
    uint32_t counter = o->counter_number[(i->target - o->w.counters_vaddr) / 8];
    int bias = i->len - i->disp_off;
    memset((uint8_t *)s->bytes_new.data + at + i->disp_off, 0, 4);
    add_rela(s, at + i->disp_off, u->counters_symbol, R_X86_64_PC32, (int64_t)(8ull * counter) - bias);
}

static void relocate_hook(struct rel_object *o, struct rel_section *s, uint64_t at, const struct x86_insn *i)
{
    unsigned hook = (unsigned)((i->target - o->w.link_hooks_vaddr) / RW_LINK_HOOK_BYTES);
    o->has_hook[hook] = true;
    o->stats->runtime_calls++;
    memset((uint8_t *)s->bytes_new.data + at + 1, 0, 4);
    add_rela(s, at + 1, rel_hook_symbol(o, hook), R_X86_64_PLT32, -4);
}

/* A word of the runtime's, which an instruction in front of `end` reads. */
static void relocate_word(struct rel_object *o, struct rel_section *s, uint64_t at, const struct x86_insn *i)
{
    unsigned hook = (unsigned)((i->target - o->w.link_hooks_vaddr) / RW_LINK_HOOK_BYTES);
    uint32_t type = hook == RW_LINK_TRACE_STATE ? R_X86_64_GOTTPOFF : R_X86_64_PC32;
    o->has_hook[hook] = true;
    memset((uint8_t *)s->bytes_new.data + at + i->disp_off, 0, 4);
    add_rela(s, at + i->disp_off, rel_hook_symbol(o, hook), type, i->disp_off - i->len);
}

static bool is_hook(const struct rel_object *o, const struct x86_insn *i)
{
    return i->target - o->w.link_hooks_vaddr < RW_LINK_COUNT * (uint64_t)RW_LINK_HOOK_BYTES;
}

static void relocate_inserted(struct rel_object *o, struct rel_section *s, uint32_t f, const struct rw_fragment *fr)
{
    uint64_t base = o->w.funcs[f].addr_new - s->vaddr_new + fr->off;
    const uint8_t *p = (const uint8_t *)s->bytes_new.data + base;
    const struct rw_instrument *by = o->w.instrument;
    struct rw_operand operands[RW_OPERANDS_MAX];
    unsigned count = by->operands ? by->operands(&o->w, fr, operands) : 0, k = 0;
    for (unsigned at = 0; at < fr->bytes;) {
        struct x86_insn i;
        int n = x86_decode(p + at, fr->bytes - at, s->vaddr_new + base + at, &i);
        if (n == 0)
            return;
        if (k < count && at + (unsigned)n == operands[k].end)
            copy_operand(o, s, &operands[k++], base);
        else if (i.kind == X86_CALL)
            relocate_hook(o, s, base + at, &i);
        else if (i.props & X86_PROP_RIPREL && is_hook(o, &i))
            relocate_word(o, s, base + at, &i);
        else if (i.props & X86_PROP_RIPREL && !(i.props & X86_PROP_LEA)) /* lea: a place in this code */
            relocate_access(o, s, &o->units.data[o->unit_of_func[f]], base + at, &i);
        at += (unsigned)n;
    }
}

static void relocate_all_inserted(struct rel_object *o, struct rel_section *s)
{
    for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++) {
        const struct rw_func *fn = &o->w.funcs[f];
        for (uint32_t i = 0; i < fn->fragment_count; i++)
            if (fn->fragments[i].kind == RW_INSERTED)
                relocate_inserted(o, s, f, &fn->fragments[i]);
    }
}

/* ---- bytes ---- */

static void fill_padding(const struct rel_object *o, struct rel_section *s)
{
    uint64_t at = 0;
    for (uint32_t f = s->func_first; f <= s->func_first + s->func_count; f++) {
        bool is_end = f == s->func_first + s->func_count;
        uint64_t next = is_end ? s->size_new : o->w.funcs[f].addr_new - s->vaddr_new;
        if (o->opt->poison)
            memset(s->bytes_new.data + at, TRAP, next - at);
        else
            rw_put_nops((uint8_t *)s->bytes_new.data + at, (unsigned)(next - at));
        at = is_end ? next : next + o->w.funcs[f].size_new;
    }
}

struct emitted {
    const struct rw *w;
    uint8_t *text; /* of w->text_vaddr */
};

static void emit_range(void *ctx, size_t first, size_t end)
{
    const struct emitted *e = ctx;
    for (size_t f = first; f < end; f++)
        if (e->w->funcs[f].is_moved)
            rw_emit_function(e->w, (uint32_t)f, e->text + (e->w->funcs[f].addr_new - e->w->text_vaddr));
}

void rel_code(struct rel_object *o)
{
    struct rw *w = &o->w;
    w->moved_address = moved_address;
    struct emitted e = {w, xmalloc(w->text_bytes + 16)};
    memset(e.text, TRAP, w->text_bytes + 16);
    parallel_for(w->cfg->funcs.len, RW_FUNCS_A_RANGE, emit_range, &e);
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        if (!s->is_moved)
            continue;
        str_put(&s->bytes_new, e.text + (s->vaddr_new - w->text_vaddr), s->size_new);
        fill_padding(o, s);
        for (size_t k = 0; k < s->rela_count; k++)
            move_rela(o, s, &s->relas[k]);
        if (o->units.len)
            relocate_all_inserted(o, s);
        s->has_new = true;
    }
    free(e.text);
}
