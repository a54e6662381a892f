/* SPDX-License-Identifier: Apache-2.0
 * Of programs with exact clocks: where a function begins its frame is put on a stack of its own, with the time; where
 * it ends, the time since then is the arc's, by caller and function, and is told the frame below, whose own time it is
 * not. Each thread has a block of memory: that stack, the arcs, and of each function how often it is under way, so that
 * what recurs is not counted twice. They are added up at the end into a table among the counters. Which calls are not
 * timed, where short ones are sampled: clocks_sampling.h.
 *
 * Frames are known by the place of their return address. Those that a jump, an exception or a tail call left behind lie
 * at or below a new one's place, and end when that is noticed: where an exception lands, another function begins, or
 * one of those around them ends. On another stack (coroutines) frames are simply farther apart.
 *
 * A handler of a signal may come at any instruction and call the same functions. Frames above the last one are
 * empty: one is taken by one instruction, and then filled; it is emptied, and then given back by one. So a handler
 * finds empty what it interrupts, and leaves it so. All that is counted is counted by one instruction.
 */
#include "ldrt/clocks_sampling.h"

#include <asm/unistd.h>
#include <stddef.h>

#include "ldrt/call.h"
#include "ldrt/clocks_hooks.h"
#include "ldrt/leave.h"
#include "ldrt/runtime.h"

enum { STACK = 1 << 20, FRAME = 32, ARCS_BITS = 14, ARC = 64, FUNCS_BITS = 13, TRIES = 32, HEAD = 64 };
enum { TABLE_BITS = 15, FAR_AWAY = 64 << 10 };
#define FIRST_PLACE ((uint64_t)INT64_MAX) /* above all others */

struct frame {
    uint64_t place;    /* 0: empty, or just being filled or emptied */
    struct sums *sums; /* NULL: not filled yet, or no longer */
    uint64_t start;    /* 0: not looked at the clock yet */
    uint64_t inner;
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
_Static_assert(offsetof(struct arc, left) == 16 && offsetof(struct arc, sums) == 32 && TIMED == 1ll << 62, "likewise");
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
    __asm__ volatile("movq mtool_tool_top@gottpoff(%%rip),%0\n\tmovq %1,%%fs:(%0)" : "=&r"(at) : "r"(top) : "memory");
}

static void set_arcs(struct arc *arcs)
{
    uint64_t at;
    __asm__ volatile("movq mtool_tool_top@gottpoff(%%rip),%0\n\tmovq %1,%%fs:8(%0)" : "=&r"(at) : "r"(arcs) : "memory");
}

static void wait(void)
{
    if (waits)
        __asm__ volatile("lfence" ::: "memory");
}

static uint64_t now(void)
{
    wait();
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
        for (struct frame *f = old->frames + 1; f[0].place || f[1].place || f[0].sums || f[1].sums; f++)
            f->place = 0, f->sums = 0;
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
        uint64_t none = 0;
        if (!f->site)
            __atomic_compare_exchange_n(&f->site, &none, site, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (f->site == site)
            return f;
    }
    return &b->lost_func;
}

static struct arc *arc_of(struct block *b, uint64_t site, uint64_t caller)
{
    uint64_t hash = (site + 8 * caller) * 0x1e3779b1u;
    struct arc *a = &b->arcs[hash >> 22 & ((1 << ARCS_BITS) - 1)];
    for (unsigned n = 0; n < TRIES; n++, a++) {
        uint64_t none = 0;
        if (!a->site && __atomic_compare_exchange_n(&a->is_taken, &none, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            arc_begin(a, site, caller, &b->sums[a - b->arcs], func_of(b, site));
            return a;
        }
        if (a->site == site && a->caller == caller)
            return a;
    }
    return &b->lost;
}

/* ---- the other ways ---- */

/* The last one. Of two that end it, as a handler may while this is under way, one counts it. */
static void pop(uint64_t time)
{
    struct frame *top = get_top() - 1;
    uint64_t start = top->start, inner = top->inner, all = start ? time - start : 0;
    struct sums *sums = __atomic_exchange_n(&top->sums, 0, __ATOMIC_RELAXED);
    top->place = 0;
    last_place = top[-1].place;
    set_top(top);
    if (!sums)
        return;
    add_to(&top[-1].inner, all + outside);
    sums_add(sums, all, start ? all - inner : 0);
}

/* Those that lie at or below a place, on the same stack, and what is empty above them: where one is empty because it
 * was interrupted, those below it are above the place. */
static struct frame *pop_left(uint64_t place)
{
    uint64_t time = now();
    for (;;) {
        struct frame *top = get_top(), *last = top;
        while (!last[-1].place)
            last--;
        if (last[-1].place > place || place - last[-1].place >= FAR_AWAY)
            return top;
        pop(time);
    }
}

static void push(struct frame *top, uint64_t place, struct sums *sums)
{
    set_top(top + 1);
    top->start = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    top->sums = sums;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    add_to(&sums->func->depth, 1);
    top->place = place;
    last_place = place;
    top->start = now();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    top->inner = 0;
    wait();
}

__attribute__((used, visibility("hidden"))) void slow_enter(uint64_t *place, uint64_t site) __asm__("mtool_tool_enter");
void slow_enter(uint64_t *place, uint64_t site)
{
    struct frame *top = get_top();
    if (!top && is_ready) {
        top = make_block();
        if (top) {
            set_top(top);
            set_arcs(block_of(top)->arcs); /* a handler may have made a block meanwhile */
        }
    }
    if (!top)
        return;
    top = pop_left((uint64_t)place);
    if (!((uint64_t)(top + 1) & (STACK - 1))) /* full: it is its caller's */
        return;
    struct arc *a = arc_of(block_of(top), site, *place);
    enum next next = arc_next(a);
    if (next == IS_SKIPPED)
        return;
    if (next == DECIDES)
        add_to(&top[-1].inner, arc_decide(a, &block_of(top)->sampler));
    push(top, (uint64_t)place, a->sums);
}

/* As many calls of an arc as were allowed have been: what now? */
__attribute__((used, visibility("hidden"))) struct arc *decide(const uint64_t *place,
                                                               uint64_t site) __asm__("mtool_tool_decide");
struct arc *decide(const uint64_t *place, uint64_t site)
{
    struct frame *top = get_top();
    struct block *b = block_of(top);
    struct arc *a = arc_of(b, site, *place);
    add_to(&top[-1].inner, arc_decide(a, &b->sampler));
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
    while (!f[-1].place || (f[-1].place < (uint64_t)place && (uint64_t)place - f[-1].place < FAR_AWAY))
        f--;
    if (f[-1].place != (uint64_t)place) /* it began before all this */
        return;
    while (get_top() >= f)
        pop(time);
}

/* In the function whose frame is above: what is below was left. */
__attribute__((used, visibility("hidden"))) void landed(uint64_t *place, uint64_t site) __asm__("mtool_tool_landed");
void landed(uint64_t *place, uint64_t site)
{
    (void)site;
    if (get_top())
        pop_left((uint64_t)place - 1);
}

/* ---- begin and end ---- */

enum { MONOTONIC = 1, TURNS = 2000, TIMES = 5 };
static uint64_t began_ticks, began_ns;
static uint64_t taken, taken_most; /* what a pair of looks at the clock takes; and, more than that, if none is lost */

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
        ".size mtool_tool_plain,.-mtool_tool_plain\n"
        /* The same around what waits for itself from call to call, so that nothing of it can go on beside others. */
        ".macro chain\n"
        ".rept 12\n"
        "imulq %rdx,%rdx\n"
        ".endr\n"
        ".endm\n"
        ".type mtool_tool_probe_chain,@function\n"
        "mtool_tool_probe_chain: call mtool_enter\n"
        "chain\n"
        "call mtool_leave\n"
        "ret\n"
        ".size mtool_tool_probe_chain,.-mtool_tool_probe_chain\n"
        ".type mtool_tool_chain,@function\n"
        "mtool_tool_chain: chain\n"
        "ret\n"
        ".size mtool_tool_chain,.-mtool_tool_chain\n"
        ".purgem chain\n");
extern void probe_chain(void) __asm__("mtool_tool_probe_chain") __attribute__((visibility("hidden")));
extern void chain(void) __asm__("mtool_tool_chain") __attribute__((visibility("hidden")));
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

/* Of a call, in parts of a tick, as all that follows. */
static uint64_t time_of(void (*f)(void))
{
    uint64_t best = UINT64_MAX / PARTS;
    for (int t = 0; t < TIMES; t++) {
        uint64_t from = now();
        turns(f);
        uint64_t ticks = now() - from;
        best = ticks < best ? ticks : best;
    }
    return best * PARTS / TURNS;
}

/* Of a call, between its looks. */
static uint64_t time_inside(void (*f)(void), const struct sums *s)
{
    uint64_t best = UINT64_MAX / PARTS;
    for (int t = 0; t < TIMES; t++) {
        uint64_t from = s->self;
        turns(f);
        uint64_t ticks = s->self - from;
        best = ticks < best ? ticks : best;
    }
    return best * PARTS / TURNS;
}

static struct arc *first_arc(struct block *b)
{
    struct arc *a = b->arcs;
    while (a < &b->lost && !a->site)
        a++;
    return a;
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Of a call that does something, as functions do: part of what is between the looks goes on beside it. */
static uint64_t time_beside(struct block *b)
{
    uint64_t alone = time_of(chain), inside = 0;
    turns(probe_chain);
    struct arc *a = first_arc(b);
    if (a == &b->lost || !a->sums->calls)
        return 0;
    inside = time_inside(probe_chain, a->sums);
    arc_forget(a);
    return less(inside, alone);
}

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
    if (is_sampled) {
        a->skips = 1; /* none is timed any more */
        a->left = MANY;
        uint64_t skip = less(time_of(f), without);
        words[WIRE_CLOCKS_LEFT] = INT64_MAX;
        words[WIRE_CLOCKS_CALLER] = a->caller;
        uint64_t skip_in_line = less(time_of(f), without);
        arc_forget(a);
        uint64_t beside = time_beside(block_of(top));
        taken_most = less(inside, beside) + PARTS;
        inside = inside < beside ? inside : beside;
        outside = (all - inside) / PARTS;
        sampling_begin(all, inside, skip, skip_in_line);
    } else {
        arc_forget(a);
    }
    taken = inside << 32 | (all & UINT32_MAX);
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
    while ((top = get_top()) && top[-1].place != FIRST_PLACE)
        pop(time);
    for (struct block *b = blocks; b; b = b->next) {
        for (const struct arc *a = b->arcs; a < &b->lost; a++)
            if (a->site)
                add_arc(a);
        table.lost += b->lost.of->timed.calls;
    }
    table.spare[0] = time - began_ticks;
    table.spare[1] = wall_ns() - began_ns;
    table.spare[2] = taken;
    if (taken_most)
        add_row(WIRE_CLOCKS_SAMPLED | WIRE_CLOCKS_UNTIMED, 0, (uint64_t[]){taken_most, 0, 0, 0});
}
