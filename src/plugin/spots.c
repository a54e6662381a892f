/* SPDX-License-Identifier: Apache-2.0
 * What was executed where in the files of user code: how often each stretch of addresses, and which cycles each
 * instruction waited. From it mtool knows source lines and loops. Each instruction of a segment was executed as often
 * as the segment, but for its last one, which may have faulted. Code that is translated several times, from other
 * begins or at other addresses, counts together. */
#include "plugin/plugin.h"

#include <stdlib.h>

struct step { /* from the address on, it is so many more */
    uint32_t file;
    uint64_t address;
    int64_t more;
};
struct stalled {
    uint32_t file;
    uint64_t address;
    uint64_t of[WIRE_STALL_COUNT];
};

static struct {
    VEC(struct step) steps;
    VEC(struct stalled) stalled;
} the;

/* ---- gathered ---- */

static void add_steps(const struct segment *s)
{
    uint64_t end = s->in_file + s->bytes, last = s->in_file + s->last_at;
    VEC_PUSH(&the.steps, ((struct step){s->file, s->in_file, (int64_t)s->runs}));
    VEC_PUSH(&the.steps, ((struct step){s->file, end, -(int64_t)s->runs}));
    if (!s->restarts)
        return;
    VEC_PUSH(&the.steps, ((struct step){s->file, last, -(int64_t)s->restarts}));
    VEC_PUSH(&the.steps, ((struct step){s->file, end, (int64_t)s->restarts}));
}

static void add_stalled(const struct segment *s, uint64_t address, const uint64_t of[WIRE_STALL_COUNT])
{
    struct stalled one = {.file = s->file, .address = address};
    bool is_any = false;
    for (unsigned i = 0; i < WIRE_STALL_COUNT; i++)
        is_any |= (one.of[i] = of[i]) != 0;
    if (is_any)
        VEC_PUSH(&the.stalled, one);
}

static void add_stalls(const struct segment *s)
{
    add_stalled(s, s->in_file, s->stalls[SPOT_FIRST]);
    add_stalled(s, s->in_file + s->last_at, s->stalls[SPOT_LAST]);
    for (unsigned i = 0; i < s->slow_count; i++) {
        uint64_t of[WIRE_STALL_COUNT] = {[WIRE_STALL_FLOAT - WIRE_STALL_FETCH] = *float_stall(s, i)};
        add_stalled(s, float_address(s, i), of);
    }
}

static int by_step(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->file != y->file)
        return x->file > y->file ? 1 : -1;
    return (x->address > y->address) - (x->address < y->address);
}

static int by_stalled(const void *a, const void *b)
{
    const struct stalled *x = a, *y = b;
    if (x->file != y->file)
        return x->file > y->file ? 1 : -1;
    return (x->address > y->address) - (x->address < y->address);
}

void spots_end(void)
{
    const struct segment *s;
    for (size_t i = 0; model_is_wanted && (s = segments_at(i)); i++) {
        if (!s->file || !s->runs)
            continue;
        add_steps(s);
        add_stalls(s);
    }
    if (the.steps.len)
        qsort(the.steps.data, the.steps.len, sizeof *the.steps.data, by_step);
    if (the.stalled.len)
        qsort(the.stalled.data, the.stalled.len, sizeof *the.stalled.data, by_stalled);
}

/* ---- written ---- */

/* Stretches of one count each. Returns the first step of the next file. */
static size_t write_executed(FILE *f, size_t i)
{
    uint32_t file = the.steps.data[i].file;
    uint64_t begin = 0;
    int64_t count = 0;
    while (i < the.steps.len && the.steps.data[i].file == file) {
        uint64_t at = the.steps.data[i].address;
        int64_t before = count;
        for (; i < the.steps.len && the.steps.data[i].file == file && the.steps.data[i].address == at; i++)
            count += the.steps.data[i].more;
        if (count == before)
            continue;
        if (before > 0)
            fprintf(f, "executed %llx %llx %lld\n", (unsigned long long)begin, (unsigned long long)(at - begin),
                    (long long)before);
        begin = at;
    }
    return i;
}

static size_t write_stalled(FILE *f, uint32_t file, size_t i)
{
    while (i < the.stalled.len && the.stalled.data[i].file == file) {
        struct stalled sum = {.address = the.stalled.data[i].address};
        for (; i < the.stalled.len && the.stalled.data[i].file == file && the.stalled.data[i].address == sum.address;
             i++)
            for (unsigned k = 0; k < WIRE_STALL_COUNT; k++)
                sum.of[k] += the.stalled.data[i].of[k];
        fprintf(f, "stalled %llx", (unsigned long long)sum.address);
        for (unsigned k = 0; k < WIRE_STALL_COUNT; k++)
            fprintf(f, " %llu", (unsigned long long)sum.of[k]);
        fprintf(f, "\n");
    }
    return i;
}

void spots_write(FILE *f)
{
    size_t stalled = 0;
    for (size_t i = 0; i < the.steps.len;) {
        uint32_t file = the.steps.data[i].file;
        const char *key, *path = places_file_path(file, &key);
        fprintf(f, "code %s\t%s\n", key, path);
        i = write_executed(f, i);
        stalled = write_stalled(f, file, stalled);
    }
    VEC_FREE(&the.steps);
    VEC_FREE(&the.stalled);
}
