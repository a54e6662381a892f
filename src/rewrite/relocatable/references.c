/* SPDX-License-Identifier: Apache-2.0
 *
 * Relocations of data that refer to code that was moved: the bytes stay, the addends say the new places. What the
 * formats of their own are known of is in frames.c.
 *
 * needs: layout, frames. fills: sections' relas_new.
 */
#include "rewrite/relocatable/relocatable.h"

/* Of an entry of a jump table. */
static void move_entry(const struct rel_object *o, const struct rel_section *s, const struct rel_section *to,
                       const struct cfg_table *tab, Elf64_Rela *r)
{
    const struct rw *w = &o->w;
    uint64_t back = rel_class_of(rel_type(r)) == REL_RELATIVE ? s->vaddr + r->r_offset - tab->base : 0;
    uint64_t old = to->vaddr + o->syms[rel_sym(r)].st_value + (uint64_t)r->r_addend - back, target;
    const struct rw_table *nt = &w->tables.data[w->table_new[tab - w->cfg->tables.data]];
    uint32_t b = cfg_block_start(w->cfg, old);
    bool is_same = o->section_of_func[w->cfg->blocks.data[tab->block].func] == (uint32_t)(to - o->sections);
    if (b != ID_NONE && is_same)
        target = rw_table_target(w, nt, old) - to->vaddr_new;
    else
        target = rel_entrance(o, to, old - to->vaddr);
    r->r_addend = rel_addend(o, rel_sym(r), target, 0) + (int64_t)back;
}

/* s may be code that stays as it is. */
static void move_reference(const struct rel_object *o, const struct rel_section *s, Elf64_Rela *r)
{
    const struct rel_section *to = rel_code_of_symbol(o, rel_sym(r));
    enum rel_class class = rel_class_of(rel_type(r));
    uint64_t t;
    if (!to || !to->is_moved || (class != REL_ABSOLUTE && class != REL_RELATIVE))
        return;
    if (!s->is_code && s->vaddr && map_get(&o->table_of, s->vaddr + r->r_offset, &t)) {
        move_entry(o, s, to, &o->w.cfg->tables.data[t], r);
        return;
    }
    int bias = 0;
    if (class == REL_RELATIVE && s->is_code) {
        bias = rel_bias(o, s, r);
        if (bias < 0) /* judge.c let it pass: the symbol itself */
            return;
    }
    uint64_t target = o->syms[rel_sym(r)].st_value + (uint64_t)r->r_addend + (uint64_t)bias;
    r->r_addend = rel_addend(o, rel_sym(r), rel_entrance(o, to, target), bias);
}

void rel_references(struct rel_object *o)
{
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        if (s->has_new)
            continue;
        if (rel_is_debug(s)) { /* it could not be moved: a debugger shall find nothing rather than what is wrong */
            s->has_new = true;
            continue;
        }
        if (!s->rela_count)
            continue;
        if (s->bytes)
            str_put(&s->bytes_new, s->bytes, s->h.sh_size);
        for (size_t k = 0; k < s->rela_count; k++) {
            Elf64_Rela r = s->relas[k];
            move_reference(o, s, &r);
            VEC_PUSH(&s->relas_new, r);
        }
        s->has_new = true;
    }
}
