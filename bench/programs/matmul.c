/* SPDX-License-Identifier: Apache-2.0
 * matmul [N]: the product of two N by N matrices, the innermost loop along rows; prints one value. */
#include <stdio.h>
#include <stdlib.h>

enum { MAX = 1200 };
static double a[MAX][MAX], b[MAX][MAX], c[MAX][MAX];

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 900;
    if (n > MAX)
        return 2;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[i][j] = (double)(i % 17) - j % 5, b[i][j] = (double)(j % 19) + i % 3;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                c[i][j] += a[i][k] * b[k][j];
    printf("%.17g\n", c[n / 2][n / 3]);
}
