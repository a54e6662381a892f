/* SPDX-License-Identifier: Apache-2.0
 *
 * objects CASE CHEAP REPEATS: eight programs of two or three data objects that cost memory time. CHEAP (0: none) names
 * the object, by its number, whose references all go to its first page: the same work, but its misses are gone. So
 * the clock tells what each object costs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

enum { PAGE_WORDS = 512, WORDS = 1 << 22 };
static double left[WORDS], right[WORDS], third[WORDS];
static long cheap;
static uint64_t state = 88172645463325252u;

static uint64_t chance(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Which words of the n-th object are reached. */
static uint64_t mask_of(long object, uint64_t words) { return (cheap == object ? PAGE_WORDS : words) - 1; }

NOINLINE static double gather(const double *a, uint64_t mask, long n)
{
    double s = 0;
    uint64_t x = 1;
    for (long i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        s += a[x >> 20 & mask];
    }
    return s;
}

NOINLINE static double walk(const double *a, uint64_t mask, long n) /* each step needs the one before */
{
    double s = 0;
    uint64_t x = 1;
    for (long i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u + (uint64_t)a[x >> 20 & mask];
        s += (double)(x >> 60);
    }
    return s;
}

NOINLINE static double stride(const double *a, uint64_t mask, long n) /* a line of each page, and the next line */
{
    double s = 0;
    uint64_t at = 0;
    for (long i = 0; i < n; i++) {
        s += a[at & mask];
        at += 4099;
    }
    return s;
}

NOINLINE static double both(const double *a, uint64_t am, const double *b, uint64_t bm, long n)
{
    double s = 0;
    uint64_t x = 1;
    for (long i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        s += a[x >> 20 & am] * b[x >> 34 & bm];
    }
    return s;
}

NOINLINE static void scatter(double *a, uint64_t mask, long n)
{
    uint64_t x = 7;
    for (long i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        a[x >> 20 & mask] += 1;
    }
}

static double run(const char *name, long n)
{
    uint64_t l = mask_of(1, WORDS), r = mask_of(2, WORDS), t = mask_of(3, WORDS);
    if (!strcmp(name, "gathers"))
        return gather(left, l, 2 * n) + gather(right, r, n);
    if (!strcmp(name, "walks"))
        return walk(left, l, n) + walk(right, r, n / 2);
    if (!strcmp(name, "mixed"))
        return walk(left, l, n / 2) + gather(right, r, 2 * n);
    if (!strcmp(name, "strides"))
        return stride(left, l, n) + gather(right, r, n);
    if (!strcmp(name, "writes")) {
        scatter(left, l, n);
        return gather(right, r, n);
    }
    if (!strcmp(name, "together"))
        return both(left, l, right, r, n);
    if (!strcmp(name, "sizes"))
        return gather(left, l, n) + walk(right, mask_of(2, WORDS / 64), 2 * n);
    if (!strcmp(name, "three"))
        return gather(left, l, n) + walk(right, r, n / 4) + stride(third, t, n / 2);
    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    cheap = atol(argv[2]);
    for (long i = 0; i < WORDS; i++) {
        left[i] = (double)(chance() & 7);
        right[i] = (double)(chance() & 7);
        third[i] = 1;
    }
    double s = run(argv[1], atol(argv[3]));
    printf("%.12g\n", s);
    return s < 0 ? 2 : 0;
}
