/* SPDX-License-Identifier: Apache-2.0
 *
 * How far ahead a core looks: a chain of square roots that starts anew each round, with filler behind it. While the
 * filler of one round fits into the core beside the chain, the next chain starts before the first has ended; with
 * longer filler it cannot. What the filler consists of tells which resource is met: nops only take places in the
 * reorder buffer, results take registers, operations that wait take places in a scheduler. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

enum { CHAIN = 24, LIMIT = 1200 };

typedef void (*fill_with)(struct lab_code *c, unsigned i);

static void put_form(struct lab_code *c, const char *form, uint8_t a, uint8_t b, int32_t disp)
{
    struct x86_choice choice = {{a, b, b, b, b}, 3, LAB_BASE, X86_REG_NONE, 1, disp};
    uint8_t bytes[15];
    int len = x86_encode_form(form, &choice, bytes);
    lab_put(c, bytes, (size_t)len);
}

static const uint8_t free_gprs[] = {2, 3, 5, 6, 7, 8, 9, 10, 11};
static uint8_t gpr(unsigned i) { return free_gprs[i % ARRAY_LEN(free_gprs)]; }

static void fill_nop(struct lab_code *c, unsigned i)
{
    (void)i;
    lab_put_nops(c, 1);
}
static void fill_zero(struct lab_code *c, unsigned i)
{
    (void)i;
    LAB_PUT(c, 0x31, 0xd2); /* xor edx,edx */
}
static void fill_int(struct lab_code *c, unsigned i) { put_form(c, "lea r64,b", gpr(i), 0, 0); }
static void fill_vec(struct lab_code *c, unsigned i) { put_form(c, "paddd x,x", (uint8_t)(4 + i % 10), 15, 0); }
static void fill_load(struct lab_code *c, unsigned i) { put_form(c, "mov r64,m", gpr(i), 0, (int32_t)(i % 64 * 8)); }
static void fill_store(struct lab_code *c, unsigned i)
{
    put_form(c, "mov m,r64", 12, 12, (int32_t)(i % 8 * 8 + 1024));
}
static void fill_int_waiting(struct lab_code *c, unsigned i) /* add r,rax: rax holds the end of the chain */
{
    put_form(c, "add r64,r64", gpr(i), 0, 0);
}
static void fill_vec_waiting(struct lab_code *c, unsigned i)
{
    put_form(c, "pshufd x,x,i", (uint8_t)(4 + i % 10), 0, 0);
}
static void fill_load_waiting(struct lab_code *c, unsigned i) /* mov r,[r14+rax]; rax is zero in the end */
{
    struct x86_choice choice = {{gpr(i)}, 0, LAB_BASE, 0, 1, (int32_t)(i % 64 * 8)};
    uint8_t bytes[15];
    lab_put(c, bytes, (size_t)x86_encode_form("mov r64,m", &choice, bytes));
}

/* Assumes that square roots are slow enough for the chain to outlast all filler that fits into the core, and that
 * nothing but the filler keeps the next chain from starting. Guards are in depth: a little filler must not hinder, much
 * of it must. */
static double round_cycles(struct calib *k, const char *name, fill_with fill, unsigned n, bool hands_over)
{
    struct lab_code *c = xmalloc(sizeof *c);
    unsigned rounds = n > 200 ? 2 : 4;
    for (unsigned r = 0; r < rounds; r++) {
        put_form(c, "movaps x,x", 0, 14, 0); /* a new chain */
        for (int i = 0; i < CHAIN; i++)
            put_form(c, "sqrtsd x,x", 0, 0, 0);
        if (hands_over) { /* rax = 0, but only when the chain has ended */
            put_form(c, "movq r64,x", 0, 0, 0);
            put_form(c, "and r64,i", 0, 0, 0);
            c->bytes[c->len - 1] = 0;
        }
        for (unsigned i = 0; i < n; i++)
            fill(c, i);
    }
    lab_name(k->lab, "roots over %u %s", n, name);
    return calib_run(k, c, rounds, LAB_FILL_DOUBLE);
}

/* Where the chain takes places of the same kind, it gives them back one by one meanwhile: three quarters are given back
 * when it is told (depth). They are kept until a root starts, or until it has retired, some behind. */
enum chain_places { CHAIN_APART = 0, CHAIN_WAITS = CHAIN / 4, CHAIN_RETIRES = CHAIN / 4 + 2 };

/* The filler at which two chains stop to overlap: half way between half and all of the time of one after the other. 0
 * if no limit was met. */
static double depth(struct calib *k, const char *name, fill_with fill, bool hands_over, enum chain_places chain)
{
    const struct timed_form *root = timing_of(k, "sqrtsd x,x");
    double apart = CHAIN * (root && root->latency > 0 ? root->latency : 15), limit = 0.75 * apart;
    if (round_cycles(k, name, fill, 8, hands_over) > limit)
        return 0;
    unsigned low = 8, high = LIMIT;
    if (round_cycles(k, name, fill, high, hands_over) < limit)
        return 0;
    while (high - low > 2) {
        unsigned mid = (low + high) / 2;
        if (round_cycles(k, name, fill, mid, hands_over) > limit)
            high = mid;
        else
            low = mid;
    }
    return high + (double)chain;
}

/* A limit within 7 % of the reorder buffer is that of the reorder buffer. */
static double at_most(double size, double limit) { return size > 0 && size < 0.93 * limit ? size : 0; }

static bool shares_units(const struct machine *m)
{
    const struct machine_class *i = machine_class_named(m, "int"), *v = machine_class_named(m, "vlogic");
    bool known = i && v && i->use_count && v->use_count; /* else there is nothing to tell schedulers apart by */
    return !known || (i->uses[0].ports & v->uses[0].ports);
}

/* All that plain operations on general registers run on: some have more units than additions show. */
static uint32_t general_ports(const struct machine *m)
{
    static const char *const classes[] = {"int", "mov", "lea", "shift", "imul"};
    uint32_t ports = 0;
    for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
        const struct machine_class *c = machine_class_named(m, classes[i]);
        ports |= c && c->use_count ? c->uses[0].ports : 0;
    }
    return ports;
}

static unsigned size_of(const struct machine *m, double found)
{
    return (unsigned)(found > 0 ? found : m->rob > 0 ? m->rob : 512);
}

/* Vector and integer operations wait in one scheduler where their units are shared. Assumes one scheduler for each kind
 * of unit: several small ones come out as one of their sum, which nothing but the self-test guards. */
static void set_queues(struct calib *k, double ints, double vecs, double mem)
{
    struct machine *m = k->m;
    bool shared = shares_units(m);
    m->queues[0].size = size_of(m, shared ? fmax(ints, vecs) : ints);
    if (!shared) {
        uint32_t int_ports = general_ports(m);
        uint32_t q = machine_add_queue(m, "vector", size_of(m, vecs));
        for (size_t u = 0; u < m->unit_count; u++)
            if (!(int_ports >> m->units[u].first_port & 1) && m->units[u].queue == 0)
                m->units[u].queue = (int)q;
    }
    uint32_t q = machine_add_queue(m, "memory", size_of(m, mem));
    for (size_t u = 0; u < m->unit_count; u++)
        if (strncmp(m->units[u].name, "load", 4) == 0 || strncmp(m->units[u].name, "address", 7) == 0)
            m->units[u].queue = (int)q;
}

/* By nops and by zeroing idioms: either may meet another limit first (a nop that fuses takes half a place, an idiom may
 * take a register), so the larger one counts. */
static double reorder_size(struct calib *k)
{
    double nops = depth(k, "nops", fill_nop, false, CHAIN_RETIRES),
           zeros = depth(k, "zeros", fill_zero, false, CHAIN_RETIRES);
    if (k->m->fuse_nop > 0)
        nops = nops > 0 ? (nops + CHAIN_RETIRES) / 2 : 0;
    if (k->m->zero_idiom > 0 && zeros > nops && nops > 0)
        nops = zeros;
    return floor(nops > 0 ? nops : zeros > 0 ? zeros : 512);
}

void calib_reorder(struct calib *k)
{
    struct machine *m = k->m;
    diag_progress("finding how far the core looks ahead", 0, 0);
    m->rob = reorder_size(k);
    m->int_regs = at_most(depth(k, "lea", fill_int, false, CHAIN_APART), m->rob);
    m->vec_regs = at_most(depth(k, "paddd", fill_vec, false, CHAIN_RETIRES), m->rob);
    m->load_queue = at_most(depth(k, "loads", fill_load, false, CHAIN_APART), m->rob);
    m->store_queue = at_most(depth(k, "stores", fill_store, false, CHAIN_APART), m->rob);
    double ints =
        at_most(depth(k, "add that wait", fill_int_waiting, true, shares_units(m) ? CHAIN_WAITS : CHAIN_APART), m->rob);
    double vecs = at_most(depth(k, "pshufd that wait", fill_vec_waiting, false, CHAIN_WAITS), m->rob);
    double mem = at_most(depth(k, "loads that wait", fill_load_waiting, true, CHAIN_APART), m->rob);
    set_queues(k, ints, vecs, mem);
}
