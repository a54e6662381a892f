/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of references (wire/stream.h), by the host's side: one thread goes round all areas of the counter file,
 * hands each chunk that is full to the caller, and gives it back; after the program's end what is left in chunks that
 * were begun. What is in an area the program may have written by mistake: it is believed only as far as it can be so.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "launch/impl.h"

enum { NAP_NS = 50000000, SHORT_NAP_NS = 500000 };
enum { LOOK_TICKS = 5000000, IDLE_TICKS = 20000000 }; /* some 2 and 8 ms */

static long futex(const void *at, int op, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, at, op, value, limit, NULL, 0);
}

/* ---- modules by what entries call them ---- */

static uint32_t first_slot(uint32_t tag) { return tag * 2654435761u >> (32 - LAUNCH_TAG_BITS); }

/* Two files with the same content are one: the first. */
static int add_tag(struct launch_tags *t, const struct launch_program *p, uint32_t module)
{
    const uint8_t *key = p->modules[module].wire_key;
    uint32_t tag = wire_stream_module(key), k = first_slot(tag);
    for (; t->module[k]; k = (k + 1) % LAUNCH_TAGS)
        if (t->tag[k] == tag)
            return memcmp(p->modules[t->module[k] - 1].wire_key, key, WIRE_KEY_BYTES) ? -1 : 0;
    t->tag[k] = tag;
    t->module[k] = module + 1;
    return 0;
}

static int make_tags(struct launch_tags *t, const struct launch_program *p)
{
    memset(t, 0, sizeof *t);
    if (p->module_count > LAUNCH_TAGS / 2)
        return diag_error("%s: loads %zu files; references are told of %d at most", p->path, p->module_count,
                          LAUNCH_TAGS / 2);
    for (size_t i = 0; i < p->module_count; i++)
        if (p->modules[i].copy && add_tag(t, p, (uint32_t)i) < 0)
            return diag_error("%s: its references could not be told from those of another file; this happens to one "
                              "pair of files in 4000 million",
                              p->modules[i].path);
    return 0;
}

uint32_t launch_tag_module(const struct launch_tags *t, uint32_t tag)
{
    uint32_t k = first_slot(tag);
    for (unsigned n = 0; t->module[k] && n < LAUNCH_TAGS; n++, k = (k + 1) % LAUNCH_TAGS)
        if (t->tag[k] == tag)
            return t->module[k] - 1;
    return ID_NONE;
}

/* ---- areas ---- */

static struct wire_stream *map_area(const struct references *s, uint32_t area)
{
    uint64_t at = WIRE_HEADER_BYTES + area * s->counters->plan->area_bytes;
    void *m = mmap(NULL, WIRE_STREAM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s->counters->file.fd, (off_t)at);
    return m == MAP_FAILED ? NULL : m;
}

static struct wire_paths *paths_of(void *area)
{
    return area ? (struct wire_paths *)(void *)((char *)area + WIRE_STREAM_PATHS) : NULL;
}

static void see_areas(struct references *s)
{
    uint64_t taken = __atomic_load_n(&s->counters->header->area_next, __ATOMIC_ACQUIRE);
    for (uint64_t n = min_u64(taken, s->counters->plan->area_max); s->area_count < n; s->area_count++) {
        void *area = map_area(s, s->area_count);
        s->areas[s->area_count] = (struct references_area){.stream = area, .paths = paths_of(area)};
        s->is_broken |= !s->areas[s->area_count].stream;
    }
}

static void take_now(const struct references *s, const struct launch_chunk *c)
{
    if (s->queue)
        reference_queue_wait(s->queue);
    s->opt->take(s->opt->ctx, c);
}

static uint64_t chunk_at(uint64_t number)
{
    return WIRE_STREAM_RING + number % WIRE_CHUNKS * (uint64_t)WIRE_CHUNK_BYTES;
}

/* Leaves zeros, so that an entry that a signal kept from being made says nothing when its place comes again. */
static void hand_over(struct references *s, uint32_t area, const struct wire_chunk *c, uint64_t at, uint64_t bytes)
{
    struct references_area *a = &s->areas[area];
    const struct wire_stream *w = a->stream;
    const struct wire_header *h = s->counters->header;
    struct wire_entry *entries = (struct wire_entry *)(void *)((char *)a->stream + at);
    struct launch_chunk chunk = {.area = area,
                                 .pid = s->counters->plan->follows ? h->areas[area].pid : 0,
                                 .forks = c->event == WIRE_CHUNK_FORKS,
                                 .loads = c->event == WIRE_CHUNK_LOADS,
                                 .number = a->taken + 1,
                                 .position = wire_position(a->taken, at - chunk_at(a->taken)),
                                 .parent = w->parent && w->parent <= area ? (uint32_t)w->parent - 1 : ID_NONE,
                                 .parent_number = w->parent_filled,
                                 .process = w->process,
                                 .thread = c->thread,
                                 .begin = max_u64(c->begin, a->since),
                                 .end = c->end,
                                 .fs = c->fs,
                                 .entries = entries,
                                 .paths = a->paths,
                                 .count = bytes / sizeof(struct wire_entry),
                                 .is_between = s->samples && !a->is_in,
                                 .has_others = __atomic_load_n(&h->threads, __ATOMIC_RELAXED) != 0};
    s->counters->header->streams.heartbeat++;
    if (chunk.count && s->queue)
        reference_queue_take(s->queue, &chunk);
    else if (chunk.count || chunk.forks || chunk.loads)
        take_now(s, &chunk);
    memset(entries, 0, chunk.count * sizeof *entries);
}

static void hand_over_up_to(struct references *s, uint32_t area, const struct wire_chunk *c, uint64_t to)
{
    struct references_area *a = &s->areas[area];
    if (to > a->taken_bytes)
        hand_over(s, area, c, chunk_at(a->taken) + a->taken_bytes, to - a->taken_bytes);
    a->taken_bytes = max_u64(a->taken_bytes, to);
}

/* The first cut of the area, if it lies there or further up. */
static const struct references_cut *cut_before(const struct references_area *a, uint64_t to)
{
    const struct references_cut *cut = &a->cuts[0];
    bool has_come = a->cut_count && (cut->chunk < a->taken || (cut->chunk == a->taken && cut->bytes <= to));
    return has_come ? cut : NULL;
}

void references_hand_over(struct references *s, uint32_t area, const struct wire_chunk *c, uint64_t to_bytes)
{
    struct references_area *a = &s->areas[area];
    uint64_t to = min_u64(to_bytes, WIRE_CHUNK_BYTES);
    for (const struct references_cut *cut; (cut = cut_before(a, to));) {
        struct wire_chunk part = *c;
        part.end = min_u64(c->end, cut->time);
        if (cut->chunk == a->taken)
            hand_over_up_to(s, area, &part, cut->bytes);
        a->is_in = cut->begins;
        a->since = cut->time;
        a->cuts[0] = a->cuts[1];
        a->cut_count--;
    }
    if (!to && c->event)
        hand_over(s, area, c, chunk_at(a->taken), 0);
    hand_over_up_to(s, area, c, to);
}

/* What its parent told before the fork comes first. */
static void take_parent(struct references *s, uint32_t area)
{
    const struct wire_stream *w = s->areas[area].stream;
    if (s->areas[area].taken || !w->parent || w->parent > area)
        return;
    uint32_t parent = (uint32_t)w->parent - 1;
    for (uint64_t to = w->parent_filled; s->areas[parent].taken < to && references_take_chunk(s, parent);)
        continue;
}

bool references_take_chunk(struct references *s, uint32_t area)
{
    struct references_area *a = &s->areas[area];
    struct wire_stream *w = a->stream;
    uint64_t filled = w ? __atomic_load_n(&w->filled, __ATOMIC_ACQUIRE) : 0;
    if (!w || filled == a->taken)
        return false;
    if (filled - a->taken > WIRE_CHUNKS) {
        s->is_broken = true;
        a->stream = NULL;
        return false;
    }
    if (!a->taken) {
        take_parent(s, area);
        references_see_begin(s, area);
    }
    struct wire_chunk c = w->chunks[a->taken % WIRE_CHUNKS];
    references_hand_over(s, area, &c, c.bytes);
    if (s->queue && (a->taken == 0 || c.event == WIRE_CHUNK_LOADS))
        reference_queue_wait(s->queue); /* what is mapped is looked at while the process is there */
    a->taken_bytes = 0;
    __atomic_store_n(&w->emptied, ++a->taken, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&w->waits, __ATOMIC_SEQ_CST))
        futex(&w->emptied, FUTEX_WAKE, INT_MAX, NULL);
    return true;
}

void references_take_rest(struct references *s, uint32_t area)
{
    const struct wire_stream *w = s->areas[area].stream;
    uint64_t at = chunk_at(s->areas[area].taken);
    if (!w)
        return;
    s->lost += (w->lost + (w->drops ? w->put - w->start : 0)) / sizeof(struct wire_entry);
    if (w->drops || w->start != WIRE_STREAM_VADDR + at || w->put <= w->start)
        return;
    take_parent(s, area);
    references_hand_over(s, area, &(struct wire_chunk){w->begin, __builtin_ia32_rdtsc(), 0, w->thread, w->fs, 0},
                         w->put - w->start);
}

/* ---- chunks that are begun ---- */

uint64_t references_end_of_made(const struct wire_stream *w, uint64_t at, uint64_t put)
{
    uint64_t made = at;
    for (uint64_t next = at; next < put; at = next) {
        const struct wire_entry *e = (const struct wire_entry *)(const void *)((const char *)w + at);
        made = at;
        if (!__atomic_load_n(&e->address, __ATOMIC_ACQUIRE))
            break;
        next = at + (1 + (wire_is_event(e) ? wire_event_entries(e) : 0)) * sizeof *e;
    }
    return made;
}

void references_take_made(struct references *s, uint32_t area, uint64_t until)
{
    struct references_area *a = &s->areas[area];
    const struct wire_stream *w = a->stream;
    uint64_t at = chunk_at(a->taken), put = w ? __atomic_load_n(&w->put, __ATOMIC_ACQUIRE) - WIRE_STREAM_VADDR : 0;
    if (!w || !a->taken || w->drops || __atomic_load_n(&w->filled, __ATOMIC_ACQUIRE) != a->taken)
        return;
    if (put <= at + a->taken_bytes || put - at > WIRE_CHUNK_BYTES)
        return;
    uint64_t to = references_end_of_made(w, at + a->taken_bytes, put) - at;
    if (to <= a->taken_bytes)
        return;
    references_hand_over(s, area, &(struct wire_chunk){w->begin, until, 0, w->thread, w->fs, 0}, to);
    a->since = max_u64(a->since, until);
}

/* Of a thread that tells no more for a while, or is gone: else it would come behind what others tell of it later, as
 * that they give back what it allocated. */
static void take_of_waiting(struct references *s, uint32_t area, uint64_t now)
{
    struct references_area *a = &s->areas[area];
    uint64_t put = a->stream ? __atomic_load_n(&a->stream->put, __ATOMIC_ACQUIRE) : 0;
    if (put != a->put) {
        a->put = put;
        a->put_seen = now;
    } else if (now - a->put_seen > IDLE_TICKS) {
        references_take_made(s, area, a->put_seen);
    }
}

static void take_of_all_waiting(struct references *s)
{
    uint64_t now = __builtin_ia32_rdtsc();
    if (s->area_count < 2 || now - s->looked < LOOK_TICKS)
        return;
    s->looked = now;
    for (uint32_t area = 0; area < s->area_count; area++)
        take_of_waiting(s, area, now);
}

/* ---- the thread ---- */

/* In turn, so that no area waits long. */
bool references_go_round(struct references *s)
{
    bool any = false;
    see_areas(s);
    for (uint32_t area = 0; area < s->area_count; area++)
        any |= references_take_chunk(s, area);
    take_of_all_waiting(s);
    references_see_ends(s);
    s->counters->header->streams.heartbeat++;
    return any;
}

static void wait_for_chunks(struct references *s, uint64_t nap_ns)
{
    struct wire_streams *h = &s->counters->header->streams;
    uint32_t seen = __atomic_load_n(&h->filled, __ATOMIC_SEQ_CST);
    __atomic_store_n(&h->waits, 1, __ATOMIC_SEQ_CST);
    if (h->unwoken)
        nap_ns = min_u64(nap_ns, SHORT_NAP_NS);
    if (!references_go_round(s) && !atomic_load(&s->ends))
        futex(&h->filled, FUTEX_WAIT, seen, &(struct timespec){0, (long)nap_ns});
    __atomic_store_n(&h->waits, 0, __ATOMIC_SEQ_CST);
}

static void *drain(void *arg)
{
    struct references *s = arg;
    prctl(PR_SET_TIMERSLACK, 1ul); /* samples end in time */
    while (!atomic_load(&s->ends)) {
        uint64_t nap_ns = s->samples ? min_u64(reference_samples_step(s), NAP_NS) : NAP_NS;
        if (!references_go_round(s))
            wait_for_chunks(s, nap_ns);
    }
    for (uint32_t n = 0; n < WIRE_CHUNKS && references_go_round(s); n++) /* who goes on in the background fills more */
        continue;
    for (uint32_t area = 0; area < s->area_count; area++)
        references_take_rest(s, area);
    if (s->samples)
        reference_samples_end(s);
    diag_debug(1, "reading references took %.4f s of processor time", time_of_thread_s());
    return NULL;
}

/* ---- begin and end ---- */

int references_begin(struct references *s, const struct launch_program *p, const struct counters *c,
                     const struct launch_reference_options *opt)
{
    *s = (struct references){.counters = c, .opt = opt};
    if (!p->counts_by_thread)
        return diag_error("%s: it, or a library of its, uses the processor's register gs for itself, which references "
                          "are told by; only 'mtool run' and 'mtool count' do without",
                          p->path);
    if (!c->header)
        return 0; /* nothing of it has a copy */
    s->tags = xmalloc(sizeof *s->tags);
    if (make_tags(s->tags, p) < 0)
        return -1;
    s->areas = xmalloc_sparse(WIRE_AREAS_MAX * sizeof *s->areas);
    if (opt->begin)
        opt->begin(opt->ctx, s->tags);
    if (opt->samples) {
        s->samples = reference_samples_new(opt->samples);
        s->queue = reference_queue_new(opt);
    }
    s->is_running = signals_thread(&s->thread, drain, s);
    return s->is_running ? 0 : diag_error("cannot make a thread: %s", strerror(errno));
}

/* Chunks that somebody holds still have them. */
static void keep_paths(const struct references *s, struct launch_result *r)
{
    r->paths = ARENA_ARRAY(r->arena, struct wire_paths *, s->area_count + 1);
    for (uint32_t area = 0; area < s->area_count; area++)
        r->paths[area] = s->areas[area].paths;
    r->paths_len = s->area_count;
}

void references_end(struct references *s, struct launch_result *r)
{
    atomic_store(&s->ends, true);
    if (s->counters->header)
        s->counters->header->streams.ends = 1;
    if (s->is_running) {
        futex(&s->counters->header->streams.filled, FUTEX_WAKE, 1, NULL);
        pthread_join(s->thread, NULL);
    }
    for (uint32_t area = 0; area < s->area_count; area++)
        if (s->areas[area].stream)
            munmap(s->areas[area].stream, WIRE_STREAM_PATHS);
    keep_paths(s, r);
    reference_queue_free(s->queue);
    reference_samples_free(s->samples);
    xfree_sparse(s->areas);
    free(s->tags);
    r->references_lost = s->lost;
    r->references_broken = s->is_broken;
}
