/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime that lives inside a rewritten program: maps the counter file over the counters of each module, and gives
 * a forked child an area of its own. Freestanding and position-independent; raw system calls only. It never allocates,
 * locks, prints or ends the process: what it cannot do it leaves undone and marks in the file's flags.
 *
 * One control page a process stands at a fixed address (WIRE_PCB_VADDR); the first module that starts makes it, if the
 * environment names a counter file, and takes the name out of the environment. fork copies it, exec drops it.
 */
#include "wire/wire.h"

typedef __SIZE_TYPE__ size_t;

enum {
    SYS_open = 2,
    SYS_close = 3,
    SYS_mmap = 9,
    SYS_munmap = 11,
    SYS_rt_sigaction = 13,
    SYS_access = 21,
    SYS_mincore = 27,
    SYS_sched_setaffinity = 203,
    SYS_timer_create = 222,
    SYS_timer_settime = 223,
    SYS_getcpu = 309
};
enum {
    PROT_RW = 3,
    MAP_SHARED = 1,
    MAP_PRIVATE = 2,
    MAP_FIXED = 16,
    MAP_ANON = 32,
    MAP_NORESERVE = 0x4000,
    MAP_FIXED_NOREPLACE = 0x100000
};
enum { O_RDWR_CLOEXEC = 02 | 02000000 };
enum { NR_CLONE = 56, NR_CLONE3 = 435 };
enum { F_CLONE_VM = 0x100, F_CLONE_VFORK = 0x4000 };
enum { PAGE = 4096, EFAULT_ = 14, PATH_BYTES = 512 };

enum { CONFIG_SAMPLER = 1, CONFIG_STATIC = 2 };
struct rt_config {    /* filled in by the rewriter; distances from the start of the blob */
    int64_t data_rel; /* struct rt_data, and the counters PAGE bytes further */
    uint64_t bytes;   /* of the counters, a multiple of PAGE */
    uint64_t flags;   /* CONFIG_* */
    int64_t orig_rel; /* the original DT_INIT or e_entry; 0 none */
    uint8_t key[WIRE_KEY_BYTES];
};
#pragma GCC visibility push(hidden) /* else the compiler goes through a GOT that the blob does not have */
extern const struct rt_config rt_config;
extern const char rt_blob[];
#pragma GCC visibility pop

struct rt_data {      /* in the module's own writable page */
    uint64_t pending; /* the system call under way makes a process with memory of its own */
    uint64_t self;    /* own address, once started: tells a live module from memory used again after dlclose */
};

struct rt_module {
    uint64_t data, bytes, offset;
};
struct rt_pcb {
    uint64_t magic;
    struct wire_header *header; /* shared mapping */
    uint64_t area;
    uint32_t module_count, has_threads;
    char path[PATH_BYTES];
    struct rt_module modules[WIRE_MODULES_MOST];
};
#define PCB ((struct rt_pcb *)WIRE_PCB_VADDR)
#define PCB_BYTES ((sizeof(struct rt_pcb) + PAGE - 1) / PAGE * PAGE)

#pragma GCC visibility push(hidden)
void rt_start(char **envp);
void rt_sigreturn(void);
void rt_note_clone(uint64_t nr, uint64_t a0, uint64_t a1);
void rt_new_process(void);
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
#pragma GCC visibility pop

void *memcpy(void *to, const void *from, size_t n)
{
    char *t = to;
    const char *f = from;
    while (n--)
        *t++ = *f++;
    return to;
}

void *memset(void *to, int c, size_t n)
{
    char *t = to;
    while (n--)
        *t++ = (char)c;
    return to;
}

static int64_t sys(uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    register uint64_t r10 __asm__("r10") = d;
    register uint64_t r8 __asm__("r8") = e;
    register uint64_t r9 __asm__("r9") = f;
    int64_t rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}

static int failed(int64_t rc) { return rc < 0 && rc > -4096; }

/* Only a module that has started (self is set) knows that the control page is there. */
static int is_counting(void) { return ((const struct rt_data *)(rt_blob + rt_config.data_rel))->self != 0; }

static struct rt_data *own_data(void) { return (struct rt_data *)(rt_blob + rt_config.data_rel); }

static void flag(struct wire_header *h, uint32_t bits) { __atomic_fetch_or(&h->flags, bits, __ATOMIC_RELAXED); }

static int open_file(const char *path) { return (int)sys(SYS_open, (uint64_t)path, O_RDWR_CLOEXEC, 0, 0, 0, 0); }

/* Start-up code of a static executable looks for the auxiliary vector behind the first null: close the gap. (The
 * dynamic linker has found it before us, and keeps its address.) */
static void pull_auxv(char **hole) /* its old place begins behind hole, its new one at it */
{
    uint64_t *to = (uint64_t *)hole, *from = to + 1;
    for (;; to += 2, from += 2) {
        to[0] = from[0];
        to[1] = from[1];
        if (!to[0])
            return;
    }
}

/* The value of an environment variable (name with its '='), copied out and taken away. 0 if there is none. */
static int take_env(char **envp, const char *name, char *path)
{
    for (; *envp; envp++) {
        const char *v = *envp;
        size_t i = 0;
        while (name[i] && v[i] == name[i])
            i++;
        if (name[i])
            continue;
        size_t n = 0;
        while (v[i + n] && n + 1 < PATH_BYTES) {
            path[n] = v[i + n];
            n++;
        }
        path[n] = 0;
        for (; *envp; envp++)
            envp[0] = envp[1];
        if (rt_config.flags & CONFIG_STATIC)
            pull_auxv(envp);
        return 1;
    }
    return 0;
}

static uint64_t take_area(struct wire_header *h)
{
    uint32_t n = __atomic_fetch_add(&h->area_next, 1, __ATOMIC_RELAXED);
    if (n >= h->area_most) {
        flag(h, WIRE_LOST);
        return UINT64_MAX;
    }
    return n;
}

/* The process's control page: there already, made now, or (0) this process is not counted. */
static int find_pcb(char **envp)
{
    int64_t at = sys(SYS_mmap, WIRE_PCB_VADDR, PCB_BYTES, PROT_RW, MAP_PRIVATE | MAP_ANON | MAP_FIXED_NOREPLACE,
                     (uint64_t)-1, 0);
    if (failed(at))
        return at == -17 /* EEXIST */ && PCB->magic == WIRE_MAGIC;
    if (at != (int64_t)WIRE_PCB_VADDR) {
        sys(SYS_munmap, (uint64_t)at, PCB_BYTES, 0, 0, 0, 0);
        return 0;
    }
    struct wire_header *h = 0;
    if (take_env(envp, WIRE_ENV "=", PCB->path)) {
        int fd = open_file(PCB->path);
        if (fd >= 0) {
            int64_t m = sys(SYS_mmap, 0, WIRE_HEADER_BYTES, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
            sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
            if (!failed(m))
                h = (struct wire_header *)m;
        }
    }
    if (!h || h->magic != WIRE_MAGIC) {
        sys(SYS_munmap, WIRE_PCB_VADDR, PCB_BYTES, 0, 0, 0, 0);
        return 0;
    }
    PCB->header = h;
    PCB->area = take_area(h);
    PCB->magic = WIRE_MAGIC;
    return 1;
}

/* Puts the file's counters of the present area over a module's; what it has counted so far is added if `keep`, else
 * lost on purpose (a child's copy of its parent's counts). If it cannot, counts go to private memory. */
static void map_counters(const struct rt_module *m, int keep)
{
    struct wire_header *h = PCB->header;
    uint64_t at = m->data + PAGE, *old = (uint64_t *)at, n = m->bytes / 8;
    uint64_t where = WIRE_HEADER_BYTES + PCB->area * h->area_bytes + m->offset;
    int fd = PCB->area == UINT64_MAX ? -1 : open_file(PCB->path);
    int64_t now = -1;
    if (fd >= 0) {
        if (keep) {
            int64_t first = sys(SYS_mmap, 0, m->bytes, PROT_RW, MAP_SHARED, (uint64_t)fd, where);
            if (!failed(first)) {
                for (uint64_t i = 0; i < n; i++)
                    if (old[i])
                        ((uint64_t *)first)[i] += old[i];
                sys(SYS_munmap, (uint64_t)first, m->bytes, 0, 0, 0, 0);
            }
        }
        now = sys(SYS_mmap, at, m->bytes, PROT_RW, MAP_SHARED | MAP_FIXED, (uint64_t)fd, where);
        sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    }
    if (!failed(now))
        return;
    flag(h, WIRE_LOST);
    if (!keep)
        sys(SYS_mmap, at, m->bytes, PROT_RW, MAP_PRIVATE | MAP_ANON | MAP_FIXED | MAP_NORESERVE, (uint64_t)-1, 0);
}

static int same_key(const uint8_t *a, const uint8_t *b)
{
    for (int i = 0; i < WIRE_KEY_BYTES; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

/* ---- the sampler ---- */

enum {
    SIGPROF_ = 27,
    SA_FLAGS = 0x4 /* SIGINFO */ | 0x04000000 /* RESTORER */ | 0x08000000 /* ONSTACK */ | 0x10000000 /* RESTART */,
    UC_RIP = 168,
    CLOCK_PROCESS_CPU = 2
};
#define SAMPLES_VADDR (WIRE_PCB_VADDR - PAGE) /* where the address of the sample file's mapping is kept */

static void on_tick(int sig, const void *info, const void *context)
{
    (void)sig;
    (void)info;
    struct wire_samples *s = *(struct wire_samples **)SAMPLES_VADDR;
    uint64_t n = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
    if (n < s->capacity)
        s->pc[n] = *(const uint64_t *)((const char *)context + UC_RIP);
}

static struct wire_samples *map_samples(const char *path)
{
    int fd = open_file(path);
    if (fd < 0)
        return 0;
    int64_t m = sys(SYS_mmap, 0, PAGE, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
    struct wire_samples *s = 0;
    if (!failed(m) && ((struct wire_samples *)m)->magic == WIRE_SAMPLES_MAGIC) {
        uint64_t bytes = sizeof *s + ((struct wire_samples *)m)->capacity * 8;
        int64_t all = sys(SYS_mmap, 0, bytes, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
        s = failed(all) ? 0 : (struct wire_samples *)all;
    }
    if (!failed(m))
        sys(SYS_munmap, (uint64_t)m, PAGE, 0, 0, 0, 0);
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    return s;
}

static void start_sampling(char **envp)
{
    char path[PATH_BYTES];
    if (!take_env(envp, WIRE_SAMPLES_ENV "=", path))
        return;
    struct wire_samples *s = map_samples(path);
    int64_t at =
        sys(SYS_mmap, SAMPLES_VADDR, PAGE, PROT_RW, MAP_PRIVATE | MAP_ANON | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
    if (!s || at != (int64_t)SAMPLES_VADDR)
        return;
    *(struct wire_samples **)SAMPLES_VADDR = s;
    uint64_t handler = (uint64_t)on_tick, restorer = (uint64_t)rt_sigreturn;
    __asm__("" : "+r"(handler), "+r"(restorer)); /* else clang makes a table of them, which would need a relocation */
    uint64_t action[4] = {handler, SA_FLAGS, restorer, 0};
    uint64_t event[8] = {0, SIGPROF_, 0, 0, 0, 0, 0, 0}; /* sigev_value, sigev_signo and SIGEV_SIGNAL (0) */
    uint32_t timer[2];
    uint64_t period[4] = {s->period_ns / 1000000000u, s->period_ns % 1000000000u, s->period_ns / 1000000000u,
                          s->period_ns % 1000000000u};
    if (sys(SYS_rt_sigaction, SIGPROF_, (uint64_t)action, 0, 8, 0, 0) == 0 &&
        sys(SYS_timer_create, CLOCK_PROCESS_CPU, (uint64_t)event, (uint64_t)timer, 0, 0, 0) == 0 &&
        sys(SYS_timer_settime, timer[0], 0, (uint64_t)period, 0, 0, 0) == 0)
        s->started = 1;
}

void rt_start(char **envp)
{
    struct rt_data *d = own_data();
    if (rt_config.flags & CONFIG_SAMPLER)
        start_sampling(envp);
    if (!rt_config.bytes || !find_pcb(envp))
        return;
    struct wire_header *h = PCB->header;
    for (uint32_t i = 0; i < h->module_count && i < WIRE_MODULES_MOST; i++) {
        struct wire_module *wm = &h->modules[i];
        if (!same_key(wm->key, rt_config.key))
            continue;
        if (PCB->module_count == WIRE_MODULES_MOST || wm->bytes < rt_config.bytes)
            break;
        struct rt_module *m = &PCB->modules[PCB->module_count++];
        m->data = (uint64_t)d;
        m->bytes = rt_config.bytes;
        m->offset = wm->offset;
        map_counters(m, 1);
        if (!wm->addr)
            wm->addr = m->data + PAGE;
        __atomic_fetch_add(&wm->loaded, 1, __ATOMIC_RELAXED);
        d->self = m->data;
        return;
    }
    flag(h, WIRE_LOST);
}

/* Several threads incrementing one counter at once would lose counts; on one processor an increment, being one
 * instruction, cannot be interrupted. Done when the first thread is about to be made (it inherits the setting), so that
 * a program that asked how many processors there are has got the true answer. */
static void share_processor(struct wire_header *h)
{
    uint32_t cpu = 0;
    uint64_t mask[128] = {0};
    if (!failed(sys(SYS_getcpu, (uint64_t)&cpu, 0, 0, 0, 0, 0)) && cpu < sizeof mask * 8) {
        mask[cpu / 64] = 1ull << cpu % 64;
        if (!failed(sys(SYS_sched_setaffinity, 0, sizeof mask, (uint64_t)mask, 0, 0, 0)))
            return;
    }
    flag(h, WIRE_THREADS_APART);
}

/* Before clone, fork, clone3 by the thread itself: will the child have memory of its own? */
void rt_note_clone(uint64_t nr, uint64_t a0, uint64_t a1)
{
    uint64_t flags = nr == NR_CLONE ? a0 : nr == NR_CLONE3 && a1 >= 8 ? *(const uint64_t *)a0 : 0;
    own_data()->pending = !(flags & F_CLONE_VM);
    if (is_counting() && (flags & F_CLONE_VM) && !(flags & F_CLONE_VFORK)) {
        if (!PCB->has_threads)
            share_processor(PCB->header);
        PCB->has_threads = 1;
        flag(PCB->header, WIRE_THREADS);
        __atomic_fetch_add(&PCB->header->threads, 1, __ATOMIC_RELAXED);
    }
}

/* Is the module still loaded? Asks the kernel before it looks, since a dlclose may have unmapped it. */
static int is_alive(const struct rt_module *m)
{
    unsigned char in_core;
    if (failed(sys(SYS_mincore, m->data, PAGE, (uint64_t)&in_core, 0, 0, 0)))
        return 0;
    if (sys(SYS_access, m->data + PAGE - 1, 0, 0, 0, 0, 0) == -EFAULT_)
        return 0;
    return ((const struct rt_data *)m->data)->self == m->data;
}

/* In the child of a fork, before any of its code runs. */
void rt_new_process(void)
{
    if (!is_counting())
        return;
    struct wire_header *h = PCB->header;
    __atomic_fetch_add(&h->forks, 1, __ATOMIC_RELAXED);
    PCB->area = take_area(h);
    for (uint32_t i = 0; i < PCB->module_count; i++)
        if (is_alive(&PCB->modules[i]))
            map_counters(&PCB->modules[i], 0);
}
