/* SPDX-License-Identifier: Apache-2.0
 * What the files of launch share: small checked records on disk, identities of files, the start of a program, the
 * counter file, address spaces, samplers. Nothing here is for other folders. */
#ifndef MTOOL_LAUNCH_IMPL_H
#define MTOOL_LAUNCH_IMPL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "launch/launch.h"

/* ---- record.c: a small text file of "name value" lines that ends with its own hash, whole or absent ---- */

/* The lines without the hash, in `a`; NULL if the file is missing, cut off or changed. */
char *record_read(struct arena *a, const char *path);
int record_write(const char *path, struct strbuf *lines); /* 0, or -1 with errno; appends the hash to `lines` */
/* The value of the line that starts with NAME and a blank, up to the end of the line, in `a`; NULL if there is none. */
const char *record_get(struct arena *a, const char *lines, const char *name);
uint64_t record_get_u64(const char *lines, const char *name); /* 0 if there is none */

/* ---- identity.c: what a file is, known from an earlier look as long as its stat did not change ---- */

struct identity {
    const char *key; /* image key */
    enum image_kind kind;
    const char *interp;  /* PT_INTERP, NULL if none */
    const char *soname;  /* DT_SONAME, NULL if none */
    const char *foreign; /* foreign run time, NULL if none */
    bool owns_layout;    /* a sanitizer that knows where mappings may lie */
    bool makes_threads;  /* asks for a function that makes threads, or may hold one */
};
bool identity_known(struct arena *a, const char *path, struct identity *out);
int identity_read(struct arena *a, const char *path,
                  struct identity *out); /* known, else opens the file; -1 after one line */

/* ---- libraries.c ---- */

/* Appends what INTERP --list says that the executable needs, and what earlier runs saw. 0, or -1 after one line. */
int libraries_list(struct launch_program *p, const char *interp);
struct launch_module *module_find(const struct launch_program *p, const char *path); /* by original or copy; or NULL */
struct launch_module *module_add(struct launch_program *p, const char *path, const char *soname); /* finds or appends */

/* ---- copy.c: one rewritten module in the cache ---- */

struct copy {
    const char *file, *map; /* NULL if refused */
    const char *refused;    /* why, NULL if not */
    uint8_t wire_key[WIRE_KEY_BYTES];
    uint32_t counter_count;
    bool owns_gs;       /* see rewrite_map */
    bool wants_samples; /* see rewrite_stats */
};
const char *copies_dir(struct arena *a);
/* From the cache: true if there is a whole copy, or a refusal. Marks it as used now. */
bool copy_known(struct arena *a, const char *path, const struct rewrite_options *opt, struct copy *out);
int copy_make(struct arena *a, const char *path, const struct rewrite_options *opt); /* 0, or -1 after one line */
/* So that the next start does not try again. Not where the disk is nearly full, which may have been the reason. */
void copy_remember_refusal(struct arena *a, const char *path, const struct rewrite_options *opt, const char *reason);
void copy_remove_dir(const char *dir); /* a folder of plain files */

/* ---- feedback.c ---- */

/* The options with the profile feedback that an earlier run of this program left for the module, if there is one. */
struct rewrite_options feedback_options(const struct launch_program *p, size_t module,
                                        const struct rewrite_options *opt);
const char *feedback_dir(struct arena *a);
const char *heat_path(const struct launch_program *p, size_t module); /* NULL if the module's identity is not known */

/* ---- heat.c ---- */

struct launch_heat *heat_new(void); /* shared with processes that are made later; NULL: no memory */
void heat_free(struct launch_heat *h);
void heat_note(struct launch_heat *h, uint32_t module, uint64_t vaddr); /* a sample; h NULL: nobody wants it */
/* Of a copy that is to be made ahead: with the samples that there are when they are needed. */
void heat_begin(const struct launch_program *p, size_t module, struct rewrite_options *opt);
/* After a run of which nothing was made ahead: samples of it, by address, if they are worth a copy. */
void heat_keep(const struct launch_program *p, size_t module, const struct rewrite_sample *samples, size_t count);
/* Makes copies of hot modules again, as samples come, until there are so many that more say nothing new. */
void heat_go_on(struct launch_program *p, const struct rewrite_options *opt);

/* ---- evict.c, cache.c ---- */

void copies_evict(void);
/* launch_copies_make for the first `module_count` modules, without the folder of links; the second by at most so many
 * processes at a time. */
int copies_make(struct launch_program *p, const struct rewrite_options *opt, size_t module_count);
int copies_make_by(struct launch_program *p, const struct rewrite_options *opt, size_t module_count, size_t max);
void copies_ahead_end(struct launch_program *p);
bool copies_take_known(struct launch_program *p, size_t module, const struct rewrite_options *opt); /* from the cache */

/* ---- space.c: processes and what they mapped executable; events must come in order of time ---- */

struct spaces;
struct spaces *spaces_new(struct launch_program *p, pid_t root_pid);
void spaces_free(struct spaces *s);
void spaces_fork(struct spaces *s, uint32_t pid, uint32_t parent);
void spaces_take_out(struct spaces *s, uint32_t pid); /* it is none of the program's, whatever was said before */
void spaces_thread_start(struct spaces *s, uint32_t pid);
void spaces_thread_end(struct spaces *s, uint32_t pid);
void spaces_exec(struct spaces *s, uint32_t pid);
/* A file that is no module of the program yet becomes one. Names as the kernel gives them: "//anon", "[vdso]". */
void spaces_map(struct spaces *s, uint32_t pid, uint64_t addr, uint64_t len, uint64_t file_offset, const char *path);
/* Module and address in its original file; false if it is in none. */
bool spaces_locate(struct spaces *s, uint32_t pid, uint64_t addr, uint32_t *module, uint64_t *vaddr);
uint32_t spaces_threads(struct spaces *s, uint32_t pid); /* alive now, as far as told */
/* The program that the root process executed in place of the one that was started; NULL if it did not. */
const char *spaces_executed(const struct spaces *s);
uint32_t spaces_root(const struct spaces *s); /* its pid */
struct launch_program *spaces_program(const struct spaces *s);
uint32_t spaces_processes(const struct spaces *s);
struct spaces_left { /* a process, not the root, that goes on now */
    uint32_t pid;    /* 0 none */
    bool has_own_session;
    bool is_other; /* it executed another program */
};
/* One in a session of its own before others, and of these one of the program itself. */
struct spaces_left spaces_left(const struct spaces *s);
uint32_t spaces_threads_max(const struct spaces *s);
bool spaces_threads_seen(const struct spaces *s);

/* ---- stacks.c ---- */

struct stack_bytes { /* a copy of memory from an address on */
    uint64_t from;
    const uint8_t *bytes;
    size_t len;
};
struct stacks;
struct stacks *stacks_new(struct launch_program *p, struct spaces *spaces);
void stacks_free(struct stacks *k);
/* To be called again and again while a large file's tables are read, which takes longer (node's half a second) than a
 * processor's ring lasts (31 samples). */
void stacks_meanwhile(struct stacks *k, void (*meanwhile)(void *ctx), void *ctx);
/* The node of the frame that f is, which is used up; see struct observed_frame. */
uint32_t stacks_walk(struct stacks *k, uint32_t pid, struct image_frame *f, const struct stack_bytes *stack);
uint32_t stacks_single(struct stacks *k, struct observed_place at); /* of whose callers nothing is known */
void stacks_fill(const struct stacks *k, struct launch_result *out);

/* ---- threads.c: what the program's own threads do; events come in order of time, CLOCK_MONOTONIC ---- */

enum threads_state { THREADS_WAITS, THREADS_PREEMPTED /* wants the processor that it lost */, THREADS_RUNS };
struct threads;
struct threads *threads_new(bool wants_stacks);
void threads_watch(struct threads *t, struct launch_program *p,
                   struct spaces *spaces); /* spaces outlive what comes in */
struct stacks *threads_stacks(const struct threads *t);
bool threads_want_stacks(const struct threads *t);
void threads_free(struct threads *t);
void threads_exec(struct threads *t, uint32_t tid, uint64_t time_ns); /* nothing counts before the first */
void threads_begin(struct threads *t, uint32_t tid, uint64_t time_ns);
void threads_end(struct threads *t, uint32_t tid, uint64_t time_ns);
void threads_switch(struct threads *t, uint32_t tid, enum threads_state turn, uint64_t time_ns);
/* The kernel's account: processor time so far, and time that it wanted one. Before the exec: of the first thread. */
void threads_usage(struct threads *t, uint32_t tid, uint64_t cpu_ns, uint64_t delay_ns, uint64_t time_ns);
/* `seen` without thread and count; time_ns 0: not known. */
void threads_sample(struct threads *t, uint32_t tid, uint64_t time_ns, const struct observed_thread_sample *seen);
void threads_close(struct threads *t, uint64_t end_ns); /* the program has ended; samples may still come */
void threads_fill(const struct threads *t, struct launch_result *out);

/* ---- tasks.c: the same from /proc ---- */

enum { TASKS_LOOK_MS = 3 };
struct tasks;
struct tasks *tasks_new(void);
void tasks_free(struct tasks *k);
/* Where threads wait now. tells_lives: also when they began and ended, since nobody else tells. */
void tasks_look(struct tasks *k, pid_t pid, struct threads *t, bool tells_lives);
void tasks_look_before(pid_t pid, struct threads *t); /* at a process that has not executed the program yet */

/* ---- sampler.c ---- */

enum sampler_purpose { SAMPLER_MAPS /* only who maps, forks, executes */, SAMPLER_SAMPLES };
struct sampler_counts {
    uint64_t all, user, lost;
    bool user_only;
    double period_s;
};
struct sampler;
/* For a process that has not executed the program yet; `threads` (or NULL) hears of what concerns them. NULL if the
 * kernel refuses (nothing reported). */
struct sampler *sampler_open(pid_t pid, struct spaces *spaces, struct threads *threads, enum sampler_purpose purpose,
                             double hertz);
/* The processes in that growing list are nobody's: nothing is told of them. To be called before anything is read. */
void sampler_exclude(struct sampler *f, const struct wire_bursts *snapshots);
void sampler_drain(struct sampler *f, bool is_last); /* to be called several times a second, and once after the end */
struct sampler_counts sampler_result(const struct sampler *f);
const struct map *sampler_places(const struct sampler *f); /* sample_key -> count */
void sampler_close(struct sampler *f);

static inline uint64_t sample_key(uint32_t module, uint64_t vaddr)
{
    return (uint64_t)(module == ID_NONE ? 0 : module + 1) << 48 | (vaddr & ((1ull << 48) - 1));
}

bool sampler_is_allowed(enum sampler_purpose purpose);

/* ---- procfs.c: the same from /proc, a few times a second ---- */

void procfs_look(pid_t pid, struct spaces *spaces);                     /* mappings and threads of one process now */
void procfs_take_maps(char *text, uint32_t pid, struct spaces *spaces); /* text of a maps file; is cut up */
int procfs_read(const char *path, struct strbuf *out);                  /* a small file, appended; -1: none */
size_t procfs_threads(pid_t pid, pid_t *tids, size_t max);              /* of a process, at most so many */
uint64_t procfs_private_kb(pid_t pid);                                  /* memory of its own; 0 if gone */
void procfs_end_first(pid_t pid);                                       /* if memory runs out */
uint64_t procfs_available_kb(void);                                     /* of the machine */
long procfs_peak_rss_kb(pid_t pid);                                     /* VmHWM, 0 if gone */
bool procfs_is_stopped(pid_t pid);
bool procfs_is_alive(pid_t pid);
uint64_t procfs_pending(pid_t pid);    /* signals of the process that wait, bit 0 is signal 1 */
uint32_t procfs_parent(pid_t pid);     /* 0 if gone */
uint32_t procfs_process_of(pid_t tid); /* the process that a thread belongs to, 0 if gone */
bool procfs_is_descendant(pid_t pid, pid_t ancestor);

/* ---- signals.c: signals while a program runs ---- */

struct signals {
    sigset_t mask_before;
    struct sigaction child_before;
    int fd;              /* signalfd */
    pid_t sentinel;      /* of mtool's process group; -1 none */
    bool got_end_signal; /* mtool or the whole group was, by somebody else than the program */
};
/* SIGCHLD as by default while mtool waits for children of its own (an inherited SIG_IGN would reap them unseen). */
struct sigaction signals_keep_children(void);
void signals_unkeep_children(const struct sigaction *before);
/* A thread of mtool's that takes none: they are for the one that waits for the program. False: it cannot be made. */
bool signals_thread(pthread_t *thread, void *(*run)(void *), void *arg);
int signals_begin(struct signals *s);          /* 0, or -1 after one line */
void signals_restore(const struct signals *s); /* the state before signals_begin, in this process (also in a child) */
void signals_watch_group(struct signals *s);   /* until signals_end */
void signals_end(struct signals *s);
/* Reads what came; passes on what was for mtool alone, unless the program has ended. */
void signals_take(struct signals *s, pid_t program, bool has_ended);
void signals_stop_like(struct signals *s, pid_t program, int signal); /* the program was stopped by it */

/* ---- program.c ---- */

const char *program_locate(struct arena *a, const char *name); /* as execvp finds it; NULL after one line */
int program_check_file(const char *path, struct stat *st);     /* 0, or -1 after one line: it cannot be executed */

/* ---- process.c: one start of a program and its end ---- */

enum watch {
    WATCH_NOTHING,
    WATCH_MAPS,         /* mappings, processes and threads: by perf, else by /proc */
    WATCH_MAPS_BY_PROC, /* only by /proc */
    WATCH_SAMPLES
};
struct bind {
    const char *copy, *over;
};
void process_fill_samples(const struct map *places, struct launch_result *out); /* keys: sample_key */
struct start {
    struct launch_program *p;
    const char *path;         /* for execve */
    const char *const *argv;  /* the same */
    const char *env_extra[3]; /* "NAME=value" appended to the environment; NULL none */
    const struct bind *binds; /* made first, unless the mode is LAUNCH_MODE_PATH */
    size_t bind_count;        /* 0: no namespace is made at all */
    enum launch_mode mode;
    enum watch watch;
    uint64_t more_bytes; /* of address space, if that is limited */
    bool maps_upwards;   /* new mappings are placed from low addresses to high, so that there is room above them */
    double hertz;
    struct follow *follow; /* if not NULL, is asked before each exec */
    const char *mute; /* if not NULL, standard output and error go nowhere, and this is said on a terminal meanwhile */
    struct spaces **keep_spaces;         /* if not NULL, takes what was watched; the caller frees it */
    struct threads *threads;             /* if not NULL, hears what the threads do; the caller frees it */
    const struct wire_bursts *snapshots; /* if not NULL, whose snapshots are none of the program's processes */
    const struct launch_reference_options *references; /* if not NULL, is told when the process is there */
    atomic_int *references_pid;                        /* likewise, gets its number */
    const struct launch_watcher *watcher;              /* if not NULL, is told of begin and end */
};
/* Runs it to its end. Fills status, times, processes, samples. 0, or -1 after one line if it could not be started. */
int process_run(const struct start *s, struct launch_result *r);

/* ---- mode.c ---- */

struct mode_fail { /* crosses a pipe */
    int err;       /* errno */
    int step;      /* index of a text */
    int bind;      /* index of the one that failed, or -1 */
};
/* In a child that has not executed yet. 0, or -1 with *fail. */
int mode_enter(enum launch_mode mode, const struct bind *binds, size_t bind_count, struct mode_fail *fail);
const char *mode_step_text(int step);

/* ---- scratch.c: a file shared with the program, in memory if possible ---- */

struct scratch_size {
    uint64_t fixed_bytes, part_bytes, part_max; /* the file holds the fixed part and 1 to part_max parts */
    uint64_t part_used_bytes;                   /* of a part that are ever written to, as far as known; 0: all */
};
struct scratch {
    char path[256];
    int fd;
    uint64_t parts; /* that it has room for */
};
int scratch_open(struct scratch *s, const struct scratch_size *size); /* 0, or -1 after one line; removes left-overs */
/* The same, and all of it mapped; NULL after one line. *bytes: of the mapping. */
void *scratch_map(struct scratch *s, const struct scratch_size *size, size_t *bytes);
void scratch_close(struct scratch *s); /* and removes it */

/* ---- limits.c ---- */

void limits_restore(uint64_t more_bytes); /* in a child: as mtool was given them; more_bytes of address space on top */
uint64_t limits_more_bytes(const struct launch_program *p); /* what its copies take more than the originals */

/* ---- counters.c ---- */

struct counters {
    struct scratch file;                  /* fd -1: nothing to count */
    struct wire_header *header;           /* mapped; NULL likewise */
    struct wire_header *plan;             /* what mtool wrote into it */
    uint32_t module_of[WIRE_MODULES_MAX]; /* place in the header -> program.modules */
};
/* With room for modules to come if `grows`. 0, or -1 after one line. */
int counters_open(struct counters *c, const struct launch_program *p, bool grows, bool has_streams);
void counters_sum(const struct counters *c, const struct launch_program *p, struct launch_result *r);
void counters_of_threads(const struct counters *c, struct launch_result *r); /* after counters_sum */
typedef VEC(struct launch_executed) launch_executed_vec;
/* What was counted since it was asked last, appended. before: [WIRE_MODULES_MAX] what was then, the caller's to free;
 * NULLs at first. */
void counters_since(const struct counters *c, uint64_t **before, launch_executed_vec *out);
void counters_close(struct counters *c);

bool counters_add(struct counters *c, const struct launch_program *p, uint32_t module); /* false: no room left */
/* Instead, of copies that probe: fills r->probes. now: time stamp of the program's end. */
void probes_sum(const struct counters *c, const struct launch_program *p, uint64_t now, struct launch_result *r);
struct counters_area { /* who counted into it */
    uint32_t pid, parent;
    uint64_t time_ns; /* CLOCK_MONOTONIC, when it was taken */
};
size_t counters_areas(const struct counters *c, struct counters_area *out, size_t max);
/* Adds one area's counters to sums[module][] (made in `a` where NULL), of modules that it counted. */
void counters_sum_area(const struct counters *c, size_t area, struct arena *a, uint64_t **sums);

/* ---- references.c ---- */

struct references_cut { /* of an area: where a sample begins or ends */
    uint64_t chunk, bytes, time;
    bool begins;
};
struct references_area {
    struct wire_stream *stream;    /* NULL: cannot be read, or its process is over */
    struct wire_paths *paths;      /* NULL: could never be read */
    bool is_known;                 /* of a process's first thread, whose number is that in mtool's own namespace */
    uint64_t taken;                /* chunks */
    uint64_t taken_bytes;          /* of the next one */
    uint64_t since;                /* samples: what comes next was made later than that */
    bool is_in;                    /* a sample: what comes next */
    struct references_cut cuts[2]; /* what comes later, in order */
    unsigned cut_count;
    uint64_t put;      /* where its next entry went when it was looked at, and ... */
    uint64_t put_seen; /* ... the time stamp of the first such look */
    int64_t given;     /* references of the sample that runs; 0: it has not begun here */
    uint64_t told;     /* in those before */
};
struct reference_samples; /* reference_samples.c */
struct reference_queue;   /* reference_queue.c */
struct references {
    const struct counters *counters;
    const struct launch_reference_options *opt;
    struct launch_tags *tags;
    struct references_area *areas; /* [WIRE_AREAS_MAX] */
    uint32_t area_count;
    uint64_t lost;
    bool is_broken, is_running;
    double looked_s; /* for processes that are over */
    uint64_t looked; /* for threads that wait; time stamp */
    pthread_t thread;
    atomic_bool ends;
    atomic_int pid;                    /* of the program's process; 0: not there yet */
    struct reference_samples *samples; /* NULL: all references are told */
    struct reference_queue *queue;     /* likewise */
};
bool references_take_chunk(struct references *s, uint32_t area); /* one that is full; false: it has none */
void references_take_rest(struct references *s, uint32_t area);  /* the chunk that was begun last; no more comes */
/* Of the entries from `at` up to `put`, in bytes from the stream's begin, where those end that are made for certain:
 * the last one may be under way, and so is one of which nothing stands there, as events of calls have their first word
 * written last. How long that one is nobody knows yet. */
uint64_t references_end_of_made(const struct wire_stream *w, uint64_t at, uint64_t put);
/* Of the chunk that was begun last what is made for certain, which was before that time stamp: all but the last entry.
 * (Of what the handler of a signal interrupted an entry may be lost.) */
void references_take_made(struct references *s, uint32_t area, uint64_t until);
/* ended.c, of processes that are followed: */
void references_see_begin(struct references *s, uint32_t area); /* the area's first chunk is full: its thread waits */
void references_see_ends(struct references *s);                 /* some times a second */
/* 0, or -1 after one line. references_end in either case. */
int references_begin(struct references *s, const struct launch_program *p, const struct counters *c,
                     const struct launch_reference_options *opt);
void references_end(struct references *s, struct launch_result *r); /* the program has ended, or was not run */
/* What an area's next chunk has up to that place, of what was not handed over yet. */
void references_hand_over(struct references *s, uint32_t area, const struct wire_chunk *c, uint64_t to_bytes);
bool references_go_round(struct references *s); /* hands over chunks that are full; false: there was none */

/* reference_samples.c: when samples begin and end. In the thread that reads. */
struct reference_samples *reference_samples_new(const struct launch_samples *opt);
void reference_samples_free(struct reference_samples *m);
/* Begins or ends one if it is time for that. Nanoseconds until it may be so again. */
uint64_t reference_samples_step(struct references *s);
void reference_samples_end(struct references *s); /* the program has ended, and all was handed over */

/* reference_queue.c: what was read, to the caller's functions in a thread of its own, so that the program need not wait
 * for them as long as there is room. */
struct reference_queue *reference_queue_new(const struct launch_reference_options *opt);
void reference_queue_take(struct reference_queue *q, const struct launch_chunk *c);
void reference_queue_begin_sample(struct reference_queue *q);
void reference_queue_end_sample(struct reference_queue *q, uint64_t references,
                                launch_executed_vec executed); /* frees */
void reference_queue_wait(struct reference_queue *q);          /* until all of it was taken */
void reference_queue_free(struct reference_queue *q);          /* likewise */

/* ---- follow.c ---- */

struct follow_image { /* a program in a process, or a process that only forked */
    uint32_t pid, parent;
    const char *command; /* NULL: not known */
    const char *refused; /* why it is not counted, NULL if it is */
    int status;          /* as of waitpid; -1 unknown: replaced by another program, killed by a signal */
    bool is_fork;
    uint64_t time_ns, end_ns; /* CLOCK_MONOTONIC */
};
struct follow;
struct follow *follow_new(struct launch_program *p, struct counters *c, const struct rewrite_options *opt);
void follow_free(struct follow *f);
void follow_install(int socket); /* in the program's process, before it executes; closes the socket */
int follow_begin(struct follow *f, int socket, pid_t pid, enum launch_mode mode); /* -1: the kernel refuses */
int follow_fd(const struct follow *f);                                            /* to poll; -1 none */
void follow_take(struct follow *f);                                               /* what is asked now */
const struct follow_image *follow_images(const struct follow *f, size_t *n);      /* in order of time */

/* ---- originals.c ---- */

struct originals;
/* The file, yet empty; *path: its. NULL after one line. p and c must stay as long. */
struct originals *originals_open(const struct launch_program *p, const struct counters *c, const char **path);
void originals_fill(struct originals *s);
void originals_answer(struct originals *s, struct wire_place *places, uint32_t count);
void originals_close(struct originals *s);

/* ---- ticks.c ---- */

struct sleeper {
    pid_t pid;
    double at_s; /* processor time of the process when it was made */
};
struct ticks {
    struct wire_bursts *b;
    struct wire_windows *steps; /* NULL: none are wanted */
    struct originals *originals;
    const struct launch_burst_options *opt;
    pid_t pid;
    uint32_t taken;
    double began_s;
    uint64_t random;
    uint64_t spent_ns, faults, pages; /* as of the last snapshot */
    double cost_s;                    /* of all of them */
    double copied_s;                  /* the program was in the kernel for pages that snapshots shared, about */
    VEC(pid_t) waiting;               /* checkpoints */
    VEC(struct sleeper) sleepers;     /* snapshots, the oldest first */
    pthread_t thread;
    bool is_running;
    atomic_bool ends, is_over;
};
bool ticks_begin(struct ticks *t);          /* in a thread of its own, which fills the originals first */
void ticks_end(struct ticks *t, bool wait); /* for checkpoints that wait, as long as is bearable */

/* ---- processes.c ---- */

void processes_fill(const struct launch_options *opt, const struct follow *f, const struct counters *c,
                    struct launch_result *r);

/* ---- in_process.c ---- */
/* The executable's copy that carries only the runtime, found or made; NULL if it could not be, then *why (unless NULL)
 * may say why. */
const char *in_process_copy(struct launch_program *p, const char **why);
struct in_process_run {
    const char *copy, *name, *file; /* what the environment gives the runtime: name=file */
    const char *mute;
    struct spaces **spaces;  /* the caller frees them */
    struct threads *threads; /* as in struct start */
};
/* Runs it to its end. 0, or -1 after one line. */
int in_process_run(struct launch_program *p, const struct in_process_run *run, struct launch_result *r);

/* ---- timer.c ---- */

/* The file that a copy notes samples in, named to it by WIRE_SAMPLES_ENV; hertz 0: as is usual. NULL after one line. */
struct wire_samples *timer_open(struct scratch *f, double hertz, size_t *bytes);
/* Fills what is known of samples, or why there are none; threads may be NULL. After the end, with r's times. */
void timer_take(const struct wire_samples *s, struct spaces *spaces, struct threads *threads, struct launch_result *r);

/* Runs the program under the fallback sampler, as `plain` says of output and threads. 0 with *ran false: nothing was
 * started, see r->sampler_note. */
int timer_run(struct launch_program *p, double hertz, const struct start *plain, struct launch_result *r, bool *ran);

/* ---- windows.c ---- */
struct windows { /* taken step by step */
    struct scratch file;
    struct wire_windows *w;
    size_t bytes;
    launch_plan plan;
    void *ctx; /* of the plan */
    pthread_t server;
    bool is_served;
    atomic_bool ends;
};
/* The file, made for the options. 0, or -1 after one line. */
int windows_open(struct windows *s, const struct launch_burst_options *opt);
void windows_close(struct windows *s);
/* Slices are planned from now on until the end, which waits for what is at work when the program ends, unless that was
 * interrupted. */
void windows_begin(struct windows *s);
void windows_end(struct windows *s, bool wait);
uint64_t launch_place(struct spaces *spaces, uint64_t pc); /* see launch_place_of */

/* ---- bursts.c ---- */
/* Runs the program with bursts taken. Fills r->bursts, or windows_note. 0, or -1 after one line. */
int bursts_run(struct launch_program *p, const struct launch_options *opt, const char *mute, struct launch_result *r);
/* The same within a counted run that is sampled by perf_event: changes the start before it, and takes what came after
 * it (has_run: else nothing). NULL: there are no windows (r->windows_note), or *failed after one line. */
struct bursts;
struct bursts *bursts_start(struct launch_program *p, const struct launch_options *opt, const struct counters *c,
                            struct start *start, struct launch_result *r, bool *failed);
void bursts_stop(struct bursts *s, bool has_run, struct launch_result *r);

#endif
