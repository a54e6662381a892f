/* SPDX-License-Identifier: Apache-2.0
 * Processes and what each has mapped executable, fed with events in order of time, to answer which module and which
 * address of the original file an instruction pointer means. Counts processes and threads on the way. Knows nothing of
 * where the events come from (perf rings or /proc). */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/impl.h"

#define SEGMENTS_MAX 64
#define MODULES_MAX 60000 /* a module index must fit the upper 16 bits of a sample's key */

struct range {
    uint64_t lo, hi, file_offset;
    uint32_t module; /* ID_NONE: anonymous, vdso, not an ELF file */
    uint32_t file;   /* the module whose file it is: another one where that stands apart */
};
struct process {
    uint32_t pid, threads; /* threads alive */
    uint32_t execs;
    bool is_other;            /* executed another program than the one that mtool started */
    bool is_snapshot;         /* mtool's own, taken for a process of the program before that was known */
    VEC(struct range) ranges; /* no two overlap */
    size_t last;              /* range of the last answer */
};
struct layout { /* the executable segments of one module's original file */
    bool read;
    size_t count;
    struct {
        uint64_t offset, filesz, vaddr;
    } * segments;
};
struct spaces {
    struct launch_program *p;
    uint32_t root_pid;
    VEC(struct process) processes;
    struct map by_pid;
    VEC(struct layout) layouts; /* [module] */
    struct map by_path;         /* hash of a mapped path -> module or ID_NONE */
    struct map apart;           /* module -> the one that stands for it in other programs */
    uint32_t processes_seen, threads_max;
    bool threads_seen;
    uint32_t executed; /* module that the root process became by a later exec, ID_NONE */
};

struct spaces *spaces_new(struct launch_program *p, pid_t root_pid)
{
    struct spaces *s = xmalloc(sizeof *s);
    s->p = p;
    s->root_pid = (uint32_t)root_pid;
    s->threads_max = 1;
    s->executed = ID_NONE;
    return s;
}

void spaces_free(struct spaces *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->processes.len; i++)
        VEC_FREE(&s->processes.data[i].ranges);
    for (size_t i = 0; i < s->layouts.len; i++)
        free(s->layouts.data[i].segments);
    VEC_FREE(&s->processes);
    VEC_FREE(&s->layouts);
    map_fini(&s->by_pid);
    map_fini(&s->by_path);
    map_fini(&s->apart);
    free(s);
}

const char *spaces_executed(const struct spaces *s)
{
    return s->executed == ID_NONE ? NULL : s->p->modules[s->executed].path;
}

uint32_t spaces_root(const struct spaces *s) { return s->root_pid; }
struct launch_program *spaces_program(const struct spaces *s) { return s->p; }
uint32_t spaces_processes(const struct spaces *s) { return s->processes_seen; }
uint32_t spaces_threads_max(const struct spaces *s) { return s->threads_max; }
bool spaces_threads_seen(const struct spaces *s) { return s->threads_seen; }

struct spaces_left spaces_left(const struct spaces *s)
{
    struct spaces_left left = {0};
    for (size_t i = 0; i < s->processes.len; i++) {
        const struct process *pr = &s->processes.data[i];
        if (pr->pid == s->root_pid || pr->is_snapshot || !procfs_is_alive((pid_t)pr->pid))
            continue;
        pid_t session = getsid((pid_t)pr->pid);
        struct spaces_left found = {pr->pid, session >= 0 && session != getsid(0), pr->is_other};
        if (!left.pid || (found.has_own_session && (!left.has_own_session || left.is_other)))
            left = found;
    }
    return left;
}

/* ---- processes and threads ---- */

static struct process *process_of(struct spaces *s, uint32_t pid)
{
    uint64_t i;
    if (map_get(&s->by_pid, pid, &i))
        return &s->processes.data[i];
    map_put(&s->by_pid, pid, s->processes.len);
    VEC_PUSH(&s->processes, ((struct process){.pid = pid, .threads = 1}));
    s->processes_seen++;
    return &s->processes.data[s->processes.len - 1];
}

static void copy_ranges(struct process *to, const struct process *from)
{
    to->ranges.len = 0;
    for (size_t i = 0; i < from->ranges.len; i++)
        VEC_PUSH(&to->ranges, from->ranges.data[i]);
}

void spaces_fork(struct spaces *s, uint32_t pid, uint32_t parent)
{
    bool reused = map_has(&s->by_pid, pid);
    process_of(s, parent);
    struct process *child = process_of(s, pid);
    const struct process *from = process_of(s, parent); /* after the last addition, which may move them */
    child->threads = 1;
    child->execs = from->execs;
    child->is_other = from->is_other;
    child->is_snapshot = false;
    child->last = 0;
    copy_ranges(child, from);
    s->processes_seen += reused;
}

void spaces_take_out(struct spaces *s, uint32_t pid)
{
    uint64_t i;
    if (!map_get(&s->by_pid, pid, &i) || s->processes.data[i].is_snapshot)
        return;
    s->processes.data[i].is_snapshot = true;
    s->processes_seen--;
}

void spaces_thread_start(struct spaces *s, uint32_t pid)
{
    struct process *pr = process_of(s, pid);
    pr->threads++;
    if (pr->is_other)
        return;
    s->threads_seen = true;
    if (pr->threads > s->threads_max)
        s->threads_max = pr->threads;
}

void spaces_thread_end(struct spaces *s, uint32_t pid)
{
    struct process *pr = process_of(s, pid);
    if (pr->threads)
        pr->threads--;
}

uint32_t spaces_threads(struct spaces *s, uint32_t pid) { return process_of(s, pid)->threads; }

/* The first exec of the root process is the program itself. */
void spaces_exec(struct spaces *s, uint32_t pid)
{
    struct process *pr = process_of(s, pid);
    pr->is_other = pid != s->root_pid || pr->execs > 0;
    pr->execs++;
    pr->threads = 1;
    pr->ranges.len = pr->last = 0;
}

/* ---- modules ---- */

static bool is_elf(const char *path)
{
    Elf64_Ehdr h;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, &h, sizeof h);
    if (fd >= 0)
        close(fd);
    return n == sizeof h && !memcmp(h.e_ident, ELFMAG, SELFMAG) && h.e_machine == EM_X86_64;
}

static uint32_t module_of_path(struct spaces *s, const char *path)
{
    char hex[33];
    file_hash_hex(path, strlen(path), hex);
    hex[16] = 0;
    uint64_t key = strtoull(hex, NULL, 16), known;
    if (map_get(&s->by_path, key, &known))
        return (uint32_t)known;
    struct launch_module *m = module_find(s->p, path);
    if (!m && s->p->module_count < MODULES_MAX && is_elf(path)) {
        m = module_add(s->p, path, file_base_name(path));
        m->found_at_run_time = true;
        m->other_program = true; /* until a process of the program itself maps it */
    }
    known = m ? (uint64_t)(m - s->p->modules) : ID_NONE;
    map_put(&s->by_path, key, known);
    return (uint32_t)known;
}

/* What other programs do in a file that the program has too is not what was counted there. */
static uint32_t module_apart(struct spaces *s, uint32_t module)
{
    const struct launch_module *m = &s->p->modules[module];
    uint64_t apart;
    if (m->other_program || m->is_interp || s->p->counts_executed || s->p->module_count >= MODULES_MAX)
        return module;
    if (map_get(&s->apart, module, &apart))
        return (uint32_t)apart;
    const char *path = arena_printf(s->p->arena, "%s (in another program)", m->path);
    struct launch_module *fresh = module_add(s->p, path, file_base_name(path));
    fresh->found_at_run_time = fresh->other_program = true;
    apart = (uint64_t)(fresh - s->p->modules);
    map_put(&s->apart, module, apart);
    return (uint32_t)apart;
}

static void read_layout(struct layout *l, const char *path)
{
    Elf64_Ehdr h;
    Elf64_Phdr ph[SEGMENTS_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    l->read = true;
    if (fd < 0)
        return;
    size_t n = 0;
    if (pread(fd, &h, sizeof h, 0) == sizeof h && h.e_phentsize == sizeof *ph) {
        n = h.e_phnum < SEGMENTS_MAX ? h.e_phnum : SEGMENTS_MAX;
        if (pread(fd, ph, n * sizeof *ph, (off_t)h.e_phoff) != (ssize_t)(n * sizeof *ph))
            n = 0;
    }
    close(fd);
    l->segments = xmalloc(n * sizeof *l->segments);
    for (size_t i = 0; i < n; i++) {
        if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_X))
            continue;
        l->segments[l->count].offset = ph[i].p_offset;
        l->segments[l->count].filesz = ph[i].p_filesz;
        l->segments[l->count++].vaddr = ph[i].p_vaddr;
    }
}

/* A copy has all that the original has, in its place, and more. */
static const char *file_that_runs(const struct launch_module *m) { return m->copy ? m->copy : m->path; }

static bool vaddr_of_offset(struct spaces *s, uint32_t module, uint64_t offset, uint64_t *vaddr)
{
    while (s->layouts.len <= module)
        VEC_PUSH(&s->layouts, (struct layout){0});
    struct layout *l = &s->layouts.data[module];
    if (!l->read)
        read_layout(l, file_that_runs(&s->p->modules[module]));
    for (size_t i = 0; i < l->count; i++)
        if (offset >= l->segments[i].offset && offset - l->segments[i].offset < l->segments[i].filesz) {
            *vaddr = offset - l->segments[i].offset + l->segments[i].vaddr;
            return true;
        }
    return false;
}

/* ---- mappings ---- */

/* Cuts [lo, hi) out of the older ranges. */
static void cut_out(struct process *pr, uint64_t lo, uint64_t hi)
{
    size_t keep = 0, n = pr->ranges.len;
    for (size_t i = 0; i < n; i++) {
        struct range r = pr->ranges.data[i], tail = r;
        if (r.hi <= lo || r.lo >= hi) {
            pr->ranges.data[keep++] = r;
            continue;
        }
        tail.lo = hi;
        tail.file_offset += hi - r.lo;
        if (r.lo < lo) {
            r.hi = lo;
            pr->ranges.data[keep++] = r;
            if (tail.hi > hi)
                VEC_PUSH(&pr->ranges, tail); /* the only range that is split in two: nothing else overlaps */
        } else if (tail.hi > hi) {
            pr->ranges.data[keep++] = tail;
        }
    }
    for (size_t i = n; i < pr->ranges.len; i++)
        pr->ranges.data[keep++] = pr->ranges.data[i];
    pr->ranges.len = keep;
}

void spaces_map(struct spaces *s, uint32_t pid, uint64_t addr, uint64_t len, uint64_t file_offset, const char *path)
{
    bool is_file = path[0] == '/' && path[1] != '/';
    uint32_t file = is_file ? module_of_path(s, path) : ID_NONE;
    struct process *pr = process_of(s, pid);
    if (pid == s->root_pid && pr->is_other && !pr->ranges.len) /* the kernel maps the executable first */
        s->executed = file;
    if (file != ID_NONE && !pr->is_other)
        s->p->modules[file].other_program = false;
    uint32_t module = file != ID_NONE && pr->is_other ? module_apart(s, file) : file;
    cut_out(pr, addr, addr + len);
    VEC_PUSH(&pr->ranges, ((struct range){addr, addr + len, file_offset, module, file}));
    pr->last = pr->ranges.len - 1;
}

bool spaces_locate(struct spaces *s, uint32_t pid, uint64_t addr, uint32_t *module, uint64_t *vaddr)
{
    struct process *pr = process_of(s, pid);
    size_t n = pr->ranges.len, i = pr->last;
    if (i >= n || addr < pr->ranges.data[i].lo || addr >= pr->ranges.data[i].hi)
        for (i = 0; i < n; i++)
            if (addr >= pr->ranges.data[i].lo && addr < pr->ranges.data[i].hi)
                break;
    if (i == n || pr->ranges.data[i].module == ID_NONE)
        return false;
    pr->last = i;
    *module = pr->ranges.data[i].module;
    return vaddr_of_offset(s, pr->ranges.data[i].file, addr - pr->ranges.data[i].lo + pr->ranges.data[i].file_offset,
                           vaddr);
}
