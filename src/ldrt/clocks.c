/* SPDX-License-Identifier: Apache-2.0
 * Of programs with exact clocks: where a function begins its frame is put on a stack of its own, with the time; where
 * it ends, the time since then is the arc's, by caller and function, and is told the frame below, whose own time it is
 * not. Each thread has a block of memory: that stack, the arcs, and of each function how often it is under way, so that
 * what recurs is not counted twice. They are added up at the end into a table among the counters.
 *
 * Frames are known by the place of their return address. Those that a jump, an exception or a tail call left behind lie
 * at or below a new one's place, and end when that is noticed: where an exception lands, another function begins, or
 * one of those around them ends. On another stack (coroutines) frames are simply farther apart. A handler of a signal
 * may come at any time: a frame is taken before it is filled, and read before it is given back.
 */
#include <asm/unistd.h>
#include <stddef.h>

#include "ldrt/call.h"
#include "ldrt/runtime.h"
#include "wire/link.h"

enum { STACK = 1 << 20, FRAME = 32, ARCS_BITS = 14, ARC = 64, FUNCS_BITS = 13, TRIES = 32, HEAD = 64 };
enum { TABLE_BITS = 15, FAR_AWAY = 64 << 10 };

struct arc {
    uint64_t site, caller, calls, self, all, outer;
    struct func *func;
    uint64_t pad;
};
struct func {
    uint64_t site, depth;
};
struct frame {
    uint64_t place;
    struct arc *arc; /* NULL: not filled yet */
    uint64_t start, inner;
};
struct block { /* of a thread; at a multiple of its stack's size */
    struct frame frames[STACK / FRAME];
    struct arc arcs[(1 << ARCS_BITS) + TRIES];
    struct arc lost;
    struct func funcs[(1 << FUNCS_BITS) + TRIES];
    struct func lost_func;
    struct block *next;
    int thread; /* whose it is: of one that is gone another takes it over, with what it counted */
};
_Static_assert(sizeof(struct arc) == ARC && sizeof(struct frame) == FRAME, "as the code below has it");
_Static_assert(offsetof(struct block, arcs) == STACK, "likewise");

__asm__(".section mtool_counters,\"aw\",@nobits\n"
        ".balign 8\n"
        ".hidden mtool_tool_table\n"
        "mtool_tool_table: .skip 64 + 24 * 2 * ((1 << 15) + 32)\n"
        ".section .tbss,\"awT\",@nobits\n"
        ".balign 8\n"
        ".hidden mtool_tool_top\n"
        ".type mtool_tool_top,@object\n"
        ".size mtool_tool_top,8\n"
        "mtool_tool_top: .skip 8\n"
        ".text\n");
_Static_assert(TABLE_BITS == 15 && TRIES == 32 && HEAD == 64 && sizeof(struct wire_table) == HEAD, "as above");
extern struct wire_table table __asm__("mtool_tool_table") __attribute__((visibility("hidden")));

static uint64_t is_ready __asm__("mtool_tool_ready") __attribute__((used));
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
        "cmpb $0,mtool_tool_ready(%rip)\n"
        "jne 1f\n"
        "ret\n"
        "1:\n"
        "keep\n"
        ".endm\n"
        ".macro hook_end name\n"
        ".cfi_endproc\n.size \\name,.-\\name\n"
        ".endm\n"

        "hook mtool_enter\n"
        "movq mtool_tool_top@gottpoff(%rip),%rsi\n"
        "movq %fs:(%rsi),%rcx\n"
        "leaq 48(%rsp),%rdx\n"
        "testq %rcx,%rcx\n"
        "je 2f\n"
        "cmpq %rdx,-32(%rcx)\n"
        "jbe 2f\n"
        "movq %rdx,(%rcx)\n"
        "movq $0,8(%rcx)\n"
        "leaq 32(%rcx),%rax\n"
        "testl $0xfffff,%eax\n"
        "je 2f\n"
        "movq %rax,%fs:(%rsi)\n"
        "movq 40(%rsp),%rax\n"
        "movq (%rdx),%rdx\n"
        "leaq (%rax,%rdx,8),%rsi\n"
        "imulq $0x1e3779b1,%rsi,%rsi\n"
        "shrq $22,%rsi\n"
        "andl $(1<<14)-1,%esi\n"
        "shll $6,%esi\n"
        "movq %rcx,%rdi\n"
        "andq $-0x100000,%rdi\n"
        "leaq 0x100000(%rdi,%rsi),%rdi\n"
        "cmpq %rax,(%rdi)\n"
        "jne 3f\n"
        "cmpq %rdx,8(%rdi)\n"
        "jne 3f\n"
        "movq %rdi,8(%rcx)\n"
        "movq 48(%rdi),%rax\n"
        "incq 8(%rax)\n"
        "rdtsc\n"
        "shlq $32,%rdx\n"
        "orq %rdx,%rax\n"
        "movq %rax,16(%rcx)\n"
        "movq $0,24(%rcx)\n"
        "give_back\n"
        ".cfi_adjust_cfa_offset 40\n"
        "3:\n" /* the arc is another's, or new: the frame is given back */
        "movq mtool_tool_top@gottpoff(%rip),%rsi\n"
        "movq %rcx,%fs:(%rsi)\n"
        "2:\n"
        "slowly mtool_tool_enter\n"
        "give_back\n"
        "hook_end mtool_enter\n"

        "hook mtool_leave\n"
        "rdtsc\n"
        "shlq $32,%rdx\n"
        "orq %rdx,%rax\n"
        "movq mtool_tool_top@gottpoff(%rip),%rsi\n"
        "movq %fs:(%rsi),%rcx\n"
        "leaq 48(%rsp),%rdx\n"
        "testq %rcx,%rcx\n"
        "je 2f\n"
        "cmpq %rdx,-32(%rcx)\n"
        "jne 2f\n"
        "movq -24(%rcx),%rdi\n"
        "testq %rdi,%rdi\n"
        "je 2f\n"
        "movq %rax,%rdx\n"
        "subq -16(%rcx),%rdx\n"
        "movq -8(%rcx),%rax\n"
        "leaq -32(%rcx),%rcx\n"
        "movq %rcx,%fs:(%rsi)\n"
        "addq %rdx,-8(%rcx)\n"
        "incq 16(%rdi)\n"
        "addq %rdx,32(%rdi)\n"
        "movq %rdx,%rsi\n"
        "subq %rax,%rsi\n"
        "addq %rsi,24(%rdi)\n"
        "movq 48(%rdi),%rax\n"
        "decq 8(%rax)\n"
        "jne 1f\n"
        "addq %rdx,40(%rdi)\n"
        "1:\n"
        "give_back\n"
        ".cfi_adjust_cfa_offset 40\n"
        "2:\n"
        "movq %rax,%rdx\n"
        "slowly mtool_tool_leave\n"
        "give_back\n"
        "hook_end mtool_leave\n"

        "hook mtool_landed\n"
        "slowly mtool_tool_landed\n"
        "give_back\n"
        "hook_end mtool_landed\n"
        ".purgem keep\n.purgem give_back\n.purgem slowly\n.purgem hook\n.purgem hook_end\n");

/* ---- the thread's word ---- */

static struct frame *get_top(void)
{
    struct frame *top;
    __asm__ volatile("movq mtool_tool_top@gottpoff(%%rip),%0\n\tmovq %%fs:(%0),%0" : "=r"(top));
    return top;
}

static void set_top(struct frame *top)
{
    uint64_t at;
    __asm__ volatile("movq mtool_tool_top@gottpoff(%%rip),%0\n\tmovq %1,%%fs:(%0)" : "=&r"(at) : "r"(top) : "memory");
}

static uint64_t now(void) { return __builtin_ia32_rdtsc(); }

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
        return &old->frames[1];
    }
    long at = call6(__NR_mmap, 0, (long)all, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, -1, 0);
    if (at < 0)
        return 0;
    struct block *b = (struct block *)(((uint64_t)at + STACK - 1) & ~(uint64_t)(STACK - 1));
    b->frames[0].place = UINT64_MAX;
    b->lost.func = &b->lost_func;
    b->thread = thread;
    do
        b->next = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&blocks, &b->next, b, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
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
            a->func = func_of(b, site);
            a->caller = caller;
            a->site = site;
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
    uint64_t all = time - f.start;
    if (!f.arc)
        return top;
    top[-1].inner += all;
    f.arc->calls++;
    f.arc->all += all;
    f.arc->self += all - f.inner;
    if (--f.arc->func->depth == 0)
        f.arc->outer += all;
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
    if (!top)
        top = make_block();
    if (!top)
        return;
    top = pop_left(top, (uint64_t)place);
    if (!((uint64_t)(top + 1) & (STACK - 1))) /* full: it is its caller's */
        return;
    top->place = (uint64_t)place;
    top->arc = 0;
    top->inner = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    set_top(top + 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    struct arc *a = arc_of(block_of(top), site, *place);
    a->func->depth++;
    top->start = now();
    top->arc = a;
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
        ".type mtool_tool_plain,@function\n"
        "mtool_tool_plain: ret\n"
        ".size mtool_tool_plain,.-mtool_tool_plain\n");
extern void probe(void) __asm__("mtool_tool_probe") __attribute__((visibility("hidden")));
extern void plain(void) __asm__("mtool_tool_plain") __attribute__((visibility("hidden")));

static uint64_t time_of(void (*f)(void))
{
    uint64_t best = UINT64_MAX;
    for (int t = 0; t < TIMES; t++) {
        uint64_t from = now();
        for (int i = 0; i < TURNS; i++)
            f();
        uint64_t ticks = now() - from;
        best = ticks < best ? ticks : best;
    }
    return best / TURNS;
}

/* What a pair of looks at the clock takes, all of it and what of it is between them. The arc that it made is forgotten.
 */
static void measure(void)
{
    uint64_t with = time_of(probe), without = time_of(plain), inside = UINT64_MAX;
    struct frame *top = get_top();
    for (struct arc *a = top ? block_of(top)->arcs : 0; top && a < &block_of(top)->lost; a++)
        if (a->site) {
            uint64_t each = a->calls ? a->self / a->calls : 0;
            inside = each < inside ? each : inside;
            a->func->site = 0;
            *a = (struct arc){0};
        }
    if (!top || inside == UINT64_MAX)
        return;
    top[-1].inner = 0;
    uint64_t all = with > without ? with - without : 0;
    taken = (inside < all ? inside : all) << 32 | (all & UINT32_MAX);
}

__attribute__((visibility("hidden"))) void tool_begin(const volatile struct wire_link *note)
{
    static const char magic[] = WIRE_TABLE_MAGIC;
    (void)note;
    for (unsigned i = 0; i < sizeof table.magic; i++)
        table.magic[i] = magic[i];
    table.kind = WIRE_TABLE_CLOCKS;
    table.address = (uint64_t)&table;
    table.room = 2 * (((size_t)1 << TABLE_BITS) + TRIES);
    if (is_ready) /* the child of a fork */
        return;
    is_ready = 1;
    measure();
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
                a->calls = a->self = a->all = a->outer = 0;
    for (struct frame *f = top; top && f[-1].place != UINT64_MAX; f--) {
        f[-1].start = time;
        f[-1].inner = 0;
    }
    began_ns = wall_ns();
    began_ticks = time;
}

static void add_arc(const struct arc *a)
{
    struct wire_table_entry *e = (struct wire_table_entry *)(&table + 1);
    uint64_t hash = (a->site ^ a->caller << 7) * 0x9e3779b97f4a7c15u;
    e += 2 * (hash >> (64 - TABLE_BITS));
    for (unsigned n = 0; n < TRIES; n++, e += 2) {
        if (e->what && (e->what != a->site || e->where != a->caller))
            continue;
        e->what = a->site;
        e->where = a->caller;
        e->count += a->calls;
        e[1].what += a->self;
        e[1].where += a->all;
        e[1].count += a->outer;
        return;
    }
    table.lost += a->calls;
}

__attribute__((visibility("hidden"))) void tool_end(void)
{
    struct frame *top = get_top();
    uint64_t time = now();
    is_ready = 0;
    while (top && top[-1].place != UINT64_MAX)
        top = pop(top, time);
    for (struct block *b = blocks; b; b = b->next) {
        for (const struct arc *a = b->arcs; a < &b->lost; a++)
            if (a->site && a->calls)
                add_arc(a);
        table.lost += b->lost.calls;
    }
    table.spare[0] = time - began_ticks;
    table.spare[1] = wall_ns() - began_ns;
    table.spare[2] = taken;
}
