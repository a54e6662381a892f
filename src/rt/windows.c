/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of the instruction stream (wire.h), in the program itself: a timer of the first thread's processor time forks
 * off a snapshot now and then, and knows nothing of what becomes of it (keeper.c), but waits for its end: a program that ran
 * beside it, on the other hardware thread of the same core perhaps, would change the times of replays. The child gives
 * no signal when it ends, and only this waits for it. A program that forbids forks, or runs out of processes, has no windows.
 */
#include "rt/windows.h"

enum {
    TICK = 64, /* the last real-time signal: nobody's */
    CLOCK_THREAD_CPU = 3,
    NOTIFY_THREAD = 4,
    SS_ONSTACK_ = 1,
    WAIT_ALL = 0x40000000
};

static int32_t own_tid(void) { return (int32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0); }

static uint64_t random_below(uint64_t n)
{
    uint64_t x = WINDOWS->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    WINDOWS->random = x;
    return n ? x % n : 0;
}

/* Anything between nothing and twice the mean. */
static int arm(void)
{
    uint64_t wait = 1 + random_below(2 * WINDOWS->file->interval_ns);
    uint64_t value[4] = {0, 0, wait / 1000000000u, wait % 1000000000u};
    return !failed(sys(SYS_timer_settime, WINDOWS->timer, 0, (uint64_t)value, 0, 0, 0));
}

/* The child changes its alternate stack, which the kernel refuses on that stack. */
static int is_on_alternate_stack(void)
{
    uint64_t stack[3] = {0, 0, 0};
    return failed(sys(SYS_sigaltstack, 0, (uint64_t)stack, 0, 0, 0, 0)) || (stack[1] & SS_ONSTACK_);
}

static void on_tick(int sig, const void *info, void *context)
{
    const uint64_t *g = (const uint64_t *)((const char *)context + CONTEXT_GREGS);
    struct windows_state *s = WINDOWS;
    struct wire_windows *f = s->file;
    (void)sig;
    (void)info;
    if (s->given_up || own_tid() != s->tid)
        return;
    if (f->window_count >= f->window_most) {
        s->given_up = 1;
        return;
    }
    arm();
    if ((g[G_FLAGS] & TRAP_FLAG) || is_on_alternate_stack())
        return;
    int64_t pid = sys(SYS_clone, 0, 0, 0, 0, 0, 0);
    if (pid == 0)
        rt_keep(context);
    else if (!failed(pid))
        sys(SYS_wait4, (uint64_t)pid, 0, WAIT_ALL, 0, 0, 0);
}

/* ---- start ---- */

static struct wire_windows *map_file(const char *path, uint64_t *bytes)
{
    enum { HEAD = (sizeof(struct wire_windows) + PAGE - 1) / PAGE * PAGE };
    int fd = rt_open(path);
    if (fd < 0)
        return 0;
    int64_t m = sys(SYS_mmap, 0, HEAD, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
    struct wire_windows *w = 0;
    if (!failed(m) && ((struct wire_windows *)m)->magic == WIRE_WINDOWS_MAGIC) {
        *bytes = sizeof *w + ((struct wire_windows *)m)->capacity * 8;
        int64_t all = sys(SYS_mmap, 0, *bytes, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
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
    uint64_t bytes = 0;
    if (!rt_take_env(envp, WIRE_WINDOWS_ENV "=", path))
        return;
    struct wire_windows *w = map_file(path, &bytes);
    int64_t at = sys(SYS_mmap, WINDOWS_VADDR, 6 * PAGE, PROT_RW, MAP_PRIVATE | MAP_ANON | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
    if (!w || at != (int64_t)WINDOWS_VADDR)
        return;
    struct windows_state *s = WINDOWS;
    s->file = w;
    s->file_bytes = bytes;
    s->random = w->seed;
    s->tid = own_tid();
    uint64_t handler = (uint64_t)on_tick, restorer = (uint64_t)rt_sigreturn;
    __asm__("" : "+r"(handler), "+r"(restorer)); /* see sampler.c */
    struct kernel_action action = {handler, SA_SIGINFO_ | SA_RESTORER_ | SA_ONSTACK_ | SA_RESTART_, restorer, UINT64_MAX};
    struct {
        uint64_t value;
        int32_t signal, notify, tid, pad[11];
    } event = {0, TICK, NOTIFY_THREAD, s->tid, {0}};
    if (sys(SYS_rt_sigaction, TICK, (uint64_t)&action, 0, 8, 0, 0) == 0 &&
        sys(SYS_timer_create, CLOCK_THREAD_CPU, (uint64_t)&event, (uint64_t)&s->timer, 0, 0, 0) == 0 && arm())
        w->started = 1;
}
