/* SPDX-License-Identifier: Apache-2.0
 * Which slices of a window are replayed, by which means they end, and what their times say. The windows are made here,
 * as the runtime would write them. */
#include "replay/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the three above it */

enum { WORDS = 400000, RAX = 0, RCX = 1, RDX = 2, RBX = 3, RSP = 4, RSI = 6 };
#define CODE 0x401000u
#define DATA 0x7000000u

struct bench {
    struct wire_windows *w;
    uint64_t regs[16];
};

static void set_up(struct bench *b)
{
    b->w = xmalloc(sizeof *b->w + WORDS * 8);
    b->w->capacity = WORDS;
    b->w->window_count = 1;
    memset(b->regs, 0, sizeof b->regs);
}

/* Executes the instruction at an address: its bytes and all registers before it. */
static void step(struct bench *b, uint64_t at, const char *bytes, size_t n)
{
    struct wire_windows *w = b->w;
    uint8_t padded[16] = {0};
    memcpy(padded, bytes, n);
    assert_true(w->used + WIRE_STEP_WORDS_MAX <= WORDS);
    w->data[w->used++] = at | WIRE_STEP_BYTES | 0xffffull << 48;
    memcpy(&w->data[w->used], b->regs, sizeof b->regs);
    memcpy(&w->data[w->used + 16], padded, sizeof padded);
    w->used += 18;
    w->windows[0].steps++;
}
#define STEP(at, text) step(&b, (at), (text), sizeof(text) - 1)

static void pass_by(struct bench *b, uint32_t nops, uint64_t at) /* each met once */
{
    for (uint32_t i = 0; i < nops; i++)
        step(b, at + i, "\x90", 1);
}

/* A loop that reads data: mov (rsi),rax; add rsi,8; then what decides; jcc back. */
static void iteration(struct bench *b, const char *compare, size_t n, const char *jump)
{
    uint64_t at = CODE;
    step(b, at, "\x48\x8b\x06", 3);
    step(b, at + 3, "\x48\x83\xc6\x08", 4);
    b->regs[RSI] += 8;
    step(b, at + 7, compare, n);
    step(b, at + 7 + n, jump, 2);
}

static void straight_code_ends_by_itself(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    pass_by(&b, 5000, CODE);
    replay_plan(b.w, 0);
    const struct wire_slice *s = &b.w->slice[0][0];
    assert_int_equal(b.w->slice_count[0], 1);
    assert_int_equal(s->first, 1);
    assert_true(s->last > 4900 && s->last < 5000);
    assert_int_equal(s->form[0].patch_at, CODE + s->last);
    assert_true(s->forms == 2 && s->form[0].iterations == 1 && s->line_count == 0 &&
                s->form[0].bound_patch_bytes == 0 && !s->is_wide);
    assert_true(s->form[0].last == s->last && s->form[1].last > s->last / 5 && s->form[1].last < s->last / 3);
    assert_int_equal(s->form[1].patch_at, CODE + s->form[1].last);
    free(b.w);
}

static void a_loop_is_left_by_its_bound(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    b.regs[RSI] = DATA;
    b.regs[RDX] = DATA + 8 * 100000;
    for (int k = 0; k < 400; k++)
        iteration(&b, "\x48\x39\xd6", 3, "\x75\xf4"); /* cmp rsi,rdx; jne */
    replay_plan(b.w, 0);
    const struct wire_slice *s = &b.w->slice[0][0];
    assert_true(b.w->slice_count[0] >= 1);
    uint64_t iterations = s->form[0].iterations;
    assert_true(iterations >= 150 && s->forms == 2 && iterations == (s->last - s->first + 3) / 4 && s->has_longer);
    assert_true(s->form[WIRE_LONGER].iterations > iterations * 5 / 4 && s->form[WIRE_LONGER].patch_at == CODE + 12);
    assert_int_equal(s->form[0].patch_at, CODE + 12); /* behind the jump */
    assert_int_equal(s->begin[RDX], DATA + 8 * 100000);
    assert_int_equal(s->form[0].enter[RDX], s->form[0].end[RDX]);
    assert_int_equal(s->form[0].enter[RDX], s->form[0].end[RSI]); /* left when rsi is there */
    assert_true(s->form[1].iterations > iterations / 4 && s->form[1].iterations < iterations / 2 &&
                s->form[1].patch_at == CODE + 12);
    assert_int_equal(s->form[1].enter[RDX], s->form[1].end[RSI]);
    assert_int_equal(s->form[0].end[RSI] - s->form[1].end[RSI], 8 * (iterations - s->form[1].iterations));
    assert_true(s->form[0].counts == 0 && s->form[1].counts == 0);
    free(b.w);
}

/* cmp (rsi),al; je out; inc rsi; cmp rsi,rdx; jne: the end is looked at by the code behind, the sentinel by nobody. */
static void a_loop_is_left_from_its_middle(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    b.regs[RSI] = DATA;
    b.regs[RDX] = DATA + 100000;
    b.regs[RCX] = DATA + 50000;
    for (int k = 0; k < 400; k++) {
        step(&b, CODE, "\x48\x39\xce", 3); /* cmp rsi,rcx; jae out */
        step(&b, CODE + 3, "\x73\x20", 2);
        step(&b, CODE + 5, "\x48\x01\xd0", 3); /* add rax,rdx */
        step(&b, CODE + 8, "\x48\xff\xc6", 3);
        b.regs[RSI]++;
        step(&b, CODE + 11, "\x48\x39\xd6", 3); /* cmp rsi,rdx; jne */
        step(&b, CODE + 14, "\x75\xf0", 2);
    }
    replay_plan(b.w, 0);
    const struct wire_slice *s = &b.w->slice[0][0];
    assert_true(b.w->slice_count[0] >= 1 && s->forms == 2 && !s->form[0].counts);
    assert_int_equal(s->form[0].patch_at, CODE + 5 + 0x20); /* where it jumps to */
    assert_int_equal(s->form[0].enter[RCX], s->form[0].end[RSI]);
    assert_int_equal(s->form[1].enter[RCX], s->form[1].end[RSI]);
    assert_true(s->form[1].end[RSI] < s->form[0].end[RSI]);
    assert_int_equal(s->form[0].enter[RDX], s->begin[RDX]);
    free(b.w);
}

/* A line so much further on at every iteration. */
static void stride(struct bench *b, uint64_t bytes, uint32_t iterations)
{
    uint8_t add[7] = {0x48, 0x81, 0xc6}; /* add rsi,bytes */
    memcpy(add + 3, &bytes, 4);
    b->regs[RSI] = DATA;
    b->regs[RDX] = DATA + bytes * 100000;
    for (uint32_t k = 0; k < iterations; k++) {
        step(b, CODE, "\x48\x8b\x06", 3);
        step(b, CODE + 3, (const char *)add, 7);
        b->regs[RSI] += bytes;
        step(b, CODE + 10, "\x48\x39\xd6", 3);
        step(b, CODE + 13, "\x75\xf1", 2);
    }
}

/* No piece of few pages is long enough, but one of few lines is; and a short one is if it goes round. */
static void many_pages_are_replayed_apart(void **state)
{
    (void)state;
    struct bench b;
    uint32_t wide = 0, round = 0;
    set_up(&b);
    stride(&b, 4160, 1000);
    replay_plan(b.w, 0);
    for (uint32_t s = 0; s < b.w->slice_count[0]; s++) {
        const struct wire_slice *slice = &b.w->slice[0][s];
        uint64_t steps = slice->last - slice->first;
        assert_true(slice->is_wide ? steps >= 600 && steps <= 225 * 4
                                   : steps >= 48 && steps <= 41 * 4 && slice->form[0].rounds > 1);
        wide += slice->is_wide;
        round += !slice->is_wide;
    }
    assert_true(wide >= 1 && round >= 1);
    free(b.w);
}

static void sets_are_not_overfilled(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    stride(&b, 4096, 1000); /* all in one set of the cache: 6 of them are not 48 steps */
    replay_plan(b.w, 0);
    assert_int_equal(b.w->slice_count[0], 0);
    free(b.w);
    set_up(&b);
    stride(&b, 65536 + 64, 1000); /* all in one set of a TLB that has sets */
    replay_plan(b.w, 0);
    for (uint32_t s = 0; s < b.w->slice_count[0]; s++)
        assert_true(b.w->slice[0][s].is_wide);
    free(b.w);
}

/* What is added at a round's end brings all registers back to what they were, and only what differs is added to. */
static void a_round_ends_where_it_began(void **state)
{
    (void)state;
    static const uint8_t add_rsi[] = {0x48, 0x03, 0x35}, dec[] = {0x48, 0xff, 0x0d};
    struct bench b;
    set_up(&b);
    stride(&b, 4160, 150);
    replay_plan(b.w, 0);
    assert_true(b.w->slice_count[0] >= 1);
    const struct wire_slice *s = &b.w->slice[0][0];
    const struct wire_form *f = &s->form[0];
    assert_true(f->rounds >= 64 && s->forms == 2 && s->form[1].rounds < f->rounds / 2 && !s->has_longer);
    for (int r = 0; r < 16; r++) {
        assert_int_equal(f->end[r] + f->change[r], f->enter[r]);
        assert_true((f->change[r] != 0) == (r == RSI));
    }
    const struct wire_stub *stub = &f->stub;
    assert_memory_equal(stub->code, add_rsi, sizeof add_rsi);
    assert_memory_equal(stub->code + 7, dec, sizeof dec);
    assert_int_equal(stub->fixes, 4);
    assert_int_equal(stub->fix[0].target, WIRE_TARGET_CHANGE + RSI);
    assert_int_equal(stub->fix[1].target, WIRE_TARGET_COUNTER);
    assert_int_equal(stub->fix[2].target, WIRE_TARGET_EXIT);
    assert_int_equal(stub->fix[3].target, CODE); /* an iteration's first instruction */
    free(b.w);
}

struct text {
    const char *bytes;
    size_t n;
};
#define TEXT(t)                                                                                                        \
    {                                                                                                                  \
        t, sizeof(t) - 1                                                                                               \
    }

#define ADD_ONE "\x48\xff\xc0" /* inc rax */

/* How many slices go round if so much more is in the middle of an iteration; *first: of them. */
static uint32_t rounds_with(const struct text *more, size_t count, struct wire_slice *first)
{
    struct bench b;
    uint32_t round = 0;
    set_up(&b);
    b.regs[RSI] = DATA;
    b.regs[RDX] = DATA + 4160 * 100000ull;
    b.regs[RSP] = DATA - 4096;
    for (int k = 0; k < 200; k++) {
        uint64_t at = CODE + 10;
        step(&b, CODE, "\x48\x8b\x06", 3);
        step(&b, CODE + 3, "\x48\x81\xc6\x40\x10\0\0", 7);
        b.regs[RSI] += 4160;
        for (size_t i = 0; i < count; at += more[i++].n) {
            step(&b, at, more[i].bytes, more[i].n);
            b.regs[RAX] += more[i].n == 3 && !memcmp(more[i].bytes, ADD_ONE, 3);
        }
        step(&b, at, "\x48\x39\xd6", 3);
        step(&b, at + 3, "\x75\x00", 2);
        b.w->data[b.w->used - 2] = 0x75 | (uint64_t)(uint8_t)(CODE - (at + 5)) << 8;
    }
    replay_plan(b.w, 0);
    for (uint32_t s = 0; s < b.w->slice_count[0]; s++)
        if (b.w->slice[0][s].form[0].rounds > 1 && !round++)
            *first = b.w->slice[0][s];
    free(b.w);
    return round;
}
#define ROUNDS_WITH(...)                                                                                               \
    rounds_with((struct text[]){__VA_ARGS__}, sizeof((struct text[]){__VA_ARGS__}) / sizeof(struct text), &slice)

static const struct text load = TEXT("\x48\x8b\x04\x24") /* mov rax,[rsp] */, add_one = TEXT(ADD_ONE),
                         store = TEXT("\x48\x89\x04\x24");

static void a_sum_in_a_vector_goes_round(void **state)
{
    (void)state;
    struct wire_slice slice;
    const struct text sum = TEXT("\xf2\x0f\x58\x06"),
                      take = TEXT("\xf2\x48\x0f\x2c\xc0"); /* addsd xmm0,[rsi]; cvttsd2si rax,xmm0 */
    assert_true(ROUNDS_WITH(TEXT("\x90")) > 0);
    assert_true(ROUNDS_WITH(sum) > 0);
    assert_true(ROUNDS_WITH(sum, take) > 0);                                         /* loaded anew before it is read */
    assert_int_equal(ROUNDS_WITH(sum, take, TEXT("\x48\x8b\x04\xc4")), 0);           /* mov rax,[rsp+rax*8] */
    assert_int_equal(ROUNDS_WITH(sum, TEXT("\x66\x0f\x2e\xc1"), TEXT("\x76\0")), 0); /* ucomisd xmm0,xmm1; jbe */
    assert_int_equal(ROUNDS_WITH(TEXT("\xd8\xc1")), 0);                              /* fadd st,st(1) */
}

static void a_count_in_memory_goes_round(void **state)
{
    (void)state;
    struct wire_slice slice;
    assert_true(ROUNDS_WITH(store) > 0);
    assert_true(ROUNDS_WITH(TEXT("\x48\xff\x04\x24")) > 0); /* inc qword [rsp] */
    assert_true(ROUNDS_WITH(load, add_one, store) > 0);     /* rax differs at the end: it is given its value */
    assert_true(slice.form[0].change[RAX] == slice.form[0].enter[RAX] && slice.form[0].stub.code[1] == 0x8b);
    assert_int_equal(ROUNDS_WITH(load, add_one, store, TEXT("\x48\x8b\x3c\xc4")), 0); /* mov rdi,[rsp+rax*8] */
    assert_int_equal(ROUNDS_WITH(load, add_one, store, TEXT("\x48\x01\xc3")), 0);     /* add rbx,rax: rbx lasts */
    assert_int_equal(ROUNDS_WITH(load, add_one, TEXT("\x74\0"), store), 0);           /* jz */
    assert_int_equal(ROUNDS_WITH(load, add_one, store, TEXT("\x48\xf7\xf0")), 0);     /* div rax */
}

/* What is stored is what was loaded: nothing depends on how often it went round, not even an address. */
static void what_is_saved_and_restored_goes_round(void **state)
{
    (void)state;
    struct wire_slice slice;
    const struct text by_it = TEXT("\x48\x8b\x3c\xc4"); /* mov rdi,[rsp+rax*8] */
    assert_true(ROUNDS_WITH(load, store, by_it) > 0);
    assert_true(ROUNDS_WITH(TEXT("\x58"), TEXT("\x50"), by_it) > 0); /* pop rax; push rax */
    assert_int_equal(ROUNDS_WITH(load, add_one, store, by_it), 0);
}

/* A list: mov (rsi),rsi; test rsi,rsi; jne. The last node of the slice is made the list's last. */
/* Turns of a first instruction and 16 that wait for one another; would rounds of steps `from` to `to` of an iteration
 * in their middle wait as the program does? */
static bool go_on(const struct text *first, const struct text *wait, uint32_t from, uint32_t to)
{
    enum { ITERATIONS = 150, MIDDLE = 75, LENGTH = 17 };
    struct bench b;
    struct stream s = {.fs = 0};
    set_up(&b);
    b.regs[RSI] = DATA;
    for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++)
        for (uint64_t k = 0, at = CODE; k < LENGTH; at += k++ ? wait->n : first->n)
            step(&b, at, k ? wait->bytes : first->bytes, k ? wait->n : first->n);
    assert_true(stream_read(&s, b.w, 0));
    bool goes_on = chains_go_on(&s, MIDDLE * LENGTH + from, MIDDLE * LENGTH + to, 0);
    stream_free(&s);
    free(b.w);
    return goes_on;
}

static void a_search_that_begins_anew_does_not_wait(void **state)
{
    (void)state;
    const struct text begin = TEXT("\x31\xc0") /* xor eax,eax */, nop = TEXT("\x90"), next = TEXT("\x48\x8b\x04\x06"),
                      count = TEXT(ADD_ONE);   /* next: mov rax,[rsi+rax] */
    assert_false(go_on(&begin, &next, 1, 17)); /* a part, which would wait for itself */
    assert_false(go_on(&begin, &next, 5, 13));
    assert_true(go_on(&begin, &next, 0, 17)); /* the whole */
    assert_true(go_on(&nop, &next, 1, 17));   /* one list without an end */
    assert_false(go_on(&begin, &count, 1, 17));
    assert_true(go_on(&nop, &count, 1, 17));
}

static void a_list_is_cut(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    b.regs[RSI] = DATA;
    for (int k = 0; k < 300; k++) {
        step(&b, CODE, "\x48\x03\x46\x08", 4); /* add rax,[rsi+8] */
        b.regs[RAX] += (uint64_t)k;
        step(&b, CODE + 4, "\x48\x8b\x36", 3);
        b.regs[RSI] = DATA + (uint64_t)(k + 1) * 7 % 301 * 8256;
        step(&b, CODE + 7, "\x48\x85\xf6", 3);
        step(&b, CODE + 10, "\x75\xf4", 2);
    }
    replay_plan(b.w, 0);
    assert_true(b.w->slice_count[0] >= 1);
    const struct wire_slice *s = &b.w->slice[0][0];
    const struct wire_form *f = &s->form[0];
    uint64_t iteration = (s->last - 1) / 4; /* that is the last */
    assert_true(f->rounds > 1 && f->bound_patch_bytes == 8);
    assert_int_equal(f->bound_patch_at, DATA + iteration * 7 % 301 * 8256);
    assert_memory_equal(f->bound_patch, "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(f->end[RSI], 0);
    assert_int_equal(f->change[RSI], f->enter[RSI]);
    assert_int_equal(f->patch_at, CODE + 12);
    free(b.w);
}

static void a_bound_may_be_in_the_code(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    b.regs[RSI] = 8000;
    for (int k = 0; k < 400; k++)
        iteration(&b, "\x81\xfe\x00\x00\x10\x00", 6, "\x7c\xf1"); /* cmp esi,0x100000; jl */
    replay_plan(b.w, 0);
    const struct wire_slice *s = &b.w->slice[0][0];
    uint32_t bound = 0;
    assert_true(b.w->slice_count[0] >= 1 && s->forms == 2);
    assert_int_equal(s->form[0].bound_patch_at, CODE + 9);
    assert_int_equal(s->form[0].bound_patch_bytes, 4);
    memcpy(&bound, s->form[0].bound_patch, 4);
    assert_int_equal(bound, s->form[0].end[RSI]);
    assert_memory_equal(s->form[0].enter, s->begin, sizeof s->begin);
    memcpy(&bound, s->form[1].bound_patch, 4);
    assert_int_equal(bound, s->form[1].end[RSI]);
    free(b.w);
}

static void a_counter_is_shortened(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    b.regs[RSI] = DATA;
    b.regs[RCX] = 5000;
    for (int k = 0; k < 400; k++) {
        step(&b, CODE, "\x48\x8b\x06", 3);
        step(&b, CODE + 3, "\x48\x83\xc6\x08", 4);
        b.regs[RSI] += 8;
        step(&b, CODE + 7, "\x48\xff\xc9", 3); /* dec rcx; jne */
        b.regs[RCX]--;
        step(&b, CODE + 10, "\x75\xf4", 2);
    }
    replay_plan(b.w, 0);
    const struct wire_slice *s = &b.w->slice[0][0];
    assert_true(b.w->slice_count[0] >= 1 && s->forms == 2);
    assert_int_equal(s->form[0].enter[RCX], (s->last - s->first + 3) / 4);
    assert_int_equal(s->form[0].end[RCX], 0);
    free(b.w);
}

/* A loop whose end something else looks at, with so many instructions besides. */
static void plan_shared_end(struct bench *b, int more)
{
    set_up(b);
    b->regs[RSI] = DATA;
    b->regs[RDX] = DATA + 8 * 100000;
    for (int k = 0; k < 4000 / (5 + more); k++) {
        step(b, CODE, "\x48\x8b\x06", 3);
        step(b, CODE + 3, "\x48\x01\xd0", 3); /* add rax,rdx */
        step(b, CODE + 6, "\x48\x83\xc6\x08", 4);
        b->regs[RSI] += 8;
        for (int i = 0; i < more; i++)
            step(b, CODE + 10 + 3 * (uint64_t)i, "\x48\x01\xd0", 3);
        step(b, CODE + 10 + 3 * (uint64_t)more, "\x48\x39\xd6", 3);
        step(b, CODE + 13 + 3 * (uint64_t)more, "\x75\xf1", 2);
    }
    replay_plan(b->w, 0);
}

static void what_else_looks_at_stays(void **state)
{
    (void)state;
    struct bench b;
    plan_shared_end(&b, 0);
    assert_int_equal(b.w->slice_count[0], 0); /* a stub would be a good part of each turn */
    free(b.w);
    plan_shared_end(&b, 95);
    const struct wire_slice *s = &b.w->slice[0][0];
    assert_true(b.w->slice_count[0] >= 1);
    for (int f = 0; f < 2; f++) {
        assert_true(s->forms == 2 && s->form[f].counts == 1 && s->form[f].stub.bytes > 13);
        assert_memory_equal(s->form[f].enter, s->begin, sizeof s->begin);
        assert_int_equal(s->form[f].stub.fix[0].target, WIRE_TARGET_COUNTER);
        assert_int_equal(s->form[f].stub.fix[1].target, WIRE_TARGET_EXIT);
        assert_int_equal((s->form[f].iterations - 1) * 100, s->form[f].last - s->first);
    }
    assert_true(s->form[1].iterations < s->form[0].iterations / 2);
    free(b.w);
}

static void memory_is_bounded_and_undone(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    b.regs[RSI] = DATA;
    for (int k = 0; k < 3000; k++) { /* mov rax,(rsi), each a line of its own, code met once */
        step(&b, CODE + 7 * (uint64_t)k, "\x48\x89\x06", 3);
        b.regs[RSI] += 64;
        step(&b, CODE + 7 * (uint64_t)k + 3, "\x48\x83\xc6\x40", 4);
    }
    replay_plan(b.w, 0);
    for (uint32_t k = 0; k < b.w->slice_count[0]; k++) /* 224 lines are not 600 steps */
        assert_true(b.w->slice[0][k].form[0].rounds > 1 && b.w->slice[0][k].line_count <= 224);
    free(b.w);
    set_up(&b);
    b.regs[RSP] = DATA + 68;
    for (int k = 0; k < 2000; k++) {
        step(&b, CODE + 2 * (uint64_t)k, "\x50", 1); /* push rax; pop rax */
        b.regs[RSP] -= 8;
        step(&b, CODE + 2 * (uint64_t)k + 1, "\x58", 1);
        b.regs[RSP] += 8;
    }
    replay_plan(b.w, 0);
    assert_int_equal(b.w->slice_count[0], 1);
    assert_int_equal(b.w->slice[0][0].line_count, 1 + 1); /* the slot lies across two lines */
    free(b.w);
}

static void barriers_are_not_crossed(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    pass_by(&b, 300, CODE);
    STEP(CODE + 300, "\x0f\x05"); /* syscall */
    pass_by(&b, 300, CODE + 302);
    STEP(CODE + 602, "\x0f\xae\x24\x24"); /* xsave (rsp) */
    pass_by(&b, 1000, CODE + 606);
    replay_plan(b.w, 0);
    for (uint32_t i = 0; i < b.w->slice_count[0]; i++)
        assert_true(b.w->slice[0][i].first > 601);
    free(b.w);
}

static void broken_words_have_no_slices(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    pass_by(&b, 2000, CODE);
    b.w->windows[0].first = b.w->used - 3;
    replay_plan(b.w, 0);
    assert_int_equal(b.w->slice_count[0], 0);
    b.w->windows[0].first = b.w->used + 1;
    replay_plan(b.w, 0);
    assert_int_equal(b.w->slice_count[0], 0);
    b.w->windows[0].first = 0;
    for (uint64_t i = 0; i < b.w->used; i++)
        b.w->data[i] = i * 0x9e3779b97f4a7c15u;
    replay_plan(b.w, 0);
    free(b.w);
}

/* ---- times ---- */

enum { EDGE = 60 }; /* ticks */
static const struct replay_edge EDGES = {{2 * EDGE, 2 * EDGE, 2 * EDGE}, {15, 15, 15}},
                                NO_EDGES = {{0, 0, 0}, {0, 0, 0}};

/* 4000 steps that take so many ticks; with two forms the second ends after 1000 of them. */
static struct wire_slice replayed(uint32_t forms, uint32_t ticks)
{
    struct wire_canary canary = {.times = 1, .chain = 1024, .width = 1024};
    struct wire_slice s = {.state = WIRE_SLICE_DONE,
                           .forms = forms,
                           .first = 10,
                           .last = 4010,
                           .form = {{.last = 4010, .iterations = 40}, {.last = 1010, .iterations = 10}},
                           .batch_count = WIRE_BATCHES,
                           .second = {EDGE + ticks + 400, 50, canary}};
    for (uint32_t b = 0; b < WIRE_BATCHES; b++) {
        s.batches[b] = (struct wire_batch){
            .form = b % forms, .replays = WIRE_REPLAYS, .canary = canary, .empty = 50, .ticks = {0}};
        for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
            s.batches[b].ticks[k] = EDGE + (b % forms ? ticks / 4 : ticks) + (k == 0 ? 900 : k == 1 ? 300 : k % 3);
    }
    return s;
}

static void times_are_core_cycles(void **state)
{
    (void)state;
    struct replay_time t;
    struct wire_slice s = replayed(1, 1000);
    assert_true(replay_measure(&s, 1, &EDGES, &t));
    assert_true(fabs(t.cycles - 2000) < 5 && t.first == 10); /* 1024 ticks were 2048 cycles */
    assert_true(fabs(t.untrained - 800) <
                5); /* by the second replay of all, not by that of a batch that was tried again */
    assert_true(t.spread > 0.05 && t.spread < 0.08 && isnan(t.edge)); /* what is in flight at the end is waited for */
    s.form[0].rounds = 10;                                            /* but the second replay of all is of one */
    assert_true(replay_measure(&s, 1, &EDGES, &t));
    assert_true(fabs(t.cycles - 197.5) < 1 && t.first == 10 && fabs(t.untrained - 2600) < 5); /* a stub in each */
    s.state = WIRE_SLICE_DIFFERS;
    assert_false(replay_measure(&s, 1, &EDGES, &t));
    s = replayed(1, 150);
    assert_true(replay_measure(&s, 1, &EDGES, &t));
    assert_true(t.spread > 0.07 && t.spread < 0.10); /* its ends tell in so short a slice */
    s = replayed(1, 40);
    assert_false(replay_measure(&s, 1, &EDGES, &t)); /* too short */
}

static void ends_are_in_both_forms(void **state)
{
    (void)state;
    struct replay_time t;
    struct wire_slice s = replayed(2, 1000);
    assert_true(replay_measure(&s, 1, &(struct replay_edge){{1e6, 1e6, 1e6}, {0, 0, 0}} /* is not asked for */, &t));
    assert_true(t.first == 1010 && fabs(t.cycles - 1500) < 5 && fabs(t.edge - 2 * EDGE) < 10);
    assert_true(t.exit == REPLAY_MAY_TRAIN && t.spread > 0.015 &&
                t.spread < 0.02); /* the jump that ends one of the two may be learnt */
    s.has_longer = 1;
    assert_true(replay_measure(&s, 1, &NO_EDGES, &t));
    assert_true(t.exit == REPLAY_LEAVES && fabs(t.cycles - 1500) < 5 && t.spread < 0.01);
    s = replayed(2, 150);
    s.form[0].iterations = s.form[1].iterations = 1;
    assert_true(replay_measure(&s, 1, &NO_EDGES, &t));
    assert_true(t.exit == REPLAY_GOES_ON && fabs(t.cycles - 226) < 5 && t.spread < 0.03);
    s = replayed(2, 1000);
    for (uint32_t b = 1; b < WIRE_BATCHES; b += 2)
        s.batches[b].canary.width = 1500; /* the short one was never alone */
    assert_true(replay_measure(&s, 1, &EDGES, &t));
    assert_true(t.first == 10 && fabs(t.cycles - 2000) < 5);
}

static void rounds_are_told_from_their_ends(void **state)
{
    (void)state;
    struct replay_time t;
    struct wire_slice s = replayed(2, 4000); /* the second has a quarter of the rounds */
    s.form[1].last = s.form[0].last;
    s.form[0].rounds = 64, s.form[1].rounds = 16;
    assert_true(replay_measure(&s, 1, &NO_EDGES, &t));
    assert_true(fabs(t.cycles - (6000.0 / 48 - 2.5)) < 0.2 && t.first == 10 && isnan(t.edge));
    for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
        s.batches[0].ticks[k] += 800; /* one that has not learnt */
    assert_true(replay_measure(&s, 1, &NO_EDGES, &t));
    assert_true(fabs(t.cycles - (6000.0 / 48 - 2.5)) < 0.2 && t.spread < 0.03);
    for (uint32_t b = 0; b < WIRE_BATCHES - 2; b += 2)
        for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
            s.batches[b].ticks[k] = s.batches[WIRE_BATCHES - 2].ticks[k] + 400 + 100 * b; /* no two agree */
    assert_true(replay_measure(&s, 1, &NO_EDGES, &t) && t.spread > 0.1);
    s = replayed(2, 1000);
    s.form[0].rounds = 200, s.form[1].rounds = 50; /* of ten cycles: the stub's tell too much */
    assert_false(replay_measure(&s, 1, &NO_EDGES, &t));
}

static void edges_are_by_how_slices_end(void **state)
{
    (void)state;
    double on[] = {90, 400, 70}, leaves[] = {150, 120, 130};
    struct replay_edge both = replay_edge_of(on, 3, leaves, 3), one = replay_edge_of(on, 3, NULL, 0),
                       none = replay_edge_of(NULL, 0, NULL, 0), few = replay_edge_of(on + 1, 2, NULL, 0);
    assert_true(both.cycles[REPLAY_GOES_ON] == 90 && both.cycles[REPLAY_LEAVES] == 130 &&
                both.cycles[REPLAY_MAY_TRAIN] == 110);
    assert_true(one.cycles[REPLAY_GOES_ON] == 90 && one.cycles[REPLAY_LEAVES] > 110);
    assert_true(one.error[REPLAY_LEAVES] > one.error[REPLAY_GOES_ON] &&
                none.error[REPLAY_GOES_ON] > one.error[REPLAY_GOES_ON]);
    assert_true(few.cycles[REPLAY_GOES_ON] == none.cycles[REPLAY_GOES_ON]);
}

static void a_stub_must_vanish(void **state)
{
    (void)state;
    struct replay_time t;
    struct wire_slice s = replayed(2, 1000);
    s.form[0].counts = s.form[1].counts = 1;
    assert_true(replay_measure(&s, 1, &NO_EDGES, &t)); /* 30 iterations of 50 cycles */
    assert_true(t.cycles < 1500 - 50 && t.cycles > 1500 - 100 && t.spread > 0.04);
    s.form[0].iterations = 60; /* of 30 */
    assert_false(replay_measure(&s, 1, &NO_EDGES, &t));
}

/* In steps of 26 ticks a time is one of two values. */
static void a_coarse_clock_is_read_between_its_steps(void **state)
{
    (void)state;
    struct replay_time t;
    struct wire_slice s = replayed(2, 1000);
    for (uint32_t b = 0; b < WIRE_BATCHES; b++)
        for (uint32_t k = 0; k < WIRE_REPLAYS; k++) {
            uint32_t at = (b * 7 + k * 11) % 26, ticks = EDGE + (b % 2 ? 250 : 1000);
            s.batches[b].ticks[k] = (at + ticks) / 26 * 26 - at / 26 * 26;
        }
    assert_true(replay_measure(&s, 1, &NO_EDGES, &t));
    assert_true(fabs(t.cycles - 1500) < 30);
}

static void disturbed_batches_do_not_count(void **state)
{
    (void)state;
    struct replay_time t;
    struct wire_slice s = replayed(1, 1000);
    for (uint32_t b = 0; b < WIRE_BATCHES - 1; b++) {
        s.batches[b].canary.width = 1500;
        for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
            s.batches[b].ticks[k] *= 2;
    }
    assert_true(replay_measure(&s, 1, &EDGES, &t));
    assert_true(fabs(t.cycles - 2000) < 5);
    s.batches[WIRE_BATCHES - 1].canary.chain = 1300; /* the clock slipped between the canaries */
    assert_false(replay_measure(&s, 1, &EDGES, &t));
    s.batches[WIRE_BATCHES - 1].canary.chain = 1024;
    s.batches[WIRE_BATCHES - 1].canary.width = 1500;
    assert_false(replay_measure(&s, 1, &EDGES, &t));
}

static void a_neighbour_who_slows_nothing_is_told(void **state)
{
    (void)state;
    struct wire_slice s = replayed(1, 1000);
    struct replay_quiet q = {1.2, 1.2, 1.0};
    assert_true(isnan(replay_slower(&s, &q))); /* all of its batches are of the quietest */
    for (uint32_t b = 2; b < WIRE_BATCHES; b++)
        s.batches[b].canary.width = s.batches[b].canary.width * 12 / 10;
    assert_true(fabs(replay_slower(&s, &q) - 1) < 0.01);
    for (uint32_t b = 2; b < WIRE_BATCHES; b++)
        for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
            s.batches[b].ticks[k] = s.batches[b].ticks[k] * 11 / 10;
    assert_true(fabs(replay_slower(&s, &q) - 1.1) < 0.01);
}

static void one_slip_of_the_clock_is_no_width(void **state)
{
    (void)state;
    double slip[] = {1.5, 0.7, 1.004, 1.0, 1.3, 1.002}, none_agree[] = {1, 1.2, 1.4, 1.6, 1.8}, two[] = {2, 1};
    assert_true(replay_width_undisturbed(slip, 6).width == 1.002);
    assert_true(replay_width_undisturbed(none_agree, 5).width == 1.4);
    assert_true(replay_width_undisturbed(two, 2).width == 1);
    assert_true(replay_width_undisturbed(NULL, 0).width == 0);
}

static void a_neighbour_who_stays_is_borne_with(void **state)
{
    (void)state;
    double widths[40], gone[40];
    for (int i = 0; i < 40; i++) {
        widths[i] = i < 4 ? 1 : 1.2 + i * 0.0002;
        gone[i] = i < 12 ? 1 + i * 0.0002 : 1.2 + i * 0.0002;
    }
    struct replay_quiet q = replay_width_undisturbed(widths, 40), undisturbed = replay_width_undisturbed(gone, 40);
    assert_true(fabs(q.width - 1.204) < 0.003 && fabs(q.shared - 1.204) < 0.003);
    assert_true(fabs(undisturbed.width - 1.001) < 0.002 && undisturbed.shared == 1);
}

static void most_quiet_batches_are_alike(void **state)
{
    (void)state;
    double quiet[] = {0.991, 0.993, 0.995, 1.9, 1.01, 1.012, 1.011, 1.013, 1.6, 0.7};
    assert_true(replay_width_undisturbed(quiet, 10).width == 1.012);
    struct replay_time t;
    struct wire_slice s = replayed(1, 1000);
    for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
        s.batches[0].ticks[k] += (k % 10) * 20; /* its replays are unlike: it counts, and says so */
    for (uint32_t b = 1; b < WIRE_BATCHES; b++)
        s.batches[b].canary.width = b % 2 ? 990 : 1060;
    assert_true(replay_measure(&s, 1, &EDGES, &t));
    assert_true(t.spread > 0.11); /* more than a single batch has anyhow */
}

/* ---- when windows are enough ---- */

/* A window of one loop at `code`, whose slice took so many ticks; 0: none says anything. */
static void add_window(struct bench *b, struct replay_progress *p, uint64_t code, uint32_t ticks)
{
    uint32_t n = b->w->window_count++;
    b->w->windows[n] = (struct wire_window){.first = b->w->used, .steps = 300};
    for (uint32_t i = 0; i < 300; i++) {
        b->w->data[b->w->used++] = (code + i % 30 * 64) | WIRE_STEP_BYTES;
        memset(&b->w->data[b->w->used], 0x90, 16);
        b->w->used += 2;
    }
    b->w->slice_count[n] = ticks > 0;
    if (ticks)
        b->w->slice[n][0] = replayed(1, ticks);
    replay_has_converged(p, b->w, n); /* as the host asks while this one is planned */
}

static bool enough_after(const uint64_t *codes, const uint32_t *ticks, uint32_t n)
{
    struct bench b;
    struct replay_progress *p = replay_progress_new();
    set_up(&b);
    b.w->window_count = 0;
    for (uint32_t i = 0; i < n; i++)
        add_window(&b, p, codes[i], ticks[i]);
    bool enough = replay_has_converged(p, b.w, n);
    replay_progress_free(p);
    free(b.w);
    return enough;
}

static void windows_that_agree_are_enough(void **state)
{
    (void)state;
    enum { N = 20 };
    uint64_t one[N], two[N];
    uint32_t alike[N], unlike[N], none[N], mixed[N];
    for (uint32_t i = 0; i < N; i++) {
        one[i] = CODE, two[i] = i % 2 ? CODE : CODE + 0x10000;
        alike[i] = 2000 + i % 3 * 20, unlike[i] = 1000 + i % 3 * 1000, none[i] = 0;
        mixed[i] = i % 2 ? 2000 : 4000;
    }
    assert_true(enough_after(one, alike, 14));
    assert_false(enough_after(one, alike, 13));
    assert_false(enough_after(one, unlike, N)); /* it does not always take as long */
    assert_false(enough_after(one, mixed, N));
    assert_true(enough_after(two, mixed, N)); /* it is two */
    assert_true(enough_after(one, none, 14)); /* nothing will ever be known */
    for (uint32_t i = 1; i < N - 2; i += 2)
        mixed[i] = 0;
    assert_false(enough_after(two, mixed, N)); /* of one half too little */
}

static void code_met_once_is_waited_for(void **state)
{
    (void)state;
    uint64_t codes[20];
    uint32_t ticks[20];
    for (uint32_t i = 0; i < 20; i++)
        codes[i] = CODE + (i < 12 ? 0 : i * 0x10000), ticks[i] = 2000;
    assert_true(enough_after(codes, ticks, 15));  /* three of them */
    assert_false(enough_after(codes, ticks, 20)); /* eight */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(straight_code_ends_by_itself),
        cmocka_unit_test(a_loop_is_left_by_its_bound),
        cmocka_unit_test(many_pages_are_replayed_apart),
        cmocka_unit_test(a_loop_is_left_from_its_middle),
        cmocka_unit_test(sets_are_not_overfilled),
        cmocka_unit_test(a_round_ends_where_it_began),
        cmocka_unit_test(a_sum_in_a_vector_goes_round),
        cmocka_unit_test(a_count_in_memory_goes_round),
        cmocka_unit_test(what_is_saved_and_restored_goes_round),
        cmocka_unit_test(a_search_that_begins_anew_does_not_wait),
        cmocka_unit_test(a_list_is_cut),
        cmocka_unit_test(a_bound_may_be_in_the_code),
        cmocka_unit_test(a_counter_is_shortened),
        cmocka_unit_test(what_else_looks_at_stays),
        cmocka_unit_test(memory_is_bounded_and_undone),
        cmocka_unit_test(barriers_are_not_crossed),
        cmocka_unit_test(broken_words_have_no_slices),
        cmocka_unit_test(times_are_core_cycles),
        cmocka_unit_test(ends_are_in_both_forms),
        cmocka_unit_test(rounds_are_told_from_their_ends),
        cmocka_unit_test(edges_are_by_how_slices_end),
        cmocka_unit_test(a_stub_must_vanish),
        cmocka_unit_test(a_coarse_clock_is_read_between_its_steps),
        cmocka_unit_test(disturbed_batches_do_not_count),
        cmocka_unit_test(a_neighbour_who_slows_nothing_is_told),
        cmocka_unit_test(one_slip_of_the_clock_is_no_width),
        cmocka_unit_test(most_quiet_batches_are_alike),
        cmocka_unit_test(a_neighbour_who_stays_is_borne_with),
        cmocka_unit_test(windows_that_agree_are_enough),
        cmocka_unit_test(code_met_once_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
