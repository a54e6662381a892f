/* SPDX-License-Identifier: Apache-2.0
 * Events that are only counted: one descriptor a thread or processor, their sum. */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

bool perf_counter_open(struct perf_counter *c, const struct perf_event_attr *attr, struct perf_target target)
{
    size_t n = target.count ? target.count : (size_t)sysconf(_SC_NPROCESSORS_CONF);
    *c = (struct perf_counter){.fds = xmalloc(n * sizeof *c->fds)};
    for (size_t i = 0; i < n; i++) {
        struct perf_event_attr a = *attr;
        a.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        int fd = (int)syscall(SYS_perf_event_open, &a, target.count ? target.tids[i] : -1, target.count ? -1 : (int)i,
                              -1, PERF_FLAG_FD_CLOEXEC);
        if (fd >= 0) {
            c->fds[c->count++] = fd;
        } else if (errno != ESRCH && errno != ENODEV && errno != ENXIO) { /* gone, or offline */
            c->refused = errno;
            break;
        } else {
            c->refused = errno;
        }
    }
    bool ok = c->count && (!c->refused || c->refused == ESRCH || c->refused == ENODEV || c->refused == ENXIO);
    int err = c->refused;
    if (!ok) {
        perf_counter_close(c);
        c->refused = err ? err : ENODEV;
    }
    return ok;
}

bool perf_counter_read(const struct perf_counter *c, double *sum, double *part)
{
    uint64_t enabled = 0, running = 0;
    double scaled = 0;
    for (size_t i = 0; i < c->count; i++) {
        uint64_t got[3] = {0}; /* value, time enabled, time running */
        if (read(c->fds[i], got, sizeof got) != (ssize_t)sizeof got)
            continue;
        enabled += got[1];
        running += got[2];
        if (got[2])
            scaled += (double)got[0] * ((double)got[1] / (double)got[2]);
    }
    *sum = scaled;
    if (part)
        *part = enabled ? (double)running / (double)enabled : 0;
    return running > 0;
}

void perf_counter_close(struct perf_counter *c)
{
    for (size_t i = 0; i < c->count; i++)
        close(c->fds[i]);
    free(c->fds);
    *c = (struct perf_counter){.fds = NULL};
}
