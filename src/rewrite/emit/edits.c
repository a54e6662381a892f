/* SPDX-License-Identifier: Apache-2.0
 *
 * The original's bytes with edits, written to a file piece by piece: no copy of the whole is made in memory.
 */
#include "rewrite/impl.h"

#include <errno.h>
#include <stdlib.h>

enum { PIECE_BYTES = 128 << 10, PIECES_A_RANGE = 4, TRAP = 0xcc };

void rw_edit(struct rw_edits *e, uint64_t off, const void *bytes, size_t len)
{
    struct rw_edit edit = {.off = off, .len = len, .from = bytes ? e->bytes.len : RW_EDIT_TRAPS};
    VEC_PUSH(&e->all, edit);
    if (bytes)
        str_put(&e->bytes, bytes, len);
}

void rw_edits_free(struct rw_edits *e)
{
    VEC_FREE(&e->all);
    str_free(&e->bytes);
}

/* What of an edit lies in [off, off + len), whose bytes stand at `to`. */
static void apply(const struct rw_edits *e, const struct rw_edit *edit, uint64_t off, size_t len, uint8_t *to)
{
    uint64_t first = max_u64(edit->off, off), end = min_u64(edit->off + edit->len, off + len);
    if (first >= end)
        return;
    if (edit->from == RW_EDIT_TRAPS)
        memset(to + (first - off), TRAP, end - first);
    else
        memcpy(to + (first - off), e->bytes.data + edit->from + (first - edit->off), end - first);
}

void rw_edits_read(const struct rw_edits *e, const uint8_t *original, uint64_t off, size_t len, void *to)
{
    memcpy(to, original + off, len);
    for (size_t k = 0; k < e->all.len; k++)
        apply(e, &e->all.data[k], off, len, to);
}

struct pieces {
    const struct rw_edits *e;
    const uint8_t *original;
    uint64_t len;
    int fd, error;
    uint32_t *first; /* [pieces + 1]: the edits of each, in `of` */
    uint32_t *of;
};

static void write_piece(struct pieces *p, size_t piece, uint8_t *bytes)
{
    uint64_t off = piece * (uint64_t)PIECE_BYTES, len = min_u64(p->len - off, PIECE_BYTES);
    int none = 0;
    memcpy(bytes, p->original + off, len);
    for (uint32_t k = p->first[piece]; k < p->first[piece + 1]; k++)
        apply(p->e, &p->e->all.data[p->of[k]], off, len, bytes);
    if (file_put_at(p->fd, bytes, len, off) < 0)
        __atomic_compare_exchange_n(&p->error, &none, errno, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void write_range(void *ctx, size_t first, size_t end)
{
    uint8_t *bytes = xmalloc(PIECE_BYTES);
    for (size_t k = first; k < end; k++)
        write_piece(ctx, k, bytes);
    free(bytes);
}

static size_t first_piece(const struct rw_edit *edit) { return edit->off / PIECE_BYTES; }
static size_t end_piece(const struct rw_edit *edit) { return (edit->off + edit->len - 1) / PIECE_BYTES + 1; }

/* Each edit to the pieces that it touches; a later one of the same bytes stays the later one. */
static void sort_edits(struct pieces *p, size_t count)
{
    const struct rw_edits *e = p->e;
    size_t n = 0;
    for (size_t k = 0; k < e->all.len; k++)
        for (size_t piece = first_piece(&e->all.data[k]); piece < end_piece(&e->all.data[k]); piece++, n++)
            p->first[piece + 1]++;
    for (size_t k = 0; k < count; k++)
        p->first[k + 1] += p->first[k];
    p->of = xmalloc((n + 1) * sizeof *p->of);
    for (size_t k = e->all.len; k-- > 0;) /* from behind, so that first[] ends where its piece begins */
        for (size_t piece = first_piece(&e->all.data[k]); piece < end_piece(&e->all.data[k]); piece++)
            p->of[--p->first[piece + 1]] = (uint32_t)k;
    memmove(p->first, p->first + 1, count * sizeof *p->first);
    p->first[count] = (uint32_t)n;
}

int rw_edits_write(const struct rw_edits *e, const uint8_t *original, uint64_t len, int fd)
{
    size_t count = (size_t)((len + PIECE_BYTES - 1) / PIECE_BYTES);
    struct pieces p = {e, original, len, fd, 0, xmalloc((count + 2) * sizeof *p.first), NULL};
    sort_edits(&p, count);
    parallel_for(count, PIECES_A_RANGE, write_range, &p);
    free(p.first);
    free(p.of);
    errno = p.error;
    return p.error ? -1 : 0;
}
