/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-parallel KIND THREADS ROUNDS: work for threads that share nothing but the result, of two kinds: a stencil on a
 * grid (long loops of few blocks) and a search in sorted tables (short blocks, branches that nobody can guess).
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1024, HEIGHT = 512, KEYS = 1 << 15 };

static double grids[2][HEIGHT][WIDTH];
static uint32_t keys[KEYS];

static double stencil(int rounds)
{
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            grids[0][y][x] = x * y % 17;
    for (int r = 0; r < rounds; r++) {
        double(*from)[WIDTH] = grids[r % 2], (*to)[WIDTH] = grids[1 - r % 2];
#pragma omp parallel for schedule(static)
        for (int y = 1; y < HEIGHT - 1; y++)
            for (int x = 1; x < WIDTH - 1; x++)
                to[y][x] = 0.2 * (from[y][x] + from[y][x - 1] + from[y][x + 1] + from[y - 1][x] + from[y + 1][x]);
    }
    return grids[rounds % 2][HEIGHT / 2][WIDTH / 2];
}

static uint32_t find(uint32_t key)
{
    uint32_t lo = 0, hi = KEYS;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (keys[mid] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static double search(int rounds)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        keys[i] = i * 131071u;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int r = 0; r < rounds; r++) {
        uint32_t x = (uint32_t)r * 2654435761u + 1;
        for (int i = 0; i < 20000; i++) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            sum += find(x);
        }
    }
    return (double)sum;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    omp_set_num_threads(atoi(argv[2]));
    printf("%.6f\n", strcmp(argv[1], "stencil") == 0 ? stencil(atoi(argv[3])) : search(atoi(argv[3])));
    return 0;
}
