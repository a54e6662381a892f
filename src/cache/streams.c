/* SPDX-License-Identifier: Apache-2.0
 * Runs of lines, up or down, by anybody; and a cell's lines at one distance from each other. */
#include "cache/streams.h"

void streams_fini(struct streams *s) { VEC_FREE(&s->strides); }

static struct streams_run *oldest(struct streams *s)
{
    struct streams_run *out = s->runs;
    for (struct streams_run *r = s->runs; r < s->runs + STREAMS_MAX; r++)
        if (r->used < out->used)
            out = r;
    return out;
}

static bool goes_on(const struct streams_run *r, uint64_t line)
{
    return r->used && (r->step ? line == r->last + (uint64_t)r->step : line + 1 == r->last || line == r->last + 1);
}

static bool foresee_run(struct streams *s, uint64_t line)
{
    s->now++;
    for (struct streams_run *r = s->runs; r < s->runs + STREAMS_MAX; r++) {
        if (!goes_on(r, line))
            continue;
        bool was_known = r->step;
        *r = (struct streams_run){line, line > r->last ? 1 : -1, s->now};
        return was_known;
    }
    *oldest(s) = (struct streams_run){line, 0, s->now};
    return false;
}

static bool foresee_stride(struct streams *s, uint64_t line, uint32_t cell)
{
    size_t len = (size_t)cell + 1;
    if (len > s->strides.len) {
        VEC_RESERVE(&s->strides, len);
        memset(s->strides.data + s->strides.len, 0, (len - s->strides.len) * sizeof *s->strides.data);
        s->strides.len = len;
    }
    struct streams_stride *c = &s->strides.data[cell];
    uint64_t stride = c->last ? line + 1 - c->last : 0;
    bool was_known = stride && stride == c->stride;
    *c = (struct streams_stride){line + 1, stride};
    return was_known;
}

bool streams_foresee(struct streams *s, uint64_t line, uint32_t cell)
{
    bool in_run = foresee_run(s, line), in_stride = foresee_stride(s, line, cell);
    return in_run || in_stride;
}
