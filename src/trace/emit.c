/* SPDX-License-Identifier: Apache-2.0
 *
 * A planned block to translated code: the program's own instructions, and between them moves and leas, which leave the
 * flags alone, that write the record. Registers that it needs for a moment are saved beside the pointer to the next
 * record, in reach of the code; the program's stack is never used. Return addresses that it pushes are the program's
 * own. An indirect jump is looked up in two tables; the comparison is a lea and a jrcxz.
 */
#include "trace/impl.h"

#include <stddef.h>

enum { SAVE_LOG, SAVE_OPERAND, SAVE_RCX, SAVE_RDX }; /* places in state.save; rax is saved in SAVE_OPERAND's */
enum { RECORD_HEAD = 4, VALUE = 8 };

struct emitter {
    struct emitted *out;
    const struct plan *plan;
    uint32_t number;
    uint32_t pushed_at; /* of the distance to the return address that is pushed; 0: none is */
    bool failed;
};

static void put(struct emitter *e, const void *bytes, size_t n)
{
    if (e->out->len + n > EMIT_BYTES_MAX) {
        e->failed = true;
        return;
    }
    memcpy(e->out->bytes + e->out->len, bytes, n);
    e->out->len += (uint32_t)n;
}
static void put8(struct emitter *e, unsigned v) { put(e, &(uint8_t){(uint8_t)v}, 1); }
static void put32(struct emitter *e, uint64_t v) { put(e, &(uint32_t){(uint32_t)v}, 4); }
static void put64(struct emitter *e, uint64_t v) { put(e, &v, 8); }
static uint64_t here(const struct emitter *e) { return e->out->address + e->out->len; }
static void set32(struct emitter *e, uint32_t at, uint64_t v)
{
    memcpy(e->out->bytes + at, &(uint32_t){(uint32_t)v}, 4);
}
static bool is_near(uint64_t to, uint64_t from) { return (uint64_t)(int64_t)(int32_t)(to - from) == to - from; }

/* ---- single instructions ---- */

enum opcode { STORE = 0x89, LOAD = 0x8b, LEA = 0x8d };

static void put_rex(struct emitter *e, unsigned reg, unsigned base) { put8(e, 0x48 | (reg >> 3) << 2 | base >> 3); }

/* reg and a place relative to the code */
static void with_place(struct emitter *e, enum opcode op, unsigned reg, uint64_t place)
{
    put_rex(e, reg, 0);
    put8(e, op);
    put8(e, (reg & 7) << 3 | 5);
    put32(e, place - (here(e) + 4));
}

/* reg and [base + disp]; base is not rsp nor r12 */
static void with_base(struct emitter *e, enum opcode op, unsigned reg, unsigned base, int32_t disp)
{
    put_rex(e, reg, base);
    put8(e, op);
    put8(e, 0x80 | (reg & 7) << 3 | (base & 7));
    put32(e, (uint64_t)disp);
}

/* lea reg, [a + b * 2^shift] */
static void put_sum(struct emitter *e, unsigned reg, unsigned a, unsigned b, unsigned shift)
{
    put8(e, 0x48 | (reg >> 3) << 2 | (b >> 3) << 1 | a >> 3);
    put8(e, LEA);
    put8(e, 0x44 | (reg & 7) << 3);
    put8(e, shift << 6 | (b & 7) << 3 | (a & 7));
    put8(e, 0);
}

static void put_number(struct emitter *e, unsigned reg, uint64_t number)
{
    put8(e, 0x48 | reg >> 3);
    put8(e, 0xb8 | (reg & 7));
    put64(e, number);
}

static uint64_t state_at(const struct emitter *e, size_t offset) { return e->out->state + offset; }
static uint64_t save_at(const struct emitter *e, unsigned k)
{
    return state_at(e, offsetof(struct wire_burst_state, save) + 8 * k);
}
static uint64_t next_at(const struct emitter *e) { return state_at(e, offsetof(struct wire_burst_state, next)); }

/* ---- the record ---- */

/* Written before it is read, so its value at the block's begin may be lost. */
static bool is_dead(const struct plan *p, unsigned reg)
{
    for (uint32_t k = 0; k < p->count; k++) {
        if (x86_kills_gpr(&p->insn[k].x, reg))
            return true;
        if ((p->insn[k].x.gpr_read | p->insn[k].x.gpr_written) & 1u << reg)
            return false;
    }
    return false;
}

/* A register that is none of `used`, dead if possible. 255: none. */
static unsigned choose(const struct plan *p, unsigned used)
{
    unsigned any = 255;
    for (unsigned r = 0; r < 16; r++) {
        if (r == X86_RSP || r == X86_R12 || used & 1u << r)
            continue;
        if (is_dead(p, r))
            return r;
        any = any == 255 ? r : any;
    }
    return any;
}

static void put_record(struct emitter *e)
{
    const struct plan *p = e->plan;
    unsigned used = 0;
    for (uint32_t k = 0; k < p->logs; k++)
        used |= p->log[k].before == 0 ? 1u << p->log[k].reg : 0;
    unsigned by = choose(p, used);
    if (by == 255) {
        e->failed = true;
        return;
    }
    bool keep = !is_dead(p, by);
    if (keep)
        with_place(e, STORE, by, save_at(e, SAVE_LOG));
    with_place(e, LOAD, by, next_at(e));
    put(e, (uint8_t[]){(uint8_t)(0x40 | by >> 3), 0xc7, (uint8_t)(by & 7)}, 3);
    if ((by & 7) == X86_RBP) { /* r13 and rbp have no form without a displacement */
        e->out->bytes[e->out->len - 1] |= 0x40;
        put8(e, 0);
    }
    put32(e, e->number);
    for (uint32_t k = 0; k < p->logs && p->log[k].before == 0; k++)
        with_base(e, STORE, p->log[k].reg, by, (int32_t)(RECORD_HEAD + VALUE * k));
    with_base(e, LEA, by, by, (int32_t)(RECORD_HEAD + VALUE * p->logs));
    with_place(e, STORE, by, next_at(e));
    if (keep)
        with_place(e, LOAD, by, save_at(e, SAVE_LOG));
}

/* Values that are only there before instruction `at`: the pointer stands behind the record already. */
static void put_values(struct emitter *e, uint32_t at)
{
    const struct plan *p = e->plan;
    for (uint32_t k = 0; at && k < p->logs; k++) {
        if (p->log[k].before != at)
            continue;
        unsigned reg = p->log[k].reg, by = reg == X86_RAX ? X86_RCX : X86_RAX;
        with_place(e, STORE, by, save_at(e, SAVE_LOG));
        with_place(e, LOAD, by, next_at(e));
        with_base(e, STORE, reg, by, -(int32_t)(VALUE * (p->logs - k)));
        with_place(e, LOAD, by, save_at(e, SAVE_LOG));
    }
}

/* ---- the program's instructions ---- */

/* Of the register in the lower bits of modrm: the bit that would make it one of r8 to r15 goes. */
static void clear_upper_base(uint8_t *bytes, unsigned len)
{
    for (unsigned k = 0; k < len; k++)
        switch (bytes[k]) {
        case 0x66:
        case 0x67:
        case 0xf0:
        case 0xf2:
        case 0xf3:
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
            break;
        case 0xc4:
        case 0x62:
            bytes[k + 1] |= 0x20; /* stored inverted */
            return;
        default:
            if ((bytes[k] & 0xf0) == 0x40)
                bytes[k] &= 0xfe;
            return;
        }
}

/* Its operand is where it was, relative to the code or through a register that it does not use. */
static void put_relative(struct emitter *e, const struct x86_insn *x, const struct trace_insn *i)
{
    uint8_t bytes[X86_MORE_BYTES];
    unsigned used = x->gpr_read | x->gpr_written, by = X86_RAX;
    memcpy(bytes, i->bytes, i->x.len);
    if (x->disp_len != 4 || x->disp_off < 2 || (bytes[x->disp_off - 1] & 0xc7) != 5) {
        e->failed = true;
        return;
    }
    if (is_near(x->target, here(e) + i->x.len)) {
        uint32_t distance = (uint32_t)(x->target - (here(e) + i->x.len));
        memcpy(bytes + x->disp_off, &distance, 4);
        put(e, bytes, i->x.len);
        return;
    }
    while (by == X86_RSP || by == X86_RBP || used & 1u << by)
        by++;
    if (by > X86_RDI) {
        e->failed = true;
        return;
    }
    clear_upper_base(bytes, i->x.len);
    bytes[x->disp_off - 1] = (uint8_t)((bytes[x->disp_off - 1] & 0x38) | 0x80 | by);
    memset(bytes + x->disp_off, 0, 4);
    with_place(e, STORE, by, save_at(e, SAVE_OPERAND));
    put_number(e, by, x->target);
    put(e, bytes, i->x.len);
    with_place(e, LOAD, by, save_at(e, SAVE_OPERAND));
}

/* lea of a fixed address. */
static void put_address(struct emitter *e, const struct x86_insn *x, const struct trace_insn *i)
{
    unsigned reg = 0;
    for (unsigned r = 0; r < 16; r++)
        reg = x->gpr_written & 1u << r ? r : reg;
    if (x->op_bytes == 8)
        put_number(e, reg, x->target);
    else
        put_relative(e, x, i);
}

static void put_insn(struct emitter *e, uint32_t at)
{
    const struct x86_insn *x = &e->plan->insn[at].x;
    const struct trace_insn *i = &e->plan->insn[at];
    if (x->props & X86_PROP_NOP)
        return;
    if (!(x->props & X86_PROP_RIPREL))
        put(e, i->bytes, i->x.len);
    else if (x->props & X86_PROP_LEA)
        put_address(e, x, i);
    else
        put_relative(e, x, i);
}

/* ---- the end of a block ---- */

/* The 4 bytes of a jump's distance. */
static void put_exit(struct emitter *e, uint64_t target)
{
    e->out->exit[e->out->exits++] = (struct exit){target, e->out->len};
    put32(e, 0);
}

static void put_jump(struct emitter *e, uint64_t target)
{
    put8(e, 0xe9);
    put_exit(e, target);
}

static void put_stubs(struct emitter *e)
{
    for (uint32_t k = 0; k < e->out->exits; k++) {
        uint32_t at = e->out->exit[k].at;
        set32(e, at, e->out->len - (at + 4));
        put8(e, 0xcc);
        put8(e, WIRE_TRAP_DIRECT);
        put64(e, e->out->exit[k].target);
    }
}

static void put_push(struct emitter *e)
{
    put(e, (uint8_t[]){0xff, 0x35}, 2);
    e->pushed_at = e->out->len;
    put32(e, 0);
}

static void put_pushed(struct emitter *e)
{
    if (!e->pushed_at)
        return;
    set32(e, e->pushed_at, e->out->len - (e->pushed_at + 4));
    put64(e, e->plan->end);
}

static bool is_hint(uint8_t prefix) { return prefix == 0xf2 || prefix == 0xf3 || prefix == 0x2e || prefix == 0x3e; }
static bool is_segment(uint8_t prefix) { return prefix == 0x64 || prefix == 0x65; }

/* mov rax, the operand of an indirect jump or call: the same bytes with another opcode. */
static void put_target(struct emitter *e, const struct x86_insn *x, const struct trace_insn *i)
{
    unsigned k = 0, rex = 0x48, segment = 0;
    for (; is_hint(i->bytes[k]) || is_segment(i->bytes[k]); k++)
        segment = is_segment(i->bytes[k]) ? i->bytes[k] : segment;
    if ((i->bytes[k] & 0xf0) == 0x40)
        rex |= i->bytes[k++] & 3;
    bool is_near_one =
        k + 1u < i->x.len && i->bytes[k] == 0xff && (i->bytes[k + 1] >> 3 & 7) == (x->kind == X86_CALL_IND ? 2 : 4);
    if (!is_near_one) {
        e->failed = true;
        return;
    }
    bool by_rip = x->props & X86_PROP_RIPREL;
    if (by_rip)
        put_number(e, X86_RAX, x->target);
    if (segment)
        put8(e, segment);
    if (by_rip) {
        put(e, (uint8_t[]){0x48, 0x8b, 0x00}, 3);
        return;
    }
    put8(e, rex);
    put8(e, LOAD);
    put8(e, i->bytes[k + 1] & 0xc7);
    put(e, i->bytes + k + 2, i->x.len - k - 2);
}

/* ret; of `ret n` too. */
static void put_popped_target(struct emitter *e, const struct trace_insn *i)
{
    unsigned at = i->bytes[0] == 0xf2 || i->bytes[0] == 0xf3;
    uint32_t more = 0;
    if (i->bytes[at] == 0xc2)
        memcpy(&more, i->bytes + at + 1, 2);
    else if (i->bytes[at] != 0xc3)
        e->failed = true;
    put(e, (uint8_t[]){0x48, 0x8b, 0x04, 0x24}, 4); /* mov rax, [rsp] */
    put(e, (uint8_t[]){0x48, 0x8d, 0xa4, 0x24}, 4); /* lea rsp, [rsp + disp32] */
    put32(e, 8 + more);
}

static void put_restore(struct emitter *e)
{
    with_place(e, LOAD, X86_RAX, save_at(e, SAVE_OPERAND));
    with_place(e, LOAD, X86_RCX, save_at(e, SAVE_RCX));
    with_place(e, LOAD, X86_RDX, save_at(e, SAVE_RDX));
}

/* One table, entry number in ecx: rdx is its entry, and the jump, whose place is returned, is taken if that is rax's.
 */
static uint32_t put_probe(struct emitter *e, uint64_t table)
{
    with_place(e, LEA, X86_RDX, table);
    put_sum(e, X86_RDX, X86_RDX, X86_RCX, 3);
    with_base(e, LOAD, X86_RCX, X86_RDX, 0);
    put_sum(e, X86_RCX, X86_RCX, X86_RAX, 0);
    put(e, (uint8_t[]){0xe3, 0}, 2); /* jrcxz */
    return e->out->len - 1;
}

static void bind_here(struct emitter *e, uint32_t at) { e->out->bytes[at] = (uint8_t)(e->out->len - at - 1); }

/* The target is in rax; rax, rcx and rdx are saved. */
static void put_lookup(struct emitter *e)
{
    uint64_t target = state_at(e, offsetof(struct wire_burst_state, target));
    uint64_t translation = state_at(e, offsetof(struct wire_burst_state, translation));
    with_place(e, STORE, X86_RAX, target);
    put(e, (uint8_t[]){0x0f, 0xb7, 0xc8}, 3); /* movzx ecx, ax */
    uint32_t first = put_probe(e, e->out->tables);
    put(e, (uint8_t[]){0x0f, 0xb7, 0x0d}, 3); /* movzx ecx, word [target + 1] */
    put32(e, target + 1 - (here(e) + 4));
    uint32_t second = put_probe(e, e->out->tables + sizeof(struct wire_lookup));
    put_restore(e);
    put8(e, 0xcc);
    put8(e, WIRE_TRAP_INDIRECT);
    bind_here(e, first);
    bind_here(e, second);
    with_base(e, LOAD, X86_RDX, X86_RDX, (int32_t)offsetof(struct wire_lookup, translation));
    with_place(e, STORE, X86_RDX, translation);
    put_restore(e);
    put(e, (uint8_t[]){0xff, 0x25}, 2); /* jmp [translation] */
    put32(e, translation - (here(e) + 4));
}

static void put_indirect(struct emitter *e, const struct x86_insn *x, const struct trace_insn *i)
{
    with_place(e, STORE, X86_RAX, save_at(e, SAVE_OPERAND));
    with_place(e, STORE, X86_RCX, save_at(e, SAVE_RCX));
    with_place(e, STORE, X86_RDX, save_at(e, SAVE_RDX));
    if (x->kind == X86_RET)
        put_popped_target(e, i);
    else
        put_target(e, x, i);
    if (x->kind == X86_CALL_IND)
        put_push(e);
    put_lookup(e);
}

/* jrcxz and loop reach 127 bytes only: over a jump to the next instruction, to one to the target. */
static void put_short(struct emitter *e, const struct x86_insn *x, const struct trace_insn *i)
{
    put(e, i->bytes, i->x.len - 1u);
    put8(e, 5);
    put_jump(e, e->plan->end);
    put_jump(e, x->target);
}

static void put_end(struct emitter *e)
{
    uint32_t last = e->plan->count - 1;
    const struct x86_insn *x = &e->plan->insn[last].x;
    switch (e->plan->count ? (enum x86_kind)x->kind : X86_PLAIN) {
    case X86_JMP:
        put_jump(e, x->target);
        break;
    case X86_JCC:
        put(e, (uint8_t[]){0x0f, (uint8_t)(0x80 | x->cond)}, 2);
        put_exit(e, x->target);
        put_jump(e, e->plan->end);
        break;
    case X86_JCXZ:
        put_short(e, x, &e->plan->insn[last]);
        break;
    case X86_CALL:
        put_push(e);
        put_jump(e, x->target);
        break;
    case X86_JMP_IND:
    case X86_CALL_IND:
    case X86_RET:
        put_indirect(e, x, &e->plan->insn[last]);
        break;
    default:
        if (!e->plan->ends_window)
            put_jump(e, e->plan->end);
        break;
    }
}

bool emit_block(const struct plan *p, uint32_t number, struct emitted *out)
{
    struct emitter e = {.out = out, .plan = p, .number = number};
    out->len = out->exits = 0;
    if (p->count)
        put_record(&e);
    for (uint32_t k = 0; k < p->count; k++) {
        put_values(&e, k);
        if (p->insn[k].x.kind == X86_PLAIN)
            put_insn(&e, k);
    }
    put_values(&e, p->count);
    put_end(&e);
    if (p->ends_window)
        put(&e, (uint8_t[]){0xcc, WIRE_TRAP_END}, 2);
    put_stubs(&e);
    put_pushed(&e);
    return !e.failed;
}
