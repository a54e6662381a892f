/* SPDX-License-Identifier: Apache-2.0
 * Of programs with exact clocks: where a function begins its frame is put on a stack of its own, with the time; where
 * it ends, the time since then is the arc's, by caller and function, and is told the frame below, whose own time it is
 * not. Each thread has a block of memory: that stack, the arcs, and of each function how often it is under way, so that
 * what recurs is not counted twice. They are added up at the end into a table among the counters. Which calls are not
 * timed, where short ones are sampled: clocks_sampling.h.
 *
 * Frames are known by the place of their return address. Those that a jump, an exception or a tail call left behind lie
 * at or below a new one's place, and end when that is noticed: where an exception lands, another function begins, or
 * one of those around them ends. On another stack (coroutines) frames are simply farther apart. A handler of a signal
 * may come at any time: a frame is taken before it is filled, and read before it is given back.
 */
#include "ldrt/clocks_sampling.h"

#include <asm/unistd.h>
#include <stddef.h>

#include "ldrt/call.h"
#include "ldrt/leave.h"
#include "ldrt/runtime.h"

enum { STACK = 1 << 20, FRAME = 32, ARCS_BITS = 14, ARC = 64, FUNCS_BITS = 13, TRIES = 32, HEAD = 64 };
enum { TABLE_BITS = 15, FAR_AWAY = 64 << 10 };
#define FIRST_PLACE ((uint64_t)INT64_MAX) /* above all others */

struct frame {
    uint64_t place;
    struct sums *sums; /* NULL: not filled yet */
    uint64_t start, inner;
};
struct block { /* of a thread; at a multiple of its stack's size */
    struct frame frames[STACK / FRAME];
    struct arc arcs[(1 << ARCS_BITS) + TRIES];
    struct arc lost;
    struct arc_sums sums[(1 << ARCS_BITS) + TRIES + 1]; /* of each arc, the lost one too */
    struct func funcs[(1 << FUNCS_BITS) + TRIES];
    struct func lost_func;
    struct block *next;
    struct sampler sampler;
    int thread; /* whose it is: of one that is gone another takes it over, with what it counted */
};
_Static_assert(sizeof(struct arc) == ARC && sizeof(struct frame) == FRAME, "as the code below has it");
_Static_assert(offsetof(struct block, arcs) == STACK, "likewise");
_Static_assert(offsetof(struct arc, left) == 16 && offsetof(struct arc, skips) == 24 &&
                   offsetof(struct arc, sums) == 32,
               "likewise");
_Static_assert(offsetof(struct sums, calls) == 8 && offsetof(struct sums, self) == 16 &&
                   offsetof(struct sums, all) == 24 && offsetof(struct sums, outer) == 32 &&
                   offsetof(struct sums, is_sampled) == 48,
               "likewise");
_Static_assert(offsetof(struct func, depth) == 8 && offsetof(struct func, recurs) == 16, "likewise");

__asm__(".section mtool_counters,\"aw\",@nobits\n"
        ".balign 8\n"
        ".hidden mtool_tool_table\n"
        "mtool_tool_table: .skip 64 + 24 * 2 * ((1 << 15) + 32)\n"
        /* Of a thread: where its next frame is, and its arcs. At first the frame is behind one that is below all. */
        ".section .tdata,\"awT\",@progbits\n"
        ".balign 8\n"
        ".hidden mtool_tool_top\n"
        ".type mtool_tool_top,@object\n"
        ".size mtool_tool_top,16\n"
        "mtool_tool_top: .quad mtool_tool_nobody+32, 0\n"
        ".text\n");
_Static_assert(TABLE_BITS == 15 && TRIES == 32 && HEAD == 64 && sizeof(struct wire_table) == HEAD, "as above");
extern struct wire_table table __asm__("mtool_tool_table") __attribute__((visibility("hidden")));

static uint64_t is_ready;
/* Of a timed call, what is not between its looks, and so in its caller's time: taken off there if calls are sampled. */
static uint64_t outside __asm__("mtool_tool_outside") __attribute__((used));
static uint64_t waits __asm__("mtool_tool_waits") __attribute__((used)); /* 1: for what stands in front of a look */
/* Of the last frame: programs without threads look at it in line. At first all is above it. */
uint64_t last_place __asm__("mtool_place") __attribute__((visibility("hidden")));
static struct frame nobody[1] __asm__("mtool_tool_nobody") __attribute__((used));
static struct block *blocks;

/* ---- the way that is mostly taken ---- */

/* On entrance: the caller's return address is above that of this call. Where anything is unusual, C does it all: it
 * gets the place, this site and the caller. */
__asm__(".text\n"
        ".macro keep\n"
        "pushq %rax\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rdx\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rcx\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rsi\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rdi\n.cfi_adjust_cfa_offset 8\n"
        ".endm\n"
        ".macro give_back\n"
        "popq %rdi\n.cfi_adjust_cfa_offset -8\n"
        "popq %rsi\n.cfi_adjust_cfa_offset -8\n"
        "popq %rcx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rdx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rax\n.cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".endm\n"
        ".macro slowly name\n"
        "pushq %r8\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r9\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r10\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r11\n.cfi_adjust_cfa_offset 8\n"
        "leaq 80(%rsp),%rdi\n"
        "movq 72(%rsp),%rsi\n"
        "call \\name\n"
        "popq %r11\n.cfi_adjust_cfa_offset -8\n"
        "popq %r10\n.cfi_adjust_cfa_offset -8\n"
        "popq %r9\n.cfi_adjust_cfa_offset -8\n"
        "popq %r8\n.cfi_adjust_cfa_offset -8\n"
        ".endm\n"
        ".macro hook name\n"
        ".globl \\name\n.hidden \\name\n.type \\name,@function\n.balign 32\n\\name:\n.cfi_startproc\n"
        ".endm\n"
        ".macro hook_end name\n"
        ".cfi_endproc\n.size \\name,.-\\name\n"
        ".endm\n"

        "hook mtool_enter\n"
        "keep\n"
        "movq mtool_tool_top@gottpoff(%rip),%rsi\n"
        "movq %fs:(%rsi),%rcx\n"
        "leaq 48(%rsp),%rdx\n"
        "cmpq %rdx,-32(%rcx)\n"
        "jbe 2f\n"
        "movq 40(%rsp),%rax\n"
        "movq (%rdx),%rdx\n"
        "leaq (%rax,%rdx,8),%rdi\n"
        "imulq $0x1e3779b1,%rdi,%rdi\n"
        "shrq $16,%rdi\n"
        "andl $((1<<14)-1)<<6,%edi\n"
        "addq %fs:8(%rsi),%rdi\n"
        "cmpq %rax,(%rdi)\n"
        "jne 8f\n"
        "cmpq %rdx,8(%rdi)\n"
        "jne 8f\n"
        "9:\n"
        "decq 16(%rdi)\n"
        "js 4f\n"
        "cmpq $0,24(%rdi)\n"
        "je 3f\n"
        "give_back\n" /* not timed */
        ".cfi_adjust_cfa_offset 40\n"
        "4:\n"
        "slowly mtool_tool_decide\n"
        "movq %rax,%rdi\n"
        "movq mtool_tool_top@gottpoff(%rip),%rsi\n"
        "movq %fs:(%rsi),%rcx\n"
        "3:\n"
        "leaq 48(%rsp),%rdx\n"
        "movq %rdx,(%rcx)\n"
        "movq $0,8(%rcx)\n"
        "leaq 32(%rcx),%rax\n"
        "testl $0xfffff,%eax\n"
        "je 5f\n"
        "movq %rax,%fs:(%rsi)\n"
        "movq %rdx,mtool_place(%rip)\n"
        "movq 32(%rdi),%rax\n"
        "movq %rax,8(%rcx)\n"
        "movq (%rax),%rax\n"
        "incq 8(%rax)\n"
        "cmpq $0,mtool_tool_waits(%rip)\n"
        "je 7f\n"
        "lfence\n"
        "7:\n"
        "rdtsc\n"
        "shlq $32,%rdx\n"
        "orq %rdx,%rax\n"
        "movq %rax,16(%rcx)\n"
        "movq $0,24(%rcx)\n"
        "5:\n"
        "give_back\n"
        ".cfi_adjust_cfa_offset 40\n"
        "8:\n" /* the arc is another's: so may the next one be */
        "addq $64,%rdi\n"
        "cmpq %rax,(%rdi)\n"
        "jne 2f\n"
        "cmpq %rdx,8(%rdi)\n"
        "je 9b\n"
        "2:\n" /* it is farther away, or new */
        "slowly mtool_tool_enter\n"
        "give_back\n"
        "hook_end mtool_enter\n"

        "hook mtool_leave\n"
        "pushq %rcx\n.cfi_adjust_cfa_offset 8\n"
        "movq mtool_tool_top@gottpoff(%rip),%rcx\n"
        "movq %fs:(%rcx),%rcx\n"
        "movq -32(%rcx),%rcx\n"
        "subq %rsp,%rcx\n"
        "cmpq $16,%rcx\n"
        "jle 6f\n"
        "popq %rcx\n.cfi_adjust_cfa_offset -8\n" /* the last frame is one around it: this call is not timed */
        "ret\n"
        ".cfi_adjust_cfa_offset 8\n"
        "6:\n"
        "popq %rcx\n.cfi_adjust_cfa_offset -8\n"
        "keep\n"
        "cmpq $0,mtool_tool_waits(%rip)\n"
        "je 7f\n"
        "lfence\n"
        "7:\n"
        "rdtsc\n"
        "shlq $32,%rdx\n"
        "orq %rdx,%rax\n"
        "movq mtool_tool_top@gottpoff(%rip),%rsi\n"
        "movq %fs:(%rsi),%rcx\n"
        "leaq 48(%rsp),%rdx\n"
        "cmpq %rdx,-32(%rcx)\n"
        "jne 2f\n"
        "movq -24(%rcx),%rdi\n"
        "testq %rdi,%rdi\n"
        "je 2f\n"
        "cmpq $0,48(%rdi)\n"
        "jne 2f\n"
        "movq %rax,%rdx\n"
        "subq -16(%rcx),%rdx\n"
        "movq -8(%rcx),%rax\n"
        "leaq -32(%rcx),%rcx\n"
        "movq %rcx,%fs:(%rsi)\n"
        "movq -32(%rcx),%rsi\n"
        "movq %rsi,mtool_place(%rip)\n"
        "movq mtool_tool_outside(%rip),%rsi\n"
        "addq %rdx,%rsi\n"
        "addq %rsi,-8(%rcx)\n"
        "incq 8(%rdi)\n"
        "addq %rdx,24(%rdi)\n"
        "movq %rdx,%rsi\n"
        "subq %rax,%rsi\n"
        "addq %rsi,16(%rdi)\n"
        "movq (%rdi),%rax\n"
        "decq 8(%rax)\n"
        "jne 1f\n"
        "addq %rdx,32(%rdi)\n"
        "give_back\n"
        ".cfi_adjust_cfa_offset 40\n"
        "1:\n"
        "movq $1,16(%rax)\n"
        "give_back\n"
        ".cfi_adjust_cfa_offset 40\n"
        "2:\n"
        "movq %rax,%rdx\n"
        "slowly mtool_tool_leave\n"
        "give_back\n"
        "hook_end mtool_leave\n"

        "hook mtool_landed\n"
        "keep\n"
        "slowly mtool_tool_landed\n"
        "give_back\n"
        "hook_end mtool_landed\n"
        ".purgem keep\n.purgem give_back\n.purgem slowly\n.purgem hook\n.purgem hook_end\n");

/* ---- the thread's word ---- */

static struct frame *get_top(void) /* NULL: it has no block */
{
    struct frame *top;
    __asm__ volatile("movq mtool_tool_top@gottpoff(%%rip),%0\n\tmovq %%fs:(%0),%0" : "=r"(top));
    return top == nobody + 1 ? NULL : top;
}

static void set_top(struct frame *top)
{
    uint64_t at;
    last_place = top[-1].place;
    __asm__ volatile("movq mtool_tool_top@gottpoff(%%rip),%0\n\tmovq %1,%%fs:(%0)" : "=&r"(at) : "r"(top) : "memory");
}

static void set_arcs(struct arc *arcs)
{
    uint64_t at;
    __asm__ volatile("movq mtool_tool_top@gottpoff(%%rip),%0\n\tmovq %1,%%fs:8(%0)" : "=&r"(at) : "r"(arcs) : "memory");
}

static uint64_t now(void)
{
    if (waits)
        __asm__ volatile("lfence" ::: "memory");
    return __builtin_ia32_rdtsc();
}

/* ---- blocks ---- */

static struct block *block_of(const struct frame *top)
{
    return (struct block *)((uint64_t)top & ~(uint64_t)(STACK - 1));
}

/* Of a thread that is gone, or NULL. */
static struct block *find_block(int process, int thread)
{
    enum { LOOKED_AT = 64 };
    struct block *b = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);
    for (int n = 0; b && n < LOOKED_AT; b = b->next, n++) {
        int old = __atomic_load_n(&b->thread, __ATOMIC_ACQUIRE);
        if (call6(__NR_tgkill, process, old, 0, 0, 0, 0) < 0 &&
            __atomic_compare_exchange_n(&b->thread, &old, thread, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return b;
    }
    return 0;
}

/* The first frame is nobody's: all others lie below its place, and it takes the time of what has no caller. */
static struct frame *make_block(void)
{
    enum { READ_WRITE = 3, PRIVATE_ANONYMOUS_NORESERVE = 0x4022 };
    uint64_t all = sizeof(struct block) + (uint64_t)STACK;
    int thread = (int)call6(__NR_gettid, 0, 0, 0, 0, 0, 0);
    struct block *old = find_block((int)call6(__NR_getpid, 0, 0, 0, 0, 0, 0), thread);
    if (old) {
        for (struct func *f = old->funcs; f <= &old->lost_func; f++)
            f->depth = 0;
        old->sampler.is_busy = 0;
        set_arcs(old->arcs);
        return &old->frames[1];
    }
    long at = call6(__NR_mmap, 0, (long)all, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, -1, 0);
    if (at < 0)
        return 0;
    struct block *b = (struct block *)(((uint64_t)at + STACK - 1) & ~(uint64_t)(STACK - 1));
    b->frames[0].place = FIRST_PLACE;
    arc_begin(&b->lost, 0, 0, &b->sums[(1 << ARCS_BITS) + TRIES], &b->lost_func);
    b->sampler.random = (uint64_t)at ^ now();
    b->thread = thread;
    do
        b->next = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&blocks, &b->next, b, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    set_arcs(b->arcs);
    return &b->frames[1];
}

static struct func *func_of(struct block *b, uint64_t site)
{
    struct func *f = &b->funcs[site * 0x9e3779b97f4a7c15u >> (64 - FUNCS_BITS)];
    for (unsigned n = 0; n < TRIES; n++, f++) {
        if (f->site == site)
            return f;
        if (!f->site) {
            f->site = site;
            return f;
        }
    }
    return &b->lost_func;
}

static struct arc *arc_of(struct block *b, uint64_t site, uint64_t caller)
{
    uint64_t hash = (site + 8 * caller) * 0x1e3779b1u;
    struct arc *a = &b->arcs[hash >> 22 & ((1 << ARCS_BITS) - 1)];
    for (unsigned n = 0; n < TRIES; n++, a++) {
        if (a->site == site && a->caller == caller)
            return a;
        if (!a->site) {
            arc_begin(a, site, caller, &b->sums[a - b->arcs], func_of(b, site));
            return a;
        }
    }
    return &b->lost;
}

/* ---- the other ways ---- */

static struct frame *pop(struct frame *top, uint64_t time)
{
    struct frame f = *--top;
    set_top(top);
    if (!f.sums)
        return top;
    uint64_t all = time - f.start;
    top[-1].inner += all + outside;
    sums_add(f.sums, all, all - f.inner);
    return top;
}

/* Those that lie at or below a place, on the same stack. */
static struct frame *pop_left(struct frame *top, uint64_t place)
{
    uint64_t time = now();
    while (top[-1].place <= place && place - top[-1].place < FAR_AWAY)
        top = pop(top, time);
    return top;
}

__attribute__((used, visibility("hidden"))) void slow_enter(uint64_t *place, uint64_t site) __asm__("mtool_tool_enter");
void slow_enter(uint64_t *place, uint64_t site)
{
    struct frame *top = get_top();
    if (!top && is_ready)
        top = make_block();
    if (!top)
        return;
    top = pop_left(top, (uint64_t)place);
    if (!((uint64_t)(top + 1) & (STACK - 1))) /* full: it is its caller's */
        return;
    struct arc *a = arc_of(block_of(top), site, *place);
    if (--a->left < 0)
        top[-1].inner += arc_decide(a, &block_of(top)->sampler);
    else if (a->skips)
        return;
    top->place = (uint64_t)place;
    top->sums = 0;
    top->inner = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    set_top(top + 1);
    set_arcs(block_of(top)->arcs); /* a handler may have made a block meanwhile */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    a->sums->func->depth++;
    top->start = now();
    top->sums = a->sums;
}

/* As many calls of an arc as were allowed have been: what now? */
__attribute__((used, visibility("hidden"))) struct arc *decide(const uint64_t *place,
                                                               uint64_t site) __asm__("mtool_tool_decide");
struct arc *decide(const uint64_t *place, uint64_t site)
{
    struct frame *top = get_top();
    struct block *b = block_of(top);
    struct arc *a = arc_of(b, site, *place);
    top[-1].inner += arc_decide(a, &b->sampler);
    return a;
}

/* Is a frame of that place among those of its stack? Then all above it were left behind. */
__attribute__((used, visibility("hidden"))) void slow_leave(uint64_t *place, uint64_t site,
                                                            uint64_t time) __asm__("mtool_tool_leave");
void slow_leave(uint64_t *place, uint64_t site, uint64_t time)
{
    struct frame *top = get_top(), *f = top;
    (void)site;
    if (!top)
        return;
    while (f[-1].place < (uint64_t)place && (uint64_t)place - f[-1].place < FAR_AWAY)
        f--;
    if (f[-1].place != (uint64_t)place) /* it began before all this */
        return;
    while (top >= f)
        top = pop(top, time);
}

/* In the function whose frame is above: what is below was left. */
__attribute__((used, visibility("hidden"))) void landed(uint64_t *place, uint64_t site) __asm__("mtool_tool_landed");
void landed(uint64_t *place, uint64_t site)
{
    struct frame *top = get_top();
    (void)site;
    if (top)
        pop_left(top, (uint64_t)place - 1);
}

/* ---- begin and end ---- */

enum { MONOTONIC = 1, TURNS = 2000, TIMES = 5 };
static uint64_t began_ticks, began_ns, taken; /* taken: what a pair of looks at the clock takes */

static uint64_t wall_ns(void)
{
    int64_t t[2] = {0, 0};
    call6(__NR_clock_gettime, MONOTONIC, (long)t, 0, 0, 0, 0);
    return (uint64_t)t[0] * 1000000000u + (uint64_t)t[1];
}

__asm__(".text\n"
        ".type mtool_tool_probe,@function\n"
        "mtool_tool_probe: call mtool_enter\n"
        "call mtool_leave\n"
        "ret\n"
        ".size mtool_tool_probe,.-mtool_tool_probe\n"
        ".type mtool_tool_probe_in_line,@function\n"
        "mtool_tool_probe_in_line: pushq %rax\n"
        "movq 8(%rsp),%rax\n"
        "cmpq %rax,mtool_tool_words(%rip)\n"
        "jne 1f\n"
        "decq 8+mtool_tool_words(%rip)\n"
        "js 1f\n"
        "popq %rax\n"
        "jmp 2f\n"
        "1: popq %rax\n"
        "call mtool_enter\n"
        "2: cmpq mtool_place(%rip),%rsp\n"
        "jl 3f\n"
        "call mtool_leave\n"
        "3: ret\n"
        ".size mtool_tool_probe_in_line,.-mtool_tool_probe_in_line\n"
        ".type mtool_tool_plain,@function\n"
        "mtool_tool_plain: ret\n"
        ".size mtool_tool_plain,.-mtool_tool_plain\n");
extern void probe(void) __asm__("mtool_tool_probe") __attribute__((visibility("hidden")));
extern void probe_in_line(void) __asm__("mtool_tool_probe_in_line") __attribute__((visibility("hidden")));
static volatile uint64_t words[WIRE_CLOCKS_WORDS] __asm__("mtool_tool_words") __attribute__((used));
extern void plain(void) __asm__("mtool_tool_plain") __attribute__((visibility("hidden")));

/* All by one call: their caller is one. */
static __attribute__((noinline)) void turns(void (*f)(void))
{
    for (int i = 0; i < TURNS; i++)
        f();
}

static uint64_t time_of(void (*f)(void))
{
    uint64_t best = UINT64_MAX;
    for (int t = 0; t < TIMES; t++) {
        uint64_t from = now();
        turns(f);
        uint64_t ticks = now() - from;
        best = ticks < best ? ticks : best;
    }
    return best / TURNS;
}

/* Of a call, between its looks. */
static uint64_t time_inside(void (*f)(void), const struct sums *s)
{
    uint64_t best = UINT64_MAX;
    for (int t = 0; t < TIMES; t++) {
        uint64_t from = s->self;
        turns(f);
        uint64_t ticks = s->self - from;
        best = ticks < best ? ticks : best;
    }
    return best / TURNS;
}

static struct arc *first_arc(struct block *b)
{
    struct arc *a = b->arcs;
    while (a < &b->lost && !a->site)
        a++;
    return a;
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* What a pair of looks at the clock takes, all of it and what of it is between them; and where calls are sampled, what
 * one takes that is not timed. The arc that it made is forgotten. */
static void measure(int is_sampled, void (*f)(void))
{
    uint64_t without = time_of(plain), all = less(time_of(f), without);
    struct frame *top = get_top();
    struct arc *a = top ? first_arc(block_of(top)) : 0;
    if (!a || a == &block_of(top)->lost || !a->sums->calls)
        return;
    uint64_t inside = time_inside(f, a->sums);
    inside = inside < all ? inside : all;
    taken = inside << 32 | (all & UINT32_MAX);
    if (is_sampled) {
        a->skips = 1; /* none is timed any more */
        uint64_t skip = less(time_of(f), without);
        words[WIRE_CLOCKS_LEFT] = INT64_MAX;
        words[WIRE_CLOCKS_CALLER] = a->caller;
        outside = all - inside;
        sampling_begin(all, inside, skip, less(time_of(f), without));
    }
    arc_forget(a);
    top[-1].inner = 0;
}

__attribute__((visibility("hidden"))) void tool_begin(const volatile struct wire_link *note)
{
    static const char magic[] = WIRE_TABLE_MAGIC;
    for (unsigned i = 0; i < sizeof table.magic; i++)
        table.magic[i] = magic[i];
    table.kind = WIRE_TABLE_CLOCKS;
    table.address = (uint64_t)&table;
    table.room = 2 * (((size_t)1 << TABLE_BITS) + TRIES);
    if (is_ready) /* the child of a fork */
        return;
    is_ready = 1;
    waits = (note->flags & WIRE_LINK_SAMPLE_SHORT) != 0;
    measure((note->flags & WIRE_LINK_SAMPLE_SHORT) != 0, note->flags & WIRE_LINK_IN_LINE ? probe_in_line : probe);
    began_ns = wall_ns();
    began_ticks = now();
}

/* Frames that are under way begin anew; what other threads had is theirs. */
__attribute__((visibility("hidden"))) void tool_forked(void)
{
    struct frame *top = get_top();
    uint64_t time = now();
    for (struct block *b = blocks; b; b = b->next)
        for (struct arc *a = b->arcs; a <= &b->lost; a++)
            if (a->site || a == &b->lost)
                arc_begin_again(a);
    for (struct frame *f = top; top && f[-1].place != FIRST_PLACE; f--) {
        f[-1].start = time;
        f[-1].inner = 0;
    }
    began_ns = wall_ns();
    began_ticks = time;
}

static void add_row(uint64_t site, uint64_t caller, const uint64_t of[4])
{
    struct wire_table_entry *e = (struct wire_table_entry *)(&table + 1);
    uint64_t hash = (site ^ caller << 7) * 0x9e3779b97f4a7c15u;
    e += 2 * (hash >> (64 - TABLE_BITS));
    for (unsigned n = 0; n < TRIES; n++, e += 2) {
        if (e->what && (e->what != site || e->where != caller))
            continue;
        e->what = site;
        e->where = caller;
        e->count += of[0];
        e[1].what += of[1];
        e[1].where += of[2];
        e[1].count += of[3];
        return;
    }
    table.lost += of[0];
}

static void add_arc(const struct arc *a)
{
    const struct arc_sums *s = a->of;
    struct sampled sampled = arc_sampled(a);
    if (s->timed.calls)
        add_row(a->site, a->caller, (uint64_t[]){s->timed.calls, s->timed.self, s->timed.all, s->timed.outer});
    if (s->sampled.calls)
        add_row(a->site | WIRE_CLOCKS_SAMPLED, a->caller,
                (uint64_t[]){s->sampled.calls, s->sampled.self, s->sampled.all, s->sampled.outer});
    if (sampled.untimed || s->sampled.calls)
        add_row(a->site | WIRE_CLOCKS_UNTIMED, a->caller,
                (uint64_t[]){sampled.untimed, sampled.self, s->sampled.squares, sampled.recurs});
}

__attribute__((visibility("hidden"))) void tool_end(void)
{
    struct frame *top = get_top();
    uint64_t time = now();
    is_ready = 0;
    while (top && top[-1].place != FIRST_PLACE)
        top = pop(top, time);
    for (struct block *b = blocks; b; b = b->next) {
        for (const struct arc *a = b->arcs; a < &b->lost; a++)
            if (a->site)
                add_arc(a);
        table.lost += b->lost.of->timed.calls;
    }
    table.spare[0] = time - began_ticks;
    table.spare[1] = wall_ns() - began_ns;
    table.spare[2] = taken;
}
