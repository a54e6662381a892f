/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, timed: loads and stores of each width that hit the nearest cache, what they share, forwarding from stores
 * to loads, and by chases through ever larger rings the sizes and latencies of caches and TLBs. */
#include "machine/calib.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COPIES = 96 };

/* ---- loads and stores in the nearest cache ---- */

struct access {
    const char *form; /* with m */
    uint8_t reg;
    int32_t disp;
};

static void put(struct lab_code *c, const char *form, uint8_t reg, uint8_t base, uint8_t index, int32_t disp)
{
    struct x86_choice choice = {{reg, reg, reg, reg, reg}, 0, base, index, 1, disp};
    uint8_t bytes[15];
    int len = x86_encode_form(form, &choice, bytes);
    c->full = c->full || !len; /* never run what cannot be encoded */
    lab_put(c, bytes, (size_t)len);
}

static double run(struct calib *k, struct lab_code *c, unsigned rounds, unsigned fill)
{
    double cycles = lab_loop_cycles(k->lab, c, fill);
    free(c);
    return cycles < 0 ? -1 : cycles / rounds;
}

static unsigned fill_of(const char *form) { return strpbrk(form, "yz") ? LAB_FILL_INT | LAB_FILL_WIDE : LAB_FILL_INT; }

/* `loads` loads and `stores` stores, each to a line of its own in turn; the stores' address with an index or without.
 */
static double mixed_at(struct calib *k, const char *load, unsigned loads, const char *store, unsigned stores,
                       uint8_t index)
{
    struct lab_code *c = xmalloc(sizeof *c);
    unsigned rounds = COPIES / (loads + stores), at = 0;
    for (unsigned r = 0; r < rounds; r++) {
        for (unsigned i = 0; i < loads; i++, at++)
            put(c, load, (uint8_t)(at % 4), LAB_BASE, X86_REG_NONE, (int32_t)(at % 16 * 64));
        for (unsigned i = 0; i < stores; i++, at++)
            put(c, store, 6, LAB_BASE, index, (int32_t)(2048 + (at & 1) * 64));
    }
    return run(k, c, rounds, fill_of(loads ? load : store));
}

static double mixed(struct calib *k, const char *load, unsigned loads, const char *store, unsigned stores)
{
    return mixed_at(k, load, loads, store, stores, X86_REG_NONE);
}

/* A pointer to itself at [r14]: form after form, each on the result of the one before. */
static double chase(struct calib *k, const char *const *forms, unsigned count, bool indexed)
{
    enum { ROUNDS = 24 };
    struct lab_code *c = xmalloc(sizeof *c);
    uint8_t *data = lab_data(k->lab);
    if (!indexed)
        memcpy(data, &data, 8);
    LAB_PUT(c, 0x48, 0x83, 0xe0, 0x00); /* and rax,0: a value of its own, but not before the last turn has ended */
    if (!indexed)
        LAB_PUT(c, 0x4c, 0x01, 0xf0); /* add rax,r14 */
    for (int r = 0; r < ROUNDS; r++)
        for (unsigned i = 0; i < count; i++)
            put(c, forms[i], 0, (uint8_t)(indexed ? LAB_BASE : 0), (uint8_t)(indexed ? 0 : X86_REG_NONE), 0);
    double cycles = run(k, c, 1, fill_of(forms[0]));
    memset(data, 0, 8);
    return cycles < 0 ? -1 : (cycles - (indexed ? 1 : 2)) / ROUNDS;
}
#define CHASE(k, ...)                                                                                                  \
    chase((k), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), false)

static double latency_of(struct calib *k, const char *form, double otherwise)
{
    const struct timed_form *t = timing_of(k, form);
    return t && t->latency >= 0 ? t->latency : otherwise;
}

/* Within a tenth of a whole number that number, else tenths. */
static double tidy(double v) { return v < 0 ? 0 : fabs(v - round(v)) < 0.12 ? round(v) : round(v * 10) / 10; }

struct width {
    const char *suffix, *load, *store, *to_gpr;
    unsigned bits;
};
static const struct width widths[] = {
    {"", "mov r64,m", "mov m,r64", NULL, 64},
    {".x", "movups x,m", "movups m,x", "movq r64,x", 128},
    {".y", "vmovups y,m", "vmovups m,y", "vmovq r64,x", 256},
    {".z", "vmovups z,m", "vmovups m,z", "vmovq r64,x", 512},
};

static double load_latency(struct calib *k, const struct width *w)
{
    if (!w->to_gpr)
        return CHASE(k, "mov r64,m");
    double both = CHASE(k, w->load, w->to_gpr);
    return both < 0 ? 7 : both - latency_of(k, "movq r64,x", 2);
}

/* Ports for loads and stores: as many load units as loads go in a cycle, as many store units as stores; and address
 * units if both together go slower than each alone. */
struct memory_units {
    unsigned loads, stores, both;
    bool indexed_apart; /* stores with an index in their address use the loads' units only */
    uint32_t load_ports, store_ports, address_ports;
};

static unsigned per_cycle(double interval) { return interval > 0 ? (unsigned)fmax(1, floor(1 / interval + 0.35)) : 1; }

static void find_units(struct calib *k, struct memory_units *u)
{
    double load = mixed(k, "mov r64,m", 1, NULL, 0), store = mixed(k, NULL, 0, "mov m,r64", 1);
    u->loads = per_cycle(load);
    u->stores = per_cycle(store);
    double together = mixed(k, "mov r64,m", u->loads, "mov m,r64", u->stores);
    u->both = u->loads + u->stores;
    if (together > 1.25 && together > (u->loads + u->stores) / k->width * 1.1)
        u->both = (unsigned)fmax(fmax(u->loads, u->stores), round(u->both / together));
    double indexed = mixed_at(k, "mov r64,m", u->loads, "mov m,r64", u->stores, 13); /* r13 is 3: within the line */
    u->indexed_apart = indexed > together + 0.25 && u->both > u->loads;
}

static uint32_t new_ports(struct machine *m, const char *what, unsigned first, unsigned end)
{
    uint32_t ports = 0;
    for (unsigned i = first; i < end; i++) {
        char name[24];
        snprintf(name, sizeof name, "%s%u", what, i);
        machine_add_unit(m, name, 1, 1);
        ports |= machine_ports_named(m, name);
    }
    return ports;
}

static void add_units(struct calib *k, struct memory_units *u)
{
    struct machine *m = k->m;
    u->load_ports = new_ports(m, "load", 0, u->loads);
    u->address_ports = u->load_ports | new_ports(m, "address", u->loads, u->both);
    u->store_ports = new_ports(m, "store", 0, u->stores);
    machine_add_group(m, "loads", u->load_ports);
    machine_add_group(m, "stores", u->store_ports);
    machine_add_group(m, "addresses", u->address_ports);
}

/* The first n of the ports. */
static uint32_t some_ports(struct machine *m, uint32_t ports, unsigned n, const char *what)
{
    uint32_t out = 0;
    for (; ports && n > 0; ports &= ports - 1, n--)
        out |= ports & -ports;
    for (size_t g = 0; g < m->group_count; g++)
        if (m->groups[g].ports == out)
            return out;
    char name[MACHINE_NAME_LEN];
    snprintf(name, sizeof name, "%s-%x", what, out);
    if (out & (out - 1))
        machine_add_group(m, name, out);
    return out;
}

static void add_access(struct calib *k, const struct width *w, const struct memory_units *u)
{
    double load = mixed(k, w->load, 1, NULL, 0), store = mixed(k, NULL, 0, w->store, 1);
    struct machine_class l = {.slots = 1, .use_count = 1},
                         s = {.slots = 1, .latency = 1, .latency_high = 1, .use_count = 2};
    snprintf(l.name, sizeof l.name, "load%s", w->suffix);
    snprintf(s.name, sizeof s.name, "store%s", w->suffix);
    l.latency = l.latency_high = tidy(load_latency(k, w));
    unsigned n = per_cycle(load);
    l.uses[0] = (struct machine_use){some_ports(k->m, u->load_ports, n, "loads"), load > 1.3 ? round(load) : 1};
    n = per_cycle(store);
    s.uses[0] = (struct machine_use){some_ports(k->m, u->store_ports, n, "stores"), store > 1.3 ? round(store) : 1};
    s.uses[1] = (struct machine_use){u->address_ports, 1};
    machine_add_class(k->m, &l);
    machine_add_class(k->m, &s);
    if (!u->indexed_apart)
        return;
    snprintf(s.name, sizeof s.name, "store%s-indexed", w->suffix);
    s.uses[1].ports = u->load_ports;
    machine_add_class(k->m, &s);
}

/* ---- addresses ---- */

static void find_address_latencies(struct calib *k)
{
    double plain = CHASE(k, "mov r64,m"), indexed = chase(k, (const char *const[]){"mov r64,m"}, 1, true);
    double after_add = CHASE(k, "mov r64,m", "lea r64,b");
    k->m->index_latency = indexed > plain ? tidy(indexed - plain) : 0;
    k->m->address_latency = after_add > plain + 1 ? tidy(after_add - plain - 1) : 0;
}

/* ---- over the end of a line ---- */

static double at_offset(struct calib *k, const char *form, int32_t offset)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (int i = 0; i < COPIES; i++)
        put(c, form, (uint8_t)(i % 4), LAB_BASE, X86_REG_NONE, 1024 + i % 16 * 64 + offset);
    return run(k, c, COPIES, LAB_FILL_NONE);
}

/* An index of zero, loaded from a place that holds it, again and again. */
static double chase_at(struct calib *k, int32_t offset)
{
    enum { ROUNDS = 24 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x48, 0x83, 0xe0, 0x00); /* and rax,0 */
    for (int r = 0; r < ROUNDS; r++)
        put(c, "mov r64,m", 0, LAB_BASE, 0, 1024 + offset);
    return run(k, c, ROUNDS, LAB_FILL_NONE);
}

static void find_crossings(struct calib *k)
{
    struct machine *m = k->m;
    double load = at_offset(k, "mov r64,m", 0), load_across = at_offset(k, "mov r64,m", 60);
    double store = at_offset(k, "mov m,r64", 0), store_across = at_offset(k, "mov m,r64", 60);
    double latency = chase_at(k, 0), latency_across = chase_at(k, 60);
    if (load > 0 && load_across > 0)
        m->cross_load = fmax(0, round(load_across / load) - 1);
    if (store > 0 && store_across > 0)
        m->cross_store = fmax(0, round(store_across / store) - 1);
    if (latency > 0 && latency_across > 0)
        m->cross_latency = fmax(0, round(latency_across - latency));
}

/* ---- store to load ---- */

/* Store and load in turn, the value going round: [r14] or, for another name of the same place, [rbx] with rbx = r14. */
static double round_trip(struct calib *k, const char *store, const char *load, bool other_name)
{
    enum { ROUNDS = 32 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x4c, 0x89, 0xf3); /* mov rbx,r14 */
    for (int r = 0; r < ROUNDS; r++) {
        put(c, store, 0, LAB_BASE, X86_REG_NONE, 256);
        put(c, load, 0, other_name ? 3 : LAB_BASE, X86_REG_NONE, 256);
    }
    double cycles = run(k, c, ROUNDS, LAB_FILL_INT);
    memset((char *)lab_data(k->lab) + 256, 0, 64);
    return cycles;
}

static void find_forwarding(struct calib *k)
{
    struct machine *m = k->m;
    double same = round_trip(k, "mov m,r64", "mov r64,m", false), other = round_trip(k, "mov m,r64", "mov r64,m", true);
    m->forward = other > 0 ? tidy(other) : m->forward;
    m->rename = same >= 0 && same < other - 2 ? tidy(same) : -1;
    double vec = round_trip(k, "movups m,x", "movups x,m", true), fail = round_trip(k, "mov m,r8", "mov r64,m", true);
    m->forward_vec = vec > 0 ? tidy(vec) : m->forward_vec;
    m->forward_fail = fail > 0 ? tidy(fail) : m->forward_fail;
}

/* ---- caches and TLBs by chases ---- */

struct ring { /* pointers each to the next, one in each cell */
    char *memory;
    size_t bytes;
};

static uint64_t random_below(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

/* Cells `stride` bytes apart, in random order; within each cell the pointer moves on so that sets are used evenly. */
static void link_ring(char *memory, size_t cells, size_t stride, size_t skew)
{
    uint32_t *order = xmalloc(cells * sizeof *order);
    uint64_t state = cells;
    for (size_t i = 0; i < cells; i++)
        order[i] = (uint32_t)i;
    for (size_t i = cells - 1; i > 0; i--) { /* Sattolo: one cycle through all */
        size_t j = random_below(&state, i);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (size_t i = 0; i < cells; i++) {
        size_t from = order[i], to = order[(i + 1) % cells];
        char *at = memory + from * stride + from * skew % stride, *next = memory + to * stride + to * skew % stride;
        memcpy(at, &next, sizeof next);
    }
    free(order);
}

static void walk(uint64_t turns, void *start)
{
    void **p = *(void ***)start;
    for (uint64_t i = 0; i < turns; i++)
        p = *p;
    *(void ***)start = p;
}

/* Cycles a load in the ring, walked warm. Far from the core time is long and neighbours matter less: what comes out
 * least of a few walks is taken even if none was quiet. */
static double walk_cycles(struct calib *k, char *memory, size_t cells, size_t stride, size_t skew)
{
    link_ring(memory, cells, stride, skew);
    void *p = memory;
    uint64_t turns = cells < 3000 ? 3000 : 12000;
    walk(cells < 30000 ? cells * 2 : cells, &p);
    double quiet = -1;
    for (int i = 0; i < 30 && (i < 6 || quiet < 0); i++) {
        double cycles = lab_sample(k->lab, walk, &p, turns) / (double)turns;
        if (cycles > 0 && (quiet < 0 || cycles < quiet))
            quiet = cycles;
    }
    return quiet > 0 ? quiet : lab_call_cycles(k->lab, walk, &p, turns);
}

struct level {
    double size, latency;
};

/* Latency over size, from 4 KiB up, in steps of a quarter; returns how many. */
static size_t sweep(struct calib *k, char *memory, size_t most, struct level *out, size_t cap)
{
    size_t n = 0;
    for (double size = 4096; size <= (double)most && n < cap && lab_seconds_left(k->lab) > 0.5; size *= 1.25) {
        diag_progress("walking through the caches", (uint64_t)size, most);
        size_t cells = (size_t)size / 64;
        out[n].size = (double)cells * 64;
        out[n++].latency = walk_cycles(k, memory, cells, 64, 0);
        diag_debug(2, "%.0f bytes: %.1f cycles a load", out[n - 1].size, out[n - 1].latency);
    }
    return n;
}

static void add_cache(struct machine *m, const char *name, enum machine_cache_kind kind, double size, unsigned line,
                      unsigned ways, double latency)
{
    if (m->cache_count == MACHINE_CACHE_MAX)
        return;
    struct machine_cache *c = &m->caches[m->cache_count++];
    snprintf(c->name, sizeof c->name, "%s", name);
    c->kind = kind;
    c->size_bytes = (uint64_t)size;
    c->line_bytes = line;
    c->ways = ways;
    c->latency = tidy(latency);
}

/* What the system says of a level, if it is near what was measured (a virtual machine may say anything). */
static double believed_size(double measured, long told)
{
    double size = (double)told;
    return told > 0 && size > measured * 0.6 && size < measured * 1.8 ? size : measured;
}

/* A level ends where the latency has risen by more than the TLB could explain. */
static void find_levels(struct calib *k, const struct level *s, size_t n)
{
    static const struct {
        const char *name;
        int size, ways, line;
        enum machine_cache_kind kind;
    } told[] = {{"L1", _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL1_DCACHE_ASSOC, _SC_LEVEL1_DCACHE_LINESIZE, MACHINE_CACHE_DATA},
                {"L2", _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL2_CACHE_ASSOC, _SC_LEVEL2_CACHE_LINESIZE, MACHINE_CACHE_BOTH},
                {"L3", _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL3_CACHE_ASSOC, _SC_LEVEL3_CACHE_LINESIZE, MACHINE_CACHE_BOTH}};
    size_t i = 0;
    for (size_t l = 0; l < ARRAY_LEN(told) && i < n; l++) {
        double level = s[i].latency;
        size_t end = i;
        while (end + 1 < n && s[end + 1].latency < level * 1.6 + 2)
            end++;
        if (end + 1 == n) /* the rest is memory */
            break;
        double size = believed_size(s[end].size, sysconf(told[l].size));
        long ways = sysconf(told[l].ways), line = sysconf(told[l].line);
        add_cache(k->m, told[l].name, told[l].kind, size, line > 0 ? (unsigned)line : 64, ways > 0 ? (unsigned)ways : 0,
                  level);
        for (i = end + 1; i < n && s[i].size < size * 1.3; i++) /* past the mixed part behind the edge */
            ;
    }
    if (n)
        add_cache(k->m, "memory", MACHINE_CACHE_BOTH, (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE),
                  64, 0, s[n - 1].latency);
}

/* One line in each page against as many lines side by side: the rest is the TLB's. */
static void find_tlbs(struct calib *k, char *memory, size_t most)
{
    static const char *const names[] = {"L1-tlb", "L2-tlb"};
    size_t found = 0;
    double floor_cycles = 0, last_pages = 8;
    for (double pages = 8; pages * 4096 <= (double)most && pages <= 8192 && found < 2; pages *= 1.12) {
        size_t cells = (size_t)pages;
        double spread = walk_cycles(k, memory, cells, 4096, 64), packed = walk_cycles(k, memory, cells, 64, 0);
        if (spread > packed + floor_cycles + 3.5 + 6 * (double)found) {
            double later =
                walk_cycles(k, memory, cells * 3 / 2, 4096, 64) - walk_cycles(k, memory, cells * 3 / 2, 64, 0);
            add_cache(k->m, names[found], MACHINE_CACHE_TLB, last_pages * 4096, 4096, 0, fmax(1, later - floor_cycles));
            floor_cycles = later;
            found++;
        }
        last_pages = floor(pages);
    }
}

enum { HUGE_PAGE = 2 << 20 };

/* Fresh memory, aligned for huge pages, with or without them as far as the system heeds it. NULL if there is none. */
static char *take_memory(size_t bytes, int advice, char **all)
{
    *all = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*all == MAP_FAILED)
        return NULL;
    char *memory = *all + (HUGE_PAGE - (uintptr_t)*all % HUGE_PAGE) % HUGE_PAGE;
    madvise(memory, bytes, advice);
    memset(memory, 1, bytes);
    return memory;
}

static void find_caches(struct calib *k)
{
    size_t most = k->quick ? 4u << 20 : 128u << 20;
    struct level s[64];
    char *all, *memory = take_memory(most, MADV_HUGEPAGE, &all);
    if (!memory)
        return;
    find_levels(k, s, sweep(k, memory, most, s, ARRAY_LEN(s)));
    munmap(all, most + HUGE_PAGE);
    most = 34u << 20;
    memory = take_memory(most, MADV_NOHUGEPAGE, &all);
    if (!memory)
        return;
    find_tlbs(k, memory, most);
    munmap(all, most + HUGE_PAGE);
}

void calib_memory(struct calib *k)
{
    struct memory_units u = {0};
    diag_progress("timing loads and stores", 0, 0);
    find_units(k, &u);
    add_units(k, &u);
    for (size_t i = 0; i < ARRAY_LEN(widths); i++)
        if (lab_has_vectors(k->lab, widths[i].bits))
            add_access(k, &widths[i], &u);
    find_address_latencies(k);
    find_crossings(k);
    find_forwarding(k);
    find_caches(k);
}
