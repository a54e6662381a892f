/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoint and the recorder of windows (wire.h): copies of the program by fork, cut off from all that they could
 * change. The recorder notes what it executes under the trap flag. The checkpoint waits at the window's first
 * instruction for the host to choose slices, then goes through the window once more, natively from one slice to the
 * next where that is fewer traps, and has each replayed (replay.c).
 *
 * A window ends at a system call, at whatever could carry the trap flag away (popf, iret), and at a fault. What pushf
 * pushed is fixed. Both processes end with their work, when the host has lost interest, or with a time limit.
 */
#include "rt/windows.h"

#include "wire/bursts.h"
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/wait.h>
#include <stddef.h>

enum {
    INT3 = 0xcc,
    STACK_BYTES = 128 << 10,
    SECONDS_MAX = 20,
    CHECKPOINT_SECONDS_MAX = 3, /* to the first slice */
    POLL_NS = 200000,
    POLLS_MAX = 25000 /* 5 s */
};

const uint8_t rt_greg_order[16] = {13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7};

_Noreturn void rt_leave(void)
{
    if (WINDOWS->is_first)
        __atomic_store_n(&WINDOWS->file->busy, 0, __ATOMIC_RELEASE);
    for (;;)
        sys(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

/* ---- cut off ---- */

static int hex_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Both files: a snapshot that has gone back makes a checkpoint. */
static int is_of_files(uint64_t lo, uint64_t hi)
{
    const struct wire_bursts *b = WINDOWS->bursts;
    uint64_t file = (uint64_t)WINDOWS->file;
    return (lo < b->base + b->bytes && b->base < hi) || (lo < file + WINDOWS->file_bytes && file < hi);
}

/* "LO-HI rwxs..." of /proc/self/maps, without its end. Code that can be written must stay what it is while a burst goes
 * on. */
static void protect_line(const char *line, uint64_t own, uint64_t own_bytes)
{
    uint64_t at[2] = {0, 0};
    for (int k = 0; k < 2; k++, line++)
        for (; hex_of(*line) >= 0; line++)
            at[k] = at[k] << 4 | (uint64_t)hex_of(*line);
    const struct wire_bursts *b = WINDOWS->bursts;
    int is_of_burst = own == (uint64_t)b, is_own = at[0] < own + own_bytes && own < at[1],
        is_theirs = b->by_host && is_of_files(at[0], at[1]);
    if (line[1] == 'w' && (line[3] == 's' || (line[2] == 'x' && is_of_burst)) && !is_own && !is_theirs)
        sys(SYS_mprotect, at[0], at[1] - at[0], line[2] == 'x' ? 5 /* read, execute */ : 1 /* read */, 0, 0, 0);
}

/* 0: the mappings cannot be read. */
static int protect_shared_memory(uint64_t own, uint64_t own_bytes)
{
    char part[1024], line[64];
    size_t n = 0;
    int64_t got;
    int fd = (int)sys(SYS_openat, (uint64_t)(int64_t)AT_FDCWD, (uint64_t) "/proc/self/maps", 02000000, 0, 0, 0);
    if (fd < 0)
        return 0;
    while ((got = sys(SYS_read, (uint64_t)fd, (uint64_t)part, sizeof part, 0, 0, 0)) > 0)
        for (int64_t i = 0; i < got; i++) {
            if (part[i] == '\n') {
                line[n] = 0;
                protect_line(line, own, own_bytes);
                n = 0;
            } else if (n < sizeof line - 1) {
                line[n++] = part[i];
            }
        }
    return got == 0;
}

void rt_close_files(void)
{
    if (!failed(sys(SYS_close_range, 0, UINT32_MAX, 0, 0, 0, 0)))
        return;
    for (uint64_t fd = 0; fd < 4096; fd++)
        sys(SYS_close, fd, 0, 0, 0, 0, 0);
}

int rt_cut_off(uint64_t at, uint64_t bytes)
{
    int ok = protect_shared_memory(at, bytes);
    rt_close_files();
    return ok;
}

/* From now on only the runtime's own code may call the kernel; what else does ends the process. So a checkpoint that
 * goes another way than was recorded (the time of day may decide) does nothing that could be seen. Not with less
 * speculation: it is here to be timed. 0: the kernel does not do that. */
static int forbid_calls(void)
{
    enum { LOAD = BPF_LD | BPF_W | BPF_ABS, IF_EQUAL = BPF_JMP | BPF_JEQ | BPF_K, IF_MIN = BPF_JMP | BPF_JGE | BPF_K };
    enum { RETURN = BPF_RET | BPF_K, OF_ADDRESS = offsetof(struct seccomp_data, instruction_pointer) };
    uint64_t from = (uint64_t)rt_blob, to = (uint64_t)rt_blob_end;
    struct sock_filter steps[] = {
        {LOAD, 0, 0, OF_ADDRESS + 4},
        {IF_EQUAL, 0, 4, (uint32_t)(from >> 32)},
        {LOAD, 0, 0, OF_ADDRESS},
        {IF_MIN, 0, 2, (uint32_t)from},
        {IF_MIN, 1, 0, (uint32_t)to},
        {RETURN, 0, 0, SECCOMP_RET_ALLOW},
        {RETURN, 0, 0, SECCOMP_RET_KILL_PROCESS},
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    return from >> 32 == to >> 32 &&
           !failed(sys(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0)) /* its end leaves no core file */ &&
           !failed(sys(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)) &&
           !failed(
               sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, (uint64_t)&program, 0, 0, 0));
}

/* ---- the recorder ---- */

static const uint8_t *behind_prefixes(const uint8_t *p)
{
    while (*p == 0x66 || (*p & 0xf0) == 0x40)
        p++;
    return p;
}

static int ends_window(const uint64_t *g)
{
    const uint8_t *p = behind_prefixes((const uint8_t *)g[G_RIP]);
    if (p[0] == 0x0f)
        return p[1] == 0x05 || p[1] == 0x34;
    return p[0] == 0x9d || p[0] == 0xcf || p[0] == 0xcd || p[0] == 0xcc || p[0] == 0xf1;
}

static int pushes_flags(const uint8_t *at) { return *behind_prefixes(at) == 0x9c; }

int rt_may_step(const uint64_t *g) { return !ends_window(g) && !pushes_flags((const uint8_t *)g[G_RIP]); }

/* Bytes are told again when another address has taken their place in the table. */
static void note_bytes(uint64_t at, uint64_t rip)
{
    struct windows_state *s = WINDOWS;
    uint64_t *noted = &s->noted[(rip ^ rip >> 11) % 2048], room = PAGE - rip % PAGE;
    if (*noted == rip)
        return;
    *noted = rip;
    if (room < 16 && sys(SYS_access, rip + room, 0, 0, 0, 0, 0) != -EFAULT)
        room = 16;
    uint64_t *to = &s->file->data[s->word];
    to[0] = to[1] = 0;
    memcpy(to, (const void *)rip, room < 16 ? room : 16);
    s->word += 2;
    s->file->data[at] |= WIRE_STEP_BYTES;
}

static void note(const uint64_t *g)
{
    struct windows_state *s = WINDOWS;
    struct wire_window *w = &s->file->windows[s->file->window_count];
    uint64_t at = s->word++, mask = 0;
    for (unsigned r = 0; r < 16; r++) {
        uint64_t v = g[rt_greg_order[r]];
        if (w->steps && v == s->regs[r])
            continue;
        s->regs[r] = v;
        mask |= 1ull << (48 + r);
        s->file->data[s->word++] = v;
    }
    s->file->data[at] = (g[G_RIP] & WIRE_STEP_ADDRESS) | mask;
    note_bytes(at, g[G_RIP]);
    w->steps++;
}

_Noreturn static void close_window(void)
{
    struct wire_windows *f = WINDOWS->file;
    f->used = WINDOWS->word;
    f->window_count++;
    rt_leave();
}

static int is_full(void)
{
    struct wire_windows *f = WINDOWS->file;
    return f->windows[f->window_count].steps >= f->steps_max || WINDOWS->word + WIRE_STEP_WORDS_MAX > f->capacity;
}

static void begin_window(const uint64_t *g)
{
    struct windows_state *s = WINDOWS;
    struct wire_window *w = &s->file->windows[s->file->window_count];
    s->word = s->file->used;
    if (s->word + WIRE_STEP_WORDS_MAX > s->file->capacity || ends_window(g))
        rt_leave();
    *w = (struct wire_window){.first = s->word, .steps = 0, .burst = w->burst};
    sys(SYS_arch_prctl, ARCH_GET_FS, (uint64_t)&w->fs, 0, 0, 0, 0);
    sys(SYS_arch_prctl, ARCH_GET_GS, (uint64_t)&w->gs, 0, 0, 0, 0);
    note(g);
}

/* ---- the checkpoint ---- */

/* While it goes through the window that was recorded. */
static uint32_t window_of_checkpoint(void) { return WINDOWS->file->window_count - 1; }
static struct wire_slice *next_slice(void) { return &WINDOWS->file->slice[window_of_checkpoint()][WINDOWS->slice]; }

static int turn_is(uint32_t window, enum wire_turn t)
{
    return __atomic_load_n(&WINDOWS->file->turn, __ATOMIC_ACQUIRE) == window * 4 + (uint32_t)t;
}

static void set_turn(uint32_t window, enum wire_turn t)
{
    __atomic_store_n(&WINDOWS->file->turn, window * 4 + (uint32_t)t, __ATOMIC_RELEASE);
}

static int host_has_planned(uint32_t window)
{
    uint64_t wait[2] = {0, POLL_NS};
    for (int i = 0; i < POLLS_MAX && !turn_is(window, WIRE_TURN_REPLAYING) && !WINDOWS->file->abandoned; i++)
        sys(SYS_nanosleep, (uint64_t)wait, 0, 0, 0, 0, 0);
    return turn_is(window, WIRE_TURN_REPLAYING);
}

/* Returns in the recorder at once, and in the checkpoint when there are slices to replay. */
static void split(void)
{
    struct windows_state *s = WINDOWS;
    uint32_t window = s->file->window_count;
    s->is_checkpoint = s->file->slices && window < WIRE_SLICED_WINDOWS;
    if (!s->is_checkpoint)
        return;
    set_turn(window, WIRE_TURN_RECORDING);
    int64_t recorder = sys(SYS_clone, 0, 0, 0, 0, 0, 0);
    s->is_checkpoint = recorder != 0;
    rt_note_snapshot(recorder ? recorder : sys(SYS_getpid, 0, 0, 0, 0, 0, 0));
    if (recorder == 0) {
        s->is_first = 0;
        return;
    }
    if (failed(recorder))
        rt_leave();
    uint64_t begun = clock_ns(CLOCK_MONOTONIC);
    sys(SYS_wait4, (uint64_t)recorder, 0, __WALL, 0, 0, 0);
    uint64_t recorded = clock_ns(CLOCK_MONOTONIC);
    s->file->waited.recording += recorded - begun;
    if (s->file->window_count == window) /* it was killed */
        rt_leave();
    set_turn(window, WIRE_TURN_PLANNING);
    int has_planned = host_has_planned(window);
    s->file->waited.planning += clock_ns(CLOCK_MONOTONIC) - recorded;
    if (!has_planned || !s->file->slice_count[window])
        rt_leave();
    s->may_stop = (uint32_t)forbid_calls();
    s->slice = 0;
    s->step = 0;
}

static void replay_what_begins(const uint64_t *g, const void *vectors)
{
    struct windows_state *s = WINDOWS;
    while (s->slice < s->file->slice_count[window_of_checkpoint()] && next_slice()->first == s->step) {
        struct wire_slice *now = next_slice();
        s->slice++;
        rt_replay(now, g, vectors);
    }
    if (s->slice >= s->file->slice_count[window_of_checkpoint()])
        rt_leave();
}

static void go_on_natively(uint64_t *g)
{
    *(uint8_t *)WINDOWS->stop_at = INT3;
    WINDOWS->pushed_flags = 0;
    g[G_FLAGS] &= ~(uint64_t)TRAP_FLAG;
}

/* On to the next slice natively, by a trap in place of its first instruction. Not where that cannot be written. */
static void begin_stops(uint64_t *g)
{
    struct windows_state *s = WINDOWS;
    const struct wire_slice *next = next_slice();
    if (!s->may_stop || !next->visits || !rt_open_code(next->begin_at, 1))
        return;
    s->stop_at = next->begin_at;
    s->stop_byte = *(const uint8_t *)s->stop_at;
    s->stops = next->visits;
    go_on_natively(g);
}

/* It stands at the trap. Under the trap flag it is to execute what is there. */
static void stop(uint64_t *g, const void *vectors)
{
    struct windows_state *s = WINDOWS;
    g[G_RIP] = s->stop_at;
    g[G_FLAGS] |= TRAP_FLAG;
    *(uint8_t *)s->stop_at = (uint8_t)s->stop_byte;
    s->pushed_flags = (uint32_t)pushes_flags((const uint8_t *)s->stop_at);
    if (--s->stops)
        return;
    s->step = next_slice()->first;
    replay_what_begins(g, vectors);
}

static void go_through(uint64_t *g, const void *vectors)
{
    struct windows_state *s = WINDOWS;
    if (s->stops) { /* it has passed the place of the trap */
        go_on_natively(g);
        return;
    }
    uint64_t from = s->slice ? next_slice()[-1].first : 0;
    s->step++;
    replay_what_begins(g, vectors);
    if (s->step == from + 1)
        begin_stops(g);
}

/* ---- signals ---- */

static void on_step(int sig, const void *info, void *context)
{
    uint64_t *g = (uint64_t *)((char *)context + CONTEXT_GREGS);
    struct windows_state *s = WINDOWS;
    const void *vectors = *(void **)((char *)context + CONTEXT_VECTORS);
    int is_step = sig == SIGTRAP && ((const int32_t *)info)[2] == TRAP_TRACE;
    if (!is_step && s->is_checkpoint && sig == SIGTRAP && s->stops && g[G_RIP] == s->stop_at + 1) {
        stop(g, vectors);
        return;
    }
    if (!is_step) { /* a fault; a trap of its own */
        if (s->is_checkpoint)
            rt_leave();
        close_window();
    }
    if (s->pushed_flags)
        *(uint64_t *)g[G_RSP] &= ~(uint64_t)TRAP_FLAG;
    s->pushed_flags = (uint32_t)pushes_flags((const uint8_t *)g[G_RIP]);
    if (__atomic_load_n(&s->file->abandoned, __ATOMIC_RELAXED))
        rt_leave();
    if (s->is_checkpoint) {
        go_through(g, vectors);
        return;
    }
    if (ends_window(g) || is_full() || rt_is_in_copy(g[G_RIP]))
        close_window();
    note(g);
}

/* Once: it cannot be changed by who stands on it. A program that has one is on it here, since the tick's handler is: it
 * has none from here on, and what follows is below what its own stack has, as in other programs. */
static int make_stack(void *context)
{
    uint64_t *own = (uint64_t *)((char *)context + CONTEXT_STACK);
    if (WINDOWS->has_stack)
        return 1;
    if (!(own[1] & SS_DISABLE)) {
        own[0] = own[2] = 0;
        own[1] = SS_DISABLE;
        WINDOWS->has_stack = 1;
        return 1;
    }
    int64_t stack = sys(SYS_mmap, 0, STACK_BYTES, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0);
    uint64_t alternate[3] = {(uint64_t)stack, 0, STACK_BYTES};
    WINDOWS->has_stack = !failed(stack) && !failed(sys(SYS_sigaltstack, (uint64_t)alternate, 0, 0, 0, 0, 0));
    return (int)WINDOWS->has_stack;
}

int rt_take_signals(void *context, void (*on_signal)(int sig, const void *info, void *context))
{
    static const uint8_t ours[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    uint64_t handler = (uint64_t)on_signal, restorer = (uint64_t)rt_sigreturn, open = 1ull << (SIGALRM - 1);
    __asm__("" : "+r"(handler), "+r"(restorer)); /* see sampler.c */
    struct kernel_action action = {handler, SA_SIGINFO | SA_RESTORER | SA_ONSTACK, restorer, ~open};
    struct kernel_action none = {0, 0, 0, 0};
    int ok = make_stack(context) && !failed(sys(SYS_rt_sigaction, SIGALRM, (uint64_t)&none, 0, 8, 0, 0));
    for (size_t i = 0; i < sizeof ours; i++) {
        ok = ok && !failed(sys(SYS_rt_sigaction, ours[i], (uint64_t)&action, 0, 8, 0, 0));
        open |= 1ull << (ours[i] - 1);
    }
    *(uint64_t *)((char *)context + CONTEXT_MASK) = ~open;
    sys(SYS_rt_sigprocmask, SIG_UNBLOCK, (uint64_t) & (uint64_t){1ull << (SIGALRM - 1)}, 0, 8, 0, 0);
    return ok;
}

void rt_become_checkpoint(void)
{
    WINDOWS->is_first = 1;
    __atomic_store_n(&WINDOWS->file->busy, (int32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0), __ATOMIC_RELEASE);
}

void rt_checkpoint_resume(void *context)
{
    uint64_t *g = (uint64_t *)((char *)context + CONTEXT_GREGS);
    if (!rt_take_signals(context, on_step))
        rt_leave();
    split();
    sys(SYS_alarm, WINDOWS->is_checkpoint ? CHECKPOINT_SECONDS_MAX : SECONDS_MAX, 0, 0, 0, 0, 0);
    if (!WINDOWS->is_checkpoint)
        begin_window(g);
    WINDOWS->pushed_flags = (uint32_t)pushes_flags((const uint8_t *)g[G_RIP]);
    g[G_FLAGS] |= TRAP_FLAG;
}

void rt_checkpoint(void *context)
{
    rt_become_checkpoint();
    if (!rt_cut_off((uint64_t)WINDOWS->file, WINDOWS->file_bytes))
        rt_leave();
    rt_checkpoint_resume(context);
}
