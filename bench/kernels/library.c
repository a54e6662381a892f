/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that spend their time in the C library and the mathematical library. */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

KEEP static void sines(struct data *d)
{
    for (size_t e = 0; e < 64; e++)
        d->z[e] = sin(d->x[e]) + cos(d->y[e]);
}

KEEP static void exponentials(struct data *d)
{
    for (size_t e = 0; e < 64; e++)
        d->z[e] = log(exp(d->x[e]) + 1);
}

KEEP static void powers(struct data *d)
{
    for (size_t e = 0; e < 64; e++)
        d->z[e] = pow(d->x[e], d->y[e]);
}

KEEP static void copy_blocks(struct data *d)
{
    for (size_t e = 0; e < 16; e++)
        memcpy(d->z + e * 8, d->x + e * 16, 40 + e * 4 + (size_t)(d->i[e] & 7));
}

KEEP static void string_lengths(struct data *d)
{
    size_t s = 0;
    uint8_t last = d->t[255];
    d->t[255] = 0;
    for (size_t e = 0; e < 64; e++)
        s += strlen((const char *)d->t + e * 3);
    d->t[255] = last;
    d->result = s;
}

KEEP static void find_bytes(struct data *d)
{
    size_t s = 0;
    for (size_t e = 0; e < 64; e++)
        s += memchr(d->s + e, ' ', 200) != NULL;
    d->result = s;
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

KEEP static void library_sort(struct data *d)
{
    memcpy(d->j, d->i, 64 * sizeof *d->j);
    qsort(d->j, 64, sizeof *d->j, compare);
}

KEEP static void print_numbers(struct data *d)
{
    int s = 0;
    for (size_t e = 0; e < 8; e++)
        s += snprintf((char *)d->t, 64, "%d %x %s", d->i[e], (unsigned)d->j[e], "text");
    d->result = (uint64_t)s;
}

KEEP static void read_numbers(struct data *d)
{
    double s = 0;
    for (size_t e = 0; e < 16; e++)
        s += strtod(e & 1 ? "3.14159" : "271.828", NULL) + (double)strtol("12345", NULL, 10);
    d->result = (uint64_t)s;
}

KEEP static void allocate(struct data *d)
{
    void *p[16];
    for (size_t e = 0; e < 16; e++)
        p[e] = malloc(16 + (size_t)(d->i[e] & 127));
    for (size_t e = 16; e-- > 0;)
        free(p[e]);
}

const struct kernel library_kernels[] = {
    {"sines", "library", sines, 0},
    {"exponentials", "library", exponentials, 0},
    {"powers", "library", powers, 0},
    {"copy-blocks", "library", copy_blocks, 0},
    {"string-lengths", "library", string_lengths, 0},
    {"find-bytes", "library", find_bytes, 0},
    {"library-sort", "library", library_sort, 0},
    {"print-numbers", "library", print_numbers, 0},
    {"read-numbers", "library", read_numbers, 0},
    {"allocate", "library", allocate, 0},
    {0},
};
