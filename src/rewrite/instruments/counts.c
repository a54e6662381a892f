/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation that counts blocks and edges exactly: increments, or what stands before and behind a counted
 * loop (induction.c); in other hot loops, registers (counter_promotion.c). Which blocks and edges: tree.c; where in its
 * block and in which form: place.c.
 */
#include "rewrite/impl.h"

/* ---- the code ---- */

enum { LOCKED_BYTES = 8, LOCKED_PUSH_BYTES = 23, LOCK_PREFIX = 0xf0 };

static unsigned bytes_of(uint8_t how, bool locked)
{
    static const uint8_t bytes[RW_FORM_COUNT][2] = {
        [RW_FORM_INC] = {7, 8}, [RW_FORM_REG] = {18, 20}, [RW_FORM_PUSH] = {33, 35}};
    if (rw_form_of(how) == RW_FORM_VECTOR)
        return rw_vector_bytes(how);
    if (locked)
        return rw_form_of(how) == RW_FORM_INC ? LOCKED_BYTES : LOCKED_PUSH_BYTES;
    return bytes[rw_form_of(how)][rw_gs_of(how)];
}

/* mov r,[rip->c]; lea r,[r+1]; mov [rip->c],r : 18 bytes, 20 with gs */
static uint8_t *put_mov_lea_mov(uint8_t *p, uint64_t addr, bool gs, unsigned r, uint64_t c)
{
    uint8_t hi = (uint8_t)(r >> 3), lo = (uint8_t)(r & 7);
    p = rw_put_access(p, &addr, gs, 0x8b, r, c);
    *p++ = (uint8_t)(0x48 | hi << 2 | hi);
    *p++ = 0x8d;
    *p++ = (uint8_t)(0x40 | lo << 3 | lo); /* rsp and r12 would need a SIB byte: never chosen */
    *p++ = 1;
    addr += 4;
    return rw_put_access(p, &addr, gs, 0x89, r, c);
}

static uint64_t address_of(const struct rw *w, uint32_t counter) { return w->counters_vaddr + 8ull * counter; }

/* lock inc qword [rip->c]; around it, where flags are alive: lea rsp,[rsp-128]; pushfq; ...; popfq; lea rsp,[rsp+128]
 */
static void put_locked(uint8_t *at, uint64_t addr, enum rw_form form, uint64_t c)
{
    uint64_t behind = addr + 1 + (form == RW_FORM_PUSH ? 6 : 0);
    if (form == RW_FORM_PUSH)
        at = rw_put_bytes(at, "\x48\x8d\x64\x24\x80\x9c", 6);
    *at++ = LOCK_PREFIX;
    at = rw_put_access(at, &behind, false, 0xff, 0, c);
    if (form == RW_FORM_PUSH)
        rw_put_bytes(at, "\x9d\x48\x8d\xa4\x24\x80\x00\x00\x00", 9);
}

static void put_around_loop(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    if (rw_reg_of(f->how))
        rw_put_vector(w, f, at, addr);
    else if (rw_form_of(f->how) == RW_FORM_LOOP_ENTER)
        rw_put_step_enter(w, at, addr, f->id);
    else
        rw_put_step_leave(w, at, addr, f->id);
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    bool gs = rw_gs_of(f->how);
    if (w->opt->locked) {
        put_locked(at, addr, rw_form_of(f->how), address_of(w, f->id));
        return;
    }
    switch (rw_form_of(f->how)) {
    case RW_FORM_INC:
        rw_put_access(at, &addr, gs, 0xff, 0, address_of(w, f->id));
        return;
    case RW_FORM_REG:
        put_mov_lea_mov(at, addr, gs, rw_reg_of(f->how), address_of(w, f->id));
        return;
    case RW_FORM_PUSH: /* lea rsp,[rsp-128]; push rax; ...; pop rax; lea rsp,[rsp+128] */
        at = rw_put_bytes(at, "\x48\x8d\x64\x24\x80\x50", 6);
        at = put_mov_lea_mov(at, addr + 6, gs, 0, address_of(w, f->id));
        rw_put_bytes(at, "\x58\x48\x8d\xa4\x24\x80\x00\x00\x00", 9);
        return;
    case RW_FORM_LOOP_ENTER:
    case RW_FORM_LOOP_LEAVE:
        put_around_loop(w, f, at, addr);
        return;
    case RW_FORM_VECTOR:
        rw_put_vector(w, f, at, addr);
        return;
    case RW_FORM_NONE:
    case RW_FORM_CLOCK:
        return;
    }
}

static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    (void)w;
    if (rw_form_of(f->how) != RW_FORM_PUSH)
        return;
    rw_frame(out, f->off + 5, 128);
    rw_frame(out, f->off + 6, 136);
    rw_frame(out, f->off + f->bytes - 8, 128);
    rw_frame(out, f->off + f->bytes, 0);
}

/* ---- where it stands ---- */

static void plan(struct rw *w)
{
    for (uint32_t b = 0; w->opt->all_blocks && b < w->cfg->blocks.len; b++)
        if (rw_block_moved(w, b))
            w->block_counter[b] = RW_COUNTER_HOT; /* numbered with the others */
    rw_tree(w);
}

static uint32_t next(const struct rw *w, uint32_t block, uint32_t insn)
{
    uint32_t at = w->cfg->blocks.data[block].insn_first + w->place[block].at;
    enum rw_form form = rw_form_of(w->place[block].how);
    bool is_in_line =
        w->block_counter[block] != ID_NONE && form != RW_FORM_NONE && !(form == RW_FORM_VECTOR && rw_step_of(w, block));
    return is_in_line && at >= insn ? at : ID_NONE;
}

static void add(struct rw_fragments *out, uint32_t id, unsigned bytes, uint8_t how)
{
    rw_fragment_add(out, (struct rw_fragment){.id = id, .bytes = (uint16_t)bytes, .kind = RW_INSERTED, .how = how});
}

static void add_counter(const struct rw *w, struct rw_fragments *out, uint32_t counter, uint8_t how)
{
    if (counter != ID_NONE)
        add(out, counter, bytes_of(how, w->opt->locked), how);
}

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    uint32_t at = point.at;
    const struct rw_step *step;
    switch (point.where) {
    case RW_ON_EDGE:
        add_counter(w, out, w->edge_counter[at], w->edge_how[at]);
        rw_insert_vectors(w, at, out);
        return;
    case RW_ON_ENTRANCE:
        add_counter(w, out, w->enter_counter[at], w->enter_how[at]);
        return;
    case RW_ON_GROUP:
        add_counter(w, out, w->group_edges.data[at].counter, w->enter_how[w->group_edges.data[at].to]);
        return;
    case RW_BEFORE_LOOP:
        step = rw_step_of(w, at);
        if (step && rw_step_enter_bytes(step))
            add(out, at, rw_step_enter_bytes(step), rw_how(RW_FORM_LOOP_ENTER, 0, 0));
        return;
    case RW_BEHIND_LOOP:
        step = rw_step_of(w, at);
        if (step && rw_form_of(w->place[at].how) == RW_FORM_VECTOR)
            add_counter(w, out, w->block_counter[at], w->place[at].how);
        else if (step)
            add(out, at, rw_step_leave_bytes(step), rw_how(RW_FORM_LOOP_LEAVE, 0, 0));
        return;
    case RW_BEFORE_INSN:
        add_counter(w, out, w->block_counter[at], w->place[at].how);
        return;
    case RW_BEHIND_INSN:
    case RW_IN_SECOND:
    case RW_BEHIND_CODE:
        return;
    }
}

/* ---- what the runtime does ---- */

/* Copies that count sample too where nobody else can. */
static uint32_t runtime(const struct rw *w)
{
    return (w->img->kind != IMAGE_DSO ? RW_RUNTIME_SAMPLER : 0) | (w->eh_frame_bytes ? RW_RUNTIME_FAULTS : 0);
}

static struct image_moved_func runtime_frames(const struct rw *w, struct rw_frames *out)
{
    (void)out;
    return (struct image_moved_func){IMAGE_FDE_SIGNAL, rw_blob_fault_return(w) - 1, 16, NULL, 0, false};
}

/* ---- what the map says of it ---- */

/* Of a block's own counter, or of a counted loop's entry. */
static uint16_t mark_of(const struct rw *w, uint32_t block)
{
    const struct rw_label *label = &w->label[block];
    const struct rw_step *step = w->block_counter[block] == ID_NONE ? NULL : rw_step_of(w, block);
    if (w->block_counter[block] == ID_NONE || (step && step->turns))
        return 0;
    if (label->again > label->body)
        return rw_mark(0, label->again - label->body);
    const struct rw_fragment *f = &w->funcs[w->cfg->blocks.data[block].func].fragments[label->first];
    while (f->kind != RW_INSERTED || f->off < label->again)
        f++;
    return rw_mark(f->off - label->again, f->bytes);
}

static void describe(struct rw *w, uint32_t func)
{
    cfg_for_each_block(&w->cfg->funcs.data[func], b)
        w->mark[b] = mark_of(w, b);
}

const struct rw_instrument rw_counts = {
    .moves = true,
    .has_runtime = true,
    .has_words = true,
    .plan = plan,
    .place = rw_place,
    .next = next,
    .insert = insert,
    .put = put,
    .frames = frames,
    .describe = describe,
    .runtime = runtime,
    .runtime_frames = runtime_frames,
};
