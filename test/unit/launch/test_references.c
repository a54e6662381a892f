/* SPDX-License-Identifier: Apache-2.0
 * What of a chunk that a thread is writing to may be taken already. */
#include "help.h"

#include "launch/impl.h"

enum { AT = WIRE_STREAM_RING, ENTRY = sizeof(struct wire_entry), BODY = 7 };

static struct wire_entry *entry(struct wire_stream *w, size_t nth)
{
    return (struct wire_entry *)(void *)((char *)w + AT + nth * ENTRY);
}

static uint64_t made(const struct wire_stream *w, size_t entries)
{
    return (references_end_of_made(w, AT, AT + entries * ENTRY) - AT) / ENTRY;
}

/* Two references and an event of a call with BODY entries behind it; then another one whose first word is not there. */
static void test_what_is_under_way_is_not_taken(void **state)
{
    (void)state;
    struct wire_stream *w = xmalloc(WIRE_STREAM_BYTES);
    *entry(w, 0) = (struct wire_entry){0x1000, 1, 2};
    *entry(w, 1) = (struct wire_entry){0x2000, 1, 2};
    *entry(w, 2) = (struct wire_entry){(uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_ENTER, BODY), 1, 2};
    size_t second = 3 + BODY;
    for (size_t i = 0; i < BODY; i++)
        *entry(w, 3 + i) = *entry(w, second + 1 + i) = (struct wire_entry){0x3000 + i, 5, 6};

    assert_int_equal(made(w, 0), 0);
    assert_int_equal(made(w, 1), 0); /* the last one may be under way */
    assert_int_equal(made(w, 2), 1);
    assert_int_equal(made(w, second), 2);
    *entry(w, second) = (struct wire_entry){0, 1, 2};
    assert_int_equal(made(w, second + 1 + BODY), second);
    *entry(w, second) = (struct wire_entry){(uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_ENTER, BODY), 1, 2};
    assert_int_equal(made(w, second + 1 + BODY), second);
    *entry(w, second + 1 + BODY) = (struct wire_entry){0x4000, 1, 2};
    assert_int_equal(made(w, second + 2 + BODY), second + 1 + BODY);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_under_way_is_not_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
