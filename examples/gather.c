/* SPDX-License-Identifier: Apache-2.0
 *
 * gather [TABLE PICKS REPEATS]: sums the elements of a table that a list of indices picks. Indices in random order make
 * nearly every pick a miss, though several can be under way at once; the same indices sorted walk through the table.
 */
#include "example.h"

KERNEL static double sum(const double *table, const uint32_t *index, long picks)
{
    double s = 0;
    for (long i = 0; i < picks; i++) /* HOT */
        s += table[index[i]];
    return s;
}

#ifdef FIXED
static void sort(uint32_t *index, long picks, long size)
{
    uint8_t *times = example_alloc((size_t)size, 1); /* each element picked */
    for (long i = 0; i < picks; i++)
        times[index[i]]++;
    for (long element = 0; element < size; element++)
        for (; times[element]; times[element]--)
            *index++ = (uint32_t)element;
    free(times);
}
#endif

int main(int argc, char **argv)
{
    long size = example_arg(argc, argv, 1, 16000000), picks = example_arg(argc, argv, 2, 2000000);
    long repeats = example_arg(argc, argv, 3, 60);
    double *table = example_alloc((size_t)size, sizeof *table);
    uint32_t *index = example_alloc((size_t)picks, sizeof *index);
    for (long i = 0; i < size; i++)
        table[i] = (double)(i % 1000);
    for (long i = 0; i < picks; i++)
        index[i] = (uint32_t)(example_random() % (uint64_t)size);
#ifdef FIXED
    sort(index, picks, size);
#endif

    double s = 0, start = example_seconds();
    for (long r = 0; r < repeats; r++)
        s += sum(table, index, picks);
    return example_end(s, (double)picks * (double)repeats, example_seconds() - start);
}
