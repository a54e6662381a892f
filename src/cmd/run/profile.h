/* SPDX-License-Identifier: Apache-2.0
 * What mtool count and mtool run share: a program found, its profile begun, runs made, results joined and kept. */
#ifndef MTOOL_CMD_RUN_PROFILE_H
#define MTOOL_CMD_RUN_PROFILE_H

#include "cmd/cmd.h"
#include "launch/launch.h"
#include "machine/machine.h"
#include "prof/prof.h"
#include "store/store.h"

struct profile {
    const struct cmd_args *args;
    struct launch_program *program;
    struct store *store;
    struct prof_result *result;
    enum launch_mode mode;
    struct rewrite_map **maps; /* [map_count] of the modules with a copy, NULL others */
    size_t map_count;
    VEC(uint64_t) instructions;    /* by process, while the counted run ends; PROF_UNKNOWN: none counted */
    VEC(struct prof_phase) phases; /* so far */
    struct cmd_rank rank;
    struct prof_seen seen; /* for the run with probes */
    int status;            /* of the first run, as of waitpid; -1 none yet */
    double first_s;        /* its processor time */
    bool ran_again;        /* there was a further run */
    bool follows;          /* the counted run followed what the program executes */
    bool was_drained;      /* standard input had nothing for it: a pipe that was empty and closed */
};

enum { PROFILE_INTERRUPTED = -2 }; /* in place of an exit status: the program was interrupted; end as it did */

/* Finds the program and opens the profile for writing. 0, or an exit status. */
int profile_begin(struct profile *p, const struct cmd_args *a);
/* What the wall clock went to since a moment of it, for the profile; runs and rewriting are noted as they are made.
 * name must last. */
void profile_note_phase(struct profile *p, const char *name, double since_s);
/* Rewrites all modules (from the cache where possible). 0, or an exit status. */
int profile_copies(struct profile *p);
/* The same after runs that needed others (--spy), if there were such. Feedback may change copies: maps are closed, and
 * nothing of the former ones may be held. 0, or an exit status. */
int profile_copies_again(struct profile *p);
/* The last phase is a run, counted and with windows, whose replays went on when the program had ended. */
void profile_note_after(struct profile *p, const struct launch_result *run);
void profile_copies_ahead(struct profile *p); /* begins with that, to go on during the run that comes next */
/* One run. Only the first has the user's standard output and error; later ones write nowhere, and a standard input that
 * can be rewound is. 0, or an exit status. */
int profile_run(struct profile *p, const struct launch_options *opt, bool is_first, struct launch_result **out);
/* The modules as prof wants them; counters and samples may be NULL. */
int profile_inputs(struct profile *p, const struct launch_result *counted, const struct launch_result *sampled,
                   struct prof_input *in);
/* Are these counts usable? Says in one line why not: threads, lost counters. */
bool profile_counts_are_exact(const struct launch_result *counted);
/* The options of the counted run: with --follow, each process is heard of. */
struct launch_options profile_counted_options(struct profile *p);
void profile_take_processes(struct profile *p,
                            const struct launch_result *counted); /* into the result, with --follow */
void profile_warn_executed(const struct launch_result *run);
void profile_warn_left(const struct launch_result *run); /* that a process goes on in the background */
/* Solves the counts, keeps them as profile feedback for the copies of later runs, and leaves the solution for the join.
 */
void profile_keep_feedback(const struct profile *p, const struct prof_input *in);
/* Then, where only the join is to come: frees what its counts of all threads together need no more. */
void profile_forget_counters(const struct profile *p, const struct prof_input *in);
int profile_join(struct prof_result *r, const struct prof_input *in);    /* 0, or an exit status */
const struct rewrite_map *profile_map(struct profile *p, size_t module); /* NULL if it has none that can be read */
void profile_close_maps(struct profile *p); /* once they are not needed any more; they are large */
int profile_finish(struct profile *p);      /* stores; 0 or an exit status */
/* show.c: on stderr, since standard output is the program's. */
void profile_show(const struct profile *p, const struct cmd_args *a);
void profile_end(struct profile *p); /* frees all; removes a profile that was not finished */

/* baseline.c: two more runs with fewer threads, and the extra work beside them; after the join, whose input is `like`.
 * 0, or an exit status. */
int baseline_run(struct profile *p, const struct prof_input *like);

/* Where the description of this CPU is kept, in the arena; NULL after one line. */
int cmd_calibrate_elsewhere(const struct cmd_args *a); /* elsewhere.c: of a tape, or of a described machine */
const char *cmd_machine_path(struct arena *ar);
/* Says that the time stamp counter did not tick evenly, if so. */
void cmd_warn_of_clock(const struct machine_clock *c, const char *when);
void cmd_warn_of_model(const struct machine *m); /* that it failed its self-test, if so */
/* The description to use: --machine FILE, else the cached one of this host, else made now (said). */
int cmd_machine_get(const struct cmd_args *a, struct machine **out, const char **where); /* where: its file, or NULL */
/* Lets the join time forms of instructions that the kept description of this machine (at `where`) lacks, and keep them
 * there; l must last as long as `in`. */
struct cmd_form_timing {
    struct machine *machine;
    const char *path;
    struct arena *arena;
};
void cmd_machine_time_forms(const struct cmd_args *a, struct machine *m, const char *where, struct cmd_form_timing *l,
                            struct prof_input *in);

#endif
