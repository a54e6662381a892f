/* SPDX-License-Identifier: Apache-2.0
 * Events from perf_event rings into sums: who has a processor when, begins and ends of threads, and, where tracepoints
 * are allowed, system calls, page faults and interrupts. Each processor's ring is in order; events of all are put in
 * order of time before they move the clocks, since threads go from one processor to another. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "live/impl.h"
#include "live/step.h"

enum { TRACE_PAGES = 1024, IDS_MAX = 2048 };
#define IDLE_BIT 0x80000000u

enum kind {
    KIND_NONE,
    KIND_RUN,
    KIND_STOP,
    KIND_PREEMPT,
    KIND_ENTER,
    KIND_LEAVE,
    KIND_FAIL, /* leaves a call, which failed */
    KIND_FAULT_USER,
    KIND_FAULT_KERNEL,
    KIND_INTERRUPT,
    KIND_RESUME,
    KIND_FORK, /* value: the thread that made it */
    KIND_END,
    KIND_EXEC /* value: where its name begins in names */
};
struct item {
    uint64_t time_ns, seq;
    uint32_t tid, tgid;
    uint32_t value;
    uint64_t address;
    uint16_t cpu;
    enum kind kind;
};
struct point { /* a tracepoint that is read */
    enum kind kind;
    uint32_t base; /* of the value */
    int field;     /* where it lies in the raw data, -1: there is none */
    unsigned bytes;
};
struct live_trace {
    enum live_scope scope;
    struct perf_rings *rings;
    struct point points[IDS_MAX]; /* by number of the tracepoint */
    VEC(struct item) items;
    uint64_t seq, settled_ns;
    struct live_sums sums;
    const struct live_program *program; /* NULL: none */
    struct strbuf names;
    struct map by_tid; /* number of a thread -> index of the last that had it */
    int64_t active;
    uint64_t idle_since_ns;
    VEC(uint32_t) running; /* of each processor: who was seen on it last; 0 nobody */
};

/* ---- the tracepoints ---- */

struct wanted {
    const char *name, *field; /* field NULL: none */
    unsigned bytes;
    enum kind kind;
    uint32_t base;
    enum live_depth depth;
    bool is_optional;
};
enum {
#define INTERRUPT(name, text, in_rings) VECTOR_##name,
#include "live/interrupts.def"
#undef INTERRUPT
};
static const struct wanted wanted[] = {
    {"raw_syscalls/sys_enter", "id", 8, KIND_ENTER, 0, LIVE_TRACE_CALLS, false},
    {"raw_syscalls/sys_exit", "ret", 8, KIND_LEAVE, 0, LIVE_TRACE_CALLS, false},
    {"exceptions/page_fault_user", "address", 8, KIND_FAULT_USER, 0, LIVE_TRACE_ALL, true},
    {"exceptions/page_fault_kernel", "address", 8, KIND_FAULT_KERNEL, 0, LIVE_TRACE_ALL, true},
    {"irq/irq_handler_entry", "irq", 4, KIND_INTERRUPT, LIVE_DEVICE, LIVE_TRACE_ALL, true},
    {"irq/irq_handler_exit", NULL, 0, KIND_RESUME, 0, LIVE_TRACE_ALL, true},
    {"irq/softirq_entry", "vec", 4, KIND_INTERRUPT, LIVE_SOFT, LIVE_TRACE_ALL, true},
    {"irq/softirq_exit", NULL, 0, KIND_RESUME, 0, LIVE_TRACE_ALL, true},
#define INTERRUPT(name, text, in_rings)                                                                                \
    {"irq_vectors/" #name "_entry", NULL, 0, KIND_INTERRUPT, VECTOR_##name, LIVE_TRACE_ALL + !(in_rings), true},       \
        {"irq_vectors/" #name "_exit", NULL, 0, KIND_RESUME, 0, LIVE_TRACE_ALL + !(in_rings), true},
#include "live/interrupts.def"
#undef INTERRUPT
};
enum { ATTRS_MAX = ARRAY_LEN(wanted) + 1 };

static struct perf_event_attr attr_of(enum live_scope scope)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_DUMMY};
    a.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW;
    a.disabled = 1;
    a.enable_on_exec = scope == LIVE_COMMAND;
    a.inherit = scope != LIVE_SYSTEM;
    a.sample_id_all = 1;
    a.exclude_hv = 1;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    a.watermark = 1;
    a.wakeup_watermark = TRACE_PAGES * 1024; /* a quarter of the ring */
    return a;
}

/* A tracepoint in the form that is known, into its attr; else false with *why. */
static bool find_point(int tracefs, const struct wanted *w, struct live_trace *t, struct perf_event_attr *attr,
                       struct arena *a, const char **why)
{
    struct perf_tracepoint p;
    bool is_there = perf_tracepoint_read(tracefs, w->name, &p);
    int err = errno, field = is_there && w->field ? perf_tracepoint_field(&p, w->field, w->bytes) : -1;
    bool is_known = is_there && p.id < IDS_MAX && (field >= 0 || !w->field);
    if (is_known) {
        t->points[p.id] = (struct point){w->kind, w->base, field, w->bytes};
        *attr = attr_of(t->scope);
        attr->type = PERF_TYPE_TRACEPOINT;
        attr->config = p.id;
        attr->sample_period = 1;
    } else if (!w->is_optional) {
        *why = arena_printf(a, "tracepoint %s: %s", w->name, is_there ? "of another form" : strerror(err));
    }
    perf_tracepoint_free(&p);
    return is_known;
}

/* Those that the kernel has, into attrs. False with *why if one that is needed is not there. Of an interrupt it has the
 * begin and the end or neither. */
static bool add_points(struct live_trace *t, enum live_depth depth, struct perf_event_attr *attrs, size_t *count,
                       struct arena *a, const char **why)
{
    int tracefs = perf_tracefs_open();
    if (tracefs < 0) {
        *why = arena_printf(a, "tracefs: %s", strerror(errno));
        return false;
    }
    bool ok = true;
    for (size_t i = 0; i < ARRAY_LEN(wanted) && ok; i++) {
        bool found = wanted[i].depth <= depth && find_point(tracefs, &wanted[i], t, &attrs[*count], a, why);
        *count += found;
        ok = found || wanted[i].is_optional || wanted[i].depth > depth;
    }
    close(tracefs);
    return ok;
}

static void take_entry(void *ctx, const struct live_entry *e)
{
    struct live_trace *t = ctx;
    live_sums_trace(&t->sums, t->program, e);
}

struct live_trace *live_trace_open(const struct live_target *target, enum live_depth depth, struct arena *a,
                                   const char **why)
{
    struct live_trace *t = xmalloc(sizeof *t);
    struct perf_event_attr attrs[ATTRS_MAX];
    bool with_events = depth != LIVE_TRACE_TURNS, ok;
    size_t count = 1;
    t->scope = target->scope;
    t->program = target->program;
    t->sums.table.trace = take_entry;
    t->sums.table.ctx = t;
    attrs[0] = attr_of(t->scope);
    attrs[0].context_switch = attrs[0].task = attrs[0].comm = attrs[0].comm_exec = 1;
    ok = !with_events || add_points(t, depth, attrs, &count, a, why);
    for (int look = 0; ok && look < (with_events ? 1 : 2) && !t->rings; look++) {
        attrs[0].exclude_kernel =
            look == 1; /* what an ordinary user may: the records that are wanted come all the same */
        t->rings = perf_rings_open(attrs, count, target->perf, with_events ? TRACE_PAGES : PERF_RING_PAGES);
    }
    if (t->rings)
        return t;
    if (ok)
        *why = arena_printf(a, "perf_event_open: %s", strerror(errno));
    live_trace_close(t);
    return NULL;
}

void live_trace_begin(struct live_trace *t)
{
    t->sums.begun_ns = time_now_ns();
    perf_rings_enable(t->rings, true);
}

/* ---- reading ---- */

struct tail {
    uint32_t pid, tid;
    uint64_t time_ns;
    uint32_t cpu, reserved;
};

static void put(struct live_trace *t, const struct tail *at, enum kind kind, uint32_t value, uint64_t address)
{
    uint32_t tid = at->tid ? at->tid : IDLE_BIT | at->cpu;
    VEC_PUSH(&t->items, ((struct item){at->time_ns, t->seq++, tid, at->pid, value, address, (uint16_t)at->cpu, kind}));
}

static void take_event(struct live_trace *t, const struct perf_event_header *h)
{
    const struct {
        struct perf_event_header h;
        struct tail tail;
        uint32_t bytes;
        uint8_t raw[];
    } *s = (const void *)h;
    uint16_t id;
    if (h->size < sizeof *s || s->bytes < sizeof id || s->bytes > h->size - offsetof(__typeof__(*s), raw))
        return;
    memcpy(&id, s->raw, sizeof id);
    const struct point *p = id < IDS_MAX ? &t->points[id] : NULL;
    if (!p || p->kind == KIND_NONE)
        return;
    uint64_t value = 0;
    if (p->field >= 0 && (unsigned)p->field + p->bytes <= s->bytes)
        memcpy(&value, s->raw + p->field, p->bytes);
    if (p->kind == KIND_LEAVE)
        put(t, &s->tail, (int64_t)value < 0 && (int64_t)value >= -4095 ? KIND_FAIL : KIND_LEAVE, 0, 0);
    else if (p->kind == KIND_FAULT_USER || p->kind == KIND_FAULT_KERNEL)
        put(t, &s->tail, p->kind, 0, value);
    else
        put(t, &s->tail, p->kind, p->base + (uint32_t)min_u64(value, LIVE_CALLS), 0);
}

static void take_fork(struct live_trace *t, const struct perf_event_header *h, const struct tail *tail)
{
    const struct {
        struct perf_event_header h;
        uint32_t pid, ppid, tid, ptid;
    } *f = (const void *)h;
    if (h->size >= sizeof *f + sizeof *tail)
        VEC_PUSH(&t->items,
                 ((struct item){tail->time_ns, t->seq++, f->tid, f->pid, f->ptid, 0, (uint16_t)tail->cpu, KIND_FORK}));
}

static void take_name(struct live_trace *t, const struct perf_event_header *h, const struct tail *tail)
{
    const struct {
        struct perf_event_header h;
        uint32_t pid, tid;
        char name[];
    } *c = (const void *)h;
    if (h->size < sizeof *c + sizeof *tail)
        return;
    size_t room = h->size - sizeof *c - sizeof *tail;
    put(t, tail, KIND_EXEC, (uint32_t)t->names.len, 0);
    str_put(&t->names, c->name, strnlen(c->name, room));
    str_put(&t->names, "", 1);
}

static enum kind switch_of(const struct perf_event_header *h)
{
    return !(h->misc & PERF_RECORD_MISC_SWITCH_OUT)        ? KIND_RUN
           : h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? KIND_PREEMPT
                                                           : KIND_STOP;
}

static void take(void *ctx, const struct perf_event_header *h)
{
    struct live_trace *t = ctx;
    const struct tail *tail = (const void *)((const uint8_t *)h + h->size - sizeof *tail);
    if (h->type == PERF_RECORD_SAMPLE)
        take_event(t, h);
    else if (h->type == PERF_RECORD_LOST)
        t->sums.lost += perf_lost_of(h);
    else if (h->size < sizeof *h + sizeof *tail)
        return;
    else if (h->type == PERF_RECORD_SWITCH || h->type == PERF_RECORD_SWITCH_CPU_WIDE)
        put(t, tail, switch_of(h), 0, 0);
    else if (h->type == PERF_RECORD_FORK)
        take_fork(t, h, tail);
    else if (h->type == PERF_RECORD_EXIT)
        put(t, tail, KIND_END, 0, 0);
    else if (h->type == PERF_RECORD_COMM && h->misc & PERF_RECORD_MISC_COMM_EXEC)
        take_name(t, h, tail);
}

/* ---- in order of time ---- */

static int by_time(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Of who was there before: later ones have their names from records. */
static void read_name(struct live_task *k)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/comm", k->tid);
    FILE *f = fopen(path, "re");
    if (f && fgets(k->comm, sizeof k->comm, f))
        k->comm[strcspn(k->comm, "\n")] = 0;
    if (f)
        fclose(f);
}

static struct live_task *add_task(struct live_trace *t, const struct live_task *k)
{
    map_put(&t->by_tid, k->tid, t->sums.tasks.len);
    VEC_PUSH(&t->sums.tasks, *k);
    return &t->sums.tasks.data[t->sums.tasks.len - 1];
}

static struct live_task *task_of(struct live_trace *t, const struct item *it)
{
    uint64_t i;
    if (map_get(&t->by_tid, it->tid, &i))
        return &t->sums.tasks.data[i];
    struct live_task fresh = {.tid = it->tid, .tgid = it->tgid};
    if (it->tid & IDLE_BIT) {
        fresh.context = LIVE_IDLE;
    } else {
        if (t->scope == LIVE_SYSTEM && live_is_kernel_thread((pid_t)it->tid))
            fresh.context = LIVE_KERNEL;
        read_name(&fresh);
    }
    return add_task(t, &fresh);
}

/* A new thread; its number may have been another's. */
static void fork_task(struct live_trace *t, const struct item *it)
{
    uint64_t parent;
    struct live_task fresh = {.tid = it->tid, .tgid = it->tgid};
    if (map_get(&t->by_tid, it->value, &parent)) {
        const struct live_task *p = &t->sums.tasks.data[parent];
        memcpy(fresh.comm, p->comm, sizeof fresh.comm);
        fresh.context = p->context == LIVE_KERNEL ? LIVE_KERNEL : LIVE_UNKNOWN;
    }
    add_task(t, &fresh);
}

/* While no thread of the target runs or was pre-empted, it is idle. */
static void set_active(struct live_trace *t, struct live_task *k, bool is_active, uint64_t now)
{
    if (k->is_counted == is_active || k->context == LIVE_IDLE)
        return;
    k->is_counted = is_active;
    t->active += is_active ? 1 : -1;
    if (is_active && t->active == 1 && t->idle_since_ns)
        t->sums.idle_ns += clock_passed(t->idle_since_ns, now);
    t->idle_since_ns = t->active ? 0 : now;
}

/* Of the system's threads more is heard until they lose their processor for good. */
static void end_task(struct live_trace *t, struct live_task *k, uint64_t now)
{
    if (t->scope == LIVE_SYSTEM)
        return;
    clock_charge(k, now, &t->sums.table);
    k->since_ns = 0;
    set_active(t, k, false, now);
}

static void name_task(struct live_trace *t, struct live_task *k, const struct item *it)
{
    clock_charge(k, it->time_ns, &t->sums.table);
    memset(k->comm, 0, sizeof k->comm);
    snprintf(k->comm, sizeof k->comm, "%s", t->names.data + it->value);
}

/* A thread that has ended has no number any more when it leaves its processor, and some kernels do not trace all
 * threads: who is seen on a processor has it, and who had it before lost it. Returns whose event it is. */
static struct live_task *take_over(struct live_trace *t, struct item *it)
{
    while (t->running.len <= it->cpu)
        VEC_PUSH(&t->running, 0);
    uint32_t *now = &t->running.data[it->cpu];
    uint64_t i;
    if (it->tid == UINT32_MAX)
        it->tid = *now ? *now : IDLE_BIT | it->cpu;
    else if (*now && *now != it->tid && map_get(&t->by_tid, *now, &i))
        clock_lose(&t->sums.tasks.data[i]);
    struct live_task *k = task_of(t, it);
    if (*now != it->tid && it->kind != KIND_RUN) /* since when it is here was not told */
        clock_lose(k);
    *now = it->kind == KIND_STOP || it->kind == KIND_PREEMPT ? 0 : it->tid;
    return k;
}

static bool is_switch_or_end(enum kind kind) { return kind == KIND_STOP || kind == KIND_PREEMPT || kind == KIND_END; }

static void move_clock(struct live_trace *t, struct live_task *k, const struct item *it)
{
    struct live_table *s = &t->sums.table;
    uint64_t now = it->time_ns;
    switch (it->kind) {
    case KIND_RUN:
        clock_run(k, now);
        break;
    case KIND_STOP:
    case KIND_PREEMPT:
        clock_stop(k, now, it->kind == KIND_PREEMPT, s);
        set_active(t, k, it->kind == KIND_PREEMPT, now);
        break;
    case KIND_ENTER:
        clock_enter(k, it->value, now, s);
        break;
    case KIND_LEAVE:
    case KIND_FAIL:
        clock_leave(k, it->kind == KIND_FAIL, now, s);
        break;
    case KIND_FAULT_USER:
    case KIND_FAULT_KERNEL:
        clock_charge(k, now, s);
        k->faults_user += it->kind == KIND_FAULT_USER;
        k->faults_kernel += it->kind == KIND_FAULT_KERNEL;
        break;
    case KIND_INTERRUPT:
        clock_interrupt(k, it->value < LIVE_VECTORS ? it->value : LIVE_VECTORS - 1, now, s);
        break;
    case KIND_RESUME:
        clock_resume(k, now, s);
        break;
    case KIND_EXEC:
        name_task(t, k, it);
        break;
    case KIND_END:
        end_task(t, k, now);
        break;
    case KIND_FORK:
    case KIND_NONE:
        break;
    }
}

static void move_machine(struct live_trace *t, struct live_task *k, const struct item *it, uint32_t call)
{
    static const uint8_t event_of[] = {[KIND_RUN] = LIVE_EVENT_RUN,
                                       [KIND_STOP] = LIVE_EVENT_STOP,
                                       [KIND_PREEMPT] = LIVE_EVENT_STOP,
                                       [KIND_ENTER] = LIVE_EVENT_ENTER,
                                       [KIND_LEAVE] = LIVE_EVENT_LEAVE,
                                       [KIND_FAIL] = LIVE_EVENT_LEAVE,
                                       [KIND_FAULT_USER] = LIVE_EVENT_FAULT,
                                       [KIND_FAULT_KERNEL] = LIVE_EVENT_FAULT,
                                       [KIND_INTERRUPT] = LIVE_EVENT_INTERRUPT,
                                       [KIND_RESUME] = LIVE_EVENT_RESUME,
                                       [KIND_FORK] = LIVE_EVENT_FORK,
                                       [KIND_EXEC] = LIVE_EVENT_EXEC};
    bool is_so = it->kind == KIND_PREEMPT || it->kind == KIND_FAIL || it->kind == KIND_FAULT_KERNEL;
    const struct step_event e = {it->address, it->kind == KIND_LEAVE || it->kind == KIND_FAIL ? call : it->value,
                                 event_of[it->kind], is_so ? 2 : 1};
    if (it->kind != KIND_END && it->kind != KIND_NONE)
        step(&t->program->machine, k, &e, it->time_ns, &t->sums.table);
}

static void apply(struct live_trace *t, struct item *it)
{
    if (it->kind == KIND_FORK) {
        fork_task(t, it);
        it->tid = it->value; /* the machine hears it of who forks */
    }
    struct live_task *k = take_over(t, it);
    it->time_ns = clock_at(k, it->time_ns);
    uint32_t call = k->call ? k->call - 1u : LIVE_CALLS;
    if (!t->sums.begun_ns)
        t->sums.begun_ns = it->time_ns;
    if (!is_switch_or_end(it->kind))
        set_active(t, k, true, it->time_ns);
    if (it->kind == KIND_FORK)
        clock_charge(k, it->time_ns, &t->sums.table);
    move_clock(t, k, it);
    if (t->program)
        move_machine(t, k, it, call);
}

/* Rings of different processors are read one after the other, so only what happened before the previous reading began
 * is complete. */
static void settle(struct live_trace *t, uint64_t before_ns)
{
    size_t n = 0;
    if (t->items.len)
        qsort(t->items.data, t->items.len, sizeof *t->items.data, by_time);
    while (n < t->items.len && t->items.data[n].time_ns < before_ns)
        apply(t, &t->items.data[n++]);
    t->items.len -= n;
    if (t->items.len)
        memmove(t->items.data, t->items.data + n, t->items.len * sizeof *t->items.data);
}

void live_trace_drain(struct live_trace *t)
{
    uint64_t began_ns = time_now_ns();
    perf_rings_drain(t->rings, take, t);
    settle(t, t->settled_ns);
    t->settled_ns = began_ns;
}

size_t live_trace_poll(const struct live_trace *t, struct pollfd *out, size_t max)
{
    return perf_rings_poll(t->rings, out, max);
}

void live_trace_stop(struct live_trace *t, struct live_sums *out)
{
    perf_rings_enable(t->rings, false);
    uint64_t now = time_now_ns(); /* behind the last event */
    t->sums.lost += perf_rings_are_full(t->rings);
    perf_rings_drain(t->rings, take, t);
    settle(t, UINT64_MAX);
    for (size_t i = 0; i < t->sums.tasks.len; i++)
        if (t->sums.tasks.data[i].since_ns)
            clock_charge(&t->sums.tasks.data[i], now, &t->sums.table);
    if (t->idle_since_ns && t->scope == LIVE_PROCESS)
        t->sums.idle_ns += clock_passed(t->idle_since_ns, now);
    t->sums.ended_ns = now;
    *out = t->sums;
    memset(&t->sums.tasks, 0, sizeof t->sums.tasks); /* they are out's now */
    memset(&t->sums.entries, 0, sizeof t->sums.entries);
    live_sums_unfinished(out);
}

static struct live_call_sum read_cost(void *ctx)
{
    struct live_trace *t = ctx;
    perf_rings_drain(t->rings, take, t);
    settle(t, UINT64_MAX); /* of one thread, so all that came is in order */
    return t->sums.table.calls[live_cost_call()];
}

void live_trace_cost(struct live_cost *c)
{
    struct arena *a = arena_new();
    const char *why;
    pid_t self = gettid();
    const struct live_target own = {LIVE_PROCESS, self, {&self, 1}, NULL};
    struct live_trace *t = live_trace_open(&own, LIVE_TRACE_CALLS, a, &why);
    if (t) {
        live_trace_begin(t);
        live_cost_loop(c, read_cost, t);
        live_trace_close(t);
    }
    arena_free(a);
}

void live_trace_close(struct live_trace *t)
{
    if (!t)
        return;
    perf_rings_close(t->rings);
    VEC_FREE(&t->items);
    live_sums_fini(&t->sums);
    str_free(&t->names);
    map_fini(&t->by_tid);
    VEC_FREE(&t->running);
    free(t);
}
