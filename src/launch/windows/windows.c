/* SPDX-License-Identifier: Apache-2.0
 * Windows of the program's instruction stream that are taken step by step, in the run that takes bursts (bursts.c): its
 * file (wire.h, struct wire_windows), slices of them chosen by the caller's planner while snapshots wait, and in the
 * end what was noted, with addresses as in the original files. Sees the first process only. */
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

enum { WORDS_A_STEP = 4, PART_WORDS = 8192 };
static const uint64_t WAIT_NS = 2000000000; /* for a core that nobody shares: what a user bears beside the run itself */

int windows_open(struct windows *s, const struct launch_burst_options *opt)
{
    uint64_t words = (uint64_t)opt->steps * opt->stepped_max * WORDS_A_STEP;
    struct scratch_size z = {sizeof(struct wire_windows), 8 * PART_WORDS, words / PART_WORDS + 1, 0};
    *s = (struct windows){.plan = opt->plan, .ctx = opt->ctx};
    struct wire_windows *w = s->w = scratch_map(&s->file, &z, &s->bytes);
    if (!w)
        return -1;
    w->magic = WIRE_WINDOWS_MAGIC;
    w->capacity = s->file.parts * PART_WORDS;
    w->steps_max = opt->steps;
    w->window_max = (uint32_t)min_u64(opt->stepped_max, WIRE_WINDOWS_MAX);
    w->slices = opt->plan != NULL;
    w->limit_ns = (uint64_t)(1e9 * opt->steps_limit_s);
    w->expected_ns = (uint64_t)(1e9 * opt->expected_s);
    uint64_t limit_ns = opt->after_s > 0 ? (uint64_t)(1e9 * opt->after_s) : w->limit_ns;
    w->quiet_max_ns = w->quiet_now_ns = limit_ns ? min_u64(WAIT_NS, limit_ns / 2) : WAIT_NS;
    return 0;
}

void windows_close(struct windows *s)
{
    munmap(s->w, s->bytes);
    scratch_close(&s->file);
}

/* ---- slices: checkpoint and program wait for them ---- */

static void *serve(void *arg)
{
    struct windows *s = arg;
    while (!atomic_load(&s->ends)) {
        uint32_t turn = __atomic_load_n(&s->w->turn, __ATOMIC_ACQUIRE), window = turn / 4;
        if (turn % 4 == WIRE_TURN_PLANNING && window < WIRE_SLICED_WINDOWS) {
            s->plan(s->ctx, s->w, window);
            __atomic_compare_exchange_n(&s->w->turn, &turn, window * 4 + WIRE_TURN_REPLAYING, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
        }
        nanosleep(&(struct timespec){0, 300000}, NULL);
    }
    return NULL;
}

void windows_begin(struct windows *s) { s->is_served = s->plan && signals_thread(&s->server, serve, s); }

enum { SETTLE_POLLS = 8000, SETTLE_NS = 1000000 };

/* A process that has ended, or is not there. */
static bool has_ended(int32_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    const char *name_end = strrchr(text, ')');
    return !name_end || name_end[1] != ' ' || name_end[2] == 'Z' || name_end[2] == 'X';
}

void windows_end(struct windows *s, bool wait)
{
    struct wire_windows *w = s->w;
    int32_t pid;
    for (int i = 0; i < SETTLE_POLLS && (pid = __atomic_load_n(&w->busy, __ATOMIC_ACQUIRE)) && !has_ended(pid); i++) {
        if (!wait)
            __atomic_store_n(&w->abandoned, 1, __ATOMIC_RELAXED);
        nanosleep(&(struct timespec){0, SETTLE_NS}, NULL);
    }
    __atomic_store_n(&w->abandoned, 1, __ATOMIC_RELAXED);
    atomic_store(&s->ends, true);
    if (s->is_served)
        pthread_join(s->server, NULL);
    diag_debug(1, "windows: %u checkpoints went another way than was recorded and were ended", w->diverged);
    const struct wire_waited *t = &w->waited;
    diag_debug(1,
               "windows: the program waited %.2f s for bursts and %.2f s for windows, recording %.2f, planning %.2f, "
               "for a quiet core %.2f",
               1e-9 * (double)t->bursts, 1e-9 * (double)t->windows, 1e-9 * (double)t->recording,
               1e-9 * (double)t->planning, 1e-9 * (double)t->quiet);
}

/* ---- places ---- */

uint64_t launch_place(struct spaces *spaces, uint64_t pc)
{
    uint32_t module;
    uint64_t vaddr;
    if (!spaces_locate(spaces, spaces_root(spaces), pc, &module, &vaddr) || module >= OBSERVED_PLACE_MODULES ||
        vaddr != OBSERVED_PLACE_VADDR(vaddr))
        return OBSERVED_PLACE_UNKNOWN;
    return OBSERVED_PLACE(module, vaddr);
}
