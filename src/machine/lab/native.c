/* SPDX-License-Identifier: Apache-2.0
 *
 * This processor as what executes experiments: code written to pages that are then made executable and read-only,
 * called between two reads of the time stamp counter. Signals from instructions that the CPU lacks are caught. It
 * judges nothing: what is disturbed is for lab.c to see. */
#include "machine/lab/lab.h"

#include <cpuid.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#if !defined(__x86_64__)
#error "mtool runs on x86-64 only"
#endif

enum {
    BARE = 8,               /* pieces that stay */
    SLOTS = 32,             /* pieces of code kept, the bare ones among them */
    CALLS = 4,              /* functions and rings kept */
    FILLS = LAB_DATA - 512, /* where the data area is not zero */
    HUGE_PAGE = 2 << 20,
    RING_BYTES = 128 << 20
};

struct call {
    void (*f)(uint64_t, void *);
    void *data;
};

struct native {
    struct lab_core core;
    uint8_t *code, *data;
    unsigned next, next_bare, next_call;
    struct call calls[CALLS];
    char *ring_all[2], *ring[2]; /* by small_pages */
    void *at[2];                 /* where a walk stands */
    cpu_set_t cpus;
    struct sigaction old[4];
    bool has256, has512;
};

static const int caught[] = {SIGILL, SIGSEGV, SIGFPE, SIGBUS};
static sigjmp_buf back;
static volatile sig_atomic_t guarded;

static void on_signal(int sig)
{
    if (guarded)
        siglongjmp(back, sig);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void catch_signals(struct native *n)
{
    struct sigaction sa = {.sa_handler = on_signal};
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        sigaction(caught[i], &sa, &n->old[i]);
}

/* ---- code ---- */

static void put_prologue(struct lab_code *c, bool has256, unsigned fill)
{
    LAB_PUT(c, 0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57); /* push rbx rbp r12 r13 r14 r15 */
    LAB_PUT(c, 0x49, 0x89, 0xff, 0x49, 0x89, 0xf6);                         /* mov r15,rdi; mov r14,rsi */
    static const uint8_t gprs[] = {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    for (size_t i = 0; i < sizeof gprs; i++) { /* mov r32, 3 */
        if (gprs[i] >= 8)
            LAB_PUT(c, 0x41);
        LAB_PUT(c, (uint8_t)(0xb8 + (gprs[i] & 7)), 3, 0, 0, 0);
    }
    if (fill == LAB_FILL_NONE)
        return;
    /* By loads: a register last written by an integer or shuffle instruction would lend floating point instructions
     * a cycle more on some cores, for as long as it is read. */
    bool wide = has256 && (fill & LAB_FILL_WIDE);
    uint32_t at = FILLS + (fill & 3) * 64;
    for (uint8_t r = 0; r < 16; r++) {
        uint8_t modrm = (uint8_t)(0x86 | (r & 7) << 3);
        if (wide) /* vmovups ymm_r, [r14+at] */
            LAB_PUT(c, 0xc4, (uint8_t)(r >= 8 ? 0x41 : 0xc1), 0x7c, 0x10, modrm);
        else /* movups xmm_r, [r14+at] */
            LAB_PUT(c, (uint8_t)(r >= 8 ? 0x45 : 0x41), 0x0f, 0x10, modrm);
        lab_put_le32(c, at);
    }
}

/* What the registers are filled with: whole numbers, and values near 1.01 with all digits used, because divisions and
 * roots of round numbers are done early. */
static void write_fills(uint8_t *data)
{
    static const uint64_t patterns[] = {0, 0x0102030405060708u, 0x3f814a3d3f814a3du, 0x3ff029f5c28f5c29u};
    for (size_t f = 0; f < ARRAY_LEN(patterns); f++)
        for (size_t i = 0; i < 8; i++)
            memcpy(data + FILLS + f * 64 + i * 8, &patterns[f], 8);
}

static void put_epilogue(struct lab_code *c, bool has256)
{
    if (has256)
        LAB_PUT(c, 0xc5, 0xf8, 0x77); /* vzeroupper */
    LAB_PUT(c, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3);
}

static int make(struct native *n, const struct lab_code *c, int slot)
{
    uint8_t *bytes = n->code + (size_t)slot * LAB_CODE;
    if (c->full || mprotect(bytes, LAB_CODE, PROT_READ | PROT_WRITE) < 0)
        return -1;
    memcpy(bytes, c->bytes, c->len);
    return mprotect(bytes, LAB_CODE, PROT_READ | PROT_EXEC) < 0 ? -1 : slot;
}

static int prepare(void *ctx, const struct lab_code *iteration, unsigned fill, bool bare)
{
    struct native *n = ctx;
    struct lab_code *c = xmalloc(sizeof *c);
    if (!bare)
        put_prologue(c, n->has256, fill);
    lab_align(c, 64, 0);
    lab_put(c, iteration->bytes, iteration->len);
    if (bare)
        LAB_PUT(c, 0xc3);
    else
        put_epilogue(c, n->has256);
    c->full = c->full || iteration->full;
    int slot = bare ? (int)(n->next_bare++ % BARE) : (int)(BARE + n->next++ % (SLOTS - BARE));
    slot = make(n, c, slot);
    free(c);
    return slot;
}

static int prepare_call(void *ctx, void (*f)(uint64_t, void *), void *data)
{
    struct native *n = ctx;
    unsigned k = n->next_call++ % CALLS;
    n->calls[k] = (struct call){f, data};
    return SLOTS + (int)k;
}

static struct call call_of(const struct native *n, int piece)
{
    if (piece >= SLOTS)
        return n->calls[piece - SLOTS];
    union {
        uint8_t *bytes;
        void (*f)(uint64_t, void *);
    } at = {.bytes = n->code + (size_t)piece * LAB_CODE};
    return (struct call){at.f, n->data};
}

static inline uint64_t clock_ticks(void)
{
    uint32_t lo, hi;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi)::"memory");
    return (uint64_t)hi << 32 | lo;
}

static double ticks(void *ctx, int piece, uint64_t iterations)
{
    struct call c = call_of(ctx, piece);
    if (sigsetjmp(back, 0)) { /* nothing of this frame is used after the jump back */
        sigset_t all;
        sigemptyset(&all);
        for (size_t i = 0; i < ARRAY_LEN(caught); i++)
            sigaddset(&all, caught[i]);
        sigprocmask(SIG_UNBLOCK, &all, NULL);
        guarded = 0;
        return -1;
    }
    guarded = 1;
    uint64_t t = clock_ticks();
    c.f(iterations, c.data);
    double span = (double)(clock_ticks() - t);
    guarded = 0;
    return span;
}

/* ---- rings ---- */

static uint64_t random_below(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

static void link_ring(char *memory, const struct lab_ring *r)
{
    uint32_t *order = xmalloc(r->cells * sizeof *order);
    uint64_t state = r->cells;
    for (size_t i = 0; i < r->cells; i++)
        order[i] = (uint32_t)i;
    for (size_t i = r->cells - 1; i > 0; i--) { /* Sattolo: one cycle through all */
        size_t j = random_below(&state, i);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (size_t i = 0; i < r->cells; i++) {
        size_t from = order[i], to = order[(i + 1) % r->cells];
        char *at = memory + from * r->stride + from * r->skew % r->stride,
             *next = memory + to * r->stride + to * r->skew % r->stride;
        memcpy(at, &next, sizeof next);
    }
    free(order);
}

static void walk(uint64_t iterations, void *start)
{
    void **p = *(void ***)start;
    for (uint64_t i = 0; i < iterations; i++)
        p = *p;
    *(void ***)start = p;
}

/* Fresh memory, aligned for huge pages, with or without them as far as the system heeds it. */
static char *ring_memory(struct native *n, bool small_pages)
{
    if (n->ring[small_pages])
        return n->ring[small_pages];
    char *all = mmap(NULL, RING_BYTES + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    char *memory = all + (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    madvise(memory, RING_BYTES, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    n->ring_all[small_pages] = all;
    return n->ring[small_pages] = memory;
}

static int prepare_ring(void *ctx, const struct lab_ring *r)
{
    struct native *n = ctx;
    char *memory = r->cells * r->stride <= RING_BYTES ? ring_memory(n, r->small_pages) : NULL;
    if (!memory)
        return -1;
    link_ring(memory, r);
    n->at[r->small_pages] = memory;
    return prepare_call(ctx, walk, &n->at[r->small_pages]);
}

/* ---- the rest ---- */

static int check_clock(double *ghz)
{
    uint64_t t0 = clock_ticks();
    double s0 = time_now_s();
    while (time_now_s() - s0 < 0.02)
        if (clock_ticks() < t0)
            return diag_error(
                "the time stamp counter runs backwards on this machine; mtool cannot calibrate it, name a "
                "description of machines/ instead");
    *ghz = (double)(clock_ticks() - t0) / (time_now_s() - s0) * 1e-9;
    if (*ghz < 0.1 || *ghz > 20)
        return diag_error(
            "the time stamp counter runs at %.3f GHz, which cannot be; mtool cannot calibrate this machine, "
            "name a description of machines/ instead",
            *ghz);
    return 0;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) { return b ? common_divisor(b, a % b) : a; }

/* On some machines the counter moves in steps of many ticks. Spans of unlike lengths are read: by the same code each
 * time they would all be one multiple of a step of 1. */
static double clock_step(void)
{
    uint64_t step = 0;
    for (uint64_t i = 0; i < 400; i++) {
        uint64_t t = clock_ticks();
        for (volatile uint64_t k = 0; k < i % 37; k++)
            ;
        step = common_divisor(clock_ticks() - t, step);
    }
    return step ? (double)step : 1;
}

static double now_s(void *ctx)
{
    (void)ctx;
    return time_now_s();
}

static void *data(void *ctx) { return ((struct native *)ctx)->data; }

static bool has_vectors(void *ctx, unsigned bits)
{
    const struct native *n = ctx;
    return bits <= 128 || (bits <= 256 ? n->has256 : n->has512);
}

static void move(void *ctx, int cpu)
{
    struct native *n = ctx;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &n->cpus) && cpu-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}

static void unmap(struct native *n)
{
    if (n->code != MAP_FAILED)
        munmap(n->code, (size_t)SLOTS * LAB_CODE);
    if (n->data != MAP_FAILED)
        munmap(n->data, LAB_DATA);
}

static void free_native(void *ctx)
{
    struct native *n = ctx;
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        sigaction(caught[i], &n->old[i], NULL);
    if (n->core.cpus)
        sched_setaffinity(0, sizeof n->cpus, &n->cpus);
    unmap(n);
    for (int i = 0; i < 2; i++)
        if (n->ring_all[i])
            munmap(n->ring_all[i], RING_BYTES + HUGE_PAGE);
    free(n);
}

const char *native_cpu_name(void)
{
    static char text[64];
    uint32_t r[13] = {0};
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
        return "unknown x86-64";
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    const char *brand = (const char *)r;
    snprintf(text, sizeof text, "%s", brand + strspn(brand, " "));
    for (size_t n = strlen(text); n && text[n - 1] == ' '; n--)
        text[n - 1] = 0;
    return text;
}

static void identify(struct lab_core *c)
{
    uint32_t a = 0, b = 0, cx = 0, d = 0;
    c->name = native_cpu_name();
    __get_cpuid(0, &a, &b, &cx, &d);
    memcpy(c->vendor, &b, 4);
    memcpy(c->vendor + 4, &d, 4);
    memcpy(c->vendor + 8, &cx, 4);
    __get_cpuid(1, &a, &b, &cx, &d);
    unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    c->family = family == 15 ? family + (a >> 20 & 255) : family;
    c->model = family == 15 || family == 6 ? model | (a >> 12 & 0xf0) : model;
}

/* Some systems let no program execute what it has written. */
static int check_memory(const struct native *n)
{
    if (n->code == MAP_FAILED || n->data == MAP_FAILED)
        return diag_error("no memory for timed code: %s", strerror(errno));
    if (mprotect(n->code, LAB_CODE, PROT_READ | PROT_EXEC) < 0)
        return diag_error(
            "this system does not let mtool execute the code that it times (%s); name a description of machines/ "
            "instead",
            strerror(errno));
    return 0;
}

struct lab_core *lab_native(void)
{
    struct native *n = xmalloc(sizeof *n);
    __builtin_cpu_init();
    n->has256 = __builtin_cpu_supports("avx");
    n->has512 = __builtin_cpu_supports("avx512f");
    n->code = mmap(NULL, (size_t)SLOTS * LAB_CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    n->data = mmap(NULL, LAB_DATA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    double ghz = 0;
    if (check_memory(n) < 0 || check_clock(&ghz) < 0) {
        unmap(n);
        free(n);
        return NULL;
    }
    write_fills(n->data);
    catch_signals(n);
    bool knows_cpus = sched_getaffinity(0, sizeof n->cpus, &n->cpus) == 0;
    n->core = (struct lab_core){.ctx = n,
                                .prepare = prepare,
                                .prepare_ring = prepare_ring,
                                .prepare_call = prepare_call,
                                .ticks = ticks,
                                .now_s = now_s,
                                .data = data,
                                .has_vectors = has_vectors,
                                .move = move,
                                .free = free_native,
                                .tsc_ghz = ghz,
                                .step = clock_step(),
                                .cpus = knows_cpus ? (unsigned)CPU_COUNT(&n->cpus) : 0};
    identify(&n->core);
    return &n->core;
}

void lab_core_free(struct lab_core *c)
{
    if (c)
        c->free(c->ctx);
}
