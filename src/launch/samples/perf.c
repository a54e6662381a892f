/* SPDX-License-Identifier: Apache-2.0
 * perf_event rings to events in order of time: samples of the instruction pointer by the kernel's software clock,
 * who mapped, forked and executed what, and when each thread was given a processor and lost it. One event a processor,
 * inherited by all threads and children, begins with the program's exec. Needs no hardware counters. What cannot be
 * opened is left to the caller's fallback. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

#define RING_PAGES_MAX 64 /* with one event a processor below the usual limit for ordinary users (516 KB) */
#define RING_PAGES_MIN 4
#define PAGE_BYTES 4096u
#define HERTZ_DEFAULT 997.0 /* 1 kHz, but not in step with the kernel's own tick */
#define RECORD_BYTES_MAX 65536
#define STACK_BYTES 8192
/* ax bx cx dx si di bp sp ip r8 ... r15, in the order of enum perf_event_x86_regs, which is that of the record */
#define REGS_MASK 0xff01ffu
enum { REGS = 17, REGS_SP = 7, REGS_IP = 8 };

struct ring {
    int fd;
    struct perf_event_mmap_page *page;
    uint64_t data_bytes;
};
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
struct perf {
    VEC(struct ring) rings;
    VEC(struct item) items; /* not yet old enough to be in order for sure */
    uint64_t seq, settled_ns;
    struct spaces *spaces;
    struct threads *threads;             /* NULL: not wanted */
    const struct wire_bursts *snapshots; /* NULL: none */
    uint32_t snapshots_known;
    struct map excluded; /* pids -> 1 */
    struct perf_counts counts;
    struct map by_place; /* (module + 1) << 48 | vaddr -> count */
    uint8_t *record;     /* one record made contiguous */
};

/* ---- opening ---- */

static struct perf_event_attr attr_of(enum perf_purpose purpose, double hertz, bool user_only,
                                      const struct threads *threads)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a};
    a.config = purpose == PERF_SAMPLE ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_DUMMY;
    a.sample_period = purpose == PERF_SAMPLE ? (uint64_t)(1e9 / hertz + 0.5) : 0;
    a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    a.disabled = a.enable_on_exec = a.inherit = 1;
    a.mmap = a.task = a.comm = a.comm_exec = a.sample_id_all = 1;
    a.context_switch = threads != NULL;
    if (threads && threads_want_stacks(threads)) {
        a.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a.sample_regs_user = REGS_MASK;
        a.sample_stack_user = STACK_BYTES;
    }
    a.exclude_hv = 1;
    a.exclude_kernel = user_only;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    a.watermark = 1;
    a.wakeup_watermark = RING_PAGES_MAX * PAGE_BYTES; /* never: the reader comes by the clock */
    return a;
}

static bool map_ring(struct ring *r)
{
    for (unsigned pages = RING_PAGES_MAX; pages >= RING_PAGES_MIN; pages /= 2) {
        void *p = mmap(NULL, (pages + 1) * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        if (p == MAP_FAILED)
            continue;
        r->page = p;
        r->data_bytes = (uint64_t)pages * PAGE_BYTES;
        return true;
    }
    return false;
}

static void close_ring(struct ring *r)
{
    if (r->page)
        munmap(r->page, r->data_bytes + PAGE_BYTES);
    close(r->fd);
}

/* A processor that is offline is passed over; anything else refused ends it. */
static bool open_rings(struct perf *f, pid_t pid, struct perf_event_attr *a)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < cpus; cpu++) {
        struct ring r = {.fd = (int)syscall(SYS_perf_event_open, a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)};
        if (r.fd < 0 && (errno == ENODEV || errno == ENXIO))
            continue;
        bool ok = r.fd >= 0 && map_ring(&r);
        if (ok)
            VEC_PUSH(&f->rings, r);
        else if (r.fd >= 0)
            close_ring(&r);
        if (!ok)
            return false;
    }
    return f->rings.len > 0;
}

static void close_rings(struct perf *f)
{
    for (size_t i = 0; i < f->rings.len; i++)
        close_ring(&f->rings.data[i]);
    f->rings.len = 0;
}

struct perf *perf_open(pid_t pid, struct spaces *spaces, struct threads *threads, enum perf_purpose purpose,
                       double hertz)
{
    if (hertz <= 0)
        hertz = HERTZ_DEFAULT;
    struct perf *f = xmalloc(sizeof *f);
    f->spaces = spaces;
    f->threads = threads;
    f->record = xmalloc(RECORD_BYTES_MAX);
    for (int user_only = 0; user_only <= 1; user_only++) {
        struct perf_event_attr a = attr_of(purpose, hertz, user_only, threads);
        f->counts.user_only = user_only;
        f->counts.period_s = 1e-9 * (double)a.sample_period;
        if (open_rings(f, pid, &a))
            return f;
        close_rings(f);
    }
    perf_close(f);
    return NULL;
}

bool perf_is_allowed(enum perf_purpose purpose)
{
    struct perf *f = perf_open(getpid(), NULL, NULL, purpose, 0); /* begins with an exec, so it never runs */
    perf_close(f);
    return f != NULL;
}

/* ---- reading ---- */

struct tail { /* the end of every record that is no sample (sample_id_all) */
    uint32_t pid, tid;
    uint64_t time_ns;
};

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

static void take_sample(struct perf *f, const struct perf_event_header *h)
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

static void take_map(struct perf *f, const struct perf_event_header *h, const struct tail *t)
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

static void take_task(struct perf *f, const struct perf_event_header *h, const struct tail *t)
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

static void take_switch(struct perf *f, const struct perf_event_header *h, const struct tail *t)
{
    enum threads_state turn = !(h->misc & PERF_RECORD_MISC_SWITCH_OUT)        ? THREADS_RUNS
                              : h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? THREADS_PREEMPTED
                                                                              : THREADS_WAITS;
    VEC_PUSH(
        &f->items,
        ((struct item){
            .time_ns = t->time_ns, .seq = f->seq++, .kind = ITEM_SWITCH, .pid = t->pid, .tid = t->tid, .turn = turn}));
}

static void take_record(struct perf *f, const struct perf_event_header *h)
{
    const struct tail *t = (const void *)((const uint8_t *)h + h->size - sizeof *t);
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
        f->counts.lost += ((const uint64_t *)(const void *)(h + 1))[1]; /* id, lost */
}

static void read_ring(struct perf *f, struct ring *r)
{
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE), tail = r->page->data_tail;
    const uint8_t *data = (const uint8_t *)r->page + PAGE_BYTES;
    while (tail < head) {
        uint64_t at = tail % r->data_bytes; /* records are multiples of 8, so a header is never split */
        const struct perf_event_header *h = (const void *)(data + at);
        if (h->size < sizeof *h || h->size > head - tail)
            break;
        uint64_t first = min_u64(h->size, r->data_bytes - at), size = h->size;
        memcpy(f->record, h, first);
        memcpy(f->record + first, data, size - first);
        take_record(f, (const void *)f->record);
        tail += size;
    }
    __atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELEASE);
}

/* ---- in order of time ---- */

static int by_time(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static void count_place(struct perf *f, uint32_t module, uint64_t vaddr)
{
    uint64_t key = sample_key(module, vaddr), n = 0;
    map_get(&f->by_place, key, &n);
    map_put(&f->by_place, key, n + 1);
}

static bool tells_threads(const struct perf *f, const struct item *it)
{
    return f->threads && it->pid == spaces_root(f->spaces);
}

static uint32_t walk(struct perf *f, const struct item *it)
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

static void apply_sample(struct perf *f, const struct item *it)
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
    if (tells_threads(f, it))
        threads_sample(f->threads, it->tid, it->time_ns,
                       &(struct observed_thread_sample){
                           .activity = it->in_kernel ? OBSERVED_IN_KERNEL : OBSERVED_RUNS,
                           .syscall = -1,
                           .stack = it->stack ? walk(f, it)
                                              : stacks_single(threads_stacks(f->threads),
                                                              (struct observed_place){module, vaddr})});
}

static void apply_to_threads(struct perf *f, const struct item *it)
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

void perf_exclude(struct perf *f, const struct wire_bursts *snapshots) { f->snapshots = snapshots; }

static void learn_excluded(struct perf *f)
{
    const struct wire_bursts *b = f->snapshots;
    uint32_t n = b ? __atomic_load_n(&b->pid_count, __ATOMIC_ACQUIRE) : 0;
    for (; f->snapshots_known < n && f->snapshots_known < WIRE_BURST_PIDS; f->snapshots_known++) {
        int32_t pid = __atomic_load_n(&b->pids[f->snapshots_known], __ATOMIC_ACQUIRE);
        if (!pid) /* not yet */
            break;
        map_put(&f->excluded, (uint64_t)(uint32_t)pid, 1);
    }
}

static bool is_known_excluded(const struct perf *f, uint32_t pid)
{
    uint64_t excluded = 0;
    return map_get(&f->excluded, pid, &excluded) && excluded;
}

/* A snapshot's child is one too, though it may not have said so yet. Its number may be another's afterwards. */
static bool is_excluded(struct perf *f, const struct item *it)
{
    if (it->kind == ITEM_FORK && it->pid != it->parent && is_known_excluded(f, it->parent))
        map_put(&f->excluded, it->pid, 1);
    if (!is_known_excluded(f, it->pid))
        return false;
    if (it->kind == ITEM_EXIT)
        map_put(&f->excluded, it->pid, 0);
    return true;
}

static void apply(struct perf *f, const struct item *it)
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
 * is complete. */
static void settle(struct perf *f, uint64_t before_ns)
{
    learn_excluded(f);
    qsort(f->items.data, f->items.len, sizeof *f->items.data, by_time);
    size_t n = 0;
    while (n < f->items.len && f->items.data[n].time_ns < before_ns) {
        apply(f, &f->items.data[n]);
        free(f->items.data[n].stack);
        free(f->items.data[n++].path);
    }
    f->items.len -= n;
    if (f->items.len)
        memmove(f->items.data, f->items.data + n, f->items.len * sizeof *f->items.data);
}

void perf_drain(struct perf *f, bool is_last)
{
    uint64_t began_ns = time_now_ns();
    for (size_t i = 0; i < f->rings.len; i++)
        read_ring(f, &f->rings.data[i]);
    if (f->items.len)
        settle(f, is_last ? UINT64_MAX : f->settled_ns);
    f->settled_ns = began_ns;
}

struct perf_counts perf_result(const struct perf *f) { return f->counts; }
const struct map *perf_places(const struct perf *f) { return &f->by_place; }

void perf_close(struct perf *f)
{
    if (!f)
        return;
    close_rings(f);
    VEC_FREE(&f->rings);
    for (size_t i = 0; i < f->items.len; i++) {
        free(f->items.data[i].path);
        free(f->items.data[i].stack);
    }
    VEC_FREE(&f->items);
    map_fini(&f->by_place);
    map_fini(&f->excluded);
    free(f->record);
    free(f);
}
