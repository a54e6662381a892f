/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults that end a block in its middle. A program that sets a handler for one is given a thunk as handler by the
 * kernel, which notes where the fault found the program (wire.h, struct wire_side_exit) and goes on to the handler. If
 * that returns, it is noted that the program goes on where it then says. What is left over in the end are blocks that
 * were left: by siglongjmp, an exception, the end of the program. Nothing here runs in programs that set no such
 * handler.
 *
 * The program sees its own handler when it asks for it. A thunk has no room for more than one handler, and so is right
 * whichever signals, threads and children use it.
 */
#include "rt/rt.h"

enum { ACTION_HANDLER, ACTION_FLAGS, ACTION_RESTORER, ACTION_MASK, ACTION_WORDS };
enum { CONTEXT_REGS = 5, CONTEXT_RIP = 21, CONTEXT_FP = 28 }; /* words of struct ucontext */
enum { FP_XMM8 = 36 }; /* word of what CONTEXT_FP points to, as fxsave lays it out */

/* ---- places ---- */

static const struct rt_module *module_at(uint64_t pc)
{
    for (uint32_t i = 0; i < PCB->module_count; i++) {
        const struct rt_module *m = &PCB->modules[i];
        if (m->bytes && m->offset != NOWHERE && pc < m->data && m->data - pc <= m->text_bytes)
            return m;
    }
    return 0;
}

/* The place of that key; 0: none is free. */
static struct wire_side_exit *place_of(uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u >> 32;
    for (uint64_t n = 0; n < WIRE_SIDE_EXITS_MAX; n++) {
        struct wire_side_exit *l = &PCB->header->side_exits[(hash + n) % WIRE_SIDE_EXITS_MAX];
        uint64_t was = 0;
        if (__atomic_compare_exchange_n(&l->key, &was, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || was == key)
            return l;
    }
    return 0;
}

/* False if there is no room. Code that is not counted needs none. */
static int note(const uint64_t *context, int64_t by)
{
    enum { R8, R9, R10, R11, R12, R13, R14, R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP };
    static const uint8_t order[16] = {RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15};
    uint64_t pc = context[CONTEXT_RIP];
    const struct rt_module *m = module_at(pc);
    if (!m)
        return 1;
    struct wire_side_exit *l = place_of((uint64_t)(m->wire + 1) << 32 | (m->data - pc));
    if (!l)
        return 0;
    __atomic_fetch_add(&l->count, by, __ATOMIC_RELAXED);
    for (int r = 0; r < 16; r++)
        __atomic_fetch_add(&l->regs[r], (uint64_t)by * context[CONTEXT_REGS + order[r]], __ATOMIC_RELAXED);
    const uint64_t *fp = (const uint64_t *)context[CONTEXT_FP];
    for (int k = 0; fp && k < 16; k++)
        __atomic_fetch_add(&l->vectors[k], (uint64_t)by * fp[FP_XMM8 + k], __ATOMIC_RELAXED);
    return 1;
}

/* ---- handlers ---- */

static int is_of_fault(uint64_t sig) { return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL; }

static uint64_t thunk_address(uint32_t k) { return (uint64_t)rt_thunks + (uint64_t)k * THUNK_BYTES; }

/* The program's handler where the kernel has a thunk, of any module's. */
static uint64_t plain_handler(uint64_t handler)
{
    for (uint32_t k = 0; k < CAUGHT_MAX; k++)
        if (PCB->caught[k].handler && PCB->caught[k].thunk == handler)
            return PCB->caught[k].handler;
    return handler;
}

/* This module's thunk for a handler; 0: none is left. */
static uint64_t thunk_of(uint64_t handler)
{
    for (uint32_t k = 0; k < CAUGHT_MAX; k++) {
        struct rt_caught *c = &PCB->caught[k];
        uint64_t was = 0;
        if (__atomic_compare_exchange_n(&c->handler, &was, handler, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            __atomic_store_n(&c->thunk, thunk_address(k), __ATOMIC_RELAXED);
        else if (was != handler || __atomic_load_n(&c->thunk, __ATOMIC_RELAXED) != thunk_address(k))
            continue;
        return thunk_address(k);
    }
    return 0;
}

/* Can so much be read as an action has? An action for no signal: a call that the program may make (a sandbox could kill
 * for another), and that is refused after it was read. */
int rt_is_readable(uint64_t at) { return sys(SYS_rt_sigaction, 0, at, 0, 8, 0, 0) != -EFAULT; }

/* Does the handler return to this module's own code, and does that nothing but end it? Then the thunk is there for as
 * long as that is, and may end it in its stead. */
static int ends_here(uint64_t restorer)
{
    static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
    uint64_t image = (uint64_t)rt_blob + (uint64_t)rt_config.image_rel;
    if (restorer < image || restorer >= (uint64_t)rt_blob || !rt_is_readable(restorer))
        return 0;
    for (size_t i = 0; i < sizeof sigreturn; i++)
        if (((const uint8_t *)restorer)[i] != sigreturn[i])
            return 0;
    return 1;
}

/* The action that the kernel has just taken, once more with a thunk; if it has not become another meanwhile. */
static void catch_faults(uint64_t sig, const uint64_t *act)
{
    uint64_t handler = act[ACTION_HANDLER];
    if (handler <= 1 || plain_handler(handler) != handler || !ends_here(act[ACTION_RESTORER]))
        return; /* SIG_DFL, SIG_IGN; caught already */
    uint64_t ours[ACTION_WORDS] = {thunk_of(handler), act[ACTION_FLAGS], act[ACTION_RESTORER], act[ACTION_MASK]};
    uint64_t was[ACTION_WORDS];
    if (!ours[ACTION_HANDLER] || sys(SYS_rt_sigaction, sig, (uint64_t)ours, (uint64_t)was, 8, 0, 0))
        return;
    if (was[ACTION_HANDLER] != handler)
        sys(SYS_rt_sigaction, sig, (uint64_t)was, 0, 8, 0, 0);
}

/* To the program the signal is what it was. Asking for that, and setting it, change nothing; with a handler of its own
 * there are no more ticks. */
static int64_t action_of_ticks(const uint64_t *act, uint64_t *old, uint64_t bytes)
{
    int is_own = act && rt_is_readable((uint64_t)act) && act[ACTION_HANDLER];
    if (is_own)
        rt_give_up_windows();
    int64_t rc = sys(SYS_rt_sigaction, WIRE_TICK, is_own ? (uint64_t)act : 0, (uint64_t)old, bytes, 0, 0);
    for (int i = 0; !rc && old && i < ACTION_WORDS; i++)
        old[i] = 0;
    return rc;
}

/* The kernel is asked first, as the program asked it: so what is read or written here can be. */
int64_t rt_sigaction(uint64_t sig, const uint64_t *act, uint64_t *old, uint64_t bytes)
{
    if (sig == WIRE_TICK && is_counting() && PCB->windows_pid)
        return action_of_ticks(act, old, bytes);
    int64_t rc = sys(SYS_rt_sigaction, sig, (uint64_t)act, (uint64_t)old, bytes, 0, 0);
    if (rc || !is_of_fault(sig) || !is_counting() || !(rt_config.flags & CONFIG_FAULTS))
        return rc;
    if (old)
        old[ACTION_HANDLER] = plain_handler(old[ACTION_HANDLER]);
    if (act && (!old || act + ACTION_WORDS <= old || old + ACTION_WORDS <= act))
        catch_faults(sig, act);
    return 0;
}

/* The kernel's frame: the address to return to, and the context. Returns the program's handler. */
uint64_t rt_fault_came(uint64_t thunk, uint64_t *frame)
{
    if (note(frame + 1, 1))
        frame[0] = (uint64_t)rt_fault_return;
    return PCB->caught[thunk].handler;
}

void rt_fault_returned(const uint64_t *context) { note(context, -1); }
