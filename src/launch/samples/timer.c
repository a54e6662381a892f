/* SPDX-License-Identifier: Apache-2.0
 * The fallback sampler: the program's copy that carries only the runtime notes in a shared file where a timer of
 * processor time found it (wire.h, struct wire_samples); its code is where it was. The mappings come from /proc. Sees
 * the first process only. Kernel time counts at the system call that spent it. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch/impl.h"

static const double HERTZ_DEFAULT = 997;
#define SAMPLES_MAX (4u << 20) /* over an hour at 1 kHz; the kernel's tick makes it several */

struct wire_samples *timer_open(struct scratch *f, double hertz, size_t *bytes)
{
    struct scratch_size z = {sizeof(struct wire_samples), sizeof(struct wire_sample) * 4096, SAMPLES_MAX / 4096, 0};
    struct wire_samples *s = scratch_map(f, &z, bytes);
    if (!s)
        return NULL;
    s->magic = WIRE_SAMPLES_MAGIC;
    s->capacity = f->parts * 4096;
    s->period_ns = (uint64_t)(1e9 / (hertz > 0 ? hertz : HERTZ_DEFAULT) + 0.5);
    return s;
}

void timer_take(const struct wire_samples *s, struct spaces *spaces, struct threads *threads, struct launch_result *r)
{
    if (!s->started) {
        r->sampler_note = "perf_event is refused here and the timer inside the program did not start";
        return;
    }
    r->sampler_note = "perf_event is refused here";
    uint64_t n = min_u64(s->next, s->capacity);
    struct map places = {0};
    for (uint64_t i = 0; i < n; i++) {
        struct observed_place at;
        uint64_t seen = 0;
        if (!spaces_locate(spaces, spaces_root(spaces), s->sample[i].pc, &at.module, &at.vaddr))
            at = (struct observed_place){ID_NONE, OBSERVED_VADDR_UNKNOWN};
        if (threads)
            threads_sample(threads, s->sample[i].tid, 0,
                           &(struct observed_thread_sample){.activity = OBSERVED_RUNS,
                                                            .syscall = -1,
                                                            .stack = stacks_single(threads_stacks(threads), at)});
        uint64_t key = sample_key(at.module, at.vaddr);
        map_get(&places, key, &seen);
        map_put(&places, key, seen + 1);
    }
    r->sampler = LAUNCH_SAMPLER_TIMER;
    r->samples_all = r->samples_user = n;
    r->samples_lost = s->next - n;
    /* The kernel looks at such timers at its own tick only, so the period asked for is not the one that was. */
    r->sample_period_s = s->next ? (r->user_s + r->system_s) / (double)s->next : 0;
    process_fill_samples(&places, r);
    map_fini(&places);
}

int timer_run(struct launch_program *p, double hertz, const struct start *plain, struct launch_result *r, bool *ran)
{
    struct scratch f;
    size_t bytes = 0;
    const char *copy = in_process_copy(p, NULL);
    *ran = false;
    r->sampler_note = "perf_event is refused and the executable could not be made ready for the timer";
    if (!copy)
        return 0;
    struct wire_samples *s = timer_open(&f, hertz, &bytes);
    if (!s)
        return 0;
    struct spaces *spaces = NULL;
    struct in_process_run run = {.copy = copy,
                                 .name = WIRE_SAMPLES_ENV,
                                 .file = f.path,
                                 .mute = plain->mute,
                                 .spaces = &spaces,
                                 .threads = plain->threads};
    int rc = in_process_run(p, &run, r);
    if (rc == 0)
        timer_take(s, spaces, plain->threads, r);
    *ran = rc == 0;
    spaces_free(spaces);
    munmap(s, bytes);
    scratch_close(&f);
    return rc;
}
