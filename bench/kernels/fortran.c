/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of fortran.f90, as the others are called. */
#include "kernels.h"

void f_triad(size_t n, double *x, double *y, double *z);
void f_masked(size_t n, double *x, double *z);
void f_product(double *x, double *y, double *z);
void f_intrinsic(double *x, double *y, double *z);
void f_stencil(double *x, double *z);
double f_dot(size_t n, double *x, double *y);
void f_recurrence(size_t n, double *x, double *z);

static void triad(struct data *d) { f_triad(d->n, d->x, d->y, d->z); }
static void masked(struct data *d) { f_masked(d->n, d->x, d->z); }
static void product(struct data *d) { f_product(d->x, d->y, d->z); }
static void intrinsic(struct data *d) { f_intrinsic(d->x, d->y, d->z); }
static void stencil(struct data *d) { f_stencil(d->x, d->z); }
static void dot(struct data *d) { d->result = (uint64_t)f_dot(d->n, d->x, d->y); }
static void recurrence(struct data *d) { f_recurrence(d->n, d->x, d->z); }

const struct kernel fortran_kernels[] = {
    {"fortran-triad", "float", triad, LARGE},           {"fortran-masked", "float", masked, LARGE | LEARNED},
    {"fortran-product", "float", product, 0},           {"fortran-intrinsic", "float", intrinsic, 0},
    {"fortran-stencil", "float", stencil, 0},           {"fortran-dot", "float", dot, LARGE},
    {"fortran-recurrence", "float", recurrence, LARGE}, {0},
};
