/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of floating-point arithmetic: vectors, recurrences, matrices, division and roots. */
#include "kernels.h"

#include <math.h>

static size_t side(const struct data *d) /* of a square matrix of at most n elements */
{
    size_t m = 1;
    while (4 * m * m <= d->n)
        m *= 2;
    return m;
}

KEEP static void dot(struct data *d)
{
    double s = 0;
    for (size_t e = 0; e < d->n; e++)
        s += d->x[e] * d->y[e];
    d->result = (uint64_t)s;
}

KEEP static void dot_four_ways(struct data *d)
{
    double s[4] = {0};
    for (size_t e = 0; e < d->n; e += 4)
        for (int k = 0; k < 4; k++)
            s[k] += d->x[e + (size_t)k] * d->y[e + (size_t)k];
    d->result = (uint64_t)(s[0] + s[1] + s[2] + s[3]);
}

KEEP static void daxpy(struct data *d)
{
    const double *restrict x = d->x;
    double *restrict y = d->y;
    for (size_t e = 0, n = d->n; e < n; e++)
        y[e] += 1e-9 * x[e];
}

KEEP static void triad(struct data *d)
{
    const double *restrict x = d->x, *restrict y = d->y;
    double *restrict z = d->z;
    for (size_t e = 0, n = d->n; e < n; e++)
        z[e] = x[e] + 1.5 * y[e];
}

KEEP static void scale_floats(struct data *d)
{
    const float *restrict u = d->u;
    float *restrict v = d->v;
    for (size_t e = 0, n = d->n; e < n; e++)
        v[e] = u[e] * 0.99f + 0.01f;
}

KEEP static void stencil_line(struct data *d)
{
    const double *restrict x = d->x;
    double *restrict z = d->z;
    for (size_t e = 1, n = d->n; e + 1 < n; e++)
        z[e] = 0.25 * x[e - 1] + 0.5 * x[e] + 0.25 * x[e + 1];
}

KEEP static void stencil_plane(struct data *d)
{
    size_t m = side(d);
    for (size_t a = 1; a + 1 < m; a++)
        for (size_t b = 1; b + 1 < m; b++) {
            const double *at = d->x + a * m + b;
            d->z[a * m + b] = 0.2 * (at[0] + at[-1] + at[1] + at[-(ptrdiff_t)m] + at[m]);
        }
}

KEEP static void matrix_product(struct data *d)
{
    for (size_t a = 0; a < 16; a++)
        for (size_t b = 0; b < 16; b++) {
            double s = 0;
            for (size_t c = 0; c < 16; c++)
                s += d->x[a * 16 + c] * d->y[c * 16 + b];
            d->z[a * 16 + b] = s;
        }
}

KEEP static void matrix_product_rows(struct data *d)
{
    double *restrict z = d->z;
    const double *restrict x = d->x, *restrict y = d->y;
    for (size_t a = 0; a < 16; a++) {
        for (size_t b = 0; b < 16; b++)
            z[a * 16 + b] = 0;
        for (size_t c = 0; c < 16; c++)
            for (size_t b = 0; b < 16; b++)
                z[a * 16 + b] += x[a * 16 + c] * y[c * 16 + b];
    }
}

/* Has no large form: its sums of long rows are chains, while those of short rows overlap. */
KEEP static void matrix_vector(struct data *d)
{
    size_t m = side(d);
    for (size_t a = 0; a < m; a++) {
        double s = 0;
        for (size_t b = 0; b < m; b++)
            s += d->x[a * m + b] * d->y[b];
        d->z[a] = s;
    }
}

KEEP static void matrix_columns(struct data *d) /* along the columns of a matrix that is stored by rows */
{
    size_t m = side(d);
    for (size_t b = 0; b < m; b++)
        for (size_t a = 0; a < m; a++)
            d->z[b] += 1e-9 * d->x[a * m + b];
}

KEEP static void polynomial(struct data *d)
{
    for (size_t e = 0; e < d->n; e++) {
        double x = d->x[e];
        d->z[e] = ((((0.1 * x - 0.2) * x + 0.3) * x - 0.4) * x + 0.5) * x - 0.6;
    }
}

KEEP static void polynomial_long(struct data *d) /* much to compute for each element */
{
    for (size_t e = 0; e < d->n; e++) {
        double x = d->x[e], s = 0.5;
        for (int k = 0; k < 24; k++)
            s = s * x - 0.01;
        d->z[e] = s;
    }
}

KEEP static void exponential_series(struct data *d)
{
    double s = 0;
    for (size_t e = 0; e < 64; e++) {
        double term = 1, sum = 1;
        for (int k = 1; k < 12; k++) {
            term *= d->x[e] / k;
            sum += term;
        }
        s += sum;
    }
    d->result = (uint64_t)s;
}

KEEP static void newton_root(struct data *d)
{
    for (size_t e = 0; e < 64; e++) {
        double x = d->x[e], r = 1;
        for (int k = 0; k < 4; k++)
            r = 0.5 * (r + x / r);
        d->z[e] = r;
    }
}

KEEP static void norms(struct data *d)
{
    for (size_t e = 0; e + 3 < d->n; e += 3) {
        double l = sqrt(d->x[e] * d->x[e] + d->x[e + 1] * d->x[e + 1] + d->x[e + 2] * d->x[e + 2]);
        d->z[e] = d->x[e] / l;
        d->z[e + 1] = d->x[e + 1] / l;
        d->z[e + 2] = d->x[e + 2] / l;
    }
}

KEEP static void n_body(struct data *d)
{
    for (size_t a = 0; a < 16; a++) {
        double fx = 0, fy = 0;
        for (size_t b = 0; b < 16; b++) {
            double dx = d->x[b] - d->x[a], dy = d->y[b] - d->y[a], r2 = dx * dx + dy * dy + 0.01;
            double f = 1 / (r2 * sqrt(r2));
            fx += f * dx;
            fy += f * dy;
        }
        d->z[a] = fx;
        d->z[a + 16] = fy;
    }
}

KEEP static void mandelbrot(struct data *d)
{
    unsigned n = 0;
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 8; b++) {
            double cr = a * 0.3 - 2, ci = b * 0.3 - 1, r = 0, i = 0;
            for (int k = 0; k < 32 && r * r + i * i < 4; k++, n++) {
                double t = r * r - i * i + cr;
                i = 2 * r * i + ci;
                r = t;
            }
        }
    d->result = n;
}

KEEP static void filter_recursive(struct data *d)
{
    double a = 0, b = 0;
    for (size_t e = 0; e < d->n; e++) {
        double y = d->x[e] + 0.5 * a - 0.25 * b;
        b = a;
        a = y;
        d->z[e] = y;
    }
}

KEEP static void filter_taps(struct data *d)
{
    static const float tap[8] = {.1f, .2f, .3f, .4f, .4f, .3f, .2f, .1f};
    const float *restrict u = d->u;
    float *restrict v = d->v;
    for (size_t e = 0, n = d->n; e + 8 < n; e++) {
        float s = 0;
        for (int k = 0; k < 8; k++)
            s += u[e + (size_t)k] * tap[k];
        v[e] = s;
    }
}

KEEP static void running_sum(struct data *d)
{
    double s = 0;
    for (size_t e = 0; e < d->n; e++) {
        s += d->x[e];
        d->z[e] = s;
    }
}

KEEP static void largest(struct data *d)
{
    double m = d->x[0];
    for (size_t e = 1; e < d->n; e++)
        m = d->x[e] > m ? d->x[e] : m;
    d->result = (uint64_t)(m * 1e6);
}

KEEP static void clip(struct data *d)
{
    const float *restrict u = d->u;
    float *restrict w = d->w;
    for (size_t e = 0, n = d->n; e < n; e++) {
        float v = u[e] < 0.7f ? 0.7f : u[e];
        w[e] = v > 1.3f ? 1.3f : v;
    }
}

KEEP static void complex_product(struct data *d)
{
    for (size_t e = 0; e + 1 < d->n; e += 2) {
        double a = d->x[e], b = d->x[e + 1], c = d->y[e], g = d->y[e + 1];
        d->z[e] = a * c - b * g;
        d->z[e + 1] = a * g + b * c;
    }
}

KEEP static void butterflies(struct data *d)
{
    for (size_t half = 1; half < 64; half *= 2)
        for (size_t base = 0; base < 128; base += 2 * half)
            for (size_t k = base; k < base + half; k++) {
                double a = d->z[k], b = d->z[k + half] * 0.7;
                d->z[k] = 0.5 * (a + b);
                d->z[k + half] = 0.5 * (a - b) + 0.5;
            }
}

KEEP static void eliminate(struct data *d)
{
    double m[12][12];
    for (int a = 0; a < 12; a++)
        for (int b = 0; b < 12; b++)
            m[a][b] = d->x[a * 12 + b] + (a == b ? 20 : 0);
    for (int k = 0; k < 12; k++)
        for (int a = k + 1; a < 12; a++) {
            double f = m[a][k] / m[k][k];
            for (int b = k; b < 12; b++)
                m[a][b] -= f * m[k][b];
        }
    d->result = (uint64_t)m[11][11];
}

KEEP static void three_diagonals(struct data *d)
{
    double c = 0, v = 0;
    for (size_t e = 0; e < 256; e++) {
        double r = 1 / (4 + d->x[e] * c);
        c = d->y[e] * r;
        v = (d->x[e] - v) * r;
        d->z[e] = v;
    }
}

KEEP static void convert(struct data *d)
{
    const float *restrict u = d->u;
    int32_t *restrict i = d->i;
    for (size_t e = 0, n = d->n; e < n; e++)
        i[e] = (int32_t)(u[e] * 1000.0f);
}

KEEP static void cubic(struct data *d)
{
    for (size_t e = 1; e + 2 < d->n; e++) {
        float a = d->u[e - 1], b = d->u[e], c = d->u[e + 1], g = d->u[e + 2], f = 0.3f;
        d->v[e] = b + 0.5f * f * (c - a + f * (2 * a - 5 * b + 4 * c - g + f * (3 * (b - c) + g - a)));
    }
}

KEEP static void sum_exact(struct data *d) /* Kahan's */
{
    volatile double keep;
    double s = 0, c = 0;
    for (size_t e = 0; e < d->n; e++) {
        double y = d->x[e] - c, t = s + y;
        c = (t - s) - y;
        s = t;
    }
    keep = s;
    (void)keep;
}

KEEP static void mean_variance(struct data *d)
{
    double s = 0, s2 = 0;
    for (size_t e = 0; e < d->n; e++) {
        double v = d->i[e];
        s += v;
        s2 += v * v;
    }
    d->result = (uint64_t)(s2 - s);
}

KEEP static void divide_floats(struct data *d)
{
    const float *restrict u = d->u, *restrict v = d->v;
    float *restrict w = d->w;
    for (size_t e = 0, n = d->n; e < n; e++)
        w[e] = u[e] / (v[e] + 1);
}

const struct kernel float_kernels[] = {
    {"dot", "float", dot, LARGE},
    {"dot-four-ways", "float", dot_four_ways, LARGE},
    {"daxpy", "float", daxpy, LARGE},
    {"triad", "float", triad, LARGE},
    {"scale-floats", "float", scale_floats, LARGE},
    {"stencil-line", "float", stencil_line, LARGE},
    {"stencil-plane", "float", stencil_plane, LARGE},
    {"matrix-product", "float", matrix_product, 0},
    {"matrix-product-rows", "float", matrix_product_rows, 0},
    {"matrix-vector", "float", matrix_vector, 0},
    {"matrix-columns", "float", matrix_columns, LARGE},
    {"polynomial", "float", polynomial, LARGE},
    {"polynomial-long", "float", polynomial_long, LARGE | COMPUTE},
    {"exponential-series", "float", exponential_series, 0},
    {"newton-root", "division", newton_root, 0},
    {"norms", "division", norms, LARGE},
    {"n-body", "division", n_body, 0},
    {"mandelbrot", "float", mandelbrot, 0},
    {"filter-recursive", "float", filter_recursive, LARGE | COMPUTE},
    {"filter-taps", "float", filter_taps, LARGE},
    {"running-sum", "float", running_sum, LARGE},
    {"largest", "float", largest, LARGE},
    {"clip", "float", clip, LARGE | LEARNED},
    {"complex-product", "float", complex_product, LARGE},
    {"butterflies", "float", butterflies, 0},
    {"eliminate", "float", eliminate, 0},
    {"three-diagonals", "division", three_diagonals, 0},
    {"convert", "float", convert, LARGE},
    {"cubic", "float", cubic, LARGE},
    {"sum-exact", "float", sum_exact, LARGE | COMPUTE},
    {"mean-variance", "float", mean_variance, LARGE},
    {"divide-floats", "division", divide_floats, LARGE},
    {0},
};
