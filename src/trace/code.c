/* SPDX-License-Identifier: Apache-2.0
 *
 * The translator's side of the burst file: asked for an address, it plans and emits the block there, and those that it
 * leads to directly as far as their code is known, joins jumps to what has become translated, and enters in the tables
 * what was asked for by indirect jumps. When code has changed or room is short it forgets the translations, never the
 * blocks: older records name them. */
#include "trace/impl.h"

#include <stddef.h>
#include <stdlib.h>

enum { AHEAD_MAX = 12 }; /* blocks translated beyond the one that was asked for */
struct trace *trace_new(const struct wire_bursts *b)
{
    struct trace *t = xmalloc(sizeof *t);
    t->head = *b;
    t->arena = arena_new();
    return t;
}

static void forget(struct trace *t)
{
    map_fini(&t->page_of);
    map_fini(&t->translated);
    map_fini(&t->waiting);
    t->pending.len = 0;
    t->code_used = t->copied = 0;
}

void trace_free(struct trace *t)
{
    if (!t)
        return;
    forget(t);
    for (uint32_t k = 0; k < TRACE_CHUNKS_MAX; k++)
        free(t->chunks[k]);
    VEC_FREE(&t->pending);
    arena_free(t->arena);
    free(t);
}

uint32_t trace_block_count(const struct trace *t) { return block_count(t); }
const struct trace_block *trace_block(const struct trace *t, uint32_t block) { return block_of(t, block); }

/* A block lies in one mapping. */
static void place_block(struct trace_block *b, trace_place_of place, void *ctx)
{
    uint64_t at = place(ctx, b->address);
    for (uint32_t k = 0; k < b->insn_count; k++)
        b->insns[k].place = at == OBSERVED_PLACE_UNKNOWN ? at : at + (b->insns[k].x.addr - b->address);
}

void trace_place_blocks(struct trace *t, trace_place_of place, void *ctx)
{
    for (uint32_t b = 0; b < block_count(t); b++)
        place_block(block_of(t, b), place, ctx);
}

/* ---- the program's code, as snapshots copied it ---- */

struct source {
    const struct trace *t;
    const uint8_t *file;
};

static size_t fetch(void *ctx, uint64_t address, uint8_t bytes[X86_MORE_BYTES], uint64_t *missing)
{
    const struct source *s = ctx;
    size_t n = 0;
    while (n < X86_MORE_BYTES) {
        uint64_t at = address + n, page, in_page = at % WIRE_PAGE_BYTES;
        if (!map_get(&s->t->page_of, at - in_page, &page)) {
            *missing = at - in_page;
            break;
        }
        size_t part = (size_t)min_u64(WIRE_PAGE_BYTES - in_page, X86_MORE_BYTES - n);
        memcpy(bytes + n, s->file + s->t->head.pages_at + page * WIRE_PAGE_BYTES + in_page, part);
        n += part;
    }
    return n;
}

/* ---- blocks ---- */

static struct trace_insn *keep_insns(struct trace *t, const struct plan *p)
{
    struct trace_insn *to = ARENA_ARRAY(t->arena, struct trace_insn, p->count + 1);
    for (uint32_t k = 0; k < p->count; k++) {
        to[k] = p->insn[k];
        to[k].id = t->insn_count++;
        if (to[k].accesses <= 0)
            continue;
        struct x86_access *access = ARENA_ARRAY(t->arena, struct x86_access, to[k].accesses);
        memcpy(access, p->access[k], (size_t)to[k].accesses * sizeof *access);
        to[k].access = access;
    }
    return to;
}

static uint32_t references_of(const struct plan *p)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->count; k++)
        n += p->insn[k].accesses > 0 ? (uint32_t)p->insn[k].accesses : 0;
    return n;
}

static void find_branch(struct trace_block *b)
{
    const struct trace_insn *last = b->insn_count ? &b->insns[b->insn_count - 1] : NULL;
    if (!last || !trace_is_branch(last))
        return;
    b->branch = last;
    b->branch_at = last->x.addr;
    b->fallthrough = last->x.addr + last->x.len;
    b->branch_kind = last->x.kind;
}

static void keep_block(struct trace *t, const struct plan *p)
{
    struct trace_block **chunk = &t->chunks[t->block_count / TRACE_CHUNK];
    struct trace_log *logs = ARENA_ARRAY(t->arena, struct trace_log, p->logs + 1);
    memcpy(logs, p->log, p->logs * sizeof *logs);
    if (!*chunk)
        *chunk = xmalloc(TRACE_CHUNK * sizeof **chunk);
    struct trace_block *b = &(*chunk)[t->block_count % TRACE_CHUNK];
    *b = (struct trace_block){.address = p->address,
                              .insn_count = p->count,
                              .log_count = p->logs,
                              .references = references_of(p),
                              .insns = keep_insns(t, p),
                              .logs = logs};
    find_branch(b);
    __atomic_store_n(&t->block_count, t->block_count + 1, __ATOMIC_RELEASE);
}

/* ---- translations ---- */

struct job {
    struct trace *t;
    struct wire_bursts *b;
    uint8_t *file;
    uint64_t base;      /* in the program */
    VEC(uint64_t) next; /* addresses that translated blocks lead to */
};

static uint8_t *code_at(const struct job *j, uint64_t at) { return j->file + j->t->head.code_at + at; }

static void join(struct job *j, uint64_t at, uint64_t translation)
{
    uint32_t distance = (uint32_t)(translation - (at + 4));
    memcpy(code_at(j, at), &distance, 4);
}

static void join_waiting(struct job *j, uint64_t address, uint64_t translation)
{
    uint64_t first = 0;
    map_get(&j->t->waiting, address, &first);
    for (uint64_t k = first; k; k = j->t->pending.data[k - 1].next)
        join(j, j->t->pending.data[k - 1].at, translation);
    if (first)
        map_put(&j->t->waiting, address, 0);
}

static void take_exit(struct job *j, const struct exit *x)
{
    struct trace *t = j->t;
    uint64_t at = t->code_used + x->at, known = 0;
    if (map_get(&t->translated, x->target, &known)) {
        join(j, at, known);
        return;
    }
    map_get(&t->waiting, x->target, &known);
    VEC_PUSH(&t->pending, ((struct pending){(uint32_t)at, (uint32_t)known}));
    map_put(&t->waiting, x->target, t->pending.len);
    VEC_PUSH(&j->next, x->target);
}

static void emit(struct job *j, struct plan *p)
{
    struct trace *t = j->t;
    struct emitted e = {.bytes = code_at(j, t->code_used),
                        .address = j->base + t->head.code_at + t->code_used,
                        .state = j->base + offsetof(struct wire_bursts, state),
                        .tables = j->base + t->head.tables_at};
    while (!emit_block(p, t->block_count, &e))
        plan_shorten(p, p->count - 1);
    map_put(&t->translated, p->address, t->code_used);
    join_waiting(j, p->address, t->code_used);
    for (uint32_t k = 0; k < e.exits; k++)
        take_exit(j, &e.exit[k]);
    if (p->count && (p->insn[p->count - 1].x.kind == X86_CALL || p->insn[p->count - 1].x.kind == X86_CALL_IND))
        VEC_PUSH(&j->next, p->end);
    t->code_used = ALIGN_UP(t->code_used + e.len, 16u);
    keep_block(t, p);
}

static bool is_full(const struct trace *t)
{
    return t->code_used + EMIT_BYTES_MAX > t->head.code_bytes || t->block_count == TRACE_CHUNK * TRACE_CHUNKS_MAX;
}

/* false: a page is missing. */
static bool translate(struct job *j, uint64_t address, uint64_t *missing)
{
    struct source s = {j->t, j->file};
    struct plan p;
    if (map_has(&j->t->translated, address))
        return true;
    if (!plan_block(&p, address, fetch, &s, missing))
        return false;
    emit(j, &p);
    return true;
}

static void translate_ahead(struct job *j)
{
    uint64_t missing;
    for (size_t k = 0; k < j->next.len && k < AHEAD_MAX && !is_full(j->t); k++)
        translate(j, j->next.data[k], &missing);
}

/* ---- tables ---- */

static bool enter_in(struct wire_lookup *l, uint64_t entry, uint64_t address, uint64_t translation, bool always)
{
    if (l->negated[entry] && l->negated[entry] != 0 - address && !always)
        return false;
    l->translation[entry] = translation;
    l->negated[entry] = 0 - address;
    return true;
}

static void enter(struct job *j, uint64_t address, uint64_t translation)
{
    struct wire_lookup *l = (struct wire_lookup *)(void *)(j->file + j->t->head.tables_at);
    uint64_t entry[2] = {address % WIRE_LOOKUPS, (address >> 8) % WIRE_LOOKUPS};
    if (!enter_in(&l[0], entry[0], address, translation, false) &&
        !enter_in(&l[1], entry[1], address, translation, false))
        enter_in(&l[address >> 3 & 1], entry[address >> 3 & 1], address, translation, true);
}

/* ---- requests ---- */

static void forget_all(struct job *j)
{
    forget(j->t);
    j->b->page_count = 0;
    memset(j->file + j->t->head.tables_at, 0, 2 * sizeof(struct wire_lookup));
}

static enum wire_burst_answer ask_for_page(struct job *j, uint64_t missing)
{
    struct trace *t = j->t;
    if (t->page_of.len >= t->head.page_max)
        forget_all(j);
    j->b->page = (uint32_t)t->page_of.len;
    j->b->address = t->copied = missing;
    return WIRE_BURST_COPY;
}

/* It asks again: so the page is there. */
static void take_page(struct job *j)
{
    struct trace *t = j->t;
    if (t->copied)
        map_put(&t->page_of, t->copied, t->page_of.len);
    t->copied = 0;
    j->b->page_count = (uint32_t)t->page_of.len;
}

static enum wire_burst_answer find(struct job *j, uint64_t address)
{
    uint64_t missing, at;
    if (is_full(j->t))
        forget_all(j);
    if (j->t->block_count == TRACE_CHUNK * TRACE_CHUNKS_MAX)
        return WIRE_BURST_STOP;
    if (!translate(j, address, &missing))
        return ask_for_page(j, missing);
    translate_ahead(j);
    map_get(&j->t->translated, address, &at);
    j->b->translation = j->base + j->t->head.code_at + at;
    if (j->b->is_indirect)
        enter(j, address, j->b->translation);
    return WIRE_BURST_GO;
}

void trace_answer(struct trace *t, struct wire_bursts *b)
{
    struct job j = {.t = t, .b = b, .file = (uint8_t *)b, .base = b->base};
    b->answer = WIRE_BURST_GO;
    if (b->request == WIRE_BURST_BEGIN) {
        t->copied = 0;
    } else if (b->request == WIRE_BURST_TRANSLATE) {
        take_page(&j);
        b->answer = find(&j, b->address);
    } else {
        forget_all(&j);
    }
    VEC_FREE(&j.next);
}
