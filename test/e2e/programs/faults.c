/* SPDX-License-Identifier: Apache-2.0
 *
 * faults [trace]: blocks that are left in their middle: by the handler of a fault that jumps away (out of loops of one
 * block, out of straight code, out of a division, out of the handler of another fault), and by one that goes on behind
 * the instruction that faulted. What is mended is left by nobody. With trace, handlers say how many frames they stand
 * on, and a child does the same in a sandbox that it makes before it sets them.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

enum { PAGE = 4096, LOAD_BYTES = 2 };

static sigjmp_buf back;
static volatile sig_atomic_t mends, skips, faults, nested, traces, frames;
static char *page;
static volatile int zero;

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *at, void *ctx)
{
    (void)at;
    (void)ctx;
    frames++;
    return _URC_NO_REASON;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *uc = context;
    faults++;
    if (traces)
        _Unwind_Backtrace(count_frame, NULL);
    if (skips) {
        uc->uc_mcontext.gregs[REG_RIP] += LOAD_BYTES;
        return;
    }
    if (mends) {
        mprotect(page + PAGE, PAGE, PROT_READ);
        return;
    }
    if (nested && sig == SIGSEGV)
        faults += 10 / zero;
    siglongjmp(back, 1);
}

/* A loop of one block, into the page that cannot be read. */
static __attribute__((noinline)) long sum_of(const int *at, long n)
{
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += at[i];
    return sum;
}

/* Loops whose turns the code says, up and down, by comparisons of all lengths; the fourth may be entered elsewhere too,
 * with another number of them. */
static __attribute__((noinline)) long sums_of_many(const int *at, int fewer)
{
    long sum = 0, k, x;
    register long other __asm__("r9");
    __asm__ volatile("xor %k1, %k1\n1: movslq (%3, %1), %2\nadd %2, %0\nadd $4, %1\ncmp $96, %1\njne 1b\n"
                     "mov $9, %k1\n1: movslq (%3, %1, 4), %2\nadd %2, %0\nsub $1, %1\njne 1b\n"
                     "mov $-40, %1\n1: lea 8(%1), %1\nmovslq 40(%3, %1), %2\nadd %2, %0\ncmp $600, %1\njne 1b\n"
                     "test %k4, %k4\njne 2f\nxor %k1, %k1\n1: add %1, %0\nadd $1, %1\ncmp $20, %1\njne 1b\njmp 3f\n"
                     "2: mov $15, %k1\njmp 1b\n3:\n"
                     "xor %k1, %k1\n1: inc %1\nadd %1, %0\ncmp $20, %1\njne 1b\n"
                     "mov $30, %k1\nadd $1, %1\n1: dec %1\njne 1b\n"
                     "xor %k5, %k5\n1: movslq (%3, %5), %2\nadd %2, %0\nadd $4, %5\ncmp $400, %5\njne 1b\n"
                     "mov $7, %k5\n1: add %5, %0\ndec %5\njne 1b\n"
                     : "+r"(sum), "=&a"(k), "=&r"(x), "+r"(at), "+r"(fewer), "=&r"(other)
                     :
                     : "cc", "memory");
    return sum;
}

/* Straight code: what is behind the second load is not executed if that faults. */
static __attribute__((noinline)) long pick(const int *a, const int *b, int twice)
{
    long x = *a;
    x += *b * 3L;
    x ^= x << 7;
    if (twice)
        x += *a;
    return x * 5;
}

static __attribute__((noinline)) int quotient(int a, int b)
{
    int more = a + 1;
    int q = a / b;
    return q > 3 ? q + more : more;
}

static __attribute__((noinline)) int load(const int *at)
{
    int got = 7;
    __asm__ volatile("movl (%1), %0" : "+a"(got) : "d"(at));
    return got + 1;
}

static volatile long sum;
static const int good = 2;

static void leave(const int *end)
{
    for (volatile int i = 0; i < 20; i++)
        if (!sigsetjmp(back, 1))
            sum += sum_of(end - i, 3 + (i & 8));
    for (volatile int i = 0; i < 40; i++)
        if (!sigsetjmp(back, 1))
            sum += sums_of_many(end - 8 * i, i & 1);
    for (volatile int i = 0; i < 20; i++)
        if (!sigsetjmp(back, 1))
            sum += pick(&good, i % 3 ? end : &good, i & 1);
    for (volatile int i = 0; i < 20; i++)
        if (!sigsetjmp(back, 1))
            sum += quotient(i, i % 4);
    nested = 1;
    for (volatile int i = 0; i < 7; i++)
        if (!sigsetjmp(back, 1))
            sum += pick(end, &good, 1);
    nested = 0;
}

static void stay(int *end)
{
    skips = 1;
    for (volatile int i = 0; i < 5; i++)
        sum += load(i & 1 ? end : &good);
    skips = 0;
    mends = 1;
    for (volatile int i = 0; i < 9; i++) {
        sum += pick(&good, end, i & 1);
        mprotect(end, PAGE, i & 2 ? PROT_NONE : PROT_READ);
    }
    mends = 0;
    mprotect(end, PAGE, PROT_NONE);
}

/* Calls of the kernel other than for signals and the end are answered by death. */
static void forbid(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(99);
}

static void in_sandbox(const struct sigaction *on, const int *end)
{
    forbid();
    faults = 0;
    sigaction(SIGSEGV, on, NULL);
    sigaction(SIGFPE, on, NULL);
    leave(end);
    _exit(faults & 63);
}

int main(int argc, char **argv)
{
    struct sigaction on = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, was;
    (void)argv;
    traces = argc > 1;
    sigaction(SIGSEGV, &on, NULL);
    sigaction(SIGFPE, &on, &was);
    sum = was.sa_handler == SIG_DFL;
    sigaction(SIGSEGV, NULL, &was);
    sum += was.sa_sigaction == on_fault && was.sa_flags & SA_SIGINFO;
    page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *end = (int *)(page + PAGE), status = 0;
    mprotect(end, PAGE, PROT_NONE);
    leave(end);
    stay(end);
    printf("%ld, %d faults, %d frames\n", sum, (int)faults, (int)frames);
    fflush(stdout);
    if (traces && fork() == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGFPE, SIG_DFL);
        in_sandbox(&on, end);
    }
    if (traces)
        wait(&status);
    printf("child %x\n", (unsigned)status);
    signal(SIGSEGV, SIG_DFL);
    return sigaction(SIGSEGV, NULL, &was) || was.sa_handler != SIG_DFL || sum_of(&good, 1) != 2;
}
