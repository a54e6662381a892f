/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of passes from an image to its cfg.
 */
#include "cfg/impl.h"

#include <assert.h>
#include <stdlib.h>

void index_free(struct cfg_index *x)
{
    if (!x)
        return;
    free(x->bit_first);
    free(x->bits);
    free(x->rank);
    free(x->step_func);
    free(x->leads);
    free(x->lead_rank);
    free(x);
}

void cfg_free(struct cfg *c)
{
    if (!c)
        return;
    index_free(c->index);
    VEC_FREE(&c->funcs);
    VEC_FREE(&c->insns);
    VEC_FREE(&c->blocks);
    VEC_FREE(&c->edges);
    VEC_FREE(&c->tables);
    VEC_FREE(&c->table_refs);
    free(c->call_live);
    VEC_FREE(&c->loops);
    VEC_FREE(&c->loop_members);
    VEC_FREE(&c->outside_targets);
    VEC_FREE(&c->split_targets);
    VEC_FREE(&c->mid_targets);
    free(c);
}

static void build_fini(struct build *b)
{
    free(b->marks);
    free(b->entry_known);
    VEC_FREE(&b->branches);
    VEC_FREE(&b->jumps);
    VEC_FREE(&b->tables);
    VEC_FREE(&b->measures);
    VEC_FREE(&b->refs);
    VEC_FREE(&b->labels);
    VEC_FREE(&b->table_starts);
    VEC_FREE(&b->holders);
    VEC_FREE(&b->groups);
    VEC_FREE(&b->links);
    map_fini(&b->group_of);
    map_fini(&b->groups_to);
}

#define RUN(what)                                                                                                      \
    do {                                                                                                               \
        double start_s = time_now_s();                                                                                 \
        what;                                                                                                          \
        diag_debug(2, "cfg: %s: %.3f s", #what, time_now_s() - start_s);                                               \
    } while (0)

static void find_targets_in_code(void *ctx)
{
    build_branch_targets(ctx);
    build_landing_pads(ctx);
}

static void find_targets_held(void *ctx) { build_address_targets(ctx); }

static int build_all(struct build *b)
{
    struct cfg *c = b->c;
    int rc = 0;
    RUN(rc = build_functions(b)); /* first: all else is facts about instructions */
    if (rc < 0)
        return -1;
    b->marks = xmalloc(c->insns.len + 1);
    b->entry_known = xmalloc(c->funcs.len + 1);
    RUN(build_noreturn(b));
    RUN(parallel_both(find_targets_in_code, find_targets_held, b));
    RUN(build_outside_targets(b));
    RUN(build_tables(b)); /* needs every mark but those of table targets, which it sets */
    build_markers(b);
    RUN(build_blocks(b)); /* the marks are complete */
    RUN(build_flags(c));
    RUN(build_loops(c));
    c->mid_targets.len = sort_unique_u64(c->mid_targets.data, c->mid_targets.len);
    return 0;
}

int cfg_build(const struct image *img, struct cfg **out) { return cfg_build_sampled(img, NULL, 0, out); }

int cfg_build_sampled(const struct image *img, const uint64_t *sampled, size_t sampled_count, struct cfg **out)
{
    struct build b = {.img = img, .c = xmalloc(sizeof *b.c), .sampled = sampled, .sampled_count = sampled_count};
    b.c->img = img;
    *out = NULL;
    int rc = image_unwind_read(img, &b.c->unwind);
    if (rc == 0)
        rc = build_all(&b);
    build_fini(&b);
    if (rc < 0)
        cfg_free(b.c);
    else
        *out = b.c;
    return rc;
}
