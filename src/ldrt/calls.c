/* SPDX-License-Identifier: Apache-2.0
 * Of programs that count calls: those through pointers, by site and target, and samples of the program counter, one for
 * each tick of processor time. Tables in the section of counters, which is a file's memory (counts.c). An entry is
 * taken by its first word, without a lock, so that signals and threads may come at any time; one that is taken twice is
 * summed up by who reads it. Nothing here is called by, or calls, the C library. */
#include <asm/unistd.h>
#include <stddef.h>

#include "ldrt/call.h"
#include "ldrt/leave.h"
#include "ldrt/runtime.h"
#include "wire/link.h"

enum { ARCS_BITS = 15, SAMPLES_BITS = 13, SLOTS_BITS = 8, TRIES = 64, HEAD = sizeof(struct wire_table) };
#define ENTRIES(bits) (((size_t)1 << (bits)) + TRIES)

/* Sections without bytes: C cannot say so. */
__asm__(".section mtool_counters,\"aw\",@nobits\n"
        ".balign 8\n"
        ".hidden mtool_tool_arcs\n"
        "mtool_tool_arcs: .skip 64 + 24 * ((1 << 15) + 64)\n"
        ".hidden mtool_tool_samples\n"
        "mtool_tool_samples: .skip 64 + 24 * ((1 << 13) + 64)\n"
        ".hidden mtool_tool_slots\n"
        "mtool_tool_slots: .skip 64 + 24 * ((1 << 8) + 64)\n"
        ".text\n");
_Static_assert(ARCS_BITS == 15 && SAMPLES_BITS == 13 && SLOTS_BITS == 8 && TRIES == 64 && HEAD == 64, "as above");
_Static_assert(sizeof(struct wire_table_entry) == 24, "as above");
extern struct wire_table arcs __asm__("mtool_tool_arcs") __attribute__((visibility("hidden")));
extern struct wire_table samples __asm__("mtool_tool_samples") __attribute__((visibility("hidden")));

extern struct wire_table slots __asm__("mtool_tool_slots") __attribute__((visibility("hidden")));

/* ---- tables ---- */

static struct wire_table_entry *entries(struct wire_table *t) { return (struct wire_table_entry *)(t + 1); }

static void add(struct wire_table *t, unsigned bits, uint64_t what, uint64_t where, uint64_t count)
{
    uint64_t hash = (what ^ where << 7) * 0x9e3779b97f4a7c15u;
    struct wire_table_entry *e = entries(t) + (hash >> (64 - bits));
    for (unsigned n = 0; n < TRIES; n++, e++) {
        uint64_t none = 0;
        if (__atomic_load_n(&e->what, __ATOMIC_ACQUIRE) == what &&
            __atomic_load_n(&e->where, __ATOMIC_ACQUIRE) == where) {
            __atomic_fetch_add(&e->count, count, __ATOMIC_RELAXED);
            return;
        }
        if (!e->what && __atomic_compare_exchange_n(&e->what, &none, what, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&e->where, where, __ATOMIC_RELEASE);
            __atomic_fetch_add(&e->count, count, __ATOMIC_RELAXED);
            return;
        }
    }
    __atomic_fetch_add(&t->lost, count, __ATOMIC_RELAXED);
}

static void table_begin(struct wire_table *t, uint64_t kind, unsigned bits)
{
    static const char magic[] = WIRE_TABLE_MAGIC;
    for (unsigned i = 0; i < sizeof t->magic; i++)
        t->magic[i] = magic[i];
    t->kind = kind;
    t->address = (uint64_t)t;
    t->room = ENTRIES(bits);
}

/* ---- calls through pointers ---- */

/* In front of one: r11 has the target, the stack the site. All registers are kept. The way that is mostly taken: the
 * first entry that is asked is the one. */
__asm__(".text\n"
        ".macro site name lock\n"
        ".globl \\name\n"
        ".hidden \\name\n"
        ".type \\name,@function\n"
        ".balign 16\n"
        "\\name:\n"
        ".cfi_startproc\n"
        "pushq %rax\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rcx\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rdx\n.cfi_adjust_cfa_offset 8\n"
        "movq 24(%rsp),%rdx\n"
        "movq %rdx,%rax\n"
        "shlq $7,%rax\n"
        "xorq %r11,%rax\n"
        "movabsq $0x9e3779b97f4a7c15,%rcx\n"
        "imulq %rcx,%rax\n"
        "shrq $64-15,%rax\n"
        "leaq (%rax,%rax,2),%rax\n"
        "leaq 64+mtool_tool_arcs(%rip),%rcx\n"
        "leaq (%rcx,%rax,8),%rcx\n"
        "cmpq %r11,(%rcx)\n"
        "jne 1f\n"
        "cmpq %rdx,8(%rcx)\n"
        "jne 1f\n"
        "\\lock incq 16(%rcx)\n"
        "popq %rdx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rcx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rax\n.cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_adjust_cfa_offset 24\n"
        "1:\n"
        "pushq %rsi\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rdi\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r8\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r9\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r10\n.cfi_adjust_cfa_offset 8\n"
        "movq %r11,%rdi\n"
        "movq %rdx,%rsi\n"
        "call mtool_tool_slow\n"
        "popq %r10\n.cfi_adjust_cfa_offset -8\n"
        "popq %r9\n.cfi_adjust_cfa_offset -8\n"
        "popq %r8\n.cfi_adjust_cfa_offset -8\n"
        "popq %rdi\n.cfi_adjust_cfa_offset -8\n"
        "popq %rsi\n.cfi_adjust_cfa_offset -8\n"
        "popq %rdx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rcx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rax\n.cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size \\name,.-\\name\n"
        ".endm\n"
        "site mtool_indirect\n"
        "site mtool_indirect_locked lock\n"
        ".purgem site\n");
_Static_assert(ARCS_BITS == 15, "as above");

/* r11 may be the program's again when this returns: the site saved it. */
__attribute__((used, visibility("hidden"))) void slow(uint64_t target, uint64_t site) __asm__("mtool_tool_slow");
void slow(uint64_t target, uint64_t site) { add(&arcs, ARCS_BITS, target, site, 1); }

/* ---- samples ---- */

enum {
    SIGPROF_ = 27,
    TICK_NS = 1000000,
    SIGEV_SIGNAL_ = 0,
    PROCESS_CLOCK = 2,
    SA_SIGINFO_ = 4,
    SA_RESTORER_ = 0x04000000
};
enum { SA_ONSTACK_ = 0x08000000, SA_RESTART_ = 0x10000000, OVERRUN_AT = 20, RIP_AT = 168, TIMER_AT = 16 };

struct action {
    void (*handler)(int, void *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};
struct event { /* struct sigevent */
    uint64_t value;
    int signal, notify;
    char more[48];
};
struct span { /* struct itimerspec */
    int64_t every_s, every_ns, first_s, first_ns;
};

__asm__(".text\n"
        ".type mtool_tool_restore,@function\n"
        "nop\n" /* an unwinder looks at the byte in front of a return address */
        "mtool_tool_restore: movq $15,%rax\n"
        "syscall\n"
        ".size mtool_tool_restore,.-mtool_tool_restore\n");
extern void restore(void) __asm__("mtool_tool_restore") __attribute__((visibility("hidden")));

static void note_time(void)
{
    int64_t now[2] = {0, 0};
    if (call(__NR_clock_gettime, PROCESS_CLOCK, (long)now, 0, 0) == 0)
        samples.spare[0] = (uint64_t)now[0] * 1000000000u + (uint64_t)now[1];
}

static void sample(int number, void *info, void *context)
{
    int overrun;
    uint64_t at;
    (void)number;
    __builtin_memcpy(&overrun, (char *)info + OVERRUN_AT, sizeof overrun);
    __builtin_memcpy(&at, (char *)context + RIP_AT, sizeof at);
    add(&samples, SAMPLES_BITS, at, 1, 1 + (uint64_t)(overrun > 0 ? overrun : 0));
    note_time();
}

/* A program that takes the signal for itself keeps it, and is not sampled. The timer is of processor time: it does not
 * outlive an exec, and a child of a fork has none. */
static void begin_samples(void)
{
    struct action was = {0}, mine = {sample, SA_SIGINFO_ | SA_RESTORER_ | SA_RESTART_ | SA_ONSTACK_, restore, 0};
    struct event event = {0, SIGPROF_, SIGEV_SIGNAL_, {0}};
    struct span span = {0, TICK_NS, 0, TICK_NS};
    int timer = 0;
    if (call(__NR_rt_sigaction, SIGPROF_, 0, (long)&was, 8) < 0 || (was.handler && was.handler != sample))
        return;
    if (call(__NR_rt_sigaction, SIGPROF_, (long)&mine, 0, 8) < 0 ||
        call(__NR_timer_create, PROCESS_CLOCK, (long)&event, (long)&timer, 0) < 0)
        return;
    call(__NR_timer_settime, timer, 0, (long)&span, 0);
}

/* ---- what the start-up chose ---- */

enum { DT_RELA_ = 7, DT_RELASZ_ = 8, DT_PLTRELSZ_ = 2, DT_JMPREL_ = 23, IRELATIVE = 37 };
struct rela {
    uint64_t offset, info;
    int64_t addend;
};
struct dynamic {
    int64_t tag;
    uint64_t value;
};
/* Of programs that are not position-independent, and linked statically: the linker's; of others what the dynamic
 * section says. */
extern const struct rela rela_begin[] __asm__("__rela_iplt_start") __attribute__((weak, visibility("hidden")));
extern const struct rela rela_end[] __asm__("__rela_iplt_end") __attribute__((weak, visibility("hidden")));
extern const struct dynamic dynamic[] __asm__("_DYNAMIC") __attribute__((weak, visibility("hidden")));
extern const char head[] __asm__("__ehdr_start") __attribute__((weak, visibility("hidden")));

static void add_slots(const struct rela *r, const struct rela *end, uint64_t base)
{
    for (; r && r < end; r++)
        if ((uint32_t)r->info == IRELATIVE) {
            uint64_t chosen;
            __builtin_memcpy(&chosen, (const char *)(base + r->offset), sizeof chosen);
            add(&slots, SLOTS_BITS, chosen, base + r->offset, 1);
        }
}

/* Addresses in it are the file's, or, where the dynamic linker was there, already those of the process. */
static const struct rela *at(uint64_t value, uint64_t base)
{
    return (const struct rela *)(value < base ? base + value : value);
}

static void take_slots(void)
{
    uint64_t base = 0, rela = 0, size = 0, jumps = 0, jumps_size = 0;
    if (!dynamic || !head) {
        add_slots(rela_begin, rela_end, 0);
        return;
    }
    uint16_t type;
    __builtin_memcpy(&type, head + 16, sizeof type);
    base = type == 3 ? (uint64_t)head : 0; /* ET_DYN begins at 0 */
    for (const struct dynamic *d = dynamic; d->tag; d++) {
        rela = d->tag == DT_RELA_ ? d->value : rela;
        size = d->tag == DT_RELASZ_ ? d->value : size;
        jumps = d->tag == DT_JMPREL_ ? d->value : jumps;
        jumps_size = d->tag == DT_PLTRELSZ_ ? d->value : jumps_size;
    }
    if (rela)
        add_slots(at(rela, base), at(rela, base) + size / sizeof(struct rela), base);
    if (jumps && (jumps < rela || jumps >= rela + size))
        add_slots(at(jumps, base), at(jumps, base) + jumps_size / sizeof(struct rela), base);
}

/* ---- begin and end ---- */

__attribute__((visibility("hidden"))) void tool_begin(const volatile struct wire_link *note)
{
    table_begin(&arcs, WIRE_TABLE_ARCS, ARCS_BITS);
    table_begin(&samples, WIRE_TABLE_SAMPLES, SAMPLES_BITS);
    table_begin(&slots, WIRE_TABLE_SLOTS, SLOTS_BITS);
    take_slots();                          /* relocations are done when initialisers are called */
    if (!(note->flags & WIRE_LINK_SHARED)) /* of several files in a process one samples, which is never unloaded */
        begin_samples();
}

__attribute__((visibility("hidden"))) void tool_end(void) { note_time(); }
__attribute__((visibility("hidden"))) void tool_lasts(void) {}
