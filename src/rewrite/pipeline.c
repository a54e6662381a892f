/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of the rewriter: a straight list of passes over one struct rw.
 */
#include "rewrite/impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOKED_AT_MAX (8u << 20)
#define REWRITE_FORMAT "mtool-rewrite-84" /* part of every copy's identity: change it when copies change */

static void set_key(struct rw *w)
{
    struct strbuf s = {0};
    str_printf(&s, "%s %s ", REWRITE_FORMAT, w->img->key);
    rewrite_options_put(w->opt, &s);
    char hex[33];
    file_hash_hex(s.data, s.len, hex);
    for (int i = 0; i < 16; i++) {
        char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
        w->key[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    str_free(&s);
}

/* What the planning passes filled, before they run again with fewer functions. */
static void forget_plan(struct rw *w)
{
    rw_fragments_free(w);
    if (w->instrument->forget)
        w->instrument->forget(w);
    VEC_FREE(&w->patches);
    VEC_FREE(&w->hooks);
    VEC_FREE(&w->group_edges);
    VEC_FREE(&w->tables);
    VEC_FREE(&w->steps);
    VEC_FREE(&w->promoted);
    w->promoted_of = NULL;
    w->vectors = 0;
    w->is_cold = NULL;
    w->heat = NULL;
    map_fini(&w->ref_table);
    str_free(&w->ro);
    w->group_count = w->counter_count = 0;
    arena_free(w->arena);
    arena_free(w->scratch);
    w->arena = w->scratch = NULL;
}

static int timed(const char *pass, int rc, double *since)
{
    double now = time_now_s();
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    diag_debug(1, "rewrite: %-8s %7.3f s, %4ld MB so far", pass, now - *since, use.ru_maxrss >> 10);
    *since = now;
    return rc;
}

static int refuse_too_large(const struct rw *w)
{
    return diag_error("%s: too large to be rewritten: its copy would be out of reach of 32-bit distances",
                      w->img->path);
}

struct ending { /* the copy and its map, made at the same time */
    struct rw *w;
    const char *out, *map, *real;
    char *temporary; /* the map, not in place yet */
    int rc, map_error;
};

static void end_copy(void *ctx)
{
    struct ending *e = ctx;
    e->rc = rw_write(e->w, e->out);
}

static void end_map(void *ctx)
{
    struct ending *e = ctx;
    struct strbuf bytes;
    rw_map_pack(e->w, e->real, &bytes);
    e->temporary = file_write_temporary(e->map, bytes.data, bytes.len, 0644, false);
    e->map_error = e->temporary ? 0 : errno;
    str_free(&bytes);
}

static int end(struct rw *w, const char *out, const char *map)
{
    if (!map)
        return rw_write(w, out);
    const char *real = file_real_path(w->arena, w->img->path);
    struct ending e = {.w = w, .out = out, .map = map, .real = real ? real : w->img->path};
    parallel_both(end_copy, end_map, &e);
    if (e.rc < 0 && e.temporary)
        unlink(e.temporary);
    if (e.rc < 0 || !e.temporary) {
        free(e.temporary);
        return e.rc < 0 ? e.rc : diag_error("%s: cannot be written: %s", map, strerror(e.map_error));
    }
    return file_rename_into_place(e.temporary, map) == 0
               ? 0
               : diag_error("%s: cannot be written: %s", map, strerror(errno));
}

/* A file may be odd in ways that show only in its copy. Reading again takes some hundredths of a second in the largest
 * that are looked at; in those beyond it would be felt. */
static int read_again(const struct rw *w, const char *out, const char *map)
{
    struct image *copy = NULL;
    struct image_unwind u;
    struct strbuf why = {0};
    diag_hold(&why);
    int rc = image_open_copy(out, &copy);
    if (rc == 0)
        rc = image_unwind_read(copy, &u);
    diag_hold(NULL);
    image_close(copy);
    if (rc < 0) {
        unlink(out);
        if (map)
            unlink(map);
        diag_error("%s: cannot be rewritten: its copy would not be well formed (%s); the file is corrupt, or unlike "
                   "all that mtool knows",
                   w->img->path, why.data);
    }
    str_free(&why);
    return rc;
}

static int end_and_look(struct rw *w, const char *out, const char *map)
{
    int rc = end(w, out, map);
    return rc == 0 && w->img->len_bytes <= LOOKED_AT_MAX ? read_again(w, out, map) : rc;
}

static int run_passes(struct rw *w, const char *out, const char *map)
{
    double t = time_now_s();
    if (w->img->vaddr_hi - w->img->vaddr_lo > INT32_MAX) /* first: memory for facts about addresses goes by this */
        return refuse_too_large(w);
    if (timed("cfg", rw_build_cfg(w), &t) < 0)
        return -1;
    for (;;) {
        w->arena = arena_new();
        w->scratch = arena_new();
        rw_feedback(w); /* what an earlier run counted, for plan and layout */
        rw_decide(w);   /* which functions move; must be first: a function left alone changes what edges mean */
        timed("decide", 0, &t);
        rw_plan(w); /* what is inserted: which blocks and edges are counted, say */
        timed("plan", 0, &t);
        if (w->instrument->place)
            w->instrument->place(w); /* where in blocks it stands, and how */
        timed("place", 0, &t);
        rw_fragments(w); /* what each function's copy is made of */
        arena_free(w->scratch);
        w->scratch = NULL;
        timed("list", 0, &t);
        rw_layout(w); /* sizes and addresses of code and tables */
        timed("layout", 0, &t);
        int rc = timed("unwind", rw_unwind(w), &t); /* before emit: its size decides where the counters are */
        if (rc == 0)
            break;
        if (rc == RW_UNWIND_OUT_OF_REACH)
            return refuse_too_large(w);
        forget_plan(w);
    }
    rw_data(w); /* addresses of the counters */
    if (rw_open(w, out) < 0)
        return -1;
    if (timed("emit", rw_emit(w, out), &t) < 0)
        return -1;
    w->stats->insns = w->cfg->insns.len;
    w->stats->owns_gs = rw_owns_gs(w);
    VEC_FREE(&w->cfg->insns); /* nobody reads them any more; what follows needs room */
    return timed("write", end_and_look(w, out, map), &t);
}

static void fill_stats(struct rw *w, struct rewrite_stats *s)
{
    for (uint32_t f = 0; f < w->cfg->funcs.len; f++) {
        s->funcs++;
        s->funcs_moved += w->funcs[f].is_moved;
        s->refused[w->cfg->funcs.data[f].reason]++;
        if (w->funcs[f].is_moved) {
            s->text_bytes_old += w->cfg->funcs.data[f].size;
            s->text_bytes_new += w->funcs[f].size_new;
        }
    }
    s->code_bytes = w->cfg->bytes_code;
    s->wants_samples = w->cfg->unproven != 0;
    s->blocks = w->cfg->blocks.len;
    s->edges = w->cfg->edges.len;
    s->counters = w->counter_count;
    memcpy(s->key, w->key, sizeof s->key);
    s->file_bytes_new = w->rw_vaddr + RW_DATA_BYTES - rw_file_bias(w->img);
}

static void free_plan(void *ctx)
{
    struct rw *w = ctx;
    forget_plan(w);
}

static void free_cfg(void *ctx)
{
    struct rw *w = ctx;
    cfg_free(w->cfg);
}

int rewrite_file(const char *in, const struct rewrite_options *opt, const char *out, const char *map,
                 struct rewrite_stats *stats)
{
    struct rewrite_stats ignored = {0};
    struct rw w = {.opt = opt, .instrument = rw_instruments[opt->plan], .stats = stats ? stats : &ignored};
    memset(w.stats, 0, sizeof *w.stats);
    double start = time_now_s();
    if (image_open(in, &w.img) < 0)
        return -1;
    int rc = -1;
    if (w.img->foreign_runtime) {
        diag_error("%s: made by %s, whose run time reads its own code: it cannot be rewritten", in,
                   w.img->foreign_runtime);
    } else {
        set_key(&w);
        rc = run_passes(&w, out, map);
        if (rc == 0)
            fill_stats(&w, w.stats);
    }
    parallel_both(free_plan, free_cfg, &w);
    image_close(w.img);
    w.stats->seconds = time_now_s() - start;
    return rc;
}
