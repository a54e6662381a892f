/* SPDX-License-Identifier: Apache-2.0
 * Samples of the sampled run, while it is under way, for the process that makes copies meanwhile (ahead.c): a list in
 * memory that both share, which only grows. What is first made gets the samples that there are when its functions are
 * put in order; what is small is made before there are many, and made again once there are. Kept beside the feedback
 * as `heat-PROGRAM-MODULE`, since the copies' names depend on it, for as long as there is no feedback. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

enum {
    SAMPLES_MAX = 1 << 16, /* a minute's; what comes later says nothing new */
    PATIENCE_MS = 20,
    AGAIN_MIN = 200,     /* samples that make another copy worth it, */
    AGAIN_TIMES = 4,     /* so many times those that the last one knew, */
    AGAIN_ENOUGH = 1000, /* if these were fewer than so many */
    AGAIN_SHARE = 20     /* and one in so many of all */
};

struct launch_heat {
    atomic_size_t count;
    uint64_t keys[SAMPLES_MAX]; /* sample_key */
};

struct launch_heat *heat_new(void)
{
    void *h = mmap(NULL, sizeof(struct launch_heat), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return h == MAP_FAILED ? NULL : h;
}

void heat_free(struct launch_heat *h)
{
    if (h)
        munmap(h, sizeof *h);
}

void heat_note(struct launch_heat *h, uint32_t module, uint64_t vaddr)
{
    size_t n = h ? atomic_load_explicit(&h->count, memory_order_relaxed) : SAMPLES_MAX;
    if (n == SAMPLES_MAX)
        return;
    h->keys[n] = sample_key(module, vaddr);
    atomic_store_explicit(&h->count, n + 1, memory_order_release);
}

/* 32 hex digits that nobody else has. */
static void new_id(size_t module, char id[33])
{
    char text[100];
    snprintf(text, sizeof text, "%d %zu %llu", (int)getpid(), module, (unsigned long long)time_now_ns());
    file_hash_hex(text, strlen(text), id);
}

void heat_keep(const struct launch_program *p, size_t module, const struct rewrite_sample *samples, size_t count)
{
    const char *path = heat_path(p, module);
    struct rewrite_options known = feedback_options(p, module, &(struct rewrite_options){.plan = REWRITE_COUNT});
    uint64_t all = 0;
    char id[33];
    for (size_t k = 0; k < count; k++)
        all += samples[k].count;
    if (!path || known.feedback || known.heat || all < AGAIN_MIN)
        return;
    new_id(module, id);
    if (file_make_dirs(feedback_dir(p->arena), 0700) == 0)
        rewrite_heat_write(path, id, samples, count); /* if it cannot be written the order is the original's */
}

/* ---- in the process that makes copies ---- */

static int by_address(const void *a, const void *b)
{
    const struct rewrite_sample *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Those of a module by address, in `a`. */
static struct rewrite_sample *samples_of(struct arena *a, const struct launch_heat *h, size_t module, size_t *count,
                                         uint64_t *samples)
{
    size_t all = atomic_load_explicit(&h->count, memory_order_acquire), n = 0;
    struct rewrite_sample *s = ARENA_ARRAY(a, struct rewrite_sample, all + 1);
    for (size_t k = 0; k < all; k++)
        if (h->keys[k] >> 48 == module + 1)
            s[n++] = (struct rewrite_sample){h->keys[k] & ((1ull << 48) - 1), 1};
    *samples = n;
    *count = 0;
    if (n)
        qsort(s, n, sizeof *s, by_address);
    for (size_t k = 0; k < n; k++) {
        if (*count && s[*count - 1].addr == s[k].addr)
            s[*count - 1].count++;
        else
            s[(*count)++] = s[k];
    }
    return s;
}

struct settling {
    const struct launch_program *p;
    size_t module;
    const char *path;
    char id[33];
};

/* In the worker's process, when it is about to put functions in order. */
static void settle(void *ctx)
{
    const struct settling *s = ctx;
    struct arena *a = arena_new();
    size_t count;
    uint64_t samples;
    const struct rewrite_sample *all = samples_of(a, s->p->heat, s->module, &count, &samples);
    rewrite_heat_write(s->path, s->id, all, count); /* if it cannot be written the order is the original's */
    arena_free(a);
}

/* Options of a copy that nobody else makes; PATH holds no samples until they are wanted. */
static bool options_with(const struct launch_program *p, size_t module, const char *path, struct rewrite_options *opt)
{
    struct settling *s = ARENA_NEW(p->arena, struct settling);
    *s = (struct settling){.p = p, .module = module, .path = path};
    new_id(module, s->id);
    if (file_make_dirs(feedback_dir(p->arena), 0700) < 0 || rewrite_heat_write(path, s->id, NULL, 0) < 0)
        return false;
    opt->heat = path;
    opt->heat_settle = settle;
    opt->heat_ctx = s;
    return true;
}

void heat_begin(const struct launch_program *p, size_t module, struct rewrite_options *opt)
{
    const char *path = heat_path(p, module);
    if (p->heat && p->is_ahead && path && opt->plan == REWRITE_COUNT && !opt->feedback && !opt->heat)
        options_with(p, module, path, opt);
}

static bool is_worth_it(const struct launch_program *p, size_t module, const struct rewrite_options *known)
{
    struct arena *a = arena_new();
    char id[33];
    size_t count;
    uint64_t before = 0, now, all = atomic_load(&p->heat->count);
    rewrite_heat_id(known->heat, id, &before);
    samples_of(a, p->heat, module, &count, &now);
    arena_free(a);
    return !known->feedback && before < AGAIN_ENOUGH && now >= AGAIN_MIN && now >= AGAIN_TIMES * before &&
           now >= all / AGAIN_SHARE;
}

/* Whole before it takes the other's place: the program may end at any time. */
static void make_again(struct launch_program *p, size_t module, const struct rewrite_options *opt)
{
    const char *path = heat_path(p, module), *next;
    struct rewrite_options own = feedback_options(p, module, opt);
    struct copy known;
    if (!path || !is_worth_it(p, module, &own) || !copy_known(p->arena, p->modules[module].path, &own, &known) ||
        known.refused)
        return;
    next = arena_printf(p->arena, "%s.%d", path, (int)getpid());
    if (options_with(p, module, next, &own) && copy_make(p->arena, p->modules[module].path, &own) == 0)
        rename(next, path);
    unlink(next);
}

void heat_go_on(struct launch_program *p, const struct rewrite_options *opt)
{
    for (size_t seen = 0, now; seen < SAMPLES_MAX;) { /* each look takes memory: they are few */
        now = atomic_load(&p->heat->count);
        if (now < AGAIN_MIN || (now < SAMPLES_MAX && now < seen + seen / 4)) {
            nanosleep(&(struct timespec){0, PATIENCE_MS * 1000000L}, NULL);
            continue;
        }
        seen = now;
        for (size_t i = 0; i < p->module_count; i++)
            if (!p->modules[i].is_interp && !p->modules[i].other_program)
                make_again(p, i, opt);
    }
}
