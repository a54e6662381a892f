/* SPDX-License-Identifier: Apache-2.0
 * Memory: arenas in chunks that double up to a limit, checked heap calls, and growing arrays. */
#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHUNK_FIRST (16u << 10)
#define CHUNK_MAX (4u << 20)
#define LARGE_BYTES (4u << 20)
#define PAGE_BYTES 4096u
#define HEAP_BYTES (256 << 20)    /* asked for at once, which takes addresses, not memory */
#define MAPPED_BYTES (1 << 20)    /* what is larger, and larger than what is left of the heap, is mapped for itself */
#define GROWN_BYTES (512 << 10)   /* more than the heap has at first, so that it grows; its steps when all is used */
#define SPARSE_BYTES (256u << 10) /* a sparse array from this size is mapped for itself */

struct chunk {
    struct chunk *next;
    size_t cap, used;
    bool is_sparse;
    _Alignas(16) uint8_t data[];
};

struct arena {
    struct chunk *head;
    size_t next_cap;
};

void xmalloc_failed(void)
{
    static const char text[] = "mtool: error: out of memory\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(125);
    _exit(125);
}

/* Large arrays in pages of 2 MB where the system has such: a fault for each 4 KB takes a tenth of a rewriter's time. */
static void *in_large_pages(void *p, size_t len_bytes)
{
    if (len_bytes >= LARGE_BYTES) {
        char *first = (char *)p + (-(uintptr_t)p & (PAGE_BYTES - 1));
        int err = errno;
        madvise(first, (size_t)((char *)p + len_bytes - first) & ~(size_t)(PAGE_BYTES - 1), MADV_HUGEPAGE);
        errno = err; /* of a system without such: nobody's failure */
    }
    return p;
}

static bool is_unlimited(int which)
{
    struct rlimit l;
    return getrlimit(which, &l) == 0 && l.rlim_cur == RLIM_INFINITY;
}

/* Faults for each 4 KB took a quarter of the time in which a copy of cc1 is made, and a third of `mtool count true`.
 * The kernel is asked for larger pages of what is mapped only, so the heap gets its addresses in advance, and keeps
 * them: what is freed is used again, not given back and taken anew. Of another malloc (a sanitizer's), nothing. */
void heap_begin(void)
{
    if (!mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES) || !is_unlimited(RLIMIT_AS) || !is_unlimited(RLIMIT_DATA))
        return;
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_ARENA_MAX, 1); /* of threads as well: there are few, and they ask seldom and for much */
    mallopt(M_TOP_PAD, HEAP_BYTES);
    char *p = malloc(GROWN_BYTES), *end = sbrk(0);
    if (p && end > p && (size_t)(end - p) >= HEAP_BYTES)
        in_large_pages(p, (size_t)(end - p));
    free(p);
    mallopt(M_TOP_PAD, GROWN_BYTES);
}

static void *zeroed(size_t len_bytes)
{
    void *p = calloc(1, len_bytes ? len_bytes : 1);
    if (!p)
        xmalloc_failed();
    return p;
}

void *xmalloc(size_t len_bytes) { return in_large_pages(zeroed(len_bytes), len_bytes); }

/* Before what xmalloc_sparse gives: how much of it is a mapping of its own, 0 if it is malloc's. */
struct sparse {
    _Alignas(16) size_t mapped_bytes;
};

void *xmalloc_sparse(size_t len_bytes)
{
    struct sparse *s;
    len_bytes += sizeof *s;
    if (len_bytes < SPARSE_BYTES)
        return (struct sparse *)zeroed(len_bytes) + 1;
    s = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        xmalloc_failed();
    s->mapped_bytes = len_bytes;
    return s + 1;
}

void xfree_sparse(void *p)
{
    struct sparse *s = p ? (struct sparse *)p - 1 : NULL;
    if (s && s->mapped_bytes)
        munmap(s, s->mapped_bytes);
    else
        free(s);
}

void *xrealloc(void *p, size_t len_bytes)
{
    p = realloc(p, len_bytes ? len_bytes : 1);
    if (!p)
        xmalloc_failed();
    return in_large_pages(p, len_bytes);
}

char *xstrdup(const char *s)
{
    size_t len = strlen(s);
    char *p = xmalloc(len + 1);
    memcpy(p, s, len + 1);
    return p;
}

struct arena *arena_new(void)
{
    struct arena *a = xmalloc(sizeof *a);
    a->next_cap = CHUNK_FIRST;
    return a;
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    for (struct chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        (c->is_sparse ? xfree_sparse : free)(c);
    }
    free(a);
}

void *arena_alloc(struct arena *a, size_t len_bytes)
{
    size_t len = ALIGN_UP(len_bytes ? len_bytes : 1, (size_t)16);
    struct chunk *c = a->head;
    if (!c || c->cap - c->used < len) {
        size_t cap = a->next_cap > len ? a->next_cap : len;
        c = xmalloc(sizeof *c + cap);
        c->cap = cap;
        c->next = a->head;
        a->head = c;
        if (a->next_cap < CHUNK_MAX)
            a->next_cap *= 2;
    }
    void *p = c->data + c->used;
    c->used += len;
    return p;
}

/* A chunk of its own, behind the one that is being filled. */
void *arena_alloc_sparse(struct arena *a, size_t len_bytes)
{
    struct chunk *c = xmalloc_sparse(sizeof *c + len_bytes);
    c->cap = c->used = len_bytes;
    c->is_sparse = true;
    c->next = a->head ? a->head->next : NULL;
    if (a->head)
        a->head->next = c;
    else
        a->head = c;
    return c->data;
}

char *arena_strndup(struct arena *a, const char *s, size_t len_bytes)
{
    char *p = arena_alloc(a, len_bytes + 1);
    if (len_bytes)
        memcpy(p, s, len_bytes);
    return p;
}

char *arena_strdup(struct arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, ap2;
    va_start(ap, fmt);
    va_copy(ap2, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, ap2);
    va_end(ap2);
    return p;
}

void vec_reserve(void **data, size_t *cap, size_t want, size_t item_bytes)
{
    if (want <= *cap)
        return;
    size_t n = *cap ? *cap : 8;
    while (n < want)
        n += n / 2 + 8;
    *data = xrealloc(*data, n * item_bytes);
    *cap = n;
}

void vec_shrink(void **data, size_t len, size_t *cap, size_t item_bytes)
{
    if (!len || len == *cap)
        return;
    *data = xrealloc(*data, len * item_bytes);
    *cap = len;
}

void vec_free(void **data, size_t *len, size_t *cap)
{
    free(*data);
    *data = NULL;
    *len = *cap = 0;
}
