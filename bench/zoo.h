/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MTOOL_BENCH_ZOO_H
#define MTOOL_BENCH_ZOO_H

#include "machine/machine.h"

/* A machine drawn by a seed; the same one everywhere. The caller's. */
struct machine *zoo_random(uint32_t seed);

#endif
