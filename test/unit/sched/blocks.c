/* SPDX-License-Identifier: Apache-2.0
 * Blocks at random, written byte by byte, and executed natively between code that loads and stores all registers. */
#include "blocks.h"

#include <assert.h>
#include <sys/mman.h>

#include "x86/x86.h"

/* ---- drawing ---- */

enum shape { RR, LOAD, STORE, ONE, ONE_IMM, ONE_MEM, XX, X_LOAD, X_STORE, X_FROM_GPR, GPR_FROM_X, LEA, BASE_STEP };
struct kind {
    uint8_t prefix, map, opcode, digit, wide; /* map 0x0f or 0; wide: 0 never, 1 always, 2 at random */
    enum shape shape;
};
static const struct kind kinds[] = {
    {0, 0, 0x03, 0, 2, RR},
    {0, 0, 0x2b, 0, 2, RR},
    {0, 0, 0x23, 0, 2, RR},
    {0, 0, 0x33, 0, 2, RR},
    {0, 0, 0x3b, 0, 2, RR},
    {0, 0, 0x13, 0, 2, RR},
    {0, 0, 0x1b, 0, 2, RR},
    {0, 0, 0x8b, 0, 2, RR},
    {0, 0, 0x85, 0, 2, RR},
    {0, 0, 0x87, 0, 2, RR},
    {0, 0, 0x02, 0, 0, RR},
    {0, 0, 0x8a, 0, 0, RR},
    {0x66, 0, 0x8b, 0, 0, RR},
    {0x66, 0, 0x03, 0, 0, RR},
    {0, 0x0f, 0xaf, 0, 2, RR},
    {0, 0x0f, 0x42, 0, 2, RR},
    {0, 0x0f, 0x4c, 0, 2, RR},
    {0, 0x0f, 0x47, 0, 2, RR},
    {0, 0x0f, 0xb6, 0, 0, RR},
    {0, 0x0f, 0xbe, 0, 1, RR},
    {0, 0x0f, 0xa3, 0, 2, RR},
    {0, 0x0f, 0xbc, 0, 2, RR},
    {0, 0, 0x03, 0, 2, LOAD},
    {0, 0, 0x3b, 0, 2, LOAD},
    {0, 0, 0x8b, 0, 2, LOAD},
    {0, 0, 0x8b, 0, 1, LOAD},
    {0, 0, 0x8a, 0, 0, LOAD},
    {0x66, 0, 0x8b, 0, 0, LOAD},
    {0, 0x0f, 0xb7, 0, 2, LOAD},
    {0, 0, 0x89, 0, 2, STORE},
    {0, 0, 0x89, 0, 1, STORE},
    {0, 0, 0x88, 0, 0, STORE},
    {0x66, 0, 0x89, 0, 0, STORE},
    {0, 0, 0x01, 0, 2, STORE},
    {0, 0, 0xd3, 4, 2, ONE},
    {0, 0, 0xd3, 5, 2, ONE},
    {0, 0, 0xd3, 0, 2, ONE},
    {0, 0, 0xc1, 4, 2, ONE_IMM},
    {0, 0, 0xc1, 7, 2, ONE_IMM},
    {0, 0, 0xc1, 0, 2, ONE_IMM},
    {0, 0, 0xf7, 2, 2, ONE},
    {0, 0, 0xf7, 3, 2, ONE},
    {0, 0, 0xff, 0, 2, ONE},
    {0, 0, 0xff, 1, 2, ONE},
    {0, 0, 0xf7, 4, 2, ONE},
    {0, 0, 0xff, 0, 2, ONE_MEM},
    {0, 0x0f, 0x92, 0, 0, ONE},
    {0, 0x0f, 0x9f, 0, 0, ONE},
    {0, 0, 0x83, 0, 2, ONE_IMM},
    {0, 0, 0x83, 7, 2, ONE_IMM},
    {0, 0, 0x83, 2, 2, ONE_IMM},
    {0xf2, 0x0f, 0x58, 0, 0, XX},
    {0xf3, 0x0f, 0x59, 0, 0, XX},
    {0x66, 0x0f, 0xef, 0, 0, XX},
    {0x66, 0x0f, 0xfe, 0, 0, XX},
    {0xf3, 0x0f, 0x10, 0, 0, XX},
    {0x66, 0x0f, 0x2e, 0, 0, XX},
    {0xf2, 0x0f, 0x51, 0, 0, XX},
    {0xf2, 0x0f, 0x10, 0, 0, X_LOAD},
    {0, 0x0f, 0x10, 0, 0, X_LOAD},
    {0, 0x0f, 0x11, 0, 0, X_STORE},
    {0xf3, 0x0f, 0x11, 0, 0, X_STORE},
    {0x66, 0x0f, 0x6e, 0, 1, X_FROM_GPR},
    {0xf2, 0x0f, 0x2a, 0, 2, X_FROM_GPR},
    {0x66, 0x0f, 0x7e, 0, 1, GPR_FROM_X},
    {0xf2, 0x0f, 0x2c, 0, 2, GPR_FROM_X},
    {0, 0, 0x8d, 0, 1, LEA},
    {0, 0, 0x83, 0, 1, BASE_STEP},
};

static const uint8_t values[] = {X86_RAX, X86_RCX, X86_RDX, X86_RDI, X86_R8, X86_R9};
static const uint8_t bases[] = {X86_RBX, X86_RSI, X86_RSP};

static uint8_t value(struct rng *g) { return values[rng_below(g, ARRAY_LEN(values))]; }

/* Of a memory operand: rm, what comes behind it, and the length of that. */
static unsigned put_memory(struct rng *g, uint8_t *to, uint8_t *rm)
{
    uint8_t base = bases[rng_below(g, ARRAY_LEN(bases))], disp = (uint8_t)(8 * rng_below(g, 6));
    disp = (uint8_t)(disp + (rng_below(g, 4) == 0 ? rng_below(g, 8) : 0));
    unsigned n = 0;
    *rm = base;
    if (base == X86_RSP)
        to[n++] = 0x24;
    to[n++] = disp;
    return n;
}

static uint8_t draw_insn(struct rng *g, uint8_t *to)
{
    const struct kind *k = &kinds[rng_below(g, ARRAY_LEN(kinds))];
    bool is_wide = k->wide == 1 || (k->wide == 2 && rng_below(g, 2));
    bool has_memory = k->shape == LOAD || k->shape == STORE || k->shape == ONE_MEM || k->shape == X_LOAD ||
                      k->shape == X_STORE || k->shape == LEA;
    uint8_t tail[3] = {0}, reg = value(g), rm = value(g), n = 0;
    unsigned tail_len = has_memory ? put_memory(g, tail, &rm) : 0;
    if (k->shape == ONE || k->shape == ONE_IMM || k->shape == ONE_MEM || k->shape == BASE_STEP)
        reg = k->digit;
    if (k->shape == ONE_IMM)
        tail[tail_len++] = (uint8_t)rng_below(g, 40);
    if (k->shape == BASE_STEP) {
        rm = bases[rng_below(g, 2)];
        tail[tail_len++] = 8;
    }
    if (k->shape == XX || k->shape == X_LOAD || k->shape == X_STORE || k->shape == X_FROM_GPR || k->shape == GPR_FROM_X)
        reg = (uint8_t)rng_below(g, 4);
    if (k->shape == XX)
        rm = (uint8_t)rng_below(g, 4);
    if (k->prefix)
        to[n++] = k->prefix;
    uint8_t rex = (uint8_t)((is_wide ? 8 : 0) | (reg >> 3) << 2 | rm >> 3);
    if (k->shape == GPR_FROM_X && k->opcode == 0x2c) { /* the general register is in reg there */
        uint8_t x = reg;
        reg = rm, rm = x;
        rex = (uint8_t)((is_wide ? 8 : 0) | (reg >> 3) << 2 | rm >> 3);
    }
    if (rex || rng_below(g, 4) == 0) /* without, some name ah, ch, dh, bh */
        to[n++] = 0x40 | rex;
    if (k->map)
        to[n++] = k->map;
    to[n++] = k->opcode;
    to[n++] = (uint8_t)((has_memory ? 0x40 : 0xc0) | (reg & 7) << 3 | (rm & 7));
    memcpy(to + n, tail, tail_len);
    return (uint8_t)(n + tail_len);
}

/* Does it leave the registers alone that addresses are made of, and the stack pointer? */
static bool is_harmless(const uint8_t *bytes, uint8_t len)
{
    struct x86_detail d;
    if (x86_decode_detail(bytes, len, 0, &d) != len || d.order.is_fixed)
        return false;
    bool steps = bytes[len - 2] >> 6 == 3 && d.insn.op == X86_OP_ADD && d.insn.imm_len == 1;
    uint64_t held = 1ull << X86_RSP | 1ull << X86_RBP | (steps ? 0 : 1ull << X86_RBX | 1ull << X86_RSI);
    return !(d.order.writes & held) && !(steps && (d.order.writes & (1ull << X86_RBX | 1ull << X86_RSI)) && d.imm > 8);
}

void draw_block(struct rng *g, uint32_t count, struct drawn *out)
{
    memset(out, 0, sizeof *out);
    out->b = (struct sched_block){.insns = out->insns,
                                  .count = count,
                                  .flags_live = rng_below(g, 2) ? 0 : (uint8_t)rng_below(g, 64),
                                  .stack_is_private = rng_below(g, 2) != 0,
                                  .is_seen = rng_below(g, 3) == 0,
                                  .repeats = rng_below(g, 3) == 0};
    uint64_t addr = 0x1000;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t len;
        do
            len = draw_insn(g, out->bytes[i]);
        while (!is_harmless(out->bytes[i], len));
        out->insns[i] = (struct sched_insn){.bytes = out->bytes[i], .len = len, .addr = addr};
        addr += len;
    }
}

void draw_state(struct rng *g, struct state *out)
{
    uint8_t *p = (uint8_t *)out;
    for (size_t i = 0; i < sizeof *out; i++)
        p[i] = (uint8_t)rng_next(g);
    for (unsigned x = 0; x < 16; x++) /* numbers, not only NaN */
        for (unsigned half = 0; half < 2; half++) {
            double v = (double)rng_below(g, 1000) / 7;
            memcpy(&out->xmm[x][8 * half], &v, 8);
        }
    for (unsigned r = 0; r < 16; r++)
        out->gpr[r] = rng_below(g, 2) ? out->gpr[r] & 0xff : out->gpr[r];
    out->flags = (rng_next(g) & 0x8d5) | 2; /* the arithmetic ones alone */
    out->gpr[X86_RBX] = 8 * rng_below(g, 4);
    out->gpr[X86_RSI] = 8 * rng_below(g, 4);
}

/* ---- executing ---- */

struct page { /* readable, writable, executable; at one address, so that a failure comes again */
    uint8_t code[4096 - 16];
    uint64_t state, rdi;
    struct state work;
};

static struct page *page(void)
{
    static struct page *p;
    if (!p)
        p = mmap((void *)(uintptr_t)0x20000000, sizeof *p, PROT_READ | PROT_WRITE | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert(p != MAP_FAILED);
    return p;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t n) { return (uint8_t *)memcpy(to, bytes, n) + n; }
#define PUT(to, ...) put((to), (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]){__VA_ARGS__})

static uint8_t *put_disp32(uint8_t *to, int32_t disp) { return put(to, &disp, 4); }

/* mov between a general register and [rdi + 8 * number]. */
static uint8_t *put_gpr(uint8_t *to, unsigned r, bool is_load)
{
    to = PUT(to, (uint8_t)(0x48 | (r >> 3) << 2), is_load ? 0x8b : 0x89, (uint8_t)(0x87 | (r & 7) << 3));
    return put_disp32(to, (int32_t)(8 * r));
}

static uint8_t *put_xmm(uint8_t *to, unsigned x, bool is_load) /* movups */
{
    if (x >= 8)
        to = PUT(to, 0x44);
    to = PUT(to, 0x0f, is_load ? 0x10 : 0x11, (uint8_t)(0x87 | (x & 7) << 3));
    return put_disp32(to, (int32_t)(offsetof(struct state, xmm) + 16 * x));
}

static uint8_t *put_rip(uint8_t *to, uint8_t opcode, const void *target)
{
    to = PUT(to, 0x48, opcode, 0x3d); /* rdi */
    return put_disp32(to, (int32_t)((const uint8_t *)target - (to + 4)));
}

void execute(const struct drawn *d, const uint8_t *at, struct state *s)
{
    struct page *p = page();
    uint8_t *to = p->code;
    uint64_t memory = (uint64_t)(uintptr_t)p->work.memory;
    p->work = *s; /* the stack that the block sees lies in it */
    p->work.gpr[X86_RBX] += memory;
    p->work.gpr[X86_RSI] += memory;
    p->state = (uint64_t)(uintptr_t)&p->work;
    to = PUT(to, 0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57); /* push rbx rbp r12..r15 */
    to = put_rip(to, 0x8b, &p->state);
    to = PUT(to, 0x48, 0x89, 0xa7); /* mov [rdi+..],rsp: kept in the state's own rsp */
    to = put_disp32(to, 8 * X86_RSP);
    for (unsigned x = 0; x < 16; x++)
        to = put_xmm(to, x, true);
    to = PUT(to, 0xff, 0xb7); /* push [rdi+flags]; popfq */
    to = put_disp32(to, (int32_t)offsetof(struct state, flags));
    to = PUT(to, 0x9d, 0x48, 0x8d, 0xa7); /* lea rsp,[rdi+stack] */
    to = put_disp32(to, (int32_t)offsetof(struct state, stack));
    for (unsigned r = 0; r < 16; r++)
        if (r != X86_RSP && r != X86_RDI)
            to = put_gpr(to, r, true);
    to = put_gpr(to, X86_RDI, true);
    for (uint32_t i = 0; i < d->b.count; i++)
        to = put(to, d->insns[at[i]].bytes, d->insns[at[i]].len);
    to = put_rip(to, 0x89, &p->rdi);
    to = put_rip(to, 0x8b, &p->state);
    for (unsigned r = 0; r < 16; r++)
        if (r != X86_RSP && r != X86_RDI)
            to = put_gpr(to, r, false);
    to = PUT(to, 0x48, 0x8b, 0xa7); /* rsp back */
    to = put_disp32(to, 8 * X86_RSP);
    to = PUT(to, 0x9c, 0x8f, 0x87); /* pushfq; pop [rdi+flags] */
    to = put_disp32(to, (int32_t)offsetof(struct state, flags));
    for (unsigned x = 0; x < 16; x++)
        to = put_xmm(to, x, false);
    to = PUT(to, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3);
    assert(to < p->code + sizeof p->code);
    ((void (*)(void))(uintptr_t)p->code)();
    *s = p->work;
    s->gpr[X86_RDI] = p->rdi;
    s->gpr[X86_RBX] -= memory;
    s->gpr[X86_RSI] -= memory;
    s->gpr[X86_RSP] = 0;
}

bool is_same_state(const struct state *a, const struct state *b, uint8_t flags_live)
{
    static const struct {
        uint8_t ours;
        uint16_t theirs;
    } bits[] = {{X86_CF, 1}, {X86_PF, 4}, {X86_AF, 0x10}, {X86_ZF, 0x40}, {X86_SF, 0x80}, {X86_OF, 0x800}};
    for (size_t i = 0; i < ARRAY_LEN(bits); i++)
        if (flags_live & bits[i].ours && (a->flags ^ b->flags) & bits[i].theirs)
            return false;
    return !memcmp(a->gpr, b->gpr, sizeof a->gpr) && !memcmp(a->xmm, b->xmm, sizeof a->xmm) &&
           !memcmp(a->memory, b->memory, sizeof a->memory) && !memcmp(a->stack, b->stack, sizeof a->stack);
}

/* ---- orders ---- */

void draw_order(struct rng *g, const struct sched_graph *graph, uint8_t at[SCHED_MAX])
{
    uint64_t done = 0;
    for (uint32_t n = 0; n < graph->count; n++) {
        uint8_t ready[SCHED_MAX];
        uint32_t count = 0;
        for (uint32_t i = 0; i < graph->count; i++)
            if (!(done >> i & 1) && !(graph->before[i] & ~done))
                ready[count++] = (uint8_t)i;
        at[n] = ready[rng_below(g, count)];
        done |= 1ull << at[n];
    }
}

bool is_allowed(const struct sched_graph *graph, const uint8_t at[SCHED_MAX])
{
    uint64_t done = 0;
    for (uint32_t n = 0; n < graph->count; n++) {
        if (done >> at[n] & 1 || (graph->before[at[n]] & ~done))
            return false;
        done |= 1ull << at[n];
    }
    return true;
}
