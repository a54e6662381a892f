/* SPDX-License-Identifier: Apache-2.0
 *
 * Bursts (wire/bursts.h), in the snapshot: looks that code is still what was translated, enters the translation where
 * the program stood by returning from the signal, and serves the traps of translated code: asks the host for more of
 * it, or ends the window. Decides nothing about translation itself.
 */
#include "wire/bursts.h"
#include "rt/windows.h"

#include <linux/futex.h>

enum {
    BURST_SECONDS_MAX = 10,
    WAIT_S = 5, /* for the host */
    READ_EXECUTE = PROT_READ | PROT_EXEC
};

static struct wire_bursts *bursts(void) { return WINDOWS->bursts; }

_Noreturn static void leave(void)
{
    for (;;)
        sys(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

/* ---- the host ---- */

static void pass_turn(enum wire_burst_request request)
{
    struct wire_bursts *b = bursts();
    b->request = request;
    __atomic_store_n(&b->turn, WIRE_BURST_HOST, __ATOMIC_RELEASE);
    sys(SYS_futex, (uint64_t)&b->turn, FUTEX_WAKE, 1, 0, 0, 0);
}

uint32_t rt_ask_host(uint32_t request)
{
    struct wire_bursts *b = bursts();
    uint64_t wait[2] = {WAIT_S, 0};
    pass_turn((enum wire_burst_request)request);
    while (__atomic_load_n(&b->turn, __ATOMIC_ACQUIRE) == WIRE_BURST_HOST && !b->abandoned)
        if (sys(SYS_futex, (uint64_t)&b->turn, FUTEX_WAIT, WIRE_BURST_HOST, (uint64_t)wait, 0, 0) == -ETIMEDOUT)
            leave();
    if (b->abandoned) /* the turn was handed back without an answer */
        leave();
    return b->answer;
}

static enum wire_burst_answer ask(enum wire_burst_request request)
{
    return (enum wire_burst_answer)rt_ask_host(request);
}

_Noreturn static void end(enum wire_burst_end how)
{
    bursts()->end = how;
    pass_turn(WIRE_BURST_ENDED);
    leave();
}

void rt_leave_burst(void) { end(WIRE_BURST_LOST); }

/* ---- code ---- */

static int is_readable(uint64_t page) { return sys(SYS_access, page, 0, 0, 0, 0, 0) != -EFAULT; }

static uint64_t *copy_of(uint32_t page)
{
    return (uint64_t *)(bursts()->base + bursts()->pages_at + (uint64_t)page * WIRE_PAGE_BYTES);
}

static void copy_page(uint64_t address, uint32_t page)
{
    struct wire_bursts *b = bursts();
    if (page >= b->page_max || !is_readable(address))
        end(WIRE_BURST_STOPPED);
    const uint64_t *from = (const uint64_t *)address;
    uint64_t *to = copy_of(page);
    for (uint32_t i = 0; i < WIRE_PAGE_BYTES / 8; i++)
        to[i] = from[i];
    WIRE_BURST_ADDRESSES(b)[page] = address;
}

static int is_unchanged(uint32_t page)
{
    uint64_t address = WIRE_BURST_ADDRESSES(bursts())[page];
    const uint64_t *now = (const uint64_t *)address, *then = copy_of(page);
    uint64_t differs = 0;
    if (!is_readable(address))
        return 0;
    for (uint32_t i = 0; i < WIRE_PAGE_BYTES / 8; i += 4)
        differs |=
            (now[i] ^ then[i]) | (now[i + 1] ^ then[i + 1]) | (now[i + 2] ^ then[i + 2]) | (now[i + 3] ^ then[i + 3]);
    return !differs;
}

/* Before anything is executed: where code is not what was translated, the host forgets all of it. */
static void check_code(void)
{
    for (uint32_t i = 0; i < bursts()->page_count && i < bursts()->page_max; i++)
        if (!is_unchanged(i)) {
            ask(WIRE_BURST_CHANGED);
            return;
        }
}

static uint64_t translation_of(uint64_t address, uint32_t is_indirect)
{
    struct wire_bursts *b = bursts();
    b->is_indirect = is_indirect;
    for (;;) {
        b->address = address;
        switch (ask(WIRE_BURST_TRANSLATE)) {
        case WIRE_BURST_GO:
            return b->translation;
        case WIRE_BURST_COPY:
            copy_page(b->address, b->page);
            break;
        case WIRE_BURST_STOP:
            end(WIRE_BURST_STOPPED);
        }
    }
}

/* ---- traps ---- */

static int is_translated(uint64_t pc)
{
    uint64_t code = bursts()->base + bursts()->code_at;
    return pc >= code && pc < code + bursts()->code_bytes;
}

static int is_behind_slot(uint64_t address)
{
    struct wire_bursts *b = bursts();
    uint64_t end_of_slot = b->base + b->slots_at + b->slot * b->slot_bytes + b->slot_used;
    return address >= end_of_slot && address < end_of_slot + WIRE_PAGE_BYTES;
}

static void on_trap(int sig, const void *info, void *context)
{
    uint64_t *g = (uint64_t *)((char *)context + CONTEXT_GREGS), target;
    if (sig == SIGSEGV && is_behind_slot(((const uint64_t *)info)[2]))
        end(WIRE_BURST_FULL);
    if (sig != SIGTRAP || !is_translated(g[G_RIP]))
        end(WIRE_BURST_FAULT);
    const uint8_t *trap = (const uint8_t *)g[G_RIP]; /* behind the int3 */
    switch (*trap) {
    case WIRE_TRAP_DIRECT:
        memcpy(&target, trap + 1, 8);
        g[G_RIP] = translation_of(target, 0);
        break;
    case WIRE_TRAP_INDIRECT:
        g[G_RIP] = translation_of(bursts()->state.target, 1);
        break;
    default:
        end(WIRE_BURST_CALL);
    }
}

/* ---- start ---- */

static int open_slot(void)
{
    struct wire_bursts *b = bursts();
    uint64_t slot = b->base + b->slots_at + b->slot * b->slot_bytes;
    if (failed(sys(SYS_mprotect, b->base + b->code_at, b->code_bytes, READ_EXECUTE, 0, 0, 0)) ||
        failed(sys(SYS_mprotect, slot + b->slot_used, WIRE_PAGE_BYTES, 0, 0, 0, 0)))
        return 0;
    sys(SYS_madvise, slot, b->slot_used, MADV_POPULATE_WRITE, 0, 0, 0);
    b->state.next = slot;
    return 1;
}

void rt_burst_on(void *context)
{
    uint64_t *g = (uint64_t *)((char *)context + CONTEXT_GREGS);
    struct wire_bursts *b = bursts();
    sys(SYS_arch_prctl, ARCH_GET_FS, (uint64_t)&b->fs, 0, 0, 0, 0);
    sys(SYS_arch_prctl, ARCH_GET_GS, (uint64_t)&b->gs, 0, 0, 0, 0);
    if (!rt_take_signals(context, on_trap))
        end(WIRE_BURST_LOST);
    sys(SYS_alarm, BURST_SECONDS_MAX, 0, 0, 0, 0, 0);
    if (ask(WIRE_BURST_BEGIN) != WIRE_BURST_GO || !open_slot())
        end(WIRE_BURST_LOST);
    check_code();
    g[G_RIP] = translation_of(g[G_RIP], 0);
}

void rt_burst(void *context)
{
    struct wire_bursts *b = bursts();
    b->pid = (int32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0);
    if (!rt_cut_off((uint64_t)b, b->bytes))
        end(WIRE_BURST_LOST);
    rt_burst_on(context);
}
