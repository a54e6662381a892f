/* SPDX-License-Identifier: Apache-2.0
 * Segments of code into fetches of their lines. What all were there the last time, and none of whose places has changed
 * since, is not looked at again. */
#include "plugin/maps.h"
#include "plugin/model.h"

enum { SEGMENT_LINES_MAX = 64 }; /* bits of `joined` */
#define NO_STAMP UINT64_MAX

/* ---- translated ---- */

void fetches_append(struct segment *s, unsigned at, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, begin = base >> model.code.shift;
    uint64_t first = ((base + at) >> model.code.shift) - begin;
    uint64_t last = ((base + at + len - 1) >> model.code.shift) - begin;
    bool is_first_there = !at || first != ((base + at - 1) >> model.code.shift) - begin;
    /* in its first line another one may have been before it, in the others none */
    for (uint64_t line = first + (is_first_there ? 1 : 2); line <= last && line < SEGMENT_LINES_MAX; line++)
        s->joined |= 1ull << line;
}

bool fetches_have_room(const struct segment *s, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical;
    return ((base + s->bytes + len - 1) >> model.code.shift) - (base >> model.code.shift) < SEGMENT_LINES_MAX;
}

/* Where the filter counts what happens to the segment's lines. Whether that is in two places at most, and each line is
 * of a set of its own, so that none goes for another's sake. */
static bool find_blocks(struct segment *s)
{
    const struct filter *f = &model.code;
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical;
    uint64_t first = base >> f->shift, last = (base + s->bytes - 1) >> f->shift;
    s->blocks[0] = filter_block(f, first);
    s->blocks[1] = filter_block(f, last);
    return (last >> f->block_shift) - (first >> f->block_shift) < 2 && last - first <= f->mask;
}

void fetches_finish(struct segment *s)
{
    static const uint64_t none = 0;
    s->is_fetched = model.code.last && !model_leaves_out(s->is_kernel);
    s->may_be_quick = s->is_fetched && !s->slow_count;
    if (maps_are_wanted)
        s->may_be_quick &= maps_finish(s);
    s->stamp = NO_STAMP;
    s->blocks[0] = s->blocks[1] = &none;
    s->is_stamped = s->is_fetched && find_blocks(s);
}

/* ---- executed ---- */

bool fetches_missed(const struct segment *s, unsigned at, size_t len)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, begin = base >> model.code.shift;
    uint64_t first = ((base + at) >> model.code.shift) - begin;
    uint64_t last = ((base + at + len - 1) >> model.code.shift) - begin;
    for (uint64_t k = first; k <= last && k < SEGMENT_LINES_MAX; k++)
        if (model.missed_lines >> k & 1)
            return true;
    return false;
}

/* The lines of a segment, of which one may not be the last that was used of its set. Whether all were. An instruction
 * in several lines misses once, whichever of them it lacks, and waits for each. */
static bool fetch_lines(struct segment *s)
{
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, line = base >> model.code.shift;
    uint64_t last = (base + s->bytes - 1) >> model.code.shift;
    unsigned before = 0; /* levels that the instruction missed in its lines before this one */
    bool had_all = true;
    for (unsigned k = 0; line <= last; line++, k++) {
        if (!(s->joined >> k & 1))
            before = 0;
        if (filter_has(&model.code, line))
            continue;
        unsigned missed = model_reach(line << model.code.shift, 1, CACHE_FETCH, &model.code);
        if (missed & ~before)
            model_count_misses(s->row, missed & ~before, 1, WIRE_FETCH_MISSES);
        model.missed_lines |= (uint64_t)(missed != 0) << k;
        if (missed)
            model_stall_whole(s, WIRE_STALL_FETCH, SPOT_FIRST, model.penalty[1][missed]);
        before |= missed;
        had_all = false;
    }
    return had_all;
}

/* The same where the filter is all of the cache. */
static void fetch_whole(struct segment *s)
{
    const struct filter *f = &model.code;
    uint64_t base = settings.is_virtual ? s->vaddr : s->physical, line = base >> f->shift;
    uint64_t last = (base + s->bytes - 1) >> f->shift, missed_lines = 0;
    unsigned lines = 0, instructions = 0;
    bool before = false;
    for (unsigned k = 0; line <= last; line++, k++) {
        before &= s->joined >> k & 1;
        if (filter_is(f, line))
            continue;
        f->last[line & f->mask] = (line + 1) << 1;
        (*filter_block(f, line))++;
        missed_lines |= 1ull << k;
        lines++;
        instructions += !before;
        before = true;
    }
    if (!lines)
        return;
    model.missed_lines = missed_lines;
    s->row->of[WIRE_FETCH_MISSES + model.column[1][f->level]] += instructions;
    model_stall_whole(s, WIRE_STALL_FETCH, SPOT_FIRST, (uint64_t)lines * model.penalty[1][1u << f->level]);
}

__attribute__((noinline)) static void fetch(struct segment *s)
{
    bool had_all = false;
    if (model.code.is_whole)
        fetch_whole(s);
    else
        had_all = fetch_lines(s);
    /* a further level that is inclusive may have taken the first of them out for the last */
    s->stamp = s->is_stamped && (had_all || !model.is_inclusive) ? *s->blocks[0] + *s->blocks[1] : NO_STAMP;
}

static bool hits_again(const struct segment *s) { return s->stamp == *s->blocks[0] + *s->blocks[1]; }

__attribute__((noinline)) static void run_segment(struct segment *s)
{
    if (s->slow_count && plugin_is_counting)
        float_run(s, model_now());
    if (!s->is_fetched || !plugin_is_counting)
        return;
    tlb_pass_code(s);
    if (maps_are_wanted)
        maps_fetch(s);
    if (!hits_again(s))
        fetch(s);
}

/* Nothing but its lines is asked for, and nothing changes by that. */
static bool is_quick(const struct segment *s)
{
    if (!s->may_be_quick || model.code_page != s->vaddr >> PAGE_SHIFT || !hits_again(s))
        return false;
    if (!maps_are_wanted)
        return true;
    if (!maps_have(s))
        return false;
    pages_use(s->physical, PAGE_CODE, s->instructions);
    return true;
}

void fetches_run(unsigned vcpu, void *segment)
{
    struct segment *s = segment;
    (void)vcpu;
    model.missed_lines = 0;
    if (!is_quick(s))
        run_segment(s);
}

__attribute__((always_inline)) static inline void count_segment(struct segment *s)
{
    struct totals *t = &totals[s->is_kernel];
    s->runs++;
    t->instructions += s->instructions;
    t->operations += s->operations;
}

__attribute__((noinline)) static void run_segment_and_count(struct segment *s)
{
    run_segment(s);
    count_segment(s);
}

/* In place of additions in line, where nothing asks in between; nor for lines that were missed. */
void fetches_run_and_count(unsigned vcpu, void *segment)
{
    struct segment *s = segment;
    (void)vcpu;
    if (is_quick(s))
        count_segment(s);
    else
        run_segment_and_count(s);
}
