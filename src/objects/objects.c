/* SPDX-License-Identifier: Apache-2.0
 *
 * objects: chooses the m-objects and gives each its figures. Every executed loop that holds a thousandth of all
 * instructions, memory operations or samples is one (with its inner loops: so the loop around an object is one too),
 * and every executed procedure, the heaviest first if there are very many. What an inner loop that is no object did
 * belongs to the object around it, so that the sum over objects is the sum over their procedures.
 */
#include "objects/objects.h"
#include "estimate/model/walks.h"
#include "result/fields.h"

#include <math.h>
#include <stdlib.h>

#define LOOP_SHARE 0.001
#define PROCEDURES_MAX 2000
#define UNLIKE 0.15       /* replays and the model disagree, */
#define UNLIKE_SHARE 0.05 /* in objects with so much of the ideal time */
#define SAMPLES_MIN 10    /* to be significant: fewer may have slid over from the code beside it */

struct draft { /* an object while it is made */
    struct tally self, incl;
    uint32_t module, func, loop; /* ids of the cfg; loop ID_NONE: the procedure */
};
struct drafts {
    VEC(struct draft) v;
};

static double share_of(const struct join *j, const struct tally *t)
{
    double s = 0;
    if (j->instructions)
        s = fmax(s, (double)t->instructions / (double)j->instructions);
    if (j->memory_ops)
        s = fmax(s, (double)t->memory_ops / (double)j->memory_ops);
    if (j->samples_all)
        s = fmax(s, (double)t->samples / (double)j->samples_all);
    return s;
}

/* The share that the PROCEDURES_MAX-th procedure has; 0 if there are fewer. */
static double procedure_bar(const struct join *j)
{
    VEC(double) shares = {0};
    for (uint32_t f = 0; f < j->func_count; f++)
        if (j->funcs[f].incl.instructions || j->funcs[f].incl.samples)
            VEC_PUSH(&shares, -share_of(j, &j->funcs[f].incl));
    double bar = shares.len > PROCEDURES_MAX ? -stats_nth(shares.data, shares.len, PROCEDURES_MAX) : 0;
    VEC_FREE(&shares);
    return fmin(bar, LOOP_SHARE);
}

static void choose_in_function(struct join *j, struct drafts *d, uint32_t module, uint32_t func)
{
    const struct join_module *m = &j->modules[module];
    const struct cfg_func *f = &m->cfg->funcs.data[func];
    struct join_func *jf = &j->funcs[m->func_base + func];
    jf->object = (uint32_t)d->v.len;
    VEC_PUSH(&d->v,
             ((struct draft){.incl = jf->incl, .self = jf->self, .module = module, .func = func, .loop = ID_NONE}));
    cfg_for_each_loop(f, l) {
        struct join_loop *jl = &j->loops[m->loop_base + l];
        if (jl->iterations == 0 || share_of(j, &jl->incl) < LOOP_SHARE)
            continue;
        jl->object = (uint32_t)d->v.len;
        VEC_PUSH(&d->v, ((struct draft){.incl = jl->incl, .module = module, .func = func, .loop = l}));
    }
}

static void choose(struct join *j, struct drafts *d)
{
    double bar = procedure_bar(j);
    for (uint32_t i = 0; i < j->module_count; i++)
        for (uint32_t f = 0; j->modules[i].cfg && f < j->modules[i].cfg->funcs.len; f++) {
            const struct tally *t = &j->funcs[j->modules[i].func_base + f].incl;
            if ((t->instructions || t->samples) && share_of(j, t) >= bar)
                choose_in_function(j, d, i, f);
        }
}

uint32_t objects_owner(const struct join *j, const struct join_module *m, uint32_t func, uint32_t loop)
{
    for (; loop != ID_NONE; loop = m->cfg->loops.data[loop].parent)
        if (j->loops[m->loop_base + loop].object != ID_NONE)
            return j->loops[m->loop_base + loop].object;
    return j->funcs[m->func_base + func].object;
}

/* Self figures of the loops: each loop's own go to the nearest object from it outwards. */
static void gather_self(struct join *j, struct drafts *d)
{
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (uint32_t l = 0; m->cfg && l < m->cfg->loops.len; l++) {
            const struct tally *t = &j->loops[m->loop_base + l].self;
            uint32_t owner = objects_owner(j, m, m->cfg->loops.data[l].func, l);
            if (owner != ID_NONE)
                tally_add(&d->v.data[owner].self, t);
        }
    }
}

static struct prof_interval memory_of(struct prof_interval actual, struct prof_interval ideal,
                                      struct prof_interval branch)
{
    struct prof_interval rest = stats_difference(actual, stats_again(ideal));
    return isnan(branch.value) ? rest : stats_difference(rest, branch);
}

/* Unknown unless replays tell of most of it; no more than memory costs at all. */
static double tlb_of(const struct join *j, const struct tally *t, double memory_s)
{
    if (!(t->tlb_known > t->cycles / 2))
        return NAN;
    double s = t->tlb / j->core_hz;
    return isnan(memory_s) ? s : fmin(s, fmax(0, memory_s));
}

static double replayed_share(const struct tally *t) { return t->cycles > 0 ? t->replayed / t->cycles : 0; }

static void fill_times(const struct join *j, const struct draft *d, struct prof_object *o)
{
    o->ideal_s = ideal_of(j, &d->self);
    o->ideal_incl_s = ideal_of(j, &d->incl);
    o->actual_s = actual_of(j, d->self.samples);
    o->actual_incl_s = actual_of(j, d->incl.samples);
    struct prof_interval branch = branch_of(j, &d->self);
    o->memory_s = gate_loss(j->r, replayed_share(&d->self), memory_of(o->actual_s, o->ideal_s, branch));
    o->memory_incl_s =
        gate_loss(j->r, replayed_share(&d->incl), memory_of(o->actual_incl_s, o->ideal_incl_s, branch_of(j, &d->incl)));
    o->branch_s = branch.value;
    o->tlb_s = tlb_of(j, &d->self, o->memory_s.value);
    o->simulated_s = isnan(o->ideal_s.value) ? NAN : d->self.simulated / j->core_hz;
    o->replayed_share = isnan(o->ideal_s.value) ? NAN : replayed_share(&d->self);
    o->ideal_method = isnan(o->ideal_s.value) ? NULL : d->self.replayed > 0 ? "both" : "simulated";
    o->actual_method = isnan(o->actual_s.value) ? NULL : "sampled";
    o->extra_cycles_per_memory_op =
        d->self.memory_ops ? o->memory_s.value * j->core_hz / (double)d->self.memory_ops : NAN;
    o->is_significant = o->memory_s.low > 0 && d->self.samples >= SAMPLES_MIN;
}

static void fill(struct join *j, const struct draft *d, struct prof_object *o)
{
    struct join_module *m = &j->modules[d->module];
    const struct cfg_func *f = &m->cfg->funcs.data[d->func];
    o->module = m->path;
    o->function = join_func_name(j, m, d->func);
    o->instructions = d->self.instructions;
    o->memory_ops = d->self.memory_ops;
    o->instructions_incl = d->incl.instructions;
    o->memory_ops_incl = d->incl.memory_ops;
    o->samples = d->self.samples;
    o->memory_share = j->memory_ops ? (double)d->self.memory_ops / (double)j->memory_ops : NAN;
    fill_times(j, d, o);
    if (d->loop == ID_NONE) {
        o->kind = PROF_PROCEDURE;
        o->address = f->addr;
        o->parent = ID_NONE;
        o->entries = j->funcs[m->func_base + d->func].calls;
        o->iterations = PROF_UNKNOWN;
        places_of_object(j, m, d->func, ID_NONE, o);
        return;
    }
    const struct cfg_loop *l = &m->cfg->loops.data[d->loop];
    o->kind = PROF_LOOP;
    o->address = m->cfg->blocks.data[l->header].addr;
    o->parent = objects_owner(j, m, d->func, l->parent);
    o->depth = l->depth;
    o->entries = j->loops[m->loop_base + d->loop].entries;
    o->iterations = j->loops[m->loop_base + d->loop].iterations;
    places_of_object(j, m, d->func, d->loop, o);
}

/* By memory seconds; where these are unknown by time, at last by instructions. The rest only makes the order total. */
static int compare(const void *a, const void *b)
{
    const struct prof_object *x = a, *y = b;
    const double keys[][2] = {{x->memory_s.value, y->memory_s.value},
                              {x->actual_s.value, y->actual_s.value},
                              {x->ideal_s.value, y->ideal_s.value},
                              {(double)x->instructions, (double)y->instructions}};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (isnan(keys[i][0]) != isnan(keys[i][1]))
            return isnan(keys[i][0]) ? 1 : -1;
        if (keys[i][0] != keys[i][1] && !isnan(keys[i][0]))
            return keys[i][0] < keys[i][1] ? 1 : -1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Ids become positions after the order is known. */
static void order(struct join *j)
{
    struct prof_result *r = j->r;
    uint32_t *moved = ARENA_ARRAY(j->scratch, uint32_t, r->object_count + 1);
    qsort(r->objects, r->object_count, sizeof *r->objects, compare);
    for (uint32_t i = 0; i < r->object_count; i++)
        moved[r->objects[i].id] = i;
    for (uint32_t i = 0; i < r->object_count; i++) {
        struct prof_object *o = &r->objects[i];
        o->id = i;
        if (o->parent != ID_NONE)
            o->parent = moved[o->parent];
    }
    for (uint32_t l = 0; l < j->loop_count; l++)
        if (j->loops[l].object != ID_NONE)
            j->loops[l].object = moved[j->loops[l].object];
    for (uint32_t f = 0; f < j->func_count; f++)
        if (j->funcs[f].object != ID_NONE)
            j->funcs[f].object = moved[j->funcs[f].object];
}

static bool disagrees(const struct prof_object *o, double all)
{
    return o->replayed_share > UNLIKE_SHARE && o->ideal_s.value > UNLIKE_SHARE * all &&
           fabs(o->ideal_s.value - o->simulated_s) > UNLIKE * o->simulated_s;
}

static void warn_of_disagreement(struct join *j)
{
    const struct prof_object *max = NULL;
    double all = 0, unlike = 0;
    for (size_t i = 0; i < j->r->object_count; i++)
        all += j->r->objects[i].ideal_s.value;
    for (size_t i = 0; i < j->r->object_count; i++) {
        const struct prof_object *o = &j->r->objects[i];
        if (!disagrees(o, all))
            continue;
        unlike += o->ideal_s.value;
        if (!max || o->ideal_s.value > max->ideal_s.value)
            max = o;
    }
    if (max)
        prof_warn(j->r, PROF_WARN_REPLAY_DISAGREES,
                  "replays and the model differ by more than %.0f %% in code with %.0f %% of the ideal time, most of "
                  "it in %s (replayed %+.0f %%)",
                  100 * UNLIKE, 100 * unlike / all, max->function, 100 * (max->ideal_s.value / max->simulated_s - 1));
}

/* What binds each object: sums over its own blocks. */
static void fill_bounds(struct join *j)
{
    struct bound_sums *sums = xmalloc((j->r->object_count + 1) * sizeof *sums);
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (uint32_t b = 0; m->cfg && b < m->cfg->blocks.len; b++) {
            const struct cfg_block *block = &m->cfg->blocks.data[b];
            uint32_t owner = j->counts[m->block_base + b] ? objects_owner(j, m, block->func, block->loop) : ID_NONE;
            if (owner != ID_NONE)
                walks_add_bound(j->walks, m->block_base + b, &sums[owner]);
        }
    }
    for (size_t i = 0; i < j->r->object_count; i++)
        j->r->objects[i].bound_by = walks_bound_name(j->walks, &sums[i], j->r->arena);
    free(sums);
}

void objects_build(struct join *j)
{
    struct drafts d = {0};
    struct prof_result *r = j->r;
    choose(j, &d);
    gather_self(j, &d);
    r->object_count = d.v.len;
    r->objects = ARENA_ARRAY(r->arena, struct prof_object, d.v.len + 1);
    for (uint32_t i = 0; i < d.v.len; i++) {
        prof_row_unknown(PROF_ROW_OBJECT, &r->objects[i]);
        r->objects[i].id = i;
        fill(j, &d.v.data[i], &r->objects[i]);
    }
    VEC_FREE(&d.v);
    warn_of_disagreement(j);
    if (j->walks)
        fill_bounds(j);
    order(j);
}
