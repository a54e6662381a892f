/* SPDX-License-Identifier: Apache-2.0
 * The tool schedule: what the rewriter knows of a block to the scheduler, and its answer back; and from what a linked
 * file says of its order, with counts of its blocks if there are any, to what the order gains. */
#include <stdlib.h>

#include "image/image.h"
#include "ld/ld.h"
#include "rewrite/rewrite.h"
#include "sched/sched.h"

_Static_assert((int)REWRITE_ORDER_MAX == (int)SCHED_MAX, "as long");
_Static_assert((int)REWRITE_ORDER_CONSTANT == (int)SCHED_CONSTANT && (int)REWRITE_ORDER_DATA == (int)SCHED_DATA,
               "the same kinds");

/* ---- linking ---- */

void ld_schedule_block(void *ctx, const struct rewrite_order_block *b, struct rewrite_order_answer *out)
{
    const struct ld_schedule *s = ctx;
    struct sched_insn insns[SCHED_MAX];
    struct sched_order order;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct rewrite_order_insn *x = &b->insns[i];
        insns[i] = (struct sched_insn){.bytes = x->bytes,
                                       .len = x->len,
                                       .memory = x->memory,
                                       .is_walled = x->is_walled,
                                       .is_relocated = x->is_relocated,
                                       .section = x->section,
                                       .offset = x->offset,
                                       .addr = x->addr};
    }
    struct sched_block block = {.insns = insns,
                                .count = b->count,
                                .flags_live = b->flags_live,
                                .stack_is_private = b->stack_is_private,
                                .rbp_is_frame = b->rbp_is_frame,
                                .is_seen = s->is_seen,
                                .repeats = b->repeats};
    sched_block(s->sched, &block, &order);
    memcpy(out->at, order.at, sizeof out->at);
    out->is_new = order.is_new;
    out->cycles[0] = (float)order.before.cycles, out->cycles[1] = (float)order.after.cycles;
    out->stalls[0] = (float)order.before.stalls, out->stalls[1] = (float)order.after.stalls;
}

/* ---- what it gains ---- */

struct reading {
    struct ld_schedules *out;
    struct rewrite_ordered *ordered;
    struct image *img;
    const struct ld_blocks *counts;
    struct map by_name; /* hash of object, function and number of blocks: the function's index in counts, plus 1 */
    bool *is_used;      /* [counts] */
    struct map name_at; /* address: symbol, plus 1 */
};

static uint64_t key_of(const char *object, const char *function, size_t blocks)
{
    char hash[33];
    struct strbuf text = {0};
    str_printf(&text, "%s\n%s\n%zu", file_base_name(object), function, blocks);
    file_hash_hex(text.data, text.len, hash);
    str_free(&text);
    hash[16] = 0;
    return strtoull(hash, NULL, 16);
}

/* Of functions of one name those with the lowest addresses come first. A compiler that links at once gives its objects
 * other names each time: functions are found without them too. */
static void index_counts(struct reading *r)
{
    for (size_t i = r->counts ? r->counts->functions.len : 0; i-- > 0;) {
        const struct ld_function *f = &r->counts->functions.data[i];
        map_put(&r->by_name, key_of(f->object, f->name, f->count), i + 1);
        map_put(&r->by_name, key_of("", f->name, f->count), i + 1);
    }
}

static void find_names(struct reading *r)
{
    for (size_t i = 0; i < r->img->symbol_count; i++) {
        const struct image_symbol *s = &r->img->symbols[i];
        uint64_t *at = *s->name && s->shndx ? map_place(&r->name_at, s->addr) : NULL;
        if (at && (!*at || s->bind)) /* a global name before a local one */
            *at = i + 1;
    }
}

/* The same function in the counted program; NULL: none. */
static const struct ld_function *counted(struct reading *r, const struct ld_scheduled *f)
{
    uint64_t at;
    if (!r->counts || (!map_get(&r->by_name, key_of(f->object, f->name, f->blocks), &at) &&
                       !map_get(&r->by_name, key_of("", f->name, f->blocks), &at)))
        return NULL;
    for (size_t i = at - 1; i < r->counts->functions.len; i++) {
        const struct ld_function *c = &r->counts->functions.data[i];
        if (r->is_used[i] || c->count != f->blocks || strcmp(c->name, f->name) != 0)
            continue;
        r->is_used[i] = true;
        return c;
    }
    return NULL;
}

static double estimated(const struct rewrite_ordered_block *b)
{
    double times = 1;
    for (unsigned d = 0; d < b->depth && d < 8; d++)
        times *= 10;
    return times;
}

static void add_block(struct ld_scheduled *f, const struct rewrite_ordered_block *b, double times)
{
    for (unsigned k = 0; k < 2; k++) {
        f->cost.cycles[k] += times * (double)b->cycles[k];
        f->cost.stalls[k] += times * (double)b->stalls[k];
    }
    f->executed += times * b->insns;
    f->blocks_new += b->is_new;
}

static void add_function(struct reading *r, const struct rewrite_ordered_func *fn)
{
    uint64_t sym;
    const char *name = map_get(&r->name_at, fn->vaddr, &sym) ? r->img->symbols[sym - 1].name : "";
    struct ld_scheduled f = {.name = arena_strdup(r->out->arena, name),
                             .object = arena_strdup(r->out->arena, fn->object),
                             .address = fn->vaddr,
                             .blocks = (uint32_t)fn->count};
    const struct ld_function *c = counted(r, &f);
    f.is_counted = c != NULL;
    for (size_t i = 0; i < fn->count; i++) {
        const struct rewrite_ordered_block *b = &r->ordered->blocks.data[fn->first + i];
        add_block(&f, b, c ? (double)r->counts->blocks.data[c->first + i].count : r->counts ? 0 : estimated(b));
    }
    for (unsigned k = 0; k < 2; k++) {
        r->out->all.cycles[k] += f.cost.cycles[k];
        r->out->all.stalls[k] += f.cost.stalls[k];
    }
    r->out->blocks += f.blocks;
    r->out->blocks_new += f.blocks_new;
    r->out->uncounted += r->counts && !c;
    VEC_PUSH(&r->out->functions, f);
}

static int by_vaddr(const void *a, const void *b)
{
    const struct rewrite_ordered_func *x = a, *y = b;
    return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static int read_all(struct reading *r, const char *path)
{
    if (image_open(path, &r->img) < 0 || rewrite_ordered_open(path, &r->ordered) < 0)
        return -1;
    if (!r->ordered->funcs.len)
        return diag_error("ld-report: %s was not linked by 'mtool ld --tool schedule', or was stripped", path);
    qsort(r->ordered->funcs.data, r->ordered->funcs.len, sizeof *r->ordered->funcs.data, by_vaddr);
    find_names(r);
    index_counts(r);
    r->is_used = xmalloc(r->counts ? r->counts->functions.len + 1 : 1);
    for (size_t i = 0; i < r->ordered->funcs.len; i++)
        add_function(r, &r->ordered->funcs.data[i]);
    return 0;
}

int ld_schedules_read(const char *path, const struct ld_blocks *counts, struct ld_schedules **out)
{
    struct reading r = {.out = xmalloc(sizeof *r.out), .counts = counts};
    r.out->arena = arena_new();
    r.out->has_counts = counts != NULL;
    int rc = read_all(&r, path);
    rewrite_ordered_close(r.ordered);
    image_close(r.img);
    map_fini(&r.by_name);
    map_fini(&r.name_at);
    free(r.is_used);
    if (rc < 0)
        ld_schedules_free(r.out);
    *out = rc < 0 ? NULL : r.out;
    return rc;
}

void ld_schedules_free(struct ld_schedules *s)
{
    VEC_FREE(&s->functions);
    arena_free(s->arena);
    free(s);
}
