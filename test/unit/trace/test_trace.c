/* SPDX-License-Identifier: Apache-2.0
 * The host's side of bursts without a program: what is asked for, what a block says of its record, records to
 * instructions with addresses, and what is made of torn, broken and foreign ones. That translated code does what the
 * program's own does is tried by test/e2e/cases/bursts. */
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RSP = 4, RDI = 7, PAGES = 4, CODE_BYTES = 1 << 16, RECORD = 4 + 2 * 8 };
#define CODE 0x10000u

static const uint8_t code[] = {
    0x48, 0x8b, 0x47, 0x08, /* mov rax, [rdi+8] */
    0x48, 0x83, 0xc7, 0x10, /* add rdi, 16 */
    0x48, 0x89, 0x07,       /* mov [rdi], rax */
    0xc3,                   /* ret */
    0x48, 0x8b, 0x07,       /* 12: mov rax, [rdi] */
    0x48, 0x8b, 0x00,       /* mov rax, [rax] */
    0x0f, 0x05,             /* syscall */
};

struct bench {
    struct wire_bursts *b;
    struct trace *t;
};

static void set_up(struct bench *x)
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

static void tear_down(struct bench *x)
{
    trace_free(x->t);
    free(x->b);
}

static enum wire_burst_answer ask(struct bench *x, enum wire_burst_request request, uint64_t address)
{
    x->b->request = request;
    x->b->address = address;
    trace_answer(x->t, x->b);
    return (enum wire_burst_answer)x->b->answer;
}

/* As a snapshot does: copies the page that is asked for and asks again. */
static void translate(struct bench *x, uint64_t address)
{
    enum wire_burst_answer answer = ask(x, WIRE_BURST_TRANSLATE, address);
    if (answer == WIRE_BURST_COPY) {
        assert_int_equal(x->b->address, CODE);
        memcpy((uint8_t *)x->b + x->b->pages_at + x->b->page * WIRE_PAGE_BYTES, code, sizeof code);
        answer = ask(x, WIRE_BURST_TRANSLATE, address);
    }
    assert_int_equal(answer, WIRE_BURST_GO);
    assert_in_range(x->b->translation, x->b->base + x->b->code_at, x->b->base + x->b->tables_at - 1);
}

static void put_record(uint8_t *to, uint32_t block, uint64_t first, uint64_t second)
{
    memcpy(to, &block, 4);
    memcpy(to + 4, &first, 8);
    memcpy(to + 12, &second, 8);
}

static void pages_are_asked_for_once(void **state)
{
    (void)state;
    struct bench x;
    set_up(&x);
    assert_int_equal(ask(&x, WIRE_BURST_BEGIN, 0), WIRE_BURST_GO);
    assert_int_equal(ask(&x, WIRE_BURST_TRANSLATE, CODE), WIRE_BURST_COPY);
    assert_int_equal(ask(&x, WIRE_BURST_BEGIN, 0), WIRE_BURST_GO); /* that snapshot died before it copied */
    translate(&x, CODE);
    assert_int_equal(x.b->page_count, 1);
    uint64_t translation = x.b->translation;
    assert_int_equal(ask(&x, WIRE_BURST_TRANSLATE, CODE), WIRE_BURST_GO);
    assert_int_equal(x.b->translation, translation);
    assert_int_equal(trace_block_count(x.t), 1);
    tear_down(&x);
}

static void targets_of_indirect_jumps_stand_in_the_tables(void **state)
{
    (void)state;
    struct bench x;
    set_up(&x);
    x.b->is_indirect = 1;
    translate(&x, CODE);
    const struct wire_lookup *l = (const void *)((const uint8_t *)x.b + x.b->tables_at);
    assert_int_equal(l->negated[CODE % WIRE_LOOKUPS], 0 - (uint64_t)CODE);
    assert_int_equal(l->translation[CODE % WIRE_LOOKUPS], x.b->translation);
    assert_int_equal(ask(&x, WIRE_BURST_CHANGED, 0), WIRE_BURST_GO);
    assert_int_equal(l->negated[CODE % WIRE_LOOKUPS], 0);
    assert_int_equal(ask(&x, WIRE_BURST_TRANSLATE, CODE), WIRE_BURST_COPY);
    assert_int_equal(trace_block(x.t, 0)->address, CODE); /* older records name it */
    tear_down(&x);
}

/* rsp and rdi are enough for all three addresses. */
static void a_record_tells_all_addresses(void **state)
{
    (void)state;
    struct bench x;
    struct trace_stream r;
    struct trace_step s;
    struct trace_access access[X86_ACCESSES_MAX];
    uint8_t record[RECORD];
    static const uint64_t wanted[] = {0x2008, 0, 0x2010, 0x9000};
    set_up(&x);
    translate(&x, CODE);
    const struct trace_block *b = trace_block(x.t, 0);
    assert_int_equal(b->insn_count, 4);
    assert_int_equal(b->references, 3);
    assert_int_equal(b->log_count, 2);
    assert_true(b->logs[0].reg == RSP && b->logs[1].reg == RDI);
    assert_ptr_equal(b->branch, &b->insns[3]);
    put_record(record, 0, 0x9000, 0x2000);
    struct trace_window w = trace_records(x.t, record, sizeof record, false, 0);
    trace_begin(&r, &w);
    for (size_t k = 0; k < ARRAY_LEN(wanted); k++) {
        assert_true(trace_next(&r, &s));
        assert_int_equal(trace_accesses(&w, &s, access), wanted[k] != 0);
        if (wanted[k])
            assert_true(access[0].is_known && access[0].address == wanted[k]);
        assert_int_equal(s.number, k);
        assert_int_equal(s.is_last, k == 3);
    }
    assert_false(trace_next(&r, &s));
    tear_down(&x);
}

/* What is loaded cannot be followed: it is recorded before it is used. The system call is not the block's. */
static void a_loaded_pointer_is_recorded(void **state)
{
    (void)state;
    struct bench x;
    struct trace_stream r;
    struct trace_step s;
    struct trace_access access[X86_ACCESSES_MAX];
    uint8_t record[RECORD];
    set_up(&x);
    translate(&x, CODE + 12);
    const struct trace_block *b = trace_block(x.t, 0);
    assert_int_equal(b->insn_count, 2);
    assert_int_equal(b->log_count, 2);
    assert_int_equal(b->logs[1].before, 1);
    assert_null(b->branch);
    put_record(record, 0, 0x2000, 0x5550);
    struct trace_window w = trace_records(x.t, record, sizeof record, false, 0);
    trace_begin(&r, &w);
    assert_true(trace_next(&r, &s) && trace_next(&r, &s));
    assert_int_equal(trace_accesses(&w, &s, access), 1);
    assert_true(access[0].is_known && access[0].address == 0x5550 && access[0].bytes == 8);
    tear_down(&x);
}

static void what_is_not_whole_does_not_count(void **state)
{
    (void)state;
    struct bench x;
    uint8_t records[3 * RECORD];
    set_up(&x);
    translate(&x, CODE);
    for (unsigned k = 0; k < 3; k++)
        put_record(records + k * RECORD, 0, 0x9000, 0x2000);
    assert_int_equal(trace_records(x.t, records, sizeof records, false, 0).instructions, 12);
    assert_int_equal(trace_records(x.t, records, sizeof records, true, 0).bytes, 2 * RECORD);
    assert_int_equal(trace_records(x.t, records, sizeof records - 1, false, 0).bytes, 2 * RECORD);
    assert_int_equal(trace_records(x.t, records, sizeof records, true, 4).references, 6);
    put_record(records + RECORD, 7, 0, 0); /* no such block */
    assert_int_equal(trace_records(x.t, records, sizeof records, false, 0).bytes, RECORD);
    tear_down(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_asked_for_once),
        cmocka_unit_test(targets_of_indirect_jumps_stand_in_the_tables),
        cmocka_unit_test(a_record_tells_all_addresses),
        cmocka_unit_test(a_loaded_pointer_is_recorded),
        cmocka_unit_test(what_is_not_whole_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
