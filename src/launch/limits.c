/* SPDX-License-Identifier: Apache-2.0
 * Limits of resources (ulimit): mtool takes for itself what it may, so that rewriting, counter files and profiles do
 * not run into limits that were set for the program; the program gets its own back, its address space widened by what
 * its copies and the counters take. Knows nothing of why a limit was set. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "launch/impl.h"

#define THREADS_THOUGHT_OF 16       /* that have counters of their own at once; more take turns if memory is short */
#define COUNTING_BYTES (8ull << 20) /* the runtime's control page, the counter file's head, mappings for a moment */

#define LEAST_BYTES (128ull << 20) /* of address space or data: below it libraries of mtool's fail without a word */

static const int widened[] = {RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_CPU};
static struct {
    bool valid;
    struct rlimit limits[ARRAY_LEN(widened)];
    struct sigaction file_size;
} before;

static void set(int which, struct rlimit l)
{
    if (l.rlim_cur > l.rlim_max)
        l.rlim_max = l.rlim_cur;
    if (setrlimit(which, &l) == 0)
        return;
    struct rlimit now;
    getrlimit(which, &now);
    l.rlim_max = now.rlim_max; /* only root may raise it */
    if (l.rlim_cur > l.rlim_max)
        l.rlim_cur = l.rlim_max;
    setrlimit(which, &l);
}

static int check_memory(int which, const char *what, const char *option)
{
    struct rlimit now = {.rlim_max = RLIM_INFINITY};
    getrlimit(which, &now);
    if (now.rlim_max >= LEAST_BYTES)
        return 0;
    return diag_error("the hard limit of %s, %llu KB, leaves mtool too little: give it %llu KB or more "
                      "(ulimit -H -%s), or set the soft one only, which mtool lifts for itself",
                      what, (unsigned long long)now.rlim_max >> 10, LEAST_BYTES >> 10, option);
}

int launch_own_limits(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (before.valid)
        return 0;
    before.valid = true;
    sigaction(SIGXFSZ, &ignore, &before.file_size); /* a write then fails, and is reported */
    for (size_t i = 0; i < ARRAY_LEN(widened); i++) {
        getrlimit(widened[i], &before.limits[i]);
        set(widened[i], (struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    }
    return check_memory(RLIMIT_AS, "address space", "v") < 0 || check_memory(RLIMIT_DATA, "data", "d") < 0 ? -1 : 0;
}

void limits_restore(uint64_t more_bytes)
{
    for (size_t i = 0; before.valid && i < ARRAY_LEN(widened); i++) {
        struct rlimit l = before.limits[i];
        bool is_memory = widened[i] == RLIMIT_AS || widened[i] == RLIMIT_DATA;
        if (is_memory && l.rlim_cur != RLIM_INFINITY)
            l.rlim_cur += more_bytes;
        set(widened[i], l);
    }
    if (before.valid)
        sigaction(SIGXFSZ, &before.file_size, NULL);
}

uint64_t limits_more_bytes(const struct launch_program *p)
{
    uint64_t more = COUNTING_BYTES;
    if (p->copied_with.plan == REWRITE_REFERENCES)
        more += THREADS_THOUGHT_OF * (uint64_t)WIRE_STREAM_BYTES;
    for (size_t i = 0; i < p->module_count; i++) {
        const struct launch_module *m = &p->modules[i];
        struct stat copy;
        if (!m->copy || stat(m->copy, &copy) < 0)
            continue;
        more += (uint64_t)copy.st_size; /* the original, being part of it, may be smaller in memory than as a file */
        uint64_t times = p->counts_by_thread ? THREADS_THOUGHT_OF : 2; /* twice for a moment, while they are moved */
        more += times * ALIGN_UP(8ull * m->counter_count, 4096ull);
    }
    return more;
}
