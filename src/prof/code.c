/* SPDX-License-Identifier: Apache-2.0
 *
 * code: the instructions of the objects that matter, as text with how often each was executed and sampled, so that a
 * profile shows them where there is no source, and without the file; and where the calls of these objects go. A sample
 * falls on the instruction that waits, often the one after a load that missed.
 */
#include "estimate/model/targets.h"
#include "prof/impl.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

enum { OBJECTS_MAX = 100, OBJECT_INSNS_MAX = 400, INSNS_MAX = 10000, CALLEES_MAX = 10 };
#define SHARE_MIN 0.001 /* of all samples */

struct piece { /* an executed block of an object that is shown */
    uint32_t object, block;
    uint64_t samples, count;
};
struct code {
    struct join *j;
    bool *is_shown; /* by object */
    VEC(struct piece) pieces;
    struct map samples; /* address -> count, of the module at hand */
    VEC(struct prof_insn) insns;
    VEC(struct prof_call) targets;
};

static void choose(struct code *c)
{
    const struct prof_result *r = c->j->r;
    size_t count = 0;
    c->is_shown = ARENA_ARRAY(c->j->scratch, bool, r->object_count + 1);
    for (size_t i = 0; i < r->object_count && count < OBJECTS_MAX; i++) {
        const struct prof_object *o = &r->objects[i];
        c->is_shown[i] = o->is_significant || (double)o->samples > SHARE_MIN * (double)c->j->samples_all;
        count += c->is_shown[i];
    }
}

static void find_pieces(struct code *c)
{
    struct join *j = c->j;
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (uint32_t b = 0; m->cfg && m->img && b < m->cfg->blocks.len; b++) {
            const struct cfg_block *block = &m->cfg->blocks.data[b];
            uint32_t at = m->block_base + b,
                     owner = j->counts[at] ? objects_owner(j, m, block->func, block->loop) : ID_NONE;
            if (owner != ID_NONE && c->is_shown[owner])
                VEC_PUSH(&c->pieces, ((struct piece){owner, at, j->samples[at], j->counts[at]}));
        }
    }
}

/* Of an object, what was sampled most first. */
static int compare_heat(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    if (a->object != b->object)
        return a->object > b->object ? 1 : -1;
    if (a->samples != b->samples)
        return a->samples < b->samples ? 1 : -1;
    return a->count != b->count ? (a->count < b->count ? 1 : -1) : (a->block > b->block) - (a->block < b->block);
}

static int compare_places(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    return (a->block > b->block) - (a->block < b->block);
}

/* What is kept of each object, and of all, in order of addresses. */
static void cut_pieces(struct code *c)
{
    size_t kept = 0, of_object = 0, all = 0;
    uint32_t object = ID_NONE;
    if (c->pieces.len)
        qsort(c->pieces.data, c->pieces.len, sizeof *c->pieces.data, compare_heat);
    for (size_t i = 0; i < c->pieces.len; i++) {
        const struct piece *p = &c->pieces.data[i];
        size_t insns = walk_block(c->j, p->block)->insn_count;
        of_object = p->object == object ? of_object : 0;
        object = p->object;
        if (of_object + insns > OBJECT_INSNS_MAX || all + insns > INSNS_MAX)
            continue;
        of_object += insns;
        all += insns;
        c->pieces.data[kept++] = *p;
    }
    c->pieces.len = kept;
    if (kept)
        qsort(c->pieces.data, kept, sizeof *c->pieces.data, compare_places);
}

/* ---- text ---- */

static const char *name_of_block(struct join *j, uint32_t block)
{
    struct join_module *m = &j->modules[walk_module(j, block) - j->modules];
    return join_func_name(j, m, walk_block(j, block)->func);
}

/* The decoder writes numbers with leading zeros. */
static void drop_zeros(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        bool is_number = to - text >= 2 && to[-1] == 'x' && to[-2] == '0';
        size_t zeros = is_number ? strspn(from, "0") : 0;
        from += zeros && isxdigit((uint8_t)from[zeros]) ? zeros : zeros ? zeros - 1 : 0;
        *to++ = *from++;
    }
    *to = 0;
}

static const char *text_of(struct code *c, const uint8_t *bytes, const struct x86_insn *insn, uint32_t to)
{
    char text[160];
    x86_format(bytes, insn->len, insn->addr, text, sizeof text);
    drop_zeros(text);
    return to == ID_NONE ? arena_strdup(c->j->r->arena, text)
                         : arena_printf(c->j->r->arena, "%s <%s>", text, name_of_block(c->j, to));
}

static void take_ideal(struct code *c, const struct piece *p, uint32_t n, struct prof_insn *row)
{
    struct bound_sums sums = {.by = {0}};
    struct join *j = c->j;
    double part = j->walks && j->cycles ? walks_add_bound_of(j->walks, p->block, n, &sums) : NAN;
    row->ideal_s = j->cycles ? part * (double)p->count * (double)j->cycles[p->block] / j->core_hz : NAN;
    row->bound_by = part > 0 ? walks_bound_name(j->walks, &sums, j->r->arena) : NULL;
}

/* A cfg out of the cache holds no instructions: they are decoded again. */
static void put_piece(struct code *c, const struct piece *p)
{
    const struct cfg_block *b = walk_block(c->j, p->block);
    const uint8_t *bytes = image_at(walk_module(c->j, p->block)->img, b->addr, b->size);
    struct x86_insn insn;
    uint32_t n = 0;
    for (uint32_t off = 0; bytes && off < b->size; off += insn.len) {
        if (!x86_decode(bytes + off, b->size - off, b->addr + off, &insn))
            return;
        bool is_last = off + insn.len == b->size;
        struct prof_insn row = {.object = p->object,
                                .address = insn.addr,
                                .text = text_of(c, bytes + off, &insn, is_last ? c->j->calls->to[p->block] : ID_NONE),
                                .memory_ops = insn.loads + insn.stores,
                                .count = p->count};
        map_get(&c->samples, insn.addr, &row.samples);
        take_ideal(c, p, n++, &row);
        VEC_PUSH(&c->insns, row);
    }
}

static void index_samples(struct code *c, uint32_t module)
{
    map_fini(&c->samples);
    c->samples = (struct map){0};
    for (size_t i = 0; i < c->j->in->sample_count; i++) {
        const struct observed_sample *s = &c->j->in->samples[i];
        uint64_t before = 0;
        if (s->module != module)
            continue;
        map_get(&c->samples, s->vaddr, &before);
        map_put(&c->samples, s->vaddr, before + s->count);
    }
}

static void put_pieces(struct code *c)
{
    uint32_t module = ID_NONE;
    for (size_t i = 0; i < c->pieces.len; i++) {
        uint32_t at = (uint32_t)(walk_module(c->j, c->pieces.data[i].block) - c->j->modules);
        if (at != module)
            index_samples(c, module = at);
        put_piece(c, &c->pieces.data[i]);
    }
}

/* ---- callees ---- */

static int compare_calls(const void *x, const void *y)
{
    const struct prof_call *a = x, *b = y;
    if (a->object != b->object)
        return a->object > b->object ? 1 : -1;
    if (a->module != b->module)
        return a->module > b->module ? 1 : -1;
    return (a->address > b->address) - (a->address < b->address);
}

static int compare_weights(const void *x, const void *y)
{
    const struct prof_call *a = x, *b = y;
    if (a->object != b->object)
        return a->object > b->object ? 1 : -1;
    if (a->memory_ops != b->memory_ops)
        return a->memory_ops < b->memory_ops ? 1 : -1;
    return a->calls != b->calls ? (a->calls < b->calls ? 1 : -1)
                                : (a->address > b->address) - (a->address < b->address);
}

static void take_call(struct code *c, uint32_t object, uint32_t to, double calls, bool is_estimated)
{
    struct join *j = c->j;
    struct join_module *m = &j->modules[walk_module(j, to) - j->modules];
    const struct cfg_block *b = walk_block(j, to);
    const struct join_func *f = &j->funcs[m->func_base + b->func];
    struct prof_call call = {.object = object,
                             .module = m->path,
                             .function = join_func_name(j, m, b->func),
                             .address = b->addr,
                             .calls = (uint64_t)(calls + 0.5),
                             .is_estimated = is_estimated};
    /* Its operations are shared out among its callers as its calls are. */
    double share = f->calls ? calls / (double)f->calls : 0;
    call.memory_ops = (uint64_t)((double)f->incl.memory_ops * (share < 1 ? share : 1) + 0.5);
    VEC_PUSH(&c->targets, call);
}

bool code_is_call(const struct join *j, uint32_t block, uint32_t to)
{
    const struct cfg_block *b = walk_block(j, block);
    return to != ID_NONE && (b->term == X86_CALL || b->term == X86_CALL_IND || walk_block(j, to)->func != b->func ||
                             walk_module(j, to) != walk_module(j, block));
}

static void merge_calls(struct code *c)
{
    size_t kept = 0;
    if (c->targets.len)
        qsort(c->targets.data, c->targets.len, sizeof *c->targets.data, compare_calls);
    for (size_t i = 0; i < c->targets.len; i++) {
        if (kept && compare_calls(&c->targets.data[kept - 1], &c->targets.data[i]) == 0) {
            c->targets.data[kept - 1].calls += c->targets.data[i].calls;
            c->targets.data[kept - 1].memory_ops += c->targets.data[i].memory_ops;
            c->targets.data[kept - 1].is_estimated |= c->targets.data[i].is_estimated;
            continue;
        }
        c->targets.data[kept++] = c->targets.data[i];
    }
    c->targets.len = kept;
}

static void cut_calls(struct code *c)
{
    size_t kept = 0, of_object = 0;
    if (c->targets.len)
        qsort(c->targets.data, c->targets.len, sizeof *c->targets.data, compare_weights);
    for (size_t i = 0; i < c->targets.len; i++) {
        bool is_same = kept && c->targets.data[kept - 1].object == c->targets.data[i].object;
        of_object = is_same ? of_object + 1 : 1;
        if (of_object <= CALLEES_MAX)
            c->targets.data[kept++] = c->targets.data[i];
    }
    c->targets.len = kept;
}

static void find_pointer_calls(struct code *c, const struct piece *p)
{
    uint32_t count;
    const struct target *targets = targets_of(c->j->targets, p->block, &count);
    for (uint32_t i = 0; i < count; i++)
        if (targets[i].calls >= 0.5 && code_is_call(c->j, p->block, targets[i].to))
            take_call(c, p->object, targets[i].to, targets[i].calls, true);
}

static void find_calls(struct code *c)
{
    for (size_t i = 0; i < c->pieces.len; i++) {
        const struct piece *p = &c->pieces.data[i];
        if (code_is_call(c->j, p->block, c->j->calls->to[p->block]))
            take_call(c, p->object, c->j->calls->to[p->block], (double)p->count, false);
        find_pointer_calls(c, p);
    }
    merge_calls(c);
    cut_calls(c);
}

/* ---- all ---- */

static void keep(struct code *c)
{
    struct prof_result *r = c->j->r;
    r->insns = ARENA_ARRAY(r->arena, struct prof_insn, c->insns.len + 1);
    r->calls = ARENA_ARRAY(r->arena, struct prof_call, c->targets.len + 1);
    if (c->insns.len)
        memcpy(r->insns, c->insns.data, c->insns.len * sizeof *r->insns);
    if (c->targets.len)
        memcpy(r->calls, c->targets.data, c->targets.len * sizeof *r->calls);
    r->insn_count = c->insns.len;
    r->call_count = c->targets.len;
}

void code_build(struct join *j)
{
    struct code c = {.j = j};
    if (!j->samples_all)
        return;
    choose(&c);
    find_pieces(&c);
    find_calls(&c);
    cut_pieces(&c);
    put_pieces(&c);
    keep(&c);
    map_fini(&c.samples);
    VEC_FREE(&c.pieces);
    VEC_FREE(&c.insns);
    VEC_FREE(&c.targets);
}
