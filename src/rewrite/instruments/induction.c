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

/* A register of the block that one instruction changes by a constant and no other writes. */
static bool find_step(const struct rw *w, const struct cfg_block *blk, struct rw_step *out)
{
    const struct cfg *c = w->cfg;
    for (uint32_t k = 0; k < blk->insn_count; k++) {
        unsigned len = cfg_len(c, blk->insn_first + k);
        const uint8_t *p = image_at(w->img, cfg_insn_addr(c, blk->insn_first + k), len);
        uint8_t reg;
        int64_t step = step_of(p, len, &reg);
        bool only = step != 0 && reg != X86_RSP;
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

/* Turns the block's counter into one at its loop's entry and exit, if that can be. Called with the flags known to be
 * dead at both places. */
void rw_induction(struct rw *w, uint32_t b)
{
    struct rw_step s = {0};
    if (w->opt->all_blocks || !is_self_loop(w->cfg, b) || !find_step(w, &w->cfg->blocks.data[b], &s))
        return;
    s.gs = rw_gs_of(w->place[b].how);
    w->step[b] = s;
    w->place[b].how = rw_how(RW_FORM_NONE, 0, 0);
}

unsigned rw_step_enter_bytes(const struct rw_step *s) { return !s->step ? 0 : s->gs ? 16 : 14; }
unsigned rw_step_leave_bytes(const struct rw_step *s) { return !s->step ? 0 : s->gs ? 20 : 18; }

void rw_put_step_enter(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t b)
{
    const struct rw_step *s = &w->step[b];
    at = rw_put_access(at, &addr, s->gs, 0x29, s->reg, w->counters_vaddr + 8ull * w->block_counter[b]);
    rw_put_access(at, &addr, s->gs, 0x89, s->reg, w->counters_vaddr + 8ull * s->pending);
}

void rw_put_step_leave(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t b)
{
    const struct rw_step *s = &w->step[b];
    uint32_t rel = (uint32_t)(w->counters_vaddr + 8ull * s->pending - (addr + rw_step_leave_bytes(s)));
    at = rw_put_access(at, &addr, s->gs, 0x01, s->reg, w->counters_vaddr + 8ull * w->block_counter[b]);
    if (s->gs)
        *at++ = 0x65;
    at = rw_put32(rw_put_bytes(at, "\x48\xc7\x05", 3), rel);
    rw_put32(at, 0);
}
