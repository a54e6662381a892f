/* SPDX-License-Identifier: Apache-2.0
 *
 * Warm replay: a slice of a window (wire.h), executed natively from the same registers and memory some two hundred
 * times; the program's code is in its place and as it is, but for the jump at the slice's end. The lines that the slice
 * writes are put back before each turn, and so are still in the first-level cache, as is all else that it reads. Only
 * times are taken here; what they mean is for the host.
 */
#include "rt/windows.h"

#include <asm/sigcontext.h>

enum {
    AREA_BYTES = 3 * PAGE,
    STUBS = 2048, /* in the area */
    LINE = 64,
    REACH_STEPS = 1900, /* of a megabyte */
    EMPTY_ITERATIONS = 6,
    TRIES = 10,     /* of a batch */
    TRAINING = 256, /* replays before the first that count; */
    LONG = 16,      /* of what goes round one, of so many times its rounds */
    LOOKS = 30,     /* before one, for a core that nobody shares */
    WAIT_NS = 300000,
    BATCH_US_MAX = 250000,   /* wall clock; takes some milliseconds */
    SLICES_US_MAX = 3000000, /* from one batch to the next, with waiting */
    RWX = PROT_READ | PROT_WRITE | PROT_EXEC,
    FLAGS_OF_USER = 0xcd5 /* arithmetic and direction */
};

struct area_data { /* known to rt_replay.S */
    uint64_t in[16], out[16], flags, target, vectors, vectors_mask, host_rsp, begin, end, counter;
    uint64_t change[16];
};
_Static_assert(__builtin_offsetof(struct area_data, end) == 304, "rt_replay.S");

static struct area_data *data_of(uint64_t area) { return (struct area_data *)(area + PAGE); }

static int is_near(uint64_t a, uint64_t b)
{
    int64_t d = (int64_t)(a - b);
    return d < (2000ll << 20) && d > -(2000ll << 20);
}

/* Free memory within reach of a jump. 0: none. */
static uint64_t area_near(uint64_t code)
{
    uint64_t base = code & ~0xfffffull;
    if (WINDOWS->area && is_near(WINDOWS->area, code))
        return WINDOWS->area;
    for (uint64_t k = 1; k < 2 * REACH_STEPS; k++) {
        uint64_t at = k & 1 ? base + ((k + 1) / 2 << 20) : base - (k / 2 << 20);
        if (at < 0x10000 || at >> 47)
            continue;
        int64_t got =
            sys(SYS_mmap, at, AREA_BYTES, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
        if (got == (int64_t)at) {
            memcpy((void *)at, rt_area_code, (size_t)(rt_area_code_end - rt_area_code));
            return WINDOWS->area = at;
        }
        if (!failed(got))
            sys(SYS_munmap, (uint64_t)got, AREA_BYTES, 0, 0, 0, 0);
    }
    return 0;
}

static uint64_t target_at(uint64_t area, uint64_t target)
{
    switch (target) {
    case WIRE_TARGET_EXIT:
        return area + (uint64_t)(rt_area_exit - rt_area_code);
    case WIRE_TARGET_COUNTER:
        return (uint64_t)&data_of(area)->counter;
    default:
        if (target >= WIRE_TARGET_CHANGE && target < WIRE_TARGET_CHANGE + 16)
            return (uint64_t)&data_of(area)->change[target - WIRE_TARGET_CHANGE];
        return target;
    }
}

static uint64_t put_stub(uint64_t area, const struct wire_stub *s)
{
    uint64_t at = area + STUBS;
    memcpy((void *)at, s->code, s->bytes <= WIRE_STUB_BYTES ? s->bytes : 0);
    for (uint32_t i = 0; i < s->fixes && i < WIRE_FIXES_MAX; i++) {
        int32_t distance = (int32_t)(target_at(area, s->fix[i].target) - (at + s->fix[i].at + 4 + s->fix[i].behind));
        memcpy((void *)(at + s->fix[i].at), &distance, 4);
    }
    return at;
}

static void put_jump(uint64_t at, uint64_t to)
{
    uint8_t jump[5] = {0xe9};
    int32_t distance = (int32_t)(to - (at + 5));
    memcpy(jump + 1, &distance, 4);
    memcpy((void *)at, jump, 5);
}

struct kept {
    uint8_t lines[WIRE_LINES_MAX][LINE], code[5], unpatched[8];
};

static void copy_lines(const struct wire_slice *s, struct kept *k, int back)
{
    for (uint32_t i = 0; i < s->line_count && i < WIRE_LINES_MAX; i++) {
        uint64_t *line = (uint64_t *)s->lines[i], *kept = (uint64_t *)k->lines[i];
        for (int w = 0; w < LINE / 8; w++)
            if (back)
                line[w] = kept[w];
            else
                kept[w] = line[w];
    }
}

static uint32_t once(uint64_t area)
{
    struct area_data *d = data_of(area);
    ((void (*)(void))area)();
    return (uint32_t)(d->end - d->begin);
}

static uint32_t time_nothing(uint64_t area)
{
    uint32_t min = UINT32_MAX;
    data_of(area)->target = area + (uint64_t)(rt_area_exit - rt_area_code);
    for (int i = 0; i < EMPTY_ITERATIONS; i++) {
        uint32_t t = once(area);
        min = t < min ? t : min;
    }
    return min;
}

static int ended_alike(struct wire_slice *s, const struct wire_form *f, const struct area_data *d, int turn)
{
    for (uint32_t r = 0; r < 16; r++)
        if (d->out[r] != (f->rounds > 1 ? f->enter : f->end)[r]) {
            s->differs = r << 16 | s->batch_count << 8 | (uint32_t)turn;
            return 0;
        }
    return 1;
}

/* What the turns beyond a third of them take. The least of each: neither is shorter than it must be. */
static uint32_t ticks_more(uint64_t (*run)(uint32_t), uint32_t many)
{
    uint64_t min[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 6; i++) {
        uint64_t t = run(i & 1 ? many : many / 3);
        min[i & 1] = t < min[i & 1] ? t : min[i & 1];
    }
    return min[1] > min[0] ? (uint32_t)(min[1] - min[0]) : 1;
}

/* By how much the time stamp moves at least: runs that differ by less than a cycle are distinguished by so much, or not
 * at all. */
static uint32_t clock_step(void)
{
    enum { RUNS = 64, KEPT = RUNS * 3 / 4 };
    uint32_t t[RUNS], distinct = 1;
    for (uint32_t i = 0; i < RUNS; i++) {
        uint32_t took = (uint32_t)rt_chain(i % 8 + 1), k = i;
        for (; k && t[k - 1] > took; k--)
            t[k] = t[k - 1];
        t[k] = took;
    }
    for (uint32_t i = 1; i < KEPT; i++)
        distinct += t[i] != t[i - 1];
    return distinct > 1 ? (t[KEPT - 1] - t[0]) / (distinct - 1) : t[0];
}

/* So that a step of the clock is at most a four hundredth. */
static uint32_t canary_times(void)
{
    enum { CHAIN_TICKS = 1024, STEPS = 400, MAX = 64 };
    uint32_t times = 1 + clock_step() * STEPS / CHAIN_TICKS;
    return times < MAX ? times : MAX;
}

static void canary(struct wire_canary *k)
{
    if (!WINDOWS->canary_times)
        WINDOWS->canary_times = canary_times();
    k->times = WINDOWS->canary_times;
    k->chain = ticks_more(rt_chain, 192 * k->times);
    k->width = ticks_more(rt_width, 96 * k->times);
}

/* A neighbour may have come meanwhile, and the clock may have changed, which counts as one. */
static void canary_again(struct wire_canary *k)
{
    struct wire_canary now;
    canary(&now);
    uint32_t more = now.chain > k->chain ? now.chain - k->chain : k->chain - now.chain;
    k->width = more > k->chain / 64 ? UINT32_MAX : now.width > k->width ? now.width : k->width;
}

/* ---- forms ---- */

static uint32_t bound_patch_bytes_of(const struct wire_form *f)
{
    return f->bound_patch_bytes <= 8 ? f->bound_patch_bytes : 0;
}

static void load_form(const struct wire_form *f, uint64_t area)
{
    struct area_data *d = data_of(area);
    for (int r = 0; r < 16; r++) {
        d->in[r] = f->enter[r];
        d->change[r] = f->change[r];
    }
}

static void put_form(const struct wire_form *f, uint64_t area, struct kept *k)
{
    load_form(f, area);
    memcpy(k->code, (const void *)f->patch_at, 5);
    memcpy(k->unpatched, (const void *)f->bound_patch_at, bound_patch_bytes_of(f));
    memcpy((void *)f->bound_patch_at, f->bound_patch, bound_patch_bytes_of(f));
    put_jump(f->patch_at, put_stub(area, &f->stub));
}

static void take_form_away(const struct wire_form *f, const struct kept *k)
{
    memcpy((void *)f->patch_at, k->code, 5);
    memcpy((void *)f->bound_patch_at, k->unpatched, bound_patch_bytes_of(f));
}

static int differ(const uint8_t *a, const uint8_t *b, uint32_t n)
{
    uint32_t k = 0;
    while (k < n && a[k] == b[k])
        k++;
    return k < n;
}

static int stubs_differ(const struct wire_stub *a, const struct wire_stub *b)
{
    return a->bytes != b->bytes || a->fixes != b->fixes || a->bytes > WIRE_STUB_BYTES || a->fixes > WIRE_FIXES_MAX ||
           differ(a->code, b->code, a->bytes) ||
           differ((const uint8_t *)a->fix, (const uint8_t *)b->fix, a->fixes * (uint32_t)sizeof *a->fix);
}

/* Code that is written again is fetched and decoded again: only where it must be. */
static void change_form(const struct wire_form *from, const struct wire_form *to, uint64_t area, struct kept *k)
{
    if (from->patch_at == to->patch_at && !stubs_differ(&from->stub, &to->stub) &&
        from->bound_patch_at == to->bound_patch_at && bound_patch_bytes_of(from) == bound_patch_bytes_of(to) &&
        !differ(from->bound_patch, to->bound_patch, bound_patch_bytes_of(to))) {
        load_form(to, area);
        return;
    }
    take_form_away(from, k);
    put_form(to, area, k);
}

/* How often the stub is passed until it ends the replay. Those whose branches are hardly trained are of one round. */
static uint64_t iterations_of(const struct wire_form *f, int replay)
{
    return f->rounds <= 1 ? f->iterations : replay < 2 ? 1 : replay == TRAINING ? f->rounds * LONG : f->rounds;
}

/* Lines that are put back may hold what was patched. Code is not written again where it is as it should be. */
static void bound_patch_again(const struct wire_form *f)
{
    if (differ((const uint8_t *)f->bound_patch_at, f->bound_patch, bound_patch_bytes_of(f)))
        memcpy((void *)f->bound_patch_at, f->bound_patch, bound_patch_bytes_of(f));
}

/* 0: it ended with other registers than the program. */
static int replay_form(struct wire_slice *s, const struct wire_form *form, uint64_t area, struct kept *k, int replay,
                       uint32_t *ticks)
{
    struct area_data *d = data_of(area);
    copy_lines(s, k, 1);
    bound_patch_again(form);
    d->counter = iterations_of(form, replay);
    rt_chain(1 + (uint32_t)replay %
                     7); /* so that replays do not all begin at the same place between two steps of a coarse clock */
    *ticks = once(area);
    return ended_alike(s, form, d, replay);
}

/* Two times in three once, else twice, as nobody can foresee. */
static int pass_ends(struct wire_slice *s, const struct wire_form *form, uint64_t area, struct kept *k, int replay)
{
    const struct wire_form *longer = &s->form[WIRE_LONGER];
    uint32_t unused;
    int alike = 1;
    WINDOWS->chance = WINDOWS->chance * 1103515245u + 12345u;
    change_form(form, longer, area, k);
    for (uint32_t n = 1 + (WINDOWS->chance >> 16) % 3 / 2; n && alike; n--)
        alike = replay_form(s, longer, area, k, replay, &unused);
    change_form(longer, form, area, k);
    return alike;
}

/* Branches are to be as well predicted as in a program that has long been running. */
static int train(struct wire_slice *s, const struct wire_form *form, uint64_t area, struct kept *k)
{
    const struct wire_form *trained = s->has_longer ? &s->form[WIRE_LONGER] : form;
    uint32_t unused;
    int alike = 1;
    change_form(form, trained, area, k);
    for (int n = form->rounds > 1 ? TRAINING : 2; n <= TRAINING && alike; n++)
        alike = replay_form(s, trained, area, k, n, &unused);
    change_form(trained, form, area, k);
    return alike;
}

/* A loop that does not end as it was planned ends the checkpoint: the default action of SIGALRM. */
static void limit_time(uint64_t us)
{
    uint64_t value[4] = {0, 0, us / 1000000, us % 1000000};
    sys(SYS_setitimer, ITIMER_REAL, (uint64_t)value, 0, 0, 0, 0);
}

static int replay_all(struct wire_slice *s, const struct wire_form *form, uint64_t area, uint64_t start, struct kept *k)
{
    struct wire_batch *b = &s->batches[s->batch_count];
    b->empty = time_nothing(area);
    data_of(area)->target = start;
    b->replays = form->rounds > 1 ? WIRE_REPLAYS_ROUND : WIRE_REPLAYS;
    for (int i = 0; i < (int)b->replays; i++) {
        if (i == 2 && s->batch_count == 0 && !train(s, form, area, k))
            return 0;
        if (s->has_longer && i > 1 && !pass_ends(s, form, area, k, i))
            return 0;
        if (!replay_form(s, form, area, k, i, &b->ticks[i]))
            return 0;
        if (i == 1 && !s->second.ticks)
            s->second = (struct wire_second){b->ticks[i], b->empty, b->canary};
    }
    return 1;
}

static int replay_batch(struct wire_slice *s, const struct wire_form *form, uint64_t area, uint64_t start,
                        struct kept *k)
{
    limit_time(BATCH_US_MAX);
    int alike = replay_all(s, form, area, start, k);
    limit_time(SLICES_US_MAX);
    if (alike)
        canary_again(&s->batches[s->batch_count].canary);
    return alike;
}

/* The least width is learnt where the chain took what it took before: else one slip of the clock would make all others
 * look disturbed. */
static void learn_width(const struct wire_canary *k, uint64_t width)
{
    struct wire_windows *f = WINDOWS->file;
    int is_steady = k->chain <= WINDOWS->chain + WINDOWS->chain / 64;
    WINDOWS->chain = k->chain;
    if (is_steady && (!f->min_width || width < f->min_width))
        f->min_width = width;
}

/* Was the core's width shared with a neighbour meanwhile? */
static int was_disturbed(const struct wire_canary *k)
{
    struct wire_windows *f = WINDOWS->file;
    uint64_t width = ((uint64_t)k->width << 16) / k->chain, min;
    learn_width(k, width);
    min = f->min_width;
    return min && (width > min + min / 48 || width < min - min / 48);
}

/* To the next processor of those that the program may use: nobody may be beside it there. 0: there is no other. */
static int move_on(void)
{
    struct windows_state *w = WINDOWS;
    enum { MAX = PROCESSOR_WORDS * 64 };
    uint64_t one[PROCESSOR_WORDS];
    uint32_t here = 0, next;
    if (!w->knows_processors)
        w->knows_processors =
            !failed(sys(SYS_sched_getaffinity, 0, sizeof w->processors, (uint64_t)w->processors, 0, 0, 0));
    if (failed(sys(SYS_getcpu, (uint64_t)&here, 0, 0, 0, 0, 0)) || here >= MAX)
        return 0;
    for (next = (here + 1) % MAX; next != here && !(w->processors[next / 64] >> next % 64 & 1);)
        next = (next + 1) % MAX;
    if (next == here)
        return 0;
    memset(one, 0, sizeof one);
    one[next / 64] = 1ull << next % 64;
    return !failed(sys(SYS_sched_setaffinity, 0, sizeof one, (uint64_t)one, 0, 0, 0));
}

static void has_waited(uint64_t since)
{
    struct wire_windows *f = WINDOWS->file;
    f->waited.quiet += clock_ns(CLOCK_MONOTONIC) - since;
}

/* Waits for a core that nobody shares, on one processor after another. 0: there was none. */
static int find_quiet_core(struct wire_canary *k)
{
    uint64_t wait[2] = {0, WAIT_NS};
    for (int i = 0; i < LOOKS; i++) {
        uint64_t since = clock_ns(CLOCK_MONOTONIC);
        canary(k);
        if (!was_disturbed(k))
            return 1;
        if (WINDOWS->file->waited.quiet >= WINDOWS->file->quiet_now_ns)
            break;
        if (!move_on() || i % 2)
            sys(SYS_nanosleep, (uint64_t)wait, 0, 0, 0, 0, 0);
        has_waited(since);
    }
    return 0;
}

static int replay_in_quiet(struct wire_slice *s, const struct wire_form *form, uint64_t area, uint64_t start,
                           struct kept *k)
{
    struct wire_batch *b = &s->batches[s->batch_count];
    for (int i = 0; i < TRIES; i++) {
        int is_quiet = find_quiet_core(&b->canary);
        if (!replay_batch(s, form, area, start, k))
            return 0;
        if (!is_quiet || !was_disturbed(&b->canary))
            break;
    }
    s->batch_count++;
    return 1;
}

static int begins_alike(const struct wire_slice *s, const uint64_t *g)
{
    for (int r = 0; r < 16; r++)
        if (g[rt_greg_order[r]] != s->begin[r])
            return 0;
    return 1;
}

/* As the signal's frame holds it. 0: not in the form that can be loaded. */
static int take_vectors(struct area_data *d, const void *vectors)
{
    const char *v = vectors;
    uint32_t magic;
    memcpy(&magic, v + 464, 4);
    memcpy(&d->vectors_mask, v + 472, 8);
    d->vectors = (uint64_t)vectors;
    return vectors && magic == FP_XSTATE_MAGIC1;
}

int rt_open_code(uint64_t at, uint64_t bytes)
{
    uint64_t page = at & ~(uint64_t)(PAGE - 1), end = (at + bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    return !failed(sys(SYS_mprotect, page, end - page, RWX, 0, 0, 0));
}

static int may_change(const struct wire_form *f)
{
    return rt_open_code(f->patch_at, 5) && (!f->bound_patch_bytes || rt_open_code(f->bound_patch_at, 8));
}

static enum wire_slice_state replay(struct wire_slice *s, const uint64_t *g, const void *vectors, struct kept *k)
{
    uint64_t area = area_near(s->form[0].patch_at);
    uint32_t forms = s->forms < WIRE_FORMS_MAX ? s->forms : WIRE_FORMS_MAX;
    for (uint32_t f = 0; f <= WIRE_LONGER; f++)
        if ((f < forms || (f == WIRE_LONGER && s->has_longer)) &&
            (!area || !is_near(area, s->form[f].patch_at) || !may_change(&s->form[f])))
            return WIRE_SLICE_NO_ROOM;
    if (!take_vectors(data_of(area), vectors))
        return WIRE_SLICE_NO_VECTORS;
    data_of(area)->flags = g[G_FLAGS] & FLAGS_OF_USER;
    copy_lines(s, k, 0);
    int alike = 1;
    for (uint32_t b = 0; b < WIRE_BATCHES && alike; b++) {
        const struct wire_form *form = &s->form[b % forms];
        s->batches[b].form = b % forms;
        put_form(form, area, k);
        alike = replay_in_quiet(s, form, area, g[G_RIP], k);
        take_form_away(form, k);
    }
    copy_lines(s, k, 1);
    return alike ? WIRE_SLICE_DONE : WIRE_SLICE_DIFFERS;
}

void rt_replay(struct wire_slice *s, const uint64_t *gregs, const void *vectors)
{
    int64_t kept = sys(SYS_mmap, 0, sizeof(struct kept), PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0);
    if (failed(kept) || !begins_alike(s, gregs)) {
        s->state = failed(kept) ? WIRE_SLICE_NO_ROOM : WIRE_SLICE_DIVERGED;
        return;
    }
    s->state = (uint32_t)replay(s, gregs, vectors, (struct kept *)kept);
    sys(SYS_munmap, (uint64_t)kept, sizeof(struct kept), 0, 0, 0, 0);
}
