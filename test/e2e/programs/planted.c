/* SPDX-License-Identifier: Apache-2.0
 * Two loops that walk the same ring through memory, one called `seen` and one called `hidden`: each loses as much time.
 */
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 1 << 20, STEPS = 3000000 };
struct node {
    struct node *next;
    long pad[7];
};
static struct node *ring;

/* One ring through all nodes in no order: a full period of a linear congruential generator. */
static void make_ring(void)
{
    ring = calloc(NODES, sizeof *ring);
    size_t at = 0;
    for (size_t i = 0; i < NODES; i++) {
        size_t to = (at * 1664525 + 1013904223) % NODES;
        ring[at].next = &ring[to];
        at = to;
    }
}

__attribute__((noipa)) static struct node *seen(struct node *n, long steps)
{
    for (long i = 0; i < steps; i++)
        n = n->next;
    return n;
}

__attribute__((noipa)) static struct node *hidden(struct node *n, long steps)
{
    for (long i = 0; i < steps; i++)
        n = n->next;
    return n;
}

int main(int argc, char **argv)
{
    long steps = STEPS * (argc > 1 ? atol(argv[1]) : 1);
    make_ring();
    struct node *n = ring;
    n = seen(n, steps);
    n = hidden(n, steps);
    printf("%ld\n", (long)(n - ring));
    return 0;
}
