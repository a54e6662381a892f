/* SPDX-License-Identifier: Apache-2.0
 * Calls of all functions of a program that is linked statically, as the stream tells them, to those that allocate. */
#include "cmd/allocations/detector.h"

#include "cmd/allocations/allocations.h"
#include "data/data.h"

#include <stdlib.h>

struct detector {
    struct data_detector *data;
    const struct rewrite_map *map;
};

int detector_check(const struct launch_program *program)
{
    int is_static = allocations_is_static(program->path);
    if (is_static)
        return is_static < 0 ? -1 : 0;
    return diag_error("trace: --form allocators is for programs that are linked statically, and %s is not: allocators "
                      "of its libraries are known by their names",
                      program->path);
}

struct detector *detector_new(const struct launch_program *program, const struct rewrite_map *map)
{
    struct image *img;
    struct detector *t = xmalloc(sizeof *t);
    uint64_t lo = 0, hi = 0;
    if (image_open(program->path, &img) == 0) {
        if (img->vaddr_lo >= 1 << 16) { /* one that lies where its addresses say */
            lo = img->vaddr_lo;
            hi = img->vaddr_hi;
        }
        image_close(img);
    }
    t->data = data_detector_new(lo, hi);
    t->map = map;
    return t;
}

void detector_free(struct detector *t)
{
    if (!t)
        return;
    data_detector_free(t->data);
    free(t);
}

static void take_event(struct detector *t, uint32_t area, const struct wire_entry *e)
{
    struct wire_call call;
    struct wire_short left;
    if (wire_event_kind(e) == WIRE_EVENT_ENTER && !(e->site & (WIRE_CALL_JUMPS | WIRE_CALL_NAMES)) &&
        wire_event_entries(e) >= WIRE_CALL_ENTRIES) {
        memcpy(&call, e + 1, sizeof call);
        data_detector_entered(t->data, area, e->site, call.arguments, call.stack);
    } else if (wire_event_kind(e) == WIRE_EVENT_LEAVE && wire_event_entries(e) == WIRE_SHORT_ENTRIES) {
        memcpy(&left, e + 1, sizeof left);
        data_detector_left(t->data, area, left.argument, left.stack);
    }
}

void detector_take(struct detector *t, const struct launch_chunk *c)
{
    for (size_t i = 0; i < c->count;) {
        const struct wire_entry *e = &c->entries[i];
        size_t more = wire_is_event(e) ? wire_event_entries(e) : 0;
        if (wire_is_event(e) && more < c->count - i)
            take_event(t, c->area, e);
        i += 1 + more;
    }
}

static uint64_t address_of(const struct detector *t, uint32_t function)
{
    for (uint32_t i = 0; t->map && i < t->map->site_count; i++)
        if (t->map->sites[i].flags == REWRITE_SITE_WATCHED && t->map->sites[i].bytes == function)
            return t->map->sites[i].addr;
    return 0;
}

size_t detector_write(const struct detector *t, FILE *out)
{
    struct data_role roles[DATA_ROLES_MAX];
    size_t n = data_detector_end(t->data, roles);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "0x%llx=%s\n", (unsigned long long)address_of(t, roles[i].function), roles[i].as);
    return n;
}
