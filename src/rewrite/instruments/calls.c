/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation that counts calls, of relocatable objects: a counter in each block that ends in a call, or in a
 * jump to another function; one on each function's entrance, which tells calls by code that is not rewritten; and in
 * front of a call through a pointer, whose target only the run knows, a call of the runtime with the target in r11,
 * which counts pairs of site and target (ldrt/calls.c).
 *
 *     push r11; mov r11,target; call mtool_indirect; pop r11
 *
 * In front of a jump that is perhaps none out of the function the red zone is kept as well. The stack pointer is
 * somewhere else meanwhile, which operands relative to it are corrected for. Where flags are alive (in assembly), a
 * site counts its calls, and the targets' entrances tell the rest.
 */
#include "rewrite/instruments/operand.h"

enum { RED_ZONE = 128, SLOT = 8, MOVE_MAX = 16, MOVE_DOWN = 5, MOVE_UP = 8, PUSH_BYTES = 2, CALL_BYTES = 5 };
enum { CALL_MEMORY = 2, JUMP_MEMORY = 4, MOD_REGISTER = 3 };

/* ---- the target of a jump or call through a pointer ---- */

struct target {
    bool is_register;
    unsigned reg;
    struct operand m;  /* base X86_REG_RIP: relative to the instruction */
    bool is_relocated; /* by a number that only the linker knows */
};

/* call *... or jmp *... in one of the forms of compilers; false: another one. */
static bool read_target(const struct rw *w, uint32_t i, struct target *out)
{
    struct x86_insn in = cfg_insn(w->cfg, i);
    const uint8_t *p = image_at(w->img, in.addr, in.len), *end = p + in.len;
    *out = (struct target){.is_relocated = w->is_relocated && w->is_relocated[i]};
    uint8_t rex = 0;
    while (p < end && (*p == 0x3e || *p == 0xf2 || *p == FS)) /* notrack, bnd */
        out->m.prefix = *p == FS ? FS : out->m.prefix, p++;
    if (p < end && (*p & 0xf0) == 0x40)
        rex = *p++;
    unsigned what = end - p > 1 ? p[1] >> 3 & 7 : 0;
    if (end - p < 2 || p[0] != 0xff || (what != CALL_MEMORY && what != JUMP_MEMORY))
        return false;
    out->is_register = p[1] >> 6 == MOD_REGISTER;
    out->reg = (p[1] & 7u) | (rex & 1u) << 3;
    if (out->is_register)
        return out->reg != X86_RSP;
    bool is_rip = in.props & X86_PROP_RIPREL;
    out->m.base = in.mem_base;
    out->m.index = in.mem_index;
    out->m.scale = in.mem_scale;
    out->m.disp = 0;
    if (in.disp_len == 1)
        out->m.disp = (int8_t)image_at(w->img, in.addr + in.disp_off, 1)[0];
    if (in.disp_len == 4) {
        int32_t disp;
        memcpy(&disp, image_at(w->img, in.addr + in.disp_off, 4), 4);
        out->m.disp = disp;
    }
    return (in.disp_len == 0 || in.disp_len == 1 || in.disp_len == 4) && (!is_rip || in.disp_len == 4);
}

/* mov r11,target, with the stack pointer so far below. Its last four bytes are the displacement, where one is
 * relocated. */
static uint8_t *put_target(uint8_t *p, const struct target *t, int32_t below)
{
    struct operand m = t->m;
    if (t->is_register) {
        *p++ = (uint8_t)(0x49 | t->reg >> 3 << 2);
        *p++ = STORE;
        *p++ = (uint8_t)(0xc0 | (t->reg & 7) << 3 | (X86_R11 & 7));
        return p;
    }
    if (m.base == X86_REG_RIP) { /* what is not relocated leads nowhere: see judge.c */
        p = rw_put_bytes(p, m.prefix ? "\x64\x4c\x8b\x1d" : "\x4c\x8b\x1d", m.prefix ? 4 : 3);
        return rw_put32(p, 0);
    }
    if (m.base == X86_RSP)
        m.disp += below;
    return put_insn(p, LOAD, X86_R11, m);
}

/* ---- the code ---- */

static bool is_jump(const struct rw_fragment *f) { return rw_gs_of(f->how); }

static uint8_t *put_site(const struct rw *w, uint32_t insn, bool jumps, uint8_t *at, uint64_t addr)
{
    struct target t;
    uint8_t *p = at;
    read_target(w, insn, &t);
    if (jumps)
        p = rw_put_bytes(p, "\x48\x8d\x64\x24\x80", MOVE_DOWN);
    p = rw_put_bytes(p, "\x41\x53", PUSH_BYTES);
    p = put_target(p, &t, SLOT + (jumps ? RED_ZONE : 0));
    rw_put_call(p, addr + (uint64_t)(p - at),
                rw_link_hook(w, w->opt->locked ? RW_LINK_INDIRECT_LOCKED : RW_LINK_INDIRECT));
    p = rw_put_bytes(p + CALL_BYTES, "\x41\x5b", PUSH_BYTES);
    if (jumps)
        p = rw_put_bytes(p, "\x48\x8d\xa4\x24\x80\x00\x00\x00", MOVE_UP);
    return p;
}

static unsigned site_bytes(const struct rw *w, uint32_t insn, bool jumps)
{
    uint8_t bytes[2 * MOVE_MAX + MOVE_DOWN + MOVE_UP + 2 * PUSH_BYTES + CALL_BYTES];
    return (unsigned)(put_site(w, insn, jumps, bytes, 0) - bytes);
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    if (rw_form_of(f->how) == RW_FORM_INDIRECT)
        put_site(w, f->id, is_jump(f), at, addr);
    else
        rw_counts.put(w, f, at, addr);
}

static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    uint32_t red_zone = is_jump(f) ? RED_ZONE : 0, down = red_zone ? MOVE_DOWN : 0, up = red_zone ? MOVE_UP : 0;
    if (rw_form_of(f->how) != RW_FORM_INDIRECT) {
        rw_counts.frames(w, f, out);
        return;
    }
    if (red_zone)
        rw_frame(out, f->off + down, red_zone);
    rw_frame(out, f->off + down + PUSH_BYTES, red_zone + SLOT);
    if (red_zone)
        rw_frame(out, f->off + f->bytes - up, red_zone);
    rw_frame(out, f->off + f->bytes, 0);
}

static unsigned operands(const struct rw *w, const struct rw_fragment *f, struct rw_operand out[RW_OPERANDS_MAX])
{
    struct target t;
    if (rw_form_of(f->how) != RW_FORM_INDIRECT || !read_target(w, f->id, &t) || t.is_register || !t.is_relocated)
        return 0;
    out[0] =
        (struct rw_operand){.insn = f->id, .end = f->bytes - PUSH_BYTES - CALL_BYTES - (is_jump(f) ? MOVE_UP : 0u)};
    return 1;
}

/* ---- what is counted ---- */

static bool leaves(const struct rw *w, const struct cfg_edge *e)
{
    (void)w;
    return e->kind == CFG_EDGE_TAIL || (e->kind == CFG_EDGE_OUT && e->to == ID_NONE);
}

static bool has_table(const struct cfg *c, const struct cfg_block *blk)
{
    cfg_for_each_edge(blk, e)
        if (c->edges.data[e].kind == CFG_EDGE_TABLE)
            return true;
    return false;
}

/* Through a pointer that is not the linker's own: of those the linked file tells the target. */
static bool is_by_pointer(const struct rw *w, const struct cfg_block *blk)
{
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    struct target t;
    return (blk->term == X86_CALL_IND || (blk->term == X86_JMP_IND && !has_table(w->cfg, blk))) &&
           !(w->is_named && w->is_named[last]) && read_target(w, last, &t);
}

/* A conditional jump out of the function: what it is taken is what does not fall out of the block. */
static void plan_conditional(struct rw *w, uint32_t b)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    bool is_any = false;
    cfg_for_each_edge(blk, e)
        is_any |= leaves(w, &w->cfg->edges.data[e]);
    if (!is_any)
        return;
    w->block_counter[b] = w->counter_count++;
    cfg_for_each_edge(blk, e)
        if (w->cfg->edges.data[e].kind == CFG_EDGE_FALL && rw_edge_inside(w, &w->cfg->edges.data[e]))
            w->edge_counter[e] = w->counter_count++;
}

static void plan_block(struct rw *w, uint32_t b)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    bool is_any = false;
    if (blk->flags & CFG_BLOCK_ENTRY)
        w->enter_counter[b] = w->counter_count++;
    switch ((enum x86_kind)blk->term) {
    case X86_CALL:
    case X86_CALL_IND:
        is_any = true;
        break;
    case X86_JMP_IND:
        is_any = !has_table(w->cfg, blk);
        break;
    case X86_JMP:
        cfg_for_each_edge(blk, e)
            is_any |= leaves(w, &w->cfg->edges.data[e]);
        break;
    case X86_JCC:
    case X86_JCXZ:
        plan_conditional(w, b);
        return;
    default:
        return;
    }
    if (is_any)
        w->block_counter[b] = w->counter_count++;
}

static void plan(struct rw *w)
{
    for (uint32_t b = 0; b < w->cfg->blocks.len; b++)
        if (rw_block_moved(w, b))
            plan_block(w, b);
}

/* Sites of pointers get the runtime's call instead of a counter, where no flag is alive. */
static void place_func(struct rw *w, uint32_t f, struct cfg_liveness *l)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    bool is_built = false;
    cfg_for_each_block(fn, b) {
        const struct cfg_block *blk = &w->cfg->blocks.data[b];
        struct cfg_live live[CFG_BLOCK_INSNS_MAX];
        if (!is_by_pointer(w, blk))
            continue;
        if (!is_built)
            cfg_liveness_build(w->cfg, f, l);
        is_built = true;
        cfg_live_inside(l, b, live, CFG_BLOCK_INSNS_MAX);
        if (live[blk->insn_count - 1].flags)
            continue;
        w->block_counter[b] = ID_NONE;
        w->place[b] =
            (struct rw_place){(uint16_t)(blk->insn_count - 1), rw_how(RW_FORM_INDIRECT, 0, blk->term == X86_JMP_IND)};
    }
}

static void place(struct rw *w)
{
    struct cfg_liveness l = {0};
    rw_place(w);
    for (uint32_t f = 0; f < w->cfg->funcs.len; f++)
        if (w->funcs[f].is_moved)
            place_func(w, f, &l);
    cfg_liveness_fini(&l);
}

static bool is_site(const struct rw *w, uint32_t block)
{
    return w->block_counter[block] == ID_NONE && rw_form_of(w->place[block].how) == RW_FORM_INDIRECT;
}

static uint32_t next(const struct rw *w, uint32_t block, uint32_t insn)
{
    uint32_t at = w->cfg->blocks.data[block].insn_first + w->place[block].at;
    if (is_site(w, block))
        return at >= insn ? at : ID_NONE;
    return rw_counts.next(w, block, insn);
}

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    if (point.where != RW_BEFORE_INSN || !is_site(w, point.at)) {
        rw_counts.insert(w, point, out);
        return;
    }
    uint8_t how = w->place[point.at].how;
    rw_fragment_add(out, (struct rw_fragment){.id = point.insn,
                                              .bytes = (uint16_t)site_bytes(w, point.insn, rw_gs_of(how)),
                                              .kind = RW_INSERTED,
                                              .how = how});
}

const struct rw_instrument rw_calls = {.moves = true,
                                       .plan = plan,
                                       .place = place,
                                       .next = next,
                                       .insert = insert,
                                       .put = put,
                                       .frames = frames,
                                       .operands = operands};
