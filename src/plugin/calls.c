/* SPDX-License-Identifier: Apache-2.0
 * The weighted call graph (Hwu and Chang 1989): how often each function called each other one, or jumped to its begin,
 * which a compiler makes of a call at the end. A direct call is the last instruction of its segment, so that segment's
 * counter has its number. Of an indirect one the callee is who begins with the very next instruction, by the count of
 * all instructions. An interrupt, or a fault at the callee's first instruction, comes in between: the frame that the
 * processor wrote on the stack says where the call had gone. A call that faults is made again: its frame holds its own
 * address. Conditional jumps to another function are not counted. */
#include "plugin/plugin.h"

#include <stdlib.h>

/* Of the kernel's entries: bytes of one before its handler is called, and instructions of the stub before it. */
enum { ENTRY_BYTES = 64, STUB_INSTRUCTIONS = 3, SUSPENDED_MAX = 16 };

struct call_site {
    const struct segment *segment;
    uint64_t vaddr, function; /* of the call; where its function begins */
    bool is_first, is_jump;
};
struct entry {
    struct row *row;
    uint64_t vaddr;
    uint64_t slack; /* of an interrupt's: instructions that may have been executed before it */
};
struct suspended { /* a call whose callee has not begun */
    const struct call_site *site;
    uint64_t vaddr, space; /* of the callee */
};
struct arc {
    const struct row *from, *to;
    uint64_t times;
};

static struct {
    struct arena *arena;
    const struct call_site *pending; /* was executed last */
    uint64_t executed;               /* instructions, it among them */
    struct suspended suspended[SUSPENDED_MAX];
    unsigned suspended_count;
    struct map index; /* of a pair in arcs, and 1 */
    VEC(struct arc) arcs;
} the;

void calls_add(struct row *caller, struct row *callee, uint64_t times)
{
    if (!caller->id || !callee->id || !times)
        return;
    uint64_t *place = map_place(&the.index, (uint64_t)caller->id << 32 | callee->id);
    if (!*place) {
        VEC_PUSH(&the.arcs, ((struct arc){caller, callee, 0}));
        *place = the.arcs.len;
    }
    the.arcs.data[*place - 1].times += times;
    callee->is_called = true;
}

static uint64_t executed(void) { return totals[0].instructions + totals[1].instructions; }
static uint64_t space_of(uint64_t vaddr) { return (int64_t)vaddr < 0 ? 0 : system_space; }

/* ---- executed ---- */

static void on_indirect(unsigned vcpu, void *site)
{
    const struct call_site *s = site;
    (void)vcpu;
    if (!plugin_is_counting)
        return;
    the.pending = s;
    /* the addition for the segment comes behind what hangs on its first instruction */
    the.executed = executed() + (s->is_first ? s->segment->instructions : 0);
}

static void reached(const struct call_site *s, const struct entry *e)
{
    if (!s->is_jump || s->function != e->vaddr)
        calls_add(s->segment->row, e->row, 1);
}

static void resume(const struct entry *e)
{
    for (unsigned i = 0; i < the.suspended_count; i++) {
        struct suspended *s = &the.suspended[i];
        if (s->vaddr != e->vaddr || s->space != space_of(e->vaddr))
            continue;
        reached(s->site, e);
        *s = the.suspended[--the.suspended_count];
        return;
    }
}

static void on_entry(unsigned vcpu, void *entry)
{
    const struct call_site *s = the.pending;
    (void)vcpu;
    if (!s && !the.suspended_count)
        return;
    the.pending = NULL;
    if (s && the.executed == executed())
        reached(s, entry);
    else
        resume(entry);
}

static void on_interrupt(unsigned vcpu, void *entry)
{
    const struct entry *e = entry;
    (void)vcpu;
    if (the.pending && executed() - the.executed > e->slack)
        the.pending = NULL;
}

/* Its frame: behind what the entry pushes, or behind an error code below which its first call put its return. */
static void on_frame(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *entry)
{
    const struct entry *e = entry;
    const struct call_site *s = the.pending;
    struct qemu_plugin_hwaddr *h = s ? qemu_plugin_get_hwaddr(info, vaddr) : NULL;
    (void)vcpu;
    if (!h || qemu_plugin_hwaddr_is_io(h))
        return;
    const uint64_t *stack = ram_at(qemu_plugin_hwaddr_phys_addr(h), 3 * sizeof *stack);
    bool has_code = stack && stack[0] - e->vaddr < ENTRY_BYTES;
    if (!stack || (!has_code && stack[0] != UINT64_MAX))
        return;
    uint64_t to = stack[has_code ? 2 : 1];
    the.pending = NULL;
    bool is_within = to - s->function < s->segment->row->bytes && (s->is_jump || to != s->function);
    if (to == s->vaddr || is_within)
        return;
    if (the.suspended_count == SUSPENDED_MAX) /* who never went on: ended before */
        memmove(the.suspended, the.suspended + 1, --the.suspended_count * sizeof *the.suspended);
    the.suspended[the.suspended_count++] = (struct suspended){s, to, space_of(to)};
}

/* ---- translated ---- */

static bool is_interrupts(const char *name, uint64_t *slack)
{
    *slack = strcmp(name, "asm_common_interrupt") == 0 || strcmp(name, "asm_spurious_interrupt") == 0
                 ? STUB_INSTRUCTIONS
                 : 0;
    return strncmp(name, "asm_", 4) == 0 || strcmp(name, "irq_entries_start") == 0 ||
           strcmp(name, "spurious_entries_start") == 0;
}

static void hook_entry(struct qemu_plugin_insn *insn, const struct segment *s)
{
    struct entry *e = ARENA_NEW(the.arena, struct entry);
    *e = (struct entry){.row = s->row, .vaddr = s->vaddr};
    bool is_one = s->is_kernel && is_interrupts(places_name(), &e->slack);
    qemu_plugin_register_vcpu_insn_exec_cb(insn, is_one ? on_interrupt : on_entry, QEMU_PLUGIN_CB_NO_REGS, e);
}

static void hook_frame(struct qemu_plugin_insn *insn, const struct segment *s, uint64_t function)
{
    static struct map first; /* store of an entry, by where that begins */
    uint64_t slack;
    if (!s->is_kernel || segment_last(s) - function >= ENTRY_BYTES || !is_interrupts(places_name(), &slack))
        return;
    uint64_t *place = map_place(&first, function);
    if (!*place)
        *place = segment_last(s);
    if (*place != segment_last(s))
        return;
    struct entry *e = ARENA_NEW(the.arena, struct entry);
    *e = (struct entry){.row = s->row, .vaddr = function};
    qemu_plugin_register_vcpu_mem_cb(insn, on_frame, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, e);
}

static void hook_indirect(struct qemu_plugin_insn *insn, bool is_jump, const struct segment *s, uint64_t function)
{
    struct call_site *site = ARENA_NEW(the.arena, struct call_site);
    *site = (struct call_site){s, segment_last(s), function, s->instructions == 1, is_jump};
    qemu_plugin_register_vcpu_insn_exec_cb(insn, on_indirect, QEMU_PLUGIN_CB_NO_REGS, site);
}

/* A jump within its function, to its begin too, is none of those that count; a call of its own begin is. */
static struct row *callee_of(const struct mix_insn *i, const struct segment *s)
{
    bool is_begin;
    struct row *to = places_target(i->x.target, &is_begin);
    bool is_jump = i->x.kind == X86_JMP;
    if (!to || (is_jump && !is_begin) || (to == s->row && (is_jump || !is_begin)))
        return NULL;
    return to;
}

void calls_instruction(struct qemu_plugin_insn *insn, const struct mix_insn *i, struct segment *s, uint64_t function)
{
    if (!the.arena)
        the.arena = arena_new();
    if (!s->row->id)
        return;
    if (s->instructions == 1 && s->vaddr == function)
        hook_entry(insn, s);
    if (i->x.stores)
        hook_frame(insn, s, function);
    if (i->x.kind == X86_CALL || i->x.kind == X86_JMP)
        s->callee = callee_of(i, s);
    else if (i->x.kind == X86_CALL_IND || i->x.kind == X86_JMP_IND)
        hook_indirect(insn, i->x.kind == X86_JMP_IND, s, function);
}

/* ---- written ---- */

static int by_written(const void *a, const void *b)
{
    const struct arc *x = a, *y = b;
    if (x->from != y->from)
        return x->from->written > y->from->written ? 1 : -1;
    return x->to->written != y->to->written ? (x->to->written > y->to->written ? 1 : -1) : 0;
}

void calls_write(FILE *f)
{
    if (!settings.calls)
        return;
    fprintf(f, "calls %zu\n", the.arcs.len);
    if (the.arcs.len)
        qsort(the.arcs.data, the.arcs.len, sizeof *the.arcs.data, by_written);
    for (size_t i = 0; i < the.arcs.len; i++)
        fprintf(f, "call %u %u %llu\n", (unsigned)the.arcs.data[i].from->written,
                (unsigned)the.arcs.data[i].to->written, (unsigned long long)the.arcs.data[i].times);
}
