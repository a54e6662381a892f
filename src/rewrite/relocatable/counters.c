/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters by units: each unit has a section of them, and a record of what they mean, so that both come into the linked
 * file with the code or stay out with it. A record, little endian, aligned to 8 (linked.c reads it):
 *
 *   0   "mtoolrel"    8 version u32   12 functions u32   16 bytes of the record   24 bytes of the map
 *   32  address of the first counter (by a relocation)
 *   40  for each function its address (by a relocation), u32 bytes from there to its first block, u32 to its end; then
 * the map (map.c) of these functions alone, in the order of the object; its name of the original is the object's; then
 * zeros up to a multiple of 8
 *
 * needs: plan, layout. fills: units, unit_of_func, counter_number.
 */
#include "rewrite/relocatable/relocatable.h"
#include "wire/link.h"

#include <stdlib.h>

/* ---- numbers ---- */

static uint32_t unit_of_group(struct rel_object *o, uint32_t group)
{
    for (size_t u = 0; u < o->units.len; u++)
        if (o->units.data[u].group == group)
            return (uint32_t)u;
    struct rel_unit u = {.group = group};
    VEC_PUSH(&o->units, u);
    return (uint32_t)o->units.len - 1;
}

static void number(struct rel_object *o, uint32_t unit, uint32_t counter)
{
    if (counter != ID_NONE && o->counter_number[counter] == ID_NONE)
        o->counter_number[counter] = o->units.data[unit].counter_count++;
}

static void number_func(struct rel_object *o, uint32_t f)
{
    const struct rw *w = &o->w;
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    uint32_t unit = o->unit_of_func[f];
    for (uint32_t k = 0; w->clock_words && w->clock_words[f] != ID_NONE && k < WIRE_CLOCKS_WORDS; k++)
        number(o, unit, w->clock_words[f] + k);
    cfg_for_each_block(fn, b) {
        number(o, unit, w->block_counter[b]);
        number(o, unit, w->enter_counter[b]);
        const struct rw_step *step = rw_step_of(w, b);
        if (step && !step->turns)
            number(o, unit, step->pending);
        const struct cfg_block *blk = &w->cfg->blocks.data[b];
        cfg_for_each_edge(blk, e)
            number(o, unit, w->edge_counter[e]);
    }
}

void rel_count(struct rel_object *o)
{
    struct rw *w = &o->w;
    if (!o->instrument.plan)
        return;
    o->unit_of_func = ARENA_ARRAY(o->arena, uint32_t, w->cfg->funcs.len + 1);
    o->counter_number = ARENA_ARRAY(o->arena, uint32_t, w->counter_count + 1);
    memset(o->counter_number, 0xff, (w->counter_count + 1) * sizeof *o->counter_number);
    for (uint32_t i = 1; i < o->section_count; i++) {
        const struct rel_section *s = &o->sections[i];
        if (!s->is_moved)
            continue;
        uint32_t unit = unit_of_group(o, s->group);
        for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++) {
            o->unit_of_func[f] = unit;
            number_func(o, f);
        }
    }
    for (size_t g = 0; g < w->group_edges.len; g++)
        number(o, o->unit_of_func[w->cfg->blocks.data[w->group_edges.data[g].to].func], w->group_edges.data[g].counter);
    for (size_t u = 0; u < o->units.len; u++)
        o->units.data[u].counters_symbol = o->sym_count + (uint32_t)u; /* write.c gives them their place */
}

/* ---- the map of one unit: a rewriter's state of its functions alone ---- */

struct part {
    const struct rel_object *o;
    const struct rw *all;
    struct rw w;
    struct cfg c;
    struct arena *arena;
    uint32_t *block_of;  /* of all blocks, here; ID_NONE: not here */
    VEC(uint32_t) funcs; /* of all functions: those here */
};

static uint32_t number_of(const struct part *p, uint32_t counter)
{
    return counter == ID_NONE ? ID_NONE : p->o->counter_number[counter];
}

static void take_blocks(struct part *p)
{
    const struct cfg *c = p->all->cfg;
    for (size_t k = 0; k < p->funcs.len; k++) {
        struct cfg_func fn = c->funcs.data[p->funcs.data[k]];
        const struct cfg_func *old = &c->funcs.data[p->funcs.data[k]];
        fn.block_first = (uint32_t)p->c.blocks.len;
        fn.loop_first = (uint32_t)p->c.loops.len;
        cfg_for_each_block(old, b) {
            struct cfg_block blk = c->blocks.data[b];
            p->block_of[b] = (uint32_t)p->c.blocks.len;
            blk.func = (uint32_t)k;
            if (blk.loop != ID_NONE)
                blk.loop += fn.loop_first - old->loop_first;
            VEC_PUSH(&p->c.blocks, blk);
        }
        cfg_for_each_loop(old, l) {
            struct cfg_loop loop = c->loops.data[l];
            loop.member_first = (uint32_t)p->c.loop_members.len;
            cfg_for_each_member(&c->loops.data[l], m)
                VEC_PUSH(&p->c.loop_members, c->loop_members.data[m] + fn.block_first - old->block_first);
            loop.header += fn.block_first - old->block_first;
            if (loop.parent != ID_NONE)
                loop.parent += fn.loop_first - old->loop_first;
            loop.func = (uint32_t)k;
            VEC_PUSH(&p->c.loops, loop);
        }
        VEC_PUSH(&p->c.funcs, fn);
        p->c.bytes_funcs += fn.size;
    }
}

/* Where control goes from here to another unit, it leaves. */
static void take_edges(struct part *p, uint32_t **edge_counter)
{
    const struct cfg *c = p->all->cfg;
    VEC(uint32_t) counters = {0};
    for (size_t k = 0; k < p->funcs.len; k++) {
        const struct cfg_func *old = &c->funcs.data[p->funcs.data[k]];
        cfg_for_each_block(old, b) {
            struct cfg_block *blk = &p->c.blocks.data[p->block_of[b]];
            uint32_t first = (uint32_t)p->c.edges.len;
            for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
                struct cfg_edge ed = c->edges.data[e];
                ed.from = p->block_of[b];
                ed.to = ed.to == ID_NONE ? ID_NONE : p->block_of[ed.to];
                if (ed.to == ID_NONE)
                    ed.kind = CFG_EDGE_OUT;
                VEC_PUSH(&p->c.edges, ed);
                VEC_PUSH(&counters, number_of(p, p->all->edge_counter[e]));
            }
            blk->edge_first = first;
        }
    }
    *edge_counter = ARENA_ARRAY(p->arena, uint32_t, counters.len + 1);
    if (counters.len)
        memcpy(*edge_counter, counters.data, counters.len * sizeof **edge_counter);
    VEC_FREE(&counters);
}

static void take_tables(struct part *p)
{
    const struct cfg *c = p->all->cfg;
    for (size_t t = 0; t < c->tables.len; t++) {
        struct cfg_table tab = c->tables.data[t];
        if (p->block_of[tab.block] == ID_NONE)
            continue;
        tab.block = p->block_of[tab.block];
        VEC_PUSH(&p->c.tables, tab);
    }
}

/* Groups of jumps through one table, numbered from 0 again. */
static void take_groups(struct part *p)
{
    const struct rw *all = p->all;
    struct map here = {0};
    for (size_t b = 0; b < all->cfg->blocks.len; b++) {
        uint32_t g = all->block_group[b];
        uint64_t n = here.len;
        if (p->block_of[b] == ID_NONE || g == ID_NONE)
            continue;
        if (!map_get(&here, g, &n))
            map_put(&here, g, n);
        p->w.block_group[p->block_of[b]] = (uint32_t)n;
    }
    for (size_t k = 0; k < all->group_edges.len; k++) {
        struct rw_group_edge ge = all->group_edges.data[k];
        uint64_t n = 0;
        if (p->block_of[ge.to] == ID_NONE || !map_get(&here, ge.group, &n))
            continue;
        ge.group = (uint32_t)n;
        ge.to = p->block_of[ge.to];
        ge.counter = number_of(p, ge.counter);
        VEC_PUSH(&p->w.group_edges, ge);
    }
    p->w.group_count = (uint32_t)here.len;
    map_fini(&here);
}

/* Blocks of a part come in the order of the whole. */
static void take_steps(struct part *p)
{
    for (size_t k = 0; k < p->all->steps.len; k++) {
        struct rw_step s = p->all->steps.data[k];
        s.block = p->block_of[s.block];
        if (s.block == ID_NONE)
            continue;
        s.pending = s.turns ? s.pending : number_of(p, s.pending);
        VEC_PUSH(&p->w.steps, s);
    }
}

static void take_facts(struct part *p)
{
    const struct rw *all = p->all;
    struct rw *w = &p->w;
    size_t n = p->c.blocks.len + 1;
    w->block_counter = ARENA_ARRAY(p->arena, uint32_t, n);
    w->enter_counter = ARENA_ARRAY(p->arena, uint32_t, n);
    w->block_group = ARENA_ARRAY(p->arena, uint32_t, n);
    w->label = ARENA_ARRAY(p->arena, struct rw_label, n);
    w->mark = ARENA_ARRAY(p->arena, uint16_t, n);
    w->funcs = ARENA_ARRAY(p->arena, struct rw_func, p->funcs.len + 1);
    memset(w->block_group, 0xff, n * sizeof *w->block_group);
    for (uint32_t b = 0; b < all->cfg->blocks.len; b++) {
        uint32_t at = p->block_of[b];
        if (at == ID_NONE)
            continue;
        w->block_counter[at] = number_of(p, all->block_counter[b]);
        w->enter_counter[at] = number_of(p, all->enter_counter[b]);
        w->label[at] = all->label[b];
        w->mark[at] = all->mark ? all->mark[b] : 0;
    }
    take_steps(p);
    for (size_t k = 0; k < p->funcs.len; k++)
        w->funcs[k] = all->funcs[p->funcs.data[k]];
}

static void part_init(struct part *p, const struct rel_object *o, uint32_t unit)
{
    *p = (struct part){.o = o, .all = &o->w, .arena = arena_new()};
    const struct cfg *c = o->w.cfg;
    p->block_of = ARENA_ARRAY(p->arena, uint32_t, c->blocks.len + 1);
    memset(p->block_of, 0xff, (c->blocks.len + 1) * sizeof *p->block_of);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (o->w.funcs[f].is_moved && o->unit_of_func[f] == unit)
            VEC_PUSH(&p->funcs, f);
    take_blocks(p);
    p->w.cfg = &p->c;
    p->w.stats = o->w.stats;
    p->w.text_vaddr = o->w.text_vaddr;
    p->w.text_bytes = o->w.text_bytes;
    p->w.counter_count = o->units.data[unit].counter_count;
    take_edges(p, &p->w.edge_counter);
    take_tables(p);
    take_facts(p);
    take_groups(p);
}

static void part_fini(struct part *p)
{
    VEC_FREE(&p->funcs);
    VEC_FREE(&p->c.funcs);
    VEC_FREE(&p->c.blocks);
    VEC_FREE(&p->c.edges);
    VEC_FREE(&p->c.tables);
    VEC_FREE(&p->c.loops);
    VEC_FREE(&p->c.loop_members);
    VEC_FREE(&p->w.group_edges);
    VEC_FREE(&p->w.steps);
    arena_free(p->arena);
}

/* ---- the record ---- */

static void add_address(struct rel_relas *relas, uint64_t at, uint32_t sym, uint64_t addend)
{
    Elf64_Rela r = {at, ELF64_R_INFO((uint64_t)sym, (uint64_t)R_X86_64_64), (int64_t)addend};
    VEC_PUSH(relas, r);
}

/* The symbol of a section itself, or of its first byte's local name; 0 none. */
static uint32_t symbol_of_section(const struct rel_object *o, const struct rel_section *s)
{
    for (uint32_t i = 1; i < o->first_global; i++)
        if (o->syms[i].st_shndx == (uint32_t)(s - o->sections) && ELF64_ST_TYPE(o->syms[i].st_info) == STT_SECTION)
            return i;
    return 0;
}

void rel_map_pack(const struct rel_object *o, const struct rel_unit *u, struct strbuf *out, struct rel_relas *relas)
{
    static const char zero[8];
    struct part p;
    struct strbuf map;
    part_init(&p, o, (uint32_t)(u - o->units.data));
    rw_map_pack(&p.w, o->name, &map);
    uint64_t head = REL_RECORD_HEAD + sizeof(struct rel_record_func) * p.funcs.len,
             all = ALIGN_UP(head + map.len, (uint64_t)8);
    struct rel_record r = {.magic = REL_RECORD_MAGIC,
                           .version = REL_RECORD_VERSION,
                           .funcs = (uint32_t)p.funcs.len,
                           .bytes = all,
                           .map_bytes = map.len};
    size_t start = out->len;
    str_put(out, &r, sizeof r);
    add_address(relas, offsetof(struct rel_record, counters), u->counters_symbol, 0);
    const struct rel_section *s = NULL;
    uint32_t sym = 0;
    for (size_t k = 0; k < p.funcs.len; k++) {
        uint32_t f = p.funcs.data[k], first = o->w.cfg->funcs.data[f].block_first;
        if (s != &o->sections[o->section_of_func[f]]) {
            s = &o->sections[o->section_of_func[f]];
            sym = symbol_of_section(o, s);
        }
        uint64_t enter = rw_enter(&o->w, first), end = o->w.funcs[f].addr_new + o->w.funcs[f].size_new;
        struct rel_record_func func = {0, (uint32_t)(rw_body(&o->w, first) - enter), (uint32_t)(end - enter)};
        if (sym)
            add_address(relas, out->len - start, sym, enter - s->vaddr_new);
        str_put(out, &func, sizeof func);
    }
    str_put(out, map.data, map.len);
    str_put(out, zero, all - head - map.len);
    str_free(&map);
    part_fini(&p);
}
