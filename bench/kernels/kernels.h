/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench/ideal and bench/overhead run: small loops of every kind. Each works on the n elements of some of the
 * arrays below: with n = SMALL all of them lie in the first-level cache, so that the loop's own time is the truth that
 * an ideal time must meet; with a large n those that are marked so lie in memory. A kernel does the same work at every
 * call. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SMALL = 512 };

struct data {
    size_t n;          /* a power of two */
    double *x, *y, *z; /* 0.5 to 1.5 */
    float *u, *v, *w;  /* the same */
    int32_t *i, *j;    /* random, 0 to 1 << 20 */
    int32_t *p;        /* one cycle through all of 0 to n - 1: p[e] follows e */
    uint64_t *q;       /* random */
    uint8_t *s, *t;    /* random lower-case text; in 16 letters one blank */
    uint64_t result;   /* so that nothing is optimised away */
};

enum kernel_flag {
    LARGE = 1,   /* has a large form */
    BRANCH = 2,  /* bound by branches that nobody can predict */
    COMPUTE = 4, /* bound by computing in its large form too */
    LEARNED = 8  /* its branches depend on data: on the few of its small form, processors learn them */
};

struct kernel {
    const char *name, *kind;
    void (*run)(struct data *);
    unsigned flags;
};

/* Each ends with a kernel without a name. */
extern const struct kernel float_kernels[], integer_kernels[], text_kernels[], order_kernels[], table_kernels[],
    control_kernels[], library_kernels[], cxx_kernels[], fortran_kernels[];

#define KEEP __attribute__((noinline, used))

#ifdef __cplusplus
}
#endif
#endif
