/* SPDX-License-Identifier: Apache-2.0
 * chase [STEPS [COUNT]]: follows pointers through one random cycle of COUNT (at most 32 thousand) nodes of 64 bytes;
 * prints one value. 32 thousand nodes are 2 MB: as large as some second levels of cache, where the time depends on
 * which page frames a run happens to get. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 1 << 15 };
struct node {
    struct node *next;
    uint64_t value[7];
};
static struct node nodes[NODES];
static uint32_t order[NODES];

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 120000000;
    uint32_t count = argc > 2 ? (uint32_t)atol(argv[2]) : NODES;
    if (count < 1 || count > NODES)
        return 2;
    uint32_t state = 1;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i, nodes[i].value[0] = i;
    for (uint32_t i = count - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        uint32_t j = (state >> 8) % (i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (uint32_t i = 0; i < count; i++)
        nodes[order[i]].next = &nodes[order[(i + 1) % count]];
    uint64_t sum = 0;
    for (const struct node *p = nodes; steps > 0; steps--, p = p->next)
        sum += p->value[0];
    printf("%llu\n", (unsigned long long)sum);
}
