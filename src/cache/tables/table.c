/* SPDX-License-Identifier: Apache-2.0
 * Tables of half a large page and more, each in a mapping of its own. */
#include "cache/tables/table.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)
#define MAPPED_BYTES (LARGE_PAGE / 2)

void *table_new(size_t len_bytes)
{
    size_t len = ALIGN_UP(len_bytes, LARGE_PAGE);
    if (len_bytes < MAPPED_BYTES)
        return xmalloc(len_bytes);
    char *all = mmap(NULL, len + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        xmalloc_failed();
    size_t before = -(uintptr_t)all & (LARGE_PAGE - 1);
    if (before)
        munmap(all, before);
    munmap(all + before + len, LARGE_PAGE - before);
    int err = errno;
    madvise(all + before, len, MADV_HUGEPAGE);
    errno = err; /* of a system without such: nobody's failure */
    return all + before;
}

void *table_grow(void *p, size_t len_bytes, size_t more_bytes)
{
    void *grown = table_new(more_bytes);
    memcpy(grown, p, len_bytes);
    table_free(p, len_bytes);
    return grown;
}

void table_free(void *p, size_t len_bytes)
{
    if (len_bytes < MAPPED_BYTES)
        free(p);
    else if (p)
        munmap(p, ALIGN_UP(len_bytes, LARGE_PAGE));
}
