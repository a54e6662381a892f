/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot of a counted process goes back to the original's code (wire/bursts.h, by_host), so that windows are of the
 * program as it is: the original's text is mapped over the copy's, words that lead into copies lead into originals, and
 * so do the program counter and the return addresses on the stack. Where the program stands between two instructions
 * of its own the registers are the original's; inside of what was inserted the snapshot goes on step by step until it
 * does, counting into memory of its own. Which place of a copy is which of the original the host knows.
 *
 * Not found are return addresses beyond the part of the stack that is looked at, and what setjmp or a coroutine has put
 * aside: code of a copy that is reached all the same ends a window (checkpoint.c), or is translated as the original's
 * (bursts.c asks where it is).
 */
#include "rt/windows.h"
#include "wire/bursts.h"

#include <linux/futex.h>
#include <linux/sched.h>

enum {
    SECONDS_MAX = 10,
    STEPS_MAX = 64,
    STACK_SEEN = 1 << 20,
    PLACES_MAX = 8192,
    READ_EXECUTE = PROT_READ | PROT_EXEC
};

struct copy {
    uint64_t lo, hi; /* of its new text and tables */
    uint64_t base;   /* of the image's first byte */
    uint32_t module;
};
struct going_back { /* private memory of the snapshot */
    uint32_t count, steps, want;
    uint64_t lo, hi; /* of all */
    struct copy copies[WIRE_MODULES_MAX];
    uint64_t *words[PLACES_MAX];
};

static struct going_back *state(void) { return (struct going_back *)WINDOWS->going_back; }

/* ---- what is there ---- */

static void note_copy(struct going_back *s, const struct rt_module *m)
{
    struct copy *c = &s->copies[s->count++];
    *c = (struct copy){.lo = m->data - m->text_bytes, .hi = m->data, .module = m->wire};
    c->base = c->lo + (uint64_t)m->config->image_rel;
    s->lo = c->lo < s->lo || !s->lo ? c->lo : s->lo;
    s->hi = c->hi > s->hi ? c->hi : s->hi;
}

/* Counts are the program's own: from now on they go to private memory, those of the thread likewise. */
static int count_elsewhere(const struct rt_module *m, uint64_t delta)
{
    uint64_t at = m->data + PAGE;
    return !failed(sys(SYS_mmap, at, m->bytes, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                       (uint64_t)-1, 0)) &&
           (!delta || !failed(sys(SYS_mmap, at + delta, m->bytes, PROT_RW,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, (uint64_t)-1, 0)));
}

static int look_at_copies(struct going_back *s)
{
    if (!is_counting())
        return 0;
    uint64_t delta = rt_own_delta();
    for (uint32_t i = 0; i < PCB->module_count; i++) {
        const struct rt_module *m = &PCB->modules[i];
        if (!rt_is_alive(m) || m->offset == NOWHERE)
            continue;
        note_copy(s, m);
        if (!count_elsewhere(m, delta))
            return 0;
    }
    return 1;
}

static const struct copy *copy_at(const struct going_back *s, uint64_t address)
{
    if (address < s->lo || address >= s->hi)
        return 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (address >= s->copies[i].lo && address < s->copies[i].hi)
            return &s->copies[i];
    return 0;
}

/* ---- the original's text ---- */

static void put_word(uint64_t at, uint64_t copy, uint64_t was)
{
    uint64_t page = at & ~(uint64_t)(PAGE - 1);
    if (*(const uint64_t *)at != copy)
        return;
    if (!failed(sys(SYS_mprotect, page, at + 8 - page > PAGE ? 2 * PAGE : PAGE, PROT_RW, 0, 0, 0)))
        *(uint64_t *)at = was;
}

static int put_part(const struct wire_original *o, uint64_t base, int fd)
{
    if (o->is_word) {
        put_word(base + o->from, base + o->copy, base + o->was);
        return 1;
    }
    return !failed(sys(SYS_mmap, base + o->from, o->bytes, READ_EXECUTE, MAP_PRIVATE | MAP_FIXED, (uint64_t)fd, o->at));
}

static int put_parts(const struct going_back *s, const struct wire_originals *o, int fd)
{
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < o->count; k++)
            if (o->part[k].module == s->copies[i].module && !put_part(&o->part[k], s->copies[i].base, fd))
                return 0;
    return 1;
}

static int put_originals(const struct going_back *s)
{
    int fd = rt_open(WINDOWS->bursts->originals_path);
    int64_t head = fd < 0 ? -1 : sys(SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, (uint64_t)fd, 0), all = -1;
    if (!failed(head) && ((const struct wire_originals *)head)->magic == WIRE_ORIGINALS_MAGIC)
        all = sys(SYS_mmap, 0, ((const struct wire_originals *)head)->bytes, PROT_READ, MAP_PRIVATE, (uint64_t)fd, 0);
    int ok = !failed(all) && put_parts(s, (const struct wire_originals *)all, fd);
    if (fd >= 0)
        sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    return ok;
}

/* ---- places ---- */

static struct wire_place *places(void)
{
    const struct wire_bursts *b = WINDOWS->bursts;
    return (struct wire_place *)(b->base + b->slots_at + b->slot * b->slot_bytes);
}

static void ask_places(uint32_t count)
{
    WINDOWS->bursts->place_count = count;
    rt_ask_host(WIRE_BURST_PLACES);
}

/* The program counter; 0: the original has no such place. */
static int move_counter(struct going_back *s, uint64_t *g)
{
    const struct copy *c = copy_at(s, g[G_RIP]);
    if (!c)
        return 1;
    places()[0] = (struct wire_place){c->module, 0, g[G_RIP] - c->base};
    ask_places(1);
    if (places()[0].at == WIRE_NO_PLACE)
        return 0;
    g[G_RIP] = c->base + places()[0].at;
    return 1;
}

static uint32_t find_returns(struct going_back *s, uint64_t from)
{
    uint32_t n = 0;
    for (uint64_t at = (from + 7) & ~7ull; at < from + STACK_SEEN && n < PLACES_MAX; at += 8) {
        if ((at % PAGE == 0 || at < from + 8) && sys(SYS_access, at, 0, 0, 0, 0, 0) == -EFAULT)
            break;
        const struct copy *c = copy_at(s, *(const uint64_t *)at);
        if (!c)
            continue;
        s->words[n] = (uint64_t *)at;
        places()[n++] = (struct wire_place){c->module, 1, *(const uint64_t *)at - c->base};
    }
    return n;
}

static void move_returns(struct going_back *s, uint64_t from)
{
    uint32_t n = find_returns(s, from);
    if (n)
        ask_places(n);
    for (uint32_t i = 0; i < n; i++)
        if (places()[i].at != WIRE_NO_PLACE)
            *s->words[i] = copy_at(s, *s->words[i])->base + places()[i].at;
}

int rt_is_in_copy(uint64_t address) { return WINDOWS->going_back && copy_at(state(), address); }

/* ---- begin ---- */

_Noreturn static void fail(void) { rt_leave_burst(); }

/* Until the host puts this process's pid there. 0: it has lost interest. */
static int wait_for_grant(const int32_t *granted, const uint32_t *abandoned)
{
    uint64_t wait[2] = {0, 500000000}; /* it looks whether there is still a host */
    int32_t own = (int32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0), now;
    while ((now = __atomic_load_n(granted, __ATOMIC_ACQUIRE)) != own) {
        if (__atomic_load_n(abandoned, __ATOMIC_ACQUIRE) || sys(SYS_getppid, 0, 0, 0, 0, 0, 0) != WINDOWS->bursts->host)
            return 0;
        sys(SYS_futex, (uint64_t)granted, FUTEX_WAIT, (uint64_t)(uint32_t)now, (uint64_t)wait, 0, 0);
    }
    return 1;
}

/* The program goes first. Not before the checkpoint, which is timed. */
static void be_nice(void)
{
    enum { NONE = 20 }; /* what the kernel tells of no niceness */
    uint32_t nice = WINDOWS->bursts->nice;
    if (sys(SYS_getpriority, 0, 0, 0, 0, 0, 0) > NONE - (int64_t)nice)
        sys(SYS_setpriority, 0, 0, nice, 0, 0, 0);
}

/* The checkpoint is made first, so that the burst's end is what the host waits for. */
static void begin(void *context, uint64_t *g)
{
    g[G_FLAGS] &= ~(uint64_t)TRAP_FLAG;
    move_returns(state(), g[G_RSP]);
    int64_t checkpoint = state()->want == WIRE_WANT_BOTH ? sys(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0, 0) : -1;
    if (checkpoint) {
        if (!failed(checkpoint))
            rt_note_snapshot(checkpoint);
        WINDOWS->bursts->checkpoint = failed(checkpoint) ? 0 : (int32_t)checkpoint;
        be_nice();
        rt_burst_on(context);
        return;
    }
    rt_note_snapshot(sys(SYS_getpid, 0, 0, 0, 0, 0, 0));
    if (!wait_for_grant(&WINDOWS->file->granted, &WINDOWS->file->abandoned)) /* replays want a quiet machine */
        rt_leave();
    rt_become_checkpoint();
    rt_checkpoint_resume(context);
}

/* On, or under the trap flag to the next instruction: none that leaves the process, or tells of the flag. */
static void go_on(void *context)
{
    uint64_t *g = (uint64_t *)((char *)context + CONTEXT_GREGS);
    if (move_counter(state(), g)) {
        begin(context, g);
        return;
    }
    if (state()->steps++ == STEPS_MAX || !rt_may_step(g))
        fail();
    g[G_FLAGS] |= TRAP_FLAG;
}

static void on_step(int sig, const void *info, void *context)
{
    if (sig != SIGTRAP || ((const int32_t *)info)[2] != TRAP_TRACE)
        fail();
    go_on(context);
}

/* The program waits for this: two processes that have its files would be seen, by who waits for their end. */
static void close_files(void)
{
    struct wire_bursts *b = WINDOWS->bursts;
    rt_close_files();
    __atomic_store_n(&b->closed, 1, __ATOMIC_RELEASE);
    sys(SYS_futex, (uint64_t)&b->closed, FUTEX_WAKE, 1, 0, 0, 0);
}

void rt_note_snapshot(int64_t pid)
{
    struct wire_bursts *b = WINDOWS->bursts;
    uint32_t n = b->by_host ? __atomic_fetch_add(&b->pid_count, 1, __ATOMIC_RELAXED) : WIRE_BURST_PIDS;
    if (n < WIRE_BURST_PIDS)
        __atomic_store_n(&b->pids[n], (int32_t)pid, __ATOMIC_RELEASE);
}

/* What a burst takes from the core beside the program would be the program's time. Others are made meanwhile. */
static void sleep_until_granted(struct wire_bursts *b)
{
    struct {
        uint64_t at_ns;
        int32_t thread;
        uint32_t number;
    } own = {b->at_ns, b->thread, b->number};
    close_files();
    if (b->waits && !wait_for_grant(&b->granted, &b->abandoned))
        rt_leave();
    b->at_ns = own.at_ns;
    b->thread = own.thread;
    b->number = own.number;
}

void rt_restore_original(void *context, uint32_t want)
{
    struct windows_state *w = WINDOWS;
    rt_note_snapshot(sys(SYS_getpid, 0, 0, 0, 0, 0, 0));
    sleep_until_granted(w->bursts);
    w->bursts->pid = (int32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0);
    w->bursts->checkpoint = 0;
    int64_t at = sys(SYS_mmap, 0, sizeof(struct going_back), PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0);
    if (failed(at))
        rt_leave_burst();
    w->going_back = (uint64_t)at;
    state()->want = want;
    if (!look_at_copies(state()) || !put_originals(state()) || !rt_cut_off((uint64_t)w->bursts, w->bursts->bytes) ||
        !rt_take_signals(context, on_step))
        fail();
    sys(SYS_alarm, SECONDS_MAX, 0, 0, 0, 0, 0);
    go_on(context);
}
