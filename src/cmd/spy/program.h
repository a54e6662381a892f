/* SPDX-License-Identifier: Apache-2.0
 * A program's references while it runs: what program.c, stream.c and found.c share. */
#ifndef MTOOL_CMD_SPY_PROGRAM_H
#define MTOOL_CMD_SPY_PROGRAM_H

#include "cmd/allocations/allocations.h"
#include "cmd/run/profile.h"
#include "cmd/spy/merge.h"
#include "cmd/spy/traced.h"
#include "data/data.h"
#include "spy/spy.h"

struct spied_module { /* by place in launch_program.modules */
    uint32_t first_site, site_count;
    struct rewrite_map *map; /* NULL: it has no copy */
    struct image *img;       /* NULL likewise */
};

enum spied_layout { SPIED_UNKNOWN, SPIED_PLAIN, SPIED_FIELDS }; /* of a data object: whether it has fields */

struct spied_executed { /* a counter of a module, in a sample */
    uint32_t sample, module, counter, times;
};

struct locals;    /* opaque */
struct family;    /* opaque */
struct simulated; /* opaque */
struct spied_program {
    struct profile *profile;
    struct family *family; /* with --follow, of its processes; these are spied programs too, and what they found is
                              here. NULL: the first process alone */
    bool has_threads;
    const char *executable; /* its path */
    const char *command;    /* of a process that is followed: as it stands in /proc */
    bool is_fork;           /* likewise: it goes on with its parent's program */
    struct arena *arena;
    struct spy_caches *caches;
    size_t cache_count;
    bool is_filtered; /* references that are known to hit the nearest level are not told (rewrite_options) */
    uint8_t filter_shift, filter_lines;
    struct cache_part part;              /* of the sets, that is simulated */
    struct launch_samples samples;       /* length 0: all references are simulated */
    VEC(struct spied_executed) executed; /* in samples */
    const struct prof_input *counted;    /* what the counted run gave */
    struct spy *spy;
    struct data *data;
    struct data_watched *own; /* allocators that the options name */
    struct allocations *allocations;
    struct locals *locals;
    int pid; /* 0: nothing runs yet */
    const struct launch_tags *tags;
    struct spied_module *modules; /* [module_count] */
    size_t module_count;
    const char *failed; /* why its references cannot be told; NULL: they can, or it was said */
    uint32_t last_tag, last_module;
    VEC(uint8_t) layouts; /* by object: enum spied_layout */
    uint32_t *stack_of;   /* by site: the object of its procedure's frames; 0 not asked for yet */
    size_t stack_count;
    uint32_t stack_object;          /* of all frames */
    struct prof_input_datum *found; /* [found_count] by object */
    uint32_t found_count;
    /* stream.c */
    struct merge *merge;              /* of threads */
    struct merge *second_merge;       /* the same in another order; NULL: there are no threads */
    struct simulated *simulated;      /* likewise, or nothing is filtered */
    uint32_t thread;                  /* of the chunk that is taken */
    const struct launch_chunk *piece; /* likewise */
    bool is_between;                  /* likewise */
    uint32_t process;                 /* as chunks name it; ID_NONE: none has come */
    uint64_t references;              /* that came */
    uint64_t of_others; /* of other processes; with --follow, of code that the counted run did not execute */
    uint64_t untold;    /* executions of instructions whose references are not told */
    uint32_t threads;   /* the highest number that came, and one */
};

void spied_take(void *ctx, const struct launch_chunk *c);       /* stream.c: what the program hands over, */
void spied_take_piece(void *ctx, const struct launch_chunk *c); /* in the order in which it is simulated, */
void spied_take_again(void *ctx, const struct launch_chunk *c); /* and in the second one */
/* filter.c: what s's copies leave out. TLBs that nobody asked for are taken out of s's caches: they alone would need
 * each reference. */
void spied_leave_out_tlbs(struct spied_program *s);
void spied_choose_filter(struct spied_program *s, bool has_threads);
/* samples.c. Options: 0, or an exit status after one line. */
int spied_check_samples(const struct cmd_args *a);
void spied_plan_samples(struct spied_program *s, const struct launch_result *counted);
void spied_sample(void *ctx, const struct launch_sample_end *end); /* as launch_reference_options has it */
void spied_end_samples(struct spied_program *s);                   /* all was handed over */
/* sample_weights.c */
struct spied_counts { /* of a module in the counted run, by block and edge */
    uint64_t *blocks, *edges;
};
bool spied_count_module(const struct spied_program *s, size_t module, struct spied_counts *out); /* false: none */
void spied_counts_free(struct spied_counts *e);
void spied_weigh_samples(const struct spied_program *s, size_t samples); /* after spy_end */
/* program.c: of the procedure that has the site; 0: not known. What a variable's address is of; object 0: of none. */
uint32_t spied_frames(struct spied_program *s, uint32_t site);
struct spy_whose spied_variable(struct spied_program *s, uint64_t address);
void spied_see_file(struct spied_program *s, const struct launch_chunk *c); /* stream.c: it has loaded one */
void spied_read_maps(struct spied_program *s); /* program.c: what is not known yet of its mappings */
/* program.c, for a process of several: its simulation, without references yet. `data`: of what it was forked from;
 * NULL: it has executed the program. */
struct spied_program *spied_process_new(struct spied_program *all, struct data *data, const char *executable);
void spied_process_free(struct spied_program *s);
void spied_add_sites(struct spied_program *s, uint32_t module); /* of a file, as it is reached first */
/* family.c: --follow. Each process is simulated by itself; what it found is added to that of all when it is over. */
struct family *family_new(struct spied_program *all);
void family_free(struct family *f);
void family_take(struct family *f, const struct launch_chunk *c);
void family_ended(struct family *f, uint32_t process);
void family_end(struct family *f); /* those that go on too */
struct allocations_lost family_lost(const struct family *f);
/* What they reached; names are those of one process. Of as many as there are. */
struct prof_input_datum *family_data(const struct family *f, uint32_t *count);
/* And what each missed. */
const struct prof_input_process *family_processes(const struct family *f, size_t *count);
uint64_t family_block_begin(void *ctx, uint32_t object, uint64_t address); /* ctx: the spied program of all */
/* simulated.c: how far the simulation is, for the program's threads; behind a piece that was handed to it */
struct simulated *simulated_new(void);
void simulated_free(struct simulated *k);
void simulated_see(struct simulated *k, const struct spied_program *s, const struct launch_chunk *c);
struct cache_lost *simulated_lost(struct simulated *k); /* for the caches; goes with it */
/* identity.c: what tells the objects of one process that are those of another, too. Appended. */
void spied_identify(const struct spied_program *s, uint32_t object, struct strbuf *out);
/* locals.c: thread-local variables, of each thread when its first chunk comes */
struct locals *locals_new(void);
void locals_free(struct locals *l);
void locals_see(struct locals *l, const struct spied_program *s, const struct launch_chunk *c);
/* An allocator's call has returned: was that the dynamic linker's, for the thread-local variables of a file? */
void locals_given(struct locals *l, const struct spied_program *s, const struct launch_chunk *c);
/* names.c: of what is allocated, each its own as far as its frames tell them apart. In the arena. */
void spied_name(struct arena *a, struct prof_input_datum *data, size_t count);
/* found.c: what the join wants; lives in the arena and in s. */
struct prof_input_datum spied_datum(const struct spied_program *s, uint32_t object);
struct prof_input_datum spied_counts(const struct spied_program *s, uint32_t object); /* the same without any name */
struct prof_input_spied *spied_found(struct spied_program *s, const struct launch_result *run);

/* program.c, for mtool run too: one more run of the program, whose references are simulated. After the counted run,
 * whose maps are open. 0, or an exit status. Where the program cannot be followed, mtool run gets a
 * warning and 0, and nothing is put into *in. */
int spied_check(const struct cmd_args *a); /* its options, before anything is measured: as below */
int spied_check_rank(const char *what); /* 0, or an exit status after one line: it cannot be done in a parallel job */
struct spied_program *spied_new(struct profile *p);
int spied_run(struct spied_program *s, const struct launch_result *counted, struct prof_input *in);
void spied_free(struct spied_program *s);

#endif
