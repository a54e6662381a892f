/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation that probes: where control enters an object (a procedure, a loop, a piece, a marked region) its
 * clock starts, where it leaves it stops. Each such edge, entrance or return is a site with a list of actions. The
 * runtime tells recursion by the stack pointer (src/rt); since that moves between the markers of a region (a frame that
 * is made late, an array on the stack), sites of regions tell the frame instead. Landing pads, and the returns of
 * setjmp, end what was left below them. An object that control may enter or leave in a way that is not seen gets no
 * probe.
 *
 * needs: funcs, block_group. fills: probes.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

#include "wire/wire.h"

struct entry {                 /* an action of a site */
    uint32_t site, cell, size; /* size: blocks of its object */
    enum rw_probe what;
    struct image_cfa frame;
};
struct site {
    uint32_t first, count; /* of entries */
    uint32_t func;
};
struct rw_probes {
    uint32_t *block_site, *edge_site, *entrance_site; /* ID_NONE: none; a block's stands in front of its last
                                                         instruction */
    VEC(struct entry) entries;
    VEC(struct site) sites;
};

struct object { /* one of the list */
    uint32_t cell;
    bool is_procedure, is_piece, is_region;
    uint32_t size;
};

struct planner {
    struct rw *w;
    uint8_t *inside;        /* by block: of the object that is looked at */
    VEC(uint32_t) members;  /* these blocks */
    VEC(uint32_t) funcs;    /* that have some of them */
    VEC(uint32_t) crossing; /* edges from one function to another */
    struct object object;
    VEC(struct entry) entries; /* of it: kept if it can be probed */
    bool is_refused;
};

/* ---- the code of a site ---- */

enum { SITE_BYTES = 19, ACTION_BYTES = 17, FRAME_BYTES = 13, PUSHED = 128 + 3 * 8 };

/* Of an action that tells the frame: lea rax,[CFA - 8]; mov [rsp-64],rax, which the runtime reads before anything else
 * is there. The stack pointer is PUSHED bytes below the program's. */
static uint8_t *put_frame(uint8_t *p, const struct image_cfa *frame)
{
    bool is_rsp = frame->reg == IMAGE_CFA_RSP;
    p = rw_put_bytes(p, is_rsp ? "\x48\x8d\x84\x24" : "\x48\x8d\x84\x25", 4);
    p = rw_put32(p, (uint32_t)(frame->offset - 8 + (is_rsp ? PUSHED : 0)));
    return rw_put_bytes(p, "\x48\x89\x44\x24\xc0", 5);
}

uint8_t *rw_put_site(uint8_t *at, uint64_t addr, const struct rw_probe_call *calls, unsigned n)
{
    uint8_t *to = rw_put_bytes(at, "\x48\x8d\x64\x24\x80\x50\x51\x52", 8);
    for (unsigned k = 0; k < n; k++) {
        if (calls[k].frame.reg != IMAGE_CFA_NONE)
            to = put_frame(to, &calls[k].frame);
        to = rw_put_bytes(to, "\x48\x8d\x0d", 3);
        to = rw_put32(to, calls[k].cell - (addr + (uint64_t)(to - at) + 4));
        to = rw_put_bytes(to, "\x0f\xae\xe8\x0f\x31", 5);
        rw_put_call(to, addr + (uint64_t)(to - at), calls[k].entrance);
        to += 5;
    }
    return rw_put_bytes(to, "\x5a\x59\x58\x48\x8d\xa4\x24\x80\x00\x00\x00", 11);
}

/* A site makes so many of its actions at most. */
enum { ACTIONS_MAX = UINT8_MAX };

static struct rw_probe_call call_of(const struct rw *w, const struct entry *e, bool gs)
{
    struct rw_action a = {e->cell, e->what, e->frame};
    return (struct rw_probe_call){w->counters_vaddr + e->cell * (uint64_t)WIRE_PROBE_BYTES, rw_blob_probe(w, &a, gs),
                                  e->frame};
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    struct rw_probe_call calls[ACTIONS_MAX];
    const struct site *s = &w->probes->sites.data[f->id];
    unsigned n = 0;
    for (; n < s->count && n < ACTIONS_MAX; n++)
        calls[n] = call_of(w, &w->probes->entries.data[s->first + n], f->how);
    rw_put_site(at, addr, calls, n);
}

static uint16_t bytes_of(const struct rw_probes *x, const struct site *s)
{
    uint32_t n = (uint32_t)min_u64(s->count, ACTIONS_MAX), bytes = SITE_BYTES + n * ACTION_BYTES;
    for (uint32_t k = 0; k < n; k++)
        bytes += x->entries.data[s->first + k].frame.reg != IMAGE_CFA_NONE ? FRAME_BYTES : 0;
    return (uint16_t)bytes;
}

static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    (void)w;
    uint32_t end = f->off + f->bytes;
    for (uint32_t k = 0; k <= 3; k++)
        rw_frame(out, f->off + 5 + k, 128 + 8 * k);
    for (uint32_t k = 0; k < 3; k++)
        rw_frame(out, end - 10 + k, 128 + 8 * (2 - k));
    rw_frame(out, end, 0);
}

/* ---- where it stands ---- */

static uint32_t next(const struct rw *w, uint32_t block, uint32_t insn)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[block];
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    return w->probes->block_site[block] != ID_NONE && last >= insn ? last : ID_NONE;
}

static uint32_t site_at(const struct rw_probes *x, struct rw_point point)
{
    switch (point.where) {
    case RW_ON_EDGE:
        return x->edge_site[point.at];
    case RW_ON_ENTRANCE:
        return x->entrance_site[point.at];
    case RW_BEFORE_INSN:
        return x->block_site[point.at];
    case RW_ON_GROUP:
    case RW_BEFORE_LOOP:
    case RW_BEHIND_LOOP:
    case RW_BEHIND_INSN:
    case RW_IN_SECOND:
    case RW_BEHIND_CODE:
        return ID_NONE;
    }
    return ID_NONE;
}

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    uint32_t site = site_at(w->probes, point);
    if (site == ID_NONE)
        return;
    const struct site *s = &w->probes->sites.data[site];
    rw_fragment_add(out,
                    (struct rw_fragment){
                        .bytes = bytes_of(w->probes, s), .id = site, .kind = RW_INSERTED, .how = w->funcs[s->func].gs});
}

/* ---- what the runtime does ---- */

static uint32_t runtime(const struct rw *w)
{
    return RW_RUNTIME_PROBES | (w->counter_count > WIRE_PROBE_BYTES / 8 ? RW_RUNTIME_PROBED : 0u);
}

/* ---- sites ---- */

static uint32_t site_of(struct rw *w, uint32_t *slot, uint32_t func)
{
    if (*slot == ID_NONE) {
        *slot = (uint32_t)w->probes->sites.len;
        VEC_PUSH(&w->probes->sites, ((struct site){.func = func}));
    }
    return *slot;
}

static struct image_cfa frame_at(const struct planner *p, uint64_t addr)
{
    const struct image_unwind *u = &p->w->cfg->unwind;
    uint32_t fde = image_unwind_find(u, addr);
    return fde == ID_NONE ? (struct image_cfa){IMAGE_CFA_NONE, 0} : image_unwind_cfa(p->w->img, u, &u->fdes[fde], addr);
}

/* At a site whose frame is that before the instruction at addr. */
static void act(struct planner *p, uint32_t *slot, uint32_t func, uint64_t addr, enum rw_probe what)
{
    struct image_cfa frame = {IMAGE_CFA_NONE, 0};
    if (p->object.is_region)
        frame = frame_at(p, addr);
    p->is_refused |= p->object.is_region && frame.reg == IMAGE_CFA_NONE;
    VEC_PUSH(&p->entries, ((struct entry){site_of(p->w, slot, func), p->object.cell, p->object.size, what, frame}));
}

/* Clocks stop from the inside outwards and start from the outside inwards: who encloses another has its probes too. */
static int by_order(const void *a, const void *b)
{
    static const int rank[] = {[RW_PROBE_LANDED] = 0, [RW_PROBE_STOP] = 1, [RW_PROBE_START] = 2};
    const struct entry *x = a, *y = b;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    if (x->what != y->what)
        return rank[x->what] - rank[y->what];
    int larger = (x->size > y->size) - (x->size < y->size);
    if (larger)
        return x->what == RW_PROBE_STOP ? larger : -larger;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

/* ---- one object ---- */

/* Of the function at addr, or of the imported one that a linkage stub there leads to; NULL not known. */
static const char *name_at(const struct rw *w, uint64_t addr)
{
    const struct cfg *c = w->cfg;
    uint32_t f = addr ? cfg_func_at(c, addr) : ID_NONE;
    uint64_t offset = 0;
    if (f == ID_NONE || !c->funcs.data[f].is_plt) {
        const char *name = addr ? image_symbol_name(w->img, addr, &offset) : NULL;
        return offset ? NULL : name;
    }
    const struct cfg_func *stub = &c->funcs.data[f];
    cfg_for_each_insn(stub, i) {
        const struct image_reloc *r =
            cfg_kind(c, i) == X86_JMP_IND ? image_reloc_at(w->img, cfg_insn_target(c, i)) : NULL;
        if (r)
            return r->sym_name;
    }
    return NULL;
}

/* Behind a call that returns again by longjmp, as behind a landing pad, what is further down the stack has been left.
 */
static bool returns_again(const struct rw *w, uint32_t b)
{
    static const char *const names[] = {"setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp"};
    bool is_behind_call = b && (w->cfg->blocks.data[b].flags & CFG_BLOCK_RETURN_POINT);
    const char *name = is_behind_call ? name_at(w, w->cfg->blocks.data[b - 1].call_target) : NULL;
    for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool may_enter_unseen(const struct planner *p, const struct cfg_block *b)
{
    unsigned others = CFG_BLOCK_ADDR_TAKEN | CFG_BLOCK_CALLED;
    return !p->object.is_procedure && (b->flags & others);
}

/* Behind a call on the other side of the object's border. */
static bool crosses_by_return(const struct planner *p, uint32_t b)
{
    const struct cfg_block *block = &p->w->cfg->blocks.data[b];
    return (block->flags & CFG_BLOCK_RETURN_POINT) && b && block[-1].func == block->func &&
           p->inside[b - 1] != p->inside[b];
}

/* Where control comes in from outside of the graph: by a call, by the return of one, by the unwinder. To stop what is
 * not under way does nothing; to start what did not begin would be wrong. */
static void plan_entrance(struct planner *p, uint32_t b)
{
    struct rw *w = p->w;
    const struct cfg_block *block = &w->cfg->blocks.data[b];
    bool in = p->inside[b], crosses = crosses_by_return(p, b);
    bool is_left = (block->flags & CFG_BLOCK_LANDING_PAD) || returns_again(w, b) || crosses;
    if (in && (may_enter_unseen(p, block) || (crosses && block->flags & CFG_BLOCK_EXT_IN & ~CFG_BLOCK_RETURN_POINT)))
        p->is_refused = true;
    if (in && (crosses || block->flags & (CFG_BLOCK_ENTRY | CFG_BLOCK_CALLED)))
        act(p, &w->probes->entrance_site[b], block->func, block->addr, RW_PROBE_START);
    if (!in && is_left)
        act(p, &w->probes->entrance_site[b], block->func, block->addr, RW_PROBE_STOP);
}

/* Control leaves the function, or for code that is not moved. */
static void plan_leaving(struct planner *p, uint32_t b)
{
    struct rw *w = p->w;
    const struct cfg_block *block = &w->cfg->blocks.data[b];
    bool ends_all = block->edge_count == 1 && !p->object.is_piece;
    switch ((enum x86_kind)block->term) {
    case X86_RET:
    case X86_JMP:
    case X86_JMP_IND:
        if (!ends_all || (block->term == X86_JMP_IND && !p->object.is_procedure))
            p->is_refused = true;
        else
            act(p, &w->probes->block_site[b], block->func,
                cfg_insn_addr(w->cfg, block->insn_first + block->insn_count - 1u), RW_PROBE_STOP);
        return;
    case X86_CALL: /* what does not return ends all, or an exception comes by */
    case X86_CALL_IND:
    case X86_TRAP:
    case X86_INT:
        return;
    default:
        p->is_refused = true;
    }
}

static void plan_edge(struct planner *p, uint32_t e)
{
    struct rw *w = p->w;
    const struct cfg_edge *edge = &w->cfg->edges.data[e];
    bool from = p->inside[edge->from];
    if (edge->kind == CFG_EDGE_RETURN)
        return;
    if (!rw_edge_inside(w, edge)) {
        if (from)
            plan_leaving(p, edge->from);
        return;
    }
    bool to = p->inside[edge->to];
    if (from == to || !rw_block_moved(w, edge->from))
        return;
    if (edge->kind == CFG_EDGE_TABLE && w->block_group[edge->from] != ID_NONE)
        p->is_refused = true; /* a table entry does not tell who used it */
    else
        act(p, &w->probes->edge_site[e], w->cfg->blocks.data[edge->from].func, w->cfg->blocks.data[edge->to].addr,
            from ? RW_PROBE_STOP : RW_PROBE_START);
}

static bool is_its_function(const struct planner *p, uint32_t func)
{
    for (size_t i = 0; i < p->funcs.len; i++)
        if (p->funcs.data[i] == func)
            return true;
    return false;
}

static void plan_function(struct planner *p, uint32_t func)
{
    const struct cfg *c = p->w->cfg;
    p->is_refused |= !p->w->funcs[func].is_moved;
    cfg_for_each_block(&c->funcs.data[func], b) {
        const struct cfg_block *block = &c->blocks.data[b];
        plan_entrance(p, b);
        cfg_for_each_edge(block, e)
            plan_edge(p, e);
    }
}

/* Nothing but its own functions' blocks and edges, and edges between functions, can concern it. The sites stay, without
 * actions of their own, if the object is refused. */
static void plan_object(struct planner *p)
{
    const struct cfg *c = p->w->cfg;
    p->entries.len = 0;
    p->is_refused = false;
    for (size_t i = 0; i < p->funcs.len; i++)
        plan_function(p, p->funcs.data[i]);
    for (size_t i = 0; i < p->crossing.len; i++)
        if (!is_its_function(p, c->blocks.data[c->edges.data[p->crossing.data[i]].from].func))
            plan_edge(p, p->crossing.data[i]);
    for (size_t i = 0; i < p->entries.len && !p->is_refused; i++)
        VEC_PUSH(&p->w->probes->entries, p->entries.data[i]);
    if (p->is_refused)
        diag_debug(1, "probe %u: control may come or go unseen", p->object.cell);
}

/* ---- the list ---- */

static void take_block(struct planner *p, uint32_t b)
{
    uint32_t func = p->w->cfg->blocks.data[b].func;
    p->inside[b] = 1;
    p->object.size++;
    VEC_PUSH(&p->members, b);
    if (!p->funcs.len || p->funcs.data[p->funcs.len - 1] != func) /* blocks come in their order */
        VEC_PUSH(&p->funcs, func);
}

static void find_procedure(struct planner *p, uint64_t addr)
{
    uint32_t f = cfg_func_at(p->w->cfg, addr);
    if (f == ID_NONE || p->w->cfg->funcs.data[f].addr != addr)
        return;
    cfg_for_each_block(&p->w->cfg->funcs.data[f], b)
        take_block(p, b);
}

static void find_loop(struct planner *p, uint64_t addr)
{
    const struct cfg *c = p->w->cfg;
    uint32_t header = cfg_block_start(c, addr);
    const struct cfg_func *f = header == ID_NONE ? NULL : &c->funcs.data[c->blocks.data[header].func];
    for (uint32_t l = f ? f->loop_first : 0; f && l < f->loop_first + f->loop_count; l++) {
        const struct cfg_loop *loop = &c->loops.data[l];
        if (loop->header != header)
            continue;
        for (uint32_t i = 0; i < loop->member_count; i++)
            take_block(p, c->loop_members.data[loop->member_first + i]);
    }
}

static void find_piece(struct planner *p, uint64_t lo, uint64_t hi)
{
    const struct cfg *c = p->w->cfg;
    uint32_t first = cfg_block_start(c, lo);
    if (first == ID_NONE)
        return;
    p->object.is_piece = true;
    for (uint32_t b = first; b < c->blocks.len && c->blocks.data[b].addr < hi; b++)
        if (c->blocks.data[b].func == c->blocks.data[first].func &&
            c->blocks.data[b].loop == c->blocks.data[first].loop)
            take_block(p, b);
}

static void find_region(struct planner *p, const char *name)
{
    struct cfg_marked region;
    cfg_marked_find(p->w->cfg, p->w->img, name, &region);
    p->object.is_region = true;
    for (size_t i = 0; i < region.blocks.len; i++)
        take_block(p, region.blocks.data[i]);
    VEC_FREE(&region.blocks);
}

static void plan_found(struct planner *p)
{
    if (p->members.len)
        plan_object(p);
    for (size_t i = 0; i < p->members.len; i++)
        p->inside[p->members.data[i]] = 0;
    p->members.len = p->funcs.len = 0;
}

static void begin(struct planner *p, uint32_t cell) { p->object = (struct object){.cell = cell}; }

/* For tests: every procedure and every loop. Returns the next cell. */
static uint32_t plan_everything(struct planner *p, uint32_t cell)
{
    const struct cfg *c = p->w->cfg;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        begin(p, cell++);
        p->object.is_procedure = true;
        find_procedure(p, c->funcs.data[f].addr);
        plan_found(p);
    }
    for (uint32_t l = 0; l < c->loops.len; l++) {
        begin(p, cell++);
        find_loop(p, c->blocks.data[c->loops.data[l].header].addr);
        plan_found(p);
    }
    return cell;
}

static void plan_one(struct planner *p, const struct rewrite_object *o, uint32_t cell)
{
    begin(p, cell);
    switch (o->kind) {
    case REWRITE_PROCEDURE:
        p->object.is_procedure = true;
        find_procedure(p, o->at);
        break;
    case REWRITE_LOOP:
        find_loop(p, o->at);
        break;
    case REWRITE_PIECE:
        find_piece(p, o->at, o->end);
        break;
    case REWRITE_REGION:
        find_region(p, o->region);
        break;
    }
    plan_found(p);
}

/* Returns the next cell. */
static uint32_t plan_objects(struct planner *p, const struct rewrite_objects *objects, uint32_t cell)
{
    if (objects && objects->all)
        return plan_everything(p, cell);
    for (size_t i = 0; objects && i < objects->len; i++)
        plan_one(p, &objects->data[i], cell++);
    return cell;
}

static void list_crossing(struct planner *p)
{
    const struct cfg *c = p->w->cfg;
    for (uint32_t e = 0; e < c->edges.len; e++)
        if (c->edges.data[e].to != ID_NONE &&
            c->blocks.data[c->edges.data[e].from].func != c->blocks.data[c->edges.data[e].to].func)
            VEC_PUSH(&p->crossing, e);
}

static void plan_branch_targets(struct rw *w)
{
    for (uint32_t b = 0; b < w->cfg->blocks.len; b++) {
        const struct cfg_block *block = &w->cfg->blocks.data[b];
        if (!rw_block_moved(w, b))
            continue;
        if ((block->flags & CFG_BLOCK_LANDING_PAD) || returns_again(w, b))
            VEC_PUSH(&w->probes->entries, ((struct entry){.site = site_of(w, &w->probes->entrance_site[b], block->func),
                                                          .what = RW_PROBE_LANDED}));
    }
}

static void drop(uint32_t *slot, const struct rw_probes *probes)
{
    if (*slot != ID_NONE && !probes->sites.data[*slot].count)
        *slot = ID_NONE;
}

/* Each site's actions side by side; sites that have none are none. */
static void order_sites(struct rw *w)
{
    struct rw_probes *x = w->probes;
    if (x->entries.len)
        qsort(x->entries.data, x->entries.len, sizeof *x->entries.data, by_order);
    for (uint32_t i = 0; i < x->entries.len; i++) {
        struct site *s = &x->sites.data[x->entries.data[i].site];
        if (s->count++ == 0)
            s->first = i;
    }
    for (uint32_t b = 0; b < w->cfg->blocks.len; b++) {
        drop(&x->block_site[b], x);
        drop(&x->entrance_site[b], x);
    }
    for (uint32_t e = 0; e < w->cfg->edges.len; e++)
        drop(&x->edge_site[e], x);
}

static uint32_t *no_sites(struct rw *w, size_t n)
{
    uint32_t *site = ARENA_ARRAY(w->arena, uint32_t, n + 1);
    memset(site, 0xff, n * sizeof *site);
    return site;
}

static void plan(struct rw *w)
{
    struct planner p = {.w = w, .inside = xmalloc(w->cfg->blocks.len + 1)};
    uint32_t cell = 1;
    w->probes = ARENA_NEW(w->arena, struct rw_probes);
    w->probes->block_site = no_sites(w, w->cfg->blocks.len);
    w->probes->entrance_site = no_sites(w, w->cfg->blocks.len);
    w->probes->edge_site = no_sites(w, w->cfg->edges.len);
    list_crossing(&p);
    cell = plan_objects(&p, w->opt->objects, cell);
    if (cell > 1)
        plan_branch_targets(w);
    order_sites(w);
    w->counter_count = cell * WIRE_PROBE_BYTES / 8;
    VEC_FREE(&p.entries);
    VEC_FREE(&p.members);
    VEC_FREE(&p.funcs);
    VEC_FREE(&p.crossing);
    free(p.inside);
}

static void forget(struct rw *w)
{
    if (!w->probes)
        return;
    VEC_FREE(&w->probes->entries);
    VEC_FREE(&w->probes->sites);
    w->probes = NULL;
}

const struct rw_instrument rw_probes = {
    .moves = true,
    .has_runtime = true,
    .has_words = true,
    .plan = plan,
    .forget = forget,
    .next = next,
    .insert = insert,
    .put = put,
    .frames = frames,
    .runtime = runtime,
    .runtime_frames = rw_blob_frames,
};
