/* SPDX-License-Identifier: Apache-2.0
 * Misses of many kinds: rows and columns, a list in disorder, words that straddle lines, copies, doubles, bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 64, NODES = 3000, WORDS = 2000 };

struct node {
    struct node *next;
    uint64_t value;
    char rest[24];
};
struct __attribute__((packed)) word {
    uint8_t before;
    uint64_t value;
    uint16_t after;
};

static double a[N][N], b[N][N], c[N][N];
static struct node nodes[NODES];
static struct word words[WORDS];
static uint32_t seed = 1;

static uint32_t next(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

static void multiply(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                c[i][j] += a[i][k] * b[k][j];
}

static uint64_t walk(int rounds)
{
    uint64_t sum = 0;
    for (int i = 0; i < NODES; i++)
        nodes[i].next = &nodes[(i * 1237 + 7) % NODES], nodes[i].value += next();
    struct node *n = nodes;
    for (int i = 0; i < rounds * NODES; i++, n = n->next)
        sum += n->value++;
    return sum;
}

static uint64_t straddle(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < 4 * WORDS; i++) {
        struct word *w = &words[next() % WORDS];
        w->value += w->before++ + w->after;
        sum += w->value;
    }
    return sum;
}

static unsigned copy(void)
{
    unsigned sum = 0;
    char *from = malloc(1 << 15), *to = malloc(1 << 15);
    for (int i = 0; i < 12; i++) {
        memset(from, i + 1, (1 << 15) - 1);
        from[(1 << 15) - 1] = 0;
        size_t len = next() % (1 << 15);
        memcpy(to + i, from, len - (len > 100 ? 100 : len));
        sum += (unsigned char)to[len / 2] + (unsigned)strlen(from + i);
    }
    free(from);
    free(to);
    return sum;
}

int main(void)
{
    for (int i = 0; i < N * N; i++)
        a[i / N][i % N] = next(), b[i / N][i % N] = next();
    multiply();
    printf("%g %llu %llu %u\n", c[3][4], (unsigned long long)walk(2), (unsigned long long)straddle(), copy());
    return 0;
}
