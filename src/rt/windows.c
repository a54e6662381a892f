/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of the instruction stream (wire.h, wire/bursts.h), in the program itself: a timer of its processor time forks
 * off a snapshot now and then, and knows nothing of what becomes of it (checkpoint.c, bursts.c). A snapshot for a burst
 * is the host's own child (it has the program's parent). A window that is taken step by step is begun when no burst is
 * at work, and the thread waits for its end: what ran beside it, on the other hardware thread of the same core perhaps,
 * would change the times of replays. That child gives no signal when it ends, and only this waits for it. A program
 * that forbids forks, or runs out of processes, has no windows.
 */
#include "rt/windows.h"
#include "wire/bursts.h"

#include <linux/sched.h>
#include <linux/wait.h>

enum {
    TICK = WIRE_TICK,
    DUE_MAX = 3, /* ticks */
    NAP_NS = 500000,
    NAPS_MAX = 1000
};

#define THREAD_CLOCK(tid) ((uint64_t)(int64_t)(~(tid)*8 + 6)) /* of a thread of this process: its processor time */

static int32_t own_tid(void) { return (int32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0); }
static int32_t own_pid(void) { return (int32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0); }

static uint64_t random_below(uint64_t n)
{
    uint64_t x = WINDOWS->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    WINDOWS->random = x;
    return n ? x % n : 0;
}

/* What the process spent in the system for its snapshots since the last call, ns: more than its share of the time.
 * Forks and pages that are written anew may take longer than the program does, and ticks would come so much sooner. */
static uint64_t spent_on_snapshots(struct windows_state *s)
{
    uint64_t t[18]; /* linux/resource.h: struct rusage */
    if (!s->bursts->system_share || failed(sys(SYS_getrusage, 0, (uint64_t)t, 0, 0, 0, 0)))
        return 0;
    uint64_t user = t[0] * 1000000000u + t[1] * 1000, system = t[2] * 1000000000u + t[3] * 1000,
             own = user / 1024 * s->bursts->system_share, all = system > own ? system - own : 0,
             more = all > s->snapshots_ns ? all - s->snapshots_ns : 0;
    s->snapshots_ns += more;
    return more;
}

/* Anything between nothing and twice the mean. */
static int arm(void)
{
    uint64_t wait = 1 + random_below(2 * WINDOWS->bursts->interval_ns) + spent_on_snapshots(WINDOWS);
    uint64_t value[4] = {0, 0, wait / 1000000000u, wait % 1000000000u};
    return !failed(sys(SYS_timer_settime, WINDOWS->timer, 0, (uint64_t)value, 0, 0, 0));
}

/* Of the time of thread tid, which gets the ticks; tid 0: of all threads, and who uses up the time gets them. */
static int make_timer(struct windows_state *s)
{
    struct {
        uint64_t value;
        int32_t signal, notify, tid, pad[11];
    } event = {0, TICK, s->tid ? SIGEV_THREAD_ID : SIGEV_SIGNAL, s->tid, {0}};
    uint64_t clock = s->tid ? THREAD_CLOCK(s->tid) : CLOCK_PROCESS_CPUTIME_ID;
    return sys(SYS_timer_create, clock, (uint64_t)&event, (uint64_t)&s->timer, 0, 0, 0) == 0 && arm();
}

/* Of what was interrupted, a handler of the program: a snapshot's own handlers would overwrite its frames. The tick's
 * handler itself is on that stack whenever there is one; of one that is too small for more nothing comes, either. */
static int is_on_alternate_stack(const void *context)
{
    enum { ROOM_BYTES = 3072 }; /* snapshots use some two thousand until they leave it */
    const uint64_t *stack = (const uint64_t *)((const char *)context + CONTEXT_STACK),
                   *g = (const uint64_t *)((const char *)context + CONTEXT_GREGS);
    uint64_t here = (uint64_t)__builtin_frame_address(0) - stack[0];
    return !(stack[1] & SS_DISABLE) && (g[G_RSP] - stack[0] <= stack[2] || (here <= stack[2] && here < ROOM_BYTES));
}

/* Its number from 1; 0: none. */
static uint32_t begin_burst(struct wire_bursts *b, void *context)
{
    if (WINDOWS->steps_busy ||
        __atomic_exchange_n(&b->busy, 1, __ATOMIC_ACQUIRE)) { /* two threads may have ticks at once */
        b->skipped++;
        return 0;
    }
    b->pid = 0;
    b->thread = own_tid();
    b->at_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    b->number = ++b->begun;
    int64_t pid = sys(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0, 0);
    if (pid == 0)
        rt_burst(context);
    if (!failed(pid))
        return b->begun;
    b->begun--;
    b->refused++;
    b->busy = 0;
    return 0;
}

/* A snapshot, or the host at its window. */
static int is_at_work(const struct wire_bursts *b)
{
    return __atomic_load_n(&b->busy, __ATOMIC_ACQUIRE) || __atomic_load_n(&b->untaken, __ATOMIC_ACQUIRE);
}

/* Returns in the snapshot too. */
static void fork_checkpoint(void *context)
{
    uint64_t begun = clock_ns(CLOCK_MONOTONIC);
    int64_t pid = sys(SYS_clone, 0, 0, 0, 0, 0, 0);
    int status = 0;
    if (pid == 0) {
        rt_checkpoint(context);
        return;
    }
    if (!failed(pid))
        sys(SYS_wait4, (uint64_t)pid, (uint64_t)&status, __WALL, 0, 0, 0);
    WINDOWS->file->waited.windows += clock_ns(CLOCK_MONOTONIC) - begun;
    if ((status & 127) == SIGSYS) /* so end those that the filter ends */
        __atomic_add_fetch(&WINDOWS->file->diverged, 1, __ATOMIC_RELAXED);
}

/* The program's own processor time so far. The clock has what the kernel does for snapshots too. */
static uint64_t own_ns(const struct windows_state *s)
{
    uint64_t clock = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    return clock > s->snapshots_ns ? clock - s->snapshots_ns : 0;
}

/* What may be used of a limit by now: evenly over the program's time, but for a quarter that the first windows may
 * take. */
static uint64_t by_now(const struct windows_state *s, uint64_t limit_ns)
{
    uint64_t now = own_ns(s), quarter = limit_ns / 4, expected = s->file->expected_ns;
    return quarter + (limit_ns - quarter) / 1024 * (now < expected ? now * 1024 / expected : 1024);
}

static int may_wait(const struct windows_state *s)
{
    const struct wire_windows *f = s->file;
    return !f->limit_ns || f->waited.bursts + f->waited.windows <= by_now(s, f->limit_ns);
}

/* Windows come in the order of time: where those so far are enough, what the program comes to later may be other code.
 * One in a while shows. */
static int shows_more(const struct windows_state *s)
{
    enum { LOOKS = 10 /* in all of its time */ };
    const struct wire_windows *f = s->file;
    return !f->enough || (f->expected_ns && own_ns(s) - s->window_ns >= f->expected_ns / LOOKS);
}

/* Other threads may have ticks while one waits here. */
static void begin_steps(struct windows_state *s, uint32_t burst, void *context)
{
    struct wire_windows *f = s->file;
    if (f->window_count >= f->window_max || __atomic_exchange_n(&s->steps_busy, 1, __ATOMIC_ACQUIRE))
        return;
    f->windows[f->window_count].burst = burst;
    f->quiet_now_ns = by_now(s, f->quiet_max_ns);
    s->window_ns = own_ns(s);
    fork_checkpoint(context);
    __atomic_store_n(&s->steps_busy, 0, __ATOMIC_RELEASE);
}

/* One tick in `apart` is for such a window, or the next one at which nothing is at work. */
static int is_for_steps(struct windows_state *s, uint32_t apart)
{
    if (__atomic_add_fetch(&s->ticks, 1, __ATOMIC_RELAXED) % apart == 0 || s->steps_due)
        s->steps_due++;
    return s->steps_due;
}

/* In a short program ticks come faster than bursts end: the thread waits. Not for one that died without a word. */
static void wait_for_bursts(const struct wire_bursts *b)
{
    uint64_t nap[2] = {0, NAP_NS};
    for (int i = 0; i < NAPS_MAX && is_at_work(b); i++)
        sys(SYS_nanosleep, (uint64_t)nap, 0, 0, 0, 0, 0);
}

static void begin_window(struct windows_state *s, void *context)
{
    uint32_t apart = s->file ? s->bursts->steps_apart : 0, burst;
    int32_t before = own_pid();
    if (apart && shows_more(s) && may_wait(s) && is_for_steps(s, apart)) {
        if (is_at_work(s->bursts) && s->steps_due < DUE_MAX)
            return;
        s->steps_due = 0;
        uint64_t begun = clock_ns(CLOCK_MONOTONIC);
        wait_for_bursts(s->bursts);
        s->file->waited.bursts += clock_ns(CLOCK_MONOTONIC) - begun;
        begin_steps(s, 0, context);
        return;
    }
    burst = begin_burst(s->bursts, context);
    if (burst && s->file && !apart && own_pid() == before)
        begin_steps(s, burst, context);
}

/* A system call of a thread that waited has failed because of this tick: the one that uses up the time takes no
 * signals. */
static int has_interrupted(const uint64_t *g)
{
    const uint8_t *before = (const uint8_t *)g[G_RIP] - 2;
    return (int64_t)g[G_RAX] == -EINTR && g[G_RIP] % PAGE >= 2 && before[0] == 0x0f && before[1] == 0x05;
}

/* So no thread but the first has ticks from now on. */
static void keep_to_first_thread(struct windows_state *s)
{
    sys(SYS_timer_delete, s->timer, 0, 0, 0, 0, 0);
    s->tid = s->pid;
    s->bursts->by_process = 0;
    if (!make_timer(s))
        s->given_up = 1;
}

/* ---- ticks of the host, in a counted copy: the program goes on as soon as the snapshot has closed its files ---- */

static uint64_t own_faults(void)
{
    enum { FAULTS = 8 }; /* linux/resource.h: ru_minflt */
    uint64_t usage[18];
    return failed(sys(SYS_getrusage, 0, (uint64_t)usage, 0, 0, 0, 0)) ? 0 : usage[FAULTS];
}

/* Pages of this state, which the snapshot shares: what the program will pay for each of its own. */
static void time_faults(struct windows_state *s)
{
    enum { PAGES = 4, WORDS = PAGE / 8 };
    uint64_t since = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < PAGES; i++)
        *(volatile uint64_t *)&s->noted[i * WORDS] = 0;
    s->bursts->fault_ns = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - since) / PAGES;
}

static void wait_for_close(const struct wire_bursts *b)
{
    enum { FUTEX_WAIT = 0, WAITS_MAX = 20 };
    uint64_t wait[2] = {0, 5000000};
    for (int i = 0; i < WAITS_MAX && !__atomic_load_n(&b->closed, __ATOMIC_ACQUIRE); i++)
        sys(SYS_futex, (uint64_t)&b->closed, FUTEX_WAIT, 0, (uint64_t)wait, 0, 0);
}

enum { PIDS_A_SNAPSHOT = 8 }; /* each is told by who makes it, too */

/* Its pid; -1: there is none; 0 in the snapshot. */
static int32_t make_snapshot(struct wire_bursts *b, uint32_t want, void *context)
{
    uint64_t since = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    b->thread = own_tid();
    b->at_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    b->closed = 0;
    b->pid = 0;
    b->number = ++b->begun;
    int64_t pid = sys(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0, 0);
    if (pid == 0) {
        rt_restore_original(context, want);
        return 0;
    }
    if (failed(pid)) {
        b->begun--;
        b->refused++;
        return -1;
    }
    rt_note_snapshot(pid);
    wait_for_close(b);
    time_faults(WINDOWS);
    b->faults = own_faults();
    b->spent_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - since;
    return (int32_t)pid;
}

/* Somebody else sent it: that is its end, as it would be without us. */
static void end_by_signal(void)
{
    struct kernel_action none = {0, 0, 0, 0};
    sys(SYS_rt_sigaction, TICK, (uint64_t)&none, 0, 8, 0, 0);
    sys(SYS_tkill, (uint64_t)own_tid(), TICK, 0, 0, 0, 0);
}

static void on_host_tick(const struct windows_state *s, void *context)
{
    const uint64_t *g = (const uint64_t *)((const char *)context + CONTEXT_GREGS);
    struct wire_bursts *b = s->bursts;
    uint32_t want = __atomic_exchange_n(&b->wanted, WIRE_WANT_NOTHING, __ATOMIC_ACQUIRE);
    int32_t pid = -1;
    if (want == WIRE_WANT_NOTHING)
        return;
    if (!(g[G_FLAGS] & TRAP_FLAG) && !is_on_alternate_stack(context) &&
        b->pid_count + PIDS_A_SNAPSHOT <= WIRE_BURST_PIDS)
        pid = make_snapshot(b, want, context);
    if (pid)
        __atomic_store_n(&b->snapshot, pid, __ATOMIC_RELEASE);
}

/* The program wants the signal for itself: the host is asked to send none, before it can get one. */
void rt_give_up_windows(void)
{
    const struct windows_state *s = WINDOWS;
    enum { DONE = 2, MS_MAX = 500 };
    uint64_t wait[2] = {0, 1000000};
    if (own_pid() != PCB->windows_pid) /* of a fork; a vfork shares the page */
        return;
    PCB->windows_pid = 0;
    s->bursts->given_up = 1;
    for (int i = 0; i < MS_MAX && __atomic_load_n(&s->bursts->given_up, __ATOMIC_ACQUIRE) != DONE; i++)
        sys(SYS_nanosleep, (uint64_t)wait, 0, 0, 0, 0, 0);
}

static void on_tick(int sig, const void *info, void *context)
{
    const uint64_t *g = (const uint64_t *)((const char *)context + CONTEXT_GREGS);
    struct windows_state *s = WINDOWS;
    int is_sent = ((const int32_t *)info)[2] <= 0; /* si_code: by a process */
    (void)sig;
    if (s->bursts->by_host && is_sent) {
        end_by_signal();
        return;
    }
    if (s->given_up || own_pid() != s->pid || (s->tid && own_tid() != s->tid))
        return;
    if (s->bursts->by_host) {
        on_host_tick(s, context);
        return;
    }
    if (s->bursts->begun >= s->bursts->window_max) {
        s->given_up = 1;
        return;
    }
    if (!s->tid && has_interrupted(g)) {
        keep_to_first_thread(s);
        return;
    }
    arm();
    if ((g[G_FLAGS] & TRAP_FLAG) || is_on_alternate_stack(context))
        return;
    begin_window(s, context);
}

/* ---- start ---- */

/* The whole file, read and written by all who have it; `at` 0: anywhere, else there or nowhere. */
static int64_t map_shared(int fd, uint64_t at, uint64_t bytes)
{
    return sys(SYS_mmap, at, bytes, PROT_RW, MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), (uint64_t)fd, 0);
}

static struct wire_windows *map_file(const char *path, uint64_t *bytes)
{
    enum { HEAD = (sizeof(struct wire_windows) + PAGE - 1) / PAGE * PAGE };
    int fd = rt_open(path);
    if (fd < 0)
        return 0;
    int64_t m = map_shared(fd, 0, HEAD);
    struct wire_windows *w = 0;
    if (!failed(m) && ((struct wire_windows *)m)->magic == WIRE_WINDOWS_MAGIC) {
        *bytes = sizeof *w + ((struct wire_windows *)m)->capacity * 8;
        int64_t all = map_shared(fd, 0, *bytes);
        w = failed(all) ? 0 : (struct wire_windows *)all;
    }
    if (!failed(m))
        sys(SYS_munmap, (uint64_t)m, HEAD, 0, 0, 0, 0);
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    return w;
}

/* In reach of the executable's data: below it, or where there is no room, far enough above for its heap. */
static int64_t map_near(int fd, uint64_t bytes)
{
    uint64_t here = (uint64_t)rt_blob & ~0xfffffull;
    for (uint64_t k = 1; k < 32; k++) {
        uint64_t below = here - bytes - (k << 24), above = here + (1400ull << 20) - (k << 24);
        int64_t at = here > bytes + (k << 24) + (1 << 24) ? map_shared(fd, below, bytes) : -1;
        if (at == (int64_t)below)
            return at;
        at = map_shared(fd, above, bytes);
        if (at == (int64_t)above)
            return at;
    }
    return map_shared(fd, 0, bytes);
}

static struct wire_bursts *map_bursts(const char *path)
{
    int fd = rt_open(path);
    int64_t head = fd < 0 ? -1 : map_shared(fd, 0, PAGE), all = -1;
    const struct wire_bursts *h = (const struct wire_bursts *)head;
    if (!failed(head) && h->magic == WIRE_BURSTS_MAGIC)
        all = map_near(fd, h->bytes);
    if (!failed(head))
        sys(SYS_munmap, (uint64_t)head, PAGE, 0, 0, 0, 0);
    if (fd >= 0)
        sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    if (failed(all))
        return 0;
    ((struct wire_bursts *)all)->base = (uint64_t)all;
    return (struct wire_bursts *)all;
}

static int open_files(struct windows_state *s, const char *path)
{
    if (!(s->bursts = map_bursts(path)))
        return 0;
    s->random = s->bursts->seed;
    if (s->bursts->steps_path[0])
        s->file = map_file(s->bursts->steps_path, &s->file_bytes);
    return 1;
}

static int take_ticks(void)
{
    uint64_t handler = (uint64_t)on_tick, restorer = (uint64_t)rt_sigreturn;
    __asm__("" : "+r"(handler), "+r"(restorer)); /* see sampler.c */
    struct kernel_action action = {handler, SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART, restorer, UINT64_MAX};
    return sys(SYS_rt_sigaction, TICK, (uint64_t)&action, 0, 8, 0, 0) == 0;
}

int32_t rt_start_windows(char **envp)
{
    char path[PATH_BYTES];
    if (!rt_take_env(envp, WIRE_BURSTS_ENV "=", path))
        return 0;
    int64_t at = sys(SYS_mmap, WINDOWS_VADDR, 6 * PAGE, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                     (uint64_t)-1, 0);
    struct windows_state *s = WINDOWS;
    if (at != (int64_t)WINDOWS_VADDR || !open_files(s, path))
        return 0;
    s->pid = own_pid();
    s->tid = s->bursts->by_process ? 0 : own_tid();
    s->bursts->program = s->pid;
    s->bursts->started = take_ticks() && (s->bursts->by_host || make_timer(s));
    return s->bursts->by_host && s->bursts->started ? s->pid : 0;
}
