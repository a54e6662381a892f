/* SPDX-License-Identifier: Apache-2.0
 *
 * cfg-survey [--check] [--why] FILE...: one line a file about what cfg_build made of it: functions, those refused by
 * reason, indirect jumps, tables, blocks, loops, seconds, memory. --check asserts the invariants too; --why lists every
 * refused function and every unresolved one. A tool for developers; not installed. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cfg/cfg.h"

static const char *const reason_ids[CFG_REASON_COUNT] = {
#define X(id, text) #id,
    CFG_REASONS(X)
#undef X
};

static long peak_kb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

struct jumps {
    size_t all, table, plain; /* plain: an edge out only */
};

static struct jumps count_jumps(const struct cfg *c)
{
    struct jumps n = {0};
    for (size_t k = 0; k < c->blocks.len; k++) {
        const struct cfg_block *b = &c->blocks.data[k];
        if (b->term != X86_JMP_IND)
            continue;
        n.all++;
        bool to_table = c->edges.data[b->edge_first].kind == CFG_EDGE_TABLE;
        n.table += to_table;
        n.plain += !to_table;
    }
    return n;
}

static void list_refused(const struct cfg *c)
{
    for (size_t k = 0; k < c->funcs.len; k++) {
        const struct cfg_func *f = &c->funcs.data[k];
        const char *name = image_symbol_name(c->img, f->addr, NULL);
        if (f->reason || f->unresolved)
            printf("  %llx size %u %s %s\n", (unsigned long long)f->addr, f->size,
                   f->reason ? reason_ids[f->reason] : "unresolved", name ? name : "");
    }
}

static int survey(const char *path, bool check, bool why)
{
    struct image *img;
    struct cfg *c;
    double start = time_now_s();
    if (image_open(path, &img) < 0)
        return 1;
    double opened = time_now_s();
    if (cfg_build(img, &c) < 0) {
        image_close(img);
        return 1;
    }
    double built = time_now_s();
    size_t refused[CFG_REASON_COUNT] = {0}, unresolved = 0, plt = 0;
    for (size_t k = 0; k < c->funcs.len; k++) {
        refused[c->funcs.data[k].reason]++;
        unresolved += c->funcs.data[k].unresolved;
        plt += c->funcs.data[k].is_plt;
    }
    struct jumps j = count_jumps(c);
    printf("%s: funcs %zu (plt %zu) unresolved %zu insns %zu blocks %zu edges %zu loops %zu | jmp* %zu: by table %zu, "
           "out %zu; "
           "tables %zu | mid %zu outside %zu split %zu | code %.1f %% | open %.3f build %.3f s, peak %ld MB |",
           file_base_name(path), c->funcs.len, plt, unresolved, c->insns.len, c->blocks.len, c->edges.len, c->loops.len,
           j.all, j.table, j.plain, c->tables.len, c->mid_targets.len, c->outside_targets.len, c->split_targets.len,
           c->bytes_code ? 100.0 * (double)c->bytes_funcs / (double)c->bytes_code : 0.0, opened - start, built - opened,
           peak_kb() / 1024);
    for (int r = 1; r < CFG_REASON_COUNT; r++)
        if (refused[r])
            printf(" %s %zu", reason_ids[r], refused[r]);
    printf("\n");
    if (why)
        list_refused(c);
    if (check)
        cfg_check(c);
    cfg_free(c);
    image_close(img);
    return 0;
}

int main(int argc, char **argv)
{
    bool check = false, why = false;
    int rc = 0;
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--check") == 0)
            check = true;
        else if (strcmp(argv[k], "--why") == 0)
            why = true;
        else if (strcmp(argv[k], "-v") == 0)
            diag_verbose++;
        else
            rc |= survey(argv[k], check, why);
    }
    return rc;
}
