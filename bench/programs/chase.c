/* SPDX-License-Identifier: Apache-2.0
 * chase [STEPS]: follows pointers through one random cycle of 32 thousand nodes (2 MB); prints one value. */
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
    uint32_t state = 1;
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i, nodes[i].value[0] = i;
    for (uint32_t i = NODES - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        uint32_t j = (state >> 8) % (i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (uint32_t i = 0; i < NODES; i++)
        nodes[order[i]].next = &nodes[order[(i + 1) % NODES]];
    uint64_t sum = 0;
    for (const struct node *p = nodes; steps > 0; steps--, p = p->next)
        sum += p->value[0];
    printf("%llu\n", (unsigned long long)sum);
}
