/* SPDX-License-Identifier: Apache-2.0
 * The same instructions, recorded step by step and by translated code: a consumer of the iterator sees the same steps
 * with the same accesses. The two recordings are made here, as the runtime and translated code would write them, of a
 * program of a few instructions that is executed here too. */
#include "trace/trace.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };
enum {
    CODE = 0x10000,
    FS = 0x7000,
    TURNS = 5,
    ELEMENTS = 6,
    FOUND = 4,
    A_TURN = 15 /* instructions */,
    WORDS = 100000
};
enum { PAGES = 4, CODE_BYTES = 1 << 16 };

static const uint8_t code[] = {
    0x48, 0x8b, 0x47, 0x08,                               /* 0: mov rax, [rdi+8] */
    0x48, 0x83, 0xc7, 0x10,                               /* 4: add rdi, 16 */
    0x48, 0x01, 0x07,                                     /* 8: add [rdi], rax */
    0x53,                                                 /* 11: push rbx */
    0xe8, 0x19, 0x00, 0x00, 0x00,                         /* 12: call 42 */
    0xf3, 0xaa,                                           /* 17: rep stosb */
    0x64, 0x48, 0x8b, 0x04, 0x25, 0x10, 0x00, 0x00, 0x00, /* 19: mov rax, fs:[16] */
    0x48, 0x8b, 0x38,                                     /* 28: mov rdi, [rax] */
    0x5b,                                                 /* 31: pop rbx */
    0x48, 0xff, 0xca,                                     /* 32: dec rdx */
    0x75, 0xdb,                                           /* 35: jne 0 */
    0x48, 0x8b, 0x06,                                     /* 37: mov rax, [rsi] */
    0x0f, 0x05,                                           /* 40: syscall */
    0x48, 0x83, 0xc9, 0xff,                               /* 42: or rcx, -1 */
    0xf2, 0xae,                                           /* 46: repne scasb */
    0xb9, 0x06, 0x00, 0x00, 0x00,                         /* 48: mov ecx, 6 */
    0xc3,                                                 /* 53: ret */
};

struct executed {
    uint64_t address, regs[16]; /* before it */
};
struct bench {
    VEC(struct executed) steps; /* iterations of rep stosb are steps */
    uint64_t regs[16];
    struct wire_windows *w;
    struct wire_bursts *b;
    struct trace *t;
    struct arena *arena;
    struct trace_window by_step, by_burst;
    uint8_t *records;
    size_t bytes;
};

/* ---- the program ---- */

/* Returns the place of what comes next; 0 at the end. */
static unsigned execute(uint64_t r[16], unsigned at)
{
    switch (at) {
    case 0:
        r[RAX] = 0x1234;
        return 4;
    case 4:
        r[RDI] += 16;
        return 8;
    case 8:
        return 11;
    case 11:
        r[RSP] -= 8;
        return 12;
    case 12:
        r[RSP] -= 8;
        return 42;
    case 17:
        r[RDI]++;
        return --r[RCX] ? 17 : 19;
    case 19:
        r[RAX] = 0x5000 + 8 * r[RDX];
        return 28;
    case 28:
        r[RDI] = 0x20000 + 64 * r[RDX];
        return 31;
    case 31:
        r[RSP] += 8, r[RBX] += 3;
        return 32;
    case 32:
        r[RDX]--;
        return 35;
    case 35:
        return r[RDX] ? 0 : 37;
    case 42:
        r[RCX] = UINT64_MAX;
        return 46;
    case 46:
        r[RDI]++;
        return --r[RCX] + FOUND != UINT64_MAX ? 46 : 48;
    case 48:
        r[RCX] = ELEMENTS;
        return 53;
    case 53:
        r[RSP] += 8;
        return 17;
    default:
        return 40;
    }
}

static void run(struct bench *x)
{
    uint64_t r[16] = {[RDX] = TURNS, [RBX] = 77, [RSP] = 0x9000, [RSI] = 0x3000, [RDI] = 0x2000};
    for (unsigned at = 0; at != 40; at = execute(r, at)) {
        struct executed e = {.address = CODE + at};
        memcpy(e.regs, r, sizeof r);
        VEC_PUSH(&x->steps, e);
    }
}

/* ---- step by step ---- */

static void put_step(struct wire_windows *w, const struct executed *e, const struct executed *before)
{
    uint64_t *word = &w->data[w->used++];
    *word = e->address;
    for (unsigned r = 0; r < 16; r++)
        if (!before || e->regs[r] != before->regs[r]) {
            *word |= 1ull << (48 + r);
            w->data[w->used++] = e->regs[r];
        }
    uint8_t bytes[16] = {0};
    size_t at = e->address - CODE, n = sizeof code - at < 16 ? sizeof code - at : 16;
    memcpy(bytes, code + at, n);
    *word |= WIRE_STEP_BYTES;
    memcpy(&w->data[w->used], bytes, 16);
    w->used += 2;
    w->windows[0].steps++;
}

static void record_steps(struct bench *x)
{
    x->w = xmalloc(sizeof *x->w + WORDS * 8);
    x->w->capacity = WORDS;
    x->w->window_count = 1;
    x->w->windows[0].fs = FS;
    for (size_t k = 0; k < x->steps.len; k++)
        put_step(x->w, &x->steps.data[k], k ? &x->steps.data[k - 1] : NULL);
}

/* ---- by translated code ---- */

static void make_file(struct bench *x)
{
    struct wire_bursts l = {
        .magic = WIRE_BURSTS_MAGIC, .page_max = PAGES, .code_bytes = CODE_BYTES, .base = 0x7000000000};
    l.pages_at = 2 * WIRE_PAGE_BYTES;
    l.code_at = l.pages_at + PAGES * WIRE_PAGE_BYTES;
    l.tables_at = l.code_at + l.code_bytes;
    l.slots_at = l.bytes = l.tables_at + 2 * sizeof(struct wire_lookup);
    x->b = xmalloc(l.bytes);
    *x->b = l;
    x->t = trace_new(x->b);
}

static uint32_t block_at(struct bench *x, uint64_t address)
{
    for (uint32_t b = 0; b < trace_block_count(x->t); b++)
        if (trace_block(x->t, b)->address == address)
            return b;
    x->b->request = WIRE_BURST_TRANSLATE;
    x->b->address = address;
    trace_answer(x->t, x->b);
    if (x->b->answer == WIRE_BURST_COPY) {
        memcpy((uint8_t *)x->b + x->b->pages_at + x->b->page * WIRE_PAGE_BYTES, code, sizeof code);
        x->b->address = address;
        trace_answer(x->t, x->b);
    }
    assert_int_equal(x->b->answer, WIRE_BURST_GO);
    return block_at(x, address);
}

/* The step behind `count` instructions from step `at` on. */
static size_t behind(const struct bench *x, size_t at, uint32_t count)
{
    for (; count; count--) {
        uint64_t address = x->steps.data[at].address;
        for (at++; at < x->steps.len && x->steps.data[at].address == address; at++)
            ;
    }
    return at;
}

static void put(struct bench *x, const void *bytes, size_t n)
{
    memcpy(x->records + x->bytes, bytes, n);
    x->bytes += n;
}

static void record_burst(struct bench *x)
{
    x->records = xmalloc(WORDS);
    for (size_t at = 0; at < x->steps.len;) {
        uint32_t block = block_at(x, x->steps.data[at].address);
        const struct trace_block *b = trace_block(x->t, block);
        put(x, &block, 4);
        for (uint32_t k = 0; k < b->log_count; k++)
            put(x, &x->steps.data[behind(x, at, b->logs[k].before)].regs[b->logs[k].reg], 8);
        at = behind(x, at, b->insn_count);
    }
}

static uint64_t place_of(void *ctx, uint64_t address)
{
    (void)ctx;
    return address - CODE + 0x3000000000;
}

static void set_up(struct bench *x)
{
    memset(x, 0, sizeof *x);
    x->arena = arena_new();
    run(x);
    record_steps(x);
    assert_true(trace_steps(x->w, 0, x->arena, &x->by_step));
    trace_place_steps(&x->by_step, place_of, NULL);
    make_file(x);
    record_burst(x);
    x->by_burst = trace_records(x->t, x->records, x->bytes, false, 0);
    x->by_burst.fs = FS;
    trace_place_blocks(x->t, place_of, NULL);
}

static void tear_down(struct bench *x)
{
    trace_free(x->t);
    free(x->b);
    free(x->w);
    free(x->records);
    arena_free(x->arena);
    VEC_FREE(&x->steps);
}

/* ---- the tests ---- */

static void compare_accesses(const struct bench *x, const struct trace_step *s, const struct trace_step *t)
{
    struct trace_access by_step[X86_ACCESSES_MAX], by_burst[X86_ACCESSES_MAX];
    int n = trace_accesses(&x->by_step, s, by_step);
    assert_int_equal(n, trace_accesses(&x->by_burst, t, by_burst));
    for (int k = 0; k < n; k++) {
        assert_true(by_step[k].is_known && by_burst[k].is_known);
        assert_int_equal(by_step[k].address, by_burst[k].address);
        assert_int_equal(by_step[k].bytes, by_burst[k].bytes);
        assert_int_equal(by_step[k].is_load, by_burst[k].is_load);
        assert_int_equal(by_step[k].is_store, by_burst[k].is_store);
    }
}

static void compare_steps(const struct trace_step *s, const struct trace_step *t)
{
    assert_int_equal(s->insn->x.addr, t->insn->x.addr);
    assert_int_equal(s->insn->place, t->insn->place);
    assert_int_equal(s->insn->place, place_of(NULL, s->insn->x.addr));
    assert_int_equal(s->insn->x.kind, t->insn->x.kind);
    assert_memory_equal(s->insn->bytes, t->insn->bytes, s->insn->x.len);
    assert_int_equal(s->repeats, t->repeats);
    assert_int_equal(s->known, 0xffff);
    for (unsigned r = 0; r < 16; r++)
        if (t->known & 1u << r)
            assert_int_equal(s->regs[r], t->regs[r]);
    assert_int_equal(s->is_last, t->is_last);
    if (!s->is_last)
        assert_true(s->next_address == t->next_address && s->next_place == t->next_place);
}

static void both_tell_the_same(void **state)
{
    (void)state;
    struct bench x;
    struct trace_stream a, b;
    struct trace_step s, t;
    uint32_t steps = 0;
    set_up(&x);
    trace_begin(&a, &x.by_step);
    trace_begin(&b, &x.by_burst);
    for (; trace_next(&a, &s); steps++) {
        assert_true(trace_next(&b, &t));
        compare_steps(&s, &t);
        compare_accesses(&x, &s, &t);
    }
    assert_false(trace_next(&b, &t));
    assert_int_equal(steps, TURNS * A_TURN + 1);
    assert_int_equal(x.by_burst.instructions, steps);
    assert_int_equal(x.by_burst.references, TURNS * 10 + 1);
    assert_int_equal(x.by_step.instructions, steps + TURNS * (ELEMENTS - 1 + FOUND - 1));
    assert_true(trace_left(&a) == 0 && trace_left(&b) == 0);
    tear_down(&x);
}

/* Of the first turn of the program's loop, by either. */
static void accesses_are_those_of_the_program(void **state)
{
    (void)state;
    static const struct {
        uint64_t address;
        unsigned bytes, is_load, is_store;
    } wanted[] = {{0x2008, 8, 1, 0},         {0x2010, 8, 1, 1},  {0x8ff8, 8, 0, 1},
                  {0x8ff0, 8, 0, 1},         {0x2010, 1, 1, 0},  {0x8ff0, 8, 1, 0},
                  {0x2010 + FOUND, 1, 0, 1}, {FS + 16, 8, 1, 0}, {0x5000 + 8 * TURNS, 8, 1, 0},
                  {0x8ff8, 8, 1, 0}};
    struct bench x;
    set_up(&x);
    const struct trace_window *const windows[] = {&x.by_step, &x.by_burst};
    for (size_t w = 0; w < ARRAY_LEN(windows); w++) {
        struct trace_access access[X86_ACCESSES_MAX];
        struct trace_stream stream;
        struct trace_step s;
        size_t n = 0;
        trace_begin(&stream, windows[w]);
        while (n < ARRAY_LEN(wanted) && trace_next(&stream, &s))
            for (int k = 0; k < trace_accesses(windows[w], &s, access); k++, n++) {
                assert_true(access[k].is_known && access[k].address == wanted[n].address);
                assert_true(access[k].bytes == wanted[n].bytes && access[k].is_load == wanted[n].is_load &&
                            access[k].is_store == wanted[n].is_store);
            }
        assert_int_equal(n, ARRAY_LEN(wanted));
    }
    tear_down(&x);
}

static void branches_are_the_same(void **state)
{
    (void)state;
    struct bench x;
    struct trace_stream a, b;
    struct trace_branch s, t;
    uint32_t branches = 0;
    set_up(&x);
    trace_begin(&a, &x.by_step);
    trace_begin(&b, &x.by_burst);
    for (; trace_next_branch(&a, &s); branches++) {
        assert_true(trace_next_branch(&b, &t));
        assert_true(s.kind == t.kind && s.address == t.address && s.fallthrough == t.fallthrough &&
                    s.target == t.target);
        assert_int_equal(t.number, branches / 3 * A_TURN + (branches % 3 == 0 ? 4 : branches % 3 == 1 ? 8 : 14));
    }
    assert_false(trace_next_branch(&b, &t));
    assert_int_equal(branches, 3 * TURNS); /* call, ret, jne */
    tear_down(&x);
}

/* As slices are told: by the number of an iteration. */
static void a_part_may_begin_among_iterations(void **state)
{
    (void)state;
    enum { BEFORE = 9 + FOUND - 1 /* rep stosb */, FIRST = BEFORE + 2, LAST = FIRST + 6 };
    struct bench x;
    struct trace_stream a;
    struct trace_step s;
    set_up(&x);
    trace_begin_part(&a, &x.by_step, FIRST, LAST);
    assert_true(trace_next(&a, &s));
    assert_true(s.insn->x.addr == CODE + 17 && s.number == FIRST && s.regs[RCX] == ELEMENTS - 2);
    assert_int_equal(s.repeats, ELEMENTS - 2);
    assert_true(trace_next(&a, &s) && trace_next(&a, &s));
    assert_true(s.insn->x.addr == CODE + 28 && s.next_address == CODE + 31 && !s.is_last);
    assert_false(trace_next(&a, &s));
    trace_begin_part(&a, &x.by_burst, 10, 11);
    assert_true(trace_next(&a, &s));
    assert_true(s.insn->x.addr == CODE + 19 && s.number == 10 && s.next_address == CODE + 28);
    assert_false(trace_next(&a, &s));
    trace_begin_part(&a, &x.by_burst, x.by_burst.instructions - 1, UINT64_MAX);
    assert_int_equal(trace_left(&a), 1);
    trace_begin_part(&a, &x.by_burst, x.by_burst.instructions + 1, UINT64_MAX);
    assert_true(trace_left(&a) == 0 && !trace_next(&a, &s));
    trace_begin_part(&a, &x.by_step, x.by_step.instructions + 1, UINT64_MAX);
    assert_true(trace_left(&a) == 0 && !trace_next(&a, &s));
    tear_down(&x);
}

static void iterations_may_be_steps(void **state)
{
    (void)state;
    struct bench x;
    struct trace_stream a;
    struct trace_step s;
    size_t n = 0;
    uint32_t ids = 0;
    set_up(&x);
    trace_begin(&a, &x.by_step);
    a.each_iteration = true;
    for (; trace_next(&a, &s); n++, ids += s.insn->id == ids) {
        assert_in_range(s.insn->id, 0, ids); /* by first execution */
        assert_true(s.insn->x.addr == x.steps.data[n].address && s.repeats == s.insn->repeats &&
                    memcmp(s.regs, x.steps.data[n].regs, sizeof x.steps.data[n].regs) == 0);
    }
    assert_true(n == x.steps.len && ids == 16);
    tear_down(&x);
}

static void both_compare_as_the_same(void **state)
{
    (void)state;
    struct bench x;
    struct trace_difference d;
    set_up(&x);
    trace_compare(&x.by_burst, &x.by_step, &d);
    assert_null(d.what);
    assert_int_equal(d.instructions, x.by_burst.instructions);
    assert_true(d.addresses == x.by_burst.references && d.unknown == 0 && d.left == 0);
    x.by_step.fs++;
    trace_compare(&x.by_burst, &x.by_step, &d);
    assert_string_equal(d.what, "address");
    assert_true(d.at == 10 && d.address == CODE + 19 && d.by_step == FS + 17 && d.by_burst == FS + 16);
    tear_down(&x);
}

static void broken_words_end_a_window(void **state)
{
    (void)state;
    struct bench x;
    struct trace_window w;
    set_up(&x);
    uint64_t whole = x.w->used;
    x.w->used = whole - 1;
    assert_true(trace_steps(x.w, 0, x.arena, &w));
    assert_int_equal(w.instructions, x.steps.len - 1);
    x.w->used = 5; /* the first has 19 words */
    assert_false(trace_steps(x.w, 0, x.arena, &w));
    x.w->used = WORDS + 1;
    assert_false(trace_steps(x.w, 0, x.arena, &w));
    x.w->used = whole;
    x.w->windows[0].first = whole;
    assert_false(trace_steps(x.w, 0, x.arena, &w));
    x.w->windows[0].first = 0;
    x.w->data[0] &= ~WIRE_STEP_BYTES; /* so bytes are taken for the next step */
    assert_true(trace_steps(x.w, 0, x.arena, &w));
    tear_down(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_tell_the_same),        cmocka_unit_test(accesses_are_those_of_the_program),
        cmocka_unit_test(branches_are_the_same),     cmocka_unit_test(a_part_may_begin_among_iterations),
        cmocka_unit_test(iterations_may_be_steps),   cmocka_unit_test(both_compare_as_the_same),
        cmocka_unit_test(broken_words_end_a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
