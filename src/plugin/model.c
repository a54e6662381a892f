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

enum { MEMO_PAGES = 4096, PAGE_SHIFT = 12, WORD = 8, BUFFER_MAX = 256 };

bool model_is_wanted, model_missed_data, model_missed_tlb;
struct machine *model_machine;

struct memo {          /* a page of the guest's addresses */
    uint64_t page;     /* and 1, so that 0 is none */
    uint64_t distance; /* physical - virtual */
    uint64_t tlb_age;  /* it is in the TLB while that is the age of the TLB */
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
    bool tlb_is_random;
    uint64_t tlb_age, code_page, data_page, kernel_page;
    double per_operation; /* cycles */
    double stalls;
    double done[BUFFER_MAX], last_done; /* write buffer: when each entry has been written */
    uint64_t last_written;              /* its page */
    uint64_t missed_lines;              /* of the last segment, a bit each */
    unsigned entries, next;
    double drain, drain_page;
} the;

/* ---- made ---- */

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
    the.tlb = the.tlb_config.count ? cache_new(&the.tlb_config, false) : NULL;
}

static void unmake(void)
{
    if (the.cache)
        cache_free(the.cache);
    if (the.tlb)
        cache_free(the.tlb);
    free(the.code.last);
    free(the.data.last);
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
    the.drain = model_machine->write_buffer > 0 ? model_machine->write_drain : model_machine->drain;
    the.drain_page = model_machine->write_page > 0 ? model_machine->write_page : the.drain;
    the.tlb_age = 1;
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
    return (double)(totals[0].operations + totals[1].operations) * the.per_operation + the.stalls;
}

void model_stall(struct row *row, bool is_kernel, enum wire_column cause, double cycles)
{
    static double rest; /* of fractions */
    rest += cycles;
    uint64_t whole = (uint64_t)rest;
    rest -= (double)whole;
    row->of[cause] += whole;
    totals[is_kernel].stalls[cause - WIRE_STALL_FETCH] += whole;
    the.stalls += (double)whole;
}

/* ---- misses ---- */

static bool is_left_out(bool is_kernel)
{
    return !plugin_is_counting || (is_kernel ? settings.user_only : settings.kernel_only);
}

static void count_misses(struct row *row, unsigned missed, unsigned side, enum wire_column first)
{
    for (unsigned i = 0; i < the.config.count; i++)
        if (missed >> i & 1 && the.column[side][i] >= 0)
            row->of[first + (unsigned)the.column[side][i]]++;
}

static unsigned reach(uint64_t address, uint64_t bytes, enum cache_kind kind, struct filter *f)
{
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
    uint64_t space = (int64_t)vaddr < 0 ? 0 : system_space();
    bool is_direct = (int64_t)vaddr < 0 && ram_address_of_kernel(vaddr) != RAM_NOWHERE;
    if (is_direct && !the.kernel_page)
        return false;
    uint64_t page = is_direct ? vaddr / the.kernel_page : vaddr >> PAGE_SHIFT;
    page = (page & 0xfffffffffull) | (is_direct ? 1ull << 37 : (int64_t)vaddr < 0 ? 1ull << 36 : 0);
    *address = ((page ^ space << 38) << PAGE_SHIFT) & ((1ull << 60) - 1);
    return true;
}

static void reach_tlb(struct row *row, bool is_kernel, uint64_t vaddr, enum cache_kind kind)
{
    uint64_t address;
    if (!tlb_page(vaddr, &address))
        return;
    struct cache_ref ref = {.address = address, .bytes = 1, .kind = (uint8_t)(kind == CACHE_FETCH ? CACHE_READ : kind)};
    unsigned missed = cache_reach(the.tlb, &ref);
    if (!missed)
        return;
    the.tlb_age++;
    model_missed_tlb = true;
    row->of[WIRE_TLB_MISSES]++;
    model_stall(row, is_kernel, WIRE_STALL_TLB, missed & 2 ? the.tlb_far_penalty : the.tlb_penalty);
}

static void pass_tlb(struct row *row, bool is_kernel, uint64_t vaddr, enum cache_kind kind, struct memo *m)
{
    uint64_t page = vaddr >> PAGE_SHIFT, *last = kind == CACHE_FETCH ? &the.code_page : &the.data_page;
    if (!the.tlb || (the.tlb_is_random ? m && m->tlb_age == the.tlb_age : *last == page))
        return;
    *last = page;
    reach_tlb(row, is_kernel, vaddr, kind);
    if (m)
        m->tlb_age = the.tlb_age;
}

/* NULL: a device. */
static struct memo *memo_of(qemu_plugin_meminfo_t info, uint64_t vaddr)
{
    uint64_t page = vaddr >> PAGE_SHIFT;
    struct memo *m = &the.memo[page % MEMO_PAGES];
    if (m->page == page + 1)
        return m;
    struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, vaddr);
    if (!h || qemu_plugin_hwaddr_is_io(h))
        return NULL;
    *m = (struct memo){page + 1, qemu_plugin_hwaddr_phys_addr(h) - vaddr, 0};
    if (maps_are_wanted)
        maps_note(vaddr, vaddr + m->distance);
    return m;
}

/* ---- references ---- */

void model_append(struct segment *s, unsigned at, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, begin = base >> the.code.shift;
    uint64_t first = ((base + at) >> the.code.shift) - begin, last = ((base + at + len - 1) >> the.code.shift) - begin;
    bool is_first_there = !at || first != ((base + at - 1) >> the.code.shift) - begin;
    for (uint64_t line = first + 1; line <= last && is_first_there && line < 64; line++)
        s->joined |= 1ull << line;
}

bool model_missed_fetch(const struct segment *s, unsigned at, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, begin = base >> the.code.shift;
    uint64_t first = ((base + at) >> the.code.shift) - begin, last = ((base + at + len - 1) >> the.code.shift) - begin;
    for (uint64_t k = first; k <= last && k < 64; k++)
        if (the.missed_lines >> k & 1)
            return true;
    return false;
}

static void fetch_mapped(const struct segment *s)
{
    maps_note(s->vaddr, s->physical);
    maps_fetch(s, the.code.shift);
}

void model_segment(unsigned vcpu, void *segment)
{
    struct segment *s = segment;
    (void)vcpu;
    the.missed_lines = 0;
    if (s->slow_count && plugin_is_counting)
        float_run(s, model_now());
    if (!the.code.last || is_left_out(s->is_kernel))
        return;
    pass_tlb(s->row, s->is_kernel, s->vaddr, CACHE_FETCH, NULL);
    if (maps_are_wanted)
        fetch_mapped(s);
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, line = base >> the.code.shift;
    uint64_t last = (base + s->bytes - 1) >> the.code.shift;
    unsigned before = 0;
    for (unsigned k = 0; line <= last; line++, k++) {
        if (the.code.last[line & the.code.mask] >> 1 == line + 1) {
            before = 0;
            continue;
        }
        unsigned missed = reach(line << the.code.shift, 1, CACHE_FETCH, &the.code);
        unsigned counted = k < 64 && s->joined >> k & 1 ? missed & ~before : missed;
        if (counted)
            count_misses(s->row, counted, 1, WIRE_FETCH_MISSES);
        the.missed_lines |= (uint64_t)(missed && k < 64) << (k & 63);
        if (missed)
            model_stall(s->row, s->is_kernel, WIRE_STALL_FETCH, the.penalty[1][missed]);
        before = missed;
    }
}

/* A store enters the buffer when an entry is free; each is written when the one before has been. */
static void store(struct row *row, bool is_kernel, uint64_t address, unsigned bytes, unsigned missed)
{
    bool is_near = address >> PAGE_SHIFT == the.last_written;
    double now = model_now(), takes = is_near ? the.drain_page : the.drain;
    if (!the.entries)
        return;
    takes = fmax(takes, the.penalty[0][missed]);
    for (unsigned word = 0; word < bytes; word += WORD) {
        double *slot = &the.done[the.next++ % the.entries];
        if (*slot > now)
            model_stall(row, is_kernel, WIRE_STALL_WRITE, *slot - now);
        now = fmax(now, *slot);
        the.last_done = *slot = fmax(the.last_done, now) + takes;
    }
    the.last_written = address >> PAGE_SHIFT;
}

static unsigned reach_data(uint64_t address, unsigned bytes, enum cache_kind kind)
{
    if (filter_hits(&the.data, address, bytes, kind != CACHE_READ))
        return 0;
    return reach(address, bytes, kind, &the.data);
}

static void count_reference(const struct site *s, uint64_t address, unsigned bytes, bool stores)
{
    unsigned missed = 0;
    bool is_second = stores && s->is_modify; /* the load before has brought in the line, and made it dirty */
    if (!is_second) {
        enum cache_kind kind = s->is_modify ? CACHE_MODIFY : stores ? CACHE_WRITE : CACHE_READ;
        s->row->of[stores ? WIRE_WRITES : WIRE_READS]++;
        missed = reach_data(address, bytes, kind);
    }
    model_missed_data = missed;
    if (missed)
        count_misses(s->row, missed, 0, stores ? WIRE_WRITE_MISSES : WIRE_READ_MISSES);
    if (stores)
        store(s->row, s->is_kernel, address, bytes, model_machine->write_buffer > 0 ? 0 : missed);
    else if (missed)
        model_stall(s->row, s->is_kernel, WIRE_STALL_READ, the.penalty[0][missed]);
}

void model_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *site)
{
    const struct site *s = site;
    bool stores = qemu_plugin_mem_is_store(info);
    unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
    (void)vcpu;
    bool is_processors = !s->is_kernel && (int64_t)vaddr < 0; /* an exception's frame: no instruction's */
    if (is_processors || is_left_out(s->is_kernel))
        return;
    model_missed_data = model_missed_tlb = false;
    struct memo *m = memo_of(info, vaddr);
    if (!m) {
        s->row->of[WIRE_UNCACHED]++;
        if (!stores)
            model_stall(s->row, s->is_kernel, WIRE_STALL_UNCACHED, the.uncached);
        return;
    }
    pass_tlb(s->row, s->is_kernel, vaddr, stores ? CACHE_WRITE : CACHE_READ, m);
    if (!settings.is_virtual) /* what lies beyond the page's end is in a frame that is not known here: left out */
        bytes = (unsigned)min_u64(bytes, (1u << PAGE_SHIFT) - (vaddr & ((1u << PAGE_SHIFT) - 1)));
    if (maps_are_wanted && !(stores && s->is_modify))
        maps_reach(vaddr + m->distance, bytes,
                   s->is_modify ? CACHE_MODIFY
                   : stores     ? CACHE_WRITE
                                : CACHE_READ,
                   s->is_kernel);
    count_reference(s, settings.is_virtual ? vaddr : vaddr + m->distance, bytes, stores);
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
    fprintf(f, "\nwidth %g\nghz %g\n", model_machine->max_issue, model_machine->tsc_ghz);
    str_free(&caches);
}
