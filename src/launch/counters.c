/* SPDX-License-Identifier: Apache-2.0
 * The counter file of wire.h, as the host sees it: made with a place for every module that counts, and summed over all
 * processes afterwards. Knows nothing of what a counter means. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch/impl.h"

#define COUNT_MAX (INT64_C(1) << 48)
#define ROOM_TO_GROW (64ull << 20) /* of addresses in each area, not of memory */

/* Two files with the same content share a place; their counts cannot be distinguished and go to the first. */
static bool has_key(const struct wire_header *h, const uint8_t *key)
{
    for (uint32_t i = 0; i < h->module_count; i++)
        if (!memcmp(h->modules[i].key, key, WIRE_KEY_BYTES))
            return true;
    return false;
}

static uint64_t used_bytes(const struct wire_header *h)
{
    const struct wire_module *last = h->module_count ? &h->modules[h->module_count - 1] : NULL;
    return last ? last->offset + last->bytes : h->streams.bytes;
}

/* false: no room. */
static bool place(struct counters *c, struct wire_header *h, const struct launch_module *m, uint32_t module)
{
    if (h->module_count == WIRE_MODULES_MAX)
        return false;
    struct wire_module *w = &h->modules[h->module_count];
    memcpy(w->key, m->wire_key, WIRE_KEY_BYTES);
    w->offset = used_bytes(h);
    w->bytes = ALIGN_UP((uint64_t)m->counter_count * 8, (uint64_t)4096);
    if (h->area_bytes && w->offset + w->bytes > h->area_bytes)
        return false;
    c->module_of[h->module_count] = module;
    h->module_count++;
    return true;
}

bool counters_add(struct counters *c, const struct launch_program *p, uint32_t module)
{
    const struct launch_module *m = &p->modules[module];
    if (!m->counter_count || has_key(c->plan, m->wire_key))
        return true;
    if (!place(c, c->plan, m, module))
        return false;
    uint32_t last = c->plan->module_count - 1;
    c->header->modules[last] = c->plan->modules[last];
    __atomic_store_n(&c->header->module_count, last + 1, __ATOMIC_RELEASE); /* whole before a program looks */
    return true;
}

static uint32_t place_modules(struct counters *c, const struct launch_program *p, struct wire_header *h)
{
    uint32_t left_out = 0;
    h->magic = WIRE_MAGIC;
    for (size_t i = 0; i < p->module_count; i++) {
        const struct launch_module *m = &p->modules[i];
        if (m->copy && m->counter_count && !has_key(h, m->wire_key))
            left_out += !place(c, h, m, (uint32_t)i);
    }
    return left_out;
}

int counters_open(struct counters *c, const struct launch_program *p, bool grows, bool has_streams)
{
    struct wire_header *plan = xmalloc(sizeof *plan);
    *c = (struct counters){.file.fd = -1, .plan = plan};
    plan->streams.bytes = has_streams ? WIRE_STREAM_BYTES : 0;
    uint32_t left_out = place_modules(c, p, plan);
    if (left_out)
        diag_warn("too-many-modules", "%u modules beyond the first %d are not counted", left_out, WIRE_MODULES_MAX);
    int rc = 0;
    uint64_t used = used_bytes(plan);
    plan->area_bytes = plan->module_count || grows ? used + (grows ? ROOM_TO_GROW : 0) : 0;
    plan->follows = grows;
    if (plan->area_bytes) {
        rc = scratch_open(&c->file, &(struct scratch_size){WIRE_HEADER_BYTES, plan->area_bytes, WIRE_AREAS_MAX,
                                                           grows ? max_u64(used, 1 << 20) : 0});
        if (rc == 0) {
            plan->area_max = (uint32_t)c->file.parts;
            void *at = mmap(NULL, WIRE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->file.fd, 0);
            c->header = at == MAP_FAILED ? NULL : at;
            if (c->header)
                memcpy(c->header, plan, sizeof *plan);
            else
                rc = diag_error("%s: cannot be mapped: %s", c->file.path, strerror(errno));
        }
    }
    if (rc < 0)
        counters_close(c);
    return rc;
}

/* Adds what the file holds at `offset`, passing over holes, which are zero. */
static void add_range(int fd, uint64_t offset, uint64_t bytes, uint64_t *sums)
{
    uint64_t buf[8192], at = offset, end = offset + bytes;
    while (at < end) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if (data < 0 || (uint64_t)data >= end)
            return;
        at = max_u64(at, ALIGN_DOWN((uint64_t)data, (uint64_t)8));
        ssize_t n = pread(fd, buf, min_u64(sizeof buf, end - at), (off_t)at);
        if (n <= 0)
            return;
        for (size_t i = 0; i < (size_t)n / 8; i++)
            if (buf[i]) /* most never were: no page is taken for these */
                sums[(at - offset) / 8 + i] += buf[i];
        at += (uint64_t)n;
    }
}

/* What left blocks of the plan's module `wire`. Numbers that no program lives to see were written by mistake. */
static struct rewrite_side_exits side_exits_of(const struct wire_header *h, uint32_t wire, struct arena *a)
{
    struct rewrite_side_exit *out = ARENA_ARRAY(a, struct rewrite_side_exit, WIRE_SIDE_EXITS_MAX);
    size_t n = 0;
    for (uint32_t i = 0; i < WIRE_SIDE_EXITS_MAX; i++) {
        const struct wire_side_exit *l = &h->side_exits[i];
        if (l->key >> 32 != wire + 1ull || l->count > COUNT_MAX || l->count < -COUNT_MAX)
            continue;
        out[n] = (struct rewrite_side_exit){.before_counters = (uint32_t)l->key + 4096ull, .count = l->count};
        memcpy(out[n].vectors, l->vectors, sizeof l->vectors);
        memcpy(out[n++].regs, l->regs, sizeof l->regs);
    }
    return (struct rewrite_side_exits){out, n};
}

static bool any_side_exit(const struct wire_header *h)
{
    for (uint32_t i = 0; i < WIRE_SIDE_EXITS_MAX; i++)
        if (h->side_exits[i].key)
            return true;
    return false;
}

/* Of the plan's module `wire`, in all areas. */
static void add_areas(const struct counters *c, uint32_t wire, uint64_t *sums)
{
    const struct wire_header *plan = c->plan;
    const struct wire_module *w = &plan->modules[wire];
    uint64_t areas = min_u64(c->header->area_next, plan->area_max);
    for (uint64_t area = 0; area < areas; area++)
        add_range(c->file.fd, WIRE_HEADER_BYTES + area * plan->area_bytes + w->offset, w->bytes, sums);
}

/* Where things are is read from the plan: the program may have written anything into the file, by mistake. */
void counters_sum(const struct counters *c, const struct launch_program *p, struct launch_result *r)
{
    const struct wire_header *h = c->header, *plan = c->plan;
    r->counters = ARENA_ARRAY(r->arena, uint64_t *, p->module_count);
    r->side_exits = ARENA_ARRAY(r->arena, struct rewrite_side_exits, p->module_count);
    r->counters_len = p->module_count;
    if (!h)
        return;
    bool has_left = any_side_exit(h);
    for (uint32_t i = 0; i < plan->module_count; i++) {
        const struct wire_module *w = &plan->modules[i];
        if (!h->modules[i].loaded)
            continue;
        uint64_t *sums = r->counters[c->module_of[i]] = ARENA_SPARSE(r->arena, uint64_t, w->bytes / 8);
        add_areas(c, i, sums);
        if (has_left)
            r->side_exits[c->module_of[i]] = side_exits_of(h, i, r->arena);
    }
    r->flags = h->flags;
    r->forks = h->forks;
    r->threads_seen |= (h->flags & WIRE_THREADS) != 0;
}

static void append_more(uint32_t module, const uint64_t *now, uint64_t *before, size_t count, launch_executed_vec *out)
{
    for (size_t k = 0; k < count; k++)
        if (now[k] > before[k]) {
            VEC_PUSH(out, ((struct launch_executed){module, (uint32_t)k, now[k] - before[k]}));
            before[k] = now[k];
        }
}

void counters_since(const struct counters *c, uint64_t **before, launch_executed_vec *out)
{
    const struct wire_header *h = c->header, *plan = c->plan;
    for (uint32_t i = 0; h && i < plan->module_count; i++) {
        const struct wire_module *w = &plan->modules[i];
        if (!h->modules[i].loaded)
            continue;
        uint64_t *now = xmalloc(w->bytes);
        if (!before[i])
            before[i] = xmalloc(w->bytes);
        add_areas(c, i, now);
        append_more(c->module_of[i], now, before[i], w->bytes / 8, out);
        free(now);
    }
}

size_t counters_areas(const struct counters *c, struct counters_area *out, size_t max)
{
    size_t n = c->header ? min_u64(min_u64(c->header->area_next, c->plan->area_max), max) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct wire_area *a = &c->header->areas[i];
        out[i] = (struct counters_area){a->pid, a->parent, a->time_ns};
    }
    return n;
}

void counters_sum_area(const struct counters *c, size_t area, struct arena *a, uint64_t **sums)
{
    const struct wire_header *h = c->plan;
    for (uint32_t i = 0; i < h->module_count; i++) {
        const struct wire_module *w = &h->modules[i];
        uint64_t at = WIRE_HEADER_BYTES + area * h->area_bytes + w->offset;
        off_t data = lseek(c->file.fd, (off_t)at, SEEK_DATA);
        if (!c->header->modules[i].loaded || data < 0 || (uint64_t)data >= at + w->bytes)
            continue;
        uint64_t **to = &sums[c->module_of[i]];
        if (!*to)
            *to = ARENA_SPARSE(a, uint64_t, w->bytes / 8);
        add_range(c->file.fd, at, w->bytes, *to);
    }
}

#define THREADS_MAX 64

/* The area of each thread, the program's first thread first. Returns how many there are; 0: not each has one of its
 * own. */
static size_t areas_of_threads(const struct counters *c, uint32_t *area_of)
{
    const struct wire_header *h = c->header;
    size_t threads = h->threads + (size_t)1, found = 1, areas = min_u64(h->area_next, c->plan->area_max);
    bool shared = (h->flags & (WIRE_LOST | WIRE_SERIALIZED | WIRE_NOT_SERIALIZED)) || h->forks || c->plan->follows;
    memset(area_of, 0, THREADS_MAX * sizeof *area_of);
    if (shared || threads == 1 || threads > THREADS_MAX)
        return 0;
    for (uint32_t k = 1; k < areas; k++) {
        const struct wire_area *a = &h->areas[k];
        if (!a->threads)
            continue;
        if (a->threads > 1 || a->thread == 0 || a->thread >= threads || area_of[a->thread])
            return 0;
        area_of[a->thread] = k;
        found++;
    }
    return found == threads ? threads : 0;
}

void counters_of_threads(const struct counters *c, struct launch_result *r)
{
    uint32_t area_of[THREADS_MAX];
    r->thread_counters_len = c->header ? areas_of_threads(c, area_of) : 0;
    r->thread_counters = ARENA_ARRAY(r->arena, uint64_t **, r->thread_counters_len + 1);
    for (size_t t = 0; t < r->thread_counters_len; t++) {
        r->thread_counters[t] = ARENA_ARRAY(r->arena, uint64_t *, r->counters_len + 1);
        counters_sum_area(c, area_of[t], r->arena, r->thread_counters[t]);
    }
}

void counters_close(struct counters *c)
{
    if (c->header)
        munmap(c->header, WIRE_HEADER_BYTES);
    c->header = NULL;
    if (c->file.fd >= 0)
        scratch_close(&c->file);
    free(c->plan);
    c->plan = NULL;
}
