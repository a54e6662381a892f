/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the reader of the counter file: the program has it mapped and may have written anything into it. The input is
 * a list of writes, 12 bytes each: 4 where (odd: into the head), 8 what. */
#include "fuzz.h"

#include <unistd.h>

#include "launch/impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct launch_module modules[3] = {
        {.path = "/a", .copy = "/a", .counter_count = 100, .wire_key = {1}},
        {.path = "/b"},
        {.path = "/c", .copy = "/c", .counter_count = 1000, .wire_key = {2}},
    };
    struct launch_program p = {.modules = modules, .module_count = ARRAY_LEN(modules)};
    struct launch_result r = {.arena = arena_new()};
    struct counters c;
    fuzz_begin();
    FUZZ_CHECK(counters_open(&c, &p, false, false) == 0);
    for (size_t at = 0; at + 12 <= len; at += 12) {
        uint32_t where;
        memcpy(&where, bytes + at, 4);
        where = where & 1 ? where / 2 % 256 : where % (WIRE_HEADER_BYTES + 20000);
        FUZZ_CHECK(pwrite(c.file.fd, bytes + at + 4, 8, where) == 8);
    }
    counters_sum(&c, &p, &r);
    FUZZ_CHECK(r.counters_len == ARRAY_LEN(modules) && !r.counters[1]);
    uint64_t sum = 0;
    for (size_t m = 0; m < ARRAY_LEN(modules); m++)
        for (uint32_t i = 0; r.counters[m] && i < modules[m].counter_count; i++)
            sum |= r.counters[m][i];
    FUZZ_CHECK(len >= 12 || !sum); /* nothing was counted */
    counters_close(&c);
    arena_free(r.arena);
    return 0;
}
