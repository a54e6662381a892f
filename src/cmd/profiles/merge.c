/* SPDX-License-Identifier: Apache-2.0
 * mtool merge: the profiles of the ranks of a parallel job to one. */
#include "cmd/cmd.h"

#include <stdlib.h>

#include "report/report.h"
#include "result/merge.h"
#include "store/store.h"

static int compare_ranks(const void *a, const void *b)
{
    const struct merge_input *x = a, *y = b;
    return (x->result->rank > y->result->rank) - (x->result->rank < y->result->rank);
}

static int read_all(const struct cmd_args *a, struct merge_input *in, size_t *count)
{
    for (int i = 0; i < a->rest_count; i++) {
        struct prof_result *r;
        if (store_read(a->rest[i], &r) < 0)
            return -1;
        in[(*count)++] = (struct merge_input){a->rest[i], r};
    }
    qsort(in, *count, sizeof *in, compare_ranks);
    return 0;
}

static int write_merged(const struct cmd_args *a, const struct merge_input *in, size_t count)
{
    struct prof_result *r = prof_result_new();
    struct store *s = NULL;
    int rc = CMD_UNUSABLE;
    r->options = a->line;
    if (prof_merge(r, in, count) == 0 && store_create(a->output, r->program, a->force, &s) == 0) {
        const struct diag_warning *w;
        size_t n = diag_warnings(&w);
        for (size_t i = 0; i < n; i++)
            prof_warn_add(r, w[i].id, w[i].text);
        rc = store_commit(s, r) < 0 ? CMD_FAILED : CMD_DONE;
        if (rc == CMD_DONE)
            diag_note("%zu ranks are in %s; to see them: mtool report --by rank %s", count, store_path(s),
                      store_path(s));
        store_abort(s);
    }
    prof_result_free(r);
    return rc;
}

int cmd_merge(const struct cmd_args *a)
{
    struct merge_input *in = xmalloc((size_t)a->rest_count * sizeof *in);
    size_t count = 0;
    int rc = read_all(a, in, &count) < 0 ? CMD_UNUSABLE : write_merged(a, in, count);
    for (size_t i = 0; i < count; i++) {
        union {
            const struct prof_result *kept;
            struct prof_result *freed;
        } r = {.kept = in[i].result};
        prof_result_free(r.freed);
    }
    free(in);
    return rc;
}
