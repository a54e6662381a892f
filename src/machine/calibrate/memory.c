/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, timed: loads and stores of each width that hit the nearest cache, what they share, forwarding from stores
 * to loads, and by chases through ever larger rings the sizes and latencies of caches and TLBs. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { COPIES = 96 };

/* ---- loads and stores in the nearest cache ---- */

struct access {
    const char *form; /* with m */
    uint8_t reg;
    int32_t disp;
};

static void put_scaled(struct lab_code *c, const char *form, uint8_t reg, uint8_t base, uint8_t index, uint8_t scale,
                       int32_t disp)
{
    struct x86_choice choice = {{reg, reg, reg, reg, reg}, 0, base, index, scale, disp};
    uint8_t bytes[15];
    int len = x86_encode_form(form, &choice, bytes);
    c->full = c->full || !len; /* never run what cannot be encoded */
    lab_put(c, bytes, (size_t)len);
}

static void put(struct lab_code *c, const char *form, uint8_t reg, uint8_t base, uint8_t index, int32_t disp)
{
    put_scaled(c, form, reg, base, index, 1, disp);
}

static unsigned vector_bits(const char *form) /* 0: none */
{
    struct x86_form f;
    x86_form_parse(form, &f);
    return f.vec_bits;
}

static unsigned fill_of(const char *form) { return LAB_FILL_INT | (vector_bits(form) > 128 ? LAB_FILL_WIDE : 0); }

/* Where accesses go matters: banks, and stores of one line that leave together. Neighbours are what most code reaches.
 */
enum places { NEIGHBOURS, LINES_IN_TURN };

static int32_t place(enum places places, unsigned i, unsigned bytes)
{
    return (int32_t)(places == LINES_IN_TURN ? i % 2 * 64 : bytes >= 64 ? i % 4 * 64 : i * bytes % 64);
}

/* Of stores, behind where loads go. Not a power of two: a core that finds a store by the name of its place (Zen 5)
 * takes [r+d] and [r+d+2048] for one, and starts anew each time. */
enum { STORES_AT = 2048 + 320 };

/* `loads` loads and `stores` stores; the stores' address with an index or without. Assumes that the front end keeps up
 * with plain loads and stores: count_units asks once more, beside fillers of the best length. */
static double mixed_at(struct calib *k, const char *load, unsigned loads, const char *store, unsigned stores,
                       uint8_t index, enum places stores_to)
{
    struct lab_code *c = xmalloc(sizeof *c);
    unsigned rounds = COPIES / (loads + stores), from = 0, to = 0;
    unsigned bits = vector_bits(loads ? load : store), bytes = bits ? bits / 8 : 8;
    for (unsigned r = 0; r < rounds; r++) {
        for (unsigned i = 0; i < loads; i++, from++)
            put(c, load, (uint8_t)(from % 4), LAB_BASE, X86_REG_NONE, place(NEIGHBOURS, from, bytes));
        for (unsigned i = 0; i < stores; i++, to++)
            put(c, store, 6, LAB_BASE, index, STORES_AT + place(stores_to, to, bytes));
    }
    lab_name(k->lab, "%u %s, %u %s%s%s", loads, load ? load : "loads", stores, store ? store : "stores",
             index == X86_REG_NONE ? "" : " indexed", stores_to == NEIGHBOURS ? "" : " to two lines");
    return calib_run(k, c, rounds, fill_of(loads ? load : store));
}

static double mixed(struct calib *k, const char *load, unsigned loads, const char *store, unsigned stores)
{
    return mixed_at(k, load, loads, store, stores, X86_REG_NONE, NEIGHBOURS);
}

/* How the address of a chase is made. */
enum way { BY_BASE, BY_INDEX, BY_INDEX_AND_DISP, BY_SCALE };

/* A pointer to itself at [r14], or zeros behind it as an index: form after form, each on the result of the one before.
 * Assumes that no core guesses what a load brings. The smallest ring, where each load brings something else, guards it
 * (check_latency). */
static double chase(struct calib *k, const char *const *forms, unsigned count, enum way way)
{
    static const char *const ways[] = {"base", "index", "index and displacement", "scaled index"};
    enum { ROUNDS = 24 };
    struct lab_code *c = xmalloc(sizeof *c);
    uint8_t *data = lab_data(k->lab);
    bool indexed = way != BY_BASE;
    if (!indexed)
        memcpy(data, &data, 8);
    LAB_PUT(c, 0x48, 0x83, 0xe0, 0x00); /* and rax,0: a value of its own, but not before the last iteration has ended */
    if (!indexed)
        LAB_PUT(c, 0x4c, 0x01, 0xf0); /* add rax,r14 */
    for (int r = 0; r < ROUNDS; r++)
        for (unsigned i = 0; i < count; i++)
            put_scaled(c, forms[i], 0, (uint8_t)(indexed ? LAB_BASE : 0), (uint8_t)(indexed ? 0 : X86_REG_NONE),
                       way == BY_SCALE ? 8 : 1, way == BY_INDEX_AND_DISP ? 64 : 0);
    lab_name(k->lab, "chase by %s: %s%s%s", ways[way], forms[0], count > 1 ? ", " : "", count > 1 ? forms[1] : "");
    double cycles = calib_run(k, c, 1, fill_of(forms[0]));
    memset(data, 0, 8);
    return cycles < 0 ? -1 : (cycles - (indexed ? 1 : 2)) / ROUNDS;
}
#define CHASE(k, ...)                                                                                                  \
    chase((k), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), BY_BASE)

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

/* Assumes that the way back to a general register takes what timing found of movq, which crossing splits in whole
 * cycles. */
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

enum { LOADS_MAX = 6, STORES_MAX = 4 }; /* more than any core has, and as many as a description has room for */

static unsigned per_cycle(double interval)
{
    return interval > 0 ? (unsigned)fmax(1, fmin(floor(1 / interval + 0.35), LOADS_MAX)) : 1;
}

/* Rounds of n accesses, filled up to the width: a round takes a cycle as long as there are units for its accesses.
 * Negative: not known. */
static double beside_fillers(struct calib *k, const char *form, bool is_store, unsigned n)
{
    struct lab_code *c = xmalloc(sizeof *c);
    unsigned rounds = COPIES / n, fillers = (unsigned)fmax(0, floor(k->width) - n);
    for (unsigned i = 0; i < rounds * n; i++) {
        put(c, form, is_store ? 6 : (uint8_t)(i % 4), LAB_BASE, X86_REG_NONE,
            (is_store ? 1024 : 0) + place(NEIGHBOURS, i, 8));
        for (unsigned f = 0; f < fillers && i % n == n - 1; f++)
            filler_put(k, c, k->length);
    }
    lab_name(k->lab, "%u %s filled up to the width", n, form);
    return calib_run(k, c, rounds, LAB_FILL_INT);
}

/* By one more than cores have units, or as many as the width has room for: a round takes the longer, the fewer units
 * there are, whatever the front end does. A round of one cycle: so many at least. */
static unsigned units_beside(struct calib *k, const char *form, bool is_store, unsigned isolated)
{
    unsigned n = (unsigned)fmax(1, fmin(is_store ? 3 : 5, floor(k->width)));
    double round = beside_fillers(k, form, is_store, n);
    unsigned found = round > 0 ? per_cycle(round / n) : isolated;
    return found >= n && isolated > n ? isolated : found;
}

/* How many accesses go in a cycle, by copies alone and by some beside fillers; both again where they disagree. Then the
 * larger figure counts: neighbours, banks of the cache and the front end make accesses slower, nothing makes them
 * faster. */
static unsigned count_units(struct calib *k, const char *form, bool is_store)
{
    unsigned isolated = 1, beside = 0;
    for (int again = 0; again < 2 && beside != isolated; again++) {
        isolated = per_cycle(is_store ? mixed(k, NULL, 0, form, 1) : mixed(k, form, 1, NULL, 0));
        beside = units_beside(k, form, is_store, isolated);
    }
    if (isolated != beside)
        diag_debug(1, "calibrate: units of %s: %u by copies alone, %u beside fillers", form, isolated, beside);
    unsigned units = isolated > beside ? isolated : beside;
    return is_store && units > STORES_MAX ? STORES_MAX : units;
}

/* Cycles of so many loads and stores on so many ports for addresses. */
static double shared_cycles(const struct calib *k, const struct memory_units *u, unsigned loads, unsigned both)
{
    double apart = fmax((double)loads / u->loads, 1), all = loads + u->stores;
    return fmax(fmax(apart, all / both), all / k->width);
}

/* Ports for addresses, by two mixtures: of as many loads and stores as go in a cycle, and of twice the loads. Both
 * again where no number explains them to a tenth; then the number that is nearest. */
static unsigned count_addresses(struct calib *k, const struct memory_units *u, double *together)
{
    unsigned best = u->loads + u->stores;
    for (int again = 0; again < 2; again++) {
        double more = mixed(k, "mov r64,m", 2 * u->loads, "mov m,r64", u->stores), min = INFINITY;
        *together = mixed(k, "mov r64,m", u->loads, "mov m,r64", u->stores);
        if (*together <= 0)
            return best;
        for (unsigned n = u->loads + u->stores; n >= 1 && n >= u->loads && n >= u->stores; n--) {
            double off = fabs(log(*together / shared_cycles(k, u, u->loads, n))) +
                         (more > 0 ? fabs(log(more / shared_cycles(k, u, 2 * u->loads, n))) : 0);
            if (off < min - 0.05) { /* not for a little better fit: they are shared only where that shows */
                min = off;
                best = n;
            }
        }
        if (min < 0.2)
            break;
        diag_debug(1, "calibrate: %u ports for addresses explain loads and stores badly (%.2f, %.2f cycles)", best,
                   *together, more);
    }
    return best;
}

/* Assumes that loads of neighbours meet no bank conflict and that stores to one line leave as fast as they are made:
 * count_units and count_addresses ask twice. */
static void find_units(struct calib *k, struct memory_units *u)
{
    u->loads = count_units(k, "mov r64,m", false);
    u->stores = count_units(k, "mov m,r64", true);
    double together;
    u->both = count_addresses(k, u, &together);
    double indexed = mixed_at(k, "mov r64,m", u->loads, "mov m,r64", u->stores, 13, NEIGHBOURS); /* r13 is 3 */
    double slots = (u->loads + u->stores * (1 + k->m->indexed_store)) / k->width;
    u->indexed_apart = indexed > fmax(together, slots) + 0.25 && u->both > u->loads;
    double store = mixed(k, NULL, 0, "mov m,r64", 1),
           in_turn = mixed_at(k, NULL, 0, "mov m,r64", 1, X86_REG_NONE, LINES_IN_TURN);
    if (store > 0 && in_turn > 0) {
        k->m->drain_line = 1.0 / u->stores;
        k->m->drain = in_turn > store * 1.3 ? round(in_turn * 2) / 2 : k->m->drain_line;
    }
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
    for (; ports && n > 0; n--) {
        out |= ports & -ports;
        ports &= ports - 1;
    }
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

/* Assumes that lea of a base alone takes a cycle, or is a move that takes none (then nothing is found, which nothing
 * guards). */
static void find_address_latencies(struct calib *k)
{
    const char *const load[] = {"mov r64,m"};
    double plain = CHASE(k, "mov r64,m"), indexed = chase(k, load, 1, BY_INDEX);
    double displaced = chase(k, load, 1, BY_INDEX_AND_DISP), scaled = chase(k, load, 1, BY_SCALE);
    double after_add = CHASE(k, "mov r64,m", "lea r64,b");
    k->m->index_latency = indexed > plain ? tidy(indexed - plain) : 0;
    k->m->complex_latency = fmin(displaced, scaled) > plain ? tidy(fmin(displaced, scaled) - plain) : 0;
    k->m->address_latency = after_add > plain + 1 ? tidy(after_add - plain - 1) : 0;
}

/* ---- loads that extend what they load ---- */

static double chase_index(struct calib *k, const char *name, const uint8_t *bytes, size_t len)
{
    enum { ROUNDS = 24 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x48, 0x83, 0xe0, 0x00); /* and rax,0 */
    for (int r = 0; r < ROUNDS; r++)
        lab_put(c, bytes, len);
    lab_name(k->lab, "chase by %s", name);
    double cycles = calib_run(k, c, 1, LAB_FILL_NONE);
    return cycles < 0 ? NAN : (cycles - 1) / ROUNDS;
}
#define CHASE_INDEX(k, name, ...)                                                                                      \
    chase_index((k), (name), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void add_late_loads(struct calib *k, const char *class_name, double late, const char *const *forms, size_t count)
{
    struct machine_class c = {.slots = 1, .latency = late, .latency_high = late};
    snprintf(c.name, sizeof c.name, "%s", class_name);
    uint32_t id = machine_add_class(k->m, &c);
    for (size_t i = 0; i < count; i++) {
        struct machine_form f = {.class_id = id, .measured_latency = -1, .measured_interval = -1};
        snprintf(f.form, sizeof f.form, "%s", forms[i]);
        machine_add_form(k->m, &f);
    }
}

/* Is a value later if its sign is extended on the way? Each load's address is made of the zero that the one before
 * loaded. Assumes that what holds for a word of 32 bits holds for shorter ones. */
static void find_late_loads(struct calib *k)
{
    static const char *const forms[] = {"movsxd r64,m", "movsx r64,m", "movsx r32,m", "movsx r16,m"};
    double plain = CHASE_INDEX(k, "mov r64,[b+i]", 0x49, 0x8b, 0x04, 0x06); /* mov rax,[r14+rax] */
    double sign = CHASE_INDEX(k, "movsxd r64,[b+i]", 0x49, 0x63, 0x04, 0x06);
    if (sign > plain + 0.7)
        add_late_loads(k, "mov-sign", tidy(sign - plain), forms, ARRAY_LEN(forms));
}

/* ---- over the end of a line ---- */

/* 60: eight bytes lie over the end of a line, in each of 16 lines of one page. Assumes lines of 64 bytes: the same
 * accesses at offset 0 stand beside them, so longer lines would show nothing, not something wrong. */
static double at_offset(struct calib *k, const char *form, int32_t offset)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (int i = 0; i < COPIES; i++)
        put(c, form, (uint8_t)(i % 4), LAB_BASE, X86_REG_NONE, 1024 + i % 16 * 64 + offset);
    lab_name(k->lab, "%s at %d", form, offset);
    return calib_run(k, c, COPIES, LAB_FILL_NONE);
}

/* An index of zero, loaded from a place that holds it, again and again: assumes what chase does, and only differences
 * count. */
static double chase_at(struct calib *k, int32_t offset)
{
    enum { ROUNDS = 24 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x48, 0x83, 0xe0, 0x00); /* and rax,0 */
    for (int r = 0; r < ROUNDS; r++)
        put(c, "mov r64,m", 0, LAB_BASE, 0, 1024 + offset);
    lab_name(k->lab, "chase at %d", offset);
    return calib_run(k, c, ROUNDS, LAB_FILL_NONE);
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

/* Store and load in turn, the value going round: [r14] or, for another name of the same place, [rbx] with rbx = r14, or
 * with an index, which no core is known to see through. */
enum name_of_place { SAME_NAME, OTHER_BASE, BY_AN_INDEX };
static double round_trip(struct calib *k, const char *store, const char *load, enum name_of_place name)
{
    static const char *const names[] = {"the same name", "another base", "an index"};
    enum { ROUNDS = 32 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x4c, 0x89, 0xf3); /* mov rbx,r14 */
    LAB_PUT(c, 0xb9, 0, 0, 0, 0); /* mov ecx,0 */
    for (int r = 0; r < ROUNDS; r++) {
        put(c, store, 0, LAB_BASE, X86_REG_NONE, 256);
        put(c, load, 0, name == OTHER_BASE ? 3 : LAB_BASE, name == BY_AN_INDEX ? 1 : X86_REG_NONE, 256);
    }
    lab_name(k->lab, "%s, %s by %s", store, load, names[name]);
    double cycles = calib_run(k, c, ROUNDS, LAB_FILL_INT);
    memset((char *)lab_data(k->lab) + 256, 0, 64);
    return cycles;
}

static double usual_trip(double other, double indexed, double load)
{
    return other >= load - 0.5 ? other : fmax(indexed, load);
}

/* A value that comes back faster than a load takes did not go through memory: the core knows the pair by its names
 * (renaming), or has learnt it; then what a pair costs that it does not know is told by an address that it cannot know,
 * and by what the load alone takes at the least. */
static void find_forwarding(struct calib *k)
{
    struct machine *m = k->m;
    const struct machine_class *l = machine_class_named(m, "load");
    double load = l ? l->latency : 4;
    double same = round_trip(k, "mov m,r64", "mov r64,m", SAME_NAME),
           other = round_trip(k, "mov m,r64", "mov r64,m", OTHER_BASE),
           indexed = round_trip(k, "mov m,r64", "mov r64,m", BY_AN_INDEX);
    double usual = other > 0 ? usual_trip(other, indexed - m->index_latency, load) : m->forward;
    m->forward = tidy(usual);
    m->forward_learned = other > 0 && other < usual - 2 ? tidy(other) : -1;
    m->rename = same >= 0 && same < fmin(usual, m->forward_learned >= 0 ? m->forward_learned + 0.5 : usual) - 1
                    ? tidy(same)
                    : -1;
    double vec = round_trip(k, "movups m,x", "movups x,m", OTHER_BASE),
           fail = round_trip(k, "mov m,r8", "mov r64,m", OTHER_BASE);
    m->forward_vec = vec > 0 ? tidy(vec) : m->forward_vec;
    m->forward_fail = fail > 0 ? tidy(fail) : m->forward_fail;
}

/* ---- caches and TLBs by chases ---- */

/* Assumes that no prefetcher follows a random order. Nothing guards against one that follows pointers; the sizes that
 * the system tells and steps that must rise (find_levels) guard against one that only helps a little. */
static double ring(struct calib *k, size_t cells, size_t stride, size_t skew, bool small_pages)
{
    struct lab_ring r = {cells, stride, skew, small_pages};
    lab_name(k->lab, "ring of %zu cells, %zu apart%s", cells, stride, small_pages ? ", small pages" : "");
    return lab_ring_cycles(k->lab, &r);
}

struct level {
    double size, latency;
};

/* Latency over size, from 4 KiB up, in steps of a quarter; returns how many. A tape tells how many there was time for.
 */
static size_t sweep(struct calib *k, size_t max, struct level *out, size_t cap)
{
    size_t n = 0, known = (size_t)fmax(0, fmin((double)cap, lab_recall(k->lab, "sizes walked", (double)cap)));
    for (double size = 4096; size <= (double)max && n < known && lab_seconds_left(k->lab) > 0.5; size *= 1.25) {
        diag_progress("walking through the caches", (uint64_t)size, max);
        size_t cells = (size_t)size / 64;
        out[n].size = (double)cells * 64;
        out[n].latency = ring(k, cells, 64, 0, false);
        if (out[n].latency < 0)
            break;
        n++;
        diag_debug(2, "%.0f bytes: %.1f cycles a load", out[n - 1].size, out[n - 1].latency);
    }
    lab_name(k->lab, "sizes walked");
    lab_tell(k->lab, (double)n);
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

/* What the system says of the processor that is timed; 0: nothing. A tape brings it along. */
static long told_by_system(struct calib *k, const char *level, const char *what, int name, long otherwise)
{
    char label[64];
    snprintf(label, sizeof label, "%s %s by the system", level, what);
    return (long)lab_fact(k->lab, label, k->is_here ? (double)sysconf(name) : (double)otherwise);
}

static double memory_size(struct calib *k)
{
    static const double OTHERWISE = 16.0 * (1 << 30), MIN = 1 << 20;
    return fmax(MIN,
                lab_fact(k->lab, "memory size by the system",
                         k->is_here ? (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) : OTHERWISE));
}

/* What the system says of a level, if it is near what was measured (a virtual machine may say anything). What is
 * measured is rather too small: page frames taken at random fill some sets before others, so a ring of half a cache of
 * 16 ways misses a few times in a hundred, and where the next level is slow that already looks like an edge. */
static double believed_size(double measured, long told)
{
    static const double LEAST = 0.6, MOST = 2.2;
    double size = (double)told;
    return told > 0 && size > measured * LEAST && size < measured * MOST ? size : measured;
}

/* A level ends where the latency has risen by more than the TLB could explain. Assumes that each level is at least 1.6
 * times as slow as the one before; the system's word on sizes is taken only where it is near. */
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
        double size = believed_size(s[end].size, told_by_system(k, told[l].name, "size", told[l].size, 0));
        long ways = told_by_system(k, told[l].name, "ways", told[l].ways, 0),
             line = told_by_system(k, told[l].name, "line", told[l].line, 64);
        add_cache(k->m, told[l].name, told[l].kind, size, line > 0 && line <= 4096 ? (unsigned)line : 64,
                  ways > 0 && ways <= 65536 ? (unsigned)ways : 0, level);
        for (i = end + 1; i < n && s[i].size < size * 1.3; i++) /* past the mixed part behind the edge */
            ;
    }
    if (n)
        add_cache(k->m, "memory", MACHINE_CACHE_BOTH, memory_size(k), 64, 0, s[n - 1].latency);
}

/* One line in each page against as many lines side by side: the rest is the TLB's.
 * Assumes small pages, and that the skew of a line from cell to cell spreads the spread ring over the sets as the
 * packed one. A rise must be beyond what a cache's edge gives. */
static void find_tlbs(struct calib *k, size_t max)
{
    static const char *const names[] = {"L1-tlb", "L2-tlb"};
    size_t found = 0;
    double floor_cycles = 0, last_pages = 8;
    for (double pages = 8; pages * 4096 <= (double)max && pages <= 8192 && found < 2; pages *= 1.12) {
        size_t cells = (size_t)pages;
        double spread = ring(k, cells, 4096, 64, true), packed = ring(k, cells, 64, 0, true);
        if (spread > packed + floor_cycles + 3.5 + 6 * (double)found) {
            double later = ring(k, cells * 3 / 2, 4096, 64, true) - ring(k, cells * 3 / 2, 64, 0, true);
            add_cache(k->m, names[found], MACHINE_CACHE_TLB, last_pages * 4096, 4096, 0, fmax(1, later - floor_cycles));
            floor_cycles = later;
            found++;
        }
        last_pages = floor(pages);
    }
}

/* A ring that fits into the nearest cache takes what a chase of one pointer does: where it takes clearly longer, what
 * the one pointer brings was guessed. */
static void check_latency(struct calib *k)
{
    const struct machine_class *c = machine_class_named(k->m, "load");
    const struct machine_cache *nearest = &k->m->caches[0];
    if (!c || !k->m->cache_count || nearest->kind != MACHINE_CACHE_DATA || nearest->latency <= c->latency + 1)
        return;
    diag_debug(1, "calibrate: a load takes %.1f cycles in a chase of one pointer, %.1f in a ring: the ring counts",
               c->latency, nearest->latency);
    struct machine_class *load = &k->m->classes[c - k->m->classes];
    load->latency = load->latency_high = nearest->latency;
}

static void find_caches(struct calib *k)
{
    struct level s[64] = {{0}};
    size_t n = sweep(k, k->quick ? 4u << 20 : 128u << 20, s, ARRAY_LEN(s));
    find_levels(k, s, n);
    check_latency(k);
    find_tlbs(k, 34u << 20);
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
    find_late_loads(k);
    find_address_latencies(k);
    find_crossings(k);
    find_forwarding(k);
    find_caches(k);
}
