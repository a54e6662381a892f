/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler of the runtime, where perf_event is refused: a CPU-time timer of the process whose ticks note which
 * thread they found where, in the sample file of wire.h.
 */
#include "rt/rt.h"

enum { SA_FLAGS = SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART, UC_RIP = 168 };
#define SAMPLES_VADDR (WIRE_PCB_VADDR - PAGE) /* where the address of the sample file's mapping is kept */

static void on_tick(int sig, const void *info, const void *context)
{
    (void)sig;
    (void)info;
    struct wire_samples *s = *(struct wire_samples **)SAMPLES_VADDR;
    uint64_t n = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
    if (n < s->capacity)
        s->sample[n] = (struct wire_sample){*(const uint64_t *)((const char *)context + UC_RIP),
                                            (uint32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0), 0};
}

static struct wire_samples *map_samples(const char *path)
{
    int fd = rt_open(path);
    if (fd < 0)
        return 0;
    int64_t m = sys(SYS_mmap, 0, PAGE, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
    struct wire_samples *s = 0;
    if (!failed(m) && ((struct wire_samples *)m)->magic == WIRE_SAMPLES_MAGIC) {
        uint64_t bytes = sizeof *s + ((struct wire_samples *)m)->capacity * sizeof(struct wire_sample);
        int64_t all = sys(SYS_mmap, 0, bytes, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
        s = failed(all) ? 0 : (struct wire_samples *)all;
    }
    if (!failed(m))
        sys(SYS_munmap, (uint64_t)m, PAGE, 0, 0, 0, 0);
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    return s;
}

void rt_start_sampling(char **envp)
{
    char path[PATH_BYTES];
    if (!rt_take_env(envp, WIRE_SAMPLES_ENV "=", path))
        return;
    struct wire_samples *s = map_samples(path);
    int64_t at =
        sys(SYS_mmap, SAMPLES_VADDR, PAGE, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
    if (!s || at != (int64_t)SAMPLES_VADDR)
        return;
    *(struct wire_samples **)SAMPLES_VADDR = s;
    uint64_t handler = (uint64_t)on_tick, restorer = (uint64_t)rt_sigreturn;
    __asm__("" : "+r"(handler), "+r"(restorer)); /* else clang makes a table of them, which would need a relocation */
    /* All others wait: a handler of the program's must see the program's own code as what it interrupted, not this. */
    uint64_t action[4] = {handler, SA_FLAGS, restorer, UINT64_MAX};
    uint64_t event[8] = {0, SIGPROF | (uint64_t)SIGEV_SIGNAL << 32}; /* sigev_value, sigev_signo, sigev_notify */
    uint32_t timer[2];
    uint64_t period[4] = {s->period_ns / 1000000000u, s->period_ns % 1000000000u, s->period_ns / 1000000000u,
                          s->period_ns % 1000000000u};
    if (sys(SYS_rt_sigaction, SIGPROF, (uint64_t)action, 0, 8, 0, 0) == 0 &&
        sys(SYS_timer_create, CLOCK_PROCESS_CPUTIME_ID, (uint64_t)event, (uint64_t)timer, 0, 0, 0) == 0 &&
        sys(SYS_timer_settime, timer[0], 0, (uint64_t)period, 0, 0, 0) == 0)
        s->started = 1;
}
