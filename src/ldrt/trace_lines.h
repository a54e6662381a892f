/* SPDX-License-Identifier: Apache-2.0
 *
 * Of a thread that is traced into caches alone: the state that inserted code knows, and what that asks of a line which
 * is not the last one of its place, or was not written to (trace_kept.h).
 */
#ifndef MTOOL_LDRT_TRACE_LINES_H
#define MTOOL_LDRT_TRACE_LINES_H

#include <stddef.h>

#include "ldrt/trace_kept.h"
#include "wire/trace.h"

/* Of a chunk's spare: so far parts that are begun go at most, and what they tell of lines before. */
enum { TOLD_BEHIND_LIMIT = WIRE_TRACE_SPARE / 2 };
enum { TOLD_LOOKED_AT = 1024, REST = 32768 };

struct state { /* of a thread; inserted code knows what stands before `chunk` */
    uint64_t mine;
    uint64_t put, limit; /* limit 0: there is no chunk */
    uint64_t counts, mask;
    struct wire_trace_kept *kept; /* if it has counts */
    uint64_t rests;               /* for so many more lines none are kept */
    uint64_t forgets;             /* lines were touched that are not kept: none is known any more */
    struct wire_trace_slot slots[WIRE_TRACE_SLOTS];
    uint64_t chunk;
    uint64_t segment;         /* that it began last */
    const struct state *self; /* NULL: it was wiped */
    uint64_t is_busy;         /* it begins a segment */
    uint32_t thread, module;
    struct state *next;   /* of all that were made */
    uint64_t since, told; /* whether it is worth while to keep lines: so many were told since the clock was `since` */
    uint64_t number;      /* of its counts, and 1; 0: it has none */
};
_Static_assert(offsetof(struct state, put) == WIRE_TRACE_STATE_PUT &&
                   offsetof(struct state, limit) == WIRE_TRACE_STATE_LIMIT &&
                   offsetof(struct state, counts) == WIRE_TRACE_STATE_COUNTS &&
                   offsetof(struct state, mask) == WIRE_TRACE_STATE_MASK &&
                   offsetof(struct state, slots) == WIRE_TRACE_STATE_SLOTS,
               "as inserted code has it");
_Static_assert(offsetof(struct state, rests) == 48 && WIRE_TRACE_STATE_MASK == 32 && WIRE_TRACE_STATE_SLOTS == 64 &&
                   offsetof(struct wire_trace_slot, written) == 8 && WIRE_TRACE_LINE_SHIFT - WIRE_TRACE_SLOT_SHIFT == 2,
               "as the code below has it");
_Static_assert(offsetof(struct state, kept) == 40 && offsetof(struct wire_trace_kept, places) == 64 &&
                   offsetof(struct wire_trace_kept, moved) == 8 && offsetof(struct wire_trace_kept, clock) == 16 &&
                   offsetof(struct wire_trace_place, stamps) == 64 &&
                   offsetof(struct wire_trace_place, generation) == 136 &&
                   offsetof(struct wire_trace_place, written) == 144 &&
                   sizeof(struct wire_trace_place) == 12 << WIRE_TRACE_SLOT_SHIFT,
               "likewise");
_Static_assert(offsetof(struct kept_arguments, line) == 16, "likewise");
_Static_assert(sizeof(struct state) <= WIRE_TRACE_PAGE, "the page behind it is nobody's");

static volatile struct wire_trace *all;

static struct state *get_state(void)
{
    struct state *s;
    __asm__ volatile("movq mtool_trace_state@gottpoff(%%rip),%0\n\tmovq %%fs:(%0),%0" : "=r"(s));
    return s;
}

/* ---- what inserted code calls ---- */

/* Of a function in assembler that C code does the work of: what it may change but flags is kept; rbp points to it. The
 * stack pointer may have been moved when it is given back, and the function returns. */
#define KEEP_REGISTERS                                                                                                 \
    ".cfi_startproc\n"                                                                                                 \
    "pushq %rbp\n.cfi_adjust_cfa_offset 8\n"                                                                           \
    ".cfi_offset %rbp,-16\n"                                                                                           \
    "movq %rsp,%rbp\n"                                                                                                 \
    ".cfi_def_cfa_register %rbp\n"                                                                                     \
    "pushq %rax\n"                                                                                                     \
    "pushq %rcx\n"                                                                                                     \
    "pushq %rdx\n"                                                                                                     \
    "pushq %rsi\n"                                                                                                     \
    "pushq %rdi\n"                                                                                                     \
    "pushq %r8\n"                                                                                                      \
    "pushq %r9\n"                                                                                                      \
    "pushq %r10\n"                                                                                                     \
    "pushq %r11\n"
#define GIVE_BACK_REGISTERS                                                                                            \
    "leaq -72(%rbp),%rsp\n"                                                                                            \
    "popq %r11\n"                                                                                                      \
    "popq %r10\n"                                                                                                      \
    "popq %r9\n"                                                                                                       \
    "popq %r8\n"                                                                                                       \
    "popq %rdi\n"                                                                                                      \
    "popq %rsi\n"                                                                                                      \
    "popq %rdx\n"                                                                                                      \
    "popq %rcx\n"                                                                                                      \
    "popq %rax\n"                                                                                                      \
    "popq %rbp\n"                                                                                                      \
    ".cfi_def_cfa %rsp,8\n"                                                                                            \
    "ret\n"                                                                                                            \
    ".cfi_endproc\n"

__asm__(".text\n"
        /* [rsp+8]: struct kept_arguments */
        ".macro kept name function\n"
        ".globl \\name\n"
        ".hidden \\name\n"
        ".type \\name,@function\n"
        ".balign 32\n"
        "\\name:\n" KEEP_REGISTERS "leaq 16(%rbp),%rdi\n"
        "andq $-16,%rsp\n"
        "cld\n"
        "call \\function\n" GIVE_BACK_REGISTERS ".size \\name,.-\\name\n"
        ".endm\n"
        /* A line that is kept, as reach_line has it. And while none are kept: then all is told, and the line is the
         * last one of its place, as mark_line has it. */
        ".macro give_back\n"
        "popq %r9\n.cfi_adjust_cfa_offset -8\n"
        "popq %r8\n.cfi_adjust_cfa_offset -8\n"
        "popq %rdi\n.cfi_adjust_cfa_offset -8\n"
        "popq %rsi\n.cfi_adjust_cfa_offset -8\n"
        "popq %rdx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rcx\n.cfi_adjust_cfa_offset -8\n"
        "popq %rax\n.cfi_adjust_cfa_offset -8\n"
        ".endm\n"
        ".globl mtool_trace_line\n"
        ".hidden mtool_trace_line\n"
        ".type mtool_trace_line,@function\n"
        ".balign 32\n"
        "mtool_trace_line:\n"
        ".cfi_startproc\n"
        "pushq %rax\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rcx\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rdx\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rsi\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rdi\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r8\n.cfi_adjust_cfa_offset 8\n"
        "pushq %r9\n.cfi_adjust_cfa_offset 8\n"
        ".cfi_remember_state\n"
        "movq mtool_trace_state@gottpoff(%rip),%rax\n"
        "movq %fs:(%rax),%rax\n"
        "movq 80(%rsp),%rcx\n" /* line, and 1 */
        "movq %rcx,%rdx\n"
        "shrq $2,%rdx\n"
        "andq 32(%rax),%rdx\n" /* slot */
        "andq $-2,%rcx\n"
        "cmpq $0,48(%rax)\n"
        "jne 3f\n"
        "movq 40(%rax),%rdi\n"
        "leaq (%rdx,%rdx,2),%rsi\n"
        "leaq 64(%rdi,%rsi,4),%rsi\n" /* place */
        "movq (%rdi),%r8\n"
        "cmpq %r8,136(%rsi)\n"
        "jne 2f\n"
        "xorl %r8d,%r8d\n"
        "xorl %r9d,%r9d\n"
        ".irp at,56,48,40,32,24,16,8,0\n"
        "cmpq %rcx,\\at(%rsi)\n"
        "sete %r9b\n"
        "leal (%r9,%r8,2),%r8d\n"
        ".endr\n"
        "testl %r8d,%r8d\n"
        "je 2f\n"
        "rep bsfl %r8d,%r8d\n"
        "movq 144(%rsi),%r9\n"
        "btq %r8,%r9\n"
        "sbbq %r9,%r9\n"
        "notq %r9\n"
        "orq %rcx,%r9\n" /* the line if it was written to, else all ones */
        "testb $1,80(%rsp)\n"
        "je 1f\n"
        "cmpq %rcx,%r9\n"
        "jne 2f\n"
        "1:\n"
        "movq %rcx,64(%rax,%rdx)\n"
        "movq %r9,72(%rax,%rdx)\n"
        "movq 16(%rdi),%rcx\n"
        "incq %rcx\n"
        "movq %rcx,16(%rdi)\n"
        "movq %rcx,64(%rsi,%r8,8)\n"
        "shrl $4,%edx\n"
        "movq 8(%rdi),%rcx\n"
        "btsq %rdx,%rcx\n"
        "movq %rcx,8(%rdi)\n"
        "give_back\n"
        "ret\n"
        "2:\n"
        ".cfi_restore_state\n"
        ".cfi_remember_state\n"
        "give_back\n"
        "jmp mtool_tool_line\n"
        "3:\n"
        ".cfi_restore_state\n"
        "decq 48(%rax)\n"
        "movq $1,64(%rsp)\n" /* is_told */
        "movq $-1,72(%rax,%rdx)\n"
        "movq %rcx,64(%rax,%rdx)\n"
        "testb $1,80(%rsp)\n"
        "je 4f\n"
        "movq %rcx,72(%rax,%rdx)\n"
        "4:\n"
        "give_back\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size mtool_trace_line,.-mtool_trace_line\n"
        ".purgem give_back\n"
        "kept mtool_tool_line mtool_tool_reach_line\n"
        "kept mtool_trace_range mtool_tool_reach_range\n"
        ".purgem kept\n");

/* ---- lines ---- */

static void mark_line(volatile struct wire_trace_slot *l, uint64_t line, int is_written)
{
    l->written = ~(uint64_t)0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    l->touched = line;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (is_written)
        l->written = line;
}

static unsigned place_of(const struct state *s, uint64_t line)
{
    return (unsigned)((line >> (WIRE_TRACE_LINE_SHIFT - WIRE_TRACE_SLOT_SHIFT) & s->mask) >> WIRE_TRACE_SLOT_SHIFT);
}

/* Where more lines are told than pass, keeping them takes longer than it spares. */
static int may_rest(struct state *s)
{
    struct wire_trace_kept *k = s->kept;
    int may = k->clock - s->since < 2 * s->told && s->put < s->limit;
    s->since = k->clock;
    s->told = 0;
    if (!may)
        return 0;
    kept_tell_all(k, &s->put);
    kept_forget(k);
    s->rests = REST;
    return 1;
}

/* `line`: and 1 if it is written to. `at`: as of kept_told. */
static __attribute__((noinline)) void tell_line(struct state *s, struct kept_arguments *args, uint64_t line,
                                                unsigned at)
{
    unsigned place = place_of(s, line);
    args->is_told = 1;
    if (++s->told == TOLD_LOOKED_AT && may_rest(s)) {
        mark_line(&s->slots[place], line & ~(uint64_t)1, line & 1);
        return;
    }
    if (s->put >= s->limit + TOLD_BEHIND_LIMIT) { /* no room to tell */
        s->forgets = 1;
        return;
    }
    enum kept_how how = kept_told(s->kept, place, line, at, all->filter_lines, &s->put);
    mark_line(&s->slots[place], line & ~(uint64_t)1, how & KEPT_WRITTEN);
}

/* A part reaches a line that was not the last one of its place, or was not written to. It is the last one from now on.
 */
__attribute__((used, visibility("hidden"))) void
reach_line(struct kept_arguments *args) __asm__("mtool_tool_reach_line");
void reach_line(struct kept_arguments *args)
{
    struct state *s = get_state();
    uint64_t line = args->line;
    unsigned place = place_of(s, line);
    struct wire_trace_kept *k = s->kept;
    struct wire_trace_place *p = &k->places[place];
    unsigned at = kept_find(p, line);
    if (__builtin_expect(p->generation != k->generation, 0))
        at = WIRE_TRACE_LINES;
    tell_line(s, args, line, at);
}

/* A part that is told whatever it reaches writes to all bytes from an address on. */
__attribute__((used, visibility("hidden"))) void
reach_range(struct kept_arguments *args) __asm__("mtool_tool_reach_range");
void reach_range(struct kept_arguments *args)
{
    enum { LINE = 1 << WIRE_TRACE_LINE_SHIFT };
    struct state *s = get_state();
    uint64_t end = args->line + args->bytes;
    for (uint64_t line = args->line & -(uint64_t)LINE; line < end; line += LINE) {
        if (s->rests) {
            mark_line(&s->slots[place_of(s, line)], line, 1);
            continue;
        }
        const struct wire_trace_place *p = &s->kept->places[place_of(s, line)];
        unsigned at = p->generation == s->kept->generation ? kept_find(p, line) : WIRE_TRACE_LINES;
        tell_line(s, args, line | 1, at);
    }
}

#endif
