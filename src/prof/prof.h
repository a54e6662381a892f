/* SPDX-License-Identifier: Apache-2.0
 *
 * prof: joins counts, times, samples, the cfg and the models into ONE result (result/result.h).
 */
#ifndef MTOOL_PROF_H
#define MTOOL_PROF_H

#include "machine/machine.h"
#include "measured/input.h"
#include "spy/spy.h"

struct prof_input_caches { /* a configuration that was simulated */
    const char *name;
    struct cache_config config;
    bool is_tlb;
    double miss_cycles[CACHE_LEVELS_MAX]; /* by level: what a miss counts for beyond those of nearer levels */
    struct machine_huge_pages huge_pages; /* of TLBs */
};
struct prof_input_datum { /* a data object; texts live with the result */
    const char *name, *module, *type;
    enum prof_data_kind kind;
    uint64_t bytes, blocks;               /* bytes: when most were there */
    uint64_t allocated;                   /* bytes of all blocks together; PROF_UNKNOWN */
    const struct prof_data_field *fields; /* [field_count] by offset, as cells number them from 1; of object 0 */
    size_t field_count;
    const struct prof_data_frame *frames; /* [frame_count] where it was allocated, innermost first; of object 0 */
    size_t frame_count;
};
struct prof_input_spied_level { /* what a process has of a level: as simulated, and as estimated for all of it */
    struct cache_counts counts;
    struct cache_estimate estimate; /* misses, low, high; of some sets alone */
};
struct prof_input_process { /* one of those that were followed; texts as of data */
    uint32_t pid, threads;
    bool is_fork;
    const char *command, *executable;
    const struct prof_input_spied_level *levels; /* of all caches, in their order, the nearest of each first */
};
struct prof_input_spied {  /* what mtool spy found */
    const struct spy *spy; /* ended; modules of its sites are of prof_input.modules, objects of `data` */
    const struct prof_input_caches *caches; /* [caches_count] as in spy; the stall is by the first */
    size_t caches_count;
    const struct prof_input_datum *data;
    size_t data_count;
    const struct prof_input_process *processes; /* [process_count] in no order; none: not followed */
    size_t process_count;
    bool is_filtered;    /* references that are known to hit did not come, nor those to sets, or of times, that are not
                            taken */
    uint64_t references; /* of the program; PROF_UNKNOWN */
    uint64_t dropped, unlogged, allocations;
    uint32_t threads;
    double spied_s;
    struct machine_nodes nodes; /* of memory, here */
    double overlap;             /* part of its latency that a miss takes if all are prefetched, here; NAN: not known */
    uint64_t curve_min, curve_max; /* bytes */
    /* Where the object's block begins that holds the address; PROF_UNKNOWN: none does any more. */
    uint64_t (*block_begin)(void *ctx, uint32_t object, uint64_t address);
    /* What a site reaches at an address of its file, at the end of the run; PROF_UNKNOWN: in the frame of its
     * procedure. ID_NONE: not known. NULL: nobody can say. */
    uint32_t (*object_of)(void *ctx, uint32_t site, uint64_t address, uint32_t *field);
    void *ctx;
};
/* Fills r (objects, coverage, times, refused, lines, blocks...) from the inputs; what the caller set (program, command,
 * launch mode...) stays. 0, or -1 after one line. */
int prof_join(struct prof_result *r, const struct prof_input *in);

#endif
