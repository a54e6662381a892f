/* SPDX-License-Identifier: Apache-2.0
 *
 * pages [PAGES REPEATS]: reads a word of each of many pages, in random order. The lines fit the second-level cache, the
 * pages do not fit the TLB. The fixed form asks for huge pages. The reads are the same.
 */
#include "example.h"

#include <sys/mman.h>

enum { PAGE = 4096, STEP = PAGE + 64, HUGE_PAGE = 2 << 20 };

KERNEL static double sum(const char *a, const uint32_t *order, long pages)
{
    double s = 0;
    for (long i = 0; i < pages; i++) /* HOT */
        s += *(const double *)(const void *)(a + (size_t)order[i] * STEP);
    return s;
}

int main(int argc, char **argv)
{
    long pages = example_arg(argc, argv, 1, 8000), repeats = example_arg(argc, argv, 2, 100000);
    size_t bytes = ((size_t)pages * STEP + 2 * HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    char *a = aligned_alloc(HUGE_PAGE, bytes);
    uint32_t *order = example_shuffled(pages);
    if (!a) {
        fprintf(stderr, "no memory for %zu bytes; give smaller sizes\n", bytes);
        return 1;
    }
#ifdef FIXED
    madvise(a, bytes, MADV_HUGEPAGE);
#else
    madvise(a, bytes, MADV_NOHUGEPAGE);
#endif
    for (long i = 0; i < pages; i++)
        *(double *)(void *)(a + (size_t)i * STEP) = (double)(i % 1000);

    double s = 0, start = example_seconds();
    for (long r = 0; r < repeats; r++)
        s += sum(a, order, pages);
    return example_end(s, (double)pages * (double)repeats, example_seconds() - start);
}
