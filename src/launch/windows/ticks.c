/* SPDX-License-Identifier: Apache-2.0
 * When snapshots of a counted program are due, and its threads' ticks. A tick is a signal that the kernel's software
 * clock of a thread sends it, and only while the thread executes its own code: so no system call ends with EINTR that
 * would not. The first are close together; then they come at a constant share of the time that the program has used, so
 * a short program has enough and a long one not too many. A dear snapshot (many pages to be copied) makes them rarer.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

enum {
    THREADS_MAX = 64,
    FAILURES_MAX = 50,
    SNAPSHOT_MS_MAX = 2000,
    CHECKPOINTS_MAX = 24,
    SLEEPERS_MAX = 40, /* with checkpoints */
    MEMORY_SHARE = 4
};
static const double INTERVAL_MIN_S = 0.008, OF_TIME = 1.0 / 14, COST_SHARE = 1.0 / 10 /* usually */, COST_FREE_S = 0.03,
                    FAULT_S = 2e-6;
static const double LOOK_MIN_S = 0.01, LOOK_MAX_S = 0.5; /* at threads */
static const double AFTER_S = 3, AFTER_MAX_S = 20; /* that replays go on when the program has ended: so long, and as
                                                       long as it took */
static const uint64_t STEP_NS = 1000000;

struct armed {
    int fds[THREADS_MAX];
    size_t count;
};

static void nap(void) { nanosleep(&(struct timespec){0, (long)STEP_NS}, NULL); }

static double uniform(struct ticks *t)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(t->random >> 11) / (double)(1ull << 53);
}

/* ---- one thread ---- */

/* A signal that it blocks would be waiting for a call that unblocks it; one that finds no room becomes SIGIO; one that
 * it does not catch ends it. */
static bool may_tick(pid_t pid, pid_t tid)
{
    char path[64], *at;
    struct strbuf s = {0};
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    const uint64_t bit = 1ull << (WIRE_TICK - 1);
    bool ok = false;
    if (procfs_read(path, &s) == 0 && (at = strstr(s.data, "\nSigQ:"))) {
        uint64_t used = strtoull(at + 6, &at, 10), room = *at == '/' ? strtoull(at + 1, NULL, 10) : 0;
        const char *blocked = strstr(s.data, "\nSigBlk:"), *caught = strstr(s.data, "\nSigCgt:");
        ok = blocked && caught && used + 16 < room && !(strtoull(blocked + 8, NULL, 16) & bit) &&
             (strtoull(caught + 8, NULL, 16) & bit);
    }
    str_free(&s);
    return ok;
}

/* -1: the kernel refuses, or the thread is gone. */
static int open_clock(pid_t tid, uint64_t period_ns)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_TASK_CLOCK};
    a.sample_period = period_ns;
    a.disabled = a.exclude_kernel = a.exclude_hv = a.remove_on_exec = 1;
    a.wakeup_events = 1;
    return (int)syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool arm_thread(struct armed *all, pid_t tid, uint64_t period_ns)
{
    struct f_owner_ex owner = {F_OWNER_TID, tid};
    int fd = open_clock(tid, period_ns);
    if (fd >= 0 && fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETSIG, WIRE_TICK) == 0 &&
        fcntl(fd, F_SETFL, O_ASYNC) == 0 && ioctl(fd, PERF_EVENT_IOC_REFRESH, 1) == 0) {
        all->fds[all->count++] = fd;
        return true;
    }
    if (fd >= 0)
        close(fd);
    return false;
}

static void disarm(struct armed *all)
{
    while (all->count)
        close(all->fds[--all->count]);
}

/* ---- all threads: each waits for a time of its own, so who uses most has most ticks ---- */

static double wait_of(struct ticks *t, double mean_s) { return fmax(50e-6, -mean_s * log(1 - uniform(t))); }

static void arm(struct ticks *t, struct armed *all, double mean_s)
{
    pid_t tids[THREADS_MAX];
    size_t n = procfs_threads(t->pid, tids, THREADS_MAX);
    for (size_t i = 0; i < n; i++)
        if (may_tick(t->pid, tids[i]))
            arm_thread(all, tids[i], (uint64_t)(1e9 * wait_of(t, mean_s)));
}

/* Of the process, so far. */
static double used_s(const struct ticks *t)
{
    struct timespec now = {0, 0};
    clockid_t clock;
    if (clock_getcpuclockid(t->pid, &clock) != 0 || clock_gettime(clock, &now) != 0)
        return 0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What the last snapshot cost: the fork, and pages that were written since (it shares no more than the program had).
 * What these take in the kernel they take once more in the program, whose caches do not know the copies. */
static double cost_s(struct ticks *t)
{
    double faults = t->taken ? (double)min_u64(t->b->faults - t->faults, t->pages) : 0;
    double copied = 1e-9 * (double)t->b->fault_ns * faults, spent = 1e-9 * (double)(t->b->spent_ns - t->spent_ns);
    t->copied_s += copied;
    t->spent_ns = t->b->spent_ns;
    t->faults = t->b->faults;
    return spent + 2 * copied;
}

/* The processor time at which the next may come: when all that they cost, with this one, is their share. The first one
 * is thought to have all pages copied. */
static double earliest_s(struct ticks *t)
{
    enum { PAGE_KB = 4 };
    double cost = cost_s(t);
    t->cost_s += cost;
    t->pages = procfs_private_kb(t->pid) / PAGE_KB;
    double next = t->taken ? cost : 2 * FAULT_S * (double)t->pages;
    return (t->cost_s + next - COST_FREE_S) / (t->opt->cost_share > 0 ? t->opt->cost_share : COST_SHARE);
}

static double interval_s(const struct ticks *t)
{
    return t->opt->interval_s > 0 ? t->opt->interval_s : fmax(INTERVAL_MIN_S, OF_TIME * used_s(t));
}

static bool goes_on(const struct ticks *t)
{
    return !atomic_load(&t->ends) && !__atomic_load_n(&t->b->given_up, __ATOMIC_ACQUIRE);
}

/* Until a tick was taken; the pid of its snapshot, -1: it had none, 0: there was no tick. */
static pid_t wait_for_tick(struct ticks *t, double max_s)
{
    double until = time_now_s() + max_s;
    while (goes_on(t) && time_now_s() < until && __atomic_load_n(&t->b->wanted, __ATOMIC_ACQUIRE))
        nap();
    if (__atomic_exchange_n(&t->b->wanted, WIRE_WANT_NOTHING, __ATOMIC_ACQ_REL))
        return 0;
    int32_t pid = 0;
    for (int i = 0; i < SNAPSHOT_MS_MAX && !(pid = __atomic_load_n(&t->b->snapshot, __ATOMIC_ACQUIRE)); i++)
        nap();
    return pid ? pid : -1;
}

/* ---- checkpoints: they wait for their turn, mostly for the program's end ---- */

static void end_checkpoint(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* Any: if there is no time for all, those that are left over are from all of the run. It has limits of its own. */
static void run_checkpoint(struct ticks *t)
{
    size_t i = (size_t)(uniform(t) * (double)t->waiting.len);
    pid_t pid = t->waiting.data[i];
    t->waiting.data[i] = t->waiting.data[--t->waiting.len];
    __atomic_store_n(&t->steps->busy, pid, __ATOMIC_RELEASE);
    __atomic_store_n(&t->steps->granted, pid, __ATOMIC_RELEASE);
    syscall(SYS_futex, &t->steps->granted, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    __atomic_store_n(&t->steps->busy, 0, __ATOMIC_RELEASE);
}

static size_t usual_room(const struct ticks *t) { return t->b->waits ? SLEEPERS_MAX : CHECKPOINTS_MAX; }

/* How many may wait: each may come to have all of the program's memory as it was. */
static size_t room(const struct ticks *t)
{
    uint64_t all = procfs_private_kb(t->pid), free_kb = procfs_available_kb();
    double usual = (double)usual_room(t);
    return (size_t)(all ? fmin(usual, fmax(2, (double)free_kb / MEMORY_SHARE / (double)all)) : usual);
}

static double after_s(const struct ticks *t)
{
    return t->opt->after_s > 0 ? t->opt->after_s : fmin(AFTER_MAX_S, AFTER_S + (time_now_s() - t->began_s));
}

static void finish_checkpoints(struct ticks *t)
{
    double until = time_now_s() + after_s(t);
    while (t->waiting.len && !t->steps->enough && !atomic_load(&t->is_over) && time_now_s() < until)
        run_checkpoint(t);
    diag_debug(1, "windows: %zu checkpoints were ended", t->waiting.len);
    for (size_t i = 0; i < t->waiting.len; i++)
        end_checkpoint(t->waiting.data[i]);
    VEC_FREE(&t->waiting);
}

/* ---- snapshots ---- */

/* That a burst has made. */
static void take_checkpoint(struct ticks *t)
{
    pid_t checkpoint = __atomic_exchange_n(&t->b->checkpoint, 0, __ATOMIC_ACQ_REL);
    if (checkpoint <= 0)
        return;
    procfs_end_first(checkpoint);
    VEC_PUSH(&t->waiting, checkpoint);
}

static void run_checkpoints(struct ticks *t)
{
    while (t->waiting.len && t->waiting.len + t->sleepers.len >= room(t) && !atomic_load(&t->ends))
        run_checkpoint(t);
}

/* A burst is reaped by who takes its window; it has made its checkpoint before. */
static void wait_for_snapshot(struct ticks *t)
{
    while (!atomic_load(&t->ends) && __atomic_load_n(&t->b->busy, __ATOMIC_ACQUIRE))
        nap();
    take_checkpoint(t);
    run_checkpoints(t);
}

/* ---- snapshots that sleep: beside the program, on the other hardware thread of its core perhaps, bursts and what
 * mtool does with them would slow it ---- */

static struct sleeper take_sleeper(struct ticks *t, size_t i)
{
    struct sleeper s = t->sleepers.data[i];
    t->sleepers.len--;
    memmove(&t->sleepers.data[i], &t->sleepers.data[i + 1], (t->sleepers.len - i) * sizeof s);
    return s;
}

/* The oldest. It has limits of its own, and who takes windows sees if it dies. */
static void wake_sleeper(struct ticks *t)
{
    t->b->pid = take_sleeper(t, 0).pid;
    __atomic_store_n(&t->b->busy, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&t->b->granted, t->b->pid, __ATOMIC_RELEASE);
    syscall(SYS_futex, &t->b->granted, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    while (!atomic_load(&t->is_over) && __atomic_load_n(&t->b->busy, __ATOMIC_ACQUIRE))
        nap();
    take_checkpoint(t);
}

/* The one whose neighbours are nearest to each other, so that those that stay are spread over the program's time. */
static void end_a_sleeper(struct ticks *t)
{
    const struct sleeper *s = t->sleepers.data;
    size_t least = 0;
    for (size_t i = 1; i + 1 < t->sleepers.len; i++)
        if (!least || s[i + 1].at_s - s[i - 1].at_s < s[least + 1].at_s - s[least - 1].at_s)
            least = i;
    end_checkpoint(take_sleeper(t, least).pid);
}

/* There are enough, or they would come to have too much memory. */
static void take_snapshot(struct ticks *t, pid_t pid)
{
    procfs_end_first(pid);
    VEC_PUSH(&t->sleepers, ((struct sleeper){pid, 1e-9 * (double)t->b->at_ns}));
    size_t all = t->sleepers.len + t->waiting.len;
    if (all > usual_room(t))
        end_a_sleeper(t);
    else if (all > room(t))
        wake_sleeper(t);
    run_checkpoints(t);
}

/* When the program has ended, and before checkpoints, which take longer. */
static void finish_sleepers(struct ticks *t)
{
    double until = time_now_s() + after_s(t) / 2;
    while (t->sleepers.len && !atomic_load(&t->is_over) && time_now_s() < until)
        wake_sleeper(t);
    diag_debug(1, "windows: %zu snapshots were ended", t->sleepers.len);
    while (t->sleepers.len)
        end_checkpoint(take_sleeper(t, 0).pid);
    VEC_FREE(&t->sleepers);
}

static enum wire_want next_want(const struct ticks *t)
{
    bool is_due = !t->opt->steps_apart || t->taken % t->opt->steps_apart == 0;
    size_t later = t->waiting.len + t->sleepers.len;
    return is_due && t->steps && !t->steps->enough && t->steps->window_count + later < t->steps->window_max
               ? WIRE_WANT_BOTH
               : WIRE_WANT_BURST;
}

/* Threads that begin meanwhile, or unblock the signal, have no ticks until the next look. False: none of them can. */
static bool take_one(struct ticks *t)
{
    struct armed all = {.count = 0};
    double earliest = earliest_s(t), mean_s;
    while (goes_on(t) && used_s(t) < earliest)
        nap();
    mean_s = interval_s(t);
    enum wire_want want = next_want(t);
    pid_t pid = 0;
    t->b->snapshot = 0;
    __atomic_store_n(&t->b->busy, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&t->b->wanted, want, __ATOMIC_RELEASE);
    while (goes_on(t) && pid == 0 && t->b->wanted) {
        arm(t, &all, mean_s);
        pid = wait_for_tick(t, fmax(LOOK_MIN_S, fmin(LOOK_MAX_S, mean_s)));
        disarm(&all);
        if (pid == 0 && goes_on(t))
            __atomic_store_n(&t->b->wanted, want, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&t->b->wanted, WIRE_WANT_NOTHING, __ATOMIC_RELEASE);
    if (pid <= 0 || t->b->waits)
        __atomic_store_n(&t->b->busy, 0, __ATOMIC_RELEASE);
    if (pid > 0 && t->b->waits)
        take_snapshot(t, pid);
    else if (pid > 0)
        wait_for_snapshot(t);
    t->taken += pid > 0;
    diag_debug(2, "snapshot %d, mean interval %.4f s, %.4f s used, %llu faults of %llu ns", (int)pid, mean_s, used_s(t),
               (unsigned long long)(t->b->faults - t->faults), (unsigned long long)t->b->fault_ns);
    return pid >= 0;
}

static void *run(void *arg)
{
    struct ticks *t = arg;
    originals_fill(t->originals);
    diag_debug(1, "windows: the originals took %.3f s", time_now_s() - t->began_s);
    while (!atomic_load(&t->ends) && !__atomic_load_n(&t->b->started, __ATOMIC_ACQUIRE))
        nap();
    t->pid = t->b->program;
    for (int failures = 0; goes_on(t) && failures < FAILURES_MAX;)
        failures = take_one(t) ? 0 : failures + 1;
    if (t->b->given_up)
        __atomic_store_n(&t->b->given_up, 2, __ATOMIC_RELEASE);
    while (!atomic_load(&t->ends))
        nap();
    finish_sleepers(t);
    finish_checkpoints(t);
    return NULL;
}

bool ticks_begin(struct ticks *t)
{
    t->random = 20261123;
    t->began_s = time_now_s();
    t->is_running = signals_thread(&t->thread, run, t);
    return t->is_running;
}

void ticks_end(struct ticks *t, bool wait)
{
    atomic_store(&t->is_over, !wait);
    atomic_store(&t->ends, true);
    if (t->is_running)
        pthread_join(t->thread, NULL);
    t->is_running = false;
}
