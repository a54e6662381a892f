/* SPDX-License-Identifier: Apache-2.0
 *
 * A burst against the same stretch taken step by step: the same instructions, and where both know a register or an
 * address, the same, up to the first instruction that reads a clock or dice. The proof that translation changes
 * nothing; a test, and mtool dump window --check, ask for it. */
#include "trace/trace.h"

static void differ(struct trace_difference *d, const struct trace_step *t, const char *what, uint64_t step,
                   uint64_t burst)
{
    if (d->what)
        return;
    d->what = what;
    d->at = d->instructions;
    d->address = t->insn->x.addr;
    d->by_step = step;
    d->by_burst = burst;
}

static void compare_registers(const struct trace_step *t, const struct trace_step *s, struct trace_difference *d)
{
    static const char *const registers[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                            "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    for (unsigned r = 0; r < 16; r++)
        if (t->known & 1u << r && t->regs[r] != s->regs[r])
            differ(d, t, registers[r], s->regs[r], t->regs[r]);
}

struct pair {
    const struct trace_window *burst, *steps;
};

static void compare_accesses(const struct pair *of, const struct trace_step *t, const struct trace_step *s,
                             struct trace_difference *d)
{
    struct trace_access by_burst[X86_ACCESSES_MAX], by_step[X86_ACCESSES_MAX];
    int n = trace_accesses(of->burst, t, by_burst), m = trace_accesses(of->steps, s, by_step);
    if (n != m)
        differ(d, t, "number of accesses", (uint64_t)m, (uint64_t)n);
    for (int a = 0; a < n && n == m; a++) {
        d->addresses++;
        if (!by_burst[a].is_known)
            d->unknown++;
        else if (by_burst[a].address != by_step[a].address)
            differ(d, t, "address", by_step[a].address, by_burst[a].address);
    }
}

void trace_compare(const struct trace_window *burst, const struct trace_window *steps, struct trace_difference *d)
{
    const struct pair of = {burst, steps};
    struct trace_stream by_burst, by_step;
    struct trace_step t, s;
    *d = (struct trace_difference){.what = NULL};
    trace_begin(&by_burst, burst);
    trace_begin(&by_step, steps);
    for (bool more = trace_next(&by_step, &s); more && trace_next(&by_burst, &t) && !d->what;
         more = trace_next(&by_step, &s)) {
        if (t.insn->x.addr != s.insn->x.addr)
            differ(d, &t, "instruction", s.insn->x.addr, t.insn->x.addr);
        compare_registers(&t, &s, d);
        compare_accesses(&of, &t, &s, d);
        d->instructions++;
        if (t.insn->x.op == X86_OP_CHANCE)
            return;
    }
    d->left = trace_left(&by_step);
}
