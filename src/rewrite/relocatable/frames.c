/* SPDX-License-Identifier: Apache-2.0
 *
 * .eh_frame and the exception tables, written anew record by record: what a record says of code is recomputed, all else
 * keeps its bytes, and relocations go with what they are about.
 *
 * needs: layout. fills: lsdas; bytes_new and relas_new of these sections.
 */
#include "rewrite/relocatable/relocatable.h"

#include <dwarf.h>
#include <stdlib.h>

struct writer {
    struct rel_mover at;   /* the function at hand */
    struct rel_section *s; /* at hand */
    struct map cie_at;     /* old offset of a CIE to the new one */
    struct map fde_at;     /* old address of a record to its number */
};

uint64_t rel_moved_addr(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad)
{
    const struct rel_mover *w = ctx;
    const struct image_fde *f = &w->o->w.cfg->unwind.fdes[fde];
    uint64_t off = addr_old - w->code->vaddr;
    if (!w->code->is_moved)
        return addr_old;
    if (is_landing_pad)
        return w->code->vaddr_new + rel_entrance(w->o, w->code, off);
    if (addr_old == f->addr + f->len_bytes)
        return w->code->vaddr_new + rel_end(w->o, w->code, off);
    return w->code->vaddr_new + rel_front(w->o, w->code, off);
}

bool rel_moved_func(struct rel_mover *w, uint32_t fde, struct rw_frames *frames, struct image_moved_func *out)
{
    struct rel_object *o = w->o;
    const struct image_fde *d = &o->w.cfg->unwind.fdes[fde];
    uint32_t f = cfg_func_at(o->w.cfg, d->addr);
    if (f == ID_NONE || o->w.cfg->funcs.data[f].fde != fde)
        return false;
    w->code = &o->sections[o->section_of_func[f]];
    *out = (struct image_moved_func){fde, d->addr, d->len_bytes, NULL, 0, false};
    if (!w->code->is_moved)
        return true;
    rw_frames_of(&o->w, f, frames);
    *out = (struct image_moved_func){fde,  o->w.funcs[f].addr_new, o->w.funcs[f].size_new, frames->data, frames->len,
                                     false};
    return true;
}

/* Relocations of s in [lo, hi), whose bytes are now at `at`; else others are the caller's. False: one changes bytes
 * behind that. */
static bool move_relas(struct rel_section *s, uint64_t lo, uint64_t hi, uint64_t at)
{
    size_t k = PARTITION_POINT(i, 0, s->rela_count, s->relas[i].r_offset < lo);
    for (; k < s->rela_count && s->relas[k].r_offset < hi; k++) {
        Elf64_Rela r = s->relas[k];
        if (rel_width(rel_type(&r)) > hi - r.r_offset)
            return false;
        r.r_offset += at - lo;
        VEC_PUSH(&s->relas_new, r);
    }
    return true;
}

static size_t relas_in(const struct rel_section *s, uint64_t lo, uint64_t hi)
{
    return PARTITION_POINT(i, 0, s->rela_count, s->relas[i].r_offset < hi) -
           PARTITION_POINT(i, 0, s->rela_count, s->relas[i].r_offset < lo);
}

/* ---- exception tables ---- */

static int by_lsda(const void *a, const void *b, void *ctx)
{
    const struct image_fde *fdes = ctx;
    uint64_t x = fdes[*(const uint32_t *)a].lsda, y = fdes[*(const uint32_t *)b].lsda;
    return (x > y) - (x < y);
}

static bool put_lsda(struct writer *w, uint32_t fde, uint64_t *done)
{
    static const char zero[8];
    struct rel_object *o = w->at.o;
    struct rel_section *s = w->s;
    uint64_t old = o->w.cfg->unwind.fdes[fde].lsda, off = old - s->vaddr;
    struct rw_frames frames = {0};
    struct image_moved_func m;
    struct image_lsda_moved where;
    uint64_t align = max_u64(1, min_u64(8, s->h.sh_addralign));
    diag_debug(2, "relocatable: %s: exception table at 0x%llx", s->name, (unsigned long long)off);
    if (off < *done || relas_in(s, *done, off) || !rel_moved_func(&w->at, fde, &frames, &m))
        return false;
    str_put(&s->bytes_new, zero, -s->bytes_new.len & (align - 1));
    int rc = image_unwind_lsda_moved(o->w.img, &o->w.cfg->unwind, &m, rel_moved_addr, &w->at, &s->bytes_new, &where);
    VEC_FREE(&frames);
    if (rc < 0)
        return false;
    struct rel_lsda l = {old, where.at};
    VEC_PUSH(&o->lsdas, l);
    uint64_t lo = where.kept - s->vaddr;
    *done = lo + where.kept_len;
    return *done <= s->h.sh_size && !relas_in(s, off, lo) && move_relas(s, lo, *done, where.kept_at);
}

static bool put_lsdas(struct writer *w)
{
    const struct image_unwind *u = &w->at.o->w.cfg->unwind;
    struct rel_section *s = w->s;
    uint32_t *ids = xmalloc((u->fde_count + 1) * sizeof *ids);
    size_t n = 0;
    for (uint32_t i = 0; i < u->fde_count; i++)
        if (u->fdes[i].lsda && u->fdes[i].lsda - s->vaddr < s->h.sh_size)
            ids[n++] = i;
    qsort_r(ids, n, sizeof *ids, by_lsda, u->fdes);
    uint64_t done = 0;
    bool ok = true;
    for (size_t k = 0; k < n && ok; k++)
        ok = put_lsda(w, ids[k], &done);
    ok = ok && !relas_in(s, done, s->h.sh_size + 1);
    free(ids);
    s->has_new = true;
    return ok;
}

static int by_old(const void *a, const void *b)
{
    const struct rel_lsda *x = a, *y = b;
    return (x->old > y->old) - (x->old < y->old);
}

/* The new offset of the table at an old address. */
static bool find_lsda(const struct rel_object *o, uint64_t old, uint64_t *at)
{
    size_t n = PARTITION_POINT(i, 0, o->lsdas.len, o->lsdas.data[i].old < old);
    if (n == o->lsdas.len || o->lsdas.data[n].old != old)
        return false;
    *at = o->lsdas.data[n].at;
    return true;
}

static bool is_lsda_section(const struct rel_section *s)
{
    return s->vaddr && s->bytes && strncmp(s->name, ".gcc_except_table", 17) == 0;
}

/* Local names of tables. */
static bool move_lsda_symbols(struct rel_object *o)
{
    for (uint32_t i = 1; i < o->sym_count; i++) {
        Elf64_Sym *sym = &o->syms[i];
        const struct rel_section *s = sym->st_shndx < SHN_LORESERVE ? &o->sections[sym->st_shndx] : o->sections;
        uint64_t at;
        if (!is_lsda_section(s) || ELF64_ST_TYPE(sym->st_info) == STT_SECTION)
            continue;
        if (!find_lsda(o, s->vaddr + sym->st_value, &at))
            return false;
        sym->st_value = at;
        sym->st_size = 0;
    }
    return true;
}

/* ---- .eh_frame ---- */

static uint32_t word_at(const struct rel_section *s, uint64_t at)
{
    uint32_t v;
    memcpy(&v, s->bytes + at, 4);
    return v;
}

static void patch(struct rel_section *s, size_t at, uint32_t v) { memcpy(s->bytes_new.data + at, &v, 4); }

static void end_record(struct rel_section *s, size_t at)
{
    static const char zero[8]; /* DW_CFA_nop */
    str_put(&s->bytes_new, zero, -(s->bytes_new.len - at) & 7);
    patch(s, at, (uint32_t)(s->bytes_new.len - at - 4));
}

static bool copy_record(struct rel_section *s, uint64_t lo, uint64_t hi)
{
    bool is_whole = move_relas(s, lo, hi, s->bytes_new.len);
    str_put(&s->bytes_new, s->bytes + lo, hi - lo);
    return is_whole;
}

/* The address and size of its code, and the exception table. */
static bool put_fde_head(struct writer *w, const struct image_moved_func *m, uint64_t lo, uint64_t cfi)
{
    struct rel_object *o = w->at.o;
    struct rel_section *s = w->s;
    size_t at = s->bytes_new.len, first = s->relas_new.len;
    const struct image_cie *cie = &o->w.cfg->unwind.cies[o->w.cfg->unwind.fdes[m->fde].cie];
    unsigned width = (cie->fde_enc & 7) == (DW_EH_PE_sdata4 & 7) || (cie->fde_enc & 7) == DW_EH_PE_udata4 ? 4 : 8;
    if (!copy_record(s, lo, cfi))
        return false;
    memcpy(s->bytes_new.data + at + 8 + width, &m->len_new, width);
    for (size_t k = first; k < s->relas_new.len; k++) {
        Elf64_Rela *r = &s->relas_new.data[k];
        uint64_t value = o->syms[rel_sym(r)].st_value + (uint64_t)r->r_addend, new_at;
        const struct rel_section *to =
            &o->sections[o->syms[rel_sym(r)].st_shndx < SHN_LORESERVE ? o->syms[rel_sym(r)].st_shndx : 0];
        enum rel_class class = rel_class_of(rel_type(r));
        if (class != REL_ABSOLUTE && class != REL_RELATIVE)
            return false;
        if (to == w->at.code && w->at.code->is_moved && r->r_offset == at + 8) {
            r->r_addend = rel_addend(o, rel_sym(r), m->addr_new - to->vaddr_new, 0);
        } else if (is_lsda_section(to) && r->r_offset > at + 8) {
            const Elf64_Sym *sym = &o->syms[rel_sym(r)]; /* its value is still the old one: see rel_frames */
            if (!find_lsda(o, to->vaddr + value, &new_at) ||
                (ELF64_ST_TYPE(sym->st_info) != STT_SECTION && r->r_addend != 0))
                return false;
            if (ELF64_ST_TYPE(sym->st_info) == STT_SECTION)
                r->r_addend = (int64_t)new_at;
        } else if (to != w->at.code) {
            return false;
        }
    }
    return true;
}

static bool put_fde(struct writer *w, uint64_t lo, uint64_t hi)
{
    struct rel_object *o = w->at.o;
    const struct image_unwind *u = &o->w.cfg->unwind;
    diag_debug(2, "relocatable: %s: record at 0x%llx", w->s->name, (unsigned long long)lo);
    uint64_t found, cie, cie_old = lo + 4 - word_at(w->s, lo + 4);
    struct rw_frames frames = {0};
    struct image_moved_func m;
    if (!map_get(&w->fde_at, w->s->vaddr + lo, &found) || !map_get(&w->cie_at, cie_old, &cie) ||
        !rel_moved_func(&w->at, (uint32_t)found, &frames, &m))
        return false;
    uint32_t fde = (uint32_t)found;
    size_t at = w->s->bytes_new.len;
    uint64_t cfi = lo + (uint64_t)(u->fdes[fde].cfi - image_at(o->w.img, u->fdes[fde].record, 1));
    bool ok = put_fde_head(w, &m, lo, cfi);
    patch(w->s, at + 4, (uint32_t)(at + 4 - cie));
    if (w->at.code->is_moved)
        ok = ok && image_unwind_cfi_moved(o->w.img, u, &m, rel_moved_addr, &w->at, &w->s->bytes_new) == 0;
    else
        ok = copy_record(w->s, cfi, hi) && ok;
    ok = ok && (!w->at.code->is_moved || relas_in(w->s, cfi, hi) == 0);
    end_record(w->s, at);
    VEC_FREE(&frames);
    return ok;
}

static bool put_records(struct writer *w)
{
    struct rel_section *s = w->s;
    s->has_new = true;
    for (uint64_t at = 0; at < s->h.sh_size;) {
        uint32_t len = s->h.sh_size - at >= 4 ? word_at(s, at) : 0;
        uint64_t end = at + 4 + len;
        if (!len) { /* the end mark, in the last object of all */
            return copy_record(s, at, s->h.sh_size);
        }
        if (len == UINT32_MAX || len < 4 || end > s->h.sh_size)
            return false;
        bool is_cie = word_at(s, at + 4) == 0;
        if (is_cie) {
            size_t at_new = s->bytes_new.len;
            map_put(&w->cie_at, at, at_new);
            if (!copy_record(s, at, end))
                return false;
            end_record(s, at_new);
        } else if (!put_fde(w, at, end)) {
            return false;
        }
        at = end;
    }
    return true;
}

bool rel_frames(struct rel_object *o)
{
    struct writer w = {.at = {.o = o}};
    bool ok = true;
    for (uint32_t i = 1; i < o->section_count && ok; i++) {
        w.s = &o->sections[i];
        if (is_lsda_section(w.s))
            ok = put_lsdas(&w);
    }
    if (o->lsdas.len)
        qsort(o->lsdas.data, o->lsdas.len, sizeof *o->lsdas.data, by_old);
    for (uint32_t i = 0; i < o->w.cfg->unwind.fde_count; i++)
        map_put(&w.fde_at, o->w.cfg->unwind.fdes[i].record, i);
    unsigned tables = 0;
    for (uint32_t i = 1; i < o->section_count && ok; i++) {
        w.s = &o->sections[i];
        if (!w.s->vaddr || !w.s->bytes || strcmp(w.s->name, ".eh_frame") != 0)
            continue;
        ok = ++tables == 1 && put_records(&w);
    }
    map_fini(&w.cie_at);
    map_fini(&w.fde_at);
    return ok && move_lsda_symbols(o); /* last: until then their values are the old ones */
}
