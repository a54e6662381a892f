/* SPDX-License-Identifier: Apache-2.0
 *
 * chains: samples with the calls that led to them, to how much of the program's time was spent in some code and on its
 * behalf. Unlike what exact counts of calls say (graph.c) that needs no guess of how the work of a shared callee is to
 * be shared out, it follows pointers, and it tells the kernel's part and that of code that is not counted; but it is a
 * sample. A chain that was cut at its far end (the stack's copy is short) may be inside of anything that was not seen
 * in it: such samples are distinguished.
 */
#include "objects/chains.h"

#include <assert.h>
#include <stdlib.h>

#define OWN_MIN 0.98     /* of the samples: chains are of the first process alone */
#define ROOT_LACKS 0.005 /* of the user's samples: outside of the root, at most */
#define ROOT_UNSURE 0.05 /* likewise: more of them cut, and only the outermost procedure is safe */

struct frame {                    /* what samples ended there */
    uint32_t block, func, parent; /* by number; ID_NONE: none that is counted; the caller's frame */
    bool is_cut;                  /* without a parent: what called it is not known */
    uint64_t user, kernel;
    uint64_t below; /* of user: in it and in what it called */
};
struct chains {
    struct frame *frames;
    uint8_t *state; /* by frame: enum state, of the code that is looked for last */
    size_t count;
    uint64_t user, kernel;
};
enum state { OUTSIDE, INSIDE, UNSURE };

static uint32_t block_at(const struct join *j, const struct observed_frame *f)
{
    const struct join_module *m = f->module < j->module_count ? &j->modules[f->module] : NULL;
    uint32_t b = m && m->cfg ? cfg_block_at(m->cfg, f->vaddr) : ID_NONE;
    bool is_counted = b != ID_NONE && j->funcs[m->func_base + m->cfg->blocks.data[b].func].is_counted;
    return is_counted ? m->block_base + b : ID_NONE;
}

static uint32_t func_of(const struct join *j, const struct observed_frame *f, uint32_t block)
{
    const struct join_module *m = f->module < j->module_count ? &j->modules[f->module] : NULL;
    assert(m || block == ID_NONE);
    return block == ID_NONE ? ID_NONE : m->func_base + m->cfg->blocks.data[block - m->block_base].func;
}

static void take_samples(struct chains *c, const struct prof_input *in)
{
    for (size_t i = 0; i < in->activity_count; i++) {
        const struct observed_thread_sample *d = &in->activity[i];
        if (d->activity == OBSERVED_BLOCKED || d->stack >= c->count)
            continue;
        *(d->activity == OBSERVED_RUNS ? &c->frames[d->stack].user : &c->frames[d->stack].kernel) += d->count;
        *(d->activity == OBSERVED_RUNS ? &c->user : &c->kernel) += d->count;
    }
}

static void add_below(struct chains *c)
{
    for (size_t i = c->count; i-- > 0;) { /* a caller stands before whom it calls */
        struct frame *f = &c->frames[i];
        f->below += f->user;
        if (f->parent != ID_NONE)
            c->frames[f->parent].below += f->below;
    }
}

const struct chains *chains_open(struct join *j)
{
    const struct prof_input *in = j->in;
    struct chains *c = ARENA_NEW(j->scratch, struct chains);
    c->count = in->frame_count;
    c->frames = ARENA_ARRAY(j->scratch, struct frame, in->frame_count + 1);
    c->state = ARENA_ARRAY(j->scratch, uint8_t, in->frame_count + 1);
    for (size_t i = 0; i < in->frame_count; i++) {
        const struct observed_frame *f = &in->frames[i];
        c->frames[i].parent = f->parent;
        c->frames[i].block = block_at(j, f);
        c->frames[i].func = func_of(j, f, c->frames[i].block);
        c->frames[i].is_cut = f->parent == ID_NONE && f->module == ID_NONE;
    }
    take_samples(c, in);
    add_below(c);
    return c->user && (double)c->user >= OWN_MIN * (double)j->samples_all ? c : NULL;
}

static enum state state_of(const struct chains *c, const struct frame *f, const uint8_t *inside)
{
    if (f->block != ID_NONE && inside[f->block])
        return INSIDE;
    return f->parent != ID_NONE ? c->state[f->parent] : f->is_cut ? UNSURE : OUTSIDE;
}

struct chained chains_within(const struct chains *c, const uint8_t *inside)
{
    struct chained sum = {.user_all = c->user, .kernel_all = c->kernel};
    for (size_t i = 0; i < c->count; i++) { /* a caller stands before whom it calls */
        const struct frame *f = &c->frames[i];
        c->state[i] = (uint8_t)state_of(c, f, inside);
        if (c->state[i] == UNSURE) {
            sum.user_unsure += f->user;
            sum.kernel_unsure += f->kernel;
        } else if (c->state[i] == INSIDE) {
            sum.user += f->user;
            sum.kernel += f->kernel;
            sum.uncounted += f->block == ID_NONE ? f->user : 0;
        }
    }
    return sum;
}

void chains_by_node(const struct chains *c, const uint8_t *inside, const uint32_t *node_of, struct chained_share *out)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct frame *f = &c->frames[i];
        uint32_t node = f->func == ID_NONE || inside[f->block] || c->state[i] == UNSURE ? ID_NONE : node_of[f->func];
        if (node == ID_NONE)
            continue;
        bool is_inside = c->state[i] == INSIDE;
        out[node].inside += is_inside ? f->user : 0;
        out[node].all += f->user;
        out[node].below_inside += is_inside ? f->below : 0;
        out[node].below_all += f->below;
    }
}

/* ---- the root ---- */

static struct chained chains_in_func(const struct chains *c, uint32_t func)
{
    struct chained sum = {.user_all = c->user};
    for (size_t i = 0; i < c->count; i++) {
        const struct frame *f = &c->frames[i];
        enum state above = f->parent != ID_NONE ? c->state[f->parent] : f->is_cut ? UNSURE : OUTSIDE;
        c->state[i] = (uint8_t)(f->func == func ? INSIDE : above);
        sum.user += c->state[i] == INSIDE ? f->user : 0;
        sum.user_unsure += c->state[i] == UNSURE ? f->user : 0;
    }
    return sum;
}

/* Where most samples ended whose calls are known from the beginning on. */
static uint32_t heaviest(const struct chains *c)
{
    uint32_t best = ID_NONE;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t first = i;
        while (c->frames[first].parent != ID_NONE)
            first = c->frames[first].parent;
        if (!c->frames[first].is_cut && (best == ID_NONE || c->frames[i].user > c->frames[best].user))
            best = i;
    }
    return best;
}

uint32_t chains_root(const struct join *j, const struct chains *c)
{
    uint32_t root = ID_NONE;
    for (uint32_t f = heaviest(c); f != ID_NONE && c->frames[f].parent != ID_NONE; f = c->frames[f].parent) {
        uint32_t func = c->frames[f].func;
        if (func == ID_NONE || j->funcs[func].calls != 1)
            continue;
        struct chained in = chains_in_func(c, func);
        double all = (double)in.user_all, outside = all - (double)in.user - (double)in.user_unsure;
        if (outside > ROOT_LACKS * all)
            continue;
        root = func;
        if ((double)in.user_unsure <= ROOT_UNSURE * all)
            break;
    }
    return root;
}
