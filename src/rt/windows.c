/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of the instruction stream (wire.h): a timer of the first thread's processor time turns on the trap flag, and
 * the handler of each trap notes the instruction that comes next, with its registers, until the window is full. The
 * program runs its own code in its own place, libraries too; only its time changes.
 *
 * A window ends before whatever could carry the trap flag away, or show it: system calls but the plainest, popf, iret. What
 * pushf pushed is mended. The trap's signal belongs to the program again as soon as a window has ended; a program that
 * has a handler for it is left alone. A child that was made inside of a signal handler finds the flag set and drops it.
 */
#include "rt/rt.h"

enum {
    TRAP = 5,
    TICK = 64, /* the last real-time signal: nobody's */
    SA_FLAGS = 0x4 /* SIGINFO */ | 0x04000000 /* RESTORER */ | 0x08000000 /* ONSTACK */ | 0x10000000 /* RESTART */,
    CLOCK_THREAD_CPU = 3,
    NOTIFY_THREAD = 4,
    TRAP_TRACE_ = 2,
    CONTEXT_GREGS = 40,
    CONTEXT_MASK = 296, /* signals blocked */
    TRAP_FLAG = 0x100,
    ROOM_ON_STACK = 32 << 10
};
enum { G_RSP = 15, G_RAX = 13, G_RIP = 16, G_FLAGS = 17 }; /* in gregs */
#define STATE_VADDR (WIRE_PCB_VADDR - 3 * PAGE)

struct kernel_action {
    uint64_t handler, flags, restorer, mask;
};

struct state {
    struct wire_windows *file;
    struct kernel_action before; /* of the program, for SIGTRAP */
    uint64_t regs[16];           /* of the instruction noted last */
    uint64_t word;               /* next free one */
    uint64_t random;
    int32_t tid;
    uint32_t timer, is_open, pushed_flags, given_up;
};
#define STATE ((struct state *)STATE_VADDR)

static int32_t own_tid(void) { return (int32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0); }

static uint64_t random_below(uint64_t n)
{
    uint64_t x = STATE->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    STATE->random = x;
    return n ? x % n : 0;
}

/* Anything between nothing and twice the mean. */
static int arm(void)
{
    uint64_t wait = 1 + random_below(2 * STATE->file->interval_ns);
    uint64_t value[4] = {0, 0, wait / 1000000000u, wait % 1000000000u};
    return !failed(sys(SYS_timer_settime, STATE->timer, 0, (uint64_t)value, 0, 0, 0));
}

/* ---- instructions that end a window ---- */

/* Passed over: they change neither signals nor processes nor the flags. */
static int is_plain_call(uint64_t nr)
{
    switch (nr) {
    case 0: case 1: case 3: case 5: case 8: case 9: case 11: case 12: case 16: case 17: case 18: case 19: case 20:
    case 25: case 28: case 39: case 72: case 96: case 186: case 202: case 228: case 257: case 262:
        return 1; /* read write close fstat lseek mmap munmap brk ioctl pread pwrite readv writev mremap madvise getpid fcntl
                     gettimeofday gettid futex clock_gettime openat newfstatat */
    }
    return 0;
}

static const uint8_t *behind_prefixes(const uint8_t *p)
{
    while (*p == 0x66 || (*p & 0xf0) == 0x40)
        p++;
    return p;
}

static int is_guarded(const uint64_t *g)
{
    const uint8_t *p = behind_prefixes((const uint8_t *)g[G_RIP]);
    if (p[0] == 0x0f)
        return (p[1] == 0x05 && !is_plain_call(g[G_RAX])) || p[1] == 0x34;
    return p[0] == 0x9d || p[0] == 0xcf || p[0] == 0xcd || p[0] == 0xcc || p[0] == 0xf1;
}

static int pushes_flags(const uint64_t *g) { return *behind_prefixes((const uint8_t *)g[G_RIP]) == 0x9c; }

/* ---- a window ---- */

static void note(const uint64_t *g)
{
    static const uint8_t order[16] = {13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7}; /* in gregs: rax, rcx, ... */
    struct state *s = STATE;
    struct wire_window *w = &s->file->windows[s->file->window_count];
    uint64_t at = s->word++, mask = 0;
    for (unsigned r = 0; r < 16; r++) {
        uint64_t v = g[order[r]];
        if (w->steps && v == s->regs[r])
            continue;
        s->regs[r] = v;
        mask |= 1ull << (48 + r);
        s->file->data[s->word++] = v;
    }
    s->file->data[at] = (g[G_RIP] & 0xffffffffffffu) | mask;
    w->steps++;
}

static void close_window(void)
{
    struct state *s = STATE;
    s->is_open = 0;
    s->file->used = s->word;
    s->file->window_count++;
    sys(SYS_rt_sigaction, TRAP, (uint64_t)&s->before, 0, 8, 0, 0);
    arm();
}

/* A trap that is not the flag's is the program's own, and ends it as it would have. */
static void give_back(void)
{
    struct kernel_action none = {0, 0, 0, 0};
    if (STATE->is_open)
        close_window();
    sys(SYS_rt_sigaction, TRAP, (uint64_t)&none, 0, 8, 0, 0);
    sys(SYS_tkill, (uint64_t)own_tid(), TRAP, 0, 0, 0, 0);
}

static void on_step(int sig, const void *info, void *context)
{
    uint64_t *g = (uint64_t *)((char *)context + CONTEXT_GREGS);
    struct state *s = STATE;
    (void)sig;
    if (((const int32_t *)info)[2] != TRAP_TRACE_) {
        give_back();
        return;
    }
    if (s->pushed_flags)
        *(uint64_t *)g[G_RSP] &= ~(uint64_t)TRAP_FLAG;
    s->pushed_flags = 0;
    if (!s->is_open || own_tid() != s->tid) {
        g[G_FLAGS] &= ~(uint64_t)TRAP_FLAG;
        return;
    }
    uint64_t steps = s->file->windows[s->file->window_count].steps;
    int guarded = is_guarded(g), full = steps >= s->file->steps_most || s->word + WIRE_STEP_WORDS_MOST > s->file->capacity;
    if (!guarded && !full) {
        note(g);
        s->pushed_flags = (uint32_t)pushes_flags(g);
        return;
    }
    g[G_FLAGS] &= ~(uint64_t)TRAP_FLAG;
    close_window();
}

static int take_trap(void)
{
    struct state *s = STATE;
    uint64_t handler = (uint64_t)on_step, restorer = (uint64_t)rt_sigreturn;
    __asm__("" : "+r"(handler), "+r"(restorer)); /* see sampler.c */
    struct kernel_action action = {handler, SA_FLAGS, restorer, UINT64_MAX}; /* as in sampler.c */
    if (failed(sys(SYS_rt_sigaction, TRAP, (uint64_t)&action, (uint64_t)&s->before, 8, 0, 0)))
        return 0;
    if (s->before.handler <= 1) /* default, ignored */
        return 1;
    sys(SYS_rt_sigaction, TRAP, (uint64_t)&s->before, 0, 8, 0, 0);
    return 0;
}

/* Asks the kernel, which says rather than faults. */
static int has_room(uint64_t rsp) { return sys(SYS_access, rsp - ROOM_ON_STACK, 0, 0, 0, 0, 0) != -EFAULT_; }

static void on_tick(int sig, const void *info, void *context)
{
    uint64_t *g = (uint64_t *)((char *)context + CONTEXT_GREGS);
    uint64_t blocked = *(const uint64_t *)((const char *)context + CONTEXT_MASK);
    struct state *s = STATE;
    struct wire_windows *f = s->file;
    (void)sig;
    (void)info;
    if (s->given_up || own_tid() != s->tid)
        return;
    if (s->is_open && (g[G_FLAGS] & TRAP_FLAG)) {
        arm();
        return;
    }
    if (s->is_open) /* a jump out of a signal handler has lost the flag */
        close_window();
    if (f->window_count >= f->window_most || s->word + WIRE_STEP_WORDS_MOST > f->capacity) {
        s->given_up = 1;
        return;
    }
    if ((blocked >> (TRAP - 1) & 1) || (g[G_FLAGS] & TRAP_FLAG) || is_guarded(g) || !has_room(g[G_RSP]) || !take_trap()) {
        arm();
        return;
    }
    f->windows[f->window_count] = (struct wire_window){s->word, 0};
    arm();
    s->is_open = 1;
    s->pushed_flags = (uint32_t)pushes_flags(g);
    note(g);
    g[G_FLAGS] |= TRAP_FLAG;
}

/* ---- start ---- */

static struct wire_windows *map_file(const char *path)
{
    enum { HEAD = (sizeof(struct wire_windows) + PAGE - 1) / PAGE * PAGE };
    int fd = rt_open(path);
    if (fd < 0)
        return 0;
    int64_t m = sys(SYS_mmap, 0, HEAD, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
    struct wire_windows *w = 0;
    if (!failed(m) && ((struct wire_windows *)m)->magic == WIRE_WINDOWS_MAGIC) {
        uint64_t bytes = sizeof *w + ((struct wire_windows *)m)->capacity * 8;
        int64_t all = sys(SYS_mmap, 0, bytes, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
        w = failed(all) ? 0 : (struct wire_windows *)all;
    }
    if (!failed(m))
        sys(SYS_munmap, (uint64_t)m, HEAD, 0, 0, 0, 0);
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    return w;
}

void rt_start_windows(char **envp)
{
    char path[PATH_BYTES];
    if (!rt_take_env(envp, WIRE_WINDOWS_ENV "=", path))
        return;
    struct wire_windows *w = map_file(path);
    int64_t at = sys(SYS_mmap, STATE_VADDR, PAGE, PROT_RW, MAP_PRIVATE | MAP_ANON | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
    if (!w || at != (int64_t)STATE_VADDR)
        return;
    struct state *s = STATE;
    s->file = w;
    s->random = w->seed;
    s->tid = own_tid();
    uint64_t handler = (uint64_t)on_tick, restorer = (uint64_t)rt_sigreturn;
    __asm__("" : "+r"(handler), "+r"(restorer));
    struct kernel_action action = {handler, SA_FLAGS, restorer, UINT64_MAX};
    struct {
        uint64_t value;
        int32_t signal, notify, tid, pad[11];
    } event = {0, TICK, NOTIFY_THREAD, s->tid, {0}};
    if (sys(SYS_rt_sigaction, TICK, (uint64_t)&action, 0, 8, 0, 0) == 0 &&
        sys(SYS_timer_create, CLOCK_THREAD_CPU, (uint64_t)&event, (uint64_t)&s->timer, 0, 0, 0) == 0 && arm())
        w->started = 1;
}
