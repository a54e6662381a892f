/* SPDX-License-Identifier: Apache-2.0
 * Registers and a piece of stack of a stopped thread to the chain of calls that it is in, by the unwind tables of the
 * files that run. Chains that begin alike share what is alike: a tree whose nodes are told by number. */
#include <stdlib.h>

#include "launch/impl.h"

enum { DEPTH_MAX = 512, NODES_MAX = 1 << 22, RBP = 6, RSP = 7 };

struct tables { /* of one module */
    bool is_tried;
    struct image *img; /* NULL: cannot be read */
    struct image_unwind unwind;
};
struct stacks {
    struct launch_program *p;
    struct spaces *spaces;
    VEC(struct tables) tables; /* [module] */
    VEC(struct observed_frame) nodes;
    struct map by_hash;
    struct map frame_sizes;       /* place and alignment of a frame -> rbp - rsp in it, as seen where both were known */
    struct map callers;           /* frame_key -> node of the caller, in the last whole chain */
    void (*meanwhile)(void *ctx); /* NULL: nothing; see stacks_meanwhile */
    void *meanwhile_ctx;
};

struct stacks *stacks_new(struct launch_program *p, struct spaces *spaces)
{
    struct stacks *k = xmalloc(sizeof *k);
    k->p = p;
    k->spaces = spaces;
    return k;
}

void stacks_free(struct stacks *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->tables.len; i++)
        image_close(k->tables.data[i].img);
    VEC_FREE(&k->tables);
    VEC_FREE(&k->nodes);
    map_fini(&k->by_hash);
    map_fini(&k->frame_sizes);
    map_fini(&k->callers);
    free(k);
}

void stacks_meanwhile(struct stacks *k, void (*meanwhile)(void *ctx), void *ctx)
{
    k->meanwhile = meanwhile;
    k->meanwhile_ctx = ctx;
}

struct reading {
    const struct launch_module *module;
    struct tables *tables;
};

/* A file that cannot be read only ends the walk. */
static void read_tables(void *ctx)
{
    struct reading *r = ctx;
    struct tables *t = r->tables;
    struct strbuf said = {0}, *held = diag_held();
    diag_hold(&said);
    if (image_open_copy(r->module->copy ? r->module->copy : r->module->path, &t->img) < 0) {
        t->img = NULL;
    } else if (image_unwind_read(t->img, &t->unwind) < 0) {
        image_close(t->img);
        t->img = NULL;
    }
    diag_hold(held);
    str_free(&said);
}

static const struct tables *tables_of(struct stacks *k, uint32_t module)
{
    while (k->tables.len <= module)
        VEC_PUSH(&k->tables, (struct tables){0});
    struct tables *t = &k->tables.data[module];
    if (t->is_tried)
        return t;
    t->is_tried = true;
    struct reading r = {&k->p->modules[module], t};
    if (k->meanwhile)
        parallel_meanwhile(read_tables, &r, k->meanwhile, k->meanwhile_ctx);
    else
        read_tables(&r);
    return t;
}

static bool read_copy(void *ctx, uint64_t addr, uint64_t *word)
{
    const struct stack_bytes *b = ctx;
    if (addr < b->from || b->len < sizeof *word || addr - b->from > b->len - sizeof *word)
        return false;
    memcpy(word, b->bytes + (addr - b->from), sizeof *word);
    return true;
}

static uint32_t child_of(struct stacks *k, uint32_t parent, struct observed_place at)
{
    uint64_t h = ((uint64_t)parent * 0x9e3779b97f4a7c15u) ^ ((uint64_t)at.module << 48) ^
                 (at.vaddr * 0xff51afd7ed558ccdu),
             i = 0;
    for (; map_get(&k->by_hash, h, &i); h++) {
        const struct observed_frame *n = &k->nodes.data[i];
        if (n->parent == parent && n->module == at.module && n->vaddr == at.vaddr)
            return (uint32_t)i;
    }
    if (k->nodes.len >= NODES_MAX)
        return parent == ID_NONE ? 0 : parent; /* the first node has none either */
    map_put(&k->by_hash, h, k->nodes.len);
    VEC_PUSH(&k->nodes, ((struct observed_frame){parent, at.module, at.vaddr}));
    return (uint32_t)k->nodes.len - 1;
}

/* Of a thread that waits only rsp is known, and a function with a frame pointer needs rbp: the distance of the two is
 * the same each time at one place (but for what a realigned stack makes of rsp), so it is learnt from threads that run.
 */
static void learn_or_guess(struct stacks *k, struct observed_place at, struct image_frame *f)
{
    uint64_t size, key = sample_key(at.module, at.vaddr) ^ (f->regs[RSP] & 63) << 42;
    if (!(f->known >> RSP & 1))
        return;
    if (f->known >> RBP & 1) {
        map_put(&k->frame_sizes, key, f->regs[RBP] - f->regs[RSP]);
    } else if (map_get(&k->frame_sizes, key, &size)) {
        f->regs[RBP] = f->regs[RSP] + size;
        f->known |= 1u << RBP;
    }
}

/* ---- chains that are cut ---- */

/* Where the copy of the stack ends within a frame (of more than 8 KB, or below such), its caller is taken for that
 * which the last whole chain had through the same place with the same stack pointer. While the frame is under way that
 * is so; of frames that come and go, those that are cut are shared out as those are that are not. */
static uint64_t frame_key(uint32_t pid, struct observed_place at, uint64_t rsp)
{
    return sample_key(at.module, at.vaddr) ^ (rsp * 0x9e3779b97f4a7c15u) ^ ((uint64_t)pid * 0xff51afd7ed558ccdu);
}

/* ID_NONE: nobody knows. */
static uint32_t known_caller(const struct stacks *k, uint64_t key)
{
    uint64_t known;
    return map_get(&k->callers, key, &known) ? (uint32_t)known : ID_NONE;
}

static uint32_t cut(struct stacks *k)
{
    return child_of(k, ID_NONE, (struct observed_place){ID_NONE, OBSERVED_VADDR_UNKNOWN});
}

uint32_t stacks_walk(struct stacks *k, uint32_t pid, struct image_frame *f, const struct stack_bytes *stack)
{
    struct observed_place places[DEPTH_MAX];
    uint64_t keys[DEPTH_MAX];
    struct stack_bytes bytes = *stack;
    enum image_step step = IMAGE_STEP_CALLER;
    size_t n = 0;
    for (; n < DEPTH_MAX && step == IMAGE_STEP_CALLER; n++) {
        struct observed_place *at = &places[n];
        if (!spaces_locate(k->spaces, pid, f->pc - (n > 0), &at->module, &at->vaddr)) {
            *at = (struct observed_place){ID_NONE, OBSERVED_VADDR_UNKNOWN};
            step = IMAGE_STEP_BOTTOM; /* the unknown frame itself says so */
            continue;
        }
        const struct tables *t = tables_of(k, at->module);
        if (n > 0)
            learn_or_guess(k, *at, f);
        keys[n] = frame_key(pid, *at, f->known >> RSP & 1 ? f->regs[RSP] : 0);
        step = t->img ? image_unwind_step(t->img, &t->unwind, at->vaddr, f, read_copy, &bytes) : IMAGE_STEP_LOST;
    }
    bool is_whole = step == IMAGE_STEP_BOTTOM && places[n - 1].module != ID_NONE;
    uint32_t node = step != IMAGE_STEP_BOTTOM && n > 1 ? known_caller(k, keys[n - 1]) : ID_NONE;
    if (step != IMAGE_STEP_BOTTOM && node == ID_NONE)
        node = cut(k);
    while (n--) {
        uint32_t caller = node;
        node = child_of(k, caller, places[n]);
        if (is_whole && n > 0 && caller != ID_NONE)
            map_put(&k->callers, keys[n], caller);
    }
    return node;
}

uint32_t stacks_single(struct stacks *k, struct observed_place at)
{
    uint32_t unknown = cut(k);
    return at.module == ID_NONE && at.vaddr == OBSERVED_VADDR_UNKNOWN ? unknown : child_of(k, unknown, at);
}

void stacks_fill(const struct stacks *k, struct launch_result *out)
{
    out->frames = ARENA_ARRAY(out->arena, struct observed_frame, k->nodes.len);
    out->frame_count = k->nodes.len;
    if (k->nodes.len)
        memcpy(out->frames, k->nodes.data, k->nodes.len * sizeof *k->nodes.data);
}
