/* SPDX-License-Identifier: Apache-2.0
 * References into misses and stalls of the described machine: its caches and TLBs by src/cache, a write buffer, and
 * what each miss costs an in-order pipeline, which waits for it. Most references end in a filter that holds exactly the
 * line that was used last in its set: a hit on that changes nothing in the cache.
 *
 * A clock runs beside: operations divided by the width, and stalls. The page tables' walks, and what devices do to
 * memory, are not seen. */
#include "plugin/plugin.h"

#include <math.h>
#include <stdlib.h>

#include "machine/machine.h"
#include "plugin/filter.h"

#define NO_PAGE UINT64_MAX
enum { MEMO_PAGES = 4096, PAGE_SHIFT = 12, WORD = 8, BUFFER_MAX = 256, TLB_PLACES = 1024 };
enum { SEGMENT_LINES_MAX = 64 }; /* bits of `joined` */

bool model_is_wanted, model_missed_data, model_missed_tlb;
struct machine *model_machine;

struct memo {           /* a page of the guest's addresses */
    uint64_t page;      /* and 1, so that 0 is none */
    uint64_t distance;  /* physical - virtual */
    uint64_t to_cached; /* what of that the caches' addresses have */
    uint64_t tlb_age;   /* it is in the TLB while that is the age of the TLB; 0: unknown */
};

static struct {
    struct cache_config config, tlb_config;
    struct cache *cache, *tlb;
    struct filter code, data;
    struct memo memo[MEMO_PAGES];
    bool is_inclusive;
    uint32_t penalty[2][1 << WIRE_LEVELS_MAX]; /* data, code: by the levels that missed */
    int8_t column[2][CACHE_LEVELS_MAX];        /* which of the WIRE_*_MISSES a level is */
    uint32_t uncached, tlb_penalty, tlb_far_penalty;
    bool tlb_is_random, tlb_is_known; /* is_known: of a page it is told when it goes */
    uint64_t tlb_age, code_page, data_page, kernel_page;
    uint64_t tlb_has[TLB_PLACES]; /* of a page that is in the TLB for sure its address there, and 1 */
    double per_operation;         /* cycles */
    double stalls;
    double done[BUFFER_MAX], last_done; /* write buffer: when each entry has been written */
    uint64_t last_written;              /* its page */
    uint64_t missed_lines;              /* of the last segment, a bit each */
    unsigned entries, next;
    bool is_buffered; /* what a store misses does not keep it in the buffer */
    double drain, drain_page;
} the;

/* ---- made ---- */

static double later(double a, double b) { return a > b ? a : b; }

static double latency_of(const char *name)
{
    for (size_t i = 0; i < model_machine->cache_count; i++)
        if (strcmp(model_machine->caches[i].name, name) == 0)
            return model_machine->caches[i].latency;
    return 0;
}

/* cache_of_machine keeps the caches' order, so that the i-th of these that is no TLB and no memory is levels[i]. */
static double latency_of_level(unsigned level)
{
    for (size_t i = 0, n = 0; i < model_machine->cache_count; i++) {
        const struct machine_cache *c = &model_machine->caches[i];
        if (c->kind != MACHINE_CACHE_TLB && strcmp(c->name, "memory") != 0 && n++ == level)
            return c->latency;
    }
    return latency_of("memory");
}

/* What it takes longer than a hit in the nearest data cache, if these levels missed. */
static uint32_t penalty_of(enum cache_side side, unsigned missed)
{
    double nearest = latency_of_level(0), found = 0;
    unsigned seen = 0;
    for (unsigned i = 0; i < the.config.count && found == 0; i++)
        if (the.config.levels[i].side & side && seen++ < 64 && !(missed >> i & 1))
            found = latency_of_level(i);
    if (!missed)
        return 0;
    if (found == 0)
        found = latency_of("memory");
    return (uint32_t)lround(fmax(found - nearest, 0));
}

static void make_penalties(void)
{
    static const enum cache_side sides[] = {CACHE_DATA, CACHE_CODE};
    for (unsigned k = 0; k < 2; k++) {
        int8_t depth = 0;
        for (unsigned i = 0; i < the.config.count; i++)
            the.column[k][i] = the.config.levels[i].side & sides[k] ? depth++ : -1;
        for (unsigned missed = 0; missed < 1u << the.config.count && missed < 1u << WIRE_LEVELS_MAX; missed++)
            the.penalty[k][missed] = penalty_of(sides[k], missed);
    }
    the.uncached = (uint32_t)lround(fmax(latency_of("memory") - latency_of_level(0), 0));
}

static void make_tlb(const struct machine *m)
{
    double of[2] = {0};
    unsigned n = 0;
    for (size_t i = 0; i < m->cache_count && n < 2; i++)
        if (m->caches[i].kind == MACHINE_CACHE_TLB)
            of[n++] = m->caches[i].latency;
    the.tlb_penalty = (uint32_t)lround(of[0]);
    the.tlb_far_penalty = (uint32_t)lround(n > 1 ? of[1] : of[0]);
    the.kernel_page = (uint64_t)m->kernel_page;
    if (m->tlb_random > 0)
        for (unsigned i = 0; i < the.tlb_config.count; i++)
            the.tlb_config.levels[i].policy = CACHE_RANDOM;
    the.tlb_is_random = m->tlb_random > 0;
    the.tlb_is_known = the.tlb_is_random && the.tlb_config.count == 1;
    the.tlb = the.tlb_config.count ? cache_new(&the.tlb_config, false) : NULL;
    the.tlb_age = the.tlb ? 1 : 0; /* without one all is in it */
    the.code_page = the.data_page = the.tlb_is_random ? NO_PAGE : 0;
}

static void unmake(void)
{
    if (the.cache)
        cache_free(the.cache);
    if (the.tlb)
        cache_free(the.tlb);
    filter_free(&the.code);
    filter_free(&the.data);
    if (model_machine)
        machine_free(model_machine);
    model_machine = NULL;
    memset(&the, 0, sizeof the);
}

int model_make(void)
{
    unmake();
    if (machine_read(settings.machine, &model_machine) < 0 || cache_of_machine(model_machine, false, &the.config) < 0 ||
        cache_of_machine(model_machine, true, &the.tlb_config) < 0)
        return -1;
    if (the.config.count > WIRE_LEVELS_MAX || !the.config.count)
        return diag_error("%s: %u caches; from 1 to %d can be simulated here", settings.machine, the.config.count,
                          WIRE_LEVELS_MAX);
    for (unsigned i = 0; i < the.config.count; i++) {
        the.config.levels[i].is_shared = false;
        the.config.levels[i].write_through = model_machine->write_buffer > 0;
        the.is_inclusive |= the.config.levels[i].inclusion == CACHE_INCLUSIVE;
    }
    the.cache = cache_new(&the.config, false);
    the.code = filter_of(&the.config, CACHE_CODE);
    the.data = filter_of(&the.config, CACHE_DATA);
    the.per_operation = 1 / fmax(model_machine->max_issue, 1);
    the.entries = (unsigned)fmin(fmax(model_machine->write_buffer, model_machine->store_queue), BUFFER_MAX);
    the.is_buffered = model_machine->write_buffer > 0;
    the.drain = model_machine->write_buffer > 0 ? model_machine->write_drain : model_machine->drain;
    the.drain_page = model_machine->write_page > 0 ? model_machine->write_page : the.drain;
    make_penalties();
    make_tlb(model_machine);
    if (settings.maps && maps_make(&the.config) < 0)
        return -1;
    model_is_wanted = true;
    return 0;
}

/* ---- the clock ---- */

double model_now(void)
{
    return (double)(int64_t)(totals[0].operations + totals[1].operations) * the.per_operation + the.stalls;
}

void model_stall(struct segment *s, enum wire_column cause, unsigned at, double cycles)
{
    static double rest; /* of fractions */
    rest += cycles;
    uint64_t whole = (uint64_t)rest;
    rest -= (double)whole;
    *(at < SPOT_SLOW ? &s->stalls[at][cause - WIRE_STALL_FETCH] : float_stall(s, at - SPOT_SLOW)) += whole;
    totals[s->is_kernel].stalls[cause - WIRE_STALL_FETCH] += whole;
    the.stalls += (double)whole;
}

/* ---- misses ---- */

bool model_leaves_out(bool is_kernel) { return is_kernel ? settings.user_only : settings.kernel_only; }

static void count_misses(struct row *row, unsigned missed, unsigned side, enum wire_column first)
{
    for (unsigned i = 0; i < the.config.count; i++)
        if (missed >> i & 1 && the.column[side][i] >= 0)
            row->of[first + (unsigned)the.column[side][i]]++;
}

/* The levels that missed. */
static unsigned reach(uint64_t address, uint64_t bytes, enum cache_kind kind, struct filter *f)
{
    if (f->is_whole)
        return (unsigned)filter_reach(f, address, bytes) << f->level;
    struct cache_ref ref = {.address = address, .bytes = (uint16_t)bytes, .kind = (uint8_t)kind};
    unsigned missed = cache_reach(the.cache, &ref);
    bool dirty = kind == CACHE_WRITE || kind == CACHE_MODIFY;
    if (missed && the.is_inclusive) {
        filter_forget(&the.code);
        filter_forget(&the.data);
    }
    filter_used(f, address, bytes, dirty);
    return missed;
}

/* ---- pages ---- */

void model_forget_pages(unsigned vcpu, void *none)
{
    (void)vcpu, (void)none;
    memset(the.memo, 0, sizeof the.memo);
}

/* The page as the TLB knows it: of the kernel all processes have the same, of its own mappings they may be larger.
 * False: it does not pass through the TLB. */
static bool tlb_page(uint64_t vaddr, uint64_t *address)
{
    uint64_t space = (int64_t)vaddr < 0 ? 0 : system_space;
    bool is_direct = (int64_t)vaddr < 0 && ram_address_of_kernel(vaddr) != RAM_NOWHERE;
    if (is_direct && !the.kernel_page)
        return false;
    uint64_t page = is_direct ? vaddr / the.kernel_page : vaddr >> PAGE_SHIFT;
    page = (page & 0xfffffffffull) | (is_direct ? 1ull << 37 : (int64_t)vaddr < 0 ? 1ull << 36 : 0);
    *address = ((page ^ space << 38) << PAGE_SHIFT) & ((1ull << 60) - 1);
    return true;
}

static uint64_t *tlb_place(uint64_t address) { return &the.tlb_has[address * 0x9e3779b97f4a7c15u >> 54]; }

static void reach_tlb(struct segment *s, uint64_t vaddr, enum cache_kind kind)
{
    uint64_t address;
    if (!tlb_page(vaddr, &address))
        return;
    struct cache_ref ref = {.address = address, .bytes = 1, .kind = (uint8_t)(kind == CACHE_FETCH ? CACHE_READ : kind)};
    uint64_t *place = tlb_place(address), gone;
    if (*place == (address | 1))
        return;
    unsigned missed = cache_reach(the.tlb, &ref);
    if (the.tlb_is_known)
        *place = address | 1;
    if (!missed)
        return;
    if (the.tlb_is_known && cache_evicted(the.tlb, &gone) && *tlb_place(gone) == (gone | 1))
        *tlb_place(gone) = 0;
    the.tlb_age++;
    model_forget_space();
    model_missed_tlb = true;
    s->row->of[WIRE_TLB_MISSES]++;
    model_stall(s, WIRE_STALL_TLB, kind == CACHE_FETCH ? SPOT_FIRST : SPOT_LAST,
                missed & 2 ? the.tlb_far_penalty : the.tlb_penalty);
}

/* With random replacement a hit changes nothing, so a page need not be looked for again before the next miss. */
static void pass_tlb(const struct site *s, uint64_t vaddr, bool stores, struct memo *m)
{
    uint64_t page = vaddr >> PAGE_SHIFT;
    if (the.data_page == page)
        return;
    if (!the.tlb_is_random)
        the.data_page = page;
    reach_tlb(s->segment, vaddr, stores ? CACHE_WRITE : CACHE_READ);
    m->tlb_age = the.tlb_is_random ? the.tlb_age : 0;
}

static void pass_tlb_of_code(struct segment *s)
{
    uint64_t page = s->vaddr >> PAGE_SHIFT;
    if (the.code_page == page)
        return;
    if (the.tlb)
        reach_tlb(s, s->vaddr, CACHE_FETCH);
    the.code_page = page;
}

void model_forget_space(void)
{
    if (the.tlb_is_random)
        the.code_page = NO_PAGE;
}

__attribute__((noinline)) static struct memo *ask_page(qemu_plugin_meminfo_t info, uint64_t vaddr, struct memo *m)
{
    struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, vaddr);
    if (!h || qemu_plugin_hwaddr_is_io(h))
        return NULL;
    uint64_t distance = qemu_plugin_hwaddr_phys_addr(h) - vaddr;
    *m = (struct memo){(vaddr >> PAGE_SHIFT) + 1, distance, settings.is_virtual ? 0 : distance, 0};
    if (maps_are_wanted)
        maps_note(vaddr, vaddr + m->distance);
    return m;
}

/* NULL: a device. */
static struct memo *memo_of(qemu_plugin_meminfo_t info, uint64_t vaddr)
{
    uint64_t page = vaddr >> PAGE_SHIFT;
    struct memo *m = &the.memo[page % MEMO_PAGES];
    return m->page == page + 1 ? m : ask_page(info, vaddr, m);
}

/* ---- references ---- */

void model_append(struct segment *s, unsigned at, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, begin = base >> the.code.shift;
    uint64_t first = ((base + at) >> the.code.shift) - begin, last = ((base + at + len - 1) >> the.code.shift) - begin;
    bool is_first_there = !at || first != ((base + at - 1) >> the.code.shift) - begin;
    /* in its first line another one may have been before it, in the others none */
    for (uint64_t line = first + (is_first_there ? 1 : 2); line <= last && line < SEGMENT_LINES_MAX; line++)
        s->joined |= 1ull << line;
}

bool model_missed_fetch(const struct segment *s, unsigned at, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, begin = base >> the.code.shift;
    uint64_t first = ((base + at) >> the.code.shift) - begin, last = ((base + at + len - 1) >> the.code.shift) - begin;
    for (uint64_t k = first; k <= last && k < SEGMENT_LINES_MAX; k++)
        if (the.missed_lines >> k & 1)
            return true;
    return false;
}

bool model_has_room(const struct segment *s, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical;
    return ((base + s->bytes + len - 1) >> the.code.shift) - (base >> the.code.shift) < SEGMENT_LINES_MAX;
}

void model_finish(struct segment *s)
{
    static const uint64_t never = 1; /* no segment's stamp is twice that before its blocks are known */
    s->is_fetched = the.code.last && !model_leaves_out(s->is_kernel);
    s->may_be_quick = s->is_fetched && !s->slow_count && !maps_are_wanted;
    s->blocks[0] = s->blocks[1] = &never;
}

/* The lines of a segment, of which one may not be the last that was used of its set. Whether all were. An instruction
 * in several lines misses once, whichever of them it lacks, and waits for each. */
static bool fetch_lines(struct segment *s)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, line = base >> the.code.shift;
    uint64_t last = (base + s->bytes - 1) >> the.code.shift;
    unsigned before = 0; /* levels that the instruction missed in its lines before this one */
    bool had_all = true;
    for (unsigned k = 0; line <= last; line++, k++) {
        if (!(s->joined >> k & 1))
            before = 0;
        if (filter_has(&the.code, line))
            continue;
        unsigned missed = reach(line << the.code.shift, 1, CACHE_FETCH, &the.code);
        if (missed & ~before)
            count_misses(s->row, missed & ~before, 1, WIRE_FETCH_MISSES);
        the.missed_lines |= (uint64_t)(missed != 0) << k;
        if (missed)
            model_stall(s, WIRE_STALL_FETCH, SPOT_FIRST, the.penalty[1][missed]);
        before |= missed;
        had_all = false;
    }
    return had_all;
}

/* Where the filter counts what happens to the segment's lines. False: in more than two places. */
static bool find_blocks(struct segment *s)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical;
    uint64_t first = base >> the.code.shift, last = (base + s->bytes - 1) >> the.code.shift;
    s->blocks[0] = filter_block(&the.code, first);
    s->blocks[1] = filter_block(&the.code, last);
    return (last >> the.code.block_shift) - (first >> the.code.block_shift) < 2;
}

__attribute__((noinline)) static void fetch(struct segment *s)
{
    bool had_all = fetch_lines(s);
    if (had_all && find_blocks(s))
        s->stamp = *s->blocks[0] + *s->blocks[1];
}

static bool hits_again(const struct segment *s) { return s->stamp == *s->blocks[0] + *s->blocks[1]; }

__attribute__((noinline)) static void run_segment(struct segment *s)
{
    if (s->slow_count && plugin_is_counting)
        float_run(s, model_now());
    if (!s->is_fetched || !plugin_is_counting)
        return;
    pass_tlb_of_code(s);
    if (maps_are_wanted)
        maps_fetch(s);
    if (!hits_again(s))
        fetch(s);
}

/* Nothing but its lines is asked for, and nothing changes by that. */
static bool is_quick(const struct segment *s)
{
    return s->may_be_quick && the.code_page == s->vaddr >> PAGE_SHIFT && hits_again(s);
}

void model_segment(unsigned vcpu, void *segment)
{
    struct segment *s = segment;
    (void)vcpu;
    the.missed_lines = 0;
    if (!is_quick(s))
        run_segment(s);
}

__attribute__((always_inline)) static inline void count_segment(struct segment *s)
{
    struct totals *t = &totals[s->is_kernel];
    s->runs++;
    t->instructions += s->instructions;
    t->operations += s->operations;
}

__attribute__((noinline)) static void run_segment_and_count(struct segment *s)
{
    run_segment(s);
    count_segment(s);
}

/* In place of additions in line, where nothing asks in between; nor for lines that were missed. */
void model_segment_and_count(unsigned vcpu, void *segment)
{
    struct segment *s = segment;
    (void)vcpu;
    if (is_quick(s))
        count_segment(s);
    else
        run_segment_and_count(s);
}

/* A store enters the buffer when an entry is free; each is written when the one before has been. */
static void store(struct segment *s, uint64_t address, unsigned bytes, unsigned missed)
{
    bool is_near = address >> PAGE_SHIFT == the.last_written;
    double now = model_now(), takes = is_near ? the.drain_page : the.drain;
    if (missed && !the.is_buffered)
        takes = later(takes, the.penalty[0][missed]);
    for (unsigned word = 0; word < bytes; word += WORD) {
        double *slot = &the.done[the.next];
        the.next = the.next + 1 < the.entries ? the.next + 1 : 0;
        if (*slot > now) {
            model_stall(s, WIRE_STALL_WRITE, SPOT_LAST, *slot - now);
            now = *slot;
        }
        the.last_done = *slot = later(the.last_done, now) + takes;
    }
    the.last_written = address >> PAGE_SHIFT;
}

static unsigned reach_data(uint64_t address, unsigned bytes, enum cache_kind kind)
{
    if (!the.data.is_whole && filter_hits(&the.data, address, bytes, kind != CACHE_READ))
        return 0;
    return reach(address, bytes, kind, &the.data);
}

static void count_reference(struct site *s, uint64_t address, unsigned bytes, bool stores)
{
    unsigned missed = 0;
    bool is_second = stores && s->is_modify; /* the load before has brought in the line, and made it dirty */
    if (!is_second) {
        enum cache_kind kind = s->is_modify ? CACHE_MODIFY : stores ? CACHE_WRITE : CACHE_READ;
        s->done[stores]++;
        missed = reach_data(address, bytes, kind);
    }
    if (missed) {
        model_missed_data = true;
        count_misses(s->segment->row, missed, 0, stores ? WIRE_WRITE_MISSES : WIRE_READ_MISSES);
    }
    if (stores && the.entries)
        store(s->segment, address, bytes, missed);
    else if (missed && !stores)
        model_stall(s->segment, WIRE_STALL_READ, SPOT_LAST, the.penalty[0][missed]);
}

/* What the emulator says of an access: nearly always the same. Whether it is a store. */
static bool learn(struct site *s, qemu_plugin_meminfo_t info)
{
    bool stores = qemu_plugin_mem_is_store(info);
    *(stores ? &s->store : &s->load) = info;
    *(stores ? &s->store_bytes : &s->load_bytes) = (uint16_t)(1u << qemu_plugin_mem_size_shift(info));
    return stores;
}

static void reach_device(const struct site *s, bool stores)
{
    s->segment->row->of[WIRE_UNCACHED]++;
    if (!stores)
        model_stall(s->segment, WIRE_STALL_UNCACHED, SPOT_LAST, the.uncached);
}

__attribute__((noinline)) static void access_any(struct site *s, qemu_plugin_meminfo_t info, uint64_t vaddr)
{
    bool stores = info == s->store || (info != s->load && learn(s, info));
    unsigned bytes = stores ? s->store_bytes : s->load_bytes;
    bool is_processors = !s->is_kernel && (int64_t)vaddr < 0; /* an exception's frame: no instruction's */
    if (is_processors || s->is_left_out || !plugin_is_counting)
        return;
    model_missed_data = model_missed_tlb = false;
    struct memo *m = memo_of(info, vaddr);
    if (!m) {
        reach_device(s, stores);
        return;
    }
    if (m->tlb_age != the.tlb_age)
        pass_tlb(s, vaddr, stores, m);
    uint64_t left = (1u << PAGE_SHIFT) - (vaddr & ((1u << PAGE_SHIFT) - 1));
    if (bytes > left && !settings.is_virtual) /* what lies beyond is in a frame that is not known here: left out */
        bytes = (unsigned)left;
    if (maps_are_wanted && !(stores && s->is_modify))
        maps_reach(vaddr + m->distance, bytes,
                   s->is_modify ? CACHE_MODIFY
                   : stores     ? CACHE_WRITE
                                : CACHE_READ,
                   s->is_kernel);
    count_reference(s, vaddr + m->to_cached, bytes, stores);
    if (variables_are_wanted && s->is_kernel)
        variables_use(vaddr + m->distance, model_missed_data);
}

static void access_plain(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *site)
{
    (void)vcpu;
    access_any(site, info, vaddr);
}

/* What an instruction does to memory: an access of another kind is one that the decoder does not know of. */
enum direction { LOADS, STORES, BOTH, DIRECTIONS };

/* On a page that is known and in the TLB, and of a mode that may reach it. */
__attribute__((always_inline)) static inline bool has_page(const struct site *s, const struct memo *m, uint64_t vaddr,
                                                           unsigned bytes)
{
    uint64_t page = vaddr >> PAGE_SHIFT;
    return m->page == page + 1 && (m->tlb_age == the.tlb_age || the.data_page == page) &&
           (vaddr & ((1u << PAGE_SHIFT) - 1)) + bytes <= 1u << PAGE_SHIFT && (s->is_kernel || (int64_t)vaddr >= 0);
}

/* `shift`: that of the filter, a constant where it is a usual one. */
__attribute__((always_inline)) static inline bool has_lines(uint64_t address, unsigned bytes, bool writes,
                                                            bool is_whole, unsigned shift)
{
    const struct filter *f = &the.data;
    uint64_t first = address >> shift, last = (address + bytes - 1) >> shift;
    if (is_whole)
        return last - first < 2 && filter_is(f, first) && filter_is(f, last);
    return filter_hits(f, address, bytes, writes);
}

/* What the data cache has and is not changed by: most accesses, on a way that calls nothing and saves no register, but
 * jumps at its end. `is_whole`: of the filter. What a modifying instruction loads is dirty then, and what it stores
 * needs no cache. After the end it counts what nobody reads. */
__attribute__((always_inline)) static inline void access_quickly(struct site *s, qemu_plugin_meminfo_t info,
                                                                 uint64_t vaddr, enum direction which, bool is_whole,
                                                                 unsigned shift)
{
    const struct memo *m = &the.memo[(vaddr >> PAGE_SHIFT) % MEMO_PAGES];
    bool stores = which == STORES || (which == BOTH && info == s->store);
    unsigned bytes = stores ? s->store_bytes : s->load_bytes;
    bool modifies = which == BOTH && s->is_modify, is_second = modifies && stores;
    bool is_quick = info == (stores ? s->store : s->load) && has_page(s, m, vaddr, bytes) &&
                    (is_second || has_lines(vaddr + m->to_cached, bytes, stores || modifies, is_whole, shift));
    if (!is_quick) {
        access_any(s, info, vaddr);
        return;
    }
    model_missed_data = model_missed_tlb = false;
    s->done[stores] += !is_second;
    if (stores && the.entries)
        store(s->segment, vaddr + m->to_cached, bytes, 0);
}

#define ACCESS(name, which, is_whole, shift)                                                                           \
    static void name(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *site)                            \
    {                                                                                                                  \
        (void)vcpu;                                                                                                    \
        access_quickly(site, info, vaddr, which, is_whole, shift);                                                     \
    }
#define ACCESSES(name, is_whole, shift)                                                                                \
    ACCESS(name##_load, LOADS, is_whole, shift)                                                                        \
    ACCESS(name##_store, STORES, is_whole, shift)                                                                      \
    ACCESS(name##_both, BOTH, is_whole, shift)
ACCESSES(whole, true, the.data.shift)
ACCESSES(whole_4, true, 2) /* lines of so many bytes: the DECstation 3100's */
ACCESSES(whole_16, true, 4)
ACCESSES(filtered, false, the.data.shift)
#undef ACCESSES
#undef ACCESS

qemu_plugin_vcpu_mem_cb_t model_access(bool is_kernel, bool loads, bool stores)
{
    static const qemu_plugin_vcpu_mem_cb_t quick[][DIRECTIONS] = {{whole_load, whole_store, whole_both},
                                                                  {whole_4_load, whole_4_store, whole_4_both},
                                                                  {whole_16_load, whole_16_store, whole_16_both},
                                                                  {filtered_load, filtered_store, filtered_both}};
    if (!the.data.last || model_leaves_out(is_kernel) || maps_are_wanted || (variables_are_wanted && is_kernel))
        return access_plain;
    unsigned kind = !the.data.is_whole ? 3 : the.data.shift == 2 ? 1 : the.data.shift == 4 ? 2 : 0;
    return quick[kind][loads == stores ? BOTH : stores ? STORES : LOADS];
}

void model_write(FILE *f)
{
    char name[8];
    struct strbuf caches = {0};
    if (!model_is_wanted)
        return;
    cache_format(&the.config, &caches);
    fprintf(f, "machine %s\ncaches %s\nlevels", model_machine->name, caches.data);
    for (unsigned i = 0; i < the.config.count; i++)
        fprintf(f, " %s:%d:%d", cache_level_name(&the.config, i, name), the.column[0][i], the.column[1][i]);
    for (unsigned i = 0; i < the.config.count; i++)
        if (the.config.levels[i].side & CACHE_CODE) {
            fprintf(f, "\ncode-cache %llu", (unsigned long long)the.config.levels[i].size_bytes);
            break;
        }
    for (unsigned i = 0; i < the.config.count; i++)
        if (the.config.levels[i].side & CACHE_DATA) {
            fprintf(f, "\ndata-cache %llu", (unsigned long long)the.config.levels[i].size_bytes);
            break;
        }
    fprintf(f, "\nwidth %g\nghz %g\n", model_machine->max_issue, model_machine->tsc_ghz);
    str_free(&caches);
}
