/* SPDX-License-Identifier: Apache-2.0
 * Samples by the kernel's software clock into parts of processor time and functions of the kernel. The chain of calls
 * in the kernel tells whether it is there for a system call, a page fault or an interrupt. Without the right to sample
 * the kernel, user mode alone. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live/impl.h"

/* ---- how many a second ---- */

/* Each sample is an interrupt of a timer; a virtual machine is left twice for it, to come and to set the next one,
 * which takes ten times as long as on a processor of one's own. What one takes is measured on a thread of mtool's that
 * does nothing else: by so much its clock jumps. */
enum { PERIOD_NS = 250 * 1000, PERIODS = 41, LONGEST_NS = 200 * 1000 * 1000 };
/* Of processor time. Caches and predictors that samples spoil cost a program up to 1.4 times as much again. */
#define SHARE 0.01

/* About 1 kHz and less, none in step with a kernel's tick. */
static const double rates[] = {997, 797, 599, 499, 397, 293, 197, 97};

double live_pace(double sample_s)
{
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(rates) && rates[i] * sample_s > SHARE)
        i++;
    return rates[i]; /* what is not known is no reason for less */
}

static int by_length(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The longest jump in each period that it ran; in longer ones somebody else ran. Returns how many there are. */
static size_t longest_jumps(uint64_t jumps[PERIODS])
{
    uint64_t begin = time_now_ns(), last = begin, ran = 0, longest = 0;
    size_t count = 0;
    while (count < PERIODS && last - begin < LONGEST_NS) {
        uint64_t now = time_now_ns(), passed = now - last;
        last = now;
        if (passed >= PERIOD_NS)
            continue;
        ran += passed;
        longest = max_u64(longest, passed);
        if (ran < PERIOD_NS)
            continue;
        jumps[count++] = longest;
        ran = longest = 0;
    }
    return count;
}

double live_pace_measure(void)
{
    struct perf_event_attr a = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1};
    uint64_t jumps[PERIODS];
    a.sample_period = PERIOD_NS;
    a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    a.exclude_hv = 1;
    int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return NAN;
    size_t count = longest_jumps(jumps);
    close(fd);
    if (count < PERIODS) /* the machine is too busy */
        return NAN;
    qsort(jumps, count, sizeof *jumps, by_length);
    uint64_t median_ns = jumps[PERIODS / 2];
    return 1e-9 * (double)median_ns;
}

/* ---- opened ---- */

struct live_samples {
    struct perf_rings *rings;
    struct live_symbols *symbols; /* NULL: hidden */
    VEC(int8_t) entries;          /* of each symbol: live_entry_of */
    struct live_sampled found;
};

static struct perf_event_attr attr_of(const struct live_target *t, double hertz, bool is_user_only)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a};
    /* of the system the clock that runs on when the processor is idle */
    a.config = t->scope == LIVE_SYSTEM ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = (uint64_t)llround(1e9 / hertz);
    a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    if (!is_user_only)
        a.sample_type |= PERF_SAMPLE_CALLCHAIN;
    a.exclude_callchain_user = 1;
    a.disabled = 1;
    a.enable_on_exec = t->scope == LIVE_COMMAND;
    a.inherit = t->scope != LIVE_SYSTEM;
    a.sample_id_all = 1;
    a.exclude_hv = 1;
    a.exclude_kernel = is_user_only;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    a.watermark = 1;
    a.wakeup_watermark = PERF_RING_PAGES * 2048; /* half of the ring */
    return a;
}

static void read_symbols(struct live_samples *s, struct arena *a)
{
    const char *why;
    s->symbols = live_symbols_read("/proc/kallsyms", a, &why);
    for (size_t i = 0; s->symbols && i < live_symbols_count(s->symbols); i++)
        VEC_PUSH(&s->entries, (int8_t)live_entry_of(live_symbols_name(s->symbols, (uint32_t)i)));
}

struct live_samples *live_samples_open(const struct live_target *t, double hertz, struct arena *a, const char **why)
{
    struct live_samples *s = xmalloc(sizeof *s);
    s->found.sample_s = live_pace_measure();
    hertz = hertz > 0 ? hertz : live_pace(s->found.sample_s);
    for (int user_only = 0; user_only <= 1 && !s->rings; user_only++) {
        struct perf_event_attr attr = attr_of(t, hertz, user_only);
        s->found.period_s = 1e-9 * (double)attr.sample_period;
        s->found.is_user_only = user_only;
        s->rings = perf_rings_open(&attr, 1, t->perf, PERF_RING_PAGES);
    }
    if (!s->rings) {
        *why = arena_printf(a, "perf_event_open: %s", strerror(errno));
        live_samples_close(s);
        return NULL;
    }
    if (!s->found.is_user_only)
        read_symbols(s, a);
    return s;
}

void live_samples_begin(struct live_samples *s) { perf_rings_enable(s->rings, true); }

/* ---- reading ---- */

static bool is_of_user(const struct perf_event_header *h)
{
    return (h->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
}

/* Of the kernel's part of a chain, the innermost first; markers say where parts begin. */
static enum live_part part_of(const struct live_samples *s, const uint64_t *chain, size_t count, uint32_t tid)
{
    int entry = -1;
    for (size_t i = 0; i < count && chain[i] != PERF_CONTEXT_USER; i++) {
        uint32_t id = chain[i] >= PERF_CONTEXT_MAX ? ID_NONE : live_symbols_find(s->symbols, chain[i]);
        int here = id == ID_NONE ? -1 : s->entries.data[id];
        if (here == LIVE_PART_INTERRUPT)
            return LIVE_PART_INTERRUPT;
        if (here >= 0 && (entry != LIVE_PART_CALL || here == LIVE_PART_CALL))
            entry = here;
    }
    return entry >= 0 ? (enum live_part)entry : tid == 0 ? LIVE_PART_IDLE : LIVE_PART_KERNEL;
}

static void take_kernel(struct live_samples *s, uint64_t ip, const uint64_t *chain, size_t count, uint32_t tid)
{
    uint32_t id = s->symbols ? live_symbols_find(s->symbols, ip) : ID_NONE;
    s->found.parts[s->symbols ? part_of(s, chain, count, tid) : LIVE_PART_KERNEL]++;
    if (id != ID_NONE)
        ++*map_place(&s->found.functions, id);
    else
        s->found.unnamed++;
}

static void take(void *ctx, const struct perf_event_header *h)
{
    struct live_samples *s = ctx;
    const struct {
        struct perf_event_header h;
        uint64_t ip;
        uint32_t pid, tid;
        uint64_t time_ns, count;
        uint64_t chain[];
    } *r = (const void *)h;
    if (h->type == PERF_RECORD_LOST)
        s->found.lost += perf_lost_of(h);
    if (h->type != PERF_RECORD_SAMPLE || h->size < offsetof(__typeof__(*r), count))
        return;
    s->found.all++;
    if (is_of_user(h))
        s->found.parts[LIVE_PART_USER]++;
    else if (h->size >= sizeof *r)
        take_kernel(s, r->ip, r->chain, min_u64(r->count, (h->size - sizeof *r) / 8), r->tid);
}

void live_samples_drain(struct live_samples *s) { perf_rings_drain(s->rings, take, s); }

const struct live_sampled *live_samples_result(const struct live_samples *s) { return &s->found; }
const struct live_symbols *live_samples_symbols(const struct live_samples *s) { return s->symbols; }

void live_samples_close(struct live_samples *s)
{
    if (!s)
        return;
    perf_rings_close(s->rings);
    live_symbols_free(s->symbols);
    VEC_FREE(&s->entries);
    map_fini(&s->found.functions);
    free(s);
}
