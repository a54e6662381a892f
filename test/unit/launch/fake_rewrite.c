/* SPDX-License-Identifier: Apache-2.0
 * A rewriter for the launch tests that only copies the file and adds one byte at its end, so that a copy can be told
 * from its original by its size; FAKE_COUNTERS counters a module. LAUNCH_FAKE names a file whose rewriting fails
 * ("fail:NAME"), crashes ("crash:NAME"), or is slow ("slow:NAME"). Each call is noted in the file LAUNCH_FAKE_LOG. */
#include <stdlib.h>
#include <unistd.h>

#include "rewrite/rewrite.h"

#define FAKE_COUNTERS 1000

static bool told_to(const char *what, const char *path)
{
    const char *how = getenv("LAUNCH_FAKE");
    size_t len = strlen(what);
    return how && !strncmp(how, what, len) && how[len] == ':' && !strcmp(how + len + 1, file_base_name(path));
}

static void note(const char *path)
{
    const char *log = getenv("LAUNCH_FAKE_LOG");
    FILE *f = log ? fopen(log, "ae") : NULL;
    if (f) {
        fprintf(f, "%s\n", file_base_name(path));
        fclose(f);
    }
}

int rewrite_file(const char *in, const struct rewrite_options *opt, const char *out, const char *map,
                 struct rewrite_stats *stats)
{
    struct file_bytes f;
    struct strbuf s = {0};
    char hash[33];
    note(in);
    file_hash_hex(in, strlen(in), hash);
    memcpy(stats->key, hash, sizeof stats->key);
    stats->counters = FAKE_COUNTERS;
    if (told_to("fail", in))
        return diag_error("%s: has too many hands", in);
    if (told_to("crash", in))
        abort();
    if (told_to("slow", in))
        usleep(300000);
    if (file_map(in, &f) < 0)
        return diag_error("%s: cannot be read", in);
    str_put(&s, f.data, f.len);
    str_put(&s, "+", 1);
    int rc = file_write_whole(out, s.data, s.len, 0600);
    if (rc == 0)
        rc = file_write_whole(map, in, strlen(in), 0600);
    file_unmap(&f);
    str_free(&s);
    return rc < 0 ? diag_error("%s: cannot be written (plan %u)", out, (unsigned)opt->plan) : 0;
}

int rewrite_map_open(const char *path, struct rewrite_map **out)
{
    struct file_bytes f;
    char hash[33];
    if (file_map(path, &f) < 0)
        return diag_error("%s: cannot be read", path);
    struct rewrite_map *m = xmalloc(sizeof *m);
    file_hash_hex(f.data, f.len, hash);
    memcpy(m->key, hash, sizeof m->key);
    m->counter_count = FAKE_COUNTERS;
    file_unmap(&f);
    *out = m;
    return 0;
}

void rewrite_map_set_original(struct rewrite_map *m, const char *path) { (void)m, (void)path; }

void rewrite_map_close(struct rewrite_map *m) { free(m); }

/* No run of these tests is long enough to give feedback. */
int rewrite_feedback_write(const struct rewrite_map *m, const struct rewrite_flow *f, uint64_t min, const char *path)
{
    (void)m, (void)f, (void)min;
    return diag_error("%s: nothing to be learnt", path);
}

uint64_t rewrite_flow_instructions(const struct rewrite_map *m, const struct rewrite_flow *f)
{
    (void)m, (void)f;
    return 0;
}

bool rewrite_feedback_id(const char *path, char id[33], uint64_t *instructions)
{
    (void)path, (void)id, (void)instructions;
    return false;
}

bool rewrite_sampled_id(const char *path, char id[33])
{
    (void)path;
    id[0] = 0;
    return false;
}

int rewrite_sampled_write(const char *in, const struct rewrite_sample *samples, size_t count, uint64_t all,
                          const char *path)
{
    (void)in, (void)samples, (void)count, (void)all, (void)path;
    return 0;
}

int rewrite_heat_write(const char *path, const char *id, const struct rewrite_sample *samples, size_t count)
{
    (void)id, (void)samples, (void)count;
    return diag_error("%s: nothing is hot", path);
}

bool rewrite_heat_id(const char *path, char id[33], uint64_t *samples)
{
    (void)path;
    id[0] = 0;
    *samples = 0;
    return false;
}

bool rewrite_feedback_fits(const char *path, const struct rewrite_map *m)
{
    (void)path, (void)m;
    return false;
}
