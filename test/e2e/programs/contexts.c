/* SPDX-License-Identifier: Apache-2.0
 *
 * contexts HOW: control that leaves functions other than by return, while the rest goes on: setjmp, signal handlers on
 * their own stacks and out of them by longjmp, contexts of ucontext, and a handler that looks at every place it
 * interrupts (after each instruction, or by a timer): the context must make sense and unwinding must arrive at main.
 */
#define _GNU_SOURCE
#include "here.h"
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))

/* ---- setjmp ---- */

static jmp_buf place;
static sigjmp_buf sig_place;

static NOINLINE void descend(int depth, int value)
{
    HERE(descend);
    if (depth == 0)
        longjmp(place, value);
    descend(depth - 1, value);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static NOINLINE int jump_home(int value)
{
    volatile int seen = 0;
    int kept = value * 3; /* not changed after setjmp: survives in a register or not */
    int got = setjmp(place);
    HERE(home);
    if (got == 0)
        descend(5, value);
    seen += got;
    return seen + kept;
}

static void on_user(int sig)
{
    HERE(user);
    siglongjmp(sig_place, sig);
}

static void jumps(void)
{
    volatile long sum = 0;
    for (int i = 1; i <= 200; i++)
        sum += jump_home(i);
    printf("%ld\n", sum);
    expect("descend", 6 * 200);
    expect("home", 400);
    signal(SIGUSR1, on_user);
    for (volatile int i = 0; i < 200; i++) {
        HERE(before);
        if (!sigsetjmp(sig_place, 1))
            raise(SIGUSR1);
        HERE(after);
    }
    expect("before", 200);
    expect("user", 200);
    expect("after", 200);
}

/* ---- a stack that runs over, seen from another stack ---- */

static char other_stack[1 << 16] __attribute__((aligned(16)));
static void *volatile sink;

static NOINLINE long overflow(long depth)
{
    char room[1024];
    sink = room;
    room[0] = (char)depth;
    return overflow(depth + 1) + room[0];
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    char here;
    (void)context;
    HERE(fault);
    if (&here < other_stack || &here >= other_stack + sizeof other_stack || !info->si_addr)
        abort();
    siglongjmp(sig_place, sig);
}

static void stacks(void)
{
    struct rlimit limit = {256 << 10, 256 << 10};
    stack_t alternate = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    setrlimit(RLIMIT_STACK, &limit);
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &act, NULL);
    volatile int faults = 0;
    for (volatile int i = 0; i < 10; i++)
        if (sigsetjmp(sig_place, 1))
            faults++;
        else
            overflow(0);
    printf("%d faults\n", faults);
    expect("fault", 10);
}

/* ---- ucontext ---- */

enum { COROUTINES = 3 };
static ucontext_t home, routine[COROUTINES];
static char routine_stack[COROUTINES][1 << 16] __attribute__((aligned(16)));
static long handed;

static void produce(int id, int count)
{
    for (int i = 0; i < count; i++) {
        HERE(produce);
        handed = id * 1000 + i;
        swapcontext(&routine[id], &home);
    }
    HERE(done);
    handed = -1;
}

static void coroutines(void)
{
    long sum = 0;
    int alive = COROUTINES;
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&routine[i]);
        routine[i].uc_stack.ss_sp = routine_stack[i];
        routine[i].uc_stack.ss_size = sizeof routine_stack[i];
        routine[i].uc_link = &home;
        makecontext(&routine[i], (void (*)(void))produce, 2, i, 100 * (i + 1));
    }
    int is_done[COROUTINES] = {0};
    for (int turn = 0; alive; turn++) {
        int i = turn % COROUTINES;
        if (is_done[i])
            continue;
        swapcontext(&home, &routine[i]);
        if (handed < 0)
            is_done[i] = 1, alive--;
        else
            sum += handed;
    }
    printf("%ld\n", sum);
    expect("produce", 600);
    expect("done", COROUTINES);
    volatile int rounds = 0;
    getcontext(&home);
    HERE(again);
    if (++rounds < 10)
        setcontext(&home);
    expect("again", 10);
}

/* ---- work to be interrupted: leaf code below the stack pointer, carries, recursion, frames of changing size, calls
 * ---- */

static NOINLINE uint64_t wide(const uint64_t *a, long n)
{
    unsigned __int128 s = 0;
    for (long i = 0; i < n; i++) {
        HERE(wide);
        s += (unsigned __int128)a[i] * 0xfffffffffffffff1u;
    }
    return (uint64_t)s ^ (uint64_t)(s >> 64);
}
static NOINLINE uint64_t below(uint64_t x)
{
    volatile uint64_t keep[8];
    for (int i = 0; i < 8; i++) {
        HERE(below);
        keep[i] = x * (uint64_t)i;
    }
    return keep[1] ^ keep[3] ^ keep[7];
}
static NOINLINE uint64_t choose(uint64_t x)
{
    switch (x % 7) {
    case 0:
        return x + 1;
    case 1:
        return x * 3;
    case 2:
        return below(x);
    case 3:
        return x ^ x >> 7;
    case 4:
        return x < 1u << 30 ? x << 1 : x >> 3;
    case 5:
        return x / 5;
    default:
        return ~x;
    }
}
static NOINLINE uint64_t grow(uint64_t n)
{
    char room[n % 64 + 1];
    sink = room;
    memset(room, (int)n, sizeof room);
    uint64_t r = n == 0 ? 1 : grow(n - 1) + (unsigned char)room[n % sizeof room];
    return n % 3 ? choose(r) : r; /* sometimes from the middle of a frame */
}
static int compare(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}
static NOINLINE uint64_t work(unsigned turn)
{
    uint64_t words[16];
    int numbers[16];
    for (unsigned i = 0; i < 16; i++) {
        words[i] = (turn + i) * 0x9e3779b97f4a7c15u;
        numbers[i] = (int)(words[i] >> 40);
    }
    qsort(numbers, 16, sizeof numbers[0], compare);
    char text[32];
    snprintf(text, sizeof text, "%d %x", numbers[3], turn);
    return wide(words, 16) + grow(turn % 9) + strlen(text) + (uint64_t)numbers[7];
}

/* ---- the looking handler ---- */

static struct {
    uintptr_t lo, hi;
} code[64];
static int code_count;
static uintptr_t main_cfa, stack_lo, stack_hi;
static volatile long taken, mad, lost;
static long storm_left; /* signals still to be asked for */
static volatile uintptr_t first_lost;

/* One signal at a time, asked for anew when its handler is done: however long a handler takes, the work goes on between
 * two. */
static void next_alarm(void)
{
    struct itimerval once = {{0, 0}, {0, 50}};
    if (storm_left && storm_left--)
        setitimer(ITIMER_REAL, &once, NULL);
}

static int note_code(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    for (int i = 0; i < info->dlpi_phnum && code_count < 64; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            code[code_count].lo = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            code[code_count++].hi = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        }
    return 0;
}

static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *found)
{
    *(int *)found = _Unwind_GetCFA(c) == main_cfa;
    return *(int *)found ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

static void on_look(int sig, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    uintptr_t rip = (uintptr_t)u->uc_mcontext.gregs[REG_RIP], rsp = (uintptr_t)u->uc_mcontext.gregs[REG_RSP];
    int known = 0, found = 0;
    (void)sig, (void)info;
    for (int i = 0; i < code_count; i++)
        known |= rip >= code[i].lo && rip < code[i].hi;
    if (!known || rsp < stack_lo || rsp >= stack_hi || u->uc_mcontext.gregs[REG_EFL] & 0x400)
        mad++;
    _Unwind_Backtrace(frame, &found);
    if (!found && !lost++)
        first_lost = rip;
    taken++;
    next_alarm();
}

static void look(int sig)
{
    struct sigaction act = {.sa_sigaction = on_look, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    stack_t alternate = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    int found = 0;
    stack_lo = (uintptr_t)&alternate - (1 << 20);
    stack_hi = main_cfa;
    dl_iterate_phdr(note_code, NULL);
    _Unwind_Backtrace(frame, &found); /* loads what it needs before the first signal */
    sigaltstack(&alternate, NULL);
    sigaction(sig, &act, NULL);
}

static void tell(uint64_t sum, long least)
{
    printf("sum %llx, %s interrupted, %ld mad contexts, %ld backtraces that miss main\n", (unsigned long long)sum,
           taken >= least ? "often" : "seldom", mad, lost);
    if (lost)
        printf("first at %lx\n", (unsigned long)first_lost);
}

/* The trap flag, by functions that can be unwound after each instruction. */
void trace_on(void);
void trace_off(void);
__asm__(".macro SET_FLAGS name, change\n"
        ".type \\name, @function\n"
        "\\name: .cfi_startproc\n"
        "pushfq\n .cfi_adjust_cfa_offset 8\n"
        "\\change, (%rsp)\n"
        "popfq\n .cfi_adjust_cfa_offset -8\n"
        "ret\n .cfi_endproc\n .size \\name, . - \\name\n"
        ".endm\n"
        ".text\n SET_FLAGS trace_on, \"orl $0x100\"\n SET_FLAGS trace_off, \"andl $~0x100\"\n");

static void single_steps(void)
{
    uint64_t sum = 0;
    work(0); /* so that lazy binding is over */
    work(1);
    look(SIGTRAP);
    for (unsigned turn = 0; turn < 9; turn++) {
        trace_on();
        sum += work(turn);
        trace_off();
    }
    tell(sum, 10000);
    expect("wide", 11 * 16);
}

static void storm(void)
{
    uint64_t sum = 0, turns = 0;
    look(SIGALRM);
    storm_left = 2000;
    next_alarm();
    for (; taken < 2000; turns++)
        sum |= work((unsigned)turns % 100) ^ work((unsigned)turns % 100);
    tell(sum, 2000);
    if (getenv("EXPECT_TURNS")) /* how many there are differs from run to run */
        expect("wide", turns * 32);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {
        {"jumps", jumps}, {"stacks", stacks}, {"coroutines", coroutines}, {"steps", single_steps}, {"storm", storm}};
    main_cfa = (uintptr_t)__builtin_dwarf_cfa();
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++)
        if (!strcmp(argv[1], ways[i].name)) {
            ways[i].run();
            return 0;
        }
    return 2;
}
