/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions in another order, each block by itself and in its place: code keeps its size, and so do all addresses
 * but those of single instructions. Somebody else says which order; here is found what he must know of a block, and
 * what else speaks of single instructions follows: relocations, lines, ranges.
 *
 * needs: judge. fills: bytes_new and relas_new of code, windows, the record; clears is_moved.
 */
#include "rewrite/relocatable/relocatable.h"

struct ordering {
    struct rel_object *o;
    struct rel_section *s;
    const struct cfg_func *fn;
    bool *is_walled;  /* [cfg->insns.len + 1]: nothing passes the place in front of it */
    bool *may_unwind; /* [cfg->insns.len]: what faults here may be caught by the function itself */
    struct cfg_frame frame;
    struct cfg_liveness live;
    bool is_compiled;
};

/* ---- places that nothing passes ---- */

static void wall_at(struct ordering *w, uint64_t addr)
{
    uint32_t i = cfg_insn_at(w->o->w.cfg, addr);
    if (i != ID_NONE)
        w->is_walled[i] = true;
}

static void wall_row(void *ctx, uint64_t addr) { wall_at(ctx, addr); }

static void take_site(void *ctx, uint64_t lo, uint64_t hi, uint64_t pad)
{
    struct ordering *w = ctx;
    wall_at(w, lo);
    wall_at(w, hi);
    cfg_for_each_insn(w->fn, i) {
        uint64_t at = cfg_insn_addr(w->o->w.cfg, i);
        w->may_unwind[i] |= pad && at >= lo && at < hi;
    }
}

static void wall_symbols(struct ordering *w)
{
    const struct rel_object *o = w->o;
    for (uint32_t k = 1; k < o->sym_count; k++) {
        const struct rel_section *s = rel_code_of_symbol(o, k);
        if (s)
            wall_at(w, s->vaddr + o->syms[k].st_value);
    }
}

/* Linkers write these anew together with what stands beside them. */
static bool is_sequence(uint32_t type)
{
    return type == R_X86_64_TLSGD || type == R_X86_64_TLSLD || type == R_X86_64_GOTPC32_TLSDESC ||
           type == R_X86_64_TLSDESC_CALL;
}

static void hold(struct ordering *w, uint32_t i) { w->is_walled[i] = w->is_walled[i + 1] = true; }

/* What refers to a place by its own without a relocation stays where it is. */
static void hold_odd(struct ordering *w)
{
    const struct cfg *c = w->o->w.cfg;
    cfg_for_each_insn(w->fn, i) {
        const struct x86_insn *in = cfg_shape(c, i);
        bool has_access = in->loads || in->stores || in->op == X86_OP_DIV || in->op == X86_OP_IDIV;
        if ((in->props & X86_PROP_RIPREL && !w->o->is_relocated[i]) || (has_access && w->may_unwind[i]))
            hold(w, i);
    }
    uint64_t lo = w->fn->addr - w->s->vaddr;
    size_t k = PARTITION_POINT(r, 0, w->s->rela_count, w->s->relas[r].r_offset < lo);
    for (; k < w->s->rela_count && w->s->relas[k].r_offset < lo + w->fn->size; k++) {
        uint32_t b = cfg_block_at(c, w->s->vaddr + w->s->relas[k].r_offset);
        if (b == ID_NONE || !is_sequence(rel_type(&w->s->relas[k])))
            continue;
        cfg_for_each_insn(&c->blocks.data[b], i)
            if (w->s->vaddr + w->s->relas[k].r_offset - cfg_insn_addr(c, i) < cfg_len(c, i))
                hold(w, i);
    }
}

static bool find_walls(struct ordering *w)
{
    struct rel_object *o = w->o;
    if (image_unwind_row_starts(o->w.img, &o->w.cfg->unwind, w->fn->fde, wall_row, w) < 0 ||
        image_unwind_call_sites(o->w.img, &o->w.cfg->unwind, w->fn->fde, take_site, w) < 0)
        return false;
    hold_odd(w);
    return true;
}

/* ---- what is known of an instruction ---- */

static bool is_word_of_table(uint32_t type)
{
    return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX ||
           type == R_X86_64_GOTTPOFF;
}

/* The memory that its relocated address is in: that of a word of the linker's table, or of a section, if no other
 * object can put another definition in its place. */
static void find_memory(const struct ordering *w, const Elf64_Rela *r, unsigned behind, struct rewrite_order_insn *out)
{
    const struct rel_object *o = w->o;
    const Elf64_Sym *sym = &o->syms[rel_sym(r)];
    enum rel_class class = rel_class_of(rel_type(r));
    if (is_word_of_table(rel_type(r)))
        out->memory = REWRITE_ORDER_CONSTANT;
    if ((class != REL_RELATIVE && class != REL_ABSOLUTE) || !sym->st_shndx || sym->st_shndx >= SHN_LORESERVE ||
        ELF64_ST_BIND(sym->st_info) == STB_WEAK || ELF64_ST_BIND(sym->st_info) == STB_GNU_UNIQUE)
        return;
    const struct rel_section *to = &o->sections[sym->st_shndx];
    bool is_constant = !(to->h.sh_flags & SHF_WRITE);
    if (!(to->h.sh_flags & SHF_ALLOC) || to->h.sh_flags & SHF_TLS || (to->group && !is_constant))
        return;
    out->memory = is_constant ? REWRITE_ORDER_CONSTANT : REWRITE_ORDER_DATA;
    out->section = sym->st_shndx;
    out->offset = (int64_t)(sym->st_value + (uint64_t)r->r_addend + (class == REL_RELATIVE ? behind : 0));
}

static void describe(const struct ordering *w, uint32_t i, struct rewrite_order_insn *out)
{
    const struct cfg *c = w->o->w.cfg;
    const struct x86_insn *in = cfg_shape(c, i);
    uint64_t at = cfg_insn_addr(c, i) - w->s->vaddr;
    *out = (struct rewrite_order_insn){.bytes = w->s->bytes + at,
                                       .len = cfg_len(c, i),
                                       .is_walled = w->is_walled[i],
                                       .is_relocated = w->o->is_relocated[i],
                                       .addr = at};
    size_t k = PARTITION_POINT(r, 0, w->s->rela_count, w->s->relas[r].r_offset < at);
    for (; k < w->s->rela_count && w->s->relas[k].r_offset < at + out->len; k++)
        if (in->disp_len && w->s->relas[k].r_offset == at + in->disp_off)
            find_memory(w, &w->s->relas[k], out->len - in->disp_off, out);
}

/* ---- flags behind a block ---- */

static uint8_t flags_behind(const struct ordering *w, uint32_t b)
{
    const struct cfg *c = w->o->w.cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    struct cfg_live inside[CFG_BLOCK_INSNS_MAX];
    if (!w->is_compiled)
        return X86_ALL_FLAGS;
    cfg_for_each_edge(blk, e) /* into another part of the function */
        if (c->edges.data[e].kind == CFG_EDGE_OUT && (blk->term == X86_JMP || blk->term == X86_JCC))
            return X86_ALL_FLAGS;
    if (blk->term == X86_PLAIN) {
        uint8_t live = 0;
        cfg_for_each_edge(blk, e) {
            if (!cfg_func_has_block(w->fn, c->edges.data[e].to))
                return X86_ALL_FLAGS;
            live |= cfg_live_before(&w->live, c->edges.data[e].to).flags;
        }
        return live;
    }
    cfg_live_inside(&w->live, b, inside, blk->insn_count); /* what ends it changes none */
    return inside[blk->insn_count - 1].flags;
}

static bool jumps_to_itself(const struct cfg *c, uint32_t b)
{
    cfg_for_each_edge(&c->blocks.data[b], e)
        if (c->edges.data[e].to == b)
            return true;
    return false;
}

/* ---- taking an order ---- */

static void add_window(struct rel_section *s, const struct rewrite_order_insn *insns, const uint32_t *now,
                       uint32_t first, uint32_t end)
{
    struct rel_window win = {.lo = (uint32_t)insns[first].addr,
                             .hi = (uint32_t)(insns[end - 1].addr + insns[end - 1].len),
                             .first = (uint32_t)s->turns_old.len,
                             .count = end - first};
    for (uint32_t i = first; i < end; i++) {
        VEC_PUSH(&s->turns_old, (uint32_t)insns[i].addr);
        VEC_PUSH(&s->turns_now, now[i]);
    }
    VEC_PUSH(&s->windows, win);
}

/* Writes the block, and notes the smallest runs of instructions that changed places among themselves. */
static void take_order(struct rel_section *s, const struct rewrite_order_insn *insns, uint32_t count, const uint8_t *at)
{
    uint32_t now[REWRITE_ORDER_MAX];
    uint64_t to = insns[0].addr;
    for (uint32_t n = 0; n < count; n++) {
        now[at[n]] = (uint32_t)to;
        memcpy(s->bytes_new.data + to, insns[at[n]].bytes, insns[at[n]].len);
        to += insns[at[n]].len;
    }
    for (uint32_t n = 0, first = 0, most = 0; n < count; n++) {
        most = at[n] > most ? at[n] : most;
        if (most > n)
            continue;
        if (n > first)
            add_window(s, insns, now, first, n + 1);
        first = most = n + 1;
    }
}

static unsigned depth_of(const struct cfg *c, uint32_t b)
{
    uint32_t loop = c->blocks.data[b].loop;
    return loop == ID_NONE ? 0 : c->loops.data[loop].depth;
}

static void order_block(struct ordering *w, uint32_t b)
{
    const struct cfg *c = w->o->w.cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    struct rewrite_order_insn insns[REWRITE_ORDER_MAX];
    struct rewrite_order_answer answer = {0};
    if (!blk->insn_count || blk->insn_count > REWRITE_ORDER_MAX)
        return;
    for (uint32_t i = 0; i < blk->insn_count; i++)
        describe(w, blk->insn_first + i, &insns[i]);
    struct rewrite_order_block block = {.insns = insns,
                                        .count = blk->insn_count,
                                        .flags_live = flags_behind(w, b),
                                        .stack_is_private = w->frame.is_private,
                                        .rbp_is_frame = w->frame.rbp_is_frame,
                                        .repeats = jumps_to_itself(c, b)};
    w->o->opt->order(w->o->opt->order_ctx, &block, &answer);
    if (answer.is_new) {
        take_order(w->s, insns, blk->insn_count, answer.at);
        w->o->stats->blocks_ordered++;
    }
    struct rel_ordered_block out = {.offset = (uint32_t)(blk->addr - w->fn->addr),
                                    .insns = blk->insn_count,
                                    .depth = (uint8_t)depth_of(c, b),
                                    .is_new = answer.is_new,
                                    .cycles = {answer.cycles[0], answer.cycles[1]},
                                    .stalls = {answer.stalls[0], answer.stalls[1]}};
    VEC_PUSH(&w->o->ordered_blocks, out);
}

static void order_function(struct ordering *w, uint32_t f)
{
    struct rel_object *o = w->o;
    w->fn = &o->w.cfg->funcs.data[f];
    if (!find_walls(w))
        return;
    w->frame = w->is_compiled ? cfg_frame_of(o->w.cfg, f) : (struct cfg_frame){0};
    cfg_liveness_build(o->w.cfg, f, &w->live);
    struct rel_ordered out = {.func = f, .first = (uint32_t)o->ordered_blocks.len};
    cfg_for_each_block(w->fn, b)
        order_block(w, b);
    out.count = (uint32_t)o->ordered_blocks.len - out.first;
    VEC_PUSH(&o->ordered, out);
}

/* ---- relocations ---- */

static const struct rel_window *window_at(const struct rel_section *s, uint64_t off)
{
    size_t n = PARTITION_POINT(i, 0, s->windows.len, s->windows.data[i].hi <= off);
    return n < s->windows.len && s->windows.data[n].lo <= off ? &s->windows.data[n] : NULL;
}

static uint64_t moved_offset(const struct rel_section *s, uint64_t off)
{
    const struct rel_window *win = window_at(s, off);
    if (!win)
        return off;
    const uint32_t *old = s->turns_old.data + win->first;
    size_t k = PARTITION_POINT(i, 0, win->count, old[i] <= off) - 1;
    return s->turns_now.data[win->first + k] + (off - old[k]);
}

/* By offset; those that are in order keep it. */
static void sort_relas(struct rel_relas *r)
{
    for (size_t i = 1; i < r->len; i++) {
        Elf64_Rela x = r->data[i];
        size_t k = i;
        for (; k && r->data[k - 1].r_offset > x.r_offset; k--)
            r->data[k] = r->data[k - 1];
        r->data[k] = x;
    }
}

static void move_relas(struct rel_section *s)
{
    for (size_t k = 0; k < s->rela_count; k++) {
        Elf64_Rela r = s->relas[k];
        r.r_offset = moved_offset(s, r.r_offset);
        VEC_PUSH(&s->relas_new, r);
    }
    sort_relas(&s->relas_new);
}

static void tell_windows(struct rel_section *s)
{
    for (size_t i = 0; i < s->windows.len; i++) {
        const struct rel_window *win = &s->windows.data[i];
        VEC_PUSH(&s->told, ((struct dwarf_window){win->lo, win->hi, win->count, s->turns_old.data + win->first,
                                                  s->turns_now.data + win->first}));
    }
}

/* ---- all ---- */

void rel_order(struct rel_object *o)
{
    size_t insns = o->w.cfg->insns.len;
    struct ordering w = {.o = o,
                         .is_walled = ARENA_ARRAY(o->arena, bool, insns + 2),
                         .may_unwind = ARENA_ARRAY(o->arena, bool, insns + 1),
                         .is_compiled = rel_is_compiled(o)};
    wall_symbols(&w);
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = w.s = &o->sections[i];
        if (!s->is_code || !s->is_moved)
            continue;
        str_put(&s->bytes_new, s->bytes, s->h.sh_size);
        for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++)
            order_function(&w, f);
        move_relas(s);
        tell_windows(s);
        s->has_new = true;
    }
    cfg_liveness_fini(&w.live);
}

/* ---- for debug information ---- */

const struct dwarf_window *rel_window_behind(const struct rel_section *s, uint64_t off)
{
    size_t n = PARTITION_POINT(i, 0, s->told.len, s->told.data[i].hi <= off);
    return n < s->told.len ? &s->told.data[n] : NULL;
}

uint64_t rel_slot(const struct rel_section *s, uint64_t off)
{
    const struct rel_window *win = window_at(s, off);
    if (!win || win->lo == off)
        return off;
    const uint32_t *old = s->turns_old.data + win->first, *now = s->turns_now.data + win->first;
    size_t k = PARTITION_POINT(i, 0, win->count, old[i] < off); /* so many come before it */
    for (uint32_t i = 0; i < win->count; i++) {                 /* the one that so many come before now */
        uint32_t before = 0;
        for (uint32_t j = 0; j < win->count; j++)
            before += now[j] < now[i];
        if (before == k)
            return now[i];
    }
    return win->hi;
}
