/* SPDX-License-Identifier: Apache-2.0
 * Pages: where the guest has them, and whether the described machine's TLB does. Its entries are by process. The page
 * tables' walks are not seen. */
#include "plugin/model.h"

#include <math.h>
#include <stdlib.h>

#include "machine/machine.h"

/* ---- made ---- */

void tlb_make(void)
{
    const struct machine *m = model_machine;
    double of[2] = {0};
    unsigned n = 0;
    for (size_t i = 0; i < m->cache_count && n < 2; i++)
        if (m->caches[i].kind == MACHINE_CACHE_TLB)
            of[n++] = m->caches[i].latency;
    model.tlb_penalty = (uint32_t)lround(of[0]);
    model.tlb_far_penalty = (uint32_t)lround(n > 1 ? of[1] : of[0]);
    model.kernel_page = (uint64_t)m->kernel_page;
    if (m->tlb_random > 0)
        for (unsigned i = 0; i < model.tlb_config.count; i++)
            model.tlb_config.levels[i].policy = CACHE_RANDOM;
    model.tlb_is_random = m->tlb_random > 0;
    model.tlb_is_known = model.tlb_is_random && model.tlb_config.count == 1;
    model.tlb = model.tlb_config.count ? cache_new(&model.tlb_config, false) : NULL;
    model.tlb_age = model.tlb ? 1 : 0; /* without one all is in it */
    model.code_page = model.data_page = model.tlb_is_random ? NO_PAGE : 0;
}

/* ---- where pages are ---- */

void tlb_forget_pages(unsigned vcpu, void *none)
{
    (void)vcpu, (void)none;
    memset(model.memo, 0, sizeof model.memo);
}

struct memo *tlb_ask_page(qemu_plugin_meminfo_t info, uint64_t vaddr, struct memo *m)
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

/* ---- whether it has them ---- */

/* The page as the TLB knows it: of the kernel all processes have the same, of its own mappings they may be larger.
 * False: it does not pass through the TLB. */
static bool tlb_page(uint64_t vaddr, uint64_t *address)
{
    uint64_t space = (int64_t)vaddr < 0 ? 0 : system_space;
    bool is_direct = (int64_t)vaddr < 0 && ram_address_of_kernel(vaddr) != RAM_NOWHERE;
    if (is_direct && !model.kernel_page)
        return false;
    uint64_t page = is_direct ? vaddr / model.kernel_page : vaddr >> PAGE_SHIFT;
    page = (page & 0xfffffffffull) | (is_direct ? 1ull << 37 : (int64_t)vaddr < 0 ? 1ull << 36 : 0);
    *address = ((page ^ space << 38) << PAGE_SHIFT) & ((1ull << 60) - 1);
    return true;
}

static uint64_t *tlb_place(uint64_t address) { return &model.tlb_has[address * 0x9e3779b97f4a7c15u >> 54]; }

static void reach_tlb(struct segment *s, uint64_t vaddr, enum cache_kind kind)
{
    uint64_t address;
    if (!tlb_page(vaddr, &address))
        return;
    struct cache_ref ref = {.address = address, .bytes = 1, .kind = (uint8_t)(kind == CACHE_FETCH ? CACHE_READ : kind)};
    uint64_t *place = tlb_place(address), gone;
    if (*place == (address | 1))
        return;
    unsigned missed = cache_reach(model.tlb, &ref);
    if (model.tlb_is_known)
        *place = address | 1;
    if (!missed)
        return;
    if (model.tlb_is_known && cache_evicted(model.tlb, &gone) && *tlb_place(gone) == (gone | 1))
        *tlb_place(gone) = 0;
    model.tlb_age++;
    tlb_forget_space();
    accesses_missed_tlb = true;
    s->row->of[WIRE_TLB_MISSES]++;
    model_stall_whole(s, WIRE_STALL_TLB, kind == CACHE_FETCH ? SPOT_FIRST : SPOT_LAST,
                      missed & 2 ? model.tlb_far_penalty : model.tlb_penalty);
}

/* With random replacement a hit changes nothing, so a page need not be looked for again before the next miss. */
void tlb_pass(const struct site *s, uint64_t vaddr, bool stores, struct memo *m)
{
    uint64_t page = vaddr >> PAGE_SHIFT;
    if (model.data_page == page)
        return;
    if (!model.tlb_is_random)
        model.data_page = page;
    reach_tlb(s->segment, vaddr, stores ? CACHE_WRITE : CACHE_READ);
    m->tlb_age = model.tlb_is_random ? model.tlb_age : 0;
}

void tlb_pass_code(struct segment *s)
{
    uint64_t page = s->vaddr >> PAGE_SHIFT;
    if (model.code_page == page)
        return;
    if (model.tlb)
        reach_tlb(s, s->vaddr, CACHE_FETCH);
    model.code_page = page;
}

void tlb_forget_space(void)
{
    if (model.tlb_is_random)
        model.code_page = NO_PAGE;
}
