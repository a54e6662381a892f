/* SPDX-License-Identifier: Apache-2.0
 * stalls PROGRAM MACHINE TRACE COUNTS...: prints the cycles that the core model takes for the instructions of PROGRAM,
 * linked by mtool ld, that the trace of valgrind's lackey says were executed, one after the other: those that the
 * program had before it was linked. Where other code was executed between two of them the pipeline begins empty. A
 * repeated string instruction, which lackey tells turn by turn, is one. */
#include <stdio.h>
#include <stdlib.h>

#include "ld/code.h"
#include "machine/machine.h"
#include "sim/sim.h"

struct oracle {
    struct map insn_at; /* address -> instruction */
    VEC(struct sim_insn) insns;
    struct sim_shapes *shapes;
    struct sim_core *core;
    uint64_t last, executed;
    bool was_outside;
};

static void take_block(struct oracle *o, const struct machine *m, const struct ld_code *c, const struct ld_block *b)
{
    uint64_t at[LD_CODE_INSNS_MAX];
    for (uint32_t i = 0; ld_code_of(c, b, at) && i < b->insns; i++) {
        struct sim_insn made;
        size_t avail = 15;
        while (!image_at(c->img, at[i], avail))
            avail--;
        sim_insn_prepare(m, o->shapes, image_at(c->img, at[i], avail), avail, at[i], &made);
        map_put(&o->insn_at, at[i], o->insns.len);
        VEC_PUSH(&o->insns, made);
    }
}

static bool is_ours(const struct ld_blocks *all, uint64_t at)
{
    for (size_t f = 0; f < all->functions.len; f++) {
        const struct ld_function *fn = &all->functions.data[f];
        if (fn->count && at >= fn->address && at < all->blocks.data[fn->first + fn->count - 1].end)
            return true;
    }
    return false;
}

static void step(struct oracle *o, const struct ld_blocks *all, uint64_t at)
{
    uint64_t i;
    if (!map_get(&o->insn_at, at, &i)) {
        o->was_outside |= !is_ours(all, at); /* else it was inserted */
        return;
    }
    if (at == o->last && sim_insn_is_rep(&o->insns.data[i]))
        return;
    if (o->was_outside)
        sim_core_reset_pipeline(o->core, 0);
    o->was_outside = false;
    sim_core_step(o->core, (uint32_t)i, 0, 0);
    o->executed++;
    o->last = at;
}

int main(int argc, char **argv)
{
    struct machine *m;
    struct ld_blocks *all;
    struct image *img;
    struct oracle o = {.shapes = sim_shapes_new()};
    char line[256];
    if (argc < 5 || machine_read(argv[2], &m) < 0 || image_open(argv[1], &img) < 0 ||
        ld_blocks_read(argv[1], (const char *const *)argv + 4, (size_t)argc - 4, &all) < 0)
        return 2;
    FILE *trace = fopen(argv[3], "r");
    struct ld_code code = ld_code_begin(img);
    for (size_t b = 0; b < all->blocks.len; b++)
        take_block(&o, m, &code, &all->blocks.data[b]);
    o.core = sim_core_new(m, o.insns.data, o.insns.len, NULL);
    while (trace && fgets(line, sizeof line, trace))
        if (line[0] == 'I')
            step(&o, all, strtoull(line + 2, NULL, 16));
    printf("%llu instructions %.0f cycles\n", (unsigned long long)o.executed, sim_core_cycles(o.core));
    return 0;
}
