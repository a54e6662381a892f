/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sections of code are moved: those in which every function is understood, with nothing but padding between
 * them, and whose every reference from elsewhere is. Any doubt about one thing leaves the whole section as it is. A
 * section stands for itself: control that passes from one to another leaves, and enters from outside.
 *
 * needs: synthetic, cfg. fills: sections' is_moved, func_*; table_of; w.funcs; cuts edges, sets ADDR_TAKEN,
 * call_live.
 */
#include "rewrite/relocatable/relocatable.h"

#include <stdlib.h>

const char *const rewrite_relocatable_reason_text[REWRITE_RELOCATABLE_REASON_COUNT] = {
#define X(id, text) text,
    REWRITE_RELOCATABLE_REASONS(X)
#undef X
};

static void list_whole(struct rel_object *o, const struct rel_section *s, enum rewrite_relocatable_reason why,
                       enum cfg_reason func_why, uint64_t at)
{
    struct rewrite_relocatable_stats *st = o->stats;
    st->whole = xrealloc(st->whole, (st->whole_count + 1) * sizeof *st->whole);
    st->whole[st->whole_count++] = (struct rewrite_relocatable_whole){
        .section = xstrdup(s->name), .why = why, .func_why = func_why, .at = at, .bytes = s->h.sh_size};
}

static void leave_functions(struct rel_object *o, const struct rel_section *s)
{
    for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++) {
        struct cfg_func *fn = &o->w.cfg->funcs.data[f];
        o->w.funcs[f].is_moved = false;
        if (fn->reason == CFG_REASON_OK)
            fn->reason = CFG_REASON_SECTION;
    }
}

void rel_refuse(struct rel_object *o, struct rel_section *s, enum rewrite_relocatable_reason why, uint64_t at)
{
    if (!s->is_moved)
        return;
    s->is_moved = false;
    leave_functions(o, s);
    list_whole(o, s, why, CFG_REASON_OK, at);
}

void rel_refuse_all(struct rel_object *o, enum rewrite_relocatable_reason why)
{
    for (uint32_t i = 1; i < o->section_count; i++)
        if (o->sections[i].is_code)
            rel_refuse(o, &o->sections[i], why, 0);
}

/* ---- what a section says of itself ---- */

/* Linkers join these with pieces of other objects that run one into the other. */
static bool is_of_pieces(const struct rel_section *s)
{
    return strcmp(s->name, ".init") == 0 || strcmp(s->name, ".fini") == 0 || (s->h.sh_flags & SHF_WRITE);
}

static bool is_padding(const struct rel_section *s, uint64_t lo, uint64_t hi)
{
    while (lo < hi) {
        struct x86_insn i;
        if (s->bytes[lo] == 0xcc) {
            lo++;
            continue;
        }
        int n = x86_decode(s->bytes + lo, hi - lo, lo, &i);
        if (n == 0 || !(i.props & X86_PROP_NOP) || (i.props & X86_PROP_ENDBR))
            return false;
        lo += (uint64_t)n;
    }
    return true;
}

/* The first byte that is neither in a function nor padding; the section's size if there is none. */
static uint64_t first_alone(const struct rel_object *o, const struct rel_section *s)
{
    const struct cfg *c = o->w.cfg;
    uint64_t at = 0;
    for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        uint64_t lo = fn->addr - s->vaddr;
        if (fn->fde == ID_NONE || (lo > at && !is_padding(s, at, lo)))
            return at;
        at = lo + fn->size;
    }
    return is_padding(s, at, s->h.sh_size) ? s->h.sh_size : at;
}

/* Of functions: entries relative to a label have no relocations; those of a table whose base is in doubt cannot be
 * read. */
static void refuse_odd_tables(struct rel_object *o)
{
    const struct cfg *c = o->w.cfg;
    for (size_t t = 0; t < c->tables.len; t++) {
        const struct cfg_table *tab = &c->tables.data[t];
        struct cfg_func *fn = &c->funcs.data[c->blocks.data[tab->block].func];
        bool is_odd = tab->kind == CFG_TABLE_PIC32 ? tab->base != tab->addr || fn->unresolved : !tab->by_reloc;
        if (is_odd && fn->reason == CFG_REASON_OK)
            fn->reason = CFG_REASON_TABLE;
    }
}

/* Assembly that takes flags from its caller, which may be in an object where nobody knows. */
static bool takes_flags(const struct rel_object *o, const struct cfg_func *fn)
{
    const struct cfg *c = o->w.cfg;
    const struct cfg_block *first = &c->blocks.data[fn->block_first];
    uint8_t open = X86_ALL_FLAGS;
    cfg_for_each_insn(first, i) {
        const struct x86_insn *in = cfg_shape(c, i);
        if (in->flags_read & open)
            return true;
        if (in->kind == X86_CALL || in->kind == X86_CALL_IND)
            return false;
        open &= (uint8_t) ~(in->props & X86_PROP_FLAGS_MAYBE ? 0 : in->flags_written);
    }
    return false;
}

/* Compilers say in .comment who they are; an assembler does not. */
bool rel_is_compiled(const struct rel_object *o)
{
    for (uint32_t i = 1; i < o->section_count; i++)
        if (strcmp(o->sections[i].name, ".comment") == 0)
            return true;
    return false;
}

/* Nobody knows which flags callers in other objects read after hand-written code, so it keeps all of them. */
static void keep_flags(struct rel_object *o)
{
    struct cfg *c = o->w.cfg;
    if (rel_is_compiled(o))
        return;
    if (!c->call_live)
        c->call_live = xmalloc((c->funcs.len + 1) * sizeof *c->call_live);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        c->call_live[f].out = X86_ALL_FLAGS;
}

/* Has instruction i of s, at offset `at`, a relocation? The first of those not before it is *next. */
static bool is_relocated(const struct rel_section *s, uint64_t at, unsigned len, size_t *next)
{
    while (*next < s->rela_count && s->relas[*next].r_offset < at)
        ++*next;
    return *next < s->rela_count && s->relas[*next].r_offset < at + len;
}

/* By its relocations, from number k on. Of thread-local variables at a known distance from the thread's base the linker
 * changes nothing but that; from other forms of them it may make this one. */
static enum rw_displacement displacement_of(const struct rel_object *o, const struct rel_section *s, size_t k,
                                            uint64_t at, const struct x86_insn *in)
{
    enum rw_displacement d = RW_DISPLACEMENT_PLAIN;
    bool is_direct = in->kind == X86_CALL || in->kind == X86_JMP || in->kind == X86_JCC;
    for (; k < s->rela_count && s->relas[k].r_offset < at + in->len; k++) {
        uint32_t type = rel_type(&s->relas[k]);
        if (type != R_X86_64_TPOFF32 && rel_class_of(type) == REL_NAMED)
            return RW_DISPLACEMENT_UNSURE;
        if (!is_direct && in->disp_len == 4 && s->relas[k].r_offset == at + in->disp_off)
            d = rel_code_of_symbol(o, rel_sym(&s->relas[k])) ? RW_DISPLACEMENT_UNSURE : RW_DISPLACEMENT_RELOCATED;
    }
    return d;
}

static bool is_end_of_func(const struct rel_object *o, uint64_t addr)
{
    uint32_t f = cfg_func_at(o->w.cfg, addr - 1);
    return f != ID_NONE && o->w.cfg->funcs.data[f].addr + o->w.cfg->funcs.data[f].size == addr;
}

/* What the assembler knew by itself must lead to code that is known. */
static bool insn_is_clear(const struct rel_object *o, const struct rel_section *s, uint32_t i)
{
    const struct cfg *c = o->w.cfg;
    const struct x86_insn *in = cfg_shape(c, i);
    uint64_t target = cfg_insn_target(c, i);
    bool is_call = in->kind == X86_CALL, refers = in->props & X86_PROP_RIPREL;
    bool is_jump = in->kind == X86_JMP || in->kind == X86_JCC || in->kind == X86_JCXZ || in->kind == X86_XBEGIN;
    if (!is_call && !is_jump && !refers)
        return true;
    uint32_t b = target - s->vaddr < s->h.sh_size ? cfg_block_start(c, target) : ID_NONE;
    if (b == ID_NONE) /* LLVM: a jump behind the function, where control never gets to */
        return is_jump && is_end_of_func(o, target);
    if (is_call)
        return c->blocks.data[b].flags & (CFG_BLOCK_ENTRY | CFG_BLOCK_CALLED);
    return is_jump || ((in->props & X86_PROP_LEA) && c->blocks.data[b].flags & CFG_BLOCK_EXT_IN);
}

static void judge_insns(struct rel_object *o, struct rel_section *s)
{
    const struct cfg *c = o->w.cfg;
    size_t next = 0;
    for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++)
        cfg_for_each_insn(&c->funcs.data[f], i) {
            uint64_t at = cfg_insn_addr(c, i) - s->vaddr;
            o->is_relocated[i] = is_relocated(s, at, cfg_len(c, i), &next);
            o->is_named[i] = o->is_relocated[i] && rel_class_of(rel_type(&s->relas[next])) == REL_NAMED;
            o->displacements[i] = (uint8_t)displacement_of(o, s, next, at, cfg_shape(c, i));
            if (s->is_moved && !o->is_relocated[i] && !insn_is_clear(o, s, i))
                rel_refuse(o, s, REWRITE_RELOCATABLE_RELOCATION, at);
        }
}

struct pads {
    const struct cfg_func *fn;
    bool are_inside;
};

static void look_at_pad(void *ctx, uint64_t pad)
{
    struct pads *p = ctx;
    p->are_inside &= pad - p->fn->addr < p->fn->size;
}

/* Can its exception table be written anew, and its call frame instructions? */
static bool frames_are_clear(const struct rel_object *o, const struct cfg_func *fn)
{
    const struct image_unwind *u = &o->w.cfg->unwind;
    struct pads p = {fn, true};
    return u->cies[u->fdes[fn->fde].cie].code_align == 1 &&
           image_unwind_landing_pads(o->w.img, u, fn->fde, look_at_pad, &p) == 0 && p.are_inside;
}

static void judge_section(struct rel_object *o, struct rel_section *s)
{
    const struct cfg *c = o->w.cfg;
    if (is_of_pieces(s)) {
        rel_refuse(o, s, REWRITE_RELOCATABLE_PIECES, 0);
        return;
    }
    for (uint32_t f = s->func_first; f < s->func_first + s->func_count && s->is_moved; f++) {
        struct cfg_func *fn = &c->funcs.data[f];
        if (fn->reason == CFG_REASON_OK && fn->fde != ID_NONE && !frames_are_clear(o, fn))
            fn->reason = CFG_REASON_UNWIND;
        if (fn->reason == CFG_REASON_OK && !fn->block_count)
            fn->reason = CFG_REASON_UNDECODABLE;
        if (fn->reason == CFG_REASON_OK && takes_flags(o, fn))
            fn->reason = CFG_REASON_FLAGS;
        if (fn->reason == CFG_REASON_OK && fn->fde != ID_NONE)
            continue;
        s->is_moved = false;
        leave_functions(o, s);
        list_whole(o, s, fn->fde == ID_NONE ? REWRITE_RELOCATABLE_NO_UNWIND : REWRITE_RELOCATABLE_FUNCTION, fn->reason,
                   fn->addr - s->vaddr);
    }
    judge_insns(o, s);
    uint64_t alone = s->is_moved ? first_alone(o, s) : s->h.sh_size;
    if (alone < s->h.sh_size)
        rel_refuse(o, s, REWRITE_RELOCATABLE_NO_UNWIND, alone);
}

static void find_functions(struct rel_object *o)
{
    const struct cfg *c = o->w.cfg;
    o->section_of_func = ARENA_ARRAY(o->arena, uint32_t, c->funcs.len + 1);
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        if (!s->is_code)
            continue;
        uint64_t end = s->vaddr + s->h.sh_size;
        s->func_first = (uint32_t)PARTITION_POINT(f, 0, c->funcs.len, c->funcs.data[f].addr < s->vaddr);
        s->func_count =
            (uint32_t)PARTITION_POINT(f, s->func_first, c->funcs.len, c->funcs.data[f].addr < end) - s->func_first;
        for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++)
            o->section_of_func[f] = i;
        s->is_moved = true;
        o->stats->sections++;
    }
}

/* ---- sections stand for themselves ---- */

static uint32_t section_of_block(const struct rel_object *o, uint32_t b)
{
    return o->section_of_func[o->w.cfg->blocks.data[b].func];
}

static void cut_edges(struct rel_object *o)
{
    struct cfg *c = o->w.cfg;
    for (size_t e = 0; e < c->edges.len; e++) {
        struct cfg_edge *ed = &c->edges.data[e];
        if (ed->to == ID_NONE || section_of_block(o, ed->from) == section_of_block(o, ed->to))
            continue;
        c->blocks.data[ed->to].flags |= CFG_BLOCK_ADDR_TAKEN;
        ed->kind = CFG_EDGE_OUT;
        ed->to = ID_NONE;
    }
}

/* ---- what others say of it ---- */

/* Entries of tables with relocations, by their places. Where two tables overlap the later one's begins. */
static void index_tables(struct rel_object *o)
{
    const struct cfg *c = o->w.cfg;
    for (uint32_t t = 0; t < c->tables.len; t++) {
        const struct cfg_table *tab = &c->tables.data[t];
        for (uint32_t k = 0; k < tab->entries; k++) {
            uint64_t was, place = tab->addr + (uint64_t)k * tab->entry_bytes;
            if (!map_get(&o->table_of, place, &was) || c->tables.data[was].addr < tab->addr)
                map_put(&o->table_of, place, t);
        }
    }
}

int rel_bias(const struct rel_object *o, const struct rel_section *s, const Elf64_Rela *r)
{
    const struct cfg *c = o->w.cfg;
    uint64_t at = s->vaddr + r->r_offset;
    for (uint64_t a = at; at - a < 15; a--) {
        uint32_t i = cfg_insn_at(c, a);
        if (i != ID_NONE)
            return a + cfg_len(c, i) >= at + rel_width(rel_type(r)) ? (int)(a + cfg_len(c, i) - at) : -1;
        if (a == s->vaddr)
            break;
    }
    return -1;
}

/* A relocation of s that refers to code of `to`, by an address in it. False: not understood. */
static bool reference_is_clear(struct rel_object *o, const struct rel_section *s, const Elf64_Rela *r,
                               const struct rel_section *to)
{
    const struct cfg *c = o->w.cfg;
    enum rel_class class = rel_class_of(rel_type(r));
    const Elf64_Sym *sym = &o->syms[rel_sym(r)];
    uint64_t target = to->vaddr + sym->st_value + (uint64_t)r->r_addend, table;
    bool is_entry = s->vaddr && !s->is_code && map_get(&o->table_of, s->vaddr + r->r_offset, &table);
    if (is_entry && (class == REL_RELATIVE) != (c->tables.data[table].kind == CFG_TABLE_PIC32))
        return false;
    bool is_own = is_entry &&
                  o->section_of_func[c->blocks.data[c->tables.data[table].block].func] == (uint32_t)(to - o->sections);
    if (class == REL_NAMED)
        return ELF64_ST_TYPE(sym->st_info) != STT_SECTION;
    if (class == REL_NONE)
        return true;
    if (class == REL_UNKNOWN)
        return false;
    if (class == REL_RELATIVE && s->is_code) {
        int bias = rel_bias(o, s, r);
        if (bias < 0)
            return ELF64_ST_TYPE(sym->st_info) != STT_SECTION && r->r_addend == -4;
        target += (uint64_t)bias;
    } else if (class == REL_RELATIVE && is_entry) {
        target -= s->vaddr + r->r_offset - c->tables.data[table].base;
    }
    if (target - to->vaddr > to->h.sh_size)
        return false;
    uint32_t b = cfg_block_start(c, target);
    if (b == ID_NONE)
        return is_end_of_func(o, target);
    if (class == REL_RELATIVE && !s->is_code && !is_entry)
        return c->blocks.data[b].flags & CFG_BLOCK_ENTRY;
    if (!is_own)
        c->blocks.data[b].flags |= c->blocks.data[b].flags & CFG_BLOCK_ENTRY ? 0 : CFG_BLOCK_ADDR_TAKEN;
    return true;
}

/* Is a direct jump that the cfg knows to stay in its section, so that no relocation is needed? */
static bool is_known_jump(const struct rel_object *o, const struct rel_section *s, const Elf64_Rela *r)
{
    const struct cfg *c = o->w.cfg;
    uint64_t at = s->vaddr + r->r_offset;
    uint32_t b = cfg_block_at(c, at);
    if (!s->is_code || b == ID_NONE)
        return false;
    const struct cfg_block *blk = &c->blocks.data[b];
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    if (cfg_insn_addr(c, last) > at || (blk->term != X86_JMP && blk->term != X86_JCC))
        return false;
    cfg_for_each_edge(blk, e)
        if (c->edges.data[e].kind == CFG_EDGE_TAKEN || c->edges.data[e].kind == CFG_EDGE_TAIL)
            return true;
    return false;
}

/* Sections that other passes know the format of. */
static bool has_own_pass(const struct rel_section *s)
{
    return !(s->h.sh_flags & SHF_ALLOC) || strcmp(s->name, ".eh_frame") == 0 ||
           strncmp(s->name, ".gcc_except_table", 17) == 0;
}

static void judge_references(struct rel_object *o, const struct rel_section *s)
{
    for (size_t k = 0; k < s->rela_count; k++) {
        const Elf64_Rela *r = &s->relas[k];
        struct rel_section *to = rel_code_of_symbol(o, rel_sym(r));
        if (s->is_code && rel_class_of(rel_type(r)) == REL_UNKNOWN)
            rel_refuse(o, &o->sections[s - o->sections], REWRITE_RELOCATABLE_RELOCATION, r->r_offset);
        if (s->is_code && s->is_moved && rel_bias(o, s, r) < 0)
            rel_refuse(o, &o->sections[s - o->sections], REWRITE_RELOCATABLE_RELOCATION, r->r_offset);
        if (!to || !to->is_moved || has_own_pass(s) || is_known_jump(o, s, r))
            continue;
        if (!reference_is_clear(o, s, r, to))
            rel_refuse(o, to, REWRITE_RELOCATABLE_RELOCATION, o->syms[rel_sym(r)].st_value);
    }
}

static void judge_symbols(struct rel_object *o)
{
    const struct cfg *c = o->w.cfg;
    for (uint32_t i = 1; i < o->sym_count; i++) {
        struct rel_section *s = rel_code_of_symbol(o, i);
        const Elf64_Sym *sym = &o->syms[i];
        unsigned type = ELF64_ST_TYPE(sym->st_info);
        if (!s || !s->is_moved || type == STT_SECTION)
            continue;
        uint64_t at = s->vaddr + sym->st_value;
        uint32_t b = cfg_block_start(c, at);
        bool is_label = rel_is_label(sym) && cfg_insn_at(c, at) != ID_NONE;
        if (b == ID_NONE && !is_label && !is_end_of_func(o, at))
            rel_refuse(o, s, REWRITE_RELOCATABLE_SYMBOL, sym->st_value);
        else if (!is_label && b != ID_NONE && !(c->blocks.data[b].flags & CFG_BLOCK_ENTRY))
            c->blocks.data[b].flags |= CFG_BLOCK_ADDR_TAKEN;
    }
}

enum { SECTIONS_MAX = SHN_LORESERVE / 4 }; /* each may get as many beside it without numbers of another kind */

void rel_judge(struct rel_object *o)
{
    bool has_more_sections = o->section_count > SECTIONS_MAX;
    for (uint32_t i = 1; i < o->section_count; i++)
        has_more_sections |= o->sections[i].h.sh_type == SHT_SYMTAB_SHNDX || o->sections[i].h.sh_type == SHT_REL;
    rw_judge(&o->w);
    o->is_relocated = ARENA_ARRAY(o->arena, bool, o->w.cfg->insns.len + 1);
    o->is_named = ARENA_ARRAY(o->arena, bool, o->w.cfg->insns.len + 1);
    o->displacements = ARENA_ARRAY(o->arena, uint8_t, o->w.cfg->insns.len + 1);
    o->w.is_relocated = o->is_relocated;
    o->w.is_named = o->is_named;
    o->w.displacements = o->displacements;
    keep_flags(o);
    find_functions(o);
    cut_edges(o);
    index_tables(o);
    refuse_odd_tables(o);
    for (uint32_t i = 1; i < o->section_count; i++)
        if (o->sections[i].is_code)
            judge_section(o, &o->sections[i]);
    if (has_more_sections)
        rel_refuse_all(o, REWRITE_RELOCATABLE_SYMBOL);
    judge_symbols(o);
    for (uint32_t i = 1; i < o->section_count; i++)
        judge_references(o, &o->sections[i]);
}
