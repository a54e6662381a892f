/* SPDX-License-Identifier: Apache-2.0
 * Bursts (wire/bursts.h) from the host's side: makes the file, runs the program's copy that carries only the runtime,
 * has snapshots' requests answered by the caller's translator, and gives whole windows to the caller in a thread of
 * their own, while the next snapshot fills another slot. Counts what was lost. Knows nothing of translation, nor of
 * records. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

enum { PART_BYTES = 1 << 20, PARTS_MIN = 24, PARTS_USUAL = 192, ADDRESSES_MAX = 64 << 10, WAIT_NS = 20000000 };
enum { NICE = 10 };
enum { END_POLLS = 4000, END_POLL_NS = 1000000, TICKS_FOLLOW_TIME_SINCE = 604 /* Linux 6.4 */ };

struct bursts {
    struct scratch file;
    struct wire_bursts *b, layout; /* layout: as the host wrote it */
    size_t bytes;
    struct windows steps;        /* if they are wanted */
    struct originals *originals; /* in a counted run; NULL else */
    struct ticks ticks;          /* likewise */
    struct spaces *spaces;       /* likewise */
    char env[sizeof((struct scratch *)0)->path + sizeof WIRE_BURSTS_ENV + 1];
    const struct launch_burst_options *opt;
    struct launch_burst_counts counts;
    pthread_t server, taker;
    atomic_bool ends;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct launch_burst queue[WIRE_BURST_SLOTS]; /* whole windows, the oldest first; of each slot at most one */
    uint32_t queue_slot[WIRE_BURST_SLOTS], queued;
    uint32_t slot;       /* that snapshots fill now, as the host chose it */
    uint32_t slot_used;  /* bytes of a slot that are enough for a window */
    uint32_t slots_used; /* a bit for each that is queued or being taken */
    bool no_more;
    VEC(pid_t) ended; /* to be reaped */
};

/* ---- the file ---- */

static uint64_t page_multiple(uint64_t n) { return ALIGN_UP(n, (uint64_t)WIRE_PAGE_BYTES); }

/* A tenth for copies of code, four for translations, the rest for records. */
static void lay_out(struct bursts *s, uint64_t head_bytes)
{
    struct wire_bursts *l = &s->layout;
    uint64_t rest = s->bytes - head_bytes - sizeof(struct wire_lookup) * 2;
    l->bytes = s->bytes;
    l->page_max = (uint32_t)min_u64(rest / 10 / WIRE_PAGE_BYTES, ADDRESSES_MAX);
    l->pages_at = head_bytes;
    l->code_at = l->pages_at + (uint64_t)l->page_max * WIRE_PAGE_BYTES;
    l->code_bytes = page_multiple(rest * 4 / 10);
    l->tables_at = l->code_at + l->code_bytes;
    l->slots_at = l->tables_at + 2 * sizeof(struct wire_lookup);
    l->slot_bytes = ALIGN_DOWN((s->bytes - l->slots_at) / WIRE_BURST_SLOTS, (uint64_t)WIRE_PAGE_BYTES);
    l->slot_used = (uint32_t)min_u64(page_multiple(s->opt->window_bytes), l->slot_bytes - WIRE_PAGE_BYTES);
}

/* Before it the kernel gives ticks of a process's time to its first thread, wherever that stands. */
static bool ticks_follow_time(void)
{
    struct utsname u;
    unsigned major = 0, minor = 0;
    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
           major * 100 + minor >= TICKS_FOLLOW_TIME_SINCE;
}

static bool may_execute(const struct bursts *s)
{
    void *at = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, s->file.fd, 0);
    if (at != MAP_FAILED)
        munmap(at, WIRE_PAGE_BYTES);
    return at != MAP_FAILED;
}

/* *why: in the arena, if the place for it is to blame. */
static int open_file(struct bursts *s, struct arena *a, const char **why)
{
    uint64_t head = page_multiple(sizeof(struct wire_bursts) + ADDRESSES_MAX * 8),
             window = page_multiple(s->opt->window_bytes) + WIRE_PAGE_BYTES;
    uint64_t max = PARTS_USUAL / 2 + 2 * WIRE_BURST_SLOTS * window / PART_BYTES + 1;
    struct scratch_size z = {head, PART_BYTES, max, 0};
    s->b = scratch_map(&s->file, &z, &s->bytes);
    if (!s->b)
        return -1;
    if (s->file.parts < PARTS_MIN || !may_execute(s)) {
        *why = arena_printf(a,
                            s->file.parts < PARTS_MIN
                                ? "no room for them in %s; free %d MB"
                                : "the file system of %s forbids to execute, which they need (%d MB)",
                            s->file.path, 2 * PARTS_MIN);
        munmap(s->b, s->bytes);
        scratch_close(&s->file);
        return -1;
    }
    s->layout = (struct wire_bursts){.magic = WIRE_BURSTS_MAGIC,
                                     .interval_ns = (uint64_t)(s->opt->interval_s * 1e9) + 1,
                                     .system_share = (uint32_t)(s->opt->system_share * 1024),
                                     .seed = s->opt->seed ? s->opt->seed : 20261121,
                                     .window_max = s->opt->window_max,
                                     .steps_apart = s->opt->steps_apart,
                                     .by_process = s->opt->threads && ticks_follow_time()};
    lay_out(s, head);
    s->slot_used = s->layout.slot_used;
    *s->b = s->layout;
    return 0;
}

static int open_steps(struct bursts *s)
{
    if (s->opt->steps && windows_open(&s->steps, s->opt) < 0)
        return -1;
    if (s->opt->steps)
        snprintf(s->b->steps_path, sizeof s->b->steps_path, "%s", s->steps.file.path);
    return 0;
}

static void close_files(struct bursts *s)
{
    if (s->steps.w)
        windows_close(&s->steps);
    munmap(s->b, s->bytes);
    scratch_close(&s->file);
}

/* ---- windows to the caller ---- */

static uint32_t free_slot(const struct bursts *s)
{
    for (uint32_t k = 0; k < WIRE_BURST_SLOTS; k++)
        if (!(s->slots_used & 1u << k))
            return k;
    return ID_NONE;
}

/* The next snapshot may come, if there is a slot for it. Under the lock. */
static void let_next(struct bursts *s)
{
    uint32_t slot = free_slot(s);
    if (slot == ID_NONE)
        return;
    s->slot = s->b->slot = slot;
    s->b->slot_used = s->slot_used;
    __atomic_store_n(&s->b->busy, 0, __ATOMIC_RELEASE);
}

/* So that snapshots do not go on for longer than is wanted. A window that is denser ends a little early. */
static void learn_length(struct bursts *s, const struct launch_burst *w, uint64_t needed)
{
    if (needed < w->bytes || w->end == WIRE_BURST_FULL)
        s->slot_used = (uint32_t)min_u64(page_multiple(needed + needed / 16), s->layout.slot_used);
}

static double thread_time_s(void)
{
    struct timespec t = {0, 0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Beside the only run: the program goes first. */
static void be_nice(const struct bursts *s)
{
    if (s->b->nice)
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), getpriority(PRIO_PROCESS, 0) + (int)s->b->nice);
}

static void *take(void *arg)
{
    struct bursts *s = arg;
    be_nice(s);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->queued && !s->no_more)
            pthread_cond_wait(&s->changed, &s->lock);
        if (!s->queued)
            break;
        struct launch_burst w = s->queue[0];
        uint32_t slot = s->queue_slot[0];
        w.waiting = --s->queued;
        memmove(s->queue, s->queue + 1, s->queued * sizeof *s->queue);
        memmove(s->queue_slot, s->queue_slot + 1, s->queued * sizeof *s->queue_slot);
        pthread_mutex_unlock(&s->lock);
        uint64_t needed = s->opt->take(s->opt->ctx, &w);
        pthread_mutex_lock(&s->lock);
        learn_length(s, &w, needed);
        bool was_full = free_slot(s) == ID_NONE;
        s->slots_used &= ~(1u << slot);
        __atomic_store_n(&s->b->untaken, s->slots_used, __ATOMIC_RELEASE);
        if (was_full)
            let_next(s);
    }
    s->counts.take_s = thread_time_s();
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void queue_window(struct bursts *s)
{
    const struct wire_bursts *b = s->b;
    uint32_t slot = s->slot, end = b->end;
    uint64_t at = s->layout.slots_at + slot * s->layout.slot_bytes, used = b->state.next - b->base - at;
    uint64_t bytes = min_u64(used, b->slot_used); /* the last record, which is torn, may reach beyond */
    bool is_whole = end <= WIRE_BURST_STOPPED && used <= s->layout.slot_bytes && !(s->slots_used & 1u << slot);
    pthread_mutex_lock(&s->lock);
    if (is_whole && bytes == 0) {
        s->counts.empty++;
    } else if (is_whole) {
        s->slots_used |= 1u << slot;
        __atomic_store_n(&s->b->untaken, s->slots_used, __ATOMIC_RELEASE);
        s->queue_slot[s->queued] = slot;
        s->queue[s->queued++] = (struct launch_burst){.number = b->number,
                                                      .thread = b->thread,
                                                      .at_s = (double)b->at_ns / 1e9,
                                                      .fs = b->fs,
                                                      .gs = b->gs,
                                                      .end = end,
                                                      .is_torn = end == WIRE_BURST_FULL || end == WIRE_BURST_FAULT,
                                                      .records = (const uint8_t *)b + at,
                                                      .bytes = bytes};
        s->counts.taken++;
        pthread_cond_signal(&s->changed);
    } else {
        diag_debug(1, "a window was lost: end %u, %llu bytes", end, (unsigned long long)used);
        s->counts.lost++;
    }
    let_next(s);
    pthread_mutex_unlock(&s->lock);
}

/* ---- snapshots ---- */

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static void add_times(struct launch_burst_counts *c, const struct rusage *u)
{
    c->snapshots_user_s += seconds(u->ru_utime);
    c->snapshots_system_s += seconds(u->ru_stime);
}

static void reap(struct bursts *s, bool wait)
{
    size_t keep = 0;
    for (size_t i = 0; i < s->ended.len; i++) {
        struct rusage u;
        int status;
        pid_t got = wait4(s->ended.data[i], &status, wait ? 0 : WNOHANG, &u);
        if (got == 0)
            s->ended.data[keep++] = s->ended.data[i];
        else if (got > 0)
            add_times(&s->counts, &u);
    }
    s->ended.len = keep;
}

static void hand_back(struct bursts *s)
{
    __atomic_store_n(&s->b->turn, WIRE_BURST_SNAPSHOT, __ATOMIC_RELEASE);
    syscall(SYS_futex, &s->b->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void answer_places(const struct bursts *s)
{
    uint64_t room = s->layout.slot_bytes / sizeof(struct wire_place);
    uint32_t count = (uint32_t)min_u64(s->b->place_count, room);
    struct wire_place *places = (void *)((char *)s->b + s->layout.slots_at + s->slot * s->layout.slot_bytes);
    originals_answer(s->originals, places, count);
}

static void answer(struct bursts *s)
{
    if (s->b->request == WIRE_BURST_PLACES && s->originals) {
        answer_places(s);
        hand_back(s);
        return;
    }
    if (s->b->request != WIRE_BURST_ENDED) {
        s->counts.requests++;
        s->counts.changed += s->b->request == WIRE_BURST_CHANGED;
        s->opt->answer(s->opt->ctx, s->b);
        hand_back(s);
        return;
    }
    VEC_PUSH(&s->ended, s->b->pid);
    hand_back(s);
    queue_window(s);
    reap(s, false);
}

/* A snapshot that died without a word. */
static void look_for_lost(struct bursts *s)
{
    int32_t pid = s->b->pid;
    siginfo_t info = {.si_pid = 0};
    if (!__atomic_load_n(&s->b->busy, __ATOMIC_ACQUIRE) || pid <= 0 ||
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
        return;
    for (size_t i = 0; i < s->ended.len; i++)
        if (s->ended.data[i] == pid) /* its window waits for a slot */
            return;
    VEC_PUSH(&s->ended, pid);
    pthread_mutex_lock(&s->lock);
    s->counts.lost++;
    let_next(s);
    pthread_mutex_unlock(&s->lock);
}

static void *serve(void *arg)
{
    struct bursts *s = arg;
    be_nice(s);
    struct timespec wait = {0, WAIT_NS};
    while (!atomic_load(&s->ends)) {
        if (__atomic_load_n(&s->b->turn, __ATOMIC_ACQUIRE) == WIRE_BURST_HOST) {
            answer(s);
        } else if (syscall(SYS_futex, &s->b->turn, FUTEX_WAIT, WIRE_BURST_SNAPSHOT, &wait, NULL, 0) < 0 &&
                   errno == ETIMEDOUT) {
            look_for_lost(s);
            reap(s, false);
        }
    }
    s->counts.answer_s = thread_time_s();
    return NULL;
}

/* What is at work when the program ends may finish, unless the program was interrupted. */
static void settle(struct bursts *s, bool wait)
{
    for (int i = 0; wait && i < END_POLLS && __atomic_load_n(&s->b->busy, __ATOMIC_ACQUIRE) && s->b->pid; i++)
        nanosleep(&(struct timespec){0, END_POLL_NS}, NULL);
    __atomic_store_n(&s->b->abandoned, 1, __ATOMIC_RELAXED);
    hand_back(s);
}

static void stop_taking(struct bursts *s)
{
    pthread_mutex_lock(&s->lock);
    s->no_more = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->taker, NULL);
}

static bool start_threads(struct bursts *s)
{
    if (!signals_thread(&s->taker, take, s))
        return false;
    if (signals_thread(&s->server, serve, s))
        return true;
    stop_taking(s);
    return false;
}

static void stop(struct bursts *s)
{
    atomic_store(&s->ends, true);
    pthread_join(s->server, NULL);
    int32_t pid = s->b->pid;
    if (__atomic_load_n(&s->b->busy, __ATOMIC_ACQUIRE) && pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 &&
        kill(pid, SIGKILL) == 0)
        VEC_PUSH(&s->ended, pid);
    reap(s, true);
    stop_taking(s);
}

static void finish(struct bursts *s, struct spaces *spaces, struct launch_result *r)
{
    s->counts.begun = s->b->begun;
    s->counts.skipped = s->b->skipped;
    s->counts.refused = s->b->refused;
    s->counts.forks_s = 1e-9 * (double)s->b->spent_ns;
    s->counts.copied_s = s->ticks.copied_s;
    s->counts.first_thread_only = s->opt->threads && !s->b->by_process;
    r->bursts = s->counts;
    if (!s->b->started)
        r->windows_note = "the timer inside the program did not start";
    else if (!s->counts.taken && !(s->steps.w && s->steps.w->window_count))
        r->windows_note = "the program hardly ran, or blocks signals, or no more processes may be made, or it executed "
                          "another program";
    if (s->opt->take_steps && s->steps.w)
        s->opt->take_steps(s->opt->ctx, s->steps.w);
    if (s->opt->finish)
        s->opt->finish(s->opt->ctx, launch_place, spaces);
}

/* Snapshots may come from now on. False after one line. */
static bool begin(struct bursts *s)
{
    s->opt->begin(s->opt->ctx, s->b);
    if (!start_threads(s)) {
        diag_error("cannot make a thread; end other programs or raise the limit (ulimit -u)");
        return false;
    }
    if (s->steps.w)
        windows_begin(&s->steps);
    return true;
}

/* The program has ended; `wait` for what is still at work. */
static void end(struct bursts *s, bool wait)
{
    ticks_end(&s->ticks, wait); /* before the next: slices are planned for those that wait */
    if (s->steps.w)
        windows_end(&s->steps, wait);
    settle(s, wait);
    stop(s);
}

static int run(struct bursts *s, struct launch_program *p, const char *copy, const char *mute, struct launch_result *r)
{
    struct spaces *spaces = NULL;
    struct in_process_run run = {
        .copy = copy, .name = WIRE_BURSTS_ENV, .file = s->file.path, .mute = mute, .spaces = &spaces};
    if (!begin(s))
        return -1;
    int rc = in_process_run(p, &run, r);
    end(s, rc == 0 && WIFEXITED(r->status));
    if (rc == 0)
        finish(s, spaces, r);
    spaces_free(spaces);
    return rc;
}

static int no_windows(const struct launch_program *p, const struct launch_options *opt, const char *why,
                      struct launch_result *r)
{
    if (!opt->bursts->may_fail)
        return diag_error("%s: windows cannot be taken: %s", p->path, why);
    r->windows_note = arena_strdup(r->arena, why);
    r->was_not_run = true;
    return 0;
}

int bursts_run(struct launch_program *p, const struct launch_options *opt, const char *mute, struct launch_result *r)
{
    struct bursts s = {.opt = opt->bursts, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const char *why = NULL, *copy = in_process_copy(p, &why);
    if (!copy)
        return no_windows(p, opt, why ? why : "it cannot be rewritten", r);
    why = NULL;
    if (open_file(&s, r->arena, &why) < 0)
        return why ? no_windows(p, opt, why, r) : -1;
    int rc = open_steps(&s) == 0 ? run(&s, p, copy, mute, r) : -1;
    VEC_FREE(&s.ended);
    close_files(&s);
    return rc;
}

/* ---- in a counted run ---- */

static void free_all(struct bursts *s)
{
    VEC_FREE(&s->ended);
    close_files(s);
    if (s->originals)
        originals_close(s->originals);
    free(s);
}

/* Of the file and where snapshots find what they need. False after one line. */
static bool open_for_counted(struct bursts *s, const struct launch_program *p, const struct counters *c)
{
    const char *path;
    if (open_steps(s) < 0 || !(s->originals = originals_open(p, c, &path)))
        return false;
    snprintf(s->b->originals_path, sizeof s->b->originals_path, "%s", path);
    s->b->by_host = s->b->by_process = 1;    /* who has ticks the host decides, thread by thread */
    s->b->waits = !(s->opt->interval_s > 0); /* a further run may take as long as it does */
    s->b->nice = s->b->waits ? NICE : 0;
    s->b->host = getpid();
    s->ticks = (struct ticks){.b = s->b, .steps = s->steps.w, .originals = s->originals, .opt = s->opt};
    return true;
}

static void change_start(struct bursts *s, struct start *start)
{
    snprintf(s->env, sizeof s->env, "%s=%s", WIRE_BURSTS_ENV, s->file.path);
    start->env_extra[2] = s->env;
    start->snapshots = s->b;
    start->keep_spaces = &s->spaces;
    start->more_bytes += start->more_bytes ? s->bytes + s->steps.bytes : 0;
}

struct bursts *bursts_start(struct launch_program *p, const struct launch_options *opt, const struct counters *c,
                            struct start *start, struct launch_result *r, bool *failed)
{
    const char *why = NULL;
    struct bursts *s = xmalloc(sizeof *s);
    *s = (struct bursts){.opt = opt->bursts, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    if (open_file(s, r->arena, &why) < 0) {
        *failed = !why;
        r->windows_note = why;
        free(s);
        return NULL;
    }
    if (open_for_counted(s, p, c) && begin(s)) {
        change_start(s, start);
        ticks_begin(&s->ticks);
        return s;
    }
    *failed = true;
    free_all(s);
    return NULL;
}

void bursts_stop(struct bursts *s, bool has_run, struct launch_result *r)
{
    double since = time_now_s();
    end(s, has_run);
    s->counts.after_s = time_now_s() - since;
    if (has_run)
        finish(s, s->spaces, r);
    spaces_free(s->spaces);
    free_all(s);
}
