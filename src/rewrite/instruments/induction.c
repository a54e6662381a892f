/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted loops: a loop of one block that changes a register by the same constant each time round needs no counter
 * inside. What the register gained between entry and exit, divided by the step, is the number of turns:
 *
 *     preheader:  sub [c],R;  mov [p],R          on every way in but the loop's own
 *     the loop, untouched
 *     exit:       add [c],R;  mov [p],0          on the way out
 *
 * c is then step times the turns, in 64-bit arithmetic. p is the entry value while the loop is under way: if the
 * program is killed there, adding it back takes the unfinished entry out of the sum. An increment in a loop of a few
 * cycles would otherwise wait for its own store each time round.
 *
 * Where the code says how many turns every entry takes (the register is set to a constant in front of the loop, which
 * ends when it equals another), only the ways out are counted, and nothing stands in front:
 *
 *     exit:       inc [c]
 */
#include "rewrite/impl.h"

/* The step of an instruction that only adds a constant to a 64-bit register, 0 if it is none. */
static int64_t step_of(const uint8_t *p, unsigned len, uint8_t *reg)
{
    if (len < 3 || (p[0] & 0xf8) != 0x48)
        return 0;
    uint8_t rex = p[0], op = p[1], modrm = p[2], sub = modrm >> 3 & 7;
    int32_t imm32;
    *reg = (uint8_t)((modrm & 7) | (rex & 1) << 3);
    if (modrm >> 6 == 3) {
        if (op == 0x83 && len == 4 && (sub == 0 || sub == 5))
            return sub ? -(int64_t)(int8_t)p[3] : (int8_t)p[3];
        if (op == 0x81 && len == 7 && (sub == 0 || sub == 5)) {
            memcpy(&imm32, p + 3, 4);
            return sub ? -(int64_t)imm32 : imm32;
        }
        if (op == 0xff && len == 3 && sub < 2)
            return sub ? -1 : 1;
    }
    if ((op == 0x05 || op == 0x2d) && len == 6 && rex == 0x48) { /* add, sub rax,imm32 */
        *reg = X86_RAX;
        memcpy(&imm32, p + 2, 4);
        return op == 0x2d ? -(int64_t)imm32 : imm32;
    }
    bool same = (modrm & 7) == sub && (rex & 1) == (rex >> 2 & 1) && sub != X86_RSP; /* lea r,[r+d] */
    if (op == 0x8d && same && modrm >> 6 == 1 && len == 4)
        return (int8_t)p[3];
    if (op == 0x8d && same && modrm >> 6 == 2 && len == 7) {
        memcpy(&imm32, p + 3, 4);
        return imm32;
    }
    return 0;
}

static bool is_self_loop(const struct cfg *c, uint32_t b)
{
    const struct cfg_block *blk = &c->blocks.data[b];
    bool self = false, fall = false;
    cfg_for_each_edge(blk, e) {
        self |= c->edges.data[e].kind == CFG_EDGE_TAKEN && c->edges.data[e].to == b;
        fall |= c->edges.data[e].kind == CFG_EDGE_FALL && c->edges.data[e].to == b + 1;
    }
    return blk->term == X86_JCC && blk->edge_count == 2 && self && fall && (blk->flags & CFG_BLOCK_LOOP_HEADER) &&
           !(blk->flags & CFG_BLOCK_SYSCALL);
}

/* Is what the instruction says final? */
static bool is_known(const struct rw *w, uint32_t insn) { return !w->is_relocated || !w->is_relocated[insn]; }

/* A register of the block that one instruction changes by a constant and no other writes. */
static bool find_step(const struct rw *w, const struct cfg_block *blk, struct rw_step *out)
{
    const struct cfg *c = w->cfg;
    for (uint32_t k = 0; k < blk->insn_count; k++) {
        unsigned len = cfg_len(c, blk->insn_first + k);
        const uint8_t *p = image_at(w->img, cfg_insn_addr(c, blk->insn_first + k), len);
        uint8_t reg;
        int64_t step = step_of(p, len, &reg);
        bool only = step != 0 && reg != X86_RSP && is_known(w, blk->insn_first + k);
        for (uint32_t j = 0; j < blk->insn_count && only; j++)
            only = j == k || !(cfg_shape(c, blk->insn_first + j)->gpr_written >> reg & 1);
        if (!only)
            continue;
        out->step = (int32_t)step;
        out->reg = reg;
        out->done = (uint16_t)(cfg_insn_addr(c, blk->insn_first + k) + len - blk->addr);
        return true;
    }
    return false;
}

/* ---- how many turns ---- */

static const uint8_t *bytes_of_insn(const struct rw *w, uint32_t insn, unsigned *len)
{
    *len = cfg_len(w->cfg, insn);
    return image_at(w->img, cfg_insn_addr(w->cfg, insn), *len);
}

/* The constant that a 64-bit comparison with a register has. */
static bool compared_with(const uint8_t *p, unsigned len, unsigned reg, int32_t *out)
{
    bool is_short = len == 4 && p[1] == 0x83, is_long = len == 7 && p[1] == 0x81, is_rax = len == 6 && p[1] == 0x3d;
    if (p[0] != (is_rax ? 0x48u : 0x48u | reg >> 3) || !(is_short || is_long || is_rax))
        return false;
    if (is_rax ? reg != X86_RAX : p[2] != (0xf8u | (reg & 7)))
        return false;
    if (is_short)
        *out = (int8_t)p[3];
    else
        memcpy(out, p + len - 4, 4);
    return true;
}

/* The constant that an instruction sets a whole register to: xor r,r; mov $c,r. */
static bool set_to(const uint8_t *p, unsigned len, unsigned reg, int32_t *out)
{
    uint8_t rex = (p[0] & 0xf0) == 0x40 ? p[0] : 0, hi = (uint8_t)(reg >> 3), lo = (uint8_t)(reg & 7);
    const uint8_t *op = p + (rex != 0);
    unsigned rest = len - (rex != 0);
    if (rest == 2 && (op[0] == 0x31 || op[0] == 0x33)) {
        *out = 0;
        return op[1] == (0xc0 | lo << 3 | lo) && (rex & 5) == (hi | hi << 2);
    }
    bool is_short = rest == 5 && op[0] == (0xb8 | lo), is_signed = rest == 6 && op[0] == 0xc7 && op[1] == (0xc0 | lo);
    if (!(is_short || is_signed) || (rex & 1) != hi)
        return false;
    memcpy(out, p + len - 4, 4);
    return *out >= 0 || (is_signed && rex & 8); /* what is not signed would be beyond 2^31 */
}

/* What the register holds when the loop is entered, which must be from the block before and from nowhere else. */
static bool find_first(const struct rw *w, uint32_t b, unsigned reg, int32_t *out)
{
    const struct cfg *c = w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b], *before = blk - 1;
    if (blk->flags & CFG_BLOCK_EXT_IN || w->is_joined[b] || b == c->funcs.data[blk->func].block_first ||
        before->flags & CFG_BLOCK_SYSCALL)
        return false;
    for (uint32_t k = before->insn_count; k-- > 0;)
        if (cfg_shape(c, before->insn_first + k)->gpr_written >> reg & 1) {
            unsigned len;
            const uint8_t *p = bytes_of_insn(w, before->insn_first + k, &len);
            return is_known(w, before->insn_first + k) && set_to(p, len, reg, out);
        }
    return false;
}

/* The value of the register at which the loop ends: one that the last comparison names, or 0 where the jump decides
 * upon the sum itself. */
static bool find_last(const struct rw *w, const struct cfg_block *blk, const struct rw_step *s, int32_t *out)
{
    uint32_t jump = blk->insn_first + blk->insn_count - 1;
    unsigned len;
    const uint8_t *p = bytes_of_insn(w, jump, &len);
    struct x86_insn in;
    enum { NOT_EQUAL = 5 };
    if (blk->insn_count < 2 || !x86_decode(p, len, cfg_insn_addr(w->cfg, jump), &in) || in.cond != NOT_EQUAL)
        return false;
    p = bytes_of_insn(w, jump - 1, &len);
    *out = 0;
    if (cfg_insn_addr(w->cfg, jump) == blk->addr + s->done)
        return p[1] != 0x8d; /* lea sets no flags */
    return is_known(w, jump - 1) && compared_with(p, len, s->reg, out);
}

static void find_turns(const struct rw *w, uint32_t b, struct rw_step *s)
{
    int32_t first, last;
    if (!find_last(w, &w->cfg->blocks.data[b], s, &last) || !find_first(w, b, s->reg, &first))
        return;
    int64_t way = (int64_t)last - first;
    if (way % s->step || way / s->step <= 0 || way / s->step >= INT32_MAX)
        return;
    s->turns = (uint32_t)(way / s->step);
    s->first = first;
}

/* Can the block's counter become one at its loop's entry and exit? Called with the flags known to be dead at both
 * places. */
bool rw_induction(const struct rw *w, uint32_t b, struct rw_step *out)
{
    *out = (struct rw_step){.block = b, .gs = rw_gs_of(w->place[b].how)};
    if (w->opt->all_blocks || !is_self_loop(w->cfg, b) || !find_step(w, &w->cfg->blocks.data[b], out))
        return false;
    find_turns(w, b, out);
    return true;
}

const struct rw_step *rw_step_of(const struct rw *w, uint32_t b)
{
    const struct rw_step *s = w->steps.data;
    if (!(w->cfg->blocks.data[b].flags & CFG_BLOCK_LOOP_HEADER)) /* as is_self_loop wants it */
        return NULL;
    size_t at = PARTITION_POINT(i, 0, w->steps.len, s[i].block < b);
    return at < w->steps.len && s[at].block == b ? &s[at] : NULL;
}

unsigned rw_step_enter_bytes(const struct rw_step *s) { return s->turns ? 0 : s->gs ? 16 : 14; }

unsigned rw_step_leave_bytes(const struct rw_step *s)
{
    unsigned bytes = s->turns ? 7 : 18;
    return s->gs ? bytes + (s->turns ? 1 : 2) : bytes;
}

void rw_put_step_enter(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t b)
{
    const struct rw_step *s = rw_step_of(w, b);
    at = rw_put_access(at, &addr, s->gs, 0x29, s->reg, w->counters_vaddr + 8ull * w->block_counter[b]);
    rw_put_access(at, &addr, s->gs, 0x89, s->reg, w->counters_vaddr + 8ull * s->pending);
}

void rw_put_step_leave(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t b)
{
    const struct rw_step *s = rw_step_of(w, b);
    if (s->turns) {
        rw_put_access(at, &addr, s->gs, 0xff, 0, w->counters_vaddr + 8ull * w->block_counter[b]);
        return;
    }
    uint32_t rel = (uint32_t)(w->counters_vaddr + 8ull * s->pending - (addr + rw_step_leave_bytes(s)));
    at = rw_put_access(at, &addr, s->gs, 0x01, s->reg, w->counters_vaddr + 8ull * w->block_counter[b]);
    if (s->gs)
        *at++ = 0x65;
    at = rw_put32(rw_put_bytes(at, "\x48\xc7\x05", 3), rel);
    rw_put32(at, 0);
}
