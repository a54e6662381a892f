/* SPDX-License-Identifier: Apache-2.0
 *
 * The front end, timed: slots a cycle, what fuses, fetch blocks, the pace of taken branches, calls and returns, and
 * what a misprediction costs. Blocks of code are laid out byte by byte, because their addresses are what is tested. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

/* ---- pieces of code ---- */

static double run(struct calib *k, struct lab_code *c, double parts) { return calib_run(k, c, parts, LAB_FILL_NONE); }

enum { SLOT_ROUNDS = 24 };

/* Slots of a round that are no fillers'. in_turn: the last byte is the displacement of a place, another one each round.
 */
static double slots_beside(struct calib *k, const uint8_t *bytes, size_t len, bool in_turn)
{
    enum { PLACES = 7 }; /* within a line, with an index too */
    struct lab_code *c = xmalloc(sizeof *c);
    k->fillers = 0;
    for (unsigned r = 0; r < SLOT_ROUNDS; r++) {
        lab_put(c, bytes, len);
        if (in_turn && len)
            c->bytes[c->len - 1] = (uint8_t)(r % PLACES * 8);
        for (unsigned i = 0; i < (unsigned)(5 * k->width); i++)
            filler_put(k, c, k->length);
        filler_align(k, c, 64);
    }
    double cycles = run(k, c, 1);
    return cycles < 0 ? NAN : (cycles * k->width - k->fillers) / SLOT_ROUNDS;
}

/* The middle one of three figures is not one that a neighbour made: one slot is two percent of what is timed. */
static double middle(double a, double b, double c) { return fmax(fmin(a, b), fmin(fmax(a, b), c)); }

/* Slots of a sequence: what fillers do not explain of its time among so many of them that nothing but the width binds,
 * beside what is left without it. It begins a line, so that no pair lies over an end of one. Assumes that fillers go
 * at the full width, which calib_width has found of them. A figure that cannot be is taken again. NAN: no figure. */
static double slots_once(struct calib *k, const char *name, const uint8_t *bytes, size_t len, unsigned instructions,
                         bool in_turn)
{
    double slots = NAN;
    for (int again = 0; again < 3; again++) {
        lab_name(k->lab, "no slots");
        k->unsure = false;
        double rest = slots_beside(k, bytes, 0, false);
        lab_name(k->lab, "slots of %s", name);
        slots = slots_beside(k, bytes, len, in_turn) - rest;
        if (!k->unsure && slots > 0.5 && slots < 4.0 * instructions + 1)
            break;
    }
    return slots;
}

static double slots_of(struct calib *k, const char *name, const uint8_t *bytes, size_t len, unsigned instructions,
                       bool in_turn)
{
    double first = slots_once(k, name, bytes, len, instructions, in_turn),
           second = slots_once(k, name, bytes, len, instructions, in_turn);
    if (fabs(first - second) < 0.25)
        return first;
    return middle(first, second, slots_once(k, name, bytes, len, instructions, in_turn));
}
#define SLOTS(k, name, instructions, ...)                                                                              \
    slots_of((k), (name), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), (instructions), false)
#define SLOTS_IN_TURN(k, name, ...)                                                                                    \
    slots_of((k), (name), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), 1, true)

/* ---- fusion ---- */

static double whole(double slots) { return slots > 0.5 ? round(slots) : 0; }

/* Does a pair fuse when the comparison ends a line and the jump starts the next? Beside one within the line, among the
 * same fillers. Assumes lines of 64 bytes and that fetching the next one costs nothing by itself. The pair within the
 * line guards the fillers; nothing guards the second: a core that loses half a cycle at each end of a line is said not
 * to fuse there. */
static bool fuses_across(struct calib *k)
{
    enum { ROUNDS = 16 };
    double cycles[2];
    for (unsigned inside = 0; inside < 2; inside++) {
        struct lab_code *c = xmalloc(sizeof *c);
        for (unsigned r = 0; r < ROUNDS; r++) {
            for (unsigned i = 0; i < 15 - inside; i++)
                filler_put(k, c, 4);
            lab_put_nops(c, 1);
            LAB_PUT(c, 0x4d, 0x85, 0xe4, 0x74, 0x00); /* test at 61 to 63; or 57 to 59 */
            if (inside)
                filler_put(k, c, 4);
            lab_put_nops(c, (128 - c->len % 128) % 128);
        }
        lab_name(k->lab, "test, jz %s a line", inside ? "in" : "over the end of");
        cycles[inside] = run(k, c, ROUNDS) * k->width;
    }
    return cycles[0] < cycles[1] + 0.5;
}

/* Assumes that no jump is ever taken and that jumps are issued as often as these rounds want them, one in five cycles:
 * slots_of takes again what cannot be a number of slots. */
static void find_pairs(struct calib *k)
{
    struct machine *m = k->m;
    m->fuse_test = SLOTS(k, "test, jz", 2, 0x4d, 0x85, 0xe4, 0x74, 0x00) < 1.5; /* test r12,r12; jz next: never taken */
    m->fuse_cmp = SLOTS(k, "cmp, jb", 2, 0x4d, 0x39, 0xec, 0x72, 0x00) < 1.5;   /* cmp r12,r13 */
    m->fuse_alu = SLOTS(k, "add, jz", 2, 0x48, 0x01, 0xc0, 0x74, 0x00) < 1.5;   /* add rax,rax */
    m->fuse_inc = SLOTS(k, "inc, jz", 2, 0x48, 0xff, 0xc0, 0x74, 0x00) < 1.5;   /* inc rax */
    m->fuse_across = fuses_across(k);
}

/* What operands in memory cost, with an index in their address and without, for general and for vector registers:
 * whether a core splits them again depends on the registers on some, on whether the result is a new one on others.
 * Assumes that the loads and stores, one in five cycles to one place, never wait, and that slots are whole: each figure
 * is beside that of the same operation without an index, and slots_of takes again what cannot be. What loads what it
 * stored goes to seven places in turn: to one it would wait for its own store, on most cores longer than a round. */
static void find_memory_slots(struct calib *k)
{
    struct machine *m = k->m;
    double load = SLOTS(k, "add r,[r]", 1, 0x49, 0x03, 0x06); /* add rax,[r14] */
    double rmw = SLOTS_IN_TURN(k, "add [r],r", 0x49, 0x01, 0x46, 0);
    m->fuse_load = !(load > 1.5);
    m->fuse_store = !(rmw > 1.5);
    double store = SLOTS(k, "mov [r],r", 1, 0x49, 0x89, 0x06);
    m->indexed_load = whole(SLOTS(k, "add r,[r+i]", 1, 0x4b, 0x03, 0x04, 0x26) - load); /* [r14+r12] */
    m->indexed_new = whole(SLOTS(k, "imul r,[r+i],3", 1, 0x4b, 0x6b, 0x04, 0x26, 0x03) -
                           SLOTS(k, "imul r,[r],3", 1, 0x49, 0x6b, 0x06, 0x03));
    m->indexed_rmw = whole(SLOTS_IN_TURN(k, "add [r+i],r", 0x4b, 0x01, 0x44, 0x26, 0) - rmw);
    m->indexed_store = whole(SLOTS(k, "mov [r+i],r", 1, 0x4b, 0x89, 0x04, 0x26) - store);
    double paddd = SLOTS(k, "paddd x,[r]", 1, 0x66, 0x41, 0x0f, 0xfe, 0x06), /* xmm0 */
        movups = SLOTS(k, "movups [r],x", 1, 0x41, 0x0f, 0x11, 0x06);
    m->indexed_load_vec = whole(SLOTS(k, "paddd x,[r+i]", 1, 0x66, 0x43, 0x0f, 0xfe, 0x04, 0x26) - paddd);
    m->indexed_store_vec = whole(SLOTS(k, "movups [r+i],x", 1, 0x43, 0x0f, 0x11, 0x04, 0x26) - movups);
    m->indexed_new_vec = whole(SLOTS(k, "pshufd x,[r+i],0", 1, 0x66, 0x43, 0x0f, 0x70, 0x04, 0x26, 0x00) -
                               SLOTS(k, "pshufd x,[r],0", 1, 0x66, 0x41, 0x0f, 0x70, 0x06, 0x00));
    if (!lab_has_vectors(k->lab, 256))
        return;
    double vex = SLOTS(k, "vaddps x,x,[r]", 1, 0xc4, 0xc1, 0x70, 0x58, 0x06); /* xmm0,xmm1 */
    m->indexed_new_vec = whole(SLOTS(k, "vaddps x,x,[r+i]", 1, 0xc4, 0x81, 0x70, 0x58, 0x04, 0x26) - vex);
}

/* ---- taken branches and fetch blocks ---- */

enum { BLOCKS = 32 };

/* A ring of blocks, each `n` fillers of `bytes` bytes that start at `offset` in a 128-byte line, and a jump to the
 * next.
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
            filler_put(k, c, bytes);
        LAB_PUT(c, 0xeb, 0); /* jmp to the next block */
        jump = c->len;
    }
    lab_name(k->lab, "ring of %u x %u bytes at %u", n, bytes, offset);
    return run(k, c, BLOCKS);
}

/* Assumes that all blocks of a ring are in the operation cache and the branch predictor: 32 of them, walked again and
 * again. A figure near a whole number is that number. */
static void find_taken_interval(struct calib *k)
{
    double t = ring(k, 1, 4, 0);
    k->m->taken_interval = t > 0 ? round(t * 10) / 10 : 1;
    if (fabs(t - round(t)) < 0.15 && round(t) >= 1)
        k->m->taken_interval = round(t);
}

/* Fillers of a block such that neither the width nor what comes of one fetch block at once (find_fetch_ops) holds it
 * up. */
static unsigned short_block(struct calib *k, double *cycles)
{
    unsigned n = (unsigned)fmax(2, 2 * floor(k->m->taken_interval * k->width / 2));
    for (n = n > 6 ? 6 : n;; n -= 2) {
        *cycles = ring(k, n, 2, 64);
        if (n <= 2 || *cycles < fmax(k->m->taken_interval, (n + 1) / k->width) + 0.3)
            return n;
    }
}

/* The smallest power of two such that a block lying across a multiple of it takes longer than one beside it: by a
 * cycle, or by a half where two fetch blocks come in one. Assumes that the fillers of such a block fit into the cycles
 * between taken branches, so that nothing but fetch is late: short_block asks for that. Where no fetch block shows,
 * none is said to limit; the self-test has the last word. */
static void find_fetch_block(struct calib *k)
{
    double beside;
    unsigned nops = short_block(k, &beside);
    k->m->fetch_block = 0;
    k->m->fetch_blocks = 1;
    for (unsigned fetch_block = 16; fetch_block <= 64 && beside > 0; fetch_block *= 2) {
        double longer = ring(k, nops, 2, 64 + fetch_block - nops) - beside;
        if (longer < 0.4)
            continue;
        k->m->fetch_block = fetch_block;
        k->m->fetch_blocks = longer < 0.7 ? 2 : 1;
        return;
    }
}

/* As few nops as possible, all of about one length: how many there are must not depend on where they end. */
static void put_long_nops(struct lab_code *c, size_t bytes)
{
    enum { LONGEST = 11 }; /* two prefixes and a nop of 9 */
    for (size_t n = (bytes + LONGEST - 1) / LONGEST; n > 0; n--) {
        size_t len = bytes / n, more = len > 9 ? len - 9 : 0;
        lab_put(c, "\x66\x66", more);
        lab_put_nops(c, len - more);
        bytes -= len;
    }
}

/* Straight code of the longest nops: so few stand in a fetch block that its bytes bind, not the width. Where the width
 * binds first, a second fetch block makes no difference either. */
static void find_fetch_blocks(struct calib *k)
{
    enum { NOPS = 192, BYTES = 11 };
    struct lab_code *c = xmalloc(sizeof *c);
    put_long_nops(c, NOPS * BYTES);
    lab_name(k->lab, "nops of %d bytes", BYTES);
    double cycles = run(k, c, 1);
    if (cycles > 0 && k->m->fetch_block > 0)
        k->m->fetch_blocks = fmax(k->m->fetch_blocks, ceil(NOPS * BYTES / cycles / k->m->fetch_block - 0.15));
}

/* How many instructions of one fetch block come at once: more of them than the width accounts for a jump in the time.
 * Assumes that the width is right, which calib_width has found several ways; a jump of less than 0.3 cycles is none. */
static void find_fetch_ops(struct calib *k)
{
    double before = ring(k, 2, 2, 0);
    k->m->fetch_ops = 0;
    k->m->fetch_extra = 1;
    unsigned max = k->m->fetch_block >= 64 ? 28 : 13;
    for (unsigned n = 4; n <= max; n++) {
        double t = ring(k, n, 2, 0), allowed = fmax(before, (n + 1) / k->width);
        if (t < allowed + 0.3)
            continue;
        k->m->fetch_ops = n; /* with the jump n + 1 do not come at once */
        k->m->fetch_extra = fmin(fmax(1, round(t - before)), 4);
        return;
    }
}

/* Of a block over the end of a fetch block, `first` fillers in it and two behind with the jump. */
static double over_the_end(struct calib *k, unsigned first)
{
    enum { BYTES = 4 };
    return ring(k, first + 1, BYTES, 64 + (unsigned)k->m->fetch_block - first * BYTES);
}

/* Fetch blocks that come two in a cycle as long as few instructions are in the first: more of them than fetch-share
 * make the same block half a cycle longer at once, and not for want of width. Where that never happens, two fetch
 * blocks come in one cycle or they do not, which find_fetch_block has found. */
static void find_share(struct calib *k)
{
    struct machine *m = k->m;
    double pair = m->fetch_block >= 64 ? over_the_end(k, 2) : 2, max = m->fetch_ops > 0 ? fmin(m->fetch_ops, 14) : 14;
    m->fetch_share = 0;
    m->fetch_pair = 1;
    for (unsigned n = 3; pair > 0 && pair < 1.6 && n < max; n++) {
        if (over_the_end(k, n) < fmax(pair, (n + 2) / k->width) + 0.4)
            continue;
        m->fetch_blocks = 1;
        m->fetch_share = n - 1;
        m->fetch_pair = fmax(1, round(pair * 100) / 100);
        return;
    }
}

/* Is what comes of one fetch block at once fewer where a branch leads to it? The fetch block in the middle of a block,
 * full of instructions, beside the one that a block begins with. Assumes that three fetch blocks take three cycles and
 * that a fetch block is full with 16 instructions; where the width binds first, nothing is found. */
static void find_fetch_first(struct calib *k)
{
    enum { BYTES = 4 };
    struct machine *m = k->m;
    unsigned full = (unsigned)m->fetch_block / BYTES, first = (unsigned)m->fetch_ops;
    m->fetch_first = 0;
    if (m->fetch_blocks > 1 || m->fetch_block < 64 || first >= full || m->fetch_extra <= 1)
        return;
    unsigned n = first + full; /* the jump begins the third */
    double more = ring(k, n, BYTES, 64 + (unsigned)m->fetch_block - first * BYTES) - 3;
    if (more < 0.5 || more + 3 < (n + 1) / k->width + 0.2 || round(more) >= m->fetch_extra)
        return;
    m->fetch_first = m->fetch_extra - round(more);
    m->fetch_extra = round(more);
}

/* Branches that touch a multiple of 32: some cores keep such lines out of the operation cache. */
static void put_pair_at(struct lab_code *c, size_t block, size_t offset)
{
    put_long_nops(c, offset - (c->len - block));
    LAB_PUT(c, 0x4d, 0x85, 0xe4, 0x74, 0x00); /* test r12,r12; jz next */
}

/* Assumes that long nops beside the pair cost the same wherever it stands; find_crossing asks both halves of a block
 * for that. */
static double branches_at(struct calib *k, unsigned offset)
{
    struct lab_code *c = xmalloc(sizeof *c);
    for (int b = 0; b < BLOCKS; b++) {
        put_pair_at(c, c->len, offset);
        put_long_nops(c, 128 - c->len % 128);
    }
    lab_name(k->lab, "pairs at %u of 128 bytes", offset);
    return run(k, c, BLOCKS);
}

/* Behind such a branch twelve pieces of 16 bytes with n fillers each. Assumes that all of them come slowly until the
 * next taken branch, and that the slow way fetches pieces of 16 bytes. It is only asked where find_crossing saw it in
 * both halves of a block, and n fillers are held against four; the size of a piece is guarded by nothing. */
static double slow_pieces(struct calib *k, unsigned n)
{
    enum { PIECES = 12, TIMES = 4 };
    struct lab_code *c = xmalloc(sizeof *c);
    for (int t = 0; t < TIMES; t++) {
        lab_align(c, 256, 0);
        put_pair_at(c, c->len, 28);
        lab_align(c, 16, 0);
        for (int p = 0; p < PIECES; p++)
            for (unsigned i = n, left = 16; i > 0; i--) {
                unsigned bytes = left / i;
                filler_put(k, c, bytes);
                left -= bytes;
            }
    }
    lab_name(k->lab, "pieces of %u behind a pair at 28", n);
    return run(k, c, TIMES * PIECES);
}

static void find_legacy_ops(struct calib *k)
{
    double four = slow_pieces(k, 4);
    k->m->legacy_ops = 0;
    for (unsigned n = 5; n <= 8; n++) {
        double more = slow_pieces(k, n) - four;
        if (more < fmax(0, n / k->width - 1) + 0.3)
            continue;
        k->m->legacy_ops = n - 1;
        return;
    }
}

/* A ring of blocks: `fast` lines of 32 bytes, then one with such a branch, then the jump to the next block. Assumes
 * that the lines before take what their bytes take at 32 a cycle; nothing guards that but the rounding. */
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
    lab_name(k->lab, "ring of %u lines before a slow one", fast);
    return run(k, c, BLOCKS);
}

static void find_crossing(struct calib *k)
{
    struct machine *m = k->m;
    double inside = branches_at(k, 24), across = branches_at(k, 28), line = branches_at(k, 60);
    m->cross_boundary = 0;
    if (inside <= 0)
        return;
    /* in both halves of a block, or it is something else that a place in it costs */
    bool half = across > inside + 0.5 && branches_at(k, 92) > branches_at(k, 88) + 0.5;
    if (!half && (line < inside + 0.5 || branches_at(k, 60) < branches_at(k, 52) + 0.5))
        return;
    m->cross_boundary = half ? 32 : 64;
    m->legacy_bytes = fmax(4, round(128 / (half ? across : line)));
    find_legacy_ops(k);
    m->legacy_switch = whole(slow_ring(k, 2) - slow_ring(k, 0) - 8 / fmin(k->width, 6));
}

/* ---- calls, indirect jumps ---- */

/* Assumes that calls and returns take alike, and that the return predictor holds one address. Nothing guards the first:
 * only their sum is ever seen, here and in most code. */
static double calls(struct calib *k)
{
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0xeb, 0x01, 0xc3); /* jmp over; f: ret */
    for (int i = 0; i < BLOCKS; i++) {
        lab_put_nops(c, 4);
        LAB_PUT(c, 0xe8);
        lab_put_le32(c, (uint32_t)(2 - (c->len + 4)));
    }
    lab_name(k->lab, "call, ret");
    return run(k, c, BLOCKS);
}

/* Each jump's target comes at the end of a chain of `chain` multiplications that starts anew in each block. Assumes
 * that a jump with one target is predicted after some iterations; find_indirect's longer chain guards it: it shows only
 * where nothing is predicted. */
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
        LAB_PUT(c, 0x48, 0x01, 0xc8); /* add rax,rcx */
        lab_note(c, LAB_GOES_TO, (uint32_t)block + 64);
        LAB_PUT(c, 0xff, 0xe0); /* jmp rax */
    }
    lab_align(c, 64, 0);
    lab_name(k->lab, "indirect jumps behind %u multiplications", chain);
    return run(k, c, BLOCKS);
}

/* One jump that goes to so many targets in turn: each block says where to, and jumps to it. Assumes that a predictor
 * with a history knows them all: 16 are no more than any has room for, and the difference to two is what counts. That
 * it grows with the logarithm is guarded by nothing. */
static double one_jump(struct calib *k, unsigned targets)
{
    enum { ROUNDS = 4, BLOCK = 64 };
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0xeb, 0); /* over the jump, to the first block */
    size_t at = c->len;
    for (unsigned i = 1; i < targets; i++) /* in the order of visits */
        lab_note(c, LAB_GOES_TO, (i + 1) * BLOCK);
    lab_note(c, LAB_GOES_TO, (targets + 1) * BLOCK);
    LAB_PUT(c, 0xff, 0xe1); /* jmp rcx */
    c->bytes[at - 1] = (uint8_t)(BLOCK - at);
    for (unsigned i = 0; i < targets; i++) {
        lab_align(c, BLOCK, 0);
        LAB_PUT(c, 0x48, 0x8d, 0x0d, BLOCK - 7, 0, 0, 0); /* lea rcx,[the next block] */
        LAB_PUT(c, 0xe9);
        lab_put_le32(c, (uint32_t)(at - (c->len + 4)));
    }
    lab_align(c, BLOCK, 0);
    lab_name(k->lab, "one indirect jump to %u targets", targets);
    return run(k, c, targets);
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
    double few = one_jump(k, 2), many = one_jump(k, 16);
    m->indirect_more = few > 0 && many > few + 0.6 ? tidy_half((many - few) / 3) : 0;
    m->indirect_interval = fmax(m->taken_interval, jump > 0 ? tidy_half(jump - before) : 2);
}

static void find_calls(struct calib *k)
{
    double pair = calls(k);
    k->m->call_interval = k->m->ret_interval = fmax(k->m->taken_interval, pair > 0 ? tidy_half(pair / 2) : 2);
}

/* ---- misprediction ---- */

/* Assumes that nothing predicts bit 40 of x, so that every second guess is wrong; beside the same work with a branch
 * that is never taken. A difference under two cycles is no misprediction (find_mispredict). x = x * a + c; if (bit of
 * x) skip. x lives in memory, so that no two samples repeat the same guesses. */
static double guesses(struct calib *k, bool random)
{
    struct lab_code *c = xmalloc(sizeof *c);
    LAB_PUT(c, 0x49, 0x8b, 0x46, 0x40);                   /* mov rax,[r14+64] */
    LAB_PUT(c, 0x48, 0x69, 0xc0, 0x6d, 0x4e, 0xc6, 0x41); /* imul rax,rax,0x41c64e6d */
    LAB_PUT(c, 0x48, 0x05, 0x39, 0x30, 0x00, 0x00);       /* add rax,0x3039 */
    LAB_PUT(c, 0x49, 0x89, 0x46, 0x40);                   /* mov [r14+64],rax */
    LAB_PUT(c, 0x48, 0x0f, 0xba, 0xe0, 40);               /* bt rax,40 */
    if (!random)
        LAB_PUT(c, 0xf8); /* clc: the same work, never taken */
    else
        lab_note(c, LAB_RANDOM, 0);
    LAB_PUT(c, 0x72, 0x03); /* jc over */
    lab_put_nops(c, 3);
    lab_name(k->lab, "%s branches", random ? "random" : "steady");
    return run(k, c, 1);
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
    find_pairs(k);
    find_memory_slots(k);
    find_taken_interval(k);
    find_fetch_block(k);
    find_fetch_blocks(k);
    find_fetch_ops(k);
    find_share(k);
    find_fetch_first(k);
    find_crossing(k);
    find_calls(k);
    find_indirect(k);
    find_mispredict(k);
    add_branch_classes(k);
}
