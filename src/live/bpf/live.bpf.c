// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The kernel's half of `mtool monster live`: at tracepoints it moves each thread's clock (clock.h) and sums calls and
 * interrupts. Compiled for the BPF machine with type information; which tracepoints the running kernel has, the host
 * looks up before it loads this. Of the kernel's structures only the members that are read are declared; where they lie
 * is looked up in the kernel's own type information when it is loaded. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "live/bpf/shared.h"

#define KERNEL __attribute__((preserve_access_index))
struct task_struct {
    int pid, tgid;
    unsigned int flags;
    char comm[LIVE_COMM];
} KERNEL;
struct pt_regs {
    unsigned long ax;
} KERNEL;
#define PF_KTHREAD 0x00200000

/* Alone in its section, so that the host knows where it is. */
const volatile struct live_config config SEC(".rodata.config");
struct live_state state;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, LIVE_TASKS_MAX);
    __type(key, __u32);
    __type(value, struct live_task);
} tasks SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, LIVE_CALLS);
    __type(key, __u32);
    __type(value, struct live_call_sum);
} calls SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, LIVE_VECTORS);
    __type(key, __u32);
    __type(value, struct live_vector_sum);
} vectors SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, LIVE_DEAD_BYTES);
} ended SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct live_cpu);
} cpus SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, LIVE_MARKS);
    __type(key, __u32);
    __type(value, struct live_mark);
} marks SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, LIVE_TRACE_BYTES);
} trace SEC(".maps");

static inline void clock_add_vector(void *sums, __u32 vector, __u64 count, __u64 ns)
{
    struct live_vector_sum *v = bpf_map_lookup_elem(&vectors, &vector);
    if (v) {
        v->count += count;
        v->ns += ns;
    }
}

static inline void clock_add_call(void *sums, __u32 number, const struct live_call_sum *more)
{
    struct live_call_sum *c = bpf_map_lookup_elem(&calls, &number);
    if (c) {
        c->count += more->count;
        c->errors += more->errors;
        c->own_ns += more->own_ns;
        c->waited_ns += more->waited_ns;
    }
}

static inline void step_mark(void *sums, __u32 mark, __u64 elapsed_ns, __u64 own_ns)
{
    struct live_mark *m = bpf_map_lookup_elem(&marks, &mark);
    if (m) {
        m->count++;
        m->elapsed_ns += elapsed_ns;
        m->own_ns += own_ns;
    }
}

static inline void step_trace(void *sums, const struct live_entry *e)
{
    if (bpf_ringbuf_output(&trace, (void *)e, sizeof *e, 0) < 0)
        __sync_fetch_and_add(&state.trace_lost, 1);
}

#include "live/clock.h"
#include "live/step.h"

/* ---- whose events count ---- */

/* An entry is too large for the stack. Whatever an interrupt makes is made in a place of its own. */
enum { SCRATCH_OF_EVENTS, SCRATCH_OF_ANY, SCRATCHES };
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SCRATCHES);
    __type(key, __u32);
    __type(value, struct live_task);
} scratch SEC(".maps");

static __always_inline void add_task(__u32 place, __u32 key, struct task_struct *p, __u32 tgid, __u64 now, int runs)
{
    struct live_task *fresh = bpf_map_lookup_elem(&scratch, &place);
    if (!fresh)
        return;
    __builtin_memset(fresh, 0, sizeof *fresh);
    fresh->tid = key;
    fresh->tgid = tgid;
    fresh->address = (__u64)p;
    fresh->since_ns = runs ? now : 0;
    if (p && p->flags & PF_KTHREAD)
        fresh->context = LIVE_KERNEL;
    if (key & LIVE_IDLE_BIT)
        fresh->context = LIVE_IDLE;
    for (int i = 0; p && i < LIVE_COMM - 1; i++)
        fresh->comm[i] = p->comm[i];
    if (!p) /* the one that runs */
        bpf_get_current_comm(fresh->comm, sizeof fresh->comm);
    if (bpf_map_update_elem(&tasks, &key, fresh, BPF_ANY) < 0)
        __sync_fetch_and_add(&state.lost, 1);
}

static __always_inline __u32 key_of(__u32 tid) { return tid ? tid : LIVE_IDLE_BIT | bpf_get_smp_processor_id(); }

/* In mtool's own pid namespace the process that is asked for has another number than here. */
static __always_inline int is_root_here(void)
{
    struct bpf_pidns_info info = {0};
    return config.namespace_inode &&
           bpf_get_ns_current_pid_tgid(config.namespace_device, config.namespace_inode, &info, sizeof info) == 0 &&
           info.tgid == state.root;
}

static __always_inline void keep(const struct live_cpu *c)
{
    __u32 key = key_of(c->tid);
    struct live_task *t = bpf_map_lookup_elem(&tasks, &key);
    if (t)
        *t = c->task;
}

static __always_inline void load(struct live_cpu *c, __u32 tid, const struct live_task *t)
{
    c->tid = tid;
    c->generation = state.generation;
    c->is_ours = t != NULL;
    c->tail = c->head;
    if (t)
        c->task = *t;
}

/* The first event of a processor, or another thread runs than was told: some kernels do not trace all threads, so who
 * came behind one of these has no beginning, and it has no end. */
static __attribute__((noinline)) int find_current(struct live_cpu *c, __u64 now)
{
    __u64 id = bpf_get_current_pid_tgid();
    __u32 key = key_of((__u32)id);
    if (c->generation == state.generation && c->is_ours) {
        clock_lose(&c->task);
        keep(c);
    }
    struct live_task *t = bpf_map_lookup_elem(&tasks, &key);
    if (!t && (config.is_system || is_root_here())) {
        add_task(SCRATCH_OF_ANY, key, NULL, id >> 32, now, 1);
        t = bpf_map_lookup_elem(&tasks, &key);
    }
    load(c, (__u32)id, t);
    if (c->is_ours && c->task.since_ns < now) { /* since when it has the processor was not told */
        c->task.since_ns = now;
        c->task.depth = 0;
    }
    return 0;
}

static __always_inline struct live_cpu *this_cpu(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&cpus, &zero);
}

/* Both are functions that the verifier looks at once, not at each call: so they may have no pointers. */
__attribute__((noinline)) int stepped(__u64 now, __u64 address, __u32 number, __u32 what)
{
    struct step_event e = {address, number, (__u8)what, (__u8)(what >> 8)};
    const struct live_machine *m = (const struct live_machine *)&config.machine;
    struct live_cpu *c = this_cpu();
    asm volatile("" : "+r"(m)); /* the compiler may not know that it is all zero in this file */
    if (c)
        step(m, &c->task, &e, now, NULL);
    return 0;
}

/* Of the thread that runs. Where no pattern asks for the event nothing is left of this when it is loaded. flag: 0 not,
 * 1 so. */
#define STEP(now, id, address, number, flag)                                                                           \
    do {                                                                                                               \
        if (config.machine.events & 1u << LIVE_EVENT_##id)                                                             \
            stepped(now, address, number, LIVE_EVENT_##id | ((flag) ? 2u : 1u) << 8);                                  \
    } while (0)

__attribute__((noinline)) int deal_with_put_off(void)
{
    struct live_cpu *c = this_cpu();
    for (__u32 i = 0; c && i < LIVE_PUT_OFF; i++) {
        if (c->tail == c->head)
            break;
        const struct live_put_off *p = &c->put_off[c->tail++ & (LIVE_PUT_OFF - 1)];
        __u64 now = clock_at(&c->task, p->time_ns);
        if (p->kind == LIVE_PUT_OFF_INTERRUPT) {
            clock_interrupt(&c->task, p->vector, now, NULL);
            STEP(now, INTERRUPT, 0, p->vector, 0);
        } else if (p->kind == LIVE_PUT_OFF_RESUME) {
            clock_resume(&c->task, now, NULL);
            STEP(now, RESUME, 0, 0, 0);
        } else {
            c->task.faults_kernel++;
            STEP(now, FAULT, p->address, 0, 1);
        }
    }
    return 0;
}

static __always_inline int is_off(void) { return !state.is_on; }

/* Begin and end of dealing with an event. Between them an interrupt may come, whose own events would find the clock in
 * the middle of being moved: they find that it is busy, and are put off. NULL: not to be dealt with. */
static __always_inline struct live_cpu *begin_event(void)
{
    struct live_cpu *c = is_off() ? NULL : this_cpu();
    if (!c || c->is_busy)
        return NULL;
    c->is_busy = 1;
    asm volatile("" ::: "memory");
    return c;
}

static __always_inline void end_event(struct live_cpu *c)
{
    asm volatile("" ::: "memory");
    c->is_busy = 0;
}

static __always_inline void put_off(__u32 kind, __u32 vector, __u64 address)
{
    struct live_cpu *c = is_off() ? NULL : this_cpu();
    if (!c || !c->is_busy)
        return;
    if (c->head - c->tail >= LIVE_PUT_OFF) {
        __sync_fetch_and_add(&state.lost, 1);
        return;
    }
    struct live_put_off *p = &c->put_off[c->head & (LIVE_PUT_OFF - 1)];
    p->time_ns = bpf_ktime_get_ns();
    p->address = address;
    p->vector = vector;
    p->kind = kind;
    c->head++;
}

/* The entry of the thread that runs, and in *now the time of its event. NULL: its events do not count. */
static __always_inline struct live_task *current_task(struct live_cpu *c, __u64 *now)
{
    *now = bpf_ktime_get_ns();
    if (c->tail != c->head && c->is_ours && c->generation == state.generation)
        deal_with_put_off();
    if (c->tid != (__u32)bpf_get_current_pid_tgid() || c->generation != state.generation)
        find_current(c, *now);
    if (!c->is_ours)
        return NULL;
    *now = clock_at(&c->task, *now);
    return &c->task;
}

/* ---- system calls ---- */

SEC("tp_btf/sys_enter") int enter(__u64 *ctx)
{
    __u64 now;
    struct live_cpu *c = begin_event();
    if (!c)
        return 0;
    struct live_task *t = current_task(c, &now);
    if (t) {
        clock_enter(t, (__u32)ctx[1], now, NULL);
        STEP(now, ENTER, 0, (__u32)ctx[1], 0);
    }
    end_event(c);
    return 0;
}

SEC("tp_btf/sys_exit") int leave(__u64 *ctx)
{
    __u64 now;
    __s64 result = (__s64)ctx[1];
    struct live_cpu *c = begin_event();
    if (!c)
        return 0;
    struct live_task *t = current_task(c, &now);
    if (t) {
        int has_failed = result < 0 && result >= -4095;
        __u32 number = t->call ? t->call - 1u : LIVE_CALLS;
        clock_leave(t, has_failed, now, NULL);
        STEP(now, LEAVE, 0, number, has_failed);
    }
    end_event(c);
    return 0;
}

/* ---- page faults ---- */

SEC("tp_btf/page_fault_user") int fault_user(__u64 *ctx)
{
    __u64 now;
    struct live_cpu *c = begin_event();
    if (!c)
        return 0;
    struct live_task *t = current_task(c, &now);
    if (t) {
        clock_charge(t, now, NULL);
        t->faults_user++;
        STEP(now, FAULT, ctx[0], 0, 0);
    }
    end_event(c);
    return 0;
}

SEC("tp_btf/page_fault_kernel") int fault_kernel(__u64 *ctx)
{
    __u64 now;
    struct live_cpu *c = begin_event();
    if (!c) {
        put_off(LIVE_PUT_OFF_FAULT, 0, ctx[0]);
        return 0;
    }
    struct live_task *t = current_task(c, &now);
    if (t) {
        clock_charge(t, now, NULL);
        t->faults_kernel++;
        STEP(now, FAULT, ctx[0], 0, 1);
    }
    end_event(c);
    return 0;
}

/* ---- interrupts ---- */

static __always_inline int begin_interrupt(__u32 number)
{
    __u64 now;
    __u32 vector = number < LIVE_VECTORS ? number : LIVE_VECTORS - 1;
    struct live_cpu *c = begin_event();
    if (!c) {
        put_off(LIVE_PUT_OFF_INTERRUPT, vector, 0);
        return 0;
    }
    struct live_task *t = current_task(c, &now);
    if (t) {
        clock_interrupt(t, vector, now, NULL);
        STEP(now, INTERRUPT, 0, number, 0);
    }
    end_event(c);
    return 0;
}

static __always_inline int end_interrupt(void)
{
    __u64 now;
    struct live_cpu *c = begin_event();
    if (!c) {
        put_off(LIVE_PUT_OFF_RESUME, 0, 0);
        return 0;
    }
    struct live_task *t = current_task(c, &now);
    if (t) {
        clock_resume(t, now, NULL);
        STEP(now, RESUME, 0, 0, 0);
    }
    end_event(c);
    return 0;
}

enum {
#define INTERRUPT(name, text, in_rings) VECTOR_##name,
#include "live/interrupts.def"
#undef INTERRUPT
};
#define INTERRUPT(name, text, in_rings)                                                                                \
    SEC("tp_btf/" #name "_entry") int begin_##name(__u64 *ctx) { return begin_interrupt(VECTOR_##name); }              \
    SEC("tp_btf/" #name "_exit") int end_##name(__u64 *ctx) { return end_interrupt(); }
#include "live/interrupts.def"
#undef INTERRUPT

SEC("tp_btf/softirq_entry") int begin_softirq(__u64 *ctx) { return begin_interrupt(LIVE_SOFT + ((__u32)ctx[0] & 15)); }
SEC("tp_btf/softirq_exit") int end_softirq(__u64 *ctx) { return end_interrupt(); }
SEC("tp_btf/irq_handler_entry") int begin_device(__u64 *ctx) { return begin_interrupt(LIVE_DEVICE + (__u32)ctx[0]); }
SEC("tp_btf/irq_handler_exit") int end_device(__u64 *ctx) { return end_interrupt(); }

/* ---- who has the processor ---- */

/* The number of counted threads that run or want to: while there are none of these the command is idle. */
static __always_inline void become_active(struct live_task *t, __u64 now)
{
    if (t->is_counted)
        return;
    t->is_counted = 1;
    if (__sync_fetch_and_add(&state.active, 1) == 0 && state.idle_since_ns) {
        state.idle_ns += clock_passed(state.idle_since_ns, now);
        state.idle_since_ns = 0;
    }
}

static __always_inline void become_inactive(struct live_task *t, __u64 now)
{
    if (!t->is_counted)
        return;
    t->is_counted = 0;
    if (__sync_fetch_and_add(&state.active, -1) == 1)
        state.idle_since_ns = now;
}

static __always_inline void switch_to(struct live_cpu *c, struct task_struct *next, __u64 now)
{
    __u32 tid = next->pid, key = key_of(tid);
    struct live_task *t = bpf_map_lookup_elem(&tasks, &key);
    if (!t && config.is_system) {
        add_task(SCRATCH_OF_EVENTS, key, next, next->tgid, now, 1);
        t = bpf_map_lookup_elem(&tasks, &key);
    }
    if (t) {
        now = clock_at(t, now);
        become_active(t, now);
        clock_run(t, now);
    }
    load(c, tid, t);
    if (t)
        STEP(now, RUN, 0, 0, 0);
    if (!t && config.namespace_inode) /* perhaps it is a thread of the root's: its first event tells */
        c->generation--;
}

SEC("tp_btf/sched_switch") int switched(__u64 *ctx)
{
    int is_preempted = (int)ctx[0] & 1;
    __u64 now;
    struct live_cpu *c = begin_event();
    if (!c)
        return 0;
    struct live_task *t = current_task(c, &now);
    if (t) {
        clock_stop(t, now, is_preempted, NULL);
        STEP(now, STOP, 0, 0, is_preempted);
        if (!is_preempted)
            become_inactive(t, now);
        keep(c);
    }
    switch_to(c, (void *)ctx[2], now);
    end_event(c);
    return 0;
}

static __always_inline int woken(struct task_struct *p)
{
    __u32 key = p->pid;
    struct live_task *t = is_off() || !key ? NULL : bpf_map_lookup_elem(&tasks, &key);
    __u64 now = bpf_ktime_get_ns();
    if (!t)
        return 0;
    become_active(t, now);
    if (t->off_ns && !t->was_preempted) { /* it waited until now; from now on it wants a processor */
        __u64 waited = clock_passed(t->off_ns, now);
        t->waited_ns += waited;
        if (t->context == LIVE_CALL)
            t->this_off_ns += waited;
        t->off_ns = now;
        t->was_preempted = 1;
    }
    return 0;
}
SEC("tp_btf/sched_wakeup") int wakeup(__u64 *ctx) { return woken((void *)ctx[0]); }
SEC("tp_btf/sched_wakeup_new") int wakeup_new(__u64 *ctx) { return woken((void *)ctx[0]); }

/* ---- begin and end ---- */

static __always_inline void hand_over(struct live_task *t)
{
    if (bpf_ringbuf_output(&ended, t, sizeof *t, 0) < 0)
        __sync_fetch_and_add(&state.lost, 1);
}

SEC("tp_btf/sched_process_fork") int forked(__u64 *ctx)
{
    struct task_struct *child = (void *)ctx[1]; /* of the thread that runs */
    __u32 tid = child->pid;
    __u64 now;
    struct live_cpu *c = begin_event();
    if (!c)
        return 0;
    struct live_task *t = current_task(c, &now);
    if (t) {
        clock_charge(t, now, NULL);
        STEP(now, FORK, 0, 0, 0);
    }
    if (t || config.is_system) {
        struct live_task *old =
            bpf_map_lookup_elem(&tasks, &tid); /* the number was another's, whose end is still to come */
        if (old)
            hand_over(old);
        add_task(SCRATCH_OF_EVENTS, tid, child, child->tgid, 0, 0);
    }
    end_event(c);
    return 0;
}

/* The first program of a command: from here on it counts. It is in the middle of execve, whose end is to come. */
static __always_inline void begin(struct task_struct *p, __u64 now)
{
    __u64 id = bpf_get_current_pid_tgid();
    __u32 key = (__u32)id;
    struct live_task *root = bpf_map_lookup_elem(&tasks, &key);
    if (!root && !is_root_here())
        return;
    add_task(SCRATCH_OF_EVENTS, key, p, id >> 32, now, 1);
    state.begun_ns = now;
    state.generation++;
    state.is_on = 1;
    struct live_cpu *c = begin_event();
    struct live_task *t = c ? current_task(c, &now) : NULL;
    if (t)
        become_active(t, now);
    if (c)
        end_event(c);
}

SEC("tp_btf/sched_process_exec") int executed(__u64 *ctx)
{
    __u64 now;
    if (config.waits_for_exec && !state.begun_ns) {
        begin((void *)ctx[0], bpf_ktime_get_ns());
        return 0;
    }
    struct live_cpu *c = begin_event();
    if (!c)
        return 0;
    struct live_task *t = current_task(c, &now);
    if (t) {
        bpf_get_current_comm(t->comm, sizeof t->comm);
        clock_charge(t, now, NULL);
        STEP(now, EXEC, 0, 0, 0);
    }
    end_event(c);
    return 0;
}

SEC("tp_btf/sched_process_free") int freed(__u64 *ctx)
{
    struct task_struct *p = (void *)ctx[0];
    __u32 key = p->pid;
    struct live_task *t = bpf_map_lookup_elem(&tasks, &key);
    if (!t || t->address != (__u64)p || is_off()) /* off: the host reads what stands there, the dead too */
        return 0;
    hand_over(t);
    bpf_map_delete_elem(&tasks, &key);
    return 0;
}

/* The kernel lets only programs under the GPL read its structures, so this file and what it includes may be had under
 * that licence too. */
char terms[] SEC("license") = "GPL v2";
