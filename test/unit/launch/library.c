/* SPDX-License-Identifier: Apache-2.0
 * A shared object that the victim opens by dlopen. */
#include <stdint.h>

uint64_t library_work(uint64_t x);

uint64_t library_work(uint64_t x)
{
    for (uint64_t i = 0; i < 20000; i++)
        x = x * 6364136223846793005u + i;
    return x;
}
