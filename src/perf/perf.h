/* SPDX-License-Identifier: Apache-2.0
 *
 * perf: the kernel's perf_event interface: rings of records, tracepoints by name, counters. Knows no program and no
 * result; what the kernel refuses is told with errno, never reported.
 */
#ifndef MTOOL_PERF_H
#define MTOOL_PERF_H

#include <linux/perf_event.h>
#include <poll.h>
#include <sys/types.h>

#include "base/base.h"

/* Whose events: those of these threads, and with attr.inherit of what they will make; count 0: of all processors. */
struct perf_target {
    const pid_t *tids;
    size_t count;
};

/* ---- rings.c ---- */

enum { PERF_RING_PAGES = 64 }; /* with one ring a processor below the usual limit for ordinary users (516 KB) */

struct perf_rings;
/* One ring a processor, of `pages` pages (a power of two), or fewer where the kernel grants no more, with all events of
 * attrs in it. A processor that is offline is passed over. NULL with errno if any other event is refused. */
struct perf_rings *perf_rings_open(const struct perf_event_attr *attrs, size_t count, struct perf_target target,
                                   unsigned pages);
unsigned perf_rings_pages(const struct perf_rings *r); /* of the smallest */
/* A record, made contiguous, valid until it returns. Records of one processor come in the order of their writing. */
typedef void (*perf_take)(void *ctx, const struct perf_event_header *h);
void perf_rings_drain(struct perf_rings *r, perf_take take, void *ctx); /* all that is there now */
/* No record fits into one of them any more, so that some may have been lost; a record of that comes only with the next
 * that fits. To be asked before a drain. */
bool perf_rings_are_full(const struct perf_rings *r);
void perf_rings_enable(struct perf_rings *r, bool is_on);
/* For poll: readable when attr.wakeup_watermark bytes are there. Returns how many of out[max] were filled. */
size_t perf_rings_poll(const struct perf_rings *r, struct pollfd *out, size_t max);
void perf_rings_close(struct perf_rings *r); /* NULL: nothing */

struct perf_tail { /* the end of every record that is no sample, with sample_id_all and PERF_SAMPLE_TID and _TIME */
    uint32_t pid, tid;
    uint64_t time_ns;
};
static inline const struct perf_tail *perf_tail_of(const struct perf_event_header *h)
{
    return (const void *)((const uint8_t *)h + h->size - sizeof(struct perf_tail));
}
/* Of a PERF_RECORD_LOST. */
static inline uint64_t perf_lost_of(const struct perf_event_header *h)
{
    return ((const uint64_t *)(const void *)(h + 1))[1];
}

/* ---- tracepoints.c ---- */

/* The folder of tracefs: where it is mounted, else mounted for this process alone, where nobody sees it (needs
 * CAP_SYS_ADMIN). -1 with errno; the caller closes it. */
int perf_tracefs_open(void);
struct perf_tracepoint {
    uint32_t id;        /* attr.config of PERF_TYPE_TRACEPOINT; the first two bytes of its PERF_SAMPLE_RAW */
    struct strbuf text; /* its format */
};
/* name: SYSTEM/EVENT. False with errno: there is none. */
bool perf_tracepoint_read(int tracefs, const char *name, struct perf_tracepoint *out);
/* Where a field lies in PERF_SAMPLE_RAW, bytes; -1: there is none of that size. */
int perf_tracepoint_field(const struct perf_tracepoint *t, const char *field, unsigned bytes);
void perf_tracepoint_free(struct perf_tracepoint *t);

/* ---- counters.c ---- */

struct perf_counter {
    int *fds; /* of each thread, or each processor; NULL: refused */
    size_t count;
    int refused; /* errno */
};
/* Counts from now on, or from the exec on with attr.enable_on_exec. False with c->refused. */
bool perf_counter_open(struct perf_counter *c, const struct perf_event_attr *attr, struct perf_target target);
/* The sum, scaled up where the kernel let events take turns; *part (or NULL) of the time it was counted. False: it was
 * never. */
bool perf_counter_read(const struct perf_counter *c, double *sum, double *part);
void perf_counter_close(struct perf_counter *c);

#endif
