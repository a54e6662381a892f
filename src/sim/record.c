/* SPDX-License-Identifier: Apache-2.0
 *
 * Single steps without ptrace: a SIGTRAP handler that turns the trap flag on for the interrupted code, and then is
 * called after each of its instructions, until told to turn it off. */
#include "sim/record.h"

#include <signal.h>
#include <ucontext.h>

enum { TRAP_FLAG = 0x100 };

static struct record *current;
static volatile sig_atomic_t done;
static unsigned came_to_last;

static const int greg_of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

static void on_trap(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (done) {
        g[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        return;
    }
    g[REG_EFL] |= TRAP_FLAG;
    if (current->count == current->cap) {
        current->overflow = true;
        return;
    }
    struct record_step *s = &current->steps[current->count++];
    s->rip = (uint64_t)g[REG_RIP];
    for (int r = 0; r < 16; r++)
        s->regs[r] = (uint64_t)g[greg_of[r]];
    if (current->last_at && s->rip == current->last_at && ++came_to_last == current->last_count) {
        g[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        done = 1;
    }
}

int record_run(void (*f)(uint64_t, void *), uint64_t iterations, void *data, struct record *out)
{
    struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO}, old;
    out->count = 0;
    out->overflow = false;
    current = out;
    done = 0;
    came_to_last = 0;
    if (sigaction(SIGTRAP, &sa, &old) < 0)
        return -1;
    raise(SIGTRAP);
    f(iterations, data);
    done = 1;
    raise(SIGTRAP); /* if no step has ended the stepping yet */
    sigaction(SIGTRAP, &old, NULL);
    return out->count > 8 ? 0 : -1;
}
