/* SPDX-License-Identifier: Apache-2.0
 * The kernels of the self-test: small loops of many kinds on data that fits into the first-level cache. */
#ifndef MTOOL_SIM_KERNELS_H
#define MTOOL_SIM_KERNELS_H

#include <stddef.h>
#include <stdint.h>

struct kernel_node {
    struct kernel_node *left, *right, *next;
    int64_t key;
};

struct kernel_data { /* about 24 KiB; the gaps keep arrays from standing 4 KiB apart, where stores and loads mix up */
    double x[256 + 24], y[256 + 40], z[256 + 72], m[3][16 * 16 + 56];
    float f[256 + 48];
    int32_t i[512 + 80], k[512 + 112];
    uint32_t table[256 + 16];
    uint8_t bytes[1024 + 64], out[1024 + 192];
    struct kernel_node nodes[64];
    double real_result;
    uint64_t result;
};

struct kernel {
    const char *name;
    const char *kind;                     /* the class that errors are reported by: integer, float, memory, branch */
    void (*entry)(struct kernel_data *d); /* where an iteration begins */
    void (*run)(uint64_t iterations, void *data); /* so many iterations on a struct kernel_data */
};

void kernel_data_init(struct kernel_data *d);
/* The same kernels as the compiler makes them for any x86-64, and for one with 256-bit vectors. */
extern const struct kernel kernels_base[], kernels_wide[];
extern const size_t kernel_count;

#endif
