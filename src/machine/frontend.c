/* SPDX-License-Identifier: Apache-2.0
 *
 * The front end, timed: slots a cycle, what fuses, fetch windows, the pace of taken branches, calls and returns, and
 * what a misprediction costs. Blocks of code are laid out byte by byte, because their addresses are what is tested. */
#include "machine/calib.h"

#include <math.h>
#include <stdlib.h>

/* ---- pieces of code ---- */

static double run(struct calib *k, struct lab_code *c)
{
    double cycles = lab_loop_cycles(k->lab, c, LAB_FILL_NONE);
    free(c);
    return cycles;
}

/* Slots of a sequence with those of nops that fill up the width around it. */
static double slots_of(struct calib *k, const uint8_t *bytes, size_t len)
{
    enum { ROUNDS = 24 };
    struct lab_code *c = xmalloc(sizeof *c);
    unsigned nops = (unsigned)(5 * k->width);
    for (unsigned r = 0; r < ROUNDS; r++) {
        lab_align(c, 32, 0);
        lab_put(c, bytes, len);
        for (unsigned i = 0; i < nops; i++)
            lab_put_nops(c, 4);
    }
    double cycles = run(k, c);
    return cycles < 0 ? -1 : cycles / ROUNDS * k->width;
}

/* The same alignment and nops with plain nops in place of the sequence tell what all the rest takes. */
static double extra_slots(struct calib *k, const uint8_t *bytes, size_t len, unsigned instructions)
{
    uint8_t plain[64];
    struct lab_code *c = xmalloc(sizeof *c);
    size_t left = len;
    for (unsigned i = instructions; i > 0; i--) {
        lab_put_nops(c, left / i);
        left -= left / i;
    }
    memcpy(plain, c->bytes, len);
    free(c);
    double with = slots_of(k, bytes, len), without = slots_of(k, plain, len);
    return with < 0 || without < 0 ? -1 : with - without;
}

void calib_width(struct calib *k)
{
    enum { N = 160 };
    struct lab_code *c = xmalloc(sizeof *c);
    for (int i = 0; i < N; i++)
        lab_put_nops(c, 4);
    double nops = run(k, c);
    c = xmalloc(sizeof *c);
    for (int i = 0; i < N; i++) /* two nops, mov eax,3, lea rdx,[rsi+8] */
        if (i % 4 < 2)
            lab_put_nops(c, 4);
        else if (i % 4 == 2)
            LAB_PUT(c, 0xb8, 3, 0, 0, 0);
        else
            LAB_PUT(c, 0x48, 0x8d, 0x56, 0x08);
    double mixed = run(k, c), best = fmin(nops > 0 ? nops : 1e9, mixed > 0 ? mixed : 1e9);
    double width = best < 1e8 ? (N + 1) / best : 4; /* and the jump at the end of the loop */
    k->width = fabs(width - round(width)) < 0.06 * width ? round(width) : width;
    k->m->max_issue = k->width;
    k->m->retire_width = ceil(k->width);
}

/* ---- fusion ---- */

static bool fuses(struct calib *k, const uint8_t *pair, size_t len)
{
    double more = extra_slots(k, pair, len, 2);
    return more < -0.5;
}
#define FUSES(k, ...) fuses((k), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

#define MORE_SLOTS(k, ...) extra_slots((k), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), 1)

static double whole(double slots) { return slots > 0.5 ? round(slots) : 0; }

/* Does a pair fuse when the comparison ends a line and the jump starts the next? Beside one within the line, among the
 * same nops. */
static bool fuses_across(struct calib *k)
{
    enum { ROUNDS = 16 };
    double cycles[2];
    for (unsigned inside = 0; inside < 2; inside++) {
        struct lab_code *c = xmalloc(sizeof *c);
        for (unsigned r = 0; r < ROUNDS; r++) {
            for (unsigned i = 0; i < 15 - inside; i++)
                lab_put_nops(c, 4);
            lab_put_nops(c, 1);
            LAB_PUT(c, 0x4d, 0x85, 0xe4, 0x74, 0x00); /* test at 61 to 63; or 57 to 59 */
            lab_put_nops(c, inside ? 4 : 0);
            lab_align(c, 128, 0);
        }
        cycles[inside] = run(k, c) / ROUNDS * k->width;
    }
    return cycles[0] < cycles[1] + 0.5;
}

static void find_fusion(struct calib *k)
{
    struct machine *m = k->m;
    m->fuse_test = FUSES(k, 0x4d, 0x85, 0xe4, 0x74, 0x00); /* test r12,r12; jz next: never taken */
    m->fuse_cmp = FUSES(k, 0x4d, 0x39, 0xec, 0x72, 0x00);  /* cmp r12,r13; jb */
    m->fuse_alu = FUSES(k, 0x48, 0x01, 0xc0, 0x74, 0x00);  /* add rax,rax; jz */
    m->fuse_inc = FUSES(k, 0x48, 0xff, 0xc0, 0x74, 0x00);  /* inc rax; jz */
    m->fuse_across = fuses_across(k);
    double load = MORE_SLOTS(k, 0x49, 0x03, 0x06); /* add rax,[r14] */
    double rmw = MORE_SLOTS(k, 0x49, 0x01, 0x06);  /* add [r14],rax */
    m->fuse_load = load < 0.5;
    m->fuse_store = rmw < 0.5;
    m->zero_idiom = 1;
    double store = MORE_SLOTS(k, 0x49, 0x89, 0x06);                        /* mov [r14],rax */
    m->indexed_load = whole(MORE_SLOTS(k, 0x4b, 0x03, 0x04, 0x26) - load); /* the same with [r14+r12] */
    m->indexed_rmw = whole(MORE_SLOTS(k, 0x4b, 0x01, 0x04, 0x26) - rmw);
    m->indexed_store = whole(MORE_SLOTS(k, 0x4b, 0x89, 0x04, 0x26) - store);
    if (!lab_has_vectors(k->lab, 256))
        return;
    double vex = MORE_SLOTS(k, 0xc4, 0xc1, 0x70, 0x58, 0x06); /* vaddps xmm0,xmm1,[r14] */
    m->indexed_new = whole(MORE_SLOTS(k, 0xc4, 0x81, 0x70, 0x58, 0x04, 0x26) - vex);
}

/* ---- taken branches and fetch windows ---- */

enum { BLOCKS = 32 };

/* A ring of blocks, each `n` nops of `bytes` bytes that start at `offset` in a 128-byte line, and a jump to the next.
 */
static double ring(struct calib *k, unsigned n, unsigned bytes, unsigned offset)
{
    struct lab_code *c = xmalloc(sizeof *c);
    size_t jump = 0;
    for (int b = 0; b < BLOCKS; b++) {
        lab_align(c, 128, offset);
        if (b)
            c->bytes[jump - 1] = (uint8_t)(c->len - jump);
        for (unsigned i = 0; i < n; i++)
            lab_put_nops(c, bytes);
        LAB_PUT(c, 0xeb, 0); /* jmp to the next block */
        jump = c->len;
    }
    double cycles = run(k, c);
    return cycles < 0 ? -1 : cycles / BLOCKS;
}

static void find_taken_interval(struct calib *k)
{
    double t = ring(k, 1, 4, 0);
    k->m->taken_interval = t > 0 ? round(t * 10) / 10 : 1;
    if (fabs(t - round(t)) < 0.15 && round(t) >= 1)
        k->m->taken_interval = round(t);
}

/* The smallest power of two such that a block lying across a multiple of it takes a cycle more than one beside it. */
static void find_window(struct calib *k)
{
    unsigned nops = (unsigned)fmax(2, 2 * floor(k->m->taken_interval * k->width / 2));
    nops = nops > 6 ? 6 : nops;
    for (unsigned window = 16; window <= 64; window *= 2) {
        unsigned half = nops / 2 * 2;
        double beside = ring(k, nops, 2, 64), across = ring(k, nops, 2, 64 + window - half);
        if (beside > 0 && across > beside + 0.4) {
            k->m->fetch_window = window;
            return;
        }
    }
    k->m->fetch_window = 0;
}

/* How many instructions of one window come at once: more of them than the width accounts for a jump in the time. */
static void find_fetch_ops(struct calib *k)
{
    double before = ring(k, 2, 2, 0);
    k->m->fetch_ops = 0;
    k->m->fetch_extra = 1;
    unsigned most = k->m->fetch_window >= 64 ? 28 : 13;
    for (unsigned n = 4; n <= most; n++) {
        double t = ring(k, n, 2, 0), allowed = fmax(before, (n + 1) / k->width);
        if (t < allowed + 0.3)
            continue;
        k->m->fetch_ops = n; /* with the jump n + 1 do not come at once */
        k->m->fetch_extra = fmin(fmax(1, round(t - before)), 4);
        return;
    }
}

/* Branches that touch a multiple of 32: some cores keep such lines out of the operation cache. */
static void put_pair_at(struct lab_code *c, size_t block, size_t offset)
{
    while (c->len - block + 8 <= offset)
        lab_put_nops(c, 8);
    lab_put_nops(c, offset - (c->len - block));
    LAB_PUT(c, 0x4d, 0x85, 0xe4, 0x74, 0x00); /* test r12,r12; jz next */
}

static double branches_at(struct calib *k, unsigned offset)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (int b = 0; b < BLOCKS; b++) {
        lab_align(c, 128, 0);
        put_pair_at(c, c->len, offset);
    }
    lab_align(c, 128, 0);
    double cycles = run(k, c);
    return cycles < 0 ? -1 : cycles / BLOCKS;
}

/* Behind such a branch twelve pieces of 16 bytes with n nops each. */
static double slow_pieces(struct calib *k, unsigned n)
{
    enum { PIECES = 12, TIMES = 4 };
    struct lab_code *c = xmalloc(sizeof *c);
    for (int t = 0; t < TIMES; t++) {
        lab_align(c, 256, 0);
        put_pair_at(c, c->len, 28);
        lab_align(c, 16, 0);
        for (int p = 0; p < PIECES; p++)
            for (unsigned i = n, left = 16; i > 0; left -= left / i, i--)
                lab_put_nops(c, left / i);
    }
    double cycles = run(k, c);
    return cycles < 0 ? -1 : cycles / TIMES / PIECES;
}

static void find_slow_ops(struct calib *k)
{
    double four = slow_pieces(k, 4);
    k->m->slow_ops = 0;
    for (unsigned n = 5; n <= 8; n++) {
        double more = slow_pieces(k, n) - four;
        if (more < fmax(0, n / k->width - 1) + 0.3)
            continue;
        k->m->slow_ops = n - 1;
        return;
    }
}

/* A ring of blocks: `fast` lines of 32 bytes, then one with such a branch, then the jump to the next block. */
static double slow_ring(struct calib *k, unsigned fast)
{
    struct lab_code *c = xmalloc(sizeof *c);
    size_t jump = 0;
    for (int b = 0; b < BLOCKS; b++) {
        lab_align(c, 256, 0);
        uint32_t reach = (uint32_t)(c->len - jump);
        if (b)
            memcpy(c->bytes + jump - 4, &reach, 4);
        put_pair_at(c, c->len, fast * 32 + 28);
        LAB_PUT(c, 0xe9); /* jmp to the next block */
        lab_put_le32(c, 0);
        jump = c->len;
    }
    double cycles = run(k, c);
    return cycles < 0 ? -1 : cycles / BLOCKS;
}

static void find_crossing(struct calib *k)
{
    struct machine *m = k->m;
    double inside = branches_at(k, 24), across = branches_at(k, 28), line = branches_at(k, 60);
    m->cross_boundary = 0;
    if (inside <= 0)
        return;
    bool half = across > inside + 0.5;
    if (!half && line < inside + 0.5)
        return;
    m->cross_boundary = half ? 32 : 64;
    m->slow_bytes = fmax(4, round(128 / (half ? across : line)));
    find_slow_ops(k);
    m->slow_switch = whole(slow_ring(k, 2) - slow_ring(k, 0) - 8 / fmin(k->width, 6));
}

/* ---- calls, indirect jumps ---- */

static double calls(struct calib *k)
{
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0xeb, 0x01, 0xc3); /* jmp over; f: ret */
    for (int i = 0; i < BLOCKS; i++) {
        lab_put_nops(c, 4);
        LAB_PUT(c, 0xe8);
        lab_put_le32(c, (uint32_t)(2 - (c->len + 4)));
    }
    double cycles = run(k, c);
    return cycles < 0 ? -1 : cycles / BLOCKS;
}

/* Each jump's target comes at the end of a chain of `chain` multiplications that starts anew in each block. */
static double indirect_jumps(struct calib *k, unsigned chain)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (int i = 0; i < BLOCKS; i++) {
        lab_align(c, 64, 0);
        size_t block = c->len;
        LAB_PUT(c, 0x31, 0xc0); /* xor eax,eax */
        for (unsigned n = 0; n < chain; n++)
            LAB_PUT(c, 0x48, 0x0f, 0xaf, 0xc0); /* imul rax,rax */
        LAB_PUT(c, 0x48, 0x8d, 0x0d);           /* lea rcx,[rip to the next block] */
        lab_put_le32(c, (uint32_t)(64 - (c->len + 4 - block)));
        LAB_PUT(c, 0x48, 0x01, 0xc8, 0xff, 0xe0); /* add rax,rcx; jmp rax */
    }
    lab_align(c, 64, 0);
    double cycles = run(k, c);
    return cycles < 0 ? -1 : cycles / BLOCKS;
}

static double tidy_half(double v) { return round(v * 2) / 2; }

/* Where prediction of targets is shut off, the chain before the jump shows in full. */
static void find_indirect(struct calib *k)
{
    struct machine *m = k->m;
    enum { CHAIN = 8 };
    double jump = indirect_jumps(k, 1), late = indirect_jumps(k, 1 + CHAIN);
    const struct timed_form *mul = timing_of(k, "imul r64,r64");
    double latency = mul ? mul->latency : 3;
    m->indirect_waits = jump > 0 && late - jump > 0.7 * CHAIN * latency;
    double before = m->indirect_waits != 0 ? latency + 2 + m->start_delay : 0; /* imul, add, jmp */
    m->indirect_interval = fmax(m->taken_interval, jump > 0 ? tidy_half(jump - before) : 2);
}

static void find_calls(struct calib *k)
{
    double pair = calls(k);
    k->m->call_interval = k->m->ret_interval = fmax(k->m->taken_interval, pair > 0 ? tidy_half(pair / 2) : 2);
}

/* ---- misprediction ---- */

/* x = x * a + c; if (bit of x) skip. x lives in memory, so that no two samples repeat the same guesses. */
static double guesses(struct calib *k, bool random)
{
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x49, 0x8b, 0x46, 0x40);                   /* mov rax,[r14+64] */
    LAB_PUT(c, 0x48, 0x69, 0xc0, 0x6d, 0x4e, 0xc6, 0x41); /* imul rax,rax,0x41c64e6d */
    LAB_PUT(c, 0x48, 0x05, 0x39, 0x30, 0x00, 0x00);       /* add rax,0x3039 */
    LAB_PUT(c, 0x49, 0x89, 0x46, 0x40);                   /* mov [r14+64],rax */
    LAB_PUT(c, 0x48, 0x0f, 0xba, 0xe0, 40);               /* bt rax,40 */
    if (!random)
        LAB_PUT(c, 0xf8);   /* clc: the same work, never taken */
    LAB_PUT(c, 0x72, 0x03); /* jc over */
    lab_put_nops(c, 3);
    double cycles = run(k, c);
    return cycles;
}

static void find_mispredict(struct calib *k)
{
    memset((char *)lab_data(k->lab) + 64, 0x5a, 8);
    double random = guesses(k, true), steady = guesses(k, false);
    if (random < 0 || steady < 0 || random < steady + 2)
        return;
    double whole = 2 * (random - steady);                             /* every second guess is wrong */
    k->m->mispredict = fmax(4, round(whole - 2 - k->m->start_delay)); /* bt and the jump run first */
    memset((char *)lab_data(k->lab) + 64, 0, 8);
}

/* ---- classes of branches ---- */

static void add_branch_classes(struct calib *k)
{
    const struct machine_class *jcc = machine_class_named(k->m, "branch");
    uint32_t ports = jcc && jcc->use_count ? jcc->uses[0].ports : 1;
    static const struct {
        const char *name;
        double slots;
    } kinds[] = {{"jump", 1}, {"jump-indirect", 1}, {"call", 2}, {"ret", 2}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct machine_class c = {
            .latency = 1, .latency_high = 1, .slots = kinds[i].slots, .use_count = 1, .uses = {{ports, 1}}};
        snprintf(c.name, sizeof c.name, "%s", kinds[i].name);
        machine_add_class(k->m, &c);
    }
}

void calib_frontend(struct calib *k)
{
    find_fusion(k);
    find_taken_interval(k);
    find_window(k);
    find_fetch_ops(k);
    find_crossing(k);
    find_calls(k);
    find_indirect(k);
    find_mispredict(k);
    add_branch_classes(k);
}
