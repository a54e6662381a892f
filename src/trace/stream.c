/* SPDX-License-Identifier: Apache-2.0
 *
 * The iterator over a window, whatever recorded it: hands over to the reader of the one encoding or the other. */
#include "trace/impl.h"

void trace_begin_part(struct trace_stream *s, const struct trace_window *w, uint64_t first, uint64_t last)
{
    *s = (struct trace_stream){.window = w, .end = min_u64(last, w->instructions)};
    if (w->steps) {
        steps_begin(s, first);
        return;
    }
    s->at = w->records;
    if (!records_skip(s, first))
        s->end = s->next;
}

void trace_begin(struct trace_stream *s, const struct trace_window *w) { trace_begin_part(s, w, 0, w->instructions); }

bool trace_next(struct trace_stream *s, struct trace_step *out)
{
    return s->window->steps ? steps_next(s, out) : records_next(s, out);
}

uint64_t trace_left(const struct trace_stream *s) { return s->end - s->next; }

/* ---- accesses ---- */

static bool is_known(uint32_t known, unsigned reg) { return reg > 15 || known & 1u << reg; }

int trace_accesses(const struct trace_window *w, const struct trace_step *s, struct trace_access out[X86_ACCESSES_MAX])
{
    for (int k = 0; k < s->insn->accesses; k++) {
        const struct x86_access *a = &s->insn->access[k];
        out[k] = (struct trace_access){.address = x86_access_address(a, s->regs, w->fs, w->gs),
                                       .bytes = a->bytes,
                                       .is_load = a->is_load,
                                       .is_store = a->is_store,
                                       .is_known = is_known(s->known, a->base) && is_known(s->known, a->index)};
    }
    return s->insn->accesses;
}

/* ---- branches ---- */

bool trace_is_branch(const struct trace_insn *i) { return i->x.kind != X86_PLAIN && i->x.kind != X86_JMP; }

static bool steps_next_branch(struct trace_stream *s, struct trace_branch *out)
{
    struct trace_step step;
    while (steps_next(s, &step) && !step.is_last) {
        if (!trace_is_branch(step.insn))
            continue;
        *out = (struct trace_branch){.kind = step.insn->x.kind,
                                     .number = step.number,
                                     .address = step.insn->x.addr,
                                     .fallthrough = step.insn->x.addr + step.insn->x.len,
                                     .target = step.next_address};
        return true;
    }
    return false;
}

bool trace_next_branch(struct trace_stream *s, struct trace_branch *out)
{
    return s->window->steps ? steps_next_branch(s, out) : records_next_branch(s, out);
}
