/* SPDX-License-Identifier: Apache-2.0
 * stencil [SWEEPS]: five-point sweeps over a 1000 by 1000 grid of doubles; prints one value. */
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 1000 };
static double grid[2][SIDE][SIDE];

static void sweep(const double in[SIDE][SIDE], double out[SIDE][SIDE])
{
    for (int i = 1; i < SIDE - 1; i++)
        for (int j = 1; j < SIDE - 1; j++)
            out[i][j] = 0.2 * (in[i][j] + in[i - 1][j] + in[i + 1][j] + in[i][j - 1] + in[i][j + 1]);
}

int main(int argc, char **argv)
{
    int sweeps = argc > 1 ? atoi(argv[1]) : 400;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++)
            grid[0][i][j] = grid[1][i][j] = (double)((i * 7 + j * 13) % 101);
    for (int s = 0; s < sweeps; s++)
        sweep(grid[s & 1], grid[~s & 1]);
    printf("%.17g\n", grid[sweeps & 1][SIDE / 2][SIDE / 3]);
}
