/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of sites whose instruction does not say by its operands where it reaches: gathers and scatters, vectors with
 * a mask, strings that are compared, tables and bits whose number a register holds, xsave and its like. The runtime
 * makes the entries (rt_told.S); the site gives it what it cannot know of:
 *
 *     lea rsp,[rsp-192]; vmovdqu [rsp],indices            of gathers and scatters
 *     push rax; push rcx; push rdx
 *     lea rax,[operand]; kmovq rdx,mask                   or vmovmskps, or a number
 *     mov rcx,what it is; call
 *     pop rdx; pop rcx; pop rax; lea rsp,[rsp+192]
 *
 * With samples it asks first whether one is taken: where flags are dead in front of all of it, else, by jrcxz, which
 * changes none, behind what it pushes:
 *
 *     cmp gs:[left],0; jle end            or mov rcx,gs:[left]; jrcxz pops
 *
 * How far a comparison goes is known when it is done: the site stands behind it, and in front of it rcx is kept, with
 * the stack pointer, in a place of the thread's that the site's number says. No flag changes, nor any memory of the
 * program.
 */
#include "rewrite/instruments/operand.h"
#include "rewrite/instruments/references.h"
#include "rewrite/instruments/vectors.h"

#include <assert.h>

enum { SITE_BYTES_MAX = 256, LINE = 64, PUSHED = 3 * 8, CALL_BYTES = 5, LEA_RSP_BYTES = 8, TAIL_POPS = 3 };

/* ---- which ---- */

static bool compares_strings(const struct x86_insn *in)
{
    const char *name = x86_mnemonic_name(in->mnemonic);
    return (in->props & X86_PROP_REP) && (strncmp(name, "scas", 4) == 0 || strncmp(name, "cmps", 4) == 0);
}

static bool has_plain_accesses(const struct x86_detail *d)
{
    for (int k = 0; k < d->access_count; k++)
        if (d->access[k].segment != X86_SEGMENT_NONE)
            return false;
    return d->access_count > 0 && d->access_count <= RW_CALL_SITES_MAX;
}

static bool is_far(const struct x86_access *a)
{
    bool has_registers = a->base != X86_REG_NONE || a->index != X86_REG_NONE || a->segment != X86_SEGMENT_NONE;
    return has_registers && (a->disp < INT32_MIN || a->disp > INT32_MAX - 4096);
}

static bool is_system_call(const struct x86_detail *d) { return d->insn.kind == X86_SYSCALL; }

bool rw_call_is_behind(const struct x86_detail *d) { return compares_strings(&d->insn) || is_system_call(d); }

bool rw_call_can_tell(const struct x86_detail *d)
{
    const struct x86_reach *r = &d->reach;
    if (is_system_call(d))
        return true;
    if (compares_strings(&d->insn))
        return has_plain_accesses(d);
    if (r->kind == X86_REACH_NONE || r->access.segment == X86_SEGMENT_GS || is_far(&r->access))
        return false;
    bool is_odd = (r->kind == X86_REACH_ELEMENTS && r->is_narrow) ||
                  (r->kind == X86_REACH_BIT && (r->index >= X86_GPR_COUNT || r->index == X86_RSP));
    return !is_odd;
}

/* ---- sites ---- */

static unsigned bytes_of(const struct x86_reach *r)
{
    switch ((enum x86_reach_kind)r->kind) {
    case X86_REACH_ELEMENTS:
    case X86_REACH_BIT:
        return r->element_bytes;
    case X86_REACH_MASKED:
        return r->access.bytes;
    case X86_REACH_FIXED:
        return r->fixed_bytes;
    case X86_REACH_TABLE:
        return 1;
    case X86_REACH_STATE:
    case X86_REACH_NONE:
        break;
    }
    return LINE;
}

static uint16_t flags_of(const struct x86_access *a)
{
    return (uint16_t)((a->is_load ? REWRITE_SITE_LOAD : 0) | (a->is_store ? REWRITE_SITE_STORE : 0));
}

/* The one by rdi comes first, as valgrind reads them. */
static unsigned sites_of_strings(const struct x86_detail *d, struct rw_site out[RW_CALL_SITES_MAX])
{
    unsigned n = d->access_count == 2 ? 2 : 1;
    bool swaps = n == 2 && d->access[0].base == X86_RSI;
    for (unsigned k = 0; k < n; k++) {
        const struct x86_access *a = &d->access[swaps ? 1 - k : k];
        out[k] = (struct rw_site){d->insn.addr, *a, (uint16_t)(flags_of(a) | REWRITE_SITE_RANGE)};
    }
    return n;
}

static unsigned sites_of_kernel(const struct x86_detail *d, struct rw_site out[RW_CALL_SITES_MAX])
{
    struct x86_access a = {.base = X86_REG_NONE, .index = X86_REG_NONE, .bytes = LINE};
    for (unsigned k = 0; k < 2; k++)
        out[k] = (struct rw_site){
            d->insn.addr, a,
            (uint16_t)((k ? REWRITE_SITE_STORE : REWRITE_SITE_LOAD) | REWRITE_SITE_REACH | REWRITE_SITE_KERNEL)};
    return 2;
}

unsigned rw_call_sites(const struct x86_detail *d, struct rw_site out[RW_CALL_SITES_MAX])
{
    const struct x86_reach *r = &d->reach;
    if (is_system_call(d))
        return sites_of_kernel(d, out);
    if (compares_strings(&d->insn))
        return sites_of_strings(d, out);
    uint16_t how = r->kind == X86_REACH_ELEMENTS ? REWRITE_SITE_ELEMENTS
                   : r->kind == X86_REACH_BIT    ? 0
                                                 : REWRITE_SITE_REACH;
    out[0] = (struct rw_site){d->insn.addr, r->access, (uint16_t)(flags_of(&r->access) | how)};
    out[0].access.bytes = (uint16_t)min_u64(bytes_of(r), LINE);
    return 1;
}

/* ---- what the runtime is told ---- */

static uint64_t log2_of(unsigned n) { return n ? 31u - (unsigned)__builtin_clz(n) : 0; }

static uint64_t kind_of(const struct x86_detail *d)
{
    static const uint8_t kinds[] = {[X86_REACH_ELEMENTS] = WIRE_TOLD_ELEMENTS, [X86_REACH_MASKED] = WIRE_TOLD_MASKED,
                                    [X86_REACH_STATE] = WIRE_TOLD_STATE,       [X86_REACH_FIXED] = WIRE_TOLD_FIXED,
                                    [X86_REACH_BIT] = WIRE_TOLD_BIT,           [X86_REACH_TABLE] = WIRE_TOLD_FIXED};
    return is_system_call(d)            ? WIRE_TOLD_CALLED
           : compares_strings(&d->insn) ? WIRE_TOLD_COMPARED
                                        : kinds[d->reach.kind];
}

static uint64_t element_field(const struct x86_detail *d)
{
    const struct x86_reach *r = &d->reach;
    if (compares_strings(&d->insn))
        return log2_of(d->access[0].bytes);
    if (r->kind == X86_REACH_STATE)
        return r->format;
    return log2_of(r->kind == X86_REACH_MASKED && r->is_whole ? r->access.bytes : r->element_bytes);
}

static uint64_t word_of(const struct rw *w, const struct rw_reference *r, const struct x86_detail *d)
{
    const struct x86_reach *of = &d->reach;
    bool has_two = compares_strings(&d->insn) && d->access_count == 2;
    return r->first | element_field(d) << WIRE_TOLD_ELEMENT | log2_of(of->access.scale) << WIRE_TOLD_SCALE |
           (uint64_t)(of->kind && of->access.is_store) << WIRE_TOLD_STORES |
           (uint64_t)(of->index_bytes == 8) << WIRE_TOLD_INDEX_8 |
           (uint64_t)(of->is_packed || has_two) << WIRE_TOLD_PACKED | (uint64_t)of->count << WIRE_TOLD_ELEMENTS_MAX |
           (uint64_t)of->is_whole << WIRE_TOLD_WHOLE | (uint64_t)w->opt->filter_shift << WIRE_TOLD_FILTER |
           kind_of(d) << WIRE_TOLD_KIND;
}

/* ---- code ---- */

struct code {
    const struct rw *w;
    const struct rw_reference *r;
    struct x86_detail d;
    uint8_t *first, *p;
    uint64_t addr; /* of first */
};

static uint64_t here(const struct code *c) { return c->addr + (uint64_t)(c->p - c->first); }

static void put_number_address(struct code *c, int64_t disp)
{
    if (!c->r->is_rip) {
        c->p = put_number(c->p, X86_RAX, c->d.reach.is_narrow ? (uint32_t)disp : (uint64_t)disp);
        return;
    }
    c->p = rw_put_bytes(c->p, "\x48\x8d\x05", 3);
    c->p = rw_put32(c->p, (uint64_t)disp - (here(c) + 4));
}

/* To rax, of which the operand may be made; fs by way of rcx. */
static void put_address(struct code *c)
{
    const struct x86_access *a = &c->d.reach.access;
    struct operand m = {c->d.reach.is_narrow ? NARROW : 0, a->base, a->index, a->scale, a->disp};
    if (a->base == X86_RSP)
        m.disp += WIRE_TOLD_ROOM + PUSHED;
    if (a->base == X86_REG_NONE && a->index == X86_REG_NONE)
        put_number_address(c, a->disp);
    else
        c->p = put_insn(c->p, LEA, X86_RAX, m);
    if (a->segment == X86_SEGMENT_FS) {
        c->p = put_insn(c->p, LOAD, X86_RCX, (struct operand){FS, X86_REG_NONE, X86_REG_NONE, 0, 0});
        c->p = put_insn(c->p, LEA, X86_RAX, (struct operand){0, X86_RAX, X86_RCX, 1, 0});
    }
}

/* The number of a bit, to rdx: where the site changed the register, as it was. */
static void put_bit_number(struct code *c)
{
    static const uint32_t codes[9] = {[2] = LOAD_SIGNED_16, [4] = LOAD_SIGNED_32, [8] = LOAD};
    const struct x86_reach *r = &c->d.reach;
    uint32_t code = codes[r->element_bytes];
    if (r->index <= X86_RDX) {
        c->p = put_insn(c->p, code, X86_RDX, on_stack(2u - r->index));
        return;
    }
    *c->p++ = (uint8_t)(0x48 | r->index >> 3);
    if (code > 0xff)
        *c->p++ = (uint8_t)(code >> 8);
    *c->p++ = (uint8_t)code;
    *c->p++ = (uint8_t)(0xc0 | X86_RDX << 3 | (r->index & 7));
}

static void put_more(struct code *c)
{
    const struct x86_reach *r = &c->d.reach;
    switch ((enum x86_reach_kind)r->kind) {
    case X86_REACH_ELEMENTS:
    case X86_REACH_MASKED:
        c->p = put_mask(c->p, r, X86_RDX);
        return;
    case X86_REACH_BIT:
        put_bit_number(c);
        return;
    case X86_REACH_TABLE: /* movzx edx,byte [rsp+16]; lea rax,[rax+rdx] */
        c->p = rw_put_bytes(c->p, "\x0f\xb6\x54\x24\x10", 5);
        c->p = put_insn(c->p, LEA, X86_RAX, (struct operand){0, X86_RAX, X86_RDX, 1, 0});
        c->p = put_short_number(c->p, X86_RDX, 1);
        return;
    case X86_REACH_FIXED:
        c->p = put_short_number(c->p, X86_RDX, r->fixed_bytes);
        return;
    case X86_REACH_STATE:
    case X86_REACH_NONE:
        return;
    }
}

/* Between samples what would be told is passed over. */
static bool asks_in_front(const struct rw *w, const struct rw_reference *r)
{
    return w->opt->samples && !r->saves_flags;
}

static bool asks_inside(const struct rw *w, const struct rw_reference *r) { return w->opt->samples && r->saves_flags; }

static struct operand left(void) { return in_stream(offsetof(struct wire_stream, left)); }

/* Returns where the distance stands. */
static uint8_t *put_ask_in_front(struct code *c)
{
    c->p = put_insn(c->p, WITH_BYTE, CMP, left());
    *c->p++ = 0;
    *c->p++ = 0x0f;
    *c->p++ = 0x80 | NOT_ABOVE;
    return (c->p = rw_put32(c->p, 0)) - 4;
}

static uint8_t *put_ask_inside(struct code *c)
{
    c->p = put_insn(c->p, LOAD, X86_RCX, left());
    *c->p++ = 0xe3; /* jrcxz */
    return c->p++;
}

static void put_call(struct code *c)
{
    uint8_t *end = asks_in_front(c->w, c->r) ? put_ask_in_front(c) : NULL, *pops = NULL;
    c->p = put_move_stack(c->p, -WIRE_TOLD_ROOM);
    if (c->d.reach.kind == X86_REACH_ELEMENTS)
        c->p = put_spill(c->p, &c->d.reach, 0);
    c->p = rw_put_bytes(c->p, "\x50\x51\x52", 3);
    if (asks_inside(c->w, c->r))
        pops = put_ask_inside(c);
    if (!c->r->is_behind) {
        put_address(c);
        put_more(c);
    }
    c->p = put_number(c->p, X86_RCX, word_of(c->w, c->r, &c->d));
    rw_put_call(c->p, here(c), rw_blob_told(c->w));
    c->p += CALL_BYTES;
    if (pops) {
        assert(c->p - (pops + 1) <= INT8_MAX); /* an address, a mask, a number and the call */
        *pops = (uint8_t)(c->p - (pops + 1));
    }
    c->p = rw_put_bytes(c->p, "\x5a\x59\x58", TAIL_POPS);
    c->p = put_move_stack(c->p, WIRE_TOLD_ROOM);
    if (end)
        rw_put32(end, (uint64_t)(c->p - (end + 4)));
}

static struct operand in_slot(const struct rw_reference *r, size_t field)
{
    size_t slot = offsetof(struct wire_stream, before) + r->first % WIRE_BEFORE_SLOTS * sizeof(struct wire_before);
    return (struct operand){GS, X86_REG_NONE, X86_REG_NONE, 0, (int64_t)(WIRE_STREAM_VADDR + slot + field)};
}

/* movzx ecx,spl; mov gs:[calls+rcx*2],rsp; mov gs:[calls+rcx*2+8],rax: rcx is the kernel's to change */
static void put_number_note(struct code *c)
{
    int64_t at = (int64_t)(WIRE_STREAM_VADDR + offsetof(struct wire_stream, calls));
    c->p = rw_put_bytes(c->p, "\x40\x0f\xb6\xcc", 4);
    c->p = put_insn(c->p, STORE, X86_RSP, (struct operand){GS, X86_REG_NONE, X86_RCX, 2, at});
    c->p = put_insn(c->p, STORE, X86_RAX, (struct operand){GS, X86_REG_NONE, X86_RCX, 2, at + 8});
}

static void put_note(struct code *c)
{
    if (is_system_call(&c->d)) {
        put_number_note(c);
        return;
    }
    c->p = put_insn(c->p, STORE, X86_RSP, in_slot(c->r, offsetof(struct wire_before, stack)));
    c->p = put_insn(c->p, STORE, X86_RCX, in_slot(c->r, offsetof(struct wire_before, value)));
}

static void put_site(struct code *c, uint8_t how)
{
    uint32_t len = cfg_len(c->w->cfg, c->r->insn);
    x86_decode_detail(image_at(c->w->img, c->r->addr, len), len, c->r->addr, &c->d);
    how &RW_REFERENCE_NOTE ? put_note(c) : put_call(c);
}

uint8_t rw_call_how(const struct x86_detail *d)
{
    bool has_indices = d->reach.kind == X86_REACH_ELEMENTS;
    return RW_REFERENCE_CALL | (!has_indices ? 0 : d->reach.is_evex ? EVEX_SPILL_BYTES : VEX_SPILL_BYTES);
}

unsigned rw_call_bytes(const struct rw *w, const struct rw_reference *r, uint8_t how)
{
    uint8_t code[SITE_BYTES_MAX];
    struct code c = {.w = w, .r = r, .first = code, .p = code};
    put_site(&c, how);
    return (unsigned)(c.p - code);
}

void rw_put_call_site(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    struct code c = {.w = w, .r = &w->references->data[f->id], .first = at, .p = at, .addr = addr};
    put_site(&c, f->how);
}

void rw_call_frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    if (f->how & RW_REFERENCE_NOTE)
        return;
    uint32_t first = f->off + (asks_in_front(w, &w->references->data[f->id]) ? RW_CHECK_BYTES : 0);
    uint32_t pops = f->off + f->bytes - LEA_RSP_BYTES - TAIL_POPS;
    uint32_t pushes = first + LEA_RSP_BYTES + (f->how & RW_REFERENCE_SLOTS);
    rw_frame(out, first + LEA_RSP_BYTES, WIRE_TOLD_ROOM);
    for (uint32_t k = 1; k <= TAIL_POPS; k++)
        rw_frame(out, pushes + k, WIRE_TOLD_ROOM + 8 * k);
    for (uint32_t k = 1; k <= TAIL_POPS; k++)
        rw_frame(out, pops + k, WIRE_TOLD_ROOM + 8 * (TAIL_POPS - k));
    rw_frame(out, f->off + f->bytes, 0);
}
