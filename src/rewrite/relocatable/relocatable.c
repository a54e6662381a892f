/* SPDX-License-Identifier: Apache-2.0
 *
 * Relocatable objects in memory: the list of passes. The control flow is found, planned and emitted by the passes that
 * rewrite executables, over a synthetic image of the object; what is particular to objects is before and behind them.
 */
#include "rewrite/relocatable/relocatable.h"

#include <stdlib.h>

/* ---- for tests: all code moves ---- */

static uint32_t first_of_block(const struct rw *w, uint32_t block, uint32_t insn)
{
    return w->cfg->blocks.data[block].insn_first >= insn ? w->cfg->blocks.data[block].insn_first : ID_NONE;
}

static void insert_nop(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    (void)w;
    if (point.where == RW_BEFORE_INSN)
        rw_fragment_add(out, (struct rw_fragment){.id = point.insn, .bytes = 1, .kind = RW_INSERTED});
}

static void put_nop(const struct rw *w, const struct rw_fragment *f, uint8_t *to, uint64_t addr)
{
    (void)w;
    (void)addr;
    rw_put_nops(to, f->bytes);
}

static const struct rw_instrument moved = {.moves = true};
static const struct rw_instrument moved_by_nops = {
    .moves = true, .next = first_of_block, .insert = insert_nop, .put = put_nop};

/* ---- passes ---- */

static const struct rw_instrument *const instruments[] = {
    [REWRITE_RELOCATABLE_NULL] = NULL,       [REWRITE_RELOCATABLE_COUNTS] = &rw_counts,
    [REWRITE_RELOCATABLE_CALLS] = &rw_calls, [REWRITE_RELOCATABLE_CLOCKS] = &rw_clocks,
    [REWRITE_RELOCATABLE_TRACE] = &rw_trace, [REWRITE_RELOCATABLE_ORDER] = NULL,
};

static void choose_instrument(struct rel_object *o)
{
    o->instrument = o->opt->poison ? moved_by_nops : moved;
    if (instruments[o->opt->tool]) {
        o->instrument = *instruments[o->opt->tool];
        o->instrument.has_runtime = o->instrument.has_words = false; /* of what it is linked into, others take care */
    }
    o->rw_opt =
        (struct rewrite_options){.plan = o->opt->tool == REWRITE_RELOCATABLE_COUNTS ? REWRITE_COUNT : REWRITE_NONE,
                                 .all_blocks = o->opt->all_blocks,
                                 .locked = o->opt->locked,
                                 .clocks_in_line = o->opt->clocks_in_line};
    o->w.opt = &o->rw_opt;
    o->w.instrument = &o->instrument;
    o->w.stats = &o->rw_stats;
}

static bool has_code(const struct rel_object *o)
{
    for (uint32_t i = 1; i < o->section_count; i++)
        if (o->sections[i].is_code)
            return true;
    return false;
}

static bool is_any_moved(const struct rel_object *o)
{
    for (uint32_t i = 1; i < o->section_count; i++)
        if (o->sections[i].is_moved)
            return true;
    return false;
}

static void lose_debug(struct rel_object *o)
{
    for (uint32_t i = 1; i < o->section_count; i++)
        o->sections[i].has_new |= rel_is_debug(&o->sections[i]);
}

/* Nothing moves but instructions in their blocks: what is not new stays. */
static bool order_code(struct rel_object *o)
{
    rel_order(o);
    for (uint32_t i = 1; i < o->section_count; i++) {
        o->stats->code_bytes += o->sections[i].is_code ? o->sections[i].h.sh_size : 0;
        o->stats->sections_moved += o->sections[i].is_moved;
        o->sections[i].is_moved = false;
    }
    if (o->stats->blocks_ordered)
        rel_debug(o);
    if (o->stats->debug_lost)
        lose_debug(o);
    return o->ordered.len != 0;
}

/* True: there is something new to be written. */
static bool rewrite_code(struct rel_object *o)
{
    struct rw *w = &o->w;
    rel_synthesize(o);
    w->arena = arena_new();
    w->scratch = arena_new();
    if (image_open_bytes(o->name, (const uint8_t *)o->image.data, o->image.len, &w->img) < 0)
        return false;
    w->img->functions_lo = o->elsewhere_lo;
    w->img->functions_hi = o->elsewhere_hi;
    w->img->functions = o->elsewhere;
    w->img->function_bytes = o->elsewhere_bytes;
    if (cfg_build(w->img, &w->cfg) < 0)
        return false;
    rel_judge(o); /* which sections move; must be first: what is left alone changes what edges mean */
    if (!is_any_moved(o))
        return false;
    if (o->opt->tool == REWRITE_RELOCATABLE_ORDER)
        return order_code(o);
    rw_plan(w);
    if (w->instrument->place)
        w->instrument->place(w);
    rw_fragments(w);
    rel_layout(o);
    rel_count(o);
    if (!rel_frames(o)) {
        rel_refuse_all(o, REWRITE_RELOCATABLE_FRAMES);
        return false;
    }
    rel_debug_frames(o);
    rel_code(o);
    rel_debug(o);
    rel_references(o);
    return true;
}

static void fill_stats(struct rel_object *o)
{
    struct rewrite_relocatable_stats *st = o->stats;
    const struct cfg *c = o->w.cfg;
    for (uint32_t i = 1; i < o->section_count && o->opt->tool != REWRITE_RELOCATABLE_ORDER; i++) {
        const struct rel_section *s = &o->sections[i];
        if (!s->is_code)
            continue;
        st->sections_moved += s->is_moved;
        st->code_bytes += s->h.sh_size;
        st->code_bytes_new += s->is_moved ? s->size_new : s->h.sh_size;
    }
    for (uint32_t f = 0; c && o->w.funcs && f < c->funcs.len; f++) {
        st->funcs++;
        st->funcs_moved += o->w.funcs[f].is_moved;
        st->refused[c->funcs.data[f].reason]++;
        st->blocks += o->w.funcs[f].is_moved ? c->funcs.data[f].block_count : 0;
    }
    for (size_t u = 0; u < o->units.len; u++)
        st->counters += o->units.data[u].counter_count;
}

static void object_fini(struct rel_object *o)
{
    struct rw *w = &o->w;
    for (uint32_t i = 0; i < o->section_count; i++) {
        VEC_FREE(&o->sections[i].points);
        VEC_FREE(&o->sections[i].windows);
        VEC_FREE(&o->sections[i].turns_old);
        VEC_FREE(&o->sections[i].turns_now);
        VEC_FREE(&o->sections[i].told);
        str_free(&o->sections[i].bytes_new);
        VEC_FREE(&o->sections[i].relas_new);
    }
    if (w->arena) {
        if (o->instrument.forget)
            o->instrument.forget(w);
        rw_fragments_free(w);
        arena_free(w->arena);
        arena_free(w->scratch);
    }
    VEC_FREE(&w->group_edges);
    VEC_FREE(&w->tables);
    map_fini(&w->ref_table);
    cfg_free(w->cfg);
    image_close(w->img);
    str_free(&o->image);
    map_fini(&o->table_of);
    VEC_FREE(&o->units);
    VEC_FREE(&o->lsdas);
    VEC_FREE(&o->ordered);
    VEC_FREE(&o->ordered_blocks);
    arena_free(o->arena);
}

void rewrite_relocatable_options_put(const struct rewrite_relocatable_options *opt, struct strbuf *out)
{
    _Static_assert(sizeof *opt == 24, "a field more, or less: here, too");
    str_printf(out, "%d %d %d %d %d", (int)opt->tool, opt->poison, opt->locked, opt->all_blocks, opt->clocks_in_line);
}

int rewrite_relocatable(const char *name, const uint8_t *bytes, size_t size,
                        const struct rewrite_relocatable_options *opt, struct strbuf *out,
                        struct rewrite_relocatable_stats *stats)
{
    struct rewrite_relocatable_stats ignored = {0};
    struct rel_object o = {.name = name, .bytes = bytes, .size = size, .opt = opt, .stats = stats ? stats : &ignored};
    memset(o.stats, 0, sizeof *o.stats);
    o.arena = arena_new();
    int rc = rel_read(&o);
    if (rc == 0) {
        struct strbuf why = {0};
        choose_instrument(&o);
        diag_hold(&why); /* an object whose flow cannot be found is one that is taken over as it is */
        bool is_new = has_code(&o) && rewrite_code(&o);
        diag_hold(NULL);
        if (why.len)
            diag_debug(1, "%s: taken over as it is: %s", name, why.data);
        str_free(&why);
        fill_stats(&o);
        if (is_new)
            rel_write(&o, out);
        else
            str_put(out, bytes, size);
    }
    object_fini(&o);
    rewrite_relocatable_stats_free(&ignored);
    return rc;
}

void rewrite_relocatable_stats_free(struct rewrite_relocatable_stats *stats)
{
    for (size_t i = 0; i < stats->whole_count; i++)
        free(stats->whole[i].section);
    free(stats->whole);
    stats->whole = NULL;
    stats->whole_count = 0;
}
