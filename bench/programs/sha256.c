/* SPDX-License-Identifier: Apache-2.0
 * sha256 [MEGABYTES]: SHA-256 (FIPS 180-4) over a buffer, again and again: loops of 48 and 64 turns without a branch,
 * as much at a time as the processor can do. Prints one value. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 64, BLOCK_BYTES = 64, BUFFER_BYTES = 4096 };
static uint32_t constant[ROUNDS];

static uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void schedule(uint32_t *w, const uint8_t *block)
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++)
        w[i] = w[i - 16] + w[i - 7] + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
}

__attribute__((noinline)) static void compress(uint32_t *state, const uint8_t *block)
{
    uint32_t w[ROUNDS], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5],
                        g = state[6], h = state[7];
    schedule(w, block);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + constant[i] + w[i];
        uint32_t two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + one;
        d = c, c = b, b = a, a = one + two;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

int main(int argc, char **argv)
{
    long megabytes = argc > 1 ? atol(argv[1]) : 100;
    static uint8_t buffer[BUFFER_BYTES];
    uint32_t state[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint32_t i = 0; i < ROUNDS; i++)
        constant[i] = i * 2654435761u; /* the standard's are no faster */
    for (int i = 0; i < BUFFER_BYTES; i++)
        buffer[i] = (uint8_t)(i * 7);
    for (long i = 0; i < megabytes * (1 << 20) / BUFFER_BYTES; i++)
        for (int at = 0; at < BUFFER_BYTES; at += BLOCK_BYTES)
            compress(state, buffer + at);
    printf("%x\n", (unsigned)(state[0] ^ state[7]));
    return 0;
}
