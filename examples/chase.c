/* SPDX-License-Identifier: Apache-2.0
 *
 * chase [NODES REPEATS]: sums a linked list whose nodes lie in memory in random order, as they do in a program that has
 * allocated and freed for a while. No node's address is known before the one before it has arrived, so each step waits
 * for memory. Fixed: the values in an array.
 */
#include "example.h"

struct node {
    struct node *next;
    long value;
};

#ifdef FIXED
KERNEL static long sum(const long *values, long count)
{
    long s = 0;
    for (long i = 0; i < count; i++) /* HOT */
        s += values[i];
    return s;
}
#else
KERNEL static long sum(const struct node *list)
{
    long s = 0;
    for (const struct node *n = list; n; n = n->next) /* HOT */
        s += n->value;
    return s;
}
#endif

int main(int argc, char **argv)
{
    long count = example_arg(argc, argv, 1, 4000000), repeats = example_arg(argc, argv, 2, 5);
#ifdef FIXED
    long *values = example_alloc((size_t)count, sizeof *values);
    for (long i = 0; i < count; i++)
        values[i] = i;
#else
    struct node *nodes = example_alloc((size_t)count, sizeof *nodes);
    uint32_t *order = example_shuffled(count);
    for (long i = 0; i < count; i++) {
        nodes[order[i]].value = i;
        nodes[order[i]].next = i + 1 < count ? &nodes[order[i + 1]] : NULL;
    }
#endif
    long s = 0;
    double start = example_seconds();
    for (long r = 0; r < repeats; r++)
#ifdef FIXED
        s += sum(values, count);
#else
        s += sum(&nodes[order[0]]);
#endif
    return example_end((double)s, (double)count * (double)repeats, example_seconds() - start);
}
