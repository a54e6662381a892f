/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation of exact clocks, of relocatable objects: on each function's entrance, and in front of what leaves
 * it, a call of the runtime, which reads the time stamp counter (ldrt/clocks.c). By where that returns to it knows the
 * function, by the return address beside it the caller. All registers are kept; flags are dead there, and so is the red
 * zone. Small functions without calls and loops would take less time than is needed to look at the clock: they get a
 * counter on their entrance, and their time is their caller's, as if they were inlined.
 *
 *     enter: call mtool_enter; ...         leave: call mtool_leave; ret         landing pad: call mtool_landed; ...
 *
 * In line (clocks_in_line) a call that is not timed does not get there: words of the function's say of which caller the
 * next ones are not, and how many (wire/link.h); and what ends where no frame was put is below the last one's place.
 *
 *     leave: cmp rsp,[place]; jl end; call mtool_leave; end: ret
 *
 * What has no entrance of a function (its part that is seldom executed, with a name of its own) leaves it all the same.
 * Left alone is code that passes flags to its caller.
 */
#include "rewrite/impl.h"
#include "wire/link.h"

enum { CALL_BYTES = 5, LEAVE_BYTES = 14, SMALL_INSNS = 40, ENTRY_CFA = 8 };

enum clocked { LEFT_ALONE, SMALL, PART, WHOLE };

/* ---- which functions ---- */

static struct image_cfa cfa_at(const struct rw *w, const struct cfg_func *fn, uint64_t addr)
{
    return image_unwind_cfa(w->img, &w->cfg->unwind, &w->cfg->unwind.fdes[fn->fde], addr);
}

/* The return address is on top of the stack. */
static bool is_at_edge(const struct rw *w, const struct cfg_func *fn, uint64_t addr)
{
    struct image_cfa cfa = cfa_at(w, fn, addr);
    return cfa.reg == IMAGE_CFA_RSP && cfa.offset == ENTRY_CFA;
}

static bool is_small(const struct cfg *c, const struct cfg_func *fn)
{
    if (fn->insn_count > SMALL_INSNS || fn->loop_count)
        return false;
    cfg_for_each_block(fn, b) {
        const struct cfg_block *blk = &c->blocks.data[b];
        if (blk->term == X86_CALL || blk->term == X86_CALL_IND || blk->term == X86_JMP_IND ||
            blk->flags & CFG_BLOCK_SYSCALL)
            return false;
        cfg_for_each_edge(blk, e)
            if (c->edges.data[e].kind == CFG_EDGE_TAIL ||
                (c->edges.data[e].kind == CFG_EDGE_OUT && blk->term != X86_RET))
                return false;
    }
    return true;
}

static enum clocked clocked_of(const struct rw *w, uint32_t f)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    if (!w->funcs[f].is_moved || fn->fde == ID_NONE || (w->cfg->call_live && w->cfg->call_live[f].out))
        return LEFT_ALONE;
    if (!is_at_edge(w, fn, fn->addr))
        return PART;
    return !w->opt->all_blocks && is_small(w->cfg, fn) ? SMALL : WHOLE;
}

static void plan(struct rw *w)
{
    w->clocked = ARENA_ARRAY(w->arena, uint8_t, w->cfg->funcs.len + 1);
    w->clock_words = ARENA_ARRAY(w->arena, uint32_t, w->cfg->funcs.len + 1);
    for (uint32_t f = 0; f < w->cfg->funcs.len; f++) {
        w->clocked[f] = (uint8_t)clocked_of(w, f);
        w->clock_words[f] = ID_NONE;
        if (w->clocked[f] == SMALL)
            w->enter_counter[w->cfg->funcs.data[f].block_first] = w->counter_count++;
        if (w->clocked[f] == WHOLE && w->opt->clocks_in_line) {
            w->clock_words[f] = w->counter_count;
            w->counter_count += WIRE_CLOCKS_WORDS;
        }
    }
}

/* ---- where it stands ---- */

/* To the beginning of another function, as far as anybody knows, with its frame taken down. */
static bool jumps_away(const struct rw *w, const struct cfg_func *fn, const struct cfg_block *blk)
{
    bool leaves = false;
    cfg_for_each_edge(blk, e)
        leaves |= w->cfg->edges.data[e].kind == CFG_EDGE_TAIL || w->cfg->edges.data[e].kind == CFG_EDGE_OUT;
    return blk->term == X86_JMP && leaves &&
           is_at_edge(w, fn, cfg_insn_addr(w->cfg, blk->insn_first + blk->insn_count - 1));
}

static uint32_t next(const struct rw *w, uint32_t block, uint32_t insn)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[block];
    const struct cfg_func *fn = &w->cfg->funcs.data[blk->func];
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    if (w->clocked[blk->func] < PART || last < insn)
        return ID_NONE;
    return blk->term == X86_RET || jumps_away(w, fn, blk) ? last : ID_NONE;
}

/* ids: a hook, or behind those a function, whose entrance it is */
static void add(struct rw_fragments *out, uint32_t id, unsigned bytes)
{
    rw_fragment_add(out,
                    (struct rw_fragment){
                        .id = id, .bytes = (uint16_t)bytes, .kind = RW_INSERTED, .how = rw_how(RW_FORM_CLOCK, 0, 0)});
}

static void add_enter(const struct rw *w, uint32_t f, struct rw_fragments *out)
{
    if (w->clock_words[f] == ID_NONE)
        add(out, RW_LINK_ENTER, CALL_BYTES);
    else
        add(out, RW_LINK_COUNT + f, WIRE_CLOCKS_ENTER_BYTES);
}

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[point.at];
    if (point.where == RW_BEFORE_INSN) {
        add(out, RW_LINK_LEAVE, w->opt->clocks_in_line ? LEAVE_BYTES : CALL_BYTES);
    } else if (point.where == RW_ON_ENTRANCE && w->clocked[blk->func] >= PART) {
        if (w->clocked[blk->func] == WHOLE && point.at == w->cfg->funcs.data[blk->func].block_first)
            add_enter(w, blk->func, out);
        else if (blk->flags & CFG_BLOCK_LANDING_PAD)
            add(out, RW_LINK_LANDED, CALL_BYTES);
    } else if (point.where == RW_ON_ENTRANCE) {
        rw_counts.insert(w, point, out);
    }
}

static void put_enter(const struct rw *w, uint32_t f, uint8_t *at, uint64_t addr)
{
    uint64_t words = w->counters_vaddr + 8ull * w->clock_words[f], behind = addr + WIRE_CLOCKS_CMP_AT;
    uint8_t *p = rw_put_bytes(at, "\x50\x48\x8b\x44\x24\x08", 6);
    p = rw_put_access(p, &behind, false, 0x39, X86_RAX, words + 8 * WIRE_CLOCKS_CALLER);
    p = rw_put_bytes(p, "\x75\x0c", 2);
    behind += 2;
    p = rw_put_access(p, &behind, false, 0xff, 1, words + 8 * WIRE_CLOCKS_LEFT);
    p = rw_put_bytes(p, "\x78\x03\x58\xeb\x06\x58", 6);
    rw_put_call(p, addr + WIRE_CLOCKS_ENTER_BYTES - CALL_BYTES, rw_link_hook(w, RW_LINK_ENTER));
}

static void put_leave(const struct rw *w, uint8_t *at, uint64_t addr)
{
    uint64_t behind = addr;
    uint8_t *p = rw_put_access(at, &behind, false, 0x3b, X86_RSP, rw_link_hook(w, RW_LINK_PLACE));
    p = rw_put_bytes(p, "\x7c\x05", 2);
    rw_put_call(p, addr + LEAVE_BYTES - CALL_BYTES, rw_link_hook(w, RW_LINK_LEAVE));
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    if (rw_form_of(f->how) != RW_FORM_CLOCK)
        rw_counts.put(w, f, at, addr);
    else if (f->id >= RW_LINK_COUNT)
        put_enter(w, f->id - RW_LINK_COUNT, at, addr);
    else if (f->bytes == LEAVE_BYTES)
        put_leave(w, at, addr);
    else
        rw_put_call(at, addr, rw_link_hook(w, (enum rw_link_hook)f->id));
}

static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    static const struct {
        uint8_t at, pushed;
    } states[] = {{1, 8}, {25, 0}, {27, 8}, {28, 0}}; /* as wire/link.h draws it */
    if (rw_form_of(f->how) != RW_FORM_CLOCK)
        rw_counts.frames(w, f, out);
    else if (f->id >= RW_LINK_COUNT)
        for (size_t k = 0; k < ARRAY_LEN(states); k++)
            rw_frame(out, f->off + states[k].at, states[k].pushed);
}

const struct rw_instrument rw_clocks = {.moves = true,
                                        .tails_enter = true,
                                        .plan = plan,
                                        .place = rw_place,
                                        .next = next,
                                        .insert = insert,
                                        .put = put,
                                        .frames = frames};
