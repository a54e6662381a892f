/* SPDX-License-Identifier: Apache-2.0
 *
 * launch: finds a program and the files it loads, keeps the cache of rewritten copies, starts programs plain, counted
 * or sampled so that they cannot tell, passes signals on, and brings back status, times, counters and samples.
 *
 *   copies/  the cache of rewritten files     samples/  where processes, threads and their time are
 *   windows/  what is taken of the instruction stream
 */
#ifndef MTOOL_LAUNCH_H
#define MTOOL_LAUNCH_H

#include "base/base.h"
#include "image/image.h"
#include "observed/observed.h"
#include "rewrite/rewrite.h"
#include "wire/bursts.h"
#include "wire/wire.h"

/* ---- program.c: what is to be run ---- */

struct launch_module {
    const char *path;    /* real path of the original */
    const char *soname;  /* name it is asked for by, NULL for the executable */
    const char *copy;    /* rewritten file in the cache, NULL: not rewritten */
    const char *map;     /* its map, NULL likewise */
    const char *refused; /* why not rewritten, NULL if it is */
    bool is_exe, is_interp /* ld.so: stays original */;
    bool found_at_run_time; /* learnt from a run (dlopen), not from the list of needed libraries */
    bool other_program;     /* seen only in processes that executed another program (system(), a shell's commands); of
                               a file that the program has too this stands apart, under a path that says so, unless
                               these are counted as well (launch_program.counts_executed) */
    uint8_t wire_key[WIRE_KEY_BYTES];     /* valid with copy: identity embedded in it */
    uint32_t counter_count;               /* valid with copy */
    const struct rewrite_objects *probed; /* rewrite_options.objects of it, set by the caller; NULL: none */
    bool owns_gs;       /* valid with copy: its program cannot be counted with rewrite_options.threads */
    bool wants_samples; /* valid with copy: see rewrite_stats */
};
struct launch_program {
    const char *path;      /* real path of the ELF executable that runs (of a script: its interpreter) */
    const char **argv;     /* as given to exec, argv[0] as the user typed it; NULL-terminated. Of a script that starts
                              with `#!/usr/bin/env NAME`: what env would execute */
    const char *script;    /* the script, if one; else NULL */
    const char *exec_path; /* path handed to execve (the user's own spelling, found through PATH) */
    const char **elf_argv; /* what the kernel hands to the ELF file in the end: argv, or of a script its interpreter,
                              the interpreter's argument, the script, the rest */
    const char *key;       /* image key of the executable */
    bool is_static, is_fixed;           /* the executable: has no loader; has fixed addresses */
    bool made_threads;                  /* seen in this or an earlier run */
    bool counts_executed;               /* the caller: programs that it executes are counted too, in some run */
    bool counts_by_thread;              /* its copies were made with rewrite_options.threads */
    struct rewrite_options copied_with; /* what launch_copies_make was asked for last */
    struct launch_module *modules;      /* [0] is the executable */
    size_t module_count, module_cap;
    int ahead;                /* process that makes copies meanwhile, see launch_copies_ahead; 0 none */
    bool is_ahead;            /* this one is it */
    struct launch_heat *heat; /* samples for it; NULL none */
    struct arena *arena;
};
/* Finds argv[0] (PATH), follows a script to its interpreter (says so), checks it (missing, directory, not executable,
 * other architecture, setuid and not root, foreign run time such as Go), and lists the shared objects it needs (by its
 * own ld.so, in --list mode) and those remembered from earlier runs. 0, or -1 after one line (unusable input). */
int launch_program_find(const char *const *argv, struct launch_program **out);
void launch_program_free(struct launch_program *p);

struct launch_result;

/* ---- limits.c ---- */

/* To be called at mtool's start: lifts for mtool itself the limits (ulimit) that were meant for the program, as far as
 * it may; the program is started with its own. -1 with a message if what is left is too little for mtool's libraries,
 * which would end it in their own ways. */
int launch_own_limits(void);

/* May it make threads, and can they then count each for itself (rewrite_options.threads)? Known from earlier runs, else
 * guessed from what it asks of its libraries; a wrong guess costs time, never a count. */
bool launch_may_make_threads(const struct launch_program *p);

/* ---- cache.c: rewritten copies by content and plan under file_cache_dir()/copies. MTOOL_CACHE_MB limits their size.
 * ---- */

/* Makes or finds the copy of every module (in parallel on the host's processors). A module that cannot be rewritten
 * keeps copy NULL and gets `refused`. Damaged cache entries are made again. 0, or -1 after one line (the executable's
 * own failure to be rewritten is not one: it runs plain, and the caller says so). Progress on a terminal. opt->threads
 * is passed over if a module needs the register that it takes: see counts_by_thread. */
int launch_copies_make(struct launch_program *p, const struct rewrite_options *opt);
/* Begins with that in the background, before a run of the untouched program, if there is a processor to spare; nothing
 * is said. Ends with launch_copies_make, or with the program. */
void launch_copies_ahead(struct launch_program *p, const struct rewrite_options *opt);
/* For LAUNCH_MODE_PATH: the folder to give as opt->rpath, where launch_copies_make puts links to the copies of the
 * libraries by soname. A name only, in p's arena; the same for the same program and libraries. */
const char *launch_path_mode_dir(const struct launch_program *p);
int launch_remember_modules(const struct launch_program *p); /* for the next run of the same executable */

/* ---- feedback.c ---- */

/* After a counted run: keeps profile feedback, what its counts say of a module, for the copies that later runs of the
 * same program use. Short runs give none, nor does one that is not much longer than the one that gave it before.
 * Reports nothing: without it later runs are only slower. */
void launch_keep_feedback(const struct launch_program *p, size_t module, const struct rewrite_map *m,
                          const struct rewrite_flow *flow);

/* After a run with samples: keeps which code without unwind tables it was seen to execute, for copies to come of the
 * same modules. Reports nothing: without it less is counted. */
void launch_keep_sampled(const struct launch_program *p, const struct launch_result *run);
/* So often a second it is worth it to sample a counted run for that; 0: nothing is to be shown of the modules, of which
 * there are copies, and no others will come by programs that are followed. */
double launch_seen_hz(const struct launch_program *p, bool follows);

/* ---- command.c: a command of any kind, as it is ---- */

struct rusage;
struct launch_watcher {
    void (*started)(void *ctx, int pid); /* its process is there, and waits */
    void (*ended)(void *ctx,
                  const struct rusage *usage); /* of it, from its exec on, and of all children that it waited for */
    void *ctx;
};
/* Starts what argv names, by PATH, and waits for its end; terminal, signals and status as in launch_run. Whatever the
 * kernel executes will do. Fills of the result status, times and got_end_signal; its arena stays NULL. 0, or -1 after
 * one line. */
int launch_command(const char *const *argv, const struct launch_watcher *w, struct launch_result *out);

/* ---- run.c ---- */

enum launch_mode {
    LAUNCH_MODE_ROOT_NS, /* private mount namespace, as root */
    LAUNCH_MODE_USER_NS, /* the same in a user namespace */
    LAUNCH_MODE_PATH,    /* no namespace: a copy is executed, its libraries found by its run path */
    LAUNCH_MODE_COUNT
};
extern const char *const launch_mode_text[LAUNCH_MODE_COUNT]; /* one line each: what the program can notice */
/* Tries the whole sequence in a child, about 2 ms; MTOOL_LAUNCH=root-ns|user-ns|path forces one. */
enum launch_mode launch_mode_probe(void);

enum launch_how { LAUNCH_PLAIN, LAUNCH_COUNT, LAUNCH_SAMPLED, LAUNCH_BURSTS, LAUNCH_PROBED, LAUNCH_REFERENCES };

/* Chooses slices of a window that was just recorded, while the program waits: fills w->slice[window] and
 * w->slice_count. Those before it have been replayed. Says in w->enough whether they are all that is needed of the code
 * that they met. */
typedef void (*launch_plan)(void *ctx, struct wire_windows *w, uint32_t window);

/* OBSERVED_PLACE of an address that the program executed, in the original file; OBSERVED_PLACE_UNKNOWN: it is in none.
 */
struct spaces;
typedef uint64_t (*launch_place_of)(struct spaces *spaces, uint64_t pc);

/* A window that a snapshot recorded by translated code (wire/bursts.h). */
struct launch_burst {
    uint32_t number; /* from 1, in order of time; some may be missing */
    int32_t thread;
    double at_s;      /* processor time of the process when it began */
    uint64_t fs, gs;  /* bases */
    uint32_t end;     /* enum wire_burst_end */
    bool is_torn;     /* the last record is not whole */
    uint32_t waiting; /* windows that are whole already and come next */
    const uint8_t *records;
    size_t bytes;
};
struct launch_burst_counts {
    uint32_t begun, taken;  /* snapshots; whole windows of them */
    uint32_t empty;         /* those that stood just before a system call, and recorded nothing */
    uint32_t lost;          /* snapshots that died, or could not begin */
    uint32_t skipped;       /* times that none was made, since the last was still busy or nobody had taken its window */
    uint32_t refused;       /* forks that failed */
    uint32_t changed;       /* times that code had changed, and was translated anew */
    bool first_thread_only; /* though others were wanted: the kernel is too old, or they take no signals */
    uint64_t requests;      /* for translations */
    double snapshots_user_s, snapshots_system_s; /* processor time of snapshots */
    double answer_s, take_s;                     /* of the host's threads */
    double forks_s;                              /* LAUNCH_COUNT: processor time of the program for making snapshots, */
    double copied_s;                             /* and was in the kernel for pages that it wrote after them, about */
    double after_s;                              /* what replays and the like went on for when it had ended */
};
struct launch_burst_options {
    uint64_t window_bytes; /* of records, at most; less once `take` has said how many are enough */
    uint32_t window_max;
    double interval_s;   /* mean processor time between snapshots; 0, LAUNCH_COUNT: by the time that it has used */
    double system_share; /* the program's own system time beside a second of its user time; 0: not known */
    uint64_t seed;       /* of the intervals; 0: always the same one */
    bool may_fail;       /* where there can be none the result says so, instead of an error */
    bool threads;        /* it may make threads: of all of them, not just of the first; see launch_may_make_threads */
    uint32_t steps,
        stepped_max;      /* windows of so many instructions are taken step by step too, at most so many; 0: none */
    uint32_t steps_apart; /* 0: one where each burst begins; else at one in so many moments, while nothing else is at
                             work (LAUNCH_COUNT: where one in so many bursts begins) */
    launch_plan plan;     /* of those, in a thread of its own; NULL: no slices are replayed */
    double steps_limit_s,
        expected_s;    /* that the program may wait for them, spread over so much processor time; 0: no limit */
    double after_s;    /* LAUNCH_COUNT: that replays may go on when it has ended; 0: as long as is bearable */
    double cost_share; /* LAUNCH_COUNT: of the processor time, that snapshots may cost; 0: a tenth */
    void *ctx;
    void (*begin)(void *ctx, const struct wire_bursts *file); /* it was made; nothing runs yet */
    void (*answer)(void *ctx, struct wire_bursts *file);      /* a snapshot's request */
    /* A window; in another thread than answer. Returns the bytes that it needed. */
    uint64_t (*take)(void *ctx, const struct launch_burst *w);
    /* The program has ended: all that were taken step by step, if any were wanted; NULL: not called. */
    void (*take_steps)(void *ctx, const struct wire_windows *steps);
    /* Then where code was; NULL: not called. */
    void (*finish)(void *ctx, launch_place_of place, struct spaces *spaces);
};

/* References of one thread, in order (wire/stream.h); other threads' come in between. */
struct launch_chunk {
    uint32_t area;            /* of the counter file: of one thread at a time */
    uint32_t process, thread; /* process: the area of its first thread; thread: 0 the first, else the so-many-th made */
    uint64_t begin, end;      /* time stamps; they were made between */
    uint64_t fs;              /* base of the thread's thread-local memory; 0: not known. Any number */
    uint32_t pid;             /* of the process, with `follow`; else 0 */
    bool forks;               /* then the thread makes a process by fork; there may be no entries */
    bool loads;               /* it has loaded a file, and waits; likewise */
    uint64_t number;          /* of the area: 1 the first */
    uint64_t position;        /* of the first entry (wire_position) */
    /* Of a process that was made by fork: behind which chunk of which area, that was handed over before; ID_NONE. */
    uint32_t parent;
    uint64_t parent_number;
    const struct wire_entry *entries; /* any bytes; what they say must be looked at before it is used */
    size_t count;
    struct wire_paths *paths; /* of the area, for who finds them out; until the result of the run is freed */
    bool is_between;          /* samples: references in it are what a thread made before it saw that one had ended */
    bool has_others; /* threads had been made when it was handed over: what they did meanwhile may come later */
};
/* Some samples of the references, of copies that were made for it (rewrite_options.samples). */
struct launch_samples {
    uint64_t length; /* references of one; somewhat more where there are several threads */
    double period_s; /* of the program's processor time, in which one sample begins, that of samples left out */
    double part;     /* of a period that a sample would take if nothing were told */
    bool is_even;    /* one begins at the end of each period; else at a random place of it */
    uint64_t seed;   /* of these */
};
/* That a sample of them ends. */
struct launch_executed { /* how often a counter of a module counted in it */
    uint32_t module, counter;
    uint64_t times;
};
struct launch_sample_end {
    uint64_t references; /* those left out by the filter too */
    const struct launch_executed *executed;
    size_t count;
};
/* What entries call modules, as places in launch_program.modules. */
enum { LAUNCH_TAG_BITS = 12, LAUNCH_TAGS = 1 << LAUNCH_TAG_BITS };
struct launch_tags {
    uint32_t tag[LAUNCH_TAGS], module[LAUNCH_TAGS]; /* by hash; module 0: none, else 1 more */
};
uint32_t launch_tag_module(const struct launch_tags *t, uint32_t tag); /* ID_NONE: of none */
struct launch_reference_options {
    void (*begin)(void *ctx, const struct launch_tags *tags); /* nothing runs yet; tags stay until launch_run returns */
    /* The program's process is there, and waits; NULL: not called. */
    void (*started)(void *ctx, int pid);
    /* In a thread of its own, beside the program, which waits if it is slow; within a second. */
    void (*take)(void *ctx, const struct launch_chunk *c);
    const struct launch_samples *samples; /* NULL: all references are told */
    /* Of samples: one begins (NULL), or all of it was taken. In the thread that `take` is called in. */
    void (*sample)(void *ctx, const struct launch_sample_end *end);
    /* In that thread: the process is over, or is another program now; nothing more comes of it. With `follow`; of those
     * that go on when the run ends it is not called. NULL: not called. */
    void (*ended)(void *ctx, uint32_t process);
    void *ctx;
};

enum launch_sampler { LAUNCH_SAMPLER_NONE, LAUNCH_SAMPLER_PERF, LAUNCH_SAMPLER_TIMER };
extern const char *const launch_sampler_text[];

struct launch_process { /* a program in a process, or a process that only forked, with LAUNCH_COUNT and `follow` */
    uint32_t pid, parent;
    const char *command; /* words with blanks between; NULL not known */
    bool is_fork;
    const char *refused; /* why the executable is not counted, NULL if it is */
    int status;      /* as of waitpid; -1 not known (killed by a signal, replaced by another program, still running) */
    bool is_counted; /* some of its code was */
};
/* Called for each counted process; counters: [module] as in launch_result, NULL: none. Valid until it returns. */
typedef void (*launch_each_process)(void *ctx, size_t process, uint64_t *const *counters);

struct launch_result {
    int status;                      /* as of waitpid */
    double user_s, system_s, wall_s; /* of the program and its waited-for children (rusage) */
    double before_s;                 /* processor time of its process before it was the program's */
    /* In a run with probes, of both: what the process took until it began with its own code (exec, the dynamic linker),
     * and behind its exit handlers (nearly all of it the kernel's, which takes it down); 0: not known. */
    double start_s, after_exit_s;
    double landed_s;                 /* of both: what mtool took where exceptions and longjmp came to */
    long max_rss_kb;                 /* 0: not known (no larger than mtool itself, whose size the kernel hands on) */
    uint32_t processes, threads_max; /* as far as seen; 0: not looked at (plain runs); threads_max 1: none created */
    bool threads_seen;
    uint32_t in_background; /* pid of a process that it made and that went on behind its end, as servers do; 0 none */
    bool is_daemon;         /* and that in a session of its own */
    bool got_end_signal;    /* mtool or its process group got a signal that ends programs, which the program got too */
    const char *executed;   /* the program replaced itself by this one (exec, as wrapper scripts do): only the first is
                               counted, so the user had better name this one; NULL: it did not, or was not seen to */
    /* LAUNCH_COUNT */
    uint64_t *
        *counters; /* [counters_len] by module, summed over areas; NULL for those without a copy or never loaded */
    size_t counters_len; /* module_count when the run ended; a later run may append modules */
    struct rewrite_side_exits
        *side_exits;             /* [counters_len] likewise: where faults left blocks, in all processes and threads */
    uint64_t ***thread_counters; /* [thread_counters_len][counters_len], NULL likewise: of each thread, in the order of
                                    their making, the program's first thread first */
    size_t thread_counters_len;  /* 0: one thread, very many, or not each had counters of its own */
    uint32_t flags;              /* WIRE_* */
    uint32_t forks;
    struct launch_process *each; /* in order of time; none unless followed */
    size_t each_count;
    bool not_followed; /* asked for, but the kernel or the mode does not allow it */
    /* LAUNCH_SAMPLED; LAUNCH_COUNT too, if it was sampled from outside (sample_hz): addresses in a copy that the
     * original has not are as in the copy */
    enum launch_sampler sampler;
    const char *sampler_note;        /* why it is not LAUNCH_SAMPLER_PERF, else NULL */
    struct observed_sample *samples; /* sorted by module, then address; their counts add up to samples_all */
    size_t sample_count;
    uint64_t samples_all, samples_user, samples_lost; /* user + kernel = all */
    bool samples_user_only;                           /* the kernel's part was not allowed to be sampled: all == user */
    double sample_period_s;
    struct observed_thread *threads; /* of the program itself, not of processes that it makes */
    size_t thread_count;
    struct observed_thread_sample *thread_samples;
    size_t thread_sample_count;
    struct observed_frame *frames;
    size_t frame_count;
    struct observed_moment *moments; /* when samples were taken, in no order; of very long runs the beginning */
    size_t moment_count;
    /* LAUNCH_PROBED, after launch_copies_make with REWRITE_PROBE */
    struct observed_probe *probes; /* by module, then cell; those of modules that were not loaded are missing */
    size_t probe_count;
    /* LAUNCH_REFERENCES, after launch_copies_make with REWRITE_REFERENCES and `threads` */
    uint64_t references_lost;  /* entries that were thrown away, since nobody took them in time, or before the start */
    struct wire_paths **paths; /* [paths_len] of chunks that were handed over */
    size_t paths_len;
    bool references_broken; /* an area was, by a program that writes where it has no business */
    /* LAUNCH_BURSTS, LAUNCH_COUNT with bursts */
    const char *windows_note; /* why there are none, nor bursts, else NULL; */
    bool was_not_run;         /* then perhaps nor was the program */
    bool tried_windows;       /* LAUNCH_COUNT: there could have been some, for all that mtool and the kernel do */
    struct launch_burst_counts bursts;
    struct arena *arena;
};
struct launch_options {
    enum launch_how how;
    enum launch_mode mode;  /* for LAUNCH_COUNT: the one that launch_copies_make was called for */
    double sample_hz;       /* 0: 997, about 1 kHz but not in step with the kernel's tick; LAUNCH_COUNT: 0 none */
    bool threads;           /* LAUNCH_COUNT with sample_hz: also what threads do */
    bool may_sample_itself; /* LAUNCH_COUNT with sample_hz: by a timer inside the program where perf_event is refused */
    bool follow;            /* LAUNCH_COUNT: also count the programs that it executes */
    launch_each_process each;                  /* with follow */
    void *ctx;                                 /* for each */
    const struct launch_burst_options *bursts; /* LAUNCH_BURSTS; LAUNCH_COUNT: or NULL, takes them in that run */
    const struct launch_reference_options *references; /* LAUNCH_REFERENCES */
    const char *progress;                              /* what that is, NULL: as for every run of its kind */
    bool mute;        /* a further run: the program's output goes nowhere, and a terminal sees progress instead */
    bool force_timer; /* use the fallback sampler even where perf_event works, for tests */
};
/* Runs the program once; its stdin, stdout, stderr, terminal, signals and status are its own. Signals that mtool gets
 * while waiting (INT, TERM, HUP, QUIT, TSTP...) are passed on or left to the terminal; the program's own end decides.
 * Modules seen mapped but not in the list are appended to p->modules with found_at_run_time. 0 if it ran (whatever its
 * status), or -1 after one line (could not be started). Leaves no child and no temporary file behind. */
int launch_run(struct launch_program *p, const struct launch_options *opt, struct launch_result **out);
void launch_result_free(struct launch_result *r);
/* Ends this process with the program's own end: exit status, or the same signal (core dumps switched off for mtool
 * itself). */
_Noreturn void launch_exit_like(int status);

#endif
