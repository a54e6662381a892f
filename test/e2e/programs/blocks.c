/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks: 4000 blocks of 816 bytes one behind the other, of which a count at the begin is changed over and over.
 */
#include <stdlib.h>

enum { COUNT = 4000, BYTES = 816, ROUNDS = 10 };

int main(void)
{
    static int *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        if (!(blocks[i] = calloc(1, BYTES)))
            return 1;
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i < COUNT; i++)
            (*blocks[i])++;
    return *blocks[COUNT / 2] != ROUNDS;
}
