/* SPDX-License-Identifier: Apache-2.0
 *
 * windows WHAT FILE: works for some tenths of a second at what windows of the instruction stream could disturb, and
 * appends a line to FILE that is the same at every run: flags     pushes and pops the flags, and looks at what was
 * pushed jumps     leaves signal handlers by siglongjmp handlers  forks in signal handlers traps     handles SIGTRAP
 * itself blocked   runs with all signals blocked trapped   ends by an int3 random    branches that nobody can predict
 *   filled    the same, after longer in the system: memory is got and given back
 *   patient   the same, after some seconds of waiting
 *   resigned  waits likewise, and then runs with all signals blocked
 *   shared    counts in memory that it shares
 *   childless has no child that it could wait for
 *   threads   waits for two threads that work
 *   deaf      waits for two threads that block all signals
 *   clocked   does harm where time has passed and it is not the process that it was
 *   undisturbed works and waits by turns, and looks that no wait is interrupted
 *   last      asks for all signals, then has a handler for the last one
 *   alternate has an alternate stack, no larger than it must be, and handlers that work on it
 *   strict    may make no system calls but the plainest; ends with 7
 * All but the last look that they may run on the same processors in the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink, seen, wrong;
static sigjmp_buf back;

static uint64_t work(uint64_t v, int turns)
{
    for (int k = 0; k < turns; k++)
        v = v * 6364136223846793005u + 1442695040888963407u;
    return v;
}

static void flags(void)
{
    for (int k = 0; k < 15000000; k++) {
        uint64_t f;
        __asm__ volatile("pushfq\n\tpopq %0" : "=r"(f) : : "memory");
        wrong += f >> 8 & 1;
        __asm__ volatile("stc\n\tpushfq\n\tpopfq" : : : "memory", "cc");
        sink = work(sink, 5);
    }
}

static void every_ms(void (*handler)(int))
{
    struct itimerval t = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &t, NULL);
}

static void on_jump(int sig)
{
    (void)sig;
    seen = 1;
    siglongjmp(back, 1);
}
static void jumps(void)
{
    for (volatile int k = 0; k < 1000; k++) { /* as much work as the handler lets be done in one go */
        if (sigsetjmp(back, 1) == 0) {
            every_ms(on_jump);
            sink = work(sink, 1000000);
        }
    }
    signal(SIGALRM, SIG_IGN);
}

static void on_fork(int sig)
{
    (void)sig;
    pid_t pid = fork();
    if (pid == 0)
        return; /* goes on where its parent was interrupted */
    int status;
    while (waitpid(pid, &status, 0) < 0)
        continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
        wrong++;
    seen++;
}
static void handlers(void)
{
    pid_t self = getpid();
    signal(SIGALRM, on_fork);
    for (int k = 0; k < 60; k++) {
        struct itimerval t = {{0, 0}, {0, 300}};
        uint64_t before = seen;
        setitimer(ITIMER_REAL, &t, NULL);
        while (seen == before && getpid() == self)
            sink = work(sink, 50000);
        if (getpid() != self)
            _exit(7);
    }
}

enum { GUARD_BYTES = 4096 };

static void on_alternate(int sig)
{
    volatile uint64_t frame[16];
    for (int k = 0; k < 16; k++)
        frame[k] = (uint64_t)(k + sig);
    sink = work(sink, 200000);
    for (int k = 0; k < 16; k++)
        wrong += frame[k] != (uint64_t)(k + sig);
    seen++;
}
static void alternate(void)
{
    size_t bytes = (size_t)sysconf(_SC_SIGSTKSZ);
    char *all = malloc(bytes + 2 * GUARD_BYTES);
    stack_t own = {.ss_sp = all + GUARD_BYTES, .ss_size = bytes}, now;
    struct sigaction a = {.sa_handler = on_alternate, .sa_flags = SA_ONSTACK};
    struct itimerval t = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    memset(all, 0x5a, bytes + 2 * GUARD_BYTES);
    wrong += sigaltstack(&own, NULL) != 0 || sigaction(SIGALRM, &a, NULL) != 0;
    setitimer(ITIMER_REAL, &t, NULL);
    for (int k = 0; k < 300; k++)
        sink = work(sink, 1000000);
    setitimer(ITIMER_REAL, &none, NULL);
    wrong += sigaltstack(NULL, &now) != 0 || now.ss_sp != own.ss_sp || now.ss_size != bytes || now.ss_flags;
    for (int k = 0; k < GUARD_BYTES; k++)
        wrong += all[k] != 0x5a || all[GUARD_BYTES + bytes + (size_t)k] != 0x5a;
    wrong += !seen;
}

static void on_trap(int sig) { seen += (uint64_t)sig; }
static void traps(void)
{
    signal(SIGTRAP, on_trap);
    for (int k = 0; k < 300; k++) {
        __asm__ volatile("int3");
        sink = work(sink, 300000);
    }
    wrong = seen != 300 * SIGTRAP;
}

static void blocked(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int k = 0; k < 300; k++)
        sink = work(sink, 300000);
}

static void trapped(void)
{
    for (int k = 0; k < 300; k++)
        sink = work(sink, 300000);
}

static void random_branches(void)
{
    uint64_t v = 1;
    for (int k = 0; k < 60000000; k++) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        if (v >> 63) {
            sink++;
            __asm__ volatile("" : : : "memory");
        }
    }
}

static void filled(void)
{
    enum { BYTES = 16 << 20, PAGE = 4096 };
    for (int k = 0; k < 50; k++) {
        char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(p, BYTES, MADV_NOHUGEPAGE);
        for (size_t i = 0; p != MAP_FAILED && i < BYTES; i += PAGE)
            p[i] = 1;
        wrong += p == MAP_FAILED || munmap(p, BYTES) != 0;
    }
    random_branches();
}

static void wait_long(void)
{
    struct timespec some = {7, 0};
    wrong += nanosleep(&some, NULL) != 0;
}

static void patient(void)
{
    wait_long();
    random_branches();
}

/* Long enough that the first snapshot would not come before main. */
static void resigned(void)
{
    wait_long();
    for (int k = 0; k < 5; k++)
        blocked();
}

static void shared(void)
{
    enum { TURNS = 60000000 };
    volatile uint64_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int k = 0; k < TURNS; k++)
        p[k % 512]++;
    uint64_t sum = 0;
    for (int k = 0; k < 512; k++)
        sum += p[k];
    wrong = sum != TURNS;
}

static void childless(void)
{
    for (int k = 0; k < 3000; k++) {
        errno = 0;
        wrong += waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD;
        sink = work(sink, 30000);
    }
}

/* Waits between pieces of work, for which no signal is a reason to end. */
static void undisturbed(void)
{
    for (int k = 0; k < 400; k++) {
        struct timespec some = {0, 200000};
        wrong += poll(NULL, 0, 1) != 0;
        wrong += nanosleep(&some, NULL) != 0;
        sink = work(sink, 400000);
    }
}

static void on_last(int sig) { seen += sig == SIGRTMAX; }

/* Nobody has a handler for the last signal; then the program has one, and gets what it sends itself, and no more. */
static void last(void)
{
    struct sigaction was;
    sink = work(sink, 30000000);
    for (int sig = 1; sig <= SIGRTMAX; sig++)
        if (sigaction(sig, NULL, &was) == 0)
            wrong += sig == SIGRTMAX && was.sa_handler != SIG_DFL;
    sink = work(sink, 30000000);
    wrong += signal(SIGRTMAX, on_last) != SIG_DFL;
    for (int k = 0; k < 100; k++) {
        sink = work(sink, 400000);
        raise(SIGRTMAX);
    }
    wrong += seen != 100;
}

static void *work_apart(void *deaf)
{
    sigset_t all;
    sigfillset(&all);
    if (deaf)
        pthread_sigmask(SIG_BLOCK, &all, NULL);
    uint64_t v = 1;
    for (int k = 0; k < 30000; k++)
        v = work(v, 5000);
    return v ? NULL : deaf;
}

static void wait_for_two(void *deaf)
{
    pthread_t t[2];
    for (int k = 0; k < 2; k++)
        wrong += pthread_create(&t[k], NULL, work_apart, deaf) != 0;
    for (int k = 0; k < 2; k++)
        wrong += pthread_join(t[k], NULL) != 0;
}

static void threads(void) { wait_for_two(NULL); }
static void deaf(void) { wait_for_two((void *)&seen); }

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A snapshot that goes on after others have worked at it finds another time than the one that was recorded did, and so
 * goes this way. The program itself stands still meanwhile, and goes it too. */
static void harm(pid_t self)
{
    if (syscall(SYS_getpid) == self)
        return;
    kill(self, SIGKILL);
    _exit(1);
}

static void clocked(void)
{
    enum { LATE_MS = 20 };
    pid_t self = getpid();
    uint64_t v = 1;
    double last = seconds();
    for (int k = 0; k < 3000000; k++) {
        v = work(v, 40);
        for (uint64_t bits = v >> 8; bits & 7; bits >>= 1)
            sink += bits & 1;
        double now = seconds();
        if (now - last > 1e-3 * LATE_MS)
            harm(self);
        last = now;
    }
    wrong += v == 0;
}

static void strict(const char *path)
{
    static const char line[] = "strict well\n";
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (fd < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        _exit(2);
    sink = work(sink, 90000000);
    if (write(fd, line, sizeof line - 1) < 0)
        syscall(SYS_exit, 2);
    syscall(SYS_exit, 7);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"flags", flags},         {"jumps", jumps},       {"handlers", handlers},      {"traps", traps},
        {"blocked", blocked},     {"trapped", trapped},   {"random", random_branches}, {"filled", filled},
        {"patient", patient},     {"resigned", resigned}, {"shared", shared},          {"childless", childless},
        {"threads", threads},     {"deaf", deaf},         {"clocked", clocked},        {"undisturbed", undisturbed},
        {"alternate", alternate}, {"last", last}};
    cpu_set_t before, after;
    if (argc != 3)
        return 2;
    sched_getaffinity(0, sizeof before, &before);
    if (strcmp(argv[1], "strict") == 0)
        strict(argv[2]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0)
            all[i].run();
    sched_getaffinity(0, sizeof after, &after);
    wrong += !CPU_EQUAL(&before, &after);
    FILE *f = fopen(argv[2], "a");
    if (!f || fprintf(f, "%s %s\n", argv[1], wrong ? "disturbed" : "well") < 0 || fclose(f))
        return 2;
    if (strcmp(argv[1], "trapped") == 0)
        __asm__ volatile("int3");
    return 0;
}
