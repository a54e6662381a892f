/* SPDX-License-Identifier: Apache-2.0
 * The log of the stack: what is not done at each use. */
#include "cache/stack.h"
#include "cache/tables/table.h"

#include <assert.h>
#include <stdlib.h>

enum { LINES_FIRST = 1 << 10, ROOM_FIRST = 1 << 14, MANY = 1 << 18, AHEAD = 8 };

static void none_used_again(struct stack *k)
{
    memset(k->live, 0xff, k->room / 64 * sizeof *k->live);
    k->live[0] = ~1ull; /* there is no place 0 */
}

static size_t of_bytes(uint64_t cap) { return cap * sizeof(uint32_t); }
static size_t log_bytes(uint64_t room) { return room * sizeof(uint32_t); }
static size_t live_bytes(uint64_t room) { return room / 64 * sizeof(uint64_t); }

void stack_init(struct stack *k, const uint64_t *lines, unsigned sizes)
{
    assert(sizes <= STACK_SIZES_MAX);
    memset(k, 0, sizeof *k);
    k->sizes = sizes;
    for (unsigned i = 0; i < sizes; i++) {
        k->lines[i] = lines[i];
        k->first += !lines[i];
    }
    k->cap = LINES_FIRST;
    k->of = table_new(of_bytes(k->cap));
    k->is_own = true;
    k->room = ROOM_FIRST;
    k->log = table_new(log_bytes(k->room));
    k->live = table_new(live_bytes(k->room));
    none_used_again(k);
}

void stack_place_in(struct stack *k, uint32_t *of, unsigned spread)
{
    if (k->is_own)
        table_free(k->of, of_bytes(k->cap));
    k->is_own = false;
    k->of = of;
    k->spread = spread;
    k->cap = UINT64_MAX;
}

void stack_fini(struct stack *k)
{
    if (k->is_own)
        table_free(k->of, of_bytes(k->cap));
    table_free(k->log, log_bytes(k->room));
    table_free(k->live, live_bytes(k->room));
}

void stack_grow(struct stack *k, uint32_t x)
{
    uint64_t cap = k->cap;
    while (k->cap <= x)
        k->cap *= 2;
    k->of = table_grow(k->of, of_bytes(cap), of_bytes(k->cap));
}

/* The next place whose line was not used again; there is one. */
static uint32_t next_live(const struct stack *k, uint32_t place)
{
    uint32_t word = (place + 1) / 64;
    uint64_t bits = k->live[word] & UINT64_MAX << (place + 1) % 64;
    while (!bits)
        bits = k->live[++word];
    return word * 64 + (uint32_t)__builtin_ctzll(bits);
}

size_t stack_lines(const struct stack *k, uint32_t from, uint32_t *out)
{
    size_t n = 0;
    for (uint32_t at = from ? from - 1 : 0; at < k->newest;) {
        at = next_live(k, at);
        out[n++] = k->log[at];
    }
    return n;
}

/* Lines move up to the begin of the log, in their order. */
static void move_up(struct stack *k)
{
    uint32_t to = 0;
    for (uint32_t word = 0; word <= k->newest / 64; word++)
        for (uint64_t bits = k->live[word]; bits; bits &= bits - 1) {
            uint32_t at = word * 64 + (uint32_t)__builtin_ctzll(bits);
            if (at > k->newest)
                break;
            __builtin_prefetch(&k->of[(uint64_t)k->log[min_u64(at + AHEAD, k->newest)] << k->spread], 1);
            k->log[++to] = k->log[at];
            k->of[(uint64_t)k->log[to] << k->spread] = to;
        }
    assert(to == k->held);
    k->newest = to;
}

void stack_tidy(struct stack *k)
{
    move_up(k);
    for (unsigned i = k->first; i < k->sizes; i++)
        k->oldest[i] = k->held >= k->lines[i] ? (uint32_t)(k->held - k->lines[i] + 1) : 0;
    uint64_t before = k->room, room = before;
    while (room / (k->held < MANY ? 4 : 2) < k->held)
        room *= 2;
    if (room != before) {
        assert(room <= UINT32_MAX);
        k->room = (uint32_t)room;
        k->log = table_grow(k->log, log_bytes(before), log_bytes(room));
        k->live = table_grow(k->live, live_bytes(before), live_bytes(room));
    }
    none_used_again(k);
}

unsigned stack_add(struct stack *k)
{
    k->held++;
    for (unsigned i = k->first; i < k->sizes && k->held >= k->lines[i]; i++)
        k->oldest[i] = next_live(k, k->held == k->lines[i] ? 0 : k->oldest[i]);
    return k->sizes;
}

unsigned stack_move(struct stack *k, uint32_t was)
{
    unsigned i, own = k->first;
    for (i = k->first; i < k->sizes && was <= k->oldest[i]; i++) {
        own += was < k->oldest[i];
        k->oldest[i] = next_live(k, k->oldest[i]);
    }
    return own;
}
