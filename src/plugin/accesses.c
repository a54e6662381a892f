/* SPDX-License-Identifier: Apache-2.0
 * References to data into misses and stalls, by the page that they are on, the caches, and a write buffer. Most are on
 * a page that is known and of a line that was used last of its set, and change nothing: they have a way of their own.
 */
#include "plugin/maps.h"
#include "plugin/model.h"

enum { WORD = 8 };

bool accesses_missed_data, accesses_missed_tlb;

/* NULL: a device. */
static struct memo *memo_of(qemu_plugin_meminfo_t info, uint64_t vaddr)
{
    uint64_t page = vaddr >> PAGE_SHIFT;
    struct memo *m = &model.memo[page % MEMO_PAGES];
    return m->page == page + 1 ? m : tlb_ask_page(info, vaddr, m);
}

/* A store enters the buffer when an entry is free; each is written when the one before has been. */
static void store(struct segment *s, uint64_t address, unsigned bytes, unsigned missed)
{
    bool is_near = address >> PAGE_SHIFT == model.last_written;
    double now = model_now(), takes = is_near ? model.drain_page : model.drain;
    if (missed && !model.is_buffered)
        takes = later(takes, model.penalty[0][missed]);
    for (unsigned word = 0; word < bytes; word += WORD) {
        double *slot = &model.done[model.next];
        model.next = model.next + 1 < model.entries ? model.next + 1 : 0;
        if (*slot > now) {
            model_stall(s, WIRE_STALL_WRITE, SPOT_LAST, *slot - now);
            now = *slot;
        }
        model.last_done = *slot = later(model.last_done, now) + takes;
    }
    model.last_written = address >> PAGE_SHIFT;
}

static unsigned reach_data(uint64_t address, unsigned bytes, enum cache_kind kind)
{
    if (!model.data.is_whole && filter_hits(&model.data, address, bytes, kind != CACHE_READ))
        return 0;
    return model_reach(address, bytes, kind, &model.data);
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
        accesses_missed_data = true;
        model_count_misses(s->segment->row, missed, 0, stores ? WIRE_WRITE_MISSES : WIRE_READ_MISSES);
    }
    if (stores && model.entries)
        store(s->segment, address, bytes, missed);
    else if (missed && !stores)
        model_stall_whole(s->segment, WIRE_STALL_READ, SPOT_LAST, model.penalty[0][missed]);
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
        model_stall_whole(s->segment, WIRE_STALL_UNCACHED, SPOT_LAST, model.uncached);
}

__attribute__((noinline)) static void access_any(struct site *s, qemu_plugin_meminfo_t info, uint64_t vaddr)
{
    bool stores = info == s->store || (info != s->load && learn(s, info));
    unsigned bytes = stores ? s->store_bytes : s->load_bytes;
    bool is_processors = !s->is_kernel && (int64_t)vaddr < 0; /* an exception's frame: no instruction's */
    if (is_processors || s->is_left_out || !plugin_is_counting)
        return;
    accesses_missed_data = accesses_missed_tlb = false;
    struct memo *m = memo_of(info, vaddr);
    if (!m) {
        reach_device(s, stores);
        return;
    }
    if (m->tlb_age != model.tlb_age)
        tlb_pass(s, vaddr, stores, m);
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
        variables_use(vaddr + m->distance, accesses_missed_data);
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
    return m->page == page + 1 && (m->tlb_age == model.tlb_age || model.data_page == page) &&
           (vaddr & ((1u << PAGE_SHIFT) - 1)) + bytes <= 1u << PAGE_SHIFT && (s->is_kernel || (int64_t)vaddr >= 0);
}

/* `shift`: that of the filter, a constant where it is a usual one. */
__attribute__((always_inline)) static inline bool has_lines(uint64_t address, unsigned bytes, bool writes,
                                                            bool is_whole, unsigned shift)
{
    const struct filter *f = &model.data;
    uint64_t first = address >> shift, last = (address + bytes - 1) >> shift;
    if (is_whole)
        return last - first < 2 && filter_is(f, first) && filter_is(f, last);
    return filter_hits(f, address, bytes, writes);
}

/* What the data cache has and is not changed by: most accesses, on a way that calls nothing and saves no register, but
 * jumps at its end. `is_whole`: of the filter. `is_mapped`: no mapping may lack it either. What a modifying instruction
 * loads is dirty then, and what it stores needs no cache. After the end it counts what nobody reads. */
__attribute__((always_inline)) static inline void access_quickly(struct site *s, qemu_plugin_meminfo_t info,
                                                                 uint64_t vaddr, enum direction which, bool is_whole,
                                                                 unsigned shift, bool is_mapped)
{
    const struct memo *m = &model.memo[(vaddr >> PAGE_SHIFT) % MEMO_PAGES];
    bool stores = which == STORES || (which == BOTH && info == s->store);
    unsigned bytes = stores ? s->store_bytes : s->load_bytes;
    bool modifies = which == BOTH && s->is_modify, is_second = modifies && stores;
    bool is_quick =
        info == (stores ? s->store : s->load) && has_page(s, m, vaddr, bytes) &&
        (is_second || (has_lines(vaddr + m->to_cached, bytes, stores || modifies, is_whole, shift) &&
                       (!is_mapped || maps_front_has(vaddr + m->distance, bytes, stores || modifies, shift))));
    if (!is_quick) {
        access_any(s, info, vaddr);
        return;
    }
    accesses_missed_data = accesses_missed_tlb = false;
    s->done[stores] += !is_second;
    if (is_mapped && !is_second)
        pages_use(vaddr + m->distance, PAGE_DATA, 1);
    if (stores && model.entries)
        store(s->segment, vaddr + m->to_cached, bytes, 0);
}

#define ACCESS(name, which, is_whole, shift, is_mapped)                                                                \
    static void name(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *site)                            \
    {                                                                                                                  \
        (void)vcpu;                                                                                                    \
        access_quickly(site, info, vaddr, which, is_whole, shift, is_mapped);                                          \
    }
#define ACCESSES(name, is_whole, shift)                                                                                \
    ACCESS(name##_load, LOADS, is_whole, shift, false)                                                                 \
    ACCESS(name##_store, STORES, is_whole, shift, false)                                                               \
    ACCESS(name##_both, BOTH, is_whole, shift, false)                                                                  \
    ACCESS(name##_mapped_load, LOADS, is_whole, shift, true)                                                           \
    ACCESS(name##_mapped_store, STORES, is_whole, shift, true)                                                         \
    ACCESS(name##_mapped_both, BOTH, is_whole, shift, true)
ACCESSES(whole, true, model.data.shift)
ACCESSES(whole_4, true, 2) /* lines of so many bytes: the DECstation 3100's */
ACCESSES(whole_16, true, 4)
ACCESSES(filtered, false, model.data.shift)
#undef ACCESSES
#undef ACCESS

qemu_plugin_vcpu_mem_cb_t accesses_call(bool is_kernel, bool loads, bool stores)
{
#define ROW(name)                                                                                                      \
    {                                                                                                                  \
        {name##_load, name##_store, name##_both}, { name##_mapped_load, name##_mapped_store, name##_mapped_both }      \
    }
    static const qemu_plugin_vcpu_mem_cb_t quick[][2][DIRECTIONS] = {ROW(whole), ROW(whole_4), ROW(whole_16),
                                                                     ROW(filtered)};
#undef ROW
    if (!model.data.last || model_leaves_out(is_kernel) || (maps_are_wanted && !maps_are_quick(is_kernel)) ||
        (variables_are_wanted && is_kernel))
        return access_plain;
    unsigned kind = !model.data.is_whole ? 3 : model.data.shift == 2 ? 1 : model.data.shift == 4 ? 2 : 0;
    return quick[kind][maps_are_wanted][loads == stores ? BOTH : stores ? STORES : LOADS];
}
