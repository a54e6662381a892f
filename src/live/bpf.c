/* SPDX-License-Identifier: Apache-2.0
 * The host's half of the BPF program (bpf/live.bpf.c): loads what of it the running kernel has tracepoints for, tells
 * it whose events count, and reads its sums. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "live/bpf/shared.h"
#include "live/clock.h"
#include "live/impl.h"
#include "live_bpf.h"

/* The inode of /proc/self/ns/pid in the first pid namespace (PROC_PID_INIT_INO). */
#define FIRST_PID_NAMESPACE 0xeffffffcu
#define STATE_BYTES 4096u
_Static_assert(sizeof(struct live_state) <= STATE_BYTES, "one page of the program's variables");

struct live_bpf {
    const struct live_target *target;
    struct bpf_object *object;
    struct ring_buffer *ring;
    struct live_state *state; /* shared with the program */
    int tasks, calls, vectors, marks, cpus;
    VEC(struct bpf_link *) links; /* programs at tracepoints */
    VEC(struct live_task) ended;
    struct live_sums traced; /* of it only the entries */
    bool is_first_namespace;
};

/* ---- loading ---- */

static int say_nothing(enum libbpf_print_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static int say_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
    if (diag_verbose > 1 && level == LIBBPF_WARN)
        vfprintf(stderr, format, args);
    return 0;
}

/* Programs for tracepoints that this kernel lacks stay out. Without system calls there is no point in the others. */
static bool choose_programs(struct bpf_object *o, struct arena *a, const char **why)
{
    struct btf *kernel = btf__load_vmlinux_btf();
    if (!kernel) {
        *why = arena_printf(a, "no type information of the kernel (/sys/kernel/btf/vmlinux): %s", strerror(errno));
        return false;
    }
    struct bpf_program *p;
    bool ok = true;
    bpf_object__for_each_program(p, o)
    {
        char name[96];
        const char *slash = strchr(bpf_program__section_name(p), '/'), *point = slash ? slash + 1 : "";
        snprintf(name, sizeof name, "btf_trace_%s", point);
        bool is_there = btf__find_by_name_kind(kernel, name, BTF_KIND_TYPEDEF) > 0;
        bpf_program__set_autoload(p, is_there);
        if (!is_there && (!strcmp(point, "sys_enter") || !strcmp(point, "sched_switch"))) {
            *why = arena_printf(a, "this kernel has no tracepoint %s", point);
            ok = false;
        }
    }
    btf__free(kernel);
    return ok;
}

static struct bpf_map *find_map(struct bpf_object *o, const char *end)
{
    struct bpf_map *m;
    bpf_object__for_each_map(m, o)
    {
        const char *name = bpf_map__name(m);
        if (strlen(name) >= strlen(end) && !strcmp(name + strlen(name) - strlen(end), end))
            return m;
    }
    return NULL;
}

static bool configure(struct live_bpf *b)
{
    struct stat st = {0};
    b->is_first_namespace = stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == FIRST_PID_NAMESPACE;
    struct live_config c = {.is_system = b->target->scope == LIVE_SYSTEM,
                            .waits_for_exec = b->target->scope == LIVE_COMMAND};
    if (!b->is_first_namespace && b->target->scope != LIVE_SYSTEM) {
        c.namespace_device = st.st_dev;
        c.namespace_inode = st.st_ino;
    }
    if (b->target->program)
        c.machine = b->target->program->machine;
    return bpf_map__set_initial_value(find_map(b->object, ".rodata.config"), &c, sizeof c) == 0;
}

static int take_ended(void *ctx, void *data, size_t size)
{
    struct live_bpf *b = ctx;
    if (size == sizeof(struct live_task))
        VEC_PUSH(&b->ended, *(const struct live_task *)data);
    return 0;
}

static int take_entry(void *ctx, void *data, size_t size)
{
    struct live_bpf *b = ctx;
    if (size == sizeof(struct live_entry) && b->target->program)
        live_sums_trace(&b->traced, b->target->program, data);
    return 0;
}

static bool attach(struct live_bpf *b)
{
    struct bpf_program *p;
    bpf_object__for_each_program(p, b->object)
    {
        struct bpf_link *link = bpf_program__autoload(p) ? bpf_program__attach(p) : NULL;
        if (link)
            VEC_PUSH(&b->links, link);
        else if (bpf_program__autoload(p))
            return false;
    }
    return true;
}

static bool load(struct live_bpf *b, struct arena *a, const char **why)
{
    b->object = bpf_object__open_mem(bpf_object, sizeof bpf_object, NULL);
    if (!b->object) {
        *why = arena_printf(a, "the BPF program cannot be opened: %s", strerror(errno));
        return false;
    }
    if (!choose_programs(b->object, a, why))
        return false;
    int rc = configure(b) ? bpf_object__load(b->object) : -EINVAL;
    if (rc < 0) {
        *why = arena_printf(a, "the kernel refuses BPF programs: %s", strerror(-rc));
        return false;
    }
    void *state =
        mmap(NULL, STATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(find_map(b->object, ".bss")), 0);
    b->state = state == MAP_FAILED ? NULL : state;
    b->tasks = bpf_object__find_map_fd_by_name(b->object, "tasks");
    b->calls = bpf_object__find_map_fd_by_name(b->object, "calls");
    b->vectors = bpf_object__find_map_fd_by_name(b->object, "vectors");
    b->cpus = bpf_object__find_map_fd_by_name(b->object, "cpus");
    b->marks = bpf_object__find_map_fd_by_name(b->object, "marks");
    b->ring = ring_buffer__new(bpf_object__find_map_fd_by_name(b->object, "ended"), take_ended, b, NULL);
    int trace = bpf_object__find_map_fd_by_name(b->object, "trace");
    if (b->state && b->ring && ring_buffer__add(b->ring, trace, take_entry, b) == 0 && attach(b))
        return true;
    *why = arena_printf(a, "BPF programs cannot be attached: %s", strerror(errno));
    return false;
}

struct live_bpf *live_bpf_open(const struct live_target *t, struct arena *a, const char **why)
{
    struct live_bpf *b = xmalloc(sizeof *b);
    libbpf_set_print(say_nothing);
    b->target = t;
    if (load(b, a, why))
        return b;
    live_bpf_close(b);
    return NULL;
}

/* ---- reading ---- */

static struct live_call_sum read_call(const struct live_bpf *b, __u32 number, struct live_call_sum *each, int cpus)
{
    struct live_call_sum sum = {0};
    bool ok = bpf_map_lookup_elem(b->calls, &number, each) == 0;
    for (int c = 0; ok && c < cpus; c++) {
        sum.count += each[c].count;
        sum.errors += each[c].errors;
        sum.own_ns += each[c].own_ns;
        sum.waited_ns += each[c].waited_ns;
    }
    return sum;
}

static void read_calls(const struct live_bpf *b, struct live_sums *out, int cpus)
{
    struct live_call_sum *each = xmalloc((size_t)cpus * sizeof *each);
    for (__u32 i = 0; i < LIVE_CALLS; i++)
        out->table.calls[i] = read_call(b, i, each, cpus);
    free(each);
}

static void read_vectors(const struct live_bpf *b, struct live_sums *out, int cpus)
{
    struct live_vector_sum *each = xmalloc((size_t)cpus * sizeof *each);
    for (__u32 i = 0; i < LIVE_VECTORS; i++) {
        out->table.vectors[i] = (struct live_vector_sum){0};
        if (bpf_map_lookup_elem(b->vectors, &i, each) < 0)
            continue;
        for (int c = 0; c < cpus; c++) {
            out->table.vectors[i].count += each[c].count;
            out->table.vectors[i].ns += each[c].ns;
        }
    }
    free(each);
}

static void read_marks(const struct live_bpf *b, struct live_sums *out, int cpus)
{
    struct live_mark *each = xmalloc((size_t)cpus * sizeof *each);
    for (__u32 i = 0; i < LIVE_MARKS; i++) {
        bool ok = bpf_map_lookup_elem(b->marks, &i, each) == 0;
        for (int c = 0; ok && c < cpus; c++) {
            out->table.marks[i].count += each[c].count;
            out->table.marks[i].elapsed_ns += each[c].elapsed_ns;
            out->table.marks[i].own_ns += each[c].own_ns;
        }
    }
    free(each);
}

static void clear(const struct live_bpf *b, int cpus)
{
    void *zero = xmalloc((size_t)cpus * sizeof(struct live_call_sum));
    for (__u32 i = 0; i < LIVE_CALLS; i++)
        bpf_map_update_elem(b->calls, &i, zero, BPF_ANY);
    for (__u32 i = 0; i < LIVE_VECTORS; i++)
        bpf_map_update_elem(b->vectors, &i, zero, BPF_ANY);
    for (__u32 i = 0; i < LIVE_MARKS; i++)
        bpf_map_update_elem(b->marks, &i, zero, BPF_ANY);
    free(zero);
}

static void add_thread(const struct live_bpf *b, pid_t tid, pid_t tgid, bool is_waiting)
{
    struct live_task t = {.tid = (__u32)tid, .tgid = (__u32)tgid, .is_waiting = is_waiting};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", (int)tgid, (int)tid);
    FILE *f = fopen(path, "re");
    if (f && fgets(t.comm, sizeof t.comm, f))
        t.comm[strcspn(t.comm, "\n")] = 0;
    if (f)
        fclose(f);
    __u32 key = t.tid;
    bpf_map_update_elem(b->tasks, &key, &t, BPF_NOEXIST);
    b->state->generation++;
}

struct cost_reader {
    const struct live_bpf *b;
    struct live_call_sum *each;
    int cpus;
};

static struct live_call_sum read_cost(void *ctx)
{
    const struct cost_reader *r = ctx;
    return read_call(r->b, live_cost_call(), r->each, r->cpus);
}

void live_bpf_cost(struct live_bpf *b, struct live_cost *c)
{
    __u32 self = (__u32)gettid();
    struct cost_reader r = {.b = b, .cpus = libbpf_num_possible_cpus()};
    if (r.cpus <= 0)
        return;
    r.each = xmalloc((size_t)r.cpus * sizeof *r.each);
    if (b->is_first_namespace)
        add_thread(b, (pid_t)self, getpid(), false);
    b->state->root = (__u32)getpid();
    b->state->is_on = 1;
    live_cost_loop(c, read_cost, &r);
    b->state->is_on = 0;
    bpf_map_delete_elem(b->tasks, &self);
    clear(b, r.cpus);
    free(r.each);
}

/* What was seen of others while it was calibrated. */
static void forget_tasks(struct live_bpf *b)
{
    __u32 key;
    while (bpf_map_get_next_key(b->tasks, NULL, &key) == 0)
        bpf_map_delete_elem(b->tasks, &key);
    ring_buffer__consume(b->ring);
    b->ended.len = b->traced.entries.len = 0;
    b->traced.entries_lost = 0;
    *b->state = (struct live_state){.generation = b->state->generation + 1, .root = (__u32)b->target->pid};
}

static void add_threads(struct live_bpf *b)
{
    pid_t *tids;
    size_t n = live_threads_of(b->target->pid, &tids);
    for (size_t i = 0; i < n; i++)
        add_thread(b, tids[i], b->target->pid, false);
    free(tids);
}

void live_bpf_begin(struct live_bpf *b)
{
    forget_tasks(b);
    if (b->target->scope == LIVE_COMMAND) {
        if (b->is_first_namespace)
            add_thread(b, b->target->pid, b->target->pid, true);
        return;
    }
    b->state->begun_ns = time_now_ns();
    b->state->is_on = 1;
    for (int look = 0; look < 2 && b->target->scope == LIVE_PROCESS && b->is_first_namespace; look++)
        add_threads(b); /* twice, for those that were just being made */
}

int live_bpf_fd(const struct live_bpf *b) { return ring_buffer__epoll_fd(b->ring); }
void live_bpf_drain(struct live_bpf *b) { ring_buffer__consume(b->ring); }

/* Those that run have their entries with the processors. */
static void read_running(struct live_bpf *b, struct live_sums *out, int cpus)
{
    struct live_cpu *each = xmalloc((size_t)cpus * sizeof *each);
    __u32 zero = 0;
    bool ok = bpf_map_lookup_elem(b->cpus, &zero, each) == 0;
    for (int c = 0; ok && c < cpus; c++)
        for (size_t i = b->ended.len; i < out->tasks.len && each[c].is_ours; i++)
            if (each[c].generation == b->state->generation && out->tasks.data[i].tid == each[c].task.tid &&
                out->tasks.data[i].address == each[c].task.address)
                out->tasks.data[i] = each[c].task;
    free(each);
}

static void read_tasks(struct live_bpf *b, struct live_sums *out)
{
    __u32 key, *before = NULL, last;
    for (size_t i = 0; i < b->ended.len; i++)
        VEC_PUSH(&out->tasks, b->ended.data[i]);
    while (bpf_map_get_next_key(b->tasks, before, &key) == 0) {
        struct live_task t;
        if (bpf_map_lookup_elem(b->tasks, &key, &t) == 0 && !t.is_waiting)
            VEC_PUSH(&out->tasks, t);
        last = key;
        before = &last;
    }
}

/* Programs that found themselves on have ended when this returns: it waits for what RCU protects. Where the kernel
 * cannot (nohz_full), nothing is waited for. */
static void wait_for_programs(void) { syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0); }

void live_bpf_stop(struct live_bpf *b, struct live_sums *out)
{
    int cpus = libbpf_num_possible_cpus();
    b->state->is_on = 0;
    uint64_t now = time_now_ns(); /* behind the last event */
    wait_for_programs();          /* a thread that ends just now is in the ring, or in the map, and not in both */
    ring_buffer__consume(b->ring);
    if (cpus > 0) {
        read_calls(b, out, cpus);
        read_vectors(b, out, cpus);
        read_marks(b, out, cpus);
    }
    read_tasks(b, out);
    if (cpus > 0)
        read_running(b, out, cpus);
    for (size_t i = 0; i < out->tasks.len; i++)
        if (out->tasks.data[i].since_ns)
            clock_charge(&out->tasks.data[i], now, &out->table);
    memcpy(&out->entries, &b->traced.entries, sizeof out->entries); /* they are out's now */
    memset(&b->traced.entries, 0, sizeof b->traced.entries);
    out->entries_lost = b->traced.entries_lost + b->state->trace_lost;
    out->lost = b->state->lost;
    out->idle_ns = b->state->idle_ns;
    if (b->state->idle_since_ns && b->target->scope == LIVE_PROCESS)
        out->idle_ns += clock_passed(b->state->idle_since_ns, now);
    out->begun_ns = b->state->begun_ns;
    out->ended_ns = now;
    live_sums_unfinished(out);
}

void live_bpf_close(struct live_bpf *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->links.len; i++)
        bpf_link__destroy(b->links.data[i]);
    VEC_FREE(&b->links);
    ring_buffer__free(b->ring);
    if (b->state)
        munmap(b->state, STATE_BYTES);
    bpf_object__close(b->object);
    VEC_FREE(&b->ended);
    live_sums_fini(&b->traced);
    free(b);
}
