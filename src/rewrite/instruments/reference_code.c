/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a site of references: an entry for each access of the instruction that it stands in front of.
 *
 *     lea rsp,[rsp-...]; save flags and registers         what is alive of them, below the red zone
 *     mov entry,16*n; xadd gs:[put],entry                 one instruction: a signal's entries come before or behind
 *     lea address,[operand]; mov gs:[entry],address
 *     mov address,site and module; mov gs:[entry+8],address
 *     cmp entry,gs:[limit]; jae cold
 *     restore; lea rsp,[rsp+...]
 *
 *     cold, behind the function: call the runtime; jmp back
 *
 * With the filter only what changes something is told: an access to the line that was the last one with the same low
 * bits, and that was written to since if this one writes, changes nothing in a cache of at least so many sets that
 * keeps the order of use. So it is if the access begins at most a line less its size behind where that one does, which
 * is all that is asked in line. The entry is made in the cold part:
 *
 *     lea address,[operand]; mov entry,address; and entry,63*64
 *     sub address,gs:[table+entry]; cmp address,64-size; ja miss
 *
 * With samples a site that stands in a first copy asks whether one is taken; where flags are dead all of it but that
 * stands behind the function:
 *
 *     cmp gs:[left],0; jg site            site: as above; jmp back
 *
 * Of accesses near each other, by the same registers, all are asked at once, or the first byte and the last one, and
 * only if that says no each of them, in the cold part (each).
 *
 * Where some sets are taken alone (rewrite_sets), that is asked first, and the filter only of what goes to these. What
 * is not a multiple of its size is looked at behind the function (odd): if it is to one line it is as any other.
 *
 *     lea address,[operand + lines]; test address,size-1; jne odd
 *     shr address,6; imul address,address,factor; test address,mask; je taken
 *
 * so many lines further on that those which are taken have no bit of the mask. It takes one register; where a second
 * one is alive the cold part saves it (is_late). Accesses near each other, by the same registers, are to one line or
 * two that follow each other, which is asked once, and of each of them only if one of the two is taken:
 *
 *     lea address,[lowest + lines]; shr; imul; test; je each; add address,factor; test address,mask; je each
 *
 * No register is taken that the operand is made of. Segment fs: its base is the word that it points to, which the ABI
 * asks for; code that runs before that is so cannot use such operands. No memory of the program is touched.
 */
#include "rewrite/instruments/reference_filter.h"

/* ---- entries ---- */

static void put_reserve(struct code *c, unsigned bytes)
{
    c->p = put_short_number(c->p, c->r->entry, bytes);
    insn(c, XADD, c->r->entry, in_stream(offsetof(struct wire_stream, put)));
}

static void put_site(struct code *c, unsigned k, int64_t at)
{
    uint64_t site = c->r->first + k, module = wire_stream_module(c->w->key);
    c->p = put_number(c->p, c->r->address, site | module << 32);
    insn(c, STORE, c->r->address, in_entry(c->r->entry, at + 8));
}

static void put_range(struct code *c, int64_t at)
{
    insn(c, STORE_NUMBER, 0, in_entry(c->r->entry, at));
    c->p = rw_put32(c->p, (uint32_t)WIRE_EVENT(WIRE_EVENT_RANGE, RANGE_ENTRIES - 1));
    insn(c, STORE, X86_RCX, in_entry(c->r->entry, at + ENTRY_BYTES + 8));
    insn(c, LOAD, c->r->address, on_stack(0));
    insn(c, STORE, c->r->address, in_entry(c->r->entry, at + 2 * ENTRY_BYTES));
}

static bool is_checked(const struct code *c)
{
    return (c->w->opt->filter_shift || has_sets(c)) && !c->r->is_range && !c->r->is_untold;
}

/* Of accesses from k on, so many. */
static void put_entries(struct code *c, unsigned k, unsigned count)
{
    const struct rw_reference *r = c->r;
    unsigned bytes = ENTRY_BYTES * (r->is_range ? RANGE_ENTRIES : 1);
    put_reserve(c, bytes * count);
    for (unsigned i = 0; i < count; i++) {
        int64_t at = (int64_t)bytes * i;
        put_address(c, k + i, 0);
        insn(c, STORE, r->address, in_entry(r->entry, at + (r->is_range ? ENTRY_BYTES : 0)));
        put_site(c, k + i, at);
        if (r->is_range)
            put_range(c, at);
    }
    insn(c, COMPARE, r->entry, in_stream(offsetof(struct wire_stream, limit)));
}

static void put_untold(struct code *c)
{
    put_reserve(c, ENTRY_BYTES);
    insn(c, STORE_NUMBER, 0, in_entry(c->r->entry, 0));
    c->p = rw_put32(c->p, (uint32_t)WIRE_EVENT(WIRE_EVENT_UNTOLD, 0));
    put_site(c, 0, 0);
    insn(c, COMPARE, c->r->entry, in_stream(offsetof(struct wire_stream, limit)));
}

/* lea rsp,[rsp-128]; call; lea rsp,[rsp+128]; or if the stack pointer is there already call. Then jmp. */
static void put_full(struct code *c, uint64_t back)
{
    move_apart(c, -RED_ZONE);
    call(c, rw_blob_chunk_full(c->w));
    move_apart(c, RED_ZONE);
    jump(c, back);
}

/* ---- the filter ---- */

/* The runtime keeps the last lines of each place. */
static bool keeps_several(const struct code *c) { return c->w->opt->filter_lines > 1; }
static bool is_runtimes(const struct code *c) { return keeps_several(c) || c->w->opt->filter_threads; }

/* Among threads, and of several lines, the runtime says whether the filter may hold a line; `address` is where it
 * begins, or the address of several bytes or elements. So near below the stack pointer it is safe from signals. */
enum { LINE_SLOT = 8, SAYS_SLOT = 9 };

static struct operand below_stack(unsigned slot)
{
    return (struct operand){0, X86_RSP, X86_REG_NONE, 0, -8 * (int64_t)slot};
}

static void put_note_line(struct code *c, unsigned k, enum rw_line how)
{
    put_begin(c);
    move_apart(c, -RED_ZONE);
    insn(c, STORE, c->r->address, below_stack(LINE_SLOT));
    call(c, rw_blob_line(c->w, how, site_of(c, k)->access.is_store));
    move_apart(c, RED_ZONE);
}

/* A string instruction with one operand in memory, which may be to one of the last lines. */
static bool may_pass_range(const struct code *c) { return c->r->is_range && c->r->count == 1 && keeps_several(c); }

/* The site has moved the stack pointer. */
static void put_note_several(struct code *c, unsigned k, uint64_t to)
{
    const struct x86_access *a = &site_of(c, k)->access;
    put_address(c, k, 0);
    insn(c, STORE, c->r->address, below_stack(LINE_SLOT));
    insn(c, STORE_NUMBER, 0, below_stack(SAYS_SLOT));
    c->p = rw_put32(c->p, a->bytes | (uint32_t)a->is_store << WIRE_LINES_STORES |
                              (uint32_t)may_pass_range(c) << WIRE_LINES_MAY_PASS |
                              (uint32_t)c->w->opt->filter_shift << WIRE_LINES_SHIFT);
    call(c, to);
}

/* The line of the address is the last one of its place now; what was written to the line before is no longer known, or
 * kept with it. */
static void put_mark(struct code *c, unsigned k)
{
    unsigned address = c->r->address, place = c->r->entry;
    if (is_runtimes(c)) {
        put_note_line(c, k, RW_LINE_TOLD);
        return;
    }
    put_place(c);
    put_begin(c);
    insn(c, STORE, address, in_place(touched, place));
    if (site_of(c, k)->access.is_store) {
        insn(c, STORE, address, in_place(written, place));
    } else {
        insn(c, STORE_NUMBER, 0, in_place(written, place));
        c->p = rw_put32(c->p, 0);
    }
}

/* Whether its set is taken. */
static void put_check_set(struct code *c, unsigned k, const struct labels *l, uint64_t cold)
{
    const struct rw_reference *r = c->r;
    uint8_t bits = odd_bits(c, k);
    int64_t distance = sets_distance(c, k);
    put_address(c, k, distance);
    if (bits) { /* test address,bits */
        *c->p++ = (uint8_t)(0x40 | r->address >> 3);
        *c->p++ = 0xf6;
        *c->p++ = (uint8_t)(0xc0 | (r->address & 7));
        *c->p++ = bits;
        jump_if(c, NOT_EQUAL, cold + l->odd[k]);
    }
    put_set(c, distance);
    jump_if(c, EQUAL, cold + l->taken[k]);
}

static void put_check(struct code *c, unsigned k, const struct labels *l, uint64_t cold)
{
    if (is_long(c, k)) {
        jump(c, cold + l->odd[k]);
    } else if (has_sets(c)) {
        put_check_set(c, k, l, cold);
    } else {
        put_address(c, k, 0);
        put_compare(c, k);
        jump_if(c, BEYOND, cold + l->miss[k]);
    }
}

/* Of an access to a set that is taken: to the last line? */
static void put_taken(struct code *c, unsigned k, uint64_t back)
{
    put_address(c, k, 0);
    put_compare(c, k);
    jump_if(c, NOT_BEYOND, back);
}

/* Jumps forwards within one piece. */
static uint8_t *put_forward(struct code *c, uint8_t condition)
{
    jump_if(c, condition, 0);
    return c->p - 4;
}
static uint8_t *put_forward_always(struct code *c)
{
    rw_put_jmp(c->p, 0, 0);
    c->p += CALL_BYTES;
    return c->p - 4;
}
static void land(const struct code *c, uint8_t *distance) { rw_put32(distance, (uint64_t)(c->p - (distance + 4))); }

/* To where it reaches into a second line, of which `address` is the begin. */
static uint8_t *put_is_two(struct code *c, unsigned k)
{
    const struct rw_reference *r = c->r;
    uint8_t entry = r->entry, address = r->address;
    insn(c, LEA, entry, (struct operand){0, address, X86_REG_NONE, 1, site_of(c, k)->access.bytes - 1});
    *c->p++ = (uint8_t)(0x48 | entry >> 3 << 2 | address >> 3); /* xor entry,address */
    *c->p++ = XOR;
    *c->p++ = (uint8_t)(0xc0 | (entry & 7) << 3 | (address & 7));
    *c->p++ = (uint8_t)(0x48 | entry >> 3); /* test entry,-line */
    *c->p++ = 0xf7;
    *c->p++ = (uint8_t)(0xc0 | (entry & 7));
    c->p = rw_put32(c->p, ~(uint64_t)(line_bytes(c) - 1));
    return put_forward(c, NOT_EQUAL);
}

/* What reaches into a second line is told, if not both are among the last ones. */
static void put_note_two(struct code *c, unsigned k, uint64_t back)
{
    if (keeps_several(c)) {
        put_note_line(c, k, RW_LINE_BOTH);
        jump_if(c, EQUAL, back);
        return;
    }
    put_mark(c, k);
    put_address(c, k, site_of(c, k)->access.bytes - 1u);
    put_mark(c, k);
}

static void put_note_one(struct code *c, unsigned k, uint64_t back)
{
    if (keeps_several(c)) {
        put_note_line(c, k, RW_LINE_MAY_PASS);
        jump_if(c, EQUAL, back);
    } else {
        put_mark(c, k);
    }
}

/* With sets: an access that is not aligned may be to two lines, and is told then. If it is to one, and that is the last
 * one or its set is not taken, it goes back, else to where the distance that is returned will say. */
static uint8_t *put_odd(struct code *c, unsigned k, uint64_t back)
{
    int64_t distance = sets_distance(c, k);
    if (distance)
        put_address(c, k, 0);
    uint8_t *has_two = put_is_two(c, k), *is_one;
    if (distance)
        put_address(c, k, distance);
    put_set(c, distance);
    jump_if(c, NOT_EQUAL, back);
    put_taken(c, k, back);
    is_one = put_forward_always(c);
    land(c, has_two);
    put_note_two(c, k, back);
    return is_one;
}

bool rw_reference_is_far(const struct rw *w, const struct rw_reference *r)
{
    return w->opt->samples && !r->is_second && !r->call && !r->saves_flags;
}

/* ---- the two pieces ---- */

/* cmp gs:[left],0; jle: to the end, which is not known yet. Returns where the distance stands. */
static uint8_t *put_is_on(struct code *c)
{
    insn(c, WITH_BYTE, CMP, in_stream(offsetof(struct wire_stream, left)));
    *c->p++ = 0;
    jump_if(c, NOT_ABOVE, 0);
    return c->p - 4;
}

static void put_told(struct code *c)
{
    insn(c, WITH_BYTE, ADD, in_stream(offsetof(struct wire_stream, left)));
    *c->p++ = (uint8_t)-c->r->told;
    uint64_t addr = here(c);
    c->p = rw_put_access(c->p, &addr, true, 0xff, 0, c->w->counters_vaddr + 8ull * c->r->counter); /* inc */
}

static void put_hot(struct code *c, struct labels *l, uint64_t cold)
{
    const struct rw_reference *r = c->r;
    if (moves_stack(r))
        c->p = put_save(c->p, r);
    bool asks = c->w->opt->samples && !r->is_second && !rw_reference_is_far(c->w, r);
    uint8_t *off = asks ? put_is_on(c) : NULL, *is_passed = NULL;
    if (r->told)
        put_told(c);
    for (unsigned k = 0, n, least; is_checked(c) && k < r->count; k += n) {
        n = one_test(c, k, &least);
        if (n == 1) {
            put_check(c, k, l, cold);
            l->back[k] = offset(c);
        } else {
            has_sets(c) ? put_one_test(c, least, cold + l->each[k]) : put_near(c, cold + l->each[k]);
            l->behind[k] = offset(c);
        }
    }
    if (r->is_range && is_runtimes(c))
        for (unsigned k = 0; k < r->count; k++)
            put_note_several(c, k, rw_blob_lines_range(c->w));
    else if (r->is_range && c->w->opt->filter_shift)
        call(c, rw_blob_forget_lines(c->w));
    if (may_pass_range(c))
        is_passed = put_forward(c, EQUAL);
    if (!is_checked(c)) {
        r->is_untold ? put_untold(c) : put_entries(c, 0, r->count);
        jump_if(c, NOT_BELOW, cold + l->full);
        l->back[0] = offset(c);
    }
    if (is_passed)
        land(c, is_passed);
    if (off)
        rw_put32(off, (uint64_t)(c->p - (off + 4)));
    if (moves_stack(r))
        c->p = put_restore(c->p, r);
}

/* An access that is longer than a line is told always, and what is known of lines is forgotten. */
static void put_long(struct code *c, unsigned k)
{
    if (c->w->opt->filter_threads) {
        put_note_several(c, k, rw_blob_lines_reach(c->w));
        return;
    }
    call(c, rw_blob_forget_lines(c->w));
}

static void land_if(const struct code *c, uint8_t *distance)
{
    if (distance)
        land(c, distance);
}

/* Where its set was asked first: to where it is known that it changes something. */
static uint8_t *put_filter_sets(struct code *c, unsigned k, struct labels *l, uint64_t back)
{
    bool has_odd = odd_bits(c, k);
    uint8_t *is_taken, *is_told = NULL;
    l->taken[k] = offset(c);
    begin_late(c);
    put_taken(c, k, back);
    is_taken = put_forward_always(c);
    if (has_odd) {
        leave_late(c);
        l->odd[k] = offset(c);
        begin_late(c);
        uint8_t *is_one = put_odd(c, k, back);
        is_told = put_forward_always(c);
        land(c, is_one);
    }
    land(c, is_taken);
    put_address(c, k, 0);
    put_note_one(c, k, back);
    return is_told;
}

/* The filter's part: from where it comes to `odd`, `taken` and `miss` on to the entry. */
static void put_filter(struct code *c, unsigned k, struct labels *l, uint64_t back)
{
    uint8_t *is_told = NULL, *has_two = NULL;
    if (is_long(c, k)) {
        l->odd[k] = offset(c);
        put_long(c, k);
    } else if (has_sets(c)) {
        is_told = put_filter_sets(c, k, l, back);
    } else {
        l->miss[k] = offset(c);
        put_address(c, k, 0);
        has_two = odd_bits(c, k) ? put_is_two(c, k) : NULL;
        put_note_one(c, k, back);
    }
    if (has_two) {
        is_told = put_forward_always(c);
        land(c, has_two);
        put_note_two(c, k, back);
    }
    land_if(c, is_told);
}

/* What makes an entry of an access, from where its check comes to. */
static void put_cold_of(struct code *c, unsigned k, struct labels *l, uint64_t to)
{
    uint64_t back = c->r->is_late ? c->addr + l->done[k] : to;
    l->taken[k] = l->odd[k] = offset(c);
    if (c->w->opt->filter_shift)
        put_filter(c, k, l, back);
    else
        begin_late(c);
    put_entries(c, k, 1);
    jump_if(c, BELOW, back);
    put_full(c, back);
    end_late(c, k, l, to);
}

static void put_cold(struct code *c, struct labels *l, uint64_t hot)
{
    const struct rw_reference *r = c->r;
    for (unsigned k = 0, n, least; is_checked(c) && k < r->count; k += n) {
        n = one_test(c, k, &least);
        l->each[k] = offset(c);
        for (unsigned i = k; n > 1 && i < k + n; i++) {
            put_check(c, i, l, c->addr);
            l->back[i] = offset(c);
        }
        if (n > 1)
            jump(c, hot + l->behind[k]);
        for (unsigned i = k; i < k + n; i++)
            put_cold_of(c, i, l, (n > 1 ? c->addr : hot) + l->back[i]);
    }
    l->full = offset(c);
    if (!is_checked(c))
        put_full(c, hot + l->back[0]);
}

enum { SITE_BYTES_MAX = 1024 * RW_REFERENCE_ACCESSES_MAX };

unsigned rw_reference_bytes(const struct rw *w, const struct rw_reference *r, bool is_cold)
{
    uint8_t code[SITE_BYTES_MAX];
    struct code c = {.w = w, .r = r, .first = code, .p = code};
    struct labels l = {.full = 0};
    is_cold ? put_cold(&c, &l, 0) : put_hot(&c, &l, 0);
    return offset(&c);
}

void rw_put_reference(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    const struct rw_reference *r = &w->references->data[f->id];
    uint8_t code[SITE_BYTES_MAX];
    struct code other = {.w = w, .r = r, .first = code, .p = code},
                c = {.w = w, .r = r, .first = at, .p = at, .addr = addr};
    struct labels l = {.full = 0};
    if (f->how & RW_REFERENCE_COLD) {
        struct code dry = {.w = w, .r = r, .first = code, .p = code};
        put_hot(&other, &l, 0);
        put_cold(&dry, &l, 0); /* its own labels */
        put_cold(&c, &l, rw_reference_address(w, r, r->hot));
    } else {
        put_cold(&other, &l, 0);
        put_hot(&c, &l, rw_reference_address(w, r, r->cold));
    }
}

/* cmp gs:[left],0; jg */
void rw_put_check(const struct rw *w, uint8_t *at, uint64_t addr, uint64_t to)
{
    struct code c = {.w = w, .first = at, .p = at, .addr = addr};
    insn(&c, WITH_BYTE, CMP, in_stream(offsetof(struct wire_stream, left)));
    *c.p++ = 0;
    jump_if(&c, ABOVE, to);
}

/* ---- frames ---- */

uint8_t rw_reference_how(const struct rw_reference *r, bool is_cold)
{
    return (uint8_t)(slots(r) | (r->is_range ? RW_REFERENCE_RANGE : 0) | (is_cold ? RW_REFERENCE_COLD : 0));
}

/* Where the cold part moves the stack pointer itself, if it does. */
static void cold_frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    uint8_t code[SITE_BYTES_MAX];
    struct code c = {.w = w, .r = &w->references->data[f->id], .first = code, .p = code};
    struct labels l = {.full = 0};
    uint32_t pushed = (uint32_t)stack_bytes(slots(c.r)), down = pushed + (uint32_t)cold_move(c.r);
    put_cold(&c, &l, 0);
    if (pushed)
        rw_frame(out, f->off, pushed);
    for (unsigned i = 0; i < c.moves; i++)
        rw_frame(out, f->off + c.moved[i], i % 2 ? pushed : down);
}

void rw_reference_frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    uint32_t pushed = (uint32_t)stack_bytes(f->how & RW_REFERENCE_SLOTS);
    if (f->how & RW_REFERENCE_COLD) {
        cold_frames(w, f, out);
        return;
    }
    if (!pushed)
        return;
    if (f->how & RW_REFERENCE_RANGE)
        rw_frame(out, f->off + LEA_RSP_BYTES, pushed - 8);
    rw_frame(out, f->off + LEA_RSP_BYTES + (f->how & RW_REFERENCE_RANGE ? 1 : 0), pushed);
    rw_frame(out, f->off + f->bytes, 0);
}
