/* SPDX-License-Identifier: Apache-2.0
 * Translated code into segments. A translation of the emulator is left early where an instruction faults or reaches a
 * device, so counting translations counts too much. A segment ends at each instruction that may: all of it is executed
 * or none, but for that last one. So its counter, one addition in line, and what is known of its instructions give
 * every figure that does not depend on data: instructions, operations, the mix, by function and mode. An instruction
 * that faults has been counted and will be again: the exception's handler tells (system.c). Interrupts come between
 * translations. An instruction with a rep prefix is executed once for each element, as the emulator counts too. */
#include "plugin/plugin.h"

enum { SEGMENT_OPERATIONS_MAX = 200, LAST_BITS = 16 };

struct totals totals[2];

static struct {
    struct arena *arena;
    struct segment *free; /* so many that are none so far */
    size_t free_count;
    VEC(struct segment *) all;
    VEC(struct site *) sites;
    uint32_t by_last[1 << LAST_BITS]; /* by hash of the address of the last instruction: index + 1 */
} made;

static uint32_t *place_of_last(uint64_t vaddr)
{
    return &made.by_last[vaddr * 0x9e3779b97f4a7c15u >> (64 - LAST_BITS)];
}

static struct segment *segment_new(void)
{
    if (!made.arena)
        made.arena = arena_new();
    if (!made.free_count) {
        enum { MANY = 1 << 15 }; /* so many are in large pages */
        uintptr_t at = (uintptr_t)arena_alloc(made.arena, (MANY + 1) * sizeof(struct segment));
        made.free = (struct segment *)ALIGN_UP(at, (uintptr_t)SEGMENT_ALIGNMENT);
        made.free_count = MANY;
    }
    struct segment *s = made.free++;
    made.free_count--;
    VEC_PUSH(&made.all, s);
    return s;
}

static void begin(struct segment *s, uint64_t vaddr, const void *host, uint64_t *function)
{
    s->vaddr = vaddr;
    s->is_kernel = (int64_t)vaddr < 0;
    s->physical = ram_address_of(host);
    s->placed = placed_address(vaddr, s->physical);
    s->row = places_row(vaddr, host, function);
    s->file = places_file(vaddr, &s->in_file);
}

static void append(struct segment *s, const struct mix_insn *i, uint64_t vaddr, size_t len)
{
    s->last_at = (uint16_t)(vaddr - s->vaddr);
    s->bytes = (uint16_t)(s->bytes + len);
    s->instructions++;
    s->operations = (uint16_t)(s->operations + i->operations);
    for (unsigned k = 0; k < WIRE_MIX_COUNT; k++)
        s->mix[k] = (uint8_t)(s->mix[k] + i->mix[k]);
    memcpy(s->last_mix, i->mix, sizeof s->last_mix);
    s->last_operations = i->operations;
    s->may_fault = i->may_leave;
}

/* `first`: its first instruction, which its counters hang on. */
static void finish(struct segment *s, struct qemu_plugin_insn *first)
{
    struct totals *t = &totals[s->is_kernel];
    if (!s->instructions)
        return;
    if (s->may_fault) {
        uint32_t *place = place_of_last(segment_last(s));
        s->before = *place;
        *place = (uint32_t)made.all.len;
    }
    if (model_is_wanted)
        fetches_finish(s);
    if (model_is_wanted && !watch_is_wanted) {
        qemu_plugin_register_vcpu_insn_exec_cb(first, fetches_run_and_count, QEMU_PLUGIN_CB_NO_REGS, s);
        return;
    }
    if (model_is_wanted)
        qemu_plugin_register_vcpu_insn_exec_cb(first, fetches_run, QEMU_PLUGIN_CB_NO_REGS, s);
    watch_register();
    qemu_plugin_register_vcpu_insn_exec_inline(first, QEMU_PLUGIN_INLINE_ADD_U64, &s->runs, 1);
    qemu_plugin_register_vcpu_insn_exec_inline(first, QEMU_PLUGIN_INLINE_ADD_U64, &t->instructions, s->instructions);
    if (model_is_wanted)
        qemu_plugin_register_vcpu_insn_exec_inline(first, QEMU_PLUGIN_INLINE_ADD_U64, &t->operations, s->operations);
}

static void add_site(struct qemu_plugin_insn *insn, const struct mix_insn *i, struct segment *s)
{
    struct site *site = ARENA_NEW(made.arena, struct site);
    *site = (struct site){.segment = s,
                          .load = UINT32_MAX,
                          .store = UINT32_MAX,
                          .is_kernel = s->is_kernel,
                          .is_left_out = model_leaves_out(s->is_kernel),
                          .is_modify = i->is_modify};
    VEC_PUSH(&made.sites, site);
    qemu_plugin_register_vcpu_mem_cb(insn, accesses_call(s->is_kernel, i->x.loads, i->x.stores), QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, site);
}

/* *products: the general registers that hold a product or quotient of this translation. */
static void add_model(struct qemu_plugin_insn *insn, const struct mix_insn *i, struct segment *s, const uint8_t *bytes,
                      size_t len, uint16_t *products)
{
    bool multiplies = i->mix[WIRE_MULDIV - WIRE_NOPS];
    bool reaches = i->x.loads || i->x.stores || i->mix[WIRE_SYSTEM - WIRE_NOPS];
    if (reaches) /* also where it is left out: QEMU 7.2 would keep the hook of an instruction before */
        add_site(insn, i, s);
    if (i->special == MIX_MAPS_ANEW)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, tlb_forget_pages, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (i->x.props & X86_PROP_VEC || multiplies || i->x.gpr_read & *products)
        float_describe(s, bytes, len, (unsigned)(s->operations - i->operations));
    *products = (uint16_t)(multiplies ? *products | i->x.gpr_written : *products & ~i->x.gpr_written);
}

/* QEMU takes an instruction that reaches into the next page back, unless it is the first of its translation, but tells
 * of some bytes before that. No instruction begins as another one that is whole. */
static bool is_taken_back(const struct mix_insn *i, size_t k) { return k && !i->x.len; }

void segments_translate(struct qemu_plugin_tb *tb)
{
    struct segment *s = NULL;
    struct qemu_plugin_insn *first = NULL;
    uint64_t function = 0;
    uint16_t products = 0;
    places_forget();
    for (size_t n = qemu_plugin_tb_n_insns(tb), k = 0; k < n; k++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
        struct mix_insn i;
        const uint8_t *bytes = qemu_plugin_insn_data(insn);
        size_t len = qemu_plugin_insn_size(insn);
        uint64_t vaddr = qemu_plugin_insn_vaddr(insn);
        mix_describe(bytes, len, vaddr, &i);
        if (is_taken_back(&i, k))
            break;
        if (i.special == MIX_MARKER)
            plugin_mark(insn, i.mark);
        if (!i.is_counted)
            continue;
        if (s && (s->may_fault || s->operations + i.operations > SEGMENT_OPERATIONS_MAX ||
                  (model_is_wanted && !fetches_have_room(s, len)))) {
            finish(s, first);
            s = NULL;
        }
        if (!s) {
            s = segment_new();
            first = insn;
            begin(s, vaddr, qemu_plugin_insn_haddr(insn), &function);
        }
        if (model_is_wanted)
            fetches_append(s, s->bytes, len);
        append(s, &i, vaddr, len);
        if (settings.calls)
            calls_instruction(insn, &i, s, function);
        if (watch_is_wanted)
            watch_instruction(insn, &i, s, bytes, len, function);
        if (model_is_wanted)
            add_model(insn, &i, s, bytes, len, &products);
        system_hook(insn, vaddr, function, i.x.stores > 0);
    }
    if (s)
        finish(s, first);
}

void segments_restart(uint64_t vaddr)
{
    for (uint32_t at = *place_of_last(vaddr); at; at = made.all.data[at - 1]->before) {
        struct segment *s = made.all.data[at - 1];
        if (segment_last(s) == vaddr && s->runs > s->restarts) {
            s->restarts++;
            totals[s->is_kernel].restarts++;
            return;
        }
    }
}

const struct segment *segments_at(size_t i) { return i < made.all.len ? made.all.data[i] : NULL; }

void segments_sum(void)
{
    for (size_t n = 0; n < made.all.len; n++) {
        const struct segment *s = made.all.data[n];
        uint64_t *of = s->row->of;
        of[WIRE_INSTRUCTIONS] += s->runs * s->instructions - s->restarts;
        of[WIRE_OPERATIONS] += s->runs * s->operations - s->restarts * s->last_operations;
        of[WIRE_RESTARTS] += s->restarts;
        if (model_is_wanted && !model_leaves_out(s->is_kernel))
            of[WIRE_FETCHES] += s->runs * s->instructions - s->restarts;
        for (unsigned k = 0; k < WIRE_MIX_COUNT; k++)
            of[WIRE_NOPS + k] += s->runs * s->mix[k] - s->restarts * s->last_mix[k];
        for (unsigned k = 0; k < WIRE_STALL_COUNT; k++)
            of[WIRE_STALL_FETCH + k] += s->stalls[0][k] + s->stalls[1][k];
        for (unsigned i = 0; i < s->slow_count; i++)
            of[WIRE_STALL_FLOAT] += *float_stall(s, i);
        if (s->callee)
            calls_add(s->row, s->callee, s->runs - s->restarts);
    }
    for (size_t n = 0; n < made.sites.len; n++) {
        const struct site *s = made.sites.data[n];
        s->segment->row->of[WIRE_READS] += s->done[0];
        s->segment->row->of[WIRE_WRITES] += s->done[1];
    }
}
