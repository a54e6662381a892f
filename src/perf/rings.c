/* SPDX-License-Identifier: Apache-2.0
 * perf_event ring buffers, one a processor, into records. Several events share a processor's ring, so that what they
 * write is in order. */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RING_PAGES_MIN 4
#define PAGE_BYTES 4096u
#define RECORD_BYTES_MAX 65536

struct ring {
    int fd; /* whose ring it is */
    struct perf_event_mmap_page *page;
    uint64_t data_bytes;
};
struct perf_rings {
    VEC(struct ring) rings;
    VEC(int) others; /* that write into the rings */
    uint8_t *record; /* one record made contiguous */
};

static bool map_ring(struct ring *r, unsigned most)
{
    for (unsigned pages = most; pages >= RING_PAGES_MIN; pages /= 2) {
        void *p = mmap(NULL, (pages + 1) * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        if (p == MAP_FAILED)
            continue;
        r->page = p;
        r->data_bytes = (uint64_t)pages * PAGE_BYTES;
        return true;
    }
    return false;
}

static void close_ring(struct ring *r)
{
    if (r->page)
        munmap(r->page, r->data_bytes + PAGE_BYTES);
    close(r->fd);
}

/* An event of a processor: the first makes its ring, those behind write into that. */
static bool add_event(struct perf_rings *f, const struct perf_event_attr *attr, pid_t tid, int cpu, struct ring *ring,
                      unsigned pages)
{
    struct perf_event_attr a = *attr; /* the kernel writes its size into it where it is too large */
    int fd = (int)syscall(SYS_perf_event_open, &a, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return false;
    if (ring->page) {
        VEC_PUSH(&f->others, fd);
        return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) == 0;
    }
    ring->fd = fd;
    if (map_ring(ring, pages)) {
        VEC_PUSH(&f->rings, *ring);
        return true;
    }
    int err = errno;
    close(fd);
    errno = err;
    return false;
}

/* A thread that is gone is passed over. */
static bool add_processor(struct perf_rings *f, const struct perf_event_attr *attrs, size_t count,
                          struct perf_target target, int cpu, unsigned pages)
{
    static const pid_t all = -1;
    struct ring ring = {.fd = -1};
    const pid_t *tids = target.count ? target.tids : &all;
    for (size_t t = 0; t < max_u64(target.count, 1); t++)
        for (size_t i = 0; i < count; i++)
            if (!add_event(f, &attrs[i], tids[t], cpu, &ring, pages) && !(errno == ESRCH && target.count > 1))
                return errno == ENODEV || errno == ENXIO;
    return true;
}

struct perf_rings *perf_rings_open(const struct perf_event_attr *attrs, size_t count, struct perf_target target,
                                   unsigned pages)
{
    struct perf_rings *f = xmalloc(sizeof *f);
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    bool ok = true;
    f->record = xmalloc(RECORD_BYTES_MAX);
    for (int cpu = 0; cpu < cpus && ok; cpu++)
        ok = add_processor(f, attrs, count, target, cpu, pages);
    if (ok && f->rings.len)
        return f;
    int err = errno;
    perf_rings_close(f);
    errno = err;
    return NULL;
}

unsigned perf_rings_pages(const struct perf_rings *r)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < r->rings.len; i++)
        least = min_u64(least, r->rings.data[i].data_bytes);
    return (unsigned)(least / PAGE_BYTES);
}

static void drain(struct perf_rings *f, const struct ring *r, perf_take take, void *ctx)
{
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE), tail = r->page->data_tail;
    const uint8_t *data = (const uint8_t *)r->page + PAGE_BYTES;
    while (tail < head) {
        uint64_t at = tail % r->data_bytes; /* records are multiples of 8, so a header is never split */
        const struct perf_event_header *h = (const void *)(data + at);
        if (h->size < sizeof *h || h->size > head - tail)
            break;
        uint64_t first = min_u64(h->size, r->data_bytes - at), size = h->size;
        memcpy(f->record, h, first);
        memcpy(f->record + first, data, size - first);
        take(ctx, (const void *)f->record);
        tail += size;
    }
    __atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELEASE);
}

void perf_rings_drain(struct perf_rings *r, perf_take take, void *ctx)
{
    for (size_t i = 0; i < r->rings.len; i++)
        drain(r, &r->rings.data[i], take, ctx);
}

bool perf_rings_are_full(const struct perf_rings *r)
{
    enum { ROOM = 4096 }; /* records of events are smaller */
    bool any = false;
    for (size_t i = 0; i < r->rings.len; i++) {
        const struct ring *g = &r->rings.data[i];
        uint64_t head = __atomic_load_n(&g->page->data_head, __ATOMIC_ACQUIRE);
        any |= head - g->page->data_tail + ROOM > g->data_bytes;
    }
    return any;
}

void perf_rings_enable(struct perf_rings *r, bool is_on)
{
    unsigned long what = is_on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
    for (size_t i = 0; i < r->rings.len; i++)
        ioctl(r->rings.data[i].fd, what, 0);
    for (size_t i = 0; i < r->others.len; i++)
        ioctl(r->others.data[i], what, 0);
}

size_t perf_rings_poll(const struct perf_rings *r, struct pollfd *out, size_t max)
{
    size_t n = min_u64(r->rings.len, max);
    for (size_t i = 0; i < n; i++)
        out[i] = (struct pollfd){.fd = r->rings.data[i].fd, .events = POLLIN};
    return n;
}

void perf_rings_close(struct perf_rings *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->others.len; i++)
        close(r->others.data[i]);
    for (size_t i = 0; i < r->rings.len; i++)
        close_ring(&r->rings.data[i]);
    VEC_FREE(&r->others);
    VEC_FREE(&r->rings);
    free(r->record);
    free(r);
}
