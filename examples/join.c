/* SPDX-License-Identifier: Apache-2.0
 *
 * join [SLOTS KEYS REPEATS]: looks each key of a list up in a hash table that no cache holds, and works on what was
 * found, with data that the cache holds. That work fills the processor's window of instructions, so it comes to the
 * next lookup only when the miss before is over, though all keys are there beforehand. The fixed form prefetches the
 * slot of a key some turns ahead. The lookups are the same.
 */
#include "example.h"

enum { AHEAD = 8, STEPS = 256 };

struct slot {
    uint64_t key, value;
};
static uint64_t mix[STEPS];

static inline uint64_t slot_of(uint64_t key, uint64_t mask) { return key * 0x9e3779b97f4a7c15u >> 20 & mask; }

KERNEL static uint64_t join(const struct slot *table, uint64_t mask, const uint64_t *key, long keys)
{
    uint64_t sum = 0;
    for (long i = 0; i < keys; i++) {
#ifdef FIXED
        __builtin_prefetch(&table[slot_of(key[i + AHEAD], mask)]);
#endif
        uint64_t found = table[slot_of(key[i], mask)].value; /* HOT */
        for (uint64_t k = 0; k < STEPS; k++)
            sum += mix[(found + k) % STEPS] ^ k;
    }
    return sum;
}

int main(int argc, char **argv)
{
    long slots = example_arg(argc, argv, 1, 4000000), keys = example_arg(argc, argv, 2, 1000000);
    long repeats = example_arg(argc, argv, 3, 10);
    uint64_t count = 1, sum = 0;
    while (count < (uint64_t)slots)
        count *= 2;
    struct slot *table = example_alloc(count, sizeof *table);
    uint64_t *key = example_alloc((size_t)keys + AHEAD, sizeof *key);
    for (long i = 0; i < STEPS; i++)
        mix[i] = example_random();
    for (uint64_t i = 0; i < count; i++)
        table[i] = (struct slot){i, i % 1000};
    for (long i = 0; i < keys + AHEAD; i++)
        key[i] = example_random();

    double start = example_seconds();
    for (long r = 0; r < repeats; r++)
        sum += join(table, count - 1, key, keys);
    return example_end((double)(sum % 1000000007), (double)keys * (double)repeats, example_seconds() - start);
}
