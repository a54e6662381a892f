/* SPDX-License-Identifier: Apache-2.0
 * butterflies [TIMES]: Fourier transforms of 128 points (Stockham), 32 side by side, as in the FT of the NAS Parallel
 * Benchmarks: short loops of straight floating-point code in the first-level cache. Prints one value. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG = 7, POINTS = 1 << LOG, SIDE = 32 };
struct point {
    double re, im;
};
static struct point here[POINTS][SIDE], there[POINTS][SIDE], root[POINTS];

__attribute__((noinline)) static void stage(int l, struct point (*from)[SIDE], struct point (*to)[SIDE])
{
    int apart = 1 << l, groups = POINTS / 2 >> l;
    for (int g = 0; g < groups; g++) {
        struct point r = root[g * apart];
        for (int k = 0; k < apart; k++)
            for (int j = 0; j < SIDE; j++) {
                struct point x = from[g * apart + k][j], y = from[g * apart + k + POINTS / 2][j];
                double re = x.re - y.re, im = x.im - y.im;
                to[2 * g * apart + k][j] = (struct point){x.re + y.re, x.im + y.im};
                to[2 * g * apart + apart + k][j] = (struct point){r.re * re - r.im * im, r.re * im + r.im * re};
            }
    }
}

static void transform(void)
{
    for (int l = 0; l + 1 < LOG; l += 2) {
        stage(l, here, there);
        stage(l + 1, there, here);
    }
    stage(LOG - 1, here, there);
    double scale = 1 / sqrt(POINTS); /* so that nothing grows or fades */
    for (int i = 0; i < POINTS; i++)
        for (int j = 0; j < SIDE; j++)
            here[i][j] = (struct point){there[i][j].re * scale, there[i][j].im * scale};
}

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 20000;
    for (int i = 0; i < POINTS; i++) {
        root[i] = (struct point){cos(2 * M_PI * i / POINTS), -sin(2 * M_PI * i / POINTS)};
        for (int j = 0; j < SIDE; j++)
            here[i][j] = (struct point){i * 0.5, j};
    }
    for (long k = 0; k < times; k++)
        transform();
    printf("%g\n", here[3][5].re);
    return 0;
}
