/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime that lives inside a rewritten program: maps the counter file over the counters of each module, and gives
 * a forked child an area of its own (threads: slots.c). Freestanding and position-independent; raw system calls only.
 * It never allocates, prints or ends the process: what it cannot do it leaves undone and marks in the file's flags.
 *
 * A module is registered before any of its code runs where threads count for themselves (the dynamic linker calls
 * rt_register for a relocation), else when it starts; the first that starts takes the name of the counter file out of
 * the environment.
 */
#include "rt/rt.h"

#include <asm/hwcap2.h>
#include <elf.h>
#include <linux/auxvec.h>

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

void rt_flag(uint32_t bits) { __atomic_fetch_or(&PCB->header->flags, bits, __ATOMIC_RELAXED); }

/* By openat, as libc opens: sandboxes that allow the one and not the other kill for it. */
int rt_open(const char *path)
{
    return (int)sys(SYS_openat, (uint64_t)(int64_t)AT_FDCWD, (uint64_t)path, O_RDWR_CLOEXEC, 0, 0, 0);
}

static const char *value_of(const char *variable, const char *name)
{
    while (*name && *variable == *name)
        variable++, name++;
    return *name ? 0 : variable;
}

/* The value of an environment variable (name with its '='), copied out and taken away. 0 if there is none. After
 * clearenv a library that is loaded is given no environment at all. mtool gives the variable twice: without two
 * pointers there is room for just one entry of the auxiliary vector, which must follow the environment for all who look
 * for it there (start-up code of static executables does). */
int rt_take_env(char **envp, const char *name, char *path)
{
    int found = 0;
    char **to = envp;
    for (; envp && *envp; envp++) {
        const char *value = value_of(*envp, name);
        if (!value) {
            if (found)
                *to = *envp;
            to++;
        } else if (!found++) {
            size_t n = 0;
            for (; value[n] && n + 1 < PATH_BYTES; n++)
                path[n] = value[n];
            path[n] = 0;
        }
    }
    if (found)
        *to = 0;
    if (found == 2) {
        to[1] = (char *)(uint64_t)AT_IGNORE;
        to[2] = 0;
    }
    return found;
}

uint64_t rt_take_area(void)
{
    struct wire_header *h = PCB->header;
    uint32_t n = __atomic_fetch_add(&h->area_next, 1, __ATOMIC_RELAXED);
    if (n >= h->area_max || n >= WIRE_AREAS_MAX)
        return NOWHERE;
    if (!h->follows)
        return n;
    h->areas[n].time_ns = clock_ns(CLOCK_MONOTONIC);
    h->areas[n].parent = (uint32_t)sys(SYS_getppid, 0, 0, 0, 0, 0, 0);
    h->areas[n].pid = (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return n;
}

/* ---- the control page ---- */

/* Something else may be there that cannot be read: a system call finds out without harm. */
static int has_pcb(void)
{
    unsigned char in_core;
    return !failed(sys(SYS_mincore, WIRE_PCB_VADDR, PAGE, (uint64_t)&in_core, 0, 0, 0)) &&
           sys(SYS_access, (uint64_t)PCB, 0, 0, 0, 0, 0) != -EFAULT && PCB->magic == WIRE_MAGIC;
}

static void drop_pcb(void) { sys(SYS_munmap, WIRE_PCB_VADDR, PCB_BYTES, 0, 0, 0, 0); }

static int make_pcb(void)
{
    int64_t at = sys(SYS_mmap, WIRE_PCB_VADDR, PCB_BYTES, PROT_RW,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
    if (failed(at))
        return 0;
    if (at != (int64_t)WIRE_PCB_VADDR) {
        sys(SYS_munmap, (uint64_t)at, PCB_BYTES, 0, 0, 0, 0);
        return 0;
    }
    *WIPED = 1;
    PCB->no_wipe = failed(sys(SYS_madvise, WIRE_PCB_VADDR, PAGE, MADV_WIPEONFORK, 0, 0, 0));
    PCB->magic = WIRE_MAGIC;
    return 1;
}

static int same_key(const uint8_t *a, const uint8_t *b)
{
    for (int i = 0; i < WIRE_KEY_BYTES; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

void rt_resolve(struct rt_module *m)
{
    const struct wire_header *h = PCB->header;
    m->offset = NOWHERE;
    if (!m->config) {
        m->offset = h->streams.bytes == m->bytes ? 0 : NOWHERE;
        return;
    }
    for (uint32_t i = 0; i < h->module_count && i < WIRE_MODULES_MAX; i++) {
        if (!same_key(h->modules[i].key, m->config->key))
            continue;
        if (h->modules[i].bytes >= m->bytes) {
            m->offset = h->modules[i].offset;
            m->wire = i;
        }
        return;
    }
}

/* The auxiliary vector stands behind the environment; behind one that the program has moved from the stack is none. The
 * bytes of chance that it names stand further up on the same stack. */
static void take_auxiliary_vector(char **envp)
{
    enum { STACK_MAX = 64 << 20, STRINGS_MAX = 8 << 20 };
    uint64_t top = (uint64_t)envp;
    if (top - (uint64_t)&envp > STACK_MAX)
        return;
    while (*envp)
        envp++;
    for (const uint64_t *aux = (const uint64_t *)(envp + 1); *aux; aux += 2)
        if (aux[0] == AT_HWCAP2)
            PCB->has_fsgsbase = (aux[1] & HWCAP2_FSGSBASE) != 0;
        else if (aux[0] == AT_RANDOM && aux[1] - top < STRINGS_MAX)
            PCB->stack_top = top;
}

static void copy_path(const char *from, char *to)
{
    while ((*to++ = *from++))
        continue;
}

/* The counter file that the environment names, or that of a program which has this one followed. 0: this process is not
 * counted. */
static int open_header(char **envp)
{
    struct wire_header *h = 0;
    int is_named = rt_take_env(envp, WIRE_ENV "=", PCB->path);
    if (!is_named)
        copy_path(WIRE_FOLLOW_PATH, PCB->path);
    int fd = rt_open(PCB->path);
    if (fd < 0)
        return 0;
    int64_t m = sys(SYS_mmap, 0, WIRE_HEADER_BYTES, PROT_RW, MAP_SHARED, (uint64_t)fd, 0);
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    h = (struct wire_header *)m;
    if (failed(m) || h->magic != WIRE_MAGIC)
        return 0;
    PCB->header = h;
    take_auxiliary_vector(envp);
    PCB->area = rt_take_area();
    if ((rt_config.flags & CONFIG_PROBES) && PCB->area == 0)
        h->begin_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (uint32_t i = 0; i < PCB->module_count; i++)
        if (PCB->modules[i].bytes && PCB->modules[i].config)
            rt_resolve(&PCB->modules[i]);
        else if (PCB->modules[i].bytes)
            rt_stream_open(&PCB->modules[i]);
    return 1;
}

/* ---- modules ---- */

/* Is the module still loaded? Asks the kernel before it looks, since a dlclose may have unmapped it. */
int rt_is_alive(const struct rt_module *m)
{
    return m->bytes && rt_is_readable(m->data) && ((const struct rt_data *)m->data)->self == m->data;
}

int rt_map_counters(struct rt_module *m, int keep)
{
    uint64_t at = m->data + PAGE, *old = (uint64_t *)at, n = m->bytes / 8;
    uint64_t where = WIRE_HEADER_BYTES + PCB->area * PCB->header->area_bytes + m->offset;
    int fd = PCB->area == NOWHERE || m->offset == NOWHERE ? -1 : rt_open(PCB->path);
    int64_t now = -1;
    m->is_mapped = 1;
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
        return 1;
    rt_flag(WIRE_LOST);
    if (!keep)
        sys(SYS_mmap, at, m->bytes, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, (uint64_t)-1, 0);
    return 0;
}

/* A place in the list; what lay where the new module lies now is gone. */
struct rt_module *rt_free_entry(uint64_t lo, uint64_t hi)
{
    struct rt_module *free = 0;
    for (uint32_t i = 0; i < PCB->module_count; i++) {
        struct rt_module *m = &PCB->modules[i];
        if (m->bytes && m->data < hi && lo < m->data + PAGE + m->bytes) {
            rt_slots_remove(m);
            m->bytes = 0;
        }
        if (!m->bytes && !free)
            free = m;
    }
    if (!free && PCB->module_count < WIRE_MODULES_MAX)
        free = &PCB->modules[PCB->module_count++];
    return free;
}

static struct rt_module *find_own(void)
{
    for (uint32_t i = 0; i < PCB->module_count; i++)
        if (PCB->modules[i].bytes && PCB->modules[i].data == (uint64_t)own_data())
            return &PCB->modules[i];
    return 0;
}

/* Garbage collectors look for pointers in all writable segments that program headers tell of (dl_iterate_phdr): in
 * counters they would find numbers, and lose time. The dynamic linker has mapped this one already. Not the program's
 * own: debuggers find out where it lies by comparing its headers in memory with those in the file. */
static void hide_counters(void)
{
    if (!rt_config.phdrs_rel)
        return;
    Elf64_Phdr *p = (Elf64_Phdr *)(rt_blob + rt_config.phdrs_rel);
    while (p->p_type && (p->p_type != PT_LOAD || p->p_memsz != PAGE + rt_config.bytes || !(p->p_flags & PF_W)))
        p++;
    uint64_t page = (uint64_t)&p->p_flags & ~(uint64_t)(PAGE - 1);
    if (!p->p_type || failed(sys(SYS_mprotect, page, PAGE, PROT_RW, 0, 0, 0)))
        return;
    p->p_flags &= ~(uint32_t)PF_W;
    sys(SYS_mprotect, page, PAGE, PROT_READ, 0, 0, 0);
}

/* The own module's entry, made if it has none; 0 if there is no room. */
static struct rt_module *enter_module(void)
{
    struct rt_data *d = own_data();
    uint64_t data = (uint64_t)d;
    if (d->self == data)
        return find_own();
    struct rt_module mine = {data,
                             rt_config.bytes,
                             NOWHERE,
                             0,
                             0,
                             &rt_config,
                             (uint64_t)rt_config.data_rel,
                             (rt_config.flags & CONFIG_PROBED) != 0};
    if (PCB->header)
        rt_resolve(&mine);
    struct rt_module *m = rt_free_entry(data, data + PAGE + mine.bytes);
    if (m) {
        *m = mine;
        d->self = data;
        hide_counters();
    } else {
        PCB->no_slots = 1; /* new ones would not know of this module */
    }
    rt_slots_add(&mine);
    return m;
}

static void start_module(struct rt_module *m)
{
    struct wire_header *h = PCB->header;
    if (!m || m->offset == NOWHERE) {
        rt_flag(WIRE_LOST);
    } else if (!m->is_mapped) {
        rt_map_counters(m, 1);
        if (!h->modules[m->wire].addr)
            h->modules[m->wire].addr = m->data + PAGE;
        __atomic_fetch_add(&h->modules[m->wire].loaded, 1, __ATOMIC_RELAXED);
    }
    own_data()->counting = 1;
}

/* Called by the dynamic linker while it relocates the module, before any of its code runs except what chooses
 * implementations (which counts without gs). The value goes to rt_data.early. */
uint64_t rt_register(void)
{
    struct rt_mask mask;
    if (!rt_config.bytes || (!has_pcb() && !make_pcb()))
        return 0;
    rt_lock(&mask);
    rt_stream_enter();
    struct rt_module *m = enter_module();
    if (PCB->header)
        start_module(m);
    rt_unlock(&mask);
    if (PCB->header)
        rt_stream_loads();
    return 0;
}

void rt_start(char **envp)
{
    struct rt_mask mask;
    int32_t windows_pid = 0;
    if (rt_config.flags & CONFIG_SAMPLER) {
        rt_start_sampling(envp);
        windows_pid = rt_start_windows(envp);
    }
    if (!rt_config.bytes || is_counting() || (!has_pcb() && !make_pcb()))
        return;
    rt_lock(&mask);
    rt_stream_enter();
    rt_unlock(&mask);
    if (!PCB->header && !open_header(envp)) {
        drop_pcb();
        return;
    }
    rt_lock(&mask);
    PCB->windows_pid = windows_pid ? windows_pid : PCB->windows_pid;
    start_module(enter_module());
    rt_unlock(&mask);
}

/* In the child of a fork, before any of its code runs. */
void rt_new_process(void)
{
    if (!is_counting())
        return;
    *WIPED = 1;
    rt_slots_forked();
    __atomic_fetch_add(&PCB->header->forks, 1, __ATOMIC_RELAXED);
    PCB->area = rt_take_area();
    for (uint32_t i = 0; i < PCB->module_count; i++)
        if (PCB->modules[i].config && rt_is_alive(&PCB->modules[i]) && PCB->modules[i].offset != NOWHERE)
            rt_map_counters(&PCB->modules[i], 0);
    rt_stream_forked();
}
