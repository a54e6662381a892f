/* SPDX-License-Identifier: Apache-2.0
 * perf_event rings to events in order of time: samples of the instruction pointer by the kernel's software clock,
 * who mapped, forked and executed what, and when each thread was given a processor and lost it. One event a processor,
 * inherited by all threads and children, begins with the program's exec. Needs no hardware counters. What cannot be
 * opened is left to the caller's fallback. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"
#include "perf/perf.h"

#define PAGE_BYTES 4096u
#define HERTZ_DEFAULT 997.0         /* 1 kHz, but not in step with the kernel's own tick */
#define RINGS_BYTES_MAX (64u << 20) /* of memory that is held */
/* ax bx cx dx si di bp sp ip r8 ... r15, in the order of enum perf_event_x86_regs, which is that of the record */
#define REGS_MASK 0xff01ffu
enum { REGS = 17, REGS_SP = 7, REGS_IP = 8 };

struct stack_copy { /* of a thread in its own code: registers as sampled, and what lies from the stack pointer on */
    uint64_t regs[REGS];
    size_t len;
    uint8_t bytes[];
};
enum item_kind { ITEM_SAMPLE, ITEM_MAP, ITEM_FORK, ITEM_EXIT, ITEM_EXEC, ITEM_SWITCH };
struct item {
    uint64_t time_ns, seq;
    enum item_kind kind;
    uint32_t pid, tid, parent;
    bool in_kernel;
    enum threads_state turn;
    uint64_t addr, len, file_offset;
    char *path;               /* heap */
    struct stack_copy *stack; /* heap; NULL none */
};
struct sampler {
    struct perf_rings *rings;
    VEC(struct item) items; /* not yet old enough to be in order for sure */
    uint64_t seq, settled_ns;
    struct spaces *spaces;
    struct threads *threads;             /* NULL: not wanted */
    const struct wire_bursts *snapshots; /* NULL: none */
    uint32_t snapshots_known;
    struct map excluded; /* pids -> 1 */
    struct sampler_counts counts;
    struct map by_place; /* (module + 1) << 48 | vaddr -> count */
};

static void take_record(void *ctx, const struct perf_event_header *h);

/* What the rings have, to the items. */
static void collect(void *ctx)
{
    struct sampler *f = ctx;
    perf_rings_drain(f->rings, take_record, f);
}

/* ---- opening ---- */

/* How much of the stack a sample has, in rings of how many pages. The kernel copies what is there up to the stack's
 * end, so that of most programs it is little; but room is taken for all of it, and the rings must do for as many
 * samples. Where the kernel grants less, or processors are many, less of the stack does. */
static const struct size {
    uint32_t stack_bytes, pages, least;
} sizes[] = {{32768, 512, 512}, {32768, 256, 256}, {8192, PERF_RING_PAGES, 0}};

static struct perf_event_attr attr_of(enum sampler_purpose purpose, double hertz, bool user_only,
                                      const struct threads *threads, const struct size *size)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a};
    a.config = purpose == SAMPLER_SAMPLES ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_DUMMY;
    a.sample_period = purpose == SAMPLER_SAMPLES ? (uint64_t)(1e9 / hertz + 0.5) : 0;
    a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    a.disabled = a.enable_on_exec = a.inherit = 1;
    a.mmap = a.task = a.comm = a.comm_exec = a.sample_id_all = 1;
    a.context_switch = threads != NULL;
    if (threads && threads_want_stacks(threads)) {
        a.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a.sample_regs_user = REGS_MASK;
        a.sample_stack_user = size->stack_bytes;
    }
    a.exclude_hv = 1;
    a.exclude_kernel = user_only;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    a.watermark = 1;
    a.wakeup_watermark = size->pages * PAGE_BYTES; /* never: the reader comes by the clock */
    return a;
}

static bool open_rings(struct sampler *f, pid_t pid, const struct perf_event_attr *a, const struct size *size)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    if (size->least && (uint64_t)cpus * size->pages * PAGE_BYTES > RINGS_BYTES_MAX)
        return false;
    f->rings = perf_rings_open(a, 1, (struct perf_target){&pid, 1}, size->pages);
    if (f->rings && perf_rings_pages(f->rings) >= size->least)
        return true;
    perf_rings_close(f->rings);
    f->rings = NULL;
    return false;
}

struct sampler *sampler_open(pid_t pid, struct spaces *spaces, struct threads *threads, enum sampler_purpose purpose,
                             double hertz)
{
    if (hertz <= 0)
        hertz = HERTZ_DEFAULT;
    struct sampler *f = xmalloc(sizeof *f);
    f->spaces = spaces;
    f->threads = threads;
    if (threads)
        stacks_meanwhile(threads_stacks(threads), collect, f);
    for (int user_only = 0; user_only <= 1; user_only++)
        for (size_t k = threads && threads_want_stacks(threads) ? 0 : ARRAY_LEN(sizes) - 1; k < ARRAY_LEN(sizes); k++) {
            struct perf_event_attr a = attr_of(purpose, hertz, user_only, threads, &sizes[k]);
            f->counts.user_only = user_only;
            f->counts.period_s = 1e-9 * (double)a.sample_period;
            if (open_rings(f, pid, &a, &sizes[k]))
                return f;
        }
    sampler_close(f);
    return NULL;
}

bool sampler_is_allowed(enum sampler_purpose purpose)
{
    struct sampler *f = sampler_open(getpid(), NULL, NULL, purpose, 0); /* begins with an exec, so it never runs */
    sampler_close(f);
    return f != NULL;
}

/* ---- reading ---- */

/* What follows the fixed part: the width of the registers (0: none), these, the stack's size, its bytes, how many are
 * true. */
static struct stack_copy *copy_stack(const uint64_t *at, size_t words)
{
    if (words < REGS + 2 || at[0] == 0)
        return NULL;
    uint64_t room = at[REGS + 1] / 8,
             len = room && words >= REGS + 3 + room ? min_u64(at[REGS + 2 + room], 8 * room) : 0;
    struct stack_copy *s = xmalloc(sizeof *s + len);
    memcpy(s->regs, at + 1, sizeof s->regs);
    memcpy(s->bytes, at + REGS + 2, len);
    s->len = len;
    return s;
}

static void take_sample(struct sampler *f, const struct perf_event_header *h)
{
    const struct {
        struct perf_event_header h;
        uint64_t ip;
        uint32_t pid, tid;
        uint64_t time_ns;
    } *s = (const void *)h;
    if (h->size < sizeof *s)
        return;
    bool user = (h->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
    VEC_PUSH(&f->items, ((struct item){.time_ns = s->time_ns,
                                       .seq = f->seq++,
                                       .kind = ITEM_SAMPLE,
                                       .pid = s->pid,
                                       .tid = s->tid,
                                       .in_kernel = !user,
                                       .addr = s->ip,
                                       .stack = copy_stack((const void *)(s + 1), (h->size - sizeof *s) / 8)}));
}

static void take_map(struct sampler *f, const struct perf_event_header *h, const struct perf_tail *t)
{
    const struct {
        struct perf_event_header h;
        uint32_t pid, tid;
        uint64_t addr, len, file_offset;
        char path[];
    } *m = (const void *)h;
    size_t room = h->size - sizeof *m - sizeof *t;
    char *path = xmalloc(room + 1);
    memcpy(path, m->path, room);
    VEC_PUSH(&f->items, ((struct item){.time_ns = t->time_ns,
                                       .seq = f->seq++,
                                       .kind = ITEM_MAP,
                                       .pid = m->pid,
                                       .tid = m->tid,
                                       .addr = m->addr,
                                       .len = m->len,
                                       .file_offset = m->file_offset,
                                       .path = path}));
}

static void take_task(struct sampler *f, const struct perf_event_header *h, const struct perf_tail *t)
{
    const struct {
        struct perf_event_header h;
        uint32_t pid, ppid, tid, ptid;
    } *k = (const void *)h;
    enum item_kind kind = h->type == PERF_RECORD_FORK ? ITEM_FORK : ITEM_EXIT;
    VEC_PUSH(
        &f->items,
        ((struct item){
            .time_ns = t->time_ns, .seq = f->seq++, .kind = kind, .pid = k->pid, .tid = k->tid, .parent = k->ppid}));
}

static void take_switch(struct sampler *f, const struct perf_event_header *h, const struct perf_tail *t)
{
    enum threads_state turn = !(h->misc & PERF_RECORD_MISC_SWITCH_OUT)        ? THREADS_RUNS
                              : h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? THREADS_PREEMPTED
                                                                              : THREADS_WAITS;
    VEC_PUSH(
        &f->items,
        ((struct item){
            .time_ns = t->time_ns, .seq = f->seq++, .kind = ITEM_SWITCH, .pid = t->pid, .tid = t->tid, .turn = turn}));
}

static void take_record(void *ctx, const struct perf_event_header *h)
{
    struct sampler *f = ctx;
    const struct perf_tail *t = perf_tail_of(h);
    if (h->type == PERF_RECORD_SAMPLE)
        take_sample(f, h);
    else if (h->type == PERF_RECORD_MMAP && h->size > 40 + sizeof *t)
        take_map(f, h, t);
    else if ((h->type == PERF_RECORD_FORK || h->type == PERF_RECORD_EXIT) && h->size >= 24 + sizeof *t)
        take_task(f, h, t);
    else if (h->type == PERF_RECORD_COMM && (h->misc & PERF_RECORD_MISC_COMM_EXEC) && h->size > sizeof *t)
        VEC_PUSH(
            &f->items,
            ((struct item){.time_ns = t->time_ns, .seq = f->seq++, .kind = ITEM_EXEC, .pid = t->pid, .tid = t->tid}));
    else if (h->type == PERF_RECORD_SWITCH && h->size >= sizeof *h + sizeof *t)
        take_switch(f, h, t);
    else if (h->type == PERF_RECORD_LOST)
        f->counts.lost += perf_lost_of(h);
}

/* ---- in order of time ---- */

static int by_time(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static void count_place(struct sampler *f, uint32_t module, uint64_t vaddr)
{
    uint64_t key = sample_key(module, vaddr), n = 0;
    map_get(&f->by_place, key, &n);
    map_put(&f->by_place, key, n + 1);
}

static bool tells_threads(const struct sampler *f, const struct item *it)
{
    return f->threads && it->pid == spaces_root(f->spaces);
}

static uint32_t walk(struct sampler *f, const struct item *it)
{
    static const uint8_t dwarf[REGS] = {0, 3, 2, 1, 4, 5, 6, 7, IMAGE_FRAME_REGS, 8, 9, 10, 11, 12, 13, 14, 15};
    const struct stack_copy *s = it->stack;
    struct image_frame frame = {.pc = s->regs[REGS_IP], .known = UINT16_MAX};
    for (size_t i = 0; i < REGS; i++)
        if (dwarf[i] < IMAGE_FRAME_REGS)
            frame.regs[dwarf[i]] = s->regs[i];
    return stacks_walk(threads_stacks(f->threads), it->pid, &frame,
                       &(struct stack_bytes){s->regs[REGS_SP], s->bytes, s->len});
}

static void apply_sample(struct sampler *f, const struct item *it)
{
    uint32_t module = ID_NONE;
    uint64_t vaddr = OBSERVED_VADDR_KERNEL;
    f->counts.all++;
    if (!it->in_kernel) {
        f->counts.user++;
        if (!spaces_locate(f->spaces, it->pid, it->addr, &module, &vaddr)) {
            module = ID_NONE;
            vaddr = OBSERVED_VADDR_UNKNOWN;
        }
    }
    count_place(f, module, vaddr);
    if (module != ID_NONE)
        heat_note(spaces_program(f->spaces)->heat, module, vaddr);
    if (tells_threads(f, it))
        threads_sample(f->threads, it->tid, it->time_ns,
                       &(struct observed_thread_sample){
                           .activity = it->in_kernel ? OBSERVED_IN_KERNEL : OBSERVED_RUNS,
                           .syscall = -1,
                           .stack = it->stack ? walk(f, it)
                                              : stacks_single(threads_stacks(f->threads),
                                                              (struct observed_place){module, vaddr})});
}

static void apply_to_threads(struct sampler *f, const struct item *it)
{
    if (it->kind == ITEM_FORK && it->pid == it->parent)
        threads_begin(f->threads, it->tid, it->time_ns);
    else if (it->kind == ITEM_EXIT)
        threads_end(f->threads, it->tid, it->time_ns);
    else if (it->kind == ITEM_EXEC)
        threads_exec(f->threads, it->tid, it->time_ns);
    else if (it->kind == ITEM_SWITCH)
        threads_switch(f->threads, it->tid, it->turn, it->time_ns);
}

void sampler_exclude(struct sampler *f, const struct wire_bursts *snapshots) { f->snapshots = snapshots; }

static void learn_excluded(struct sampler *f)
{
    const struct wire_bursts *b = f->snapshots;
    uint32_t n = b ? __atomic_load_n(&b->pid_count, __ATOMIC_ACQUIRE) : 0;
    for (; f->snapshots_known < n && f->snapshots_known < WIRE_BURST_PIDS; f->snapshots_known++) {
        int32_t pid = __atomic_load_n(&b->pids[f->snapshots_known], __ATOMIC_ACQUIRE);
        if (!pid) /* not yet */
            break;
        map_put(&f->excluded, (uint64_t)(uint32_t)pid, 1);
        spaces_take_out(f->spaces, (uint32_t)pid); /* its fork may have come before it said so */
    }
}

static bool is_known_excluded(const struct sampler *f, uint32_t pid)
{
    uint64_t excluded = 0;
    return map_get(&f->excluded, pid, &excluded) && excluded;
}

/* A snapshot's child is one too, though it may not have said so yet. Its number may be another's afterwards. */
static bool is_excluded(struct sampler *f, const struct item *it)
{
    if (it->kind == ITEM_FORK && it->pid != it->parent && is_known_excluded(f, it->parent))
        map_put(&f->excluded, it->pid, 1);
    if (!is_known_excluded(f, it->pid))
        return false;
    if (it->kind == ITEM_EXIT)
        map_put(&f->excluded, it->pid, 0);
    return true;
}

static void apply(struct sampler *f, const struct item *it)
{
    if (is_excluded(f, it))
        return;
    if (tells_threads(f, it))
        apply_to_threads(f, it);
    switch (it->kind) {
    case ITEM_SAMPLE:
        apply_sample(f, it);
        break;
    case ITEM_MAP:
        spaces_map(f->spaces, it->pid, it->addr, it->len, it->file_offset, it->path);
        break;
    case ITEM_FORK:
        if (it->pid == it->parent)
            spaces_thread_start(f->spaces, it->pid);
        else
            spaces_fork(f->spaces, it->pid, it->parent);
        break;
    case ITEM_EXIT:
        spaces_thread_end(f->spaces, it->pid);
        break;
    case ITEM_EXEC:
        spaces_exec(f->spaces, it->pid);
        break;
    case ITEM_SWITCH:
        break;
    }
}

/* Rings of different processors are read one after the other, so only what happened before the previous reading began
 * is complete. What comes while an item is applied (collect) is for the next time. */
static void settle(struct sampler *f, uint64_t before_ns)
{
    size_t n = 0, known = f->items.len;
    qsort(f->items.data, known, sizeof *f->items.data, by_time);
    while (n < known && f->items.data[n].time_ns < before_ns) {
        struct item it = f->items.data[n++];
        apply(f, &it);
        free(it.stack);
        free(it.path);
    }
    f->items.len -= n;
    if (f->items.len)
        memmove(f->items.data, f->items.data + n, f->items.len * sizeof *f->items.data);
}

void sampler_drain(struct sampler *f, bool is_last)
{
    uint64_t began_ns = time_now_ns();
    collect(f);
    learn_excluded(f);
    if (f->items.len)
        settle(f, is_last ? UINT64_MAX : f->settled_ns);
    f->settled_ns = began_ns;
}

struct sampler_counts sampler_result(const struct sampler *f) { return f->counts; }
const struct map *sampler_places(const struct sampler *f) { return &f->by_place; }

void sampler_close(struct sampler *f)
{
    if (!f)
        return;
    perf_rings_close(f->rings);
    if (f->threads)
        stacks_meanwhile(threads_stacks(f->threads), NULL, NULL);
    for (size_t i = 0; i < f->items.len; i++) {
        free(f->items.data[i].path);
        free(f->items.data[i].stack);
    }
    VEC_FREE(&f->items);
    map_fini(&f->by_place);
    map_fini(&f->excluded);
    free(f);
}
