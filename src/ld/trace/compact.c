/* SPDX-License-Identifier: Apache-2.0
 * The compact form, read: checked, for every byte of it means something. */
#include <stdlib.h>

#include "ld/trace/write.h"

struct ld_trace_compact {
    const char *path;
    struct file_bytes file;
    size_t at;
    struct ld_trace_thread who;
    bool has_thread, is_ended;
    uint64_t count;
    VEC(struct ld_trace_last) last;
};

static int wrong(const struct ld_trace_compact *c, const char *what)
{
    return diag_error("%s: byte %zu: %s", c->path, c->at, what);
}

static bool get_uleb(struct ld_trace_compact *c, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; c->at < c->file.len && shift < 64; shift += 7) {
        uint8_t b = c->file.data[c->at++];
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return true;
    }
    return false;
}

int ld_trace_compact_open(const char *path, struct ld_trace_compact **out)
{
    struct ld_trace_compact *c = xmalloc(sizeof *c);
    struct ld_trace_compact_head head, good = {.magic = LD_TRACE_COMPACT_MAGIC, .version = LD_TRACE_COMPACT_VERSION};
    c->path = path;
    *out = NULL;
    if (file_map(path, &c->file) < 0) {
        free(c);
        return diag_error("cannot read %s", path);
    }
    bool is_whole = c->file.len >= sizeof head;
    if (is_whole)
        memcpy(&head, c->file.data, sizeof head);
    if (!is_whole || memcmp(&head, &good, sizeof head) != 0) {
        ld_trace_compact_close(c);
        return diag_error("%s is no trace in the compact form, or one of another version", path);
    }
    c->at = sizeof head;
    *out = c;
    return 0;
}

void ld_trace_compact_close(struct ld_trace_compact *c)
{
    if (!c)
        return;
    file_unmap(&c->file);
    VEC_FREE(&c->last);
    free(c);
}

static int take_thread(struct ld_trace_compact *c)
{
    enum { THREADS_MAX = 1 << 20 };
    uint64_t number, process, thread;
    c->at++;
    if (!get_uleb(c, &number) || !get_uleb(c, &process) || !get_uleb(c, &thread) || number >= THREADS_MAX ||
        process > UINT32_MAX || thread > UINT32_MAX)
        return wrong(c, "no thread that could be");
    while (c->last.len <= number)
        VEC_PUSH(&c->last, ((struct ld_trace_last){0, 0}));
    c->who = (struct ld_trace_thread){(uint32_t)process, (uint32_t)thread, (uint32_t)number};
    c->has_thread = true;
    return 0;
}

static int take_reference(struct ld_trace_compact *c, struct cache_ref *out)
{
    uint8_t first = c->file.data[c->at++];
    uint64_t bytes = first >> 2 & 31, d = 0;
    if (!c->has_thread)
        return wrong(c, "a reference before any thread");
    struct ld_trace_last *last = &c->last.data[c->who.number];
    uint64_t *end = (first & 3) == CACHE_FETCH ? &last->fetch : &last->data;
    if ((!bytes && !get_uleb(c, &bytes)) || (!(first & LD_TRACE_COMPACT_NEXT) && !get_uleb(c, &d)))
        return wrong(c, "the trace is cut off");
    if (!bytes || bytes > UINT16_MAX)
        return wrong(c, "a reference of a length that none has");
    *out = (struct cache_ref){.address = *end + (d >> 1 ^ (d & 1 ? UINT64_MAX : 0)),
                              .bytes = (uint16_t)bytes,
                              .kind = first & 3,
                              .thread = (uint8_t)(c->who.number % CACHE_THREADS_MAX)};
    *end = out->address + bytes;
    c->count++;
    return 0;
}

static int take_end(struct ld_trace_compact *c)
{
    uint64_t count;
    c->at++;
    if (!get_uleb(c, &count) || count != c->count || c->at != c->file.len)
        return wrong(c, "it does not end with what it says");
    c->is_ended = true;
    return 0;
}

ptrdiff_t ld_trace_compact_next(struct ld_trace_compact *c, struct ld_trace_thread *who, struct cache_ref *out,
                                size_t max)
{
    size_t n = 0;
    while (n < max && !c->is_ended) {
        int first = c->at < c->file.len ? c->file.data[c->at] : -1;
        if (first == LD_TRACE_COMPACT_THREAD && n)
            break;
        if (first < 0)
            return wrong(c, "the trace is cut off");
        int rc = first == LD_TRACE_COMPACT_THREAD ? take_thread(c)
                 : first == LD_TRACE_COMPACT_END  ? take_end(c)
                                                  : take_reference(c, &out[n]);
        if (rc < 0)
            return -1;
        n += first != LD_TRACE_COMPACT_THREAD && first != LD_TRACE_COMPACT_END;
    }
    *who = c->who;
    return (ptrdiff_t)n;
}
