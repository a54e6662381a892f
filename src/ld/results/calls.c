/* SPDX-License-Identifier: Apache-2.0
 * Counters of calls (rewrite/instruments/calls.c) into arcs. Who is called directly the linked file says: the code is
 * read there, behind the linker's tables too; who is called through a pointer the runtime's table says. What was
 * entered more often than that was called by code that is not rewritten. */
#include <stdlib.h>

#include "ld/reading.h"
#include "x86/x86.h"

#include <elf.h>

struct pointer { /* an entry of the runtime's table */
    uint64_t callee, site, calls;
};
struct maker {
    struct ld_reading r;
    struct ld_calls *out;
    struct map place_at;      /* address -> place */
    struct map import_of;     /* index of a dynamic symbol -> place */
    VEC(uint32_t) by_address; /* places in the file, sorted: their numbers are below its length */
    VEC(struct pointer) pointers;
    struct map chosen;  /* a word of the linker's -> what the start-up chose for it */
    uint64_t *expected; /* [places] calls that came by the entrance and are known */
    uint64_t *entered;  /* [places] by its counter */
    bool *is_entered;   /* [places] it has one */
};

/* ---- places ---- */

static uint32_t add_place(struct maker *m, const char *name, const char *object, uint64_t address, uint64_t end)
{
    VEC_PUSH(&m->out->places, ((struct ld_place){name, object, address, end, 0, 0}));
    uint32_t i = (uint32_t)m->out->places.len - 1;
    if (address)
        map_put(&m->place_at, address, i);
    return i;
}

static void add_unit_places(struct maker *m, const struct rewrite_relocatable_unit *u)
{
    const char *object = arena_strdup(m->out->arena, u->name);
    for (uint32_t f = 0; f < u->map->cfg->funcs.len; f++) {
        const struct rewrite_relocatable_func *fn = &u->funcs[f];
        if (!fn->vaddr || !u->map->cfg->funcs.data[f].block_count)
            continue;
        uint32_t i = add_place(m, ld_reading_name(&m->r, fn->vaddr), object, fn->vaddr, fn->vaddr + fn->bytes);
        map_put(&m->place_at, fn->vaddr + fn->first_block, i); /* where jumps inside the object go */
    }
}

/* In a table of the linker's, where some linkers have symbols. */
static bool is_stub(const struct maker *m, uint64_t address)
{
    const struct image_section *s = image_section_of(m->r.img, address);
    return s && strstr(s->name, "plt");
}

/* Calls of _exit and _Exit come to the runtime first (ldrt/leave.h). */
static const char *name_of(const struct image_symbol *s)
{
    static const char before[] = "__wrap_";
    bool is_ours = !strcmp(s->name, "__wrap__exit") || !strcmp(s->name, "__wrap__Exit");
    return s->name + (is_ours ? strlen(before) : 0);
}

/* Functions that were taken over as they are. */
static void add_symbol_places(struct maker *m)
{
    for (size_t i = 0; i < m->r.img->symbol_count; i++) {
        const struct image_symbol *s = &m->r.img->symbols[i];
        bool is_function = s->type == STT_FUNC || s->type == STT_GNU_IFUNC;
        if (is_function && s->shndx && s->addr && *s->name && !map_has(&m->place_at, s->addr) && !is_stub(m, s->addr))
            add_place(m, arena_strdup(m->out->arena, name_of(s)), NULL, s->addr, s->addr + s->size);
    }
}

static uint32_t import(struct maker *m, uint32_t symbol)
{
    uint64_t i;
    if (!map_get(&m->import_of, symbol, &i)) {
        i = add_place(m, arena_strdup(m->out->arena, m->r.img->symbols[symbol].name), NULL, 0, 0);
        map_put(&m->import_of, symbol, i);
    }
    return (uint32_t)i;
}

static int by_address(const void *a, const void *b, void *ctx)
{
    const struct ld_place *p = ctx;
    uint64_t x = p[*(const uint32_t *)a].address, y = p[*(const uint32_t *)b].address;
    return (x > y) - (x < y);
}

static void sort_places(struct maker *m)
{
    for (uint32_t i = 0; i < m->out->places.len; i++)
        if (m->out->places.data[i].address)
            VEC_PUSH(&m->by_address, i);
    if (m->by_address.len)
        qsort_r(m->by_address.data, m->by_address.len, sizeof *m->by_address.data, by_address, m->out->places.data);
}

static uint32_t place_of(const struct maker *m, uint64_t address)
{
    const struct ld_place *all = m->out->places.data;
    size_t n = PARTITION_POINT(i, 0, m->by_address.len, all[m->by_address.data[i]].address <= address);
    uint32_t p = n ? m->by_address.data[n - 1] : LD_ELSEWHERE;
    return n && address < all[p].end ? p : LD_ELSEWHERE;
}

/* What is seldom executed of a function stands apart under a name of its own; going there is no call. */
static bool is_cold_part(const struct maker *m, uint32_t place)
{
    const char *end = strstr(m->out->places.data[place].name, ".cold");
    return end && (!end[5] || end[5] == '.');
}

/* ---- who is called ---- */

static uint32_t place_at(const struct maker *m, uint64_t address)
{
    uint64_t i;
    return map_get(&m->place_at, address, &i) ? (uint32_t)i : LD_ELSEWHERE;
}

/* By a word that the linker made, which the dynamic linker fills. */
static uint32_t place_in_slot(struct maker *m, uint64_t slot)
{
    uint64_t chosen;
    if (map_get(&m->chosen, slot, &chosen))
        return place_at(m, chosen);
    const struct image_reloc *r = image_reloc_at(m->r.img, slot);
    const uint8_t *word = image_at(m->r.img, slot, 8);
    uint64_t address = 0;
    if (r && r->sym && !m->r.img->symbols[r->sym].shndx)
        return import(m, r->sym);
    if (r && r->sym)
        address = m->r.img->symbols[r->sym].addr + (uint64_t)r->addend;
    else if (r)
        address = (uint64_t)r->addend;
    else if (word)
        memcpy(&address, word, 8);
    return place_at(m, address);
}

/* The function at an address, or behind the stub of the linker's that is there. */
static uint32_t callee_at(struct maker *m, uint64_t address)
{
    if (!is_stub(m, address))
        return place_at(m, address);
    for (int n = 0; n < 3; n++) { /* endbr64; jmp *[slot] */
        struct x86_insn i;
        const uint8_t *p = image_at(m->r.img, address, 16);
        int len = p ? x86_decode(p, 16, address, &i) : 0;
        if (len && i.kind == X86_JMP_IND && (i.props & X86_PROP_RIPREL))
            return place_in_slot(m, i.target);
        if (!len || x86_is_branch(&i))
            return LD_ELSEWHERE;
        address += (uint64_t)len;
    }
    return LD_ELSEWHERE;
}

/* Of the direct call or jump at a block's end. */
static uint32_t direct_callee(struct maker *m, const struct rewrite_relocatable_unit *u, uint32_t b, uint64_t *site)
{
    uint64_t at = ld_reading_block(u, b), end = ld_reading_block_end(u, b);
    while (at < end) {
        struct x86_insn i;
        const uint8_t *p = image_at(m->r.img, at, end - at);
        int len = p ? x86_decode(p, end - at, at, &i) : 0;
        if (!len)
            return LD_ELSEWHERE;
        *site = at;
        if (i.kind == X86_CALL || i.kind == X86_JMP || i.kind == X86_JCC)
            return callee_at(m, i.target);
        if (i.kind == X86_CALL_IND || i.kind == X86_JMP_IND)
            return i.props & X86_PROP_RIPREL ? place_in_slot(m, i.target) : LD_ELSEWHERE;
        if (x86_is_branch(&i))
            return LD_ELSEWHERE;
        at += (uint64_t)len;
    }
    return LD_ELSEWHERE;
}

/* ---- arcs ---- */

static void add_arc(struct maker *m, uint32_t caller, uint32_t callee, uint64_t site, uint64_t calls)
{
    if (!calls || callee == LD_ELSEWHERE)
        return;
    m->out->places.data[callee].calls += calls;
    VEC_PUSH(&m->out->arcs, ((struct ld_arc){caller, callee, site, calls}));
}

static uint64_t executed(const struct rewrite_relocatable_unit *u, const uint64_t *counters, uint32_t b)
{
    const struct cfg_block *blk = &u->map->cfg->blocks.data[b];
    uint64_t n = counters[u->map->block_counter[b]];
    if (blk->term == X86_JCC)
        cfg_for_each_edge(blk, e)
            if (u->map->edge_counter[e] != ID_NONE)
                n -= min_u64(n, counters[u->map->edge_counter[e]]);
    return n;
}

/* Goes to the function's body behind what counts its entrances? */
static bool is_inside(const struct cfg *c, const struct cfg_block *blk)
{
    cfg_for_each_edge(blk, e)
        if (c->edges.data[e].kind == CFG_EDGE_TAIL && c->edges.data[e].to != ID_NONE)
            return true;
    return false;
}

static void add_direct(struct maker *m, const struct rewrite_relocatable_unit *u, const uint64_t *counters, uint32_t b)
{
    const struct cfg_block *blk = &u->map->cfg->blocks.data[b];
    if (u->map->block_counter[b] == ID_NONE)
        return;
    uint64_t n = executed(u, counters, b), site = 0;
    uint32_t callee = n ? direct_callee(m, u, b, &site) : LD_ELSEWHERE;
    bool is_jump = blk->term != X86_CALL && blk->term != X86_CALL_IND;
    if (callee == LD_ELSEWHERE || (is_jump && is_cold_part(m, callee)))
        return;
    add_arc(m, place_of(m, site), callee, site, n);
    if (callee < m->by_address.len) /* not one of another file */
        m->expected[callee] += is_inside(u->map->cfg, blk) ? 0 : n;
}

static void add_pointers(struct maker *m)
{
    for (size_t i = 0; i < m->pointers.len; i++) {
        const struct pointer *p = &m->pointers.data[i];
        uint32_t callee = callee_at(m, p->callee);
        add_arc(m, place_of(m, p->site), callee, p->site, p->calls);
        if (callee < m->by_address.len)
            m->expected[callee] += p->calls;
    }
}

static int add_unit(struct maker *m, const struct rewrite_relocatable_unit *u)
{
    const uint64_t *counters = ld_reading_counters(&m->r, u);
    if (!counters)
        return -1;
    for (uint32_t f = 0; f < u->map->cfg->funcs.len; f++) {
        const struct cfg_func *fn = &u->map->cfg->funcs.data[f];
        if (!u->funcs[f].vaddr || !fn->block_count)
            continue;
        uint32_t place = place_at(m, u->funcs[f].vaddr);
        cfg_for_each_block(fn, b) {
            add_direct(m, u, counters, b);
            if (u->map->enter_counter[b] != ID_NONE && b == fn->block_first) {
                m->entered[place] += counters[u->map->enter_counter[b]];
                m->is_entered[place] = true;
            }
        }
    }
    return 0;
}

/* What was entered and not called by anybody that is known. */
static void add_spontaneous(struct maker *m)
{
    for (uint32_t i = 0; i < m->by_address.len; i++) {
        if (!m->is_entered[i] || is_cold_part(m, i))
            continue;
        if (m->entered[i] > m->expected[i])
            add_arc(m, LD_ELSEWHERE, i, 0, m->entered[i] - m->expected[i]);
        m->out->inconsistent += m->entered[i] < m->expected[i];
    }
}

/* ---- tables ---- */

static void take_entry(struct maker *m, const struct wire_table *t, const struct wire_table_entry *e, uint64_t above)
{
    uint64_t what = e->what - above, where = e->where - above;
    bool is_here = what - m->r.img->vaddr_lo < m->r.img->vaddr_hi - m->r.img->vaddr_lo;
    if (t->kind == WIRE_TABLE_SAMPLES && is_here)
        VEC_PUSH(&m->out->samples, ((struct ld_sample){what, e->count}));
    else if (t->kind == WIRE_TABLE_SAMPLES)
        m->out->elsewhere += e->count;
    else if (is_here && t->kind == WIRE_TABLE_SLOTS)
        map_put(&m->chosen, where, what);
    else if (is_here)
        VEC_PUSH(&m->pointers, ((struct pointer){what, where, e->count}));
}

static void take_table(void *ctx, const struct wire_table *t, const struct wire_table_entry *entries, size_t count,
                       uint64_t above)
{
    struct maker *m = ctx;
    for (size_t i = 0; i < count; i++)
        if (entries[i].what && entries[i].count)
            take_entry(m, t, &entries[i], above);
    if (t->kind == WIRE_TABLE_SAMPLES) {
        m->out->processor_s += (double)t->spare[0] / 1e9;
        m->out->lost_samples += t->lost;
    } else {
        m->out->lost_calls += t->lost;
    }
}

static int sample_order(const void *a, const void *b)
{
    const struct ld_sample *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static void place_samples(struct maker *m)
{
    if (m->out->samples.len)
        qsort(m->out->samples.data, m->out->samples.len, sizeof *m->out->samples.data, sample_order);
    for (size_t i = 0; i < m->out->samples.len; i++) {
        uint32_t p = place_of(m, m->out->samples.data[i].address);
        if (p != LD_ELSEWHERE)
            m->out->places.data[p].samples += m->out->samples.data[i].count;
    }
}

/* ---- all ---- */

static int read_all(struct maker *m, const char *path, const char *const *files, size_t count)
{
    if (ld_reading_open(&m->r, path, files, count, take_table, m) < 0)
        return -1;
    for (size_t i = 0; i < m->r.linked->unit_count; i++)
        add_unit_places(m, &m->r.linked->units[i]);
    add_symbol_places(m);
    sort_places(m); /* from here on only functions of other files are added, behind these */
    m->expected = ARENA_ARRAY(m->out->arena, uint64_t, m->by_address.len + 1);
    m->entered = ARENA_ARRAY(m->out->arena, uint64_t, m->by_address.len + 1);
    m->is_entered = ARENA_ARRAY(m->out->arena, bool, m->by_address.len + 1);
    for (size_t i = 0; i < m->r.linked->unit_count; i++)
        if (add_unit(m, &m->r.linked->units[i]) < 0)
            return -1;
    add_pointers(m);
    add_spontaneous(m);
    place_samples(m);
    return 0;
}

int ld_calls_read(const char *path, const char *const *files, size_t count, struct ld_calls **out)
{
    struct maker m = {.out = xmalloc(sizeof *m.out)};
    m.out->arena = m.r.arena = arena_new();
    m.out->files = count;
    int rc = read_all(&m, path, files, count);
    ld_reading_close(&m.r);
    map_fini(&m.place_at), map_fini(&m.import_of), map_fini(&m.chosen);
    VEC_FREE(&m.by_address);
    VEC_FREE(&m.pointers);
    if (rc < 0)
        ld_calls_free(m.out);
    *out = rc < 0 ? NULL : m.out;
    return rc;
}

void ld_calls_free(struct ld_calls *c)
{
    VEC_FREE(&c->places);
    VEC_FREE(&c->arcs);
    VEC_FREE(&c->samples);
    arena_free(c->arena);
    free(c);
}
