/* SPDX-License-Identifier: Apache-2.0
 * md5 [MEGABYTES]: the rounds of MD5 (RFC 1321) over a buffer, again and again: one straight block of several hundred
 * instructions that wait for each other. Prints one value. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 16, BUFFER_WORDS = 1024 };

#define F(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define G(b, c, d) F(d, b, c)
#define H(b, c, d) ((b) ^ (c) ^ (d))
#define I(b, c, d) ((c) ^ ((b) | ~(d)))
#define STEP(fn, a, b, c, d, word, by, constant)                                                                       \
    a += fn(b, c, d) + at[(word)&15] + (constant);                                                                     \
    a = (a << (by) | a >> (32 - (by))) + (b);
#define FOUR(fn, word, apart, by1, by2, by3, by4, constant)                                                            \
    STEP(fn, a, b, c, d, word, by1, constant)                                                                          \
    STEP(fn, d, a, b, c, (word) + (apart), by2, (constant)*3)                                                          \
    STEP(fn, c, d, a, b, (word) + 2 * (apart), by3, (constant)*5)                                                      \
    STEP(fn, b, c, d, a, (word) + 3 * (apart), by4, (constant)*7)
#define ROUND(fn, word, apart, by1, by2, by3, by4, constant)                                                           \
    FOUR(fn, word, apart, by1, by2, by3, by4, constant)                                                                \
    FOUR(fn, (word) + 4 * (apart), apart, by1, by2, by3, by4, (constant) ^ 0x5555u)                                    \
    FOUR(fn, (word) + 8 * (apart), apart, by1, by2, by3, by4, (constant) ^ 0x3333u)                                    \
    FOUR(fn, (word) + 12 * (apart), apart, by1, by2, by3, by4, (constant) ^ 0x0f0fu)

__attribute__((noinline)) static void rounds(uint32_t *state, const uint32_t *at, const uint32_t *end)
{
    for (; at < end; at += WORDS) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        ROUND(F, 0, 1, 7, 12, 17, 22, 0xd76aa478u)
        ROUND(G, 1, 5, 5, 9, 14, 20, 0xf61e2562u)
        ROUND(H, 5, 3, 4, 11, 16, 23, 0xfffa3942u)
        ROUND(I, 0, 7, 6, 10, 15, 21, 0xf4292244u)
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    }
}

int main(int argc, char **argv)
{
    long megabytes = argc > 1 ? atol(argv[1]) : 200;
    static uint32_t buffer[BUFFER_WORDS], state[4] = {1, 2, 3, 4};
    for (uint32_t i = 0; i < BUFFER_WORDS; i++)
        buffer[i] = i * 7;
    for (long i = 0; i < megabytes * (1 << 18) / BUFFER_WORDS; i++)
        rounds(state, buffer, buffer + BUFFER_WORDS);
    printf("%x\n", (unsigned)(state[0] ^ state[3]));
    return 0;
}
