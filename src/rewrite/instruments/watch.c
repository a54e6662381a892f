/* SPDX-License-Identifier: Apache-2.0
 *
 * Watched functions: where one is entered, and where it returns, a call of the runtime, which makes an event of the
 * stream. A function that ends in a jump to another one returns where that one does, so its returns are told too: the
 * reader knows by the stack pointer whose they are. Where the other one is in another file, or reached by a pointer,
 * the return is not told, but that there was a jump, and with which arguments. A function that begins with the head of
 * a loop would be told as entered at each turn, and is not watched. Places that name memory (MTOOL_OBJECT) are told in
 * the same way.
 *
 *     lea rsp,[rsp-128]; push rax; mov eax,WHAT; call; pop rax; lea rsp,[rsp+128]
 */
#include "rewrite/instruments/references.h"

#include <elf.h>
#include <stdlib.h>

#include "wire/wire.h"

enum { SITE_BYTES = 25, CALLEES_MAX = 64, NUMBERS_MAX = UINT16_MAX };

/* ---- which ---- */

struct finder {
    struct rw *w;
    struct rw_watch *out;
    uint8_t *returns; /* by function: 1: its returns are told */
};

/* What is no longer asked of one that control may be in without the runtime's knowing. */
static bool can_be_told(const struct rw *w, uint32_t func) { return w->funcs[func].is_moved && w->funcs[func].gs; }

static bool is_left_by(const struct cfg *c, const struct cfg_block *block)
{
    cfg_for_each_edge(block, e) {
        const struct cfg_edge *edge = &c->edges.data[e];
        if (edge->to != ID_NONE && c->blocks.data[edge->to].func == block->func)
            return false;
    }
    return block->term == X86_JMP || block->term == X86_JMP_IND;
}

/* Of functions that are not in the list. */
static const struct rewrite_watched any = {.name = "", .returns = true, .takes_several = true};

static const struct rewrite_watched *watched_by(const struct rw *w, uint32_t number)
{
    return number < w->opt->watched_count ? &w->opt->watched[number] : &any;
}

static uint32_t flags_of(const struct rewrite_watched *watched)
{
    return (watched->returns && watched != &any ? WIRE_CALL_OPENS : 0) | (watched->stores ? WIRE_CALL_STORES : 0) |
           (watched->takes_several ? WIRE_CALL_ARGUMENTS : 0) | (watched->is_own ? WIRE_CALL_OWN : 0);
}

static void tell_ends(struct finder *f, uint32_t func, uint32_t number)
{
    const struct cfg *c = f->w->cfg;
    cfg_for_each_block(&c->funcs.data[func], b) {
        const struct cfg_block *block = &c->blocks.data[b];
        uint32_t what = block->term == X86_RET ? RW_WATCH_RETURN : is_left_by(c, block) ? WIRE_CALL_JUMPS : 0;
        if (what)
            VEC_PUSH(&f->out->points, ((struct rw_watch_point){block->insn_first + block->insn_count - 1u,
                                                               number | what | flags_of(watched_by(f->w, number))}));
    }
}

/* With the functions that it jumps to: the stack pointer is then that of its entrance, or it is a part of it. */
static void follow_returns(struct finder *f, uint32_t func, uint32_t number)
{
    const struct cfg *c = f->w->cfg;
    uint32_t found[CALLEES_MAX] = {func}, count = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (f->returns[found[i]]++ || !can_be_told(f->w, found[i]))
            continue;
        tell_ends(f, found[i], number);
        cfg_for_each_block(&c->funcs.data[found[i]], b) {
            cfg_for_each_edge(&c->blocks.data[b], e) {
                const struct cfg_edge *edge = &c->edges.data[e];
                uint32_t to = edge->to == ID_NONE ? found[i] : c->blocks.data[edge->to].func;
                if (to != found[i] && !c->funcs.data[to].is_plt && edge->kind != CFG_EDGE_RETURN && count < CALLEES_MAX)
                    found[count++] = to;
            }
        }
    }
}

static void watch(struct finder *f, uint32_t func, uint32_t number)
{
    const struct cfg_func *fn = &f->w->cfg->funcs.data[func];
    const struct cfg_block *entry = &f->w->cfg->blocks.data[fn->block_first];
    VEC_PUSH(&f->out->points,
             ((struct rw_watch_point){entry->insn_first, number | flags_of(watched_by(f->w, number))}));
    VEC_PUSH(&f->out->sites, ((struct rw_site){.addr = fn->addr,
                                               .access.bytes = (__typeof__(((struct rw_site *)0)->access.bytes))number,
                                               .flags = REWRITE_SITE_WATCHED}));
    if (watched_by(f->w, number)->returns)
        follow_returns(f, func, number);
}

static uint32_t number_of(const struct rw *w, const char *name)
{
    for (uint32_t i = 0; i < w->opt->watched_count; i++)
        if (strcmp(w->opt->watched[i].name, name) == 0)
            return i;
    return ID_NONE;
}

static uint32_t function_at(const struct rw *w, uint64_t addr)
{
    uint32_t func = cfg_func_at(w->cfg, addr);
    const struct cfg_func *fn = func == ID_NONE ? NULL : &w->cfg->funcs.data[func];
    if (!fn || !fn->block_count || fn->is_plt)
        return ID_NONE;
    const struct cfg_block *entry = &w->cfg->blocks.data[fn->block_first];
    return entry->addr == addr && !(entry->flags & CFG_BLOCK_LOOP_HEADER) ? func : ID_NONE;
}

static uint32_t function_of(const struct rw *w, const struct image_symbol *s)
{
    bool is_function = s->shndx != SHN_UNDEF && (s->type == STT_FUNC || s->type == STT_NOTYPE);
    return is_function ? function_at(w, s->addr) : ID_NONE;
}

static void number_by_address(const struct rw *w, uint32_t *number)
{
    for (uint32_t i = 0; w->img->is_static && i < w->opt->watched_count; i++) {
        uint32_t func = w->opt->watched[i].addr ? function_at(w, w->opt->watched[i].addr) : ID_NONE;
        if (func != ID_NONE && can_be_told(w, func))
            number[func] = i;
    }
    uint32_t next = (uint32_t)w->opt->watched_count;
    for (uint32_t func = 0; w->img->is_static && w->opt->watch_all && func < w->cfg->funcs.len; func++)
        if (number[func] == ID_NONE && next < NUMBERS_MAX && can_be_told(w, func) &&
            function_at(w, w->cfg->funcs.data[func].addr) == func)
            number[func] = next++;
}

static int by_insn(const void *a, const void *b)
{
    const struct rw_watch_point *x = a, *y = b;
    if (x->insn != y->insn)
        return x->insn < y->insn ? -1 : 1;
    return x->what < y->what ? -1 : x->what > y->what; /* an entrance comes first */
}

static void watch_naming(struct finder *f, uint32_t number)
{
    const struct cfg *c = f->w->cfg;
    uint64_t addr = f->w->img->namings[number].addr;
    uint32_t insn = cfg_insn_at(c, addr), func = cfg_func_at(c, addr);
    if (insn != ID_NONE && func != ID_NONE && can_be_told(f->w, func) && cfg_shape(c, insn)->props & X86_PROP_NOP)
        VEC_PUSH(&f->out->points, ((struct rw_watch_point){insn, number | WIRE_CALL_NAMES}));
}

/* A function of several names is watched by the first that the list has. */
void rw_watch_find(struct rw *w, struct rw_watch *out)
{
    struct finder f = {w, out, xmalloc(w->cfg->funcs.len + 1)};
    uint32_t *number = xmalloc((w->cfg->funcs.len + 1) * sizeof *number);
    memset(number, 0xff, (w->cfg->funcs.len + 1) * sizeof *number);
    for (size_t i = 0; w->opt->watched_count && i < w->img->symbol_count; i++) {
        uint32_t n = number_of(w, w->img->symbols[i].name);
        uint32_t func = n == ID_NONE ? ID_NONE : function_of(w, &w->img->symbols[i]);
        if (func != ID_NONE && can_be_told(w, func) && n < number[func])
            number[func] = n;
    }
    number_by_address(w, number);
    for (uint32_t func = 0; func < w->cfg->funcs.len; func++)
        if (number[func] != ID_NONE)
            watch(&f, func, number[func]);
    for (uint32_t i = 0; i < w->img->naming_count && i < WIRE_CALL_NAMES; i++)
        watch_naming(&f, i);
    if (out->points.len)
        qsort(out->points.data, out->points.len, sizeof *out->points.data, by_insn);
    free(number);
    free(f.returns);
}

void rw_watch_fini(struct rw_watch *watch)
{
    VEC_FREE(&watch->points);
    VEC_FREE(&watch->sites);
}

/* ---- where they stand ---- */

static size_t first_from(const struct rw_watch *watch, uint32_t insn)
{
    return PARTITION_POINT(i, 0, watch->points.len, watch->points.data[i].insn < insn);
}

uint32_t rw_watch_next(const struct rw_watch *watch, uint32_t insn)
{
    size_t i = first_from(watch, insn);
    return i < watch->points.len ? watch->points.data[i].insn : ID_NONE;
}

void rw_watch_insert(const struct rw_watch *watch, uint32_t insn, struct rw_fragments *out)
{
    for (size_t i = first_from(watch, insn); i < watch->points.len && watch->points.data[i].insn == insn; i++)
        rw_fragment_add(out, (struct rw_fragment){.id = watch->points.data[i].what,
                                                  .bytes = SITE_BYTES,
                                                  .kind = RW_INSERTED,
                                                  .how = RW_REFERENCE_WATCH});
}

void rw_put_watch(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    uint8_t *to = rw_put_bytes(at, "\x48\x8d\x64\x24\x80\x50\xb8", 7);
    to = rw_put32(to, f->id);
    rw_put_call(to, addr + (uint64_t)(to - at), rw_blob_watched(w));
    rw_put_bytes(to + 5, "\x58\x48\x8d\xa4\x24\x80\x00\x00\x00", 9);
}

void rw_watch_frames(const struct rw_fragment *f, struct rw_frames *out)
{
    uint32_t end = f->off + f->bytes;
    rw_frame(out, f->off + 5, 128);
    rw_frame(out, f->off + 6, 136);
    rw_frame(out, end - 8, 128);
    rw_frame(out, end, 0);
}
