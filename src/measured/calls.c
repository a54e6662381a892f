/* SPDX-License-Identifier: Apache-2.0
 *
 * calls: which block a call goes to, across modules. A call to a linkage stub, or through a slot of the offset table,
 * is followed by the name in the slot's relocation to the first module that defines it, as the dynamic loader would
 * (without versions). Indirect functions chosen at start-up and calls through pointers stay unknown here.
 */
#include "measured/measured.h"

#include <assert.h>
#include <elf.h>
#include <stdlib.h>

struct symbols {        /* name -> block that it stands for, ID_NONE if that is not known */
    struct map by_hash; /* -> index */
    VEC(struct symbol {
        const char *name;
        uint32_t block;
    })
    v;
};

static uint64_t hash_name(const char *s)
{
    uint64_t h = 5381;
    for (; *s; s++)
        h = h * 0x100000001b3u + (uint8_t)*s;
    return h;
}

/* The entry for a name; h becomes where it is or would be put. */
static struct symbol *find(struct symbols *s, const char *name, uint64_t *h)
{
    uint64_t at;
    for (*h = hash_name(name); map_get(&s->by_hash, *h, &at); ++*h) {
        assert(at < s->v.len);
        if (strcmp(s->v.data[at].name, name) == 0)
            return &s->v.data[at];
    }
    return NULL;
}

static uint32_t block_at(const struct join *j, const struct join_module *m, uint64_t addr)
{
    uint32_t b = addr && m->cfg ? cfg_block_start(m->cfg, addr) : ID_NONE;
    bool known = b != ID_NONE && j->counts[m->block_base + b] != 0;
    return known ? m->block_base + b : ID_NONE;
}

static void index_symbols(const struct join *j, struct symbols *s)
{
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (size_t k = 0; m->img && k < m->img->dynsym_count; k++) {
            const struct image_symbol *sym = &m->img->symbols[k];
            uint64_t h;
            if (sym->shndx == SHN_UNDEF || sym->bind == STB_LOCAL || !sym->name[0] || sym->type == STT_OBJECT ||
                find(s, sym->name, &h))
                continue;
            map_put(&s->by_hash, h, s->v.len);
            bool direct = sym->type == STT_FUNC || sym->type == STT_NOTYPE;
            VEC_PUSH(&s->v, ((struct symbol){sym->name, direct ? block_at(j, m, sym->addr) : ID_NONE}));
        }
    }
}

/* What a slot that holds a code address was bound to. */
static uint32_t through_slot(const struct join *j, struct symbols *s, const struct join_module *m, uint64_t slot)
{
    const struct image_reloc *r = image_reloc_at(m->img, slot);
    uint64_t h;
    if (!r)
        return ID_NONE;
    if (r->type == R_X86_64_RELATIVE && image_is_readonly_data(m->img, slot))
        return block_at(j, m, (uint64_t)r->addend);
    if (r->type != R_X86_64_JUMP_SLOT && r->type != R_X86_64_GLOB_DAT)
        return ID_NONE;
    const struct symbol *sym = r->sym_name ? find(s, r->sym_name, &h) : NULL;
    return sym ? sym->block : ID_NONE;
}

uint64_t calls_stub_slot(const struct image *img, uint64_t addr)
{
    for (int i = 0; i < 3; i++) {
        struct x86_insn insn;
        const uint8_t *bytes = image_at(img, addr, 8);
        if (!bytes || !x86_decode(bytes, 8, addr, &insn))
            return 0;
        if (insn.kind == X86_JMP_IND)
            return insn.props & X86_PROP_RIPREL ? insn.target : 0;
        if (!(insn.props & (X86_PROP_NOP | X86_PROP_ENDBR)))
            return 0;
        addr += insn.len;
    }
    return 0;
}

/* The slot that a block's last instruction goes through; 0 if through something else. */
static uint64_t last_slot(const struct image *img, const struct cfg_block *b)
{
    const uint8_t *bytes = image_at(img, b->addr, b->size);
    struct x86_insn insn = {0};
    for (uint32_t off = 0; bytes && off < b->size; off += insn.len)
        if (!x86_decode(bytes + off, b->size - off, b->addr + off, &insn))
            return 0;
    return (insn.kind == X86_CALL_IND || insn.kind == X86_JMP_IND) && insn.props & X86_PROP_RIPREL ? insn.target : 0;
}

static uint32_t target_of(const struct join *j, struct symbols *s, const struct join_module *m,
                          const struct cfg_block *b)
{
    if (b->call_target) {
        uint32_t direct = block_at(j, m, b->call_target);
        uint64_t slot = direct == ID_NONE && m->img ? calls_stub_slot(m->img, b->call_target) : 0;
        return slot ? through_slot(j, s, m, slot) : direct;
    }
    bool indirect = b->term == X86_CALL_IND || b->term == X86_JMP_IND;
    uint64_t slot = indirect && m->img ? last_slot(m->img, b) : 0;
    return slot ? through_slot(j, s, m, slot) : ID_NONE;
}

/* Sites by target: counted, then filed. */
static void file_sites(struct join *j, struct calls *c)
{
    c->from_first = ARENA_ARRAY(j->scratch, uint32_t, j->block_count + 2);
    uint32_t *at = c->from_first, total = 0;
    for (uint32_t b = 0; b < j->block_count; b++)
        if (c->to[b] != ID_NONE)
            at[c->to[b] + 1]++, total++;
    for (uint32_t b = 0; b < j->block_count; b++)
        at[b + 1] += at[b];
    c->sites = ARENA_ARRAY(j->scratch, struct call_site, total + 1);
    uint32_t *used = xmalloc_sparse((j->block_count + 1) * sizeof *used);
    for (uint32_t b = 0; b < j->block_count; b++) {
        uint32_t to = c->to[b];
        if (to == ID_NONE)
            continue;
        uint32_t k = at[to] + used[to]++;
        c->sites[k] = (struct call_site){b, j->counts[b] + (k > at[to] ? c->sites[k - 1].up_to : 0)};
    }
    xfree_sparse(used);
}

void calls_resolve(struct join *j)
{
    struct calls *out = ARENA_NEW(j->scratch, struct calls);
    struct symbols s = {0};
    index_symbols(j, &s);
    out->to = ARENA_ARRAY(j->scratch, uint32_t, j->block_count + 1);
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (uint32_t b = 0; m->cfg && b < m->cfg->blocks.len; b++)
            out->to[m->block_base + b] =
                j->counts[m->block_base + b] ? target_of(j, &s, m, &m->cfg->blocks.data[b]) : ID_NONE;
    }
    file_sites(j, out);
    j->calls = out;
    map_fini(&s.by_hash);
    VEC_FREE(&s.v);
}
