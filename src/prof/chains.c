/* SPDX-License-Identifier: Apache-2.0
 *
 * chains: samples with the calls that led to them, to how much of the program's time was spent in some code and on its
 * behalf. Unlike what exact counts of calls say (graph.c) that needs no guess of how the work of a shared callee is to
 * be shared out, it follows pointers, and it tells the kernel's part and that of code that is not counted; but it is a
 * sample. A chain that was cut at its far end (the stack's copy is short) may be inside of anything that was not seen
 * in it: such samples are told apart.
 */
#include "prof/chains.h"

#include <stdlib.h>

#define OWN_LEAST 0.98 /* of the samples: chains are of the first process alone */

struct frame {              /* what samples ended there */
    uint32_t block, parent; /* by number; ID_NONE: none that is counted; the caller's frame */
    bool is_cut;            /* without a parent: what called it is not known */
    uint64_t user, kernel;
};
struct chains {
    struct frame *frames;
    uint8_t *state; /* by frame: enum state, of the code that is looked for last */
    size_t count;
    uint64_t user, kernel;
};
enum state { OUTSIDE, INSIDE, UNSURE };

static uint32_t block_at(const struct join *j, const struct prof_input_frame *f)
{
    const struct join_module *m = f->module < j->module_count ? &j->modules[f->module] : NULL;
    uint32_t b = m && m->cfg ? cfg_block_at(m->cfg, f->vaddr) : ID_NONE;
    bool is_counted = b != ID_NONE && j->funcs[m->func_base + m->cfg->blocks.data[b].func].is_counted;
    return is_counted ? m->block_base + b : ID_NONE;
}

static void take_samples(struct chains *c, const struct prof_input *in)
{
    for (size_t i = 0; i < in->doing_count; i++) {
        const struct prof_input_doing *d = &in->doing[i];
        if (d->doing == PROF_BLOCKED || d->stack >= c->count)
            continue;
        *(d->doing == PROF_RUNS ? &c->frames[d->stack].user : &c->frames[d->stack].kernel) += d->count;
        *(d->doing == PROF_RUNS ? &c->user : &c->kernel) += d->count;
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
        const struct prof_input_frame *f = &in->frames[i];
        c->frames[i].parent = f->parent;
        c->frames[i].block = block_at(j, f);
        c->frames[i].is_cut = f->parent == ID_NONE && f->module == ID_NONE;
    }
    take_samples(c, in);
    return c->user && (double)c->user >= OWN_LEAST * (double)j->samples_all ? c : NULL;
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
            sum.user_unsure += f->user, sum.kernel_unsure += f->kernel;
        } else if (c->state[i] == INSIDE) {
            sum.user += f->user, sum.kernel += f->kernel;
            sum.uncounted += f->block == ID_NONE ? f->user : 0;
        }
    }
    return sum;
}
