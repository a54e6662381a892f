/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a thread, one behind the other, into references: a part of a block is all there where its first word is,
 * but for what is known only later, and a handler of a signal may come in between.
 */
#include "ld/trace/expand.h"

static uint64_t load(const volatile uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

/* ---- references ---- */

static void flush(struct ld_trace_expand *x, const struct ld_trace_stream *s)
{
    if (x->ref_count && x->sim)
        ld_trace_sim_refs(x->sim, &s->who, x->refs, x->ref_count);
    else if (x->ref_count)
        x->take(x->ctx, &s->who, x->refs, x->ref_count);
    x->ref_count = 0;
}

static void add_ref(struct ld_trace_expand *x, const struct ld_trace_stream *s, uint64_t address, uint16_t bytes,
                    uint8_t kind)
{
    if (x->ref_count == LD_TRACE_BATCH)
        flush(x, s);
    x->refs[x->ref_count++] = (struct cache_ref){
        .address = address, .bytes = bytes, .kind = kind, .thread = (uint8_t)(s->who.number % CACHE_THREADS_MAX)};
}

static uint64_t address_of(const struct ld_trace_op *op, const uint64_t *values)
{
    return values[op->value] + values[op->value_more] + op->plus;
}

static void add_fetch(struct ld_trace_expand *x, const struct ld_trace_stream *s, const struct ld_trace_repeat *r)
{
    x->stats.made[CACHE_FETCH]++;
    if (r->fetch_bytes)
        add_ref(x, s, r->fetch + s->module->above, r->fetch_bytes, CACHE_FETCH);
}

/* Its operations, element by element. */
static void repeat(struct ld_trace_expand *x, const struct ld_trace_stream *s, const struct ld_trace_part *part,
                   const struct ld_trace_op *op, const uint64_t *values)
{
    const struct ld_trace_repeat *r = &part->repeats[op->repeat - 1];
    uint64_t rest = values[r->rest], count = values[r->count] + (uint64_t)r->plus - rest;
    for (uint64_t i = 0; i < count; i++) {
        if (i)
            add_fetch(x, s, r);
        for (unsigned k = 0; k < r->ops; k++) {
            add_ref(x, s, address_of(&op[k], values) + i * op[k].bytes, op[k].bytes, op[k].kind);
            x->stats.made[op[k].kind]++;
        }
    }
    if (count && !rest)
        add_fetch(x, s, r);
    if (x->sim) /* others go there past the batch */
        flush(x, s);
}

static void add_made(struct ld_trace_expand *x, const struct ld_trace_stream *s, const struct ld_trace_op *op,
                     uint64_t address, uint64_t bytes)
{
    add_ref(x, s, address, (uint16_t)bytes, op->kind);
    x->stats.made[op->kind]++;
}

static int64_t index_of(const struct ld_trace_repeat *r, const uint64_t *values, unsigned k)
{
    uint64_t word = values[r->indices + k * r->index_bytes / 8];
    return r->index_bytes == 8 ? (int64_t)word : (int32_t)(word >> k % 2 * 32);
}

static void reach_masked(struct ld_trace_expand *x, const struct ld_trace_stream *s, const struct ld_trace_repeat *r,
                         const struct ld_trace_op *op, const uint64_t *values, uint64_t at)
{
    uint64_t mask = values[r->mask] & (r->elements_max < 64 ? (1ull << r->elements_max) - 1 : UINT64_MAX);
    if (!mask)
        return;
    unsigned first = (unsigned)__builtin_ctzll(mask), last = 63u - (unsigned)__builtin_clzll(mask);
    if (r->elements == LD_TRACE_SPAN)
        add_made(x, s, op, at + (uint64_t)first * op->bytes, (uint64_t)(last - first + 1) * op->bytes);
    else if (r->elements == LD_TRACE_PACKED)
        add_made(x, s, op, at, (uint64_t)__builtin_popcountll(mask) * op->bytes);
    else if (r->elements == LD_TRACE_WHOLE)
        add_made(x, s, op, at, op->bytes);
    else
        for (unsigned k = first; k <= last; k++)
            if (mask >> k & 1)
                add_made(x, s, op,
                         at + (r->elements == LD_TRACE_INDEXED ? (uint64_t)index_of(r, values, k) * r->scale
                                                               : (uint64_t)k * op->bytes),
                         op->bytes);
}

/* The word that has it, words of op->bytes. */
static uint64_t bit_place(const struct ld_trace_op *op, uint64_t number)
{
    int64_t bit = op->bytes == 2 ? (int16_t)number : op->bytes == 4 ? (int32_t)number : (int64_t)number;
    unsigned shift = 3u + (unsigned)__builtin_ctz(op->bytes);
    return (uint64_t)(bit >> shift) * op->bytes;
}

/* What operands do not say. */
static void reach(struct ld_trace_expand *x, const struct ld_trace_stream *s, const struct ld_trace_part *part,
                  const struct ld_trace_op *op, const uint64_t *values)
{
    const struct ld_trace_repeat *r = &part->repeats[op->repeat - 1];
    uint64_t at = address_of(op, values), number = values[r->mask] + (uint64_t)r->plus;
    if (r->elements == LD_TRACE_BIT)
        add_made(x, s, op, at + bit_place(op, number), op->bytes);
    else if (r->elements == LD_TRACE_TABLE)
        add_made(x, s, op, at + (uint8_t)number, op->bytes);
    else if (r->elements == LD_TRACE_PIECES)
        for (unsigned k = 0; k < op->bytes; k += LD_TRACE_PIECE)
            add_made(x, s, op, at + k, min_u64(LD_TRACE_PIECE, op->bytes - k));
    else
        reach_masked(x, s, r, op, values, at);
    if (x->sim) /* others go there past the batch */
        flush(x, s);
}

static void give_ops(struct ld_trace_expand *x, const struct ld_trace_stream *s, const struct ld_trace_part *part,
                     uint32_t from, uint32_t to, const uint64_t *values)
{
    if (x->sim && part->is_plain) {
        ld_trace_sim_ops(x->sim, part->ops + from, part->ops + to, values);
        return;
    }
    for (uint32_t k = from; k < to; k++) {
        const struct ld_trace_op *op = &part->ops[k];
        if (op->repeat && part->repeats[op->repeat - 1].elements != LD_TRACE_STRING) {
            reach(x, s, part, op, values);
        } else if (op->repeat) {
            repeat(x, s, part, op, values);
            k += part->repeats[op->repeat - 1].ops - 1u;
        } else if (x->sim && !op->value_more) {
            ld_trace_sim_ops(x->sim, op, op + 1, values);
        } else if (x->sim) {
            struct ld_trace_op whole = *op;
            whole.plus += values[op->value_more];
            ld_trace_sim_ops(x->sim, &whole, &whole + 1, values);
        } else {
            add_ref(x, s, address_of(op, values), op->bytes, op->kind);
        }
    }
}

/* As far as is known. */
static void advance(struct ld_trace_expand *x, const struct ld_trace_stream *s, struct ld_trace_pending *p)
{
    uint32_t from = p->op;
    while (p->op < p->part->op_count && p->part->ops[p->op].late <= p->late)
        p->op++;
    give_ops(x, s, p->part, from, p->op, p->values);
}

static bool is_done(const struct ld_trace_pending *p)
{
    return p->op == p->part->op_count && p->late == p->part->late_count;
}

/* It is not known to its end. */
static void leave(struct ld_trace_expand *x, const struct ld_trace_pending *p)
{
    x->stats.torn++;
    for (uint32_t k = p->op; k < p->part->op_count; k++)
        x->undone[p->part->ops[k].kind] += !p->part->ops[k].repeat;
}

static void begin_pending(struct ld_trace_expand *x, struct ld_trace_stream *s, const struct ld_trace_part *part)
{
    if (s->depth == LD_TRACE_NESTED_MAX) {
        leave(x, &s->nested[0]);
        memmove(s->nested, s->nested + 1, sizeof s->nested - sizeof *s->nested);
        s->depth--;
    }
    struct ld_trace_pending *p = &s->nested[s->depth++];
    p->part = part;
    p->op = 0;
    p->late = 0;
    memcpy(p->values, s->values, (LD_TRACE_VALUE_WORDS + part->entry_count) * sizeof *p->values);
    advance(x, s, p);
}

/* What comes late stands right behind it, unless a handler came between. Returns how many words that are. */
static inline unsigned take_all_late(struct ld_trace_stream *s, const struct ld_trace_part *part,
                                     const volatile uint64_t *words)
{
    for (unsigned k = 0; k < part->late_count; k++) {
        if (load(&words[2 * k]) != WIRE_TRACE_LATE + k)
            return 0;
        s->values[LD_TRACE_VALUE_WORDS + part->entry_count + k] = words[2 * k + 1];
    }
    return 2 * part->late_count;
}

/* With so many words behind the first that may be looked at. Returns how many more than its own it took. */
static inline unsigned begin_part(struct ld_trace_expand *x, struct ld_trace_stream *s, struct ld_trace_part *part,
                                  const volatile uint64_t *words, uint32_t room)
{
    unsigned late = 0;
    part->runs++;
    for (unsigned i = 0; i < part->entry_count; i++)
        s->values[LD_TRACE_VALUE_WORDS + i] = words[i];
    if (part->late_count && part->entry_count + 2u * part->late_count <= room)
        late = take_all_late(s, part, words + part->entry_count);
    if (part->late_count && !late)
        begin_pending(x, s, part);
    else if (x->sim && part->is_plain)
        ld_trace_sim_ops(x->sim, part->ops, part->ops + part->op_count, s->values);
    else
        give_ops(x, s, part, 0, part->op_count, s->values);
    return late;
}

static void take_late(struct ld_trace_expand *x, struct ld_trace_stream *s, unsigned number, uint64_t value)
{
    struct ld_trace_pending *p = s->depth ? &s->nested[s->depth - 1] : NULL;
    if (!p || number != p->late || number >= p->part->late_count) {
        x->stats.torn++;
        return;
    }
    p->values[LD_TRACE_VALUE_WORDS + p->part->entry_count + p->late++] = value;
    advance(x, s, p);
    if (is_done(p))
        s->depth--;
}

static void use_lines(const struct ld_trace_expand *x, uint64_t whose, const volatile uint64_t *lines, unsigned count)
{
    uint64_t stream = 0;
    if (!x->sim || !ld_trace_sim_slots(x->sim) || !map_get(x->streams, whose, &stream))
        return;
    for (unsigned i = 0; i < count; i++)
        ld_trace_sim_use(x->sim, ((const struct ld_trace_stream *)(uintptr_t)stream)->who.number, lines[i]);
}

/* ---- records ---- */

static struct ld_trace_part *find_part(const struct ld_trace_module *m, uint64_t at)
{
    if (at - m->lo >= m->span)
        return NULL;
    struct ld_trace_part *part = m->parts[at - m->lo];
    return part ? part : ld_trace_program_part(m->program, at - m->above);
}

enum { KEY_BITS = 8 };
_Static_assert(REWRITE_TRACE_WORDS_MAX + 1 < 1 << KEY_BITS, "a record's words fit");

static void know(const struct ld_trace_module *m, struct ld_trace_known *k, uint64_t at)
{
    struct ld_trace_part *part = find_part(m, at);
    *k = (struct ld_trace_known){at << KEY_BITS | (1u + (part ? part->entry_count : 0u)), part};
}

/* Returns how many words its record has. */
static inline unsigned find_words(const struct ld_trace_module *m, uint64_t at, struct ld_trace_part **part)
{
    struct ld_trace_known *k = &m->known[(at ^ at >> 13) % LD_TRACE_KNOWN];
    if (__builtin_expect((k->key ^ at << KEY_BITS) >> KEY_BITS, 0))
        know(m, k, at);
    *part = k->part;
    return k->key & ((1u << KEY_BITS) - 1);
}

static bool is_known(const struct ld_trace_module *m, uint64_t at)
{
    return ld_trace_program_has(m->program, at - m->above);
}

/* How many words the record at `at` has, 0 if it is not all there. *part: of a block's. */
static inline unsigned record_words(const struct ld_trace_module *m, const volatile uint64_t *w, uint32_t at,
                                    uint64_t *first, struct ld_trace_part **part)
{
    unsigned n = 1;
    *part = NULL;
    if (at >= LD_TRACE_CHUNK_WORDS || !(*first = load(&w[at])))
        return 0;
    if (!(*first >> 63)) {
        n = find_words(m, *first, part);
    } else if (*first - WIRE_TRACE_USED <= WIRE_TRACE_LINES) {
        n = 2 + (unsigned)(*first - WIRE_TRACE_USED);
    } else if (*first != WIRE_TRACE_END) {
        n = 2;
    }
    return at + n <= LD_TRACE_CHUNK_WORDS ? n : 0;
}

uint32_t ld_trace_extent(const struct ld_trace_stream *s, const volatile uint64_t *words, uint32_t at)
{
    struct ld_trace_part *part;
    uint64_t first;
    for (unsigned n; (n = record_words(s->module, words, at, &first, &part)); at += n)
        if (first == WIRE_TRACE_END || first == WIRE_TRACE_SEGMENT)
            return at + n;
    return at;
}

enum ld_trace_stop ld_trace_give(struct ld_trace_expand *x, struct ld_trace_stream *s, const volatile uint64_t *words,
                                 uint32_t *from, uint32_t end, uint64_t *segment)
{
    struct ld_trace_part *part;
    uint64_t first;
    uint32_t at = *from;
    enum ld_trace_stop stop = LD_TRACE_OPEN;
    if (x->sim)
        ld_trace_sim_thread(x->sim, s->who.number);
    for (unsigned n; at < end && stop == LD_TRACE_OPEN && (n = record_words(s->module, words, at, &first, &part));
         at += n) {
        if (part) {
            n += begin_part(x, s, part, &words[at + 1], end - at - 1);
        } else if (first == WIRE_TRACE_END) {
            stop = LD_TRACE_END;
        } else if (first == WIRE_TRACE_SEGMENT) {
            *segment = words[at + 1];
            stop = LD_TRACE_SEGMENT;
        } else if (first - WIRE_TRACE_USED <= WIRE_TRACE_LINES) {
            use_lines(x, words[at + 1], &words[at + 2], n - 2);
        } else if (first >> 63) {
            take_late(x, s, (unsigned)(first - WIRE_TRACE_LATE), words[at + 1]);
        } else if (s->module->program) { /* what stands behind a hole, or a block that cannot be read */
            x->stats.torn += !is_known(s->module, first);
        } else {
            x->stats.unknown++;
        }
    }
    *from = at;
    flush(x, s);
    return stop;
}

void ld_trace_leave(struct ld_trace_expand *x, struct ld_trace_stream *s)
{
    while (s->depth)
        leave(x, &s->nested[--s->depth]);
}
