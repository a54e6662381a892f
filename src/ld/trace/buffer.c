/* SPDX-License-Identifier: Apache-2.0
 *
 * The file has no name: its path is that of a descriptor of this process, and so it leaves nothing behind. Chunks that
 * are free stand in a ring, from which threads take them.
 */
#include "ld/trace/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/futex.h>

enum { CHUNKS_AT_FIRST = 64 };

struct wire_trace_module *ld_trace_buffer_module(const struct ld_trace_buffer *b, uint32_t number)
{
    return (struct wire_trace_module *)(void *)(b->base + WIRE_TRACE_MODULES_AT) + number % WIRE_TRACE_MODULES;
}

struct wire_trace_chunk *ld_trace_buffer_chunk(const struct ld_trace_buffer *b, uint32_t chunk)
{
    return (struct wire_trace_chunk *)(void *)(b->base + WIRE_TRACE_CHUNKS_AT + (uint64_t)chunk * WIRE_TRACE_CHUNK);
}

volatile uint64_t *ld_trace_buffer_words(const struct ld_trace_buffer *b, uint32_t chunk)
{
    return (volatile uint64_t *)(void *)(ld_trace_buffer_chunk(b, chunk) + 1);
}

uint32_t ld_trace_buffer_counted(const struct ld_trace_buffer *b)
{
    return (uint32_t)min_u64(__atomic_load_n(&b->head->counted, __ATOMIC_ACQUIRE), WIRE_TRACE_COUNTED);
}

const volatile uint64_t *ld_trace_buffer_counts(const struct ld_trace_buffer *b, uint32_t number)
{
    return (const volatile uint64_t *)(const void *)(b->base + WIRE_TRACE_COUNTS_AT) +
           (size_t)number * WIRE_TRACE_COUNTS;
}

static volatile uint32_t *free_list(const struct ld_trace_buffer *b)
{
    return (volatile uint32_t *)(void *)(b->base + WIRE_TRACE_FREE_AT);
}

static void wake(const struct ld_trace_buffer *b, int count)
{
    syscall(SYS_futex, &b->head->gives, FUTEX_WAKE, count, NULL, NULL, 0);
}

static void hand_out(struct ld_trace_buffer *b, uint32_t chunk)
{
    uint64_t given = b->head->given;
    free_list(b)[given % WIRE_TRACE_CHUNKS_MAX] = chunk;
    __atomic_store_n(&b->head->given, given + 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&b->head->gives, 1, __ATOMIC_ACQ_REL);
    if (__atomic_load_n(&b->head->waits, __ATOMIC_ACQUIRE))
        wake(b, 1);
}

void ld_trace_buffer_give_back(struct ld_trace_buffer *b, uint32_t chunk)
{
    memset(ld_trace_buffer_chunk(b, chunk), 0, WIRE_TRACE_CHUNK);
    hand_out(b, chunk);
}

void ld_trace_buffer_grow(struct ld_trace_buffer *b)
{
    if (__atomic_load_n(&b->head->waits, __ATOMIC_ACQUIRE) && b->handed_out < WIRE_TRACE_CHUNKS_MAX)
        hand_out(b, b->handed_out++);
}

void ld_trace_buffer_end(struct ld_trace_buffer *b)
{
    __atomic_store_n(&b->head->ends, 1, __ATOMIC_RELEASE);
    wake(b, INT32_MAX);
}

/* ---- the file ---- */

/* So that the path is as long as any other, and stacks begin at the same place in each run. */
static int slashes(void)
{
    int digits = 0;
    for (pid_t pid = getpid(); pid; pid /= 10)
        digits++;
    return 12 - digits;
}

static void fill_head(struct ld_trace_buffer *b)
{
    b->head = (volatile struct wire_trace *)(void *)b->base;
    for (uint32_t c = 0; c < CHUNKS_AT_FIRST; c++)
        free_list(b)[c] = c;
    b->handed_out = CHUNKS_AT_FIRST;
    b->head->given = CHUNKS_AT_FIRST;
    b->head->version = WIRE_TRACE_VERSION;
    b->head->chunks = WIRE_TRACE_CHUNKS_MAX;
    memcpy((char *)(uintptr_t)b->head->magic, WIRE_TRACE_MAGIC, sizeof b->head->magic);
    b->head->turn = 1;
}

/* Who writes asks whether it is locked. */
int ld_trace_buffer_open(struct ld_trace_buffer *b, struct arena *arena)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    size_t bytes = (size_t)WIRE_TRACE_BYTES(WIRE_TRACE_CHUNKS_MAX);
    *b = (struct ld_trace_buffer){.fd = memfd_create("mtool-trace", MFD_CLOEXEC)};
    if (b->fd < 0 || fcntl(b->fd, F_SETLK, &lock) < 0 || ftruncate(b->fd, (off_t)bytes) < 0)
        return errno;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (at == MAP_FAILED)
        return errno;
    b->base = at;
    b->path = arena_printf(arena, "/proc%.*s%d/fd/%d", slashes(), "////////////////", (int)getpid(), b->fd);
    fill_head(b);
    return 0;
}

void ld_trace_buffer_close(struct ld_trace_buffer *b)
{
    if (b->base)
        munmap(b->base, (size_t)WIRE_TRACE_BYTES(WIRE_TRACE_CHUNKS_MAX));
    if (b->fd >= 0)
        close(b->fd);
}
