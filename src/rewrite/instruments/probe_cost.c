/* SPDX-License-Identifier: Apache-2.0
 *
 * What a pair of probes costs: the runtime's own code, tried in this process, at a site as in a copy. Knows nothing of
 * plans; what the cost is compared with is the caller's.
 */
#include "rewrite/impl.h"

#include <math.h>
#include <sys/mman.h>

#include "wire/wire.h"

enum { PAGE_BYTES = 4096, COST_BATCHES = 60, COST_PAIRS = 3000, LOOK_PAIRS = 20 };

static uint64_t now_ticks(void)
{
    uint32_t lo, hi;
    __asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi));
    return (uint64_t)hi << 32 | lo;
}

static uint8_t *put_site(uint8_t *at, const struct wire_probe *cell, const uint8_t *blob, enum rw_probe what)
{
    uint64_t off;
    memcpy(&off, blob + rw_blob_probe_slot(what), 8);
    return rw_put_site(at, (uintptr_t)at,
                       &(struct rw_probe_call){.cell = (uintptr_t)cell, .entrance = (uintptr_t)blob + off}, 1);
}

static double mean(uint64_t ticks, uint64_t n) { return n ? (double)ticks / (double)n : 0; }

/* Ticks of a call of the code, in the fastest of many batches. looks: it reads the processor time each time. */
static struct rewrite_probe_cost try_code(void (*code)(void), struct wire_probe *cell, bool looks)
{
    int pairs = looks ? LOOK_PAIRS : COST_PAIRS;
    struct rewrite_probe_cost least = {.all = INFINITY};
    for (int i = 0; i < COST_BATCHES; i++) {
        uint64_t reading = cell->reading_ticks;
        *cell = (struct wire_probe){.reading_ticks = reading};
        uint64_t begin = now_ticks();
        for (int k = 0; k < pairs; k++) {
            cell->reading_ticks = looks ? 0 : cell->reading_ticks;
            code();
        }
        double all = (double)(now_ticks() - begin) / pairs;
        if (all < least.all)
            least = (struct rewrite_probe_cost){.inside = mean(cell->ticks, cell->count),
                                                .all = all,
                                                .begin = mean(cell->begin_ticks, cell->begin_seen),
                                                .end = mean(cell->end_ticks, cell->end_seen),
                                                .look_seen = mean(cell->look_ticks, cell->look_seen)};
    }
    return least;
}

/* A function that holds a pair, and one that holds nothing. */
static struct rewrite_probe_cost try_pair(struct wire_probe *cell, uint8_t *blob, size_t len)
{
    uint8_t *pair = blob + ALIGN_UP(len, (size_t)64), *nothing;
    uint8_t *end = put_site(pair, cell, blob, RW_PROBE_START);
    end = put_site(end, cell, blob, RW_PROBE_STOP);
    *end = 0xc3;
    nothing = ALIGN_UP(end - blob + 1, 64) + blob;
    *nothing = 0xc3;
    if (mprotect(blob, len + PAGE_BYTES, PROT_READ | PROT_EXEC) < 0)
        return (struct rewrite_probe_cost){.inside = 0};
    struct rewrite_probe_cost cost = try_code((void (*)(void))(uintptr_t)pair, cell, false);
    struct rewrite_probe_cost looks = try_code((void (*)(void))(uintptr_t)pair, cell, true);
    cost.look = fmax(0, looks.all - cost.all);
    cost.look_seen = looks.look_seen;
    cost.all -= try_code((void (*)(void))(uintptr_t)nothing, cell, false).all;
    return cost;
}

struct rewrite_probe_cost rewrite_probe_cost(void)
{
    size_t len;
    unsigned config;
    const uint8_t *blob = rw_blob_bytes_of(&len, &config);
    uint8_t *at = mmap(NULL, 3 * PAGE_BYTES + len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return (struct rewrite_probe_cost){.inside = 0};
    uint8_t *code = at + 2 * PAGE_BYTES;
    int64_t data = at - code;
    memcpy(code, blob, len);
    memcpy(code + config, &data, sizeof data);
    struct rewrite_probe_cost cost = try_pair((struct wire_probe *)(void *)(at + PAGE_BYTES), code, len);
    munmap(at, 3 * PAGE_BYTES + len);
    return cost;
}
