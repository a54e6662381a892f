/* SPDX-License-Identifier: Apache-2.0
 * What the kernel says is mapped, to mappings and modules. What calls have told already is better known by them: only
 * where nothing is known yet, or a file lies, something is put. */
#include "data/impl.h"

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>

enum { STACK_MAX = 8 << 20 }; /* what the kernel grows a first stack to by default */

struct line {
    uint64_t lo, hi, offset;
    char name[4096];
};

static bool parse(const char *text, const char *end, struct line *out)
{
    char copy[4608], permissions[8];
    size_t len = min_u64((uint64_t)(end - text), sizeof copy - 1);
    int at = 0;
    memcpy(copy, text, len);
    copy[len] = 0;
    if (sscanf(copy, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &out->lo, &out->hi, permissions,
               &out->offset, &at) < 4 ||
        out->hi <= out->lo)
        return false;
    snprintf(out->name, sizeof out->name, "%s", at ? copy + at : "");
    return true;
}

static bool is_module(const struct data *d, uint64_t address, const char *path)
{
    const struct data_object *o = data_object(d, data_object_at(d, address));
    return o->module != ID_NONE && strcmp(d->own->modules.data[o->module].path, path) == 0;
}

/* Is it a file that can be loaded, of which this is the begin? */
static bool see_module(struct data *d, const struct line *l, const char *path)
{
    struct strbuf said = {0};
    uint32_t module;
    struct file_bytes f;
    if (l->offset || file_map(path, &f) < 0)
        return false;
    bool is_elf = f.len > SELFMAG && memcmp(f.data, ELFMAG, SELFMAG) == 0;
    file_unmap(&f);
    if (!is_elf)
        return false;
    diag_hold(&said);
    bool ok = data_module_at(d, path, l->lo, &module) == 0;
    diag_hold(NULL);
    str_free(&said);
    return ok;
}

static void see_file(struct data *d, const struct line *l, const char *path)
{
    const struct data_object *o = data_object(d, data_object_at(d, l->lo));
    if (is_module(d, l->lo, path) || see_module(d, l, path))
        return;
    if (o->kind != DATA_MAPPING || strcmp(o->name, path) != 0)
        data_map(d, &(struct data_map){l->lo, l->hi - l->lo, DATA_MAPPING, path, NULL, 0});
}

/* Room for what the first thread's stack may grow to, down to what is there below it. */
static void see_stack(struct data *d, const struct line *l, uint64_t below)
{
    uint64_t lo = l->hi > STACK_MAX ? max_u64(below, l->hi - STACK_MAX) : below;
    lo = lo < l->lo ? lo : l->lo;
    data_map(d, &(struct data_map){lo, l->hi - lo, DATA_STACK, "stack", NULL, 0});
}

/* Where what begins there ends at the latest that is all alike; is it known? A granule that holds several is. */
static uint64_t step_from(const struct data *d, uint64_t address, bool *is_known)
{
    uintptr_t e = d->root[address >> DATA_CHUNK];
    uint64_t block = e >> 1, step = 1ull << DATA_CHUNK;
    if (e & 1) {
        const struct data_chunk *c = (const struct data_chunk *)(e & ~(uintptr_t)1);
        block = c->page[address >> DATA_PAGE & (ARRAY_LEN(c->page) - 1)];
        step = 1ull << DATA_PAGE;
        if (block & DATA_SPLIT) {
            block = c->granule[address >> DATA_GRANULE & ((1u << (DATA_CHUNK - DATA_GRANULE)) - 1)];
            step = 1ull << DATA_GRANULE;
        }
    }
    *is_known = block != 0;
    return ALIGN_UP(address + 1, step);
}

/* That of which nothing is known. What is allocated, or has a name, stays: mappings that adjoin are one for the
 * kernel.
 */
static void see_unknown(struct data *d, const struct line *l, const char *name)
{
    if (l->hi >> 47)
        return;
    bool is_known, next_known;
    for (uint64_t lo = l->lo, hi, next; lo < l->hi; lo = hi) {
        hi = step_from(d, lo, &is_known);
        while (hi < l->hi && (next = step_from(d, hi, &next_known), next_known == is_known))
            hi = next;
        hi = min_u64(hi, l->hi);
        if (!is_known)
            data_map(d, &(struct data_map){lo, hi - lo, DATA_MAPPING, name, NULL, 0});
    }
}

/* The program may be ahead of what it has told: calls that come later then say a lower end first. What it allocated
 * before anybody looked lies there already. */
static void see_heap(struct data *d, const struct line *l, bool is_known)
{
    uint64_t end = d->own->break_end, new_from = end > l->lo ? end : l->hi;
    see_unknown(d, &(struct line){.lo = is_known ? new_from : l->lo, .hi = l->hi}, "break");
    d->own->break_end = l->hi;
}

static void see_line(struct data *d, const struct line *l, uint64_t below, data_file_of file_of, void *ctx)
{
    bool is_known = data_object_at(d, l->lo) != 0;
    if (l->name[0] == '/') {
        const char *path = file_of ? file_of(ctx, l->name) : l->name;
        if (path)
            see_file(d, l, path);
    } else if (strcmp(l->name, "[stack]") == 0) {
        if (data_object(d, data_object_at(d, l->hi - 1))->kind != DATA_STACK)
            see_stack(d, l, below);
    } else if (strcmp(l->name, "[heap]") == 0) {
        see_heap(d, l, is_known);
    } else if (!is_known && strcmp(l->name, "[vsyscall]") != 0) {
        see_unknown(d, l, l->name[0] ? l->name : "anonymous");
    }
}

void data_see_maps(struct data *d, const char *text, size_t len, data_file_of file_of, void *ctx)
{
    uint64_t below = 0;
    for (const char *at = text, *end = text + len, *stop; at < end; at = stop + 1) {
        struct line l;
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (!parse(at, stop, &l))
            continue;
        see_line(d, &l, below, file_of, ctx);
        below = l.hi;
    }
}
