/* SPDX-License-Identifier: Apache-2.0
 *
 * A window taken step by step (wire.h, struct wire_windows): its words, each instruction of it decoded once, and steps
 * with all registers made of both. Trusts no word: a program may have written over them. */
#include "trace/impl.h"

#include <assert.h>

#include "wire/wire.h"

enum { STEPS_MAX = 1 << 20, TOLD_BYTES = 16 };

struct trace_steps {
    const uint64_t *words;
    const uint32_t *insn_of; /* by step: into insns */
    struct trace_insn *insns;
    uint32_t insn_count;
};

/* ---- making ---- */

struct making {
    struct arena *arena;
    VEC(struct trace_insn) insns;
    struct map by_address; /* to the place in insns */
    uint64_t references;
};

static bool is_whole(const uint64_t *at, const uint64_t *end)
{
    if (at >= end)
        return false;
    return at + 1 + __builtin_popcountll(*at >> 48) + (*at & WIRE_STEP_BYTES ? 2 : 0) <= end;
}

static void take_accesses(struct making *m, const struct x86_detail *d, struct trace_insn *to)
{
    to->accesses = d->access_count;
    if (to->accesses <= 0)
        return;
    struct x86_access *kept = ARENA_ARRAY(m->arena, struct x86_access, to->accesses);
    memcpy(kept, d->access, (size_t)to->accesses * sizeof *kept);
    to->access = kept;
}

/* bytes: NULL if they were not told. */
static struct trace_insn make_insn(struct making *m, uint64_t address, const uint8_t *bytes)
{
    struct trace_insn to = {.x = {.addr = address},
                            .place = OBSERVED_PLACE_UNKNOWN,
                            .id = (uint32_t)m->insns.len,
                            .accesses = -1,
                            .effect = X86_EFFECT_OTHER};
    struct x86_detail d;
    if (bytes)
        memcpy(to.bytes, bytes, TOLD_BYTES);
    if (!bytes || !x86_decode_detail(bytes, TOLD_BYTES, address, &d))
        return to;
    to.x = d.insn;
    to.repeats = (to.x.props & X86_PROP_REP) != 0;
    take_accesses(m, &d, &to);
    return to;
}

static uint32_t insn_at(struct making *m, uint64_t address, const uint8_t *bytes)
{
    uint64_t place;
    if (map_get(&m->by_address, address, &place))
        return (uint32_t)place;
    struct trace_insn i = make_insn(m, address, bytes);
    map_put(&m->by_address, address, i.id);
    VEC_PUSH(&m->insns, i);
    return (uint32_t)m->insns.len - 1;
}

/* Fills insn_of. Returns how many steps are whole. */
static uint64_t read_words(struct making *m, const uint64_t *at, const uint64_t *end, uint64_t steps, uint32_t *insn_of)
{
    uint64_t regs[16] = {0}, n = 0;
    for (; n < steps && is_whole(at, end); n++) {
        const uint8_t *bytes = NULL;
        uint64_t address = wire_step_next(&at, regs, &bytes);
        insn_of[n] = insn_at(m, address, bytes);
        assert(insn_of[n] < m->insns.len);
        int accesses = m->insns.data[insn_of[n]].accesses;
        m->references += accesses > 0 ? (uint64_t)accesses : 0;
    }
    return n;
}

static struct trace_steps *keep(struct making *m, const uint64_t *words, const uint32_t *insn_of)
{
    struct trace_steps *s = ARENA_ARRAY(m->arena, struct trace_steps, 1);
    struct trace_insn *insns = ARENA_ARRAY(m->arena, struct trace_insn, m->insns.len + 1);
    if (m->insns.len)
        memcpy(insns, m->insns.data, m->insns.len * sizeof *insns);
    *s = (struct trace_steps){words, insn_of, insns, (uint32_t)m->insns.len};
    VEC_FREE(&m->insns);
    map_fini(&m->by_address);
    return s;
}

static uint64_t words_of(const uint64_t *at, const uint64_t *end, uint64_t steps)
{
    const uint64_t *from = at;
    uint64_t regs[16];
    for (; steps && is_whole(at, end); steps--)
        wire_step_next(&at, regs, NULL);
    return (uint64_t)(at - from);
}

bool trace_steps(const struct wire_windows *w, uint32_t window, struct arena *a, struct trace_window *out)
{
    struct wire_window from = w->windows[window];
    uint64_t used = w->used;
    if (from.first >= used || used > w->capacity || from.steps > STEPS_MAX)
        return false;
    uint64_t count = min_u64(used - from.first, words_of(w->data + from.first, w->data + used, from.steps));
    uint64_t *words = ARENA_ARRAY(a, uint64_t, count + 1);
    uint32_t *insn_of = ARENA_ARRAY(a, uint32_t, from.steps + 1);
    memcpy(words, w->data + from.first, count * sizeof *words);
    struct making m = {.arena = a};
    uint64_t steps = read_words(&m, words, words + count, from.steps, insn_of);
    *out = (struct trace_window){.steps = keep(&m, words, insn_of),
                                 .bytes = count * sizeof *words,
                                 .fs = from.fs,
                                 .gs = from.gs,
                                 .instructions = steps,
                                 .references = m.references,
                                 .has_registers = true};
    return steps > 0;
}

/* Mappings are whole pages: what is asked for one address of a page tells all that come next in it. */
void trace_place_steps(const struct trace_window *w, trace_place_of place, void *ctx)
{
    uint64_t page = UINT64_MAX, of_page = 0; /* of_page: place less address */
    for (uint32_t k = 0; k < w->steps->insn_count; k++) {
        struct trace_insn *i = &w->steps->insns[k];
        if (i->x.addr / WIRE_PAGE_BYTES == page) {
            i->place = i->x.addr + of_page;
            continue;
        }
        i->place = place(ctx, i->x.addr);
        page = i->place == OBSERVED_PLACE_UNKNOWN ? UINT64_MAX : i->x.addr / WIRE_PAGE_BYTES;
        of_page = i->place - i->x.addr;
    }
}

/* ---- reading ---- */

void steps_begin(struct trace_stream *s, uint64_t first)
{
    s->word = s->window->steps->words;
    s->known = ALL_REGISTERS;
    s->next = s->passed = (uint32_t)min_u64(first, s->end);
}

/* Iterations of the instruction `next`, as far as they go together. */
static uint32_t iterations_of(const struct trace_stream *s, const struct trace_insn *i)
{
    const uint32_t *insn_of = s->window->steps->insn_of + s->next;
    uint32_t n = 1;
    while (i->repeats && !s->each_iteration && s->next + n < s->end && insn_of[n] == insn_of[0])
        n++;
    return n;
}

bool steps_next(struct trace_stream *s, struct trace_step *out)
{
    const struct trace_steps *from = s->window->steps;
    if (s->next >= s->end)
        return false;
    for (; s->passed; s->passed--)
        wire_step_next(&s->word, s->regs, NULL);
    wire_step_next(&s->word, s->regs, NULL);
    const struct trace_insn *i = &from->insns[from->insn_of[s->next]];
    uint32_t iterations = iterations_of(s, i);
    uint64_t behind = s->next + iterations;
    bool is_last = behind >= s->window->instructions;
    const struct trace_insn *to = is_last ? NULL : &from->insns[from->insn_of[behind]];
    *out = (struct trace_step){.insn = i,
                               .number = s->next,
                               .regs = s->regs,
                               .known = ALL_REGISTERS,
                               .repeats = i->repeats && s->regs[X86_RCX] ? iterations : 0,
                               .next_address = is_last ? 0 : to->x.addr,
                               .next_place = is_last ? OBSERVED_PLACE_UNKNOWN : to->place,
                               .is_last = is_last};
    s->passed = iterations - 1;
    s->next = behind;
    return true;
}
