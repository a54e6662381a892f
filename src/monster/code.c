/* SPDX-License-Identifier: Apache-2.0
 * What was executed in the files of programs and libraries, by their loops and source lines: the counts and stalls by
 * address that the guest left, over the blocks of the file and its debug information. A file that is not the one that
 * ran, or that cannot be read, has neither, and is named. Loops are told of as mtool run tells of them. */
#include "monster/impl.h"

#include <stdlib.h>

#include "measured/measured.h"
#include "mix/mix.h"
#include "result/fields.h"

#define LOOP_SHARE 0.001 /* of all instructions or cycles, to be an object */

struct file {
    const struct monster_code *code;
    struct join_module *m;
    uint64_t *counts;                         /* by block */
    uint64_t (*loops)[WIRE_COLUMN_COUNT];     /* by loop of the cfg: its own, then with those inside */
    uint64_t *entries;                        /* by loop */
    const struct monster_function **by_place; /* functions of the file, by address */
    size_t function_count;
};
struct reader {
    const struct monster_result *from;
    struct monster_code_read *to;
    struct join join;
    struct map line_at; /* file << 32 | line: index in to->lines, and 1 */
    double cycles, instructions;
};
struct walker { /* over what lies at ascending addresses */
    uint32_t block;
    struct line_row row;
    size_t line; /* in to->lines, and 1; 0: none */
};

/* ---- one instruction ---- */

/* The innermost loop that holds the address; ID_NONE. */
static uint32_t loop_at(const struct file *f, struct walker *at, uint64_t address)
{
    const struct cfg *c = f->m->cfg;
    while (at->block < c->blocks.len && c->blocks.data[at->block].addr + c->blocks.data[at->block].size <= address)
        at->block++;
    bool is_in = at->block < c->blocks.len && c->blocks.data[at->block].addr <= address;
    return is_in ? c->blocks.data[at->block].loop : ID_NONE;
}

static struct monster_line *line_at(struct reader *r, const struct file *f, struct walker *at, uint64_t address)
{
    if (!f->m->lines)
        return NULL;
    if (address >= at->row.hi || address < at->row.lo) {
        at->line = 0;
        bool is_known = lines_at(f->m->lines, address, &at->row);
        if (!is_known)
            at->row = (struct line_row){.lo = address, .hi = address + 1};
        if (is_known && at->row.line && at->row.file != ID_NONE) {
            uint64_t *place = map_place(&r->line_at, (uint64_t)at->row.file << 32 | at->row.line);
            if (!*place) {
                struct monster_line l = {.file = join_file_name(&r->join, at->row.file), .line = at->row.line};
                VEC_PUSH(&r->to->lines, l);
                *place = r->to->lines.len;
            }
            at->line = *place;
        }
    }
    return at->line ? &r->to->lines.data[at->line - 1] : NULL;
}

static void add_insn(uint64_t of[WIRE_COLUMN_COUNT], const struct mix_insn *i, uint64_t count)
{
    of[WIRE_INSTRUCTIONS] += count;
    of[WIRE_OPERATIONS] += count * i->operations;
    for (unsigned k = 0; k < WIRE_MIX_COUNT; k++)
        of[WIRE_NOPS + k] += count * i->mix[k];
}

static void take_executed(struct reader *r, struct file *f, const struct monster_executed *e, struct walker *at)
{
    const uint8_t *bytes = image_at(f->m->img, e->address, e->bytes);
    struct mix_insn i;
    for (uint64_t off = 0; bytes && off < e->bytes; off += i.x.len) {
        uint64_t address = e->address + off;
        mix_describe(bytes + off, e->bytes - off, address, &i);
        if (!i.x.len)
            return;
        if (!i.is_counted)
            continue;
        uint32_t loop = loop_at(f, at, address);
        const struct cfg_block *b = at->block < f->m->cfg->blocks.len ? &f->m->cfg->blocks.data[at->block] : NULL;
        if (b && b->addr == address)
            f->counts[at->block] = e->count;
        if (loop != ID_NONE)
            add_insn(f->loops[loop], &i, e->count);
        struct monster_line *line = line_at(r, f, at, address);
        if (line)
            add_insn(line->of, &i, e->count);
    }
}

static void take_stalled(struct reader *r, struct file *f, const struct monster_stalled *s, struct walker *at)
{
    uint32_t loop = loop_at(f, at, s->address);
    struct monster_line *line = line_at(r, f, at, s->address);
    for (unsigned k = 0; k < WIRE_STALL_COUNT; k++) {
        if (loop != ID_NONE)
            f->loops[loop][WIRE_STALL_FETCH + k] += s->stalls[k];
        if (line)
            line->of[WIRE_STALL_FETCH + k] += s->stalls[k];
    }
}

/* ---- loops ---- */

static int by_address(const void *a, const void *b)
{
    const struct monster_function *x = *(const struct monster_function *const *)a,
                                  *y = *(const struct monster_function *const *)b;
    return (x->address > y->address) - (x->address < y->address);
}

static void index_functions(struct reader *r, struct file *f)
{
    f->by_place = ARENA_ARRAY(r->join.scratch, const struct monster_function *, r->from->functions.len + 1);
    for (size_t i = 0; i < r->from->functions.len; i++) {
        const struct monster_function *fn = &r->from->functions.data[i];
        if (!fn->is_kernel && strcmp(fn->module, f->code->path) == 0)
            f->by_place[f->function_count++] = fn;
    }
    qsort(f->by_place, f->function_count, sizeof *f->by_place, by_address);
}

/* That all of the loop's blocks are in; NULL: none. */
static const struct monster_function *function_of(const struct file *f, uint32_t loop)
{
    const struct cfg *c = f->m->cfg;
    const struct cfg_loop *l = &c->loops.data[loop];
    uint64_t header = c->blocks.data[l->header].addr;
    size_t i = PARTITION_POINT(k, 0, f->function_count, f->by_place[k]->address <= header);
    const struct monster_function *fn = i ? f->by_place[i - 1] : NULL;
    for (uint32_t k = 0; fn && k < l->member_count; k++) {
        const struct cfg_block *b = &c->blocks.data[c->loop_members.data[l->member_first + k]];
        if (b->addr < fn->address || b->addr + b->size - fn->address > fn->of[WIRE_BYTES])
            fn = NULL;
    }
    return fn;
}

static void add_columns(uint64_t *to, const uint64_t *of)
{
    for (unsigned i = 0; i < WIRE_COLUMN_COUNT; i++)
        to[i] += of[i];
}

static bool is_heavy(const struct reader *r, const uint64_t of[WIRE_COLUMN_COUNT])
{
    return (double)of[WIRE_INSTRUCTIONS] >= LOOP_SHARE * r->instructions ||
           monster_cycles(r->from, of) >= LOOP_SHARE * r->cycles;
}

/* A loop as an object without seconds: its place, its name, how often. */
static struct prof_object place_of(struct reader *r, struct file *f, uint32_t loop, const struct monster_function *fn)
{
    const struct cfg *c = f->m->cfg;
    const struct cfg_loop *l = &c->loops.data[loop];
    struct prof_object o;
    memset(&o, 0, sizeof o);
    prof_row_unknown(PROF_ROW_OBJECT, &o);
    o.kind = PROF_LOOP;
    o.module = arena_strdup(r->join.r->arena, f->code->path);
    o.function = arena_strdup(r->join.r->arena, fn->name);
    o.address = c->blocks.data[l->header].addr;
    o.depth = l->depth;
    o.iterations = f->counts[l->header];
    o.entries = f->entries[loop];
    places_of_object(&r->join, f->m, l->func, loop, &o);
    return o;
}

static void add_loop(struct reader *r, struct file *f, uint32_t l, uint32_t around, const uint64_t *incl,
                     uint32_t *made)
{
    const struct monster_function *fn = is_heavy(r, incl) ? function_of(f, l) : NULL;
    if (!fn)
        return;
    struct monster_loop loop = {.function = fn, .around = around, .object = place_of(r, f, l, fn)};
    memcpy(loop.incl, incl, sizeof loop.incl);
    memcpy(loop.self, incl, sizeof loop.self);
    if (around)
        monster_columns_less(r->to->loops.data[around - 1].self, incl);
    VEC_PUSH(&r->to->loops, loop);
    *made = (uint32_t)r->to->loops.len;
}

/* Outer loops before inner ones, so that each finds the one around it. */
static void choose_loops(struct reader *r, struct file *f, uint32_t func)
{
    const struct cfg *c = f->m->cfg;
    const struct cfg_func *cf = &c->funcs.data[func];
    uint64_t(*incl)[WIRE_COLUMN_COUNT] = xmalloc((cf->loop_count + 1) * sizeof *incl);
    uint32_t *made = xmalloc((cf->loop_count + 1) * sizeof *made), deepest = 0; /* its number among all, and 1 */
    cfg_for_each_loop(cf, l)
        for (uint32_t up = l; up != ID_NONE; up = c->loops.data[up].parent)
            add_columns(incl[up - cf->loop_first], f->loops[l]);
    cfg_for_each_loop(cf, l)
        if (is_heavy(r, incl[l - cf->loop_first]))
            deepest = (uint32_t)max_u64(deepest, c->loops.data[l].depth);
    if (deepest)
        monster_entries(c, f->counts, func, f->entries);
    for (uint32_t depth = 1; depth <= deepest; depth++)
        cfg_for_each_loop(cf, l) {
            uint32_t up = c->loops.data[l].parent;
            if (c->loops.data[l].depth != depth)
                continue;
            while (up != ID_NONE && !made[up - cf->loop_first])
                up = c->loops.data[up].parent;
            add_loop(r, f, l, up != ID_NONE ? made[up - cf->loop_first] : 0, incl[l - cf->loop_first],
                     &made[l - cf->loop_first]);
        }
    free(incl);
    free(made);
}

void monster_columns_less(uint64_t *from, const uint64_t *of)
{
    for (unsigned i = 0; i < WIRE_COLUMN_COUNT; i++)
        from[i] -= min_u64(from[i], of[i]);
}

/* ---- procedures ---- */

static void place_procedure(struct reader *r, struct file *f, uint32_t func)
{
    uint64_t address = f->m->cfg->funcs.data[func].addr;
    size_t i = PARTITION_POINT(k, 0, f->function_count, f->by_place[k]->address < address);
    struct monster_procedure p = {.function = i < f->function_count ? f->by_place[i] : NULL};
    if (!f->m->lines || !p.function || p.function->address != address)
        return;
    p.object.address = address;
    places_of_object(&r->join, f->m, func, ID_NONE, &p.object);
    VEC_PUSH(&r->to->procedures, p);
}

/* ---- files ---- */

/* NULL: it is gone, another one, or broken. */
static const char *open_file(struct join_module *m, const struct monster_code *code)
{
    struct strbuf held = {0};
    const char *why = NULL;
    m->path = code->path;
    diag_hold(&held); /* the warning says it */
    if (image_open(code->path, &m->img) < 0)
        why = "it cannot be read";
    else if (strcmp(m->img->key, code->key) != 0)
        why = "it has changed since";
    else if (cfg_build(m->img, &m->own_cfg) < 0)
        why = "its code is not understood";
    diag_hold(NULL);
    str_free(&held);
    m->cfg = m->own_cfg;
    return why;
}

static void read_file(struct reader *r, const struct monster_code *code, struct join_module *m)
{
    struct file f = {.code = code, .m = m};
    struct walker at = {.row = {.lo = 1}};
    const char *why = open_file(m, code);
    if (why) {
        prof_warn(r->join.r, PROF_WARN_CODE_CHANGED, "no loops and source lines of %s are known: %s", code->path, why);
        return;
    }
    m->lines = lines_open(code->path, DEBUG_ROOT, &r->join.files);
    m->scopes = m->lines ? scope_cache_new(m->lines) : NULL;
    f.counts = xmalloc((m->cfg->blocks.len + 1) * sizeof *f.counts);
    f.loops = xmalloc((m->cfg->loops.len + 1) * sizeof *f.loops);
    f.entries = xmalloc((m->cfg->loops.len + 1) * sizeof *f.entries);
    index_functions(r, &f);
    for (size_t i = 0; i < code->executed.len; i++)
        take_executed(r, &f, &code->executed.data[i], &at);
    at = (struct walker){.row = {.lo = 1}};
    for (size_t i = 0; i < code->stalled.len; i++)
        take_stalled(r, &f, &code->stalled.data[i], &at);
    for (uint32_t func = 0; func < m->cfg->funcs.len; func++) {
        place_procedure(r, &f, func);
        if (m->cfg->funcs.data[func].loop_count)
            choose_loops(r, &f, func);
    }
    free(f.counts);
    free(f.loops);
    free(f.entries);
}

/* Lines stay open: names of files are told apart by where their texts are. */
static void close_file(struct join_module *m)
{
    scope_cache_free(m->scopes);
    cfg_free(m->own_cfg);
    image_close(m->img);
}

void monster_code_read(const struct monster_result *from, struct prof_result *to, struct monster_code_read *out)
{
    struct reader r = {.from = from, .to = out, .join = {.r = to, .scratch = arena_new(), .files.arena = to->arena}};
    struct monster_sums s = monster_sum_up(from);
    r.cycles = s.mode[MONSTER_USER].cycles + s.kernel_busy.cycles;
    r.instructions = (double)s.mode[MONSTER_USER].of[WIRE_INSTRUCTIONS] + (double)s.kernel_busy.of[WIRE_INSTRUCTIONS];
    struct join_module *modules = ARENA_ARRAY(r.join.scratch, struct join_module, from->codes.len + 1);
    for (size_t i = 0; i < from->codes.len; i++) {
        read_file(&r, &from->codes.data[i], &modules[i]);
        close_file(&modules[i]);
    }
    map_fini(&r.line_at);
    file_names_fini(&r.join.files);
    for (size_t i = 0; i < from->codes.len; i++)
        lines_close(modules[i].lines);
    arena_free(r.join.scratch);
}

void monster_code_free(struct monster_code_read *c)
{
    VEC_FREE(&c->loops);
    VEC_FREE(&c->procedures);
    VEC_FREE(&c->lines);
}
