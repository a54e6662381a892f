/* SPDX-License-Identifier: Apache-2.0
 * mtool ld-trace: runs a command, and traces the programs in it that mtool ld linked for that; or reads such a trace in
 * the compact form. References are written in one of the forms, or run through caches, or both. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cmd/cmd.h"
#include "cmd/ld/child.h"
#include "launch/launch.h"
#include "ld/trace/trace.h"
#include "wire/trace.h"

enum { READ_MAX = 1 << 14, CONFIGS_MAX = 16 };

struct job {
    const struct cmd_args *args;
    const char *output; /* NULL: none */
    int fd;
    bool is_made, has_failed;
    struct ld_trace_writer *writer;
    struct cache_config configs[CONFIGS_MAX];
    size_t cache_count;
    struct ld_trace_sim *sim; /* NULL: no caches */
    uint64_t references[CACHE_KIND_COUNT + 1];
};

/* ---- what becomes of references ---- */

static int fail_output(struct job *j, int error)
{
    if (!j->has_failed)
        diag_error("ld-trace: cannot write to %s: %s", j->fd == STDOUT_FILENO ? "standard output" : j->output,
                   strerror(error));
    j->has_failed = true;
    return -1;
}

static void take(void *ctx, const struct ld_trace_thread *who, const struct cache_ref *refs, size_t count)
{
    struct job *j = ctx;
    for (size_t i = 0; i < count; i++)
        j->references[refs[i].kind]++;
    if (j->sim)
        ld_trace_sim_refs(j->sim, who, refs, count);
    if (!j->writer || j->has_failed)
        return;
    ld_trace_writer_put(j->writer, who, refs, count);
    if (ld_trace_writer_error(j->writer))
        fail_output(j, ld_trace_writer_error(j->writer));
}

static int open_caches(struct job *j)
{
    const struct cmd_texts *specs = &j->args->caches;
    if (specs->count > CONFIGS_MAX)
        return diag_error("ld-trace: --cache can be given %d times at most", (int)CONFIGS_MAX);
    for (size_t i = 0; i < specs->count; i++) {
        if (cache_parse(specs->all[i], &j->configs[i]) < 0)
            return -1;
        j->cache_count++;
    }
    if (j->cache_count)
        j->sim = ld_trace_sim_new(j->configs, j->cache_count);
    return 0;
}

static int open_output(struct job *j)
{
    const struct cmd_args *a = j->args;
    j->fd = -1;
    if (a->caches.count && !a->output)
        return 0;
    j->output = a->output;
    if (!j->output)
        j->output = a->trace ? "-" : arena_printf(a->arena, "%s.trace", file_base_name(a->rest[0]));
    bool is_standard = strcmp(j->output, "-") == 0;
    int how = O_WRONLY | O_CREAT | O_CLOEXEC | (a->force ? O_TRUNC : O_EXCL);
    j->fd = is_standard ? STDOUT_FILENO : open(j->output, how, 0666);
    if (j->fd < 0 && errno == EEXIST)
        return diag_error("ld-trace: %s exists; --force replaces it", j->output);
    if (j->fd < 0)
        return diag_error("ld-trace: cannot write to %s: %s", j->output, strerror(errno));
    j->is_made = !is_standard;
    j->writer = ld_trace_writer_new((enum ld_trace_form)a->form, j->fd);
    return 0;
}

static int close_output(struct job *j)
{
    int error = j->writer ? ld_trace_writer_end(j->writer) : 0;
    j->writer = NULL;
    if (j->is_made && close(j->fd) < 0 && !error)
        error = errno;
    j->is_made = false;
    return error ? fail_output(j, error) : j->has_failed ? -1 : 0;
}

/* ---- what the caches say ---- */

static void put_json_level(struct json *out, const struct job *j, size_t config, unsigned level)
{
    struct cache_counts counts, *n = &counts;
    char name[8];
    ld_trace_sim_counts(j->sim, config, level, n);
    json_object(out, NULL);
    json_str(out, "level", cache_level_name(&j->configs[config], level, name));
    for (int k = 0; k < CACHE_KIND_COUNT; k++) {
        json_object(out, cache_kind_name((enum cache_kind)k));
        json_u64(out, "references", n->references[k]);
        json_u64(out, "misses", n->misses[k]);
        json_object_end(out);
    }
    json_u64(out, "write_backs", n->write_backs);
    json_object_end(out);
}

static void put_json(const struct job *j, const struct ld_trace_stats *st, struct strbuf *text)
{
    static const char *const kinds[] = {"fetches", "loads", "stores", "modifies"};
    struct json out;
    json_init(&out, text, true);
    json_object(&out, NULL);
    json_object(&out, "references");
    for (unsigned k = 0; k < ARRAY_LEN(kinds); k++)
        json_u64(&out, kinds[k], j->references[k]);
    json_object_end(&out);
    if (st) {
        json_u64(&out, "processes", st->processes);
        json_u64(&out, "threads", st->threads);
        json_u64(&out, "blocks", st->blocks);
        json_u64(&out, "left_out", st->left_out);
        json_u64(&out, "torn", st->torn);
        json_u64(&out, "untold", st->untold);
        json_u64(&out, "unread", st->unread + st->unknown);
        json_u64(&out, "lost", st->lost);
    }
    json_array(&out, "caches");
    for (size_t c = 0; c < j->cache_count; c++) {
        json_object(&out, NULL);
        json_str(&out, "cache", j->args->caches.all[c]);
        json_array(&out, "levels");
        for (unsigned l = 0; l < j->configs[c].count; l++)
            put_json_level(&out, j, c, l);
        json_array_end(&out);
        json_object_end(&out);
    }
    json_array_end(&out);
    json_object_end(&out);
}

static void put_text(const struct job *j, struct strbuf *out)
{
    for (size_t c = 0; c < j->cache_count; c++) {
        str_printf(out, "%s%s\n  %-6s %-8s %15s %15s %8s\n", c ? "\n" : "", j->args->caches.all[c], "level", "",
                   "references", "misses", "rate");
        for (unsigned l = 0; l < j->configs[c].count; l++) {
            struct cache_counts counts, *n = &counts;
            char name[8];
            ld_trace_sim_counts(j->sim, c, l, n);
            const char *title = cache_level_name(&j->configs[c], l, name);
            for (int k = 0; k < CACHE_KIND_COUNT; k++) {
                if (!n->references[k])
                    continue;
                str_printf(out, "  %-6s %-8s %15llu %15llu %7.3f%%\n", title, cache_kind_name((enum cache_kind)k),
                           (unsigned long long)n->references[k], (unsigned long long)n->misses[k],
                           100 * (double)n->misses[k] / (double)n->references[k]);
                title = "";
            }
            if (n->write_backs)
                str_printf(out, "  %-6s %-8s %15s %15llu\n", "", "written", "", (unsigned long long)n->write_backs);
        }
    }
}

static int print(const struct job *j, const struct ld_trace_stats *st)
{
    struct strbuf out = {0};
    if (!j->args->json && !j->cache_count)
        return 0;
    if (j->args->json)
        put_json(j, st, &out);
    else
        put_text(j, &out);
    return cmd_print(&out);
}

/* ---- a command ---- */

/* Until it ends; its status as wait has it. */
static int follow(struct ld_trace *t, pid_t pid)
{
    static const struct timespec moment = {0, 200000};
    int status = 0;
    for (;;) {
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid || (done < 0 && errno != EINTR))
            break;
        if (!ld_trace_read(t))
            nanosleep(&moment, NULL);
    }
    child_ended();
    ld_trace_end(t);
    return status;
}

static void warn(const struct ld_trace_stats *st)
{
    if (!st->modules)
        diag_warn("ld-trace-none", "no program that was linked with 'mtool ld --tool trace' was executed");
    if (st->torn)
        diag_warn("ld-trace-torn", "%llu blocks were left before all was known of them: a process was killed in them",
                  (unsigned long long)st->torn);
    if (st->untold || st->lost)
        diag_warn("ld-trace-left",
                  "references of %llu instructions are not in the trace, for their operands do not say where they "
                  "reach; %llu blocks found no room",
                  (unsigned long long)st->untold, (unsigned long long)st->lost);
    if (st->unread || st->unknown)
        diag_warn("ld-trace-unread",
                  "%llu blocks are not in the trace: their code is not what the map of the file says; %llu more are of "
                  "files that cannot be read",
                  (unsigned long long)st->unread, (unsigned long long)st->unknown);
}

static int trace_command(struct job *j, struct ld_trace *t)
{
    setenv(WIRE_TRACE_ENV, ld_trace_path(t), 1);
    pid_t pid = child_start("ld-trace", j->args->rest);
    if (pid < 0)
        return CMD_UNUSABLE;
    int status = follow(t, pid);
    warn(ld_trace_stats(t));
    if (j->sim)
        ld_trace_sim_end(j->sim);
    for (unsigned k = 0; k < ARRAY_LEN(j->references) && !j->writer && j->sim; k++)
        j->references[k] = ld_trace_stats(t)->made[k];
    bool is_bad = close_output(j) < 0;
    is_bad |= print(j, ld_trace_stats(t)) != 0;
    if (is_bad)
        return CMD_SELF_FAILED;
    ld_trace_free(t);
    launch_exit_like(status);
}

/* ---- a trace that is there ---- */

static int read_trace(struct job *j)
{
    struct ld_trace_compact *c;
    struct ld_trace_thread who;
    struct cache_ref *refs = ARENA_ARRAY(j->args->arena, struct cache_ref, READ_MAX);
    ptrdiff_t n = 0;
    if (ld_trace_compact_open(j->args->trace, &c) < 0)
        return CMD_UNUSABLE;
    if (open_output(j) < 0) {
        ld_trace_compact_close(c);
        return CMD_UNUSABLE;
    }
    while (!j->has_failed && (n = ld_trace_compact_next(c, &who, refs, READ_MAX)) > 0)
        take(j, &who, refs, (size_t)n);
    ld_trace_compact_close(c);
    int status = close_output(j) < 0 ? CMD_FAILED : n < 0 ? CMD_UNUSABLE : CMD_DONE;
    if (status && j->fd >= 0 && j->fd != STDOUT_FILENO)
        unlink(j->output);
    if (j->sim)
        ld_trace_sim_end(j->sim);
    return status ? status : print(j, NULL);
}

static int trace_or_read(struct job *j)
{
    const struct cmd_args *a = j->args;
    struct ld_trace *t = NULL;
    if (!a->trace == !a->rest_count)
        return diag_error("ld-trace: give a command to be traced, or --read FILE"), CMD_UNUSABLE;
    if (open_caches(j) < 0)
        return CMD_UNUSABLE;
    if (a->trace)
        return read_trace(j);
    if (open_output(j) < 0)
        return CMD_UNUSABLE;
    int rc = ld_trace_new(take, j, j->writer ? NULL : j->sim, &t) < 0 ? CMD_SELF_FAILED : trace_command(j, t);
    if (j->is_made) { /* nothing came of it */
        close(j->fd);
        unlink(j->output);
    }
    ld_trace_free(t);
    return rc;
}

int cmd_ld_trace(const struct cmd_args *a)
{
    struct job j = {.args = a};
    int rc = trace_or_read(&j);
    ld_trace_sim_free(j.sim);
    return rc;
}
