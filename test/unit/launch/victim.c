/* SPDX-License-Identifier: Apache-2.0
 * The program that the launch tests run: each first argument is one behaviour. Prints what it can see of its own state,
 * so that a run under mtool can be compared with a direct one. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "wire/wire.h"

extern char **environ;
uint64_t victim_hot(uint64_t n);
static volatile uint64_t sink;

__attribute__((noinline)) uint64_t victim_hot(uint64_t n)
{
    uint64_t x = n;
    for (uint64_t i = 0; i < 20000; i++)
        x = x * 6364136223846793005u + i;
    return x;
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int busy(const char *seconds)
{
    for (double end = cpu_s() + atof(seconds); cpu_s() < end;)
        for (int i = 0; i < 20; i++)
            sink += victim_hot(sink);
    return 0;
}

static void print_signals(void)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int s = 1; s < 65; s++) {
        struct sigaction a;
        if (sigaction(s, NULL, &a) < 0)
            continue;
        printf("signal %d blocked %d ignored %d flags %x\n", s, sigismember(&mask, s), a.sa_handler == SIG_IGN,
               a.sa_flags);
    }
}

static void print_limits(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit l;
        if (getrlimit((__rlimit_resource_t)i, &l) == 0)
            printf("limit %d %llx %llx\n", i, (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
    }
}

static void print_files(void)
{
    for (int fd = 0; fd < 256; fd++) {
        struct stat st;
        if (fstat(fd, &st) == 0)
            printf("fd %d mode %o inode %llu\n", fd, st.st_mode, (unsigned long long)st.st_ino);
    }
}

static int state(char **argv)
{
    char cwd[4096], exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = 0;
    printf("argv0 %s\nexe %s\ncwd %s\nuid %d %d\n", argv[0], exe, getcwd(cwd, sizeof cwd), getuid(), geteuid());
    for (int i = 1; argv[i]; i++)
        printf("argument %s\n", argv[i]);
    for (char **e = environ; *e; e++)
        printf("env %s\n", *e);
    print_signals();
    print_limits();
    print_files();
    return 0;
}

static volatile sig_atomic_t got[65];
static void note(int sig) { got[sig]++; }

/* Says "ready", then tells how often it got the signal, after a while without a new one. */
static int catch_signal(int sig)
{
    signal(sig, note);
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < 100 && !got[sig]; i++)
        usleep(50000);
    usleep(200000);
    printf("got %d\n", (int)got[sig]);
    return 7;
}

static void *thread_main(void *arg)
{
    usleep(50000);
    return arg;
}

static int threads(int n)
{
    pthread_t t[64];
    for (int i = 0; i < n; i++)
        pthread_create(&t[i], NULL, thread_main, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    return 0;
}

static int forks(int n)
{
    for (int i = 0; i < n; i++) {
        if (fork() == 0) {
            busy("0.01");
            _exit(0);
        }
        wait(NULL);
    }
    return 0;
}

static int stop(void)
{
    printf("ready\n");
    fflush(stdout);
    raise(SIGTSTP);
    printf("continued\n");
    return 5;
}

static int sleeper(void)
{
    printf("ready\n");
    fflush(stdout);
    sleep(20);
    return 0;
}

static void print_size(const char *what, const char *path)
{
    struct stat st;
    printf("%s %s %lld\n", what, path, stat(path, &st) == 0 ? (long long)st.st_size : -1);
}

/* Which files this process is made of, by the names that it sees. */
static int files(void)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = 0;
    print_size("exe", exe);
    Dl_info info;
    void *in_libc = dlsym(RTLD_DEFAULT, "strtoul");
    char real[4096];
    if (dladdr(in_libc, &info) && realpath(info.dli_fname, real))
        print_size("libc", real);
    return 0;
}

/* ---- the part of the injected runtime, played by the program itself ---- */

static void *map_shared(const char *name)
{
    const char *path = getenv(name);
    struct stat st;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    unsetenv(name);
    return at == MAP_FAILED ? NULL : at;
}

static struct wire_header *header;

/* Into an area of this process: the first module's first counter, and its last. */
static void count_some(uint64_t n)
{
    if (!header || header->magic != WIRE_MAGIC)
        return;
    uint64_t area = __atomic_fetch_add(&header->area_next, 1, __ATOMIC_RELAXED);
    uint64_t *c = (uint64_t *)(void *)((char *)header + WIRE_HEADER_BYTES + area * header->area_bytes +
                                       header->modules[0].offset);
    c[0] += n;
    c[header->modules[0].bytes / 8 - 1] += 1;
    header->modules[0].loaded = 1;
}

static int counted_forks(int n)
{
    for (int i = 0; i < n; i++) {
        if (fork() == 0) {
            __atomic_fetch_add(&header->forks, 1, __ATOMIC_RELAXED);
            count_some(1);
            kill(getpid(), SIGKILL);
        }
        wait(NULL);
    }
    return 0;
}

static struct wire_samples *samples;

static void on_tick(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)info;
    uint64_t n = __atomic_fetch_add(&samples->next, 1, __ATOMIC_RELAXED);
    if (n < samples->capacity)
        samples->sample[n] =
            (struct wire_sample){(uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP], (uint32_t)gettid(), 0};
}

static void play_runtime(void)
{
    header = map_shared(WIRE_ENV);
    count_some(42);
    samples = map_shared(WIRE_SAMPLES_ENV);
    if (!samples || samples->magic != WIRE_SAMPLES_MAGIC)
        return;
    struct sigaction a = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval t = {{0, (suseconds_t)(samples->period_ns / 1000)}, {0, (suseconds_t)(samples->period_ns / 1000)}};
    samples->started = sigaction(SIGPROF, &a, NULL) == 0 && setitimer(ITIMER_PROF, &t, NULL) == 0;
}

static int load(const char *path)
{
    usleep(300000);
    void *h = dlopen(path, RTLD_NOW);
    uint64_t (*work)(uint64_t) = NULL;
    if (h)
        *(void **)&work = dlsym(h, "library_work");
    if (!work)
        return 1;
    for (double end = cpu_s() + 0.3; cpu_s() < end;)
        sink += work(sink);
    return 0;
}

int main(int argc, char **argv)
{
    play_runtime();
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    if (!strcmp(what, "exit"))
        return atoi(arg);
    if (!strcmp(what, "kill"))
        return kill(getpid(), atoi(arg));
    if (!strcmp(what, "state"))
        return state(argv);
    if (!strcmp(what, "busy"))
        return busy(arg);
    if (!strcmp(what, "catch"))
        return catch_signal(atoi(arg));
    if (!strcmp(what, "threads"))
        return threads(atoi(arg));
    if (!strcmp(what, "forks"))
        return forks(atoi(arg));
    if (!strcmp(what, "stop"))
        return stop();
    if (!strcmp(what, "sleep"))
        return sleeper();
    if (!strcmp(what, "load"))
        return load(arg);
    if (!strcmp(what, "files"))
        return files();
    if (!strcmp(what, "counted-forks"))
        return counted_forks(atoi(arg));
    if (!strcmp(what, "system"))
        return system(arg) != 0;
    fprintf(stderr, "victim: unknown behaviour %s\n", what);
    return 99;
}
