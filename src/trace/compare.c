/* SPDX-License-Identifier: Apache-2.0
 *
 * A burst against the same stretch taken step by step: the same instructions, and where both know a register or an
 * address, the same, up to the first instruction that reads a clock or dice. The proof that translation changes
 * nothing; a test, and mtool dump window --check, ask for it. */
#include "trace/trace.h"

#include "wire/wire.h"

struct steps { /* of a window taken step by step */
    const uint64_t *at;
    uint64_t left, address, regs[16]; /* of the current one */
    uint64_t fs, gs;
};

static bool next_step(struct steps *s)
{
    if (!s->left)
        return false;
    s->left--;
    s->address = wire_step_next(&s->at, s->regs, NULL);
    return true;
}

static void differ(struct trace_difference *d, const struct trace_step *t, const char *what, uint64_t step,
                   uint64_t burst)
{
    if (d->what)
        return;
    d->what = what;
    d->at = d->instructions;
    d->address = t->insn->address;
    d->by_step = step;
    d->by_burst = burst;
}

static void compare_step(const struct trace_step *t, const struct steps *s, struct trace_difference *d)
{
    static const char *const registers[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                            "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    if (t->insn->address != s->address)
        differ(d, t, "instruction", s->address, t->insn->address);
    for (unsigned r = 0; r < 16; r++)
        if (t->known & 1u << r && t->regs[r] != s->regs[r])
            differ(d, t, registers[r], s->regs[r], t->regs[r]);
    for (int a = 0; a < t->insn->accesses; a++) {
        uint64_t burst, step = x86_access_address(&t->insn->access[a], s->regs, s->fs, s->gs);
        if (!trace_address(t, &t->insn->access[a], s->fs, s->gs, &burst))
            d->unknown++;
        else if (burst != step)
            differ(d, t, "address", step, burst);
        d->addresses++;
    }
}

/* What it gives is another time another value. */
static bool is_by_chance(const struct trace_insn *i)
{
    static const char *const names[] = {"rdtsc", "rdtscp", "rdrand", "rdseed", "rdpid", "cpuid", "rdpmc"};
    struct x86_insn x;
    return x86_decode(i->bytes, i->len, i->address, &x) && x86_is_one_of(&x, names, ARRAY_LEN(names));
}

/* Turns of a repeated string instruction are steps of their own. */
static bool pass_repeats(struct steps *s, const struct trace_insn *i)
{
    bool more = next_step(s);
    while (more && i->repeats && s->address == i->address)
        more = next_step(s);
    return more;
}

void trace_compare(struct trace *t, const void *records, size_t bytes, const struct wire_windows *w, uint32_t window,
                   struct trace_difference *d)
{
    const struct wire_window *from = &w->windows[window];
    struct steps s = {.at = w->data + from->first, .left = from->steps, .fs = from->fs, .gs = from->gs};
    struct trace_reader r;
    struct trace_step step;
    *d = (struct trace_difference){.what = NULL};
    trace_read(&r, t, records, bytes);
    for (bool more = next_step(&s); more && trace_next(&r, &step) && !d->what; more = pass_repeats(&s, step.insn)) {
        compare_step(&step, &s, d);
        d->instructions++;
        if (is_by_chance(step.insn))
            return;
    }
    d->left = s.left;
}
