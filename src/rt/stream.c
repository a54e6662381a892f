/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of references (wire/stream.h), by the program's side: the area that inserted code writes to, and the
 * change from a chunk that is full to the next. It is entered among the modules, as one that has no code, so that
 * threads and forked processes get their own as they get counters. It must be there before any inserted code runs, and
 * stay: where nobody reads, chunks are thrown away.
 *
 * The host is waited for while it lives, which its heartbeat says; without it the program goes on alone. So it is with
 * the first chunk of a process, which ends early: what is mapped where must be looked at while the process is there.
 */
#include "rt/rt.h"

#include <asm/prctl.h>
#include <linux/futex.h>

enum {
    LOOK_NS = 100000000,
    PATIENCE = 600,     /* looks at a heartbeat that stands still: a machine may be that busy */
    FIRST_BYTES = 256,  /* of a process, and of each thread */
    SPINS_MAX = 1 << 30 /* as long, about */
};

/* As rt_entry.S has them. */
_Static_assert(__builtin_offsetof(struct wire_stream, put) == 0 && __builtin_offsetof(struct wire_stream, limit) == 8 &&
                   __builtin_offsetof(struct wire_stream, start) == 16 &&
                   __builtin_offsetof(struct wire_stream, begin) == 24 &&
                   __builtin_offsetof(struct wire_stream, self) == 40 && WIRE_STREAM_VADDR == 0x7f000000,
               "the places of struct wire_stream");
_Static_assert(WIRE_EVENT_ENTER == 1 && WIRE_EVENT_LEAVE == 2 && sizeof(struct wire_call) == 80 &&
                   sizeof(struct wire_short) == 32 && sizeof(struct wire_least) == 16 &&
                   sizeof(struct wire_given) == 48 && sizeof(struct wire_given_alone) == 16 &&
                   WIRE_EVENT(WIRE_EVENT_ENTER, 2) == (int32_t)0x80010002 &&
                   WIRE_EVENT(WIRE_EVENT_GIVEN, 3) == (int32_t)0x80070003 && WIRE_CALL_PATH_SHIFT == 48 &&
                   WIRE_CALL_STACK == 8192 && WIRE_CALL_NEAR == 512 && WIRE_CHUNK_BYTES == 65536,
               "an event of a call");

#define STREAM_DATA (WIRE_STREAM_VADDR - PAGE)

_Static_assert(__builtin_offsetof(struct wire_stream, is_confined) == 76 &&
                   __builtin_offsetof(struct wire_stream, is_alone) == 84 &&
                   __builtin_offsetof(struct wire_stream, stack_top) == 120,
               "rt_entry.S reads them");
_Static_assert(__builtin_offsetof(struct wire_stream, places) == 2048 && sizeof(struct wire_slot) == 64 &&
                   __builtin_offsetof(struct wire_slot, touched) == 0 &&
                   __builtin_offsetof(struct wire_slot, written) == 8 &&
                   __builtin_offsetof(struct wire_slot, order) == 16 &&
                   __builtin_offsetof(struct wire_slot, taken) == 20 &&
                   __builtin_offsetof(struct wire_stream, last) == 2048 + 64 * WIRE_FILTER_SLOTS &&
                   WIRE_EVENT(WIRE_EVENT_ORDER, 0) == (int32_t)0x80050000 && WIRE_ORDER_AS_TOLD == 0x76543210 &&
                   WIRE_LAST_LINES == 8 && WIRE_FILTER_SLOTS == 64 && CONFIG_LAST_SHIFT == 8 &&
                   CONFIG_SHIFT_SHIFT == 16,
               "rt_stream.S and rt_last.S have them");

_Static_assert(__builtin_offsetof(struct wire_stream, open) == 192 &&
                   __builtin_offsetof(struct wire_stream, open_count) - __builtin_offsetof(struct wire_stream, open) ==
                       32 * 32 &&
                   __builtin_offsetof(struct wire_stream, copies) ==
                       __builtin_offsetof(struct wire_stream, open_count) + 4 * 8 &&
                   WIRE_STREAM_PATHS == 12288 + 17 * 65536 && WIRE_STREAM_BYTES % PAGE == 0,
               "calls that are under way, and paths");
_Static_assert(__builtin_offsetof(struct wire_paths, is_near) == 0 &&
                   __builtin_offsetof(struct wire_paths, simulated) == 16 && sizeof(struct wire_paths) == 2101248 &&
                   __builtin_offsetof(struct wire_paths, places) == 64 && sizeof(struct wire_path_node) == 32 &&
                   __builtin_offsetof(struct wire_path_node, value) == 0 &&
                   __builtin_offsetof(struct wire_path_node, from) == 8 &&
                   __builtin_offsetof(struct wire_path_node, look) == 12 &&
                   __builtin_offsetof(struct wire_path_node, number) == 16 && WIRE_PATH_ROOT == 2 &&
                   WIRE_PATH_BITS == 16 && WIRE_PATH_RBP == 1u << 31 && WIRE_PATH_LEADS == 1u << 30,
               "rt_entry.S finds paths");

static struct wire_stream *stream_at(uint64_t delta) { return (struct wire_stream *)(WIRE_STREAM_VADDR + delta); }

struct wire_stream *rt_own_stream(void)
{
    struct wire_stream *s;
    __asm__ volatile("mov %%gs:%c1, %0"
                     : "=r"(s)
                     : "i"(WIRE_STREAM_VADDR + __builtin_offsetof(struct wire_stream, self)));
    return s;
}

/* A program that has forbidden itself system calls may not read the counter either. */
static uint64_t stamp(const struct wire_stream *s)
{
    uint32_t lo, hi;
    if (s->is_confined)
        return s->begin;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    return (uint64_t)hi << 32 | lo;
}

static uint64_t block_signals(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&all, (uint64_t)&before, 8, 0, 0);
    return before;
}

static void restore_signals(uint64_t before) { sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&before, 0, 8, 0, 0); }

/* ---- chunks ---- */

/* Code writes into it as soon as `put` says so. */
static void start_chunk(struct wire_stream *s)
{
    s->start = WIRE_STREAM_VADDR + WIRE_STREAM_RING + s->filled % WIRE_CHUNKS * WIRE_CHUNK_BYTES;
    s->begin = stamp(s);
    s->limit = s->start + WIRE_CHUNK_BYTES - WIRE_CHUNK_SPARE;
    __atomic_store_n(&s->put, s->start, __ATOMIC_RELEASE);
}

static uint64_t used_bytes(const struct wire_stream *s)
{
    uint64_t used = s->put - s->start;
    return used < WIRE_CHUNK_BYTES ? used : WIRE_CHUNK_BYTES;
}

static void wake_host(struct wire_streams *h, uint32_t is_confined)
{
    __atomic_fetch_add(&h->filled, 1, __ATOMIC_SEQ_CST);
    if (is_confined)
        h->unwoken = 1;
    else if (__atomic_load_n(&h->waits, __ATOMIC_SEQ_CST))
        sys(SYS_futex, (uint64_t)&h->filled, FUTEX_WAKE, 1, 0, 0, 0);
}

static int is_ring_full(const struct wire_stream *s)
{
    return s->filled - __atomic_load_n(&s->emptied, __ATOMIC_SEQ_CST) >= WIRE_CHUNKS;
}

static int must_wait(const struct wire_stream *s)
{
    int is_first_out = s->filled == 1 && s->thread == 0 && __atomic_load_n(&s->emptied, __ATOMIC_SEQ_CST) == 0;
    return is_first_out || is_ring_full(s) || __atomic_load_n(&s->emptied, __ATOMIC_SEQ_CST) < s->shown;
}

/* Until the host has emptied a chunk. 0: there is none any more. */
static int wait_for_host(struct wire_stream *s, const volatile struct wire_streams *h)
{
    uint64_t wait[2] = {0, LOOK_NS}, heartbeat = 0;
    for (int still = 0; must_wait(s) && still < PATIENCE && !h->ends;) {
        uint64_t seen = __atomic_load_n(&s->emptied, __ATOMIC_SEQ_CST), now = h->heartbeat;
        __atomic_store_n(&s->waits, 1, __ATOMIC_SEQ_CST);
        if (must_wait(s) &&
            sys(SYS_futex, (uint64_t)&s->emptied, FUTEX_WAIT, (uint32_t)seen, (uint64_t)wait, 0, 0) == -ETIMEDOUT)
            still = now == heartbeat ? still + 1 : 0;
        heartbeat = now;
    }
    s->waits = 0;
    return !must_wait(s);
}

/* Until the host, which looks by itself, has emptied a chunk. 0: it has not for seconds. */
static int spin_for_host(const struct wire_stream *s, const volatile struct wire_streams *h)
{
    uint64_t heartbeat = h->heartbeat;
    for (uint32_t still = 0; must_wait(s) && still < SPINS_MAX && !h->ends; still++) {
        __asm__ volatile("pause");
        if (h->heartbeat != heartbeat)
            still = 0;
        heartbeat = h->heartbeat;
    }
    return !must_wait(s);
}

static void end_chunk(struct wire_stream *s, uint32_t event)
{
    struct wire_streams *h = s->drops ? 0 : &PCB->header->streams;
    if (h && !is_ring_full(s)) {
        s->chunks[s->filled % WIRE_CHUNKS] =
            (struct wire_chunk){s->begin, stamp(s), (uint32_t)used_bytes(s), s->thread, s->fs, event};
        __atomic_store_n(&s->filled, s->filled + 1, __ATOMIC_RELEASE);
        wake_host(h, s->is_confined);
        s->drops = s->is_confined ? !spin_for_host(s, h) : !wait_for_host(s, h);
    } else {
        s->lost += used_bytes(s);
    }
    start_chunk(s);
}

/* By the thread itself: another one may end its chunk later. A process that is not counted has no control page. */
static void end_own_chunk(struct wire_stream *s, uint32_t event)
{
    if (s->drops)
        s->fs = 0;
    else if (PCB->has_fsgsbase)
        __asm__ volatile("rdfsbase %0" : "=r"(s->fs));
    else if (!s->is_confined)
        sys(SYS_arch_prctl, ARCH_GET_FS, (uint64_t)&s->fs, 0, 0, 0, 0);
    end_chunk(s, event);
}

/* Without a system call, and so with signals: the handler of one that comes inside loses its entries. */
void rt_stream_full_confined(void)
{
    struct wire_stream *s = rt_own_stream();
    if (__atomic_exchange_n(&s->is_busy, 1, __ATOMIC_RELAXED)) {
        s->lost += used_bytes(s);
        s->put = s->start;
        return;
    }
    if (s->put >= s->limit)
        end_own_chunk(s, 0);
    s->is_busy = 0;
}

void rt_stream_full(void)
{
    struct wire_stream *s = rt_own_stream();
    if (s->put >= s->limit) /* a signal's handler may have done it */
        end_own_chunk(s, 0);
}

/* ---- the filter among threads: rt_lines.S ---- */

_Static_assert(WIRE_LINES_VADDR == 0x7c000000 && WIRE_LINES == 1 << 22 && WIRE_LINES_STREAMS_BYTES == 4096 &&
                   WIRE_LINES_STORES == 16 && WIRE_LINES_MAY_PASS == 17 && WIRE_LINES_SHIFT == 24 &&
                   WIRE_LINES_THREADS == 61 && WIRE_LINES_WATCHED == 1ull << 61 && WIRE_LINES_OTHERS == 1ull << 62 &&
                   __builtin_offsetof(struct wire_stream, thread) == 32 &&
                   __builtin_offsetof(struct wire_stream, filled) == 64 &&
                   __builtin_offsetof(struct wire_stream, own) ==
                       __builtin_offsetof(struct wire_stream, open_count) + 8 &&
                   __builtin_offsetof(struct wire_stream, told) == __builtin_offsetof(struct wire_stream, own) + 8 &&
                   WIRE_EVENT(WIRE_EVENT_PAUSE, 1) == (int32_t)0x80060001 && sizeof(struct wire_pause) == 16 &&
                   WIRE_PAUSE_TICKS == 20000 && WIRE_NOT_HELD == 1ull << 63 && WIRE_IS_WRITTEN == 1ull << 62,
               "rt_lines.S has them");

static struct rt_module *find_stream(void)
{
    for (uint32_t i = 0; i < PCB->module_count; i++)
        if (PCB->modules[i].data == STREAM_DATA && PCB->modules[i].bytes)
            return &PCB->modules[i];
    return 0;
}

#define LINES_STREAMS ((uint64_t *)(WIRE_LINES_VADDR - WIRE_LINES_STREAMS_BYTES))

static uint64_t *lives(void) { return &LINES_STREAMS[WIRE_LINES_THREADS]; }

/* Empty ones in the stead of those of a process that it was forked from. */
static void make_lines(uint64_t how)
{
    uint64_t at = (uint64_t)LINES_STREAMS;
    if (!(rt_config.flags & CONFIG_LINES))
        return;
    int64_t got = sys(SYS_mmap, at, WIRE_LINES_STREAMS_BYTES + WIRE_LINES_BYTES, PROT_RW,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, (uint64_t)-1, 0);
    PCB->no_lines = got != (int64_t)at;
    if (PCB->no_lines)
        return;
    *lives() = WIRE_LINES_OTHERS;
    sys(SYS_madvise, WIRE_LINES_VADDR, WIRE_LINES_BYTES, MADV_HUGEPAGE, 0, 0, 0); /* words lie apart as lines do */
}

/* A slot's stream is nobody's until its thread has a number. */
static void own_lines(struct wire_stream *s, uint32_t thread)
{
    if (s->own && s->own != 1 && !PCB->no_lines) /* of the thread that had it before, which is gone */
        __atomic_fetch_and(lives(), ~s->own, __ATOMIC_SEQ_CST);
    s->own = s->told = 0;
    if (!(rt_config.flags & CONFIG_LINES) || PCB->no_lines || (!thread && s != stream_at(0)))
        return;
    if (thread >= WIRE_LINES_THREADS) {
        rt_stream_no_lines();
        return;
    }
    LINES_STREAMS[thread] = (uint64_t)s;
    __atomic_fetch_or(lives(), 1ull << thread, __ATOMIC_SEQ_CST);
    __atomic_store_n(&s->own, 1ull << thread, __ATOMIC_RELEASE);
}

static void disown(struct wire_stream *s)
{
    __atomic_exchange_n(&s->own, 0, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < WIRE_FILTER_SLOTS; i++)
        *(volatile uint8_t *)&s->places[i].taken = 1;
    for (uint32_t i = 0; i < WIRE_FILTER_SLOTS; i++)
        s->places[i].touched = s->places[i].written = 0;
}

void rt_stream_no_lines(void)
{
    if (!(rt_config.flags & CONFIG_LINES) || PCB->no_lines || !find_stream())
        return;
    PCB->no_lines = 1;
    disown(stream_at(0));
    for (uint32_t i = 0; i < PCB->slot_count; i++)
        disown(stream_at(PCB->slots[i].delta));
}

/* ---- the area ---- */

/* drops: it is nobody's, so far. */
static void begin(struct wire_stream *s, uint32_t thread, uint32_t drops)
{
    memset(s->places, 0, sizeof s->places);
    memset(s->last, 0, sizeof s->last);
    s->open_count = 0;
    s->shown = 0;
    s->copies = PCB->no_copies ? 0 : WIRE_CALL_STACK;
    s->is_alone = 0;
    s->self = (uint64_t)s;
    s->thread = thread;
    s->fs = 0;
    s->process = (uint32_t)PCB->area;
    s->drops = drops;
    s->is_confined = PCB->is_confined;
    s->stack_top = PCB->stack_top;
    own_lines(s, thread);
    start_chunk(s);
}

static void end_first_early(struct wire_stream *s)
{
    if (s->filled == 0 && s->put + FIRST_BYTES < s->limit)
        s->limit = s->put + FIRST_BYTES;
}

void rt_stream_thread(uint64_t delta, uint32_t nth)
{
    struct wire_stream *s = stream_at(delta);
    const struct rt_module *m = rt_config.flags & CONFIG_STREAM ? find_stream() : 0;
    if (!m)
        return;
    if (s->put > s->start) /* of the thread that had it before */
        end_chunk(s, 0);
    begin(s, nth, m->offset == NOWHERE);
    if (nth)
        s->limit = s->put + FIRST_BYTES; /* so that its base is soon known */
}

/* What a thread has told so far goes out: what it tells later must not be held for earlier. It makes another one. */
void rt_stream_hand_out(uint64_t delta)
{
    if (!(rt_config.flags & CONFIG_STREAM) || !find_stream())
        return;
    struct wire_stream *s = stream_at(delta);
    s->is_alone = 0;
    if (s->put > s->start && !s->is_confined)
        end_own_chunk(s, 0);
}

/* The area of the calling thread. */
static uint64_t own_area(uint64_t delta)
{
    for (uint32_t i = 0; delta && i < PCB->slot_count; i++)
        if (PCB->slots[i].delta == delta)
            return PCB->slots[i].area;
    return PCB->area;
}

/* Before a fork: what the thread has told so far goes out, so that it is known what the child begins with. */
void rt_stream_forks(void)
{
    if (!(rt_config.flags & CONFIG_STREAM) || !find_stream() || !PCB->header->follows)
        return;
    uint64_t signals = block_signals();
    struct wire_stream *s = rt_own_stream();
    PCB->fork_area = 0;
    if (!s->drops && !s->is_confined) {
        end_own_chunk(s, WIRE_CHUNK_FORKS);
        PCB->fork_area = own_area(rt_own_delta()) + 1;
        PCB->fork_filled = s->filled;
    }
    restore_signals(signals);
}

/* A file was loaded while the program runs (dlopen): its mappings are looked at while they are there. */
void rt_stream_loads(void)
{
    if (!(rt_config.flags & CONFIG_STREAM) || !find_stream())
        return;
    struct wire_stream *s = rt_own_stream();
    if (s->drops || s->is_confined || !s->filled)
        return;
    uint64_t signals = block_signals();
    s->shown = s->filled + 1;
    end_own_chunk(s, WIRE_CHUNK_LOADS);
    restore_signals(signals);
}

void rt_stream_confine(void)
{
    if (!(rt_config.flags & CONFIG_STREAM) || !find_stream())
        return;
    PCB->is_confined = 1;
    stream_at(0)->is_confined = 1;
    for (uint32_t i = 0; i < PCB->slot_count; i++)
        stream_at(PCB->slots[i].delta)->is_confined = 1;
}

/* No inserted code may run between the new mapping and its begin. */
void rt_stream_forked(void)
{
    struct rt_module *m = rt_config.flags & CONFIG_STREAM ? find_stream() : 0;
    if (!m || m->offset == NOWHERE)
        return;
    uint64_t signals = block_signals();
    PCB->no_copies |= !PCB->header->follows;
    int ok = rt_map_counters(m, 0);
    make_lines(PCB->no_lines ? MAP_FIXED_NOREPLACE : MAP_FIXED);
    begin(stream_at(0), 0, !ok);
    stream_at(0)->is_alone = 1;
    stream_at(0)->parent = PCB->fork_area;
    stream_at(0)->parent_filled = PCB->fork_filled;
    end_first_early(stream_at(0));
    restore_signals(signals);
}

void rt_stream_open(struct rt_module *m)
{
    rt_resolve(m);
    if (m->offset != NOWHERE && rt_map_counters(m, 1)) {
        stream_at(0)->process = (uint32_t)PCB->area;
        stream_at(0)->stack_top = PCB->stack_top;
        stream_at(0)->drops = 0;
        end_first_early(stream_at(0));
    }
}

/* It may be there although nothing knows of it, in a process that is not counted. */
static int make_stream(void)
{
    struct rt_data *d = (struct rt_data *)STREAM_DATA;
    int64_t at = sys(SYS_mmap, STREAM_DATA, PAGE + WIRE_STREAM_BYTES, PROT_RW,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
    if (at != STREAM_DATA)
        return at == -EEXIST;
    d->self = STREAM_DATA;
    make_lines(MAP_FIXED_NOREPLACE);
    begin(stream_at(0), 0, 1);
    stream_at(0)->is_alone = 1;
    return 1;
}

void rt_stream_enter(void)
{
    if (!(rt_config.flags & CONFIG_STREAM) || find_stream() || !make_stream())
        return;
    struct rt_module *m = rt_free_entry(STREAM_DATA, STREAM_DATA + PAGE + WIRE_STREAM_BYTES);
    if (!m)
        return;
    *m = (struct rt_module){STREAM_DATA, WIRE_STREAM_BYTES, NOWHERE, 0, 0, 0, 0, 0};
    if (PCB->header)
        rt_stream_open(m);
    rt_slots_add(m);
    if (PCB->slot_count) /* threads that have no number here */
        rt_stream_no_lines();
    for (uint32_t i = 0; i < PCB->slot_count; i++)
        begin(stream_at(PCB->slots[i].delta), 0, m->offset == NOWHERE);
}
