/* SPDX-License-Identifier: Apache-2.0
 * Which process of a parallel job this is, as launchers tell it in the environment, and %r in the name of a file. */
#include "cmd/cmd.h"

#include <stdlib.h>

static const struct {
    const char *rank, *count;
} known[] = {
    /* innermost launcher first */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, /* Open MPI */
    {"PMI_RANK", "PMI_SIZE"},                         /* MPICH and Intel MPI (Hydra) */
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},   /* MVAPICH2 */
    {"PMIX_RANK", NULL},                              /* PRRTE */
    {"SLURM_PROCID", "SLURM_NTASKS"},                 /* srun */
};

static uint32_t number_in(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    char *end;
    unsigned long n = text && text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : UINT32_MAX;
    return n < UINT32_MAX && !*end ? (uint32_t)n : ID_NONE;
}

struct cmd_rank cmd_rank_of_job(void)
{
    struct cmd_rank r = {ID_NONE, ID_NONE};
    for (size_t i = 0; i < ARRAY_LEN(known) && r.rank == ID_NONE; i++) {
        r.rank = number_in(known[i].rank);
        r.count = r.rank == ID_NONE ? ID_NONE : number_in(known[i].count);
    }
    if (r.count != ID_NONE && r.count <= r.rank)
        r.count = ID_NONE;
    return r;
}

static int no_rank(const char *path)
{
    struct strbuf names = {0};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        str_printf(&names, "%s%s", i ? ", " : "", known[i].rank);
    diag_error("%s: %%r is the rank in a parallel job, but none of %s is set; start mtool by mpirun or srun", path,
               names.data);
    str_free(&names);
    return -1;
}

int cmd_rank_in_path(struct arena *a, const char *path, struct cmd_rank r, const char **out)
{
    const char *at = path ? strstr(path, "%r") : NULL;
    struct strbuf s = {0};
    *out = path;
    if (!at)
        return 0;
    if (r.rank == ID_NONE)
        return no_rank(path);
    for (const char *from = path; *from; from = at + 2) {
        at = strstr(from, "%r");
        if (!at) {
            str_puts(&s, from);
            break;
        }
        str_put(&s, from, (size_t)(at - from));
        str_printf(&s, "%u", r.rank);
    }
    *out = arena_strdup(a, s.data);
    str_free(&s);
    return 0;
}
