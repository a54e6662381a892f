/* SPDX-License-Identifier: Apache-2.0
 * References into the forms of traces: Dinero's din (which has no sizes, and of a modification the load and the store),
 * that of valgrind's lackey, and our own (compact.c). */
#include "ld/trace/write.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18, RECORD_MAX = 64 };

struct ld_trace_writer {
    enum ld_trace_form form;
    int fd, error;
    size_t len;
    uint64_t count;
    bool has_thread;
    uint32_t thread; /* that the last reference was of: its number */
    VEC(struct ld_trace_last) last;
    char buffer[BUFFER_BYTES + RECORD_MAX];
};

static void flush(struct ld_trace_writer *w)
{
    for (size_t at = 0; at < w->len && !w->error;) {
        ssize_t n = write(w->fd, w->buffer + at, w->len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            w->error = n < 0 ? errno : ENOSPC;
        at += n > 0 ? (size_t)n : 0;
    }
    w->len = 0;
}

static void put_hex(struct ld_trace_writer *w, uint64_t v, unsigned least)
{
    static const char digits[] = "0123456789abcdef";
    unsigned n = least;
    while (n < 16 && v >> (4 * n))
        n++;
    for (unsigned k = n; k-- > 0;)
        w->buffer[w->len++] = digits[v >> (4 * k) & 15];
}

static void put_decimal(struct ld_trace_writer *w, unsigned v)
{
    char text[12];
    unsigned n = 0;
    do
        text[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        w->buffer[w->len++] = text[--n];
}

static void put_din(struct ld_trace_writer *w, char label, uint64_t address)
{
    w->buffer[w->len++] = label;
    w->buffer[w->len++] = ' ';
    put_hex(w, address, 1);
    w->buffer[w->len++] = '\n';
}

static void put_lackey(struct ld_trace_writer *w, const struct cache_ref *r)
{
    static const char kinds[][4] = {
        [CACHE_FETCH] = "I  ", [CACHE_READ] = " L ", [CACHE_WRITE] = " S ", [CACHE_MODIFY] = " M "};
    memcpy(w->buffer + w->len, kinds[r->kind], 3);
    w->len += 3;
    put_hex(w, r->address, 8);
    w->buffer[w->len++] = ',';
    put_decimal(w, r->bytes);
    w->buffer[w->len++] = '\n';
}

static void put_uleb(struct ld_trace_writer *w, uint64_t v)
{
    for (; v >> 7; v >>= 7)
        w->buffer[w->len++] = (char)(v | 0x80);
    w->buffer[w->len++] = (char)v;
}

static void put_thread(struct ld_trace_writer *w, const struct ld_trace_thread *who)
{
    if (w->has_thread && w->thread == who->number)
        return;
    w->has_thread = true;
    w->thread = who->number;
    while (w->last.len <= who->number)
        VEC_PUSH(&w->last, ((struct ld_trace_last){0, 0}));
    w->buffer[w->len++] = (char)LD_TRACE_COMPACT_THREAD;
    put_uleb(w, who->number);
    put_uleb(w, who->process);
    put_uleb(w, who->thread);
}

static void put_compact(struct ld_trace_writer *w, const struct cache_ref *r)
{
    struct ld_trace_last *last = &w->last.data[w->thread];
    uint64_t *end = r->kind == CACHE_FETCH ? &last->fetch : &last->data, d = r->address - *end;
    unsigned bytes = r->bytes <= LD_TRACE_COMPACT_BYTES_MAX ? r->bytes : 0;
    w->buffer[w->len++] = (char)(r->kind | bytes << 2 | (d ? 0 : LD_TRACE_COMPACT_NEXT));
    if (!bytes)
        put_uleb(w, r->bytes);
    if (d)
        put_uleb(w, d << 1 ^ (d >> 63 ? UINT64_MAX : 0));
    *end = r->address + r->bytes;
}

struct ld_trace_writer *ld_trace_writer_new(enum ld_trace_form form, int fd)
{
    struct ld_trace_writer *w = xmalloc(sizeof *w);
    w->form = form;
    w->fd = fd;
    if (form == LD_TRACE_FORM_COMPACT) {
        struct ld_trace_compact_head head = {.magic = LD_TRACE_COMPACT_MAGIC, .version = LD_TRACE_COMPACT_VERSION};
        memcpy(w->buffer, &head, sizeof head);
        w->len = sizeof head;
    }
    return w;
}

void ld_trace_writer_put(struct ld_trace_writer *w, const struct ld_trace_thread *who, const struct cache_ref *refs,
                         size_t count)
{
    if (w->form == LD_TRACE_FORM_COMPACT)
        put_thread(w, who);
    w->count += count;
    for (size_t i = 0; i < count; i++) {
        const struct cache_ref *r = &refs[i];
        if (w->form == LD_TRACE_FORM_COMPACT)
            put_compact(w, r);
        else if (w->form == LD_TRACE_FORM_LACKEY)
            put_lackey(w, r);
        else {
            if (r->kind != CACHE_WRITE)
                put_din(w, r->kind == CACHE_FETCH ? '2' : '0', r->address);
            if (r->kind == CACHE_WRITE || r->kind == CACHE_MODIFY)
                put_din(w, '1', r->address);
        }
        if (w->len >= BUFFER_BYTES)
            flush(w);
    }
}

int ld_trace_writer_error(const struct ld_trace_writer *w) { return w->error; }

int ld_trace_writer_end(struct ld_trace_writer *w)
{
    if (w->form == LD_TRACE_FORM_COMPACT) {
        w->buffer[w->len++] = (char)LD_TRACE_COMPACT_END;
        put_uleb(w, w->count);
    }
    flush(w);
    int error = w->error;
    VEC_FREE(&w->last);
    free(w);
    return error;
}
