/* SPDX-License-Identifier: Apache-2.0
 *
 * A linked file of `mtool ld --tool trace`. Where its blocks are the map says (ld/reading.h); their instructions are
 * read in the file when a block is first met, after what the linker made of them. What was inserted is left out: it
 * reads the word `turn`, which nothing else does, and a jump says where it ends; or it begins by moving the stack
 * pointer past the red zone and what it saves, and ends with what it gives back, and by moving the stack pointer.
 */
#include "ld/trace/program.h"

#include <stdlib.h>

#include "cfg/cfg.h"
#include "image/image.h"
#include "ld/reading.h"
#include "wire/link.h"
#include "wire/trace.h"

enum { SAVES_MAX = 10, RESTORES_MAX = 12 };

struct block {
    uint64_t at, end;
    uint32_t insns;
    bool is_read;
    uint8_t call; /* X86_CALL or X86_CALL_IND: that was its last instruction when the compiler made it */
};
/* What a linker makes of the call that finds a thread-local variable, and of the instruction in front of it
 * (R_X86_64_TLSGD, R_X86_64_TLSLD): the thread's base from fs:0, then what is more than that. */
enum { RELAXED_MOST = 3, NOP = 0x90 };
struct relaxed {
    unsigned count, insns; /* 0: the block ends in no such; how many the block has */
    struct x86_detail d[RELAXED_MOST];
    struct x86_insn nop; /* that mold puts in front of a call which it made shorter; of no length: none */
};
struct ld_trace_program {
    struct arena *arena;
    struct image *img;
    struct rewrite_relocatable_linked *linked;
    uint64_t note, turn;
    uint64_t lo, hi; /* of all blocks */
    VEC(struct block) blocks;
    struct map block_at;         /* where a block begins -> its index + 1 */
    struct ld_trace_part **part; /* [hi - lo] */
    enum ld_trace_fetches fetches;
    unsigned shift;
    VEC(struct ld_trace_part *) all_parts;
    uint64_t unread, untold;
};

/* ---- instructions of a block ---- */

static int decode(const struct ld_trace_program *p, uint64_t at, uint64_t end, struct x86_insn *out)
{
    const uint8_t *bytes = at < end ? image_at(p->img, at, end - at) : NULL;
    return bytes ? x86_decode(bytes, end - at, at, out) : 0;
}

static bool is_at(const struct ld_trace_program *p, uint64_t at, uint64_t end, const char *code, unsigned len)
{
    const uint8_t *bytes = end - at >= len ? image_at(p->img, at, len) : NULL;
    return bytes && memcmp(bytes, code, len) == 0;
}

/* Does the stack pointer go past the red zone, or back? Returns how many bytes do that, 0 it does not. */
static unsigned goes_down(const struct ld_trace_program *p, uint64_t at, uint64_t end)
{
    return is_at(p, at, end, "\x48\x8d\x64\x24\x80", 5) ? 5 : 0; /* lea rsp,[rsp-128] */
}

static unsigned goes_up(const struct ld_trace_program *p, uint64_t at, uint64_t end)
{
    if (is_at(p, at, end, "\x48\x83\xec\x80", 4)) /* sub rsp,-128 */
        return 4;
    return is_at(p, at, end, "\x48\x8d\xa4\x24\x80\0\0\0", 8) ? 8 : 0; /* lea rsp,[rsp+128] */
}

/* Does an instruction read whose turn it is? Behind it stand a test and a jump: sets where that leads. The instruction
 * has no length if there is none. */
static bool reads_turn(const struct ld_trace_program *p, uint64_t at, uint64_t end, struct x86_insn *i, uint64_t *to)
{
    struct x86_insn test, jump;
    if (!decode(p, at, end, i)) {
        i->len = 0;
        return false;
    }
    if (!(i->props & X86_PROP_RIPREL) || i->target != p->turn || !i->loads)
        return false;
    at += i->len;
    if (!decode(p, at, end, &test) || !decode(p, at + test.len, end, &jump) || jump.kind != X86_JCC)
        return false;
    *to = jump.target;
    return true;
}

/* Behind what was inserted at an address; the address itself if nothing was. */
static uint64_t skip_inserted(const struct ld_trace_program *p, uint64_t at, uint64_t end)
{
    struct x86_insn i;
    uint64_t a = at, to;
    if (reads_turn(p, at, end, &i, &to))
        return to;
    if (!goes_down(p, at, end))
        return at;
    for (unsigned n = 0; !reads_turn(p, a, end, &i, &to); n++, a += i.len)
        if (n == SAVES_MAX + 1 || !i.len)
            return at;
    a = to;
    for (unsigned n = 0; n < RESTORES_MAX && decode(p, a, end, &i); n++, a += i.len)
        if (goes_up(p, a, end))
            return a + goes_up(p, a, end);
    return at;
}

static uint64_t skip_all(const struct ld_trace_program *p, uint64_t at, uint64_t end)
{
    uint64_t next;
    while ((next = skip_inserted(p, at, end)) != at)
        at = next;
    return at;
}

/* At the last but one of a block's instructions. mold looks at fs:0 by way of a register that it makes zero. */
static bool read_relaxed(const struct ld_trace_program *p, const struct block *b, uint64_t at, struct relaxed *out)
{
    bool has_base = false;
    unsigned n = 0;
    for (; n < RELAXED_MOST && at < b->end; n++) {
        const uint8_t *bytes = image_at(p->img, at, b->end - at);
        struct x86_detail *d = &out->d[n];
        if (!bytes || !x86_decode_detail(bytes, b->end - at, at, d) || d->insn.kind != X86_PLAIN || d->access_count > 1)
            return false;
        const struct x86_access *a = &d->access[0];
        if (d->access_count && a->is_store)
            return false;
        has_base |= d->access_count && a->segment == X86_SEGMENT_FS && a->bytes == 8 && !a->disp;
        at += d->insn.len;
    }
    out->count = has_base && at == b->end ? n : 0;
    return out->count;
}

/* As the compiler had it: what the program writes of a block goes by that. Of -fno-plt the longer one has prefixes. */
static bool make_call(struct x86_detail *out, const struct block *b, uint64_t at)
{
    static const uint8_t direct[] = {0xe8, 0, 0, 0, 0}, indirect[] = {0x66, 0x48, 0xff, 0x15, 0, 0, 0, 0};
    enum { PREFIXES = 2, LONG_BYTES = 16 };
    unsigned skipped = b->end - at == LONG_BYTES ? 0 : PREFIXES;
    return b->call == X86_CALL ? x86_decode_detail(direct, sizeof direct, at, out)
                               : x86_decode_detail(indirect + skipped, sizeof indirect - skipped, at, out);
}

static bool read_block(const struct ld_trace_program *p, const struct block *b, struct x86_detail *out,
                       struct relaxed *relaxed)
{
    uint64_t at = b->at;
    if (b->insns > CFG_BLOCK_INSNS_MAX)
        return false;
    for (uint32_t k = 0; k < b->insns; k++) {
        at = skip_all(p, at, b->end);
        if (b->call && k + 2 == b->insns && read_relaxed(p, b, at, relaxed)) {
            out[k] = (struct x86_detail){.insn = {.addr = at}};
            return make_call(&out[k + 1], b, at);
        }
        const uint8_t *bytes = at < b->end ? image_at(p->img, at, b->end - at) : NULL;
        if (bytes && b->call == X86_CALL_IND && k + 1 == b->insns && *bytes == NOP && at + 1 < b->end)
            x86_decode(bytes++, 1, at++, &relaxed->nop);
        if (!bytes || !x86_decode_detail(bytes, b->end - at, at, &out[k]))
            return false;
        at += out[k].insn.len;
    }
    return true;
}

/* ---- what it does ---- */

struct maker {
    struct ld_trace_program *p;
    const struct rewrite_trace_plan *plan;
    struct ld_trace_part *part;
    struct ld_trace_repeat *repeats;
    uint16_t repeat_count;
    uint64_t line; /* of the last fetch, and 1; 0 none */
};

static uint8_t value_of(const struct maker *m, int16_t word)
{
    if (word < 0)
        return LD_TRACE_VALUE_NONE;
    unsigned number = (unsigned)word;
    if (word >= REWRITE_TRACE_FIRST_LATE)
        number = m->plan->entry_count + number - REWRITE_TRACE_FIRST_LATE;
    return (uint8_t)(LD_TRACE_VALUE_WORDS + number);
}

static uint8_t late_of(int16_t word)
{
    return word >= REWRITE_TRACE_FIRST_LATE ? (uint8_t)(word - REWRITE_TRACE_FIRST_LATE + 1) : 0;
}

static uint8_t more(uint8_t a, uint8_t b) { return a > b ? a : b; }

static void add_op(struct maker *m, struct ld_trace_op op)
{
    m->part->ops[m->part->op_count++] = op;
    m->part->is_plain &= !op.repeat && !op.value_more;
}

/* As lackey tells them: by element where a vector is the mask. */
static enum ld_trace_elements masked_of(const struct x86_reach *r)
{
    bool is_vector = r->mask < X86_REG_MASK0 && r->element_bytes > 1;
    return r->is_whole ? LD_TRACE_WHOLE : r->is_packed ? LD_TRACE_PACKED : is_vector ? LD_TRACE_EACH : LD_TRACE_SPAN;
}

static enum ld_trace_elements elements_of(const struct x86_reach *r)
{
    switch ((enum x86_reach_kind)r->kind) {
    case X86_REACH_ELEMENTS:
        return LD_TRACE_INDEXED;
    case X86_REACH_MASKED:
        return masked_of(r);
    case X86_REACH_BIT:
        return LD_TRACE_BIT;
    case X86_REACH_TABLE:
        return LD_TRACE_TABLE;
    case X86_REACH_FIXED:
    case X86_REACH_STATE:
    case X86_REACH_NONE:
        break;
    }
    return LD_TRACE_PIECES;
}

static void add_reach(struct maker *m, const struct x86_reach *r, const struct rewrite_trace_access *x,
                      struct ld_trace_op *op)
{
    enum ld_trace_elements elements = elements_of(r);
    unsigned words = x->index_word < 0 ? 0 : (r->count * r->index_bytes + 7u) / 8;
    m->repeats[m->repeat_count++] = (struct ld_trace_repeat){.elements = (uint8_t)elements,
                                                             .mask = value_of(m, x->mask_word),
                                                             .plus = x->number_plus,
                                                             .elements_max = r->count,
                                                             .indices = value_of(m, x->index_word),
                                                             .index_bytes = r->index_bytes,
                                                             .scale = r->access.scale,
                                                             .ops = 1};
    op->repeat = m->repeat_count;
    op->bytes = elements == LD_TRACE_WHOLE    ? op->bytes
                : elements == LD_TRACE_PIECES ? r->fixed_bytes
                                              : r->element_bytes;
    op->late = more(op->late, late_of(x->mask_word));
    op->late = words ? more(op->late, late_of((int16_t)(x->index_word + (int)words - 1))) : op->late;
}

static void add_access(struct maker *m, const struct x86_detail *d, const struct rewrite_trace_access *x)
{
    const struct x86_access *a = &x->access;
    bool has_registers = a->base < X86_GPR_COUNT || a->index < X86_GPR_COUNT;
    struct ld_trace_op op = {.plus = (uint64_t)(a->disp + x->plus),
                             .value = value_of(m, x->word),
                             .bytes = a->bytes,
                             .kind = a->is_load ? a->is_store ? CACHE_MODIFY : CACHE_READ : CACHE_WRITE,
                             .late = late_of(x->word)};
    if (a->segment == X86_SEGMENT_FS) {
        op.value_more = op.value;
        op.value = LD_TRACE_VALUE_THREAD;
    } else if (!has_registers && d->insn.props & X86_PROP_RIPREL) {
        op.value = LD_TRACE_VALUE_ABOVE;
    }
    if (x->count_word >= 0) {
        struct ld_trace_repeat *r = &m->repeats[m->repeat_count ? m->repeat_count - 1 : 0];
        if (!m->repeat_count || r->fetch != d->insn.addr) {
            r = &m->repeats[m->repeat_count++];
            *r = (struct ld_trace_repeat){.fetch = d->insn.addr,
                                          .plus = x->count_plus,
                                          .count = value_of(m, x->count_word),
                                          .rest = x->has_rest ? value_of(m, x->rest_word) : LD_TRACE_VALUE_NONE,
                                          .fetch_bytes = m->p->fetches == LD_TRACE_FETCHES_NONE ? 0 : d->insn.len};
        }
        r->ops++;
        op.repeat = m->repeat_count;
        op.late = more(op.late, late_of(x->count_word));
        op.late = x->has_rest ? more(op.late, late_of(x->rest_word)) : op.late;
    } else if (x->is_reach) {
        add_reach(m, &d->reach, x, &op);
    } else {
        m->part->made[op.kind]++;
    }
    add_op(m, op);
}

/* Does it begin a line that the one before it did not reach, or reach into one? */
static bool is_new_line(struct maker *m, const struct x86_insn *i)
{
    uint64_t first = i->addr >> m->p->shift, last = (i->addr + i->len - 1) >> m->p->shift;
    bool is_new = m->line != first + 1 || last != first;
    m->line = last + 1;
    return is_new;
}

static void add_fetch(struct maker *m, const struct x86_insn *i)
{
    m->part->made[CACHE_FETCH]++;
    if (m->p->fetches == LD_TRACE_FETCHES_NONE || (m->p->fetches == LD_TRACE_FETCHES_LINES && !is_new_line(m, i)))
        return;
    add_op(m,
           (struct ld_trace_op){.plus = i->addr, .value = LD_TRACE_VALUE_ABOVE, .bytes = i->len, .kind = CACHE_FETCH});
}

static void add_relaxed(struct maker *m, const struct relaxed *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        const struct x86_detail *d = &r->d[i];
        add_fetch(m, &d->insn);
        if (!d->access_count)
            continue;
        struct rewrite_trace_access x = {.access = d->access[0],
                                         .word = REWRITE_TRACE_NO_WORD,
                                         .count_word = REWRITE_TRACE_NO_WORD,
                                         .mask_word = REWRITE_TRACE_NO_WORD,
                                         .index_word = REWRITE_TRACE_NO_WORD};
        if (x.access.segment == X86_SEGMENT_FS)
            x.access.base = x.access.index = X86_REG_NONE;
        add_access(m, d, &x);
    }
}

static struct ld_trace_part *make_part(struct ld_trace_program *p, const struct x86_detail *d, unsigned first,
                                       unsigned end, const struct rewrite_trace_plan *plan,
                                       const struct relaxed *relaxed)
{
    struct maker m = {.p = p, .plan = plan, .part = ARENA_NEW(p->arena, struct ld_trace_part)};
    m.part->ops = ARENA_ARRAY(p->arena, struct ld_trace_op, end - first + plan->access_count + 1 + 2 * RELAXED_MOST);
    m.part->repeats = m.repeats = ARENA_ARRAY(p->arena, struct ld_trace_repeat, plan->access_count + 1);
    m.part->entry_count = (uint16_t)plan->entry_count;
    m.part->late_count = (uint16_t)plan->late_count;
    m.part->is_plain = true;
    unsigned k = 0;
    for (unsigned i = first; i < end; i++) {
        if (relaxed->count && i + 2 >= relaxed->insns) { /* both in one, behind the second, whose part that is */
            if (i + 1 == relaxed->insns)
                add_relaxed(&m, relaxed);
            continue;
        }
        if (relaxed->nop.len && i + 1 == relaxed->insns)
            add_fetch(&m, &relaxed->nop);
        add_fetch(&m, &d[i].insn);
        for (; k < plan->access_count && plan->accesses[k].insn == i; k++)
            add_access(&m, &d[i], &plan->accesses[k]);
    }
    p->untold +=
        plan->untold - (relaxed->count && end == relaxed->insns && plan->untold && d[end - 1].access_count < 0);
    return m.part;
}

static void read_parts(struct ld_trace_program *p, struct block *b)
{
    struct x86_detail d[CFG_BLOCK_INSNS_MAX] = {0};
    struct rewrite_trace_plan plan;
    b->is_read = true;
    struct relaxed relaxed = {.insns = b->insns};
    if (!read_block(p, b, d, &relaxed)) {
        p->unread++;
        return;
    }
    uint64_t at = b->at;
    for (unsigned first = 0; first < b->insns && at < p->hi; at++) {
        unsigned next = rewrite_trace_plan(d, first, b->insns, &plan);
        struct ld_trace_part *part = make_part(p, d, first, next, &plan, &relaxed);
        part->at = at;
        p->part[at - p->lo] = part;
        VEC_PUSH(&p->all_parts, part);
        first = next;
    }
}

/* Parts but the first are few bytes behind their block's begin. */
static struct block *block_near(const struct ld_trace_program *p, uint64_t at)
{
    uint64_t i;
    for (uint64_t a = at; a + CFG_BLOCK_INSNS_MAX > at && a >= p->lo; a--)
        if (map_get(&p->block_at, a, &i))
            return &p->blocks.data[i - 1];
    return NULL;
}

struct ld_trace_part *ld_trace_program_part(struct ld_trace_program *p, uint64_t at)
{
    if (at - p->lo >= p->hi - p->lo)
        return NULL;
    if (p->part[at - p->lo])
        return p->part[at - p->lo];
    struct block *b = block_near(p, at);
    if (b && !b->is_read)
        read_parts(p, b);
    return p->part[at - p->lo];
}

bool ld_trace_program_has(const struct ld_trace_program *p, uint64_t at)
{
    return at - p->lo < p->hi - p->lo && block_near(p, at);
}

/* ---- all ---- */

static uint8_t call_of(const struct cfg_block *b)
{
    return b->term == X86_CALL || b->term == X86_CALL_IND ? b->term : X86_PLAIN;
}

static void add_blocks(struct ld_trace_program *p, const struct rewrite_relocatable_unit *u)
{
    const struct cfg *c = u->map->cfg;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        if (!u->funcs[f].vaddr)
            continue;
        cfg_for_each_block(&c->funcs.data[f], b) {
            struct block x = {ld_reading_block(u, b), ld_reading_block_end(u, b), c->blocks.data[b].insn_count, false,
                              call_of(&c->blocks.data[b])};
            VEC_PUSH(&p->blocks, x);
            p->lo = p->blocks.len == 1 ? x.at : min_u64(p->lo, x.at);
            p->hi = max_u64(p->hi, x.end);
            map_put(&p->block_at, x.at, p->blocks.len);
        }
    }
}

static int find_sections(struct ld_trace_program *p, const char *path)
{
    const struct image_section *note = image_section_named(p->img, WIRE_LINK_SECTION);
    if (!note || !p->linked->unit_count)
        return diag_error("%s has no map of its blocks; link it without -s and --strip-debug", path);
    p->note = note->addr;
    p->turn = p->linked->counters_hi - WIRE_TRACE_PAGE;
    return 0;
}

int ld_trace_program_open(const char *path, enum ld_trace_fetches fetches, unsigned shift,
                          struct ld_trace_program **out)
{
    struct ld_trace_program *p = xmalloc(sizeof *p);
    enum { TEXT_MAX = 1u << 30 };
    *p = (struct ld_trace_program){.arena = arena_new(), .fetches = fetches, .shift = shift};
    *out = NULL;
    if (image_open(path, &p->img) < 0 || rewrite_relocatable_linked_open(path, &p->linked) < 0 ||
        find_sections(p, path) < 0) {
        ld_trace_program_close(p);
        return -1;
    }
    for (size_t i = 0; i < p->linked->unit_count; i++)
        add_blocks(p, &p->linked->units[i]);
    if (p->hi - p->lo > TEXT_MAX) {
        ld_trace_program_close(p);
        return diag_error("%s is larger than can be traced", path);
    }
    p->part = xmalloc_sparse((p->hi - p->lo + 1) * sizeof *p->part);
    *out = p;
    return 0;
}

void ld_trace_program_close(struct ld_trace_program *p)
{
    if (!p)
        return;
    rewrite_relocatable_linked_close(p->linked);
    image_close(p->img);
    VEC_FREE(&p->blocks);
    VEC_FREE(&p->all_parts);
    map_fini(&p->block_at);
    xfree_sparse(p->part);
    arena_free(p->arena);
    free(p);
}

uint64_t ld_trace_program_note(const struct ld_trace_program *p) { return p->note; }
uint64_t ld_trace_program_unread(const struct ld_trace_program *p) { return p->unread; }
uint64_t ld_trace_program_untold(const struct ld_trace_program *p) { return p->untold; }

struct ld_trace_part *const *ld_trace_program_parts(const struct ld_trace_program *p, uint64_t *lo, uint64_t *span)
{
    *lo = p->lo;
    *span = p->hi - p->lo;
    return p->part;
}

void ld_trace_program_count(const struct ld_trace_program *p, uint64_t made[4], uint64_t *runs)
{
    for (size_t i = 0; i < p->all_parts.len; i++) {
        const struct ld_trace_part *part = p->all_parts.data[i];
        *runs += part->runs;
        for (int k = 0; k < 4; k++)
            made[k] += part->made[k] * part->runs;
    }
}
