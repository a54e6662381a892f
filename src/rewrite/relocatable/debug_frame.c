/* SPDX-License-Identifier: Apache-2.0
 *
 * .debug_frame (DWARF 5, 6.4): what a debugger is told of frames, in code for which nothing else has to know. Where an
 * object has no .eh_frame, the synthetic image gets one that says the same, so that such functions are known as others
 * are; and in each object it is written anew with them. A record that is not understood leaves all of it out.
 *
 * needs: read (the first), layout (the second). fills: bytes_new and relas_new of the section.
 */
#include "rewrite/relocatable/relocatable.h"

struct table { /* .debug_frame, unpacked */
    struct rel_object *o;
    struct rel_section *s;
    const uint8_t *bytes;
    uint64_t len;
    struct strbuf plain;
    struct map cie_at; /* old offset of a CIE to the new one */
};
struct record {
    uint64_t at, id_at, end; /* offsets in the table */
    bool is_cie;
    uint64_t cie; /* of an FDE: offset of its CIE */
};

static bool open_table(struct table *t, struct rel_object *o, struct rel_section *s)
{
    *t = (struct table){.o = o, .s = s, .bytes = s->bytes, .len = s->bytes ? s->h.sh_size : 0};
    if (!(s->h.sh_flags & SHF_COMPRESSED))
        return true;
    if (!rel_unpack(s->bytes, s->h.sh_size, &t->plain))
        return false;
    t->bytes = (const uint8_t *)t->plain.data;
    t->len = t->plain.len;
    return true;
}

static void close_table(struct table *t)
{
    str_free(&t->plain);
    map_fini(&t->cie_at);
}

static bool is_table(const struct rel_section *s)
{
    return s->bytes && s->h.sh_type != SHT_NOBITS && !(s->h.sh_flags & SHF_ALLOC) && !strcmp(s->name, ".debug_frame");
}

static const Elf64_Rela *rela_at(const struct rel_section *s, uint64_t off)
{
    size_t k = PARTITION_POINT(i, 0, s->rela_count, s->relas[i].r_offset < off);
    return k < s->rela_count && s->relas[k].r_offset == off ? &s->relas[k] : NULL;
}

static bool has_rela_in(const struct rel_section *s, uint64_t lo, uint64_t hi)
{
    size_t k = PARTITION_POINT(i, 0, s->rela_count, s->relas[i].r_offset < lo);
    return k < s->rela_count && s->relas[k].r_offset < hi;
}

static uint32_t word_at(const struct table *t, uint64_t at)
{
    uint32_t v;
    memcpy(&v, t->bytes + at, sizeof v);
    return v;
}

static uint64_t long_at(const struct table *t, uint64_t at)
{
    uint64_t v;
    memcpy(&v, t->bytes + at, sizeof v);
    return v;
}

enum { FDE_HEAD = 24 }; /* length, CIE, address, size */

/* Only of the 32-bit format. False: not understood. */
static bool read_record(const struct table *t, uint64_t at, struct record *out)
{
    if (t->len - at < 8 || !t->o->sym_count)
        return false;
    uint32_t len = word_at(t, at), id = word_at(t, at + 4);
    *out = (struct record){.at = at, .id_at = at + 4, .end = at + 4 + len, .is_cie = id == UINT32_MAX, .cie = id};
    if (len < 4 || len > t->len - at - 4)
        return false;
    if (out->is_cie)
        return !has_rela_in(t->s, at, out->end);
    const Elf64_Rela *r = rela_at(t->s, at + 4), *addr = rela_at(t->s, at + 8);
    if (r) {
        if (rel_type(r) != R_X86_64_32 || t->o->syms[rel_sym(r)].st_shndx != (uint16_t)(t->s - t->o->sections))
            return false;
        out->cie = t->o->syms[rel_sym(r)].st_value + (uint64_t)r->r_addend;
    }
    return len >= FDE_HEAD - 4 && addr && rel_type(addr) == R_X86_64_64 && rel_code_of_symbol(t->o, rel_sym(addr)) &&
           !has_rela_in(t->s, at + 9, out->end);
}

/* The old address of an FDE's code. */
static uint64_t address_of(const struct table *t, const struct record *rec)
{
    const Elf64_Rela *r = rela_at(t->s, rec->at + 8);
    const Elf64_Sym *sym = &t->o->syms[rel_sym(r)];
    return rel_code_of_symbol(t->o, rel_sym(r))->vaddr + sym->st_value + (uint64_t)r->r_addend;
}

/* ---- as .eh_frame ---- */

static uint64_t skip_leb(const struct table *t, uint64_t at, uint64_t end)
{
    while (at < end && t->bytes[at] & 0x80)
        at++;
    return at + 1;
}

static size_t begin(struct strbuf *out)
{
    size_t at = out->len;
    str_put(out, (char[4]){0}, 4);
    return at;
}

static void finish(struct strbuf *out, size_t at, unsigned align)
{
    static const char nops[8];
    str_put(out, nops, -(out->len - at) & (align - 1));
    uint32_t len = (uint32_t)(out->len - at - 4);
    memcpy(out->data + at, &len, sizeof len);
}

/* Version, no augmentation, of version 4 the sizes of an address and of a segment, factors, the return address. */
static bool put_cie(struct table *t, const struct record *rec, struct strbuf *out)
{
    uint64_t at = rec->id_at + 4;
    if (rec->end - at < 8)
        return false;
    uint8_t version = t->bytes[at];
    if ((version != 1 && version != 3 && version != 4) || t->bytes[at + 1] ||
        (version == 4 && (t->bytes[at + 2] != 8 || t->bytes[at + 3])))
        return false;
    uint64_t factors = at + (version == 4 ? 4 : 2);
    uint64_t reg = skip_leb(t, skip_leb(t, factors, rec->end), rec->end);
    if (reg >= rec->end || t->bytes[reg] >= 0x80)
        return false;
    map_put(&t->cie_at, rec->at, out->len);
    size_t to = begin(out);
    str_put(out, (char[]){0, 0, 0, 0, 1, 0}, 6); /* it is a CIE, of version 1, without augmentation */
    str_put(out, t->bytes + factors, rec->end - factors);
    finish(out, to, 4);
    return true;
}

static bool put_fde(struct table *t, const struct record *rec, struct strbuf *out)
{
    uint64_t cie, addr = address_of(t, rec);
    if (!map_get(&t->cie_at, rec->cie, &cie))
        return false;
    size_t at = begin(out);
    uint32_t back = (uint32_t)(at + 4 - cie);
    str_put(out, &back, sizeof back);
    str_put(out, &addr, sizeof addr);
    str_put(out, t->bytes + rec->at + 16, rec->end - rec->at - 16);
    finish(out, at, 4);
    return true;
}

static bool convert(struct table *t, struct strbuf *out)
{
    for (uint64_t at = 0; at < t->len;) {
        struct record rec;
        if (!read_record(t, at, &rec) || !(rec.is_cie ? put_cie(t, &rec, out) : put_fde(t, &rec, out)))
            return false;
        at = rec.end;
    }
    return true;
}

void rel_frames_told(struct rel_object *o, struct strbuf *out)
{
    struct rel_section *s = NULL;
    struct table t;
    out->len = 0;
    for (uint32_t i = 1; i < o->section_count; i++) {
        if (strcmp(o->sections[i].name, ".eh_frame") == 0)
            return;
        if (is_table(&o->sections[i]))
            s = s ? s : &o->sections[i];
    }
    if (!s)
        return;
    if (!open_table(&t, o, s) || !convert(&t, out))
        out->len = 0;
    close_table(&t);
}

/* ---- written anew ---- */

static uint64_t len_without_nops(const uint8_t *cfi, uint64_t len)
{
    while (len && !cfi[len - 1])
        len--;
    return len;
}

/* Does the table by which its function was moved say the same of it? */
static bool says_same(const struct table *t, const struct record *rec, const struct image_fde *f)
{
    const uint8_t *cfi = t->bytes + rec->at + FDE_HEAD;
    uint64_t len = len_without_nops(cfi, rec->end - rec->at - FDE_HEAD);
    return f->addr == address_of(t, rec) && f->len_bytes == long_at(t, rec->at + 16) &&
           len == len_without_nops(f->cfi, f->cfi_len) && !memcmp(cfi, f->cfi, len);
}

static void add_rela(struct rel_section *s, const Elf64_Rela *was, uint64_t at, int64_t addend)
{
    Elf64_Rela r = *was;
    r.r_offset = at;
    r.r_addend = addend;
    VEC_PUSH(&s->relas_new, r);
}

static bool move_fde(struct table *t, const struct record *rec)
{
    struct rel_object *o = t->o;
    struct rel_section *s = t->s;
    struct rel_mover mover = {.o = o};
    struct rw_frames frames = {0};
    struct image_moved_func m;
    uint64_t cie, addr = address_of(t, rec);
    uint32_t f = cfg_func_at(o->w.cfg, addr), fde = f == ID_NONE ? ID_NONE : o->w.cfg->funcs.data[f].fde;
    if (!map_get(&t->cie_at, rec->cie, &cie) || fde == ID_NONE || !says_same(t, rec, &o->w.cfg->unwind.fdes[fde]) ||
        !rel_moved_func(&mover, fde, &frames, &m))
        return false;
    const Elf64_Rela *to_cie = rela_at(s, rec->id_at), *to_code = rela_at(s, rec->at + 8);
    size_t at = begin(&s->bytes_new);
    uint32_t id = to_cie ? 0 : (uint32_t)cie;
    str_put(&s->bytes_new, &id, sizeof id);
    str_put(&s->bytes_new, (char[8]){0}, 8);
    str_put(&s->bytes_new, &m.len_new, sizeof m.len_new);
    if (to_cie)
        add_rela(s, to_cie, at + 4, (int64_t)(cie - o->syms[rel_sym(to_cie)].st_value));
    bool ok = true;
    if (mover.code->is_moved) {
        add_rela(s, to_code, at + 8, rel_addend(o, rel_sym(to_code), m.addr_new - mover.code->vaddr_new, 0));
        ok = image_unwind_cfi_moved(o->w.img, &o->w.cfg->unwind, &m, rel_moved_addr, &mover, &s->bytes_new) == 0;
    } else {
        add_rela(s, to_code, at + 8, to_code->r_addend);
        str_put(&s->bytes_new, t->bytes + rec->at + FDE_HEAD, rec->end - rec->at - FDE_HEAD);
    }
    finish(&s->bytes_new, at, 8);
    VEC_FREE(&frames);
    return ok;
}

static bool move_records(struct table *t)
{
    for (uint64_t at = 0; at < t->len;) {
        struct record rec;
        if (!read_record(t, at, &rec))
            return false;
        if (rec.is_cie) {
            map_put(&t->cie_at, at, t->s->bytes_new.len);
            size_t to = t->s->bytes_new.len;
            str_put(&t->s->bytes_new, t->bytes + at, rec.end - at);
            finish(&t->s->bytes_new, to, 8);
        } else if (!move_fde(t, &rec)) {
            return false;
        }
        at = rec.end;
    }
    return true;
}

void rel_debug_frames(struct rel_object *o)
{
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        struct table t;
        if (!is_table(s))
            continue;
        if (!open_table(&t, o, s) || !move_records(&t)) {
            s->bytes_new.len = 0; /* a debugger shall find nothing rather than what is wrong */
            s->relas_new.len = 0;
        }
        s->has_new = true;
        close_table(&t);
    }
}
