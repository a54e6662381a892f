/* SPDX-License-Identifier: Apache-2.0
 * Threads, parallel regions and ranks as JSON: members of schema mtool-report-1. */
#include "report/impl.h"

static void put_objects(struct json *j, const struct prof_result *r, uint32_t thread, size_t *at)
{
    json_array(j, "objects");
    for (; *at < r->thread_object_count && r->thread_objects[*at].thread == thread; ++*at) {
        const struct prof_thread_object *o = &r->thread_objects[*at];
        json_object(j, NULL);
        json_u64(j, "object", o->object);
        json_real(j, "compute_s", o->compute_s);
        json_real(j, "memory_s", o->memory_s);
        json_real(j, "spin_s", o->spin_s);
        json_real(j, "blocked_s", o->blocked_s);
        member_count(j, "samples", o->samples);
        member_count(j, "instructions", o->instructions);
        member_count(j, "memory_ops", o->memory_ops);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_extra(struct json *j, const struct prof_extra *x)
{
    json_object(j, NULL);
    json_u64(j, "object", x->object);
    member_count(j, "instructions", x->instructions);
    member_count(j, "base_instructions", x->base_instructions);
    json_real(j, "ideal_s", x->ideal_s);
    json_real(j, "base_ideal_s", x->base_ideal_s);
    json_real(j, "extra_s", x->extra_s);
    json_object_end(j);
}

static void put_region(struct json *j, const struct prof_result *r, const struct prof_region *x, size_t *at,
                       struct arena *a)
{
    json_object(j, NULL);
    json_u64(j, "id", x->id);
    member_function(j, x->function, a);
    json_str(j, "module", x->module);
    json_hex(j, "address", x->address);
    json_str(j, "file", x->file);
    member_line(j, "line_first", x->line_first);
    member_line(j, "line_last", x->line_last);
    member_id(j, "object", x->object);
    json_u64(j, "threads", x->threads);
    json_u64(j, "thread_most", x->thread_most);
    json_real(j, "work_s", x->work_s);
    json_real(j, "mean_s", x->mean_s);
    json_real(j, "max_s", x->max_s);
    json_real(j, "imbalance", x->imbalance);
    json_real(j, "wait_s", x->wait_s);
    json_array(j, "each");
    for (; *at < r->region_thread_count && r->region_threads[*at].region == x->id; ++*at) {
        const struct prof_region_thread *p = &r->region_threads[*at];
        json_object(j, NULL);
        json_u64(j, "thread", p->thread);
        json_real(j, "work_s", p->work_s);
        json_real(j, "wait_s", p->wait_s);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void put_wait(struct json *j, const struct prof_wait *w, struct arena *a)
{
    json_object(j, NULL);
    json_u64(j, "thread", w->thread);
    member_id(j, "object", w->object);
    json_str(j, "called", w->into);
    json_str(j, "called_plain", w->into ? name_plain(a, w->into) : NULL);
    json_real(j, "spin_s", w->spin_s);
    json_real(j, "blocked_s", w->blocked_s);
    json_object_end(j);
}

static void put_thread(struct json *j, const struct prof_result *r, uint32_t i, size_t *at)
{
    const struct prof_thread *t = &r->thread[i];
    json_object(j, NULL);
    json_u64(j, "id", i);
    json_u64(j, "tid", t->tid);
    member_id(j, "rank", t->rank);
    json_bool(j, "ended", t->has_ended);
    json_real(j, "begin_s", t->begin_s);
    json_real(j, "wall_s", t->wall_s);
    json_real(j, "compute_s", t->compute_s);
    json_real(j, "memory_s", t->memory_s);
    json_real(j, "uncounted_s", t->uncounted_s);
    json_real(j, "system_s", t->system_s);
    json_real(j, "spin_s", t->spin_s);
    json_real(j, "blocked_s", t->blocked_s);
    json_real(j, "asleep_s", t->asleep_s);
    json_real(j, "ready_s", t->ready_s);
    member_count(j, "samples", t->samples);
    put_objects(j, r, i, at);
    json_object_end(j);
}

static void put_baseline(struct json *j, const struct prof_result *r)
{
    json_object(j, "baseline");
    member_id(j, "threads", r->baseline_threads);
    json_real(j, "user_s", r->baseline_user_s);
    member_count(j, "instructions", r->baseline_instructions);
    json_array(j, "extra");
    for (size_t i = 0; i < r->extra_count; i++)
        put_extra(j, &r->extras[i]);
    json_array_end(j);
    json_object_end(j);
}

static void put_threads(struct json *j, const struct prof_result *r, struct arena *a)
{
    size_t object = 0, each = 0;
    json_array(j, "thread");
    for (uint32_t i = 0; i < r->thread_count; i++)
        put_thread(j, r, i, &object);
    json_array_end(j);
    put_baseline(j, r);
    json_array(j, "region");
    for (size_t i = 0; i < r->region_count; i++)
        put_region(j, r, &r->regions[i], &each, a);
    json_array_end(j);
    json_array(j, "wait");
    for (size_t i = 0; i < r->wait_count; i++)
        put_wait(j, &r->waits[i], a);
    json_array_end(j);
}

/* ---- ranks ---- */

static void put_rank(struct json *j, const struct prof_rank *k)
{
    json_object(j, NULL);
    json_u64(j, "rank", k->rank);
    json_str(j, "profile", k->profile);
    json_i64(j, "exit", k->exit_status);
    json_real(j, "wall_s", k->wall_s);
    json_real(j, "user_s", k->user_s);
    json_real(j, "system_s", k->system_s);
    json_real(j, "predicted_user_s", k->predicted_user_s);
    json_real(j, "compute_s", k->compute_s);
    json_real(j, "memory_s", k->memory_s);
    json_real(j, "sync_s", k->sync_s);
    member_count(j, "instructions", k->instructions);
    member_count(j, "memory_ops", k->memory_ops);
    json_object_end(j);
}

static void put_share(struct json *j, const struct prof_rank_object *s)
{
    json_object(j, NULL);
    json_u64(j, "rank", s->rank);
    json_u64(j, "object", s->object);
    member_count(j, "instructions", s->instructions);
    member_count(j, "memory_ops", s->memory_ops);
    json_real(j, "ideal_s", s->ideal_s);
    json_real(j, "actual_s", s->actual_s);
    json_real(j, "memory_s", s->memory_s);
    member_count(j, "samples", s->samples);
    json_object_end(j);
}

static void put_spread(struct json *j, const struct prof_spread *s)
{
    json_object(j, NULL);
    json_u64(j, "object", s->object);
    json_u64(j, "ranks", s->ranks);
    json_real(j, "min_s", s->min_s);
    json_real(j, "mean_s", s->mean_s);
    json_real(j, "max_s", s->max_s);
    json_real(j, "imbalance", s->imbalance);
    json_u64(j, "rank_most", s->rank_most);
    json_object_end(j);
}

static void put_ranks(struct json *j, const struct prof_result *r)
{
    json_array(j, "ranks");
    for (size_t i = 0; i < r->rank_row_count; i++)
        put_rank(j, &r->ranks[i]);
    json_array_end(j);
    json_array(j, "rank_objects");
    for (size_t i = 0; i < r->rank_object_count; i++)
        put_share(j, &r->rank_objects[i]);
    json_array_end(j);
    json_array(j, "rank_spread");
    for (size_t i = 0; i < r->spread_count; i++)
        put_spread(j, &r->spreads[i]);
    json_array_end(j);
}

void shares_put_json(struct json *j, const struct prof_result *r, struct arena *a)
{
    put_threads(j, r, a);
    put_ranks(j, r);
}
