/* SPDX-License-Identifier: Apache-2.0
 *
 * Timed code: written to a page that is then made executable and read-only, run between clock chains and canaries,
 * repeated until enough samples are undisturbed or the time is over. Signals from instructions that the CPU lacks are
 * caught. It knows nothing of machine descriptions. */
#include "machine/lab.h"

#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "mtool runs on x86-64 only"
#endif

enum {
    SLOTS = 32,         /* pieces of executable code kept */
    TURN_CYCLES = 8000, /* aim for one sample */
    SAMPLES = 7,        /* of one measurement */
    TRIES = 256,        /* disturbed ones kept */
    RATIO_KEPT = 4096,
    FILLS = LAB_DATA - 512 /* where the data area is not zero */
};

struct lab {
    uint8_t *code, *data;
    unsigned next;
    double deadline_s, start_s, budget_s, tsc_ghz;
    double best_canary;   /* cycles per nop, undisturbed */
    double overhead;      /* cycles of an empty call with its clock reads */
    double clock_cost;    /* ticks that two clock reads in a row show */
    double chain, canary; /* ticks of the latest chain, cycles of the latest canary: brackets are shared */
    unsigned faster;      /* canaries in a row that beat the best */
    double ratios[RATIO_KEPT], spreads[RATIO_KEPT];
    size_t ratio_count, spread_count;
    uint64_t samples, disturbed;
    unsigned planned; /* measurements still to come in this part, for sharing out its time */
    double part_end_s;
    bool unsure;
    cpu_set_t cpus;
    struct sigaction old[4];
    bool has256, has512;
};

static const int caught[] = {SIGILL, SIGSEGV, SIGFPE, SIGBUS};
static sigjmp_buf back;
static volatile sig_atomic_t guarded;

/* ---- code ---- */

void lab_put(struct lab_code *c, const void *bytes, size_t len)
{
    if (c->len + len > sizeof c->bytes) {
        c->full = true;
        return;
    }
    memcpy(c->bytes + c->len, bytes, len);
    c->len += len;
}

void lab_put_le32(struct lab_code *c, uint32_t v) { lab_put(c, &v, 4); }
void lab_put_le64(struct lab_code *c, uint64_t v) { lab_put(c, &v, 8); }

void lab_put_nops(struct lab_code *c, size_t bytes)
{
    static const uint8_t nops[9][9] = {{0x90},
                                       {0x66, 0x90},
                                       {0x0f, 0x1f, 0x00},
                                       {0x0f, 0x1f, 0x40, 0x00},
                                       {0x0f, 0x1f, 0x44, 0x00, 0x00},
                                       {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
                                       {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
                                       {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
                                       {0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00}};
    while (bytes) {
        size_t n = bytes < 9 ? bytes : 9;
        lab_put(c, nops[n - 1], n);
        bytes -= n;
    }
}

void lab_align(struct lab_code *c, size_t to, size_t off) { lab_put_nops(c, (off + to - c->len % to) % to); }

void (*lab_make(struct lab *l, const struct lab_code *c))(uint64_t, void *)
{
    union {
        uint8_t *bytes;
        void (*f)(uint64_t, void *);
    } at = {.bytes = l->code + (size_t)(l->next++ % SLOTS) * LAB_CODE};
    if (c->full || mprotect(at.bytes, LAB_CODE, PROT_READ | PROT_WRITE) < 0)
        return NULL;
    memcpy(at.bytes, c->bytes, c->len);
    if (mprotect(at.bytes, LAB_CODE, PROT_READ | PROT_EXEC) < 0)
        return NULL;
    return at.f;
}

/* ---- clocks ---- */

static inline uint64_t clock_ticks(void)
{
    uint32_t lo, hi;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi)::"memory");
    return (uint64_t)hi << 32 | lo;
}

double lab_chain_ticks(void)
{
    uint64_t n = LAB_CHAIN / 40, t = clock_ticks();
    __asm__ volatile(".p2align 6\n1:\n\t.rept 40\n\tadd $1, %%rax\n\t.endr\n\tdec %0\n\tjnz 1b" : "+r"(n)::"rax", "cc");
    return (double)(clock_ticks() - t);
}

double lab_canary_ticks(void)
{
    uint64_t n = LAB_CANARY / 80, t = clock_ticks();
    __asm__ volatile(".p2align 6\n1:\n\t.rept 80\n\t.byte 0x0f, 0x1f, 0x40, 0x00\n\t.endr\n\tdec %0\n\tjnz 1b"
                     : "+r"(n)::"cc");
    return (double)(clock_ticks() - t);
}

/* An interrupt inside a chain makes the canary beside it look fast, so a faster canary than any before is believed only
 * between equal chains, and when it comes again. */
static void read_bracket(struct lab *l)
{
    double before = l->chain, last = l->canary;
    l->chain = lab_chain_ticks() - l->clock_cost;
    double chain = before > 0 && before < l->chain ? before : l->chain;
    l->canary = (lab_canary_ticks() - l->clock_cost) * LAB_CHAIN / chain / LAB_CANARY;
    bool steady = fabs(l->chain - before) < 0.004 * before && fabs(l->canary - last) < 0.02 * last;
    bool possible = l->canary > l->best_canary * 0.45 || l->best_canary >= 1; /* a neighbour takes half, not more */
    l->faster = steady && possible && l->canary < l->best_canary * 0.985 ? l->faster + 1 : 0;
    if (l->faster > 2)
        l->best_canary = l->canary;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double lab_quantile(double *v, size_t n, double q)
{
    if (!n)
        return 0;
    qsort(v, n, sizeof *v, compare_doubles);
    return v[(size_t)(q * (double)(n - 1) + 0.5)];
}

/* ---- samples ---- */

static bool is_quiet(const struct lab *l, double chain_before, double canary_before)
{
    double drift = fabs(l->chain - chain_before) / chain_before;
    double limit = l->best_canary * 1.012;
    return drift < 0.004 && l->canary < limit && canary_before < limit;
}

static double timed(struct lab *l, void (*f)(uint64_t, void *), void *data, uint64_t turns, bool *quiet)
{
    double chain = l->chain, canary = l->canary;
    uint64_t t = clock_ticks();
    f(turns, data);
    double span = (double)(clock_ticks() - t);
    read_bracket(l);
    *quiet = is_quiet(l, chain, canary);
    double ratio = *quiet ? 2 * LAB_CHAIN / (chain + l->chain) : LAB_CHAIN / fmin(chain, l->chain);
    l->samples++;
    l->disturbed += !*quiet;
    if (*quiet && l->ratio_count < RATIO_KEPT)
        l->ratios[l->ratio_count++] = ratio;
    return span * ratio - l->overhead;
}

double lab_sample(struct lab *l, void (*f)(uint64_t, void *), void *data, uint64_t turns)
{
    bool quiet;
    double cycles = timed(l, f, data, turns, &quiet);
    return quiet ? cycles : -1;
}

double lab_seconds_left(const struct lab *l) { return l->deadline_s - time_now_s(); }

static void keep_spread(struct lab *l, double low, double high)
{
    if (l->spread_count < RATIO_KEPT && low > 0)
        l->spreads[l->spread_count++] = (high - low) / low;
}

/* Patience: disturbed samples are taken again, as long as the measurements still to come leave time for it. */
static double patience_s(const struct lab *l)
{
    double left = fmin(l->part_end_s - time_now_s(), lab_seconds_left(l));
    return fmin(fmax(1.5 * left / (l->planned > 8 ? l->planned : 8), 0), 1.0);
}

void lab_plan(struct lab *l, unsigned measurements, double seconds)
{
    l->planned = measurements;
    l->part_end_s = time_now_s() + seconds;
}

bool lab_part_is_over(const struct lab *l) { return time_now_s() > l->part_end_s; }

bool lab_was_unsure(const struct lab *l) { return l->unsure; }

static double repeat(struct lab *l, void (*f)(uint64_t, void *), void *data, uint64_t turns)
{
    double good[SAMPLES], bad[TRIES];
    double until = time_now_s() + patience_s(l);
    size_t n = 0, bad_count = 0;
    read_bracket(l);
    while (n < SAMPLES) {
        bool quiet;
        double cycles = timed(l, f, data, turns, &quiet);
        if (quiet)
            good[n++] = cycles;
        else
            bad[bad_count++ % TRIES] = cycles;
        if (bad_count > 4 && time_now_s() > until)
            break;
    }
    l->planned -= l->planned > 0;
    l->unsure = n < 3;
    if (!n) /* disturbances only add, and the shorter of the chains was taken: the least is nearest */
        return lab_quantile(bad, bad_count < TRIES ? bad_count : TRIES, 0);
    qsort(good, n, sizeof *good, compare_doubles);
    if (n >= 4)
        keep_spread(l, good[n / 4], good[n * 3 / 4]);
    return good[n >= 4];
}

static void on_signal(int sig)
{
    if (guarded)
        siglongjmp(back, sig);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Wide vector units sleep until used, and wake up at a quarter of their speed. */
static void wake_vectors(void (*f)(uint64_t, void *), void *data, uint64_t turns)
{
    double until = time_now_s() + 1e-4;
    do
        f(turns, data);
    while (time_now_s() < until);
}

static double guarded_cycles(struct lab *l, void (*f)(uint64_t, void *), void *data, uint64_t turns)
{
    f(1, data);
    bool quiet;
    wake_vectors(f, data, turns ? turns : 8);
    read_bracket(l);
    double first = 1e18;
    for (int i = 0; i < 3; i++)
        first = fmin(first, timed(l, f, data, 8, &quiet) / 8);
    if (!turns) {
        double want = ceil(TURN_CYCLES / (first > 1 ? first : 1));
        turns = want < 8 ? 8 : (uint64_t)want;
    }
    double cycles = repeat(l, f, data, turns) / (double)turns;
    return cycles > 0 ? cycles : 0;
}

double lab_call_cycles(struct lab *l, void (*f)(uint64_t, void *), void *data, uint64_t turns)
{
    if (!f || lab_seconds_left(l) < 0)
        return -2;
    if (sigsetjmp(back, 1)) { /* nothing of this frame is used after the jump back */
        guarded = 0;
        return -1;
    }
    guarded = 1;
    double cycles = guarded_cycles(l, f, data, turns);
    guarded = 0;
    return cycles;
}

/* ---- loops ---- */

static void put_prologue(struct lab_code *c, const struct lab *l, unsigned fill)
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
    bool wide = l->has256 && (fill & LAB_FILL_WIDE);
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
static void write_fills(struct lab *l)
{
    static const uint64_t patterns[] = {0, 0x0102030405060708u, 0x3f814a3d3f814a3du, 0x3ff029f5c28f5c29u};
    for (size_t f = 0; f < ARRAY_LEN(patterns); f++)
        for (size_t i = 0; i < 8; i++)
            memcpy(l->data + FILLS + f * 64 + i * 8, &patterns[f], 8);
}

static void put_epilogue(struct lab_code *c, const struct lab *l)
{
    if (l->has256)
        LAB_PUT(c, 0xc5, 0xf8, 0x77); /* vzeroupper */
    LAB_PUT(c, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3);
}

double lab_loop_cycles(struct lab *l, const struct lab_code *body, unsigned fill)
{
    struct lab_code *c = xmalloc(sizeof *c);
    put_prologue(c, l, fill);
    lab_align(c, 64, 0);
    size_t top = c->len;
    lab_put(c, body->bytes, body->len);
    size_t tail = c->len % 32;
    if (tail > 32 - 9)
        lab_align(c, 32, 0);                  /* some cores are slow on a branch that touches a 32-byte boundary */
    LAB_PUT(c, 0x49, 0xff, 0xcf, 0x0f, 0x85); /* dec r15; jnz top */
    lab_put_le32(c, (uint32_t)(top - (c->len + 4)));
    put_epilogue(c, l);
    c->full = c->full || body->full;
    void (*f)(uint64_t, void *) = lab_make(l, c);
    free(c);
    return lab_call_cycles(l, f, l->data, 0);
}

/* ---- opening ---- */

static double quiet_share(struct lab *l)
{
    unsigned quiet = 0;
    for (int i = 0; i < 200; i++) {
        double chain = l->chain, canary = l->canary;
        read_bracket(l);
        quiet += is_quiet(l, chain, canary);
    }
    return quiet / 200.0;
}

static void pin(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

double lab_clock_cost(void)
{
    double cost[101];
    for (size_t i = 0; i < ARRAY_LEN(cost); i++) {
        uint64_t t = clock_ticks();
        cost[i] = (double)(clock_ticks() - t);
    }
    return lab_quantile(cost, ARRAY_LEN(cost), 0.2);
}

/* Long enough that the neighbours are seen to come and go. */
static void find_best_canary(struct lab *l)
{
    double until = time_now_s() + fmin(0.06, 0.02 * l->budget_s);
    while (time_now_s() < until)
        read_bracket(l);
}

/* The quietest of the first allowed CPUs. */
static void choose_cpu(struct lab *l)
{
    int best = -1, seen = 0;
    double best_share = -1;
    if (sched_getaffinity(0, sizeof l->cpus, &l->cpus) < 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && seen < 8; cpu++) {
        if (!CPU_ISSET(cpu, &l->cpus))
            continue;
        seen++;
        pin(cpu);
        find_best_canary(l);
        double share = quiet_share(l);
        if (share > best_share) {
            best_share = share;
            best = cpu;
        }
    }
    if (best >= 0)
        pin(best);
}

static int check_clock(struct lab *l)
{
    uint64_t t0 = clock_ticks();
    double s0 = time_now_s();
    while (time_now_s() - s0 < 0.02)
        if (clock_ticks() < t0)
            return diag_error(
                "the time stamp counter runs backwards on this machine; mtool cannot calibrate it, name a "
                "description of machines/ instead");
    double ghz = (double)(clock_ticks() - t0) / (time_now_s() - s0) * 1e-9;
    if (ghz < 0.1 || ghz > 20)
        return diag_error(
            "the time stamp counter runs at %.3f GHz, which cannot be; mtool cannot calibrate this machine, "
            "name a description of machines/ instead",
            ghz);
    l->tsc_ghz = ghz;
    return 0;
}

static void nothing(uint64_t turns, void *data)
{
    (void)turns;
    (void)data;
    __asm__ volatile("");
}

static void catch_signals(struct lab *l)
{
    struct sigaction sa = {.sa_handler = on_signal};
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        sigaction(caught[i], &sa, &l->old[i]);
}

struct lab *lab_open(double budget_s)
{
    struct lab *l = xmalloc(sizeof *l);
    l->start_s = time_now_s();
    l->budget_s = budget_s;
    l->deadline_s = l->start_s + budget_s;
    l->best_canary = 1;
    __builtin_cpu_init();
    l->has256 = __builtin_cpu_supports("avx");
    l->has512 = __builtin_cpu_supports("avx512f");
    l->code = mmap(NULL, (size_t)SLOTS * LAB_CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    l->data = mmap(NULL, LAB_DATA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (l->code == MAP_FAILED || l->data == MAP_FAILED || check_clock(l) < 0) {
        free(l);
        return NULL;
    }
    write_fills(l);
    catch_signals(l);
    l->clock_cost = lab_clock_cost();
    read_bracket(l);
    choose_cpu(l);
    double empty = lab_call_cycles(l, nothing, NULL, 1);
    l->overhead = empty > 0 ? empty : 0;
    return l;
}

void lab_close(struct lab *l)
{
    for (size_t i = 0; i < ARRAY_LEN(caught); i++)
        sigaction(caught[i], &l->old[i], NULL);
    sched_setaffinity(0, sizeof l->cpus, &l->cpus);
    munmap(l->code, (size_t)SLOTS * LAB_CODE);
    munmap(l->data, LAB_DATA);
    free(l);
}

void *lab_data(struct lab *l) { return l->data; }
double lab_core_per_tsc(const struct lab *l)
{
    double copy[RATIO_KEPT];
    memcpy(copy, l->ratios, sizeof copy);
    return lab_quantile(copy, l->ratio_count, 0.5);
}
double lab_noise(const struct lab *l)
{
    double copy[RATIO_KEPT];
    memcpy(copy, l->spreads, sizeof copy);
    return lab_quantile(copy, l->spread_count, 0.5);
}
double lab_canary(const struct lab *l) { return l->best_canary; }
double lab_tsc_ghz(const struct lab *l) { return l->tsc_ghz; }
double lab_disturbed_share(const struct lab *l) { return l->samples ? (double)l->disturbed / (double)l->samples : 0; }
bool lab_has_vectors(const struct lab *l, unsigned bits)
{
    return bits <= 128 || (bits <= 256 ? l->has256 : l->has512);
}
