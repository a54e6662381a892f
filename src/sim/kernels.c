/* SPDX-License-Identifier: Apache-2.0
 *
 * What the self-test runs: each kernel a few hundred to a few thousand instructions on first-level-resident data, its
 * branches predictable after a few rounds. Compiled twice, for any x86-64 and for one with 256-bit vectors; KERNELS
 * names the table. The results go to the data, so that nothing is optimised away; nobody looks at them. */
#include "sim/kernels.h"

#include <math.h>
#include <string.h>

#ifdef __clang__
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noinline, noclone))
#endif

/* ---- integer ---- */

KEEP static void sum_ints(struct kernel_data *d)
{
    int64_t s = 0;
    for (int i = 0; i < 512; i++)
        s += d->i[i];
    d->result = (uint64_t)s;
}

KEEP static void fnv_hash(struct kernel_data *d)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 512; i++)
        h = (h ^ d->bytes[i]) * 0x100000001b3u;
    d->result = h;
}

KEEP static void crc_table(struct kernel_data *d)
{
    uint32_t c = ~0u;
    for (int i = 0; i < 512; i++)
        c = d->table[(c ^ d->bytes[i]) & 255] ^ c >> 8;
    d->result = ~c;
}

KEEP static void mix_rounds(struct kernel_data *d)
{
    uint32_t a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, e = 0x10325476;
    for (int i = 0; i < 128; i++) {
        uint32_t f = (b & c) | (~b & e), t = a + f + d->table[i] + (uint32_t)d->i[i & 15];
        a = e;
        e = c;
        c = b;
        b += t << 7 | t >> 25;
    }
    d->result = a ^ b ^ c ^ e;
}

KEEP static void sha_schedule(struct kernel_data *d)
{
    uint32_t w[64];
    memcpy(w, d->table, 64);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = (a >> 7 | a << 25) ^ (a >> 18 | a << 14) ^ a >> 3,
                 s1 = (b >> 17 | b << 15) ^ (b >> 19 | b << 13) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    d->result = w[63];
    for (int i = 0; i < 64; i++)
        d->k[i] = (int32_t)w[i];
}

KEEP static void count_bits(struct kernel_data *d)
{
    uint64_t n = 0;
    for (int i = 0; i < 256; i++) {
        uint32_t v = d->table[i];
        v = v - (v >> 1 & 0x55555555);
        v = (v & 0x33333333) + (v >> 2 & 0x33333333);
        n += ((v + (v >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24;
    }
    d->result = n;
}

KEEP static void reverse_bits(struct kernel_data *d)
{
    for (int i = 0; i < 128; i++) {
        uint32_t v = d->table[i];
        v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
        v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
        v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
        d->k[i] = (int32_t)__builtin_bswap32(v);
    }
}

KEEP static void divide_ints(struct kernel_data *d)
{
    uint32_t s = 0;
    for (int i = 0; i < 64; i++)
        s += d->table[i] / (uint32_t)(d->i[i] | 1);
    d->result = s;
}

KEEP static void divide_chain(struct kernel_data *d)
{
    uint64_t v = 0x123456789abcdef;
    for (int i = 0; i < 24; i++)
        v = v / (uint64_t)(d->i[i] + 3) + 0x123456789a;
    d->result = v;
}

KEEP static void modulo_constant(struct kernel_data *d)
{
    uint32_t s = 0;
    for (int i = 0; i < 256; i++)
        s += d->table[i] % 10 + d->table[i] / 1000 % 7;
    d->result = s;
}

KEEP static void xorshift(struct kernel_data *d)
{
    uint64_t v = 88172645463325252u;
    for (int i = 0; i < 256; i++) {
        v ^= v << 13;
        v ^= v >> 7;
        v ^= v << 17;
    }
    d->result = v;
}

KEEP static void multiply_high(struct kernel_data *d)
{
    uint64_t a = 0x9e3779b97f4a7c15u, b = 1;
    for (int i = 0; i < 128; i++) {
        __uint128_t p = (__uint128_t)(a + d->table[i]) * (b | 1);
        a = (uint64_t)(p >> 64) ^ (uint64_t)p;
        b += 0xa0761d6478bd642fu;
    }
    d->result = a;
}

KEEP static void big_add(struct kernel_data *d)
{
    uint64_t *a = (uint64_t *)(void *)d->x, *b = (uint64_t *)(void *)d->y, *o = (uint64_t *)(void *)d->out;
    unsigned char carry = 0;
    for (int i = 0; i < 120; i++) {
        unsigned long long s;
        carry = (unsigned char)__builtin_ia32_addcarryx_u64(carry, a[i], b[i], &s);
        o[i] = s;
    }
    d->result = carry;
}

KEEP static void clamp_ints(struct kernel_data *d)
{
    for (int i = 0; i < 256; i++) {
        int32_t v = d->i[i] * 3 - 70;
        d->k[i] = v < 0 ? 0 : v > 255 ? 255 : v;
    }
}

KEEP static void game_of_life(struct kernel_data *d)
{
    enum { W = 32 };
    for (int y = 1; y < 15; y++)
        for (int x = 1; x < W - 1; x++) {
            const uint8_t *p = d->bytes + y * W + x;
            int n = p[-W - 1] + p[-W] + p[-W + 1] + p[-1] + p[1] + p[W - 1] + p[W] + p[W + 1];
            d->out[y * W + x] = (uint8_t)((n & 7) == 3 || ((n & 7) == 2 && (p[0] & 1)));
        }
}

/* ---- memory ---- */

KEEP static void chase_list(struct kernel_data *d)
{
    const struct kernel_node *n = d->nodes;
    int64_t s = 0;
    for (int i = 0; i < 256; i++) {
        s += n->key;
        n = n->next;
    }
    d->result = (uint64_t)s;
}

KEEP static void histogram(struct kernel_data *d)
{
    for (int i = 0; i < 512; i++)
        d->k[d->bytes[i]]++;
}

KEEP static void sparse_dot(struct kernel_data *d)
{
    double s = 0;
    for (int i = 0; i < 256; i++)
        s += d->x[d->i[i] & 255] * d->y[i];
    d->real_result = s;
}

KEEP static void scatter(struct kernel_data *d)
{
    for (int i = 0; i < 256; i++)
        d->z[d->i[i] & 255] = d->x[i];
}

KEEP static void copy_bytes(struct kernel_data *d)
{
    for (int i = 0; i < 512; i++) {
        d->out[i] = (uint8_t)(d->bytes[i] ^ 0x5a);
        __asm__ volatile("" ::: "memory"); /* byte by byte */
    }
}

KEEP static void transpose(struct kernel_data *d)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            d->m[2][j * 16 + i] = d->m[0][i * 16 + j];
}

KEEP static void prefix_sums(struct kernel_data *d)
{
    for (int i = 1; i < 256; i++)
        d->k[i] = d->k[i - 1] + d->i[i];
}

KEEP static void edit_distance(struct kernel_data *d)
{
    uint16_t row[33];
    for (uint16_t j = 0; j <= 32; j++)
        row[j] = j;
    for (int i = 1; i <= 24; i++) {
        uint16_t diagonal = row[0];
        row[0] = (uint16_t)i;
        for (int j = 1; j <= 32; j++) {
            uint16_t best = (uint16_t)(diagonal + (d->bytes[i] != d->bytes[j + 64]));
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = (uint16_t)(row[j] + 1);
            if (row[j - 1] + 1 < best)
                best = (uint16_t)(row[j - 1] + 1);
            row[j] = best;
        }
    }
    d->result = row[32];
}

KEEP static void struct_walk(struct kernel_data *d)
{
    int64_t s = 0;
    for (int i = 0; i < 64; i++) {
        struct kernel_node *n = &d->nodes[i];
        s += n->key * 3 + (n->left == n->right);
    }
    d->result = (uint64_t)s;
}

/* ---- branches and calls ---- */

KEEP static void scan_bytes(struct kernel_data *d)
{
    const uint8_t *p = d->bytes;
    while (*p != 0xff)
        p++;
    d->result = (uint64_t)(p - d->bytes);
}

KEEP static void count_words(struct kernel_data *d)
{
    int words = 0, inside = 0;
    for (int i = 0; i < 512; i++) {
        int letter = (d->bytes[i] & 7) != 0;
        words += letter & ~inside;
        inside = letter;
    }
    d->result = (uint64_t)words;
}

KEEP static void insertion_sort(struct kernel_data *d)
{
    int32_t *a = d->k;
    for (int i = 0; i < 40; i++)
        a[i] = (i & 7) * 16 - i;
    for (int i = 1; i < 40; i++) {
        int32_t v = a[i];
        int j = i;
        for (; j > 0 && a[j - 1] > v; j--)
            a[j] = a[j - 1];
        a[j] = v;
    }
}

KEEP static void binary_search(struct kernel_data *d)
{
    uint64_t found = 0;
    for (int64_t key = 0; key < 24; key++) {
        uint32_t low = 0, n = 256;
        while (n > 1) {
            uint32_t half = n / 2;
            low = d->y[low + half] <= (double)(key * 5) ? low + half : low;
            n -= half;
        }
        found += low;
    }
    d->result = found;
}

KEEP static void tree_walk(struct kernel_data *d)
{
    uint64_t found = 0;
    for (int64_t key = 0; key < 16; key++) {
        const struct kernel_node *n = &d->nodes[1];
        while (n && n->key != key * 4)
            n = n->key > key * 4 ? n->left : n->right;
        found += n != NULL;
    }
    d->result = found;
}

KEEP static void interpreter(struct kernel_data *d)
{
    static const uint8_t program[] = {0, 1, 2, 0, 3, 1, 4, 2, 0, 5};
    uint64_t acc = 1;
    for (int iteration = 0; iteration < 24; iteration++)
        for (size_t pc = 0; pc < sizeof program; pc++)
            switch (program[pc]) {
            case 0:
                acc += d->table[pc];
                break;
            case 1:
                acc ^= acc << 3;
                break;
            case 2:
                acc -= pc;
                break;
            case 3:
                acc *= 5;
                break;
            case 4:
                acc = acc >> 7 | acc << 57;
                break;
            default:
                d->k[iteration] = (int32_t)acc;
            }
    d->result = acc;
}

KEEP static uint64_t recurse(uint64_t n) { return n < 2 ? n : recurse(n - 1) + recurse(n - 2); }
KEEP static void recursion(struct kernel_data *d) { d->result = recurse(9 + (d->result & 0)); }

KEEP static uint32_t small_function(uint32_t a, uint32_t b) { return (a ^ b >> 3) + 7; }
KEEP static void small_calls(struct kernel_data *d)
{
    uint32_t s = 0;
    for (int i = 0; i < 128; i++)
        s = small_function(s, d->table[i]);
    d->result = s;
}

KEEP static void remainders(struct kernel_data *d)
{
    uint32_t s = 0;
    for (int i = 0; i < 12; i++) {
        uint32_t a = d->table[i] | 1, b = d->table[i + 1] | 1;
        for (int k = 0; k < 12; k++) {
            uint32_t t = a % b;
            a = b;
            b = t | 1;
        }
        s += a;
    }
    d->result = s;
}

KEEP static void parse_numbers(struct kernel_data *d)
{
    uint64_t s = 0, v = 0;
    for (int i = 0; i < 400; i++) {
        uint8_t c = (uint8_t)(d->bytes[i] & 15);
        if (i % 5 == 4) {
            s += v;
            v = 0;
        } else {
            v = v * 10 + c;
        }
    }
    d->result = s;
}

KEEP static void sieve(struct kernel_data *d)
{
    memset(d->out, 0, 256);
    uint64_t primes = 0;
    for (uint32_t i = 2; i < 256; i++) {
        if (d->out[i])
            continue;
        primes++;
        for (uint32_t j = i * i; j < 256; j += i)
            d->out[j] = 1;
    }
    d->result = primes;
}

KEEP static void run_lengths(struct kernel_data *d)
{
    int o = 0;
    for (int i = 0; i < 400;) {
        int n = 1;
        while (n < 6 && d->table[(i + n) & 255] % 2 == d->table[i & 255] % 2 && i + n < 400)
            n++;
        d->out[o++] = (uint8_t)n;
        i += n;
    }
    d->result = (uint64_t)o;
}

/* ---- floating point ---- */

KEEP static void dot(struct kernel_data *d)
{
    double s = 0;
    for (int i = 0; i < 256; i++)
        s += d->x[i] * d->y[i];
    d->real_result = s;
}

KEEP static void axpy(struct kernel_data *d)
{
    for (int i = 0; i < 256; i++)
        d->z[i] = d->x[i] * 1.5 + d->y[i];
}

KEEP static void horner(struct kernel_data *d)
{
    for (int i = 0; i < 48; i++) {
        double x = d->x[i], p = 0.1;
        for (int k = 0; k < 12; k++)
            p = p * x + d->y[k];
        d->z[i] = p;
    }
}

KEEP static void mandelbrot(struct kernel_data *d)
{
    uint64_t inside = 0;
    for (int i = 0; i < 8; i++) {
        double cr = -0.5 + 0.01 * i, ci = 0.3, r = 0, im = 0;
        int n = 0;
        while (n < 40 && r * r + im * im < 4) {
            double t = r * r - im * im + cr;
            im = 2 * r * im + ci;
            r = t;
            n++;
        }
        inside += (uint64_t)n;
    }
    d->result = inside;
}

KEEP static void bodies(struct kernel_data *d)
{
    for (int i = 0; i < 12; i++) {
        double ax = 0, ay = 0;
        for (int j = 0; j < 12; j++) {
            double dx = d->x[j] - d->x[i] + 0.01, dy = d->y[j] - d->y[i];
            double r2 = dx * dx + dy * dy + 0.1, s = 1 / (r2 * sqrt(r2));
            ax += dx * s;
            ay += dy * s;
        }
        d->z[i] = ax;
        d->z[i + 16] = ay;
    }
}

KEEP static void stencil_line(struct kernel_data *d)
{
    for (int i = 1; i < 255; i++)
        d->z[i] = 0.25 * d->x[i - 1] + 0.5 * d->x[i] + 0.25 * d->x[i + 1];
}

KEEP static void stencil_plane(struct kernel_data *d)
{
    const double *a = d->m[0];
    for (int i = 1; i < 15; i++)
        for (int j = 1; j < 15; j++)
            d->m[2][i * 16 + j] =
                0.2 * (a[i * 16 + j] + a[i * 16 + j - 1] + a[i * 16 + j + 1] + a[i * 16 + j - 16] + a[i * 16 + j + 16]);
}

KEEP static void matrix_multiply(struct kernel_data *d)
{
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j++) {
            double s = 0;
            for (int k = 0; k < 12; k++)
                s += d->m[0][i * 16 + k] * d->m[1][k * 16 + j];
            d->m[2][i * 16 + j] = s;
        }
}

KEEP static void matrix_rows(struct kernel_data *d)
{
    for (int i = 0; i < 12; i++) {
        double *row = d->m[2] + i * 16;
        for (int j = 0; j < 12; j++)
            row[j] = 0;
        for (int k = 0; k < 12; k++)
            for (int j = 0; j < 12; j++)
                row[j] += d->m[0][i * 16 + k] * d->m[1][k * 16 + j];
    }
}

KEEP static void triangular_solve(struct kernel_data *d)
{
    for (int i = 0; i < 16; i++) {
        double s = d->y[i];
        for (int j = 0; j < i; j++)
            s -= d->m[0][i * 16 + j] * d->z[j];
        d->z[i] = s / (d->m[0][i * 17] + 2);
    }
}

KEEP static void norms(struct kernel_data *d)
{
    for (int i = 0; i < 96; i++)
        d->z[i] = sqrt(d->x[i] * d->x[i] + d->y[i] * d->y[i]);
}

KEEP static void divide_reals(struct kernel_data *d)
{
    for (int i = 0; i < 128; i++)
        d->z[i] = d->x[i] / (d->y[i] + 1.7);
}

KEEP static void newton(struct kernel_data *d)
{
    double r = 1;
    for (int i = 0; i < 48; i++)
        r = 0.5 * (r + (d->x[i & 15] + 2) / r);
    d->real_result = r;
}

KEEP static void filter(struct kernel_data *d)
{
    double a = 0, b = 0;
    for (int i = 0; i < 160; i++) {
        double v = d->x[i] - 0.3 * a - 0.2 * b;
        d->z[i] = 0.5 * v + 0.25 * a + 0.125 * b;
        b = a;
        a = v;
    }
}

KEEP static void float_sums(struct kernel_data *d)
{
    float s = 0, m = d->f[0];
    for (int i = 0; i < 256; i++) {
        s += d->f[i];
        m = d->f[i] > m ? d->f[i] : m;
    }
    d->real_result = (double)(s + m);
}

KEEP static void float_scale(struct kernel_data *d)
{
    for (int i = 0; i < 256; i++)
        d->f[i] = d->f[i] * 0.999f + 0.001f;
}

KEEP static void convert(struct kernel_data *d)
{
    for (int i = 0; i < 256; i++)
        d->k[i] = (int32_t)((double)d->i[i] * 0.37 + d->x[i]);
}

KEEP static void complex_product(struct kernel_data *d)
{
    double r = 1, im = 0;
    for (int i = 0; i < 96; i++) {
        double t = r * d->x[i] - im * d->y[i];
        im = (r * d->y[i] + im * d->x[i]) * 0.5;
        r = t * 0.5 + 0.1;
    }
    d->real_result = r + im;
}

KEEP static void butterflies(struct kernel_data *d)
{
    for (int span = 1; span < 64; span *= 2)
        for (int i = 0; i < 64; i += 2 * span)
            for (int j = i; j < i + span; j++) {
                double a = d->z[j], b = d->z[j + span] * d->x[j & 15];
                d->z[j] = 0.5 * (a + b);
                d->z[j + span] = 0.5 * (a - b);
            }
}

KEEP static void largest(struct kernel_data *d)
{
    double best = d->x[0];
    int at = 0;
    for (int i = 1; i < 256; i++)
        if (d->x[i] > best) {
            best = d->x[i];
            at = i;
        }
    d->result = (uint64_t)at;
}

/* Many iterations by direct calls: an indirect one would be part of what is timed. */
#define K(function, kind)                                                                                              \
    static void iterations_##function(uint64_t iterations, void *data)                                                 \
    {                                                                                                                  \
        for (uint64_t i = 0; i < iterations; i++)                                                                      \
            function(data);                                                                                            \
    }
#include "sim/kernels.def"
#undef K

const struct kernel KERNELS[] = {
#define K(function, kind) {#function, #kind, function, iterations_##function},
#include "sim/kernels.def"
#undef K
};

#ifdef KERNELS_SHARED
const size_t kernel_count = sizeof KERNELS / sizeof KERNELS[0];

static void link_nodes(struct kernel_data *d)
{
    for (int i = 0; i < 64; i++) {
        struct kernel_node *n = &d->nodes[i];
        n->next = &d->nodes[(i * 37 + 11) % 64];
        n->left = i && 2 * i < 64 ? &d->nodes[2 * i] : NULL;
        n->right = i && 2 * i + 1 < 64 ? &d->nodes[2 * i + 1] : NULL;
        int depth = i ? 31 - __builtin_clz((unsigned)i) : 0;
        n->key = i ? (((int64_t)i << 1 | 1) << (5 - depth)) - 64 + 31 : 0; /* in order from left to right */
    }
}

void kernel_data_init(struct kernel_data *d)
{
    memset(d, 0, sizeof *d);
    uint64_t v = 12345;
    for (int i = 0; i < 1024; i++) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        uint32_t r = (uint32_t)(v >> 33);
        d->bytes[i] = (uint8_t)(r % 251);
        d->i[i % 512] = (int32_t)(r % 300);
        d->table[i % 256] = r;
        d->x[i % 256] = 0.5 + (double)(r % 1000) / 1100;
        d->y[i % 256] = 0.3 + (double)(r % 777) / 900;
        d->f[i % 256] = (float)(r % 100) / 99;
        d->m[i % 3][i % 256] = (double)(r % 50) / 51;
    }
    d->bytes[700] = 0xff;
    link_nodes(d);
}
#endif
