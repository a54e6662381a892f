/* SPDX-License-Identifier: Apache-2.0
 *
 * Sites of which nothing came, though the exact counts say that they were executed: behind a filter, those whose
 * references are all to the line that was used just before. Where the instructions prove which object that is they get
 * a cell of their own, without misses: an address that the file says, a frame's, or what another site of the same block
 * reaches by the same registers less than 64 bytes away.
 */
#include "prof/spied/spied.h"

#include <stdlib.h>

enum { NEAR_BYTES = 64 }; /* accesses by the same registers that are less apart are taken to be of one object */

struct access_at { /* of the block that is looked at */
    struct x86_access access;
    uint32_t site; /* ID_NONE: of none */
    uint32_t insn;
};
struct proofs {
    struct spied *s;
    uint32_t *by_address; /* sites, in the order of modules and addresses */
    uint32_t *cell_of;    /* by site: its only one; ID_NONE: it has none, or several */
    const uint64_t *told; /* by site */
    VEC(struct spy_cell) more;
    struct access_at accesses[CFG_BLOCK_INSNS_MAX * X86_ACCESSES_MAX];
    size_t access_count;
    uint16_t written[CFG_BLOCK_INSNS_MAX]; /* general registers, by instruction */
    uint32_t insn_count;
};

/* ---- sites by address ---- */

struct site_at {
    uint64_t address;
    uint32_t module, site;
};

static int by_address(const void *x, const void *y)
{
    const struct site_at *a = x, *b = y;
    if (a->module != b->module)
        return a->module > b->module ? 1 : -1;
    if (a->address != b->address)
        return a->address > b->address ? 1 : -1;
    return (a->site > b->site) - (a->site < b->site);
}

static void sort_sites(struct proofs *p)
{
    uint32_t count = spy_site_count(p->s->in->spy);
    struct site_at *all = xmalloc((count + 1ull) * sizeof *all);
    for (uint32_t i = 0; i < count; i++) {
        const struct spy_site *site = spy_site(p->s->in->spy, i);
        all[i] = (struct site_at){site->address, site->module, i};
    }
    qsort(all, count, sizeof *all, by_address);
    p->by_address = ARENA_ARRAY(p->s->j->scratch, uint32_t, count + 1ull);
    for (uint32_t i = 0; i < count; i++)
        p->by_address[i] = all[i].site;
    free(all);
}

static const struct spy_site *site_at(const struct proofs *p, size_t place)
{
    return spy_site(p->s->in->spy, p->by_address[place]);
}

/* The first of a module that is not before the address. */
static size_t place_of(const struct proofs *p, uint32_t module, uint64_t address)
{
    return PARTITION_POINT(i, 0, spy_site_count(p->s->in->spy),
                           site_at(p, i)->module < module ||
                               (site_at(p, i)->module == module && site_at(p, i)->address < address));
}

static bool is_at(const struct proofs *p, size_t place, uint32_t module, uint64_t address)
{
    return place < spy_site_count(p->s->in->spy) && site_at(p, place)->module == module &&
           site_at(p, place)->address == address;
}

/* ---- what a block reaches ---- */

/* An instruction's sites: what it reads, then what it only writes. */
static void add_accesses(struct proofs *p, const struct x86_detail *d, uint32_t module, bool only_stores, size_t *place)
{
    for (int k = 0; k < d->access_count; k++) {
        const struct x86_access *a = &d->access[k];
        if ((a->is_store && !a->is_load) != only_stores || !is_at(p, *place, module, d->insn.addr))
            continue;
        p->accesses[p->access_count++] =
            (struct access_at){.access = *a, .site = p->by_address[*place], .insn = p->insn_count};
        ++*place;
    }
}

static bool add_instruction(struct proofs *p, const uint8_t *bytes, size_t avail, uint32_t module, uint64_t address,
                            uint64_t *next)
{
    struct x86_detail d;
    int length = x86_decode_detail(bytes, avail, address, &d);
    if (!length || p->insn_count == CFG_BLOCK_INSNS_MAX)
        return false;
    size_t place = place_of(p, module, address);
    add_accesses(p, &d, module, false, &place);
    add_accesses(p, &d, module, true, &place);
    p->written[p->insn_count++] = (uint16_t)(d.insn.gpr_written | (d.insn.props & X86_PROP_STACK ? 1u << X86_RSP : 0));
    *next = address + (unsigned)length;
    return true;
}

static void read_block(struct proofs *p, uint32_t module, uint32_t block)
{
    const struct join_module *m = &p->s->j->modules[module];
    const struct cfg_block *b = &m->cfg->blocks.data[block];
    uint64_t at = b->addr, end = b->addr + b->size;
    const uint8_t *bytes = m->img ? image_at(m->img, at, b->size) : NULL;
    p->access_count = p->insn_count = 0;
    while (bytes && at < end && add_instruction(p, bytes + (at - b->addr), end - at, module, at, &at))
        ;
}

/* ---- proofs ---- */

static bool is_same_base(const struct x86_access *a, const struct x86_access *b)
{
    return a->base == b->base && a->index == b->index && a->segment == b->segment &&
           (a->index == X86_REG_NONE || a->scale == b->scale);
}

static uint16_t bit_of(uint8_t reg) { return reg < X86_GPR_COUNT ? (uint16_t)(1u << reg) : 0; }

/* Do the registers keep what they hold from the one to the other? */
static bool is_kept(const struct proofs *p, const struct access_at *a, const struct access_at *b)
{
    uint16_t registers = bit_of(a->access.base) | bit_of(a->access.index);
    for (uint32_t i = a->insn < b->insn ? a->insn : b->insn; i < (a->insn < b->insn ? b->insn : a->insn); i++)
        if (p->written[i] & registers)
            return false;
    return true;
}

static bool is_near(const struct x86_access *a, const struct x86_access *b)
{
    uint64_t apart = (uint64_t)a->disp - (uint64_t)b->disp;
    return apart + NEAR_BYTES - 1 <= 2 * (NEAR_BYTES - 1);
}

/* A cell whose object it is, and whose steps are its own too; ID_NONE. */
static uint32_t cell_beside(const struct proofs *p, const struct access_at *a)
{
    for (size_t i = 0; i < p->access_count; i++) {
        const struct access_at *b = &p->accesses[i];
        uint32_t cell = p->cell_of[b->site];
        if (cell != ID_NONE && is_same_base(&a->access, &b->access) && is_near(&a->access, &b->access) &&
            is_kept(p, a, b))
            return cell;
    }
    return ID_NONE;
}

/* false: nothing proves what it reaches. */
static bool cell_of_access(const struct proofs *p, const struct access_at *a, struct spy_cell *out)
{
    const struct x86_access *x = &a->access;
    const struct prof_input_spied *in = p->s->in;
    bool is_frame = x->base == X86_RSP, is_static = x->base == X86_REG_NONE && x->index == X86_REG_NONE;
    *out = (struct spy_cell){.site = a->site};
    if (x->segment == X86_SEGMENT_NONE && in->object_of && (is_frame || is_static)) {
        out->object = in->object_of(in->ctx, a->site, is_frame ? PROF_UNKNOWN : (uint64_t)x->disp, &out->field);
    } else {
        uint32_t beside = cell_beside(p, a);
        if (beside == ID_NONE)
            return false;
        const struct spy_cell *c = &p->s->cells[beside];
        out->object = c->object;
        out->stride = c->stride;
        out->strided = c->strided;
    }
    return out->object < in->data_count;
}

static void prove(struct proofs *p, uint32_t site)
{
    struct spy_cell cell;
    for (size_t i = 0; i < p->access_count; i++)
        if (p->accesses[i].site == site && cell_of_access(p, &p->accesses[i], &cell))
            VEC_PUSH(&p->more, cell);
}

/* ID_NONE: it was not executed, or something came of it. */
static uint32_t silent_block(const struct proofs *p, uint32_t site)
{
    const struct join *j = p->s->j;
    const struct spy_site *of = spy_site(p->s->in->spy, site);
    const struct join_module *m = of->module < j->module_count ? &j->modules[of->module] : NULL;
    uint32_t block = of->bytes && !p->told[site] && m && m->cfg ? cfg_block_at(m->cfg, of->address) : ID_NONE;
    return block == ID_NONE || !j->counts[m->block_base + block] ? ID_NONE : block;
}

static void prove_all(struct proofs *p)
{
    uint32_t module = ID_NONE, block = ID_NONE;
    for (size_t i = 0; i < spy_site_count(p->s->in->spy); i++) {
        uint32_t silent = silent_block(p, p->by_address[i]);
        if (silent == ID_NONE)
            continue;
        if (silent != block || site_at(p, i)->module != module)
            read_block(p, module = site_at(p, i)->module, block = silent);
        prove(p, p->by_address[i]);
    }
}

static void find_cells(struct proofs *p)
{
    const struct spied *s = p->s;
    uint32_t count = spy_site_count(s->in->spy);
    uint32_t *cells = ARENA_ARRAY(s->j->scratch, uint32_t, count + 1ull);
    p->cell_of = ARENA_ARRAY(s->j->scratch, uint32_t, count + 1ull);
    memset(p->cell_of, 0xff, count * sizeof *p->cell_of);
    for (uint32_t i = 0; i < s->cell_count; i++)
        p->cell_of[s->cells[i].site] = cells[s->cells[i].site]++ ? ID_NONE : i;
}

static void keep_cells(struct proofs *p)
{
    struct spied *s = p->s;
    struct spy_cell *all = ARENA_ARRAY(s->j->scratch, struct spy_cell, s->cell_count + p->more.len + 1);
    memcpy(all, s->cells, s->cell_count * sizeof *all);
    for (size_t i = 0; i < p->more.len; i++)
        all[s->cell_count + i] = p->more.data[i];
    s->cells = all;
    s->cell_count += p->more.len;
}

void spied_proofs(struct spied *s)
{
    if (!s->in->is_filtered || !s->cell_count)
        return;
    struct proofs *p = xmalloc(sizeof *p);
    p->s = s;
    p->told = spied_told_by_site(s);
    sort_sites(p);
    find_cells(p);
    prove_all(p);
    keep_cells(p);
    VEC_FREE(&p->more);
    free(p);
}
