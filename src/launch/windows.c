/* SPDX-License-Identifier: Apache-2.0
 * Windows of the program's instruction stream: its copy that carries only the runtime takes them (wire.h, struct
 * wire_windows), this brings them back with addresses as in the original files, and has slices of them chosen by the caller's
 * planner while snapshots wait. Code is where it was; the mappings come from /proc. Sees the first process only. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

enum { WORDS_A_STEP = 4, PART_WORDS = 8192, TRIES = 5000 /* of batches; each takes some tenths of a millisecond */ };
enum { TICKS_FOLLOW_TIME_SINCE = 604 /* Linux 6.4 */ };

bool windows_of_threads(void)
{
    struct utsname u;
    unsigned major = 0, minor = 0;
    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 && major * 100 + minor >= TICKS_FOLLOW_TIME_SINCE;
}

struct wire_windows *windows_file(struct scratch *f, const struct launch_options *opt, size_t *bytes)
{
    uint64_t words = (uint64_t)opt->window_steps * opt->window_most * WORDS_A_STEP;
    struct scratch_size z = {sizeof(struct wire_windows), 8 * PART_WORDS, words / PART_WORDS + 1, 0};
    struct wire_windows *w = scratch_map(f, &z, bytes);
    if (!w)
        return NULL;
    w->magic = WIRE_WINDOWS_MAGIC;
    w->capacity = f->parts * PART_WORDS;
    w->interval_ns = (uint64_t)(opt->window_interval_s * 1e9) + 1;
    w->is_width_known = opt->width_alone > 0;
    w->least_width = (uint64_t)(opt->width_alone * 65536);
    w->seed = 20261121;
    w->steps_most = opt->window_steps;
    w->by_process = opt->window_threads && windows_of_threads();
    w->window_most = (uint32_t)min_u64(opt->window_most, WIRE_WINDOWS_MOST);
    w->slices = opt->plan != NULL;
    w->tries_left = TRIES;
    return w;
}

/* ---- slices: keeper and program wait for them ---- */

struct planner {
    pthread_t thread;
    struct wire_windows *w;
    launch_plan plan;
    atomic_bool ends;
};

static void *serve(void *arg)
{
    struct planner *p = arg;
    while (!atomic_load(&p->ends)) {
        uint32_t turn = __atomic_load_n(&p->w->turn, __ATOMIC_ACQUIRE), window = turn / 4;
        if (turn % 4 == WIRE_TURN_PLANNING && window < WIRE_SLICED_WINDOWS) {
            p->plan(p->w, window);
            __atomic_compare_exchange_n(&p->w->turn, &turn, window * 4 + WIRE_TURN_REPLAYING, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
        }
        nanosleep(&(struct timespec){0, 300000}, NULL);
    }
    return NULL;
}

static bool planner_start(struct planner *p) { return p->plan && pthread_create(&p->thread, NULL, serve, p) == 0; }

static void planner_stop(struct planner *p, bool started)
{
    atomic_store(&p->ends, true);
    if (started)
        pthread_join(p->thread, NULL);
}

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

/* What is at work when the program ends may finish, unless the program was interrupted. */
static void settle(struct wire_windows *w, bool wait)
{
    int32_t pid;
    for (int i = 0; i < SETTLE_POLLS && (pid = __atomic_load_n(&w->busy, __ATOMIC_ACQUIRE)) && !has_ended(pid); i++) {
        if (!wait)
            __atomic_store_n(&w->abandoned, 1, __ATOMIC_RELAXED);
        nanosleep(&(struct timespec){0, SETTLE_NS}, NULL);
    }
    __atomic_store_n(&w->abandoned, 1, __ATOMIC_RELAXED);
}

/* ---- the words ---- */

uint64_t launch_place(struct spaces *spaces, uint64_t pc)
{
    uint32_t module;
    uint64_t vaddr;
    if (!spaces_locate(spaces, spaces_root(spaces), pc, &module, &vaddr) || module >= 2047 || vaddr >> 36)
        return LAUNCH_STEP_UNKNOWN;
    return (uint64_t)module << 36 | vaddr;
}

/* The words with places for addresses; false: they are not what the runtime writes. */
static bool translate(struct spaces *spaces, uint64_t *words, uint64_t count, uint64_t steps)
{
    uint64_t last_pc = 0, last_place = LAUNCH_STEP_UNKNOWN, at = 0;
    for (uint64_t i = 0; i < steps; i++) {
        if (at >= count)
            return false;
        uint64_t pc = words[at] & WIRE_STEP_ADDRESS, marks = words[at] & ~WIRE_STEP_ADDRESS;
        bool near = last_place != LAUNCH_STEP_UNKNOWN && pc / 4096 == last_pc / 4096; /* mappings are whole pages */
        uint64_t place = near ? last_place + (pc - last_pc) : launch_place(spaces, pc);
        words[at] = marks | place;
        at += 1 + (uint64_t)__builtin_popcountll(marks >> 48) + (marks & WIRE_STEP_BYTES ? 2 : 0);
        last_pc = pc;
        last_place = place;
    }
    return at <= count;
}

static struct launch_window slices_of(const struct wire_windows *w, uint32_t window, struct launch_window to, struct arena *a)
{
    if (!w->slices || window >= WIRE_SLICED_WINDOWS)
        return to;
    to.slice_count = (uint32_t)min_u64(w->slice_count[window], WIRE_SLICES_MOST);
    struct wire_slice *s = ARENA_ARRAY(a, struct wire_slice, to.slice_count + 1);
    memcpy(s, w->slice[window], to.slice_count * sizeof *s);
    to.slices = s;
    return to;
}

static void take_windows(const struct wire_windows *w, struct spaces *spaces, struct launch_result *r)
{
    uint32_t count = (uint32_t)min_u64(w->window_count, WIRE_WINDOWS_MOST);
    r->windows = ARENA_ARRAY(r->arena, struct launch_window, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_window *from = &w->windows[i];
        uint64_t end = i + 1 < count ? w->windows[i + 1].first : w->used;
        if (from->first > end || end > w->capacity || from->steps == 0)
            continue;
        uint64_t *words = ARENA_ARRAY(r->arena, uint64_t, end - from->first + 1);
        memcpy(words, w->data + from->first, 8 * (end - from->first));
        if (translate(spaces, words, end - from->first, from->steps))
            r->windows[r->window_count++] =
                slices_of(w, i, (struct launch_window){.words = words, .steps = (uint32_t)from->steps}, r->arena);
    }
}

int windows_run(struct launch_program *p, const struct launch_options *opt, const char *mute, struct launch_result *r)
{
    struct scratch f;
    size_t bytes = 0;
    const char *why = NULL, *copy = inside_copy(p, &why);
    if (!copy)
        return diag_error("%s: windows cannot be taken: %s", p->path, why ? why : "it cannot be rewritten");
    struct wire_windows *w = windows_file(&f, opt, &bytes);
    if (!w)
        return -1;
    struct spaces *spaces = NULL;
    struct inside_run run = {.copy = copy, .name = WIRE_WINDOWS_ENV, .file = f.path, .mute = mute, .spaces = &spaces};
    struct planner planner = {.w = w, .plan = opt->plan};
    bool plans = planner_start(&planner);
    int rc = inside_run(p, &run, r);
    settle(w, rc == 0 && WIFEXITED(r->status));
    planner_stop(&planner, plans);
    if (rc == 0 && w->started)
        take_windows(w, spaces, r);
    else
        r->windows_note = "the timer inside the program did not start";
    if (rc == 0 && w->started && !r->window_count)
        r->windows_note = "it hardly ran, or blocks signals, or no more processes may be made, or it executed another program";
    spaces_free(spaces);
    munmap(w, bytes);
    scratch_close(&f);
    return rc;
}
