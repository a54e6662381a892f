/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that count at the same time. Increments of one counter by several processors lose counts, so each thread has
 * a slot: an area of the counter file mapped once more for every module, all at the same distance (delta) from where
 * the modules have their counters. Counters are addressed as gs:[rip+d], so a thread whose gs base is that distance
 * counts there. The first thread has gs base 0 and so the modules' own places: nothing needs to be set up for it.
 *
 * The thread that makes another takes a slot, sets its own gs base to the slot's for the time of the system call, and
 * the child inherits it: no code need run in the child. A slot whose thread is gone is handed on; areas are additive
 * and never cleared.
 *
 * Where that cannot be (no room, no memory, modules that count without gs), threads are serialized: all that share an
 * area are bound to one processor, where an increment, being one instruction, cannot be interrupted by another.
 */
#include "rt/rt.h"

#include <asm/prctl.h>
#include <linux/prctl.h>
#include <linux/sched.h>

enum { LOOKS_MAX = 32, TRIES_MAX = 64, MAPPINGS_MAX = 20000, WORDS_OF_CPUS = 128 };

#define TB (1ull << 40)
#define GB (1ull << 30)
#define ADDRESSES (1ull << 47)
#define STEP ((int64_t)(4 * GB)) /* more than what the modules of most programs span */

/* ---- the lock: held for a few system calls, with all signals blocked, so that its holder is never interrupted ---- */

void rt_lock(struct rt_mask *m)
{
    uint64_t all = UINT64_MAX;
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&all, (uint64_t)&m->before, 8, 0, 0);
    int32_t none = 0;
    while (!__atomic_compare_exchange_n(&PCB->lock, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        none = 0;
        sys(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
}

void rt_unlock(const struct rt_mask *m)
{
    __atomic_store_n(&PCB->lock, 0, __ATOMIC_RELEASE);
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&m->before, 0, 8, 0, 0);
}

/* ---- one processor ---- */

/* Binds the calling thread, and so what it makes, to the processor of those that are serialized. It joins them for
 * good. A program that asked how many processors there are has got the true answer by then. */
static void serialize(void)
{
    uint64_t mask[WORDS_OF_CPUS] = {0};
    uint32_t cpu = PCB->serial_cpu;
    rt_flag(WIRE_SERIALIZED);
    rt_stream_no_lines();
    if (!PCB->is_serialized && failed(sys(SYS_getcpu, (uint64_t)&cpu, 0, 0, 0, 0, 0)))
        cpu = UINT32_MAX;
    PCB->serial_cpu = cpu;
    PCB->is_serialized = 1;
    if (cpu < sizeof mask * 8) {
        mask[cpu / 64] = 1ull << cpu % 64;
        if (!failed(sys(SYS_sched_setaffinity, 0, sizeof mask, (uint64_t)mask, 0, 0, 0)))
            return;
    }
    rt_flag(WIRE_NOT_SERIALIZED);
}

/* ---- where slots lie ---- */

/* The first distance to try, and the step to the next, away from where heaps and stacks grow. Above all modules if
 * there is room (the host has the program map upwards for this). Below them, gs must hold what looks like an address of
 * the kernel: only the processor's own instruction sets that, and debuggers cannot write the registers of such a
 * thread. 0: nowhere. */
static int64_t first_distance(int64_t *step)
{
    uint64_t lo = ADDRESSES, hi = 0;
    for (uint32_t i = 0; i < PCB->module_count; i++) {
        const struct rt_module *m = &PCB->modules[i];
        if (m->bytes && m->data < lo)
            lo = m->data;
        if (m->bytes && m->data + PAGE + m->bytes > hi)
            hi = m->data + PAGE + m->bytes;
    }
    *step = STEP;
    if (hi + 9 * TB < ADDRESSES)
        return (int64_t)TB;
    if (hi + 256 * GB < ADDRESSES)
        return (int64_t)(64 * GB);
    *step = -STEP;
    return lo > 9 * TB && PCB->has_fsgsbase ? -(int64_t)TB : 0;
}

/* Counters of one module for one slot: of the file, or private ones if it has no place there or no room. What takes
 * less than MAP_FIXED finds is never touched. */
static int map_one(const struct rt_module *m, const struct rt_slot *s, int fd, uint64_t how)
{
    uint64_t at = m->data + PAGE + s->delta, flags = MAP_SHARED;
    if (at + m->bytes > ADDRESSES - 32 * GB || at < TB / 4)
        return 0;
    uint64_t where = WIRE_HEADER_BYTES + s->area * PCB->header->area_bytes + m->offset;
    if (fd < 0 || m->offset == NOWHERE) {
        rt_flag(WIRE_LOST);
        flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        fd = -1;
        where = 0;
    }
    int64_t got = sys(SYS_mmap, at, m->bytes, PROT_RW, flags | how, (uint64_t)fd, where);
    if (got == (int64_t)at)
        return 1;
    if (!failed(got))
        sys(SYS_munmap, (uint64_t)got, m->bytes, 0, 0, 0, 0);
    return 0;
}

static void unmap_one(const struct rt_module *m, const struct rt_slot *s)
{
    sys(SYS_munmap, m->data + PAGE + s->delta, m->bytes, 0, 0, 0, 0);
}

/* All modules' counters at the slot's distance, or none. */
static int map_all(const struct rt_slot *s, int fd, uint64_t how)
{
    uint32_t i = 0;
    for (; i < PCB->module_count; i++)
        if (rt_is_alive(&PCB->modules[i]) && !map_one(&PCB->modules[i], s, fd, how))
            break;
    if (i == PCB->module_count)
        return 1;
    while (i--)
        if (PCB->modules[i].bytes)
            unmap_one(&PCB->modules[i], s);
    return 0;
}

static int find_distance(struct rt_slot *s, int fd)
{
    if (!PCB->slot_step)
        PCB->slot_next = first_distance(&PCB->slot_step);
    for (int n = 0; n < TRIES_MAX && PCB->slot_next; n++) {
        s->delta = (uint64_t)PCB->slot_next;
        PCB->slot_next += PCB->slot_step;
        if (map_all(s, fd, MAP_FIXED_NOREPLACE))
            return 1;
    }
    return 0;
}

/* ---- slots ---- */

static struct rt_slot *new_slot(void)
{
    if (PCB->no_slots || PCB->slot_count == SLOTS_MAX || (PCB->slot_count + 1) * PCB->module_count > MAPPINGS_MAX)
        return 0;
    struct rt_slot *s = &PCB->slots[PCB->slot_count];
    int fd = rt_open(PCB->path);
    if (fd < 0)
        return 0;
    *s = (struct rt_slot){.area = rt_take_area()};
    int ok = s->area != NOWHERE && find_distance(s, fd);
    sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    PCB->slot_count += (uint32_t)ok;
    if (ok)
        rt_stream_thread(s->delta, 0);
    return ok ? s : 0;
}

/* A slot of before the fork gets an area of this process's own. */
static int renew(struct rt_slot *s)
{
    if (!s->is_stale)
        return 1;
    int fd = rt_open(PCB->path);
    uint64_t area = fd < 0 ? NOWHERE : rt_take_area();
    if (area != NOWHERE) {
        s->area = area;
        s->is_stale = !map_all(s, fd, MAP_FIXED);
        if (!s->is_stale)
            rt_stream_thread(s->delta, 0);
    }
    if (fd >= 0)
        sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
    return !s->is_stale;
}

static int is_free(const struct rt_slot *s)
{
    return s->tid == 0 || (s->tid > 0 && sys(SYS_tkill, (uint64_t)s->tid, 0, 0, 0, 0, 0) == -ESRCH);
}

/* One whose thread is gone (not all are asked each time), else a new one. 0: none. Slot 0 is for those that are
 * serialized when there is no other, so that they have an area that nobody else counts into. */
static struct rt_slot *take_slot(void)
{
    uint32_t n = PCB->slot_count;
    if (!n && !new_slot())
        return 0;
    for (uint32_t k = 0; n > 1 && k < n - 1 && k < LOOKS_MAX; k++) {
        PCB->slot_hint = PCB->slot_hint + 1 < n ? PCB->slot_hint + 1 : 1;
        struct rt_slot *s = &PCB->slots[PCB->slot_hint];
        if (is_free(s) && renew(s))
            return s;
    }
    return new_slot();
}

void rt_slots_add(const struct rt_module *m)
{
    if (!PCB->header || !PCB->slot_count)
        return;
    int fd = rt_open(PCB->path);
    for (uint32_t i = 0; i < PCB->slot_count; i++)
        if (!map_one(m, &PCB->slots[i], fd, MAP_FIXED_NOREPLACE) &&
            !map_one(m, &PCB->slots[i], -1, MAP_FIXED_NOREPLACE))
            rt_flag(WIRE_LOST);
    if (fd >= 0)
        sys(SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
}

void rt_slots_remove(const struct rt_module *m)
{
    for (uint32_t i = 0; i < PCB->slot_count; i++)
        unmap_one(m, &PCB->slots[i]);
}

static uint64_t get_gs(void)
{
    uint64_t base = 0;
    if (PCB->has_fsgsbase)
        __asm__ volatile("rdgsbase %0" : "=r"(base));
    else
        sys(SYS_arch_prctl, ARCH_GET_GS, (uint64_t)&base, 0, 0, 0, 0);
    return base;
}

static int set_gs(uint64_t base)
{
    if (!PCB->has_fsgsbase)
        return !failed(sys(SYS_arch_prctl, ARCH_SET_GS, base, 0, 0, 0, 0));
    __asm__ volatile("wrgsbase %0" : : "r"(base));
    return 1;
}

/* Only the forking thread lives on, with the modules' own places; the other slots' areas belong to the parent. */
void rt_slots_forked(void)
{
    PCB->no_slots |= PCB->lock != 0; /* another thread was changing them */
    PCB->lock = 0;
    if (!PCB->slot_count)
        return;
    set_gs(0);
    for (uint32_t i = 0; i < PCB->slot_count; i++) {
        PCB->slots[i].is_stale = 1;
        PCB->slots[i].tid = 0;
    }
}

/* ---- around the system call that makes a thread ---- */

uint64_t rt_own_delta(void) { return PCB->slot_count ? get_gs() : 0; }

/* `nth`: the thread is the so-many-th that is created. */
static void give_slot(uint32_t nth)
{
    rt_stream_hand_out(rt_own_delta());
    struct rt_slot *s = rt_config.flags & CONFIG_GS ? take_slot() : 0;
    uint64_t before = rt_own_delta();
    if (s && set_gs(s->delta)) {
        rt_probes_forget(s->delta);
        s->parent_gs = before;
        s->creator = (int32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0);
        s->tid = SLOT_PENDING;
        PCB->header->areas[s->area].threads++;
        PCB->header->areas[s->area].thread = nth;
        rt_stream_thread(s->delta, nth);
        return;
    }
    if (PCB->slot_count && renew(&PCB->slots[0]))
        set_gs(PCB->slots[0].delta);
    serialize();
}

/* From now on a system call may end the program: no snapshots any more, and none to change chunks. */
static void note_filter(uint64_t nr, uint64_t a0)
{
    if (!is_counting() || (nr == __NR_prctl && a0 != PR_SET_SECCOMP))
        return;
    rt_stream_confine();
    if (PCB->windows_pid)
        rt_give_up_windows();
}

/* Before clone, fork, clone3 by the thread itself; and before prctl and seccomp. */
void rt_note_clone(uint64_t nr, uint64_t a0, uint64_t a1)
{
    if (nr == __NR_prctl || nr == __NR_seccomp) {
        note_filter(nr, a0);
        return;
    }
    uint64_t flags = nr == __NR_clone ? a0 : nr == __NR_clone3 && a1 >= 8 ? *(const uint64_t *)a0 : 0;
    if (!is_counting())
        return;
    if (!(flags & CLONE_VM)) {
        if (PCB->no_wipe)
            rt_flag(WIRE_LOST);
        rt_stream_forks();
    } else if (!(flags & CLONE_VFORK)) {
        struct rt_mask mask;
        rt_flag(WIRE_THREADS);
        uint32_t before = __atomic_fetch_add(&PCB->header->threads, 1, __ATOMIC_RELAXED);
        rt_lock(&mask);
        give_slot(before + 1);
        rt_unlock(&mask);
    }
}

/* After it, in the thread that called: rc is the child's id or an error. */
void rt_after_clone(int64_t rc)
{
    if (!is_counting() || !PCB->slot_count)
        return;
    uint64_t base = get_gs();
    for (uint32_t i = 1; i < PCB->slot_count; i++) {
        struct rt_slot *s = &PCB->slots[i];
        if (s->delta != base || s->tid != SLOT_PENDING || s->creator != (int32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0))
            continue;
        set_gs(s->parent_gs);
        __atomic_store_n(&s->tid, failed(rc) ? 0 : (int32_t)rc, __ATOMIC_RELEASE);
        return;
    }
}
