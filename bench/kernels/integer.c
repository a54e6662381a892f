/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of whole numbers: sums, division, bit tricks, hashes and ciphers, long arithmetic. */
#include "kernels.h"

#include <string.h>

static uint32_t rotate(uint32_t v, int k) { return v << k | v >> (32 - k); }
static uint64_t rotate64(uint64_t v, int k) { return v << k | v >> (64 - k); }

KEEP static void sum(struct data *d)
{
    int64_t s = 0;
    for (size_t e = 0; e < d->n; e++)
        s += d->i[e];
    d->result = (uint64_t)s;
}

KEEP static void add_arrays(struct data *d)
{
    const int32_t *restrict i = d->i;
    int32_t *restrict j = d->j;
    for (size_t e = 0, n = d->n; e < n; e++)
        j[e] = (i[e] * 3 + j[e]) & 0xfffff;
}

KEEP static void greatest_divisor(struct data *d)
{
    uint32_t s = 0;
    for (size_t e = 0; e < 16; e++) {
        uint32_t a = (uint32_t)d->i[e] + 1, b = (uint32_t)d->j[e] + 1;
        while (b) {
            uint32_t r = a % b;
            a = b;
            b = r;
        }
        s += a;
    }
    d->result = s;
}

KEEP static void power_modulo(struct data *d)
{
    uint64_t s = 0;
    for (size_t e = 0; e < 8; e++) {
        uint64_t base = (uint64_t)d->i[e], r = 1;
        for (unsigned k = 65537; k; k >>= 1) {
            if (k & 1)
                r = r * base % 1000003;
            base = base * base % 1000003;
        }
        s += r;
    }
    d->result = s;
}

KEEP static void divide_32(struct data *d)
{
    uint32_t s = 0;
    for (size_t e = 0; e < d->n; e++)
        s += (uint32_t)d->i[e] / (((uint32_t)d->j[e] & 255) | 1);
    d->result = s;
}

KEEP static void divide_64(struct data *d)
{
    uint64_t s = 0;
    for (size_t e = 0; e < d->n; e++)
        s += d->q[e] / ((uint64_t)d->i[e] + 77);
    d->result = s;
}

KEEP static void divide_constant(struct data *d)
{
    uint32_t s = 0;
    for (size_t e = 0; e < d->n; e++)
        s += (uint32_t)d->i[e] % 10 + (uint32_t)d->i[e] / 1000 % 7;
    d->result = s;
}

KEEP static void collatz(struct data *d)
{
    unsigned n = 0;
    for (uint64_t e = 1; e < 12; e++)
        for (uint64_t v = e; v != 1; n++)
            v = v & 1 ? 3 * v + 1 : v / 2;
    d->result = n;
}

KEEP static void congruential(struct data *d)
{
    uint64_t v = 1;
    for (int k = 0; k < 256; k++)
        v = v * 6364136223846793005u + 1442695040888963407u;
    d->result = v;
}

KEEP static void shift_register(struct data *d)
{
    uint64_t v = 88172645463325252u;
    for (int k = 0; k < 256; k++) {
        v ^= v << 13;
        v ^= v >> 7;
        v ^= v << 17;
    }
    d->result = v;
}

KEEP static void count_bits(struct data *d)
{
    uint64_t n = 0;
    for (size_t e = 0; e < d->n; e++) {
        uint64_t v = d->q[e];
        v -= v >> 1 & 0x5555555555555555u;
        v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
        n += ((v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56;
    }
    d->result = n;
}

KEEP static void reverse_bits(struct data *d)
{
    for (size_t e = 0; e < d->n; e++) {
        uint32_t v = (uint32_t)d->i[e];
        v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
        v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
        v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
        d->j[e] = (int32_t)(__builtin_bswap32(v) & 0xfffff);
    }
}

static uint64_t spread_bits(uint64_t v)
{
    v = (v | v << 16) & 0x0000ffff0000ffffu;
    v = (v | v << 8) & 0x00ff00ff00ff00ffu;
    v = (v | v << 4) & 0x0f0f0f0f0f0f0f0fu;
    v = (v | v << 2) & 0x3333333333333333u;
    return (v | v << 1) & 0x5555555555555555u;
}

KEEP static void interleave_bits(struct data *d)
{
    uint64_t s = 0;
    for (size_t e = 0; e < d->n; e++)
        s ^= spread_bits((uint32_t)d->i[e]) | spread_bits((uint32_t)d->j[e]) << 1;
    d->result = s;
}

KEEP static void leading_zeros(struct data *d)
{
    unsigned s = 0;
    for (size_t e = 0; e < d->n; e++)
        s += (unsigned)__builtin_clzll(d->q[e] | 1) + (unsigned)__builtin_ctzll(d->q[e] | 1u << 30);
    d->result = s;
}

KEEP static void square_root(struct data *d)
{
    uint32_t s = 0;
    for (size_t e = 0; e < 32; e++) {
        uint32_t v = (uint32_t)d->i[e], r = 0, b = 1u << 20;
        for (; b; b >>= 2) {
            uint32_t t = r + b;
            r >>= 1;
            if (v >= t) {
                v -= t;
                r += b;
            }
        }
        s += r;
    }
    d->result = s;
}

KEEP static void adler(struct data *d)
{
    uint32_t a = 1, b = 0;
    for (size_t e = 0; e < d->n; e++) {
        a += d->s[e];
        b += a;
    }
    d->result = b % 65521 << 16 | a % 65521;
}

KEEP static void crc(struct data *d)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t k = 0; k < 256; k++) {
            uint32_t c = k;
            for (int b = 0; b < 8; b++)
                c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
            table[k] = c;
        }
    uint32_t c = ~0u;
    for (size_t e = 0; e < d->n; e++)
        c = table[(c ^ d->s[e]) & 255] ^ c >> 8;
    d->result = c;
}

KEEP static void fowler(struct data *d)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t e = 0; e < d->n; e++)
        h = (h ^ d->s[e]) * 0x100000001b3u;
    d->result = h;
}

KEEP static void murmur(struct data *d)
{
    uint64_t s = 0;
    for (size_t e = 0; e < d->n; e++) {
        uint64_t h = d->q[e];
        h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
        h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
        s += h ^ h >> 33;
    }
    d->result = s;
}

KEEP static void sip_rounds(struct data *d)
{
    uint64_t a = 1, b = 2, c = 3, g = 4;
    for (size_t e = 0; e < d->n; e++) {
        g ^= d->q[e];
        a += b, c += g;
        b = rotate64(b, 13) ^ a, g = rotate64(g, 16) ^ c;
        a = rotate64(a, 32) + g, c += b;
        b = rotate64(b, 17) ^ c, g = rotate64(g, 21) ^ a;
        c = rotate64(c, 32);
    }
    d->result = a ^ b ^ c ^ g;
}

KEEP static void sha_rounds(struct data *d)
{
    uint32_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int k = 0; k < 64; k++) {
        uint32_t e = h[4], a = h[0];
        uint32_t t =
            h[7] + (rotate(e, 26) ^ rotate(e, 21) ^ rotate(e, 7)) + ((e & h[5]) ^ (~e & h[6])) + (uint32_t)d->i[k];
        uint32_t m = (rotate(a, 30) ^ rotate(a, 19) ^ rotate(a, 10)) + ((a & h[1]) ^ (a & h[2]) ^ (h[1] & h[2]));
        memmove(h + 1, h, 28);
        h[4] += t;
        h[0] = t + m;
    }
    d->result = h[0] ^ h[4];
}

KEEP static void md_rounds(struct data *d)
{
    uint32_t a = 1, b = 2, c = 3, g = 4;
    for (int k = 0; k < 256; k++) {
        uint32_t t = a + ((b & c) | (~b & g)) + (uint32_t)d->i[k];
        a = g;
        g = c;
        c = b;
        b += rotate(t, 7);
    }
    d->result = a ^ b ^ c ^ g;
}

KEEP static void chacha(struct data *d)
{
    uint32_t v[16];
    for (int k = 0; k < 16; k++)
        v[k] = (uint32_t)d->i[k];
    for (int round = 0; round < 10; round++)
        for (int k = 0; k < 4; k++) {
            uint32_t *a = v + k, *b = v + 4 + k, *c = v + 8 + k, *g = v + 12 + k;
            *a += *b, *g = rotate(*g ^ *a, 16);
            *c += *g, *b = rotate(*b ^ *c, 12);
            *a += *b, *g = rotate(*g ^ *a, 8);
            *c += *g, *b = rotate(*b ^ *c, 7);
        }
    d->result = v[0] ^ v[5] ^ v[10] ^ v[15];
}

KEEP static void long_product(struct data *d)
{
    uint64_t r[32] = {0};
    for (int a = 0; a < 16; a++) {
        unsigned __int128 carry = 0;
        for (int b = 0; b < 16; b++) {
            carry += (unsigned __int128)d->q[a] * d->q[16 + b] + r[a + b];
            r[a + b] = (uint64_t)carry;
            carry >>= 64;
        }
        r[a + 16] = (uint64_t)carry;
    }
    d->result = r[31];
}

KEEP static void long_sum(struct data *d)
{
    uint64_t carry = 0, last = 0;
    for (size_t e = 0; e < d->n / 2; e++) {
        uint64_t s = d->q[e] + carry;
        carry = s < carry;
        last = s + d->q[d->n / 2 + e];
        carry += last < s;
        d->z[e] = 1 + (double)(last >> 60);
    }
    d->result = last;
}

KEEP static void
choose(struct data *d) /* by a condition that nobody can predict, if the compiler makes a branch of it */
{
    int64_t s = 0;
    for (size_t e = 0; e < d->n; e++)
        if (d->i[e] & 1) {
            s += d->j[e];
            __asm__("" : "+r"(s));
        }
    d->result = (uint64_t)s;
}

KEEP static void choose_much(struct data *d) /* more often than a predictor can learn by heart */
{
    uint64_t v = d->result | 1, s = 0;
    for (int k = 0; k < 512; k++) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        if (v >> 63) {
            s += v >> 40;
            __asm__("" : "+r"(s));
        }
    }
    d->result = v ^ s;
}

const struct kernel integer_kernels[] = {
    {"sum", "integer", sum, LARGE},
    {"add-arrays", "integer", add_arrays, LARGE},
    {"greatest-divisor", "division", greatest_divisor, 0},
    {"power-modulo", "division", power_modulo, 0},
    {"divide-32", "division", divide_32, LARGE | COMPUTE},
    {"divide-64", "division", divide_64, LARGE | COMPUTE},
    {"divide-constant", "integer", divide_constant, LARGE},
    {"collatz", "integer", collatz, 0},
    {"congruential", "integer", congruential, 0},
    {"shift-register", "integer", shift_register, 0},
    {"count-bits", "bits", count_bits, LARGE},
    {"reverse-bits", "bits", reverse_bits, LARGE},
    {"interleave-bits", "bits", interleave_bits, LARGE | COMPUTE},
    {"leading-zeros", "bits", leading_zeros, LARGE},
    {"square-root", "integer", square_root, 0},
    {"adler", "hashing", adler, LARGE},
    {"crc", "hashing", crc, LARGE},
    {"fowler", "hashing", fowler, LARGE | COMPUTE},
    {"murmur", "hashing", murmur, LARGE},
    {"sip-rounds", "hashing", sip_rounds, LARGE},
    {"sha-rounds", "hashing", sha_rounds, 0},
    {"md-rounds", "hashing", md_rounds, 0},
    {"chacha", "hashing", chacha, 0},
    {"long-product", "integer", long_product, 0},
    {"long-sum", "integer", long_sum, LARGE},
    {"choose", "branches", choose, LARGE | LEARNED},
    {"choose-much", "branches", choose_much, BRANCH},
    {0},
};
